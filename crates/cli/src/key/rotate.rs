//! `portcullis key rotate` gives a key another secret. The old ones work for a while longer.

use std::process::ExitCode;
use std::time::SystemTime;

use super::new::show_once;
use super::secret::NewSecret;
use super::state::KeyState;
use super::{Id, catalog_time, change_file, lock_files, parse_time, show_location, time_after};
use crate::{RotateKeyArgs, print_error};
use portcullis::catalog::amend::Files;
use portcullis::conf::yaml::edit::{Change, New};
use portcullis::conf::yaml::{Node, Step, Value};

/// The secrets of a key, as they are written.
enum Hashes {
    One(String),
    /// Several secrets: for each, the time until which it works.
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
    let until = (!args.overlap.is_zero()).then(|| time_after(now, args.overlap));
    let by_hand = format!(
        "write several `hashes` for {}, {location_text}; `portcullis key new --print` makes a secret",
        id.whole
    );
    change_file(
        &mut files,
        location.file,
        &rotation_changes(id, &hashes, &secret, until, now),
        &by_hand,
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
    let ends = known
        .secrets
        .iter()
        .filter_map(|(_, until)| *until)
        .filter(|until| *until > now)
        .max();
    let old = ends.map_or_else(
        || "no older secret works any more".to_owned(),
        |until| format!("the old secret works until {}", catalog_time(until)),
    );
    if let Some(hinders) = KeyState::at_time(&known, now).why_not() {
        print_error(&format!("{} does not work: {hinders}", id.whole));
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

/// Returns the changes to make. `until` is the end of those secrets that have none yet; `None` ends
/// all old secrets now.
fn rotation_changes<'a>(
    id: Id<'a>,
    hashes: &Hashes,
    secret: &NewSecret,
    until: Option<SystemTime>,
    now: SystemTime,
) -> Vec<Change<'a>> {
    let item = || New::map([("hash", New::text(&secret.hash))]).noted(&secret.note);
    match (hashes, until) {
        (Hashes::One(_), None) => vec![Change::Set(id.field("hash"), secret.value())],
        (Hashes::One(old), Some(until)) => {
            let old = New::map([
                ("hash", New::text(old)),
                ("until", New::text(catalog_time(until))),
            ]);
            vec![Change::Split(id.field("hash"), "hashes", [old, item()])]
        }
        (Hashes::Several(ends), until) => {
            let path_of = |index: usize| [id.field("hashes"), vec![Step::Index(index)]].concat();
            let mut changes = Vec::new();
            if let Some(until) = until {
                let open = ends.iter().enumerate().filter(|(_, end)| end.is_none());
                changes.extend(open.map(|(index, _)| {
                    Change::Set(
                        [path_of(index), vec![Step::Key("until")]].concat(),
                        New::text(catalog_time(until)),
                    )
                }));
            }
            changes.push(Change::Push(id.field("hashes"), item()));
            let gone = ends
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, end)| until.is_none() || end.is_some_and(|end| end <= now));
            changes.extend(gone.map(|(index, _)| Change::Remove(path_of(index))));
            changes
        }
    }
}

#[cfg(test)]
mod tests;
