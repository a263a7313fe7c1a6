//! The faults, and the rules that say what must come of each: what follows from its class, from
//! when it comes, and from whether anybody else is there.

use std::ops::RangeInclusive;

use super::words::{Dialect, FIRST, PIECES, SECOND, Scene, Voice};
use crate::support::Script;
use crate::support::script::JSON;

/// What a failure is, and with that all that follows from it.
#[derive(Debug, Clone, PartialEq)]
pub enum Class {
    /// It is none.
    Sound,
    /// The caller's own, with this status.
    Caller(u16),
    Credential,
    /// This account does not serve this model.
    Refused,
    /// Too many requests, and after so many seconds there may be more.
    Rate(RangeInclusive<u64>),
    /// The provider has no room now, whoever asks.
    Overloaded,
    /// Nobody was there.
    Unreachable,
    /// It took too long, and there is time left for somebody else.
    Late,
    /// It took all the time that there is.
    TooLate,
    /// A server's failure, or an answer that is none.
    Bad,
    /// An answer without its end.
    Cut,
}

use Class::{
    Bad, Caller, Credential, Cut, Late, Overloaded, Rate, Refused, Sound, TooLate, Unreachable,
};

impl Class {
    /// Whether another candidate may answer, as long as the caller has nothing.
    fn goes_on(&self) -> bool {
        match self {
            Sound | Caller(_) | TooLate => false,
            Credential | Refused | Rate(_) | Overloaded | Unreachable | Late | Bad | Cut => true,
        }
    }

    /// The calls, and the failed ones among them, that the breaker counts.
    fn counts(&self) -> (u64, u64) {
        match self {
            Sound => (1, 0),
            Caller(_) | Credential | Refused | Rate(_) => (0, 0),
            Overloaded | Unreachable | Late | TooLate | Bad | Cut => (1, 1),
        }
    }

    /// Why the account rests after it, and for how many seconds at least.
    fn rest(&self) -> Option<(&'static str, u64)> {
        match self {
            Credential => Some(("credential", 60)),
            Rate(wait) => Some(("rate", *wait.start())),
            Sound | Caller(_) | Refused | Overloaded | Unreachable | Late | TooLate | Bad | Cut => {
                None
            }
        }
    }

    /// Status and code where it is the caller's answer, or the code alone where an answer has
    /// begun.
    fn shown(&self, begun: bool) -> (u16, &'static str) {
        let (status, code) = match self {
            Sound => (200, ""),
            Caller(status) => (*status, ""),
            Credential | Unreachable => (503, "upstream_unavailable"),
            Rate(_) => (429, "upstream_rate_limited"),
            Overloaded => (503, "upstream_overloaded"),
            Late | TooLate => (504, "upstream_timeout"),
            Cut if begun => (502, "upstream_truncated"),
            Refused | Bad | Cut => (502, "bad_upstream_response"),
        };
        (if begun { 200 } else { status }, code)
    }

    /// How the exchange ends with it.
    fn outcome(&self, begun: bool) -> &'static str {
        match self {
            Sound => "ok",
            Caller(_) => "refused",
            Late | TooLate => "upstream_timeout",
            Cut if begun => "upstream_cut",
            Credential | Unreachable | Refused | Rate(_) | Overloaded | Bad | Cut => {
                "upstream_error"
            }
        }
    }

    fn retry_after(&self) -> Option<RangeInclusive<u64>> {
        match self {
            Rate(wait) => Some(wait.clone()),
            Overloaded => Some(1..=1),
            // How long is not laid down; no SDK heeds more than a minute.
            Unreachable => Some(1..=60),
            Credential | Sound | Caller(_) | Refused | Late | TooLate | Bad | Cut => None,
        }
    }
}

/// How an attempt goes.
#[derive(Debug, Clone)]
pub struct Course {
    /// The word for it in the access line.
    pub word: &'static str,
    pub class: Class,
    /// Pieces that the caller has seen before.
    pub seen: usize,
    /// The upstream has told what the answer cost before.
    counted: bool,
    /// The account's time-outs, where they are what ends it.
    pub timeouts: &'static str,
}

fn course(word: &'static str, class: Class) -> Course {
    Course {
        word,
        class,
        seen: 0,
        counted: false,
        timeouts: "",
    }
}

impl Course {
    fn after(self, seen: usize) -> Course {
        Course { seen, ..self }
    }

    fn after_usage(self) -> Course {
        Course {
            seen: PIECES,
            counted: true,
            ..self
        }
    }

    fn within(self, timeouts: &'static str) -> Course {
        Course { timeouts, ..self }
    }
}

/// What the upstream does.
pub enum Does {
    RefusesConnections,
    AcceptsNone,
    /// Takes the connection, and says nothing to a handshake.
    ShakesNoHands,
    /// Has a certificate that nobody vouches for.
    IsAStranger,
    Says(fn(&Scene) -> Script),
    /// Says it when it has read the head of a large request, and nothing of its body.
    SaysEarly(fn(&Scene) -> Script),
}

/// A row of the table.
pub struct Fault {
    pub name: &'static str,
    pub does: Does,
    /// Where a stream is asked for; or why that makes no sense.
    pub stream: Result<Course, &'static str>,
    /// Where a whole answer is.
    pub whole: Result<Course, &'static str>,
    /// Of which dialects it cannot be said, and why.
    pub not: &'static [(Dialect, &'static str)],
}

const NO_EVENTS: &str = "a buffered answer has no events";

impl Fault {
    fn not(self, not: &'static [(Dialect, &'static str)]) -> Fault {
        Fault { not, ..self }
    }

    /// Whether it moves megabytes.
    pub fn is_heavy(&self) -> bool {
        matches!(self.does, Does::SaysEarly(_)) || self.name == "long-line"
    }

    /// Whether a request reaches the upstream.
    fn is_asked(&self) -> bool {
        matches!(self.does, Does::Says(_) | Does::SaysEarly(_))
    }
}

fn both(name: &'static str, does: Does, course: Course) -> Fault {
    Fault {
        name,
        does,
        stream: Ok(course.clone()),
        whole: Ok(course),
        not: &[],
    }
}

fn each(name: &'static str, does: Does, stream: Course, whole: Course) -> Fault {
    Fault {
        name,
        does,
        stream: Ok(stream),
        whole: Ok(whole),
        not: &[],
    }
}

fn streams(name: &'static str, does: Does, course: Course) -> Fault {
    Fault {
        name,
        does,
        stream: Ok(course),
        whole: Err(NO_EVENTS),
        not: &[],
    }
}

/// The table.
#[rustfmt::skip]
pub fn faults() -> Vec<Fault> {
    use Does::{Says, SaysEarly};
    use Dialect::{Anthropic, Bedrock, Gemini, OpenAi};
    // A wait that is not laid down, but for its bounds.
    const SOME: RangeInclusive<u64> = 1..=60;
    const OWN_END: &str = "its finish is its end";
    let limited = |wait| course("rate_limited", Rate(wait));
    vec![
        both("sound", Says(Scene::sound), course("ok", Sound)),
        // No connection.
        both("refused", Does::RefusesConnections, course("unreachable", Unreachable)),
        both("unroutable", Does::AcceptsNone, course("connect_timeout", Unreachable).within("connect: 500ms")),
        both("tls-stall", Does::ShakesNoHands, course("connect_timeout", Unreachable).within("connect: 500ms")),
        both("tls-stranger", Does::IsAStranger, course("tls", Bad)),
        // No head. A whole answer's comes with its body: it is waited for until the time of all is
        // over.
        each("header-stall", Says(|_| Script::silent()),
            course("first_byte_timeout", Late).within("first_byte: 500ms"), course("total_timeout", TooLate).within("total: 1s")),
        both("reset", Says(|_| Script::new().reset()), course("reset", Bad)),
        // Another status than 200.
        both("401", Says(|s| s.dialect.error(401)), course("credential", Credential)),
        both("403", Says(|s| s.dialect.error(403)), course("refused", Refused)),
        both("404", Says(|s| s.dialect.error(404)), course("refused", Refused)),
        both("429-seconds", Says(|s| s.dialect.error(429).with("retry-after", "30")), limited(30..=30)),
        both("429-date", Says(|s| s.dialect.error(429).with("retry-after", &in_seconds(55))), limited(10..=55)),
        both("429-ms", Says(|s| s.dialect.error(429).with("retry-after-ms", "25500")), limited(26..=26)),
        both("429-absurd", Says(|s| s.dialect.error(429).with("retry-after", "1000000000")), limited(60..=60)),
        both("429-none", Says(|s| s.dialect.error(429)), limited(SOME)),
        both("429-provider", Says(|s| s.dialect.quota_used_up(55)), limited(10..=55)).not(&[(Bedrock, "it tells of no quota")]),
        both("500", Says(|s| s.dialect.error(500)), course("status", Bad)),
        both("502", Says(|s| s.dialect.error(502)), course("status", Bad)),
        both("503", Says(|s| s.dialect.error(503)), course("status", Bad)),
        both("529", Says(|s| s.dialect.error(529)), course("overloaded", Overloaded)),
        // A 200 that is no answer.
        both("html", Says(|_| Script::text(200, "text/html", format!("<html>{}</html>", super::words::MARK))), course("nonsense", Bad)),
        both("error-json", Says(|s| Script::json(200, &s.dialect.error_body(500))), course("error_in_answer", Bad)),
        both("broken-json", Says(|s| Script::text(200, JSON.1, s.half())), course("nonsense", Bad)),
        each("empty", Says(|s| if s.stream { s.head().end() } else { Script::text(200, JSON.1, "") }), course("cut", Cut), course("nonsense", Bad)),
        both("gzip", Says(|s| s.sound().with("content-encoding", "gzip")), course("nonsense", Bad)),
        both("long-line", Says(Scene::endless), course("nonsense", Bad)),
        // Within an answer.
        streams("error-first", Says(|s| s.head().body(s.error_event()).end()), course("error_in_answer", Bad)),
        streams("error-after-role", Says(|s| s.role().body(s.error_event()).end()), course("error_in_answer", Bad)),
        streams("error-after-3", Says(|s| s.begun(3).body(s.error_event()).end()), course("error_in_answer", Bad).after(3)),
        streams("cut-after-role", Says(|s| s.role().close()), course("cut", Cut)),
        streams("cut-after-1", Says(|s| s.begun(1).close()), course("cut", Cut).after(1)),
        each("cut-after-3", Says(|s| if s.stream { s.begun(3).close() } else { s.head().body(s.half()).close() }),
            course("cut", Cut).after(3), course("cut", Cut)),
        each("stall-after-head", Says(|s| s.head().stall()),
            course("idle_timeout", Late).within("idle: 700ms"), course("total_timeout", TooLate).within("total: 1s")),
        each("stall-after-2", Says(|s| s.begun_at_once().stall()),
            course("idle_timeout", Late).after(2).within("idle: 4s"), course("total_timeout", TooLate).within("total: 1s")),
        streams("malformed-first", Says(|s| s.head().body(s.malformed_event()).end()), course("nonsense", Bad)),
        streams("malformed-after-2", Says(|s| s.begun(2).body(s.malformed_event()).end()), course("nonsense", Bad).after(2)),
        streams("no-finish", Says(|s| s.begun(3).end()), course("cut", Cut).after(3)),
        // Many servers that speak OpenAI's format leave it out: who said why it ended is at its
        // end.
        streams("no-done", Says(Scene::without_mark), course("ok", Sound))
            .not(&[(Anthropic, "row no-message-stop"), (Gemini, OWN_END), (Bedrock, OWN_END)]),
        streams("no-message-stop", Says(Scene::without_mark), course("cut", Cut).after_usage())
            .not(&[(OpenAi, "row no-done"), (Gemini, OWN_END), (Bedrock, OWN_END)]),
        each("reset-mid-chunk", Says(|s| if s.stream { s.begun(3) } else { s.head() }.raw("1000\r\ndata: {\"").reset()),
            course("cut", Cut).after(3), course("cut", Cut)),
        // While the request is still going up. One closes without having read it, the other reads
        // on.
        both("early-413", SaysEarly(|s| s.dialect.error(413).close()), course("callers_fault", Caller(413))),
        both("early-429", SaysEarly(|s| s.dialect.error(429).with("retry-after", "30")), limited(30..=30)),
    ]
}

fn in_seconds(seconds: u64) -> String {
    httpdate::fmt_http_date(std::time::SystemTime::now() + std::time::Duration::from_secs(seconds))
}

/// What the caller must see.
#[derive(Debug, PartialEq)]
pub enum Seen {
    /// An error in the standard's format, with this `type` and code.
    Error(&'static str, Option<&'static str>),
    /// What [`Response`](crate::support::client::Response) comes down to.
    Answer(Vec<String>),
}

/// All that must come of one cell.
pub struct Expected {
    /// Accounts, by their places, and how each attempt ended.
    pub trail: Vec<(usize, &'static str)>,
    /// Requests that reach each of them.
    pub asked: [usize; 2],
    pub status: u16,
    pub seen: Seen,
    pub retry_after: Option<RangeInclusive<u64>>,
    /// Another try changes nothing.
    pub in_vain: bool,
    pub outcome: &'static str,
    /// Prompt, completion, and who counted.
    pub usage: (u64, u64, &'static str),
    /// What the breakers have counted.
    pub counted: [(u64, u64); 2],
    /// Why the first one rests, and for how many seconds at least.
    pub rest: Option<(&'static str, u64)>,
}

/// The rules.
pub fn expected(
    fault: &Fault,
    course: &Course,
    dialect: Dialect,
    stream: bool,
    two: bool,
) -> Expected {
    let Course {
        word, class, seen, ..
    } = course;
    let begun = *seen > 0;
    let goes_on = two && !begun && class.goes_on();
    let (status, code) = if goes_on {
        (200, "")
    } else {
        class.shown(begun)
    };
    let answers = if goes_on {
        Some(SECOND)
    } else {
        Some(FIRST).filter(|_| *class == Sound)
    };
    let code = match class {
        Caller(_) => dialect.too_large(),
        _ => Some(code),
    };
    let what = match answers {
        Some(voice) => Seen::Answer(whole(voice, stream)),
        None if begun => Seen::Answer(part(*seen, code.unwrap_or_default())),
        None => Seen::Error(
            if let Caller(_) = class {
                "invalid_request_error"
            } else {
                "upstream_error"
            },
            code,
        ),
    };
    Expected {
        trail: [Some((0, *word)), goes_on.then_some((1, "ok"))]
            .into_iter()
            .flatten()
            .collect(),
        asked: [usize::from(fault.is_asked()), usize::from(goes_on)],
        status,
        seen: what,
        retry_after: class.retry_after().filter(|_| !goes_on && !begun),
        // A certificate does not change by itself; nor a limit before clients have given up: what
        // is absurd is told as a minute.
        in_vain: !goes_on
            && !begun
            && (*class == Credential || *class == Rate(60..=60) || *word == "tls"),
        outcome: if goes_on { "ok" } else { class.outcome(begun) },
        usage: match answers {
            Some(voice) => (voice.prompt, voice.completion, "reported"),
            None if course.counted => (FIRST.prompt, FIRST.completion, "reported"),
            None if begun => so_far(dialect, *seen),
            // Nobody answered, so nobody counted.
            None => (0, 0, "none"),
        },
        counted: [class.counts(), if goes_on { (1, 0) } else { (0, 0) }],
        rest: class.rest(),
    }
}

/// A whole answer: its pieces apart where they come apart, why it ended, what it cost, and the
/// stream's end.
fn whole(voice: Voice, stream: bool) -> Vec<String> {
    let pieces = if stream {
        voice.pieces().to_vec()
    } else {
        vec![voice.pieces().concat()]
    };
    let usage = format!(
        "usage {}+{}={}",
        voice.prompt,
        voice.completion,
        voice.prompt + voice.completion
    );
    let ends = ["finish stop".to_owned(), usage]
        .into_iter()
        .chain(stream.then(|| "[DONE]".to_owned()));
    ["role".to_owned()]
        .into_iter()
        .chain(pieces)
        .chain(ends)
        .collect()
}

/// A stream that broke: what had come, and one error.
fn part(seen: usize, code: &str) -> Vec<String> {
    let pieces = FIRST.pieces().into_iter().take(seen);
    ["role".to_owned()]
        .into_iter()
        .chain(pieces)
        .chain([format!("error upstream_error {code}")])
        .collect()
}

/// What the upstream had counted, and a quarter of the bytes where it had not.
fn so_far(dialect: Dialect, seen: usize) -> (u64, u64, &'static str) {
    let (prompt, completion) = dialect.counted(FIRST, seen);
    let said: usize = FIRST.pieces().iter().take(seen).map(String::len).sum();
    let source = if prompt.and(completion).is_some() {
        "reported"
    } else {
        "estimated"
    };
    let estimate = |bytes: usize| bytes.div_ceil(4) as u64;
    (
        prompt.unwrap_or(estimate(super::PROMPT.len())),
        completion.unwrap_or(estimate(said)),
        source,
    )
}
