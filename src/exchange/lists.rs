//! The lists of providers' models, for the patterns of the catalog. They are fetched in the
//! background, never while a request waits, and kept on disk in the ledger's folder.
//!
//! **Invariant:** accounts with one address, one credential and one proxy share each fetch. A fetch
//! that fails takes no name away.

use super::attempt::Attempt;
use super::backends::Backends;
use super::outgoing::{Outgoing, own_id};
use super::tasks::NamedTasks;
use super::upstream::Upstream;
use crate::account::failure::Failure;
use crate::base::alarm::Alarm;
use crate::base::calendar::unix_time;
use crate::base::clock::{Clock, Round};
use crate::base::units::format_count;
use crate::catalog::Account;
use crate::catalog::listing::{ListedNames, MAX_NAMES, listing_source};
use crate::catalog::resolve::sha256_of;
use crate::conf::config::Server;
use crate::conf::proxy::Proxy;
use crate::error::scrub_secret_words;
use crate::live::ready_account::ReadyAccount;
use crate::live::{Live, Snapshot};
use crate::metrics::Metrics;
use dialects::front::Front;
use dialects::wire::shorten_text;
use http::StatusCode;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// The pause between two looks for lists that are due.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The longest time for a list with all its pages.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// The most pages of a list.
const MAX_PAGES: usize = 100;
/// The most bytes of all pages together.
const MAX_LIST_BYTES: usize = 8 << 20;

/// Accounts with the same list, by its address and credential.
type Sources = BTreeMap<String, Vec<Arc<ReadyAccount>>>;

/// Fetches each list when it is due, for ever. A panic of ours over an answer ends only that fetch.
pub async fn keep_refreshed(live: &Live, backends: &Arc<Backends>, metrics: &Metrics) {
    let mut running = NamedTasks::new();
    let mut recalled = 1;
    loop {
        running.forget_ended(metrics);
        let snapshot = live.load_full();
        if recalled != snapshot.generation {
            load_kept_lists(&backends.server, &snapshot);
            recalled = snapshot.generation;
        }
        let now = Clock::now();
        for (source, places) in accounts_by_source(&snapshot) {
            let is_due = places
                .iter()
                .any(|ready_account| ready_account.state.listing.is_due(now));
            if is_due && !running.has(&source) {
                let backends = backends.clone();
                running.start(
                    source,
                    async move { refresh_list(&backends, &places).await },
                );
            }
        }
        drop(snapshot);
        Clock::pause(Round::Lists, CHECK_INTERVAL).await;
    }
}

/// Returns the accounts whose lists are needed, those with the same list together.
fn accounts_by_source(snapshot: &Snapshot) -> Sources {
    let mut sources = Sources::new();
    for ready_account in snapshot
        .catalog
        .listed_accounts()
        .into_iter()
        .filter_map(|index| snapshot.ready_accounts.get(index))
    {
        // Behind another proxy, or for another user of it, the same list may be out of reach.
        let user = |proxy: &Proxy| proxy.credential().map(|secret| sha256_of(secret.expose()));
        let proxy = ready_account
            .proxy
            .as_ref()
            .map(|proxy| (proxy.to_string(), user(proxy)));
        let name = format!(
            "{} {} {proxy:?}",
            listing_source(&ready_account.account),
            ready_account.account.boundary()
        );
        sources.entry(name).or_default().push(ready_account.clone());
    }
    sources
}

/// Fetches a list for accounts that share it.
async fn refresh_list(backends: &Backends, places: &[Arc<ReadyAccount>]) {
    let Some(first) = places.first() else { return };
    let fetched = fetch_list(&backends.upstream, first, &mut None).await;
    // Meanwhile an account may have got another address or credential: it has another list.
    let places: Vec<_> = places
        .iter()
        .filter(|ready_account| ready_account.state.listing.is_of(&ready_account.account))
        .collect();
    let Some(first) = places.first() else { return };
    let (now, clock, refresh) = (
        Clock::now(),
        SystemTime::now(),
        backends.server.list_refresh,
    );
    let ids = places
        .iter()
        .map(|ready_account| &*ready_account.account.id)
        .collect::<Vec<_>>()
        .join(", ");
    // A provider that has lost all of its models for a moment would take them from all callers.
    let known = first
        .state
        .listing
        .names()
        .is_some_and(|known| !known.names.is_empty());
    let names = match fetched.and_then(|names| if known { with_names(names) } else { Ok(names) }) {
        Ok(names) => Arc::new(names),
        Err(failure) => {
            let shown_detail = failure
                .detail()
                .map(|detail| scrub_secret_words(&detail, &first.account.secrets()));
            let why: String = [Some(failure.name().to_owned()), shown_detail]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(": ");
            let why = shorten_text(&why, 200);
            let has_names = first.state.listing.names().is_some();
            let then = if has_names {
                "the list stays as it is"
            } else {
                "no model of its patterns is served"
            };
            log::warn!(
                "account {ids}: could not get the list of the provider's models ({why}); {then}"
            );
            places.iter().for_each(|ready_account| {
                ready_account
                    .state
                    .listing
                    .record_failure(why.clone(), clock, now, refresh)
            });
            return;
        }
    };
    if first.state.listing.names().as_ref() != Some(&names) {
        let served = format_count(names.names.len(), "model");
        let left_out = match names.left_out {
            0 => String::new(),
            left_out => format!("; {left_out} more names cannot be served"),
        };
        log::info!("account {ids}: the provider lists {served}{left_out}");
    }
    for ready_account in places {
        ready_account
            .state
            .listing
            .store_names(names.clone(), clock, Some(now + refresh));
        let Some(folder) = backends.server.list_folder() else {
            continue;
        };
        let (account, names) = (ready_account.account.clone(), names.clone());
        let stored = spawn_blocking(move || write_list(&folder, &account, &names, clock)).await;
        if let Ok(Err(why)) = stored {
            log::warn!(
                "account {}: the list of the provider's models cannot be kept on disk: {why}",
                ready_account.account.id
            );
        }
    }
}

/// Refuses a list without a name that can be served.
fn with_names(names: ListedNames) -> Result<ListedNames, Failure> {
    if names.names.is_empty() {
        Err(Failure::Nonsense("an empty list".to_owned()))
    } else {
        Ok(names)
    }
}

/// Fetches all pages of a list. The time that the first page tells, if any, is noted in `date`,
/// whatever else it says.
pub async fn fetch_list(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
    date: &mut Option<SystemTime>,
) -> Result<ListedNames, Failure> {
    let nonsense = || Failure::Nonsense("an answer that is no list of models".to_owned());
    let listing = ready_account
        .account
        .dialect
        .protocol
        .endpoints
        .listing
        .ok_or_else(nonsense)?;
    let (due, base) = (
        Instant::now() + LIST_TIMEOUT,
        &ready_account.account.base.path,
    );
    let (mut names, mut next, mut left) = (Vec::new(), None, MAX_LIST_BYTES);
    for _ in 0..MAX_PAGES {
        let body = get_bytes(
            upstream,
            ready_account,
            &listing.page_path(base, next.as_deref()),
            left,
            due,
            date,
        )
        .await?;
        left = left.saturating_sub(body.len());
        let page = listing.read_page(&body).ok_or_else(nonsense)?;
        names.extend(page.names);
        if page.next.is_none() || names.len() > MAX_NAMES {
            return Ok(ListedNames::new(names));
        }
        next = page.next;
    }
    Err(Failure::Nonsense(format!(
        "a list of more than {MAX_PAGES} pages"
    )))
}

/// Returns what the account's server has at a path. Notes the time that the server tells, unless
/// one is noted already.
pub async fn get_bytes(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
    path: &str,
    max_bytes: usize,
    due: Instant,
    date: &mut Option<SystemTime>,
) -> Result<Vec<u8>, Failure> {
    let (timeouts, request_id) = (ready_account.account.timeouts, own_id());
    let outgoing = Outgoing::own(&request_id, path, timeouts, due);
    send_request(upstream, ready_account, &outgoing, max_bytes, date).await
}

/// Sends a request outside of any exchange, and returns at most so many bytes of a good answer.
/// Notes the time that the server tells, unless one is noted already.
pub async fn send_request(
    upstream: &Upstream,
    ready_account: &Arc<ReadyAccount>,
    outgoing: &Outgoing<'_>,
    max_bytes: usize,
    date: &mut Option<SystemTime>,
) -> Result<Vec<u8>, Failure> {
    let due = outgoing.total;
    let mut alarm = Alarm::default();
    let permit = ready_account
        .state
        .admit_count()
        .map(Arc::new)
        .ok_or(Failure::Reset)?;
    let mut attempt =
        Attempt::connect_and_send(upstream, ready_account, permit, outgoing, &mut alarm)
            .await
            .map_err(Failure::after_last_try)?;
    let head = attempt.head_until(due, &mut alarm).await;
    let (status, headers) = head.map_err(Failure::after_last_try)?;
    // An answer from a cache has the time at which it was put there.
    let is_fresh = headers.get("age").is_none();
    *date =
        date.or_else(|| httpdate::parse_http_date(headers.text("date").filter(|_| is_fresh)?).ok());
    if status != StatusCode::OK {
        let front = Front::for_path("", None, &|_| false);
        return Err(attempt
            .read_refusal(&ready_account.account.dialect, front, due, &mut alarm)
            .await);
    }
    let body = attempt.read_rest(max_bytes, due, &mut alarm).await?;
    attempt.finish().await;
    Ok(body)
}

/// Takes the lists that are kept on disk, for accounts whose list is not known.
pub fn load_kept_lists(server: &Server, snapshot: &Snapshot) {
    let Some(folder) = server.list_folder() else {
        return;
    };
    for ready_account in snapshot
        .catalog
        .listed_accounts()
        .into_iter()
        .filter_map(|index| snapshot.ready_accounts.get(index))
    {
        if ready_account.state.listing.names().is_none()
            && let Some((names, fetched)) = read_list(&folder, &ready_account.account)
        {
            ready_account
                .state
                .listing
                .store_names(Arc::new(names), fetched, None);
        }
    }
}

fn list_file(folder: &Path, account: &Account) -> PathBuf {
    folder.join(format!("{}.txt", account.id))
}

/// Writes a list: a line with its address, a line with the time in Unix seconds and the number of
/// names that were left out, and a line for each name.
fn write_list(
    folder: &Path,
    account: &Account,
    list: &ListedNames,
    fetched: SystemTime,
) -> io::Result<()> {
    let seconds = unix_time(fetched).as_secs();
    let text = format!(
        "{}\n{seconds} {}\n{}\n",
        listing_source(account),
        list.left_out,
        list.names.join("\n")
    );
    fs::create_dir_all(folder)?;
    let (path, fresh) = (
        list_file(folder, account),
        list_file(folder, account).with_extension(format!("{}.new", std::process::id())),
    );
    fs::write(&fresh, text)?;
    fs::rename(fresh, path)
}

/// Reads a list that [`write_list`] wrote for this account at its present address.
fn read_list(folder: &Path, account: &Account) -> Option<(ListedNames, SystemTime)> {
    let mut text = String::new();
    fs::File::open(list_file(folder, account))
        .ok()?
        .take(MAX_LIST_BYTES as u64)
        .read_to_string(&mut text)
        .ok()?;
    let mut lines = text.lines();
    if lines.next()? != listing_source(account) {
        return None;
    }
    let (seconds, left_out) = lines.next()?.split_once(' ')?;
    let fetched = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))?;
    let list = ListedNames::new(lines.filter(|line| !line.is_empty()).map(str::to_owned));
    Some((
        ListedNames {
            left_out: list.left_out + left_out.parse::<u32>().ok()? as usize,
            ..list
        },
        fetched,
    ))
}
