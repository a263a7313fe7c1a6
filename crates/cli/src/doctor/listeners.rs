//! The listeners: whether their addresses are free, or in use by the gateway that runs on this
//! folder; their certificates; and who can reach the one for operators.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tokio::net::TcpSocket;

use super::report::{CheckState, Checked, Finding, Findings, Subject};
use super::words::first_three;
use crate::http::{PageError, get_from_address, listener_key};
use crate::key::running::{NotServed, check_served};
use portcullis::base::address::reachable_address;
use portcullis::base::calendar::format_system_time;
use portcullis::base::port_holder::{PortHolder, find_port_holder};
use portcullis::base::units::rough_duration;
use portcullis::conf::config::{Listen, ListenTls, Server};
use portcullis::inventory;
use portcullis::tls::{Certificate, CertificateTerm};

/// The name of the section of `server.yaml` with the addresses for callers.
const LISTEN: &str = "listen";
/// The longest wait for the gateway's page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// The advice about an address that another program seems to have.
const OTHER_PROGRAM_ADVICE: &str = "find out which program has the address (`ss -ltnp`). If it is a gateway on this folder that was started with another \
                     `admin.address`, it may stay; if not, write another address into server.yaml";

/// The part of `/catalog` that is read here. The gateway may have another version.
#[derive(Deserialize)]
struct Marked {
    server: BTreeMap<String, String>,
}

/// A certificate must be replaced within this time, or within a third of its lifetime if that is
/// shorter.
const REPLACE: Duration = Duration::from_secs(14 * 86_400);
/// A certificate must be replaced now, if it has a long lifetime. Others are renewed by a program.
const REPLACE_NOW: Duration = Duration::from_secs(3 * 86_400);
/// A longer lifetime is a long one.
const LONG_LIFETIME: Duration = Duration::from_secs(30 * 86_400);

/// Checks all listeners.
pub(super) fn check_listeners(conf: &Path, server: &Server, report: &mut Findings) {
    let addresses = server
        .listen
        .iter()
        .map(|listen| listen.address)
        .chain([server.admin.address]);
    let addresses: Vec<SocketAddr> = addresses.collect();
    let bound: Vec<_> = addresses
        .iter()
        .map(|address| (*address, try_bind(*address)))
        .collect();
    let is_taken = |why: &io::Error| why.kind() == io::ErrorKind::AddrInUse;
    let holder = bound
        .iter()
        .any(|(_, bound)| bound.as_ref().is_err_and(is_taken))
        .then(|| find_holder(conf, server));
    for (nth, (address, bound)) in bound.into_iter().enumerate() {
        let subject = Subject::named("listener", address);
        let twice = addresses
            .iter()
            .take(nth)
            .find(|other| is_covered(address, **other) || is_covered(**other, address));
        report.add(match (bound, &holder) {
            (Ok(()), _) if let Some(other) = twice => {
                let seen = format!("is free, but the gateway cannot listen on it beside {other}");
                subject.fail("address", seen, "give one of the two another port")
            }
            (Ok(()), _) => subject.ok("address", "is free"),
            (Err(why), Some(holder)) if is_taken(&why) => {
                // The address of the admin listener is the last.
                let is_admin = nth == server.listen.len();
                taken_finding(address, holder, is_admin)
            }
            (Err(why), _) => {
                let seen = format!("cannot be listened on: {why}");
                subject.fail("address", seen, bind_advice(&why))
            }
        });
    }
    for listen in &server.listen {
        if let Some(tls) = &listen.tls {
            check_certificate(listen, tls, report);
        }
    }
    check_exposure(server, report);
}

/// The program that has an address that is in use, as far as it is known.
enum Holder {
    /// A gateway on this folder runs. It was started with these listeners.
    Gateway,
    /// A gateway on this folder runs. It was started with other listeners.
    Edited,
    /// A gateway on this folder runs. Its listeners are not known.
    Undisclosed(String),
    /// The process at the address of the admin listener is no gateway on this folder, or there is
    /// none.
    Other(String),
    /// It is not known whether a gateway on this folder runs.
    Unknown(String),
}

/// Asks the gateway of this folder, if one runs, what it listens on.
fn find_holder(conf: &Path, server: &Server) -> Holder {
    match check_served(conf, server) {
        Ok(()) => match gateway_marks(server) {
            Ok(marks) if marks.get(LISTEN) == inventory::section_marks(server).get(LISTEN) => {
                Holder::Gateway
            }
            Ok(_) => Holder::Edited,
            Err(why) => Holder::Undisclosed(why),
        },
        Err(NotServed::Absent(detail)) => Holder::Other(detail),
        Err(NotServed::Unknown(detail)) => Holder::Unknown(detail),
    }
}

/// Returns the marks of the sections of `server.yaml` with which the gateway was started.
fn gateway_marks(server: &Server) -> Result<BTreeMap<String, String>, String> {
    let address = reachable_address(server.admin.address);
    let page = get_from_address(
        address,
        &address.to_string(),
        "/catalog",
        listener_key(Some(&server.admin)).as_ref(),
        PAGE_TIMEOUT,
    );
    let page = page.map_err(|error| match error {
        PageError::NoAnswer(why) => format!("its /catalog does not come: {why}"),
        refusal @ (PageError::NeedsKey | PageError::Hidden(_) | PageError::OtherAnswer(_)) => {
            format!("its /catalog {refusal}")
        }
    })?;
    let Marked { server } =
        serde_json::from_slice(&page).map_err(|_| "its /catalog does not tell it".to_owned())?;
    Ok(server)
}

/// Returns the finding for an address that is in use: the admin listener's, or another.
fn taken_finding(address: SocketAddr, holder: &Holder, is_admin: bool) -> Finding {
    const FIND_PROGRAM: &str = "find out which program has the address (`ss -ltnp`). If it is not this gateway, the next start fails: then write \
                        another address into server.yaml";
    const RUNS: &str = "is in use, and a gateway runs on this folder";
    let subject = Subject::named("listener", address);
    match holder {
        Holder::Gateway => subject.ok("address", RUNS),
        // The gateway has answered at the admin listener's address.
        Holder::Edited | Holder::Undisclosed(_) if is_admin => subject.ok("address", RUNS),
        Holder::Edited => subject.warn(
            "address",
            "is in use. A gateway runs on this folder, but it was started with another `listen`: it is not known whether it has \
             this address",
            FIND_PROGRAM,
        ),
        Holder::Undisclosed(why) => subject.skip(
            "address",
            format!("{RUNS}; it is not known whether it has this address: {why}"),
        ),
        Holder::Other(detail) => {
            let found = find_port_holder(address);
            let by = found.as_ref().map(|holder| format!(" by {holder}"));
            let seen = format!(
                "is in use{}, and no gateway on this folder was found: {detail}",
                by.unwrap_or_default()
            );
            let remedy = found.as_ref().map(holder_advice);
            let remedy = remedy.unwrap_or_else(|| OTHER_PROGRAM_ADVICE.to_owned());
            subject.fail("address", seen, remedy)
        }
        Holder::Unknown(detail) => subject.warn(
            "address",
            format!(
                "is in use, and it is not known whether by the gateway on this folder: {detail}"
            ),
            "set PORTCULLIS_ADMIN_KEY if the admin listener wants a key, and run this again; or find out which program has \
             the address (`ss -ltnp`)",
        ),
    }
}

/// Writes what to do about a known process that has an address: what `serve` says of it, too.
fn holder_advice(holder: &PortHolder) -> String {
    let condition = if holder.is_gateway() {
        "if it is a gateway on this folder that was started with another `admin.address`, it may stay. If it is not needed, "
    } else {
        ""
    };
    format!(
        "{condition}{}, or write another address into server.yaml",
        holder.stop_advice()
    )
}

/// Returns whether whoever listens on `all` has this address, too. `[::]` has those of IPv4 as
/// well.
fn is_covered(address: SocketAddr, all: SocketAddr) -> bool {
    let is_wide = all.ip().is_unspecified() && (all.is_ipv6() || address.is_ipv4());
    is_wide && all.port() == address.port() && all.port() != 0
}

/// Finds out whether an address could be listened on. The socket is only bound, so that a gateway
/// that starts at this moment can still listen.
fn try_bind(address: SocketAddr) -> io::Result<()> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)
}

fn bind_advice(why: &io::Error) -> &'static str {
    if why.kind() == io::ErrorKind::AddrNotAvailable {
        "this machine has no such address: write one that it has, or 0.0.0.0 for all"
    } else if why.kind() == io::ErrorKind::PermissionDenied {
        "ports below 1024 need a right of their own: write another port"
    } else {
        "write another address into server.yaml"
    }
}

fn check_certificate(listen: &Listen, tls: &ListenTls, report: &mut Findings) {
    let subject = Subject::named("listener", listen.address);
    // A pipe would not open until somebody writes to it.
    let is_odd = |path: &&PathBuf| fs::metadata(path).is_ok_and(|there| !there.is_file());
    let read = match [&tls.cert, &tls.key].into_iter().find(is_odd) {
        Some(odd) => Err(format!("{} is no file", odd.display())),
        None => Certificate::read(&tls.cert, &tls.key).map(|certificate| certificate.terms()),
    };
    let terms = match read {
        Ok(terms) => terms,
        Err(why) => {
            report.add(subject.fail(
                "certificate",
                why,
                "write a certificate and its own key into `listen[].tls`",
            ));
            return;
        }
    };
    let Some(term) = terms.first() else {
        report.add(subject.fail(
            "certificate",
            "cannot be read",
            "write another one into `listen[].tls`",
        ));
        return;
    };
    let (state, lasts) = chain_lifetime(&terms, SystemTime::now());
    let seen = format!("for {}, {lasts}", first_three(&term.names));
    report.add(subject.finding(state, "certificate", seen).with_remedy_unless_ok(
        "put a new certificate and its key where `listen` in server.yaml names them, and send SIGHUP",
    ));
}

/// Writes how long a chain of certificates lasts, and how bad that is. The first one is the
/// server's own, and the others are of authorities: whoever trusts another authority can do without
/// them.
pub(super) fn chain_lifetime(chain: &[CertificateTerm], now: SystemTime) -> (CheckState, String) {
    let Some((own, authorities)) = chain.split_first() else {
        return (CheckState::Ok, "whose end is not known".to_owned());
    };
    let (state, text) = own_lifetime(own, now);
    let first = authorities
        .iter()
        .min_by_key(|term| term.ends)
        .filter(|term| term.ends < own.ends);
    match first.map(|term| own_lifetime(term, now)) {
        Some((CheckState::Warn | CheckState::Fail, ends)) if state != CheckState::Fail => (
            CheckState::Warn,
            format!("{text}; with an authority {ends}"),
        ),
        Some(_) | None => (state, text),
    }
}

fn own_lifetime(term: &CertificateTerm, now: SystemTime) -> (CheckState, String) {
    let ends = format_system_time(term.ends);
    let lifetime = term.ends.duration_since(term.begins).unwrap_or_default();
    let warn_before_end = REPLACE.min(lifetime / 3);
    let fail_before_end = if lifetime > LONG_LIFETIME {
        REPLACE_NOW
    } else {
        Duration::ZERO
    };
    match term.ends.duration_since(now) {
        _ if term.begins > now => (
            CheckState::Fail,
            format!(
                "which is valid only from {} on",
                format_system_time(term.begins)
            ),
        ),
        Err(_) => (CheckState::Fail, format!("which expired at {ends}")),
        Ok(left) if left < fail_before_end => (
            CheckState::Fail,
            format!("which expires in {}, at {ends}", rough_duration(left)),
        ),
        Ok(left) if left < warn_before_end => (
            CheckState::Warn,
            format!("which expires in {}, at {ends}", rough_duration(left)),
        ),
        Ok(left) => (
            CheckState::Ok,
            format!("which expires in {}", rough_duration(left)),
        ),
    }
}

fn check_exposure(server: &Server, report: &mut Findings) {
    let (admin, subject) = (
        &server.admin,
        Subject::named("listener", server.admin.address),
    );
    let is_loopback = admin.address.ip().to_canonical().is_loopback();
    match (is_loopback, admin.key.is_some()) {
        (true, _) => report.add(subject.ok(
            "exposure",
            "the admin listener is reached from this machine only",
        )),
        (false, true) => report.add(subject.ok("exposure", "the admin listener asks for its key")),
        (false, false) => {
            let seen = "the admin listener is not on a loopback address, and asks for no key";
            let remedy = "everybody who can reach it reads who uses the gateway, and how much. Write `admin: { key: { file: … } }`, or \
                          listen on 127.0.0.1";
            report.add(subject.warn("exposure", seen, remedy));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    /// A certificate that has lived and will live for these seconds.
    fn term(lived: u64, left: u64, now: SystemTime) -> CertificateTerm {
        let (begins, ends) = (
            now - Duration::from_secs(lived),
            now + Duration::from_secs(left),
        );
        CertificateTerm {
            begins,
            ends,
            names: Vec::new(),
        }
    }

    #[test]
    fn a_known_holder_is_stopped_as_serve_says() {
        for (program, expected) in [
            (
                "nginx",
                "stop it, or write another address into server.yaml",
            ),
            (
                "portcullis",
                "if it is a gateway on this folder that was started with another `admin.address`, it may stay. If it is not needed, \
                 stop it with `kill 77` (a service with `systemctl stop`), or write another address into server.yaml",
            ),
        ] {
            let holder = PortHolder {
                program: program.to_owned(),
                process: 77,
            };
            assert_eq!(holder_advice(&holder), expected);
        }
    }

    #[test]
    fn an_address_is_in_that_of_all_addresses() {
        let check = |address: &str, all: &str, expected| {
            assert_eq!(
                is_covered(address.parse().unwrap(), all.parse().unwrap()),
                expected,
                "{address} {all}"
            );
        };
        check("127.0.0.1:80", "0.0.0.0:80", true);
        check("[::1]:80", "[::]:80", true);
        check("127.0.0.1:81", "0.0.0.0:80", false);
        check("127.0.0.1:80", "10.0.0.1:80", false);
        check("127.0.0.1:80", "[::]:80", true);
        check("0.0.0.0:80", "[::]:80", true);
        check("[::1]:80", "0.0.0.0:80", false);
        check("[::]:80", "0.0.0.0:80", false);
        check("127.0.0.1:0", "0.0.0.0:0", false);
    }

    #[test]
    fn short_lived_certificates_are_judged_by_their_lifetime() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        let check = |chain: &[(u64, u64)], expected| {
            let terms: Vec<CertificateTerm> = chain
                .iter()
                .map(|(lived, left)| term(*lived, *left, now))
                .collect();
            assert_eq!(chain_lifetime(&terms, now).0, expected, "{chain:?}");
        };
        let hour = 3_600;
        check(&[(hour, 23 * hour)], CheckState::Ok);
        check(&[(15 * hour, 9 * hour)], CheckState::Ok);
        check(&[(17 * hour, 7 * hour)], CheckState::Warn);
        check(&[(DAY, 5 * DAY)], CheckState::Ok);
        check(&[(5 * DAY, DAY)], CheckState::Warn);
        check(&[(60 * DAY, 30 * DAY)], CheckState::Ok);
        check(&[(80 * DAY, 10 * DAY)], CheckState::Warn);
        check(&[(88 * DAY, 2 * DAY)], CheckState::Fail);
        // The chain ends with the authority that ends first.
        check(
            &[(10 * DAY, 80 * DAY), (1_000 * DAY, 500 * DAY)],
            CheckState::Ok,
        );
        check(
            &[(10 * DAY, 80 * DAY), (1_000 * DAY, 2 * DAY)],
            CheckState::Warn,
        );
        check(&[(88 * DAY, 2 * DAY), (1_000 * DAY, DAY)], CheckState::Fail);
        assert_eq!(
            chain_lifetime(&[term(0, 0, now)], now + Duration::from_secs(1)).0,
            CheckState::Fail
        );
        assert_eq!(
            chain_lifetime(&[term(0, DAY, now)], now - Duration::from_secs(1)).0,
            CheckState::Fail
        );
        let (_, text) = chain_lifetime(
            &[
                term(10 * DAY, 80 * DAY, now),
                term(1_000 * DAY, 2 * DAY, now),
            ],
            now,
        );
        assert_eq!(
            text,
            "which expires in 80 days; with an authority which expires in 2 days, at 2033-05-20T03:33:20.000Z"
        );
    }
}
