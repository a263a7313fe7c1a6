//! References to items of earlier answers are replaced by the items, before anything else is done
//! with a request: so it is counted, admitted and translated as if its caller had sent them.

use super::Desk;
use super::ask::unreadable;
use crate::base::calendar;
use crate::base::memory::Held;
use crate::catalog::Key;
use crate::error::Refusal;
use bytes::Bytes;
use dialects::front::{Asked, Envelope, Fault};
use dialects::wire::splice::Edits;

impl Desk {
    /// Returns a body with the items that it refers to, read again.
    pub(super) async fn with_items(
        &self,
        body: Bytes,
        envelope: Envelope,
        held: &mut Held,
        key: &Key,
    ) -> Result<(Bytes, Envelope), Refusal> {
        let references = &envelope.places.references;
        let ids: Vec<&str> = references.iter().map(|reference| &*reference.id).collect();
        let found = self.backends.find_items(&key.id, &ids).await;
        let mut edits = Edits::new(&body);
        let mut more = 0;
        for (reference, item) in references.iter().zip(&found) {
            let Some(item) = item else {
                let why = self.backends.items.why_missing(&reference.id, calendar::now());
                return Err(unreadable(missing(reference.index, &why)));
            };
            more += item.len();
            edits.replace(reference.span.clone(), &item[..]);
        }
        let limit = self.settings.limits.request_body;
        if body.len().saturating_add(more) > limit {
            return Err(super::intake::too_large(limit));
        }
        if !held.grow(more) {
            return Err(Refusal::no_room());
        }
        let whole = Bytes::from(edits.applied().into_owned());
        // What the path said stands in the body by now.
        envelope.front.request(whole, Asked::default()).map_err(unreadable)
    }
}

/// Returns the fault of a reference to an item that is not there.
fn missing(index: usize, why: &str) -> Fault {
    let param = format!("input[{index}]");
    Fault { message: format!("`{param}` {why}"), param: Some(param.into()), code: Some("invalid_value") }
}
