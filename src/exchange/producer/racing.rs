//! The producer while attempts race: the first attempt to open its gate answers, and the others
//! end.

use super::opening::{FailedAttempt, Gained, Opened};
use super::pick::Role;
use super::report::CallerGot;
use super::state::{Declined, Running};
use super::{Piece, Producer};
use crate::account::failure::{Failure, NextStep};
use crate::account::target_health::FailureEffect;
use crate::base::clock::Clock;
use crate::catalog::Hedge;
use crate::error::Refusal;
use crate::plan::Reach;
use std::task::Poll;
use tokio::time::Instant;

impl<'x> Producer<'x> {
    /// Waits for the attempts that run, and begins a hedge of a slow one if the catalog allows it.
    pub(super) async fn race(&mut self) -> Result<Option<Piece>, Refusal> {
        let hedge = self.hedge_due();
        let (state, alarm) = (&mut self.state, &mut self.alarm);
        let first = std::future::poll_fn(|context| {
            if let Some(Poll::Ready(ended)) = state.race().map(|race| race.poll(context)) {
                return Poll::Ready(Some(ended));
            }
            hedge.map_or(Poll::Pending, |due| alarm.poll(context, due).map(|()| None))
        });
        match first.await {
            Some((running, Ok(opened))) => self.adopt(running, opened),
            Some((running, Err(failed))) => self.lose(running, failed),
            None => {
                self.hedge();
                Ok(None)
            }
        }
    }

    /// Returns when a hedge of the first attempt is due.
    fn hedge_due(&self) -> Option<Instant> {
        let Hedge { after, .. } = self.request.model.hedge?;
        let first = self.state.alone().filter(|_| self.may_hedge)?;
        let pace = self
            .request
            .demand
            .pace(self.request.envelope.stream, after, Clock::now())?;
        Some(first.attempt.began + pace)
    }

    fn hedge(&mut self) {
        // A second attempt is looked for only once.
        self.may_hedge = false;
        let (Some(Hedge { at_most, .. }), Some(first)) =
            (self.request.model.hedge, self.state.alone())
        else {
            return;
        };
        let running_candidate = Some(first.attempt.candidate);
        // A free place is for the requests that wait.
        if self.request.demand.waiting() == 0
            && self.has_candidate_left(running_candidate)
            && self.request.demand.allow_hedge(at_most, Clock::now())
            && let Ok(Some(chosen)) = self.pick(running_candidate)
        {
            self.attempts.hedge_won = Some(false);
            self.start_attempt(chosen, Role::Hedge);
        }
    }

    /// Takes the answer of an attempt that has opened its gate. The other attempts end.
    fn adopt(
        &mut self,
        mut running: Running<'x>,
        mut opened: Opened,
    ) -> Result<Option<Piece>, Refusal> {
        let stream = self.request.envelope.stream;
        let now = self.own_time.clock();
        let took = self.time_since(running.attempt.began);
        running.attempt.progress.lock().begun_after = Some(took);
        // If a stream has ended already, it must be whole before other attempts end.
        if let Gained::Stream {
            reading,
            whole: true,
        } = opened.gained
        {
            opened.gained = match self.conclude(&running.attempt, reading) {
                Ok(whole) => Gained::Whole(whole),
                Err((failure, reading)) => {
                    return self.lose(
                        running,
                        FailedAttempt {
                            failure,
                            salvage: Some(reading),
                        },
                    );
                }
            };
        }
        let change = running.attempt.guard.record_answer(stream, took, now);
        if self.request.model.hedge.is_some() {
            self.request.demand.record_time(stream, took, now);
        }
        if change.is_some() {
            self.report(
                running.attempt.candidate,
                FailureEffect {
                    breaker: change,
                    rest: None,
                },
                None,
                None,
            );
        }
        if opened.declined && self.search.has_candidate_for(Reach::Declined) {
            let noted = self.attempts.trail.len();
            let counted = self.note(
                &running.attempt,
                "declined",
                Some(200),
                Some(opened.gained.usage()),
            );
            self.search.reach = Reach::Declined;
            let mut declined = Box::new(Declined {
                running,
                opened,
                noted,
                counted,
            });
            declined.release();
            if let Some(reserve) = self.state.reserve() {
                self.attempts.maybe_billed |= reserve.is_some();
                reserve.get_or_insert(declined);
            }
            return Ok(None);
        }
        if running.is_hedge {
            self.attempts.hedge_won = Some(true);
        }
        for mut slower in self.state.stop_race() {
            let waited = slower.attempt.began.elapsed();
            slower.attempt.guard.record_lost_race(stream, waited, now);
            self.request.demand.record_time(stream, waited, now);
            self.give_up(slower, "slower");
        }
        Ok(Some(self.answer(running, opened)))
    }

    /// Handles an attempt that failed before its gate was open, or with its first events.
    fn lose(
        &mut self,
        running: Running<'x>,
        failed: FailedAttempt,
    ) -> Result<Option<Piece>, Refusal> {
        let FailedAttempt { failure, salvage } = failed;
        let Running {
            mut attempt,
            losses,
            no_thoughts,
            ..
        } = running;
        self.note_answering(&attempt, losses);
        let mut then = failure.next_step();
        if !no_thoughts && failure.refuses_thoughts() {
            // Without them the same request is a good one. Of two attempts that race, each may find
            // this out.
            self.no_thoughts = true;
            self.search.allow_again(attempt.candidate);
            then = NextStep::AnotherTarget;
        }
        let (goes_on, reach) = match then {
            NextStep::AnotherTarget => (
                self.state.is_racing() || self.has_candidate_left(None),
                None,
            ),
            NextStep::LargerModel => (
                self.search.has_candidate_for(Reach::TooLong),
                Some(Reach::TooLong),
            ),
            NextStep::RefusalFallback => (
                self.search.has_candidate_for(Reach::Declined),
                Some(Reach::Declined),
            ),
            // The attempt that still runs has its time, and its connection.
            NextStep::Stop => {
                let is_of_one = matches!(failure, Failure::TotalTimeout | Failure::NoDescriptors);
                (is_of_one && self.state.is_racing(), None)
            }
        };
        let has_reserve = self
            .state
            .reserve()
            .is_some_and(|reserve| reserve.is_some());
        if let Some(reading) = salvage.filter(|_| !goes_on && !has_reserve) {
            return self.salvage(attempt, failure, *reading);
        }
        self.report_failure(&failure, &mut attempt, CallerGot::Nothing);
        if !goes_on && then != NextStep::AnotherTarget {
            self.stop_race();
            let refusal = self.refusal(&failure);
            return self.over(refusal);
        }
        self.search.reach = reach.unwrap_or(self.search.reach);
        self.failures.last_failure = Some(failure);
        Ok(None)
    }

    /// Ends the attempts that still run.
    pub(super) fn stop_race(&mut self) {
        self.state
            .stop_race()
            .for_each(|other| self.give_up(other, "not_needed"));
    }

    /// Ends an attempt that is no longer needed.
    pub(super) fn give_up(&mut self, running: Running<'x>, why: &'static str) {
        let Running { attempt, end, .. } = running;
        drop(end);
        let unused = attempt
            .progress
            .spent(self.request.answer_header.prompt_bytes);
        self.attempts.maybe_billed |= unused.is_some();
        self.note(&attempt, why, None, unused);
    }
}
