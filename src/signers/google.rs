//! A [`Token`] is Google's credential for Vertex AI. A service account's key signs an assertion,
//! and Google trades the assertion for a token (RFC 7523).
//!
//! This module reads no clock and sends nothing: its caller posts [`ServiceAccount::form`] to
//! [`ServiceAccount::token_uri`], and gives the answer to [`parse_token`]. The private key, and all
//! that is made with it, are [`Secret`]s. No error quotes the key's file.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;

use super::courier::{Answer, Courier, Credential, Fault, Obtained, Request, shorten_text};
use crate::base::calendar::unix_time;
use crate::base::secret::Secret;
use dialects::UpstreamError;
use dialects::upstream::openai;
use dialects::upstream::shared::lenient::Count;
use dialects::wire::json::Writer;

/// A service account, as its key file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccount {
    email: String,
    /// Its private key: PKCS #8 in PEM.
    pub key: Secret,
    key_id: Option<String>,
    /// The address to which the form is posted.
    pub token_uri: String,
    /// The project of the account, if the file names one.
    pub project: Option<String>,
}

/// A token, and the time for which it is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The value for `Authorization: Bearer`.
    pub access_token: Secret,
    /// The time from now until the token is of no use.
    pub expires_in: Duration,
}

/// The address that grants tokens, unless the key file names another.
pub const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// What the tokens are for.
pub const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The longest lifetime of an assertion that Google allows, in seconds.
const MAX_ASSERTION_LIFETIME: u64 = 3600;
/// The lifetime of a token if the answer has none that can be true, in seconds.
const DEFAULT_TOKEN_LIFETIME: u64 = 3600;
/// The longest time for which a token is used, in seconds, whatever the answer says.
const MAX_TOKEN_LIFETIME: u64 = 24 * 3600;

impl ServiceAccount {
    /// Reads a key file, and checks that its key can sign.
    pub fn parse(json: &str) -> Result<Self, &'static str> {
        let file: KeyFile = serde_json::from_str(json)
            .map_err(|_| "the key file is not the JSON of a service account's key")?;
        if nonempty_text(file.kind).is_some_and(|kind| kind != "service_account") {
            return Err(
                "the key file is not the key of a service account: its `type` must be `service_account`",
            );
        }
        let key = Secret::new(
            nonempty_text(file.private_key).ok_or("the key file has no `private_key`")?,
        );
        let account = Self {
            email: nonempty_text(file.client_email).ok_or("the key file has no `client_email`")?,
            // A key that comes through a shell variable often has its line ends escaped twice.
            key: Secret::new(key.expose().replace("\\n", "\n")),
            key_id: nonempty_text(file.private_key_id),
            token_uri: nonempty_text(file.token_uri).unwrap_or_else(|| TOKEN_URI.to_owned()),
            project: nonempty_text(file.project_id),
        };
        account.key_pair()?;
        Ok(account)
    }

    /// Writes the body of the request for a token, in the format
    /// `application/x-www-form-urlencoded`. `now` is in seconds since 1970.
    pub fn form(&self, now: u64) -> Result<Secret, &'static str> {
        // Nothing in an assertion needs to be escaped.
        let assertion = self.assertion(now)?;
        Ok(Secret::new(
            [
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=",
                assertion.expose(),
            ]
            .concat(),
        ))
    }

    /// Returns the signed text by which this account proves that it asks. `now` is in seconds since
    /// 1970.
    pub fn assertion(&self, now: u64) -> Result<Secret, &'static str> {
        let mut header = Writer::default();
        header.object(|w| {
            w.key("alg").text("RS256");
            w.key("typ").text("JWT");
            if let Some(id) = &self.key_id {
                w.key("kid").text(id);
            }
        });
        let mut claims = Writer::default();
        claims.object(|w| {
            w.key("iss").text(&self.email);
            w.key("scope").text(SCOPE);
            w.key("aud").text(&self.token_uri);
            w.key("iat").number(now);
            w.key("exp")
                .number(now.saturating_add(MAX_ASSERTION_LIFETIME));
        });
        sign_jws(
            &self.key_pair()?,
            &header.into_bytes(),
            &claims.into_bytes(),
        )
    }

    /// Obtains a token.
    pub async fn obtain(&self, courier: &mut impl Courier) -> Result<Obtained, Fault> {
        let now = unix_time(courier.now()).as_secs();
        let form = self.form(now).map_err(|why| Fault::Local(why.to_owned()))?;
        let answer = courier.send(Request::form(&*self.token_uri, form)).await?;
        let token = read_token(&answer)?;
        Ok(Obtained {
            credential: Credential::Token(token.access_token),
            identity: self.email.clone(),
            life: token.expires_in,
        })
    }

    fn key_pair(&self) -> Result<RsaKeyPair, &'static str> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.key.expose().as_bytes());
        let key = key.map_err(
            |_| "the `private_key` is not a PKCS #8 key in PEM (`-----BEGIN PRIVATE KEY-----`)",
        )?;
        RsaKeyPair::from_pkcs8(key.secret_pkcs8_der())
            .map_err(|_| "the `private_key` is not an RSA key of 2048 to 4096 bits")
    }
}

/// Makes a JSON Web Signature in its compact form (RFC 7515 §3.1), by RS256.
fn sign_jws(key: &RsaKeyPair, header: &[u8], claims: &[u8]) -> Result<Secret, &'static str> {
    let mut jws = [
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(claims),
    ]
    .join(".");
    let mut signature = vec![0; key.public().modulus_len()];
    // PKCS #1 v1.5 padding has no randomness: ring wants the random numbers for other kinds of
    // signature.
    let done = key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        jws.as_bytes(),
        &mut signature,
    );
    done.map_err(|_| "the `private_key` cannot sign")?;
    jws.push('.');
    URL_SAFE_NO_PAD.encode_string(&signature, &mut jws);
    Ok(Secret::new(jws))
}

/// Reads the token in an answer, or the fault.
pub fn read_token(answer: &Answer) -> Result<Token, Fault> {
    let (kind, body) = (answer.content_type.as_deref(), answer.body.expose());
    parse_token(answer.status, kind, body.as_bytes()).map_err(|error| match answer.status {
        // These are words of the gateway.
        200..=299 => Fault::Nonsense(error.message),
        _ => Fault::Refused(Box::new(error)),
    })
}

/// Reads the error in an answer that is not good.
pub fn refusal(answer: &Answer) -> Fault {
    match read_token(answer) {
        Err(fault) => fault,
        Ok(_) => Fault::Nonsense("the answer holds something else than was asked for".to_owned()),
    }
}

/// Reads the answer to the form. The metadata server of Google's machines answers in the same form.
///
/// An error of the account or its key has the status 401, whatever the answer's status was.
pub fn parse_token(
    status: u16,
    content_type: Option<&str>,
    body: &[u8],
) -> Result<Token, UpstreamError> {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let granted: Granted = serde_json::from_str(text).unwrap_or_default();
    let is_usable = |token: &String| token.bytes().all(|byte| byte.is_ascii_graphic());
    if status == 200
        && let Some(token) = nonempty_text(granted.access_token).filter(is_usable)
    {
        let seconds = granted
            .expires_in
            .0
            .filter(|seconds| *seconds < Count::IMPOSSIBLE)
            .unwrap_or(DEFAULT_TOKEN_LIFETIME);
        let expires_in = Duration::from_secs(seconds.min(MAX_TOKEN_LIFETIME));
        return Ok(Token {
            access_token: Secret::new(token),
            expires_in,
        });
    }
    if status == 200 {
        // No excerpt: whatever else it is, there may be a token in it.
        let message = "the answer of the token server holds no token".to_owned();
        return Err(UpstreamError {
            status: Some(502),
            message,
            ..UpstreamError::default()
        });
    }
    if (201..=299).contains(&status) {
        let message =
            format!("the answer of the token server has the status {status}, and not 200");
        return Err(UpstreamError {
            status: Some(502),
            message,
            ..UpstreamError::default()
        });
    }
    let mut error = openai::read_error(body, content_type);
    let denied: Denied = serde_json::from_str(text).unwrap_or_default();
    if let Some(code) = nonempty_text(denied.error) {
        error.code = Some(shorten_text(&code, 128));
        error.message = shorten_text(
            &nonempty_text(denied.error_description).unwrap_or(code),
            1024,
        );
    }
    error.status = Some(match (status, error.code.as_deref()) {
        (_, Some("temporarily_unavailable" | "server_error" | "internal_failure")) => 503,
        (400..=428 | 430..=499, _) => 401,
        (429 | 500..=599, _) => status,
        _ => 502,
    });
    Err(error)
}

/// Returns `None` for an empty text.
fn nonempty_text(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: Option<String>,
    client_email: Option<String>,
    private_key: Option<String>,
    private_key_id: Option<String>,
    token_uri: Option<String>,
    project_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Granted {
    access_token: Option<String>,
    expires_in: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Denied {
    error: Option<String>,
    error_description: Option<String>,
}

#[cfg(test)]
mod tests;
