//! Catalogs for tests. Anything for which there is no method goes in as YAML text.

use std::fmt::{self, Display};

use super::canary::{ACCOUNT_KEY, KEY, hash};
use super::mock::Mock;

/// A catalog under construction: a caller `acme` whose key `acme/prod` is [`KEY`], and everything
/// that is added.
#[derive(Clone)]
pub struct Catalog {
    accounts: Vec<String>,
    models: Vec<String>,
    callers: Vec<String>,
    identities: Vec<String>,
}

impl Catalog {
    pub fn new() -> Self {
        let acme = caller("acme", "", &[("prod", KEY, "")]);
        Catalog {
            accounts: Vec::new(),
            models: Vec::new(),
            callers: vec![acme],
            identities: Vec::new(),
        }
    }

    /// Makes the most common catalog: model `m` on account `a`.
    pub fn over(mock: &Mock) -> Self {
        Self::new().account("a", mock).model("m", &["a"])
    }

    /// Makes a catalog with model `m` on the accounts `a`, `b`, `c` …, one for each mock, in this
    /// order.
    pub fn chain(mocks: &[&Mock]) -> Self {
        let ids = ["a", "b", "c", "d", "e", "f"];
        let catalog = mocks
            .iter()
            .zip(ids)
            .fold(Self::new(), |catalog, (mock, id)| catalog.account(id, mock));
        catalog.model("m", &ids[..mocks.len()])
    }

    pub fn account(self, id: &str, mock: &Mock) -> Self {
        self.account_with(id, mock, "")
    }

    /// Adds an account. `more` is YAML: `concurrency: 1, timeouts: { total: 1s }`.
    pub fn account_with(self, id: &str, mock: &Mock, more: &str) -> Self {
        self.account_at(id, &mock.base_url(), more)
    }

    pub fn account_at(mut self, id: &str, base_url: &str, more: &str) -> Self {
        let has_key = ["key:", "aws:", "service_account:", "identity:"]
            .iter()
            .any(|word| more.contains(word));
        let key = if has_key {
            String::new()
        } else {
            format!(", key: \"{ACCOUNT_KEY}\"")
        };
        let dialect = if more.contains("dialect:") {
            ""
        } else {
            "dialect: openai, "
        };
        self.accounts.push(format!(
            "{id}: {{ {dialect}base_url: \"{base_url}\"{key}{} }}",
            comma(more)
        ));
        self
    }

    pub fn model(self, id: &str, accounts: &[&str]) -> Self {
        self.model_with(id, accounts, "")
    }

    /// Adds a model. A target is `account` or `account=model`.
    pub fn model_with(mut self, id: &str, targets: &[&str], more: &str) -> Self {
        let targets = targets.iter().map(|target| match target.split_once('=') {
            Some((account, model)) => format!("{{ account: {account}, model: \"{model}\" }}"),
            None => format!("{{ account: {target} }}"),
        });
        let targets = targets.collect::<Vec<_>>().join(", ");
        self.models.push(format!(
            "\"{id}\": {{ targets: [{targets}]{} }}",
            comma(more)
        ));
        self
    }

    /// Adds a model with these targets, each written as YAML.
    pub fn model_of(mut self, id: &str, targets: &[&str], more: &str) -> Self {
        self.models.push(format!(
            "\"{id}\": {{ targets: [{}]{} }}",
            targets.join(", "),
            comma(more)
        ));
        self
    }

    /// Adds a caller, with one key named `prod`.
    pub fn caller(self, id: &str, key: &str, more: &str) -> Self {
        self.caller_with(id, more, &[("prod", key, "")])
    }

    /// Adds a caller. Each key is a name, a secret and more YAML.
    pub fn caller_with(mut self, id: &str, more: &str, keys: &[(&str, &str, &str)]) -> Self {
        self.callers.push(caller(id, more, keys));
        self
    }

    /// Adds an issuer of tokens, written as YAML.
    pub fn identity(mut self, id: &str, yaml: &str) -> Self {
        self.identities.push(format!("{id}: {{ {yaml} }}"));
        self
    }

    /// Removes the caller `acme`.
    pub fn without_acme(mut self) -> Self {
        self.callers.retain(|entry| !entry.starts_with("acme:"));
        self
    }
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

impl Display for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (section, entries) in [
            ("accounts", &self.accounts),
            ("models", &self.models),
            ("callers", &self.callers),
        ] {
            if entries.is_empty() {
                writeln!(f, "{section}: {{}}")?;
                continue;
            }
            writeln!(f, "{section}:")?;
            for entry in entries {
                writeln!(f, "  {entry}")?;
            }
        }
        if !self.identities.is_empty() {
            writeln!(f, "identities:")?;
        }
        for entry in &self.identities {
            writeln!(f, "  {entry}")?;
        }
        Ok(())
    }
}

fn caller(id: &str, more: &str, keys: &[(&str, &str, &str)]) -> String {
    let keys = keys
        .iter()
        .map(|(name, key, more)| format!("{name}: {{ hash: \"{}\"{} }}", hash(key), comma(more)));
    let keys = keys.collect::<Vec<_>>().join(", ");
    format!("{id}: {{ keys: {{ {keys} }}{} }}", comma(more))
}

fn comma(more: &str) -> String {
    if more.is_empty() {
        String::new()
    } else {
        format!(", {more}")
    }
}
