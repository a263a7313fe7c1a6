//! Accounts that cannot be reached, are not believed, refuse the credential, or list other models.

use std::time::{Duration, Instant};

use super::{Clinic, account, catalog, has_key, lists, lists_at};
use crate::support::canary::ACCOUNT_KEY;
use crate::support::tls::{Ca, Leaf};
use crate::support::{Mock, Proxy, Script, eventually, run};

const KEY_LINE: (&str, &str) = ("account", "credential");

/// Runs one broken set-up: the same folder is healthy first, and then `broken` breaks its upstream.
async fn breaks(broken: Script, line: (&str, &str), state: &str, words: &[&str]) {
    let mock = Mock::start().await;
    let clinic = Clinic::over(&mock);
    clinic
        .run_doctor()
        .await
        .exits(0)
        .is_well("a", KEY_LINE.1)
        .is_well("a", "models")
        .is_well("a", "tcp");
    mock.always(broken);
    clinic
        .run_doctor()
        .await
        .exits(if state == "fail" { 2 } else { 1 })
        .has((state, "a", line.1), words);
}

#[test]
fn a_wrong_key_is_named_and_never_quoted() {
    run(async {
        // Some characters cannot be seen, and could hide the key.
        let (half, rest) = ACCOUNT_KEY.split_at(ACCOUNT_KEY.len() / 2);
        let said = format!(
            "Incorrect API key pro\u{202e}vided: {ACCOUNT_KEY} or {half}\u{200b}{rest}\u{202e}. \u{1b}[31m"
        );
        let words = [
            "is refused (HTTP 401)",
            "Incorrect API key provided",
            "accounts.a.key names",
        ];
        breaks(Script::error(401, &said), KEY_LINE, "fail", &words).await;
    });
}

#[test]
fn a_public_list_says_nothing_of_the_key() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "a", "credential"), &["comes with this key"]);
        mock.by(|_| Script::json(200, &serde_json::json!({ "data": [{ "id": "gpt-test" }] })));
        let words = ["is public, so it says nothing of the key", "--ask"];
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("skip", "a", "credential"), &words)
            .is_well("a", "models");
        // Whether it is public cannot be told while the server has trouble with strangers.
        mock.by(|request| match has_key(request) {
            true => Script::json(200, &serde_json::json!({ "data": [{ "id": "gpt-test" }] })),
            false => Script::error(503, "later"),
        });
        clinic.run_doctor().await.exits(0).has(
            ("skip", "a", "credential"),
            &["it is not known whether", "--ask"],
        );
        clinic.folder.write(
            "catalog.yaml",
            catalog(&account(&mock.base_url(), "")).replace("key: { env: DOCTOR_KEY }, ", ""),
        );
        mock.by(|_| Script::json(200, &serde_json::json!({ "data": [{ "id": "gpt-test" }] })));
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "a", "credential"), &["comes without a key"]);
    });
}

#[test]
fn an_account_that_is_not_paid_for() {
    run(async {
        breaks(
            Script::error(402, "no credit"),
            KEY_LINE,
            "fail",
            &["HTTP 402", "pay for the account"],
        )
        .await;
    });
}

#[test]
fn a_key_that_may_not_read_the_list() {
    run(async {
        breaks(
            Script::error(403, "missing scope"),
            KEY_LINE,
            "warn",
            &["HTTP 403", "missing scope"],
        )
        .await;
    });
}

/// Its endpoints show that the way to it is right. Where it has none, the way is wrong.
#[test]
fn a_server_without_a_list_is_not_checked_free() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .is_well("a", KEY_LINE.1)
            .is_well("a", "endpoints");
        // llama.cpp says 500 to what it cannot read, and 404 to what it does not have.
        for status in [400, 500] {
            mock.by(move |request| match (&*request.method, &*request.target) {
                ("POST", "/v1/chat/completions") => {
                    Script::error(status, "you must provide a model parameter")
                }
                _ => Script::error(404, "none"),
            });
            let said = clinic.run_doctor().await;
            said.exits(0).has(
                ("skip", "a", KEY_LINE.1),
                &["no list of models (HTTP 404)", "--ask"],
            );
            said.is_well("a", "endpoints");
        }
        // A server that says 500 everywhere shows nothing.
        mock.by(|request| {
            if request.method == "GET" {
                Script::error(404, "none")
            } else {
                Script::error(500, "oops")
            }
        });
        let said = clinic.run_doctor().await;
        said.exits(1)
            .has(("warn", "a", KEY_LINE.1), &["no list of models (HTTP 404)"]);
        said.has(
            ("skip", "a", "endpoints"),
            &[
                "only real requests show whether they work, and `portcullis doctor --ask` sends some",
                "fault of its own (HTTP 500)",
                "oops",
            ],
        );
        // Whoever is refused by all endpoints hears it, whatever becomes of the list.
        for (list, endpoint, words) in [
            (
                404,
                401,
                [
                    "is refused (HTTP 401)",
                    "write a valid key into the place that accounts.a.key names",
                ],
            ),
            (
                403,
                401,
                [
                    "is refused (HTTP 401)",
                    "write a valid key into the place that accounts.a.key names",
                ],
            ),
            (404, 402, ["is refused (HTTP 402)", "pay for the account"]),
        ] {
            mock.by(move |request| {
                Script::error(
                    if request.method == "GET" {
                        list
                    } else {
                        endpoint
                    },
                    "no",
                )
            });
            let said = clinic.run_doctor().await;
            said.exits(2).has(("fail", "a", KEY_LINE.1), &words);
            assert!(
                said.all().iter().all(|one| one["check"] != "endpoints"),
                "{}",
                said.text
            );
        }
        // OpenAI quotes the path of each endpoint.
        mock.by(|request| Script::error(404, &format!("Invalid URL (POST {})", request.target)));
        let said = clinic.run_doctor().await;
        said.exits(2)
            .has(("warn", "a", KEY_LINE.1), &["no list of models (HTTP 404)"]);
        let words = [
            "there is nothing at POST /v1/chat/completions",
            "are host, port and path of `base_url` right?",
        ];
        said.has(("fail", "a", "endpoints"), &words);
        assert_eq!(
            said.all()
                .iter()
                .filter(|one| one["check"] == "endpoints")
                .count(),
            1,
            "{}",
            said.text
        );
        assert!(
            !said.text.contains(".serves"),
            "nothing is written there: {}",
            said.text
        );
    });
}

/// llama.cpp's own server writes the names twice.
#[test]
fn a_list_of_llama_cpp() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        let [named, known] = ["name", "id"].map(|field| serde_json::json!([{ field: "gpt-test" }]));
        let list = Script::json(
            200,
            &serde_json::json!({ "models": named, "object": "list", "data": known }),
        );
        mock.by(move |request| match (&*request.method, &*request.target) {
            ("GET", _) => list.clone(),
            (_, "/v1/chat/completions") => Script::error(500, "cannot use operator[]"),
            _ => Script::error(404, "File Not Found"),
        });
        clinic
            .run_doctor()
            .await
            .exits(0)
            .is_well("a", "models")
            .is_well("a", "endpoints");
    });
}

/// OpenAI has keys that may ask models, and not list them.
#[test]
fn a_key_that_may_ask_and_not_list() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        mock.by(|request| match &*request.method {
            "GET" => Script::error(403, "Missing scopes: api.model.read"),
            _ => Script::error(400, "you must provide a model parameter"),
        });
        let words = [
            "may not read the list of models (HTTP 403)",
            "the models are not checked",
            "Missing scopes",
        ];
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("skip", "a", KEY_LINE.1), &words)
            .is_well("a", "endpoints");
    });
}

/// Lists are free also for whoever has not paid.
#[test]
fn doctor_reports_an_unpaid_account_that_lists_its_models() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.run_doctor().await.exits(0);
        mock.by(|request| match (&*request.method, has_key(request)) {
            ("GET", false) => Script::error(401, "no key"),
            ("GET", true) => {
                Script::json(200, &serde_json::json!({ "data": [{ "id": "gpt-test" }] }))
            }
            _ => Script::error(402, "Insufficient Balance"),
        });
        let said = clinic.run_doctor().await;
        said.exits(2).has(
            ("fail", "a", KEY_LINE.1),
            &["HTTP 402", "Insufficient Balance", "pay for the account"],
        );
        assert!(!said.text.contains("serves"), "{}", said.text);
    });
}

#[test]
fn an_endpoint_that_the_server_does_not_have() {
    run(async {
        let mock = Mock::start().await;
        lists(&mock, &["gpt-test"]);
        let clinic = Clinic::new(&catalog(&account(&mock.base_url(), ", serves: [chat]")));
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "a", "endpoints"), &["chat: the server has"]);
        // What nobody wrote is no fault.
        clinic
            .folder
            .write("catalog.yaml", catalog(&account(&mock.base_url(), "")));
        let words = [
            "chat: the server has",
            "does not have completions, embeddings",
            "with `serves: [chat]`",
        ];
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "a", "endpoints"), &words);
        clinic.folder.write(
            "catalog.yaml",
            catalog(&account(
                &mock.base_url(),
                ", serves: [chat, embeddings, responses]",
            )),
        );
        let said = clinic.run_doctor().await;
        said.exits(2)
            .has(("ok", "a", "endpoints"), &["chat: the server has"]);
        let there = "responses, embeddings: there is nothing at POST /v1/responses, /v1/embeddings (HTTP 404)";
        said.has(
            ("fail", "a", "endpoints"),
            &[there, "take responses, embeddings out of accounts.a.serves"],
        );
        // A list that everybody may read hides a wrong key, and a request for nothing does not.
        let public = Script::json(200, &serde_json::json!({ "data": [{ "id": "gpt-test" }] }));
        mock.by(move |request| match &*request.method {
            "GET" => public.clone(),
            _ => Script::error(401, "no such key"),
        });
        let said = clinic.run_doctor().await;
        said.exits(2).has(
            ("fail", "a", "credential"),
            &["is refused (HTTP 401)", "no such key", "accounts.a.key"],
        );
        assert!(
            said.all().iter().all(|one| one["check"] != "endpoints"),
            "{}",
            said.text
        );
        // What a model of the catalog is for is missing, whatever else there is.
        lists(&mock, &["gpt-test"]);
        clinic
            .folder
            .write("catalog.yaml", catalog(&account(&mock.base_url(), "")));
        mock.by(|request| match (&*request.method, &*request.target) {
            ("GET", _) if !has_key(request) => Script::error(401, "no key"),
            ("GET", _) => Script::json(200, &serde_json::json!({ "data": [{ "id": "gpt-test" }] })),
            (_, "/v1/embeddings") => Script::error(400, "you must provide a model parameter"),
            _ => Script::error(404, "not here"),
        });
        let said = clinic.run_doctor().await;
        said.exits(2).has(
            ("fail", "a", "endpoints"),
            &["chat: there is nothing at POST /v1/chat/completions"],
        );
        said.has(
            ("ok", "a", "endpoints"),
            &[
                "embeddings: the server has",
                "does not have completions, rerank",
            ],
        );
        // A key may be good for some of them only.
        lists(&mock, &["gpt-test"]);
        clinic.folder.write(
            "catalog.yaml",
            catalog(&account(&mock.base_url(), ", serves: [chat, embeddings]")),
        );
        mock.by(|request| match (&*request.method, &*request.target) {
            ("GET", _) if !has_key(request) => Script::error(401, "no key"),
            ("GET", _) => Script::json(200, &serde_json::json!({ "data": [{ "id": "gpt-test" }] })),
            (_, "/v1/chat/completions") => Script::error(400, "you must provide a model parameter"),
            _ => Script::error(403, "missing scope"),
        });
        let words = [
            "embeddings: the credential may not ask POST /v1/embeddings (HTTP 403)",
            "missing scope",
        ];
        clinic
            .run_doctor()
            .await
            .exits(1)
            .is_well("a", "credential")
            .has(("warn", "a", "endpoints"), &words);
    });
}

#[test]
fn a_server_in_trouble() {
    run(async {
        breaks(
            Script::error(500, "oops"),
            ("account", "models"),
            "fail",
            &["did not come (HTTP 500)", "oops"],
        )
        .await;
    });
}

#[test]
fn a_provider_that_takes_no_more_requests() {
    run(async {
        breaks(
            Script::error(429, "slow down"),
            KEY_LINE,
            "warn",
            &["HTTP 429", "wait"],
        )
        .await;
    });
}

#[test]
fn a_page_in_place_of_a_list() {
    run(async {
        let page = Script::text(200, "text/html", "<html>hello</html>");
        breaks(
            page,
            ("account", "address"),
            "fail",
            &[
                "no such server",
                "it sent an answer that is no list",
                "path of `base_url`",
            ],
        )
        .await;
    });
}

#[test]
fn a_server_that_sends_callers_elsewhere() {
    run(async {
        let there = Script::text(301, "text/plain", "").with("location", "https://elsewhere.test/");
        breaks(
            there,
            ("account", "address"),
            "fail",
            &["elsewhere (HTTP 301)", "base_url"],
        )
        .await;
    });
}

#[test]
fn a_base_url_without_its_v1() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.run_doctor().await.exits(0);
        let bare = mock.base_url().trim_end_matches("/v1").to_owned();
        clinic
            .folder
            .write("catalog.yaml", catalog(&account(&bare, "")));
        clinic.run_doctor().await.exits(2).has(
            ("fail", "a", "address"),
            &[
                "/v1 behind it",
                "write /v1 at the end of accounts.a.base_url",
            ],
        );
    });
}

#[test]
fn a_port_where_nobody_listens() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.run_doctor().await.exits(0).is_well("a", "tcp");
        mock.stop().await;
        let address = mock.address().to_string();
        clinic.run_doctor().await.exits(2).has(
            ("fail", "a", "tcp"),
            &[&address, "Connection refused", "does the server run"],
        );
    });
}

#[test]
fn a_name_that_nobody_knows() {
    run(async {
        let mock = Mock::start().await;
        lists(&mock, &["gpt-test"]);
        let at = |scheme: &str, host: &str| {
            catalog(&account(
                &format!("{scheme}://{host}:{}/v1", mock.address().port()),
                "",
            ))
        };
        let clinic = Clinic::new(&at("http", "localhost"));
        clinic
            .run_doctor()
            .await
            .is_well("a", "name")
            .has(("ok", "a", "name"), &["localhost is", "127.0.0.1"]);
        clinic
            .folder
            .write("catalog.yaml", at("https", "nobody.invalid"));
        clinic.run_doctor().await.exits(2).has(
            ("fail", "a", "name"),
            &["cannot resolve nobody.invalid", "/etc/resolv.conf"],
        );
    });
}

/// An account over TLS that trusts this authority.
async fn secured(ca: &Ca, leaf: &Leaf) -> (Mock, Clinic) {
    let mock = Mock::tls(leaf).await;
    lists(&mock, &["gpt-test"]);
    let clinic = Clinic::new(&catalog(&account(
        &mock.base_url(),
        ", tls: { ca: ca.pem }",
    )));
    clinic.folder.write("ca.pem", ca.pem());
    (mock, clinic)
}

#[test]
fn doctor_reports_untrusted_and_ending_certificates() {
    run(async {
        let ca = Ca::named("an authority");
        let (_mock, clinic) = secured(&ca, &ca.leaf()).await;
        clinic.run_doctor().await.exits(0).has(
            ("ok", "a", "tls"),
            &["is believed: for localhost, 127.0.0.1, which expires in"],
        );
        let (_mock, clinic) = secured(&ca, &ca.expired()).await;
        clinic.run_doctor().await.exits(2).has(
            ("fail", "a", "tls"),
            &["expired at 2001-01-01", "by this machine's clock"],
        );
        let (_mock, clinic) = secured(&ca, &ca.leaf_for("other.test")).await;
        clinic.run_doctor().await.exits(2).has(
            ("fail", "a", "tls"),
            &["not valid for name localhost", "other.test"],
        );
        let own = Ca::own(&["localhost"], 2099, false);
        let (_mock, clinic) = secured(&ca, &own).await;
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "a", "tls"), &["unknown issuer", "tls: { ca: … }"]);
        let (_mock, clinic) = secured(&ca, &ca.ends_in(10)).await;
        clinic
            .run_doctor()
            .await
            .exits(1)
            .has(("warn", "a", "tls"), &["which expires in", "days", "renew"]);
        let (_mock, clinic) = secured(&ca, &ca.ends_in(2)).await;
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "a", "tls"), &["which expires in", "renew"]);
    });
}

#[test]
fn doctor_looks_behind_a_proxy_and_at_certificates() {
    run(async {
        let (ca, proxy) = (Ca::named("an authority"), Proxy::start().await);
        let through = |mock: &Mock| {
            proxy.knows(&format!("upstream.test:{}", mock.address().port()), mock);
            let base = format!("https://upstream.test:{}/v1", mock.address().port());
            let clinic = Clinic::new(&catalog(&account(
                &base,
                &format!(", proxy: \"{}\", tls: {{ ca: ca.pem }}", proxy.url("")),
            )));
            clinic.folder.write("ca.pem", ca.pem());
            clinic
        };
        let mock = Mock::tls(&ca.leaf_for("upstream.test")).await;
        lists(&mock, &["gpt-test"]);
        let reached = format!(
            "its server is reached through http://127.0.0.1:{}",
            proxy.port()
        );
        let said = through(&mock).run_doctor().await;
        said.exits(0).has(("ok", "a", "proxy"), &[&reached]);
        said.has(
            ("ok", "a", "tls"),
            &["is believed: for upstream.test, which expires in"],
        )
        .is_well("a", "credential");
        let mock = Mock::tls(&ca.ends_in_for(10, &["upstream.test"])).await;
        lists(&mock, &["gpt-test"]);
        let said = through(&mock).run_doctor().await;
        said.exits(1)
            .is_well("a", "proxy")
            .has(("warn", "a", "tls"), &["which expires in", "renew"]);
        proxy.stop().await;
        through(&mock)
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "a", "proxy"), &["mend the proxy"]);
    });
}

#[test]
fn a_server_that_does_not_speak_tls() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.run_doctor().await.exits(0);
        let address = format!("https://localhost:{}/v1", mock.address().port());
        mock.greet(Script::text(400, "text/plain", "plain HTTP"));
        clinic
            .folder
            .write("catalog.yaml", catalog(&account(&address, "")));
        let said = clinic.run_doctor().await;
        said.exits(2).has(
            ("fail", "a", "tls"),
            &[
                "does not speak TLS",
                "host and port of `base_url`",
                "write http:",
            ],
        );
        assert!(!said.text.contains("certificate"), "{}", said.text);
    });
}

#[test]
fn a_server_that_speaks_tls_at_an_http_address() {
    run(async {
        let ca = Ca::named("an authority");
        let (mock, clinic) = secured(&ca, &ca.leaf()).await;
        clinic.run_doctor().await.exits(0);
        let plain = format!("http://localhost:{}/v1", mock.address().port());
        clinic
            .folder
            .write("catalog.yaml", catalog(&account(&plain, "")));
        let words = [
            "the server speaks TLS",
            "write https: into accounts.a.base_url",
        ];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .is_well("a", "tcp")
            .has(("fail", "a", "address"), &words);
    });
}

#[test]
fn a_model_that_the_provider_does_not_list() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.run_doctor().await.exits(0).has(
            ("ok", "a", "models"),
            &["1 of 1 models of the catalog are in the provider's list of 2"],
        );
        lists(&mock, &["gpt-tset", "other"]);
        let words = [
            "\"gpt-test\" is not in the provider's list of 2",
            "did you mean \"gpt-tset\"?",
            "targets[].model",
        ];
        clinic
            .run_doctor()
            .await
            .exits(1)
            .has(("warn", "a", "models"), &words);
    });
}

#[test]
fn a_pattern_that_matches_nothing() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        let with = |model: &str| {
            catalog(&account(&mock.base_url(), "")).replace(
                "  m: {",
                &format!(
                    "  \"x/*\": {{ targets: [{{ account: a, model: \"{model}\" }}] }}\n  m: {{"
                ),
            )
        };
        clinic.folder.write("catalog.yaml", with("gpt-*"));
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "a", "models"), &["\"gpt-*\" stands for 2 of the "]);
        clinic.folder.write("catalog.yaml", with("claude-*"));
        clinic.run_doctor().await.exits(1).has(
            ("warn", "a", "models"),
            &["matches \"claude-*\"", "serves nothing"],
        );
    });
}

#[test]
fn doctor_compares_this_clock_with_the_providers() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "clock", "time"), &["agrees with 127.0.0.1"]);
        lists_at(&mock, &["gpt-test"], Duration::from_secs(30));
        clinic.run_doctor().await.exits(1).has(
            ("warn", "clock", "time"),
            &["behind that of 127.0.0.1", "NTP"],
        );
        // The time of an answer that comes from a cache is that of another day.
        mock.by(|_| {
            let past = std::time::SystemTime::now() - Duration::from_secs(86_400);
            Script::json(200, &serde_json::json!({ "data": [{ "id": "gpt-test" }] }))
                .with("date", &httpdate::fmt_http_date(past))
                .with("age", "86400")
        });
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("skip", "clock", "time"), &["no other clock was seen"]);
        lists(&mock, &["gpt-test"]);
        let (_tools, library, shift) = crate::store::shifted_clock("630");
        let clinic = clinic
            .env("LD_PRELOAD", library.to_str().unwrap())
            .env("CLOCK_SHIFT", shift.to_str().unwrap());
        clinic.run_doctor().await.exits(2).has(
            ("fail", "clock", "time"),
            &["10 min ahead of that of 127.0.0.1", "AWS and Google"],
        );
    });
}

#[test]
fn doctor_bounds_silent_servers_and_ends_on_interrupt() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        clinic.run_doctor().await.exits(0);
        mock.always(Script::silent());
        clinic.run_doctor().await.exits(2).has(
            ("fail", "a", "models"),
            &["did not come: no whole answer came in time"],
        );
        let asked = mock.count();
        let mut process = clinic.start(&[]);
        eventually("the silent server is asked", || {
            (mock.count() > asked).then_some(())
        })
        .await;
        let began = Instant::now();
        process.signal("INT");
        let status = process.wait(Duration::from_secs(8)).expect("it ends");
        assert!(!status.success() && began.elapsed() < Duration::from_secs(8));
    });
}

#[test]
fn accounts_are_checked_at_once_and_none_hides_another() {
    run(async {
        let mock = Mock::start().await;
        lists(&mock, &["gpt-test"]);
        let mute = Mock::start().await;
        mute.always(Script::silent());
        let more: Vec<String> = (0..20)
            .map(|n| {
                format!(
                    "  b{n:02}: {{ dialect: openai, base_url: \"{}\", key: {{ env: DOCTOR_KEY }} }}",
                    mute.base_url()
                )
            })
            .collect();
        let off = "  off: { dialect: openai, enabled: false }\n  play: { dialect: demo }";
        let clinic = Clinic::new(&catalog(
            &[&account(&mock.base_url(), ""), off, &more.join("\n")].join("\n"),
        ));
        let said = clinic.run_doctor().await;
        said.exits(2)
            .is_well("a", "models")
            .has(("skip", "off", "account"), &["is disabled"]);
        said.is_well("play", "account")
            .has(("fail", "b00", "models"), &[])
            .has(("fail", "b19", "models"), &[]);
    });
}

#[test]
fn a_service_account_whose_token_is_refused() {
    run(async {
        let mock = Mock::start().await;
        let tokens = Mock::start().await;
        let mut service: serde_json::Value =
            serde_json::from_str(include_str!("../../support/service_account.json")).unwrap();
        service["token_uri"] = format!("http://{}/token", tokens.address()).into();
        let line = format!(
            "  a: {{ dialect: vertex, base_url: \"{}\", project: p, service_account: {{ file: sa.json }} }}",
            mock.base_url()
        );
        let clinic = Clinic::new(&catalog(&line));
        clinic.folder.write("sa.json", service.to_string());
        tokens.always(Script::json(200, &serde_json::json!({ "access_token": "CaNaRy-token-abcdefghijklmnop", "expires_in": 3600, "token_type": "Bearer" })));
        clinic
            .run_doctor()
            .await
            .exits(0)
            .has(("ok", "a", "credential"), &["obtained one for 60 min as "]);
        // Google says so of a model, and also of a wrong project.
        mock.always(Script::json(
            404,
            &serde_json::json!({ "error": { "code": 404, "status": "NOT_FOUND", "message": "was not found" } }),
        ));
        let words = [
            "there is nothing at POST",
            "\"gpt-test\" and the rest of the path",
        ];
        clinic
            .run_doctor()
            .await
            .exits(1)
            .has(("warn", "a", "endpoints"), &words);
        tokens.always(Script::json(
            400,
            &serde_json::json!({ "error": "invalid_grant", "error_description": "Invalid JWT Signature." }),
        ));
        let words = [
            "gave no token",
            "Invalid JWT Signature",
            "accounts.a.service_account",
        ];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "a", "credential"), &words);
        let words = ["reasonable timeframe", "let NTP set this machine's clock"];
        tokens.always(Script::json(
            400,
            &serde_json::json!({ "error": "invalid_grant", "error_description": "Token must be in a reasonable timeframe." }),
        ));
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "a", "credential"), &words);
        let server = format!("the token server {} gave no token", tokens.address());
        tokens.stop().await;
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "a", "credential"), &[&server, "`token_uri`"]);
        assert!(
            mock.requests()
                .iter()
                .all(|request| request.method == "GET" || request.body.as_slice() == b"[]")
        );
    });
}

#[test]
fn a_signature_that_the_provider_refuses() {
    run(async {
        let mock = Mock::start().await;
        let keys =
            "aws: { access_key_id: { env: DOCTOR_KEY }, secret_access_key: { env: DOCTOR_KEY } }";
        let base = mock.base_url();
        let line =
            format!("  a: {{ dialect: bedrock, base_url: \"{base}\", region: eu-west-1, {keys} }}");
        let vectors = "models:\n  v: { targets: [{ account: a, model: amazon.titan-embed-text-v2, price: { input: 1, output: 0 } }] }\n";
        let clinic = Clinic::new(&catalog(&line).replace("models:\n", vectors));
        let date = httpdate::fmt_http_date(std::time::SystemTime::now());
        mock.always(Script::error(400, "messages: may not be empty").with("date", &date));
        let said = clinic.run_doctor().await;
        said.exits(0)
            .has(("ok", "a", "credential"), &["takes the signature"])
            .is_well("a", "endpoints");
        said.is_well("clock", "time");
        let posts = mock.requests();
        let posts: Vec<_> = posts
            .iter()
            .filter(|request| request.method == "POST")
            .collect();
        assert!(
            !posts.is_empty()
                && posts
                    .iter()
                    .all(|request| has_key(request) && request.body.as_slice() == b"[]")
        );
        // The keys are good, and one model is not theirs.
        mock.by(|request| match request.target.contains("titan") {
            true => Script::error(
                403,
                "You don't have access to the model with the specified model ID.",
            )
            .with("x-amzn-errortype", "AccessDeniedException"),
            false => Script::error(400, "messages: may not be empty"),
        });
        let words = [
            "embeddings: the credential may not ask POST",
            "titan",
            "access to the model",
        ];
        let said = clinic.run_doctor().await;
        said.exits(1)
            .has(("ok", "a", "credential"), &["takes the signature"])
            .is_well("a", "endpoints");
        said.has(("warn", "a", "endpoints"), &words);
        // Nothing of this shows that the signature was looked at.
        for script in [
            Script::error(500, "oops"),
            Script::error(404, "no such operation"),
        ] {
            mock.always(script);
            clinic
                .run_doctor()
                .await
                .has(("skip", "a", "credential"), &["--ask"]);
        }
        mock.always(Script::error(
            403,
            "The security token included in the request is invalid.",
        ));
        let words = [
            "is refused (HTTP 403)",
            "security token",
            "valid keys into accounts.a.aws",
        ];
        let said = clinic.run_doctor().await;
        said.exits(2).has(("fail", "a", "credential"), &words);
        assert!(
            said.all().iter().all(|one| one["check"] != "endpoints"),
            "{}",
            said.text
        );
    });
}

#[test]
fn doctor_names_the_identity_that_was_obtained() {
    run(async {
        let (mock, service) = (Mock::start().await, Mock::start().await);
        let granted = serde_json::json!({ "access_token": "CaNaRy-token-abcdefghijklmnop", "expires_in": 3600 });
        service.always(Script::json(200, &granted));
        let line = format!(
            "  a: {{ dialect: azure, base_url: \"{}\", identity: {{ from: client_secret, tenant: acme, client_id: app-1, \
             client_secret: CaNaRy-client-secret, authority_url: \"http://{}\" }} }}",
            mock.base_url(),
            service.address()
        );
        let clinic = Clinic::new(&catalog(&line));
        clinic.run_doctor().await.has(
            ("ok", "a", "credential"),
            &["obtained one for 60 min as app-1"],
        );
        let words = "AADSTS700016: Application with identifier 'app-1' was not found";
        let denied =
            serde_json::json!({ "error": "unauthorized_client", "error_description": words });
        service.always(Script::json(400, &denied));
        clinic.run_doctor().await.exits(2).has(
            ("fail", "a", "credential"),
            &["none was obtained", "AADSTS700016", "accounts.a.identity"],
        );
        service.stop().await;
        let words = ["none was obtained", "accounts.a.identity means"];
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "a", "credential"), &words);
    });
}
