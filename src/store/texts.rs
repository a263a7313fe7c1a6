//! Texts that every gateway may need with a later request: under a name, and for a time. A text
//! that is too long is not stored. A text that cannot be stored now is not stored later.

use super::{Core, Store};
use crate::base::hash::{digest_parts, digest_text};
use crate::status::StoreState;
use redis::{Cmd, Value};
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// The longest text that is stored, in bytes. A longer one would make admissions wait.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// The most bytes that wait to be stored.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// The most texts that are stored, or looked up, at once.
pub(super) const MAX_TEXTS: usize = 16;

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<T> {
    /// It is there.
    There(T),
    /// It is not there.
    Absent,
    /// It is unknown: the store could not be asked, or did not answer in time.
    Unasked,
}

/// A text to be stored.
pub(super) struct StoredText {
    pub(super) name: String,
    pub(super) text: String,
    /// The time for which it is kept, in seconds.
    pub(super) kept_for: u64,
}

/// The texts that wait to be stored.
#[derive(Default)]
pub(super) struct TextQueue {
    waiting: VecDeque<StoredText>,
    bytes: usize,
}

impl TextQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes commands that store some texts. Together they have at most the bytes of one longest
    /// text, since admissions use the same connection.
    pub(super) fn take(&mut self, prefix: &str) -> Vec<Cmd> {
        let (mut commands, mut bytes) = (Vec::new(), 0);
        while commands.len() < MAX_TEXTS
            && self
                .waiting
                .front()
                .is_some_and(|next| bytes + next.text.len() <= MAX_TEXT_BYTES)
        {
            let Some(StoredText {
                name,
                text,
                kept_for,
            }) = self.waiting.pop_front()
            else {
                break;
            };
            bytes += text.len();
            let mut command = redis::cmd("SET");
            command
                .arg(text_key(prefix, &name))
                .arg(text)
                .arg("EX")
                .arg(kept_for);
            commands.push(command);
        }
        self.bytes -= bytes;
        commands
    }
}

/// A request for texts.
pub(super) struct TextRequest {
    names: Vec<String>,
    answer: oneshot::Sender<Vec<Option<Vec<u8>>>>,
}

impl TextRequest {
    pub(super) fn command(&self, prefix: &str) -> Cmd {
        let mut command = redis::cmd("MGET");
        for name in &self.names {
            command.arg(text_key(prefix, name));
        }
        command
    }

    pub(super) fn answer(self, answer: &Value) {
        let values: &[Value] = if let Value::Array(values) = answer {
            values
        } else {
            &[]
        };
        let found = values.iter().map(|value| {
            if let Value::BulkString(bytes) = value {
                Some(bytes.clone())
            } else {
                None
            }
        });
        let found = found.collect();
        // If nobody waits any more, nobody needs the texts.
        self.answer.send(found).ok();
    }
}

impl Store {
    /// Stores a text. Returns at once.
    pub(super) fn keep_text(&self, text: StoredText) {
        self.core.post(|inbox| {
            let (is_down, queue) = (inbox.state == StoreState::Down, &mut inbox.texts_to_store);
            let length = text.text.len();
            if is_down || length > MAX_TEXT_BYTES || queue.bytes + length > MAX_WAITING_BYTES {
                return None;
            }
            queue.bytes += length;
            queue.waiting.push_back(text);
            Some(())
        });
    }

    /// Looks up the texts of these names, a few after the other. If one answer does not come in
    /// time, no more are asked for, and those that came are returned.
    pub(super) async fn find_texts(&self, names: Vec<String>) -> Vec<Lookup<Vec<u8>>> {
        let mut all = Vec::with_capacity(names.len());
        for some in names.chunks(MAX_TEXTS) {
            let Some(found) = self.core.ask_texts(some).await else {
                break;
            };
            all.extend(
                found
                    .into_iter()
                    .map(|text| text.map_or(Lookup::Absent, Lookup::There)),
            );
        }
        all.resize(names.len(), Lookup::Unasked);
        all
    }
}

impl Core {
    /// Asks for a few texts at once. Returns `None` if no answer comes in time.
    async fn ask_texts(&self, names: &[String]) -> Option<Vec<Option<Vec<u8>>>> {
        let (answer, receiver) = oneshot::channel();
        let request = TextRequest {
            names: names.to_vec(),
            answer,
        };
        self.post(|inbox| {
            let is_asked = inbox.state != StoreState::Down;
            is_asked.then(|| inbox.text_requests.push_back(request))
        })?;
        let Ok(received) = tokio::time::timeout(self.settings.timeout, receiver).await else {
            self.note_missed();
            return None;
        };
        // The connection is lost, or the store refuses to answer.
        received.ok().filter(|found| found.len() == names.len())
    }
}

fn text_key(prefix: &str, name: &str) -> String {
    format!("{{{prefix}}}:{name}")
}

/// Returns a short hash of some words, which does not reveal them.
pub(super) fn hash_words(words: &[&str]) -> String {
    let parts = words.iter().map(|word| word.as_bytes());
    digest_text(&digest_parts(parts), 16)
}
