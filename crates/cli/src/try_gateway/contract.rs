//! Answers are held against the contract of their door, whole ones and streams.

use std::time::Duration;

use serde_json::{Map, Value};

use super::door::Format;

/// What an answer has, and what deviates in it.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) model: String,
    pub(super) text: String,
    pub(super) finish: String,
    pub(super) usage: Map<String, Value>,
    /// When the first and the last text of a stream came.
    pub(super) times: Option<(Duration, Duration)>,
    pub(super) deviations: Vec<Deviation>,
    /// An error inside of a stream.
    pub(super) error: Option<Value>,
    /// The events so far.
    count: u64,
    is_over: bool,
}

/// A member that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Deviation {
    pub(super) member: String,
    pub(super) seen: String,
    pub(super) expected: String,
}

impl Contents {
    /// Notes a deviation. Of each member the first is enough.
    pub(super) fn note(
        &mut self,
        member: &str,
        seen: impl Into<String>,
        expected: impl Into<String>,
    ) {
        if !self.deviations.iter().any(|known| known.member == member) {
            self.deviations.push(Deviation {
                member: member.to_owned(),
                seen: seen.into(),
                expected: expected.into(),
            });
        }
    }

    /// Notes that a member is not one of these words.
    fn note_words(&mut self, member: &str, seen: &str, words: &str) {
        let one_of = if words.contains('|') { "one of " } else { "" };
        self.note(
            member,
            seen,
            format!("{one_of}{}", words.replace('|', ", ")),
        );
    }

    /// Holds a value against rules. Of a missing member nothing inside is missed.
    pub(super) fn check(&mut self, value: &Value, rules: &str) {
        for (path, shapes) in rules
            .split_whitespace()
            .filter_map(|rule| rule.split_once(':'))
        {
            let outer = path.rsplit_once('.').map_or("", |(outer, _)| outer);
            let member = find_member(value, path);
            if find_member(value, outer).is_some()
                && !shapes.split('|').any(|shape| has_shape(member, shape))
            {
                let seen = member.map_or("missing".to_owned(), Value::to_string);
                self.note_words(path, &seen, shapes);
            }
        }
    }

    /// Takes a whole answer, as a stream of one event.
    pub(super) fn take_whole(&mut self, format: &Format, answer: &Value) {
        self.check(answer, format.whole);
        self.take_model_and_usage(answer);
        self.text = read_text(find_member(answer, format.text), format.text_types);
        self.finish = find_text(answer, format.finish).to_owned();
        (self.is_over, self.count) = (true, 1);
        self.check_end(format);
    }

    /// Takes an event of a stream. Behind an error nothing counts.
    pub(super) fn take_event(&mut self, format: &Format, name: &str, data: &str, time: Duration) {
        if self.error.is_some() {
            return;
        }
        if self.is_over {
            self.note("the last event", "another one behind it", "the end");
        }
        if !format.end.is_empty() && data == format.end {
            self.is_over = true;
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else {
            return self.note("data", data, "JSON");
        };
        let kind = find_text(&event, "type");
        if event.get("error").is_some_and(Value::is_object)
            || kind == "error"
            || kind == "response.failed"
        {
            self.error = Some(event);
            return;
        }
        if name != kind {
            self.note(
                "event",
                format!("{name}, with data of {kind}"),
                "the type of its data",
            );
        }
        if self.count == 0 {
            self.check(&event, format.begin);
        }
        self.check(&event, format.each);
        let number = event.get("sequence_number").and_then(Value::as_u64);
        if number.is_some_and(|number| number != self.count) {
            self.note(
                "sequence_number",
                "not one more each time",
                "0, 1, 2 and so on",
            );
        }
        self.count += 1;
        let is_chunk = format.end == "[DONE]" && event.get("usage").is_some_and(Value::is_object);
        if is_chunk
            && (find_member(&event, "choices.0").is_some()
                || self.finish.is_empty()
                || !self.usage.is_empty())
        {
            self.note(
                "usage",
                "not once at the end",
                "one chunk with it and empty choices, behind finish_reason",
            );
        }
        self.take_model_and_usage(&event);
        let delta =
            find_member(&event, format.delta).filter(|_| has_type(&event, format.text_types));
        let text = read_text(delta, format.text_types);
        let finish = find_text(&event, format.delta_finish);
        let goes_on = !text.is_empty() || !finish.is_empty();
        if goes_on && !self.finish.is_empty() {
            self.note(
                format.delta_finish,
                "not once at the end",
                "once, behind the text",
            );
        }
        if !text.is_empty() {
            self.times = Some((self.times.map_or(time, |(first, _)| first), time));
        }
        self.text.push_str(&text);
        if !finish.is_empty() {
            self.finish = finish.to_owned();
        }
        if format
            .end
            .split('|')
            .any(|end| !end.is_empty() && end == kind)
        {
            self.is_over = true;
            self.finish.push_str(find_text(&event, "response.status"));
        }
    }

    fn take_model_and_usage(&mut self, answer: &Value) {
        let models = ["model", "message.model", "response.model", "modelVersion"];
        if let Some(model) = find_first(answer, &models).and_then(Value::as_str) {
            self.model = model.to_owned();
        }
        let usages = ["usage", "message.usage", "response.usage", "usageMetadata"];
        if let Some(Value::Object(usage)) = find_first(answer, &usages) {
            self.usage.extend(usage.clone());
        }
    }

    /// Checks what must be there in the end, unless there is an error.
    pub(super) fn check_end(&mut self, format: &Format) {
        if self.error.is_some() {
            return;
        }
        if self.count == 0 {
            return self.note("events", "none", "lines of `data:`");
        }
        if !self.is_over && !format.end.is_empty() {
            self.note_words("the last event", "missing", format.end);
        }
        if !format.finishes.split('|').any(|word| word == self.finish) {
            let seen = match &*self.finish {
                "" => "missing".to_owned(),
                word => format!("{word:?}"),
            };
            self.note_words(format.finish, &seen, format.finishes);
        }
        if self.usage.is_empty() {
            return self.note_words("usage", "missing", "object");
        }
        let usage = Value::Object(self.usage.clone());
        for name in format.counts {
            self.check(&usage, &format!("{name}:count"));
        }
        if !format.total.is_empty() {
            let parts = format
                .counts
                .iter()
                .chain(&["thoughtsTokenCount", "toolUsePromptTokenCount"]);
            let counts = parts.filter_map(|name| usage.get(name)?.as_u64());
            let sum = counts.fold(0, u64::saturating_add);
            let total = usage.get(format.total);
            if total.and_then(Value::as_u64) != Some(sum) {
                let seen = total.map_or("missing".to_owned(), Value::to_string);
                self.note(format.total, seen, format!("{sum}, the sum of the others"));
            }
        }
    }
}

fn has_shape(member: Option<&Value>, shape: &str) -> bool {
    match (shape, member) {
        ("text", Some(Value::String(text))) => !text.is_empty(),
        ("string", Some(Value::String(_)))
        | ("array", Some(Value::Array(_)))
        | ("object", Some(Value::Object(_))) => true,
        ("count", Some(number)) => number.is_u64(),
        (exact, Some(Value::String(text))) => exact == text,
        ("null", Some(Value::Null)) | ("missing", None) => true,
        (exact, Some(Value::Number(number))) => exact == number.to_string(),
        _ => false,
    }
}

/// Returns the member at a path such as `choices.0.message`.
pub(super) fn find_member<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let mut steps = path.split('.').filter(|step| !step.is_empty());
    steps.try_fold(value, |value, step| {
        value
            .get(step)
            .or_else(|| value.get(step.parse::<usize>().ok()?))
    })
}

/// Returns the member at the first of these paths that has one.
pub(super) fn find_first<'v>(value: &'v Value, paths: &[&str]) -> Option<&'v Value> {
    paths.iter().find_map(|path| find_member(value, path))
}

/// Returns the text at a path; an empty one if there is none.
pub(super) fn find_text<'v>(value: &'v Value, path: &str) -> &'v str {
    find_member(value, path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns whether a value has one of these types. If there are none, each value counts.
fn has_type(value: &Value, types: &str) -> bool {
    let kind = find_text(value, "type");
    types.is_empty() || types.split('|').any(|known| known == kind)
}

/// Returns the text of an answer, with that of all its parts that have one of these types.
fn read_text(content: Option<&Value>, types: &str) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().map(|part| read_text(Some(part), types));
            texts.collect()
        }
        Some(part @ Value::Object(_)) if has_type(part, types) => {
            read_text(part.get("text").or_else(|| part.get("content")), types)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::try_gateway::door::TryDoor;
    use serde_json::json;

    const DOORS: [TryDoor; 4] = [
        TryDoor::Chat,
        TryDoor::Messages,
        TryDoor::Responses,
        TryDoor::Gemini,
    ];

    fn whole_answer(door: TryDoor) -> Value {
        match door {
            TryDoor::Chat => json!({
                "id": "c", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": "pong"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3},
            }),
            TryDoor::Messages => json!({
                "id": "c", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": "pong"}], "usage": {"input_tokens": 2, "output_tokens": 1},
            }),
            TryDoor::Responses => json!({
                "id": "c", "object": "response", "created_at": 1, "model": "m", "status": "completed",
                "output": [{"type": "reasoning", "summary": []},
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "pong"}]}],
                "usage": {"input_tokens": 2, "output_tokens": 1, "total_tokens": 3},
            }),
            TryDoor::Gemini => json!({
                "candidates": [{"content": {"role": "model", "parts": [{"text": "pong"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 1, "thoughtsTokenCount": 4, "totalTokenCount": 7},
                "modelVersion": "m", "responseId": "r",
            }),
        }
    }

    fn contents_of_whole(door: TryDoor, answer: &Value) -> Contents {
        let mut contents = Contents::default();
        contents.take_whole(door.format(), answer);
        contents
    }

    /// Each event is JSON, and named by its type; a text is data as it is.
    fn contents_of_stream(door: TryDoor, events: &[Value]) -> Contents {
        let mut contents = Contents::default();
        for (nth, event) in events.iter().enumerate() {
            let data = event.as_str().map_or(event.to_string(), str::to_owned);
            let time = Duration::from_millis(nth as u64);
            contents.take_event(door.format(), find_text(event, "type"), &data, time);
        }
        contents.check_end(door.format());
        contents
    }

    fn stream_events(door: TryDoor) -> Vec<Value> {
        let chunk = |choices: Value, usage: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, "usage": usage});
        let choice = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let part = |text: &str| json!({"content": {"role": "model", "parts": [{"text": text}]}});
        match door {
            TryDoor::Chat => vec![
                chunk(
                    choice(json!({"role": "assistant", "content": ""}), Value::Null),
                    Value::Null,
                ),
                chunk(choice(json!({"content": "po"}), Value::Null), Value::Null),
                chunk(choice(json!({"content": "ng"}), Value::Null), Value::Null),
                chunk(choice(json!({}), json!("stop")), Value::Null),
                chunk(
                    json!([]),
                    json!({"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}),
                ),
                json!("[DONE]"),
            ],
            TryDoor::Messages => vec![
                json!({"type": "message_start", "message": {"id": "c", "role": "assistant", "model": "m",
                    "usage": {"input_tokens": 2, "output_tokens": 0}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "po"}}),
                json!({"type": "ping"}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ng"}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
                json!({"type": "message_stop"}),
            ],
            TryDoor::Responses => vec![
                json!({"type": "response.created", "sequence_number": 0, "response": {"id": "c", "object": "response",
                    "model": "m", "status": "in_progress", "error": null, "usage": null}}),
                json!({"type": "response.output_text.delta", "sequence_number": 1, "delta": "po"}),
                json!({"type": "response.output_text.delta", "sequence_number": 2, "delta": "ng"}),
                json!({"type": "response.completed", "sequence_number": 3, "response": whole_answer(door)}),
            ],
            TryDoor::Gemini => {
                let mut last = whole_answer(door);
                last["candidates"][0]["content"]["parts"][0]["text"] = "ng".into();
                vec![
                    json!({"candidates": [part("po")], "modelVersion": "m", "responseId": "r"}),
                    last,
                ]
            }
        }
    }

    /// Lists the deviations, each with what was seen and what was expected.
    fn deviations(contents: &Contents) -> Vec<String> {
        let lines = contents.deviations.iter();
        lines
            .map(|one| format!("{}: {}, not {}", one.member, one.seen, one.expected))
            .collect()
    }

    #[test]
    fn a_good_answer_deviates_in_nothing() {
        for door in DOORS {
            let whole = contents_of_whole(door, &whole_answer(door));
            let stream = contents_of_stream(door, &stream_events(door));
            for contents in [&whole, &stream] {
                assert_eq!(deviations(contents), [""; 0], "{door:?}");
                assert_eq!(
                    (&*contents.model, &*contents.text),
                    ("m", "pong"),
                    "{door:?}"
                );
                let [input, output] = door
                    .format()
                    .counts
                    .map(|name| contents.usage[name].clone());
                assert_eq!((input, output), (2.into(), 1.into()), "{door:?}");
            }
            let (first, last) = stream.times.expect("times");
            assert!(first < last, "{door:?}");
        }
    }

    #[test]
    fn thoughts_and_refusals_are_no_text_of_responses() {
        let mut answer = whole_answer(TryDoor::Responses);
        answer["output"][0]["content"] = json!([{"type": "reasoning_text", "text": "hm"}]);
        let refusal = json!({"type": "refusal", "refusal": "no"});
        answer["output"][1]["content"]
            .as_array_mut()
            .expect("parts")
            .push(refusal);
        assert_eq!(contents_of_whole(TryDoor::Responses, &answer).text, "pong");
        let mut events = stream_events(TryDoor::Responses);
        for kind in ["reasoning_text", "reasoning_summary_text", "refusal"] {
            events.insert(
                1,
                json!({"type": format!("response.{kind}.delta"), "delta": "hm"}),
            );
        }
        for (number, event) in events.iter_mut().enumerate() {
            event["sequence_number"] = number.into();
        }
        let contents = contents_of_stream(TryDoor::Responses, &events);
        assert_eq!(deviations(&contents), [""; 0]);
        assert_eq!(contents.text, "pong");
        let milliseconds = contents
            .times
            .map(|(first, last)| (first.as_millis(), last.as_millis()));
        assert_eq!(milliseconds, Some((4, 5)));
    }

    #[test]
    fn each_member_of_a_whole_answer_that_deviates() {
        for (door, path, value, expected) in [
            (TryDoor::Chat, "/id", json!(""), "id: \"\", not text"),
            (TryDoor::Chat, "/id", json!(-1), "id: -1, not text"),
            (
                TryDoor::Chat,
                "/object",
                json!("x"),
                "object: \"x\", not chat.completion",
            ),
            (
                TryDoor::Chat,
                "/created",
                json!("now"),
                "created: \"now\", not one of count, missing",
            ),
            (
                TryDoor::Chat,
                "/created",
                json!(-1),
                "created: -1, not one of count, missing",
            ),
            (
                TryDoor::Chat,
                "/model",
                json!(null),
                "model: null, not text",
            ),
            (
                TryDoor::Chat,
                "/choices",
                json!([]),
                "choices.0: missing, not object",
            ),
            (
                TryDoor::Chat,
                "/choices/0/index",
                json!(1),
                "choices.0.index: 1, not 0",
            ),
            (
                TryDoor::Chat,
                "/choices/0/message/role",
                json!("user"),
                "choices.0.message.role: \"user\", not assistant",
            ),
            (
                TryDoor::Chat,
                "/choices/0/message/content",
                json!([]),
                "choices.0.message.content: [], not one of string, null",
            ),
            (
                TryDoor::Chat,
                "/usage/total_tokens",
                json!(7),
                "total_tokens: 7, not 3, the sum of the others",
            ),
            (
                TryDoor::Chat,
                "/usage/prompt_tokens",
                json!("2"),
                "prompt_tokens: \"2\", not count",
            ),
            (
                TryDoor::Messages,
                "/type",
                json!("x"),
                "type: \"x\", not message",
            ),
            (
                TryDoor::Messages,
                "/role",
                json!("user"),
                "role: \"user\", not assistant",
            ),
            (
                TryDoor::Messages,
                "/content",
                json!([]),
                "content.0: missing, not object",
            ),
            (
                TryDoor::Messages,
                "/usage/output_tokens",
                json!(1.5),
                "output_tokens: 1.5, not count",
            ),
            (
                TryDoor::Responses,
                "/object",
                json!("x"),
                "object: \"x\", not response",
            ),
            (
                TryDoor::Responses,
                "/output",
                json!([]),
                "output.0: missing, not object",
            ),
            (
                TryDoor::Responses,
                "/status",
                json!("queued"),
                "status: \"queued\", not one of completed, incomplete",
            ),
            (
                TryDoor::Gemini,
                "/candidates",
                json!([]),
                "candidates.0: missing, not object",
            ),
            (
                TryDoor::Gemini,
                "/candidates/0/content/role",
                json!("user"),
                "candidates.0.content.role: \"user\", not model",
            ),
            (
                TryDoor::Gemini,
                "/modelVersion",
                json!(1),
                "modelVersion: 1, not text",
            ),
            (
                TryDoor::Gemini,
                "/usageMetadata/totalTokenCount",
                json!(3),
                "totalTokenCount: 3, not 7, the sum of the others",
            ),
        ] {
            let mut answer = whole_answer(door);
            *answer.pointer_mut(path).expect(path) = value;
            let seen = deviations(&contents_of_whole(door, &answer));
            assert!(
                seen.contains(&expected.to_owned()),
                "{door:?} {path}: {seen:?}"
            );
        }
        let mut answer = whole_answer(TryDoor::Chat);
        answer.as_object_mut().expect("an object").remove("created");
        answer["choices"][0]["finish_reason"] = "eos".into();
        answer["usage"] = Value::Null;
        assert_eq!(
            deviations(&contents_of_whole(TryDoor::Chat, &answer)),
            [
                "usage: null, not object",
                "choices.0.finish_reason: \"eos\", not one of stop, length, tool_calls, content_filter, function_call",
            ]
        );
    }

    /// Takes a good stream, changes its events, and requires a deviation of it.
    #[track_caller]
    fn check_stream(door: TryDoor, change: impl Fn(&mut Vec<Value>), expected: &str) {
        let mut events = stream_events(door);
        change(&mut events);
        let seen = deviations(&contents_of_stream(door, &events));
        assert!(
            seen.iter().any(|line| line.starts_with(expected)),
            "{seen:?}"
        );
    }

    #[test]
    fn each_deviation_in_a_stream_of_chunks() {
        let check = |expected: &str, change: fn(&mut Vec<Value>)| {
            check_stream(TryDoor::Chat, change, expected)
        };
        check("choices.0.delta.role: missing, not assistant", |events| {
            drop(events.remove(0))
        });
        check("object: \"x\", not chat.completion.chunk", |events| {
            events[1]["object"] = "x".into()
        });
        check(
            "choices.0.finish_reason: missing, not one of stop",
            |events| drop(events.remove(3)),
        );
        check("choices.0.finish_reason: not once at the end", |events| {
            events.swap(2, 3)
        });
        check("choices.0.finish_reason: not once at the end", |events| {
            events.insert(3, events[3].clone())
        });
        check("usage: missing", |events| drop(events.remove(4)));
        check("usage: not once at the end", |events| events.swap(3, 4));
        check("usage: not once at the end", |events| {
            events[2]["usage"] = events[4]["usage"].clone()
        });
        check("usage: not once at the end", |events| {
            events.insert(4, events[4].clone())
        });
        check("total_tokens: 9, not 3", |events| {
            events[4]["usage"]["total_tokens"] = 9.into()
        });
        check("the last event: missing, not [DONE]", |events| {
            drop(events.pop())
        });
        check("the last event: another one behind it", |events| {
            events.push(events[4].clone())
        });
        check("data: <html>, not JSON", |events| {
            events[1] = "<html>".into()
        });
    }

    #[test]
    fn each_deviation_in_a_stream_of_named_events() {
        let of_messages = |expected: &str, change: fn(&mut Vec<Value>)| {
            check_stream(TryDoor::Messages, change, expected)
        };
        of_messages(
            "type: \"content_block_start\", not message_start",
            |events| drop(events.remove(0)),
        );
        of_messages("stop_reason: missing, not one of end_turn", |events| {
            drop(events.remove(6))
        });
        of_messages("the last event: missing, not message_stop", |events| {
            drop(events.pop())
        });
        let of_responses = |expected: &str, change: fn(&mut Vec<Value>)| {
            check_stream(TryDoor::Responses, change, expected)
        };
        of_responses(
            "type: \"response.output_text.delta\", not response.created",
            |events| drop(events.remove(0)),
        );
        of_responses("sequence_number: not one more each time", |events| {
            events.swap(1, 2)
        });
        of_responses(
            "the last event: missing, not one of response.completed,",
            |events| drop(events.pop()),
        );
        let of_gemini = |expected: &str, change: fn(&mut Vec<Value>)| {
            check_stream(TryDoor::Gemini, change, expected)
        };
        of_gemini(
            "candidates.0.finishReason: missing, not one of STOP",
            |events| drop(events.pop()),
        );
        of_gemini("candidates.0.finishReason: not once", |events| {
            events.swap(0, 1)
        });
        // No event is the last one, not even an empty one.
        of_gemini("data: , not JSON", |events| events.insert(1, "".into()));
        of_gemini("responseId: missing, not text", |events| {
            drop(events[0].as_object_mut().unwrap().remove("responseId"))
        });
        let mut contents = Contents::default();
        contents.take_event(
            TryDoor::Messages.format(),
            "other",
            r#"{"type":"message_start"}"#,
            Duration::ZERO,
        );
        assert!(deviations(&contents).contains(
            &"event: other, with data of message_start, not the type of its data".to_owned()
        ));
    }

    #[test]
    fn an_error_ends_a_stream_and_nothing_is_missed() {
        for (door, error) in [
            (TryDoor::Chat, json!({"error": {"message": "late"}})),
            (
                TryDoor::Messages,
                json!({"type": "error", "error": {"message": "late"}}),
            ),
            (
                TryDoor::Responses,
                json!({"type": "response.failed", "sequence_number": 1, "response": {"error": {"message": "late"}}}),
            ),
            (TryDoor::Gemini, json!({"error": {"message": "late"}})),
        ] {
            let mut events = stream_events(door);
            events.truncate(1);
            events.push(error.clone());
            let contents = contents_of_stream(door, &events);
            assert_eq!(deviations(&contents), [""; 0], "{door:?}");
            assert_eq!(contents.error, Some(error), "{door:?}");
        }
    }
}
