//! The walk over the fields of a map, and what of them bounds keys.

use std::collections::{BTreeMap, HashSet};

use super::bound::{Bound, add_bound};
use super::node::Spot;
use super::rows::{RowIn, Rows};
use super::rules::{Fate, Free, Section, Whose, is_off, rule_of};
use crate::notes::{Finding, Grade, join_path};
use portcullis::base::problem::quote_safely;

/// Where the bounds of a row go.
pub(super) struct Walk<'w> {
    pub(super) became: &'w str,
    pub(super) bounds: &'w mut Vec<Bound>,
    pub(super) findings: &'w mut Vec<Finding>,
}

impl Walk<'_> {
    /// Adds what bounds the keys of a row and cannot be carried. `prefix` is the path of the row in
    /// names.
    pub(super) fn row(&mut self, section: Section, row: &Spot<'_>, prefix: &str, is_key: bool) {
        for (field, spot) in row.entries() {
            let name = join_path(prefix, field);
            let (shape, fate) = rule_of(section, field, is_key);
            let bound = match fate {
                _ if !shape.fits(&spot) => Bound::unreadable(&name),
                Fate::Required if spot.flag() == Some(false) => Bound::firm(&name, "is false"),
                Fate::Bound(word, free, _) if !free.allows(field, &spot, row) => {
                    Bound::new(&name, word)
                }
                Fate::Bound(_, Free::Word(_), _) if !spot.is_empty() => {
                    self.findings
                        .push(spot.finding(Grade::Exact, self.became, ""));
                    continue;
                }
                Fate::Below(section) => {
                    self.row(section, &spot, &name, false);
                    continue;
                }
                Fate::Carry | Fate::Info(..) | Fate::Bound(..) | Fate::Required => continue,
            };
            self.findings
                .push(spot.finding(Grade::Unsupported, self.became, bound.why.clone()));
            add_bound(self.bounds, bound);
        }
    }
}

/// Returns what a setting of the file bounds for which keys, if it bounds any.
pub(super) fn setting_bound(
    section: Section,
    spot: &Spot<'_>,
    key: &str,
) -> Option<(Whose, Bound)> {
    let (_, Fate::Bound(word, free, whose)) = rule_of(section, key, false) else {
        return None;
    };
    (!free.allows(key, spot, spot)).then(|| (whose, Bound::new(&spot.path, word)))
}

/// Reports each field that bounds nothing once, and what was spent.
pub(super) fn summarize_rows(rows: &Rows, is_spend_carried: bool, findings: &mut Vec<Finding>) {
    let all = rows
        .keys
        .iter()
        .map(|row| (row, true))
        .chain(rows.teams.iter().map(|(_, row)| (row, false)))
        .chain(rows.users.values().map(|row| (row, false)));
    let mut counts: BTreeMap<&str, (usize, &str, Finding)> = BTreeMap::new();
    let reported: HashSet<(String, String)> = findings
        .iter()
        .map(|finding| (finding.file.clone(), finding.path.clone()))
        .collect();
    let is_new = |spot: &Spot<'_>| {
        !spot.is_empty() && !reported.contains(&(spot.file.to_owned(), spot.path.clone()))
    };
    for (row, is_key) in all {
        for (field, spot) in row.spot().entries() {
            let message = match rule_of(Section::Row, field, is_key).1 {
                Fate::Info(_, message) if !is_off(field, &spot) && is_new(&spot) => message,
                Fate::Below(_) if spot.entries().iter().any(|(_, spot)| is_new(spot)) => {
                    "what else is in it is left out"
                }
                Fate::Info(..)
                | Fate::Below(_)
                | Fate::Carry
                | Fate::Bound(..)
                | Fate::Required => continue,
            };
            let finding = || (0, message, spot.finding(Grade::Unsupported, "", ""));
            counts.entry(field).or_insert_with(finding).0 += 1;
        }
    }
    for (field, (count, message, finding)) in counts {
        let (grade, message) = match field {
            "spend" if is_spend_carried => (
                Grade::Approximate,
                "was not spent from a budget that is carried, so no limit counts it",
            ),
            _ => (Grade::Unsupported, message),
        };
        let message = format!("in {count} rows: {message}");
        findings.push(Finding {
            grade,
            message,
            ..finding
        });
    }
}

/// Adds what bounds a key of a team because of its user, and of what the user may use as a member.
/// None of it can be carried, since a key here has one caller.
pub(super) fn member_bounds(
    walk: &mut Walk<'_>,
    key: &Spot<'_>,
    team: &str,
    rows: &Rows,
    is_budget_for_teams: bool,
) {
    let user = key.get("user_id").filter(|spot| !spot.is_empty());
    let Some(user) = user.as_ref().and_then(Spot::text) else {
        return;
    };
    walk.became = "";
    match rows.users.get(user).map(RowIn::spot) {
        None => add_bound(walk.bounds, rows.no_user()),
        Some(row) => {
            walk.row(Section::Member, &row, "user", false);
            match row.get("max_budget").filter(|spot| !spot.is_empty()) {
                Some(_) if is_budget_for_teams => {
                    add_bound(walk.bounds, Bound::new("user.max_budget", "users"));
                }
                Some(spot) => walk.findings.push(spot.finding(
                    Grade::Approximate,
                    "",
                    "bounds no key of a team, since `apply_user_budget_to_team_keys` of `general_settings` is not set",
                )),
                None => {}
            }
        }
    }
    let listed = rows
        .team(team)
        .and_then(|row| row.spot().get("team_memberships"));
    let of_files = rows.memberships.get(&(team.to_owned(), user.to_owned()));
    if listed.is_none() && rows.memberships.is_empty() {
        let source = match rows.team(team) {
            Some(row) => format!(
                "the row of its team {} in {}",
                quote_safely(team),
                row.spot().file
            ),
            None => "the files".to_owned(),
        };
        let why = format!(
            "is not in {source}, and has what each member may use: save /team/list, or rows of LiteLLM_TeamMembership"
        );
        let bound = Bound::because("team_memberships", "team-members", &why);
        add_bound(walk.bounds, bound);
        return;
    }
    if listed.as_ref().is_some_and(|listed| !listed.is_list()) {
        add_bound(walk.bounds, Bound::unreadable("team_memberships"));
    }
    let all = listed
        .iter()
        .flat_map(Spot::items)
        .chain(of_files.map(RowIn::spot));
    for membership in all {
        // One that does not name its user may be this user's.
        let owner = membership.get("user_id");
        if owner.is_none_or(|owner| owner.text().is_none_or(|id| id == user)) {
            walk.row(Section::Membership, &membership, "team_memberships", false);
        }
    }
}
