//! `portcullis key rotate` gives a key another secret. The old secrets work for `--overlap`
//! longer.

use std::process::ExitCode;
use std::time::SystemTime;

use super::new::show_once;
use super::secret::NewSecret;
use super::state::KeyState;
use super::{Id, catalog_time, change_file, lock_files, parse_time, show_location, time_after};
use crate::{RotateKeyArgs, print_error};
use portcullis::catalog::amend::Files;
use portcullis::conf::yaml::edit::{Change, NewValue};
use portcullis::conf::yaml::{Node, Step, Value};

/// The hashes of a key in its file, in one of the two notations.
enum Hashes {
    /// `hash`, with one hash.
    One(String),
    /// `hashes`: for each of the hashes, the end of its secret, if it has one.
    Several(Vec<Option<SystemTime>>),
}

pub(super) fn run(args: &RotateKeyArgs, now: SystemTime) -> Result<ExitCode, String> {
    let (id, mut files) = lock_files(&args.key)?;
    id.find(&files)?;
    let (location, hashes) = files
        .written_key(id.caller, id.name, read_hashes)
        .ok_or_else(|| format!("no file has the key {}", id.whole))?;
    let location_text = show_location(&files, location);
    let Some(hashes) = hashes else {
        return Err(format!("{location_text}: {} has no hash", id.whole));
    };
    let secret = NewSecret::make()?;
    let old_until = (!args.overlap.is_zero()).then(|| time_after(now, args.overlap));
    let manual_remedy = format!(
        "write several `hashes` for {}, {location_text}; `portcullis key new --print` makes a secret",
        id.whole
    );
    change_file(
        &mut files,
        location.file,
        &rotation_changes(id, &hashes, &secret, old_until, now),
        &manual_remedy,
    )?;
    print_overlap(&files, id, now)?;
    Ok(show_once(
        &secret.text,
        &mut files,
        Some(location.file),
        "nothing was changed",
    ))
}

/// Prints the time until which the old secrets work.
fn print_overlap(files: &Files, id: Id<'_>, now: SystemTime) -> Result<(), String> {
    let known = id.find(files)?;
    let last_end = known
        .secrets
        .iter()
        .filter_map(|(_, until)| *until)
        .filter(|until| *until > now)
        .max();
    let old = last_end.map_or_else(
        || "no older secret works any more".to_owned(),
        |until| format!("the old secret works until {}", catalog_time(until)),
    );
    if let Some(reason) = KeyState::at_time(&known, now).why_not() {
        print_error(&format!("{} does not work: {reason}", id.whole));
    }
    print_error(&format!(
        "{} has a new secret in the files. When the new secret is in effect, {old}. The new secret is shown only now, and stored nowhere:",
        id.whole
    ));
    Ok(())
}

/// Reads the secrets of a key.
fn read_hashes(key: &Node<'_>) -> Option<Hashes> {
    if let Some(hash) = find_field(key, "hash") {
        return node_text(hash).map(Hashes::One);
    }
    let Value::List(items) = &find_field(key, "hashes")?.value else {
        return None;
    };
    Some(Hashes::Several(
        items
            .iter()
            .map(|item| parse_time(&node_text(find_field(item, "until")?)?).ok())
            .collect(),
    ))
}

fn find_field<'n, 't>(node: &'n Node<'t>, name: &str) -> Option<&'n Node<'t>> {
    let Value::Map(entries) = &node.value else {
        return None;
    };
    entries
        .iter()
        .find(|entry| entry.key == name)
        .map(|entry| &entry.node)
}

fn node_text(node: &Node<'_>) -> Option<String> {
    match &node.value {
        Value::Plain(text) | Value::Quoted(text) => Some(text.to_string()),
        Value::List(_) | Value::Map(_) => None,
    }
}

/// Returns the changes to make. The old secrets without an end get `old_until`. If that is `None`,
/// all old secrets are removed.
fn rotation_changes<'a>(
    id: Id<'a>,
    hashes: &Hashes,
    secret: &NewSecret,
    old_until: Option<SystemTime>,
    now: SystemTime,
) -> Vec<Change<'a>> {
    let new_item = || NewValue::map([("hash", NewValue::text(&secret.hash))]).noted(&secret.note);
    match (hashes, old_until) {
        (Hashes::One(_), None) => vec![Change::Set(id.field("hash"), secret.value())],
        (Hashes::One(old), Some(until)) => {
            let old = NewValue::map([
                ("hash", NewValue::text(old)),
                ("until", NewValue::text(catalog_time(until))),
            ]);
            // `hash` becomes `hashes` with two entries.
            vec![Change::Split(id.field("hash"), "hashes", [old, new_item()])]
        }
        (Hashes::Several(ends), old_until) => {
            let path_of = |index: usize| [id.field("hashes"), vec![Step::Index(index)]].concat();
            let mut changes = Vec::new();
            if let Some(until) = old_until {
                let endless = ends.iter().enumerate().filter(|(_, end)| end.is_none());
                changes.extend(endless.map(|(index, _)| {
                    Change::Set(
                        [path_of(index), vec![Step::Key("until")]].concat(),
                        NewValue::text(catalog_time(until)),
                    )
                }));
            }
            changes.push(Change::Push(id.field("hashes"), new_item()));
            // From the last to the first, so that the other indices stay right.
            let ended = ends
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, end)| old_until.is_none() || end.is_some_and(|end| end <= now));
            changes.extend(ended.map(|(index, _)| Change::Remove(path_of(index))));
            changes
        }
    }
}

#[cfg(test)]
mod tests;
