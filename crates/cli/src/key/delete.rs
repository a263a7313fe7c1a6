//! `portcullis key delete` takes a key's whole entry out of its file.

use std::process::ExitCode;
use std::time::SystemTime;

use super::{change_file, lock_files, running, show_location};
use crate::KeyArgs;
use portcullis::conf::yaml::edit::Change;

/// Deletes a key. Its caller stays, even without keys.
pub(super) fn run(args: &KeyArgs) -> Result<ExitCode, String> {
    let (id, mut files) = lock_files(args)?;
    id.find(&files)?;
    let location = id.location(&files)?;
    let location_text = show_location(&files, location);
    let by_hand = format!(
        "remove callers.{}.keys.{}, {location_text}",
        id.caller, id.name
    );
    change_file(
        &mut files,
        location.file,
        &[Change::Remove(id.path())],
        &by_hand,
    )?;
    Ok(
        running::wait_until_live(&mut files, location.file, SystemTime::now()).report(
            &format!("{} is deleted from {location_text}", id.whole),
            &format!(
                "{} is deleted from {location_text}, but still works",
                id.whole
            ),
        ),
    )
}
