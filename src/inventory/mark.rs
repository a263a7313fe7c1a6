//! A mark is a short text that is equal for equal things.
//!
//! **Invariant:** a mark that covers secrets covers all of them together, so whoever tries one must
//! know all others; and each try is slow, as with the hash of a password. Such a mark is only shown
//! where not everybody may look.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::io::BufWriter;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Inventory;
use crate::base::calendar::format_system_time;
use crate::base::hash::{digest_parts, digest_text, hash_slowly};
use crate::base::secret::Secret;
use crate::catalog::{Account, AwsKeys, Catalog, Network, Signer};
use crate::conf::config::{self, Server};
use crate::conf::proxy::ProxyChoice;

/// The bytes that are hashed at once.
const PIECE: usize = 64 << 10;
/// The most names that are listed.
const MAX_NAMES: usize = 1_000;

/// The marks of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// The mark of the inventory, and of the secrets if their mark is there.
    pub hash: String,
    /// The mark of the secrets: credentials, the values of headers, certificates that are trusted,
    /// and the hashes of keys with their ends. It is empty where it is not shown.
    #[serde(default)]
    pub secrets: String,
}

impl Marks {
    /// Makes the marks of a catalog with this inventory. It takes a while if secrets count.
    pub fn from_catalog(catalog: &Catalog, inventory: &Inventory, with_secrets: bool) -> Marks {
        let secrets = if with_secrets {
            secrets_mark(catalog)
        } else {
            String::new()
        };
        // The text of a large catalog would take as much memory as its files.
        let mut text = BufWriter::with_capacity(PIECE, Sha256::new().chain_update(&secrets));
        // Maps with names always serialise, and a hash takes everything.
        serde_json::to_writer(&mut text, inventory).ok();
        let hash = text.into_inner().unwrap_or_default();
        let hash = digest_text(&hash.finalize(), 16);
        Marks { hash, secrets }
    }
}

/// The owners of secrets that differ between two catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretChanges {
    /// The accounts whose secrets differ, with the names of these secrets: `credential`, `headers`,
    /// `ca` or `proxy`.
    pub accounts: BTreeMap<String, Vec<String>>,
    /// The keys that both catalogs have, and that lose a working secret: it is refused after the
    /// change.
    pub keys: Vec<String>,
    /// The keys with a working secret that ends sooner after the change.
    #[serde(default)]
    pub sooner: Vec<String>,
    /// The keys whose working secrets all work after the change, but at least one of them opens
    /// another key; with the keys that are opened. This includes keys that are gone.
    #[serde(default)]
    pub moved: BTreeMap<String, BTreeSet<String>>,
    /// The number of names that are not listed.
    #[serde(default)]
    pub more: usize,
}

impl SecretChanges {
    /// Compares the secrets of two catalogs. What works is what works at `now`.
    pub fn between(before: &Catalog, after: &Catalog, now: SystemTime) -> SecretChanges {
        let known: HashMap<_, _> = after
            .secrets()
            .map(|(digest, key, until)| (digest, (key, until)))
            .collect();
        let named: BTreeSet<_> = after.keys().map(|key| &key.id).collect();
        let is_over = |until: Option<SystemTime>| until.is_some_and(|until| until <= now);
        let (mut lost, mut sooner, mut off) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut opened: BTreeMap<&Arc<str>, BTreeSet<&Arc<str>>> = BTreeMap::new();
        for (digest, key, until) in before.secrets() {
            if is_over(until) || key.usable(now).is_err() {
                continue;
            }
            let Some((opens, end)) = known.get(digest).filter(|(_, end)| !is_over(*end)) else {
                lost.insert(&key.id);
                continue;
            };
            let is_own = opens.id == key.id;
            if is_own && end.is_some_and(|end| until.is_none_or(|until| end < until)) {
                sooner.insert(&key.id);
            }
            match opens.usable(now) {
                Ok(()) => opened.entry(&key.id).or_default().insert(&opens.id),
                // The report has this with the key itself.
                Err(_) if is_own => off.insert(&key.id),
                Err(_) => lost.insert(&key.id),
            };
        }
        let names = |ids: BTreeSet<&Arc<str>>| ids.into_iter().map(ToString::to_string).collect();
        opened.retain(|key, opens| {
            let is_refused = lost.contains(key) || off.contains(key);
            !is_refused && opens.iter().any(|opens| opens != key)
        });
        let (old, new) = (digests_by_account(before), digests_by_account(after));
        let other = old.iter().filter_map(|(id, was)| {
            let pairs = was.iter().zip(new.get(id)?);
            // A secret of only one side is a change of a setting, which is reported as such.
            let pairs = pairs.filter(|((_, was), (_, is))| {
                let both = was.zip(*is);
                both.is_some_and(|(was, is)| was != is)
            });
            let parts: Vec<String> = pairs.map(|((name, _), _)| (*name).to_owned()).collect();
            (!parts.is_empty()).then(|| (id.to_string(), parts))
        });
        SecretChanges {
            accounts: other.collect(),
            moved: opened
                .into_iter()
                .map(|(key, opens)| (key.to_string(), names(opens)))
                .collect(),
            keys: lost
                .iter()
                .filter(|key| named.contains(*key))
                .map(ToString::to_string)
                .collect(),
            sooner: sooner.into_iter().map(ToString::to_string).collect(),
            more: 0,
        }
    }

    /// Returns whether all requests with a key of a caller are answered then, some as other keys.
    pub(super) fn is_moved(&self, caller: &str, key: &str) -> bool {
        !self.moved.is_empty() && self.moved.contains_key(&format!("{caller}/{key}"))
    }

    /// Cuts long lists, for a page.
    #[must_use]
    pub fn with_short_lists(mut self) -> SecretChanges {
        for names in [&mut self.keys, &mut self.sooner] {
            self.more += names.len().saturating_sub(MAX_NAMES);
            names.truncate(MAX_NAMES);
        }
        self.more += self.accounts.len().saturating_sub(MAX_NAMES)
            + self.moved.len().saturating_sub(MAX_NAMES);
        self.moved = self.moved.into_iter().take(MAX_NAMES).collect();
        self.accounts = self.accounts.into_iter().take(MAX_NAMES).collect();
        self
    }
}

/// Returns a mark of each section of server.yaml. No secret counts in it, nor the folder of a
/// listener's certificate.
pub fn section_marks(server: &Server) -> BTreeMap<String, String> {
    let listen = server.listen.iter().map(|one| {
        let tls = one
            .tls
            .as_ref()
            .map(|tls| (tls.cert.file_name(), tls.key.file_name()));
        (one.address, one.h2c, tls)
    });
    let listen: Vec<_> = listen.collect();
    let store = server.store.as_ref().map(|store| {
        let has_ca = store.ca.is_some();
        (
            &store.address,
            has_ca,
            store.instances,
            format!("{:?}", store.on_store_down),
            store.timeout,
            &store.prefix,
        )
    });
    // What a variable may say does not count: the variables of another process may differ.
    let traces = server.traces.as_ref();
    let traces = traces.map(|traces| {
        let config::Traces {
            endpoint,
            written,
            sampling,
            gen_ai,
            headers,
            ca,
            ..
        } = traces;
        // The rest of the address may hold a secret.
        let endpoint = written
            .endpoint
            .then_some((endpoint.tls, &endpoint.host, endpoint.port));
        let share = written.sample.then_some(sampling.share);
        let headers: Vec<_> = headers
            .iter()
            .filter(|_| written.headers)
            .map(|(name, _)| name)
            .collect();
        let more = (headers, ca.is_some(), &written.resource);
        (
            endpoint,
            share,
            gen_ai,
            sampling.slow,
            sampling.extra_per_second,
            more,
        )
    });
    let proxies = server.trusted_proxies.iter();
    let proxies: Vec<String> = proxies.map(ToString::to_string).collect();
    let sections: [(&str, &dyn Debug); 17] = [
        ("admin", &server.admin),
        ("attempts", &server.attempts),
        ("cors", &server.cors),
        ("drain", &server.drain),
        ("ledger", &server.ledger),
        ("limits", &server.limits),
        ("listen", &listen),
        ("log", &server.log),
        ("model_lists", &server.list_refresh),
        ("notify", &server.notify),
        ("seal", &server.seal.len()),
        ("store", &store),
        ("timeouts", &server.timeouts),
        ("traces", &traces),
        ("trusted_proxies", &proxies),
        ("upstream_proxy", &server.proxies.uses_environment()),
        ("workers", &server.workers),
    ];
    let mark = |value: &dyn Debug| digest_text(&Sha256::digest(format!("{value:?}")), 16);
    sections
        .into_iter()
        .map(|(name, value)| (name.to_owned(), mark(value)))
        .collect()
}

fn secrets_mark(catalog: &Catalog) -> String {
    let mut sha = Sha256::new();
    for account in catalog.accounts() {
        sha.update(Sha256::digest(&*account.id));
        account_digests(account)
            .into_iter()
            .for_each(|(_, digest)| sha.update(digest.unwrap_or_default()));
    }
    let mut keys: Vec<_> = catalog
        .secrets()
        .map(|(digest, key, until)| (&key.id, digest, until))
        .collect();
    keys.sort_unstable();
    for (id, digest, until) in keys {
        sha.update(Sha256::digest(&**id));
        sha.update(digest);
        sha.update(Sha256::digest(
            until.map(format_system_time).unwrap_or_default(),
        ));
    }
    let first: [u8; 32] = sha.finalize().into();
    digest_text(&hash_slowly(first), 16)
}

/// The digest of each kind of an account's secrets, with the name of the kind.
type SecretDigests = [(&'static str, Option<[u8; 32]>); 4];

/// Returns the digests of the secrets of each account that is enabled.
fn digests_by_account(catalog: &Catalog) -> BTreeMap<Arc<str>, SecretDigests> {
    let enabled = catalog.accounts().iter().filter(|account| account.enabled);
    enabled
        .map(|account| (account.id.clone(), account_digests(account)))
        .collect()
}

/// Returns the digest of each kind of an account's secrets, if it has any, for use in this module
/// only.
fn account_digests(account: &Account) -> SecretDigests {
    let mut credential: Vec<Option<&str>> = vec![account.key.as_ref().map(Secret::expose)];
    match &account.signer {
        Some(Signer::Aws(keys)) => {
            let AwsKeys {
                access_key_id,
                secret_access_key,
                session_token,
                ..
            } = keys;
            credential.extend([
                Some(access_key_id.expose()),
                Some(secret_access_key.expose()),
                session_token.as_ref().map(Secret::expose),
            ]);
        }
        Some(Signer::Source(source)) => credential.extend(source.parts().into_iter().map(Some)),
        None => {}
    }
    let credential = credential
        .into_iter()
        .map(|secret| secret.unwrap_or_default().as_bytes());
    let headers = account
        .headers
        .iter()
        .flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
    let Network { ca, proxy, .. } = &account.network;
    let own_proxy = matches!(proxy, ProxyChoice::Own(_)).then(|| {
        let marks = proxy.marks();
        digest_parts(marks.map(|mark| mark.unwrap_or_default().as_bytes()))
    });
    [
        (
            "credential",
            (account.key.is_some() || account.signer.is_some()).then(|| digest_parts(credential)),
        ),
        (
            "headers",
            (!account.headers.is_empty()).then(|| digest_parts(headers)),
        ),
        ("ca", ca.as_deref().map(|ca| digest_parts([ca]))),
        ("proxy", own_proxy),
    ]
}

#[cfg(test)]
mod tests {
    use crate::base::hash::digest_text;
    use crate::conf::config::parse_server;
    use crate::conf::secret_ref::Reference;
    use sha2::{Digest as _, Sha256};

    /// Returns the mark of the section `traces` with these values of the variables.
    fn of_traces(text: &str, endpoint: &str, sampler: &str) -> String {
        let server = parse_server("server.yaml", text, &mut |reference| match reference {
            Reference::Env("OTEL_EXPORTER_OTLP_ENDPOINT") => Ok(endpoint.to_owned()),
            Reference::Env("OTEL_TRACES_SAMPLER") => Ok(sampler.to_owned()),
            Reference::Env(_)
            | Reference::Optional(_)
            | Reference::File(_)
            | Reference::Ca(_)
            | Reference::Keys(_) => Err(String::new()),
        });
        super::section_marks(&server.unwrap())
            .remove("traces")
            .unwrap()
    }

    /// The mark is compared with that of another build, whose fields may have other names.
    #[test]
    fn trusted_proxies_count_as_they_are_written() {
        let text = "trusted_proxies: [10.0.0.0/8, '::1']";
        let server = parse_server("server.yaml", text, &mut |_| Err(String::new())).unwrap();
        let expected = digest_text(&Sha256::digest(r#"["10.0.0.0/8", "::1/128"]"#), 16);
        assert_eq!(super::section_marks(&server)["trusted_proxies"], expected);
    }

    #[test]
    fn traces_count_as_written_without_secrets() {
        let of = |text: &str| of_traces(text, "http://a:1", "always_on");
        let written = of("traces: { endpoint: 'http://c:1/s3cret?x=y', sample: 10% }");
        for other in [
            "traces: { endpoint: 'http://c:2', sample: 10% }",
            "traces: { endpoint: 'http://d:1', sample: 10% }",
            "traces: { endpoint: 'https://c:1', sample: 10% }",
            "traces: { endpoint: 'http://c:1', sample: 11% }",
            "traces: { endpoint: 'http://c:1' }",
            "traces: { sample: 10% }",
            "workers: 1",
        ] {
            assert_ne!(of(other), written, "{other}");
        }
        assert_eq!(
            of("traces: { endpoint: 'http://c:1/other', sample: 10% }"),
            written
        );
        // What variables say may differ between two processes.
        assert_eq!(
            of("traces: {}"),
            of_traces("traces: {}", "https://b:2", "always_off")
        );
    }
}
