//! The ledger: its file can be read and written, and its disk has room.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::report::{CheckState, Finding, Findings, Subject};
use super::words::size;
use crate::conf::config::Ledger;
use crate::ledger::read;

/// The bytes that are written to see whether the disk has room: the rows of some days.
const ROOM: u64 = 16 << 20;
/// What is little room: a spool of large bodies, and the rows of a busy month. Of a small disk, a
/// tenth is enough.
const LITTLE: u64 = 1 << 30;
/// The bytes that are written at once.
const PIECE: usize = 256 << 10;

/// Looks at the ledger.
pub(super) fn look(ledger: &Ledger, report: &mut Findings) {
    let subject = || Subject::of("ledger");
    if !ledger.enabled {
        report.skip(subject(), "file", "`ledger.enabled` is false");
        return;
    }
    let path = ledger.path.display();
    let finding = match read::is_there(&ledger.path) {
        Err(why) => Finding::new(CheckState::Fail, subject(), "file", why)
            .with("until it is mended, use is counted in memory only"),
        Ok(true) => match OpenOptions::new().append(true).open(&ledger.path) {
            Ok(_) => Finding::new(CheckState::Ok, subject(), "file", format!("{path} can be read and written")),
            Err(why) => Finding::new(CheckState::Fail, subject(), "file", format!("{path} cannot be written: {why}"))
                .with("give the user that runs the gateway the right to write it"),
        },
        Ok(false) => {
            Finding::new(CheckState::Ok, subject(), "file", format!("{path} is not there yet: `serve` makes it"))
        }
    };
    report.add(finding);
    let folder = existing(&ledger.path);
    let (written, why) = match probe(&folder) {
        Ok(room) => room,
        Err(why) => {
            let seen = format!("no file can be made in {}: {why}", folder.display());
            let remedy = "the user that runs the gateway must be able to write there, and the disk must not be read-only or full: or set \
                          `ledger.path` in server.yaml";
            report.add(Finding::new(CheckState::Fail, subject(), "disk", seen).with(remedy));
            return;
        }
    };
    report.add(match why {
        None => roomy(written, room(&folder), &folder),
        Some(why) => {
            let seen = format!("only {} could be written in {}: {why}", size(written), folder.display());
            let remedy = if why.kind() == ErrorKind::FileTooLarge {
                "a limit bounds the size of files (`ulimit -f`, `LimitFSIZE=`): raise it"
            } else {
                "free some space on the disk, or set `ledger.path` in server.yaml. Rows that find no room are lost after a while"
            };
            Finding::new(CheckState::Fail, subject(), "disk", seen).with(remedy)
        }
    });
}

/// Returns the finding for a disk that took what was written. The free space is not known of every
/// disk.
fn roomy(written: u64, room: Option<(u64, u64)>, folder: &Path) -> Finding {
    let free_too = room.map(|(free, _)| format!("; {} are free", size(free))).unwrap_or_default();
    let seen = format!("{} could be written in {}{free_too}", size(written), folder.display());
    let finding = |state| Finding::new(state, Subject::of("ledger"), "disk", seen.as_str());
    if room.is_none_or(|(free, all)| free >= LITTLE.min(all / 10)) {
        return finding(CheckState::Ok);
    }
    finding(CheckState::Warn).with("free some space on the disk, or set `ledger.path` in server.yaml")
}

/// Returns the free bytes of a folder's disk, and all its bytes. Some file systems do not know
/// their size, and say 0.
fn room(folder: &Path) -> Option<(u64, u64)> {
    let disk = statvfs(folder).ok().filter(|disk| disk.blocks() > 0)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.fragment_size());
    Some((bytes(disk.blocks_available()), bytes(disk.blocks())))
}

/// Returns the folder of a file, or the nearest folder above it that is there.
fn existing(path: &Path) -> PathBuf {
    // The folder of a bare name is the empty path.
    let above = path.ancestors().skip(1).find(|folder| folder.is_dir());
    above.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Writes to a file without a name, which is gone however the process ends. Returns how much could
/// be written, and why it was not all.
fn probe(folder: &Path) -> io::Result<(u64, Option<io::Error>)> {
    let name = folder.join(format!(".portcullis-doctor-{:016x}", fastrand::u64(..)));
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&name)?;
    fs::remove_file(&name)?;
    let piece = vec![0; PIECE];
    let mut written = 0;
    while written < ROOM {
        match file.write(&piece) {
            Ok(0) => return Ok((written, Some(ErrorKind::WriteZero.into()))),
            Ok(some) => written += some as u64,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Ok((written, Some(why))),
        }
    }
    // Some file systems find out only now that there is no room.
    Ok((written, file.sync_data().err()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_is_a_warning() {
        let told = |room| {
            let mut report = Findings::new(true);
            report.add(roomy(ROOM, room, Path::new("data")));
            let one = serde_json::to_value(&report.all()[0]).expect("JSON");
            (one["state"].clone(), one["seen"].clone())
        };
        let says = |state: &str, more: &str| (state.into(), format!("16 MiB could be written in data{more}").into());
        assert_eq!(told(None), says("ok", ""));
        assert_eq!(told(Some((1 << 30, 1 << 40))), says("ok", "; 1 GiB are free"));
        assert_eq!(told(Some((700 << 20, 1 << 40))), says("warn", "; 700 MiB are free"));
        // A small disk of its own.
        assert_eq!(told(Some((200 << 20, 1 << 30))), says("ok", "; 200 MiB are free"));
        assert_eq!(told(Some((90 << 20, 1 << 30))), says("warn", "; 90 MiB are free"));
        assert!(room(Path::new("/")).is_some_and(|(free, all)| free > 0 && all > free));
    }
}
