//! The states of targets and accounts: `/status`, `/live` and `/metrics` say the same of them, and
//! it is true while they fail, are tested, recover and rest.

use std::time::Duration;

use serde_json::{Value, json};

use super::{live, row};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, client, eventually, run};

/// Returns what `/status` says of an account.
fn account(gateway: &Gateway, id: &str) -> Value {
    let status = gateway.status();
    let accounts = status["accounts"].as_array().expect("accounts");
    accounts
        .iter()
        .find(|account| account["id"] == id)
        .unwrap_or_else(|| panic!("no {id} in {status}"))
        .clone()
}

/// Returns the state and the reason of an account. All places must say the same.
fn of_account(gateway: &Gateway, id: &str) -> Value {
    let shown = account(gateway, id);
    let said = json!([shown["state"], shown["reason"]]);
    let metrics = gateway.metrics();
    for (metric, label) in [
        ("portcullis_account_state", "state"),
        ("portcullis_account_reason", "reason"),
    ] {
        let labels = [("account", id)];
        let count = f64::from(u8::from(shown[label].is_string()));
        assert_eq!(metrics.sum(metric, &labels), count, "{metric} of {id}");
        if let Some(word) = shown[label].as_str() {
            assert_eq!(
                metrics.sum(metric, &[("account", id), (label, word)]),
                1.0,
                "{metric} of {id}: {said}"
            );
        }
    }
    said
}

/// Returns the state, the reason and the flag of the target of a model at an account. All places
/// must say the same.
async fn of_target(gateway: &Gateway, id: &str, model: &str) -> Value {
    // The page sees what was so less than a second ago.
    let agreed = || {
        let targets = account(gateway, id)["targets"]
            .as_array()
            .expect("targets")
            .clone();
        let shown = targets
            .iter()
            .find(|target| target["model"] == model)
            .cloned()?;
        let said = json!([shown["state"], shown["reason"], shown["probing"]]);
        let page = live(gateway, "?show=models");
        let targets = row(&page["models"], model)["targets"]
            .as_array()
            .expect("targets")
            .clone();
        let on_page = targets
            .iter()
            .find(|target| target["account"] == id)
            .cloned()?;
        let is_same = json!([on_page["state"], on_page["reason"], on_page["probing"]]) == said
            && json!([on_page["account_state"], on_page["account_reason"]])
                == of_account(gateway, id);
        let names = [("account", id), ("model", model)];
        let metrics = gateway.metrics();
        let word = shown["state"].as_str()?;
        let counted = [
            metrics.sum("portcullis_target_state", &names),
            metrics.sum(
                "portcullis_target_state",
                &[names.as_slice(), &[("state", word)]].concat(),
            ),
            metrics.sum("portcullis_target_probing", &names),
        ];
        let expected = [1.0, 1.0, f64::from(u8::from(shown["probing"] == true))];
        (is_same && counted == expected).then_some(said)
    };
    eventually(&format!("one state of {model} at {id} everywhere"), agreed).await
}

/// Each cause has its own word, and an account says how much of it is out.
#[test]
fn states_are_true_and_the_same_everywhere() {
    run(async {
        let mock = Mock::start().await;
        mock.on("dead", Script::error(500, "out of order"));
        mock.on(
            "limited",
            Script::error(429, "slow down").with("retry-after", "50"),
        );
        mock.on("locked", Script::error(401, "who are you?"));
        mock.on("unserved", Script::error(404, "what is this?"));
        let mut catalog = Catalog::new()
            .account("dead", &mock)
            .account("five", &mock)
            .account("locked", &mock)
            .account("unserved", &mock)
            .account_with("off", &mock, "enabled: false")
            .model("dead", &["dead"])
            .model("limited", &["five"])
            .model("locked", &["locked"])
            .model("also-locked", &["locked"])
            .model("unserved", &["unserved"])
            .model("off", &["off"]);
        for n in 1..5 {
            catalog = catalog.model(&format!("fine-{n}"), &["five"]);
        }
        let gateway = Gateway::start(catalog).await;
        for id in ["dead", "five", "locked", "unserved"] {
            assert_eq!(
                of_account(&gateway, id),
                json!(["ok", null]),
                "nobody has asked"
            );
        }
        for (model, times) in [
            ("dead", 6),
            ("limited", 1),
            ("locked", 1),
            ("unserved", 3),
            ("fine-1", 1),
        ] {
            for _ in 0..times {
                gateway.post(&chat(model)).await;
            }
        }
        for (id, said) in [
            ("dead", json!(["out", "breaker"])),
            ("five", json!(["partly", "rate"])),
            ("locked", json!(["out", "credential"])),
            ("unserved", json!(["out", "unfit"])),
            ("off", json!(["off", "off"])),
        ] {
            assert_eq!(of_account(&gateway, id), said, "{id}");
        }
        for (id, model, said) in [
            ("five", "limited", json!(["resting", "rate", false])),
            ("five", "fine-1", json!(["ok", null, false])),
            ("locked", "locked", json!(["resting", "credential", false])),
            (
                "locked",
                "also-locked",
                json!(["resting", "credential", false]),
            ),
            ("unserved", "unserved", json!(["resting", "unfit", false])),
            ("off", "off", json!(["off", "off", false])),
        ] {
            assert_eq!(
                of_target(&gateway, id, model).await,
                said,
                "{model} at {id}"
            );
        }
        let dead = of_target(&gateway, "dead", "dead").await;
        assert!(
            dead == json!(["open", "breaker", false])
                || dead == json!(["half_open", "breaker", false]),
            "{dead}"
        );
    });
}

/// Nobody tries a target while nobody asks for it: it is half open, and not probing. It is probing
/// only while a request is there.
#[test]
fn a_target_is_probing_only_while_a_request_tests() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.always(Script::error(500, "out of order"));
        let gateway = Gateway::start(Catalog::over(&mock)).await;
        for _ in 0..5 {
            gateway.post(&chat("m")).await;
        }
        let half = async |is_probing: bool| {
            eventually(&format!("half open, probing: {is_probing}"), || {
                let target = account(&gateway, "a")["targets"][0].clone();
                (target["state"] == "half_open" && target["probing"] == is_probing).then_some(())
            })
            .await;
            let said = of_target(&gateway, "a", "m").await;
            assert_eq!(said, json!(["half_open", "breaker", is_probing]));
            assert_eq!(of_account(&gateway, "a"), json!(["out", "breaker"]));
        };
        gateway.advance(Duration::from_secs(6)).await;
        half(false).await;
        mock.always(Script::new().wait(&gate).then_answer("back"));
        let mut caller = gateway.connect().await;
        caller.send(client::post(&chat("m"))).await;
        half(true).await;
        gate.open();
        assert_eq!(caller.response().await.status, 200);
        assert_eq!(
            of_target(&gateway, "a", "m").await,
            json!(["ok", null, false])
        );
        assert_eq!(of_account(&gateway, "a"), json!(["ok", null]));
    });
}
