//! A response, and the events of one, as a strict client reads them.

use serde_json::{Value, json};

use crate::told::{Told, append, parsed, without_media};

/// Reads a response.
pub fn response(response: &Value) -> Result<Told, String> {
    let mut told = Told::default();
    for (key, expected) in [
        ("object", json!("response")),
        ("model", json!("m")),
        ("store", json!(false)),
        ("previous_response_id", Value::Null),
        ("error", Value::Null),
    ] {
        if response.get(key) != Some(&expected) {
            return Err(format!("{key} is {}", response[key]));
        }
    }
    if !response["id"]
        .as_str()
        .is_some_and(|id| id.starts_with("resp_"))
        || !response["created_at"].is_u64()
    {
        return Err("an odd id, or no time".to_owned());
    }
    let list = |value: &Value, key: &str| {
        value[key]
            .as_array()
            .cloned()
            .ok_or(format!("no {key}: {value}"))
    };
    let text = |value: &Value, key: &str| {
        value[key]
            .as_str()
            .map(str::to_owned)
            .ok_or(format!("no {key}: {value}"))
    };
    let mut ids = Vec::new();
    for item in list(response, "output")? {
        let id = text(&item, "id")?;
        let prefix = match item["type"].as_str().ok_or("an item without a type")? {
            "message" => {
                for part in list(&item, "content")? {
                    match part["type"].as_str() {
                        Some("output_text") => {
                            list(&part, "annotations")?;
                            told.text += &without_media(&text(&part, "text")?);
                        }
                        Some("refusal") => told.refusal += &text(&part, "refusal")?,
                        _ => return Err(format!("an odd part: {part}")),
                    }
                }
                "msg_"
            }
            "reasoning" => {
                for part in list(&item, "summary")? {
                    told.thinking += &text(&part, "text")?;
                }
                "rs_"
            }
            "function_call" => {
                told.call(&text(&item, "name")?, &parsed(&text(&item, "arguments")?));
                "fc_"
            }
            "custom_tool_call" => {
                told.call(
                    &text(&item, "name")?,
                    &json!({"input": text(&item, "input")?}),
                );
                "ctc_"
            }
            "tool_search_call" if item["execution"] == "client" => {
                told.call("tool_search", &item["arguments"]);
                "tsc_"
            }
            _ => return Err(format!("an odd item: {item}")),
        };
        if !id.starts_with(prefix) || ids.contains(&id) {
            return Err(format!("an odd id: {id}"));
        }
        if item.get("call_id").is_some()
            && (item["call_id"] == item["id"] || text(&item, "call_id")?.is_empty())
        {
            return Err(format!("an odd id of a call: {item}"));
        }
        ids.push(id);
    }
    let usage = &response["usage"];
    let count = |value: &Value| value.as_u64().ok_or(format!("no count: {usage}"));
    told.prompt = count(&usage["input_tokens"])?;
    told.completion = count(&usage["output_tokens"])?;
    if count(&usage["total_tokens"])? != told.prompt + told.completion
        || count(&usage["input_tokens_details"]["cached_tokens"])? > told.prompt
        || count(&usage["output_tokens_details"]["reasoning_tokens"])? > told.completion
    {
        return Err(format!("the counts do not fit: {usage}"));
    }
    told.reason = match (
        response["status"].as_str(),
        response["incomplete_details"]["reason"].as_str(),
    ) {
        (Some("completed"), None) => "completed",
        (Some("incomplete"), Some("max_output_tokens")) => "length",
        (Some("incomplete"), Some("content_filter")) => "content_filter",
        (status, why) => return Err(format!("{status:?}: {why:?}")),
    }
    .to_owned();
    Ok(told)
}

/// An item of a stream that is open.
struct Open {
    item: Value,
    /// The part that is open, and its index.
    part: Option<Value>,
    parts: Vec<Value>,
    /// The arguments so far.
    said: Value,
}

/// Reads a stream, or returns its fault.
pub fn stream(out: &str) -> Result<Told, String> {
    let (mut items, mut open) = (Vec::new(), None::<Open>);
    let (mut number, mut last) = (0, None::<Value>);
    let mut head = Value::Null;
    for event in out
        .split_terminator("\n\n")
        .filter(|event| !event.starts_with(':'))
    {
        let parts = event
            .strip_prefix("event: ")
            .and_then(|event| event.split_once("\ndata: "));
        let (name, data) = parts.ok_or(format!("no event: {event}"))?;
        let data: Value = serde_json::from_str(data).map_err(|why| format!("{why}: {event}"))?;
        let wrong = |why: &str| Err(format!("{why}: {event}"));
        if data["type"] != name || data["sequence_number"] != number || last.is_some() {
            return wrong("another type or number, or after the end");
        }
        let is_of_item =
            |open: &Open| data["item_id"] == open.item["id"] && data["output_index"] == items.len();
        let is_of_part = |open: &Open| {
            let index = if open.item["type"] == "reasoning" {
                &data["summary_index"]
            } else {
                &data["content_index"]
            };
            is_of_item(open) && *index == open.parts.len()
        };
        match (name.strip_prefix("response.").unwrap_or(name), &mut open) {
            ("created", None) if number == 0 && data["response"]["status"] == "in_progress" => {
                head = data["response"].clone();
                if head["output"] != json!([]) {
                    return wrong("an output at the start");
                }
            }
            ("in_progress", None) if number == 1 && data["response"] == head => {}
            ("output_item.added", None) if number > 1 && data["output_index"] == items.len() => {
                let item = data["item"].clone();
                if item["status"] != "in_progress" {
                    return wrong("an item that has ended");
                }
                open = Some(Open {
                    item,
                    part: None,
                    parts: Vec::new(),
                    said: "".into(),
                });
            }
            ("content_part.added" | "reasoning_summary_part.added", Some(open))
                if is_of_part(open) && open.part.is_none() =>
            {
                open.part = Some(data["part"].clone());
            }
            (
                "output_text.delta" | "refusal.delta" | "reasoning_summary_text.delta",
                Some(open),
            ) if is_of_part(open) => {
                let key = if name.contains("refusal") {
                    "refusal"
                } else {
                    "text"
                };
                append(
                    &mut open.part.as_mut().ok_or("no part")?[key],
                    &data["delta"],
                );
            }
            ("output_text.annotation.added", Some(open)) if is_of_part(open) => {
                let part = open.part.as_mut().ok_or("no part")?;
                let all = part["annotations"].as_array_mut().ok_or("no annotations")?;
                if data["annotation_index"] != all.len() {
                    return wrong("an annotation out of order");
                }
                all.push(data["annotation"].clone());
            }
            ("output_text.done" | "refusal.done" | "reasoning_summary_text.done", Some(open))
                if is_of_part(open) =>
            {
                let key = if name.contains("refusal") {
                    "refusal"
                } else {
                    "text"
                };
                if open.part.as_ref().map(|part| &part[key]) != Some(&data[key]) {
                    return wrong("another text than its pieces");
                }
            }
            ("content_part.done" | "reasoning_summary_part.done", Some(open))
                if is_of_part(open) =>
            {
                if open.part.take().as_ref() != Some(&data["part"]) {
                    return wrong("another part than its pieces");
                }
                open.parts.push(data["part"].clone());
            }
            ("function_call_arguments.delta" | "custom_tool_call_input.delta", Some(open))
                if is_of_item(open) =>
            {
                append(&mut open.said, &data["delta"]);
            }
            ("function_call_arguments.done" | "custom_tool_call_input.done", Some(open))
                if is_of_item(open) =>
            {
                let key = if name.contains("custom") {
                    "input"
                } else {
                    "arguments"
                };
                if data[key] != open.said {
                    return wrong("other arguments than their pieces");
                }
            }
            (
                "output_item.done",
                Some(Open {
                    item,
                    part: None,
                    parts,
                    said,
                }),
            ) if data["output_index"] == items.len() => {
                let done = &data["item"];
                let mut expected = item.clone();
                match item["type"].as_str() {
                    Some("message") => expected["content"] = parts.clone().into(),
                    Some("reasoning") => expected["summary"] = parts.clone().into(),
                    Some("function_call") => expected["arguments"] = said.clone(),
                    Some("custom_tool_call") => expected["input"] = said.clone(),
                    _ => expected["arguments"] = done["arguments"].clone(),
                }
                expected["status"] = done["status"].clone();
                // Only the whole item has this member.
                if let Some(sealed) = done.get("encrypted_content") {
                    expected["encrypted_content"] = sealed.clone();
                }
                if expected != *done {
                    return wrong("another item than its pieces");
                }
                items.push(done.clone());
                open = None;
            }
            ("completed" | "incomplete", None) if number > 1 => {
                if Some(data["response"]["status"].as_str().unwrap_or_default())
                    != name.strip_prefix("response.")
                    || data["response"]["output"] != Value::from(items.clone())
                    || data["response"]["id"] != head["id"]
                {
                    return wrong("another response than its pieces");
                }
                last = Some(data["response"].clone());
            }
            _ => return wrong("it does not belong here"),
        }
        number += 1;
    }
    response(&last.ok_or("it has no end")?)
}
