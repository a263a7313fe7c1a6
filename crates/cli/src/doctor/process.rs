//! The limits of a process that is started from here: open files, memory, time to stop, and
//! proxies.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::report::{CheckState, Checked, Finding, Findings, Subject};
use super::words::size_text;
use portcullis::base::descriptors::{self, REMEDY};
use portcullis::base::units::rough_duration;
use portcullis::catalog::Catalog;
use portcullis::conf::config::{Bounds, Drain, Server};
use portcullis::conf::proxy::Proxies;
use portcullis::conf::secret_ref::STAND_IN;

/// With fewer open files a gateway cannot work.
const TOO_FEW_FILES: u64 = 96;
/// So many open files are as good as any number.
const UNLIMITED: u64 = 1 << 40;
/// Fewer connections of callers than these are reported, unless the settings want no more.
const FEW_CALLERS: usize = 200;
/// The environment variables that name a proxy for other programs. Those that can be read here come
/// first.
const PROXIES: [&str; 6] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
];
/// The time that the gateway may take to end after its drain.
const END_TIME: Duration = Duration::from_secs(8);
/// The time after which Kubernetes ends a pod by force, if nothing else is written.
const KUBERNETES_WAIT: Duration = Duration::from_secs(30);

/// Checks the process. The catalog is missing if it could not be read.
pub(super) fn check_process(server: &Server, catalog: Option<&Catalog>, report: &mut Findings) {
    let limits = &server.limits;
    report.add(open_files(descriptors::hard_limit(), limits));
    let of_machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| number_after(&text, "MemTotal:"));
    let memory = MemoryBounds {
        of_cgroup: cgroup_limit(Path::new("/sys/fs/cgroup"), &read_proc("cgroup")),
        of_machine: of_machine.map(|kib| kib << 10),
    };
    if let Some(finding) = memory.judge(limits.buffered_total as u64) {
        report.add(finding);
    }
    if env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        report.add(stop_finding(&server.drain));
    }
    report.add(proxy_finding(server, catalog));
}

/// Judges the time that a stop takes, in a pod. How long Kubernetes waits is not seen from inside.
fn stop_finding(drain: &Drain) -> Finding {
    let max_stop = drain.delay + drain.grace + END_TIME;
    let seen = format!("a stop takes up to {}", rough_duration(max_stop));
    if max_stop <= KUBERNETES_WAIT {
        return process_subject().ok("stop", seen);
    }
    let kubernetes_wait = rough_duration(KUBERNETES_WAIT);
    let seen = format!(
        "{seen}, and Kubernetes waits for {kubernetes_wait} unless the pod says more, which is not seen from here"
    );
    process_subject().skip("stop", seen).with_remedy(format!(
        "does `terminationGracePeriodSeconds` of the pod say more than {}? Else requests are cut off, and rows of the ledger are lost",
        max_stop.as_secs()
    ))
}

/// Judges the variables that name a proxy for other programs.
fn proxy_finding(server: &Server, catalog: Option<&Catalog>) -> Finding {
    let ok = |seen: &str| process_subject().ok("proxy", seen);
    if !server.proxies.is_empty() {
        return ok("the proxies of the environment are used, as `upstream_proxy` says");
    }
    let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let Some(name) = PROXIES.into_iter().find(is_set) else {
        return ok("no variable names a proxy");
    };
    let proxies = assumed_proxies(is_set(&"ALL_PROXY") || is_set(&"all_proxy"));
    let mut accounts = catalog
        .map(|catalog| catalog.accounts().iter())
        .into_iter()
        .flatten();
    let is_used = accounts.any(|account| {
        account.enabled
            && account.network.proxy.account_proxy().is_none()
            && account.proxy(&proxies).is_some()
    });
    if catalog.is_some() && !is_used {
        return ok(&format!(
            "{name} is set, and no account would be reached through it"
        ));
    }
    let warn = |seen: String, remedy: &str| process_subject().warn("proxy", seen, remedy);
    if name.eq_ignore_ascii_case("ALL_PROXY") {
        return warn(
            format!("{name} is set, which the gateway never reads"),
            "where providers are reached through a proxy only, write it into HTTPS_PROXY, and `upstream_proxy: environment` in server.yaml; \
             or `proxy` at the accounts; else unset the variable",
        );
    }
    warn(
        format!("{name} is set, and the gateway does not use it"),
        "where providers are reached through a proxy only, write `upstream_proxy: environment` in server.yaml, or `proxy` at the \
         accounts; else `proxy: none` at the accounts, or unset the variable",
    )
}

/// Returns the proxies that the variables stand for, with the same URL for each: only the accounts
/// that would use one matter. If `ALL_PROXY` is set, each scheme has a proxy.
fn assumed_proxies(is_all_set: bool) -> Proxies {
    let read = Proxies::from_environment(|name| {
        let value = env::var(name).unwrap_or_default();
        // The hosts of `NO_PROXY` need no proxy.
        let names_proxy =
            !name.eq_ignore_ascii_case("NO_PROXY") && (is_all_set || !value.is_empty());
        Ok(if names_proxy {
            STAND_IN.to_owned()
        } else {
            value
        })
    });
    read.map(|(proxies, _)| proxies).unwrap_or_default()
}

fn process_subject() -> Subject {
    Subject::single("process")
}

fn read_proc(name: &str) -> String {
    fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default()
}

/// Returns the first number of the line that begins with a name.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Judges the limit of open files. The gateway raises it as far as it may, and takes as many
/// connections as go with it.
fn open_files(max_files: u64, limits: &Bounds) -> Finding {
    let (callers, wanted) = (limits.connections_within(max_files), limits.connections);
    let files = if max_files >= UNLIMITED {
        "any number of".to_owned()
    } else {
        max_files.to_string()
    };
    let seen = format!(
        "a gateway started from here may have {files} files open: so callers have up to {callers} connections at once"
    );
    let state = match callers {
        // The gateway itself needs the others.
        _ if max_files < TOO_FEW_FILES => CheckState::Fail,
        _ if callers < wanted.min(FEW_CALLERS) => CheckState::Warn,
        _ => CheckState::Ok,
    };
    let seen = if limits.are_few_connections(callers) {
        format!("{seen}, and not the {wanted} of `limits.connections`")
    } else {
        seen
    };
    let finding = process_subject().finding(state, "open files", seen);
    match state {
        CheckState::Ok | CheckState::Skip => finding,
        CheckState::Warn => {
            finding.with_remedy(format!("further connections are closed at once. {REMEDY}"))
        }
        CheckState::Fail => {
            finding.with_remedy(format!("the gateway itself needs most of them. {REMEDY}"))
        }
    }
}

/// The memory that the process may have, as far as it is known.
struct MemoryBounds {
    /// The limit of the control group, as in a container.
    of_cgroup: Option<u64>,
    of_machine: Option<u64>,
}

impl MemoryBounds {
    /// Judges the memory for the bodies of requests, which should be a third of all: more
    /// than half is a warning.
    fn judge(&self, buffered: u64) -> Option<Finding> {
        let cgroup = self
            .of_cgroup
            .filter(|limit| self.of_machine.is_none_or(|machine| *limit < machine));
        let (available, whose) = match cgroup {
            Some(limit) => (limit, "its control group allows"),
            None => (self.of_machine?, "this machine has"),
        };
        let seen = format!(
            "`limits.buffered_total` is {}, and {whose} {}",
            size_text(buffered),
            size_text(available)
        );
        let state = match () {
            () if buffered >= available => CheckState::Fail,
            () if buffered > available / 2 => CheckState::Warn,
            () => CheckState::Ok,
        };
        let finding = process_subject().finding(state, "memory", seen);
        Some(finding.with_remedy_unless_ok(format!(
            "the system ends the process when it needs more. Set `limits.buffered_total` to a third, {}MiB, or give it more memory",
            (available / 3) >> 20
        )))
    }
}

/// Returns the least limit of memory of the control groups that a process is in, by the text of
/// `/proc/self/cgroup`. Version 2 of control groups has one tree, version 1 has one for memory.
fn cgroup_limit(root: &Path, own: &str) -> Option<u64> {
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
            Some(
                fs::read_to_string(here.join(file))
                    .ok()
                    .and_then(|text| text.trim().parse::<u64>().ok()),
            )
        })
    });
    // Version 1 writes "no limit" as a number near 2⁶³.
    limits.flatten().filter(|limit| *limit < 1 << 60).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limits_of_groups_and_parents_count() {
        let root = std::env::temp_dir().join(format!("portcullis-cgroup-{}", std::process::id()));
        let file = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        file("a/b/memory.max", "max\n");
        file("a/memory.max", "1000\n");
        file("memory/c/memory.limit_in_bytes", "500\n");
        file("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(cgroup_limit(&root, "0::/a/b\n"), Some(1000));
        assert_eq!(cgroup_limit(&root, "0::/\n"), None);
        assert_eq!(
            cgroup_limit(&root, "4:cpu,memory:/c\n1:name=systemd:/x\n"),
            Some(500)
        );
        assert_eq!(cgroup_limit(&root, "4:memory:/elsewhere\n"), None);
        assert_eq!(cgroup_limit(&root, ""), None);
        fs::remove_dir_all(&root).unwrap();
    }

    fn state(memory: MemoryBounds, buffered: u64) -> String {
        let finding = memory.judge(buffered).unwrap();
        serde_json::to_value(&finding)
            .unwrap()
            .get("state")
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn a_containers_memory_goes_before_the_machines() {
        const GIB: u64 = 1 << 30;
        let container = || MemoryBounds {
            of_cgroup: Some(GIB),
            of_machine: Some(64 * GIB),
        };
        assert_eq!(state(container(), GIB), "fail");
        let finding = serde_json::to_value(container().judge(GIB).unwrap()).unwrap();
        assert!(
            finding["do"]
                .as_str()
                .unwrap()
                .contains("to a third, 341MiB, or"),
            "as the file takes it: {finding}"
        );
        assert_eq!(state(container(), GIB * 2 / 3), "warn");
        assert_eq!(state(container(), GIB / 3), "ok");
        assert_eq!(
            state(
                MemoryBounds {
                    of_cgroup: Some(128 * GIB),
                    of_machine: Some(2 * GIB)
                },
                3 * GIB
            ),
            "fail"
        );
        assert!(
            MemoryBounds {
                of_cgroup: None,
                of_machine: None
            }
            .judge(1)
            .is_none()
        );
    }

    #[test]
    fn numbers_of_proc() {
        assert_eq!(
            number_after("MemFree: 1 kB\nMemTotal:       16 kB\n", "MemTotal:"),
            Some(16)
        );
        assert_eq!(number_after("x", "MemTotal:"), None);
    }
}
