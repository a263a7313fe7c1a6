//! Backends are what an exchange asks on the gateway's other side: the upstreams, the vault of
//! thoughts, and the store that instances share.

use super::upstream::Upstream;
use crate::conf::config::Server;
use crate::store::Store;
use crate::vault::Vault;
use std::sync::Arc;

/// All of them, and the settings that bound what they are asked. One of these a process.
pub struct Backends {
    /// `conf/server.yaml`
    pub server: Arc<Server>,
    /// What connects to upstreams.
    pub upstream: Upstream,
    /// Signed thoughts, kept for the next turn.
    pub vault: Vault,
    /// What instances share, if they share anything.
    pub store: Option<Store>,
}
