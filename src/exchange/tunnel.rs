//! A tunnel is a connection to an account's server through a proxy, made with CONNECT (RFC 9110,
//! §9.3.6). In it everything is as on a direct connection: TLS is verified against the account's
//! own host, and the proxy sees only bytes.
//!
//! CONNECT is used for `http:` servers too. In the other way, where the proxy reads each request,
//! the proxy's 407 or 503 would look like the server's. **Invariant:** what a proxy says is never
//! taken for an answer of the server, and none of its words are repeated.

use super::secure::Secure;
use crate::account::failure::Failure;
use crate::base::secret::Secret;
use crate::catalog::Base;
use crate::conf::proxy::Proxy;
use crate::tls::trust::{Distrust, Trust};
use httparse::{EMPTY_HEADER, Response, Status};
use pingora::protocols::Stream;
use std::sync::OnceLock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The most bytes of a proxy's answer, and its most fields.
const LARGEST: usize = 16 * 1024;
const FIELDS: usize = 64;

/// Asks a proxy for a tunnel to an account's server, on a new connection to the proxy.
pub(super) async fn open_tunnel(
    proxy: &Proxy,
    base: &Base,
    mut stream: Stream,
) -> Result<Stream, Failure> {
    if proxy.tls {
        let secured = proxy_trust().connect(&proxy.host, stream).await;
        let secured = secured.map_err(|Distrust { why, lasts }| Failure::Proxy {
            why: format!("the proxy {proxy} makes no secure connection: {why}"),
            is_permanent: lasts,
        })?;
        stream = Box::new(Secure(secured));
    }
    let closed = || proxy_failure(proxy, "closed the connection without an answer");
    let goal = connect_target(base);
    stream
        .write_all(connect_request(proxy, &goal).expose().as_bytes())
        .await
        .map_err(|_| closed())?;
    stream.flush().await.map_err(|_| closed())?;
    let mut answer = Vec::with_capacity(512);
    loop {
        if stream.read_buf(&mut answer).await.map_err(|_| closed())? == 0 {
            return Err(closed());
        }
        match parse_answer(&answer) {
            // The server speaks only when it is spoken to. What comes before is not from it.
            Ok(Some(ProxyAnswer {
                status: 200..=299,
                length,
                ..
            })) if length < answer.len() => {
                return Err(proxy_failure(
                    proxy,
                    "sent something after its answer to CONNECT",
                ));
            }
            Ok(Some(ProxyAnswer {
                status: 200..=299, ..
            })) => return Ok(stream),
            Ok(Some(answer)) => return Err(proxy_refusal(proxy, base, &goal, &answer)),
            Ok(None) if answer.len() < LARGEST => {}
            Ok(None) | Err(NoAnswer) => {
                return Err(proxy_failure(
                    proxy,
                    "gave an answer that no HTTP proxy gives",
                ));
            }
        }
    }
}

/// Returns the failure of a proxy that cannot be reached.
pub(super) fn proxy_unreachable(proxy: &Proxy, why: &str) -> Failure {
    proxy_failure(proxy, &format!("cannot be reached: {why}"))
}

/// Returns the failure of a proxy that is silent until its time is over.
pub(super) fn proxy_timeout(proxy: &Proxy) -> Failure {
    proxy_failure(proxy, "gave no connection in time")
}

/// Returns the failure of the connection to the server in a tunnel, with the proxy's name. If the
/// tunnel is silent, the proxy may as well be at fault as the server.
pub(super) fn failure_in_tunnel(proxy: &Proxy, base: &Base, failure: Failure) -> Failure {
    let through = |why: &str| format!("{why} (through the proxy {proxy})");
    if let Failure::Tls {
        why,
        is_permanent: lasts,
    } = &failure
    {
        return Failure::Tls {
            why: through(why),
            is_permanent: *lasts,
        };
    }
    if let Failure::Unreachable(why) = &failure {
        return Failure::Unreachable(through(why));
    }
    if failure == Failure::ConnectTimeout {
        let does = format!(
            "made a tunnel to {}, and no connection to the server came in time",
            connect_target(base)
        );
        return proxy_failure(proxy, &does);
    }
    failure
}

/// Returns a failure of a proxy that may pass by itself. `does` says what the proxy does.
fn proxy_failure(proxy: &Proxy, does: &str) -> Failure {
    Failure::Proxy {
        why: format!("the proxy {proxy} {does}"),
        is_permanent: false,
    }
}

/// Returns the server's host and port as CONNECT names them. The port is always written.
fn connect_target(base: &Base) -> String {
    let Base { host, port, .. } = base;
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

fn connect_request(proxy: &Proxy, goal: &str) -> Secret {
    let credential = proxy.credential().map(Secret::expose);
    let credential = credential
        .map(|value| format!("proxy-authorization: {value}\r\n"))
        .unwrap_or_default();
    let agent = concat!("portcullis/", env!("CARGO_PKG_VERSION"));
    Secret::new(format!(
        "CONNECT {goal} HTTP/1.1\r\nhost: {goal}\r\nuser-agent: {agent}\r\n{credential}\r\n"
    ))
}

/// The proxy's answer.
#[derive(Debug, PartialEq, Eq)]
struct ProxyAnswer {
    status: u16,
    /// The length of its head, and of those before it.
    length: usize,
    /// True if it asks for a credential, and not in the way that is called Basic.
    wants_another_way: bool,
}

/// The error for bytes that are no answer.
#[derive(Debug, PartialEq, Eq)]
struct NoAnswer;

/// Reads the answer at the beginning of these bytes. Informational ones before it do not count.
/// Returns `None` if its end has not come yet.
fn parse_answer(bytes: &[u8]) -> Result<Option<ProxyAnswer>, NoAnswer> {
    let mut before = 0;
    loop {
        let mut fields = [EMPTY_HEADER; FIELDS];
        let mut response = Response::new(&mut fields);
        let rest = bytes.get(before..).unwrap_or_default();
        let Status::Complete(length) = response.parse(rest).map_err(|_| NoAnswer)? else {
            return Ok(None);
        };
        let status = response.code.ok_or(NoAnswer)?;
        if (100..=199).contains(&status) {
            before += length;
            continue;
        }
        let mut ways = response
            .headers
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case("proxy-authenticate"));
        let has_ways = ways.clone().next().is_some();
        let has_basic = ways.any(|field| {
            let value = field.value.to_ascii_lowercase();
            memchr::memmem::find(&value, b"basic").is_some()
        });
        return Ok(Some(ProxyAnswer {
            status,
            length: before + length,
            wants_another_way: has_ways && !has_basic,
        }));
    }
}

/// Returns the failure for a proxy's refusal.
fn proxy_refusal(proxy: &Proxy, base: &Base, goal: &str, answer: &ProxyAnswer) -> Failure {
    let &ProxyAnswer {
        status,
        wants_another_way,
        ..
    } = answer;
    let (is_permanent, does) = match status {
        // Tinyproxy answers 401 to a wrong password.
        401 | 407 if wants_another_way => (
            true,
            "asks for a credential in another way than Basic".to_owned(),
        ),
        401 | 407 if proxy.credential().is_some() => (
            true,
            "refuses the user and the password in its URL".to_owned(),
        ),
        401 | 407 => (
            true,
            "asks for a user and a password, and its URL has none".to_owned(),
        ),
        408 | 425 | 429 | 500..=599 => (false, format!("could not connect to {goal}")),
        400..=499 if base.port == 443 => (true, format!("refuses to connect to {goal}")),
        400..=499 => (
            true,
            format!("refuses to connect to {goal}, as many proxies do for other ports than 443"),
        ),
        _ => (true, "does not understand CONNECT".to_owned()),
    };
    Failure::Proxy {
        why: format!("the proxy {proxy} {does} (HTTP {status})"),
        is_permanent,
    }
}

/// Returns the trust in the certificates of proxies: the system's. What an account says about
/// certificates holds for its own server.
fn proxy_trust() -> &'static Trust {
    static SYSTEM: OnceLock<Trust> = OnceLock::new();
    SYSTEM.get_or_init(|| Trust::system_only(&[b"http/1.1"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(host: &str, port: u16) -> Base {
        Base {
            tls: true,
            host: host.into(),
            port,
            path: "".into(),
            authority: String::new(),
        }
    }

    #[test]
    fn connect_names_the_server_with_its_port() {
        let check = |proxy: &str, (host, port): (&str, u16), expected: &str| {
            let proxy = Proxy::parse(proxy).expect("a proxy");
            let written = connect_request(&proxy, &connect_target(&base(host, port)));
            let agent = concat!("user-agent: portcullis/", env!("CARGO_PKG_VERSION"), "\r\n");
            assert_eq!(written.expose().replace(agent, ""), expected);
        };
        check(
            "http://p:1",
            ("a.test", 443),
            "CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\n\r\n",
        );
        check(
            "http://p:1",
            ("2001:db8::1", 80),
            "CONNECT [2001:db8::1]:80 HTTP/1.1\r\nhost: [2001:db8::1]:80\r\n\r\n",
        );
        check(
            "http://ann:s3cret@p:1",
            ("a.test", 8443),
            "CONNECT a.test:8443 HTTP/1.1\r\nhost: a.test:8443\r\nproxy-authorization: Basic YW5uOnMzY3JldA==\r\n\r\n",
        );
    }

    #[test]
    fn answers_of_proxies() {
        let answer = |status, length| {
            Ok(Some(ProxyAnswer {
                status,
                length,
                wants_another_way: false,
            }))
        };
        for (bytes, expected) in [
            ("", Ok(None)),
            ("HTTP/1.1 200", Ok(None)),
            ("HTTP/1.1 200 OK\r\n", Ok(None)),
            (
                "HTTP/1.1 200 Connection established\r\n\r\n",
                answer(200, 39),
            ),
            ("HTTP/1.0 200 OK\r\nvia: x\r\n\r\n", answer(200, 27)),
            ("HTTP/1.1 200\r\n\r\n", answer(200, 16)),
            ("HTTP/1.1 200 OK\r\n\r\nmore", answer(200, 19)),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\n\r\n",
                answer(204, 43),
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", Ok(None)),
            (
                "HTTP/1.1 407 x\r\nProxy-Authenticate: Negotiate\r\nproxy-authenticate: BASIC realm=x\r\n\r\n",
                answer(407, 84),
            ),
            (
                "HTTP/1.1 407 x\r\nproxy-authenticate: NTLM\r\n\r\n",
                Ok(Some(ProxyAnswer {
                    status: 407,
                    length: 44,
                    wants_another_way: true,
                })),
            ),
            ("SSH-2.0-x\r\n", Err(NoAnswer)),
            ("\x15\x03\x01\x00\x02\x02\x16", Err(NoAnswer)),
            ("HTTP/1.1 abc\r\n\r\n", Err(NoAnswer)),
        ] {
            assert_eq!(parse_answer(bytes.as_bytes()), expected, "{bytes:?}");
        }
    }

    #[test]
    fn failures_inside_a_tunnel_name_the_proxy() {
        let (proxy, base) = (
            Proxy::parse("http://u:s3cret@p:1").expect("a proxy"),
            base("a.test", 443),
        );
        let check =
            |failure, expected| assert_eq!(failure_in_tunnel(&proxy, &base, failure), expected);
        let tls = |why: &str| Failure::Tls {
            why: why.to_owned(),
            is_permanent: true,
        };
        check(
            tls("it expired"),
            tls("it expired (through the proxy http://p:1)"),
        );
        let unreachable = |why: &str| Failure::Unreachable(why.to_owned());
        check(
            unreachable("no"),
            unreachable("no (through the proxy http://p:1)"),
        );
        let why =
            "the proxy http://p:1 made a tunnel to a.test:443, and no connection to the server came in time".to_owned();
        check(
            Failure::ConnectTimeout,
            Failure::Proxy {
                why,
                is_permanent: false,
            },
        );
        check(Failure::Reset, Failure::Reset);
    }

    #[test]
    fn a_refusal_says_what_to_change() {
        let check = |proxy: &str,
                     port: u16,
                     (status, wants_another_way): (u16, bool),
                     expected: &str,
                     lasts: bool| {
            let (proxy, base) = (Proxy::parse(proxy).expect("a proxy"), base("a.test", port));
            let answer = ProxyAnswer {
                status,
                length: 0,
                wants_another_way,
            };
            let why = format!("the proxy http://p:1 {expected} (HTTP {status})");
            assert_eq!(
                proxy_refusal(&proxy, &base, &connect_target(&base), &answer),
                Failure::Proxy {
                    why,
                    is_permanent: lasts
                }
            );
        };
        check(
            "http://p:1",
            443,
            (407, false),
            "asks for a user and a password, and its URL has none",
            true,
        );
        check(
            "http://u:x@p:1",
            443,
            (407, false),
            "refuses the user and the password in its URL",
            true,
        );
        check(
            "http://u:x@p:1",
            443,
            (401, false),
            "refuses the user and the password in its URL",
            true,
        );
        check(
            "http://u:x@p:1",
            443,
            (407, true),
            "asks for a credential in another way than Basic",
            true,
        );
        check(
            "http://p:1",
            443,
            (403, false),
            "refuses to connect to a.test:443",
            true,
        );
        let other = "refuses to connect to a.test:80, as many proxies do for other ports than 443";
        check("http://p:1", 80, (403, false), other, true);
        for status in [429, 500, 502, 503, 504] {
            check(
                "http://p:1",
                443,
                (status, false),
                "could not connect to a.test:443",
                false,
            );
        }
        check(
            "http://p:1",
            443,
            (302, false),
            "does not understand CONNECT",
            true,
        );
    }
}
