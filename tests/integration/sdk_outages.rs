//! The official OpenAI clients through outages of every kind. There is one table; the programs of
//! both languages get its rows as JSON, with what must be seen.
//!
//! Each row is asked for in every way that a client can (buffered, streamed, streamed by its
//! helper), of a model with one target, and of one with a second target that is well. Each of these
//! is a model and an account of its own, so that no outage touches another. The programs are in
//! `tests/sdk/`: an answer must have exactly its text; everything else must be raised as an error
//! of the right class.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sdk::installed;
use crate::support::canary::KEY;
use crate::support::process::Process;
use crate::support::script::{self, SSE, finish};
use crate::support::{Catalog, Gateway, Mock, SLOWER, Script, root, run_within};

#[test]
fn sdk_outages_python_3() {
    python("3.52.0");
}

#[test]
fn sdk_outages_python_1() {
    python("1.109.1");
}

#[test]
fn sdk_outages_node_7() {
    let node = installed("node");
    through_the_outages(
        Command::new("node")
            .arg("tests/sdk/node/test_outages.mjs")
            .env("SDK", node),
    );
}

fn python(version: &str) {
    let venv = installed(&format!("python-{version}"));
    through_the_outages(
        Command::new(venv.join("bin/python")).arg("tests/sdk/python/test_outages.py"),
    );
}

/// What a caller must see.
#[derive(Clone, Copy)]
enum Sees {
    /// The mock's answer, whole.
    Answer,
    /// A status with this code, before anything else.
    Status(u16, &'static str),
    /// Some of a stream, and then an error event with this code.
    Event(&'static str, &'static str),
}
use Sees::{Answer, Event, Status};

const UNAVAILABLE: Sees = Status(503, "upstream_unavailable");
const BAD: Sees = Status(502, "bad_upstream_response");
const LIMITED: Sees = Status(429, "upstream_rate_limited");
const OVERLOADED: Sees = Status(503, "upstream_overloaded");
const TIMEOUT: Sees = Status(504, "upstream_timeout");
const TRUNCATED: Sees = Event("w0 w1 ", "upstream_truncated");

/// What a target's outage is.
#[derive(Clone)]
enum Outage {
    /// Nobody listens.
    Refused,
    /// Nobody answers.
    Unroutable,
    Plays(Script),
}
use Outage::{Plays, Refused, Unroutable};

/// A row: an outage, and what is seen of it, first alone and then with a second target, buffered
/// and streamed; none where it has no such form.
struct Row {
    name: &'static str,
    outage: Outage,
    buffered: Option<[Sees; 2]>,
    stream: Option<[Sees; 2]>,
}

/// The same in both forms: this when alone, an answer when not.
fn row(name: &'static str, outage: Outage, alone: Sees) -> Row {
    Row {
        name,
        outage,
        buffered: Some([alone, Answer]),
        stream: Some([alone, Answer]),
    }
}

fn streamed(name: &'static str, script: Script, alone: Sees, two: Sees) -> Row {
    Row {
        name,
        outage: Plays(script),
        buffered: None,
        stream: Some([alone, two]),
    }
}

fn buffered(name: &'static str, script: Script, alone: Sees, two: Sees) -> Row {
    Row {
        name,
        outage: Plays(script),
        buffered: Some([alone, two]),
        stream: None,
    }
}

fn rows() -> Vec<Row> {
    let error = |status| Plays(Script::error(status, "it said no"));
    // The caller's own fault is nobody else's: no other target is asked.
    let faulty = |name, status| {
        let both = Some([Status(status, ""); 2]);
        Row {
            name,
            outage: error(status),
            buffered: both,
            stream: both,
        }
    };
    let json_of = |body: &str| Plays(Script::text(200, "application/json", body));
    // What comes with the fault at once was sent to nobody yet, and then another target may still
    // answer.
    let begun = || Script::sse().words(0..2).delay(BREATH);
    let half = || {
        Script::new()
            .head(200, &[script::JSON, ("content-length", "900")])
            .body("{\"id\":\"chatcmpl-mock\",\"object\":\"chat.comp")
    };
    let role = || {
        Script::sse().event(script::chunk(
            &json!({"role": "assistant", "content": ""}),
            None,
        ))
    };
    let broke = json!({"error": {"message": "the GPU fell off", "type": "server_error", "param": null, "code": null}});
    // A buffered answer's time is over when all of it is, whoever else might answer.
    let silence = |name, script| Row {
        name,
        outage: Plays(script),
        buffered: Some([TIMEOUT; 2]),
        stream: Some([TIMEOUT, Answer]),
    };
    vec![
        row("refused", Refused, UNAVAILABLE),
        row("unroutable", Unroutable, UNAVAILABLE),
        faulty("400", 400),
        faulty("413", 413),
        faulty("422", 422),
        row("401", error(401), UNAVAILABLE),
        row("402", error(402), UNAVAILABLE),
        row("403", error(403), BAD),
        row("404", error(404), BAD),
        row(
            "302",
            Plays(Script::error(302, "elsewhere").with("location", "http://127.0.0.1:1/")),
            BAD,
        ),
        row(
            "429",
            Plays(Script::error(429, "slow down").with("retry-after", "2")),
            LIMITED,
        ),
        row("529", error(529), OVERLOADED),
        row(
            "503-overloaded",
            Plays(Script::error(503, "The model is overloaded.")),
            OVERLOADED,
        ),
        row("500", error(500), BAD),
        row("502", error(502), BAD),
        row("503", error(503), BAD),
        row("reset", Plays(Script::new().reset()), BAD),
        row("closed", Plays(Script::new().close()), BAD),
        row(
            "no-http",
            Plays(Script::new().raw("220 smtp ready\r\n\r\n").close()),
            BAD,
        ),
        row(
            "html",
            Plays(Script::text(200, "text/html", "<html>a portal</html>")),
            BAD,
        ),
        row("empty", json_of(""), BAD),
        row("null", json_of("null"), BAD),
        row("malformed", json_of("{\"choices\": [{"), BAD),
        row("error-in-a-200", json_of(&broke.to_string()), BAD),
        row(
            "gzip",
            Plays(
                Script::text(200, "application/json", b"\x1f\x8b\x08\0")
                    .with("content-encoding", "gzip"),
            ),
            BAD,
        ),
        silence("silence", Script::silent()),
        buffered("half-reset", half().reset(), BAD, Answer),
        buffered("half-closed", half().close(), BAD, Answer),
        buffered("half-silence", half().stall(), TIMEOUT, TIMEOUT),
        buffered(
            "late",
            Script::new()
                .delay(Duration::from_millis(300))
                .and(Script::answer(ANSWER)),
            Answer,
            Answer,
        ),
        streamed("head-reset", Script::sse().reset(), BAD, Answer),
        streamed("head-closed", Script::sse().close(), BAD, Answer),
        streamed("head-silence", Script::sse().stall(), TIMEOUT, Answer),
        streamed("role-reset", role().reset(), BAD, Answer),
        streamed("role-silence", role().stall(), TIMEOUT, Answer),
        streamed(
            "error-first",
            Script::sse().event(&broke).done(),
            BAD,
            Answer,
        ),
        streamed("error-after-role", role().event(&broke).done(), BAD, Answer),
        streamed(
            "garbage-first",
            Script::sse().event("{oops").stall(),
            BAD,
            Answer,
        ),
        streamed("cut-reset", begun().reset(), TRUNCATED, TRUNCATED),
        streamed("cut-closed", begun().close(), TRUNCATED, TRUNCATED),
        streamed("cut-ended", begun().end(), TRUNCATED, TRUNCATED),
        streamed("cut-done", begun().done(), TRUNCATED, TRUNCATED),
        streamed(
            "cut-in-a-chunk",
            begun().raw("50\r\ndata: {\"cho").close(),
            TRUNCATED,
            TRUNCATED,
        ),
        streamed(
            "cut-without-framing",
            Script::new()
                .head(200, &[SSE])
                .words(0..2)
                .delay(BREATH)
                .close(),
            TRUNCATED,
            TRUNCATED,
        ),
        streamed(
            "error-later",
            begun().event(&broke).done(),
            Event("w0 w1 ", "bad_upstream_response"),
            Event("w0 w1 ", "bad_upstream_response"),
        ),
        streamed(
            "garbage-later",
            begun().event("{oops").stall(),
            Event("w0 w1 ", "bad_upstream_response"),
            Event("w0 w1 ", "bad_upstream_response"),
        ),
        streamed(
            "silence-later",
            begun().stall(),
            Event("w0 w1 ", "upstream_timeout"),
            Event("w0 w1 ", "upstream_timeout"),
        ),
        streamed(
            "no-done",
            Script::sse().words(0..3).event(finish("stop")).end(),
            Answer,
            Answer,
        ),
        // The head is sent to keep the caller, and yet the other target may still answer.
        streamed(
            "silence-past-the-head",
            Script::sse().stall(),
            Event("", "upstream_timeout"),
            Answer,
        ),
    ]
}

/// With a client's own retries: what its target plays in turn, what is seen, and how often the
/// gateway is asked.
struct Retried {
    name: &'static str,
    plays: Vec<Script>,
    stream: bool,
    /// The target has a second one behind it, which plays the same.
    two: bool,
    sees: Sees,
    requests: usize,
}

fn retried() -> Vec<Retried> {
    let error = |status| Script::error(status, "it said no");
    let limited = || error(429).with("retry-after", "1");
    let of = |name, plays, stream, two, sees, requests| Retried {
        name,
        plays,
        stream,
        two,
        sees,
        requests,
    };
    vec![
        of("retry-500", vec![error(500)], false, false, BAD, 3),
        of("retry-500-stream", vec![error(500)], true, false, BAD, 3),
        // The gateway has tried twice itself, and says that more does not help.
        of("retry-two-500", vec![error(500)], false, true, BAD, 1),
        of("retry-two-500-stream", vec![error(500)], true, true, BAD, 1),
        of("retry-two-429", vec![limited()], false, true, LIMITED, 1),
        of(
            "retry-once",
            vec![error(503), Script::answer(ANSWER)],
            false,
            false,
            Answer,
            2,
        ),
        of(
            "retry-once-stream",
            vec![error(503), Script::stream(3)],
            true,
            false,
            Answer,
            2,
        ),
        // Asked again any sooner, it would have got a second 429.
        of(
            "retry-429",
            vec![limited(), Script::answer(ANSWER)],
            false,
            false,
            Answer,
            2,
        ),
        of(
            "retry-429-stream",
            vec![limited(), Script::stream(3)],
            true,
            false,
            Answer,
            2,
        ),
        of(
            "retry-400",
            vec![error(400)],
            false,
            false,
            Status(400, ""),
            1,
        ),
        of(
            "retry-cut",
            vec![Script::sse().words(0..2).delay(BREATH).close()],
            true,
            false,
            TRUNCATED,
            1,
        ),
    ]
}

/// What a well mock says.
const ANSWER: &str = "Hello from the mock.";
const STREAM: &str = "w0 w1 w2 ";
/// Long enough that the pieces before it are with the caller, though the machine may stand still.
const BREATH: Duration = Duration::from_secs(3);
const WAYS: &[&str] = &["buffered", "stream", "helper"];
const TIMES: &str = "timeouts: { connect: 400ms, first_byte: 4s, idle: 6s, total: 9s }";
/// Only the row about it is silent for longer than `commit_after`.
const LONG: &str = "timeouts: { connect: 400ms, first_byte: 16s, idle: 15s, total: 40s }";

/// A model for each cell, and what its client is told.
struct Cells {
    catalog: Catalog,
    cases: Vec<Value>,
    /// How often the gateway must be asked for each model.
    requests: Vec<(String, usize)>,
    bad: Arc<Mock>,
    well: Mock,
    refusing: Mock,
    deaf: Mock,
}

impl Cells {
    async fn new() -> Cells {
        let bad = Arc::new(Mock::start().await);
        let (well, refusing, deaf) = (
            Mock::start().await,
            Mock::refusing().await,
            Mock::deaf().await,
        );
        let catalog = Catalog::new().account("well", &well);
        let mut cells = Cells {
            catalog,
            cases: Vec::new(),
            requests: Vec::new(),
            bad,
            well,
            refusing,
            deaf,
        };
        for row in rows() {
            for way in WAYS {
                let sees = if *way == "buffered" {
                    row.buffered
                } else {
                    row.stream
                };
                for (two, sees) in sees.into_iter().flatten().enumerate() {
                    let id = format!("{}-{way}-{}", row.name, ["alone", "two"][two]);
                    cells.add(&id, way, &row.outage, two == 1, sees);
                }
            }
        }
        for row in retried() {
            cells.add_retried(row);
        }
        cells
    }

    fn account(&mut self, id: &str, outage: &Outage) {
        let mock = match outage {
            Refused => &self.refusing,
            Unroutable => &self.deaf,
            Plays(script) => {
                self.bad.on(id, script.clone());
                &*self.bad
            }
        };
        let more = if id.starts_with("silence-past") {
            LONG
        } else {
            TIMES
        };
        self.catalog = self.catalog.clone().account_with(id, mock, more);
    }

    fn add(&mut self, id: &str, way: &str, outage: &Outage, two: bool, sees: Sees) {
        self.account(id, outage);
        let targets = if two { vec![id, "well"] } else { vec![id] };
        self.catalog = self.catalog.clone().model(id, &targets);
        self.case(id, way, false, sees, 1);
    }

    fn add_retried(&mut self, row: Retried) {
        let id = row.name;
        let second = format!("{id}-second");
        self.account(id, &Plays(Script::new()));
        // The last one is played for ever.
        let (bad, plays) = (Arc::downgrade(&self.bad), row.plays);
        self.bad.on_by(id, move |request| {
            let before = bad.upgrade().expect("a mock that answers").requests();
            let asked = before
                .iter()
                .filter(|one| one.number < request.number && one.model() == request.model())
                .count();
            plays[asked.min(plays.len() - 1)].clone()
        });
        let mut targets = vec![id.to_owned()];
        if row.two {
            self.account(&second, &Plays(Script::new()));
            targets.push(format!("{second}={id}"));
        }
        self.catalog = self
            .catalog
            .clone()
            .model(id, &targets.iter().map(String::as_str).collect::<Vec<_>>());
        self.case(
            id,
            if row.stream { "stream" } else { "buffered" },
            true,
            row.sees,
            row.requests,
        );
    }

    fn case(&mut self, id: &str, way: &str, retries: bool, sees: Sees, requests: usize) {
        let sees = match sees {
            Answer => {
                json!({"kind": "answer", "content": if way == "buffered" { ANSWER } else { STREAM }})
            }
            Status(status, code) => {
                json!({"kind": "status", "status": status, "code": (!code.is_empty()).then_some(code)})
            }
            Event(content, code) => json!({"kind": "event", "content": content, "code": code}),
        };
        self.cases
            .push(json!({"model": id, "way": way, "retries": retries, "sees": sees}));
        self.requests.push((id.to_owned(), requests));
    }
}

fn through_the_outages(program: &mut Command) {
    run_within(Duration::from_secs(120), async {
        let cells = Cells::new().await;
        let gateway = Gateway::with(&cells.catalog)
            .server("timeouts: { commit_after: 10s }")
            .start()
            .await;
        let cases = gateway.conf.join("cases.json");
        std::fs::write(&cases, json!(cells.cases).to_string()).expect("the cases");
        let output = run(program, &gateway, &cases);
        assert!(
            output.contains(&format!("{} outages ok", cells.cases.len())),
            "{output}"
        );
        let lines = gateway
            .access_lines_at_least(cells.requests.iter().map(|(_, wanted)| wanted).sum())
            .await;
        for (model, wanted) in &cells.requests {
            let asked = lines
                .iter()
                .filter(|line| line["model"] == model.as_str())
                .count();
            assert_eq!(asked, *wanted, "requests for {model}\n{output}");
        }
        assert!(cells.well.count() > 0, "the second target has answered");
    });
}

fn run(program: &mut Command, gateway: &Gateway, cases: &Path) -> String {
    program
        .env("BASE_URL", format!("http://{}/v1", gateway.address))
        .env("API_KEY", KEY)
        .env("CASES", cases);
    program.env("NO_PROXY", "*").current_dir(root());
    let mut client = Process::spawn(program);
    // The mocks run on other threads meanwhile.
    let status = client
        .wait(Duration::from_secs(100) * SLOWER)
        .expect("the client comes to an end");
    let output = String::from_utf8_lossy(&client.stdout()).into_owned();
    print!("{output}");
    assert!(status.success(), "{output}{}", client.stderr());
    output
}
