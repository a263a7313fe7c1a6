//! An [`Opening`] is an attempt from its connection to its gate: it reads the head, and then a
//! buffered answer to its end, or a stream to its first event that counts.
//!
//! Two openings share no changing state of the exchange, so that they can race. The producer and
//! the meter see an opening only through its [`Progress`].

use super::body_reading::BodyReading;
use super::progress::Progress;
use super::reading::{Deadline, Reading};
use super::{Piece, Request};
use crate::account::failure::Failure;
use crate::account::{Permit, quota};
use crate::base::alarm::Alarm;
use crate::base::memory::Held;
use crate::catalog::Reasoning;
use crate::conf::price::ShowCost;
use crate::error::scrub_secret_words;
use crate::exchange::OwnTime;
use crate::exchange::attempt::Attempt;
use crate::exchange::backends::Backends;
use crate::exchange::credential;
use crate::exchange::headers::AnswerHeaders;
use crate::exchange::outgoing::{self, Outgoing};
use crate::exchange::upload::Upload;
use crate::exchange::upstream::Reuse;
use crate::plan::Candidate;
use dialects::neutral::answer::{AnswerOptions, Kept};
use dialects::neutral::labels;
use dialects::neutral::seal::AnswerSeal;
use dialects::usage::{Source, Units, Usage};
use dialects::{AnswerHeader, EndReasons, Flaws, Labels, Outbound, Recipient, Stream};
use http::{HeaderValue, StatusCode};
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::time::Instant;

/// An attempt that is about to begin.
pub(super) struct Opening<'x> {
    pub(super) shared: &'x Backends,
    pub(super) own_time: &'x OwnTime,
    pub(super) request: &'x Request,
    pub(super) candidate: &'x Candidate,
    pub(super) outbound: Outbound,
    /// The form that is sent, if the request is one.
    pub(super) upload: Option<Arc<Upload>>,
    pub(super) permit: Arc<Permit>,
    pub(super) total: Instant,
    pub(super) progress: Arc<Progress>,
}

/// An attempt whose gate is open.
pub(super) struct Opened {
    pub(super) gained: Gained,
    /// True if the answer is a refusal by the model.
    pub(super) declined: bool,
    /// The part of the budget that a buffered answer holds.
    pub(super) memory: Option<Held>,
}

/// The gain of an attempt whose gate is open.
pub(super) enum Gained {
    /// All of the answer.
    Whole(WholeAnswer),
    /// A stream that has begun, and may have ended.
    Stream { reading: Reading, whole: bool },
}

/// All of an answer, or the end of a stream.
pub(super) struct WholeAnswer {
    pub(super) piece: Piece,
    pub(super) usage: Usage,
    pub(super) thoughts: Vec<Kept>,
    pub(super) flaws: Flaws,
    pub(super) reasons: EndReasons,
    /// The attempt of a stream, until the fate of its connection is known.
    pub(super) attempt: Option<Attempt>,
}

impl WholeAnswer {
    /// Makes the end of a stream, whose connection's fate is known.
    pub(super) fn end_of_stream(stream: &mut Stream, piece: Piece, usage: Usage) -> WholeAnswer {
        WholeAnswer {
            piece,
            usage,
            thoughts: stream.kept(),
            flaws: stream.flaws(),
            reasons: stream.reasons(),
            attempt: None,
        }
    }
}

impl Gained {
    /// Returns the usage so far.
    pub(super) fn usage(&self) -> Usage {
        match self {
            Gained::Whole(whole) => whole.usage,
            Gained::Stream { reading, .. } => reading.stream.usage_so_far(),
        }
    }
}

/// An attempt that failed before its gate was open, or with its first events.
pub(super) struct FailedAttempt {
    pub(super) failure: Failure,
    /// The reading of a stream that had begun to answer: its whole events are still good.
    pub(super) salvage: Option<Box<Reading>>,
}

impl From<Failure> for FailedAttempt {
    fn from(failure: Failure) -> FailedAttempt {
        FailedAttempt {
            failure,
            salvage: None,
        }
    }
}

impl Opening<'_> {
    /// Runs the attempt until its gate is open. `held` is the part of the budget that the copy of
    /// the request holds. A buffered answer adds to it.
    #[allow(
        clippy::manual_async_fn,
        reason = "an async fn would hold its arguments twice"
    )]
    pub(super) fn open(
        mut self,
        mut held: Held,
    ) -> impl Future<Output = Result<Opened, FailedAttempt>> + Send {
        async move {
            let mut alarm = Alarm::default();
            let mut attempt = self.send_request(&mut alarm).await?;
            // The request is sent, so its copy is freed. A stream gives the budget back below.
            let copied = self.outbound.copied;
            (self.outbound.body, self.upload) = (Vec::new(), None);
            let (status, headers) = attempt.head().await?;
            self.note_headers(headers);
            let content_type = headers.get("content-type");
            let body_reading = self.body_reading(content_type);
            let passed_type = content_type
                .filter(|_| self.request.envelope.front.gives_bytes())
                .and_then(|content_type| HeaderValue::from_bytes(content_type).ok());
            let is_compressed = headers
                .get("content-encoding")
                .is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity"));
            if status != StatusCode::OK {
                // An attempt that was refused is not charged for.
                self.progress.lock().sent = false;
                // The future is boxed, since it is rare.
                let refused = Box::pin(attempt.read_refusal(
                    self.candidate.dialect(),
                    self.request.envelope.front,
                    self.total,
                    &mut alarm,
                ));
                return Err(refused.await.into());
            }
            if is_compressed {
                return Err(Failure::Nonsense(
                    "a compressed answer, although the gateway did not ask for one".to_owned(),
                )
                .into());
            }
            let (stream, label_source) = match body_reading? {
                BodyReading::Whole => {
                    let options = self.answer_options();
                    return Ok(self.read_whole(attempt, options, held, &mut alarm).await?);
                }
                BodyReading::AsItComes => (self.passed_stream(passed_type), None),
                BodyReading::Events => {
                    let wants_labels = self.request.answer_header.wants_labels;
                    // The beginning of the stream is kept, to read the provider's labels from it.
                    let label_source = wants_labels.then(Box::<labels::Start>::default);
                    (self.translated_stream(), label_source)
                }
            };
            held.shrink(copied);
            let reading = Reading {
                attempt,
                stream,
                out: Vec::new(),
                memory: held,
                idle: self.candidate.timeouts.idle,
                total: self.total,
                label_source,
            };
            self.await_first_event(reading, &mut alarm).await
        }
    }

    /// Notes what the headers of an answer tell of the request and of the account's quota.
    fn note_headers(&self, headers: AnswerHeaders<'_>) {
        let names = self.candidate.dialect().protocol.request_ids;
        let name = names.iter().find(|name| headers.get(name).is_some());
        self.progress.lock().id = name
            .and_then(|name| headers.text(name))
            .filter(|id| id.len() <= 128)
            .map(|id| scrub_secret_words(id, &self.candidate.account().secrets()));
        if headers.have_quotas()
            && let Some(headroom) =
                quota::tightest_headroom(|name| headers.text(name), SystemTime::now())
        {
            self.candidate.health.record_headroom(headroom);
        }
    }

    /// Decides how the body of a good answer is read, or returns why it cannot be read.
    fn body_reading(&self, content_type: Option<&[u8]>) -> Result<BodyReading, Failure> {
        let envelope = &self.request.envelope;
        BodyReading::choose(
            content_type,
            envelope.front.gives_bytes(),
            envelope
                .stream
                .then_some(self.candidate.dialect().protocol.framing),
        )
    }

    /// Takes what the answer is translated with.
    fn answer_options(&mut self) -> AnswerOptions {
        AnswerOptions {
            undo: std::mem::take(&mut self.outbound.undo),
            hide_reasoning: self.candidate.model.reasoning == Reasoning::Hide,
            keep_thoughts: self.candidate.family().is_some(),
            seal: self
                .request
                .seal_of(&self.shared.seals, self.candidate)
                .map(|seal| AnswerSeal(Arc::new(seal))),
        }
    }

    /// Returns the stream of an answer whose bytes pass as they come.
    fn passed_stream(&self, content_type: Option<HeaderValue>) -> Stream {
        let kind = content_type
            .as_ref()
            .map(|kind| kind.as_bytes())
            .unwrap_or_default();
        let usage = self.estimated(Usage {
            source: Source::Estimated,
            ..Usage::default()
        });
        let stream = Stream::bytes(kind, usage, self.shared.server.limits.event);
        self.progress.lock().content_type = content_type;
        stream
    }

    /// Returns the stream of an answer whose events are translated.
    fn translated_stream(&mut self) -> Stream {
        let options = self.answer_options();
        let answer_header = self.request.answer_header_for(self.candidate);
        let to = Recipient {
            front: self.request.envelope.front,
            header: &answer_header,
            options,
        };
        let limit = self.shared.server.limits.event;
        let dialect = self.candidate.dialect();
        dialect.stream(&self.candidate.upstream_model, to, limit)
    }

    /// Returns a usage in which what the answer does not say besides tokens is what was asked for,
    /// and pictures have the tokens that they are charged for.
    fn estimated(&self, usage: Usage) -> Usage {
        let is_said = usage.units != Units::NONE || usage.source == Source::None;
        let units = if is_said {
            usage.units
        } else {
            self.request.envelope.units
        };
        let image_price = self
            .candidate
            .price
            .filter(|_| usage.source == Source::Estimated);
        let completion = usage
            .completion
            .max(image_price.map_or(0, |price| price.image_tokens(units.images)));
        Usage {
            completion,
            units,
            ..usage
        }
    }

    /// Sends the request, and waits for the head. After a stale connection it tries a fresh one.
    /// This costs no attempt, since the request was never looked at.
    async fn send_request(&self, alarm: &mut Alarm) -> Result<Attempt, Failure> {
        let mut headers =
            credential::candidate_headers(self.candidate, &self.outbound, self.total).await?;
        if let Some(trace) = self
            .request
            .trace
            .as_ref()
            .filter(|_| self.candidate.account().added_fields.trace)
        {
            self.progress.lock().span = Some(outgoing::add_trace_headers(trace, &mut headers));
        }
        let mut outgoing = Outgoing {
            method: None,
            request_id: &self.request.request_id,
            path: &self.outbound.path,
            headers: &headers,
            body: &self.outbound.body,
            upload: self.upload.as_deref(),
            stream: self.request.envelope.stream,
            timeouts: self.candidate.timeouts,
            total: self.total,
            reuse: Reuse::Allowed,
        };
        for reuse in [Reuse::Allowed, Reuse::Forbidden] {
            outgoing.reuse = reuse;
            match self.send_once(&outgoing, alarm).await {
                Err(Failure::Stale) if reuse == Reuse::Allowed => self.progress.resend(),
                Err(Failure::Stale) => self.progress.lock().sent = false,
                other => return other,
            }
        }
        Err(Failure::unread_on_new_connection())
    }

    /// Sends the request over one connection, and waits for the head of the answer.
    async fn send_once(
        &self,
        outgoing: &Outgoing<'_>,
        alarm: &mut Alarm,
    ) -> Result<Attempt, Failure> {
        let (upstream, ready_account) = (&self.shared.upstream, &self.candidate.ready_account);
        let mut attempt = Attempt::connect_and_send(
            upstream,
            ready_account,
            self.permit.clone(),
            outgoing,
            alarm,
        )
        .await?;
        self.progress.sent(attempt.connected);
        let sent = attempt.sent;
        let first_byte: Deadline = (sent + outgoing.timeouts.first_byte, || {
            Failure::FirstByteTimeout
        });
        let of_a_stream = [
            outgoing.stream.then_some(first_byte),
            self.first_token(sent),
        ];
        let (due, late) = earliest_deadline((self.total, || Failure::TotalTimeout), of_a_stream);
        let head = alarm
            .until(due, pin!(attempt.head()))
            .await
            .map(|head| head.map(drop));
        head.ok_or_else(late)?.map(|()| attempt)
    }

    /// Returns when the first token of a stream is due.
    fn first_token(&self, sent: Instant) -> Option<Deadline> {
        let wait = self
            .candidate
            .timeouts
            .first_token
            .filter(|_| self.request.envelope.stream)?;
        Some((sent + wait, || Failure::FirstTokenTimeout))
    }

    /// Reads a whole JSON answer. If the caller asked for a stream, the answer is made into one.
    #[allow(
        clippy::manual_async_fn,
        reason = "an async fn would hold its arguments twice"
    )]
    fn read_whole(
        &self,
        mut attempt: Attempt,
        answer_options: AnswerOptions,
        mut held: Held,
        alarm: &mut Alarm,
    ) -> impl Future<Output = Result<Opened, Failure>> + Send {
        async move {
            let mut body = Vec::new();
            let received = self
                .receive(&mut attempt, &mut body, &mut held, alarm)
                .await;
            let stream = self.request.envelope.stream;
            let (model, dialect) = (&self.candidate.upstream_model, self.candidate.dialect());
            let answer_header = &*self.request.answer_header_for(self.candidate);
            let to = Recipient {
                front: self.request.envelope.front,
                header: answer_header,
                options: answer_options,
            };
            if let Err(failure) = received {
                // What broke off may have its counts already. Without memory they are not looked
                // for.
                if !matches!(failure, Failure::NoRoom) {
                    let usage = dialect.reported_usage(model, &to, &body);
                    self.progress.lock().usage = self.estimated(usage);
                }
                return Err(failure);
            }
            let mut read = if stream {
                dialect.converted(model, &to, &body)
            } else {
                dialect.answer(model, &to, &body)
            };
            if answer_header.wants_labels {
                let labels_from_reading = read
                    .as_mut()
                    .ok()
                    .and_then(|(answer, _)| answer.labels.take());
                self.note_labels(
                    labels_from_reading.or_else(|| Labels::of_answer(&body).map(Box::new)),
                );
            }
            if read.is_err() {
                // The provider may charge for an answer that the caller does not get.
                self.progress.lock().usage =
                    self.estimated(dialect.reported_usage(model, &to, &body));
            }
            let (answer, kept) = read?;
            let (usage, declined) = (self.estimated(answer.usage), answer.declined);
            let (flaws, reasons) = (answer.flaws, answer.reasons);
            let piece = if stream {
                Piece::End(answer.body.into())
            } else {
                Piece::Whole(answer)
            };
            attempt.finish().await;
            if self.candidate.refuses(flaws) {
                self.progress.lock().usage = usage;
                return Err(Failure::BrokenCall(flaws.broken_calls));
            }
            let gained = Gained::Whole(WholeAnswer {
                piece,
                usage,
                thoughts: kept,
                flaws,
                reasons,
                attempt: None,
            });
            Ok(Opened {
                gained,
                declined,
                memory: Some(held),
            })
        }
    }

    /// Reads the body of a whole answer to its end.
    async fn receive(
        &self,
        attempt: &mut Attempt,
        body: &mut Vec<u8>,
        held: &mut Held,
        alarm: &mut Alarm,
    ) -> Result<(), Failure> {
        let (timeouts, sent) = (self.candidate.timeouts, attempt.sent);
        let stream = self.request.envelope.stream;
        loop {
            // If a stream was asked for, the idle timeout holds, whatever comes instead.
            let idle: Option<Deadline> = stream.then(|| {
                (
                    Instant::now() + timeouts.idle,
                    (|| Failure::IdleTimeout) as _,
                )
            });
            let (due, late) = earliest_deadline(
                (self.total, || Failure::TotalTimeout),
                [idle, self.first_token(sent)],
            );
            let Some(chunk) = alarm
                .until(due, pin!(attempt.read()))
                .await
                .ok_or_else(late)??
            else {
                return Ok(());
            };
            if body.len() + chunk.len() > self.shared.server.limits.response_body {
                return Err(Failure::Nonsense(
                    "an answer larger than limits.response_body allows".to_owned(),
                ));
            }
            if !held.grow(chunk.len()) {
                return Err(Failure::NoRoom);
            }
            body.extend_from_slice(&chunk);
        }
    }

    /// Notes what the upstream calls its answer.
    fn note_labels(&self, labels: Option<Box<Labels>>) {
        let labels = labels.map(|mut labels| {
            let ready_account = &self.candidate.ready_account;
            labels.remove(&ready_account.secrets(ready_account.state.identity.present().as_ref()));
            labels
        });
        self.progress.lock().labels = labels;
    }

    /// Reads the first events of a stream, until one counts.
    #[allow(
        clippy::manual_async_fn,
        reason = "an async fn would hold its arguments twice"
    )]
    fn await_first_event(
        &self,
        mut reading: Reading,
        alarm: &mut Alarm,
    ) -> impl Future<Output = Result<Opened, FailedAttempt>> + Send {
        async move {
            loop {
                // The writer of the answer may hold a call back until the call is whole.
                let first = self
                    .first_token(reading.attempt.sent)
                    .filter(|_| !reading.stream.opened());
                let now = self.own_time.now();
                let fed = reading
                    .feed(now, earliest_deadline(reading.due(now), [first]), alarm)
                    .await;
                self.progress.lock().usage = reading.stream.usage_so_far();
                if (reading.stream.opened() || fed != Ok(false))
                    && let Some(start) = reading.label_source.take()
                {
                    self.note_labels(start.labels().map(Box::new));
                }
                let whole = match fed {
                    Ok(whole) => whole,
                    // Only the end of the connection was missing.
                    Err(_) if reading.stream.whole() => true,
                    Err(failure) => {
                        let salvage = reading.stream.opened().then(|| Box::new(reading));
                        return Err(FailedAttempt { failure, salvage });
                    }
                };
                if reading.stream.opened() && (whole || !reading.out.is_empty()) {
                    let declined = reading.stream.declined();
                    return Ok(Opened {
                        gained: Gained::Stream { reading, whole },
                        declined,
                        memory: None,
                    });
                }
                if whole {
                    // No event counted: the end of the stream makes all of the answer.
                    let ended = reading.stream.finish(&mut reading.out, None);
                    self.progress.lock().usage = reading.stream.usage_so_far();
                    let usage = ended.map_err(Failure::from)?;
                    let piece = Piece::End(reading.take_events());
                    reading.attempt.finish().await;
                    let end = WholeAnswer::end_of_stream(&mut reading.stream, piece, usage);
                    return Ok(Opened {
                        gained: Gained::Whole(end),
                        declined: false,
                        memory: None,
                    });
                }
                if reading.out.len() > self.shared.server.limits.event {
                    return Err(Failure::Nonsense(
                        "a stream without the beginning of an answer".to_owned(),
                    )
                    .into());
                }
                reading.give_back_room();
            }
        }
    }
}

/// Returns the first of some deadlines.
fn earliest_deadline<const N: usize>(one: Deadline, others: [Option<Deadline>; N]) -> Deadline {
    others
        .into_iter()
        .flatten()
        .fold(one, |one, other| if other.0 < one.0 { other } else { one })
}

impl Request {
    /// Returns the header that an answer of this candidate shows.
    fn answer_header_for(&self, candidate: &Candidate) -> Cow<'_, AnswerHeader> {
        match self.answer_header.cost {
            ShowCost::No => Cow::Borrowed(&self.answer_header),
            ShowCost::AtPrice(_) | ShowCost::Sum(_) => Cow::Owned(AnswerHeader {
                cost: ShowCost::AtPrice(candidate.price),
                ..AnswerHeader::clone(&self.answer_header)
            }),
        }
    }
}
