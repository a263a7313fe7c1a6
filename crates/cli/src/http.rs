//! Plain HTTP: it is all that a command needs to ask the admin listener of a running gateway.

use std::env;
use std::fmt::{self, Display, Formatter};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::{Duration, Instant};

use portcullis::base::address::reachable_address;
use portcullis::base::secret::Secret;
use portcullis::catalog::load::{Secrets, read_server};
use portcullis::conf::config::Admin;
use portcullis::conf::secret_ref::STAND_IN;

/// The largest answer. The status of thousands of accounts is smaller.
pub(super) const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// The environment variable that may hold the key of the admin listener.
const KEY_VARIABLE: &str = "PORTCULLIS_ADMIN_KEY";

/// The reason why an address does not send the page.
pub(super) enum PageError {
    /// No whole answer came.
    NoAnswer(io::Error),
    /// The listener wants its key.
    NeedsKey,
    /// The listener does not show this page to this caller. The text is for the user.
    Hidden(String),
    /// The server answers with another status, or not with HTTP. The text is for the user.
    OtherAnswer(String),
}

impl From<io::Error> for PageError {
    fn from(why: io::Error) -> PageError {
        PageError::NoAnswer(why)
    }
}

impl Display for PageError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PageError::NoAnswer(why) => write!(f, "does not answer: {why}"),
            PageError::NeedsKey => write!(
                f,
                "wants its key (`admin.key` in server.yaml): run the command as a user who can read it, or set {KEY_VARIABLE}"
            ),
            PageError::Hidden(text) | PageError::OtherAnswer(text) => f.write_str(text),
        }
    }
}

/// The reason why no page came.
pub(super) struct FetchError {
    /// The reason, as a text for the user.
    pub(super) why: String,
    /// True if a listener answers, and does not show the page: with 401, 403 or 404.
    pub(super) is_hidden: bool,
}

impl From<String> for FetchError {
    fn from(why: String) -> FetchError {
        FetchError {
            why,
            is_hidden: false,
        }
    }
}

/// A request to an admin listener.
#[derive(Clone, Copy)]
pub(super) enum AdminRequest<'r> {
    Get,
    /// A POST with this body.
    Post(&'r [u8]),
}

/// A URL as the user wrote it.
#[derive(Clone, Copy)]
pub(super) struct PageUrl<'u> {
    pub(super) url: &'u str,
    /// The path of a URL that has none.
    pub(super) usual_path: &'u str,
    /// The end of the error about a URL that is not one of HTTP: what to write instead.
    pub(super) hint: &'u str,
}

/// Returns the key of an admin listener: the environment's, or the one of its settings.
pub(super) fn listener_key(admin: Option<&Admin>) -> Option<Secret> {
    let of_settings = || admin?.key.clone().filter(|key| key.expose() != STAND_IN);
    env::var(KEY_VARIABLE)
        .ok()
        .filter(|key| !key.is_empty())
        .map(Secret::new)
        .or_else(of_settings)
}

/// Returns a function that finds the key for the admin listener at an address: the key of the
/// command line, or that of the environment, or that of server.yaml. The last one is only for the
/// listener of server.yaml, and for this machine.
pub(super) fn key_lookup(
    conf: &Path,
    key_argument: Option<Secret>,
) -> impl Fn(SocketAddr) -> Option<Secret> {
    let admin = read_server(conf, Secrets::ReadIfPossible)
        .ok()
        .map(|server| server.admin);
    move |address| {
        let ours = admin.as_ref().filter(|admin| {
            address.ip().is_loopback() || address == reachable_address(admin.address)
        });
        key_argument.clone().or_else(|| listener_key(ours))
    }
}

/// Sends a request to the server of a URL, and returns the body of its answer. `key_for` finds the
/// key for an address.
pub(super) fn send_to_url(
    page: PageUrl<'_>,
    request: AdminRequest<'_>,
    key_for: &dyn Fn(SocketAddr) -> Option<Secret>,
    timeout: Duration,
) -> Result<Vec<u8>, FetchError> {
    let PageUrl {
        url,
        usual_path,
        hint,
    } = page;
    let Some(rest) = url
        .strip_prefix("http://")
        .filter(|rest| !rest.contains('@'))
    else {
        return Err(format!("the URL must begin with http:// and hold no user name{hint}").into());
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // Browsers copy an address with a slash at its end.
    let path = if matches!(path, "" | "/") {
        usual_path
    } else {
        path
    };
    if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(
            "the URL holds a space or a control character, which is not allowed"
                .to_owned()
                .into(),
        );
    }
    let port = if authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    {
        ""
    } else {
        ":80"
    };
    let mut last_error = PageError::NoAnswer(io::ErrorKind::NotFound.into());
    let addresses = format!("{authority}{port}")
        .to_socket_addrs()
        .map_err(|why| format!("{url} does not answer: {why}"))?;
    for address in addresses {
        match send_request(
            address,
            authority,
            path,
            request,
            key_for(address).as_ref(),
            timeout,
        ) {
            Ok(answer) => return Ok(answer),
            // Another address of the host may answer.
            Err(error @ PageError::NoAnswer(_)) => last_error = error,
            Err(refusal) => {
                let is_hidden = matches!(refusal, PageError::NeedsKey | PageError::Hidden(_));
                return Err(FetchError {
                    why: format!("{url} {refusal}"),
                    is_hidden,
                });
            }
        }
    }
    Err(format!("{url} {last_error}").into())
}

/// Fetches a page from an address, and returns its body.
pub(super) fn get_from_address(
    address: SocketAddr,
    host: &str,
    path: &str,
    key: Option<&Secret>,
    timeout: Duration,
) -> Result<Vec<u8>, PageError> {
    send_request(address, host, path, AdminRequest::Get, key, timeout)
}

fn send_request(
    address: SocketAddr,
    host: &str,
    path: &str,
    request: AdminRequest<'_>,
    key: Option<&Secret>,
    timeout: Duration,
) -> Result<Vec<u8>, PageError> {
    let start = Instant::now();
    // A socket refuses a timeout of zero.
    const SHORTEST: Duration = Duration::from_millis(1);
    let time_left = || timeout.saturating_sub(start.elapsed()).max(SHORTEST);
    let mut stream = TcpStream::connect_timeout(&address, time_left())?;
    stream.set_write_timeout(Some(time_left()))?;
    let key = key.filter(|key| key.expose().bytes().all(|byte| byte.is_ascii_graphic()));
    let key_header = key
        .map(|key| format!("authorization: Bearer {}\r\n", key.expose()))
        .unwrap_or_default();
    let (method, body, body_headers) = match request {
        AdminRequest::Get => ("GET", &[][..], String::new()),
        AdminRequest::Post(body) => (
            "POST",
            body,
            format!(
                "content-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            ),
        ),
    };
    // With HTTP/1.0 the answer comes in one piece and ends with the connection.
    stream.write_all(
        format!("{method} {path} HTTP/1.0\r\nhost: {host}\r\n{key_header}{body_headers}\r\n")
            .as_bytes(),
    )?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        if start.elapsed() >= timeout {
            return Err(PageError::NoAnswer(io::ErrorKind::TimedOut.into()));
        }
        stream.set_read_timeout(Some(time_left()))?;
        match stream.read(&mut buffer)? {
            0 => break,
            read => answer.extend_from_slice(buffer.get(..read).unwrap_or_default()),
        }
        if answer.len() as u64 > MAX_ANSWER_BYTES {
            return Err(PageError::NoAnswer(io::ErrorKind::FileTooLarge.into()));
        }
    }
    answer_body(&answer)
}

fn answer_body(answer: &[u8]) -> Result<Vec<u8>, PageError> {
    let not_http = || PageError::OtherAnswer("does not speak HTTP".to_owned());
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or_else(not_http)?;
    let (head, body) = answer.split_at(end);
    let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    if status == b"401" {
        return Err(PageError::NeedsKey);
    }
    if status == b"404" {
        let message = "answers with HTTP 404, not 200: it has no such page, so it is an older version, or another program";
        return Err(PageError::Hidden(message.to_owned()));
    }
    if status != b"200" {
        let number = std::str::from_utf8(status)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = number.filter(|text| text.len() == 3).ok_or_else(not_http)?;
        let message = format!("answers with HTTP {number}, not 200");
        return Err(if number == "403" {
            PageError::Hidden(message)
        } else {
            PageError::OtherAnswer(message)
        });
    }
    Ok(body.get(4..).unwrap_or_default().to_vec())
}
