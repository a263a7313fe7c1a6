//! LiteLLM's keys and whom they belong to: saved answers of `/key/list`, `/team/list` and
//! `/user/list`, or the rows of its database as JSON, one after the other.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::node::{At, of_json};
use crate::base::problem::Problem;
use crate::conf::yaml::Node;
use crate::import::Given;
use crate::import::notes::step;

/// A row, with its place.
pub(super) struct RowIn {
    file: String,
    path: String,
    node: Node<'static>,
}

impl RowIn {
    pub(super) fn at(&self) -> At<'_> {
        At { path: self.path.clone(), ..At::root(&self.file, &self.node) }
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
    /// Keys that were met a second time.
    pub(super) doubles: Vec<RowIn>,
    /// The largest number of keys that an answer says there are.
    pub(super) total: Option<u64>,
    /// The file that says it.
    pub(super) total_in: String,
    seen: HashSet<String>,
    team_places: HashMap<String, usize>,
}

impl Rows {
    pub(super) fn team(&self, id: &str) -> Option<&RowIn> {
        self.team_places.get(id).and_then(|place| self.teams.get(*place)).map(|(_, row)| row)
    }
}

/// The most lists and maps inside each other. Rows need five.
const DEEPEST: usize = 6;

/// Reads all files. No error shows a value.
pub(super) fn read(files: &[Given]) -> Result<Rows, Problem> {
    let mut rows = Rows::default();
    for file in files {
        let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
        let mut is_empty = true;
        for (index, value) in serde_json::Deserializer::from_str(text).into_iter::<Value>().enumerate() {
            // The reader's own words are about the grammar only; they are left out all the same.
            let value = value.map_err(|error| Problem {
                line: Some(error.line().max(1)),
                ..Problem::of_file(file.name.clone(), format!("is not JSON (column {})", error.column()))
            })?;
            is_empty = false;
            let path = if index == 0 { String::new() } else { format!("[{index}]") };
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
    fn take(&mut self, file: &str, path: String, value: Value, depth: usize) -> Result<(), Problem> {
        let wrong =
            |path: &str, what: &str| Problem { path: path.to_owned(), ..Problem::of_file(file.to_owned(), what) };
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
                const WHAT: &str =
                    "is only the name of a key: save the answer of /key/list with return_full_object=true";
                return Err(wrong(&path, WHAT));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                return Err(wrong(&path, "is no row of keys, teams, users or budgets"));
            }
        };
        let id = |field: &str| map.get(field).and_then(Value::as_str).map(str::to_owned);
        let (token, user, team, budget) = (id("token"), id("user_id"), id("team_id"), id("budget_id"));
        let is_key = map.contains_key("token");
        for list in ["keys", "teams", "users", "budgets"] {
            if !is_key
                && user.is_none()
                && team.is_none()
                && budget.is_none()
                && map.get(list).is_some_and(Value::is_array)
            {
                if let Some(total) = map.get("total_count").and_then(Value::as_u64).filter(|_| list == "keys")
                    && self.total.is_none_or(|before| before < total)
                {
                    self.total = Some(total);
                    file.clone_into(&mut self.total_in);
                }
                let inner = map.remove(list).unwrap_or_default();
                return self.take(file, step(&path, list), inner, depth + 1);
            }
        }
        let row = |map| RowIn { file: file.to_owned(), path: path.clone(), node: of_json(Value::Object(map)) };
        match (is_key, user, team, budget) {
            (true, ..) => {
                let token = token.ok_or_else(|| wrong(&path, "`token` must be a text"))?;
                if self.seen.insert(token) {
                    self.keys.push(row(map));
                } else {
                    self.doubles.push(row(map));
                }
            }
            // A user's row names teams too, and a team's row no user.
            (false, Some(user), ..) => {
                self.users.insert(user, row(map));
            }
            (false, None, Some(team), _) => {
                let row = row(map);
                match self.team_places.get(&team).and_then(|place| self.teams.get_mut(*place)) {
                    Some((_, known)) => *known = row,
                    None => {
                        self.team_places.insert(team.clone(), self.teams.len());
                        self.teams.push((team, row));
                    }
                }
            }
            (false, None, None, Some(budget)) => {
                self.budgets.insert(budget, row(map));
            }
            (false, None, None, None) => {
                const WHAT: &str = "is no row of keys, teams, users or budgets: it has no `token`, `team_id`, `user_id` or `budget_id`";
                return Err(wrong(&path, WHAT));
            }
        }
        Ok(())
    }
}
