//! Reads standard chat completions, whole or as chunks, as events. Only corrected bodies are read
//! here, so that every server's deviations are put right in one place.
//!
//! Events have one call after the other. Servers may write several calls at once, or text in the
//! middle of a call: parts that cannot be emitted yet wait here, up to a limit.
//!
//! Most chunks equal the one before but for their text. Such a chunk is not parsed: [`Repeat`]
//! finds its text, and [`TextPlace`] says what the text is.

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
    /// The form of the last chunk, if it had one text and nothing else, and what such a text is.
    pattern: Repeat<TextPlace>,
}

/// What the only text of a chunk is.
#[derive(Debug, Clone, Copy)]
enum TextPlace {
    /// Speech of this choice: text outside its calls.
    Speech(u32, Speech),
    /// A fragment of the arguments of the call with this number, in this choice.
    Arguments(u32, usize),
}

/// The calls of one choice, and the parts that wait for their ends.
#[derive(Debug, Default)]
struct ChoiceCalls {
    /// The number of the next call that may begin: the calls before it are emitted.
    next_number: usize,
    /// The call that is being emitted, and the calls after it.
    open: VecDeque<WaitingCall>,
    /// The texts that came in the middle of the call that is being emitted.
    waiting_speech: Vec<(Speech, String)>,
    /// The bytes that wait.
    waiting_bytes: usize,
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
    /// Reads corrected chunks, each on one line: `data: …`. Only whole events are given here.
    pub(crate) fn read_events(
        &mut self,
        mut text: &[u8],
        emit: Emit<'_>,
    ) -> Result<(), &'static str> {
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
        if let Some((text_place, text)) = self.pattern.follow(body) {
            return self.follow_text(text_place, text, emit);
        }
        self.pattern.forget();
        let Ok(completion) = serde_json::from_slice::<Completion<'_>>(body) else {
            // The correction leaves half of a surrogate pair in a chunk, since callers of the
            // standard format get it as it came. Here it becomes U+FFFD, and the chunk is read
            // again.
            let clean = repaired_text(body).ok_or(UNREADABLE)?;
            return self.read_completion(
                serde_json::from_slice(&clean).map_err(|_| UNREADABLE)?,
                emit,
            );
        };
        if let [choice] = completion.choices.as_slice()
            && let Some((text_place, text)) = choice.only_text()
        {
            self.pattern
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

    /// Takes the text of a chunk that was not parsed, because only its text differs from the last
    /// one.
    fn follow_text(
        &mut self,
        text_place: TextPlace,
        text: Cow<'_, str>,
        emit: Emit<'_>,
    ) -> Result<(), &'static str> {
        match text_place {
            TextPlace::Speech(choice, speech) => self
                .choice_calls(choice)?
                .take_speech(choice, speech, &text, emit),
            TextPlace::Arguments(choice, number) => {
                let function = Some(Function {
                    name: None,
                    arguments: Some(text),
                });
                self.choice_calls(choice)?.take_call(
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
        let calls = self.choice_calls(index)?;
        // The calls of a whole message are in order, whatever numbers a server gave them.
        let is_whole = message.is_some();
        let body = message.or(delta).unwrap_or_default();
        for (speech, text) in body.speeches() {
            calls.take_speech(index, speech, text, emit)?;
        }
        for annotation in read_list::<Annotation<'_>>(body.annotations) {
            annotation.emit(index, CitedRange::Characters, emit);
        }
        for (list_index, call) in body.tool_calls.into_iter().flatten().enumerate() {
            let number = call.index.filter(|_| !is_whole).unwrap_or(list_index);
            calls.take_call(index, number, call, emit)?;
        }
        for url in image_urls(body.images) {
            calls.take_speech(index, Speech::Picture, &url, emit)?;
        }
        if let Some(reason) = finish_reason {
            calls.emit_all(index, emit);
            emit(Event::Finish(index, finish_from_reason(&reason)));
        }
        Ok(())
    }

    /// Returns the state of a choice, and makes it if it is new.
    fn choice_calls(&mut self, index: u32) -> Result<&mut ChoiceCalls, &'static str> {
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

    /// Ends an answer: emits what still waits, the sources, and the end.
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

/// Returns the URLs of a list of pictures. A list that cannot be read has none.
fn image_urls(images: Option<&RawValue>) -> impl Iterator<Item = Cow<'_, str>> {
    let images: Option<Vec<Image<'_>>> =
        images.and_then(|images| serde_json::from_str(images.get()).ok());
    let images = images.into_iter().flatten();
    images.filter_map(|image| Some(image.image_url?.url))
}

fn finish_from_reason(reason: &str) -> Finish {
    match reason {
        "length" => Finish::Length,
        "content_filter" => Finish::Filtered,
        "tool_calls" | "function_call" => Finish::Calls,
        _ => Finish::Stop,
    }
}

impl StandardChoice<'_> {
    /// Returns the text of a chunk that has nothing else, and what it is.
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
        if let Some((speech, text)) = body.only_speech() {
            return Some((TextPlace::Speech(*index, speech), text));
        }
        let (number, text) = body.only_arguments()?;
        Some((TextPlace::Arguments(*index, number), text))
    }
}

impl Body<'_> {
    /// Returns the texts outside calls, in the order in which they are emitted. A text is empty if
    /// there is none.
    fn speeches(&self) -> [(Speech, &str); 3] {
        [
            (Speech::Reasoning, &self.reasoning_content),
            (Speech::Text, &self.content),
            (Speech::Refusal, &self.refusal),
        ]
        .map(|(speech, text)| (speech, text.as_deref().unwrap_or_default()))
    }

    /// Returns the text outside calls, if the body has one and nothing else.
    fn only_speech(&self) -> Option<(Speech, &str)> {
        let mut filled = self
            .speeches()
            .into_iter()
            .filter(|(_, text)| !text.is_empty());
        let only = filled.next()?;
        let is_alone = filled.next().is_none() && self.has_only_texts_or_calls();
        (is_alone && self.calls().is_empty()).then_some(only)
    }

    /// Returns the number of a call and a fragment of its arguments, if the body has nothing else.
    fn only_arguments(&self) -> Option<(usize, &str)> {
        let has_speech = self.speeches().iter().any(|(_, text)| !text.is_empty());
        if has_speech || !self.has_only_texts_or_calls() {
            return None;
        }
        // An id or a name would begin a call, so such a chunk is never a mere repetition.
        let [
            Call {
                index: Some(number),
                id: None,
                function:
                    Some(Function {
                        name: None,
                        arguments: Some(arguments),
                    }),
            },
        ] = self.calls()
        else {
            return None;
        };
        Some((*number, &**arguments))
    }

    fn calls(&self) -> &[Call<'_>] {
        self.tool_calls.as_deref().unwrap_or_default()
    }

    fn has_only_texts_or_calls(&self) -> bool {
        // All members are named, so that a new one is not forgotten.
        let Self {
            content: _,
            reasoning_content: _,
            refusal: _,
            tool_calls: _,
            images,
            annotations,
        } = self;
        images.is_none() && annotations.is_none()
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
        match self.waiting_speech.last_mut() {
            Some((last, waiting_text)) if *last == speech && speech != Speech::Picture => {
                waiting_text.push_str(text)
            }
            Some(_) | None => self.waiting_speech.push((speech, text.to_owned())),
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
        // The call has ended. Some servers send white space after it.
        if number < self.next_number {
            return if arguments.trim_ascii().is_empty() {
                Ok(())
            } else {
                Err("a call goes on after its arguments are whole")
            };
        }
        let open = self.open_call(number)?;
        open.id.push_str(&id);
        open.name.push_str(&name);
        open.arguments.push_str(&arguments);
        open.state.take(&arguments);
        self.count_waiting(id.len() + name.len() + arguments.len())?;
        self.emit_ready(choice, emit);
        Ok(())
    }

    /// Returns the call with this number, and begins it if it is new.
    fn open_call(&mut self, number: usize) -> Result<&mut WaitingCall, &'static str> {
        const TOO_MANY: &str = "more than 128 tool calls";
        let known = self.open.iter().position(|open| open.number == number);
        let call_index = known.unwrap_or(self.open.len());
        if call_index >= MAX_ENTRIES {
            return Err(TOO_MANY);
        }
        if known.is_none() {
            self.open.push_back(WaitingCall {
                number,
                ..WaitingCall::default()
            });
        }
        self.open.get_mut(call_index).ok_or(TOO_MANY)
    }

    /// Counts bytes that may have to wait.
    fn count_waiting(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.waiting_bytes += bytes;
        if self.waiting_bytes > MAX_WAITING {
            Err("too much is said in the middle of a call")
        } else {
            Ok(())
        }
    }

    /// Emits all that can be emitted: the first call as far as it has come, and the calls after it
    /// if it is complete.
    fn emit_ready(&mut self, choice: u32, emit: Emit<'_>) {
        while let Some(first) = self.open.front_mut() {
            // A name may come in pieces. It is whole when the arguments begin, so the call is
            // emitted only then.
            if !first.arguments.is_empty() {
                first.emit_progress(choice, emit);
            }
            if !first.state.is_object() {
                break;
            }
            self.next_number = first.number + 1;
            self.open.pop_front();
            self.emit_waiting_speech(choice, emit);
        }
        // The arguments of the only open call go out at once, so at most its id and name wait now.
        if self.open.len() <= 1 && self.waiting_speech.is_empty() {
            self.waiting_bytes = 0;
        }
    }

    /// Emits the speech that waited for the end of a call.
    fn emit_waiting_speech(&mut self, choice: u32, emit: Emit<'_>) {
        self.waiting_speech
            .drain(..)
            .for_each(|(speech, text)| speech.emit_speech(choice, &text, emit));
    }

    /// Emits all that waits.
    fn emit_all(&mut self, choice: u32, emit: Emit<'_>) {
        while let Some(mut first) = self.open.pop_front() {
            self.next_number = first.number + 1;
            first.emit_progress(choice, emit);
            self.emit_waiting_speech(choice, emit);
        }
        self.waiting_bytes = 0;
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
