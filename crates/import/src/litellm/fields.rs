//! The fields of rows that are no limits: those that bound a key, and those that do not.

use std::collections::{BTreeMap, HashSet};

use super::limits::LimitsOut;
use super::loosen::{Bound, Loosen};
use super::node::At;
use super::rows::{RowKind, Rows};
use crate::notes::{Finding, Grade};
use portcullis::conf::yaml::Value;

/// Fields that other code reads.
const READ: [&str; 27] = [
    "token",
    "key_alias",
    "team_id",
    "team_alias",
    "user_id",
    "user_alias",
    "models",
    "expires",
    "blocked",
    "rpm_limit",
    "tpm_limit",
    "tpd_limit",
    "max_parallel_requests",
    "max_budget",
    "budget_duration",
    "budget_limits",
    "model_max_budget",
    "rpm_limit_per_model",
    "tpm_limit_per_model",
    "model_rpm_limit",
    "model_tpm_limit",
    "budget_id",
    "litellm_budget_table",
    "team_memberships",
    "metadata",
    "api_key",
    "key_name",
];

/// Fields that bound nobody here: information, and what concerns things that Portcullis has not.
const INFORMATION: [&str; 56] = [
    "access_group_ids",
    "admins",
    "agent_caller",
    "allow_team_guardrail_config",
    "allowed_cache_controls",
    "auto_rotate",
    "budget_fallbacks",
    "budget_reset_at",
    "created_at",
    "created_by",
    "created_by_user",
    "default_team_member_models",
    "end_user_id",
    "is_session_token",
    "jwt_claims",
    "key_count",
    "key_rotation_at",
    "keys",
    "last_active",
    "last_breach_check_at",
    "last_refreshed_at",
    "last_rotation_at",
    "litellm_organization_table",
    "litellm_changed_by",
    "members",
    "members_count",
    "members_with_roles",
    "model_spend",
    "organization_alias",
    "organization_memberships",
    "parent_otel_span",
    "password",
    "password_reset_required",
    "project_alias",
    "request_route",
    "requires_fresh_policy",
    "rotation_count",
    "rotation_interval",
    "router_settings",
    "settings_updated_at",
    "soft_budget",
    "soft_budget_cooldown",
    "spend",
    "sso_user_id",
    "team_member",
    "team_member_permissions",
    "team_member_spend",
    "teams",
    "total_spend",
    "updated_at",
    "updated_by",
    "user",
    "user_email",
    "user_role",
    "via_virtual_key",
    "organization_metadata",
];

/// Fields of a budget that bound nobody: information, and what widens.
const OF_BUDGET: [&str; 16] = [
    "budget_id",
    "max_budget",
    "budget_duration",
    "budget_reset_at",
    "rpm_limit",
    "tpm_limit",
    "tpd_limit",
    "max_parallel_requests",
    "model_max_budget",
    "soft_budget",
    "temp_budget_increase",
    "temp_budget_expiry",
    "created_at",
    "created_by",
    "updated_at",
    "updated_by",
];

/// Returns whether a value of a field that is known here has the type that it has in LiteLLM. A
/// text may be empty where something else is expected, since some ways to save rows write null so.
pub(super) fn is_readable(field: &str, at: &At<'_>) -> bool {
    let is_text = matches!(at.node.value, Value::Quoted(_));
    let is_empty_text = is_text && at.is_empty();
    match field {
        "team_id" | "user_id" | "org_id" | "organization_id" | "project_id" | "agent_id"
        | "budget_id" | "budget_duration" | "key_type" => is_text,
        "rpm_limit" | "tpm_limit" | "tpd_limit" | "max_parallel_requests" | "max_budget" => {
            at.text().is_some()
        }
        "blocked" => is_empty_text || at.flag().is_some(),
        "expires" | "budget_reset_at" => is_empty_text || at.time().is_some(),
        "models" | "budget_limits" | "allowed_routes" | "policies" | "team_memberships" => {
            is_empty_text || at.is_list()
        }
        "metadata"
        | "model_max_budget"
        | "rpm_limit_per_model"
        | "tpm_limit_per_model"
        | "model_rpm_limit"
        | "model_tpm_limit"
        | "litellm_budget_table"
        | "litellm_model_table"
        | "aliases"
        | "model_aliases"
        | "team_model_aliases"
        | "router_settings" => is_empty_text || at.is_map(),
        _ => true,
    }
}

/// Adds what bounds the keys of a budget beside its limits.
pub(super) fn of_budget(
    budget: &At<'_>,
    became: &str,
    limits: &mut LimitsOut,
    findings: &mut Vec<Finding>,
) {
    for (field, at) in budget.entries() {
        let bound = if !is_readable(field, &at) {
            Bound::unreadable(field)
        } else if OF_BUDGET.contains(&field) || at.is_empty() || is_off(field, &at) {
            continue;
        } else {
            Bound::new(
                Loosen::UnknownFields,
                "its budget has a field that Portcullis does not know",
            )
        };
        findings.push(at.finding(Grade::Unsupported, became, bound.why.clone()));
        limits.stop(bound);
    }
}

/// Beginnings of fields that repeat what the row of the team, the user or the organization says.
const REPEATED: [&str; 4] = ["team_", "user_", "end_user_", "organization_"];

/// Adds what bounds the keys of a row and cannot be carried.
pub(super) fn bounds(
    row: &At<'_>,
    kind: RowKind,
    became: &str,
    limits: &mut LimitsOut,
    findings: &mut Vec<Finding>,
) {
    for (field, at) in row.entries() {
        if !is_readable(field, &at) {
            let bound = Bound::unreadable(field);
            findings.push(at.finding(Grade::Unsupported, became, bound.why.clone()));
            limits.stop(bound);
            continue;
        }
        if at.is_empty() || is_off(field, &at) || READ.contains(&field) && field != "metadata" {
            continue;
        }
        let bound = match field {
            "metadata" => {
                metadata(&at, became, limits, findings);
                continue;
            }
            "allowed_routes" => {
                let all = at.items();
                let is_free = all
                    .iter()
                    .any(|route| route.text() == Some("llm_api_routes"));
                if is_free && at.is_list() {
                    findings.push(at.finding(Grade::Exact, became, ""));
                    continue;
                }
                Bound::new(
                    Loosen::Routes,
                    "it may call some paths only (`allowed_routes`)",
                )
            }
            "key_type" => match at.text() {
                Some("default" | "llm_api") => {
                    findings.push(at.finding(Grade::Exact, became, ""));
                    continue;
                }
                _ => Bound::new(
                    Loosen::Routes,
                    "it is a key for LiteLLM's own API (`key_type`)",
                ),
            },
            "org_id" | "organization_id" => {
                Bound::new(Loosen::Organizations, "an organization bounds it, too")
            }
            "project_id" => Bound::new(Loosen::Projects, "a project bounds it, too"),
            "agent_id" => Bound::new(Loosen::Agents, "an agent bounds it, too"),
            "policies" => Bound::new(Loosen::Guardrails, "policies check its requests"),
            "aliases" | "model_aliases" | "team_model_aliases" => {
                Bound::new(Loosen::Aliases, ALIASES)
            }
            // The team's row names the table of its aliases, and may hold it.
            "litellm_model_table" | "model_id" => {
                let table = row.get("litellm_model_table").filter(At::is_map);
                let names = ["aliases", "model_aliases"];
                let is_none = |table: At<'_>| {
                    names
                        .iter()
                        .all(|name| table.get(name).is_none_or(|at| at.is_empty()))
                };
                if table.is_some_and(is_none) {
                    continue;
                }
                Bound::new(Loosen::Aliases, ALIASES)
            }
            "router_settings" => match of_router_settings(&at) {
                Some(bound) => bound,
                None => continue,
            },
            "permissions" => match of_permissions(&at) {
                Some(bound) => bound,
                None => continue,
            },
            "object_permission" => match of_object_permission(&at) {
                Some(bound) => bound,
                None => continue,
            },
            // The row that it names may be beside it.
            "object_permission_id"
                if row.get("object_permission").is_some_and(|at| at.is_map()) =>
            {
                continue;
            }
            "object_permission_id" => Bound::new(
                Loosen::UnknownFields,
                "a row of permissions bounds it, which is not in the files (`object_permission_id`)",
            ),
            "config" => Bound::new(
                Loosen::UnknownFields,
                "it has models and settings of its own (`config`)",
            ),
            "team_member_tpm_limit" | "team_member_rpm_limit" => {
                Bound::new(Loosen::TeamMembers, "each member of its team has limits")
            }
            _ if INFORMATION.contains(&field) => continue,
            _ if kind == RowKind::Key && REPEATED.iter().any(|begin| field.starts_with(begin)) => {
                continue;
            }
            _ => Bound::new(
                Loosen::UnknownFields,
                "it has a field that Portcullis does not know",
            ),
        };
        findings.push(at.finding(Grade::Unsupported, became, bound.why.clone()));
        limits.stop(bound);
    }
}

/// Why aliases bound a key.
const ALIASES: &str =
    "models have other names for it alone (`aliases`): write `aliases` at the models";
const ROUTER_ALIASES: &str =
    "models have other names for it alone (`model_group_alias`): write `aliases` at the models";

/// The settings of the router for one key that choose other targets, with what drops each. The
/// others say how often and how long LiteLLM tries.
const OF_ROUTER: [(&str, Loosen, &str); 6] = [
    ("model_group_alias", Loosen::Aliases, ROUTER_ALIASES),
    ("fallbacks", Loosen::Aliases, ROUTER_FALLBACKS),
    (
        "context_window_fallbacks",
        Loosen::Aliases,
        ROUTER_FALLBACKS,
    ),
    (
        "content_policy_fallbacks",
        Loosen::Aliases,
        ROUTER_FALLBACKS,
    ),
    (
        "enable_tag_filtering",
        Loosen::Tags,
        "deployments are chosen for it by tags",
    ),
    (
        "weights",
        Loosen::UnknownFields,
        "deployments have other weights for it alone (`router_settings.weights`)",
    ),
];
const ROUTER_FALLBACKS: &str = "other models stand in for its models alone (`router_settings`)";

/// Returns what the router's settings of a key bound.
fn of_router_settings(at: &At<'_>) -> Option<Bound> {
    let has = |key: &str| {
        at.get(key)
            .is_some_and(|at| !at.is_empty() && at.flag() != Some(false))
    };
    let (_, loosen, why) = OF_ROUTER.iter().find(|(key, _, _)| has(key))?;
    Some(Bound::new(*loosen, *why))
}

/// Returns what the permissions of a key bound: LiteLLM runs the guardrails that they name.
fn of_permissions(at: &At<'_>) -> Option<Bound> {
    const NO_GUARDRAILS: [&str; 3] = [
        "get_spend_routes",
        "allow_pii_controls",
        "allow_client_side_credentials",
    ];
    let names_guardrail = |(name, on): &(&str, At<'_>)| {
        !NO_GUARDRAILS.contains(name) && !on.is_empty() && on.flag() != Some(false)
    };
    let is_bounded = !at.is_map() || at.entries().iter().any(names_guardrail);
    is_bounded.then(|| {
        Bound::new(
            Loosen::Guardrails,
            "guardrails check its requests (`permissions`)",
        )
    })
}

/// Returns what a row of permissions bounds. Most of it is about servers of tools, stores of
/// vectors and agents, which are not here.
fn of_object_permission(at: &At<'_>) -> Option<Bound> {
    const FREE: [&str; 13] = [
        "object_permission_id",
        "mcp_servers",
        "mcp_access_groups",
        "mcp_tool_permissions",
        "mcp_toolsets",
        "mcp_tool_search_enabled",
        "vector_stores",
        "agents",
        "agent_access_groups",
        "search_tools",
        "skills",
        "created_at",
        "updated_at",
    ];
    if !at.is_map() {
        return Some(Bound::unreadable("object_permission"));
    }
    let (field, _) = at
        .entries()
        .into_iter()
        .find(|(field, at)| !FREE.contains(field) && !at.is_empty())?;
    let why = match field {
        "blocked_tools" => "some tools are kept from it (`object_permission.blocked_tools`)",
        "models" => {
            "a row of permissions says which models it may use (`object_permission.models`)"
        }
        _ => "its row of permissions has a field that Portcullis does not know",
    };
    Some(Bound::new(Loosen::UnknownFields, why))
}

/// Returns whether a value switches nothing on. A text may be an id.
fn is_off(field: &str, at: &At<'_>) -> bool {
    if !matches!(at.node.value, Value::Plain(_)) {
        return false;
    }
    // A limit of nothing forbids everything.
    let is_limit = ["limit", "budget", "max"]
        .iter()
        .any(|part| field.contains(part));
    matches!(at.text(), Some("false")) || (!is_limit && matches!(at.text(), Some("0" | "0.0")))
}

/// Adds what `metadata` bounds. Most of it is the operator's own.
fn metadata(at: &At<'_>, became: &str, limits: &mut LimitsOut, findings: &mut Vec<Finding>) {
    if !at.is_map() {
        limits.stop(Bound::unreadable("metadata"));
        return;
    }
    for (field, at) in at.entries() {
        if at.is_empty() {
            continue;
        }
        let bound = match field {
            "model_rpm_limit" | "model_tpm_limit" | "rpm_limit_type" | "tpm_limit_type"
            | "mcp_rpm_limit" => continue,
            "temp_budget_increase" | "temp_budget_expiry" | "allowed_passthrough_routes" => {
                continue;
            }
            "disable_global_guardrails" | "opted_out_global_guardrails" => continue,
            "guardrails" | "policies" => Bound::new(
                Loosen::Guardrails,
                "guardrails or policies check its requests",
            ),
            "tags" | "tag_rpm_limit" | "tag_tpm_limit" => Bound::new(
                Loosen::Tags,
                "it has tags, which can have budgets and choose deployments",
            ),
            "enforced_params" => Bound::new(
                Loosen::RequiredFields,
                "its requests must have some fields (`enforced_params`)",
            ),
            "require_trace_id" => Bound::new(
                Loosen::RequiredFields,
                "its requests must have a trace id (`require_trace_id`)",
            ),
            "end_user_budget_id" => {
                Bound::new(Loosen::EndUsers, "each of its end users has a budget")
            }
            "scim_active" if at.flag() == Some(false) => Bound {
                loosen: None,
                why: "its user is not active".to_owned(),
            },
            _ if field.starts_with("team_member_") => Bound::new(
                Loosen::TeamMembers,
                "each member of its team has limits or a budget",
            ),
            "password_reset_required" => Bound::new(
                Loosen::UnknownFields,
                "it may only set a password, in LiteLLM",
            ),
            _ if [
                "_limit",
                "budget",
                "guardrail",
                "polic",
                "allowed",
                "max_iterations",
            ]
            .iter()
            .any(|part| field.contains(part)) =>
            {
                Bound::new(
                    Loosen::UnknownFields,
                    "its `metadata` has a limit that Portcullis does not know",
                )
            }
            _ => continue,
        };
        if is_off(field, &at) && bound.loosen.is_some() {
            continue;
        }
        findings.push(at.finding(Grade::Unsupported, became, bound.why.clone()));
        limits.stop(bound);
    }
}

/// Reports each field that is only information once, and what was spent.
pub(super) fn summary(rows: &Rows, is_spend_carried: bool, findings: &mut Vec<Finding>) {
    let all = rows
        .keys
        .iter()
        .chain(rows.teams.iter().map(|(_, row)| row))
        .chain(rows.users.values());
    let mut counts: BTreeMap<&str, (usize, Finding)> = BTreeMap::new();
    let told: HashSet<(String, String)> = findings
        .iter()
        .map(|told| (told.file.clone(), told.path.clone()))
        .collect();
    for row in all {
        let row = row.at();
        for (field, at) in row.entries() {
            let is_untold = |at: &At<'_>| {
                !at.is_empty() && !told.contains(&(at.file.to_owned(), at.path.clone()))
            };
            let is_left = if field == "metadata" {
                at.entries().iter().any(|(_, at)| is_untold(at))
            } else {
                let is_known = INFORMATION.contains(&field)
                    || REPEATED.iter().any(|begin| field.starts_with(begin));
                is_known && !READ.contains(&field) && !is_off(field, &at) && is_untold(&at)
            };
            if !is_left {
                continue;
            }
            counts
                .entry(field)
                .and_modify(|(count, _)| *count += 1)
                .or_insert_with(|| (1, at.finding(Grade::Unsupported, "", "")));
        }
    }
    for (field, (count, finding)) in counts {
        let what = match field {
            "spend" if is_spend_carried => {
                let what = format!(
                    "in {count} rows: was not spent from a budget that is carried, so no limit counts it"
                );
                findings.push(Finding {
                    grade: Grade::Approximate,
                    what,
                    ..finding
                });
                continue;
            }
            "spend" | "total_spend" | "model_spend" | "team_member_spend" | "team_spend" => {
                "what was spent so far is not carried: Portcullis counts from its own ledger, so budgets begin at zero"
            }
            "access_group_ids" => {
                "these groups are in LiteLLM's database: their models are not added"
            }
            "metadata" => "what else is in `metadata` is left out",
            "soft_budget" => "a soft budget only warns, in LiteLLM",
            _ => "is information for LiteLLM, and is left out",
        };
        findings.push(Finding {
            what: format!("in {count} rows: {what}"),
            ..finding
        });
    }
}
