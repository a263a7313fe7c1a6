//! `model_list`: each entry becomes a target of the model that it names.

use std::collections::{BTreeSet, HashMap};

use dialects::neutral::ModelKind;

use super::account::{Draft, Drafting, name_files};
use super::entry::{Entry, KeyLimits, Terms, model_kind};
use super::merged_config::MergedConfig;
use super::names::{Missing, Taken, entry_name};
use super::node::{Lost, Spot};
use super::price::{list_price, read_price};
use super::provider::model_provider;
use crate::notes::{Finding, Grade, LEFT_OUT, format_place};
use crate::write::EntryOut;
use portcullis::base::problem::looks_secret;
use portcullis::catalog::globs::glob_matches;
use portcullis::catalog::name;
use portcullis::conf::yaml::edit::NewValue;

/// A model with its targets, before it is known how they share.
pub(super) struct GroupDraft<'a> {
    /// The public id.
    pub(super) name: String,
    /// The name in its first entry.
    pub(super) spot: Spot<'a>,
    pub(super) targets: Vec<TargetDraft<'a>>,
    pub(super) aliases: Vec<String>,
    pub(super) max_tokens: Option<u64>,
    pub(super) on_loss: Option<&'static str>,
    pub(super) kind: Option<ModelKind>,
    /// The limits of the keys that may use it.
    pub(super) key_limits: KeyLimits,
}

impl GroupDraft<'_> {
    /// Returns the path of the model, which findings name.
    pub(super) fn path(&self) -> String {
        format!("models.{}", self.name)
    }
}

/// A target, with the fields that decide its share.
pub(super) struct TargetDraft<'a> {
    pub(super) account: String,
    pub(super) model: String,
    pub(super) price: Option<NewValue>,
    /// `weight`, `rpm` and `tpm`, in the order in which LiteLLM reads them.
    pub(super) shares: [Option<Spot<'a>>; 3],
    pub(super) order: Option<Spot<'a>>,
    /// Its access groups.
    pub(super) access: Vec<String>,
}

/// The accounts and models that are made so far.
#[derive(Default)]
pub(super) struct Made<'a> {
    pub(super) accounts: Vec<EntryOut>,
    pub(super) groups: Vec<GroupDraft<'a>>,
    pub(super) secrets: Vec<String>,
    /// True if an entry has tags.
    pub(super) has_tags: bool,
    /// The fields of entries that limit keys.
    terms: Vec<Terms<'a>>,
    /// The names that answer to nothing, since their entries are left out.
    pub(super) missing: Missing,
    /// The names of the accounts that others may share, by all that separates them.
    shared: HashMap<String, String>,
    taken: Taken,
    by_name: HashMap<String, usize>,
}

impl<'a> Made<'a> {
    /// Takes one entry of `model_list`.
    pub(super) fn take_entry(&mut self, spot: &Spot<'a>, config: &MergedConfig<'a>) {
        let Some(mut entry) = Entry::read(spot) else {
            return;
        };
        let findings = spot.findings;
        let begin = findings.len();
        let places = entry.places();
        entry.add_credential(config);
        self.has_tags |= ["tags", "tag_regex"]
            .iter()
            .any(|tag| entry.params.contains_key(tag));
        let is_reserved = entry.reservation(config).is_some();
        // LiteLLM does not even load what is for other environments.
        let is_loaded = entry.other_environments(config).is_none();
        let mut terms = is_loaded.then(|| Terms::take(&mut entry, is_reserved));
        match self.take_target(&mut entry, config) {
            Ok(()) => {
                entry.report_rest();
                terms.iter_mut().for_each(|terms| terms.is_made = true);
            }
            // Each of its places is reported all the same.
            Err(lost) => {
                findings.truncate(begin);
                let groups = entry.info.get("access_groups").map(Spot::texts);
                let name = entry.name.text().map(str::to_owned);
                let names = groups.into_iter().flatten().chain(name);
                self.missing.add(names, lost.unset.as_ref());
                let terms = terms.iter().flat_map(Terms::paths);
                let reported: BTreeSet<&str> = terms.chain([&*lost.path]).collect();
                findings.add(Finding::clone(&lost));
                for spot in places.iter().filter(|spot| !reported.contains(&*spot.path)) {
                    spot.report_unsupported(LEFT_OUT);
                }
            }
        }
        findings.set_entry("");
        self.terms.extend(terms);
    }

    /// Puts the fields of entries that limit keys at the models that answer to their names. All
    /// models and aliases must be known.
    pub(super) fn settle(&mut self) {
        for terms in std::mem::take(&mut self.terms) {
            for index in self.reached(terms.name) {
                if let Some(group) = self.groups.get_mut(index) {
                    terms.reserve(&group.name, &mut group.key_limits);
                }
            }
            for (field, spot, names) in terms.fields() {
                let names = names.into_iter();
                let reached: BTreeSet<usize> = names.flat_map(|name| self.reached(name)).collect();
                if reached.is_empty() {
                    spot.report_unsupported(LEFT_OUT);
                }
                for index in reached {
                    if let Some(group) = self.groups.get_mut(index) {
                        spot.findings.set_entry(group.path());
                        terms.add(field, spot, &mut group.key_limits);
                        spot.findings.set_entry("");
                    }
                }
            }
        }
    }

    /// Returns the models that answer to a name: one of this name or alias, else patterns.
    fn reached(&self, name: &str) -> Vec<usize> {
        let has_alias = |group: &GroupDraft<'_>| group.aliases.iter().any(|alias| alias == name);
        let one = self.by_name.get(name).copied();
        if let Some(index) = one.or_else(|| self.groups.iter().position(has_alias)) {
            return vec![index];
        }
        let all = self.groups.iter().enumerate();
        let patterns = all.filter(|(_, group)| glob_matches(&group.name, name));
        patterns.map(|(index, _)| index).collect()
    }

    /// Makes the target of an entry, with its account and its model.
    fn take_target(
        &mut self,
        entry: &mut Entry<'a>,
        config: &MergedConfig<'a>,
    ) -> Result<(), Lost> {
        let name = entry.name.clone();
        let findings = name.findings;
        let id = name.text().unwrap_or_default();
        if let Err(why) = check_id(id) {
            let why = format!("cannot be an id here ({why})");
            return Err(name.lost(Grade::Manual, why));
        }
        if config.is_hidden(id) {
            let why = "LiteLLM takes the alias of this name (`model_group_alias`)";
            return Err(name.lost(Grade::Unsupported, why));
        }
        if let Some(lost) = entry.reservation(config) {
            return Err(lost);
        }
        let mode = entry.info.remove("mode");
        let kind = mode.as_ref().and_then(Spot::text).and_then(model_kind);
        if let (Some(mode), None) = (&mode, kind) {
            let why = "Portcullis has no endpoint of this kind";
            return Err(mode.lost(Grade::Unsupported, why));
        }
        let begin = findings.len();
        let (draft, model) = draft_account(entry, config)?;
        let end = findings.len();
        if let Some(why) = pattern_mismatch(id, &model, &draft) {
            return Err(name.lost(Grade::Manual, why));
        }
        findings.set_entry(format!("models.{id}"));
        let base_model = entry.take("base_model");
        let listed = list_price(&draft, &model, &name, base_model.as_ref());
        let account = self.add_account(draft, &name);
        findings.move_to(&format!("accounts.{account}"), begin..end);
        name.report_exact();
        mode.iter().for_each(Spot::report_exact);
        let target = TargetDraft {
            account,
            model,
            price: read_price(entry).or(listed),
            shares: ["weight", "rpm", "tpm"].map(|share| entry.params.remove(share)),
            order: entry.take("order"),
            access: take_access_groups(entry),
        };
        if let Some(group) = self.group(id, &name) {
            group.kind = group.kind.or(kind);
            group.read_defaults(entry);
            group.add_target(target, &entry.spot);
        }
        Ok(())
    }

    /// Adds an account, unless there is an equal one. Returns its name.
    fn add_account(&mut self, mut draft: Draft, entry: &Spot<'_>) -> String {
        let identity = format!("{} {:?} {:?}", draft.wish, draft.fields, draft.literals);
        if let Some(name) = self.shared.get(&identity).filter(|_| !draft.is_own) {
            return name.clone();
        }
        let wish = entry_name(&draft.wish, 50).unwrap_or_else(|| "account".to_owned());
        let name = self.taken.give(&wish);
        if !draft.is_own {
            self.shared.insert(identity, name.clone());
        }
        for (_, value) in &mut draft.fields.0 {
            name_files(value, &name, &mut self.secrets);
        }
        self.accounts.push(EntryOut {
            name: name.clone(),
            from: format_entry_place(entry),
            fields: draft.fields,
            below: None,
        });
        name
    }

    fn group(&mut self, id: &str, spot: &Spot<'a>) -> Option<&mut GroupDraft<'a>> {
        if !self.has(id) {
            self.by_name.insert(id.to_owned(), self.groups.len());
            self.groups.push(GroupDraft {
                name: id.to_owned(),
                spot: spot.clone(),
                targets: Vec::new(),
                aliases: Vec::new(),
                max_tokens: None,
                on_loss: None,
                kind: None,
                key_limits: KeyLimits::default(),
            });
        }
        self.find_mut(id)
    }

    /// Returns whether a model of this id was made.
    pub(super) fn has(&self, id: &str) -> bool {
        self.by_name.contains_key(id)
    }

    /// Returns the model of this id.
    pub(super) fn find(&self, id: &str) -> Option<&GroupDraft<'a>> {
        self.groups.get(*self.by_name.get(id)?)
    }

    pub(super) fn find_mut(&mut self, id: &str) -> Option<&mut GroupDraft<'a>> {
        self.groups.get_mut(*self.by_name.get(id)?)
    }
}

impl<'a> GroupDraft<'a> {
    fn read_defaults(&mut self, entry: &mut Entry<'a>) {
        if let Some(spot) = entry.params.remove("max_tokens")
            && let Some(limit) = spot.read_whole(1..=u64::from(u32::MAX), "defaults.max_tokens")
        {
            set_default(&mut self.max_tokens, limit, &spot);
        }
        if let Some(spot) = entry.params.remove("drop_params")
            && let Some(drops) = spot.read_flag("on_loss")
        {
            let on_loss = if drops { "drop" } else { "refuse" };
            set_default(&mut self.on_loss, on_loss, &spot);
        }
    }

    fn add_target(&mut self, target: TargetDraft<'a>, entry: &Spot<'_>) {
        let mut targets = self.targets.iter_mut();
        let equal =
            targets.find(|known| known.account == target.account && known.model == target.model);
        let Some(known) = equal else {
            self.targets.push(target);
            return;
        };
        entry.report_approximate(
            "has the same account and model as an entry before it: they are one target",
        );
        for spot in target.shares.iter().flatten().chain(&target.order) {
            spot.report_approximate(LEFT_OUT);
        }
        known.access.extend(target.access);
    }
}

/// Sets a default of a model, unless an entry before has set it. Reports whether this value counts.
fn set_default<T: Copy + PartialEq>(default: &mut Option<T>, value: T, spot: &Spot<'_>) {
    if *default.get_or_insert(value) == value {
        spot.report_exact();
    } else {
        spot.report_approximate("another entry of this model has another value, which counts");
    }
}

/// Returns the place of a model's entry, from the place of its `model_name`.
pub(super) fn format_entry_place(name: &Spot<'_>) -> String {
    let path = name.path.trim_end_matches(".model_name");
    format_place(name.file, name.line, path)
}

/// Checks that a text can be the id of a model or a pattern. The error is the reason.
pub(super) fn check_id(id: &str) -> Result<(), &'static str> {
    if looks_secret(id) {
        return Err("it may be a secret");
    }
    name::of_pattern(id).or_else(|_| name::of_model(id))
}

/// Makes the account of an entry, and finds the account's name for the model.
fn draft_account<'a>(
    entry: &mut Entry<'a>,
    config: &MergedConfig<'a>,
) -> Result<(Draft, String), Lost> {
    const MAX_LENGTH: usize = 512;
    if let Some(spot) = entry.params.remove("mock_response") {
        spot.report_approximate("the demo account answers, with a text of its own");
        let mut draft = Draft {
            wish: "demo".to_owned(),
            ..Draft::default()
        };
        draft.fields.set("dialect", "demo");
        return Ok((draft, entry.name.text().unwrap_or_default().to_owned()));
    }
    let Some(spot) = entry.params.remove("model") else {
        return Err(entry.spot.lost(Grade::Manual, "names no `model`"));
    };
    let custom = entry.params.remove("custom_llm_provider");
    let written = config.plain(&spot)?;
    if looks_secret(&written) || written.len() > MAX_LENGTH {
        return Err(spot.lost(Grade::Manual, "is no name of a model"));
    }
    let provided = model_provider(&written, custom.as_ref().and_then(Spot::text))
        .map_err(|why| spot.lost(Grade::Unsupported, why))?;
    let row = provided.row;
    let drafting = Drafting {
        row,
        entry,
        config,
        draft: Draft::default(),
    };
    let draft = drafting.finish()?;
    if provided.is_guessed {
        let name = row.name;
        spot.report_approximate(format!(
            "the name says no provider: `{name}`, as LiteLLM knows it"
        ));
    } else {
        spot.report_exact();
    }
    custom.iter().for_each(Spot::report_exact);
    Ok((draft, provided.model.to_owned()))
}

fn take_access_groups(entry: &mut Entry<'_>) -> Vec<String> {
    let Some(groups) = entry.info.remove("access_groups") else {
        return Vec::new();
    };
    groups.report(
        Grade::Exact,
        "keys that name the group get its models by name",
    );
    groups.texts()
}

/// Returns why the model's id and the account's name for it do not go together.
fn pattern_mismatch(id: &str, model: &str, draft: &Draft) -> Option<&'static str> {
    let dialect = draft.fields.text("dialect");
    let is_listed = !matches!(dialect, Some("azure" | "vertex" | "bedrock" | "demo"));
    match (id.contains('*'), model.matches('*').count()) {
        (false, 0) => None,
        (true, 1) if is_listed => None,
        (true, 1) => Some("this provider does not list its models: write each by its name"),
        (true, _) => {
            Some("a pattern stands for the same names at the provider, with one `*` in both")
        }
        (false, _) => Some("`model` is a pattern and the id is none"),
    }
}
