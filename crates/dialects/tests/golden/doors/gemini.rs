//! A response of Gemini's, and the chunks of one, as a strict client reads them.

use serde_json::{Value, json};

use crate::told::Told;

/// Reads a response.
pub fn response(response: &Value) -> Result<Told, String> {
    let mut told = Told::default();
    if response["modelVersion"] != "m" || !response["responseId"].is_string() {
        return Err("another model, or no id".to_owned());
    }
    let candidate = &response["candidates"][0];
    if candidate["content"]["role"] != "model" || candidate["index"] != 0 {
        return Err(format!("an odd candidate: {candidate}"));
    }
    for part in candidate["content"]["parts"]
        .as_array()
        .filter(|parts| !parts.is_empty())
        .ok_or("no parts")?
    {
        if let Some(call) = part.get("functionCall") {
            if !call["args"].is_object() || call["id"].as_str().is_none_or(str::is_empty) {
                return Err(format!("an odd call: {part}"));
            }
            told.call(
                call["name"].as_str().ok_or("a call without a name")?,
                &call["args"],
            );
        } else if let Some(text) = part["text"].as_str() {
            if part["thought"] == true {
                &mut told.thinking
            } else {
                &mut told.text
            }
            .push_str(text);
        } else if !part["inlineData"]["data"].is_string() {
            return Err(format!("an odd part: {part}"));
        }
    }
    let usage = &response["usageMetadata"];
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    told.prompt = count("promptTokenCount");
    told.completion = count("candidatesTokenCount") + count("thoughtsTokenCount");
    if count("totalTokenCount") != told.prompt + told.completion
        || count("cachedContentTokenCount") > told.prompt
    {
        return Err(format!("the counts do not fit: {usage}"));
    }
    told.reason = match candidate["finishReason"].as_str() {
        Some("STOP") => "stop",
        Some("MAX_TOKENS") => "length",
        Some("SAFETY") => "content_filter",
        other => return Err(format!("the reason {other:?}")),
    }
    .to_owned();
    Ok(told)
}

/// Reads a stream of events. The clients know no comments and no names of events.
pub fn events(out: &str) -> Result<Told, String> {
    let mut chunks = Vec::new();
    let events = out.strip_suffix("\n\n").ok_or("it has no end")?;
    for event in events.split("\n\n") {
        let data = event
            .strip_prefix("data: ")
            .ok_or(format!("no data: {event}"))?;
        chunks.push(serde_json::from_str(data).map_err(|why| format!("{why}: {event}"))?);
    }
    self::chunks(chunks)
}

/// Reads a stream that is one array.
pub fn array(out: &str) -> Result<Told, String> {
    chunks(serde_json::from_str(out).map_err(|why| format!("{why}: {out}"))?)
}

/// Puts the chunks of the first candidate together.
fn chunks(chunks: Vec<Value>) -> Result<Told, String> {
    let (mut parts, mut last) = (Vec::new(), Value::Null);
    for chunk in &chunks {
        if !last["candidates"][0]["finishReason"].is_null() {
            return Err(format!("something after the end: {chunk}"));
        }
        let candidates = chunk["candidates"]
            .as_array()
            .ok_or(format!("no candidates: {chunk}"))?;
        for candidate in candidates
            .iter()
            .filter(|candidate| candidate["index"] == 0)
        {
            parts.extend(
                candidate["content"]["parts"]
                    .as_array()
                    .ok_or("no parts")?
                    .clone(),
            );
            last = chunk.clone();
        }
    }
    if !last["usageMetadata"].is_object()
        || chunks
            .iter()
            .any(|chunk| chunk["responseId"] != last["responseId"])
    {
        return Err("it is not counted at its end, or chunks have several ids".to_owned());
    }
    last["candidates"][0]["content"] = json!({"role": "model", "parts": parts});
    response(&last)
}
