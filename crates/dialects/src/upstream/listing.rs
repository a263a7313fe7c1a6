//! The lists of models that servers give. The lists of all dialects are so alike that one reader
//! reads them.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::wire::json::repaired_text;
use crate::wire::percent::encode_segment;

/// The form in which the servers of a dialect list their models.
#[derive(Clone, Copy)]
pub struct ModelListing {
    /// Makes the path of the first page from the path of the base URL.
    pub(crate) first_page_path: fn(&str) -> String,
    /// The parameter of the query that names the next page, if there can be several.
    pub(crate) next_parameter: Option<&'static str>,
    /// A prefix of the names in the list that is no part of the model's name, such as `models/` at
    /// Gemini; empty if there is none.
    pub(crate) name_prefix: &'static str,
}

/// A list on one page, of names without a prefix, at `/models`.
pub(crate) const ONE_PAGE: ModelListing = ModelListing {
    first_page_path: |base| format!("{base}/models"),
    next_parameter: None,
    name_prefix: "",
};

/// A page of a list of models.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ModelPage {
    /// The names on the page.
    pub names: Vec<String>,
    /// The name of the next page, if there is one.
    pub next: Option<String>,
}

/// The most bytes of the next page's name. A longer name is ignored, and the list ends.
const MAX_NEXT_BYTES: usize = 2048;

/// A page as servers write it.
#[derive(Default, Deserialize)]
struct WrittenPage {
    /// OpenAI's servers write `list` here.
    object: Option<String>,
    data: Option<Names>,
    /// The list of some servers in place of `data`. llama.cpp has both.
    models: Option<Names>,
    #[serde(default)]
    has_more: bool,
    last_id: Option<String>,
    #[serde(alias = "nextPageToken")]
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct ListedName {
    id: Option<String>,
    name: Option<String>,
}

/// The names of a list. Nothing else of it takes memory.
#[derive(Default)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Names, D::Error> {
        struct ReadNames;
        impl<'de> Visitor<'de> for ReadNames {
            type Value = Names;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some(model) = list.next_element::<ListedName>()? {
                    names.extend(model.id.or(model.name));
                }
                Ok(Names(names))
            }
        }
        from.deserialize_seq(ReadNames)
    }
}

impl ModelListing {
    /// Makes the path of a page from the path of the base URL. `next` is the name that the page
    /// before gave it.
    pub fn page_path(&self, base: &str, next: Option<&str>) -> String {
        let path = (self.first_page_path)(base);
        let (Some(parameter), Some(next)) = (self.next_parameter, next) else {
            return path;
        };
        let separator = if path.contains('?') { '&' } else { '?' };
        format!("{path}{separator}{parameter}={}", encode_segment(next))
    }

    /// Reads a page. Returns `None` if the body is no list of models.
    pub fn read_page(&self, body: &[u8]) -> Option<ModelPage> {
        // Bytes that are no text cost only the name in which they stand.
        let clean = repaired_text(body);
        let body = clean.as_deref().unwrap_or(body);
        // A few servers write nothing but the names.
        let page = if body.trim_ascii_start().starts_with(b"[") {
            WrittenPage {
                data: serde_json::from_slice(body).ok()?,
                ..WrittenPage::default()
            }
        } else {
            serde_json::from_slice(body).ok()?
        };
        // Ollama without models writes `null` for the list; `object` tells that it is one.
        let empty = || (page.object.as_deref() == Some("list")).then(Names::default);
        let names = page.data.or(page.models).or_else(empty)?;
        let names = names.0.into_iter();
        let next = page
            .last_id
            .filter(|_| page.has_more)
            .or(page.next_page_token);
        Some(ModelPage {
            names: names
                .map(|name| match name.strip_prefix(self.name_prefix) {
                    Some(rest) => rest.to_owned(),
                    None => name,
                })
                .collect(),
            next: next
                .filter(|_| self.next_parameter.is_some())
                .filter(|next| (1..=MAX_NEXT_BYTES).contains(&next.len())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;
    use crate::upstream::{anthropic, cohere, gemini, ollama, openai};

    fn listing(protocol: &Protocol) -> ModelListing {
        protocol.endpoints.listing.expect("a list")
    }

    #[test]
    fn each_dialect_lists_at_its_own_path() {
        for (protocol, base, first, second) in [
            (&openai::PROTOCOL, "/v1", "/v1/models", None),
            (
                &anthropic::PROTOCOL,
                "/v1",
                "/v1/models?limit=1000",
                Some("/v1/models?limit=1000&after_id=a%26b"),
            ),
            (
                &gemini::PROTOCOL,
                "/v1beta",
                "/v1beta/models?pageSize=1000",
                Some("/v1beta/models?pageSize=1000&pageToken=a%26b"),
            ),
            (
                &cohere::PROTOCOL,
                "/v2",
                "/v1/models?page_size=1000",
                Some("/v1/models?page_size=1000&page_token=a%26b"),
            ),
            (&ollama::PROTOCOL, "/sub", "/sub/api/tags", None),
        ] {
            let listing = listing(protocol);
            assert_eq!(listing.page_path(base, None), first);
            if let Some(second) = second {
                assert_eq!(listing.page_path(base, Some("a&b")), second);
            }
        }
        assert_eq!(
            (listing(&cohere::PROTOCOL).first_page_path)("/proxy"),
            "/proxy/models?page_size=1000",
            "not Cohere's own path"
        );
    }

    #[test]
    fn pages_are_read_in_every_form() {
        let page = |protocol: &Protocol, body: &str| listing(protocol).read_page(body.as_bytes());
        let is = |names: &[&str], next: Option<&str>| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Some(ModelPage {
                names,
                next: next.map(str::to_owned),
            })
        };
        let openai = r#"{"object":"list","data":[{"id":"gpt-4o","object":"model"},{"id":"o3"}],"has_more":true,"last_id":"o3"}"#;
        assert_eq!(
            page(&openai::PROTOCOL, openai),
            is(&["gpt-4o", "o3"], None),
            "it has one page"
        );
        let anthropic = |more: bool| {
            format!(
                r#"{{"data":[{{"type":"model","id":"claude-x"}}],"has_more":{more},"last_id":"claude-x"}}"#
            )
        };
        assert_eq!(
            page(&anthropic::PROTOCOL, &anthropic(true)),
            is(&["claude-x"], Some("claude-x"))
        );
        assert_eq!(
            page(&anthropic::PROTOCOL, &anthropic(false)),
            is(&["claude-x"], None)
        );
        let gemini = r#"{"models":[{"name":"models/gemini-x","displayName":"X"},{"name":"tunedModels/y"}],"nextPageToken":"p=="}"#;
        assert_eq!(
            page(&gemini::PROTOCOL, gemini),
            is(&["gemini-x", "tunedModels/y"], Some("p=="))
        );
        let cohere =
            r#"{"models":[{"name":"command-r","endpoints":["chat"]}],"next_page_token":""}"#;
        assert_eq!(page(&cohere::PROTOCOL, cohere), is(&["command-r"], None));
        let ollama = r#"{"models":[{"name":"llama3:latest","model":"llama3:latest","size":1},{}]}"#;
        assert_eq!(
            page(&ollama::PROTOCOL, ollama),
            is(&["llama3:latest"], None)
        );
        assert_eq!(
            page(&openai::PROTOCOL, r#"[{"id":"org/x"},{"id":"org/y"}]"#),
            is(&["org/x", "org/y"], None)
        );
        let llama_cpp = r#"{"models":[{"name":"a.gguf","model":"a.gguf"}],"object":"list","data":[{"id":"a.gguf","object":"model"}]}"#;
        assert_eq!(page(&openai::PROTOCOL, llama_cpp), is(&["a.gguf"], None));
        assert_eq!(
            page(&openai::PROTOCOL, r#"{"object":"list","data":null}"#),
            is(&[], None)
        );
        for odd in [
            &br#"{"data":[{"id":"a"},{"id":"b\ud800"},{"id":"c"}]}"#[..],
            b"{\"data\":[{\"id\":\"a\"},{\"id\":\"b\xff\"},{\"id\":\"c\"}]}",
        ] {
            let names = listing(&openai::PROTOCOL)
                .read_page(odd)
                .map(|page| page.names);
            assert_eq!(
                names,
                Some(vec!["a".to_owned(), "b\u{fffd}".to_owned(), "c".to_owned()])
            );
        }
        let long = format!(
            r#"{{"models":[],"next_page_token":"{}"}}"#,
            "x".repeat(MAX_NEXT_BYTES + 1)
        );
        assert_eq!(page(&cohere::PROTOCOL, &long), is(&[], None));
        for none in [
            "",
            "{}",
            r#"{"data":{}}"#,
            r#"{"data":null}"#,
            r#"{"data":[{"id":7}]}"#,
            r#"{"error":{"message":"no"}}"#,
            r#"{"data":["x"]}"#,
        ] {
            assert_eq!(page(&openai::PROTOCOL, none), None, "{none}");
        }
    }

    #[test]
    fn only_these_dialects_list_their_models() {
        let listed: Vec<_> = crate::upstream::ALL
            .iter()
            .filter(|protocol| protocol.endpoints.listing.is_some())
            .map(|protocol| protocol.name)
            .collect();
        assert_eq!(
            listed,
            ["openai", "anthropic", "gemini", "cohere", "ollama"]
        );
    }
}
