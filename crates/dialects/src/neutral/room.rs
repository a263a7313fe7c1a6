//! The room of a request is the estimated size of its written form. A buffer with this room need
//! not grow while the request is written, even if the request has a picture of megabytes.

use super::lazy_text::LazyText;
use super::request::{Media, Message, Part, PartKind, Request, Thought, Tool, ToolKind};

/// The room for the keys and brackets around a request, generously.
const REQUEST_FRAME: usize = 512;
/// The room for those around a message, a call or a tool.
const ENTRY_FRAME: usize = 160;
/// The room for those around a text or a thought.
const PART_FRAME: usize = 64;
/// The room for those around a picture, a sound or a file.
const MEDIA_FRAME: usize = 128;

impl Request<'_> {
    /// Returns about the number of bytes that the request takes, in whichever dialect. It is too
    /// small only if much is escaped.
    pub fn room(&self) -> usize {
        self.messages.iter().map(message_room).sum::<usize>()
            + self.tools.iter().map(tool_room).sum::<usize>()
            + REQUEST_FRAME
    }
}

fn message_room(message: &Message<'_>) -> usize {
    let calls = message
        .calls
        .iter()
        .map(|call| call.arguments.len() + call.name.len() + ENTRY_FRAME);
    let thoughts = message.thoughts.iter().map(thought_room);
    let reasoning = message.reasoning.as_ref().map_or(0, |text| text.len());
    message
        .content
        .iter()
        .map(part_room)
        .chain(calls)
        .chain(thoughts)
        .sum::<usize>()
        + reasoning
        + ENTRY_FRAME
}

fn thought_room(thought: &Thought<'_>) -> usize {
    let sealed = [&thought.signature, &thought.redacted].into_iter();
    let sealed_bytes: usize = sealed.flatten().map(|text| text.len()).sum();
    thought.text.len() + sealed_bytes + PART_FRAME
}

fn part_room(part: &Part<'_>) -> usize {
    match &part.kind {
        // One part in sixteen more, for characters that are escaped.
        PartKind::Text(text) => text.written_len() + text.written_len() / 16 + PART_FRAME,
        PartKind::Image(media, _) | PartKind::File(media, _) => match media {
            Media::Inline(_, data) | Media::Url(data) | Media::Id(data) => data.len() + MEDIA_FRAME,
        },
        PartKind::Audio(data, _) => data.len() + MEDIA_FRAME,
    }
}

fn tool_room(tool: &Tool<'_>) -> usize {
    let schema = match &tool.kind {
        ToolKind::Function(Some(schema), _) => schema.len(),
        ToolKind::Function(None, _) | ToolKind::Custom | ToolKind::Other => 0,
    };
    schema + tool.description.as_ref().map_or(0, LazyText::written_len) + ENTRY_FRAME
}

#[cfg(test)]
mod tests {
    use crate::front::chat::read::read_request;

    #[test]
    fn there_is_room_for_what_is_said() {
        let long = "x".repeat(10_000);
        let picture = format!(
            r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{long}"}}}}"#
        );
        for body in [
            format!(r#"{{"messages":[{{"role":"user","content":"{long}"}}]}}"#),
            format!(r#"{{"messages":[{{"role":"user","content":[{picture}]}}]}}"#),
            format!(r#"{{"messages":[{{"role":"assistant","reasoning":"{long}"}}]}}"#),
            format!(
                r#"{{"messages":[{{"role":"assistant","thinking_blocks":[{{"type":"redacted_thinking","data":"{long}"}}]}}]}}"#
            ),
            format!(
                r#"{{"messages":[{{"role":"assistant","function_call":{{"name":"f","arguments":"{long}"}}}}]}}"#
            ),
            format!(
                r#"{{"messages":[],"tools":[{{"function":{{"name":"f","parameters":{{"description":"{long}"}}}}}}]}}"#
            ),
        ] {
            let room = read_request(body.as_bytes()).unwrap().0.room();
            assert!((long.len()..long.len() * 6 / 5).contains(&room), "{room}");
        }
    }
}
