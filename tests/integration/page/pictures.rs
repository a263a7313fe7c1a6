//! Takes the pictures of the book: a gateway with some traffic meets an outage, and the browser
//! takes pictures of what its page says. So the pictures are true.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::Browser;
use crate::support::canary::KEY;
use crate::support::script::{self, finish};
use crate::support::{Catalog, Gateway, Mock, Script, client, root, run_within, spawn};

const GLOBEX: &str = "sk-CaNaRy-caller-globex-0123456789abcdefghijklmnop";
const INITECH: &str = "sk-CaNaRy-caller-initech-0123456789abcdefghijklmno";
/// The time of good traffic, for the figures' history.
const BEFORE: Duration = Duration::from_secs(130);
/// The time of the outage before the first picture.
const BROKEN: Duration = Duration::from_secs(45);

/// Takes the pictures if `UPDATE_PICTURES` is set. Looks whether they are there, and small.
#[test]
fn the_pictures_of_the_book_are_there() {
    let folder = root().join("docs/src/pictures");
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        run_within(Duration::from_secs(400), take(folder.clone()));
    }
    let pictures: Vec<_> = std::fs::read_dir(folder)
        .expect("pictures")
        .map(|file| file.expect("a file"))
        .collect();
    for picture in &pictures {
        let size = picture.metadata().expect("a size").len();
        assert!(
            size <= 200 << 10,
            "{} has {size} bytes",
            picture.path().display()
        );
    }
    assert_eq!(pictures.len(), 4);
}

async fn take(folder: PathBuf) {
    let [gpu, openai, anthropic, bedrock] = [
        upstream(60, 12).await,
        upstream(240, 30).await,
        upstream(420, 45).await,
        upstream(510, 50).await,
    ];
    let catalog = Catalog::new()
        .account_with("gpu-1", &gpu, "concurrency: 16")
        .account_with("openai-main", &openai, "concurrency: 64")
        .account_with("anthropic-1", &anthropic, "concurrency: 32")
        .account_with("bedrock-eu", &bedrock, "concurrency: 32")
        .model_of(
            "fast",
            &[
                "{ account: gpu-1, model: qwen3-32b, tier: 1, price: { input: 0, output: 0 } }",
                "{ account: openai-main, model: gpt-5-mini, tier: 2, price: { input: 0.25, output: 2 } }",
            ],
            "strategy: priority",
        )
        .model_of(
            "smart",
            &[
                "{ account: anthropic-1, model: claude-sonnet-5, price: { input: 3, output: 15 } }",
                "{ account: bedrock-eu, model: claude-sonnet-5, price: { input: 3, output: 15 } }",
            ],
            "strategy: fastest, queue: { length: 32 }",
        )
        .model_of(
            "code",
            &[
                "{ account: anthropic-1, model: claude-opus-5, price: { input: 5, output: 25 } }",
                "{ account: openai-main, model: gpt-5, price: { input: 1.25, output: 10 } }",
            ],
            "strategy: priority",
        );
    let catalog = catalog
        .without_acme()
        .caller_with(
            "acme",
            "limits: { usd_per_month: 50 }",
            &[("prod", KEY, "")],
        )
        .caller_with(
            "globex",
            "limits: { requests_per_day: 280 }",
            &[("batch", GLOBEX, "")],
        )
        .caller_with(
            "initech",
            "limits: { tokens_per_minute: 4000000 }",
            &[("ci", INITECH, "")],
        );
    let setup = Gateway::with(catalog).server("log: { format: json, level: warn, access: stdout }");
    let gateway = Arc::new(setup.start().await);
    let stop = Arc::new(AtomicBool::new(false));
    let globex = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..9_u64)
        .map(|sender| {
            let (gateway, stop, globex) = (gateway.clone(), stop.clone(), globex.clone());
            spawn(async move {
                let (key, models) = match sender {
                    0..=4 => (KEY, ["fast", "fast", "smart"]),
                    5 | 6 => (GLOBEX, ["smart", "code", "fast"]),
                    _ => (INITECH, ["code", "fast", "code"]),
                };
                let mut connection = gateway.connect().await;
                let mut turn = sender;
                while !stop.load(Ordering::Relaxed) {
                    turn += 1;
                    let pause = 150 + turn * 7_919 % 700;
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    // It stops short of its limit, which the page then shows.
                    if key == GLOBEX && globex.fetch_add(1, Ordering::Relaxed) >= 264 {
                        return;
                    }
                    let model = models[usize::try_from(turn).expect("small") % 3];
                    let prompt =
                        "Summarise the incident report. ".repeat(20 + usize::try_from(turn % 30).expect("small"));
                    let body = json!({"model": model, "messages": [{"role": "user", "content": prompt}], "stream": true,
                        "max_tokens": 600, "stream_options": {"include_usage": true}});
                    connection.send(client::post_as(key, &body)).await;
                    connection.response().await;
                }
            })
        })
        .collect();
    tokio::time::sleep(BEFORE).await;
    // Connections that are open break, and new ones are refused.
    gpu.always(Script::new().reset());
    gpu.stop().await;
    tokio::time::sleep(BROKEN).await;
    std::fs::create_dir_all(&folder).expect("a folder for the pictures");
    let folder_text = folder.display().to_string();
    Browser::start("pictures", &gateway, &[("PICTURES", &folder_text)])
        .end()
        .await;
    stop.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.await.expect("a sender");
    }
}

/// An upstream that begins after about `first` milliseconds, and then sends words.
async fn upstream(first: u64, gap: u64) -> Mock {
    let mock = Mock::start().await;
    let turns = AtomicUsize::new(0);
    mock.by(move |request| {
        let turn = turns.fetch_add(1, Ordering::Relaxed) as u64;
        let noise = turn * 7_919 % 1_000;
        // One of thirty is slow.
        let slow = if turn % 30 == 29 { 4 } else { 1 };
        let words = 40 + noise / 5;
        let mut script = Script::sse().delay(Duration::from_millis((first + first * noise / 1_500) * slow));
        for part in 0..8 {
            script = script.event(script::delta("word ")).delay(Duration::from_millis(gap + part));
        }
        let mut last = script::usage(words);
        let prompt = request.body.len() as u64 / 4 + noise;
        last["usage"] = json!({"prompt_tokens": prompt, "completion_tokens": words, "total_tokens": prompt + words});
        script.event(finish("stop")).event(last).done()
    });
    mock
}
