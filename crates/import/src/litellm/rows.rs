//! LiteLLM's keys and whom they belong to: saved answers of `/key/list`, `/team/list` and
//! `/user/list`, or the rows of its database as JSON, one after the other.
//!
//! **Invariant:** of two rows about the same thing, none is preferred: rows that differ are an
//! error. A row of a table that the import does not know is one, too.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};

use super::bound::{Bound, Bounds};
use super::node::{Spot, of_json};
use super::row_id::{RowId, unread_table};
use super::rules::{Fate, Section, is_off, rule_of};
use crate::Given;
use crate::notes::{Finding, Findings, Grade, format_place, join_path};
use portcullis::base::problem::{Problem, quote_safely};
use portcullis::catalog::resolve::sha256_of;
use portcullis::conf::yaml::Node;

/// A row, with its place.
struct RowIn<'r> {
    id: RowId,
    file: &'r str,
    path: String,
    node: Node<'static>,
    /// The digest of the whole row.
    digest: [u8; 32],
}

/// All rows, each once, in the order of the files.
pub(super) struct Rows<'r> {
    rows: Vec<RowIn<'r>>,
    indexes: HashMap<RowId, usize>,
    findings: &'r Findings,
    /// True if there is a row of a user as a member of a team.
    has_memberships: bool,
    /// The largest total of keys in an answer, and its file.
    pub(super) total: Option<(u64, &'r str)>,
}

/// The most lists and maps inside each other. Rows need five.
const MAX_DEPTH: usize = 6;

const NO_ROW: &str = "is no row of keys, teams, users or budgets: it has no `token`, `team_id`, `user_id` or `budget_id`";

/// Reads all files. No error shows a value.
pub(super) fn read_rows<'r>(
    files: &'r [Given],
    findings: &'r Findings,
) -> Result<Rows<'r>, Problem> {
    let mut rows = Rows {
        rows: Vec::new(),
        indexes: HashMap::new(),
        findings,
        has_memberships: false,
        total: None,
    };
    for Given { name, text } in files {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let mut is_empty = true;
        for (index, value) in values.enumerate() {
            // The reader's own words are about the grammar only; they are left out all the same.
            let value = value.map_err(|error| {
                let message = format!("is not JSON (column {})", error.column());
                let problem = Problem::of_file(name.clone(), message);
                Problem {
                    line: Some(error.line().max(1)),
                    ..problem
                }
            })?;
            is_empty = false;
            let path = if index == 0 {
                String::new()
            } else {
                format!("[{index}]")
            };
            rows.take_value(name, path, value, 0)?;
        }
        if is_empty {
            return Err(Problem::of_file(name.clone(), "is empty"));
        }
    }
    Ok(rows)
}

impl<'r> Rows<'r> {
    fn spot<'s>(&'s self, row: &'s RowIn<'r>) -> Spot<'s> {
        Spot {
            path: row.path.clone(),
            ..Spot::root(row.file, &row.node, self.findings)
        }
    }

    fn find(&self, id: &RowId) -> Option<&RowIn<'r>> {
        self.rows.get(*self.indexes.get(id)?)
    }

    fn get(&self, id: RowId) -> Option<Spot<'_>> {
        self.find(&id).map(|row| self.spot(row))
    }

    fn rows_of(&self, is_one: fn(&RowId) -> bool) -> impl Iterator<Item = Spot<'_>> {
        let rows = self.rows.iter().filter(move |row| is_one(&row.id));
        rows.map(|row| self.spot(row))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Spot<'_>> {
        self.rows_of(|id| matches!(id, RowId::Key(_)))
    }

    pub(super) fn teams(&self) -> impl Iterator<Item = Spot<'_>> {
        self.rows_of(|id| matches!(id, RowId::Team(_)))
    }

    pub(super) fn users(&self) -> impl Iterator<Item = Spot<'_>> {
        self.rows_of(|id| matches!(id, RowId::User(_)))
    }

    pub(super) fn team(&self, id: &str) -> Option<Spot<'_>> {
        self.get(RowId::Team(id.to_owned()))
    }

    pub(super) fn user(&self, id: &str) -> Option<Spot<'_>> {
        self.get(RowId::User(id.to_owned()))
    }

    pub(super) fn membership(&self, team: &str, user: &str) -> Option<Spot<'_>> {
        let [team, user] = [team, user].map(str::to_owned);
        self.get(RowId::Membership { team, user })
    }

    /// Returns the budget of a key: in its row, or the one that it names.
    pub(super) fn budget_of<'s>(&'s self, key: &Spot<'s>) -> Option<Spot<'s>> {
        let own = key.filled("litellm_budget_table").filter(Spot::is_map);
        own.or_else(|| self.get(RowId::Budget(key.get_text("budget_id")?.to_owned())))
    }

    /// Takes a value: a list of rows, an answer with such a list, or a row.
    fn take_value(
        &mut self,
        file: &'r str,
        path: String,
        value: Value,
        depth: usize,
    ) -> Result<(), Problem> {
        const NAME: &str =
            "is only the name of a key: save the answer of /key/list with return_full_object=true";
        if depth > MAX_DEPTH {
            return Err(row_problem(
                file,
                "",
                "holds too many lists inside each other",
            ));
        }
        let map = match value {
            Value::Array(items) => {
                for (index, item) in items.into_iter().enumerate() {
                    self.take_value(file, format!("{path}[{index}]"), item, depth + 1)?;
                }
                return Ok(());
            }
            Value::Object(map) => map,
            Value::String(_) => return Err(row_problem(file, &path, NAME)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                return Err(row_problem(file, &path, NO_ROW));
            }
        };
        if let Some(table) = unread_table(&map) {
            let message =
                format!("is a row of {table}, which is not read: take these rows out of the files");
            return Err(row_problem(file, &path, &message));
        }
        match RowId::from_row(&map) {
            Some(id) => self.add(id, file, path, map),
            None if map.contains_key("token") => {
                Err(row_problem(file, &path, "`token` must be a text"))
            }
            None => self.take_answer(file, &path, map, depth),
        }
    }

    /// Takes the lists of an answer.
    fn take_answer(
        &mut self,
        file: &'r str,
        path: &str,
        mut map: Map<String, Value>,
        depth: usize,
    ) -> Result<(), Problem> {
        let total = map.get("total_count").and_then(Value::as_u64);
        let mut is_answer = false;
        for list in ["keys", "teams", "users", "budgets"] {
            if let Some(rows @ Value::Array(_)) = map.remove(list) {
                is_answer = true;
                if let Some(total) = total.filter(|_| list == "keys")
                    && self.total.is_none_or(|(before, _)| before < total)
                {
                    self.total = Some((total, file));
                }
                self.take_value(file, join_path(path, list), rows, depth + 1)?;
            }
        }
        is_answer
            .then_some(())
            .ok_or_else(|| row_problem(file, path, NO_ROW))
    }

    /// Adds a row, once. Two rows that differ are an error, since only one of them can be right.
    fn add(
        &mut self,
        id: RowId,
        file: &'r str,
        path: String,
        map: Map<String, Value>,
    ) -> Result<(), Problem> {
        let value = Value::Object(map);
        let digest = sha256_of(&value.to_string());
        match self.find(&id) {
            None => {
                self.has_memberships |= matches!(id, RowId::Membership { .. });
                self.indexes.insert(id.clone(), self.rows.len());
                let node = of_json(value);
                self.rows.push(RowIn {
                    id,
                    file,
                    path,
                    node,
                    digest,
                });
                Ok(())
            }
            Some(known) if known.digest == digest => Ok(()),
            Some(known) => {
                let other = format_place(known.file, None, &known.path);
                let message = format!(
                    "is {id}, of which {other} has another row: give each row once, in the newest file"
                );
                Err(row_problem(file, &path, &message))
            }
        }
    }
}

impl Rows<'_> {
    /// Returns the bound of keys whose user is not in the files.
    pub(super) fn missing_user(&self) -> Bound {
        const WHY: &str = "names a user that is not in the files: save all pages of /user/list";
        Bound::because("user_id", "users", WHY)
    }

    /// Adds what bounds a key of a team because of its user, and of what the user may use as a
    /// member. None of it can be carried, since a key here has one caller.
    pub(super) fn bind_member(
        &self,
        key: &Spot<'_>,
        team: &str,
        is_budget_for_teams: bool,
        bounds: &mut Bounds,
    ) {
        const UNUSED_BUDGET: &str = "bounds no key of a team, since `apply_user_budget_to_team_keys` of `general_settings` is not set";
        let Some(user) = key.filled("user_id").as_ref().and_then(Spot::text) else {
            return;
        };
        match self.user(user) {
            None => bounds.add(self.missing_user()),
            Some(row) => {
                bounds.add_row(Section::Member, &row, "user");
                match row.filled("max_budget") {
                    Some(_) if is_budget_for_teams => {
                        bounds.add(Bound::new("user.max_budget", "users"));
                    }
                    Some(spot) => spot.approximate(UNUSED_BUDGET),
                    None => {}
                }
            }
        }
        let row = self.team(team);
        let listed = row.as_ref().and_then(|row| row.get("team_memberships"));
        if listed.is_none() && !self.has_memberships {
            let source = match row {
                Some(row) => format!("the row of its team {} in {}", quote_safely(team), row.file),
                None => "the files".to_owned(),
            };
            let why = format!(
                "is not in {source}, and has what each member may use: save /team/list, or rows of LiteLLM_TeamMembership"
            );
            bounds.add(Bound::because("team_memberships", "team-members", &why));
        }
        if listed.as_ref().is_some_and(|listed| !listed.is_list()) {
            bounds.add(Bound::unreadable("team_memberships"));
        }
        let listed = listed.iter().flat_map(Spot::items);
        for membership in listed.chain(self.membership(team, user)) {
            // One that does not name its user may be this user's.
            let owner = membership.get("user_id");
            if owner.is_none_or(|owner| owner.text().is_none_or(|id| id == user)) {
                bounds.add_row(Section::Membership, &membership, "team_memberships");
            }
        }
    }

    /// Reports each field that bounds nothing once, and what was spent.
    pub(super) fn summarize_fields(&self, is_spend_carried: bool) {
        const NOT_SPENT: &str =
            "was not spent from a budget that is carried, so no limit counts it";
        let findings = self.findings;
        let reported: HashSet<String> = findings.list().iter().map(Finding::format_place).collect();
        let is_new = |spot: &Spot<'_>| !spot.is_empty() && !reported.contains(&spot.format_place());
        let keys = self.keys().map(|row| (row, Section::KeyRow));
        let owners = self
            .teams()
            .chain(self.users())
            .map(|row| (row, Section::Row));
        let mut counts: BTreeMap<&str, (usize, Finding)> = BTreeMap::new();
        for (row, section) in keys.chain(owners) {
            for (field, spot) in row.entries() {
                let (grade, message) = match rule_of(section, field).fate {
                    Fate::Info(..) if is_off(field, &spot) || !is_new(&spot) => continue,
                    Fate::Info(..) if field == "spend" && is_spend_carried => {
                        (Grade::Approximate, NOT_SPENT)
                    }
                    Fate::Info(grade, message) => (grade, message),
                    Fate::Below(_) if spot.entries().iter().any(|(_, spot)| is_new(spot)) => {
                        (Grade::Unsupported, "what else is in it is left out")
                    }
                    Fate::Below(_) | Fate::Carry | Fate::Bound(..) | Fate::Required => continue,
                };
                let entry = counts.entry(field);
                entry.or_insert_with(|| (0, spot.finding(grade, message))).0 += 1;
            }
        }
        for (count, finding) in counts.into_values() {
            let message = format!("in {count} rows: {}", finding.message);
            findings.add(Finding { message, ..finding });
        }
    }
}

fn row_problem(file: &str, path: &str, message: &str) -> Problem {
    let problem = Problem::of_file(file.to_owned(), message);
    Problem {
        path: path.to_owned(),
        ..problem
    }
}
