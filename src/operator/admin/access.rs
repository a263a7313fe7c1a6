//! Who may ask the admin listener, and for what.
//!
//! A key keeps strangers out. It is compared by its hash, so that the time of the comparison tells
//! nothing. A right key is always answered at once, whatever others send: no user is locked out by
//! somebody else's wrong keys. Guessing is hopeless since a key has 32 characters or more.

use super::Page;
use crate::conf::config::Admin;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap, HeaderName};
use sha2::{Digest as _, Sha256};

/// The header that a page of another site cannot send without asking first.
const ADMIN_HEADER: &str = "x-portcullis-admin";
/// The longest value of `Authorization` that is looked at.
const MAX_VALUE_BYTES: usize = 1024;

/// The result of checking a request's admin key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyCheck {
    /// The right key, or none where none is wanted.
    Right,
    /// No key.
    None,
    /// Another key.
    Wrong,
}

/// Compares the key that a request shows with the listener's. Two `Authorization` headers are a
/// wrong key.
pub(super) fn check_key(admin: &Admin, headers: &HeaderMap) -> KeyCheck {
    let Some(key) = &admin.key else {
        return KeyCheck::Right;
    };
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else {
        return if headers.contains_key(header::AUTHORIZATION) {
            KeyCheck::Wrong
        } else {
            KeyCheck::None
        };
    };
    let is_right = sent_secret(value.as_bytes())
        .is_some_and(|secret| secrets_match(&secret, key.expose().as_bytes()));
    if is_right {
        KeyCheck::Right
    } else {
        KeyCheck::Wrong
    }
}

/// Returns the secret of `Bearer SECRET`, or the password of `Basic`.
fn sent_secret(value: &[u8]) -> Option<Vec<u8>> {
    let space = value
        .iter()
        .position(|byte| *byte == b' ')
        .filter(|_| value.len() <= MAX_VALUE_BYTES)?;
    let (scheme, rest) = value.split_at_checked(space)?;
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    let pair = STANDARD
        .decode(rest)
        .ok()
        .filter(|_| scheme.eq_ignore_ascii_case(b"basic"))?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon.saturating_add(1)..).map(<[u8]>::to_vec)
}

/// Compares two secrets. Their hashes are compared to the last byte, so the time tells nothing.
fn secrets_match(one: &[u8], other: &[u8]) -> bool {
    let pairs = Sha256::digest(one).into_iter().zip(Sha256::digest(other));
    pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Returns the refusal of a request that does more than read, if it may not: the listener is open
/// to everybody, or a page of another site has sent the request.
pub(super) fn refuse_action(admin: &Admin, headers: &HeaderMap) -> Option<Page> {
    if !admin.is_guarded() {
        let message = format!(
            "everybody who reaches {} may read here, so actions are switched off. Write in server.yaml: `{}`\n",
            admin.address,
            admin_line(admin, AddedSetting::Key)
        );
        return Some((403, super::PLAIN, message));
    }
    let message = "refused: it was sent by a web page of another site\n";
    (!is_from_own_page(headers)).then(|| (403, super::PLAIN, message.to_owned()))
}

/// Returns whether a request comes from no web page, or from one of ours. A right key does not
/// prove it: browsers send the password of Basic with the requests of any site's pages, and a
/// listener that only this machine reaches may have no key. A proxy in front of the listener may
/// add TLS, so both schemes are right.
fn is_from_own_page(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let Some(origin) = text(header::ORIGIN) else {
        return true;
    };
    let authority = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    let ours = text(header::HOST)
        .filter(|host| !host.is_empty())
        .is_some_and(|host| authority == Some(host));
    ours && headers.get(ADMIN_HEADER).is_some_and(|value| value == "1")
}

/// A setting that the section `admin` lacks.
#[derive(Clone, Copy)]
pub(super) enum AddedSetting<'s> {
    Host(&'s str),
    Key,
}

/// Writes the section `admin` of server.yaml with the present address and names, and with one more
/// setting.
pub(super) fn admin_line(admin: &Admin, added: AddedSetting<'_>) -> String {
    let (host, key) = match added {
        AddedSetting::Host(host) => (Some(host), ""),
        AddedSetting::Key => (None, ", key: { file: /path/to/the/key }"),
    };
    let names: Vec<String> = admin
        .hosts
        .iter()
        .map(String::as_str)
        .chain(host)
        .map(yaml_name)
        .collect();
    let hosts = if names.is_empty() {
        String::new()
    } else {
        format!(", hosts: [{}]", names.join(", "))
    };
    format!("admin: {{ address: \"{}\"{hosts}{key} }}", admin.address)
}

/// Writes a name as YAML reads a text. It is quoted if it could be a number or a word such as
/// `true`.
fn yaml_name(name: &str) -> String {
    // What numbers in YAML have besides digits, also hexadecimal and octal ones. No host has a `+`.
    const NUMBER_LETTERS: &str = "abcdefox_.-";
    let is_word = name
        .chars()
        .any(|c| !c.is_ascii_digit() && !NUMBER_LETTERS.contains(c.to_ascii_lowercase()));
    let is_plain = is_word
        && name.contains('.')
        && name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if is_plain {
        name.to_owned()
    } else {
        format!("\"{name}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;
    use proptest::prelude::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn admin(address: &str, hosts: &[&str], key: Option<&str>) -> Admin {
        Admin {
            address: address.parse().unwrap(),
            hosts: hosts.iter().map(ToString::to_string).collect(),
            key: key.map(Secret::new),
            page: true,
        }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[track_caller]
    fn check(lines: &[&str], expected: KeyCheck) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::AUTHORIZATION, line.parse().unwrap());
        }
        assert_eq!(
            check_key(&admin("127.0.0.1:1", &[], Some(KEY)), &headers),
            expected,
            "{lines:?}"
        );
    }

    #[test]
    fn the_key_is_a_bearer_or_a_password() {
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        check(&[&format!("Bearer {KEY}")], KeyCheck::Right);
        check(&[&format!("bearer  {KEY} ")], KeyCheck::Right);
        for user in ["", "admin", "ü"] {
            check(&[&basic(&format!("{user}:{KEY}"))], KeyCheck::Right);
        }
        check(&[], KeyCheck::None);
        let (bearer, password) = (format!("Bearer {KEY}"), basic(&format!("a:{KEY}")));
        check(&[&bearer, &password], KeyCheck::Wrong);
        for wrong in [
            "Bearer",
            "Bearer ",
            KEY,
            &format!("Digest {KEY}"),
            &format!("Bearer {KEY}x"),
            &format!("Bearer {}", &KEY[1..]),
            &format!("Basic {KEY}"),
            &basic(KEY),
            &basic(&format!("{KEY}:")),
            &basic(&format!(":{KEY}:")),
            &format!("Bearer {}", "x".repeat(2_000)),
        ] {
            check(&[wrong], KeyCheck::Wrong);
        }
        let open = admin("127.0.0.1:1", &[], None);
        assert_eq!(
            check_key(&open, &headers(&[("authorization", "Bearer x")])),
            KeyCheck::Right
        );
    }

    proptest! {
        #[test]
        fn only_the_key_is_the_key(text in "[!-~]{0,40}") {
            prop_assume!(text != KEY);
            let sent = headers(&[("authorization", &format!("Bearer {text}"))]);
            prop_assert_eq!(check_key(&admin("127.0.0.1:1", &[], Some(KEY)), &sent), KeyCheck::Wrong);
        }

        #[test]
        fn a_printed_line_is_the_operators_plus_one(
            hosts in prop::collection::vec("[A-Za-z0-9._-]{1,12}", 0..4),
            name in "[a-z0-9._-]{1,12}",
        ) {
            let has: Vec<&str> = hosts.iter().map(String::as_str).collect();
            let text = admin_line(&admin("[::1]:9090", &has, None), AddedSetting::Host(&name));
            let read = crate::conf::config::parse_server("server.yaml", &text, &mut |_| Err(String::new())).unwrap().admin;
            let wanted: Vec<String> = hosts.iter().cloned().chain([name]).collect();
            prop_assert_eq!((read.address.to_string(), read.hosts), ("[::1]:9090".to_owned(), wanted));
        }
    }

    #[test]
    fn an_open_listener_changes_nothing_and_says_why() {
        let (status, _, says) =
            refuse_action(&admin("0.0.0.0:9090", &["a.example"], None), &headers(&[])).unwrap();
        let expected = "`admin: { address: \"0.0.0.0:9090\", hosts: [a.example], key: { file: /path/to/the/key } }`";
        assert!(status == 403 && says.contains(expected), "{says}");
        for admin in [
            admin("0.0.0.0:9090", &[], Some(KEY)),
            admin("127.0.0.1:9090", &[], None),
            admin("[::1]:9090", &[], None),
            admin("[::ffff:127.0.0.1]:9090", &[], None),
        ] {
            assert_eq!(
                refuse_action(&admin, &headers(&[])),
                None,
                "{}",
                admin.address
            );
        }
    }

    #[test]
    fn only_our_own_page_may_send() {
        let admin = admin("127.0.0.1:9090", &[], None);
        for (origin, ours, passes) in [
            ("http://gw:9090", "1", true),
            ("https://gw:9090", "1", true),
            ("http://gw:9090", "0", false),
            ("http://gw", "1", false),
            ("http://evil.example", "1", false),
            ("null", "1", false),
            ("", "1", false),
            ("ftp://gw:9090", "1", false),
        ] {
            let sent = headers(&[
                ("host", "gw:9090"),
                ("origin", origin),
                (ADMIN_HEADER, ours),
            ]);
            assert_eq!(
                refuse_action(&admin, &sent).is_none(),
                passes,
                "{origin} {ours}"
            );
        }
        assert!(
            refuse_action(
                &admin,
                &headers(&[("host", "gw:9090"), ("origin", "http://gw:9090")])
            )
            .is_some()
        );
    }
}
