//! [`Event`](crate::neutral::Event)s → a response of Gemini's, in the chunks of a stream or whole.

mod calls;
mod candidates;
mod grounding;

pub(super) use candidates::CandidatesWriter;

use crate::neutral::answer::Tally;
use crate::neutral::{AnswerHeader, Call, Finish};
use crate::wire::json::put_text;

/// The form of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamForm {
    /// Server-sent events.
    Events,
    /// One JSON array, whose elements come one after the other.
    Array,
}

/// Returns the word for why the answer ended.
fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::Calls => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::Filtered => "SAFETY",
    }
}

/// Appends a part that is a call.
fn write_call(out: &mut Vec<u8>, call: &Call<'_>) {
    put_text(out, r#"{"functionCall":{"id":"#, &call.id);
    put_text(out, r#","name":"#, &call.name);
    out.extend_from_slice(br#","args":"#);
    // Between its values JSON may have line ends, which would end an event.
    let arguments = call.object().unwrap_or("{}");
    out.extend(arguments.bytes().map(|byte| {
        if matches!(byte, b'\n' | b'\r') {
            b' '
        } else {
            byte
        }
    }));
    out.push(b'}');
    if let Some(sealed) = &call.signature {
        put_text(out, r#","thoughtSignature":"#, sealed);
    }
    out.push(b'}');
}

/// Appends a part that is a picture or another file.
fn write_media(out: &mut Vec<u8>, mime: &str, data: &str) {
    put_text(out, r#"{"inlineData":{"mimeType":"#, mime);
    put_text(out, r#","data":"#, data);
    out.extend_from_slice(b"}}");
}

/// Appends the reason of a candidate's end, and the candidate's end.
fn write_finish(out: &mut Vec<u8>, finish: Finish, choice: usize) {
    out.extend_from_slice(
        format!(
            r#","finishReason":"{}","index":{choice}}}"#,
            finish_word(finish)
        )
        .as_bytes(),
    );
}

/// Appends the usage, as a member that is not the first.
fn write_usage(out: &mut Vec<u8>, tally: &Tally) {
    let (usage, counted) = (tally.usage(), tally.counted());
    let counts = [
        ("promptTokenCount", Some(usage.prompt)),
        (
            "candidatesTokenCount",
            Some(usage.completion - usage.reasoning),
        ),
        (
            "thoughtsTokenCount",
            counted.reasoning.map(|_| usage.reasoning),
        ),
        (
            "cachedContentTokenCount",
            counted.cached.map(|_| usage.cached),
        ),
        ("totalTokenCount", Some(usage.total())),
    ];
    let mut before = r#","usageMetadata":{"#;
    for (name, count) in counts {
        if let Some(count) = count {
            out.extend_from_slice(format!(r#"{before}"{name}":{count}"#).as_bytes());
            before = ",";
        }
    }
    tally.end_usage(out);
}

/// Returns the end of every chunk: the model's version, and the answer's id.
fn chunk_tail(header: &AnswerHeader) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, r#","modelVersion":"#, &header.model);
    put_text(&mut out, r#","responseId":"#, &header.id);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;
