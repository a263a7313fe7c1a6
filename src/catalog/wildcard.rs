//! A wildcard is a model whose id is a pattern with one `*`, such as `openai/*`. It stands for all
//! models that its accounts' providers list.
//!
//! **Invariant:** only a name that a list has is served, and a written id or alias goes before a
//! pattern. A model of a pattern is made when it is first asked for. The catalog keeps it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::listing::{self, Listing};
use super::{Catalog, Model, Permissions, Target, globs};

/// The most models of patterns that a catalog keeps. Beyond it, all are forgotten and made again.
const MOST_KEPT: usize = 4 * listing::MAX_NAMES;

impl Catalog {
    /// Returns whether requests for a model may go to one of its targets: the account is enabled,
    /// and if the model comes from a pattern, the account's list has the name.
    pub fn serves(&self, model: &Model, target: &Target) -> bool {
        let listing = || self.listing(target);
        target.account.enabled
            && (model.pattern.is_none() || listing().is_some_and(|list| list.has(&target.model)))
    }

    /// Returns whether a model has a target to which requests may go.
    pub fn is_served(&self, model: &Model) -> bool {
        model
            .targets
            .iter()
            .any(|target| self.serves(model, target))
    }

    /// Returns the model that may be meant by an id that is not served yet: a pattern matches it,
    /// and a list that may have it was never fetched.
    pub fn model_awaiting_list(&self, permissions: &Permissions, id: &str) -> Option<Arc<Model>> {
        let model = self
            .model(id)
            .filter(|model| model.pattern.is_some() && permissions.allow(&model.id))?;
        (!self.is_served(&model)).then_some(model)
    }

    /// Returns whether a list that may have a model could not be fetched.
    pub fn is_list_failing(&self, model: &Model) -> bool {
        model
            .targets
            .iter()
            .filter(|target| target.account.enabled)
            .filter_map(|target| self.listing(target))
            .any(|list| list.state().failure.is_some())
    }

    /// Returns a pattern's model with this id. Returns `None` if no list can have its name.
    pub(super) fn of_pattern(&self, pattern: &Model, id: &str) -> Option<Arc<Model>> {
        let written = self.names.get(id).filter(|model| !model.is_pattern());
        let is_its = |model: &Arc<Model>| model.pattern == pattern.pattern;
        let known = written
            .cloned()
            .filter(is_its)
            .or_else(|| self.pattern_models.lock().get(id).cloned().filter(is_its));
        // Limits of keys name the model, whichever pattern it comes from.
        let index = written.map_or(pattern.index, |written| written.index);
        let model = match &known {
            Some(known) => known.clone(),
            None => Arc::new(Model {
                index,
                ..pattern.for_id(id)?
            }),
        };
        if self.is_served(&model) {
            if known.is_none() {
                let mut kept = self.pattern_models.lock();
                if kept.len() >= MOST_KEPT {
                    kept.clear();
                }
                kept.insert(model.id.clone(), model.clone());
            }
            return Some(model);
        }
        let may_serve = model.targets.iter().any(|target| {
            let listing = self.listing(target);
            target.account.enabled && listing.is_none_or(|list| list.may_have(&target.model))
        });
        may_serve.then_some(model)
    }

    /// Returns the models that are served under these permissions. Those of patterns are among
    /// them, and the patterns are not.
    pub fn listed(&self, permissions: &Permissions) -> Vec<Arc<Model>> {
        let (patterns, written): (Vec<_>, Vec<_>) = self
            .models
            .iter()
            .partition(|model| model.pattern.is_some());
        let is_listed = |model: &Arc<Model>| self.is_served(model) && permissions.allow(&model.id);
        let mut listed: Vec<_> = written
            .into_iter()
            .filter(|model| is_listed(model))
            .cloned()
            .collect();
        let mut ids = BTreeSet::new();
        let patterns = patterns.iter().filter(|model| model.is_pattern());
        for (pattern, target) in
            patterns.flat_map(|model| model.targets.iter().map(move |served| (model, served)))
        {
            let names = self.listing(target).and_then(|listing| listing.names());
            for name in names.iter().flat_map(|names| &names.names) {
                ids.extend(
                    globs::star_text(&target.model, name)
                        .map(|star| globs::fill_star(&pattern.id, star)),
                );
            }
        }
        let unwritten = ids.iter().filter(|id| {
            let written = self.names.get(id.as_str());
            written.is_none_or(|model| model.pattern.is_some())
        });
        listed.extend(
            unwritten
                .filter_map(|id| self.visible_to(permissions, id))
                .filter(|model| model.pattern.is_some()),
        );
        listed
    }

    /// Returns a number that changes with the lists.
    pub fn list_changes(&self) -> u64 {
        self.listings.iter().map(|listing| listing.changes()).sum()
    }

    /// Returns the indices of the enabled accounts whose lists are needed.
    pub fn listed_accounts(&self) -> BTreeSet<usize> {
        let targets = self
            .models
            .iter()
            .filter(|model| model.is_pattern())
            .flat_map(|model| &model.targets);
        targets
            .filter(|target| target.account.enabled)
            .map(|target| target.account.index)
            .collect()
    }

    fn listing(&self, target: &Target) -> Option<&Arc<Listing>> {
        self.listings.get(target.account.index)
    }
}
