//! What a provider counts for an answer that reaches nobody is in the books, to the token: every
//! way in which an answer can be none × dialect × door × {stream, whole answer}.
//!
//! `words` has what the upstream of each dialect says. Each cell has a model and an account of its
//! own, so that no breaker of one keeps another away.

pub(crate) mod words;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::{Catalog, Gateway, Mock, Script, eventually, join_all, run_within};

use words::{COMPLETION, DIALECTS, Dialect, PROMPT, WAYS, Way};

/// So many cells are asked at once.
const AT_ONCE: usize = 24;
const DOORS: [&str; 4] = ["chat", "messages", "responses", "gemini"];

struct Cell {
    /// The id of its model, and of its account.
    id: String,
    door: &'static str,
    dialect: Dialect,
    is_stream: bool,
    way: Way,
    script: Script,
}

impl Cell {
    fn request(&self) -> Vec<u8> {
        let (id, stream) = (&self.id, self.is_stream);
        let messages = json!([{"role": "user", "content": "hello"}]);
        let (path, body) = match self.door {
            "chat" => (
                "/v1/chat/completions".to_owned(),
                json!({"model": id, "messages": messages, "stream": stream}),
            ),
            "messages" => (
                "/v1/messages".to_owned(),
                json!({"model": id, "messages": messages, "stream": stream, "max_tokens": 99}),
            ),
            "responses" => (
                "/v1/responses".to_owned(),
                json!({"model": id, "input": "hello", "stream": stream}),
            ),
            _ => {
                let action = if stream {
                    "streamGenerateContent?alt=sse"
                } else {
                    "generateContent"
                };
                (
                    format!("/v1beta/models/{id}:{action}"),
                    json!({"contents": [{"parts": [{"text": "hello"}]}]}),
                )
            }
        };
        let fields = [("x-api-key", KEY), ("content-type", "application/json")];
        client::request("POST", &path, &fields, body.to_string().as_bytes())
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for dialect in DIALECTS {
        for way in WAYS {
            for is_stream in [false, true] {
                let Ok(script) = dialect.says(way, is_stream) else {
                    continue;
                };
                for door in DOORS {
                    let mode = if is_stream { "stream" } else { "whole" };
                    let id = format!("{}-{}-{mode}-{door}", dialect.name(), way.name());
                    cells.push(Cell {
                        id,
                        door,
                        dialect,
                        is_stream,
                        way,
                        script: script.clone(),
                    });
                }
            }
        }
    }
    cells
}

/// Own tokens, and those in vain, of each model in the ledger.
fn written(ledger: &Path) -> BTreeMap<String, (i64, i64)> {
    let connection =
        rusqlite::Connection::open_with_flags(ledger, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
            .expect("the ledger");
    connection
        .busy_timeout(Duration::from_secs(5))
        .expect("a timeout");
    let sql = "SELECT model, prompt + completion, unused_tokens FROM exchange";
    let mut statement = connection.prepare(sql).expect("a query");
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))
        .expect("rows");
    rows.map(Result::unwrap).collect()
}

/// Prompt and completion of an access line, those of all attempts in vain included.
fn logged(line: &Value) -> (u64, u64) {
    let attempts = line["attempts"].as_array().into_iter().flatten();
    let all = attempts.chain([line]);
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    all.fold((0, 0), |(prompt, completion), one| {
        (
            prompt + count(one, "prompt_tokens"),
            completion + count(one, "completion_tokens"),
        )
    })
}

#[test]
fn answers_that_reach_nobody_are_in_the_books() {
    run_within(Duration::from_secs(180), async {
        let mock = Mock::start().await;
        let cells = cells();
        assert!(cells.len() > 280, "{}", cells.len());
        let scripts: BTreeMap<String, Script> = cells
            .iter()
            .map(|cell| (cell.id.clone(), cell.script.clone()))
            .collect();
        mock.by(move |request| {
            let account = request.target.split('/').nth(1).unwrap_or_default();
            scripts
                .get(account)
                .cloned()
                .unwrap_or_else(|| Script::error(500, "nobody's account"))
        });
        let catalog = cells.iter().fold(Catalog::new(), |catalog, cell| {
            let base = format!("http://{}/{}", mock.address(), cell.id);
            let account = format!("{}{}", cell.dialect.account(), cell.way.settings());
            catalog.account_at(&cell.id, &base, &account).model_with(
                &cell.id,
                &[&format!("{}={}", cell.id, cell.dialect.model())],
                "on_broken_call: error",
            )
        });
        let gateway = Gateway::start(catalog).await;
        let mut wrong = Vec::new();
        for wave in cells.chunks(AT_ONCE) {
            let answers: Vec<Response> =
                join_all(wave.iter().map(|cell| gateway.raw(cell.request()))).await;
            for (cell, answer) in wave.iter().zip(&answers) {
                let line = gateway.line_of(answer).await;
                if logged(&line) != (PROMPT, COMPLETION) {
                    wrong.push(format!("{}: {:?} in {}", cell.id, logged(&line), line));
                }
            }
        }
        let ledger = gateway
            .conf
            .parent()
            .expect("a folder")
            .join("ledger.sqlite");
        let rows = eventually("the ledger has all", || {
            Some(written(&ledger)).filter(|all| all.len() == cells.len())
        })
        .await;
        let reported = (PROMPT + COMPLETION) as i64;
        let of_row = |(model, (own, unused)): (&String, &(i64, i64))| {
            format!("{model}: {own} and {unused} in the ledger")
        };
        wrong.extend(
            rows.iter()
                .filter(|(_, (own, unused))| own + unused != reported)
                .map(of_row),
        );
        assert!(
            wrong.is_empty(),
            "{} of {} cells:\n{}",
            wrong.len(),
            cells.len(),
            wrong.join("\n")
        );
    });
}
