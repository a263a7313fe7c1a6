//! The listeners: whether their addresses are free, or in use by the gateway that runs on this
//! folder; their certificates; and who can reach the one for operators.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tokio::net::TcpSocket;

use super::report::{CheckState, Finding, Findings, Subject};
use super::words::{some, span};
use crate::base::calendar::rfc3339;
use crate::cli::key::running::{Running, serves};
use crate::conf::config::{Listen, ListenTls, Server};
use crate::tls::{Certificate, Term};

/// A certificate must be replaced within this time.
pub(super) const REPLACE: Duration = Duration::from_secs(14 * 86_400);
/// A certificate must be replaced now.
pub(super) const REPLACE_NOW: Duration = Duration::from_secs(3 * 86_400);

/// Looks at all listeners.
pub(super) fn look(conf: &Path, server: &Server, report: &mut Findings) {
    let addresses = server.listen.iter().map(|listen| listen.address).chain([server.admin.address]);
    let bound: Vec<_> = addresses.map(|address| (address, bind(address))).collect();
    let is_taken = |why: &io::Error| why.kind() == io::ErrorKind::AddrInUse;
    let running = bound.iter().any(|(_, bound)| bound.as_ref().is_err_and(is_taken)).then(|| serves(conf, server));
    for (address, bound) in bound {
        let subject = Subject::named("listener", address);
        let finding = |state, seen: String| Finding::new(state, subject.clone(), "address", seen);
        report.add(match (bound, &running) {
            (Ok(()), _) => finding(CheckState::Ok, "is free".to_owned()),
            (Err(why), Some(Ok(()))) if is_taken(&why) => {
                finding(CheckState::Ok, "is in use, and a gateway runs on this folder".to_owned())
            }
            (Err(why), Some(Err(running))) if is_taken(&why) => {
                let seen = match running {
                    Running::Nobody(what) | Running::Unknown(what) | Running::Late(what) => {
                        format!("is in use, and not by a gateway on this folder, as it seems: {what}")
                    }
                    Running::Has => "is in use".to_owned(),
                };
                finding(CheckState::Fail, seen).with("end the other process, or write another address into server.yaml")
            }
            (Err(why), _) => finding(CheckState::Fail, format!("cannot be listened on: {why}")).with(advice(&why)),
        });
    }
    for listen in &server.listen {
        if let Some(tls) = &listen.tls {
            certificate(listen, tls, report);
        }
    }
    exposure(server, report);
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
