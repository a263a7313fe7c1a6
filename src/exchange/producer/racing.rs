//! Attempts that run beside each other: the first to open its gate answers, and the others end for
//! it.

use super::opening::{Gained, Lost, Opened};
use super::{Declined, Piece, Producer, Running};
use crate::account::track::Failed;
use crate::catalog::Hedge;
use crate::error::Refusal;
use crate::plan::Reach;
use std::task::Poll;
use tokio::time::Instant;

impl<'x> Producer<'x> {
    /// Waits for the attempts that run, and begins one more beside a slow one where the catalog
    /// says so.
    pub(super) async fn race(&mut self) -> (Running<'x>, Result<Opened, Lost>) {
        loop {
            let hedge = self.hedge_due();
            let (running, alarm) = (&mut self.running, &mut self.alarm);
            let first = std::future::poll_fn(|context| {
                for (place, one) in running.iter_mut().enumerate() {
                    if let Poll::Ready(end) = one.end.as_mut().poll(context) {
                        return Poll::Ready(Some((running.swap_remove(place), end)));
                    }
                }
                match hedge {
                    Some(due) => alarm.poll(context, due).map(|()| None),
                    None => Poll::Pending,
                }
            });
            match first.await {
                Some(end) => return end,
                None => self.hedge(),
            }
        }
    }

    /// When a second attempt is due beside the first.
    fn hedge_due(&self) -> Option<Instant> {
        let Hedge { after, .. } = self.request.model.hedge?;
        let [first] = self.running.as_slice() else { return None };
        if !self.may_hedge {
            return None;
        }
        Some(first.began + self.request.demand.pace(self.request.envelope.stream, after, std::time::Instant::now())?)
    }

    fn hedge(&mut self) {
        // Whatever comes of it, it is not tried twice.
        self.may_hedge = false;
        let (Some(Hedge { at_most, .. }), Some(first)) = (self.request.model.hedge, self.running.first()) else {
            return;
        };
        let besides = Some(first.place);
        // A place that is free is for those who wait.
        if self.request.demand.waiting() == 0
            && self.is_anybody_left(besides)
            && self.request.demand.hedge(at_most, std::time::Instant::now())
            && let Ok(Some(chosen)) = self.pick(besides)
        {
            self.hedged = Some(false);
            self.start(chosen, true);
        }
    }

    /// An attempt has opened its gate: the others end.
    pub(super) fn adopt(
        &mut self,
        mut running: Running<'x>,
        Opened { gained, declined, held }: Opened,
    ) -> Result<Option<Piece>, Refusal> {
        let stream = self.request.envelope.stream;
        let (now, took) = (std::time::Instant::now(), running.began.elapsed());
        running.progress.begun(took);
        // One that has ended already must be whole before others end for it.
        let gained = match gained {
            Gained::Stream { reading, whole: true } => {
                match self.conclude(running.place, running.began, &running.progress, reading) {
                    Ok(gained) => gained,
                    Err(lost) => return self.lose(running, lost),
                }
            }
            Gained::Stream { .. } | Gained::Whole { .. } => gained,
        };
        let change = running.trial.answered(stream, took, now);
        if self.request.model.hedge.is_some() {
            self.request.demand.took(stream, took, now);
        }
        self.told(
            running.place,
            change.map(|state| Failed { breaker: Some(state), rest: None }),
            "an answer",
            None,
            None,
        );
        if declined && self.asks(Reach::Declined) {
            let noted = self.trail.len();
            self.note(running.place, "declined", running.began, Some(200), &running.progress, Some(gained.usage()));
            self.reach = Reach::Declined;
            let mut kept = Declined { running, gained, held, noted };
            kept.release();
            self.maybe_billed |= self.declined.is_some();
            self.declined.get_or_insert(kept);
            return Ok(None);
        }
        if running.is_hedge {
            self.hedged = Some(true);
        }
        for mut slower in std::mem::take(&mut self.running) {
            let waited = slower.began.elapsed();
            slower.trial.outrun(stream, waited, now);
            self.request.demand.took(stream, waited, now);
            self.give_up(slower, "slower");
        }
        Ok(Some(self.answer(running, gained, held)))
    }

    /// Ends an attempt that is no longer needed.
    pub(super) fn give_up(&mut self, running: Running<'x>, why: &'static str) {
        let Running { place, began, progress, end, trial, .. } = running;
        drop((end, trial));
        let unused = progress.spent(self.request.face.prompt_bytes);
        self.maybe_billed |= unused.is_some();
        self.note(place, why, began, None, &progress, unused);
    }
}
