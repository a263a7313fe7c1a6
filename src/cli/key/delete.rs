//! `portcullis key delete` takes a key's whole entry out of its file.

use std::process::ExitCode;
use std::time::SystemTime;

use super::running::{self, Running};
use super::{Id, place};
use crate::catalog::amend::Files;
use crate::catalog::load::folder;
use crate::cli::{KeyArgs, fail, print};
use crate::yaml::edit::Change;

/// Deletes a key. Its caller stays, even without keys.
pub(super) fn run(args: &KeyArgs) -> Result<ExitCode, String> {
    let id = Id::of(&args.key)?;
    let mut files = Files::lock(&folder(args.conf.conf.as_deref()))?;
    id.find(&files)?;
    let at = id.written(&files)?;
    files.change(at.file, &[Change::Remove(id.path())]).map_err(|why| {
        format!(
            "{why}\nNothing is changed. By hand: take out callers.{}.keys.{}, {}",
            id.caller,
            id.name,
            place(&files, at)
        )
    })?;
    let at_place = place(&files, at);
    Ok(match running::wait(&mut files, at.file, SystemTime::now()) {
        Running::Late(why) => fail(&format!("{} is out of {at_place}, but still works: {why}", id.whole)),
        running @ (Running::Has | Running::Nobody(_) | Running::Unknown(_)) => {
            print(&format!("{} is deleted, out of {at_place}; {}\n", id.whole, running.says()))
        }
    })
}
