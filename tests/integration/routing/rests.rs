//! Rests for a provider's rate, a credential, and quotas that are nearly used up.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{account, say, target};
use crate::failover::trail;
use crate::support::{Catalog, Gateway, Mock, Script, chat, chat_stream, run};

fn limited() -> Script {
    Script::error(429, "slow down")
}

#[test]
fn a_rate_limit_rests_one_model_in_any_form() {
    run(async {
        let date = || httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(30));
        let rfc3339 = || {
            let date = date();
            let (clock, day) = (
                date.split(' ').nth(4).unwrap().to_owned(),
                date.split(' ').nth(1).unwrap().to_owned(),
            );
            let months = [
                "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
            ];
            let month = months
                .iter()
                .position(|month| date.contains(month))
                .unwrap()
                + 1;
            format!(
                "{}-{month:02}-{day}T{clock}Z",
                date.split(' ').nth(3).unwrap()
            )
        };
        let cases: [(&str, Vec<(&str, String)>, u64); 8] = [
            ("seconds", vec![("retry-after", "30".to_owned())], 30),
            ("date", vec![("retry-after", date())], 30),
            (
                "milliseconds",
                vec![
                    ("retry-after-ms", "30000".to_owned()),
                    ("retry-after", "2".to_owned()),
                ],
                30,
            ),
            (
                "openai",
                vec![
                    ("x-ratelimit-remaining-requests", "0".to_owned()),
                    ("x-ratelimit-reset-requests", "30s".to_owned()),
                ],
                30,
            ),
            (
                "groq",
                vec![
                    ("x-ratelimit-remaining-tokens", "0".to_owned()),
                    ("x-ratelimit-reset-tokens", "0m30.0s".to_owned()),
                ],
                30,
            ),
            (
                "anthropic",
                vec![
                    ("anthropic-ratelimit-requests-remaining", "0".to_owned()),
                    ("anthropic-ratelimit-requests-reset", rfc3339()),
                ],
                30,
            ),
            ("absurd", vec![("retry-after", "86400".to_owned())], 60),
            ("nothing", vec![], 5),
        ];
        let mock = Mock::start().await;
        let mut catalog = Catalog::new();
        for (name, fields, _) in &cases {
            let script = fields.iter().fold(limited(), |script, (field, value)| {
                script.with(field, value)
            });
            mock.on(&format!("{name}-m"), script);
            catalog = catalog
                .account(name, &mock)
                .model(name, &[&format!("{name}={name}-m")]);
            catalog = catalog.model(&format!("{name}-other"), &[name]);
        }
        let gateway = Gateway::start(catalog).await;
        for (name, _, wanted) in &cases {
            gateway
                .post(&chat(name))
                .await
                .is_error(429, "upstream_rate_limited");
            let shown = target(&gateway, name, &format!("{name}-m"));
            assert_eq!(shown["rest"]["why"], "rate", "{name}: {shown}");
            let left = shown["rest"]["for_ms"].as_u64().unwrap();
            // The two dates were written down a while ago.
            let ago = if ["date", "anthropic"].contains(name) {
                20_000
            } else {
                8_000
            };
            assert!(
                left <= wanted * 1000 && left + ago > wanted * 1000,
                "{name}: {shown}"
            );
            assert_eq!(
                (&shown["breaker"], &shown["calls"]),
                (&json!("closed"), &json!(0)),
                "{name}"
            );
            assert_eq!(account(&gateway, name)["state"], "partly");
            assert_eq!(shown["state"], "resting", "{name}");
            gateway.post(&chat(name)).await.is_error(429, "no_capacity");
            assert_eq!(
                gateway.post(&chat(&format!("{name}-other"))).await.status,
                200,
                "another model of {name} goes on"
            );
        }
        gateway.access_lines(3 * cases.len()).await;
    });
}

#[test]
fn a_rate_limit_inside_an_answer_is_one() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let body = json!({"error": {"message": "slow down", "type": "rate_limit_error", "param": null, "code": 429}});
        a.push(Script::sse().event(body).done());
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        let answer = gateway.post(&chat_stream("m")).await;
        assert_eq!(answer.status, 200);
        assert_eq!(target(&gateway, "a", "m")["rest"]["why"], "rate");
        assert_eq!(trail(&gateway.line().await), "a:error_in_answer b:ok");
    });
}

#[test]
fn a_bad_credential_rests_every_model_of_the_account() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.push(Script::error(401, "who are you?"));
        b.always(Script::answer("b"));
        let gateway = Gateway::start(Catalog::chain(&[&a, &b]).model("n", &["a", "b"])).await;
        for model in ["m", "n", "m"] {
            assert_eq!(gateway.post(&chat(model)).await.content(), "b");
        }
        assert_eq!(
            (a.count(), &account(&gateway, "a")["state"]),
            (1, &json!("out"))
        );
        for model in ["m", "n"] {
            let shown = target(&gateway, "a", model);
            assert_eq!(
                (&shown["rest"]["why"], &shown["breaker"]),
                (&json!("credential"), &json!("closed")),
                "{shown}"
            );
            assert!(
                shown["rest"]["for_ms"]
                    .as_u64()
                    .is_some_and(|ms| ms > 50_000 && ms <= 60_000),
                "{shown}"
            );
        }
        gateway.reset("a");
        assert_eq!(gateway.post(&chat("n")).await.status, 200);
        assert_eq!(a.count(), 2);
        gateway.access_lines(4).await;
    });
}

/// An answer in OpenAI's format with what is left of a hundred requests.
fn openai(left: u32) -> Script {
    let script = Script::answer("openai")
        .with("x-ratelimit-limit-requests", "100")
        .with("x-ratelimit-remaining-requests", &left.to_string());
    // What is tighter counts, and what is not does not.
    let script = script
        .with("x-ratelimit-limit-tokens", "1000")
        .with("x-ratelimit-remaining-tokens", "900");
    script
        .with("x-ratelimit-reset-requests", "40m0s")
        .with("x-ratelimit-reset-tokens", "40m0s")
}

fn anthropic(left: u32) -> Script {
    let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [{"type": "text", "text": "anthropic"}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
    let script = Script::json(200, &body).with("anthropic-ratelimit-tokens-limit", "100000");
    let script = script.with(
        "anthropic-ratelimit-tokens-remaining",
        &(left * 1000).to_string(),
    );
    script.with("anthropic-ratelimit-tokens-reset", "2099-01-01T00:00:00Z")
}

#[test]
fn the_last_of_a_quota_is_shown_and_spared() {
    run(async {
        let (a, c) = (Mock::start().await, Mock::start().await);
        a.always(openai(50));
        c.always(anthropic(40));
        let catalog = Catalog::new()
            .account("a", &a)
            .account_with("c", &c, "dialect: anthropic");
        let catalog = catalog.model_with("m", &["a=x", "c=claude"], "strategy: weighted");
        let gateway = Gateway::start(catalog).await;
        let both: Vec<String> = [
            gateway.post(&chat("m")).await.content(),
            gateway.post(&chat("m")).await.content(),
        ]
        .into();
        assert_eq!(both, ["openai", "anthropic"]);
        let about = |shown: &Value, wanted: f64| {
            // A quota fills up again while the test runs.
            assert!(
                shown
                    .as_f64()
                    .is_some_and(|share| share >= wanted && share < wanted + 0.03),
                "{shown} instead of {wanted}"
            );
        };
        about(&account(&gateway, "a")["headroom"], 0.5);
        about(&target(&gateway, "a", "x")["headroom"], 0.5);
        about(&account(&gateway, "c")["headroom"], 0.4);
        for (name, share) in [("a", 0.5), ("c", 0.4)] {
            let shown = gateway
                .metrics()
                .sum("portcullis_headroom_ratio", &[("account", name)]);
            assert!(shown >= share && shown < share + 0.03, "{name}: {shown}");
        }
        // Less than a twentieth is left of one: the other has all of it.
        a.always(openai(1));
        assert_eq!(gateway.post(&chat("m")).await.content(), "openai");
        about(&account(&gateway, "a")["headroom"], 0.01);
        for _ in 0..6 {
            assert_eq!(gateway.post(&chat("m")).await.content(), "anthropic");
        }
        // Where nobody else is left it is asked all the same, and so it is where nobody has more.
        c.always(anthropic(0));
        assert_eq!(gateway.post(&chat("m")).await.content(), "anthropic");
        let more: Vec<String> = [
            gateway.post(&chat("m")).await.content(),
            gateway.post(&chat("m")).await.content(),
        ]
        .into();
        assert!(more.contains(&"openai".to_owned()), "{more:?}");
        gateway.access_lines(12).await;
    });
}

#[test]
fn a_quota_nearly_used_up_outranks_weights_and_tiers() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.always(openai(1));
        b.always(Script::answer("b"));
        let catalog = Catalog::new().account("a", &a).account("b", &b).model_with(
            "one",
            &["a, tier: 1", "b, tier: 1"],
            "",
        );
        let gateway = Gateway::start(catalog.model("two", &["a=one", "b"])).await;
        let answers = [
            gateway.post(&say("one", "?")).await.content(),
            gateway.post(&say("one", "?")).await.content(),
        ];
        assert!(answers.contains(&"b".to_owned()), "{answers:?}");
        for _ in 0..4 {
            assert_eq!(gateway.post(&say("one", "?")).await.content(), "b");
        }
        // That the other one comes second by what the operator says, too, is no reason to wait for
        // a 429.
        assert_eq!(gateway.post(&say("two", "?")).await.content(), "b");
        gateway.access_lines(7).await;
    });
}
