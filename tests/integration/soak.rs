//! The soak (L07): a gateway between upstreams that fail in every way and callers that misbehave in every way, all at random, for a minute
//! in the tests and for as long as one likes by `make soak`.
//!
//! What must hold: no caller sees a broken answer, nothing panics, nothing hangs, every request has one access line that says what its
//! caller saw, and when all is quiet again the gateway holds no more than before: memory, descriptors, threads, requests in flight.
//!
//! `SOAK_SECONDS`, `SOAK_RATE` (requests a second) and `SOAK_SEED` change the run; the seed is printed.

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
use crate::support::{Catalog, Gateway, Mock, process, run_within, spawn};

/// In the tests: a minute, and so few requests that the tests beside it have their share of two cores.
const SECONDS: u64 = 60;
const RATE: u64 = 40;
/// Callers at once, for each that comes in a second; beyond, new ones wait. So many come at the very start, that what is warm knows the worst.
const AT_ONCE: u64 = 2;
/// Between two catalogs.
const RELOAD: Duration = Duration::from_secs(3);
/// Between two looks at the process.
const LOOK: Duration = Duration::from_millis(500);
/// Until when nothing may be left, once the last caller has gone.
const QUIET: Duration = Duration::from_secs(30);

/// By how much memory may move once the process is warm.
const SWAY: u64 = 8 << 20;
const MIB: f64 = (1 << 20) as f64;

const MODELS: &[&str] = &["alone", "first", "shared", "busy", "fastest", "sticky", "hedged", "queued", "unreachable", "untrusted", "harsh"];

/// One look at the process.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: f64,
    rss: u64,
    descriptors: usize,
    threads: usize,
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
    let seconds = number("SOAK_SECONDS").unwrap_or(SECONDS);
    let rate = number("SOAK_RATE").unwrap_or(RATE).max(1);
    let seed = number("SOAK_SEED").unwrap_or_else(|| fastrand::u64(0..1_000_000));
    println!("soak: {seconds} s at {rate} requests a second, SOAK_SEED={seed}");
    run_within(Duration::from_secs(seconds + 180), soak(Duration::from_secs(seconds), rate, seed));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// Random numbers for this matter alone.
fn draw(seed: u64, what: &str, number: u64) -> fastrand::Rng {
    let name = what.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut rng = fastrand::Rng::with_seed(seed ^ name ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    rng.u64(..);
    rng
}

async fn soak(time: Duration, rate: u64, seed: u64) {
    let ca = Ca::new();
    let world = Arc::new(World::start(seed, &ca).await);
    let gateway = world.gateway(&ca).await;
    let log = gateway.conf.parent().expect("a folder").join("access.log");
    let books = Arc::new(Books::default());
    let callers = Arc::new(Callers::new(gateway.listeners[0], gateway.listeners[1], seed, MODELS, books.clone()));

    let over = Arc::new(AtomicBool::new(false));
    let samples = watch(&gateway, log.clone(), &books, &over);
    let began = Instant::now();
    let reloads = async {
        let mut generation = 1;
        while began.elapsed() < time && books.failed().is_none() {
            let broken = generation % 8 == 7;
            let before = taken(&gateway);
            if broken {
                gateway.write_catalog("accounts: [\n")
            } else {
                gateway.write_catalog(world.catalog(generation))
            }
            tokio::time::sleep(RELOAD).await;
            let after = taken(&gateway);
            let wanted = if broken { (before.0, before.1 + 1.0) } else { (before.0 + 1.0, before.1) };
            if after != wanted {
                books.fail(format!("catalogs taken and refused were {before:?} and are {after:?} after catalog {generation}"));
            }
            generation += 1;
        }
        generation
    };
    let (calls, generation) = tokio::join!(drive(&callers, time, rate), reloads);
    callers.hang_up();
    let used = [gateway.process.cpu(), process::cpu(std::process::id())].map(|cpu| cpu.as_secs_f64() / time.as_secs_f64());
    let after = match fails(&books) {
        Ok(()) => quiet(&gateway, &world, &books, &log).await,
        Err(why) => Err(why),
    };
    over.store(true, Ordering::Relaxed);
    let samples = samples.await.expect("the watch");
    println!("calls                 {calls}, and {generation} catalogs; cores: the gateway {:.2}, this program {:.2}", used[0], used[1]);
    print!("{}", books.report());
    world.report();
    let checked = after.and_then(|()| check(&gateway, &books, &samples, time));
    if let Err(why) = checked.and_then(|()| world.no_leaks()) {
        panic!("SOAK_SEED={seed}: {why}");
    }
}

/// Catalogs taken, and refused.
fn taken(gateway: &Gateway) -> (f64, f64) {
    let metrics = gateway.metrics();
    (metrics.sum("portcullis_catalog_generation", &[]), metrics.sum("portcullis_catalog_refusals_total", &[]))
}

/// So many callers a second, until the time is over or something is wrong.
async fn drive(callers: &Arc<Callers>, time: Duration, rate: u64) -> u64 {
    let began = Instant::now();
    let at_once = (rate * AT_ONCE) as usize;
    let active = Arc::new(AtomicUsize::new(0));
    let mut made = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    while began.elapsed() < time && callers.books.failed().is_none() {
        tick.tick().await;
        let due = at_once as u64 + (began.elapsed().as_secs_f64() * rate as f64) as u64;
        while made < due && active.load(Ordering::Relaxed) < at_once {
            let (callers, active, number) = (callers.clone(), active.clone(), made);
            active.fetch_add(1, Ordering::Relaxed);
            spawn(async move {
                callers.call(number).await;
                active.fetch_sub(1, Ordering::Relaxed);
            });
            made += 1;
        }
    }
    // One that panicked is never over.
    let left = Instant::now();
    while active.load(Ordering::Relaxed) > 0 {
        if left.elapsed() > 2 * callers::BOUND {
            callers.books.fail(format!("{} callers never came to an end", active.load(Ordering::Relaxed)));
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    made
}

/// Looks at the process, and reads its access log, until it is over.
fn watch(gateway: &Gateway, log: PathBuf, books: &Arc<Books>, over: &Arc<AtomicBool>) -> tokio::task::JoinHandle<Vec<Sample>> {
    let (pid, books, over, began) = (gateway.process.pid(), books.clone(), over.clone(), Instant::now());
    spawn(async move {
        let mut samples = Vec::new();
        while !over.load(Ordering::Relaxed) {
            samples.push(look(pid, began));
            books.follow(&log);
            tokio::time::sleep(LOOK).await;
        }
        samples
    })
}

fn look(pid: u32, began: Instant) -> Sample {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count);
    Sample { at: began.elapsed().as_secs_f64(), rss: process::rss(pid), descriptors: count("fd"), threads: count("task") }
}

/// Whether anything has gone wrong so far.
fn fails(books: &Books) -> Result<(), String> {
    books.failed().map_or(Ok(()), Err)
}

/// Waits until nothing is left of any request, here or at the upstreams, and all access lines are written.
async fn quiet(gateway: &Gateway, world: &World, books: &Books, log: &Path) -> Result<(), String> {
    let began = Instant::now();
    loop {
        books.follow(log);
        let status = gateway.status();
        let accounts = status["accounts"].as_array().expect("accounts").iter();
        let in_flight: u64 = accounts.map(|account| account["in_flight"].as_u64().expect("a number")).sum();
        let busy: usize = world.upstreams.iter().map(Upstream::busy).sum();
        let left = (in_flight, status["exchanges"].as_u64(), busy, books.balance());
        if left == (0, Some(0), 0, Ok(())) {
            return Ok(());
        }
        if began.elapsed() > QUIET {
            return Err(format!("in flight, exchanges, requests at upstreams, access lines: {left:?} after {QUIET:?}"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl World {
    async fn start(seed: u64, ca: &Ca) -> World {
        let temper = |faults, outages| Temper { faults, outages, harsh: false };
        let upstreams = vec![
            Upstream::start("wild", Speech::OpenAi, temper(35, 5), seed).await,
            Upstream::start("calm", Speech::OpenAi, temper(3, 0), seed).await,
            Upstream::start("tight", Speech::OpenAi, temper(20, 3), seed).await,
            Upstream::start("claude", Speech::Anthropic, temper(20, 3), seed).await,
            Upstream::start("gem", Speech::Gemini, temper(20, 3), seed).await,
            Upstream::start("rock", Speech::Bedrock, temper(20, 3), seed).await,
            Upstream::h2("two", Speech::OpenAi, temper(20, 3), seed, &ca.leaf()).await,
            Upstream::start("harsh", Speech::OpenAi, Temper { faults: 20, outages: 0, harsh: true }, seed).await,
        ];
        let untrusted = Upstream::h2("untrusted", Speech::OpenAi, temper(0, 0), seed, &Ca::new().leaf()).await;
        World { seed, upstreams, refusing: Mock::refusing().await, deaf: Mock::deaf().await, untrusted }
    }

    async fn gateway(&self, ca: &Ca) -> Gateway {
        let server = format!(
            "attempts: 3\n\
             limits: {{ request_body: {REQUEST_BODY}B, response_body: {RESPONSE_BODY}B, event: {EVENT}B }}\n\
             timeouts: {{ client_read: 10s, client_write: 10s, commit_after: 400ms, comment: 300ms }}\n\
             log: {{ format: json, level: info, access: ./access.log }}"
        );
        let setup = Gateway::with(self.catalog(0)).also_listen("h2c: true").server(&server).file("ca.pem", ca.pem());
        let ports = self.upstreams.iter().chain([&self.untrusted]).map(|upstream| upstream.address.port());
        ports.fold(setup, |setup, port| setup.upstream(port)).start().await
    }

    /// Each has new keys, so that accounts come back whose credential was refused, and the harsh one is another account each time.
    fn catalog(&self, generation: u64) -> Catalog {
        let times = "timeouts: { connect: 400ms, first_byte: 700ms, first_token: 600ms, idle: 500ms, total: 3s }";
        let key = format!("key: \"sk-CaNaRy-account-{generation}\"");
        let harsh = format!("harsh-{}", generation % 5);
        let mut catalog = Catalog::new()
            .account_with("refusing", &self.refusing, times)
            .account_with("deaf", &self.deaf, times)
            .account_at("nowhere", "http://gone.invalid:8000/v1", &format!("insecure: true, {times}"))
            .account_at("untrusted", &self.untrusted.base_url(), times);
        for upstream in &self.upstreams {
            let more = match upstream.name {
                "two" => ", tls: { ca: ca.pem }",
                "tight" => ", concurrency: 3",
                "claude" => ", probe: true",
                _ => "",
            };
            let id = if upstream.name == "harsh" { &harsh } else { upstream.name };
            catalog = catalog.account_at(id, &upstream.base_url(), &format!("{}, {key}, {times}{more}", upstream.speech.account()));
        }
        let target = |name: &str| {
            let speech = self.upstreams.iter().find(|upstream| upstream.name == name).map_or(Speech::OpenAi, |upstream| upstream.speech);
            format!("{name}={}", speech.model())
        };
        let targets = |names: &[&str]| names.iter().map(|name| target(name)).collect::<Vec<_>>();
        let model = |catalog: Catalog, id: &str, names: &[&str], more: &str| {
            let targets = targets(names);
            catalog.model_with(id, &targets.iter().map(String::as_str).collect::<Vec<_>>(), more)
        };
        let catalog = model(catalog, "alone", &["wild"], "");
        let catalog = model(catalog, "first", &["wild", "claude", "calm"], "strategy: priority");
        let catalog = model(catalog, "shared", &["wild", "gem", "calm", "rock"], "strategy: weighted");
        let catalog = model(catalog, "busy", &["tight", "claude", "rock"], "strategy: least_busy");
        let catalog = model(catalog, "fastest", &["wild", "gem", "two"], "strategy: fastest");
        let catalog = model(catalog, "sticky", &["gem", "claude", "two"], "strategy: weighted, sticky: true");
        let catalog = model(catalog, "hedged", &["wild", "calm", "two"], "strategy: fastest, hedge: { after: p90, at_most: 10% }");
        let catalog = model(catalog, "queued", &["tight"], "queue: { length: 10, wait: 1s }");
        let catalog = model(catalog, "unreachable", &["refusing", "deaf"], "fallbacks: [shared]");
        let catalog = model(catalog, "untrusted", &["nowhere", "untrusted", "calm"], "");
        model(catalog, "harsh", &[&harsh, "wild"], "fallbacks: [first]")
    }

    /// No caller's key reached an upstream, and who is not to be trusted was asked nothing.
    fn no_leaks(&self) -> Result<(), String> {
        let leak = self.upstreams.iter().chain([&self.untrusted]).find_map(|upstream| upstream.leaks().into_iter().next());
        if let Some(leak) = leak {
            return Err(format!("a caller's key reached an upstream: {leak}"));
        }
        if self.untrusted.requests() > 0 { Err("an upstream was asked whose certificate is not good".to_owned()) } else { Ok(()) }
    }

    fn report(&self) {
        println!("upstreams");
        for upstream in &self.upstreams {
            let played = upstream.played();
            let count = |kind: &str| played.iter().filter(|(what, _)| what.starts_with(kind)).map(|(_, count)| count).sum::<u64>();
            let faults: u64 = ["fault", "cut", "half", "outage", "harsh"].iter().map(|kind| count(kind)).sum();
            println!("  {:>8}  {} ({} odd, {faults} failed)", upstream.requests(), upstream.name, count("odd"));
        }
    }
}

/// What is left of the run in the process, against what there was when it was warm.
///
/// Warm is what it has come to in the first third: every pool, every thread and every size of memory has been in use by then. From there
/// memory may move by [`SWAY`], however long the run: the allocator gives pages back seconds later and in its own order, and what a
/// request leaves behind for good grows with their number, not with that of the pages.
fn check(gateway: &Gateway, books: &Books, samples: &[Sample], time: Duration) -> Result<(), String> {
    let end = look(gateway.process.pid(), Instant::now());
    let seconds = time.as_secs_f64();
    let part = |from: f64, to: f64| samples.iter().filter(|sample| sample.at >= from && sample.at < to).copied().collect::<Vec<_>>();
    let (cold, warm) = (part(0.0, seconds / 3.0), part(seconds / 3.0, seconds));
    let drift = drift(&warm);
    let (start, before, after) = (samples.first().ok_or("no samples")?, most(&cold), most(&warm));
    let mib = |bytes: u64| bytes as f64 / MIB;
    println!("                      start   warm    most    end");
    println!("memory, MiB        {:8.1}{:8.1}{:8.1}{:8.1}", mib(start.rss), mib(before.rss), mib(after.rss), mib(end.rss));
    println!("descriptors        {:8}{:8}{:8}{:8}", start.descriptors, before.descriptors, after.descriptors, end.descriptors);
    println!("threads            {:8}{:8}{:8}{:8}", start.threads, before.threads, after.threads, end.threads);
    println!("drift of memory    {:+.1} MiB over the {:.0} s in which it was warm", drift / MIB, seconds * 2.0 / 3.0);
    fails(books)?;
    let panics = gateway.metrics().sum("portcullis_panics_total", &[]);
    if panics != 0.0 {
        return Err(format!("{panics} panics"));
    }
    // The catalogs that it has to refuse are errors, and so are Pingora's words for a pooled HTTP/2 connection that has died and whose
    // descriptor's number is another's by now: it sees that, and does not use it. Nothing else is.
    let log = gateway.log();
    let known = |line: &str| line.contains("the catalog's new content is refused") || line.contains("Crit: FD mismatch");
    let error = |line: &&str| line.contains("panicked") || (line.contains("\"level\":\"error\"") && !known(line));
    if let Some(line) = log.lines().find(error) {
        return Err(format!("in its log: {line}"));
    }
    if end.rss > before.rss + SWAY || drift > SWAY as f64 {
        return Err(format!(
            "its memory grows: {:.1} MiB became {:.1}, at the end of a drift of {:+.1}",
            mib(before.rss),
            mib(end.rss),
            drift / MIB
        ));
    }
    if end.threads > before.threads || end.descriptors > before.descriptors {
        return Err(format!("threads or descriptors are left: {end:?} after at most {before:?}"));
    }
    Ok(())
}

/// The most there was of each.
fn most(samples: &[Sample]) -> Sample {
    let first = Sample { at: 0.0, rss: 0, descriptors: 0, threads: 0 };
    samples.iter().fold(first, |a, b| Sample {
        at: b.at,
        rss: a.rss.max(b.rss),
        descriptors: a.descriptors.max(b.descriptors),
        threads: a.threads.max(b.threads),
    })
}

/// By how many bytes the straight line through these samples rises from the first to the last.
fn drift(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (at, rss) = (mean(|sample| sample.at), mean(|sample| sample.rss as f64));
    let (rise, run) = samples.iter().fold((0.0, 0.0), |(rise, run), sample| {
        let from = sample.at - at;
        (rise + from * (sample.rss as f64 - rss), run + from * from)
    });
    let span = samples.last().map_or(0.0, |last| last.at) - samples.first().map_or(0.0, |first| first.at);
    if run == 0.0 { 0.0 } else { rise / run * span }
}
