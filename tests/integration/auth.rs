//! The rights of callers: section A of the fault table, and every way to send a key.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{Response, post_as, request};
use crate::support::tls::Ca;
use crate::support::{Catalog, Gateway, Mock, chat, run};

const JSON: (&str, &str) = ("content-type", "application/json");
/// Header fields of a request.
type Fields<'t> = &'t [(&'t str, &'t str)];

/// Valid in form, and of nobody.
const UNKNOWN: &str = "sk-CaNaRy-caller-0000000000000000000000000000000000";

fn list(fields: &[(&str, &str)]) -> Vec<u8> {
    request("GET", "/v1/models", fields, b"")
}

fn list_as(key: &str) -> Vec<u8> {
    list(&[("authorization", &format!("Bearer {key}"))])
}

/// The one answer to every key that does not open the gate.
#[track_caller]
fn is_401(answer: &Response) -> Value {
    let error = answer.is_error(401, "invalid_api_key");
    assert_eq!(answer.field("www-authenticate"), Some("Bearer"));
    assert_eq!(error["type"], "invalid_request_error");
    error
}

#[test]
fn a01_no_credential_is_401() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let body = chat("m").to_string();
        is_401(&gateway.raw(list(&[])).await);
        is_401(&gateway.raw(request("GET", "/v1/models/m", &[], b"")).await);
        is_401(
            &gateway
                .raw(request(
                    "POST",
                    "/v1/chat/completions",
                    &[JSON],
                    body.as_bytes(),
                ))
                .await,
        );
        assert_eq!(mock.connections(), 0);
        for line in gateway.access_lines(3).await {
            assert_eq!(
                (&line["status"], &line["outcome"]),
                (&json!(401), &json!("unauthorized")),
                "{line}"
            );
            assert_eq!(
                (&line["caller"], &line["key"], &line["model"]),
                (&Value::Null, &Value::Null, &Value::Null),
                "{line}"
            );
        }
    });
}

#[test]
fn a02_unknown_and_almost_right_keys_look_alike() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        assert_eq!(gateway.raw(list_as(KEY)).await.status, 200);
        let last = format!("{}Z", &KEY[..KEY.len() - 1]);
        let said = is_401(&gateway.raw(list_as(UNKNOWN)).await);
        for key in [
            last.as_str(),
            &KEY[1..],
            &KEY[..KEY.len() - 1],
            &KEY.to_ascii_uppercase(),
            &crate::support::canary::hash(KEY),
        ] {
            assert_eq!(is_401(&gateway.raw(list_as(key)).await), said);
            assert_eq!(is_401(&gateway.raw(post_as(key, &chat("m"))).await), said);
        }
        assert_eq!(mock.connections(), 0);
    });
}

#[test]
fn a06_odd_keys_are_401_and_logged_in_no_size() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let keys: &[&[u8]] = &[
            b"\"",
            b"'",
            b"`",
            b"\"; DROP TABLE keys; --",
            b"{}",
            b"${KEY}",
            b"%00",
            b"\xff\xfe\xfd",
            b"\xc3\x28",
            "ключ".as_bytes(),
            b"a\tb",
            &[b'k'; 513],
            &[b'k'; 20_000],
            &[0xff; 20_000],
        ];
        for key in keys {
            let bytes = [
                b"GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ",
                *key,
                b"\r\n\r\n",
            ]
            .concat();
            is_401(&gateway.raw(bytes).await);
        }
        for line in gateway.access_lines(keys.len()).await {
            assert!(line.to_string().len() < 1_000, "{line}");
        }
        assert!(gateway.log().len() < 20_000, "the log holds what was sent");
        // A head of 1 MB is over the limit before anybody looks at the key in it; a NUL is no
        // header to Pingora's parser.
        gateway
            .raw(list_as(&"k".repeat(1_000_000)))
            .await
            .is_error(431, "headers_too_large");
        assert_eq!(
            gateway
                .raw(b"GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer a\0b\r\n\r\n")
                .await
                .status,
            400
        );
        assert_eq!(gateway.raw(list_as(KEY)).await.status, 200);
    });
}

#[test]
fn a07_malformed_schemes_are_401() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let said = is_401(&gateway.raw(list_as(UNKNOWN)).await);
        for value in [
            "",
            "Bearer",
            "Bearer ",
            &format!("Bearer  {KEY}"),
            &format!("Basic {KEY}"),
            &format!("Bearer{KEY}"),
            &format!("Bearer:{KEY}"),
            KEY,
            &format!("Token {KEY}"),
            &format!("Bearer Bearer {KEY}"),
            &format!("Bearer {KEY}, Bearer {KEY}"),
            &format!("Bearer \"{KEY}\""),
            &format!("Bearer {KEY} x"),
        ] {
            assert_eq!(
                is_401(&gateway.raw(list(&[("authorization", value)])).await),
                said,
                "{value}"
            );
        }
        for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
            assert_eq!(
                gateway
                    .raw(list(&[("authorization", &format!("{scheme} {KEY}"))]))
                    .await
                    .status,
                200,
                "{scheme}"
            );
        }
    });
}

#[test]
fn a08_disabled_or_expired_keys_are_refused_like_unknown_ones() {
    run(async {
        let mock = Mock::start().await;
        let key = |name: &str| format!("sk-CaNaRy-caller-{name}");
        let gone = "expires: 2020-01-01T00:00:00Z";
        let catalog = Catalog::over(&mock)
            .caller("off", &key("off"), "enabled: false")
            .caller("gone", &key("gone"), gone)
            .caller_with(
                "half",
                "",
                &[
                    ("off", &key("key-off"), "enabled: false"),
                    ("gone", &key("key-gone"), gone),
                    ("elsewhere", &key("elsewhere"), "allow_ips: [192.0.2.0/24]"),
                    (
                        "good",
                        &key("good"),
                        "expires: 2099-01-01T00:00:00Z, allow_ips: [127.0.0.0/8]",
                    ),
                ],
            );
        let gateway = Gateway::start(catalog).await;
        let unknown = gateway.raw(list_as(UNKNOWN)).await;
        let said = is_401(&unknown);
        let line = gateway.line_of(&unknown).await;
        assert_eq!(
            (&line["caller"], &line["key"]),
            (&json!(null), &json!(null))
        );
        for (name, caller, id) in [
            ("off", "off", "off/prod"),
            ("gone", "gone", "gone/prod"),
            ("key-off", "half", "half/off"),
            ("key-gone", "half", "half/gone"),
            ("elsewhere", "half", "half/elsewhere"),
        ] {
            for bytes in [list_as(&key(name)), post_as(&key(name), &chat("m"))] {
                let answer = gateway.raw(bytes).await;
                assert_eq!(is_401(&answer), said, "{name}");
                // Only the operator learns whose key it is.
                let line = gateway.line_of(&answer).await;
                let named = (&line["caller"], &line["key"], &line["outcome"]);
                assert_eq!(named, (&json!(caller), &json!(id), &json!("unauthorized")));
            }
            let labels = [("caller", caller)];
            let counted = gateway.metrics().sum("portcullis_requests_total", &labels);
            assert_eq!(counted, 0.0, "no series of {caller}");
        }
        assert_eq!(gateway.raw(list_as(&key("good"))).await.status, 200);
        assert_eq!(mock.connections(), 0);
    });
}

#[test]
fn a09_a_forbidden_model_is_told_as_an_unknown_one() {
    run(async {
        let mock = Mock::start().await;
        let (narrow, none) = ("sk-CaNaRy-caller-narrow", "sk-CaNaRy-caller-none");
        let catalog = Catalog::over(&mock)
            .model_with("hidden", &["a"], "aliases: [hidden-too]")
            .caller_with(
                "beta",
                "models: [\"m*\"]",
                &[
                    ("narrow", narrow, "models: [\"*\"]"),
                    ("none", none, "models: []"),
                ],
            );
        let gateway = Gateway::start(catalog).await;
        for key in [narrow, none] {
            let ids = ids(&gateway.raw(list_as(key)).await);
            assert_eq!(ids, if key == narrow { vec!["m"] } else { vec![] });
            for model in ["hidden", "hidden-too"] {
                let told = |answer: Response, id: &str| {
                    answer
                        .is_error(404, "model_not_found")
                        .to_string()
                        .replace(id, "…")
                };
                let ask = |id: &str| post_as(key, &chat(id));
                assert_eq!(
                    told(gateway.raw(ask(model)).await, model),
                    told(gateway.raw(ask("unheard-of")).await, "unheard-of")
                );
                let one = |id: &str| {
                    request(
                        "GET",
                        &format!("/v1/models/{id}"),
                        &[("authorization", &format!("Bearer {key}"))],
                        b"",
                    )
                };
                assert_eq!(
                    told(gateway.raw(one(model)).await, model),
                    told(gateway.raw(one("unheard-of")).await, "unheard-of")
                );
            }
        }
        assert_eq!(
            ids(&gateway.get("/v1/models").await),
            ["hidden", "hidden-too", "m"]
        );
        assert_eq!(mock.connections(), 0);
        for line in gateway.lines().iter().filter(|line| line["status"] == 404) {
            assert_eq!(
                (&line["outcome"], &line["model"]),
                (&json!("refused"), &Value::Null),
                "{line}"
            );
        }
    });
}

fn ids(list: &Response) -> Vec<String> {
    list.json()["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|model| model["id"].as_str().expect("an id").to_owned())
        .collect()
}

#[test]
fn a10_unknown_paths_are_404_whoever_asks() {
    run(async {
        let mock = Mock::start().await;
        let elsewhere = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let proxied = format!("{}/chat/completions", elsewhere.base_url());
        let paths = [
            "/",
            "//",
            "/v1",
            "/v1/",
            "/v1/../v1/models",
            "/v1/./models",
            "/v1/%2e%2e/v1/models",
            "/v1/%2e/models",
            "/%76%31/models",
            "/V1/models",
            "/v1/Models",
            "/v1/chat/Completions",
            "/v1/chat",
            "/v1/v1/models",
            "/v1/v1/chat/completions",
            "/v1/completionsx",
            "/v1/embeddings/x",
            "/v1/chat/completions%2f",
            "/v1%2fmodels",
            "/v1/models/%zz",
            "/v1/models/%ff",
            "/metrics",
            "/status",
            "/health",
            "/.env",
            "/http://127.0.0.1/",
            "http://gateway.test/",
            "*",
        ];
        let bearer = format!("Bearer {KEY}");
        for path in paths {
            let mut told = Vec::new();
            for key in [None, Some(bearer.as_str()), Some("Bearer wrong")] {
                let fields: Vec<_> = key.map(|key| ("authorization", key)).into_iter().collect();
                for method in ["GET", "POST", "DELETE"] {
                    let answer = gateway.raw(request(method, path, &fields, b"")).await;
                    told.push(answer.is_error(404, "unknown_url"));
                }
            }
            assert!(
                told.iter().all(|error| *error == told[0]),
                "{path}: {told:?}"
            );
        }
        for (path, hint) in [
            ("/v1/v1/chat/completions", "POST /v1/chat/completions"),
            ("/V1/models", "GET /v1/models"),
            ("/v1/model/", "GET /v1/models"),
        ] {
            let error = gateway
                .raw(request("GET", path, &[], b""))
                .await
                .is_error(404, "unknown_url");
            assert!(
                error["message"].as_str().unwrap().contains(hint),
                "{path}: {error}"
            );
        }
        // Never an open proxy, however the other host is named.
        let body = chat("m").to_string();
        let host = elsewhere.address().to_string();
        let fields = [("authorization", bearer.as_str()), JSON, ("host", &host)];
        let answer = gateway
            .raw(request(
                "POST",
                "/v1/chat/completions",
                &fields,
                body.as_bytes(),
            ))
            .await;
        assert_eq!(answer.status, 200);
        let answer = gateway
            .raw(request("POST", &proxied, &fields, body.as_bytes()))
            .await;
        assert!(
            [200, 400, 404].contains(&answer.status),
            "{}",
            answer.status
        );
        assert_eq!(
            (elsewhere.connections(), mock.request(0).await.field("host")),
            (0, Some(mock.address().to_string().as_str()))
        );
        for line in gateway.lines().iter().filter(|line| line["status"] == 404) {
            assert_eq!(
                (&line["outcome"], &line["caller"]),
                (&json!("refused"), &Value::Null),
                "{line}"
            );
        }
    });
}

/// A base URL without `/v1`, or with a slash at its end, and whatever clients make of it.
#[test]
fn a10_slashes_too_many_and_a_missing_version_are_served() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("cors: { origins: [\"https://app.example\"] }")
            .start()
            .await;
        let bearer = format!("Bearer {KEY}");
        let fields = [("authorization", bearer.as_str()), JSON];
        let body = chat("m").to_string();
        let chats = [
            "/chat/completions",
            "//chat/completions",
            "/v1/chat/completions/",
            "//v1/chat/completions",
            "/v1//chat/completions?x=1",
        ];
        for (nth, path) in chats.into_iter().enumerate() {
            let answer = gateway
                .raw(request("POST", path, &fields, body.as_bytes()))
                .await;
            assert_eq!(
                (answer.status, answer.content().as_str()),
                (200, "Hello from the mock."),
                "{path}: {}",
                answer.text()
            );
            assert_eq!(
                mock.request(nth).await.target,
                "/v1/chat/completions",
                "{path}"
            );
            gateway
                .raw(request("POST", path, &[JSON], body.as_bytes()))
                .await
                .is_error(401, "invalid_api_key");
            gateway
                .raw(request("GET", path, &fields, b""))
                .await
                .is_error(405, "method_not_supported");
            let origin = [
                ("origin", "https://app.example"),
                ("access-control-request-method", "POST"),
            ];
            let preflight = gateway.raw(request("OPTIONS", path, &origin, b"")).await;
            assert!(
                preflight
                    .field("access-control-allow-methods")
                    .is_some_and(|methods| methods.contains("POST")),
                "{path}"
            );
        }
        for path in [
            "/models",
            "/models/",
            "//models",
            "/v1/models/",
            "//v1/models",
            "/v1//models",
        ] {
            let list = gateway.raw(request("GET", path, &fields, b"")).await;
            assert_eq!(
                (list.status, ids(&list)),
                (200, vec!["m".to_owned()]),
                "{path}"
            );
            gateway
                .raw(request("GET", path, &[], b""))
                .await
                .is_error(401, "invalid_api_key");
        }
        for path in ["/models/m", "//v1/models/m", "/v1/models/m/"] {
            assert_eq!(
                gateway.raw(request("GET", path, &fields, b"")).await.json()["id"],
                "m",
                "{path}"
            );
        }
        // Of which no access line tells.
        let mut probe = crate::support::client::Connection::plain(gateway.address, None).await;
        probe.send(request("GET", "//livez/", &[], b"")).await;
        assert_eq!(probe.response().await.status, 200);
    });
}

#[test]
fn a11_wrong_methods_are_405_with_allow() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let bearer = format!("Bearer {KEY}");
        let doors = [
            (
                "/v1/chat/completions",
                "POST",
                &[
                    "GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "BREW", "post",
                ][..],
            ),
            (
                "/v1/models",
                "GET, HEAD",
                &[
                    "POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "PROPFIND", "get",
                ],
            ),
            (
                "/v1/models/m",
                "GET, HEAD",
                &["POST", "PUT", "DELETE", "TRACE", "OPTIONS"],
            ),
            ("/livez", "GET, HEAD", &["POST", "TRACE", "OPTIONS"]),
        ];
        for (path, allow, methods) in doors {
            for method in methods {
                for fields in [
                    &[("x-echo", "echo-me")][..],
                    &[("authorization", bearer.as_str()), ("x-echo", "echo-me")],
                ] {
                    let mut connection = gateway.connect().await;
                    connection.send(request(method, path, fields, b"")).await;
                    let answer = connection.try_response(method).await.expect("an answer");
                    assert_eq!(
                        (answer.status, answer.field("allow")),
                        (405, Some(allow)),
                        "{method} {path}"
                    );
                    if *method != "HEAD" {
                        answer.is_error(405, "method_not_supported");
                    }
                    assert!(
                        !answer.text().contains("echo-me") && answer.field("x-echo").is_none(),
                        "{method} {path}: {}",
                        answer.text()
                    );
                }
            }
        }
        assert_eq!(mock.connections(), 0);
    });
}

#[test]
fn a11_connect_is_405_and_no_tunnel() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let target = mock.address().to_string();
        for target in [target.as_str(), "example.com:443", "gateway.test:80"] {
            let mut connection = gateway.connect().await;
            connection
                .send(request("CONNECT", target, &[("host", target)], b""))
                .await;
            connection
                .response()
                .await
                .is_error(405, "method_not_supported");
        }
        assert_eq!(mock.connections(), 0);
        for line in gateway.access_lines(3).await {
            assert_eq!(
                (&line["method"], &line["outcome"]),
                (&json!("CONNECT"), &json!("refused")),
                "{line}"
            );
        }
    });
}

#[test]
fn a12_every_protocol_gives_the_same_result() {
    run(async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let leaf = ca.leaf();
        let gateway = Gateway::with(Catalog::over(&mock))
            .also_listen("h2c: true")
            .also_listen("tls: { cert: cert.pem, key: key.pem }")
            .file("cert.pem", &leaf.cert)
            .file("key.pem", &leaf.key)
            .start()
            .await;
        let good = format!("Bearer {KEY}");
        let (key, form) = (
            ("authorization", good.as_str()),
            ("content-type", "text/plain"),
        );
        let (plain, stream) = (
            chat("m").to_string(),
            crate::support::chat_stream("m").to_string(),
        );
        let unknown = chat("x").to_string();
        let requests: &[(&str, &str, Fields<'_>, &str)] = &[
            ("GET", "/v1/models", &[key], ""),
            ("GET", "/v1/models", &[], ""),
            ("GET", "/v1/models/m", &[("x-api-key", KEY)], ""),
            ("HEAD", "/v1/models", &[key], ""),
            ("GET", "/nothing", &[key], ""),
            ("DELETE", "/v1/models", &[key], ""),
            ("OPTIONS", "/v1/chat/completions", &[key], ""),
            ("POST", "/v1/chat/completions", &[key, JSON], &plain),
            ("POST", "/v1/chat/completions", &[key, JSON], &stream),
            ("POST", "/v1/chat/completions", &[key, JSON], &unknown),
            ("POST", "/v1/chat/completions", &[key, JSON], "{"),
            ("POST", "/v1/chat/completions", &[key, form], &plain),
            ("POST", "/v1/chat/completions", &[JSON], &plain),
            (
                "POST",
                "/v1/chat/completions",
                &[("authorization", "Bearer wrong"), JSON],
                &plain,
            ),
        ];
        let (h2c, h2) = (gateway.h2c(1).await, gateway.h2(2, &ca).await);
        for (method, target, fields, body) in requests {
            let (target, body) = (*target, body.as_bytes());
            let bytes = request(method, target, fields, body);
            let mut one = gateway.connect().await;
            let mut secure = gateway.connect_tls(2, &ca, &["http/1.1"]).await;
            let mut both =
                crate::support::client::Connection::plain(gateway.listeners[1], None).await;
            let mut answers = Vec::new();
            for connection in [&mut one, &mut secure, &mut both] {
                connection.send(&bytes).await;
                answers.push(connection.try_response(method).await.expect("an answer"));
            }
            answers.push(h2c.exchange(method, target, fields, body).await);
            answers.push(h2.exchange(method, target, fields, body).await);
            let results: Vec<_> = answers.iter().map(result).collect();
            assert!(
                results.iter().all(|result| *result == results[0]),
                "{method} {target}: {results:#?}"
            );
        }
    });
}

/// What must not differ: all but ids, times and the framing.
fn result(answer: &Response) -> (u16, Vec<(String, String)>, String) {
    let ours = [
        "content-type",
        "content-length",
        "allow",
        "www-authenticate",
        "retry-after",
        "cache-control",
    ];
    let fields = answer
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    let mut fields: Vec<_> = fields
        .filter(|(name, _)| ours.contains(&name.as_str()))
        .collect();
    fields.sort();
    let text = answer.text();
    let made = text
        .split("\"id\":\"chatcmpl-")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let masked = made.fold(text.clone(), |text, id| text.replace(id, "…"));
    let created = masked
        .split("\"created\":")
        .enumerate()
        .map(|(nth, part)| match nth {
            0 => part.to_owned(),
            _ => part
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .to_owned(),
        });
    (answer.status, fields, created.collect())
}

#[test]
fn keys_are_taken_from_where_sdks_put_them() {
    run(async {
        let mock = Mock::start().await;
        let other = "sk-CaNaRy-caller-other";
        let gateway = Gateway::start(Catalog::over(&mock).caller("beta", other, "")).await;
        let (good, bad) = (format!("Bearer {KEY}"), format!("Bearer {other}"));
        let cases: &[(&[(&str, &str)], u16)] = &[
            (&[("x-api-key", KEY)], 200),
            (&[("api-key", KEY)], 200),
            (&[("x-goog-api-key", KEY)], 200),
            (&[("X-Api-Key", KEY)], 200),
            (&[("authorization", &good), ("x-api-key", KEY)], 200),
            (
                &[
                    ("x-api-key", KEY),
                    ("api-key", KEY),
                    ("x-goog-api-key", KEY),
                    ("authorization", &good),
                ],
                200,
            ),
            (&[("authorization", &good), ("x-api-key", other)], 401),
            (&[("authorization", &good), ("authorization", &bad)], 401),
            (&[("x-api-key", KEY), ("x-api-key", other)], 401),
            (&[("api-key", other), ("x-goog-api-key", KEY)], 401),
            (&[("authorization", &good), ("x-api-key", "wrong")], 401),
            (&[("authorization", &good), ("api-key", "")], 401),
            (&[("authorization", "Basic eDp5"), ("x-api-key", KEY)], 401),
            (&[("cookie", KEY)], 401),
        ];
        for (fields, status) in cases {
            let answer = gateway.raw(list(fields)).await;
            assert_eq!(answer.status, *status, "{fields:?}");
            let key = if *status == 200 {
                json!("acme/prod")
            } else {
                Value::Null
            };
            assert_eq!(gateway.line_of(&answer).await["key"], key, "{fields:?}");
        }
        // Not from the query, but for Google's clients: queries end in logs on the way.
        let target = format!("/v1/chat/completions?key={KEY}");
        is_401(
            &gateway
                .raw(request(
                    "POST",
                    &target,
                    &[("content-type", "application/json")],
                    b"{}",
                ))
                .await,
        );
    });
}

#[test]
fn addresses_are_believed_from_trusted_proxies_only() {
    run(async {
        let mock = Mock::start().await;
        let key = "sk-CaNaRy-caller-inside";
        let catalog = Catalog::over(&mock).caller_with(
            "beta",
            "",
            &[("in", key, "allow_ips: [192.0.2.0/24, \"2001:db8::/32\"]")],
        );
        let behind = Gateway::with(&catalog)
            .server("trusted_proxies: [127.0.0.0/8, 10.9.0.0/16]")
            .start()
            .await;
        let direct = Gateway::start(&catalog).await;
        let cases = [
            (&["192.0.2.7"][..], "192.0.2.7", 200),
            (&["192.0.2.7, 10.9.1.1"], "192.0.2.7", 200),
            (&["192.0.2.7", "10.9.1.1"], "192.0.2.7", 200),
            (&["203.0.113.9, 192.0.2.7 ,10.9.1.1"], "192.0.2.7", 200),
            (&["2001:db8::1"], "2001:db8::1", 200),
            (&["::ffff:192.0.2.7"], "192.0.2.7", 200),
            (&["192.0.2.7, 203.0.113.9"], "203.0.113.9", 401),
            (&["192.0.2.7", "203.0.113.9, 10.9.1.1"], "203.0.113.9", 401),
            (&["192.0.2.7:4711"], "192.0.2.7", 200),
            (&["203.0.113.9:4711"], "203.0.113.9", 401),
            (&["[2001:db8::1]:4711"], "2001:db8::1", 200),
            // Somebody, but nobody known: no address of a proxy's stands in for it.
            (&["192.0.2.7, unknown"], "", 401),
            (&["192.0.2.7, unknown, 10.9.1.1"], "", 401),
            (&[""], "", 401),
            (&["10.9.1.1"], "10.9.1.1", 401),
            (&[], "127.0.0.1", 401),
        ];
        let bearer = format!("Bearer {key}");
        for (hops, address, status) in &cases {
            let mut fields = vec![("authorization", bearer.as_str())];
            fields.extend(hops.iter().map(|hop| ("x-forwarded-for", *hop)));
            let answer = behind.raw(list(&fields)).await;
            let address = if address.is_empty() {
                json!(null)
            } else {
                json!(address)
            };
            assert_eq!(
                (answer.status, &behind.line_of(&answer).await["address"]),
                (*status, &address),
                "{hops:?}"
            );
            let answer = direct.raw(list(&fields)).await;
            assert_eq!(
                (answer.status, &direct.line_of(&answer).await["address"]),
                (401, &json!("127.0.0.1")),
                "{hops:?}"
            );
        }
    });
}

#[test]
fn a_key_that_is_being_rotated_has_several_secrets() {
    run(async {
        let mock = Mock::start().await;
        let secret = |name: &str| format!("sk-CaNaRy-caller-{name}");
        let hash = |name: &str| crate::support::canary::hash(&secret(name));
        let hashes = format!(
            "callers: {{ beta: {{ keys: {{ prod: {{ hashes: [{{ hash: \"{}\" }}, {{ hash: \"{}\", until: 2099-01-01T00:00:00Z }}, \
             {{ hash: \"{}\", until: 2020-01-01T00:00:00Z }}] }} }} }} }}",
            hash("new"),
            hash("old"),
            hash("gone")
        );
        let gateway = Gateway::with(Catalog::over(&mock))
            .file("catalog.d/beta.yaml", hashes)
            .start()
            .await;
        for (name, status, key) in [
            ("new", 200, "beta/prod"),
            ("old", 200, "beta/prod"),
            ("gone", 401, "beta/prod"),
            ("never", 401, ""),
        ] {
            let answer = gateway.raw(list_as(&secret(name))).await;
            assert_eq!(answer.status, status, "{name}");
            assert_eq!(
                gateway.line_of(&answer).await["key"]
                    .as_str()
                    .unwrap_or_default(),
                key,
                "{name}"
            );
        }
    });
}

#[test]
fn a_key_over_several_files_goes_with_its_file() {
    run(async {
        let mock = Mock::start().await;
        let second = "sk-CaNaRy-caller-second";
        let hash = crate::support::canary::hash(second);
        let text = format!("callers: {{ acme: {{ keys: {{ second: {{ hash: \"{hash}\" }} }} }} }}");
        let gateway = Gateway::with(Catalog::over(&mock))
            .file("catalog.d/more.yaml", text)
            .start()
            .await;
        assert_eq!(gateway.raw(list_as(second)).await.status, 200);
        let before = gateway.generation();
        std::fs::remove_file(gateway.conf.join("catalog.d/more.yaml")).unwrap();
        crate::support::eventually("the key is gone", || {
            (gateway.generation() > before).then_some(())
        })
        .await;
        is_401(&gateway.raw(list_as(second)).await);
        assert_eq!(gateway.raw(list_as(KEY)).await.status, 200);
    });
}
