//! An account of one entry of `model_list`: its address, its credential, its deadlines.

use super::draft::{Draft, is_word};
use super::node::At;
use super::params::{ENVIRON, Params, World};
use super::provider::{Ours, ProviderRow};
use super::{address, credential};
use crate::base::problem::unless_secret;
use crate::catalog::raw::{CREDENTIAL_HEADERS, OWN_HEADERS};
use crate::conf::yaml::edit::New;
use crate::import::notes::{Finding, Grade};

/// Makes the account of an entry. Returns `None` if there is none, and says why in `lost`.
pub(super) fn of(
    row: &'static ProviderRow,
    entry: &At<'_>,
    params: &mut Params<'_>,
    world: &World<'_>,
    lost: &mut Vec<Finding>,
) -> Option<Draft> {
    let mut draft =
        Draft { wish: String::new(), fields: Vec::new(), literals: Vec::new(), is_own: false, findings: Vec::new() };
    for field in UNCARRIED {
        if let Some(at) = params.take(field) {
            const WHAT: &str = "Portcullis has no credential of this kind: the entry is left out";
            lost.push(at.finding(Grade::Unsupported, "", WHAT));
        }
    }
    if !lost.is_empty() {
        return None;
    }
    let base = match address::find(row, params, world, &mut draft) {
        Ok(base) => base,
        Err(finding) => {
            lost.push(*finding);
            return None;
        }
    };
    let known = shape(row, base.as_deref(), entry, &mut draft, lost)?;
    match known {
        Ours::Dialect("bedrock") => credential::bedrock(entry, params, world, &mut draft, lost)?,
        Ours::Dialect("vertex") => credential::vertex(entry, params, world, &mut draft, lost)?,
        Ours::Preset(_) | Ours::Dialect(_) | Ours::Server(_) => {
            if known == Ours::Dialect("azure") {
                credential::version(params, world, entry, &mut draft);
            }
            credential::key(row, entry, params, world, &mut draft);
        }
    }
    headers(params, &mut draft);
    timeouts(params, world, &mut draft);
    if let Some(at) = params.take("max_parallel_requests") {
        match at.amount().and_then(crate::import::amount::Amount::whole).filter(|most| (1..=1_000_000).contains(most)) {
            Some(most) => {
                draft.set("concurrency", New::Number(most.to_string()));
                draft.is_own = true;
                draft.note(
                    &at,
                    Grade::Approximate,
                    "the account of this entry has this `concurrency`; a request over it goes to the next target",
                );
            }
            None => draft.note(&at, Grade::Manual, "must be a whole number from 1: write `concurrency` by hand"),
        }
    }
    Some(draft)
}

/// Credentials that have no counterpart. An entry that needs one is left out.
const UNCARRIED: [&str; 14] = [
    "azure_ad_token",
    "azure_ad_token_provider",
    "tenant_id",
    "client_id",
    "client_secret",
    "azure_username",
    "azure_password",
    "aws_role_name",
    "aws_session_name",
    "aws_profile_name",
    "aws_web_identity_token",
    "aws_sts_endpoint",
    "aws_external_id",
    "use_xai_oauth",
];

/// Writes the preset or the dialect, and the address.
fn shape(
    row: &'static ProviderRow,
    base: Option<&str>,
    entry: &At<'_>,
    draft: &mut Draft,
    lost: &mut Vec<Finding>,
) -> Option<Ours> {
    let label = base.map(address::host_label);
    match (row.ours, base) {
        (Ours::Preset(preset), None) => {
            draft.wish = preset.to_owned();
            draft.set("preset", New::text(preset));
        }
        (Ours::Preset("openai"), Some(base)) => {
            draft.wish = label.unwrap_or_default();
            draft.set("dialect", New::text("openai"));
            draft.set("base_url", New::text(base));
        }
        (Ours::Preset(preset), Some(base)) => {
            draft.wish = preset.to_owned();
            draft.set("preset", New::text(preset));
            draft.set("base_url", New::text(base));
        }
        (Ours::Server(quirks), Some(base)) => {
            draft.wish = label.unwrap_or_default();
            draft.set("dialect", New::text("openai"));
            draft.set("base_url", New::text(base));
            if let Some(quirks) = quirks {
                draft.set("quirks", New::text(quirks));
            }
        }
        (Ours::Server(_) | Ours::Dialect("azure"), None) => {
            const WHAT: &str = "names no address (`api_base`), nor does the environment: the entry is left out";
            lost.push(entry.finding(Grade::Manual, "", WHAT));
            return None;
        }
        (Ours::Dialect(dialect), base) => {
            draft.wish = match label {
                Some(label) => format!("{dialect}-{label}"),
                None => dialect.to_owned(),
            };
            draft.set("dialect", New::text(dialect));
            if let Some(base) = base {
                draft.set("base_url", New::text(base));
            }
        }
    }
    if base.is_some_and(address::is_open) {
        draft.set("insecure", New::Bool(true));
        const WHAT: &str = "the address is plain http: to a host that may be public, so `insecure: true` is written; use https: if the server has it";
        draft.note(entry, Grade::Approximate, WHAT);
    }
    Some(row.ours)
}

/// Writes the headers that are sent with each request.
fn headers(params: &mut Params<'_>, draft: &mut Draft) {
    let mut headers: Vec<(String, New)> = Vec::new();
    if let Some(at) = params.take("organization") {
        match at.text().filter(|text| is_word(text)) {
            Some(text) => {
                headers.push(("OpenAI-Organization".to_owned(), New::text(text)));
                draft.note(&at, Grade::Exact, "");
            }
            None => draft.note(
                &at,
                Grade::Manual,
                "write the organisation into `headers` by hand, as `OpenAI-Organization`",
            ),
        }
    }
    for list in ["extra_headers", "headers"] {
        let Some(at) = params.take(list) else { continue };
        for (header, value) in at.entries() {
            let lower = header.to_ascii_lowercase();
            let hints = ["key", "token", "secret", "auth", "cookie", "password", "credential"];
            let is_credential =
                CREDENTIAL_HEADERS.contains(&lower.as_str()) || hints.iter().any(|hint| lower.contains(hint));
            let is_name = http::HeaderName::try_from(header).is_ok() && unless_secret(header) == header;
            let text = value.text().filter(|text| {
                (1..=200).contains(&text.len())
                    && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
                    && text.trim() == *text
                    && unless_secret(text) == *text
                    && !text.starts_with(ENVIRON)
            });
            let is_taken = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(header));
            match text {
                Some(text) if is_name && !is_credential && !is_taken && !OWN_HEADERS.contains(&lower.as_str()) => {
                    headers.push((header.to_owned(), New::text(text)));
                    draft.note(&value, Grade::Exact, "");
                }
                Some(_) | None => {
                    const WHAT: &str =
                        "a header that may hold a secret, or that the gateway writes itself, is not carried";
                    draft.note(&value, Grade::Manual, WHAT);
                }
            }
        }
    }
    if !headers.is_empty() {
        draft.set("headers", New::Map(headers));
    }
}

/// Writes deadlines. What the entry does not say, the settings of all entries may.
fn timeouts(params: &mut Params<'_>, world: &World<'_>, draft: &mut Draft) {
    let mut times = Vec::new();
    for (written, field, common) in
        [("timeout", "total", &world.timeout), ("stream_timeout", "first_byte", &world.stream_timeout)]
    {
        let own = params.take(written);
        let Some(at) = own.as_ref().or(common.as_ref()) else { continue };
        match world.plain(at).ok().as_deref().and_then(span) {
            Some(span) => {
                times.push((field.to_owned(), New::text(span)));
                let what = match field {
                    "total" => "is `timeouts.total`, for all attempts of a request together; LiteLLM counts each read",
                    _ => "is `timeouts.first_byte`: the time until a stream begins",
                };
                draft.note(at, Grade::Approximate, what);
            }
            None => draft.note(at, Grade::Manual, "must be a number of seconds: write `timeouts` by hand"),
        }
    }
    if !times.is_empty() {
        draft.set("timeouts", New::Map(times));
    }
}

/// Writes seconds as a length of time.
fn span(seconds: &str) -> Option<String> {
    const WEEK: u64 = 168 * 3_600_000;
    let (milliseconds, _) = crate::import::amount::Amount::of(seconds)?.units(3)?;
    match milliseconds {
        0 => None,
        ms if ms > WEEK => None,
        ms if ms.is_multiple_of(1_000) => Some(format!("{}s", ms / 1_000)),
        ms => Some(format!("{ms}ms")),
    }
}
