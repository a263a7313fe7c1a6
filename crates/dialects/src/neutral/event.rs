//! An event is a piece of an answer. A dialect's reader emits events, for buffered answers and for
//! streams.

use super::citation::Citation;
use super::fault::StreamResult;
use super::usage::Units;

/// One piece of an answer. Events come in the order of the answer. Buffered answers and streams
/// have the same kinds of events. A number is the index of a choice.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// The upstream's own id of the answer.
    Id(&'a str),
    /// Content.
    Text(u32, &'a str),
    /// Thinking that may be shown.
    Reasoning(u32, &'a str),
    /// The model's refusal, in its own words.
    Refusal(u32, &'a str),
    /// The signature of the thinking since the last signature. The thinking must come back with it.
    Signed(&'a str),
    /// Thinking that no caller may read. It must come back as it is.
    Redacted(&'a str),
    /// The start of a call. The call lasts until the choice's next call or finish. Without
    /// [`Event::Arguments`] its arguments are `{}`.
    Call {
        /// The choice that calls.
        choice: u32,
        /// The upstream's id for it.
        id: Option<&'a str>,
        /// The function.
        name: &'a str,
        /// Google's signature.
        signature: Option<&'a str>,
    },
    /// A piece of the arguments of the choice's last call.
    Arguments(u32, &'a str),
    /// A picture or a sound: media type and base64.
    Media(u32, &'a str, &'a str),
    /// A source of the choice's text, which came before it.
    Citation(u32, &'a Citation<'a>),
    /// The reason why the choice ended. More of the choice may follow; the last reason counts.
    Finish(u32, Finish),
    /// All tokens that the answer used so far. The last such event counts.
    Usage(Tokens),
    /// All units other than tokens that the answer used so far. The last such event counts.
    Units(Units),
    /// The end of a whole answer. A stream without it was cut.
    End,
}

/// The reason why a choice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The choice is complete.
    Stop,
    /// The choice is complete, and waits for the results of its calls. A dialect need not emit
    /// this: a choice that made calls and ended well gets this reason.
    Calls,
    /// The choice reached its limit of tokens.
    Length,
    /// A filter stopped the choice.
    Filtered,
}

/// The tokens as the upstream counted them. A count is `None` if the upstream did not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The tokens of the prompt, including those read from the cache and written to it.
    pub prompt: Option<u64>,
    /// The tokens of the completion, including thinking.
    pub completion: Option<u64>,
    /// The tokens of the prompt that came out of the cache.
    pub cached: Option<u64>,
    /// The tokens of the prompt that went into the cache.
    pub cache_write: Option<u64>,
    /// The tokens of the completion that were thinking.
    pub reasoning: Option<u64>,
}

/// The function that takes the events that a dialect reads.
pub type Emit<'e> = &'e mut dyn FnMut(Event<'_>);

/// The reader of one stream, event by event.
///
/// The reader knows nothing of the framing (server-sent events, lines, frames) and nothing of the
/// end. A stream that never emitted [`Event::End`] was cut.
pub trait Reader: Send {
    /// Takes an event: its name, which is empty if the framing has none, and its data. Reads all
    /// data before it emits anything, so data that cannot be read may be repaired and given again.
    /// Ignores data of an unknown kind.
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> StreamResult<()>;

    /// Takes the number of answers that were asked for, before anything else. Without it the number
    /// is unknown.
    fn expect_choices(&mut self, _choices: u64) {}

    /// Takes the end of the upstream's stream, and emits the events that only the end makes
    /// certain.
    fn end_of_file(&mut self, _emit: Emit<'_>) -> StreamResult<()> {
        Ok(())
    }
}
