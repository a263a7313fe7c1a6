//! `portcullis key disable`, `enable` and `expire` change one field of a key.

use std::process::ExitCode;
use std::time::SystemTime;

use super::state::KeyState;
use super::{Id, ahead, lock, place, running, stamp};
use crate::{ExpireKeyArgs, KeyArgs, tell};
use portcullis::catalog::amend::Files;
use portcullis::conf::yaml::edit::{Change, New};

/// Switches a key on or off.
pub(super) fn enabled(args: &KeyArgs, wanted: bool, now: SystemTime) -> Result<ExitCode, String> {
    let (id, mut files) = lock(args)?;
    let state = if wanted { "enabled" } else { "disabled" };
    if id.find(&files)?.key.enabled == wanted {
        return Ok(already(&mut files, id, &format!("is already {state}")));
    }
    let edit = Edit {
        change: Change::Set(id.field("enabled"), New::Bool(wanted)),
        by_hand: format!("`enabled: {wanted}`"),
        result: format!("is {state}"),
    };
    edit.make(&mut files, id, now)
}

/// Sets the time at which a key stops working, or removes it.
pub(super) fn expire(args: &ExpireKeyArgs, now: SystemTime) -> Result<ExitCode, String> {
    let (id, mut files) = lock(&args.key)?;
    let expires = args
        .when
        .at
        .or_else(|| args.when.span.map(|span| ahead(now, span)));
    if id.find(&files)?.key.expires == expires {
        let says = match expires {
            None => "already has no expiry time".to_owned(),
            Some(expires) => format!("already expires at {}", stamp(expires)),
        };
        return Ok(already(&mut files, id, &says));
    }
    let path = id.field("expires");
    let edit = match expires {
        Some(expires) => {
            let stamp = stamp(expires);
            let verb = if expires <= now { "expired" } else { "expires" };
            Edit {
                change: Change::Set(path, New::text(&stamp)),
                by_hand: format!("`expires: {stamp}`"),
                result: format!("{verb} at {stamp}"),
            }
        }
        None => Edit {
            change: Change::Remove(path),
            by_hand: "no `expires`".to_owned(),
            result: "never expires".to_owned(),
        },
    };
    edit.make(&mut files, id, now)
}

/// A change of one field.
struct Edit<'a> {
    change: Change<'a>,
    /// The text to write by hand instead.
    by_hand: String,
    /// The key's state after the change, in words.
    result: String,
}

impl Edit<'_> {
    /// Makes the change, and prints the key's new state.
    fn make(&self, files: &mut Files, id: Id<'_>, now: SystemTime) -> Result<ExitCode, String> {
        let Edit {
            change,
            by_hand,
            result,
        } = self;
        let at = id.written(files)?;
        let at_place = place(files, at);
        let how = format!(
            "{by_hand} in callers.{}.keys.{}, {at_place}",
            id.caller, id.name
        );
        super::change(files, at.file, std::slice::from_ref(change), &how)?;
        let key = id.find(files)?;
        if let Some(hinders) = KeyState::of(&key, now)
            .hinders()
            .filter(|_| key.key.enabled)
        {
            tell(&format!("{} does not work: {hinders}", id.whole));
        }
        Ok(running::wait(files, at.file, SystemTime::now()).report(
            &format!("{} {result}: {at_place}", id.whole),
            &format!(
                "{}: {by_hand} is written in {at_place}, but is not in effect yet",
                id.whole
            ),
        ))
    }
}

/// Prints that there is nothing to change. The gateway may not have taken an earlier change yet, so
/// this waits for it.
fn already(files: &mut Files, id: Id<'_>, says: &str) -> ExitCode {
    let file = id.written(files).map(|at| at.file).unwrap_or_default();
    let since = running::written_at(files, file);
    running::wait(files, file, since).report(
        &format!("{} {says}", id.whole),
        &format!(
            "{} {says} in the files, but that is not in effect yet",
            id.whole
        ),
    )
}
