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
        clinic.look().await.exits(0).is_well("configuration", "files");
        clinic.folder.write("catalog.d/x.yaml", "accounts:\n  b: { dialect: opneai }\n");
        let said = clinic.look().await;
        said.exits(2).has(("fail", "configuration", "files"), &["catalog.d/x.yaml:2", "opneai", "does not start"]);
        said.has(("skip", "configuration", "catalog"), &[]).is_well("ledger", "disk");
        // A secret that is missing keeps nobody from looking at the server.
        clinic.folder.write("catalog.d/x.yaml", "{}");
        clinic.env.clear();
        let said = clinic.look().await;
        said.exits(2).has(("fail", "configuration", "files"), &["environment variable"]);
        said.is_well("a", "tcp").has(("skip", "a", "credential"), &["could not be read"]);
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
        clinic.folder.write("key", crate::support::canary::ACCOUNT_KEY);
        clinic.look().await.exits(0);
        std::fs::set_permissions(clinic.folder.path().join("key"), PermissionsExt::from_mode(0o644)).unwrap();
        clinic.look().await.exits(1).has(("warn", "configuration", "files"), &["key: holds a secret", "chmod o-r"]);
    });
}

#[test]
fn too_few_open_files_and_too_little_memory() {
    run(async {
        let mock = Mock::start().await;
        let mut clinic = Clinic::over(&mock);
        let said = clinic.look().await;
        said.exits(0).is_well("process", "open files").is_well("process", "memory").is_well("process", "proxy");
        clinic.before = "ulimit -n 130; ".to_owned();
        let words = ["130 files open", "may need 164", "beyond about 33 callers", "LimitNOFILE="];
        clinic.look().await.exits(1).has(("warn", "process", "open files"), &words);
        clinic.before.clear();
        clinic.server("", "limits: { connections: 50, buffered_total: 1000GiB }");
        let words = ["`limits.buffered_total` is 1000 GiB", "to a third"];
        clinic.look().await.exits(2).has(("fail", "process", "memory"), &words);
    });
}

#[test]
fn proxies_of_the_environment() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.look().await.exits(0).is_well("process", "proxy");
        let clinic = clinic.env("ALL_PROXY", "http://proxy.test:3128");
        let words = ["ALL_PROXY is set, which the gateway never reads", "HTTPS_PROXY"];
        clinic.look().await.exits(1).has(("warn", "process", "proxy"), &words);
        let clinic = clinic.env("HTTPS_PROXY", "http://user:CaNaRy-proxy@proxy.test:3128");
        clinic.look().await.exits(1).has(("warn", "process", "proxy"), &["HTTPS_PROXY is set", "does not use it"]);
        clinic.server("", "upstream_proxy: environment");
        clinic.look().await.exits(0).is_well("process", "proxy");
    });
}

#[test]
fn a_listener_that_is_taken_and_one_that_this_machine_does_not_have() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.look().await.exits(0).is_well("listener", "address");
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        clinic.server("", &format!("listen: [{{ address: \"{taken}\" }}]"));
        let words = ["is in use, and no gateway on this folder was found", "ss -ltnp", "write another address"];
        clinic.look().await.exits(2).has(("fail", &taken.to_string(), "address"), &words);
        clinic.server("", "listen: [{ address: \"192.0.2.1:8080\" }]");
        clinic.look().await.exits(2).has(("fail", "192.0.2.1:8080", "address"), &["this machine has no such address"]);
    });
}

#[test]
fn a_gateway_that_runs_on_the_folder_and_one_that_runs_on_another() {
    run(async {
        let mock = Mock::start().await;
        let gateway =
            Gateway::start(catalog(&account(&mock.base_url(), "").replace("{ env: DOCTOR_KEY }", "k-0123456789")))
                .await;
        let clinic = Clinic::over(&mock);
        // It shares the addresses of the gateway, but not its folder.
        let at =
            format!("listen: [{{ address: \"{}\" }}]\nadmin: {{ address: \"{}\" }}", gateway.address, gateway.admin);
        clinic.server("", &at);
        let words = ["serves another folder"];
        clinic.look().await.exits(2).has(("fail", &gateway.admin.to_string(), "address"), &words);
        let mut command = Command::new(crate::support::gateway::BINARY);
        command.args(["doctor", "--conf"]).arg(&gateway.conf).current_dir(gateway.conf.parent().unwrap());
        let (_, text) = Clinic::end(crate::support::process::Process::spawn(&mut command));
        let line = text.lines().find(|line| line.contains(&gateway.address.to_string())).unwrap_or_default();
        assert!(line.starts_with("ok") && line.contains("a gateway runs on this folder"), "{text}");
        assert!(text.contains("can be read and written"), "{text}");
        // The instance has a problem as soon as its model has no target that works.
        let status = format!("http://{}", gateway.admin);
        let said = clinic.examine(&["--status", &status]).await;
        said.has(("ok", "instance", "status"), &["is ready"]).has(("ok", "instance", "problems"), &["has no problems"]);
        mock.always(Script::error(401, "no"));
        assert_ne!(gateway.post(&chat("m")).await.status, 200);
        crate::problems::comes(&gateway, "model_unfit").await;
        let said = clinic.examine(&["--status", &status]).await;
        said.exits(2).has(("fail", "model", "model_unfit"), &["m"]);
        let said = clinic.examine(&["--status", "http://127.0.0.1:1"]).await;
        said.exits(2).has(("fail", "instance", "status"), &["does not answer"]);
    });
}

/// The addresses of a gateway that runs are compared with those that it was started with. Whoever
/// is not known is not called another program.
#[test]
fn an_address_that_is_taken_while_the_gateway_runs_is_its_own_or_not_known() {
    run(async {
        let mock = Mock::start().await;
        let text = catalog(&account(&mock.base_url(), "").replace("{ env: DOCTOR_KEY }", "k-0123456789"));
        let gateway = Gateway::with(text)
            .server("admin: { address: \"{admin}\", key: { file: admin-key } }")
            .file("admin-key", crate::support::canary::ADMIN_KEY)
            .start()
            .await;
        let look = |key: &str| {
            let mut command = Command::new(crate::support::gateway::BINARY);
            command.args(["doctor", "--conf"]).arg(&gateway.conf).current_dir(gateway.conf.parent().unwrap());
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
        assert!(said.contains("PORTCULLIS_ADMIN_KEY") && !said.contains("another program"), "{said}");
        // Another program has the address that was written since the start.
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        let path = gateway.conf.join("server.yaml");
        let written = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, written.replace(&gateway.address.to_string(), &taken.to_string())).unwrap();
        let said = look(crate::support::canary::ADMIN_KEY);
        has(&said, "warn", taken, "is in use. A gateway runs on this folder, but it was started with another `listen`");
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
        clinic.look().await.exits(0).has(("ok", "listener", "certificate"), &["for localhost, 127.0.0.1"]);
        with(&good, &ca.leaf());
        clinic
            .look()
            .await
            .exits(2)
            .has(("fail", "listener", "certificate"), &["do not belong together", "its own key"]);
        let expired = ca.expired();
        with(&expired, &expired);
        clinic
            .look()
            .await
            .exits(2)
            .has(("fail", "listener", "certificate"), &["which expired at 2001-01-01", "SIGHUP"]);
        let soon = ca.ends_in(10);
        with(&soon, &soon);
        clinic.look().await.exits(1).has(("warn", "listener", "certificate"), &["which expires in", "SIGHUP"]);
    });
}

#[test]
fn listeners_that_strangers_reach() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.look().await.exits(0).is_well("listener", "exposure").is_well("configuration", "demo key");
        let open = format!("0.0.0.0:{}", free_port().port());
        clinic.server("", &format!("admin: {{ address: \"{open}\" }}"));
        clinic.look().await.exits(1).has(("warn", &open, "exposure"), &["asks for no key", "admin: { key:"]);
        clinic.server("", &format!("admin: {{ address: \"{open}\", key: {{ file: admin-key }} }}"));
        clinic.folder.write("admin-key", crate::support::canary::ADMIN_KEY);
        clinic.look().await.exits(0).has(("ok", &open, "exposure"), &["asks for its key"]);
        clinic.server("", &format!("listen: [{{ address: \"{open}\" }}]"));
        let published = crate::support::canary::hash("sk-demo-portcullis-published");
        clinic.folder.write(
            "catalog.d/demo.yaml",
            format!("callers:\n  demo: {{ keys: {{ k: {{ hash: \"{published}\" }} }} }}\n"),
        );
        clinic.look().await.exits(2).has(("fail", "configuration", "demo key"), &["demo/k is the published demo key"]);
    });
}

#[test]
fn a_ledger_that_cannot_be_read_or_made() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.look().await.exits(0).is_well("ledger", "file").is_well("ledger", "disk");
        clinic
            .folder
            .write("ledger.sqlite", "this is no database, and it is long enough to be taken for one".repeat(20));
        clinic.look().await.exits(2).has(("fail", "ledger", "file"), &["not a database", "move the file away"]);
        clinic.server("", "ledger: { path: /proc/nobody/ledger.sqlite }");
        clinic.look().await.exits(2).has(("fail", "ledger", "disk"), &["no file can be made in /proc", "ledger.path"]);
        clinic.server("", "ledger: { enabled: false }");
        clinic.look().await.exits(0).has(("skip", "ledger", "file"), &["ledger.enabled"]);
    });
}

#[test]
fn a_full_disk() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.look().await.exits(0).has(("ok", "ledger", "disk"), &["16 MiB could be written"]);
        let Some(disk) = crate::ledger::Disk::new(&clinic.folder.path().join("disk")) else {
            assert!(!crate::ledger::may_mount(), "root could not mount a disk");
            eprintln!("SKIPPED: no disk can be mounted here");
            return;
        };
        clinic.server("", &format!("ledger: {{ path: {:?} }}", disk.path().join("ledger.sqlite")));
        clinic
            .look()
            .await
            .exits(2)
            .has(("fail", "ledger", "disk"), &["KiB could be written", "No space left", "free some space"]);
        let left: Vec<_> = std::fs::read_dir(disk.path()).unwrap().collect();
        assert!(left.is_empty(), "the look leaves nothing behind: {left:?}");
    });
}
