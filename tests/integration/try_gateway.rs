//! `portcullis try`: against the gateway at every door, and against scripted servers that deviate,
//! refuse, break off and hang.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::hash;
use crate::support::folder::Folder;
use crate::support::gateway::{BINARY, free_port};
use crate::support::mock::Request;
use crate::support::process::Process;
use crate::support::script::{chunk, completion, delta, finish, usage};
use crate::support::tls::Ca;
use crate::support::{Gateway, Mock, Script, root, run};

/// The longest time for a run on a busy machine.
const PATIENCE: Duration = Duration::from_secs(50);
/// The key of scripted servers.
const KEY: &str = "sk-server-0123456789abcdefghij";
const DEMO_KEY: &str = "sk-demo-portcullis-published";

/// A run of `try`, and what it printed.
struct TryRun {
    code: i32,
    text: String,
}

impl TryRun {
    /// Requires this exit code, and these texts in the output. Lines may break anywhere.
    #[track_caller]
    fn expect(&self, code: i32, words: &[&str]) -> &TryRun {
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(self.code, code, "{}", self.text);
        for word in words {
            assert!(
                plain(&self.text).contains(&plain(word)),
                "{word:?} in\n{}",
                self.text
            );
        }
        self
    }
}

/// Runs `try` with a key on standard input. No output ever has the key.
#[track_caller]
fn run_try(key: &str, arguments: &[&str]) -> TryRun {
    let folder = Folder::new(&[("key", &format!("{key}\n"))]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$0\" try \"$@\" <key", BINARY])
        .args(arguments)
        .env_remove("PORTCULLIS_KEY")
        .current_dir(folder.path());
    end_of(command, key)
}

/// Runs `try` in this folder, and gives it no key.
#[track_caller]
fn run_in(folder: &Folder, arguments: &[&str]) -> TryRun {
    let mut command = Command::new(BINARY);
    command
        .arg("try")
        .args(arguments)
        .env_remove("PORTCULLIS_KEY")
        .current_dir(folder.path());
    end_of(command, KEY)
}

#[track_caller]
fn end_of(mut command: Command, key: &str) -> TryRun {
    let mut process = Process::spawn(&mut command);
    let status = process.wait(PATIENCE).expect("it ends");
    let out = String::from_utf8_lossy(&process.stdout()).into_owned();
    let text = format!("{out}{}", process.stderr());
    assert!(!text.contains(key), "the key is printed:\n{text}");
    let code = status.code().expect("an exit code");
    TryRun { code, text }
}

fn demo_catalog() -> String {
    std::fs::read_to_string(root().join("conf/catalog.yaml")).expect("conf/catalog.yaml")
}

/// Lets a server list `gpt-test`, and answer whole and in streams with these scripts.
fn answer_as(mock: &Mock, whole: Script, stream: Script) {
    mock.by(move |request: &Request| {
        let key = format!("Bearer {KEY}");
        assert_eq!(request.field("authorization"), Some(&*key));
        match (&*request.target, request.json()["stream"] == true) {
            ("/v1/models", _) => {
                let entry = |id: &str| json!({"id": id, "object": "model"});
                let data = [entry("text-embedding-3-small"), entry("gpt-test")];
                let list = json!({"object": "list", "data": data});
                Script::json(200, &list).with("x-request-id", "r-1")
            }
            (_, false) => whole.clone(),
            (_, true) => stream.clone(),
        }
    });
}

fn good_whole() -> Script {
    Script::answer("pong").with("x-request-id", "r-2")
}

fn good_stream() -> Script {
    Script::sse()
        .with("x-request-id", "r-3")
        .event(chunk(&json!({"role": "assistant", "content": ""}), None))
        .event(delta("pong"))
        .event(finish("stop"))
        .event(usage(1))
        .done()
        .end()
}

/// Runs it against a server with these answers.
async fn try_server(whole: Script, stream: Script, arguments: &[&str]) -> TryRun {
    let mock = Mock::start().await;
    answer_as(&mock, whole, stream);
    let url = mock.base_url();
    let mut all = vec![&*url, "--key", "-"];
    all.extend(arguments);
    run_try(KEY, &all)
}

#[test]
fn the_demo_is_well_at_every_door() {
    run(async {
        let gateway = Gateway::start(demo_catalog()).await;
        let url = format!("http://{}", gateway.address);
        for (door, base) in [
            ("chat", "/v1"),
            ("messages", "/v1"),
            ("responses", "/v1"),
            ("gemini", "/v1beta"),
        ] {
            let address = format!("{url}{base}, door {door}; the key of standard input");
            run_try(DEMO_KEY, &[&url, "--key", "-", "--door", door]).expect(
                0,
                &[
                    &address,
                    "5 in all; asks demo, the first that is for chat",
                    "ok whole model demo",
                    "\"This is the demo account",
                    "first token after",
                    "6 in, 34 out ok whole format as it should be",
                    "ok stream format as it should be",
                    "16 checks: 16 ok, 0 warn, 0 fail",
                ],
            );
        }
        let ran = run_try(DEMO_KEY, &[&url, "--key", "-", "--json", "demo-down"]);
        let report: Value = serde_json::from_str(&ran.expect(0, &[]).text).expect("one object");
        assert_eq!((&report["ok"], &report["fail"]), (&json!(16), &json!(0)));
        let checks = report["checks"].as_array().expect("checks");
        let model = checks
            .iter()
            .find(|check| check["check"] == "model")
            .expect("a model");
        assert_eq!(model["seen"], "demo, as a fallback or by another name");
    });
}

#[test]
fn a_refusal_is_shown_with_its_code_and_remedy() {
    run(async {
        let gateway = Gateway::start(demo_catalog()).await;
        let url = format!("http://{}", gateway.address);
        let no_key = run_try("unused-0123456789", &[&url]);
        no_key.expect(
            2,
            &[
                "ok server address http://",
                "no key",
                "HTTP 401",
                "invalid_api_key: The request has no valid",
                "give a key: --key FILE,",
                "that of the shipped conf/ (`make run`) is sk-demo-portcullis-published",
            ],
        );
        run_try("sk-wrong-0123456789", &[&url, "--key", "key"]).expect(
            2,
            &[
                "the key of key",
                "HTTP 401",
                "this key is wrong, disabled, expired, or of another gateway",
            ],
        );
        for door in ["chat", "messages", "responses", "gemini"] {
            run_try(DEMO_KEY, &[&url, "nope", "--key", "-", "--door", door]).expect(
                2,
                &[
                    "asks nope, as you wrote, though it is not among them",
                    "HTTP 404",
                    "`nope` does not exist",
                    "name a MODEL of the list: this key may use demo, demo-",
                ],
            );
        }
        run_try(DEMO_KEY, &[&url, "demo-429", "--key", "-"]).expect(
            2,
            &[
                "HTTP 429",
                "upstream_rate_limited",
                "(retry-after: ",
                "a limit is reached: wait",
            ],
        );
        // What is larger than its whole limit is never served.
        let catalog = demo_catalog()
            + "  small: { limits: { tokens_per_day: 1 }, keys: { one: { hash: \"HASH\" } } }\n";
        let small = "sk-small-0123456789";
        let limited = Gateway::start(catalog.replace("HASH", &hash(small))).await;
        let url_of_limited = format!("http://{}", limited.address);
        let ran = run_try(small, &[&url_of_limited, "demo", "--key", "-"]);
        ran.expect(2, &["HTTP 429", "to wait does not help"]);
        let mut command = Command::new(BINARY);
        command
            .args(["try", &url])
            .env("PORTCULLIS_KEY", "sk-env-0123456789");
        end_of(command, "sk-env-0123456789").expect(2, &["the key of PORTCULLIS_KEY", "HTTP 401"]);
    });
}

#[test]
fn a_key_among_the_arguments_is_never_printed() {
    const SECRET: &str = "sk-0123456789abcdefghijklmnop";
    let url = format!("http://{}", free_port());
    for (arguments, words) in [
        (vec!["--key", SECRET], "other users can read arguments"),
        (vec![&*url, SECRET], "other users can read arguments"),
        (vec![SECRET], "other users can read arguments"),
        (vec![&*url, "m", SECRET], "unexpected argument"),
        (
            vec!["http://user:sk-0123456789abcdefghijklmnop@127.0.0.1:1"],
            "must not hold a user name",
        ),
        (
            vec!["--key", "no-such-file"],
            "no-such-file: not found (--key takes a file, or - for standard input)",
        ),
        (
            vec!["--key", "src"],
            "src cannot be read: it is not a regular file",
        ),
        (
            vec!["--key", "Cargo.toml"],
            "Cargo.toml must be one line of ASCII characters, without spaces and quotes",
        ),
        (vec!["--key", "-"], "standard input is empty"),
        (
            vec!["127.0.0.1:8080"],
            "must begin with https:// (or http://)",
        ),
        (vec!["http://llm.example.com"], "use https:"),
        (vec![&*url, "a b"], "the name of a model has no space"),
    ] {
        let mut command = Command::new(BINARY);
        command
            .arg("try")
            .args(&arguments)
            .env_remove("PORTCULLIS_KEY");
        end_of(command, "0123456789").expect(2, &[words]);
    }
}

#[test]
fn this_folders_key_is_for_this_machine_only() {
    run(async {
        let mock = Mock::start().await;
        answer_as(&mock, good_whole(), good_stream());
        let folder = Folder::new(&[("portcullis.key", KEY)]);
        run_in(&folder, &[&mock.base_url()]).expect(0, &["; the key of portcullis.key"]);
        let empty = Folder::new(&[("portcullis.key", "\n")]);
        run_in(&empty, &[]).expect(2, &["portcullis.key is empty"]);
        // It is not even read for another machine.
        run_in(&empty, &["https://server.test", "--timeout", "1s"])
            .expect(2, &["fail models answer server.test: "]);
    });
}

#[test]
fn no_capacity_leads_to_the_status() {
    run(async {
        let list = json!({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "o"}]});
        let error = json!({"error": {"message": "No account can take the request now.", "type": "upstream_error", "code": "no_capacity", "param": null}});
        let mock = Mock::start().await;
        mock.by(move |request: &Request| {
            if request.target.ends_with("/models") {
                Script::json(200, &list)
            } else {
                Script::json(503, &error)
            }
        });
        run_try(KEY, &[&mock.base_url(), "--key", "-"]).expect(
            2,
            &[
                "HTTP 503",
                "no_capacity",
                "/status names the cause (`problems`)",
            ],
        );
    });
}

#[test]
fn an_empty_list_leads_to_the_doctor() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|_: &Request| Script::json(200, &json!({"object": "list", "data": []})));
        run_try(KEY, &[&mock.base_url(), "--key", "-"]).expect(
            2,
            &["0 in all, none for chat", "run `portcullis doctor` where"],
        );
    });
}

#[test]
fn a_server_of_the_same_format_is_well() {
    run(async {
        let ran = try_server(good_whole(), good_stream(), &[]).await;
        ran.expect(
            0,
            &[
                "2 in all; asks gpt-test, the first that is for chat",
                "request r-2",
                "\"pong\", ends with \"stop\"",
                "9 in, 3 out",
                "ok stream format as it should be",
            ],
        );
        let mut priced = completion("pong");
        priced["usage"]["cost"] = json!(0.000_012);
        let ran = try_server(Script::json(200, &priced), good_stream(), &[]).await;
        let words = [
            "request without an id (x-request-id)",
            "cost 0.000012 USD",
            "0 warn, 0 fail",
        ];
        ran.expect(0, &words);
    });
}

#[test]
fn each_deviation_has_a_line_and_what_was_expected() {
    run(async {
        let mut answer = completion("pong");
        answer["choices"][0]["finish_reason"] = "eos".into();
        answer["usage"] = Value::Null;
        let stream = Script::sse()
            .event(delta("pong"))
            .event(finish("stop"))
            .end();
        let ran = try_server(Script::json(200, &answer), stream, &[]).await;
        ran.expect(
            1,
            &[
                "warn whole format choices.0.finish_reason: \"eos\" -> expected: one of stop, length",
                "warn whole format usage: null -> expected: object",
                "warn stream format choices.0.delta.role: missing -> expected: assistant",
                "warn stream format the last event: missing -> expected: [DONE]",
                "warn stream format usage: missing -> expected: object",
                "5 warn, 0 fail",
            ],
        );
        let page = Script::text(200, "text/html", format!("<html>{KEY}</html>"));
        let ran = try_server(page, Script::answer("pong"), &[]).await;
        ran.expect(
            1,
            &[
                "warn whole format content-type: \"text/html\" -> expected: application/json",
                "body: \"<html>[redacted]</html>\" -> expected: JSON",
                "content-type: \"application/json\" -> expected: text/event-stream",
                "events: none -> expected: lines of `data:`",
            ],
        );
    });
}

#[test]
fn a_server_that_fails_breaks_off_or_hangs() {
    run(async {
        let broken = Script::sse().event(delta("po")).reset();
        let ran = try_server(good_whole(), broken, &[]).await;
        ran.expect(
            2,
            &[
                "ok whole format as it should be",
                "\"po\"",
                "fail stream answer the server ended its answer before it was complete",
            ],
        );
        let late = Script::sse()
            .event(delta("po"))
            .event(json!({"error": {"message": "late", "code": "x"}}))
            .end();
        try_server(good_whole(), late, &[])
            .await
            .expect(2, &["fail stream error x: late"]);
        let hangs = try_server(Script::silent(), good_stream(), &["--timeout", "1s"]).await;
        hangs.expect(
            2,
            &[
                "the server did not begin to answer in time",
                "`--timeout 5m`",
            ],
        );
        let stalls = Script::sse().event(delta("po")).stall();
        try_server(good_whole(), stalls, &["--timeout", "1s"])
            .await
            .expect(
                2,
                &["\"po\"", "fail stream answer no whole answer came in time"],
            );
        let plain = Script::text(500, "text/plain", format!("oops {KEY}"));
        try_server(plain, good_stream(), &[]).await.expect(
            2,
            &[
                "HTTP 500",
                "no standard error body, but \"oops [redacted]\"",
            ],
        );
    });
}

#[test]
fn a_certificate_that_the_system_knows_is_believed() {
    run(async {
        let ca = Ca::new();
        let mock = Mock::h2(&ca.leaf()).await;
        answer_as(&mock, good_whole(), good_stream());
        let folder = Folder::new(&[("ca.pem", &ca.pem()), ("key", KEY)]);
        let mut command = Command::new(BINARY);
        command
            .args(["try", &mock.base_url(), "--key", "key"])
            .env("SSL_CERT_FILE", "ca.pem")
            .current_dir(folder.path());
        end_of(command, KEY).expect(
            0,
            &["https://localhost:", "ok stream format as it should be"],
        );
        assert!(mock.requests().iter().all(|request| request.http2));
    });
}

#[test]
fn a_server_that_cannot_be_reached() {
    run(async {
        let address = free_port();
        let url = format!("http://{address}");
        run_try(KEY, &[&url, "--key", "-"]).expect(
            2,
            &[
                &format!("fail models answer nothing listens at {address}"),
                "is the gateway running? `portcullis serve` starts it",
                "1 check: 0 ok",
            ],
        );
        let mock = Mock::tls(&Ca::new().leaf()).await;
        let url = mock.base_url();
        run_try(KEY, &[&url, "--key", "-"]).expect(
            2,
            &[
                "no secure connection",
                "SSL_CERT_FILE",
                "fail models answer localhost:",
            ],
        );
        assert_eq!(mock.count(), 0);
    });
}
