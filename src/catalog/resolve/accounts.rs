//! Accounts: their address, their secret, their deadlines.

use std::collections::HashSet;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use super::{Accounts, LookUp, Merged, Reference, Report, base};
use crate::catalog::{Account, Base, Timeouts, name, raw};
use crate::dialect::Dialect;
use crate::problem::shown;
use crate::secret::Secret;
use crate::units::{Span, Text};
use crate::yaml::Path;

/// Headers that are the gateway's own to write.
const OURS: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
];

pub(super) fn resolve<'r>(written: &Merged<'r, raw::Account>, look_up: &mut LookUp<'_>, report: &mut Report<'_>) -> Accounts<'r> {
    let section = Path::Root.key("accounts");
    let mut accounts = Accounts::new();
    for (index, (id, (file, raw))) in written.iter().enumerate() {
        let at = section.key(id);
        if let Err(wrong) = name::of_entry(id) {
            report.problem(*file, &at, wrong);
        }
        let account = raw.and_then(|raw| One { file: *file, at, id, raw }.resolve(index, look_up, report));
        accounts.insert(id, account.map(Into::into));
    }
    accounts
}

/// One account as written, and where.
struct One<'r> {
    file: usize,
    at: Path<'r>,
    id: &'r str,
    raw: &'r raw::Account,
}

impl One<'_> {
    fn resolve(&self, index: usize, look_up: &mut LookUp<'_>, report: &mut Report<'_>) -> Option<Account> {
        let raw = self.raw;
        let enabled = raw.enabled.unwrap_or(true);
        let dialect = match raw.dialect {
            Some(raw::Dialect::OpenAi) => Some(Dialect::OpenAi),
            Some(raw::Dialect::Demo) => Some(Dialect::Demo),
            None => {
                report.missing(self.file, &self.at.key("dialect"), "is missing; allowed: openai, demo");
                None
            }
        };
        let base = match dialect? {
            Dialect::OpenAi => self.base("https://api.openai.com/v1", report),
            Dialect::Demo => self.no_network(report),
        };
        let ca = raw.tls.as_ref().and_then(|tls| self.ca(tls, enabled, base.as_ref(), look_up, report));
        let key = raw.key.as_ref().and_then(|key| self.key(key, enabled, look_up, report));
        let headers = self.headers(report);
        let timeouts = self.timeouts(report);
        if raw.concurrency == Some(0) {
            report.problem(
                self.file,
                &self.at.key("concurrency"),
                "must be at least 1; an account that shall take nothing has `enabled: false`",
            );
        }
        let base = base?;
        Some(Account {
            fingerprint: fingerprint(self.id, &base, key.as_ref(), ca.as_deref()),
            id: self.id.into(),
            index,
            dialect: dialect?,
            base,
            key,
            enabled,
            concurrency: raw.concurrency.and_then(|most| usize::try_from(most).ok()),
            timeouts,
            headers,
            stream_usage: raw.stream_usage.unwrap_or(true),
            insecure: raw.insecure.unwrap_or(false),
            ca: ca.map(|pem| pem.into_bytes().into()),
        })
    }

    fn base(&self, default: &str, report: &mut Report<'_>) -> Option<Base> {
        let insecure = self.raw.insecure.unwrap_or(false);
        let at = self.at.key("base_url");
        let base = base::read(self.raw.base_url.as_deref().unwrap_or(default), insecure)
            .map_err(|wrong| report.problem(self.file, &at, &wrong))
            .ok()?;
        if !base.tls && insecure && base::read(self.raw.base_url.as_deref().unwrap_or(default), false).is_err() {
            report.warn(self.file, &at, "is http: to a public address: key, prompts and answers can be read on the way");
        }
        Some(base)
    }

    /// A demo account calls nobody: whatever says how is a mistake.
    fn no_network(&self, report: &mut Report<'_>) -> Option<Base> {
        let raw = self.raw;
        for (field, written) in [
            ("base_url", raw.base_url.is_some()),
            ("key", raw.key.is_some()),
            ("headers", raw.headers.is_some()),
            ("stream_usage", raw.stream_usage.is_some()),
            ("tls", raw.tls.is_some()),
            ("insecure", raw.insecure.is_some()),
        ] {
            if written {
                report.problem(self.file, &self.at.key(field), "has no meaning for a demo account, which calls nobody: leave it out");
            }
        }
        Some(Base { tls: false, host: "".into(), port: 0, path: "".into(), authority: String::new() })
    }

    fn key(&self, key: &raw::SecretRef, enabled: bool, look_up: &mut LookUp<'_>, report: &mut Report<'_>) -> Option<Secret> {
        let at = self.at.key("key");
        let found = match key {
            raw::SecretRef::Literal(secret) => {
                report.literal_secrets = true;
                report.warn(self.file, &at, "is a secret written out: better `{ env: NAME }` or `{ file: /path }`");
                credential(secret.expose())
            }
            raw::SecretRef::Env(variable) if !is_variable(variable) => {
                Err("must be the name of an environment variable: letters, digits and _, such as OPENAI_API_KEY".to_owned())
            }
            raw::SecretRef::File(path) if path.is_empty() => Err("must be the path of a file".to_owned()),
            raw::SecretRef::Env(_) | raw::SecretRef::File(_) if !enabled => return None,
            raw::SecretRef::Env(variable) => look_up(Reference::Env(variable))
                .and_then(|text| credential(&text).map_err(|wrong| format!("the environment variable {wrong}"))),
            raw::SecretRef::File(path) => look_up(Reference::File(path)).and_then(|text| {
                let line = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
                credential(line).map_err(|wrong| format!("the file {wrong}"))
            }),
        };
        match found {
            Ok(secret) => enabled.then_some(secret),
            Err(wrong) => {
                match key {
                    raw::SecretRef::Literal(_) => report.problem(self.file, &at, &wrong),
                    raw::SecretRef::Env(_) => report.problem(self.file, &at.key("env"), &wrong),
                    raw::SecretRef::File(_) => report.problem(self.file, &at.key("file"), &wrong),
                }
                None
            }
        }
    }

    fn ca(&self, tls: &raw::Tls, enabled: bool, base: Option<&Base>, look_up: &mut LookUp<'_>, report: &mut Report<'_>) -> Option<String> {
        let at = self.at.key("tls");
        let at = at.key("ca");
        let Some(path) = &tls.ca else {
            report.missing(self.file, &at, "is missing: a file of certificates (PEM)");
            return None;
        };
        if base.is_some_and(|base| !base.tls && base.port > 0) {
            report.problem(self.file, &at, "has no meaning with http:");
        }
        if path.is_empty() {
            report.problem(self.file, &at, "must be the path of a file of certificates (PEM)");
            return None;
        }
        if !enabled {
            return None;
        }
        let pem = look_up(Reference::Ca(path)).map_err(|wrong| report.problem(self.file, &at, &wrong)).ok()?;
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            report.problem(self.file, &at, "the file holds no certificate: it must be PEM, with `-----BEGIN CERTIFICATE-----`");
        }
        Some(pem)
    }

    fn headers(&self, report: &mut Report<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let section = self.at.key("headers");
        let mut headers = Vec::new();
        let mut seen = HashSet::new();
        for (name, value) in self.raw.headers.iter().flat_map(|headers| &headers.0) {
            let at = section.key(name);
            let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                report.problem(self.file, &at, "is not the name of a header");
                continue;
            };
            if OURS.contains(&header.as_str()) {
                report.problem(self.file, &at, "is written by the gateway itself and cannot be set");
            } else if header == http::header::AUTHORIZATION && self.raw.key.is_some() {
                report.problem(self.file, &at, "is made of `key`: keep one of the two");
            } else if !seen.insert(header.clone()) {
                report.problem(self.file, &at, "stands here a second time in other letters: keep one");
            }
            let Some(value) = value else { continue };
            match HeaderValue::from_str(value.0.expose()) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    headers.push((header, value));
                }
                Err(_) => report.problem(self.file, &at, "may hold printable ASCII only"),
            }
        }
        headers
    }

    fn timeouts(&self, report: &mut Report<'_>) -> Timeouts {
        let section = self.at.key("timeouts");
        let written = self.raw.timeouts.as_ref();
        let mut or = |field: &str, written: Option<Text<Span>>, default: u64| match written {
            None => Duration::from_secs(default),
            Some(Text(Span(span))) => {
                if span.is_zero() {
                    report.problem(self.file, &section.key(field), "must be more than 0s");
                }
                span
            }
        };
        let total = written.and_then(|written| written.total);
        Timeouts {
            connect: or("connect", written.and_then(|written| written.connect), 5),
            first_byte: or("first_byte", written.and_then(|written| written.first_byte), 120),
            idle: or("idle", written.and_then(|written| written.idle), 60),
            total: or("total", total, 600),
            total_stream: total.map_or(Duration::from_secs(3600), |Text(Span(span))| span),
        }
    }
}

/// A secret that a header can carry. The errors go on a sentence that begins with where it was found.
fn credential(text: &str) -> Result<Secret, String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("holds a control character or more than one line".to_owned());
    }
    if !text.is_ascii() {
        return Err("holds a character that no header can carry: only ASCII can be sent".to_owned());
    }
    if text.starts_with(' ') || text.ends_with(' ') {
        return Err("begins or ends with a space".to_owned());
    }
    Ok(Secret::new(text))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn fingerprint(id: &str, base: &Base, key: Option<&Secret>, ca: Option<&str>) -> u64 {
    let mut sha = Sha256::new();
    sha.update([u8::from(base.tls)]);
    sha.update(base.port.to_be_bytes());
    for part in [Some(id), Some(&*base.host), key.map(Secret::expose), ca] {
        match part {
            // With its length, so that no two lists of parts are one text.
            Some(part) => {
                sha.update((part.len() + 1).to_be_bytes());
                sha.update(part);
            }
            None => sha.update(0_usize.to_be_bytes()),
        }
    }
    let hash: [u8; 32] = sha.finalize().into();
    hash.first_chunk().copied().map(u64::from_be_bytes).unwrap_or_default()
}

/// The nearest account, in words.
pub(super) fn unknown(id: &str, accounts: &Accounts<'_>) -> String {
    match crate::problem::nearest(id, super::names(accounts)) {
        Some(near) => format!("no account {}; did you mean \"{near}\"?", shown(id)),
        None => format!("no account {}; {}", shown(id), super::listed("accounts", super::names(accounts))),
    }
}
