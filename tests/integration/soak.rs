//! The soak (L07): a gateway between upstreams that fail in every way and callers that misbehave in
//! every way, all at random. It takes a minute in the tests, and as long as one likes by `make
//! soak`.
//!
//! What must hold: no caller sees a broken answer, nothing panics, nothing hangs, and every request
//! has one access line that says what its caller saw. When all is quiet again, the gateway holds no
//! more than before: memory, descriptors, threads, requests in flight. It is made quiet twice,
//! after a third of the time and at the end.
//!
//! `SOAK_SECONDS`, `SOAK_RATE` (requests a second) and `SOAK_SEED` change the run; the seed is
//! printed.

mod books;
mod callers;
mod speech;
mod tests;
mod upstream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use self::books::Books;
use self::callers::{Callers, REQUEST_BODY};
use self::speech::Speech;
use self::upstream::{EVENT, RESPONSE_BODY, Temper, Upstream};
use crate::support::tls::Ca;
use crate::support::{Catalog, Gateway, Mock, process, run_within, runs_all, spawn};

/// How long it runs by default; the second is that of `make test-all`.
const SECONDS: [u64; 2] = [15, 60];
/// So few requests that the tests that run meanwhile have their share of two cores.
const RATE: u64 = 40;
/// Callers at once, for each that comes in a second; beyond, new ones wait. So many come at the
/// very start, that what is warm knows the worst.
const AT_ONCE: u64 = 2;
/// Between two catalogs.
const RELOAD: Duration = Duration::from_secs(3);
/// Between two looks at the process.
const LOOK: Duration = Duration::from_millis(500);
/// Until when nothing may be left, once the last caller has gone.
const QUIET: Duration = Duration::from_secs(120);

/// For freed memory to have gone back to the system, once no connection is left.
const SETTLE: Duration = Duration::from_secs(5);

/// The ledger keeps so much of its file at hand, and the file grows with the requests: that is no
/// leak, and is told apart.
const LEDGER_CACHE: u64 = 16 << 20;

/// By how much memory may move once the process is warm.
const SWAY: u64 = 6 << 20;
const MIB: f64 = (1 << 20) as f64;

const MODELS: &[&str] = &[
    "alone",
    "first",
    "shared",
    "busy",
    "fastest",
    "sticky",
    "hedged",
    "queued",
    "unreachable",
    "untrusted",
    "harsh",
];

/// One look at the process.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: f64,
    /// Resident memory, without what the ledger has of its file.
    memory: u64,
    ledger: u64,
    descriptors: usize,
    threads: usize,
}

/// The process that is looked at.
#[derive(Clone)]
struct Watched {
    pid: u32,
    ledger: PathBuf,
    began: Instant,
}

impl Watched {
    fn look(&self) -> Sample {
        let count = |what: &str| {
            std::fs::read_dir(format!("/proc/{}/{what}", self.pid)).map_or(0, Iterator::count)
        };
        // SQLite keeps a file open that it has closed, as long as another connection has a lock
        // there. The end's check bounds those.
        let is_ledger = |path: PathBuf| path.to_string_lossy().contains("ledger.sqlite");
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid))
            .into_iter()
            .flatten()
            .flatten();
        let descriptors = open
            .filter(|entry| !std::fs::read_link(entry.path()).is_ok_and(is_ledger))
            .count();
        let file = rusqlite::Connection::open_with_flags(
            &self.ledger,
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
        );
        let size = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let size = file
            .and_then(|file| file.query_row(size, [], |row| row.get::<_, i64>(0)))
            .expect("the ledger's size");
        let (at, ledger) = (
            self.began.elapsed().as_secs_f64(),
            LEDGER_CACHE.min(size.unsigned_abs()),
        );
        let memory = process::rss(self.pid).saturating_sub(ledger);
        Sample {
            at,
            memory,
            ledger,
            descriptors,
            threads: count("task"),
        }
    }
}

impl Sample {
    /// When, how many descriptors, how much memory.
    fn point(&self) -> [f64; 3] {
        [self.at, self.descriptors as f64, self.memory as f64]
    }
}

struct World {
    seed: u64,
    upstreams: Vec<Upstream>,
    refusing: Mock,
    deaf: Mock,
    untrusted: Upstream,
}

#[test]
fn l07_a_soak_of_every_fault_leaves_nothing_behind() {
    let seconds = number("SOAK_SECONDS").unwrap_or(SECONDS[usize::from(runs_all())]);
    let rate = number("SOAK_RATE").unwrap_or(RATE).max(1);
    let seed = number("SOAK_SEED").unwrap_or_else(|| fastrand::u64(0..1_000_000));
    println!("soak: {seconds} s at {rate} requests a second, SOAK_SEED={seed}");
    run_within(
        Duration::from_secs(seconds + 60),
        soak(Duration::from_secs(seconds), rate, seed),
    );
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|e| panic!("{name}={text}: {e}"))
    })
}

/// Random numbers for this matter alone.
fn draw(seed: u64, what: &str, number: u64) -> fastrand::Rng {
    let name = what.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut rng =
        fastrand::Rng::with_seed(seed ^ name ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    rng.u64(..);
    rng
}

async fn soak(time: Duration, rate: u64, seed: u64) {
    let ca = Ca::new();
    let world = Arc::new(World::start(seed, &ca).await);
    let gateway = world.gateway(&ca).await;
    let log = gateway.conf.parent().expect("a folder").join("access.log");
    let books = Arc::new(Books::default());
    let callers = Arc::new(Callers::new(
        gateway.listeners[0],
        gateway.listeners[1],
        seed,
        MODELS,
        books.clone(),
    ));

    let over = Arc::new(AtomicBool::new(false));
    let watched = Watched {
        pid: gateway.process.pid(),
        ledger: log.with_file_name("ledger.sqlite"),
        began: Instant::now(),
    };
    let samples = watch(watched.clone(), log.clone(), &books, &over);
    let run = Run {
        gateway: &gateway,
        world: &world,
        books: &books,
        callers: &callers,
        log: &log,
        rate,
        watched,
    };
    let outcome = run.whole(time).await;
    over.store(true, Ordering::Relaxed);
    let samples = samples.await.expect("the watch");
    print!("{}", books.report());
    world.report();
    let checked = outcome.and_then(|course| check(&gateway, &books, &samples, &course));
    if let Err(why) = checked.and_then(|()| world.no_leaks()) {
        panic!("SOAK_SEED={seed}: {why}");
    }
}

/// How the process was when nobody asked for anything: before all, between the two shifts, and
/// after them.
struct Course {
    start: Sample,
    rested: Sample,
    end: Sample,
    /// From when on the second shift is warm, and until when it comes.
    second: [f64; 2],
}

/// What a shift of callers and a rest between two need.
struct Run<'a> {
    gateway: &'a Gateway,
    world: &'a World,
    books: &'a Arc<Books>,
    callers: &'a Arc<Callers>,
    log: &'a Path,
    rate: u64,
    watched: Watched,
}

impl Run<'_> {
    /// A shift, a rest, a shift of twice the length, a rest.
    async fn whole(&self, time: Duration) -> Result<Course, String> {
        let (mut made, mut generation) = (0, 1);
        let start = self.watched.look();
        let cpu = || {
            [self.gateway.process.cpu(), process::cpu(std::process::id())]
                .map(|cpu| cpu.as_secs_f64())
        };
        let before = cpu();
        self.shift(time / 3, &mut made, &mut generation).await?;
        let rested = self.rest(start.descriptors, &mut generation).await?;
        let (from, length) = (self.watched.look().at, time - time / 3);
        self.shift(length, &mut made, &mut generation).await?;
        let second = [0.25, 1.0].map(|part| from + length.as_secs_f64() * part);
        let end = self.rest(start.descriptors, &mut generation).await?;
        let after = cpu();
        let [ours, this] = [0, 1].map(|n| (after[n] - before[n]) / time.as_secs_f64());
        println!(
            "calls                 {made}, and {generation} catalogs; cores: the gateway {ours:.2}, this program {this:.2}"
        );
        Ok(Course {
            start,
            rested,
            end,
            second,
        })
    }

    /// Callers and new catalogs, for so long.
    async fn shift(
        &self,
        time: Duration,
        made: &mut u64,
        generation: &mut u64,
    ) -> Result<(), String> {
        let began = Instant::now();
        let reloads = async {
            while began.elapsed() < time && self.books.failed().is_none() {
                self.reload(*generation).await;
                *generation += 1;
            }
        };
        tokio::join!(drive(self.callers, time, self.rate, made), reloads);
        self.callers.hang_up();
        fails(self.books)
    }

    /// A catalog, and time for it to be taken or refused.
    async fn reload(&self, generation: u64) {
        let broken = is_broken(generation);
        let before = taken(self.gateway);
        if broken {
            self.gateway.write_catalog("accounts: [\n")
        } else {
            self.gateway.write_catalog(self.world.catalog(generation))
        }
        let wanted = if broken {
            (before.0, before.1 + 1.0)
        } else {
            (before.0 + 1.0, before.1)
        };
        let began = Instant::now();
        let mut after = before;
        // A slow machine takes longer.
        while began.elapsed() < RELOAD || (after == before && began.elapsed() < QUIET) {
            tokio::time::sleep(LOOK).await;
            after = taken(self.gateway);
        }
        if after != wanted {
            self.books.fail(format!(
                "catalogs taken and refused were {before:?} and are {after:?} after catalog {generation}"
            ));
        }
    }

    /// Waits until nobody asks for anything and no connection is left, and looks at the process.
    async fn rest(&self, descriptors: usize, generation: &mut u64) -> Result<Sample, String> {
        quiet(self.gateway, self.world, self.books, self.log).await?;
        // With new keys no connection of before is of use.
        *generation += u64::from(is_broken(*generation));
        self.reload(*generation).await;
        *generation += 1;
        let began = Instant::now();
        while self.watched.look().descriptors > descriptors {
            if began.elapsed() > QUIET {
                return Err(format!(
                    "descriptors are left, {QUIET:?} after all was quiet: {:?} after {descriptors} at the start",
                    self.watched.look()
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(SETTLE).await;
        fails(self.books)?;
        Ok(self.watched.look())
    }
}

/// Whether this catalog is one that must be refused.
fn is_broken(generation: u64) -> bool {
    generation % 8 == 7
}

/// Catalogs taken, and refused.
fn taken(gateway: &Gateway) -> (f64, f64) {
    let metrics = gateway.metrics();
    (
        metrics.sum("portcullis_catalog_generation", &[]),
        metrics.sum("portcullis_catalog_refusals_total", &[]),
    )
}

/// So many callers a second, until the time is over or something is wrong. `made` are those that
/// were there before, and now.
async fn drive(callers: &Arc<Callers>, time: Duration, rate: u64, made: &mut u64) {
    let began = Instant::now();
    let at_once = (rate * AT_ONCE) as usize;
    let active = Arc::new(AtomicUsize::new(0));
    let ahead = *made + if *made == 0 { at_once as u64 } else { 0 };
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    while began.elapsed() < time && callers.books.failed().is_none() {
        tick.tick().await;
        let due = ahead + (began.elapsed().as_secs_f64() * rate as f64) as u64;
        while *made < due && active.load(Ordering::Relaxed) < at_once {
            let (callers, active, number) = (callers.clone(), active.clone(), *made);
            active.fetch_add(1, Ordering::Relaxed);
            spawn(async move {
                callers.call(number).await;
                active.fetch_sub(1, Ordering::Relaxed);
            });
            *made += 1;
        }
    }
    // One that panicked is never over.
    let left = Instant::now();
    while active.load(Ordering::Relaxed) > 0 {
        if left.elapsed() > 2 * callers::BOUND {
            callers.books.fail(format!(
                "{} callers never came to an end",
                active.load(Ordering::Relaxed)
            ));
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Looks at the process, and reads its access log, until it is over.
fn watch(
    watched: Watched,
    log: PathBuf,
    books: &Arc<Books>,
    over: &Arc<AtomicBool>,
) -> tokio::task::JoinHandle<Vec<Sample>> {
    let (books, over) = (books.clone(), over.clone());
    spawn(async move {
        let mut samples = Vec::new();
        while !over.load(Ordering::Relaxed) {
            samples.push(watched.look());
            books.follow(&log);
            tokio::time::sleep(LOOK).await;
        }
        samples
    })
}

/// Whether anything has gone wrong so far.
fn fails(books: &Books) -> Result<(), String> {
    books.failed().map_or(Ok(()), Err)
}

/// Waits until nothing is left of any request, here or at the upstreams, and all access lines are
/// written.
async fn quiet(gateway: &Gateway, world: &World, books: &Books, log: &Path) -> Result<(), String> {
    let began = Instant::now();
    loop {
        books.follow(log);
        let status = gateway.status();
        let accounts = status["accounts"].as_array().expect("accounts").iter();
        let in_flight: u64 = accounts
            .map(|account| account["in_flight"].as_u64().expect("a number"))
            .sum();
        let busy: usize = world.upstreams.iter().map(Upstream::busy).sum();
        let left = (
            in_flight,
            status["exchanges"].as_u64(),
            busy,
            books.balance(),
        );
        if left == (0, Some(0), 0, Ok(())) {
            return Ok(());
        }
        if began.elapsed() > QUIET {
            return Err(format!(
                "in flight, exchanges, requests at upstreams, access lines: {left:?} after {QUIET:?}"
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl World {
    async fn start(seed: u64, ca: &Ca) -> World {
        let temper = |faults, outages| Temper {
            faults,
            outages,
            harsh: false,
        };
        let upstreams = vec![
            Upstream::start("wild", Speech::OpenAi, temper(35, 5), seed).await,
            Upstream::start("calm", Speech::OpenAi, temper(3, 0), seed).await,
            Upstream::start("tight", Speech::OpenAi, temper(20, 3), seed).await,
            Upstream::start("claude", Speech::Anthropic, temper(20, 3), seed).await,
            Upstream::start("gem", Speech::Gemini, temper(20, 3), seed).await,
            Upstream::start("rock", Speech::Bedrock, temper(20, 3), seed).await,
            Upstream::h2("two", Speech::OpenAi, temper(20, 3), seed, &ca.leaf()).await,
            Upstream::start(
                "harsh",
                Speech::OpenAi,
                Temper {
                    faults: 20,
                    outages: 0,
                    harsh: true,
                },
                seed,
            )
            .await,
        ];
        let untrusted = Upstream::h2(
            "untrusted",
            Speech::OpenAi,
            temper(0, 0),
            seed,
            &Ca::new().leaf(),
        )
        .await;
        World {
            seed,
            upstreams,
            refusing: Mock::refusing().await,
            deaf: Mock::deaf().await,
            untrusted,
        }
    }

    async fn gateway(&self, ca: &Ca) -> Gateway {
        let server = format!(
            "attempts: 3\n\
             limits: {{ request_body: {REQUEST_BODY}B, response_body: {RESPONSE_BODY}B, event: {EVENT}B }}\n\
             timeouts: {{ client_read: 10s, client_write: 10s, commit_after: 400ms, comment: 300ms }}\n\
             log: {{ format: json, level: info, access: ./access.log }}"
        );
        let setup = Gateway::with(self.catalog(0))
            .returns_memory_at_once()
            .also_listen("h2c: true")
            .server(&server)
            .file("ca.pem", ca.pem());
        let ports = self
            .upstreams
            .iter()
            .chain([&self.untrusted])
            .map(|upstream| upstream.address.port());
        ports
            .fold(setup, |setup, port| setup.upstream(port))
            .start()
            .await
    }

    /// Each has new keys, so that accounts come back whose credential was refused, and the harsh
    /// one is another account each time.
    fn catalog(&self, generation: u64) -> Catalog {
        let times = "timeouts: { connect: 400ms, first_byte: 700ms, first_token: 600ms, idle: 500ms, total: 3s }";
        let key = format!("key: \"sk-CaNaRy-account-{generation}\"");
        let harsh = format!("harsh-{}", generation % 5);
        let mut catalog = Catalog::new()
            .account_with("refusing", &self.refusing, times)
            .account_with("deaf", &self.deaf, times)
            .account_at(
                "nowhere",
                "http://gone.invalid:8000/v1",
                &format!("insecure: true, {times}"),
            )
            .account_at("untrusted", &self.untrusted.base_url(), times);
        for upstream in &self.upstreams {
            let more = match upstream.name {
                "two" => ", tls: { ca: ca.pem }",
                "tight" => ", concurrency: 3",
                "claude" => ", probe: true",
                _ => "",
            };
            let id = if upstream.name == "harsh" {
                &harsh
            } else {
                upstream.name
            };
            catalog = catalog.account_at(
                id,
                &upstream.base_url(),
                &format!("{}, {key}, {times}{more}", upstream.speech.account()),
            );
        }
        let target = |name: &str| {
            let speech = self
                .upstreams
                .iter()
                .find(|upstream| upstream.name == name)
                .map_or(Speech::OpenAi, |upstream| upstream.speech);
            format!("{name}={}", speech.model())
        };
        let targets = |names: &[&str]| names.iter().map(|name| target(name)).collect::<Vec<_>>();
        let model = |catalog: Catalog, id: &str, names: &[&str], more: &str| {
            let targets = targets(names);
            catalog.model_with(
                id,
                &targets.iter().map(String::as_str).collect::<Vec<_>>(),
                more,
            )
        };
        let catalog = model(catalog, "alone", &["wild"], "");
        let catalog = model(
            catalog,
            "first",
            &["wild", "claude", "calm"],
            "strategy: priority",
        );
        let catalog = model(
            catalog,
            "shared",
            &["wild", "gem", "calm", "rock"],
            "strategy: weighted",
        );
        let catalog = model(
            catalog,
            "busy",
            &["tight", "claude", "rock"],
            "strategy: least_busy",
        );
        let catalog = model(
            catalog,
            "fastest",
            &["wild", "gem", "two"],
            "strategy: fastest",
        );
        let catalog = model(
            catalog,
            "sticky",
            &["gem", "claude", "two"],
            "strategy: weighted, sticky: true",
        );
        let catalog = model(
            catalog,
            "hedged",
            &["wild", "calm", "two"],
            "strategy: fastest, hedge: { after: p90, at_most: 10% }",
        );
        let catalog = model(
            catalog,
            "queued",
            &["tight"],
            "queue: { length: 10, wait: 1s }",
        );
        let catalog = model(
            catalog,
            "unreachable",
            &["refusing", "deaf"],
            "fallbacks: [shared]",
        );
        let catalog = model(catalog, "untrusted", &["nowhere", "untrusted", "calm"], "");
        model(catalog, "harsh", &[&harsh, "wild"], "fallbacks: [first]")
    }

    /// No caller's key reached an upstream, and who is not to be trusted was asked nothing.
    fn no_leaks(&self) -> Result<(), String> {
        let leak = self
            .upstreams
            .iter()
            .chain([&self.untrusted])
            .find_map(|upstream| upstream.leaks().into_iter().next());
        if let Some(leak) = leak {
            return Err(format!("a caller's key reached an upstream: {leak}"));
        }
        if self.untrusted.requests() > 0 {
            Err("an upstream was asked whose certificate is not good".to_owned())
        } else {
            Ok(())
        }
    }

    fn report(&self) {
        println!("upstreams");
        for upstream in &self.upstreams {
            let played = upstream.played();
            let count = |kind: &str| {
                played
                    .iter()
                    .filter(|(what, _)| what.starts_with(kind))
                    .map(|(_, count)| count)
                    .sum::<u64>()
            };
            let faults: u64 = ["fault", "cut", "half", "outage", "harsh"]
                .iter()
                .map(|kind| count(kind))
                .sum();
            println!(
                "  {:>8}  {} ({} odd, {faults} failed)",
                upstream.requests(),
                upstream.name,
                count("odd")
            );
        }
    }
}

/// What is left of the run in the process, after a first shift and after a second of twice the
/// length.
///
/// Memory is compared between two rests: nobody asks, and every connection has gone, which is as
/// many descriptors as before the first request. It was once compared while callers came, and at
/// the end with whatever connections happened to be idle: an HTTP/2 connection weighs some 0.2 MiB,
/// so that their number decided, and a real leak of them could not be told from a busy second. By
/// the first rest every pool, every thread and every size of memory has been in use; from there on
/// memory may rise by [`SWAY`], however long the run. What the ledger holds of its file is not
/// counted: it grows with the requests, and no further than [`LEDGER_CACHE`].
///
/// What grows under way and goes at the end is found as well: memory may not drift by more than
/// that while the second shift comes, at equal numbers of descriptors. On a busy machine more is
/// under way at once, for a minute or for the rest of the run, and each descriptor stands for some
/// 40 KiB.
fn check(
    gateway: &Gateway,
    books: &Books,
    samples: &[Sample],
    course: &Course,
) -> Result<(), String> {
    let Course {
        start,
        rested,
        end,
        second,
    } = course;
    let during: Vec<Sample> = samples
        .iter()
        .filter(|sample| sample.at >= second[0] && sample.at < second[1])
        .copied()
        .collect();
    let (most, drift) = (most(samples), drift(&during));
    let columns = [start, rested, &most, end];
    let row = |what: &str, of: fn(&Sample) -> String| {
        println!(
            "{what:<19}{}",
            columns.map(|sample| format!("{:>8}", of(sample))).concat()
        )
    };
    println!("                      start  rested    most     end");
    row("memory, MiB", |sample| {
        format!("{:.1}", sample.memory as f64 / MIB)
    });
    row("and the ledger's", |sample| {
        format!("{:.1}", sample.ledger as f64 / MIB)
    });
    row("descriptors", |sample| sample.descriptors.to_string());
    row("threads", |sample| sample.threads.to_string());
    println!(
        "drift of memory    {:+.1} MiB over the {:.0} s in which the second shift was warm",
        drift / MIB,
        second[1] - second[0]
    );
    fails(books)?;
    let panics = gateway.metrics().sum("portcullis_panics_total", &[]);
    if panics != 0.0 {
        return Err(format!("{panics} panics"));
    }
    // The catalogs that it has to refuse are errors. Nothing else is.
    let log = gateway.log();
    let known = |line: &str| line.contains("the new catalog is refused");
    let error = |line: &&str| {
        line.contains("panicked") || (line.contains("\"level\":\"error\"") && !known(line))
    };
    if let Some(line) = log.lines().find(error) {
        return Err(format!("in its log: {line}"));
    }
    if end.memory > rested.memory + SWAY || drift > SWAY as f64 {
        return Err(format!(
            "its memory grows: {:.1} MiB became {:.1}, and while it was busy it drifted by {:+.1}",
            rested.memory as f64 / MIB,
            end.memory as f64 / MIB,
            drift / MIB
        ));
    }
    let most_before = samples
        .iter()
        .filter(|sample| sample.at < second[0])
        .map(|sample| sample.threads)
        .max()
        .unwrap_or(0);
    if end.threads > most_before {
        return Err(format!(
            "threads are left: {end:?} after at most {most_before}"
        ));
    }
    Ok(())
}

/// The most there was of each.
fn most(samples: &[Sample]) -> Sample {
    let first = Sample {
        at: 0.0,
        memory: 0,
        ledger: 0,
        descriptors: 0,
        threads: 0,
    };
    samples.iter().fold(first, |a, b| Sample {
        at: b.at,
        memory: a.memory.max(b.memory),
        ledger: a.ledger.max(b.ledger),
        descriptors: a.descriptors.max(b.descriptors),
        threads: a.threads.max(b.threads),
    })
}

/// By how many bytes memory rises from the first of these samples to the last at equal numbers of
/// descriptors: of the plane that lies best through memory over time and descriptors, the slope in
/// time.
fn drift(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let means = samples.iter().fold([0.0; 3], |sums, sample| {
        std::array::from_fn(|n| sums[n] + sample.point()[n] / count)
    });
    // Sums of products: time and time, time and descriptors, both descriptors, time and memory,
    // descriptors and memory.
    let [tt, td, dd, tm, dm] = samples.iter().fold([0.0; 5], |sums, sample| {
        let [t, d, m] = std::array::from_fn(|n| sample.point()[n] - means[n]);
        let products = [t * t, t * d, d * d, t * m, d * m];
        std::array::from_fn(|n| sums[n] + products[n])
    });
    let span =
        samples.last().map_or(0.0, |last| last.at) - samples.first().map_or(0.0, |first| first.at);
    let area = tt * dd - td * td;
    if area == 0.0 {
        0.0
    } else {
        (tm * dd - dm * td) / area * span
    }
}
