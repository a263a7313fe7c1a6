//! The walk over the fields of a map, and what of them bounds keys.

use std::collections::{BTreeMap, HashSet};

use super::limits::LimitsOut;
use super::node::At;
use super::rows::{RowIn, Rows};
use super::rules::{Fate, Free, Section, Whose, is_off, rule_of};
use crate::notes::{Finding, Grade, step};
use portcullis::base::problem::quote_safely;

/// A bound that cannot be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    /// The field, under which `--loosen` drops it.
    pub(super) field: String,
    /// The word that drops it, too; `None` if nothing drops it.
    pub(super) word: Option<&'static str>,
    /// The reason.
    pub(super) why: String,
}

impl Bound {
    pub(super) fn new(field: &str, word: &'static str) -> Self {
        Self::because(field, word, "cannot be carried")
    }

    /// Makes a bound whose reason is more than its field.
    pub(super) fn because(field: &str, word: &'static str, why: &str) -> Self {
        Self {
            word: Some(word),
            ..Self::firm(field, why)
        }
    }

    /// Makes a bound that nothing drops.
    pub(super) fn firm(field: &str, why: &str) -> Self {
        Self {
            field: field.to_owned(),
            word: None,
            why: format!("`{field}` {why}"),
        }
    }

    pub(super) fn unreadable(field: &str) -> Self {
        Self::firm(field, "cannot be read")
    }

    /// Says what such a field of the file does to keys.
    pub(super) fn describe(&self, whose: &str) -> String {
        format!(
            "has no counterpart. It bounds {whose}, which are switched off unless `--loosen {}` drops it",
            self.field
        )
    }
}

/// Where the bounds of a row go.
pub(super) struct Walk<'w> {
    pub(super) became: &'w str,
    pub(super) limits: &'w mut LimitsOut,
    pub(super) findings: &'w mut Vec<Finding>,
}

impl Walk<'_> {
    /// Adds what bounds the keys of a row and cannot be carried. `prefix` is the path of the row in
    /// names.
    pub(super) fn row(&mut self, section: Section, row: &At<'_>, prefix: &str, is_key: bool) {
        for (field, at) in row.entries() {
            let name = step(prefix, field);
            let (shape, fate) = rule_of(section, field, is_key);
            let bound = match fate {
                _ if !shape.fits(&at) => Bound::unreadable(&name),
                Fate::Required if at.flag() == Some(false) => Bound::firm(&name, "is false"),
                Fate::Bound(word, free, _) if !free.allows(field, &at, row) => {
                    Bound::new(&name, word)
                }
                Fate::Bound(_, Free::Word(_), _) if !at.is_empty() => {
                    self.findings
                        .push(at.finding(Grade::Exact, self.became, ""));
                    continue;
                }
                Fate::Below(section) => {
                    self.row(section, &at, &name, false);
                    continue;
                }
                Fate::Carry | Fate::Info(..) | Fate::Bound(..) | Fate::Required => continue,
            };
            self.findings
                .push(at.finding(Grade::Unsupported, self.became, bound.why.clone()));
            self.limits.stop(bound);
        }
    }
}

/// Returns what a setting of the file bounds for which keys, if it bounds any.
pub(super) fn setting_bound(section: Section, at: &At<'_>, key: &str) -> Option<(Whose, Bound)> {
    let (_, Fate::Bound(word, free, whose)) = rule_of(section, key, false) else {
        return None;
    };
    (!free.allows(key, at, at)).then(|| (whose, Bound::new(&at.path, word)))
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
    let is_new =
        |at: &At<'_>| !at.is_empty() && !reported.contains(&(at.file.to_owned(), at.path.clone()));
    for (row, is_key) in all {
        for (field, at) in row.at().entries() {
            let what = match rule_of(Section::Row, field, is_key).1 {
                Fate::Info(_, what) if !is_off(field, &at) && is_new(&at) => what,
                Fate::Below(_) if at.entries().iter().any(|(_, at)| is_new(at)) => {
                    "what else is in it is left out"
                }
                _ => continue,
            };
            let finding = || (0, what, at.finding(Grade::Unsupported, "", ""));
            counts.entry(field).or_insert_with(finding).0 += 1;
        }
    }
    for (field, (count, what, finding)) in counts {
        let (grade, what) = match field {
            "spend" if is_spend_carried => (
                Grade::Approximate,
                "was not spent from a budget that is carried, so no limit counts it",
            ),
            _ => (Grade::Unsupported, what),
        };
        let what = format!("in {count} rows: {what}");
        findings.push(Finding {
            grade,
            what,
            ..finding
        });
    }
}

/// Adds what bounds a key of a team because of its user, and of what the user may use as a member.
/// None of it can be carried, since a key here has one caller.
pub(super) fn member_bounds(
    walk: &mut Walk<'_>,
    key: &At<'_>,
    team: &str,
    rows: &Rows,
    is_budget_for_teams: bool,
) {
    let user = key.get("user_id").filter(|at| !at.is_empty());
    let Some(user) = user.as_ref().and_then(At::text) else {
        return;
    };
    walk.became = "";
    match rows.users.get(user).map(RowIn::at) {
        None => walk.limits.stop(rows.no_user()),
        Some(row) => {
            walk.row(Section::Member, &row, "user", false);
            match row.get("max_budget").filter(|at| !at.is_empty()) {
                Some(_) if is_budget_for_teams => {
                    walk.limits.stop(Bound::new("user.max_budget", "users"));
                }
                Some(at) => walk.findings.push(at.finding(
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
        .and_then(|row| row.at().get("team_memberships"));
    let of_files = rows.memberships.get(&(team.to_owned(), user.to_owned()));
    if listed.is_none() && rows.memberships.is_empty() {
        let place = match rows.team(team) {
            Some(row) => format!(
                "the row of its team {} in {}",
                quote_safely(team),
                row.at().file
            ),
            None => "the files".to_owned(),
        };
        let why = format!(
            "is not in {place}, and has what each member may use: save /team/list, or rows of LiteLLM_TeamMembership"
        );
        let bound = Bound::because("team_memberships", "team-members", &why);
        walk.limits.stop(bound);
        return;
    }
    if listed.as_ref().is_some_and(|listed| !listed.is_list()) {
        walk.limits.stop(Bound::unreadable("team_memberships"));
    }
    let all = listed
        .iter()
        .flat_map(At::items)
        .chain(of_files.map(RowIn::at));
    for membership in all {
        // One that does not name its user may be this user's.
        let of = membership.get("user_id");
        if of.is_none_or(|of| of.text().is_none_or(|of| of == user)) {
            walk.row(Section::Membership, &membership, "team_memberships", false);
        }
    }
}
