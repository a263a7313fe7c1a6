//! The seam between the callers' format and an account's.
//!
//! Callers speak the format of a front door, which is a [`Front`]. An account speaks a [`Dialect`];
//! its [`Protocol`] is the extension point, one static a dialect. If both formats are equal, as
//! chat and [`openai`] are, the bytes pass through but for the spans that must change. All other
//! requests and answers are written from and read into the neutral form ([`crate::neutral`]).
//!
//! | Module | What it has |
//! |---|---|
//! | `job` | the job of writing a request, and the request that it makes |
//! | `renamed` | the account's names for the other models that a request names |
//! | `vectors` | requests for vectors, and the answers with them |
//! | `counting` | requests for the number of a request's tokens |
//! | `empty` | requests that only find out if an endpoint is there |
//! | `reported` | the usage of an answer that reaches no caller |
//! | `stream` | the reading of a stream, by one of the conversions |
//! | `conversion` | the trait of the conversions: the next four modules have them |
//! | `chunked` | chunks of OpenAI's format, that pass or are written in another format |
//! | `native` | events of another format, that pass |
//! | `translated` | events that are read and written anew |
//! | `raw` | bytes that pass as they are |
//! | `decoder` | the cutting of bytes into events |

mod chunked;
mod conversion;
mod counting;
mod decoder;
mod empty;
mod job;
mod native;
mod raw;
mod renamed;
mod reported;
mod stream;
mod translated;
mod vectors;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::front::{
    Envelope, Front, INPUT_TYPE, Native, NewWriter, PassedAnswer, PassedRequest, STANDARD,
};
use crate::neutral::answer::{AnswerOptions, Draft, Kept, NullWriter};
use crate::neutral::traits::Traits;
use crate::neutral::{
    Answer, AnswerFault, AnswerHeader, Echo, Emit, Endpoint, ErrorHead, Family, Flaws, Refused,
    Undo, UpstreamError, Written,
};
use crate::upstream::{Prices, Protocol, Settings, Translation, openai};
use crate::wire::json::repaired_text;
use crate::wire::splice::Edits;
use chunked::ComposedChunks;
use decoder::Decoder;
use native::{NativeStream, Passing};
use translated::{Translated, TranslatedStream, read_repaired};

use crate::wire::without_bom;
pub use job::{OtherModel, Outbound, Translate};
use job::{WrittenAndRead, fixed_headers, translate_request};
pub use stream::Stream;
pub use vectors::{Slices, in_whole, join_answers};

/// The dialect of an account: a protocol, and the account's settings for it.
#[derive(Debug, Clone)]
pub struct Dialect {
    /// The facts that are equal for all accounts of the dialect.
    pub protocol: &'static Protocol,
    /// The facts that differ between accounts.
    settings: Settings,
}

/// The receiver of an answer: a front door, and the facts that shape the answer.
#[derive(Debug, Clone)]
pub struct Recipient<'a> {
    /// The format of the answer.
    pub front: &'static Front,
    /// The facts that the answer shows, whatever the upstream sends.
    pub header: &'a AnswerHeader,
    /// The options by which events become the answer.
    pub options: AnswerOptions,
}

impl From<&'static Protocol> for Dialect {
    fn from(protocol: &'static Protocol) -> Dialect {
        Dialect::new(protocol, Settings::NONE)
    }
}

impl Dialect {
    /// Returns a dialect of this protocol with these settings.
    pub fn new(protocol: &'static Protocol, mut settings: Settings) -> Dialect {
        if let Some(quirks) = protocol.quirks_of_version {
            settings.quirks = quirks(settings.version.as_deref());
        }
        Dialect { protocol, settings }
    }

    /// Returns the facts that differ between accounts of the dialect.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the dialect of an account's endpoint of this kind, or of its chat if it has no such
    /// endpoint.
    #[must_use]
    pub fn for_endpoint(&self, endpoint: Endpoint) -> Dialect {
        let protocol = self
            .protocol
            .for_endpoint(endpoint)
            .unwrap_or(self.protocol);
        Dialect {
            protocol,
            settings: self.settings.clone(),
        }
    }

    /// Returns the kinds of endpoint of a server at this host, if its account does not name them.
    pub fn serves(&self, host: &str) -> &'static [Endpoint] {
        (self.protocol.endpoints.default_endpoints)(&self.settings, host)
    }

    /// Writes a request.
    pub fn write(&self, job: &Translate<'_>) -> Result<Outbound, Refused> {
        let Some((body, envelope)) = self.rename_models(job)? else {
            return self.write_named(job);
        };
        let mut outbound = self.write_named(&Translate {
            body: &body,
            envelope: &envelope,
            ..*job
        })?;
        // The parts of a passing body are cut out of this copy.
        outbound.copied += body.len();
        Ok(outbound)
    }

    fn write_named(&self, job: &Translate<'_>) -> Result<Outbound, Refused> {
        let (protocol, way) = self.choose_way(job.envelope.front, job.model, job.hide_reasoning);
        let path = protocol.path(&self.settings, job.model, job.envelope.stream);
        match way {
            Way::Standard => self.pass(job, path),
            Way::Composed => self.compose(job, path),
            Way::Native(native, translation) => self.pass_native(job, path, native, translation),
            Way::Translated(translation) => match translation.vectors {
                Some(form) => self.ask_vectors(job, path, form),
                None => translate_request(job, path, translation),
            },
        }
    }

    /// Returns the protocol by which the callers of a front door ask for a model, and the way of
    /// the request and its answer. An answer in the callers' own format shows its thinking, so it
    /// is not asked for where thinking is hidden.
    fn choose_way(
        &self,
        front: &'static Front,
        model: &str,
        hides_thinking: bool,
    ) -> (&'static Protocol, Way) {
        let default = self.protocol.for_model(model);
        let may_pass = !hides_thinking || front.only_endpoint.is_some();
        if let Some(native) = front.native.as_ref().filter(|_| may_pass) {
            let other_protocol = (default.endpoints.other_protocol)(&self.settings, model);
            for protocol in std::iter::once(default).chain(other_protocol) {
                if let Some(translation) = &protocol.translation
                    && translation.format == native.format
                {
                    return (protocol, Way::Native(native, translation));
                }
            }
        }
        let way = match &default.translation {
            Some(translation) => Way::Translated(translation),
            None if front.passes() => Way::Standard,
            None => Way::Composed,
        };
        (default, way)
    }

    /// Passes a request that is in the account's own format.
    fn pass_native(
        &self,
        job: &Translate<'_>,
        path: Cow<'static, str>,
        native: &Native,
        translation: &Translation,
    ) -> Result<Outbound, Refused> {
        let Translate {
            body,
            envelope,
            model,
            traits,
            ..
        } = *job;
        self.check(job)?;
        let mut edits = Edits::with_limit(body, MOST_EDITS);
        let thinks = openai::is_thinking_model(model, &traits);
        let ask_usage = job.stream_usage && self.settings.quirks.stream_options;
        let passed = PassedRequest {
            envelope,
            model,
            traits,
            thinks,
            ask_usage,
            sealed: job.sealed,
        };
        let mut losses = (native.request)(&passed, &mut edits)?;
        if envelope.front.is_form() {
            self.edit_names(job, &mut edits)?;
        }
        if edits.is_over() {
            let message = "the conversation has too many parts that would have to change on the way to this model";
            return Err(Refused::invalid("", message));
        }
        let headers = envelope.headers.iter();
        let mut headers = headers
            .filter(|(name, _)| *name != INPUT_TYPE)
            .map(|(name, value)| (*name, Cow::Owned(value.clone())))
            .collect();
        if let Some(cloud) = translation.cloud {
            headers = cloud.fit(&mut edits, headers, &mut losses);
        }
        let (parts, copied) = edits.parts(body);
        // A whole answer that comes in place of a stream is written anew.
        let echo = Echo {
            shows_thinking: true,
            carries_thoughts: true,
            ..Echo::default()
        };
        Ok(Outbound {
            path,
            body: parts,
            headers,
            copied,
            losses,
            undo: Undo {
                echo: Some(Arc::new(echo)),
                vectors: envelope.places.inputs.clone(),
                ..Undo::default()
            },
        })
    }

    /// Refuses a request for something that the model cannot do at all. A request that cannot be
    /// read here passes: the account's server judges it.
    fn check(&self, job: &Translate<'_>) -> Result<(), Refused> {
        if job.traits.deny()
            && let Ok((request, names)) = (job.envelope.front.read)(job.body)
        {
            job.traits
                .check(&request)
                .map_err(|why| names.refused(&request, why))?;
        }
        Ok(())
    }

    /// Writes a request of another format in OpenAI's format, and then as its server wants it.
    fn compose(&self, job: &Translate<'_>, path: Cow<'static, str>) -> Result<Outbound, Refused> {
        let fetches = !self.settings.quirks.inline_images;
        let WrittenAndRead {
            request,
            names,
            written,
        } = job
            .read_and_write(|request, target| openai::compose_request(request, target, fetches))?;
        let Written {
            body,
            mut losses,
            undo,
            headers,
        } = written;
        let body = Bytes::from(body);
        // All its fields that matter are known: the body was written a moment ago.
        let envelope = Envelope {
            model: job.model.to_owned(),
            stream: job.envelope.stream,
            ..Envelope::new(STANDARD)
        };
        let to = openai::WriteTarget {
            fill_max_tokens: None,
            ..self.write_target(job)
        };
        let in_words = |name: &str| names.name(&request, &STANDARD.field(name)).into_owned();
        let (body, lost) =
            openai::write_request(&body, &envelope, &to).map_err(|why| why.about(in_words))?;
        lost.names()
            .iter()
            .for_each(|name| losses.add(in_words(name)));
        let copied = body.iter().map(Bytes::len).sum();
        Ok(Outbound {
            path,
            body,
            headers: fixed_headers(headers),
            copied,
            losses,
            undo,
        })
    }

    /// Returns what the server of a request in OpenAI's format wants of it.
    fn write_target<'a>(&self, job: &Translate<'a>) -> openai::WriteTarget<'a> {
        openai::WriteTarget {
            model: job.model,
            ask_usage: job.envelope.stream && job.stream_usage,
            fill_max_tokens: job.default_max_tokens,
            quirks: self.settings.quirks,
        }
    }

    fn pass(&self, job: &Translate<'_>, path: Cow<'static, str>) -> Result<Outbound, Refused> {
        self.check(job)?;
        let to = self.write_target(job);
        let (body, losses) = openai::write_request(job.body, job.envelope, &to)?;
        Ok(Outbound {
            path,
            body,
            headers: Vec::new(),
            copied: 0,
            losses,
            undo: Undo::default(),
        })
    }

    /// Returns whether a model's name must not stand in a path where this dialect would write it.
    /// Even percent-encoded it must not: a server behind the upstream may decode it.
    pub fn cannot_address(&self, model: &str) -> bool {
        (self.protocol.model_in_path)(&self.settings)
            && (model.contains(['?', '#', '\\'])
                || model.chars().any(char::is_control)
                || model.split('/').any(|part| matches!(part, "" | "." | "..")))
    }

    /// Reads a buffered answer of this model, for a caller who asked for a whole one.
    pub fn answer(
        &self,
        model: &str,
        to: &Recipient<'_>,
        body: &[u8],
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        self.buffered(model, to, body, true)
    }

    /// Reads a buffered answer that came where a stream was asked for, and writes it as a stream.
    /// Its headers have not left, so they can show the whole trail.
    pub fn converted(
        &self,
        model: &str,
        to: &Recipient<'_>,
        body: &[u8],
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        self.buffered(model, to, body, false)
    }

    /// Reads a buffered answer, and writes it as a whole answer or as a stream.
    fn buffered(
        &self,
        model: &str,
        to: &Recipient<'_>,
        body: &[u8],
        is_whole: bool,
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        let Recipient {
            front,
            header,
            options,
        } = to;
        let writer = if is_whole { front.whole } else { front.stream };
        let (protocol, way) = self.choose_way(front, model, options.hide_reasoning);
        let (native, translation) = match way {
            Way::Standard => {
                let pass = if is_whole {
                    openai::correct_answer
                } else {
                    openai::answer_as_stream
                };
                let answer = pass(header, self.settings.quirks, !options.hide_reasoning, body)?;
                return Ok((answer, Vec::new()));
            }
            Way::Composed => return self.composed(to, body, writer),
            Way::Native(native, translation) => (Some(native), translation),
            Way::Translated(translation) => (None, translation),
        };
        if let Some(form) = translation.vectors {
            let answer = Self::answer_vectors(form, to, body, native.is_some());
            return answer
                .map(|answer| (answer, Vec::new()))
                .map_err(|fault| name_fault_field(front, protocol, fault));
        }
        let native = native.filter(|_| is_whole || front.only_endpoint.is_some());
        let read = read_repaired(body, |body| {
            let writer = if native.is_some() {
                Box::new(NullWriter::default())
            } else {
                writer(header)
            };
            let draft = Draft::new(header, options.clone(), writer);
            let (mut answer, kept) = draft.whole(|emit| (translation.answer)(model, body, emit))?;
            if let Some(native) = native {
                let body = without_bom(body);
                let clean = repaired_text(body);
                answer.body = (native.whole)(
                    clean.as_deref().unwrap_or(body),
                    &PassedAnswer::new(header, options),
                );
                if !is_whole {
                    answer.body = native.only_event(&answer.body);
                }
            }
            Ok((answer, kept))
        });
        read.map_err(|fault| name_fault_field(front, protocol, fault))
    }

    /// Reads a buffered answer in OpenAI's format, for callers of another format.
    fn composed(
        &self,
        to: &Recipient<'_>,
        body: &[u8],
        writer: NewWriter,
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        let Recipient {
            header, options, ..
        } = to;
        let standard =
            openai::correct_answer(header, self.settings.quirks, !options.hide_reasoning, body)?;
        let mut draft = Draft::new(header, options.clone(), writer(header));
        draft.progress.tally.count_from_usage(&standard.usage);
        let read = |emit: Emit<'_>| openai::read_answer(&standard.body, emit);
        let (answer, kept) = draft.whole(|emit| read(emit).map_err(AnswerFault::Nonsense))?;
        let composed = Answer {
            body: answer.body,
            flaws: Flaws {
                not_cited: answer.flaws.not_cited,
                ..standard.flaws
            },
            ..standard
        };
        Ok((composed, kept))
    }

    /// Begins to read one stream of this model; no event may be longer than `event_limit` bytes.
    pub fn stream(&self, model: &str, to: Recipient<'_>, event_limit: usize) -> Stream {
        let Recipient {
            front,
            header,
            options,
        } = to;
        let (quirks, show_reasoning) = (self.settings.quirks, !options.hide_reasoning);
        let (protocol, way) = self.choose_way(front, model, options.hide_reasoning);
        match way {
            Way::Standard => Stream::passed(header, quirks, show_reasoning, event_limit),
            Way::Composed => {
                let chunks = openai::Chunks::new(header, quirks, show_reasoning);
                let draft = Draft::new(header, options, (front.stream)(header));
                Stream::new(ComposedChunks::new(chunks, draft, event_limit))
            }
            Way::Native(native, translation) => {
                let passed = PassedAnswer::new(header, &options);
                let draft = Draft::new(header, options, Box::new(NullWriter::default()));
                let reader = (translation.reader)(model);
                let translated = Translated::new(front, protocol.of_front(), reader, draft, header);
                let passing = Passing::new(translated, native, translation, passed);
                let decoder = Decoder::new(protocol.framing, event_limit);
                Stream::new(NativeStream { decoder, passing })
            }
            Way::Translated(translation) => {
                let draft = Draft::new(header, options, (front.stream)(header));
                let reader = (translation.reader)(model);
                let translated = Translated::new(front, protocol.of_front(), reader, draft, header);
                let decoder = Decoder::new(protocol.framing, event_limit);
                Stream::new(TranslatedStream {
                    decoder,
                    translated,
                })
            }
        }
    }

    /// Returns the status that fits an error. It may differ from the status that came with the
    /// error.
    pub fn true_status(&self, seen: u16, error: &UpstreamError) -> u16 {
        // A server that imitates OpenAI's may have the true status in the body. But it cannot make
        // its own fault the caller's, unless a filter stopped the request.
        let is_loose =
            self.protocol.is_imitated && !(400..500).contains(&seen) && !error.is_filtered();
        error.status.filter(|_| !is_loose).unwrap_or(seen)
    }

    /// Reads an answer with the status of an error, for the callers of a front door.
    pub fn error(&self, front: &Front, head: &ErrorHead<'_>, body: &[u8]) -> UpstreamError {
        front.name_error_field(
            self.protocol.of_front(),
            (self.protocol.error)(&self.settings, head, body),
        )
    }

    /// Returns the family of a model whose signed thoughts are sent back.
    pub fn family(&self, model: &str) -> Option<Family> {
        self.protocol.for_model(model).family
    }

    /// Returns the place of the maximum of tokens in a translated request for a model: a JSON
    /// pointer.
    pub fn max_tokens(&self, model: &str) -> Option<&'static str> {
        self.protocol
            .for_model(model)
            .translation
            .map(|translation| translation.max_tokens)
    }

    /// Returns the source of a model's price.
    pub fn prices(&self) -> Prices {
        (self.protocol.prices)(&self.settings)
    }
}

/// Chooses the kind of endpoint for the requests of a front door. The endpoint of the door's own
/// format comes first. For callers of other formats, a model that thinks is asked at Responses,
/// which carry the most of its thoughts. Otherwise it is chat, or another endpoint that holds
/// conversations.
pub fn endpoint_for(
    served: impl Fn(Endpoint) -> bool,
    front: &Front,
    model: &str,
    traits: &Traits,
) -> Endpoint {
    let own = front
        .native
        .as_ref()
        .and_then(|native| Endpoint::find(native.format));
    let for_thinkers = (!front.passes() && openai::is_thinking_model(model, traits))
        .then_some(Endpoint::Responses);
    let mut wanted = [own, for_thinkers].into_iter().flatten().chain(
        Endpoint::ALL
            .into_iter()
            .filter(|kind| kind.is_conversation()),
    );
    wanted.find(|kind| served(*kind)).unwrap_or_default()
}

/// The way in which a request becomes the server's, and its answer the caller's.
enum Way {
    /// Both sides speak OpenAI's format, and bodies pass but for the corrections that they need.
    Standard,
    /// The server speaks OpenAI's format. Other callers' requests are written in it, and then pass.
    Composed,
    /// Both sides speak another format, and bodies pass but for some spans.
    Native(&'static Native, &'static Translation),
    /// The formats differ, and all is written anew.
    Translated(&'static Translation),
}

impl Protocol {
    /// Returns the front door whose callers and these servers have equal names for the fields of a
    /// request.
    fn of_front(&self) -> Option<&'static Front> {
        if self.passes() {
            Some(STANDARD)
        } else {
            Front::of_format(self.format())
        }
    }
}

/// The most edits of a body that passes. Each edit takes memory until the body is sent.
const MOST_EDITS: usize = 65_536;

/// Names the field of a fault in the callers' words.
fn name_fault_field(front: &Front, protocol: &Protocol, fault: AnswerFault) -> AnswerFault {
    match fault {
        AnswerFault::Upstream(error) => {
            AnswerFault::Upstream(front.name_error_field(protocol.of_front(), error))
        }
        nonsense @ AnswerFault::Nonsense(_) => nonsense,
    }
}

#[cfg(test)]
mod tests;
