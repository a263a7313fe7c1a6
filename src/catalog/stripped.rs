//! A stripped catalog is one without secrets: stand-ins take the place of credentials, of the
//! values of headers, and of the hashes of keys. Where only explanations look, there is then
//! nothing that could leak.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use http::HeaderValue;

use super::{Account, AwsKeys, Catalog, KeyHeader, Model, Network, Signer, Target};
use crate::base::secret::Secret;
use crate::conf::secret_ref::STAND_IN;
use crate::signers::{Source, sigv4};

impl Catalog {
    /// Returns the same catalog without secrets. It has no lists of providers.
    pub fn without_secrets(&self) -> Catalog {
        let accounts: Vec<_> = self
            .accounts
            .iter()
            .map(|account| Arc::new(account.without_secrets()))
            .collect();
        let models: Vec<Arc<Model>> = self
            .models
            .iter()
            .map(|model| Arc::new(with_accounts(model, &accounts)))
            .collect();
        let stripped = |model| stripped_model(model, &models, &accounts);
        let secrets = self.secrets.values().zip(0_u64..).map(|(secret, number)| {
            let mut digest = [0; 32];
            digest
                .iter_mut()
                .zip(number.to_be_bytes())
                .for_each(|(byte, number_byte)| *byte = number_byte);
            (digest, secret.clone())
        });
        Catalog {
            secrets: secrets.collect(),
            keys: self.keys.clone(),
            names: self
                .names
                .iter()
                .map(|(name, model)| (name.clone(), stripped(model)))
                .collect::<HashMap<_, _>>(),
            globs: self
                .globs
                .iter()
                .map(|(glob, model)| (glob.clone(), stripped(model)))
                .collect(),
            models: models.clone(),
            accounts: accounts.clone(),
            callers: self.callers.clone(),
            identities: self.identities.clone(),
            rotating: self.rotating.clone(),
            ..Catalog::default()
        }
    }
}

/// Returns what is found by a name or a glob: one of these models, or a model of a pattern.
fn stripped_model(
    model: &Arc<Model>,
    models: &[Arc<Model>],
    accounts: &[Arc<Account>],
) -> Arc<Model> {
    match models.get(model.index) {
        Some(one) if one.id == model.id && one.pattern == model.pattern => one.clone(),
        Some(_) | None => Arc::new(with_accounts(model, accounts)),
    }
}

/// Returns a model whose targets are at these accounts.
fn with_accounts(model: &Model, accounts: &[Arc<Account>]) -> Model {
    let targets = model.targets.iter().filter_map(|target| {
        Some(Target {
            account: accounts.get(target.account.index)?.clone(),
            ..target.clone()
        })
    });
    Model {
        targets: targets.collect(),
        ..model.clone()
    }
}

impl Account {
    fn without_secrets(&self) -> Account {
        let secret = || Secret::new(STAND_IN);
        let mut value = HeaderValue::from_static(STAND_IN);
        value.set_sensitive(true);
        // Its token is shown as a key is.
        let has_entra = matches!(&self.signer, Some(Signer::Source(source)) if matches!(**source, Source::Azure(_)));
        Account {
            id: self.id.clone(),
            index: self.index,
            dialect: self.dialect.clone(),
            serves: self.serves.clone(),
            base: self.base.clone(),
            has_written_base: self.has_written_base,
            key: (self.key.is_some() || has_entra).then(secret),
            key_header: match has_entra {
                true => KeyHeader::Bearer,
                false => self.key_header,
            },
            signer: stripped_signer(self),
            enabled: self.enabled,
            // No server is called, so no certificates are needed.
            network: Network {
                insecure: self.network.insecure,
                ca: None,
                proxy: self.network.proxy.without_secret(),
                reaches_metadata: false,
            },
            concurrency: self.concurrency,
            probe: self.probe,
            timeouts: self.timeouts,
            headers: self
                .headers
                .iter()
                .map(|(name, _)| (name.clone(), value.clone()))
                .collect(),
            added_fields: self.added_fields,
            server: self.server,
            allowed_references: self.allowed_references,
            fingerprint: 0,
            boundary: OnceLock::new(),
        }
    }
}

/// Returns keys whose signatures are worth nothing, so that an explanation can show the headers.
pub fn stand_in_keys(region: &str, is_temporary: bool) -> AwsKeys {
    let secret = || Secret::new(STAND_IN);
    let keys = sigv4::Keys {
        access_key_id: secret(),
        secret_access_key: secret(),
        session_token: is_temporary.then(secret),
    };
    AwsKeys {
        signer: sigv4::Signer::for_keys(region, &keys),
        access_key_id: keys.access_key_id,
        secret_access_key: keys.secret_access_key,
        session_token: keys.session_token,
    }
}

/// Returns a signer whose signatures are worth nothing. Of an account that obtains tokens, an
/// explanation knows that without a signer.
fn stripped_signer(account: &Account) -> Option<Signer> {
    match account.signer.as_ref()? {
        Signer::Aws(keys) => {
            let is_temporary = keys.session_token.is_some();
            let keys = stand_in_keys(keys.signer.region(), is_temporary);
            Some(Signer::Aws(keys))
        }
        Signer::Source(source) if source.signs_requests() => {
            let region = account.dialect.settings().region.as_deref();
            let keys = stand_in_keys(region.unwrap_or_default(), true);
            Some(Signer::Aws(keys))
        }
        Signer::Source(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::resolve::resolve_catalog;

    const TEXT: &str = r#"
accounts:
  a: { dialect: openai, base_url: "https://a.test/v1", key: sk-canary-a-0123456789, headers: { X-Team: canary-header-1 } }
  aws: { dialect: bedrock, region: us-east-1, aws: { access_key_id: AKIACANARY0123456, secret_access_key: canary-secret, session_token: canary-token } }
models:
  m: { aliases: [other, "x-*"], targets: [{ account: a, model: x }, { account: aws, model: anthropic.claude-sonnet-4-5-v1:0 }] }
  "p/*": { targets: [{ account: a, model: "*" }] }
callers:
  acme:
    keys:
      prod: { hash: "sha256:ca00000000000000000000000000000000000000000000000000000000000001" }
      turned:
        hashes:
          - { hash: "sha256:ca00000000000000000000000000000000000000000000000000000000000004", until: 2020-01-01 }
          - { hash: "sha256:ca00000000000000000000000000000000000000000000000000000000000005" }
"#;

    #[test]
    fn all_but_the_secrets_is_there() {
        let whole = resolve_catalog(&[("catalog.yaml".to_owned(), TEXT.to_owned())], &mut |_| {
            Err(String::new())
        })
        .unwrap();
        let bare = whole.without_secrets();
        for name in ["m", "other", "x-1", "p/1"] {
            let (one, other) = (whole.model(name).unwrap(), bare.model(name).unwrap());
            let shape = |model: &Model| {
                let targets: Vec<_> = model
                    .targets
                    .iter()
                    .map(|of| (of.account.id.clone(), of.model.clone()))
                    .collect();
                (
                    model.id.clone(),
                    model.index,
                    model.aliases.clone(),
                    targets,
                )
            };
            assert_eq!(shape(&one), shape(&other), "{name}");
        }
        let secrets = |catalog: &Catalog| {
            let mut all: Vec<_> = catalog
                .secrets()
                .map(|(_, key, until)| (key.id.clone(), until))
                .collect();
            all.sort();
            all
        };
        assert_eq!(secrets(&whole), secrets(&bare));
        assert!(
            bare.secrets().all(|(digest, ..)| digest[0] == 0),
            "no hash is left"
        );
        let accounts = bare.accounts.iter().chain(
            bare.models
                .iter()
                .flat_map(|m| m.targets.iter().map(|t| &t.account)),
        );
        let named = bare
            .names
            .values()
            .chain(bare.globs.iter().map(|(_, model)| model));
        for account in accounts
            .chain(named.flat_map(|model| model.targets.iter().map(|target| &target.account)))
        {
            assert!(
                account
                    .secrets()
                    .into_iter()
                    .all(|secret| secret == STAND_IN),
                "{account:?}"
            );
            assert!(
                account
                    .headers
                    .iter()
                    .all(|(_, value)| value == STAND_IN && value.is_sensitive())
            );
        }
        assert!(
            matches!(bare.accounts[1].signer, Some(Signer::Aws(_))),
            "its headers are shown"
        );
    }
}
