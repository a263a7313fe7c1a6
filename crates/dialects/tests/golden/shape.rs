//! The shape of an answer that official clients need: the members, their types, and the order of a
//! stream's chunks.

use serde_json::{Map, Value};

/// Returns the fault of a buffered answer. If it `passes`, its bytes are the upstream's, and may
/// have members that the standard does not know.
pub fn answer(text: &str, passes: bool) -> Result<(), String> {
    let answer = object(text)?;
    members(
        &answer,
        &["id", "object", "created", "model", "choices", "usage"],
        &["service_tier", "system_fingerprint"],
        passes,
    )?;
    head(&answer, "chat.completion")?;
    usage(&answer["usage"])?;
    let choices = answer["choices"]
        .as_array()
        .filter(|choices| !choices.is_empty())
        .ok_or("no choices")?;
    for (at, choice) in choices.iter().enumerate() {
        let choice = choice.as_object().ok_or("a choice is no object")?;
        let needed: &[&str] = if passes {
            &["index", "message", "finish_reason"]
        } else {
            &["index", "message", "logprobs", "finish_reason"]
        };
        members(choice, needed, &["logprobs"], passes)?;
        expect(choice["index"] == at, "an index out of order")?;
        let message = choice["message"]
            .as_object()
            .ok_or("a message is no object")?;
        let more = [
            "refusal",
            "reasoning_content",
            "tool_calls",
            "images",
            "files",
            "annotations",
            "thinking_blocks",
        ];
        members(message, &["role", "content"], &more, passes)?;
        expect(
            message["role"] == "assistant",
            "another role than the assistant's",
        )?;
        let calls = message
            .get("tool_calls")
            .map_or(Ok([].as_slice()), |calls| {
                calls
                    .as_array()
                    .map(Vec::as_slice)
                    .ok_or("calls are no list")
            })?;
        expect(
            message.get("tool_calls").is_none() || !calls.is_empty(),
            "an empty list of calls",
        )?;
        expect(
            message["content"].is_string()
                || (message["content"].is_null() && (passes || !calls.is_empty())),
            "no content",
        )?;
        expect(
            message
                .get("refusal")
                .is_none_or(|refusal| refusal.is_null() || refusal.is_string()),
            "an odd refusal",
        )?;
        for call in calls {
            whole_call(call)?;
        }
        let reason = choice["finish_reason"].as_str().ok_or("no finish reason")?;
        finish(reason, !calls.is_empty())?;
    }
    Ok(())
}

/// Returns the fault of a stream that ends well.
pub fn stream(text: &str, passes: bool) -> Result<(), String> {
    let events = text
        .strip_suffix("data: [DONE]\n\n")
        .ok_or("it does not end with [DONE]")?;
    let seen = chunks(events, passes)?;
    expect(seen.counted, "no usage at the end")?;
    expect(
        !seen.choices.is_empty() && seen.choices.iter().all(|choice| choice.finished),
        "a choice without an end",
    )
}

/// Returns the fault of a stream's beginning.
pub fn beginning(text: &str, passes: bool) -> Result<(), String> {
    let seen = chunks(text, passes)?;
    expect(!seen.counted, "usage before the end")
}

#[derive(Default)]
struct Seen {
    choices: Vec<Choice>,
    counted: bool,
}

#[derive(Default)]
struct Choice {
    calls: usize,
    finished: bool,
}

fn chunks(events: &str, passes: bool) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut first: Option<[Value; 4]> = None;
    for event in events.split_inclusive("\n\n") {
        let data = event
            .strip_prefix("data: ")
            .and_then(|event| event.strip_suffix("\n\n"))
            .ok_or("an event is no data, or has no end")?;
        expect(!data.contains(['\n', '\r']), "an event of several lines")?;
        let chunk = object(data)?;
        members(
            &chunk,
            &["id", "object", "created", "model", "choices", "usage"],
            &["service_tier", "system_fingerprint"],
            passes,
        )?;
        head(&chunk, "chat.completion.chunk")?;
        let same = ["id", "object", "created", "model"].map(|key| chunk[key].clone());
        expect(
            *first.get_or_insert_with(|| same.clone()) == same,
            "chunks of several answers",
        )?;
        expect(!seen.counted, "something after the usage")?;
        let choices = chunk["choices"].as_array().ok_or("choices are no list")?;
        if choices.is_empty() {
            usage(&chunk["usage"])?;
            seen.counted = true;
            continue;
        }
        expect(chunk["usage"].is_null(), "usage before the end")?;
        for choice in choices {
            delta(choice, passes, &mut seen.choices)?;
        }
    }
    Ok(seen)
}

fn delta(choice: &Value, passes: bool, seen: &mut Vec<Choice>) -> Result<(), String> {
    let choice = choice.as_object().ok_or("a choice is no object")?;
    let needed: &[&str] = if passes {
        &["index", "delta", "finish_reason"]
    } else {
        &["index", "delta", "logprobs", "finish_reason"]
    };
    members(choice, needed, &["logprobs"], passes)?;
    let index = usize::try_from(choice["index"].as_u64().ok_or("no index")?).expect("small");
    let delta = choice["delta"].as_object().ok_or("no delta")?;
    members(
        delta,
        &[],
        &[
            "role",
            "content",
            "refusal",
            "reasoning_content",
            "tool_calls",
            "images",
            "files",
            "annotations",
        ],
        passes,
    )?;
    expect(index <= seen.len(), "choices out of order")?;
    let is_first = index == seen.len();
    expect(
        delta.get("role") == is_first.then_some(&Value::from("assistant")),
        "the role is not said once, at first",
    )?;
    if is_first {
        seen.push(Choice::default());
    }
    let seen = &mut seen[index];
    expect(!seen.finished, "something after the end of a choice")?;
    for key in ["content", "refusal", "reasoning_content"] {
        let said = delta.get(key);
        expect(
            said.is_none_or(|text| {
                text.is_string() || (passes && text.is_null()) || (is_first && text.is_null())
            }),
            "a text that is none",
        )?;
        expect(
            passes || is_first || said != Some(&Value::from("")),
            "an empty text",
        )?;
    }
    for call in delta.get("tool_calls").map_or(Ok([].as_slice()), |calls| {
        calls
            .as_array()
            .map(Vec::as_slice)
            .ok_or("calls are no list")
    })? {
        let number =
            usize::try_from(call["index"].as_u64().ok_or("a call without index")?).expect("small");
        if number == seen.calls {
            whole_call(call)?;
            seen.calls += 1;
        } else {
            // A passing chunk may have all members at once.
            expect(
                number + 1 == seen.calls || passes && number < seen.calls,
                "calls are not one after the other",
            )?;
            let call = call.as_object().ok_or("a call is no object")?;
            members(call, &["index", "function"], &[], false)?;
            members(
                call["function"].as_object().ok_or("no function")?,
                &["arguments"],
                &[],
                false,
            )?;
            expect(
                call["function"]["arguments"].is_string(),
                "arguments are no text",
            )?;
        }
    }
    if let Some(reason) = choice["finish_reason"].as_str() {
        expect(passes || delta.is_empty(), "the end says something")?;
        finish(reason, seen.calls > 0)?;
        seen.finished = true;
    } else {
        expect(choice["finish_reason"].is_null(), "an odd finish reason")?;
        expect(passes || !delta.is_empty(), "a chunk without a word")?;
    }
    Ok(())
}

fn whole_call(call: &Value) -> Result<(), String> {
    expect(
        call["id"].as_str().is_some_and(|id| !id.is_empty()),
        "a call without id",
    )?;
    expect(call["type"] == "function", "a call of another type")?;
    expect(
        call["function"]["name"]
            .as_str()
            .is_some_and(|name| !name.is_empty()),
        "a call without name",
    )?;
    expect(
        call["function"]["arguments"].is_string(),
        "arguments are no text",
    )
}

fn finish(reason: &str, made_calls: bool) -> Result<(), String> {
    match reason {
        "stop" => expect(!made_calls, "calls, and the reason is stop"),
        "tool_calls" => expect(made_calls, "no calls, and the reason is tool_calls"),
        "length" | "content_filter" => Ok(()),
        other => Err(format!("the finish reason {other}")),
    }
}

fn head(answer: &Map<String, Value>, kind: &str) -> Result<(), String> {
    expect(answer["object"] == kind, "another object")?;
    expect(
        answer["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("chatcmpl-")),
        "an odd id",
    )?;
    expect(
        answer["created"].as_u64().is_some_and(|time| time > 0),
        "no time",
    )?;
    expect(answer["model"] == "m", "another model than the caller's")
}

fn usage(usage: &Value) -> Result<(), String> {
    let count = |name: &str| usage[name].as_u64().ok_or(format!("no {name}"));
    expect(
        count("prompt_tokens")? + count("completion_tokens")? == count("total_tokens")?,
        "the total is not the sum",
    )?;
    let detail = |list: &str, name: &str| usage[list][name].as_u64().unwrap_or(0);
    let cached = detail("prompt_tokens_details", "cached_tokens")
        + detail("prompt_tokens_details", "cache_write_tokens");
    expect(
        cached <= count("prompt_tokens")?,
        "more out of the cache than there is",
    )?;
    expect(
        detail("completion_tokens_details", "reasoning_tokens") <= count("completion_tokens")?,
        "more thinking than there is",
    )
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        other => Err(format!("no JSON object: {other:?}")),
    }
}

fn members(
    object: &Map<String, Value>,
    needed: &[&str],
    more: &[&str],
    passes: bool,
) -> Result<(), String> {
    let missing = needed.iter().find(|key| !object.contains_key(**key));
    let odd = object.keys().find(|key| {
        !needed.contains(&key.as_str()) && !more.contains(&key.as_str()) && !key.starts_with("x_")
    });
    match (missing, odd) {
        (Some(missing), _) => Err(format!("there is no `{missing}`")),
        (None, Some(odd)) if !passes => Err(format!("`{odd}` is not known")),
        (None, Some(_) | None) => Ok(()),
    }
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}
