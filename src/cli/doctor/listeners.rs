//! The listeners: whether their addresses are free, or in use by the gateway that runs on this
//! folder; their certificates; and who can reach the one for operators.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tokio::net::TcpSocket;

use super::report::{CheckState, Finding, Findings, Subject};
use super::words::{some, span};
use crate::base::address::reachable;
use crate::base::calendar::rfc3339;
use crate::cli::http::{get, key};
use crate::cli::key::running::{Running, serves};
use crate::conf::config::{Listen, ListenTls, Server};
use crate::inventory;
use crate::tls::{Certificate, Term};

/// The name of the section of `server.yaml` with the addresses for callers.
const LISTEN: &str = "listen";
/// The longest wait for the gateway's page.
const NEAR: Duration = Duration::from_secs(5);
/// What to do about an address that another program seems to have.
const OTHER: &str = "find out which program has the address (`ss -ltnp`). If it is a gateway on this folder that was started with another \
                     `admin.address`, it may stay; if not, write another address into server.yaml";

/// The part of `/catalog` that is read here. The gateway may have another version.
#[derive(Deserialize)]
struct Marked {
    server: BTreeMap<String, String>,
}

/// A certificate must be replaced within this time.
pub(super) const REPLACE: Duration = Duration::from_secs(14 * 86_400);
/// A certificate must be replaced now.
pub(super) const REPLACE_NOW: Duration = Duration::from_secs(3 * 86_400);

/// Looks at all listeners.
pub(super) fn look(conf: &Path, server: &Server, report: &mut Findings) {
    let addresses = server.listen.iter().map(|listen| listen.address).chain([server.admin.address]);
    let bound: Vec<_> = addresses.map(|address| (address, bind(address))).collect();
    let is_taken = |why: &io::Error| why.kind() == io::ErrorKind::AddrInUse;
    let holder = bound.iter().any(|(_, bound)| bound.as_ref().is_err_and(is_taken)).then(|| holder(conf, server));
    for (nth, (address, bound)) in bound.into_iter().enumerate() {
        let subject = Subject::named("listener", address);
        report.add(match (bound, &holder) {
            (Ok(()), _) => Finding::new(CheckState::Ok, subject, "address", "is free"),
            (Err(why), Some(holder)) if is_taken(&why) => taken(subject, holder, nth == server.listen.len()),
            (Err(why), _) => {
                let seen = format!("cannot be listened on: {why}");
                Finding::new(CheckState::Fail, subject, "address", seen).with(advice(&why))
            }
        });
    }
    for listen in &server.listen {
        if let Some(tls) = &listen.tls {
            certificate(listen, tls, report);
        }
    }
    exposure(server, report);
}

/// What is known of who listens on the addresses that are in use.
enum Holder {
    /// A gateway on this folder runs. It was started with these listeners.
    Gateway,
    /// A gateway on this folder runs. It was started with other listeners.
    Edited,
    /// A gateway on this folder runs. It does not tell its listeners.
    Untold(String),
    /// The process at the address of the admin listener is no gateway on this folder, or there is
    /// none.
    Other(String),
    /// It is not known whether a gateway on this folder runs.
    Unknown(String),
}

/// Asks the gateway of this folder, if one runs, what it listens on.
fn holder(conf: &Path, server: &Server) -> Holder {
    match serves(conf, server) {
        Ok(()) => match of_gateway(server) {
            Ok(told) if told.get(LISTEN) == inventory::server(server).get(LISTEN) => Holder::Gateway,
            Ok(_) => Holder::Edited,
            Err(why) => Holder::Untold(why),
        },
        Err(Running::Nobody(what)) => Holder::Other(what),
        Err(Running::Unknown(what) | Running::Late(what)) => Holder::Unknown(what),
        Err(Running::Has) => Holder::Unknown("it did not say".to_owned()),
    }
}

/// Returns the marks of the sections of `server.yaml` with which the gateway was started.
fn of_gateway(server: &Server) -> Result<BTreeMap<String, String>, String> {
    let address = reachable(server.admin.address);
    let page = get(address, (&address.to_string(), "/catalog"), key(Some(&server.admin)).as_ref(), NEAR);
    let page = page.map_err(|why| format!("its /catalog does not come: {why}"))?;
    let page = page.map_err(|instead| format!("its /catalog {instead}"))?;
    let Marked { server } = serde_json::from_slice(&page).map_err(|_| "its /catalog does not tell it".to_owned())?;
    Ok(server)
}

/// Returns the finding for an address that is in use: that of the admin listener, or another.
fn taken(subject: Subject, holder: &Holder, is_admin: bool) -> Finding {
    const LOOK: &str = "find out which program has the address (`ss -ltnp`). If it is not this gateway, the next start fails: then write \
                        another address into server.yaml";
    let finding = |state, seen: String| Finding::new(state, subject, "address", seen);
    let runs = || "is in use, and a gateway runs on this folder".to_owned();
    match holder {
        // It has answered there.
        Holder::Gateway | Holder::Edited | Holder::Untold(_) if is_admin => finding(CheckState::Ok, runs()),
        Holder::Gateway => finding(CheckState::Ok, runs()),
        Holder::Edited => {
            let seen = "is in use. A gateway runs on this folder, but it was started with another `listen`: it is not known whether it has \
                        this address";
            finding(CheckState::Warn, seen.to_owned()).with(LOOK)
        }
        Holder::Untold(why) => {
            finding(CheckState::Skip, format!("{}; it is not known whether it has this address: {why}", runs()))
        }
        Holder::Other(what) => {
            finding(CheckState::Fail, format!("is in use, and no gateway on this folder was found: {what}")).with(OTHER)
        }
        Holder::Unknown(what) => {
            let seen = format!("is in use, and it is not known whether by the gateway on this folder: {what}");
            finding(CheckState::Warn, seen)
                .with("set PORTCULLIS_ADMIN_KEY if the admin listener wants a key, and run this again")
        }
    }
}

/// Finds out whether an address could be listened on. Nothing listens meanwhile, so that a gateway
/// that starts just now is not in the way of this, nor this in its way.
fn bind(address: SocketAddr) -> io::Result<()> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)
}

fn advice(why: &io::Error) -> &'static str {
    if why.kind() == io::ErrorKind::AddrNotAvailable {
        "this machine has no such address: write one that it has, or 0.0.0.0 for all"
    } else if why.kind() == io::ErrorKind::PermissionDenied {
        "ports below 1024 need a right of their own: write another port"
    } else {
        "write another address into server.yaml"
    }
}

fn certificate(listen: &Listen, tls: &ListenTls, report: &mut Findings) {
    let subject = Subject::named("listener", listen.address);
    let finding = |state, seen: String| Finding::new(state, subject.clone(), "certificate", seen);
    let term = match Certificate::read(&tls.cert, &tls.key) {
        Ok(certificate) => certificate.term(),
        Err(why) => {
            report.add(finding(CheckState::Fail, why).with("write a certificate and its own key into `listen[].tls`"));
            return;
        }
    };
    let Some(term) = term else {
        report
            .add(finding(CheckState::Fail, "cannot be read".to_owned()).with("write another one into `listen[].tls`"));
        return;
    };
    let (state, lasts) = lasts(&term, SystemTime::now());
    let finding = finding(state, format!("for {}, {lasts}", some(&term.names)));
    report.add(match state {
        CheckState::Ok | CheckState::Skip => finding,
        CheckState::Warn | CheckState::Fail => {
            finding.with("put a new certificate and its key where `listen` in server.yaml names them, and send SIGHUP")
        }
    });
}

/// Says how long a certificate lasts, and how bad that is.
pub(super) fn lasts(term: &Term, now: SystemTime) -> (CheckState, String) {
    let ends = rfc3339(term.ends);
    match term.ends.duration_since(now) {
        _ if term.begins > now => (CheckState::Fail, format!("which is valid only from {} on", rfc3339(term.begins))),
        Err(_) => (CheckState::Fail, format!("which expired at {ends}")),
        Ok(left) if left < REPLACE_NOW => (CheckState::Fail, format!("which expires in {}, at {ends}", span(left))),
        Ok(left) if left < REPLACE => (CheckState::Warn, format!("which expires in {}, at {ends}", span(left))),
        Ok(left) => (CheckState::Ok, format!("which expires in {}", span(left))),
    }
}

fn exposure(server: &Server, report: &mut Findings) {
    let (admin, subject) = (&server.admin, Subject::named("listener", server.admin.address));
    let is_near = admin.address.ip().to_canonical().is_loopback();
    match (is_near, admin.key.is_some()) {
        (true, _) => report.ok(subject, "exposure", "the admin listener is reached from this machine only"),
        (false, true) => report.ok(subject, "exposure", "the admin listener asks for its key"),
        (false, false) => {
            let seen = "the admin listener is not on a loopback address, and asks for no key";
            let remedy = "everybody who can reach it reads who uses the gateway, and how much. Write `admin: { key: { file: … } }`, or \
                          listen on 127.0.0.1";
            report.add(Finding::new(CheckState::Warn, subject, "exposure", seen).with(remedy));
        }
    }
}
