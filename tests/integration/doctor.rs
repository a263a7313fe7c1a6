//! `portcullis doctor`: broken set-ups, each found and named, and each beside the healthy set-up in
//! which the same line says that all is well.

mod accounts;
mod ask;
mod local;
mod store;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::canary::{self, ACCOUNT_KEY, KEY, hash};
use crate::support::folder::Folder;
use crate::support::gateway::{BINARY, free_port};
use crate::support::process::Process;
use crate::support::{Mock, Script, mock::Request};

/// The longest time for a whole look on a busy machine.
const PATIENCE: Duration = Duration::from_secs(50);

/// The variables that the surroundings of a test may have set.
const SURROUNDINGS: [&str; 9] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "KUBERNETES_SERVICE_HOST",
];

/// A folder with a configuration, and what `doctor` is started with.
struct Clinic {
    folder: Folder,
    /// Lines of the shell before the program.
    before: String,
    env: Vec<(String, String)>,
}

/// A run of `doctor`, and what it printed.
struct DoctorRun {
    code: i32,
    text: String,
    json: Value,
}

/// The accounts of a catalog whose model `m` is served by `a`.
fn catalog(accounts: &str) -> String {
    let caller = hash(KEY);
    format!(
        "accounts:\n{accounts}\nmodels:\n  m: {{ targets: [{{ account: a, model: gpt-test, price: {{ input: 1, output: 2 }} }}] }}\ncallers:\n  acme: {{ keys: {{ prod: {{ hash: \
         \"{caller}\" }} }} }}\n"
    )
}

/// An account `a` at this address.
fn account(base_url: &str, more: &str) -> String {
    format!(
        "  a: {{ dialect: openai, base_url: \"{base_url}\", key: {{ env: DOCTOR_KEY }}, timeouts: {{ connect: 2s }}{more} }}"
    )
}

impl Clinic {
    /// Makes a healthy configuration with this catalog. Its gateway is not started.
    fn new(catalog: &str) -> Clinic {
        let folder = Folder::new(&[("catalog.yaml", catalog)]);
        let clinic = Clinic {
            folder,
            before: String::new(),
            env: vec![("DOCTOR_KEY".to_owned(), ACCOUNT_KEY.to_owned())],
        };
        clinic.server("", "");
        clinic
    }

    /// Makes one over an upstream that is as it should be.
    fn over(mock: &Mock) -> Clinic {
        lists(mock, &["gpt-test", "gpt-other"]);
        Clinic::new(&catalog(&account(&mock.base_url(), "")))
    }

    /// Writes `server.yaml` with free addresses. `more` replaces the key of the test's own that it
    /// begins with, and `listen` adds to the listener.
    fn server(&self, listen: &str, more: &str) {
        let mut text = String::new();
        let path = self.folder.path().join("ledger.sqlite");
        let ours = [
            (
                "listen",
                format!("listen: [{{ address: \"{}\"{listen} }}]\n", free_port()),
            ),
            (
                "admin",
                format!("admin: {{ address: \"{}\" }}\n", free_port()),
            ),
            (
                "limits",
                "limits: { connections: 50, buffered_total: 64MiB }\n".to_owned(),
            ),
            ("ledger", format!("ledger: {{ path: {path:?} }}\n")),
        ];
        for (key, line) in ours {
            if !more
                .lines()
                .any(|line| line.starts_with(&format!("{key}:")))
            {
                text.push_str(&line);
            }
        }
        self.folder.write("server.yaml", format!("{text}{more}\n"));
    }

    fn env(mut self, name: &str, value: &str) -> Clinic {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    fn start(&self, arguments: &[&str]) -> Process {
        // A script starts its background jobs with SIGINT ignored, and all below them inherit that.
        // The program must have the default, as in a terminal.
        let mut command = Command::new("env");
        command.args([
            "--default-signal=INT",
            "sh",
            "-c",
            &format!("{}exec \"$0\" \"$@\"", self.before),
            BINARY,
            "doctor",
            "--conf",
        ]);
        command
            .arg(self.folder.path())
            .args(arguments)
            .current_dir(self.folder.path());
        for name in SURROUNDINGS {
            command.env_remove(name);
        }
        Process::spawn(command.envs(self.env.iter().cloned()))
    }

    fn end(mut process: Process) -> (i32, String) {
        let status = process
            .wait(PATIENCE)
            .unwrap_or_else(|| panic!("it does not end: {}", process.stderr()));
        let (out, err) = (
            String::from_utf8_lossy(&process.stdout()).into_owned(),
            process.stderr(),
        );
        canary::check("its output", format!("{out}{err}").as_bytes())
            .expect("no secret in any output");
        (status.code().unwrap_or(-1), format!("{out}{err}"))
    }

    /// Runs it twice: for people, and for programs. Both say the same.
    async fn examine(&self, arguments: &[&str]) -> DoctorRun {
        let run = |arguments: &[&str]| {
            tokio::task::spawn_blocking({
                let process = self.start(arguments);
                || Self::end(process)
            })
        };
        let (code, text) = run(arguments).await.expect("it ends");
        let (other, json) = run(&[arguments, &["--json"]].concat())
            .await
            .expect("it ends");
        let json: Value = serde_json::from_str(&json).unwrap_or_else(|why| panic!("{why}: {json}"));
        assert_eq!(code, other, "{text}\n{json}");
        DoctorRun { code, text, json }
    }

    async fn run_doctor(&self) -> DoctorRun {
        self.examine(&[]).await
    }
}

impl DoctorRun {
    fn all(&self) -> &[Value] {
        self.json["checks"].as_array().expect("checks")
    }

    /// Checks that there is a line of this state about this check of a subject, with these words in
    /// what was seen or what to do.
    #[track_caller]
    fn has(&self, (state, subject, check): (&str, &str, &str), words: &[&str]) -> &DoctorRun {
        let is_it = |one: &&Value| {
            one["state"] == state
                && one["subject"]["name"]
                    .as_str()
                    .is_some_and(|name| name == subject || one["subject"]["kind"] == subject)
                && one["check"] == check
        };
        let told = |one: &Value| {
            format!(
                "{} {}",
                one["seen"].as_str().unwrap(),
                one["do"].as_str().unwrap_or_default()
            )
        };
        let found = self
            .all()
            .iter()
            .filter(is_it)
            .any(|one| words.iter().all(|word| told(one).contains(word)));
        assert!(
            found,
            "no {state} {subject} {check} with {words:?} in\n{}",
            self.text
        );
        // The text says it in the same words, whatever its lines are.
        let flat = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words
                .iter()
                .all(|word| flat.contains(&word.split_whitespace().collect::<Vec<_>>().join(" "))),
            "{}",
            self.text
        );
        self
    }

    /// Checks that this line says that all is well.
    #[track_caller]
    fn is_well(&self, subject: &str, check: &str) -> &DoctorRun {
        self.has(("ok", subject, check), &[])
    }

    /// Checks the exit code, and that the counts agree with it.
    #[track_caller]
    fn exits(&self, code: i32) -> &DoctorRun {
        assert_eq!(self.code, code, "{}", self.text);
        let count = |state: &str| {
            self.all()
                .iter()
                .filter(|one| one["state"] == state)
                .count()
        };
        for state in ["ok", "warn", "fail", "skip"] {
            assert_eq!(self.json[state], count(state), "{}", self.text);
        }
        let expected = if count("fail") > 0 {
            2
        } else {
            i32::from(count("warn") > 0)
        };
        assert_eq!(code, expected, "{}", self.text);
        self
    }
}

/// Returns whether a request has a credential.
fn has_key(request: &Request) -> bool {
    request
        .fields
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

/// Lets an upstream list these models, with the right time in its head.
fn lists(mock: &Mock, models: &[&str]) {
    lists_at(mock, models, Duration::ZERO);
}

/// Does the same with a clock that is ahead.
fn lists_at(mock: &Mock, models: &[&str], ahead: Duration) {
    let data: Vec<Value> = models
        .iter()
        .map(|id| serde_json::json!({ "id": id }))
        .collect();
    let list = serde_json::json!({ "object": "list", "data": data });
    mock.by(move |request| {
        // A free look asks for nothing that anybody charges for.
        assert!(
            matches!(
                (&*request.method, request.body.as_slice()),
                ("GET", b"") | ("POST", b"[]")
            ),
            "{request:?}"
        );
        // Some servers refuse any other id.
        let id = request.field("x-request-id").expect("an id");
        assert!(uuid::Uuid::try_parse(id).is_ok(), "{id}");
        let date = httpdate::fmt_http_date(std::time::SystemTime::now() + ahead);
        if request.target == "/v1/models" && !has_key(request) {
            Script::error(401, "no key").with("date", &date)
        } else if request.target == "/v1/models" {
            Script::json(200, &list).with("date", &date)
        } else if request.target == "/v1/chat/completions" {
            Script::error(400, "you must provide a model parameter").with("date", &date)
        } else {
            Script::error(404, "not here").with("date", &date)
        }
    });
}

/// Checks that a free look finds a list of models and chat at a server that needs no key.
pub async fn serves_chat(base_url: &str) {
    let said = Clinic::new(&catalog(&account(base_url, "")))
        .run_doctor()
        .await;
    said.has(("skip", "a", "credential"), &["is public"])
        .has(("ok", "a", "endpoints"), &["chat"]);
}

const HEALTHY: &str = "\
ok    configuration    files          .: 2 files, 1 account, 1 model, 1 caller, 1 key
ok    configuration    environment    read from this shell: DOCTOR_KEY. A gateway that runs keeps the values
                                      of its own start
ok    configuration    demo key       the published demo key opens nothing to strangers
ok    process          open files     a gateway started from here may have 1024 files open: so callers have up
                                      to 50 connections at once
ok    process          proxy          no variable names a proxy
ok    CALLERS          address        is free
ok    ADMIN            address        is free
ok    ADMIN            exposure       the admin listener is reached from this machine only
ok    ledger           file           ledger.sqlite is not there yet: `serve` makes it
ok    a                tcp            UPSTREAM answers
ok    a                credential     its list of models comes with this key
ok    a                models         1 of 1 models of the catalog are in the provider's list of 2
ok    a                endpoints      chat: the server has what the gateway asks for
ok    clock            time           agrees with 127.0.0.1

16 checks: 16 ok, 0 warn, 0 fail, 0 skipped
";

/// The whole output, but for the memory and the disk of this machine.
#[test]
fn a_healthy_set_up_is_told_in_these_lines() {
    crate::support::run(async {
        let mock = Mock::start().await;
        lists(&mock, &["gpt-test", "gpt-other"]);
        let mut clinic = Clinic::new(&catalog(&account(&mock.base_url(), ", serves: [chat]")));
        let (callers, admin) = (free_port(), free_port());
        let addresses =
            format!("listen: [{{ address: \"{callers}\" }}]\nadmin: {{ address: \"{admin}\" }}");
        clinic.server(
            "",
            &format!("{addresses}\nledger: {{ path: ledger.sqlite }}"),
        );
        clinic.before = "ulimit -n 1024; ".to_owned();
        let script = format!("{}exec {BINARY} doctor --conf .", clinic.before);
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .current_dir(clinic.folder.path())
            .envs(clinic.env.iter().cloned());
        for name in SURROUNDINGS {
            command.env_remove(name);
        }
        let process = Process::spawn(&mut command);
        let ended = tokio::task::spawn_blocking(|| Clinic::end(process));
        let (code, mut text) = ended.await.expect("it ends");
        for (address, name) in [(callers, "CALLERS"), (admin, "ADMIN")] {
            let written = format!("{:<15}", address.to_string());
            text = text.replace(&written, &format!("{name:<15}"));
        }
        text = text.replace(&mock.address().to_string(), "UPSTREAM");
        let machine = [
            "ok    process          memory",
            "ok    ledger           disk           16 MiB could be written",
        ];
        let is_of_machine = |line: &&str| machine.iter().any(|begin| line.starts_with(begin));
        assert_eq!(text.lines().filter(is_of_machine).count(), 2, "{text}");
        let shown: String = text
            .lines()
            .filter(|line| !is_of_machine(line))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!((code, &*shown), (0, HEALTHY), "{text}");
    });
}

/// The names that programs read.
#[test]
fn the_json_has_these_members() {
    crate::support::run(async {
        let mock = Mock::start().await;
        let said = Clinic::over(&mock).run_doctor().await;
        let members = |value: &Value| {
            value
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(
            members(&said.json),
            ["checks", "fail", "ok", "skip", "warn"]
        );
        for check in said.all() {
            assert_eq!(members(check), ["check", "do", "seen", "state", "subject"]);
            assert_eq!(members(&check["subject"]), ["kind", "name"]);
        }
        let kinds: std::collections::BTreeSet<&str> = said
            .all()
            .iter()
            .map(|check| check["subject"]["kind"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds.into_iter().collect::<Vec<_>>(),
            [
                "account",
                "clock",
                "configuration",
                "ledger",
                "listener",
                "process"
            ]
        );
    });
}
