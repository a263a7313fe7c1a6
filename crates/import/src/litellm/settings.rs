//! The settings of LiteLLM's process: what there is of them here.

use std::net::IpAddr;

use super::account::{env_reference, name_files, secret_file};
use super::bound::setting_bound;
use super::merged_config::{MergedConfig, NO_TIME, is_word, variable_name};
use super::models::CatalogDraft;
use super::node::Spot;
use super::routing::Rules;
use super::rules::{Section, Whose, report_field};
use crate::Bound;
use crate::notes::Grade;
use portcullis::base::problem::looks_secret;
use portcullis::catalog::name;
use portcullis::conf::yaml::edit::NewValue;

/// The report's text for the database if files with its keys are given.
const REST_OF_DATABASE: &str = "the keys of LiteLLM's database are given with --keys; its models, guardrails, policies and settings are not: add to the file what you use of them, which may bound keys";

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
    pub(super) redis: Option<NewValue>,
}

/// Reads all settings.
pub(super) fn read_settings(config: &MergedConfig<'_>, draft: &mut CatalogDraft<'_>) -> Common {
    let mut common = Common::default();
    for (name, section) in [
        ("litellm_settings", Section::LiteLlm),
        ("router_settings", Section::Router),
        ("general_settings", Section::General),
    ] {
        let Some(settings) = config.section(name) else {
            continue;
        };
        if !settings.is_map() {
            settings.report_manual("must be a map: its settings are left out");
        }
        for (key, spot) in settings.entries() {
            common.take_setting(section, key, &spot, config, draft);
        }
        if section == Section::Router {
            common.redis = read_store(settings, config, draft);
        }
    }
    for (key, spot) in &config.others {
        match *key {
            // Both are one thing, in however many files they are.
            "policies" | "policy_attachments" => {
                common.add_bound(
                    spot,
                    Whose::All,
                    Bound::not_carried("policies", "guardrails"),
                );
            }
            _ => report_field(Section::File, key, spot),
        }
    }
    common.take_guardrails(config);
    common
}

impl Common {
    /// Adds what bounds keys, and reports where it stands.
    fn add_bound(&mut self, spot: &Spot<'_>, whose: Whose, bound: Bound) {
        bound.report(spot, whose.describe());
        let bound = (whose, bound);
        if !self.bounds.contains(&bound) {
            self.bounds.push(bound);
        }
    }

    /// Takes something that no code of its own reads.
    fn take_unread(&mut self, section: Section, key: &str, spot: &Spot<'_>) {
        match setting_bound(section, spot, key) {
            Some((whose, bound)) => self.add_bound(spot, whose, bound),
            None => report_field(section, key, spot),
        }
    }

    /// Takes the guardrails, of which those that are always on bound every key.
    fn take_guardrails(&mut self, config: &MergedConfig<'_>) {
        let mut is_on = false;
        for spot in config.list("guardrails") {
            report_field(Section::File, "guardrails", spot);
            let params = spot.get("litellm_params");
            let default = params.and_then(|params| params.get("default_on"));
            is_on |= default.is_some_and(|default| default.flag() != Some(false));
        }
        if is_on {
            let bound = Bound::not_carried("guardrails", "guardrails");
            self.bounds.push((Whose::All, bound));
        }
    }

    /// Takes one setting.
    fn take_setting(
        &mut self,
        section: Section,
        key: &str,
        spot: &Spot<'_>,
        config: &MergedConfig<'_>,
        draft: &mut CatalogDraft<'_>,
    ) {
        let rules = &mut self.rules;
        match key {
            "fallbacks" => rules.fallbacks.read(spot, draft),
            "default_fallbacks" => rules.fallbacks.read_default(spot, draft),
            "context_window_fallbacks" => rules.context.read(spot, draft),
            "content_policy_fallbacks" => rules.refusal.read(spot, draft),
            "drop_params" => {
                if let Some(drops) = spot.read_flag("on_loss") {
                    spot.report_exact();
                    rules.on_loss = (!drops).then_some("refuse");
                }
            }
            "routing_strategy" => {
                let (grade, strategy) = match spot.text().unwrap_or_default() {
                    "simple-shuffle" => (Grade::Exact, "weighted"),
                    "least-busy" => (Grade::Exact, "least_busy"),
                    "latency-based-routing" => (Grade::Exact, "fastest"),
                    _ => (Grade::Approximate, "weighted"),
                };
                rules.strategy = Some(strategy);
                let message = "of each model with several targets";
                spot.report(grade, format!("is `strategy: {strategy}` {message}"));
            }
            "model_group_alias" => read_aliases(spot, draft),
            "allowed_ips" => self.read_addresses(spot),
            "apply_user_budget_to_team_keys" => {
                self.is_user_budget_for_teams = spot.flag() != Some(false);
                spot.report_approximate("a key of a team whose user has a budget is switched off");
            }
            "request_timeout" if section == Section::LiteLlm => report_time(spot, config, true),
            "stream_timeout" if section == Section::Router => report_time(spot, config, true),
            "timeout" if section == Section::Router => {
                report_time(spot, config, config.request_timeout().is_none());
            }
            "database_url" if config.has_keys => spot.report_manual(REST_OF_DATABASE),
            // What cannot be read may be on.
            "enable_tag_filtering" if spot.flag() != Some(false) && draft.has_tags => {
                self.add_bound(spot, Whose::All, Bound::not_carried(&spot.path, "tags"));
            }
            _ => self.take_unread(section, key, spot),
        }
    }

    /// Reads `allowed_ips`: all of its addresses, or none if one of them cannot be read.
    fn read_addresses(&mut self, spot: &Spot<'_>) {
        let items = spot.items();
        let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
        let are_addresses = items.iter().all(|item| item.text().is_some_and(is_address));
        if items.is_empty() || !are_addresses {
            spot.report_manual("must be a list of addresses: keys are switched off");
            self.bounds
                .push((Whose::All, Bound::unreadable(&spot.path)));
        } else {
            spot.report(Grade::Exact, "is `allow_ips` of each key that is imported");
            self.addresses = spot.texts();
        }
    }
}

/// Reports a time for all entries, and whether LiteLLM uses it.
fn report_time(spot: &Spot<'_>, config: &MergedConfig<'_>, is_used: bool) {
    const USED: &str = "is written at each account without a time of its own";
    const UNUSED: &str =
        "is not used, as `litellm_settings.request_timeout` goes before it in LiteLLM";
    match config.span(spot) {
        None => spot.report_manual(NO_TIME),
        Some(_) => spot.report_approximate(if is_used { USED } else { UNUSED }),
    }
}

/// Reads `model_group_alias`.
fn read_aliases(spot: &Spot<'_>, draft: &mut CatalogDraft<'_>) {
    const WRONG: &str = "must be a name of its own for one model: the alias is left out";
    let findings = spot.findings;
    for (alias, value) in spot.entries() {
        let model_name = value.get_text("model").or(value.text()).unwrap_or_default();
        let mut aliases = draft.models.iter().flat_map(|model| &model.aliases);
        let is_taken = draft.has_model(alias) || aliases.any(|other| other == alias);
        let Some(model) = draft.find_model_mut(model_name) else {
            draft
                .missing
                .report(&value, model_name, Grade::Manual, "the alias is left out");
            draft.missing.add_alias(alias, model_name);
            continue;
        };
        let is_name = name::of_model(alias).is_ok() && !looks_secret(alias);
        if is_taken || !is_name || model.name.contains('*') {
            value.report_manual(WRONG);
        } else {
            findings.set_entry(model.path());
            match value.get("hidden").and_then(|hidden| hidden.flag()) {
                Some(true) => {
                    value.report_manual("is hidden in LiteLLM's list of models; here it is listed");
                }
                Some(false) | None => value.report_exact(),
            }
            findings.set_entry("");
            model.aliases.push(alias.to_owned());
        }
    }
}

/// Reads the router's Redis.
fn read_store(
    router: &Spot<'_>,
    config: &MergedConfig<'_>,
    draft: &mut CatalogDraft<'_>,
) -> Option<NewValue> {
    const FIELDS: [&str; 4] = ["redis_host", "redis_password", "redis_port", "redis_url"];
    const FILE: &str = "write the URL with its password into the file secrets/redis-url: redis://:PASSWORD@HOST:PORT/0";
    let mut spots = FIELDS.iter().filter_map(|field| router.get(field));
    let first = spots.next()?;
    let word = |field: &str| config.word(&router.get(field)?, is_word).ok();
    let port = word("redis_port").filter(|port| port.parse::<u16>().is_ok());
    let port = port.as_deref().unwrap_or("6379");
    let url = router.get_text("redis_url");
    let has_secret = url.is_some() || router.filled("redis_password").is_some();
    let value = match (url.and_then(variable_name), word("redis_host")) {
        (Some(name), _) => Some(env_reference(name)),
        (None, Some(host)) if !has_secret => Some(format!("redis://{host}:{port}/0").into()),
        (None, _) => None,
    };
    first.findings.set_entry("server.yaml store");
    if value.is_some() {
        first.report_exact();
        spots.for_each(|spot| spot.report_exact());
    } else {
        // What is to do is one thing, whatever it consists of.
        first.report_manual(FILE);
        spots.for_each(|spot| spot.report_approximate("is a part of that URL"));
    }
    first.findings.set_entry("");
    let mut value = value.unwrap_or_else(|| secret_file("redis-url"));
    name_files(&mut value, "", &mut draft.secrets);
    Some(value)
}
