//! The events of an answer: what a dialect's reader tells of it, buffered or streamed.

use super::fault::StreamFault;

/// What an answer tells, in the order it tells it. A buffered answer is told by the same events as
/// a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// The upstream's own id of the answer.
    Id(&'a str),
    /// Content.
    Text(u32, &'a str),
    /// Thinking that may be shown.
    Reasoning(u32, &'a str),
    /// Why the model will not.
    Refusal(u32, &'a str),
    /// The thinking since the last of these was signed with this, and must come back with it.
    Signed(&'a str),
    /// Thinking that nobody may read, and that must come back as it is.
    Redacted(&'a str),
    /// A call begins. It goes on until the choice's next call or finish; without
    /// [`Event::Arguments`] they are `{}`.
    Call {
        /// Of which choice.
        choice: u32,
        /// The upstream's id for it.
        id: Option<&'a str>,
        /// The function.
        name: &'a str,
        /// Google's signature.
        signature: Option<&'a str>,
    },
    /// More of the arguments of the choice's last call, as they come.
    Arguments(u32, &'a str),
    /// A picture or a sound: media type and base64.
    Media(u32, &'a str, &'a str),
    /// Why the choice ended. More of it may follow; the last reason counts.
    Finish(u32, Finish),
    /// What it cost so far, all of it: the last one counts.
    Usage(Tokens),
    /// The answer is whole. Without it a stream was cut.
    End,
}

/// Why a choice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It had said all.
    Stop,
    /// It had said all, and waits for the results of its calls. A dialect need not say this: a
    /// choice that made calls and ended well has this reason.
    Calls,
    /// It was not allowed to say more.
    Length,
    /// Something in it was not allowed.
    Filtered,
}

/// Tokens as the upstream counted them; what it did not count is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read, those from and into the cache included.
    pub prompt: Option<u64>,
    /// Written, thinking included.
    pub completion: Option<u64>,
    /// Of the prompt: out of the cache.
    pub cached: Option<u64>,
    /// Of the prompt: into the cache.
    pub cache_write: Option<u64>,
    /// Of the completion: thinking.
    pub reasoning: Option<u64>,
}

/// Where a dialect's reading puts what it reads.
pub type Emit<'e> = &'e mut dyn FnMut(Event<'_>);

/// The reading of one stream, event by event.
///
/// The framing (server-sent events, lines, frames) is not its business, nor is the end: a stream
/// that never said [`Event::End`] was cut.
pub trait Reader: Send {
    /// Takes an event: its name, empty where the framing has none, and its data. Reads all of it
    /// before it emits any of it, so that data which cannot be read may be repaired and given
    /// again. Data of an unknown kind is passed over.
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> Result<(), StreamFault>;

    /// The upstream closed: the place to emit what only the end makes sure.
    fn end_of_file(&mut self, _emit: Emit<'_>) -> Result<(), StreamFault> {
        Ok(())
    }
}
