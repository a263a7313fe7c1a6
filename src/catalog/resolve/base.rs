//! Resolves `base_url` into a [`Base`], the address of an account.
//!
//! **Invariant:** an account's server, and the issuer of its tokens, are called only at addresses
//! that were checked here. A name is checked once more when it is resolved, because its owner
//! decides what it resolves to.

use std::sync::Arc;

use crate::base::host::{FORBIDDEN, Host, host_and_port, port_or};
use crate::catalog::Base;
use crate::conf::secret_ref::placeholder::Placeholder;
use dialects::address::is_public_host;

/// Reads an address. Without `insecure`, `http:` may only go to private addresses. No message
/// repeats the URL: it may hold a password.
pub fn parse_base(url: &str, insecure: bool) -> Result<Base, String> {
    const EXPECTED: &str = "must be a URL such as https://api.example.com/v1";
    check_no_placeholder(url)?;
    let tls = uses_tls(url)?;
    if url.contains('#') || url.contains('?') {
        return Err("must have no query and no fragment".to_owned());
    }
    let uri: http::Uri = url.parse().map_err(|_| EXPECTED.to_owned())?;
    let authority = uri.authority().ok_or(EXPECTED)?.as_str();
    if authority.contains('@') {
        return Err(
            "must not hold a user name or a password: write the credential under `key`".to_owned(),
        );
    }
    let (host, port) = host_and_port(authority).ok_or(EXPECTED)?;
    let default_port = if tls { 443 } else { 80 };
    let port = port_or(default_port, port)?;
    let path = parse_path(uri.path())?;
    let host = Host::read(host)?;
    if host.is_forbidden() {
        return Err(FORBIDDEN.to_owned());
    }
    if !tls && !insecure && !host.is_private() {
        return Err("is http: to an address that may be public, so others on the network path could read the \
                    key and the prompts: use https:, or write `insecure: true` to allow it"
            .to_owned());
    }
    let authority = if port == default_port {
        host.to_string()
    } else {
        format!("{host}:{port}")
    };
    Ok(Base {
        tls,
        host: host.bare().into(),
        port,
        path,
        authority,
    })
}

/// Reads the whole URL of a server that gives credentials. Returns its address, and the path with
/// the query. Only a server nearby may be a metadata service; it may be reached by `http:`.
pub fn parse_service(url: &str, is_nearby: bool, insecure: bool) -> Result<(Base, String), String> {
    const EXPECTED: &str = "must be a URL such as https://sts.example.com";
    check_no_placeholder(url)?;
    let tls = uses_tls(url)?;
    let uri: http::Uri = url.parse().map_err(|_| EXPECTED.to_owned())?;
    let authority = uri.authority().ok_or(EXPECTED)?.as_str();
    if authority.contains('@') || url.contains('#') {
        return Err("must have no user name, no password and no fragment".to_owned());
    }
    let (host, port) = host_and_port(authority).ok_or(EXPECTED)?;
    let default_port = if tls { 443 } else { 80 };
    let port = port_or(default_port, port)?;
    let host = Host::read(host)?;
    if host.is_forbidden() && !is_nearby {
        return Err(FORBIDDEN.to_owned());
    }
    let is_plain_allowed = insecure || host.is_private() || (is_nearby && host.is_forbidden());
    if !tls && !is_plain_allowed {
        return Err("is http: to an address that may be public, so others on the network path could read the \
                    credential: use https:"
            .to_owned());
    }
    let authority = match port == default_port {
        true => host.to_string(),
        false => format!("{host}:{port}"),
    };
    let base = Base {
        tls,
        host: host.bare().into(),
        port,
        path: "".into(),
        authority,
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Ok((base, path.to_owned()))
}

/// Checks that a URL is no text that another program should have replaced.
fn check_no_placeholder(url: &str) -> Result<(), String> {
    const UNFILLED: &str = "is a template or a placeholder, which Portcullis does not fill in: write the address itself";
    match Placeholder::detect(url) {
        Some(Placeholder::Variable(Some(name)) | Placeholder::Name(name)) => Err(format!(
            "names the environment variable {name}, which Portcullis does not fill in: write the address itself"
        )),
        Some(Placeholder::Variable(None) | Placeholder::Template | Placeholder::Example) => {
            Err(UNFILLED.to_owned())
        }
        // A URL in quotes is refused because of its scheme.
        Some(Placeholder::Quoted) | None => Ok(()),
    }
}

/// Returns whether the scheme of a URL is `https:`, and not `http:`.
fn uses_tls(url: &str) -> Result<bool, String> {
    match url.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => Ok(true),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => Ok(false),
        _ => Err(
            "must begin with https:// (or http://), such as https://api.example.com/v1".to_owned(),
        ),
    }
}

/// Checks the path of an address, and returns it without slashes at its end.
fn parse_path(path: &str) -> Result<Arc<str>, String> {
    let path = path.trim_end_matches('/');
    if path
        .split('/')
        .skip(1)
        .any(|part| matches!(part, "" | "." | ".."))
    {
        return Err("must have a plain path, without empty, `.` or `..` parts".to_owned());
    }
    if let Some(base) = path.strip_suffix("/chat/completions") {
        return Err(format!(
            "must end before /chat/completions, with {}",
            if base.is_empty() { "the host" } else { base }
        ));
    }
    Ok(path.into())
}

/// Returns whether an account at this address is in the operator's own network: its host is not
/// surely public, or it is reached without TLS.
pub(super) fn is_near(base: &Base) -> bool {
    // `is_public_host` takes a host as in a URL: IPv6 in brackets.
    let bracketed = base.host.contains(':').then(|| format!("[{}]", base.host));
    !base.tls || !is_public_host(bracketed.as_deref().unwrap_or(&base.host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, tls, host, port, path, authority) in [
            (
                "https://api.openai.com/v1",
                true,
                "api.openai.com",
                443,
                "/v1",
                "api.openai.com",
            ),
            (
                "HTTPS://API.OpenAI.com:443/v1/",
                true,
                "api.openai.com",
                443,
                "/v1",
                "api.openai.com",
            ),
            ("https://a.b:8443", true, "a.b", 8443, "", "a.b:8443"),
            (
                "http://127.0.0.1:8000/v1",
                false,
                "127.0.0.1",
                8000,
                "/v1",
                "127.0.0.1:8000",
            ),
            ("http://localhost/", false, "localhost", 80, "", "localhost"),
            (
                "http://[::1]:8000/a/b",
                false,
                "::1",
                8000,
                "/a/b",
                "[::1]:8000",
            ),
            (
                "https://[2001:DB8::1]/v1",
                true,
                "2001:db8::1",
                443,
                "/v1",
                "[2001:db8::1]",
            ),
            ("http://10.1.2.3", false, "10.1.2.3", 80, "", "10.1.2.3"),
            ("https://8.8.8.8:80", true, "8.8.8.8", 80, "", "8.8.8.8:80"),
            ("https://my_host", true, "my_host", 443, "", "my_host"),
        ] {
            let base = Base {
                tls,
                host: host.into(),
                port,
                path: path.into(),
                authority: authority.to_owned(),
            };
            assert_eq!(parse_base(url, false), Ok(base), "{url}");
        }
    }

    #[test]
    fn who_is_near() {
        for (url, near) in [
            ("https://api.openai.com/v1", false),
            ("https://8.8.8.8", false),
            ("https://[2606:4700::1111]/v1", false),
            ("http://127.0.0.1:8000/v1", true),
            ("http://localhost:11434", true),
            ("https://10.0.0.5", true),
            ("https://[fd00::1]/v1", true),
            ("https://vllm", true),
            ("https://vllm.llm.svc.cluster.local", true),
            ("http://vllm.example.com", true),
        ] {
            assert_eq!(is_near(&parse_base(url, true).unwrap()), near, "{url}");
        }
    }

    #[test]
    fn s10_where_no_account_may_be() {
        for url in [
            "",
            "api.openai.com",
            "/v1",
            "file:///etc/passwd",
            "ftp://a.b",
            "https://",
            "https:///v1",
            "https://a b",
            "https://a.b/v1?x=1",
            "https://a.b/v1#x",
            "https://user:sk-secret@a.b",
            "https://a.b:0",
            "https://a.b:65536",
            "https://a.b:+5",
            "https://a.b:x",
            "https://a..b",
            "https://a.b.",
            "https://[::1",
            "https://[fe80::1%25eth0]",
            "https://é.com",
            "https://-a.b",
            "https://2852039166",
            "https://0xa9fe.43518",
            "https://0xa9fea9fe",
            "https://169.254.43518",
            "https://127.1",
            "https://a.b/v1/../x",
            "https://a.b//v1",
            "https://a.b/v1/chat/completions",
            "https://169.254.169.254",
            "http://169.254.169.254",
            "https://[::ffff:169.254.169.254]",
            "https://[fe80::1]",
            "https://[fd00:ec2::254]",
            "https://metadata.google.internal",
            "https://METADATA.google.internal",
            "https://0.0.0.0",
        ] {
            for insecure in [false, true] {
                let error = parse_base(url, insecure).expect_err(url);
                assert!(!error.contains("sk-secret"));
            }
        }
        for url in [
            "http://example.com",
            "http://8.8.8.8",
            "http://[2001:db8::1]",
            "http://host.docker.internal:8000",
            "http://localhost.evil.com",
        ] {
            assert!(
                parse_base(url, false)
                    .unwrap_err()
                    .contains("insecure: true"),
                "{url}"
            );
            assert!(parse_base(url, true).is_ok(), "{url}");
        }
    }
}
