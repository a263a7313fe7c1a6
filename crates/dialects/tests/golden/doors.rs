//! The cases by the other front doors: the requests and the answers of each format's callers.
//!
//! `<door>.json` is a request as they write it: `<door>.written` has the request that each dialect
//! gets. Some recorded answers and streams have a file `<recorded>.<door>.out`. All others must
//! have the content of the answer at chat completions.

mod gemini;
mod messages;
mod responses;

use std::fs;

use dialects::front::{CHAT, Front, GEMINI, GEMINI_ARRAY, MESSAGES, RESPONSES};
use dialects::neutral::Undo;
use dialects::{AnswerFault, StreamFault};
use serde_json::Value;

use crate::differences::Differences;
use crate::drive::{self, Dialect, For};
use crate::files::{Case, Recorded, cases};
use crate::told::Told;
use crate::{bytes, dialect, shown, told, undo, upstream};

/// A front door, and how its clients read.
struct Door {
    front: &'static Front,
    /// Whether answers have files. The form of a stream is all that some doors differ in.
    has_files: bool,
    /// A request that asks to see all of the answer.
    plain: &'static str,
    whole: fn(&Value) -> Result<Told, String>,
    stream: fn(&str) -> Result<Told, String>,
    /// Returns the part of a chat completion's content that the door can show.
    tellable: fn(Told) -> Told,
}

const GEMINI_PLAIN: &str = concat!(
    r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"#,
    r#""generationConfig":{"thinkingConfig":{"includeThoughts":true}}}"#
);

static DOORS: [Door; 4] = [
    Door {
        front: &MESSAGES,
        has_files: true,
        plain: r#"{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#,
        whole: messages::message,
        stream: messages::stream,
        // A refusal is a text, and a reason.
        tellable: |mut told| {
            if !told.refusal.is_empty() {
                told.reason = "content_filter".to_owned();
            }
            said_as_text(told)
        },
    },
    Door {
        front: &RESPONSES,
        has_files: true,
        plain: r#"{"model":"m","input":"hi","reasoning":{"summary":"auto"}}"#,
        whole: responses::response,
        stream: responses::stream,
        tellable: |mut told| {
            if matches!(told.reason.as_str(), "stop" | "tool_calls") {
                told.reason = "completed".to_owned();
            }
            told
        },
    },
    Door {
        front: &GEMINI,
        has_files: true,
        plain: GEMINI_PLAIN,
        whole: gemini::response,
        stream: gemini::events,
        tellable: of_gemini,
    },
    Door {
        front: &GEMINI_ARRAY,
        has_files: false,
        plain: GEMINI_PLAIN,
        whole: gemini::response,
        stream: gemini::array,
        tellable: of_gemini,
    },
];

fn of_gemini(mut told: Told) -> Told {
    if told.reason == "tool_calls" {
        told.reason = "stop".to_owned();
    }
    said_as_text(told)
}

fn said_as_text(mut told: Told) -> Told {
    told.text += &std::mem::take(&mut told.refusal);
    told
}

/// The cases whose answers have files.
const ANSWERED: [&str; 10] = [
    "text",
    "parallel-calls",
    "calls-at-once",
    "thinking",
    "cached",
    "cited",
    "blocked",
    "refused-in-words",
    "picture-out",
    "length-in-a-call",
];

/// The fault that breaks the clients of most doors, but not those of chat completions.
const BROKEN_CALL: &str = "the arguments of a call are no JSON object";

#[test]
fn requests() {
    let mut differences = Differences::default();
    for case in cases() {
        for door in &DOORS {
            let name = door.front.name;
            let Some(request) = case.request(&format!("{name}.json")) else {
                continue;
            };
            differences.compare(
                &case.path.join(format!("{name}.written")),
                Some(&written(&case, door, &request)),
            );
        }
    }
    differences.none();
}

/// Returns the request for each dialect. A request that equals an earlier one names the earlier
/// one.
fn written(case: &Case, door: &Door, request: &str) -> String {
    let mut all = String::new();
    let mut seen: Vec<(String, &str)> = Vec::new();
    for dialect in drive::all() {
        let model = case.model(dialect.name, dialect.model);
        let (sent, refused) = shown(dialect.write(door.front, &model, request, &[]));
        let text = sent.or(refused).expect("one of both");
        // The path may be another.
        let same = text
            .split_once('\n')
            .map(|(head, rest)| match head.strip_prefix("POST ") {
                Some(_) => rest.replace(&format!(r#""model":"{model}""#), r#""model":"…""#),
                None => text.clone(),
            });
        let same = same.expect("lines");
        all += &format!("== {}\n", dialect.name);
        match seen.iter().find(|(before, _)| *before == same) {
            Some((_, name)) => all += &format!("as {name}\n\n"),
            None => all += &format!("{text}\n"),
        }
        seen.push((same, dialect.name));
    }
    all
}

#[test]
fn answers() {
    let mut differences = Differences::default();
    for door in &DOORS {
        for case in cases() {
            for recorded in case.recorded(".answer") {
                let dialect = dialect(&recorded);
                let found = match answer(&case, door, dialect, &recorded) {
                    Ok(body) => format!("{body}\n"),
                    Err(AnswerFault::Nonsense(why)) => format!("!nonsense {why}\n"),
                    Err(AnswerFault::Upstream(error)) => upstream(&error),
                };
                compare(&case, door, &recorded, &found, &mut differences);
                if let Err(why) = same_answer(&case, door, dialect, &recorded) {
                    differences.add(format!(
                        "{:?} {}/{}: {why}\n{found}",
                        door.front,
                        case.name(),
                        recorded.file
                    ));
                }
            }
        }
    }
    differences.none();
}

#[test]
fn streams() {
    let mut differences = Differences::default();
    for door in &DOORS {
        for case in cases() {
            for recorded in case.recorded(".stream") {
                let dialect = dialect(&recorded);
                let bytes = bytes(&recorded);
                let (to, model) = (
                    of(&case, door, dialect),
                    case.model(dialect.name, dialect.model),
                );
                let (found, _) = stream(dialect, &to, &model, &mut [&*bytes].into_iter());
                compare(&case, door, &recorded, &found, &mut differences);
                if let Err(why) = same_stream(&case, door, dialect, &bytes) {
                    differences.add(format!(
                        "{:?} {}/{}: {why}\n{found}",
                        door.front,
                        case.name(),
                        recorded.file
                    ));
                }
            }
        }
    }
    differences.none();
}

/// The two forms of Gemini's streams have equal chunks.
#[test]
fn an_array_has_the_chunks_of_the_events() {
    let [.., events, array] = &DOORS;
    for case in cases() {
        for recorded in case.recorded(".stream") {
            let (dialect, bytes) = (dialect(&recorded), bytes(&recorded));
            let model = case.model(dialect.name, dialect.model);
            let of = |door: &Door| {
                stream(
                    dialect,
                    &of(&case, door, dialect),
                    &model,
                    &mut [&*bytes].into_iter(),
                )
            };
            if let ((events, true), false) = (of(events), passes(events, dialect)) {
                let chunks: Vec<&str> = events
                    .split_terminator("\n\n")
                    .filter_map(|event| event.strip_prefix("data: "))
                    .collect();
                let expected = format!("[{}]\n", chunks.join(",\n"));
                assert_eq!(of(array).0, expected, "{}/{}", case.name(), recorded.file);
            }
        }
    }
}

/// The caller's bytes do not depend on how a stream is cut into reads, and a stream that ends too
/// soon never looks complete.
#[test]
fn cuts() {
    for door in &DOORS {
        for case in cases()
            .into_iter()
            .filter(|case| ANSWERED.contains(&case.name().as_str()))
        {
            for recorded in case.recorded(".stream") {
                let (dialect, bytes) = (dialect(&recorded), bytes(&recorded));
                if has_own_form(door, dialect) {
                    continue;
                }
                let name = format!("{:?} {}/{}", door.front, case.name(), recorded.file);
                let (to, model) = (
                    of(&case, door, dialect),
                    case.model(dialect.name, dialect.model),
                );
                let stream =
                    |pieces: &mut dyn Iterator<Item = &[u8]>| stream(dialect, &to, &model, pieces);
                let (whole, _) = stream(&mut [&*bytes].into_iter());
                assert_eq!(stream(&mut bytes.chunks(1)).0, whole, "{name} byte by byte");
                let mut before = (String::new(), true);
                for at in 0..bytes.len() {
                    let (head, tail) = bytes.split_at(at);
                    let halves = stream(&mut [head, tail].into_iter());
                    assert_eq!(halves.0, whole, "{name} cut at {at}");
                    let ended = stream(&mut [head].into_iter());
                    if ended == before {
                        continue;
                    }
                    before = ended;
                    let (said, is_whole) = &before;
                    match ((door.stream)(said), is_whole) {
                        // Nothing but the counts may be missing.
                        (Ok(told), true) => {
                            let all = (door.stream)(&whole).expect("a stream");
                            let Told {
                                prompt, completion, ..
                            } = told;
                            assert_eq!(
                                told,
                                Told {
                                    prompt,
                                    completion,
                                    ..all
                                },
                                "{name} ends at {at}"
                            );
                        }
                        (Err(_), false) => {}
                        (read, _) => {
                            panic!("{name} ends at {at}: whole: {is_whole}, and {read:?}\n{said}")
                        }
                    }
                }
            }
        }
    }
}

fn compare(
    case: &Case,
    door: &Door,
    recorded: &Recorded,
    found: &str,
    differences: &mut Differences,
) {
    if door.has_files && ANSWERED.contains(&case.name().as_str()) {
        let file = format!("{}.{}.out", recorded.file, door.front.name);
        differences.compare(&recorded.path.with_file_name(file), Some(found));
    }
}

/// Whether answers pass through but for the spans that must change.
fn passes(door: &Door, dialect: Dialect) -> bool {
    matches!(
        (door.front.name, dialect.name),
        ("messages", "anthropic")
            | ("responses", "responses")
            | ("gemini" | "gemini_array", "gemini")
    )
}

/// Returns the caller, and the changes that reading an answer must undo: the changes of the case's
/// request, and the parts of the door's own request that its answer repeats.
fn of(case: &Case, door: &Door, dialect: Dialect) -> For {
    let own = case.request(&format!("{}.json", door.front.name));
    let model = case.model(dialect.name, dialect.model);
    let echo = dialect.write(
        door.front,
        &model,
        own.as_deref().unwrap_or(door.plain),
        &[],
    );
    let echo = echo.ok().and_then(|sent| sent.undo.echo);
    // Who speaks the dialect's own format gets its answers as they are.
    let undo = if passes(door, dialect) {
        Undo::default()
    } else {
        undo(case, dialect)
    };
    For(door.front, Undo { echo, ..undo })
}

fn answer(
    case: &Case,
    door: &Door,
    dialect: Dialect,
    recorded: &Recorded,
) -> Result<String, AnswerFault> {
    let body = fs::read(&recorded.path).expect("a file");
    let model = case.model(dialect.name, dialect.model);
    let (answer, _) = dialect.answer(of(case, door, dialect), &model, body.trim_ascii_end())?;
    Ok(String::from_utf8(answer.body).expect("UTF-8"))
}

/// Returns the caller's bytes, and whether the stream is complete.
fn stream(
    dialect: Dialect,
    to: &For,
    model: &str,
    pieces: &mut dyn Iterator<Item = &[u8]>,
) -> (String, bool) {
    let streamed = dialect.stream(to.clone(), model, pieces);
    (told(&streamed), streamed.end.is_ok())
}

/// Checks that an answer, and the stream that it becomes, have the content of the chat completion.
fn same_answer(
    case: &Case,
    door: &Door,
    dialect: Dialect,
    recorded: &Recorded,
) -> Result<(), String> {
    let body = fs::read(&recorded.path).expect("a file");
    let (body, model) = (
        body.trim_ascii_end(),
        case.model(dialect.name, dialect.model),
    );
    let chat = match dialect.answer(For(&CHAT, undo(case, dialect)), &model, body) {
        Ok((answer, _)) => Told::of_chat(&serde_json::from_slice(&answer.body).expect("JSON")),
        Err(fault) => {
            let ours = answer(case, door, dialect, recorded)
                .err()
                .ok_or("no fault")?;
            return if fault == ours {
                Ok(())
            } else {
                Err(format!("{fault:?} and {ours:?}"))
            };
        }
    };
    let ours = match answer(case, door, dialect, recorded) {
        Ok(body) => serde_json::from_str(&body).expect("JSON"),
        Err(AnswerFault::Nonsense(BROKEN_CALL)) => return Ok(()),
        Err(fault) => return Err(format!("{fault:?}")),
    };
    if is_other(case, door, dialect) {
        return Ok(());
    }
    let chat = tellable(door, dialect, chat);
    same(&chat, &(door.whole)(&ours)?)?;
    let converted = dialect
        .converted(of(case, door, dialect), &model, body)
        .map_err(|fault| format!("{fault:?}"))?;
    same(
        &chat,
        &(door.stream)(&String::from_utf8(converted.body).expect("UTF-8"))?,
    )
}

fn same_stream(case: &Case, door: &Door, dialect: Dialect, bytes: &[u8]) -> Result<(), String> {
    let model = case.model(dialect.name, dialect.model);
    let chat = dialect.stream(For(&CHAT, undo(case, dialect)), &model, [bytes].into_iter());
    let ours = dialect.stream(of(case, door, dialect), &model, [bytes].into_iter());
    let out = String::from_utf8(ours.out).expect("UTF-8");
    match (&chat.end, &ours.end) {
        (Ok(_), Err(StreamFault::Broken(BROKEN_CALL))) => return Ok(()),
        (Ok(counted), Ok(same)) if counted == same => {}
        (Err(fault), Err(same)) if fault == same => {
            return if (door.stream)(&out).is_ok() {
                Err("it looks whole".to_owned())
            } else {
                Ok(())
            };
        }
        (chat, ours) => return Err(format!("{chat:?} and {ours:?}")),
    }
    if is_other(case, door, dialect) {
        return Ok(());
    }
    let chat = Told::of_chunks(&String::from_utf8(chat.out).expect("UTF-8"));
    same(&tellable(door, dialect, chat), &(door.stream)(&out)?)
}

/// Returns the part of a chat completion's content that a door can show. A refusal that passes has
/// no text.
fn tellable(door: &Door, dialect: Dialect, mut chat: Told) -> Told {
    if passes(door, dialect) {
        chat.refusal.clear();
    }
    (door.tellable)(chat)
}

/// Whether an answer passes that is odd on purpose, or in which the gateway's own tool would become
/// the text, or a name the caller's: no caller of this format has asked for that.
fn is_other(case: &Case, door: &Door, dialect: Dialect) -> bool {
    let undo = undo(case, dialect);
    let is_odd = case.name().starts_with("odd-");
    has_own_form(door, dialect)
        || passes(door, dialect) && (is_odd || undo.format_tool.is_some() || !undo.names.is_empty())
}

/// Whether an answer of Google's or OpenAI's passes, which has not the form of ours: `passes` and
/// `responses_pass` have tests of it.
fn has_own_form(door: &Door, dialect: Dialect) -> bool {
    passes(door, dialect) && door.front.name != "messages"
}

fn same(chat: &Told, ours: &Told) -> Result<(), String> {
    if chat == ours {
        Ok(())
    } else {
        Err(format!("chat tells\n  {chat:?}\nand this\n  {ours:?}"))
    }
}
