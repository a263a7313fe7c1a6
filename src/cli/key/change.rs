//! `portcullis key disable`, `enable` and `expire`: one field of a key.

use std::process::ExitCode;
use std::time::SystemTime;

use super::running::{self, Running};
use super::standing::Standing;
use super::{Id, ahead, place, stamp};
use crate::catalog::amend::Files;
use crate::catalog::load::folder;
use crate::cli::{ExpireKeyArgs, KeyArgs, fail, print, tell};
use crate::yaml::edit::{Change, New};

/// Switches a key on or off.
pub(super) fn enabled(args: &KeyArgs, wanted: bool, now: SystemTime) -> Result<ExitCode, String> {
    let id = Id::of(&args.key)?;
    let mut files = Files::lock(&folder(args.conf.conf.as_deref()))?;
    let state = if wanted { "enabled" } else { "disabled" };
    if id.find(&files)?.key.enabled == wanted {
        return Ok(already(&mut files, id, &format!("is {state}")));
    }
    let change = Change::Set(id.field("enabled"), New::Bool(wanted));
    done(&mut files, id, &change, &format!("`enabled: {wanted}`"), &format!("is {state}"), now)
}

/// Says from when on a key does not work any more.
pub(super) fn expire(args: &ExpireKeyArgs, now: SystemTime) -> Result<ExitCode, String> {
    let id = Id::of(&args.key.key)?;
    let mut files = Files::lock(&folder(args.key.conf.conf.as_deref()))?;
    let expires = args.when.at.or_else(|| args.when.span.map(|span| ahead(now, span)));
    if id.find(&files)?.key.expires == expires {
        let says = expires.map_or_else(|| "has no end".to_owned(), |expires| format!("expires at {}", stamp(expires)));
        return Ok(already(&mut files, id, &says));
    }
    let path = id.field("expires");
    match expires {
        Some(expires) => {
            let stamp = stamp(expires);
            let says = if expires <= now { format!("has expired, at {stamp}") } else { format!("expires at {stamp}") };
            done(&mut files, id, &Change::Set(path, New::text(&stamp)), &format!("`expires: {stamp}`"), &says, now)
        }
        None => done(&mut files, id, &Change::Remove(path), "no `expires`", "does not expire any more", now),
    }
}

/// Makes a change, and says what there is now.
fn done(
    files: &mut Files,
    id: Id<'_>,
    change: &Change<'_>,
    by_hand: &str,
    says: &str,
    now: SystemTime,
) -> Result<ExitCode, String> {
    let (at, ()) = files.written(id.caller, id.name, |_| ()).ok_or_else(|| format!("{} is in no file", id.whole))?;
    files.change(at.file, std::slice::from_ref(change)).map_err(|why| {
        format!(
            "{why}\nNothing is changed. By hand: {by_hand} in callers.{}.keys.{}, {}",
            id.caller,
            id.name,
            place(files, at)
        )
    })?;
    let known = id.find(files)?;
    if let Some(hinders) = Standing::of(&known, now).hinders().filter(|_| known.key.enabled) {
        tell(&format!("{} does not work: {hinders}", id.whole));
    }
    let at_place = place(files, at);
    Ok(match running::wait(files, at.file, SystemTime::now()) {
        Running::Late(why) => {
            fail(&format!("{}: {by_hand} is written, in {at_place}, but is not in effect yet: {why}", id.whole))
        }
        running @ (Running::Has | Running::Nobody(_) | Running::Unknown(_)) => {
            print(&format!("{} {says}: {at_place}; {}\n", id.whole, running.says()))
        }
    })
}

/// Nothing is to be changed, but the gateway may not have found yet what was changed before.
fn already(files: &mut Files, id: Id<'_>, says: &str) -> ExitCode {
    let file = files.written(id.caller, id.name, |_| ()).map(|(at, ())| at.file).unwrap_or_default();
    let since = running::written_at(files, file);
    match running::wait(files, file, since) {
        Running::Late(why) => {
            fail(&format!("{} {says} in the files already, but that is not in effect yet: {why}", id.whole))
        }
        running @ (Running::Has | Running::Nobody(_) | Running::Unknown(_)) => {
            print(&format!("{} {says} already; {}\n", id.whole, running.says()))
        }
    }
}
