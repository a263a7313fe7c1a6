//! The front doors: the formats that callers speak. A front door reads a caller's body, and writes
//! the answer that the caller gets.
//!
//! Each format has a folder, and one static, its [`Front`]: all that the rest of this crate, and a
//! gateway, ask of it.

pub(crate) mod chat;
mod contents;
mod embeddings;
mod envelope;
mod error_form;
pub(crate) mod fields;
pub mod form;
mod gemini;
mod messages;
mod models;
mod named;
mod names;
mod other_endpoints;
pub(crate) mod passing;
mod place;
mod probes;
mod reading;
pub mod references;
mod responses;
mod route;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

pub use chat::CHAT;
pub use contents::Contents;
pub use embeddings::EMBEDDINGS;
pub(crate) use embeddings::INPUT_TYPE;
pub use envelope::{Choices, Envelope, Fault, ItemReference};
pub use error_form::{AnswerSoFar, CallerError, ErrorForm, OVERLOADED};
use fields::Wording;
pub use gemini::{GEMINI, GEMINI_ARRAY, GEMINI_EMBED, GEMINI_EMBEDS};
pub use messages::MESSAGES;
pub use models::{HasHeader, ListedModel, ModelLists, ModelsAsked};
pub use named::Named;
pub use names::FieldNames;
use other_endpoints::OTHERS;
pub(crate) use passing::PassedAnswer;
pub use responses::RESPONSES;
pub use route::PathRequest;

use crate::neutral::answer::{AnswerWriter, NullWriter, Tally};
use crate::neutral::embedding::Embedding;
use crate::neutral::seal::Sealed;
use crate::neutral::traits::Traits;
use crate::neutral::vector::VectorText;
use crate::neutral::vectors::VectorPlace;
use crate::neutral::{
    AnswerHeader, Endpoint, Field, Flaws, Losses, Refused, Request, UpstreamError,
};
use crate::wire::splice::Edits;
use crate::wire::{Event, json, percent};

/// All facts and functions of a format that callers speak.
pub struct Front {
    /// The name.
    pub name: &'static str,
    /// The paths; the first one is the usual one. `{model}` stands for the model, if the path names
    /// it.
    pub paths: &'static [&'static str],
    /// The path of a request for a stream, if it is another path.
    pub stream_path: Option<&'static str>,
    /// Reads a path and its query: the model, and whether a stream is asked for. `None` if the path
    /// does not lead here.
    pub(crate) route: fn(&Front, &str, Option<&str>) -> Option<PathRequest>,
    /// Returns whether callers at this path speak the format, also if nothing is there.
    pub(crate) owns: fn(&Front, &str) -> bool,
    /// The one kind of endpoint that can answer. `None` for conversations, which any kind can
    /// answer that holds them.
    pub only_endpoint: Option<Endpoint>,
    /// The headers and the query's parameters that are read of a request.
    pub extras: RequestExtras,
    /// The form of errors.
    pub errors: ErrorForm,
    /// The form of lists of models.
    pub models: ModelLists,
    /// Example requests for each part of the format, as a JSON text. It is empty if another door
    /// has them.
    pub(crate) probes: &'static str,
    /// The changes in a body that passes to an account of the same format, and in its answer.
    pub native: Option<Native>,
    /// The reading of requests for vectors, if the format has them.
    pub(crate) vectors: Option<VectorDoor>,
    /// The reading of requests for the number of a request's tokens, if the format has them.
    pub counting: Option<CountForm>,
    /// The beginning of the ids of answers.
    pub id_prefix: &'static str,
    /// The parts of a stream that are not its events.
    pub stream_frame: StreamFrame,
    /// Reads the envelope of a body.
    pub(crate) envelope: fn(&'static Front, &[u8]) -> Result<Envelope, Fault>,
    /// The fields of the conversation, and the members in it that refer to nothing.
    pub contents: Contents,
    /// Reads a body whole.
    pub read: for<'a> fn(&'a [u8]) -> RequestRead<'a>,
    /// Returns the callers' usual name for a field.
    pub field_name: fn(&Request<'_>, &Field) -> Cow<'static, str>,
    /// The callers' names for an answer's flaws: broken calls, an answer that is not JSON, thoughts
    /// that were not sealed, and citations that were lost.
    pub flaw_names: [&'static str; 4],
    /// Returns the writer of a stream.
    pub(crate) stream: NewWriter,
    /// Returns the writer of a whole answer.
    pub(crate) whole: NewWriter,
}

/// The format of Ollama's paths, which lead nowhere here: Ollama's clients get errors in the form
/// that they read.
static OLLAMA: Front = Front {
    errors: ErrorForm {
        body: |error| {
            let mut w = crate::wire::json::Writer::default();
            w.object(|w| w.texts([("error", error.message)]));
            w.into_bytes()
        },
        ..Front::COMMON.errors
    },
    ..Front::common("chat", &[])
};

/// The front door whose format OpenAI's servers speak. Requests of other formats are translated
/// into it for them.
pub static STANDARD: &Front = &CHAT;

/// The changes in a body that passes to an account with the front door's own format. Only spans of
/// a closed list are changed.
#[derive(Debug)]
pub struct Native {
    /// The name of the format. A protocol has this name too if its servers speak the format.
    pub format: &'static str,
    /// Makes the changes in a request. A setting that is weakened is a loss.
    pub(crate) request: fn(&PassedRequest<'_>, &mut Edits<'_>) -> Result<Losses, Refused>,
    /// Writes an event of a stream: its name, and its data.
    pub(crate) event: fn(&Event<'_>, &PassedAnswer, &mut Vec<u8>),
    /// The texts before the first event of a stream, between two events, and after the last one.
    pub(crate) event_separators: [&'static [u8]; 3],
    /// Writes a whole answer.
    pub(crate) whole: fn(&[u8], &PassedAnswer) -> Vec<u8>,
}

impl Native {
    /// Writes a whole answer as the only event of a stream.
    pub(crate) fn only_event(&self, body: &[u8]) -> Vec<u8> {
        // A line break of JSON stands between two of its tokens.
        let line: Vec<u8> = body
            .iter()
            .map(|byte| {
                if matches!(byte, b'\n' | b'\r') {
                    b' '
                } else {
                    *byte
                }
            })
            .collect();
        let [before, _, after] = self.event_separators;
        [before, b"data: ", &line, b"\n\n", after].concat()
    }
}

/// The reading and the writing of vectors.
pub(crate) struct VectorDoor {
    /// Reads a request whole.
    pub(crate) read: for<'a> fn(&Envelope, &'a [u8]) -> Result<Embedding<'a>, Refused>,
    /// Writes an answer with these vectors, each of which is JSON text.
    pub(crate) write: fn(&[VectorText<'_>], &AnswerHeader, &Tally) -> Vec<u8>,
    /// The places of the parts of an answer.
    pub(crate) places: &'static [VectorPlace],
}

/// The reading of requests for the number of a request's tokens.
pub struct CountForm {
    /// The path.
    pub path: &'static str,
    /// Reads a path and its query: the model, and whether a stream is asked for. `None` if the path
    /// does not lead here.
    pub route: fn(&str, Option<&str>) -> Option<PathRequest>,
    /// Returns the request whose tokens are counted, with its envelope.
    pub read: fn(Bytes, &PathRequest) -> Result<ToCount, Fault>,
    /// The field of the answer that has the number.
    pub(crate) field: &'static str,
    /// The status if no account can count. Clients then go on with an estimate of their own.
    pub uncountable_status: u16,
}

/// A request whose tokens are counted, with its envelope.
pub type ToCount = (Bytes, Envelope);

/// A request that passes.
pub(crate) struct PassedRequest<'a> {
    pub(crate) envelope: &'a Envelope,
    /// The account's name for the model.
    pub(crate) model: &'a str,
    /// The abilities and limits of the model.
    pub(crate) traits: Traits,
    /// True if it is known that the model thinks.
    pub(crate) thinks: bool,
    /// True if the account's server is asked for the usage of a stream.
    pub(crate) ask_usage: bool,
    /// The treatment of the thoughts of earlier answers.
    pub(crate) sealed: Sealed<'a>,
}

/// The front doors of conversations.
pub static FRONTS: [&Front; 5] = [&CHAT, &MESSAGES, &RESPONSES, &GEMINI, &GEMINI_ARRAY];

/// The front doors of Gemini, which has no kind of endpoint of its own.
const OF_GEMINI: [&Front; 4] = [&GEMINI, &GEMINI_ARRAY, &GEMINI_EMBED, &GEMINI_EMBEDS];

/// Every front door: one for each kind of endpoint, and Gemini's.
#[expect(
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "the compiler does it, and would not compile a panic; a new kind has a common door"
)]
pub static DOORS: [&Front; OTHERS.len() + OF_GEMINI.len()] = {
    let mut doors: [&Front; _] = [&CHAT; OTHERS.len() + OF_GEMINI.len()];
    let mut index = 0_usize;
    while index < doors.len() {
        doors[index] = match index.checked_sub(OTHERS.len()) {
            Some(number) => OF_GEMINI[number],
            None => match Endpoint::ALL[index] {
                Endpoint::Chat => &CHAT,
                Endpoint::Responses => &RESPONSES,
                Endpoint::Messages => &MESSAGES,
                Endpoint::Embeddings => &EMBEDDINGS,
                _ => &OTHERS[index],
            },
        };
        index += 1;
    }
    doors
};

/// The headers and the query's parameters that are read of a request.
#[derive(Clone, Copy)]
pub struct RequestExtras {
    /// The headers in which clients name a conversation: the first that is there counts.
    pub session_headers: &'static [&'static str],
    /// The headers that are passed on to an account of the same format.
    pub passed_headers: &'static [&'static str],
    /// The parameter of the query in which clients may send the key.
    pub query_key: Option<&'static str>,
}

/// The parts of a stream that are not its events.
#[derive(Clone, Copy)]
pub struct StreamFrame {
    /// The `content-type`.
    pub content_type: &'static str,
    /// The text that keeps a silent stream open, and is no part of the answer.
    pub keepalive: &'static [u8],
    /// Returns the text that stands in a stream for a header that came too late. It is empty if
    /// clients would not understand the text.
    pub late_header: fn(&str, &str) -> String,
}

/// A request, and its caller's names for the fields; or the refusal of the body.
pub type RequestRead<'a> = Result<(Request<'a>, FieldNames), Refused>;

/// Returns a writer of an answer with this header.
pub(crate) type NewWriter = fn(&AnswerHeader) -> Box<dyn AnswerWriter>;

impl Front {
    /// The values that most front doors share. The static of each door replaces the others.
    const COMMON: Front = Front {
        name: "",
        paths: &[],
        stream_path: None,
        route: |front, path, _| {
            let mut paths = front.paths.iter();
            paths.find_map(|wanted| route::route_fixed(path, wanted))
        },
        owns: route::owns_path,
        only_endpoint: None,
        extras: RequestExtras {
            session_headers: &[],
            passed_headers: &[],
            query_key: None,
        },
        errors: ErrorForm {
            unavailable_status: 503,
            hopeless_status: 503,
            overloaded_status: None,
            failed_status: None,
            cut_after_error: false,
            obeys_long_waits: false,
            asks_upgrade: false,
            id_header: None,
            body: chat::errors::error_body,
            final_event: chat::errors::error_event,
        },
        models: chat::models::LISTS,
        probes: "",
        native: None,
        vectors: None,
        counting: None,
        id_prefix: "",
        stream_frame: StreamFrame {
            content_type: "text/event-stream",
            keepalive: b": keepalive\n\n",
            late_header: |name, value| format!(": {name}: {value}\n\n"),
        },
        envelope: other_endpoints::read_paid_envelope,
        contents: Contents {
            fields: &["input", "documents", "query", "prompt", "suffix"],
            may_refer: |name, _, is_text| !is_text || name != b"text",
            results: &[],
            call_marks: &[],
        },
        read: |_| {
            Err(Refused::invalid(
                "model",
                "this endpoint holds no conversation",
            ))
        },
        field_name: |request, field| Wording::Chat.field_name(request, field),
        flaw_names: [""; 4],
        stream: |_| Box::new(NullWriter::default()),
        whole: |_| Box::new(NullWriter::default()),
    };

    /// Returns a front door of this name at these paths, with the values that most share.
    const fn common(name: &'static str, paths: &'static [&'static str]) -> Front {
        Front {
            name,
            paths,
            ..Front::COMMON
        }
    }

    /// Returns the front door of a kind of endpoint, with the values that most share.
    const fn of_endpoint(endpoint: Endpoint) -> Front {
        let facts = endpoint.facts();
        Front {
            id_prefix: facts.id_prefix,
            ..Front::common(facts.name, facts.paths)
        }
    }

    /// Returns the front door of this name.
    pub fn find(name: &str) -> Option<&'static Front> {
        DOORS.into_iter().find(|front| front.name == name)
    }

    /// Reads a path and its query: the model, and whether a stream is asked for. `None` if the path
    /// does not lead here.
    pub fn route(&self, path: &str, query: Option<&str>) -> Option<PathRequest> {
        (self.route)(self, path, query)
    }

    /// Reads the envelope of a body.
    pub fn envelope(&'static self, body: &[u8]) -> Result<Envelope, Fault> {
        (self.envelope)(self, body)
    }

    /// Returns whether this is the format of OpenAI's servers, so that bodies pass through to them.
    pub fn passes(&self) -> bool {
        self == STANDARD
    }

    /// Returns the format in which callers at this path expect an answer, even an error. Where
    /// several formats share a path, the headers and the query decide.
    pub fn for_path(path: &str, query: Option<&str>, has: &HasHeader<'_>) -> &'static Front {
        if let Some(owner) = DOORS.into_iter().find(|front| (front.owns)(front, path)) {
            owner
        } else if path.trim_start_matches('/').starts_with("api/") {
            &OLLAMA
        } else {
            FRONTS
                .into_iter()
                .find(|front| (front.models.is_wanted)(has, query))
                .unwrap_or(STANDARD)
        }
    }

    /// Reads the envelope of a request. If only the path names the model, the name is written into
    /// the body where the format has it there.
    pub fn request(
        &'static self,
        mut body: Bytes,
        asked: PathRequest,
    ) -> Result<(Bytes, Envelope), Fault> {
        let mut envelope = self.envelope(&body);
        if let Some(model) = &asked.model {
            if envelope
                .as_ref()
                .is_err_and(|fault| *fault == Fault::missing("model"))
            {
                body = with_model(&body, model);
                envelope = self.envelope(&body);
            } else if envelope
                .as_ref()
                .is_ok_and(|envelope| !["", model].contains(&&*envelope.model))
            {
                return Err(Fault::of_value(
                    "model",
                    "`model` is not the model that the path names",
                ));
            }
        }
        Ok((body, envelope?.with_path(asked)))
    }

    /// Returns each key in a query. Empty keys are left out; a key that cannot be decoded is
    /// returned as an empty one.
    pub fn keys_in_query(&self, query: Option<&str>) -> Vec<Vec<u8>> {
        let name = self.extras.query_key;
        let pairs = query
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let keys = pairs.filter(|(found, key)| Some(*found) == name && !key.is_empty());
        keys.map(|(_, key)| percent::decode_text(key).unwrap_or_default())
            .collect()
    }

    /// Returns the names of an answer's flaws, for the header `x-portcullis-dropped`.
    pub fn flaws(&self, flaws: Flaws) -> impl Iterator<Item = &'static str> {
        let found = [
            flaws.broken_calls > 0,
            flaws.not_json,
            flaws.not_sealed,
            flaws.not_cited,
        ];
        self.flaw_names
            .into_iter()
            .zip(found)
            .filter_map(|(name, is_there)| is_there.then_some(name))
    }

    /// Returns the header with a stream's flaws, as a text of the stream: the headers have left
    /// already. The text is empty if there are no flaws.
    pub fn late_flaws(&self, flaws: Flaws) -> String {
        let names: Vec<&str> = self.flaws(flaws).collect();
        if names.is_empty() {
            String::new()
        } else {
            (self.stream_frame.late_header)("x-portcullis-dropped", &names.join(", "))
        }
    }

    /// Returns the front door of a format, by the format's name.
    pub(crate) fn of_format(format: &str) -> Option<&'static Front> {
        DOORS.into_iter().find(|front| {
            front
                .native
                .as_ref()
                .is_some_and(|native| native.format == format)
        })
    }

    /// Returns the field that has this name in the format, or whose part has it.
    pub(crate) fn field(&self, name: &str) -> Field {
        let without_numbers: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
        let before = |end: char| name.split(end).next().unwrap_or_default();
        [name, &without_numbers, before('['), before('.')]
            .into_iter()
            .find_map(|name| self.known_field(name))
            .unwrap_or_else(|| Field::other(name))
    }

    /// Returns the field that has exactly this name.
    fn known_field(&self, name: &str) -> Option<Field> {
        let other_names = SAME.iter().find(|(other_name, _)| *other_name == name);
        if let Some((_, field)) = other_names {
            return Some(field.clone());
        }
        NAMED
            .iter()
            .find(|field| (self.field_name)(&Request::default(), field) == name)
            .cloned()
    }

    /// Writes the field of an upstream's error in the caller's words. A server that speaks the
    /// format of `upstream_front` uses that door's names.
    pub(crate) fn name_error_field(
        &self,
        upstream_front: Option<&Front>,
        mut error: UpstreamError,
    ) -> UpstreamError {
        if let Some(upstream_front) =
            upstream_front.filter(|upstream_front| *upstream_front != self)
            && let Some(param) = error.param.take()
        {
            error.field = Some(upstream_front.field(&param).into());
        }
        if let Some(field) = error.field.take() {
            error.param = Some((self.field_name)(&Request::default(), &field).into());
        }
        error
    }
}

/// Writes the model into an object that has none.
fn with_model(body: &[u8], model: &str) -> Bytes {
    let begin = memchr::memchr(b'{', body).map_or(body.len(), |brace| brace + 1);
    let (before, rest) = body.split_at(begin);
    let comma = if rest.trim_ascii_start().starts_with(b"}") {
        ""
    } else {
        ","
    };
    let field = format!("\"model\":{}{comma}", json::quote_string(model));
    [before, field.as_bytes(), rest].concat().into()
}

/// The fields that have a name of their own in several formats.
const NAMED: [Field; 34] = [
    Field::Messages,
    Field::ParticipantName,
    Field::Reasoning,
    Field::Thoughts,
    Field::CallSignature,
    Field::CallArguments,
    Field::CustomCall,
    Field::ImageDetail,
    Field::FileName,
    Field::Tools,
    Field::ToolParameters,
    Field::ToolStrict,
    Field::ToolChoice,
    Field::ParallelCalls,
    Field::Format,
    Field::FormatDescription,
    Field::FormatSchema,
    Field::FormatStrict,
    Field::MaxTokens,
    Field::Temperature,
    Field::TopP,
    Field::TopK,
    Field::FrequencyPenalty,
    Field::PresencePenalty,
    Field::Stop,
    Field::Seed,
    Field::Choices,
    Field::Logprobs,
    Field::Audio,
    Field::Effort,
    Field::Thinking,
    Field::User,
    Field::Metadata,
    Field::ServiceTier,
];

/// Older and newer names of some fields, and the names of objects that hold them.
const SAME: [(&str, Field); 5] = [
    ("max_completion_tokens", Field::MaxTokens),
    ("reasoning", Field::Effort),
    ("safety_identifier", Field::User),
    ("text", Field::Format),
    ("user", Field::User),
];

/// Each front door has another name.
impl PartialEq for Front {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Front {}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollamas_clients_are_told_of_errors_in_their_form() {
        let error = CallerError {
            status: 404,
            kind: "invalid_request_error",
            code: Some("unknown_url"),
            param: None,
            message: "no",
            request_id: "r",
            retry_after: None,
            answer: AnswerSoFar::default(),
        };
        for path in ["/api/chat", "/api/tags", "/api/generate"] {
            assert_eq!(
                (Front::for_path(path, None, &|_| false).errors.body)(&error),
                br#"{"error":"no"}"#
            );
        }
    }

    #[test]
    fn a_path_may_name_the_model_without_contradiction() {
        let asked = |model: Option<&str>| PathRequest {
            model: model.map(str::to_owned),
            stream: false,
        };
        let read = |front: &'static Front, body: &str, model: Option<&str>| {
            let read = front.request(Bytes::copy_from_slice(body.as_bytes()), asked(model));
            read.map(|(body, envelope)| {
                let place = envelope.places.model.clone();
                assert_eq!(
                    envelope.model.is_empty() || front == &GEMINI,
                    place.is_empty(),
                    "its place is known"
                );
                (
                    String::from_utf8(body.to_vec()).unwrap(),
                    envelope.model,
                    envelope.stream,
                )
            })
        };
        let said =
            |body: &str, model: &str, stream| Ok((body.to_owned(), model.to_owned(), stream));
        let body = r#" {"messages":[{"role":"user","content":"{"}],"stream":true}"#;
        let named = r#" {"model":"a\"b","messages":[{"role":"user","content":"{"}],"stream":true}"#;
        assert_eq!(read(&CHAT, body, Some("a\"b")), said(named, "a\"b", true));
        assert_eq!(read(&CHAT, named, Some("a\"b")), said(named, "a\"b", true));
        assert_eq!(read(&CHAT, named, None), said(named, "a\"b", true));
        let param = |read: Result<_, Fault>| {
            read.map(|_: (String, String, bool)| ())
                .map_err(|fault| (fault.param, fault.code))
        };
        assert_eq!(
            param(read(&CHAT, named, Some("a"))),
            Err((Some("model".into()), Some("invalid_value")))
        );
        assert_eq!(
            param(read(&CHAT, body, None)),
            Err((Some("model".into()), Some("missing_required_parameter")))
        );
        assert_eq!(
            param(read(&CHAT, "{ }", Some("m"))),
            Err((Some("messages".into()), Some("missing_required_parameter")))
        );
        let contents = r#"{"contents":[{"role":"user","parts":[{"text":"x"}]}]}"#;
        assert_eq!(
            read(&GEMINI, contents, Some("m")),
            said(contents, "m", false),
            "where the path alone names it"
        );
    }

    #[test]
    fn flaws_are_named_once_each() {
        for (flaws, comment) in [
            (Flaws::default(), ""),
            (
                Flaws {
                    broken_calls: 2,
                    ..Flaws::default()
                },
                ": x-portcullis-dropped: tool_calls[].function.arguments\n\n",
            ),
            (
                Flaws {
                    not_json: true,
                    ..Flaws::default()
                },
                ": x-portcullis-dropped: response_format\n\n",
            ),
            (
                Flaws {
                    not_cited: true,
                    ..Flaws::default()
                },
                ": x-portcullis-dropped: annotations\n\n",
            ),
            (
                Flaws {
                    broken_calls: 1,
                    not_json: true,
                    ..Flaws::default()
                },
                ": x-portcullis-dropped: tool_calls[].function.arguments, response_format\n\n",
            ),
        ] {
            assert_eq!(CHAT.late_flaws(flaws), comment);
        }
    }
}
