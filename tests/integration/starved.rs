//! A writer that never stops writing to the catalog holds up nobody's edit, and half a file is
//! never taken.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::canary::hash;
use crate::support::client::{self, Response};
use crate::support::clock::FILES;
use crate::support::{Catalog, Gateway, Mock, PATIENCE, chat, eventually, join_all, run_within};

/// An edit is live within two seconds; one more is for a machine that does other things too. That
/// machine may stand still for a while, so it need not hold for each of several edits.
const SOON: Duration = Duration::from_secs(3);
const SECRET: &str = "sk-CaNaRy-caller-starved";

/// A thread that does something again and again, with these pauses, until it is dropped.
struct Writer {
    stop: Arc<AtomicBool>,
    ticks: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// From 20 ms to 3 s: whoever writes keeps no measure.
const PAUSES: [u64; 9] = [150, 700, 20, 400, 1_200, 60, 250, 3_000, 300];
const LONGEST: Duration = Duration::from_secs(3);

impl Writer {
    fn start(pauses: &'static [u64], mut act: impl FnMut(usize) + Send + 'static) -> Self {
        let (stop, ticks) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let thread = {
            let (stop, ticks) = (stop.clone(), ticks.clone());
            std::thread::spawn(move || {
                for (tick, pause) in pauses.iter().cycle().enumerate() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    act(tick);
                    ticks.store(tick, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(*pause));
                }
            })
        };
        Writer {
            stop,
            ticks,
            thread: Some(thread),
        }
    }

    async fn has_begun(&self) {
        eventually("it writes", || {
            (self.ticks.load(Ordering::Relaxed) > 3).then_some(())
        })
        .await;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

/// A file with one key of the caller `late`, or with none.
fn keys(with: bool) -> String {
    let keys = if with {
        format!("{{ k: {{ hash: \"{}\" }} }}", hash(SECRET))
    } else {
        "{}".to_owned()
    };
    format!("callers:\n  late:\n    keys: {keys}\n")
}

fn rename(path: &Path, text: &str) {
    let aside = path.with_file_name(format!(
        ".{}.aside",
        path.file_name().unwrap().to_string_lossy()
    ));
    fs::write(&aside, text).unwrap();
    fs::rename(&aside, path).unwrap();
}

fn append(path: &Path, text: &str) {
    fs::File::options()
        .append(true)
        .create(true)
        .open(path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
}

async fn ask(gateway: &Gateway) -> Response {
    gateway.raw(client::post_as(SECRET, &chat("m"))).await
}

/// Waits until a request with the secret ends so. Returns how long that took.
async fn becomes(gateway: &Gateway, what: &str, status: u16) -> Duration {
    let start = Instant::now();
    loop {
        let now = ask(gateway).await.status;
        let took = start.elapsed();
        if now == status {
            return took;
        }
        assert!(
            took < PATIENCE,
            "{what}: still {now} after {took:?}; /status: {:#}",
            gateway.status()["catalog"]
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that half of the edits were live within this time.
#[track_caller]
fn soon(what: &str, mut times: Vec<Duration>, within: Duration) {
    times.sort_unstable();
    assert!(
        times[(times.len() - 1) / 2] < within,
        "{what}: after {times:?}"
    );
}

/// What the file of the key holds: written by the noise, if it is the noise that writes there.
type Current = Arc<Mutex<String>>;
type Noise = fn(conf: PathBuf, current: Current) -> Box<dyn FnMut(usize) + Send>;

/// The book promises the time, so no other test may run beside it.
#[test]
#[ignore = "measures a time: `make test` runs it alone"]
fn alone_an_edit_is_live_within_seconds_beside_writes() {
    /// What is written meanwhile; whether it takes the file of the key with it.
    const CASES: &[Case] = &[
        ("lines are added to the key's own file", false, |conf, _| {
            Box::new(move |tick| append(&conf.join("catalog.d/late.yaml"), &format!("# {tick}\n")))
        }),
        (
            "the key's own file is written again and again",
            true,
            |conf, current| {
                Box::new(move |tick| {
                    let current = current.lock().unwrap();
                    fs::write(
                        conf.join("catalog.d/late.yaml"),
                        format!("{current}# {tick}\n"),
                    )
                    .unwrap();
                })
            },
        ),
        (
            "the key's own file is replaced again and again",
            true,
            |conf, current| {
                Box::new(move |tick| {
                    rename(
                        &conf.join("catalog.d/late.yaml"),
                        &format!("{}# {tick}\n", current.lock().unwrap()),
                    )
                })
            },
        ),
        ("catalog.yaml is written", false, |conf, _| {
            let text = fs::read_to_string(conf.join("catalog.yaml")).unwrap();
            Box::new(move |tick| {
                fs::write(conf.join("catalog.yaml"), format!("{text}# {tick}\n")).unwrap()
            })
        }),
        ("many files are written", false, |conf, _| {
            Box::new(move |tick| {
                fs::write(
                    conf.join(format!("catalog.d/many-{}.yaml", tick % 7)),
                    format!("{{}} # {tick}\n"),
                )
                .unwrap()
            })
        }),
        ("new files appear", false, |conf, _| {
            Box::new(move |tick| {
                fs::write(conf.join(format!("catalog.d/new-{tick}.yaml")), "{}\n").unwrap()
            })
        }),
        ("files come and go", false, |conf, _| {
            Box::new(move |tick| {
                fs::write(conf.join(format!("catalog.d/goes-{tick}.yaml")), "{}\n").unwrap();
                if let Some(before) = tick.checked_sub(1) {
                    fs::remove_file(conf.join(format!("catalog.d/goes-{before}.yaml"))).unwrap();
                }
            })
        }),
    ];
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        // A few at once: each mostly waits, but has a gateway of its own.
        for cases in CASES.chunks(AT_ONCE) {
            join_all(cases.iter().map(|case| edits(&mock, case))).await;
        }
    });
}

/// The gateways that wait for edits at once.
const AT_ONCE: usize = 2;

/// A kind of noise: what it is, whether it takes the file of the key with it, and what it writes.
type Case = (&'static str, bool, Noise);

async fn edits(mock: &Mock, (what, own, noise): &Case) {
    let gateway = Gateway::with(Catalog::over(mock))
        .file("catalog.d/late.yaml", keys(true))
        .start()
        .await;
    let path = gateway.conf.join("catalog.d/late.yaml");
    let current: Current = Arc::new(Mutex::new(keys(true)));
    let writer = Writer::start(&PAUSES, noise(gateway.conf.clone(), current.clone()));
    writer.has_begun().await;
    assert_eq!(ask(&gateway).await.status, 200, "{what}");
    let mut times = Vec::new();
    for (with, status) in [(false, 401), (true, 200), (false, 401)] {
        if *own {
            *current.lock().unwrap() = keys(with);
        } else if with {
            rename(&path, &keys(with));
        } else {
            fs::write(&path, keys(with)).unwrap();
        }
        times.push(becomes(&gateway, what, status).await);
    }
    // The noise's own next write comes after its longest pause at the latest.
    soon(
        what,
        times,
        SOON + if *own { LONGEST } else { Duration::ZERO },
    );
    drop(writer);
    assert_eq!(
        gateway
            .metrics()
            .sum("portcullis_catalog_refusals_total", &[]),
        0.0,
        "{what}: {}",
        gateway.log()
    );
}

/// A text that is written in two parts again and again. Its first part is a catalog, too.
struct Halves {
    live: String,
    half: String,
    rest: String,
    /// The pause after each part.
    pauses: &'static [u64],
    /// What a request with this secret is answered as long as no half is taken.
    secret: &'static str,
    status: u16,
}

#[test]
fn halves_that_are_written_for_ever_are_never_taken() {
    const NEW: &str = "sk-CaNaRy-caller-new";
    let key =
        |name: &str, secret: &str| format!("      {name}:\n        hash: \"{}\"\n", hash(secret));
    let keys = "callers:\n  late:\n    keys:\n";
    let (other, late) = (key("other", "sk-of-nobody-else"), key("late", SECRET));
    // The first half lacks a key. The second one only adds, but a key whose end is cut away.
    let removes = |pauses| Halves {
        live: format!("{keys}{other}{late}"),
        half: format!("{keys}{other}"),
        rest: late.clone(),
        pauses,
        secret: SECRET,
        status: 200,
    };
    let adds = Halves {
        live: format!("{keys}{late}"),
        half: format!("{keys}{late}{}", key("new", NEW)),
        rest: "        expires: 2020-01-01\n".to_owned(),
        pauses: &[20, 20],
        secret: NEW,
        status: 401,
    };
    run_within(Duration::from_secs(240), async {
        let mock = Mock::start().await;
        let all = [removes(&[100, 300]), removes(&[20, 20]), adds];
        for halves in &all {
            let mut tries = 0;
            while let Some(why) = half_taken(&mock, halves).await {
                println!("{why}");
                tries += 1;
                assert!(
                    tries < 10,
                    "this machine pauses for longer than it is asked to"
                );
            }
        }
    });
}

/// A text that was closed is taken if no longer one was seen for a second. A gateway that looks
/// this rarely meanwhile may have seen halves only.
const LOOKS_BACK: Duration = Duration::from_millis(1_500);
const LEAST_LOOKS: u64 = 15;

/// Writes halves for some seconds. Returns what happened if a half stood still for so long that it
/// was none.
async fn half_taken(mock: &Mock, written: &Halves) -> Option<String> {
    let gateway = Gateway::with(Catalog::over(mock))
        .file("catalog.d/late.yaml", &written.live)
        .start()
        .await;
    let path = gateway.conf.join("catalog.d/late.yaml");
    // Since when there is a half, and for how long one stood still at most.
    let halves = Arc::new(Mutex::new((None::<Instant>, Duration::ZERO)));
    let stood = || {
        let (since, longest) = *halves.lock().unwrap();
        since.map_or(longest, |since| longest.max(since.elapsed()))
    };
    let writer = {
        let (path, halves, half, rest) = (
            path.clone(),
            halves.clone(),
            written.half.clone(),
            written.rest.clone(),
        );
        Writer::start(written.pauses, move |tick| {
            if tick % 2 == 0 {
                halves.lock().unwrap().0 = Some(Instant::now());
                fs::write(&path, format!("# {tick}\n{half}")).unwrap();
            } else {
                append(&path, &rest);
                let mut halves = halves.lock().unwrap();
                halves.1 = halves.1.max(halves.0.take().unwrap().elapsed());
            }
        })
    };
    let noise = {
        let conf = gateway.conf.clone();
        Writer::start(&PAUSES, move |tick| {
            fs::write(
                conf.join("catalog.d/noise.yaml"),
                format!("{{}} # {tick}\n"),
            )
            .unwrap()
        })
    };
    let start = Instant::now();
    let before = gateway.generation();
    let ask = async || {
        gateway
            .raw(client::post_as(written.secret, &chat("m")))
            .await
            .status
    };
    // When the gateway had looked so often at the files.
    let mut looked: VecDeque<(Instant, u64)> = VecDeque::new();
    while start.elapsed() < Duration::from_secs(6) || gateway.generation() < before + 2 {
        if let Some(times) = gateway.rounds(FILES) {
            looked.push_back((Instant::now(), times));
            while looked.len() > 1 && looked[1].0.elapsed() > LOOKS_BACK {
                looked.pop_front();
            }
        }
        if ask().await != written.status {
            let times = looked.back().zip(looked.front());
            let times = times.map(|(last, first)| last.1 - first.1);
            if times.is_some_and(|times| times < LEAST_LOOKS) {
                return Some(format!("the gateway looked only {times:?} times"));
            }
            let stood = stood();
            assert!(
                stood > Duration::from_millis(450),
                "half a file was taken: {}",
                gateway.log()
            );
            return Some(format!("half a file stood still for {stood:?}"));
        }
        assert!(start.elapsed() < 4 * PATIENCE, "nothing is ever taken");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop((writer, noise));
    assert_eq!(
        gateway
            .metrics()
            .sum("portcullis_catalog_refusals_total", &[]),
        0.0,
        "{}",
        gateway.log()
    );
    None
}

#[test]
fn ceaseless_rewriting_delays_no_new_key_or_revocation() {
    const OTHER: &str = "sk-CaNaRy-caller-other";
    let key = |name: &str, secret: &str, more: &str| {
        format!("      {name}: {{ hash: \"{}\"{more} }}\n", hash(secret))
    };
    let text = |keys: &[String]| format!("callers:\n  late:\n    keys:\n{}", keys.concat());
    let off = key("late", SECRET, ", enabled: false");
    let texts = [
        text(&[key("late", SECRET, "")]),
        text(std::slice::from_ref(&off)),
        text(&[off.clone(), key("other", OTHER, "")]),
        text(&[off]),
    ];
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .file("catalog.d/late.yaml", &texts[0])
            .start()
            .await;
        let path = gateway.conf.join("catalog.d/late.yaml");
        let current: Current = Arc::new(Mutex::new(texts[0].clone()));
        let writer = {
            let current = current.clone();
            Writer::start(&[50], move |tick| {
                let text = format!("{}# {tick}\n", current.lock().unwrap());
                fs::write(&path, text).unwrap();
            })
        };
        writer.has_begun().await;
        assert_eq!(ask(&gateway).await.status, 200);
        let other = async || gateway.raw(client::post_as(OTHER, &chat("m"))).await.status;
        current.lock().unwrap().clone_from(&texts[1]);
        becomes(&gateway, "revoked", 401).await;
        gateway
            .logged("new entries and `enabled: false` in it are live")
            .await;
        current.lock().unwrap().clone_from(&texts[2]);
        let start = Instant::now();
        while other().await != 200 {
            assert!(
                start.elapsed() < PATIENCE,
                "the new key is never live: {}",
                gateway.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // What is missing may be cut away, so it waits, and that is told.
        current.lock().unwrap().clone_from(&texts[3]);
        let endless = || {
            (gateway.status()["catalog"]["waiting"]["endless"][0]["file"] == "catalog.d/late.yaml")
                .then_some(())
        };
        eventually("it is told of", endless).await;
        assert_eq!(other().await, 200, "{}", gateway.log());
        drop(writer);
        let start = Instant::now();
        while other().await != 401 {
            assert!(
                start.elapsed() < PATIENCE,
                "the rest is never live: {}",
                gateway.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_catalog_refusals_total", &[]),
            0.0,
            "{}",
            gateway.log()
        );
    });
}

#[test]
fn an_edit_beside_a_broken_file_is_live_soon() {
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        let mut quickest = Duration::MAX;
        // A slow machine may need longer for some of them.
        for _ in 0..5 {
            let gateway = Gateway::with(Catalog::over(&mock))
                .file("catalog.d/late.yaml", keys(true))
                .start()
                .await;
            let path = gateway.conf.join("catalog.d/zz.yaml");
            let writer = Writer::start(&[200], move |tick| {
                fs::write(&path, format!("callers:\n# {tick}\n")).unwrap()
            });
            eventually("it is broken", || {
                (writer.ticks.load(Ordering::Relaxed) > 0).then_some(())
            })
            .await;
            fs::write(gateway.conf.join("catalog.d/late.yaml"), keys(false)).unwrap();
            quickest = quickest.min(becomes(&gateway, "beside a broken file", 401).await);
            if quickest < Duration::from_secs(2) {
                return;
            }
        }
        panic!("the edits took {quickest:?} at least");
    });
}

#[test]
fn ceaseless_writes_to_a_file_are_reported() {
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        let catalog = Catalog::over(&mock);
        let gateway = Gateway::with(&catalog)
            .file("catalog.d/late.yaml", keys(true))
            .start()
            .await;
        let path = gateway.conf.join("catalog.yaml");
        let writer = {
            let path = path.clone();
            Writer::start(&[5], move |_| append(&path, "#"))
        };
        writer.has_begun().await;
        let mut times = Vec::new();
        for (with, status) in [(false, 401), (true, 200), (false, 401)] {
            fs::write(gateway.conf.join("catalog.d/late.yaml"), keys(with)).unwrap();
            times.push(becomes(&gateway, "the other file", status).await);
        }
        soon("the other file", times, SOON);
        let waiting = || {
            Some(gateway.status()["catalog"]["waiting"].clone())
                .filter(|waiting| waiting["endless"][0]["file"] == "catalog.yaml")
        };
        let waiting = eventually("it is told of", waiting).await;
        assert!(
            waiting["for_ms"].as_u64() >= Some(3_000) && waiting["files"][0] == "catalog.yaml",
            "{waiting}"
        );
        assert!(
            gateway
                .metrics()
                .sum("portcullis_catalog_waiting_seconds", &[])
                >= 3.0
        );
        gateway
            .logged("catalog.yaml is written without a pause")
            .await;
        drop(writer);
        eventually("nothing waits", || {
            (gateway.status()["catalog"]["waiting"].is_null()).then_some(())
        })
        .await;
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_catalog_waiting_seconds", &[]),
            0.0
        );
        let told = gateway
            .log()
            .lines()
            .filter(|line| line.contains("without a pause"))
            .count();
        assert_eq!(told, 1, "{}", gateway.log());
    });
}

/// Writes the half, pauses, and then the rest, with the file open all the time or closed between.
/// The half is no catalog.
fn halves(path: PathBuf, held: bool) -> impl FnMut(usize) + Send {
    move |tick| {
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(b"callers:\n  zz:\n").unwrap();
        if !held {
            drop(file);
            std::thread::sleep(Duration::from_millis([700, 1_500][tick % 2]));
            return append(&path, &format!("    keys: {{}} # {tick}\n"));
        }
        std::thread::sleep(Duration::from_millis(700));
        file.write_all(format!("    keys: {{}} # {tick}\n").as_bytes())
            .unwrap();
    }
}

#[test]
fn a_pause_amid_a_write_holds_up_no_revocation() {
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        for (what, held) in [("held open", true), ("closed between", false)] {
            let gateway = Gateway::with(Catalog::over(&mock))
                .file("catalog.d/late.yaml", keys(true))
                .start()
                .await;
            let path = gateway.conf.join("catalog.d/late.yaml");
            let writer = Writer::start(
                &[100, 300, 200],
                halves(gateway.conf.join("catalog.d/zz.yaml"), held),
            );
            writer.has_begun().await;
            let mut times = Vec::new();
            for (with, status) in [
                (false, 401),
                (true, 200),
                (false, 401),
                (true, 200),
                (false, 401),
            ] {
                fs::write(&path, keys(with)).unwrap();
                times.push(becomes(&gateway, what, status).await);
            }
            soon(what, times, SOON);
            if held {
                assert_eq!(
                    gateway
                        .metrics()
                        .sum("portcullis_catalog_refusals_total", &[]),
                    0.0,
                    "{}",
                    gateway.log()
                );
            }
            drop(writer);
            eventually("nothing is refused", || {
                (gateway.metrics().sum("portcullis_reload_failed", &[]) == 0.0).then_some(())
            })
            .await;
        }
    });
}

#[test]
fn a_wrong_file_holds_up_no_change_of_another() {
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        let good = format!(
            "callers:\n  zz:\n    keys: {{ k: {{ hash: \"{}\" }} }}\n",
            hash("sk-of-zz")
        );
        let gateway = Gateway::with(Catalog::over(&mock))
            .file("catalog.d/late.yaml", keys(true))
            .file("catalog.d/zz.yaml", &good)
            .start()
            .await;
        let (late, zz) = (
            gateway.conf.join("catalog.d/late.yaml"),
            gateway.conf.join("catalog.d/zz.yaml"),
        );
        let refusal = || gateway.status()["catalog"]["last_refusal"].clone();
        let failed = || gateway.metrics().sum("portcullis_reload_failed", &[]);
        // What came with it is refused with it.
        fs::write(&zz, "callers:\n  zz:\n").unwrap();
        fs::write(&late, keys(false)).unwrap();
        eventually("it is refused", || (failed() == 1.0).then_some(())).await;
        assert_eq!((ask(&gateway).await.status, gateway.generation()), (200, 1));
        // What came later is not.
        let mut times = Vec::new();
        for (number, (with, status)) in [(true, 200), (false, 401), (true, 200), (false, 401)]
            .into_iter()
            .enumerate()
        {
            fs::write(&late, format!("{}# {number}\n", keys(with))).unwrap();
            times.push(becomes(&gateway, "the other file", status).await);
            if number > 0 {
                let withheld = || (refusal()["withheld"][0] == "catalog.d/zz.yaml").then_some(());
                eventually("it is told", withheld).await;
            }
            assert_eq!(
                (refusal()["standing"].clone(), failed()),
                (true.into(), 1.0),
                "{:#}",
                refusal()
            );
            assert!(
                refusal()["reasons"][0]
                    .as_str()
                    .unwrap()
                    .starts_with("catalog.d/zz.yaml:"),
                "{:#}",
                refusal()
            );
            assert_eq!(
                gateway
                    .raw(client::post_as("sk-of-zz", &chat("m")))
                    .await
                    .status,
                200,
                "its last good content serves on"
            );
        }
        soon("the other file", times, SOON);
        gateway
            .logged("catalog.d/zz.yaml is still refused: its last good content stays live")
            .await;
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_catalog_refusals_total", &[]),
            1.0,
            "{}",
            gateway.log()
        );
        fs::write(&zz, "callers:\n  zz:\n    keys: {}\n").unwrap();
        eventually("it is mended", || {
            (failed() == 0.0 && refusal()["standing"] == false).then_some(())
        })
        .await;
        assert_eq!(
            gateway
                .raw(client::post_as("sk-of-zz", &chat("m")))
                .await
                .status,
            401
        );
        assert_eq!(refusal()["withheld"].as_array().map(Vec::len), Some(0));
    });
}

#[test]
fn a_file_held_open_waits_until_it_closes() {
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .file("catalog.d/late.yaml", keys(true))
            .start()
            .await;
        let mut file = fs::File::create(gateway.conf.join("catalog.d/late.yaml")).unwrap();
        // This is a catalog, too.
        file.write_all(b"callers:\n  late:\n    keys: {}\n")
            .unwrap();
        let endless = || {
            (gateway.status()["catalog"]["waiting"]["endless"][0]["file"] == "catalog.d/late.yaml")
                .then_some(())
        };
        eventually("it is told of", endless).await;
        assert_eq!(
            (ask(&gateway).await.status, gateway.generation()),
            (200, 1),
            "{}",
            gateway.log()
        );
        fs::write(gateway.conf.join("catalog.d/another.yaml"), "{} # new\n").unwrap();
        eventually("another file is taken", || {
            (gateway.generation() == 2).then_some(())
        })
        .await;
        assert_eq!(ask(&gateway).await.status, 200);
        file.write_all(b"# the end\n").unwrap();
        drop(file);
        becomes(&gateway, "closed", 401).await;
    });
}

#[test]
fn a_renamed_file_is_live_before_a_written_one() {
    /// A file that is written in place stands still for so long before it is taken.
    const SETTLE: Duration = Duration::from_millis(500);
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .file("catalog.d/late.yaml", keys(true))
            .start()
            .await;
        let path = gateway.conf.join("catalog.d/late.yaml");
        // A slow machine may need longer for some of them.
        for edit in 0..40 {
            let with = edit % 2 == 1;
            let start = Instant::now();
            rename(&path, &keys(with));
            becomes(&gateway, "renamed", if with { 200 } else { 401 }).await;
            if start.elapsed() < SETTLE {
                return;
            }
        }
        panic!("no edit was live within {SETTLE:?}");
    });
}

#[test]
fn ceaseless_writes_do_not_delay_a_held_loss() {
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        let gateway =
            Gateway::start(Catalog::over(&mock).model("n", &["a"]).model("o", &["a"])).await;
        let conf = gateway.conf.clone();
        let writer = Writer::start(&PAUSES, move |tick| {
            fs::create_dir_all(conf.join("catalog.d")).unwrap();
            fs::write(
                conf.join("catalog.d/noise.yaml"),
                format!("{{}} # {tick}\n"),
            )
            .unwrap();
        });
        writer.has_begun().await;
        gateway.hold_clock();
        gateway.write_catalog(Catalog::over(&mock));
        eventually("it is held", || {
            gateway.status()["catalog"]["held"].as_str().map(drop)
        })
        .await;
        let models = || gateway.status()["catalog"]["models"].clone();
        for _ in 0..4 {
            gateway.advance(Duration::from_secs(1)).await;
            gateway.round(FILES).await;
            assert_eq!(models(), 3);
        }
        // If each write began the five seconds anew, it would never be taken.
        gateway.advance(Duration::from_secs(1)).await;
        eventually("it is taken", || (models() == 1).then_some(())).await;
        drop(writer);
    });
}

#[test]
fn sighup_looks_at_once() {
    run_within(Duration::from_secs(120), async {
        let mock = Mock::start().await;
        // A folder that nobody watches: without being asked, the gateway finds a change within 3 s
        // and takes it half a second later.
        let gateway = Gateway::with(Catalog::over(&mock))
            .file("away/late.yaml", keys(true))
            .start()
            .await;
        let link = gateway.conf.join("catalog.d/late.yaml");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("../away/late.yaml", &link).unwrap();
        becomes(&gateway, "the link", 200).await;
        // One change would be found so long after the one before.
        let mut times = Vec::new();
        for (with, status) in [
            (false, 401),
            (true, 200),
            (false, 401),
            (true, 200),
            (false, 401),
        ] {
            fs::write(gateway.conf.join("away/late.yaml"), keys(with)).unwrap();
            gateway.signal("HUP");
            times.push(becomes(&gateway, "SIGHUP", status).await);
        }
        soon("SIGHUP", times, Duration::from_millis(2_500));
    });
}
