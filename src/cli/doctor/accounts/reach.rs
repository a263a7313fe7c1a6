//! The way to an account's server: its name, its addresses, its certificate.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::Patient;
use crate::account::failure::Failure;
use crate::base::alarm::Alarm;
use crate::cli::doctor::listeners::lasts;
use crate::cli::doctor::report::{CheckState, Finding};
use crate::cli::doctor::words::some;
use crate::conf::proxy::Proxy;
use crate::exchange::upstream::Upstream;
use crate::tls::Term;

/// The longest time for a name, a connection or a handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most addresses that are tried.
const MOST: usize = 4;

/// Looks at the way. Returns whether the server can be reached.
pub(super) async fn look(patient: &Patient, upstream: &Upstream, findings: &mut Vec<Finding>) -> bool {
    if let Some(proxy) = &patient.place.proxy {
        return through(patient, proxy, upstream, findings).await;
    }
    let account = patient.account();
    let host = &account.base.host;
    let looked_up = timeout(PATIENCE, patient.place.state.addresses.of(patient.place.hop())).await;
    let addresses = match looked_up.unwrap_or_else(|_| Err(format!("cannot resolve {host}: no answer in time"))) {
        Ok(addresses) => addresses,
        Err(why) => {
            let remedy = if why.contains("may not use") {
                "link-local addresses and those of metadata services are never used; public ones need https:, or `insecure: true` at the \
                 account"
            } else {
                "is the host in `base_url` right, and does this machine's resolver (/etc/resolv.conf) work?"
            };
            findings.push(patient.finding(CheckState::Fail, "name", why).with(remedy));
            return false;
        }
    };
    if host.parse::<std::net::IpAddr>().is_err() {
        let shown: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
        findings.push(patient.finding(CheckState::Ok, "name", format!("{host} is {}", some(&shown))));
    }
    let Some(stream) = connect(patient, &addresses, findings).await else { return false };
    let Some(trust) = &patient.place.trust else { return true };
    let within = account.timeouts.connect.min(PATIENCE);
    let why = match timeout(within, trust.connect(host, stream)).await {
        Ok(Ok(secured)) => {
            let shown = secured.get_ref().1.peer_certificates().and_then(|chain| Term::of(chain.first()?));
            findings.push(certificate(patient, shown.as_ref()));
            return true;
        }
        Ok(Err(distrust)) => distrust.why,
        Err(_) => format!("the server did not end the TLS handshake within {within:?}"),
    };
    let remedy = "without a certificate that is believed no request is sent. Mend the server's certificate or the host in `base_url`; `tls: { \
                  ca: … }` at the account names an authority or a certificate of your own";
    findings.push(patient.finding(CheckState::Fail, "tls", why).with(remedy));
    false
}

/// Looks at the way through a proxy, which alone looks the server's name up.
async fn through(patient: &Patient, proxy: &Proxy, upstream: &Upstream, findings: &mut Vec<Finding>) -> bool {
    if proxy.is_assumed() {
        let seen = "its proxy's URL could not be read: see configuration";
        findings.push(patient.finding(CheckState::Skip, "proxy", seen));
        return false;
    }
    let due = Instant::now() + patient.account().timeouts.connect.min(PATIENCE);
    let Err(failure) = upstream.dial(&patient.place, true, due, &mut Alarm::default()).await else {
        findings.push(patient.finding(CheckState::Ok, "proxy", format!("its server answers through {proxy}")));
        return true;
    };
    let (check, remedy) = if matches!(failure, Failure::Tls { .. }) {
        (
            "tls",
            "it is reached through the proxy. Mend the server's certificate, or write the authority of a proxy that \
             opens TLS into `tls: { ca: … }` at the account",
        )
    } else {
        ("proxy", "mend the proxy, or write another one as `proxy` at the account; `proxy: none` uses none")
    };
    let seen =
        failure.detail().map_or_else(|| format!("no connection through {proxy} in time"), |why| why.into_owned());
    findings.push(patient.finding(CheckState::Fail, check, seen).with(remedy));
    false
}

/// Connects to each address. Returns the first connection.
async fn connect(patient: &Patient, addresses: &[SocketAddr], findings: &mut Vec<Finding>) -> Option<TcpStream> {
    let within = patient.account().timeouts.connect.min(PATIENCE);
    let (mut good, mut answered, mut failed) = (None, Vec::new(), Vec::new());
    for address in addresses.iter().take(MOST) {
        match timeout(within, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                answered.push(address.to_string());
                good.get_or_insert(stream);
            }
            Ok(Err(why)) => failed.push(format!("{address} does not answer: {why}")),
            Err(_) => failed.push(format!("{address} does not answer within {within:?}")),
        }
    }
    if good.is_some() {
        findings.push(patient.finding(CheckState::Ok, "tcp", format!("{} answers", some(&answered))));
    }
    for why in failed {
        let (state, remedy) = if good.is_some() {
            (CheckState::Warn, "another address answers, and the gateway tries all: new connections may take longer")
        } else {
            (
                CheckState::Fail,
                "does the server run, are host and port of `base_url` right, and does a firewall let this machine out?",
            )
        };
        findings.push(patient.finding(state, "tcp", why).with(remedy));
    }
    good
}

fn certificate(patient: &Patient, term: Option<&Term>) -> Finding {
    let Some(term) = term else { return patient.finding(CheckState::Ok, "tls", "the certificate is believed") };
    let (state, lasts) = lasts(term, SystemTime::now());
    let finding =
        patient.finding(state, "tls", format!("the certificate is believed: for {}, {lasts}", some(&term.names)));
    match state {
        CheckState::Ok | CheckState::Skip => finding,
        CheckState::Warn | CheckState::Fail => finding.with(
            "renew the server's certificate if it is yours, else tell its provider: then no request is sent any more",
        ),
    }
}
