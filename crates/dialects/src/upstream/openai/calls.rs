//! A tool call comes in fragments, and this module corrects them. Calls are numbered from 0 as they
//! arrive. A call is introduced once with its id and name, and later fragments only add to it.
//!
//! Servers number calls wrongly or not at all, repeat the id and the name in every fragment, send
//! parallel calls under one number, or send arguments as an object. Clients join fragments by the
//! number, so a fragment with a wrong number destroys two calls.

use std::borrow::Cow;

use super::number_literal;
use super::scan::{MAX_CALLS, Member, ScannedCall, set_member};
use crate::neutral::{StreamFault, StreamResult, flaws};
use crate::wire::json::{self, Cursor, Kind, Pieces, integer_of, span_bytes};
use crate::wire::splice::Edits;

/// The calls of one choice.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The index of the choice.
    choice: usize,
    list: Vec<OpenCall>,
    /// The number of calls that the caller has seen.
    introduced: usize,
    scratch: Vec<u8>,
}

/// A call to which fragments may still be added. Of a whole call, only the arguments are kept.
#[derive(Debug, Default)]
struct OpenCall {
    /// The number that the upstream gave the call.
    number: Option<u64>,
    /// The literal of the id; empty while it is unknown, as `name` is.
    id: Vec<u8>,
    name: Vec<u8>,
    /// Our number, once the caller has seen the call.
    index: Option<usize>,
    /// Arguments that came before the name, as they stand inside a literal.
    held: Vec<u8>,
    /// True if the call is a function's, and the caller has seen no arguments yet.
    is_empty: bool,
    /// The state of the arguments so far.
    arguments: Pieces,
}

/// The most bytes of arguments that wait for a name. The name should have come first, so the wait
/// is short.
const MAX_HELD: usize = 64 * 1024;
/// The fault of a call whose name never came.
pub(super) const UNNAMED: StreamFault = StreamFault::Broken("a tool call without a name");
/// The longest name that may come in pieces.
const MAX_NAME: usize = 1024;

/// A fragment of a call as it goes out. Unknown fields stay.
struct Fragment<'a> {
    text: &'a [u8],
    call: &'a ScannedCall,
    index: usize,
    /// The id's literal, if the fragment introduces the call.
    id: Option<&'a [u8]>,
    /// The literal of the name, or of a further piece of the name.
    name: Option<&'a [u8]>,
    arguments: &'a [u8],
}

impl OpenCall {
    /// Returns whether a different name is a further piece of this call's name. Names come before
    /// arguments.
    fn may_extend_name(&self, name: &[u8]) -> bool {
        self.is_empty && self.name != name && self.name.len() + name.len() <= MAX_NAME
    }
}

impl Calls {
    /// Returns the calls of a choice that has made none yet.
    pub(super) fn of_choice(choice: usize) -> Self {
        Self {
            choice,
            ..Self::default()
        }
    }

    /// Returns whether the caller has seen a call.
    pub(super) fn any_shown(&self) -> bool {
        self.introduced > 0
    }

    /// Returns whether a call has no name yet. The caller has not seen such a call.
    pub(super) fn any_unnamed(&self) -> bool {
        self.introduced < self.list.len()
    }

    /// Returns the number of calls whose arguments are no object. All arguments must have come.
    pub(super) fn count_broken(&self) -> u32 {
        let broken = self
            .list
            .iter()
            .filter(|open| flaws::is_broken(&open.arguments));
        u32::try_from(broken.count()).unwrap_or(u32::MAX)
    }

    /// Returns the state of the arguments of the call at this place.
    pub(super) fn arguments_of(&mut self, slot: usize) -> Option<&mut Pieces> {
        self.list.get_mut(slot).map(|open| &mut open.arguments)
    }

    /// Writes the fragments that complete the calls without arguments. Such a call belongs to a
    /// function without parameters.
    pub(super) fn write_missing_arguments(&self) -> String {
        let empty = self
            .list
            .iter()
            .filter(|open| open.is_empty)
            .filter_map(|open| open.index);
        let fragments =
            empty.map(|index| format!(r#"{{"index":{index},"function":{{"arguments":"{{}}"}}}}"#));
        fragments.collect::<Vec<_>>().join(",")
    }

    /// Corrects the `tool_calls` of a delta. Returns the bytes of their arguments.
    pub(super) fn edit(
        &mut self,
        member: &Member,
        calls: &[ScannedCall],
        answer_id: &str,
        edits: &mut Edits<'_>,
    ) -> StreamResult<usize> {
        let text = edits.text();
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        out.push(b'[');
        let mut clean = true;
        let mut argument_bytes = 0;
        for call in calls {
            clean &= self.append_fragment(text, call, answer_id, &mut out)?;
            argument_bytes += arguments_len(text, call);
        }
        out.push(b']');
        if !clean {
            edits.replace(member.value.clone(), out.clone());
        }
        self.scratch = out;
        Ok(argument_bytes)
    }

    /// Appends the corrected fragment. Returns whether it equals the fragment that came.
    fn append_fragment(
        &mut self,
        text: &[u8],
        call: &ScannedCall,
        answer_id: &str,
        out: &mut Vec<u8>,
    ) -> StreamResult<bool> {
        let slot = self.find_call(text, call)?;
        let introduced = self.introduced;
        let Some(open) = self.list.get_mut(slot) else {
            return Ok(false);
        };
        if open.id.is_empty() {
            open.id
                .extend_from_slice(id_of(text, call).unwrap_or_default());
        }
        let arguments = literal_arguments(text, call);
        open.arguments.take_literal(&arguments);
        let was_text = call
            .arguments
            .as_ref()
            .is_some_and(|member| member.kind(text) == Kind::String);

        if let Some(index) = open.index {
            if call.function.is_none() && !call.is_custom {
                return Ok(false);
            }
            let piece = name_of(text, call).filter(|name| open.may_extend_name(name));
            open.is_empty &= arguments.is_empty();
            Fragment {
                text,
                call,
                index,
                id: None,
                name: piece,
                arguments: &arguments,
            }
            .write(out);
            let is_bare = call.id.is_none()
                && call.kind.is_none()
                && (call.name.is_none() || piece.is_some());
            if let Some(piece) = piece {
                open.name.pop();
                open.name
                    .extend_from_slice(piece.get(1..).unwrap_or_default());
            }
            return Ok(is_bare && was_text && has_index(text, call, index));
        }
        open.name
            .extend_from_slice(name_of(text, call).unwrap_or_default());
        if open.name.is_empty() && !call.is_custom {
            open.held.extend_from_slice(&arguments);
            return if open.held.len() > MAX_HELD {
                Err(UNNAMED)
            } else {
                Ok(false)
            };
        }
        let has_id = id_of(text, call) == Some(&open.id);
        if open.id.is_empty() {
            open.id = make_id(answer_id, self.choice, introduced);
        }
        open.index = Some(introduced);
        let held = std::mem::take(&mut open.held);
        let all = if held.is_empty() {
            arguments
        } else {
            Cow::Owned([&held, &*arguments].concat())
        };
        open.is_empty = !open.name.is_empty() && all.is_empty();
        let (id, name) = (Some(open.id.as_slice()), Some(open.name.as_slice()));
        Fragment {
            text,
            call,
            index: introduced,
            id,
            name,
            arguments: &all,
        }
        .write(out);
        self.introduced += 1;
        let has_kind = own_kind(text, call).is_some();
        Ok(has_id && has_kind && was_text && held.is_empty() && has_index(text, call, introduced))
    }

    /// Returns the place of the call that a fragment belongs to. A fragment that begins a call gets
    /// a new place.
    pub(super) fn find_call(&mut self, text: &[u8], call: &ScannedCall) -> StreamResult<usize> {
        let (id, name) = (id_of(text, call), name_of(text, call));
        let number = call
            .index
            .as_ref()
            .and_then(|index| integer_of(text, &index.value));
        let known = match (number, id, name) {
            // Some servers send parallel calls under one number, so a new id or name means a new
            // call. A new id without a name is only an id that changes with every fragment. A new
            // name without an id may be the rest of the name.
            (Some(number), ..) => self
                .list
                .iter()
                .rposition(|open| open.number == Some(number))
                .filter(|slot| {
                    let Some(name) = name else { return true };
                    self.list.get(*slot).is_none_or(|open| match id {
                        Some(id) if !open.id.is_empty() => open.id == id,
                        Some(_) => open.name.is_empty() || open.name == name,
                        None => {
                            open.name.is_empty() || open.name == name || open.may_extend_name(name)
                        }
                    })
                }),
            (None, Some(id), _) => self.list.iter().rposition(|open| open.id == id),
            // Whole calls without a number or an id.
            (None, None, Some(_)) => None,
            (None, None, None) => self.list.len().checked_sub(1),
        };
        let slot = known.unwrap_or(self.list.len());
        if slot == MAX_CALLS {
            return Err(StreamFault::Broken("more than 128 tool calls"));
        }
        if slot == self.list.len() {
            self.list.push(OpenCall {
                number,
                ..OpenCall::default()
            });
        }
        Ok(slot)
    }

    /// Corrects the `tool_calls` of a whole message. `is_cut` is true if the message may be cut
    /// short. Returns the bytes of their arguments.
    pub(super) fn edit_whole(
        &mut self,
        calls: &[ScannedCall],
        is_cut: bool,
        answer_id: &str,
        edits: &mut Edits<'_>,
    ) -> StreamResult<usize> {
        let text = edits.text();
        let mut argument_bytes = 0;
        self.introduced = calls.len();
        for (number, call) in calls.iter().enumerate() {
            if id_of(text, call).is_none() {
                set_member(
                    edits,
                    call.span.start,
                    br#""id""#,
                    &call.id,
                    make_id(answer_id, self.choice, number),
                );
            }
            if own_kind(text, call).is_none() {
                set_member(
                    edits,
                    call.span.start,
                    br#""type""#,
                    &call.kind,
                    kind_of(text, call).to_vec(),
                );
            }
            if call.is_custom {
                continue;
            }
            let (Some(function), Some(_)) = (&call.function, name_of(text, call)) else {
                return Err(UNNAMED);
            };
            let inside = literal_arguments(text, call);
            argument_bytes += arguments_len(text, call);
            let mut open = OpenCall::default();
            open.arguments.take_literal(&inside);
            self.list.push(open);
            // A whole call without arguments belongs to a function without parameters.
            let takes_none = inside.is_empty() && !is_cut;
            if takes_none
                || call
                    .arguments
                    .as_ref()
                    .is_none_or(|arguments| arguments.kind(text) != Kind::String)
            {
                let inside: &[u8] = if takes_none { b"{}" } else { &inside };
                let literal = [b"\"", inside, b"\""].concat();
                set_member(
                    edits,
                    function.value.start,
                    br#""arguments""#,
                    &call.arguments,
                    literal,
                );
            }
        }
        Ok(argument_bytes)
    }
}

/// Takes the arguments of a call of the old kind (`function_call`). A message has at most one.
pub(super) fn take_old_call(text: &[u8], call: &Member, to: &mut Pieces) {
    let arguments = Member::find(text, call.value.start, br#""arguments""#);
    if let Some(literal) = arguments.filter(|arguments| arguments.kind(text) == Kind::String) {
        to.take_literal(between_quotes(span_bytes(text, &literal.value)));
    }
}

/// Returns the text between the quotes of a literal.
pub(super) fn between_quotes(literal: &[u8]) -> &[u8] {
    literal
        .get(1..literal.len().saturating_sub(1))
        .unwrap_or_default()
}

/// Returns an id's literal for a call that has none. A part of it comes from the answer's own id,
/// so that calls of two answers in one conversation differ.
fn make_id(answer: &str, choice: usize, number: usize) -> Vec<u8> {
    // OpenAI refuses ids of more than 40 characters when they come back in a conversation.
    let id: Vec<char> = answer.chars().filter(char::is_ascii_alphanumeric).collect();
    let seed: String = id.iter().skip(id.len().saturating_sub(24)).collect();
    format!("\"call_{seed}{choice:02x}{number:02x}\"").into_bytes()
}

impl Fragment<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { text, call, .. } = *self;
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"index":"#);
        out.extend_from_slice(&number_literal(self.index));
        if let Some(id) = self.id {
            out.extend_from_slice(br#","id":"#);
            out.extend_from_slice(id);
            out.extend_from_slice(br#","type":"#);
            out.extend_from_slice(kind_of(text, call));
        }
        copy_others(
            span_bytes(text, &call.span),
            &[br#""index""#, br#""id""#, br#""type""#, br#""function""#],
            out,
        );
        if let Some(function) = &call.function {
            out.extend_from_slice(br#","function":{"#);
            if let Some(name) = self.name {
                out.extend_from_slice(br#""name":"#);
                out.extend_from_slice(name);
                out.push(b',');
            }
            out.extend_from_slice(br#""arguments":""#);
            out.extend_from_slice(self.arguments);
            out.push(b'"');
            copy_others(
                span_bytes(text, &function.value),
                &[br#""name""#, br#""arguments""#],
                out,
            );
            out.push(b'}');
        }
        out.push(b'}');
    }
}

/// Appends the members of an object that are not in `known`, each after a comma.
fn copy_others(object: &[u8], known: &[&[u8]], out: &mut Vec<u8>) {
    // The text was scanned before, so this cannot fail.
    let _read = Cursor::new(object).members(|key, value| {
        if !known.contains(&span_bytes(object, &key)) {
            out.push(b',');
            out.extend_from_slice(span_bytes(object, &key));
            out.push(b':');
            out.extend_from_slice(span_bytes(object, &value));
        }
    });
}

/// Returns the id's literal. Mistral's old servers send "null" if there is no id.
fn id_of<'a>(text: &'a [u8], call: &ScannedCall) -> Option<&'a [u8]> {
    call.id
        .as_ref()?
        .nonempty_literal(text)
        .filter(|id| *id != br#""null""#)
}

fn name_of<'a>(text: &'a [u8], call: &ScannedCall) -> Option<&'a [u8]> {
    call.name.as_ref()?.nonempty_literal(text)
}

/// Returns the literal of the type that the upstream gave the call.
fn own_kind<'a>(text: &'a [u8], call: &ScannedCall) -> Option<&'a [u8]> {
    call.kind.as_ref()?.nonempty_literal(text)
}

/// Returns the type's literal.
fn kind_of<'a>(text: &'a [u8], call: &ScannedCall) -> &'a [u8] {
    own_kind(text, call).unwrap_or(if call.is_custom {
        br#""custom""#
    } else {
        br#""function""#
    })
}

fn has_index(text: &[u8], call: &ScannedCall, index: usize) -> bool {
    call.index
        .as_ref()
        .is_some_and(|member| span_bytes(text, &member.value) == &*number_literal(index))
}

fn arguments_len(text: &[u8], call: &ScannedCall) -> usize {
    call.arguments
        .as_ref()
        .map_or(0, |arguments| match arguments.kind(text) {
            Kind::String => json::text_len(text, &arguments.value),
            Kind::Null => 0,
            Kind::Object | Kind::Array | Kind::Number | Kind::Bool => arguments.value.len(),
        })
}

/// Returns the arguments as they stand between the quotes of a literal: text as it is, any other
/// value as JSON text.
fn literal_arguments<'a>(text: &'a [u8], call: &ScannedCall) -> Cow<'a, [u8]> {
    let Some(member) = &call.arguments else {
        return Cow::Borrowed(b"");
    };
    let value = span_bytes(text, &member.value);
    match member.kind(text) {
        Kind::Null => Cow::Borrowed(b""),
        Kind::String => Cow::Borrowed(between_quotes(value)),
        Kind::Object | Kind::Array | Kind::Number | Kind::Bool => Cow::Owned(
            between_quotes(json::quote_string(&String::from_utf8_lossy(value)).as_bytes()).to_vec(),
        ),
    }
}
