//! An account is an address upstream and a credential.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::base::secret::Secret;
use crate::signers::google::ServiceAccount;
use crate::signers::sigv4;
use dialects::Dialect;
use dialects::front::chat::references::Leave;
use dialects::traits::Server;

/// An upstream account: an address and a credential.
pub struct Account {
    /// Its name in the catalog; never shown to callers.
    pub id: Arc<str>,
    /// Its position in [`Catalog::accounts`](super::Catalog::accounts).
    pub index: usize,
    /// The wire format it speaks.
    pub dialect: Dialect,
    /// Where it is. That of a demo account is empty and never called.
    pub base: Base,
    /// What it is called with; `None` also for an account that is not enabled, whose secret is not
    /// even read.
    pub key: Option<Secret>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// What makes its requests' credential anew each time, or now and then, instead of a key.
    pub signer: Option<Signer>,
    /// Whether it takes requests.
    pub enabled: bool,
    /// Plain HTTP may go to a public address.
    pub insecure: bool,
    /// How many requests it may have in flight; `None` = no cap.
    pub concurrency: Option<usize>,
    /// When it is out, it is asked by ourselves whether it is back, and callers' requests are kept
    /// away until it is.
    pub probe: bool,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// Sent with every request. The values are marked sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether it may be asked for the usage of a stream.
    pub stream_usage: bool,
    /// What its server reads of its dialect's newer fields.
    pub server: Server,
    /// What callers may refer to in their requests: it is read by the account's provider or server.
    pub leave: Leave,
    /// Certificates (PEM) to trust besides the system's.
    pub ca: Option<Arc<[u8]>>,
    /// A hash of all that decides what a connection is good for (address, key, CA): connections are
    /// shared only where it is equal.
    pub fingerprint: u64,
}

/// The header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// `authorization: Bearer KEY`
    Bearer,
    /// A header of this name, with nothing but the key.
    Named(&'static str),
}

/// Keys of AWS, and what signs with them.
#[derive(Debug)]
pub struct AwsKeys {
    /// The access key's id.
    pub access_key_id: Secret,
    /// The access key.
    pub secret_access_key: Secret,
    /// The token of a temporary key.
    pub session_token: Option<Secret>,
    /// Signs for the account's region.
    pub signer: sigv4::Signer,
}

/// A credential that no header holds as it is.
#[derive(Debug)]
pub enum Signer {
    /// AWS: signs each request.
    Aws(AwsKeys),
    /// Google: signs for a token that is good for an hour, and who issues it.
    Google(ServiceAccount, Base),
}

impl Account {
    /// Returns everything of it that no text may show: its key, and what its headers say, since
    /// some providers take the key there.
    pub fn secrets(&self) -> Vec<&str> {
        let headers = self.headers.iter().filter_map(|(_, value)| value.to_str().ok()).filter(|value| value.len() >= 8);
        let keys = match &self.signer {
            Some(Signer::Aws(keys)) => Some(keys),
            // Its private key is lines of PEM, and its tokens are long random words: whatever looks
            // like one is taken out anyway.
            Some(Signer::Google(..)) | None => None,
        };
        let of_aws = keys
            .into_iter()
            .flat_map(|keys| [&keys.access_key_id, &keys.secret_access_key].into_iter().chain(&keys.session_token));
        self.key.iter().map(Secret::expose).chain(headers).chain(of_aws.map(Secret::expose)).collect()
    }
}

/// Names neither the key nor the headers' values nor the certificates.
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
    /// What comes before `/chat/completions`: empty, or `/v1` with no slash at its end.
    pub path: Arc<str>,
    /// For the `Host` header: the port only where it is not the default, brackets around IPv6.
    pub authority: String,
}

/// How long to wait for an account.
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
