//! The store: the limits that several gateways share, whatever happens to the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use portcullis::base::calendar;
use portcullis::catalog::Catalog;
use portcullis::catalog::resolve::resolve_catalog;
use portcullis::conf::config;
use portcullis::conf::price::Usd;
use portcullis::conf::secret_ref::Reference;
use portcullis::limits::{Ask, Changes, KeyScopes, LimitReached, Registry, Reservation, Spent};
use portcullis::status::StoreState;
use portcullis::store::Admission;
use portcullis::store::Meters;
use portcullis::store::Store;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use crate::support::folder::Folder;
use crate::support::redis::{Redis, Slow, Used};
use crate::support::tls::Ca;
use crate::support::{
    Catalog as Files, Gate, Gateway, Mock, PATIENCE, Script, canary::KEY, chat, eventually,
    join_all, root, run, run_within,
};

mod cost;

/// A gateway's part of it, without the gateway.
struct Instance {
    store: Arc<Store>,
    registry: Arc<Registry>,
    scopes: Vec<KeyScopes>,
    catalog: Catalog,
    errors: Counter,
}

/// A key with these limits.
fn key(limits: &str) -> String {
    format!(
        "keys: {{ prod: {{ hash: {}, limits: {{ {limits} }} }} }}",
        crate::support::canary::hash(KEY)
    )
}

impl Instance {
    fn new(name: &str, caller: &str, settings: &str, ca: Option<String>) -> Instance {
        let catalog = format!(
            "accounts: {{ a: {{ dialect: demo }} }}\nmodels: {{ m: {{ targets: [ {{ account: a }} ], price: {{ input: 1, output: 1 }} }} }}\n\
             callers: {{ acme: {{ {caller} }} }}\n"
        );
        let catalog = resolve_catalog(&[("catalog.yaml".to_owned(), catalog)], &mut |_| {
            Err(String::new())
        })
        .expect("a catalog");
        let look_up = &mut |reference: Reference<'_>| match reference {
            Reference::Ca(_) => Ok(ca.clone().expect("a certificate")),
            Reference::Env(_)
            | Reference::Optional(_)
            | Reference::File(_)
            | Reference::Keys(_) => Err("is not there".to_owned()),
        };
        let settings =
            config::parse_server("server.yaml", &format!("store: {{ {settings} }}"), look_up)
                .expect("settings")
                .store
                .expect("a store");
        let changes = Arc::new(Changes::default());
        let registry = Arc::new(Registry::shared(changes.clone()));
        let scopes = registry.adopt(&catalog, &mut Vec::new);
        let errors = Counter::default();
        let meters = Meters {
            errors: errors.clone(),
            seconds: Histogram::new([0.001, 0.01]),
        };
        let store = Arc::new(Store::new(
            settings,
            name,
            registry.clone(),
            changes,
            meters,
        ));
        store.start().expect("a thread");
        Instance {
            store,
            registry,
            scopes,
            catalog,
            errors,
        }
    }

    /// Two that share a server, once they do.
    async fn two(redis: &Redis, caller: &str) -> [Instance; 2] {
        Self::two_at(redis.url(), caller, "timeout: 5s").await
    }

    async fn two_at(url: &str, caller: &str, more: &str) -> [Instance; 2] {
        let settings = format!("redis: '{url}', instances: 2, {more}");
        let two = ["one", "two"].map(|name| Instance::new(name, caller, &settings, None));
        for instance in &two {
            instance.comes(StoreState::Up).await;
        }
        two
    }

    async fn comes(&self, state: StoreState) {
        let what = format!("the store is {state:?}");
        let start = Instant::now();
        while self.store.state() != state {
            assert!(
                start.elapsed() < 4 * PATIENCE,
                "{what}: {:?}",
                self.store.status()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn admit(&self, ask: Ask) -> Admission {
        let key = self.catalog.keys().next().expect("a key");
        self.store
            .admit(&self.scopes[key.index].bounds(key, 0), ask, now())
            .await
    }

    async fn admitted(&self, ask: Ask) -> Reservation {
        match self.admit(ask).await {
            Admission::Admitted(reservation) => reservation,
            Admission::Refused(refused) => panic!("refused: {refused:?}"),
            Admission::Down => panic!("the store is down"),
        }
    }

    async fn refused(&self, ask: Ask) -> LimitReached {
        match self.admit(ask).await {
            Admission::Refused(refused) => refused,
            Admission::Admitted(_) => panic!("admitted"),
            Admission::Down => panic!("the store is down"),
        }
    }

    /// What it counts itself.
    fn own(&self, scope: &str) -> Used {
        let scope = self
            .registry
            .scopes()
            .into_iter()
            .find(|s| &*s.name == scope)
            .expect("a scope");
        let counts = scope.own_counts(now());
        let minute = counts.minute.iter().fold((0, 0), |(r, t), (_, used)| {
            (r + used.requests, t + used.tokens)
        });
        [
            counts.day.requests,
            counts.day.tokens,
            counts.day.usd.0,
            counts.month_usd.0,
            counts.places,
            minute.0,
            minute.1,
        ]
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
}

fn ask(tokens: u64, usd: u64) -> Ask {
    Ask::exact(tokens, Usd(usd))
}

fn spent(tokens: u64, usd: u64) -> Spent {
    Spent {
        tokens,
        usd: Usd(usd),
    }
}

fn key_of(level: &str, name: &str) -> String {
    format!("{{portcullis:acme}}:{level}:{name}")
}

/// The sums in the store, once they are those of all instances, and it knows each one's part.
async fn agrees(redis: &Redis, level: &str, scope: &str, instances: &[Instance]) -> Used {
    let start = Instant::now();
    loop {
        let waiting = instances
            .iter()
            .any(|instance| instance.store.status().waiting > 0);
        let mut own: Vec<Used> = instances
            .iter()
            .map(|instance| instance.own(scope))
            .collect();
        let sum: Used = std::array::from_fn(|at| own.iter().map(|used| used[at]).sum());
        let (all, mut parts) = redis.used(&key_of(level, scope));
        parts.sort_unstable();
        own.sort_unstable();
        if !waiting && all == sum && parts == own {
            return all;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "the store has {all:?}, of {parts:?}; the instances have {sum:?}, of {own:?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn of_two_hundred_at_two_gateways_one_passes() {
    run(async {
        let redis = Redis::start();
        let one_usd = "usd_per_day: 0.000005";
        let limits = [
            ("requests_per_minute: 1", ask(3, 7)),
            ("requests_per_day: 1", ask(3, 7)),
            ("tokens_per_minute: 5", ask(3, 7)),
            ("tokens_per_day: 5", ask(3, 7)),
            ("concurrency: 1", ask(3, 7)),
            (one_usd, ask(3, 3_000)),
            ("usd_per_month: 0.000005", ask(3, 3_000)),
        ];
        for (limit, ask) in limits {
            redis.flush();
            let two = Instance::two(&redis, &key(limit)).await;
            let all = (0..200).map(|n| two[n % 2].admit(ask));
            let answers = join_all(all).await;
            let passed = answers
                .iter()
                .filter(|answer| matches!(answer, Admission::Admitted(_)))
                .count();
            let refused = answers
                .iter()
                .filter(|answer| matches!(answer, Admission::Refused(_)))
                .count();
            assert_eq!((passed, refused), (1, 199), "{limit}");
            let name = limit.split(':').next().unwrap();
            let told = answers
                .iter()
                .find_map(|answer| {
                    if let Admission::Refused(refused) = answer {
                        Some(refused.clone())
                    } else {
                        None
                    }
                })
                .unwrap();
            assert_eq!((told.over.kind.name(), &*told.name), (name, "acme/prod"));
            drop(answers);
            let used = agrees(&redis, "key", "acme/prod", &two).await;
            assert_eq!(
                used[..5],
                [1, 0, 0, 0, 0],
                "{limit}: what was not used is given back"
            );
        }
    });
}

#[test]
fn use_is_settled_to_the_token_at_all_levels() {
    run(async {
        let redis = Redis::start();
        let caller = format!(
            "limits: {{ tokens_per_minute: 1000000, usd_per_month: 1, concurrency: 1000 }}, keys: {{ prod: {{ hash: {}, limits: {{ requests_per_minute: 100000 }}, \
             model_limits: {{ m: {{ tokens_per_day: 1000000 }} }} }} }}",
            crate::support::canary::hash(KEY)
        );
        let two = Instance::two(&redis, &caller).await;
        let exchanges = (0..400_u64).map(|n| {
            let instance = &two[(n % 2) as usize];
            async move {
                let reservation = instance.admitted(ask(100 + n, 1_000)).await;
                if n % 4 == 0 {
                    // It failed before a token.
                    drop(reservation);
                    return (0, 0);
                }
                tokio::task::yield_now().await;
                reservation.settle(spent(n, 2 * n), calendar::now_millis());
                (n, 2 * n)
            }
        });
        let settled = join_all(exchanges)
            .await
            .into_iter()
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        for (level, scope) in [
            ("caller", "acme"),
            ("key", "acme/prod"),
            ("key_model", "acme/prod m"),
        ] {
            let used = agrees(&redis, level, scope, &two).await;
            assert_eq!(
                used[..5],
                [400, settled.0, settled.1, settled.1, 0],
                "{scope}"
            );
        }
        let keys: Vec<String> = redis
            .keys()
            .into_iter()
            .filter(|key| key.contains("acme"))
            .collect();
        assert_eq!(keys.len(), 3, "{keys:?}");
        assert!(
            keys.iter().all(|key| key.starts_with("{portcullis:acme}:")),
            "{keys:?}"
        );
    });
}

#[test]
fn refusals_say_what_is_used_and_left() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(&redis, &key("requests_per_minute: 3, tokens_per_day: 100")).await;
        let first = two[0].admitted(ask(10, 0)).await;
        let second = two[1].admitted(ask(20, 0)).await;
        let left = second.limits_left;
        assert_eq!(
            left.requests.map(|room| (room.limit, room.remaining)),
            Some((3, 1))
        );
        assert_eq!(
            left.tokens.map(|room| (room.limit, room.remaining)),
            Some((100, 70))
        );
        let refused = two[0].refused(ask(71, 0)).await;
        assert_eq!(
            (
                refused.over.kind.name(),
                refused.over.limit,
                refused.over.used,
                refused.over.asked
            ),
            ("tokens_per_day", 100, 30, 71)
        );
        assert!(
            refused
                .over
                .wait
                .is_some_and(|wait| wait <= Duration::from_secs(86_400))
        );
        assert_eq!(
            two[0].refused(ask(101, 0)).await.over.wait,
            None,
            "no wait helps"
        );
        let third = two[0].admitted(ask(70, 0)).await;
        let refused = two[1].refused(ask(0, 0)).await;
        assert_eq!(
            (refused.over.kind.name(), refused.over.used),
            ("requests_per_minute", 3)
        );
        assert!(
            refused.over.wait.is_some_and(
                |wait| wait > Duration::from_secs(55) && wait <= Duration::from_secs(61)
            ),
            "{refused:?}"
        );
        first.settle(spent(1, 0), calendar::now_millis());
        drop((second, third));
        assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[..2], [3, 1]);
    });
}

#[test]
fn overuse_at_one_gateway_holds_back_others() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(&redis, &key("tokens_per_minute: 100, usd_per_day: 1")).await;
        let parallel = [
            two[0].admitted(ask(10, 10)).await,
            two[1].admitted(ask(10, 10)).await,
        ];
        for reservation in parallel {
            reservation.settle(spent(70, 70), calendar::now_millis());
        }
        assert_eq!(
            agrees(&redis, "key", "acme/prod", &two).await[..2],
            [2, 140]
        );
        for instance in &two {
            let refused = instance.refused(ask(1, 1)).await;
            assert_eq!(
                (refused.over.kind.name(), refused.over.used),
                ("tokens_per_minute", 140)
            );
        }
    });
}

/// While the store is out each goes by its part; when it is back the sums are right, whatever it
/// missed and whatever it does late.
#[test]
fn a_store_that_comes_back_is_told_all() {
    run_within(Duration::from_secs(120), async {
        let mut redis = Redis::start();
        let two = Instance::two_at(
            redis.url(),
            &key("requests_per_day: 40, tokens_per_day: 100000"),
            "timeout: 800ms",
        )
        .await;
        let before = two[0].admitted(ask(100, 0)).await;
        two[1]
            .admitted(ask(100, 0))
            .await
            .settle(spent(1, 0), calendar::now_millis());
        assert_eq!(
            agrees(&redis, "key", "acme/prod", &two).await[..2],
            [2, 101]
        );

        // Killed, and back without what it held.
        redis.kill();
        two[0].comes(StoreState::Down).await;
        two[1].comes(StoreState::Down).await;
        two[0]
            .admitted(ask(10, 0))
            .await
            .settle(spent(5, 0), calendar::now_millis());
        before.settle(spent(7, 0), calendar::now_millis());
        let after = two[1].admitted(ask(1_000, 0)).await;
        redis.again();
        for instance in &two {
            instance.comes(StoreState::Up).await;
        }
        after.settle(spent(11, 0), calendar::now_millis());
        assert_eq!(
            agrees(&redis, "key", "acme/prod", &two).await[..5],
            [4, 24, 0, 0, 0]
        );

        // Stopped: what was on its way when nobody waited any more is done late, or never, and
        // counts once at most.
        redis.signal("STOP");
        let late = join_all((0..6).map(|n| two[n % 2].admit(ask(10, 0)))).await;
        assert!(
            late.iter()
                .all(|answer| matches!(answer, Admission::Admitted(_))),
            "{late:?}"
        );
        redis.signal("CONT");
        for instance in &two {
            instance.comes(StoreState::Up).await;
        }
        assert_eq!(
            agrees(&redis, "key", "acme/prod", &two).await[..5],
            [10, 84, 0, 0, 6]
        );
        drop(late);
        assert_eq!(
            agrees(&redis, "key", "acme/prod", &two).await[..5],
            [10, 24, 0, 0, 0]
        );

        // Stopped for longer than its connections are kept.
        redis.signal("STOP");
        let late = join_all((0..6).map(|n| two[n % 2].admit(ask(10, 0)))).await;
        for instance in &two {
            let lost = || {
                instance
                    .store
                    .status()
                    .error
                    .filter(|error| error.contains("did not answer within"))
            };
            eventually("the connection is given up", lost).await;
        }
        redis.signal("CONT");
        for instance in &two {
            instance.comes(StoreState::Up).await;
        }
        drop(late);
        assert_eq!(
            agrees(&redis, "key", "acme/prod", &two).await[..5],
            [16, 24, 0, 0, 0]
        );

        // Flushed: who asks next finds out, and so does who does not ask.
        redis.flush();
        let held = two[0].admitted(ask(10, 0)).await;
        assert_eq!(
            agrees(&redis, "key", "acme/prod", &two).await[..5],
            [17, 34, 0, 0, 1]
        );
        for instance in &two {
            instance.comes(StoreState::Up).await;
        }
        drop(held);
        // And all of it was counted: 40 may pass, 17 have.
        let all = join_all((0..60).map(|n| two[n % 2].admit(ask(1, 0)))).await;
        assert_eq!(
            all.iter()
                .filter(|answer| matches!(answer, Admission::Admitted(_)))
                .count(),
            23
        );
    });
}

/// Without the store no more pass than the parts of all together, and what one has used before
/// counts.
#[test]
fn without_the_store_each_has_its_part() {
    run(async {
        let mut redis = Redis::start();
        let two = Instance::two(&redis, &key("requests_per_day: 10")).await;
        for _ in 0..2 {
            drop(two[0].admitted(ask(0, 0)).await);
        }
        redis.kill();
        for instance in &two {
            instance.comes(StoreState::Down).await;
        }
        let passed = async |instance: &Instance| {
            let answers = join_all((0..20).map(|_| instance.admit(ask(0, 0)))).await;
            answers
                .iter()
                .filter(|answer| matches!(answer, Admission::Admitted(_)))
                .count()
        };
        assert_eq!((passed(&two[0]).await, passed(&two[1]).await), (3, 5));
        redis.again();
        for instance in &two {
            instance.comes(StoreState::Up).await;
        }
        assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[0], 10);
        assert_eq!((passed(&two[0]).await, passed(&two[1]).await), (0, 0));
    });
}

/// A store that takes 250 ms is asked thrice, and then nobody waits for it; what is settled is told
/// all the same.
#[test]
fn a_slow_store_makes_nobody_wait_for_long() {
    run(async {
        let redis = Redis::start();
        let slow = Slow::to(redis.port).await;
        let url = format!("redis://{}", slow.address);
        let two = Instance::two_at(
            &url,
            &key("requests_per_day: 1000, concurrency: 50"),
            "timeout: 100ms",
        )
        .await;
        slow.by(Duration::from_millis(250));
        let mut missed = two[0].errors.get();
        let mut waited = Duration::ZERO;
        for _ in 0..100 {
            let start = Instant::now();
            drop(two[0].admitted(ask(1, 0)).await);
            waited += start.elapsed();
        }
        missed = two[0].errors.get() - missed;
        assert!(missed <= 6, "{missed} waited in vain");
        // Each would wait for the store for 250 ms.
        assert!(
            waited < Duration::from_millis(22_500),
            "all hundred together {waited:?}"
        );
        assert_eq!(two[0].store.state(), StoreState::Down);
        let used = agrees(&redis, "key", "acme/prod", &two).await;
        assert_eq!(used[..5], [100, 0, 0, 0, 0], "it is slow, not gone");
        slow.by(Duration::ZERO);
        two[0].comes(StoreState::Up).await;
    });
}

#[test]
fn without_the_store_nobody_passes_if_so_set() {
    run(async {
        let mut redis = Redis::start();
        let settings = format!(
            "redis: '{}', on_store_down: refuse, timeout: 5s",
            redis.url()
        );
        let one = Instance::new("one", &key("requests_per_day: 10"), &settings, None);
        one.comes(StoreState::Up).await;
        drop(one.admitted(ask(1, 0)).await);
        redis.kill();
        one.comes(StoreState::Down).await;
        assert!(matches!(one.admit(ask(1, 0)).await, Admission::Down));
        redis.again();
        one.comes(StoreState::Up).await;
        drop(one.admitted(ask(1, 0)).await);
        assert_eq!(agrees(&redis, "key", "acme/prod", &[one]).await[0], 2);
    });
}

/// The places of an instance that left are free, and so are those of one that was killed after a
/// while; what it used stays used.
#[test]
fn an_instance_that_leaves_takes_its_places_along() {
    run(async {
        let redis = Redis::start();
        let [one, two] = Instance::two(&redis, &key("concurrency: 2, requests_per_day: 10")).await;
        let held = one.admitted(ask(1, 0)).await;
        let mine = two.admitted(ask(1, 0)).await;
        assert_eq!(two.refused(ask(1, 0)).await.over.kind.name(), "concurrency");
        one.store.leave();
        let start = Instant::now();
        let place = loop {
            match two.admit(ask(1, 0)).await {
                Admission::Admitted(place) => break place,
                Admission::Refused(_) | Admission::Down => {
                    assert!(
                        start.elapsed() < PATIENCE,
                        "its place is still taken: {:?}",
                        two.store.status()
                    )
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(two.refused(ask(1, 0)).await.over.kind.name(), "concurrency");
        drop((mine, place, held));
    });
}

#[test]
fn gateways_share_breakers_and_kept_items() {
    use dialects::Family;
    use dialects::neutral::Thought;
    run(async {
        let redis = Redis::start();
        let [one, two] = Instance::two(&redis, &key("requests_per_day: 10")).await;
        one.store.hint("a", "gpt 4", Duration::from_secs(60));
        let name = ("a".into(), "gpt 4".into());
        let known = async |wanted: bool| {
            while two.store.hints().await.contains_key(&name) != wanted {}
        };
        known(true).await;
        one.store.hint("a", "gpt 4", Duration::ZERO);
        known(false).await;

        let thought = Thought {
            text: "hm".into(),
            signature: Some("s1g".into()),
            redacted: None,
            of_call: true,
        };
        one.store.keep_thoughts(
            "acme/prod",
            Family::Claude,
            "call_1",
            std::slice::from_ref(&thought),
        );
        let find = async |key: &str, family: Family, call: &str| {
            two.store
                .find_thoughts(key, &[(family, "other"), (family, call)])
                .await
        };
        let start = Instant::now();
        while find("acme/prod", Family::Claude, "call_1").await.is_empty() {
            assert!(start.elapsed() < PATIENCE, "it is not kept");
        }
        assert_eq!(
            find("acme/prod", Family::Claude, "call_1").await,
            [(1, vec![thought])]
        );
        assert_eq!(find("acme/test", Family::Claude, "call_1").await, []);
        assert_eq!(find("acme/prod", Family::Gemini, "call_1").await, []);
        let kept = redis
            .keys()
            .into_iter()
            .find(|key| key.contains("thoughts"))
            .expect("a key");
        let ttl: u64 = redis::cmd("TTL")
            .arg(kept)
            .query(&mut redis.connection())
            .unwrap();
        assert!((6 * 3600 - 60..=6 * 3600).contains(&ttl), "{ttl}");
    });
}

#[test]
fn it_logs_in_and_speaks_tls() {
    run(async {
        let redis = Redis::with_password("p@ss/w0rd");
        let settings = |login: &str| {
            format!(
                "redis: 'redis://{login}127.0.0.1:{}', timeout: 5s",
                redis.port
            )
        };
        let one = Instance::new(
            "one",
            &key("requests_per_day: 10"),
            &settings(":p%40ss%2Fw0rd@"),
            None,
        );
        one.comes(StoreState::Up).await;
        drop(one.admitted(ask(1, 0)).await);
        for (login, said) in [("", "NOAUTH"), (":wr0ng-p4ss@", "authentication failed")] {
            let other = Instance::new("two", &key("requests_per_day: 10"), &settings(login), None);
            let why = eventually("it is refused", || other.store.status().error).await;
            assert!(why.contains(said) && !why.contains("wr0ng"), "{why}");
            assert!(
                matches!(other.admit(ask(1, 0)).await, Admission::Admitted(_)),
                "it goes on by itself"
            );
        }

        let (ca, stranger) = (Ca::new(), Ca::new());
        let redis = Redis::with_tls(&ca.leaf());
        let settings = format!(
            "redis: 'rediss://localhost:{}', tls: {{ ca: ca.pem }}, timeout: 5s",
            redis.port
        );
        let one = Instance::new(
            "one",
            &key("requests_per_day: 10"),
            &settings,
            Some(ca.pem()),
        );
        one.comes(StoreState::Up).await;
        drop(one.admitted(ask(1, 0)).await);
        let other = Instance::new(
            "two",
            &key("requests_per_day: 10"),
            &settings,
            Some(stranger.pem()),
        );
        let why = eventually("it is not trusted", || other.store.status().error).await;
        assert!(why.starts_with("TLS: "), "{why}");
    });
}

/// A gateway that shares this server.
async fn gateway(catalog: &Files, redis: &Redis, more: &str) -> Gateway {
    let store = format!("workers: 1\nstore: {{ redis: {{ env: REDIS_URL }}, {more} }}");
    Gateway::with(catalog)
        .server(&store)
        .env("REDIS_URL", redis.url())
        .upstream(redis.port)
        .start()
        .await
}

async fn comes(gateway: &Gateway, state: &str) {
    let start = Instant::now();
    while gateway.status()["store"]["state"] != state {
        // On a busy machine a trial may be late more than once, and the pauses between them grow.
        assert!(
            start.elapsed() < 4 * PATIENCE,
            "the store is not {state}: {}",
            gateway.status()["store"]
        );
        if state == "up" {
            // The longest pause between two trials.
            gateway.advance(Duration::from_secs(12)).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const TIGHT: &str = "sk-CaNaRy-caller-tight-0123456789abcdefghijklmnopq";

#[test]
fn over_two_gateways_one_of_two_hundred_passes() {
    run_within(Duration::from_secs(120), async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let catalog = Files::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 1 }",
            &[("prod", TIGHT, "")],
        );
        // A test machine has its own pace.
        let more = "instances: 2, timeout: 5s";
        let two = [
            gateway(&catalog, &redis, more).await,
            gateway(&catalog, &redis, more).await,
        ];
        for gateway in &two {
            comes(gateway, "up").await;
        }
        let post = |n: usize| two[n % 2].raw(crate::support::client::post_as(TIGHT, &chat("m")));
        let statuses: Vec<u16> = join_all((0..200).map(post))
            .await
            .iter()
            .map(|answer| answer.status)
            .collect();
        assert_eq!(
            (
                statuses.iter().filter(|s| **s == 200).count(),
                statuses.iter().filter(|s| **s == 429).count()
            ),
            (1, 199)
        );
        let tokens = crate::support::script::PROMPT_TOKENS + 3;
        let counted = || {
            (redis.used("{portcullis:tight}:caller:tight").0[..5] == [1, tokens, 0, 0, 0])
                .then_some(())
        };
        eventually("it is counted", counted).await;
    });
}

/// Killed, stopped, slow and flushed under two gateways' traffic: nobody fails, nobody waits for
/// long, and everything is counted in the end.
#[test]
fn whatever_becomes_of_the_store_nobody_waits() {
    run_within(Duration::from_secs(180), async {
        let mut redis = Redis::start();
        let slow = Slow::to(redis.port).await;
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let limits =
            "limits: { requests_per_day: 100000, tokens_per_day: 10000000, concurrency: 1000 }";
        let catalog = Files::over(&mock).caller_with("tight", limits, &[("prod", TIGHT, "")]);
        // A store that is well answers within the wait also on a busy machine.
        let store = format!(
            "workers: 1\nstore: {{ redis: 'redis://{}', instances: 2, timeout: 100ms }}",
            slow.address
        );
        let with = || {
            Gateway::with(&catalog)
                .server(&store)
                .upstream(slow.address.port())
                .start()
        };
        let two = [with().await, with().await];
        let mut sent = 0;
        let errors = || {
            two.iter()
                .map(|gateway| gateway.metrics().sum("portcullis_store_errors_total", &[]))
                .sum::<f64>()
        };
        for fault in ["killed", "stopped", "slow", "flushed"] {
            for gateway in &two {
                comes(gateway, "up").await;
            }
            let before = errors();
            let mut times = Vec::new();
            for round in 0..30 {
                match (round, fault) {
                    (3, "killed") => redis.kill(),
                    (3, "stopped") => redis.signal("STOP"),
                    (3, "slow") => slow.by(Duration::from_millis(250)),
                    (3, "flushed") => redis.flush(),
                    _ => {}
                }
                let start = Instant::now();
                let post =
                    |n: usize| two[n % 2].raw(crate::support::client::post_as(TIGHT, &chat("m")));
                let answers = join_all((0..4).map(post)).await;
                times.push(start.elapsed());
                sent += answers.len() as u64;
                assert!(
                    answers.iter().all(|answer| answer.status == 200),
                    "{fault}: {:?}",
                    answers.iter().map(|a| a.status).collect::<Vec<_>>()
                );
            }
            match fault {
                "killed" => redis.again(),
                "stopped" => redis.signal("CONT"),
                "slow" => slow.by(Duration::ZERO),
                _ => {}
            }
            // Each gateway's first three, those beside them, and tries to connect; not all that
            // were sent meanwhile.
            let waited = errors() - before;
            assert!(waited < 40.0, "{fault}: {waited} waited in vain");
            // Every wait is 100 ms, and a connection that hangs is given up after a second: nobody
            // waits for that, nor for the end of the fault.
            times.sort_unstable();
            assert!(
                times[15] < Duration::from_millis(900) && times[29] < PATIENCE,
                "{fault}: four took {times:?}"
            );
        }
        for gateway in &two {
            comes(gateway, "up").await;
            gateway.logged("is unavailable: ").await;
            gateway.logged("is back after ").await;
            assert_eq!(gateway.metrics().sum("portcullis_store_up", &[]), 1.0);
            assert!(gateway.metrics().sum("portcullis_store_seconds_count", &[]) > 0.0);
        }
        let tokens = sent * (crate::support::script::PROMPT_TOKENS + 3);
        let all = || {
            (redis.used("{portcullis:tight}:caller:tight").0[..5] == [sent, tokens, 0, 0, 0])
                .then_some(())
        };
        eventually("all is counted", all).await;
    });
}

#[test]
fn gateways_that_must_not_go_on_alone_say_so() {
    run(async {
        let mut redis = Redis::with_password("s3cr3t-0f-the-st0re");
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let catalog = Files::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 5 }",
            &[("prod", TIGHT, "")],
        );
        let gateway = gateway(&catalog, &redis, "on_store_down: refuse, timeout: 5s").await;
        let post = || gateway.raw(crate::support::client::post_as(TIGHT, &chat("m")));
        comes(&gateway, "up").await;
        assert_eq!(post().await.status, 200);
        redis.kill();
        comes(&gateway, "down").await;
        let refused = post().await;
        refused.is_error(503, "store_unavailable");
        assert_eq!(refused.field("retry-after"), Some("1"));
        assert_eq!(
            gateway.post(&chat("m")).await.status,
            200,
            "who has no limits needs no store"
        );
        let told = format!("{}{}", gateway.log(), gateway.admin("/status").1);
        assert!(!told.contains("s3cr3t"), "{told}");
        redis.again();
    });
}

/// What another program has written there must not stop all other callers, and not this one for
/// ever.
#[test]
fn garbage_in_one_callers_counts_is_replaced() {
    run(async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let catalog = Files::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 500 }",
            &[("prod", TIGHT, "")],
        );
        let gateway = gateway(&catalog, &redis, "on_store_down: refuse, timeout: 5s").await;
        let post = async || {
            gateway
                .raw(crate::support::client::post_as(TIGHT, &chat("m")))
                .await
                .status
        };
        comes(&gateway, "up").await;
        let key = "{portcullis:tight}:caller:tight";
        let counted = async |sent: u64| {
            let all = || (redis.used(key).0[0] == sent).then_some(());
            eventually("all is counted", all).await;
        };
        let write = |command: &str, arguments: &[&str]| {
            redis::cmd(command)
                .arg(key)
                .arg(arguments)
                .exec(&mut redis.connection())
                .expect("it writes");
        };
        assert_eq!(post().await, 200);
        counted(1).await;
        let fields: Vec<String> = redis::cmd("HKEYS")
            .arg(key)
            .query(&mut redis.connection())
            .expect("fields");
        assert_eq!(
            fields.len(),
            2,
            "the sum, and this gateway's part: {fields:?}"
        );
        for (sent, field) in (2..).zip(&fields) {
            write("HSET", &[field, "garbage"]);
            assert_eq!(post().await, 200, "{field}");
            counted(sent).await;
            assert_eq!(gateway.status()["store"]["state"], "up", "{field}");
        }
        write("DEL", &[]);
        write("SET", &["garbage"]);
        assert_eq!(post().await, 200);
        counted(4).await;
        gateway
            .logged("that could not be read: they were removed")
            .await;
    });
}

/// What a model thought before it called a tool goes back to it, whichever gateway gets the tool's
/// result.
#[test]
fn one_gateways_thoughts_are_put_back_by_another() {
    run(async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        let claude = |content: Value, stop: &str| {
            Script::json(
                200,
                &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": content, "stop_reason": stop,
                    "stop_sequence": null, "usage": {"input_tokens": 3, "output_tokens": 3}}),
            )
        };
        let thought = json!({"type": "thinking", "thinking": "Rome?", "signature": "sig=="});
        let call = json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}});
        mock.push(claude(json!([thought, call]), "tool_use"));
        mock.push(claude(
            json!([{"type": "text", "text": "Sunny."}]),
            "end_turn",
        ));
        let catalog = Files::new()
            .account_with("a", &mock, "dialect: anthropic")
            .model("m", &["a=claude-sonnet-4-5"]);
        let more = "instances: 2, timeout: 5s";
        let two = [
            gateway(&catalog, &redis, more).await,
            gateway(&catalog, &redis, more).await,
        ];
        for gateway in &two {
            comes(gateway, "up").await;
        }
        let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]);
        let ask = |messages: Value| json!({"model": "m", "tools": tools, "reasoning_effort": "low", "max_completion_tokens": 9000, "messages": messages});
        let question = json!({"role": "user", "content": "Weather in Rome?"});
        assert_eq!(two[0].post(&ask(json!([question]))).await.status, 200);
        eventually("it is kept", || {
            redis
                .keys()
                .iter()
                .any(|key| key.contains(":thoughts:"))
                .then_some(())
        })
        .await;
        let called = json!({"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}});
        let answered = ask(
            json!([question, {"role": "assistant", "content": null, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "sun"}]),
        );
        assert_eq!(
            two[1].post(&answered).await.field("x-portcullis-dropped"),
            None
        );
        assert_eq!(
            mock.request(1).await.json()["messages"][1]["content"],
            json!([thought, call])
        );
    });
}

/// What breaks at one gateway is asked last at the other, until it has answered there.
#[test]
fn broken_at_one_gateway_is_last_at_another() {
    run(async {
        let redis = Redis::start();
        let (first, second) = (Mock::start().await, Mock::start().await);
        for _ in 0..5 {
            first.push(Script::error(500, "broken"));
        }
        first.always(Script::answer("first"));
        second.always(Script::answer("second"));
        let catalog = Files::chain(&[&first, &second]);
        let more = "instances: 2, timeout: 5s";
        let two = [
            gateway(&catalog, &redis, more).await,
            gateway(&catalog, &redis, more).await,
        ];
        for gateway in &two {
            comes(gateway, "up").await;
        }
        for _ in 0..5 {
            assert_eq!(two[0].post(&chat("m")).await.content(), "second");
        }
        two[0].logged("its breaker opened").await;
        // Both have heard of it when both have said since that they live. Here it would answer, and
        // whoever answers is not broken.
        let beats = || -> Vec<u64> {
            let all: Vec<String> = redis::cmd("HVALS")
                .arg("{portcullis}:instances")
                .query(&mut redis.connection())
                .unwrap();
            all.iter()
                .map(|told| told.split(' ').next().unwrap().parse().unwrap())
                .collect()
        };
        eventually("it is told", || {
            redis
                .keys()
                .iter()
                .any(|key| key == "{portcullis}:hints")
                .then_some(())
        })
        .await;
        let told = beats().into_iter().max();
        eventually("it is heard", || {
            beats().into_iter().all(|at| Some(at) > told).then_some(())
        })
        .await;
        let start = Instant::now();
        while two[1].post(&chat("m")).await.content() != "second" {
            assert!(start.elapsed() < PATIENCE, "nobody told");
        }
    });
}

/// A gateway that is killed tells from its ledger, by the same name, what it had used; what it had
/// only reserved is free again.
#[test]
fn a_killed_gateway_comes_back_with_its_part() {
    run_within(Duration::from_secs(120), async {
        let redis = Redis::start();
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.always(Script::answer("a"));
        mock.on("slow", Script::new().wait(&gate).then_answer("a"));
        let limits = "limits: { requests_per_day: 100, tokens_per_day: 1000000, concurrency: 50 }";
        let catalog = Files::over(&mock).model("slow", &["a"]).caller_with(
            "tight",
            limits,
            &[("prod", TIGHT, "")],
        );
        let mut one = gateway(&catalog, &redis, "timeout: 5s").await;
        comes(&one, "up").await;
        let post = |model: &str| crate::support::client::post_as(TIGHT, &chat(model));
        for _ in 0..10 {
            assert_eq!(one.raw(post("m")).await.status, 200);
        }
        let mut open = one.connect().await;
        open.send(post("slow")).await;
        let key = "{portcullis:tight}:caller:tight";
        let tokens = 10 * (crate::support::script::PROMPT_TOKENS + 3);
        eventually("one more has its place", || {
            (redis.used(key).0[4] == 1).then_some(())
        })
        .await;
        eventually("the ledger is written", || {
            (one.metrics().sum("portcullis_ledger_rows_total", &[]) == 10.0).then_some(())
        })
        .await;
        one.crash_and_restart();
        gate.open();
        comes(&one, "up").await;
        let told = || {
            (redis.used(key)
                == (
                    [10, tokens, 0, 0, 0, 0, 0],
                    vec![[10, tokens, 0, 0, 0, 0, 0]],
                ))
                .then_some(())
        };
        eventually("its part is what its ledger has", told).await;
    });
}

/// What the ledger could not write before the end, the store still knows.
#[test]
fn killed_gateways_take_back_only_what_their_ledger_has() {
    run_within(Duration::from_secs(120), async {
        let redis = Redis::start();
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.always(Script::answer("a"));
        mock.on("slow", Script::new().wait(&gate).then_answer("a"));
        let limits = "limits: { requests_per_day: 100, tokens_per_day: 1000000, usd_per_month: 5, concurrency: 50 }";
        let price = "price: { input: 1, output: 1 }";
        let catalog = Files::new()
            .account("a", &mock)
            .model_with("m", &["a"], price)
            .model_with("slow", &["a"], price);
        let catalog = catalog.caller_with("tight", limits, &[("prod", TIGHT, "")]);
        let mut one = gateway(&catalog, &redis, "timeout: 5s").await;
        comes(&one, "up").await;
        let post = |model: &str| crate::support::client::post_as(TIGHT, &chat(model));
        let each = crate::support::script::PROMPT_TOKENS + 3;
        let sum = |requests: u64| {
            [
                requests,
                requests * each,
                requests * each * 1_000,
                requests * each * 1_000,
                0,
            ]
        };
        let counted = |requests: u64| {
            let (key, redis, sum) = ("{portcullis:tight}:caller:tight", &redis, &sum);
            let told = move || {
                let (all, parts) = redis.used(key);
                (all[..5] == sum(requests) && parts.len() == 1 && parts[0][..5] == sum(requests))
                    .then_some(())
            };
            eventually("the store has it all", told)
        };
        for _ in 0..4 {
            assert_eq!(one.raw(post("m")).await.status, 200);
        }
        eventually("the ledger is written", || {
            (one.metrics().sum("portcullis_ledger_rows_total", &[]) == 4.0).then_some(())
        })
        .await;
        // From here on the ledger cannot be written.
        let ledger = one.conf.parent().expect("a folder").join("ledger.sqlite");
        let lock = rusqlite::Connection::open(&ledger).expect("the ledger");
        lock.busy_timeout(Duration::from_secs(5))
            .expect("a timeout");
        lock.execute_batch("BEGIN IMMEDIATE").expect("a lock");
        for _ in 0..6 {
            assert_eq!(one.raw(post("m")).await.status, 200);
        }
        counted(10).await;
        let mut open = one.connect().await;
        open.send(post("slow")).await;
        eventually("one more has its place", || {
            (redis.used("{portcullis:tight}:caller:tight").0[4] == 1).then_some(())
        })
        .await;
        one.access_lines(10).await;
        one.crash();
        lock.execute_batch("ROLLBACK").expect("no lock");
        drop(lock);
        one.restart();
        gate.open();
        comes(&one, "up").await;
        let rows: i64 = rusqlite::Connection::open(&ledger)
            .unwrap()
            .query_row("SELECT count(*) FROM exchange", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 4, "the rest is lost to the ledger");
        // What was only reserved is free again, and what was settled is not.
        counted(10).await;
        // It is counted here, too, and told with all that follows.
        assert_eq!(one.raw(post("m")).await.status, 200);
        counted(11).await;
        let told: Value = serde_json::from_str(&one.admin("/limits?caller=tight").1).unwrap();
        assert_eq!(
            (
                &told["counted"],
                &told["limits"][0]["used"]["requests_per_day"]
            ),
            (&json!("all instances"), &json!(11))
        );
        redis.flush();
        counted(11).await;
    });
}

/// What a stream had used when its gateway was killed is in its part, and in the ledger.
#[test]
fn a_killed_gateways_streams_are_in_its_part() {
    run_within(Duration::from_secs(120), async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::sse().words(0..400).stall());
        let limits = "limits: { requests_per_day: 100, tokens_per_day: 1000000 }";
        let catalog = Files::over(&mock).caller_with("tight", limits, &[("prod", TIGHT, "")]);
        let mut one = gateway(&catalog, &redis, "timeout: 5s").await;
        comes(&one, "up").await;
        let mut open = crate::support::client::Connection::plain(one.address, None).await;
        open.send(crate::support::client::post_as(
            TIGHT,
            &crate::support::chat_stream("m"),
        ))
        .await;
        let ledger = one.conf.parent().expect("a folder").join("ledger.sqlite");
        let tokens = |from: &str| -> Option<u64> {
            let connection = rusqlite::Connection::open(&ledger).ok()?;
            let sum = connection
                .query_row(
                    &format!("SELECT sum(prompt + completion) FROM {from}"),
                    [],
                    |row| row.get::<_, i64>(0),
                )
                .ok()?;
            sum.try_into().ok()
        };
        let used = eventually("it is written down", || {
            tokens("running").filter(|tokens| *tokens > 400)
        })
        .await;
        one.crash_and_restart();
        comes(&one, "up").await;
        assert_eq!(tokens("exchange"), Some(used));
        let told = || {
            redis
                .used("{portcullis:tight}:caller:tight")
                .1
                .iter()
                .any(|part| part[..5] == [1, used, 0, 0, 0])
                .then_some(())
        };
        eventually("its part is what its ledger has", told).await;
    });
}

/// Killed several times in a row, while streams run and the ledger lacks rows: with each kill
/// ledger, limits and store say the same, and nothing is lost.
#[test]
fn a_gateway_killed_often_loses_nothing_of_its_part() {
    run_within(Duration::from_secs(180), async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        mock.on("stream", Script::sse().words(0..400).stall());
        let limits = "limits: { requests_per_day: 1000, tokens_per_day: 1000000 }";
        let catalog = Files::over(&mock).model("stream", &["a"]).caller_with(
            "tight",
            limits,
            &[("prod", TIGHT, "")],
        );
        let mut one = gateway(&catalog, &redis, "timeout: 5s").await;
        comes(&one, "up").await;
        let file = one.conf.parent().expect("a folder").join("ledger.sqlite");
        let read = |sql: &str| -> Option<u64> {
            let sum = rusqlite::Connection::open(&file)
                .ok()?
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .ok()?;
            sum.try_into().ok()
        };
        let key = "{portcullis:tight}:caller:tight";
        let each = crate::support::script::PROMPT_TOKENS + 3;
        // What the ledger lacked at each kill, and only the store and the limits have.
        let (mut lost, mut lines) = (0, 0);
        for round in 1..=4 {
            for _ in 0..5 {
                assert_eq!(
                    one.raw(crate::support::client::post_as(TIGHT, &chat("m")))
                        .await
                        .status,
                    200
                );
            }
            let mut open = crate::support::client::Connection::plain(one.address, None).await;
            open.send(crate::support::client::post_as(
                TIGHT,
                &crate::support::chat_stream("stream"),
            ))
            .await;
            eventually("it is written down", || {
                read("SELECT sum(prompt + completion) FROM running").filter(|tokens| *tokens > 400)
            })
            .await;
            let rows = read("SELECT count(*) FROM exchange").expect("rows");
            // From here on the ledger cannot be written.
            let lock = rusqlite::Connection::open(&file).expect("the ledger");
            lock.busy_timeout(Duration::from_secs(5))
                .expect("a timeout");
            lock.execute_batch("BEGIN IMMEDIATE").expect("a lock");
            for _ in 0..3 {
                assert_eq!(
                    one.raw(crate::support::client::post_as(TIGHT, &chat("m")))
                        .await
                        .status,
                    200
                );
            }
            lost += 3;
            lines += 8;
            one.access_lines(lines).await;
            let settled = |(all, parts): (Used, Vec<Used>)| {
                (all[0] == rows + lost + 1 && parts.len() == 1 && all[4] == 1).then_some(())
            };
            eventually("the store has them", || settled(redis.used(key))).await;
            one.crash();
            lock.execute_batch("ROLLBACK").expect("no lock");
            drop(lock);
            one.restart();
            comes(&one, "up").await;
            let ledger = read("SELECT sum(prompt + completion) FROM exchange").expect("rows");
            assert_eq!(
                read("SELECT count(*) FROM exchange WHERE outcome = 'shutdown'"),
                Some(round)
            );
            let (requests, tokens) = (round * 6 + lost, ledger + lost * each);
            let told = || (redis.used(key).1 == [[requests, tokens, 0, 0, 0, 0, 0]]).then_some(());
            eventually(
                "its part is what its ledger has, and what that lacked",
                told,
            )
            .await;
            assert_eq!(redis.used(key).0[..2], [requests, tokens]);
            for (limit, used) in [("requests_per_day", requests), ("tokens_per_day", tokens)] {
                assert_eq!(
                    self::limits(&one, limit),
                    ("all instances".to_owned(), used),
                    "{limit}, killed {round} times"
                );
            }
            drop(open);
        }
    });
}

/// In a script numbers are exact up to 2⁵³ only: no limit lets more pass for that, and nobody can
/// put the store out with large ones.
#[test]
fn numbers_beyond_a_scripts_range_let_nothing_pass() {
    const MOST: u64 = 1 << 53;
    run(async {
        let redis = Redis::start();
        let two = Instance::two(&redis, &key(&format!("tokens_per_day: {MOST}"))).await;
        let held = two[0].admitted(ask(MOST, 0)).await;
        assert_eq!(two[1].refused(ask(1, 0)).await.over.used, MOST);
        held.settle(spent(MOST - 2, 0), calendar::now_millis());
        agrees(&redis, "key", "acme/prod", &two).await;
        drop((
            two[1].admitted(ask(2, 0)).await,
            two[1].refused(ask(3, 0)).await,
        ));

        // Larger than can be told: what is asked is held against the limit itself, and near the top
        // each goes by its part.
        let redis = Redis::start();
        let limit = 10_000_000_000_000_000;
        let two = Instance::two(&redis, &key(&format!("tokens_per_day: {limit}"))).await;
        assert_eq!(two[0].refused(ask(limit * 10, 0)).await.over.wait, None);
        let first = two[0].admitted(ask(10, 0)).await;
        assert_eq!(
            first
                .limits_left
                .tokens
                .map(|room| (room.limit, room.remaining)),
            Some((limit, limit - 10))
        );
        let most = two[0].admitted(ask(limit / 2 - 10, 0)).await;
        let half = two[1].admitted(ask(limit / 2, 0)).await;
        assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[1], limit);
        for instance in &two {
            assert_eq!(instance.refused(ask(1, 0)).await.over.limit, limit / 2);
        }
        drop((first, most, half));
        assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[..2], [3, 0]);

        // Not limited at all, but counted.
        let redis = Redis::start();
        let two = Instance::two(&redis, &key("requests_per_day: 5000")).await;
        let held = join_all((0..1_200).map(|n| two[n % 2].admitted(ask(u64::MAX, u64::MAX)))).await;
        for instance in &two {
            drop(instance.admitted(ask(0, 0)).await);
            assert_eq!(
                (instance.store.state(), instance.errors.get()),
                (StoreState::Up, 0)
            );
        }
        drop(held);
        agrees(&redis, "key", "acme/prod", &two).await;
        for instance in &two {
            instance
                .admitted(ask(7, 7))
                .await
                .settle(spent(1, 1), calendar::now_millis());
        }
        assert_eq!(
            agrees(&redis, "key", "acme/prod", &two).await[..5],
            [1_204, 2, 2, 2, 0]
        );
    });
}

/// A server that drops one caller's counts, as some do when their memory is full: who finds out has
/// everybody tell theirs.
#[test]
fn counts_dropped_by_the_store_are_told_anew() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(&redis, &key("requests_per_day: 10")).await;
        for instance in [&two[0], &two[1], &two[1], &two[1]] {
            drop(instance.admitted(ask(1, 0)).await);
        }
        assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[0], 4);
        redis::cmd("DEL")
            .arg(key_of("key", "acme/prod"))
            .exec(&mut redis.connection())
            .unwrap();
        drop(two[0].admitted(ask(1, 0)).await);
        assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[0], 5);
    });
}

/// Whoever finds out decides nothing by what it alone has told: another one's part is not there
/// before that has heard of it.
#[test]
fn dropped_counts_make_gateways_wait_for_others() {
    run(async {
        // What the one that finds it has used itself, and whether the store says so to both at
        // once.
        for (own, both) in [(5, false), (0, false), (5, true)] {
            let redis = Redis::start();
            let two = Instance::two(&redis, &key("tokens_per_day: 100")).await;
            two[0]
                .admitted(ask(own, 0))
                .await
                .settle(spent(own, 0), calendar::now_millis());
            two[1]
                .admitted(ask(90, 0))
                .await
                .settle(spent(90, 0), calendar::now_millis());
            assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[1], own + 90);
            drop_counts(&redis);
            let before = born(&redis);
            if both {
                join_all(two.iter().map(|instance| instance.refused(ask(60, 0)))).await;
            }
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(1_500) {
                two[0].refused(ask(60, 0)).await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[1], own + 90);
            assert_ne!(born(&redis), before, "it is known that something was lost");
            for instance in &two {
                instance.comes(StoreState::Up).await;
            }
            assert_eq!(two[0].refused(ask(60, 0)).await.over.limit, 100);
        }
    });
}

fn drop_counts(redis: &Redis) {
    redis::cmd("DEL")
        .arg(key_of("key", "acme/prod"))
        .exec(&mut redis.connection())
        .unwrap();
}

/// The word that says since when the store holds what it holds.
fn born(redis: &Redis) -> String {
    redis::cmd("GET")
        .arg("{portcullis}:born")
        .query(&mut redis.connection())
        .unwrap()
}

/// Who has not heard the word has not told its counts since, whatever it said before, and finds no
/// loss that is not known already.
#[test]
fn incomplete_gateways_say_nothing_new_about_lost_counts() {
    let redis = Redis::start();
    let mut connection = redis.connection();
    // Its name, whether it has told all, the word it has for an empty store, whether something is
    // lost, and the word that it heard: the store's, and how many have told all.
    let mut beat =
        |name: &str, complete: &str, new: &str, lost: &str, heard: &str| -> (String, u64) {
            let mut call = redis::cmd("EVAL");
            call.arg(include_str!("../../src/store/beat.lua"))
                .arg(3)
                .arg("instances")
                .arg("born")
                .arg("hints");
            for argument in [
                name,
                &format!("process-of-{name}"),
                complete,
                new,
                "[]",
                lost,
                heard,
            ] {
                call.arg(argument);
            }
            let told: (String, u64, u64, u64, Vec<String>, Vec<String>, String) =
                call.query(&mut connection).unwrap();
            (told.0, told.3)
        };
    let says = |word: &str, complete: u64| (word.to_owned(), complete);
    assert_eq!(beat("a", "0", "w1", "0", "-"), says("w1", 0));
    assert_eq!(beat("b", "0", "w2", "0", "-"), says("w1", 0));
    assert_eq!(beat("a", "1", "w3", "0", "w1"), says("w1", 1));
    assert_eq!(beat("b", "1", "w4", "0", "w1"), says("w1", 2));
    // One finds a loss: nobody has told anything since, and one does.
    assert_eq!(beat("a", "0", "w5", "1", "w1"), says("w5", 0));
    assert_eq!(beat("a", "1", "w6", "0", "w5"), says("w5", 1));
    // The other finds the same one, and then has told all.
    assert_eq!(beat("b", "1", "w7", "1", "w1"), says("w5", 1));
    assert_eq!(beat("b", "1", "w8", "0", "w5"), says("w5", 2));
    // All is lost: what was told of before is not.
    redis.flush();
    assert_eq!(beat("b", "1", "w9", "0", "w5"), says("w9", 0));
    // One of an older version, which names no word, and reads what others say of themselves.
    redis::cmd("HSET")
        .arg("instances")
        .arg("c")
        .arg(format!("{} 1 0123456789abcdef", now()))
        .exec(&mut redis.connection())
        .unwrap();
    assert_eq!(beat("b", "1", "w10", "0", "w9"), says("w9", 1));
    let told: String = redis::cmd("HGET")
        .arg("instances")
        .arg("b")
        .query(&mut redis.connection())
        .unwrap();
    let told: Vec<&str> = told.split(' ').collect();
    assert_eq!(told[1..], ["1", "w9", "process-of-b"]);
    assert_eq!(beat("c", "1", "w11", "0", "w9"), says("w9", 2));
}

/// What another process told by the same name, as in an upgrade, is not lost: nobody else needs to
/// tell anything again.
#[test]
fn a_part_told_by_another_process_is_no_loss() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(&redis, &key("requests_per_day: 10")).await;
        drop(two[0].admitted(ask(1, 0)).await);
        drop(two[1].admitted(ask(1, 0)).await);
        agrees(&redis, "key", "acme/prod", &two).await;
        let before = born(&redis);
        let (day, month) = (
            now() / 86_400_000,
            two[0].registry.scopes()[0].moment(now()).month,
        );
        let mut call = redis::cmd("EVAL");
        call.arg(include_str!("../../src/store/admit.lua"))
            .arg(1)
            .arg(key_of("key", "acme/prod"));
        call.arg("own")
            .arg("one")
            .arg("another-epoch")
            .arg(format!("[{day},7,0,0,{month},0,0,0,0,0,1]"))
            .arg(0);
        let _: Vec<u64> = call.query(&mut redis.connection()).unwrap();
        let left = two[0].admitted(ask(1, 0)).await.limits_left;
        assert_eq!(
            left.requests.map(|room| room.remaining),
            Some(7),
            "by the store"
        );
        assert_eq!(agrees(&redis, "key", "acme/prod", &two).await[0], 3);
        assert_eq!(born(&redis), before);
    });
}

/// A gateway tells what it alone has counted as that, if the store has lost it, and of all what it
/// never asked the store for.
#[test]
fn counts_dropped_by_the_store_are_not_found() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(&redis, &key("requests_per_day: 10")).await;
        for instance in &two {
            drop(instance.admitted(ask(1, 0)).await);
        }
        agrees(&redis, "key", "acme/prod", &two).await;
        let scopes = two[0].registry.scopes();
        let seen = async || {
            two[0]
                .store
                .total_counts(&scopes)
                .await
                .map(|counts| counts[0].day.requests)
        };
        assert_eq!(seen().await, Some(2));
        drop_counts(&redis);
        assert_eq!(seen().await, None);
        // And goes on.
        assert_eq!(
            (two[0].store.state(), two[0].errors.get()),
            (StoreState::Up, 0)
        );
        drop(two[0].admitted(ask(1, 0)).await);
        agrees(&redis, "key", "acme/prod", &two).await;
        two[0].comes(StoreState::Up).await;
        assert_eq!(seen().await, Some(3));

        let more = format!(
            "accounts: {{ a: {{ dialect: demo }} }}\nmodels: {{ m: {{ targets: [ {{ account: a }} ] }} }}\n\
             callers: {{ new: {{ {} }} }}\n",
            key("requests_per_day: 3")
        );
        let more = resolve_catalog(&[("catalog.yaml".to_owned(), more)], &mut |_| {
            Err(String::new())
        })
        .expect("a catalog");
        let _scopes = two[0].registry.adopt(&more, &mut Vec::new);
        let new = two[0]
            .registry
            .scopes()
            .into_iter()
            .find(|scope| &*scope.name == "new/prod")
            .expect("a scope");
        assert_eq!(
            two[0]
                .store
                .total_counts(&[new])
                .await
                .map(|counts| counts[0].day.requests),
            Some(0)
        );
    });
}

/// A store that drops counts by itself would fill the log.
#[test]
fn lost_counts_are_logged_once_in_a_while() {
    run(async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let catalog = Files::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 1000 }",
            &[("prod", TIGHT, "")],
        );
        let gateway = gateway(&catalog, &redis, "timeout: 5s").await;
        comes(&gateway, "up").await;
        let mut sent = 0;
        for _ in 0..3 {
            let before = born(&redis);
            // While the gateway sends everything again because of the loss before, a scope that is
            // dropped is sent in any case: that is no loss, so it is dropped once more.
            while born(&redis) == before {
                assert!(sent < 30, "no loss was noticed");
                redis::cmd("DEL")
                    .arg("{portcullis:tight}:caller:tight")
                    .exec(&mut redis.connection())
                    .unwrap();
                assert_eq!(
                    gateway
                        .raw(crate::support::client::post_as(TIGHT, &chat("m")))
                        .await
                        .status,
                    200
                );
                sent += 1;
                for _ in 0..20 {
                    if born(&redis) == before {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            }
            eventually("it is counted", || {
                (redis.used("{portcullis:tight}:caller:tight").0[0] == sent).then_some(())
            })
            .await;
        }
        gateway.logged("has lost all or a part of its data").await;
        assert_eq!(
            gateway
                .log()
                .matches("has lost all or a part of its data")
                .count(),
            1,
            "{}",
            gateway.log()
        );
    });
}

/// Parts of another month are let go when they are old, or when somebody else begins: nothing that
/// matters is lost.
#[test]
fn finished_counts_are_let_go_and_need_no_telling() {
    run_within(Duration::from_secs(120), async {
        let (_tools, library, shift) = shifted_clock("0");
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let catalog = Files::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 100 }",
            &[("prod", TIGHT, "")],
        );
        let store = format!(
            "workers: 1\nstore: {{ redis: '{}', timeout: 5s }}",
            redis.url()
        );
        let gateway = Gateway::with(&catalog).server(&store).upstream(redis.port);
        let gateway = gateway
            .env("LD_PRELOAD", library.to_str().unwrap())
            .env("CLOCK_SHIFT", shift.to_str().unwrap())
            .start()
            .await;
        comes(&gateway, "up").await;
        let post = async || {
            assert_eq!(
                gateway
                    .raw(crate::support::client::post_as(TIGHT, &chat("m")))
                    .await
                    .status,
                200
            )
        };
        post().await;
        let (key, before) = ("{portcullis:tight}:caller:tight", born(&redis));
        eventually("it is counted", || {
            (redis.used(key).0[0] == 1).then_some(())
        })
        .await;
        set_clock(&shift, 41 * 86_400);
        let let_go = || {
            redis::cmd("DEL")
                .arg(key)
                .exec(&mut redis.connection())
                .unwrap()
        };
        let_go();
        assert_eq!(
            limits(&gateway, "requests_per_day"),
            ("all instances".to_owned(), 0)
        );
        let_go();
        post().await;
        eventually("it is counted anew", || {
            (redis.used(key).0[0] == 1).then_some(())
        })
        .await;
        assert_eq!(born(&redis), before);
        // What is counted now is missed, once the request's own end has been told.
        eventually("it is missed", || {
            let_go();
            (limits(&gateway, "requests_per_day") == ("this instance".to_owned(), 1)).then_some(())
        })
        .await;
        post().await;
        eventually("all is told", || (born(&redis) != before).then_some(())).await;
    });
}

#[test]
fn free_requests_pass_when_the_money_is_spent() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(
            &redis,
            &key("usd_per_month: 0.000005, requests_per_day: 10"),
        )
        .await;
        two[0]
            .admitted(ask(1, 5_000))
            .await
            .settle(spent(1, 6_000), calendar::now_millis());
        agrees(&redis, "key", "acme/prod", &two).await;
        assert_eq!(
            two[0].refused(ask(1, 1)).await.over.kind.name(),
            "usd_per_month"
        );
        for _ in 0..9 {
            drop(two[0].admitted(ask(1, 0)).await);
        }
        assert_eq!(two[0].refused(ask(1, 0)).await.over.limit, 10);
    });
}

/// What `/limits` tells: of whom, and what is used of a limit.
fn limits(gateway: &Gateway, limit: &str) -> (String, u64) {
    let told: Value = serde_json::from_str(&gateway.admin("/limits?caller=tight").1).expect("JSON");
    let used = told["limits"][0]["used"][limit]
        .as_u64()
        .unwrap_or_else(|| panic!("no {limit} in {told}"));
    (told["counted"].as_str().expect("of whom").to_owned(), used)
}

#[test]
fn limits_tells_of_all_gateways_while_the_store_does() {
    run_within(Duration::from_secs(120), async {
        let mut redis = Redis::start();
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.always(Script::answer("a"));
        mock.on("slow", Script::new().wait(&gate).then_answer("a"));
        let all = "limits: { requests_per_minute: 100, requests_per_day: 100, tokens_per_day: 100000, concurrency: 9 }";
        let catalog = Files::over(&mock).model("slow", &["a"]).caller_with(
            "tight",
            all,
            &[("prod", TIGHT, "")],
        );
        let more = "instances: 2, timeout: 5s";
        let two = [
            gateway(&catalog, &redis, more).await,
            gateway(&catalog, &redis, more).await,
        ];
        for gateway in &two {
            comes(gateway, "up").await;
        }
        let post = |model: &str| crate::support::client::post_as(TIGHT, &chat(model));
        for n in [0, 1, 1] {
            assert_eq!(two[n].raw(post("m")).await.status, 200);
        }
        let mut open = two[1].connect().await;
        open.send(post("slow")).await;
        eventually("it has its place", || {
            (limits(&two[1], "concurrency").1 == 1).then_some(())
        })
        .await;
        for gateway in &two {
            for (limit, used) in [
                ("requests_per_minute", 4),
                ("requests_per_day", 4),
                ("concurrency", 1),
            ] {
                let of_all =
                    || (limits(gateway, limit) == ("all instances".to_owned(), used)).then_some(());
                eventually(limit, of_all).await;
            }
            let (status, why) = gateway.admin("/limits?key=x");
            assert_eq!(
                (status, why.as_str()),
                (400, "key: is not known; allowed: caller\n")
            );
        }
        redis.kill();
        for (gateway, used) in two.iter().zip([1, 3]) {
            comes(gateway, "down").await;
            assert_eq!(
                limits(gateway, "requests_per_day"),
                ("this instance".to_owned(), used)
            );
        }
        gate.open();
    });
}

/// A library that shifts the clock of a gateway, and the file that says by how many seconds, in a
/// folder of their own.
pub fn shifted_clock(by: &str) -> (Folder, PathBuf, PathBuf) {
    let tools = Folder::new(&[("shift", by)]);
    let (library, shift) = (tools.path().join("clock.so"), tools.path().join("shift"));
    let source = root().join("tests/support/clock.c");
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    assert!(
        built
            .expect("a C compiler, as the build needs one")
            .success()
    );
    (tools, library, shift)
}

pub fn set_clock(shift: &Path, by: i64) {
    std::fs::write(shift.with_extension("new"), by.to_string()).unwrap();
    std::fs::rename(shift.with_extension("new"), shift).unwrap();
}

/// A gateway whose clock was ahead tells the store where its counts are now, asked for anything or
/// not.
#[test]
fn a_clock_set_back_takes_the_stored_counts_along() {
    run_within(Duration::from_secs(120), async {
        let (_tools, library, shift) = shifted_clock("172800");
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let all =
            "limits: { requests_per_minute: 100, requests_per_day: 100, tokens_per_day: 100000 }";
        let catalog = Files::over(&mock).caller_with("tight", all, &[("prod", TIGHT, "")]);
        let store = format!(
            "workers: 1\nstore: {{ redis: '{}', instances: 2, timeout: 5s }}",
            redis.url()
        );
        let with = || Gateway::with(&catalog).server(&store).upstream(redis.port);
        let ahead = with()
            .env("LD_PRELOAD", library.to_str().unwrap())
            .env("CLOCK_SHIFT", shift.to_str().unwrap())
            .start()
            .await;
        let right = with().start().await;
        for gateway in [&ahead, &right] {
            comes(gateway, "up").await;
        }
        for _ in 0..3 {
            assert_eq!(
                ahead
                    .raw(crate::support::client::post_as(TIGHT, &chat("m")))
                    .await
                    .status,
                200
            );
        }
        let key = "{portcullis:tight}:caller:tight";
        eventually("they are counted", || {
            (redis.used(key).0[0] == 3).then_some(())
        })
        .await;
        assert_eq!(limits(&right, "requests_per_day").1, 0, "on another day");
        set_clock(&shift, 0);
        for limit in ["requests_per_day", "requests_per_minute"] {
            eventually(limit, || (limits(&right, limit).1 == 3).then_some(())).await;
        }
        assert_eq!(redis.used(key).0[0], 3, "and on no other day");
        // It comes right, and is set back once more: nothing is free again, and nothing counts
        // twice.
        set_clock(&shift, 172_800);
        eventually("its date has what it had", || {
            (limits(&ahead, "requests_per_day") == ("all instances".to_owned(), 3)).then_some(())
        })
        .await;
        set_clock(&shift, 0);
        eventually("and so has this one", || {
            (redis.used(key).0[0] == 3).then_some(())
        })
        .await;
        assert_eq!(
            (
                limits(&right, "requests_per_day").1,
                limits(&ahead, "requests_per_day").1
            ),
            (3, 3)
        );
    });
}

/// A clock that goes through many dates and comes back: store and gateway remember as many of them.
#[test]
fn a_clock_moved_through_many_dates_counts_each_once() {
    run_within(Duration::from_secs(120), async {
        const DAY: i64 = 86_400;
        let (_tools, library, shift) = shifted_clock("0");
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let catalog = Files::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 100 }",
            &[("prod", TIGHT, "")],
        );
        let store = format!(
            "workers: 1\nstore: {{ redis: '{}', timeout: 5s }}",
            redis.url()
        );
        let gateway = Gateway::with(&catalog).server(&store).upstream(redis.port);
        let gateway = gateway
            .env("LD_PRELOAD", library.to_str().unwrap())
            .env("CLOCK_SHIFT", shift.to_str().unwrap())
            .start()
            .await;
        comes(&gateway, "up").await;
        let key = "{portcullis:tight}:caller:tight";
        let agree = |used: u64| {
            (limits(&gateway, "requests_per_day") == ("all instances".to_owned(), used))
                .then_some(())
        };
        // Seven dates with a request more on each, upwards.
        for day in 0..7 {
            set_clock(&shift, day * DAY);
            for _ in 0..=day {
                assert_eq!(
                    gateway
                        .raw(crate::support::client::post_as(TIGHT, &chat("m")))
                        .await
                        .status,
                    200
                );
            }
            eventually("the date has its own", || {
                agree(u64::try_from(day).unwrap() + 1)
            })
            .await;
        }
        let all = 1 + 2 + 3 + 4 + 5 + 6 + 7;
        // Back on the first one all later ones count too, and on each on the way up that and those
        // before do not.
        set_clock(&shift, 0);
        eventually("all later ones count", || agree(all)).await;
        let part = redis.used(key).1[0][0];
        assert_eq!(part, all);
        for day in 1..7 {
            set_clock(&shift, day * DAY);
            let own = u64::try_from(day).unwrap() + 1;
            eventually("the date has its own again", || agree(own)).await;
            eventually("and so has the part", || {
                (redis.used(key).1[0][0] == own).then_some(())
            })
            .await;
        }
    });
}

/// An estimate that is larger than a whole limit passes alone over all gateways, and who waits for
/// the minute is told the truth by both.
#[test]
fn estimates_above_the_limit_pass_alone() {
    run(async {
        let redis = Redis::start();
        let two = Instance::two(
            &redis,
            &key("tokens_per_minute: 100, requests_per_minute: 9"),
        )
        .await;
        let large = Ask {
            tokens: 1_000,
            usd: Usd(0),
            sure: spent(50, 0),
        };
        let first = two[0].admitted(large).await;
        let refused = two[1].refused(large).await;
        assert!(
            refused.over.estimated
                && refused
                    .over
                    .wait
                    .is_some_and(|wait| wait <= Duration::from_secs(60)),
            "{refused:?}"
        );
        assert_eq!(
            two[1].refused(ask(101, 0)).await.over.wait,
            None,
            "who asks for more itself never passes"
        );
        first.settle(spent(0, 0), calendar::now_millis());
        agrees(&redis, "key", "acme/prod", &two).await;
        two[1]
            .admitted(large)
            .await
            .settle(spent(99, 0), calendar::now_millis());
        agrees(&redis, "key", "acme/prod", &two).await;
        let refused = two[0].refused(ask(2, 0)).await;
        assert!(
            !refused.over.estimated
                && refused
                    .over
                    .wait
                    .is_some_and(|wait| wait <= Duration::from_secs(60)),
            "{refused:?}"
        );
    });
}

/// Whatever is wrong: one line says what, and what to do; `/status` says it as long as it is so.
#[test]
fn each_trouble_is_told_once_with_its_remedy() {
    run_within(Duration::from_secs(180), async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let catalog = Files::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 1000 }",
            &[("prod", TIGHT, "")],
        );
        let gateway = gateway(&catalog, &redis, "timeout: 5s").await;
        comes(&gateway, "up").await;
        gateway.logged("is up and decides").await;
        let command = |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            words[1..].iter().for_each(|word| {
                command.arg(*word);
            });
            command.exec(&mut redis.connection()).expect("it is done");
        };
        let troubles: [(&[&str], &str, &[&str]); 3] = [
            (
                &["CONFIG", "SET", "maxmemory", "1mb"],
                "raise its `maxmemory`",
                &["CONFIG", "SET", "maxmemory", "0"],
            ),
            (
                &["REPLICAOF", "127.0.0.1", "1"],
                "`store.redis` must be the primary",
                &["REPLICAOF", "NO", "ONE"],
            ),
            (
                &["SCRIPT", "FLUSH"],
                "Portcullis loads them again",
                &["PING"],
            ),
        ];
        for (number, (fault, advice, cure)) in troubles.into_iter().enumerate() {
            command(fault);
            assert_eq!(
                gateway
                    .raw(crate::support::client::post_as(TIGHT, &chat("m")))
                    .await
                    .status,
                200
            );
            gateway.logged(advice).await;
            if number < 2 {
                let told = || {
                    gateway.status()["store"]["error"]
                        .as_str()
                        .filter(|error| error.contains(advice))
                        .map(str::to_owned)
                };
                let error = eventually("why", told).await;
                assert!(!error.contains('\n'), "{error}");
            }
            command(cure);
            comes(&gateway, "up").await;
            assert_eq!(gateway.status()["store"]["error"], Value::Null);
            eventually("it says so", || {
                (gateway.log().matches("is back after").count() == number + 1).then_some(())
            })
            .await;
            assert_eq!(
                gateway.log().matches("is unavailable: ").count(),
                number + 1,
                "{}",
                gateway.log()
            );
        }
    });
}

#[test]
fn a_waiting_gateway_says_for_whom_and_how_long() {
    run_within(Duration::from_secs(120), async {
        let redis = Redis::start();
        let mock = Mock::start().await;
        let catalog = Files::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 1000 }",
            &[("prod", TIGHT, "")],
        );
        let gateway = gateway(&catalog, &redis, "instances: 2, timeout: 5s").await;
        let line = gateway.logged("answers, but only 1 of 2 gateways").await;
        assert!(
            line.contains(" s at most, this gateway uses its own counts, and 1/2 of each limit"),
            "{line}"
        );
        comes(&gateway, "up").await;
        gateway
            .logged("is up and decides over limits for 1 of 2 gateways")
            .await;
        assert_eq!(
            gateway.log().matches("the store redis").count(),
            2,
            "{}",
            gateway.log()
        );
    });
}

#[test]
fn a_store_too_slow_from_the_start_is_reported() {
    run(async {
        let redis = Redis::start();
        let slow = Slow::to(redis.port).await;
        slow.by(Duration::from_millis(50));
        let mock = Mock::start().await;
        let catalog = Files::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 1000 }",
            &[("prod", TIGHT, "")],
        );
        let store = format!("store: {{ redis: 'redis://{}' }}", slow.address);
        let gateway = Gateway::with(&catalog)
            .server(&store)
            .upstream(slow.address.port())
            .start()
            .await;
        gateway
            .logged("it does not answer within 20ms (`store.timeout`)")
            .await;
        assert_eq!(gateway.status()["store"]["state"], "down");
    });
}
