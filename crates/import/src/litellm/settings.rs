//! The settings of LiteLLM's process: what there is of them here.

use std::collections::BTreeMap;

use super::bound::Bound;
use super::models::Made;
use super::node::Spot;
use super::params::{World, variable_of};
use super::routing::Rules;
use super::rules::{Fate, Section, Whose, rule_of};
use super::walk::setting_bound;
use crate::notes::{Finding, Grade};
use portcullis::conf::yaml::edit::New;

/// The settings of the file that are not about models.
#[derive(Default)]
pub(super) struct Common {
    pub(super) rules: Rules,
    /// The fields that limit keys, and which keys.
    pub(super) bounds: Vec<(Whose, Bound)>,
    /// `allowed_ips`, for every key.
    pub(super) addresses: Vec<String>,
    /// True if the budget of a user limits the user's keys of a team, too.
    pub(super) is_user_budget_for_teams: bool,
    /// `store.redis` of server.yaml.
    pub(super) redis: Option<New>,
}

/// The sections that hold settings, each under its name.
pub(super) type Sections<'a> = BTreeMap<&'a str, Spot<'a>>;

/// Reads all settings.
pub(super) fn read_settings(
    sections: &Sections<'_>,
    world: &World<'_>,
    made: &mut Made<'_>,
    findings: &mut Vec<Finding>,
) -> Common {
    let mut common = Common::default();
    for (section, kind) in [
        ("litellm_settings", Section::LiteLlm),
        ("router_settings", Section::Router),
        ("general_settings", Section::General),
    ] {
        let Some(spot) = sections.get(section) else {
            continue;
        };
        if !spot.is_map() {
            findings.push(spot.finding(
                Grade::Manual,
                "",
                "must be a map: its settings are left out",
            ));
        }
        let mut redis = BTreeMap::new();
        for (key, value) in spot.entries() {
            match key {
                "redis_url" | "redis_host" | "redis_port" | "redis_password"
                    if section == "router_settings" =>
                {
                    redis.insert(key, value);
                }
                "timeout" | "request_timeout" | "stream_timeout" => {
                    let (grade, message) = of_time((section, key), world);
                    findings.push(value.finding(grade, "", message));
                }
                "database_url" if world.has_keys => {
                    findings.push(value.finding(Grade::Manual, "", REST_OF_DATABASE))
                }
                _ => take_setting(kind, key, &value, (made, &mut common), findings),
            }
        }
        common.redis = read_store(&redis, world, made, findings).or(common.redis);
    }
    common
}

/// Takes one setting.
fn take_setting(
    section: Section,
    key: &str,
    spot: &Spot<'_>,
    (made, common): (&mut Made<'_>, &mut Common),
    findings: &mut Vec<Finding>,
) {
    if let Some((whose, bound)) = setting_bound(section, spot, key) {
        let message = bound.describe(whose.describe());
        findings.push(spot.finding(Grade::Unsupported, "", message));
        common.bounds.push((whose, bound));
        return;
    }
    let rules = &mut common.rules;
    match key {
        "fallbacks" => rules.fallbacks.read(spot, made, findings),
        "default_fallbacks" => rules.fallbacks.read_default(spot, made, findings),
        "context_window_fallbacks" => rules.context.read(spot, made, findings),
        "content_policy_fallbacks" => rules.refusal.read(spot, made, findings),
        "drop_params" => {
            let (grade, message) = match spot.flag() {
                Some(drop) => {
                    rules.on_loss = (!drop).then_some("refuse");
                    (Grade::Exact, "")
                }
                None => (
                    Grade::Manual,
                    "must be true or false: write `on_loss` by hand",
                ),
            };
            findings.push(spot.finding(grade, "", message));
        }
        "routing_strategy" => {
            let (grade, ours) = match spot.text().unwrap_or_default() {
                "simple-shuffle" => (Grade::Exact, "weighted"),
                "least-busy" => (Grade::Exact, "least_busy"),
                "latency-based-routing" => (Grade::Exact, "fastest"),
                _ => (Grade::Approximate, "weighted"),
            };
            rules.strategy = Some(ours);
            findings.push(spot.finding(
                grade,
                "",
                format!("is `strategy: {ours}` of each model with several targets"),
            ));
        }
        "model_group_alias" => read_aliases(spot, made, findings),
        "allowed_ips" => {
            let all: Vec<String> = spot
                .items()
                .iter()
                .filter_map(Spot::text)
                .map(str::to_owned)
                .collect();
            let is_right =
                !all.is_empty() && all.iter().all(|ip| ip.parse::<std::net::IpAddr>().is_ok());
            if is_right {
                findings.push(spot.finding(
                    Grade::Exact,
                    "",
                    "is `allow_ips` of each key that is imported",
                ));
                common.addresses = all;
            } else {
                common
                    .bounds
                    .push((Whose::All, Bound::unreadable(&spot.path)));
                findings.push(spot.finding(
                    Grade::Manual,
                    "",
                    "must be a list of addresses: keys stay switched off",
                ));
            }
        }
        "apply_user_budget_to_team_keys" => {
            common.is_user_budget_for_teams = spot.flag() != Some(false);
            const MESSAGE: &str = "a key of a team whose user has a budget is switched off";
            findings.push(spot.finding(Grade::Approximate, "", MESSAGE));
        }
        "enable_tag_filtering" => {
            // What cannot be read may be on.
            let message = if spot.flag() != Some(false) && made.has_tags {
                let bound = Bound::new(&spot.path, "tags");
                let message = bound.describe(Whose::All.describe());
                common.bounds.push((Whose::All, bound));
                message
            } else {
                "Portcullis does not choose targets by tags".to_owned()
            };
            findings.push(spot.finding(Grade::Unsupported, "", message));
        }
        _ => {
            let fate = rule_of(section, key, false).1;
            let (grade, message) = if let Fate::Info(grade, message) = fate {
                (grade, message)
            } else {
                (Grade::Unsupported, "has no counterpart, and is left out")
            };
            findings.push(spot.finding(grade, "", message));
        }
    }
}

/// The report's text for the database when its keys are given.
const REST_OF_DATABASE: &str = "the keys of LiteLLM's database are given with --keys; its models, guardrails, policies and settings \
                                are not: add what you use of them to the file, since keys may be bound by them";

/// Says what a time for all entries becomes. LiteLLM's router takes `request_timeout` before its
/// own `timeout`.
fn of_time(setting: (&str, &str), world: &World<'_>) -> (Grade, &'static str) {
    const USED: &str = "is written at each account that has no time of its own";
    const HIDDEN: &str =
        "is not used, as `litellm_settings.request_timeout` goes before it in LiteLLM";
    let is_hidden = world
        .timeout
        .as_ref()
        .is_some_and(|spot| spot.path == "litellm_settings.request_timeout");
    match setting {
        ("router_settings", "timeout") if is_hidden => (Grade::Approximate, HIDDEN),
        ("router_settings", "timeout" | "stream_timeout")
        | ("litellm_settings", "request_timeout") => (Grade::Approximate, USED),
        (_, _) => (
            Grade::Unsupported,
            "is no time for all entries in LiteLLM, and is left out",
        ),
    }
}

/// Says what to do about a section that is not read.
pub(super) fn describe_section(name: &str) -> &'static str {
    match name {
        "guardrails" | "policies" | "policy_attachments" => {
            "Portcullis does not check what texts say"
        }
        "mcp_servers" | "search_tools" | "sandbox_tools" | "vector_store_registry" => {
            "Portcullis runs no tools and no stores of documents"
        }
        "files_settings" | "finetune_settings" | "batch_settings" => {
            "Portcullis has no endpoints for files, batches and fine-tuning"
        }
        "callback_settings" => {
            "the access log, the metrics, the ledger and traces tell what happens here"
        }
        _ => "has no counterpart, and is left out",
    }
}

/// Reads `model_group_alias`.
fn read_aliases(spot: &Spot<'_>, made: &mut Made<'_>, findings: &mut Vec<Finding>) {
    for (alias, value) in spot.entries() {
        let hidden = value
            .get("hidden")
            .is_some_and(|hidden| hidden.flag() == Some(true));
        let model_at = value.get("model").unwrap_or_else(|| value.clone());
        let model = model_at.text().unwrap_or_default();
        let is_taken = made.has(alias)
            || made
                .groups
                .iter()
                .any(|group| group.aliases.iter().any(|other| other == alias));
        let is_name = portcullis::catalog::name::of_model(alias).is_ok()
            && portcullis::base::problem::unless_secret(alias) == alias;
        let (grade, became, message) = match made.find(model) {
            None => {
                let finding = value.finding(Grade::Manual, "", "the alias is left out");
                findings.push(made.missing.finding_about(model, finding));
                made.missing.add_alias(alias, model);
                continue;
            }
            Some(_) if is_taken => (
                Grade::Manual,
                String::new(),
                "is the name of a model or of another alias too: choose one by hand",
            ),
            Some(_) if !is_name => (
                Grade::Manual,
                String::new(),
                "cannot be an id here: the alias is left out",
            ),
            Some(group) if group.name.contains('*') => (
                Grade::Manual,
                String::new(),
                "a pattern has no aliases: the alias is left out",
            ),
            Some(group) => {
                group.aliases.push(alias.to_owned());
                let became = format!("models.{}", group.name);
                if hidden {
                    (
                        Grade::Manual,
                        became,
                        "is hidden in LiteLLM's list of models; here it is listed",
                    )
                } else {
                    (Grade::Exact, became, "")
                }
            }
        };
        findings.push(value.finding(grade, &became, message));
    }
}

/// Reads the router's Redis.
fn read_store(
    redis: &BTreeMap<&str, Spot<'_>>,
    world: &World<'_>,
    made: &mut Made<'_>,
    findings: &mut Vec<Finding>,
) -> Option<New> {
    const FILE: &str = "write the URL with its password into the file secrets/redis-url: redis://:PASSWORD@HOST:PORT/0";
    let became = "server.yaml store";
    let at_file = || New::map([("file", New::text("secrets/redis-url"))]);
    let url = redis.get("redis_url");
    let password = redis.get("redis_password").filter(|spot| !spot.is_empty());
    let host = redis
        .get("redis_host")
        .and_then(|spot| world.word(spot).ok());
    let port = redis
        .get("redis_port")
        .and_then(|spot| world.word(spot).ok())
        .filter(|port| port.parse::<u16>().is_ok());
    let (value, grade, message) = match (url.and_then(Spot::text), password, host) {
        _ if redis.is_empty() => return None,
        (Some(url), ..) => match variable_of(url) {
            Some(name) => {
                made.secrets.push(format!("environment variable {name}"));
                (New::map([("env", New::text(name))]), Grade::Exact, "")
            }
            None => (at_file(), Grade::Manual, FILE),
        },
        (None, None, Some(host)) => {
            let port = port.unwrap_or_else(|| "6379".to_owned());
            (
                New::text(format!("redis://{host}:{port}/0")),
                Grade::Exact,
                "",
            )
        }
        (None, Some(_), _) | (None, None, None) => (at_file(), Grade::Manual, FILE),
    };
    if grade == Grade::Manual {
        made.secrets.push("file secrets/redis-url".to_owned());
    }
    // What is to do is one thing, whatever it consists of.
    for (index, spot) in redis.values().enumerate() {
        let is_first = index == 0 || grade == Grade::Exact;
        let (grade, message) = if is_first {
            (grade, message)
        } else {
            (Grade::Approximate, "is a part of that URL")
        };
        findings.push(spot.finding(grade, became, message));
    }
    Some(value)
}
