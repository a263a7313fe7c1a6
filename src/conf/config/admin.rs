//! The section `admin:` of `server.yaml`: the listener for operators, and who may use it.

use std::net::SocketAddr;

use super::{Listen, is_taken, loopback_address, raw};
use crate::base::secret::Secret;
use crate::base::units::Text;
use crate::conf::scribe::Scribe;
use crate::conf::secret_ref::{STAND_IN, SecretRef};
use crate::conf::yaml::read::list_items;

/// The fewest characters of a key: so many cannot be guessed.
const MIN_KEY_LENGTH: usize = 32;

/// The settings of the admin listener.
#[derive(Debug, Clone)]
pub struct Admin {
    /// The address of the listener.
    pub address: SocketAddr,
    /// Names by which the listener may be called, besides those that need no mention.
    pub hosts: Vec<String>,
    /// The key that each request must carry, if there is one.
    pub key: Option<Secret>,
    /// True if there is a page for browsers, with *Explain* and *Try*.
    pub page: bool,
}

impl Admin {
    /// Returns whether strangers are kept out: by the address, or by a key. Only then may a request
    /// change something, or ask what the gateway does with a request.
    pub fn is_guarded(&self) -> bool {
        self.key.is_some() || self.address.ip().to_canonical().is_loopback()
    }
}

pub(super) fn resolve_admin(
    raw: Option<&raw::Admin>,
    listen: &[Listen],
    root: &Scribe<'_, '_>,
) -> Admin {
    let section = root.key("admin");
    let address = raw.and_then(|raw| resolve_address(raw, listen, &section));
    let admin = Admin {
        address: address.unwrap_or_else(|| loopback_address(9090)),
        hosts: resolve_hosts(raw, &section),
        key: raw.and_then(|raw| read_admin_key(raw.key.as_ref()?, &section.key("key"))),
        page: raw.and_then(|raw| raw.page).unwrap_or(true),
    };
    let is_open = !admin.is_guarded() && raw.is_some_and(|raw| raw.key.is_none());
    let message = "is not a loopback address, and there is no `admin.key`: everybody who can reach it reads who uses the \
                gateway, and how much. Write `key: { file: /path }` beside it. Without a key there is no Explain, no \
                Try and no reset of accounts at this address";
    section.key("address").warn_if(is_open, message);
    admin
}

fn resolve_address(
    raw: &raw::Admin,
    listen: &[Listen],
    section: &Scribe<'_, '_>,
) -> Option<SocketAddr> {
    let scribe = section.key("address");
    let message = "is missing: an IP address and a port, such as 127.0.0.1:9090";
    let Text(raw::Address(address)) = scribe.required(raw.address, message)?;
    if is_taken(address, listen) {
        scribe.note_problem(&format!(
            "{address} is already a listener for callers: give the admin listener another port"
        ));
    }
    Some(address)
}

fn resolve_hosts(raw: Option<&raw::Admin>, section: &Scribe<'_, '_>) -> Vec<String> {
    let list = section.key("hosts");
    let mut hosts = Vec::new();
    for (index, written) in list_items(raw.and_then(|admin| admin.hosts.as_ref())) {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if !written.is_empty() && written.bytes().all(known) {
            hosts.push(written.clone());
        } else {
            let wrong =
                "must be a name such as portcullis.example.com, without a port and without *";
            list.index(index).note_problem(wrong);
        }
    }
    hosts
}

fn read_admin_key(written: &SecretRef, scribe: &Scribe<'_, '_>) -> Option<Secret> {
    let message = "is a secret in clear text: `{ file: /path }` or `{ env: NAME }` is safer";
    scribe.warn_if(matches!(written, SecretRef::Literal(_)), message);
    let is_visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    scribe.secret(written, |text| match text.len() {
        _ if text == STAND_IN => Ok(Secret::new(text)),
        ..MIN_KEY_LENGTH => Err("holds a key of fewer than 32 characters: `openssl rand -base64 32` writes one".to_owned()),
        _ if !is_visible(text) => {
            Err("holds a key with spaces or characters that no header may have: `openssl rand -base64 32` writes one"
                .to_owned())
        }
        _ => Ok(Secret::new(text)),
    })
}
