//! The access log: its file can be opened, or made. The gateway does not start without it.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

use super::ledger::nameless;
use super::report::{CheckState, Finding, Findings, Subject};
use crate::conf::config::Access;

/// Looks at the file of the access log, if it is written to one.
pub(super) fn look(access: &Access, report: &mut Findings) {
    if let Access::File(path) = access {
        report.add(file(path));
    }
}

fn file(path: &Path) -> Finding {
    let finding =
        |state, seen: String| Finding::new(state, Subject::of("access log"), "file", seen);
    let fail = |why: String| {
        finding(CheckState::Fail, format!("{} cannot be opened: {why}", path.display())).with(
            "the gateway does not start without it. Make its folder, give the user that runs the gateway the right to write there, or \
             correct `log.access` in server.yaml",
        )
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => fail("it is a folder".to_owned()),
        // A pipe would not open until somebody reads it.
        Ok(there) if !there.is_file() => finding(
            CheckState::Skip,
            format!(
                "{} is no regular file: it is not opened here",
                path.display()
            ),
        ),
        Ok(_) => match OpenOptions::new().append(true).open(path) {
            Ok(_) => finding(CheckState::Ok, format!("{} can be written", path.display())),
            Err(why) => fail(why.to_string()),
        },
        Err(why) if why.kind() == ErrorKind::NotFound => match nameless(folder) {
            Ok(_) => finding(
                CheckState::Ok,
                format!("{} is not there yet: `serve` makes it", path.display()),
            ),
            Err(why) => fail(why.to_string()),
        },
        Err(why) => fail(why.to_string()),
    }
}
