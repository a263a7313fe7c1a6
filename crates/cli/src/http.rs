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
use portcullis::conf::secret_ref::ASSUMED;

/// The largest answer. The status of thousands of accounts is smaller.
pub(super) const LARGEST: u64 = 64 << 20;

/// The environment variable that may hold the key of the admin listener.
const KEY: &str = "PORTCULLIS_ADMIN_KEY";

/// Something else than the answer that was asked for.
pub(super) enum Instead {
    /// The listener wants its key.
    Locked,
    /// The listener does not show this page, or not to everybody, in words.
    Hidden(String),
    /// The answer, in words.
    Other(String),
}

impl Display for Instead {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Instead::Locked => write!(
                f,
                "wants its key (`admin.key` in server.yaml): run the command as a user who can read it, or set {KEY}"
            ),
            Instead::Hidden(text) | Instead::Other(text) => f.write_str(text),
        }
    }
}

/// Why the answer did not come.
pub(super) struct NoAnswer {
    /// The reason, in words.
    pub(super) why: String,
    /// True if a listener answers, and does not show the page: with 401, 403 or 404.
    pub(super) is_hidden: bool,
}

impl From<String> for NoAnswer {
    fn from(why: String) -> NoAnswer {
        NoAnswer {
            why,
            is_hidden: false,
        }
    }
}

/// The request to an admin listener.
#[derive(Clone, Copy)]
pub(super) enum Question<'q> {
    /// For a page.
    Get,
    /// With this body.
    Post(&'q [u8]),
}

/// Returns the key of an admin listener: the environment's, or the one of its settings.
pub(super) fn listener_key(admin: Option<&Admin>) -> Option<Secret> {
    let of_settings = || admin?.key.clone().filter(|key| key.expose() != ASSUMED);
    env::var(KEY)
        .ok()
        .filter(|key| !key.is_empty())
        .map(Secret::new)
        .or_else(of_settings)
}

/// Fetches a page of an admin listener.
pub(super) fn fetch_admin_page(
    url: &str,
    usual_path: &str,
    otherwise: &str,
    conf: &Path,
    timeout: Duration,
) -> Result<Vec<u8>, String> {
    let key = key_lookup(conf, None);
    fetch_page(url, usual_path, otherwise, &key, timeout)
}

/// Returns the key for the admin listener at an address: the given one, or the key of the
/// environment or server.yaml. The key of server.yaml is only for the listener of server.yaml.
pub(super) fn key_lookup(
    conf: &Path,
    given: Option<Secret>,
) -> impl Fn(SocketAddr) -> Option<Secret> {
    let admin = read_server(conf, Secrets::IfThere)
        .ok()
        .map(|server| server.admin);
    move |address| {
        let ours = admin.as_ref().filter(|admin| {
            address.ip().is_loopback() || address == reachable_address(admin.address)
        });
        given.clone().or_else(|| listener_key(ours))
    }
}

/// Fetches the page of a URL. A URL without a path gets `usual_path`. `otherwise` is the
/// advice for a URL that cannot be asked; `key` is the key for an address.
pub(super) fn fetch_page(
    url: &str,
    usual_path: &str,
    otherwise: &str,
    key: &dyn Fn(SocketAddr) -> Option<Secret>,
    timeout: Duration,
) -> Result<Vec<u8>, String> {
    ask_page(url, usual_path, Question::Get, otherwise, key, timeout).map_err(|no| no.why)
}

/// Asks the page of a URL, as [`fetch_page`] does.
pub(super) fn ask_page(
    url: &str,
    usual_path: &str,
    question: Question<'_>,
    otherwise: &str,
    key: &dyn Fn(SocketAddr) -> Option<Secret>,
    timeout: Duration,
) -> Result<Vec<u8>, NoAnswer> {
    let Some(rest) = url
        .strip_prefix("http://")
        .filter(|rest| !rest.contains('@'))
    else {
        return Err(
            format!("the URL must begin with http:// and hold no user name{otherwise}").into(),
        );
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
    let mut last = format!(
        "does not answer: {}",
        io::Error::from(io::ErrorKind::NotFound)
    );
    let addresses = format!("{authority}{port}")
        .to_socket_addrs()
        .map_err(|why| format!("{url} does not answer: {why}"))?;
    for address in addresses {
        match send_question(
            address,
            authority,
            path,
            question,
            key(address).as_ref(),
            timeout,
        ) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(instead)) => {
                let is_hidden = matches!(instead, Instead::Locked | Instead::Hidden(_));
                return Err(NoAnswer {
                    why: format!("{url} {instead}"),
                    is_hidden,
                });
            }
            Err(why) => last = format!("does not answer: {why}"),
        }
    }
    Err(format!("{url} {last}").into())
}

/// Returns the body of a 200. The inner error says what came instead of a 200.
pub(super) fn get_page(
    address: SocketAddr,
    host: &str,
    path: &str,
    key: Option<&Secret>,
    timeout: Duration,
) -> io::Result<Result<Vec<u8>, Instead>> {
    send_question(address, host, path, Question::Get, key, timeout)
}

fn send_question(
    address: SocketAddr,
    host: &str,
    path: &str,
    question: Question<'_>,
    key: Option<&Secret>,
    timeout: Duration,
) -> io::Result<Result<Vec<u8>, Instead>> {
    let start = Instant::now();
    // A socket takes no timeout of nothing.
    const SHORTEST: Duration = Duration::from_millis(1);
    let left = || timeout.saturating_sub(start.elapsed()).max(SHORTEST);
    let mut stream = TcpStream::connect_timeout(&address, left())?;
    stream.set_write_timeout(Some(left()))?;
    let key = key.filter(|key| key.expose().bytes().all(|byte| byte.is_ascii_graphic()));
    let key = key
        .map(|key| format!("authorization: Bearer {}\r\n", key.expose()))
        .unwrap_or_default();
    let (method, sent, about_sent) = match question {
        Question::Get => ("GET", &[][..], String::new()),
        Question::Post(sent) => (
            "POST",
            sent,
            format!(
                "content-type: application/json\r\ncontent-length: {}\r\n",
                sent.len()
            ),
        ),
    };
    // With HTTP/1.0 the answer comes in one piece and ends with the connection.
    stream.write_all(
        format!("{method} {path} HTTP/1.0\r\nhost: {host}\r\n{key}{about_sent}\r\n").as_bytes(),
    )?;
    stream.write_all(sent)?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        if start.elapsed() >= timeout {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left()))?;
        match stream.read(&mut buffer)? {
            0 => break,
            read => answer.extend_from_slice(buffer.get(..read).unwrap_or_default()),
        }
        if answer.len() as u64 > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
    Ok(answer_body(&answer))
}

fn answer_body(answer: &[u8]) -> Result<Vec<u8>, Instead> {
    let silent = || Instead::Other("does not speak HTTP".to_owned());
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or_else(silent)?;
    let (head, body) = answer.split_at(end);
    let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    if status == b"401" {
        return Err(Instead::Locked);
    }
    if status == b"404" {
        let message = "answers with HTTP 404, not 200: it has no such page, so it is an older version, or another program";
        return Err(Instead::Hidden(message.to_owned()));
    }
    if status != b"200" {
        let number = std::str::from_utf8(status)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = number.filter(|text| text.len() == 3).ok_or_else(silent)?;
        let message = format!("answers with HTTP {number}, not 200");
        return Err(if number == "403" {
            Instead::Hidden(message)
        } else {
            Instead::Other(message)
        });
    }
    Ok(body.get(4..).unwrap_or_default().to_vec())
}
