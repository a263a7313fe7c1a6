//! A [`Scan`] has the places of the members in a chunk or an answer, as far as we need them. They
//! are found in one pass.
//!
//! The scan checks only that the text is valid JSON and that choices are objects. Keys are compared
//! as they are written, because no server escapes the letters of a field name.

use std::borrow::Cow;

use super::parts::read_parts;
use super::{error, names};
use crate::neutral::UpstreamError;
use crate::wire::json::{self, Cursor, Kind, ScanResult, Span, integer_of, span_bytes};
use crate::wire::splice::Edits;

/// A member of an object: the key with its quotes, and the value.
#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    pub(super) key: Span,
    pub(super) value: Span,
}

impl Member {
    /// Reads the value that follows this key.
    fn read(cursor: &mut Cursor<'_>, key: Span) -> ScanResult<Self> {
        Ok(Self {
            key,
            value: cursor.value()?,
        })
    }

    /// Finds a member by its name, in a value that was scanned before and starts at `start`. If the
    /// name comes twice, the last one counts.
    pub(super) fn find(text: &[u8], start: usize, name: &[u8]) -> Option<Self> {
        let mut found = None;
        // A value that is no object has no members.
        let _read = Cursor::starting_at(text, start).members(|key, value| {
            if span_bytes(text, &key) == name {
                found = Some(Self { key, value });
            }
        });
        found
    }

    /// Returns whether the value has any content: it is not `null`, `false` or an empty string.
    pub(super) fn has_content(&self, text: &[u8]) -> bool {
        !matches!(span_bytes(text, &self.value), b"null" | b"false" | b"\"\"")
    }

    /// Returns whether the value is `logprobs` in the form that clients read, or `null`. Together
    /// sends a bare number. Together and Fireworks also send the lists of the older API.
    pub(super) fn is_logprobs(&self, text: &[u8]) -> bool {
        match self.kind(text) {
            Kind::Null => true,
            Kind::Object if span_bytes(text, &self.value).starts_with(br#"{"content""#) => true,
            Kind::Object => {
                let has = |name| Self::find(text, self.value.start, name).is_some();
                !has(br#""tokens""#) && !has(br#""token_logprobs""#)
            }
            Kind::Array | Kind::String | Kind::Number | Kind::Bool => false,
        }
    }

    /// Returns the literal of a string that is not empty, as it stands in the text.
    pub(super) fn nonempty_literal<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let literal = span_bytes(text, &self.value);
        (literal.len() > 2 && literal.starts_with(b"\"")).then_some(literal)
    }

    /// Returns the kind of the value.
    pub(super) fn kind(&self, text: &[u8]) -> Kind {
        span_bytes(text, &self.value)
            .first()
            .and_then(|first| Kind::from_byte(*first))
            .unwrap_or(Kind::Null)
    }
}

/// Gives a member this value, unless it already has it. If there is no member, inserts one into the
/// object that opens at `open`.
pub(super) fn set_member<'e>(
    edits: &mut Edits<'e>,
    open: usize,
    key: &[u8],
    member: &Option<Member>,
    value: impl Into<Cow<'e, [u8]>>,
) {
    let value = value.into();
    match member {
        Some(member) if span_bytes(edits.text(), &member.value) == &*value => {}
        Some(member) => edits.replace(member.value.clone(), value),
        None => edits.insert_member(open, [key, b":", &value].concat()),
    }
}

/// The most choices. The official Node client refuses more.
pub(super) const MAX_CHOICES: usize = 128;
/// The most calls of a choice. The official Node client refuses more.
pub(super) const MAX_CALLS: usize = 128;

/// The places in a chunk or an answer. The scan is kept from one chunk to the next, so that its
/// lists are allocated once.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The place of the `{`.
    pub(super) open: usize,
    pub(super) id: Option<Member>,
    pub(super) object: Option<Member>,
    pub(super) created: Option<Member>,
    pub(super) model: Option<Member>,
    pub(super) choices: Option<Member>,
    pub(super) usage: Option<Member>,
    pub(super) error: Option<Member>,
    /// Groq's own object, which may have the usage or an error.
    pub(super) x_groq: Option<Member>,
    /// Our own mark, if the upstream is a gateway like this one.
    pub(super) x_portcullis: Option<Member>,
    /// OpenAI's random padding.
    pub(super) obfuscation: Option<Member>,
    /// The sources of xAI's and Perplexity's answers.
    pub(super) citations: Option<Member>,
    /// The entries of `choices`.
    pub(super) entries: Vec<ScannedChoice>,
    /// The reason why a list is too long. The rest of the list was not kept.
    pub(super) too_many: Option<&'static str>,
    /// The tool calls of all choices. Each [`ScannedMessage`] has its range.
    pub(super) calls: Vec<ScannedCall>,
}

/// An entry of `choices`.
#[derive(Debug, Default)]
pub(super) struct ScannedChoice {
    pub(super) open: usize,
    pub(super) index: Option<Member>,
    pub(super) delta: Option<ScannedMessage>,
    pub(super) message: Option<ScannedMessage>,
    pub(super) finish: Option<Member>,
    pub(super) logprobs: Option<Member>,
    /// Seen at Moonshot.
    pub(super) usage: Option<Member>,
    /// Seen at OpenRouter.
    pub(super) error: Option<Member>,
    pub(super) native_finish: Option<Member>,
}

/// The thinking in a `delta` or a `message`, under whichever names.
#[derive(Debug, Clone, Default)]
pub(super) struct ScannedThinking {
    /// True if there is a field of thinking, even if it is `null`.
    pub(super) has_field: bool,
    /// True if such a field has any content.
    pub(super) has_content: bool,
    /// True if there is `reasoning_content`, even if it is `null`.
    pub(super) has_reasoning_content: bool,
    /// True if there is `reasoning`, and it is a string.
    pub(super) has_reasoning: bool,
    /// The UTF-8 bytes. Some servers send one text under two names. It counts once.
    bytes: usize,
}

/// A `delta` or a `message`. If the value is no object, only `member` and `open` are set.
#[derive(Debug, Clone, Default)]
pub(super) struct ScannedMessage {
    /// The message itself, as a member of its choice.
    pub(super) member: Member,
    pub(super) open: usize,
    pub(super) role: Option<Member>,
    pub(super) content: Option<Member>,
    pub(super) calls: Option<Member>,
    /// The range of the message's calls in [`Scan::calls`].
    pub(super) call_range: Span,
    /// True if the message has text, reasoning, a refusal, audio, an image or a call.
    pub(super) has_content: bool,
    /// True if the message has a refusal, audio or a call of the old kind.
    pub(super) has_rare_member: bool,
    /// True if the message has a refusal.
    pub(super) refuses: bool,
    /// A call of the old kind.
    pub(super) old_call: Option<Member>,
    /// True if the message has a call, audio, pictures, or content that is a string.
    has_direct_answer: bool,
    pub(super) thinking: ScannedThinking,
    /// True if one of [`LISTS`] is an array with entries.
    pub(super) has_lists: bool,
    /// True if the audio has a time of expiry, which is how a spoken answer ends.
    pub(super) ends_audio: bool,
    /// The UTF-8 bytes of reasoning, of a refusal, and of a call of the old kind.
    pub(super) spoken_bytes: usize,
    /// The number of strings of content or reasoning, except empty ones.
    pub(super) text_count: usize,
    /// The place of that string, if there is exactly one.
    pub(super) only_text: Option<Span>,
}

/// The arrays of objects that may stand in a delta. The official Python client merges the entries
/// by their `index`, and crashes on an entry without one.
pub(super) const LISTS: [&[u8]; 3] = [
    br#""annotations""#,
    names::REASONING_DETAILS,
    br#""images""#,
];

/// An entry of `tool_calls`.
#[derive(Debug, Clone, Default)]
pub(super) struct ScannedCall {
    pub(super) span: Span,
    pub(super) index: Option<Member>,
    pub(super) id: Option<Member>,
    pub(super) kind: Option<Member>,
    pub(super) function: Option<Member>,
    pub(super) name: Option<Member>,
    pub(super) arguments: Option<Member>,
    /// True if the call is of a custom tool, not of a function.
    pub(super) is_custom: bool,
}

impl Scan {
    /// Reads one whole text. Replaces everything that was read before.
    pub(super) fn read(&mut self, text: &[u8]) -> ScanResult<()> {
        let mut entries = std::mem::take(&mut self.entries);
        let mut calls = std::mem::take(&mut self.calls);
        entries.clear();
        calls.clear();
        *self = Self {
            entries,
            calls,
            ..Self::default()
        };

        let mut cursor = Cursor::new(text);
        let span = cursor.object(|cursor, key| {
            let slot = match span_bytes(text, &key) {
                br#""choices""# => {
                    // If a key comes twice, the last one counts, as it does for clients.
                    self.entries.clear();
                    self.calls.clear();
                    let value = cursor.maybe_array(|cursor, _| self.read_choice(cursor))?;
                    self.choices = Some(Member { key, value });
                    return Ok(());
                }
                br#""id""# => &mut self.id,
                br#""object""# => &mut self.object,
                br#""created""# => &mut self.created,
                br#""model""# => &mut self.model,
                br#""usage""# => &mut self.usage,
                br#""error""# => &mut self.error,
                br#""x_groq""# => &mut self.x_groq,
                br#""x_portcullis""# => &mut self.x_portcullis,
                br#""obfuscation""# => &mut self.obfuscation,
                br#""citations""# => &mut self.citations,
                _ => return cursor.skip(),
            };
            *slot = Some(Member::read(cursor, key)?);
            Ok(())
        })?;
        self.open = span.start;
        cursor.end()
    }

    /// Returns the error in the place of a chunk or an answer, or inside one.
    pub(super) fn error(&self, text: &[u8]) -> Option<UpstreamError> {
        let errors = self.entries.iter().map(|choice| &choice.error);
        let mut errors = std::iter::once(&self.error).chain(errors).flatten();
        let is_error = errors.any(|error| error.has_content(text));
        if !is_error && self.x_groq.is_none() && !self.lacks_choices(text) {
            return None;
        }
        error::find_error(text).or_else(|| is_error.then(error::without_reason))
    }

    /// Returns whether there are no choices, or `null` in their place.
    pub(super) fn lacks_choices(&self, text: &[u8]) -> bool {
        self.choices
            .as_ref()
            .is_none_or(|choices| choices.kind(text) == Kind::Null)
    }

    /// Returns the upstream's id as a literal, if it is a string of a reasonable length.
    pub(super) fn id<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        self.id
            .as_ref()?
            .nonempty_literal(text)
            .filter(|id| id.len() <= 256)
    }

    /// Returns the upstream's time, if it has one.
    pub(super) fn created(&self, text: &[u8]) -> Option<u64> {
        integer_of(text, &self.created.as_ref()?.value).filter(|created| *created > 0)
    }

    /// Returns the usage in Groq's `x_groq`.
    pub(super) fn groq_usage(&self, text: &[u8]) -> Option<Member> {
        Member::find(text, self.x_groq.as_ref()?.value.start, br#""usage""#)
    }

    fn read_choice(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<()> {
        if self.entries.len() == MAX_CHOICES {
            self.too_many = Some("more than 128 choices");
            return cursor.skip();
        }
        let text = cursor.text();
        let mut choice = ScannedChoice::default();
        let calls = &mut self.calls;
        let span = cursor.object(|cursor, key| {
            let slot = match span_bytes(text, &key) {
                br#""delta""# => {
                    return read_body(cursor, key, calls).map(|body| choice.delta = Some(body));
                }
                br#""message""# => {
                    return read_body(cursor, key, calls).map(|body| choice.message = Some(body));
                }
                br#""index""# => &mut choice.index,
                br#""finish_reason""# => &mut choice.finish,
                br#""logprobs""# => &mut choice.logprobs,
                br#""usage""# => &mut choice.usage,
                br#""error""# => &mut choice.error,
                br#""native_finish_reason""# => &mut choice.native_finish,
                _ => return cursor.skip(),
            };
            *slot = Some(Member::read(cursor, key)?);
            Ok(())
        })?;
        choice.open = span.start;
        if choice
            .bodies()
            .any(|body| body.call_range.len() > MAX_CALLS)
        {
            self.too_many = Some("more than 128 tool calls");
        }
        // Most answers have one choice, and a list begins with room for four.
        self.entries
            .reserve_exact(usize::from(self.entries.is_empty()));
        self.entries.push(choice);
        Ok(())
    }
}

impl ScannedChoice {
    /// Returns the delta and the message, as far as they are there.
    pub(super) fn bodies(&self) -> impl Iterator<Item = &ScannedMessage> {
        [&self.delta, &self.message].into_iter().flatten()
    }
}

impl ScannedMessage {
    /// Returns whether the value is an object.
    pub(super) fn is_object(&self, text: &[u8]) -> bool {
        self.member.kind(text) == Kind::Object
    }

    /// Returns whether `tool_calls` is there, but has a form that no client can read.
    pub(super) fn has_odd_calls(&self, text: &[u8]) -> bool {
        self.calls
            .as_ref()
            .is_some_and(|calls| calls.kind(text) != Kind::Array && calls.has_content(text))
    }

    /// Returns whether the message has anything that a caller can use. Thinking, a refusal or a
    /// citation alone is not enough.
    pub(super) fn has_answer(&self, text: &[u8]) -> bool {
        self.has_direct_answer
            || self
                .parts_of_content(text)
                .is_some_and(|content| !read_parts(content).text.is_empty())
    }

    /// Returns the content, if it is in parts.
    pub(super) fn parts_of_content<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let content = self.content.as_ref()?;
        matches!(content.kind(text), Kind::Array | Kind::Object)
            .then(|| span_bytes(text, &content.value))
    }

    /// Returns whether the only string of content or reasoning is the content.
    pub(super) fn is_only_content(&self) -> bool {
        self.content
            .as_ref()
            .is_some_and(|content| self.only_text.as_ref() == Some(&content.value))
    }

    /// Returns the place of a piece of reasoning, if the message has nothing else.
    pub(super) fn only_reasoning(&self, text: &[u8]) -> Option<&Span> {
        let has_more = self.is_only_content()
            || self.has_rare_member
            || self.has_lists
            || !self.call_range.is_empty();
        self.only_text
            .as_ref()
            .filter(|_| !has_more)
            .filter(|span| span_bytes(text, span).starts_with(b"\""))
    }

    /// Notes a member of the message, except its calls.
    fn note_member(&mut self, text: &[u8], member: Member) {
        let (name, value) = (
            span_bytes(text, &member.key),
            span_bytes(text, &member.value),
        );
        let is_full = !is_empty_value(value);
        match name {
            br#""role""# => self.role = Some(member),
            br#""content""# => {
                self.has_content |= !matches!(value, b"null" | b"\"\"" | b"[]");
                self.has_direct_answer |= self.note_text(text, &member);
                self.content = Some(member);
            }
            names::REASONING_CONTENT
            | names::REASONING
            | names::THINKING_BLOCKS
            | names::REASONING_TEXT => {
                self.thinking.has_field = true;
                self.thinking.has_content |= is_full;
                self.has_content |= is_full;
                match name {
                    names::REASONING_CONTENT => self.thinking.has_reasoning_content = true,
                    names::REASONING => self.thinking.has_reasoning = value.starts_with(b"\""),
                    _ => {}
                }
                if matches!(name, names::REASONING_CONTENT | names::REASONING) {
                    self.note_text(text, &member);
                }
                if name != names::THINKING_BLOCKS {
                    self.thinking.bytes =
                        self.thinking.bytes.max(json::text_len(text, &member.value));
                }
            }
            // The value may or may not have thinking.
            names::PROVIDER_FIELDS => self.thinking.has_field = true,
            br#""refusal""# if is_full => {
                (self.has_content, self.has_rare_member, self.refuses) = (true, true, true);
                self.spoken_bytes += json::text_len(text, &member.value);
            }
            br#""audio""# if is_full => {
                (
                    self.has_content,
                    self.has_rare_member,
                    self.has_direct_answer,
                ) = (true, true, true);
                let expires = Member::find(text, member.value.start, br#""expires_at""#);
                self.ends_audio = expires.is_some_and(|time| time.kind(text) == Kind::Number);
            }
            br#""function_call""# if is_full => {
                (
                    self.has_content,
                    self.has_rare_member,
                    self.has_direct_answer,
                ) = (true, true, true);
                self.spoken_bytes += value.len();
                self.old_call = Some(member);
            }
            name if LISTS.contains(&name) => {
                // A citation alone does not begin an answer. Reasoning and images do.
                self.has_content |= is_full && name != br#""annotations""#;
                self.has_direct_answer |= is_full && name == br#""images""#;
                self.has_lists |= is_full && value.starts_with(b"[");
                if name == names::REASONING_DETAILS {
                    self.thinking.has_field = true;
                    self.thinking.has_content |= is_full;
                }
            }
            _ => {}
        }
    }

    /// Notes a member with a text. Returns whether it is a string that is not empty.
    fn note_text(&mut self, text: &[u8], member: &Member) -> bool {
        let has_text = member.nonempty_literal(text).is_some();
        if has_text {
            self.text_count += 1;
            self.only_text = (self.text_count == 1).then(|| member.value.clone());
        }
        has_text
    }
}

/// Reads the delta or the message that follows its key. Appends its calls to `calls`.
fn read_body(
    cursor: &mut Cursor<'_>,
    key: Span,
    calls: &mut Vec<ScannedCall>,
) -> ScanResult<ScannedMessage> {
    let text = cursor.text();
    let mut body = ScannedMessage::default();
    let first_call = calls.len();
    let value = cursor.maybe_object(|cursor, key| {
        if span_bytes(text, &key) != br#""tool_calls""# {
            body.note_member(text, Member::read(cursor, key)?);
            return Ok(());
        }
        calls.truncate(first_call);
        let value = cursor.maybe_array(|cursor, index| {
            // One call too many is kept, and shows that there are too many. The lists of all
            // choices together have an end, too.
            if index > MAX_CALLS || calls.len() > MAX_CHOICES * MAX_CALLS {
                return cursor.skip();
            }
            calls.push(read_call(cursor)?);
            Ok(())
        })?;
        body.calls = Some(Member { key, value });
        Ok(())
    })?;
    body.open = value.start;
    body.member = Member { key, value };
    body.call_range = first_call..calls.len();
    body.has_content |= !body.call_range.is_empty();
    body.has_direct_answer |= !body.call_range.is_empty();
    body.spoken_bytes += body.thinking.bytes;
    Ok(body)
}

fn read_call(cursor: &mut Cursor<'_>) -> ScanResult<ScannedCall> {
    let text = cursor.text();
    let mut call = ScannedCall::default();
    call.span = cursor.object(|cursor, key| {
        let slot = match span_bytes(text, &key) {
            br#""index""# => &mut call.index,
            br#""id""# => &mut call.id,
            br#""type""# => &mut call.kind,
            br#""custom""# => {
                call.is_custom = cursor.kind()? == Kind::Object;
                return cursor.skip();
            }
            br#""function""# if cursor.kind()? == Kind::Object => {
                let value = cursor.members(|key, value| match span_bytes(text, &key) {
                    br#""name""# => call.name = Some(Member { key, value }),
                    br#""arguments""# => call.arguments = Some(Member { key, value }),
                    _ => {}
                })?;
                call.function = Some(Member { key, value });
                return Ok(());
            }
            _ => return cursor.skip(),
        };
        *slot = Some(Member::read(cursor, key)?);
        Ok(())
    })?;
    Ok(call)
}

/// Returns whether a value has no content.
pub(super) fn is_empty_value(value: &[u8]) -> bool {
    matches!(value, b"null" | b"\"\"" | b"[]" | b"{}" | b"false")
}
