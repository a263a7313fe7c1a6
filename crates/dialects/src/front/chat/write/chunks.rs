//! An answer's events → the chunks of a stream.
//!
//! One chunk for each event that tells something, written at once. What is the same in all of them
//! is made once.

use super::words;
use crate::neutral::answer::{AnswerOptions, AnswerProgress, AnswerWriter, Kept, NewCall, TextKind};
use crate::neutral::usage::Usage;
use crate::neutral::{AnswerHeader, Event, Flaws, StreamFault, mark};
use crate::wire::json;

/// The state behind a stream.
#[derive(Debug)]
pub struct Chunks {
    progress: AnswerProgress,
    frame: Frame,
}

/// What stands around every chunk's own.
#[derive(Debug)]
struct Frame {
    /// From the field's name to the model.
    head: Box<[u8]>,
    /// Where in it the id ends.
    id_end: usize,
    /// The upstream's id came, or it is too late for it.
    has_id: bool,
    show_usage: bool,
}

const OPEN: &[u8] = br#"data: {"id":""#;

impl Chunks {
    /// A stream at its start.
    pub fn new(header: &AnswerHeader, options: AnswerOptions) -> Self {
        Self { progress: AnswerProgress::new(header, options), frame: Frame::new(header) }
    }

    /// Takes an event and appends the chunks that it makes. What it makes impossible,
    /// [`fault`](Self::fault) says.
    #[inline]
    pub fn take(&mut self, event: Event<'_>, out: &mut Vec<u8>) {
        self.progress.take(event, &mut Writing { frame: &mut self.frame, out });
    }

    /// Why this can be no answer, if so.
    pub fn fault(&self) -> Result<(), StreamFault> {
        self.progress.fault().map_or(Ok(()), |why| Err(StreamFault::Broken(why)))
    }

    /// The commit gate: content, thinking (hidden too), a call, a refusal, media or a finish was
    /// told.
    pub fn opened(&self) -> bool {
        self.progress.opened()
    }

    /// Nothing was told that is an answer, but that there will be none.
    pub fn declined(&self) -> bool {
        self.progress.declined()
    }

    /// The end was told.
    pub fn done(&self) -> bool {
        self.progress.ended()
    }

    /// Every choice has its finish.
    pub fn finished(&self) -> bool {
        self.progress.finished()
    }

    /// Appends what was held back, the finishes, the usage if it was asked for, with `trail`, and
    /// `[DONE]`. That the answer is whole must be known.
    pub fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> Result<Usage, StreamFault> {
        self.progress.close(&mut Writing { frame: &mut self.frame, out }).map_err(StreamFault::Broken)?;
        let usage = self.progress.tally.usage();
        if self.frame.show_usage {
            self.frame.head(out);
            if let Some(mark) = mark::write(usage.source, trail) {
                out.extend_from_slice(br#","x_portcullis":"#);
                out.extend_from_slice(mark.as_bytes());
            }
            out.extend_from_slice(br#","choices":[],"usage":"#);
            self.progress.tally.write(out);
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
        Ok(usage)
    }

    /// What is wrong with what was told, once all of it was.
    pub fn flaws(&self) -> Flaws {
        self.progress.flaws()
    }

    /// What was used so far, for streams that end early: as the upstream said, and an estimate of
    /// what it did not count; nothing if nothing was told.
    pub fn usage_so_far(&self) -> Usage {
        self.progress.usage_so_far()
    }

    /// Thoughts to keep for the next turn, each once.
    pub fn kept(&mut self) -> Vec<Kept> {
        self.progress.kept()
    }
}

impl Frame {
    fn new(header: &AnswerHeader) -> Self {
        let mut head = OPEN.to_vec();
        json::escape_into(&header.id, &mut head);
        let id_end = head.len();
        head.extend_from_slice(br#"","object":"chat.completion.chunk","created":"#);
        head.extend_from_slice(header.created.to_string().as_bytes());
        words::text(&mut head, r#","model":"#, &header.model);
        Self { head: head.into(), id_end, has_id: false, show_usage: header.show_usage }
    }

    #[inline]
    fn head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
    }

    /// What stands before a delta's members.
    #[inline]
    fn before(&self, choice: usize, out: &mut Vec<u8>) {
        self.head(out);
        out.extend_from_slice(br#","choices":[{"index":"#);
        words::number(out, choice);
        out.extend_from_slice(br#","delta":{"#);
    }

    /// What stands after them.
    #[inline]
    fn after(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.show_usage {
            b"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n".as_slice()
        } else {
            b"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
        });
    }
}

/// The chunks on their way out.
struct Writing<'w> {
    frame: &'w mut Frame,
    out: &'w mut Vec<u8>,
}

impl AnswerWriter for Writing<'_> {
    fn id(&mut self, id: &str) {
        if !self.frame.has_id
            && let Some(id) = words::answer_id(id)
        {
            let rest = self.frame.head.get(self.frame.id_end..).unwrap_or_default();
            let head = [OPEN, &id, rest].concat();
            self.frame.id_end = OPEN.len() + id.len();
            self.frame.head = head.into();
            self.frame.has_id = true;
        }
    }

    fn open(&mut self, choice: usize) {
        self.frame.has_id = true;
        self.frame.before(choice, self.out);
        self.out.extend_from_slice(br#""role":"assistant","content":"""#);
        self.frame.after(self.out);
    }

    fn say(&mut self, choice: usize, kind: TextKind, text: &str) {
        // Most texts are short, and grow little by being escaped.
        self.out.reserve(self.frame.head.len() + text.len() + 160);
        self.frame.before(choice, self.out);
        let key = match kind {
            TextKind::Content => r#""content":"#,
            TextKind::Reasoning => r#""reasoning_content":"#,
            TextKind::Refusal => r#""refusal":"#,
        };
        words::text(self.out, key, text);
        self.frame.after(self.out);
    }

    fn call(&mut self, choice: usize, number: usize, call: &NewCall<'_>) {
        self.frame.before(choice, self.out);
        self.out.extend_from_slice(br#""tool_calls":[{"index":"#);
        words::number(self.out, number);
        self.out.push(b',');
        words::call(self.out, call.id, call.name, "", call.signature);
        self.out.push(b']');
        self.frame.after(self.out);
    }

    fn arguments(&mut self, choice: usize, number: usize, text: &str) {
        self.out.reserve(self.frame.head.len() + text.len() + 160);
        self.frame.before(choice, self.out);
        self.out.extend_from_slice(br#""tool_calls":[{"index":"#);
        words::number(self.out, number);
        words::text(self.out, r#","function":{"arguments":"#, text);
        self.out.extend_from_slice(b"}}]");
        self.frame.after(self.out);
    }

    fn media(&mut self, choice: usize, number: usize, mime: &str, data: &str) {
        self.out.reserve(self.frame.head.len() + data.len() + 256);
        self.frame.before(choice, self.out);
        self.out.push(b'"');
        self.out.extend_from_slice(words::media_list(mime).as_bytes());
        self.out.extend_from_slice(br#"":["#);
        words::media(self.out, number, mime, data);
        self.out.push(b']');
        self.frame.after(self.out);
    }

    fn finish(&mut self, choice: usize, reason: &'static str) {
        self.frame.before(choice, self.out);
        words::text(self.out, r#"},"logprobs":null,"finish_reason":"#, reason);
        let usage = if self.frame.show_usage { &b"}],\"usage\":null}\n\n"[..] } else { b"}]}\n\n" };
        self.out.extend_from_slice(usage);
    }
}
