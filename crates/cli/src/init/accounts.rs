//! The accounts that the new catalog may have, and those of them whose keys are in the environment.
//!
//! The providers are those of the presets and the dialects, so that a new one of either is known
//! here. The catalog's own code judges what the environment has.

use std::env;
use std::sync::Arc;

use crate::doctor::variables::OTHER_FIELDS;
use crate::environment_proxies;
use dialects::presets;
use dialects::upstream::{self, BaseUrl, SignsWith, servers};
use portcullis::base::host::is_this_machine;
use portcullis::base::problem::Problems;
use portcullis::catalog::Account;
use portcullis::catalog::listing::ListedNames;
use portcullis::catalog::load::look_up_reference;
use portcullis::catalog::resolve::resolve_catalog;
use portcullis::conf::yaml::edit::{NewValue, write_document};
use portcullis::explain::standalone_snapshot;
use portcullis::live::ready_account::ReadyAccount;

/// The variables with keys that sign requests, and their names in the field `aws`.
const AWS_KEYS: [(&str, &str); 3] = [
    ("access_key_id", "AWS_ACCESS_KEY_ID"),
    ("secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("session_token", "AWS_SESSION_TOKEN"),
];
/// The variable with the name of a file that has the key of a service account.
const SERVICE_ACCOUNT: &str = "GOOGLE_APPLICATION_CREDENTIALS";
/// What takes the place of keys that are not in the environment.
const AWS_PROFILE: &str = "bedrock is left out: AWS_PROFILE is set, and profiles are not read. To use Bedrock, export their keys, as \
                           `aws configure export-credentials --format env` prints them";

/// An account that the new catalog may have.
pub(super) struct FoundAccount {
    pub(super) name: String,
    /// Its entry in the catalog. The key stands there by the name of its variable.
    pub(super) entry: NewValue,
    /// The variable that holds its key, or nothing.
    pub(super) key_variable: &'static str,
    /// What was found, for a line of the report.
    pub(super) seen: String,
    /// Its models, if its server has listed them.
    pub(super) listed: Option<ListedNames>,
    /// True if its check has failed: its answers will fail, too.
    pub(super) has_failed: bool,
    pub(super) ready_account: Arc<ReadyAccount>,
}

impl FoundAccount {
    /// Makes an account ready for use. The error is why the catalog would refuse the entry.
    pub(super) fn new(
        name: String,
        fields: Vec<(&str, NewValue)>,
        seen: String,
    ) -> Result<FoundAccount, String> {
        let fields = fields
            .into_iter()
            .map(|(field, new)| (field.to_owned(), new));
        let entry = NewValue::Map(fields.collect());
        let accounts = NewValue::map([("accounts", NewValue::map([(&*name, entry.clone())]))]);
        let text = write_document(&accounts) + "models: {}\ncallers: {}\n";
        let catalog = resolve_catalog(&[("catalog.yaml".to_owned(), text)], &mut look_up_reference);
        let catalog = catalog.map_err(|Problems(problems, _)| {
            let messages = problems.into_iter().map(|problem| problem.message);
            let text = messages.collect::<Vec<_>>().join("; ");
            // Nobody has written the column that a message may name.
            text.split(" (column ")
                .next()
                .unwrap_or_default()
                .to_owned()
        })?;
        let proxies = environment_proxies()?;
        let snapshot = standalone_snapshot(catalog, Arc::new(proxies));
        let ready_account = snapshot.ready_accounts.first().cloned();
        Ok(FoundAccount {
            name,
            entry,
            key_variable: "",
            seen,
            listed: None,
            has_failed: false,
            ready_account: ready_account.ok_or("there is no account")?,
        })
    }

    pub(super) fn account(&self) -> &Account {
        &self.ready_account.account
    }

    /// Returns whether it is a server of one's own, which takes no key and sends no bill.
    pub(super) fn is_own(&self) -> bool {
        self.account().key.is_none() && self.account().signer.is_none()
    }

    /// Returns whether its server is on this machine, or was named by its address.
    pub(super) fn is_nearby(&self) -> bool {
        self.is_own() || is_this_machine(&self.account().base.host)
    }

    /// Returns whether its server is reached through a proxy of the environment.
    pub(super) fn is_behind_proxy(&self) -> bool {
        self.ready_account.proxy.is_some()
    }

    /// Returns whether its server has a list of models that the gateway reads.
    pub(super) fn has_list(&self) -> bool {
        self.account().dialect.protocol.endpoints.listing.is_some()
    }

    /// Returns what its server calls a model.
    pub(super) fn models_noun(&self) -> &'static str {
        match self.account().dialect.protocol.name {
            "azure" => "deployments",
            _ => "models",
        }
    }

    /// Returns its provider in the list of prices.
    pub(super) fn provider(&self) -> Option<&'static str> {
        servers::listed_provider(&self.account().base.host)
    }
}

/// Returns the field of an account that says what its server speaks, by the name of a preset, a
/// dialect or a server that speaks OpenAI's.
pub(super) fn server_format(name: &'static str) -> (&'static str, NewValue) {
    if presets::find_preset(name).is_some() {
        ("preset", name.into())
    } else if upstream::NAMES.contains(&name) {
        ("dialect", name.into())
    } else {
        ("dialect", "openai".into())
    }
}

/// A provider whose key may be in the environment.
struct Provider {
    /// The name of the account, and of its preset or its dialect.
    name: &'static str,
    /// The variables that may hold the key. The first one that does is used.
    variables: Vec<&'static str>,
    /// True if an account needs an address or a region, too.
    needs_more: bool,
}

/// Lists the providers that take a key.
fn all_providers() -> Vec<Provider> {
    let of_presets = presets::ALL.iter().filter_map(|preset| {
        Some(Provider {
            name: preset.name,
            variables: vec![preset.key?],
            needs_more: false,
        })
    });
    let of_dialects = upstream::ALL.into_iter().filter_map(|protocol| {
        let is_local =
            matches!(protocol.base_url, BaseUrl::Fixed(url) if !url.starts_with("https:"));
        let is_preset = presets::find_preset(protocol.name).is_some();
        let signed = match protocol.signs_with {
            SignsWith::AccessKey => Some("AWS_ACCESS_KEY_ID"),
            SignsWith::ServiceAccount => Some(SERVICE_ACCOUNT),
            SignsWith::Nothing | SignsWith::Entra => None,
        };
        let keys = protocol.key_variable.into_iter().chain(signed);
        let others = protocol.litellm.keys.iter().copied();
        let has_key = keys.clone().next().is_some() && !is_local && !is_preset;
        has_key.then(|| Provider {
            name: protocol.name,
            variables: keys.chain(others).collect(),
            needs_more: !matches!(protocol.base_url, BaseUrl::Fixed(_)),
        })
    });
    of_presets.chain(of_dialects).collect()
}

/// Finds the providers whose keys are in the environment. The notes say why others are left out.
pub(super) fn find_providers() -> (Vec<FoundAccount>, Vec<String>) {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for provider in all_providers() {
        match first_set(&provider.variables).map(|(key, _)| provider.account(key)) {
            None => {}
            Some(Ok(account)) => found.push(account),
            Some(Err(why)) => notes.push(format!("{} is left out: {why}", provider.name)),
        }
    }
    (found, notes)
}

/// Returns a note of keys that are there, and that nobody looks for.
pub(super) fn profile_note(found: &[FoundAccount]) -> Option<&'static str> {
    let is_wanted = found.iter().all(|account| account.name != "bedrock");
    (is_wanted && first_set(&["AWS_PROFILE"]).is_some()).then_some(AWS_PROFILE)
}

/// Returns the field with the credential of this variable.
fn credential_field(variable: &'static str) -> (&'static str, NewValue) {
    let by_name = |variable: &str| NewValue::map([("env", variable.into())]);
    match variable {
        "AWS_ACCESS_KEY_ID" => {
            let set = AWS_KEYS
                .iter()
                .filter(|(_, key)| first_set(&[key]).is_some());
            let fields = set.map(|(field, key)| ((*field).to_owned(), by_name(key)));
            ("aws", NewValue::Map(fields.collect()))
        }
        SERVICE_ACCOUNT => {
            // A relative path would begin at the folder of the configuration.
            let path = env::var_os(SERVICE_ACCOUNT).unwrap_or_default();
            let path = std::path::absolute(&path).unwrap_or(path.into());
            let path = NewValue::text(path.to_string_lossy());
            ("service_account", NewValue::map([("file", path)]))
        }
        key => ("key", by_name(key)),
    }
}

impl Provider {
    /// Makes the account with the key in this variable.
    fn account(&self, key: &'static str) -> Result<FoundAccount, String> {
        let mut fields = vec![server_format(self.name)];
        let mut seen = format!("{key} is set");
        let other = OTHER_FIELDS.iter().find(|(name, ..)| *name == self.name);
        if let Some((_, field, variables, path)) = other {
            if let Some((variable, value)) = first_set(variables) {
                let value = value.trim_end_matches('/');
                let value = value.strip_suffix(path).unwrap_or(value);
                fields.push((field, NewValue::text(format!("{value}{path}"))));
                seen = format!("{key} and {variable} are set");
            } else if self.needs_more {
                let variable = variables.first().copied().unwrap_or_default();
                return Err(format!("{seen}, but {variable} is not"));
            }
        }
        fields.push(credential_field(key));
        let account = FoundAccount::new(self.name.to_owned(), fields, seen.clone())
            .map_err(|why| format!("{seen}, but cannot be used: {why}"))?;
        Ok(FoundAccount {
            key_variable: key,
            ..account
        })
    }
}

/// Returns the first of the variables that is set, and its value.
fn first_set(variables: &[&'static str]) -> Option<(&'static str, String)> {
    variables.iter().find_map(|variable| {
        let value = env::var(variable).ok()?.trim().to_owned();
        (!value.is_empty()).then_some((*variable, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_is_an_account_of_the_catalog() {
        for provider in all_providers() {
            let name = provider.name;
            let mut fields = vec![server_format(name), ("key", "k-0123456789".into())];
            let other = OTHER_FIELDS.iter().find(|(account, ..)| *account == name);
            assert!(other.is_some() || !provider.needs_more, "{name}");
            if let Some((_, field, _, path)) = other {
                let value = match *field {
                    "region" => "eu-west-1".to_owned(),
                    "project" => "acme".to_owned(),
                    _ => format!("https://a.example{path}"),
                };
                fields.push((field, value.as_str().into()));
            }
            let account = FoundAccount::new(name.to_owned(), fields, String::new());
            let account = account.unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(!account.is_own() && !account.is_nearby(), "{name}");
        }
    }

    #[test]
    fn providers_have_the_variables_of_their_documentation() {
        let providers = all_providers();
        let expected: [(&str, &[&str]); 9] = [
            ("openai", &["OPENAI_API_KEY"]),
            ("anthropic", &["ANTHROPIC_API_KEY"]),
            ("gemini", &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
            ("azure", &["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"]),
            ("cohere", &["COHERE_API_KEY", "CO_API_KEY"]),
            (
                "bedrock",
                &["AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"],
            ),
            ("vertex", &["GOOGLE_APPLICATION_CREDENTIALS"]),
            ("groq", &["GROQ_API_KEY"]),
            ("openrouter", &["OPENROUTER_API_KEY"]),
        ];
        for (name, variables) in expected {
            let provider = providers.iter().find(|provider| provider.name == name);
            let known = &provider.unwrap_or_else(|| panic!("{name}")).variables;
            for variable in variables {
                assert!(known.contains(variable), "{name}: {known:?}");
            }
        }
        let with_key = presets::ALL.iter().filter(|preset| preset.key.is_some());
        for preset in with_key {
            assert!(
                providers
                    .iter()
                    .any(|provider| provider.name == preset.name)
            );
        }
        // Nobody at a server of one's own asks for these.
        for local in ["ollama", "vllm", "demo"] {
            assert!(providers.iter().all(|provider| provider.name != local));
        }
    }
}
