//! The ledger as operators meet it: a process that is killed, a disk that is full, a file that is
//! broken; and what `usage` reports of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use dialects::usage::{Source, Usage};
use portcullis::conf::config;
use portcullis::conf::price::Usd;
use portcullis::ledger::{Ledger, Row};
use rusqlite::Connection;
use serde_json::Value;

use crate::support::folder::{Folder, Ran};
use crate::support::process::Process;
use crate::support::{
    Catalog, Gateway, Mock, PATIENCE, chat, client, eventually, eventually_blocking, run,
};

const CHILD: &str = "ledger::a_child_that_writes_rows";

fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
}

fn ledger(path: &Path) -> Ledger {
    Ledger::open(&config::Ledger {
        enabled: true,
        path: path.to_owned(),
        retention: Duration::from_secs(90 * 86_400),
    })
}

fn row(request_id: &str, caller: &str, model: &str, cost: Option<u64>) -> Row {
    Row {
        admitted_at: now(),
        request_id: request_id.to_owned(),
        door: "chat".into(),
        caller: caller.into(),
        key: format!("{caller}/prod").into(),
        model: model.into(),
        account: Some("a".into()),
        upstream_model: Some(model.into()),
        usage: Usage {
            prompt: 100,
            completion: 20,
            cached: 50,
            source: Source::Reported,
            ..Usage::default()
        },
        cost: cost.map(Usd),
        unused_tokens: 0,
        unused_cost: None,
        outcome: "ok",
        attempts: 1,
        stream: false,
        status: 200,
        total_ms: 5,
        first_byte_ms: None,
        run: None,
    }
}

/// No test, but what tests start to kill: it adds rows and tells of each, `id time`, once it is
/// added.
#[test]
#[ignore = "part of other tests"]
fn a_child_that_writes_rows() {
    let Ok(path) = std::env::var("LEDGER_FILE") else {
        return;
    };
    let name = std::env::var("LEDGER_NAME").unwrap();
    let rows: u64 = std::env::var("LEDGER_ROWS").unwrap().parse().unwrap();
    let ledger = ledger(Path::new(&path));
    let next = Instant::now();
    for n in 0..rows {
        let row = row(
            &format!("{name}-{n}"),
            "acme",
            ["m", "n"][n as usize % 2],
            (n % 3 != 0).then_some(n),
        );
        let at = row.admitted_at;
        ledger.write(row);
        println!("added {name}-{n} {at}");
        // A thousand a second.
        std::thread::park_timeout(
            (next + Duration::from_millis(n)).saturating_duration_since(Instant::now()),
        );
    }
    let start = Instant::now();
    while ledger.status().waiting > 0 && start.elapsed() < Duration::from_secs(30) {
        ledger.flush();
        std::thread::park_timeout(Duration::from_millis(20));
        let told = ledger.status();
        println!("told {:?} {} {:?}", told.state, told.waiting, told.problem);
    }
    println!("over {}", ledger.status().rows);
}

/// Starts it, after `before` in its shell.
fn child(before: &str, path: &Path, name: &str, rows: u64) -> Process {
    let mut command = Command::new("sh");
    let script =
        format!("{before} exec \"$0\" --exact {CHILD} --ignored --nocapture --test-threads=1");
    command
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap());
    command
        .env("LEDGER_FILE", path)
        .env("LEDGER_NAME", name)
        .env("LEDGER_ROWS", rows.to_string());
    Process::spawn(&mut command)
}

fn says(child: &Process, what: &str) {
    let look = || {
        let said = String::from_utf8_lossy(&child.stdout()).into_owned();
        if said.contains(what) {
            Ok(())
        } else {
            Err(format!("{said}{}", child.stderr()))
        }
    };
    eventually_blocking(what, look)
        .unwrap_or_else(|why| panic!("{what}: {}", &why[why.len().saturating_sub(2_000)..]));
}

/// What it says that it added: ids and times.
fn added(child: &Process) -> Vec<(String, u64)> {
    let said = String::from_utf8_lossy(&child.stdout()).into_owned();
    // The harness's own words may stand before the first; the last line may be cut.
    let whole = said.rfind('\n').map_or("", |end| &said[..end]);
    let lines = whole
        .lines()
        .filter_map(|line| line.split("added ").nth(1))
        .filter_map(|line| line.split_once(' '));
    lines
        .filter_map(|(id, at)| Some((id.to_owned(), at.parse().ok()?)))
        .collect()
}

fn ids(connection: &Connection) -> std::collections::HashSet<String> {
    let mut statement = connection
        .prepare("SELECT request_id FROM exchange")
        .unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

#[track_caller]
fn assert_whole(connection: &Connection) {
    let check: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    let columns = "day, model, outcome, requests, prompt, completion, cached, cost, unpriced";
    let sums = "SELECT at / 86400000, model, outcome, count(*), sum(prompt), sum(completion), sum(cached), sum(coalesce(cost, 0)), \
                sum(cost IS NULL) FROM exchange GROUP BY 1, 2, 3";
    let read = |sql: &str| -> Vec<(i64, String, String, [i64; 6])> {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| {
            let numbers = [
                row.get(3)?,
                row.get(4)?,
                row.get(5)?,
                row.get(6)?,
                row.get(7)?,
                row.get(8)?,
            ];
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, numbers))
        });
        rows.unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(
        read(&format!("SELECT {columns} FROM daily ORDER BY 1, 2, 3")),
        read(&format!("{sums} ORDER BY 1, 2, 3"))
    );
}

#[test]
fn a_crash_loses_the_last_second_at_most() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("ledger.sqlite");
    let mut kept = std::collections::HashSet::new();
    let (mut whole, mut late) = (0, Vec::new());
    while whole < 3 {
        let mut child = child("", &path, &format!("r{whole}-{}", late.len()), 60_000);
        says(&child, "added ");
        std::thread::sleep(Duration::from_millis(1_100 + fastrand::u64(0..900)));
        // Said before the end began, so before it in any case.
        let (told, end) = (added(&child), now());
        child.signal("KILL");
        assert!(child.wait(PATIENCE).is_some());
        let connection = Connection::open(&path).unwrap();
        let found = ids(&connection);
        let due: Vec<_> = told.iter().filter(|(_, at)| at + 1_000 < end).collect();
        assert!(!due.is_empty(), "{} rows were added", told.len());
        match due.into_iter().find(|(id, _)| !found.contains(id)) {
            None => whole += 1,
            Some((id, at)) => late.push(format!(
                "{id} was added {} ms before the end, and is lost",
                end - at
            )),
        }
        // Where the machine stands still, who writes is late too; but hardly each time.
        assert!(late.len() < 4, "{late:#?}");
        kept.retain(|id| !found.contains(id));
        assert_eq!(kept.len(), 0, "what earlier processes wrote stays");
        kept = found;
        assert_whole(&connection);
        // And the limits begin with all of it.
        drop(connection);
        let spent: u64 = ledger(&path)
            .past_use(now(), None)
            .iter()
            .map(|past| past.requests)
            .sum();
        assert_eq!(spent, kept.len() as u64);
    }
}

#[test]
fn two_processes_write_to_one_file() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("data/ledger.sqlite");
    let mut children: Vec<_> = ["one", "two"]
        .into_iter()
        .map(|name| child("", &path, name, 1_500))
        .collect();
    for child in &mut children {
        says(child, "over 1500");
        assert!(
            child.wait(PATIENCE).is_some_and(|status| status.success()),
            "{}",
            child.stderr()
        );
    }
    let connection = Connection::open(&path).unwrap();
    assert_eq!(ids(&connection).len(), 3_000);
    assert_whole(&connection);
}

#[test]
fn rows_wait_while_the_file_may_not_grow() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("ledger.sqlite");
    // 256 KiB, of which the test can lift the soft limit; the signal would end the process.
    let mut child = child("trap '' XFSZ; ulimit -S -f 512;", &path, "f", 4_000);
    says(&child, "told Failing");
    let lifted = Command::new("prlimit")
        .args(["--pid", &child.pid().to_string(), "--fsize=unlimited:"])
        .status();
    if !lifted.as_ref().is_ok_and(|status| status.success()) {
        assert!(!is_root(), "a soft limit can be lifted by root: {lifted:?}");
        eprintln!(
            "SKIPPED: `prlimit` lifts nothing here ({lifted:?}): that what waits is written is not tested, only that it waits"
        );
        return;
    }
    says(&child, "over 4000");
    assert!(child.wait(PATIENCE).is_some_and(|status| status.success()));
    let connection = Connection::open(&path).unwrap();
    assert_eq!(ids(&connection).len(), 4_000);
    assert_whole(&connection);
}

/// Then what could not be arranged is a fault, and no reason to test less.
fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .filter_map(|line| line.strip_prefix("Uid:"))
        .any(|ids| ids.split_whitespace().nth(1) == Some("0"))
}

/// Root in a container has not all of root's rights: mounting needs this one.
pub fn may_mount() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut rights = status
        .lines()
        .filter_map(|line| line.strip_prefix("CapEff:"))
        .filter_map(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    is_root() && rights.any(|rights| rights >> CAP_SYS_ADMIN & 1 == 1)
}

/// A small disk of the test's own, where whoever runs it may mount one.
pub struct Disk(PathBuf);

impl Disk {
    pub fn new(at: &Path) -> Option<Disk> {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k", "none"])
            .arg(at)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then(|| Disk(at.to_owned()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn remount(&self, how: &str) {
        let mount = || {
            let output = Command::new("mount")
                .args(["-o", &format!("remount,{how}")])
                .arg(&self.0)
                .output()
                .unwrap();
            if output.status.success() {
                Ok(())
            } else {
                Err(format!("{output:?}"))
            }
        };
        // A ledger's thread lets go of its file a moment after the ledger is dropped.
        eventually_blocking("the disk is mounted anew", mount).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_and_a_read_only_one() {
    let folder = Folder::new(&[]);
    let Some(disk) = Disk::new(&folder.path().join("disk")) else {
        assert!(!may_mount(), "root could not mount a disk");
        eprintln!(
            "SKIPPED: no disk can be mounted here; a_file_that_may_not_grow_… is what remains of this test"
        );
        return;
    };
    let path = disk.0.join("ledger.sqlite");
    let full = disk.0.join("full");
    let ledger = ledger(&path);
    ledger.write(row("1", "acme", "m", None));
    ledger.flush();
    // As much as there is room for.
    let mut zeros = std::fs::File::create(&full).unwrap();
    while std::io::Write::write_all(&mut zeros, &[0; 512]).is_ok() {}
    for n in 0..2_000 {
        ledger.write(row(&format!("full-{n}"), "acme", "m", None));
    }
    let failing = |why: &str| {
        let look = || match ledger.status().problem {
            Some(error) if error.contains(why) => Ok(()),
            other => Err(format!("{other:?}")),
        };
        eventually_blocking(why, look).unwrap();
    };
    failing("free some space on the disk");
    let told = ledger.status();
    assert_eq!((told.rows, told.waiting, told.dropped), (1, 2_000, 0));
    drop(zeros);
    std::fs::remove_file(&full).unwrap();
    disk.remount("size=8m");
    let works = |rows: u64| {
        let look = || {
            if ledger.status().rows == rows && ledger.status().problem.is_none() {
                Ok(())
            } else {
                Err(format!("{:?}", ledger.status()))
            }
        };
        eventually_blocking("it is written", look).unwrap();
    };
    works(2_001);

    ledger.write(row("last", "acme", "m", None));
    ledger.flush();
    assert_whole(&Connection::open(&path).unwrap());
    drop(ledger);
    // A reader has nothing to write there.
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let copy = disk.0.join("copy.sqlite");
    std::fs::copy(&path, &copy).unwrap();
    disk.remount("ro");
    let conf = Folder::new(&[("server.yaml", &format!("ledger: {{ path: {copy:?} }}\n"))]);
    let ran = conf.run(&["usage", "--csv", "--by", "caller"]);
    assert!(
        ran.status.success() && ran.stdout.contains("\nacme,2002,0,200200,"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let ledger = self::ledger(&disk.0.join("new/ledger.sqlite"));
    ledger.write(row("nowhere", "acme", "m", None));
    assert!(
        ledger
            .status()
            .problem
            .is_some_and(|why| why.contains("the folder") && why.contains("cannot be created"))
    );
}

/// Two callers, two models, one price unknown.
/// A ledger with some requests in it.
pub fn fill(path: &Path) -> Arc<Ledger> {
    let ledger = ledger(path);
    for n in 0..10 {
        ledger.write(row(&format!("a{n}"), "acme", "m", Some(1_000_000_001)));
        ledger.write(row(&format!("b{n}"), "blue", "n", None));
    }
    ledger.write(Row {
        outcome: "upstream_cut",
        unused_tokens: 9,
        ..row("c", "acme", "n", Some(1))
    });
    ledger.flush();
    Arc::new(ledger)
}

#[test]
fn usage_in_its_three_forms() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("elsewhere/ledger.sqlite");
    folder.write("server.yaml", format!("ledger: {{ path: {path:?} }}\n"));
    let fails = |arguments: &[&str], why: &str| {
        let Ran { status, stderr, .. } = folder.run(&[&["usage"], arguments].concat());
        assert!(
            !status.success() && stderr.contains(why),
            "{arguments:?}: {stderr}"
        );
    };
    fails(&[], "there is no ledger at");
    fails(
        &["--by", "who"],
        "--by: holds a name that is not known; allowed, with commas between them: day, caller, key, model, account, \
         upstream_model, outcome",
    );
    fails(
        &["--since", "soon"],
        "--since: must be a time ago such as 30m, 24h or 7d, a date such as 2026-11-01",
    );
    fails(
        &["--since", "99999999999999999999d"],
        "--since: 99999999999999999999d is too long, because it begins before 1970; write a date",
    );
    fails(
        &["--since", "1h", "--until", "2h"],
        "--until: must be later than since",
    );
    fails(&["--csv", "--json"], "cannot be used with");
    // Read while it is open, and when it is not.
    let ledger = fill(&path);
    for ledger in [Some(ledger), None] {
        let usage = |arguments: &[&str]| {
            let ran = folder.run(&[&["usage"], arguments].concat());
            assert!(ran.status.success(), "{}", ran.stderr);
            ran.stdout
        };
        let table = usage(&[]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("usage from 20"), "{table}");
        assert_eq!(
            lines[2..],
            [
                "caller  model  requests  failed  prompt  completion  cached  reasoning  total  estimated             USD  unpriced  unused",
                "acme    m            10       0    1000         200     500          0   1200          0     10.00000001         0       0",
                "acme    n             1       1     100          20      50          0    120          0     0.000000001         0       9",
                "blue    n            10       0    1000         200     500          0   1200          0         unknown        10       0",
                "total                21       1    2100         420    1050          0   2520          0  >=10.000000011        10       9",
            ],
        );
        let csv = usage(&[
            "--csv",
            "--by",
            "key,outcome",
            "--caller",
            "acme",
            "--since",
            "7d",
        ]);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "acme/prod,ok,10,0,1000,200,500,0,0,1200,0,0,0,0,10.00000001,all,0,0,0,all,0",
                "acme/prod,upstream_cut,1,1,100,20,50,0,0,120,0,0,0,0,0.000000001,all,0,9,,none,1"
            ]
        );
        let json: Value = serde_json::from_str(&usage(&[
            "--json",
            "--by",
            "model",
            "--key",
            "blue/prod",
            "--model",
            "n",
        ]))
        .unwrap();
        assert_eq!(
            (
                &json["usage"][0]["model"],
                &json["usage"][0]["requests"],
                &json["usage"][0]["cost_usd"]
            ),
            (&"n".into(), &10.into(), &Value::Null)
        );
        assert_eq!(
            (
                &json["total"]["total_tokens"],
                &json["total"]["unpriced_requests"]
            ),
            (&1_200.into(), &10.into())
        );
        drop(ledger);
    }
    folder.write(
        "server.yaml",
        "ledger: { enabled: false, path: none/at.all }\n",
    );
    fails(
        &[],
        "it is switched off, because `ledger.enabled` is false in server.yaml; relative paths start at the \
     working directory",
    );
    folder.write("server.yaml", "ledger: { path: server.yaml }\n");
    fails(&[], "not a database; move the file away");
}

#[test]
fn usage_of_nobody_says_that_there_is_nobody() {
    let catalog = "accounts: { a: { dialect: demo } }\nmodels: { m: { aliases: [fast], targets: [ { account: a } ] } }\n\
                   callers: { new: { keys: { prod: { hash: 'sha256:1111111111111111111111111111111111111111111111111111111111111111' } } } }\n";
    let folder = Folder::new(&[("catalog.yaml", catalog)]);
    let path = folder.path().join("elsewhere/ledger.sqlite");
    folder.write("server.yaml", format!("ledger: {{ path: {path:?} }}\n"));
    drop(fill(&path));
    let fails = |arguments: &[&str], why: &str| {
        let Ran {
            status,
            stdout,
            stderr,
        } = folder.run(&[&["usage"], arguments].concat());
        assert!(
            !status.success() && stdout.is_empty() && stderr.contains(why),
            "{arguments:?}: {stdout}{stderr}"
        );
    };
    fails(
        &["--caller", "nope"],
        "there is no caller with this name in the catalog or the ledger\n",
    );
    fails(
        &["--caller", "acmee"],
        "there is no caller \"acmee\" in the catalog or the ledger; did you mean acme?",
    );
    fails(
        &["--caller", "nope", "--json"],
        "there is no caller with this name",
    );
    fails(
        &["--key", "prod"],
        "there is no key with this name in the catalog or the ledger; the id of a key begins with its caller, such \
         as acme/prod",
    );
    fails(&["--model", "gpt-9"], "there is no model with this name");
    fails(
        &["--model", "fast"],
        "\"fast\" is an alias of the model m: the ledger has only the model's id, so ask \
     for that",
    );
    // Who is in the catalog has used nothing; who is only in the ledger used nothing of late.
    for arguments in [
        ["--caller", "new"],
        ["--key", "new/prod"],
        ["--caller", "blue"],
    ] {
        let ran =
            folder.run(&[&["usage", "--until", "1h", "--since", "2h"], &arguments[..]].concat());
        assert!(
            ran.status.success() && ran.stdout.ends_with("no requests\n"),
            "{arguments:?}: {}{}",
            ran.stdout,
            ran.stderr
        );
    }
    folder.write("catalog.yaml", "accounts: {");
    let ran = folder.run(&["usage", "--caller", "nope"]);
    assert!(
        ran.status.success() && ran.stdout.ends_with("no requests\n"),
        "nobody knows: {}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn usage_on_the_admin_listener() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let path = gateway.conf.parent().unwrap().join("ledger.sqlite");
        // Another process's rows, beside it.
        let ledger = fill(&path);
        let (status, body) = gateway.admin("/usage?by=caller%2Cmodel&since=7d");
        assert_eq!(status, 200, "{body}");
        let json: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (&json["total"]["requests"], &json["total"]["cost_usd"]),
            (&21.into(), &"10.000000011".into())
        );
        assert_eq!(
            (
                &json["total"]["cost_known"],
                &json["usage"][2]["cost_known"]
            ),
            (&"part".into(), &"none".into())
        );
        assert_eq!(
            (&json["usage"][2]["caller"], &json["usage"][2]["cost_usd"]),
            (&"blue".into(), &Value::Null)
        );
        for (query, why) in [
            ("by=who", "by: holds a name that is not known"),
            ("since=soon", "since: must be"),
            (
                "since=99999999999999999999d",
                "since: 99999999999999999999d is too long",
            ),
            ("group=key", "group: is not known"),
        ] {
            let (status, body) = gateway.admin(&format!("/usage?{query}"));
            assert!(status == 400 && body.starts_with(why), "{status} {body}");
        }
        let status = gateway.status();
        assert_eq!(
            (&status["ledger"]["state"], &status["ledger"]["dropped"]),
            (&"ok".into(), &0.into())
        );
        assert_eq!(status["ledger"]["path"], path.to_str().unwrap());
        assert_eq!(gateway.metrics().sum("portcullis_ledger_up", &[]), 1.0);
        assert!(
            gateway
                .metrics()
                .0
                .contains("\nportcullis_ledger_rows_total ")
                && gateway
                    .metrics()
                    .0
                    .contains("\nportcullis_ledger_dropped_total 0")
        );
        drop(ledger);
    });
}

#[test]
fn a_ledger_that_is_switched_off_has_no_file() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("ledger: { enabled: false }")
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!(gateway.status()["ledger"]["state"], "off");
        assert_eq!(gateway.admin("/usage").0, 404);
        assert_eq!(gateway.metrics().sum("portcullis_ledger_up", &[]), 0.0);
        let folder = gateway.conf.parent().unwrap();
        assert!(!folder.join("data").exists() && !folder.join("ledger.sqlite").exists());
    });
}

#[test]
fn a_broken_file_stops_no_request() {
    run(async {
        let mock = Mock::start().await;
        let folder = Folder::new(&[("ledger.sqlite", "no database, but longer than nothing")]);
        let path = folder.path().join("ledger.sqlite");
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(&format!("ledger: {{ path: {path:?} }}"))
            .start()
            .await;
        let line = gateway.logged("cannot be written").await;
        assert!(
            line.contains("\"error\"") && line.contains("not a database; move the file away"),
            "{line}"
        );
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let status = gateway.status();
        assert_eq!(status["ledger"]["state"], "failing");
        assert!(
            status["ledger"]["problem"]
                .as_str()
                .unwrap()
                .contains("not a database"),
            "{status}"
        );
        assert_eq!(
            (
                gateway.metrics().sum("portcullis_ledger_up", &[]),
                gateway.admin("/usage").0
            ),
            (0.0, 503)
        );
        std::fs::remove_file(&path).unwrap();
        gateway.logged("can be written again").await;
        assert_eq!(
            gateway.log().matches("cannot be written").count(),
            1,
            "said once"
        );
        // The request that came meanwhile is not lost.
        let waiting = || (gateway.status()["ledger"]["waiting"] == 0).then_some(());
        eventually("it works", waiting).await;
        assert_eq!(
            (
                &gateway.status()["ledger"]["state"],
                &gateway.status()["ledger"]["rows"]
            ),
            (&"ok".into(), &1.into())
        );
        let (status, body) = gateway.admin("/usage");
        assert!(
            status == 200 && body.contains("\"requests\": 1,"),
            "{status} {body}"
        );
    });
}

/// Limits that began while the file was broken are told what is in it, once, beside what they
/// counted meanwhile.
#[test]
fn a_mended_file_recalls_what_was_spent() {
    run(async {
        let mock = Mock::start().await;
        let folder = Folder::new(&[("ledger.sqlite", "no database, but longer than nothing")]);
        let (path, whole) = (
            folder.path().join("ledger.sqlite"),
            folder.path().join("whole.sqlite"),
        );
        drop(fill(&whole));
        let still = || (!folder.path().join("whole.sqlite-wal").exists()).then_some(());
        eventually("all is in the file itself", still).await;
        let limits = "limits: { requests_per_day: 1000 }";
        let catalog = Catalog::over(&mock).without_acme().caller_with(
            "acme",
            limits,
            &[("prod", "pc-acme", "")],
        );
        let gateway = Gateway::with(catalog)
            .server(&format!("ledger: {{ path: {path:?} }}"))
            .start()
            .await;
        let ask = || gateway.raw(client::post_as("pc-acme", &chat("m")));
        assert_eq!(ask().await.status, 200);
        let told =
            || -> Value { serde_json::from_str(&gateway.admin("/limits?caller=acme").1).unwrap() };
        assert_eq!(
            (
                &told()["limits"][0]["used"]["requests_per_day"],
                &told()["more"]
            ),
            (&1.into(), &0.into())
        );
        assert_eq!(
            gateway.log().matches("\"level\":\"error\"").count(),
            1,
            "one cause, one error: {}",
            gateway.log()
        );
        std::fs::rename(&whole, &path).unwrap();
        gateway
            .logged("the use before this start is known now")
            .await;
        let waiting = || (gateway.status()["ledger"]["waiting"] == 0).then_some(());
        eventually("it works", waiting).await;
        assert_eq!(
            told()["limits"][0]["used"]["requests_per_day"],
            12,
            "eleven of before, one of now"
        );
        assert_eq!(ask().await.status, 200);
        assert_eq!(told()["limits"][0]["used"]["requests_per_day"], 13);
        assert!(
            gateway
                .admin("/limits?caller=nobody")
                .1
                .contains("\"limits\": []")
        );
        let (status, why) = gateway.admin("/limits?key=x");
        assert!(
            status == 400 && why == "key: is not known; allowed: caller\n",
            "{status} {why}"
        );
    });
}

/// A limit in money on what cost something that nobody knew before: its sum says that it lacks
/// that.
#[test]
fn a_limits_sum_of_money_says_what_it_lacks() {
    run(async {
        let mock = Mock::start().await;
        let folder = Folder::new(&[]);
        let path = folder.path().join("ledger.sqlite");
        drop(fill(&path));
        let (limits, price) = (
            "limits: { usd_per_month: 9 }",
            "price: { input: 1, output: 1 }",
        );
        let catalog = Catalog::new()
            .without_acme()
            .account("a", &mock)
            .model_with("m", &["a"], price);
        let catalog = catalog
            .caller_with("acme", limits, &[("prod", "pc-acme", "")])
            .caller_with("blue", limits, &[("prod", "pc-blue", "")]);
        let gateway = Gateway::with(catalog)
            .server(&format!("ledger: {{ path: {path:?} }}"))
            .start()
            .await;
        let told: Value = serde_json::from_str(&gateway.admin("/limits").1).unwrap();
        let of = |at: usize| {
            (
                &told["limits"][at]["used"]["usd_per_month"],
                &told["limits"][at]["unpriced_requests"],
            )
        };
        assert_eq!(of(0), (&Value::from(10.000000011), &Value::Null), "{told}");
        assert_eq!(of(1), (&Value::from(0.0), &Value::from(10)), "{told}");
    });
}

#[test]
fn check_warns_of_limits_that_a_restart_empties() {
    let catalog = "accounts: { a: { dialect: demo } }\nmodels: { m: { targets: [ { account: a } ] } }\n\
                   callers: { acme: { limits: { requests_per_day: 9 } } }\n";
    let folder = Folder::new(&[("catalog.yaml", catalog)]);
    let told = |ledger: &str| {
        folder.write("server.yaml", format!("ledger: {{ enabled: {ledger} }}\n"));
        let Ran { status, stderr, .. } = folder.run(&["check"]);
        assert!(status.success(), "{stderr}");
        stderr
    };
    const WHY: &str = "warning: server.yaml ledger.enabled: is false, so the gateway counts daily and monthly \
     limits from zero after each restart\n";
    assert_eq!((told("false").as_str(), told("true").as_str()), (WHY, ""));
}

#[test]
fn two_gateways_have_one_file() {
    run(async {
        let mock = Mock::start().await;
        let folder = Folder::new(&[]);
        let path = folder.path().join("data/ledger.sqlite");
        let with =
            || Gateway::with(Catalog::over(&mock)).server(&format!("ledger: {{ path: {path:?} }}"));
        let (one, two) = (with().start().await, with().start().await);
        let _ledger = fill(&path);
        for gateway in [&one, &two] {
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
            assert_eq!(
                gateway.status()["ledger"]["state"],
                "ok",
                "{}",
                gateway.log()
            );
        }
        let usage = |gateway: &Gateway| gateway.admin("/usage?since=1h&by=caller&caller=blue").1;
        let total = |text: &str| serde_json::from_str::<Value>(text).unwrap()["total"].clone();
        assert_eq!(total(&usage(&one)), total(&usage(&two)));
        assert_eq!(total(&usage(&one))["requests"], 10);
    });
}

#[test]
fn a_ledger_locked_at_start_catches_up() {
    run(async {
        let mock = Mock::start().await;
        let folder = Folder::new(&[]);
        let path = folder.path().join("ledger.sqlite");
        drop(ledger(&path));
        let lock = Connection::open(&path).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        let start = Instant::now();
        let server = format!("ledger: {{ path: {path:?} }}");
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(&server)
            .start()
            .await;
        // To wait for the file would take twenty seconds.
        let took = start.elapsed();
        assert!(took < PATIENCE, "it serves after {took:?}");
        for _ in 0..3 {
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
        }
        gateway
            .logged("another program has locked the file. The gateway still serves requests")
            .await;
        assert_eq!(gateway.status()["ledger"]["state"], "failing");
        assert_eq!(gateway.status()["ledger"]["waiting"], 3);
        lock.execute_batch("ROLLBACK").unwrap();
        drop(lock);
        let caught_up = || {
            let ledger = gateway.status()["ledger"].clone();
            (ledger["state"] == "ok" && ledger["rows"] == 3 && ledger["dropped"] == 0).then_some(())
        };
        eventually("it catches up", caught_up).await;
        let rows = "SELECT count(*) FROM exchange";
        let rows: i64 = Connection::open(&path)
            .unwrap()
            .query_row(rows, [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 3);
    });
}

#[test]
fn a_pipe_instead_of_the_ledger_is_reported() {
    run(async {
        let mock = Mock::start().await;
        let folder = Folder::new(&[]);
        let path = folder.path().join("ledger.sqlite");
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let server = format!("ledger: {{ path: {path:?} }}");
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(&server)
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        gateway
            .logged("it is no regular file; write the path of a file as `ledger.path`")
            .await;
        assert_eq!(gateway.status()["ledger"]["state"], "failing");
        std::fs::remove_file(&path).unwrap();
        eventually("it makes a new one", || {
            (gateway.status()["ledger"]["rows"] == 1).then_some(())
        })
        .await;
        folder.write(
            "server.yaml",
            format!(
                "ledger: {{ path: {:?} }}\n",
                folder.path().join("another-ledger.sqlite")
            ),
        );
        folder.write("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n");
        assert!(
            Command::new("mkfifo")
                .arg(folder.path().join("another-ledger.sqlite"))
                .status()
                .unwrap()
                .success()
        );
        let ran = folder.run(&["usage"]);
        assert!(
            ran.stderr.contains("it is no regular file"),
            "{}",
            ran.stderr
        );
    });
}
