//! The room of a request is the estimated size of its written form. A buffer with this room need
//! not grow while the request is written, even if the request has a picture of megabytes.

use super::lazy_text::LazyText;
use super::request::{Media, Message, Part, PartKind, Request, Tool, ToolKind};

impl Request<'_> {
    /// Returns roughly the number of bytes that the request takes in any dialect.
    pub fn room(&self) -> usize {
        self.messages.iter().map(message_room).sum::<usize>()
            + self.tools.iter().map(tool_room).sum::<usize>()
            + 512
    }
}

fn message_room(message: &Message<'_>) -> usize {
    let calls = message
        .calls
        .iter()
        .map(|call| call.arguments.len() + call.name.len() + 160);
    let thoughts = message.thoughts.iter().map(|thought| {
        thought.text.len() + thought.signature.as_ref().map_or(0, |text| text.len()) + 64
    });
    let shown = message.reasoning.as_ref().map_or(0, |text| text.len());
    message
        .content
        .iter()
        .map(part_room)
        .chain(calls)
        .chain(thoughts)
        .sum::<usize>()
        + shown
        + 160
}

fn part_room(part: &Part<'_>) -> usize {
    match &part.kind {
        // Escaped characters take more bytes.
        PartKind::Text(text) => text.written_len() + text.written_len() / 16 + 64,
        PartKind::Image(media, _) | PartKind::File(media, _) => match media {
            Media::Inline(_, data) | Media::Url(data) | Media::Id(data) => data.len() + 128,
        },
        PartKind::Audio(data, _) => data.len() + 128,
    }
}

fn tool_room(tool: &Tool<'_>) -> usize {
    let schema = match &tool.kind {
        ToolKind::Function(Some(schema), _) => schema.len(),
        ToolKind::Function(None, _) | ToolKind::Custom | ToolKind::Other => 0,
    };
    schema + tool.description.as_ref().map_or(0, LazyText::written_len) + 160
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
