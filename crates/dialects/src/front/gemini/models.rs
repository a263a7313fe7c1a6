//! Google's lists of models.

use super::GEMINI;
use crate::front::{ListedModel, ModelLists};
use crate::neutral::ModelKind;
use crate::wire::json::Writer;

pub(super) const LISTS: ModelLists = ModelLists {
    route: super::route::route_models,
    is_wanted: |has, query| {
        has("x-goog-api-key") || has("x-goog-api-client") || !GEMINI.keys_in_query(query).is_empty()
    },
    one: write_model,
    all: |w, models| {
        // Without a token for a next page, this page is the last one.
        w.object(|w| w.key("models").each(models, write_model));
    },
};

fn write_model(w: &mut Writer, model: &ListedModel<'_>) {
    w.object(|w| {
        w.texts([
            ("name", &format!("models/{}", model.id)),
            ("displayName", model.id),
        ]);
        w.optional("inputTokenLimit", model.context, Writer::number);
        w.optional("outputTokenLimit", model.max_output, Writer::number);
        let is_for = |kind| model.kinds.contains(&kind);
        let writes =
            (model.kinds.is_empty() || is_for(ModelKind::Chat)).then_some("generateContent");
        let embeds = is_for(ModelKind::Embedding).then_some(["embedContent", "batchEmbedContents"]);
        let methods = writes.into_iter().chain(embeds.into_iter().flatten());
        w.key("supportedGenerationMethods")
            .each(methods, Writer::text);
        w.optional("thinking", model.thinks, Writer::bool);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        let full = ListedModel {
            id: "org/m",
            created: 7,
            created_at: "then",
            owned_by: "us",
            context: Some(1),
            max_output: Some(2),
            thinks: Some(false),
            kinds: vec![ModelKind::Chat],
        };
        let bare = ListedModel {
            context: None,
            max_output: None,
            thinks: None,
            kinds: Vec::new(),
            ..full.clone()
        };
        let vectors = ListedModel {
            kinds: vec![ModelKind::Embedding],
            ..bare.clone()
        };
        let methods = r#""supportedGenerationMethods":["embedContent","batchEmbedContents"]"#;
        assert!(
            String::from_utf8(LISTS.show_one(&vectors))
                .unwrap()
                .contains(methods)
        );
        let all = String::from_utf8(LISTS.show_all(&[full, bare])).unwrap();
        let expected = concat!(
            r#"{"models":[{"name":"models/org/m","displayName":"org/m","inputTokenLimit":1,"outputTokenLimit":2,"#,
            r#""supportedGenerationMethods":["generateContent"],"thinking":false},"#,
            r#"{"name":"models/org/m","displayName":"org/m","supportedGenerationMethods":["generateContent"]}]}"#
        );
        assert_eq!(all, expected);
        assert_eq!(LISTS.show_all(&[]), br#"{"models":[]}"#);
    }

    #[test]
    fn headers_and_the_query_ask_for_it() {
        for (header, query, wanted) in [
            ("x-goog-api-key", None, true),
            ("x-goog-api-client", None, true),
            ("x-api-key", None, false),
            ("", Some("key=x"), true),
            ("", Some("pageSize=5&key=x"), true),
            ("", Some("key="), false),
            ("", Some("key"), false),
            ("", Some("apikey=x&monkey=y"), false),
        ] {
            assert_eq!(
                (LISTS.is_wanted)(&|name| name == header, query),
                wanted,
                "{header} {query:?}"
            );
        }
        let keys = |query| GEMINI.keys_in_query(Some(query));
        assert_eq!(
            keys("key=a%2Bb&alt=sse&key=c"),
            [b"a+b".to_vec(), b"c".to_vec()]
        );
        assert_eq!(keys("key=%zz"), [b"".to_vec()]);
        assert_eq!(keys("key=&key=a"), [b"a".to_vec()], "an empty one is none");
        assert_eq!(crate::front::CHAT.keys_in_query(Some("key=a")), [b""; 0]);
    }
}
