//! A real Prometheus scrapes two gateways while much goes wrong: every query of the board has
//! samples then, every series that an alert looks at is there, and what is wrong lets its alerts
//! fire.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{alerts, queries, selectors};
use crate::support::canary::{ADMIN_KEY, hash};
use crate::support::client::{post_as, request};
use crate::support::folder::Folder;
use crate::support::gateway::free_port;
use crate::support::process::Process;
use crate::support::redis::Redis;
use crate::support::script::finish;
use crate::support::tls::Ca;
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, SLOWER, Script, chat, chat_stream, eventually,
    eventually_blocking, run_within,
};

const TIGHT: &str = "sk-CaNaRy-caller-tight-0123456789abcdefghijklmnopq";
const OLD: &str = "sk-CaNaRy-caller-old-0123456789abcdefghijklmnopqrs";
const NEW: &str = "sk-CaNaRy-caller-new-0123456789abcdefghijklmnopqrs";

/// The alerts that what goes wrong here lets fire.
const FIRING: &[&str] = &[
    "PortcullisModelUnfit",
    "PortcullisUpstreamsFail",
    "PortcullisLedgerFails",
    "PortcullisStoreDown",
    "PortcullisPanics",
    "PortcullisReloadRefused",
    "PortcullisCredentialRefused",
    "PortcullisBreakerOpen",
    "PortcullisRequestsFail",
    "PortcullisShed",
    "PortcullisHeadroom",
    "PortcullisLimitNear",
    "PortcullisUnpriced",
];

/// A Prometheus on a port and in a folder of its own. Dropping it kills it.
struct Prometheus {
    process: Process,
    address: SocketAddr,
    _folder: Folder,
}

impl Prometheus {
    /// Starts it. It asks as the book says, but each second.
    fn start(gateways: &[&Gateway]) -> Prometheus {
        let targets: Vec<String> = gateways
            .iter()
            .map(|gateway| format!("\"{}\"", gateway.admin))
            .collect();
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
             scrape_configs:\n  - job_name: llm\n    basic_auth: {{ username: prometheus, password: {ADMIN_KEY} }}\n    \
             static_configs: [{{ targets: [{}] }}]\n",
            targets.join(", ")
        );
        let folder = Folder::new(&[("prometheus.yml", &config)]);
        let address = free_port();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", path("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", path("data")))
            .arg(format!("--web.listen-address={address}"));
        let mut process = Process::spawn(&mut command);
        let ready = || match process.exited() {
            Some(status) => panic!(
                "prometheus (apt-get install prometheus) ended with {status}: {}",
                process.stderr()
            ),
            None => get(address, "/-/ready")
                .filter(|answer| answer.0 == 200)
                .map(drop)
                .ok_or_else(|| "it is not ready".to_owned()),
        };
        eventually_blocking("Prometheus is ready", ready).expect("it is");
        Prometheus {
            process,
            address,
            _folder: folder,
        }
    }

    /// Returns the samples that a query gives now.
    fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (_, body) =
            get(self.address, &format!("/api/v1/query?query={escaped}")).ok_or("no answer")?;
        let answer: Value = serde_json::from_str(&body).map_err(|why| format!("{why}: {body}"))?;
        answer["data"]["result"]
            .as_array()
            .cloned()
            .ok_or_else(|| answer.to_string())
    }

    /// Waits until Prometheus has looked at each gateway twice more.
    async fn looks(&self) {
        let looked = || {
            let count = self.query("sum(count_over_time(up[1h]))").ok()?;
            count.first()?["value"][1].as_str()?.parse::<f64>().ok()
        };
        let before = eventually("Prometheus has looked", looked).await;
        eventually("Prometheus looks again", || {
            looked().filter(|now| *now >= before + 6.0)
        })
        .await;
    }
}

/// Asks by HTTP/1.0, so that the answer ends with its connection.
fn get(address: SocketAddr, target: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream
        .write_all(format!("GET {target} HTTP/1.0\r\nhost: {address}\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn catalog(mock: &Mock, claude: &Mock) -> Catalog {
    const PRICE: &str = "price: { input: 1000, output: 1000 }";
    Catalog::new()
        .account("good", mock)
        .account("bad", mock)
        .account("locked", mock)
        .account("quota", mock)
        .account("slow", mock)
        .account("fast", mock)
        .account("flaky", mock)
        .account("one", mock)
        .account("two", mock)
        .account_with("full", mock, "concurrency: 1")
        .account_with("claude", claude, "dialect: anthropic")
        .model_with("m", &["good"], PRICE)
        .model("unpriced", &["good=nobody-knows-this"])
        .model("cut", &["good"])
        .model("uncounted", &["good"])
        .model("broken", &["bad"])
        .model("flaky", &["flaky"])
        .model("locked", &["locked"])
        .model("quota", &["quota"])
        .model_with("narrow", &["full"], "queue: { length: 1, wait: 20s }")
        .model_with(
            "hedged",
            &["slow=slow", "fast=fast"],
            "hedge: { after: p50, at_most: 100% }",
        )
        .model("partly", &["one=partly", "two=partly"])
        .model("lossy", &["claude=claude-sonnet-4-5"])
        .caller("tight", TIGHT, "limits: { requests_per_day: 2 }")
}

/// Makes the mock fail for some models.
fn fail(mock: &Mock) {
    mock.on("broken", Script::error(500, "out of order"));
    mock.on("locked", Script::error(401, "who are you?"));
    mock.on("cut", Script::sse().words(0..2).close());
    mock.on(
        "uncounted",
        Script::sse().words(0..2).event(finish("stop")).done(),
    );
    mock.on(
        "quota",
        Script::answer("little is left")
            .with("x-ratelimit-limit-requests", "100")
            .with("x-ratelimit-remaining-requests", "2")
            .with("x-ratelimit-reset-requests", "10m0s"),
    );
    let flaky = std::sync::atomic::AtomicUsize::new(0);
    mock.on_by("flaky", move |_| {
        match flaky.fetch_add(1, std::sync::atomic::Ordering::AcqRel) % 3 {
            1 => Script::error(500, "out of order"),
            _ => Script::answer("ok"),
        }
    });
    let asked = std::sync::atomic::AtomicUsize::new(0);
    mock.on_by("partly", move |_| {
        match asked.fetch_add(1, std::sync::atomic::Ordering::AcqRel) % 5 {
            1 | 3 => Script::error(500, "out of order"),
            _ => Script::answer("ok"),
        }
    });
}

/// What goes wrong at the first gateway. It is called twice, since Prometheus sees a counter rise
/// only if it saw the counter before.
async fn much_goes_wrong(gateway: &Gateway, mock: &Mock) {
    for _ in 0..15 {
        gateway.post(&chat("m")).await;
        gateway.post(&chat_stream("m")).await;
        gateway.post(&chat("broken")).await;
        gateway.post(&chat_stream("cut")).await;
    }
    for model in ["unpriced", "locked", "quota"] {
        gateway.post(&chat(model)).await;
    }
    gateway.post(&chat_stream("uncounted")).await;
    for _ in 0..200 {
        gateway.post(&chat("partly")).await;
    }
    for _ in 0..30 {
        gateway.post(&chat("flaky")).await;
    }
    let mut lossy = chat("lossy");
    (lossy["seed"], lossy["max_tokens"]) = (json!(7), json!(5));
    gateway.post(&lossy).await;
    for _ in 0..3 {
        gateway.raw(post_as(TIGHT, &chat("m"))).await;
    }
    gateway.raw(post_as(OLD, &chat("m"))).await;
    // One is answered late, one waits, and one finds no place.
    let gate = Gate::new();
    mock.push(Script::new().wait(&gate).then_answer("late"));
    let (mut first, mut second) = (gateway.connect().await, gateway.connect().await);
    first
        .send(crate::support::client::post(&chat("narrow")))
        .await;
    eventually("it is asked", || {
        (gateway
            .metrics()
            .sum("portcullis_in_flight", &[("account", "full")])
            == 1.0)
            .then_some(())
    })
    .await;
    second
        .send(crate::support::client::post(&chat("narrow")))
        .await;
    eventually("it waits", || {
        (gateway
            .metrics()
            .sum("portcullis_waiting", &[("model", "narrow")])
            == 1.0)
            .then_some(())
    })
    .await;
    assert_eq!(gateway.post(&chat("narrow")).await.status, 503);
    tokio::time::sleep(Duration::from_millis(20)).await;
    gate.open();
    assert_eq!(
        (
            first.response().await.status,
            second.response().await.status
        ),
        (200, 200)
    );
    // A panic of the gateway.
    let bearer = format!("Bearer {}", crate::support::canary::KEY);
    let fields = [("authorization", bearer.as_str()), ("x-test-panic", "plan")];
    gateway
        .raw(request(
            "POST",
            "/v1/chat/completions",
            &fields,
            chat("m").to_string().as_bytes(),
        ))
        .await;
}

/// A request whose first account is slow as it never was, so that a second one is asked.
async fn hedge(gateway: &Gateway, mock: &Mock) {
    mock.on_by("slow", crate::support::mock::natural);
    for _ in 0..20 {
        gateway.post(&chat_stream("hedged")).await;
    }
    mock.on("slow", Script::silent());
    assert_eq!(gateway.post(&chat_stream("hedged")).await.status, 200);
}

#[test]
fn a_real_prometheus_has_samples_for_every_query() {
    run_within(Duration::from_secs(240), async {
        let (mock, claude, mut redis, ca) = (
            Mock::start().await,
            Mock::start().await,
            Redis::start(),
            Ca::new(),
        );
        fail(&mock);
        claude.always(Script::json(
            200,
            &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": "Bonjour"}], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": {"input_tokens": 9, "output_tokens": 2}}),
        ));
        let rotating = format!(
            "callers: {{ rotating: {{ keys: {{ prod: {{ hashes: [{{ hash: \"{}\" }}, {{ hash: \"{}\", until: 2099-01-01T00:00:00Z }}] }} }} }} }}",
            hash(NEW),
            hash(OLD)
        );
        let leaf = ca.leaf();
        let one = Gateway::with(catalog(&mock, &claude))
            .file("catalog.d/rotating.yaml", rotating)
            .file("tls/cert.pem", &leaf.cert)
            .file("tls/key.pem", &leaf.key)
            .also_listen("tls: { cert: tls/cert.pem, key: tls/key.pem }")
            .server(
                "admin: { address: \"{admin}\", key: { env: ADMIN_KEY } }\nstore: { redis: { env: REDIS_URL } }\n\
                     traces: { endpoint: \"http://127.0.0.1:9\" }",
            )
            .env("ADMIN_KEY", ADMIN_KEY)
            .env("REDIS_URL", redis.url())
            .upstream(redis.port)
            .start()
            .await;
        let broken = Folder::new(&[("ledger.sqlite", "no database, but longer than nothing")]);
        let path = broken.path().join("ledger.sqlite");
        let two = Gateway::with(Catalog::over(&mock))
            .server(&format!(
                "admin: {{ address: \"{{admin}}\", key: {{ env: ADMIN_KEY }} }}\nledger: {{ path: {path:?} }}"
            ))
            .env("ADMIN_KEY", ADMIN_KEY)
            .start()
            .await;
        let prometheus = Prometheus::start(&[&one, &two]);
        // Before anything happens each query is answered, too: with nothing, or with zero.
        prometheus.looks().await;
        for (panel, query) in queries() {
            prometheus
                .query(&query)
                .unwrap_or_else(|why| panic!("{panel}: {query}: {why}"));
        }
        for round in 0..2 {
            if round == 1 {
                // Those that rest or whose breaker is open are asked again.
                ["locked", "bad", "full"]
                    .iter()
                    .for_each(|account| one.reset(account));
            }
            much_goes_wrong(&one, &mock).await;
            hedge(&one, &mock).await;
            two.post(&chat("m")).await;
            prometheus.looks().await;
        }
        let names: Vec<String> = one
            .metrics()
            .0
            .lines()
            .filter_map(|line| line.split([' ', '{']).next().map(str::to_owned))
            .collect();
        let ends = one.metrics().sum(
            "portcullis_certificate_expiry_seconds",
            &[("listener", &one.listeners[1].to_string())],
        );
        assert!(ends > 1.9e9, "{ends}");
        let good = std::fs::read_to_string(one.conf.join("catalog.yaml")).unwrap();
        one.write_catalog("accounts: [");
        redis.kill();
        one.raw(post_as(TIGHT, &chat("m"))).await;
        prometheus.looks().await;
        // Rates and problems need some more looks, and a problem lasts before it is one.
        let began = Instant::now();
        let mut missing = Vec::new();
        while began.elapsed() < Duration::from_secs(60) * SLOWER {
            missing = missing_of(&prometheus, &names);
            if missing.is_empty() {
                break;
            }
            // What is left of a quota fills up again, and failures must not be too few.
            one.post(&chat("quota")).await;
            for _ in 0..10 {
                one.post(&chat("flaky")).await;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!(missing.is_empty(), "{}", missing.join("\n"));
        drop(prometheus);
        one.write_catalog(good);
        std::fs::remove_file(&path).unwrap();
        two.logged("can be written again").await;
    });
}

/// Returns what has no samples: queries of panels, series of alerts, and alerts that should fire.
fn missing_of(prometheus: &Prometheus, names: &[String]) -> Vec<String> {
    let mut missing = Vec::new();
    let mut ask = |what: &str, query: &str| match prometheus.query(query) {
        Ok(samples) if !samples.is_empty() => {}
        Ok(_) => missing.push(format!("{what}: no samples of {query}")),
        Err(why) => missing.push(format!("{what}: {query}: {why}")),
    };
    for (panel, query) in queries() {
        ask(&panel, &query);
    }
    for alert in alerts() {
        if FIRING.contains(&&*alert.name) {
            ask(&alert.name, &alert.query);
        }
        for selector in selectors(&alert.query) {
            // What its braces ask for may not have happened.
            ask(&alert.name, &selector.name);
        }
    }
    let of_queries = queries()
        .into_iter()
        .chain(alerts().into_iter().map(|alert| (alert.name, alert.query)));
    for (what, query) in of_queries {
        for selector in selectors(&query) {
            if selector.name != "up" && !names.contains(&selector.name) {
                missing.push(format!("{what}: /metrics has no {}", selector.name));
            }
        }
    }
    missing
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.signal("KILL");
    }
}
