//! [`Backends`] are what an exchange uses on the gateway's other side: the upstreams, the vault of
//! thoughts, the cache of items, and the store that instances share.

use super::upstream::Upstream;
use crate::conf::config::Server;
use crate::item_cache::ItemCache;
use crate::seal::Seals;
use crate::store::Store;
use crate::vault::Vault;
use std::sync::Arc;

/// The backends of a process, and the settings that bound their use. A process has one of these.
pub struct Backends {
    /// The settings of `conf/server.yaml`.
    pub server: Arc<Server>,
    /// The connector to upstreams.
    pub upstream: Upstream,
    /// Signed thoughts, kept for the next turn.
    pub vault: Vault,
    /// Items of answers, kept for requests that refer to them.
    pub items: ItemCache,
    /// Seals thoughts that callers carry.
    pub seals: Arc<Seals>,
    /// The store that instances share, if there is one.
    pub store: Option<Store>,
}
