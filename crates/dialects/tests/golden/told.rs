//! The content of an answer in any format, so that the doors can be compared with each other.

use serde_json::{Value, json};

/// The content of an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    pub text: String,
    pub refusal: String,
    pub thinking: String,
    /// Names and arguments. A call whose arguments are no object is left out: not every door can
    /// show it.
    pub calls: Vec<(String, Value)>,
    /// The reason of the end, as chat completions have it.
    pub reason: String,
    pub prompt: u64,
    pub completion: u64,
}

impl Told {
    /// Adds a call.
    pub fn call(&mut self, name: &str, arguments: &Value) {
        if arguments.is_object() {
            self.calls.push((name.to_owned(), arguments.clone()));
        }
    }

    /// Reads a chat completion. A choice is one answer; only the first is compared.
    pub fn of_chat(answer: &Value) -> Self {
        let (choice, usage) = (&answer["choices"][0], &answer["usage"]);
        let message = &choice["message"];
        let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
        let mut told = Self {
            text: text("content"),
            refusal: text("refusal"),
            thinking: text("reasoning_content"),
            reason: choice["finish_reason"]
                .as_str()
                .expect("a reason")
                .to_owned(),
            prompt: usage["prompt_tokens"].as_u64().expect("a count"),
            completion: usage["completion_tokens"].as_u64().expect("a count"),
            ..Self::default()
        };
        for call in message["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|call| &call["function"])
        {
            let arguments = parsed(call["arguments"].as_str().expect("arguments"));
            told.call(call["name"].as_str().expect("a name"), &arguments);
        }
        told
    }

    /// Reads the chunks of a chat completion.
    pub fn of_chunks(out: &str) -> Self {
        let mut message =
            json!({"content": "", "refusal": "", "reasoning_content": "", "tool_calls": []});
        let (mut reason, mut usage) = (Value::Null, Value::Null);
        for chunk in out
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| *data != "[DONE]")
        {
            let chunk = parsed(chunk);
            let choices = chunk["choices"].as_array().expect("choices");
            for choice in choices.iter().filter(|choice| choice["index"] == 0) {
                for key in ["content", "refusal", "reasoning_content"] {
                    append(&mut message[key], &choice["delta"][key]);
                }
                for call in choice["delta"]["tool_calls"]
                    .as_array()
                    .into_iter()
                    .flatten()
                {
                    let at =
                        usize::try_from(call["index"].as_u64().expect("an index")).expect("small");
                    let calls = message["tool_calls"].as_array_mut().expect("calls");
                    if at == calls.len() {
                        calls.push(call.clone());
                    } else {
                        append(
                            &mut calls[at]["function"]["arguments"],
                            &call["function"]["arguments"],
                        );
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
        Self::of_chat(
            &json!({"choices": [{"message": message, "finish_reason": reason}], "usage": usage}),
        )
    }
}

/// Appends a piece of text.
pub fn append(text: &mut Value, piece: &Value) {
    *text =
        (text.as_str().unwrap_or_default().to_owned() + piece.as_str().unwrap_or_default()).into();
}

/// Reads JSON; `null` if it is none.
pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// Returns a text without the words that stand for a picture or a file.
pub fn without_media(text: &str) -> String {
    let mut parts = text.split("[The model sent ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + part
            .split_once("This format cannot carry it.]")
            .map_or(part, |(_, rest)| rest)
    })
}
