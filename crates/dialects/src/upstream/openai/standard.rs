//! Reads standard chat completions, whole or as chunks, as events. Only corrected bodies are read
//! here, so that every server's deviations are put right in one place.
//!
//! Events have one call after the other. Servers may write several calls at once, or text in the
//! middle of a call: parts that cannot be emitted yet wait here, up to a limit.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::neutral::{Citation, CitedRange, Emit, Event, Finish};
use crate::upstream::shared::citations::{Annotation, read_list};
use crate::upstream::shared::repeat::Repeat;
use crate::wire::json::{Pieces, repaired_text};

/// The most bytes of calls and texts that wait for the end of the call before them.
pub(super) const MAX_WAITING: usize = 4 << 20;
/// The most calls, and the most choices, of an answer.
const MAX_ENTRIES: usize = 128;

/// A whole answer, or a chunk of one.
#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(borrow, default)]
    choices: Vec<StandardChoice<'a>>,
    /// OpenAI's random padding.
    #[serde(borrow, default)]
    obfuscation: Option<Cow<'a, str>>,
    /// URLs of sources, where servers have such.
    #[serde(borrow, default)]
    citations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StandardChoice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow, default)]
    message: Option<Body<'a>>,
    #[serde(borrow, default)]
    delta: Option<Body<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    refusal: Option<Cow<'a, str>>,
    tool_calls: Option<Vec<Call<'a>>>,
    /// A list of pictures, where servers have such; anything else is ignored.
    #[serde(borrow)]
    images: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(default)]
    index: Option<usize>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, alias = "custom")]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, alias = "input", default)]
    arguments: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    image_url: Option<ImageUrl<'a>>,
}

#[derive(Deserialize)]
struct ImageUrl<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
}

/// Reads the events of a whole answer, except its usage.
pub(crate) fn read_answer(body: &[u8], emit: Emit<'_>) -> Result<(), &'static str> {
    let mut chunks = StandardChunks::default();
    chunks.read_body(body, emit)?;
    chunks.end(emit);
    Ok(())
}

/// Reads the chunks of a stream.
#[derive(Debug, Default)]
pub(crate) struct StandardChunks {
    choices: Vec<ChoiceCalls>,
    /// URLs of sources that are for no place of the text. The last list counts.
    sources: Vec<String>,
    /// The last chunk that had a text and nothing else.
    last: Repeat<TextPlace>,
}

/// The place of a chunk's only text.
#[derive(Debug, Clone, Copy)]
enum TextPlace {
    /// The text is a choice's own.
    Spoken(u32, Speech),
    /// It is a fragment of the arguments of a choice's call with this number.
    Arguments(u32, usize),
}

/// The calls of one choice, and the parts that wait for their ends.
#[derive(Debug, Default)]
struct ChoiceCalls {
    /// The number of the next call that may begin: the calls before it are emitted.
    next: usize,
    /// The call that is being emitted, and the calls after it.
    open: VecDeque<WaitingCall>,
    /// The texts that came in the middle of the call that is being emitted.
    late: Vec<(Speech, String)>,
    /// The bytes that wait.
    bytes: usize,
}

/// A call that is not emitted to its end.
#[derive(Debug, Default)]
struct WaitingCall {
    number: usize,
    id: String,
    name: String,
    /// The arguments that are not emitted yet.
    arguments: String,
    /// The state of all arguments so far.
    state: Pieces,
    has_begun: bool,
}

/// A choice's text outside its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speech {
    Reasoning,
    Text,
    Refusal,
    /// A picture's URL.
    Picture,
}

impl StandardChunks {
    /// Reads the written events of a stream, which are whole.
    pub(crate) fn events(&mut self, mut text: &[u8], emit: Emit<'_>) -> Result<(), &'static str> {
        // A chunk is on one line: its strings hold no line ends, and there are none between them.
        while let Some(end) = memchr::memchr(b'\n', text) {
            let (line, rest) = text.split_at_checked(end + 1).unwrap_or((text, b""));
            text = rest;
            match line.strip_prefix(b"data: ") {
                Some(data) if !data.starts_with(b"[DONE]") => {
                    self.read_body(data.trim_ascii_end(), emit)?
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn read_body(&mut self, body: &[u8], emit: Emit<'_>) -> Result<(), &'static str> {
        const UNREADABLE: &str = "a chunk cannot be read";
        if let Some((text_place, text)) = self.last.follow(body) {
            return self.follow_text(text_place, text, emit);
        }
        self.last.forget();
        let Ok(completion) = serde_json::from_slice::<Completion<'_>>(body) else {
            // Half a character passes to callers of the standard format as it is.
            let clean = repaired_text(body).ok_or(UNREADABLE)?;
            return self.read_completion(
                serde_json::from_slice(&clean).map_err(|_| UNREADABLE)?,
                emit,
            );
        };
        if let [choice] = completion.choices.as_slice()
            && let Some((text_place, text)) = choice.only_text()
        {
            self.last
                .learn(body, text, completion.obfuscation.as_deref(), text_place);
        }
        self.read_completion(completion, emit)
    }

    fn read_completion(
        &mut self,
        completion: Completion<'_>,
        emit: Emit<'_>,
    ) -> Result<(), &'static str> {
        if let Some(sources) = completion
            .citations
            .and_then(|all| serde_json::from_str(all.get()).ok())
        {
            self.sources = sources;
        }
        completion
            .choices
            .into_iter()
            .try_for_each(|choice| self.read_choice(choice, emit))
    }

    /// Takes a chunk that differs from the last one in its text only.
    fn follow_text(
        &mut self,
        text_place: TextPlace,
        text: Cow<'_, str>,
        emit: Emit<'_>,
    ) -> Result<(), &'static str> {
        match text_place {
            TextPlace::Spoken(choice, speech) => self
                .calls_of(choice)?
                .take_speech(choice, speech, &text, emit),
            TextPlace::Arguments(choice, number) => {
                let function = Some(Function {
                    name: None,
                    arguments: Some(text),
                });
                self.calls_of(choice)?.take_call(
                    choice,
                    number,
                    Call {
                        index: None,
                        id: None,
                        function,
                    },
                    emit,
                )
            }
        }
    }

    fn read_choice(
        &mut self,
        choice: StandardChoice<'_>,
        emit: Emit<'_>,
    ) -> Result<(), &'static str> {
        let StandardChoice {
            index,
            message,
            delta,
            finish_reason,
        } = choice;
        let calls = self.calls_of(index)?;
        // The calls of a whole message are in order, whatever numbers a server gave them.
        let is_whole = message.is_some();
        let body = message.or(delta).unwrap_or_default();
        for (speech, text) in [
            (Speech::Reasoning, &body.reasoning_content),
            (Speech::Text, &body.content),
            (Speech::Refusal, &body.refusal),
        ] {
            calls.take_speech(index, speech, text.as_deref().unwrap_or_default(), emit)?;
        }
        for annotation in read_list::<Annotation<'_>>(body.annotations) {
            annotation.emit(index, CitedRange::Characters, emit);
        }
        for (list_index, call) in body.tool_calls.into_iter().flatten().enumerate() {
            let number = call.index.filter(|_| !is_whole).unwrap_or(list_index);
            calls.take_call(index, number, call, emit)?;
        }
        let images: Option<Vec<Image<'_>>> = body
            .images
            .and_then(|images| serde_json::from_str(images.get()).ok());
        for url in images
            .into_iter()
            .flatten()
            .filter_map(|image| image.image_url)
        {
            calls.take_speech(index, Speech::Picture, &url.url, emit)?;
        }
        if let Some(reason) = finish_reason {
            calls.emit_all(index, emit);
            emit(Event::Finish(
                index,
                match &*reason {
                    "length" => Finish::Length,
                    "content_filter" => Finish::Filtered,
                    "tool_calls" | "function_call" => Finish::Calls,
                    _ => Finish::Stop,
                },
            ));
        }
        Ok(())
    }

    fn calls_of(&mut self, index: u32) -> Result<&mut ChoiceCalls, &'static str> {
        const TOO_MANY: &str = "more than 128 choices";
        let choice_index = usize::try_from(index).unwrap_or(usize::MAX);
        if choice_index >= MAX_ENTRIES {
            return Err(TOO_MANY);
        }
        if self.choices.len() <= choice_index {
            self.choices
                .resize_with(choice_index + 1, ChoiceCalls::default);
        }
        self.choices.get_mut(choice_index).ok_or(TOO_MANY)
    }

    /// Ends a whole answer.
    pub(crate) fn end(&mut self, emit: Emit<'_>) {
        for (index, calls) in (0..).zip(&mut self.choices) {
            calls.emit_all(index, emit);
        }
        for url in &self.sources {
            emit(Event::Citation(
                0,
                &Citation {
                    url,
                    ..Citation::default()
                },
            ));
        }
        emit(Event::End);
    }
}

impl StandardChoice<'_> {
    /// Returns the text of a chunk that has nothing else, and its place.
    fn only_text(&self) -> Option<(TextPlace, &str)> {
        let StandardChoice {
            index,
            message: None,
            delta: Some(body),
            finish_reason: None,
        } = self
        else {
            return None;
        };
        let Body {
            content,
            reasoning_content,
            refusal,
            tool_calls,
            images: None,
            annotations: None,
        } = body
        else {
            return None;
        };
        let texts = [
            (Speech::Reasoning, reasoning_content),
            (Speech::Text, content),
            (Speech::Refusal, refusal),
        ];
        let mut filled = texts
            .into_iter()
            .filter(|(_, text)| text.as_deref().is_some_and(|text| !text.is_empty()));
        match (
            filled.next(),
            filled.next(),
            tool_calls.as_deref().unwrap_or_default(),
        ) {
            (Some((speech, text)), None, []) => {
                Some((TextPlace::Spoken(*index, speech), text.as_deref()?))
            }
            (
                None,
                _,
                [
                    Call {
                        index: Some(number),
                        id: None,
                        function: Some(function),
                    },
                ],
            ) if function.name.is_none() => Some((
                TextPlace::Arguments(*index, *number),
                function.arguments.as_deref()?,
            )),
            _ => None,
        }
    }
}

impl ChoiceCalls {
    /// Takes a text outside calls. In the middle of a call it waits for the call's end.
    fn take_speech(
        &mut self,
        choice: u32,
        speech: Speech,
        text: &str,
        emit: Emit<'_>,
    ) -> Result<(), &'static str> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open.is_empty() {
            speech.emit_speech(choice, text, emit);
            return Ok(());
        }
        match self.late.last_mut() {
            Some((last, late_text)) if *last == speech && speech != Speech::Picture => {
                late_text.push_str(text)
            }
            Some(_) | None => self.late.push((speech, text.to_owned())),
        }
        self.count_waiting(size_of::<(Speech, String)>() + text.len())
    }

    /// Takes a fragment of a call.
    fn take_call(
        &mut self,
        choice: u32,
        number: usize,
        call: Call<'_>,
        emit: Emit<'_>,
    ) -> Result<(), &'static str> {
        let Some(Function { name, arguments }) = call.function else {
            return Ok(());
        };
        let (id, name, arguments) = (
            call.id.unwrap_or_default(),
            name.unwrap_or_default(),
            arguments.unwrap_or_default(),
        );
        if number < self.next {
            let is_blank = arguments.trim_ascii().is_empty();
            return if is_blank {
                Ok(())
            } else {
                Err("a call goes on after its arguments are whole")
            };
        }
        if !self.open.iter().any(|open| open.number == number) {
            if self.open.len() == MAX_ENTRIES {
                return Err("more than 128 tool calls");
            }
            self.open.push_back(WaitingCall {
                number,
                ..WaitingCall::default()
            });
        }
        let Some(open) = self.open.iter_mut().find(|open| open.number == number) else {
            return Ok(());
        };
        open.id.push_str(&id);
        open.name.push_str(&name);
        open.arguments.push_str(&arguments);
        open.state.take(&arguments);
        self.count_waiting(id.len() + name.len() + arguments.len())?;
        self.emit_ready(choice, emit);
        Ok(())
    }

    /// Counts bytes that may have to wait.
    fn count_waiting(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.bytes += bytes;
        if self.bytes > MAX_WAITING {
            Err("too much is said in the middle of a call")
        } else {
            Ok(())
        }
    }

    /// Emits all that can be emitted: the first call as far as it has come, and the calls after it
    /// if it is complete.
    fn emit_ready(&mut self, choice: u32, emit: Emit<'_>) {
        while let Some(first) = self.open.front_mut() {
            // A name may come in pieces, and has come when the arguments begin.
            if !first.arguments.is_empty() {
                first.emit_progress(choice, emit);
            }
            if !first.state.is_object() {
                break;
            }
            self.next = first.number + 1;
            self.open.pop_front();
            self.emit_late(choice, emit);
        }
        if self.open.len() <= 1 && self.late.is_empty() {
            self.bytes = 0;
        }
    }

    fn emit_late(&mut self, choice: u32, emit: Emit<'_>) {
        self.late
            .drain(..)
            .for_each(|(speech, text)| speech.emit_speech(choice, &text, emit));
    }

    /// Emits all that waits.
    fn emit_all(&mut self, choice: u32, emit: Emit<'_>) {
        while let Some(mut first) = self.open.pop_front() {
            self.next = first.number + 1;
            first.emit_progress(choice, emit);
            self.emit_late(choice, emit);
        }
        self.bytes = 0;
    }
}

impl WaitingCall {
    fn emit_progress(&mut self, choice: u32, emit: Emit<'_>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let id = Some(&*self.id).filter(|id| !id.is_empty());
            emit(Event::Call {
                choice,
                id,
                name: &self.name,
                signature: None,
            });
        }
        emit(Event::Arguments(choice, &self.arguments));
        self.arguments.clear();
    }
}

impl Speech {
    fn emit_speech(self, choice: u32, text: &str, emit: Emit<'_>) {
        match self {
            Speech::Reasoning => emit(Event::Reasoning(choice, text)),
            Speech::Text => emit(Event::Text(choice, text)),
            Speech::Refusal => emit(Event::Refusal(choice, text)),
            Speech::Picture => {
                let data = text
                    .strip_prefix("data:")
                    .and_then(|data| data.split_once(";base64,"));
                data.into_iter()
                    .for_each(|(mime, data)| emit(Event::Media(choice, mime, data)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
