//! References to items of earlier answers are replaced by the items, before anything else is done
//! with a request: so it is counted, admitted and translated as if its caller had sent them.

use super::Desk;
use super::ask::unreadable;
use crate::base::calendar;
use crate::base::memory::Held;
use crate::catalog::Key;
use crate::error::{Refusal, What};
use crate::store::Lookup;
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
        let (mut more, mut unasked) = (0, None);
        for (reference, item) in references.iter().zip(&found) {
            match item {
                Lookup::There(item) => {
                    more += item.len();
                    edits.replace(reference.span.clone(), &item[..]);
                }
                // Another try would not find it either.
                Lookup::Absent => {
                    let why = self
                        .backends
                        .items
                        .why_missing(&reference.id, calendar::now());
                    return Err(unreadable(missing(reference.index, &why)));
                }
                Lookup::Unasked => unasked = unasked.or(Some(reference.index)),
            }
        }
        if let Some(index) = unasked {
            return Err(unasked_store(index));
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
        envelope
            .front
            .request(whole, Asked::default())
            .map_err(unreadable)
    }
}

/// Returns the refusal of a reference of which nobody knows whether its item is there.
fn unasked_store(index: usize) -> Refusal {
    let message = format!(
        "`input[{index}]` refers to an item, and the store that keeps items for several gateways could not be asked \
         for it. The item may be there. Try again shortly."
    );
    Refusal::new(What::StoreDown, message)
        .param(format!("input[{index}]"))
        .retry_after(1)
}

/// Returns the fault of a reference to an item that is not there.
fn missing(index: usize, why: &str) -> Fault {
    let param = format!("input[{index}]");
    Fault {
        message: format!("`{param}` {why}"),
        param: Some(param.into()),
        code: Some("invalid_value"),
    }
}
