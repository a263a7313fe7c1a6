//! The fault matrix: every fault of an upstream × dialect × {stream, whole answer} × {a second
//! target, none}.
//!
//! `table` has the faults, and the rules for the result of each. `words` has the bytes that the
//! upstream of each dialect sends. This module plays each cell and compares it with the rules: the
//! attempts, everything that the caller saw, the end, the counts, the breaker, and that nothing is
//! left. Each dialect has one gateway for all its cells. Each cell has a model and accounts of its
//! own, so that none disturbs another.

mod check;
mod table;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::failover::trail;
use crate::support::canary::KEY;
use crate::support::client::{Response, content_of, request};
use crate::support::gateway::Line;
use crate::support::mock::Request;
use crate::support::tls::Ca;
use crate::support::{Catalog, Gate, Gateway, Mock, SLOWER, Script, eventually, run_within, spawn};

use check::{Findings, Tallies};
use table::{Course, Does, Expected, Fault, expected, faults};
use words::{Dialect, FIRST, MARK, SECOND, STRETCHED, Scene, stretch};

/// What is asked.
const PROMPT: &str = "hello";
/// More than the kernel takes off our hands while nobody reads: 4 MiB and a little, as it usually
/// is.
const LARGE: usize = 6 << 20;
/// So many cells are played at once,
const AT_ONCE: usize = 36;
/// and so many of those that move megabytes.
const HEAVY_AT_ONCE: usize = 4;

#[test]
fn faults_of_openai() {
    matrix(Dialect::OpenAi);
}

#[test]
fn faults_of_anthropic() {
    matrix(Dialect::Anthropic);
}

#[test]
fn faults_of_gemini() {
    matrix(Dialect::Gemini);
}

#[test]
fn faults_of_bedrock() {
    matrix(Dialect::Bedrock);
}

/// One cell.
struct Cell {
    /// Also its model's id; its accounts are this with `-a` and `-b`.
    id: String,
    fault: Arc<Fault>,
    dialect: Dialect,
    course: Course,
    stream: bool,
    /// There is a second target.
    two: bool,
    /// Opened when the caller has seen what comes before the fault.
    seen: Gate,
    expected: Expected,
    /// Its own upstream, where the shared one will not do.
    own: Option<Mock>,
}

/// How a cell went.
struct Played {
    cell: Arc<Cell>,
    /// None if the connection ended without an answer.
    answer: Option<Response>,
    began: Instant,
}

/// The upstreams that all cells share.
struct Stage {
    speaking: Mock,
    refusing: Mock,
    deaf: Mock,
    mute: Mock,
    stranger: Mock,
}

impl Stage {
    async fn new() -> Stage {
        let mute = Mock::start().await;
        mute.greet(Script::silent());
        Stage {
            speaking: Mock::start().await,
            refusing: Mock::refusing().await,
            deaf: Mock::deaf().await,
            mute,
            stranger: Mock::tls(&Ca::new().leaf()).await,
        }
    }

    /// Where the account of a cell is.
    fn base(&self, cell: &Cell, place: usize) -> String {
        let at = |scheme: &str, mock: &Mock| {
            format!("{scheme}://{}/{}", mock.address(), cell.account(place))
        };
        if place > 0 {
            return at("http", &self.speaking);
        }
        match cell.fault.does {
            Does::RefusesConnections => at("http", &self.refusing),
            Does::AcceptsNone => at("http", &self.deaf),
            Does::ShakesNoHands => at("https", &self.mute),
            Does::IsAStranger => at("https", &self.stranger),
            Does::Says(_) | Does::SaysEarly(_) => {
                at("http", cell.own.as_ref().unwrap_or(&self.speaking))
            }
        }
    }

    /// Has every account say its words.
    fn rehearse(&self, cells: &[Arc<Cell>]) {
        let mut parts: BTreeMap<String, (Scene, fn(&Scene) -> Script)> = BTreeMap::new();
        for cell in cells {
            if let Does::Says(says) = cell.fault.does {
                parts.insert(cell.account(0), (cell.scene(0), says));
            }
            parts.insert(cell.account(1), (cell.scene(1), Scene::sound));
        }
        self.speaking
            .by(move |request| match parts.get(account_of(request)) {
                Some((scene, says)) => says(scene),
                None => Script::error(500, "nobody's account"),
            });
    }
}

/// The account that a request is for: the first part of its path.
fn account_of(request: &Request) -> &str {
    request.target.split('/').nth(1).unwrap_or_default()
}

impl Cell {
    fn account(&self, place: usize) -> String {
        format!("{}-{}", self.id, ["a", "b"][place])
    }

    fn scene(&self, place: usize) -> Scene {
        let (dialect, voice) = if place == 0 {
            (self.dialect, FIRST)
        } else {
            (self.dialect.next(), SECOND)
        };
        Scene {
            dialect,
            voice,
            stream: self.stream,
            seen: self.seen.clone(),
        }
    }

    /// Its targets.
    fn places(&self) -> std::ops::RangeInclusive<usize> {
        0..=usize::from(self.two)
    }

    fn is_large(&self) -> bool {
        matches!(self.fault.does, Does::SaysEarly(_))
    }

    /// The caller's request.
    fn request(&self) -> Vec<u8> {
        let prompt = if self.is_large() { STRETCHED } else { PROMPT };
        let mut body = json!({"model": self.id, "messages": [{"role": "user", "content": prompt}]});
        if self.stream {
            body["stream"] = json!(true);
            body["stream_options"] = json!({"include_usage": true});
        }
        let body = body.to_string().into_bytes();
        let body = if self.is_large() {
            stretch(&body, LARGE)
        } else {
            body
        };
        let bearer = format!("Bearer {KEY}");
        request(
            "POST",
            "/v1/chat/completions",
            &[
                ("authorization", &bearer),
                ("content-type", "application/json"),
            ],
            &body,
        )
    }
}

/// All cells of a dialect. What makes no sense has its reason in the table.
async fn cells(dialect: Dialect) -> Vec<Arc<Cell>> {
    let mut cells = Vec::new();
    for fault in faults().into_iter().map(Arc::new) {
        if fault.not.iter().any(|(not, _)| *not == dialect) {
            continue;
        }
        for (stream, course) in [(true, &fault.stream), (false, &fault.whole)] {
            let Ok(course) = course else { continue };
            for two in [true, false] {
                let mode = if stream { "stream" } else { "whole" };
                let id = format!(
                    "{}-{}-{mode}-{}",
                    dialect.name(),
                    fault.name,
                    if two { "two" } else { "alone" }
                );
                let expected = expected(&fault, course, dialect, stream, two);
                let mut cell = Cell {
                    id,
                    fault: fault.clone(),
                    dialect,
                    course: course.clone(),
                    stream,
                    two,
                    seen: Gate::new(),
                    expected,
                    own: None,
                };
                if let Does::SaysEarly(says) = fault.does {
                    let mock = Mock::start().await;
                    mock.early(says(&cell.scene(0)));
                    cell.own = Some(mock);
                }
                cells.push(Arc::new(cell));
            }
        }
    }
    cells
}

fn catalog(stage: &Stage, cells: &[Arc<Cell>]) -> Catalog {
    cells.iter().fold(Catalog::new(), |catalog, cell| {
        let timeouts = match cell.course.timeouts {
            "" => String::new(),
            timeouts => format!(", timeouts: {{ {timeouts} }}"),
        };
        let mut catalog = catalog;
        let mut targets = Vec::new();
        for (place, timeouts) in cell.places().zip([timeouts.as_str(), ""]) {
            let (account, dialect) = (cell.account(place), cell.scene(place).dialect);
            catalog = catalog.account_at(
                &account,
                &stage.base(cell, place),
                &format!("{}{timeouts}", dialect.account()),
            );
            targets.push(format!("{account}={}", dialect.model()));
        }
        catalog.model_with(
            &cell.id,
            &targets.iter().map(String::as_str).collect::<Vec<_>>(),
            "",
        )
    })
}

fn matrix(dialect: Dialect) {
    let findings = run_within(Duration::from_secs(180), async {
        let stage = Arc::new(Stage::new().await);
        let cells = cells(dialect).await;
        stage.rehearse(&cells);
        // A status is not to be fixed by a comment, however slow the machine is.
        let server =
            "timeouts: { commit_after: 60s }\nlimits: { response_body: 2MiB, event: 2MiB }";
        let gateway = Arc::new(
            Gateway::with(catalog(&stage, &cells))
                .server(server)
                .start()
                .await,
        );
        let (heavy, mut light): (Vec<_>, Vec<_>) =
            cells.into_iter().partition(|cell| cell.fault.is_heavy());
        // First those with a date: it was written down already.
        light.sort_by_key(|cell| {
            !(cell.id.contains("429-date") || cell.id.contains("429-provider"))
        });
        let mut findings = Findings::default();
        let mut played = 0;
        for wave in light.chunks(AT_ONCE).chain(heavy.chunks(HEAVY_AT_ONCE)) {
            played += wave.len();
            look_back(
                &gateway,
                &stage,
                act(&gateway, wave).await,
                played,
                &mut findings,
            )
            .await;
        }
        // Why a credential was refused is for the operator to read, and for nobody else.
        let others = |line: &&str| !line.contains("(credential) after credential");
        assert!(
            !gateway
                .log()
                .lines()
                .filter(others)
                .any(|line| line.contains(MARK)),
            "an upstream's words are in the log"
        );
        assert!(
            !String::from_utf8_lossy(&gateway.process.stdout()).contains(MARK),
            "an upstream's words are in an access line"
        );
        findings
    });
    findings.judge(dialect.name());
}

/// Plays cells, all at the same time.
async fn act(gateway: &Arc<Gateway>, cells: &[Arc<Cell>]) -> Vec<Played> {
    let tasks: Vec<_> = cells
        .iter()
        .map(|cell| {
            let (gateway, cell) = (gateway.clone(), cell.clone());
            spawn(async move {
                let began = Instant::now();
                let answer =
                    tokio::time::timeout(Duration::from_secs(60) * SLOWER, ask(&gateway, &cell))
                        .await;
                let answer = answer.unwrap_or_else(|_| panic!("{} hangs", cell.id));
                Played {
                    cell,
                    answer,
                    began,
                }
            })
        })
        .collect();
    let mut played = Vec::new();
    for task in tasks {
        played.push(task.await.expect("a cell that is played"));
    }
    played
}

async fn ask(gateway: &Gateway, cell: &Cell) -> Option<Response> {
    let mut connection = gateway.connect().await;
    connection.send(cell.request()).await;
    let mut answer = connection.head().await?;
    if answer.field("content-type") == Some("text/event-stream") {
        let mut pieces = 0;
        while let Some(event) = connection.event(&mut answer).await {
            pieces += usize::from(!content_of(&event.data).is_empty());
            if pieces == cell.course.seen.max(1) {
                cell.seen.open();
            }
        }
    } else {
        connection.rest(&mut answer).await;
    }
    Some(answer)
}

/// Holds what was played against the rules.
async fn look_back(
    gateway: &Gateway,
    stage: &Stage,
    played: Vec<Played>,
    all: usize,
    findings: &mut Findings,
) {
    let mut lines: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for line in gateway.access_lines(all).await {
        lines
            .entry(line["model"].as_str().unwrap_or_default().to_owned())
            .or_default()
            .push(line);
    }
    let nothing_in_flight = || Some(gateway.status()).filter(check::is_idle);
    let status = eventually("nothing in flight", nothing_in_flight).await;
    let looked = Instant::now();
    let tallies = Tallies::read(&gateway.metrics());
    let mut requests: BTreeMap<String, Vec<Request>> = BTreeMap::new();
    for played in &played {
        if let Some(mock) = &played.cell.own {
            requests
                .entry(played.cell.account(0))
                .or_default()
                .extend(settled(mock).await);
        }
    }
    for request in settled(&stage.speaking).await {
        requests
            .entry(account_of(&request).to_owned())
            .or_default()
            .push(request);
    }
    for Played {
        cell,
        answer,
        began,
    } in played
    {
        let mut cell_findings = findings.of(&cell.id);
        check::answer(&mut cell_findings, &cell, answer.as_ref());
        check::line(
            &mut cell_findings,
            &cell,
            lines.get(&cell.id).map(Vec::as_slice).unwrap_or_default(),
        );
        check::metrics(&mut cell_findings, &cell, &tallies);
        for place in cell.places() {
            let requests = requests
                .get(&cell.account(place))
                .map(Vec::as_slice)
                .unwrap_or_default();
            check::requests(&mut cell_findings, &cell, place, requests);
            check::health(
                &mut cell_findings,
                &cell,
                place,
                &status,
                looked.duration_since(began),
            );
        }
    }
}

/// All requests of an upstream, when each has been answered or left.
async fn settled(mock: &Mock) -> Vec<Request> {
    let settled = || {
        Some(mock.requests()).filter(|all| {
            all.iter()
                .all(|request| request.over || request.left.is_some())
        })
    };
    eventually("every request at the upstream is answered or left", settled).await
}
