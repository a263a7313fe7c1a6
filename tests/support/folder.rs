//! A configuration folder that belongs to one test, for processes that run without the checks of
//! [`super::gateway`].

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::canary;
use super::gateway::BINARY;
use super::process::Process;
use super::{PATIENCE, SLOWER, eventually_blocking};

/// The folder, which is removed when this is dropped.
pub struct Folder(PathBuf);

/// The result of a command that ended.
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Folder {
    pub fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = Folder(
            Path::new(env!("CARGO_TARGET_TMPDIR"))
                .join(format!("folder-{}-{number}", std::process::id())),
        );
        std::fs::create_dir_all(&folder.0).expect("a folder for the test");
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("permissions");
    }

    /// Starts `portcullis` with these arguments and leaves it running. The folder is given as
    /// `--conf` for the commands that take it.
    pub fn start(&self, arguments: &[&str]) -> Process {
        let mut command = Command::new(BINARY);
        command
            .args(arguments)
            .env_remove("RUST_BACKTRACE")
            .current_dir(&self.0);
        if ["serve", "check", "explain", "usage"]
            .iter()
            .any(|with| arguments.first() == Some(with))
        {
            command.arg("--conf").arg(&self.0);
        }
        Process::spawn(&mut command)
    }

    /// Runs `portcullis` in the same way, to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let mut process = self.start(arguments);
        let ended = process.wait(PATIENCE * SLOWER);
        let status =
            ended.unwrap_or_else(|| panic!("{arguments:?} does not end: {}", process.stderr()));
        let ran = Ran {
            status,
            stdout: String::from_utf8_lossy(&process.stdout()).into_owned(),
            stderr: process.stderr(),
        };
        canary::check(
            "its output",
            format!("{}{}", ran.stdout, ran.stderr).as_bytes(),
        )
        .expect("no secret in any output");
        ran
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until a process has logged this text.
pub fn logged(process: &Process, text: &str) {
    let look = || {
        if process.stderr().contains(text) {
            Ok(())
        } else {
            Err(process.stderr())
        }
    };
    eventually_blocking(&format!("{text:?} in its log"), look).expect("it is logged");
}
