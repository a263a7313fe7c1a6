//! The ledger: its file can be read and written, and its disk has room.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::report::{Checked, Finding, Findings, Subject};
use super::words::size_text;
use portcullis::base::spool::make_unnamed_file;
use portcullis::conf::config::Ledger;
use portcullis::ledger::read;

/// The bytes that are written to see whether the disk has room: the rows of some days.
const PROBE_BYTES: u64 = 16 << 20;
/// The free bytes below which there is a warning: a spool of large bodies, and the rows of a busy
/// month. Of a disk under 10 GiB, a tenth is enough.
const LITTLE_SPACE: u64 = 1 << 30;
/// The advice where no ledger can be.
const NO_LEDGER_ADVICE: &str = "put a folder there, or set `ledger.path` in server.yaml: until then use is counted in memory only";
/// The advice about a file that this user may not use.
const PERMISSION_ADVICE: &str =
    "give the user that runs the gateway the right to read and write it, and the folders above it";
/// The bytes that are written at once.
const WRITE_BYTES: usize = 256 << 10;

/// Checks the ledger.
pub(super) fn check_ledger(ledger: &Ledger, report: &mut Findings) {
    let subject = || Subject::single("ledger");
    if !ledger.enabled {
        report.add(subject().skip("file", "`ledger.enabled` is false"));
        return;
    }
    let folder = match nearest_folder(&ledger.path) {
        Ok(folder) => folder,
        Err(why) => {
            let seen = format!("{} cannot be made: {why}", ledger.path.display());
            report.add(subject().fail("file", seen, NO_LEDGER_ADVICE));
            return;
        }
    };
    report.add(file_finding(&ledger.path));
    let DiskProbe {
        written,
        stopped_by,
    } = match probe_disk(&folder) {
        Ok(probe) => probe,
        Err(why) => {
            let seen = format!("no file can be made in {}: {why}", folder.display());
            let remedy = "the user that runs the gateway must be able to write there, and the disk must not be read-only or full: or set \
                          `ledger.path` in server.yaml";
            report.add(subject().fail("disk", seen, remedy));
            return;
        }
    };
    report.add(match stopped_by {
        None => disk_finding(written, disk_space(&folder), &folder),
        Some(why) => {
            let seen = format!("only {} could be written in {}: {why}", size_text(written), folder.display());
            let remedy = if why.kind() == ErrorKind::FileTooLarge {
                "a limit bounds the size of files (`ulimit -f`, `LimitFSIZE=`): raise it"
            } else {
                "free some space on the disk, or set `ledger.path` in server.yaml. Rows that find no room are lost after a while"
            };
            subject().fail("disk", seen, remedy)
        }
    });
}

/// Returns the finding for the file. Only a file is opened: a pipe would not open until somebody
/// reads it.
fn file_finding(path: &Path) -> Finding {
    let (subject, shown) = (Subject::single("ledger"), path.display());
    let fail = |seen: String, remedy: &str| subject.fail("file", seen, remedy);
    match fs::metadata(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => {
            return subject.ok(
                "file",
                format!("{shown} is not there yet: `serve` makes it"),
            );
        }
        Err(why) => return fail(format!("{shown} cannot be read: {why}"), PERMISSION_ADVICE),
        Ok(metadata) if !metadata.is_file() => {
            return fail(
                format!("{shown} is no file"),
                "write the path of a file as `ledger.path` in server.yaml: until then use is counted in memory only",
            );
        }
        Ok(metadata) if metadata.len() == 0 => {}
        Ok(_) => {
            if let Err(why) = read::check_readable(path) {
                return fail(why, "until it is mended, use is counted in memory only");
            }
        }
    }
    match OpenOptions::new().append(true).open(path) {
        Ok(_) => subject.ok("file", format!("{shown} can be read and written")),
        Err(why) => fail(
            format!("{shown} cannot be written: {why}"),
            PERMISSION_ADVICE,
        ),
    }
}

/// Returns the finding for a disk to which everything could be written. The free space of some
/// disks is not known.
fn disk_finding(written: u64, space: Option<DiskSpace>, folder: &Path) -> Finding {
    let free_note = space
        .map(|space| format!("; {} are free", size_text(space.free)))
        .unwrap_or_default();
    let seen = format!(
        "{} could be written in {}{free_note}",
        size_text(written),
        folder.display()
    );
    let subject = Subject::single("ledger");
    if space.is_none_or(|space| space.free >= LITTLE_SPACE.min(space.total / 10)) {
        return subject.ok("disk", seen);
    }
    subject.warn(
        "disk",
        seen,
        "free some space on the disk, or set `ledger.path` in server.yaml",
    )
}

/// The bytes of a disk.
#[derive(Clone, Copy)]
struct DiskSpace {
    free: u64,
    total: u64,
}

/// Returns the space of a folder's disk. Some file systems do not know their size, and say 0.
fn disk_space(folder: &Path) -> Option<DiskSpace> {
    let disk = statvfs(folder).ok().filter(|disk| disk.blocks() > 0)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.fragment_size());
    Some(DiskSpace {
        free: bytes(disk.blocks_available()),
        total: bytes(disk.blocks()),
    })
}

/// Returns the folder of a file, or the nearest folder above it that is there. If something else is
/// in its place, such as a link to nothing, no folder can be made there.
fn nearest_folder(path: &Path) -> Result<PathBuf, String> {
    // The folder of a bare name is the empty path.
    let above = path.ancestors().skip(1).map(|above| {
        if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        }
    });
    for above in above {
        match fs::metadata(above) {
            Ok(there) if there.is_dir() => return Ok(above.to_owned()),
            Ok(_) => return Err(format!("{} is no folder", above.display())),
            Err(_) if fs::symlink_metadata(above).is_ok_and(|there| there.is_symlink()) => {
                return Err(format!(
                    "{} is a link to nothing that can be reached",
                    above.display()
                ));
            }
            // It is not there, or what is above it is no folder, which is seen next.
            Err(why) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&why.kind()) => {}
            Err(why) => return Err(format!("{} cannot be read: {why}", above.display())),
        }
    }
    Err("no folder above it is there".to_owned())
}

/// The result of writing to a disk.
struct DiskProbe {
    written: u64,
    /// The reason why it was not all.
    stopped_by: Option<io::Error>,
}

/// Writes [`PROBE_BYTES`] to a file without a name.
fn probe_disk(folder: &Path) -> io::Result<DiskProbe> {
    let mut file = make_unnamed_file(folder)?;
    let piece = vec![0; WRITE_BYTES];
    let mut written = 0;
    let stopped_by = loop {
        if written >= PROBE_BYTES {
            // Some file systems find out only now that there is no room.
            break file.sync_data().err();
        }
        match file.write(&piece) {
            Ok(0) => break Some(ErrorKind::WriteZero.into()),
            Ok(some) => written += some as u64,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => break Some(why),
        }
    };
    Ok(DiskProbe {
        written,
        stopped_by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_is_a_warning() {
        let told = |room| {
            let mut report = Findings::new(true);
            report.add(disk_finding(PROBE_BYTES, room, Path::new("data")));
            let one = serde_json::to_value(&report.all()[0]).expect("JSON");
            (one["state"].clone(), one["seen"].clone())
        };
        let says = |state: &str, more: &str| {
            (
                state.into(),
                format!("16 MiB could be written in data{more}").into(),
            )
        };
        assert_eq!(told(None), says("ok", ""));
        let space = |free, total| Some(DiskSpace { free, total });
        assert_eq!(
            told(space(1 << 30, 1 << 40)),
            says("ok", "; 1 GiB are free")
        );
        assert_eq!(
            told(space(700 << 20, 1 << 40)),
            says("warn", "; 700 MiB are free")
        );
        // A small disk of its own.
        assert_eq!(
            told(space(200 << 20, 1 << 30)),
            says("ok", "; 200 MiB are free")
        );
        assert_eq!(
            told(space(90 << 20, 1 << 30)),
            says("warn", "; 90 MiB are free")
        );
        assert!(
            disk_space(Path::new("/"))
                .is_some_and(|space| space.free > 0 && space.total > space.free)
        );
    }
}
