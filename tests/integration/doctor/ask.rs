//! `--ask`: what targets can do, and that nothing more is sent than what is told.

use serde_json::{Value, json};

use super::{Clinic, account, catalog, has_key};
use crate::support::script::{delta, finish, usage};
use crate::support::{Mock, Script, run};

/// Lets an upstream answer as `wrong` says, and else as a good server does.
fn answers(mock: &Mock, wrong: impl Fn(&Value) -> Option<Script> + Send + Sync + 'static) {
    mock.by(move |request| {
        if request.method == "GET" && !has_key(request) {
            return Script::error(401, "no key");
        }
        if request.method == "GET" {
            return Script::json(200, &json!({ "data": [{ "id": "gpt-test" }] }));
        }
        let body = request.json();
        if let Some(script) = wrong(&body) {
            return script;
        }
        if body["stream"] == true {
            let said = Script::sse().event(delta("yes")).event(finish("stop"));
            return if body["stream_options"]["include_usage"] == true {
                said.event(usage(3)).done()
            } else {
                said.done()
            };
        }
        let text = if body["response_format"].is_object() {
            "{\"answer\":\"yes\"}"
        } else {
            "yes"
        };
        Script::answer(text)
            .with("x-ratelimit-limit-requests", "100")
            .with("x-ratelimit-remaining-requests", "25")
    });
}

/// Returns the requests for an answer. Those of a free look ask for nothing.
fn asked(mock: &Mock) -> Vec<Value> {
    let posts = mock.requests();
    let posts = posts
        .iter()
        .filter(|request| request.method == "POST")
        .map(|request| request.json());
    posts.filter(|body| *body != json!([])).collect()
}

const ALL: &str = "answers: streams with usage, tools, a system message in the middle, JSON schema";

#[test]
fn a_good_target_is_asked_twice_only_with_ask() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        answers(&mock, |_| None);
        clinic.run_doctor().await.exits(0);
        assert_eq!(asked(&mock), Vec::<Value>::new());
        let said = clinic.examine(&["--ask"]).await;
        said.exits(0)
            .has(("ok", "a/gpt-test", "ask"), &[ALL, "(2 requests)"]);
        said.has(
            ("ok", "ask", "cost"),
            &["2 requests were sent; they cost 0.0", "USD"],
        );
        let asked = asked(&mock);
        // It ran twice, for people and for programs.
        assert_eq!(asked.len(), 4);
        assert!(asked.iter().all(|body| body["model"] == "gpt-test"
            && body["max_completion_tokens"].as_u64() <= Some(256)));
    });
}

#[test]
fn what_a_target_lacks_is_named_with_its_remedy() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        answers(&mock, |body| {
            body["tools"]
                .is_array()
                .then(|| Script::error(400, "tools are not supported"))
        });
        let said = clinic.examine(&["--ask"]).await;
        said.exits(1).has(
            ("ok", "a/gpt-test", "ask"),
            &[
                "streams with usage, a system message in the middle, JSON schema",
                "(6 requests)",
            ],
        );
        said.has(
            ("warn", "a/gpt-test", "ask"),
            &[
                "cannot do tools",
                "tools are not supported",
                "`traits: { tools: false }`",
            ],
        );
        // What the catalog says already is no surprise.
        let text = catalog(&account(&mock.base_url(), "")).replace(
            "model: gpt-test",
            "model: gpt-test, traits: { tools: false }",
        );
        clinic.folder.write("catalog.yaml", &text);
        clinic
            .examine(&["--ask"])
            .await
            .exits(0)
            .has(("ok", "a/gpt-test", "ask"), &["cannot do tools"]);
        // And what it says wrongly is told.
        answers(&mock, |_| None);
        let said = clinic.examine(&["--ask"]).await;
        said.exits(1).has(
            ("warn", "a/gpt-test", "ask"),
            &["can do tools", "`traits: { tools: true }`"],
        );
    });
}

#[test]
fn a_target_that_takes_more_than_it_does() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        answers(&mock, |body| {
            let words = || Script::answer("Yes, it is.");
            let mute = || {
                Script::sse()
                    .event(delta("yes"))
                    .event(finish("stop"))
                    .done()
            };
            body["response_format"]
                .is_object()
                .then(words)
                .or_else(|| (body["stream"] == true).then(mute))
        });
        let said = clinic.examine(&["--ask"]).await;
        said.exits(1).has(
            ("warn", "a/gpt-test", "ask"),
            &["does not keep to it", "`traits: { structured: false }`"],
        );
        said.has(
            ("warn", "a/gpt-test", "ask"),
            &["does not tell the usage of a stream"],
        );
    });
}

#[test]
fn a_target_that_does_not_answer_is_asked_once() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        answers(&mock, |_| Some(Script::error(404, "no such model")));
        let said = clinic.examine(&["--ask"]).await;
        let words = [
            "does not answer: HTTP 404",
            "no such model",
            "is `targets[].model` right",
        ];
        said.exits(2).has(("fail", "a/gpt-test", "ask"), &words);
        assert_eq!(asked(&mock).len(), 2);
        answers(&mock, |_| Some(Script::error(401, "bad key")));
        let said = clinic.examine(&["--ask"]).await;
        said.exits(2).has(
            ("fail", "a/gpt-test", "ask"),
            &["HTTP 401", "accounts.a.key names"],
        );
    });
}

#[test]
fn a_target_in_another_format_and_one_for_vectors() {
    run(async {
        let mock = Mock::start().await;
        let base = mock.base_url();
        let other = format!(
            "  a: {{ dialect: anthropic, base_url: \"{base}\", key: {{ env: DOCTOR_KEY }} }}"
        );
        let clinic = Clinic::new(&catalog(&other));
        mock.by(|request| match &*request.method {
            "GET" => Script::json(200, &json!({ "data": [{ "id": "gpt-test" }] })),
            _ => Script::json(
                529,
                &json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } }),
            ),
        });
        let said = clinic.examine(&["--ask"]).await;
        said.exits(2).has(
            ("fail", "a/gpt-test", "ask"),
            &["HTTP 529", "busy", "wait, and ask again"],
        );
        assert!(
            asked(&mock)
                .iter()
                .all(|body| body["tools"][0]["name"] == "weather"),
            "it is asked in its own format"
        );
        let text = catalog(&account(&base, "")).replace("model: gpt-test", "model: text-embed");
        clinic.folder.write("catalog.yaml", text);
        let vectors = json!({ "object": "list", "model": "x", "data": [{ "object": "embedding", "index": 0, "embedding": [0.1] }],
            "usage": { "prompt_tokens": 1, "total_tokens": 1 } });
        mock.by(move |request| match &*request.method {
            "GET" => Script::json(200, &json!({ "data": [{ "id": "text-embed" }] })),
            _ => Script::json(200, &vectors),
        });
        clinic.examine(&["--ask"]).await.exits(0).has(
            ("ok", "a/text-embed", "ask"),
            &["gives vectors", "(1 request)"],
        );
    });
}

/// llama.cpp without `--jinja` says 500 to a request with tools.
#[test]
fn a_server_that_fails_over_tools_answers_without_them() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        answers(&mock, |body| {
            body["tools"]
                .is_array()
                .then(|| Script::error(500, "tools param requires --jinja flag"))
        });
        let said = clinic.examine(&["--ask"]).await;
        said.exits(1).has(
            ("ok", "a/gpt-test", "ask"),
            &["streams with usage", "(6 requests)"],
        );
        said.has(
            ("warn", "a/gpt-test", "ask"),
            &["cannot do tools: HTTP 500", "`traits: { tools: false }`"],
        );
        answers(&mock, |_| Some(Script::error(500, "oops")));
        clinic.examine(&["--ask"]).await.exits(2).has(
            ("fail", "a/gpt-test", "ask"),
            &["does not answer: HTTP 500"],
        );
    });
}

#[test]
fn doctor_reports_servers_that_refuse_usage_in_streams() {
    run(async {
        let mock = Mock::start().await;
        let clinic = Clinic::over(&mock);
        answers(&mock, |body| {
            body["stream_options"]
                .is_object()
                .then(|| Script::error(400, "unknown: stream_options"))
        });
        let said = clinic.examine(&["--ask"]).await;
        let words = [
            "cannot do streams with usage",
            "write `stream_usage: false` at accounts.a",
        ];
        said.exits(1).has(("warn", "a/gpt-test", "ask"), &words);
        clinic.folder.write(
            "catalog.yaml",
            catalog(&account(&mock.base_url(), ", stream_usage: false")),
        );
        let words = ["cannot do streams with usage", "costs are estimates"];
        clinic
            .examine(&["--ask"])
            .await
            .exits(0)
            .has(("ok", "a/gpt-test", "ask"), &words);
    });
}

/// What is known of the account is not asked for again, and nothing waits for a dead host.
#[test]
fn targets_of_an_unaskable_account_are_not_asked() {
    run(async {
        let mock = Mock::start().await;
        let text = |mock: &Mock| {
            let more = "  n: { targets: [{ account: a, model: gpt-more, price: { input: 1, output: 2 } }] }\ncallers:";
            catalog(&account(&mock.base_url(), "")).replace("callers:", more)
        };
        let clinic = Clinic::new(&text(&mock));
        mock.always(Script::error(401, "bad key"));
        let skipped = ("skip", "a", "ask");
        let said = clinic.examine(&["--ask"]).await;
        said.exits(2)
            .has(("fail", "a", "credential"), &["HTTP 401"]);
        said.has(skipped, &["its 2 targets are not asked"])
            .has(("ok", "ask", "cost"), &["0 requests were sent"]);
        assert_eq!(asked(&mock), Vec::<Value>::new());
        mock.stop().await;
        let said = clinic.examine(&["--ask"]).await;
        said.exits(2)
            .has(("fail", "a", "tcp"), &[])
            .has(skipped, &["its 2 targets are not asked"]);
    });
}

#[test]
fn targets_are_told_in_the_order_of_the_catalog() {
    run(async {
        let mock = Mock::start().await;
        let models: String = (0..20)
            .map(|nth| format!("  m{nth:02}: {{ targets: [{{ account: a, model: gpt-{nth:02}, price: {{ input: 1, output: 2 }} }}] }}\n"))
            .collect();
        let clinic = Clinic::new(
            &catalog(&account(&mock.base_url(), ""))
                .replace("callers:", &format!("{models}callers:")),
        );
        answers(&mock, |_| None);
        let said = clinic.examine(&["--ask"]).await;
        let told: Vec<&str> = said
            .all()
            .iter()
            .filter(|one| one["subject"]["kind"] == "target")
            .map(|one| one["subject"]["name"].as_str().unwrap())
            .collect();
        let expected: Vec<String> = std::iter::once("a/gpt-test".to_owned())
            .chain((0..20).map(|nth| format!("a/gpt-{nth:02}")))
            .collect();
        assert_eq!(told, expected);
    });
}
