//! Real command-line clients, pinned, against the gateway: each finishes a turn with two calls at
//! once, their results and thinking, in front of an upstream of each dialect. They run in a network
//! namespace without an outside (`tests/sdk/clients/inside.py`).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sdk::installed;
use crate::support::canary::KEY;
use crate::support::process::Process;
use crate::support::script::finish;
use crate::support::{Catalog, Gateway, Mock, Script, frames, run_within};

/// The commands of the two calls.
const COMMANDS: [&str; 2] = ["echo first-4''1", "echo second-4''2"];
/// What the model says in the end.
const LAST: &str = "Both commands ran.";

/// A dialect, how its account is written, and its model.
type Row = (&'static str, &'static str, &'static str);

const DIALECTS: [Row; 6] = [
    ("openai", "dialect: openai", "gpt-4o"),
    ("anthropic", "dialect: anthropic", "claude-sonnet-4-5"),
    ("gemini", "dialect: gemini", "gemini-3-pro"),
    ("bedrock", "dialect: bedrock, region: us-east-1, key: CaNaRy-bedrock", "anthropic.claude-sonnet-4-5-v1:0"),
    ("cohere", "dialect: cohere", "command-a-reasoning-08-2025"),
    ("ollama", "dialect: ollama", "qwen3"),
];

/// A client, and how it is run.
struct Client {
    /// The program, under the folder of Node's packages.
    program: &'static [&'static str],
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// A file of its home, and what is in it.
    file: (&'static str, &'static str),
    /// The tool that runs a command, and the field that holds the command.
    tool: (&'static str, &'static str),
    /// The variable that holds the key.
    key: &'static str,
}

const CLAUDE_CODE: Client = Client {
    program: &["@anthropic-ai/claude-code-linux-x64/claude"],
    arguments: &["-p", "Run the two commands.", "--allowedTools", "Bash(echo:*)"],
    variables: &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:9099")],
    file: (".none", ""),
    tool: ("Bash", "command"),
    key: "ANTHROPIC_AUTH_TOKEN",
};

const CODEX: Client = Client {
    program: &["@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"],
    arguments: &["exec", "--skip-git-repo-check", "--json", "Run the two commands."],
    variables: &[],
    file: (
        ".codex/config.toml",
        "model = \"gpt-test\"\nmodel_provider = \"portcullis\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
         [model_providers.portcullis]\nname = \"Portcullis\"\nbase_url = \"http://127.0.0.1:9099/v1\"\nenv_key = \"PORTCULLIS_KEY\"\nwire_api = \"responses\"\n",
    ),
    tool: ("exec_command", "cmd"),
    key: "PORTCULLIS_KEY",
};

const GEMINI_CLI: Client = Client {
    program: &["/usr/bin/env", "node", "@google/gemini-cli/bundle/gemini.js"],
    arguments: &["-m", "gemini-test", "-p", "Run the two commands.", "--output-format", "json", "--yolo"],
    variables: &[("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9099"), ("GEMINI_CLI_TRUST_WORKSPACE", "true")],
    file: (
        ".gemini/settings.json",
        r#"{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"general":{"enableAutoUpdate":false}}"#,
    ),
    tool: ("run_shell_command", "command"),
    key: "GEMINI_API_KEY",
};

#[test]
fn claude_code_finishes_a_turn_in_front_of_each_dialect() {
    turns(&CLAUDE_CODE);
}

#[test]
fn codex_finishes_a_turn_in_front_of_each_dialect() {
    turns(&CODEX);
}

#[test]
fn gemini_cli_finishes_a_turn_in_front_of_each_dialect() {
    turns(&GEMINI_CLI);
}

fn turns(client: &'static Client) {
    if !has_namespaces() {
        return;
    }
    run_within(Duration::from_secs(240), async {
        for (name, more, model) in DIALECTS {
            let mock = Mock::start().await;
            let tool = client.tool;
            mock.by(move |request| answer(name, tool, &request.json(), &String::from_utf8_lossy(&request.body)));
            let base = format!("http://{}", mock.address());
            let catalog = match name {
                "bedrock" => Catalog::new().account_at("a", &base, more),
                _ => Catalog::new().account_with("a", &mock, more),
            };
            // The names that clients ask for by themselves.
            let aliases = r#"aliases: ["claude-*", "gpt-*", "gemini-*"]"#;
            let gateway = Gateway::start(catalog.model_with("m", &[&format!("a={model}")], aliases)).await;
            let said = inside(&gateway, client).await;
            assert!(said.contains(LAST), "{name}: {said}");
            let bodies: Vec<String> =
                mock.requests().iter().map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect();
            let results = bodies.iter().filter(|body| body.contains("first-41") && body.contains("second-42")).count();
            assert!(results >= 1, "{name}: the results of both calls came back: {} requests", bodies.len());
        }
    });
}

/// Returns whether this machine lets us make a network namespace; says so if it does not.
fn has_namespaces() -> bool {
    let made = Command::new("unshare").args(["-n", "true"]).output().is_ok_and(|output| output.status.success());
    if !made {
        eprintln!("SKIPPED: `unshare -n` is refused here, so no real client can run without an outside");
    }
    made
}

/// Runs a client in a namespace in which port 9099 of the loopback is the gateway; returns what it
/// printed.
async fn inside(gateway: &Gateway, client: &Client) -> String {
    let name = client.tool.0;
    let number = gateway.address.port();
    let folder = std::env::temp_dir().join(format!("portcullis-{name}-{}-{number}", std::process::id()));
    let file = folder.join(client.file.0);
    std::fs::create_dir_all(file.parent().unwrap()).expect("a folder");
    std::fs::write(&file, client.file.1).expect("a file");
    let socket = folder.join("gateway.sock");
    let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    let address = gateway.address;
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("unshare");
    command.args(["-n", "python3"]).arg(root.join("tests/sdk/clients/inside.py")).arg(&socket).arg("9099");
    for part in client.program {
        if part.contains('@') {
            command.arg(packages.join(part))
        } else {
            command.arg(part)
        };
    }
    command.args(client.arguments).current_dir(&folder).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", &folder).env("TMPDIR", &folder);
    command.env(client.key, KEY).envs(client.variables.iter().copied());
    let mut process = Process::spawn(&mut command);
    let status = tokio::task::block_in_place(|| process.wait(Duration::from_secs(60)));
    bridge.abort();
    let printed = format!("{}{}", String::from_utf8_lossy(&process.stdout()), process.stderr());
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {printed}");
    let _ = std::fs::remove_dir_all(&folder);
    printed
}

/// What the upstream of a dialect says: two calls with thinking before them, and the last words
/// once their results are there. A request without tools gets the last words at once.
fn answer(dialect: &str, (tool, field): (&str, &str), request: &Value, body: &str) -> Script {
    let has_tools = request.get("tools").or_else(|| request.get("toolConfig")).is_some_and(|tools| !tools.is_null());
    let is_done = body.contains("second-42") || !has_tools;
    let input = |n: usize| json!({field: COMMANDS[n]});
    let is_stream = request["stream"] != false;
    match dialect {
        "openai" => openai(tool, &input, is_done),
        "anthropic" => anthropic(tool, &input, is_done),
        "gemini" => gemini(tool, &input, is_done),
        "bedrock" => bedrock(tool, &input, is_done),
        "cohere" => cohere(tool, &input, is_done),
        _ => ollama(tool, &input, is_done, is_stream),
    }
}

type Input<'i> = &'i dyn Fn(usize) -> Value;

fn openai(tool: &str, input: Input<'_>, is_done: bool) -> Script {
    let chunk = |delta: Value, reason: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    if is_done {
        return Script::sse()
            .event(chunk(json!({"role": "assistant", "content": LAST}), Value::Null))
            .event(finish("stop"))
            .done();
    }
    let call = |n: usize| json!({"index": n, "id": format!("call_{n}"), "type": "function", "function": {"name": tool, "arguments": input(n).to_string()}});
    Script::sse()
        .event(chunk(json!({"role": "assistant", "reasoning_content": "Both at once."}), Value::Null))
        .event(chunk(json!({"tool_calls": [call(0)]}), Value::Null))
        .event(chunk(json!({"tool_calls": [call(1)]}), Value::Null))
        .event(chunk(json!({}), json!("tool_calls")))
        .done()
}

fn named(events: &[Value]) -> Script {
    let script = events.iter().fold(Script::sse(), |script, event| {
        script.body(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    });
    script.end()
}

fn anthropic(tool: &str, input: Input<'_>, is_done: bool) -> Script {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1}}}),
    ];
    let mut block = |index: usize, start: Value, deltas: &[Value]| {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events
            .extend(deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
        events.push(json!({"type": "content_block_stop", "index": index}));
    };
    if is_done {
        block(0, json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": LAST})]);
    } else {
        let thinking = [
            json!({"type": "thinking_delta", "thinking": "Both at once."}),
            json!({"type": "signature_delta", "signature": "c2ln"}),
        ];
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""}), &thinking);
        for n in 0..2 {
            let start = json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": tool, "input": {}});
            block(n + 1, start, &[json!({"type": "input_json_delta", "partial_json": input(n).to_string()})]);
        }
    }
    let reason = if is_done { "end_turn" } else { "tool_use" };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    named(&events)
}

fn gemini(tool: &str, input: Input<'_>, is_done: bool) -> Script {
    let parts = if is_done {
        json!([{"text": LAST}])
    } else {
        let call = |n: usize| json!({"functionCall": {"id": format!("g{n}"), "name": tool, "args": input(n)}, "thoughtSignature": "c2ln"});
        json!([{"text": "Both at once.", "thought": true}, call(0), call(1)])
    };
    let usage = json!({"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11});
    let chunk = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}], "usageMetadata": usage, "modelVersion": "g", "responseId": "abc"});
    Script::sse().event(chunk).end()
}

fn bedrock(tool: &str, input: Input<'_>, is_done: bool) -> Script {
    let mut events = vec![("messageStart", json!({"role": "assistant"}))];
    if is_done {
        events.push(("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": LAST}})));
        events.push(("contentBlockStop", json!({"contentBlockIndex": 0})));
    } else {
        events.push((
            "contentBlockDelta",
            json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Both at once."}}}),
        ));
        events.push((
            "contentBlockDelta",
            json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "c2ln"}}}),
        ));
        events.push(("contentBlockStop", json!({"contentBlockIndex": 0})));
        for n in 0..2 {
            let start = json!({"toolUse": {"toolUseId": format!("t{n}"), "name": tool}});
            events.push(("contentBlockStart", json!({"contentBlockIndex": n + 1, "start": start})));
            events.push((
                "contentBlockDelta",
                json!({"contentBlockIndex": n + 1, "delta": {"toolUse": {"input": input(n).to_string()}}}),
            ));
            events.push(("contentBlockStop", json!({"contentBlockIndex": n + 1})));
        }
    }
    events.push(("messageStop", json!({"stopReason": if is_done { "end_turn" } else { "tool_use" }})));
    events.push((
        "metadata",
        json!({"usage": {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}, "metrics": {"latencyMs": 1}}),
    ));
    let head = Script::new()
        .head(200, &[("content-type", "application/vnd.amazon.eventstream"), ("transfer-encoding", "chunked")]);
    let script = events.iter().fold(head, |script, (name, data)| script.body(frames::event(name, &data.to_string())));
    script.end()
}

fn cohere(tool: &str, input: Input<'_>, is_done: bool) -> Script {
    let mut events =
        vec![json!({"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant", "content": []}}})];
    if is_done {
        events.extend([
            json!({"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}),
            json!({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": LAST}}}}),
            json!({"type": "content-end", "index": 0}),
        ]);
    } else {
        events.push(json!({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "Both at once."}}}));
        for n in 0..2 {
            let call = json!({"id": format!("co{n}"), "type": "function", "function": {"name": tool, "arguments": ""}});
            events.extend([
                json!({"type": "tool-call-start", "index": n, "delta": {"message": {"tool_calls": call}}}),
                json!({"type": "tool-call-delta", "index": n, "delta": {"message": {"tool_calls": {"function": {"arguments": input(n).to_string()}}}}}),
                json!({"type": "tool-call-end", "index": n}),
            ]);
        }
    }
    let reason = if is_done { "COMPLETE" } else { "TOOL_CALL" };
    let usage = json!({"billed_units": {"input_tokens": 3, "output_tokens": 2}, "tokens": {"input_tokens": 9, "output_tokens": 2}});
    events.push(json!({"type": "message-end", "delta": {"finish_reason": reason, "usage": usage}}));
    named(&events)
}

fn ollama(tool: &str, input: Input<'_>, is_done: bool, is_stream: bool) -> Script {
    let mut message = json!({"role": "assistant", "content": if is_done { LAST } else { "" }});
    if !is_done {
        message["thinking"] = json!("Both at once.");
        let call = |n: usize| json!({"function": {"name": tool, "arguments": input(n)}});
        message["tool_calls"] = json!([call(0), call(1)]);
    }
    let line = json!({"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": true, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 2});
    let kind = if is_stream { "application/x-ndjson" } else { "application/json" };
    Script::text(200, kind, format!("{line}\n"))
}
