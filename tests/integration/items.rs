//! References to items of earlier answers: a caller of Responses that believes in a store gets the
//! conversation that it means, and nobody else does.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::folder::Folder;
use crate::support::redis::{Redis, Slow};
use crate::support::{
    Catalog, Gateway, Mock, PATIENCE, Script, eventually, eventually_within, run, run_within,
};
use std::time::Duration;

const OTHER_KEY: &str = "sk-CaNaRy-caller-other-0123456789abcdefghijklmnopq";
const BOTH: &str = "dialect: openai, serves: [chat, responses]";

async fn ask(gateway: &Gateway, key: &str, body: &Value) -> Response {
    let bearer = format!("Bearer {key}");
    let fields = [
        ("authorization", &*bearer),
        ("content-type", "application/json"),
    ];
    gateway
        .raw(client::request(
            "POST",
            "/v1/responses",
            &fields,
            body.to_string().as_bytes(),
        ))
        .await
}

/// Asks once, as a stream or whole, and returns the ids of the answer's items.
async fn first_turn(gateway: &Gateway, more: Value) -> Vec<String> {
    let mut body = json!({"model": "m", "input": [{"role": "user", "content": "one"}]});
    body.as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    let answer = ask(gateway, KEY, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let last = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .next_back()
        .unwrap_or(&text);
    let last: Value = serde_json::from_str(last).expect("JSON");
    let response = last.get("response").unwrap_or(&last);
    let items = response["output"].as_array().expect("items").iter();
    items
        .map(|item| item["id"].as_str().expect("an id").to_owned())
        .collect()
}

/// The second turn of somebody who believes that the answer is stored.
fn second_turn(ids: &[String]) -> Value {
    let references = ids
        .iter()
        .map(|id| json!({"type": "item_reference", "id": id}));
    let mut input = vec![json!({"role": "user", "content": "one"})];
    input.extend(references);
    input.push(json!({"role": "user", "content": "two"}));
    json!({"model": "m", "input": input})
}

fn catalog(mock: &Mock) -> Catalog {
    Catalog::over(mock).caller("other", OTHER_KEY, "")
}

#[test]
fn a_reference_becomes_the_item_for_its_key_only() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| match request.json()["stream"] == true {
            true => Script::stream(2),
            false => Script::answer("a whole answer"),
        });
        let gateway = Gateway::start(catalog(&mock)).await;
        for more in [json!({}), json!({"stream": true}), json!({"store": true})] {
            let ids = first_turn(&gateway, more.clone()).await;
            assert_eq!(ids.len(), 1, "{more}");
            let asked = mock.count();
            let answer = ask(&gateway, KEY, &second_turn(&ids)).await;
            assert_eq!(
                (answer.status, answer.field("x-portcullis-dropped")),
                (200, None),
                "{}",
                answer.text()
            );
            let messages = mock.request(asked).await.json()["messages"].clone();
            let said = messages[1]["content"].as_str().unwrap_or_default();
            assert!(
                messages[1]["role"] == "assistant" && !said.is_empty(),
                "{messages}"
            );
            assert_eq!(
                (&messages[0]["content"], &messages[2]["content"]),
                (&json!("one"), &json!("two"))
            );
            let refused = ask(&gateway, OTHER_KEY, &second_turn(&ids)).await;
            refused.is_error(400, "invalid_value");
            let error = refused.json()["error"].clone();
            let message = error["message"].as_str().unwrap();
            assert_eq!(error["param"], "input[1]");
            assert!(
                message.contains("but not for this key") && message.contains("store: false"),
                "{message}"
            );
        }
    });
}

#[test]
fn items_not_kept_are_refused_with_their_reason() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::answer("a whole answer"));
        let gateway = Gateway::start(catalog(&mock)).await;
        let unstored = first_turn(&gateway, json!({"store": false})).await;
        let asked = mock.count();
        for (ids, reason) in [
            (unstored, "or its request said `store: false`"),
            (
                vec!["msg_0a1b2c".to_owned()],
                "no answer to this key had it in the last 24 hours",
            ),
            (
                vec!["msg_0195000000007abc8def0123456789ab_0".to_owned()],
                "hours ago, and items are kept for 24 hours",
            ),
        ] {
            let refused = ask(&gateway, KEY, &second_turn(&ids)).await;
            refused.is_error(400, "invalid_value");
            assert!(refused.text().contains(reason), "{}", refused.text());
        }
        let many: Vec<String> = (0..1_025).map(|number| format!("msg_{number}")).collect();
        let refused = ask(&gateway, KEY, &second_turn(&many)).await;
        refused.is_error(400, "invalid_value");
        let what = "`input` refers to 1025 different items, and at most 1024 are allowed";
        assert!(refused.text().contains(what), "{}", refused.text());
        let stored = json!({"model": "m", "input": "x", "previous_response_id": "resp_1"});
        ask(&gateway, KEY, &stored)
            .await
            .is_error(400, "previous_response_not_found");
        let off = Gateway::with(catalog(&mock))
            .server("item_cache: off")
            .start()
            .await;
        let ids = first_turn(&off, json!({})).await;
        let refused = ask(&off, KEY, &second_turn(&ids)).await;
        refused.is_error(400, "invalid_value");
        assert!(
            refused.text().contains("`item_cache: off`"),
            "{}",
            refused.text()
        );
        assert_eq!(
            mock.count(),
            asked + 1,
            "only the first turn of the second gateway"
        );
    });
}

/// What an account of OpenAI's Responses made has ids of that account, which stores nothing. The
/// thoughts that it encrypted go back to it with the item.
#[test]
fn passed_items_return_with_what_the_account_encrypted() {
    run(async {
        let mock = Mock::start().await;
        let thought = json!({"type": "reasoning", "id": "rs_up", "summary": [], "encrypted_content": "gAAAA-its-own"});
        let text = json!({"type": "output_text", "text": "Hm.", "annotations": [], "logprobs": []});
        let message = json!({"type": "message", "id": "msg_up", "role": "assistant", "status": "completed", "content": [text]});
        let output = json!([thought, message]);
        mock.always(Script::json(
            200,
            &json!({"id": "resp_up", "object": "response", "status": "completed", "model": "gpt-5", "error": null,
                "incomplete_details": null, "output": output, "usage": {"input_tokens": 3, "output_tokens": 3, "total_tokens": 6}}),
        ));
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, BOTH)
                .model("m", &["a=gpt-5"]),
        )
        .await;
        let ids = first_turn(&gateway, json!({})).await;
        assert_eq!(ids, ["rs_up", "msg_up"]);
        let answer = ask(&gateway, KEY, &second_turn(&ids)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let input = mock.request(1).await.json()["input"].clone();
        assert_eq!(
            input[1],
            json!({"type": "reasoning", "summary": [], "encrypted_content": "gAAAA-its-own"})
        );
        assert_eq!(
            input[2],
            json!({"type": "message", "role": "assistant", "status": "completed", "content": [text]})
        );
    });
}

fn seal_key() -> Folder {
    Folder::new(&[("seal.key", "0123456789abcdef0123456789abcdef")])
}

/// Starts a gateway that keeps items in the store at a port of this machine.
async fn sharing(mock: &Mock, folder: &Folder, port: u16, store: &str) -> Gateway {
    let settings = format!(
        "workers: 1\nitem_cache: store\nseal: {{ keys: [{{ file: '{}' }}] }}\n\
         store: {{ redis: {{ env: REDIS_URL }}, instances: 2, {store} }}",
        folder.path().join("seal.key").display()
    );
    let url = format!("redis://127.0.0.1:{port}");
    Gateway::with(catalog(mock))
        .server(&settings)
        .env("REDIS_URL", &url)
        .upstream(port)
        .start()
        .await
}

async fn store_is_up(gateway: &Gateway) {
    let is_up = || (gateway.status()["store"]["state"] == "up").then_some(());
    eventually_within(4 * PATIENCE, "the store is up", is_up).await;
}

#[test]
fn one_gateways_items_are_resolved_by_its_neighbour() {
    run_within(Duration::from_secs(120), async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a whole answer"));
        let folder = seal_key();
        let two = [
            sharing(&mock, &folder, redis.port, "timeout: 5s").await,
            sharing(&mock, &folder, redis.port, "timeout: 5s").await,
        ];
        for gateway in &two {
            store_is_up(gateway).await;
        }
        let ids = first_turn(&two[0], json!({})).await;
        let kept = |redis: &Redis| redis.keys().into_iter().find(|key| key.contains(":items:"));
        let kept = eventually("it is kept", || kept(&redis)).await;
        let text: String = redis::cmd("GET")
            .arg(&kept)
            .query(&mut redis.connection())
            .expect("a text");
        assert!(
            !text.contains("whole") && !kept.contains(&ids[0]),
            "it is sealed: {kept} {text}"
        );
        let ttl: u64 = redis::cmd("TTL")
            .arg(&kept)
            .query(&mut redis.connection())
            .expect("a time");
        assert!((24 * 3600 - 60..=24 * 3600).contains(&ttl), "{ttl}");
        let answer = ask(&two[1], KEY, &second_turn(&ids)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            mock.request(1).await.json()["messages"][1]["content"],
            "a whole answer"
        );
        ask(&two[1], OTHER_KEY, &second_turn(&ids))
            .await
            .is_error(400, "invalid_value");
    });
}

/// The store is asked for sixteen items at once, and each of these answers has `store.timeout`.
#[test]
fn a_slow_store_resolves_many_references() {
    const ITEMS: usize = 64;
    run_within(Duration::from_secs(180), async {
        let mut redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a whole answer"));
        let folder = seal_key();
        let maker = sharing(&mock, &folder, redis.port, "timeout: 5s").await;
        let slow = Slow::to(redis.port).await;
        let other = sharing(&mock, &folder, slow.address.port(), "timeout: 3s").await;
        store_is_up(&maker).await;
        store_is_up(&other).await;
        let mut ids = Vec::new();
        for _ in 0..=ITEMS {
            ids.extend(first_turn(&maker, json!({})).await);
        }
        let (rest, ids) = ids.split_last().expect("ids");
        let kept = || {
            redis
                .keys()
                .iter()
                .filter(|key| key.contains(":items:"))
                .count()
        };
        eventually("all are kept", || (kept() > ITEMS).then_some(())).await;

        // The store stops after the first answer, which is already under way.
        slow.by(Duration::from_secs(1));
        let first = || {
            redis::cmd("INFO")
                .arg("commandstats")
                .query::<String>(&mut redis.connection())
                .expect("counts")
        };
        let stop = async {
            eventually("it is asked", || {
                first().contains("cmdstat_mget").then_some(())
            })
            .await;
            redis.signal("STOP");
        };
        let body = second_turn(ids);
        let (refused, ()) = tokio::join!(ask(&other, KEY, &body), stop);
        could_not_be_asked(&refused, 17);
        // What the first answer held is in memory now.
        assert_eq!(ask(&other, KEY, &second_turn(&ids[..16])).await.status, 200);
        could_not_be_asked(
            &ask(&other, KEY, &second_turn(std::slice::from_ref(rest))).await,
            1,
        );

        // Each answer is in time, and all together take longer than that.
        slow.by(Duration::ZERO);
        redis.signal("CONT");
        let answers = || async { ask(&other, KEY, &second_turn(&ids[..17])).await.status == 200 };
        while !answers().await {
            tokio::task::yield_now().await;
        }
        let third = sharing(&mock, &folder, slow.address.port(), "timeout: 3s").await;
        store_is_up(&third).await;
        slow.by(Duration::from_secs(1));
        let began = std::time::Instant::now();
        let answer = ask(&third, KEY, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(
            began.elapsed() > Duration::from_secs(3),
            "the answers together were late"
        );

        // What nobody can have is refused for good, also where the store is gone.
        slow.by(Duration::ZERO);
        redis.kill();
        let is_down = || (third.status()["store"]["state"] == "down").then_some(());
        eventually("the store is down", is_down).await;
        assert_eq!(ask(&third, KEY, &body).await.status, 200);
        let mixed = [ids[0].clone(), rest.clone()];
        could_not_be_asked(&ask(&third, KEY, &second_turn(&mixed)).await, 2);
        redis.again();
        store_is_up(&third).await;
        ask(&third, KEY, &second_turn(&mixed))
            .await
            .is_error(400, "invalid_value");
    });
}

/// At the door of Responses, what is unavailable for a time has the status 429, as Codex needs it.
fn could_not_be_asked(refused: &Response, index: usize) {
    refused.is_error(429, "store_unavailable");
    let error = &refused.json()["error"];
    assert_eq!(
        (refused.field("retry-after"), &error["param"]),
        (Some("1"), &json!(format!("input[{index}]")))
    );
    assert!(
        refused
            .text()
            .contains("the store that keeps items for several gateways could not be asked")
    );
}
