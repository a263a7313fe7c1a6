//! An account is an address of a provider, and a credential for it. This module has the type, and
//! the types of its parts.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::base::hash::{digest_parts, digest_text};
use crate::base::secret::Secret;
use crate::conf::price::{Origin, Price, list};
use crate::conf::proxy::{Proxies, Proxy, ProxyChoice};
use crate::signers::{Source, sigv4};
use dialects::front::references::AllowedReferences;
use dialects::traits::Server;
use dialects::upstream::Prices;
use dialects::upstream::servers::listed_provider;
use dialects::{Dialect, Endpoint};

/// An account: an address of a provider, and a credential for it.
pub struct Account {
    /// The account's name in the catalog. It is never shown to callers.
    pub id: Arc<str>,
    /// The account's position in [`Catalog::accounts`](super::Catalog::accounts).
    pub index: usize,
    /// The wire format that the provider speaks.
    pub dialect: Dialect,
    /// The kinds of endpoint that the account serves, at least one, each with its wire format.
    pub serves: Vec<(Endpoint, Dialect)>,
    /// The account's address. The address of a demo account is empty and never called.
    pub base: Base,
    /// True if `base_url` is written, so that the address is no default.
    pub has_written_base: bool,
    /// The secret that is sent with each request. It is `None` also for an account that is not
    /// enabled: its secret is not even read.
    pub key: Option<Secret>,
    /// The header that carries the key.
    pub key_header: KeyHeader,
    /// The signer of requests, if the account has one instead of a key. It makes the credential
    /// anew for each request, or now and then.
    pub signer: Option<Signer>,
    /// True if the account takes requests.
    pub enabled: bool,
    /// How connections to the account are made.
    pub network: Network,
    /// The most requests that the account may have in flight; `None` = no cap.
    pub concurrency: Option<usize>,
    /// True if the gateway itself asks an account that is out whether it is back. Callers' requests
    /// are kept away from the account until it is.
    pub probe: bool,
    /// The longest times to wait for the account.
    pub timeouts: Timeouts,
    /// Headers that are sent with every request. Their values are marked sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The fields that are added to the requests of callers.
    pub added_fields: Added,
    /// The newer fields of the dialect that the account's server reads.
    pub server: Server,
    /// The references that callers may write into their requests. The account's provider or server
    /// reads what they refer to.
    pub allowed_references: AllowedReferences,
    /// A hash of all that decides what a connection is good for (address, key, CA, proxy). Two
    /// accounts share connections only if their hashes are equal.
    pub fingerprint: u64,
    /// See [`boundary`](Account::boundary).
    pub boundary: OnceLock<Arc<str>>,
}

/// How connections to an account are made.
#[derive(Clone, Default)]
pub struct Network {
    /// True if plain HTTP may go to a public address.
    pub insecure: bool,
    /// Certificates (PEM) that are trusted besides the system's.
    pub ca: Option<Arc<[u8]>>,
    /// The proxy that the catalog sets.
    pub proxy: ProxyChoice,
    /// True for the metadata service of a cloud, which no account of the catalog reaches: its
    /// address is forbidden to all others.
    pub reaches_metadata: bool,
}

/// The fields that are added to the requests of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// True if the account may be asked for the usage of a stream.
    pub stream_usage: bool,
    /// True if the account gets the trace context of its requests.
    pub trace: bool,
}

/// The header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// `authorization: Bearer KEY`
    Bearer,
    /// A header of this name, which holds nothing but the key.
    Named(&'static str),
}

/// Keys of AWS, and the signer that uses them.
#[derive(Debug)]
pub struct AwsKeys {
    /// The access key's id.
    pub access_key_id: Secret,
    /// The access key.
    pub secret_access_key: Secret,
    /// The token of a temporary key.
    pub session_token: Option<Secret>,
    /// The signer for the account's region.
    pub signer: sigv4::Signer,
}

/// A credential that no header holds as it is.
#[derive(Debug)]
pub enum Signer {
    /// Static keys of AWS: each request is signed.
    Aws(AwsKeys),
    /// A credential that is obtained anew again and again.
    Source(Box<Source>),
}

impl Account {
    /// Returns the wire format of a kind of endpoint.
    pub fn speaks(&self, endpoint: Endpoint) -> &Dialect {
        self.serves
            .iter()
            .find(|(kind, _)| *kind == endpoint)
            .map_or(&self.dialect, |(_, dialect)| dialect)
    }

    /// Returns the proxy through which the account is reached, if there is one.
    pub fn proxy(&self, proxies: &Proxies) -> Option<Arc<Proxy>> {
        let Base {
            tls, host, port, ..
        } = &self.base;
        // A proxy could read plain HTTP, and so could others on the way to it and past it.
        let is_direct = self.dialect.protocol.calls_nobody() || (!*tls && !self.network.insecure);
        proxies
            .proxy_for(&self.network.proxy, *tls, host, *port)
            .filter(|_| !is_direct)
    }

    /// Returns the price that is known of the provider's model.
    pub fn known_price(&self, model: &str) -> Option<(Price, Origin)> {
        match self.dialect.prices() {
            Prices::Free => Some((Price::FREE, Origin::Demo)),
            Prices::Unlisted => None,
            Prices::Listed => list::find_price(listed_provider(&self.base.host)?, model)
                .map(|price| (price, Origin::List)),
        }
    }

    /// Returns a hash of the account's address and of its credential. What a provider signs for one
    /// account means nothing beyond this boundary.
    pub fn boundary(&self) -> &Arc<str> {
        self.boundary.get_or_init(|| {
            let credential = match &self.signer {
                Some(Signer::Source(source)) => source.owner_parts(),
                Some(Signer::Aws(_)) | None => Vec::new(),
            };
            let base = &self.base;
            let address = format!("{} {} {} {}", base.tls, base.host, base.port, base.path);
            let parts = [&*address]
                .into_iter()
                .chain(self.secrets())
                .chain(credential);
            digest_text(&digest_parts(parts.map(str::as_bytes)), 16).into()
        })
    }

    /// Returns everything of the account that no text may show: its key, and the values of its
    /// headers, since some providers take the key there.
    pub fn secrets(&self) -> Vec<&str> {
        let headers = self
            .headers
            .iter()
            .filter_map(|(_, value)| value.to_str().ok())
            .filter(|value| value.len() >= 8);
        let (keys, of_source) = match &self.signer {
            Some(Signer::Aws(keys)) => (Some(keys), Vec::new()),
            Some(Signer::Source(source)) => (None, source.secrets()),
            None => (None, Vec::new()),
        };
        let of_aws = keys.into_iter().flat_map(|keys| {
            [&keys.access_key_id, &keys.secret_access_key]
                .into_iter()
                .chain(&keys.session_token)
        });
        self.key
            .iter()
            .map(Secret::expose)
            .chain(headers)
            .chain(of_aws.map(Secret::expose))
            .chain(of_source)
            .collect()
    }
}

/// Shows neither the key nor the headers' values nor the certificates.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("id", &self.id)
            .field("dialect", &self.dialect)
            .field("base", &self.base)
            .field("key", &self.key)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

/// The address of an account.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Base {
    /// `https:`.
    pub tls: bool,
    /// A lower-case name, or an IP address (IPv6 without brackets).
    pub host: Arc<str>,
    /// The port, written or by default.
    pub port: u16,
    /// The path before `/chat/completions`: empty, or for example `/v1`, with no slash at its end.
    pub path: Arc<str>,
    /// The value of the `Host` header. It has the port only if the port is not the default one, and
    /// brackets around IPv6.
    pub authority: String,
}

impl Base {
    /// Returns the address as a URL without a path.
    pub fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// Returns the address as a URL.
    pub fn url(&self) -> String {
        self.origin() + &self.path
    }
}

/// The longest times to wait for an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start to an open connection, TLS included.
    pub connect: Duration,
    /// Streams: from the request's last byte to the answer's head.
    pub first_byte: Duration,
    /// Streams: from the request's last byte to the first event that counts.
    pub first_token: Option<Duration>,
    /// Streams: between bytes.
    pub idle: Duration,
    /// Buffered answers: the whole exchange.
    pub total: Duration,
    /// Streams: the whole exchange.
    pub total_stream: Duration,
}

impl Timeouts {
    /// Returns the timeouts of a message that may take so long in all.
    pub fn for_message(connect: Duration, total: Duration) -> Timeouts {
        Timeouts {
            connect,
            first_byte: total,
            first_token: None,
            idle: total,
            total,
            total_stream: total,
        }
    }
}
