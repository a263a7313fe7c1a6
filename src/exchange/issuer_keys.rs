//! The keys of issuers of callers' tokens. They are fetched in the background, and kept on disk in
//! the ledger's folder, so that a restart does not need the issuer.
//!
//! **Invariant:** keys come only from the address that the catalog names, or from the one that the
//! issuer's own document of discovery names. A fetch that fails takes no key away.

use super::backends::Backends;
use super::lists::get_bytes;
use super::tasks::NamedTasks;
use super::upstream::Upstream;
use crate::account::failure::Failure;
use crate::base::calendar::unix_time;
use crate::base::clock::{Clock, Round};
use crate::base::hash::digest_text;
use crate::base::secret::Secret;
use crate::catalog::Timeouts;
use crate::catalog::identity::{Identity, KeyAddress, KeyServer, KeySource};
use crate::catalog::resolve::parse_key_address;
use crate::conf::proxy::Proxies;
use crate::error::scrub_secret_words;
use crate::identity::json::parse_object;
use crate::identity::jwk::{KeySet, MAX_SET_BYTES};
use crate::live::issuers::Issuer;
use crate::live::ready_account::{ReadyAccount, server_account};
use crate::live::{Live, Snapshot};
use crate::metrics::Metrics;
use dialects::wire::shorten_text;
use http::HeaderValue;
use serde_json::Value;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// The pause between two looks for keys that are due.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The longest time until a server is connected.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time of a fetch, with discovery.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Fetches the keys of each issuer when they are due, for ever.
pub async fn keep_refreshed(live: &Arc<Live>, backends: &Arc<Backends>, metrics: &Metrics) {
    let mut running = NamedTasks::new();
    let mut recalled = None;
    loop {
        running.forget_ended(metrics);
        let snapshot = live.load_full();
        if recalled != Some(snapshot.generation) {
            load_kept_keys(backends, &snapshot);
            recalled = Some(snapshot.generation);
        }
        let now = Clock::now();
        for (identity, issuer) in snapshot.issuers() {
            let KeySource::Server(_) = &identity.key_source else {
                continue;
            };
            if issuer.is_due(now) && !running.has(&issuer.identity) {
                issuer.begin_fetch(now);
                let (live, backends) = (live.clone(), backends.clone());
                let (identity, issuer) = (identity.clone(), issuer.clone());
                running.start(identity.id.clone(), async move {
                    refresh_keys(&live, &backends, &identity, &issuer).await
                });
            }
        }
        drop(snapshot);
        tokio::select! {
            () = Clock::pause(Round::Keys, CHECK_INTERVAL) => {}
            () = live.issuers.wanted.notified() => {}
        }
    }
}

/// Fetches the keys of an issuer, and takes them.
async fn refresh_keys(live: &Live, backends: &Backends, identity: &Identity, issuer: &Issuer) {
    let KeySource::Server(server) = &identity.key_source else {
        return;
    };
    match fetch_keys(
        &backends.upstream,
        &backends.server.proxies,
        identity,
        server,
    )
    .await
    {
        Ok(Fetched { set, text }) => {
            let had_trouble = issuer.trouble().is_some();
            let now = SystemTime::now();
            let gone = issuer.take_keys(Arc::new(set), now);
            for key in gone {
                live.tokens.forget_key(&identity.rules.issuer, &key);
            }
            issuer.note_fetched(Clock::now());
            if had_trouble {
                log::info!(
                    "identity {}: the issuer's keys can be fetched again",
                    identity.id
                );
            }
            let Some(folder) = backends.server.key_folder() else {
                return;
            };
            let (id, source) = (identity.id.clone(), issuer.source);
            let kept = spawn_blocking(move || keep_keys(&folder, &id, &source, &text, now)).await;
            if let Ok(Err(why)) = kept {
                log::warn!(
                    "identity {}: the issuer's keys cannot be kept on disk: {why}",
                    identity.id
                );
            }
        }
        Err(reason) => {
            if issuer.note_failed(Clock::now(), reason.clone()) {
                let then = match issuer.keys(identity) {
                    Some(_) => "the keys that were fetched before are still used",
                    None => "its tokens are refused until the keys can be fetched",
                };
                log::warn!(
                    "identity {}: the issuer's keys cannot be fetched ({reason}); {then}",
                    identity.id
                );
            }
        }
    }
}

/// Keys that were fetched.
pub struct Fetched {
    /// The keys.
    pub set: KeySet,
    /// The text in which they came.
    text: Vec<u8>,
}

/// Fetches the keys of an issuer. The error is the reason, without anything secret.
pub async fn fetch_keys(
    upstream: &Upstream,
    proxies: &Proxies,
    identity: &Identity,
    server: &KeyServer,
) -> Result<Fetched, String> {
    let due = Instant::now() + FETCH_TIMEOUT;
    let mut asked = server.clone();
    if server.is_discovery {
        let document = fetch_bytes((upstream, proxies), identity, &asked, due).await?;
        asked = discovered_server(identity, server, &document)?;
    }
    let text = fetch_bytes((upstream, proxies), identity, &asked, due).await?;
    let set = KeySet::parse(&text)?;
    Ok(Fetched { set, text })
}

/// Reads the document of discovery: it must be the issuer's, and says where the keys are.
fn discovered_server(
    identity: &Identity,
    server: &KeyServer,
    document: &[u8],
) -> Result<KeyServer, String> {
    let document = parse_object(document, MAX_SET_BYTES)
        .map_err(|fault| format!("the document of discovery {fault}"))?;
    let issuer = document.get("issuer").and_then(Value::as_str);
    if issuer != Some(&*identity.rules.issuer) {
        let seen = shorten_text(issuer.unwrap_or("none"), 200);
        return Err(format!(
            "the document of discovery is of another issuer: {seen:?}, and not {:?}",
            identity.rules.issuer
        ));
    }
    let url = document.get("jwks_uri").and_then(Value::as_str);
    let url = url.ok_or("the document of discovery has no `jwks_uri`")?;
    let address = parse_key_address(url)
        .map_err(|wrong| format!("the `jwks_uri` of the document of discovery {wrong}"))?;
    // The bearer is for the server that the catalog names.
    let is_same_server = address.base.origin() == server.address.base.origin();
    Ok(KeyServer {
        address,
        is_discovery: false,
        bearer: server.bearer.clone().filter(|_| is_same_server),
        network: server.network.clone(),
    })
}

async fn fetch_bytes(
    network: (&Upstream, &Proxies),
    identity: &Identity,
    server: &KeyServer,
    due: Instant,
) -> Result<Vec<u8>, String> {
    let timeouts = Timeouts::for_message(CONNECT_TIMEOUT, FETCH_TIMEOUT);
    let KeyAddress { base, query } = &server.address;
    let json = HeaderValue::from_static("application/json");
    let mut account = server_account(identity.id.clone(), base.clone(), timeouts, json);
    account.key = server.bearer.clone();
    account.network = server.network.clone();
    let (upstream, proxies) = network;
    let ready_account = Arc::new(ReadyAccount::standalone(account, proxies));
    let path = format!("{}{query}", base.path);
    let mut date = None;
    let fetched = get_bytes(
        upstream,
        &ready_account,
        &path,
        MAX_SET_BYTES,
        due,
        &mut date,
    );
    fetched.await.map_err(|failure| {
        let reason = describe_failure(&failure, server.bearer.as_ref());
        format!("{}{}: {reason}", base.origin(), base.path)
    })
}

fn describe_failure(failure: &Failure, bearer: Option<&Secret>) -> String {
    let secrets: Vec<&str> = bearer.map(Secret::expose).into_iter().collect();
    let detail = failure.detail();
    let detail = detail.map(|detail| scrub_secret_words(&detail, &secrets));
    let words = [Some(failure.name().to_owned()), detail];
    let words: Vec<String> = words.into_iter().flatten().collect();
    shorten_text(&words.join(": "), 200).to_owned()
}

/// Takes the keys that are kept on disk, for issuers whose keys are not known.
fn load_kept_keys(backends: &Backends, snapshot: &Snapshot) {
    let Some(folder) = backends.server.key_folder() else {
        return;
    };
    for (identity, issuer) in snapshot.issuers() {
        if issuer.last_keys().is_none()
            && let Some((set, fetched_at)) = read_kept_keys(&folder, &identity.id, &issuer.source)
        {
            issuer.take_keys(Arc::new(set), fetched_at);
        }
    }
}

fn key_file(folder: &Path, identity: &str) -> PathBuf {
    folder.join(format!("{identity}.jwks"))
}

/// Keeps keys: a line with the hash of where they are from and the time in Unix seconds, and then
/// the keys as they came.
fn keep_keys(
    folder: &Path,
    identity: &str,
    source: &[u8; 32],
    text: &[u8],
    fetched_at: SystemTime,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = key_file(folder, identity);
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)?;
    let seconds = unix_time(fetched_at).as_secs();
    writeln!(file, "{} {seconds}", digest_text(source, source.len()))?;
    file.write_all(text)?;
    drop(file);
    fs::rename(fresh, path)
}

/// Reads keys that [`keep_keys`] kept for this issuer.
fn read_kept_keys(
    folder: &Path,
    identity: &str,
    source: &[u8; 32],
) -> Option<(KeySet, SystemTime)> {
    let mut text = Vec::new();
    fs::File::open(key_file(folder, identity))
        .ok()?
        .take(2 * MAX_SET_BYTES as u64)
        .read_to_end(&mut text)
        .ok()?;
    let line_end = text.iter().position(|byte| *byte == b'\n')?;
    let (line, keys) = text.split_at_checked(line_end)?;
    let (digest, seconds) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    if digest != digest_text(source, source.len()) {
        return None;
    }
    let fetched_at = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))?;
    Some((KeySet::parse(keys).ok()?, fetched_at))
}
