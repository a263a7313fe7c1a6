//! Whether a server has each endpoint that the catalog may ask it for. Each gets one request that
//! asks for nothing (`[]`): a server that has the endpoint finds fault with it, and charges for
//! nothing. An empty object would not do: some servers answer it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{Patient, said};
use crate::account::failure::{Class, Failure};
use crate::base::alarm::Alarm;
use crate::base::problem::shown;
use crate::cli::doctor::report::{CheckState, Finding};
use crate::cli::doctor::words::some;
use crate::exchange::outgoing::{Outgoing, own_id};
use crate::exchange::upstream::Upstream;
use crate::exchange::{credential, lists};
use dialects::Endpoint;
use dialects::neutral::ModelKind;

/// The longest time for all endpoints of an account.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const MOST: usize = 1 << 20;

/// What a server says to requests for nothing.
pub(super) struct EndpointAnswers {
    answers: Vec<EndpointAnswer>,
    /// The endpoints whose path has a model, and no target names one for it.
    without_model: Vec<Endpoint>,
    /// The endpoints for which no time was left.
    late: Vec<Endpoint>,
}

/// What it says to one.
struct EndpointAnswer {
    kind: Endpoint,
    path: String,
    /// The model that the path has.
    model: Option<String>,
    failure: Option<Failure>,
}

/// What follows from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// The endpoint is there, and it has found fault with the request itself.
    There,
    /// The endpoint is there, as far as can be seen.
    Perhaps,
    /// The credential is not valid, or its account is not paid for.
    Refused,
    /// The credential may not ask this endpoint.
    Forbidden,
    /// The endpoint is not there.
    Missing,
    /// It is not known.
    Unknown,
}

/// Sends a request for nothing to each endpoint. The time that the server tells is noted in `date`.
pub(super) async fn ask(patient: &Patient, upstream: &Upstream, date: &mut Option<SystemTime>) -> EndpointAnswers {
    let account = patient.account();
    let over = Instant::now() + PATIENCE;
    let (mut answers, mut without_model, mut late) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, dialect) in &account.serves {
        let in_path = dialect.has_model_in_path();
        // Where the path has a model, one that is for something else would be missing.
        let fits = |(_, made_for): &(&Arc<str>, &ModelKind)| **made_for == ModelKind::of_endpoint(*kind);
        let model = patient.models.iter().find(fits).map(|(name, _)| name.to_string());
        if in_path && model.is_none() {
            without_model.push(*kind);
            continue;
        }
        if Instant::now() >= over {
            late.push(*kind);
            continue;
        }
        let due = over.min(Instant::now() + PATIENCE / 2);
        let outbound = dialect.empty(model.as_deref().unwrap_or_default());
        let (mut alarm, connect) = (Alarm::default(), account.timeouts.connect);
        let headers = credential::of_place(upstream, (&patient.place, connect), &outbound, due, &mut alarm).await;
        let answer = match headers {
            Err(failure) => Err(failure),
            Ok(headers) => {
                let request_id = own_id();
                let outgoing = Outgoing {
                    request_id: &request_id,
                    path: &outbound.path,
                    headers: &headers,
                    body: &outbound.body,
                    upload: None,
                    stream: false,
                    timeouts: account.timeouts,
                    total: due,
                    fresh: true,
                };
                lists::send(upstream, &patient.place, &outgoing, MOST, date).await
            }
        };
        let path = format!("{}{}", account.base.path, outbound.path);
        let model = model.filter(|_| in_path);
        let is_page = |body: &Vec<u8>| body.trim_ascii_start().starts_with(b"<");
        let failure = match answer {
            Ok(body) if is_page(&body) => Some(Failure::Nonsense("a web page".to_owned())),
            Ok(_) => None,
            Err(failure) => Some(failure),
        };
        answers.push(EndpointAnswer { kind: *kind, path, model, failure });
    }
    EndpointAnswers { answers, without_model, late }
}

impl EndpointAnswers {
    /// Returns the answer that refuses the credential, if no endpoint takes it.
    pub(super) fn refusal(&self) -> Option<&Failure> {
        let refused = self.answers.iter().find(|one| one.verdict() == Verdict::Refused)?;
        refused.failure.as_ref().filter(|_| !self.is_let_in())
    }

    /// Returns whether an endpoint has found fault with something else than the credential.
    pub(super) fn is_let_in(&self) -> bool {
        self.answers.iter().any(|one| one.verdict() == Verdict::There)
    }

    /// Tells of the endpoints, those with the same answer together.
    pub(super) fn tell(&self, patient: &Patient, findings: &mut Vec<Finding>) {
        let kinds = |of: &[&EndpointAnswer]| of.iter().map(|one| one.kind.name()).collect::<Vec<_>>().join(", ");
        let mut alike: BTreeMap<(Verdict, String), Vec<&EndpointAnswer>> = BTreeMap::new();
        let is_there = |one: &&EndpointAnswer| matches!(one.verdict(), Verdict::There | Verdict::Perhaps);
        let there: Vec<_> = self.answers.iter().filter(is_there).collect();
        for one in self.answers.iter().filter(|one| !is_there(one)) {
            alike.entry((one.verdict(), one.why(patient))).or_default().push(one);
        }
        let account = patient.account();
        // Where no `serves` is written, the list is only what servers of this dialect may have.
        let is_assumed = !there.is_empty() && is_assumed(patient);
        // What a model of the catalog is for must be somewhere.
        let made_for = |one: &EndpointAnswer| ModelKind::of_endpoint(one.kind);
        let is_needed = |one: &EndpointAnswer| {
            let is_wanted = patient.models.values().any(|model| *model == made_for(one));
            is_wanted && !there.iter().any(|other| made_for(other) == made_for(one))
        };
        let is_no_fault = |one: &&EndpointAnswer| {
            is_assumed && one.verdict() == Verdict::Missing && one.model.is_none() && !is_needed(one)
        };
        let missing: Vec<_> = self.answers.iter().filter(is_no_fault).collect();
        if !there.is_empty() {
            let seen = format!("{}: the server has what the gateway asks for", kinds(&there));
            let finding = patient.finding(CheckState::Ok, "endpoints", seen);
            findings.push(if missing.is_empty() {
                finding
            } else {
                let is_missing = |kind: &Endpoint| missing.iter().any(|one| one.kind == *kind);
                let rest = account.serves.iter().filter(|(kind, _)| !is_missing(kind)).map(|(kind, _)| kind.name());
                finding.with(format!(
                    "it does not have {}: with `serves: [{}]` at accounts.{} it is not asked for them",
                    kinds(&missing),
                    rest.collect::<Vec<_>>().join(", "),
                    account.id
                ))
            });
        }
        for ((verdict, why), mut of) in alike {
            of.retain(|one| !is_no_fault(one));
            let Some(first) = of.first() else { continue };
            let paths: Vec<&str> = of.iter().map(|one| one.path.as_str()).collect();
            let (kinds, paths) = (kinds(&of), some(&paths));
            let (state, seen, remedy) = match verdict {
                Verdict::There | Verdict::Perhaps => continue,
                Verdict::Refused | Verdict::Forbidden => (
                    CheckState::Warn,
                    format!("{kinds}: the credential may not ask POST {paths}{why}"),
                    format!("allow it at the provider, or take {kinds} out of accounts.{}.serves", account.id),
                ),
                Verdict::Missing => match &first.model {
                    None => (
                        CheckState::Fail,
                        format!("{kinds}: there is nothing at POST {paths}{why}"),
                        format!(
                            "correct the path of `base_url`, or take {kinds} out of accounts.{}.serves",
                            account.id
                        ),
                    ),
                    Some(model) => (
                        CheckState::Warn,
                        format!("{kinds}: there is nothing at POST {paths}{why}"),
                        format!("are {} and the rest of the path right? --ask tells", shown(model)),
                    ),
                },
                Verdict::Unknown => (
                    CheckState::Warn,
                    format!("{kinds}: it is not known whether the server has POST {paths}{why}"),
                    "look at the server, or run this again later".to_owned(),
                ),
            };
            findings.push(patient.finding(state, "endpoints", seen).with(remedy));
        }
        for (of, why) in [
            (&self.without_model, "the path has a model, and no target names one for it"),
            (&self.late, "no time was left: the endpoints above answer too slowly"),
        ] {
            let names: Vec<&str> = of.iter().map(|kind| kind.name()).collect();
            if !names.is_empty() {
                let seen = format!("{}: {why}", names.join(", "));
                findings.push(patient.finding(CheckState::Skip, "endpoints", seen));
            }
        }
    }
}

/// Returns whether the account serves what its dialect says, and so perhaps more than its server.
fn is_assumed(patient: &Patient) -> bool {
    let account = patient.account();
    let usual = account.dialect.serves(&account.base.host);
    account.serves.len() == usual.len() && account.serves.iter().all(|(kind, _)| usual.contains(kind))
}

impl EndpointAnswer {
    fn verdict(&self) -> Verdict {
        let Some(failure) = &self.failure else { return Verdict::There };
        let Failure::Status { seen, error, .. } = failure else { return Verdict::Unknown };
        let words = [error.code.as_deref(), error.param.as_deref()];
        let is_about_the_model = words.into_iter().flatten().any(|word| word.contains("model"));
        match (seen, failure.class()) {
            (_, Class::Credential) => Verdict::Refused,
            // A request for nothing has no model: the server looked for one.
            (404, _) if is_about_the_model && self.model.is_none() => Verdict::There,
            (404 | 405 | 410 | 501, _) => Verdict::Missing,
            (403, _) => Verdict::Forbidden,
            (_, Class::Caller) => Verdict::There,
            (407..=409 | 425 | 429, _) => Verdict::Unknown,
            // Some servers answer 500 to a body that they cannot use.
            (400..=500, _) => Verdict::Perhaps,
            _ => Verdict::Unknown,
        }
    }

    /// Returns what the server says, as the end of a sentence.
    fn why(&self, patient: &Patient) -> String {
        let Some(failure) = &self.failure else { return String::new() };
        let status = failure.facts().status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        format!("{status}: {}", said(patient, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dialects::UpstreamError;

    #[test]
    fn what_an_answer_to_a_request_for_nothing_means() {
        let check = |seen: u16, code: Option<&str>, model: Option<&str>, expected: Verdict| {
            let error = UpstreamError { code: code.map(Into::into), ..UpstreamError::default() };
            let failure = Failure::Status { status: seen, seen, error: Box::new(error), retry_after: None };
            let model = model.map(ToOwned::to_owned);
            let answer = EndpointAnswer { kind: Endpoint::Chat, path: String::new(), model, failure: Some(failure) };
            assert_eq!(answer.verdict(), expected, "{seen} {code:?}");
        };
        for status in [400, 413, 422] {
            check(status, None, None, Verdict::There);
        }
        for status in [406, 411, 415, 500] {
            check(status, None, None, Verdict::Perhaps);
        }
        for status in [404, 405, 410, 501] {
            check(status, None, None, Verdict::Missing);
        }
        check(404, Some("model_not_found"), None, Verdict::There);
        check(404, Some("model_not_found"), Some("m"), Verdict::Missing);
        for status in [401, 402] {
            check(status, Some("model_not_found"), None, Verdict::Refused);
        }
        check(403, None, None, Verdict::Forbidden);
        for status in [302, 407, 408, 409, 429, 502, 503, 504, 529] {
            check(status, None, None, Verdict::Unknown);
        }
    }
}
