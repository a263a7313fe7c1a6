//! Signed thoughts that every gateway can put back, whichever of them kept them.
//!
//! They are kept as long as in the [`vault`](crate::vault), under a hash of the key, the family and
//! the call: who has one of another's ids finds nothing. What is too long is not kept here, and
//! what cannot be kept now is not kept later.

use super::{Inside, State, Store};
use dialects::Family;
use dialects::neutral::Thought;
use redis::{Cmd, Value};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// As in the vault.
const KEPT_FOR: u64 = 6 * 3600;
/// What is longer would make admissions wait for it.
const LONGEST: usize = 256 << 10;
/// So much waits to be kept.
const MOST_WAITING: usize = 4 << 20;
/// So many are kept, and looked for, in one go.
const AT_ONCE: usize = 16;

/// What waits to be kept.
#[derive(Default)]
pub(super) struct Keeping {
    waiting: VecDeque<(String, String)>,
    bytes: usize,
}

impl Keeping {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Some of it, but never more than one of the longest: admissions go the same way.
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

/// What is looked for.
pub(super) struct Finding {
    names: Vec<String>,
    answer: oneshot::Sender<Vec<Option<Vec<u8>>>>,
}

impl Finding {
    pub(super) fn command(&self, prefix: &str) -> Cmd {
        let mut command = redis::cmd("MGET");
        for name in &self.names {
            command.arg(key(prefix, name));
        }
        command
    }

    pub(super) fn found(self, answer: &Value) {
        let bytes = |value: &Value| if let Value::BulkString(bytes) = value { Some(bytes.clone()) } else { None };
        let found = if let Value::Array(values) = answer { values.iter().map(bytes).collect() } else { Vec::new() };
        // If nobody waits any more, nobody needs it.
        self.answer.send(found).ok();
    }
}

impl Store {
    /// Keeps the thoughts that led to a call. Returns at once.
    pub fn keep(&self, key: &str, family: Family, call: &str, thoughts: &[Thought<'_>]) {
        let text = written(thoughts);
        let mut desk = self.inside.desk();
        if desk.state == State::Down || text.len() > LONGEST || desk.keeping.bytes + text.len() > MOST_WAITING {
            return;
        }
        desk.keeping.bytes += text.len();
        desk.keeping.waiting.push_back((name(key, family, call), text));
        drop(desk);
        self.inside.work.notify_one();
    }

    /// The thoughts that led to these calls, as far as they are there in time.
    pub async fn find(&self, key: &str, calls: &[(Family, &str)]) -> Vec<(usize, Vec<Thought<'static>>)> {
        let Some(heard) = self.inside.look(key, calls) else { return Vec::new() };
        let found = match tokio::time::timeout(self.inside.settings.timeout, heard).await {
            Ok(found) => found.unwrap_or_default(),
            Err(_) => {
                self.inside.missed();
                Vec::new()
            }
        };
        found.into_iter().enumerate().filter_map(|(place, bytes)| Some((place, read(&bytes?)?))).collect()
    }
}

impl Inside {
    fn look(&self, key: &str, calls: &[(Family, &str)]) -> Option<oneshot::Receiver<Vec<Option<Vec<u8>>>>> {
        let names: Vec<String> = calls.iter().take(AT_ONCE).map(|(family, call)| name(key, *family, call)).collect();
        let (answer, heard) = oneshot::channel();
        let mut desk = self.desk();
        if names.is_empty() || desk.state == State::Down {
            return None;
        }
        desk.finding.push_back(Finding { names, answer });
        drop(desk);
        self.work.notify_one();
        Some(heard)
    }
}

fn key(prefix: &str, name: &str) -> String {
    format!("{{{prefix}}}:thoughts:{name}")
}

fn name(key: &str, family: Family, call: &str) -> String {
    let family = match family {
        Family::Claude => "claude",
        Family::Gemini => "gemini",
    };
    let mut sha = Sha256::new();
    for part in [key, family, call] {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    sha.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn written(thoughts: &[Thought<'_>]) -> String {
    let one = |thought: &Thought<'_>| json!([thought.text, thought.signature, thought.redacted, thought.of_call]);
    serde_json::Value::Array(thoughts.iter().map(one).collect()).to_string()
}

fn read(bytes: &[u8]) -> Option<Vec<Thought<'static>>> {
    let all: Vec<(String, Option<String>, Option<String>, bool)> = serde_json::from_slice(bytes).ok()?;
    let one = |(text, signature, redacted, of_call): (String, Option<String>, Option<String>, bool)| Thought {
        text: text.into(),
        signature: signature.map(Into::into),
        redacted: redacted.map(Into::into),
        of_call,
    };
    Some(all.into_iter().map(one).collect())
}
