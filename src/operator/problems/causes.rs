//! The [`Causes`] say which models fail together: those that the same accounts serve. What is wrong
//! with one account is one problem, however many models have it.
//!
//! **Invariant:** the subject follows from the catalog alone, so that a problem keeps its subject
//! while more models fail or recover.

use super::facts::{ModelFacts, Reason, TargetState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The accounts of a model that are not switched off.
type Accounts = BTreeSet<Arc<str>>;

/// The accounts that serve several models.
pub(super) struct Causes {
    shared: HashMap<Accounts, usize>,
}

impl Causes {
    /// Checks all models.
    pub(super) fn new(models: &[ModelFacts]) -> Causes {
        let mut shared = HashMap::new();
        for model in models {
            *shared.entry(active_accounts(model)).or_default() += 1;
        }
        shared.retain(|accounts, models| !accounts.is_empty() && *models > 1);
        Causes { shared }
    }

    /// Puts models together that have one cause.
    pub(super) fn group<'m>(&self, models: Vec<&'m ModelFacts>) -> Vec<Vec<&'m ModelFacts>> {
        let mut groups: BTreeMap<(&'static str, Arc<str>), Vec<&ModelFacts>> = BTreeMap::new();
        for model in models {
            groups.entry(self.subject(model)).or_default().push(model);
        }
        groups.into_values().collect()
    }

    /// Returns the subject of a model's problems: its accounts if they serve other models, too,
    /// else the model.
    pub(super) fn subject(&self, model: &ModelFacts) -> (&'static str, Arc<str>) {
        let accounts = active_accounts(model);
        // That an account does not serve a model says nothing of other models.
        let is_own = model
            .targets
            .iter()
            .any(|target| target.reason == Some(Reason::Unfit));
        if is_own || !self.shared.contains_key(&accounts) {
            return ("model", model.id.clone());
        }
        let kind = if accounts.len() == 1 {
            "account"
        } else {
            "accounts"
        };
        let names: Vec<&str> = accounts.iter().map(|account| &**account).collect();
        (kind, names.join(", ").into())
    }
}

fn active_accounts(model: &ModelFacts) -> Accounts {
    let targets = model
        .targets
        .iter()
        .filter(|target| target.state != TargetState::Off);
    targets.map(|target| target.account.clone()).collect()
}
