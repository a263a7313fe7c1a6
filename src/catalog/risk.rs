//! A risk is a catalog that is valid and yet looks like an accident: one that takes away too much,
//! or one that lets everybody in.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{Catalog, Model, resolve};

/// The secret of the key that ships in `conf/catalog.yaml`. Everybody knows it. So the key may see
/// the demo's models only, or be used on this machine only: see [`published_key_problem`].
pub const PUBLISHED_KEY: &str = "sk-demo-portcullis-published";

/// Returns a text that says how much a change takes away, if that looks like an accident: more than
/// half of the callers, models or accounts.
pub fn shrinks(old: &Catalog, new: &Catalog) -> Option<String> {
    let losses = losses(old, new).into_iter().filter(|(_, gone, all)| gone * 2 > *all);
    let parts: Vec<_> = losses.map(|(what, gone, all)| format!("{gone} of {all} {what}")).collect();
    (!parts.is_empty()).then(|| format!("removes {}", parts.join(", ")))
}

/// Returns whether a change takes any account, model or caller away.
pub fn removes_any(old: &Catalog, new: &Catalog) -> bool {
    losses(old, new).iter().any(|(_, gone, _)| *gone > 0)
}

/// Counts the accounts, models and callers that a change takes away. Each entry has a name, the
/// number that is gone, and the number that there was.
fn losses(old: &Catalog, new: &Catalog) -> [(&'static str, usize, usize); 3] {
    fn gone<T>(old: &[Arc<T>], new: &[Arc<T>], id: impl Fn(&T) -> &str) -> usize {
        // Both lists are sorted by id.
        old.iter().filter(|was| new.binary_search_by(|is| id(is).cmp(id(was))).is_err()).count()
    }
    [
        ("accounts", gone(&old.accounts, &new.accounts, |account| &account.id), old.accounts.len()),
        ("models", gone(&old.models, &new.models, |model| &model.id), old.models.len()),
        ("callers", gone(&old.callers, &new.callers, |caller| &caller.id), old.callers.len()),
    ]
}

/// Returns the reason why the published key must not be served on these listeners: one listener is
/// not loopback, and the key sees more than models called `demo` or `demo-…` on demo accounts. It
/// is asked at the start and for every new catalog.
pub fn published_key_problem(catalog: &Catalog, listeners: &[SocketAddr]) -> Option<String> {
    let listener = listeners.iter().find(|listener| !listener.ip().to_canonical().is_loopback())?;
    let key = &catalog.keys.get(&resolve::digest(PUBLISHED_KEY))?.key;
    if !key.enabled || !key.caller.enabled {
        return None;
    }
    // The fallbacks of the model do not matter here: a fallback that the key may not use is passed
    // over.
    let harmless = |model: &Model| (&*model.id == "demo" || model.id.starts_with("demo-")) && model.is_demo();
    let model =
        catalog.models.iter().find(|model| model.served() && key.permissions.may_allow(model) && !harmless(model))?;
    Some(format!(
        "key {} is the published demo key, which everybody knows, and it may use the model \"{}\" on {listener}: remove the key, let its \
         caller use only the demo's models (`models: [demo, \"demo-*\"]`), or listen on 127.0.0.1",
        key.id, model.id
    ))
}
