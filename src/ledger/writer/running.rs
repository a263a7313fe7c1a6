//! Writes what running exchanges have used so far.

use super::{STEP_PAUSE, Writer};
use crate::ledger::life::Life;
use crate::ledger::sink::Sink;
use crate::ledger::{RUNNING_INTERVAL, Row};
use dialects::usage::Usage;
use std::collections::HashMap;
use std::time::Instant;

/// The facts of a running exchange that can change: its tokens, the tokens of failed attempts, and
/// the number of attempts.
pub(super) type SoFar = (Usage, u64, u32);

impl Writer {
    /// Writes what running exchanges have used so far. Returns false if the file cannot be written.
    pub(super) fn write_running(&mut self, sink: &Sink) -> bool {
        self.next_running_write = Instant::now() + RUNNING_INTERVAL;
        if sink.running.is_empty() {
            self.written_uses.clear();
            return true;
        }
        if !self.is_in_place(sink) {
            return false;
        }
        if let Err(why) = self.show_life(sink) {
            if !std::mem::replace(&mut self.live_error_logged, true) {
                log::warn!(
                    "running requests cannot be noted in the ledger, and are missing from it if this process is killed: {why}"
                );
            }
            return true;
        }
        let running = sink.running.list_and_mark();
        let changed: Vec<(u64, Row)> = running
            .iter()
            .map(|(number, runs)| (*number, runs.so_far()))
            .filter(|(number, row)| self.written_uses.get(number) != Some(&so_far(row)))
            .collect();
        let mut known: HashMap<u64, SoFar> = running
            .iter()
            .filter_map(|(number, _)| Some((*number, *self.written_uses.get(number)?)))
            .collect();
        let Some(book) = self.book.as_mut().filter(|_| !changed.is_empty()) else {
            self.written_uses = known;
            return true;
        };
        match book.write_running(&self.process, &changed) {
            Ok(()) => {
                known.extend(changed.iter().map(|(number, row)| (*number, so_far(row))));
                self.written_uses = known;
                true
            }
            // Another program locks the file, likely for a moment only.
            Err(why) if why.is_locked => {
                self.next_running_write = Instant::now() + STEP_PAUSE;
                true
            }
            Err(why) => {
                self.note_failure(&why);
                false
            }
        }
    }

    /// Shows other processes that this one lives.
    fn show_life(&self, sink: &Sink) -> std::io::Result<()> {
        let mut life = sink.life.lock();
        if life.as_ref().is_none_or(|life| !life.is_in_place()) {
            *life = None;
            *life = Some(Life::begin(&sink.path, &self.process)?);
        }
        Ok(())
    }
}

fn so_far(row: &Row) -> SoFar {
    (row.usage, row.unused_tokens, row.attempts)
}
