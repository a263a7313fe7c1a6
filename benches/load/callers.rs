//! Callers in a closed loop: each caller sends its next request when it has checked the whole
//! answer to the last one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub use crate::kind::Kind;
use crate::wire::{Head, Wire};

/// The longest time for one answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most answers of all callers together; more would only fill memory.
const MOST: u64 = 2_000_000;
/// The number of failures after which a caller gives up.
const FAILURES: u32 = 5;

/// A load: which callers ask for what, and where.
#[derive(Clone)]
pub struct Load {
    pub to: SocketAddr,
    pub request: Arc<[u8]>,
    pub kind: Kind,
    pub callers: usize,
}

/// The results of a load.
#[derive(Default)]
pub struct Outcome {
    /// The times of whole and right answers.
    pub took: Vec<Duration>,
    /// The times to the first event of streams.
    pub first: Vec<Duration>,
    pub elapsed: Duration,
    pub errors: BTreeMap<String, u64>,
}

impl Outcome {
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Writes the errors to standard error, and returns their number.
    pub fn complain(&self, of: &str) -> u64 {
        for (what, times) in &self.errors {
            eprintln!("{of}: {times} × {what}");
        }
        self.failures()
    }

    pub fn failed(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }
}

impl Load {
    /// Runs for this time, and waits for the answers that are under way at its end, so that all are
    /// whole.
    pub async fn run(&self, time: Duration) -> Outcome {
        self.run_until(time, &Arc::default()).await
    }

    /// Runs for this time, or until `stop` is set.
    pub async fn run_until(&self, time: Duration, stop: &Arc<AtomicBool>) -> Outcome {
        let mut all = Outcome::default();
        let mut wires = Vec::new();
        for _ in 0..self.callers {
            match self.connect().await {
                Ok(wire) => wires.push(wire),
                Err(why) => all.failed(why),
            }
        }
        let start = Instant::now();
        let answers = Arc::new(AtomicU64::new(0));
        let mut callers = JoinSet::new();
        for (index, wire) in wires.into_iter().enumerate() {
            let (load, stop, answers) = (self.clone(), stop.clone(), answers.clone());
            // The starts of paced streams are spread over the gap, or all their chunks would come
            // at the same moments.
            let delay = if let Kind::Stream { gap, .. } = self.kind {
                gap * index as u32 / self.callers as u32
            } else {
                Duration::ZERO
            };
            let more = move || {
                let within = start.elapsed() < time && !stop.load(Ordering::Relaxed);
                within && answers.fetch_add(1, Ordering::Relaxed) < MOST
            };
            callers.spawn(async move {
                sleep(delay).await;
                load.call(wire, more).await
            });
        }
        while let Some(one) = callers.join_next().await {
            match one {
                Ok(one) => {
                    all.took.extend(one.took);
                    all.first.extend(one.first);
                    for (what, times) in one.errors {
                        *all.errors.entry(what).or_default() += times;
                    }
                }
                Err(why) => all.failed(why.to_string()),
            }
        }
        all.elapsed = start.elapsed();
        all
    }

    async fn call(&self, wire: Wire, more: impl Fn() -> bool) -> Outcome {
        let mut outcome = Outcome::default();
        let mut wire = Some(wire);
        let mut text = Vec::new();
        let mut failures = 0;
        while failures < FAILURES && more() {
            let one = async {
                let mut kept = match wire.take() {
                    Some(wire) => wire,
                    None => self.connect().await?,
                };
                let start = Instant::now();
                let (close, first) = self.ask_on(&mut kept, &mut text, start).await?;
                let took = start.elapsed();
                Ok((took, first, (!close).then_some(kept)))
            };
            match timeout(PATIENCE, one)
                .await
                .unwrap_or_else(|_| Err("no whole answer in time".to_owned()))
            {
                Ok((took, first, kept)) => {
                    outcome.took.push(took);
                    outcome.first.extend(first);
                    wire = kept;
                }
                Err(why) => {
                    outcome.failed(why);
                    failures += 1;
                }
            }
        }
        outcome
    }

    /// Makes one request. Returns whether the connection ends with the answer, and the time to a
    /// stream's first event.
    pub async fn ask_on(
        &self,
        wire: &mut Wire,
        text: &mut Vec<u8>,
        start: Instant,
    ) -> Result<(bool, Option<Duration>), String> {
        let Head {
            length,
            chunked,
            close,
            ..
        } = self.begin(wire).await?;
        let lost = |why| format!("in an answer: {why}");
        if !self.kind.is_stream() && !chunked {
            let length = length.ok_or("an answer without content-length")?;
            let body = wire.take(length).await.map_err(lost)?;
            return self.kind.check_answer(body).map(|()| (close, None));
        }
        if !chunked {
            return Err("a stream that is not chunked".to_owned());
        }
        text.clear();
        let mut first = None;
        loop {
            let chunk = wire.chunk().await.map_err(lost)?;
            if chunk.is_empty() {
                break;
            }
            text.extend_from_slice(chunk);
            if first.is_none() && text.ends_with(b"\n\n") {
                first = Some(start.elapsed());
            }
        }
        let checked = if self.kind.is_stream() {
            self.kind.check_stream(text)
        } else {
            self.kind.check_answer(text)
        };
        checked.map(|()| (close, first))
    }

    /// Sends the request and reads the answer's head.
    pub async fn begin(&self, wire: &mut Wire) -> Result<Head, String> {
        wire.send(&self.request)
            .await
            .map_err(|e| format!("cannot send: {e}"))?;
        let head = wire
            .head()
            .await
            .map_err(|e| format!("no answer: {e}"))?
            .ok_or("closed instead of an answer")?;
        if head.first.starts_with("HTTP/1.1 200 ") {
            Ok(head)
        } else {
            Err(head.first)
        }
    }

    pub async fn connect(&self) -> Result<Wire, String> {
        Wire::connect(self.to)
            .await
            .map_err(|e| format!("cannot connect: {e}"))
    }

    /// Makes one request on a connection of its own.
    pub async fn ask_once(&self) -> Result<(), String> {
        let asked = async {
            self.ask_on(&mut self.connect().await?, &mut Vec::new(), Instant::now())
                .await
                .map(drop)
        };
        timeout(PATIENCE, asked)
            .await
            .unwrap_or_else(|_| Err("no whole answer in time".to_owned()))
    }

    /// Begins a stream on a connection of its own, and reads it up to the first event.
    pub async fn hold(&self) -> Result<Wire, String> {
        let begun = async {
            let mut wire = self.connect().await?;
            self.begin(&mut wire).await?;
            wire.chunk()
                .await
                .map_err(|e| format!("no first event: {e}"))?;
            Ok(wire)
        };
        timeout(PATIENCE, begun)
            .await
            .unwrap_or_else(|_| Err("no first event in time".to_owned()))
    }
}
