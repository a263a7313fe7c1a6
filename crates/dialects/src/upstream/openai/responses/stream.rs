//! This module reads the events of a stream. Items come one after the other: each begins, comes in
//! pieces, and ends whole. What came in pieces is not read again at the end.

use serde::Deserialize;

use super::answer::{FREE, FREE_END, OutputItem, Response, failure, inside};
use crate::neutral::{self, Emit, Event, StreamFault};
use crate::upstream::shared::lenient::{Count, Object, object};
use crate::upstream::shared::text::Text;

/// The reader's place in a stream.
#[derive(Debug, Default)]
pub(super) struct ResponsesReader {
    has_id: bool,
    /// True if some of the answer came before its last event.
    has_begun: bool,
    /// The items that have begun and not ended, in their order.
    open: Vec<OpenItem>,
}

/// An item that pieces belong to.
#[derive(Debug, Clone, Copy)]
struct OpenItem {
    index: Option<u64>,
    kind: ItemKind,
    /// True if a piece of it came.
    is_told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    /// A text, a thought, or what is read only when it is whole.
    Other,
    Call,
    /// A call with free text.
    Custom,
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
}

/// The part of an event that can be read even if the rest has another shape.
#[derive(Default, Deserialize)]
#[serde(default)]
struct KindOfEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
}

impl neutral::Reader for ResponsesReader {
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> Result<(), StreamFault> {
        let Some(event) = object::<EventOfResponse<'_>>(data) else { return unreadable(data) };
        // Some servers have the name in one place only.
        let kind = event.kind.filled().unwrap_or_else(|| std::str::from_utf8(name).unwrap_or_default());
        let index = event.output_index.0;
        if self.open.len() > MOST_OPEN {
            return Err(StreamFault::Broken("more than 128 items are open"));
        }
        match kind {
            "response.output_text.delta" => {
                self.tell(index, emit);
                event.delta.emit(|text| Event::Text(0, text), emit);
            }
            "response.refusal.delta" => {
                self.tell(index, emit);
                event.delta.emit(|text| Event::Refusal(0, text), emit);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.tell(index, emit);
                event.delta.emit(|text| Event::Reasoning(0, text), emit);
            }
            "response.reasoning_summary_part.added" => {
                if self.open.iter().any(|open| open.is_told && open.index == index) {
                    emit(Event::Reasoning(0, "\n\n"));
                }
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                return self.arguments(index, event.delta.as_str(), emit);
            }
            "response.output_item.added" => self.begin(index, &event.item.unwrap_or_default(), emit),
            "response.output_item.done" => return self.end(index, &event.item.unwrap_or_default(), emit),
            "response.completed" | "response.incomplete" => {
                let Some(Object(response)) = event.response else {
                    return Err(StreamFault::Broken("the last event has no response"));
                };
                if let Some(error) = response.failure() {
                    return Err(StreamFault::Upstream(error));
                }
                self.close_free(emit);
                let items = response.output.iter().flatten().filter(|_| !self.has_begun);
                items.for_each(|item| item.emit(emit));
                response.end(emit);
            }
            "response.failed" => {
                let error = event.response.as_ref().and_then(|response| response.failure());
                return Err(StreamFault::Upstream(error.unwrap_or_else(|| failure(b"{}"))));
            }
            "error" => return Err(StreamFault::Upstream(failure(data))),
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
    fn tell(&mut self, index: Option<u64>, emit: Emit<'_>) {
        self.has_begun = true;
        match self.open.iter_mut().find(|open| open.index == index) {
            Some(open) => open.is_told = true,
            None => {
                self.close_free(emit);
                self.open.push(OpenItem { index, kind: ItemKind::Other, is_told: true });
            }
        }
    }

    fn begin(&mut self, index: Option<u64>, item: &OutputItem<'_>, emit: Emit<'_>) {
        self.has_begun = true;
        self.close_free(emit);
        let kind = match item.kind.as_str() {
            "function_call" => ItemKind::Call,
            "custom_tool_call" => ItemKind::Custom,
            _ => ItemKind::Other,
        };
        if kind != ItemKind::Other {
            item.begin_call(emit);
        }
        self.open.push(OpenItem { index, kind, is_told: false });
    }

    /// Takes a piece of a call's arguments. Only the call that began last may get one: a guess
    /// could destroy the arguments of two calls.
    fn arguments(&mut self, index: Option<u64>, piece: &str, emit: Emit<'_>) -> Result<(), StreamFault> {
        match self.open.last_mut().filter(|open| open.index == index) {
            Some(open) if open.kind == ItemKind::Call => {
                open.is_told |= !piece.is_empty();
                emit(Event::Arguments(0, piece));
                Ok(())
            }
            Some(open) if open.kind == ItemKind::Custom => {
                if !std::mem::replace(&mut open.is_told, true) {
                    emit(Event::Arguments(0, FREE));
                }
                emit(Event::Arguments(0, &inside(piece)));
                Ok(())
            }
            Some(_) | None => Err(StreamFault::Broken(NO_CALL)),
        }
    }

    /// Ends an item, and emits what of it has not come yet.
    fn end(&mut self, index: Option<u64>, item: &OutputItem<'_>, emit: Emit<'_>) -> Result<(), StreamFault> {
        self.has_begun = true;
        let Some(place) = self.open.iter().position(|open| open.index == index) else {
            self.close_free(emit);
            item.emit(emit);
            return Ok(());
        };
        let is_last = place + 1 == self.open.len();
        let open = self.open.remove(place);
        match open.kind {
            ItemKind::Other if !open.is_told => item.emit(emit),
            ItemKind::Other => item.seal(true, emit),
            ItemKind::Call | ItemKind::Custom if !is_last && !open.is_told => return Err(StreamFault::Broken(NO_CALL)),
            ItemKind::Call | ItemKind::Custom if !open.is_told => item.emit_arguments(emit),
            ItemKind::Custom if is_last => emit(Event::Arguments(0, FREE_END)),
            // The arguments ended when the next item began.
            ItemKind::Call | ItemKind::Custom => {}
        }
        Ok(())
    }

    /// Ends the arguments of a call with free text, if the call is the last item that began.
    fn close_free(&mut self, emit: Emit<'_>) {
        if let Some(open) = self.open.last_mut().filter(|open| open.kind == ItemKind::Custom && open.is_told) {
            emit(Event::Arguments(0, FREE_END));
            open.kind = ItemKind::Call;
        }
    }
}

const NO_CALL: &str = "a part of a tool call that has not begun or has ended";
/// The most items that may be open at once.
const MOST_OPEN: usize = 128;

/// Ignores what is no event of a known kind. Fails if its kind is known.
#[cold]
fn unreadable(data: &[u8]) -> Result<(), StreamFault> {
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
    match object::<KindOfEvent<'_>>(data) {
        Some(event) if !KNOWN.contains(&event.kind.as_str()) => Ok(()),
        Some(_) | None if is_end => Ok(()),
        Some(_) | None => Err(StreamFault::Broken("an event is not what Responses send")),
    }
}
