//! The places in which secrets must not appear, and those to which requests must not lead: section
//! S of the fault table.
//!
//! Every other test looks for secrets too. Its gateway logs at level trace, all keys hold a mark,
//! and no answer, log line, access line, metric or status may hold that mark (row S01; see
//! `support::gateway`).

use std::path::Path;

use portcullis::catalog::load::{self, Secrets};
use serde_json::{Value, json};

use crate::support::canary::{self, ACCOUNT_KEY, KEY};
use crate::support::client::{End, post, post_as, request};
use crate::support::gateway::portcullis;
use crate::support::script::{self, delta};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, run};

/// What upstreams say that have never heard of secrecy.
fn tell_tales() -> Vec<(&'static str, Script)> {
    let told =
        format!("Incorrect API key provided: {ACCOUNT_KEY}. Bearer {ACCOUNT_KEY} is no good.");
    let error = json!({"error": {"message": told, "type": told, "param": told, "code": told}});
    let with_headers = |script: Script| {
        script
            .with("x-echo", ACCOUNT_KEY)
            .with("www-authenticate", ACCOUNT_KEY)
            .with("x-request-id", ACCOUNT_KEY)
            .with("location", ACCOUNT_KEY)
    };
    let mut scripts: Vec<(&str, Script)> = Vec::new();
    for status in [302, 400, 401, 402, 403, 404, 413, 422, 429, 500, 503, 529] {
        scripts.push(("JSON", with_headers(Script::json(status, &error))));
        scripts.push((
            "text",
            with_headers(Script::text(status, "text/plain", &told)),
        ));
    }
    scripts.push((
        "a short code",
        Script::json(
            400,
            &json!({"error": {"message": "no", "type": ACCOUNT_KEY, "param": ACCOUNT_KEY, "code": ACCOUNT_KEY}}),
        ),
    ));
    scripts.push(("a string", Script::json(400, &json!({ "error": told }))));
    scripts.push((
        "no JSON",
        with_headers(Script::text(200, "application/json", &told)),
    ));
    scripts.push(("a string as answer", Script::json(200, &json!(told))));
    scripts.push(("a page", Script::text(200, "text/html", &told)));
    scripts.push(("an error inside", Script::json(200, &error)));
    scripts.push((
        "no HTTP",
        Script::new().raw(format!("{told}\r\n\r\n")).close(),
    ));
    scripts.push((
        "a bad head",
        Script::new()
            .raw(format!("HTTP/1.1 200 OK\r\n{ACCOUNT_KEY}\0: x\r\n\r\n"))
            .close(),
    ));
    scripts.push(("an error event at once", Script::sse().event(&error).end()));
    scripts.push((
        "an error event",
        Script::sse().event(delta("a")).event(&error).done(),
    ));
    scripts.push((
        "no JSON in an event",
        Script::sse().event(delta("a")).event(&told).done(),
    ));
    scripts.push((
        "a comment",
        Script::sse()
            .body(format!(": {told}\n\nevent: {told}\ndata: x\n\n"))
            .close(),
    ));
    scripts
}

#[test]
fn s01_s02_whatever_an_upstream_tells_no_secret_leaves() {
    run(async {
        for log in [
            "log: { format: json, level: trace, access: stdout }",
            "log: { format: text, level: trace, access: stdout }",
        ] {
            let mock = Mock::start().await;
            let scripts = tell_tales();
            // An account of its own for each, since some rest after what they said.
            let catalog = (0..scripts.len()).fold(Catalog::new(), |catalog, nth| {
                let id = format!("a{nth}");
                catalog
                    .account(&id, &mock)
                    .model(&format!("m{nth}"), &[&id])
            });
            let gateway = Gateway::with(catalog).server(log).start().await;
            for (nth, (what, script)) in scripts.iter().enumerate() {
                for body in [chat(&format!("m{nth}")), chat_stream(&format!("m{nth}"))] {
                    mock.on(&format!("m{nth}"), script.clone());
                    let answer = gateway.post(&body).await;
                    canary::check(
                        &format!("the answer to {what}"),
                        format!("{:?} {}", answer.fields, answer.text()).as_bytes(),
                    )
                    .unwrap();
                }
            }
            canary::check("/metrics", gateway.admin("/metrics").1.as_bytes()).unwrap();
            canary::check("/status", gateway.admin("/status").1.as_bytes()).unwrap();
        }
    });
}

#[test]
fn s02_a_misplaced_callers_key_is_not_told() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let body = chat("m").to_string();
        let wrong = [
            request(
                "POST",
                &format!("/v1/chat/completions?api_key={KEY}"),
                &[("content-type", "application/json")],
                body.as_bytes(),
            ),
            request(
                "GET",
                "/v1/models",
                &[("authorization", &format!("Basic {KEY}"))],
                b"",
            ),
            request("GET", "/v1/models", &[("authorization", KEY)], b""),
            request(
                "GET",
                "/v1/models",
                &[
                    ("cookie", KEY),
                    ("x-key", KEY),
                    ("user-agent", KEY),
                    ("referer", KEY),
                ],
                b"",
            ),
            request(
                "POST",
                "/v1/chat/completions",
                &[
                    ("authorization", &format!("Bearer {KEY}")),
                    ("content-type", "application/json"),
                ],
                KEY.as_bytes(),
            ),
        ];
        for bytes in wrong {
            let answer = gateway.raw(bytes).await;
            assert!(matches!(answer.status, 400 | 401), "{}", answer.text());
        }
        assert_eq!(mock.connections(), 0);
    });
}

/// Google's clients may send the key in the query. (All that the process prints, at its lowest
/// level, is searched for the key when the test ends.)
#[test]
fn s02_a_key_in_googles_query_is_shown_nowhere() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .listen("h2c: true")
            .start()
            .await;
        let body = json!({"contents": [{"parts": [{"text": "hello"}]}]}).to_string();
        let json = [("content-type", "application/json")];
        let encoded = KEY.replace('-', "%2D");
        for target in [
            format!("/v1beta/models/m:generateContent?key={KEY}"),
            format!("/v1/models/m:generateContent?alt=json&key={encoded}"),
        ] {
            mock.push(Script::answer("hi"));
            let answer = gateway
                .raw(request("POST", &target, &json, body.as_bytes()))
                .await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        assert_eq!(
            gateway
                .raw(request(
                    "GET",
                    &format!("/v1beta/models?key={KEY}"),
                    &[],
                    b""
                ))
                .await
                .status,
            200
        );
        let over_h2 = gateway
            .h2c(0)
            .await
            .exchange("GET", &format!("/v1/models/m?key={KEY}"), &[], b"")
            .await;
        assert_eq!(over_h2.status, 200);
        for (target, status) in [
            // Two keys that differ are none.
            (format!("/v1beta/models?key={KEY}&key=other"), 401),
            (format!("/v1beta/models?key={KEY}%zz"), 401),
            (format!("/v1beta/models?Key={KEY}"), 401),
            // Elsewhere no query is read.
            (format!("/v1/messages?key={KEY}"), 405),
            (format!("/v1/chat/completions?key={KEY}"), 405),
            // Nothing is there, or a client has put its URL together wrongly.
            (format!("/v1beta/files?key={KEY}"), 404),
            (format!("/nothing?key={KEY}"), 404),
            (format!("/v1beta/models&key={KEY}"), 404),
            (format!("/v1/key={KEY}"), 404),
            (format!("/v1beta/models%3Fkey={KEY}"), 404),
        ] {
            let answer = gateway.raw(request("GET", &target, &[], b"")).await;
            assert_eq!(answer.status, status, "{target}: {}", answer.text());
            canary::check("the answer", answer.text().as_bytes()).unwrap();
        }
        let misplaced = gateway
            .raw(request(
                "GET",
                &format!("/v1/models/m&key={KEY}"),
                &[("x-api-key", KEY)],
                b"",
            ))
            .await;
        assert_eq!(misplaced.status, 404);
        canary::check("the answer", misplaced.text().as_bytes()).unwrap();
        // Heads that cannot be read, and one that is too long.
        for head in [
            format!("GET /v1beta/models?key={KEY} HTTP/9.9\r\n\r\n"),
            format!("GET /v1beta/models?key={KEY} HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n"),
            format!(
                "GET /v1beta/models?key={KEY}{} HTTP/1.1\r\nhost: a\r\n\r\n",
                "x".repeat(70_000)
            ),
        ] {
            let answer = gateway.raw(head).await;
            assert!([400, 414].contains(&answer.status), "{}", answer.text());
            assert!(
                answer.json()["error"]["status"].is_string(),
                "in Google's format: {}",
                answer.text()
            );
        }
        let mut broken = gateway.connect().await;
        broken
            .send(format!("GET /v1beta/models?key={KEY} HTTP/1.1\r\n"))
            .await;
    });
}

#[test]
#[cfg_attr(not(feature = "test-panics"), ignore = "needs --features test-panics")]
fn s02_a_panic_tells_no_secret() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let phases = ["door", "auth", "intake", "plan"];
        for phase in phases {
            let bearer = format!("Bearer {KEY}");
            let fields = [
                ("authorization", bearer.as_str()),
                ("content-type", "application/json"),
                ("x-test-panic", phase),
            ];
            let mut connection = gateway.connect().await;
            let target = format!("/v1/chat/completions?key={KEY}");
            connection
                .send(request(
                    "POST",
                    &target,
                    &fields,
                    chat("m").to_string().as_bytes(),
                ))
                .await;
            if let Some(answer) = connection.try_response("POST").await {
                answer.is_error(500, "internal_error");
            }
        }
        let lines = gateway.access_lines(phases.len()).await;
        assert!(
            lines.iter().all(|line| line["outcome"] == "internal"),
            "{lines:#?}"
        );
        assert!(
            gateway.log().contains("x-test-panic"),
            "the panic is in the log"
        );
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
    });
}

#[test]
fn s05_what_is_loaded_prints_no_secret() {
    run(async {
        let mock = Mock::start().await;
        let token = "CaNaRy-header";
        let catalog = Catalog::new()
            .account_with("a", &mock, &format!("headers: {{ X-Token: {token} }}"))
            .account_with("b", &mock, "key: { env: ACCOUNT_B }")
            .account_with("c", &mock, "key: { file: secret }")
            .model("m", &["a", "b", "c"]);
        let gateway = Gateway::with(catalog)
            .env("ACCOUNT_B", ACCOUNT_KEY)
            .file("secret", format!("{ACCOUNT_KEY}\n"))
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!(mock.request(0).await.field("x-token"), Some(token));
        // This process does not have the variable.
        let text = std::fs::read_to_string(gateway.conf.join("catalog.yaml"))
            .unwrap()
            .replace("{ env: ACCOUNT_B }", "{ file: secret }");
        std::fs::write(gateway.conf.join("catalog.yaml"), text).unwrap();
        let loaded = load::load_folder(&gateway.conf, Secrets::Read).unwrap();
        let catalog = &loaded.catalog;
        let (accounts, models, callers) = (catalog.accounts(), catalog.models(), catalog.callers());
        assert_eq!(
            (
                accounts.len(),
                accounts[1].key.as_ref().map(|key| key.expose())
            ),
            (3, Some(ACCOUNT_KEY))
        );
        let key = catalog
            .opened(&load_digest(KEY), std::time::SystemTime::now())
            .map(|(key, _)| key);
        let printed = [
            format!("{loaded:?} {loaded:#?}"),
            format!("{:?} {:#?}", loaded.server, loaded.server),
            format!(
                "{accounts:?} {accounts:#?} {models:?} {models:#?} {callers:?} {:?}",
                catalog.warnings
            ),
            format!("{key:?} {key:#?}"),
            format!("{:?} {:?}", accounts[0].headers, accounts[1].key),
        ];
        for text in printed {
            canary::check("Debug", text.as_bytes()).unwrap();
        }
    });
}

fn load_digest(key: &str) -> [u8; 32] {
    portcullis::catalog::resolve::sha256_of(key)
}

/// Starts with this catalog, which must fail and name this place; no secret may be in what it says,
/// nor in what `check` says.
#[track_caller]
fn refused(catalog: &str, place: &str) {
    let (status, output) = Gateway::with(catalog).refuse();
    assert_eq!(status.code(), Some(1), "{catalog}\n{output}");
    assert!(output.contains(place), "no {place:?} in\n{output}");
    let folder = tempdir();
    std::fs::write(folder.join("server.yaml"), "workers: 1\n").unwrap();
    std::fs::write(folder.join("catalog.yaml"), catalog).unwrap();
    let checked = portcullis(&["check", "--conf", folder.to_str().unwrap()]);
    let said = [checked.stdout, checked.stderr].concat();
    assert_eq!(checked.status.code(), Some(1));
    canary::check("what `check` says", &said).unwrap();
    assert!(
        String::from_utf8_lossy(&said).contains(place),
        "no {place:?} in {}",
        String::from_utf8_lossy(&said)
    );
    std::fs::remove_dir_all(folder).unwrap();
}

fn tempdir() -> std::path::PathBuf {
    let name = std::thread::current()
        .name()
        .unwrap_or("test")
        .replace("::", "-");
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn s06_a_bad_line_with_a_key_is_hidden() {
    let account = |fields: &str| {
        format!("models: {{}}\ncallers: {{}}\naccounts:\n  a:\n    dialect: openai\n    {fields}\n")
    };
    let key = ACCOUNT_KEY;
    let cases = [
        (account(&format!("key: [\"{key}\"]")), "catalog.yaml:6"),
        (
            account(&format!("key: {{ value: \"{key}\" }}")),
            "catalog.yaml:6",
        ),
        (
            account(&format!("key: {{ env: \"{key}\" }}")),
            "catalog.yaml:6",
        ),
        (
            account(&format!("key: {{ file: \"{key}\" }}")),
            "catalog.yaml:6",
        ),
        (account(&format!("key: \"{key}")), "catalog.yaml:"),
        (account(&format!("key: \"{key}\\q\"")), "catalog.yaml:6"),
        (account(&format!("key: {key}: x")), "catalog.yaml:6"),
        (account(&format!("key: \"{key}\\u0007\"")), "catalog.yaml:6"),
        (
            account(&format!("keey: \"{key}\"")),
            "catalog.yaml:6 accounts.a.keey",
        ),
        (account(&format!("\"{key}\": x")), "catalog.yaml:6"),
        (
            account(&format!("key: a\n    key: \"{key}\"")),
            "catalog.yaml:7",
        ),
        (
            account(&format!("base_url: \"https://me:{key}@example.com/v1\"")),
            "catalog.yaml:6 accounts.a.base_url",
        ),
        (
            account(&format!("base_url: \"{key}\"")),
            "catalog.yaml:6 accounts.a.base_url",
        ),
        (
            account(&format!("concurrency: \"{key}\"")),
            "catalog.yaml:6 accounts.a.concurrency",
        ),
        (
            account(&format!("enabled: \"{key}\"")),
            "catalog.yaml:6 accounts.a.enabled",
        ),
        (
            account(&format!("timeouts: {{ connect: \"{key}\" }}")),
            "catalog.yaml:6 accounts.a.timeouts.connect",
        ),
        (
            account(&format!("headers: {{ \"a b\": \"{key}\" }}")),
            "catalog.yaml:6",
        ),
        (
            account(&format!("headers: {{ x-a: \"{key}\\n\" }}")),
            "catalog.yaml:6",
        ),
        (account(&format!("headers: [\"{key}\"]")), "catalog.yaml:6"),
        (account(&format!("key: *{key}")), "catalog.yaml:6"),
        (account(&format!("\tkey: \"{key}\"")), "catalog.yaml:"),
        (account(&format!("dialect: \"{key}\"")), "catalog.yaml:6"),
        (
            format!("accounts: {{}}\nmodels: {{}}\ncallers: \"{KEY}\"\n"),
            "catalog.yaml:3 callers",
        ),
        (
            format!("accounts: {{}}\nmodels: {{}}\ncallers: {{ acme: {{ keys: [\"{KEY}\"] }} }}\n"),
            "catalog.yaml:3 callers.acme.keys",
        ),
        (
            format!(
                "accounts: {{}}\nmodels: {{}}\ncallers: {{ acme: {{ keys: {{ prod: \"{KEY}\" }} }} }}\n"
            ),
            "catalog.yaml:3 callers.acme.keys.prod",
        ),
        (
            format!("accounts: {{}}\nmodels: {{}}\ncallers: {{ \"{KEY}\": {{ keyz: {{}} }} }}\n"),
            "catalog.yaml:3",
        ),
        (
            format!(
                "accounts: {{}}\ncallers: {{}}\nmodels: {{ m: {{ targets: [{{ account: \"{KEY}\" }}] }} }}\n"
            ),
            "catalog.yaml:3 models.m.targets[0].account",
        ),
    ];
    for (catalog, place) in cases {
        refused(&catalog, place);
    }
}

#[test]
fn s06_a_bad_reload_shows_no_key() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let good = Catalog::over(&mock).to_string();
        gateway.write_catalog(good.replace(
            "dialect: openai",
            &format!("dialect: openai, keey: \"{ACCOUNT_KEY}\""),
        ));
        let logged = gateway.logged("keey").await;
        assert!(
            logged.contains("catalog.yaml:2") && logged.contains("accounts.a"),
            "{logged}"
        );
        eventually("the status says it too", || {
            gateway.status().to_string().contains("keey").then_some(())
        })
        .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
    });
}

#[test]
fn s07_a_key_in_clear_text_is_refused() {
    for hash in [
        KEY.to_owned(),
        format!("sha256:{KEY}"),
        format!("Bearer {KEY}"),
        canary::hash(KEY).replace("sha256:", "md5:"),
    ] {
        let catalog = format!(
            "accounts: {{}}\nmodels: {{}}\ncallers:\n  acme:\n    keys:\n      prod: {{ hash: \"{hash}\" }}\n"
        );
        refused(&catalog, "catalog.yaml:6 callers.acme.keys.prod.hash");
    }
    let catalog = format!(
        "accounts: {{}}\nmodels: {{}}\ncallers:\n  acme:\n    keys:\n      prod: {{ hash: \"{KEY}\" }}\n"
    );
    refused(&catalog, "portcullis key hash");
}

#[test]
fn s08_a_catalog_that_everybody_can_read_is_warned_of() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        assert!(
            !gateway
                .log()
                .contains("every user of this machine can read it")
        );
        let path = gateway.conf.join("catalog.yaml");
        let before = gateway.generation();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .unwrap();
        std::fs::write(&path, Catalog::over(&mock).model("n", &["a"]).to_string()).unwrap();
        eventually("the new catalog serves", || {
            (gateway.generation() > before).then_some(())
        })
        .await;
        let logged = gateway
            .logged("every user of this machine can read it")
            .await;
        assert!(
            logged.contains("catalog.yaml") && logged.contains("\"warn\""),
            "{logged}"
        );
        let said = portcullis(&["check", "--conf", gateway.conf.to_str().unwrap()]);
        let said = [said.stdout, said.stderr].concat();
        assert!(
            String::from_utf8_lossy(&said).contains("every user of this machine can read it"),
            "{}",
            String::from_utf8_lossy(&said)
        );
    });
}

#[test]
fn s09_s11_nothing_in_a_request_decides_where_it_goes() {
    run(async {
        let (mock, evil) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, "media_urls: pass")
                .model("m", &["a"]),
        )
        .await;
        let url = evil.base_url();
        let host = evil.address().to_string();
        let body = json!({
            "api_base": url, "base_url": url, "custom_host": url, "api_url": url, "endpoint": url, "host": host, "proxy": url, "api_version": "x",
            "provider": "evil", "account": "b", "dialect": "anthropic", "organization": "evil", "extra_headers": {"host": host}, "callback": url,
            "model": "m", "file_url": url, "webhook": {"url": url},
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": url},
                {"type": "image_url", "image_url": {"url": format!("{url}/image.png")}},
                {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest/meta-data"}},
                {"type": "input_audio", "input_audio": {"data": url, "format": "wav"}},
                {"type": "file", "file": {"file_data": format!("{url}/file")}}]}],
        })
        .to_string();
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("host", &host),
            ("x-custom-host", &url),
            ("x-base-url", &url),
            ("x-api-base", &url),
            ("x-portkey-custom-host", &url),
            ("x-forwarded-host", &host),
            ("x-original-url", &url),
            ("x-rewrite-url", &url),
            ("x-portcullis-account", "b"),
            ("x-upstream", &url),
            ("helicone-target-url", &url),
            ("forwarded", &format!("host={host}")),
        ];
        let answer = gateway
            .raw(request(
                "POST",
                &format!("/v1/chat/completions?base_url={url}"),
                &fields,
                body.as_bytes(),
            ))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let sent = mock.request(0).await;
        assert_eq!(
            (sent.text(), sent.target.as_str()),
            (body, "/v1/chat/completions")
        );
        assert_eq!(
            sent.field("host"),
            Some(mock.address().to_string().as_str())
        );
        let bearer = format!("Bearer {ACCOUNT_KEY}");
        assert_eq!(sent.field("authorization"), Some(bearer.as_str()));
        // The answer has come: whatever was to be fetched for it would have been.
        gateway.idle().await;
        assert_eq!((mock.count(), evil.connections()), (1, 0));
    });
}

/// What a provider would read with the operator's rights, and what a server in the operator's
/// network would fetch.
#[test]
fn s09_no_rights_means_nothing_is_read() {
    run(async {
        let (strict, open, google) = (
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        );
        google.always(Script::json(
            200,
            &json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]}),
        ));
        let leave = "caller_references: [gs, s3, files, data_sources], media_urls: pass";
        let vertex = "dialect: vertex, project: p, location: global";
        let at = format!("http://{}", google.address());
        let catalog = Catalog::new()
            .account("strict", &strict)
            .account_with("open", &open, leave)
            .account_at("google", &at, vertex)
            .account_at("bucket", &at, &format!("{vertex}, caller_references: [gs]"))
            .model("m", &["strict"])
            .model("both", &["strict", "open"])
            .model("g", &["google=gemini-2.5-pro"])
            .model("gs", &["google=gemini-2.5-pro", "bucket=gemini-2.5-pro"]);
        let gateway = Gateway::start(catalog).await;
        let ask = |model: &str, role: &str, part: Value| {
            let message = if role == "tool" {
                json!([{"role": "user", "content": "x"},
                    {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "c", "content": [part]}])
            } else {
                json!([{"role": "user", "content": [{"type": "text", "text": "x"}, part]}])
            };
            json!({"model": model, "messages": message})
        };
        let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let parts = [
            (
                "user",
                image("gs://bucket/a.png"),
                "messages[0].content[1].image_url",
            ),
            (
                "user",
                image("s3://bucket/a.png"),
                "messages[0].content[1].image_url",
            ),
            (
                "user",
                json!({"type": "file", "file": {"file_id": "file-abc"}}),
                "messages[0].content[1].file",
            ),
            (
                "user",
                image("https://example.com/a.png"),
                "messages[0].content[1].image_url",
            ),
            (
                "user",
                image("http://169.254.169.254/latest/meta-data"),
                "messages[0].content[1].image_url",
            ),
            (
                "user",
                image("file:///etc/passwd"),
                "messages[0].content[1].image_url",
            ),
            (
                "user",
                json!({"type": "input_audio", "input_audio": {"data": "http://10.0.0.1/a", "format": "wav"}}),
                "messages[0].content[1].input_audio",
            ),
            (
                "user",
                json!({"type": "file", "file": {"file_data": "https://10.0.0.1/a.pdf"}}),
                "messages[0].content[1].file",
            ),
            (
                "tool",
                image("http://10.0.0.1/a.png"),
                "messages[2].content[0].image_url",
            ),
        ];
        for (nth, (role, part, param)) in parts.into_iter().enumerate() {
            let error = gateway
                .post(&ask("m", role, part.clone()))
                .await
                .is_error(400, "unsupported_parameter");
            assert_eq!(error["param"], param, "{error}");
            // Another that may is asked, and gets the very bytes.
            let body = ask("both", role, part);
            assert_eq!(gateway.post(&body).await.status, 200, "{body}");
            let seen = open.request(nth).await.json();
            assert_eq!(seen["messages"], body["messages"]);
        }
        let sources = |model: &str| json!({"model": model, "data_sources": [{"type": "azure_search"}], "messages": [{"role": "user", "content": "x"}]});
        assert_eq!(
            gateway
                .post(&sources("m"))
                .await
                .is_error(400, "unsupported_parameter")["param"],
            "data_sources"
        );
        assert_eq!(gateway.post(&sources("both")).await.status, 200);
        assert_eq!(strict.count(), 0, "nothing of it went up");
        // Google would fetch it under our service account.
        let gs = image("gs://bucket/a.png");
        let error = gateway
            .post(&ask("g", "user", gs.clone()))
            .await
            .is_error(400, "unsupported_parameter");
        assert_eq!(error["param"], "messages[0].content[1].image_url");
        assert_eq!(google.count(), 0);
        assert_eq!(gateway.post(&ask("gs", "user", gs)).await.status, 200);
        assert_eq!(
            google.request(0).await.json()["contents"][0]["parts"][1]["fileData"]["fileUri"],
            "gs://bucket/a.png"
        );
        // What it holds itself goes up anywhere.
        for part in [
            image("data:image/png;base64,iVBORw0KGgo="),
            json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
        ] {
            assert_eq!(gateway.post(&ask("m", "user", part)).await.status, 200);
        }
    });
}

/// What can never pass is said at once, and not to come again when somebody is back.
#[test]
fn s09_a_reference_is_refused_though_its_account_rests() {
    run(async {
        let (mock, open) = (Mock::start().await, Mock::start().await);
        mock.always(Script::error(401, "bad key"));
        let catalog = Catalog::new()
            .account("a", &mock)
            .account_with("open", &open, "caller_references: [gs]")
            .model("m", &["a"])
            .model("both", &["a", "open"]);
        let gateway = Gateway::start(catalog).await;
        let ask = |model: &str, url: &str| {
            let image = json!({"type": "image_url", "image_url": {"url": url}});
            json!({"model": model, "messages": [{"role": "user", "content": [image]}]})
        };
        let plain = ask("m", "data:image/png;base64,iVBORw0KGgo=");
        gateway
            .post(&plain)
            .await
            .is_error(503, "upstream_unavailable");
        gateway.post(&plain).await.is_error(503, "no_capacity");
        let error = gateway
            .post(&ask("m", "gs://bucket/a.png"))
            .await
            .is_error(400, "unsupported_parameter");
        assert_eq!(error["param"], "messages[0].content[0].image_url");
        assert_eq!(
            gateway.post(&ask("both", "gs://bucket/a.png")).await.status,
            200
        );
        assert_eq!((mock.count(), open.count()), (1, 1));
    });
}

/// Servers that do not tell cases apart would read another model, and more tokens, than were looked
/// at here.
#[test]
fn s09_a_known_field_in_another_case_never_goes_up() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(Catalog::new().account("a", &mock).model("m", &["a"])).await;
        let hi = json!([{"role": "user", "content": "hi"}]);
        for (name, known) in [
            ("Model", "model"),
            ("MAX_TOKENS", "max_tokens"),
            ("Messages", "messages"),
            ("me\u{17f}sages", "messages"),
        ] {
            let mut body = json!({"model": "m", "max_tokens": 1, "messages": hi});
            body[name] = json!("dear");
            let error = gateway.post(&body).await.is_error(400, "unknown_parameter");
            assert_eq!(
                (&error["param"], &error["type"]),
                (&json!(name), &json!("invalid_request_error")),
                "{error}"
            );
            assert_eq!(
                error["message"],
                format!("`{name}` is not a field: write `{known}`")
            );
        }
        assert_eq!(mock.count(), 0);
    });
}

#[test]
fn s10_accounts_are_where_they_may_be() {
    let refused_urls = [
        ("http://169.254.169.254/latest", "link-local"),
        ("https://169.254.169.254", "link-local"),
        ("https://[fe80::1]/v1", "link-local"),
        ("https://[::ffff:169.254.169.254]/v1", "link-local"),
        ("https://[fd00:ec2::254]/v1", "metadata"),
        ("https://metadata.google.internal/v1", "metadata"),
        ("https://2852039166/v1", ""),
        ("https://0xa9fea9fe/v1", ""),
        ("https://0251.0376.0251.0376/v1", ""),
        ("https://0.0.0.0/v1", "special address"),
        ("file:///etc/passwd", "https://"),
        ("unix:/run/docker.sock", "https://"),
        ("ftp://example.com", "https://"),
        ("gopher://127.0.0.1:6379/_", "https://"),
        ("https:example.com", ""),
        ("//example.com/v1", ""),
        ("http://example.com/v1", "insecure: true"),
        ("http://8.8.8.8/v1", "insecure: true"),
    ];
    let folder = tempdir();
    std::fs::write(folder.join("server.yaml"), "workers: 1\n").unwrap();
    let check = |url: &str, more: &str| {
        let catalog = format!(
            "models: {{}}\ncallers: {{}}\naccounts:\n  a: {{ dialect: openai, base_url: \"{url}\"{more} }}\n"
        );
        std::fs::write(folder.join("catalog.yaml"), catalog).unwrap();
        let checked = portcullis(&["check", "--conf", folder.to_str().unwrap()]);
        (
            checked.status.success(),
            String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned(),
        )
    };
    for (url, why) in refused_urls {
        let (fine, said) = check(url, "");
        assert!(
            !fine && said.contains("catalog.yaml:4 accounts.a.base_url") && said.contains(why),
            "{url}: {said}"
        );
        let (fine, said) = check(url, ", insecure: true");
        assert_eq!(fine, why == "insecure: true", "{url}: {said}");
    }
    for url in [
        "https://api.example.com/v1",
        "http://127.0.0.1:8000/v1",
        "http://localhost:8000/v1",
        "http://10.1.2.3/v1",
        "http://[::1]:8000/v1",
    ] {
        let (fine, said) = check(url, "");
        assert!(fine, "{url}: {said}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn s12_two_callers_with_one_id_get_own_answers() {
    run(async {
        let mock = Mock::start().await;
        let other = "sk-CaNaRy-caller-other";
        let gateway = Gateway::start(Catalog::over(&mock).caller("beta", other, "")).await;
        let gate = Gate::new();
        mock.push(
            Script::sse()
                .event(delta("for acme "))
                .wait(&gate)
                .event(delta("only"))
                .event(script::finish("stop"))
                .done(),
        );
        let with_id = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .unwrap()
                .replacen("\r\n", "\r\nx-request-id: the-same\r\n", 1)
        };
        let mut first = gateway.connect().await;
        first.send(with_id(post(&chat_stream("m")))).await;
        let mut answer = first.head().await.expect("a head");
        mock.request(0).await;
        // The first is in flight; the second comes and goes, a third fails.
        mock.push(Script::answer("for beta"));
        let second = gateway.raw(with_id(post_as(other, &chat("m")))).await;
        assert_eq!(
            (second.status, second.content().as_str()),
            (200, "for beta")
        );
        let third = gateway.raw(with_id(post_as("wrong", &chat("m")))).await;
        assert_eq!(third.status, 401);
        gate.open();
        first.rest(&mut answer).await;
        assert_eq!(
            (answer.content().as_str(), answer.end),
            ("for acme only", Some(End::Whole))
        );
        for got in [&answer, &second, &third] {
            assert_eq!(got.field("x-request-id"), Some("the-same"));
        }
        let mut lines: Vec<_> = gateway
            .access_lines(3)
            .await
            .iter()
            .map(|line| (line["key"].clone(), line["outcome"].clone()))
            .collect();
        lines.sort_by_key(|(key, _)| key.to_string());
        let expected = [
            (json!("acme/prod"), json!("ok")),
            (json!("beta/prod"), json!("ok")),
            (Value::Null, json!("unauthorized")),
        ];
        assert_eq!(lines, expected);
    });
}
