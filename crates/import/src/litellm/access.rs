//! Which models a key, a team or a user may use. Here an empty list means none, in LiteLLM all.

use std::collections::{BTreeSet, HashMap};

use dialects::neutral::ModelKind;

use super::bound::{Bound, add_bound};
use super::models::{GroupDraft, Made, TargetDraft};
use super::names::pattern_serves;
use super::node::Spot;
use super::walk::Walk;
use crate::notes::Grade;
use portcullis::catalog::Catalog;
use portcullis::catalog::globs::Globs;

/// The facts about models.
pub(super) struct Known<'k, 'a> {
    made: &'k Made<'a>,
    catalog: Option<&'k Catalog>,
    /// The id of each model, by its id and by its aliases.
    ids: HashMap<&'k str, &'k str>,
    /// The models of each access group, and those of which it has only some targets.
    access: HashMap<&'k str, [Vec<&'k str>; 2]>,
    /// The models that bound each key which may use them.
    pub(super) for_each_key: Vec<&'k GroupDraft<'a>>,
    /// Each name of a model, under each name that a budget for it may have.
    by_budget: HashMap<&'k str, Vec<&'k str>>,
}

impl<'k, 'a> Known<'k, 'a> {
    pub(super) fn new(made: &'k Made<'a>, catalog: Option<&'k Catalog>) -> Self {
        let of_group = |group: &'k GroupDraft<'a>| {
            group
                .aliases
                .iter()
                .map(move |alias| (&**alias, &*group.name))
        };
        let mut ids: HashMap<&str, &str> = made.groups.iter().flat_map(of_group).collect();
        ids.extend(made.groups.iter().map(|group| (&*group.name, &*group.name)));
        let mut by_budget: HashMap<&str, Vec<&str>> = HashMap::new();
        for name in ids.keys().filter(|name| !name.contains('*')) {
            for budget in budget_names(name) {
                by_budget.entry(budget).or_default().push(name);
            }
        }
        let mut access: HashMap<&str, [Vec<&str>; 2]> = HashMap::new();
        for group in &made.groups {
            let named: BTreeSet<&str> = group
                .targets
                .iter()
                .flat_map(|target| &target.access)
                .map(|s| &**s)
                .collect();
            for name in named {
                let has_all = group
                    .targets
                    .iter()
                    .all(|target| target.access.iter().any(|other| other == name));
                let [whole, partial] = access.entry(name).or_default();
                if has_all { whole } else { partial }.push(&*group.name);
            }
        }
        let for_each_key = made
            .groups
            .iter()
            .filter(|group| !group.of_keys.is_empty())
            .collect();
        Self {
            made,
            catalog,
            ids,
            access,
            for_each_key,
            by_budget,
        }
    }

    /// Returns the id of a model by its id or its alias.
    fn id(&self, name: &str) -> Option<&'k str> {
        self.ids.get(name).copied()
    }

    /// Returns the models that a limit of requests or tokens under this name counts.
    pub(super) fn limited(&self, name: &str) -> BTreeSet<&'k str> {
        match self.id(name) {
            Some(id) => BTreeSet::from([id]),
            None => self
                .patterns()
                .filter(|pattern| pattern_serves(pattern, name))
                .collect(),
        }
    }

    /// Returns the models that a budget under this name counts: those that may be used, by a name
    /// for which no nearer budget counts.
    pub(super) fn budgeted(
        &self,
        budget: &str,
        may: &[Globs; 2],
        is_nearer: impl Fn(&str) -> bool,
    ) -> BTreeSet<&'k str> {
        let names = self.by_budget.get(budget).into_iter().flatten();
        let counted = names
            .filter(|name| **name == budget || !is_nearer(name))
            .filter_map(|name| self.id(name));
        let counted = counted.filter(|id| may.iter().all(|globs| globs.matches(id)));
        let may_count = |pattern: &&str| {
            let is_own = self.id(budget).is_some();
            (!is_own && pattern_serves(pattern, budget))
                || (!budget.contains('/') && may_end(pattern, budget))
        };
        let patterns = self.patterns().filter(may_count);
        counted
            .chain(patterns.filter(|pattern| may.iter().all(|globs| globs.may_match(pattern))))
            .collect()
    }

    fn patterns(&self) -> impl Iterator<Item = &'k str> {
        self.names().filter(|name| name.contains('*'))
    }

    /// Returns the models and patterns of an enabled account without a price. If the catalog has
    /// errors, no price is known.
    pub(super) fn unpriced(&self) -> Vec<&str> {
        let Some(catalog) = self.catalog else {
            return self.names().collect();
        };
        let lacks =
            |target: &portcullis::catalog::Target| target.account.enabled && target.price.is_none();
        catalog
            .models()
            .iter()
            .filter(|model| model.targets.iter().any(lacks))
            .map(|model| &*model.id)
            .collect()
    }

    /// Returns the models that may stand in for this one, and itself. If the catalog has errors,
    /// this may be any.
    pub(super) fn with_fallbacks(&self, id: &str) -> Vec<&str> {
        let Some(catalog) = self.catalog else {
            return self.names().collect();
        };
        let model = catalog.models().iter().find(|model| *model.id == *id);
        let others = |model: &'_ std::sync::Arc<portcullis::catalog::Model>| -> Vec<String> {
            let lists = [&model.fallbacks, &model.on_context, &model.on_refusal];
            lists
                .into_iter()
                .flatten()
                .map(|id| id.to_string())
                .collect()
        };
        let names: Vec<String> = model.map(others).unwrap_or_default();
        let is_one = |other: &&str| *other == id || names.iter().any(|name| name == other);
        catalog
            .models()
            .iter()
            .map(|model| &*model.id)
            .filter(is_one)
            .collect()
    }

    /// Returns whether a key may use a model that may be of this kind.
    pub(super) fn may_use(&self, kind: ModelKind, may: &[Globs; 2]) -> bool {
        let fits = |word: Option<&str>| word.is_none_or(|word| word == kind.name());
        let of_target =
            |target: &TargetDraft<'_>| fits(ModelKind::of_name(&target.model).map(ModelKind::name));
        let is_one = |group: &&GroupDraft<'_>| match group.kind {
            Some(word) => fits(Some(word)),
            None => group.targets.iter().any(of_target),
        };
        self.made
            .groups
            .iter()
            .filter(is_one)
            .any(|group| may.iter().all(|globs| globs.may_match(&group.name)))
    }

    fn names(&self) -> impl Iterator<Item = &'k str> {
        self.made.groups.iter().map(|group| &*group.name)
    }

    /// Reads the list of models of a row; `None` means all.
    pub(super) fn allowed_models(
        &self,
        row: &Spot<'_>,
        is_user: bool,
        walk: &mut Walk<'_>,
    ) -> Option<Vec<String>> {
        // An empty list means all models. An empty text is no list.
        let is_unset = |spot: &Spot<'_>| spot.is_empty() && spot.text() != Some("");
        let spot = row.get("models").filter(|spot| !is_unset(spot))?;
        if !spot.is_list() {
            add_bound(walk.bounds, Bound::unreadable("models"));
            return Some(Vec::new());
        }
        let items = spot.items();
        let mut globs: Vec<String> = Vec::new();
        let (mut is_all, mut is_none) = (false, false);
        let has_partial = |item: &Spot<'_>| {
            let [_, partial] = item.text().and_then(|name| self.access.get(name))?;
            partial.first()
        };
        let some = items.iter().find_map(has_partial);
        for item in items {
            let mut is_unknown = false;
            let name = item.text().unwrap_or_default();
            let (grade, message) = match (name, self.id(name), self.access.get(name)) {
                // At a user, this word is the name of no model.
                ("all-team-models", ..) if is_user => {
                    is_unknown = true;
                    (Grade::Manual, UNKNOWN.to_owned())
                }
                // LiteLLM looks at the targets of the group all the same.
                ("all-team-models", ..) if some.is_some() => {
                    (Grade::Manual, WITH_PARTIAL_GROUP.to_owned())
                }
                ("all-proxy-models" | "all-team-models" | "*", ..) => {
                    is_all = true;
                    (Grade::Exact, String::new())
                }
                ("no-default-models", ..) => {
                    // At a user, this word forbids what the others allow.
                    is_none |= is_user;
                    (Grade::Exact, String::new())
                }
                (_, Some(id), _) => {
                    globs.push(id.to_owned());
                    match id == name {
                        true => (Grade::Exact, String::new()),
                        false => (
                            Grade::Approximate,
                            "is an alias: the model may be used by its own name, too".to_owned(),
                        ),
                    }
                }
                (_, None, Some([whole, partial])) => {
                    globs.extend(whole.iter().map(|id| (*id).to_owned()));
                    match partial.first() {
                        None => (
                            Grade::Exact,
                            "is an access group: its models are written out".to_owned(),
                        ),
                        Some(first) => (Grade::Manual, of_some(first)),
                    }
                }
                _ if name.contains('*') && is_glob(name) => {
                    globs.push(name.to_owned());
                    (
                        Grade::Approximate,
                        "matches the ids of models only; in LiteLLM also models of the provider that it names"
                            .to_owned(),
                    )
                }
                _ if is_glob(name)
                    && self.patterns().any(|pattern| pattern_serves(pattern, name)) =>
                {
                    globs.push(name.to_owned());
                    (
                        Grade::Approximate,
                        "is a model of a pattern: it is there if the provider lists it".to_owned(),
                    )
                }
                _ => {
                    is_unknown = true;
                    (Grade::Manual, UNKNOWN.to_owned())
                }
            };
            walk.findings.push(match is_unknown {
                true => self
                    .made
                    .missing
                    .finding(&item, grade, walk.became, &message),
                false => item.finding(grade, walk.became, message),
            });
        }
        globs.sort();
        globs.dedup();
        match (is_none, is_all) {
            (true, _) => Some(Vec::new()),
            (false, true) => None,
            (false, false) => Some(globs),
        }
    }
}

/// The report's text for a name that may not be used.
const UNKNOWN: &str = "the key may not use it";

const WITH_PARTIAL_GROUP: &str = "does not count beside an access group with only some targets of a model: write the models by hand";

/// Says that an access group has not all targets of a model.
fn of_some(model: &str) -> String {
    let model = portcullis::base::problem::quote_safely(model);
    format!(
        "is an access group with only some targets of {model}, so it does not give this model here: give these targets a model of \
         their own"
    )
}

/// Returns whether a text is a glob that means the same in both.
fn is_glob(text: &str) -> bool {
    portcullis::catalog::name::of_alias_glob(text).is_ok()
        && !text.contains('?')
        && portcullis::base::problem::unless_secret(text) == text
}

/// Returns whether a pattern may serve a model for which a budget under this name counts.
fn may_end(pattern: &str, budget: &str) -> bool {
    let end = pattern.rsplit('*').next().unwrap_or_default();
    end.is_empty() || budget.ends_with(end) || budget_names(end).any(|name| name == budget)
}

/// Returns the names under which a budget may stand that counts a model, in LiteLLM: its own, that
/// without the provider, and that without the region and the vendor of Bedrock. LiteLLM looks in
/// its list of models whether Bedrock has it. Without the list, some of these names never count.
fn budget_names(model: &str) -> impl Iterator<Item = &str> {
    let last = model.rsplit('/').next().unwrap_or(model);
    // A size may stand at the end, such as `:51k` or `[1m]`.
    let plain = last.split_once('[').map_or(last, |(plain, _)| plain);
    let shorter = |name| {
        std::iter::successors(Some(name), |name: &&str| {
            name.split_once('.').map(|(_, rest)| rest)
        })
        .take(3)
    };
    let short = [last, plain].map(|name| match name.rsplit_once(':') {
        Some((short, size)) if size.ends_with('k') => short,
        Some(_) | None => name,
    });
    let all: BTreeSet<&str> = std::iter::once(model)
        .chain([last, plain].into_iter().chain(short).flat_map(shorter))
        .collect();
    all.into_iter()
}
