//! LiteLLM's keys and whom they belong to: saved answers of `/key/list`, `/team/list` and
//! `/user/list`, or the rows of its database as JSON, one after the other.
//!
//! **Invariant:** of two rows about the same thing, none is preferred: rows that differ are an
//! error. A row of a table that the import does not know is one, too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use super::bound::Bounds;
use super::node::{Spot, json_node};
use super::rules::{Fate, Section, Shape, field_fate, is_off};
use crate::notes::{Finding, Findings, Grade};
use crate::{Bound, Given};
use portcullis::base::problem::{Problem, quote_safely};
use portcullis::base::units::format_count;
use portcullis::catalog::raw::Digest;
use portcullis::conf::yaml::Node;

/// All rows, each once.
pub(super) struct Rows<'r> {
    rows: HashMap<RowId<'r>, Spot<'r>>,
    /// The things that the rows are about, in the order of the files.
    ids: Vec<RowId<'r>>,
    pub(super) findings: &'r Findings,
    /// True if there is a row of a user as a member of a team.
    has_memberships: bool,
    /// The largest total of keys in an answer.
    pub(super) total: Option<Spot<'r>>,
}

/// Reads the values of a file. No error shows one.
pub(super) fn read_values(file: &Given) -> Result<Vec<Node<'static>>, Problem> {
    let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
    let values = serde_json::Deserializer::from_str(text).into_iter();
    let values: Result<Vec<Node<'_>>, _> = values.map(|value| value.map(json_node)).collect();
    match values {
        Ok(values) if values.is_empty() => Err(Problem::of_file(file.name.clone(), "is empty")),
        Ok(values) => Ok(values),
        // The reader's own words are about the grammar only; they are left out all the same.
        Err(error) => {
            let message = format!("is not JSON (column {})", error.column());
            Err(Problem {
                line: Some(error.line().max(1)),
                ..Problem::of_file(file.name.clone(), message)
            })
        }
    }
}

impl<'r> Rows<'r> {
    /// Takes the rows out of the values of all files. No error shows a value.
    pub(super) fn read(
        files: impl Iterator<Item = (&'r Given, &'r Vec<Node<'r>>)>,
        findings: &'r Findings,
    ) -> Result<Self, Problem> {
        let mut rows = Self {
            rows: HashMap::new(),
            ids: Vec::new(),
            findings,
            has_memberships: false,
            total: None,
        };
        for (file, values) in files {
            for (index, node) in values.iter().enumerate() {
                let mut value = Spot::root(&file.name, node, findings);
                if index > 0 {
                    value.path = format!("[{index}]");
                }
                rows.take_value(value, 0)?;
            }
        }
        Ok(rows)
    }

    pub(super) fn get(&self, id: RowId<'_>) -> Option<Spot<'r>> {
        self.rows.get(&id).cloned()
    }

    /// Returns the things that the rows are about, each with its row.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RowId<'r>, Spot<'r>)> {
        self.ids.iter().filter_map(|id| Some((*id, self.get(*id)?)))
    }

    /// Returns the budget of a key: in its row, or the one that it names.
    pub(super) fn budget_of(&self, key: &Spot<'r>) -> Option<Spot<'r>> {
        let own = key.filled("litellm_budget_table").filter(Spot::is_map);
        own.or_else(|| self.get(RowId::Budget(key.get_text("budget_id")?)))
    }

    /// Takes a value: a list of rows, an answer with such lists, or a row.
    fn take_value(&mut self, value: Spot<'r>, depth: usize) -> Result<(), Problem> {
        /// The most lists and maps inside each other. Rows need five.
        const MAX_DEPTH: usize = 6;
        const NAME: &str =
            "is only the name of a key: save the answer of /key/list with return_full_object=true";
        const NO_ROW: &str = "is no row of keys, teams, users or budgets: it has no `token`, `team_id`, `user_id` or `budget_id`";
        if depth > MAX_DEPTH {
            let message = "holds too many lists inside each other";
            return Err(Problem::of_file(value.file.to_owned(), message));
        }
        for item in value.items() {
            self.take_value(item, depth + 1)?;
        }
        if value.is_list() {
            return Ok(());
        }
        if Shape::Text.fits(&value) {
            return Err(value.problem(NAME));
        }
        if let Some(table) = unread_table(&value) {
            return Err(value.problem(format!(
                "is a row of {table}, which is not read: take these rows out of the files"
            )));
        }
        if let Some(id) = RowId::from_row(&value) {
            return self.add(id, value);
        }
        if value.has("token") {
            return Err(value.problem("`token` must be a text"));
        }
        let lists = ["keys", "teams", "users", "budgets"].map(|list| value.get(list));
        let mut lists = lists.into_iter().flatten().filter(Spot::is_list).peekable();
        if lists.peek().is_none() {
            return Err(value.problem(NO_ROW));
        }
        if let Some(total) = value.get("total_count").filter(|_| value.has("keys"))
            && total.whole() > self.total.as_ref().and_then(Spot::whole)
        {
            self.total = Some(total);
        }
        lists.try_for_each(|list| self.take_value(list, depth + 1))
    }

    /// Adds a row, once. Two rows that differ are an error, since only one of them can be right.
    fn add(&mut self, id: RowId<'r>, row: Spot<'r>) -> Result<(), Problem> {
        match self.rows.get(&id) {
            None => {
                self.has_memberships |= matches!(id, RowId::Membership { .. });
                self.ids.push(id);
                self.rows.insert(id, row);
                Ok(())
            }
            Some(known) if known.node.is_same(row.node) => Ok(()),
            Some(known) => Err(row.problem(format!(
                "is {id}, of which {} has another row: give each row once, in the newest file",
                known.format_place()
            ))),
        }
    }
}

impl Rows<'_> {
    /// Returns the bound of keys whose user is not in the files.
    pub(super) fn missing_user(&self) -> Bound {
        const WHY: &str = "names a user that is not in the files: save all pages of /user/list";
        // The second argument is the word of `--loosen` that drops the bound.
        Bound::with_reason("user_id", "users", WHY)
    }

    /// Adds the bounds that a team's key has because of its user: those of the user, and those of
    /// the user as a member of the team. None of them can be carried, since a key here has one
    /// caller.
    pub(super) fn bind_member(
        &self,
        key: &Spot<'_>,
        team: &str,
        is_budget_for_teams: bool,
        bounds: &mut Bounds,
    ) {
        const UNUSED_BUDGET: &str = "bounds no key of a team, since `apply_user_budget_to_team_keys` of `general_settings` is not set";
        let Some(user) = key.get_text("user_id") else {
            return;
        };
        match self.get(RowId::User(user)) {
            None => bounds.add(self.missing_user()),
            Some(row) => {
                bounds.add_row(Section::Member, &row, "user");
                match row.filled("max_budget") {
                    Some(_) if is_budget_for_teams => {
                        bounds.add(Bound::not_carried("user.max_budget", "users"));
                    }
                    Some(spot) => spot.report_approximate(UNUSED_BUDGET),
                    None => {}
                }
            }
        }
        let row = self.get(RowId::Team(team));
        let listed = row.as_ref().and_then(|row| row.get("team_memberships"));
        if listed.is_none() && !self.has_memberships {
            let source = match row {
                Some(row) => format!("the row of its team {} in {}", quote_safely(team), row.file),
                None => "the files".to_owned(),
            };
            let why = format!(
                "is not in {source}, and has what each member may use: save /team/list, or rows of LiteLLM_TeamMembership"
            );
            bounds.add(Bound::with_reason("team_memberships", "team-members", &why));
        }
        if listed.as_ref().is_some_and(|listed| !listed.is_list()) {
            bounds.add(Bound::unreadable("team_memberships"));
        }
        let listed = listed.iter().flat_map(Spot::items);
        for membership in listed.chain(self.get(RowId::Membership { team, user })) {
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
        let is_new = |spot: &Spot<'_>| is_unreported(spot, &reported);
        let mut counts: BTreeMap<&str, (usize, Finding)> = BTreeMap::new();
        for (id, row) in self.iter() {
            let section = match id {
                RowId::Key(_) => Section::KeyRow,
                RowId::Team(_) | RowId::User(_) => Section::TeamOrUserRow,
                RowId::Budget(_) | RowId::Membership { .. } => continue,
            };
            for (field, spot) in row.entries() {
                let (grade, message) = match field_fate(section, field) {
                    Fate::Info(..) if is_off(field, &spot) || !is_new(&spot) => continue,
                    Fate::Info(..) if field == "spend" && is_spend_carried => {
                        (Grade::Approximate, NOT_SPENT)
                    }
                    Fate::Info(grade, message) => (grade, message),
                    Fate::Nested(_) if spot.entries().iter().any(|(_, spot)| is_new(spot)) => {
                        (Grade::Unsupported, "what else is in it is left out")
                    }
                    Fate::Nested(_) | Fate::Carry | Fate::Bounds { .. } | Fate::Required => {
                        continue;
                    }
                };
                let entry = counts.entry(field);
                entry.or_insert_with(|| (0, spot.finding(grade, message))).0 += 1;
            }
        }
        for (count, finding) in counts.into_values() {
            let message = format!("in {}: {}", format_count(count, "row"), finding.message);
            findings.add(Finding { message, ..finding });
        }
    }
}

/// Returns whether a value that is not empty, or a part of it, has no finding.
fn is_unreported(spot: &Spot<'_>, reported: &HashSet<String>) -> bool {
    if spot.is_empty() || reported.contains(&spot.format_place()) {
        return false;
    }
    let entries = spot.entries();
    let mut parts = entries.iter();
    entries.is_empty() || parts.any(|(_, part)| is_unreported(part, reported))
}

/// The thing that a row is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RowId<'r> {
    Key(&'r str),
    Team(&'r str),
    User(&'r str),
    Budget(&'r str),
    /// A user as a member of a team.
    Membership {
        team: &'r str,
        user: &'r str,
    },
}

impl<'r> RowId<'r> {
    fn from_row(row: &Spot<'r>) -> Option<Self> {
        let id = |field: &str| row.get(field).filter(|spot| Shape::Text.fits(spot))?.text();
        if row.has("token") {
            return id("token").map(Self::Key);
        }
        match (id("user_id"), id("team_id")) {
            (Some(user), Some(team)) if !is_user(row) => Some(Self::Membership { team, user }),
            // A user's row names teams too, and a team's row no user.
            (Some(user), _) => Some(Self::User(user)),
            (None, Some(team)) => Some(Self::Team(team)),
            (None, None) => id("budget_id").map(Self::Budget),
        }
    }
}

/// Names the thing in a message. The name of a key without an alias has the first digits of its
/// hash, too.
impl fmt::Display for RowId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Key(token) => match (read_hash(token), token.get(..8)) {
                (Some(_), Some(digits)) => write!(f, "the key with the hash {digits}…"),
                (_, _) => f.write_str("a key"),
            },
            Self::Team(team) => write!(f, "team {}", quote_safely(team)),
            Self::User(user) => write!(f, "user {}", quote_safely(user)),
            Self::Budget(budget) => write!(f, "budget {}", quote_safely(budget)),
            Self::Membership { team, user } => {
                write!(f, "{} of {}", Self::User(user), Self::Team(team))
            }
        }
    }
}

/// Reads the hash of a key.
pub(super) fn read_hash(token: &str) -> Option<Digest> {
    format!("sha256:{token}").parse().ok()
}

/// Returns whether a row with a user's id is of a user, and not of a membership.
fn is_user(row: &Spot<'_>) -> bool {
    ["models", "max_budget", "teams", "metadata"]
        .iter()
        .any(|field| row.has(field))
}

/// Tables that the import does not read, each by a field that only its rows have.
const UNREAD: [(&str, &str); 7] = [
    ("tag_name", "LiteLLM_TagTable"),
    ("project_id", "LiteLLM_ProjectTable"),
    ("agent_id", "LiteLLM_AgentsTable"),
    ("access_group_name", "LiteLLM_ModelAccessGroupBudgetTable"),
    ("request_id", "LiteLLM_SpendLogs"),
    ("allowed_model_region", "LiteLLM_EndUserTable"),
    ("default_model", "LiteLLM_EndUserTable"),
];

/// Returns the name of a table that the import does not read, if a row is one of it.
fn unread_table(row: &Spot<'_>) -> Option<&'static str> {
    let [is_deleted, of_organization, of_team, of_user] =
        ["deleted_at", "organization_id", "team_id", "user_id"]
            .map(|field| row.filled(field).is_some());
    if is_deleted {
        return Some("deleted keys or teams");
    }
    if row.has("token") {
        return None;
    }
    if let Some((_, table)) = UNREAD.iter().find(|(field, _)| row.has(field)) {
        return Some(table);
    }
    match (of_organization && !of_team, of_user) {
        (true, true) if !is_user(row) => Some("LiteLLM_OrganizationMembership"),
        (true, false) => Some("LiteLLM_OrganizationTable"),
        (_, _) => None,
    }
}
