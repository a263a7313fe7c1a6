//! A message, and the events of one, as a strict client reads them.

use serde_json::Value;

use crate::told::{Told, append, without_media};

/// Reads a message.
pub fn message(message: &Value) -> Result<Told, String> {
    let mut told = Told::default();
    let text = |value: &Value, key: &str| {
        value[key]
            .as_str()
            .map(str::to_owned)
            .ok_or(format!("no {key}: {value}"))
    };
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
                told.call(&text(block, "name")?, &block["input"]);
            }
            _ => {}
        }
    }
    let usage = &message["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    told.prompt = count("input_tokens")
        + count("cache_creation_input_tokens")
        + count("cache_read_input_tokens");
    told.completion = count("output_tokens");
    told.reason = match text(message, "stop_reason").unwrap_or_default().as_str() {
        "tool_use" => "tool_calls",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "refusal" => "content_filter",
        // Of Anthropic's own words many mean that the turn is over.
        _ if told.calls.is_empty() => "stop",
        _ => "tool_calls",
    }
    .to_owned();
    Ok(told)
}

/// Reads a stream, or returns its fault.
pub fn stream(out: &str) -> Result<Told, String> {
    let (mut message, mut content) = (Value::Null, Vec::<Value>::new());
    let (mut open, mut json) = (false, String::new());
    let mut has_ended = false;
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
        if data["type"] != name || has_ended {
            return wrong("another type, or after the end");
        }
        match name {
            "message_start"
                if message.is_null() && data["message"]["usage"]["input_tokens"].is_u64() =>
            {
                message = data["message"].clone();
            }
            "content_block_start" if !open && data["index"] == content.len() => {
                content.push(data["content_block"].clone());
                (open, json) = (true, String::new());
            }
            "content_block_delta" if open && data["index"] == content.len() - 1 => {
                let block = content.last_mut().ok_or("no block")?;
                let delta = data["delta"].as_object().ok_or("no delta")?;
                for (key, piece) in delta.iter().filter(|(key, _)| *key != "type") {
                    match key.as_str() {
                        "partial_json" => json += piece.as_str().unwrap_or_default(),
                        key => append(&mut block[key], piece),
                    }
                }
            }
            "content_block_stop" if open && data["index"] == content.len() - 1 => {
                let block = content.last_mut().ok_or("no block")?;
                block["has_input"] = (!json.is_empty()).into();
                if !json.is_empty() {
                    block["input"] = serde_json::from_str(&json).unwrap_or(Value::Null);
                }
                open = false;
            }
            "message_delta" if !open && data["usage"]["output_tokens"].is_u64() => {
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                for (key, count) in data["usage"].as_object().into_iter().flatten() {
                    message["usage"][key] = count.clone();
                }
            }
            "message_stop" if !open && !message.is_null() => has_ended = true,
            "ping" => {}
            _ => return wrong("it does not belong here"),
        }
    }
    if !has_ended {
        return Err("it has no end".to_owned());
    }
    // A call that was cut is none.
    let is_cut = matches!(
        message["stop_reason"].as_str(),
        Some("max_tokens" | "refusal")
    );
    content.retain(|block| {
        block["type"] != "tool_use"
            || block["input"].is_object() && (!is_cut || block["has_input"] == true)
    });
    message["content"] = content.into();
    self::message(&message)
}
