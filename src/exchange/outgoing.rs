//! An outgoing request is what an attempt sends to its account.

use crate::catalog::Timeouts;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use tokio::time::Instant;

/// The request.
pub struct Outgoing<'a> {
    /// Our id for the exchange.
    pub request_id: &'a str,
    /// What follows the account's base URL.
    pub path: &'a str,
    /// The headers that only this request has.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// The body, in parts.
    pub body: &'a [Bytes],
    /// Whether it asks for a stream.
    pub stream: bool,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// When the time of all attempts together is over.
    pub total: Instant,
    /// Whether idle connections are left alone.
    pub fresh: bool,
}

impl Outgoing<'_> {
    /// Returns the length of the body.
    pub(super) fn length(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }
}
