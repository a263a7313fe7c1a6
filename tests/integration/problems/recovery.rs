//! The verdict and the problems while an outage ends, while nobody asks, and while nothing is
//! served: what is said is what is known.

use std::time::Duration;

use serde_json::{Value, json};

use super::{comes, problems, subject_and_text};
use crate::support::{
    Catalog, Gateway, Mock, PATIENCE, Script, chat, eventually, eventually_within, run_within,
};

/// What the page says of the whole gateway.
fn verdict(gateway: &Gateway) -> Value {
    let (status, text) = gateway.admin("/live?show=figures");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str::<Value>(&text).expect("JSON")["verdict"].clone()
}

/// Waits until the verdict has a word and a text, and returns the text.
async fn says(gateway: &Gateway, word: &str, text: &str) -> String {
    let said = || {
        let verdict = verdict(gateway);
        let says = verdict["says"].as_str()?.to_owned();
        (verdict["word"] == word && says.contains(text)).then_some(says)
    };
    eventually_within(
        6 * PATIENCE,
        &format!("the verdict is {word}: {text}"),
        said,
    )
    .await
}

#[test]
fn the_verdict_ends_with_the_outage() {
    run_within(20 * PATIENCE, async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        // A third fails, and never in a row, so that no breaker opens.
        for _ in 0..8 {
            for _ in 0..2 {
                assert_eq!(gateway.post(&chat("m")).await.status, 200);
            }
            // An answer that is settled after the failure would be one since.
            let are_settled = || (gateway.status()["exchanges"] == 0).then_some(());
            eventually("the answers before are settled", are_settled).await;
            mock.push(Script::error(500, "not now"));
            gateway
                .post(&chat("m"))
                .await
                .is_error(502, "bad_upstream_response");
        }
        says(
            &gateway,
            "failing",
            "8 of 24 requests for `m` failed by the providers' fault in the last 5 minutes",
        )
        .await;
        // Nobody asks: nothing has recovered.
        gateway.advance(Duration::from_secs(30)).await;
        says(&gateway, "failing", "nothing asked since").await;
        let problem = problems(&gateway, "failures").pop().expect("it stands");
        assert_eq!(
            (&problem["severity"], subject_and_text(&problem).0),
            (&json!("critical"), "model m".to_owned())
        );
        for _ in 0..3 {
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
        }
        gateway.advance(Duration::from_secs(1)).await;
        // More than a twentieth of the last five minutes has failed, and it is over.
        says(&gateway, "ok", "nothing is wrong").await;
        assert_eq!(problems(&gateway, "failures"), Vec::<Value>::new());
    });
}

#[test]
fn problems_with_one_cause_are_one() {
    run_within(20 * PATIENCE, async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.always(Script::new().close());
        let mut catalog = Catalog::new()
            .account("a", &a)
            .account("b", &b)
            .model("fine", &["b"]);
        for n in 0..5 {
            catalog = catalog.model(&format!("m{n}"), &["a"]);
        }
        let gateway = Gateway::start(catalog).await;
        for n in 0..5 {
            for _ in 0..5 {
                gateway.post(&chat(&format!("m{n}"))).await;
            }
        }
        let said = says(&gateway, "failing", "5 of 6 models fail").await;
        assert!(
            said.ends_with(": a closes connections without an answer."),
            "{said}"
        );
        comes(&gateway, "model_unfit").await;
        let all = gateway.status()["problems"]
            .as_array()
            .expect("a list")
            .clone();
        let critical: Vec<&Value> = all
            .iter()
            .filter(|problem| problem["severity"] == "critical")
            .collect();
        let [one] = critical[..] else {
            panic!("{critical:#?}")
        };
        assert_eq!(
            (subject_and_text(one).0.as_str(), &one["number"]),
            ("account a", &json!(5))
        );
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_problems", &[("rule", "model_unfit")]),
            1.0
        );
    });
}

#[test]
fn an_empty_gateway_is_not_well_and_helps() {
    run_within(20 * PATIENCE, async {
        let gateway = Gateway::start("accounts: {}\nmodels: {}\ncallers: {}\n").await;
        // Just after the start it says so.
        let has_started =
            || Some(verdict(&gateway)).filter(|verdict| verdict["word"] != "degraded");
        let verdict = eventually("the gateway has started", has_started).await;
        assert_eq!(verdict["word"], "empty", "{verdict}");
        let next: Vec<&str> = verdict["next"]
            .as_array()
            .expect("steps")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(next.len(), 4, "{verdict}");
        for (step, text) in next.iter().zip([
            "account",
            "model",
            "portcullis key new",
            "/v1/chat/completions",
        ]) {
            assert!(step.contains(text), "{step}");
        }
    });
}
