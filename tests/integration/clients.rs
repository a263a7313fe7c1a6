//! Real command-line clients, pinned, against the gateway: each finishes a turn with two calls at
//! once, their results and thinking, in front of an upstream of each dialect. By default, only the
//! two dialects that differ most are asked. The clients run in a network namespace without an
//! outside (`tests/sdk/clients/inside.py`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sdk::installed;
use crate::support::canary::KEY;
use crate::support::mock::Request;
use crate::support::model_answers::{self, DIALECTS, Row};
use crate::support::process::Process;
use crate::support::{
    Gateway, Mock, ModelAnswer, SLOWER, Script, eventually_blocking, join_all, root, run_within,
    runs_all,
};

/// The dialects that differ most. In one, calls have ids, and their arguments are texts. In the
/// other, calls have no ids, and their arguments are objects. One model has the name that the
/// client asks for by itself.
const DIFFERENT: [(&str, Option<&str>); 2] = [("openai", None), ("gemini", Some("m"))];
/// The commands of the two calls.
const COMMANDS: [&str; 2] = ["echo first-4''1", "echo second-4''2"];
/// What the model thinks before the calls.
const THINKING: &str = "Both at once.";
/// What the model says in the end.
const LAST: &str = "Both commands ran.";
/// The names that the clients ask for by themselves lead to the model.
pub const GLOBS: &str = r#"aliases: ["claude-*", "gpt-*", "gemini-*"]"#;

/// A client, and how it is run.
pub struct Client {
    /// The program, under the folder of Node's packages.
    program: &'static [&'static str],
    arguments: &'static [&'static str],
    /// More arguments, for one test.
    more: &'static [&'static str],
    /// The option that names a model.
    model: &'static str,
    variables: &'static [(&'static str, &'static str)],
    /// A file of its home, and what is in it.
    file: (&'static str, &'static str),
    /// The tool that runs a command, and the field that holds the command.
    tool: (&'static str, &'static str),
    /// The variable that holds the key.
    key: &'static str,
}

pub const CLAUDE_CODE: Client = Client {
    program: &["@anthropic-ai/claude-code-linux-x64/claude"],
    arguments: &[
        "-p",
        "Run the two commands.",
        "--allowedTools",
        "Bash(echo:*)",
    ],
    more: &[],
    model: "--model",
    variables: &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:9099")],
    file: (".none", ""),
    tool: ("Bash", "command"),
    key: "ANTHROPIC_AUTH_TOKEN",
};

pub const CODEX: Client = Client {
    program: &["@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"],
    arguments: &[
        "exec",
        "--skip-git-repo-check",
        "--json",
        "Run the two commands.",
    ],
    more: &[],
    model: "--model",
    variables: &[],
    file: (
        ".codex/config.toml",
        "model_provider = \"portcullis\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
         [model_providers.portcullis]\nname = \"Portcullis\"\nbase_url = \"http://127.0.0.1:9099/v1\"\nenv_key = \"PORTCULLIS_KEY\"\nwire_api = \"responses\"\n",
    ),
    tool: ("exec_command", "cmd"),
    key: "PORTCULLIS_KEY",
};

pub const GEMINI_CLI: Client = Client {
    program: &[
        "/usr/bin/env",
        "node",
        "@google/gemini-cli/bundle/gemini.js",
    ],
    arguments: &[
        "-p",
        "Run the two commands.",
        "--output-format",
        "json",
        "--yolo",
    ],
    more: &[],
    model: "--model",
    variables: &[
        ("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9099"),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ],
    file: (
        ".gemini/settings.json",
        r#"{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"general":{"enableAutoUpdate":false}}"#,
    ),
    tool: ("run_shell_command", "command"),
    key: "GEMINI_API_KEY",
};

#[test]
fn claude_code_finishes_a_turn_before_each_dialect() {
    turns(&CLAUDE_CODE);
}

#[test]
fn codex_finishes_a_turn_in_front_of_each_dialect() {
    turns(&CODEX);
}

#[test]
fn gemini_cli_finishes_a_turn_before_each_dialect() {
    turns(&GEMINI_CLI);
}

/// Runs a client in front of each dialect, with its own name for a model and with ours.
fn turns(client: &'static Client) {
    if !has_namespaces() {
        return;
    }
    run_within(Duration::from_secs(400), async {
        for row in DIALECTS {
            let models = [None, Some("m")].into_iter();
            let asked = models.filter(|model| runs_all() || DIFFERENT.contains(&(row.0, *model)));
            join_all(asked.map(|model| turn(client, row, model))).await;
        }
    });
}

async fn turn(client: &'static Client, row: Row, model: Option<&str>) {
    let mock = Mock::start().await;
    let name = row.0;
    mock.by(move |request| answer(name, client.tool, request));
    let gateway = Gateway::start(model_answers::catalog(row, &mock, GLOBS)).await;
    let start = Instant::now();
    let ran = client
        .run(gateway.address, model, KEY, move || {
            start.elapsed() < Duration::from_secs(60) * SLOWER
        })
        .await;
    let bodies: Vec<String> = mock.requests().iter().map(Request::text).collect();
    let what = format!(
        "{name}, {model:?}, {} requests: {}",
        bodies.len(),
        ran.printed
    );
    assert!(ran.code == Some(0) && ran.printed.contains(LAST), "{what}");
    let results = bodies
        .iter()
        .filter(|body| body.contains("first-41") && body.contains("second-42"))
        .count();
    assert!(results >= 1, "the results of both calls came back: {what}");
    // Codex shows the thinking of a model that it does not know. Claude Code sends it back, and
    // these dialects have a place for it.
    let is_kept = match (client.tool.0, name, model) {
        ("exec_command", _, Some(_)) => ran.printed.contains(THINKING),
        ("Bash", "anthropic" | "bedrock", _) => {
            bodies.last().is_some_and(|body| body.contains(THINKING))
        }
        _ => true,
    };
    assert!(is_kept, "the thinking is there: {what}");
}

/// Returns whether this machine lets us make a network namespace; says so if it does not.
pub fn has_namespaces() -> bool {
    let made = Command::new("unshare")
        .args(["-n", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !made {
        eprintln!(
            "SKIPPED: `unshare -n` is refused here, so no real client can run without an outside"
        );
    }
    made
}

/// Arguments of `unshare`: a client that starts itself anew ends with it, too.
pub const WITH_ALL_THAT_IT_STARTS: [&str; 3] = ["--pid", "--fork", "--kill-child"];

/// A folder of a client, removed when this is dropped. What the client has started may still be
/// writing its last lines.
pub struct RemovedFolder(pub PathBuf);

impl Drop for RemovedFolder {
    fn drop(&mut self) {
        let removed = eventually_blocking("the folder is removed", || {
            std::fs::remove_dir_all(&self.0).map_err(|why| why.to_string())
        });
        if let Err(why) = removed {
            eprintln!("{}: {why}", self.0.display());
        }
    }
}

/// How a client's run ended.
pub struct Ran {
    /// The code with which it ended; `None` if it was still running when its time was over.
    pub code: Option<i32>,
    /// What it printed.
    pub printed: String,
}

impl Client {
    /// Returns the same client with more arguments.
    pub fn with(&self, more: &'static [&'static str]) -> Client {
        Client { more, ..*self }
    }

    /// Runs the client in a namespace in which port 9099 of the loopback is this address.
    /// It is stopped when `goes_on` no longer holds.
    pub async fn run(
        &self,
        address: SocketAddr,
        model: Option<&str>,
        key: &str,
        goes_on: impl FnMut() -> bool + Send + 'static,
    ) -> Ran {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("portcullis-client-{}-{number}", std::process::id()));
        let file = folder.join(self.file.0);
        std::fs::create_dir_all(file.parent().unwrap()).expect("a folder");
        let _removed = RemovedFolder(folder.clone());
        std::fs::write(&file, self.file.1).expect("a file");
        let socket = folder.join("gateway.sock");
        let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
        let bridge = tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                tokio::spawn(async move {
                    if let Ok(mut to) = tokio::net::TcpStream::connect(address).await {
                        let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        let packages = installed("node").join("node_modules");
        let root = root();
        let mut command = Command::new("unshare");
        command
            .arg("-n")
            .args(WITH_ALL_THAT_IT_STARTS)
            .arg("python3")
            .arg(root.join("tests/sdk/clients/inside.py"))
            .arg(&socket)
            .arg("9099");
        for part in self.program {
            if part.contains('@') {
                command.arg(packages.join(part))
            } else {
                command.arg(part)
            };
        }
        command
            .args(self.arguments)
            .args(self.more)
            .args(model.map(|model| [self.model, model]).into_iter().flatten());
        command.current_dir(&folder).env_clear();
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &folder)
            .env("TMPDIR", &folder);
        command
            .env(self.key, key)
            .envs(self.variables.iter().copied());
        let wait = move || {
            let mut process = Process::spawn(&mut command);
            let status = process.wait_while(goes_on);
            let printed = format!(
                "{}{}",
                String::from_utf8_lossy(&process.stdout()),
                process.stderr()
            );
            Ran {
                code: status.map(|status| status.code().unwrap_or(-1)),
                printed,
            }
        };
        let ran = tokio::task::spawn_blocking(wait).await.expect("a run");
        bridge.abort();
        ran
    }
}

/// What the upstream says: two calls with thinking before them, and the last words once their
/// results are there. A request without tools gets the last words at once.
fn answer(dialect: &str, (tool, field): (&str, &str), request: &Request) -> Script {
    let (asked, body) = (request.json(), request.text());
    // Codex offers its tools in an item to models that it knows.
    let is_item = body.contains("\"additional_tools\"");
    let has_tools = is_item
        || ["tools", "toolConfig"]
            .iter()
            .any(|key| asked.get(key).is_some_and(|tools| !tools.is_null()));
    let said = if body.contains("complexity_score") {
        // Which of its models the client should ask.
        ModelAnswer::text(
            &json!({"complexity_reasoning": "Two commands.", "complexity_score": 9}).to_string(),
        )
    } else if body.contains("second-42") || !has_tools {
        ModelAnswer::text(LAST)
    } else if is_item || body.contains("\"functions__exec\"") {
        // The tool runs programs, and a command is a call in one.
        let program = |command| json!({"input": format!("text(await tools.{tool}({{{field}: {command:?}}}))")});
        let name = if is_item {
            model_answers::FREE
        } else {
            "functions__exec"
        };
        COMMANDS
            .iter()
            .fold(ModelAnswer::thinking(THINKING), |said, command| {
                said.call(name, program(command))
            })
    } else {
        COMMANDS
            .iter()
            .fold(ModelAnswer::thinking(THINKING), |said, command| {
                said.call(tool, json!({field: command}))
            })
    };
    said.to(dialect, request)
}
