//! Whether a server has each endpoint that the catalog may ask it for. Each gets one request that
//! asks for nothing (`[]`): a server that has the endpoint finds fault with it, and charges for
//! nothing. An empty object would not do: some servers answer it.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{Patient, said};
use crate::account::failure::Failure;
use crate::base::alarm::Alarm;
use crate::base::problem::shown;
use crate::cli::doctor::report::{CheckState, Finding};
use crate::cli::doctor::words::some;
use crate::exchange::outgoing::{Outgoing, own_id};
use crate::exchange::upstream::Upstream;
use crate::exchange::{credential, lists};
use dialects::Endpoint;

/// The longest time for all endpoints of an account.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const MOST: usize = 64 << 10;

/// What a server says to requests for nothing.
pub(super) struct EndpointAnswers(Vec<EndpointAnswer>);

/// What it says to one.
struct EndpointAnswer {
    kind: Endpoint,
    path: String,
    /// The model that the path has.
    model: Option<String>,
    failure: Option<Failure>,
}

/// What follows from an answer.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The endpoint is there.
    There,
    /// It is not there.
    Missing,
    /// The credential may not ask it.
    Forbidden,
    /// It is not known.
    Unknown,
}

/// Sends a request for nothing to each endpoint. The time that the server tells is noted in `date`.
pub(super) async fn ask(patient: &Patient, upstream: &Upstream, date: &mut Option<SystemTime>) -> EndpointAnswers {
    let account = patient.account();
    let (due, mut answers) = (Instant::now() + PATIENCE, Vec::new());
    for (kind, dialect) in &account.serves {
        let in_path = dialect.has_model_in_path();
        let model = patient.models.first().map(|name| name.to_string());
        if in_path && model.is_none() {
            continue;
        }
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
        answers.push(EndpointAnswer { kind: *kind, path, model, failure: answer.err() });
    }
    EndpointAnswers(answers)
}

impl EndpointAnswers {
    /// Returns the answer that refuses the credential.
    pub(super) fn refusal(&self) -> Option<&Failure> {
        self.0.iter().find(|one| one.verdict() == Verdict::Forbidden)?.failure.as_ref()
    }

    /// Returns whether the server found fault with something else than the credential.
    pub(super) fn pass_the_door(&self) -> bool {
        let past = |one: &EndpointAnswer| matches!(one.verdict(), Verdict::There | Verdict::Missing);
        self.0.iter().any(past) && self.refusal().is_none()
    }

    /// Tells of each endpoint.
    pub(super) fn tell(&self, patient: &Patient, findings: &mut Vec<Finding>) {
        let named = |verdict: Verdict| -> Vec<&str> {
            self.0.iter().filter(|one| one.verdict() == verdict).map(|one| one.kind.name()).collect()
        };
        let (there, missing) = (named(Verdict::There), named(Verdict::Missing));
        // Where no `serves` is written, the list is only what servers of this dialect may have.
        let is_assumed = !there.is_empty() && is_assumed(patient);
        if !there.is_empty() {
            let seen = format!("{}: the server has what the gateway asks for", there.join(", "));
            let finding = patient.finding(CheckState::Ok, "endpoints", seen);
            findings.push(match missing.as_slice() {
                [_, ..] if is_assumed => {
                    let (id, there) = (&patient.account().id, there.join(", "));
                    let what = format!(
                        "it does not have {}: with `serves: [{there}]` at accounts.{id} it is not asked for them",
                        missing.join(", ")
                    );
                    finding.with(what)
                }
                _ => finding,
            });
        }
        let told = self.0.iter().filter(|one| !(is_assumed && one.verdict() == Verdict::Missing));
        findings.extend(told.filter_map(|one| one.finding(patient)));
        let asked = |kind: Endpoint| self.0.iter().any(|one| one.kind == kind);
        let serves = &patient.account().serves;
        let unasked: Vec<&str> = serves.iter().filter(|(kind, _)| !asked(*kind)).map(|(kind, _)| kind.name()).collect();
        if !unasked.is_empty() {
            let seen = format!("{}: the path has a model, and no target names one", some(&unasked));
            findings.push(patient.finding(CheckState::Skip, "endpoints", seen));
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
        match seen {
            404 if is_about_the_model => Verdict::There,
            404 | 405 | 501 => Verdict::Missing,
            401..=403 => Verdict::Forbidden,
            // Some servers answer 500 to a body that they cannot use.
            400..=428 | 430..=500 => Verdict::There,
            _ => Verdict::Unknown,
        }
    }

    /// Returns the finding, unless the endpoint is there.
    fn finding(&self, patient: &Patient) -> Option<Finding> {
        let (kind, path, id) = (self.kind.name(), shown(&self.path), &patient.account().id);
        let failure = self.failure.as_ref()?;
        let status = failure.facts().status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        let why = format!("{status}: {}", said(patient, failure));
        let warn = |seen: String, remedy: String| patient.finding(CheckState::Warn, "endpoints", seen).with(remedy);
        Some(match (self.verdict(), &self.model) {
            (Verdict::There, _) => return None,
            (Verdict::Missing, None) => {
                let seen = format!("{kind}: there is nothing at POST {path}{why}");
                let remedy = format!("correct the path of `base_url`, or take {kind} out of accounts.{id}.serves");
                patient.finding(CheckState::Fail, "endpoints", seen).with(remedy)
            }
            (Verdict::Missing, Some(model)) => warn(
                format!("{kind}: there is nothing at POST {path}{why}"),
                format!("is {} right, and is it for {kind}? --ask tells", shown(model)),
            ),
            (Verdict::Forbidden, _) => warn(
                format!("{kind}: the credential may not ask POST {path}{why}"),
                format!("allow it at the provider, or take {kind} out of accounts.{id}.serves"),
            ),
            (Verdict::Unknown, _) => warn(
                format!("{kind}: it is not known whether the server has POST {path}{why}"),
                "look at the server, or run this again later".to_owned(),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dialects::UpstreamError;

    #[test]
    fn what_an_answer_to_a_request_for_nothing_means() {
        let check = |seen: u16, code: Option<&str>, expected: Verdict| {
            let error = UpstreamError { code: code.map(Into::into), ..UpstreamError::default() };
            let failure = Failure::Status { status: seen, seen, error: Box::new(error), retry_after: None };
            let answer =
                EndpointAnswer { kind: Endpoint::Chat, path: String::new(), model: None, failure: Some(failure) };
            assert_eq!(answer.verdict(), expected, "{seen} {code:?}");
        };
        for status in [400, 406, 411, 413, 415, 422, 500] {
            check(status, None, Verdict::There);
        }
        for status in [404, 405, 501] {
            check(status, None, Verdict::Missing);
        }
        check(404, Some("model_not_found"), Verdict::There);
        for status in [401, 402, 403] {
            check(status, Some("model_not_found"), Verdict::Forbidden);
        }
        for status in [302, 429, 502, 503, 504, 529] {
            check(status, None, Verdict::Unknown);
        }
    }
}
