//! The thread that reads what single keys have used before. Requests wait for it, so it waits for
//! nothing but the file.

use super::past;
use super::sink::Sink;
use crate::limits::Past;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

/// The thread. It ends when this is dropped.
pub(super) struct PastReader(Option<Sender<PastOfKey>>);

/// What is asked for.
pub(super) struct PastOfKey {
    pub(super) caller: Arc<str>,
    pub(super) key: Arc<str>,
    pub(super) now_ms: u64,
    /// Is called with what was read, or with `None` if it cannot be read.
    pub(super) done: Box<dyn FnOnce(Option<Vec<Past>>) + Send>,
}

impl PastReader {
    /// Starts the thread. If there is none to be had, all that is asked for is unknown.
    pub(super) fn start(sink: Weak<Sink>) -> PastReader {
        let (asked, questions) = channel();
        let thread = std::thread::Builder::new().name("ledger-past".to_owned());
        match thread.spawn(move || answer_questions(&sink, &questions)) {
            Ok(_) => PastReader(Some(asked)),
            Err(why) => {
                log::error!("the thread that reads the ledger cannot be started: {why}");
                PastReader(None)
            }
        }
    }

    pub(super) fn ask(&self, question: PastOfKey) {
        let unasked = match &self.0 {
            Some(asked) => asked.send(question).err().map(|unsent| unsent.0),
            None => Some(question),
        };
        if let Some(question) = unasked {
            (question.done)(None);
        }
    }
}

fn answer_questions(sink: &Weak<Sink>, questions: &Receiver<PastOfKey>) {
    let mut was_read = true;
    for question in questions {
        let read = match sink.upgrade() {
            Some(sink) => read_past(&sink, &question),
            None => Err("the process ends".to_owned()),
        };
        if let Err(why) = &read
            && was_read
        {
            log::error!("what a subject has used before is unknown: {why}");
        }
        was_read = read.is_ok();
        (question.done)(read.ok());
    }
}

/// Reads what a key has used, also what is not written yet.
fn read_past(sink: &Sink, question: &PastOfKey) -> Result<Vec<Past>, String> {
    let PastOfKey {
        caller,
        key,
        now_ms,
        ..
    } = question;
    let _write_lock = sink.write_lock.lock();
    let read = past::read_past_of_key(&sink.path, caller, key, *now_ms)?;
    let backlog = sink.backlog.lock();
    if read.is_none() && backlog.error.is_some() {
        return Err("the ledger fails, and its file is not there".to_owned());
    }
    let mut past = read.unwrap_or_default();
    let from = past::first_moment(*now_ms);
    let waiting = backlog.chunks.iter().flatten();
    let waiting = waiting.filter(|row| row.admitted_at >= from && row.key == *key);
    past.extend(waiting.map(|row| row.past_use(*now_ms)));
    Ok(past)
}
