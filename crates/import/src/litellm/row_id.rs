//! What a row of LiteLLM's database is about, and of which table it is: it shows by its fields.

use std::fmt;

use serde_json::{Map, Value};

use portcullis::base::problem::quote_safely;

/// The thing that a row is about.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum RowId {
    Key(String),
    Team(String),
    User(String),
    Budget(String),
    /// A user as a member of a team.
    Membership {
        team: String,
        user: String,
    },
}

/// Fields that users have and memberships have not.
const OF_USERS: [&str; 4] = ["models", "max_budget", "teams", "metadata"];

impl RowId {
    pub(super) fn from_row(row: &Map<String, Value>) -> Option<Self> {
        let id = |field: &str| row.get(field).and_then(Value::as_str).map(str::to_owned);
        let is_user = OF_USERS.iter().any(|field| row.contains_key(*field));
        if row.contains_key("token") {
            return id("token").map(Self::Key);
        }
        match (id("user_id"), id("team_id")) {
            (Some(user), Some(team)) if !is_user => Some(Self::Membership { team, user }),
            // A user's row names teams too, and a team's row no user.
            (Some(user), _) => Some(Self::User(user)),
            (None, Some(team)) => Some(Self::Team(team)),
            (None, None) => id("budget_id").map(Self::Budget),
        }
    }
}

/// Names the thing in a message. The name of a key without an alias has the first digits of its
/// hash, too.
impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(token) if is_hash(token) => {
                write!(
                    f,
                    "the key with the hash {}…",
                    token.get(..8).unwrap_or_default()
                )
            }
            Self::Key(_) => f.write_str("a key"),
            Self::Team(team) => write!(f, "team {}", quote_safely(team)),
            Self::User(user) => write!(f, "user {}", quote_safely(user)),
            Self::Budget(budget) => write!(f, "budget {}", quote_safely(budget)),
            Self::Membership { team, user } => {
                write!(
                    f,
                    "user {} of team {}",
                    quote_safely(user),
                    quote_safely(team)
                )
            }
        }
    }
}

/// Returns whether a token is the hash of a key.
pub(super) fn is_hash(token: &str) -> bool {
    token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit())
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
pub(super) fn unread_table(row: &Map<String, Value>) -> Option<&'static str> {
    let [is_deleted, of_organization, of_team, of_user] =
        ["deleted_at", "organization_id", "team_id", "user_id"].map(|field| is_set(row, field));
    if is_deleted {
        return Some("deleted keys or teams");
    }
    if row.contains_key("token") {
        return None;
    }
    if let Some((_, table)) = UNREAD.iter().find(|(field, _)| row.contains_key(*field)) {
        return Some(table);
    }
    let is_user = OF_USERS.iter().any(|field| row.contains_key(*field));
    match (of_organization && !of_team, of_user) {
        (true, true) if !is_user => Some("LiteLLM_OrganizationMembership"),
        (true, false) => Some("LiteLLM_OrganizationTable"),
        (_, _) => None,
    }
}

fn is_set(row: &Map<String, Value>, field: &str) -> bool {
    row.get(field)
        .is_some_and(|value| !value.is_null() && value != "")
}
