//! Virtual keys: each becomes a key with the same hash, at the caller that its team or its user
//! becomes.

use dialects::wire::shorten_text;
use std::collections::{BTreeSet, HashMap};

use super::access::{Allowed, Known, Usable};
use super::bound::Bound;
use super::limits::{LimitRow, Limits};
use super::names::{Taken, entry_name};
use super::node::Spot;
use super::row_id::is_hash;
use super::rows::Rows;
use super::rules::{Section, Whose};
use super::settings::Common;
use crate::notes::{Finding, Findings, Grade};
use crate::write::{EntryOut, Fields, write_file};
use crate::{Imported, Inputs, Spent, Stopped};
use portcullis::base::calendar::format_time;
use portcullis::base::problem::quote_safely;
use portcullis::catalog::raw::Digest;
use portcullis::catalog::resolve::sha256_of;
use portcullis::conf::price::Usd;
use portcullis::conf::yaml::edit::New;

/// A caller while its keys come in.
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
    taken: Taken,
    /// True if a key of it may use a model without a price.
    has_unpriced: bool,
}

/// A key while it is read.
struct KeyDraft<'k> {
    row: Spot<'k>,
    owner: Owner<'k>,
    /// The index of its caller.
    caller: usize,
    models: Allowed,
    usable: Usable,
    /// The first model without a price that it may use.
    unpriced: Option<&'k str>,
    limits: Limits,
}

/// The data that all keys share.
struct Importer<'k, 'a> {
    rows: &'k Rows<'k>,
    findings: &'k Findings,
    known: Known<'k, 'a>,
    /// The models and patterns without a price.
    unpriced: BTreeSet<&'k str>,
    /// The first model without a price that keys may use, by the models of their caller and their
    /// own: many keys have the same.
    first_unpriced: HashMap<[Allowed; 2], Option<&'k str>>,
    common: &'k Common,
    inputs: &'k Inputs<'k>,
    callers: Vec<CallerDraft<'k>>,
    by_owner: HashMap<Owner<'k>, usize>,
    taken: Taken,
}

/// Writes the file of the keys.
pub(super) fn import_keys(
    rows: &Rows<'_>,
    known: Known<'_, '_>,
    common: &Common,
    inputs: &Inputs<'_>,
    findings: &Findings,
    imported: &mut Imported,
) -> String {
    let mut importer = Importer {
        rows,
        findings,
        unpriced: known.unpriced().into_iter().collect(),
        first_unpriced: HashMap::new(),
        known,
        common,
        inputs,
        callers: Vec::new(),
        by_owner: HashMap::new(),
        taken: Taken::default(),
    };
    for row in rows.teams() {
        importer.caller(Owner::from_row(&row));
    }
    for row in rows.keys() {
        importer.take_key(row, imported);
    }
    let found = imported.keys.0;
    if let Some((total, file)) = rows.total.filter(|(total, _)| *total > found as u64) {
        findings.add(Finding {
            file: file.to_owned(),
            line: None,
            path: "total_count".to_owned(),
            grade: Grade::Manual,
            message: format!(
                "the answers count {total} keys, and {found} are in the files: save all pages"
            ),
            became: String::new(),
            unset: None,
            after: None,
        });
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
    write_file(&head, &[("callers", &callers)], &findings.list())
}

/// Whom a key belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Owner<'k> {
    Team(&'k str),
    User(&'k str),
    Unowned,
}

impl<'k> Owner<'k> {
    fn from_row(row: &Spot<'k>) -> Self {
        match (row.get_text("team_id"), row.get_text("user_id")) {
            (Some(team), _) => Self::Team(team),
            (None, Some(user)) => Self::User(user),
            (None, None) => Self::Unowned,
        }
    }
}

impl<'k> Importer<'k, '_> {
    /// Returns the caller of an owner, which is made when it is first met.
    fn caller(&mut self, owner: Owner<'k>) -> usize {
        const NO_TEAM: &str = "names a team that is not in the files: save /team/list";
        if let Some(index) = self.by_owner.get(&owner) {
            return *index;
        }
        let (row, alias, id, kind) = match owner {
            Owner::Team(id) => (self.rows.team(id), "team_alias", id, "team"),
            Owner::User(id) => (self.rows.user(id), "user_alias", id, "user"),
            Owner::Unowned => (None, "", "litellm", "user"),
        };
        let alias = row.as_ref().and_then(|row| row.get_text(alias));
        let mut names = [alias, Some(id)].into_iter().flatten();
        let wish = names.find_map(|name| entry_name(name, 50));
        let digest = || Digest(sha256_of(id)).to_string();
        let wish = wish.unwrap_or_else(|| format!("{kind}-{}", first_digits(&digest())));
        let mut caller = CallerDraft {
            name: self.taken.give(&wish),
            row,
            is_blocked: false,
            models: None,
            limits: Limits::default(),
            keys: Vec::new(),
            spent: Vec::new(),
            taken: Taken::default(),
            has_unpriced: false,
        };
        match (caller.row.clone(), owner) {
            (Some(row), _) => self.read_owner(&row, owner, &mut caller),
            (None, Owner::Team(_)) => {
                caller
                    .limits
                    .bounds
                    .add(Bound::because("team_id", "teams", NO_TEAM));
            }
            (None, Owner::User(_)) => caller.limits.bounds.add(self.rows.missing_user()),
            (None, Owner::Unowned) => {}
        }
        self.callers.push(caller);
        self.by_owner.insert(owner, self.callers.len() - 1);
        self.callers.len() - 1
    }

    /// Reads the row of a team or a user.
    fn read_owner(&self, row: &Spot<'k>, owner: Owner<'k>, caller: &mut CallerDraft<'k>) {
        const OF_MODELS: &str =
            "or another limit of models is at its team or user, and callers have none";
        self.findings.set_entry(format!("callers.{}", caller.name));
        let is_user = matches!(owner, Owner::User(_));
        (caller.limits, caller.models) = self.read_row(row, None, is_user);
        caller.limits.bounds.add_row(Section::Row, row, "");
        caller.is_blocked = is_blocked(row);
        // Callers have no limits of single models.
        if caller.limits.models_value().is_some() {
            let word = if is_user { "users" } else { "teams" };
            let bound = Bound::because("model_max_budget", word, OF_MODELS);
            caller.limits.bounds.add(bound);
        }
        self.findings.set_entry("");
    }

    /// Takes one key.
    fn take_key(&mut self, row: Spot<'k>, imported: &mut Imported) {
        const LEFT_OUT: &str =
            "limits of models that are not here are left out: the key cannot use those models";
        const NO_BUDGET: &str = "names a budget that is not in the files: save /budget/list too";
        imported.keys.0 += 1;
        let Some(hash) = row.get_text("token").and_then(hash_of) else {
            row.manual("is no hash of a key: the key is left out");
            return;
        };
        let owner = Owner::from_row(&row);
        let index = self.caller(owner);
        let Some(caller) = self.callers.get_mut(index) else {
            return;
        };
        let alias = row
            .get_text("key_alias")
            .and_then(|alias| entry_name(alias, 50));
        let wish = alias.unwrap_or_else(|| format!("key-{}", first_digits(&hash)));
        let name = caller.taken.give(&wish);
        let path = format!("callers.{}.keys.{name}", caller.name);
        let of_caller = caller.models.clone();
        self.findings.set_entry(&*path);
        for field in ["token", "key_alias", "team_id", "user_id"] {
            row.filled(field).iter().for_each(Spot::exact);
        }
        let budget = self.rows.budget_of(&row);
        let (mut limits, models) = self.read_row(&row, budget.as_ref(), false);
        limits.bounds.add_row(Section::KeyRow, &row, "");
        if budget.is_none() && row.filled("budget_id").is_some() {
            limits
                .bounds
                .add(Bound::because("budget_id", "budgets", NO_BUDGET));
        }
        if let Owner::Team(team) = owner {
            self.findings.set_entry("");
            let is_for_teams = self.common.is_user_budget_for_teams;
            self.rows
                .bind_member(&row, team, is_for_teams, &mut limits.bounds);
            self.findings.set_entry(&*path);
        }
        let is_off = is_blocked(&row);
        let usable = Usable::new(&of_caller, &models);
        limits.add_groups(&self.known, &usable);
        if limits.assign_to_models(&self.known, &usable) {
            row.approximate(LEFT_OUT);
        }
        let mut key = KeyDraft {
            unpriced: self.find_unpriced([of_caller, models.clone()], &usable),
            row,
            owner,
            caller: index,
            models,
            usable,
            limits,
        };
        self.bind_by_price(&mut key);
        let bounds = self.bounds_left(&key);
        let fields = self.write_key(&key, hash, &bounds, is_off);
        let Some(caller) = self.callers.get_mut(index) else {
            return;
        };
        let is_on = bounds.is_empty() && !is_off && !caller.is_blocked;
        imported.keys.1 += usize::from(is_on);
        imported
            .stopped
            .extend(bounds.into_iter().map(|bound| Stopped {
                key: format!("{}/{name}", caller.name),
                word: bound.word,
                field: bound.field,
                why: bound.why,
            }));
        if let Some((counted_at, usd)) = key.limits.take_spent(&key.row) {
            caller.spent.push((counted_at, usd));
            let (caller, key) = (caller.name.clone(), name.clone());
            imported.spent.push(Spent {
                caller,
                key,
                counted_at,
                usd,
            });
        }
        caller.keys.push(EntryOut {
            name,
            from: key.row.format_place(),
            fields,
            ..EntryOut::default()
        });
        self.findings.set_entry("");
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
        let mut limits = Limits::read(&LimitRow {
            row,
            budget,
            spent_at: self.inputs.spent_at,
        });
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
            spot.exact();
        }
        if !bounds.is_empty() {
            let names: BTreeSet<&str> = bounds.iter().map(|bound| &*bound.field).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            let whys: Vec<&str> = bounds.iter().map(|bound| &*bound.why).collect();
            key.row
                .unsupported(format!("is switched off: {}", whys.join("; ")));
            fields.set("enabled", New::Bool(false).noted(names));
        } else if is_off {
            fields.set("enabled", false);
        }
        fields.set_some("models", key.models.as_deref());
        fields.set_some("limits", key.limits.value());
        fields.set_some("model_limits", key.limits.models_value());
        fields.set_list("allow_ips", &self.common.addresses);
        fields
    }

    /// Money cannot be counted where a price is unknown: a key with a budget is bound, or its
    /// budget is dropped.
    fn bind_by_price(&mut self, key: &mut KeyDraft<'_>) {
        let lacking = key.unpriced;
        let of_key = lacking.is_some() && key.limits.has_money();
        let of_models = key
            .limits
            .money_models()
            .flat_map(|model| self.known.with_fallbacks(model))
            .any(|id| self.unpriced.contains(id) && key.usable.has(id));
        let caller = self.callers.get_mut(key.caller);
        let caller = caller.filter(|caller| lacking.is_some() && caller.limits.has_money());
        if !of_key && !of_models && caller.is_none() {
            return;
        }
        let model = lacking.map(quote_safely).unwrap_or_default();
        let why = format!(
            "of a model that it may use is unknown ({model}), and it has a budget: write `price` at the model"
        );
        let bound = Bound::because("price", "prices", &why);
        if !is_loosened(&bound, &self.inputs.loosened) {
            key.limits.bounds.add(bound);
            return;
        }
        if of_key || of_models {
            key.limits.drop_money();
        }
        if let Some(caller) = caller {
            caller.has_unpriced = true;
        }
    }

    /// Returns what bounds a key and is not loosened: of the file, of its caller, and its own.
    fn bounds_left(&self, key: &KeyDraft<'_>) -> Vec<Bound> {
        let mut patterns = self.unpriced.iter().filter(|id| id.contains('*'));
        let is_unpriced = key.unpriced.is_some() || patterns.any(|id| key.usable.may_have(id));
        let of_caller = self.callers.get(key.caller).map(|caller| &caller.limits);
        let limits = || [&key.limits].into_iter().chain(of_caller);
        let has_budget =
            limits().any(Limits::has_money) || key.limits.money_models().next().is_some();
        let metadata = key.row.get("metadata");
        let is_service = metadata.is_some_and(|data| data.get("service_account_id").is_some());
        let of_file = self.common.bounds.iter().filter(|(whose, _)| match whose {
            Whose::All => true,
            Whose::WithoutTeam => !matches!(key.owner, Owner::Team(_)),
            Whose::ServiceAccount => is_service,
            Whose::WithoutPrice => is_unpriced,
            Whose::WithBudget => has_budget,
            Whose::OfKind(kind) => self.known.may_use(*kind, &key.usable),
        });
        let of_file = of_file.map(|(_, bound)| bound);
        let of_caller = of_caller
            .into_iter()
            .flat_map(|limits| limits.bounds.iter());
        let all = of_file.chain(of_caller).chain(key.limits.bounds.iter());
        all.filter(|bound| !is_loosened(bound, &self.inputs.loosened))
            .cloned()
            .collect()
    }

    /// Writes all callers.
    fn finish(self, spent: &mut Vec<Spent>) -> Vec<EntryOut> {
        let mut entries = Vec::new();
        for mut caller in self.callers {
            if caller.has_unpriced {
                caller.limits.drop_money();
            }
            caller.add_spent(spent);
            let mut fields = Fields::default();
            fields.set_some("enabled", caller.is_blocked.then_some(false));
            fields.set_some("models", caller.models.as_deref());
            fields.set_some("limits", caller.limits.value());
            entries.push(EntryOut {
                name: caller.name,
                from: caller
                    .row
                    .as_ref()
                    .map(Spot::format_place)
                    .unwrap_or_default(),
                fields,
                below: Some(("keys", caller.keys)),
            });
        }
        entries
    }
}

impl CallerDraft<'_> {
    /// Adds what was spent. What is counted for its keys counts for the caller, too.
    fn add_spent(&mut self, spent: &mut Vec<Spent>) {
        let row = self.row.as_ref();
        let Some((counted_at, Usd(usd))) = row.and_then(|row| self.limits.take_spent(row)) else {
            return;
        };
        let keys = self.spent.iter().filter(|(since, _)| *since >= counted_at);
        let rest = keys.fold(usd, |rest, (_, usd)| rest.saturating_sub(usd.0));
        if rest > 0 {
            let (caller, key) = (self.name.clone(), String::new());
            spent.push(Spent {
                caller,
                key,
                counted_at,
                usd: Usd(rest),
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
    spot.iter().for_each(Spot::exact);
    spot.and_then(|spot| spot.flag()) == Some(true)
}

/// Reads the hash of a key. A key that stands there itself, as in old databases, is hashed.
fn hash_of(token: &str) -> Option<String> {
    if is_hash(token) {
        return Some(format!("sha256:{}", token.to_ascii_lowercase()));
    }
    token
        .starts_with("sk-")
        .then(|| Digest(sha256_of(token)).to_string())
}
