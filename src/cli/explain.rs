//! `portcullis explain` prints what would become of a request, and why. It calls nobody, and reads
//! no secret.
//!
//! The gateway's own code finds the key, the model, the order and the upstream requests, over a
//! snapshot that no process serves. The `/status` of a running instance is put into that snapshot
//! first.

mod candidates;
mod doors;
mod instance;
mod key;
mod order;
mod report;
mod shown;
mod text;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::key::Id;
use super::{ExplainArgs, limits, tell, write};
use crate::account::Registry;
use crate::account::demand::UNKNOWN_LONGEST;
use crate::account::latency::ENOUGH;
use crate::base::calendar;
use crate::catalog::load::{Loaded, Secrets, load, shown};
use crate::conf::config::Server;
use crate::desk::checks;
use crate::error::{Refusal, What};
use crate::exchange::lists;
use crate::limits::{Ask, Bound, Bounds, Reserve, admit};
use crate::live::Snapshot;
use crate::plan::{self, Ties};
use candidates::Rehearsal;
use dialects::front::{Asked, DOORS, Envelope, Front};
use instance::Instance;
use order::Order;
use report::Report;

/// The caller's header that names a conversation.
const SESSION: &str = "x-portcullis-session";
const TIMEOUT: &str = "x-portcullis-timeout";

/// Runs the command. Exits with 0 if an account would be asked, with 1 if none would, and with 2 if
/// that cannot be found out.
pub(super) fn run(args: &ExplainArgs) -> ExitCode {
    if let Some(model) = &args.doors {
        return match doors::explain(&args.conf.folder(), model, args.json) {
            Ok(text) if write(text.as_bytes()).is_ok() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(why) => {
                tell(&why);
                ExitCode::from(2)
            }
        };
    }
    match explain(args) {
        Ok(report) => {
            let text = if args.json { report.json() } else { text::render(&report) };
            let is_written = write(&text).is_ok();
            if is_written && report.verdict.tried { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            tell(&why);
            ExitCode::from(2)
        }
    }
}

/// The inputs that the command line names.
struct Input {
    server: Server,
    snapshot: Snapshot,
    instance: Option<Instance>,
    headers: HeaderMap,
    front: &'static Front,
    /// What the path says of the request.
    asked: Asked,
    body: Bytes,
}

fn explain(args: &ExplainArgs) -> Result<Report, String> {
    // The text is not repeated: it may be the secret.
    let key = args.key.as_deref().unwrap_or_default();
    Id::of(key).map_err(|_| {
        "--key: this is not the id of a key. Write the name that the logs show, such as acme/prod, and never the secret"
    })?;
    let front = front(&args.door)?;
    let headers = headers(&args.headers, front)?;
    let Loaded { server, catalog, .. } = loaded(&args.conf.folder())?;
    let instance = args.status.as_deref().map(instance::read).transpose()?;
    let body = body(args.request.as_deref().unwrap_or(Path::new("-")), server.limits.request_body)?;
    let asked = Asked { model: args.model.clone(), stream: args.stream };
    let snapshot = Snapshot::new(catalog, &Registry::default(), &crate::limits::Registry::default(), &mut Vec::new, 1);
    lists::recall(&server, &snapshot);
    Ok(tried(key, &Input { server, snapshot, instance, headers, front, asked, body }))
}

/// Loads the configuration.
fn loaded(conf: &Path) -> Result<Loaded, String> {
    load(conf, Secrets::Assume).map_err(|problems| {
        format!(
            "{problems}\n{}: with these errors no request can be explained. `portcullis check` prints them, too",
            shown(conf)
        )
    })
}

/// Finds a front door by its name.
fn front(name: &str) -> Result<&'static Front, String> {
    let names = DOORS.map(|front| front.name).join(", ");
    let found = DOORS.into_iter().find(|front| front.name == name);
    found.ok_or_else(|| format!("--door: there is no such front door; these there are: {names}"))
}

/// Reads those headers of the request that affect the result.
fn headers(written: &[String], front: &Front) -> Result<HeaderMap, String> {
    let read = |written: &String| {
        let (name, value) = written.split_once(':')?;
        let mut known = [SESSION, TIMEOUT].into_iter().chain(front.heard.sessions.iter().copied());
        let name = known.find(|known| known.eq_ignore_ascii_case(name.trim()))?;
        Some((HeaderName::from_static(name), HeaderValue::from_str(value.trim()).ok()?))
    };
    let headers: Option<HeaderMap> = written.iter().map(read).collect();
    // The header is not repeated: it may be the one with the key.
    headers
        .ok_or_else(|| format!("--header: write `{SESSION}: TEXT` or `{TIMEOUT}: TIME`; other headers change nothing"))
}

/// Reads the request's body. Of a body that is too large, it reads one byte more than the limit.
fn body(path: &Path, limit: usize) -> Result<Bytes, String> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut body = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(most).read_to_end(&mut body)
    } else {
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut body))
    };
    read.map_err(|why| format!("the file with the request cannot be read: {why}"))?;
    Ok(body.into())
}

/// Finds out what would become of the request, in the gateway's own steps.
fn tried(key: &str, input: &Input) -> Report {
    let (now, clock) = (Instant::now(), SystemTime::now());
    let Input { server, snapshot, instance, headers, front, asked, body } = input;
    let mut report = Report::default();
    running(server, instance.as_ref(), &mut report);
    let key = key::find(&snapshot.catalog, key, clock, &mut report);
    if let Some(instance) = instance
        && let Some(what) = instance.refuses()
    {
        report.fault("running", Refusal::new(What::ShuttingDown, what));
    }
    let timeout = checks::timeout(headers).unwrap_or_else(|refusal| {
        report.fault("request", refusal);
        None
    });
    let envelope = read(body, server.limits.request_body, (front, asked), &mut report);
    let (Some(key), Some(envelope)) = (key, envelope) else { return report.refused() };
    let Some(model) = key::model(&snapshot.catalog, &key, &envelope.model, &mut report) else {
        return report.refused();
    };
    let bounds = snapshot.scopes.get(key.index).map(|scopes| scopes.bounds(&key, model.index)).unwrap_or_default();
    for bound in bounds.iter() {
        report.fact("limits", limits::says(bound));
        report.limits.push(bound.json());
    }
    if let Some(plan) = plan::plan(snapshot, &key, &model, &envelope, Ties::default()) {
        for one in &plan.unpriced {
            report.fact("limits", format!("{} is left out: money is limited, and its price is unknown", named(one)));
        }
        if let Err(refusal) = plan.check(&envelope) {
            report.fault("request", refusal);
        }
        let most = |reserve| plan::most(&envelope, &plan, reserve);
        within_limits(&bounds, most(bounds.reserve()), most(Reserve::Asked), &mut report);
    }
    if !report.refusals.is_empty() {
        return report.refused();
    }

    let session = checks::session(headers, front);
    let is_sticky = plan::is_sticky(&snapshot.catalog, &model);
    let conversation = if is_sticky { plan::conversation(session, body, &envelope) } else { None };
    // The running state is put in after this: the target that the conversation belongs to may be
    // resting.
    let home = Order::of(snapshot, &key, &model, &envelope, conversation);
    if let Some(instance) = instance {
        instance.recall(snapshot, now, clock);
        instance.differ(&model, &mut report);
    }
    let Some(order) = Order::of(snapshot, &key, &model, &envelope, conversation) else { return report.refused() };
    order.tell(&model, instance.is_some(), &mut report);
    if model.sticky {
        let by = conversation.map(|_| known_by(session.map(|_| headers.contains_key(SESSION)), &envelope));
        order::tell_home(by, home.as_ref(), &order, &mut report);
    }
    Rehearsal { input, key: &key, model: &model, envelope: &envelope, timeout, now }.tell(&order, &mut report);
    report
}

/// Checks the request against whole limits: a request that needs more than a whole limit never
/// passes. Only the instance knows how much of a limit is left; its `/limits` reports that.
fn within_limits(bounds: &Bounds<'_>, ask: Ask, all: Ask, report: &mut Report) {
    if bounds.is_empty() {
        return;
    }
    report
        .fact("limits", format!("the request reserves {} tokens and {} USD until it is settled", ask.tokens, ask.usd));
    if all != ask {
        report.fact(
            "limits",
            format!(
                "the request asks for {} tokens; the limits reserve for an answer at most twice what 99 of 100 answers of the model used \
                 in the last 30 to 60 minutes, and {UNKNOWN_LONGEST} while fewer than {ENOUGH} are known",
                all.tokens
            ),
        );
    }
    let estimated = |bound: &&Bound<'_>| bound.each().any(|(kind, limit)| kind.is_over_as_estimated(limit, ask));
    for bound in bounds.iter().filter(estimated) {
        report.fact(
            "limits",
            format!(
                "these tokens are an estimate, and more than a limit of {} allows: the request \
                 is admitted when no other request counts against that limit",
                bound.scope.name
            ),
        );
    }
    // The reservation is undone, so that nothing is used.
    match admit(bounds, ask, calendar::now(), 1) {
        Ok(reservation) => reservation.undo(),
        Err(refused) => report.fault("limits", refused.refusal()),
    }
}

/// Reads the parts of the body that the gateway reads.
fn read(body: &Bytes, limit: usize, (front, asked): (&Front, &Asked), report: &mut Report) -> Option<Envelope> {
    if body.len() > limit {
        let what = format!("the body is larger than `limits.request_body` in server.yaml, {limit} bytes");
        report.fault("request", Refusal::new(What::TooLarge, what));
        return None;
    }
    let envelope = (front.envelope)(body);
    if envelope.as_ref().is_ok_and(|envelope| !envelope.model.is_empty()) && *asked != Asked::default() {
        let what =
            format!("at the door `{}` the body says the model and the stream: leave out --model, --stream", front.name);
        report.fault("request", Refusal::new(What::BadRequest { code: None }, what));
        return None;
    }
    match envelope.map(|envelope| envelope.at(asked.clone())) {
        Ok(envelope) if envelope.model.is_empty() => {
            let what = format!("the path of the door `{}` names the model: write it as `--model MODEL`", front.name);
            report.fault("request", Refusal::new(What::BadRequest { code: None }, what));
            None
        }
        Ok(envelope) => {
            let stream = if envelope.stream { "a stream" } else { "not a stream" };
            report.fact("request", format!("{} bytes for the model \"{}\", {stream}", body.len(), envelope.model));
            Some(envelope)
        }
        Err(fault) => {
            let refusal = Refusal::new(What::BadRequest { code: fault.code }, fault.message);
            report.fault("request", Refusal { param: fault.param.map(String::from), ..refusal });
            None
        }
    }
}

fn running(server: &Server, instance: Option<&Instance>, report: &mut Report) {
    let says = match instance {
        Some(instance) => format!("the state is from {}", instance.source),
        None => format!(
            "the state is unknown: every account is assumed healthy and idle. `--status http://{}/status` asks a running instance",
            server.admin
        ),
    };
    report.fact("running", says);
}

/// Names the part of the request from which its conversation is known.
/// `session` says whether our own header names it, where a header does.
fn known_by(session: Option<bool>, envelope: &Envelope) -> &'static str {
    if let Some(is_ours) = session {
        if is_ours { SESSION } else { "the session that the client names" }
    } else if envelope.cache_key.is_some() {
        "prompt_cache_key"
    } else if envelope.user.is_some() {
        "user"
    } else {
        "the beginning of the conversation, up to its first user message"
    }
}

/// Writes a duration as the catalog does.
fn span(time: Duration) -> String {
    let milliseconds = time.as_millis();
    if milliseconds.is_multiple_of(1_000) { format!("{}s", milliseconds / 1_000) } else { format!("{milliseconds}ms") }
}

/// Writes a remaining time, in whole seconds unless it is less than one.
fn left(time: Duration) -> String {
    let milliseconds = time.as_millis();
    if milliseconds < 1_000 { format!("{milliseconds}ms") } else { format!("{}s", milliseconds.div_ceil(1_000)) }
}

/// Returns the name of a candidate, for people.
fn named(candidate: &plan::Candidate) -> String {
    format!("{} ({})", candidate.place.account.id, candidate.upstream_model)
}

type Key = Arc<crate::catalog::Key>;

#[cfg(test)]
mod tests;
