//! The settings of accounts, models and targets as texts, under their names in the catalog.

use std::time::{Duration, SystemTime};

use super::Settings;
use crate::base::calendar::format_system_time;
use crate::catalog::{Account, KeyHeader, Model, Target, Timeouts};
use crate::conf::proxy::ProxyChoice;
use dialects::front::references::Urls;
use dialects::traits::Traits;
use dialects::upstream::AccountField;

/// Lists the settings of an account that have no field of their own.
pub(super) fn account_settings(account: &Account) -> Settings {
    let settings = account.dialect.settings();
    let leave = &account.leave;
    let protocol = account.dialect.protocol;
    // Where no request passes through unchanged, these need no leave.
    let data_sources = leave.data_sources && protocol.may_pass();
    let references = [
        ("gs", leave.gs),
        ("s3", leave.s3),
        ("files", leave.files),
        ("data_sources", data_sources),
    ];
    let references: Vec<_> = references
        .into_iter()
        .filter(|(_, may)| *may)
        .map(|(name, _)| name)
        .collect();
    let urls = match leave.urls {
        Urls::Any => "pass",
        Urls::Public | Urls::NoneSinceNear => "public",
        Urls::None => "refuse",
    };
    let is_bearer = matches!(account.key_header, KeyHeader::Bearer);
    let place_name = if protocol.has(AccountField::Region) {
        "region"
    } else {
        "location"
    };
    // Its URL may be in the environment, which differs from machine to machine.
    let proxy = match account.network.proxy {
        ProxyChoice::ProcessDefault => None,
        ProxyChoice::Never => Some("none"),
        // What is in files and variables is not read of an account that is switched off.
        ProxyChoice::Own(_) => Some("own").filter(|_| account.enabled),
    };
    let serves: Vec<_> = account.serves.iter().map(|(kind, _)| kind.name()).collect();
    let mut headers: Vec<_> = account
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    headers.sort_unstable();
    let text = |text: &Option<std::sync::Arc<str>>| text.as_ref().map(ToString::to_string);
    let written = [
        ("api_version", text(&settings.version)),
        (
            "auth",
            (is_bearer && protocol.key_header.is_some()).then(|| "bearer".to_owned()),
        ),
        ("ca", account.network.ca.as_ref().map(|_| "own".to_owned())),
        (
            "caller_references",
            Some(references.join(", ")).filter(|list| !list.is_empty()),
        ),
        (
            "concurrency",
            account.concurrency.map(|limit| limit.to_string()),
        ),
        ("dialect", Some(protocol.name.to_owned())),
        (
            "headers",
            Some(headers.join(", ")).filter(|list| !list.is_empty()),
        ),
        ("insecure", flag_text(account.network.insecure)),
        ("media_urls", Some(urls.to_owned())),
        (place_name, text(&settings.region)),
        ("probe", flag_text(account.probe)),
        ("project", text(&settings.project)),
        ("proxy", proxy.map(ToOwned::to_owned)),
        (
            "quirks",
            Some(settings.quirks.name.to_owned()).filter(|name| !name.is_empty()),
        ),
        ("serves", Some(serves.join(", "))),
        ("stream_usage", Some(account.added.stream_usage.to_string())),
        ("trace", flag_text(account.added.trace)),
        (
            "traits.output_config",
            Some(account.server.output_config.to_string()),
        ),
        (
            "traits.parameters_json_schema",
            Some(account.server.parameters_json_schema.to_string()),
        ),
        (
            "traits.response_json_schema",
            Some(account.server.response_json_schema.to_string()),
        ),
    ];
    collect_settings(
        written
            .into_iter()
            .chain(timeout_settings(&account.timeouts)),
    )
}

/// Lists the settings of a model that have no field of their own.
pub(super) fn model_settings(model: &Model) -> Settings {
    let written = [
        (
            "created",
            Some(format_system_time(
                SystemTime::UNIX_EPOCH + Duration::from_secs(model.created),
            )),
        ),
        (
            "defaults.max_tokens",
            model.max_tokens.map(|limit| limit.to_string()),
        ),
        ("fallbacks", listed(&model.fallbacks)),
        ("fallbacks_on.context", listed(&model.on_context)),
        ("fallbacks_on.refusal", listed(&model.on_refusal)),
        (
            "hedge",
            model.hedge.map(|hedge| {
                format!(
                    "after p{}, at most {}%",
                    to_percent(hedge.after),
                    to_percent(hedge.at_most)
                )
            }),
        ),
        (
            "kind",
            model.kind.map(|kind| format!("{kind:?}").to_lowercase()),
        ),
        (
            "on_broken_call",
            Some(choose_word(model.refuse_broken_calls, "error", "pass")),
        ),
        (
            "on_loss",
            Some(choose_word(model.refuse_loss, "refuse", "drop")),
        ),
        ("owned_by", Some(model.owned_by.to_string())),
        (
            "queue",
            model
                .queue
                .map(|queue| format!("{} for {}", queue.length, duration_text(queue.wait))),
        ),
        (
            "reasoning",
            Some(choose_word(model.show_reasoning, "show", "hide")),
        ),
        ("sticky", flag_text(model.sticky)),
        ("strategy", Some(model.strategy.name().to_owned())),
    ];
    collect_settings(written)
}

/// Writes a list, if there is anything in it.
fn listed(ids: &[std::sync::Arc<str>]) -> Option<String> {
    let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
    Some(ids.join(", ")).filter(|list| !list.is_empty())
}

/// Returns a share as a number of hundredths.
fn to_percent(share: f64) -> f64 {
    (share * 1e4).round() / 1e2
}

/// Lists the settings of a target that have no field of their own.
pub(super) fn target_settings(target: &Target) -> Settings {
    let own =
        (target.timeouts != target.account.timeouts).then(|| timeout_settings(&target.timeouts));
    collect_settings(
        own.into_iter()
            .flatten()
            .chain(trait_settings(&target.traits)),
    )
}

/// Lists the traits that differ from those of a model of which nothing is known.
fn trait_settings(traits: &Traits) -> impl Iterator<Item = (&'static str, Option<String>)> {
    let pairs = named_traits(traits).into_iter();
    let pairs = pairs.zip(named_traits(&Traits::UNKNOWN));
    pairs
        .filter(|(trait_, unknown)| trait_ != unknown)
        .map(|((name, value), _)| (name, Some(value)))
}

fn named_traits(traits: &Traits) -> [(&'static str, String); 16] {
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let input_type = traits.input_type.map(|(_, word)| word.to_owned());
    [
        ("traits.context", number(traits.context)),
        ("traits.max_output", number(traits.max_output)),
        ("traits.sampling", debug_word(&traits.sampling)),
        ("traits.thinking", debug_word(&traits.thinking)),
        ("traits.thinking_off", traits.thinking_off.to_string()),
        ("traits.efforts", debug_word(&traits.efforts)),
        ("traits.bound_thoughts", traits.bound_thoughts.to_string()),
        ("traits.tools", traits.tools.to_string()),
        ("traits.forced_tools", traits.forced_tools.to_string()),
        (
            "traits.forced_while_thinking",
            traits.forced_while_thinking.to_string(),
        ),
        ("traits.structured", traits.structured.to_string()),
        (
            "traits.structured_with_tools",
            traits.structured_with_tools.to_string(),
        ),
        ("traits.images", traits.images.to_string()),
        ("traits.prefill", traits.prefill.to_string()),
        (
            "traits.cache_breakpoints",
            traits.cache_breakpoints.to_string(),
        ),
        ("traits.input_type", input_type.unwrap_or_default()),
    ]
}

fn timeout_settings(timeouts: &Timeouts) -> [(&'static str, Option<String>); 6] {
    [
        ("timeouts.connect", Some(duration_text(timeouts.connect))),
        (
            "timeouts.first_byte",
            Some(duration_text(timeouts.first_byte)),
        ),
        (
            "timeouts.first_token",
            timeouts.first_token.map(duration_text),
        ),
        ("timeouts.idle", Some(duration_text(timeouts.idle))),
        ("timeouts.total", Some(duration_text(timeouts.total))),
        (
            "timeouts.total_stream",
            Some(duration_text(timeouts.total_stream)),
        ),
    ]
}

fn collect_settings(written: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Settings {
    written
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

fn choose_word(is: bool, yes: &str, no: &str) -> String {
    if is { yes } else { no }.to_owned()
}

fn flag_text(flag: bool) -> Option<String> {
    flag.then(|| "true".to_owned())
}

fn debug_word(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// Writes a length of time as the catalog does.
fn duration_text(time: Duration) -> String {
    let milliseconds = time.as_millis();
    if milliseconds.is_multiple_of(1_000) {
        format!("{}s", milliseconds / 1_000)
    } else {
        format!("{milliseconds}ms")
    }
}
