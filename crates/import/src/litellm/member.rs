//! What bounds a key of a team beside its own row and its team's: its user, and what the user may
//! use as a member of the team. None of it can be carried, since a key here has one caller.

use super::fields::is_readable;
use super::limits::LimitsOut;
use super::loosen::{Bound, Loosen};
use super::node::At;
use super::rows::{RowIn, Rows};
use super::settings::Common;
use crate::notes::{Finding, Grade};
use portcullis::base::problem::quote_safely;

/// Fields of a membership that bound nothing.
const FREE: [&str; 4] = ["user_id", "team_id", "spend", "total_spend"];

/// Adds what bounds a key of a team because of its user.
pub(super) fn bounds(
    key: &At<'_>,
    team: &str,
    (rows, common): (&Rows, &Common),
    limits: &mut LimitsOut,
    findings: &mut Vec<Finding>,
) {
    let user = key.get("user_id").filter(|at| !at.is_empty());
    let Some(user) = user.as_ref().and_then(At::text) else {
        return;
    };
    match rows.users.get(user).map(RowIn::at) {
        Some(row) => of_user(&row, common, limits, findings),
        None => {
            limits.stop(Bound::new(Loosen::Users, rows.no_user()));
        }
    }
    let row = rows.team(team).map(RowIn::at);
    let listed = row.as_ref().and_then(|row| row.get("team_memberships"));
    let of_files = rows.memberships.get(&(team.to_owned(), user.to_owned()));
    if listed.is_none() && rows.memberships.is_empty() {
        limits.stop(Bound::new(
            Loosen::TeamMembers,
            without_memberships(row.as_ref(), team),
        ));
        return;
    }
    if listed.as_ref().is_some_and(|listed| !listed.is_list()) {
        limits.stop(Bound::unreadable("team_memberships"));
    }
    let all = listed
        .iter()
        .flat_map(At::items)
        .chain(of_files.map(RowIn::at));
    // A membership that does not say whose it is may be this user's.
    let is_whose = |at: &At<'_>| {
        at.get("user_id")
            .is_none_or(|of| of.text().is_none_or(|of| of == user))
    };
    let is_bounded = |at: At<'_>| {
        at.entries()
            .iter()
            .any(|(field, at)| !FREE.contains(field) && !at.is_empty())
    };
    if all.filter(is_whose).any(is_bounded) {
        limits.stop(Bound::new(
            Loosen::TeamMembers,
            "its user has a budget or models as a member of its team",
        ));
    }
}

/// Returns the reason that stops a key whose team does not say what its members may use.
fn without_memberships(row: Option<&At<'_>>, team: &str) -> String {
    let team = quote_safely(team);
    match row {
        Some(row) => format!(
            "the row of its team {team} in {} has no field `team_memberships`, which says what each member may use: \
             save /team/list, or rows of LiteLLM_TeamMembership",
            row.file
        ),
        None => {
            format!(
                "no file has its team {team}, with what the members may use (`team_memberships`): save /team/list"
            )
        }
    }
}

/// Adds what a user's row says about keys of teams.
fn of_user(user: &At<'_>, common: &Common, limits: &mut LimitsOut, findings: &mut Vec<Finding>) {
    for field in [
        "metadata",
        "rpm_limit",
        "tpm_limit",
        "model_max_budget",
        "max_budget",
    ] {
        let Some(at) = user.get(field) else { continue };
        if !is_readable(field, &at) {
            limits.stop(Bound::unreadable(field));
        } else if field == "metadata" {
            if at
                .get("scim_active")
                .is_some_and(|at| at.flag() == Some(false))
            {
                limits.stop(Bound {
                    loosen: None,
                    why: "its user is not active".to_owned(),
                });
            }
        } else if at.is_empty() {
            continue;
        } else if field == "max_budget" && !common.is_user_budget_for_teams {
            const WHAT: &str = "bounds no key of a team, since `apply_user_budget_to_team_keys` of `general_settings` is not set";
            findings.push(at.finding(Grade::Approximate, "", WHAT));
        } else {
            let why = format!("its user has `{field}`, which bounds keys of teams, too");
            limits.stop(Bound::new(Loosen::Users, why));
        }
    }
}
