//! From a dialect's name to its functions: the gateway's work on a request and its answer, without
//! the network in between.

pub use crate::models::{DIALECTS, Dialect, RESPONSES};
use bytes::Bytes;
use dialects::front::{CHAT, Front, GEMINI_ARRAY, PathRequest};
use dialects::neutral::answer::{self, AnswerOptions};
use dialects::neutral::{Kept, Losses, Refused, Thought, Undo};
use dialects::upstream::{Endpoints, bedrock};
use dialects::usage::Usage;
use dialects::{
    Answer, AnswerFault, AnswerHeader, Endpoint, ErrorHead, Flaws, Protocol, Recipient, Settings,
    StreamFault, Translate, UpstreamError,
};

/// The dialects, and that one.
pub fn all() -> impl Iterator<Item = Dialect> {
    DIALECTS.into_iter().chain([RESPONSES])
}

const EVENT_LIMIT: usize = 1024 * 1024;

/// A request on its way.
pub struct Sent {
    /// From the host's root on.
    pub path: String,
    pub dropped: Vec<String>,
    pub body: String,
    pub undo: Undo,
}

impl Dialect {
    /// Nothing is recorded of Bedrock's `invoke`, by which callers of Messages ask Claude:
    /// `translates` is the way of all others.
    fn spoken(self, translates: bool) -> dialects::Dialect {
        static CONVERSE: Protocol = Protocol {
            endpoints: Endpoints {
                other_protocol: |_, _| None,
                ..bedrock::PROTOCOL.endpoints
            },
            ..bedrock::PROTOCOL
        };
        let settings = Settings {
            version: Some("2025-04-01-preview".into()),
            project: Some("acme".into()),
            region: Some("europe-west1".into()),
            ..Settings::NONE
        };
        if self == RESPONSES {
            return dialects::Dialect::new(Protocol::find("openai").expect("a dialect"), settings)
                .for_endpoint(Endpoint::Responses);
        }
        let protocol = Protocol::find(self.name).expect("a dialect");
        let is_converse = translates && *protocol == CONVERSE;
        dialects::Dialect::new(if is_converse { &CONVERSE } else { protocol }, settings)
    }

    /// Whether answers pass through but for the spans that must change.
    pub fn passes(self) -> bool {
        self.spoken(false).protocol.passes()
    }

    /// Writes a request of a front door's caller. `kept` are thoughts of earlier answers, by their
    /// calls.
    pub fn write(
        self,
        front: &'static Front,
        model: &str,
        body: &str,
        kept: &[answer::Kept],
    ) -> Result<Sent, Refused> {
        let spoken = self.spoken(false);
        let body = Bytes::copy_from_slice(body.as_bytes());
        let envelope = front.envelope(&body).expect("a request");
        // Where the body does not name the model, the path does.
        let asked = PathRequest {
            model: envelope.model.is_empty().then(|| "m".to_owned()),
            stream: *front == GEMINI_ARRAY,
        };
        let envelope = envelope.with_path(asked);
        let of = |id: &str| {
            kept.iter()
                .find(|kept| kept.call == id)
                .map(|found| Kept::from(found.thoughts.as_slice()))
        };
        let outbound = spoken.write(&Translate {
            traits: (spoken.protocol.traits)(model),
            kept: &of,
            other: &|_| dialects::OtherModel::Elsewhere,
            ..Translate::new(&body, &envelope, model)
        })?;
        Ok(Sent {
            path: format!("{}{}", self.base, outbound.path),
            dropped: names(&outbound.losses),
            body: String::from_utf8(outbound.body.concat()).expect("UTF-8"),
            undo: outbound.undo,
        })
    }

    /// Reads an error, for callers of a front door: the error, and the status that it means.
    pub fn error(self, front: &Front, head: &ErrorHead<'_>, body: &[u8]) -> (UpstreamError, u16) {
        let spoken = self.spoken(false);
        let error = spoken.error(front, head, body);
        let meant = spoken.true_status(head.status, &error);
        (error, meant)
    }

    /// Reads a buffered answer.
    pub fn answer(
        self,
        to: For,
        model: &str,
        body: &[u8],
    ) -> Result<(Answer, Vec<answer::Kept>), AnswerFault> {
        let header = header(to.0);
        self.spoken(true)
            .answer(model, &self.recipient(to, &header), body)
    }

    /// Reads a buffered answer where a stream was asked for.
    pub fn converted(self, to: For, model: &str, body: &[u8]) -> Result<Answer, AnswerFault> {
        let header = header(to.0);
        self.spoken(true)
            .converted(model, &self.recipient(to, &header), body)
            .map(|(answer, _)| answer)
    }

    /// Reads a stream that comes in these pieces. Returns the caller's bytes, and the end.
    pub fn stream<'b>(
        self,
        to: For,
        model: &str,
        pieces: impl Iterator<Item = &'b [u8]>,
    ) -> Streamed {
        let mut out = Vec::new();
        let header = header(to.0);
        let mut stream = self
            .spoken(true)
            .stream(model, self.recipient(to, &header), EVENT_LIMIT);
        let end = feed(pieces, |piece| {
            stream.feed(piece, &mut out).map(|()| stream.done())
        });
        let end = end.and_then(|()| stream.finish(&mut out, None));
        Streamed {
            out,
            end,
            flaws: stream.flaws(),
            kept: stream.kept(),
        }
    }

    fn recipient(self, For(front, undo): For, header: &AnswerHeader) -> Recipient<'_> {
        let keep_thoughts = self.spoken(true).protocol.family.is_some();
        Recipient {
            front,
            header,
            options: AnswerOptions {
                undo,
                hide_reasoning: false,
                keep_thoughts,
                seal: None,
            },
        }
    }
}

/// The front door whose caller gets an answer, and the changes that reading the answer must undo.
#[derive(Clone)]
pub struct For(pub &'static Front, pub Undo);

impl For {
    /// For a caller who speaks chat completions.
    pub fn chat(undo: Undo) -> Self {
        Self(&CHAT, undo)
    }
}

/// The result of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Streamed {
    pub out: Vec<u8>,
    pub end: Result<Usage, StreamFault>,
    pub flaws: Flaws,
    pub kept: Vec<answer::Kept>,
}

/// Until there are no more pieces, or none is wanted.
fn feed<'b>(
    mut pieces: impl Iterator<Item = &'b [u8]>,
    mut take: impl FnMut(&'b [u8]) -> Result<bool, StreamFault>,
) -> Result<(), StreamFault> {
    loop {
        let Some(piece) = pieces.next() else {
            return Ok(());
        };
        if take(piece)? {
            return Ok(());
        }
    }
}

fn header(front: &Front) -> AnswerHeader {
    AnswerHeader {
        model: "m".into(),
        id: format!("{}golden", front.id_prefix),
        created: 1_700_000_000,
        show_usage: true,
        prompt_bytes: 400,
        ..AnswerHeader::default()
    }
}

fn names(losses: &Losses) -> Vec<String> {
    losses
        .names()
        .iter()
        .map(|name| name.clone().into_owned())
        .collect()
}

/// Kept thoughts, to be compared and shown.
pub fn shown(kept: &[answer::Kept]) -> String {
    let one = |thought: &Thought<'_>| match &thought.redacted {
        Some(data) => format!("redacted {data}"),
        None => format!(
            "{:?} signed {}",
            thought.text,
            thought.signature.as_deref().unwrap_or("-")
        ),
    };
    kept.iter()
        .map(|kept| {
            format!(
                "{}: {}\n",
                kept.call,
                kept.thoughts.iter().map(one).collect::<Vec<_>>().join(", ")
            )
        })
        .collect()
}
