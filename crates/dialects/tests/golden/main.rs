//! The dialects by examples: a caller's request, the request that each provider gets, each
//! provider's answer, and the answer that the caller gets.
//!
//! A folder is a case. `request.json` is the caller's request. `<dialect>.request` is the
//! provider's, byte by byte after a blank line; `<dialect>.refused` is the reason why the provider
//! gets none.
//!
//! `<dialect>[.<what>].answer` and `.stream` are as providers send them (Bedrock's streams as
//! lines, which are framed here), and `.out` next to them is the answer that the caller gets.
//! `second.json` is a second turn, after the answer of the first. The module `doors` explains the
//! files of the other front doors. `UPDATE_GOLDEN=1` writes the files and removes them, and a
//! person reads them before they are taken. `tests/sdk/python/golden` has the verdicts of the
//! providers' own packages.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::too_many_arguments,
    clippy::unwrap_used,
    reason = "a test may fail loudly; the lints guard what runs in production"
)]

mod cited;
mod differences;
mod doors;
mod drive;
mod errors;
mod files;
mod frames;
#[path = "../support/models.rs"]
mod models;
mod other_endpoints;
mod passes;
mod responses_pass;
mod shape;
mod table;
mod told;
mod vectors;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dialects::front::{CHAT, Front};
use dialects::neutral::Refused;
use dialects::neutral::answer::Kept;
use dialects::{AnswerFault, StreamFault, UpstreamError};
use serde_json::Value;

use differences::Differences;
use drive::{DIALECTS, Dialect, For, Sent, Streamed};
use files::{Case, Recorded, cases, repository, root};

#[test]
fn requests() {
    let mut differences = Differences::default();
    for case in cases() {
        let Some(request) = case.request("request.json") else {
            continue;
        };
        for dialect in drive::all() {
            written(&case, dialect, (&CHAT, &request, ""), &[], &mut differences);
        }
    }
    differences.none();
}

#[test]
fn second_turns() {
    let mut differences = Differences::default();
    for case in cases() {
        let Some(request) = case.request("second.json") else {
            continue;
        };
        for dialect in DIALECTS {
            let Some(recorded) = case
                .recorded(".answer")
                .into_iter()
                .find(|recorded| recorded.dialect == dialect.name)
            else {
                continue;
            };
            let (_, kept) = answered(&case, dialect, &recorded).expect("an answer");
            let stream = case
                .recorded(".stream")
                .into_iter()
                .find(|recorded| recorded.dialect == dialect.name);
            if let Some(recorded) = stream {
                let bytes = bytes(&recorded);
                let streamed = streamed(&case, dialect, &mut [&*bytes].into_iter());
                if drive::shown(&streamed.kept) != drive::shown(&kept) {
                    differences.add(format!(
                        "{}: a stream and an answer leave different thoughts",
                        case.name()
                    ));
                }
            }
            differences.compare(
                &case.path.join(format!("{}.kept", dialect.name)),
                Some(&drive::shown(&kept))
                    .filter(|text| !text.is_empty())
                    .map(|text| text.as_str()),
            );
            // Callers send back the ids that they got, which are the ids of the recorded answer.
            written(
                &case,
                dialect,
                (&CHAT, &request, "second."),
                &kept,
                &mut differences,
            );
        }
    }
    differences.none();
}

/// Compares the requests that a front door's request becomes. Vertex gets Gemini's request, and has
/// files only where it does not.
fn written(
    case: &Case,
    dialect: Dialect,
    (front, request, which): (&'static Front, &str, &str),
    kept: &[Kept],
    differences: &mut Differences,
) {
    let file = |ending: &str| case.path.join(format!("{}.{which}{ending}", dialect.name));
    let model = case.model(dialect.name, dialect.model);
    let (sent, refused) = shown(dialect.write(front, &model, request, kept));
    if dialect.name == "vertex" && !file("request").exists() && !file("refused").exists() {
        let gemini = DIALECTS[3];
        let (same, same_refused) =
            shown(gemini.write(front, &case.model(gemini.name, gemini.model), request, kept));
        let body = |text: &Option<String>| {
            text.as_deref()
                .and_then(|text| text.split_once('\n'))
                .map(|(_, rest)| rest.to_owned())
        };
        if (body(&sent), &refused) == (body(&same), &same_refused) {
            return;
        }
    }
    differences.compare(&file("request"), sent.as_deref());
    differences.compare(&file("refused"), refused.as_deref());
}

/// The texts of the two files, of which there is one.
fn shown(written: Result<Sent, Refused>) -> (Option<String>, Option<String>) {
    match written {
        Ok(Sent {
            path,
            dropped,
            body,
            ..
        }) => {
            let dropped = if dropped.is_empty() {
                String::new()
            } else {
                format!("dropped: {}\n", dropped.join(", "))
            };
            (Some(format!("POST {path}\n{dropped}\n{body}\n")), None)
        }
        Err(Refused::Invalid(complaint)) => (
            None,
            Some(format!(
                "invalid {}\n{}\n",
                complaint.param, complaint.message
            )),
        ),
        Err(Refused::Unsupported(complaint)) => (
            None,
            Some(format!(
                "unsupported {}\n{}\n",
                complaint.param, complaint.message
            )),
        ),
    }
}

#[test]
fn answers() {
    let mut differences = Differences::default();
    for case in cases() {
        for recorded in case.recorded(".answer") {
            let dialect = dialect(&recorded);
            let found = match answered(&case, dialect, &recorded) {
                Ok((body, _)) => {
                    if let Err(why) = shape::answer(&body, dialect.passes()) {
                        differences.add(format!(
                            "{}/{}: {why}\n{body}",
                            case.name(),
                            recorded.file
                        ));
                    }
                    let stream = converted(&case, dialect, &recorded);
                    if let Err(why) = shape::stream(&stream, dialect.passes()) {
                        differences.add(format!(
                            "{}/{} as a stream: {why}\n{stream}",
                            case.name(),
                            recorded.file
                        ));
                    }
                    format!("{body}\n")
                }
                Err(AnswerFault::Nonsense(why)) => format!("!nonsense {why}\n"),
                Err(AnswerFault::Upstream(error)) => upstream(&error),
            };
            differences.compare(&out(&recorded), Some(&found));
        }
    }
    differences.none();
}

#[test]
fn streams() {
    let mut differences = Differences::default();
    for case in cases() {
        for recorded in case.recorded(".stream") {
            let dialect = dialect(&recorded);
            let bytes = bytes(&recorded);
            let found = told(&streamed(&case, dialect, &mut [&*bytes].into_iter()));
            let judged = match found
                .rsplit_once("\n\n")
                .map(|(events, end)| (format!("{events}\n\n"), end))
            {
                Some((events, "")) => shape::stream(&events, dialect.passes()),
                Some((events, _)) => shape::beginning(&events, dialect.passes()),
                None => Ok(()),
            };
            if let Err(why) = judged {
                differences.add(format!("{}/{}: {why}\n{found}", case.name(), recorded.file));
            }
            differences.compare(&out(&recorded), Some(&found));
        }
    }
    differences.none();
}

/// Each reason for which a buffered answer can end is a reason of streams, too, with an equal
/// meaning.
#[test]
fn reasons() {
    let text = Case {
        path: root().join("text"),
    };
    let stops = Case {
        path: root().join("stops"),
    };
    for recorded in stops.recorded(".answer") {
        let dialect = dialect(&recorded);
        let (place, usual) = match dialect.name {
            "anthropic" => ("/stop_reason", "end_turn"),
            "gemini" => ("/candidates/0/finishReason", "STOP"),
            "bedrock" => ("/stopReason", "end_turn"),
            "cohere" => ("/finish_reason", "COMPLETE"),
            "ollama" => ("/done_reason", "stop"),
            other => panic!("{other}"),
        };
        let json = |path: &Path| {
            serde_json::from_str::<Value>(&fs::read_to_string(path).expect("text")).expect("JSON")
        };
        let word = json(&recorded.path)
            .pointer(place)
            .and_then(|word| word.as_str().map(str::to_owned))
            .expect("a reason");
        // No reason at all: whole JSON is whole without one, but a stream may have been cut.
        if word == "FINISH_REASON_UNSPECIFIED" {
            continue;
        }
        let meant = json(&out(&recorded))["choices"][0]["finish_reason"].clone();

        let stream = text
            .text(&format!("{}.stream", dialect.name))
            .expect("a stream")
            .replace(&format!("\"{usual}\""), &format!("\"{word}\""));
        let bytes = if dialect.name == "bedrock" {
            frames::encode(&stream)
        } else {
            stream.into_bytes()
        };
        let told = told(&streamed(&text, dialect, &mut [&*bytes].into_iter()));
        assert!(
            told.contains(&format!(
                "\"delta\":{{}},\"logprobs\":null,\"finish_reason\":{meant}"
            )),
            "{}: {meant}\n{told}",
            recorded.file
        );
    }
}

/// The caller's bytes do not depend on how a stream is cut into reads.
#[test]
fn cuts() {
    for case in cases() {
        for recorded in case.recorded(".stream") {
            let dialect = dialect(&recorded);
            let bytes = bytes(&recorded);
            let whole = streamed(&case, dialect, &mut [&*bytes].into_iter());
            let one_by_one = streamed(&case, dialect, &mut bytes.chunks(1));
            assert_eq!(
                told(&one_by_one),
                told(&whole),
                "{}/{} byte by byte",
                case.name(),
                recorded.file
            );
            assert_eq!(one_by_one, whole);
            for at in 0..=bytes.len() {
                let (head, tail) = bytes.split_at(at);
                let halves = streamed(&case, dialect, &mut [head, tail].into_iter());
                assert_eq!(
                    told(&halves),
                    told(&whole),
                    "{}/{} cut at {at}",
                    case.name(),
                    recorded.file
                );
                assert_eq!(halves, whole);
            }
        }
    }
}

/// A stream that ends too soon never looks whole, wherever it ends.
#[test]
fn ends() {
    for case in cases() {
        for recorded in case.recorded(".stream") {
            let dialect = dialect(&recorded);
            let bytes = bytes(&recorded);
            // Google's streams have no other end than a finish reason, and here something follows
            // it.
            if (case.name().as_str(), recorded.file.as_str()) == ("odd-streams", "gemini.stream") {
                continue;
            }
            let whole = told(&streamed(&case, dialect, &mut [&*bytes].into_iter()));
            for at in 0..bytes.len() {
                let cut = streamed(&case, dialect, &mut [&bytes[..at]].into_iter());
                let said = String::from_utf8_lossy(&cut.out);
                if cut.end.is_ok() {
                    // Only parts without content may be missing: the counts, or the last line's
                    // end.
                    let without_usage = |text: &str| {
                        text.split_inclusive("\n\n")
                            .filter(|event| !event.contains(r#""choices":[],"#))
                            .collect::<String>()
                    };
                    assert_eq!(
                        without_usage(&said),
                        without_usage(&whole),
                        "{}/{} ends at {at}",
                        case.name(),
                        recorded.file
                    );
                } else {
                    assert!(
                        !said.contains("[DONE]"),
                        "{}/{} ends at {at}",
                        case.name(),
                        recorded.file
                    );
                }
            }
        }
    }
}

#[test]
fn the_book_has_the_tables() {
    let mut differences = Vec::new();
    for (name, new) in table::markdown() {
        let chapter = if name == "dialect" {
            "providers"
        } else {
            "doors"
        };
        let chapter = repository().join(format!("docs/src/{chapter}.md"));
        let text = fs::read_to_string(&chapter).expect("a chapter");
        let mark = format!("<!-- {name} table -->\n");
        let [before, old, after] = text.split(&mark).collect::<Vec<_>>()[..] else {
            panic!("{mark} stands twice in the chapter")
        };
        if old != new && std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(chapter, [before, &new, after].join(&mark)).expect("written");
        } else if old != new {
            differences.push(name);
        }
    }
    assert!(
        differences.is_empty(),
        "the cases show other tables; UPDATE_GOLDEN=1 writes them: {differences:?}"
    );
}

/// The providers' own packages judge all of it. `tests/sdk/setup.sh` installs them.
#[test]
fn judged_by_the_packages_of_the_providers() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let frames = target.join("golden-frames");
    fs::create_dir_all(&frames).expect("a folder");
    for case in cases() {
        for recorded in case
            .recorded(".stream")
            .into_iter()
            .filter(|recorded| recorded.dialect == "bedrock")
        {
            fs::write(
                frames.join(format!("{}.{}", case.name(), recorded.file)),
                bytes(&recorded),
            )
            .expect("written");
        }
    }
    let venv = target
        .parent()
        .expect("the target folder")
        .join("sdk/python-validators");
    assert!(
        venv.join(".made-from").exists(),
        "{} is not there: run tests/sdk/setup.sh",
        venv.display()
    );
    let mut python = Command::new(venv.join("bin/python"));
    python
        .current_dir(repository())
        .arg("tests/sdk/python/golden")
        .args([root(), frames]);
    let output = python.output().expect("Python");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "\n{}",
        String::from_utf8_lossy(&said)
    );
}

fn dialect(recorded: &Recorded) -> Dialect {
    drive::all()
        .find(|dialect| dialect.name == recorded.dialect)
        .expect("a dialect")
}

/// A recorded stream as it is on the wire.
fn bytes(recorded: &Recorded) -> Vec<u8> {
    let text = fs::read_to_string(&recorded.path).expect("text");
    if recorded.dialect == "bedrock" {
        frames::encode(&text)
    } else {
        text.into_bytes()
    }
}

fn out(recorded: &Recorded) -> PathBuf {
    recorded
        .path
        .with_file_name(format!("{}.out", recorded.file))
}

/// Returns the changes of the case's request that its answer must undo, if it has one.
fn undo(case: &Case, dialect: Dialect) -> dialects::neutral::Undo {
    let request = case.request("request.json");
    let model = case.model(dialect.name, dialect.model);
    let sent = request.and_then(|request| dialect.write(&CHAT, &model, &request, &[]).ok());
    sent.map(|sent| sent.undo).unwrap_or_default()
}

fn answered(
    case: &Case,
    dialect: Dialect,
    recorded: &Recorded,
) -> Result<(String, Vec<Kept>), AnswerFault> {
    let body = fs::read(&recorded.path).expect("a file");
    let (answer, kept) = dialect.answer(
        For::chat(undo(case, dialect)),
        &case.model(dialect.name, dialect.model),
        body.trim_ascii_end(),
    )?;
    Ok((String::from_utf8(answer.body).expect("UTF-8"), kept))
}

fn converted(case: &Case, dialect: Dialect, recorded: &Recorded) -> String {
    let body = fs::read(&recorded.path).expect("a file");
    let answer = dialect.converted(
        For::chat(undo(case, dialect)),
        &case.model(dialect.name, dialect.model),
        body.trim_ascii_end(),
    );
    String::from_utf8(answer.expect("an answer").body).expect("UTF-8")
}

fn streamed(case: &Case, dialect: Dialect, pieces: &mut dyn Iterator<Item = &[u8]>) -> Streamed {
    dialect.stream(
        For::chat(undo(case, dialect)),
        &case.model(dialect.name, dialect.model),
        pieces,
    )
}

/// Returns the caller's bytes, and their end.
fn told(streamed: &Streamed) -> String {
    let mut said = String::from_utf8(streamed.out.clone()).expect("UTF-8");
    match &streamed.end {
        Ok(_) => {}
        Err(StreamFault::Cut) => said.push_str("!cut\n"),
        Err(StreamFault::Broken(why)) => said.push_str(&format!("!broken {why}\n")),
        Err(StreamFault::Upstream(error)) => said.push_str(&upstream(error)),
    }
    said
}

/// An upstream's error, as it was read: status, type, code, message.
fn upstream(error: &UpstreamError) -> String {
    let status = error
        .status
        .map_or("-".to_owned(), |status| status.to_string());
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".to_owned());
    format!(
        "!upstream {status} {} {} {}\n",
        word(&error.kind),
        word(&error.code),
        error.message
    )
}
