//! The judge is judged: what a caller must never see is a failure of the run.

use std::time::Instant;

use super::books::Seen;
use super::callers::{Ask, judge};
use super::speech::Text;
use super::{Sample, drift};
use crate::support::client::{End, Response};

fn ask(stream: bool) -> Ask {
    Ask {
        number: 7,
        model: "m",
        stream,
        body: String::new(),
    }
}

fn text(request: u64, upstream: &str) -> Text {
    Text {
        request,
        upstream: upstream.to_owned(),
        serial: 3,
        pieces: 3,
        pad: 2,
    }
}

fn response(status: u16, body: &str, end: End) -> Response {
    let kind = if status == 200 && body.starts_with("data: ") {
        "text/event-stream"
    } else {
        "application/json"
    };
    let fields = [
        ("x-request-id", "soak-7"),
        ("content-type", kind),
        ("retry-after", "1"),
    ];
    let fields = fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    Response {
        status,
        fields,
        body: body.as_bytes().to_vec(),
        end: Some(end),
        informational: Vec::new(),
        at: Instant::now(),
    }
}

fn buffered(content: &str) -> String {
    format!(
        r#"{{"model":"m","choices":[{{"message":{{"content":"{content}"}},"finish_reason":"stop"}}],"usage":{{"total_tokens":1}}}}"#
    )
}

fn piece(content: &str) -> String {
    format!(
        "data: {{\"model\":\"m\",\"choices\":[{{\"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

const FINISH: &str =
    "data: {\"model\":\"m\",\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const ERROR: &str =
    "data: {\"error\":{\"message\":\"injected\",\"type\":\"t\",\"param\":null,\"code\":null}}\n\n";

#[test]
fn the_judge_of_the_soak_knows_what_is_broken() {
    let (own, other) = (text(7, "a"), text(7, "b"));
    let (first, second, third) = (
        piece(&own.piece(0)),
        piece(&own.piece(1)),
        piece(&own.piece(2)),
    );
    let all = format!("{first}{second}{third}");
    let error = &ERROR["data: ".len()..];
    let good = [
        (false, 200, buffered(&own.whole()), Seen::Whole),
        (
            true,
            200,
            format!("{all}: alive\n\n{FINISH}{DONE}"),
            Seen::Whole,
        ),
        (
            true,
            200,
            format!("{first}{second}{ERROR}"),
            Seen::ErrorEvent,
        ),
        (true, 200, ERROR.to_owned(), Seen::ErrorEvent),
        (false, 503, error.to_owned(), Seen::Status(503)),
        (true, 400, error.to_owned(), Seen::Status(400)),
    ];
    for (stream, status, body, seen) in good {
        assert_eq!(
            judge(&ask(stream), &response(status, &body, End::Whole)),
            Ok(seen),
            "{body}"
        );
    }
    let bad = [
        (
            "another's answer",
            false,
            200,
            buffered(&text(8, "a").whole()),
        ),
        ("a part of an answer", false, 200, buffered(&own.piece(0))),
        (
            "two answers in one",
            false,
            200,
            buffered(&format!("{}{}", own.whole(), other.whole())),
        ),
        ("nothing", false, 200, buffered("")),
        (
            "two upstreams spliced",
            true,
            200,
            format!("{first}{}{third}{FINISH}{DONE}", piece(&other.piece(1))),
        ),
        (
            "a piece twice",
            true,
            200,
            format!("{first}{first}{second}{third}{FINISH}{DONE}"),
        ),
        (
            "a piece left out, and finished",
            true,
            200,
            format!("{first}{third}{FINISH}{DONE}"),
        ),
        (
            "a piece left out, and an error",
            true,
            200,
            format!("{first}{third}{ERROR}"),
        ),
        ("no end", true, 200, all.clone()),
        ("no [DONE]", true, 200, format!("{all}{FINISH}")),
        ("no finish", true, 200, format!("{all}{DONE}")),
        (
            "two finishes",
            true,
            200,
            format!("{all}{FINISH}{FINISH}{DONE}"),
        ),
        ("two errors", true, 200, format!("{first}{ERROR}{ERROR}")),
        (
            "an error, then more",
            true,
            200,
            format!("{first}{ERROR}{second}"),
        ),
        (
            "an error, then [DONE]",
            true,
            200,
            format!("{first}{ERROR}{DONE}"),
        ),
        (
            "a finish, then an error",
            true,
            200,
            format!("{all}{FINISH}{ERROR}"),
        ),
        ("a status that is not allowed", false, 500, error.to_owned()),
        ("an upstream's 401", false, 401, error.to_owned()),
        (
            "no standard error",
            false,
            502,
            "{\"error\":\"no\"}".to_owned(),
        ),
        (
            "a 400 that no upstream said",
            false,
            400,
            error.replace("injected", "ours"),
        ),
    ];
    for (what, stream, status, body) in bad {
        assert!(
            judge(&ask(stream), &response(status, &body, End::Whole)).is_err(),
            "{what}"
        );
    }
    let whole = format!("{all}{FINISH}{DONE}");
    assert!(
        judge(&ask(true), &response(200, &whole, End::Cut)).is_err(),
        "cut"
    );
    let mut strange = response(200, &whole, End::Whole);
    strange.fields[0].1 = "soak-8".to_owned();
    assert!(judge(&ask(true), &strange).is_err(), "another's request id");
}

#[test]
fn drift_tells_a_leak_from_a_busy_machine() {
    // 100 s; in their second half, perhaps, three times the connections; each with 40 KiB; and so
    // many bytes that are lost each second.
    let samples = |lost: f64, busy: bool| -> Vec<Sample> {
        let sample = |n: u32| {
            let descriptors = 200 + 10 * (n as usize % 7) + if busy && n > 50 { 400 } else { 0 };
            let memory = 50e6 + 40960.0 * descriptors as f64 + lost * f64::from(n);
            Sample {
                at: f64::from(n),
                memory: memory as u64,
                ledger: 0,
                descriptors,
                threads: 1,
            }
        };
        (0..=100).map(sample).collect()
    };
    for (lost, busy) in [
        (0.0, false),
        (0.0, true),
        (100_000.0, false),
        (100_000.0, true),
    ] {
        let found = drift(&samples(lost, busy));
        assert!(
            (found - lost * 100.0).abs() < 10_000.0,
            "{found} instead of {} (busy: {busy})",
            lost * 100.0
        );
    }
}
