//! `portcullis key delete` takes a key's whole entry out of its file.

use std::process::ExitCode;
use std::time::SystemTime;

use super::{change, lock, place, running};
use crate::KeyArgs;
use portcullis::conf::yaml::edit::Change;

/// Deletes a key. Its caller stays, even without keys.
pub(super) fn run(args: &KeyArgs) -> Result<ExitCode, String> {
    let (id, mut files) = lock(args)?;
    id.find(&files)?;
    let at = id.written(&files)?;
    let at_place = place(&files, at);
    let by_hand = format!("remove callers.{}.keys.{}, {at_place}", id.caller, id.name);
    change(&mut files, at.file, &[Change::Remove(id.path())], &by_hand)?;
    Ok(
        running::wait(&mut files, at.file, SystemTime::now()).report(
            &format!("{} is deleted from {at_place}", id.whole),
            &format!("{} is deleted from {at_place}, but still works", id.whole),
        ),
    )
}
