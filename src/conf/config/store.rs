//! The section `store:` of `server.yaml`: the Redis or Valkey server through which several gateways
//! share limits.
//!
//! **Invariant:** the server's URL is a secret, as it may hold a password: no message quotes it.

use std::fmt;
use std::time::Duration;

use super::raw;
use crate::base::secret::Secret;
use crate::base::units::{Span, Text};
use crate::conf::scribe::Scribe;
use crate::conf::secret_ref::placeholder::Placeholder;
use crate::conf::secret_ref::{STAND_IN, SecretRef};
use dialects::wire::percent;

pub use raw::OnStoreDown;

/// The settings of the store.
#[derive(Debug, Clone)]
pub struct Store {
    /// The server's address.
    pub address: Address,
    /// Certificates (PEM) that are trusted besides the system's. A certificate that belongs to no
    /// authority is a pin.
    pub ca: Option<String>,
    /// The number of gateways that share the store, at least 1.
    pub instances: u64,
    /// The treatment of requests with limits while the store is down.
    pub on_store_down: OnStoreDown,
    /// The longest time that a request waits for the store.
    pub timeout: Duration,
    /// The prefix of all names in the store.
    pub prefix: String,
}

/// The address of a server, and the user and password for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// True if the connection uses TLS.
    pub tls: bool,
    /// A name, or an IP address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The number of the database.
    pub db: i64,
    /// The user's name; `None` = the default user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}/{}", self.db)
    }
}

/// Shows no credentials.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host) = (if self.tls { "rediss" } else { "redis" }, &self.host);
        let (open, close) = if host.contains(':') {
            ("[", "]")
        } else {
            ("", "")
        };
        write!(f, "{scheme}://{open}{host}{close}:{}", self.port)
    }
}

impl Address {
    /// Reads a URL. An error is the rest of a sentence; the sentence begins with the place where
    /// the URL was found. No error quotes the URL.
    pub fn parse(text: &str) -> Result<Address, String> {
        const SHAPE: &str = "must be a URL such as redis://host:6379, or rediss://user:password@host:6380/0 for TLS";
        let url = redis::parse_redis_url(text.trim_end_matches(['\r', '\n'])).ok_or(SHAPE)?;
        let tls = match url.scheme() {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(SHAPE.to_owned()),
        };
        let host = url
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or(SHAPE)?
            .trim_matches(['[', ']'])
            .to_owned();
        let db = match url.path().trim_matches('/') {
            "" => 0,
            path => path.parse().ok().filter(|db| *db >= 0).ok_or(
                "must have only the number of a database after the port, such as /0, or nothing",
            )?,
        };
        if url.query().is_some() || url.fragment().is_some() {
            return Err(
                "must have no `?` and no `#`: in a password write %3F and %23 for them".to_owned(),
            );
        }
        const UNREADABLE: &str =
            "holds a `%` without two hexadecimal digits after it, or text that is not UTF-8";
        let plain = |part: &str| decode_percent(part).ok_or(UNREADABLE);
        let username = Some(url.username())
            .filter(|name| !name.is_empty())
            .map(plain)
            .transpose()?;
        let password = url.password().map(plain).transpose()?.map(Secret::new);
        Ok(Address {
            tls,
            host,
            port: url.port().unwrap_or(6379),
            db,
            username,
            password,
        })
    }
}

fn decode_percent(text: &str) -> Option<String> {
    String::from_utf8(percent::decode_text(text)?).ok()
}

pub(super) fn resolve_store(raw: &raw::Store, section: &Scribe<'_, '_>) -> Option<Store> {
    let address = resolve_address(raw, section);
    let ca = raw.tls.as_ref().and_then(|tls| {
        let scribe = section.key("tls");
        let scribe = scribe.key("ca");
        let has_none = address.as_ref().is_some_and(|address| !address.tls);
        scribe.note_problem_if(
            has_none,
            "does not apply to redis:, which has no TLS: write rediss:",
        );
        scribe.certificates(tls.ca.as_deref())
    });
    let instances = raw.instances.unwrap_or(1);
    section
        .key("instances")
        .note_problem_if(!(1..=1000).contains(&instances), "must be 1 to 1000");
    let timeout = raw
        .timeout
        .map_or(Duration::from_millis(20), |Text(Span(span))| span);
    let is_wrong = timeout.is_zero() || timeout > Duration::from_secs(5);
    let message =
        "must be more than 0ms and at most 5s, because a request waits for the store this long";
    section.key("timeout").note_problem_if(is_wrong, message);
    let prefix = raw.prefix.as_deref().unwrap_or("portcullis");
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-:".contains(&b);
    let is_wrong = !(1..=64).contains(&prefix.len()) || !prefix.bytes().all(plain);
    section.key("prefix").note_problem_if(
        is_wrong,
        "must have 1 to 64 letters, digits and any of . _ - :",
    );
    Some(Store {
        address: address?,
        ca,
        instances: instances.into(),
        on_store_down: raw.on_store_down.unwrap_or(OnStoreDown::Local),
        timeout,
        prefix: prefix.to_owned(),
    })
}

fn resolve_address(raw: &raw::Store, section: &Scribe<'_, '_>) -> Option<Address> {
    let scribe = section.key("redis");
    let message = "is missing: write a URL such as redis://host:6379, or `{ env: NAME }` or `{ file: /path }` that holds the URL";
    let written = scribe.required(raw.redis.as_ref(), message)?;
    if let SecretRef::Literal(url) = written
        && let Some(placeholder) = Placeholder::detect(url.expose())
    {
        scribe.note_problem_unquoted(&placeholder.problem_text("redis", Some("REDIS_URL")));
        return None;
    }
    let is_literal = matches!(written, SecretRef::Literal(_));
    // The value is a stand-in if secrets are not read.
    let stand_in = |text: &str| !is_literal && text == STAND_IN;
    let address = scribe.secret(written, |text| {
        Address::parse(if stand_in(text) {
            "redis://127.0.0.1:6379"
        } else {
            text
        })
    })?;
    let message = "holds a password in clear text: `{ env: NAME }` or `{ file: /path }` with the whole URL is safer";
    scribe.warn_if(is_literal && address.password.is_some(), message);
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_not_shown() {
        let read = |text: &str| Address::parse(text);
        let address = read("rediss://ann:s%3Acret%2F1@cache.example:6380/2\n").unwrap();
        assert_eq!(
            (address.tls, &*address.host, address.port, address.db),
            (true, "cache.example", 6380, 2)
        );
        assert_eq!(address.username.as_deref(), Some("ann"));
        assert_eq!(
            address.password.as_ref().map(Secret::expose),
            Some("s:cret/1")
        );
        assert_eq!(
            format!("{address} {address:?}"),
            "rediss://cache.example:6380 rediss://cache.example:6380/2"
        );
        assert_eq!(
            format!("{:?}", read("redis://[::1]").unwrap()),
            "redis://[::1]:6379/0"
        );
        assert_eq!(read("redis://:pw@h").unwrap().username, None);
        for wrong in [
            "",
            "h:6379",
            "http://secret@h",
            "redis://",
            "redis://h/x",
            "redis://h/0?protocol=resp3",
            "unix:///a",
            "redis://:%zz@h",
        ] {
            let told = read(wrong).expect_err(wrong);
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
