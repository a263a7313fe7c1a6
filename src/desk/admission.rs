//! The stage of admission: the caller's limits admit a request, or refuse it.

use super::record::Record;
use crate::base::calendar;
use crate::error::{FailureKind, Refusal};
use crate::limits::{self, Ask, Bounds, LimitReached, WHOLE_LIMIT};
use crate::store::{Admission, Store};

/// Takes the most that the request may use from the caller's limits, or returns the refusal.
pub(super) async fn admit_request(
    store: Option<&Store>,
    record: &mut Record,
    bounds: &Bounds<'_>,
    ask: Ask,
    generation: u64,
) -> Result<(), Refusal> {
    let now = calendar::now_millis();
    let admitted = match store {
        // Most requests have no limits, and nothing to ask.
        Some(store) if !bounds.is_empty() => match store.admit(bounds, ask, now).await {
            Admission::Admitted(reservation) => Ok(reservation),
            Admission::Refused(refused) => Err(refused),
            Admission::Down => {
                let message = "The store that counts this gateway's limits is unavailable, and the \
                               gateway refuses requests without it. Try again shortly.";
                return Err(Refusal::new(FailureKind::StoreDown, message).retry_after(1));
            }
        },
        Some(_) | None => limits::take_reservation(bounds, ask, now, WHOLE_LIMIT),
    };
    let reservation = admitted.map_err(|refused| note_limit_reached(record, &refused))?;
    record.admit(reservation, generation);
    Ok(())
}

/// Notes the limit that has no room, and returns the refusal for the caller.
pub(super) fn note_limit_reached(record: &mut Record, refused: &LimitReached) -> Refusal {
    record.limits_left = refused.limits_left;
    record.facts.spending.limited = Some((refused.level, refused.over.kind));
    refused.refusal()
}
