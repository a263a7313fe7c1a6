//! Virtual keys: each becomes a key with the same hash, at the caller that its team or its user
//! becomes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::access::Known;
use super::bound::{Bound, add_bound};
use super::limits::{LimitRow, LimitsOut};
use super::models::Made;
use super::names::{Taken, entry_name};
use super::node::Spot;
use super::rows::{RowIn, Rows};
use super::rules::{Section, Whose};
use super::settings::Common;
use super::walk::{Walk, member_bounds, summarize_rows};
use crate::notes::{Finding, Grade};
use crate::write::{self, EntryOut, write_file};
use crate::{Imported, Inputs, Spent, Stopped};
use portcullis::base::problem::quote_safely;
use portcullis::catalog::Catalog;
use portcullis::catalog::globs::Globs;
use portcullis::catalog::raw::Digest;
use portcullis::catalog::resolve::sha256_of;
use portcullis::conf::price::Usd;
use portcullis::conf::yaml::edit::New;

/// A caller while its keys come in.
struct CallerDraft {
    name: String,
    from: String,
    is_blocked: bool,
    models: Allowed,
    limits: LimitsOut,
    keys: Vec<EntryOut>,
    taken: Taken,
    /// True if a key of it may use a model without a price.
    has_unpriced: bool,
}

/// The globs of models that may be used; `None` means all.
type Allowed = Option<Vec<String>>;

/// The data that all keys share.
struct Importer<'k, 'a> {
    rows: &'k Rows,
    known: Known<'k, 'a>,
    unpriced: BTreeSet<String>,
    /// The patterns without a price, for which money is counted by what each model costs.
    unpriced_patterns: Vec<String>,
    /// The first model without a price, by what a caller and a key may use.
    lacking: HashMap<(Allowed, Allowed), Option<String>>,
    common: &'k Common,
    inputs: &'k Inputs<'k>,
    callers: Vec<CallerDraft>,
    by_source: HashMap<String, usize>,
    taken: Taken,
}

/// Writes the file of the keys.
pub(super) fn import_keys(
    rows: &Rows,
    made: &Made<'_>,
    catalog: Option<&Catalog>,
    common: &Common,
    inputs: &Inputs<'_>,
    imported: &mut Imported,
) -> String {
    let known = Known::new(made, catalog);
    let all = known.unpriced().into_iter().map(str::to_owned);
    let (unpriced_patterns, names): (Vec<String>, Vec<String>) =
        all.partition(|name| name.contains('*'));
    let mut importer = Importer {
        rows,
        known,
        unpriced: names.into_iter().collect(),
        unpriced_patterns,
        lacking: HashMap::new(),
        common,
        inputs,
        callers: Vec::new(),
        by_source: HashMap::new(),
        taken: Taken::default(),
    };
    for (id, _) in &rows.teams {
        importer.caller(&Owner::Team(id.clone()), &mut imported.findings);
    }
    for row in &rows.keys {
        importer.key(&row.spot(), imported);
    }
    if let Some(total) = rows.total.filter(|total| *total > rows.keys.len() as u64) {
        let message = format!(
            "the answers say that there are {total} keys, and {} are in the files: save all pages",
            rows.keys.len()
        );
        imported.findings.push(Finding {
            file: rows.total_in.clone(),
            line: None,
            path: "total_count".to_owned(),
            grade: Grade::Manual,
            message,
            became: String::new(),
            unset: None,
            after: None,
        });
    }
    let callers = importer.finish(&mut imported.spent, &mut imported.findings);
    summarize_rows(rows, inputs.spent_at.is_some(), &mut imported.findings);
    let begins = match inputs.spent_at {
        Some(_) => "What was spent from `max_budget` is in the ledger that the import made.",
        None => {
            "Budgets begin at zero: what was spent in LiteLLM is not known to Portcullis' ledger."
        }
    };
    let head = &format!(
        "Keys from LiteLLM, with their hashes, so that no key changes. `portcullis key` changes them here.\n{begins}"
    );
    write_file(
        head,
        &[write::Section {
            name: "callers",
            entries: &callers,
        }],
        &imported.findings,
    )
}

/// Whom a key belongs to.
enum Owner {
    Team(String),
    User(String),
    Unowned,
}

impl Owner {
    fn from_row(row: &Spot<'_>) -> Self {
        match (text_of(row, "team_id"), text_of(row, "user_id")) {
            (Some(team), _) => Self::Team(team),
            (None, Some(user)) => Self::User(user),
            (None, None) => Self::Unowned,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Team(_) => "team",
            Self::User(_) | Self::Unowned => "user",
        }
    }
}

impl Importer<'_, '_> {
    /// Returns the caller of an owner, which is made when it is first met.
    fn caller(&mut self, owner: &Owner, findings: &mut Vec<Finding>) -> usize {
        let (source, row) = match owner {
            Owner::Team(id) => (format!("team {id}"), self.rows.team(id)),
            Owner::User(id) => (format!("user {id}"), self.rows.users.get(id)),
            Owner::Unowned => ("nobody".to_owned(), None),
        };
        if let Some(index) = self.by_source.get(&source) {
            return *index;
        }
        let (id, alias) = match owner {
            Owner::Team(id) => (id.as_str(), "team_alias"),
            Owner::User(id) => (id.as_str(), "user_alias"),
            Owner::Unowned => ("litellm", ""),
        };
        let row = row.map(RowIn::spot);
        let alias = row.as_ref().and_then(|row| text_of(row, alias));
        let wish = [alias, Some(id.to_owned())]
            .into_iter()
            .flatten()
            .find_map(|text| entry_name(&text, 50));
        let digits = || Digest(sha256_of(id)).to_string();
        let wish = wish.unwrap_or_else(|| format!("{}-{}", owner.kind(), first_digits(&digits())));
        let mut caller = CallerDraft {
            from: row.as_ref().map(Spot::format_place).unwrap_or_default(),
            name: self.taken.give(&wish),
            is_blocked: false,
            models: None,
            limits: LimitsOut::default(),
            keys: Vec::new(),
            taken: Taken::default(),
            has_unpriced: false,
        };
        match (&row, owner) {
            (Some(row), _) => self.owner(row, owner, &mut caller, findings),
            (None, Owner::Team(_)) => caller.limits.stop(Bound::because(
                "team_id",
                "teams",
                "names a team that is not in the files: save /team/list",
            )),
            (None, Owner::User(_)) => caller.limits.stop(self.rows.no_user()),
            (None, Owner::Unowned) => {}
        }
        self.callers.push(caller);
        self.by_source.insert(source, self.callers.len() - 1);
        self.callers.len() - 1
    }

    /// Reads the row of a team or a user.
    fn owner(
        &self,
        row: &Spot<'_>,
        owner: &Owner,
        caller: &mut CallerDraft,
        findings: &mut Vec<Finding>,
    ) {
        let source = LimitRow {
            row: row.clone(),
            budget: None,
            became: format!("callers.{}", caller.name),
            spent_at: self.inputs.spent_at,
        };
        caller.limits = LimitsOut::read(&source, findings);
        let mut walk = Walk {
            became: &source.became,
            bounds: &mut caller.limits.bounds,
            findings,
        };
        let is_user = matches!(owner, Owner::User(_));
        caller.models = self.known.allowed_models(row, is_user, &mut walk);
        walk.row(Section::Row, row, "", false);
        caller.is_blocked = is_blocked(row, &mut walk);
        // Callers have no limits of single models.
        if caller.limits.models_out().is_some() {
            let word = if is_user { "users" } else { "teams" };
            caller.limits.stop(Bound::because(
                "model_max_budget",
                word,
                "or another limit of single models is at its team or user, and callers have none",
            ));
        }
    }

    /// Takes one key.
    fn key(&mut self, row: &Spot<'_>, imported: &mut Imported) {
        imported.keys.0 += 1;
        let token = row.get("token");
        let Some(hash) = token.as_ref().and_then(Spot::text).and_then(hash_of) else {
            const MESSAGE: &str = "is no hash of a key: the key is left out";
            imported
                .findings
                .push(row.finding(Grade::Manual, "", MESSAGE));
            return;
        };
        let owner = Owner::from_row(row);
        let index = self.caller(&owner, &mut imported.findings);
        let Some(caller) = self.callers.get_mut(index) else {
            return;
        };
        let alias = text_of(row, "key_alias").and_then(|alias| entry_name(&alias, 50));
        let wish = alias.unwrap_or_else(|| format!("key-{}", first_digits(&hash)));
        let name = caller.taken.give(&wish);
        let source = LimitRow {
            row: row.clone(),
            budget: self.rows.budget_of(row),
            became: format!("callers.{}.keys.{name}", caller.name),
            spent_at: self.inputs.spent_at,
        };
        let mut fields = vec![("hash", New::text(hash))];
        for field in ["token", "key_alias", "team_id", "user_id"] {
            if let Some(spot) = row.get(field).filter(|spot| !spot.is_empty()) {
                let finding = spot.finding(Grade::Exact, &source.became, "");
                imported.findings.push(finding);
            }
        }
        let mut limits = LimitsOut::read(&source, &mut imported.findings);
        let mut walk = Walk {
            became: &source.became,
            bounds: &mut limits.bounds,
            findings: &mut imported.findings,
        };
        match &source.budget {
            Some(budget) => walk.row(Section::Budget, budget, "litellm_budget_table", false),
            None if row.get("budget_id").is_some_and(|spot| !spot.is_empty()) => {
                const WHY: &str = "names a budget that is not in the files: save /budget/list too";
                add_bound(walk.bounds, Bound::because("budget_id", "budgets", WHY));
            }
            None => {}
        }
        let models = self.known.allowed_models(row, false, &mut walk);
        walk.row(Section::Row, row, "", true);
        if let Owner::Team(team) = &owner {
            member_bounds(
                &mut walk,
                row,
                team,
                self.rows,
                self.common.is_user_budget_for_teams,
            );
        }
        walk.became = &source.became;
        let is_off = is_blocked(row, &mut walk);
        if let Some(spot) = row.get("expires").filter(|spot| !spot.is_empty())
            && let Some(seconds) = spot.time()
        {
            let time = portcullis::base::calendar::format_time(seconds.saturating_mul(1000));
            fields.push(("expires", New::text(time)));
            let finding = spot.finding(Grade::Exact, &source.became, "");
            imported.findings.push(finding);
        }
        let globs = [&caller.models, &models].map(|models| match models {
            None => Globs::everything(),
            Some(list) => Globs::new(list.iter().map(|glob| Arc::from(glob.as_str()))),
        });
        limits.of_groups(&self.known, &globs);
        if limits.assign_to_models(&self.known, &globs) {
            const MESSAGE: &str =
                "limits of models that are not here are left out: the key cannot use those models";
            let finding = row.finding(Grade::Approximate, &source.became, MESSAGE);
            imported.findings.push(finding);
        }
        self.price_bound(index, &models, &globs, &mut limits);
        let bounds = self.bounds_left(index, row, &owner, &models, &globs, &limits);
        let Some(caller) = self.callers.get_mut(index) else {
            return;
        };
        let key = format!("{}/{name}", caller.name);
        let whys: Vec<&str> = bounds.iter().map(|bound| bound.why.as_str()).collect();
        let names: BTreeSet<&str> = bounds.iter().map(|bound| bound.field.as_str()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        if !bounds.is_empty() {
            let message = format!("is switched off: {}", whys.join("; "));
            let finding = row.finding(Grade::Unsupported, &source.became, message);
            imported.findings.push(finding);
            fields.push(("enabled", New::Bool(false).noted(names)));
        } else if is_off {
            fields.push(("enabled", New::Bool(false)));
        }
        imported.keys.1 += usize::from(bounds.is_empty() && !is_off && !caller.is_blocked);
        imported
            .stopped
            .extend(bounds.into_iter().map(|bound| Stopped {
                key: key.clone(),
                word: bound.word,
                field: bound.field,
                why: bound.why,
            }));
        fields.extend(models.iter().map(|models| ("models", New::texts(models))));
        fields.extend(limits.out().map(|limits| ("limits", limits)));
        fields.extend(limits.models_out().map(|limits| ("model_limits", limits)));
        if !self.common.addresses.is_empty() {
            fields.push(("allow_ips", New::texts(&self.common.addresses)));
        }
        if let Some((spot, usd)) = limits.carried(&mut imported.findings) {
            imported.spent.push(Spent {
                caller: caller.name.clone(),
                key: name.clone(),
                counted_at: spot,
                usd,
            });
        }
        caller.keys.push(EntryOut {
            name,
            from: row.format_place(),
            fields,
            below: None,
        });
    }

    /// Returns the first model without a price that a key may use.
    fn unpriced_model(
        &mut self,
        caller: usize,
        models: &Allowed,
        may: &[Globs; 2],
    ) -> Option<String> {
        // Many keys may use the same models.
        let of_caller = self.callers.get(caller)?.models.clone();
        let find = || {
            let is_usable = |id: &&String| may.iter().all(|globs| globs.matches(id));
            self.unpriced.iter().find(is_usable).cloned()
        };
        self.lacking
            .entry((of_caller, models.clone()))
            .or_insert_with(find)
            .clone()
    }

    /// Money cannot be counted where a price is unknown: a key with a budget is bound, or its
    /// budget is dropped.
    fn price_bound(
        &mut self,
        index: usize,
        models: &Allowed,
        may: &[Globs; 2],
        limits: &mut LimitsOut,
    ) {
        let of_caller = self
            .callers
            .get(index)
            .is_some_and(|caller| caller.limits.has_money());
        let lacking = if of_caller || limits.has_money() {
            self.unpriced_model(index, models, may)
        } else {
            None
        };
        let is_unpriced =
            |id: &str| self.unpriced.contains(id) && may.iter().all(|globs| globs.matches(id));
        let in_models = limits
            .money_models()
            .flat_map(|model| self.known.with_fallbacks(model))
            .any(is_unpriced);
        let of_key = (limits.has_money() && lacking.is_some()) || in_models;
        let of_caller = of_caller && lacking.is_some();
        if !of_key && !of_caller {
            return;
        }
        let bound = Bound::because(
            "price",
            "prices",
            &format!(
                "of a model that it may use is unknown ({}), and it has a budget: write `price` at the model",
                lacking.as_deref().map(quote_safely).unwrap_or_default()
            ),
        );
        if !self.is_loosened(&bound) {
            limits.stop(bound);
            return;
        }
        if of_key {
            limits.drop_money();
        }
        if let Some(caller) = self.callers.get_mut(index) {
            caller.has_unpriced |= of_caller;
        }
    }

    /// Returns what bounds a key and is not loosened: of the file, of its caller, and its own.
    fn bounds_left(
        &mut self,
        index: usize,
        row: &Spot<'_>,
        owner: &Owner,
        models: &Allowed,
        may: &[Globs; 2],
        limits: &LimitsOut,
    ) -> Vec<Bound> {
        let are_prices_needed = |(whose, _): &(Whose, Bound)| *whose == Whose::WithoutPrice;
        let is_without_price = self.common.bounds.iter().any(are_prices_needed)
            && (self.unpriced_model(index, models, may).is_some()
                || self
                    .unpriced_patterns
                    .iter()
                    .any(|name| may.iter().all(|globs| globs.may_match(name))));
        let Some(caller) = self.callers.get(index) else {
            return Vec::new();
        };
        let is_service_account = row
            .get("metadata")
            .is_some_and(|metadata| metadata.get("service_account_id").is_some());
        let has_budget = limits.has_money()
            || caller.limits.has_money()
            || limits.money_models().next().is_some();
        let binds = |whose: Whose| match whose {
            Whose::All => true,
            Whose::WithoutTeam => !matches!(owner, Owner::Team(_)),
            Whose::ServiceAccount => is_service_account,
            Whose::WithoutPrice => is_without_price,
            Whose::WithBudget => has_budget,
            Whose::OfKind(kind) => self.known.may_use(kind, may),
        };
        let of_file = self.common.bounds.iter();
        of_file
            .filter(|(whose, _)| binds(*whose))
            .map(|(_, bound)| bound)
            .chain(&caller.limits.bounds)
            .chain(&limits.bounds)
            .filter(|bound| !self.is_loosened(bound))
            .cloned()
            .collect()
    }

    fn is_loosened(&self, bound: &Bound) -> bool {
        let is_named = |name: &String| *name == bound.field || Some(name.as_str()) == bound.word;
        bound.word.is_some() && self.inputs.loosened.iter().any(is_named)
    }

    /// Writes all callers.
    fn finish(self, spent: &mut Vec<Spent>, findings: &mut Vec<Finding>) -> Vec<EntryOut> {
        let mut by_keys: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
        for key in &*spent {
            by_keys
                .entry(key.caller.clone())
                .or_default()
                .push((key.counted_at, key.usd.0));
        }
        let one = |mut caller: CallerDraft| {
            if caller.has_unpriced {
                caller.limits.drop_money();
            }
            if let Some((spot, Usd(usd))) = caller.limits.carried(findings) {
                // What is counted for its keys counts for the caller, too.
                let by_keys = by_keys
                    .get(&caller.name)
                    .into_iter()
                    .flatten()
                    .filter(|(since, _)| *since >= spot);
                let rest = by_keys.fold(usd, |rest, (_, of_key)| rest.saturating_sub(*of_key));
                if rest > 0 {
                    spent.push(Spent {
                        caller: caller.name.clone(),
                        key: String::new(),
                        counted_at: spot,
                        usd: Usd(rest),
                    });
                }
            }
            let mut fields = Vec::new();
            if caller.is_blocked {
                fields.push(("enabled", New::Bool(false)));
            }
            fields.extend(
                caller
                    .models
                    .iter()
                    .map(|models| ("models", New::texts(models))),
            );
            fields.extend(caller.limits.out().map(|limits| ("limits", limits)));
            EntryOut {
                name: caller.name,
                from: caller.from,
                fields,
                below: Some(("keys", caller.keys)),
            }
        };
        self.callers.into_iter().map(one).collect()
    }
}

/// Returns the text of a field, if it is there.
fn text_of(row: &Spot<'_>, field: &str) -> Option<String> {
    let spot = row.get(field).filter(|spot| !spot.is_empty())?;
    spot.text().map(str::to_owned)
}

fn first_digits(hash: &str) -> String {
    hash.trim_start_matches("sha256:").chars().take(8).collect()
}

/// Reads whether a key or its owner is blocked.
fn is_blocked(row: &Spot<'_>, walk: &mut Walk<'_>) -> bool {
    let Some(spot) = row.get("blocked").filter(|spot| !spot.is_empty()) else {
        return false;
    };
    walk.findings
        .push(spot.finding(Grade::Exact, walk.became, ""));
    spot.flag() == Some(true)
}

/// Reads the hash of a key. A key that stands there itself, as in old databases, is hashed.
fn hash_of(token: &str) -> Option<String> {
    if token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Some(format!("sha256:{}", token.to_ascii_lowercase()));
    }
    token
        .starts_with("sk-")
        .then(|| Digest(sha256_of(token)).to_string())
}
