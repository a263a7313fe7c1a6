//! `portcullis init`: what it finds, asks, checks and writes, at a terminal and without one; and
//! that what it writes is served.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::{self, ACCOUNT_KEY};
use crate::support::client;
use crate::support::folder::{Folder, Ran};
use crate::support::gateway::{BINARY, free_port};
use crate::support::mock::Request;
use crate::support::process::Process;
use crate::support::{Gateway, Mock, Script, eventually_blocking, root, run};

/// The longest time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder in which the command runs, with an environment of its own.
struct Newcomer {
    folder: Folder,
    env: Vec<(String, String)>,
}

impl Newcomer {
    fn new() -> Newcomer {
        Newcomer {
            folder: Folder::new(&[]),
            env: Vec::new(),
        }
    }

    fn env(mut self, name: &str, value: &str) -> Newcomer {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.env.iter().cloned());
        command
    }

    /// Runs the program to its end. No key is in what it prints.
    fn run(&self, arguments: &[&str]) -> Ran {
        self.finish(self.command(BINARY).args(arguments))
    }

    fn finish(&self, command: &mut Command) -> Ran {
        let mut process = Process::spawn(command);
        let ended = process.wait(PATIENCE);
        let ran = Ran {
            status: ended.unwrap_or_else(|| panic!("it does not end: {}", process.stderr())),
            stdout: String::from_utf8_lossy(&process.stdout()).into_owned(),
            stderr: process.stderr(),
        };
        let printed = format!("{}{}", ran.stdout, ran.stderr);
        canary::check("its output", printed.as_bytes()).expect("no secret in any output");
        if let Some(key) = self.read("portcullis.key") {
            assert!(!printed.contains(key.trim()), "{printed}");
        }
        ran
    }

    /// Runs `init` without a terminal.
    fn init(&self, arguments: &[&str]) -> Ran {
        self.run(&[&["init"], arguments].concat())
    }

    /// Runs `init` at a terminal, with answers to its questions.
    fn init_at_terminal(&self, answers: &[(&str, &str)], arguments: &[&str]) -> Ran {
        let script = root().join("tests/integration/init/terminal.py");
        let mut command = self.command("python3");
        command.arg(script).arg(json!(answers).to_string());
        self.finish(command.args([BINARY, "init"]).args(arguments))
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join(path)).ok()
    }

    fn exists(&self, path: &str) -> bool {
        self.folder.path().join(path).exists()
    }

    /// Checks that nothing was written.
    #[track_caller]
    fn is_untouched(&self, ran: &Ran) {
        assert!(!ran.status.success(), "{}", ran.stdout);
        assert!(!self.exists("conf") && !self.exists("portcullis.key"));
    }

    /// Checks that all was written, that `check` finds nothing, and that only the owner can read
    /// the key. Returns the catalog.
    #[track_caller]
    fn has_written(&self, ran: &Ran) -> String {
        assert!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stderr, "");
        let checked = self.run(&["check"]);
        let fine = checked.stdout.contains("0 warnings") && checked.stderr.is_empty();
        assert!(fine, "{}{}", checked.stdout, checked.stderr);
        let key = std::fs::metadata(self.folder.path().join("portcullis.key"));
        assert_eq!(key.expect("a key").permissions().mode() & 0o777, 0o600);
        self.read("conf/catalog.yaml").expect("a catalog")
    }

    fn key(&self) -> String {
        let key = self.read("portcullis.key").expect("a key");
        assert!(key.starts_with("sk-") && key.ends_with('\n'));
        key.trim().to_owned()
    }
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

fn list_of(owner: &str, names: &[&str]) -> Script {
    let data: Vec<Value> = names
        .iter()
        .map(|name| json!({ "id": name, "object": "model", "owned_by": owner }))
        .collect();
    Script::json(200, &json!({ "object": "list", "data": data }))
}

/// What a provider with this key answers: its list, and a fault with empty requests.
fn answer_as_provider(request: &Request) -> Script {
    let key = format!("Bearer {ACCOUNT_KEY}");
    if request.field("authorization") != Some(&*key) {
        return Script::error(401, "wrong key");
    }
    if request.target == "/v1/models" {
        return list_of("openai", &["gpt-test", "text-embedding-test"]);
    }
    Script::error(400, "you must provide a model parameter")
}

/// What Ollama answers, with this model.
fn answer_as_ollama(request: &Request) -> Script {
    match &*request.target {
        "/api/tags" => Script::json(
            200,
            &json!({ "models": [{ "name": "tiny:1b", "model": "tiny:1b" }] }),
        ),
        "/v1/models" => list_of("library", &["tiny:1b"]),
        _ => Script::error(404, "not here"),
    }
}

#[test]
fn without_a_terminal_the_error_names_the_flags() {
    let newcomer = Newcomer::new().env("OPENAI_API_KEY", ACCOUNT_KEY);
    let ran = newcomer.init(&["--server", "none"]);
    newcomer.is_untouched(&ran);
    has(&ran.stdout, &["  1  openai  OPENAI_API_KEY is set"]);
    has(&ran.stderr, &["--yes", "--account", "--model", "--demo"]);
}

/// Nothing outside of the machine is asked, so the test needs no network.
#[test]
fn keys_of_the_environment_become_accounts() {
    let newcomer = Newcomer::new()
        .env("OPENAI_API_KEY", ACCOUNT_KEY)
        .env("GOOGLE_API_KEY", ACCOUNT_KEY)
        .env("DEEPSEEK_API_KEY", ACCOUNT_KEY)
        .env("AZURE_API_KEY", ACCOUNT_KEY);
    let ran = newcomer.init(&["--yes", "--server", "none"]);
    let catalog = newcomer.has_written(&ran);
    has(
        &ran.stdout,
        &[
            "azure is left out: AZURE_API_KEY is set, but AZURE_OPENAI_ENDPOINT is not",
            "openai, deepseek, gemini: not asked",
            "portcullis serve\n",
            "--key portcullis.key gpt-6-luna\n",
        ],
    );
    has(
        &catalog,
        &[
            "  openai: { preset: openai, key: { env: OPENAI_API_KEY } }\n",
            "  gemini: { dialect: gemini, key: { env: GOOGLE_API_KEY } }\n",
            "  gpt-6-luna: { targets: [{ account: openai }] }\n",
            "  \"deepseek/*\": { targets: [{ account: deepseek, model: \"*\" }] }\n",
        ],
    );
    assert!(!catalog.contains("azure:"), "{catalog}");
}

#[test]
fn flags_choose_accounts_models_names_and_files() {
    let newcomer = Newcomer::new()
        .env("OPENAI_API_KEY", ACCOUNT_KEY)
        .env("GROQ_API_KEY", ACCOUNT_KEY)
        .env("AZURE_OPENAI_API_KEY", ACCOUNT_KEY)
        .env("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/");
    let arguments = [
        "--server",
        "none",
        "--account",
        "groq,azure",
        "--model",
        "groq/*",
        "--model",
        "azure/prod",
        "--caller",
        "acme",
        "--key",
        "ci",
        "--conf",
        "a b/conf",
        "--key-file",
        "acme.key",
    ];
    let ran = newcomer.init(&arguments);
    assert!(ran.status.success(), "{}", ran.stderr);
    // The price of a deployment is not known, and `check` says so, too.
    has(
        &ran.stdout,
        &[
            "Note: catalog.yaml:",
            "serve --conf 'a b/conf'",
            "--key acme.key\n",
        ],
    );
    let catalog = newcomer.read("a b/conf/catalog.yaml").expect("a catalog");
    has(
        &catalog,
        &[
            "  azure: { dialect: azure, base_url: \"https://mine.openai.azure.com\", key: { env: AZURE_OPENAI_API_KEY } }\n",
            "  prod: { targets: [{ account: azure }] }\n",
            "  \"groq/*\": { targets: [{ account: groq, model: \"*\" }] }\n",
            "  acme:\n    keys:\n      ci:\n        hash: sha256:",
        ],
    );
    assert!(!catalog.contains("openai:"), "{catalog}");
    assert!(newcomer.exists("acme.key") && !newcomer.exists("conf"));
}

#[test]
fn what_cannot_be_used_is_an_error() {
    let newcomer = Newcomer::new().env("OPENAI_API_KEY", ACCOUNT_KEY);
    let closed = free_port().to_string();
    for (arguments, part) in [
        (&["--yes", "--account", "opanai"][..], "did you mean openai"),
        (
            &["--yes", "--account", "groq"],
            "by its key in the environment",
        ),
        (&["--yes", "--model", "a b"], "--model: a model id has"),
        (
            &["--yes", "--server", "nonsense:x"],
            "write an address such as",
        ),
        (&["--yes", "--server", &closed], "does not answer"),
        (&["--yes", "--caller", "a/b"], "--caller"),
        (
            &["--yes", "--key-file", "sk-0123456789abcdefghijklmnop"],
            "never a key",
        ),
        (&["--demo", "--online"], "cannot be used with"),
        (&["--yes", "--key-file", "."], "is a folder"),
    ] {
        let none = ["--server", "none"];
        let is_looking = arguments.contains(&"--server") || arguments.contains(&"--demo");
        let more = if is_looking { &[][..] } else { &none };
        let ran = newcomer.init(&[arguments, more].concat());
        newcomer.is_untouched(&ran);
        has(&ran.stderr, &[part]);
        assert!(!ran.stderr.contains("0123456789"), "{}", ran.stderr);
    }
}

/// A script would take the demo for its provider.
#[test]
fn an_unusable_key_does_not_lead_to_the_demo() {
    let newcomer = Newcomer::new().env("AZURE_OPENAI_API_KEY", ACCOUNT_KEY);
    let ran = newcomer.init(&["--yes", "--server", "none"]);
    newcomer.is_untouched(&ran);
    has(&ran.stdout, &["azure is left out", "AZURE_OPENAI_ENDPOINT"]);
    has(&ran.stderr, &["mend what is left out above", "--demo"]);
}

#[test]
fn a_proxy_of_the_environment_is_used_and_written() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = proxy.local_addr().expect("an address");
    let newcomer = Newcomer::new()
        .env("OPENAI_API_KEY", ACCOUNT_KEY)
        .env("HTTPS_PROXY", &format!("http://{address}"));
    let asked = std::thread::spawn(move || {
        let (mut caller, _) = proxy.accept().expect("a caller");
        let mut line = [0; 24];
        caller.read_exact(&mut line).expect("a request");
        String::from_utf8_lossy(&line).into_owned()
    });
    let ran = newcomer.init(&["--yes", "--online", "--server", "none"]);
    assert_eq!(asked.join().expect("a line"), "CONNECT api.openai.com:4");
    assert!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
    let server = newcomer.read("conf/server.yaml").expect("server.yaml");
    has(&server, &["\nupstream_proxy: environment # "]);
    // Without a proxy the line stands there to be used.
    let other = Newcomer::new();
    other.has_written(&other.init(&["--demo"]));
    let server = other.read("conf/server.yaml").expect("server.yaml");
    has(&server, &["\n# upstream_proxy: environment # "]);
}

/// Whoever reads the output has gone: the files are there all the same.
#[test]
fn an_output_that_nobody_reads_is_no_failure() {
    let newcomer = Newcomer::new();
    let mut command = newcomer.command("sh");
    command.args(["-c", &format!("exec {BINARY} init --demo >/dev/full")]);
    let ran = newcomer.finish(&mut command);
    newcomer.has_written(&ran);
}

#[test]
fn nothing_is_ever_overwritten() {
    let newcomer = Newcomer::new();
    newcomer.folder.write("portcullis.key", "mine");
    let ran = newcomer.init(&["--demo"]);
    assert!(!ran.status.success() && !newcomer.exists("conf"));
    has(
        &ran.stderr,
        &["exist already", "\n  portcullis.key\n", "--key-file"],
    );
    assert!(!ran.stderr.contains("serve"), "{}", ran.stderr);
    newcomer.folder.write("taken/catalog.yaml", "mine");
    let ran = newcomer.init(&["--demo", "--conf", "taken", "--key-file", "new.key"]);
    assert!(!ran.status.success() && !newcomer.exists("new.key"));
    has(&ran.stderr, &["\n  taken/catalog.yaml\n", "--conf"]);
    // All that is in the way is named at once.
    let ran = newcomer.init(&["--demo", "--conf", "taken"]);
    has(
        &ran.stderr,
        &[
            "\n  portcullis.key\n  taken/catalog.yaml\n",
            "To serve what is there: portcullis serve --conf taken\n",
        ],
    );
    let kept = ["portcullis.key", "taken/catalog.yaml"].map(|path| newcomer.read(path));
    assert_eq!(kept, [Some("mine".to_owned()), Some("mine".to_owned())]);
    // The key is written last: without its folder, the others go away again.
    newcomer.folder.write("file", "mine");
    let ran = newcomer.init(&["--demo", "--conf", "x/y/conf", "--key-file", "file/key"]);
    assert!(!ran.status.success() && !newcomer.exists("x"));
    has(&ran.stderr, &["Nothing was written: file/key"]);
    // An empty folder is no obstacle.
    std::fs::create_dir(newcomer.folder.path().join("conf")).expect("a folder");
    let ran = newcomer.init(&["--demo", "--key-file", "new.key"]);
    assert!(
        ran.status.success() && newcomer.exists("conf/catalog.yaml"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_launcher_names_the_command_to_run_again() {
    let newcomer = Newcomer::new().env("PORTCULLIS_COMMAND", "npx portcullis-gateway");
    let ran = newcomer.init(&["--demo"]);
    has(
        &ran.stdout,
        &[
            "\n  npx portcullis-gateway serve\n",
            "\n  npx portcullis-gateway try ",
        ],
    );
}

#[test]
fn credentials_of_clouds_are_written_by_their_names() {
    let service_account = include_str!("../support/service_account.json");
    let newcomer = Newcomer::new()
        .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7ABCDEFG")
        .env("AWS_SECRET_ACCESS_KEY", ACCOUNT_KEY)
        .env("AWS_REGION", "eu-west-1")
        .env("GOOGLE_APPLICATION_CREDENTIALS", "sa.json")
        .env("GOOGLE_CLOUD_PROJECT", "acme-prod");
    newcomer.folder.write("sa.json", service_account);
    let file = newcomer.folder.path().join("sa.json");
    let only_ours = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&file, only_ours).expect("it is ours");
    let claude = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";
    let of_bedrock = format!("bedrock/{claude}");
    let models = ["--model", &of_bedrock, "--model", "vertex/gemini-2.5-pro"];
    let ran = newcomer.init(&[&["--yes", "--server", "none"][..], &models].concat());
    newcomer.has_written(&ran);
    has(&ran.stdout, &["AWS_ACCESS_KEY_ID and AWS_REGION are set"]);
    let catalog = newcomer.read("conf/catalog.yaml").expect("a catalog");
    let expected = [
        "bedrock: { dialect: bedrock, region: eu-west-1, aws: { access_key_id: { env: AWS_ACCESS_KEY_ID }, secret_access_key: { env: \
         AWS_SECRET_ACCESS_KEY } } }",
        &format!(
            "service_account: {{ file: {:?} }}",
            file.display().to_string()
        ),
        &format!("{claude:?}: {{ targets: [{{ account: bedrock }}] }}"),
    ];
    has(&catalog, &expected);

    let newcomer = Newcomer::new().env("AWS_PROFILE", "work");
    let ran = newcomer.init(&["--yes", "--server", "none"]);
    newcomer.has_written(&ran);
    has(
        &ran.stdout,
        &["AWS_PROFILE is set", "aws configure export-credentials"],
    );
}

#[test]
fn commands_without_a_folder_name_init() {
    let newcomer = Newcomer::new();
    newcomer.folder.write("conf/server.yaml", "{}");
    for (command, conf) in [
        ("check", "./none"),
        ("serve", "./none"),
        ("check", "conf"),
        ("serve", "conf"),
    ] {
        let ran = newcomer.run(&[command, "--conf", conf]);
        has(&ran.stderr, &["`portcullis init`"]);
    }
}

#[test]
fn the_demo_is_served_with_its_key() {
    let newcomer = Newcomer::new();
    let ran = newcomer.init(&["--yes", "--server", "none"]);
    newcomer.has_written(&ran);
    has(
        &ran.stdout,
        &[
            "Found no key",
            "--key portcullis.key demo\n",
            "To use a provider",
        ],
    );
    let catalog = newcomer.read("conf/catalog.yaml").expect("a catalog");
    has(&catalog, &["# add the names of other models here"]);
    let [callers, admin] = [free_port(), free_port()];
    let server = newcomer.read("conf/server.yaml").expect("server.yaml");
    let lines = server
        .lines()
        .map(|line| match line.split_once("127.0.0.1:") {
            Some((before, _)) if before.starts_with("  -") => format!("{before}{callers}\n"),
            Some((before, _)) => format!("{before}{admin}\n"),
            None => format!("{line}\n"),
        });
    newcomer
        .folder
        .write("conf/server.yaml", lines.collect::<String>());
    let mut process = Process::spawn(newcomer.command(BINARY).arg("serve"));
    eventually_blocking("it is ready", || {
        let ready = newcomer.run(&["ready"]);
        ready.status.success().then_some(()).ok_or(ready.stderr)
    })
    .expect("it is ready");
    let curl = |key: &str| {
        let body = r#"{"model":"demo","messages":[{"role":"user","content":"Hello"}]}"#;
        let answer = run(async {
            let mut connection = client::Connection::plain(callers, None).await;
            let key = format!("Bearer {key}");
            let fields = [
                ("authorization", &*key),
                ("content-type", "application/json"),
            ];
            let request = client::request("POST", "/v1/chat/completions", &fields, body.as_bytes());
            connection.send(request).await;
            connection.response().await
        });
        answer.status
    };
    assert_eq!(curl(&newcomer.key()), 200);
    let url = format!("http://{callers}");
    let tried = newcomer.run(&["try", &url, "--key", "portcullis.key", "demo"]);
    assert!(tried.status.success(), "{}{}", tried.stdout, tried.stderr);
    // Claude Code asks for such a name by itself.
    let door = ["--door", "messages", "--key", "portcullis.key"];
    let tried = newcomer.run(&[&["try", &url, "claude-opus-5-5"][..], &door].concat());
    assert!(tried.status.success(), "{}{}", tried.stdout, tried.stderr);
    assert_eq!(curl("sk-demo-portcullis-published"), 401);
    process.signal("TERM");
    assert!(
        process
            .wait(PATIENCE)
            .is_some_and(|status| status.success())
    );
}

#[test]
fn a_provider_is_checked_and_serves_what_it_lists() {
    run(async {
        let mock = Mock::start().await;
        mock.by(answer_as_provider);
        let newcomer = Newcomer::new()
            .env("OPENAI_API_KEY", ACCOUNT_KEY)
            .env("OPENAI_BASE_URL", &mock.base_url());
        let (newcomer, ran) =
            blocking(newcomer, |it| it.init(&["--yes", "--server", "none"])).await;
        let catalog = newcomer.has_written(&ran);
        has(
            &ran.stdout,
            &[
                "openai: ok: its list of models comes with this key",
                "\nYour programs ask for openai/MODEL, such as openai/gpt-test.\n",
                "\nNow start the gateway:\n",
            ],
        );
        has(
            &catalog,
            &["  \"openai/*\": { targets: [{ account: openai, model: \"*\" }] }\n"],
        );
        let named = Newcomer {
            folder: Folder::new(&[]),
            ..newcomer
        };
        let arguments = ["--yes", "--server", "none", "--model", "gpt-tst"];
        let (named, ran) = blocking(named, move |it| it.init(&arguments)).await;
        named.is_untouched(&ran);
        has(&ran.stderr, &["--model: openai: ", "did you mean gpt-test"]);
        let arguments = ["--yes", "--server", "none", "--model", "gpt-test"];
        let (named, ran) = blocking(named, move |it| it.init(&arguments)).await;
        assert!(ran.status.success(), "{}", ran.stderr);
        let catalog = named.read("conf/catalog.yaml").expect("a catalog");
        let server = Mock::start().await;
        let catalog = catalog.replace(&mock.base_url(), &server.base_url());
        let gateway = Gateway::with(catalog)
            .env("OPENAI_API_KEY", ACCOUNT_KEY)
            .start()
            .await;
        let key = format!("Bearer {}", named.key());
        let body =
            json!({ "model": "gpt-test", "messages": [{ "role": "user", "content": "Hello" }] });
        let request = client::request(
            "POST",
            "/v1/chat/completions",
            &[
                ("authorization", &*key),
                ("content-type", "application/json"),
            ],
            body.to_string().as_bytes(),
        );
        assert_eq!(gateway.raw(request).await.status, 200);
    });
}

#[test]
fn a_refused_key_is_reported_and_nothing_is_lost() {
    run(async {
        let mock = Mock::start().await;
        mock.by(answer_as_provider);
        let newcomer = Newcomer::new()
            .env("OPENAI_API_KEY", "sk-another-0123456789")
            .env("OPENAI_BASE_URL", &mock.base_url());
        let (newcomer, ran) =
            blocking(newcomer, |it| it.init(&["--yes", "--server", "none"])).await;
        newcomer.has_written(&ran);
        has(
            &ran.stdout,
            &[
                "openai: fail: is refused (HTTP 401)",
                "     -> export a valid OPENAI_API_KEY\n",
                "\nFirst mend what failed above: until then, its answers will fail.\n",
            ],
        );
    });
}

#[test]
fn servers_of_ones_own_are_found_by_their_answers() {
    run(async {
        let [ollama, vllm, private] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        ollama.by(answer_as_ollama);
        vllm.by(|_| list_of("vllm", &["org/model"]));
        private.by(|_| Script::error(401, "no key"));
        let addresses = [&ollama, &vllm, &private].map(|mock| mock.address().to_string());
        let [first, second, third] = addresses.clone();
        let (newcomer, ran) = blocking(Newcomer::new(), move |it| {
            it.init(&["--yes", "--server", &first, "--server", &second])
        })
        .await;
        let catalog = newcomer.has_written(&ran);
        has(
            &catalog,
            &[
                &format!(
                    "  ollama: {{ dialect: ollama, base_url: \"http://{}\" }}\n",
                    addresses[0]
                ),
                &format!(
                    "  vllm: {{ preset: vllm, base_url: \"http://{}/v1\" }}\n",
                    addresses[1]
                ),
                "  \"tiny:1b\": { targets: [{ account: ollama, price: { input: 0, output: 0 } }] }\n",
                "  org/model: { targets: [{ account: vllm, price: { input: 0, output: 0 } }] }\n",
            ],
        );
        has(
            &ran.stdout,
            &["ollama: ok: its list of models comes without a key"],
        );
        let (newcomer, ran) = blocking(Newcomer::new(), move |it| {
            it.init(&["--yes", "--server", &third])
        })
        .await;
        newcomer.is_untouched(&ran);
        has(&ran.stderr, &["wants a key"]);
    });
}

#[test]
fn a_server_that_hangs_is_named() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address").to_string();
    let newcomer = Newcomer::new();
    let ran = newcomer.init(&["--yes", "--server", &address]);
    newcomer.is_untouched(&ran);
    has(&ran.stderr, &[&*address, "did not answer in time"]);
}

#[test]
fn at_a_terminal_few_questions_are_asked() {
    run(async {
        let mock = Mock::start().await;
        mock.by(answer_as_ollama);
        let address = mock.address().to_string();
        let newcomer = Newcomer::new().env("OPENAI_API_KEY", ACCOUNT_KEY);
        let (newcomer, ran) = blocking(newcomer, move |it| {
            it.folder.write("taken/catalog.yaml", "mine");
            let answers = [
                ("[all]: ", "opnai\n"),
                ("did you mean openai?", "1,ollama\n"),
                ("[yes]: ", "maybe\n"),
                ("Answer yes or no.", "no\n"),
                ("[1,2,3]: ", "2, gpt-mine\n"),
                ("[1]: ", "\n"),
                ("[me]: ", "team a\n"),
                ("a name has", "team-a\n"),
                ("[conf]: ", "taken\n"),
                ("exist already", "\n"),
            ];
            it.init_at_terminal(&answers, &["--server", &address])
        })
        .await;
        assert!(ran.status.success(), "{}", ran.stdout);
        has(
            &ran.stdout,
            &["  1  gpt-6-luna", "  1  tiny:1b", "portcullis serve\n"],
        );
        let catalog = newcomer.read("conf/catalog.yaml").expect("a catalog");
        has(
            &catalog,
            &[
                "  gpt-6.1-terra: { targets: [{ account: openai }] }\n",
                "  gpt-mine: { targets: [{ account: openai }] }\n",
                "  \"tiny:1b\": ",
                "  team-a:\n    keys:\n      first:\n",
            ],
        );
        assert!(!catalog.contains("gpt-6-luna"), "{catalog}");
    });
}

#[test]
fn an_end_of_the_dialogue_leaves_nothing_written() {
    let newcomer = Newcomer::new().env("OPENAI_API_KEY", ACCOUNT_KEY);
    for (typed, code) in [("\u{3}", 130), ("\u{4}", 1)] {
        let answers = [
            ("[all]: ", "\n"),
            ("[yes]: ", "no\n"),
            ("[1,2,3]: ", "\n"),
            ("[me]: ", typed),
        ];
        let ran = newcomer.init_at_terminal(&answers, &["--server", "none"]);
        newcomer.is_untouched(&ran);
        assert_eq!(ran.status.code(), Some(code), "{}", ran.stdout);
    }
    let newcomer = Newcomer::new();
    let ran = newcomer.init_at_terminal(&[("[yes]: ", "n\n")], &["--server", "none"]);
    newcomer.is_untouched(&ran);
}

/// Lines of our own fit on narrow terminals.
#[test]
fn lines_are_narrow() {
    let newcomer = Newcomer::new().env("AZURE_OPENAI_API_KEY", ACCOUNT_KEY);
    for arguments in [
        &["--server", "none"][..],
        &["--yes", "--server", "none"],
        &["--demo"],
    ] {
        let ran = newcomer.init(arguments);
        for line in ran.stdout.lines().chain(ran.stderr.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    let catalog = newcomer.read("conf/catalog.yaml").expect("a catalog");
    let server = newcomer.read("conf/server.yaml").expect("server.yaml");
    let lines = catalog.lines().chain(server.lines());
    for line in lines.filter(|line| !line.contains("sha256:")) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(
        Path::new(
            &newcomer
                .folder
                .path()
                .join("conf/schema/catalog.schema.json")
        )
        .exists()
    );
}

/// Runs something that waits for processes beside the scripted servers of the test.
async fn blocking(
    newcomer: Newcomer,
    act: impl FnOnce(&Newcomer) -> Ran + Send + 'static,
) -> (Newcomer, Ran) {
    let acted = tokio::task::spawn_blocking(move || {
        let ran = act(&newcomer);
        (newcomer, ran)
    });
    acted.await.expect("it ends")
}
