//! Finds the key that a request carries. The key is looked up by its SHA-256: so the secret
//! is compared with nothing, and the time of the look-up tells nothing about it.
//!
//! Every reason to refuse gives the same answer, so that callers do not learn which one it was.

use super::Desk;
use super::record::Record;
use crate::base::calendar;
use crate::base::secret::Secret;
use crate::catalog::{Catalog, Key};
use crate::conf::config::Server;
use crate::error::Refusal;
use crate::exchange;
use crate::identity::token::{MAX_TOKEN_BYTES, looks_like_token};
use crate::limits::KeyScopes;
use crate::live::Snapshot;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use pingora_proxy::Session;
use sha2::{Digest, Sha256};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

/// The longest secret. A longer text is no key of ours, and is not looked up.
const MAX_SECRET_BYTES: usize = 512;

/// A key that a request may use, with the catalog that it is of.
pub type FoundKey = (Arc<Snapshot>, Arc<Key>);

/// The headers besides `authorization` in which SDKs send the key.
const OTHER_KEY_HEADERS: [&str; 3] = ["x-api-key", "api-key", "x-goog-api-key"];

/// Where a request may carry a key.
#[derive(Clone, Copy)]
pub struct Sent<'r> {
    /// The headers.
    pub headers: &'r HeaderMap,
    /// The keys in the query, where the caller's format has them there.
    pub queried: &'r [Vec<u8>],
}

impl Desk {
    /// Finds the key of the request, and notes that the key is used.
    pub(super) async fn authenticate(
        &self,
        session: &Session,
        record: &mut Record,
    ) -> Result<FoundKey, Refusal> {
        let token = match self.find_known_key(session, record) {
            Ok(found) => return Ok(found),
            Err(Unknown::Refused(refusal)) => return Err(refusal),
            Err(Unknown::Token(token)) => token,
        };
        // The future is boxed, since few requests come with a token that is not remembered, and
        // every request would hold its memory.
        let found = Box::pin(self.judge_token(token, record.facts.sender.address)).await;
        match found {
            Ok((snapshot, key)) => {
                self.note_key(record, &snapshot, &key, false);
                Ok((snapshot, key))
            }
            Err((refusal, key)) => {
                note_sender(record, key.as_ref());
                Err(refusal)
            }
        }
    }

    /// Finds the key of the request: one of the catalog's, or one of a subject whose token was
    /// verified before.
    fn find_known_key(&self, session: &Session, record: &mut Record) -> Result<FoundKey, Unknown> {
        let header = session.req_header();
        let snapshot = self.books.live.load_full();
        let queried = record.front.keys_in_query(header.uri.query());
        let sent = Sent {
            headers: &header.headers,
            queried: &queried,
        };
        let address = record.facts.sender.address;
        let found = find_key(&snapshot.catalog, sent, address, SystemTime::now());
        let (key, is_replaced) = match found {
            Ok((key, is_replaced)) => (key.clone(), is_replaced),
            Err(None) if !snapshot.catalog.identities.is_empty() => {
                let token =
                    sent_secret(sent, MAX_TOKEN_BYTES).filter(|text| looks_like_token(text));
                let token = token.ok_or_else(|| Unknown::Refused(Refusal::invalid_key()))?;
                let key = self.recall_token(&snapshot, token);
                let key = key.filter(|key| is_usable_from(key, address));
                let key =
                    key.ok_or_else(|| Unknown::Token(Secret::new(String::from_utf8_lossy(token))))?;
                (key, false)
            }
            Err(known) => {
                // The operator must find whose key is refused. The caller does not learn that it
                // is known.
                note_sender(record, known);
                return Err(Unknown::Refused(Refusal::invalid_key()));
            }
        };
        self.note_key(record, &snapshot, &key, is_replaced);
        exchange::panic_if_asked(session, "auth");
        Ok((snapshot, key))
    }

    /// Notes whose request it is, and that the key is used.
    fn note_key(
        &self,
        record: &mut Record,
        snapshot: &Arc<Snapshot>,
        key: &Arc<Key>,
        is_replaced: bool,
    ) {
        note_sender(record, Some(key));
        if let Some(KeyScopes { last_used, .. }) = snapshot.key_scopes(key) {
            let now = calendar::now_millis();
            let is_first = match &key.own_scopes {
                Some(_) => last_used.touch_subject(now),
                None => self.books.live.limits.note_use(&key.id, last_used, now),
            };
            if is_first {
                self.books.ledger.note_use(key.id.clone(), now);
            }
            if is_replaced {
                last_used.note_old_hash(now);
            }
        }
        record.facts.times.auth = Some(record.began.elapsed());
        if self.books.traces.is_some() {
            record.snapshot = Some(snapshot.clone());
        }
    }
}

/// Returns whether a key may be used now, from this address.
pub(super) fn is_usable_from(key: &Key, address: Option<IpAddr>) -> bool {
    let is_allowed = key.allow_ips.is_empty() || address.is_some_and(|address| key.allows(address));
    is_allowed && key.usable(SystemTime::now()).is_ok()
}

/// Why a request has no key that is known.
enum Unknown {
    /// It may use none.
    Refused(Refusal),
    /// It has a token that is not remembered.
    Token(Secret),
}

/// Notes whose request it is.
fn note_sender(record: &mut Record, key: Option<&Arc<Key>>) {
    record.facts.sender.caller = key.map(|key| key.caller.id.clone());
    record.facts.sender.key = key.map(|key| key.id.clone());
}

/// Returns the key that a request may use, and whether its secret is one that is being replaced. If
/// the request may use none, returns the key that it carries, if that is known.
pub fn find_key<'a>(
    catalog: &'a Catalog,
    sent: Sent<'_>,
    address: Option<IpAddr>,
    now: SystemTime,
) -> Result<(&'a Arc<Key>, bool), Option<&'a Arc<Key>>> {
    let secret = sent_secret(sent, MAX_SECRET_BYTES).ok_or(None)?;
    let digest: [u8; 32] = Sha256::digest(secret).into();
    let opened = catalog.opened(&digest, now);
    let (key, is_replaced) = opened.map_err(|_| catalog.key_of_digest(&digest))?;
    let allowed = key.allow_ips.is_empty() || address.is_some_and(|address| key.allows(address));
    if allowed {
        Ok((key, is_replaced))
    } else {
        Err(Some(key))
    }
}

/// Returns the one secret that was sent, if it has no more bytes than this. Two different secrets
/// count as none.
fn sent_secret<'r>(sent: Sent<'r>, max_bytes: usize) -> Option<&'r [u8]> {
    let Sent { headers, queried } = sent;
    // One look at all headers costs less than to look up each name.
    let headers = headers.iter().filter_map(|(name, value)| match name {
        &AUTHORIZATION => Some(bearer_secret(value.as_bytes())),
        name => OTHER_KEY_HEADERS
            .contains(&name.as_str())
            .then(|| Some(value.as_bytes().trim_ascii())),
    });
    let mut found = None;
    let queried = queried.iter().map(|key| Some(key.as_slice()));
    for secret in headers.chain(queried) {
        let secret = secret.filter(|s| !s.is_empty() && s.len() <= max_bytes)?;
        if found.is_some_and(|other| other != secret) {
            return None;
        }
        found = Some(secret);
    }
    found
}

/// Returns the secret of an `authorization` header.
fn bearer_secret(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    (scheme.eq_ignore_ascii_case(SCHEME) && !rest.starts_with(b" ")).then(|| rest.trim_ascii_end())
}

/// Returns the caller's address. If the connection comes from a proxy of ours, this is the last hop
/// of `x-forwarded-for` that is not such a proxy.
pub fn caller_address(
    server: &Server,
    peer: Option<IpAddr>,
    headers: &HeaderMap,
) -> Option<IpAddr> {
    let proxies = &server.trusted_proxies;
    let trusted = |ip: IpAddr| proxies.iter().any(|range| range.contains(ip));
    let peer = peer?.to_canonical();
    if !trusted(peer) {
        return Some(peer);
    }
    let lines: Vec<&[u8]> = headers
        .get_all("x-forwarded-for")
        .iter()
        .map(|line| line.as_bytes())
        .collect();
    let mut last = peer;
    for hop in lines
        .iter()
        .rev()
        .flat_map(|line| line.rsplit(|b| *b == b','))
    {
        // A hop that cannot be read is no address that `allow_ips` could name.
        last = hop_address(hop)?.to_canonical();
        if !trusted(last) {
            return Some(last);
        }
    }
    Some(last)
}

/// Reads an address as proxies write it: alone, or with a port.
fn hop_address(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop.trim_ascii()).ok()?;
    let bare = hop
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(hop);
    bare.parse()
        .ok()
        .or_else(|| hop.parse::<SocketAddr>().ok().map(|a| a.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_read_as_proxies_write_them() {
        let check = |hop: &[u8], expected: Option<&str>| {
            assert_eq!(hop_address(hop), expected.map(|e| e.parse().unwrap()))
        };
        check(b" 10.0.0.1 ", Some("10.0.0.1"));
        check(b"10.0.0.1:4711", Some("10.0.0.1"));
        check(b"2001:db8::1", Some("2001:db8::1"));
        check(b"[2001:db8::1]", Some("2001:db8::1"));
        check(b"[2001:db8::1]:443", Some("2001:db8::1"));
        check(b"unknown", None);
        check(b"\xff", None);
        check(b"", None);
    }

    #[test]
    fn an_unreadable_hop_is_not_the_proxy_before() {
        let mut server = crate::conf::config::parse_server(
            "server.yaml",
            "trusted_proxies: [127.0.0.0/8]",
            &mut |_| Err(String::new()),
        )
        .unwrap();
        server.trusted_proxies.truncate(1);
        let proxy: IpAddr = "127.0.0.1".parse().unwrap();
        let seen = |line: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.append(
                "x-forwarded-for",
                http::HeaderValue::from_bytes(line).unwrap(),
            );
            caller_address(&server, Some(proxy), &headers).map(|a| a.to_string())
        };
        assert_eq!(seen(b"6.6.6.6").as_deref(), Some("6.6.6.6"));
        assert_eq!(seen(b"6.6.6.6:1234").as_deref(), Some("6.6.6.6"));
        assert_eq!(
            seen(b"\xff, 6.6.6.6, 127.0.0.2").as_deref(),
            Some("6.6.6.6")
        );
        assert_eq!(seen(b"6.6.6.6, \xff"), None);
        assert_eq!(seen(b"6.6.6.6, nobody"), None);
    }
    use crate::catalog::raw::Digest as Hash;
    use crate::catalog::resolve::{resolve_catalog, sha256_of};
    use http::HeaderName;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn secrets_are_found_where_sdks_put_them() {
        let check = |lines: &[(&str, &str)], expected: Option<&str>| {
            let headers = headers(lines);
            let sent = Sent {
                headers: &headers,
                queried: &[],
            };
            let found = sent_secret(sent, MAX_SECRET_BYTES);
            assert_eq!(found, expected.map(str::as_bytes), "{lines:?}")
        };
        check(&[], None);
        check(&[("authorization", "Bearer sk-a")], Some("sk-a"));
        check(&[("authorization", "bEARER sk-a")], Some("sk-a"));
        check(&[("authorization", "Bearer")], None);
        check(&[("authorization", "Bearer ")], None);
        check(&[("authorization", "Bearer  sk-a")], None);
        check(&[("authorization", "Basic sk-a")], None);
        check(&[("x-api-key", "sk-a")], Some("sk-a"));
        check(&[("api-key", "sk-a")], Some("sk-a"));
        check(&[("x-goog-api-key", "sk-a")], Some("sk-a"));
        check(
            &[("authorization", "Bearer sk-a"), ("x-api-key", "sk-a")],
            Some("sk-a"),
        );
        check(
            &[("authorization", "Bearer sk-a"), ("x-api-key", "sk-b")],
            None,
        );
        check(&[("x-api-key", "sk-a"), ("x-api-key", "sk-b")], None);
        check(
            &[("authorization", "Basic eA=="), ("x-api-key", "sk-a")],
            None,
        );
        check(&[("x-api-key", &"k".repeat(513))], None);
    }

    #[test]
    fn a_key_in_the_query_counts_as_header() {
        let check = |lines: &[(&str, &str)], queried: &[&str], expected: Option<&str>| {
            let queried: Vec<_> = queried.iter().map(|key| key.as_bytes().to_vec()).collect();
            let headers = headers(lines);
            let sent = Sent {
                headers: &headers,
                queried: &queried,
            };
            let found = sent_secret(sent, MAX_SECRET_BYTES);
            assert_eq!(found, expected.map(str::as_bytes), "{lines:?} {queried:?}")
        };
        check(&[], &["sk-a"], Some("sk-a"));
        check(&[("x-goog-api-key", "sk-a")], &["sk-a"], Some("sk-a"));
        check(&[("x-goog-api-key", "sk-a")], &["sk-b"], None);
        check(&[], &["sk-a", "sk-b"], None);
        check(&[("x-goog-api-key", "sk-a")], &[""], None);
    }

    /// A catalog with these keys of the caller `acme`, each as YAML.
    fn catalog(keys: &str) -> Catalog {
        let text = format!(
            "accounts: {{}}\nmodels: {{}}\ncallers: {{ acme: {{ keys: {{ {keys} }} }} }}\n"
        );
        resolve_catalog(&[("catalog.yaml".to_owned(), text)], &mut |_| {
            Err("none".to_owned())
        })
        .unwrap()
    }

    fn found(catalog: &Catalog, secret: &str, now: SystemTime) -> Option<String> {
        let bearer = format!("Bearer {secret}");
        let headers = headers(&[("authorization", &bearer)]);
        find_key(
            catalog,
            Sent {
                headers: &headers,
                queried: &[],
            },
            None,
            now,
        )
        .ok()
        .map(|(key, old)| format!("{}{}", key.id, if old { " (old)" } else { "" }))
    }

    fn hash(secret: &str) -> String {
        Hash(sha256_of(secret)).to_string()
    }

    #[test]
    fn a02_a_key_is_found_by_its_digest_alone() {
        let (secret, now) = ("sk-0123456789abcdef", SystemTime::now());
        let catalog = catalog(&format!("prod: {{ hash: \"{}\" }}", hash(secret)));
        assert_eq!(found(&catalog, secret, now).as_deref(), Some("acme/prod"));
        assert!(catalog.opened(&sha256_of(secret), now).is_ok());
        for at in 0..secret.len() {
            let mut other = secret.as_bytes().to_vec();
            other[at] ^= 1;
            let other = String::from_utf8(other).unwrap();
            assert_eq!(found(&catalog, &other, now), None, "{other}");
            // One bit of the secret is half of the digest's: nothing near it is ever compared.
            let differ = sha256_of(secret)
                .iter()
                .zip(sha256_of(&other))
                .filter(|(a, b)| **a != *b)
                .count();
            assert!(differ > 20, "{differ}");
        }
        // Who steals the catalog has no key.
        assert_eq!(found(&catalog, &hash(secret), now), None);
    }

    #[test]
    fn a_key_expires_to_the_second() {
        let at = |text: &str| text.parse::<crate::base::units::Time>().unwrap().system();
        let before = at("2026-12-31T23:59:59Z");
        let then = at("2027-01-01T00:00:00Z");
        let catalog = catalog(&format!(
            "own: {{ hash: \"{}\", expires: 2027-01-01T00:00:00Z }}, \
             turned: {{ hashes: [{{ hash: \"{}\" }}, {{ hash: \"{}\", until: 2027-01-01T00:00:00Z }}] }}",
            hash("sk-own"),
            hash("sk-new"),
            hash("sk-old")
        ));
        let check = |secret: &str, now, expected: Option<&str>| {
            assert_eq!(
                found(&catalog, secret, now).as_deref(),
                expected,
                "{secret}"
            )
        };
        check("sk-own", before, Some("acme/own"));
        check("sk-own", then, None);
        check("sk-old", before, Some("acme/turned (old)"));
        check("sk-old", then, None);
        check("sk-new", then, Some("acme/turned"));
    }
}
