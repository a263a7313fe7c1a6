//! The fields of the access line, from the tables that every test compares with real lines.

use super::{check, code, table};
use crate::support::documented::{ATTEMPT, ATTEMPT_OUTCOMES, Field, LINE, OUTCOMES, check_line};
use crate::support::{Gateway, Mock, Script, chat, run};

#[test]
fn the_chapter_of_the_access_line_is_current() {
    let about = "One line is written for each request, at its end, however it ends; not for `/livez` and `/readyz`. It holds no text of a prompt or \
                 an answer, no query string and no key. `log.access` in [server.yaml](server-yaml.md#log) says where lines go. With `log.format: \
                 text` a line has the most important fields only.";
    let words = |words: &[(&str, &str)]| {
        table(
            ["Outcome", "Meaning"],
            words
                .iter()
                .map(|(word, meaning)| [code(word), (*meaning).to_owned()]),
        )
    };
    let text = format!(
        "{about}\n\n## Fields\n\n{}\n## Attempts\n\nEach element of `attempts`, in the order in which they ended.\n\n{}\n## Outcomes of requests\n\n{}\
         \n## Outcomes of attempts\n\n{}",
        fields(LINE),
        fields(ATTEMPT),
        words(OUTCOMES),
        words(ATTEMPT_OUTCOMES)
    );
    check("access-line.md", "Access line", &text);
}

fn fields(fields: &[Field]) -> String {
    let row = |field: &Field| {
        let when = if field.when.is_empty() {
            "always"
        } else {
            field.when
        };
        [
            code(field.name),
            when.to_owned(),
            code(field.example),
            field.meaning.to_owned(),
        ]
    };
    table(
        ["Field", "There", "Example", "Meaning"],
        fields.iter().map(row),
    )
}

/// The other way round: each field and each outcome of the tables is a word of the code.
#[test]
fn every_documented_field_of_the_access_line_is_written() {
    let source = super::source();
    for field in LINE.iter().chain(ATTEMPT) {
        let (as_field, as_word) = (
            format!("pub {}: ", field.name),
            format!("\"{}\"", field.name),
        );
        assert!(
            source.contains(&as_field) || source.contains(&as_word),
            "nothing writes {}",
            field.name
        );
    }
    for (word, _) in OUTCOMES.iter().chain(ATTEMPT_OUTCOMES) {
        assert!(
            source.contains(&format!("\"{word}\"")),
            "nothing writes the outcome {word}"
        );
    }
}

/// What every test does at its end would see a field that the book does not name, one that is
/// missing, and a new outcome.
#[test]
fn a_line_with_another_field_is_seen() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::answer("ok"));
        let gateway = Gateway::over(&mock).await;
        let answer = gateway.post(&chat("m")).await;
        let line = gateway.line_of(&answer).await;
        assert_eq!(check_line(&line), Ok(()));
        let mut more = line.clone();
        more["mood"] = "good".into();
        let mut less = line.clone();
        less.as_object_mut().expect("a line").remove("own_us");
        let mut other = line.clone();
        other["attempts"][0]["outcome"] = "splendid".into();
        for (line, named) in [(more, "mood"), (less, "own_us"), (other, "splendid")] {
            let why = check_line(&line).expect_err(named);
            assert!(why.contains(named), "{why}");
        }
    });
}
