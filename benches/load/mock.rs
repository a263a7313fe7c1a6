//! The mock upstream is another process of this program, on one thread. The name of the model says
//! what it answers:
//!
//! * `mock-plain`: about 640 bytes at once.
//! * `mock-claude-plain`: the same words, at Anthropic's path in Anthropic's format.
//! * `mock-stream-200-20`: 200 chunks, one every 20 ms; with `-0` as fast as the reader takes them,
//!   each in its own write.
//! * `mock-claude-200-0`: the same, at Anthropic's path in Anthropic's format.
//! * `mock-stamped-200-20`: the same, with the number and the time in each chunk.
//! * `mock-held`: one chunk, then nothing until the caller leaves.
//!
//! Routers ask it for its health and for the names of its models, before they send it anything.
//!
//! Any other model is a 404, and any other key a 401. So the benchmark sees that the gateway
//! changes both correctly.

use std::borrow::Cow;
use std::io::{self, BufRead as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::crowd;
use crate::process::Process;
use crate::wire::{Head, Wire};

pub const KEY: &str = "sk-load-upstream-0001";
/// The words of each whole answer.
pub const TEXT: &str = "Opening a connection costs a round trip, and with TLS two more, which a kept one has behind it. Without keeping them a busy proxy runs out of ports.";

/// The longest life of a held stream.
const HELD: Duration = Duration::from_secs(120);

/// The running process.
pub struct Mock {
    pub address: SocketAddr,
    pub process: Process,
}

/// Starts the mock, which says that it has these models.
pub fn start(folder: &Path, models: &[&str]) -> Result<Mock, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    command
        .arg("mock")
        .args(models)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut process = Process::start("mock", &mut command, folder)?;
    let mut line = String::new();
    let out = process.stdout().ok_or("the mock has no output")?;
    io::BufReader::new(out)
        .read_line(&mut line)
        .map_err(|e| e.to_string())?;
    let address = line
        .trim()
        .parse()
        .map_err(|_| "the mock upstream did not start")?;
    Ok(Mock { address, process })
}

/// Serves until standard input ends, so that it never outlives the process that started it.
pub fn run(models: &[&str]) -> ExitCode {
    let names: Vec<String> = models
        .iter()
        .map(|model| {
            format!(
                r#"{{"id":"mock-{model}","object":"model","created":1790000000,"owned_by":"mock"}}"#
            )
        })
        .collect();
    let list = format!(r#"{{"object":"list","data":[{}]}}"#, names.join(","));
    let list: Arc<[u8]> = answer("200 OK", &list).into();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                // A caller may leave at any time, so errors do not matter.
                let list = list.clone();
                tokio::spawn(async move { serve(stream, &list).await.ok() });
            }
        });
        let _ = tokio::io::stdin().read(&mut [0]).await;
    });
    runtime.shutdown_background();
    ExitCode::SUCCESS
}

async fn serve(stream: TcpStream, list: &[u8]) -> io::Result<()> {
    let (plain, message) = (plain(), message());
    const WORDS: [&str; 8] = [
        " gateway",
        " a",
        ",",
        " requests",
        "\\n\\n",
        " é",
        " several",
        " \\\"quoted\\\"",
    ];
    let (words, deltas): (Vec<_>, Vec<_>) = (WORDS.map(content).into(), WORDS.map(delta).into());
    let mut wire = Wire::new(stream)?;
    while let Some(Head {
        first, key, length, ..
    }) = wire.head().await?
    {
        let body = wire.take(length.unwrap_or(0)).await?;
        let usage = contains(body, br#""include_usage":true"#);
        let model = model(body).unwrap_or_default().to_owned();
        let messages = first.contains("/messages ");
        if first.starts_with("GET /health ") {
            wire.send(&answer("200 OK", "{}")).await?;
        } else if first.starts_with("GET /v1/models ") {
            wire.send(list).await?;
        } else if key.as_deref() != Some(KEY) {
            wire.send(&refusal("401 Unauthorized")).await?;
        } else if model == "plain" && !messages {
            wire.send(&plain).await?;
        } else if model == "claude-plain" && messages {
            wire.send(&message).await?;
        } else if model == "held" {
            wire.send(&[HEAD, &words[0]].concat()).await?;
            let _ = timeout(HELD, wire.closed()).await;
            return Ok(());
        } else if let Some((chunks, _)) = stream_of(&model).filter(|_| messages) {
            claude_to(&mut wire, chunks, &deltas).await?;
        } else if let Some((chunks, gap)) = stream_of(&model) {
            let stamped = model.starts_with("stamped-");
            let word = |n| {
                if stamped {
                    content(&crowd::stamp(n)).into()
                } else {
                    Cow::Borrowed(&*words[n % words.len()])
                }
            };
            stream_to(&mut wire, chunks, gap, usage, word).await?;
        } else {
            wire.send(&refusal("404 Not Found")).await?;
        }
    }
    Ok(())
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req_load\r\ntransfer-encoding: chunked\r\n\r\n";

async fn stream_to<'a>(
    wire: &mut Wire,
    chunks: usize,
    gap: u64,
    usage: bool,
    word: impl Fn(usize) -> Cow<'a, [u8]>,
) -> io::Result<()> {
    let first = event(
        r#"{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}"#,
        "null",
    );
    wire.send(&[HEAD, &first].concat()).await?;
    let mut ticks = interval(Duration::from_millis(gap.max(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first chunk is due at once. Its own tick would come later: timers round up to the next
    // millisecond.
    ticks.reset();
    for index in 0..chunks {
        if gap > 0 && index > 0 {
            ticks.tick().await;
        }
        wire.send(&word(index)).await?;
    }
    let mut end = event(
        r#"{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}"#,
        "null",
    );
    if usage {
        end.extend(event(
            "",
            &format!(
                r#"{{"prompt_tokens":48,"completion_tokens":{chunks},"total_tokens":{}}}"#,
                chunks + 48
            ),
        ));
    }
    end.extend(framed("data: [DONE]\n\n"));
    end.extend(b"0\r\n\r\n");
    wire.send(&end).await
}

/// Writes the same in Anthropic's format.
async fn claude_to(wire: &mut Wire, chunks: usize, deltas: &[Vec<u8>]) -> io::Result<()> {
    let start = named(
        "message_start",
        r#"{"type":"message_start","message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":48,"output_tokens":1}}}"#,
    );
    let block = named(
        "content_block_start",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    );
    wire.send(&[HEAD, &start, &block].concat()).await?;
    for delta in deltas.iter().cycle().take(chunks) {
        wire.send(delta).await?;
    }
    let mut end = named(
        "content_block_stop",
        r#"{"type":"content_block_stop","index":0}"#,
    );
    let finish = format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{{"output_tokens":{chunks}}}}}"#
    );
    end.extend(named("message_delta", &finish));
    end.extend(named("message_stop", r#"{"type":"message_stop"}"#));
    end.extend(b"0\r\n\r\n");
    wire.send(&end).await
}

fn delta(word: &str) -> Vec<u8> {
    named(
        "content_block_delta",
        &format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{word}"}}}}"#
        ),
    )
}

fn named(name: &str, data: &str) -> Vec<u8> {
    framed(&format!("event: {name}\ndata: {data}\n\n"))
}

fn content(word: &str) -> Vec<u8> {
    event(
        &format!(
            r#"{{"index":0,"delta":{{"content":"{word}"}},"logprobs":null,"finish_reason":null}}"#
        ),
        "null",
    )
}

/// Writes a chunk as OpenAI sends it: some 250 bytes.
fn event(choice: &str, usage: &str) -> Vec<u8> {
    framed(&format!(
        "data: {{\"id\":\"chatcmpl-CTv9XjE2mXHn1nTQy0sS8M1Uu3kPq\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\
         \"model\":\"gpt-4o-mini-2024-07-18\",\"system_fingerprint\":\"fp_560af6e559\",\"choices\":[{choice}],\"usage\":{usage}}}\n\n"
    ))
}

fn framed(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

fn plain() -> Vec<u8> {
    let head = r#"{"id":"chatcmpl-CTv9XjE2mXHn1nTQy0sS8M1Uu3kPq","object":"chat.completion","created":1790000000,"model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant","content":""#;
    let rest = r#"","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":48,"completion_tokens":34,"total_tokens":82,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default","system_fingerprint":"fp_560af6e559"}"#;
    answer("200 OK", &[head, TEXT, rest].concat())
}

/// Writes the same in Anthropic's format.
fn message() -> Vec<u8> {
    let head = r#"{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-sonnet-5","content":[{"type":"text","text":""#;
    let rest = r#""}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":48,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":34,"service_tier":"standard"}}"#;
    answer("200 OK", &[head, TEXT, rest].concat())
}

fn refusal(status: &str) -> Vec<u8> {
    answer(
        status,
        &format!(
            r#"{{"error":{{"message":"the mock says {status}","type":"invalid_request_error","param":null,"code":null}}}}"#
        ),
    )
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: req_load\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Reads a name such as `stream-200-20`.
fn stream_of(model: &str) -> Option<(usize, u64)> {
    let (chunks, gap) = ["stream-", "stamped-", "claude-"]
        .iter()
        .find_map(|kind| model.strip_prefix(kind))?
        .split_once('-')?;
    Some((chunks.parse().ok()?, gap.parse().ok()?))
}

/// Returns the text after `mock-` in the request's model. A gateway may write it at the end.
fn model(body: &[u8]) -> Option<&str> {
    const NAME: &[u8] = br#""model":"mock-"#;
    let rest = ends(body).find_map(|part| Some(&part[position(part, NAME)? + NAME.len()..]))?;
    std::str::from_utf8(&rest[..position(rest, b"\"")?]).ok()
}

fn contains(body: &[u8], what: &[u8]) -> bool {
    ends(body).any(|part| position(part, what).is_some())
}

/// Returns the first and the last part of the body, where the fields other than the messages are.
fn ends(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let part = body.len().min(4096);
    [&body[..part], &body[body.len() - part..]].into_iter()
}

fn position(text: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, what)
}
