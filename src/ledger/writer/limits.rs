//! Gives limits what the file has from before they began: the past that they had to begin without,
//! and the rows of processes that died.

use super::{Fault, Writer, now_millis};
use crate::ledger::{Row, month, past};
use crate::limits::Registry;
use std::sync::Weak;

impl Writer {
    /// Gives limits the past that they had to begin without, if nothing has been written since.
    /// Returns the limits if that was not possible.
    pub(super) fn recall(&self) -> Option<Weak<Registry>> {
        let limits = self.sink.limits_without_past.lock().take()?;
        let past = {
            let _past_lock = self.sink.past_lock.lock();
            past::read_past(&self.sink.path, now_millis())
        };
        let Ok(past) = past else { return Some(limits) };
        // This function holds no lock of the ledger, since whoever asks for the past holds the
        // registry.
        let past = past.unwrap_or_default();
        // An empty past means that a new file replaces one that was broken.
        let news = if past.is_empty() {
            "stays unknown"
        } else {
            "is known now, and counts against the limits that began at zero"
        };
        limits.upgrade()?.seed_late(past);
        log::info!("the use before this start {news}");
        None
    }

    /// Adds the sums of this month to the use of callers, if it began without them. By now, nothing
    /// of this process is in the file.
    pub(super) fn recall_callers(&self) {
        let _past_lock = self.sink.past_lock.lock();
        let mut known = self.sink.callers.lock();
        let lacking = known.callers.upgrade().filter(|_| known.lacks_this_month);
        let Some(callers) = lacking else { return };
        known.lacks_this_month =
            month::add_month_use(&self.sink.path, now_millis(), &callers).is_err();
    }

    /// Counts rows that were taken over in the use of their callers. The file is locked meanwhile.
    fn count_for_callers(&self, rows: &[Row]) {
        let known = self.sink.callers.lock();
        let Some(callers) = known.callers.upgrade().filter(|_| !known.lacks_this_month) else {
            return;
        };
        rows.iter()
            .for_each(|row| callers.add_use(&row.caller, row.admitted_at, &row.caller_use()));
    }

    /// Makes rows of the exchanges of dead processes, and gives them to limits that have begun
    /// already.
    pub(super) fn take_over(&mut self) -> Result<(), Fault> {
        let Some(book) = &mut self.book else {
            return Ok(());
        };
        let (rows, limits) = {
            // Whoever reads the past after this lock finds the new rows in it.
            let _past_lock = self.sink.past_lock.lock();
            let rows = book.take_over(&self.process)?;
            self.sink
                .taken_over_rows
                .lock()
                .extend(rows.iter().cloned());
            self.count_for_callers(&rows);
            (rows, self.sink.started_limits.lock().clone())
        };
        if rows.is_empty() {
            return Ok(());
        }
        log::warn!(
            "{} requests ran in a process that was killed: the ledger {} now has them as \
             `shutdown`, with their use until at most five seconds before the end",
            rows.len(),
            self.sink.path.display()
        );
        // Limits that still wait for the past get these rows with it.
        let Some(limits) = limits
            .and_then(|limits| limits.upgrade())
            .filter(|_| self.sink.limits_without_past.lock().is_none())
        else {
            return Ok(());
        };
        for row in &rows {
            limits.add_late(&row.past_use(now_millis()), std::iter::empty());
        }
        Ok(())
    }
}
