//! What the system gives a process that is started from here: open files, memory and proxies.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::report::{CheckState, Finding, Findings, Subject};
use super::words::size;
use crate::conf::config::Server;

/// The files that a process has open besides its connections: logs, the ledger, listeners.
const OTHER_FILES: u64 = 64;
/// The environment variables that name a proxy for other programs.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Looks at the process.
pub(super) fn look(server: &Server, report: &mut Findings) {
    let limits = &server.limits;
    if let Some(most) = number(&read("limits"), "Max open files") {
        report.add(open_files(most, limits.connections as u64));
    }
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| number(&text, "MemTotal:"));
    let memory = MemoryBounds {
        of_cgroup: of_cgroup(Path::new("/sys/fs/cgroup"), &read("cgroup")),
        of_machine: of_machine.map(|kib| kib << 10),
    };
    if let Some(finding) = memory.judge(limits.buffered_total as u64) {
        report.add(finding);
    }
    let set: Vec<&str> =
        PROXIES.into_iter().filter(|name| env::var_os(name).is_some_and(|value| !value.is_empty())).collect();
    match set.first() {
        None => report.ok(subject(), "proxy", "no variable names a proxy"),
        Some(_) if !server.proxies.is_empty() => {
            report.ok(subject(), "proxy", "the proxies of the environment are used, as `upstream_proxy` says");
        }
        // Those that are read come first.
        Some(name) if name.eq_ignore_ascii_case("ALL_PROXY") => {
            let finding = Finding::new(
                CheckState::Warn,
                subject(),
                "proxy",
                format!("{name} is set, which the gateway never reads"),
            );
            report.add(finding.with(
                "where providers are reached through a proxy only, write it into HTTPS_PROXY, and `upstream_proxy: environment` in server.yaml; \
                 or `proxy` at the accounts; else unset the variable",
            ));
        }
        Some(name) => {
            let finding = Finding::new(
                CheckState::Warn,
                subject(),
                "proxy",
                format!("{name} is set, and the gateway does not use it"),
            );
            report.add(finding.with(
                "where providers are reached through a proxy only, write `upstream_proxy: environment` in server.yaml, or `proxy` at the \
                 accounts; else unset the variable",
            ));
        }
    }
}

fn subject() -> Subject {
    Subject::of("process")
}

fn read(name: &str) -> String {
    fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default()
}

/// Returns the first number of the line that begins with a name.
fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Judges the limit of open files. A caller's connection usually has one to a provider beside it.
fn open_files(most: u64, connections: u64) -> Finding {
    let needed = connections.saturating_mul(2).saturating_add(OTHER_FILES);
    let enough = most >= needed;
    let seen = if most == u64::MAX {
        "a process started from here may have any number of files open".to_owned()
    } else {
        format!(
            "a process started from here may have {most} files open; `limits.connections` {connections} may need {needed}"
        )
    };
    let finding = Finding::new(if enough { CheckState::Ok } else { CheckState::Warn }, subject(), "open files", seen);
    if enough {
        return finding;
    }
    let callers = most.saturating_sub(OTHER_FILES) / 2;
    finding.with(format!(
        "beyond about {callers} callers at once connections fail. Raise the limit where the gateway is started (`LimitNOFILE=` in a \
         systemd unit, `ulimit -n` in a shell), or set `limits.connections` to {callers}"
    ))
}

/// The memory that the process may have, as far as it is known.
struct MemoryBounds {
    /// The limit of the control group, as in a container.
    of_cgroup: Option<u64>,
    of_machine: Option<u64>,
}

impl MemoryBounds {
    /// Judges the memory for the bodies of requests, which should be a third of all at most.
    fn judge(&self, buffered: u64) -> Option<Finding> {
        let cgroup = self.of_cgroup.filter(|limit| self.of_machine.is_none_or(|machine| *limit < machine));
        let (most, whose) = match cgroup {
            Some(limit) => (limit, "its control group allows"),
            None => (self.of_machine?, "this machine has"),
        };
        let seen = format!("`limits.buffered_total` is {}, and {whose} {}", size(buffered), size(most));
        let state = match () {
            () if buffered >= most => CheckState::Fail,
            () if buffered > most / 2 => CheckState::Warn,
            () => CheckState::Ok,
        };
        let finding = Finding::new(state, subject(), "memory", seen);
        Some(match state {
            CheckState::Ok | CheckState::Skip => finding,
            CheckState::Warn | CheckState::Fail => finding.with(format!(
                "the system ends the process when it needs more. Set `limits.buffered_total` to a third, {}, or give it more memory",
                size(most / 3)
            )),
        })
    }
}

/// Returns the least limit of memory of the control groups that a process is in, by the text of
/// `/proc/self/cgroup`. Version 2 of control groups has one tree, version 1 has one for memory.
fn of_cgroup(root: &Path, own: &str) -> Option<u64> {
    let groups = own.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let path = path.trim_start_matches('/');
        match controllers {
            "" => Some((root.to_owned(), path, "memory.max")),
            _ if controllers.split(',').any(|one| one == "memory") => {
                Some((root.join("memory"), path, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    let limits = groups.flat_map(|(tree, path, file)| {
        // A container sees its own group as the root, or has a path that is not in its tree.
        let mut group: Option<PathBuf> = Some(tree.join(path));
        std::iter::from_fn(move || {
            let here = group.take().filter(|here| here.starts_with(&tree))?;
            group = here.parent().map(Path::to_owned);
            Some(fs::read_to_string(here.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok()))
        })
    });
    // Version 1 writes "no limit" as a number near 2⁶³.
    limits.flatten().filter(|limit| *limit < 1 << 60).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_of_a_group_and_those_above_it_counts() {
        let root = std::env::temp_dir().join(format!("portcullis-cgroup-{}", std::process::id()));
        let file = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        file("a/b/memory.max", "max\n");
        file("a/memory.max", "1000\n");
        file("memory/c/memory.limit_in_bytes", "500\n");
        file("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(of_cgroup(&root, "0::/a/b\n"), Some(1000));
        assert_eq!(of_cgroup(&root, "0::/\n"), None);
        assert_eq!(of_cgroup(&root, "4:cpu,memory:/c\n1:name=systemd:/x\n"), Some(500));
        assert_eq!(of_cgroup(&root, "4:memory:/elsewhere\n"), None);
        assert_eq!(of_cgroup(&root, ""), None);
        fs::remove_dir_all(&root).unwrap();
    }

    fn state(memory: MemoryBounds, buffered: u64) -> String {
        let finding = memory.judge(buffered).unwrap();
        serde_json::to_value(&finding).unwrap().get("state").unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn the_memory_of_a_container_counts_before_that_of_the_machine() {
        const GIB: u64 = 1 << 30;
        let container = || MemoryBounds { of_cgroup: Some(GIB), of_machine: Some(64 * GIB) };
        assert_eq!(state(container(), GIB), "fail");
        assert_eq!(state(container(), GIB * 2 / 3), "warn");
        assert_eq!(state(container(), GIB / 3), "ok");
        assert_eq!(state(MemoryBounds { of_cgroup: Some(128 * GIB), of_machine: Some(2 * GIB) }, 3 * GIB), "fail");
        assert!(MemoryBounds { of_cgroup: None, of_machine: None }.judge(1).is_none());
    }

    #[test]
    fn numbers_of_proc() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024   4096   files\n";
        assert_eq!(number(limits, "Max open files"), Some(1024));
        assert_eq!(number("MemTotal:       16 kB\n", "MemTotal:"), Some(16));
        assert_eq!(number("Max open files   unlimited unlimited", "Max open files"), Some(u64::MAX));
        assert_eq!(number("x", "Max open files"), None);
    }
}
