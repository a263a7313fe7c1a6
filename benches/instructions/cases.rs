//! What is counted: an exchange of each kind, as the caller and the upstream say it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::callgrind::{Counts, counted, total, total_without};
use super::gateway::{FREE, Gateway, LIMITED};
use super::rows::PORTION;
use super::wire::{End, Receiver};

/// A function that only the thread that serves callers runs.
const SERVES: &str = "HttpProxy<SV,C>::process_request";
/// A function that the ledger's thread runs, and not the thread that adds rows.
const WRITES: &str = "sqlite3_step";
/// The pause before each exchange under valgrind; before each chunk it is a quarter.
const PAUSE: Duration = Duration::from_millis(2);
/// The same without valgrind.
const SHORT_PAUSE: Duration = Duration::from_micros(200);
/// The chunks of a stream.
const CHUNKS: u64 = 200;
/// The figure of a plain request that has every thread in it.
pub const ALL_THREADS: &str = "plain request, all threads";
/// The figure of the ledger's thread.
pub const LEDGER_ROW: &str = "row of the ledger";
/// The connections of callers who ask at the same time.
const CONNECTIONS: usize = 32;

pub struct Case {
    /// Its first figure.
    pub name: &'static str,
    kind: Kind,
}

enum Kind {
    /// A whole answer to a whole request.
    Whole {
        path: &'static str,
        body: &'static str,
        answer: &'static str,
    },
    /// An answer that the gateway gives by itself.
    Own {
        key: &'static str,
        request: &'static str,
        status: &'static str,
    },
    /// A stream. The parts are its beginning, a chunk, and its end.
    Stream {
        body: &'static str,
        parts: [&'static str; 3],
    },
    /// A whole answer to a plain request, of a gateway that sends a trace of each to a receiver.
    Traced,
    /// Plain requests over many connections, with simulated caches.
    Missed,
    /// Plain requests, by an allocator that counts.
    Allocated,
    /// Chunks of one plain stream, by an allocator that counts.
    AllocatedChunks,
    /// A row of the ledger.
    Row,
}

pub const CASES: [Case; 17] = [
    Case {
        name: "plain request",
        kind: PLAIN,
    },
    Case {
        name: "D1 misses of a request",
        kind: Kind::Missed,
    },
    Case {
        name: "allocations of a request",
        kind: Kind::Allocated,
    },
    Case {
        name: "allocations of 100 chunks",
        kind: Kind::AllocatedChunks,
    },
    Case {
        name: "plain request with a trace",
        kind: Kind::Traced,
    },
    Case {
        name: "chunk",
        kind: PLAIN_STREAM,
    },
    Case {
        name: "request to Anthropic",
        kind: Kind::Whole {
            path: CHAT,
            body: TO_CLAUDE,
            answer: CLAUDE,
        },
    },
    Case {
        name: "chunk of Anthropic",
        kind: Kind::Stream {
            body: STREAMED_TO_CLAUDE,
            parts: CLAUDE_STREAM,
        },
    },
    Case {
        name: "request to Gemini",
        kind: Kind::Whole {
            path: CHAT,
            body: TO_GEMINI,
            answer: GEMINI,
        },
    },
    Case {
        name: "chunk of Gemini",
        kind: Kind::Stream {
            body: STREAMED_TO_GEMINI,
            parts: GEMINI_STREAM,
        },
    },
    Case {
        name: "request to Cohere",
        kind: Kind::Whole {
            path: CHAT,
            body: TO_COHERE,
            answer: COHERE,
        },
    },
    Case {
        name: "chunk of Cohere",
        kind: Kind::Stream {
            body: STREAMED_TO_COHERE,
            parts: COHERE_STREAM,
        },
    },
    Case {
        name: "embedding",
        kind: Kind::Whole {
            path: "embeddings",
            body: TO_VECTORS,
            answer: VECTORS,
        },
    },
    Case {
        name: "list of models",
        kind: Kind::Own {
            key: FREE,
            request: "GET /v1/models",
            status: "200",
        },
    },
    Case {
        name: "no valid key",
        kind: Kind::Own {
            key: "sk-nobodys",
            request: ASKED,
            status: "401",
        },
    },
    Case {
        name: "no room in a limit",
        kind: Kind::Own {
            key: LIMITED,
            request: ASKED,
            status: "429",
        },
    },
    Case {
        name: LEDGER_ROW,
        kind: Kind::Row,
    },
];

const PLAIN: Kind = Kind::Whole {
    path: CHAT,
    body: TO_CHAT,
    answer: ANSWER,
};
const PLAIN_STREAM: Kind = Kind::Stream {
    body: STREAMED,
    parts: CHAT_STREAM,
};
const CHAT: &str = "chat/completions";
const ASKED: &str = "POST /v1/chat/completions";

macro_rules! chat {
    ($model:literal, $more:literal) => {
        concat!(
            r#"{"model":""#,
            $model,
            r#"","messages":[{"role":"system","content":"You are a helpful assistant. Answer briefly and do not make anything up."},"#,
            r#"{"role":"user","content":"Explain in two sentences why a reverse proxy should keep its connections to the upstream, and "#,
            r#"what goes wrong when it does not."}],"temperature":0.2,"max_tokens":256"#,
            $more,
            "}"
        )
    };
}

const TO_CHAT: &str = chat!("chat", "");
const TO_CLAUDE: &str = chat!("claude", "");
const STREAMED: &str = chat!("chat", r#","stream":true"#);
const STREAMED_TO_CLAUDE: &str = chat!("claude", r#","stream":true"#);
const TO_GEMINI: &str = chat!("gemini", "");
const STREAMED_TO_GEMINI: &str = chat!("gemini", r#","stream":true"#);
const TO_COHERE: &str = chat!("command", "");
const STREAMED_TO_COHERE: &str = chat!("command", r#","stream":true"#);
const TO_VECTORS: &str =
    r#"{"model":"vectors","input":"A gateway keeps its connections.","encoding_format":"base64"}"#;

const ANSWER: &str = r#"{"id":"chatcmpl-CTv9XjE2mXHn1nTQy0sS8M1Uu3kPq","object":"chat.completion","created":1790000000,"model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant","content":"Opening a connection costs a round trip, and with TLS two more, which a kept one has behind it. Without keeping them a busy proxy runs out of ports.","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":48,"completion_tokens":34,"total_tokens":82,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default","system_fingerprint":"fp_560af6e559"}"#;
const CLAUDE: &str = r#"{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"Opening a connection costs a round trip, and with TLS two more, which a kept one has behind it. Without keeping them a busy proxy runs out of ports."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":48,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":34}}"#;
const GEMINI: &str = r#"{"candidates":[{"content":{"parts":[{"text":"Opening a connection costs a round trip, and with TLS two more, which a kept one has behind it. Without keeping them a busy proxy runs out of ports."}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":48,"candidatesTokenCount":34,"totalTokenCount":82,"promptTokensDetails":[{"modality":"TEXT","tokenCount":48}]},"modelVersion":"gemini-2.5-flash","responseId":"kX8iaZ2XEbmFz7IPwq3Q4AM"}"#;
const COHERE: &str = r#"{"id":"c14c80c3-18eb-4519-9460-6c92edd8cfb4","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"Opening a connection costs a round trip, and with TLS two more, which a kept one has behind it. Without keeping them a busy proxy runs out of ports."}]},"usage":{"billed_units":{"input_tokens":40,"output_tokens":34},"tokens":{"input_tokens":48,"output_tokens":34}}}"#;
/// Twelve floats in base64, and so often the same that there are 1,536 of them in two times 4,096
/// bytes.
macro_rules! floats {
    (64) => {
        "zczMPc3MzL0K1yM8CtcjvClcjz0pXI+9j8J1Po/Cdb4AAIA+AACAvs3MTD7NzEy+"
    };
    (512) => {
        concat!(
            floats!(64),
            floats!(64),
            floats!(64),
            floats!(64),
            floats!(64),
            floats!(64),
            floats!(64),
            floats!(64)
        )
    };
    (4096) => {
        concat!(
            floats!(512),
            floats!(512),
            floats!(512),
            floats!(512),
            floats!(512),
            floats!(512),
            floats!(512),
            floats!(512)
        )
    };
}

const VECTORS: &str = concat!(
    r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":""#,
    floats!(4096),
    floats!(4096),
    r#""}],"model":"text-embedding-3-small","usage":{"prompt_tokens":6,"total_tokens":6}}"#
);

macro_rules! piece {
    ($delta:literal, $finish:literal) => {
        concat!(
            r#"data: {"id":"chatcmpl-CTv9XjE2mXHn1nTQy0sS8M1Uu3kPq","object":"chat.completion.chunk","created":1790000000,"#,
            r#""model":"gpt-4o-mini-2024-07-18","system_fingerprint":"fp_560af6e559","choices":[{"index":0,"delta":"#,
            $delta,
            r#","logprobs":null,"finish_reason":"#,
            $finish,
            r#"}],"usage":null}"#,
            "\n\n"
        )
    };
}

const CHAT_STREAM: [&str; 3] = [
    piece!(
        r#"{"role":"assistant","content":"","refusal":null}"#,
        "null"
    ),
    piece!(r#"{"content":" gateway"}"#, "null"),
    concat!(piece!("{}", r#""stop""#), "data: [DONE]\n\n"),
];

const CLAUDE_STREAM: [&str; 3] = [
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_01XFDUDYJgAACzvnptvVoYEL\",\"type\":\"message\",\
     \"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\
     \"usage\":{\"input_tokens\":48,\"output_tokens\":1}}}\n\n\
     event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
     \"delta\":{\"type\":\"text_delta\",\"text\":\" gateway\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
     event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\
     \"usage\":{\"output_tokens\":200}}\n\n\
     event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
];

macro_rules! candidate {
    ($text:literal, $more:literal) => {
        concat!(
            r#"data: {"candidates":[{"content":{"parts":[{"text":""#,
            $text,
            r#""}],"role":"model"},"#,
            $more,
            r#""index":0}],"usageMetadata":{"promptTokenCount":48,"candidatesTokenCount":200,"totalTokenCount":248},"#,
            r#""modelVersion":"gemini-2.5-flash","responseId":"kX8iaZ2XEbmFz7IPwq3Q4AM"}"#,
            "\r\n\r\n"
        )
    };
}

const GEMINI_STREAM: [&str; 3] = [
    candidate!("A", ""),
    candidate!(" gateway", ""),
    candidate!(".", r#""finishReason":"STOP","#),
];

const COHERE_STREAM: [&str; 3] = [
    "event: message-start\ndata: {\"id\":\"29f14a5a-11de-4cae-9800-25e4747408ea\",\"type\":\"message-start\",\
     \"delta\":{\"message\":{\"role\":\"assistant\",\"content\":[],\"tool_plan\":\"\",\"tool_calls\":[],\"citations\":[]}}}\n\n\
     event: content-start\ndata: {\"type\":\"content-start\",\"index\":0,\
     \"delta\":{\"message\":{\"content\":{\"type\":\"text\",\"text\":\"\"}}}}\n\n",
    "event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\
     \"delta\":{\"message\":{\"content\":{\"text\":\" gateway\"}}}}\n\n",
    "event: content-end\ndata: {\"type\":\"content-end\",\"index\":0}\n\n\
     event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\
     \"usage\":{\"billed_units\":{\"input_tokens\":40,\"output_tokens\":200},\"tokens\":{\"input_tokens\":48,\"output_tokens\":200}}}}\n\n",
];

impl Case {
    /// Returns the names of its figures.
    pub fn names(&self) -> Vec<&'static str> {
        let second = match self.name {
            "plain request" => ALL_THREADS,
            "D1 misses of a request" => "L2 misses of a request",
            "allocations of a request" => "bytes of a request",
            "allocations of 100 chunks" => "bytes of 100 chunks",
            _ => return vec![self.name],
        };
        vec![self.name, second]
    }

    /// Returns its figures, each of one more.
    pub fn count(&self, folder: &Path) -> Result<Vec<(String, u64)>, String> {
        let (few, many, parts) = match self.kind {
            Kind::Allocated | Kind::AllocatedChunks => {
                let counts = self.again(|| self.count_allocations(folder))?;
                return Ok(self.named(counts));
            }
            Kind::Whole { .. } | Kind::Own { .. } | Kind::Traced => (100, 600, 1),
            Kind::Missed => (5, 20, CONNECTIONS as u64),
            Kind::Stream { .. } => (3, 13, CHUNKS),
            Kind::Row => (PORTION, 17 * PORTION, 1),
        };
        let difference = || self.count_difference(folder, few, many, parts);
        let counts = if let Kind::Missed = self.kind {
            // Which lines of a cache collide depends on addresses, which differ from run to run.
            middle_counts([difference()?, difference()?, difference()?])
        } else {
            difference()?
        };
        Ok(self.named(counts))
    }

    /// Runs it with few and with many times, and returns the counts of one more. One time has so
    /// many parts.
    fn count_difference(
        &self,
        folder: &Path,
        few: u64,
        many: u64,
        parts: u64,
    ) -> Result<Vec<u64>, String> {
        let few_counts = self.again(|| self.run(folder, few))?;
        let many_counts = self.again(|| self.run(folder, many))?;
        let counts = few_counts.iter().zip(many_counts);
        let of_one = counts.map(|(few_count, many_count)| {
            many_count.saturating_sub(*few_count) / ((many - few) * parts)
        });
        Ok(of_one.collect())
    }

    fn named(&self, counts: Vec<u64>) -> Vec<(String, u64)> {
        let names = self.names().into_iter().map(str::to_owned);
        names.zip(counts).collect()
    }

    /// Runs it, up to three times: somebody else may take a port between our look for a free one
    /// and the start.
    fn again(&self, run: impl Fn() -> Result<Vec<u64>, String>) -> Result<Vec<u64>, String> {
        run()
            .or_else(|_| run())
            .or_else(|_| run())
            .map_err(|why| format!("{}: {why}", self.name))
    }

    /// Returns allocations and their bytes, of a request or of 100 chunks.
    fn count_allocations(&self, folder: &Path) -> Result<Vec<u64>, String> {
        let folder = self.fresh_folder(folder, "all")?;
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut gateway = start(&folder, Command::new(own), "")?;
        gateway.pause = SHORT_PAUSE;
        let counts = if let Kind::Allocated = self.kind {
            let of_hundred =
                usual_allocations(&mut gateway, |gateway| repeat(&PLAIN, gateway, 100))?;
            of_hundred.map(|count| count / 100)
        } else {
            let [short, short_bytes] = stream_allocations(&mut gateway, 100)?;
            let [long, long_bytes] = stream_allocations(&mut gateway, 1_100)?;
            [(long - short) / 10, (long_bytes - short_bytes) / 10]
        };
        Ok(counts.to_vec())
    }

    fn fresh_folder(&self, folder: &Path, run: &str) -> Result<PathBuf, String> {
        let folder = folder.join(format!("{} {run}", self.name).replace(' ', "-"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        Ok(folder)
    }

    /// Returns the counts of so many.
    fn run(&self, folder: &Path, times: u64) -> Result<Vec<u64>, String> {
        let folder = &self.fresh_folder(folder, &times.to_string())?;
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let program = Path::new(env!("CARGO_BIN_EXE_portcullis"));
        if let Kind::Row = self.kind {
            return count_rows(folder, counted(folder, &own, false), times);
        }
        if let Kind::Traced = self.kind {
            return count_traced(folder, counted(folder, program, false), times);
        }
        let counts_misses = matches!(self.kind, Kind::Missed);
        let mut gateway = start(folder, counted(folder, program, counts_misses), "")?;
        if counts_misses {
            gateway.connect(CONNECTIONS)?;
            for _ in 0..times {
                ask_at_once(&mut gateway)?;
            }
        } else {
            repeat(&self.kind, &mut gateway, times)?;
        }
        gateway.end()?;
        let Counts {
            instructions,
            d1,
            l2,
        } = total(folder, SERVES)?;
        // The ledger's thread works by time: its rows are counted apart.
        let all = total_without(folder, WRITES)?.instructions;
        Ok(if counts_misses {
            vec![d1, l2]
        } else {
            vec![instructions, all]
        })
    }
}

/// Returns the middle one of three runs, for each count by itself.
fn middle_counts(runs: [Vec<u64>; 3]) -> Vec<u64> {
    let [one, two, three] = runs;
    let counts = one.into_iter().zip(two).zip(three);
    let middle = counts.map(|((one, two), three)| one.max(two).min(one.min(two).max(three)));
    middle.collect()
}

/// Returns what a stream of so many chunks allocates.
fn stream_allocations(gateway: &mut Gateway, chunks: u64) -> Result<[u64; 2], String> {
    usual_allocations(gateway, |gateway| PLAIN_STREAM.play(gateway, FREE, chunks))
}

/// Returns what a play allocates: the third least of nine, since work by time, such as writing to
/// the ledger, falls into some of them.
fn usual_allocations(
    gateway: &mut Gateway,
    play: impl Fn(&mut Gateway) -> Result<(), String>,
) -> Result<[u64; 2], String> {
    let (mut allocations, mut bytes) = ([0; 9], [0; 9]);
    for (allocations, bytes) in allocations.iter_mut().zip(&mut bytes) {
        let before = gateway.allocations()?;
        play(gateway)?;
        let after = gateway.allocations()?;
        (*allocations, *bytes) = (after[0] - before[0], after[1] - before[1]);
    }
    allocations.sort_unstable();
    bytes.sort_unstable();
    Ok([allocations[2], bytes[2]])
}

/// Starts the gateway. Everything that is made once is made by two requests, and they use the limit
/// up.
fn start(folder: &Path, command: Command, more: &str) -> Result<Gateway, String> {
    let mut gateway = Gateway::start(folder, command, more, PAUSE)?;
    for key in [FREE, LIMITED] {
        PLAIN.play(&mut gateway, key, 0)?;
    }
    Ok(gateway)
}

fn repeat(kind: &Kind, gateway: &mut Gateway, times: u64) -> Result<(), String> {
    for _ in 0..times {
        kind.play(gateway, FREE, CHUNKS)?;
    }
    Ok(())
}

fn count_rows(folder: &Path, mut command: Command, rows: u64) -> Result<Vec<u64>, String> {
    command
        .arg("rows")
        .arg(folder)
        .arg(rows.to_string())
        .stderr(Stdio::null());
    let status = command.status().map_err(|e| e.to_string())?;
    if status.success() {
        Ok(vec![total(folder, WRITES)?.instructions])
    } else {
        Err("the rows are not written".to_owned())
    }
}

fn count_traced(folder: &Path, command: Command, times: u64) -> Result<Vec<u64>, String> {
    let receiver = Receiver::start();
    let more = format!("traces: {{ endpoint: \"http://{}\" }}\n", receiver.address);
    let mut gateway = start(folder, command, &more)?;
    repeat(&PLAIN, &mut gateway, times)?;
    gateway.end()?;
    // The two at the beginning have traces, too.
    match receiver.end() {
        traces if traces == times + 2 => Ok(vec![total(folder, SERVES)?.instructions]),
        traces => Err(format!(
            "the receiver has {traces} traces of {} requests",
            times + 2
        )),
    }
}

/// Plays an exchange on each of many connections: all callers ask before the first has its answer.
fn ask_at_once(gateway: &mut Gateway) -> Result<(), String> {
    let [upstream, ..] = &mut gateway.upstreams;
    let mut asked = Vec::new();
    for caller in &mut gateway.callers {
        std::thread::sleep(PAUSE);
        ask(caller, FREE, ASKED, TO_CHAT)?;
        asked.push(upstream.take_request()?);
    }
    for (caller, index) in gateway.callers.iter_mut().zip(asked) {
        std::thread::sleep(PAUSE);
        upstream
            .end(index)?
            .send(message("application/json", ANSWER).as_bytes())?;
        expect(&caller.message()?, "200")?;
    }
    Ok(())
}

impl Kind {
    /// Plays one exchange. A stream has so many chunks.
    fn play(&self, gateway: &mut Gateway, key: &str, chunks: u64) -> Result<(), String> {
        // The gateway waits for the next request: what it does after an answer is over.
        std::thread::sleep(gateway.pause);
        match self {
            Kind::Whole { path, body, answer } => {
                let (caller, upstream) = gateway.ends(body);
                ask(caller, key, &format!("POST /v1/{path}"), body)?;
                upstream
                    .request()?
                    .send(message("application/json", answer).as_bytes())?;
                expect(&caller.message()?, "200")
            }
            Kind::Own {
                key,
                request,
                status,
            } => {
                let body = if request.starts_with("GET") {
                    ""
                } else {
                    TO_CHAT
                };
                let (caller, _) = gateway.ends(body);
                ask(caller, key, request, body)?;
                expect(&caller.message()?, status)
            }
            Kind::Stream {
                body,
                parts: [begin, chunk, end],
            } => {
                let pause = gateway.pause / 4;
                let (caller, upstream) = gateway.ends(body);
                ask(caller, key, ASKED, body)?;
                let answer = upstream.request()?;
                answer.send(
                    format!(
                        "{HEAD}content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{}",
                        framed(begin)
                    )
                    .as_bytes(),
                )?;
                for _ in 0..chunks {
                    std::thread::sleep(pause);
                    answer.send(framed(chunk).as_bytes())?;
                    caller.until("\" gateway\"")?;
                    caller.until("\n\n\r\n")?;
                }
                answer.send(format!("{}0\r\n\r\n", framed(end)).as_bytes())?;
                expect(&caller.until("0\r\n\r\n")?, "[DONE]")
            }
            Kind::Traced | Kind::Missed | Kind::Allocated | Kind::AllocatedChunks | Kind::Row => {
                Err("it is no exchange of its own".to_owned())
            }
        }
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nx-request-id: req_0001\r\n";

fn ask(caller: &mut End, key: &str, request: &str, body: &str) -> Result<(), String> {
    let head = format!(
        "{request} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    );
    caller.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

fn message(kind: &str, body: &str) -> String {
    format!(
        "{HEAD}content-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn framed(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

fn expect(answer: &str, what: &str) -> Result<(), String> {
    if answer.contains(what) {
        Ok(())
    } else {
        Err(format!("no {what} in: {answer}"))
    }
}
