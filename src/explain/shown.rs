//! A shown request is one as it would be sent to the provider, with its secrets masked, and with a
//! list of its differences from the caller's request.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use serde_json::Value;
use serde_json::value::RawValue;

use super::report::Upstream;
use crate::base::units::duration_text;
use crate::catalog::{Account, AwsKeys, Signer, stand_in_keys};
use crate::exchange::{credential, outgoing};
use crate::plan::Candidate;
use dialects::Outbound;
use dialects::front::Envelope;
use dialects::upstream::SignsWith;

/// The texts that stand for values that are masked or made anew each time.
const SIGNED: &str = "<signed for each request>";
const TOKEN: &str = "Bearer <token, fetched once an hour>";
const UNSIGNABLE: &str = "<cannot be signed: the attempt would fail>";
const KEY: &str = "<key>";
const CATALOG: &str = "<from the catalog, not shown>";
const REQUEST_ID: &str = "<id of the request>";
/// The longest value that is repeated when it changed. A longer one can be seen in the body.
const SHORT: usize = 60;

/// Returns the request as it would be sent to a candidate.
pub(super) fn upstream_request(
    candidate: &Candidate,
    outbound: &Outbound,
    envelope: &Envelope,
    body: &Bytes,
    timeout: Option<Duration>,
) -> Upstream {
    let account = candidate.account();
    let written = outbound.body.concat();
    let url = account.base.url() + &outbound.path;
    let is_demo = account.dialect.protocol.calls_nobody();
    Upstream {
        method: "POST",
        url: (!is_demo).then_some(url),
        proxy: candidate
            .ready_account
            .proxy
            .as_ref()
            .map(ToString::to_string),
        headers: if is_demo {
            Vec::new()
        } else {
            shown_headers(account, outbound, written.len())
        },
        body_base64: std::str::from_utf8(&written)
            .is_err()
            .then(|| base64::engine::general_purpose::STANDARD.encode(&written)),
        deadlines: request_deadlines(candidate, envelope.stream, timeout),
        changed: list_changes(candidate, envelope, body, &written, outbound.copied == 0),
        dropped: outbound
            .losses
            .names()
            .iter()
            .map(ToString::to_string)
            .collect(),
        body: written,
    }
}

/// Returns the headers that the gateway writes, in its order.
fn shown_headers(account: &Account, outbound: &Outbound, length: usize) -> Vec<(String, String)> {
    let mut own = credential::plain_headers(outbound);
    match &account.signer {
        Some(Signer::Aws(keys)) => own.extend(signed_headers(keys, account, outbound)),
        Some(Signer::Source(source)) if source.signs_requests() => {
            let region = account.dialect.settings().region.as_deref();
            let keys = stand_in_keys(region.unwrap_or_default(), true);
            own.extend(signed_headers(&keys, account, outbound));
        }
        Some(Signer::Source(_)) => own.push(masked(header::AUTHORIZATION, TOKEN)),
        // If secrets are not read, such an account has no signer.
        None if is_signed_for(account) => own.push(masked(header::AUTHORIZATION, TOKEN)),
        None => {}
    }
    let id = HeaderValue::from_static(REQUEST_ID);
    let headers = outgoing::head_fields(account, &own, id, length).into_iter();
    let shown = headers.map(|(name, value)| {
        let text = shown_value(account, &name, &value);
        (name.as_str().to_owned(), text.to_owned())
    });
    shown.collect()
}

/// Returns the headers of a signature, or one that says why there is none.
fn signed_headers(
    keys: &AwsKeys,
    account: &Account,
    outbound: &Outbound,
) -> Vec<(header::HeaderName, HeaderValue)> {
    match credential::sign_request(&keys.signer, account, outbound) {
        Ok(signed) => signed
            .into_iter()
            .map(|(name, _)| masked(name, SIGNED))
            .collect(),
        Err(_) => vec![masked(header::AUTHORIZATION, UNSIGNABLE)],
    }
}

fn masked(name: header::HeaderName, mask: &'static str) -> (header::HeaderName, HeaderValue) {
    let mut value = HeaderValue::from_static(mask);
    value.set_sensitive(true);
    (name, value)
}

/// Returns a header's value, or what stands for it: no secret is shown.
fn shown_value<'v>(
    account: &Account,
    name: &header::HeaderName,
    value: &'v HeaderValue,
) -> &'v str {
    let mut of_catalog = account.headers.iter();
    match value.to_str() {
        Ok(text @ (SIGNED | TOKEN | UNSIGNABLE)) => text,
        Ok(text) if !value.is_sensitive() => text,
        _ if of_catalog.any(|(other, written)| other == name && written == value) => CATALOG,
        Ok(text) if text.starts_with("Bearer ") => "Bearer <key>",
        Ok(_) | Err(_) => KEY,
    }
}

/// Returns whether a service account signs for the account's tokens.
fn is_signed_for(account: &Account) -> bool {
    account.dialect.protocol.signs_with == SignsWith::ServiceAccount
        && account.key.is_none()
        && !account
            .headers
            .iter()
            .any(|(name, _)| *name == header::AUTHORIZATION)
}

/// Returns the deadlines of the request, by their names in the catalog.
fn request_deadlines(
    candidate: &Candidate,
    stream: bool,
    timeout: Option<Duration>,
) -> Vec<(&'static str, String)> {
    let times = &candidate.timeouts;
    let total = if stream {
        times.total_stream
    } else {
        times.total
    };
    let total = ("total", timeout.map_or(total, |limit| limit.min(total)));
    let mut all = vec![("connect", times.connect)];
    if stream {
        all.push(("first_byte", times.first_byte));
        all.extend(times.first_token.map(|time| ("first_token", time)));
        all.push(("idle", times.idle));
    }
    all.push(total);
    all.into_iter()
        .map(|(name, time)| (name, duration_text(time)))
        .collect()
}

/// Returns the differences from the caller's request, except the fields that are dropped.
fn list_changes(
    candidate: &Candidate,
    envelope: &Envelope,
    body: &[u8],
    written: &[u8],
    passes: bool,
) -> Vec<String> {
    let mut changed = Vec::new();
    if *candidate.upstream_model != *envelope.model {
        changed.push(format!(
            "model: \"{}\" becomes \"{}\"",
            envelope.model, candidate.upstream_model
        ));
    }
    let dialect = candidate.dialect();
    match dialect
        .max_tokens(&candidate.upstream_model)
        .filter(|_| !passes)
    {
        None => changed_fields(body, written, &mut changed),
        Some(max_tokens) => {
            changed.push(format!(
                "the body is rewritten in the format of {}",
                dialect.protocol.name
            ));
            changed_limit(body, written, max_tokens, &mut changed);
        }
    }
    changed
}

/// Notes the fields that differ in a body that is not translated.
fn changed_fields(body: &[u8], written: &[u8], changed: &mut Vec<String>) {
    type Fields<'a> = BTreeMap<String, &'a RawValue>;
    let (Ok(before), Ok(after)) = (
        serde_json::from_slice::<Fields<'_>>(body),
        serde_json::from_slice::<Fields<'_>>(written),
    ) else {
        return;
    };
    for (name, value) in &after {
        let (is_short, value) = (value.get().len() <= SHORT, value.get());
        match before.get(name).map(|value| value.get()) {
            _ if name == "model" => {}
            Some(old) if old == value => {}
            Some(old) if is_short && old.len() <= SHORT => {
                changed.push(format!("{name}: {old} becomes {value}"))
            }
            Some(_) => changed.push(format!("{name}: is rewritten")),
            None if is_short => changed.push(format!("{name}: {value} is added")),
            None => changed.push(format!("{name}: is added")),
        }
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    changed.extend(gone.map(|name| format!("{name}: is removed")));
}

/// Notes the limit on the answer's length in a body that is translated, if it changes.
fn changed_limit(body: &[u8], written: &[u8], pointer: &str, changed: &mut Vec<String>) {
    let (Ok(before), Ok(after)) = (
        serde_json::from_slice::<Value>(body),
        serde_json::from_slice::<Value>(written),
    ) else {
        return;
    };
    let requested = ["/max_completion_tokens", "/max_tokens"]
        .iter()
        .find_map(|name| before.pointer(name)?.as_u64());
    let Some(limit) = after.pointer(pointer).and_then(Value::as_u64) else {
        return;
    };
    match requested {
        Some(requested) if requested == limit => {}
        Some(requested) => changed.push(format!("max_tokens: {requested} becomes {limit}")),
        None => changed.push(format!("max_tokens: {limit} is added")),
    }
}
