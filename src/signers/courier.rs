//! A source of credentials asks servers and files by a [`Courier`], which has the sockets and the
//! clock. So a source is a list of steps that is read from the top down, and that tests can follow
//! request by request.
//!
//! **Invariant:** what a source gets from outside is bounded by the courier, and no text of a
//! [`Fault`] has a secret of ours in it.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use super::sigv4;
use crate::base::secret::Secret;
use dialects::UpstreamError;

/// The method of a request for a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `POST`
    Post,
    /// `PUT`
    Put,
}

impl Method {
    /// Returns the method as it is sent.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
        }
    }
}

/// The kind of server that a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A server outside, which is reached through the account's proxy if it has one.
    Outside,
    /// A server of this machine or its host, which is never reached through a proxy.
    Nearby,
}

/// The content type of a form.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// A request for a credential, or for a part of one.
#[derive(Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The kind of server that the URL names.
    pub place: Place,
    /// The whole URL.
    pub url: String,
    /// The headers that belong to this request, with names in lower case.
    pub headers: Vec<(Cow<'static, str>, Secret)>,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body. It is empty if there is none.
    pub body: Secret,
}

impl Request {
    /// Makes a request without a body to a server nearby.
    pub fn nearby(method: Method, url: impl Into<String>) -> Request {
        Request {
            method,
            place: Place::Nearby,
            url: url.into(),
            headers: Vec::new(),
            content_type: FORM,
            body: Secret::new(""),
        }
    }

    /// Makes a form that is posted to a server outside.
    pub fn form(url: impl Into<String>, body: Secret) -> Request {
        Request {
            place: Place::Outside,
            body,
            ..Request::nearby(Method::Post, url)
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Request {
        self.headers.push((name.into(), Secret::new(value)));
        self
    }
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The content type, if it is known.
    pub content_type: Option<String>,
    /// The body. It may hold a credential.
    pub body: Secret,
    /// The time that the server tells.
    pub date: Option<SystemTime>,
}

impl Answer {
    /// Returns the body if the status is 200.
    pub fn good(&self) -> Option<&str> {
        (self.status == 200).then(|| self.body.expose())
    }
}

/// The reason why no credential was obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Something of ours is missing, or cannot be used. The text is in our words.
    Local(String),
    /// A server refused. The status of the error is 401 if the fault is ours.
    Refused(Box<UpstreamError>),
    /// A server answered something that nobody expects. The text is in our words.
    Nonsense(String),
    /// No answer came, and the courier knows why.
    Unanswered(Option<&'static str>),
}

/// Carries the requests of a source.
pub trait Courier: Send {
    /// Returns the time.
    fn now(&self) -> SystemTime;

    /// Returns the text of a file, without white space around it.
    fn read_file(&mut self, path: &str) -> impl Future<Output = Result<Secret, Fault>> + Send;

    /// Sends a request, and returns its answer whatever its status is.
    fn send(&mut self, request: Request) -> impl Future<Output = Result<Answer, Fault>> + Send;
}

/// A credential that is good for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// The value for `Authorization: Bearer`.
    Token(Secret),
    /// Keys that sign requests to AWS.
    Aws(sigv4::Keys),
}

impl Credential {
    /// Returns what no text may show.
    pub fn secrets(&self) -> Vec<&str> {
        match self {
            Credential::Token(token) => vec![token.expose()],
            Credential::Aws(keys) => keys.secrets().collect(),
        }
    }
}

/// What a source gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obtained {
    /// The credential.
    pub credential: Credential,
    /// Whom the provider takes us for: an ARN, a client id, or a service account. It is empty if
    /// the provider does not say.
    pub identity: String,
    /// The time from now until the credential is of no use.
    pub life: Duration,
}

/// The longest time for which a credential is used, whatever the answer says.
pub const MAX_LIFE: Duration = Duration::from_secs(24 * 3600);

/// Returns the time that is left until an absolute end. The server's own clock counts, if the
/// answer shows it: ours may be wrong.
pub fn time_left(end: SystemTime, date: Option<SystemTime>, now: SystemTime) -> Duration {
    let left = end.duration_since(date.unwrap_or(now)).unwrap_or_default();
    left.min(MAX_LIFE)
}

/// Writes a form.
pub fn write_form(fields: &[(&str, &str)]) -> Secret {
    let mut form = String::new();
    for (name, value) in fields {
        if !form.is_empty() {
            form.push('&');
        }
        form.push_str(name);
        form.push('=');
        form.push_str(&encode_value(value));
    }
    Secret::new(form)
}

/// Encodes a value for a form or a query: all but letters, digits and `-._~`.
pub fn encode_value(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 16);
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Returns whether a header can carry a credential.
pub fn is_sendable(text: &str) -> bool {
    !text.is_empty() && text.len() <= 16 * 1024 && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Returns the status that an error of a token service has for us: 401 if it finds fault with what
/// we sent, since another try with the same credential is in vain.
pub fn meant_status(status: u16) -> u16 {
    match status {
        400..=428 | 430..=499 => 401,
        429 | 500..=599 => status,
        _ => 502,
    }
}

/// Returns a text in one line and within a length.
pub fn shorten_text(text: &str, limit: usize) -> String {
    let text = text
        .get(..text.floor_char_boundary(limit))
        .unwrap_or_default();
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// A courier whose answers are written beforehand. It notes each request as a text.
    pub(crate) struct Script {
        pub(crate) now: SystemTime,
        pub(crate) answers: VecDeque<(u16, String)>,
        pub(crate) date: Option<SystemTime>,
        pub(crate) files: Vec<(String, String)>,
        pub(crate) sent: Vec<String>,
    }

    /// 2026-11-30T23:00:00Z.
    pub(crate) const NOW: u64 = 1_796_079_600;

    impl Script {
        pub(crate) fn new(answers: &[(u16, &str)]) -> Script {
            let answers = answers
                .iter()
                .map(|(status, body)| (*status, (*body).to_owned()));
            Script {
                now: SystemTime::UNIX_EPOCH + Duration::from_secs(NOW),
                answers: answers.collect(),
                date: None,
                files: Vec::new(),
                sent: Vec::new(),
            }
        }

        pub(crate) fn with_file(mut self, path: &str, text: &str) -> Script {
            self.files.push((path.to_owned(), text.to_owned()));
            self
        }
    }

    impl Courier for Script {
        fn now(&self) -> SystemTime {
            self.now
        }

        async fn read_file(&mut self, path: &str) -> Result<Secret, Fault> {
            let found = self.files.iter().find(|(name, _)| name == path);
            let missing = || Fault::Local(format!("{path} is missing"));
            found
                .map(|(_, text)| Secret::new(text.trim()))
                .ok_or_else(missing)
        }

        async fn send(&mut self, request: Request) -> Result<Answer, Fault> {
            let headers = request.headers.iter();
            let headers = headers.map(|(name, value)| format!("\n{name}: {}", value.expose()));
            self.sent.push(format!(
                "{} {:?} {}{}\n\n{}",
                request.method.name(),
                request.place,
                request.url,
                headers.collect::<String>(),
                request.body.expose()
            ));
            let (status, body) = self.answers.pop_front().ok_or(Fault::Unanswered(None))?;
            Ok(Answer {
                status,
                content_type: None,
                body: Secret::new(body),
                date: self.date,
            })
        }
    }

    /// Returns the value of a future that waits for nothing.
    pub(crate) fn finish<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn a_form_encodes_all_that_could_be_read_otherwise() {
        let form = write_form(&[("a", "x y&z=1/ü"), ("b", "-._~")]);
        assert_eq!(form.expose(), "a=x%20y%26z%3D1%2F%C3%BC&b=-._~");
    }

    #[test]
    fn an_end_counts_by_the_clock_of_its_server() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let left = |end, date, now| time_left(at(end), date, at(now)).as_secs();
        assert_eq!(left(1_000, None, 400), 600);
        assert_eq!(left(1_000, Some(at(700)), 400), 300, "our clock is late");
        assert_eq!(left(1_000, Some(at(700)), 1_200), 300, "our clock is early");
        assert_eq!(left(1_000, None, 1_001), 0);
        assert_eq!(left(u64::from(u32::MAX), None, 0), 86_400);
    }
}
