//! The job of writing a request for a target, and the request that it makes.

use crate::front::{Envelope, FieldNames};
use crate::neutral::seal::{OpenedThoughts, Sealed};
use crate::neutral::traits::Traits;
use crate::neutral::{self, FieldRefused, Losses, Refused, Target, Undo, Written};
use crate::upstream::Translation;
use crate::wire::splice::Edits;
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The job of writing a caller's request for a target.
pub struct Translate<'a> {
    /// The caller's body.
    pub body: &'a Bytes,
    /// The body's envelope, with the front door that the request came in by.
    pub envelope: &'a Envelope,
    /// The target's name for the model.
    pub model: &'a str,
    /// The abilities of this model.
    pub traits: Traits,
    /// The maximum of tokens for requests that set none.
    pub default_max_tokens: Option<u64>,
    /// The time that a buffered answer may take, if it bounds the length of the answer.
    pub within: Option<Duration>,
    /// True if the caller must not see the model's thinking.
    pub hide_reasoning: bool,
    /// True if the account's server may be asked for the usage of a stream.
    pub stream_usage: bool,
    /// Returns the thoughts that came before the call with this id, if they were kept.
    pub kept: &'a dyn Fn(&str) -> Option<neutral::Kept>,
    /// The treatment of the thoughts that the caller carries.
    pub sealed: Sealed<'a>,
    /// Returns what the caller may do with another model that the request names.
    pub other: &'a dyn Fn(&str) -> OtherModel,
}

/// A model that a request names in addition to its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherModel {
    /// The caller may not use the model, or there is no such model.
    Forbidden,
    /// The caller may use it, but the account does not serve it.
    Elsewhere,
    /// The caller may use it, and this is the account's name for it.
    Here(Arc<str>),
}

/// A request as it goes to the upstream.
pub struct Outbound {
    /// The path after the base URL, with the query.
    pub path: Cow<'static, str>,
    /// The body, in parts.
    pub body: Vec<Bytes>,
    /// The headers of this request, in addition to those of every request.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// The bytes of the body that are copied, and so take memory in addition to the caller's own
    /// bytes.
    pub copied: usize,
    /// The caller's fields that the request does not have.
    pub losses: Losses,
    /// The changes that reading the answer must undo.
    pub undo: Undo,
}

/// A caller's request, and the request that was made of it.
pub(super) struct WrittenAndRead<'a> {
    /// The caller's request.
    pub(super) request: neutral::Request<'a>,
    /// The caller's names for its fields.
    pub(super) names: FieldNames,
    /// The request for the account, with its losses in the caller's words.
    pub(super) written: Written<Cow<'static, str>>,
}

impl<'a> Translate<'a> {
    /// Returns the job of writing a request of which only the bytes are known, for an unknown
    /// model.
    pub fn new(body: &'a Bytes, envelope: &'a Envelope, model: &'a str) -> Self {
        Self {
            body,
            envelope,
            model,
            traits: Traits::UNKNOWN,
            default_max_tokens: None,
            within: None,
            hide_reasoning: false,
            stream_usage: true,
            kept: &|_| None,
            sealed: Sealed::Closed,
            other: &|_| OtherModel::Forbidden,
        }
    }

    /// Reads the request, opens its sealed thoughts, and writes it.
    pub(super) fn read_and_write(
        &self,
        write: impl FnOnce(&neutral::Request<'_>, &Target<'_>) -> Result<Written, FieldRefused>,
    ) -> Result<WrittenAndRead<'_>, Refused> {
        let (mut request, names) = (self.envelope.front.read)(self.body)?;
        let opened = OpenedThoughts::open(&mut request, self.sealed);
        let is_all_here = opened.lost.is_empty() && !matches!(self.sealed, Sealed::LeftOut);
        let target = Target {
            model: self.model,
            traits: self.traits,
            default_max_tokens: self.default_max_tokens,
            stream: self.envelope.stream,
            within: self.within.filter(|_| !self.envelope.stream),
            // Kept thoughts name no account. If the caller's thoughts belong to another account,
            // the kept ones do too.
            kept: &|call| {
                opened
                    .find(call)
                    .or_else(|| if is_all_here { (self.kept)(call) } else { None })
            },
        };
        let written = write(&request, &target).map(|mut written| {
            opened
                .lost
                .iter()
                .for_each(|field| written.losses.add(field.clone()));
            written
        });
        let written = names.in_callers_words(&request, written)?;
        Ok(WrittenAndRead {
            request,
            names,
            written,
        })
    }
}

/// Returns headers whose values are known beforehand.
pub(super) fn fixed_headers(
    headers: Vec<(&'static str, &'static str)>,
) -> Vec<(&'static str, Cow<'static, str>)> {
    headers
        .into_iter()
        .map(|(name, value)| (name, Cow::Borrowed(value)))
        .collect()
}

/// Translates a request into the neutral form, and from there into the account's format.
pub(super) fn translate_request(
    job: &Translate<'_>,
    path: Cow<'static, str>,
    translation: &Translation,
) -> Result<Outbound, Refused> {
    let Written {
        mut body,
        mut losses,
        undo,
        headers,
    } = job.read_and_write(translation.request)?.written;
    let mut headers = fixed_headers(headers);
    if let Some(cloud) = translation.cloud {
        let mut edits = Edits::new(&body);
        headers = cloud.fit(&mut edits, headers, &mut losses);
        body = edits.applied().into_owned();
    }
    let copied = body.len();
    Ok(Outbound {
        path,
        body: vec![body.into()],
        headers,
        copied,
        losses,
        undo,
    })
}
