//! Each refusal as the callers of each front door get it, made from the code that writes it.

use std::time::Duration;

use dialects::front::{AnswerSoFar, FRONTS, Front};
use portcullis::error::{Refusal, What};
use serde_json::Value;

use super::{check, code, table};

#[test]
fn the_chapter_of_refusals_is_current() {
    // The array differs from the events of the same format in its streams only.
    let fronts: Vec<&Front> = FRONTS
        .into_iter()
        .filter(|front| front.name != "gemini_array")
        .collect();
    let rows = refusals().into_iter().map(|(case, refusal)| {
        let row = refusal.what.row();
        let cells = fronts.iter().map(|front| cell(&refusal, front));
        let named = row.code.map(code).unwrap_or_default();
        let cells: Vec<String> = [case.to_owned(), named].into_iter().chain(cells).collect();
        <[String; 6]>::try_from(cells).expect("four doors")
    });
    let head = [
        "Refusal",
        "`code`",
        "`chat`",
        "`messages`",
        "`responses`",
        "`gemini`",
    ];
    let names: Vec<_> = fronts.iter().map(|front| code(front.name)).collect();
    assert_eq!(names, head[2..]);
    let text = format!(
        "Each cell has the status, the type (at `gemini` the status in words), and the headers that say whether to try \
         again: *wait* is `retry-after`, *stop* is `x-should-retry: false`. At `gemini` the wait is also in \
         `error.details`. What each refusal means, and what to do: [Errors by code](../errors.md).\n\n{}\n\
         What clients do with them is measured: see [When something fails](../clients.md#when-something-fails). Codex stops at \
         a 429 without a wait, and it waits as long as it is told: so a wait of more than {} s is not told at \
         `responses`.\n\n## At the end of a stream\n\nAfter the head of a stream, a refusal is its last event. At `responses` it \
         is two events, `error` and `response.failed`. Programs know few codes of a response that failed, so these events \
         have one of the codes in this table. The message says what happened, as at the other doors.\n\n{}\n",
        table(head, rows),
        portcullis::error::MAX_RETRY_AFTER,
        table(
            ["Refusal", "`code`", "`code` in a stream of `responses`"],
            in_streams()
        )
    );
    check("refusals.md", "Refusals at each door", &text);
}

/// The refusals that can end a stream, each with its code in streams of Responses.
fn in_streams() -> impl Iterator<Item = [String; 3]> {
    let front: &Front = FRONTS
        .into_iter()
        .find(|front| front.name == "responses")
        .expect("a door");
    let can_end_a_stream = |what: &What| {
        matches!(
            what,
            What::CallersFault { .. }
                | What::NoCapacity
                | What::NobodyFit
                | What::AllRateLimited
                | What::UpstreamUnavailable
                | What::UpstreamRateLimited
                | What::UpstreamOverloaded
                | What::UpstreamTimeout
                | What::BadUpstreamResponse
                | What::UpstreamTruncated
                | What::ShuttingDown
                | What::Internal
        )
    };
    refusals()
        .into_iter()
        .filter(move |(_, refusal)| can_end_a_stream(&refusal.what))
        .map(move |(case, refusal)| {
            let answer = AnswerSoFar {
                id: "a",
                events: 2,
                has_begun: true,
                ..AnswerSoFar::default()
            };
            let text = String::from_utf8(refusal.event(front, "id", answer)).expect("text");
            let events: Vec<Value> = text
                .lines()
                .filter_map(|line| line.strip_prefix("data: "))
                .map(|data| serde_json::from_str(data).expect("JSON"))
                .collect();
            let [told, failed] = events.as_slice() else {
                panic!("{text}")
            };
            assert_eq!(told["code"], failed["response"]["error"]["code"], "{text}");
            let whole: Value = serde_json::from_slice(&refusal.body(front, "id")).expect("JSON");
            let named = whole["error"]["code"]
                .as_str()
                .map(code)
                .unwrap_or_default();
            [
                case.to_owned(),
                named,
                code(told["code"].as_str().expect("a code")),
            ]
        })
}

/// What one front door tells of a refusal. All of it must hold together.
fn cell(refusal: &Refusal, front: &Front) -> String {
    let status = refusal.status(front);
    let body: Value = serde_json::from_slice(&refusal.body(front, "id")).expect("JSON");
    let error = &body["error"];
    let kind = if front.name == "gemini" {
        &error["status"]
    } else {
        &error["type"]
    };
    let kind = kind.as_str().expect("a type");
    if front.name == "gemini" {
        assert_eq!(error["code"], status, "{refusal:?}");
    }
    let headers = refusal.headers(front);
    let has = |name: &str| {
        headers
            .iter()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value.as_ref())
    };
    let mut cell = format!("{status} {}", code(kind));
    for (name, word) in [("retry-after", "wait"), ("x-should-retry", "stop")] {
        if has(name).is_some() {
            cell.push_str(&format!(", *{word}*"));
        }
    }
    // Nobody is told to wait for what no waiting helps.
    assert!(has("x-should-retry").is_none_or(|value| value == "false"));
    if status == 401 {
        assert_eq!(
            (has("x-should-retry"), has("www-authenticate")),
            (Some("false"), Some("Bearer")),
            "{front:?}"
        );
    }
    // After the head, the same is an event.
    let answer = AnswerSoFar {
        id: "a",
        events: 2,
        has_begun: true,
        ..AnswerSoFar::default()
    };
    let event = String::from_utf8(refusal.event(front, "id", answer)).expect("text");
    assert!(
        event.contains(&error["message"].to_string()),
        "{front:?}: {event}"
    );
    cell
}

/// Every kind of refusal, and where its headers differ, each kind of these.
fn refusals() -> Vec<(&'static str, Refusal)> {
    let plain = |what: What| Refusal::new(what, "no");
    let limited = |what: What, seconds: Option<u64>| {
        Refusal::new(what, "no").again_in(seconds.map(Duration::from_secs))
    };
    vec![
        (
            "the request is wrong",
            plain(What::BadRequest { code: None }),
        ),
        ("no target can do what is asked", plain(What::Unsupported)),
        (
            "the upstream finds fault with the request",
            plain(What::CallersFault {
                status: 400,
                code: None,
            }),
        ),
        (
            "the prompt is too long",
            plain(What::CallersFault {
                status: 400,
                code: Some("context_length_exceeded".to_owned()),
            }),
        ),
        ("no valid key", Refusal::invalid_key()),
        ("no such path", plain(What::UnknownUrl)),
        ("no such model", Refusal::model_not_found("m")),
        (
            "no price is known, and money is limited",
            Refusal::price_unknown("m", "images"),
        ),
        (
            "another method",
            plain(What::MethodNotSupported { allow: "POST" }),
        ),
        ("a WebSocket", plain(What::NoWebSocket)),
        ("the body did not come in time", plain(What::BodyTimeout)),
        ("the body is too large", plain(What::TooLarge)),
        ("the path is too long", plain(What::TargetTooLong)),
        ("the body is not JSON", plain(What::UnsupportedMedia)),
        ("the headers are too large", plain(What::HeadersTooLarge)),
        (
            "an unknown transfer encoding",
            plain(What::UnknownCoding).in_vain(),
        ),
        (
            "a limit has room within a minute",
            limited(What::OverLimit, Some(30)),
        ),
        (
            "a limit has room later",
            limited(What::OverLimit, Some(3600)),
        ),
        (
            "a budget has room later",
            limited(What::OverBudget, Some(86_400)),
        ),
        (
            "a budget never has room again",
            limited(What::OverBudget, None),
        ),
        ("the store is down", plain(What::StoreDown).retry_after(1)),
        ("the ledger is busy", plain(What::NoLedger).retry_after(1)),
        ("there is no ledger", plain(What::NoLedger).in_vain()),
        (
            "an account that works has no room",
            plain(What::NoCapacity).retry_after(1),
        ),
        (
            "all accounts rest, or their breakers are open",
            plain(What::NobodyFit).retry_after(1),
        ),
        (
            "all accounts are rate limited",
            plain(What::AllRateLimited).retry_after(9),
        ),
        (
            "no account works until the operator acts",
            Refusal::for_the_operator(What::NobodyFit),
        ),
        (
            "the upstream cannot be reached",
            plain(What::UpstreamUnavailable).retry_after(5),
        ),
        (
            "the upstream refuses the account's credential",
            Refusal::for_the_operator(What::UpstreamUnavailable),
        ),
        (
            "the upstream is rate limiting",
            plain(What::UpstreamRateLimited).retry_after(9),
        ),
        ("the provider is overloaded", Refusal::overloaded()),
        ("the upstream is too slow", plain(What::UpstreamTimeout)),
        ("the upstream failed", plain(What::BadUpstreamResponse)),
        (
            "the upstream cut the answer",
            plain(What::UpstreamTruncated),
        ),
        (
            "the gateway shuts down",
            plain(What::ShuttingDown).retry_after(1),
        ),
        ("nobody can count the tokens", plain(What::NobodyCounts)),
        ("the gateway failed", plain(What::Internal)),
    ]
}

/// Whoever adds a kind of refusal is told by the compiler to add it to the table.
#[test]
fn no_refusal_is_missing() {
    let place = |what: &What| match what {
        What::UnknownUrl => 0,
        What::MethodNotSupported { .. } => 1,
        What::NoWebSocket => 2,
        What::InvalidKey => 3,
        What::ModelNotFound => 4,
        What::BadRequest { .. } => 5,
        What::Unsupported => 6,
        What::TooLarge => 7,
        What::UnsupportedMedia => 8,
        What::HeadersTooLarge => 9,
        What::TargetTooLong => 10,
        What::UnknownCoding => 11,
        What::BodyTimeout => 12,
        What::OverLimit => 13,
        What::OverBudget => 14,
        What::StoreDown => 15,
        What::NoCapacity => 16,
        What::AllRateLimited => 17,
        What::UpstreamUnavailable => 18,
        What::UpstreamRateLimited => 19,
        What::UpstreamTimeout => 20,
        What::BadUpstreamResponse => 21,
        What::UpstreamTruncated => 22,
        What::CallersFault { .. } => 23,
        What::ShuttingDown => 24,
        What::Internal => 25,
        What::NobodyCounts => 26,
        What::PriceUnknown => 27,
        What::NoLedger => 28,
        What::NobodyFit => 29,
        What::UpstreamOverloaded => 30,
        // Nobody reads this one.
        What::CallerLeft => usize::MAX,
    };
    let listed: std::collections::BTreeSet<usize> = refusals()
        .iter()
        .map(|(_, refusal)| place(&refusal.what))
        .collect();
    assert_eq!(listed, (0..31).collect());
}
