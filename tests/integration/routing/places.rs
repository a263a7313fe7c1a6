//! An account whose places are all taken: nobody else notices.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{account, join_all, model, retry_after};
use crate::support::client::{Connection, End, Response, post, request};
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat, chat_stream, eventually, run, script,
};

const PLACES: usize = 16;

/// Whole rounds of everything that has nothing to do with the full account; the median of each, by
/// its name.
async fn others(gateway: &Gateway) -> Vec<(&'static str, Duration)> {
    const ROUNDS: usize = 15;
    let names = [
        "another account",
        "the same account's other model",
        "its stream",
        "/v1/models",
        "/livez",
        "the admin's /livez",
        "/status",
    ];
    let mut took = vec![Vec::new(); names.len()];
    for _ in 0..ROUNDS {
        for (name, took) in names.iter().zip(&mut took) {
            let began = Instant::now();
            match *name {
                "another account" => {
                    assert_eq!(gateway.post(&chat("other")).await.content(), "other")
                }
                "the same account's other model" => {
                    assert_eq!(gateway.post(&chat("quick")).await.content(), "quick")
                }
                "its stream" => assert_eq!(
                    gateway.post(&chat_stream("brief")).await.content(),
                    "w0 w1 "
                ),
                "/v1/models" => assert_eq!(
                    gateway.get("/v1/models").await.json()["data"]
                        .as_array()
                        .unwrap()
                        .len(),
                    6
                ),
                "/livez" => assert_eq!(live(gateway).await, 200),
                "the admin's /livez" => assert_eq!(gateway.admin("/livez").0, 200),
                _ => assert_eq!(account(gateway, "free")["concurrency"], Value::Null),
            }
            took.push(began.elapsed());
        }
    }
    let median = |mut took: Vec<Duration>| {
        took.sort_unstable();
        took[ROUNDS / 2]
    };
    names
        .into_iter()
        .zip(took.into_iter().map(median))
        .collect()
}

/// Of the callers' listener, unrecorded, since probes have no access line.
async fn live(gateway: &Gateway) -> u16 {
    let mut probe = Connection::plain(gateway.address, None).await;
    probe.send(request("GET", "/livez", &[], b"")).await;
    probe.response().await.status
}

#[test]
fn l06_slow_streams_on_all_places_slow_nobody_else_down() {
    run(async {
        let (full, free, other, gate) = (
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
            Gate::new(),
        );
        let slow = Script::sse()
            .words(0..1)
            .wait(&gate)
            .words(1..2)
            .event(script::finish("stop"))
            .done();
        full.on("m", slow.clone()).on("q", Script::answer("waited"));
        free.on("slow", slow)
            .on("quick", Script::answer("quick"))
            .on("brief", Script::stream(2));
        other.always(Script::answer("other"));
        let catalog = Catalog::new().account_with("full", &full, &format!("concurrency: {PLACES}"));
        let catalog = catalog
            .account("free", &free)
            .account("other", &other)
            .model("m", &["full"]);
        let catalog = catalog.model_with("q", &["full"], "queue: { length: 1, wait: 40s }");
        let catalog = catalog
            .model("slow", &["free"])
            .model("quick", &["free"])
            .model("brief", &["free"])
            .model("other", &["other"]);
        let gateway = Gateway::start(catalog).await;
        let before = others(&gateway).await;

        // The account without a cap has as many slow streams as the other one has places.
        let mut held = Vec::new();
        for id in ["m", "slow"].repeat(PLACES) {
            let (mut caller, mut answer) = gateway.open(&chat_stream(id)).await;
            assert_eq!(answer.status, 200);
            caller.event(&mut answer).await.expect("a first event");
            held.push((caller, answer));
        }
        assert_eq!(
            [
                account(&gateway, "full")["in_flight"].clone(),
                account(&gateway, "free")["in_flight"].clone()
            ],
            [PLACES, PLACES]
        );

        // Its own models are refused, or wait, at once.
        let mut waits = gateway.connect().await;
        waits.send(post(&chat("q"))).await;
        eventually("one waits", || {
            (model(&gateway, "q")["waiting"] == 1).then_some(())
        })
        .await;
        let began = Instant::now();
        for refused in [chat("m"), chat_stream("m"), chat("q")] {
            let refused = gateway.post(&refused).await;
            refused.is_error(503, "no_capacity");
            assert!(retry_after(&refused) >= 1);
        }
        assert!(
            began.elapsed() < PATIENCE,
            "three were refused after {:?}",
            began.elapsed()
        );

        // The rest is as quick as it was, but for what a busy machine does.
        for ((name, before), (_, now)) in before.into_iter().zip(others(&gateway).await) {
            assert!(
                now < before * 4 + Duration::from_millis(500),
                "{name}: a median of {before:?} became {now:?}"
            );
        }
        assert_eq!(
            (full.count(), &model(&gateway, "q")["waiting"]),
            (PLACES, &json!(1))
        );

        gate.open();
        for (mut caller, mut answer) in held {
            caller.rest(&mut answer).await;
            assert_eq!(
                (answer.end, answer.content().as_str()),
                (Some(End::Whole), "w0 w1 ")
            );
        }
        assert_eq!(waits.response().await.content(), "waited");
        eventually("all places are free", || {
            let free = |id| account(&gateway, id)["in_flight"] == 0;
            (free("full") && free("free") && model(&gateway, "q")["waiting"] == 0).then_some(())
        })
        .await;

        // And each of them can be taken again.
        let (gate, before) = (Gate::new(), full.count());
        full.on("m", Script::new().wait(&gate).then_answer("again"));
        let body = chat("m");
        let (again, _): (Vec<Response>, _) =
            tokio::join!(join_all((0..PLACES).map(|_| gateway.post(&body))), async {
                full.request(before + PLACES - 1).await;
                gateway.post(&body).await.is_error(503, "no_capacity");
                gate.open();
            });
        assert!(again.iter().all(|answer| answer.content() == "again"));
        gateway.idle().await;
        assert_eq!(account(&gateway, "full")["in_flight"], 0);
    });
}
