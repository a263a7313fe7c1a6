//! The access log: its file can be opened, or made. The gateway does not start without it.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

use super::report::{CheckState, Checked, Finding, Findings, Subject};
use portcullis::base::spool::make_unnamed_file;
use portcullis::conf::config::Access;

/// Checks the file of the access log, if it is written to one.
pub(super) fn check_access_log(access: &Access, report: &mut Findings) {
    if let Access::File(path) = access {
        report.add(file_finding(path));
    }
}

fn file_finding(path: &Path) -> Finding {
    let name = path.display();
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let seen = match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err("it is a folder".to_owned()),
        // A pipe would not open until somebody reads it.
        Ok(there) if !there.is_file() => Ok((
            CheckState::Skip,
            format!("{name} is no regular file: it is not opened here"),
        )),
        Ok(_) => match OpenOptions::new().append(true).open(path) {
            Ok(_) => Ok((CheckState::Ok, format!("{name} can be written"))),
            Err(why) => Err(why.to_string()),
        },
        Err(why) if why.kind() == ErrorKind::NotFound => match make_unnamed_file(folder) {
            Ok(_) => Ok((
                CheckState::Ok,
                format!("{name} is not there yet: `serve` makes it"),
            )),
            Err(why) => Err(why.to_string()),
        },
        Err(why) => Err(why.to_string()),
    };
    let subject = Subject::single("access log");
    match seen {
        Ok((state, seen)) => subject.finding(state, "file", seen),
        Err(why) => {
            let seen = format!("{name} cannot be opened: {why}");
            let remedy = "the gateway does not start without it. Make its folder, give the user that runs the gateway the right to write there, or \
                          correct `log.access` in server.yaml";
            subject.fail("file", seen, remedy)
        }
    }
}
