//! An issuer of tokens: a server with a document of discovery and keys, and a pen that signs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::spawn;

/// A server of an issuer. It ends when it is dropped.
pub struct Issuer {
    port: u16,
    state: Arc<State>,
    server: AbortHandle,
}

struct State {
    keys: Mutex<Vec<SigningKey>>,
    /// Whether requests get no answer, or which status they get.
    manner: Mutex<Answers>,
    key_fetches: AtomicUsize,
}

/// How requests are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    Well,
    WithStatus(u16),
    Never,
}

struct SigningKey {
    kid: String,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    fn new(kid: &str) -> SigningKey {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let document = document.expect("a key");
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
        SigningKey {
            kid: kid.to_owned(),
            pair: pair.expect("a key"),
        }
    }

    fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..65]].map(|half| URL_SAFE_NO_PAD.encode(half));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid, "x": x, "y": y})
    }
}

impl Issuer {
    /// Starts an issuer with one key, `k1`.
    pub async fn start() -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            keys: Mutex::new(vec![SigningKey::new("k1")]),
            manner: Mutex::new(Answers::Well),
            key_fetches: AtomicUsize::new(0),
        });
        let shared = state.clone();
        let server = spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                spawn(serve(stream, port, shared.clone()));
            }
        });
        Issuer {
            port,
            state,
            server: server.abort_handle(),
        }
    }

    /// Returns what its tokens have in `iss`.
    pub fn name(&self) -> String {
        format!("http://127.0.0.1:{}/oauth2", self.port)
    }

    /// Returns the keys as they are published.
    pub fn key_set(&self) -> Value {
        key_set(&self.state)
    }

    /// Returns how often the keys were fetched.
    pub fn key_fetches(&self) -> usize {
        self.state.key_fetches.load(Ordering::SeqCst)
    }

    /// Sets how requests are answered from now on.
    pub fn answers(&self, answers: Answers) {
        *self.state.manner.lock().expect("the answers") = answers;
    }

    /// Signs with a new key from now on. The old ones are published no longer.
    pub fn rotate(&self, kid: &str) {
        *self.state.keys.lock().expect("keys") = vec![SigningKey::new(kid)];
    }

    /// Makes a token for `portcullis` of this subject and these groups, which lives five minutes.
    pub fn token(&self, subject: &str, groups: &[&str]) -> String {
        self.token_with(json!({"sub": subject, "groups": groups}))
    }

    /// Makes a token with these claims. Those that are `null` are left out, and those that are not
    /// there are as in [`Issuer::token`].
    pub fn token_with(&self, claims: Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("now");
        let mut all = json!({
            "iss": self.name(), "aud": "portcullis", "sub": "alice", "iat": now.as_secs(), "exp": now.as_secs() + 300,
        });
        let members = all.as_object_mut().expect("claims");
        for (name, value) in claims.as_object().expect("claims") {
            match value {
                Value::Null => members.remove(name),
                value => members.insert(name.clone(), value.clone()),
            };
        }
        let keys = self.state.keys.lock().expect("keys");
        let key = keys.first().expect("a key");
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": key.kid});
        let parts = [header, all].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = parts.join(".");
        let signature = key.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature.expect("a signature"));
        format!("{signed}.{signature}")
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn key_set(state: &State) -> Value {
    let keys = state.keys.lock().expect("keys");
    json!({"keys": keys.iter().map(SigningKey::public).collect::<Vec<_>>()})
}

async fn serve(mut stream: TcpStream, port: u16, state: Arc<State>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8(head).expect("a head");
    let path = head.split(' ').nth(1).unwrap_or_default();
    let manner = *state.manner.lock().expect("the answers");
    let issuer = format!("http://127.0.0.1:{port}/oauth2");
    let (status, body) = match (manner, path) {
        (Answers::Never, _) => return std::future::pending().await,
        (Answers::WithStatus(status), _) => (status, json!({"error": "out"})),
        (Answers::Well, "/oauth2/.well-known/openid-configuration") => {
            let keys = format!("http://127.0.0.1:{port}/keys");
            (200, json!({"issuer": issuer, "jwks_uri": keys}))
        }
        (Answers::Well, "/keys") => {
            state.key_fetches.fetch_add(1, Ordering::SeqCst);
            (200, key_set(&state))
        }
        (Answers::Well, _) => (404, json!({"error": "no such path"})),
    };
    let body = body.to_string();
    let answer = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // The gateway may have given up.
    let _written = stream.write_all(answer.as_bytes()).await;
}
