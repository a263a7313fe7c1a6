//! A credential is what an account's requests are paid with: a secret, or a signer. This module
//! resolves it, and the certificates that the account trusts.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::base::secret::Secret;
use crate::catalog::{Base, Network, Signer, raw};
use crate::conf::proxy::{Proxy, ProxyChoice};
use crate::conf::scribe::{Scribe, WrittenEntry};
use crate::conf::secret_ref::placeholder::Placeholder;
use crate::conf::secret_ref::{Reference, STAND_IN, SecretRef, Tls};
use dialects::Protocol;
use dialects::upstream::SignsWith;

impl WrittenEntry<'_, '_, '_, raw::Account> {
    /// Returns whether the account takes requests.
    pub(super) fn enabled(&self) -> bool {
        self.raw.enabled.unwrap_or(true)
    }

    /// Resolves the signer, which makes a credential for each request, or for an hour.
    pub(super) fn signer(&self, speaks: &Protocol) -> Option<Signer> {
        let raw = self.raw;
        let needs_one = self.enabled() && raw.key.is_none() && !self.has_header(&["authorization"]);
        match speaks.signs_with {
            SignsWith::ServiceAccount => {
                let scribe = self.scribe.key("service_account");
                let message = "is missing: write the JSON key of a service account as `{ file: /path }`, or who gives tokens as `identity`; or write a token as `key`";
                let has_source = raw.service_account.is_some() || raw.identity.is_some();
                scribe.note_missing_if(needs_one && !has_source, message);
                self.google_signer().filter(|_| has_source)
            }
            SignsWith::Entra => self.azure_signer(),
            SignsWith::AccessKey => {
                let scribe = self.scribe.key("aws");
                let message = "is missing: write `{ from: … }` or `{ access_key_id: …, secret_access_key: … }`; or write a Bedrock API key as `key`";
                scribe.note_missing_if(needs_one && raw.aws.is_none(), message);
                self.aws_signer(raw.aws.as_ref()?)
            }
            SignsWith::Nothing => None,
        }
    }

    /// Finds a secret that a header can carry.
    pub(super) fn secret(
        &self,
        written: &SecretRef,
        default_variable: Option<&str>,
        scribe: &Scribe<'_, '_>,
    ) -> Option<Secret> {
        self.resolve_secret(written, default_variable, scribe, check_credential)
    }

    /// Finds a secret that may have several lines.
    pub(super) fn multiline_secret(
        &self,
        written: &SecretRef,
        default_variable: &str,
        scribe: &Scribe<'_, '_>,
    ) -> Option<Secret> {
        self.resolve_secret(written, Some(default_variable), scribe, |text| {
            if text.trim().is_empty() {
                Err("is empty".to_owned())
            } else {
                Ok(Secret::new(text))
            }
        })
    }

    fn resolve_secret(
        &self,
        written: &SecretRef,
        default_variable: Option<&str>,
        scribe: &Scribe<'_, '_>,
        read: impl Fn(&str) -> Result<Secret, String>,
    ) -> Option<Secret> {
        let wanted = Wanted {
            default_variable,
            is_enabled: self.enabled(),
        };
        resolve_secret(written, wanted, scribe, read)
    }

    /// Returns the account's setting for a proxy.
    pub(super) fn proxy(&self) -> Option<ProxyChoice> {
        let scribe = self.scribe.key("proxy");
        resolve_proxy(self.raw.proxy.as_ref(), self.enabled(), &scribe)
    }

    pub(super) fn ca(&self, tls: &Tls, base: Option<&Base>) -> Option<String> {
        resolve_authority(tls, base, self.enabled(), &self.scribe.key("tls"))
    }
}

/// What is wanted of a secret.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'v> {
    /// The environment variable that usually holds such a secret.
    pub(super) default_variable: Option<&'v str>,
    /// False if the secret is not needed: then what is outside the file is not read.
    pub(super) is_enabled: bool,
}

/// Finds a secret that is written out or looked up.
pub(super) fn resolve_secret(
    written: &SecretRef,
    wanted: Wanted<'_>,
    scribe: &Scribe<'_, '_>,
    read: impl Fn(&str) -> Result<Secret, String>,
) -> Option<Secret> {
    let field = scribe.last_key().unwrap_or("key");
    if let SecretRef::Literal(secret) = written
        && let Some(placeholder) = Placeholder::detect(secret.expose()).or_else(|| {
            Placeholder::of_name(secret.expose(), |name| {
                scribe
                    .look_up(Reference::Env(name))
                    .is_ok_and(|text| !text.is_empty() && text != STAND_IN)
            })
        })
    {
        scribe.note_problem_unquoted(&placeholder.problem_text(field, wanted.default_variable));
        return None;
    }
    let read = |text: &str| refuse_placeholder(text).and_then(|()| read(text));
    let (field, wrong) = match written {
        SecretRef::Env(variable) if !is_variable(variable) => (
            "env",
            "must be the name of an environment variable: letters, digits and _, such as OPENAI_API_KEY",
        ),
        SecretRef::File(path) if path.is_empty() => ("file", "must be the path of a file"),
        SecretRef::File(path) if path.starts_with(['~', '$']) => (
            "file",
            "holds `~` or `$NAME`, which are not filled in: write the full path, or a path relative to the configuration folder",
        ),
        SecretRef::Env(_) | SecretRef::File(_) if !wanted.is_enabled => return None,
        SecretRef::Env(_) | SecretRef::File(_) => return scribe.secret(written, read),
        SecretRef::Literal(_) => {
            scribe.warn_of_secret(
                "is a secret in clear text: `{ env: NAME }` or `{ file: /path }` is safer",
            );
            return scribe.secret(written, read).filter(|_| wanted.is_enabled);
        }
    };
    scribe.key(field).note_problem_unquoted(wrong);
    None
}

/// Resolves the setting for a proxy.
pub(super) fn resolve_proxy(
    written: Option<&SecretRef>,
    is_enabled: bool,
    scribe: &Scribe<'_, '_>,
) -> Option<ProxyChoice> {
    let Some(written) = written else {
        return Some(ProxyChoice::ProcessDefault);
    };
    if let SecretRef::Literal(url) = written
        && let Some(placeholder) = Placeholder::detect(url.expose())
    {
        scribe.note_problem_unquoted(&placeholder.problem_text("proxy", Some("PROXY_URL")));
        return None;
    }
    let is_literal = matches!(written, SecretRef::Literal(_));
    if !is_literal && !is_enabled {
        return Some(ProxyChoice::ProcessDefault);
    }
    let choice = scribe.secret(written, |text| {
        // The value is a stand-in if secrets are not read.
        if !is_literal && text == STAND_IN {
            return Ok(ProxyChoice::Own(Arc::new(Proxy::assumed())));
        }
        ProxyChoice::parse(text)
    })?;
    if is_literal
        && choice
            .account_proxy()
            .is_some_and(|proxy| proxy.credential().is_some())
    {
        scribe.warn_of_secret(
            "holds a credential in clear text: `{ env: NAME }` or `{ file: /path }` with the whole URL is safer",
        );
    }
    Some(choice)
}

/// Reads the certificates that are trusted besides the system's.
pub(super) fn resolve_authority(
    tls: &Tls,
    base: Option<&Base>,
    is_enabled: bool,
    scribe: &Scribe<'_, '_>,
) -> Option<String> {
    let scribe = scribe.key("ca");
    let path = scribe.required(tls.ca.as_ref(), "is missing: a file of certificates (PEM)")?;
    scribe.note_problem_if(
        base.is_some_and(|base| !base.tls && base.port > 0),
        "does not apply to http:",
    );
    if path.is_empty() {
        scribe.note_problem("must be the path of a file of certificates (PEM)");
        return None;
    }
    if !is_enabled {
        return None;
    }
    let pem = scribe.read_certificates(path)?;
    let message =
        "the file holds no certificate: it must be PEM, with `-----BEGIN CERTIFICATE-----`";
    scribe.note_problem_if(!pem.contains("-----BEGIN CERTIFICATE-----"), message);
    Some(pem)
}

/// Refuses a text that was not filled in, or that has quotes around it.
fn refuse_placeholder(text: &str) -> Result<(), String> {
    match Placeholder::detect(text) {
        Some(Placeholder::Quoted) => Err(
            "has quotes around its value, and they would be sent as part of it: remove them"
                .to_owned(),
        ),
        Some(_) => Err("holds a template or a placeholder, not a secret".to_owned()),
        None => Ok(()),
    }
}

/// Checks a secret that a header will carry. An error is the rest of a sentence; the sentence
/// begins with the place where the secret was found.
pub(super) fn check_credential(text: &str) -> Result<Secret, String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("holds a control character or more than one line".to_owned());
    }
    if !text.is_ascii() {
        return Err("holds a character that cannot be sent in a header: only ASCII can".to_owned());
    }
    if text.starts_with(' ') || text.ends_with(' ') {
        return Err("begins or ends with a space".to_owned());
    }
    Ok(Secret::new(text))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

pub(super) fn account_fingerprint(
    id: &str,
    base: &Base,
    key: Option<&Secret>,
    signer: Option<&Signer>,
    network: &Network,
) -> u64 {
    let credential: Vec<Option<&str>> = match signer {
        Some(Signer::Aws(keys)) => vec![
            Some(keys.access_key_id.expose()),
            Some(keys.secret_access_key.expose()),
            keys.session_token.as_ref().map(Secret::expose),
        ],
        Some(Signer::Source(source)) => source.parts().into_iter().map(Some).collect(),
        None => vec![None, None, None],
    };
    let mut sha = Sha256::new();
    // Without `insecure`, plain HTTP never goes through a proxy of the environment.
    sha.update([u8::from(base.tls), u8::from(network.insecure)]);
    sha.update(base.port.to_be_bytes());
    let [proxy, of_proxy] = network.proxy.marks();
    let texts = [Some(id), Some(&*base.host), key.map(Secret::expose)];
    for part in texts
        .into_iter()
        .chain(credential)
        .chain([proxy, of_proxy])
        .map(|text| text.map(str::as_bytes))
        .chain([network.ca.as_deref()])
    {
        match part {
            // Each part is hashed with its length, so that no two lists of parts are one text.
            Some(part) => {
                sha.update((part.len() + 1).to_be_bytes());
                sha.update(part);
            }
            None => sha.update(0_usize.to_be_bytes()),
        }
    }
    let hash: [u8; 32] = sha.finalize().into();
    hash.first_chunk()
        .copied()
        .map(u64::from_be_bytes)
        .unwrap_or_default()
}
