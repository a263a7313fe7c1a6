//! A [`ReadyAccount`] is an account as exchanges use it: its settings, its running state, and
//! values that follow from the settings and are made once.

use crate::account::State;
use crate::account::identity::Present;
use crate::account::resolver::Hop;
use crate::base::secret::Secret;
use crate::catalog::{Account, Added, Base, KeyHeader, Network, Signer, Timeouts};
use crate::conf::config::Webhook;
use crate::conf::proxy::{Proxies, Proxy, ProxyChoice};
use crate::tls::trust::{Trust, has_pin};
use dialects::Dialect;
use dialects::front::references::AllowedReferences;
use dialects::traits::Server;
use dialects::upstream::openai;
use http::header::{self, HeaderName, HeaderValue};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The time in which a receiver, such as a webhook, must have answered a message.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The part of it in which the receiver must be connected.
pub const MESSAGE_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An account, ready for use.
pub struct ReadyAccount {
    /// The account, as the catalog has it.
    pub account: Arc<Account>,
    /// The state, which outlives the catalog.
    pub state: Arc<State>,
    /// The bytes of an HTTP/1.1 request that are the same each time: from the end of the path to
    /// the last header that depends only on the account.
    pub(crate) fixed_head: Vec<u8>,
    /// The proxies of the process, if the account's credential is obtained from servers.
    pub(crate) proxies: Option<Proxies>,
    /// The certificates that are trusted; `None` with `http:`.
    pub trust: Option<Trust>,
    /// The proxy through which the account is reached, if there is one.
    pub proxy: Option<Arc<Proxy>>,
}

impl ReadyAccount {
    /// Makes an account ready for use.
    pub fn new(account: Arc<Account>, state: Arc<State>, proxies: &Proxies) -> ReadyAccount {
        state.apply_settings(&account);
        let fixed_head = request_head(&account, |_| true);
        let trust = account
            .base
            .tls
            .then(|| account_trust(account.network.ca.as_deref()));
        let is_source = matches!(account.signer, Some(Signer::Source(_)));
        let proxy = account.proxy(proxies);
        ReadyAccount {
            account,
            state,
            fixed_head,
            proxies: is_source.then(|| proxies.clone()),
            trust,
            proxy,
        }
    }

    /// Makes a server that is in no catalog ready for use. It has a state of its own.
    pub fn standalone(account: Account, proxies: &Proxies) -> ReadyAccount {
        let state = State::new(account.id.clone());
        ReadyAccount::new(Arc::new(account), Arc::new(state), proxies)
    }

    /// Returns the addresses to connect to, the last good one first.
    pub async fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        self.state.addresses.addresses_for(self.hop()).await
    }

    /// Returns the server that connections are made to: the account's own, or the proxy.
    pub fn hop(&self) -> Hop<'_> {
        match &self.proxy {
            Some(proxy) => Hop::to_proxy(proxy),
            None => Hop::to_account(&self.account),
        }
    }

    /// Returns the secrets that must not appear in a text about the account. `present` is the
    /// credential that it had when it answered.
    pub fn secrets<'a>(&'a self, present: Option<&'a Arc<Present>>) -> Vec<&'a str> {
        let obtained = present.into_iter().flat_map(|present| present.secrets());
        self.account.secrets().into_iter().chain(obtained).collect()
    }

    /// Makes a server ready from which the account's credential is obtained. It is called like any
    /// account, with the certificates and, if it is outside, with the proxy of this one.
    pub(crate) fn token_server(
        &self,
        base: Base,
        is_nearby: bool,
        content_type: &'static str,
        timeouts: Timeouts,
    ) -> ReadyAccount {
        let account = token_server(&self.account, base, is_nearby, content_type, timeouts);
        let default_proxies = Proxies::default();
        let proxies = self.proxies.as_ref().filter(|_| !is_nearby);
        ReadyAccount::standalone(account, proxies.unwrap_or(&default_proxies))
    }
}

/// Describes a server that gives credentials as an account.
fn token_server(
    account: &Account,
    base: Base,
    is_nearby: bool,
    content_type: &'static str,
    timeouts: Timeouts,
) -> Account {
    let Network { ca, proxy, .. } = &account.network;
    // A pin is for the account's own host only.
    let ca = ca
        .clone()
        .filter(|pem| base.host == account.base.host || !has_pin(pem));
    let content_type = HeaderValue::from_static(content_type);
    let mut server = server_account(account.id.clone(), base, timeouts, content_type);
    // AWS answers in XML only to those who do not ask for JSON.
    let any = HeaderValue::from_static("*/*");
    server.headers.push((header::ACCEPT, any));
    server.network = Network {
        insecure: account.network.insecure && !is_nearby,
        ca,
        proxy: match is_nearby {
            true => ProxyChoice::Never,
            false => proxy.clone(),
        },
        reaches_metadata: is_nearby,
    };
    server
}

/// Describes a server that is no provider as an account, so that it can be called like one.
/// Everything that only a provider has is off. It gets bodies of this content type, and no
/// credential.
pub fn server_account(
    id: Arc<str>,
    base: Base,
    timeouts: Timeouts,
    content_type: HeaderValue,
) -> Account {
    Account {
        id,
        index: 0,
        dialect: Dialect::from(&openai::PROTOCOL),
        serves: Vec::new(),
        base,
        has_written_base: true,
        key: None,
        key_header: KeyHeader::Bearer,
        signer: None,
        enabled: true,
        network: Network::default(),
        concurrency: None,
        probe: false,
        timeouts,
        headers: vec![(header::CONTENT_TYPE, content_type)],
        added_fields: Added {
            stream_usage: false,
            trace: false,
        },
        server: Server::OWN,
        allowed_references: AllowedReferences::ALL,
        fingerprint: 0,
        boundary: OnceLock::new(),
    }
}

/// Describes a webhook or another receiver of messages as an account. It gets bodies of this
/// content type.
pub fn webhook_account(id: &str, webhook: &Webhook, content_type: &'static str) -> Account {
    let Webhook {
        tls,
        host,
        port,
        authority,
        ..
    } = webhook;
    let base = Base {
        tls: *tls,
        host: host.as_str().into(),
        port: *port,
        path: "".into(),
        authority: authority.clone(),
    };
    let timeouts = Timeouts::for_message(MESSAGE_CONNECT_TIMEOUT, MESSAGE_TIMEOUT);
    server_account(
        id.into(),
        base,
        timeouts,
        HeaderValue::from_static(content_type),
    )
}

/// Writes the part of an HTTP/1.1 request from the end of the path on, with those headers of the
/// account that are wanted.
pub(crate) fn request_head(account: &Account, is_wanted: impl Fn(&HeaderName) -> bool) -> Vec<u8> {
    let mut head = Vec::with_capacity(256);
    head.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    head.extend_from_slice(account.base.authority.as_bytes());
    head.extend_from_slice(b"\r\n");
    for (name, value) in account_headers(account).filter(|(name, _)| is_wanted(name)) {
        write_header(&mut head, &name, &value);
    }
    head
}

/// Writes one header of an HTTP/1.1 request.
pub(crate) fn write_header(head: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    head.extend_from_slice(name.as_str().as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value.as_bytes());
    head.extend_from_slice(b"\r\n");
}

/// Returns the headers that depend on the account only. The catalog's own headers replace ours,
/// except the header of the credential.
pub(crate) fn account_headers(
    account: &Account,
) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let ours = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        ),
        (
            header::ACCEPT,
            HeaderValue::from_static(account.dialect.protocol.accept()),
        ),
        (
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        ),
        (
            header::USER_AGENT,
            HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION"))),
        ),
    ];
    let dialect_headers = account.dialect.protocol.headers.iter();
    let dialect_headers = dialect_headers.map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    });
    let credential = account
        .key
        .as_ref()
        .and_then(|key| match account.key_header {
            KeyHeader::Bearer => bearer_header(key),
            KeyHeader::Named(name) => {
                let mut value = HeaderValue::try_from(key.expose()).ok()?;
                value.set_sensitive(true);
                Some((HeaderName::from_static(name), value))
            }
        });
    ours.into_iter()
        .chain(dialect_headers)
        .filter(|(name, _)| !account.headers.iter().any(|(own, _)| own == name))
        .chain(account.headers.iter().cloned())
        .chain(credential)
}

/// Returns the header `authorization: Bearer …`.
pub fn bearer_header(token: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some((header::AUTHORIZATION, value))
}

/// Returns the trust for an account's certificates, which offers HTTP/2 and HTTP/1. Accounts
/// without a CA of their own share one trust: it keeps the TLS sessions, so that a later connection
/// resumes one.
fn account_trust(ca: Option<&[u8]>) -> Trust {
    const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];
    static SYSTEM: OnceLock<Trust> = OnceLock::new();
    match ca {
        Some(pem) => Trust::new(Some(pem), ALPN),
        None => SYSTEM.get_or_init(|| Trust::new(None, ALPN)).clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::resolve::resolve_catalog;

    #[test]
    fn what_goes_through_the_proxies_of_the_environment() {
        let both = |name: &str| {
            Ok(matches!(name, "HTTPS_PROXY" | "HTTP_PROXY")
                .then(|| "http://p:1".to_owned())
                .unwrap_or_default())
        };
        let (proxies, _) = Proxies::from_environment(both).expect("proxies");
        for (account, is_proxied) in [
            ("openai, base_url: \"https://a.test\"", true),
            ("openai, base_url: \"https://10.0.0.5\"", true),
            ("openai, base_url: \"https://localhost\"", false),
            ("openai, base_url: \"http://a.test\", insecure: true", true),
            (
                "openai, base_url: \"http://10.0.0.5\", insecure: true",
                true,
            ),
            ("openai, base_url: \"http://10.0.0.5\"", false),
            ("openai, base_url: \"http://[fd00::1]\"", false),
            ("demo", false),
        ] {
            let text =
                format!("accounts:\n  a: {{ dialect: {account} }}\nmodels: {{}}\ncallers: {{}}\n");
            let read = resolve_catalog(&[("catalog.yaml".to_owned(), text)], &mut |_| {
                Err(String::new())
            });
            let account = read.expect("a catalog").accounts()[0].clone();
            let ready = ReadyAccount::new(account, Arc::new(State::new("a".into())), &proxies);
            assert_eq!(
                ready.proxy.is_some(),
                is_proxied,
                "{:?}",
                ready.account.base
            );
        }
    }
}
