//! Checks whether a server has each endpoint that the catalog may ask it for. Each gets one request
//! that asks for nothing (`[]`): a server that has the endpoint finds fault with it, and charges
//! for nothing. An empty object would not do: some servers answer it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{CheckedAccount, failure_text};
use crate::doctor::report::{CheckState, Checked, Finding};
use crate::doctor::words::first_three;
use dialects::Endpoint;
use portcullis::account::failure::{Class, Failure};
use portcullis::base::problem::quote_safely;
use portcullis::exchange::outgoing::{Outgoing, own_id};
use portcullis::exchange::upstream::Upstream;
use portcullis::exchange::{advice, credential, lists};

/// The longest time for all endpoints of an account.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The answers of a server to empty requests.
pub(super) struct EndpointAnswers {
    answers: Vec<EndpointAnswer>,
    /// The endpoints whose path has a model, and no target names one for it.
    without_model: Vec<Endpoint>,
    /// The endpoints for which no time was left.
    late: Vec<Endpoint>,
}

/// The answer to one of them.
struct EndpointAnswer {
    kind: Endpoint,
    path: String,
    /// The model that the path has.
    model: Option<String>,
    failure: Option<Failure>,
}

/// The consequence of an answer.
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

/// Sends an empty request to each endpoint. The time that the server tells is noted in `date`.
pub(super) async fn probe_endpoints(
    checked: &CheckedAccount,
    upstream: &Upstream,
    date: &mut Option<SystemTime>,
) -> EndpointAnswers {
    let account = checked.account();
    let over = Instant::now() + PROBE_TIMEOUT;
    let (mut answers, mut without_model, mut late) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, dialect) in &account.serves {
        let in_path = dialect.has_model_in_path();
        // Where the path has a model, one that is for something else would be missing.
        let needed = kind.facts().made_for;
        let model = checked
            .models
            .iter()
            .find(|(_, made_for)| **made_for == needed)
            .map(|(name, _)| name.to_string());
        if in_path && model.is_none() {
            without_model.push(*kind);
            continue;
        }
        if Instant::now() >= over {
            late.push(*kind);
            continue;
        }
        let due = over.min(Instant::now() + PROBE_TIMEOUT / 2);
        let outbound = dialect.empty(model.as_deref().unwrap_or_default());
        let headers = credential::account_headers(&checked.ready_account, &outbound, due).await;
        let answer = match headers {
            Err(failure) => Err(failure),
            Ok(headers) => {
                let request_id = own_id();
                let outgoing = Outgoing {
                    headers: &headers,
                    body: &outbound.body,
                    ..Outgoing::own(&request_id, &outbound.path, account.timeouts, due)
                };
                lists::send_request(
                    upstream,
                    &checked.ready_account,
                    &outgoing,
                    MAX_ANSWER_BYTES,
                    date,
                )
                .await
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
        answers.push(EndpointAnswer {
            kind: *kind,
            path,
            model,
            failure,
        });
    }
    EndpointAnswers {
        answers,
        without_model,
        late,
    }
}

impl EndpointAnswers {
    /// Returns the answer that refuses the credential, if no endpoint takes it.
    pub(super) fn refusal(&self) -> Option<&Failure> {
        let refused = self
            .answers
            .iter()
            .find(|one| one.verdict() == Verdict::Refused)?;
        refused.failure.as_ref().filter(|_| !self.is_let_in())
    }

    /// Returns whether an endpoint has found fault with something else than the credential.
    pub(super) fn is_let_in(&self) -> bool {
        self.answers
            .iter()
            .any(|one| one.verdict() == Verdict::There)
    }

    /// Returns whether they show that the server has an endpoint: one finds fault with the request,
    /// or answers as a path does not at which there is nothing.
    pub(super) fn show_one(&self) -> bool {
        let has = |verdict| self.answers.iter().any(|one| one.verdict() == verdict);
        has(Verdict::There) || (has(Verdict::Perhaps) && has(Verdict::Missing))
    }

    /// Reports the endpoints, those with the same answer together.
    pub(super) fn add_findings(&self, checked: &CheckedAccount, findings: &mut Vec<Finding>) {
        let there: Vec<_> = self.answers.iter().filter(|one| one.is_there()).collect();
        let is_written = !is_assumed(checked);
        let missing: Vec<_> = self
            .answers
            .iter()
            .filter(|one| self.may_be_missing(one, checked))
            .collect();
        let kinds = shown_kinds(&there, is_written);
        if let Some(first) = there.first().filter(|_| !self.show_one()) {
            let why = first.reason_text(checked);
            let seen = format!(
                "{kinds}: only real requests show whether they work, and `portcullis doctor --ask` sends some. The server answers an \
                 empty one with a fault of its own{why}"
            );
            findings.push(checked.skip("endpoints", seen));
        } else if !there.is_empty() {
            let seen = format!("{kinds}: the server has what the gateway asks for");
            let finding = checked.ok("endpoints", seen);
            findings.push(if missing.is_empty() {
                finding
            } else {
                finding.with_remedy(without_missing(checked, &missing))
            });
        }
        let mut alike: BTreeMap<_, Vec<&EndpointAnswer>> = BTreeMap::new();
        for one in self
            .answers
            .iter()
            .filter(|one| !one.is_there() && !self.may_be_missing(one, checked))
        {
            let status = one
                .failure
                .as_ref()
                .map(|failure| (failure.facts().status, failure.name()));
            alike
                .entry((one.verdict(), status, &one.model))
                .or_default()
                .push(one);
        }
        for ((verdict, ..), skipped) in alike {
            let alike_answers = AlikeAnswers {
                verdict,
                answers: &skipped,
                is_written,
                is_alone: there.is_empty(),
            };
            findings.extend(alike_answers.finding(checked));
        }
        for (group, why) in [
            (
                &self.without_model,
                "the path has a model, and no target names one for it",
            ),
            (
                &self.late,
                "no time was left: the endpoints above answer too slowly",
            ),
        ] {
            let names: Vec<&str> = group.iter().map(|kind| kind.name()).collect();
            if !names.is_empty() {
                let seen = format!("{}: {why}", names.join(", "));
                findings.push(checked.skip("endpoints", seen));
            }
        }
    }

    /// Returns whether an endpoint is missing, and need not be there: it is only assumed, others
    /// are there, and no model of the catalog is for it alone.
    fn may_be_missing(&self, one: &EndpointAnswer, checked: &CheckedAccount) -> bool {
        let made_for = |one: &EndpointAnswer| one.kind.facts().made_for;
        let mut there = self.answers.iter().filter(|other| other.is_there());
        let is_wanted = checked.models.values().any(|model| *model == made_for(one));
        let is_only_assumed =
            is_assumed(checked) && one.model.is_none() && there.clone().next().is_some();
        is_only_assumed
            && one.verdict() == Verdict::Missing
            && (!is_wanted || there.any(|other| made_for(other) == made_for(one)))
    }
}

/// Endpoints at which the server answers alike.
struct AlikeAnswers<'a> {
    verdict: Verdict,
    answers: &'a [&'a EndpointAnswer],
    /// True if the catalog lists them. Else they are only assumed.
    is_written: bool,
    /// True if the server has no endpoint at all.
    is_alone: bool,
}

impl AlikeAnswers<'_> {
    fn finding(&self, checked: &CheckedAccount) -> Option<Finding> {
        let first = self.answers.first()?;
        let paths: Vec<&str> = self.answers.iter().map(|one| one.path.as_str()).collect();
        let kinds = shown_kinds(self.answers, self.is_written);
        let (paths, why, id) = (
            first_three(&paths),
            first.reason_text(checked),
            &checked.account().id,
        );
        let nothing = || "there is nothing at".to_owned();
        let (state, seen, remedy) = match self.verdict {
            Verdict::There | Verdict::Perhaps => return None,
            Verdict::Refused | Verdict::Forbidden => {
                let remedy = match &first.failure {
                    Some(failure) if advice::is_about_money(failure) => advice::advised_action(failure, checked.account()),
                    _ if self.is_alone => {
                        "is the credential right, and does the provider let it ask models? `doctor --ask` tells".to_owned()
                    }
                    _ => format!("allow it at the provider, or {}", self.take_out(&kinds, id)),
                };
                (
                    CheckState::Warn,
                    "the credential may not ask".to_owned(),
                    remedy,
                )
            }
            Verdict::Missing => match &first.model {
                Some(model) => {
                    let remedy = format!(
                        "are {} and the rest of the path right? `doctor --ask` tells",
                        quote_safely(model)
                    );
                    (CheckState::Warn, nothing(), remedy)
                }
                None if self.is_alone => (
                    CheckState::Fail,
                    nothing(),
                    "are host, port and path of `base_url` right?".to_owned(),
                ),
                None => {
                    let remedy = format!(
                        "correct the path of `base_url`, or {}",
                        self.take_out(&kinds, id)
                    );
                    (CheckState::Fail, nothing(), remedy)
                }
            },
            Verdict::Unknown => (
                CheckState::Warn,
                "it is not known whether the server has".to_owned(),
                "look at the server, or run this again later".to_owned(),
            ),
        };
        let seen = format!("{kinds}: {seen} POST {paths}{why}");
        let finding = checked.finding(state, "endpoints", seen);
        Some(finding.with_remedy(remedy))
    }

    /// Writes how the gateway does not ask for these kinds any more.
    fn take_out(&self, kinds: &str, id: &str) -> String {
        if self.is_written {
            format!("take {kinds} out of accounts.{id}.serves")
        } else {
            format!("write `serves` without {kinds} at accounts.{id}")
        }
    }
}

/// Names endpoints. Of those that are only assumed, the names of some are enough.
fn shown_kinds(answers: &[&EndpointAnswer], is_written: bool) -> String {
    let kinds = kind_names(answers);
    if is_written {
        kinds.join(", ")
    } else {
        first_three(&kinds)
    }
}

fn kind_names(answers: &[&EndpointAnswer]) -> Vec<&'static str> {
    answers.iter().map(|one| one.kind.name()).collect()
}

/// Writes which endpoints the server does not have, and how the gateway knows.
fn without_missing(checked: &CheckedAccount, missing: &[&EndpointAnswer]) -> String {
    let account = checked.account();
    let is_missing = |kind: &Endpoint| missing.iter().any(|one| one.kind == *kind);
    let rest = account
        .serves
        .iter()
        .filter(|(kind, _)| !is_missing(kind))
        .map(|(kind, _)| kind.name());
    format!(
        "it does not have {}: with `serves: [{}]` at accounts.{} it is not asked for them",
        kind_names(missing).join(", "),
        rest.collect::<Vec<_>>().join(", "),
        account.id
    )
}

/// Returns whether the account serves the kinds of its dialect, and so perhaps more than its
/// server.
fn is_assumed(checked: &CheckedAccount) -> bool {
    let account = checked.account();
    let default_kinds = account.dialect.serves(&account.base.host);
    account.serves.len() == default_kinds.len()
        && account
            .serves
            .iter()
            .all(|(kind, _)| default_kinds.contains(kind))
}

impl EndpointAnswer {
    fn is_there(&self) -> bool {
        matches!(self.verdict(), Verdict::There | Verdict::Perhaps)
    }

    fn verdict(&self) -> Verdict {
        let Some(failure) = &self.failure else {
            return Verdict::There;
        };
        let Failure::Status { seen, error, .. } = failure else {
            return Verdict::Unknown;
        };
        let words = [error.code.as_deref(), error.param.as_deref()];
        let is_about_the_model = words
            .into_iter()
            .flatten()
            .any(|word| word.contains("model"));
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

    /// Returns the server's error, as the end of a sentence.
    fn reason_text(&self, checked: &CheckedAccount) -> String {
        let Some(failure) = &self.failure else {
            return String::new();
        };
        let status = failure
            .facts()
            .status
            .map(|status| format!(" (HTTP {status})"))
            .unwrap_or_default();
        format!("{status}: {}", failure_text(checked, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dialects::UpstreamError;

    #[test]
    fn what_an_answer_to_a_request_for_nothing_means() {
        let check = |seen: u16, code: Option<&str>, model: Option<&str>, expected: Verdict| {
            let error = UpstreamError {
                code: code.map(Into::into),
                ..UpstreamError::default()
            };
            let failure = Failure::Status {
                status: seen,
                seen,
                error: Box::new(error),
                retry_after: None,
            };
            let model = model.map(ToOwned::to_owned);
            let answer = EndpointAnswer {
                kind: Endpoint::Chat,
                path: String::new(),
                model,
                failure: Some(failure),
            };
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
