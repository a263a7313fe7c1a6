//! `portcullis explain` says what the gateway does. It calls nobody, and shows no secret.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::canary::{self, ACCOUNT_KEY, KEY};
use crate::support::folder::Folder;
use crate::support::gateway::{BINARY, portcullis};
use crate::support::script::delta;
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, run};

const AWS: &str = "dialect: bedrock, region: us-east-1, aws: { access_key_id: AKIDCaNaRyEXAMPLE, secret_access_key: CaNaRy-secret-access-key, \
                   session_token: CaNaRy-session }";

/// Runs it beside a gateway, on its folder: exit code and output, in which no secret is.
pub fn explain(gateway: &Gateway, body: &Value, more: &[&str]) -> (Option<i32>, String) {
    let file = gateway.conf.with_file_name("request.json");
    std::fs::write(&file, body.to_string()).expect("the request's file");
    let fixed = [
        "explain",
        "--key",
        "acme/prod",
        "--conf",
        gateway.conf.to_str().expect("a path"),
        file.to_str().expect("a path"),
    ];
    let output = portcullis(&[&fixed, more].concat());
    (output.status.code(), checked_output(&output))
}

#[track_caller]
fn checked_output(output: &Output) -> String {
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    canary::check("what explain says", said.as_bytes()).expect("no secret in it");
    said
}

fn explained(gateway: &Gateway, body: &Value, more: &[&str]) -> Value {
    let (code, said) = explain(gateway, body, &[more, &["--json"]].concat());
    let told: Value = serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why} in {said}"));
    assert_eq!(
        code,
        Some(i32::from(told["verdict"]["tried"] != true)),
        "{told:#}"
    );
    told
}

/// A request with something for each dialect to translate, to drop, and to leave alone.
fn rich(mut body: Value) -> Value {
    let more = json!({
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Wie heißt \"das\"?\n"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a wall"},
        ],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "integer"}}}}}],
        "temperature": 0.5, "seed": 7, "user": "u-1", "logit_bias": {"1": 2},
    });
    body.as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    body
}

#[test]
fn what_is_shown_is_what_goes_up() {
    run(async {
        let header = "headers: { X-Team: CaNaRy-header }";
        let dialects = [
            ("dialect: openai".to_owned(), "gpt-4o-mini"),
            (
                "dialect: openai, preset: mistral".to_owned(),
                "mistral-small",
            ),
            ("dialect: anthropic".to_owned(), "claude-sonnet-4-5"),
            ("dialect: gemini".to_owned(), "gemini-2.5-pro"),
            (AWS.to_owned(), "anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ];
        let mocks = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let catalog = dialects.iter().zip(&mocks).enumerate().fold(
            Catalog::new(),
            |catalog, (nth, ((more, model), mock))| {
                let id = format!("a{nth}");
                let target = format!("{id}={model}");
                catalog
                    .account_with(&id, mock, &format!("{more}, {header}"))
                    .model_with(
                        &format!("m{nth}"),
                        &[&target],
                        "defaults: { max_tokens: 99 }",
                    )
            },
        );
        let gateway = Gateway::start(catalog).await;
        for (nth, mock) in mocks.iter().enumerate() {
            let model = format!("m{nth}");
            for (round, body) in [rich(chat(&model)), rich(chat_stream(&model))]
                .iter()
                .enumerate()
            {
                let before = (mock.count(), mock.connections());
                let told = explained(&gateway, body, &[]);
                let (_, text) = explain(&gateway, body, &[]);
                assert_eq!(
                    (mock.count(), mock.connections()),
                    before,
                    "nobody was called"
                );
                gateway.post(body).await;
                let came = mock.request(round).await;
                let shown = &told["candidates"][0]["request"];
                assert_eq!(
                    shown["body"].as_str().expect("a body").as_bytes(),
                    came.body,
                    "{shown:#}\n{}",
                    came.text()
                );
                assert!(text.contains(&format!("\n\n{}\n", came.text())), "{text}");
                assert_eq!(shown["method"], came.method);
                assert_eq!(
                    shown["url"],
                    format!("http://{}{}", mock.address(), came.target)
                );
                let headers: Vec<(String, String)> =
                    serde_json::from_value(shown["headers"].clone()).expect("pairs");
                let names = |fields: &[(String, String)]| {
                    fields
                        .iter()
                        .map(|(name, _)| name.clone())
                        .collect::<Vec<_>>()
                };
                assert_eq!(names(&headers), names(&came.fields));
                for ((name, shown), (_, sent)) in headers.iter().zip(&came.fields) {
                    let is_masked = shown.contains('<');
                    assert!(is_masked || shown == sent, "{name}: {shown} was {sent}");
                    let is_secret = sent.contains(canary::MARK) || sent.contains("Signature=");
                    assert!(is_masked || !is_secret, "{name} is shown");
                }
            }
        }
    });
}

#[test]
fn the_running_state_decides_as_in_the_instance() {
    run(async {
        let mocks = [Mock::start().await, Mock::start().await];
        let catalog = Catalog::chain(&[&mocks[0], &mocks[1]]);
        let gateway = Gateway::start(catalog).await;
        let url = format!("http://{}/status", gateway.admin);
        let first = |told: &Value| told["candidates"][0]["account"].clone();
        assert_eq!(first(&explained(&gateway, &chat("m"), &[])), "a");
        assert_eq!(
            first(&explained(&gateway, &chat("m"), &["--status", &url])),
            "a"
        );

        mocks[0].push(
            Script::json(429, &json!({"error": {"message": "slow"}})).with("retry-after", "50"),
        );
        gateway.post(&chat("m")).await;
        let told = explained(&gateway, &chat("m"), &["--status", &url]);
        assert_eq!(first(&told), "b");
        assert_eq!(told["candidates"][1]["state"], "resting");
        let why = told["candidates"][1]["why"].as_str().expect("a reason");
        assert!(
            why.starts_with("rests for ") && why.ends_with("s more (rate)"),
            "{why}"
        );

        // A page that was saved says the same.
        let file = gateway.conf.with_file_name("status.json");
        std::fs::write(&file, gateway.admin("/status").1).expect("written");
        let saved = explained(
            &gateway,
            &chat("m"),
            &["--status", file.to_str().expect("a path")],
        );
        assert_eq!(saved["candidates"][1]["state"], "resting");
        assert_eq!(
            first(&explained(&gateway, &chat("m"), &[])),
            "a",
            "without it nothing is known"
        );

        let before = (mocks[0].count(), mocks[1].count());
        gateway.post(&chat("m")).await;
        assert_eq!(
            (mocks[0].count(), mocks[1].count()),
            (before.0, before.1 + 1),
            "and so it is"
        );
    });
}

#[test]
fn an_open_breaker_and_a_full_account_are_told() {
    run(async {
        let (broken, full) = (Mock::refusing().await, Mock::start().await);
        let catalog = Catalog::new()
            .account("a", &broken)
            .account_with("b", &full, "concurrency: 1")
            .model("broken", &["a"])
            .model("full", &["b"])
            .model("both", &["a", "b"]);
        let gateway = Gateway::start(catalog).await;
        let url = format!("http://{}", gateway.admin);
        for _ in 0..5 {
            gateway.post(&chat("broken")).await;
        }
        let told = explained(&gateway, &chat("broken"), &["--status", &url]);
        assert_eq!(
            (&told["candidates"][0]["state"], &told["verdict"]["tried"]),
            (&json!("last_resort"), &json!(true))
        );
        let why = told["candidates"][0]["why"].as_str().expect("a reason");
        assert!(why.starts_with("its breaker is open for "), "{why}");
        // What another of its targets does says nothing about this one.
        let told = explained(&gateway, &chat("both"), &["--status", &url]);
        assert_eq!(told["candidates"][0]["state"], "asked");
        let gate = Gate::new();
        full.on("full", Script::sse().event(delta("a")).wait(&gate).done());
        let (open, _) = gateway.open(&chat_stream("full")).await;
        eventually("it is in flight", || {
            (gateway.status()["accounts"][1]["in_flight"] == 1).then_some(())
        })
        .await;
        let told = explained(&gateway, &chat("full"), &["--status", &url]);
        assert_eq!(told["candidates"][0]["state"], "full");
        assert_eq!(told["verdict"]["status"], 503);
        gate.open();
        drop(open);
        gateway.idle().await;
    });
}

const CONF: &str = "accounts:
  a: { dialect: openai, base_url: \"http://127.0.0.1:1/v1\", key: { env: NOT_SET_ANYWHERE }, headers: { X-Team: CaNaRy-header } }
  b: { dialect: anthropic, key: { file: not-there } }
  c: { dialect: openai, base_url: \"http://127.0.0.1:1/v1\", key: CaNaRy-written-out }
  v: { dialect: vertex, project: p, location: europe-west4, service_account: { file: not-there.json } }
models:
  m: { targets: [{ account: a }, { account: b, model: claude-sonnet-4-5 }, { account: c }], fallbacks: [v] }
  v: { targets: [{ account: v, model: gemini-2.5-pro }] }
callers:
  acme: { models: [m, v], keys: { prod: { hash: \"HASH\" } } }
";

fn folder() -> Folder {
    let catalog = CONF.replace("HASH", &canary::hash(KEY));
    Folder::new(&[
        ("server.yaml", "{}"),
        ("catalog.yaml", &catalog),
        ("m.json", &chat("m").to_string()),
        ("no.json", "{"),
    ])
}

#[test]
fn no_secret_is_read_and_none_is_told() {
    let folder = folder();
    let file = |name: &str| {
        folder
            .path()
            .join(name)
            .to_str()
            .expect("a path")
            .to_owned()
    };
    // `Folder::run` looks for secrets in all output.
    for more in [&["--json"][..], &[]] {
        let ran = folder.run(&[&["explain", "--key", "acme/prod", &file("m.json")], more].concat());
        assert_eq!(ran.status.code(), Some(0), "{}{}", ran.stdout, ran.stderr);
        for masked in ["Bearer <key>", "<from the catalog, not shown>"] {
            assert!(ran.stdout.contains(masked), "{}", ran.stdout);
        }
    }
    for wrong in [
        &["explain", "--key", KEY, &file("m.json")][..],
        &[
            "explain",
            "--key",
            "acme/prod",
            &file("m.json"),
            "--header",
            &format!("authorization: Bearer {KEY}"),
        ],
        &[
            "explain",
            "--key",
            "acme/prod",
            &file("m.json"),
            "--header",
            ACCOUNT_KEY,
        ],
        &[
            "explain",
            "--key",
            "acme/prod",
            &file("m.json"),
            "--status",
            &format!("http://{KEY}@127.0.0.1:1/status"),
        ],
    ] {
        let ran = folder.run(wrong);
        assert_eq!(
            (ran.status.code(), ran.stdout.as_str()),
            (Some(2), ""),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.is_empty());
    }
    folder.write("v.json", chat("v").to_string());
    let ran = folder.run(&["explain", "--key", "acme/prod", &file("v.json")]);
    assert!(
        ran.stdout
            .contains("authorization: Bearer <token, fetched once an hour>\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_exit_code_tells_whether_it_would_be_tried() {
    let folder = folder();
    let file = |name: &str| {
        folder
            .path()
            .join(name)
            .to_str()
            .expect("a path")
            .to_owned()
    };
    let check = |arguments: &[&str], code: i32, first: &str| {
        let ran = folder.run(&[&["explain"], arguments].concat());
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{said}");
        assert!(said.starts_with(first), "{said}");
    };
    check(
        &["--key", "acme/prod", &file("m.json")],
        0,
        "yes: the request would be sent to a (m), then b (claude-sonnet-4-5), then c (m);",
    );
    check(
        &["--key", "acme/prod", &file("no.json")],
        1,
        "no: the request would be sent to no upstream, and the caller would get 400: the request body is not \
         valid JSON",
    );
    check(
        &["--key", "acme/prd", &file("m.json")],
        1,
        "no: the request would be sent to no upstream, and the caller would get 401 invalid_api_key: there is no \
         key acme/prd",
    );
    check(
        &["--key", "acme/prod", &file("none.json")],
        2,
        "the file with the request cannot be read: No such file",
    );
    check(
        &[
            "--key",
            "acme/prod",
            &file("m.json"),
            "--status",
            &file("m.json"),
        ],
        2,
        "--status: this is not a /status page of this version",
    );
    check(
        &[
            "--key",
            "acme/prod",
            &file("m.json"),
            "--status",
            "https://127.0.0.1/status",
        ],
        2,
        "--status: the URL must begin with http://",
    );
    check(
        &[
            "--key",
            "acme/prod",
            &file("m.json"),
            "--status",
            "http://127.0.0.1:1",
        ],
        2,
        "--status: http://127.0.0.1:1 does not answer",
    );
    check(
        &[&file("m.json")],
        2,
        "error: the following required arguments",
    );
    folder.write("catalog.yaml", "accounts: {}\n");
    check(
        &["--key", "acme/prod", &file("m.json")],
        2,
        "catalog.yaml models: is missing",
    );
}

#[test]
fn a_request_may_come_from_standard_input() {
    let folder = folder();
    let mut command = Command::new(BINARY);
    command
        .args(["explain", "--key", "acme/prod", "-", "--conf"])
        .arg(folder.path());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(chat("m").to_string().as_bytes())
        .expect("taken");
    let output = child.wait_with_output().expect("it ends");
    assert!(
        output.status.success() && checked_output(&output).starts_with("yes: "),
        "{}",
        checked_output(&output)
    );
}

/// A request in the format of another door is explained as the gateway would treat it.
#[test]
fn the_doors_are_explained_too() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new()
            .account("o", &mock)
            .account_with("a", &mock, "dialect: anthropic")
            .model("m", &["o=gpt-4o", "a=claude-sonnet-4-5"]);
        let gateway = Gateway::start(catalog).await;
        let conf = gateway.conf.to_str().unwrap().to_owned();
        let file = |name: &str, body: &Value| {
            let path = gateway.conf.with_file_name(name);
            std::fs::write(&path, body.to_string()).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let explain = |args: &[&str]| {
            let told = portcullis(&[&["explain", "--conf", &conf], args].concat());
            (
                told.status.code(),
                String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).into_owned(),
            )
        };
        let messages = json!({"model": "m", "max_tokens": 9, "top_k": 5, "messages": [{"role": "user", "content": "hello"}]});
        let contents = json!({"contents": [{"parts": [{"text": "hello"}]}]});
        let (messages, contents) = (
            file("messages.json", &messages),
            file("contents.json", &contents),
        );
        let key = ["--key", "acme/prod"];
        let (code, said) =
            explain(&[&key[..], &["--door", "messages", "--json", &messages]].concat());
        assert_eq!(code, Some(0), "{said}");
        let told: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(
            told["candidates"][0]["request"]["dropped"],
            json!(["top_k"]),
            "{said}"
        );
        // To the same format it passes.
        assert_eq!(
            told["candidates"][1]["request"]["dropped"],
            json!([]),
            "{said}"
        );
        // Where the body says them, the path has no place for them.
        let (code, said) =
            explain(&[&key[..], &["--door", "messages", "--model", "m", &messages]].concat());
        assert!(
            code == Some(1) && said.contains("leave out --model, --stream"),
            "{said}"
        );
        let (code, said) = explain(
            &[
                &key[..],
                &["--door", "gemini", "--model", "m", "--stream", &contents],
            ]
            .concat(),
        );
        assert!(
            code == Some(0) && said.contains("a stream") && !said.contains("not a stream"),
            "{said}"
        );
        let (code, said) = explain(&[&key[..], &["--door", "gemini", &contents]].concat());
        assert!(code == Some(1) && said.contains("--model MODEL"), "{said}");
        let (code, said) = explain(&[&key[..], &["--door", "soap", &contents]].concat());
        assert!(
            code == Some(2) && said.contains("chat, responses, messages, completions"),
            "{said}"
        );

        let (code, said) = explain(&["--doors", "m", "--json"]);
        assert_eq!(code, Some(0), "{said}");
        let told: Value = serde_json::from_str(&said).unwrap();
        let doors = told["doors"].as_array().unwrap();
        assert_eq!(doors.len(), 8, "{said}");
        let at = |door: &str, account: &str| {
            doors
                .iter()
                .find(|row| row["door"] == door && row["account"] == account)
                .unwrap()
                .clone()
        };
        let has = |row: &Value, list: &str, name: &str| {
            row[list].as_array().unwrap().contains(&json!(name))
        };
        let to_openai = at("messages", "o");
        assert!(
            has(&to_openai, "lost", "top_k") && has(&to_openai, "refused", "web search"),
            "{to_openai}"
        );
        let passed = at("messages", "a");
        assert!(
            !has(&passed, "lost", "top_k") && !has(&passed, "refused", "web search"),
            "{passed}"
        );
        // What may be said is what the account allows: containers are a reference.
        assert!(has(&passed, "refused", "container"), "{passed}");
        assert_eq!(at("chat", "o")["lost"], json!([]));
        assert!(has(&at("chat", "a"), "lost", "seed"), "{said}");
        assert!(has(&at("gemini", "o"), "lost", "safetySettings"), "{said}");
        assert!(
            has(&at("responses", "a"), "lost", "tools[].web_search"),
            "{said}"
        );
        let (code, said) = explain(&["--doors", "m"]);
        assert!(
            code == Some(0) && said.contains("\nmessages at o (gpt-4o)\n  lost     "),
            "{said}"
        );
        assert_eq!(explain(&["--doors", "nothing"]).0, Some(2));
        assert_eq!(mock.count(), 0);
    });
}
