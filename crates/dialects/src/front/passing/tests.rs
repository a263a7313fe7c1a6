use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::front::{Front, GEMINI, GEMINI_ARRAY, MESSAGES, PathRequest, RESPONSES};
use crate::neutral::Endpoint;
use crate::neutral::seal::tests::Word;
use crate::neutral::seal::{Kept, MARK, Seal};
use crate::upstream::{anthropic, bedrock, gemini, openai};
use crate::wire::frames::frame;
use crate::{Dialect, Recipient, Translate};

/// A door and an account with its format, and the bodies that they exchange.
struct Pass {
    front: &'static Front,
    dialect: Dialect,
    model: &'static str,
    whole: &'static str,
    stream: &'static str,
    /// A conversation with the word `THOUGHTS` in the place of the thoughts, sealed or the
    /// account's own.
    turn: &'static str,
    /// The conversation without thoughts.
    without: &'static str,
    lost: &'static str,
}

/// `<s>` stands for the signature of a thought, `<r>` for a redacted thought, and `<c>` for the
/// signature of a call. `up` is the model.
const CLAUDE: [&str; 4] = [
    r#"{"model":"up","content":[{"type":"thinking","thinking":"signature","signature":"<s>"}, {"type":"redacted_thinking" ,"data":"<r>"},{"type":"tool_use","id":"a","name":"f","input":{"signature":"x","type":"thinking"}},{"type":"new","signature":"y","data":"z"}],"stop_reason":"tool_use","usage":{"input_tokens":5,"output_tokens":7}}"#,
    concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"up\",\"content\":[],\"usage\":{\"input_tokens\":5}}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"signature\",\"signature\":\"n\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"<s>\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{ \"data\":\"<r>\",\"type\":\"redacted_thinking\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"text_delta\",\"text\":\"{\\\"type\\\":\\\"signature_delta\\\"}\"}}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    ),
    r#"{"model":"up","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"<s>"},{"type":"redacted_thinking","data":"<r>"},{"type":"text","text":"y"}]},{"role":"assistant","content":[{"type":"redacted_thinking","data":"<r>"}]}]}"#,
    r#"{"model":"up","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"text","text":"y"}]}]}"#,
];

const GOOGLES: [&str; 4] = [
    r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"t","thought":true},{"functionCall":{"name":"f","args":{"thoughtSignature":"x"}} , "thoughtSignature":"<c>"},{"text":"","thought_signature":"<c>"}]},"finishReason":"STOP"}],"modelVersion":"up"}"#,
    concat!(
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"thoughtSignature\"}]}}],\"modelVersion\":\"up\"}\n\n",
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"thoughtSignature\":\"<c>\",\"functionCall\":{\"name\":\"f\",\"args\":{}}}]}}],\"modelVersion\":\"up\"}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"<c>\"}]},\"finishReason\":\"STOP\"}],\"modelVersion\":\"up\"}\n\n",
    ),
    r#"{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"<c>"},{"text":"x","thought_signature":"<c>"}]}]}"#,
    r#"{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"text":"x"}]}]}"#,
];

const OPENAIS: [&str; 4] = [
    r#"{"id":"r","model":"up","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"<r>"},{"type":"compaction","encrypted_content":"c"},{"type":"message","content":[{"type":"output_text","text":"encrypted_content"}]}]}"#,
    concat!(
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"up\",\"output\":[]}}\n\n",
        "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"rs_1\",\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"<r>\"}}\n\n",
        "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"encrypted_content\":\"<r>\",\"id\":\"rs_1\",\"type\":\"reasoning\",\"summary\":[]}}\n\n",
        "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":1,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[]}}\n\n",
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"encrypted_content\",\"item\":{\"type\":\"reasoning\",\"encrypted_content\":\"n\"}}\n\n",
        "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"encrypted_content\"}]}}\n\n",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"model\":\"up\",\"status\":\"completed\",\"output\":[{\"id\":\"rs_1\",\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"<r>\"},{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"encrypted_content\"}]}]}}\n\n",
    ),
    r#"{"model":"up","store":false,"include":["reasoning.encrypted_content"],"input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[],"encrypted_content":"<r>"},{"role":"user","content":"y"}]}"#,
    r#"{"model":"up","store":false,"include":["reasoning.encrypted_content"],"input":[{"role":"user","content":"x"},{"role":"user","content":"y"}]}"#,
];

fn passes() -> [Pass; 5] {
    let pass = |front,
                dialect: Dialect,
                model,
                [whole, stream, turn, without]: [&'static str; 4],
                lost| Pass {
        front,
        dialect,
        model,
        whole,
        stream,
        turn,
        without,
        lost,
    };
    let responses = Dialect::from(&openai::PROTOCOL).for_endpoint(Endpoint::Responses);
    let (thinking, signature) = (
        "messages[].content[].thinking",
        "contents[].parts[].thoughtSignature",
    );
    [
        pass(
            &MESSAGES,
            (&anthropic::PROTOCOL).into(),
            "up",
            CLAUDE,
            thinking,
        ),
        pass(
            &MESSAGES,
            (&bedrock::PROTOCOL).into(),
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            CLAUDE,
            thinking,
        ),
        pass(
            &GEMINI,
            (&gemini::PROTOCOL).into(),
            "gemini-3-pro",
            GOOGLES,
            signature,
        ),
        pass(
            &GEMINI_ARRAY,
            (&gemini::PROTOCOL).into(),
            "gemini-3-pro",
            GOOGLES,
            signature,
        ),
        pass(&RESPONSES, responses, "up", OPENAIS, "input[].reasoning"),
    ]
}

/// Returns the text that the account `word` seals in place of its own texts.
fn sealed(text: &str, word: &'static str) -> String {
    let seal = AnswerSeal(Arc::new(Word(word)));
    [
        ("<s>", seal.signature("<s>")),
        ("<r>", seal.redacted("<r>")),
        ("<c>", seal.signature_of_call("<c>")),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (own, sealed)| {
        text.replace(own, &sealed.unwrap())
    })
}

fn as_asked(text: &str) -> String {
    text.replace(r#""up""#, r#""m""#)
}

/// The events of a stream in Amazon's frames.
fn framed(stream: &str) -> Vec<u8> {
    let data = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let payload = |event| format!(r#"{{"bytes":"{}"}}"#, STANDARD.encode(event));
    let head = [(":message-type", "event"), (":event-type", "chunk")];
    data.flat_map(|event| frame(&head, payload(event).as_bytes()))
        .collect()
}

struct Answers<'a>(&'a Pass, Option<AnswerSeal>);

impl Answers<'_> {
    fn whole(&self) -> String {
        let Answers(pass, seal) = self;
        let header = AnswerHeader {
            model: "m".into(),
            ..AnswerHeader::default()
        };
        let options = AnswerOptions {
            seal: seal.clone(),
            ..AnswerOptions::default()
        };
        let to = Recipient {
            front: pass.front,
            header: &header,
            options,
        };
        let (answer, _) = pass
            .dialect
            .answer(pass.model, &to, pass.whole.as_bytes())
            .unwrap();
        String::from_utf8(answer.body).unwrap()
    }

    fn stream(&self, size: usize) -> String {
        let Answers(pass, seal) = self;
        let header = AnswerHeader {
            model: "m".into(),
            ..AnswerHeader::default()
        };
        let options = AnswerOptions {
            seal: seal.clone(),
            ..AnswerOptions::default()
        };
        let to = Recipient {
            front: pass.front,
            header: &header,
            options,
        };
        let (mut stream, mut out) = (pass.dialect.stream(pass.model, to, 1 << 20), Vec::new());
        let bytes = if pass.dialect.protocol.name == "bedrock" {
            framed(pass.stream)
        } else {
            pass.stream.into()
        };
        bytes
            .chunks(size)
            .for_each(|piece| stream.feed(piece, &mut out).unwrap());
        stream.finish(&mut out, None).unwrap();
        String::from_utf8(out).unwrap()
    }
}

/// The stream that a caller gets, as text.
fn told(pass: &Pass, seal: impl Fn(&str) -> String) -> String {
    let stream = as_asked(&seal(pass.stream));
    if pass.front != &GEMINI_ARRAY {
        return stream;
    }
    let data: Vec<&str> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    format!("[{}]\n", data.join(",\n"))
}

#[test]
fn only_an_accounts_signatures_are_sealed() {
    for pass in &passes() {
        let answers = Answers(pass, Some(AnswerSeal(Arc::new(Word("a")))));
        assert_eq!(answers.whole(), as_asked(&sealed(pass.whole, "a")));
        let expected = told(pass, |text| sealed(text, "a"));
        for size in [1, 7, 64, 1000, 1 << 20] {
            assert_eq!(answers.stream(size), expected, "in pieces of {size}");
        }
    }
}

/// A seal that seals nothing, as if everything was too long.
struct TooLong;

impl Seal for TooLong {
    fn seal(&self, _kept: &Kept) -> Option<String> {
        None
    }
    fn open(&self, _sealed: &str) -> Option<Kept> {
        panic!("an answer opens nothing")
    }
}

#[test]
fn long_or_unsealed_things_pass_unchanged() {
    for pass in &passes() {
        for seal in [None, Some(AnswerSeal(Arc::new(TooLong)))] {
            let answers = Answers(pass, seal);
            assert_eq!(answers.whole(), as_asked(pass.whole));
            assert_eq!(answers.stream(100), told(pass, str::to_owned));
        }
    }
}

/// Passes a turn. Returns the body that the account gets, and the losses.
fn sent(pass: &Pass, turn: &str, sealed: Sealed<'_>) -> (String, String) {
    let body = Bytes::copy_from_slice(turn.as_bytes());
    let asked = PathRequest {
        model: Some(pass.model.to_owned()),
        stream: false,
    };
    let envelope = pass.front.envelope(&body).unwrap();
    let envelope = if pass.front.name.starts_with("gemini") {
        envelope.with_path(asked)
    } else {
        envelope
    };
    let traits = (pass.dialect.protocol.traits)(pass.model);
    let job = Translate {
        sealed,
        traits,
        ..Translate::new(&body, &envelope, pass.model)
    };
    let outbound = pass.dialect.write(&job).unwrap();
    (
        String::from_utf8(outbound.body.concat()).unwrap(),
        outbound.losses.names().join(" "),
    )
}

/// As a server of the format reads it: Bedrock has other places for the model and the version.
fn read(pass: &Pass, text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap();
    let members = value.as_object_mut().unwrap();
    ["model", "anthropic_version"]
        .iter()
        .for_each(|name| drop(members.remove(*name)));
    assert!(
        !text.contains(MARK),
        "{} gets {text}",
        pass.dialect.protocol.name
    );
    value
}

#[test]
fn sealed_things_return_only_to_their_account() {
    for pass in &passes() {
        let (turn, mine) = (pass.turn, Word("a"));
        // The account's own texts pass, whoever has them.
        for open in [Sealed::Opened(&mine), Sealed::Closed] {
            let (own, lost) = sent(pass, turn, open);
            assert_eq!((read(pass, &own), &*lost), (read(pass, turn), ""));
        }
        let (opened, lost) = sent(pass, &sealed(turn, "a"), Sealed::Opened(&mine));
        assert_eq!((read(pass, &opened), &*lost), (read(pass, turn), ""));
        let forged = turn.replace('<', MARK).replace('>', "=");
        let empty = sealed(turn, "a")
            .replace(&sealed("<s>", "a"), "")
            .replace(&sealed("<r>", "a"), "");
        let lost_ones = [
            (sealed(turn, "b"), Sealed::Opened(&mine as &dyn Seal)),
            (sealed(turn, "a"), Sealed::Closed),
            (sealed(turn, "a"), Sealed::LeftOut),
            (turn.to_owned(), Sealed::LeftOut),
            (forged, Sealed::Opened(&mine)),
        ];
        let empty = (!pass.front.name.starts_with("gemini"))
            .then_some((empty, Sealed::Opened(&mine as &dyn Seal)));
        for (turn, sealed) in lost_ones.into_iter().chain(empty) {
            let (left, lost) = sent(pass, &turn, sealed);
            assert_eq!(
                (read(pass, &left), &*lost),
                (read(pass, pass.without), pass.lost),
                "{turn}"
            );
        }
    }
}

#[test]
fn a_seal_of_several_or_other_thoughts_is_dropped() {
    let [pass, ..] = &passes();
    let thought = |text: &'static str| Thought {
        signature: Some(text.into()),
        ..Thought::default()
    };
    let several = Kept {
        call: "c".into(),
        thoughts: vec![thought("s"), thought("t")],
    };
    for seal in [Word("a").seal(&several).unwrap(), sealed("<s>", "a")] {
        let turn = json!({"model": "up", "max_tokens": 9, "messages": [
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": seal}, {"type": "text", "text": "y"}]}]});
        let (left, lost) = sent(pass, &turn.to_string(), Sealed::Opened(&Word("a")));
        assert_eq!(
            read(pass, &left)["messages"][0]["content"],
            json!([{"type": "text", "text": "y"}])
        );
        assert_eq!(lost, pass.lost);
    }
}

#[test]
fn an_answer_replacing_a_stream_carries_thoughts() {
    let [.., pass] = &passes();
    let body = Bytes::from_static(pass.turn.as_bytes());
    let envelope = pass.front.envelope(&body).unwrap();
    let outbound = pass
        .dialect
        .write(&Translate::new(&body, &envelope, pass.model))
        .unwrap();
    let header = AnswerHeader::default();
    let seal = Some(AnswerSeal(Arc::new(Word("a"))));
    let options = AnswerOptions {
        seal,
        undo: outbound.undo,
        ..AnswerOptions::default()
    };
    let to = Recipient {
        front: pass.front,
        header: &header,
        options,
    };
    let whole = pass.whole.replace(
        r#"{"type":"message""#,
        r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"message""#,
    );
    let (answer, _) = pass
        .dialect
        .converted(pass.model, &to, whole.as_bytes())
        .unwrap();
    let told = String::from_utf8(answer.body).unwrap();
    assert!(
        told.contains(r#""encrypted_content":"pcsealv1"#) && told.contains("response.completed"),
        "{told}"
    );
}

#[test]
fn long_parts_are_not_copied_short_ones_joined() {
    let [.., pass] = &passes();
    let item = |text: &str| json!({"id": "msg_1", "role": "user", "content": text});
    let long = "x".repeat(100_000);
    let body = json!({"model": "m", "input": [item("a"), item("b"), item(&long), item("c")], "store": false});
    let body = Bytes::from(body.to_string());
    let envelope = pass.front.envelope(&body).unwrap();
    let outbound = pass
        .dialect
        .write(&Translate::new(&body, &envelope, pass.model))
        .unwrap();
    assert!(
        outbound.body.len() == 3 && outbound.copied < 1000,
        "{} {}",
        outbound.body.len(),
        outbound.copied
    );
    let after = body.to_vec();
    let expected = String::from_utf8(after)
        .unwrap()
        .replace(r#","id":"msg_1""#, "")
        .replace(r#""m""#, r#""up""#);
    assert_eq!(String::from_utf8(outbound.body.concat()).unwrap(), expected);
}
