//! One request to one target, as the gateway would send it for a caller of chat completions.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use tokio::time::Instant;

use super::Ability;
use crate::doctor::words;
use dialects::front::{DOORS, Front, STANDARD};
use dialects::neutral::answer::AnswerOptions;
use dialects::neutral::seal::Sealed;
use dialects::usage::{Source, Usage};
use dialects::{AnswerHeader, Endpoint, OtherModel, Outbound, Recipient, Translate};
use portcullis::account::failure::{Class, Failure};
use portcullis::account::quota;
use portcullis::base::alarm::Alarm;
use portcullis::exchange::attempt::Attempt;
use portcullis::exchange::outgoing::{Outgoing, own_id};
use portcullis::exchange::upstream::Upstream;
use portcullis::exchange::{advice, credential, identity};
use portcullis::plan::Candidate;

/// The longest time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The candidate that is asked, and the upstream that asks it.
pub(super) struct Asker<'a> {
    pub(super) upstream: &'a Upstream,
    pub(super) candidate: &'a Candidate,
}

/// A good answer.
pub(super) struct GoodAnswer {
    pub(super) usage: Usage,
    /// The answer, as a caller gets it.
    body: Vec<u8>,
    is_stream: bool,
    /// The fields that could not be written.
    losses: Vec<String>,
    /// The share of the tightest quota that is left, if the head has it.
    headroom: Option<f64>,
}

/// No answer.
pub(super) struct NoAnswer {
    /// True if the request itself was found fault with.
    pub(super) is_about_the_request: bool,
    /// True if nothing was sent.
    pub(super) was_not_sent: bool,
    pub(super) message: String,
    pub(super) remedy: String,
}

impl GoodAnswer {
    /// Writes what is left of the target's quota.
    pub(super) fn quota_text(&self) -> String {
        self.headroom
            .map(|share| format!("; {:.0} % of its quota are left", share * 100.0))
            .unwrap_or_default()
    }

    /// Returns whether the answer shows an ability that was asked for. If not, the error says why.
    pub(super) fn shows(&self, one: Ability) -> Result<(), String> {
        match one {
            Ability::Stream if !self.is_stream => {
                Err("it sends the answer in one piece".to_owned())
            }
            Ability::Stream if self.usage.source != Source::Reported => {
                Err("it does not tell the usage of a stream, so costs are estimates".to_owned())
            }
            Ability::Stream => Ok(()),
            Ability::Tools => self.keeps("tools"),
            Ability::LateSystem => self.keeps("messages"),
            Ability::Schema => self
                .keeps("response_format")
                .and_then(|()| self.keeps_the_schema()),
        }
    }

    fn keeps(&self, field: &str) -> Result<(), String> {
        match self.losses.iter().any(|lost| lost.starts_with(field)) {
            true => Err("its format cannot say it".to_owned()),
            false => Ok(()),
        }
    }

    fn keeps_the_schema(&self) -> Result<(), String> {
        let answer: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let choice = answer.pointer("/choices/0").unwrap_or(&Value::Null);
        // An answer that was too long for the test shows nothing.
        if choice.pointer("/finish_reason").and_then(Value::as_str) == Some("length") {
            return Ok(());
        }
        let text = choice
            .pointer("/message/content")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let is_kept = serde_json::from_str::<Value>(text)
            .is_ok_and(|json| json.get("answer").is_some_and(Value::is_string));
        if is_kept {
            Ok(())
        } else {
            Err("it takes the schema, and its answer does not keep to it".to_owned())
        }
    }
}

impl Asker<'_> {
    /// Sends a request, and reads its whole answer.
    pub(super) async fn ask(&self, body: &Value) -> Result<GoodAnswer, NoAnswer> {
        let candidate = self.candidate;
        let front = door_for_endpoint(candidate.health.endpoint);
        let body = Bytes::from(body.to_string());
        let envelope = front
            .envelope(&body)
            .map_err(|_| not_written("the request cannot be read".to_owned()))?;
        let mut traits = candidate.traits;
        // The catalog may be wrong about these: that is what is asked.
        (
            traits.tools,
            traits.structured,
            traits.structured_with_tools,
        ) = (true, true, true);
        let message = candidate.dialect().write(&Translate {
            traits,
            stream_usage: candidate.account().added_fields.stream_usage,
            other: &|_| OtherModel::Forbidden,
            sealed: Sealed::Closed,
            ..Translate::new(&body, &envelope, &candidate.upstream_model)
        });
        let outbound = message.map_err(|_| not_written("its format cannot say it".to_owned()))?;
        self.send(front, envelope.stream, &outbound)
            .await
            .map_err(|failure| self.unanswered(&failure))
    }

    async fn send(
        &self,
        front: &'static Front,
        stream: bool,
        outbound: &Outbound,
    ) -> Result<GoodAnswer, Failure> {
        let (candidate, mut alarm) = (self.candidate, Alarm::default());
        let (ready_account, total) = (
            &candidate.ready_account,
            Instant::now() + ANSWER_TIMEOUT.min(candidate.timeouts.total),
        );
        identity::fetch_if_missing(self.upstream, ready_account).await?;
        let headers = credential::candidate_headers(candidate, outbound, total).await?;
        let request_id = own_id();
        let outgoing = Outgoing {
            headers: &headers,
            body: &outbound.body,
            stream,
            ..Outgoing::own(&request_id, &outbound.path, candidate.timeouts, total)
        };
        let permit = ready_account
            .state
            .admit()
            .map(Arc::new)
            .ok_or(Failure::Reset)?;
        let mut attempt =
            Attempt::connect_and_send(self.upstream, ready_account, permit, &outgoing, &mut alarm)
                .await?;
        let (status, headers) = attempt.head_until(total, &mut alarm).await?;
        let headroom = quota::tightest_headroom(|name| headers.text(name), SystemTime::now());
        let headroom = headroom.and_then(|headroom| headroom.current_share(SystemTime::now()));
        let is_events = headers
            .text("content-type")
            .is_none_or(|kind| !kind.starts_with("application/json"));
        let dialect = candidate.dialect();
        if status != StatusCode::OK {
            return Err(attempt
                .read_refusal(dialect, front, total, &mut alarm)
                .await);
        }
        let body = attempt
            .read_rest(MAX_ANSWER_BYTES, total, &mut alarm)
            .await?;
        attempt.finish().await;
        let header = AnswerHeader {
            model: "m".to_owned(),
            id: "doctor".to_owned(),
            show_usage: true,
            ..AnswerHeader::default()
        };
        let options = AnswerOptions {
            undo: outbound.undo.clone(),
            ..AnswerOptions::default()
        };
        let (model, to) = (
            &candidate.upstream_model,
            Recipient {
                front,
                header: &header,
                options,
            },
        );
        let is_stream = stream && is_events;
        let (usage, body) = if is_stream {
            let (mut reading, mut out) = (dialect.stream(model, to, MAX_ANSWER_BYTES), Vec::new());
            reading.feed(&body, &mut out)?;
            (reading.finish(&mut out, None)?, out)
        } else {
            let read = if stream {
                dialect.converted(model, &to, &body)
            } else {
                dialect.answer(model, &to, &body)
            };
            let (answer, _) = read?;
            (answer.usage, answer.body)
        };
        let losses = outbound
            .losses
            .names()
            .iter()
            .map(ToString::to_string)
            .collect();
        Ok(GoodAnswer {
            usage,
            body,
            is_stream,
            losses,
            headroom,
        })
    }

    fn unanswered(&self, failure: &Failure) -> NoAnswer {
        let account = self.candidate.account();
        let token = self.candidate.state().identity.present();
        let secrets = self.candidate.ready_account.secrets(token.as_ref());
        let message = words::failure_words(failure, &secrets);
        let status = failure.facts().status.filter(|_| failure.error().is_some());
        let message = status
            .map(|status| format!("HTTP {status}, {message}"))
            .unwrap_or(message);
        let remedy = match failure.class() {
            Class::Credential => advice::advised_action(failure, account),
            Class::Refused => format!(
                "is `targets[].model` right, and may accounts.{} use it?",
                account.id
            ),
            Class::Rate | Class::Overloaded => "wait, and ask again".to_owned(),
            Class::Caller if message.contains("max_completion_tokens") => format!(
                "the server does not know this field: write the name of the server in `portcullis presets` that is like it as `quirks` at \
                 accounts.{}",
                account.id
            ),
            Class::Caller => {
                "the provider finds fault with a plain request: is this a model for conversations?"
                    .to_owned()
            }
            Class::Transient | Class::Ours => {
                "look at the server, or wait until its provider has mended it".to_owned()
            }
        };
        // llama.cpp says 500 where it cannot do what is asked for.
        let has_failed = matches!(
            failure,
            Failure::Status {
                seen: 500 | 501,
                ..
            }
        );
        let was_not_sent = matches!(
            failure,
            Failure::Unreachable(_)
                | Failure::ConnectTimeout
                | Failure::Tls { .. }
                | Failure::Proxy { .. }
                | Failure::Unsigned(_)
        );
        NoAnswer {
            is_about_the_request: has_failed || failure.class() == Class::Caller,
            was_not_sent,
            message,
            remedy,
        }
    }
}

fn not_written(reason: String) -> NoAnswer {
    NoAnswer {
        is_about_the_request: true,
        was_not_sent: true,
        message: reason,
        remedy: "its format cannot say such a request".to_owned(),
    }
}

/// Returns the front door whose requests an endpoint takes.
fn door_for_endpoint(endpoint: Endpoint) -> &'static Front {
    DOORS
        .into_iter()
        .find(|front| front.only_endpoint == Some(endpoint))
        .unwrap_or(STANDARD)
}
