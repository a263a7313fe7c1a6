//! Writes the events of an answer as one chat completion in OpenAI's format. Everything is
//! gathered, and written at the end.

use super::words::{self, Head};
use crate::neutral::answer::{AnswerWriter, NewCall, Tally, TextKind, is_picture};
use crate::neutral::citation::PlacedCitation;
use crate::neutral::{AnswerHeader, Call, Finish};
use crate::wire::json::put_text;

/// Writes a whole answer, after its last event.
#[derive(Debug)]
pub(crate) struct WholeWriter {
    head: Head,
    choices: Vec<ChoiceContent>,
    out: Vec<u8>,
}

/// The content of a choice.
#[derive(Debug, Default)]
struct ChoiceContent {
    content: String,
    reasoning: String,
    refusal: String,
    calls: Vec<Call<'static>>,
    /// The entries of this list as JSON, with commas between them; so in `images` and `files`.
    annotations: Vec<u8>,
    images: Vec<u8>,
    files: Vec<u8>,
    finish: Option<Finish>,
}

impl WholeWriter {
    /// Returns the writer of an answer without any events yet.
    pub(crate) fn new(header: &AnswerHeader) -> Self {
        Self {
            head: Head::new(br#"{"id":""#, "chat.completion", header),
            choices: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Changes a choice that was opened before.
    fn change_choice(&mut self, choice: usize, change: impl FnOnce(&mut ChoiceContent)) {
        if let Some(choice) = self.choices.get_mut(choice) {
            change(choice);
        }
    }
}

impl ChoiceContent {
    /// Returns about the number of bytes that the choice takes. An eighth more is for escaped
    /// characters.
    fn room(&self) -> usize {
        let calls: usize = self
            .calls
            .iter()
            .map(|call| call.arguments.len() + call.name.len() + call.id.len() + 128)
            .sum();
        let texts = self.content.len() + self.reasoning.len() + self.refusal.len();
        256 + texts
            + texts / 8
            + calls
            + calls / 8
            + self.images.len()
            + self.files.len()
            + self.annotations.len()
    }

    fn write(&self, choice_index: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"index":"#);
        words::write_number(out, choice_index);
        out.extend_from_slice(br#","message":{"role":"assistant""#);
        if self.content.is_empty() && !self.calls.is_empty() {
            out.extend_from_slice(br#","content":null"#);
        } else {
            put_text(out, r#","content":"#, &self.content);
        }
        if !self.reasoning.is_empty() {
            put_text(out, r#","reasoning_content":"#, &self.reasoning);
        }
        if self.refusal.is_empty() {
            out.extend_from_slice(br#","refusal":null"#);
        } else {
            put_text(out, r#","refusal":"#, &self.refusal);
        }
        self.write_calls(out);
        let lists = [
            (r#","annotations":["#, &self.annotations),
            (r#","images":["#, &self.images),
            (r#","files":["#, &self.files),
        ];
        for (key, entries) in lists {
            if !entries.is_empty() {
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(entries);
                out.push(b']');
            }
        }
        put_text(
            out,
            r#"},"logprobs":null,"finish_reason":"#,
            words::finish_word(self.finish.unwrap_or(Finish::Stop)),
        );
        out.push(b'}');
    }

    fn write_calls(&self, out: &mut Vec<u8>) {
        let mut separator = r#","tool_calls":["#;
        for call in &self.calls {
            out.extend_from_slice(separator.as_bytes());
            out.push(b'{');
            words::write_call(
                out,
                &call.id,
                &call.name,
                &call.arguments,
                call.signature.as_deref(),
            );
            separator = ",";
        }
        if !self.calls.is_empty() {
            out.push(b']');
        }
    }
}

impl AnswerWriter for WholeWriter {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn id(&mut self, id: &str) {
        self.head.take_id(id);
    }

    fn open(&mut self, _choice: usize) {
        self.choices.push(ChoiceContent::default());
    }

    fn write_text(&mut self, choice: usize, kind: TextKind, text: &str) {
        self.change_choice(choice, |choice| match kind {
            TextKind::Content => choice.content.push_str(text),
            TextKind::Reasoning => choice.reasoning.push_str(text),
            TextKind::Refusal => choice.refusal.push_str(text),
        });
    }

    fn call(&mut self, choice: usize, _number: usize, call: &NewCall<'_>) {
        self.change_choice(choice, |choice| choice.calls.push(call.without_arguments()));
    }

    fn arguments(&mut self, choice: usize, number: usize, text: &str) {
        self.change_choice(choice, |choice| {
            choice
                .calls
                .get_mut(number)
                .into_iter()
                .for_each(|call| call.arguments.to_mut().push_str(text));
        });
    }

    fn media(&mut self, choice: usize, number: usize, mime: &str, data: &str) {
        self.change_choice(choice, |choice| {
            let list = if is_picture(mime) {
                &mut choice.images
            } else {
                &mut choice.files
            };
            begin_entry(list);
            words::write_media(list, number, mime, data);
        });
    }

    fn cite(&mut self, choice: usize, citation: &PlacedCitation<'_>) -> bool {
        if !words::can_cite(citation) {
            return false;
        }
        self.change_choice(choice, |choice| {
            begin_entry(&mut choice.annotations);
            words::write_citation(&mut choice.annotations, None, citation);
        });
        true
    }

    fn finish(&mut self, choice: usize, reason: Finish) {
        self.change_choice(choice, |choice| choice.finish = Some(reason));
    }

    // The trail is for streams only.
    fn end(&mut self, tally: &Tally, _trail: Option<&str>) {
        let out = &mut self.out;
        out.reserve(512 + self.choices.iter().map(ChoiceContent::room).sum::<usize>());
        out.extend_from_slice(self.head.bytes());
        out.extend_from_slice(br#","choices":"#);
        // There is at least one choice: `AnswerProgress::close` refuses an answer without.
        for (index, choice) in self.choices.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            choice.write(index, out);
        }
        out.extend_from_slice(br#"],"usage":"#);
        words::write_usage(out, tally);
        out.push(b'}');
    }
}

/// Writes the comma before an entry that is not the first.
fn begin_entry(list: &mut Vec<u8>) {
    if !list.is_empty() {
        list.push(b',');
    }
}
