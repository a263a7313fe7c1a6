//! A control group of its own for a process, which knows the memory that the kernel holds for it,
//! also for its sockets: resident memory alone hides that.
//!
//! It needs the right to make one (root, and the memory controller at the root of the groups). The
//! second version is used, or the first where the machine has the memory controller there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub struct Group {
    folder: PathBuf,
    first_version: bool,
}

/// Why there is no group, for the report.
pub const NO_GROUP: &str =
    "no control group can be made here (it takes root and the memory controller)";

impl Group {
    /// Makes a group with no process in it.
    pub fn new() -> Option<Group> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "portcullis-load-{}-{}",
            std::process::id(),
            MADE.fetch_add(1, Ordering::Relaxed)
        );
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        for mount in mounts.lines() {
            let fields: Vec<&str> = mount.split_whitespace().collect();
            let [_, at, kind, options, ..] = fields[..] else {
                continue;
            };
            let first_version = kind == "cgroup" && options.split(',').any(|o| o == "memory");
            if !first_version && kind != "cgroup2" {
                continue;
            }
            let folder = Path::new(at).join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Group {
                folder,
                first_version,
            };
            // The first version counts sockets from the moment that a limit is set.
            let limit = i64::MAX.to_string();
            let counts = !first_version || group.write("memory.kmem.tcp.limit_in_bytes", &limit);
            if counts && group.memory().is_some() {
                return Some(group);
            }
        }
        None
    }

    /// Puts a process into the group; its children will be in it, too.
    pub fn enter(&self, process: u32) -> bool {
        self.write("cgroup.procs", &process.to_string())
    }

    pub fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().flat_map(str::parse).collect()
    }

    /// Returns the memory of all its processes with their sockets, in bytes.
    pub fn memory(&self) -> Option<u64> {
        let read = |file| -> Option<u64> {
            let text = fs::read_to_string(self.folder.join(file)).ok()?;
            text.trim().parse().ok()
        };
        if self.first_version {
            Some(read("memory.usage_in_bytes")? + read("memory.kmem.tcp.usage_in_bytes")?)
        } else {
            read("memory.current")
        }
    }

    fn write(&self, file: &str, text: &str) -> bool {
        fs::write(self.folder.join(file), text).is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel may need a moment to see that its last process has ended.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{} is left behind", self.folder.display());
    }
}
