//! This module has the parts that only Vertex AI has: its hosts by region, paths that name the
//! project, and Claude, which is asked in Anthropic's format.

use super::{
    DEFAULT_ENDPOINTS, Service, TRANSLATION, common_protocol, counting, embed, method_suffix,
    model_traits, read_error, request,
};
use crate::neutral::{Family, FieldRefused, Request, Target, Written};
use crate::upstream::openai::other_endpoints::vector_protocol;
use crate::upstream::protocol::{
    AccountField, BaseUrl, Counting, DialectFacts, ENDPOINTS, Endpoints, Litellm, Prices, Protocol,
    Settings, SignsWith, Translation,
};
use crate::upstream::servers::{
    HostPattern::{Ends, Is},
    known_server,
};
use crate::upstream::{Cloud, anthropic};
use crate::wire::json::{Cursor, name_of, quote_string, span_bytes};
use crate::wire::percent::encode_segment;

const FACTS: DialectFacts = DialectFacts {
    name: "vertex",
    about: "Gemini and Claude on Vertex AI, with `project` and `location`. The credential is `service_account`, or a token in `key`. The base URL follows from `location`.",
    provider: "gcp.vertex_ai",
    servers: &[
        // The other addresses belong to locations, where some models cost more.
        known_server(Is("aiplatform.googleapis.com"), &[""]).listed_as("vertex"),
        known_server(Ends("-aiplatform.googleapis.com"), &[""]),
        known_server(Ends(".rep.googleapis.com"), &[""]),
    ],
    own_fields: &[
        AccountField::Project,
        AccountField::Location,
        AccountField::ServiceAccount,
        AccountField::Identity,
        AccountField::ResponseJsonSchema,
        AccountField::ParametersJsonSchema,
    ],
    litellm: Litellm {
        names: &["vertex_ai", "vertex_ai_beta"],
        keys: &[],
        bases: &[],
    },
    base_url: BaseUrl::PerRegion {
        default_region: GLOBAL,
        address_in: vertex_base,
    },
    key_header: None,
    // Some models cost more outside the global location.
    prices: |settings| match settings.region.as_deref() {
        Some(GLOBAL) | None => Prices::Listed,
        Some(_) => Prices::Unlisted,
    },
    translation: Some(Translation {
        request: vertex_request,
        counting: Some(counting::VERTEX),
        ..TRANSLATION
    }),
    error: |_, head, body| {
        let read = if is_anthropics_error(body) {
            anthropic::read_error
        } else {
            read_error
        };
        read(head.status, head.content_type, body)
    },
};

/// Gemini and Claude on Vertex AI.
pub static VERTEX: Protocol = Protocol {
    path: |_, settings, model, stream| {
        vertex_path(settings, "google", model, method_suffix(stream)).into()
    },
    traits: |model| {
        if is_claude(model) {
            anthropic::model_traits(model)
        } else {
            model_traits(model)
        }
    },
    endpoints: Endpoints {
        protocols: std::slice::from_ref(&EMBEDDINGS),
        default_endpoints: DEFAULT_ENDPOINTS,
        protocol_for_model: |model| is_claude(model).then_some(&CLAUDE),
        ..ENDPOINTS
    },
    signs_with: SignsWith::ServiceAccount,
    ..common_protocol(FACTS)
};

/// Claude on Vertex AI.
static CLAUDE: Protocol = Protocol {
    path: |_, settings, model, stream| {
        let method = if stream {
            ":streamRawPredict"
        } else {
            ":rawPredict"
        };
        vertex_path(settings, "anthropic", model, method).into()
    },
    family: Some(Family::Claude),
    endpoints: ENDPOINTS,
    translation: Some(Translation {
        cloud: Some(&Cloud {
            version: "vertex-2023-10-16",
            is_bare: false,
        }),
        counting: Some(CLAUDE_COUNTING),
        ..anthropic::TRANSLATION
    }),
    ..VERTEX
};

/// The count of tokens is a model of its own among Anthropic's models, and the body names the model
/// that is asked (Google's documentation, "Count tokens for Claude models").
const CLAUDE_COUNTING: Counting = Counting {
    path: |path| {
        let (models, _) = path.strip_suffix(":rawPredict")?.rsplit_once('/')?;
        Some(format!("{models}/count-tokens:rawPredict"))
    },
    body: |model, body| {
        let body = (anthropic::COUNTING.body)(model, body)?;
        let members = body.trim_ascii_start().strip_prefix(b"{")?;
        let model = quote_string(model.rsplit('/').next().unwrap_or(model));
        Some([format!(r#"{{"model":{model},"#).as_bytes(), members].concat())
    },
    ..anthropic::COUNTING
};

/// Vectors of texts on Vertex AI.
static EMBEDDINGS: Protocol = Protocol {
    path: |_, settings, model, _| {
        let method = if embed::reads_purpose(model) {
            ":embedContent"
        } else {
            ":predict"
        };
        vertex_path(settings, "google", model, method).into()
    },
    ..vector_protocol(VERTEX, &embed::VERTEX_FORM)
};

/// Returns whether a model is one of Anthropic's.
fn is_claude(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.starts_with("claude-") || model.starts_with("publishers/anthropic/")
}

/// Returns whether an error comes from Anthropic's part of the service: its type is `error`.
fn is_anthropics_error(body: &[u8]) -> bool {
    let mut found = false;
    let _read = Cursor::new(body).maybe_members(|key, value| {
        found |= *name_of(body, &key) == *b"type" && span_bytes(body, &value) == br#""error""#;
    });
    found
}

/// The location in which Vertex AI runs a model if the account names none.
const GLOBAL: &str = "global";

/// Returns the base URL of Vertex AI in a location: a region, `global`, or one of the multi-regions
/// `us` and `eu`.
fn vertex_base(location: &str) -> String {
    // Nothing that could end the host's name may go into it.
    let location: String = location
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    match location.as_str() {
        "" | "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

/// Returns the path after the base URL for a model. The model's name may have its publisher
/// (`publishers/x/models/y`). A tuned model has its endpoint (`endpoints/123`).
fn vertex_path(settings: &Settings, publisher: &str, model: &str, action: &str) -> String {
    let location_path = format!(
        "/v1/projects/{}/locations/{}",
        encode_segment(settings.project.as_deref().unwrap_or_default()),
        encode_segment(settings.region.as_deref().unwrap_or(GLOBAL))
    );
    if let Some(endpoint) = model.strip_prefix("endpoints/") {
        return format!(
            "{location_path}/endpoints/{}{action}",
            encode_segment(endpoint)
        );
    }
    let published = model
        .strip_prefix("publishers/")
        .and_then(|rest| rest.split_once("/models/"));
    let (publisher, model) =
        published.unwrap_or((publisher, model.strip_prefix("models/").unwrap_or(model)));
    format!(
        "{location_path}/publishers/{}/models/{}{action}",
        encode_segment(publisher),
        encode_segment(model)
    )
}

/// Writes a request for Vertex AI.
pub(super) fn vertex_request(
    request: &Request<'_>,
    target: &Target<'_>,
) -> Result<Written, FieldRefused> {
    request::write_for_service(request, target, Service::Vertex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{CHAT, Front, MESSAGES};
    use crate::neutral::ErrorHead;
    use crate::{Dialect, Translate};

    fn settings(project: &str, place: &str) -> Settings {
        Settings {
            project: Some(project.into()),
            region: Some(place.into()),
            ..Settings::NONE
        }
    }

    #[test]
    fn every_kind_of_location_has_its_host() {
        let check = |location, base| assert_eq!(vertex_base(location), base);
        check(
            "us-central1",
            "https://us-central1-aiplatform.googleapis.com",
        );
        check("global", "https://aiplatform.googleapis.com");
        check("us", "https://aiplatform.us.rep.googleapis.com");
        check("eu", "https://aiplatform.eu.rep.googleapis.com");
        check(
            "evil.example/?#@",
            "https://evilexample-aiplatform.googleapis.com",
        );
        check("", "https://aiplatform.googleapis.com");
    }

    #[test]
    fn paths_name_project_location_and_model() {
        let check = |model, stream, path: &str| {
            assert_eq!(
                vertex_path(
                    &settings("p-1", "eu"),
                    "google",
                    model,
                    method_suffix(stream)
                ),
                path
            );
        };
        let base = "/v1/projects/p-1/locations/eu/publishers/google/models/";
        check(
            "gemini-2.5-pro",
            false,
            &format!("{base}gemini-2.5-pro:generateContent"),
        );
        check(
            "gemini-2.5-pro",
            true,
            &format!("{base}gemini-2.5-pro:streamGenerateContent?alt=sse"),
        );
        check(
            "models/gemini-2.5-pro",
            false,
            &format!("{base}gemini-2.5-pro:generateContent"),
        );
        check(
            "publishers/google/models/g",
            false,
            &format!("{base}g:generateContent"),
        );
        check(
            "publishers/meta/models/l@1",
            false,
            "/v1/projects/p-1/locations/eu/publishers/meta/models/l%401:generateContent",
        );
        check(
            "endpoints/123",
            false,
            "/v1/projects/p-1/locations/eu/endpoints/123:generateContent",
        );
        check(
            "../../x",
            false,
            &format!("{base}..%2F..%2Fx:generateContent"),
        );
        check(
            "publishers/../models/x",
            false,
            "/v1/projects/p-1/locations/eu/publishers/__/models/x:generateContent",
        );
        assert_eq!(
            vertex_path(
                &settings("..", "a/b?c"),
                "google",
                "m",
                method_suffix(false)
            ),
            "/v1/projects/__/locations/a%2Fb%3Fc/publishers/google/models/m:generateContent"
        );
    }

    #[test]
    fn claude_is_asked_in_anthropics_format() {
        let write = |front: &'static Front, model: &str, stream: bool| {
            let body = format!(
                r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"hi"}}],"stream":{stream}}}"#
            );
            let body = bytes::Bytes::from(body);
            let outbound = Dialect::new(&VERTEX, settings("p", "eu")).write(&Translate {
                traits: (VERTEX.traits)(model),
                ..Translate::new(&body, &front.envelope(&body).unwrap(), model)
            });
            let outbound = outbound.unwrap();
            (
                outbound.path.into_owned(),
                String::from_utf8(outbound.body.concat()).unwrap(),
            )
        };
        let base =
            "/v1/projects/p/locations/eu/publishers/anthropic/models/claude-sonnet-4-5%4020250929";
        for model in [
            "claude-sonnet-4-5@20250929",
            "publishers/anthropic/models/claude-sonnet-4-5@20250929",
        ] {
            let (path, body) = write(&CHAT, model, true);
            assert_eq!(path, format!("{base}:streamRawPredict"));
            let start = r#"{"anthropic_version":"vertex-2023-10-16","max_tokens":9,"stream":true,"#;
            assert!(body.starts_with(start) && !body.contains("model"), "{body}");
            assert_eq!(
                write(&MESSAGES, model, false).0,
                format!("{base}:rawPredict")
            );
        }
        assert!(
            write(&CHAT, "gemini-2.5-pro", false)
                .0
                .ends_with("/publishers/google/models/gemini-2.5-pro:generateContent")
        );
        assert_eq!(
            VERTEX.for_model("claude-sonnet-4-5").family,
            Some(Family::Claude)
        );
        assert_eq!(
            VERTEX.for_model("gemini-2.5-pro").family,
            Some(Family::Gemini)
        );
    }

    #[test]
    fn anthropics_part_counts_for_its_own_models() {
        let vertex = Dialect::new(
            &VERTEX,
            Settings {
                project: Some("p".into()),
                ..Settings::NONE
            },
        );
        let count = |front: &'static Front, body: &str, model: &str| {
            let body = bytes::Bytes::from(body.to_owned());
            let envelope = front.envelope(&body).unwrap();
            let said = vertex.write(&Translate {
                traits: (VERTEX.traits)(model),
                ..Translate::new(&body, &envelope, model)
            });
            let said = vertex.to_count(model, said.unwrap())?;
            Some((
                said.path.into_owned(),
                String::from_utf8(said.body.concat()).unwrap(),
            ))
        };
        let claude = "claude-sonnet-4-5@20250929";
        let path =
            "/v1/projects/p/locations/global/publishers/anthropic/models/count-tokens:rawPredict";
        let body = r#"{"model":"m","max_tokens":9,"new":1,"top_k":5,"messages":[{"role":"user","content":"é"}]}"#;
        let expected = r#"{"model":"claude-sonnet-4-5@20250929","anthropic_version":"vertex-2023-10-16","new":1,"messages":[{"role":"user","content":"é"}]}"#;
        for model in [
            claude,
            "publishers/anthropic/models/claude-sonnet-4-5@20250929",
        ] {
            assert_eq!(
                count(&MESSAGES, body, model),
                Some((path.to_owned(), expected.to_owned()))
            );
        }
        let chat = r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;
        let (_, written) = count(&CHAT, chat, claude).unwrap();
        assert!(
            written.contains(r#""text":"x""#) && !written.contains("max_tokens"),
            "{written}"
        );
        let (path, _) = count(&CHAT, chat, "gemini-2.5-pro").unwrap();
        assert!(path.ends_with("/gemini-2.5-pro:countTokens"), "{path}");
        for (model, answer) in [
            (claude, r#"{"input_tokens":7}"#),
            ("gemini-2.5-pro", r#"{"totalTokens":7}"#),
        ] {
            let counted = vertex.counted(model, &MESSAGES, answer.as_bytes()).unwrap();
            assert_eq!(counted, br#"{"input_tokens":7}"#, "{model}");
        }
        assert_eq!(
            vertex.counted(claude, &MESSAGES, br#"{"totalTokens":7}"#),
            None
        );
    }

    #[test]
    fn an_error_is_googles_or_anthropics() {
        let error = |status, body: &str| {
            let head = ErrorHead {
                status,
                content_type: None,
                error_type: None,
            };
            let error = (VERTEX.error)(&Settings::NONE, &head, body.as_bytes());
            (error.status, error.code, error.message)
        };
        let googles = r#"{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED"}}"#;
        assert_eq!(
            error(429, googles),
            (
                Some(429),
                Some("rate_limit_exceeded".to_owned()),
                "Quota".to_owned()
            )
        );
        let anthropics = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
        let (status, code, _) = error(400, anthropics);
        assert_eq!(
            (status, code.as_deref()),
            (Some(400), Some("context_length_exceeded"))
        );
    }
}
