//! The neutral form is the form between all formats: it has everything that a chat request can ask
//! for and that an answer can contain.
//!
//! All dialects and front doors meet here, so N dialects need N files and no file for each pair. A
//! front door reads a caller's body into a [`Request`]. A dialect writes it in its own format
//! ([`Written`]), and reads the answer as [`Event`]s. The front door writes its answer from the
//! events, buffered or streamed, so both kinds of answer have the same content.
//!
//! **Invariant:** nothing is left out in silence. A field that a dialect cannot express is in
//! [`LostFields`], or the request is refused ([`FieldRefused`]).

pub mod answer;
pub mod answered;
pub(crate) mod citation;
mod echo;
pub mod embedding;
mod endpoint;
mod event;
mod fault;
mod field;
pub(crate) mod flaws;
mod kind;
pub mod labels;
mod lazy_text;
mod losses;
pub(crate) mod mark;
pub(crate) mod offer;
pub mod price;
pub mod purpose;
mod reasons;
mod refused;
mod request;
mod room;
pub(crate) mod schema;
pub mod seal;
mod shown;
mod target;
pub mod traits;
pub mod turns;
pub mod usage;
pub(crate) mod vector;
pub mod vectors;

pub use answer::{Answer, AnswerHeader, Clock, Unfinished};
pub use citation::{Citation, CitedRange};
pub use echo::{CallKind, CallersTool, Echo};
pub(crate) use endpoint::below_version;
pub use endpoint::{Endpoint, EndpointAnswer, EndpointBody, EndpointFacts, Servers};
pub use event::{Emit, Event, Finish, Reader, Tokens};
pub(crate) use fault::NO_REASON;
pub use fault::{AnswerFault, ErrorHead, StreamFault, StreamResult, UpstreamError};
pub use field::Field;
pub use flaws::Flaws;
pub use kind::ModelKind;
pub use labels::Labels;
pub use lazy_text::LazyText;
pub use losses::{Losses, LostFields};
pub use reasons::EndReasons;
pub use refused::{Complaint, FieldRefused, Refused};
pub use request::{
    AskedThinking, Cache, Call, Effort, Family, Format, Media, Message, Number, Part, PartKind,
    Penalties, Raw, Request, Role, Thought, Tool, ToolChoice, ToolKind,
};
pub(crate) use request::{ENCRYPTED, NO_SIGNATURE};
pub use shown::looks_secret;
pub(crate) use shown::shown_name;
pub use target::{Kept, Target, Undo, Written};
