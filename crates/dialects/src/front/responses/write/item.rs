//! An item is one part of an answer: a message, thinking, or a call. All its events come before
//! those of the next item.

use std::borrow::Cow;

use super::Events;
use crate::neutral::citation::{PlacedCitation, count_characters};
use crate::neutral::{Call, CallKind};
use crate::wire::json::{self, Cursor, Writer};

/// An item that is open.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    id: String,
    /// The place in the answer.
    index: usize,
    /// The text or the arguments so far.
    text: String,
    /// The sealed text that the caller sends back: `encrypted_content`.
    pub(super) sealed: Option<String>,
    /// The citations of a text, as JSON texts.
    annotations: Vec<String>,
}

/// The kind of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Thinking that is shown.
    Thinking,
    /// Thinking of which nothing is shown.
    Sealed,
    Text,
    Refusal,
    Call(CallOfItem),
}

/// A call, as the caller knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallOfItem {
    /// The id by which its output names it.
    pub(super) id: String,
    pub(super) kind: CallKind,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
}

/// The names of an item's events and members.
struct ItemNames {
    /// The beginning of the id.
    prefix: &'static str,
    text: Option<TextNames>,
    part: Option<PartNames>,
}

/// The names for the text of an item.
struct TextNames {
    /// The event with a piece of the text.
    delta: &'static str,
    /// The event with all of the text.
    done: &'static str,
    /// The member that has all of the text.
    member: &'static str,
}

/// The names for the only part of an item.
struct PartNames {
    /// The event with which the part begins.
    added: &'static str,
    /// The event with which the part ends.
    done: &'static str,
    /// The member that has the part's index.
    index: &'static str,
}

const CONTENT_PART: Option<PartNames> = Some(PartNames {
    added: "response.content_part.added",
    done: "response.content_part.done",
    index: "content_index",
});

impl Kind {
    fn names(&self) -> &'static ItemNames {
        match self {
            Kind::Text => &ItemNames {
                prefix: "msg",
                text: Some(TextNames {
                    delta: "response.output_text.delta",
                    done: "response.output_text.done",
                    member: "text",
                }),
                part: CONTENT_PART,
            },
            Kind::Refusal => &ItemNames {
                prefix: "msg",
                text: Some(TextNames {
                    delta: "response.refusal.delta",
                    done: "response.refusal.done",
                    member: "refusal",
                }),
                part: CONTENT_PART,
            },
            Kind::Thinking => &ItemNames {
                prefix: "rs",
                text: Some(TextNames {
                    delta: "response.reasoning_summary_text.delta",
                    done: "response.reasoning_summary_text.done",
                    member: "text",
                }),
                part: Some(PartNames {
                    added: "response.reasoning_summary_part.added",
                    done: "response.reasoning_summary_part.done",
                    index: "summary_index",
                }),
            },
            Kind::Sealed => &ItemNames {
                prefix: "rs",
                text: None,
                part: None,
            },
            Kind::Call(call) => match call.kind {
                CallKind::Function => &ItemNames {
                    prefix: "fc",
                    text: Some(TextNames {
                        delta: "response.function_call_arguments.delta",
                        done: "response.function_call_arguments.done",
                        member: "arguments",
                    }),
                    part: None,
                },
                CallKind::Custom => &ItemNames {
                    prefix: "ctc",
                    text: Some(TextNames {
                        delta: "response.custom_tool_call_input.delta",
                        done: "response.custom_tool_call_input.done",
                        member: "input",
                    }),
                    part: None,
                },
                CallKind::Search => &ItemNames {
                    prefix: "tsc",
                    text: None,
                    part: None,
                },
            },
        }
    }

    fn call_kind(&self) -> Option<CallKind> {
        match self {
            Kind::Call(call) => Some(call.kind),
            Kind::Text | Kind::Refusal | Kind::Thinking | Kind::Sealed => None,
        }
    }
}

/// The state of an item: begun, or complete with its text.
#[derive(Clone, Copy)]
enum Progress<'p> {
    Begun,
    Ended { text: &'p str, is_whole: bool },
}

impl Item {
    /// Begins an item. `answer_tail` is the part of the answer's id on which the ids of its items
    /// build.
    pub(super) fn new(kind: Kind, answer_tail: &str, index: usize) -> Self {
        let prefix = kind.names().prefix;
        Self {
            kind,
            id: format!("{prefix}_{answer_tail}_{index}"),
            index,
            text: String::new(),
            sealed: None,
            annotations: Vec::new(),
        }
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Call(_))
    }

    /// Returns whether the item is shown only when it is complete: its text has no meaning before.
    fn is_shown_whole(&self) -> bool {
        matches!(
            self.kind.call_kind(),
            Some(CallKind::Custom | CallKind::Search)
        )
    }

    /// Writes the events with which the item begins.
    pub(super) fn write_begin(&self, events: &mut Events) {
        if self.is_shown_whole() {
            return;
        }
        self.send_added(events);
        if let Some(part) = &self.kind.names().part {
            self.send_part(events, part.added, "");
        }
    }

    /// Takes a piece of the text or of the arguments.
    pub(super) fn add_text(&mut self, piece: &str, events: &mut Events) {
        self.text.push_str(piece);
        if let Some(names) = &self.kind.names().text
            && !self.is_shown_whole()
        {
            self.send_delta(events, names.delta, piece);
        }
    }

    /// Takes a citation. Returns whether the item can show it: it is a text that has the cited
    /// words.
    pub(super) fn cite(&mut self, citation: &PlacedCitation<'_>, events: &mut Events) -> bool {
        let (own, range) = (count_characters(&self.text), &citation.characters);
        // Characters are counted in the item. It has words that are not the model's, too.
        let within = |position: usize| (position + own).checked_sub(citation.text_length);
        let (Some(start), Some(end)) = (within(range.start), within(range.end)) else {
            return false;
        };
        if self.kind != Kind::Text || citation.source.url.is_empty() {
            return false;
        }
        let mut w = Writer::default();
        w.object(|w| {
            w.texts([("type", "url_citation")]);
            w.key("start_index").number(start as u64);
            w.key("end_index").number(end as u64);
            w.texts([
                ("url", citation.source.url),
                ("title", citation.source.title),
            ]);
        });
        let annotation = String::from_utf8_lossy(&w.into_bytes()).into_owned();
        events.send("response.output_text.annotation.added", |w| {
            self.write_position(w);
            w.key("annotation_index")
                .number(self.annotations.len() as u64);
            w.key("annotation").raw(&annotation);
        });
        self.annotations.push(annotation);
        true
    }

    /// Writes the events with which the item ends, and returns the item. `is_whole` is false if the
    /// answer was cut. Returns `None` for a call that was cut before its meaning was known.
    pub(super) fn end(&self, is_whole: bool, events: &mut Events) -> Option<Vec<u8>> {
        let Item { text, .. } = self;
        let is_done = is_whole || self.is_call() && object_line(text).is_some();
        let text: Cow<'_, str> = match self.kind.call_kind() {
            Some(CallKind::Search) => Cow::Owned(object_line(text)?),
            Some(CallKind::Custom) if is_done => {
                custom_input(text).map_or(Cow::Borrowed(text), Cow::Owned)
            }
            Some(CallKind::Custom) => return None,
            Some(CallKind::Function) | None => Cow::Borrowed(text),
        };
        if self.is_shown_whole() {
            self.send_added(events);
        }
        let names = self.kind.names();
        if let Some(text_names) = &names.text {
            if self.is_shown_whole() {
                self.send_delta(events, text_names.delta, &text);
            }
            self.send_done(events, text_names.done, text_names.member, &text);
        }
        if let Some(part) = &names.part {
            self.send_part(events, part.done, &text);
        }
        let mut w = Writer::with_capacity(text.len() + 256);
        self.write_item(
            &mut w,
            Progress::Ended {
                text: &text,
                is_whole: is_done,
            },
        );
        let item = w.into_bytes();
        events.send("response.output_item.done", |w| {
            w.key("output_index").number(self.index as u64);
            w.key("item").raw(&String::from_utf8_lossy(&item));
        });
        Some(item)
    }

    fn send_added(&self, events: &mut Events) {
        events.send("response.output_item.added", |w| {
            w.key("output_index").number(self.index as u64);
            self.write_item(w.key("item"), Progress::Begun);
        });
    }

    fn send_delta(&self, events: &mut Events, name: &'static str, piece: &str) {
        events.send(name, |w| {
            self.write_position(w);
            w.texts([("delta", piece)]);
            self.write_logprobs(w);
        });
    }

    fn send_done(&self, events: &mut Events, name: &'static str, member: &'static str, text: &str) {
        events.send(name, |w| {
            self.write_position(w);
            w.texts([(member, text)]);
            self.write_logprobs(w);
            if let Kind::Call(call) = &self.kind
                && call.kind == CallKind::Function
            {
                w.texts([("name", &call.name)]);
            }
        });
    }

    fn send_part(&self, events: &mut Events, name: &'static str, text: &str) {
        events.send(name, |w| {
            self.write_position(w);
            self.write_part(w.key("part"), text);
        });
    }

    /// Writes the place of an event: its item and its part.
    fn write_position(&self, w: &mut Writer) {
        w.texts([("item_id", &self.id)]);
        w.key("output_index").number(self.index as u64);
        if let Some(part) = &self.kind.names().part {
            w.key(part.index).number(0);
        }
    }

    /// Writes the list `logprobs`, which clients expect in a text.
    fn write_logprobs(&self, w: &mut Writer) {
        if self.kind == Kind::Text {
            w.key("logprobs").array(|_| {});
        }
    }

    /// Writes the only part of the content or of the summary.
    fn write_part(&self, w: &mut Writer, text: &str) {
        w.object(|w| match self.kind {
            Kind::Refusal => w.texts([("type", "refusal"), ("refusal", text)]),
            Kind::Thinking => w.texts([("type", "summary_text"), ("text", text)]),
            Kind::Text | Kind::Sealed | Kind::Call(_) => {
                w.texts([("type", "output_text"), ("text", text)]);
                w.key("annotations")
                    .each(&self.annotations, |w, annotation| w.raw(annotation));
                w.key("logprobs").array(|_| {});
            }
        });
    }

    fn write_item(&self, w: &mut Writer, progress: Progress<'_>) {
        let (text, status) = match progress {
            Progress::Begun => (None, "in_progress"),
            Progress::Ended { text, is_whole } => {
                let status = if is_whole { "completed" } else { "incomplete" };
                (Some(text), status)
            }
        };
        let item_text = text.unwrap_or_default();
        w.object(|w| {
            w.texts([("id", &self.id)]);
            match &self.kind {
                Kind::Text | Kind::Refusal => {
                    w.texts([
                        ("type", "message"),
                        ("status", status),
                        ("role", "assistant"),
                    ]);
                    w.key("content")
                        .each(text, |w, text| self.write_part(w, text));
                }
                Kind::Thinking | Kind::Sealed => {
                    w.texts([("type", "reasoning"), ("status", status)]);
                    let shown = text.filter(|_| self.kind == Kind::Thinking);
                    w.key("summary")
                        .each(shown, |w, text| self.write_part(w, text));
                    w.optional("encrypted_content", self.sealed.as_deref(), Writer::text);
                }
                Kind::Call(call) => {
                    let kind = match call.kind {
                        CallKind::Function => "function_call",
                        CallKind::Custom => "custom_tool_call",
                        CallKind::Search => "tool_search_call",
                    };
                    w.texts([("type", kind), ("status", status), ("call_id", &call.id)]);
                    match call.kind {
                        CallKind::Function => {
                            w.texts([("name", &call.name), ("arguments", item_text)]);
                        }
                        CallKind::Custom => w.texts([("name", &call.name), ("input", item_text)]),
                        CallKind::Search => {
                            w.texts([("execution", "client")]);
                            w.key("arguments").raw(text.unwrap_or("{}"));
                        }
                    }
                    w.optional("namespace", call.namespace.as_deref(), Writer::text);
                }
            }
        });
    }
}

/// Returns the arguments on one line, if they are an object. An empty text or `null` counts as
/// `{}`: see [`Call::object`].
fn object_line(arguments: &str) -> Option<String> {
    let call = Call {
        arguments: arguments.into(),
        ..Call::default()
    };
    call.object().map(|text| json::one_line(text).into_owned())
}

/// Returns the text that the arguments of a custom tool hold.
fn custom_input(arguments: &str) -> Option<String> {
    let text = arguments.as_bytes();
    let mut found = None;
    let mut cursor = Cursor::new(text);
    cursor
        .maybe_members(|key, value| {
            if *json::name_of(text, &key) == *b"input" {
                found = json::text_of(text, &value);
            }
        })
        .ok()?;
    cursor.end().ok()?;
    found.map(Cow::into_owned)
}
