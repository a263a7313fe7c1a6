//! The cost of answers as callers are told it, and the messages about prices that are missing.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::Response;
use crate::support::folder::Folder;
use crate::support::script::{completion, delta, finish};
use crate::support::{Catalog, Gateway, Mock, Script, chat, chat_stream, eventually, run};

const PRICE: &str = "price: { input: 3, output: 15, cached_input: 0.3, cache_write: 3.75, thinking: 5, per_request: 0.01 }";

/// A caller who is told what answers cost, and model `m` at this account.
fn catalog_with_costs(mock: &Mock, account: &str, model: &str) -> Catalog {
    let catalog = Catalog::new()
        .without_acme()
        .caller("acme", KEY, "expose_cost: true");
    catalog
        .account_with("a", mock, account)
        .model_with("m", &["a"], model)
}

/// A stream whose usage is shown.
fn counted(model: &str) -> Value {
    let mut body = chat_stream(model);
    body["stream_options"] = json!({"include_usage": true});
    body
}

/// The `cost` as it stands in the only place where there is one.
#[track_caller]
fn cost(answer: &Response) -> Option<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let mut costs = text.split(r#""cost":"#).skip(1);
    let found = costs.next()?;
    assert_eq!(costs.next(), None, "{text}");
    let usage = text.rfind(r#""usage":{"#).expect("a usage");
    assert!(text.find(r#""cost":"#) > Some(usage), "{text}");
    Some(found.split([',', '}']).next().expect("a value").to_owned())
}

/// 600 tokens read, 400 from the cache, 150 said, 50 thought; and what the upstream thinks that it
/// cost.
fn counts(theirs: Option<f64>) -> Value {
    let mut usage = json!({"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200,
        "prompt_tokens_details": {"cached_tokens": 400}, "completion_tokens_details": {"reasoning_tokens": 50}});
    if let Some(cost) = theirs {
        usage["cost"] = json!(cost);
    }
    usage
}

fn buffered(theirs: Option<f64>) -> Script {
    let mut answer = completion("hi");
    answer["usage"] = counts(theirs);
    Script::json(200, &answer)
}

fn streamed(theirs: Option<f64>) -> Script {
    let mut last = finish("stop");
    last["choices"] = json!([]);
    last["usage"] = counts(theirs);
    Script::sse()
        .event(delta("hi"))
        .event(finish("stop"))
        .event(last)
        .done()
}

/// 1800 + 120 + 2250 + 250 millionths, and a cent.
const COST: &str = "0.01442";

#[test]
fn what_passes_through_says_what_it_cost() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(catalog_with_costs(&mock, "", PRICE)).await;
        for theirs in [None, Some(0.5)] {
            mock.push(buffered(theirs));
            assert_eq!(cost(&gateway.post(&chat("m")).await).as_deref(), Some(COST));
            mock.push(streamed(theirs));
            assert_eq!(
                cost(&gateway.post(&counted("m")).await).as_deref(),
                Some(COST)
            );
            // An answer that came whole where a stream was asked for.
            mock.push(buffered(theirs));
            assert_eq!(
                cost(&gateway.post(&counted("m")).await).as_deref(),
                Some(COST)
            );
            // Without a usage there is nothing to say it in.
            mock.push(streamed(theirs));
            let answer = gateway.post(&chat_stream("m")).await;
            assert!(
                answer.text().ends_with("data: [DONE]\n\n") && !answer.text().contains("cost"),
                "{}",
                answer.text()
            );
            assert_eq!(answer.content(), "hi");
        }
    });
}

#[test]
fn what_is_translated_says_what_it_cost() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(catalog_with_costs(&mock, "dialect: anthropic", PRICE)).await;
        let usage = json!({"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 90, "output_tokens": 7});
        let message = |content: Value| {
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": null,
                "stop_sequence": null, "usage": usage})
        };
        let mut whole = message(json!([{"type": "text", "text": "hi"}]));
        whole["stop_reason"] = json!("end_turn");
        mock.push(Script::json(200, &whole));
        let events = [
            json!({"type": "message_start", "message": message(json!([]))}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ];
        mock.push(
            events
                .iter()
                .fold(Script::sse(), |script, event| script.event(event))
                .end(),
        );
        // 30 + 27 + 11.25 + 105 millionths, and a cent.
        for body in [chat("m"), counted("m")] {
            assert_eq!(
                cost(&gateway.post(&body).await).as_deref(),
                Some("0.01017325")
            );
        }
    });
}

#[test]
fn thinking_has_its_own_price() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(catalog_with_costs(&mock, "dialect: gemini", PRICE)).await;
        let answer = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 20, "thoughtsTokenCount": 30,
                "totalTokenCount": 150}});
        mock.push(Script::json(200, &answer));
        mock.push(Script::sse().event(&answer).end());
        // 180 + 12 + 300 + 150 millionths, and a cent.
        for body in [chat("m"), counted("m")] {
            assert_eq!(
                cost(&gateway.post(&body).await).as_deref(),
                Some("0.010642")
            );
        }
    });
}

#[test]
fn unknown_facts_are_not_told() {
    run(async {
        let mock = Mock::start().await;
        for (more, price) in [
            ("expose_cost: true", ""),
            ("", PRICE),
            ("expose_cost: false", PRICE),
        ] {
            let catalog = Catalog::new()
                .without_acme()
                .caller("acme", KEY, more)
                .account("a", &mock)
                .model_with("m", &["a"], price);
            let gateway = Gateway::start(catalog).await;
            for (script, body) in [(buffered(None), chat("m")), (streamed(None), counted("m"))] {
                mock.push(script);
                assert_eq!(cost(&gateway.post(&body).await), None, "{more} {price}");
            }
            // What an upstream says of it must not pass as ours, where ours is expected.
            let theirs = (more != "expose_cost: true").then(|| "0.5".to_owned());
            for (script, body) in [
                (buffered(Some(0.5)), chat("m")),
                (streamed(Some(0.5)), counted("m")),
            ] {
                mock.push(script);
                assert_eq!(cost(&gateway.post(&body).await), theirs, "{more} {price}");
            }
        }
    });
}

#[test]
fn the_price_is_that_of_who_answers() {
    run(async {
        let (first, second) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .without_acme()
            .caller("acme", KEY, "expose_cost: true")
            .account("a", &first)
            .account("b", &second);
        let targets = "m: { targets: [{ account: a, price: { input: 1000, output: 1000 } }, { account: b }], price: { input: 1, output: 2 } }";
        let text = catalog.to_string().replace(
            "models: {}",
            &format!("models:\n  {targets}\n  free: {{ targets: [{{ account: d }}] }}"),
        );
        let text = text.replace("accounts:\n", "accounts:\n  d: { dialect: demo }\n");
        let gateway = Gateway::start(text).await;
        for (script, body) in [(buffered(None), chat("m")), (streamed(None), counted("m"))] {
            first.push(Script::error(500, "no"));
            second.push(script);
            assert_eq!(cost(&gateway.post(&body).await).as_deref(), Some("0.0014"));
            gateway.reset("a");
        }
        // The demo costs nothing, which is known.
        for body in [chat("free"), counted("free")] {
            assert_eq!(cost(&gateway.post(&body).await).as_deref(), Some("0"));
        }
    });
}

const SERVER: &str = "listen: [{ address: \"127.0.0.1:1\" }]\n";

#[test]
fn check_refuses_impossible_budgets_and_warns_of_unknown_prices() {
    let catalog = |price: &str, limits: &str| {
        format!(
            "accounts: {{ a: {{ dialect: ollama }} }}\nmodels: {{ m: {{ targets: [{{ account: a, model: llama }}]{price} }} }}\n\
             callers:\n  acme: {{ {limits}keys: {{ k: {{ hash: \"sha256:{}\" }} }} }}\n",
            "0".repeat(64)
        )
    };
    let check = |price: &str, limits: &str| {
        Folder::new(&[
            ("server.yaml", SERVER),
            ("catalog.yaml", &catalog(price, limits)),
        ])
        .run(&["check"])
    };
    let ran = check("", "limits: { usd_per_month: 10 }, ");
    assert_eq!(ran.status.code(), Some(1));
    let why = "catalog.yaml:4 callers.acme.limits.usd_per_month: this limit of money cannot be kept, because the price is unknown for: \
               model \"m\" at account \"a\". Until it is known, the catalog is refused; write a line such as `price: { input: 0.50, ";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    let ran = check(
        ", price: { input: 0, output: 0 }",
        "limits: { usd_per_month: 10 }, ",
    );
    assert!(
        ran.stdout.contains("0 warnings"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let ran = check("", "expose_cost: true, ");
    assert!(
        ran.stdout.contains("1 warning"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("warning: catalog.yaml:2 models.m: the price is unknown for"),
        "{}",
        ran.stderr
    );
    assert!(check("", "").stdout.contains("0 warnings"));
}

#[test]
fn prices_lists_what_is_known() {
    let listed = crate::support::gateway::portcullis(&["prices"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("gpt-4o-mini")
            && listed.contains("US dollars per million tokens, as of 20"),
        "{listed}"
    );
    let catalog = "accounts: { a: { dialect: openai, key: { env: PORTCULLIS_TEST_UNSET } } }\n\
                   models: { m: { targets: [{ account: a, model: gpt-4o }, { account: a, model: mine }] }, \
                   v: { targets: [{ account: a, model: text-embedding-3-large }] } }\ncallers: {}\n";
    let folder = Folder::new(&[("server.yaml", SERVER), ("catalog.yaml", catalog)]);
    let shown =
        crate::support::gateway::portcullis(&["prices", "--conf", folder.path().to_str().unwrap()]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[1][..6],
        ["m", "a", "gpt-4o", "list", "2.5", "10"],
        "{shown}"
    );
    assert_eq!(rows[2][..5], ["m", "a", "mine", "unknown", "-"], "{shown}");
    assert_eq!(
        rows[3][..6],
        ["v", "a", "text-embedding-3-large", "list", "0.13", "0"],
        "{shown}"
    );
    folder.write("catalog.yaml", "accounts: {}\n");
    let refused =
        crate::support::gateway::portcullis(&["prices", "--conf", folder.path().to_str().unwrap()]);
    assert!(
        !refused.status.success()
            && String::from_utf8_lossy(&refused.stderr).contains("models: is missing")
    );
}

/// A usage that cannot be, of whatever form, is in no book: all of them show the same estimate, and
/// a line says so once.
#[test]
fn impossible_counts_are_in_no_book() {
    run(async {
        let mock = Mock::start().await;
        let mut catalog = Catalog::new().without_acme().caller(
            "acme",
            KEY,
            "expose_cost: true, limits: { tokens_per_day: 1000000000000 }",
        );
        let dialects = [
            "",
            "dialect: anthropic",
            "dialect: gemini",
            "dialect: cohere",
            "dialect: ollama",
        ];
        for (nth, dialect) in dialects.iter().enumerate() {
            catalog = catalog
                .account_with(&format!("a{nth}"), &mock, dialect)
                .model_with(&format!("m{nth}"), &[&format!("a{nth}")], PRICE);
        }
        let gateway = Gateway::start(catalog).await;
        let mut total = 0;
        let mut asked = 0;
        for absurd in [
            json!(1e18),
            json!(1_u64 << 63),
            json!(-1),
            json!(7.5),
            json!("1e300"),
        ] {
            let mut openai = completion("hello");
            openai["usage"] = json!({"prompt_tokens": absurd, "completion_tokens": 7, "total_tokens": 9, "completion_tokens_details": {"x": absurd}});
            let mut last = finish("stop");
            last["usage"] = openai["usage"].clone();
            let answers = [
                Script::json(200, &openai),
                Script::json(
                    200,
                    &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "hello"}],
                        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "cache_read_input_tokens": absurd, "output_tokens": 7}}),
                ),
                Script::json(
                    200,
                    &json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP"}],
                        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": absurd}}),
                ),
                Script::json(
                    200,
                    &json!({"id": "1", "finish_reason": "COMPLETE", "message": {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
                        "usage": {"tokens": {"input_tokens": absurd, "output_tokens": 7}}}),
                ),
                Script::json(
                    200,
                    &json!({"model": "m", "message": {"role": "assistant", "content": "hello"}, "done": true, "done_reason": "stop",
                        "prompt_eval_count": absurd, "eval_count": 7}),
                ),
                Script::sse().event(delta("hello")).event(last).done(),
            ];
            for (nth, script) in answers.into_iter().enumerate() {
                mock.push(script);
                let (model, body): (_, fn(&str) -> Value) =
                    if nth == 5 { (0, counted) } else { (nth, chat) };
                let answer = gateway.post(&body(&format!("m{model}"))).await;
                let line = gateway.line_of(&answer).await;
                asked += 1;
                let case = format!("{absurd} of a{model}: {} {line}", answer.text());
                // `hello` is two tokens by its bytes.
                let (prompt, completion) = (
                    line["prompt_tokens"].as_u64().expect("a number"),
                    line["completion_tokens"].as_u64(),
                );
                assert!(
                    (1..100).contains(&prompt)
                        && completion == Some(2)
                        && line["usage"] == "estimated",
                    "{case}"
                );
                total += prompt + 2;
                let told = format!(
                    r#""prompt_tokens":{prompt},"completion_tokens":2,"total_tokens":{}"#,
                    prompt + 2
                );
                assert!(
                    answer.text().contains(&told) && !answer.text().contains(&format!(":{absurd}")),
                    "{case}"
                );
                let nanos = 10_000_000 + prompt * 3_000 + 2 * 15_000;
                assert_eq!(
                    line["cost_usd"].as_f64(),
                    Some(nanos as f64 / 1e9),
                    "{case}"
                );
                assert_eq!(
                    cost(&answer).and_then(|cost| cost.parse().ok()),
                    line["cost_usd"].as_f64(),
                    "{case}"
                );
            }
        }
        let metric = |kind: &str| {
            gateway
                .metrics()
                .sum("portcullis_tokens_total", &[("kind", kind)])
        };
        assert_eq!(
            metric("prompt") + metric("completion"),
            total as f64,
            "{}",
            gateway.metrics().0
        );
        let of = |target: &str| -> Value {
            serde_json::from_str(&gateway.admin(target).1).expect("JSON")
        };
        assert_eq!(
            of("/limits?caller=acme")["limits"][0]["used"]["tokens_per_day"],
            total
        );
        let books = of("/usage?by=caller");
        assert_eq!(
            (
                &books["total"]["total_tokens"],
                &books["total"]["estimated_requests"]
            ),
            (&json!(total), &json!(asked))
        );
        let log = gateway.log();
        for (nth, name) in [
            "prompt_tokens",
            "prompt_tokens",
            "completion_tokens",
            "prompt_tokens",
            "prompt_tokens",
        ]
        .iter()
        .enumerate()
        {
            assert_eq!(
                log.matches(&format!(
                    "account a{nth} reported an impossible `{name}` for m{nth}"
                ))
                .count(),
                1,
                "said once: {log}"
            );
        }
    });
}

#[test]
fn a_reload_tells_no_warning_that_was_told_before() {
    run(async {
        let mock = Mock::start().await;
        let catalog = || {
            Catalog::new()
                .without_acme()
                .caller("acme", KEY, "expose_cost: true")
                .account("a", &mock)
        };
        let gateway = Gateway::start(catalog().model("m", &["a"])).await;
        let log_count = |what: &str| gateway.log().matches(what).count();
        let unpriced = "the price is unknown for: ";
        let told_of_m = format!("{unpriced}model \\\"m\\\" at account \\\"a\\\". Where");
        let is_told = async |what: &str, times: usize| {
            eventually("it is told", || (log_count(what) >= times).then_some(())).await;
            assert_eq!(
                (
                    log_count(what),
                    log_count(
                        "accounts.a.key: is a secret in \
             clear text"
                    )
                ),
                (times, 1),
                "{}",
                gateway.log()
            );
        };
        is_told(&told_of_m, 1).await;
        // Two lines further down, and another thing changed.
        gateway
            .swap(format!(
                "# new\n# lines\n{}",
                catalog().model_with("m", &["a"], "aliases: [n]")
            ))
            .await;
        is_told(unpriced, 1).await;
        // What is new is told.
        gateway
            .swap(catalog().model("m", &["a"]).model("n", &["a"]))
            .await;
        is_told(unpriced, 2).await;
        // So is what comes back.
        gateway
            .swap(catalog().model_with("m", &["a"], "price: { input: 1e-05, output: 2.5E+1 }"))
            .await;
        gateway.swap(catalog().model("m", &["a"])).await;
        is_told(&told_of_m, 2).await;
    });
}
