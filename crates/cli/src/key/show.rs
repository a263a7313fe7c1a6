//! `portcullis key show` prints everything about one key, and never its secret.

use dialects::wire::shorten_text;
use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::list::{ListedKey, last_uses_or_note};
use super::state::{KeyState, expiry_time};
use super::{Id, KeyEntry, catalog_time, show_location};
use crate::{ShowKeyArgs, print_result};
use portcullis::catalog::amend::Files;
use portcullis::catalog::raw::Digest;
use portcullis::catalog::{Key, Model};
use portcullis::limits::{Bound, KeyScopes};

/// The length of the part of a hash that is shown; it is enough to recognise the hash.
const SHORT: usize = "sha256:".len() + 8;

pub(super) fn run(args: &ShowKeyArgs, now: SystemTime) -> Result<ExitCode, String> {
    let id = Id::parse(&args.key.key)?;
    let conf = args.key.conf.folder();
    let files = Files::read(&conf)?;
    let mut entry = id.find(&files)?;
    // Secrets that end come first, by their ends.
    entry
        .secrets
        .sort_by_key(|(_, until)| (until.is_none(), *until));
    let location = id.location(&files).ok();
    let last_use = last_uses_or_note(&conf)
        .get(id.whole)
        .map(|used_at| catalog_time(*used_at));
    let scopes = KeyScopes::unused(files.catalog());
    let bounds: Vec<Bound<'_>> = scopes
        .get(entry.key.index)
        .into_iter()
        .flat_map(|scopes| scopes.every(entry.key))
        .collect();
    if args.json {
        let row = ListedKey::new(&files, &entry, location, last_use, now);
        return Ok(print_result(&format!(
            "{:#}\n",
            to_json(&files, &entry, &row, &bounds)
        )));
    }
    let location_text = location
        .map(|location| show_location(&files, location))
        .unwrap_or_default();
    let first = [
        ("key", id.whole.to_owned()),
        ("file", location_text),
        ("last used", last_use.unwrap_or_else(|| "-".to_owned())),
    ];
    let lines = text_lines(&files, &entry, &bounds, now);
    let text: String = first
        .into_iter()
        .chain(lines)
        .map(|(label, content)| format!("{:<12}{content}\n", format!("{label}:")))
        .collect();
    Ok(print_result(&text))
}

/// Writes for machines all columns of `key list`, and more.
fn to_json(
    files: &Files,
    entry: &KeyEntry<'_>,
    row: &ListedKey<'_>,
    bounds: &[Bound<'_>],
) -> Value {
    let (key, mut fields) = (entry.key, row.json());
    let hashes = entry.secrets.iter().map(
        |(digest, until)| json!({ "hash": short_hash(digest), "until": until.map(catalog_time) }),
    );
    let rest = [
        ("hashes", Value::Array(hashes.collect())),
        (
            "sees",
            json!(
                visible_models(files, key)
                    .map(|model| &*model.id)
                    .collect::<Vec<_>>()
            ),
        ),
        (
            "limits",
            json!(bounds.iter().map(Bound::json).collect::<Vec<_>>()),
        ),
        (
            "allow_ips",
            json!(
                key.allow_ips
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
            ),
        ),
        ("debug", json!(key.debug)),
    ];
    fields.extend(rest.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(fields)
}

/// Lists the models that the key may ask for.
fn visible_models<'f>(files: &'f Files, key: &Key) -> impl Iterator<Item = &'f Model> {
    let models = files.catalog().models().iter().map(|model| &**model);
    models.filter(|model| key.permissions.allow(&model.id) && model.has_enabled_account())
}

/// Writes a hash in short, such as `sha256:04040404…`.
fn short_hash(digest: &[u8; 32]) -> String {
    let hash = shorten_text(&Digest(*digest).to_string(), SHORT);
    format!("{hash}…")
}

fn text_lines(
    files: &Files,
    entry: &KeyEntry<'_>,
    bounds: &[Bound<'_>],
    now: SystemTime,
) -> Vec<(&'static str, String)> {
    let (key, catalog) = (entry.key, files.catalog());
    let mut lines = vec![("state", KeyState::at_time(entry, now).text())];
    lines.push((
        "expires",
        expiry_time(entry).map_or_else(|| "never".to_owned(), catalog_time),
    ));
    for (digest, until) in &entry.secrets {
        let until = match until {
            Some(until) if *until <= now => format!(", expired at {}", catalog_time(*until)),
            Some(until) => format!(", until {}", catalog_time(*until)),
            None => String::new(),
        };
        lines.push(("hash", format!("{}{until}", short_hash(digest))));
    }
    let visible = visible_models(files, key).count();
    lines.push((
        "models",
        format!(
            "{}, within its caller's {}: the key may use {visible} of {} models",
            &key.permissions.of_key,
            &key.permissions.of_caller,
            catalog.models().len()
        ),
    ));
    lines.extend(bounds.iter().map(|bound| ("limits", bound.describe())));
    if !key.allow_ips.is_empty() {
        lines.push((
            "allow_ips",
            key.allow_ips
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        ));
    }
    if key.debug {
        lines.push(("debug", "answers show the trail of attempts".to_owned()));
    }
    lines
}
