//! OpenAI's lists of models.

use crate::front::route::{path_under, route_models, without_azure};
use crate::front::{ListedModel, ModelLists};
use crate::neutral::ModelKind;
use crate::wire::json::Writer;

pub(crate) const LISTS: ModelLists = ModelLists {
    route: |path| {
        let path = without_azure(path, "models")?;
        route_models(path_under(path, "v1").unwrap_or(path))
    },
    // Callers get this list if they ask for no other one.
    is_wanted: |_, _| false,
    one: write_model,
    all: |w, models| {
        w.object(|w| {
            w.key("object").text("list");
            w.key("data").each(models, write_model);
        });
    },
};

fn write_model(w: &mut Writer, model: &ListedModel<'_>) {
    w.object(|w| {
        w.texts([("id", model.id), ("object", "model")]);
        w.key("created").number(model.created);
        w.key("owned_by").text(model.owned_by);
        // Mistral's clients drop a model without these.
        w.key("type").text("base");
        w.key("capabilities").object(|w| {
            let is_for_chat = model.kinds.is_empty() || model.kinds.contains(&ModelKind::Chat);
            w.key("completion_chat").bool(is_for_chat);
        });
        if !model.kinds.is_empty() {
            w.key("kinds")
                .each(model.kinds.iter().map(|kind| kind.name()), Writer::text);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_openais_fields_and_the_purpose() {
        let model = ListedModel {
            id: "m",
            created: 7,
            created_at: "then",
            owned_by: "us",
            context: Some(1),
            max_output: Some(2),
            thinks: Some(true),
            kinds: Vec::new(),
        };
        let one = r#"{"id":"m","object":"model","created":7,"owned_by":"us","type":"base","capabilities":{"completion_chat":true}}"#;
        assert_eq!(LISTS.show_one(&model), one.as_bytes());
        let two = LISTS.show_all(&[model.clone(), model.clone()]);
        assert_eq!(
            String::from_utf8(two).unwrap(),
            format!(r#"{{"object":"list","data":[{one},{one}]}}"#)
        );
        let model = ListedModel {
            kinds: vec![ModelKind::Chat, ModelKind::Embedding],
            ..model
        };
        let one = r#"{"id":"m","object":"model","created":7,"owned_by":"us","type":"base","capabilities":{"completion_chat":true},"kinds":["chat","embedding"]}"#;
        assert_eq!(LISTS.show_one(&model), one.as_bytes());
        assert_eq!(LISTS.show_all(&[]), br#"{"object":"list","data":[]}"#);
    }
}
