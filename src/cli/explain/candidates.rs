//! The candidates, one after the other, as the gateway would take them if each attempt failed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::instance::Instance;
use super::order::{Drawn, Placed};
use super::report::{self, Candidate, Costs, Obstacle, Report, State, Verdict};
use super::{Key, key, left, named, shown, span};
use crate::account::breaker;
use crate::catalog::{Model, Target};
use crate::cli::prices;
use crate::config::Server;
use crate::error::What;
use crate::exchange::admission;
use crate::exchange::admission::Away;
use crate::live::Snapshot;
use crate::plan::{self, Reach};
use dialects::Said;
use dialects::front::chat::envelope::Envelope;
use dialects::neutral::Refused;

/// What it takes.
pub(super) struct Walk<'a> {
    pub(super) server: &'a Server,
    pub(super) snapshot: &'a Snapshot,
    pub(super) instance: Option<&'a Instance>,
    pub(super) key: &'a Key,
    pub(super) model: &'a Arc<Model>,
    pub(super) envelope: &'a Envelope,
    pub(super) body: &'a Bytes,
    pub(super) timeout: Option<Duration>,
    pub(super) now: Instant,
}

/// What was found of a candidate.
enum Found {
    Asked(usize, Box<Said>),
    /// Nobody else was left.
    LastResort(usize, Box<Said>),
    InCase(Box<Said>),
    Away(Away),
    Unable(Refused),
    Beyond,
}

impl Walk<'_> {
    /// Goes through all of them, and says what comes of the request.
    pub(super) fn tell(&self, drawn: &Drawn, report: &mut Report) {
        let mut thoughts = false;
        let found = self.found(&drawn.places, &mut thoughts);
        report.verdict = self.verdict(drawn, &found);
        if thoughts {
            report.fact(
                "thoughts",
                "signed thinking that the instance keeps for the request's tool calls would be put back: here there is none",
            );
        }
        self.beside(report);
        report.candidates = drawn.places.iter().zip(found).map(|(place, found)| self.candidate(place, found)).collect();
        self.left_out(report);
        // Each with those of its model.
        let mut groups: Vec<(String, report::Reach)> = Vec::new();
        for one in &report.candidates {
            if !groups.iter().any(|(model, reach)| *model == one.model && *reach == one.reach) {
                groups.push((one.model.clone(), one.reach));
            }
        }
        let place =
            |one: &Candidate| groups.iter().position(|(model, reach)| *model == one.model && *reach == one.reach);
        report.candidates.sort_by_key(|one| (one.reach, place(one)));
    }

    fn found(&self, places: &[Placed], thoughts: &mut bool) -> Vec<Found> {
        let mut tries = 0;
        let mut next = || {
            tries += 1;
            tries
        };
        let most = self.server.attempts;
        let mut asked = 0;
        let mut found: Vec<Found> = Vec::with_capacity(places.len());
        for Placed { candidate, .. } in places {
            let is_any = candidate.reach == Reach::Any;
            found.push(if is_any && asked >= most {
                Found::Beyond
            } else if let Some(refused) = admission::unable(candidate, self.body, self.envelope, &|_| None) {
                Found::Unable(refused)
            } else {
                match admission::admit(candidate, false, self.now) {
                    Err(away) => Found::Away(away),
                    Ok(_) => match self.write(candidate, thoughts) {
                        Err(refused) => Found::Unable(refused),
                        Ok(said) if is_any => {
                            asked += 1;
                            Found::Asked(next(), Box::new(said))
                        }
                        Ok(said) => Found::InCase(Box::new(said)),
                    },
                }
            });
        }
        // Where nobody is fit, one whose breaker keeps requests away may be asked.
        for (Placed { candidate, .. }, found) in places.iter().zip(&mut found) {
            if asked < most
                && candidate.reach == Reach::Any
                && matches!(found, Found::Away(_))
                && admission::admit(candidate, true, self.now).is_ok()
            {
                *found = match self.write(candidate, thoughts) {
                    Err(refused) => Found::Unable(refused),
                    Ok(said) => {
                        asked += 1;
                        Found::LastResort(next(), Box::new(said))
                    }
                };
            }
        }
        found
    }

    fn write(&self, candidate: &plan::Candidate, thoughts: &mut bool) -> Result<Said, Refused> {
        let asked = std::cell::Cell::new(false);
        let family = candidate.place.account.dialect.family();
        let kept = |_: &str| {
            asked.set(asked.get() || family.is_some());
            None
        };
        let said = admission::write(candidate, self.body, self.envelope, &kept);
        *thoughts |= asked.get();
        said
    }

    fn verdict(&self, drawn: &Drawn, found: &[Found]) -> Verdict {
        let mut attempts: Vec<(usize, String)> = drawn
            .places
            .iter()
            .zip(found)
            .filter_map(|(place, found)| match found {
                Found::Asked(nth, _) | Found::LastResort(nth, _) => {
                    Some((*nth, named(&place.candidate.place.account.id, &place.candidate.upstream_model)))
                }
                Found::InCase(_) | Found::Away(_) | Found::Unable(_) | Found::Beyond => None,
            })
            .collect();
        attempts.sort();
        let attempts: Vec<String> = attempts.into_iter().map(|(_, name)| name).collect();
        if !attempts.is_empty() {
            let only = if found.iter().any(|found| matches!(found, Found::Asked(..))) {
                ""
            } else {
                ", as nobody better is left"
            };
            let then = if attempts.len() > 1 { "; each next one only if those before it fail" } else { "" };
            let says = format!("it would be sent to {}{only}{then}", attempts.join(", then "));
            return Verdict { tried: true, says, ..Verdict::default() };
        }
        let any = || {
            drawn
                .places
                .iter()
                .zip(found)
                .filter(|(place, _)| place.candidate.reach == Reach::Any)
                .map(|(_, found)| found)
        };
        let away: Vec<Away> =
            any().filter_map(|found| if let Found::Away(away) = found { Some(*away) } else { None }).collect();
        let by_themselves = away.iter().filter(|away| !away.is_for_the_operator());
        let soonest = by_themselves.filter_map(|away| away.wait(self.now)).min();
        let is_for_the_operator = !away.is_empty() && away.iter().all(|away| away.is_for_the_operator());
        if let Some(queue) = self.model.queue.filter(|_| !away.is_empty())
            && let Some(wait) = soonest.filter(|wait| *wait <= queue.wait)
        {
            let says = format!("it would wait {}, until the first account is back, and then be sent", left(wait));
            return Verdict { tried: true, says, ..Verdict::default() };
        }
        let unable = any().find_map(|found| if let Found::Unable(refused) = found { Some(refused) } else { None });
        Verdict::refused(&match unable {
            Some(Refused::Invalid(complaint)) if away.is_empty() => Obstacle {
                param: Some(complaint.param.clone()),
                ..Obstacle::new(What::BadRequest { code: Some("invalid_value") }, complaint.message.clone())
            },
            Some(Refused::Unsupported(complaint)) if away.is_empty() => Obstacle {
                param: Some(complaint.param.clone()),
                ..Obstacle::new(What::Unsupported, complaint.message.clone())
            },
            Some(_) | None if is_for_the_operator => {
                let says =
                    "no account can take it before you act: trying again does not help, and the caller is told so";
                Obstacle::new(What::NoCapacity, says.to_owned())
            }
            Some(_) | None => {
                let all_for_rate = !away.is_empty() && away.iter().all(|away| away.is_for_rate());
                let what = if all_for_rate { What::AllRateLimited } else { What::NoCapacity };
                let waits = self
                    .model
                    .queue
                    .map(|queue| format!(", after up to {} in the queue", span(queue.wait)))
                    .unwrap_or_default();
                let back = soonest.map(|wait| format!("; the first is back in {}", left(wait))).unwrap_or_default();
                Obstacle::new(what, format!("no account can take it at the moment{waits}{back}"))
            }
        })
    }

    /// What else may happen to it on its way.
    fn beside(&self, report: &mut Report) {
        if let Some(hedge) = self.model.hedge {
            let after = hedge.after * 100.0;
            report.fact(
                "hedge",
                format!(
                    "a second attempt begins beside the first, at another account, if that is slower than p{after:.0} of late, for {} % of the \
                     requests at most",
                    (hedge.at_most * 10_000.0).round() / 100.0
                ),
            );
        }
        let told = self.instance.and_then(|instance| instance.model(&self.model.id));
        if let Some(queue) = self.model.queue {
            let waiting = told.map(|told| format!("; {} wait now, and go before it", told.waiting)).unwrap_or_default();
            report.fact(
                "queue",
                format!(
                    "where nobody can be asked it waits up to {}, {} at most do{waiting}",
                    span(queue.wait),
                    queue.length
                ),
            );
        }
        if told.is_some_and(|told| told.retry_budget_spent >= 1.0) {
            report.fact(
                "retries",
                "the model's retry budget is spent: after a failure only a target with nothing against it is asked",
            );
        }
    }

    fn candidate(&self, place: &Placed, found: Found) -> Candidate {
        let one = &place.candidate;
        let written = |said: &Said| Some(shown::upstream(one, said, self.envelope, self.body, self.timeout));
        let in_case = match one.reach {
            Reach::Any => "",
            Reach::TooLong => "asked if the request is too long for the model",
            Reach::Declined => "asked if the model will not answer",
        };
        let (state, attempt, why, request) = match &found {
            Found::Asked(nth, said) => (
                State::Asked,
                Some(*nth),
                asked(*nth, place.first_for.filter(|_| one.model.id == self.model.id)),
                written(said),
            ),
            Found::LastResort(nth, said) => {
                let why =
                    format!("{}; asked if nobody else is left, and then perhaps only once a second", self.broken(one));
                (State::LastResort, Some(*nth), why, written(said))
            }
            Found::InCase(said) => (State::InCase, None, in_case.to_owned(), written(said)),
            Found::Away(Away::Full) => {
                let cap = one.place.account.concurrency.unwrap_or_default();
                (State::Full, None, format!("full: its account has {cap} requests in flight, as many as it may"), None)
            }
            Found::Away(Away::Resting(rest)) => {
                let wait = rest.until.saturating_duration_since(self.now);
                (State::Resting, None, format!("rests for {} more ({})", left(wait), rest.why.name()), None)
            }
            Found::Away(Away::Broken(_)) => (State::Broken, None, self.broken(one), None),
            Found::Unable(Refused::Invalid(complaint) | Refused::Unsupported(complaint)) => {
                (State::Unable, None, format!("cannot express `{}`: {}", complaint.param, complaint.message), None)
            }
            Found::Beyond => (
                State::Beyond,
                None,
                format!("not asked: {} attempts are the most (`attempts` in server.yaml)", self.server.attempts),
                None,
            ),
        };
        let is_conditional = one.reach != Reach::Any && state != State::InCase;
        Candidate {
            model: one.model.id.to_string(),
            account: Some(one.place.account.id.to_string()),
            upstream_model: Some(one.upstream_model.to_string()),
            reach: reach(one.reach),
            state,
            attempt,
            first_for: place.first_for,
            why: if is_conditional { format!("{in_case}, but: {why}") } else { why },
            does: self.instance.and_then(|instance| instance.does(&one.place.account, &one.upstream_model)),
            price: {
                let is_it =
                    |target: &&Target| target.account.id == one.place.account.id && target.model == one.upstream_model;
                one.model.targets.iter().find(is_it).and_then(costs)
            },
            request,
        }
    }

    /// What its breaker does.
    fn broken(&self, one: &plan::Candidate) -> String {
        let probe = if one.place.account.probe { ", and kept for the instance's own probes" } else { "" };
        match one.track.told(self.now, std::time::SystemTime::now()).breaker {
            breaker::State::Open(until) => {
                format!("its breaker is open for {} more{probe}", left(until.saturating_duration_since(self.now)))
            }
            breaker::State::HalfOpen { .. } => format!("its breaker is half open{probe}"),
            breaker::State::Closed => "its breaker is closed".to_owned(),
        }
    }

    /// What the order does not even hold: targets on disabled accounts, and models that the key
    /// does not see.
    fn left_out(&self, report: &mut Report) {
        let disabled = |model: &Model, target: &Target, reach| Candidate {
            model: model.id.to_string(),
            account: Some(target.account.id.to_string()),
            upstream_model: Some(target.model.to_string()),
            reach,
            state: State::Disabled,
            attempt: None,
            first_for: None,
            why: "its account is disabled".to_owned(),
            does: None,
            price: costs(target),
            request: None,
        };
        let each = |model: &Model, reach: report::Reach, report: &mut Report| {
            let targets = model.targets.iter().filter(|target| !target.account.enabled);
            report.candidates.extend(targets.map(|target| disabled(model, target, reach)));
        };
        each(self.model, report::Reach::Any, report);
        let others = [
            (&self.model.fallbacks, Reach::Any),
            (&self.model.on_context, Reach::TooLong),
            (&self.model.on_refusal, Reach::Declined),
        ];
        for (ids, of) in others {
            for model in ids.iter().filter_map(|id| self.snapshot.catalog.model(id)) {
                match key::hidden(&self.snapshot.catalog, self.key, model) {
                    None => each(model, reach(of), report),
                    Some(why) => report.candidates.push(Candidate {
                        model: model.id.to_string(),
                        account: None,
                        upstream_model: None,
                        reach: reach(of),
                        state: State::Hidden,
                        attempt: None,
                        first_for: None,
                        why: format!("passed over: {why}"),
                        does: None,
                        price: None,
                        request: None,
                    }),
                }
            }
        }
    }
}

fn costs(target: &Target) -> Option<Costs> {
    let (price, from) = target.price.zip(target.price_from)?;
    Some(Costs { from: from.name(), costs: prices::named(&price) })
}

fn asked(nth: usize, first_for: Option<f64>) -> String {
    let asked = if nth == 1 { "asked first" } else { "asked if those before it fail" };
    match first_for {
        Some(share) if nth == 1 => format!("{asked}, for {:.0} % of the requests", share * 100.0),
        Some(share) if share > 0.0 => format!("{asked}; first for {:.0} % of the requests", share * 100.0),
        Some(_) | None => asked.to_owned(),
    }
}

fn reach(reach: Reach) -> report::Reach {
    match reach {
        Reach::Any => report::Reach::Any,
        Reach::TooLong => report::Reach::TooLong,
        Reach::Declined => report::Reach::Refusal,
    }
}
