//! The neutral form: what a chat request can say, and what an answer tells, whichever dialect
//! either is in.
//!
//! N dialects are N files, since all of them meet here: a front door makes a [`Request`] of a
//! caller's body, a dialect writes it in its own words ([`Written`]) and reads what comes back as
//! [`Event`]s, and the front door makes its answer of those, buffered or streamed. So both kinds of
//! answer say the same.
//!
//! **Invariant:** nothing is left out in silence. What a dialect cannot say is in
//! [`LostFields`], or the request is [`FieldRefused`].

pub mod answer;
pub mod answered;
mod event;
mod fault;
mod field;
pub(crate) mod flaws;
mod losses;
pub(crate) mod mark;
pub(crate) mod offer;
pub mod price;
mod refused;
mod request;
mod room;
pub(crate) mod schema;
mod target;
pub mod traits;
pub mod turns;
pub mod usage;

pub use answer::{Answer, AnswerHeader};
pub use event::{Emit, Event, Finish, Reader, Tokens};
pub use fault::{AnswerFault, ErrorHead, StreamFault, UpstreamError};
pub use field::Field;
pub use flaws::Flaws;
pub(crate) use losses::shown;
pub use losses::{Losses, LostFields, looks_secret};
pub use refused::{Complaint, FieldRefused, Refused};
pub use request::{
    Cache, Call, Effort, Family, Format, Media, Message, Number, Part, PartKind, Penalties, Raw, Request, Role,
    Thought, Tool, ToolChoice, ToolKind,
};
pub use target::{Kept, Target, Undo, Written};
