//! What this machine has: the configuration, the process, the listeners and the ledger.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{Clinic, account, catalog};
use crate::support::tls::{Ca, Leaf};
use crate::support::{Gateway, Mock, Script, chat, gateway::free_port, run};

#[test]
fn an_error_in_the_configuration_hides_nothing_else() {
    run(async {
        let mock = Mock::start().await;
        let mut clinic = Clinic::over(&mock);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .is_well("configuration", "files")
            .has(
                ("ok", "configuration", "environment"),
                &["read from this shell: DOCTOR_KEY"],
            );
        clinic
            .folder
            .write("catalog.d/x.yaml", "accounts:\n  b: { dialect: opneai }\n");
        let said = clinic.run_doctor().await;
        said.exits(2).has(
            ("fail", "configuration", "files"),
            &["catalog.d/x.yaml:2", "opneai", "does not start"],
        );
        said.has(("skip", "configuration", "catalog"), &[])
            .is_well("ledger", "disk");
        // A secret that is missing keeps nobody from looking at the server.
        clinic.folder.write("catalog.d/x.yaml", "{}");
        clinic.env.clear();
        let said = clinic.run_doctor().await;
        said.exits(2).has(
            ("fail", "configuration", "files"),
            &["environment variable", "export it in this shell, too"],
        );
        said.is_well("a", "tcp")
            .has(("skip", "a", "credential"), &["could not be read"]);
        // Nor does an empty one, as `-e NAME` of docker makes it.
        clinic.env.push(("DOCTOR_KEY".to_owned(), String::new()));
        let said = clinic.run_doctor().await;
        said.exits(2).has(
            ("fail", "configuration", "files"),
            &["the environment variable is empty"],
        );
        said.is_well("a", "tcp")
            .has(("skip", "a", "credential"), &["could not be read"]);
    });
}

#[test]
fn a_folder_that_is_not_there() {
    run(async {
        let clinic = Clinic::new("");
        std::fs::remove_dir_all(clinic.folder.path()).unwrap();
        std::fs::create_dir_all(clinic.folder.path()).unwrap();
        let (code, text) = Clinic::end(clinic.start(&[]));
        assert!(code == 2 && text.contains("catalog.yaml"), "{text}");
    });
}

#[test]
fn a_secret_that_everybody_can_read() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        let text = catalog(&account(&mock.base_url(), "")).replace("env: DOCTOR_KEY", "file: key");
        clinic.folder.write("catalog.yaml", text);
        clinic
            .folder
            .write("key", crate::support::canary::ACCOUNT_KEY);
        clinic.run_doctor().await.exits(0);
        open_to_all(&clinic, "key");
        clinic.run_doctor().await.exits(1).has(
            ("warn", "configuration", "files"),
            &["key: holds a secret", "chmod o-r"],
        );
    });
}

fn open_to_all(clinic: &Clinic, file: &str) {
    std::fs::set_permissions(
        clinic.folder.path().join(file),
        PermissionsExt::from_mode(0o644),
    )
    .unwrap();
}

#[test]
fn too_few_open_files_and_too_little_memory() {
    run(async {
        let mock = Mock::start().await;
        let mut clinic = Clinic::over(&mock);
        let said = clinic.run_doctor().await;
        said.exits(0)
            .is_well("process", "open files")
            .is_well("process", "memory")
            .is_well("process", "proxy");
        clinic.before = "ulimit -n 130; ".to_owned();
        let words = [
            "130 files open",
            "up to 25 connections",
            "not the 50",
            "closed at once",
            "LimitNOFILE=",
        ];
        clinic
            .run_doctor()
            .await
            .exits(1)
            .has(("warn", "process", "open files"), &words);
        clinic.before = "ulimit -n 40; ".to_owned();
        let words = [
            "40 files open",
            "the gateway itself needs most of them",
            "LimitNOFILE=",
        ];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "process", "open files"), &words);
        // The gateway raises the lower of the two limits.
        clinic.before = "ulimit -S -n 40; ".to_owned();
        clinic
            .run_doctor()
            .await
            .exits(0)
            .is_well("process", "open files");
        clinic.before = "ulimit -n 20000; ".to_owned();
        clinic.server("", "limits: { connections: 10000, buffered_total: 64MiB }");
        let words = ["20000 files open", "up to 9948 connections"];
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "process", "open files"), &words);
        clinic.before.clear();
        clinic.server("", "limits: { connections: 50, buffered_total: 1000GiB }");
        let words = ["`limits.buffered_total` is 1000 GiB", "to a third"];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "process", "memory"), &words);
    });
}

/// A proxy that no account would be reached through is nobody's concern.
#[test]
fn proxies_of_the_environment() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "process", "proxy"), &["no variable names a proxy"]);
        let outside = |more: &str| {
            format!(
                "{}\n  b: {{ dialect: openai, base_url: \"https://nobody.invalid/v1\"{more} }}",
                account(&mock.base_url(), "")
            )
        };
        let near = catalog(&account(&mock.base_url(), ""));
        let far = catalog(&outside(""));
        let unused =
            |name: &str| format!("{name} is set, and no account would be reached through it");
        let clinic = clinic.env("ALL_PROXY", "http://proxy.test:3128");
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "process", "proxy"), &[&unused("ALL_PROXY")]);
        clinic.folder.write("catalog.yaml", &far);
        let words = [
            "ALL_PROXY is set, which the gateway never reads",
            "HTTPS_PROXY",
        ];
        clinic
            .run_doctor()
            .await
            .has(("warn", "process", "proxy"), &words);
        let clinic = clinic.env("HTTPS_PROXY", "http://user:CaNaRy-proxy@proxy.test:3128");
        clinic.run_doctor().await.has(
            ("warn", "process", "proxy"),
            &["HTTPS_PROXY is set", "does not use it", "proxy: none"],
        );
        clinic.folder.write("catalog.yaml", &near);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "process", "proxy"), &[&unused("HTTPS_PROXY")]);
        for more in [", proxy: none", ", enabled: false"] {
            clinic.folder.write("catalog.yaml", catalog(&outside(more)));
            clinic
                .run_doctor()
                .await
                .has(("ok", "process", "proxy"), &[&unused("HTTPS_PROXY")]);
        }
        clinic.folder.write("catalog.yaml", &near);
        clinic.server("", "upstream_proxy: environment");
        clinic.run_doctor().await.exits(0).has(
            ("ok", "process", "proxy"),
            &["are used, as `upstream_proxy` says"],
        );
    });
}

#[test]
fn doctor_reports_pods_that_end_before_their_gateway() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        assert!(
            clinic
                .run_doctor()
                .await
                .all()
                .iter()
                .all(|one| one["check"] != "stop")
        );
        let clinic = clinic.env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        let words = [
            "a stop takes up to 33 s",
            "Kubernetes waits for 30 s",
            "`terminationGracePeriodSeconds`",
        ];
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("skip", "process", "stop"), &words);
        clinic.server("", "drain: { delay: 0s, grace: 20s }");
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "process", "stop"), &["a stop takes up to 28 s"]);
    });
}

#[test]
fn doctor_reports_listeners_that_are_taken_or_not_here() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .is_well("listener", "address");
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        clinic.server("", &format!("listen: [{{ address: \"{taken}\" }}]"));
        let holder = format!("(process {}), and no gateway", std::process::id());
        let words = [
            "is in use by ",
            &*holder,
            "stop it, or write another address",
        ];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", &taken.to_string(), "address"), &words);
        let port = free_port().port();
        let (all, one) = (format!("0.0.0.0:{port}"), format!("127.0.0.1:{port}"));
        clinic.server(
            "",
            &format!("listen: [{{ address: \"{all}\" }}]\nadmin: {{ address: \"{one}\" }}"),
        );
        let words = ["cannot listen on it beside 0.0.0.0:", "another port"];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("ok", &all, "address"), &[])
            .has(("fail", &one, "address"), &words);
        clinic.server("", "listen: [{ address: \"192.0.2.1:8080\" }]");
        clinic.run_doctor().await.exits(2).has(
            ("fail", "192.0.2.1:8080", "address"),
            &["this machine has no such address"],
        );
    });
}

#[test]
fn doctor_tells_gateways_of_this_folder_from_others() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(catalog(
            &account(&mock.base_url(), "").replace("{ env: DOCTOR_KEY }", "k-0123456789"),
        ))
        .await;
        let clinic = Clinic::over(&mock);
        // It shares the addresses of the gateway, but not its folder.
        let at = format!(
            "listen: [{{ address: \"{}\" }}]\nadmin: {{ address: \"{}\" }}",
            gateway.address, gateway.admin
        );
        clinic.server("", &at);
        let words = ["serves another folder"];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", &gateway.admin.to_string(), "address"), &words);
        let mut command = Command::new(crate::support::gateway::BINARY);
        command
            .args(["doctor", "--conf"])
            .arg(&gateway.conf)
            .current_dir(gateway.conf.parent().unwrap());
        let (_, text) = Clinic::end(crate::support::process::Process::spawn(&mut command));
        let line = text
            .lines()
            .find(|line| line.contains(&gateway.address.to_string()))
            .unwrap_or_default();
        assert!(
            line.starts_with("ok") && line.contains("a gateway runs on this folder"),
            "{text}"
        );
        assert!(text.contains("can be read and written"), "{text}");
        // The instance has a problem as soon as its model has no target that works.
        let status = format!("http://{}", gateway.admin);
        let said = clinic.examine(&["--status", &status]).await;
        said.has(("ok", "instance", "status"), &["is ready"])
            .has(("ok", "instance", "problems"), &["has no problems"]);
        mock.always(Script::error(401, "no"));
        assert_ne!(gateway.post(&chat("m")).await.status, 200);
        crate::problems::comes(&gateway, "model_unfit").await;
        let said = clinic.examine(&["--status", &status]).await;
        said.exits(2).has(("fail", "model", "model_unfit"), &["m"]);
        let said = clinic.examine(&["--status", "http://127.0.0.1:1"]).await;
        said.exits(2)
            .has(("fail", "instance", "status"), &["does not answer"]);
    });
}

/// The addresses of a gateway that runs are compared with those that it was started with. Whoever
/// is not known is not called another program.
#[test]
fn doctor_judges_a_taken_address_while_the_gateway_runs() {
    run(async {
        let mock = Mock::start().await;
        let text =
            catalog(&account(&mock.base_url(), "").replace("{ env: DOCTOR_KEY }", "k-0123456789"));
        let gateway = Gateway::with(text)
            .server("admin: { address: \"{admin}\", key: { file: admin-key } }")
            .file("admin-key", crate::support::canary::ADMIN_KEY)
            .start()
            .await;
        let look = |key: &str| {
            let mut command = Command::new(crate::support::gateway::BINARY);
            command
                .args(["doctor", "--conf"])
                .arg(&gateway.conf)
                .current_dir(gateway.conf.parent().unwrap());
            command.env("PORTCULLIS_ADMIN_KEY", key);
            Clinic::end(crate::support::process::Process::spawn(&mut command)).1
        };
        let has = |text: &str, state: &str, address: std::net::SocketAddr, words: &str| {
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = format!("{state} {address} address {words}");
            assert!(flat.contains(&line), "no {line} in {text}");
        };
        let runs = "is in use, and a gateway runs on this folder";
        let said = look(crate::support::canary::ADMIN_KEY);
        has(&said, "ok", gateway.address, runs);
        has(&said, "ok", gateway.admin, runs);
        let said = look("another-key-0123456789");
        let unknown = "is in use, and it is not known whether by the gateway on this folder";
        has(&said, "warn", gateway.address, unknown);
        has(&said, "warn", gateway.admin, unknown);
        assert!(
            said.contains("PORTCULLIS_ADMIN_KEY") && !said.contains("another program"),
            "{said}"
        );
        // Another program has the address that was written since the start.
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        let path = gateway.conf.join("server.yaml");
        let written = std::fs::read_to_string(&path).unwrap();
        std::fs::write(
            &path,
            written.replace(&gateway.address.to_string(), &taken.to_string()),
        )
        .unwrap();
        let said = look(crate::support::canary::ADMIN_KEY);
        has(
            &said,
            "warn",
            taken,
            "is in use. A gateway runs on this folder, but it was started with another `listen`",
        );
        has(&said, "ok", gateway.admin, runs);
    });
}

#[test]
fn certificates_of_listeners() {
    run(async {
        let mock = Mock::start().await;
        let (clinic, ca) = (Clinic::over(&mock), Ca::new());
        clinic.server(", tls: { cert: cert.pem, key: key.pem }", "");
        let with = |leaf: &Leaf, key: &Leaf| {
            clinic.folder.write("cert.pem", &leaf.cert);
            clinic.folder.write("key.pem", &key.key);
        };
        let good = ca.leaf();
        with(&good, &good);
        clinic.run_doctor().await.exits(0).has(
            ("ok", "listener", "certificate"),
            &["for localhost, 127.0.0.1"],
        );
        with(&good, &ca.leaf());
        clinic.run_doctor().await.exits(2).has(
            ("fail", "listener", "certificate"),
            &["do not belong together", "its own key"],
        );
        let cut = &good.cert[..good.cert.len() / 2];
        clinic.folder.write("cert.pem", cut);
        let words = ["is cut off in the middle of a certificate"];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "listener", "certificate"), &words);
        with(&good, &good);
        open_to_all(&clinic, "key.pem");
        let words = ["key.pem: holds a secret", "chmod o-r"];
        clinic
            .run_doctor()
            .await
            .exits(1)
            .has(("warn", "configuration", "files"), &words);
        let expired = ca.expired();
        with(&expired, &expired);
        clinic.run_doctor().await.exits(2).has(
            ("fail", "listener", "certificate"),
            &["which expired at 2001-01-01", "SIGHUP"],
        );
        let soon = ca.ends_in(10);
        with(&soon, &soon);
        clinic.run_doctor().await.exits(1).has(
            ("warn", "listener", "certificate"),
            &["which expires in", "SIGHUP"],
        );
    });
}

#[test]
fn listeners_that_strangers_reach() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .is_well("listener", "exposure")
            .is_well("configuration", "demo key");
        let open = format!("0.0.0.0:{}", free_port().port());
        clinic.server("", &format!("admin: {{ address: \"{open}\" }}"));
        clinic.run_doctor().await.exits(1).has(
            ("warn", &open, "exposure"),
            &["asks for no key", "admin: { key:"],
        );
        clinic.server(
            "",
            &format!("admin: {{ address: \"{open}\", key: {{ file: admin-key }} }}"),
        );
        clinic
            .folder
            .write("admin-key", crate::support::canary::ADMIN_KEY);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", &open, "exposure"), &["asks for its key"]);
        clinic.server("", &format!("listen: [{{ address: \"{open}\" }}]"));
        let published = crate::support::canary::hash("sk-demo-portcullis-published");
        clinic.folder.write(
            "catalog.d/demo.yaml",
            format!("callers:\n  demo: {{ keys: {{ k: {{ hash: \"{published}\" }} }} }}\n"),
        );
        clinic.run_doctor().await.exits(2).has(
            ("fail", "configuration", "demo key"),
            &["demo/k is the published demo key"],
        );
    });
}

#[test]
fn a_ledger_that_cannot_be_read_or_made() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .is_well("ledger", "file")
            .is_well("ledger", "disk");
        clinic.folder.write(
            "ledger.sqlite",
            "this is no database, and it is long enough to be taken for one".repeat(20),
        );
        clinic.run_doctor().await.exits(2).has(
            ("fail", "ledger", "file"),
            &["not a database", "move the file away"],
        );
        clinic.server("", "ledger: { path: /proc/nobody/ledger.sqlite }");
        clinic.run_doctor().await.exits(2).has(
            ("fail", "ledger", "disk"),
            &["no file can be made in /proc", "ledger.path"],
        );
        clinic.server("", "ledger: { enabled: false }");
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("skip", "ledger", "file"), &["ledger.enabled"]);
    });
}

/// A pipe would hold the command until somebody reads it.
#[test]
fn a_ledger_in_whose_place_something_else_is() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        let file = ("fail", "ledger", "file");
        let at = |path: &str| {
            clinic.server(
                "",
                &format!("ledger: {{ path: {:?} }}", clinic.folder.path().join(path)),
            )
        };
        // `serve` takes an empty file for a new one.
        clinic.folder.write("empty.sqlite", "");
        at("empty.sqlite");
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "ledger", "file"), &["can be read and written"]);
        std::os::unix::fs::symlink("/nowhere/at/all", clinic.folder.path().join("link")).unwrap();
        at("link/ledger.sqlite");
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(file, &["cannot be made", "is a link to nothing"]);
        at("empty.sqlite/ledger.sqlite");
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(file, &["cannot be made", "empty.sqlite is no folder"]);
        at("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(clinic.folder.path().join("pipe"))
                .status()
                .unwrap()
                .success()
        );
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(file, &["pipe is no file", "`ledger.path`"]);
    });
}

/// The system would end the command with a signal.
#[test]
fn a_limit_of_the_size_of_files() {
    run(async {
        let mock = Mock::start().await;
        let mut clinic = Clinic::over(&mock);
        clinic.before = "ulimit -f 100; ".to_owned();
        let words = [
            "could be written",
            "File too large",
            "`ulimit -f`, `LimitFSIZE=`",
        ];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "ledger", "disk"), &words)
            .is_well("a", "credential");
    });
}

/// The gateway does not start without its access log.
#[test]
fn an_access_log_that_cannot_be_opened() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        assert!(
            clinic
                .run_doctor()
                .await
                .all()
                .iter()
                .all(|one| one["subject"]["kind"] != "access log")
        );
        let at = |path: &str| {
            clinic.server(
                "",
                &format!("log: {{ access: {:?} }}", clinic.folder.path().join(path)),
            );
        };
        at("access.log");
        clinic.run_doctor().await.exits(0).has(
            ("ok", "access log", "file"),
            &["is not there yet: `serve` makes it"],
        );
        assert!(
            !clinic.folder.path().join("access.log").exists(),
            "nothing is made"
        );
        clinic.folder.write("access.log", "");
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "access log", "file"), &["can be written"]);
        for (path, why) in [
            ("nowhere/access.log", "No such file or directory"),
            ("access.log/x", "Not a directory"),
        ] {
            at(path);
            let words = [
                "cannot be opened",
                why,
                "does not start without it",
                "`log.access`",
            ];
            clinic
                .run_doctor()
                .await
                .exits(2)
                .has(("fail", "access log", "file"), &words);
        }
        at(".");
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "access log", "file"), &["it is a folder"]);
    });
}

#[test]
fn a_full_disk() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "ledger", "disk"), &["16 MiB could be written"]);
        let Some(disk) = crate::ledger::Disk::new(&clinic.folder.path().join("disk")) else {
            assert!(!crate::ledger::may_mount(), "root could not mount a disk");
            eprintln!("SKIPPED: no disk can be mounted here");
            return;
        };
        clinic.server(
            "",
            &format!(
                "ledger: {{ path: {:?} }}",
                disk.path().join("ledger.sqlite")
            ),
        );
        clinic.run_doctor().await.exits(2).has(
            ("fail", "ledger", "disk"),
            &["KiB could be written", "No space left", "free some space"],
        );
        let left: Vec<_> = std::fs::read_dir(disk.path()).unwrap().collect();
        assert!(left.is_empty(), "the look leaves nothing behind: {left:?}");
    });
}
