//! An answer's events → one body.

use super::words;
use crate::neutral::answer::{AnswerOptions, AnswerProgress, AnswerWriter, Kept, NewCall, TextKind, is_picture};
use crate::neutral::{Answer, AnswerFault, AnswerHeader, Call, Event};

/// The state behind a buffered answer.
#[derive(Debug)]
pub struct Whole {
    progress: AnswerProgress,
    body: Body,
}

/// What is to be written.
#[derive(Debug)]
struct Body {
    /// The inside of a literal, of the upstream's own id.
    id: Option<Vec<u8>>,
    choices: Vec<ChoiceText>,
}

/// What a choice says.
#[derive(Debug, Default)]
struct ChoiceText {
    content: String,
    reasoning: String,
    refusal: String,
    calls: Vec<Call<'static>>,
    /// Entries of the two lists, as JSON.
    images: Vec<u8>,
    files: Vec<u8>,
    reason: &'static str,
}

impl Whole {
    /// An answer of which nothing is known yet.
    pub fn new(header: &AnswerHeader, options: AnswerOptions) -> Self {
        Self { progress: AnswerProgress::new(header, options), body: Body { id: None, choices: Vec::new() } }
    }

    /// Takes an event.
    pub fn take(&mut self, event: Event<'_>) {
        self.progress.take(event, &mut self.body);
    }

    /// Thoughts to keep for the next turn, each once.
    pub fn kept(&mut self) -> Vec<Kept> {
        self.progress.kept()
    }

    /// The answer, once all of it was told.
    pub fn finish(mut self, header: &AnswerHeader) -> Result<Answer, AnswerFault> {
        self.progress.close(&mut self.body).map_err(AnswerFault::Nonsense)?;
        let mut out = Vec::with_capacity(512 + self.body.choices.iter().map(ChoiceText::room).sum::<usize>());
        match &self.body.id {
            Some(id) => {
                out.extend_from_slice(br#"{"id":""#);
                out.extend_from_slice(id);
                out.push(b'"');
            }
            None => words::text(&mut out, r#"{"id":"#, &header.id),
        }
        out.extend_from_slice(br#","object":"chat.completion","created":"#);
        out.extend_from_slice(header.created.to_string().as_bytes());
        words::text(&mut out, r#","model":"#, &header.model);
        out.extend_from_slice(br#","choices":"#);
        for (at, choice) in self.body.choices.iter().enumerate() {
            out.push(if at == 0 { b'[' } else { b',' });
            choice.write(at, &mut out);
        }
        out.extend_from_slice(br#"],"usage":"#);
        self.progress.tally.write(&mut out);
        out.push(b'}');
        Ok(Answer {
            body: out,
            usage: self.progress.tally.usage(),
            declined: self.progress.declined(),
            flaws: self.progress.flaws(),
        })
    }
}

impl ChoiceText {
    /// About what it takes.
    fn room(&self) -> usize {
        let calls: usize =
            self.calls.iter().map(|call| call.arguments.len() + call.name.len() + call.id.len() + 128).sum();
        let texts = self.content.len() + self.reasoning.len() + self.refusal.len();
        256 + texts + texts / 8 + calls + calls / 8 + self.images.len() + self.files.len()
    }

    fn write(&self, at: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"index":"#);
        words::number(out, at);
        out.extend_from_slice(br#","message":{"role":"assistant""#);
        if self.content.is_empty() && !self.calls.is_empty() {
            out.extend_from_slice(br#","content":null"#);
        } else {
            words::text(out, r#","content":"#, &self.content);
        }
        if !self.reasoning.is_empty() {
            words::text(out, r#","reasoning_content":"#, &self.reasoning);
        }
        if self.refusal.is_empty() {
            out.extend_from_slice(br#","refusal":null"#);
        } else {
            words::text(out, r#","refusal":"#, &self.refusal);
        }
        let mut before = r#","tool_calls":["#;
        for call in &self.calls {
            out.extend_from_slice(before.as_bytes());
            out.push(b'{');
            words::call(out, &call.id, &call.name, &call.arguments, call.signature.as_deref());
            before = ",";
        }
        if !self.calls.is_empty() {
            out.push(b']');
        }
        for (key, entries) in [(r#","images":["#, &self.images), (r#","files":["#, &self.files)] {
            if !entries.is_empty() {
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(entries);
                out.push(b']');
            }
        }
        words::text(out, r#"},"logprobs":null,"finish_reason":"#, self.reason);
        out.push(b'}');
    }
}

impl Body {
    /// The choice, which was opened before.
    fn with(&mut self, choice: usize, change: impl FnOnce(&mut ChoiceText)) {
        if let Some(choice) = self.choices.get_mut(choice) {
            change(choice);
        }
    }
}

impl AnswerWriter for Body {
    fn id(&mut self, id: &str) {
        if self.id.is_none() {
            self.id = words::answer_id(id);
        }
    }

    fn open(&mut self, _choice: usize) {
        self.choices.push(ChoiceText::default());
    }

    fn say(&mut self, choice: usize, kind: TextKind, text: &str) {
        self.with(choice, |choice| match kind {
            TextKind::Content => choice.content.push_str(text),
            TextKind::Reasoning => choice.reasoning.push_str(text),
            TextKind::Refusal => choice.refusal.push_str(text),
        });
    }

    fn call(&mut self, choice: usize, _number: usize, call: &NewCall<'_>) {
        let call = Call {
            id: call.id.to_owned().into(),
            name: call.name.to_owned().into(),
            arguments: "".into(),
            signature: call.signature.map(|signature| signature.to_owned().into()),
            is_custom: false,
        };
        self.with(choice, |choice| choice.calls.push(call));
    }

    fn arguments(&mut self, choice: usize, number: usize, text: &str) {
        self.with(choice, |choice| {
            choice.calls.get_mut(number).into_iter().for_each(|call| call.arguments.to_mut().push_str(text));
        });
    }

    fn media(&mut self, choice: usize, number: usize, mime: &str, data: &str) {
        self.with(choice, |choice| {
            let list = if is_picture(mime) { &mut choice.images } else { &mut choice.files };
            if !list.is_empty() {
                list.push(b',');
            }
            words::media(list, number, mime, data);
        });
    }

    fn finish(&mut self, choice: usize, reason: &'static str) {
        self.with(choice, |choice| choice.reason = reason);
    }
}
