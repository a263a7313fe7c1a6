//! What a running instance tells of itself: its `/status`, fetched or saved, put into a snapshot
//! that nobody serves.

use std::fs::File;
use std::io::{self, Read};
use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use super::left;
use super::report::Report;
use crate::account::breaker;
use crate::account::health::{Rest, Why};
use crate::account::track::Told;
use crate::catalog::{Account, Model};
use crate::cli::http::{LARGEST, get};
use crate::live::Snapshot;

/// The admin listener is quick.
const PATIENCE: Duration = Duration::from_secs(5);
/// Nothing rests for longer.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// What is told, and by whom.
pub(super) struct Status {
    pub(super) source: String,
    told: Page,
}

#[derive(Deserialize)]
struct Page {
    phase: String,
    accounts: Vec<ToldAccount>,
    models: Vec<ToldModel>,
    catalog: Option<ToldCatalog>,
}

#[derive(Deserialize)]
struct ToldCatalog {
    last_refusal: Option<Refusal>,
    held: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    standing: bool,
}

#[derive(Deserialize)]
struct ToldAccount {
    id: String,
    state: String,
    in_flight: usize,
    concurrency: Option<usize>,
    targets: Vec<ToldTarget>,
}

#[derive(Deserialize)]
struct ToldTarget {
    model: String,
    breaker: Breaker,
    opens_in_ms: Option<u64>,
    calls: u64,
    failed: u64,
    rest: Option<ToldRest>,
    last_failure: Option<ToldFailure>,
    first_token_ms: Option<u64>,
    whole_ms: Option<u64>,
    awaited: usize,
    headroom: Option<f64>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Breaker {
    Closed,
    Open,
    HalfOpen,
}

#[derive(Deserialize)]
struct ToldFailure {
    outcome: String,
    detail: Option<String>,
    ago_ms: u64,
}

#[derive(Deserialize)]
struct ToldRest {
    why: WhyTold,
    for_ms: u64,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum WhyTold {
    Rate,
    Credential,
    Refused,
}

/// What is told of a model.
#[derive(Deserialize)]
pub(super) struct ToldModel {
    id: String,
    pub(super) waiting: usize,
    pub(super) retry_budget_spent: f64,
}

/// Fetches it from a URL, or reads the file that it was saved to.
pub(super) fn read(from: &str) -> Result<Status, String> {
    let (source, json) = if from.contains("://") {
        (from.to_owned(), fetch(from).map_err(|why| format!("--status: {why}"))?)
    } else {
        let (age, json) = saved(from).map_err(|why| format!("--status: the file cannot be read: {why}"))?;
        let age = age.map(|age| format!(", saved {} ago,", left(age))).unwrap_or_default();
        (format!("{from}{age}"), json)
    };
    Status::of(source, &json)
}

fn saved(path: &str) -> io::Result<(Option<Duration>, Vec<u8>)> {
    let file = File::open(path)?;
    let age = file.metadata()?.modified().ok().and_then(|saved| saved.elapsed().ok());
    let mut json = Vec::new();
    file.take(LARGEST).read_to_end(&mut json)?;
    Ok((age, json))
}

/// One plain GET: the admin listener speaks nothing else.
fn fetch(url: &str) -> Result<Vec<u8>, String> {
    let Some(rest) = url.strip_prefix("http://").filter(|rest| !rest.contains('@')) else {
        return Err(
            "only http:// is spoken here, without a user's name. Save it with curl, and give the file".to_owned()
        );
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/status" } else { path };
    if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err("the URL holds a character that none may hold".to_owned());
    }
    let port = if authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) { "" } else { ":80" };
    let mut last = format!("does not answer: {}", io::Error::from(io::ErrorKind::NotFound));
    let addresses =
        format!("{authority}{port}").to_socket_addrs().map_err(|why| format!("{url} does not answer: {why}"))?;
    for address in addresses {
        match get(address, authority, path, PATIENCE) {
            Ok(answer) => return answer.map_err(|why| format!("{url} {why}")),
            Err(why) => last = format!("does not answer: {why}"),
        }
    }
    Err(format!("{url} {last}"))
}

impl Status {
    /// What the page of this source tells.
    pub(super) fn of(source: String, json: &[u8]) -> Result<Status, String> {
        let told = serde_json::from_slice(json)
            .map_err(|why| format!("--status: this is no /status of this version: {why}"))?;
        Ok(Status { source, told })
    }

    /// Why the instance takes no request at all.
    pub(super) fn refuses(&self) -> Option<String> {
        let drains = matches!(self.told.phase.as_str(), "draining" | "cutting");
        drains.then(|| format!("the instance is shutting down ({})", self.told.phase))
    }

    /// What is told of a model.
    pub(super) fn model(&self, id: &str) -> Option<&ToldModel> {
        self.told.models.iter().find(|model| model.id == *id)
    }

    fn account(&self, id: &str) -> Option<&ToldAccount> {
        self.told.accounts.iter().find(|account| account.id == *id)
    }

    /// How a target does, in a line.
    pub(super) fn does(&self, account: &Account, model: &str) -> Option<String> {
        let Some(told) = self.account(&account.id) else {
            return Some("/status does not know this account".to_owned());
        };
        let of = told.concurrency.map(|most| format!(" of {most}")).unwrap_or_default();
        let mut does = vec![format!("{}{of} in flight", told.in_flight)];
        match told.target(model) {
            Some(target) => {
                if target.calls > 0 {
                    does.push(format!("{} of {} calls failed", target.failed, target.calls));
                }
                if let Some(ToldFailure { outcome, detail, ago_ms }) = &target.last_failure {
                    let detail = detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
                    does.push(format!("failed {} ago ({outcome}{detail})", left(Duration::from_millis(*ago_ms))));
                }
                if target.breaker == Breaker::HalfOpen {
                    does.push(
                        "breaker half open: one request at a time finds out, whether one is out is not told".to_owned(),
                    );
                }
                let time = |what: &str, time: Option<u64>| time.map(|time| format!("{what} in {time}ms"));
                does.extend(
                    [time("first token", target.first_token_ms), time("whole answer", target.whole_ms)]
                        .into_iter()
                        .flatten(),
                );
                does.extend(target.headroom.map(|share| format!("{:.0} % of the quota left", share * 100.0)));
            }
            None => does.push("/status does not know this model there".to_owned()),
        }
        Some(does.join(", "))
    }

    /// Puts what is told into the snapshot, and says where the two do not fit together.
    pub(super) fn recall(
        &self,
        snapshot: &Snapshot,
        model: &Arc<Model>,
        now: Instant,
        clock: SystemTime,
        report: &mut Report,
    ) {
        let after = |milliseconds: u64| now + Duration::from_millis(milliseconds).min(LONGEST);
        for ((account, state), tracks) in snapshot.catalog.accounts().iter().zip(&snapshot.states).zip(&snapshot.tracks)
        {
            let Some(told) = self.account(&account.id) else { continue };
            let of_credential = |rest: &&ToldRest| rest.why == WhyTold::Credential;
            let rest = told.targets.iter().filter_map(|target| target.rest.as_ref()).find(of_credential);
            state.recall(told.in_flight, rest.map(|rest| Rest { until: after(rest.for_ms), why: Why::Credential }));
            for (name, track) in tracks {
                let Some(target) = told.target(name) else { continue };
                let state = match target.breaker {
                    Breaker::Closed => breaker::State::Closed,
                    Breaker::Open => breaker::State::Open(after(target.opens_in_ms.unwrap_or_default())),
                    Breaker::HalfOpen => breaker::State::HalfOpen { probing: false },
                };
                let rest = target.rest.as_ref().and_then(|rest| {
                    let why = match rest.why {
                        WhyTold::Rate => Why::Rate,
                        WhyTold::Refused => Why::Refused,
                        WhyTold::Credential => return None,
                    };
                    Some(Rest { until: after(rest.for_ms), why })
                });
                let time = |time: Option<u64>| time.map(Duration::from_millis);
                let told = Told {
                    breaker: state,
                    calls: (target.calls, target.failed),
                    rest,
                    expected: [time(target.whole_ms), time(target.first_token_ms)],
                    awaited: target.awaited,
                    headroom: target.headroom,
                };
                track.recall(&told, now, clock);
            }
        }
        self.differ(model, report);
    }

    /// Where the instance does not serve what the files say.
    fn differ(&self, model: &Model, report: &mut Report) {
        if let Some(catalog) = &self.told.catalog {
            if catalog.last_refusal.as_ref().is_some_and(|refusal| refusal.standing) {
                report.fact(
                    "catalog",
                    "the instance refused what its files hold now, and serves an older catalog than this one",
                );
            }
            if let Some(held) = &catalog.held {
                report.fact(
                    "catalog",
                    format!("the instance holds a change back ({held}), and serves an older catalog than this one"),
                );
            }
        }
        if self.model(&model.id).is_none() {
            report.fact(
                "catalog",
                format!("the instance does not serve the model \"{}\": it has another catalog", model.id),
            );
        }
        for account in model.targets.iter().map(|target| &target.account) {
            let Some(told) = self.account(&account.id) else { continue };
            if (told.state == "disabled") == account.enabled {
                let has = if account.enabled { "disabled" } else { "enabled" };
                report.fact(
                    "catalog",
                    format!("in the instance the account {} is {has}: it has another catalog", account.id),
                );
            } else if told.concurrency != account.concurrency {
                report.fact(
                    "catalog",
                    format!(
                        "in the instance the account {} has another `concurrency`: it has another catalog",
                        account.id
                    ),
                );
            }
        }
    }
}

impl ToldAccount {
    fn target(&self, model: &str) -> Option<&ToldTarget> {
        self.targets.iter().find(|target| target.model == *model)
    }
}
