//! Which models a key, a team or a user may use. Here an empty list means none, in LiteLLM all.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use dialects::neutral::ModelKind;

use super::bound::Bounds;
use super::models::{CatalogDraft, ModelDraft};
use super::node::Spot;
use crate::Bound;
use crate::notes::Grade;
use portcullis::base::problem::{looks_secret, quote_safely};
use portcullis::catalog::globs::{Globs, glob_matches};
use portcullis::catalog::{Catalog, Model, name};

/// The globs of models that may be used; `None` means all.
pub(super) type Allowed = Option<Vec<String>>;

/// The models that a key may use: those that its caller and itself may.
pub(super) struct Usable([Globs; 2]);

impl Usable {
    pub(super) fn new(of_caller: &Allowed, of_key: &Allowed) -> Self {
        Self([of_caller, of_key].map(|allowed| match allowed {
            None => Globs::everything(),
            Some(list) => Globs::new(list.iter().map(|glob| Arc::from(glob.as_str()))),
        }))
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.0.iter().all(|globs| globs.matches(id))
    }

    /// Returns whether a model may be used, or one that a pattern stands for.
    pub(super) fn may_have(&self, id: &str) -> bool {
        match id.contains('*') {
            true => self.0.iter().all(|globs| globs.may_match(id)),
            false => self.has(id),
        }
    }
}

/// The facts about models.
pub(super) struct Known<'k, 'a> {
    draft: &'k CatalogDraft<'a>,
    catalog: Option<&'k Catalog>,
    /// The id of each model, by its id and by its aliases.
    ids: HashMap<&'k str, &'k str>,
    /// The ids and aliases that a budget under each name may count.
    by_budget: HashMap<&'k str, Vec<&'k str>>,
    /// The models of each access group, and those of which it has only some targets.
    access: HashMap<&'k str, [Vec<&'k str>; 2]>,
}

impl<'k, 'a> Known<'k, 'a> {
    pub(super) fn new(draft: &'k CatalogDraft<'a>, catalog: Option<&'k Catalog>) -> Self {
        let mut known = Self {
            draft,
            catalog,
            ids: HashMap::new(),
            by_budget: HashMap::new(),
            access: HashMap::new(),
        };
        for model in &draft.models {
            for alias in &model.aliases {
                known.ids.insert(alias, &model.name);
            }
            known.add_access(model);
        }
        known.ids.extend(
            draft
                .models
                .iter()
                .map(|model| (&*model.name, &*model.name)),
        );
        let names = known.ids.keys().copied();
        for name in names.filter(|name| !name.contains('*')) {
            for budget in budget_names(name) {
                known.by_budget.entry(budget).or_default().push(name);
            }
        }
        known
    }

    fn add_access(&mut self, model: &'k ModelDraft<'a>) {
        let targets = &model.targets;
        let named: BTreeSet<&String> = targets.iter().flat_map(|target| &target.access).collect();
        for access in named {
            let has_all = targets.iter().all(|target| target.access.contains(access));
            let [whole, partial] = self.access.entry(access).or_default();
            if has_all { whole } else { partial }.push(&model.name);
        }
    }

    /// Returns the id of a model by its id or its alias.
    fn id(&self, name: &str) -> Option<&'k str> {
        self.ids.get(name).copied()
    }

    fn names(&self) -> impl Iterator<Item = &'k str> + use<'k, 'a> {
        self.draft.models.iter().map(|model| &*model.name)
    }

    fn patterns(&self) -> impl Iterator<Item = &'k str> + use<'k, 'a> {
        self.names().filter(|name| name.contains('*'))
    }

    /// Returns the models that bound each key which may use them, of those that this key may use.
    pub(super) fn binding(&self, usable: &Usable) -> Vec<&'k ModelDraft<'a>> {
        let models = self
            .draft
            .models
            .iter()
            .filter(|model| !model.key_limits.is_empty());
        models
            .filter(|model| usable.may_have(&model.name))
            .collect()
    }

    /// Returns the models that a limit of requests or tokens under this name counts.
    pub(super) fn limited(&self, name: &str) -> BTreeSet<&'k str> {
        match self.id(name) {
            Some(id) => BTreeSet::from([id]),
            None => self
                .patterns()
                .filter(|pattern| glob_matches(pattern, name))
                .collect(),
        }
    }

    /// Returns the models that a budget under this name counts: those that may be used, by a name
    /// for which no nearer budget counts.
    pub(super) fn budgeted(
        &self,
        budget: &str,
        usable: &Usable,
        is_nearer: impl Fn(&str) -> bool,
    ) -> BTreeSet<&'k str> {
        let mut counted = BTreeSet::new();
        for name in self.by_budget.get(budget).into_iter().flatten() {
            let is_counted = *name == budget || !is_nearer(name);
            let id = self.id(name).filter(|id| is_counted && usable.has(id));
            counted.extend(id);
        }
        for pattern in self.patterns().filter(|pattern| usable.may_have(pattern)) {
            let serves = self.id(budget).is_none() && glob_matches(pattern, budget);
            if serves || (!budget.contains('/') && may_end(pattern, budget)) {
                counted.insert(pattern);
            }
        }
        counted
    }

    /// Returns the models and patterns of an enabled account without a price. If the catalog has
    /// errors, no price is known.
    pub(super) fn unpriced(&self) -> BTreeSet<&'k str> {
        match self.catalog {
            None => self.names().collect(),
            Some(catalog) => {
                let models = catalog.models().iter().filter(|model| lacks_price(model));
                models.map(|model| &*model.id).collect()
            }
        }
    }

    /// Returns the models that may stand in for this one, and itself. If the catalog has errors,
    /// this may be any.
    pub(super) fn with_fallbacks(&self, id: &str) -> Vec<&'k str> {
        let Some(catalog) = self.catalog else {
            return self.names().collect();
        };
        let find = |id: &str| catalog.models().iter().find(|model| *model.id == *id);
        let Some(model) = find(id) else {
            return Vec::new();
        };
        let lists = [&model.fallbacks, &model.on_context, &model.on_refusal];
        let others = lists.into_iter().flatten().filter_map(|id| find(id));
        others.chain([model]).map(|model| &*model.id).collect()
    }

    /// Returns whether a key may use a model that may be of this kind.
    pub(super) fn may_use(&self, kind: ModelKind, usable: &Usable) -> bool {
        let models = self.draft.models.iter();
        models
            .filter(|model| may_be_of_kind(model, kind))
            .any(|model| usable.may_have(&model.name))
    }

    /// Reads the list of models of a row.
    pub(super) fn allowed_models(
        &self,
        row: &Spot<'_>,
        is_user: bool,
        bounds: &mut Bounds,
    ) -> Allowed {
        const ALIAS: &str = "is an alias: the model may be used by its own name, too";
        const GROUP: &str = "is an access group: its models are written out";
        const PARTIAL: &str =
            "does not count with an access group of only some targets: write the models by hand";
        const GLOB: &str =
            "matches the ids of models only; in LiteLLM also models of the provider that it names";
        const OF_PATTERN: &str = "is a model of a pattern: it is there if the provider lists it";
        const UNKNOWN: &str = "the key may not use it";
        let missing = &self.draft.missing;
        // An empty list means all models. An empty text is no list.
        let is_unset = |spot: &Spot<'_>| spot.is_empty() && spot.text() != Some("");
        let spot = row.get("models").filter(|spot| !is_unset(spot))?;
        if !spot.is_list() {
            bounds.add(Bound::unreadable("models"));
            return Some(Vec::new());
        }
        let items = spot.items();
        let groups = items
            .iter()
            .filter_map(|item| self.access.get(item.text()?));
        let has_partial = groups.into_iter().any(|[_, partial]| !partial.is_empty());
        let mut globs: Vec<String> = Vec::new();
        let (mut is_all, mut is_none) = (false, false);
        for item in items {
            let name = item.text().unwrap_or_default();
            let is_served = || self.patterns().any(|pattern| glob_matches(pattern, name));
            match (name, self.id(name), self.access.get(name)) {
                // At a user, this word is the name of no model.
                ("all-team-models", ..) if is_user => {
                    missing.report(&item, name, Grade::Manual, UNKNOWN)
                }
                // LiteLLM asks for the targets of the group all the same.
                ("all-team-models", ..) if has_partial => item.report_manual(PARTIAL),
                ("all-proxy-models" | "all-team-models" | "*", ..) => {
                    is_all = true;
                    item.report_exact();
                }
                ("no-default-models", ..) => {
                    // At a user, this word forbids what the others allow.
                    is_none |= is_user;
                    item.report_exact();
                }
                (_, Some(id), _) => {
                    globs.push(id.to_owned());
                    if id == name {
                        item.report_exact();
                    } else {
                        item.report_approximate(ALIAS);
                    }
                }
                (_, None, Some([whole, partial])) => {
                    globs.extend(whole.iter().map(|id| (*id).to_owned()));
                    match partial.first() {
                        None => item.report(Grade::Exact, GROUP),
                        Some(model) => item.report_manual(format!(
                            "is an access group with only some targets of {}, which it does not give here: make a model of these targets",
                            quote_safely(model)
                        )),
                    }
                }
                _ if is_alias_glob(name) && (name.contains('*') || is_served()) => {
                    globs.push(name.to_owned());
                    item.report_approximate(if name.contains('*') { GLOB } else { OF_PATTERN });
                }
                _ => missing.report(&item, name, Grade::Manual, UNKNOWN),
            }
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

fn lacks_price(model: &Model) -> bool {
    let mut targets = model.targets.iter();
    targets.any(|target| target.account.enabled && target.price.is_none())
}

fn may_be_of_kind(model: &ModelDraft<'_>, kind: ModelKind) -> bool {
    let mut targets = model.targets.iter();
    targets.any(|target| {
        let known = model.kind.or_else(|| ModelKind::of_name(&target.model));
        known.is_none_or(|known| known == kind)
    })
}

/// Returns whether a text is a glob that means the same in both.
fn is_alias_glob(text: &str) -> bool {
    name::of_alias_glob(text).is_ok() && !text.contains('?') && !looks_secret(text)
}

/// Returns whether a pattern may serve a model for which a budget under this name counts.
fn may_end(pattern: &str, budget: &str) -> bool {
    let end = pattern.rsplit('*').next().unwrap_or_default();
    end.is_empty() || budget.ends_with(end) || budget_names(end).any(|name| name == budget)
}

/// Returns the names under which a budget may stand that counts a model, in LiteLLM: its own, that
/// without the provider, and that without the region and the vendor of Bedrock. LiteLLM looks in
/// its list of models whether Bedrock has it. Without the list, some of these names never count.
fn budget_names<'m>(model: &'m str) -> impl Iterator<Item = &'m str> {
    let last = model.rsplit('/').next().unwrap_or(model);
    // A size may stand at the end, such as `:51k` or `[1m]`.
    let plain = last.split_once('[').map_or(last, |(plain, _)| plain);
    let short = [last, plain].map(|name| match name.rsplit_once(':') {
        Some((short, size)) if size.ends_with('k') => short,
        Some(_) | None => name,
    });
    let mut all = BTreeSet::from([model]);
    for name in [last, plain].into_iter().chain(short) {
        let rest = |name: &&'m str| name.split_once('.').map(|(_, rest)| rest);
        all.extend(std::iter::successors(Some(name), rest).take(3));
    }
    all.into_iter()
}
