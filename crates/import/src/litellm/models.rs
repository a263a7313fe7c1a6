//! `model_list`: each entry becomes a target of the model that it names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::account;
use super::draft::{self, Draft, SECRET_FILE};
use super::listed;
use super::missing::Missing;
use super::model_info::{
    kind_of, of_info, other_environments, reservation_finding, take_access_groups,
};
use super::names::{Taken, entry_name, pattern_serves};
use super::node::Spot;
use super::params::{Params, World};
use super::price;
use super::provider::{ProviderOf, ProviderRow, of_model};
use super::terms::{OfKeys, Terms};
use crate::notes::{Finding, Grade, LEFT_OUT, format_place};
use crate::write::EntryOut;
use portcullis::base::problem::unless_secret;
use portcullis::catalog::name;
use portcullis::conf::yaml::edit::New;

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
    pub(super) kind: Option<&'static str>,
    /// The limits of the keys that may use it.
    pub(super) of_keys: OfKeys,
}

/// A target, with the fields that decide its share.
pub(super) struct TargetDraft<'a> {
    pub(super) account: String,
    pub(super) model: String,
    pub(super) price: Option<New>,
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
    known: HashMap<String, Vec<(Vec<String>, String)>>,
    taken: Taken,
    by_name: HashMap<String, usize>,
}

impl<'a> Made<'a> {
    /// Takes one entry of `model_list`.
    pub(super) fn take_entry(
        &mut self,
        spot: &Spot<'a>,
        world: &World<'a>,
        findings: &mut Vec<Finding>,
    ) {
        let mut lost = Vec::new();
        let (mut info, mut params, mut name) = (None, None, None);
        for (key, value) in spot.entries() {
            match key {
                "model_name" => name = Some(value),
                "litellm_params" if value.is_map() => params = Some(value),
                "model_info" if value.is_map() => info = Some(value),
                _ => findings.push(value.finding(
                    Grade::Unsupported,
                    "",
                    "LiteLLM does not read this here, and it is left out",
                )),
            }
        }
        let mut info: BTreeMap<&str, Spot<'a>> = info.iter().flat_map(Spot::entries).collect();
        let (Some(name), Some(params)) = (name, params) else {
            const MESSAGE: &str =
                "has no `model_name` or no `litellm_params`: the entry is left out";
            findings.push(spot.finding(Grade::Unsupported, "", MESSAGE));
            findings.extend(
                info.values()
                    .map(|spot| spot.finding(Grade::Unsupported, "", LEFT_OUT)),
            );
            return;
        };
        // If the entry is left out, each of its places is reported all the same.
        let places: Vec<Spot<'_>> = params
            .entries()
            .into_iter()
            .map(|(_, spot)| spot)
            .chain(info.values().cloned())
            .collect();
        let mut of_credential = Vec::new();
        let mut params = Params::read(params, world, &mut of_credential);
        self.has_tags |= ["tags", "tag_regex"].iter().any(|key| params.has(key));
        // LiteLLM does not even load what is for other environments.
        let is_loaded = other_environments(&info, world).is_none();
        let is_reserved = reservation_finding(&info, world).is_some();
        let mut terms = is_loaded.then(|| Terms::take(&name, &mut params, &mut info));
        let made = self.target(
            &name,
            (&mut params, &mut info),
            world,
            (findings, &mut lost),
        );
        let became = made.clone().unwrap_or_default();
        match made {
            Some(_) => {
                findings.append(&mut of_credential);
                findings.extend(
                    params
                        .rest()
                        .map(|(key, spot)| unknown_parameter(key, &spot, &became)),
                );
                for (key, spot) in info {
                    findings.push(spot.finding(Grade::Unsupported, &became, of_info(key)));
                }
            }
            None => {
                let reported: HashSet<String> =
                    lost.iter().map(|finding| finding.path.clone()).collect();
                let is_kept =
                    |spot: &Spot<'_>| terms.as_ref().is_some_and(|terms| terms.has(&spot.path));
                let rest = places
                    .iter()
                    .chain([&name])
                    .filter(|spot| !reported.contains(&spot.path) && !is_kept(spot));
                lost.extend(rest.map(|spot| spot.finding(Grade::Unsupported, "", LEFT_OUT)));
                let groups = info.get("access_groups").into_iter().flat_map(Spot::items);
                let names = groups
                    .chain([name.clone()])
                    .filter_map(|spot| spot.text().map(str::to_owned));
                self.missing
                    .add(names, lost.iter().find_map(|finding| finding.unset.clone()));
                findings.append(&mut lost);
            }
        }
        if let Some(terms) = &mut terms {
            terms.is_made = !became.is_empty();
            terms.is_reserved = is_reserved;
        }
        self.terms.extend(terms);
    }

    /// Puts the fields of entries that limit keys at the models that answer to their names. All
    /// models and aliases must be known.
    pub(super) fn settle(&mut self, findings: &mut Vec<Finding>) {
        for terms in std::mem::take(&mut self.terms) {
            for index in self.reached(terms.name) {
                let Some(group) = self.groups.get_mut(index) else {
                    continue;
                };
                terms.reserve(&group.name, &mut group.of_keys);
            }
            for (field, spot, names) in terms.fields() {
                let reached: BTreeSet<usize> = names
                    .into_iter()
                    .flat_map(|name| self.reached(name))
                    .collect();
                if reached.is_empty() {
                    findings.push(spot.finding(Grade::Unsupported, "", LEFT_OUT));
                }
                for index in reached {
                    let Some(group) = self.groups.get_mut(index) else {
                        continue;
                    };
                    let became = format!("models.{}", group.name);
                    findings.push(terms.add((field, spot), &became, &mut group.of_keys));
                }
            }
        }
    }

    /// Returns the models that answer to a name: one of this name or alias, else patterns.
    fn reached(&self, name: &str) -> Vec<usize> {
        let all = || self.groups.iter().enumerate();
        let is_alias = |group: &GroupDraft<'_>| group.aliases.iter().any(|alias| alias == name);
        let one = self.by_name.get(name).copied();
        match one.or_else(|| {
            all()
                .find(|(_, group)| is_alias(group))
                .map(|(index, _)| index)
        }) {
            Some(index) => vec![index],
            None => all()
                .filter(|(_, group)| pattern_serves(&group.name, name))
                .map(|(index, _)| index)
                .collect(),
        }
    }

    /// Makes the target. Returns the path of its model, or `None` if the entry is left out.
    fn target(
        &mut self,
        name: &Spot<'a>,
        (params, info): (&mut Params<'a>, &mut BTreeMap<&str, Spot<'a>>),
        world: &World<'a>,
        (findings, lost): (&mut Vec<Finding>, &mut Vec<Finding>),
    ) -> Option<String> {
        let id = name.text().unwrap_or_default();
        let is_pattern = name::of_pattern(id).is_ok();
        if (!is_pattern && name::of_model(id).is_err()) || unless_secret(id) != id {
            let why = name::of_model(id).err().unwrap_or("it may be a secret");
            lost.push(name.finding(
                Grade::Manual,
                "",
                format!("cannot be an id here: {why}. The entry is left out"),
            ));
            return None;
        }
        if world.aliases.contains(id) {
            const MESSAGE: &str =
                "LiteLLM takes the alias of this name (`model_group_alias`): the entry is left out";
            lost.push(name.finding(Grade::Unsupported, "", MESSAGE));
            return None;
        }
        if let Some(finding) = reservation_finding(info, world) {
            lost.push(finding);
            return None;
        }
        let kind = match info
            .remove("mode")
            .map(|spot| (kind_of(spot.text().unwrap_or_default()), spot))
        {
            None => None,
            Some((Some(kind), spot)) => Some((kind, spot)),
            Some((None, spot)) => {
                lost.push(spot.finding(
                    Grade::Unsupported,
                    "",
                    "Portcullis has no endpoint of this kind: the entry is left out",
                ));
                return None;
            }
        };
        let became = format!("models.{id}");
        let (draft, model) = self.draft(name, params, world, lost)?;
        if let Some(why) = pattern_mismatch(id, &model, &draft) {
            lost.push(name.finding(Grade::Manual, "", why));
            return None;
        }
        let base_model = params
            .take("base_model")
            .or_else(|| info.remove("base_model"));
        let in_list = listed::list_price(
            &draft,
            &model,
            (name, base_model.as_ref()),
            &became,
            findings,
        );
        let account = self.account(draft, name, findings);
        findings.push(name.finding(Grade::Exact, &became, ""));
        findings.extend(
            kind.iter()
                .map(|(_, spot)| spot.finding(Grade::Exact, &became, "")),
        );
        let price = {
            let mut take = |field: &str| {
                let of_info = info.remove(field);
                params.take(field).or(of_info)
            };
            price::read_price(&mut take, &became, findings).or(in_list)
        };
        let shares = ["weight", "rpm", "tpm"].map(|share| params.take(share));
        let order = params.take("order").or_else(|| info.remove("order"));
        let access = take_access_groups(info, &became, findings);
        let group = self.group(id, name)?;
        group.kind = group.kind.or(kind.map(|(kind, _)| kind));
        if let Some(spot) = params.take("max_tokens") {
            let limit = spot
                .amount()
                .and_then(crate::amount::Amount::whole)
                .filter(|limit| (1..=u64::from(u32::MAX)).contains(limit));
            let (grade, message) = match (limit, group.max_tokens) {
                (None, _) => (
                    Grade::Manual,
                    "must be a whole number: write `defaults.max_tokens` by hand",
                ),
                (Some(limit), Some(first)) if first != limit => (
                    Grade::Approximate,
                    "another entry of this model has another value, which counts",
                ),
                (Some(_), Some(_)) => (Grade::Exact, ""),
                (Some(limit), None) => {
                    group.max_tokens = Some(limit);
                    (Grade::Exact, "")
                }
            };
            findings.push(spot.finding(grade, &became, message));
        }
        if let Some(spot) = params.take("drop_params") {
            let (grade, message) = match spot.flag() {
                Some(drop) => {
                    group.on_loss = Some(if drop { "drop" } else { "refuse" });
                    (Grade::Exact, "")
                }
                None => (
                    Grade::Manual,
                    "must be true or false: write `on_loss` by hand",
                ),
            };
            findings.push(spot.finding(grade, &became, message));
        }
        let known = group
            .targets
            .iter_mut()
            .find(|target| target.account == account && target.model == model);
        if let Some(known) = known {
            const MESSAGE: &str =
                "has the same account and model as an entry before it: they are one target";
            findings.push(params.spot.finding(Grade::Approximate, &became, MESSAGE));
            let left = shares.iter().flatten().chain(&order);
            findings.extend(left.map(|spot| {
                spot.finding(Grade::Approximate, &became, "is left out with its entry")
            }));
            known.access.extend(access);
        } else {
            group.targets.push(TargetDraft {
                account,
                model,
                price,
                shares,
                order,
                access,
            });
        }
        Some(became)
    }

    /// Makes the account of an entry, and finds the account's name for the model.
    fn draft(
        &self,
        name: &Spot<'a>,
        params: &mut Params<'a>,
        world: &World<'a>,
        lost: &mut Vec<Finding>,
    ) -> Option<(Draft, String)> {
        if let Some(spot) = params.take("mock_response") {
            let fields = vec![("dialect", New::text("demo"))];
            let message = "the demo account answers, with a text of its own";
            let findings = vec![spot.finding(Grade::Approximate, "", message)];
            let draft = Draft {
                wish: "demo".to_owned(),
                fields,
                literals: Vec::new(),
                is_own: false,
                findings,
            };
            return Some((draft, name.text().unwrap_or_default().to_owned()));
        }
        let Some(model_at) = params.take("model") else {
            lost.push(params.spot.finding(
                Grade::Manual,
                "",
                "names no `model`: the entry is left out",
            ));
            return None;
        };
        let custom = params.take("custom_llm_provider");
        let written = match world.plain(&model_at) {
            Ok(written) if unless_secret(&written) == written && written.len() <= 512 => written,
            Ok(_) => {
                lost.push(model_at.finding(
                    Grade::Manual,
                    "",
                    "is no name of a model: the entry is left out",
                ));
                return None;
            }
            Err(unread) => {
                lost.push(unread.leaves_out(&model_at));
                return None;
            }
        };
        let (row, model, guessed): (&'static ProviderRow, String, bool) =
            match of_model(&written, custom.as_ref().and_then(Spot::text)) {
                ProviderOf::Known {
                    row,
                    model,
                    guessed,
                } => (row, model.to_owned(), guessed),
                ProviderOf::Other(why) => {
                    lost.push(model_at.finding(Grade::Unsupported, "", why));
                    return None;
                }
            };
        let mut draft = account::draft_account(row, name, params, world, lost)?;
        let message = format!(
            "the name says no provider: `{}`, as LiteLLM knows it",
            row.name
        );
        let grade = if guessed {
            Grade::Approximate
        } else {
            Grade::Exact
        };
        draft.findings.push(model_at.finding(
            grade,
            "",
            if guessed { message.as_str() } else { "" },
        ));
        draft
            .findings
            .extend(custom.iter().map(|spot| spot.finding(Grade::Exact, "", "")));
        Some((draft, model))
    }

    /// Returns the name of the account: of an equal one, or of a new one.
    fn account(
        &mut self,
        mut draft: Draft,
        entry: &Spot<'_>,
        findings: &mut Vec<Finding>,
    ) -> String {
        let same = (!draft.is_own).then(|| {
            let list = self.known.get(&account_identity(&draft))?;
            list.iter()
                .find(|(literals, _)| *literals == draft.literals)
                .map(|(_, name)| name.clone())
        });
        let found = std::mem::take(&mut draft.findings);
        let name = same.flatten().unwrap_or_else(|| {
            let wish = entry_name(&draft.wish, 50).unwrap_or_else(|| "account".to_owned());
            let name = self.taken.give(&wish);
            if !draft.is_own {
                let literals = std::mem::take(&mut draft.literals);
                self.known
                    .entry(account_identity(&draft))
                    .or_default()
                    .push((literals, name.clone()));
            }
            self.secrets
                .extend(draft::name_secrets(&mut draft.fields, &name));
            let from = place_of(entry);
            self.accounts.push(EntryOut {
                name: name.clone(),
                from,
                fields: draft.fields,
                below: None,
            });
            name
        });
        let became = format!("accounts.{name}");
        findings.extend(found.into_iter().map(|finding| Finding {
            became: became.clone(),
            ..finding
        }));
        name
    }

    fn group(&mut self, id: &str, spot: &Spot<'a>) -> Option<&mut GroupDraft<'a>> {
        let index = *self
            .by_name
            .entry(id.to_owned())
            .or_insert(self.groups.len());
        if index == self.groups.len() {
            self.groups.push(GroupDraft {
                name: id.to_owned(),
                spot: spot.clone(),
                targets: Vec::new(),
                aliases: Vec::new(),
                max_tokens: None,
                on_loss: None,
                kind: None,
                of_keys: OfKeys::default(),
            });
        }
        self.groups.get_mut(index)
    }

    /// Returns whether a model of this id was made.
    pub(super) fn has(&self, id: &str) -> bool {
        self.by_name.contains_key(id)
    }

    /// Returns the model of this id.
    pub(super) fn find(&mut self, id: &str) -> Option<&mut GroupDraft<'a>> {
        self.by_name
            .get(id)
            .and_then(|index| self.groups.get_mut(*index))
    }
}

/// Returns the place of a model's entry, from the place of its `model_name`.
pub(super) fn place_of(name: &Spot<'_>) -> String {
    format_place(
        name.file,
        name.line,
        name.path.trim_end_matches(".model_name"),
    )
}

/// Writes the fields that separate one account from another, except literal secrets.
fn account_identity(draft: &Draft) -> String {
    let fields = draft
        .fields
        .iter()
        .map(|(field, value)| format!("{field}={}", value.flow()));
    format!("{}\n{}", draft.wish, fields.collect::<Vec<_>>().join("\n")).replace(SECRET_FILE, "?")
}

/// Returns why the model's id and the account's name for it do not go together.
fn pattern_mismatch(id: &str, model: &str, draft: &Draft) -> Option<&'static str> {
    let dialect = draft.text("dialect");
    let lists = !matches!(dialect, Some("azure" | "vertex" | "bedrock" | "demo"));
    match (id.contains('*'), model.matches('*').count()) {
        (false, 0) => None,
        (true, 1) if lists => None,
        (true, 1) => Some(
            "this provider does not list its models, so each must be written by its name: the entry is left out",
        ),
        (true, _) => Some(
            "a pattern stands for the same names at the provider, with one `*` in both: write the model by hand",
        ),
        (false, _) => Some("`model` is a pattern and the id is none: the entry is left out"),
    }
}

/// Makes the finding about a parameter that no rule took.
fn unknown_parameter(key: &str, spot: &Spot<'_>, became: &str) -> Finding {
    let message = match key {
        "max_retries" | "num_retries" => {
            "Portcullis tries other targets, each once: `attempts` in server.yaml says how many"
        }
        "tags" | "tag_regex" => {
            "Portcullis does not choose targets by tags: callers of every tag reach this one"
        }
        "temperature" | "top_p" | "seed" | "stop" | "frequency_penalty" | "presence_penalty"
        | "n" | "user" => "only `max_tokens` has a default here: callers send this themselves",
        _ if key.contains("cost") => "this kind of price has no counterpart",
        _ => "has no counterpart, and is left out",
    };
    let grade = if matches!(key, "max_retries" | "num_retries") {
        Grade::Approximate
    } else {
        Grade::Unsupported
    };
    spot.finding(grade, became, message)
}
