//! LiteLLM's keys and whom they belong to: saved answers of `/key/list`, `/team/list` and
//! `/user/list`, or the rows of its database as JSON, one after the other.
//!
//! **Invariant:** of two rows about the same thing, none is preferred: rows that differ are an
//! error. A row of a table that the import does not know is one, too.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::bound::Bound;
use super::node::{Spot, of_json};
use crate::Given;
use crate::notes::{format_place, join_path};
use portcullis::base::problem::{Problem, quote_safely};
use portcullis::catalog::resolve::sha256_of;
use portcullis::conf::yaml::Node;

/// A row, with its place.
pub(super) struct RowIn {
    file: String,
    path: String,
    node: Node<'static>,
    /// The digest of the whole row.
    digest: [u8; 32],
}

impl RowIn {
    fn new(file: &str, path: String, map: Map<String, Value>) -> Self {
        let value = Value::Object(map);
        let digest = sha256_of(&value.to_string());
        Self {
            file: file.to_owned(),
            path,
            node: of_json(value),
            digest,
        }
    }

    pub(super) fn spot(&self) -> Spot<'_> {
        Spot {
            path: self.path.clone(),
            ..Spot::root(&self.file, &self.node)
        }
    }
}

/// All rows.
#[derive(Default)]
pub(super) struct Rows {
    /// The keys, each once.
    pub(super) keys: Vec<RowIn>,
    /// The teams by id, in the order of the files.
    pub(super) teams: Vec<(String, RowIn)>,
    pub(super) users: BTreeMap<String, RowIn>,
    pub(super) budgets: BTreeMap<String, RowIn>,
    /// The models of users as members of a team, by team and user.
    pub(super) memberships: BTreeMap<(String, String), RowIn>,
    /// The largest total of keys in an answer.
    pub(super) total: Option<u64>,
    /// The file with that total.
    pub(super) total_in: String,
    key_indexes: HashMap<String, usize>,
    team_indexes: HashMap<String, usize>,
}

impl Rows {
    /// Returns the bound of keys whose user is not in the files.
    pub(super) fn no_user(&self) -> Bound {
        let why = if self.users.is_empty() {
            "names a user that is not in the files: save /user/list"
        } else {
            "names a user that is not in the files: save all pages of /user/list"
        };
        Bound::because("user_id", "users", why)
    }

    /// Returns the budget of a key: in its row, or the one that it names.
    pub(super) fn budget_of<'r>(&'r self, row: &Spot<'r>) -> Option<Spot<'r>> {
        let id = row.get("budget_id");
        let named = id
            .as_ref()
            .and_then(Spot::text)
            .and_then(|id| self.budgets.get(id));
        row.get("litellm_budget_table")
            .filter(|spot| spot.is_map() && !spot.is_empty())
            .or_else(|| named.map(RowIn::spot))
    }

    pub(super) fn team(&self, id: &str) -> Option<&RowIn> {
        self.team_indexes
            .get(id)
            .and_then(|index| self.teams.get(*index))
            .map(|(_, row)| row)
    }
}

/// The most lists and maps inside each other. Rows need five.
const DEEPEST: usize = 6;

/// Fields that users have and memberships have not.
const OF_USERS: [&str; 4] = ["models", "max_budget", "teams", "metadata"];

/// Reads all files. No error shows a value.
pub(super) fn read_rows(files: &[Given]) -> Result<Rows, Problem> {
    let mut rows = Rows::default();
    for file in files {
        let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
        let mut is_empty = true;
        for (index, value) in serde_json::Deserializer::from_str(text)
            .into_iter::<Value>()
            .enumerate()
        {
            // The reader's own words are about the grammar only; they are left out all the same.
            let value = value.map_err(|error| Problem {
                line: Some(error.line().max(1)),
                ..Problem::of_file(
                    file.name.clone(),
                    format!("is not JSON (column {})", error.column()),
                )
            })?;
            is_empty = false;
            let path = if index == 0 {
                String::new()
            } else {
                format!("[{index}]")
            };
            rows.take(&file.name, path, value, 0)?;
        }
        if is_empty {
            return Err(Problem::of_file(file.name.clone(), "is empty"));
        }
    }
    Ok(rows)
}

impl Rows {
    /// Takes a value: a list of rows, an answer with such a list, or a row.
    fn take(
        &mut self,
        file: &str,
        path: String,
        value: Value,
        depth: usize,
    ) -> Result<(), Problem> {
        let wrong = |path: &str, message: &str| Problem {
            path: path.to_owned(),
            ..Problem::of_file(file.to_owned(), message)
        };
        if depth > DEEPEST {
            return Err(wrong("", "holds too many lists inside each other"));
        }
        let mut map = match value {
            Value::Array(items) => {
                for (index, item) in items.into_iter().enumerate() {
                    self.take(file, format!("{path}[{index}]"), item, depth + 1)?;
                }
                return Ok(());
            }
            Value::Object(map) => map,
            Value::String(_) => {
                const MESSAGE: &str = "is only the name of a key: save the answer of /key/list with return_full_object=true";
                return Err(wrong(&path, MESSAGE));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                return Err(wrong(&path, "is no row of keys, teams, users or budgets"));
            }
        };
        if let Some(table) = unread_table(&map) {
            let message =
                format!("is a row of {table}, which is not read: take these rows out of the files");
            return Err(wrong(&path, &message));
        }
        let id = |field: &str| map.get(field).and_then(Value::as_str).map(str::to_owned);
        let (token, user, team, budget) =
            (id("token"), id("user_id"), id("team_id"), id("budget_id"));
        let is_key = map.contains_key("token");
        if !is_key && user.is_none() && team.is_none() && budget.is_none() {
            let mut is_answer = false;
            for list in ["keys", "teams", "users", "budgets"] {
                let Some(inner @ Value::Array(_)) = map.remove(list) else {
                    continue;
                };
                is_answer = true;
                if let Some(total) = map
                    .get("total_count")
                    .and_then(Value::as_u64)
                    .filter(|_| list == "keys")
                    && self.total.is_none_or(|before| before < total)
                {
                    self.total = Some(total);
                    file.clone_into(&mut self.total_in);
                }
                self.take(file, join_path(&path, list), inner, depth + 1)?;
            }
            if is_answer {
                return Ok(());
            }
        }
        let is_user = OF_USERS.iter().any(|field| map.contains_key(*field));
        let row = RowIn::new(file, path, map);
        match (is_key, user, team, budget) {
            (true, ..) => {
                let token = token.ok_or_else(|| wrong(&row.path, "`token` must be a text"))?;
                let known = self
                    .key_indexes
                    .get(&token)
                    .and_then(|index| self.keys.get(*index));
                // The name of a key without an alias has these digits, too.
                let is_hash = token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit());
                let begin = token
                    .get(..8)
                    .filter(|_| is_hash)
                    .map(|begin| format!("the key with the hash {begin}…"));
                if is_new(known, &row, || {
                    begin.clone().unwrap_or_else(|| "a key".to_owned())
                })? {
                    self.key_indexes.insert(token, self.keys.len());
                    self.keys.push(row);
                }
            }
            (false, Some(user), Some(team), _) if !is_user => {
                let id = (team, user);
                let message = || {
                    format!(
                        "user {} of team {}",
                        quote_safely(&id.1),
                        quote_safely(&id.0)
                    )
                };
                if is_new(self.memberships.get(&id), &row, message)? {
                    self.memberships.insert(id, row);
                }
            }
            // A user's row names teams too, and a team's row no user.
            (false, Some(user), ..) => {
                if is_new(self.users.get(&user), &row, || {
                    format!("user {}", quote_safely(&user))
                })? {
                    self.users.insert(user, row);
                }
            }
            (false, None, Some(team), _) => {
                if is_new(self.team(&team), &row, || {
                    format!("team {}", quote_safely(&team))
                })? {
                    self.team_indexes.insert(team.clone(), self.teams.len());
                    self.teams.push((team, row));
                }
            }
            (false, None, None, Some(budget)) => {
                if is_new(self.budgets.get(&budget), &row, || {
                    format!("budget {}", quote_safely(&budget))
                })? {
                    self.budgets.insert(budget, row);
                }
            }
            (false, None, None, None) => {
                const MESSAGE: &str = "is no row of keys, teams, users or budgets: it has no `token`, `team_id`, `user_id` or `budget_id`";
                return Err(wrong(&row.path, MESSAGE));
            }
        }
        Ok(())
    }
}

/// Returns whether a row is new. Two rows that differ are an error, since only one of them can be
/// right.
fn is_new(known: Option<&RowIn>, row: &RowIn, whose: impl Fn() -> String) -> Result<bool, Problem> {
    match known {
        None => Ok(true),
        Some(known) if known.digest == row.digest => Ok(false),
        Some(known) => {
            let message = format!(
                "is {}, of which {} says something else: give the newest files only, and each row once",
                whose(),
                format_place(&known.file, None, &known.path)
            );
            Err(Problem {
                path: row.path.clone(),
                ..Problem::of_file(row.file.clone(), message)
            })
        }
    }
}

/// Returns the name of a table that the import does not read, if a row is one of it.
fn unread_table(map: &Map<String, Value>) -> Option<&'static str> {
    let has = |field: &str| map.contains_key(field);
    let is_set = |field: &str| {
        map.get(field)
            .is_some_and(|value| !value.is_null() && value != "")
    };
    let is_key = has("token");
    if is_set("deleted_at") {
        return Some("deleted keys or teams");
    }
    if is_key {
        return None;
    }
    let of_user = is_set("user_id") && !OF_USERS.iter().any(|field| has(field));
    match () {
        () if has("tag_name") => Some("LiteLLM_TagTable"),
        () if has("project_id") => Some("LiteLLM_ProjectTable"),
        () if has("agent_id") => Some("LiteLLM_AgentsTable"),
        () if has("access_group_name") => Some("LiteLLM_ModelAccessGroupBudgetTable"),
        () if has("request_id") => Some("LiteLLM_SpendLogs"),
        () if has("allowed_model_region") || has("default_model") => Some("LiteLLM_EndUserTable"),
        () if of_user && !is_set("team_id") && is_set("organization_id") => {
            Some("LiteLLM_OrganizationMembership")
        }
        () if !is_set("user_id") && !is_set("team_id") && is_set("organization_id") => {
            Some("LiteLLM_OrganizationTable")
        }
        () => None,
    }
}
