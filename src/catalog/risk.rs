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
pub fn describe_losses(old: &Catalog, new: &Catalog) -> Option<String> {
    let gone: Vec<&str> = removed_names(old, new).map(|(kind, _)| kind).collect();
    let all = [
        ("account", old.accounts.len()),
        ("model", old.models.len()),
        ("caller", old.callers.len()),
    ];
    let lost = all.map(|(kind, all)| {
        (
            kind,
            gone.iter().filter(|other| **other == kind).count(),
            all,
        )
    });
    let losses = lost.into_iter().filter(|(_, gone, all)| gone * 2 > *all);
    let parts: Vec<_> = losses
        .map(|(kind, gone, all)| format!("{gone} of {all} {kind}s"))
        .collect();
    (!parts.is_empty()).then(|| format!("removes {}", parts.join(", ")))
}

/// Returns the names that a change takes away, each with what it is the name of.
pub fn removed_names<'c>(
    old: &'c Catalog,
    new: &Catalog,
) -> impl Iterator<Item = (&'static str, &'c Arc<str>)> {
    all_names(old).filter(|(kind, name)| !has_name(new, kind, name))
}

/// Lists the names of accounts, models, callers and identities, each with what it is the name of.
pub fn all_names(catalog: &Catalog) -> impl Iterator<Item = (&'static str, &Arc<str>)> {
    let accounts = catalog
        .accounts
        .iter()
        .map(|account| ("account", &account.id));
    let models = catalog.models.iter().map(|model| ("model", &model.id));
    accounts
        .chain(models)
        .chain(catalog.callers.iter().map(|caller| ("caller", &caller.id)))
        .chain(catalog.identities.iter().map(|one| ("identity", &one.id)))
}

/// Returns whether a catalog has an account, a model, a caller or an identity of this name.
pub fn has_name(catalog: &Catalog, kind: &str, name: &str) -> bool {
    fn has_id<T>(sorted: &[Arc<T>], id: impl Fn(&T) -> &str, name: &str) -> bool {
        sorted.binary_search_by(|one| id(one).cmp(name)).is_ok()
    }
    match kind {
        "account" => has_id(&catalog.accounts, |account| &account.id, name),
        "model" => has_id(&catalog.models, |model| &model.id, name),
        "identity" => has_id(&catalog.identities, |identity| &identity.id, name),
        _ => has_id(&catalog.callers, |caller| &caller.id, name),
    }
}

/// Returns the reason why the published key must not be served on these listeners: one listener is
/// not loopback, and the key sees more than models called `demo` or `demo-…` on demo accounts. It
/// is asked at the start and for every new catalog.
pub fn published_key_problem(catalog: &Catalog, listeners: &[SocketAddr]) -> Option<String> {
    let listener = listeners
        .iter()
        .find(|listener| !listener.ip().to_canonical().is_loopback())?;
    let secret = catalog.secrets.get(&resolve::sha256_of(PUBLISHED_KEY))?;
    let key = secret.find_key(&catalog.keys)?;
    if !key.enabled || !key.caller.enabled {
        return None;
    }
    // The fallbacks of the model do not matter here: a fallback that the key may not use is passed
    // over.
    let is_demo = |id: &str| id == "demo" || id.starts_with("demo-");
    let is_harmless = |model: &Model| is_demo(&model.id) && model.is_demo();
    let model = catalog.models.iter().find(|model| {
        model.has_enabled_account() && key.permissions.may_allow(model) && !is_harmless(model)
    })?;
    Some(format!(
        "key {} is the published demo key, which everybody knows, and it may use the model \"{}\" on {listener}: remove the key, let its \
         caller use only the demo's models (`models: [demo, \"demo-*\"]`), or listen on 127.0.0.1",
        key.id, model.id
    ))
}
