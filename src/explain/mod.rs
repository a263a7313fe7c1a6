//! An explanation shows what would happen to a request, and why. No upstream is called, and nothing
//! is reserved.
//!
//! The gateway's own code finds the key, the model, the order and the upstream requests, over a
//! snapshot that no process serves. The state of a running gateway is put into that snapshot first.
//! **Invariant:** the snapshot's catalog has no secrets: they were never read, or they were taken
//! out ([`Catalog::without_secrets`](crate::catalog::Catalog::without_secrets)). So no report can
//! hold one.

mod candidates;
mod instance;
mod key;
mod order;
mod report;
mod shown;
mod text;

use crate::base::clock::Clock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::account::Registry;
use crate::account::demand::UNKNOWN_LONGEST;
use crate::account::latency::ENOUGH;
use crate::base::calendar;
use crate::catalog::{Catalog, name};
use crate::conf::config::Server;
use crate::conf::price::Usd;
use crate::conf::proxy::Proxies;
use crate::desk::checks;
use crate::error::{FailureKind, Refusal};
use crate::limits::{self, Ask, Bound, Bounds, Counts, Kind, Reserve, would_admit};
use crate::live::Snapshot;
use crate::plan::{self, Ties};
use candidates::Rehearsal;
use dialects::front::{DOORS, Envelope, Front, PathRequest};
pub use instance::Instance;
use order::Order;
pub use report::Report;
pub use text::render_report;

/// The caller's header that names a conversation.
const SESSION: &str = "x-portcullis-session";
const TIMEOUT: &str = "x-portcullis-timeout";

/// The settings of `server.yaml` on which the result depends.
#[derive(Clone, Copy)]
pub struct Settings {
    /// The address of the admin listener.
    pub admin: SocketAddr,
    /// The most attempts of one request.
    pub attempts: usize,
    /// The largest body of a request.
    pub largest: usize,
}

impl From<&Server> for Settings {
    fn from(server: &Server) -> Settings {
        let Server {
            admin,
            attempts,
            limits,
            ..
        } = server;
        Settings {
            admin: admin.address,
            attempts: *attempts,
            largest: limits.request_body,
        }
    }
}

/// A question.
pub struct Input {
    /// The settings.
    pub settings: Settings,
    /// A snapshot that no process serves.
    pub snapshot: Snapshot,
    /// True if the limits of the snapshot are those of the running gateway, with their use.
    pub is_counted: bool,
    /// The running gateway whose state counts.
    pub instance: Option<Instance>,
    /// The headers of the request.
    pub headers: HeaderMap,
    /// The front door.
    pub front: &'static Front,
    /// The model and the stream that the path names.
    pub asked: PathRequest,
    /// The body of the request.
    pub body: Bytes,
}

/// Makes a snapshot that no process serves, with a state of its own, behind these proxies.
pub fn standalone_snapshot(catalog: Catalog, proxies: Arc<Proxies>) -> Snapshot {
    let accounts = Registry::behind(proxies);
    Snapshot::new(
        catalog,
        &accounts,
        &crate::limits::Registry::default(),
        &mut Vec::new,
        1,
    )
}

/// Returns whether a text can be the id of a key. A secret is none.
pub fn is_id(key: &str) -> bool {
    key.split_once('/')
        .is_some_and(|(caller, key)| name::of_entry(caller).is_ok() && name::of_entry(key).is_ok())
}

/// Finds a front door by its name.
pub fn find_front(name: &str) -> Result<&'static Front, String> {
    let names = DOORS.map(|front| front.name).join(", ");
    let found = DOORS.into_iter().find(|front| front.name == name);
    found.ok_or_else(|| format!("there is no such front door; these there are: {names}"))
}

/// Reads those headers of the request that affect the result. Any other is an error, which does not
/// repeat it: it may be the one with the key.
pub fn read_headers<'h>(
    mut written: impl Iterator<Item = (&'h str, &'h str)>,
    front: &Front,
) -> Result<HeaderMap, String> {
    let headers = written.by_ref().map(|(name, value)| {
        let own = [SESSION, TIMEOUT].into_iter();
        let mut known = own.chain(front.extras.session_headers.iter().copied());
        let name = known.find(|known| known.eq_ignore_ascii_case(name.trim()))?;
        let value = HeaderValue::from_str(value.trim()).ok()?;
        Some((HeaderName::from_static(name), value))
    });
    let headers: Option<HeaderMap> = headers.collect();
    headers.ok_or_else(|| {
        format!("write `{SESSION}: TEXT` or `{TIMEOUT}: TIME`; other headers change nothing")
    })
}

/// Finds out what would become of the request, in the gateway's own steps.
pub fn explain_request(key: &str, input: &Input) -> Report {
    let (now, clock) = (Clock::now(), SystemTime::now());
    let Input {
        settings,
        snapshot,
        is_counted,
        instance,
        headers,
        front,
        asked,
        body,
    } = input;
    let mut report = Report::default();
    note_source(settings, instance.as_ref(), &mut report);
    let key = key::find_key(&snapshot.catalog, key, clock, &mut report);
    if let Some(instance) = instance
        && let Some(reason) = instance.refuses()
    {
        report.add_fault("running", Refusal::new(FailureKind::ShuttingDown, reason));
    }
    let timeout = checks::request_timeout(headers).unwrap_or_else(|refusal| {
        report.add_fault("request", refusal);
        None
    });
    let envelope = read_envelope(body, settings.largest, front, asked, &mut report);
    let (Some(key), Some(envelope)) = (key, envelope) else {
        return report.with_refusal();
    };
    let Some(model) = key::find_model(&snapshot.catalog, &key, &envelope.model, &mut report) else {
        return report.with_refusal();
    };
    let bounds = snapshot
        .key_scopes(&key)
        .map(|scopes| scopes.bounds(&key, model.index))
        .unwrap_or_default();
    for bound in bounds.iter() {
        let counts = is_counted.then(|| bound.scope.own_counts(calendar::now_millis()));
        let used = counts.as_ref().map(|counts| {
            format!(
                "; used as this instance counts now: {}",
                used_text(bound, counts)
            )
        });
        report.add_fact(
            "limits",
            format!("{}{}", bound.describe(), used.unwrap_or_default()),
        );
        report.limits.push(counts.map_or_else(
            || bound.json().into(),
            |counts| limits::scope_report(bound, &counts, calendar::now_millis()),
        ));
    }
    if let Some(plan) = plan::make_plan(snapshot, &key, &model, &envelope, Ties::default()) {
        for one in &plan.unpriced {
            report.add_fact(
                "limits",
                format!(
                    "{} is left out: money is limited, and its price is unknown",
                    candidate_name(one)
                ),
            );
        }
        if let Err(refusal) = plan.check(&envelope) {
            report.add_fault("request", refusal);
        }
        let amount = |reserve| plan::amount_to_reserve(&envelope, &plan, reserve);
        within_limits(
            &bounds,
            amount(bounds.reserve()),
            amount(Reserve::Asked),
            &mut report,
        );
    }
    if !report.refusals.is_empty() {
        return report.with_refusal();
    }

    let session = checks::conversation_name(headers, front);
    let is_sticky = plan::is_sticky(&snapshot.catalog, &model);
    let conversation = if is_sticky {
        plan::conversation_hash(session, body, &envelope)
    } else {
        None
    };
    // The running state is put in after this: the target that the conversation belongs to may be
    // resting.
    let home = Order::play_through(snapshot, &key, &model, &envelope, conversation);
    if let Some(instance) = instance {
        instance.restore_state(snapshot, now, clock);
        instance.note_differences(&model, &mut report);
    }
    let Some(order) = Order::play_through(snapshot, &key, &model, &envelope, conversation) else {
        return report.with_refusal();
    };
    order.note_reasons(&model, instance.is_some(), &mut report);
    if model.sticky {
        let by = conversation
            .map(|_| known_by(session.map(|_| headers.contains_key(SESSION)), &envelope));
        order::note_home(by, home.as_ref(), &order, &mut report);
    }
    Rehearsal {
        input,
        key: &key,
        model: &model,
        envelope: &envelope,
        timeout,
        now,
    }
    .ask_all(&order, &mut report);
    report
}

/// Writes what is used of the limits of a scope.
fn used_text(bound: &Bound<'_>, counts: &Counts) -> String {
    let each = bound.used_amounts(counts).map(|(kind, used, limit)| {
        format!(
            "{} {} of {}",
            kind.name(),
            amount(kind, used),
            amount(kind, limit)
        )
    });
    each.collect::<Vec<_>>().join(", ")
}

fn amount(kind: Kind, number: u64) -> String {
    if kind.is_money() {
        Usd(number).to_string()
    } else {
        number.to_string()
    }
}

/// Checks the request against the limits. Where their use is not known, these are whole limits: a
/// request that needs more than a whole limit never passes.
fn within_limits(bounds: &Bounds<'_>, ask: Ask, all: Ask, report: &mut Report) {
    if bounds.is_empty() {
        return;
    }
    report.add_fact(
        "limits",
        format!(
            "the request reserves {} tokens and {} USD until it is settled",
            ask.tokens, ask.usd
        ),
    );
    if all != ask {
        report.add_fact(
            "limits",
            format!(
                "the request asks for {} tokens; the limits reserve for an answer at most twice what 99 of 100 answers of the model used \
                 in the last 30 to 60 minutes, and {UNKNOWN_LONGEST} while fewer than {ENOUGH} are known",
                all.tokens
            ),
        );
    }
    for bound in bounds.iter() {
        let mut each = bound.limit_amounts();
        if !each.any(|(kind, limit)| kind.is_over_as_estimated(limit, ask)) {
            continue;
        }
        report.add_fact(
            "limits",
            format!(
                "these tokens are an estimate, and more than a limit of {} allows: the request \
                 is admitted when no other request counts against that limit",
                bound.scope.name
            ),
        );
    }
    if let Err(refused) = would_admit(bounds, ask, calendar::now_millis()) {
        report.add_fault("limits", refused.refusal());
    }
}

/// Reads the parts of the body that the gateway reads.
fn read_envelope(
    body: &Bytes,
    limit: usize,
    front: &'static Front,
    asked: &PathRequest,
    report: &mut Report,
) -> Option<Envelope> {
    if body.len() > limit {
        let message =
            format!("the body is larger than `limits.request_body` in server.yaml, {limit} bytes");
        report.add_fault("request", Refusal::new(FailureKind::TooLarge, message));
        return None;
    }
    let envelope = front.envelope(body);
    if envelope
        .as_ref()
        .is_ok_and(|envelope| !envelope.model.is_empty())
        && *asked != PathRequest::default()
    {
        let message = format!(
            "at the door `{}` the body says the model and the stream: leave out --model, --stream",
            front.name
        );
        report.add_fault(
            "request",
            Refusal::new(FailureKind::BadRequest { code: None }, message),
        );
        return None;
    }
    match envelope.map(|envelope| envelope.with_path(asked.clone())) {
        Ok(envelope) if envelope.model.is_empty() => {
            let message = format!(
                "the path of the door `{}` names the model: write it as `--model MODEL`",
                front.name
            );
            report.add_fault(
                "request",
                Refusal::new(FailureKind::BadRequest { code: None }, message),
            );
            None
        }
        Ok(envelope) => {
            let stream = if envelope.stream {
                "a stream"
            } else {
                "not a stream"
            };
            report.add_fact(
                "request",
                format!(
                    "{} bytes for the model \"{}\", {stream}",
                    body.len(),
                    envelope.model
                ),
            );
            Some(envelope)
        }
        Err(fault) => {
            let refusal = Refusal::new(FailureKind::BadRequest { code: fault.code }, fault.message);
            report.add_fault(
                "request",
                Refusal {
                    param: fault.param.map(String::from),
                    ..refusal
                },
            );
            None
        }
    }
}

fn note_source(settings: &Settings, instance: Option<&Instance>, report: &mut Report) {
    let sentence = match instance {
        Some(instance) => format!("the state is from {}", instance.source),
        None => format!(
            "the state is unknown: every account is assumed healthy and idle. `--status http://{}/status` asks a running instance",
            settings.admin
        ),
    };
    report.add_fact("running", sentence);
}

/// Names the part of the request from which its conversation is known.
/// `session` says whether our own header names it, where a header does.
fn known_by(session: Option<bool>, envelope: &Envelope) -> &'static str {
    if let Some(is_ours) = session {
        if is_ours {
            SESSION
        } else {
            "the session that the client names"
        }
    } else if envelope.cache_key.is_some() {
        "prompt_cache_key"
    } else if envelope.user.is_some() {
        "user"
    } else {
        "the beginning of the conversation, up to its first user message"
    }
}

/// Writes a remaining time, in whole seconds unless it is less than one.
pub fn remaining_text(time: Duration) -> String {
    let milliseconds = time.as_millis();
    if milliseconds < 1_000 {
        format!("{milliseconds}ms")
    } else {
        format!("{}s", milliseconds.div_ceil(1_000))
    }
}

/// Returns the name of a candidate, for people.
fn candidate_name(candidate: &plan::Candidate) -> String {
    format!("{} ({})", candidate.account().id, candidate.upstream_model)
}

type Key = Arc<crate::catalog::Key>;

#[cfg(test)]
mod tests;
