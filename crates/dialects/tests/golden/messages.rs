//! The same by another front door: what callers of Messages get.
//!
//! `messages.json` is a request as they write it: `<dialect>.messages.request` or `.refused` is
//! what becomes of it. Of the answers and streams that were recorded in some cases there is a file
//! each, `<recorded>.messages.out`. All others must tell what callers of chat completions are told.

use std::fs;

use dialects::front::{CHAT, MESSAGES};
use dialects::neutral::Undo;
use dialects::{AnswerFault, StreamFault};
use serde_json::{Value, json};

use crate::differences::Differences;
use crate::drive::{DIALECTS, Dialect, For};
use crate::files::{Case, Recorded, cases};
use crate::{bytes, dialect, told, undo, upstream, written};

/// The cases whose answers have files.
const ANSWERED: [&str; 9] = [
    "text",
    "parallel-calls",
    "calls-at-once",
    "thinking",
    "cached",
    "blocked",
    "refused-in-words",
    "picture-out",
    "length-in-a-call",
];

/// What breaks clients of Messages, and not those of chat completions.
const BROKEN_CALL: &str = "the arguments of a call are no JSON object";

#[test]
fn requests() {
    let mut differences = Differences::default();
    for case in cases() {
        let Some(request) = case.request("messages.json") else { continue };
        for dialect in DIALECTS {
            written(&case, dialect, (&MESSAGES, &request, "messages."), &[], &mut differences);
        }
    }
    differences.none();
}

#[test]
fn answers() {
    let mut differences = Differences::default();
    for case in cases() {
        for recorded in case.recorded(".answer") {
            let dialect = dialect(&recorded);
            let found = match answer(&case, dialect, &recorded) {
                Ok(body) => format!("{body}\n"),
                Err(AnswerFault::Nonsense(why)) => format!("!nonsense {why}\n"),
                Err(AnswerFault::Upstream(error)) => upstream(&error),
            };
            compare(&case, &recorded, &found, &mut differences);
            if let Err(why) = same_answer(&case, dialect, &recorded) {
                differences.add(format!("{}/{}: {why}\n{found}", case.name(), recorded.file));
            }
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
            let (found, _) = stream(&case, dialect, &mut [&*bytes].into_iter());
            compare(&case, &recorded, &found, &mut differences);
            if let Err(why) = same_stream(&case, dialect, &bytes) {
                differences.add(format!("{}/{}: {why}\n{found}", case.name(), recorded.file));
            }
        }
    }
    differences.none();
}

/// However a stream is cut into reads, the caller gets the same; and one that ends too soon never
/// looks whole.
#[test]
fn cuts() {
    for case in cases().into_iter().filter(|case| ANSWERED.contains(&case.name().as_str())) {
        for recorded in case.recorded(".stream") {
            let (dialect, bytes) = (dialect(&recorded), bytes(&recorded));
            let name = format!("{}/{}", case.name(), recorded.file);
            let (whole, _) = stream(&case, dialect, &mut [&*bytes].into_iter());
            assert_eq!(stream(&case, dialect, &mut bytes.chunks(1)).0, whole, "{name} byte by byte");
            for at in 0..bytes.len() {
                let (head, tail) = bytes.split_at(at);
                assert_eq!(stream(&case, dialect, &mut [head, tail].into_iter()).0, whole, "{name} cut at {at}");
                let (said, is_whole) = stream(&case, dialect, &mut [head].into_iter());
                assert_eq!(is_whole, said.contains("event: message_stop"), "{name} ends at {at}\n{said}");
                if is_whole {
                    assert_eq!(
                        read(&said).map(|told| told.content),
                        read(&whole).map(|told| told.content),
                        "{name} ends at {at}"
                    );
                }
            }
        }
    }
}

fn compare(case: &Case, recorded: &Recorded, found: &str, differences: &mut Differences) {
    if ANSWERED.contains(&case.name().as_str()) {
        differences.compare(&recorded.path.with_file_name(format!("{}.messages.out", recorded.file)), Some(found));
    }
}

fn of_messages(case: &Case, dialect: Dialect) -> For {
    // Who speaks Anthropic's own format gets its answers as they are.
    For(&MESSAGES, if dialect.name == "anthropic" { Undo::default() } else { undo(case, dialect) })
}

fn answer(case: &Case, dialect: Dialect, recorded: &Recorded) -> Result<String, AnswerFault> {
    let body = fs::read(&recorded.path).expect("a file");
    let model = case.model(dialect.name, dialect.model);
    let (answer, _) = dialect.answer(of_messages(case, dialect), &model, body.trim_ascii_end())?;
    Ok(String::from_utf8(answer.body).expect("UTF-8"))
}

/// What the caller gets, and whether it is whole.
fn stream(case: &Case, dialect: Dialect, pieces: &mut dyn Iterator<Item = &[u8]>) -> (String, bool) {
    let streamed = dialect.stream(of_messages(case, dialect), &case.model(dialect.name, dialect.model), pieces);
    (told(&streamed), streamed.end.is_ok())
}

/// What an answer tells, whatever its format.
#[derive(Debug, Default, PartialEq)]
struct Answered {
    text: String,
    thinking: String,
    /// Names and inputs.
    calls: Vec<(String, Value)>,
    /// The reason of the end, as Messages has it.
    reason: String,
    prompt: u64,
    completion: u64,
}

/// Checks that an answer, and the stream that it becomes, tell what callers of chat completions are
/// told.
fn same_answer(case: &Case, dialect: Dialect, recorded: &Recorded) -> Result<(), String> {
    let body = fs::read(&recorded.path).expect("a file");
    let (body, model) = (body.trim_ascii_end(), case.model(dialect.name, dialect.model));
    let chat = match dialect.answer(For(&CHAT, undo(case, dialect)), &model, body) {
        Ok((answer, _)) => of_chat(&json(&answer.body), dialect),
        Err(fault) => return same_fault(&fault, &answer(case, dialect, recorded).err().ok_or("no fault")?),
    };
    let ours = match answer(case, dialect, recorded) {
        Ok(body) => json(body.as_bytes()),
        Err(AnswerFault::Nonsense(BROKEN_CALL)) => return Ok(()),
        Err(fault) => return Err(format!("{fault:?}")),
    };
    if is_other(case, dialect) {
        return Ok(());
    }
    same(&chat, &of_message(&ours)?)?;
    let converted =
        dialect.converted(of_messages(case, dialect), &model, body).map_err(|fault| format!("{fault:?}"))?;
    same(&chat, &of_message(&read(&String::from_utf8(converted.body).expect("UTF-8"))?.whole())?)
}

fn same_stream(case: &Case, dialect: Dialect, bytes: &[u8]) -> Result<(), String> {
    let model = case.model(dialect.name, dialect.model);
    let chat = dialect.stream(For(&CHAT, undo(case, dialect)), &model, [bytes].into_iter());
    let ours = dialect.stream(of_messages(case, dialect), &model, [bytes].into_iter());
    let out = String::from_utf8(ours.out).expect("UTF-8");
    match (&chat.end, &ours.end) {
        (Ok(_), Err(StreamFault::Broken(BROKEN_CALL))) => return Ok(()),
        (Ok(counted), Ok(same)) if counted == same => {}
        (Err(fault), Err(same)) if fault == same => {
            return if out.contains("message_stop") { Err("it looks whole".to_owned()) } else { Ok(()) };
        }
        (chat, ours) => return Err(format!("{chat:?} and {ours:?}")),
    }
    if is_other(case, dialect) {
        return Ok(());
    }
    let told = read(&out)?;
    same(&of_chunks(&String::from_utf8(chat.out).expect("UTF-8"), dialect), &of_message(&told.whole())?)
}

/// Whether an answer passes that is odd on purpose, or in which the gateway's own tool would become
/// the text, or a name the caller's: no caller of Messages has asked for that.
fn is_other(case: &Case, dialect: Dialect) -> bool {
    let undo = undo(case, dialect);
    let is_odd = case.name().starts_with("odd-");
    dialect.name == "anthropic" && (is_odd || undo.format_tool.is_some() || !undo.names.is_empty())
}

fn same_fault(one: &AnswerFault, other: &AnswerFault) -> Result<(), String> {
    if one == other { Ok(()) } else { Err(format!("{one:?} and {other:?}")) }
}

fn same(chat: &Answered, ours: &Answered) -> Result<(), String> {
    if chat == ours { Ok(()) } else { Err(format!("chat tells\n  {chat:?}\nand this\n  {ours:?}")) }
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("JSON")
}

/// What a chat completion tells. A message has one choice, and no pictures.
fn of_chat(answer: &Value, dialect: Dialect) -> Answered {
    let (choice, usage) = (&answer["choices"][0], &answer["usage"]);
    let message = &choice["message"];
    let text = |key: &str| message[key].as_str().unwrap_or_default();
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let calls = calls.iter().map(|call| &call["function"]);
    let refuses = !text("refusal").is_empty();
    Answered {
        text: if dialect.name == "anthropic" {
            text("content").to_owned()
        } else {
            [text("content"), text("refusal")].concat()
        },
        thinking: text("reasoning_content").to_owned(),
        calls: calls
            .filter_map(|call| {
                let input = call["arguments"].as_str().expect("arguments");
                let input = serde_json::from_str(input).ok().filter(Value::is_object)?;
                Some((call["name"].as_str().expect("a name").to_owned(), input))
            })
            .collect(),
        reason: match choice["finish_reason"].as_str().expect("a reason") {
            "stop" if refuses => "refusal",
            "stop" => "end_turn",
            "tool_calls" => "tool_use",
            "length" => "max_tokens",
            "content_filter" => "refusal",
            other => panic!("{other}"),
        }
        .to_owned(),
        prompt: usage["prompt_tokens"].as_u64().expect("a count"),
        completion: usage["completion_tokens"].as_u64().expect("a count"),
    }
}

/// What chunks tell.
fn of_chunks(out: &str, dialect: Dialect) -> Answered {
    let mut message = json!({"content": "", "refusal": "", "reasoning_content": "", "tool_calls": []});
    let (mut reason, mut usage) = (Value::Null, Value::Null);
    for chunk in out.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]") {
        let chunk = json(chunk.as_bytes());
        let choices = chunk["choices"].as_array().expect("choices");
        for choice in choices.iter().filter(|choice| choice["index"] == 0) {
            for key in ["content", "refusal", "reasoning_content"] {
                let all = message[key].as_str().expect("a text").to_owned();
                message[key] = (all + choice["delta"][key].as_str().unwrap_or_default()).into();
            }
            for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                let at = usize::try_from(call["index"].as_u64().expect("an index")).expect("small");
                let calls = message["tool_calls"].as_array_mut().expect("calls");
                if at == calls.len() {
                    calls.push(call.clone());
                } else {
                    let all = calls[at]["function"]["arguments"].as_str().expect("a text").to_owned();
                    calls[at]["function"]["arguments"] =
                        (all + call["function"]["arguments"].as_str().expect("a text")).into();
                }
            }
            if choice["finish_reason"].is_string() {
                reason = choice["finish_reason"].clone();
            }
        }
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
    }
    of_chat(&json!({"choices": [{"message": message, "finish_reason": reason}], "usage": usage}), dialect)
}

/// What a message tells.
fn of_message(message: &Value) -> Result<Answered, String> {
    let mut told = Answered::default();
    let text = |value: &Value, key: &str| value[key].as_str().map(str::to_owned).ok_or(format!("no {key}: {value}"));
    for (key, expected) in [("type", "message"), ("role", "assistant"), ("model", "m")] {
        if message[key] != expected {
            return Err(format!("{key} is {}", message[key]));
        }
    }
    if !text(message, "id")?.starts_with("msg_") {
        return Err("an odd id".to_owned());
    }
    for block in message["content"].as_array().ok_or("no content")? {
        match block["type"].as_str().ok_or("a block without a type")? {
            "text" => told.text += &without_media(&text(block, "text")?),
            "thinking" => told.thinking += &text(block, "thinking")?,
            "tool_use" => {
                text(block, "id")?;
                if !block["input"].is_object() {
                    return Err("an input that is no object".to_owned());
                }
                told.calls.push((text(block, "name")?, block["input"].clone()));
            }
            _ => {}
        }
    }
    let usage = &message["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    told.prompt = count("input_tokens") + count("cache_creation_input_tokens") + count("cache_read_input_tokens");
    told.completion = count("output_tokens");
    told.reason = match text(message, "stop_reason").unwrap_or_default().as_str() {
        "tool_use" => "tool_use",
        "max_tokens" | "model_context_window_exceeded" => "max_tokens",
        "refusal" => "refusal",
        // Of Anthropic's own words many mean that the turn is over.
        _ if told.calls.is_empty() => "end_turn",
        _ => "tool_use",
    }
    .to_owned();
    Ok(told)
}

fn without_media(text: &str) -> String {
    let mut parts = text.split("[The model sent ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once("This format cannot carry it.]").map_or(part, |(_, rest)| rest))
}

/// A stream as a strict client reads it.
#[derive(Debug)]
struct StreamRead {
    message: Value,
    content: Vec<Value>,
}

impl StreamRead {
    /// The whole message, without a call that was cut.
    fn whole(mut self) -> Value {
        let is_cut = matches!(self.message["stop_reason"].as_str(), Some("max_tokens" | "refusal"));
        self.content.retain(|block| {
            block["type"] != "tool_use" || block["input"].is_object() && (!is_cut || block["has_input"] == true)
        });
        self.message["content"] = self.content.into();
        self.message
    }
}

/// Reads a stream, or says what is wrong with it.
fn read(out: &str) -> Result<StreamRead, String> {
    let mut read = StreamRead { message: Value::Null, content: Vec::new() };
    let (mut open, mut json) = (false, String::new());
    let mut has_ended = false;
    for event in out.split_terminator("\n\n").filter(|event| !event.starts_with(':')) {
        let parts = event.strip_prefix("event: ").and_then(|event| event.split_once("\ndata: "));
        let (name, data) = parts.ok_or(format!("no event: {event}"))?;
        let data: Value = serde_json::from_str(data).map_err(|why| format!("{why}: {event}"))?;
        let wrong = |why: &str| Err(format!("{why}: {event}"));
        if data["type"] != name || has_ended {
            return wrong("another type, or after the end");
        }
        match name {
            "message_start" if read.message.is_null() && data["message"]["usage"]["input_tokens"].is_u64() => {
                read.message = data["message"].clone();
            }
            "content_block_start" if !open && data["index"] == read.content.len() => {
                read.content.push(data["content_block"].clone());
                (open, json) = (true, String::new());
            }
            "content_block_delta" if open && data["index"] == read.content.len() - 1 => {
                let block = read.content.last_mut().ok_or("no block")?;
                let delta = data["delta"].as_object().ok_or("no delta")?;
                for (key, piece) in delta.iter().filter(|(key, _)| *key != "type") {
                    let piece = piece.as_str().unwrap_or_default();
                    match key.as_str() {
                        "partial_json" => json += piece,
                        key => block[key] = (block[key].as_str().unwrap_or_default().to_owned() + piece).into(),
                    }
                }
            }
            "content_block_stop" if open && data["index"] == read.content.len() - 1 => {
                let block = read.content.last_mut().ok_or("no block")?;
                block["has_input"] = (!json.is_empty()).into();
                if !json.is_empty() {
                    block["input"] = serde_json::from_str(&json).unwrap_or(Value::Null);
                }
                open = false;
            }
            "message_delta" if !open && data["usage"]["output_tokens"].is_u64() => {
                read.message["stop_reason"] = data["delta"]["stop_reason"].clone();
                for (key, count) in data["usage"].as_object().into_iter().flatten() {
                    read.message["usage"][key] = count.clone();
                }
            }
            "message_stop" if !open && !read.message.is_null() => has_ended = true,
            "ping" => {}
            _ => return wrong("it does not belong here"),
        }
    }
    if has_ended { Ok(read) } else { Err("it has no end".to_owned()) }
}
