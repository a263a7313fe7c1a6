//! An answer's events → the chunks of a stream.
//!
//! Each event that shows something becomes one chunk, which is written at once. The beginning that
//! all chunks share is made once.

use super::words::{self, Head};
use crate::neutral::answer::{AnswerWriter, NewCall, Tally, TextKind};
use crate::neutral::citation::PlacedCitation;
use crate::neutral::{AnswerHeader, Finish, mark};
use crate::wire::json::put_text;

/// Writes the chunks of a stream.
#[derive(Debug)]
pub(crate) struct ChunksWriter {
    head: Head,
    show_usage: bool,
    /// The number of citations of each choice.
    cited: Vec<usize>,
    out: Vec<u8>,
}

impl ChunksWriter {
    /// Returns the writer of a stream at its start.
    pub(crate) fn new(header: &AnswerHeader) -> Self {
        let head = Head::new(br#"data: {"id":""#, "chat.completion.chunk", header);
        Self {
            head,
            show_usage: header.show_usage,
            cited: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Writes the part of a chunk before a delta's members.
    #[inline]
    fn before(&mut self, choice: usize) {
        self.out.extend_from_slice(self.head.bytes());
        self.out.extend_from_slice(br#","choices":[{"index":"#);
        words::write_number(&mut self.out, choice);
        self.out.extend_from_slice(br#","delta":{"#);
    }

    /// Writes the part of a chunk after a delta's members.
    #[inline]
    fn after(&mut self) {
        self.out.extend_from_slice(if self.show_usage {
            b"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n".as_slice()
        } else {
            b"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
        });
    }
}

impl AnswerWriter for ChunksWriter {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn id(&mut self, id: &str) {
        self.head.take_id(id);
    }

    fn open(&mut self, choice: usize) {
        self.head.has_id = true;
        self.before(choice);
        self.out
            .extend_from_slice(br#""role":"assistant","content":"""#);
        self.after();
    }

    fn write_text(&mut self, choice: usize, kind: TextKind, text: &str) {
        // Most texts are short, and grow little by being escaped.
        self.out.reserve(self.head.bytes().len() + text.len() + 160);
        self.before(choice);
        let key = match kind {
            TextKind::Content => r#""content":"#,
            TextKind::Reasoning => r#""reasoning_content":"#,
            TextKind::Refusal => r#""refusal":"#,
        };
        put_text(&mut self.out, key, text);
        self.after();
    }

    fn call(&mut self, choice: usize, number: usize, call: &NewCall<'_>) {
        self.before(choice);
        self.out.extend_from_slice(br#""tool_calls":[{"index":"#);
        words::write_number(&mut self.out, number);
        self.out.push(b',');
        words::write_call(&mut self.out, call.id, call.name, "", call.signature);
        self.out.push(b']');
        self.after();
    }

    fn arguments(&mut self, choice: usize, number: usize, text: &str) {
        self.out.reserve(self.head.bytes().len() + text.len() + 160);
        self.before(choice);
        self.out.extend_from_slice(br#""tool_calls":[{"index":"#);
        words::write_number(&mut self.out, number);
        put_text(&mut self.out, r#","function":{"arguments":"#, text);
        self.out.extend_from_slice(b"}}]");
        self.after();
    }

    fn media(&mut self, choice: usize, number: usize, mime: &str, data: &str) {
        self.out.reserve(self.head.bytes().len() + data.len() + 256);
        self.before(choice);
        self.out.push(b'"');
        self.out
            .extend_from_slice(words::media_list(mime).as_bytes());
        self.out.extend_from_slice(br#"":["#);
        words::write_media(&mut self.out, number, mime, data);
        self.out.push(b']');
        self.after();
    }

    fn cite(&mut self, choice: usize, citation: &PlacedCitation<'_>) -> bool {
        if !words::can_cite(citation) {
            return false;
        }
        if self.cited.len() <= choice {
            self.cited.resize(choice + 1, 0);
        }
        let Some(number) = self.cited.get_mut(choice) else {
            return false;
        };
        let index = *number;
        *number += 1;
        self.before(choice);
        self.out.extend_from_slice(br#""annotations":["#);
        words::write_citation(&mut self.out, Some(index), citation);
        self.out.push(b']');
        self.after();
        true
    }

    fn finish(&mut self, choice: usize, reason: Finish) {
        self.before(choice);
        put_text(
            &mut self.out,
            r#"},"logprobs":null,"finish_reason":"#,
            words::finish_word(reason),
        );
        let usage = if self.show_usage {
            &b"}],\"usage\":null}\n\n"[..]
        } else {
            b"}]}\n\n"
        };
        self.out.extend_from_slice(usage);
    }

    fn end(&mut self, tally: &Tally, trail: Option<&str>) {
        if self.show_usage {
            self.out.extend_from_slice(self.head.bytes());
            mark::append_mark(&mut self.out, tally.usage().source, trail);
            self.out.extend_from_slice(br#","choices":[],"usage":"#);
            words::write_usage(&mut self.out, tally);
            self.out.extend_from_slice(b"}\n\n");
        }
        self.out.extend_from_slice(b"data: [DONE]\n\n");
    }
}
