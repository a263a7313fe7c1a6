//! Streams, read by whoever loses patience at random: nothing of them is lost.

use super::*;
use crate::base::memory::Budget;
use crate::exchange::attempt::tests::{Over, Paced, answered};
use dialects::front::CHAT;
use dialects::neutral::answer::AnswerOptions;
use dialects::upstream::openai;
use dialects::{AnswerHeader, Dialect, Recipient};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

static DIALECT: LazyLock<Dialect> = LazyLock::new(|| Dialect::from(&openai::PROTOCOL));

fn recipient(header: &AnswerHeader) -> Recipient<'_> {
    Recipient {
        front: &CHAT,
        header,
        options: AnswerOptions::default(),
    }
}

fn face() -> AnswerHeader {
    AnswerHeader {
        model: "m".to_owned(),
        id: "i".to_owned(),
        ..AnswerHeader::default()
    }
}

/// What the buffered answer says that is made of these words.
fn buffered(words: &[String]) -> String {
    let message = json!({"role": "assistant", "content": words.concat()});
    let body =
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string();
    let (answer, _) = DIALECT
        .answer("m", &recipient(&face()), body.as_bytes())
        .expect("an answer");
    let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    answer["choices"][0]["message"]["content"]
        .as_str()
        .expect("a text")
        .to_owned()
}

/// The same as a stream: an event a word.
fn events(words: &[String]) -> Vec<Vec<u8>> {
    let event = |delta: Value, finish: Value| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        )
        .into_bytes()
    };
    let mut events = vec![event(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    events.extend(
        words
            .iter()
            .map(|word| event(json!({"content": word}), Value::Null)),
    );
    let mut end = event(json!({}), json!("stop"));
    end.extend_from_slice(b"data: [DONE]\n\n");
    events.push(end);
    events
}

/// The stream in other pieces. The demo's are whole events.
fn pieces(over: Over, events: Vec<Vec<u8>>, sizes: &[usize], waits: &[u8]) -> Vec<Paced> {
    let parts: Vec<Vec<u8>> = if over == Over::Demo {
        events
    } else {
        let (mut rest, mut parts) = (events.concat(), Vec::new());
        for size in sizes.iter().cycle() {
            let after = rest.split_off(rest.len().min(*size));
            parts.push(std::mem::replace(&mut rest, after));
            if rest.is_empty() {
                break;
            }
        }
        parts
    };
    parts
        .into_iter()
        .zip(waits.iter().copied().cycle())
        .collect()
}

async fn reading(over: Over, pieces: Vec<Paced>, total: Instant) -> Reading {
    let attempt = answered(over, pieces).await;
    let stream = DIALECT.stream("m", recipient(&face()), 1 << 20);
    let held = Arc::new(Budget::new(1 << 20, 1 << 20)).open(&Arc::default());
    Reading {
        attempt,
        stream,
        out: Vec::new(),
        memory: held,
        idle: Duration::from_secs(30),
        total,
        label_source: None,
    }
}

#[tokio::test]
async fn ready_bytes_do_not_put_off_a_deadline() {
    let words = ["one".to_owned(), "two".to_owned()];
    let total = Instant::now();
    let mut reading = reading(
        Over::Demo,
        pieces(Over::Demo, events(&words), &[], &[0]),
        total,
    )
    .await;
    let now = Instant::now();
    let late = reading
        .feed(now, reading.due(now), &mut Alarm::default())
        .await;
    assert_eq!((late, reading.out.len()), (Err(Failure::TotalTimeout), 0));
}

/// Reads a stream to its end. Each reading is dropped once it was polled in vain so often as
/// `patience` says, and begun again.
async fn text(over: Over, pieces: Vec<Paced>, patience: &[u8]) -> String {
    let total = Instant::now() + Duration::from_secs(30);
    let mut reading = reading(over, pieces, total).await;
    let mut alarm = Alarm::default();
    let mut read = Vec::new();
    for patience in patience.iter().cycle() {
        let mut left = *patience;
        let fed = {
            let mut feed =
                pin!(reading.feed(Instant::now(), (total, || Failure::IdleTimeout), &mut alarm));
            std::future::poll_fn(|context| match feed.as_mut().poll(context) {
                Poll::Ready(fed) => Poll::Ready(Some(fed)),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => {
                    left -= 1;
                    Poll::Pending
                }
            })
            .await
        };
        read.append(&mut reading.out);
        match fed {
            None => tokio::task::yield_now().await,
            Some(Ok(false)) => {}
            Some(Ok(true)) => break,
            Some(Err(failure)) => panic!("{over:?}: {failure:?}"),
        }
    }
    reading
        .stream
        .finish(&mut read, None)
        .unwrap_or_else(|fault| panic!("{over:?}: {fault:?}"));
    let read = String::from_utf8(read).expect("text");
    let chunks = read
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]");
    let chunks = chunks.map(|chunk| serde_json::from_str::<Value>(chunk).expect("a chunk"));
    chunks
        .map(|chunk| {
            chunk["choices"][0]["delta"]["content"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

fn check(
    over: Over,
    words: &[String],
    sizes: &[usize],
    waits: &[u8],
    patience: &[u8],
) -> TestCaseResult {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
    });
    let pieces = pieces(over, events(words), sizes, waits);
    prop_assert_eq!(
        RUNTIME.block_on(text(over, pieces, patience)),
        buffered(words),
        "{:?}",
        over
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_streams_text_equals_the_buffered_answers(
        words in prop::collection::vec("[a-zé\"\\\\\n ]{1,12}", 1..12),
        sizes in prop::collection::vec(1_usize..90, 1..8),
        waits in prop::collection::vec(0_u8..3, 1..6),
        patience in prop::collection::vec(0_u8..4, 1..6),
    ) {
        for over in Over::ALL {
            check(over, &words, &sizes, &waits, &patience)?;
        }
    }
}
