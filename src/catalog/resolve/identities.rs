//! Resolving identities: the issuers of tokens, and the callers to whom tokens belong.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::callers::CallerResolver;
use super::{Merged, base, credential};
use crate::base::hash::digest_parts;
use crate::base::host::is_this_machine;
use crate::base::problem::quote_safely;
use crate::base::units::{Days, Span, Text};
use crate::catalog::identity::{Identity, KeyAddress, KeyServer, KeySource};
use crate::catalog::{Key, Network, name, raw};
use crate::conf::scribe::{Report, Scribe, WrittenEntry};
use crate::conf::secret_ref::{Reference, STAND_IN};
use crate::conf::yaml::read::{list_items, map_entries};
use crate::identity::jwk::KeySet;
use crate::identity::rules::{CallerRule, ClaimPath, ClaimRule, RequiredValue, Rules, Several};

/// The longest life of a token, if none is written.
const DEFAULT_MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// The time for which an issuer's last keys are used, if none is written.
const DEFAULT_KEYS_STALE: Duration = Duration::from_secs(7 * 24 * 3600);
/// What stands behind an issuer at the address of OpenID's discovery.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// The value of a map that stands for all others.
const OTHERS: &str = "*";

/// Resolves all identities. `callers` are the callers of the catalog.
pub(super) fn resolve_identities<'r>(
    written: &Merged<'r, raw::Identity>,
    callers: &mut CallerResolver<'_, '_, 'r>,
    report: &Report<'_>,
) -> Vec<Arc<Identity>> {
    let root = Scribe::new(report, 0);
    let section = root.key("identities");
    let mut issuers: HashMap<&str, &str> = HashMap::new();
    let mut resolved = Vec::new();
    for (id, (file, raw)) in written {
        let section = section.in_file(*file);
        let scribe = section.entry(id);
        scribe.read_or_noted(name::of_entry(id));
        let Some(raw) = *raw else { continue };
        if let Some(issuer) = raw.issuer.as_deref()
            && let Some(other) = issuers.insert(issuer, id)
        {
            scribe.key("issuer").note_problem(&format!(
                "is also the issuer of {}: a token could belong to either; keep one of the two",
                quote_safely(other)
            ));
        }
        let entry = WrittenEntry { scribe, id, raw };
        resolved.extend(entry.identity(callers).map(Arc::new));
    }
    resolved
}

impl<'r> WrittenEntry<'r, '_, '_, raw::Identity> {
    fn identity(&self, callers: &mut CallerResolver<'_, '_, 'r>) -> Option<Identity> {
        let raw = self.raw;
        let issuer = self.issuer();
        let audience = self.audience();
        let key_source = self.key_source();
        let caller_rule = self.caller_rule();
        let subject = match &raw.subject {
            Some(written) => self.claim_path(written, &self.scribe.key("subject")),
            None => Some(ClaimPath::name("sub")),
        };
        let mut require = Vec::new();
        let section = self.scribe.key("require");
        for (claim, value) in map_entries(raw.require.as_ref()) {
            section
                .entry(claim)
                .note_problem_if(claim.is_empty(), "a claim has a name");
            let value = value.as_ref().map(|value| RequiredValue(value.0.clone()));
            require.extend(value.map(|value| (ClaimPath::name(claim.clone()), value)));
        }
        let max_age = raw.max_age.map_or(DEFAULT_MAX_AGE, |Text(Span(age))| age);
        let rules = Rules {
            issuer: issuer?,
            audience: audience?,
            declared_type: raw.typ.clone(),
            subject: subject?,
            callers: caller_rule?,
            require,
            deny: list_items(raw.deny.as_ref())
                .map(|(_, subject)| subject.clone())
                .collect(),
            max_age,
        };
        let templates = self.templates(&rules.callers, callers);
        let fingerprint = fingerprint_of(&rules);
        Some(Identity {
            id: self.id.into(),
            rules,
            key_source: key_source?,
            keys_stale: raw
                .keys_stale
                .map_or(DEFAULT_KEYS_STALE, |Text(days)| Days::span(days)),
            templates,
            fingerprint,
        })
    }

    fn issuer(&self) -> Option<Arc<str>> {
        let scribe = self.scribe.key("issuer");
        let message = "is missing: the issuer of the tokens, exactly as they have it in `iss`";
        let issuer = scribe.required(self.raw.issuer.as_ref(), message)?;
        let tenants = issuer.contains("{tenantid}");
        scribe.note_problem_if(
            tenants,
            "stands for the tokens of every tenant of the issuer: write the address with your tenant's id",
        );
        let common = ["/common/", "/organizations/", "/consumers/"];
        let is_common = issuer.starts_with("https://login.microsoftonline.com/")
            && common.iter().any(|part| issuer.contains(part));
        scribe.note_problem_if(
            is_common,
            "no token has this issuer, which stands for many tenants: write the address with your tenant's id",
        );
        scribe.note_problem_if(issuer.is_empty(), "must not be empty");
        Some(issuer.as_str().into())
    }

    fn audience(&self) -> Option<Arc<str>> {
        let scribe = self.scribe.key("audience");
        let message = "is missing: what tokens for this gateway have in `aud`. Without it, tokens that the issuer \
                       made for other services would be accepted";
        let audience = scribe.required(self.raw.audience.as_ref(), message)?;
        scribe.note_problem_if(audience.is_empty(), "must not be empty");
        Some(audience.as_str().into())
    }

    /// Resolves where the issuer's keys are.
    fn key_source(&self) -> Option<KeySource> {
        let raw = self.raw;
        let scribe = self.scribe.key("jwks");
        if let Some(raw::JwksRef::File(path)) = &raw.jwks {
            for (field, is_written) in [
                ("bearer", raw.bearer.is_some()),
                ("proxy", raw.proxy.is_some()),
                ("tls", raw.tls.is_some()),
            ] {
                self.scribe.key(field).note_problem_if(
                    is_written,
                    "has no effect: the keys are in a file, and nothing is fetched",
                );
            }
            let scribe = scribe.key("file");
            let text = scribe.look_up(Reference::Keys(path));
            let text = scribe.read_or_noted(text)?;
            if text == STAND_IN {
                return Some(KeySource::File(Arc::default()));
            }
            let keys = KeySet::parse(text.as_bytes())
                .map_err(|wrong| scribe.in_column(&format!("the file cannot be used: {wrong}")));
            return Some(KeySource::File(Arc::new(scribe.read_or_noted(keys)?)));
        }
        let (address, is_discovery) = match &raw.jwks {
            Some(raw::JwksRef::Url(url)) => (scribe.read_or_noted(parse_key_address(url))?, false),
            Some(raw::JwksRef::File(_)) | None => {
                let scribe = self.scribe.key("issuer");
                let issuer = raw.issuer.as_deref()?;
                let url = format!("{}{DISCOVERY}", issuer.trim_end_matches('/'));
                let address = parse_key_address(&url).map_err(|wrong| {
                    format!("{wrong}; or write `jwks: URL`, the address of the issuer's keys")
                });
                (scribe.read_or_noted(address)?, true)
            }
        };
        let bearer = raw.bearer.as_ref().map(|written| {
            let scribe = self.scribe.key("bearer");
            let wanted = credential::Wanted {
                default_variable: None,
                is_enabled: true,
            };
            credential::resolve_secret(written, wanted, &scribe, credential::check_credential)
        });
        let authority = raw.tls.as_ref().map(|tls| {
            let scribe = self.scribe.key("tls");
            credential::resolve_authority(tls, Some(&address.base), true, &scribe)
        });
        let proxy = self.scribe.key("proxy");
        let network = Network {
            insecure: false,
            reaches_metadata: false,
            ca: flatten(authority)?.map(|pem| pem.into_bytes().into()),
            proxy: credential::resolve_proxy(raw.proxy.as_ref(), true, &proxy)?,
        };
        Some(KeySource::Server(KeyServer {
            address,
            is_discovery,
            bearer: flatten(bearer)?,
            network,
        }))
    }

    /// Resolves to which callers tokens belong.
    fn caller_rule(&self) -> Option<CallerRule> {
        let raw = self.raw;
        match (&raw.caller, &raw.callers) {
            (Some(_), Some(_)) => {
                let message = "cannot be used together with `callers`: keep only one of the two";
                self.scribe.key("caller").note_problem(message);
                None
            }
            (Some(caller), None) => Some(CallerRule::One(caller.as_str().into())),
            (None, Some(written)) => self.rule_of_claim(written),
            (None, None) => {
                let message = "is missing: write `callers: { claim: groups, map: { GROUP: CALLER } }`, or `caller:                                NAME` for all tokens of the issuer";
                self.scribe.key("callers").note_missing(message);
                None
            }
        }
    }

    fn rule_of_claim(&self, written: &raw::ClaimCallers) -> Option<CallerRule> {
        let scribe = self.scribe.key("callers");
        let message = "is missing: the claim that says to which caller a token belongs";
        let claim = scribe.key("claim");
        let path = claim.required(written.claim.as_ref(), message);
        let path = path.and_then(|path| self.claim_path(path, &claim));
        let map = scribe.key("map");
        let message =
            "is missing: the caller for each value of the claim, such as `ml-team: research`";
        map.note_missing_if(
            written.map.as_ref().is_none_or(|map| map.0.is_empty()),
            message,
        );
        let mut rows: Vec<(String, Arc<str>)> = Vec::new();
        let mut others = None;
        for (value, caller) in map_entries(written.map.as_ref()) {
            let Some(caller) = caller else { continue };
            match value.as_str() {
                OTHERS => others = Some(Arc::from(caller.as_str())),
                _ => rows.push((value.clone(), caller.as_str().into())),
            }
        }
        Some(CallerRule::ByClaim(ClaimRule {
            claim: path?,
            splits_at_spaces: written.split == Some(raw::Split::Space),
            map: rows,
            others,
            several: match written.several {
                Some(raw::Several::Refuse) => Several::Refuse,
                Some(raw::Several::First) | None => Several::First,
            },
        }))
    }

    fn claim_path(&self, written: &raw::ClaimRef, scribe: &Scribe<'_, '_>) -> Option<ClaimPath> {
        let steps = &written.0;
        let is_empty = steps.is_empty() || steps.iter().any(String::is_empty);
        scribe.note_problem_if(
            is_empty,
            "must be the name of a claim, or a list of steps to it",
        );
        ClaimPath::from_steps(steps.iter().cloned()).filter(|_| !is_empty)
    }

    /// Makes the keys of which the keys of subjects are copies, by their callers.
    fn templates(
        &self,
        rule: &CallerRule,
        callers: &mut CallerResolver<'_, '_, 'r>,
    ) -> BTreeMap<Arc<str>, Arc<Key>> {
        let message =
            "must list at least one address or range; remove it to allow tokens from every address";
        let raw = self.raw;
        self.scribe
            .key("allow_ips")
            .note_missing_if(raw.allow_ips.as_ref().is_some_and(Vec::is_empty), message);
        let (field, named): (&[&str], Vec<&Arc<str>>) = match rule {
            CallerRule::One(caller) => (&["caller"], vec![caller]),
            CallerRule::ByClaim(ClaimRule { map, others, .. }) => {
                let named = map.iter().map(|(_, caller)| caller).chain(others);
                (&["callers", "map"], named.collect())
            }
        };
        let named: BTreeSet<&Arc<str>> = named.into_iter().collect();
        let templates = named.into_iter().filter_map(|caller| {
            let template = callers.subject_template(self, caller);
            if template.is_none() {
                let known = callers.names();
                match field {
                    [outer, inner] => {
                        let scribe = self.scribe.key(outer);
                        scribe.key(inner).note_unknown("caller", caller, known);
                    }
                    _ => self
                        .scribe
                        .key("caller")
                        .note_unknown("caller", caller, known),
                }
            }
            Some((Arc::clone(caller), template?))
        });
        templates.collect()
    }
}

/// Returns `None` if a value is written and cannot be used.
fn flatten<T>(resolved: Option<Option<T>>) -> Option<Option<T>> {
    match resolved {
        Some(None) => None,
        Some(value) => Some(value),
        None => Some(None),
    }
}

/// Reads the address of keys. They decide who may call, so nobody on the way may change them.
pub fn parse_key_address(url: &str) -> Result<KeyAddress, String> {
    let (url, query) = match url.split_once('?') {
        Some((url, query)) => (url, format!("?{query}")),
        None => (url, String::new()),
    };
    if !query
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    {
        return Err("has a character in its query that URLs do not have".to_owned());
    }
    let base = base::parse_base(url, true)?;
    if !base.tls && !is_this_machine(&base.host) {
        return Err(
            "is http:, so others on the network path could replace the keys: use https:".to_owned(),
        );
    }
    Ok(KeyAddress { base, query })
}

/// Returns a hash of all that decides whether a token is accepted, and whose it is.
fn fingerprint_of(rules: &Rules) -> u64 {
    let text = format!("{rules:?}");
    let digest = digest_parts([text.as_bytes()]);
    let first = digest.first_chunk().copied();
    first.map(u64::from_be_bytes).unwrap_or_default()
}
