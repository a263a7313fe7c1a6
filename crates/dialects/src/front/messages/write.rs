//! [`Event`](crate::neutral::Event)s → a message of Anthropic's, whole or as a stream.

mod message;

pub(super) use message::MessageWriter;

use crate::neutral::Finish;
use crate::neutral::answer::Tally;

/// Returns the word for why the answer ended. `refuses` is true if the model refused in its own
/// words.
fn stop_reason(finish: Finish, refuses: bool) -> &'static str {
    match finish {
        Finish::Stop if refuses => "refusal",
        Finish::Stop => "end_turn",
        Finish::Calls => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Filtered => "refusal",
    }
}

/// Appends the usage. The tokens of the prompt are listed by their source.
fn write_usage(out: &mut Vec<u8>, tally: &Tally) {
    let (usage, counted) = (tally.usage(), tally.counted());
    let fresh = usage.prompt - usage.cached - usage.cache_write;
    out.extend_from_slice(format!(r#"{{"input_tokens":{fresh}"#).as_bytes());
    let cached = [
        (
            "cache_creation_input_tokens",
            counted.cache_write.map(|_| usage.cache_write),
        ),
        (
            "cache_read_input_tokens",
            counted.cached.map(|_| usage.cached),
        ),
    ];
    for (name, count) in cached {
        out.extend_from_slice(format!(r#","{name}":{}"#, count.unwrap_or(0)).as_bytes());
    }
    out.extend_from_slice(format!(r#","output_tokens":{}"#, usage.completion).as_bytes());
    if counted.reasoning.is_some() {
        let details = format!(
            r#","output_tokens_details":{{"thinking_tokens":{}}}"#,
            usage.reasoning
        );
        out.extend_from_slice(details.as_bytes());
    }
    tally.end_usage(out);
}

#[cfg(test)]
mod tests;
