use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::front::{Front, GEMINI, MESSAGES, RESPONSES};
use crate::neutral::answer::{AnswerHeader, AnswerOptions};
use crate::neutral::{Echo, Undo};
use crate::upstream::{anthropic, bedrock, gemini, openai};
use crate::{Dialect, Protocol, Recipient, Translate};

/// A seal that hides nothing: every seal with this word opens it.
pub(crate) struct Word(pub(crate) &'static str);

impl Seal for Word {
    fn seal(&self, kept: &Kept) -> Option<String> {
        let mut parts = vec![self.0.to_owned(), kept.call.clone()];
        for Thought {
            text,
            signature,
            redacted,
            of_call,
        } in &kept.thoughts
        {
            let option = |text: &Option<Cow<'_, str>>| text.as_deref().unwrap_or("-").to_owned();
            parts.extend([
                text.to_string(),
                option(signature),
                option(redacted),
                of_call.to_string(),
            ]);
        }
        let hex: String = parts
            .join("|")
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(format!("{MARK}{hex}"))
    }

    fn open(&self, sealed: &str) -> Option<Kept> {
        let hex = sealed.strip_prefix(MARK)?;
        let byte = |at: usize| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok();
        let text =
            String::from_utf8((0..hex.len() / 2).map(byte).collect::<Option<Vec<u8>>>()?).ok()?;
        let mut parts = text.split('|').map(str::to_owned);
        if parts.next()? != self.0 {
            return None;
        }
        let call = parts.next()?;
        let parts: Vec<String> = parts.collect();
        let option = |text: &str| (text != "-").then(|| text.to_owned().into());
        let thought = |part: &[String]| Thought {
            text: part[0].clone().into(),
            signature: option(&part[1]),
            redacted: option(&part[2]),
            of_call: part[3] == "true",
        };
        Some(Kept {
            call,
            thoughts: parts.chunks(4).map(thought).collect(),
        })
    }
}

/// Thinking, a redacted thought, and two calls, of which the first led to by all of it.
const CLAUDE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[
    {"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"redacted_thinking","data":"cmVk"},
    {"type":"text","text":"Look."},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}},
    {"type":"tool_use","id":"toolu_2","name":"f","input":{"a":2}}],
    "stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":7}}"#;

const BEDROCK: &str = r#"{"output":{"message":{"role":"assistant","content":[
    {"reasoningContent":{"reasoningText":{"text":"Hm.","signature":"c2ln"}}},{"reasoningContent":{"redactedContent":"cmVk"}},
    {"text":"Look."},{"toolUse":{"toolUseId":"toolu_1","name":"f","input":{"a":1}}},
    {"toolUse":{"toolUseId":"toolu_2","name":"f","input":{"a":2}}}]}},"stopReason":"tool_use","usage":{"inputTokens":5,"outputTokens":7,"totalTokens":12}}"#;

const GEMINIS: &str = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"Look."},
    {"functionCall":{"id":"g1","name":"f","args":{"a":1}},"thoughtSignature":"c2ln"},
    {"functionCall":{"id":"g2","name":"f","args":{"a":2}}}]},"finishReason":"STOP","index":0}],
    "usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":7,"totalTokenCount":12}}"#;

/// A seal for which everything is too long.
struct Full;

impl Seal for Full {
    fn seal(&self, _kept: &Kept) -> Option<String> {
        None
    }

    fn open(&self, _sealed: &str) -> Option<Kept> {
        None
    }
}

#[test]
fn what_is_too_long_to_be_sealed_is_named() {
    for upstream in upstreams() {
        for (front, name) in [
            (&MESSAGES, "content[].signature"),
            (&RESPONSES, "output[].encrypted_content"),
            (&GEMINI, "candidates[].content.parts[].thoughtSignature"),
        ] {
            let seals: [(Option<Arc<dyn Seal>>, bool); 3] = [
                (Some(Arc::new(Full)), true),
                (Some(Arc::new(Word("w"))), false),
                (None, false),
            ];
            for (seal, is_lost) in seals {
                let header = AnswerHeader {
                    model: "m".into(),
                    ..AnswerHeader::default()
                };
                // With thinking hidden nothing passes, and the calls carry all of it.
                let passes = front
                    == if upstream.model.contains("claude") {
                        &MESSAGES
                    } else {
                        &GEMINI
                    };
                for hide_reasoning in [true, passes] {
                    let seal = seal.clone().map(AnswerSeal);
                    let options = AnswerOptions {
                        hide_reasoning,
                        seal,
                        ..AnswerOptions::default()
                    };
                    let to = Recipient {
                        front,
                        header: &header,
                        options,
                    };
                    let said = upstream.answer.as_bytes();
                    let (answer, _) = upstream.dialect.answer(upstream.model, &to, said).unwrap();
                    let named: Vec<_> = front.flaws(answer.flaws).collect();
                    assert_eq!(
                        named,
                        if is_lost { vec![name] } else { vec![] },
                        "{} {hide_reasoning}",
                        upstream.model
                    );
                }
            }
        }
    }
}

#[derive(Clone)]
struct Upstream {
    dialect: Dialect,
    model: &'static str,
    answer: &'static str,
}

fn upstreams() -> [Upstream; 3] {
    let of = |protocol: &'static Protocol, model, answer| Upstream {
        dialect: Dialect::from(protocol),
        model,
        answer,
    };
    [
        of(&anthropic::PROTOCOL, "claude-sonnet-4-5", CLAUDE),
        of(
            &bedrock::PROTOCOL,
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            BEDROCK,
        ),
        of(&gemini::PROTOCOL, "gemini-3-pro", GEMINIS),
    ]
}

fn answered(
    upstream: &Upstream,
    front: &'static Front,
    hides: bool,
    word: Option<&'static str>,
) -> Value {
    // Claude at Bedrock is asked in the caller's own format, unless thinking is hidden.
    let said = if front == &MESSAGES && !hides && upstream.answer == BEDROCK {
        CLAUDE
    } else {
        upstream.answer
    };
    let header = AnswerHeader {
        model: "m".into(),
        id: format!("{}1", front.id_prefix),
        ..AnswerHeader::default()
    };
    let seal = word.map(|word| AnswerSeal(Arc::new(Word(word))));
    let echo = Some(Arc::new(Echo {
        carries_thoughts: true,
        ..Echo::default()
    }));
    let undo = Undo {
        echo,
        ..Undo::default()
    };
    let options = AnswerOptions {
        hide_reasoning: hides,
        seal,
        undo,
        ..AnswerOptions::default()
    };
    let to = Recipient {
        front,
        header: &header,
        options: options.clone(),
    };
    // Callers that do not ask for sealed thoughts send back the ids of items alone.
    if front == &RESPONSES {
        let silent = Recipient {
            options: AnswerOptions {
                undo: Undo::default(),
                ..options
            },
            ..to.clone()
        };
        let (answer, _) = upstream
            .dialect
            .answer(upstream.model, &silent, said.as_bytes())
            .unwrap();
        assert_eq!(sealed_in(&answer.body).count(), 0);
        assert!(!String::from_utf8_lossy(&answer.body).contains(r#""type":"reasoning""#));
    }
    let (answer, _) = upstream
        .dialect
        .answer(upstream.model, &to, said.as_bytes())
        .unwrap();
    let whole: Value = serde_json::from_slice(&answer.body).unwrap();
    // A stream carries the texts that a whole answer carries.
    let (stream, _) = upstream
        .dialect
        .converted(upstream.model, &to, said.as_bytes())
        .unwrap();
    let found = |body: &[u8]| {
        let mut found: Vec<String> = sealed_in(body).map(Cow::into_owned).collect();
        found.sort();
        found.dedup();
        found
    };
    assert_eq!(
        found(&stream.body).len(),
        found(&answer.body).len(),
        "{}",
        String::from_utf8_lossy(&stream.body)
    );
    whole
}

/// The turn after an answer, in the format of its front door.
fn next_turn(front: &'static Front, answer: &Value) -> Value {
    match front.name {
        "messages" => {
            json!({"model": "m", "max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2000},
            "tools": [{"name": "f", "input_schema": {"type": "object"}}], "messages": [
            {"role": "user", "content": "x"}, {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": answer["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use")
                .map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "ok"})).collect::<Vec<_>>()}]})
        }
        "responses" => {
            let mut input = vec![json!({"role": "user", "content": "x"})];
            let output = answer["output"].as_array().unwrap();
            input.extend(output.iter().cloned());
            let calls = output.iter().filter(|item| item["type"] == "function_call");
            input.extend(
                calls.map(|call| json!({"type": "function_call_output", "call_id": call["call_id"], "output": "ok"})),
            );
            json!({"model": "m", "input": input, "reasoning": {"effort": "low"},
                "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]})
        }
        _ => {
            let content = &answer["candidates"][0]["content"];
            let calls = content["parts"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|part| part["functionCall"].is_object());
            let results = calls.map(|part| {
                let call = &part["functionCall"];
                json!({"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": "ok"}}})
            });
            json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}, content, {"role": "user", "parts": results.collect::<Vec<_>>()}],
                "generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}},
                "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}]})
        }
    }
}

fn written(
    dialect: &Dialect,
    model: &str,
    (front, hides): (&'static Front, bool),
    body: &Value,
    sealed: Sealed<'_>,
) -> (Value, String) {
    let body = Bytes::from(body.to_string());
    let outbound = dialect
        .write(&Translate {
            traits: (dialect.protocol.traits)(model),
            hide_reasoning: hides,
            sealed,
            ..Translate::new(&body, &front.envelope(&body).unwrap(), model)
        })
        .unwrap();
    (
        serde_json::from_slice(&outbound.body.concat()).unwrap(),
        outbound.losses.names().join(" "),
    )
}

/// Returns the assistant's messages, as the model's own server gets them back.
fn assistants(sent: &Value) -> &Value {
    let turns = sent.get("messages").or(sent.get("contents")).unwrap();
    let turn = turns
        .as_array()
        .unwrap()
        .iter()
        .find(|turn| turn["role"] == "assistant" || turn["role"] == "model");
    turn.map(|turn| turn.get("content").or(turn.get("parts")).unwrap())
        .unwrap()
}

const DOORS: [&Front; 3] = [&MESSAGES, &RESPONSES, &GEMINI];

/// Returns the name of the loss at a door if a thought does not open.
fn lost(front: &Front) -> &'static str {
    match front.name {
        "messages" => "messages[].content[].thinking",
        "responses" => "input[].reasoning",
        _ => "contents[].parts[].thoughtSignature",
    }
}

#[test]
fn thoughts_return_to_their_model_by_every_door() {
    for upstream in &upstreams() {
        for front in DOORS {
            for (hides, hid) in [(false, false), (true, true), (false, true), (true, false)] {
                let name = format!(
                    "{} by {} hides {hides} hid {hid}",
                    upstream.dialect.protocol.name, front.name
                );
                let passes = upstream.dialect.protocol.for_model(upstream.model).format()
                    == front.name
                    || (front.name, upstream.dialect.protocol.name) == ("messages", "bedrock");
                let answer = answered(upstream, front, hid, Some("a"));
                let text = answer.to_string();
                assert!(
                    text.contains(MARK) && !text.contains("c2ln") && !text.contains("cmVk"),
                    "{name}: {text}"
                );
                assert!(!hid || !text.contains("Hm."), "{name}: {text}");
                let turn = next_turn(front, &answer);
                let write = |sealed| {
                    written(
                        &upstream.dialect,
                        upstream.model,
                        (front, hides),
                        &turn,
                        sealed,
                    )
                };
                let (sent, losses) = write(Sealed::Opened(&Word("a")));
                // A hidden thought has no place in a body that passes.
                if passes && hid && !hides && front == &MESSAGES {
                    assert!(
                        losses.contains(lost(front)) && !sent.to_string().contains(MARK),
                        "{name}: {losses} {sent}"
                    );
                    continue;
                }
                let is_claude = sent["messages"][1]["content"][0]["type"].is_string();
                let same: Value =
                    serde_json::from_str(if is_claude { CLAUDE } else { upstream.answer }).unwrap();
                let said = same
                    .pointer("/content")
                    .or(same.pointer("/output/message/content"));
                match said {
                    // Where it was hidden before, it stands before the call.
                    Some(_) if hid && !hides => {
                        let sent = assistants(&sent).to_string();
                        assert!(
                            ["Hm.", "c2ln", "cmVk"]
                                .iter()
                                .all(|text| sent.contains(text)),
                            "{name}: {sent}"
                        );
                    }
                    Some(said) => assert_eq!(assistants(&sent), said, "{name}"),
                    None => {
                        let parts = assistants(&sent).as_array().unwrap();
                        let calls: Vec<_> = parts
                            .iter()
                            .filter(|part| part["functionCall"].is_object())
                            .collect();
                        assert_eq!(calls[0]["thoughtSignature"], "c2ln", "{name}: {sent}");
                        assert_eq!(
                            (calls.len(), calls[1].get("thoughtSignature")),
                            (2, None),
                            "{name}"
                        );
                    }
                }
                assert!(
                    !losses.contains(lost(front)) || upstream.model.starts_with("gemini"),
                    "{name}: {losses}"
                );
                for sealed in [Sealed::Opened(&Word("b")), Sealed::Closed, Sealed::LeftOut] {
                    let (sent, losses) = write(sealed);
                    let sent = sent.to_string();
                    assert!(
                        !sent.contains(MARK) && !sent.contains("c2ln") && !sent.contains("cmVk"),
                        "{name}: {sent}"
                    );
                    assert!(losses.contains(lost(front)), "{name}: {losses}");
                }
                // A server of another format.
                let (sent, losses) = written(
                    &Dialect::from(&openai::PROTOCOL),
                    "gpt-5",
                    (front, false),
                    &turn,
                    Sealed::Closed,
                );
                assert!(
                    !sent.to_string().contains(MARK) && losses.contains(lost(front)),
                    "{name}: {losses} {sent}"
                );
                assert_eq!(
                    sent["messages"].as_array().unwrap().len(),
                    4,
                    "{name}: {sent}"
                );
            }
        }
    }
}

#[test]
fn without_a_seal_only_providers_signatures_travel() {
    for upstream in &upstreams() {
        for front in DOORS {
            let text = answered(upstream, front, true, None).to_string();
            assert!(!text.contains(MARK) && !text.contains("c2ln"), "{text}");
        }
    }
}

#[test]
fn what_is_left_out_leaves_no_empty_message() {
    let alone = Word("a")
        .seal(&Kept {
            call: "c".into(),
            thoughts: Vec::new(),
        })
        .unwrap();
    let body = json!({"model": "m", "input": [{"role": "user", "content": "x"}, {"type": "reasoning", "summary": [], "encrypted_content": alone}]});
    for sealed in [Sealed::Opened(&Word("a")), Sealed::Closed] {
        let (sent, _) = written(
            &Dialect::from(&openai::PROTOCOL),
            "gpt-5",
            (&RESPONSES, false),
            &body,
            sealed,
        );
        assert_eq!(sent["messages"], json!([{"role": "user", "content": "x"}]));
    }
}

#[test]
fn all_thoughts_go_once_an_upstream_refused_them() {
    let body = json!({"model": "m", "max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2000}, "messages": [{"role": "user", "content": "x"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "their own"}, {"type": "text", "text": "a"}]},
        {"role": "user", "content": "y"}]});
    let bedrock = Dialect::from(&bedrock::PROTOCOL);
    let write = |sealed, hides| {
        written(
            &bedrock,
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            (&MESSAGES, hides),
            &body,
            sealed,
        )
    };
    // A request that is translated, and a request that passes.
    for hides in [true, false] {
        let (sent, _) = write(Sealed::Closed, hides);
        assert!(sent.to_string().contains("their own"), "{sent}");
        let (sent, losses) = write(Sealed::LeftOut, hides);
        assert!(
            !sent.to_string().contains("Hm.") && losses.contains(lost(&MESSAGES)),
            "{losses} {sent}"
        );
    }
}
