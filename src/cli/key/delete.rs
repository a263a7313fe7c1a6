//! `portcullis key delete` takes a key's whole entry out of its file.

use std::process::ExitCode;
use std::time::SystemTime;

use super::{Id, place, running};
use crate::catalog::amend::Files;
use crate::catalog::load::folder;
use crate::cli::KeyArgs;
use crate::conf::yaml::edit::Change;

/// Deletes a key. Its caller stays, even without keys.
pub(super) fn run(args: &KeyArgs) -> Result<ExitCode, String> {
    let id = Id::of(&args.key)?;
    let mut files = Files::lock(&folder(args.conf.conf.as_deref()))?;
    id.find(&files)?;
    let at = id.written(&files)?;
    files.change(at.file, &[Change::Remove(id.path())]).map_err(|why| {
        let at = place(&files, at);
        format!("{why}\nNothing is changed. By hand: take out callers.{}.keys.{}, {at}", id.caller, id.name)
    })?;
    let at_place = place(&files, at);
    Ok(running::wait(&mut files, at.file, SystemTime::now()).report(
        &format!("{} is deleted, out of {at_place}", id.whole),
        &format!("{} is out of {at_place}, but still works", id.whole),
    ))
}
