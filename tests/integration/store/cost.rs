//! What requests cost the store: the commands that it counts itself, those within scripts included;
//! and what is saved without a loss: settlements that wait for the next admission.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::time::{Duration, Instant};

use portcullis::base::calendar;
use portcullis::store::Admission;
use redis::Commands;
use serde_json::{Value, json};

use super::{
    Files, Instance, TIGHT, agrees, ask, born, comes, drop_counts, gateway, key, key_of, now, spent,
};
use crate::support::client::{Connection, post_as};
use crate::support::redis::Redis;
use crate::support::script::PROMPT_TOKENS;
use crate::support::{Gate, Mock, PATIENCE, Script, chat, eventually, run, run_within, spawn};

const REQUESTS: usize = 2_000;
const CONNECTIONS: usize = 32;

/// How often each command was called, and the microseconds of the server's CPU.
struct Cost {
    calls: BTreeMap<String, u64>,
    cpu: u64,
}

impl Cost {
    fn read(redis: &Redis) -> Cost {
        let text: String = redis::cmd("INFO")
            .arg("commandstats")
            .arg("cpu")
            .query(&mut redis.connection())
            .expect("statistics");
        let calls = text.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = rest.split(',').next()?.parse().ok()?;
            // What the test itself asks for.
            let own = ["info", "client", "hello", "eval"].contains(&name);
            (!own).then(|| (name.to_owned(), calls))
        });
        let seconds = text.lines().filter_map(|line| {
            let (name, seconds) = line.split_once(':')?;
            let counts = ["used_cpu_user", "used_cpu_sys"].contains(&name);
            counts.then(|| seconds.trim().parse::<f64>().expect("seconds"))
        });
        Cost {
            calls: calls.collect(),
            cpu: (seconds.sum::<f64>() * 1e6) as u64,
        }
    }

    fn since(&self, before: &Cost) -> Cost {
        let calls = self.calls.iter().map(|(name, calls)| {
            let before = before.calls.get(name).copied().unwrap_or(0);
            (name.clone(), calls - before)
        });
        Cost {
            calls: calls.filter(|(_, calls)| *calls > 0).collect(),
            cpu: self.cpu - before.cpu,
        }
    }
}

/// Sends many requests of a caller with these limits, and returns the commands a request.
async fn commands_each(caller: &str, key: &str, key_of_scope: &str) -> f64 {
    let redis = Redis::start();
    let mock = Mock::start().await;
    mock.always(Script::answer("a"));
    let catalog = Files::over(&mock).caller_with("tight", caller, &[("prod", TIGHT, key)]);
    // A test machine has its own pace.
    let gateway = gateway(&catalog, &redis, "timeout: 5s").await;
    comes(&gateway, "up").await;
    let before = Cost::read(&redis);
    let (sent, address) = (Arc::new(AtomicUsize::new(0)), gateway.address);
    let crowd = (0..CONNECTIONS).map(|_| {
        let sent = sent.clone();
        spawn(async move {
            let mut connection = Connection::plain(address, None).await;
            while sent.fetch_add(1, Ordering::Relaxed) < REQUESTS {
                connection.send(post_as(TIGHT, &chat("m"))).await;
                let mut answer = connection.head().await.expect("a head");
                connection.rest(&mut answer).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
        })
    });
    for one in crowd.collect::<Vec<_>>() {
        one.await.expect("no panic");
    }
    let requests = REQUESTS as u64;
    let tokens = requests * (PROMPT_TOKENS + 3);
    eventually("all is settled in the store", || {
        let (all, parts) = redis.used(key_of_scope);
        (all[..2] == [requests, tokens] && all[4] == 0 && parts == [all]).then_some(())
    })
    .await;
    let cost = Cost::read(&redis).since(&before);
    let calls: u64 = cost.calls.values().sum();
    let each = |sum: u64| sum as f64 / requests as f64;
    println!(
        "{:.2} commands and {:.1} µs a request: {:?}",
        each(calls),
        each(cost.cpu),
        cost.calls
    );
    each(calls)
}

#[test]
fn a_request_costs_the_store_three_commands() {
    run_within(Duration::from_secs(180), async {
        let limits = "limits: { requests_per_minute: 1000000, tokens_per_day: 1000000000 }";
        let one = commands_each(limits, "", "{portcullis:tight}:caller:tight").await;
        assert!(one <= 3.2, "{one} commands a request of one scope");
    });
}

#[test]
fn each_further_scope_costs_two_commands() {
    run_within(Duration::from_secs(180), async {
        let caller = "limits: { requests_per_minute: 1000000, tokens_per_day: 1000000000 }";
        let key = "limits: { tokens_per_minute: 1000000000 }, model_limits: { m: { requests_per_day: 1000000, tokens_per_day: 1000000000 } }";
        let three = commands_each(caller, key, "{portcullis:tight}:key_model:tight/prod m").await;
        assert!(three <= 7.2, "{three} commands a request of three scopes");
    });
}

/// The settlement of a request goes to the store before the next request is decided there, also if
/// that one is refused.
#[test]
fn a_settlement_comes_before_the_next_request() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(
            &redis,
            &key("tokens_per_minute: 1000, tokens_per_day: 1000"),
        )
        .await;
        for round in 1..=20 {
            let used = 10 * round;
            let first = two[0].admitted(ask(300, 0)).await;
            first.settle(spent(10, 0), calendar::now_millis());
            let refused = two[0].refused(ask(1_001, 0)).await;
            assert_eq!((refused.over.used, refused.over.asked), (used, 1_001));
            assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[1], used);
        }
    });
}

/// The one that holds the only place ends, and sends nothing more: with its settlement alone the
/// other one is let in.
#[test]
fn alone_a_freed_place_is_given_within_fifty_milliseconds() {
    run(async {
        let redis = Redis::start();
        let limits = [
            "concurrency: 1",
            "tokens_per_day: 100",
            "tokens_per_minute: 100",
        ];
        for limit in limits {
            redis.flush();
            let [holder, other] = Instance::two(&redis, &key(limit)).await;
            for _ in 0..10 {
                let held = holder.admitted(ask(60, 0)).await;
                other.refused(ask(60, 0)).await;
                let start = Instant::now();
                held.settle(spent(0, 0), calendar::now_millis());
                let place = loop {
                    if let Admission::Admitted(place) = other.admit(ask(60, 0)).await {
                        break place;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                };
                let took = start.elapsed();
                assert!(took < Duration::from_millis(50), "{limit}: {took:?}");
                drop(place);
                eventually("the place is free again", || {
                    let (all, _) = redis.used(&key_of("key", "acme/prod"));
                    (all[1] == 0 && all[4] == 0).then_some(())
                })
                .await;
            }
        }
    });
}

/// Nobody waits for the settlement of a scope that has room. It goes by itself.
#[test]
fn alone_a_settlement_goes_by_itself_soon() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(&redis, &key("tokens_per_day: 100000")).await;
        for round in 1..=10_u64 {
            let held = two[0].admitted(ask(60, 0)).await;
            let start = Instant::now();
            held.settle(spent(7, 0), calendar::now_millis());
            loop {
                let (all, _) = redis.used(&key_of("key", "acme/prod"));
                if all[1] == 7 * round {
                    break;
                }
                assert!(start.elapsed() < PATIENCE, "{all:?}");
            }
            // The book promises twenty milliseconds; the rest is this test's own.
            let took = start.elapsed();
            assert!(took < Duration::from_millis(50), "{took:?}");
        }
    });
}

/// A settlement finds that the store has lost what it had, as a request does.
#[test]
fn a_settlement_notices_counts_that_were_dropped() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(&redis, &key("tokens_per_day: 1000")).await;
        two[1]
            .admitted(ask(90, 0))
            .await
            .settle(spent(90, 0), calendar::now_millis());
        let held = two[0].admitted(ask(50, 0)).await;
        eventually("both are counted", || {
            (redis.used(&key_of("key", "acme/prod")).0[1] == 140).then_some(())
        })
        .await;
        let before = born(&redis);
        drop_counts(&redis);
        held.settle(spent(5, 0), calendar::now_millis());
        assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[1], 95);
        assert_ne!(born(&redis), before, "it is known that something was lost");
    });
}

#[test]
fn counts_get_their_time_to_live_once_an_hour() {
    const ALL: &str = "
        local all = cmsgpack.unpack(redis.call('HGET', KEYS[1], 'all'))
        all[5] = all[5] - ARGV[1]
        redis.call('HSET', KEYS[1], 'all', cmsgpack.pack(all))
        redis.call('EXPIRE', KEYS[1], 100)";
    run(async {
        let redis = Redis::start();
        let two = Instance::two(&redis, &key("requests_per_day: 1000")).await;
        let name = key_of("key", "acme/prod");
        let mut connection = redis.connection();
        let lives_after = async |seconds: i64, connection: &mut redis::Connection| -> i64 {
            redis::cmd("EVAL")
                .arg(ALL)
                .arg(1)
                .arg(&name)
                .arg(seconds)
                .exec(connection)
                .expect("it is there");
            drop(two[0].admitted(ask(1, 0)).await);
            connection.ttl(&name).expect("a time")
        };
        drop(two[0].admitted(ask(1, 0)).await);
        let whole: i64 = connection.ttl(&name).expect("a time");
        let forty_days = 40 * 86_400 - 100..=40 * 86_400;
        assert!(forty_days.contains(&whole), "{whole}");
        assert!(lives_after(3_000, &mut connection).await <= 100);
        assert!(forty_days.contains(&lives_after(700, &mut connection).await));
        // Also if the store's clock was set back.
        assert!(forty_days.contains(&lives_after(-100_000, &mut connection).await));
    });
}

/// The script of the version before, as its gateways call it.
struct Before<'r> {
    redis: &'r Redis,
    connection: redis::Connection,
}

impl Before<'_> {
    fn call(&mut self, command: &str, json: &Value) -> Vec<Value> {
        let mut call = redis::cmd("EVAL");
        call.arg(include_str!("../../redis/admit_before.lua"))
            .arg(1)
            .arg(key_of("key", "acme/prod"));
        for argument in [command, "before", "process.epoch", &json.to_string()] {
            call.arg(argument);
        }
        fn read(value: redis::Value) -> Value {
            match value {
                redis::Value::Int(number) => number.into(),
                redis::Value::Array(values) => values.into_iter().map(read).collect(),
                other => panic!("{other:?}"),
            }
        }
        let answer = call.query(&mut self.connection).expect("an answer");
        read(answer).as_array().expect("an array").clone()
    }

    /// Sends its own part: requests, tokens, and requests that run.
    fn send(&mut self, requests: u64, tokens: u64, places: u64) {
        let (second, day, month) = moment();
        let own = json!([
            day, requests, tokens, 0, month, 0, places, 0, 0, 0, second, requests, tokens
        ]);
        assert_eq!(self.call("own", &own), [1]);
    }

    /// Asks for a request of ten tokens, with limits of so many requests a minute and tokens a day.
    fn is_admitted(&mut self, requests: u64, tokens: u64) -> bool {
        let (second, day, month) = moment();
        let limits = json!([second, day, month, requests, -1, -1, tokens, -1, -1, -1]);
        let answer = self.call(
            "admit",
            &json!([["before", "one", "two"], 10, 0, 10, 0, limits]),
        );
        assert_ne!(answer[0], 0, "it is known");
        answer[0] == 1
    }

    fn used(&self) -> (super::Used, Vec<super::Used>) {
        self.redis.used(&key_of("key", "acme/prod"))
    }
}

fn moment() -> (u64, u64, u64) {
    let day = now() / 86_400_000;
    (now() / 1_000, day, calendar::Month::containing(day).first)
}

/// While a fleet is upgraded, gateways of both versions count in the same hashes.
#[test]
fn gateways_of_the_version_before_share_all_counts() {
    run(async {
        let redis = Redis::start();
        let mut before = Before {
            redis: &redis,
            connection: redis.connection(),
        };
        // What the version before has left is read.
        before.send(2, 20, 1);
        let limits = "requests_per_minute: 12, tokens_per_day: 1000";
        let two = Instance::two(&redis, &key(limits)).await;
        let mut held = Vec::new();
        for instance in &two {
            held.push(instance.admitted(ask(10, 0)).await);
        }
        assert!(before.is_admitted(12, 1_000));
        for instance in &two {
            let left = instance.admitted(ask(10, 0)).await;
            held.push(left);
        }
        let (all, parts) = before.used();
        assert_eq!((all, parts.len()), ([7, 70, 0, 0, 6, 7, 70], 3));
        // Both settle, in turn.
        for reservation in held {
            reservation.settle(spent(4, 0), calendar::now_millis());
        }
        before.send(3, 22, 0);
        eventually("all is settled", || {
            let (all, parts) = before.used();
            let sums: u64 = parts.iter().map(|part| part[6]).sum();
            (all == [7, 38, 0, 0, 0, 7, 38] && sums == 38).then_some(())
        })
        .await;
        // Of the five requests that are left, all together get five.
        let mut admitted = 0;
        for round in 0..6 {
            for instance in &two {
                let answer = instance.admit(ask(1, 0)).await;
                admitted += usize::from(matches!(answer, Admission::Admitted(_)));
            }
            admitted += usize::from(round % 2 == 0 && before.is_admitted(12, 1_000));
        }
        assert_eq!(admitted, 5);
    });
}

/// Killed before its settlement was sent, a gateway has its reservation counted until it is back.
#[test]
fn a_killed_gateway_counts_what_it_reserved() {
    run_within(Duration::from_secs(180), async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let limits = "limits: { tokens_per_day: 100000000 }";
        let catalog = Files::over(&mock).caller_with("tight", limits, &[("prod", TIGHT, "")]);
        let mut one = gateway(&catalog, &redis, "timeout: 5s").await;
        comes(&one, "up").await;
        let mut body = chat("m");
        body["max_tokens"] = 5_000.into();
        let (key, each) = ("{portcullis:tight}:caller:tight", PROMPT_TOKENS + 3);
        for _ in 0..4 {
            let (before, _) = redis.used(key);
            let mut connection = Connection::plain(one.address, None).await;
            connection.send(post_as(TIGHT, &body)).await;
            let answer = connection.response().await;
            one.crash();
            assert_eq!(answer.status, 200);
            let (all, _) = redis.used(key);
            assert!(
                all[0] == before[0] + 1 && all[1] >= before[1] + each,
                "{all:?}, and before the request {before:?}"
            );
            one.restart();
            comes(&one, "up").await;
            eventually("it has told what its ledger has", || {
                let (all, parts) = redis.used(key);
                (all[4] == 0 && parts == [all]).then_some(())
            })
            .await;
        }
    });
}

/// What ends while the process ends is in the store before its end.
#[test]
fn what_a_drain_settles_is_in_the_store() {
    run_within(Duration::from_secs(120), async {
        let redis = Redis::start();
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.on("slow", Script::new().wait(&gate).then_answer("a"));
        let limits = "limits: { tokens_per_day: 100000000 }";
        let catalog = Files::over(&mock).model("slow", &["a"]).caller_with(
            "tight",
            limits,
            &[("prod", TIGHT, "")],
        );
        let mut one = gateway(&catalog, &redis, "timeout: 5s").await;
        comes(&one, "up").await;
        let mut open = one.connect().await;
        open.send(post_as(TIGHT, &chat("slow"))).await;
        let key = "{portcullis:tight}:caller:tight";
        eventually("it has its place", || {
            (redis.used(key).0[4] == 1).then_some(())
        })
        .await;
        one.signal("TERM");
        gate.open();
        assert!(one.exit(PATIENCE).success());
        let tokens = PROMPT_TOKENS + 3;
        assert_eq!(redis.used(key).0[..5], [1, tokens, 0, 0, 0]);
    });
}
