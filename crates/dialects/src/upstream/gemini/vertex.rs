//! This module has the parts that only Vertex AI has: its hosts by region, and paths that name the
//! project.

use super::{COMMON, Service, TRANSLATION, action, counting, request};
use crate::neutral::{FieldRefused, Request, Target, Written};
use crate::upstream::protocol::{BaseUrl, Prices, Protocol, SignsWith, Translation};
use crate::wire::percent::segment;

/// Gemini on Vertex AI.
pub static VERTEX: Protocol = Protocol {
    name: "vertex",
    about: "Gemini on Vertex AI, with `project` and `location`. The credential is `service_account`, or a token in `key`. The base URL follows from `location`.",
    base_url: BaseUrl::OfPlace { usual: GLOBAL, at: vertex_base },
    path: |settings, model, stream| {
        let (project, place) = (settings.project.as_deref(), settings.place.as_deref());
        vertex_path(project.unwrap_or_default(), place.unwrap_or(GLOBAL), model, stream).into()
    },
    signs_with: SignsWith::ServiceAccount,
    // Some models cost more outside the global location.
    prices: |settings| match settings.place.as_deref() {
        Some(GLOBAL) | None => Prices::Listed,
        Some(_) => Prices::Unlisted,
    },
    translation: Some(Translation { request: vertex_request, counting: Some(counting::VERTEX), ..TRANSLATION }),
    ..COMMON
};

/// The location in which Vertex AI runs a model if the account names none.
const GLOBAL: &str = "global";

/// Returns the base URL of Vertex AI in a location: a region, `global`, or one of the multi-regions
/// `us` and `eu`.
fn vertex_base(location: &str) -> String {
    // Nothing that could end the host's name may go into it.
    let location: String = location.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    match location.as_str() {
        "" | "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

/// Returns the path after the base URL for a model. The model's name may have its publisher
/// (`publishers/x/models/y`). A tuned model has its endpoint (`endpoints/123`).
fn vertex_path(project: &str, location: &str, model: &str, stream: bool) -> String {
    let place = format!("/v1/projects/{}/locations/{}", segment(project), segment(location));
    let action = action(stream);
    if let Some(endpoint) = model.strip_prefix("endpoints/") {
        return format!("{place}/endpoints/{}{action}", segment(endpoint));
    }
    let published = model.strip_prefix("publishers/").and_then(|rest| rest.split_once("/models/"));
    let (publisher, model) = published.unwrap_or(("google", model.strip_prefix("models/").unwrap_or(model)));
    format!("{place}/publishers/{}/models/{}{action}", segment(publisher), segment(model))
}

/// Writes a request for Vertex AI.
pub(super) fn vertex_request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, FieldRefused> {
    request::write(request, target, Service::Vertex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_location_has_its_host() {
        let check = |location, base| assert_eq!(vertex_base(location), base);
        check("us-central1", "https://us-central1-aiplatform.googleapis.com");
        check("global", "https://aiplatform.googleapis.com");
        check("us", "https://aiplatform.us.rep.googleapis.com");
        check("eu", "https://aiplatform.eu.rep.googleapis.com");
        check("evil.example/?#@", "https://evilexample-aiplatform.googleapis.com");
        check("", "https://aiplatform.googleapis.com");
    }

    #[test]
    fn paths_name_project_location_and_model() {
        let check = |model, stream, path: &str| assert_eq!(vertex_path("p-1", "eu", model, stream), path);
        let base = "/v1/projects/p-1/locations/eu/publishers/google/models/";
        check("gemini-2.5-pro", false, &format!("{base}gemini-2.5-pro:generateContent"));
        check("gemini-2.5-pro", true, &format!("{base}gemini-2.5-pro:streamGenerateContent?alt=sse"));
        check("models/gemini-2.5-pro", false, &format!("{base}gemini-2.5-pro:generateContent"));
        check("publishers/google/models/g", false, &format!("{base}g:generateContent"));
        check(
            "publishers/meta/models/l@1",
            false,
            "/v1/projects/p-1/locations/eu/publishers/meta/models/l%401:generateContent",
        );
        check("endpoints/123", false, "/v1/projects/p-1/locations/eu/endpoints/123:generateContent");
        check("../../x", false, &format!("{base}..%2F..%2Fx:generateContent"));
        check("publishers/../models/x", false, "/v1/projects/p-1/locations/eu/publishers/__/models/x:generateContent");
        assert_eq!(
            vertex_path("..", "a/b?c", "m", false),
            "/v1/projects/__/locations/a%2Fb%3Fc/publishers/google/models/m:generateContent"
        );
    }
}
