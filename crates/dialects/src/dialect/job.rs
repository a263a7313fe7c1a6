//! A job of translating: what it starts from, and the request that it makes.

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

/// A job of translating: a caller's request, and what writing it for a target needs to know.
pub struct Translate<'a> {
    /// The caller's body.
    pub body: &'a Bytes,
    /// What was read of it, and the front door that it came in by.
    pub envelope: &'a Envelope,
    /// The target's name for the model.
    pub model: &'a str,
    /// What this model can do.
    pub traits: Traits,
    /// For requests that are silent about it.
    pub default_max_tokens: Option<u64>,
    /// How long a buffered answer may take in all, where that bounds how long it should be.
    pub within: Option<Duration>,
    /// Whether the caller must not see the model's thinking.
    pub hide_reasoning: bool,
    /// Whether the account's server may be asked for the usage of a stream.
    pub stream_usage: bool,
    /// The thoughts that came before a call, where they were kept.
    pub kept: &'a dyn Fn(&str) -> Option<neutral::Kept>,
    /// The treatment of the thoughts that the caller carries.
    pub sealed: Sealed<'a>,
    /// What is known of another model that the request names.
    pub other: &'a dyn Fn(&str) -> OtherModel,
}

/// A model that a request names beside its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherModel {
    /// The caller may not use it, or it is not there.
    Forbidden,
    /// The caller may use it, but the account does not serve it.
    Elsewhere,
    /// The caller may use it, and this is the account's name for it.
    Here(Arc<str>),
}

/// A request as it goes to the upstream.
pub struct Outbound {
    /// What follows the base URL, the query included.
    pub path: Cow<'static, str>,
    /// The body, in parts.
    pub body: Vec<Bytes>,
    /// Headers that it needs, besides those that every request has.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// How much of it is copied, and so takes memory besides the caller's own bytes.
    pub copied: usize,
    /// The fields of the caller's request that it does not say.
    pub losses: Losses,
    /// What reading the answer must undo.
    pub undo: Undo,
}

pub(super) type WrittenAndRead<'a> = (neutral::Request<'a>, FieldNames, Written<Cow<'static, str>>);

impl<'a> Translate<'a> {
    /// Returns the job of writing a request of which no more is known than its bytes, for a model
    /// of which nothing is known.
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

    /// Reads the request, opens what is sealed in it, and writes it.
    pub(super) fn written(
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
        let written = names.written(&request, written)?;
        Ok((request, names, written))
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

/// Translates a request into the neutral form, and from there into that of the account.
pub(super) fn translate_request(
    job: &Translate<'_>,
    path: Cow<'static, str>,
    translation: &Translation,
) -> Result<Outbound, Refused> {
    let (_, _, written) = job.written(translation.request)?;
    let Written {
        mut body,
        mut losses,
        undo,
        headers,
    } = written;
    let mut headers = fixed_headers(headers);
    if let Some(cloud) = translation.cloud {
        let mut edits = Edits::new(&body);
        let mut fit = Vec::new();
        headers = cloud.fit(&mut edits, headers, &mut losses);
        edits.apply_into(&mut fit);
        body = fit;
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
