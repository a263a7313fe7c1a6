//! A list of models is the answer to `GET /v1/models`: exactly the models that a key may use, their
//! aliases included. It is rendered once for each distinct set of permissions.

use crate::base::lock::Lock;
use crate::catalog::{Catalog, Key, Model};
use bytes::Bytes;
use serde::Serialize;
use std::collections::HashMap;

/// The most bytes of all rendered lists. Beyond it, all are dropped and rendered again when they
/// are asked for.
const MOST: usize = 32 << 20;

/// The rendered lists of one catalog.
#[derive(Default)]
pub struct Lists {
    rendered: Lock<(usize, HashMap<usize, Bytes>)>,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<ListedModel<'a>>,
}

#[derive(Serialize)]
struct ListedModel<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
}

impl Lists {
    /// Returns the body of `GET /v1/models` for this key.
    pub fn list(&self, catalog: &Catalog, key: &Key) -> Bytes {
        let index = key.permissions.index;
        if let Some(list) = self.rendered.lock().1.get(&index) {
            return list.clone();
        }
        let list = render(catalog, key);
        let mut rendered = self.rendered.lock();
        if rendered.0 + list.len() > MOST {
            *rendered = Default::default();
        }
        if rendered.1.insert(index, list.clone()).is_none() {
            rendered.0 += list.len();
        }
        list
    }
}

/// Returns the body of `GET /v1/models/{id}`, if this key may use the model.
pub fn one(catalog: &Catalog, key: &Key, id: &str) -> Option<Bytes> {
    let model = catalog.visible(key, id)?;
    Some(json(&entry(id, model)))
}

fn render(catalog: &Catalog, key: &Key) -> Bytes {
    let mut data: Vec<ListedModel<'_>> = catalog
        .models()
        .iter()
        .filter(|model| model.served() && key.permissions.allow(&model.id))
        .flat_map(|model| std::iter::once(&model.id).chain(&model.aliases).map(|id| entry(id, model)))
        .collect();
    data.sort_unstable_by(|a, b| a.id.cmp(b.id));
    json(&List { object: "list", data })
}

fn entry<'a>(id: &'a str, model: &'a Model) -> ListedModel<'a> {
    ListedModel { id, object: "model", created: model.created, owned_by: &model.owned_by }
}

fn json(value: &impl Serialize) -> Bytes {
    // Strings and numbers always serialise.
    serde_json::to_vec(value).unwrap_or_default().into()
}
