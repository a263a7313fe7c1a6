//! What a model may spend on asking twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{join_all, model, target};
use crate::support::client::post;
use crate::support::{Catalog, Gateway, Mock, Script, chat, eventually, run};

/// Two of five requests fail, in a pattern that opens no breaker.
fn partly(mock: &Mock) {
    let asked = Arc::new(AtomicUsize::new(0));
    mock.by(move |_| match asked.fetch_add(1, Ordering::AcqRel) % 5 {
        1 | 3 => Script::error(500, "out of order"),
        _ => Script::answer("ok"),
    });
}

/// So many requests by a few callers at once; their statuses.
async fn many(gateway: &Gateway, model: &str, callers: usize, each: usize) -> Vec<u16> {
    let body = chat(model);
    let asks = (0..callers).map(|_| async {
        let mut connection = gateway.connect().await;
        let mut statuses = Vec::new();
        for _ in 0..each {
            connection.send(post(&body)).await;
            statuses.push(connection.response().await.status);
        }
        statuses
    });
    join_all(asks).await.concat()
}

#[test]
fn d24_an_outage_of_all_is_not_multiplied() {
    run(async {
        let mocks = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let catalog = Catalog::chain(&mocks.each_ref());
        let gateway = Gateway::start(catalog).await;
        assert!(
            many(&gateway, "m", 4, 5)
                .await
                .iter()
                .all(|status| *status == 200)
        );
        let before: usize = mocks.iter().map(Mock::count).sum();
        for mock in &mocks {
            mock.always(Script::error(500, "out of order"));
        }
        const REQUESTS: usize = 300;
        let statuses = many(&gateway, "m", 6, REQUESTS / 6).await;
        assert!(
            statuses.iter().all(|status| [502, 503].contains(status)),
            "{statuses:?}"
        );
        let attempts = mocks.iter().map(Mock::count).sum::<usize>() - before;
        assert!(
            attempts * 10 <= REQUESTS * 12,
            "{attempts} attempts of {REQUESTS} requests"
        );
        for mock in &mocks {
            mock.always(Script::answer("ok"));
        }
        // The longest cool-down of a first outage is six seconds, the next one is twelve, and
        // somebody is asked each second.
        let mut later = 0;
        while gateway.post(&chat("m")).await.status != 200 {
            later += 1;
            assert!(later < 11, "it is not found");
            gateway.advance(std::time::Duration::from_secs(1)).await;
        }
        // Which of the three was the first to be back is not said; the others follow.
        let started = |id| target(&gateway, id, "m")["breaker"] == "closed";
        assert!(["a", "b", "c"].into_iter().any(started));
        gateway.access_lines(20 + REQUESTS + later + 1).await;
    });
}

#[test]
fn d24_where_all_fail_sometimes_a_fifth_is_retried() {
    run(async {
        let mocks = [Mock::start().await, Mock::start().await];
        mocks.iter().for_each(partly);
        let gateway = Gateway::start(Catalog::chain(&mocks.each_ref())).await;
        const REQUESTS: usize = 400;
        let statuses = many(&gateway, "m", 4, REQUESTS / 4).await;
        let refused = statuses.iter().filter(|status| **status != 200).count();
        let attempts: usize = mocks.iter().map(Mock::count).sum();
        assert!(
            attempts * 10 <= REQUESTS * 12 + 100,
            "{attempts} attempts of {REQUESTS} requests"
        );
        assert_eq!(
            [
                target(&gateway, "a", "m")["breaker"].clone(),
                target(&gateway, "b", "m")["breaker"].clone()
            ],
            ["closed", "closed"]
        );
        let lines = gateway.access_lines(REQUESTS).await;
        let spared = lines
            .iter()
            .filter(|line| line["not_retried"] == "budget")
            .count();
        assert!(spared > 0 && spared <= refused, "{spared} of {refused}");
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_retries_spared_total", &[("model", "m")]),
            spared as f64
        );
        assert!(
            lines
                .iter()
                .all(|line| line["not_retried"].is_null() || line["status"] != 200)
        );
        let spent = model(&gateway, "m")["retry_budget_spent"].as_f64().unwrap();
        assert!(spent > 0.0 && spent <= 1.0, "{spent}");
    });
}

/// One at a target that is sound moves a request, and multiplies nothing: also where one between
/// them is not.
#[test]
fn who_is_sound_is_asked_whatever_is_spent() {
    run(async {
        let mocks = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        mocks[..2].iter().for_each(partly);
        let gateway = Gateway::start(Catalog::chain(&mocks.each_ref())).await;
        let statuses = many(&gateway, "m", 4, 100).await;
        let refused = statuses.iter().filter(|status| **status != 200).count();
        assert_eq!(refused, 0, "the third is well");
        gateway.access_lines(400).await;
    });
}

#[test]
fn little_traffic_may_always_fail_over() {
    run(async {
        let mocks = [Mock::start().await, Mock::start().await];
        mocks[0].always(Script::error(500, "out of order"));
        mocks[1]
            .push(Script::error(500, "out of order"))
            .always(Script::answer("ok"));
        let gateway = Gateway::start(Catalog::chain(&mocks.each_ref())).await;
        let statuses = many(&gateway, "m", 1, 5).await;
        assert_eq!(statuses, [502, 200, 200, 200, 200]);
        eventually("a is out", || {
            (target(&gateway, "a", "m")["breaker"] == "open").then_some(())
        })
        .await;
        gateway.access_lines(5).await;
    });
}
