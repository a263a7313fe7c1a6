//! [`Addresses`] are the IP addresses of an account's host name, or of its proxy's. They are looked
//! up in the background. **Invariant:** behind a proxy the account's own name is never looked up.
//!
//! All addresses are kept and tried in turn. While the resolver is down, the old ones are used.
//! Only the very first look-up of a name blocks a request, no longer than the attempt's own
//! `connect` deadline. There is one such look-up at a time for each account, since each takes a
//! thread of its own for as long as the system's resolver needs.

use crate::base::clock::Clock;
use crate::catalog::{Account, Base};
use crate::conf::proxy::Proxy;
use arc_swap::ArcSwapOption;
use dialects::address::{forbidden_ip, private_ip};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// The time between two look-ups in the background.
const REFRESH: Duration = Duration::from_secs(15);
/// The longest time of a look-up.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time after a failed look-up in which requests fail at once.
const PAUSE: Duration = Duration::from_secs(1);

/// The end of the reason why a host has no address, if its addresses are forbidden to the gateway.
pub const FORBIDDEN: &str = "that the gateway may not use";

/// The server that connections are made to: an account's own, or its proxy.
#[derive(Clone, Copy)]
pub struct Hop<'a> {
    host: &'a Arc<str>,
    port: u16,
    /// True if public addresses may be used, too.
    goes_anywhere: bool,
    /// True if the metadata service of a cloud is asked.
    reaches_metadata: bool,
}

impl<'a> Hop<'a> {
    /// Returns the hop to an account's own server. Plain HTTP goes to the public Internet only if
    /// the account says so.
    pub fn to_account(account: &'a Account) -> Hop<'a> {
        let Base {
            tls, host, port, ..
        } = &account.base;
        Hop {
            host,
            port: *port,
            goes_anywhere: *tls || account.network.insecure,
            reaches_metadata: account.network.reaches_metadata,
        }
    }

    /// Returns the hop to a proxy.
    pub fn to_proxy(proxy: &'a Proxy) -> Hop<'a> {
        Hop {
            host: &proxy.host,
            port: proxy.port,
            goes_anywhere: true,
            reaches_metadata: false,
        }
    }

    /// Returns whether an address may be used. Link-local and metadata addresses never may, except
    /// by the sources of credentials that ask there.
    fn allows(&self, ip: IpAddr) -> bool {
        if self.reaches_metadata {
            return self.goes_anywhere || forbidden_ip(ip) || private_ip(ip);
        }
        !forbidden_ip(ip) && (self.goes_anywhere || private_ip(ip))
    }

    fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// The addresses of one account's host, or of its proxy.
#[derive(Default)]
pub struct Addresses {
    known: ArcSwapOption<Resolved>,
    failed: ArcSwapOption<Failed>,
    /// The address that answered last.
    last_answering: ArcSwapOption<SocketAddr>,
    /// Held during a look-up.
    looking: Mutex<()>,
}

struct Resolved {
    host: Arc<str>,
    port: u16,
    addresses: Vec<SocketAddr>,
    resolved_at: Instant,
}

impl Resolved {
    fn is_of(&self, hop: Hop<'_>) -> bool {
        self.host == *hop.host && self.port == hop.port
    }
}

struct Failed {
    host: Arc<str>,
    why: String,
    failed_at: Instant,
}

fn age(since: Instant) -> Duration {
    Clock::now().saturating_duration_since(since)
}

impl Addresses {
    /// Returns the addresses to try, the last good one first. Looks the name up only if nothing is
    /// known of this host yet.
    pub async fn addresses_for(&self, hop: Hop<'_>) -> Result<Vec<SocketAddr>, String> {
        if let Some(ip) = hop.literal() {
            return match hop.allows(ip) {
                true => Ok(vec![SocketAddr::new(ip, hop.port)]),
                false => Err(format!("{ip} is an address {FORBIDDEN}")),
            };
        }
        if let Some(known) = self.known_addresses(hop) {
            return Ok(known);
        }
        let _one_at_a_time = self.looking.lock().await;
        // A request that waited finds the answer now.
        if let Some(known) = self.known_addresses(hop) {
            return Ok(known);
        }
        if let Some(failed) = self.failed_within(hop, PAUSE) {
            return Err(failed.why.clone());
        }
        self.resolve(hop).await
    }

    /// Notes which address answered, so that the next request begins there.
    pub fn record_good(&self, address: SocketAddr) {
        if self.last_answering.load().as_deref() != Some(&address) {
            self.last_answering.store(Some(Arc::new(address)));
        }
    }

    /// Looks the name of an account up again if it is time, and logs it if that fails.
    pub async fn refresh(&self, account: &Account, hop: Hop<'_>) {
        if account.dialect.protocol.calls_nobody() {
            return;
        }
        if let Err(why) = self.refresh_if_due(hop).await {
            log::warn!(
                "account {}: {why}; {}",
                account.id,
                self.without_a_look_up(hop)
            );
        }
    }

    /// Returns what a failed look-up means, in words.
    fn without_a_look_up(&self, hop: Hop<'_>) -> &'static str {
        match self.known_addresses(hop) {
            Some(_) => "the gateway still uses the addresses from before",
            None => "the account cannot be reached",
        }
    }

    /// Looks the name up again if it is time. Keeps the old addresses if the resolver fails.
    pub async fn refresh_if_due(&self, hop: Hop<'_>) -> Result<(), String> {
        if hop.literal().is_some() {
            return Ok(());
        }
        let due = self
            .known
            .load()
            .as_ref()
            .is_none_or(|k| !k.is_of(hop) || age(k.resolved_at) >= REFRESH);
        if !due || self.failed_within(hop, REFRESH).is_some() {
            return Ok(());
        }
        let _one_at_a_time = self.looking.lock().await;
        self.resolve(hop).await.map(drop)
    }

    async fn resolve(&self, hop: Hop<'_>) -> Result<Vec<SocketAddr>, String> {
        let host = hop.host;
        // The request that asks may give up first. The failure is noted then too, so that the next
        // request does not start over.
        let mut unless_it_ends = OnDrop(Some(|| {
            let why = format!("{host} was not resolved in time");
            self.note_failure(host, &why)
        }));
        let found = tokio::time::timeout(RESOLVE_TIMEOUT, look_up(hop)).await;
        unless_it_ends.0 = None;
        match found.unwrap_or_else(|_| {
            Err(format!(
                "cannot resolve {host}: no answer within {} s",
                RESOLVE_TIMEOUT.as_secs()
            ))
        }) {
            Ok(addresses) => {
                let known = Resolved {
                    host: host.clone(),
                    port: hop.port,
                    addresses,
                    resolved_at: Clock::now(),
                };
                let addresses = self.good_first(&known.addresses);
                self.known.store(Some(Arc::new(known)));
                self.failed.store(None);
                Ok(addresses)
            }
            Err(why) => {
                self.note_failure(host, &why);
                Err(why)
            }
        }
    }

    fn note_failure(&self, host: &Arc<str>, why: &str) {
        self.failed.store(Some(Arc::new(Failed {
            host: host.clone(),
            why: why.to_owned(),
            failed_at: Clock::now(),
        })));
    }

    fn known_addresses(&self, hop: Hop<'_>) -> Option<Vec<SocketAddr>> {
        self.known
            .load()
            .as_ref()
            .filter(|known| known.is_of(hop))
            .map(|known| self.good_first(&known.addresses))
    }

    fn failed_within(&self, hop: Hop<'_>, time: Duration) -> Option<Arc<Failed>> {
        self.failed
            .load_full()
            .filter(|failed| failed.host == *hop.host && age(failed.failed_at) < time)
    }

    fn good_first(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut addresses = addresses.to_vec();
        if let Some(good) = self.last_answering.load().as_deref()
            && let Some(index) = addresses.iter().position(|address| address == good)
        {
            addresses.rotate_left(index);
        }
        addresses
    }
}

/// Calls a function when it is dropped, unless the function was taken out before.
struct OnDrop<F: FnMut()>(Option<F>);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(mut act) = self.0.take() {
            act();
        }
    }
}

async fn look_up(hop: Hop<'_>) -> Result<Vec<SocketAddr>, String> {
    let host = hop.host;
    let found = tokio::net::lookup_host((host.as_ref(), hop.port))
        .await
        .map_err(|e| format!("cannot resolve {host}: {e}"))?;
    let mut addresses: Vec<SocketAddr> = found.filter(|a| hop.allows(a.ip())).collect();
    addresses.dedup();
    if addresses.is_empty() {
        Err(format!("{host} resolves only to addresses {FORBIDDEN}"))
    } else {
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::resolve::resolve_catalog;

    fn account(host: &str) -> Arc<Account> {
        let text = format!(
            "accounts:\n  a: {{ dialect: openai, base_url: \"https://{host}:1/v1\", key: k }}\nmodels: {{}}\ncallers: {{}}\n"
        );
        let catalog = resolve_catalog(&[("catalog.yaml".to_owned(), text)], &mut |_| {
            Err(String::new())
        })
        .expect("a catalog");
        catalog.accounts()[0].clone()
    }

    fn known(account: &Account, addresses: &[SocketAddr], at: Instant) -> Option<Arc<Resolved>> {
        Some(Arc::new(Resolved {
            host: account.base.host.clone(),
            port: account.base.port,
            addresses: addresses.to_vec(),
            resolved_at: at,
        }))
    }

    #[tokio::test]
    async fn the_good_address_stays_first_when_others_come() {
        let (account, names) = (account("upstream.test"), Addresses::default());
        let [a, b, c] = [1, 2, 3].map(|n| SocketAddr::from(([10, 0, 0, n], 1)));
        names.known.store(known(&account, &[a, b], Instant::now()));
        assert_eq!(
            names.addresses_for(Hop::to_account(&account)).await,
            Ok(vec![a, b])
        );
        names.record_good(b);
        assert_eq!(
            names.addresses_for(Hop::to_account(&account)).await,
            Ok(vec![b, a])
        );
        names
            .known
            .store(known(&account, &[c, a, b], Instant::now()));
        assert_eq!(
            names.addresses_for(Hop::to_account(&account)).await,
            Ok(vec![b, c, a])
        );
        names.known.store(known(&account, &[c, a], Instant::now()));
        assert_eq!(
            names.addresses_for(Hop::to_account(&account)).await,
            Ok(vec![c, a])
        );
    }

    #[tokio::test]
    async fn only_a_name_that_just_failed_fails_at_once() {
        let (account, names) = (account("localhost"), Addresses::default());
        let failed = |host: &str, at| {
            Some(Arc::new(Failed {
                host: host.into(),
                why: "no".to_owned(),
                failed_at: at,
            }))
        };
        names.failed.store(failed("localhost", Instant::now()));
        assert_eq!(
            names.addresses_for(Hop::to_account(&account)).await,
            Err("no".to_owned())
        );
        names.refresh(&account, Hop::to_account(&account)).await;
        assert!(names.known.load().is_none());
        names.failed.store(failed("other.test", Instant::now()));
        assert!(names.addresses_for(Hop::to_account(&account)).await.is_ok());
    }

    #[tokio::test]
    async fn a_name_is_looked_up_again_in_time() {
        let (account, names) = (account("localhost"), Addresses::default());
        let (hop, old) = (
            Hop::to_account(&account),
            SocketAddr::from(([10, 0, 0, 1], 1)),
        );
        let before = Instant::now()
            .checked_sub(REFRESH)
            .expect("the clock runs for longer");
        for (at, is_kept) in [(Instant::now(), true), (before, false)] {
            names.known.store(known(&account, &[old], at));
            assert_eq!(names.refresh_if_due(hop).await, Ok(()));
            assert_eq!(
                names
                    .addresses_for(hop)
                    .await
                    .is_ok_and(|addresses| addresses == [old]),
                is_kept
            );
        }
        // While it cannot be looked up, the old ones are kept.
        let lost = self::account("nowhere.invalid");
        names.known.store(known(&lost, &[old], before));
        assert!(names.refresh_if_due(Hop::to_account(&lost)).await.is_err());
        assert_eq!(
            names.addresses_for(Hop::to_account(&lost)).await,
            Ok(vec![old])
        );
    }

    #[test]
    fn another_hosts_addresses_are_never_used() {
        let (one, names) = (account("one.test"), Addresses::default());
        names.known.store(known(
            &one,
            &[SocketAddr::from(([10, 0, 0, 1], 1))],
            Instant::now(),
        ));
        assert!(
            names
                .without_a_look_up(Hop::to_account(&one))
                .contains("still uses the addresses")
        );
        for other in [
            Hop::to_account(&account("other.test")),
            Hop::to_proxy(&Proxy::parse("http://one.test:2").unwrap()),
        ] {
            assert_eq!(
                names.without_a_look_up(other),
                "the account cannot be reached"
            );
        }
    }

    #[tokio::test]
    async fn giving_up_leaves_a_failure_and_no_second_lookup() {
        let (account, names) = (account("localhost"), Addresses::default());
        {
            let mut asked = std::pin::pin!(names.addresses_for(Hop::to_account(&account)));
            let waits = std::future::poll_fn(|cx| {
                std::task::Poll::Ready(asked.as_mut().poll(cx).is_pending())
            })
            .await;
            assert!(waits, "no look-up is that quick");
        }
        assert!(
            names
                .addresses_for(Hop::to_account(&account))
                .await
                .is_err_and(|why| why.contains("in time"))
        );
    }
}
