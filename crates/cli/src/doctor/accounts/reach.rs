//! The way to an account's server: its name, its addresses, its certificate.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use rustls_pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::CheckedAccount;
use crate::doctor::listeners::chain_lifetime;
use crate::doctor::report::{CheckState, Checked, Finding};
use crate::doctor::words::first_three;
use portcullis::account::failure::Failure;
use portcullis::account::resolver::FORBIDDEN;
use portcullis::base::alarm::Alarm;
use portcullis::base::calendar::format_system_time;
use portcullis::conf::proxy::Proxy;
use portcullis::exchange::upstream::{Reuse, Upstream};
use portcullis::tls::CertificateTerm;
use portcullis::tls::trust::{Doubt, Trust};

/// The longest time for a name, a connection or a handshake.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// The error EAFNOSUPPORT: the system has no such version of IP.
const NO_SUCH_VERSION: i32 = if cfg!(target_os = "linux") { 97 } else { 47 };
/// The most addresses that are tried.
const MAX_ADDRESSES: usize = 4;

/// Checks each step of the way. Returns whether the server can be reached.
pub(super) async fn check_reach(
    checked: &CheckedAccount,
    upstream: &Upstream,
    findings: &mut Vec<Finding>,
) -> bool {
    if let Some(proxy) = &checked.ready_account.proxy {
        return check_proxy(checked, proxy, upstream, findings).await;
    }
    let host = &checked.account().base.host;
    let looked_up = timeout(STEP_TIMEOUT, checked.ready_account.addresses()).await;
    let addresses = match looked_up
        .unwrap_or_else(|_| Err(format!("cannot resolve {host}: no answer in time")))
    {
        Ok(addresses) => addresses,
        Err(why) => {
            let remedy = if why.ends_with(FORBIDDEN) {
                "link-local addresses and those of metadata services are never used; public ones need https:, or `insecure: true` at the \
                 account"
            } else {
                "is the host in `base_url` right, and does this machine's resolver (/etc/resolv.conf) work?"
            };
            findings.push(checked.fail("name", why, remedy));
            return false;
        }
    };
    if host.parse::<std::net::IpAddr>().is_err() {
        let shown: Vec<String> = addresses
            .iter()
            .map(|address| address.ip().to_string())
            .collect();
        findings.push(checked.ok("name", format!("{host} is {}", first_three(&shown))));
    }
    let Some(stream) = connect_all(checked, &addresses, findings).await else {
        return false;
    };
    let Some(trust) = &checked.ready_account.trust else {
        return true;
    };
    let within = connect_timeout(checked);
    let why = match timeout(within, trust.connect(host, stream)).await {
        Ok(Ok(secured)) => {
            findings.push(certificate_finding(
                checked,
                secured.get_ref().1.peer_certificates().unwrap_or_default(),
            ));
            return true;
        }
        Ok(Err(distrust)) => distrust.why,
        Err(_) => format!("the server did not end the TLS handshake within {within:?}"),
    };
    let untrusted = "without a certificate that is believed no request is sent. Mend the server's certificate or the host in `base_url`; \
                     `tls: { ca: … }` at the account names an authority or a certificate of your own";
    let remedy = tls_remedy(&why, untrusted);
    findings.push(checked.fail("tls", why, remedy));
    false
}

/// Returns the time for a connection or a handshake.
fn connect_timeout(checked: &CheckedAccount) -> Duration {
    checked.account().timeouts.connect.min(STEP_TIMEOUT)
}

/// Returns what to do about a failed handshake, by its reason in words. `untrusted` is for a
/// certificate of an authority that the gateway does not trust, or of another name.
fn tls_remedy(why: &str, untrusted: &str) -> String {
    match Doubt::from_reason(why) {
        Doubt::Certificate => untrusted.to_owned(),
        Doubt::Handshake => {
            "correct host and port of `base_url`; for a server that speaks no TLS write http: there"
                .to_owned()
        }
        // If the clock of this machine is wrong, the dates of all certificates are.
        Doubt::Dates => format!(
            "it is {} by this machine's clock: if that is wrong, let NTP set the clock; else renew the server's certificate if it is \
             yours, or tell its provider",
            format_system_time(SystemTime::now())
        ),
    }
}

/// Returns whether a server of an `http:` address speaks TLS, so that it should be `https:`.
pub(super) async fn speaks_tls(checked: &CheckedAccount) -> bool {
    let (account, ready_account) = (checked.account(), &checked.ready_account);
    if account.base.tls || ready_account.proxy.is_some() {
        return false;
    }
    let within = connect_timeout(checked);
    let trust = Trust::system_only(&[]);
    let handshake = timeout(within, async {
        let address = *ready_account.addresses().await.ok()?.first()?;
        let stream = TcpStream::connect(address).await.ok()?;
        Some(trust.connect(&account.base.host, stream).await)
    });
    match handshake.await {
        Ok(Some(Ok(_))) => true,
        Ok(Some(Err(distrust))) => Doubt::from_reason(&distrust.why) != Doubt::Handshake,
        Ok(None) | Err(_) => false,
    }
}

/// Checks the way through a proxy. Only the proxy looks the server's name up.
async fn check_proxy(
    checked: &CheckedAccount,
    proxy: &Proxy,
    upstream: &Upstream,
    findings: &mut Vec<Finding>,
) -> bool {
    if proxy.is_assumed() {
        let seen = "its proxy's URL could not be read: see configuration";
        findings.push(checked.skip("proxy", seen));
        return false;
    }
    let due = Instant::now() + connect_timeout(checked);
    let Err(failure) = upstream
        .dial(
            &checked.ready_account,
            Reuse::Forbidden,
            due,
            &mut Alarm::default(),
        )
        .await
    else {
        findings.push(checked.ok("proxy", format!("its server is reached through {proxy}")));
        let due = Instant::now() + connect_timeout(checked);
        if let Some(chain) = upstream.certificates(&checked.ready_account, due).await {
            findings.push(certificate_finding(checked, &chain));
        }
        return true;
    };
    let seen = failure.detail().map_or_else(
        || format!("no connection through {proxy} in time"),
        |why| why.into_owned(),
    );
    let untrusted = "it is reached through the proxy. Mend the server's certificate, or write the authority of a proxy that opens TLS into \
                     `tls: { ca: … }` at the account";
    let (check, remedy) = if matches!(failure, Failure::Tls { .. }) {
        ("tls", tls_remedy(&seen, untrusted))
    } else {
        let proxy = "if it could not connect, look at the host and the port in `base_url` first. Else mend the proxy, or write \
                     another one as `proxy` at the account; `proxy: none` uses none";
        ("proxy", proxy.to_owned())
    };
    findings.push(checked.fail(check, seen, remedy));
    false
}

/// Connects to each address. Returns the first connection.
async fn connect_all(
    checked: &CheckedAccount,
    addresses: &[SocketAddr],
    findings: &mut Vec<Finding>,
) -> Option<TcpStream> {
    let within = connect_timeout(checked);
    let (mut good, mut answered, mut failed) = (None, Vec::new(), Vec::new());
    for address in addresses.iter().take(MAX_ADDRESSES) {
        match timeout(within, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                answered.push(*address);
                good.get_or_insert(stream);
            }
            Ok(Err(why)) => failed.push((*address, Some(why))),
            Err(_) => failed.push((*address, None)),
        }
    }
    let (no_way, failed): (Vec<_>, Vec<_>) = failed
        .into_iter()
        .partition(|(address, why)| has_no_way(&answered, *address, why.as_ref()));
    if good.is_some() {
        let no_way: Vec<SocketAddr> = no_way.into_iter().map(|(address, _)| address).collect();
        let besides = match no_way.as_slice() {
            [] => String::new(),
            others => format!(
                "; this machine has no way to {}, and does without",
                address_list(others)
            ),
        };
        findings.push(checked.ok(
            "tcp",
            format!("{} answers{besides}", address_list(&answered)),
        ));
    }
    for (address, why) in failed {
        let why = match why {
            Some(why) => format!("{address} does not answer: {why}"),
            None => format!("{address} does not answer within {within:?}"),
        };
        let (state, remedy) = if good.is_some() {
            (
                CheckState::Warn,
                "another address answers, and the gateway tries all: new connections may take longer",
            )
        } else {
            (
                CheckState::Fail,
                "does the server run, are host and port of `base_url` right, and does a firewall let this machine out?",
            )
        };
        findings.push(checked.finding(state, "tcp", why).with_remedy(remedy));
    }
    good
}

fn address_list(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    first_three(&addresses)
}

/// Returns whether an address failed at once only because this machine does not have that version
/// of IP, while addresses of the other version answer. So it is in most containers.
fn has_no_way(answered: &[SocketAddr], address: SocketAddr, why: Option<&io::Error>) -> bool {
    let is_missing = why.is_some_and(|why| {
        why.raw_os_error() == Some(NO_SUCH_VERSION)
            || [
                ErrorKind::NetworkUnreachable,
                ErrorKind::AddrNotAvailable,
                ErrorKind::HostUnreachable,
            ]
            .contains(&why.kind())
    });
    is_missing
        && !answered.is_empty()
        && answered
            .iter()
            .all(|other| other.is_ipv4() != address.is_ipv4())
}

fn certificate_finding(checked: &CheckedAccount, chain: &[CertificateDer<'_>]) -> Finding {
    let now = SystemTime::now();
    let terms: Vec<CertificateTerm> = chain
        .iter()
        .filter_map(|der| CertificateTerm::parse(der))
        .collect();
    // The chain was trusted without the authorities that have ended: servers send such ones for old
    // callers.
    let terms: Vec<CertificateTerm> = terms
        .into_iter()
        .enumerate()
        .filter(|(nth, term)| *nth == 0 || term.ends > now)
        .map(|(_, term)| term)
        .collect();
    let names = terms
        .first()
        .map(|term| first_three(&term.names))
        .unwrap_or_default();
    let (state, lasts) = chain_lifetime(&terms, now);
    let seen = format!("the certificate is believed: for {names}, {lasts}");
    checked.finding(state, "tls", seen).with_remedy_unless_ok(
        "renew the server's certificate if it is yours, else tell its provider: then no request is sent any more",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_ipv6_misses_nothing_while_ipv4_answers() {
        let [four, other, six] = ["192.0.2.1:443", "192.0.2.2:443", "[2001:db8::1]:443"]
            .map(|text| text.parse::<SocketAddr>().unwrap());
        let check = |answered: &[SocketAddr], address, why: io::Error, expected| {
            assert_eq!(
                has_no_way(answered, address, Some(&why)),
                expected,
                "{answered:?} {address} {why}"
            );
        };
        check(&[four], six, ErrorKind::NetworkUnreachable.into(), true);
        check(&[four], six, ErrorKind::AddrNotAvailable.into(), true);
        check(&[four], six, ErrorKind::HostUnreachable.into(), true);
        check(
            &[four],
            six,
            io::Error::from_raw_os_error(NO_SUCH_VERSION),
            true,
        );
        check(&[six], four, ErrorKind::NetworkUnreachable.into(), true);
        check(&[four], six, ErrorKind::ConnectionRefused.into(), false);
        check(&[], six, ErrorKind::NetworkUnreachable.into(), false);
        check(&[four], other, ErrorKind::HostUnreachable.into(), false);
        assert!(
            !has_no_way(&[four], six, None),
            "a time that is over is a failure"
        );
    }
}
