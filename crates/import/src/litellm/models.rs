//! Reads `model_list`. Each entry becomes a target of the model that it names, and an account that
//! equal entries share. An entry that cannot be carried is left out as a whole, and what refers to
//! it is reported.

use std::collections::{BTreeSet, HashMap};

use dialects::neutral::ModelKind;

use super::account::{Draft, Drafting, name_files};
use super::entry::{Entry, KeyFields, KeyLimits, model_kind};
use super::merged_config::MergedConfig;
use super::names::{Missing, UsedNames, entry_name};
use super::node::{Lost, Spot};
use super::price::{list_price, read_price};
use super::provider::model_provider;
use crate::notes::{Finding, Grade, LEFT_OUT, format_place};
use crate::write::EntryOut;
use portcullis::base::problem::looks_secret;
use portcullis::catalog::globs::glob_matches;
use portcullis::catalog::name;
use portcullis::conf::yaml::edit::NewValue;

/// A model with its targets, before it is known how they share the requests.
pub(super) struct ModelDraft<'a> {
    /// The public id.
    pub(super) name: String,
    /// Where its first entry has the name.
    pub(super) spot: Spot<'a>,
    pub(super) targets: Vec<TargetDraft<'a>>,
    pub(super) aliases: Vec<String>,
    pub(super) max_tokens: Option<u64>,
    pub(super) on_loss: Option<&'static str>,
    pub(super) kind: Option<ModelKind>,
    /// The limits of the keys that may use it.
    pub(super) key_limits: KeyLimits,
}

impl ModelDraft<'_> {
    /// Returns the path of the model, which findings name.
    pub(super) fn path(&self) -> String {
        format!("models.{}", self.name)
    }
}

/// A target, with the fields that decide its share.
pub(super) struct TargetDraft<'a> {
    pub(super) account: String,
    /// The account's name for the model.
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
pub(super) struct CatalogDraft<'a> {
    pub(super) accounts: Vec<EntryOut>,
    pub(super) models: Vec<ModelDraft<'a>>,
    /// The files and environment variables that the accounts need: `file secrets/a.key`.
    pub(super) secrets: Vec<String>,
    /// True if an entry has tags.
    pub(super) has_tags: bool,
    /// The fields of entries that limit keys.
    key_fields: Vec<KeyFields<'a>>,
    /// The names that answer to nothing, since their entries are left out.
    pub(super) missing: Missing,
    /// The name of each account that entries may share, by its identity: the text of all that tells
    /// accounts apart.
    shared: HashMap<String, String>,
    /// The names of accounts that are used.
    used_names: UsedNames,
    /// The index in `models` of each model, by its id.
    by_name: HashMap<String, usize>,
}

impl<'a> CatalogDraft<'a> {
    /// Takes one entry of `model_list`. If the entry cannot be carried, the findings about its
    /// parts are taken back, and each of its places is reported as left out.
    pub(super) fn take_entry(&mut self, spot: &Spot<'a>, config: &MergedConfig<'a>) {
        let Some(mut entry) = Entry::read(spot) else {
            return;
        };
        let findings = spot.findings;
        let findings_before = findings.len();
        // All places, before fields are taken out of the entry.
        let places = entry.places();
        entry.add_credential(config);
        self.has_tags |= ["tags", "tag_regex"]
            .iter()
            .any(|tag| entry.params.contains_key(tag));
        let is_reserved = entry.reservation(config).is_some();
        // LiteLLM does not even load what is for other environments.
        let is_loaded = entry.other_environments(config).is_none();
        let mut key_fields = is_loaded.then(|| KeyFields::take(&mut entry, is_reserved));
        match self.take_target(&mut entry, config) {
            Ok(()) => {
                entry.report_rest();
                key_fields
                    .iter_mut()
                    .for_each(|fields| fields.is_made = true);
            }
            Err(lost) => {
                // What was found about its parts does not count any more.
                findings.truncate(findings_before);
                self.leave_out(&lost, &entry, &places, key_fields.as_ref());
            }
        }
        findings.set_entry("");
        self.key_fields.extend(key_fields);
    }

    /// Makes the target of an entry, with its account and its model.
    fn take_target(
        &mut self,
        entry: &mut Entry<'a>,
        config: &MergedConfig<'a>,
    ) -> Result<(), Lost> {
        let kind = check_entry(entry, config)?;
        let name = entry.name.clone();
        let findings = name.findings;
        let id = name.text().unwrap_or_default();
        // The findings about the account, which are moved to it when it has its name.
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
        if let Some(mode) = entry.info.remove("mode") {
            mode.report_exact();
        }
        let target = TargetDraft {
            account,
            model,
            price: read_price(entry).or(listed),
            shares: ["weight", "rpm", "tpm"].map(|share| entry.params.remove(share)),
            order: entry.take("order"),
            access: take_access_groups(entry),
        };
        if let Some(model) = self.model_or_new(id, &name) {
            model.kind = model.kind.or(kind);
            model.read_defaults(entry);
            model.add_target(target, &entry.spot);
        }
        Ok(())
    }

    /// Adds an account, unless there is an equal one. Returns its name.
    fn add_account(&mut self, mut draft: Draft, entry: &Spot<'_>) -> String {
        let identity = format!(
            "{} {:?} {:?}",
            draft.wanted_name, draft.fields, draft.literals
        );
        if let Some(name) = self.shared.get(&identity).filter(|_| !draft.is_unshared) {
            return name.clone();
        }
        let wanted_name = entry_name(&draft.wanted_name, 50);
        let wanted_name = wanted_name.unwrap_or_else(|| "account".to_owned());
        let name = self.used_names.assign(&wanted_name);
        if !draft.is_unshared {
            self.shared.insert(identity, name.clone());
        }
        for (_, value) in &mut draft.fields.0 {
            name_files(value, &name, &mut self.secrets);
        }
        self.accounts.push(EntryOut {
            name: name.clone(),
            source_place: format_entry_place(entry),
            fields: draft.fields,
            below: None,
        });
        name
    }

    /// Returns the model of this id, which is made if it is new. `spot` is where the id is written.
    fn model_or_new(&mut self, id: &str, spot: &Spot<'a>) -> Option<&mut ModelDraft<'a>> {
        if !self.has_model(id) {
            self.by_name.insert(id.to_owned(), self.models.len());
            self.models.push(ModelDraft {
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
        self.find_model_mut(id)
    }

    /// Reports why an entry is left out, and each of its places. Notes that its names answer to
    /// nothing.
    fn leave_out(
        &mut self,
        lost: &Finding,
        entry: &Entry<'a>,
        places: &[Spot<'a>],
        key_fields: Option<&KeyFields<'a>>,
    ) {
        let groups = entry.info.get("access_groups").map(Spot::texts);
        let name = entry.name.text().map(str::to_owned);
        let names = groups.into_iter().flatten().chain(name);
        self.missing.add(names, lost.unset.as_ref());
        entry.spot.findings.add(lost.clone());
        // The fields that limit keys are reported when all models are known.
        let reported_later = key_fields.into_iter().flat_map(KeyFields::paths);
        let reported: BTreeSet<&str> = reported_later.chain([&*lost.path]).collect();
        for spot in places.iter().filter(|spot| !reported.contains(&*spot.path)) {
            spot.report_unsupported(LEFT_OUT);
        }
    }

    /// Gives the fields that limit keys to the models that answer to the names of their entries.
    /// Called once, when all models and aliases are known.
    pub(super) fn add_key_limits(&mut self) {
        for key_fields in std::mem::take(&mut self.key_fields) {
            for index in self.models_answering(key_fields.name) {
                if let Some(model) = self.models.get_mut(index) {
                    key_fields.reserve(&model.name, &mut model.key_limits);
                }
            }
            for (field, spot, names) in key_fields.fields() {
                let names = names.into_iter();
                let answering: BTreeSet<usize> =
                    names.flat_map(|name| self.models_answering(name)).collect();
                if answering.is_empty() {
                    spot.report_unsupported(LEFT_OUT);
                }
                for index in answering {
                    if let Some(model) = self.models.get_mut(index) {
                        spot.findings.set_entry(model.path());
                        key_fields.add(field, spot, &mut model.key_limits);
                        spot.findings.set_entry("");
                    }
                }
            }
        }
    }

    /// Returns the indexes of the models that answer to a name: the one with this name or alias, or
    /// else all patterns that match.
    fn models_answering(&self, name: &str) -> Vec<usize> {
        let has_alias = |model: &ModelDraft<'_>| model.aliases.iter().any(|alias| alias == name);
        let by_name = self.by_name.get(name).copied();
        if let Some(index) = by_name.or_else(|| self.models.iter().position(has_alias)) {
            return vec![index];
        }
        let models = self.models.iter().enumerate();
        let patterns = models.filter(|(_, model)| glob_matches(&model.name, name));
        patterns.map(|(index, _)| index).collect()
    }

    /// Returns whether a model of this id was made.
    pub(super) fn has_model(&self, id: &str) -> bool {
        self.by_name.contains_key(id)
    }

    /// Returns the model of this id.
    pub(super) fn find_model(&self, id: &str) -> Option<&ModelDraft<'a>> {
        self.models.get(*self.by_name.get(id)?)
    }

    /// Returns the model of this id, to be changed.
    pub(super) fn find_model_mut(&mut self, id: &str) -> Option<&mut ModelDraft<'a>> {
        self.models.get_mut(*self.by_name.get(id)?)
    }
}

impl<'a> ModelDraft<'a> {
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

    /// Adds a target. If there is one with the same account and model, the two become one.
    fn add_target(&mut self, target: TargetDraft<'a>, entry: &Spot<'_>) {
        let mut targets = self.targets.iter_mut();
        let existing =
            targets.find(|other| other.account == target.account && other.model == target.model);
        let Some(existing) = existing else {
            self.targets.push(target);
            return;
        };
        entry.report_approximate(
            "has the same account and model as an entry before it: they are one target",
        );
        for spot in target.shares.iter().flatten().chain(&target.order) {
            spot.report_approximate(LEFT_OUT);
        }
        existing.access.extend(target.access);
    }
}

/// Checks all of an entry but its account, and returns the kind of its model, if it names one.
fn check_entry(entry: &Entry<'_>, config: &MergedConfig<'_>) -> Result<Option<ModelKind>, Lost> {
    let name = &entry.name;
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
    let Some(mode) = entry.info.get("mode") else {
        return Ok(None);
    };
    let kind = mode.text().and_then(model_kind);
    if kind.is_none() {
        let why = "Portcullis has no endpoint of this kind";
        return Err(mode.lost(Grade::Unsupported, why));
    }
    Ok(kind)
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

/// Drafts the account of an entry. Returns it with the account's name for the model.
fn draft_account<'a>(
    entry: &mut Entry<'a>,
    config: &MergedConfig<'a>,
) -> Result<(Draft, String), Lost> {
    const MAX_LENGTH: usize = 512;
    if let Some(spot) = entry.params.remove("mock_response") {
        spot.report_approximate("the demo account answers, with a text of its own");
        let mut draft = Draft {
            wanted_name: "demo".to_owned(),
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
    if let Some(name) = provided.guessed {
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
    // Of these dialects Portcullis cannot ask for a list.
    let lists_models = !matches!(dialect, Some("azure" | "vertex" | "bedrock" | "demo"));
    match (id.contains('*'), model.matches('*').count()) {
        (false, 0) => None,
        (true, 1) if lists_models => None,
        (true, 1) => Some("this provider does not list its models: write each by its name"),
        (true, _) => Some("a pattern must have one `*` in `model_name` and one in `model`"),
        (false, _) => Some("`model` is a pattern and the id is none"),
    }
}
