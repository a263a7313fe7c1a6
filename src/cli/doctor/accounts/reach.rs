//! The way to an account's server: its name, its addresses, its certificate.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Patient;
use crate::cli::doctor::listeners::lasts;
use crate::cli::doctor::report::{CheckState, Finding};
use crate::cli::doctor::words::some;
use crate::tls::Term;

/// The longest time for a name, a connection or a handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most addresses that are tried.
const MOST: usize = 4;

/// Looks at the way. Returns whether the server can be reached.
pub(super) async fn look(patient: &Patient, findings: &mut Vec<Finding>) -> bool {
    let account = patient.account();
    let host = &account.base.host;
    let looked_up = timeout(PATIENCE, patient.place.state.addresses.of(account)).await;
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
