//! The issuers of callers' tokens: their keys are fetched as the gateway fetches them.

use portcullis::base::units::{first_three, format_count};
use portcullis::catalog::Catalog;
use portcullis::catalog::identity::{Identity, KeySource};
use portcullis::conf::proxy::Proxies;
use portcullis::exchange::issuer_keys::fetch_keys;
use portcullis::exchange::upstream::Upstream;
use portcullis::identity::jwk::KeySet;

use super::report::{CheckState, Checked as _, Finding, Findings, Subject};

/// Checks the keys of each issuer.
pub(super) async fn check_identities(catalog: &Catalog, proxies: &Proxies, report: &mut Findings) {
    let upstream = Upstream::default();
    for identity in &catalog.identities {
        report.add(check_keys(identity, proxies, &upstream).await);
    }
}

async fn check_keys(identity: &Identity, proxies: &Proxies, upstream: &Upstream) -> Finding {
    let subject = Subject::named("identity", &identity.id);
    match &identity.key_source {
        KeySource::File(keys) => subject.ok("keys", format!("{} in the file", describe_keys(keys))),
        KeySource::Server(server) => match fetch_keys(upstream, proxies, identity, server).await {
            Ok(fetched) => {
                let way = if server.is_discovery {
                    "found by discovery"
                } else {
                    "fetched"
                };
                subject.ok("keys", format!("{}, {way}", describe_keys(&fetched.set)))
            }
            Err(reason) => subject
                .finding(CheckState::Fail, "keys", reason)
                .with_remedy(
                    "write the issuer exactly as its tokens have it in `iss`, or its keys as `jwks: URL`; behind a proxy, write `proxy`",
                ),
        },
    }
}

/// Writes how many keys there are, which ones, and what was left out.
fn describe_keys(keys: &KeySet) -> String {
    let names: Vec<String> = keys
        .keys()
        .iter()
        .map(|key| {
            key.kid
                .clone()
                .unwrap_or_else(|| "without a name".to_owned())
        })
        .collect();
    let left_out = match keys.left_out().len() {
        0 => String::new(),
        number => format!("; {} left out", format_count(number, "key")),
    };
    let count = format_count(keys.keys().len(), "key");
    format!("{count} ({}{left_out})", first_three(&names, ", "))
}
