//! An outgoing request is what an attempt sends to its account: a head, which is written here, and
//! the body in parts.

use super::upload::{Slice, Upload};
use super::upstream::Reuse;
use crate::base::trace_context::{SpanId, TRACEPARENT, TRACESTATE, TraceContext};
use crate::catalog::{Account, Timeouts};
use crate::live::ready_account::{self, ReadyAccount, account_headers, write_header};
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use pingora::BError;
use pingora::http::RequestHeader;
use std::borrow::Cow;
use tokio::time::Instant;
use uuid::Uuid;

/// Returns the id of a request that the gateway sends for itself. Some servers refuse an id that is
/// no UUID.
pub fn own_id() -> String {
    Uuid::now_v7().to_string()
}

/// Adds the headers that tell an account to which trace its own spans belong. Returns the span that
/// is their parent.
pub(super) fn add_trace_headers(
    trace: &TraceContext,
    headers: &mut Vec<(HeaderName, HeaderValue)>,
) -> SpanId {
    let span = fastrand::u64(1..).to_be_bytes();
    let state = trace
        .state()
        .and_then(|state| HeaderValue::from_str(state).ok());
    headers.extend(
        HeaderValue::try_from(trace.traceparent(span))
            .ok()
            .map(|parent| (TRACEPARENT.clone(), parent)),
    );
    headers.extend(state.map(|state| (TRACESTATE.clone(), state)));
    span
}

/// The request that an attempt sends.
pub struct Outgoing<'a> {
    /// The method, if it is another one than the body decides: POST with a body, and else GET. The
    /// path is the whole one then.
    pub method: Option<&'static str>,
    /// Our id for the exchange.
    pub request_id: &'a str,
    /// The path after the account's base URL. Of a request without a body it is the whole path.
    pub path: &'a str,
    /// The headers that only this request has.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// The body, in parts; of a form, the texts that changed on the way.
    pub body: &'a [Bytes],
    /// The form, if the body is one.
    pub upload: Option<&'a Upload>,
    /// True if the request asks for a stream.
    pub stream: bool,
    /// The timeouts of the target.
    pub timeouts: Timeouts,
    /// The time at which all attempts together must be over.
    pub total: Instant,
    /// Decides whether the connection may be one that was used before.
    pub reuse: Reuse,
}

impl<'a> Outgoing<'a> {
    /// Makes a request that the gateway sends for itself: a GET, on a new connection. Such requests
    /// are so rare that no old connection would still be open.
    pub fn own(
        request_id: &'a str,
        path: &'a str,
        timeouts: Timeouts,
        total: Instant,
    ) -> Outgoing<'a> {
        Outgoing {
            method: None,
            request_id,
            path,
            headers: &[],
            body: &[],
            upload: None,
            stream: false,
            timeouts,
            total,
            reuse: Reuse::Forbidden,
        }
    }

    /// Returns the method, and the part of the path that is the account's.
    fn target<'p>(&self, account: &'p Account) -> (&'static str, &'p str) {
        if let Some(method) = self.method {
            (method, "")
        } else if self.body.is_empty() {
            ("GET", "")
        } else {
            ("POST", &account.base.path)
        }
    }

    /// Returns the length of the body.
    pub(super) fn length(&self) -> usize {
        let body = self.body.iter().map(Bytes::len).sum();
        self.upload.map_or(body, |upload| upload.length(body))
    }

    /// Returns the body in slices of at most `max_length` bytes. They are boxed: few bodies are so
    /// large, and this would be most of the memory of each attempt.
    pub(super) fn slices(
        &self,
        max_length: usize,
    ) -> Box<dyn Iterator<Item = Slice<'_>> + Send + '_> {
        let plain = self.body.iter().filter(|_| self.upload.is_none());
        let plain = plain.flat_map(move |part| {
            (0..part.len())
                .step_by(max_length)
                .map(move |offset| part.slice(offset..part.len().min(offset + max_length)))
        });
        let form = self
            .upload
            .into_iter()
            .flat_map(move |upload| upload.slices(self.body, max_length));
        Box::new(plain.map(Slice::InMemory).chain(form))
    }

    /// Returns the content type, if it is another one than the account's.
    fn content_type(&self) -> Option<(HeaderName, HeaderValue)> {
        Some((header::CONTENT_TYPE, self.upload?.content_type.clone()?))
    }

    /// Writes the head of a request for HTTP/1.1. It is built from nothing: no header of the
    /// caller's is ever in it. The buffer has room for `room` more bytes, so that a small body can
    /// follow.
    pub(super) fn head(&self, ready_account: &ReadyAccount, room: usize) -> Vec<u8> {
        let (method, base) = self.target(&ready_account.account);
        let form_type = self.content_type();
        let account_part = match form_type {
            None => Cow::Borrowed(ready_account.fixed_head.as_slice()),
            Some(_) => ready_account::request_head(&ready_account.account, |name| {
                name != header::CONTENT_TYPE
            })
            .into(),
        };
        // The 72 bytes are for the method, the last two headers without the id, and the line ends.
        let mut head = Vec::with_capacity(
            account_part.len() + base.len() + self.path.len() + self.request_id.len() + 72 + room,
        );
        head.extend_from_slice(method.as_bytes());
        head.push(b' ');
        head.extend_from_slice(base.as_bytes());
        head.extend_from_slice(self.path.as_bytes());
        head.extend_from_slice(&account_part);
        for (name, value) in self.headers.iter().chain(&form_type) {
            write_header(&mut head, name, value);
        }
        head.extend_from_slice(b"x-request-id: ");
        head.extend_from_slice(self.request_id.as_bytes());
        head.extend_from_slice(b"\r\ncontent-length: ");
        head.extend_from_slice(self.length().to_string().as_bytes());
        head.extend_from_slice(b"\r\n\r\n");
        head
    }

    /// Returns the head of the request for HTTP/2.
    pub(super) fn header(&self, account: &Account) -> Result<RequestHeader, BError> {
        let (method, base) = self.target(account);
        let path = format!("{base}{}", self.path);
        let mut header = RequestHeader::build_no_case(method, path.as_bytes(), Some(16))?;
        header.insert_header(header::HOST, account.base.authority.as_str())?;
        header.insert_header("x-request-id", self.request_id)?;
        header.insert_header(header::CONTENT_LENGTH, self.length())?;
        for (name, value) in account_headers(account).chain(self.content_type()) {
            header.insert_header(name, value)?;
        }
        // A header of the catalog may have the same name: then both are sent, as with HTTP/1.
        for (name, value) in self.headers {
            header.append_header(name.clone(), value.clone())?;
        }
        Ok(header)
    }
}

/// Returns the fields of the head that an outgoing request writes, for a command that shows them.
/// Values that must not be shown are marked sensitive.
pub fn head_fields(
    account: &Account,
    own: &[(HeaderName, HeaderValue)],
    request_id: HeaderValue,
    length: usize,
) -> Vec<(HeaderName, HeaderValue)> {
    let host = HeaderValue::try_from(account.base.authority.as_str())
        .ok()
        .map(|host| (header::HOST, host));
    let rest = [
        (HeaderName::from_static("x-request-id"), request_id),
        (header::CONTENT_LENGTH, length.into()),
    ];
    host.into_iter()
        .chain(account_headers(account))
        .chain(own.iter().cloned())
        .chain(rest)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::State;
    use crate::catalog::resolve::resolve_catalog;
    use crate::conf::proxy::Proxies;
    use std::sync::Arc;

    #[test]
    fn a_shown_head_is_the_written_one() {
        let catalog = "accounts:\n  plain: { dialect: openai, base_url: \"https://a.test/v1\", key: k-1, headers: { X-Team: t, User-Agent: \
                       mine } }\n  named: { dialect: anthropic, key: k-2 }\nmodels: {}\ncallers: {}\n";
        let catalog = resolve_catalog(
            &[("catalog.yaml".to_owned(), catalog.to_owned())],
            &mut |_| Ok(String::new()),
        )
        .expect("a catalog");
        let own = [(
            HeaderName::from_static("x-own"),
            HeaderValue::from_static("o"),
        )];
        for account in catalog.accounts() {
            let ready_account = ReadyAccount::new(
                account.clone(),
                Arc::new(State::new(account.id.clone())),
                &Proxies::default(),
            );
            let body = [Bytes::from_static(b"{}")];
            let total = Instant::now();
            let timeouts = account.timeouts;
            let outgoing = Outgoing {
                method: None,
                request_id: "r",
                path: "/p",
                headers: &own,
                body: &body,
                upload: None,
                stream: false,
                timeouts,
                total,
                reuse: Reuse::Allowed,
            };
            let head = outgoing.head(&ready_account, 0);
            let mut shown = format!("POST {}/p HTTP/1.1\r\n", account.base.path);
            for (name, value) in head_fields(account, &own, HeaderValue::from_static("r"), 2) {
                shown.push_str(&format!("{name}: {}\r\n", value.to_str().expect("text")));
            }
            assert_eq!(String::from_utf8_lossy(&head), format!("{shown}\r\n"));
        }
    }
}
