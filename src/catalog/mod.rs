//! The catalog: the immutable, indexed snapshot of callers, keys, accounts and models that a
//! request is served from.
//!
//! Always holds: every reference is resolved (a target holds its account, a key its caller), ids
//! are unique, and every index is the position in its sorted list. A catalog never changes; a new
//! one takes its place. It only looks things up: files are read in [`load`], what is written is
//! understood in [`resolve`].

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue};

use crate::address::Cidr;
use crate::limits::KeyLimits;
use crate::limits::Limited;
use crate::limits::Limits;
use crate::price::{Origin, Price};
use crate::problem::Problem;
use crate::secret::Secret;
use crate::signers::google::ServiceAccount;
use crate::signers::sigv4;
use dialects::Dialect;
use dialects::front::chat::references::Leave;
use dialects::traits::{Server, Traits};
use globs::Globs;

pub mod amend;
pub(crate) mod files;
pub mod globs;
pub mod load;
pub mod name;
pub mod raw;
pub mod resolve;
pub mod rotation;
pub mod settle;
pub mod texts;

/// The secret of the key that ships in `conf/catalog.yaml`. Everybody knows it, so it may see the
/// demo model only, or be used on this machine only: see [`published_key_problem`].
pub const PUBLISHED_KEY: &str = "sk-demo-portcullis-published";

/// The snapshot.
#[derive(Default)]
pub struct Catalog {
    /// What was read, files and secrets, as the first 16 hex digits of a SHA-256.
    pub hash: String,
    /// What is allowed but should not stay so.
    pub warnings: Vec<Problem>,
    keys: HashMap<[u8; 32], rotation::KeySecret>,
    names: HashMap<Arc<str>, Arc<Model>>,
    models: Vec<Arc<Model>>,
    accounts: Vec<Arc<Account>>,
    callers: Vec<Arc<Caller>>,
    /// Those with a secret that is being replaced.
    rotating: Vec<Arc<Key>>,
    key_total: usize,
    permissions: usize,
    /// The files in which a secret is written out, by their positions.
    literal_secrets: BTreeSet<usize>,
}

impl Catalog {
    /// The key whose secret has this SHA-256, if it may be used at this time.
    pub fn key(&self, digest: &[u8; 32], now: SystemTime) -> Result<&Arc<Key>, KeyRefused> {
        self.opened(digest, now).map(|(key, _)| key)
    }

    /// The same, and whether by a secret that is being replaced.
    pub fn opened(&self, digest: &[u8; 32], now: SystemTime) -> Result<(&Arc<Key>, bool), KeyRefused> {
        let secret = self.keys.get(digest).ok_or(KeyRefused::Unknown)?;
        secret.key.usable(now)?;
        let over = secret.until.is_some_and(|until| until <= now);
        if over { Err(KeyRefused::Expired) } else { Ok((&secret.key, secret.replaced)) }
    }

    /// The SHA-256 of each secret, whose it is, and from when on it no longer opens anything,
    /// whether the key may be used or not.
    pub fn secrets(&self) -> impl Iterator<Item = (&[u8; 32], &Arc<Key>, Option<SystemTime>)> {
        self.keys.iter().map(|(digest, secret)| (digest, &secret.key, secret.until))
    }

    /// Each secret of the key with this id, and from when on it no longer opens anything, whether
    /// the key may be used or not.
    pub fn secrets_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = (&'a Arc<Key>, Option<SystemTime>)> {
        self.keys.values().filter(move |secret| *secret.key.id == *id).map(|secret| (&secret.key, secret.until))
    }

    /// A model by its id or one of its aliases.
    pub fn model(&self, id: &str) -> Option<&Arc<Model>> {
        self.names.get(id)
    }

    /// Returns the model that `id`, canonical or an alias, means for this key: one that it may see,
    /// and that is served. Else the caller is told nothing more.
    pub fn visible(&self, key: &Key, id: &str) -> Option<&Arc<Model>> {
        self.model(id).filter(|model| key.permissions.allow(&model.id) && model.served())
    }

    /// All models, sorted by id.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.models
    }

    /// All accounts, sorted by id.
    pub fn accounts(&self) -> &[Arc<Account>] {
        &self.accounts
    }

    /// All callers, sorted by id.
    pub fn callers(&self) -> &[Arc<Caller>] {
        &self.callers
    }

    /// How many keys there are: each one's index is below this.
    pub fn key_total(&self) -> usize {
        self.key_total
    }

    /// Each key, in no order; those with several secrets several times.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.keys.values().map(|secret| &secret.key)
    }

    /// The keys that are being rotated: with a secret that is being replaced, its end past or to
    /// come.
    pub fn rotating(&self) -> &[Arc<Key>] {
        &self.rotating
    }

    /// How many keys there are, counting each of several hashes.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// How many distinct [`Permissions`] there are: each one's index is below this.
    pub fn permission_count(&self) -> usize {
        self.permissions
    }
}

/// Says how much it holds, not what.
impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("hash", &self.hash)
            .field("accounts", &self.accounts.len())
            .field("models", &self.models.len())
            .field("callers", &self.callers.len())
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}

/// Why a key cannot be used. For the log only: whoever asked is told the same in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRefused {
    /// No key has this digest.
    Unknown,
    /// The key or its caller is switched off.
    Disabled,
    /// The key, this hash of it, or its caller has expired.
    Expired,
}

/// Who calls us.
#[derive(Debug)]
pub struct Caller {
    /// Its name in the catalog.
    pub id: Arc<str>,
    /// Whether its keys work at all.
    pub enabled: bool,
    /// From when on its keys no longer work.
    pub expires: Option<SystemTime>,
    /// What all its keys together may use.
    pub limits: Limits,
    /// Its answers say what they cost.
    pub expose_cost: bool,
}

/// A secret that a caller sends; here without the secret.
#[derive(Debug)]
pub struct Key {
    /// `acme/prod`: the only name that logs carry.
    pub id: Arc<str>,
    /// Whose it is.
    pub caller: Arc<Caller>,
    /// Whether it works.
    pub enabled: bool,
    /// From when on it no longer works.
    pub expires: Option<SystemTime>,
    /// Its position among all keys, in no order: below [`Catalog::key_total`].
    pub index: usize,
    /// What it may use, within what its caller may.
    pub limits: Limits,
    /// What it may use of single models besides: by their positions in [`Catalog::models`], sorted.
    pub model_limits: Vec<(usize, Limits)>,
    /// From where it may be used; empty = from everywhere.
    pub allow_ips: Vec<Cidr>,
    /// Whether it may ask for the trail of attempts.
    pub debug: bool,
    /// What it may see.
    pub permissions: Arc<Permissions>,
}

impl Key {
    /// Whether key and caller are enabled and not expired at this time.
    pub fn usable(&self, now: SystemTime) -> Result<(), KeyRefused> {
        if !self.enabled || !self.caller.enabled {
            return Err(KeyRefused::Disabled);
        }
        if [self.expires, self.caller.expires].into_iter().flatten().any(|expires| expires <= now) {
            return Err(KeyRefused::Expired);
        }
        Ok(())
    }

    /// Whether it may be used from this address.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allow_ips.is_empty() || self.allow_ips.iter().any(|range| range.contains(address))
    }
}

impl<'c> From<&'c Key> for KeyLimits<'c> {
    fn from(key: &'c Key) -> KeyLimits<'c> {
        KeyLimits {
            key: (&key.id, &key.limits),
            caller: (&key.caller.id, &key.caller.limits),
            models: &key.model_limits,
        }
    }
}

impl<'c> From<&'c Arc<Key>> for KeyLimits<'c> {
    fn from(key: &'c Arc<Key>) -> KeyLimits<'c> {
        (&**key).into()
    }
}

impl<'c> From<&'c Catalog> for Limited<'c> {
    fn from(catalog: &'c Catalog) -> Limited<'c> {
        let mut keys = vec![None; catalog.key_total];
        for key in catalog.keys() {
            if let Some(place) = keys.get_mut(key.index) {
                *place = Some(key.into());
            }
        }
        Limited {
            callers: catalog.callers.iter().map(|caller| (&caller.id, &caller.limits)).collect(),
            keys,
            models: catalog.models.iter().map(|model| &model.id).collect(),
        }
    }
}

/// Which models a key may see: what its caller may and it may itself. Equal ones are one object.
#[derive(Debug)]
pub struct Permissions {
    /// A dense number, for caches: below [`Catalog::permission_count`].
    pub index: usize,
    caller: Globs,
    key: Globs,
}

impl Permissions {
    /// Whether a model's id (never an alias) is among them.
    pub fn allow(&self, model: &str) -> bool {
        self.caller.matches(model) && self.key.matches(model)
    }

    /// What its caller may.
    pub fn of_caller(&self) -> &Globs {
        &self.caller
    }

    /// What it may itself.
    pub fn of_key(&self) -> &Globs {
        &self.key
    }
}

/// A public model id and how it is served.
#[derive(Debug)]
pub struct Model {
    /// The id, as `/v1/models` lists it.
    pub id: Arc<str>,
    /// Its position in [`Catalog::models`].
    pub index: usize,
    /// Other names for it, sorted.
    pub aliases: Vec<Arc<str>>,
    /// In what order its targets are tried.
    pub strategy: Strategy,
    /// The ways to serve it, as written, at least one.
    pub targets: Vec<Target>,
    /// Ids of other models, to be tried when no target is left. Never itself, never in a circle.
    pub fallbacks: Vec<Arc<str>>,
    /// Filled in where a request names no limit.
    pub max_tokens: Option<u64>,
    /// As `/v1/models` shows it, in Unix seconds.
    pub created: u64,
    /// As `/v1/models` shows it.
    pub owned_by: Arc<str>,
    /// Requests of one conversation go to the same target, as long as it is fit.
    pub sticky: bool,
    /// Ids of other models, to be tried when a request is too long for this one.
    pub on_context: Vec<Arc<str>>,
    /// Ids of other models, to be tried when this one would not answer.
    pub on_refusal: Vec<Arc<str>>,
    /// When a second attempt is made beside a slow first one.
    pub hedge: Option<Hedge>,
    /// How many requests wait, and for how long, when no account can take them; `None` = none
    /// waits.
    pub queue: Option<Queue>,
    /// A target that cannot express a field of a request is passed over.
    pub refuse_loss: bool,
    /// An answer that calls a tool with broken JSON is none.
    pub refuse_broken_calls: bool,
    /// Callers see its thinking.
    pub show_reasoning: bool,
}

impl Model {
    /// Whether at least one target stands on an enabled account.
    pub fn served(&self) -> bool {
        self.targets.iter().any(|target| target.account.enabled)
    }
}

/// In what order targets are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// By tier, as written where none is.
    #[default]
    Priority,
    /// In turn, by weight.
    Weighted,
    /// The one with the fewest requests in flight for what it can take.
    LeastBusy,
    /// The one that is expected to give its first token soonest.
    Fastest,
}

/// When a second attempt is made beside a slow first one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedge {
    /// When the first is slower than this share of the model's own attempts of late, above 0 and
    /// below 1.
    pub after: f64,
    /// For so large a share of the requests at most, above 0 and up to 1.
    pub at_most: f64,
}

/// Who waits for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// So many at most, at least 1.
    pub length: usize,
    /// For so long at most.
    pub wait: Duration,
}

/// One way to serve a model.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where.
    pub account: Arc<Account>,
    /// The name the account knows the model by.
    pub model: Arc<str>,
    /// Its share; at least 1.
    pub weight: u32,
    /// For [`Strategy::Priority`]: the lowest is tried first. Its place in the list, where none is
    /// written.
    pub tier: u32,
    /// How long to wait for it: the account's, but for what the model says.
    pub timeouts: Timeouts,
    /// What this model can do.
    pub traits: Traits,
    /// What it costs; `None` = nobody knows, which is not nothing.
    pub price: Option<Price>,
    /// Where the price is from, if there is one.
    pub price_from: Option<Origin>,
}

/// An upstream account: an address and a credential.
pub struct Account {
    /// Its name in the catalog; never shown to callers.
    pub id: Arc<str>,
    /// Its position in [`Catalog::accounts`].
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
    /// Everything of it that no text may show: its key, and what its headers say, since some
    /// providers take the key there.
    pub fn secrets(&self) -> Vec<&str> {
        let headers = self.headers.iter().filter_map(|(_, value)| value.to_str().ok()).filter(|value| value.len() >= 8);
        let signer = match &self.signer {
            Some(Signer::Aws(keys)) => {
                vec![Some(&keys.access_key_id), Some(&keys.secret_access_key), keys.session_token.as_ref()]
            }
            // Its private key is lines of PEM, and its tokens are long random words: whatever looks
            // like one is taken out anyway.
            Some(Signer::Google(..)) | None => Vec::new(),
        };
        self.key
            .iter()
            .map(Secret::expose)
            .chain(headers)
            .chain(signer.into_iter().flatten().map(Secret::expose))
            .collect()
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

/// How much a change takes away, when it is so much that it looks like an accident: more than half
/// of the callers, models or accounts.
pub fn shrinks(old: &Catalog, new: &Catalog) -> Option<String> {
    fn gone<T>(what: &str, old: &[Arc<T>], new: &[Arc<T>], id: impl Fn(&T) -> &str) -> Option<String> {
        // Both lists are sorted by id.
        let left = old.iter().filter(|was| new.binary_search_by(|is| id(is).cmp(id(was))).is_ok()).count();
        let gone = old.len() - left;
        (gone * 2 > old.len()).then(|| format!("{gone} of {} {what}", old.len()))
    }
    let parts: Vec<_> = [
        gone("accounts", &old.accounts, &new.accounts, |account| &account.id),
        gone("models", &old.models, &new.models, |model| &model.id),
        gone("callers", &old.callers, &new.callers, |caller| &caller.id),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| format!("removes {}", parts.join(", ")))
}

/// Why the published key must not be served on these listeners: one is not loopback, and the key
/// sees more than the model `demo` on demo accounts. To be asked at start and of every new catalog.
pub fn published_key_problem(catalog: &Catalog, listeners: &[SocketAddr]) -> Option<String> {
    let listener = listeners.iter().find(|listener| !listener.ip().to_canonical().is_loopback())?;
    let key = &catalog.keys.get(&resolve::digest(PUBLISHED_KEY))?.key;
    if !key.enabled || !key.caller.enabled {
        return None;
    }
    // What it falls back on, for whatever cause, is no matter: a fallback that the key may not use
    // is passed over.
    let harmless =
        |model: &Model| &*model.id == "demo" && model.targets.iter().all(|target| target.account.dialect.is_demo());
    let model =
        catalog.models.iter().find(|model| model.served() && key.permissions.allow(&model.id) && !harmless(model))?;
    Some(format!(
        "key {} is the published demo key, which everybody knows, and it may use the model \"{}\" on {listener}: remove the key, \
         let its caller see nothing but the demo (`models: [demo]`), or listen on 127.0.0.1",
        key.id, model.id
    ))
}

#[cfg(test)]
mod tests;
