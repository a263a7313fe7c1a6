//! `portcullis key …`: keys in daily life. They stand in the catalog's files, and are changed
//! there, where a running gateway finds them.
//!
//! **Invariant:** a secret is printed once, alone on standard output, and stored nowhere; all else
//! that is said goes beside it.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use super::{KeyCommand, fail};
use crate::calendar::{DAY, rfc3339};
use crate::catalog::amend::{Files, Place};
use crate::catalog::{Key, name};
use crate::problem::{nearest, quoted};
use crate::units::{Span, Time};
use crate::yaml::Step;

mod change;
mod delete;
mod list;
mod new;
mod rotate;
mod running;
mod secret;
mod show;
mod standing;

/// Does it.
pub(super) fn run(command: &KeyCommand) -> ExitCode {
    let now = SystemTime::now();
    let done = match command {
        KeyCommand::New(args) => new::run(args, now),
        KeyCommand::List(args) => list::run(args, now),
        KeyCommand::Show(args) => show::run(args, now),
        KeyCommand::Disable(args) => change::enabled(args, false, now),
        KeyCommand::Enable(args) => change::enabled(args, true, now),
        KeyCommand::Expire(args) => change::expire(args, now),
        KeyCommand::Rotate(args) => rotate::run(args, now),
        KeyCommand::Delete(args) => delete::run(args),
        KeyCommand::Hash => return secret::hash(),
    };
    done.unwrap_or_else(|why| fail(&why))
}

/// A key's name in the catalog: `acme/prod`.
#[derive(Clone, Copy)]
struct Id<'a> {
    whole: &'a str,
    caller: &'a str,
    name: &'a str,
}

impl<'a> Id<'a> {
    fn of(text: &'a str) -> Result<Self, String> {
        let parts = text
            .split_once('/')
            .filter(|(caller, name)| name::of_entry(caller).is_ok() && name::of_entry(name).is_ok());
        // What stands there may be the secret.
        let (caller, name) = parts
            .ok_or("this is no key's id: it is the name that logs carry, such as acme/prod, and never the secret")?;
        Ok(Self { whole: text, caller, name })
    }

    /// Where it stands in a file.
    fn path(self) -> Vec<Step<'a>> {
        ["callers", self.caller, "keys", self.name].map(Step::Key).to_vec()
    }

    /// Where something of it stands.
    fn field(self, field: &'a str) -> Vec<Step<'a>> {
        let mut path = self.path();
        path.push(Step::Key(field));
        path
    }

    /// The key, with its secrets' hashes and until when they are good.
    fn find(self, files: &Files) -> Result<Known<'_>, String> {
        let secrets: Vec<_> = files.catalog().secrets().filter(|(_, key, _)| *key.id == *self.whole).collect();
        match secrets.first() {
            Some((_, key, _)) => {
                Ok(Known { key, secrets: secrets.iter().map(|(digest, _, until)| (*digest, *until)).collect() })
            }
            None => {
                let known = || files.catalog().keys().map(|key| &*key.id);
                let hint = nearest(self.whole, known()).map(|meant| format!("did you mean {meant}?"));
                let hint = hint.unwrap_or_else(|| "`portcullis key list` shows them".to_owned());
                Err(match quoted(self.whole, known()) {
                    Some(_) => format!("there is no key {}; {hint}", self.whole),
                    None => format!("there is no such key; {hint}"),
                })
            }
        }
    }
}

/// A key of the catalog, whether it may be used or not.
struct Known<'c> {
    key: &'c Key,
    secrets: Vec<(&'c [u8; 32], Option<SystemTime>)>,
}

/// `conf/catalog.d/keys-acme.yaml:4`
fn place(files: &Files, place: Place) -> String {
    format!("{}:{}", files.name(place.file), place.line)
}

/// A time as the catalog has it: to the second.
fn stamp(time: SystemTime) -> String {
    let text = rfc3339(time);
    text.split_once('.').map_or_else(|| text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// A point in time that is written on the command line.
pub(super) fn time(text: &str) -> Result<SystemTime, String> {
    text.parse::<Time>().map(Time::system)
}

/// A length of time that is written on the command line: as in the catalog, and in days, up to a
/// hundred years.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let wrong = "must be a length of time with its unit (s, m, h or d), such as 24h or 90d";
    let Some(days) = text.strip_suffix('d') else {
        let Span(span) = text.parse::<Span>().map_err(|_| format!("{wrong}, and more than 168h in days"))?;
        return Ok(span);
    };
    let digits = !days.is_empty() && days.bytes().all(|b| b.is_ascii_digit());
    let days = days.parse::<u64>().ok().filter(|days| digits && *days <= 36_500);
    days.map(|days| Duration::from_millis(days * DAY)).ok_or_else(|| format!("{wrong}, and at most 36500d"))
}

/// So long from now, to the next whole second.
fn ahead(now: SystemTime, span: Duration) -> SystemTime {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + span;
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs() + u64::from(since.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests;
