//! A [`Proxy`] is an HTTP proxy through which the gateway reaches servers outside, with CONNECT.
//!
//! **Invariant:** the URL of a proxy is a secret, as it may hold a password. No message quotes it;
//! what is shown is the scheme, the host and the port.

mod environment;
mod exempt;

pub use environment::{EnvironmentWarning, Proxies};

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;

use crate::base::host::{FORBIDDEN, Host, host_and_port, port_or};
use crate::base::secret::Secret;
use crate::conf::secret_ref::STAND_IN;
use dialects::wire::percent;

/// The fault of a text that is no URL of a proxy, as the rest of a sentence.
const SHAPE: &str = "must be a URL such as http://proxy.example.com:3128";

/// The setting of an account's proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProxyChoice {
    /// The account has no setting: the proxies of the process are used.
    #[default]
    ProcessDefault,
    /// No proxy is used.
    Never,
    /// This proxy is used.
    Own(Arc<Proxy>),
}

/// An HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// True if the connection to the proxy itself uses TLS.
    pub tls: bool,
    /// A lower-case name, or an IP address (IPv6 without brackets).
    pub host: Arc<str>,
    /// The port, written or by default.
    pub port: u16,
    /// The text that messages show of it.
    shown: String,
    /// The value of `proxy-authorization`.
    credential: Option<Secret>,
}

impl ProxyChoice {
    /// Reads an account's setting: a URL, or `none`. An error is the rest of a sentence; the
    /// sentence begins with the place where the text was found. No error quotes the text.
    pub fn parse(text: &str) -> Result<ProxyChoice, String> {
        match text.trim_end_matches(['\r', '\n']) {
            "none" => Ok(ProxyChoice::Never),
            url => match Proxy::parse(url) {
                Ok(proxy) => Ok(ProxyChoice::Own(Arc::new(proxy))),
                Err(why) if why == SHAPE => Err(format!("{SHAPE}, or `none`")),
                Err(why) => Err(why),
            },
        }
    }

    /// Returns the proxy that an account names.
    pub fn account_proxy(&self) -> Option<Arc<Proxy>> {
        match self {
            ProxyChoice::Own(proxy) => Some(proxy.clone()),
            ProxyChoice::ProcessDefault | ProxyChoice::Never => None,
        }
    }

    /// Returns the choice without the password.
    pub fn without_secret(&self) -> ProxyChoice {
        match self {
            ProxyChoice::Own(proxy) => ProxyChoice::Own(Arc::new(proxy.without_secret())),
            ProxyChoice::ProcessDefault | ProxyChoice::Never => self.clone(),
        }
    }

    /// Returns texts that differ if two choices do.
    pub fn marks(&self) -> [Option<&str>; 2] {
        match self {
            ProxyChoice::ProcessDefault => [None, None],
            ProxyChoice::Never => [Some("none"), None],
            ProxyChoice::Own(proxy) => [
                Some(&proxy.shown),
                proxy.credential.as_ref().map(Secret::expose),
            ],
        }
    }
}

impl Proxy {
    /// Reads a URL. The errors are as those of [`ProxyChoice::parse`].
    pub fn parse(url: &str) -> Result<Proxy, String> {
        const LONGER: &str = "must have nothing after the port: in a user name or a password write %2F, %3F and %23 for `/`, `?` and `#`";
        let (scheme, rest) = url.split_once("://").ok_or(SHAPE)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            scheme if scheme.starts_with("socks") => {
                return Err(
                    "is a SOCKS proxy, and only HTTP proxies can be used: write one such as \
                            http://proxy.example.com:3128"
                        .to_owned(),
                );
            }
            _ => return Err(SHAPE.to_owned()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(LONGER.to_owned());
        }
        let (user, host_part) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(user, host_part)| {
                (Some(user), host_part)
            });
        let (host, port) = host_and_port(host_part).ok_or(SHAPE)?;
        let port = port_or(if tls { 443 } else { 80 }, port)?;
        let host = Host::read(host)?;
        if host.is_forbidden() {
            return Err(FORBIDDEN.to_owned());
        }
        let credential = user.map(basic_credential).transpose()?;
        let shown = format!("{}://{host}:{port}", if tls { "https" } else { "http" });
        Ok(Proxy {
            tls,
            host: host.bare().into(),
            port,
            shown,
            credential,
        })
    }

    /// Stands in for a proxy whose URL is not read.
    pub fn assumed() -> Proxy {
        let shown = "(its URL is not read here)".to_owned();
        Proxy {
            tls: false,
            host: STAND_IN.into(),
            port: 80,
            shown,
            credential: None,
        }
    }

    /// Returns whether this only stands in for a proxy.
    pub fn is_assumed(&self) -> bool {
        *self.host == *STAND_IN
    }

    /// Returns the value of `proxy-authorization`, if the URL has a user.
    pub fn credential(&self) -> Option<&Secret> {
        self.credential.as_ref()
    }

    fn without_secret(&self) -> Proxy {
        Proxy {
            credential: self.credential.as_ref().map(|_| Secret::new(STAND_IN)),
            ..self.clone()
        }
    }
}

/// Returns the value of `proxy-authorization` for the part of a URL before the `@`.
fn basic_credential(user: &str) -> Result<Secret, String> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    const UNREADABLE: &str = "holds a `%` without two hexadecimal digits after it";
    let plain = |part: &str| percent::decode_text(part).ok_or(UNREADABLE);
    let (name, password) = (plain(name)?, plain(password)?);
    if name.contains(&b':') {
        return Err("has a `:` in its user name, which no proxy can be told".to_owned());
    }
    let basic = [name, password].join(&b':');
    if basic.iter().any(u8::is_ascii_control) {
        return Err("has a control character in its user name or its password".to_owned());
    }
    Ok(Secret::new(format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(basic)
    )))
}

/// Shows no credential.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_hides_its_password() {
        for (url, tls, host, port, shown, credential) in [
            (
                "http://proxy.corp:3128",
                false,
                "proxy.corp",
                3128,
                "http://proxy.corp:3128",
                None,
            ),
            (
                "HTTP://Proxy.Corp/",
                false,
                "proxy.corp",
                80,
                "http://proxy.corp:80",
                None,
            ),
            (
                "https://proxy.corp",
                true,
                "proxy.corp",
                443,
                "https://proxy.corp:443",
                None,
            ),
            (
                "http://[FD00::1]:3128",
                false,
                "fd00::1",
                3128,
                "http://[fd00::1]:3128",
                None,
            ),
            (
                "http://10.0.0.1:8080",
                false,
                "10.0.0.1",
                8080,
                "http://10.0.0.1:8080",
                None,
            ),
            (
                "http://ann:s3cret@p:1",
                false,
                "p",
                1,
                "http://p:1",
                Some("Basic YW5uOnMzY3JldA=="),
            ),
            (
                "http://ann:s%3Acr%40t%2F@p:1",
                false,
                "p",
                1,
                "http://p:1",
                Some("Basic YW5uOnM6Y3JAdC8="),
            ),
            (
                "http://ann@p:1",
                false,
                "p",
                1,
                "http://p:1",
                Some("Basic YW5uOg=="),
            ),
            (
                "http://a%C3%A9:@p:1",
                false,
                "p",
                1,
                "http://p:1",
                Some("Basic YcOpOg=="),
            ),
            // The last `@` counts, as in curl.
            (
                "http://ann:s3cr@t@p:1",
                false,
                "p",
                1,
                "http://p:1",
                Some("Basic YW5uOnMzY3JAdA=="),
            ),
        ] {
            let proxy = Proxy::parse(url).unwrap_or_else(|why| panic!("{url}: {why}"));
            assert_eq!(
                (
                    proxy.tls,
                    &*proxy.host,
                    proxy.port,
                    proxy.to_string().as_str()
                ),
                (tls, host, port, shown)
            );
            assert_eq!(proxy.credential().map(Secret::expose), credential, "{url}");
            assert_eq!(format!("{proxy:?}"), shown);
        }
    }

    #[test]
    fn what_is_no_proxy_is_refused_in_words() {
        for (url, why) in [
            ("", "must be a URL"),
            ("proxy.corp:3128", "must be a URL"),
            ("off", "must be a URL"),
            ("ftp://s3cret@p:1", "must be a URL"),
            ("socks5://u:s3cret@p:1080", "is a SOCKS proxy"),
            ("SOCKS5H://p:1080", "is a SOCKS proxy"),
            ("http://", "must have a host"),
            ("http://u:s3cret@", "must have a host"),
            ("http://u:s3cret/x@p:1", "must have nothing after the port"),
            ("http://p:1/path", "must have nothing after the port"),
            ("http://p:1?s3cret", "must have nothing after the port"),
            ("http://p:0", "must have a port from 1"),
            ("http://p:65536", "must have a port from 1"),
            ("http://p:+1", "must be a URL"),
            ("http://u:s3cret%zz@p:1", "holds a `%`"),
            ("http://u%3a:s3cret@p:1", "has a `:` in its user name"),
            ("http://u:s3cret%0d%0ax@p:1", "has a control character"),
            (
                "http://u:s3cret@169.254.169.254:80",
                "is a link-local, metadata",
            ),
            (
                "http://metadata.google.internal",
                "is a link-local, metadata",
            ),
            ("http://[fd00:ec2::254]:80", "is a link-local, metadata"),
            ("http://2852039166", "must have a host"),
            ("http://a b:1", "must have a host"),
        ] {
            let told = ProxyChoice::parse(url).expect_err(url);
            assert!(
                told.starts_with(why) && !told.contains("s3cret"),
                "{url}: {told}"
            );
        }
        assert_eq!(ProxyChoice::parse("none"), Ok(ProxyChoice::Never));
    }

    #[test]
    fn choices_that_differ_have_other_marks() {
        let texts = [
            "none",
            "http://p:1",
            "http://p:2",
            "https://p:1",
            "http://u@p:1",
            "http://u:a@p:1",
            "http://u:b@p:1",
        ];
        let choices: Vec<_> = texts
            .into_iter()
            .map(|text| ProxyChoice::parse(text).expect(text))
            .collect();
        let mut marks: Vec<_> = choices
            .iter()
            .map(ProxyChoice::marks)
            .chain([ProxyChoice::ProcessDefault.marks()])
            .collect();
        marks.sort();
        marks.dedup();
        assert_eq!(marks.len(), texts.len() + 1);
        let bare = ProxyChoice::parse("http://u:s3cret@p:1")
            .expect("a proxy")
            .without_secret();
        assert_eq!(bare.marks(), [Some("http://p:1"), Some(STAND_IN)]);
    }
}
