//! `portcullis key …` makes, lists and changes keys. It changes them in the catalog's files, where
//! a running gateway finds them.
//!
//! **Invariant:** a secret is printed once, alone on standard output, and stored nowhere.
//! Everything else goes to standard error.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use super::{KeyArgs, KeyCommand};
use portcullis::base::calendar::{DAY, format_system_time, unix_time};
use portcullis::base::problem::no_such_or_advice;
use portcullis::base::units::{Span, Time, number_and_unit};
use portcullis::catalog::amend::{Files, KeyPlace};
use portcullis::catalog::{Key, name};
use portcullis::conf::yaml::Step;
use portcullis::conf::yaml::edit::Change;

mod change;
mod delete;
mod list;
mod new;
mod rotate;
pub(super) mod running;
pub(super) mod secret;
mod show;
mod state;

/// Runs one of the `key` commands.
pub(super) fn run(command: &KeyCommand) -> Result<ExitCode, String> {
    let now = SystemTime::now();
    match command {
        KeyCommand::New(args) => new::run(args, now),
        KeyCommand::List(args) => list::run(args, now),
        KeyCommand::Show(args) => show::run(args, now),
        KeyCommand::Disable(args) => change::set_enabled(args, false, now),
        KeyCommand::Enable(args) => change::set_enabled(args, true, now),
        KeyCommand::Expire(args) => change::set_expiry(args, now),
        KeyCommand::Rotate(args) => rotate::run(args, now),
        KeyCommand::Delete(args) => delete::run(args),
        KeyCommand::Hash => secret::print_hash(),
    }
}

/// Locks the files in which a key is to be changed.
fn lock_files(args: &KeyArgs) -> Result<(Id<'_>, Files), String> {
    Ok((Id::parse(&args.key)?, Files::lock(&args.conf.folder())?))
}

/// Changes a file. The error says how to do the same by hand.
fn change_file(
    files: &mut Files,
    file: usize,
    changes: &[Change<'_>],
    by_hand: &str,
) -> Result<(), String> {
    let changed = files.change(file, changes);
    changed
        .map(drop)
        .map_err(|why| format!("{why}\nNothing was changed. Make the change by hand: {by_hand}"))
}

/// A key's id in the catalog: `acme/prod`.
#[derive(Clone, Copy)]
pub(super) struct Id<'a> {
    whole: &'a str,
    caller: &'a str,
    name: &'a str,
}

impl<'a> Id<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let parts = text.split_once('/').filter(|(caller, name)| {
            name::of_entry(caller).is_ok() && name::of_entry(name).is_ok()
        });
        // The text is not repeated: it may be the secret.
        let (caller, name) = parts.ok_or(
            "this is not the id of a key: write the name that the logs show, such as acme/prod, and never the secret",
        )?;
        Ok(Self {
            whole: text,
            caller,
            name,
        })
    }

    /// Returns the path of the key in a file.
    fn path(self) -> Vec<Step<'a>> {
        ["callers", self.caller, "keys", self.name]
            .map(Step::Key)
            .to_vec()
    }

    /// Returns the path of a field of the key.
    fn field(self, field: &'a str) -> Vec<Step<'a>> {
        [self.path(), vec![Step::Key(field)]].concat()
    }

    /// Returns the place of the key in the files.
    fn location(self, files: &Files) -> Result<KeyPlace, String> {
        files
            .key_place(self.caller, self.name)
            .ok_or_else(|| format!("no file has the key {}", self.whole))
    }

    /// Finds the key in the catalog.
    fn find(self, files: &Files) -> Result<KeyEntry<'_>, String> {
        let catalog = files.catalog();
        let key = catalog.key(self.whole).ok_or_else(|| {
            let known = catalog.keys().map(|key| &*key.id);
            no_such_or_advice(
                "key",
                self.whole,
                known,
                "; `portcullis key list` lists all keys",
            )
        })?;
        let secrets = catalog
            .secrets()
            .filter(|(_, known, _)| known.index == key.index);
        Ok(KeyEntry {
            key,
            secrets: secrets.map(|(digest, _, until)| (digest, until)).collect(),
        })
    }
}

/// A key of the catalog, whether it works or not. Each of its secrets is the hash and the time
/// until which it works.
struct KeyEntry<'c> {
    key: &'c Key,
    secrets: Vec<(&'c [u8; 32], Option<SystemTime>)>,
}

impl<'c> KeyEntry<'c> {
    /// Lists all keys, sorted by their ids.
    fn all(files: &'c Files) -> Vec<KeyEntry<'c>> {
        let mut secrets: Vec<_> = files.catalog().secrets().collect();
        secrets.sort_by_key(|(_, key, _)| &key.id);
        let same_key = secrets.chunk_by(|(_, one, _), (_, other, _)| one.id == other.id);
        let entries = same_key.filter_map(|secrets| {
            let (_, key, _) = secrets.first()?;
            let secrets = secrets.iter().map(|(digest, _, until)| (*digest, *until));
            Some(KeyEntry {
                key,
                secrets: secrets.collect(),
            })
        });
        entries.collect()
    }
}

/// Writes a place as `conf/catalog.d/keys-acme.yaml:4`.
fn show_location(files: &Files, place: KeyPlace) -> String {
    format!("{}:{}", files.name(place.file), place.line)
}

/// Writes a time as the catalog does: to the second.
fn catalog_time(time: SystemTime) -> String {
    let text = format_system_time(time);
    text.split_once('.')
        .map_or_else(|| text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// Reads a point in time from the command line.
pub(super) fn parse_time(text: &str) -> Result<SystemTime, String> {
    text.parse::<Time>().map(Time::system)
}

/// Reads a duration from the command line: as in the catalog, and also in days, up to a hundred
/// years.
pub(super) fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = "must be a length of time with its unit (s, m, h or d), such as 24h or 90d";
    if text.ends_with('d') {
        return number_and_unit(text, &[("d", DAY)], 36_500 * DAY)
            .map(Duration::from_millis)
            .map_err(|_| format!("{wrong}, and must be at most 36500d"));
    }
    text.parse::<Span>()
        .map(|Span(span)| span)
        .map_err(|_| format!("{wrong}, and more than 168h must be written in days"))
}

/// Returns the time after this span, at the next whole second.
fn time_after(now: SystemTime, span: Duration) -> SystemTime {
    let since = unix_time(now) + span;
    SystemTime::UNIX_EPOCH
        + Duration::from_secs(since.as_secs() + u64::from(since.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests;
