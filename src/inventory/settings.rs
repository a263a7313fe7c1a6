//! The settings of accounts, models and targets, as a report of changes shows them. Each is a row:
//! its name in the catalog, which new values are tighter, and how its value is written. A tighter
//! value is one with which some requests may fail that passed before; the report lists it as
//! `tightens`.

use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue};

use super::Settings;
use crate::base::calendar::format_system_time;
use crate::base::units::{Span, duration_text};
use crate::catalog::{Account, Added, Hedge, KeyHeader, Model, Queue, Target, Timeouts};
use crate::conf::proxy::ProxyChoice;
use dialects::front::references::Urls;
use dialects::neutral::purpose::Purpose;
use dialects::traits::{Server, Traits};
use dialects::upstream::AccountField;
use dialects::{Dialect, Endpoint};

/// A setting of a `T`.
struct SettingRow<T> {
    name: &'static str,
    tighter: Tighter,
    /// Returns its value; `None` if it is left out.
    value: fn(&T) -> Option<String>,
}

/// Which new values of a setting are tighter than the old one.
#[derive(Clone, Copy)]
pub(super) enum Tighter {
    /// None of them.
    Never,
    /// A smaller number, or a shorter time. No value means no bound.
    Less,
    /// A list that lacks a word of the old one, whatever else it has.
    FewerWords,
    /// A word that comes before the old one in this order.
    Stricter(&'static [&'static str]),
    /// This word, whatever the old one was.
    Becomes(&'static str),
}

use Tighter::{Becomes, FewerWords, Less, Never, Stricter};

/// The choices of `media_urls`, the tightest first.
const MEDIA_URLS: [&str; 3] = ["refuse", "public", "pass"];

/// Makes the table of a struct's settings. A line has: the field, whose name is the setting's;
/// which values are tighter; and the function that writes the value. `named` has settings with
/// another name than their field. `other` lists the fields that begin no line: a field that is
/// forgotten does not compile.
macro_rules! settings {
    (
        $table:ident: $owner:ident $prefix:literal { $($field:ident, $tighter:expr, $write:expr;)* }
        $(named { $($name:literal, $named_tighter:expr, $write_named:expr;)* })?
        $(other { $($other:ident)* })?
    ) => {
        static $table: &[SettingRow<$owner>] = {
            const _: fn(&$owner) = |$owner { $($field: _,)* $($($other: _),*)? }| ();
            &[
                $(SettingRow {
                    name: concat!($prefix, stringify!($field)),
                    tighter: $tighter,
                    value: |owner| $write(&owner.$field),
                },)*
                $($(SettingRow { name: $name, tighter: $named_tighter, value: $write_named },)*)?
            ]
        };
    };
}

settings! {
    ACCOUNT: Account "" {
        concurrency, Less, option_text;
        headers, Never, header_names;
        probe, Never, flag_text;
        serves, Never, kind_names;
    }
    named {
        "api_version", Never, |account| option_text(&account.dialect.settings().version);
        "auth", Never, auth_word;
        "ca", Never, |account| option_text(&account.network.ca.as_ref().map(|_| "own"));
        "caller_references", FewerWords, allowed_references;
        "dialect", Never, |account| text(&account.dialect.protocol.name);
        "insecure", Never, |account| flag_text(&account.network.insecure);
        "location", Never, location_text;
        "media_urls", Stricter(&MEDIA_URLS), media_urls_word;
        "project", Never, |account| option_text(&account.dialect.settings().project);
        "proxy", Never, proxy_word;
        "quirks", Never, quirks_name;
        "region", Never, region_text;
    }
    // What `AccountItem` has, what the lines above or other tables read, secrets, and what follows
    // from other fields.
    other {
        id index dialect base has_written_base key key_header signer enabled network timeouts added_fields server allowed_references
        fingerprint boundary
    }
}

settings! {
    ADDED: Added "" {
        stream_usage, Never, text;
        trace, Never, flag_text;
    }
}

settings! {
    SERVER: Server "traits." {
        output_config, Never, text;
        parameters_json_schema, Never, text;
        response_json_schema, Never, text;
    }
}

settings! {
    TIMEOUTS: Timeouts "timeouts." {
        connect, Less, time_text;
        first_byte, Less, time_text;
        first_token, Less, optional_time_text;
        idle, Less, time_text;
        total, Less, time_text;
        total_stream, Less, time_text;
    }
}

settings! {
    TRAITS: Traits "traits." {
        bound_thoughts, Never, text;
        cache_breakpoints, Never, text;
        context, Never, option_text;
        efforts, Never, debug_word;
        forced_tools, Never, text;
        forced_while_thinking, Never, text;
        images, Becomes("false"), text;
        input_type, Never, input_type_word;
        max_output, Never, option_text;
        prefill, Never, text;
        sampling, Never, debug_word;
        structured, Never, text;
        structured_with_tools, Never, text;
        thinking, Never, debug_word;
        thinking_off, Never, text;
        tools, Becomes("false"), text;
    }
    other { server guessed }
}

settings! {
    MODEL: Model "" {
        created, Never, creation_time;
        fallbacks, Never, list_text;
        hedge, Never, hedge_text;
        owned_by, Never, text;
        queue, Never, queue_text;
        sticky, Never, flag_text;
    }
    named {
        "defaults.max_tokens", Never, |model| option_text(&model.max_tokens);
        "fallbacks_on.context", Never, |model| list_text(&model.on_context);
        "fallbacks_on.refusal", Never, |model| list_text(&model.on_refusal);
        "kind", Never, |model| option_text(&model.kind.map(|kind| kind.name()));
        "on_broken_call", Becomes("error"), |model| text(&model.on_broken_call.name());
        "on_loss", Becomes("refuse"), |model| text(&model.on_loss.name());
        "reasoning", Never, |model| text(&model.reasoning.name());
        "strategy", Never, |model| text(&model.strategy.name());
    }
    other {
        id pattern index aliases alias_globs strategy targets max_tokens kind on_context on_refusal
        on_loss on_broken_call reasoning
    }
}

/// Lists the settings of an account, but for those that are fields of
/// [`AccountItem`](super::AccountItem).
pub(super) fn account_settings(account: &Account) -> Settings {
    let mut settings = read_settings(ACCOUNT, account);
    settings.extend(read_settings(ADDED, &account.added_fields));
    settings.extend(read_settings(SERVER, &account.server));
    settings.extend(read_settings(TIMEOUTS, &account.timeouts));
    settings
}

/// Lists the settings of a model, but for those that are fields of [`ModelItem`](super::ModelItem).
pub(super) fn model_settings(model: &Model) -> Settings {
    read_settings(MODEL, model)
}

/// Lists the settings of a target, but for those that are fields of
/// [`TargetItem`](super::TargetItem): timeouts, if they are not its account's, and the traits that
/// differ from those of a model of which nothing is known.
pub(super) fn target_settings(target: &Target) -> Settings {
    let mut settings = read_settings(TRAITS, &target.traits);
    let unknown = read_settings(TRAITS, &Traits::UNKNOWN);
    settings.retain(|name, value| unknown.get(name) != Some(value));
    if target.timeouts != target.account.timeouts {
        settings.extend(read_settings(TIMEOUTS, &target.timeouts));
    }
    settings
}

fn read_settings<T>(rows: &[SettingRow<T>], owner: &T) -> Settings {
    rows.iter()
        .filter_map(|row| Some((row.name.to_owned(), (row.value)(owner)?)))
        .collect()
}

impl Tighter {
    /// Finds the values of a setting that are tighter. An unknown setting has none.
    pub(super) fn find(name: &str) -> Tighter {
        fn rules<T>(rows: &[SettingRow<T>]) -> impl Iterator<Item = (&'static str, Tighter)> {
            rows.iter().map(|row| (row.name, row.tighter))
        }
        // The other tables have no setting that can be tighter.
        let mut all = rules(ACCOUNT)
            .chain(rules(MODEL))
            .chain(rules(TIMEOUTS))
            .chain(rules(TRAITS));
        all.find(|(row, _)| *row == name)
            .map_or(Never, |(_, tighter)| tighter)
    }

    /// Returns whether a new value is tighter.
    pub(super) fn is_tighter(self, old: Option<&String>, new: Option<&String>) -> bool {
        let [old_word, new_word] = [old, new].map(|value| value.map_or("", String::as_str));
        match self {
            Never => false,
            Less => read_bound(new) < read_bound(old),
            FewerWords => {
                let is_kept = |word| new_word.split(", ").any(|kept| kept == word);
                !old_word.is_empty() && !old_word.split(", ").all(is_kept)
            }
            Stricter(order) => {
                let [old, new] =
                    [old_word, new_word].map(|value| order.iter().position(|word| *word == value));
                new < old
            }
            Becomes(word) => new_word == word,
        }
    }
}

/// Reads a number or a time. No value means no bound. A text that is neither counts as 0.
fn read_bound(written: Option<&String>) -> u128 {
    let Some(text) = written else {
        return u128::MAX;
    };
    let time = || text.parse().ok().map(|Span(span)| span.as_millis());
    text.parse().ok().or_else(time).unwrap_or_default()
}

fn header_names(headers: &[(HeaderName, HeaderValue)]) -> Option<String> {
    let mut names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    list_text(&names)
}

fn kind_names(serves: &[(Endpoint, Dialect)]) -> Option<String> {
    let kinds: Vec<_> = serves.iter().map(|(kind, _)| kind.name()).collect();
    list_text(&kinds)
}

/// Returns `bearer` if the key is sent as a bearer token, though the dialect has a header of its
/// own for it.
fn auth_word(account: &Account) -> Option<String> {
    let may_differ = account.dialect.protocol.key_header.is_some();
    let is_bearer = matches!(account.key_header, KeyHeader::Bearer);
    (may_differ && is_bearer).then(|| "bearer".to_owned())
}

/// Lists what callers may refer to. Data sources are listed only where requests may pass through
/// unchanged: elsewhere they need no permission.
fn allowed_references(account: &Account) -> Option<String> {
    let allowed = &account.allowed_references;
    let data_sources = allowed.data_sources && account.dialect.protocol.may_pass();
    let references = [
        (allowed.gs, "gs"),
        (allowed.s3, "s3"),
        (allowed.files, "files"),
        (data_sources, "data_sources"),
    ];
    let allowed = references
        .into_iter()
        .filter_map(|(may, name)| may.then_some(name));
    list_text(&Vec::from_iter(allowed))
}

fn media_urls_word(account: &Account) -> Option<String> {
    let [refuse, public, pass] = &MEDIA_URLS;
    text(match account.allowed_references.urls {
        Urls::Any => pass,
        Urls::Public | Urls::NoneForNearServer => public,
        Urls::None => refuse,
    })
}

fn quirks_name(account: &Account) -> Option<String> {
    text(&account.dialect.settings().quirks.name).filter(|name| !name.is_empty())
}

/// Returns the kind of an account's proxy. Its URL may be in the environment, which differs from
/// machine to machine, and is not read of an account that is switched off.
fn proxy_word(account: &Account) -> Option<String> {
    match account.network.proxy {
        ProxyChoice::ProcessDefault => None,
        ProxyChoice::Never => text(&"none"),
        ProxyChoice::Own(_) => text(&"own").filter(|_| account.enabled),
    }
}

/// Returns an account's region, if its dialect calls it `region`.
fn region_text(account: &Account) -> Option<String> {
    let is_region = account.dialect.protocol.has(AccountField::Region);
    option_text(&account.dialect.settings().region).filter(|_| is_region)
}

/// Returns an account's region, if its dialect calls it `location`.
fn location_text(account: &Account) -> Option<String> {
    let is_location = !account.dialect.protocol.has(AccountField::Region);
    option_text(&account.dialect.settings().region).filter(|_| is_location)
}

fn creation_time(created: &u64) -> Option<String> {
    let created = SystemTime::UNIX_EPOCH + Duration::from_secs(*created);
    Some(format_system_time(created))
}

fn hedge_text(hedge: &Option<Hedge>) -> Option<String> {
    let Hedge { after, at_most } = hedge.as_ref()?;
    let [after, at_most] = [after, at_most].map(|share| (share * 1e4).round() / 1e2);
    Some(format!("after p{after}, at most {at_most}%"))
}

fn queue_text(queue: &Option<Queue>) -> Option<String> {
    let Queue { length, wait } = queue.as_ref()?;
    Some(format!("{length} for {}", duration_text(*wait)))
}

fn input_type_word(input_type: &Option<(Purpose, &'static str)>) -> Option<String> {
    option_text(&input_type.map(|(_, word)| word))
}

fn text(value: &impl ToString) -> Option<String> {
    Some(value.to_string())
}

fn option_text(value: &Option<impl ToString>) -> Option<String> {
    value.as_ref().and_then(text)
}

/// Writes a list, if there is anything in it.
fn list_text(words: &[impl AsRef<str>]) -> Option<String> {
    let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn optional_time_text(time: &Option<Duration>) -> Option<String> {
    time.map(duration_text)
}

fn time_text(time: &Duration) -> Option<String> {
    Some(duration_text(*time))
}

fn flag_text(flag: &bool) -> Option<String> {
    flag.then(|| "true".to_owned())
}

/// Writes a value as its `Debug` text in small letters.
fn debug_word(value: &impl std::fmt::Debug) -> Option<String> {
    Some(format!("{value:?}").to_lowercase())
}
