//! References to items of earlier answers are replaced by the items, before anything else is done
//! with a request: so it is counted, admitted and translated as if its caller had sent them.

use super::{bad_request, too_large};
use crate::base::calendar;
use crate::base::memory::Held;
use crate::catalog::Key;
use crate::desk::Desk;
use crate::error::{FailureKind, Refusal};
use crate::store::Lookup;
use bytes::Bytes;
use dialects::front::{Envelope, Fault, PathRequest};
use dialects::wire::splice::Edits;
use std::collections::{BTreeSet, HashMap};

/// The most different items that a request may refer to: far more than a conversation has.
const MOST_ITEMS: usize = 1_024;
/// The number of items that are looked up at once.
const AT_ONCE: usize = 16;

impl Desk {
    /// Writes the items that a body refers to in their places, and reads the envelope of the
    /// result.
    pub(super) async fn insert_items(
        &self,
        body: Bytes,
        envelope: Envelope,
        held: &mut Held,
        key: &Key,
    ) -> Result<(Bytes, Envelope), Refusal> {
        let references = &envelope.places.references;
        let limit = self.settings.limits.request_body;
        let ids: BTreeSet<&str> = references.iter().map(|reference| &*reference.id).collect();
        if ids.len() > MOST_ITEMS {
            return Err(bad_request(too_many_items(ids.len())));
        }
        let room = limit.saturating_sub(body.len());
        let Some(found) = self.find_items(key, &Vec::from_iter(ids), room).await else {
            return Err(too_large(limit));
        };
        let mut edits = Edits::new(&body);
        let (mut added_bytes, mut first_unasked) = (0, None);
        for reference in references {
            match found.get(&*reference.id).unwrap_or(&Lookup::Unasked) {
                Lookup::There(item) => {
                    added_bytes += item.len();
                    edits.replace(reference.span.clone(), &item[..]);
                }
                // Another try would not find it either.
                Lookup::Absent => {
                    let why = self
                        .backends
                        .items
                        .why_missing(&reference.id, calendar::now_millis());
                    return Err(bad_request(missing_item(reference.index, &why)));
                }
                Lookup::Unasked => first_unasked = first_unasked.or(Some(reference.index)),
            }
        }
        if let Some(index) = first_unasked {
            return Err(unasked_store(index));
        }
        if body.len().saturating_add(added_bytes) > limit {
            return Err(too_large(limit));
        }
        if !held.grow(added_bytes) {
            return Err(Refusal::no_room());
        }
        let whole = Bytes::from(edits.applied().into_owned());
        // What the path said stands in the body by now.
        envelope
            .front
            .request(whole, PathRequest::default())
            .map_err(bad_request)
    }

    /// Looks up items, a few after the other. After one with an unknown result, no more are looked
    /// up. Returns `None` if those that are there have more than `room` bytes.
    async fn find_items<'i>(
        &self,
        key: &Key,
        ids: &[&'i str],
        room: usize,
    ) -> Option<HashMap<&'i str, Lookup<Bytes>>> {
        let mut found = HashMap::with_capacity(ids.len());
        let mut left = room;
        for chunk in ids.chunks(AT_ONCE) {
            let items = self.backends.find_items(&key.id, chunk).await;
            let lengths = items.iter().map(|item| match item {
                Lookup::There(item) => item.len(),
                Lookup::Absent | Lookup::Unasked => 0,
            });
            left = left.checked_sub(lengths.sum())?;
            let all_known = !items.contains(&Lookup::Unasked);
            found.extend(chunk.iter().copied().zip(items));
            if !all_known {
                break;
            }
        }
        Some(found)
    }
}

/// Returns the fault of a request that refers to too many items.
fn too_many_items(number: usize) -> Fault {
    Fault {
        message: format!(
            "`input` refers to {number} different items, and at most {MOST_ITEMS} are allowed: \
             send the items themselves"
        ),
        param: Some("input".into()),
        code: Some("invalid_value"),
    }
}

/// Returns the refusal of a reference whose item may or may not be there.
fn unasked_store(index: usize) -> Refusal {
    let message = format!(
        "`input[{index}]` refers to an item, and the store that keeps items for several gateways could not be asked \
         for it. The item may be there. Try again shortly."
    );
    Refusal::new(FailureKind::StoreDown, message)
        .param(format!("input[{index}]"))
        .retry_after(1)
}

/// Returns the fault of a reference to an item that is not there.
fn missing_item(index: usize, why: &str) -> Fault {
    let param = format!("input[{index}]");
    Fault {
        message: format!("`{param}` {why}"),
        param: Some(param.into()),
        code: Some("invalid_value"),
    }
}
