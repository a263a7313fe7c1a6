//! `portcullis key rotate` gives a key another secret. The old ones work for a while longer.

use std::process::ExitCode;
use std::time::SystemTime;

use super::new::once;
use super::secret::NewSecret;
use super::state::KeyState;
use super::{Id, ahead, change, lock, place, stamp, time};
use crate::{RotateKeyArgs, tell};
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
    let (id, mut files) = lock(&args.key)?;
    id.find(&files)?;
    let (at, hashes) = files
        .written(id.caller, id.name, written)
        .ok_or_else(|| format!("no file has the key {}", id.whole))?;
    let at_place = place(&files, at);
    let Some(hashes) = hashes else {
        return Err(format!("{at_place}: {} has no hash", id.whole));
    };
    let secret = NewSecret::make()?;
    let until = (!args.overlap.is_zero()).then(|| ahead(now, args.overlap));
    let by_hand = format!(
        "write several `hashes` for {}, {at_place}; `portcullis key new --print` makes a secret",
        id.whole
    );
    change(
        &mut files,
        at.file,
        &changes(id, &hashes, &secret, until, now),
        &by_hand,
    )?;
    say(&files, id, now)?;
    Ok(once(
        &secret.text,
        &mut files,
        Some(at.file),
        "nothing was changed",
    ))
}

/// Prints the time until which the old secrets work.
fn say(files: &Files, id: Id<'_>, now: SystemTime) -> Result<(), String> {
    let known = id.find(files)?;
    let ends = known
        .secrets
        .iter()
        .filter_map(|(_, until)| *until)
        .filter(|until| *until > now)
        .max();
    let old = ends.map_or_else(
        || "no older secret works any more".to_owned(),
        |until| format!("the old secret works until {}", stamp(until)),
    );
    if let Some(hinders) = KeyState::of(&known, now).hinders() {
        tell(&format!("{} does not work: {hinders}", id.whole));
    }
    tell(&format!(
        "{} has a new secret in the files. When the new secret is in effect, {old}. The new secret is shown only now, and stored nowhere:",
        id.whole
    ));
    Ok(())
}

/// Reads the secrets of a key.
fn written(key: &Node<'_>) -> Option<Hashes> {
    if let Some(hash) = field(key, "hash") {
        return text(hash).map(Hashes::One);
    }
    let Value::List(items) = &field(key, "hashes")?.value else {
        return None;
    };
    Some(Hashes::Several(
        items
            .iter()
            .map(|item| time(&text(field(item, "until")?)?).ok())
            .collect(),
    ))
}

fn field<'n, 't>(node: &'n Node<'t>, name: &str) -> Option<&'n Node<'t>> {
    let Value::Map(entries) = &node.value else {
        return None;
    };
    entries
        .iter()
        .find(|entry| entry.key == name)
        .map(|entry| &entry.node)
}

fn text(node: &Node<'_>) -> Option<String> {
    match &node.value {
        Value::Plain(text) | Value::Quoted(text) => Some(text.to_string()),
        Value::List(_) | Value::Map(_) => None,
    }
}

/// Returns the changes to make. `until` is the end of those secrets that have none yet; `None` ends
/// all old secrets now.
fn changes<'a>(
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
            let old = New::map([("hash", New::text(old)), ("until", New::text(stamp(until)))]);
            vec![Change::Split(id.field("hash"), "hashes", [old, item()])]
        }
        (Hashes::Several(ends), until) => {
            let at = |index: usize| [id.field("hashes"), vec![Step::Index(index)]].concat();
            let mut changes = Vec::new();
            if let Some(until) = until {
                let open = ends.iter().enumerate().filter(|(_, end)| end.is_none());
                changes.extend(open.map(|(index, _)| {
                    Change::Set(
                        [at(index), vec![Step::Key("until")]].concat(),
                        New::text(stamp(until)),
                    )
                }));
            }
            changes.push(Change::Push(id.field("hashes"), item()));
            let gone = ends
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, end)| until.is_none() || end.is_some_and(|end| end <= now));
            changes.extend(gone.map(|(index, _)| Change::Remove(at(index))));
            changes
        }
    }
}

#[cfg(test)]
mod tests;
