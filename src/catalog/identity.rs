//! An identity is an issuer of tokens, with the callers to whom its tokens belong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Base, Key, Network};
use crate::base::secret::Secret;
use crate::identity::jwk::KeySet;
use crate::identity::rules::Rules;

/// An issuer of tokens, and whose tokens they are.
#[derive(Debug)]
pub struct Identity {
    /// The identity's name in the catalog.
    pub id: Arc<str>,
    /// What tokens must have, and whose they are.
    pub rules: Rules,
    /// Where the issuer's keys are.
    pub key_source: KeySource,
    /// How long the last keys are used while the issuer cannot be reached.
    pub keys_stale: Duration,
    /// By the callers' names, the key of which the key of each subject is a copy. Its name ends
    /// with the colon before the subject's.
    pub templates: BTreeMap<Arc<str>, Arc<Key>>,
    /// A hash of all that decides whether a token is accepted, and whose it is.
    pub fingerprint: u64,
}

/// Where an issuer's keys are.
#[derive(Debug)]
pub enum KeySource {
    /// In a file, which was read with the catalog.
    File(Arc<KeySet>),
    /// At a server.
    Server(KeyServer),
}

/// A server that has an issuer's keys.
#[derive(Clone)]
pub struct KeyServer {
    /// The address of the keys, or of the document of OpenID's discovery.
    pub address: KeyAddress,
    /// True if the address is the one of discovery, where the address of the keys is found.
    pub is_discovery: bool,
    /// A token that is sent when keys are fetched.
    pub bearer: Option<Secret>,
    /// How connections to the server are made.
    pub network: Network,
}

/// An address with keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyAddress {
    /// The server, with the path.
    pub base: Base,
    /// What is behind the path: nothing, or a text that begins with a question mark.
    pub query: String,
}

/// Shows where the server is, and nothing that it is asked with.
impl std::fmt::Debug for KeyServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyServer")
            .field("address", &self.address)
            .field("is_discovery", &self.is_discovery)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Returns the callers to whom tokens of this identity may belong.
    pub fn callers(&self) -> impl Iterator<Item = &Arc<str>> {
        self.templates.keys()
    }
}
