//! Signed thoughts in the store: every gateway can put them back, whichever gateway received them.
//!
//! The store keeps a thought as long as the [`vault`](crate::vault) does, under a hash of the key,
//! the family and the call: so the id of another caller's call finds nothing. A thought that is too
//! long is not stored. A thought that cannot be stored now is not stored later.

use super::Store;
use crate::seal;
use crate::status::StoreState;
use dialects::Family;
use dialects::neutral::Thought;
use redis::{Cmd, Value};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// The time for which a thought is kept, in seconds. The vault has the same.
const KEPT_FOR: u64 = 6 * 3600;
/// The longest thought that is stored, in bytes. A longer one would make admissions wait.
const LONGEST: usize = 256 << 10;
/// The most bytes that wait to be stored.
const MOST_WAITING: usize = 4 << 20;
/// The most thoughts that are stored, or looked up, at once.
const AT_ONCE: usize = 16;

/// The thoughts that wait to be stored.
#[derive(Default)]
pub(super) struct ThoughtQueue {
    waiting: VecDeque<(String, String)>,
    bytes: usize,
}

impl ThoughtQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes commands that store some thoughts. Together they have at most the bytes of one longest
    /// thought, since admissions use the same connection.
    pub(super) fn take(&mut self, prefix: &str) -> Vec<Cmd> {
        let (mut commands, mut bytes) = (Vec::new(), 0);
        while commands.len() < AT_ONCE && self.waiting.front().is_some_and(|(_, text)| bytes + text.len() <= LONGEST) {
            let Some((name, text)) = self.waiting.pop_front() else { break };
            bytes += text.len();
            let mut command = redis::cmd("SET");
            command.arg(key(prefix, &name)).arg(text).arg("EX").arg(KEPT_FOR);
            commands.push(command);
        }
        self.bytes -= bytes;
        commands
    }
}

/// A request for thoughts.
pub(super) struct ThoughtRequest {
    names: Vec<String>,
    answer: oneshot::Sender<Vec<Option<Vec<u8>>>>,
}

impl ThoughtRequest {
    pub(super) fn command(&self, prefix: &str) -> Cmd {
        let mut command = redis::cmd("MGET");
        for name in &self.names {
            command.arg(key(prefix, name));
        }
        command
    }

    pub(super) fn answer(self, answer: &Value) {
        let bytes = |value: &Value| if let Value::BulkString(bytes) = value { Some(bytes.clone()) } else { None };
        let found = if let Value::Array(values) = answer { values.iter().map(bytes).collect() } else { Vec::new() };
        // If nobody waits any more, nobody needs the thoughts.
        self.answer.send(found).ok();
    }
}

impl Store {
    /// Stores the thoughts that led to a call. Returns at once.
    pub fn keep(&self, key: &str, family: Family, call: &str, thoughts: &[Thought<'_>]) {
        let text = written(thoughts);
        self.core.post(|inbox| {
            let (is_down, queue) = (inbox.state == StoreState::Down, &mut inbox.new_thoughts);
            if is_down || text.len() > LONGEST || queue.bytes + text.len() > MOST_WAITING {
                return None;
            }
            queue.bytes += text.len();
            queue.waiting.push_back((name(key, family, call), text));
            Some(())
        });
    }

    /// Returns the thoughts that led to these calls, as far as they arrive in time. Each comes with
    /// the place of its call.
    pub async fn find(&self, key: &str, calls: &[(Family, &str)]) -> Vec<(usize, Vec<Thought<'static>>)> {
        let names: Vec<String> = calls.iter().take(AT_ONCE).map(|(family, call)| name(key, *family, call)).collect();
        let (answer, heard) = oneshot::channel();
        let asked = self.core.post(|inbox| {
            let is_asked = !names.is_empty() && inbox.state != StoreState::Down;
            is_asked.then(|| inbox.thoughts.push_back(ThoughtRequest { names, answer }))
        });
        if asked.is_none() {
            return Vec::new();
        }
        let found = match tokio::time::timeout(self.core.settings.timeout, heard).await {
            Ok(found) => found.unwrap_or_default(),
            Err(_) => {
                self.core.missed();
                Vec::new()
            }
        };
        found.into_iter().enumerate().filter_map(|(place, bytes)| Some((place, read(&bytes?)?))).collect()
    }
}

fn key(prefix: &str, name: &str) -> String {
    format!("{{{prefix}}}:thoughts:{name}")
}

fn name(key: &str, family: Family, call: &str) -> String {
    let mut sha = Sha256::new();
    for part in [key, family.name(), call] {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    sha.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn written(thoughts: &[Thought<'_>]) -> String {
    json!(thoughts.iter().map(seal::written).collect::<Vec<_>>()).to_string()
}

fn read(bytes: &[u8]) -> Option<Vec<Thought<'static>>> {
    let all: Vec<seal::WrittenThought> = serde_json::from_slice(bytes).ok()?;
    Some(all.into_iter().map(seal::read).collect())
}
