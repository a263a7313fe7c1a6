//! Anthropic's lists of models.

use crate::front::chat::models::LISTS as STANDARD;
use crate::front::{ListedModel, ModelLists};
use crate::wire::json::Writer;

pub(super) const LISTS: ModelLists = ModelLists {
    route: STANDARD.route,
    is_wanted: |has, _| has("anthropic-version"),
    one: write_model,
    all: |w, models| {
        w.object(|w| {
            w.key("data").each(models, write_model);
            // Clients ask for further pages until this is false.
            w.key("has_more").bool(false);
            w.or_null("first_id", models.first(), |w, model| w.text(model.id));
            w.or_null("last_id", models.last(), |w, model| w.text(model.id));
        });
    },
};

fn write_model(w: &mut Writer, model: &ListedModel<'_>) {
    w.object(|w| {
        w.texts([
            ("type", "model"),
            ("id", model.id),
            ("display_name", model.id),
            ("created_at", model.created_at),
        ]);
        w.key("lifecycle").text("active");
        w.or_null("max_input_tokens", model.context, Writer::number);
        w.or_null("max_tokens", model.max_output, Writer::number);
        // This object would need each ability that Anthropic knows, and some abilities are not
        // known of any model.
        w.key("capabilities").null();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_page_with_unknowns_null() {
        let model = |id| ListedModel {
            id,
            created: 7,
            created_at: "2026-01-01T00:00:00.000Z",
            owned_by: "us",
            context: None,
            max_output: Some(2),
            thinks: None,
            kinds: Vec::new(),
        };
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let one = |id| {
            format!(
                r#"{{"type":"model","id":"{id}","display_name":"{id}","created_at":"2026-01-01T00:00:00.000Z","lifecycle":"active","max_input_tokens":null,"max_tokens":2,"capabilities":null}}"#
            )
        };
        assert_eq!(text(LISTS.show_one(&model("a"))), one("a"));
        let all = text(LISTS.show_all(&[model("a"), model("b")]));
        let expected = format!(
            r#"{{"data":[{},{}],"has_more":false,"first_id":"a","last_id":"b"}}"#,
            one("a"),
            one("b")
        );
        assert_eq!(all, expected);
        let none = text(LISTS.show_all(&[]));
        assert_eq!(
            none,
            r#"{"data":[],"has_more":false,"first_id":null,"last_id":null}"#
        );
    }

    #[test]
    fn only_its_own_header_asks_for_it() {
        assert!((LISTS.is_wanted)(&|name| name == "anthropic-version", None));
        assert!(!(LISTS.is_wanted)(
            &|name| name == "x-api-key",
            Some("key=x")
        ));
    }
}
