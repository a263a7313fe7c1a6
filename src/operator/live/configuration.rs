//! The page's section about the catalog that is served, and about changes that are not.

use super::{LivePage, to_json};
use crate::base::calendar::format_system_time;
use crate::base::units::cut_text;
use crate::live::{ReloadStatus, Snapshot};
use crate::settled::whole_millis;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// The most texts of a list, and the most characters of each.
const MAX_TEXTS: usize = 20;
const MAX_CHARACTERS: usize = 300;
/// The most bytes of a list.
const MAX_BYTES: usize = 2_000;

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
    secrets: usize,
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
pub(super) fn configuration_section(page: &LivePage, snapshot: &Snapshot, now: Instant) -> String {
    let (reloads, served) = (&page.books.live.reloads, &snapshot.catalog);
    let ReloadStatus {
        refused,
        hold_reason: held,
    } = reloads.status();
    let folder = reloads.folder();
    let name = |path: &Path| file_name(folder, path);
    let refusal = refused.map(|refused| ShownRefusal {
        time: format_system_time(refused.refused_at),
        reasons: first_texts(refused.reasons.into_iter()),
        standing: refused.standing,
        withheld: first_texts(refused.withheld.iter().map(|path| name(path))),
    });
    let waiting = reloads.waiting(now).map(|waiting| ShownChange {
        files: first_texts(waiting.files.iter().map(|path| name(path))),
        for_ms: whole_millis(now.saturating_duration_since(waiting.since)),
    });
    let warnings = first_texts(served.warnings.iter().map(ToString::to_string));
    let configuration = Configuration {
        generation: snapshot.generation,
        loaded: format_system_time(snapshot.loaded),
        hash: snapshot
            .marks(page.backends.server.admin.is_guarded())
            .hash
            .clone(),
        folder: folder.map(|folder| cut_text(&folder.display().to_string(), MAX_CHARACTERS)),
        accounts: served.accounts().len(),
        models: served.models().len(),
        callers: served.callers().len(),
        keys: served.keys().len(),
        secrets: served.secret_count(),
        refusal,
        held: held.map(|held| cut_text(&held, MAX_CHARACTERS)),
        waiting,
        more_warnings: served.warnings.len() - warnings.len(),
        warnings,
    };
    format!(",\"configuration\":{}", to_json(&configuration))
}

/// Returns a file's name as the operator knows it.
fn file_name(folder: Option<&Path>, path: &Path) -> String {
    let within = folder.and_then(|folder| path.strip_prefix(folder).ok());
    within.unwrap_or(path).display().to_string()
}

/// Returns the first texts, each cut, as long as they are few bytes when they are written.
fn first_texts(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut room = MAX_BYTES;
    let texts = texts
        .take(MAX_TEXTS)
        .map(|text| cut_text(&text, MAX_CHARACTERS));
    let fitting = texts.take_while(|text| {
        let bytes = to_json(text).len();
        let fits = bytes <= room;
        room = room.saturating_sub(bytes);
        fits
    });
    fitting.collect()
}
