//! What callers have seen, to be held against what the gateway says it did: an access line for
//! every answer, and no secret in any.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::canary;
use super::gateway::Line;

/// What callers have seen of a gateway.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    ids: Vec<String>,
    leaks: Vec<String>,
}

impl Ledger {
    /// Takes down an answer's head or body.
    pub fn note(&self, bytes: &[u8], id: Option<&str>) {
        let mut seen = self.0.lock().expect("ledger");
        seen.ids.extend(id.map(ToOwned::to_owned));
        seen.leaks.extend(canary::check("an answer", bytes).err());
    }

    /// Holds what was seen against the access lines.
    pub fn check(&self, lines: Option<Vec<Line>>) -> Result<(), String> {
        let seen = self.0.lock().expect("ledger");
        if let Some(leak) = seen.leaks.first() {
            return Err(leak.clone());
        }
        let Some(lines) = lines else { return Ok(()) };
        // A caller may use an id twice: then there are two lines with it.
        let mut balance: BTreeMap<&str, i64> = BTreeMap::new();
        for id in &seen.ids {
            *balance.entry(id).or_default() += 1;
        }
        for line in &lines {
            let Some(id) = line["request_id"].as_str() else { return Err(format!("no request_id in {line}")) };
            *balance.entry(id).or_default() -= 1;
        }
        match balance.iter().find(|(_, balance)| **balance > 0) {
            Some((id, _)) => Err(format!("the answer with request id {id} has no access line")),
            None => Ok(()),
        }
    }
}
