//! The rule for each field of LiteLLM's rows and settings: one table.

use std::collections::HashMap;
use std::sync::LazyLock;

use dialects::neutral::ModelKind;

use super::node::Spot;
use crate::notes::Grade;
use portcullis::conf::yaml::Value;

/// The thing that a map of LiteLLM describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Section {
    /// A team or a user.
    TeamOrUserRow,
    /// A key. A field without a rule of its own has that of a team and a user.
    KeyRow,
    Budget,
    /// `metadata` of a row.
    Metadata,
    /// `router_settings` of a row.
    RowRouter,
    Permissions,
    ObjectPermission,
    ModelTable,
    /// The rights of a user as a member of a team.
    Membership,
    /// A user, for the user's keys of a team.
    Member,
    MemberMetadata,
    LiteLlm,
    Router,
    General,
    /// The sections of the file.
    File,
    /// `litellm_params` of an entry.
    Params,
    /// `model_info` of an entry.
    Info,
}

/// The type of a value in LiteLLM.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Any,
    Text,
    Scalar,
    Flag,
    Time,
    List,
    Map,
}

/// The rule for a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// Code of its own reads it, and reports it.
    Carry,
    /// It bounds no key. The report says this.
    Info(Grade, &'static str),
    /// It bounds the keys, unless the value says otherwise.
    Bounds {
        /// The word of `--loosen` that drops it, too.
        loosen_word: &'static str,
        /// The values that bound nothing.
        unless: Harmless,
        /// The keys that it bounds.
        whose: Whose,
    },
    /// It is a map with such fields.
    Nested(Section),
    /// The key is off if it is false, whatever is loosened.
    Required,
}

/// Values that bound nothing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Harmless {
    /// None: also an empty list or map bounds.
    Never,
    /// A value that is empty or switches the field off.
    Off,
    /// One of these words, or a list with one of them.
    Word(&'static str),
    /// A list of which each item is one of these words, or begins with one that ends with a slash.
    List(&'static str),
    /// A list without this word.
    Without(&'static str),
    /// Any, if the row has this map, too.
    With(&'static str),
}

/// The keys that a setting bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    All,
    WithoutTeam,
    ServiceAccount,
    /// Keys that may use a model without a price.
    WithoutPrice,
    /// Keys whose money is counted.
    WithBudget,
    /// Keys that may use a model which may be of this kind.
    OfKind(ModelKind),
}

impl Whose {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::All => "all keys",
            Self::WithoutTeam => "keys without a team",
            Self::ServiceAccount => "keys of service accounts",
            Self::WithoutPrice => "keys that may use a model without a known price",
            Self::WithBudget => "keys with a budget",
            Self::OfKind(_) => "keys that may use such a model",
        }
    }
}

/// The words of `--loosen` that stand for many fields, each with what it drops.
pub const LOOSEN_WORDS: [(&str, &str); 16] = [
    (
        "budgets",
        "budgets for life, for another time than a day or a month, or of several models",
    ),
    (
        "prices",
        "budgets of keys that may use a model without a known price, or that count more",
    ),
    (
        "proxy-budget",
        "budgets and limits of all callers together, of providers and deployments",
    ),
    ("users", "what a user may use, also with keys of a team"),
    ("teams", "what a team may use"),
    ("team-members", "what each member of a team may use"),
    ("organizations", "what an organization may use"),
    ("projects", "what a project may use"),
    ("agents", "what an agent may use"),
    (
        "end-users",
        "what an end user may use: somebody whom the requests of a key name",
    ),
    (
        "routes",
        "`allowed_routes` of keys and of the file, and `admin_only_routes`",
    ),
    (
        "guardrails",
        "guardrails, policies, and code of your own that may refuse requests",
    ),
    (
        "tags",
        "tags, which can have budgets and choose deployments",
    ),
    (
        "required-fields",
        "fields that each request must have, such as `enforced_params`",
    ),
    (
        "aliases",
        "what puts another model in the place of one, for one key or for all",
    ),
    (
        "unknown-fields",
        "fields of keys, teams, users and budgets that Portcullis does not know",
    ),
];

/// The rule for the fields with these names.
struct Rule(&'static str, Shape, Fate);

const INFO: Fate = Fate::Info(
    Grade::Unsupported,
    "is information for LiteLLM, and is left out",
);
const NOT_CARRIED: (Grade, &str) = (Grade::Unsupported, "has no counterpart, and is left out");
const SPENT: Fate = Fate::Info(
    Grade::Unsupported,
    "is not carried: Portcullis counts from its own ledger, so budgets begin at zero",
);
const WATCHED: &str = "the access log, the metrics, the ledger and traces show what happens here";
const ATTEMPTS: &str =
    "Portcullis has breakers, and tries other targets: `attempts` in server.yaml says how many";
const DATABASE: &str = "LiteLLM's database is not read: add its models, guardrails, policies and settings to the file, which may bound keys, and give its keys as --keys";

const fn bound_by(word: &'static str) -> Fate {
    bound_unless(word, Harmless::Off)
}

const fn bound_unless(loosen_word: &'static str, unless: Harmless) -> Fate {
    Fate::Bounds {
        loosen_word,
        unless,
        whose: Whose::All,
    }
}

const fn bound_rule(word: &'static str, fields: &'static str) -> Rule {
    Rule(fields, Shape::Any, bound_by(word))
}

const fn bound_for(whose: Whose, loosen_word: &'static str, fields: &'static str) -> Rule {
    let fate = Fate::Bounds {
        loosen_word,
        unless: Harmless::Off,
        whose,
    };
    Rule(fields, Shape::Any, fate)
}

const fn info_rule(fields: &'static str, message: &'static str) -> Rule {
    Rule(fields, Shape::Any, Fate::Info(Grade::Unsupported, message))
}

const fn manual_rule(fields: &'static str, message: &'static str) -> Rule {
    Rule(fields, Shape::Any, Fate::Info(Grade::Manual, message))
}

#[rustfmt::skip]
const RULES: &[(Section, &[Rule])] = {
    use Fate::{Carry, Nested, Required};
    use Section::*;
    use Shape::{Any, Flag, List, Map, Scalar, Text, Time};
    &[
        // Keys, teams and users.
        (TeamOrUserRow, &[
            Rule("token key_alias team_alias user_alias api_key key_name", Any, Carry),
            Rule("team_id user_id budget_duration", Text, Carry),
            Rule("rpm_limit tpm_limit tpd_limit max_parallel_requests max_budget", Scalar, Carry),
            Rule("blocked", Flag, Carry),
            Rule("models budget_limits team_memberships", List, Carry),
            Rule("model_max_budget rpm_limit_per_model tpm_limit_per_model model_rpm_limit model_tpm_limit", Map, Carry),
            Rule("budget_reset_at", Time, INFO),
            Rule("admins agent_caller allow_team_guardrail_config allowed_cache_controls auto_rotate budget_fallbacks created_at \
                created_by created_by_user default_team_member_models end_user_id is_session_token jwt_claims key_count \
                key_rotation_at keys last_active last_breach_check_at last_refreshed_at last_rotation_at \
                litellm_organization_table litellm_changed_by members members_count members_with_roles organization_alias \
                organization_memberships organization_metadata parent_otel_span password password_reset_required project_alias \
                request_route requires_fresh_policy rotation_count rotation_interval settings_updated_at soft_budget_cooldown \
                sso_user_id team_member team_member_permissions teams updated_at updated_by user user_email user_role \
                via_virtual_key", Any, INFO),
            Rule("spend total_spend model_spend team_member_spend team_spend", Any, SPENT),
            info_rule("access_group_ids", "these groups are in LiteLLM's database: their models are not added"),
            info_rule("soft_budget", "a soft budget only warns, in LiteLLM"),
            Rule("metadata", Map, Nested(Metadata)),
            Rule("router_settings", Map, Nested(RowRouter)),
            Rule("permissions", Map, Nested(Permissions)),
            Rule("object_permission", Map, Nested(ObjectPermission)),
            Rule("object_permission_id", Any, bound_unless("unknown-fields", Harmless::With("object_permission"))),
            Rule("litellm_model_table", Map, Nested(ModelTable)),
            Rule("model_id", Any, bound_unless("aliases", Harmless::With("litellm_model_table"))),
            Rule("aliases model_aliases team_model_aliases", Map, bound_by("aliases")),
            Rule("allowed_routes", List, bound_unless("routes", Harmless::Word("llm_api_routes"))),
            Rule("key_type", Text, bound_unless("routes", Harmless::Word("default llm_api"))),
            Rule("org_id organization_id", Text, bound_by("organizations")),
            Rule("project_id", Text, bound_by("projects")),
            Rule("agent_id", Text, bound_by("agents")),
            Rule("policies", List, bound_by("guardrails")),
            bound_rule("team-members", "team_member_tpm_limit team_member_rpm_limit"),
        ]),
        // Nothing reads these of a team and a user: there they are unknown fields, which bound.
        (KeyRow, &[
            Rule("budget_id", Text, Carry),
            Rule("expires", Time, Carry),
            Rule("litellm_budget_table", Map, Carry),
        ]),
        (ModelTable, &[Rule("aliases model_aliases", Map, bound_by("aliases"))]),
        (Metadata, &[
            bound_rule("guardrails", "guardrails policies"),
            bound_rule("tags", "tags tag_rpm_limit tag_tpm_limit"),
            bound_rule("required-fields", "enforced_params require_trace_id"),
            bound_rule("end-users", "end_user_budget_id"),
            bound_rule("unknown-fields", "password_reset_required"),
            Rule("scim_active", Any, Required),
            Rule("model_rpm_limit model_tpm_limit rpm_limit_type tpm_limit_type mcp_rpm_limit temp_budget_increase \
                temp_budget_expiry allowed_passthrough_routes disable_global_guardrails opted_out_global_guardrails", Any, INFO),
        ]),
        (RowRouter, &[
            bound_rule("aliases", "model_group_alias fallbacks context_window_fallbacks content_policy_fallbacks"),
            bound_rule("tags", "enable_tag_filtering"),
            bound_rule("unknown-fields", "weights"),
        ]),
        (Permissions, &[Rule("get_spend_routes allow_pii_controls allow_client_side_credentials", Any, INFO)]),
        (ObjectPermission, &[
            Rule("object_permission_id mcp_servers mcp_access_groups mcp_tool_permissions mcp_toolsets \
                mcp_tool_search_enabled vector_stores agents agent_access_groups search_tools skills created_at \
                updated_at", Any, INFO),
        ]),
        // Budgets, and what a team and a user add to each other.
        (Budget, &[
            Rule("budget_id budget_duration", Text, Carry),
            Rule("max_budget rpm_limit tpm_limit tpd_limit max_parallel_requests", Scalar, Carry),
            Rule("model_max_budget", Map, Carry),
            Rule("budget_reset_at", Time, Carry),
            Rule("soft_budget temp_budget_increase temp_budget_expiry created_at created_by updated_at updated_by", Any, INFO),
        ]),
        (Membership, &[Rule("user_id team_id spend total_spend", Any, INFO)]),
        (Member, &[
            Rule("rpm_limit tpm_limit", Scalar, bound_by("users")),
            Rule("model_max_budget", Map, bound_by("users")),
            Rule("max_budget", Scalar, Carry),
            Rule("metadata", Map, Nested(MemberMetadata)),
        ]),
        (MemberMetadata, &[Rule("scim_active", Any, Required)]),
        // The file.
        (General, &[
            Rule("allowed_routes", Any, bound_unless("routes", Harmless::Never)),
            Rule("admin_only_routes", Any, bound_unless("routes", Harmless::List(
                "/audit/ /budget/ /config/ /customer/ /global/ /health/ /key/ /model/ /organization/ /project/ /spend/ /tag/ /team/ /user/"))),
            bound_rule("required-fields", "enforced_params enforce_user_param"),
            bound_for(Whose::ServiceAccount, "required-fields", "service_account_settings"),
            Rule("missing_session_id", Any, bound_unless("required-fields", Harmless::Word("omit generate"))),
            bound_rule("aliases", "model_alias_map completion_model"),
            bound_for(Whose::OfKind(ModelKind::Image), "aliases", "image_generation_model"),
            bound_for(Whose::OfKind(ModelKind::Moderation), "aliases", "moderation_model"),
            bound_rule("guardrails", "guardrails pre_call_rules post_call_rules custom_auth"),
            Rule("callbacks", Any, bound_unless("guardrails", Harmless::List(HARMLESS_CALLBACKS))),
            bound_rule("end-users", "max_end_user_budget max_end_user_budget_id validate_end_user_id_in_db"),
            bound_rule("proxy-budget", "global_max_parallel_requests provider_budget_config"),
            Rule("optional_pre_call_checks", Any, bound_unless("proxy-budget", Harmless::Without("enforce_model_rate_limits"))),
            bound_rule("tags", "tag_budget_config"),
            bound_for(Whose::WithBudget, "prices", "cost_margin_config"),
            bound_for(Whose::WithoutTeam, "teams", "personal_key_model_access_from_teams"),
            bound_for(Whose::WithoutPrice, "prices", "block_requests_for_models_without_pricing"),
            info_rule("enable_tag_filtering", "Portcullis does not choose targets by tags"),
            Rule("num_retries max_retries allowed_fails cooldown_time retry_policy allowed_fails_policy model_group_retry_policy \
                disable_cooldowns max_fallbacks retry_after", Any, Fate::Info(Grade::Approximate, ATTEMPTS)),
            info_rule("master_key", "is for LiteLLM's own API: `portcullis key` changes keys here"),
            info_rule("database_connection_pool_limit", "there is no database here"),
            manual_rule("store_model_in_db", "add the models of LiteLLM's database to the file, if there are some"),
            manual_rule("database_url", DATABASE),
            info_rule("enable_jwt_auth litellm_jwtauth enable_oauth2_auth custom_sso",
                "callers have keys here: other ways to sign in have no counterpart"),
            info_rule("cache cache_params enable_caching redis_semantic_cache", "answers are not cached here"),
            info_rule("success_callback failure_callback service_callback audit_log_callbacks otel", WATCHED),
            info_rule("set_verbose json_logs debug log_raw_request_response", "write `log` in server.yaml if you need it"),
            manual_rule("max_parallel_requests", "write `concurrency` at accounts or callers: there is no cap for all together"),
            info_rule("enable_pre_call_checks",
                "a request that is too long for the provider goes to `fallbacks_on.context`"),
            manual_rule("coordination_redis use_redis_transaction_buffer", "several gateways share limits through `store` in server.yaml"),
            info_rule("pass_through_endpoints", "requests to other paths are not passed through"),
            info_rule("public_routes", "every path of the API needs a key here"),
            manual_rule("use_x_forwarded_for", "write your load balancers into `trusted_proxies` in server.yaml"),
            manual_rule("max_request_size_mb", "write `limits.request_body` in server.yaml"),
            manual_rule("max_response_size_mb", "write `limits.response_body` in server.yaml"),
            info_rule("disable_reset_budget", "budgets begin anew each day or each month here, without a switch"),
        ]),
        (LiteLlm, &[
            bound_rule("proxy-budget", "max_budget"),
            Rule("request_timeout", Any, Carry),
        ]),
        (Router, &[
            bound_rule("guardrails", "plugins"),
            Rule("redis_url redis_host redis_port redis_password timeout stream_timeout", Any, Carry),
        ]),
        (File, &[
            info_rule("guardrails", "Portcullis does not check what texts say"),
            Rule("policies policy_attachments", Any, Carry),
            info_rule("mcp_servers search_tools sandbox_tools vector_store_registry",
                "Portcullis runs no tools and no stores of documents"),
            info_rule("files_settings finetune_settings batch_settings",
                "Portcullis has no endpoints for files, batches and fine-tuning"),
            info_rule("callback_settings", WATCHED),
        ]),
        // Entries of `model_list`.
        (Params, &[
            Rule("max_retries num_retries", Any, Fate::Info(Grade::Approximate, ATTEMPTS)),
            info_rule("tags tag_regex", "Portcullis does not choose targets by tags: every caller reaches this one"),
            info_rule("temperature top_p seed stop frequency_penalty presence_penalty n user",
                "only `max_tokens` has a default here: callers send this themselves"),
        ]),
        (Info, &[
            info_rule("id", "targets have no ids here"),
            info_rule("blocked", "the entry is in use"),
            info_rule("supported_environments", "LITELLM_ENVIRONMENT is one of these now"),
            info_rule("max_tokens max_input_tokens max_output_tokens",
                "write `traits` at the target if Portcullis does not know the model"),
        ]),
    ]
};

/// Callbacks that refuse no request: they watch, or they change what a request has.
const HARMLESS_CALLBACKS: &str = "agentops anthropic_cache_control_hook argilla arize arize_phoenix athina aws_sqs azure_sentinel \
    azure_storage batch_redis_requests bitbucket braintrust clickhouse cloudzero code_interpreter_interception \
    compression_interception datadog datadog_cost_management datadog_llm_observability datadog_metrics deepeval dotprompt dynamodb \
    focus galileo gcs_bucket gcs_pubsub generic_api gitlab greenscale helicone humanloop lago langfuse langfuse_otel langsmith \
    langtrace levo literalai logfire lunary mavvrik mlflow newrelic openmeter opik otel pagerduty pointfive posthog prometheus \
    promptlayer resend_email s3 s3_v2 sendgrid_email sentry signoz slack smtp_email supabase traceloop vantage \
    vector_store_pre_call_hook wandb weave_otel websearch_interception zerobus";

/// Beginnings of fields of a key that repeat what another row has.
const REPEATED: [&str; 4] = ["team_", "user_", "end_user_", "organization_"];
/// Parts of names in `metadata` that stand for a bound.
const LIMITING: [&str; 6] = [
    "_limit",
    "budget",
    "guardrail",
    "polic",
    "allowed",
    "max_iterations",
];

/// Returns what becomes of a field.
pub(super) fn field_fate(section: Section, field: &str) -> Fate {
    field_rule(section, field).1
}

/// Returns what the value of a field must be, and what becomes of it.
pub(super) fn field_rule(section: Section, field: &str) -> (Shape, Fate) {
    type Table = HashMap<(Section, &'static str), (Shape, Fate)>;
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        let mut table = Table::new();
        for (section, rules) in RULES {
            for Rule(fields, shape, fate) in *rules {
                let fields = fields.split_whitespace();
                table.extend(fields.map(|field| ((*section, field), (*shape, *fate))));
            }
        }
        table
    });
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all others have no more general section"
    )]
    let general = match section {
        Section::LiteLlm | Section::Router => Section::General,
        Section::KeyRow => Section::TeamOrUserRow,
        other => other,
    };
    let found = [section, general]
        .iter()
        .find_map(|section| TABLE.get(&(*section, field)));
    let found = found.copied();
    found.unwrap_or_else(|| (Shape::Any, unknown_fate(section, field)))
}

/// Returns what becomes of a field that the table does not have.
fn unknown_fate(section: Section, field: &str) -> Fate {
    match section {
        Section::KeyRow if REPEATED.iter().any(|begin| field.starts_with(begin)) => INFO,
        Section::Metadata if field.starts_with("team_member_") => bound_by("team-members"),
        Section::Metadata if LIMITING.iter().any(|part| field.contains(part)) => {
            bound_by("unknown-fields")
        }
        Section::TeamOrUserRow | Section::KeyRow | Section::Budget | Section::ObjectPermission => {
            bound_by("unknown-fields")
        }
        Section::Permissions => bound_by("guardrails"),
        Section::Membership => bound_by("team-members"),
        Section::Metadata
        | Section::RowRouter
        | Section::ModelTable
        | Section::Member
        | Section::MemberMetadata
        | Section::Info => INFO,
        Section::Params if field.contains("cost") => {
            Fate::Info(Grade::Unsupported, "this kind of price has no counterpart")
        }
        Section::LiteLlm | Section::Router | Section::General | Section::File | Section::Params => {
            Fate::Info(NOT_CARRIED.0, NOT_CARRIED.1)
        }
    }
}

/// Reports a field that bounds nothing and that no code of its own reads.
pub(super) fn report_field(section: Section, field: &str, spot: &Spot<'_>) {
    let (grade, message) = match field_fate(section, field) {
        Fate::Carry => return,
        Fate::Info(grade, message) => (grade, message),
        Fate::Bounds { .. } | Fate::Nested(_) | Fate::Required => NOT_CARRIED,
    };
    spot.report(grade, message);
}

impl Shape {
    /// Returns whether a value has this type. A text may be empty where something else is expected,
    /// since some ways to save rows write null so.
    pub(super) fn fits(self, spot: &Spot<'_>) -> bool {
        let is_text = matches!(spot.node.value, Value::Quoted(_));
        let is_right = match self {
            Self::Any => true,
            Self::Text => return is_text,
            Self::Scalar => spot.text().is_some(),
            Self::Flag => spot.flag().is_some(),
            Self::Time => spot.time().is_some(),
            Self::List => spot.is_list(),
            Self::Map => spot.is_map(),
        };
        is_right || (is_text && spot.is_empty())
    }
}

impl Harmless {
    /// Returns whether a value of a row is one of these, so that it bounds nothing.
    pub(super) fn includes(self, field: &str, spot: &Spot<'_>, row: &Spot<'_>) -> bool {
        let items = spot.items();
        match self {
            Self::Never => false,
            _ if is_off(field, spot) => true,
            Self::Off => false,
            Self::Word(words) => items
                .iter()
                .chain([spot])
                .any(|item| is_one_of(words, item)),
            Self::List(words) => spot.is_list() && items.iter().all(|item| is_one_of(words, item)),
            Self::Without(word) => {
                let is_other = |item: &Spot<'_>| item.text().is_some_and(|text| text != word);
                spot.is_list() && items.iter().all(is_other)
            }
            Self::With(map) => row.get(map).is_some_and(|spot| spot.is_map()),
        }
    }
}

/// Returns whether a text is one of these words, or begins with one that ends with a slash.
fn is_one_of(words: &str, spot: &Spot<'_>) -> bool {
    let Some(text) = spot.text() else {
        return false;
    };
    let path = format!("{text}/");
    let mut words = words.split_whitespace();
    words.any(|word| word == text || (word.ends_with('/') && path.starts_with(word)))
}

/// Returns whether a value switches nothing on. A quoted text may be an id, and a limit of nothing
/// forbids everything.
pub(super) fn is_off(field: &str, spot: &Spot<'_>) -> bool {
    let is_limit = ["limit", "budget", "max"]
        .iter()
        .any(|part| field.contains(part));
    let is_plain = matches!(spot.node.value, Value::Plain(_));
    spot.is_empty()
        || match spot.text() {
            Some("0" | "0.0") => is_plain && !is_limit,
            _ => is_plain && spot.flag() == Some(false),
        }
}
