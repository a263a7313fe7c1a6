//! Reloads: the catalog is edited, well and badly, while it serves. It is section F of the fault
//! table.
//!
//! `owned_by` of the model `m` in `/v1/models` shows which catalog serves, because changing it
//! takes nothing away.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::canary::{self, KEY};
use crate::support::client::{self, Connection, End};
use crate::support::clock::FILES;
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat, chat_stream, eventually, join_all, run,
    run_within, spawn,
};

/// A file that is written in place must stand still so long before it is taken.
const SETTLE: Duration = Duration::from_millis(500);

/// Model `m` on account `a`, recognisable.
fn stamped(mock: &Mock, stamp: &str) -> Catalog {
    Catalog::new()
        .account("a", mock)
        .model_with("m", &["a"], &format!("owned_by: {stamp}"))
}

/// The stamp of the catalog that serves now.
async fn stamp(gateway: &Gateway) -> String {
    let list = gateway.get("/v1/models").await;
    assert_eq!(list.status, 200, "{}", list.text());
    let list = list.json();
    let model = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|model| model["id"] == "m")
        .unwrap()
        .clone();
    model["owned_by"].as_str().unwrap().to_owned()
}

async fn becomes(gateway: &Gateway, wanted: &str) {
    let start = Instant::now();
    while stamp(gateway).await != wanted {
        assert!(
            start.elapsed() < PATIENCE,
            "{wanted} never served; /status: {:#}",
            gateway.status()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn refusals(gateway: &Gateway) -> usize {
    gateway
        .metrics()
        .sum("portcullis_catalog_refusals_total", &[]) as usize
}

async fn refused(gateway: &Gateway, how_many: usize) -> String {
    eventually("the refusal", || {
        (refusals(gateway) >= how_many).then_some(())
    })
    .await;
    let refusal = gateway.status()["catalog"]["last_refusal"].clone();
    assert_eq!(refusal["standing"], true, "{refusal:#}");
    refusal["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| reason.as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn f01_a_broken_catalog_is_refused_whole() {
    const REST: &str = "models: {}\ncallers: {}\n";
    let cases: &[(&[u8], &str, &[&str])] = &[
        (b"accounts: [\nmodels: {}\n", "", &["catalog.yaml:"]),
        (b"accounts: {}\nmodels: { m: { targets: [{ account: a }], wieght: 1 } }\ncallers: {}\n", "", &["catalog.yaml:2", "models.m.…: unknown field", "(column 43)"]),
        (b"accounts: { claude: { dialect: demo } }\nmodels: { m: { targets: [{ account: claud }] } }\ncallers: {}\n", "", &["catalog.yaml:2", "models.m.targets[0].account", "claud", "did you mean \"claude\"?"]),
        (b"accounts: {}\nmodels: {}\ncallers: {}\naccounts: {}\n", "", &["catalog.yaml:4", "accounts"]),
        (b"accounts:\n  a: { dialect: demo }\n  a: { dialect: demo }\nmodels: {}\ncallers: {}\n", "", &["catalog.yaml:3", "accounts.a"]),
        (b"accounts: { a: { dialect: demo } }\nmodels: {}\ncallers: {}\n", "accounts: { a: { dialect: demo } }\n", &["catalog.d/x.yaml:1", "accounts.a", "catalog.yaml"]),
        (b"accounts: { a: { dialect: demo } }\nmodels: { m: { targets: [{ account: a }] }, n: { aliases: [m], targets: [{ account: a }] } }\ncallers: {}\n", "", &["catalog.yaml:2", "models.n.aliases[0]"]),
        (b"accounts:\nmodels: {}\ncallers: {}\n", "", &["catalog.yaml:1", "accounts"]),
        (b"accounts: {}\nmodels: {}\n", "", &["catalog.yaml", "callers"]),
        (b"", "", &["catalog.yaml"]),
        (b"\xef\xbb\xbfaccounts: {}\nmodels: {}\ncallers: {}\n", "", &["catalog.yaml:1", "byte-order mark"]),
        (b"accounts: {}\n# \xff\nmodels: {}\ncallers: {}\n", "", &["catalog.yaml:2", "UTF-8"]),
        (b"accounts: { a: { dialect: demo, enabled: maybe }, b: { dialect: demon } }\nmodels: {}\ncallers: {}\n", "", &["accounts.a.enabled", "accounts.b.dialect"]),
    ];
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(stamped(&mock, "old"))
            .file("catalog.d/x.yaml", REST)
            .start()
            .await;
        for (number, (text, beside, says)) in cases.iter().enumerate() {
            std::fs::write(gateway.conf.join("catalog.d/x.yaml"), beside_or(beside)).unwrap();
            std::fs::write(gateway.conf.join("catalog.yaml"), text).unwrap();
            let reasons = refused(&gateway, number + 1).await;
            for word in *says {
                assert!(reasons.contains(word), "no {word:?} in {reasons}");
            }
            let errors = || {
                gateway
                    .log()
                    .lines()
                    .filter(|line| line.contains("\"level\":\"error\""))
                    .map(ToOwned::to_owned)
                    .collect::<Vec<_>>()
            };
            eventually("the ERROR", || (errors().len() > number).then_some(())).await;
            let errors = errors();
            assert_eq!(errors.len(), number + 1, "one ERROR each: {errors:#?}");
            let escaped = serde_json::to_string(reasons.lines().next().unwrap()).unwrap();
            assert!(
                errors[number].contains(escaped.trim_matches('"')),
                "{} does not say {reasons}",
                errors[number]
            );
            assert_eq!(gateway.metrics().sum("portcullis_reload_failed", &[]), 1.0);
            assert_eq!(gateway.generation(), 1);
            assert_eq!(stamp(&gateway).await, "old");
        }
        gateway.swap(stamped(&mock, "new")).await;
        assert_eq!(stamp(&gateway).await, "new");
        assert_eq!(gateway.metrics().sum("portcullis_reload_failed", &[]), 0.0);
        assert_eq!(
            (
                gateway.generation(),
                gateway.status()["catalog"]["last_refusal"]["standing"].clone()
            ),
            (2, Value::Bool(false))
        );
    });

    fn beside_or(text: &str) -> &str {
        if text.is_empty() { REST } else { text }
    }
}

#[test]
fn f02_a_half_written_file_is_never_taken() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(stamped(&mock, "s0")).await;
        // Cut in the middle of a word, and where the half is a catalog too.
        let (mut generation, mut round) = (1, 0);
        while generation < 5 {
            round += 1;
            assert!(
                round < 20,
                "this machine pauses for longer than it is asked to"
            );
            let stamp = format!("s{round}");
            let text = stamped(&mock, &stamp).to_string();
            let (half, rest) = match round % 2 {
                0 => text.split_at(text.len() / 2),
                _ => (text.as_str(), "  late: { keys: {} }\n"),
            };
            let path = gateway.conf.join("catalog.yaml");
            let start = Instant::now();
            std::fs::write(&path, half).unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, rest.as_bytes()).unwrap();
            // Whoever holds it open may go on.
            drop(file);
            let in_time = start.elapsed() < SETTLE - Duration::from_millis(50);
            becomes(&gateway, &stamp).await;
            if !in_time {
                // The half stood still for too long to be one; begin anew.
                eventually("the whole is taken", || {
                    (gateway.status()["catalog"]["callers"] == 1 + round % 2).then_some(())
                })
                .await;
                generation = gateway.generation();
                continue;
            }
            generation += 1;
            assert_eq!(
                (gateway.generation(), refusals(&gateway)),
                (generation, 0),
                "round {round}"
            );
            assert_eq!(
                gateway.status()["catalog"]["callers"],
                1 + round % 2,
                "the half was not taken"
            );
        }
    });
}

#[test]
fn f04_a_saved_files_final_content_is_taken_once() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(stamped(&mock, "s")).await;
        let path = gateway.conf.join("catalog.yaml");
        let start = Instant::now();
        for n in 0..100 {
            gateway.write_catalog(stamped(&mock, &format!("renamed{n}")));
        }
        let burst = start.elapsed();
        becomes(&gateway, "renamed99").await;
        let mut generation = gateway.generation();
        // What was renamed into place, and is still there 0.1 s later, is whole.
        assert!(
            generation == 2 || burst > Duration::from_millis(100),
            "{generation} catalogs of one burst of {burst:?}"
        );

        type Save = fn(&Path, &str);
        let editor: Save = |path, text| {
            std::fs::rename(path, path.with_extension("yaml~")).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let rename: Save = |path, text| {
            std::fs::write(path.with_file_name(".catalog.yaml.swp"), text).unwrap();
            std::fs::rename(path.with_file_name(".catalog.yaml.swp"), path).unwrap();
        };
        let saves: [(&str, Save); 4] = [
            ("editor1", editor),
            ("inplace", |path, text| std::fs::write(path, text).unwrap()),
            ("rename", rename),
            ("editor2", editor),
        ];
        for (kind, save) in saves {
            // By itself the gateway looks every three seconds, and finds one change so long after
            // the one before. The machine may stand still during some of them.
            let mut times = Vec::new();
            for round in 0..3 {
                let start = Instant::now();
                let stamp = format!("{kind}-{round}");
                let text = stamped(&mock, &stamp).to_string();
                save(&path, &text);
                becomes(&gateway, &stamp).await;
                times.push(start.elapsed());
                generation += 1;
                assert_eq!(gateway.generation(), generation, "{stamp}");
                // The same content once more is no change.
                save(&path, &text);
            }
            times.sort_unstable();
            assert!(
                times[1] < Duration::from_millis(2_500),
                "{kind} took {times:?}"
            );
        }
        assert_eq!(refusals(&gateway), 0);
    });
}

#[test]
fn f05_a_mounted_config_map_is_followed() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(stamped(&mock, "s")).await;
        let conf = gateway.conf.clone();
        let swap = |n: usize| {
            let fresh = conf.join(format!("..v{n}"));
            std::fs::create_dir(&fresh).unwrap();
            std::fs::write(
                fresh.join("catalog.yaml"),
                stamped(&mock, &format!("v{n}")).to_string(),
            )
            .unwrap();
            std::os::unix::fs::symlink(format!("..v{n}"), conf.join("..data_tmp")).unwrap();
            let old = std::fs::read_link(conf.join("..data")).ok();
            std::fs::rename(conf.join("..data_tmp"), conf.join("..data")).unwrap();
            if let Some(old) = old {
                std::fs::remove_dir_all(conf.join(old)).unwrap();
            }
        };
        swap(0);
        std::os::unix::fs::symlink("..data/catalog.yaml", conf.join("link")).unwrap();
        std::fs::rename(conf.join("link"), conf.join("catalog.yaml")).unwrap();
        becomes(&gateway, "v0").await;
        // The first fast, as one change; then with pauses.
        (1..=97).for_each(swap);
        becomes(&gateway, "v97").await;
        for n in 98..=100 {
            swap(n);
            becomes(&gateway, &format!("v{n}")).await;
        }
        assert_eq!(refusals(&gateway), 0);
    });
}

#[test]
fn f06_files_and_folders_that_come_back_are_found() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(stamped(&mock, "s0")).await;
        let path = gateway.conf.join("catalog.yaml");

        std::fs::remove_file(&path).unwrap();
        let reasons = refused(&gateway, 1).await;
        assert!(
            reasons.contains("catalog.yaml") && reasons.contains("does not exist"),
            "{reasons}"
        );
        assert_eq!(stamp(&gateway).await, "s0");
        // As it was: nothing to take, but nothing is wrong any more.
        gateway.write_catalog(stamped(&mock, "s0"));
        eventually("all is well", || {
            (gateway.metrics().sum("portcullis_reload_failed", &[]) == 0.0).then_some(())
        })
        .await;
        assert_eq!(gateway.generation(), 1);

        let away = gateway.conf.with_extension("away");
        std::fs::rename(&gateway.conf, &away).unwrap();
        refused(&gateway, 2).await;
        assert_eq!(stamp(&gateway).await, "s0");
        std::fs::create_dir(&gateway.conf).unwrap();
        gateway.write_catalog(stamped(&mock, "s1"));
        becomes(&gateway, "s1").await;
        // The new folder is watched as the old one was.
        gateway.swap(stamped(&mock, "s2")).await;

        // What cannot be read, whoever we run as: a folder in the file's place.
        std::fs::rename(&path, gateway.conf.join("aside")).unwrap();
        std::fs::create_dir(&path).unwrap();
        refused(&gateway, 3).await;
        assert_eq!(stamp(&gateway).await, "s2");
        std::fs::remove_dir(&path).unwrap();
        gateway.write_catalog(stamped(&mock, "s3"));
        becomes(&gateway, "s3").await;

        let permit = |mode| {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode))
                .unwrap()
        };
        permit(0o000);
        // Root may read it all the same.
        if std::fs::File::open(&path).is_err() {
            refused(&gateway, 4).await;
            assert_eq!(stamp(&gateway).await, "s3");
        }
        permit(0o600);
        gateway.swap(stamped(&mock, "s4")).await;
        assert_eq!(stamp(&gateway).await, "s4");
    });
}

/// Callers that ask without a pause, until they are told to stop.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    callers: Vec<tokio::task::JoinHandle<Seen>>,
}

/// What one caller saw.
#[derive(Default)]
struct Seen {
    answers: usize,
    wrong: Vec<String>,
    slowest: Duration,
}

impl Load {
    /// `ask` sends one request and says what is wrong with the answer.
    pub(super) fn start<F: Future<Output = Result<(), String>> + Send>(
        callers: usize,
        ask: impl Fn(usize) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let callers = (0..callers).map(|caller| {
            let (stop, ask) = (stop.clone(), ask.clone());
            spawn(async move {
                let mut seen = Seen::default();
                while !stop.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    seen.wrong.extend(ask(caller).await.err());
                    seen.answers += 1;
                    seen.slowest = seen.slowest.max(start.elapsed());
                }
                seen
            })
        });
        let callers = callers.collect();
        Load { stop, callers }
    }

    /// How many answers there were, and the slowest; none may have been wrong.
    pub(super) async fn end(self) -> (usize, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut answers, mut slowest) = (0, Duration::ZERO);
        for caller in self.callers {
            let seen = caller.await.expect("a caller");
            assert!(
                seen.wrong.is_empty(),
                "{} wrong of {}: {:#?}",
                seen.wrong.len(),
                seen.answers,
                seen.wrong.iter().take(5).collect::<Vec<_>>()
            );
            answers += seen.answers;
            slowest = slowest.max(seen.slowest);
        }
        (answers, slowest)
    }
}

/// One request on a connection of its own, every third one a stream.
pub(super) async fn ask(address: std::net::SocketAddr, caller: usize) -> Result<(), String> {
    let mut connection = Connection::plain(address, None).await;
    let stream = caller.is_multiple_of(3);
    let body = if stream { chat_stream("m") } else { chat("m") };
    connection.send(client::post(&body)).await;
    let answer = connection.try_response("POST").await.ok_or("no answer")?;
    let whole = if stream {
        answer.text().ends_with("data: [DONE]\n\n")
    } else {
        answer.end == Some(End::Whole)
    };
    let said = answer.status == 200
        && answer.content()
            == if stream {
                "w0 w1 w2 "
            } else {
                "Hello from the mock."
            };
    (said && whole)
        .then_some(())
        .ok_or_else(|| format!("{}: {}", answer.status, answer.text()))
}

/// Two targets of one version, the first of which always fails: each exchange tries both, of the
/// same catalog.
pub(super) fn pair(first: &Mock, second: &Mock, version: usize) -> Catalog {
    let targets = [format!("a=v{version}"), format!("b=v{version}")];
    let targets: Vec<_> = targets.iter().map(String::as_str).collect();
    Catalog::new()
        .account("a", first)
        .account("b", second)
        .model_with("m", &targets, "")
}

#[test]
fn f07_reloads_under_load_lose_and_mix_nothing() {
    // The files are what the paths are about, and not how many reloads there are.
    let last = if module_path!().contains("relative") {
        10
    } else {
        50
    };
    run_within(Duration::from_secs(150), async {
        let (failing, good) = (Mock::start().await, Mock::start().await);
        failing.always(Script::error(500, "out of order"));
        let gateway = Gateway::start(pair(&failing, &good, 0)).await;
        let address = gateway.address;
        let load = Load::start(6, move |caller| ask(address, caller));
        // What a warm process holds.
        gateway.swap(pair(&failing, &good, 1)).await;
        gateway.swap(pair(&failing, &good, 2)).await;
        let rss = gateway.rss();
        for version in 3..=last {
            gateway.swap(pair(&failing, &good, version)).await;
            // Whoever comes later asks both, until a breaker opens.
            let model = format!("v{version}");
            let is_asked = || {
                failing
                    .requests()
                    .iter()
                    .rev()
                    .any(|one| one.model() == model)
            };
            eventually("the load is at both", || is_asked().then_some(())).await;
        }
        let (answers, _) = load.end().await;
        assert!(answers > 10 * last, "{answers} answers are no load");
        assert_eq!(gateway.generation(), last as u64 + 1);
        let growth = gateway.rss().saturating_sub(rss);
        assert!(
            growth < 24 << 20,
            "{} MiB more after {last} reloads",
            growth >> 20
        );
        let mut versions = BTreeSet::new();
        for line in gateway.access_lines(answers).await {
            let tried: Vec<_> = line["attempts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tried| tried["model"].clone())
                .collect();
            assert!(
                tried.iter().all(|version| *version == tried[0]),
                "one exchange, one catalog: {line}"
            );
            // Once its breaker is open, the first is asked no more.
            if tried.len() == 2 {
                versions.insert(tried[0].to_string());
            }
        }
        assert!(
            versions.len() > last - 5,
            "the load saw both of {versions:?}"
        );
    });
}

#[test]
fn f08_a_removed_account_ends_its_streams_only() {
    run(async {
        let (old, new, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        old.push(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .words(1..3)
                .event(crate::support::script::finish("stop"))
                .done(),
        );
        let catalog = |accounts: &[(&str, &Mock)]| {
            let with = accounts.iter().fold(
                Catalog::new().account("k1", &new).account("k2", &new),
                |catalog, (id, mock)| catalog.account(id, mock),
            );
            let ids: Vec<_> = accounts.iter().map(|(id, _)| *id).collect();
            with.model("m", &ids)
        };
        let gateway = Gateway::start(catalog(&[("old", &old), ("new", &new)])).await;
        let (mut connection, mut head) = gateway.open(&chat_stream("m")).await;
        connection.event(&mut head).await.unwrap();
        gateway.swap(catalog(&[("new", &new)])).await;
        assert_eq!(
            gateway.post(&chat("m")).await.content(),
            "Hello from the mock."
        );
        assert_eq!(
            (old.count(), new.count()),
            (1, 1),
            "the removed one was asked again"
        );
        // Its caller has an answer a moment before it is settled.
        eventually("only the stream is left", || {
            (gateway.status()["exchanges"] == 1).then_some(())
        })
        .await;
        gate.open();
        connection.rest(&mut head).await;
        assert_eq!(
            (head.content().as_str(), head.end),
            ("w0 w1 w2 ", Some(End::Whole))
        );
        let lines = gateway.access_lines(2).await;
        assert!(
            lines
                .iter()
                .any(|line| line["account"] == "old" && line["outcome"] == "ok"),
            "{lines:#?}"
        );
        // Its connections go with it, and the readings of it. Its counters stay for an hour.
        eventually("the connection to the removed account is closed", || {
            (old.open() == 0).then_some(())
        })
        .await;
        assert!(
            !gateway
                .metrics()
                .0
                .contains("portcullis_in_flight{account=\"old\"}")
        );
    });
}

#[test]
fn an_account_put_back_keeps_its_cap() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.push(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .event(crate::support::script::finish("stop"))
                .done(),
        );
        let without = || {
            Catalog::new()
                .account("b", &mock)
                .account("c", &mock)
                .model("n", &["b"])
        };
        let with = || {
            without()
                .account_with("a", &mock, "concurrency: 1")
                .model("m", &["a"])
        };
        let gateway = Gateway::start(with()).await;
        let (mut connection, mut head) = gateway.open(&chat_stream("m")).await;
        gateway.swap(without()).await;
        gateway.swap(with()).await;
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_in_flight", &[("account", "a")]),
            1.0
        );
        gateway.post(&chat("m")).await.is_error(503, "no_capacity");
        gate.open();
        connection.rest(&mut head).await;
        gateway.idle().await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
    });
}

#[test]
fn f10_a_revoked_caller_finishes_its_stream() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let other = "sk-CaNaRy-caller-other";
        for (what, revoked) in [
            (
                "disabled",
                Catalog::over(&mock).caller("beta", other, "enabled: false"),
            ),
            (
                "expired",
                Catalog::over(&mock).caller("beta", other, "expires: 2020-01-01T00:00:00Z"),
            ),
            (
                "rotated",
                Catalog::over(&mock).caller("beta", "sk-CaNaRy-caller-rotated", ""),
            ),
            ("removed", Catalog::over(&mock)),
        ] {
            mock.push(
                Script::sse()
                    .words(0..1)
                    .wait(&gate)
                    .event(crate::support::script::finish("stop"))
                    .done(),
            );
            let gateway = Gateway::start(Catalog::over(&mock).caller("beta", other, "")).await;
            let mut connection = gateway.connect().await;
            connection
                .send(client::post_as(other, &chat_stream("m")))
                .await;
            let mut head = connection.head().await.unwrap();
            connection.event(&mut head).await.unwrap();
            gateway.swap(revoked).await;
            gateway
                .raw(client::post_as(other, &chat("m")))
                .await
                .is_error(401, "invalid_api_key");
            assert_eq!(gateway.get("/v1/models").await.status, 200);
            gate.open();
            connection.rest(&mut head).await;
            assert_eq!(
                (head.events().last().map(String::as_str), head.end),
                (Some("[DONE]"), Some(End::Whole)),
                "{what}"
            );
            assert_eq!(head.content(), "w0 ", "{what}");
            // Not on the old connection either.
            connection.send(client::post_as(other, &chat("m"))).await;
            connection.response().await.is_error(401, "invalid_api_key");
        }
    });
}

#[test]
fn f11_a_reload_that_races_sigterm_ends_cleanly() {
    run(async {
        let waits = [0, 100, 150, 180, 210, 250];
        join_all(waits.map(async |wait| {
            let mock = Mock::start().await;
            let mut gateway = Gateway::start(stamped(&mock, "s0")).await;
            let (mut connection, mut head) = {
                mock.push(
                    Script::sse()
                        .words(0..1)
                        .event(crate::support::script::finish("stop"))
                        .done(),
                );
                gateway.open(&chat_stream("m")).await
            };
            gateway.write_catalog(stamped(&mock, "s1"));
            // Around the moment at which the change is taken.
            tokio::time::sleep(Duration::from_millis(wait)).await;
            gateway.signal("TERM");
            connection.rest(&mut head).await;
            assert_eq!(head.end, Some(End::Whole));
            assert_eq!(gateway.exit(PATIENCE).code(), Some(0), "after {wait} ms");
            assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
        }))
        .await;
    });
}

#[test]
fn f12_a_large_loss_is_held_for_five_seconds() {
    run(async {
        let mock = Mock::start().await;
        let accounts = |ids: &[&str]| {
            ids.iter()
                .fold(Catalog::new(), |catalog, id| catalog.account(id, &mock))
                .model_with("m", &["a"], "owned_by: now")
        };
        let models = |ids: &[&str]| {
            ids.iter()
                .fold(Catalog::new().account("a", &mock), |catalog, id| {
                    catalog.model(id, &["a"])
                })
                .model_with("m", &["a"], "owned_by: now")
        };
        let callers = |ids: &[&str]| {
            ids.iter().fold(stamped(&mock, "now"), |catalog, id| {
                catalog.caller(id, &format!("sk-CaNaRy-caller-{id}"), "")
            })
        };
        let cases = [
            (
                accounts(&["a", "b", "c"]),
                accounts(&["a"]),
                "2 of 3 accounts",
            ),
            (models(&["m1", "m2"]), models(&[]), "2 of 3 models"),
            (callers(&["x", "y"]), callers(&[]), "2 of 3 callers"),
        ];
        let mut started = Vec::new();
        for (before, after, loss) in cases {
            started.push((Gateway::start(before).await, after, loss));
        }
        let mut held = Vec::new();
        for (gateway, after, loss) in started {
            gateway.hold_clock();
            gateway.write_catalog(&after);
            eventually("it is held", || {
                gateway.status()["catalog"]["held"]
                    .as_str()
                    .is_some_and(|held| held.contains(loss))
                    .then_some(())
            })
            .await;
            assert_eq!(
                (gateway.generation(), stamp(&gateway).await.as_str()),
                (1, "now")
            );
            held.push((gateway, loss));
        }
        for (gateway, loss) in &held {
            gateway.advance(Duration::from_millis(4_900)).await;
            gateway.round(FILES).await;
            assert_eq!(gateway.generation(), 1, "{loss}");
            gateway.advance(Duration::from_millis(100)).await;
            eventually("it is taken", || (gateway.generation() == 2).then_some(())).await;
            assert_eq!(
                gateway
                    .metrics()
                    .sum("portcullis_catalog_shrunk_total", &[]),
                1.0
            );
            assert_eq!(gateway.status()["catalog"]["held"], Value::Null);
            // One line when it is held, one when it is taken.
            let loud = || {
                gateway
                    .log()
                    .lines()
                    .filter(|line| line.contains("\"level\":\"warn\"") && line.contains(loss))
                    .count()
            };
            eventually("two loud lines", || (loud() >= 2).then_some(())).await;
            assert_eq!(loud(), 2, "{}", gateway.log());
        }
    });
}

#[test]
fn f12_a_held_change_that_is_undone_is_forgotten() {
    run(async {
        let mock = Mock::start().await;
        let two = stamped(&mock, "now").model("n", &["a"]).model("o", &["a"]);
        let gateway = Gateway::start(&two).await;
        gateway.hold_clock();
        gateway.write_catalog(stamped(&mock, "less"));
        eventually("it is held", || {
            gateway.status()["catalog"]["held"].as_str().map(drop)
        })
        .await;
        gateway.write_catalog(&two);
        eventually("it is forgotten", || {
            (gateway.status()["catalog"]["held"] == Value::Null).then_some(())
        })
        .await;
        // Half and no more is an ordinary change.
        gateway
            .swap(stamped(&mock, "half").model("n", &["a"]))
            .await;
        assert_eq!(
            (
                gateway.generation(),
                gateway
                    .metrics()
                    .sum("portcullis_catalog_shrunk_total", &[])
            ),
            (2, 0.0)
        );
    });
}

#[test]
fn f14_hostile_files_are_refused_quickly_and_block_nobody() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(stamped(&mock, "old")).await;
        let address = gateway.address;
        let bomb = (1..12).fold("l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
            let last = n - 1;
            text + &format!(
                "l{n}: &l{n} [*l{last}, *l{last}, *l{last}, *l{last}, *l{last}, *l{last}, *l{last}, *l{last}, *l{last}, *l{last}]\n"
            )
        });
        let cases = [
            (
                "50 MB",
                format!("{}# {}\n", stamped(&mock, "new"), "x".repeat(50 << 20)),
            ),
            ("alias bomb", format!("{bomb}{}", stamped(&mock, "new"))),
            (
                "5,000 deep",
                format!(
                    "accounts: {}{}\nmodels: {{}}\ncallers: {{}}\n",
                    "[".repeat(5_000),
                    "]".repeat(5_000)
                ),
            ),
            (
                "1,000 deep in block style",
                (0..1_000).fold(String::new(), |text, depth| {
                    text + &" ".repeat(depth) + "a:\n"
                }),
            ),
        ];
        for (number, (what, text)) in cases.iter().enumerate() {
            let load = Load::start(2, move |_| ask(address, 1));
            gateway.write_catalog(text);
            // What grows with the square, or with the bomb, takes minutes, or the whole memory.
            refused(&gateway, number + 1).await;
            let (_, slowest) = load.end().await;
            assert!(
                slowest < PATIENCE,
                "{what}: the slowest answer took {slowest:?}"
            );
            assert_eq!(stamp(&gateway).await, "old");
        }
        gateway.swap(stamped(&mock, "new")).await;
    });
}

#[test]
fn files_in_a_new_catalog_d_are_merged_live() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(Catalog::over(&mock)).await;
        let mine = "sk-CaNaRy-caller-mine";
        let file = |key: &str| {
            format!(
                "callers: {{ acme: {{ keys: {{ second: {{ hash: \"{}\" }} }} }} }}\nmodels: {{ n: {{ targets: [{{ account: a }}] }} }}\n",
                canary::hash(key)
            )
        };
        let write = |name: &str, text: &str| {
            let folder = gateway.conf.join("catalog.d");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), text).unwrap();
        };
        gateway
            .raw(client::post_as(mine, &chat("n")))
            .await
            .is_error(401, "invalid_api_key");
        write("10-more.yaml", &file(mine));
        eventually("it is merged", || (gateway.generation() == 2).then_some(())).await;
        // A caller's keys may be spread over files.
        assert_eq!(
            gateway.raw(client::post_as(mine, &chat("n"))).await.status,
            200
        );
        assert_eq!(gateway.post(&chat("n")).await.status, 200);
        assert_eq!(gateway.access_lines(3).await[1]["key"], "acme/second");

        // Neither dotfiles nor other endings count.
        write(".hidden.yaml", "nonsense: [");
        write("20-notes.yml", "nonsense: [");
        write("10-more.yaml", &file(KEY).replace("second", "third"));
        let reasons = refused(&gateway, 1).await;
        assert!(reasons.contains("catalog.d/10-more.yaml:1"), "{reasons}");
        std::fs::remove_file(gateway.conf.join("catalog.d/10-more.yaml")).unwrap();
        eventually("it is gone", || (gateway.generation() == 3).then_some(())).await;
        gateway
            .raw(client::post_as(mine, &chat("n")))
            .await
            .is_error(401, "invalid_api_key");
        gateway
            .post(&chat("n"))
            .await
            .is_error(404, "model_not_found");
    });
}

#[test]
fn a_rotated_account_key_never_meets_an_old_connection() {
    run(async {
        let mock = Mock::start().await;
        let by_file = |mock: &Mock| {
            Catalog::new()
                .account_with("a", mock, "key: { file: secrets/upstream }")
                .model("m", &["a"])
        };
        let gateway = Gateway::with(by_file(&mock))
            .file("secrets/upstream", "sk-CaNaRy-account-one\n")
            .start()
            .await;
        let sent = |number: usize| {
            mock.requests()[number]
                .field("authorization")
                .unwrap()
                .to_owned()
        };
        for _ in 0..2 {
            gateway.post(&chat("m")).await;
        }
        assert_eq!(
            (sent(1).as_str(), mock.connections()),
            ("Bearer sk-CaNaRy-account-one", 1)
        );
        // As kubernetes and careful people do, and the file's folder is not the catalog's.
        let secret = gateway.conf.join("secrets/upstream");
        std::fs::write(secret.with_extension("new"), "sk-CaNaRy-account-two").unwrap();
        std::fs::rename(secret.with_extension("new"), &secret).unwrap();
        eventually("the new key is live", || {
            (gateway.generation() == 2).then_some(())
        })
        .await;
        for _ in 0..2 {
            gateway.post(&chat("m")).await;
        }
        assert_eq!(
            (sent(3).as_str(), mock.connections()),
            ("Bearer sk-CaNaRy-account-two", 2)
        );
        // The connection of the old key is closed, not kept.
        eventually("the old connection is closed", || {
            (mock.open() == 1).then_some(())
        })
        .await;

        // An empty secret is refused, and the old one stays in use.
        std::fs::write(&secret, "\n").unwrap();
        let reasons = refused(&gateway, 1).await;
        assert!(reasons.contains("accounts.a.key"), "{reasons}");
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!(sent(4), "Bearer sk-CaNaRy-account-two");
        std::fs::remove_file(&secret).unwrap();
        refused(&gateway, 2).await;
        // What mends it is a file that was not there.
        std::fs::write(&secret, "sk-CaNaRy-account-three\r\n").unwrap();
        eventually("the third key is live", || {
            (gateway.generation() == 3).then_some(())
        })
        .await;
        gateway.post(&chat("m")).await;
        assert_eq!(sent(5), "Bearer sk-CaNaRy-account-three");
    });
}

#[test]
fn an_account_key_comes_from_the_environment() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new()
            .account_with("a", &mock, "key: { env: UPSTREAM_KEY }")
            .model("m", &["a"]);
        let gateway = Gateway::with(catalog)
            .env("UPSTREAM_KEY", "sk-CaNaRy-account-env")
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!(
            mock.request(0).await.field("authorization"),
            Some("Bearer sk-CaNaRy-account-env")
        );
    });
}
