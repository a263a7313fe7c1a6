//! The section `traces:` of `server.yaml`: where traces are sent, and which.
//!
//! Keys that the section leaves out come from the variables `OTEL_*` that all programs share.
//! **Invariant:** without the section, these variables do nothing. No message quotes the URL or a
//! header: a user may have put a secret there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::notify::Webhook;
use super::raw;
use crate::base::units::{Share, Span, Text};
use crate::conf::scribe::Scribe;
use crate::conf::secret_ref::{Reference, STAND_IN, SecretRef};
use dialects::wire::percent;

/// The path at which receivers take traces.
const PATH: &str = "/v1/traces";
/// The port of receivers for gRPC.
const GRPC: u16 = 4317;
/// Headers that the gateway writes itself.
const OWN_HEADERS: [&str; 7] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
];

/// The settings of traces.
#[derive(Debug, Clone)]
pub struct Traces {
    /// The address that traces are posted to.
    pub endpoint: Webhook,
    /// Which settings are those of the file, and not of variables.
    pub written: FromFile,
    /// The headers that go with them. Their values are marked sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Certificates (PEM) that are trusted besides the system's.
    pub ca: Option<Arc<[u8]>>,
    /// Which requests are sent.
    pub sampling: Sampling,
    /// True if the spans of attempts show the model, the tokens and the cost.
    pub gen_ai: bool,
    /// The attributes of this gateway, by name. `service.name` is there.
    pub resource: BTreeMap<String, String>,
}

/// Which settings are written in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromFile {
    /// `endpoint`.
    pub endpoint: bool,
    /// `sample`.
    pub sample: bool,
    /// `headers`.
    pub headers: bool,
    /// `resource`.
    pub resource: BTreeMap<String, String>,
}

/// Which requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The share that is sent of those for which no parent decides.
    pub share: f64,
    /// True if the caller's `traceparent` decides, where there is one.
    pub follows_parent: bool,
    /// The time from which a request is sent in any case.
    pub slow: Option<Duration>,
    /// The most requests a second that are sent because a caller asks for it; and as many because
    /// they failed, fell over or were slow.
    pub extra_per_second: u32,
}

/// Returns the settings, unless `OTEL_SDK_DISABLED` switches them off.
pub(super) fn resolve_traces(raw: &raw::Traces, section: &Scribe<'_, '_>) -> Option<Traces> {
    let endpoint = resolve_endpoint(raw, section);
    let headers = match &raw.headers {
        Some(written) => written_headers(&written.0, &section.key("headers")),
        None => headers_of_variable(raw.endpoint.is_some(), section),
    };
    let ca = raw
        .tls
        .as_ref()
        .and_then(|tls| read_certificates(tls, endpoint.as_ref(), &section.key("tls")));
    let sampling = resolve_sampling(raw, section);
    let resource = resolve_resource(raw, section);
    if is_off(section) {
        section.warn("are off, because the environment variable OTEL_SDK_DISABLED is true");
        return None;
    }
    let gen_ai = raw.gen_ai.unwrap_or_default() == raw::GenAi::Attempts;
    let pairs = raw.resource.iter().flat_map(|resource| &resource.0);
    let written = FromFile {
        endpoint: raw.endpoint.is_some(),
        sample: raw.sample.is_some(),
        headers: raw.headers.is_some(),
        resource: pairs
            .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
            .collect(),
    };
    Some(Traces {
        endpoint: endpoint?,
        written,
        headers,
        ca,
        sampling,
        gen_ai,
        resource,
    })
}

/// Returns whether traces are switched off. Then no other variable says anything, and nothing is
/// missing.
fn is_off(section: &Scribe<'_, '_>) -> bool {
    section
        .look_up(Reference::Env("OTEL_SDK_DISABLED"))
        .is_ok_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns the value of an environment variable. An empty one counts as none.
fn read_variable(section: &Scribe<'_, '_>, name: &str) -> Option<String> {
    let value = section
        .look_up(Reference::Env(name))
        .ok()
        .filter(|value| !value.is_empty() && value != STAND_IN);
    value.filter(|_| !is_off(section))
}

/// Returns the value of the first of these variables that is set, and its name.
fn first_of(section: &Scribe<'_, '_>, names: [&'static str; 2]) -> Option<(&'static str, String)> {
    names
        .into_iter()
        .find_map(|name| Some((name, read_variable(section, name)?)))
}

fn resolve_endpoint(raw: &raw::Traces, section: &Scribe<'_, '_>) -> Option<Webhook> {
    const SHAPE: &str = "must be a URL such as http://collector:4318";
    if let Some(written) = &raw.endpoint {
        let scribe = section.key("endpoint");
        let url = Webhook::parse_shaped(written, SHAPE)
            .map_err(|wrong| scribe.note_problem_unquoted(&wrong))
            .ok()?;
        scribe.note_problem_if(url.port == GRPC, ABOUT_GRPC);
        let has_path = url.target.expose() != "/" && !url.target.expose().starts_with("/?");
        return if has_path {
            Some(url)
        } else {
            Webhook::parse_shaped(&with_path(written), SHAPE).ok()
        };
    }
    const GENERAL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let Some((name, value)) = first_of(section, ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", GENERAL])
    else {
        if is_off(section) {
            return None;
        }
        // The variables are not read.
        if section
            .look_up(Reference::Env(GENERAL))
            .is_ok_and(|value| value == STAND_IN)
        {
            return Webhook::parse("https://assumed.invalid/").ok();
        }
        let message = "is missing, and OTEL_EXPORTER_OTLP_ENDPOINT is not set: write a URL such as http://collector:4318";
        section.key("endpoint").note_missing(message);
        return None;
    };
    speaks_http(section);
    // The general variable is the beginning of the addresses of all signals.
    let url = if name == GENERAL {
        with_path(&value)
    } else {
        value
    };
    let read =
        Webhook::parse_shaped(&url, SHAPE).map_err(|wrong| format!("take {name}, which {wrong}"));
    let url = section.read_or_noted(read)?;
    let message = format!("take {name}, whose port {ABOUT_GRPC}");
    section.note_problem_if(url.port == GRPC, &message);
    Some(url)
}

const ABOUT_GRPC: &str = "is 4317, the port for gRPC, which Portcullis does not speak: write the receiver's port for \
                          HTTP, which is usually 4318";

/// Adds the path to the beginning of an address. A query stays behind it.
fn with_path(url: &str) -> String {
    let url = url.trim_end_matches(['\r', '\n']);
    let (base, query) = url
        .find('?')
        .map_or((url, ""), |query_start| url.split_at(query_start));
    [base.trim_end_matches('/'), PATH, query].concat()
}

/// Refuses a protocol that is not spoken.
fn speaks_http(section: &Scribe<'_, '_>) {
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ];
    let Some((name, value)) = first_of(section, names) else {
        return;
    };
    let instead = match &*value {
        "http/protobuf" => return,
        "grpc" => {
            "grpc, which Portcullis does not speak: write http/protobuf, and the receiver's port for HTTP, which is usually 4318"
        }
        "http/json" => "http/json, which Portcullis does not write: write http/protobuf",
        _ => "no protocol that is known: write http/protobuf",
    };
    section.note_problem(&format!(
        "take {name}, which is {instead}; or write `endpoint` here"
    ));
}

fn written_headers(
    written: &[(String, Option<SecretRef>)],
    section: &Scribe<'_, '_>,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for (name, value) in written {
        let scribe = section.entry(name);
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            scribe.note_problem("is not the name of a header");
            continue;
        };
        scribe.note_problem_if(
            OWN_HEADERS.contains(&header.as_str()),
            "cannot be set here: the gateway itself writes it",
        );
        let is_twice = headers.iter().any(|(known, _)| *known == header);
        scribe.note_problem_if(
            is_twice,
            "is written twice, with other upper and lower case: keep only one",
        );
        let Some(value) = value else { continue };
        let is_literal = matches!(value, SecretRef::Literal(_));
        let is_secret = ["authorization", "key", "token", "secret"]
            .iter()
            .any(|word| header.as_str().contains(word));
        let message = "is a secret in clear text: `{ file: /path }` or `{ env: NAME }` is safer";
        scribe.warn_if(is_literal && is_secret, message);
        headers.extend(
            scribe
                .secret(value, header_value)
                .map(|value| (header, value)),
        );
    }
    headers
}

/// Reads the value of a header. An error is the rest of a sentence.
fn header_value(text: &str) -> Result<HeaderValue, String> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| "may only hold printable ASCII characters")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the headers of a variable. They may be a secret of the variables' own receiver, so no
/// other one gets them.
fn headers_of_variable(is_other: bool, section: &Scribe<'_, '_>) -> Vec<(HeaderName, HeaderValue)> {
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_HEADERS",
    ];
    let Some((variable, text)) = first_of(section, names) else {
        return Vec::new();
    };
    if is_other {
        let message = format!(
            "do not send the headers of {variable} to the `endpoint` that is written here: write `headers`"
        );
        section.warn(&message);
        return Vec::new();
    }
    let headers = parse_pairs(&text).and_then(|pairs| {
        let headers = pairs.iter().map(|(name, value)| read_header(name, value));
        headers.collect::<Option<Vec<_>>>()
    });
    let wrong = format!(
        "take {variable}, which must be a list such as name=value,other=value, of headers that may be set"
    );
    section
        .read_or_noted(headers.ok_or(wrong))
        .unwrap_or_default()
}

/// Reads a header, if it may be set.
fn read_header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    (!OWN_HEADERS.contains(&name.as_str())).then_some((name, header_value(value).ok()?))
}

/// Reads `name=value,name=value`. The values are percent-encoded.
fn parse_pairs(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let pairs = parts.map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = String::from_utf8(percent::decode_text(value.trim())?).ok()?;
        Some((name.trim().to_owned(), value)).filter(|(name, _)| !name.is_empty())
    });
    pairs.collect()
}

fn read_certificates(
    tls: &crate::conf::secret_ref::Tls,
    endpoint: Option<&Webhook>,
    section: &Scribe<'_, '_>,
) -> Option<Arc<[u8]>> {
    let scribe = section.key("ca");
    let has_none = endpoint.is_some_and(|endpoint| !endpoint.tls);
    scribe.note_problem_if(
        has_none,
        "does not apply to http:, which has no TLS: write https:",
    );
    Some(scribe.certificates(tls.ca.as_deref())?.into_bytes().into())
}

fn resolve_sampling(raw: &raw::Traces, section: &Scribe<'_, '_>) -> Sampling {
    let (share, follows_parent) = match raw.sample {
        Some(Text(Share(share))) => (share, true),
        None => parse_sampler(section).unwrap_or((1.0, true)),
    };
    let slow = raw.slow.map(|Text(Span(slow))| slow);
    section
        .key("slow")
        .note_problem_if(slow == Some(Duration::ZERO), "must be more than 0s");
    Sampling {
        share,
        follows_parent,
        slow,
        extra_per_second: raw.extra_per_second.unwrap_or(100),
    }
}

/// Returns the share of `OTEL_TRACES_SAMPLER`, and whether the caller's `traceparent` decides.
fn parse_sampler(section: &Scribe<'_, '_>) -> Option<(f64, bool)> {
    let name = read_variable(section, "OTEL_TRACES_SAMPLER")?;
    let base = name.strip_prefix("parentbased_");
    let share = match base.unwrap_or(&name) {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => sampler_ratio(section)?,
        _ => {
            section.note_problem(
                "take OTEL_TRACES_SAMPLER, which must be always_on, always_off or traceidratio, or one of them after \
                 parentbased_; or write `sample` here",
            );
            return None;
        }
    };
    Some((share, base.is_some()))
}

fn sampler_ratio(section: &Scribe<'_, '_>) -> Option<f64> {
    let Some(text) = read_variable(section, "OTEL_TRACES_SAMPLER_ARG") else {
        return Some(1.0);
    };
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    let wrong =
        "take OTEL_TRACES_SAMPLER_ARG, which must be a number from 0 to 1; or write `sample` here";
    section.read_or_noted(share.ok_or(wrong))
}

fn resolve_resource(raw: &raw::Traces, section: &Scribe<'_, '_>) -> BTreeMap<String, String> {
    const NAME: &str = "service.name";
    let of_variable = read_variable(section, "OTEL_RESOURCE_ATTRIBUTES").map(|text| {
        let wrong =
            "take OTEL_RESOURCE_ATTRIBUTES, which must be a list such as name=value,other=value";
        let read = parse_pairs(&text).and_then(|pairs| {
            // The names are percent-encoded, too.
            let decoded = pairs.into_iter().map(|(name, value)| {
                Some((String::from_utf8(percent::decode_text(&name)?).ok()?, value))
            });
            decoded.collect::<Option<Vec<_>>>()
        });
        section.read_or_noted(read.ok_or(wrong)).unwrap_or_default()
    });
    let mut resource = BTreeMap::from([(NAME.to_owned(), "portcullis".to_owned())]);
    resource.extend(of_variable.unwrap_or_default());
    resource
        .extend(read_variable(section, "OTEL_SERVICE_NAME").map(|name| (NAME.to_owned(), name)));
    let scribe = section.key("resource");
    for (name, value) in raw.resource.iter().flat_map(|resource| &resource.0) {
        let scribe = scribe.entry(name);
        scribe.note_problem_if(name.is_empty(), "is no name");
        scribe.note_problem_if(
            value.as_ref().is_some_and(String::is_empty),
            "must not be empty",
        );
        resource.extend(value.clone().map(|value| (name.clone(), value)));
    }
    resource
}

#[cfg(test)]
mod tests;
