//! The libraries with which agents are written, pinned, as they ask by default: two turns with a
//! tool and thinking each, whole and as a stream, in front of upstreams of two dialects. The
//! programs that use them are in `tests/sdk/python/agents` and `tests/sdk/node/agents`.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clients::GLOBS;
use crate::sdk::installed;
use crate::support::canary::KEY;
use crate::support::mock::Request;
use crate::support::model_answers::{self, COMPLETION, PROMPT, Row};
use crate::support::process::Process;
use crate::support::{Gateway, Mock, ModelAnswer, SLOWER, Script, join_all, root, run_within};

const DIALECTS: [Row; 2] = [
    ("openai", "", "gpt-5"),
    ("anthropic", "", "claude-sonnet-4-5"),
];
const THOUGHTS: [&str; 2] = ["Rome: I must look.", "Oslo: I must look."];
const TEXTS: [&str; 2] = ["It is 18 degrees in Rome.", "It is 7 degrees in Oslo."];

#[test]
fn anthropics_client_for_python() {
    python("of_anthropic.py", &[], &[]);
}

#[test]
fn openais_client_for_python_asks_for_responses() {
    python("of_openai.py", &[], &[]);
}

#[test]
fn googles_client_for_python() {
    python("of_genai.py", &[], &[]);
}

#[test]
fn langchain() {
    // Of chat completions, its model of OpenAI takes no thoughts.
    python("of_langchain.py", &["chat,"], &["gemini,"]);
}

#[test]
fn pydantic_ai() {
    python("of_pydantic_ai.py", &[], &[]);
}

#[test]
fn openais_agents() {
    python("of_openai_agents.py", &[], &[]);
}

#[test]
fn litellm() {
    python("of_litellm.py", &[], &["gemini,"]);
}

#[test]
fn anthropics_client_for_node() {
    node("of_anthropic.mjs", &[]);
}

#[test]
fn openais_client_for_node_asks_for_responses() {
    node("of_openai.mjs", &[]);
}

#[test]
fn googles_client_for_node() {
    node("of_genai.mjs", &[]);
}

#[test]
fn vercels_ai() {
    // By default it asks for no thoughts of OpenAI.
    node("of_vercel.mjs", &["openai,"]);
}

fn python(program: &str, quiet: &[&str], forgetful: &[&str]) {
    let mut command = Command::new(installed("python-agents").join("bin/python"));
    talk(
        command.arg(format!("tests/sdk/python/agents/{program}")),
        quiet,
        forgetful,
    );
}

fn node(program: &str, quiet: &[&str]) {
    let mut command = Command::new("node");
    talk(
        command
            .arg(format!("tests/sdk/node/agents/{program}"))
            .env("SDK", installed("node")),
        quiet,
        &[],
    );
}

/// Runs a program in front of both dialects, and compares what it saw with what was said. Its
/// `quiet` kinds ask for no thoughts, or take none; its `forgetful` kinds drop the ids of calls.
fn talk(program: &mut Command, quiet: &[&str], forgetful: &[&str]) {
    run_within(Duration::from_secs(180), async {
        let up = join_all(DIALECTS.map(async |row| {
            let mock = Mock::start().await;
            mock.by(move |request| answer(row.0, request));
            let gateway = Gateway::start(model_answers::catalog(row, &mock, GLOBS)).await;
            (mock, gateway)
        }))
        .await;
        let urls: Vec<_> = up
            .iter()
            .map(|(_, gateway)| format!("http://{}", gateway.address))
            .collect();
        program
            .env("BASE_URLS", urls.join(" "))
            .env("API_KEY", KEY)
            .env("NO_PROXY", "*");
        let mut client = Process::spawn(program.current_dir(root()));
        // The mocks run on other threads meanwhile.
        let status = client
            .wait(Duration::from_secs(150) * SLOWER)
            .expect("the program comes to an end");
        let printed = String::from_utf8_lossy(&client.stdout()).into_owned();
        assert!(status.success(), "{printed}{}", client.stderr());
        let talks: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).expect("a talk"))
            .collect();
        assert!(
            talks.len() >= 4 && talks.len().is_multiple_of(4),
            "{printed}"
        );
        for talk in &talks {
            let has_thoughts = !quiet
                .iter()
                .any(|kind| talk["what"].as_str().unwrap().starts_with(kind));
            assert_eq!(talk["texts"], json!(TEXTS), "{talk}");
            assert_eq!(
                talk["thoughts"],
                if has_thoughts {
                    json!(THOUGHTS)
                } else {
                    json!([])
                },
                "{talk}"
            );
            assert_eq!(
                talk["calls"],
                json!([{"city": "Rome"}, {"city": "Oslo"}]),
                "{talk}"
            );
            let usage = talk["usage"].as_array().unwrap();
            assert!(
                usage.len() >= 2
                    && usage
                        .iter()
                        .all(|used| *used == json!([PROMPT, COMPLETION])),
                "{talk}"
            );
        }
        for (mock, _) in &up {
            // Two answers a turn: nothing was asked twice.
            assert_eq!(mock.count(), talks.len() * 2, "{printed}");
        }
        // Anthropic gets the thoughts back, in each of the three requests that follow them.
        let is_kept = |talk: &&Value| {
            let what = talk["what"].as_str().unwrap();
            what.contains(&urls[1])
                && !quiet
                    .iter()
                    .chain(forgetful)
                    .any(|kind| what.starts_with(kind))
        };
        let requests = up[1].0.requests();
        let later = requests
            .iter()
            .map(Request::text)
            .filter(|body| body.contains("measured 18"));
        let kept = later.filter(|body| body.contains(THOUGHTS[0])).count();
        assert!(
            kept >= talks.iter().filter(is_kept).count() * 3,
            "{kept} requests have the thoughts: {printed}"
        );
    });
}

/// Asks for the tool in each turn, and answers from its result.
fn answer(dialect: &str, request: &Request) -> Script {
    let body = request.text();
    let nth = ["measured 18", "And in Oslo?", "measured 7"]
        .iter()
        .filter(|mark| body.contains(**mark))
        .count();
    let city = ["Rome", "Oslo"][nth / 2];
    let said = match nth % 2 {
        0 => ModelAnswer::thinking(THOUGHTS[nth / 2]).call("weather", json!({"city": city})),
        _ => ModelAnswer::text(TEXTS[nth / 2]),
    };
    said.nth(nth).to(dialect, request)
}
