//! Virtual keys: each becomes a key with the same hash, at the caller that its team or its user
//! becomes.

use dialects::wire::shorten_text;
use std::collections::{BTreeSet, HashMap};

use super::access::{Allowed, Known, Usable};
use super::limits::Limits;
use super::names::{UsedNames, entry_name};
use super::node::Spot;
use super::rows::{RowId, Rows, read_hash};
use super::rules::{Section, Whose};
use super::settings::Common;
use crate::write::{EntryOut, Fields, write_file};
use crate::{Bound, Imported, Inputs, Spent, Stopped};
use portcullis::base::calendar::format_time;
use portcullis::base::problem::quote_safely;
use portcullis::catalog::raw::Digest;
use portcullis::catalog::resolve::sha256_of;
use portcullis::conf::price::Usd;
use portcullis::conf::yaml::edit::NewValue;

/// A caller while its keys come in.
#[derive(Default)]
struct CallerDraft<'k> {
    name: String,
    /// Its team or its user.
    row: Option<Spot<'k>>,
    is_blocked: bool,
    models: Allowed,
    limits: Limits,
    keys: Vec<EntryOut>,
    /// The money that its keys have spent, each with the time for which it counts.
    spent: Vec<(u64, Usd)>,
    used_names: UsedNames,
    /// True if a key of it may use a model without a price.
    has_unpriced: bool,
}

/// A key while it is read.
struct KeyDraft<'k> {
    row: Spot<'k>,
    models: Allowed,
    usable: Usable,
    /// The first model without a price that it may use.
    unpriced: Option<&'k str>,
    limits: Limits,
}

/// The data that all keys share.
struct Importer<'k, 'a> {
    rows: &'k Rows<'k>,
    known: Known<'k, 'a>,
    /// The models and patterns without a price.
    unpriced: BTreeSet<&'k str>,
    /// The first model without a price that keys may use, by the models of their caller and their
    /// own: many keys have the same.
    first_unpriced: HashMap<[Allowed; 2], Option<&'k str>>,
    common: &'k Common,
    inputs: &'k Inputs<'k>,
    /// The callers by their teams or users, and the one of keys that have neither.
    callers: HashMap<Option<RowId<'k>>, CallerDraft<'k>>,
    /// The teams and users of the callers, in the order in which they are met.
    owners: Vec<Option<RowId<'k>>>,
    used_names: UsedNames,
}

/// Writes the file of the keys.
pub(super) fn import_keys(
    rows: &Rows<'_>,
    known: Known<'_, '_>,
    common: &Common,
    inputs: &Inputs<'_>,
    imported: &mut Imported,
) -> String {
    let mut importer = Importer {
        rows,
        unpriced: known.unpriced(),
        first_unpriced: HashMap::new(),
        known,
        common,
        inputs,
        callers: HashMap::new(),
        owners: Vec::new(),
        used_names: UsedNames::default(),
    };
    for (id, _) in rows.iter() {
        if matches!(id, RowId::Team(_)) {
            let team = importer.take_caller(Some(id));
            importer.callers.insert(Some(id), team);
        }
    }
    for (id, row) in rows.iter() {
        if matches!(id, RowId::Key(_)) {
            importer.take_key(row, imported);
        }
    }
    let found = imported.keys.0;
    if let Some(total) = &rows.total
        && let Some(count) = total.whole().filter(|count| *count > found as u64)
    {
        total.report_manual(format!(
            "the answers count {count} keys, and {found} are in the files: save all pages"
        ));
    }
    let callers = importer.finish(&mut imported.spent);
    rows.summarize_fields(inputs.spent_at.is_some());
    let begins = match inputs.spent_at {
        Some(_) => "What was spent from `max_budget` is in the ledger that the import made.",
        None => {
            "Budgets begin at zero: what was spent in LiteLLM is not known to Portcullis' ledger."
        }
    };
    let head = format!(
        "Keys from LiteLLM, with their hashes, so that no key changes. `portcullis key` changes them here.\n{begins}"
    );
    write_file(&head, &[("callers", &callers)], &rows.findings.list())
}

/// Returns the team that a key belongs to, or else the user.
fn key_owner<'k>(row: &Spot<'k>) -> Option<RowId<'k>> {
    let user = || row.get_text("user_id").map(RowId::User);
    row.get_text("team_id").map(RowId::Team).or_else(user)
}

impl<'k> Importer<'k, '_> {
    /// Takes the caller of an owner out of all, or makes it.
    fn take_caller(&mut self, owner: Option<RowId<'k>>) -> CallerDraft<'k> {
        const NO_TEAM: &str = "names a team that is not in the files: save /team/list";
        if let Some(caller) = self.callers.remove(&owner) {
            return caller;
        }
        self.owners.push(owner);
        let row = owner.and_then(|id| self.rows.get(id));
        let (alias, id, kind) = match owner {
            Some(RowId::Team(id)) => ("team_alias", id, "team"),
            Some(RowId::User(id)) => ("user_alias", id, "user"),
            _ => ("", "litellm", "user"),
        };
        let alias = row.as_ref().and_then(|row| row.get_text(alias));
        let mut names = [alias, Some(id)].into_iter().flatten();
        let wanted_name = names.find_map(|name| entry_name(name, 50));
        let digest = || Digest(sha256_of(id)).to_string();
        let wanted_name =
            wanted_name.unwrap_or_else(|| format!("{kind}-{}", first_digits(&digest())));
        let mut caller = CallerDraft {
            name: self.used_names.assign(&wanted_name),
            ..CallerDraft::default()
        };
        let bounds = &mut caller.limits.bounds;
        match (&row, owner) {
            (Some(row), _) => self.read_owner(row, kind == "user", &mut caller),
            (None, Some(RowId::Team(_))) => {
                bounds.add(Bound::with_reason("team_id", "teams", NO_TEAM));
            }
            (None, Some(_)) => bounds.add(self.rows.missing_user()),
            (None, None) => {}
        }
        CallerDraft { row, ..caller }
    }

    /// Reads the row of a team or a user.
    fn read_owner(&self, row: &Spot<'k>, is_user: bool, caller: &mut CallerDraft<'k>) {
        const OF_MODELS: &str =
            "or another limit of models is at its team or user, and callers have none";
        row.findings.set_entry(format!("callers.{}", caller.name));
        (caller.limits, caller.models) = self.read_row(row, None, is_user);
        caller
            .limits
            .bounds
            .add_row(Section::TeamOrUserRow, row, "");
        caller.is_blocked = is_blocked(row);
        // Callers have no limits of single models.
        if caller.limits.has_limits_of_models() {
            let word = if is_user { "users" } else { "teams" };
            let bound = Bound::with_reason("model_max_budget", word, OF_MODELS);
            caller.limits.bounds.add(bound);
        }
        row.findings.set_entry("");
    }

    /// Takes one key.
    fn take_key(&mut self, row: Spot<'k>, imported: &mut Imported) {
        const UNUSED_LIMITS: &str =
            "limits of models that are not here are left out: the key cannot use those models";
        const NO_BUDGET: &str = "names a budget that is not in the files: save /budget/list too";
        imported.keys.0 += 1;
        let Some(hash) = row.get_text("token").and_then(hash_of) else {
            row.report_manual("is no hash of a key: the key is left out");
            return;
        };
        let owner = key_owner(&row);
        let mut caller = self.take_caller(owner);
        let findings = row.findings;
        let alias = row
            .get_text("key_alias")
            .and_then(|alias| entry_name(alias, 50));
        let wanted_name = alias.unwrap_or_else(|| format!("key-{}", first_digits(&hash)));
        let name = caller.used_names.assign(&wanted_name);
        let path = format!("callers.{}.keys.{name}", caller.name);
        let of_caller = caller.models.clone();
        findings.set_entry(&*path);
        for field in ["token", "key_alias", "team_id", "user_id"] {
            row.filled(field).iter().for_each(Spot::report_exact);
        }
        let budget = self.rows.budget_of(&row);
        let (mut limits, models) = self.read_row(&row, budget.as_ref(), false);
        limits.bounds.add_row(Section::KeyRow, &row, "");
        if budget.is_none() && row.filled("budget_id").is_some() {
            limits
                .bounds
                .add(Bound::with_reason("budget_id", "budgets", NO_BUDGET));
        }
        if let Some(RowId::Team(team)) = owner {
            findings.set_entry("");
            let is_for_teams = self.common.is_user_budget_for_teams;
            self.rows
                .bind_member(&row, team, is_for_teams, &mut limits.bounds);
            findings.set_entry(&*path);
        }
        let is_off = is_blocked(&row);
        let usable = Usable::new(&of_caller, &models);
        limits.add_model_limits(&self.known, &usable);
        if limits.assign_to_models(&self.known, &usable) {
            row.report_approximate(UNUSED_LIMITS);
        }
        let mut key = KeyDraft {
            unpriced: self.find_unpriced([of_caller, models.clone()], &usable),
            row,
            models,
            usable,
            limits,
        };
        self.bind_by_price(&mut key, &mut caller);
        let bounds = self.bounds_left(&key, &caller);
        let fields = self.write_key(&key, hash, &bounds, is_off);
        let is_on = bounds.is_empty() && !is_off && !caller.is_blocked;
        imported.keys.1 += usize::from(is_on);
        let key_name = format!("{}/{name}", caller.name);
        imported
            .stopped
            .extend(bounds.into_iter().map(|bound| Stopped {
                key: key_name.clone(),
                bound,
            }));
        if let Some(spent) = key.limits.take_spent(&key.row) {
            caller.spent.push((spent.counted_at, spent.usd));
            imported.spent.push(Spent {
                caller: caller.name.clone(),
                key: name.clone(),
                ..spent
            });
        }
        caller.keys.push(EntryOut {
            name,
            source_place: key.row.format_place(),
            fields,
            ..EntryOut::default()
        });
        self.callers.insert(owner, caller);
        findings.set_entry("");
    }

    /// Returns the first model without a price that a key may use.
    fn find_unpriced(&mut self, allowed: [Allowed; 2], usable: &Usable) -> Option<&'k str> {
        let unpriced = &self.unpriced;
        let first = self.first_unpriced.entry(allowed).or_insert_with(|| {
            let mut models = unpriced.iter().filter(|id| !id.contains('*'));
            models.find(|id| usable.has(id)).copied()
        });
        *first
    }

    /// Reads the limits of a row, and the models that it names.
    fn read_row(
        &self,
        row: &Spot<'k>,
        budget: Option<&Spot<'k>>,
        is_user: bool,
    ) -> (Limits, Allowed) {
        let mut limits = Limits::read(row, budget, self.inputs.spent_at);
        if let Some(budget) = budget {
            let bounds = &mut limits.bounds;
            bounds.add_row(Section::Budget, budget, "litellm_budget_table");
        }
        let models = self.known.allowed_models(row, is_user, &mut limits.bounds);
        (limits, models)
    }

    /// Writes the fields of a key.
    fn write_key(
        &self,
        key: &KeyDraft<'_>,
        hash: String,
        bounds: &[Bound],
        is_off: bool,
    ) -> Fields {
        let mut fields = Fields::default();
        fields.set("hash", hash);
        if let Some(spot) = key.row.filled("expires")
            && let Some(seconds) = spot.time()
        {
            fields.set("expires", format_time(seconds.saturating_mul(1000)));
            spot.report_exact();
        }
        if !bounds.is_empty() {
            let names: BTreeSet<&str> = bounds.iter().map(|bound| &*bound.field).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            let whys: Vec<&str> = bounds.iter().map(|bound| &*bound.why).collect();
            key.row
                .report_unsupported(format!("is switched off: {}", whys.join("; ")));
            fields.set("enabled", NewValue::Bool(false).noted(names));
        } else if is_off {
            fields.set("enabled", false);
        }
        fields.set_some("models", key.models.as_deref());
        fields.set_some("limits", key.limits.own.value());
        fields.set_some("model_limits", key.limits.models_value());
        fields.set_list("allow_ips", &self.common.addresses);
        fields
    }

    /// Money cannot be counted where a price is unknown: a key with a budget is bound, or its
    /// budget is dropped.
    fn bind_by_price(&self, key: &mut KeyDraft<'_>, caller: &mut CallerDraft<'_>) {
        let lacking = key.unpriced;
        let of_key = lacking.is_some() && key.limits.own.has_money();
        let of_models = key
            .limits
            .money_models()
            .flat_map(|model| self.known.with_fallbacks(model))
            .any(|id| self.unpriced.contains(id) && key.usable.has(id));
        let of_caller = lacking.is_some() && caller.limits.own.has_money();
        if !of_key && !of_models && !of_caller {
            return;
        }
        let model = lacking.map(quote_safely).unwrap_or_default();
        let why = format!(
            "of a model that it may use is unknown ({model}), and it has a budget: write `price` at the model"
        );
        let bound = Bound::with_reason("price", "prices", &why);
        if !is_loosened(&bound, &self.inputs.loosened) {
            key.limits.bounds.add(bound);
            return;
        }
        if of_key || of_models {
            key.limits.drop_money();
        }
        caller.has_unpriced |= of_caller;
    }

    /// Returns what bounds a key and is not loosened: of the file, of its caller, and its own.
    fn bounds_left(&self, key: &KeyDraft<'_>, caller: &CallerDraft<'_>) -> Vec<Bound> {
        let mut patterns = self.unpriced.iter().filter(|id| id.contains('*'));
        let is_unpriced = key.unpriced.is_some() || patterns.any(|id| key.usable.may_have(id));
        let limits = [&caller.limits, &key.limits];
        let has_budget = limits.iter().any(|limits| limits.own.has_money())
            || key.limits.money_models().next().is_some();
        let metadata = key.row.get("metadata");
        let is_service = metadata.is_some_and(|data| data.get("service_account_id").is_some());
        let of_file = self.common.bounds.iter().filter(|(whose, _)| match whose {
            Whose::All => true,
            Whose::WithoutTeam => key.row.get_text("team_id").is_none(),
            Whose::ServiceAccount => is_service,
            Whose::WithoutPrice => is_unpriced,
            Whose::WithBudget => has_budget,
            Whose::OfKind(kind) => self.known.may_use(*kind, &key.usable),
        });
        let of_file = of_file.map(|(_, bound)| bound);
        let of_rows = limits.into_iter().flat_map(|limits| limits.bounds.iter());
        let all = of_file.chain(of_rows);
        all.filter(|bound| !is_loosened(bound, &self.inputs.loosened))
            .cloned()
            .collect()
    }

    /// Writes all callers.
    fn finish(mut self, spent: &mut Vec<Spent>) -> Vec<EntryOut> {
        let mut entries = Vec::new();
        let owners = self.owners.iter();
        for mut caller in owners.filter_map(|owner| self.callers.remove(owner)) {
            if caller.has_unpriced {
                caller.limits.drop_money();
            }
            caller.add_spent(spent);
            let mut fields = Fields::default();
            fields.set_some("enabled", caller.is_blocked.then_some(false));
            fields.set_some("models", caller.models.as_deref());
            fields.set_some("limits", caller.limits.own.value());
            entries.push(EntryOut {
                name: caller.name,
                source_place: caller
                    .row
                    .as_ref()
                    .map(Spot::format_place)
                    .unwrap_or_default(),
                fields,
                below: Some(caller.keys),
            });
        }
        entries
    }
}

impl CallerDraft<'_> {
    /// Adds what was spent. What is counted for its keys counts for the caller, too.
    fn add_spent(&mut self, spent: &mut Vec<Spent>) {
        let row = self.row.as_ref();
        let Some(all) = row.and_then(|row| self.limits.take_spent(row)) else {
            return;
        };
        let keys = self.spent.iter();
        let keys = keys.filter(|(since, _)| *since >= all.counted_at);
        let rest = keys.fold(all.usd.0, |rest, (_, usd)| rest.saturating_sub(usd.0));
        if rest > 0 {
            spent.push(Spent {
                caller: self.name.clone(),
                usd: Usd(rest),
                ..all
            });
        }
    }
}

fn is_loosened(bound: &Bound, names: &[String]) -> bool {
    let is_named = |name: &String| *name == bound.field || Some(name.as_str()) == bound.word;
    bound.word.is_some() && names.iter().any(is_named)
}

fn first_digits(hash: &str) -> String {
    shorten_text(hash.trim_start_matches("sha256:"), 8)
}

/// Reads whether a key or its owner is blocked.
fn is_blocked(row: &Spot<'_>) -> bool {
    let spot = row.filled("blocked");
    spot.iter().for_each(Spot::report_exact);
    spot.and_then(|spot| spot.flag()) == Some(true)
}

/// Reads the hash of a key. A key that stands there itself, as in old databases, is hashed.
fn hash_of(token: &str) -> Option<String> {
    let is_key = token.starts_with("sk-");
    let digest = || is_key.then(|| Digest(sha256_of(token)));
    read_hash(token)
        .or_else(digest)
        .map(|digest| digest.to_string())
}
