//! The section `notify:` of `server.yaml`: where notices of problems are sent.
//!
//! **Invariant:** the URL of a webhook is a secret: whoever has it may post there. No message
//! quotes it.

use std::fmt;

use super::raw;
use crate::base::host::{FORBIDDEN, Host};
use crate::base::secret::Secret;
use crate::conf::scribe::Scribe;
use crate::conf::secret_ref::{STAND_IN, SecretRef};

pub use raw::LeastSeverity;

/// The settings of notices.
#[derive(Debug, Clone)]
pub struct Notify {
    /// The address that notices are posted to.
    pub webhook: Webhook,
    /// The least severe problem that is reported.
    pub least: LeastSeverity,
}

/// The address that notices are posted to.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// `https:`.
    pub tls: bool,
    /// A lower-case name, or an IP address (IPv6 without brackets).
    pub host: String,
    /// The port, written or by default.
    pub port: u16,
    /// The value of the `Host` header.
    pub authority: String,
    /// The path, and the query if there is one.
    pub target: Secret,
}

/// Shows nothing of the address.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl Webhook {
    /// Reads a URL. An error is the rest of a sentence; the sentence begins with the place where
    /// the URL was found. No error quotes the URL.
    pub fn parse(text: &str) -> Result<Webhook, String> {
        Webhook::parse_shaped(
            text,
            "must be a URL such as https://hooks.example.com/services/…",
        )
    }

    /// Reads a URL that must have this shape.
    pub(super) fn parse_shaped(text: &str, shape: &str) -> Result<Webhook, String> {
        let uri: http::Uri = text
            .trim_end_matches(['\r', '\n'])
            .parse()
            .map_err(|_| shape)?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err(shape.to_owned()),
        };
        let authority = uri
            .authority()
            .filter(|authority| !authority.host().is_empty())
            .ok_or(shape)?;
        if authority.as_str().contains('@') {
            return Err("must not hold a user name or a password".to_owned());
        }
        let host = Host::read(authority.host())?;
        if host.is_forbidden() {
            return Err(FORBIDDEN.to_owned());
        }
        // A name is looked at when it is resolved.
        if !tls && matches!(host, Host::Address(_)) && !host.is_private() {
            return Err(
                "is http: to a public address, so others on the network path could read it: use https:".to_owned()
            );
        }
        let host = host.bare();
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        // A query may follow the host at once. As a text, the path then is `/`.
        let target = uri
            .path_and_query()
            .map_or_else(|| "/".to_owned(), ToString::to_string);
        Ok(Webhook {
            tls,
            host,
            port,
            authority: authority.as_str().to_ascii_lowercase(),
            target: Secret::new(target),
        })
    }
}

pub(super) fn resolve_notify(raw: &raw::Notify, section: &Scribe<'_, '_>) -> Option<Notify> {
    let scribe = section.key("webhook");
    let message = "is missing: write `{ env: NAME }` or `{ file: /path }` that holds the URL";
    let written = scribe.required(raw.webhook.as_ref(), message)?;
    let is_literal = matches!(written, SecretRef::Literal(_));
    scribe.warn_if(
        is_literal,
        "is a secret in clear text: `{ file: /path }` or `{ env: NAME }` is safer",
    );
    // The value is a stand-in if secrets are not read.
    let stand_in = |text: &str| !is_literal && text == STAND_IN;
    let webhook = scribe.secret(written, |text| {
        Webhook::parse(if stand_in(text) {
            "https://assumed.invalid/"
        } else {
            text
        })
    })?;
    Some(Notify {
        webhook,
        least: raw.min_severity.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_not_shown() {
        let hook = Webhook::parse("https://Hooks.example.com/services/T1/s3cret?sig=x\n").unwrap();
        assert_eq!(
            (hook.tls, &*hook.host, hook.port),
            (true, "hooks.example.com", 443)
        );
        assert_eq!(
            (&*hook.authority, hook.target.expose()),
            ("hooks.example.com", "/services/T1/s3cret?sig=x")
        );
        assert_eq!(format!("{hook:?}"), "[secret]");
        let hook = Webhook::parse("http://[::1]:9000").unwrap();
        assert_eq!(
            (hook.tls, &*hook.host, hook.port, hook.target.expose()),
            (false, "::1", 9000, "/")
        );
        assert_eq!(
            Webhook::parse("https://h?sig=x").unwrap().target.expose(),
            "/?sig=x"
        );
        for wrong in [
            "",
            "s3cret",
            "/s3cret",
            "ftp://s3cret/",
            "https://",
            "https://u:s3cret@h/",
            "https://h/ s3cret",
        ] {
            let told = Webhook::parse(wrong).expect_err(wrong);
            assert!(!told.contains("s3cret"), "{told}");
        }
    }
}
