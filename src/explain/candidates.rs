//! A rehearsal asks the candidates one after the other, as the gateway would if each attempt
//! failed.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::order::Order;
use super::report::{Candidate, CandidateState, Costs, Report, Verdict};
use super::{Input, Key, candidate_name, key, remaining_text, shown};
use crate::account::breaker;
use crate::account::target_health::{NO_KEY, Unavailable};
use crate::base::units::duration_text;
use crate::catalog::{Model, Target};
use crate::conf::price::costs;
use crate::error::{FailureKind, Refusal};
use crate::exchange::admission::{self, EarlierThoughts};
use crate::exchange::choose::{CandidateScan, NoCandidate, Prospect, Search};
use crate::plan::{self, Reach};
use dialects::Outbound;
use dialects::front::Envelope;
use dialects::neutral::Refused;
use dialects::neutral::seal::{Sealed, sealed_in};

/// The rehearsal of a request.
pub(super) struct Rehearsal<'a> {
    pub(super) input: &'a Input,
    pub(super) key: &'a Key,
    pub(super) model: &'a Arc<Model>,
    pub(super) envelope: &'a Envelope,
    pub(super) timeout: Option<Duration>,
    pub(super) now: Instant,
}

/// The result for one candidate.
enum CandidateResult {
    /// The candidate is asked, as the attempt of this number. Without a number, it is asked only if
    /// the request turns out to be of the kind for which the candidate is there.
    Asked {
        attempt: Option<usize>,
        is_last_resort: bool,
        outbound: Box<Outbound>,
    },
    Unavailable(Unavailable),
    Unable(Refused),
    /// All attempts are made before the candidate's turn comes.
    Beyond,
}

impl Rehearsal<'_> {
    /// Asks all candidates, and notes the result for the request.
    pub(super) fn ask_all(&self, order: &Order, report: &mut Report) {
        let thoughts = Cell::new(false);
        let results = self.ask_candidates(&order.candidates, &thoughts);
        report.verdict = self.verdict(&order.candidates, &results);
        if thoughts.get() {
            report.add_fact(
                "thoughts",
                "a running instance would add the signed thinking that it keeps for the request's tool calls; this command has none",
            );
        }
        if sealed_in(&self.input.body).next().is_some() {
            report.add_fact(
                "thoughts",
                "a running instance would open the sealed thoughts for their account, and ask it first; this command has no key and leaves them out",
            );
        }
        self.note_extras(report);
        report.candidates = order
            .with_shares()
            .zip(results)
            .map(|((one, share), result)| self.candidate(one, share, result))
            .collect();
        self.left_out(report);
        // Each candidate stands with the others of its model.
        let groups: Vec<_> = report
            .candidates
            .iter()
            .map(|one| (one.model.clone(), one.reach))
            .collect();
        report.candidates.sort_by_key(|one| {
            let group = groups
                .iter()
                .position(|(model, reach)| *model == one.model && *reach == one.reach);
            (one.reach, group)
        });
    }

    /// Asks the candidates. Notes in `thoughts` whether one of them would get signed thinking back.
    fn ask_candidates(
        &self,
        candidates: &[plan::Candidate],
        thoughts: &Cell<bool>,
    ) -> Vec<CandidateResult> {
        let mut search = Search::new(candidates, self.input.settings.attempts);
        let mut results: Vec<CandidateResult> = candidates
            .iter()
            .map(|candidate| match in_case(candidate) {
                None => CandidateResult::Beyond,
                Some(_) => self.ask(candidate, None, false, thoughts),
            })
            .collect();
        let mut scan = CandidateScan::new(None);
        while let Some(Prospect {
            index,
            candidate,
            is_last_resort,
        }) = search.next_candidate(&mut scan)
        {
            let Some(result) = results.get_mut(index) else {
                continue;
            };
            let now = self.ask(candidate, Some(search.tries + 1), is_last_resort, thoughts);
            match now {
                // A candidate that is unavailable even as the last resort keeps its first reason.
                CandidateResult::Unavailable(_) if is_last_resort => continue,
                CandidateResult::Asked { .. } => {
                    search.tries += 1;
                    search.strike(index);
                }
                CandidateResult::Unable(_) => search.strike(index),
                CandidateResult::Unavailable(_) | CandidateResult::Beyond => {}
            }
            *result = now;
        }
        results
    }

    /// Asks one candidate for a place, and for the request in its dialect.
    fn ask(
        &self,
        candidate: &plan::Candidate,
        attempt: Option<usize>,
        is_last_resort: bool,
        thoughts: &Cell<bool>,
    ) -> CandidateResult {
        let asked = admission::CallersRequest {
            body: &self.input.body,
            envelope: self.envelope,
            catalog: &self.input.snapshot.catalog,
            permissions: &self.key.permissions,
            model_limits: &self.key.model_limits,
        };
        let closed = EarlierThoughts {
            find_kept: &|_| None,
            sealed: Sealed::Closed,
        };
        if let Some(refused) = admission::lasting_refusal(candidate, asked, closed) {
            return CandidateResult::Unable(refused);
        }
        if let Err(why) = admission::admit_attempt(candidate, NO_KEY, is_last_resort, self.now) {
            return CandidateResult::Unavailable(why);
        }
        let family = candidate.family();
        match admission::write_request(
            candidate,
            asked,
            EarlierThoughts {
                find_kept: &|_| {
                    thoughts.set(thoughts.get() || family.is_some());
                    None
                },
                sealed: Sealed::Closed,
            },
        ) {
            Ok(outbound) => CandidateResult::Asked {
                attempt,
                is_last_resort,
                outbound: Box::new(outbound),
            },
            Err(refused) => CandidateResult::Unable(refused),
        }
    }

    fn verdict(&self, candidates: &[plan::Candidate], results: &[CandidateResult]) -> Verdict {
        let pairs = candidates.iter().zip(results);
        let attempts = pairs.filter_map(|(candidate, result)| match result {
            CandidateResult::Asked {
                attempt: Some(nth),
                is_last_resort,
                ..
            } => Some((*nth, *is_last_resort, candidate_name(candidate))),
            CandidateResult::Asked { .. }
            | CandidateResult::Unavailable(_)
            | CandidateResult::Unable(_)
            | CandidateResult::Beyond => None,
        });
        let mut attempts: Vec<_> = attempts.collect();
        attempts.sort();
        // Candidates that are asked as the last resort come after all others.
        let Some((_, is_last_resort, _)) = attempts.first() else {
            return self.none_asked(candidates, results);
        };
        let only = if *is_last_resort {
            ", because there is no better target"
        } else {
            ""
        };
        let then = if attempts.len() > 1 {
            "; each further target is asked only if all targets before it fail"
        } else {
            ""
        };
        let names: Vec<String> = attempts.into_iter().map(|(_, _, name)| name).collect();
        let sentence = format!(
            "the request would be sent to {}{only}{then}",
            names.join(", then ")
        );
        Verdict {
            tried: true,
            sentence,
            ..Verdict::default()
        }
    }

    /// Returns the verdict on a request for which no candidate is asked at once.
    fn none_asked(&self, candidates: &[plan::Candidate], results: &[CandidateResult]) -> Verdict {
        let mut search = Search::new(candidates, self.input.settings.attempts);
        let mut is_for_the_operator = true;
        let places = candidates.iter().zip(results).enumerate();
        for (index, (candidate, result)) in
            places.filter(|(_, (candidate, _))| in_case(candidate).is_none())
        {
            match result {
                CandidateResult::Unavailable(why) => {
                    is_for_the_operator &= why.is_for_the_operator();
                    search.pass_over(
                        &Prospect {
                            index,
                            candidate,
                            is_last_resort: false,
                        },
                        *why,
                        self.now,
                    );
                }
                CandidateResult::Unable(refused) => search.note_unable(refused.clone()),
                CandidateResult::Asked { .. } | CandidateResult::Beyond => {}
            }
        }
        let soonest = search.passed.soonest;
        if let Some(queue) = self.model.queue
            && let Some(wait) = soonest.filter(|wait| *wait <= queue.wait)
        {
            let sentence = format!(
                "the request would wait {}, until the first account can be used again, and would then be sent",
                remaining_text(wait)
            );
            return Verdict {
                tried: true,
                sentence,
                ..Verdict::default()
            };
        }
        is_for_the_operator &= search.passed.count > 0;
        let busy = |kind| self.busy_refusal(kind, soonest);
        Verdict::refused(&match search.why_none(is_for_the_operator) {
            NoCandidate::Unable(refused) => Refusal::unable(refused, &self.envelope.model),
            NoCandidate::ForTheOperator => Refusal::new(
                FailureKind::NoCapacity,
                "no account can take the request until you act: the caller gets an error which says that trying again does not help",
            ),
            NoCandidate::RateLimited => busy(FailureKind::AllRateLimited),
            NoCandidate::Overloaded => busy(FailureKind::UpstreamOverloaded),
            NoCandidate::Busy => busy(FailureKind::NoCapacity),
        })
    }

    /// Returns the refusal of a request that no account can take now.
    fn busy_refusal(&self, what: FailureKind, soonest: Option<Duration>) -> Refusal {
        let waits = self
            .model
            .queue
            .map(|queue| format!(", even after {} in the queue", duration_text(queue.wait)));
        let waits = waits.unwrap_or_default();
        let back = soonest
            .map(|wait| {
                format!(
                    "; the first one can be used again in {}",
                    remaining_text(wait)
                )
            })
            .unwrap_or_default();
        let message = format!("no account can take the request now{waits}{back}");
        Refusal::new(what, message)
    }

    /// Notes everything else that may happen to the request on its way.
    fn note_extras(&self, report: &mut Report) {
        if let Some(hedge) = self.model.hedge {
            let after = hedge.after * 100.0;
            report.add_fact(
                "hedge",
                format!(
                    "if the first attempt is slower than the p{after:.0} of the last minutes, a second \
                     attempt begins at another account; at most {} % of the requests get one",
                    (hedge.at_most * 10_000.0).round() / 100.0
                ),
            );
        }
        let reported = self
            .input
            .instance
            .as_ref()
            .and_then(|instance| instance.model(self.model.label()));
        if let Some(queue) = self.model.queue {
            let waiting = reported
                .map(|model| format!("; {} requests wait now, and go first", model.waiting))
                .unwrap_or_default();
            report.add_fact(
                "queue",
                format!(
                    "if no account can take the request, it waits up to {}; at most {} requests wait at once{waiting}",
                    duration_text(queue.wait),
                    queue.length
                ),
            );
        }
        if reported.is_some_and(|model| model.retry_budget_spent >= 1.0) {
            report.add_fact(
                "retries",
                "the model's retry budget is used up: after a failure, only a target without recent failures is asked",
            );
        }
    }

    fn candidate(
        &self,
        one: &plan::Candidate,
        first_for: Option<f64>,
        result: CandidateResult,
    ) -> Candidate {
        let in_case = in_case(one);
        let (state, why) = match &result {
            CandidateResult::Asked { attempt: None, .. } => {
                (CandidateState::InCase, in_case.clone().unwrap_or_default())
            }
            CandidateResult::Asked {
                is_last_resort: true,
                ..
            } => (
                CandidateState::LastResort,
                format!(
                    "{}; asked only if there is no other target, and then at most about once a second",
                    self.breaker_text(one)
                ),
            ),
            CandidateResult::Asked {
                attempt: Some(nth), ..
            } => (
                CandidateState::Asked,
                asked_text(*nth, first_for.filter(|_| one.model.id == self.model.id)),
            ),
            CandidateResult::Unavailable(Unavailable::Full) => {
                let cap = one.account().concurrency.unwrap_or_default();
                let why = format!(
                    "full: its account has {cap} requests in flight, which is its `concurrency`"
                );
                (CandidateState::Full, why)
            }
            CandidateResult::Unavailable(Unavailable::Resting(rest)) => {
                let wait = rest.until.saturating_duration_since(self.now);
                (
                    CandidateState::Resting,
                    format!(
                        "rests for {} more ({})",
                        remaining_text(wait),
                        rest.why.name()
                    ),
                )
            }
            CandidateResult::Unavailable(Unavailable::Broken(_)) => {
                (CandidateState::Broken, self.breaker_text(one))
            }
            CandidateResult::Unable(
                Refused::Invalid(complaint) | Refused::Unsupported(complaint),
            ) => (
                CandidateState::Unable,
                format!(
                    "cannot express `{}`: {}",
                    complaint.param, complaint.message
                ),
            ),
            CandidateResult::Beyond => {
                let max_attempts = self.input.settings.attempts;
                let why = format!(
                    "not asked: one request may make {max_attempts} attempts (`attempts` in server.yaml)"
                );
                (CandidateState::Beyond, why)
            }
        };
        let (attempt, request) = if let CandidateResult::Asked {
            attempt, outbound, ..
        } = &result
        {
            (
                *attempt,
                Some(shown::upstream_request(
                    one,
                    outbound,
                    self.envelope,
                    &self.input.body,
                    self.timeout,
                )),
            )
        } else {
            (None, None)
        };
        let why = match in_case.filter(|_| state != CandidateState::InCase) {
            Some(in_case) => format!("{in_case}, but: {why}"),
            None => why,
        };
        let mut targets = one.model.targets.iter();
        let target = targets.find(|target| {
            target.account.id == one.account().id && target.model == one.upstream_model
        });
        Candidate {
            account: Some(one.account().id.to_string()),
            upstream_model: Some(one.upstream_model.to_string()),
            attempt,
            first_for,
            endpoint: Some(one.health.endpoint.name()),
            does: self
                .input
                .instance
                .as_ref()
                .and_then(|instance| instance.describe_target(one)),
            price: target.and_then(target_costs),
            request,
            ..Candidate::of_model(&one.model.id, one.reach, state, why)
        }
    }

    /// Returns the state of a candidate's breaker, in words.
    fn breaker_text(&self, one: &plan::Candidate) -> String {
        let probe = if one.account().probe {
            ", and only the instance's own probes may test it"
        } else {
            ""
        };
        match one
            .health
            .status(self.now, std::time::SystemTime::now())
            .breaker
        {
            breaker::BreakerState::Open(until) => {
                format!(
                    "its breaker is open for {} more{probe}",
                    remaining_text(until.saturating_duration_since(self.now))
                )
            }
            breaker::BreakerState::HalfOpen { .. } => format!("its breaker is half open{probe}"),
            breaker::BreakerState::Closed => "its breaker is closed".to_owned(),
        }
    }

    /// Notes the candidates that the order does not even hold: targets on disabled accounts, and
    /// models that the key does not see.
    fn left_out(&self, report: &mut Report) {
        add_disabled(self.model, Reach::Any, report);
        let catalog = &self.input.snapshot.catalog;
        for (id, reach) in plan::stand_ins(self.model) {
            let Some(model) = catalog.model(id) else {
                continue;
            };
            match key::why_hidden(catalog, self.key, &model) {
                None => add_disabled(&model, reach, report),
                Some(why) => {
                    let why = format!("skipped: {why}");
                    report.candidates.push(Candidate::of_model(
                        &model.id,
                        reach,
                        CandidateState::Hidden,
                        why,
                    ));
                }
            }
        }
    }
}

/// Notes the targets of a model whose accounts are disabled.
fn add_disabled(model: &Model, reach: Reach, report: &mut Report) {
    let targets = model.targets.iter();
    let disabled = targets.filter(|target| !target.account.enabled);
    report.candidates.extend(disabled.map(|target| Candidate {
        account: Some(target.account.id.to_string()),
        upstream_model: Some(target.model.to_string()),
        price: target_costs(target),
        ..Candidate::of_model(
            &model.id,
            reach,
            CandidateState::Disabled,
            "its account is disabled".to_owned(),
        )
    }));
}

/// Returns when a candidate is asked that is not there for every request.
fn in_case(one: &plan::Candidate) -> Option<String> {
    let kind = one
        .instead_of
        .as_ref()
        .filter(|_| !one.is_open())
        .map(|usual_endpoint| {
            format!(
                "the account's endpoint `{}` does not serve the model: then at `{}`",
                usual_endpoint.endpoint, one.health.endpoint
            )
        });
    let reach = match one.reach {
        Reach::Any => None,
        Reach::TooLong => Some("the request is too long for the model"),
        Reach::Declined => Some("the model refuses to answer"),
    };
    let cases: Vec<&str> = reach.into_iter().chain(kind.as_deref()).collect();
    (!cases.is_empty()).then(|| format!("asked if {}", cases.join(", and ")))
}

fn target_costs(target: &Target) -> Option<Costs> {
    let (price, from) = target.price.zip(target.price_from)?;
    Some(Costs {
        from: from.name(),
        costs: costs::named_costs(&price),
    })
}

fn asked_text(nth: usize, first_for: Option<f64>) -> String {
    let asked = if nth == 1 {
        "asked first"
    } else {
        "asked if all targets before it fail"
    };
    match first_for {
        Some(share) if nth == 1 => format!("{asked}, for {:.0} % of the requests", share * 100.0),
        Some(share) if share > 0.0 => {
            format!("{asked}; first for {:.0} % of the requests", share * 100.0)
        }
        Some(_) | None => asked.to_owned(),
    }
}
