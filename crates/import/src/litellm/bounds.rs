//! The settings of the file that bound keys, beside what the rows of the keys say.

use dialects::neutral::ModelKind;

use super::loosen::{Bound, Loosen};
use super::node::At;

/// Which keys a setting bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// All keys.
    All,
    /// Keys that belong to no team.
    WithoutTeam,
    /// Keys of service accounts.
    ServiceAccount,
    /// Keys that may use a model without a price.
    WithoutPrice,
    /// Keys whose money is counted.
    WithBudget,
    /// Keys that may use a model which may be of this kind.
    OfKind(ModelKind),
}

/// What the report says of guardrails.
pub(super) const NO_CHECKS: &str = "Portcullis does not check what texts say";

/// Callbacks that refuse no request: they watch, or they change what a request says.
const HARMLESS: [&str; 68] = [
    "agentops",
    "anthropic_cache_control_hook",
    "argilla",
    "arize",
    "arize_phoenix",
    "athina",
    "aws_sqs",
    "azure_sentinel",
    "azure_storage",
    "batch_redis_requests",
    "bitbucket",
    "braintrust",
    "clickhouse",
    "cloudzero",
    "code_interpreter_interception",
    "compression_interception",
    "datadog",
    "datadog_cost_management",
    "datadog_llm_observability",
    "datadog_metrics",
    "deepeval",
    "dotprompt",
    "dynamodb",
    "focus",
    "galileo",
    "gcs_bucket",
    "gcs_pubsub",
    "generic_api",
    "gitlab",
    "greenscale",
    "helicone",
    "humanloop",
    "lago",
    "langfuse",
    "langfuse_otel",
    "langsmith",
    "langtrace",
    "levo",
    "literalai",
    "logfire",
    "lunary",
    "mavvrik",
    "mlflow",
    "newrelic",
    "openmeter",
    "opik",
    "otel",
    "pagerduty",
    "pointfive",
    "posthog",
    "prometheus",
    "promptlayer",
    "resend_email",
    "s3",
    "s3_v2",
    "sendgrid_email",
    "sentry",
    "signoz",
    "slack",
    "smtp_email",
    "supabase",
    "traceloop",
    "vantage",
    "vector_store_pre_call_hook",
    "wandb",
    "weave_otel",
    "websearch_interception",
    "zerobus",
];

/// The beginnings of LiteLLM's own paths, on which no model answers.
const OF_ADMINS: [&str; 14] = [
    "/audit",
    "/budget/",
    "/config/",
    "/customer/",
    "/global/",
    "/health",
    "/key/",
    "/model/",
    "/organization/",
    "/project/",
    "/spend/",
    "/tag/",
    "/team/",
    "/user/",
];

/// Returns what a setting bounds for which keys, if it bounds any.
pub(super) fn of_setting(of: &str, key: &str, at: &At<'_>) -> Option<(Whose, Bound)> {
    // What cannot be read may be on.
    let is_on = at.flag() != Some(false);
    let (whose, loosen, why) = match key {
        "allowed_routes" => (
            Whose::All,
            Loosen::Routes,
            "all keys may call some paths only (`allowed_routes`)",
        ),
        "admin_only_routes"
            if at.items().iter().any(|path| !is_of_admins(path)) || !at.is_list() =>
        {
            (
                Whose::All,
                Loosen::Routes,
                "some paths are for admins alone (`admin_only_routes`)",
            )
        }
        "enforced_params" => (
            Whose::All,
            Loosen::RequiredFields,
            "all requests must have some fields (`enforced_params`)",
        ),
        "enforce_user_param" if is_on => (
            Whose::All,
            Loosen::RequiredFields,
            "all requests must say their user (`enforce_user_param`)",
        ),
        "service_account_settings" => (
            Whose::ServiceAccount,
            Loosen::RequiredFields,
            "requests of service accounts must have some fields (`service_account_settings`)",
        ),
        "missing_session_id" if !matches!(at.text(), Some("omit" | "generate")) => (
            Whose::All,
            Loosen::RequiredFields,
            "all requests must say their session (`missing_session_id`)",
        ),
        "model_alias_map" if !at.is_empty() => (
            Whose::All,
            Loosen::Aliases,
            "the file puts other models in the place of some (`model_alias_map`)",
        ),
        "completion_model" if !at.is_empty() => (
            Whose::All,
            Loosen::Aliases,
            "one model stands in the place of all others (`completion_model`)",
        ),
        "image_generation_model" if !at.is_empty() => (
            Whose::OfKind(ModelKind::Image),
            Loosen::Aliases,
            "one model stands in the place of all others that make pictures (`image_generation_model`)",
        ),
        "moderation_model" if !at.is_empty() => (
            Whose::OfKind(ModelKind::Moderation),
            Loosen::Aliases,
            "one model stands in the place of all others that judge texts (`moderation_model`)",
        ),
        "guardrails" => (
            Whose::All,
            Loosen::Guardrails,
            "guardrails of the file check requests",
        ),
        "callbacks" if !is_harmless(at) => (
            Whose::All,
            Loosen::Guardrails,
            "a callback may refuse requests",
        ),
        "pre_call_rules" | "post_call_rules" => (
            Whose::All,
            Loosen::Guardrails,
            "rules of your own may refuse requests and answers",
        ),
        "custom_auth" => (
            Whose::All,
            Loosen::Guardrails,
            "code of your own lets keys in (`custom_auth`)",
        ),
        "max_end_user_budget" | "max_end_user_budget_id" => {
            (Whose::All, Loosen::EndUsers, "each end user has a budget")
        }
        "validate_end_user_id_in_db" if is_on => (
            Whose::All,
            Loosen::EndUsers,
            "end users must be known (`validate_end_user_id_in_db`)",
        ),
        "max_budget" if of == "litellm_settings" => (
            Whose::All,
            Loosen::ProxyBudget,
            "the whole proxy has a budget, which Portcullis has not",
        ),
        "global_max_parallel_requests" if !at.is_empty() => (
            Whose::All,
            Loosen::ProxyBudget,
            "all callers together may have so many requests at a time only (`global_max_parallel_requests`)",
        ),
        "provider_budget_config" if !at.is_empty() => (
            Whose::All,
            Loosen::ProxyBudget,
            "providers have budgets (`provider_budget_config`)",
        ),
        "optional_pre_call_checks" if has(at, "enforce_model_rate_limits") => (
            Whose::All,
            Loosen::ProxyBudget,
            "deployments have limits of their own (`enforce_model_rate_limits`)",
        ),
        "tag_budget_config" if !at.is_empty() => (
            Whose::All,
            Loosen::Tags,
            "tags of requests have budgets (`tag_budget_config`)",
        ),
        "cost_margin_config" if !at.is_empty() => (
            Whose::WithBudget,
            Loosen::Prices,
            "its budget counts more than the price of each request (`cost_margin_config`)",
        ),
        "plugins" if of == "router_settings" && !at.is_empty() => (
            Whose::All,
            Loosen::Guardrails,
            "code of your own chooses targets and may refuse requests (`plugins`)",
        ),
        "personal_key_model_access_from_teams" if is_on => (
            Whose::WithoutTeam,
            Loosen::Teams,
            "the teams of its user say which models it may use (`personal_key_model_access_from_teams`)",
        ),
        "block_requests_for_models_without_pricing" if is_on => (
            Whose::WithoutPrice,
            Loosen::Prices,
            "it may use a model without a known price (`block_requests_for_models_without_pricing`)",
        ),
        _ => return None,
    };
    Some((whose, Bound::new(loosen, why)))
}

/// Says in the report what became of such a setting.
pub(super) fn told(key: &str, whose: Whose, loosen: Option<Loosen>) -> String {
    let what = match key {
        "guardrails" => NO_CHECKS,
        "max_budget" | "provider_budget_config" => {
            "a budget of all callers together has no counterpart: write limits at callers"
        }
        "global_max_parallel_requests" => {
            "a cap of all callers together has no counterpart: write `concurrency` at accounts or callers"
        }
        "custom_auth" => "callers have keys here: other ways to sign in have no counterpart",
        "callbacks" => "some of these callbacks may refuse requests, and none runs here",
        _ => "has no counterpart",
    };
    let keys = match whose {
        Whose::All => "all keys",
        Whose::WithoutTeam => "keys without a team",
        Whose::ServiceAccount => "keys of service accounts",
        Whose::WithoutPrice => "keys that may use a model without a known price",
        Whose::WithBudget => "keys with a budget",
        Whose::OfKind(_) => "keys that may use such a model",
    };
    let name = loosen.map(Loosen::name).unwrap_or_default();
    format!("{what}. It bounds {keys}, which are switched off unless `--loosen {name}` drops it")
}

/// Returns whether a list has a word, or cannot be read.
fn has(at: &At<'_>, word: &str) -> bool {
    !at.is_list()
        || at
            .items()
            .iter()
            .any(|item| item.text().is_none_or(|text| text == word))
}

/// Returns whether no callback of a list refuses requests.
fn is_harmless(at: &At<'_>) -> bool {
    at.is_empty()
        || (at.is_list()
            && at
                .items()
                .iter()
                .all(|name| name.text().is_some_and(|name| HARMLESS.contains(&name))))
}

fn is_of_admins(path: &At<'_>) -> bool {
    path.text()
        .is_some_and(|path| OF_ADMINS.iter().any(|begin| path.starts_with(begin)))
}
