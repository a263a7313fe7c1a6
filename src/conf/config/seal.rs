//! The section `seal:` of `server.yaml`: the keys that seal what callers carry from one turn to the
//! next.

use super::raw;
use crate::base::secret::Secret;
use crate::conf::scribe::Scribe;
use crate::conf::secret_ref::{STAND_IN, SecretRef};
use crate::conf::yaml::read::list_items;

/// Returns the keys that seal thoughts.
pub(super) fn seal_keys(
    raw: Option<&raw::Seal>,
    has_store: bool,
    root: &Scribe<'_, '_>,
) -> Vec<Secret> {
    let Some(raw) = raw else {
        let message = "is shared by several gateways, and each seals thoughts with a key of its own: a conversation that \
                    moves to another gateway loses them. Give all of them the same `seal.keys`";
        root.key("store").warn_if(has_store, message);
        return Vec::new();
    };
    let section = root.key("seal");
    let list = section.key("keys");
    let Some(written) = list.required(
        raw.keys.as_ref(),
        "is missing: a list such as [{ file: /path }]",
    ) else {
        return Vec::new();
    };
    list.note_problem_if(!(1..=16).contains(&written.len()), "must list 1 to 16 keys");
    let mut keys = Vec::new();
    for (index, written) in list_items(Some(written)) {
        let scribe = list.index(index);
        let message = "is a secret in clear text: `{ file: /path }` or `{ env: NAME }` is safer";
        scribe.warn_if(matches!(written, SecretRef::Literal(_)), message);
        keys.extend(scribe.secret(written, read_key));
    }
    keys
}

fn read_key(text: &str) -> Result<Secret, String> {
    match text.len() {
        ..32 if text != STAND_IN => Err(
            "holds a key of fewer than 32 characters: `openssl rand -base64 32` writes one"
                .to_owned(),
        ),
        _ => Ok(Secret::new(text)),
    }
}
