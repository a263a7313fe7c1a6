//! A list of models is the answer to `GET /v1/models`: exactly the models that a key may use, their
//! aliases included, in the format that the caller speaks. It is rendered once for each format and
//! each distinct set of permissions.

use crate::base::calendar;
use crate::base::lock::Lock;
use crate::catalog::{Catalog, Key, Model, Target};
use crate::conf::price::Origin;
use bytes::Bytes;
use dialects::front::{Front, ListedModel};
use dialects::neutral::ModelKind;
use dialects::traits::Thinking;
use std::collections::HashMap;

/// The most bytes of all rendered lists. Beyond it, all are dropped and rendered again when they
/// are asked for.
const MAX_RENDERED_BYTES: usize = 32 << 20;

/// The rendered lists of one catalog.
#[derive(Default)]
pub struct Lists {
    rendered: Lock<RenderedLists>,
}

#[derive(Default)]
struct RenderedLists {
    lists: HashMap<ListKey, Bytes>,
    bytes: usize,
    /// The state of the providers' lists that they were rendered for.
    changes: u64,
}

/// The key of a rendered list: the name of the format, and the permissions.
type ListKey = (&'static str, usize);

impl Lists {
    /// Returns the body of `GET /v1/models` for this key.
    pub fn list(&self, catalog: &Catalog, key: &Key, front: &Front) -> Bytes {
        let (index, changes) = ((front.name, key.permissions.index), catalog.list_changes());
        if let RenderedLists {
            lists,
            changes: rendered_for,
            ..
        } = &*self.rendered.lock()
            && *rendered_for == changes
            && let Some(list) = lists.get(&index)
        {
            return list.clone();
        }
        let list = render_list(catalog, key, front);
        let mut rendered = self.rendered.lock();
        if rendered.changes != changes || rendered.bytes + list.len() > MAX_RENDERED_BYTES {
            *rendered = RenderedLists {
                changes,
                ..RenderedLists::default()
            };
        }
        if rendered.lists.insert(index, list.clone()).is_none() {
            rendered.bytes += list.len();
        }
        list
    }
}

/// Returns the body of `GET /v1/models/{id}`, if this key may use the model.
pub fn render_one(catalog: &Catalog, key: &Key, id: &str, front: &Front) -> Option<Bytes> {
    let model = catalog.visible(key, id)?;
    Some(
        front
            .models
            .show_one(&list_entry(catalog, id, &created_at(&model), &model))
            .into(),
    )
}

/// Returns the only model of a kind that this key may use, if it is one alone.
pub fn only_model_id(catalog: &Catalog, key: &Key, kind: ModelKind) -> Option<String> {
    let models = catalog.listed(&key.permissions).into_iter();
    let mut found = models.filter(|model| {
        list_entry(catalog, &model.id, "", model)
            .kinds
            .contains(&kind)
    });
    let only = found.next()?;
    found.next().is_none().then(|| only.id.to_string())
}

fn render_list(catalog: &Catalog, key: &Key, front: &Front) -> Bytes {
    let models = catalog.listed(&key.permissions).into_iter();
    let models: Vec<_> = models.map(|model| (created_at(&model), model)).collect();
    let named = models.iter().flat_map(|(created_at, model)| {
        std::iter::once(&model.id)
            .chain(&model.aliases)
            .map(move |id| list_entry(catalog, id, created_at, model))
    });
    let mut listed: Vec<_> = named.collect();
    listed.sort_unstable_by(|a, b| a.id.cmp(b.id));
    front.models.show_all(&listed).into()
}

fn created_at(model: &Model) -> String {
    calendar::format_time(model.created.saturating_mul(1000))
}

fn list_entry<'m>(
    catalog: &Catalog,
    id: &'m str,
    created_at: &'m str,
    model: &'m Model,
) -> ListedModel<'m> {
    let targets = model.targets.iter();
    let targets: Vec<&Target> = targets
        .filter(|target| catalog.serves(model, target))
        .collect();
    let first = targets.first().and_then(|target| thinks(target));
    let kinds = targets
        .first()
        .map(|target| model_kinds(model, target))
        .unwrap_or_default();
    ListedModel {
        id,
        created: model.created,
        created_at,
        owned_by: &model.owned_by,
        context: least(&targets, |target| target.known_traits.context),
        max_output: least(&targets, |target| target.known_traits.max_output),
        thinks: first.filter(|_| targets.iter().all(|target| thinks(target) == first)),
        kinds: if targets
            .iter()
            .all(|target| self::model_kinds(model, target) == kinds)
        {
            kinds
        } else {
            Vec::new()
        },
    }
}

/// Returns the least value of these targets: what one target lacks, callers cannot rely on. `None`,
/// which is unknown, is the least.
fn least(targets: &[&Target], value: fn(&Target) -> Option<u64>) -> Option<u64> {
    targets.iter().map(|target| value(target)).min().flatten()
}

fn thinks(target: &Target) -> Option<bool> {
    match target.known_traits.thinking {
        Thinking::Unknown => None,
        Thinking::None => Some(false),
        Thinking::Budget | Thinking::Effort => Some(true),
    }
}

/// Returns what a model is for at a target, as far as it is known: what the catalog says, or else
/// its name. The models of the list of prices, those that are known to think or not to, and those
/// at a server that does nothing else, hold conversations.
fn model_kinds(model: &Model, target: &Target) -> Vec<ModelKind> {
    let account = &target.account;
    let mut served = account.serves.iter().map(|(kind, _)| kind.facts().made_for);
    if let Some(kind) = model.kind.or_else(|| ModelKind::of_name(&target.model)) {
        return vec![kind];
    }
    let is_known = target.known_traits.thinking != Thinking::Unknown
        || target.price_from == Some(Origin::List);
    if account.dialect.protocol.calls_nobody() {
        let mut kinds = Vec::new();
        for kind in served {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    } else if is_known || served.all(|kind| kind == ModelKind::Chat) {
        vec![ModelKind::Chat]
    } else {
        Vec::new()
    }
}
