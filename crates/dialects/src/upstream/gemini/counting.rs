//! Counting the tokens of a request, by `countTokens`.

use crate::upstream::protocol::Counting;
use crate::wire::json;
use crate::wire::splice::without_members;

/// The Gemini API counts a whole request, and wants the model's name in it.
pub(super) const GEMINI: Counting = Counting {
    path: counting_path,
    body: |model, body| {
        let body = without_members(body, |name| name == "model");
        let members = body.trim_ascii_start().strip_prefix(b"{")?;
        let model = json::quote_string(&format!(
            "models/{}",
            model.strip_prefix("models/").unwrap_or(model)
        ));
        let start = format!(r#"{{"generateContentRequest":{{"model":{model},"#);
        Some([start.as_bytes(), members, b"}"].concat())
    },
    field: "totalTokens",
};

/// Vertex AI counts the parts of a request that it names, and refuses the others.
pub(super) const VERTEX: Counting = Counting {
    path: counting_path,
    body: |_, body| {
        let mut is_exact = true;
        let counted = without_members(body, |name| {
            match &*name.replace('_', "").to_ascii_lowercase() {
                "contents" | "systeminstruction" | "tools" | "generationconfig" => false,
                // These are no part of the prompt.
                "model" | "safetysettings" | "toolconfig" | "labels" => true,
                _ => {
                    is_exact = false;
                    true
                }
            }
        });
        is_exact.then_some(counted)
    },
    field: "totalTokens",
};

fn counting_path(path: &str) -> Option<String> {
    path.strip_suffix(":generateContent")
        .map(|model| format!("{model}:countTokens"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_gets_what_it_counts() {
        assert_eq!(
            counting_path("/models/m:generateContent").as_deref(),
            Some("/models/m:countTokens")
        );
        assert_eq!(counting_path("/models/m:rawPredict"), None);
        let of = |counting: Counting, body: &str| {
            (counting.body)("m", body.as_bytes()).map(|body| String::from_utf8(body).unwrap())
        };
        let body =
            r#"{"contents":[{}],"system_instruction":{},"safetySettings":[],"toolConfig":{}}"#;
        assert_eq!(
            of(GEMINI, body).as_deref(),
            Some(
                r#"{"generateContentRequest":{"model":"models/m","contents":[{}],"system_instruction":{},"safetySettings":[],"toolConfig":{}}}"#
            )
        );
        assert_eq!(
            of(GEMINI, r#" {"model":"x","contents":[]}"#).as_deref(),
            Some(r#"{"generateContentRequest":{"model":"models/m","contents":[]}}"#)
        );
        assert_eq!(
            of(VERTEX, body).as_deref(),
            Some(r#"{"contents":[{}],"system_instruction":{}}"#)
        );
        assert_eq!(
            of(VERTEX, r#"{"contents":[{}],"cachedContent":"c"}"#),
            None,
            "the number would be too low"
        );
    }
}
