//! Whose turn it is, and to whom a conversation belongs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{join_all, post_with, say, target};
use crate::support::client::{Connection, post};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, eventually, run};

/// Accounts that answer with their names.
async fn named<const N: usize>(names: [&str; N]) -> [Mock; N] {
    let mut mocks = Vec::new();
    for name in names {
        let mock = Mock::start().await;
        mock.always(Script::answer(name));
        mocks.push(mock);
    }
    mocks.try_into().unwrap_or_else(|_| unreachable!())
}

/// Who answers one request after the other.
async fn turns(connection: &mut Connection, model: &str, times: usize) -> String {
    let mut turns = String::new();
    for _ in 0..times {
        connection.send(post(&chat(model))).await;
        turns.push_str(&connection.response().await.content());
    }
    turns
}

#[test]
fn reloads_of_others_break_no_turn_of_weights() {
    run(async {
        let [a, b, c] = &named(["a", "b", "c"]).await;
        let catalog = Catalog::new()
            .account("a", a)
            .account("b", b)
            .account("c", c);
        let catalog = catalog.model_with(
            "m",
            &["a, weight: 5", "b, weight: 1", "c, weight: 1"],
            "strategy: weighted",
        );
        let gateway = Gateway::start(&catalog).await;
        let mut connection = gateway.connect().await;
        // As nginx's smooth round robin does it.
        let first = turns(&mut connection, "m", 10).await;
        assert_eq!(first, "aabacaaaab");
        gateway
            .swap(catalog.clone().account("d", a).model("n", &["d"]))
            .await;
        assert_eq!(
            turns(&mut connection, "m", 4).await,
            "acaa",
            "the round goes on where it was"
        );
        drop(connection);
        gateway.access_lines(14).await;
    });
}

#[test]
fn a_change_of_weights_counts_at_once() {
    run(async {
        let [a, b] = &named(["a", "b"]).await;
        let catalog = Catalog::new().account("a", a).account("b", b);
        let weighted = |of_a, of_b| {
            let targets = [format!("a, weight: {of_a}"), format!("b, weight: {of_b}")];
            catalog.clone().model_with(
                "m",
                &[targets[0].as_str(), targets[1].as_str()],
                "strategy: weighted",
            )
        };
        let gateway = Gateway::start(weighted(9, 1)).await;
        let mut connection = gateway.connect().await;
        assert_eq!(
            turns(&mut connection, "m", 20).await.matches('a').count(),
            18
        );
        gateway.swap(weighted(1, 9)).await;
        assert_eq!(
            turns(&mut connection, "m", 20).await.matches('b').count(),
            18
        );
        drop(connection);
        gateway.access_lines(40).await;
    });
}

#[test]
fn the_lowest_tier_goes_first_by_weight() {
    run(async {
        let [a, b, c] = &named(["a", "b", "c"]).await;
        let catalog = Catalog::new()
            .account("a", a)
            .account("b", b)
            .account("c", c);
        let catalog = catalog.model_with(
            "m",
            &[
                "c, tier: 2",
                "a, tier: 1, weight: 3",
                "b, tier: 1, weight: 1",
            ],
            "",
        );
        let gateway = Gateway::start(catalog).await;
        let mut connection = gateway.connect().await;
        let both = turns(&mut connection, "m", 8).await;
        assert_eq!(
            (both.matches('a').count(), both.matches('b').count()),
            (6, 2),
            "{both}"
        );
        // Where one of the tier fails, the other goes before the next tier.
        a.always(Script::error(500, "out of order"));
        assert_eq!(turns(&mut connection, "m", 8).await, "bbbbbbbb");
        b.always(Script::error(500, "out of order"));
        assert_eq!(turns(&mut connection, "m", 4).await, "cccc");
        drop(connection);
        gateway.access_lines(20).await;
    });
}

#[test]
fn the_least_busy_is_asked() {
    run(async {
        let [a, b] = &named(["a", "b"]).await;
        let catalog = Catalog::new()
            .account("a", a)
            .account("b", b)
            .model("alone", &["a"]);
        let catalog = catalog
            .model_with("m", &["a", "b"], "strategy: least_busy")
            .model_with(
                "uneven",
                &["a, weight: 10", "b, weight: 1"],
                "strategy: least_busy",
            );
        let gateway = Gateway::start(catalog).await;
        let gate = Gate::new();
        a.on("alone", Script::new().wait(&gate).then_answer("a"));
        let alone = chat("alone");
        let (held, ..) = tokio::join!(gateway.post(&alone), async {
            a.request(0).await;
            let mut connection = gateway.connect().await;
            assert_eq!(turns(&mut connection, "m", 10).await, "b".repeat(10));
            // One of ten is less busy than none of one only where somebody is at the one.
            assert_eq!(turns(&mut connection, "uneven", 3).await, "bbb");
            drop(connection);
            gate.open();
        });
        assert_eq!(held.status, 200);
        gateway.access_lines(14).await;
    });
}

#[test]
fn the_fastest_is_asked_and_recoveries_are_found() {
    run(async {
        let [a, b] = &named(["a", "b"]).await;
        // Slower than the other one, even if the machine stands still for a while.
        let slow = |name: &str| {
            Script::new()
                .delay(Duration::from_secs(3))
                .then_answer(name)
        };
        a.always(slow("a"));
        let catalog = Catalog::new().account("a", a).account("b", b);
        let gateway =
            Gateway::start(catalog.model_with("m", &["a", "b"], "strategy: fastest")).await;
        let mut connection = gateway.connect().await;
        let first = turns(&mut connection, "m", 30).await;
        assert!(
            first.contains('a') && first.matches('a').count() <= 3,
            "asked once, and left alone: {first}"
        );
        let expected = target(&gateway, "a", "m");
        assert!(
            expected["whole_ms"].as_u64().is_some_and(|ms| ms >= 1_000)
                && expected["first_token_ms"].is_null(),
            "{expected}"
        );
        // Now it is the other way round: what is not heard of for a while is tried again.
        a.always(Script::answer("a"));
        b.always(slow("b"));
        let mut later = String::new();
        while !later.ends_with("aaaaa") {
            later.push_str(&turns(&mut connection, "m", 1).await);
            assert!(later.len() < 200, "it is not found: {later}");
        }
        let again = turns(&mut connection, "m", 20).await;
        assert!(again.matches('a').count() >= 17, "{again}");
        drop(connection);
        gateway.access_lines(50 + later.len()).await;
    });
}

/// A model whose conversations stick, over three accounts.
async fn sticky(mocks: &[Mock; 3]) -> Gateway {
    let [a, b, c] = mocks;
    let catalog = Catalog::new()
        .account("a", a)
        .account("b", b)
        .account("c", c);
    Gateway::start(catalog.model_with("m", &["a", "b", "c"], "strategy: weighted, sticky: true"))
        .await
}

/// What says to which conversation of number `n` the turn of number `turn` belongs.
type Says = fn(n: usize, turn: usize) -> (Value, Option<String>);

#[test]
fn a_conversation_stays_where_it_began() {
    run(async {
        let mocks = named(["a", "b", "c"]).await;
        let gateway = sticky(&mocks).await;
        let kinds: [(&str, Says); 4] = [
            ("the header", |n, turn| {
                (
                    say("m", &format!("turn {turn}")),
                    Some(format!("session {n}")),
                )
            }),
            ("prompt_cache_key", |n, turn| {
                let mut body = say("m", &format!("turn {turn}"));
                body["prompt_cache_key"] = json!(format!("cache-{n}"));
                body["user"] = json!(format!("user-{turn}"));
                (body, None)
            }),
            ("user", |n, turn| {
                let mut body = say("m", &format!("turn {turn}"));
                body["user"] = json!(format!("user-{n}"));
                (body, None)
            }),
            ("its beginning", |n, turn| {
                let mut body = say("m", &format!("conversation {n}"));
                let messages = body["messages"].as_array_mut().unwrap();
                for turn in 0..turn {
                    messages
                        .push(json!({"role": "assistant", "content": format!("answer {turn}")}));
                    messages.push(json!({"role": "user", "content": format!("turn {turn}")}));
                }
                (body, None)
            }),
        ];
        let mut connection = gateway.connect().await;
        let mut lines = 0;
        for (kind, says) in kinds {
            let mut homes = Vec::new();
            for n in 0..12 {
                let mut seen = Vec::new();
                for turn in 0..3 {
                    let (body, session) = says(n, turn);
                    let session = session
                        .as_deref()
                        .map(|session| ("x-portcullis-session", session));
                    connection.send(post_with(&body, session.as_slice())).await;
                    seen.push(connection.response().await.content());
                    lines += 1;
                }
                assert!(
                    seen.iter().all(|home| *home == seen[0]),
                    "{kind}: conversation {n} went to {seen:?}"
                );
                homes.push(seen.remove(0));
            }
            homes.sort();
            homes.dedup();
            // That all twelve share one of three: one in 177,147.
            assert!(homes.len() > 1, "{kind}: all went to {homes:?}");
        }
        drop(connection);
        gateway.access_lines(lines).await;
    });
}

/// Or all whose client says an empty word would be at one account.
#[test]
fn an_empty_word_says_nothing_of_a_conversation() {
    run(async {
        let mocks = named(["a", "b", "c"]).await;
        let gateway = sticky(&mocks).await;
        let mut connection = gateway.connect().await;
        for empty in ["header", "prompt_cache_key", "user"] {
            let mut homes = std::collections::BTreeSet::new();
            for n in 0..12 {
                let mut body = say("m", &format!("conversation {n}"));
                let mut fields = Vec::new();
                if empty == "header" {
                    fields.push(("x-portcullis-session", ""));
                } else {
                    body[empty] = json!("");
                }
                connection.send(post_with(&body, &fields)).await;
                homes.insert(connection.response().await.content());
            }
            assert!(homes.len() > 1, "{empty}: {homes:?}");
        }
        drop(connection);
        gateway.access_lines(36).await;
    });
}

#[test]
fn a_conversation_moves_only_while_its_account_is_out() {
    run(async {
        let mocks = named(["a", "b", "c"]).await;
        let gateway = sticky(&mocks).await;
        let ask = async |session: usize| {
            let session = format!("session {session}");
            gateway
                .raw(post_with(&chat("m"), &[("x-portcullis-session", &session)]))
                .await
                .content()
        };
        let homes = async || join_all((0..12).map(&ask)).await;
        let before = homes().await;
        let (out, mock) = ["a", "b", "c"]
            .into_iter()
            .zip(&mocks)
            .find(|(name, _)| before.iter().any(|home| home == name))
            .unwrap();
        let session = before.iter().position(|home| home == out).unwrap();
        mock.push(Script::error(429, "slow down").with("retry-after", "2"));
        let mut lines = 12;
        assert_ne!(ask(session).await, out, "it is answered elsewhere");
        let meanwhile = homes().await;
        lines += 13;
        for (before, now) in before.iter().zip(&meanwhile) {
            assert!(
                if before == out {
                    now != out
                } else {
                    now == before
                },
                "{before} of {before:?} became {now}"
            );
        }
        eventually("its rest is over", || {
            target(&gateway, out, "m")["rest"].is_null().then_some(())
        })
        .await;
        assert_eq!(homes().await, before);
        gateway.access_lines(lines + 12).await;
    });
}

#[test]
fn no_conversation_sticks_where_none_should() {
    run(async {
        let [a, b] = &named(["a", "b"]).await;
        let catalog = Catalog::new().account("a", a).account("b", b).model_with(
            "m",
            &["a", "b"],
            "strategy: weighted",
        );
        let gateway = Gateway::start(catalog).await;
        let mut connection = gateway.connect().await;
        let mut seen = String::new();
        for _ in 0..4 {
            connection
                .send(post_with(&chat("m"), &[("x-portcullis-session", "one")]))
                .await;
            seen.push_str(&connection.response().await.content());
        }
        assert_eq!(seen, "abab");
        assert!(
            a.requests()
                .iter()
                .all(|request| request.field("x-portcullis-session").is_none()),
            "the upstream is none of it told"
        );
        drop(connection);
        gateway.access_lines(4).await;
    });
}
