//! Virtual keys: each becomes a key with the same hash, at the caller that its team or its user
//! becomes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::access::Known;
use super::bounds::Whose;
use super::fields;
use super::limits::{LimitRow, LimitsOut};
use super::loosen::{Bound, Loosen};
use super::member;
use super::models::Made;
use super::names::{Taken, entry as entry_name};
use super::node::At;
use super::rows::{RowKind, Rows};
use super::settings::Common;
use crate::notes::{Finding, Grade};
use crate::write::{EntryOut, Section, file};
use crate::{Imported, Inputs, Spent, Stopped};
use portcullis::base::problem::Problem;
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
    /// Whether a key of it may use a model without a price.
    has_unpriced: bool,
}

/// The globs of models that may be used; `None` means all.
type Allowed = Option<Vec<String>>;

/// What all keys share.
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
pub(super) fn import(
    rows: &Rows,
    made: &Made<'_>,
    catalog: Option<&Catalog>,
    (common, inputs): (&Common, &Inputs<'_>),
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
        importer.key(&row.at(), imported);
    }
    if let Some(total) = rows.total.filter(|total| *total > rows.keys.len() as u64) {
        let what = format!(
            "the answers say that there are {total} keys, and {} are in the files: save all pages",
            rows.keys.len()
        );
        let of_file = Problem::of_file(rows.total_in.clone(), what);
        imported.findings.push(Finding {
            file: of_file.file,
            line: None,
            path: "total_count".to_owned(),
            grade: Grade::Manual,
            what: of_file.message,
            became: String::new(),
            unset: None,
            after: None,
        });
    }
    let callers = importer.finish(&mut imported.spent, &mut imported.findings);
    fields::summary(rows, inputs.spent_at.is_some(), &mut imported.findings);
    let begins = match inputs.spent_at {
        Some(_) => "What was spent from `max_budget` is in the ledger that the import made.",
        None => {
            "Budgets begin at zero: what was spent in LiteLLM is not known to Portcullis' ledger."
        }
    };
    let head = &format!(
        "Keys from LiteLLM, with their hashes, so that no key changes. `portcullis key` changes them here.\n{begins}"
    );
    file(
        head,
        &[Section {
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
    Nobody,
}

impl Owner {
    fn of(row: &At<'_>) -> Self {
        let id = |field: &str| {
            row.get(field)
                .filter(|at| !at.is_empty())
                .and_then(|at| at.text().map(str::to_owned))
        };
        match (id("team_id"), id("user_id")) {
            (Some(team), _) => Self::Team(team),
            (None, Some(user)) => Self::User(user),
            (None, None) => Self::Nobody,
        }
    }
}

impl Importer<'_, '_> {
    /// Returns the caller of an owner, which is made when it is first met.
    fn caller(&mut self, owner: &Owner, findings: &mut Vec<Finding>) -> usize {
        let (source, row) = match owner {
            Owner::Team(id) => (format!("team {id}"), self.rows.team(id)),
            Owner::User(id) => (format!("user {id}"), self.rows.users.get(id)),
            Owner::Nobody => ("nobody".to_owned(), None),
        };
        if let Some(index) = self.by_source.get(&source) {
            return *index;
        }
        let (id, alias, kind) = match owner {
            Owner::Team(id) => (id.as_str(), "team_alias", RowKind::Team),
            Owner::User(id) => (id.as_str(), "user_alias", RowKind::User),
            Owner::Nobody => ("litellm", "", RowKind::User),
        };
        let row = row.map(super::rows::RowIn::at);
        let alias = row
            .as_ref()
            .and_then(|row| row.get(alias))
            .and_then(|at| entry_name(at.text()?, 50));
        let wish = alias.or_else(|| entry_name(id, 50)).unwrap_or_else(|| {
            let digits = Digest(sha256_of(id)).to_string();
            let what = if matches!(owner, Owner::Team(_)) {
                "team"
            } else {
                "user"
            };
            format!(
                "{what}-{}",
                digits
                    .trim_start_matches("sha256:")
                    .chars()
                    .take(8)
                    .collect::<String>()
            )
        });
        let name = self.taken.give(&wish);
        let mut caller = CallerDraft {
            from: row.as_ref().map_or_else(String::new, |row| {
                crate::notes::place(row.file, row.line, &row.path)
            }),
            name,
            is_blocked: false,
            models: None,
            limits: LimitsOut::default(),
            keys: Vec::new(),
            taken: Taken::default(),
            has_unpriced: false,
        };
        match (&row, owner) {
            (Some(row), _) => self.owner(row, kind, &mut caller, findings),
            (None, Owner::Team(_)) => {
                caller.limits.stop(Bound::new(
                    Loosen::Teams,
                    "the files do not say what its team may use: save /team/list",
                ));
            }
            (None, Owner::User(_)) => {
                caller
                    .limits
                    .stop(Bound::new(Loosen::Users, self.rows.no_user()));
            }
            (None, Owner::Nobody) => {}
        }
        self.callers.push(caller);
        self.by_source.insert(source, self.callers.len() - 1);
        self.callers.len() - 1
    }

    /// Reads the row of a team or a user.
    fn owner(
        &self,
        row: &At<'_>,
        kind: RowKind,
        caller: &mut CallerDraft,
        findings: &mut Vec<Finding>,
    ) {
        let became = &format!("callers.{}", caller.name);
        caller.limits = LimitsOut::of(
            &LimitRow {
                row: row.clone(),
                budget: None,
                became: became.to_owned(),
                spent_at: self.inputs.spent_at,
            },
            findings,
        );
        match self
            .known
            .globs(row.get("models").as_ref(), (kind, became), findings)
        {
            Ok(models) => caller.models = models,
            Err(()) => caller.limits.stop(Bound::unreadable("models")),
        }
        fields::bounds(row, kind, became, &mut caller.limits, findings);
        if let Some(at) = row.get("blocked").filter(|at| !at.is_empty()) {
            match at.flag() {
                Some(blocked) => caller.is_blocked = blocked,
                None => caller.limits.stop(Bound::unreadable("blocked")),
            }
            findings.push(at.finding(Grade::Exact, became, ""));
        }
        // Callers have no limits of single models.
        if caller.limits.models_out().is_some() {
            let loosen = if kind == RowKind::Team {
                Loosen::Teams
            } else {
                Loosen::Users
            };
            caller.limits.stop(Bound::new(
                loosen,
                "its team or user has limits of single models, and callers have none",
            ));
        }
    }

    /// Takes one key.
    fn key(&mut self, row: &At<'_>, imported: &mut Imported) {
        let findings = &mut imported.findings;
        imported.keys.0 += 1;
        let token_at = row.get("token");
        let Some(hash) = token_at.as_ref().and_then(At::text).and_then(hash_of) else {
            const WHAT: &str = "is no hash of a key: the key is left out";
            findings.push(row.finding(Grade::Manual, "", WHAT));
            return;
        };
        let owner = Owner::of(row);
        let index = self.caller(&owner, findings);
        let Some(caller) = self.callers.get_mut(index) else {
            return;
        };
        let end: String = hash.trim_start_matches("sha256:").chars().take(8).collect();
        let alias = row
            .get("key_alias")
            .and_then(|at| entry_name(at.text()?, 50));
        let name = caller
            .taken
            .give(&alias.unwrap_or_else(|| format!("key-{end}")));
        let became = format!("callers.{}.keys.{name}", caller.name);
        let mut fields = vec![("hash", New::text(hash))];
        findings.extend(
            token_at
                .iter()
                .map(|at| at.finding(Grade::Exact, &became, "")),
        );
        for field in ["key_alias", "team_id", "user_id"] {
            if let Some(at) = row.get(field).filter(|at| !at.is_empty()) {
                findings.push(at.finding(Grade::Exact, &became, ""));
            }
        }
        let budget = self.rows.budgets.get(
            row.get("budget_id")
                .as_ref()
                .and_then(At::text)
                .unwrap_or_default(),
        );
        let budget = row
            .get("litellm_budget_table")
            .filter(|at| at.is_map() && !at.is_empty())
            .or_else(|| budget.map(super::rows::RowIn::at));
        let has_budget = row.get("budget_id").is_some_and(|at| !at.is_empty());
        let source = LimitRow {
            row: row.clone(),
            budget,
            became: became.clone(),
            spent_at: self.inputs.spent_at,
        };
        let mut limits = LimitsOut::of(&source, findings);
        if let Some(budget) = &source.budget {
            fields::of_budget(budget, &became, &mut limits, findings);
        }
        if has_budget && source.budget.is_none() {
            limits.stop(Bound::new(
                Loosen::Budgets,
                "`budget_id` names a budget that is not in the files: save /budget/list too",
            ));
        }
        let models = match self.known.globs(
            row.get("models").as_ref(),
            (RowKind::Key, &became),
            findings,
        ) {
            Ok(models) => models,
            Err(()) => {
                limits.stop(Bound::unreadable("models"));
                Some(Vec::new())
            }
        };
        fields::bounds(row, RowKind::Key, &became, &mut limits, findings);
        if let Owner::Team(team) = &owner {
            member::bounds(row, team, (self.rows, self.common), &mut limits, findings);
        }
        let mut works = true;
        if let Some(at) = row.get("blocked").filter(|at| !at.is_empty()) {
            match at.flag() {
                Some(blocked) => works &= !blocked,
                None => limits.stop(Bound::unreadable("blocked")),
            }
            findings.push(at.finding(Grade::Exact, &became, ""));
        }
        let expires = row.get("expires").filter(|at| !at.is_empty());
        if let Some(at) = &expires {
            match at.time() {
                Some(seconds) => {
                    fields.push((
                        "expires",
                        New::text(portcullis::base::calendar::format_time(
                            seconds.saturating_mul(1000),
                        )),
                    ));
                    findings.push(at.finding(Grade::Exact, &became, ""));
                }
                None => limits.stop(Bound::unreadable("expires")),
            }
        }
        let globs = [&caller.models, &models].map(|models| match models {
            None => Globs::everything(),
            Some(list) => Globs::new(list.iter().map(|glob| Arc::from(glob.as_str()))),
        });
        limits.of_groups(&self.known, &globs);
        if limits.place(&self.known, &globs) {
            const WHAT: &str =
                "limits of models that are not here are left out: the key cannot use those models";
            findings.push(row.finding(Grade::Approximate, &became, WHAT));
        }
        // Money cannot be counted where a price is unknown.
        let may = |id: &str| globs.iter().all(|globs| globs.matches(id));
        let may_match = |pattern: &str| globs.iter().all(|globs| globs.may_match(pattern));
        let has_money = limits.has_money() || caller.limits.has_money();
        let are_prices_needed = self
            .common
            .bounds
            .iter()
            .any(|(whose, _)| *whose == Whose::WithoutPrice);
        let lacks = if has_money || are_prices_needed {
            // Many keys may use the same models.
            let find = || self.unpriced.iter().find(|id| may(id)).cloned();
            self.lacking
                .entry((caller.models.clone(), models.clone()))
                .or_insert_with(find)
                .clone()
        } else {
            None
        };
        let is_service = row
            .get("metadata")
            .is_some_and(|metadata| metadata.get("service_account_id").is_some());
        let bounds_it = |whose: Whose| match whose {
            Whose::All => true,
            Whose::WithoutTeam => !matches!(owner, Owner::Team(_)),
            Whose::ServiceAccount => is_service,
            Whose::WithoutPrice => {
                lacks.is_some() || self.unpriced_patterns.iter().any(|name| may_match(name))
            }
            Whose::WithBudget => has_money || limits.money_models().next().is_some(),
            Whose::OfKind(kind) => self.known.may_use(kind, &globs),
        };
        let of_file = self
            .common
            .bounds
            .iter()
            .filter(|(whose, _)| bounds_it(*whose))
            .map(|(_, bound)| bound);
        let of_file: Vec<&Bound> = of_file.collect();
        let mut of_models = limits
            .money_models()
            .flat_map(|model| self.known.with_fallbacks(model));
        let in_models = of_models.any(|id| self.unpriced.contains(id) && may(id));
        drop(of_models);
        let is_loose = self.inputs.loosened.contains(&Loosen::Prices);
        let of_key = (limits.has_money() && lacks.is_some()) || in_models;
        let of_caller = caller.limits.has_money() && lacks.is_some();
        if of_key || of_caller {
            if is_loose {
                if of_key {
                    limits.drop_money();
                }
                caller.has_unpriced |= of_caller;
            } else {
                let first = lacks
                    .as_ref()
                    .map(|id| portcullis::base::problem::quote_safely(id))
                    .unwrap_or_default();
                let why = format!(
                    "has a budget, and the price of a model that it may use is unknown ({first}): write `price` at the model"
                );
                limits.stop(Bound::new(Loosen::Prices, why));
            }
        }
        let all = of_file
            .into_iter()
            .chain(&caller.limits.bounds)
            .chain(&limits.bounds);
        let left: Vec<&Bound> = all
            .filter(|bound| {
                !bound
                    .loosen
                    .is_some_and(|loosen| self.inputs.loosened.contains(&loosen))
            })
            .collect();
        for bound in &left {
            let key = format!("{}/{name}", caller.name);
            imported.stopped.push(Stopped {
                key,
                bound: bound.loosen.map(Loosen::name),
                why: bound.why.clone(),
            });
            let what = match bound.loosen {
                Some(loosen) => {
                    format!(
                        "is switched off: {} (`--loosen {}` drops this bound)",
                        bound.why,
                        loosen.name()
                    )
                }
                None => format!("is switched off: {}", bound.why),
            };
            findings.push(row.finding(Grade::Unsupported, &became, what));
        }
        works &= left.is_empty();
        if !works {
            fields.push(("enabled", New::Bool(false)));
        }
        if let Some(models) = models {
            fields.push(("models", New::List(models.iter().map(New::text).collect())));
        }
        fields.extend(limits.out().map(|limits| ("limits", limits)));
        fields.extend(limits.models_out().map(|limits| ("model_limits", limits)));
        if !self.common.addresses.is_empty() {
            fields.push((
                "allow_ips",
                New::List(self.common.addresses.iter().map(New::text).collect()),
            ));
        }
        if let Some((at, usd)) = limits.carried(findings) {
            imported.spent.push(Spent {
                caller: caller.name.clone(),
                key: name.clone(),
                at,
                usd,
            });
        }
        imported.keys.1 += usize::from(works && !caller.is_blocked);
        let from = crate::notes::place(row.file, row.line, &row.path);
        caller.keys.push(EntryOut {
            name,
            from,
            fields,
            below: None,
        });
    }

    /// Writes all callers.
    fn finish(self, spent: &mut Vec<Spent>, findings: &mut Vec<Finding>) -> Vec<EntryOut> {
        let mut by_keys: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
        for key in &*spent {
            by_keys
                .entry(key.caller.clone())
                .or_default()
                .push((key.at, key.usd.0));
        }
        let one = |mut caller: CallerDraft| {
            if caller.has_unpriced {
                caller.limits.drop_money();
            }
            if let Some((at, Usd(usd))) = caller.limits.carried(findings) {
                // What is counted for its keys counts for the caller, too.
                let by_keys = by_keys
                    .get(&caller.name)
                    .into_iter()
                    .flatten()
                    .filter(|(since, _)| *since >= at);
                let rest = by_keys.fold(usd, |rest, (_, of_key)| rest.saturating_sub(*of_key));
                if rest > 0 {
                    spent.push(Spent {
                        caller: caller.name.clone(),
                        key: String::new(),
                        at,
                        usd: Usd(rest),
                    });
                }
            }
            let mut fields = Vec::new();
            if caller.is_blocked {
                fields.push(("enabled", New::Bool(false)));
            }
            if let Some(models) = &caller.models {
                fields.push(("models", New::List(models.iter().map(New::text).collect())));
            }
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

/// Reads the hash of a key. A key that stands there itself, as in old databases, is hashed.
fn hash_of(token: &str) -> Option<String> {
    if token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Some(format!("sha256:{}", token.to_ascii_lowercase()));
    }
    token
        .starts_with("sk-")
        .then(|| Digest(sha256_of(token)).to_string())
}
