//! `portcullis key list` prints all keys, and whether each works.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::state::{KeyState, expiry_time};
use super::{KeyEntry, catalog_time};
use crate::{ListKeysArgs, print_error, print_result};
use portcullis::base::problem::no_such;
use portcullis::base::table::format_columns;
use portcullis::catalog::Key;
use portcullis::catalog::amend::{Files, KeyPlace};
use portcullis::catalog::load::{Secrets, read_server};
use portcullis::ledger;

pub(super) fn run(args: &ListKeysArgs, now: SystemTime) -> Result<ExitCode, String> {
    let conf = args.conf.folder();
    let files = Files::read(&conf)?;
    if let Some(caller) = &args.caller {
        let known = files.catalog().callers().iter().map(|entry| &*entry.id);
        if known.clone().all(|id| id != caller) {
            return Err(format!("--caller: {}", no_such("caller", caller, known)));
        }
    }
    let last_uses = last_uses_or_note(&conf);
    let places: HashMap<String, KeyPlace> = files.key_places().into_iter().collect();
    let rows = KeyEntry::all(&files).into_iter().filter(|entry| {
        args.caller
            .as_ref()
            .is_none_or(|caller| *entry.key.caller.id == **caller)
    });
    let rows: Vec<ListedKey<'_>> = rows
        .map(|entry| {
            let location = places.get(&*entry.key.id).copied();
            let last_use = last_uses.get(&*entry.key.id);
            let last_use = last_use.map(|used_at| catalog_time(*used_at));
            ListedKey::new(&files, &entry, location, last_use, now)
        })
        .collect();
    Ok(print_result(&if args.json {
        format!(
            "{:#}\n",
            json!(rows.iter().map(ListedKey::json).collect::<Vec<_>>())
        )
    } else {
        human_table(&rows)
    }))
}

/// A row of the list: one key.
pub(super) struct ListedKey<'f> {
    key: &'f Key,
    state: KeyState,
    expires: Option<String>,
    location: Option<(String, usize)>,
    last_use: Option<String>,
}

impl<'f> ListedKey<'f> {
    pub(super) fn new(
        files: &Files,
        entry: &KeyEntry<'f>,
        location: Option<KeyPlace>,
        last_use: Option<String>,
        now: SystemTime,
    ) -> ListedKey<'f> {
        ListedKey {
            state: KeyState::at_time(entry, now),
            expires: expiry_time(entry).map(catalog_time),
            location: location.map(|location| (files.name(location.file), location.line)),
            last_use,
            key: entry.key,
        }
    }

    /// Writes the row for machines.
    pub(super) fn json(&self) -> Map<String, Value> {
        let ListedKey {
            key,
            state,
            expires,
            location,
            last_use,
        } = self;
        let fields = [
            ("id", json!(key.id)),
            ("caller", json!(key.caller.id)),
            ("state", json!(state.name())),
            (
                "rotating_until",
                json!(if let KeyState::Rotating(until) = state {
                    Some(catalog_time(*until))
                } else {
                    None
                }),
            ),
            ("expires", json!(expires)),
            ("models", json!(key.permissions.of_key.list())),
            ("caller_models", json!(key.permissions.of_caller.list())),
            ("file", json!(location.as_ref().map(|(file, _)| file))),
            ("line", json!(location.as_ref().map(|(_, line)| line))),
            ("last_used", json!(last_use)),
        ];
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

fn human_table(rows: &[ListedKey<'_>]) -> String {
    let head = ["KEY", "STATE", "EXPIRES", "MODELS", "LAST USED", "FILE"].map(str::to_owned);
    let rows = rows.iter().map(
        |ListedKey {
             key,
             state,
             expires,
             location,
             last_use,
         }| {
            let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let location = location
                .as_ref()
                .map(|(file, line)| format!("{file}:{line}"))
                .unwrap_or_default();
            [
                key.id.to_string(),
                state.text(),
                or_dash(expires),
                models_text(key),
                or_dash(last_use),
                location,
            ]
        },
    );
    let left_aligned = head.len();
    format_columns(std::iter::once(head).chain(rows), left_aligned)
}

/// Writes the globs of a key, or those of its caller if the key's are `*`.
fn models_text(key: &Key) -> String {
    let own = &key.permissions.of_key;
    let shown = if own.list() == ["*"] {
        &key.permissions.of_caller
    } else {
        own
    };
    // It is written as `[a, b]`.
    let text = shown.to_string();
    text.strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .filter(|text| !text.is_empty())
        .unwrap_or("none")
        .to_owned()
}

/// Reads from the ledger the time at which each key was last used. If the ledger cannot be read, a
/// note says so.
pub(super) fn last_uses_or_note(conf: &Path) -> HashMap<String, SystemTime> {
    let uses = read_last_uses(conf).unwrap_or_else(|why| {
        print_error(&format!(
            "note: the times when keys were last used are unknown: {why}"
        ));
        HashMap::new()
    });
    uses.into_iter()
        .map(|(id, used_at)| (id, SystemTime::UNIX_EPOCH + Duration::from_millis(used_at)))
        .collect()
}

fn read_last_uses(conf: &Path) -> Result<HashMap<String, u64>, String> {
    let ledger = read_server(conf, Secrets::StandIns)
        .map_err(|problems| problems.to_string())?
        .ledger;
    if matches!(ledger.path.try_exists(), Ok(false)) {
        return Err(format!("there is no ledger at {}", ledger.path.display()));
    }
    ledger::read::last_used(&ledger.path)
}
