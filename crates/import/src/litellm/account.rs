//! An account of one entry of `model_list`: its address, its credential, its deadlines.

use super::draft::{Draft, is_word};
use super::node::Spot;
use super::params::{ENVIRON, Params, World};
use super::provider::{Ours, ProviderRow};
use super::{address, credential};
use crate::notes::{Finding, Grade};
use portcullis::base::problem::unless_secret;
use portcullis::catalog::raw::{CREDENTIAL_HEADERS, OWN_HEADERS};
use portcullis::conf::yaml::edit::New;

/// Makes the account of an entry. Returns `None` if there is none, with the reason in `lost`.
pub(super) fn draft_account<'a>(
    row: &'static ProviderRow,
    entry: &Spot<'_>,
    params: &mut Params<'a>,
    world: &World<'a>,
    lost: &mut Vec<Finding>,
) -> Option<Draft> {
    let mut draft = Draft {
        wish: String::new(),
        fields: Vec::new(),
        literals: Vec::new(),
        is_own: false,
        findings: Vec::new(),
    };
    for field in UNCARRIED {
        if let Some(spot) = params.take(field) {
            const MESSAGE: &str =
                "Portcullis has no credential of this kind: the entry is left out";
            lost.push(spot.finding(Grade::Unsupported, "", MESSAGE));
        }
    }
    if !lost.is_empty() {
        return None;
    }
    let base = match address::find_address(row, params, world, &mut draft) {
        Ok(base) => base,
        Err(finding) => {
            lost.push(*finding);
            return None;
        }
    };
    let known = write_shape(row, base.as_deref(), entry, &mut draft, lost)?;
    match known {
        Ours::Dialect("bedrock") => {
            credential::write_bedrock(entry, params, world, &mut draft, lost)?
        }
        Ours::Dialect("vertex") => {
            credential::write_vertex(entry, params, world, &mut draft, lost)?
        }
        Ours::Preset(_) | Ours::Dialect(_) | Ours::Server(_) => {
            if known == Ours::Dialect("azure") {
                credential::write_version(params, world, entry, &mut draft);
            }
            credential::write_key(row, entry, params, world, &mut draft);
        }
    }
    write_headers(params, &mut draft);
    write_timeouts(params, world, &mut draft);
    if let Some(spot) = params.take("max_parallel_requests") {
        match spot
            .amount()
            .and_then(crate::amount::Amount::whole)
            .filter(|limit| (1..=1_000_000).contains(limit))
        {
            Some(limit) => {
                draft.set("concurrency", New::Number(limit.to_string()));
                draft.is_own = true;
                draft.note(
                    &spot,
                    Grade::Approximate,
                    "the account of this entry has this `concurrency`; a request over it goes to the next target",
                );
            }
            None => draft.note(
                &spot,
                Grade::Manual,
                "must be a whole number from 1: write `concurrency` by hand",
            ),
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
fn write_shape(
    row: &'static ProviderRow,
    base: Option<&str>,
    entry: &Spot<'_>,
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
            lost.push(without_address(row, entry));
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
        const MESSAGE: &str = "the address is plain http: to a host that may be public, so `insecure: true` is written; use https: if the server has it";
        draft.note(entry, Grade::Approximate, MESSAGE);
    }
    Some(row.ours)
}

/// Makes the finding about an entry whose address is neither in the file nor in the environment.
fn without_address(row: &ProviderRow, entry: &Spot<'_>) -> Finding {
    let Some(variable) = row.bases.first() else {
        return entry.finding(
            Grade::Manual,
            "",
            "names no address (`api_base`): the entry is left out",
        );
    };
    let message = format!(
        "names no address (`api_base`), and {} is not set here: set it and run this again; the entry is left out",
        row.bases.join(" or ")
    );
    Finding {
        unset: Some((*variable).to_owned()),
        ..entry.finding(Grade::Manual, "", message)
    }
}

/// Writes the headers that are sent with each request.
fn write_headers(params: &mut Params<'_>, draft: &mut Draft) {
    let mut headers: Vec<(String, New)> = Vec::new();
    if let Some(spot) = params.take("organization") {
        match spot.text().filter(|text| is_word(text)) {
            Some(text) => {
                headers.push(("OpenAI-Organization".to_owned(), New::text(text)));
                draft.note(&spot, Grade::Exact, "");
            }
            None => draft.note(
                &spot,
                Grade::Manual,
                "write the organisation into `headers` by hand, as `OpenAI-Organization`",
            ),
        }
    }
    for list in ["extra_headers", "headers"] {
        let Some(spot) = params.take(list) else {
            continue;
        };
        for (header, value) in spot.entries() {
            let lower = header.to_ascii_lowercase();
            let hints = [
                "key",
                "token",
                "secret",
                "auth",
                "cookie",
                "password",
                "credential",
            ];
            let is_credential = CREDENTIAL_HEADERS.contains(&lower.as_str())
                || hints.iter().any(|hint| lower.contains(hint));
            let is_name =
                http::HeaderName::try_from(header).is_ok() && unless_secret(header) == header;
            let text = value.text().filter(|text| {
                (1..=200).contains(&text.len())
                    && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
                    && text.trim() == *text
                    && unless_secret(text) == *text
                    && !text.starts_with(ENVIRON)
            });
            let is_taken = headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(header));
            match text {
                Some(text)
                    if is_name
                        && !is_credential
                        && !is_taken
                        && !OWN_HEADERS.contains(&lower.as_str()) =>
                {
                    headers.push((header.to_owned(), New::text(text)));
                    draft.note(&value, Grade::Exact, "");
                }
                Some(_) | None => {
                    const MESSAGE: &str = "a header that may hold a secret, or that the gateway writes itself, is not carried";
                    draft.note(&value, Grade::Manual, MESSAGE);
                }
            }
        }
    }
    if !headers.is_empty() {
        draft.set("headers", New::Map(headers));
    }
}

/// The longest time of a stream, which LiteLLM does not bound. It is the catalog's default.
const LONGEST_STREAM: &str = "3600s";

/// Writes deadlines. The settings of all entries hold where the entry has none. LiteLLM's times are
/// those of one read: of a whole answer, that is the answer, and of a stream each of its parts.
fn write_timeouts<'a>(params: &mut Params<'a>, world: &World<'a>, draft: &mut Draft) {
    const OF_ALL: &str = "is `timeouts.total` of whole answers, for all attempts of a request together, and `first_byte` and `idle` of \
                          streams: LiteLLM counts each read, and does not end a stream that goes on";
    const OF_WHOLE_ANSWERS: &str = "is `timeouts.total` of whole answers, for all attempts of a request together; streams have `stream_timeout`";
    const OF_STREAMS: &str =
        "is `timeouts.first_byte` and `idle`: LiteLLM counts each read of a stream";
    let of_streams = take_deadline(
        "stream_timeout",
        &world.stream_timeout,
        params,
        world,
        draft,
    );
    let of_all = take_deadline("timeout", &world.timeout, params, world, draft);
    if let Some((spot, _)) = &of_all {
        draft.note(
            spot,
            Grade::Approximate,
            if of_streams.is_some() {
                OF_WHOLE_ANSWERS
            } else {
                OF_ALL
            },
        );
    }
    if let Some((spot, _)) = &of_streams {
        draft.note(spot, Grade::Approximate, OF_STREAMS);
    }
    let mut times = Vec::new();
    if let Some((_, span)) = of_streams.as_ref().or(of_all.as_ref()) {
        times.extend(["first_byte", "idle"].map(|field| (field.to_owned(), New::text(span))));
    }
    if let Some((_, span)) = &of_all {
        times.push(("total".to_owned(), New::text(span)));
        times.push(("total_stream".to_owned(), New::text(LONGEST_STREAM)));
    }
    if !times.is_empty() {
        draft.set("timeouts", New::Map(times));
    }
}

/// Reads a deadline of the entry, or else of all entries. Also returns the place where it stands.
fn take_deadline<'a>(
    field: &str,
    common: &Option<Spot<'a>>,
    params: &mut Params<'a>,
    world: &World<'a>,
    draft: &mut Draft,
) -> Option<(Spot<'a>, String)> {
    let spot = params.take(field).or_else(|| common.clone())?;
    let span = world.plain(&spot).ok().as_deref().and_then(format_span);
    if span.is_none() {
        draft.note(
            &spot,
            Grade::Manual,
            "must be a number of seconds: write `timeouts` by hand",
        );
    }
    Some((spot, span?))
}

/// Writes seconds as a length of time.
fn format_span(seconds: &str) -> Option<String> {
    const WEEK: u64 = 168 * 3_600_000;
    let (milliseconds, _) = crate::amount::Amount::parse(seconds)?.units(3)?;
    match milliseconds {
        0 => None,
        ms if ms > WEEK => None,
        ms if ms.is_multiple_of(1_000) => Some(format!("{}s", ms / 1_000)),
        ms => Some(format!("{ms}ms")),
    }
}
