//! Host names → addresses, in the background.
//!
//! All addresses are kept and tried in turn; while the resolver is down the old ones are served. Nothing here blocks a request but the
//! very first look-up of a name, which is bounded by the attempt's own `connect` deadline.

use crate::address::{forbidden_ip, private_ip};
use crate::catalog::Account;
use crate::dialect::Dialect;
use arc_swap::ArcSwapOption;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often the background looks again.
pub const REFRESH: Duration = Duration::from_secs(15);

/// What one account's host resolves to.
#[derive(Default)]
pub struct Addresses {
    known: ArcSwapOption<Known>,
    failed_at: ArcSwapOption<Instant>,
    /// The place of the address that answered last.
    good: AtomicUsize,
}

struct Known {
    host: Arc<str>,
    port: u16,
    addresses: Vec<SocketAddr>,
    at: Instant,
}

impl Addresses {
    /// The addresses to try, the last good one first. Resolves only if nothing is known of this host yet.
    pub async fn of(&self, account: &Account) -> Result<Vec<SocketAddr>, String> {
        if let Some(ip) = literal(account) {
            return Ok(vec![SocketAddr::new(ip, account.base.port)]);
        }
        if let Some(known) = self.known.load_full().filter(|k| k.host == account.base.host && k.port == account.base.port) {
            return Ok(self.rotated(&known.addresses));
        }
        self.resolve(account).await
    }

    /// Remembers which address answered, so that the next request begins there.
    pub fn answered(&self, address: SocketAddr) {
        if let Some(known) = self.known.load().as_ref()
            && let Some(place) = known.addresses.iter().position(|a| *a == address)
        {
            self.good.store(place, Ordering::Relaxed);
        }
    }

    /// Looks again if it is time; keeps what it has if the resolver fails.
    pub async fn refresh(&self, account: &Account) {
        if account.dialect == Dialect::Demo || literal(account).is_some() {
            return;
        }
        let due = self.known.load().as_ref().is_none_or(|k| k.host != account.base.host || k.at.elapsed() >= REFRESH);
        if !due || self.failed_at.load().as_ref().is_some_and(|at| at.elapsed() < REFRESH) {
            return;
        }
        match self.resolve(account).await {
            Ok(_) => self.failed_at.store(None),
            Err(why) => {
                self.failed_at.store(Some(Arc::new(Instant::now())));
                let known = if self.known.load().is_some() { "the addresses known before stay in use" } else { "it cannot be reached" };
                log::warn!("account {}: {why}; {known}", account.id);
            }
        }
    }

    async fn resolve(&self, account: &Account) -> Result<Vec<SocketAddr>, String> {
        let host = account.base.host.clone();
        let found = tokio::net::lookup_host((host.as_ref(), account.base.port)).await.map_err(|e| format!("cannot resolve {host}: {e}"))?;
        let mut addresses: Vec<SocketAddr> = found.filter(|a| allowed(account, a.ip())).collect();
        addresses.dedup();
        if addresses.is_empty() {
            return Err(format!("{host} resolves to no address that may be used"));
        }
        self.good.store(0, Ordering::Relaxed);
        self.known.store(Some(Arc::new(Known { host, port: account.base.port, addresses: addresses.clone(), at: Instant::now() })));
        Ok(addresses)
    }

    fn rotated(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut addresses = addresses.to_vec();
        let good = self.good.load(Ordering::Relaxed) % addresses.len().max(1);
        addresses.rotate_left(good);
        addresses
    }
}

/// Link-local and metadata addresses never; plain HTTP to the public Internet only if the account says so.
fn allowed(account: &Account, ip: IpAddr) -> bool {
    !forbidden_ip(ip) && (account.base.tls || account.insecure || private_ip(ip))
}

fn literal(account: &Account) -> Option<IpAddr> {
    account.base.host.parse().ok()
}
