//! The paths of Gemini. A path names the model, and after its last colon the method.

use super::write::StreamForm;
use crate::front::route::{self, path_under, skip_slashes};
use crate::front::{ModelsAsked, PathRequest};
use crate::wire::percent;

/// The versions in paths. SDKs differ in which they ask for.
const VERSIONS: [&str; 3] = ["v1beta1", "v1beta", "v1"];

/// The methods of a model that Google's servers have.
const VERBS: [&str; 8] = [
    "generateContent",
    "streamGenerateContent",
    "countTokens",
    "embedContent",
    "batchEmbedContents",
    "batchGenerateContent",
    "predict",
    "predictLongRunning",
];

/// Routes a path to the door whose streams have this form.
pub(super) fn route_path(path: &str, query: Option<&str>, form: StreamForm) -> Option<PathRequest> {
    let (model, verb) = split_model_verb(path)?;
    let stream = match &*verb {
        "generateContent" => false,
        "streamGenerateContent" => true,
        _ => return None,
    };
    let wanted = if stream && !has_events(query) {
        StreamForm::Array
    } else {
        StreamForm::Events
    };
    (form == wanted).then_some(PathRequest {
        model: Some(model),
        stream,
    })
}

/// Returns the model of a path with this method.
pub(super) fn model_for_verb(path: &str, wanted: &str) -> Option<String> {
    split_model_verb(path)
        .filter(|(_, verb)| verb == wanted)
        .map(|(model, _)| model)
}

/// Routes a path that asks for the number of tokens.
pub(super) fn route_count(path: &str, _query: Option<&str>) -> Option<PathRequest> {
    model_for_verb(path, "countTokens").map(|model| PathRequest {
        model: Some(model),
        stream: false,
    })
}

/// Reads which list of models a path asks for.
pub(super) fn route_models(path: &str) -> Option<ModelsAsked> {
    if split_model_verb(path).is_some() {
        return None;
    }
    let path = skip_slashes(path)?;
    let path = VERSIONS
        .into_iter()
        .find_map(|version| path_under(path, version))
        .unwrap_or(path);
    match route::route_models(path)? {
        ModelsAsked::List => Some(ModelsAsked::List),
        // Clients put `models/` before an id that has it already.
        ModelsAsked::One(id) => Some(ModelsAsked::One(
            model_id(&format!("models/{id}"))?.to_owned(),
        )),
    }
}

/// Returns whether a path is one of Gemini's, also if nothing is there.
pub(super) fn owns_path(sent: &str) -> bool {
    let Some(path) = skip_slashes(sent) else {
        return false;
    };
    let first = path.split('/').next().unwrap_or_default();
    let is_googles =
        ["v1beta", "v1beta1", "v1alpha"].contains(&first) || first.starts_with("v1internal");
    is_googles
        || path_under(path, "upload").is_some_and(|path| path.starts_with("v1"))
        || split_model_verb(sent).is_some()
}

/// Returns whether a query asks for server-sent events.
fn has_events(query: Option<&str>) -> bool {
    let mut pairs = query
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| matches!(name, "alt" | "$alt" | "%24alt") && value == "sse")
}

/// Returns the model and the method that a path names.
fn split_model_verb(path: &str) -> Option<(String, String)> {
    // Most paths have no colon, be it encoded or not.
    memchr::memchr2(b':', b'%', path.as_bytes())?;
    let path = skip_slashes(path)?;
    let path = VERSIONS
        .into_iter()
        .find_map(|version| path_under(path, version))
        .unwrap_or(path);
    let decoded = String::from_utf8(percent::decode_text(path)?).ok()?;
    let (name, verb) = decoded.trim_end_matches('/').rsplit_once(':')?;
    // The model's name may be as long as in a body.
    let model = model_id(name).filter(|model| model.len() <= 512 && VERBS.contains(&verb))?;
    Some((model.to_owned(), verb.to_owned()))
}

/// Returns the model's id. Clients put `models/` before it, some twice; Vertex AI puts a
/// project, a location and a publisher before that.
pub(super) fn model_id(name: &str) -> Option<&str> {
    let name = under_location(name).unwrap_or(name);
    let name = under_publisher(name).unwrap_or(name);
    if path_under(name, "tunedModels").is_some_and(|tuned| !tuned.is_empty()) {
        return Some(name);
    }
    let mut name = path_under(name, "models")?;
    while let Some(inner) = path_under(under_publisher(name).unwrap_or(name), "models") {
        name = inner;
    }
    (!name.is_empty()).then_some(name)
}

/// Returns the part of a path after Vertex AI's publisher.
fn under_publisher(path: &str) -> Option<&str> {
    path_under(path_under(path, "publishers")?, "google")
}

/// Returns the part of a path after Vertex AI's project and location.
fn under_location(path: &str) -> Option<&str> {
    let (_, path) = path_under(path, "projects")?.split_once('/')?;
    let (_, path) = path_under(path.trim_start_matches('/'), "locations")?.split_once('/')?;
    Some(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, model: &str) {
        let asked = |form, stream| {
            let (verb, query) = match (stream, form) {
                (false, _) => ("generateContent", Some("key=x")),
                (true, StreamForm::Events) => ("streamGenerateContent", Some("key=x&alt=sse")),
                (true, StreamForm::Array) => ("streamGenerateContent", None),
            };
            route_path(&format!("{path}:{verb}"), query, form)
        };
        let expected = |stream| {
            Some(PathRequest {
                model: Some(model.to_owned()),
                stream,
            })
        };
        assert_eq!(asked(StreamForm::Events, false), expected(false), "{path}");
        assert_eq!(asked(StreamForm::Events, true), expected(true), "{path}");
        assert_eq!(asked(StreamForm::Array, true), expected(true), "{path}");
        assert_eq!(asked(StreamForm::Array, false), None, "{path}");
    }

    #[test]
    fn a_path_names_the_model_in_many_ways() {
        for path in [
            "/v1beta/models/m",
            "/v1/models/m",
            "/v1beta1/models/m",
            "/models/m",
            "//v1beta//models//m",
            "/v1beta/models/models/m",
            "/v1beta/models/models%2Fm",
            "/v1beta1/publishers/google/models/m",
            "/v1beta/models/publishers/google/models/m",
            "/v1beta1/projects/p/locations/eu/publishers/google/models/m",
        ] {
            check(path, "m");
        }
        check("/v1beta/models/org/m", "org/m");
        check("/v1beta/models/org%2Fm", "org/m");
        check("/v1beta/models/llama3:8b", "llama3:8b");
        check("/v1beta/models/llama3%3A8b", "llama3:8b");
        check("/v1beta/tunedModels/x", "tunedModels/x");
        check("/v1beta/models/tunedModels/x", "tunedModels/x");
        check("/v1beta/models/%C3%A9", "é");
        assert!(
            route_path(
                "/v1beta/models/m%3AgenerateContent/",
                None,
                StreamForm::Events
            )
            .is_some()
        );
        for query in ["alt=sse", "$alt=sse", "%24alt=sse", "a=b&alt=sse&key=x"] {
            assert!(
                route_path(
                    "/v1/models/m:streamGenerateContent",
                    Some(query),
                    StreamForm::Events
                )
                .is_some(),
                "{query}"
            );
        }
        for query in ["alt=json", "alt=", "alt", "salt=sse", ""] {
            assert!(
                route_path(
                    "/v1/models/m:streamGenerateContent",
                    Some(query),
                    StreamForm::Array
                )
                .is_some(),
                "{query}"
            );
        }
    }

    #[test]
    fn models_are_listed_below_each_version() {
        let one = |id: &str| Some(ModelsAsked::One(id.to_owned()));
        for (path, asked) in [
            ("/v1beta/models", Some(ModelsAsked::List)),
            ("//v1beta1//models//", Some(ModelsAsked::List)),
            ("/v1beta/models/m", one("m")),
            ("/v1beta/models/llama3:8b", one("llama3:8b")),
            ("/v1beta/models/models%2Forg%2Fm", one("org/m")),
            ("/v1beta/models/tunedModels/x", one("tunedModels/x")),
            ("/v1beta/models/m%zz", None),
            ("/v1beta/models/m:countTokens", None),
            ("/v1beta/modelsx", None),
            ("/models", Some(ModelsAsked::List)),
            ("/v1/models/models/m", one("m")),
            ("/v1alpha/models", None),
        ] {
            assert_eq!(route_models(path), asked, "{path}");
        }
    }

    #[test]
    fn other_paths_lead_nowhere() {
        for path in [
            "",
            "/",
            "/v1beta",
            "/v1beta/models/m",
            "/v1beta/models/:generateContent",
            "/v1beta/models/models/:generateContent",
            "/v1beta/models:generateContent",
            "/v1beta/m:generateContent",
            "/v1beta/modelsm:generateContent",
            "/v1beta/models/m:countTokens",
            "/v1beta/models/m:embedContent",
            "/v1beta/models/m:generatecontent",
            "/v1beta/models/m:generateContent:x",
            "/v1beta/models/m%2:generateContent",
            "/v1beta/models/%ff:generateContent",
            "/v1alpha/models/m:generateContent",
            "/v1internal:generateContent",
            "/v1/chat/completions",
        ] {
            for form in [StreamForm::Events, StreamForm::Array] {
                assert_eq!(route_path(path, None, form), None, "{path}");
            }
        }
    }

    #[test]
    fn callers_of_googles_paths_expect_googles_errors() {
        for path in [
            "/v1beta/models",
            "/v1beta/models/m",
            "/v1beta",
            "//v1alpha/x",
            "/v1beta1/publishers/google/models/m:predict",
            "/v1/models/m:countTokens",
            "/v1/models/m:generateContent",
            "/upload/v1beta/files",
            "/v1internal:generateContent",
            "/models/m:embedContent",
        ] {
            assert!(owns_path(path), "{path}");
        }
        for path in [
            "/v1/models",
            "/v1/models/m",
            "/v1/models/llama3:8b",
            "/v1/messages",
            "",
            "v1beta",
            "/v1betax",
        ] {
            assert!(!owns_path(path), "{path}");
        }
    }
}
