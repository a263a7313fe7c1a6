//! This module reads the events of a stream. Items begin, come in pieces, and end whole. The text
//! that came in pieces is not read again at the end. A call that begins while another one is open
//! is emitted when it is complete, so that no piece goes to the wrong call.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{FREE, FREE_END, OutputItem, Response, answer_failure, inside_quotes};
use crate::neutral::citation::count_characters;
use crate::neutral::{self, CitedRange, Emit, Event, StreamFault, StreamResult};
use crate::upstream::shared::citations::Annotation;
use crate::upstream::shared::lenient::{Count, Object, read_object};
use crate::upstream::shared::text::Text;

/// The reader's place in a stream.
#[derive(Debug, Default)]
pub(super) struct ResponsesReader {
    has_id: bool,
    /// True if some of the answer came before its last event.
    has_begun: bool,
    /// The items that have begun and are not emitted to their end, in their order.
    open: Vec<OpenItem>,
    /// The indexes of the items that have ended.
    ended: BTreeSet<u64>,
    /// True if a message has begun.
    has_message: bool,
    /// The number of calls that have begun.
    begun: usize,
    /// Hashes of their ids.
    calls: BTreeSet<u64>,
}

/// An item that pieces belong to.
#[derive(Debug)]
struct OpenItem {
    index: Option<u64>,
    kind: ItemKind,
    /// True for a call that is emitted only when it is complete.
    is_held: bool,
    /// True if a piece of it was emitted.
    is_told: bool,
    /// True if its end has come, and it is still held.
    has_ended: bool,
    /// The hash of a call's arguments that were emitted.
    arguments_hash: DefaultHasher,
    /// The characters of the last part of a message that were emitted.
    characters: usize,
    /// The number of its citations that were emitted.
    cited: usize,
}

impl OpenItem {
    fn new(index: Option<u64>, kind: ItemKind) -> Self {
        Self {
            index,
            kind,
            is_held: false,
            is_told: false,
            has_ended: false,
            arguments_hash: DefaultHasher::new(),
            characters: 0,
            cited: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Message,
    Thought,
    Call,
    /// A call with free text.
    Custom,
    /// An item that is read only when it is complete.
    Other,
}

impl ItemKind {
    fn from_item(item: &OutputItem<'_>) -> Self {
        match item.kind.as_str() {
            "message" => Self::Message,
            "reasoning" => Self::Thought,
            "function_call" => Self::Call,
            "custom_tool_call" => Self::Custom,
            _ => Self::Other,
        }
    }

    fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::Custom)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventOfResponse<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    output_index: Count,
    delta: Text<'a>,
    item: Option<Object<OutputItem<'a>>>,
    response: Option<Object<Response<'a>>>,
    annotation: Option<&'a RawValue>,
}

/// The part of an event that can be read even if the rest has another shape.
#[derive(Default, Deserialize)]
#[serde(default)]
struct KindOfEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
}

impl neutral::Reader for ResponsesReader {
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> StreamResult<()> {
        let Some(event) = read_object::<EventOfResponse<'_>>(data) else {
            return check_unknown_event(data);
        };
        // Some servers have the name in one place only.
        let kind = event
            .kind
            .filled()
            .unwrap_or_else(|| str::from_utf8(name).unwrap_or_default());
        let index = event.output_index.0;
        if self.open.len() > MOST_OPEN || self.ended.len().max(self.begun) > MOST_ENDED {
            return Err(StreamFault::Broken("more items than an answer can have"));
        }
        match kind {
            "response.output_text.delta" => {
                self.note_piece(index, ItemKind::Message, &event.delta);
                if let Some(open) = self.message(index) {
                    open.characters += count_characters(event.delta.as_str());
                }
                event.delta.emit(|text| Event::Text(0, text), emit);
            }
            "response.content_part.added" => {
                if let Some(open) = self.message(index) {
                    (open.characters, open.cited) = (0, 0);
                }
            }
            "response.output_text.annotation.added" => {
                let annotation = event
                    .annotation
                    .and_then(|all| read_object::<Annotation<'_>>(all.get().as_bytes()));
                if let Some(open) = self.message(index) {
                    open.cited += 1;
                    let to_cited_range = |range| CitedRange::OfLast(open.characters, range);
                    annotation.unwrap_or_default().emit(0, to_cited_range, emit);
                }
            }
            "response.refusal.delta" => {
                self.note_piece(index, ItemKind::Message, &event.delta);
                event.delta.emit(|text| Event::Refusal(0, text), emit);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.note_piece(index, ItemKind::Thought, &event.delta);
                event.delta.emit(|text| Event::Reasoning(0, text), emit);
            }
            "response.reasoning_summary_part.added" => {
                if self
                    .open
                    .iter()
                    .any(|open| open.is_told && open.index == index)
                {
                    emit(Event::Reasoning(0, "\n\n"));
                }
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                return self.arguments(index, event.delta.as_str(), emit);
            }
            "response.output_item.added" => {
                return self.begin_item(index, &event.item.unwrap_or_default(), emit);
            }
            "response.output_item.done" => {
                return self.end(index, &event.item.unwrap_or_default(), emit);
            }
            "response.completed" | "response.incomplete" => {
                let Some(Object(response)) = event.response else {
                    return Err(StreamFault::Broken("the last event has no response"));
                };
                if let Some(error) = response.failure() {
                    response.count(emit);
                    return Err(StreamFault::Upstream(error));
                }
                response.check_status().map_err(StreamFault::Broken)?;
                let is_cut = kind == "response.incomplete";
                match &response.output {
                    Some(items) if !self.has_begun => items.iter().for_each(|item| item.emit(emit)),
                    None if !self.has_begun && !is_cut => {
                        return Err(StreamFault::Broken("the answer has no output"));
                    }
                    items => self.rest(items.as_deref().unwrap_or_default(), is_cut, emit)?,
                }
                response.end(is_cut, emit);
            }
            "response.failed" => {
                let response = event.response.unwrap_or_default();
                response.count(emit);
                return Err(StreamFault::Upstream(
                    response.failure().unwrap_or_else(|| answer_failure(b"{}")),
                ));
            }
            "error" => return Err(StreamFault::Upstream(answer_failure(data))),
            // `response.created`, the ends of pieces, the server's own tools, and any future event.
            _ => {
                let response = event.response.filter(|_| !self.has_id);
                response.into_iter().for_each(|response| {
                    self.has_id = true;
                    response.id.emit(Event::Id, emit);
                });
            }
        }
        Ok(())
    }
}

impl ResponsesReader {
    /// Notes that a piece of an item came. Some servers send no event for its beginning.
    fn note_piece(&mut self, index: Option<u64>, kind: ItemKind, piece: &Text<'_>) {
        if piece.filled().is_none() {
            return;
        }
        self.has_begun = true;
        self.has_message |= kind == ItemKind::Message;
        match self
            .open
            .iter_mut()
            .find(|open| open.index == index && open.kind == kind)
        {
            Some(open) => open.is_told = true,
            None => self.open.push(OpenItem {
                is_told: true,
                ..OpenItem::new(index, kind)
            }),
        }
    }

    /// Returns the message that is open at this index.
    fn message(&mut self, index: Option<u64>) -> Option<&mut OpenItem> {
        self.open
            .iter_mut()
            .find(|open| open.index == index && open.kind == ItemKind::Message)
    }

    fn begin_item(
        &mut self,
        index: Option<u64>,
        item: &OutputItem<'_>,
        emit: Emit<'_>,
    ) -> StreamResult<()> {
        if item.kind.filled().is_none() {
            return Ok(());
        }
        self.note(item);
        let kind = ItemKind::from_item(item);
        let is_held = kind.is_call() && self.open.iter().any(|open| open.kind.is_call());
        if is_held
            && self
                .open
                .iter()
                .any(|open| open.kind.is_call() && open.index == index)
        {
            return Err(StreamFault::Broken("two calls have one index"));
        }
        if kind.is_call() && !is_held {
            item.begin_call(emit);
        }
        self.begun += usize::from(item.is_call());
        index.map(|index| self.ended.remove(&index));
        self.open.push(OpenItem {
            is_held,
            ..OpenItem::new(index, kind)
        });
        Ok(())
    }

    /// Takes a piece of a call's arguments.
    fn arguments(&mut self, index: Option<u64>, piece: &str, emit: Emit<'_>) -> StreamResult<()> {
        let Some(open) = self
            .open
            .iter_mut()
            .find(|open| open.index == index && open.kind.is_call())
        else {
            return Err(StreamFault::Broken(NO_CALL));
        };
        if open.is_held || piece.is_empty() {
            return Ok(());
        }
        piece
            .bytes()
            .for_each(|byte| open.arguments_hash.write_u8(byte));
        let is_first = !std::mem::replace(&mut open.is_told, true);
        if open.kind == ItemKind::Call {
            emit(Event::Arguments(0, piece));
            return Ok(());
        }
        if is_first {
            emit(Event::Arguments(0, FREE));
        }
        emit(Event::Arguments(0, &inside_quotes(piece)));
        Ok(())
    }

    /// Takes the end of an item, and emits the parts of it that have not come yet.
    fn end(
        &mut self,
        index: Option<u64>,
        item: &OutputItem<'_>,
        emit: Emit<'_>,
    ) -> StreamResult<()> {
        self.note(item);
        let kind = ItemKind::from_item(item);
        let open_index = self.open.iter().rposition(|open| {
            open.kind == kind && (open.index == index || open.index.is_none() || index.is_none())
        });
        self.begun += usize::from(item.is_call() && open_index.is_none());
        let is_again = index.is_some_and(|index| !self.ended.insert(index));
        let mut others = self
            .open
            .iter()
            .enumerate()
            .filter(|(other_index, _)| Some(*other_index) != open_index)
            .map(|(_, open)| open);
        if item.is_call() && others.any(|open| open.kind.is_call() && !open.is_held) {
            // It would take the place of a call whose end has not come.
            if open_index.is_none() {
                self.open.push(OpenItem {
                    is_held: true,
                    ..OpenItem::new(index, kind)
                });
            }
            let held_index = open_index.unwrap_or(self.open.len().saturating_sub(1));
            self.open
                .get_mut(held_index)
                .into_iter()
                .for_each(|held| held.has_ended = true);
            return Ok(());
        }
        match open_index {
            Some(open_index) => self.open.remove(open_index).end(item, emit),
            None if is_again
                || self
                    .open
                    .iter()
                    .any(|open| open.kind == kind && open.is_told) =>
            {
                return Err(StreamFault::Broken(
                    "an item ends twice, or is not the one that began",
                ));
            }
            None => item.emit(emit),
        }
        Ok(())
    }

    /// Notes that an item has begun, or has come whole.
    fn note(&mut self, item: &OutputItem<'_>) {
        self.has_begun = true;
        self.has_message |= ItemKind::from_item(item) == ItemKind::Message;
        if item.is_call() {
            self.calls.insert(item.id_hash());
        }
    }

    /// Emits the items of a whole answer that had no events of their own: some servers stream the
    /// text only.
    fn silent(&self, items: &[Object<OutputItem<'_>>], emit: Emit<'_>) {
        let calls = || items.iter().filter(|item| item.is_call());
        for item in items
            .iter()
            .filter(|item| !self.has_message && ItemKind::from_item(item) == ItemKind::Message)
        {
            item.emit(emit);
        }
        // Where no call is missing, an id only has another form.
        if calls().count() > self.begun {
            calls()
                .filter(|item| !self.calls.contains(&item.id_hash()))
                .for_each(|item| item.emit(emit));
        }
    }

    /// Emits the rest of the items without an end. Fails if a complete answer does not have it, or
    /// if it is too late to emit it.
    fn rest(
        &mut self,
        items: &[Object<OutputItem<'_>>],
        is_cut: bool,
        emit: Emit<'_>,
    ) -> StreamResult<()> {
        let open = std::mem::take(&mut self.open);
        let told_index = open
            .iter()
            .filter(|open| open.is_told)
            .filter_map(|open| open.index)
            .max();
        let last = told_index.max(self.ended.last().copied());
        for open in open {
            let index = open.index.and_then(|index| usize::try_from(index).ok());
            let item = index
                .and_then(|index| items.get(index))
                .filter(|item| ItemKind::from_item(item) == open.kind);
            match item {
                _ if is_cut && open.is_told && open.kind == ItemKind::Custom => {
                    emit(Event::Arguments(0, FREE_END))
                }
                _ if is_cut && !open.has_ended => {}
                Some(item) if open.is_told && (!open.kind.is_call() || open.is_all(item)) => {
                    open.end(item, emit)
                }
                Some(item) if !open.is_told && (open.kind.is_call() || open.index > last) => {
                    open.end(item, emit)
                }
                None if open.is_told && !open.kind.is_call() => {}
                Some(_) | None => return Err(StreamFault::Broken("an item has no end")),
            }
        }
        if !is_cut {
            self.silent(items, emit);
        }
        Ok(())
    }
}

impl OpenItem {
    /// Returns whether the arguments of a call equal the emitted ones.
    fn is_all(&self, item: &OutputItem<'_>) -> bool {
        let mut whole = DefaultHasher::new();
        item.given().bytes().for_each(|byte| whole.write_u8(byte));
        whole.finish() == self.arguments_hash.finish()
    }

    /// Emits the parts of a complete item that were not emitted.
    fn end(self, item: &OutputItem<'_>, emit: Emit<'_>) {
        match self.kind {
            ItemKind::Call | ItemKind::Custom if !self.is_told && !self.is_held => {
                item.emit_arguments(emit)
            }
            _ if !self.is_told => item.emit(emit),
            ItemKind::Custom => emit(Event::Arguments(0, FREE_END)),
            ItemKind::Message => item.cite(self.characters, self.cited, emit),
            ItemKind::Thought | ItemKind::Call | ItemKind::Other => item.seal(true, emit),
        }
    }
}

const NO_CALL: &str = "a part of a tool call that has not begun or has ended";
/// The most items that may be open at once.
const MOST_OPEN: usize = 128;
/// The most items of an answer.
const MOST_ENDED: usize = 8192;

/// Ignores an event of an unknown kind. Fails if its kind is known.
#[cold]
fn check_unknown_event(data: &[u8]) -> StreamResult<()> {
    const KNOWN: [&str; 14] = [
        "",
        "error",
        "response.completed",
        "response.created",
        "response.custom_tool_call_input.delta",
        "response.failed",
        "response.function_call_arguments.delta",
        "response.in_progress",
        "response.incomplete",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.reasoning_summary_text.delta",
        "response.refusal.delta",
    ];
    // Some proxies end every stream as chat completions end.
    let is_end = data.trim_ascii() == b"[DONE]";
    match read_object::<KindOfEvent<'_>>(data) {
        Some(event) if !KNOWN.contains(&event.kind.as_str()) => Ok(()),
        Some(_) | None if is_end => Ok(()),
        Some(_) | None => Err(StreamFault::Broken("an event is not what Responses send")),
    }
}

#[cfg(test)]
mod tests;
