//! `portcullis key disable`, `enable` and `expire` change one field of a key.

use std::process::ExitCode;
use std::time::SystemTime;

use super::state::KeyState;
use super::{Id, catalog_time, lock_files, running, show_location, time_after};
use crate::{ExpireKeyArgs, KeyArgs, print_error};
use portcullis::catalog::amend::Files;
use portcullis::conf::yaml::edit::{Change, NewValue};

/// Switches a key on or off.
pub(super) fn set_enabled(
    args: &KeyArgs,
    wanted: bool,
    now: SystemTime,
) -> Result<ExitCode, String> {
    let (id, mut files) = lock_files(args)?;
    let state = if wanted { "enabled" } else { "disabled" };
    if id.find(&files)?.key.enabled == wanted {
        return report_unchanged(&mut files, id, &format!("is already {state}"));
    }
    let edit = Edit {
        change: Change::Set(id.field("enabled"), NewValue::Bool(wanted)),
        by_hand: format!("`enabled: {wanted}`"),
        result: format!("is {state}"),
    };
    edit.make(&mut files, id, now)
}

/// Sets the time at which a key stops working, or removes it.
pub(super) fn set_expiry(args: &ExpireKeyArgs, now: SystemTime) -> Result<ExitCode, String> {
    let (id, mut files) = lock_files(&args.key)?;
    let expires = args
        .when
        .time
        .or_else(|| args.when.span.map(|span| time_after(now, span)));
    if id.find(&files)?.key.expires == expires {
        let state_text = match expires {
            None => "already has no expiry time".to_owned(),
            Some(expires) => format!("already expires at {}", catalog_time(expires)),
        };
        return report_unchanged(&mut files, id, &state_text);
    }
    let path = id.field("expires");
    let edit = match expires {
        Some(expires) => {
            let stamp = catalog_time(expires);
            let verb = if expires <= now { "expired" } else { "expires" };
            Edit {
                change: Change::Set(path, NewValue::text(&stamp)),
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
        let location = id.location(files)?;
        let location_text = show_location(files, location);
        let how = format!(
            "{by_hand} in callers.{}.keys.{}, {location_text}",
            id.caller, id.name
        );
        super::change_file(files, location.file, std::slice::from_ref(change), &how)?;
        let key = id.find(files)?;
        if let Some(hinders) = KeyState::at_time(&key, now)
            .why_not()
            .filter(|_| key.key.enabled)
        {
            print_error(&format!("{} does not work: {hinders}", id.whole));
        }
        Ok(
            running::wait_until_live(files, location.file, SystemTime::now()).report(
                &format!("{} {result}: {location_text}", id.whole),
                &format!(
                    "{}: {by_hand} is written in {location_text}, but is not in effect yet",
                    id.whole
                ),
            ),
        )
    }
}

/// Prints that there is nothing to change. The gateway may not have taken an earlier change yet, so
/// this waits for it.
fn report_unchanged(files: &mut Files, id: Id<'_>, state_text: &str) -> Result<ExitCode, String> {
    let file = id.location(files)?.file;
    let since = running::written_at(files, file);
    Ok(running::wait_until_live(files, file, since).report(
        &format!("{} {state_text}", id.whole),
        &format!(
            "{} {state_text} in the files, but that is not in effect yet",
            id.whole
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_no_file_is_waited_for_nowhere() {
        let name = format!("portcullis-change-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let text = "accounts: {}\nmodels: {}\ncallers: { acme: {} }\n";
        std::fs::write(folder.join("catalog.yaml"), text).unwrap();
        let mut files = Files::lock(&folder).expect("the files");
        let id = Id::parse("acme/prod").expect("an id");
        let why = report_unchanged(&mut files, id, "is already enabled").unwrap_err();
        assert_eq!(why, "no file has the key acme/prod");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
