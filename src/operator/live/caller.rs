//! `/live/caller` is what the page shows of a caller that an operator opens: its keys, and all of
//! its limits.
//!
//! **Invariant:** the answer has at most [`MAX_ANSWER_BYTES`] bytes; what does not fit is counted.

use super::MAX_ANSWER_BYTES;
use crate::base::calendar::{format_system_time, format_time};
use crate::catalog::{Key, Permissions};
use crate::limits::{self, Bound};
use crate::live::{Live, Snapshot};
use crate::store::Store;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The most keys and the most limits that are looked at.
const MAX_ENTRIES: usize = 500;
/// The most globs of a key's models.
const MAX_GLOBS: usize = 20;
/// The longest time to wait for the counts of all instances.
const STORE_TIMEOUT: Duration = Duration::from_secs(3);
/// The room for what is around the keys and the limits.
const FRAME_BYTES: usize = 1024;

/// Describes a caller by its id. Returns `None` if there is none.
pub(in crate::operator) async fn describe_caller(
    live: &Live,
    store: Option<&Store>,
    id: &str,
    now: u64,
) -> Option<String> {
    let snapshot = live.load_full();
    snapshot
        .catalog
        .callers()
        .iter()
        .find(|caller| *caller.id == *id)?;
    let subjects = live.subjects.keys_of(id);
    let written = snapshot.catalog.caller_keys(id).iter();
    let mut keys: Vec<&Arc<Key>> = written.chain(&subjects).collect();
    keys.sort_unstable_by_key(|key| &key.id);
    let bounds = snapshot.bounds(keys.iter().copied());
    let mut bounds: Vec<Bound<'_>> = bounds
        .map(|(_, bound)| bound)
        .filter(|bound| bound.limit_amounts().next().is_some())
        .collect();
    bounds.sort_by(|a, b| a.scope.name.cmp(&b.scope.name));
    let (key_count, limit_count) = (keys.len(), bounds.len());
    keys.truncate(MAX_ENTRIES);
    bounds.truncate(MAX_ENTRIES);
    let shared_counts = match store {
        Some(store) => {
            let scopes: Vec<_> = bounds.iter().map(|bound| bound.scope.clone()).collect();
            tokio::time::timeout(STORE_TIMEOUT, store.total_counts(&scopes))
                .await
                .ok()
                .flatten()
        }
        None => None,
    };
    let counted = if shared_counts.is_some() {
        "all instances"
    } else {
        "this instance"
    };
    let counts = shared_counts.unwrap_or_else(|| {
        bounds
            .iter()
            .map(|bound| bound.scope.own_counts(now))
            .collect()
    });
    // A byte of the id takes at most six bytes in JSON: `\u0000`.
    let half = (MAX_ANSWER_BYTES - FRAME_BYTES).saturating_sub(id.len() * 6) / 2;
    let keys = take_fitting(keys.iter().map(|key| describe_key(&snapshot, key)), half);
    let reports = bounds
        .iter()
        .zip(&counts)
        .map(|(bound, counts)| limits::scope_report(bound, counts, now));
    let reports = take_fitting(reports, half);
    let (more_keys, more_limits) = (key_count - keys.len(), limit_count - reports.len());
    let page = json!({
        "id": id, "keys": keys, "more_keys": more_keys, "limits": reports, "more_limits": more_limits, "counted": counted,
    });
    Some(page.to_string())
}

/// Describes a key; never its secret or its hash.
fn describe_key(snapshot: &Snapshot, key: &Key) -> Value {
    let expires = [key.expires, key.caller.expires]
        .into_iter()
        .flatten()
        .min()
        .map(format_system_time);
    json!({
        "id": key.id,
        "enabled": key.enabled && key.caller.enabled,
        "expires": expires,
        "last_used": snapshot.key_scopes(key).and_then(|scopes| scopes.last_used.last_used_at()).map(format_time),
        "models": model_globs(&key.permissions),
    })
}

/// Lists the globs over the models that a key may use, the narrower ones if both the key and its
/// caller have some. Returns `None` for all models.
fn model_globs(permissions: &Permissions) -> Option<Vec<String>> {
    let narrower = [&permissions.of_key, &permissions.of_caller]
        .into_iter()
        .find(|globs| !globs.is_everything())?;
    let all = narrower.list();
    let mut some: Vec<String> = all
        .iter()
        .take(MAX_GLOBS)
        .map(|glob| (*glob).to_owned())
        .collect();
    if all.len() > MAX_GLOBS {
        some.push(format!("and {} more", all.len() - MAX_GLOBS));
    }
    Some(some)
}

/// Returns the first values that fit into this many bytes of JSON, with the commas between them.
fn take_fitting(values: impl Iterator<Item = Value>, mut room: usize) -> Vec<Value> {
    let fitting = values.take_while(|value| {
        let size = value.to_string().len() + 1;
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    fitting.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::globs::Globs;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_fits_is_a_beginning_within_the_room(
            texts in prop::collection::vec(".{0,40}", 0..40), room in 0_usize..2_000,
        ) {
            let all: Vec<Value> = texts.into_iter().map(Value::from).collect();
            let some = take_fitting(all.iter().cloned(), room);
            prop_assert!(all.starts_with(&some));
            let bytes = |values: &[Value]| values.iter().map(|value| value.to_string().len() + 1).sum::<usize>();
            prop_assert!(bytes(&some) <= room);
            prop_assert!(some.len() == all.len() || bytes(&all[..=some.len()]) > room);
        }
    }

    #[test]
    fn the_narrower_models_are_told() {
        let globs = |globs: &[&str]| Globs::new(globs.iter().map(|glob| Arc::from(*glob)));
        let of = |of_caller: &[&str], of_key: &[&str]| {
            model_globs(&Permissions {
                index: 0,
                of_caller: globs(of_caller),
                of_key: globs(of_key),
            })
        };
        assert_eq!(of(&["*"], &["*"]), None);
        assert_eq!(
            of(&["a*", "b"], &["*"]),
            Some(vec!["b".to_owned(), "a*".to_owned()])
        );
        assert_eq!(of(&["a*"], &["ab"]), Some(vec!["ab".to_owned()]));
        assert_eq!(of(&["a*"], &[]), Some(vec![]));
        let many: Vec<String> = (0..30).map(|n| format!("m{n:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(of(&many, &["*"]).unwrap().last().unwrap(), "and 10 more");
    }
}
