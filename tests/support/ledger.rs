//! A record of what callers have seen. It is compared with what the gateway says it did: an access
//! line for every answer, no secret in any, and nothing that the book does not name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::gateway::Line;
use super::{canary, documented};

/// The record of what callers have seen of a gateway.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    ids: Vec<String>,
    /// The faults that were found in it.
    faults: Vec<String>,
}

impl Ledger {
    /// Notes the head or the body of an answer.
    pub fn note(&self, bytes: &[u8], id: Option<&str>) {
        let mut seen = self.0.lock().expect("ledger");
        seen.ids.extend(id.map(ToOwned::to_owned));
        seen.faults.extend(canary::check("an answer", bytes).err());
    }

    /// Checks the fields of an answer's head.
    pub fn head(&self, fields: &[(String, String)]) {
        self.0
            .lock()
            .expect("ledger")
            .faults
            .extend(documented::check_head(fields).err());
    }

    /// Compares what was seen with the access lines.
    pub fn check(&self, lines: Option<Vec<Line>>) -> Result<(), String> {
        let seen = self.0.lock().expect("ledger");
        if let Some(fault) = seen.faults.first() {
            return Err(fault.clone());
        }
        let Some(lines) = lines else { return Ok(()) };
        lines.iter().try_for_each(documented::check_line)?;
        // A caller may use an id twice; then two lines have it.
        let mut balance: BTreeMap<&str, i64> = BTreeMap::new();
        for id in &seen.ids {
            *balance.entry(id).or_default() += 1;
        }
        for line in &lines {
            let Some(id) = line["request_id"].as_str() else {
                return Err(format!("no request_id in {line}"));
            };
            *balance.entry(id).or_default() -= 1;
        }
        match balance.iter().find(|(_, balance)| **balance > 0) {
            Some((id, _)) => Err(format!(
                "the answer with request id {id} has no access line"
            )),
            None => Ok(()),
        }
    }
}
