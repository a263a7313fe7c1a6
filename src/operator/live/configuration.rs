//! What the page says of the catalog that is served, and of what is not.

use super::{LivePage, json, short};
use crate::base::calendar::rfc3339;
use crate::live::{ReloadStatus, Snapshot};
use crate::settled::millis;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// The most texts of a list, and the most characters of each.
const TEXTS: usize = 20;
const LONGEST: usize = 300;
/// The most bytes of a list.
const BYTES: usize = 2_000;

#[derive(Serialize)]
struct Configuration {
    generation: u64,
    loaded: String,
    hash: String,
    folder: Option<String>,
    accounts: usize,
    models: usize,
    callers: usize,
    keys: usize,
    refusal: Option<ShownRefusal>,
    held: Option<String>,
    waiting: Option<ShownChange>,
    warnings: Vec<String>,
    more_warnings: usize,
}

#[derive(Serialize)]
struct ShownRefusal {
    time: String,
    reasons: Vec<String>,
    standing: bool,
    withheld: Vec<String>,
}

#[derive(Serialize)]
struct ShownChange {
    files: Vec<String>,
    for_ms: u64,
}

/// Writes the section.
pub(super) fn section(page: &LivePage, snapshot: &Snapshot, now: Instant) -> String {
    let (reloads, served) = (&page.books.live.reloads, &snapshot.catalog);
    let ReloadStatus { refused, held } = reloads.status();
    let folder = reloads.folder();
    let name = |path: &Path| {
        let within = folder.and_then(|folder| path.strip_prefix(folder).ok());
        within.unwrap_or(path).display().to_string()
    };
    let refusal = refused.map(|refused| ShownRefusal {
        time: rfc3339(refused.at),
        reasons: some(refused.reasons.into_iter()),
        standing: refused.standing,
        withheld: some(refused.withheld.iter().map(|path| name(path))),
    });
    let waiting = reloads.waiting(now).map(|waiting| ShownChange {
        files: some(waiting.files.iter().map(|path| name(path))),
        for_ms: millis(now.saturating_duration_since(waiting.since)),
    });
    let warnings = some(served.warnings.iter().map(ToString::to_string));
    let configuration = Configuration {
        generation: snapshot.generation,
        loaded: rfc3339(snapshot.loaded),
        hash: snapshot
            .marks(page.backends.server.admin.is_guarded())
            .hash
            .clone(),
        folder: folder.map(|folder| short(&folder.display().to_string(), LONGEST)),
        accounts: served.accounts().len(),
        models: served.models().len(),
        callers: served.callers().len(),
        keys: served.key_count(),
        refusal,
        held: held.map(|held| short(&held, LONGEST)),
        waiting,
        more_warnings: served.warnings.len() - warnings.len(),
        warnings,
    };
    format!(",\"configuration\":{}", json(&configuration))
}

/// Returns the first texts, each cut, as long as they are few bytes when they are written.
fn some(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut room = BYTES;
    let fits = |text: &String| {
        let bytes = json(text).len();
        let fits = bytes <= room;
        room = room.saturating_sub(bytes);
        fits
    };
    texts
        .take(TEXTS)
        .map(|text| short(&text, LONGEST))
        .take_while(fits)
        .collect()
}
