//! [`Event`](crate::neutral::Event)s → a response, as the events of a stream or whole. One writer
//! makes both forms, so both have the same content.
//!
//! The last event of a stream repeats the whole answer, so the answer is kept, up to
//! [`MAX_KEPT_BYTES`].

mod item;
pub(super) mod response;

use std::sync::Arc;

use crate::neutral::answer::{AnswerWriter, Carries, NewCall, Tally, TextKind, omitted_media_text};
use crate::neutral::citation::PlacedCitation;
use crate::neutral::{AnswerHeader, CallKind, Echo, Finish, mark};
use crate::wire::json::Writer;
use item::{CallOfItem, Item, Kind};
use response::{ResponseHead, State};

/// The most bytes of a stream's answer that are kept.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// Writes a response.
#[derive(Debug)]
pub(super) struct ResponseWriter {
    head: ResponseHead,
    echo: Arc<Echo>,
    events: Events,
    has_begun: bool,
    /// The item that is open.
    open: Option<Item>,
    /// Texts that came while a call was open: a call may go on after them.
    held: Vec<(TextKind, String)>,
    /// The items that are complete, as the elements of an array.
    output: Vec<u8>,
    /// The number of these items.
    items: usize,
    /// The bytes of all texts and arguments.
    bytes: usize,
    reason: Finish,
    /// True if a search was called whose arguments are no object.
    is_broken: bool,
}

/// The events of a stream.
#[derive(Debug)]
struct Events {
    out: Vec<u8>,
    /// The number of the next event; `None` if no events are written.
    next: Option<u64>,
}

impl Events {
    /// Writes an event. `members` writes the members after its type and number.
    fn send(&mut self, name: &'static str, members: impl FnOnce(&mut Writer)) {
        let Some(next) = &mut self.next else { return };
        let mut w = Writer::with_capacity(256);
        w.object(|w| {
            w.texts([("type", name)]);
            w.key("sequence_number").number(*next);
            members(w);
        });
        *next += 1;
        let data = w.into_bytes();
        self.out.reserve(data.len() + name.len() + 16);
        for part in [b"event: ", name.as_bytes(), b"\ndata: ", &data, b"\n\n"] {
            self.out.extend_from_slice(part);
        }
    }
}

impl ResponseWriter {
    /// Returns the writer of a stream at its start.
    pub(super) fn stream(header: &AnswerHeader) -> Self {
        Self::new(header, Some(0))
    }

    /// Returns the writer of a whole response without any events yet.
    pub(super) fn whole(header: &AnswerHeader) -> Self {
        Self::new(header, None)
    }

    fn new(header: &AnswerHeader, next: Option<u64>) -> Self {
        Self {
            head: ResponseHead::new(header),
            echo: Arc::default(),
            events: Events {
                out: Vec::new(),
                next,
            },
            has_begun: false,
            open: None,
            held: Vec::new(),
            output: Vec::new(),
            items: 0,
            bytes: 0,
            reason: Finish::Stop,
            is_broken: false,
        }
    }

    /// Writes the first events, once.
    fn begin_response(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let (head, echo) = (&self.head, &self.echo);
        for name in ["response.created", "response.in_progress"] {
            self.events
                .send(name, |w| head.write(w.key("response"), echo, State::Begun));
        }
    }

    /// Writes a piece of text to its item.
    fn utter(&mut self, kind: TextKind, piece: &str) {
        let kind = match kind {
            TextKind::Content => Kind::Text,
            TextKind::Refusal => Kind::Refusal,
            TextKind::Reasoning => Kind::Thinking,
        };
        if self.open.as_ref().is_none_or(|item| item.kind != kind) {
            self.close(true);
            let item = Item::new(kind, &self.head.tail, self.items);
            item.write_begin(&mut self.events);
            self.open = Some(item);
            // An item without text takes about this much.
            self.bytes += 256;
        }
        if let Some(item) = &mut self.open {
            item.add_text(piece, &mut self.events);
        }
    }

    /// Adds the sealed text for the next call to the thinking before it.
    fn seal(&mut self, sealed: &str) {
        // Programs that do not ask for it send back the ids of items alone.
        if !self.echo.carries_thoughts {
            return;
        }
        if self
            .open
            .as_ref()
            .is_none_or(|item| item.kind != Kind::Thinking)
        {
            self.close(true);
            let item = Item::new(Kind::Sealed, &self.head.tail, self.items);
            item.write_begin(&mut self.events);
            self.open = Some(item);
        }
        self.bytes += sealed.len() + 256;
        self.open
            .iter_mut()
            .for_each(|item| item.sealed = Some(sealed.to_owned()));
    }

    /// Ends the open item, and writes the texts that were held for its end.
    fn close(&mut self, is_whole: bool) {
        while let Some(item) = self.open.take() {
            match item.end(is_whole, &mut self.events) {
                Some(written) => {
                    if !self.output.is_empty() {
                        self.output.push(b',');
                    }
                    self.output.extend_from_slice(&written);
                    self.items += 1;
                }
                None => self.is_broken |= is_whole,
            }
            for (kind, text) in std::mem::take(&mut self.held) {
                self.utter(kind, &text);
            }
        }
    }
}

impl AnswerWriter for ResponseWriter {
    fn echo(&mut self, echo: &Arc<Echo>) {
        self.echo = Arc::clone(echo);
    }

    fn unsent_bytes(&self) -> usize {
        // A whole answer is written only at its end.
        if self.events.next.is_some() {
            self.bytes
        } else {
            0
        }
    }

    fn events(&self) -> u64 {
        self.events.next.unwrap_or_default()
    }

    fn fault(&self) -> Option<&'static str> {
        (self.unsent_bytes() > MAX_KEPT_BYTES)
            .then_some("the answer is too large to be repeated at the end of the stream")
    }

    fn echoed(&self) -> Option<&Arc<Echo>> {
        Some(&self.echo)
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.events.out
    }

    fn carries(&self) -> Carries {
        Carries::WithCalls
    }

    fn open(&mut self, _choice: usize) {
        self.begin_response();
    }

    fn write_text(&mut self, choice: usize, kind: TextKind, piece: &str) {
        if choice > 0 || kind == TextKind::Reasoning && !self.echo.shows_thinking {
            return;
        }
        self.bytes += piece.len();
        if !self.open.as_ref().is_some_and(Item::is_call) {
            return self.utter(kind, piece);
        }
        match self.held.last_mut() {
            Some((held, text)) if *held == kind => text.push_str(piece),
            _ => self.held.push((kind, piece.to_owned())),
        }
    }

    fn call(&mut self, choice: usize, _number: usize, call: &NewCall<'_>) {
        if choice > 0 {
            return;
        }
        if let Some(sealed) = call.signature {
            self.seal(sealed);
        }
        self.close(true);
        let tool = self.echo.tools.iter().find(|tool| tool.name == call.name);
        let kind = Kind::Call(CallOfItem {
            id: call.id.to_owned(),
            kind: tool.map_or(CallKind::Function, |tool| tool.kind),
            name: tool.map_or(call.name, |tool| &tool.callers_name).to_owned(),
            namespace: tool.and_then(|tool| tool.namespace.clone()),
        });
        self.bytes += call.id.len() + call.name.len() + 256;
        let item = Item::new(kind, &self.head.tail, self.items);
        item.write_begin(&mut self.events);
        self.open = Some(item);
    }

    fn arguments(&mut self, choice: usize, _number: usize, piece: &str) {
        if let (0, Some(item)) = (choice, self.open.as_mut().filter(|item| item.is_call())) {
            self.bytes += piece.len();
            item.add_text(piece, &mut self.events);
        }
    }

    fn media(&mut self, choice: usize, _number: usize, mime: &str, _data: &str) {
        self.write_text(choice, TextKind::Content, &omitted_media_text(mime));
    }

    fn cite(&mut self, choice: usize, citation: &PlacedCitation<'_>) -> bool {
        if choice > 0 {
            return true;
        }
        let room = 256 + citation.source.url.len() + citation.source.title.len();
        let is_told = self
            .open
            .as_mut()
            .is_some_and(|item| item.cite(citation, &mut self.events));
        self.bytes += if is_told { room } else { 0 };
        is_told
    }

    fn finish(&mut self, choice: usize, reason: Finish) {
        if choice == 0 {
            self.reason = reason;
            self.close(!matches!(reason, Finish::Length | Finish::Filtered));
        }
    }

    fn needs_objects(&self) -> bool {
        self.is_broken
    }

    fn end(&mut self, tally: &Tally, trail: Option<&str>) {
        self.begin_response();
        let state = State::Ended {
            output: &self.output,
            reason: self.reason,
            tally,
        };
        let (head, echo) = (&self.head, &self.echo);
        if self.events.next.is_none() {
            let mut w = Writer::with_capacity(self.output.len() + echo.members.len() + 1024);
            head.write(&mut w, echo, state);
            self.events.out.append(&mut w.into_bytes());
            return;
        }
        let name = match self.reason {
            Finish::Stop | Finish::Calls => "response.completed",
            Finish::Length | Finish::Filtered => "response.incomplete",
        };
        let mark = mark::mark_json(tally.usage().source, trail);
        self.events.send(name, |w| {
            head.write(w.key("response"), echo, state);
            w.optional("x_portcullis", mark, |w, mark| w.raw(&mark));
        });
    }
}

#[cfg(test)]
mod tests;
