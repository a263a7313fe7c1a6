//! The inventory of a catalog.

use std::collections::BTreeMap;

use super::{
    AccountItem, Amounts, CallerItem, Inventory, KeyItem, ModelItem, Settings, TargetItem, settings,
};
use crate::base::calendar::format_system_time;
use crate::base::units::format_count;
use crate::catalog::identity::{Identity, KeyAddress, KeySource};
use crate::catalog::{Account, Caller, Catalog, Key, Model, Signer, Target};
use crate::conf::price::costs;
use crate::limits::{Kind, Limits, Reserve, WHOLE_LIMIT};
use dialects::upstream::SignsWith;

impl Inventory {
    /// Makes the inventory of a catalog.
    pub fn from_catalog(catalog: &Catalog) -> Inventory {
        let mut callers: BTreeMap<String, CallerItem> = catalog
            .callers()
            .iter()
            .map(|caller| (caller.id.to_string(), caller_item(caller)))
            .collect();
        for (_, key, until) in catalog.secrets() {
            let Some(caller) = callers.get_mut(&*key.caller.id) else {
                continue;
            };
            if caller.keys.is_empty() {
                caller.models = owned_texts(key.permissions.of_caller.list());
            }
            let name = key.id.split_once('/').map_or(&*key.id, |(_, name)| name);
            // A key with several secrets appears several times.
            let item = caller
                .keys
                .entry(name.to_owned())
                .or_insert_with(|| key_item(catalog, key));
            item.secrets.push(until.map(format_system_time));
        }
        callers
            .values_mut()
            .flat_map(|caller| caller.keys.values_mut())
            .for_each(|key| key.secrets.sort_unstable());
        // A model of a pattern is not written, even if a limit or a fallback names it.
        let written = catalog
            .models()
            .iter()
            .filter(|model| model.pattern.is_none() || model.is_pattern());
        Inventory {
            accounts: catalog
                .accounts()
                .iter()
                .map(|one| (one.id.to_string(), account_item(one)))
                .collect(),
            callers,
            models: written
                .map(|one| (one.id.to_string(), model_item(one)))
                .collect(),
            identities: catalog
                .identities
                .iter()
                .map(|one| (one.id.to_string(), identity_settings(catalog, one)))
                .collect(),
        }
    }
}

/// Returns the settings of an identity, those that are not written included.
fn identity_settings(catalog: &Catalog, identity: &Identity) -> Settings {
    let Identity {
        id: _,
        rules,
        key_source,
        keys_stale,
        templates,
        fingerprint: _,
    } = identity;
    let keys = match key_source {
        KeySource::File(keys) => format!("a file with {}", format_count(keys.keys().len(), "key")),
        KeySource::Server(server) => {
            let KeyAddress { base, query } = &server.address;
            format!("{}{query}", base.url())
        }
    };
    let mut settings: Settings = rules
        .describe()
        .into_iter()
        .chain([("jwks", keys), ("keys_stale", format!("{keys_stale:?}"))])
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    // All templates have the same limits.
    if let Some(template) = templates.values().next() {
        let item = key_item(catalog, template);
        let limits = [
            ("limits", serde_json::to_string(&item.limits)),
            ("model_limits", serde_json::to_string(&item.model_limits)),
            ("allow_ips", serde_json::to_string(&item.allow_ips)),
        ];
        let written = limits.into_iter().filter_map(|(name, text)| {
            let text = text.ok().filter(|text| text.len() > 2)?;
            Some((name.to_owned(), text))
        });
        settings.extend(written);
    }
    settings
}

fn account_item(account: &Account) -> AccountItem {
    let protocol = account.dialect.protocol;
    let address = match protocol.calls_nobody() {
        true => String::new(),
        false => account.base.url(),
    };
    let has_header = account
        .headers
        .iter()
        .any(|(name, _)| name == http::header::AUTHORIZATION);
    // Where secrets are not read, there is no signer.
    let signs =
        account.enabled && !has_header && matches!(protocol.signs_with, SignsWith::ServiceAccount);
    let credential = match (&account.key, &account.signer) {
        (Some(_), _) => "key",
        (None, Some(Signer::Aws(_))) => "aws",
        (None, Some(Signer::Source(source))) => source.field(),
        (None, None) if signs => "service_account",
        (None, None) => "none",
    };
    AccountItem {
        address,
        credential: if account.enabled { credential } else { "none" }.to_owned(),
        enabled: account.enabled,
        settings: settings::account_settings(account),
    }
}

fn model_item(model: &Model) -> ModelItem {
    ModelItem {
        aliases: model
            .aliases
            .iter()
            .chain(&model.alias_globs)
            .map(ToString::to_string)
            .collect(),
        pattern: model.is_pattern(),
        settings: settings::model_settings(model),
        targets: model.targets.iter().map(target_item).collect(),
    }
}

fn target_item(target: &Target) -> TargetItem {
    let Target {
        account,
        model,
        weight,
        tier,
        timeouts: _,
        traits: _,
        known_traits: _,
        price,
        price_from: _,
    } = target;
    let price = price.as_ref().map(|price| {
        let costs = costs::named_costs(price).into_iter();
        costs.map(|(name, cost)| (name.to_owned(), cost)).collect()
    });
    TargetItem {
        account: account.id.to_string(),
        model: model.to_string(),
        price,
        settings: settings::target_settings(target),
        tier: *tier,
        weight: *weight,
    }
}

fn caller_item(caller: &Caller) -> CallerItem {
    let Caller {
        id: _,
        enabled,
        expires,
        limits,
        expose_cost,
    } = caller;
    CallerItem {
        enabled: *enabled,
        expires: expires.map(format_system_time),
        expose_cost: *expose_cost,
        keys: BTreeMap::new(),
        limits: limit_amounts(limits),
        models: Vec::new(),
    }
}

fn key_item(catalog: &Catalog, key: &Key) -> KeyItem {
    let Key {
        id: _,
        caller: _,
        enabled,
        expires,
        index: _,
        limits,
        model_limits,
        allow_ips,
        debug,
        permissions,
        own_scopes: _,
    } = key;
    let of_models = model_limits.iter().filter_map(|(index, limits)| {
        let model = catalog.models().get(*index)?;
        Some((model.id.to_string(), limit_amounts(limits)))
    });
    let models = &permissions.of_key;
    KeyItem {
        allow_ips: allow_ips.iter().map(ToString::to_string).collect(),
        debug: *debug,
        disabled: !enabled,
        expires: expires.map(format_system_time),
        limits: limit_amounts(limits),
        model_limits: of_models.collect(),
        models: (!models.is_everything()).then(|| owned_texts(models.list())),
        secrets: Vec::new(),
    }
}

fn limit_amounts(limits: &Limits) -> Amounts {
    let each = Kind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, kind.limit(limits, WHOLE_LIMIT)?)));
    let each = each.map(|(kind, number)| (kind.name().to_owned(), kind.amount(number)));
    let reserve = (limits.reserve != Reserve::Typical)
        .then(|| ("reserve".to_owned(), limits.reserve.name().into()));
    each.chain(reserve).collect()
}

fn owned_texts(list: Vec<&str>) -> Vec<String> {
    list.into_iter().map(str::to_owned).collect()
}
