//! The endpoints without a conversation: the bodies that pass to each dialect that has them, and
//! back.
//!
//! In the folder `other_endpoints`, a file is a door. `=== request` begins a caller's request to a
//! path, and `=== answer` the answer of an account's server. After each stands its result, with
//! `--- ` before the dialects that give it: `UPDATE_GOLDEN=1` writes the results anew. Lines of
//! forms end with CRLF on their way, and with LF here.

use bytes::Bytes;
use dialects::front::form::{self, FormRead};
use dialects::front::{AnswerSoFar, CallerError, DOORS, Fault, Front};
use dialects::neutral::answer::AnswerOptions;
use dialects::usage::{Source, Usage};
use dialects::wire::multipart::FormScanner;
use dialects::{
    AnswerFault, AnswerHeader, Dialect, ErrorHead, Protocol, Recipient, Settings, Stream,
    StreamFault, Translate,
};

use crate::differences::Differences;
use crate::drive::DIALECTS;
use crate::files::root;
use crate::upstream;

/// The name of the model at the accounts, which needs care in paths and in JSON.
const MODEL: &str = "up/a \"1\"";

#[test]
fn requests_and_answers_of_other_endpoints() {
    let mut differences = Differences::default();
    let doors = DOORS
        .into_iter()
        .filter(|front| front.only_endpoint.is_some());
    // Vectors have a folder of their own.
    for front in doors.filter(|front| !front.name.contains("embed")) {
        let path = root().join(format!("other_endpoints/{}.txt", front.name));
        let text = std::fs::read_to_string(&path).expect("a file for each door");
        let mut found = String::new();
        for section in format!("\n{}", text.trim_end_matches('\n'))
            .split("\n=== ")
            .skip(1)
        {
            let (head, rest) = section.split_once('\n').expect("a head");
            let given = rest.split("\n--- ").next().expect("what is given");
            // The end of a stream is an empty line.
            let given = if head.ends_with("stream") {
                format!("{}\n\n", given.trim_end())
            } else {
                given.to_owned()
            };
            found += &format!("=== {head}\n{}\n", given.trim_end());
            let all = match head.split_once(' ').expect("words") {
                ("request", path) => requests(front, path, &given),
                ("answer", kind) => answers(front, kind, &given),
                (other, _) => panic!("{other}"),
            };
            assert!(!all.is_empty(), "{head}");
            // A result that several dialects share stands there once.
            for (number, (dialect, outcome)) in all.iter().enumerate() {
                found += &format!("--- {dialect}\n");
                if all.get(number + 1).is_none_or(|(_, next)| next != outcome) {
                    found += &format!("{}\n", outcome.trim_end());
                }
            }
        }
        differences.compare(&path, Some(&found));
    }
    differences.none();
}

/// The dialects that have the door's kind of endpoint, as columns of a table.
fn dialects(front: &Front) -> Vec<(String, Dialect)> {
    let kind = front.only_endpoint.expect("one kind");
    let versions = |name| {
        if name == "azure" {
            vec![Some("2024-10-21"), None]
        } else {
            vec![None]
        }
    };
    let all = DIALECTS.into_iter().flat_map(|dialect| {
        versions(dialect.name)
            .into_iter()
            .map(move |v| (dialect, v))
    });
    let has = all.filter(|(dialect, _)| {
        let protocol = Protocol::find(dialect.name).expect("a dialect");
        protocol.for_endpoint(kind).is_some()
    });
    let spoken = has.map(|(dialect, version)| {
        let settings = Settings {
            version: version.map(Into::into),
            ..Settings::NONE
        };
        let protocol = Protocol::find(dialect.name).expect("a dialect");
        let name = format!("{} {}", dialect.name, version.unwrap_or_default());
        (
            name.trim_end().to_owned(),
            Dialect::new(protocol, settings).for_endpoint(kind),
        )
    });
    spoken.collect()
}

fn requests(front: &'static Front, path: &str, given: &str) -> Vec<(String, String)> {
    let asked = front
        .route(path, None)
        .unwrap_or_else(|| panic!("{path} leads elsewhere"));
    let told = |fault: Fault| {
        format!(
            "400 {} {}\n{}",
            word(&fault.param),
            word(&fault.code),
            fault.message
        )
    };
    if !front.is_form() {
        let read = front.request(Bytes::copy_from_slice(given.as_bytes()), asked);
        return match read {
            Ok((body, envelope)) => dialects(front)
                .into_iter()
                .map(|(name, dialect)| {
                    let sent = dialect
                        .write(&Translate::new(&body, &envelope, MODEL))
                        .expect("it passes");
                    assert!(sent.losses.names().is_empty());
                    let body = String::from_utf8(sent.body.concat()).expect("UTF-8");
                    (format!("{name} POST {}", sent.path), body)
                })
                .collect(),
            Err(fault) => vec![("nobody".to_owned(), told(fault))],
        };
    }
    let form = given.replace('\n', "\r\n") + "\r\n";
    let boundary = form
        .split("\r\n")
        .next()
        .expect("a line")
        .strip_prefix("--")
        .expect("a boundary");
    let scanned = |size: usize| {
        let mut scanner = FormScanner::new(boundary, form::form_field_reading);
        form.as_bytes()
            .chunks(size)
            .try_for_each(|piece| scanner.feed(piece))
            .map_err(form::form_fault)?;
        form::read_form(
            front,
            &scanner.finish().map_err(form::form_fault)?,
            &asked,
            form.len(),
        )
    };
    let read = match (scanned(1), scanned(form.len())) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one, other);
            one
        }
        (one, other) => {
            let [one, other] = [one, other].map(|read| read.err().map(told));
            assert_eq!(one, other);
            return vec![("nobody".to_owned(), one.expect("a fault"))];
        }
    };
    let FormRead {
        envelope,
        places,
        names_model,
        ..
    } = read;
    assert!(names_model, "the form names the model");
    let place = places.into_iter().next().expect("a place");
    let name = Bytes::copy_from_slice(form[place.clone()].as_bytes());
    let written = |(title, dialect): (String, Dialect)| {
        let sent = dialect
            .write(&Translate::new(&name, &envelope, MODEL))
            .expect("it passes");
        let model = String::from_utf8(sent.body.concat()).expect("UTF-8");
        let lines = [&form[..place.start], &model, &form[place.end..]].concat();
        let shown = lines.replace("\r\n", "\n");
        (
            format!("{title} POST {}", sent.path),
            shown.trim_end().to_owned(),
        )
    };
    dialects(front).into_iter().map(written).collect()
}

fn answers(front: &'static Front, kind: &str, given: &str) -> Vec<(String, String)> {
    let (status, kind) = kind.split_once(' ').expect("a status and a type");
    let status: u16 = status.parse().expect("a status");
    let answered = |dialect: &Dialect, show_usage: bool| {
        let header = AnswerHeader {
            model: "m".into(),
            id: format!("{}golden", front.id_prefix),
            show_usage,
            prompt_bytes: if front.is_form() { 0 } else { 40 },
            ..AnswerHeader::default()
        };
        let to = Recipient {
            front,
            header: &header,
            options: AnswerOptions::default(),
        };
        let estimated = Usage {
            source: Source::Estimated,
            ..Usage::default()
        };
        match kind {
            _ if status != 200 => {
                let head = ErrorHead {
                    status,
                    content_type: Some(kind),
                    error_type: None,
                };
                error(front, dialect, &head, given)
            }
            "application/json" => match dialect.answer(MODEL, &to, given.as_bytes()) {
                Ok((answer, _)) => {
                    format!(
                        "{}\n{}",
                        used(&answer.usage),
                        String::from_utf8(answer.body).expect("UTF-8")
                    )
                }
                Err(AnswerFault::Nonsense(why)) => format!("!nonsense {why}"),
                Err(AnswerFault::Upstream(error)) => upstream(&error),
            },
            _ if front.gives_bytes() => streamed(
                || Stream::bytes(kind.as_bytes(), estimated, 1 << 16),
                given,
                false,
            ),
            _ => streamed(|| dialect.stream(MODEL, to.clone(), 1 << 16), given, true),
        }
    };
    let all = dialects(front);
    let mut found: Vec<_> = all
        .iter()
        .map(|(name, dialect)| (name.clone(), answered(dialect, true)))
        .collect();
    for ((name, dialect), (_, with_usage)) in all.iter().zip(found.clone()) {
        let without = answered(dialect, false);
        if without != with_usage {
            found.push((
                format!("{name}, for callers who did not ask for the usage"),
                without,
            ));
        }
    }
    found
}

/// Reads a stream, cut in each way. A stream that ends too soon has a part of the answer, and never
/// looks complete if its format has an end.
fn streamed(new: impl Fn() -> Stream, given: &str, says_its_end: bool) -> String {
    let read = |mut pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut stream, mut out) = (new(), Vec::new());
        let fed = (&mut pieces).try_for_each(|piece| stream.feed(piece, &mut out));
        let end = fed.and_then(|()| stream.finish(&mut out, None));
        (String::from_utf8(out).expect("UTF-8"), end)
    };
    let whole = read(&mut [given.as_bytes()].into_iter());
    assert_eq!(read(&mut given.as_bytes().chunks(1)), whole, "byte by byte");
    // Only the counts may be missing.
    let says = |text: &str| {
        text.lines()
            .filter(|line| !line.contains(r#""choices":[],"#))
            .collect::<String>()
    };
    for at in 0..given.len() {
        let (said, end) = read(&mut [&given.as_bytes()[..at]].into_iter());
        match end {
            Ok(_) if says_its_end => assert_eq!(says(&said), says(&whole.0), "cut at {at}"),
            Ok(_) => assert!(given.starts_with(&said), "cut at {at}: {said}"),
            Err(_) => assert!(whole.0.starts_with(&said), "cut at {at}: {said}"),
        }
    }
    let (out, end) = whole;
    let end = match end {
        Ok(usage) => used(&usage),
        Err(StreamFault::Cut) => "!cut".to_owned(),
        Err(StreamFault::Broken(why)) => format!("!broken {why}"),
        Err(StreamFault::Upstream(error)) => upstream(&error).trim_end().to_owned(),
    };
    format!("{end}\n{out}")
}

/// Returns the gateway's reading of an error, and the error that callers get if the request is at
/// fault.
fn error(front: &Front, dialect: &Dialect, head: &ErrorHead<'_>, body: &str) -> String {
    let error = dialect.error(front, head, body.as_bytes());
    let status = dialect.true_status(head.status, &error);
    let told = CallerError {
        status,
        kind: "invalid_request_error",
        code: error.code.as_deref(),
        param: error.param.as_deref(),
        message: &error.message,
        request_id: "r",
        retry_after: None,
        answer: AnswerSoFar::default(),
    };
    let body = String::from_utf8((front.errors.body)(&told)).expect("UTF-8");
    let read = upstream(&error).replace("!upstream -", &format!("!upstream {status}"));
    if status == 400 {
        format!("{read}{body}")
    } else {
        read.trim_end().to_owned()
    }
}

/// Returns the usage of an answer.
fn used(usage: &Usage) -> String {
    let mut all = vec![format!(
        "tokens {}+{} {}",
        usage.prompt,
        usage.completion,
        usage.source.name()
    )];
    let units = usage.units;
    let counts = [
        (units.requests, "requests"),
        (units.images, "images"),
        (units.millis, "milliseconds"),
        (units.characters, "characters"),
    ];
    all.extend(
        counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}")),
    );
    format!("({})", all.join(", "))
}

fn word(word: &Option<impl ToString>) -> String {
    word.as_ref()
        .map_or_else(|| "-".to_owned(), ToString::to_string)
}
