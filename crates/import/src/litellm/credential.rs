//! The credential of an account, and the other fields that identify it: region, project, version.

use super::draft::{Draft, SECRET_FILE, is_region, is_word};
use super::node::Spot;
use super::params::{Params, World, variable_of};
use super::provider::ProviderRow;
use crate::notes::{Finding, Grade};
use portcullis::conf::yaml::edit::New;

/// Writes Azure's `api_version`.
pub(super) fn write_version(
    params: &mut Params<'_>,
    world: &World<'_>,
    entry: &Spot<'_>,
    draft: &mut Draft,
) {
    /// The version that LiteLLM asks for if none is written.
    const DEFAULT: &str = "2025-02-01-preview";
    let Some(spot) = params.take("api_version") else {
        let of_environment = world
            .variable("AZURE_API_VERSION")
            .filter(|version| is_word(version));
        let version = of_environment.unwrap_or_else(|| DEFAULT.to_owned());
        let message = format!("no `api_version` is written: {version}, as LiteLLM uses");
        draft.note(entry, Grade::Approximate, message);
        draft.set("api_version", New::text(version));
        return;
    };
    match world.word(&spot) {
        // These words stand for the path without a version.
        Ok(version) if ["v1", "latest", "preview"].contains(&version.as_str()) => {
            draft.note(&spot, Grade::Exact, "")
        }
        Ok(version) => {
            draft.set("api_version", New::text(version));
            draft.note(&spot, Grade::Exact, "");
        }
        Err(unread) => draft.findings.push(unread.by_hand(&spot, "api_version")),
    }
}

/// Writes the credential of accounts that have one key.
pub(super) fn write_key(
    row: &ProviderRow,
    entry: &Spot<'_>,
    params: &mut Params<'_>,
    world: &World<'_>,
    draft: &mut Draft,
) {
    let written = params.take("api_key").filter(|spot| !spot.is_empty());
    match written {
        Some(spot) => {
            let value = write_secret(&spot, "", draft);
            draft.set("key", value);
        }
        None => {
            let Some(first) = row.keys.first() else {
                return;
            };
            let set = row
                .keys
                .iter()
                .find(|name| world.is_set(name))
                .unwrap_or(first);
            draft.set("key", New::map([("env", New::text(*set))]));
            let message =
                format!("no `api_key` is written: {set} of the environment, as LiteLLM does");
            draft.note(entry, Grade::Approximate, message);
        }
    }
}

/// Writes a secret: the environment variable that is named, or a file to be made. The value itself
/// is never written.
fn write_secret(spot: &Spot<'_>, end: &str, draft: &mut Draft) -> New {
    if let Some(name) = spot.text().and_then(variable_of) {
        draft.note(spot, Grade::Exact, "");
        return New::map([("env", New::text(name))]);
    }
    draft
        .literals
        .push(spot.text().unwrap_or_default().to_owned());
    draft.note(
        spot,
        Grade::Manual,
        "the secret stands in the file itself: write it into the file that is named here",
    );
    New::map([("file", New::text(format!("{SECRET_FILE}{end}")))])
}

/// Writes Bedrock's region and keys.
pub(super) fn write_bedrock(
    entry: &Spot<'_>,
    params: &mut Params<'_>,
    world: &World<'_>,
    draft: &mut Draft,
    lost: &mut Vec<Finding>,
) -> Option<()> {
    /// The region that LiteLLM takes if none is written.
    const DEFAULT: &str = "us-west-2";
    let region = match params
        .take("aws_region_name")
        .or_else(|| params.take("region_name"))
    {
        Some(spot) => match world.region(&spot) {
            Ok(region) => {
                draft.note(&spot, Grade::Exact, "");
                region
            }
            Err(unread) => {
                lost.push(unread.leaves_out(&spot));
                return None;
            }
        },
        None => {
            let names = ["AWS_REGION_NAME", "AWS_REGION", "AWS_DEFAULT_REGION"];
            let set = names
                .iter()
                .find_map(|name| world.variable(name))
                .filter(|region| is_region(region));
            let region = set.unwrap_or_else(|| DEFAULT.to_owned());
            draft.note(
                entry,
                Grade::Approximate,
                format!("no region is written: {region}, as LiteLLM takes now"),
            );
            region
        }
    };
    if draft.wish == "bedrock" {
        draft.wish = format!("bedrock-{region}");
    }
    draft.set("region", New::text(region));
    if let Some(spot) = params.take("api_key").filter(|spot| !spot.is_empty()) {
        let value = write_secret(&spot, "", draft);
        draft.set("key", value);
        return Some(());
    }
    let (id, key) = (
        params.take("aws_access_key_id"),
        params.take("aws_secret_access_key"),
    );
    let token = params.take("aws_session_token");
    let mut fields = Vec::new();
    match (id, key) {
        (Some(id), Some(key)) => {
            fields.push(("access_key_id".to_owned(), write_secret(&id, "-id", draft)));
            fields.push((
                "secret_access_key".to_owned(),
                write_secret(&key, "-secret", draft),
            ));
        }
        (id, key) => {
            if world.is_set("AWS_BEARER_TOKEN_BEDROCK") {
                draft.set(
                    "key",
                    New::map([("env", New::text("AWS_BEARER_TOKEN_BEDROCK"))]),
                );
                draft.note(
                    entry,
                    Grade::Approximate,
                    "no keys are written: AWS_BEARER_TOKEN_BEDROCK of the environment",
                );
                return Some(());
            }
            let env = |name: &str| New::map([("env", New::text(name))]);
            fields.push(("access_key_id".to_owned(), env("AWS_ACCESS_KEY_ID")));
            fields.push(("secret_access_key".to_owned(), env("AWS_SECRET_ACCESS_KEY")));
            if world.is_set("AWS_SESSION_TOKEN") {
                fields.push(("session_token".to_owned(), env("AWS_SESSION_TOKEN")));
            }
            const MESSAGE: &str = "no keys of AWS are written: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment; \
                                profiles and roles of the machine are not used";
            for spot in id.iter().chain(&key) {
                draft.note(
                    spot,
                    Grade::Manual,
                    "one of the two keys is missing: write both by hand",
                );
            }
            draft.note(entry, Grade::Approximate, MESSAGE);
        }
    }
    if let Some(token) = token {
        fields.push((
            "session_token".to_owned(),
            write_secret(&token, "-token", draft),
        ));
    }
    draft.set("aws", New::Map(fields));
    Some(())
}

/// Writes Vertex AI's project, location and service account.
pub(super) fn write_vertex(
    entry: &Spot<'_>,
    params: &mut Params<'_>,
    world: &World<'_>,
    draft: &mut Draft,
    lost: &mut Vec<Finding>,
) -> Option<()> {
    for (names, field, variables, default) in [
        (
            ["vertex_project", "vertex_ai_project"],
            "project",
            ["VERTEXAI_PROJECT", "GOOGLE_CLOUD_PROJECT"],
            None,
        ),
        (
            ["vertex_location", "vertex_ai_location"],
            "location",
            ["VERTEXAI_LOCATION", "VERTEX_LOCATION"],
            Some("us-central1"),
        ),
    ] {
        let written = names.iter().find_map(|name| params.take(name));
        let value = match &written {
            Some(spot) => {
                let read = if field == "location" {
                    world.region(spot)
                } else {
                    world.word(spot)
                };
                read.map_err(|unread| unread.leaves_out(spot))
            }
            None => {
                let set = variables
                    .iter()
                    .find_map(|name| world.variable(name))
                    .filter(|word| {
                        if field == "location" {
                            is_region(word)
                        } else {
                            is_word(word)
                        }
                    });
                let word = set.or_else(|| default.map(str::to_owned));
                word.ok_or_else(|| {
                    entry.finding(
                        Grade::Manual,
                        "",
                        format!(
                            "names no {field}, nor does the environment: the entry is left out"
                        ),
                    )
                })
            }
        };
        match value {
            Ok(word) => {
                match &written {
                    Some(spot) => draft.note(spot, Grade::Exact, ""),
                    None => draft.note(
                        entry,
                        Grade::Approximate,
                        format!("no {field} is written: {word}, as LiteLLM takes now"),
                    ),
                }
                if field == "location" && draft.wish == "vertex" {
                    draft.wish = format!("vertex-{word}");
                }
                draft.set(field, New::text(word));
            }
            Err(finding) => {
                lost.push(finding);
                return None;
            }
        }
    }
    match ["vertex_credentials", "vertex_ai_credentials"]
        .iter()
        .find_map(|name| params.take(name))
    {
        Some(spot) if spot.text().and_then(variable_of).is_some() => {
            let name = spot.text().and_then(variable_of).unwrap_or_default();
            const MESSAGE: &str =
                "the variable must hold the JSON key itself, not the name of a file";
            draft.note(&spot, Grade::Approximate, MESSAGE);
            draft.set("service_account", New::map([("env", New::text(name))]));
        }
        Some(spot) => {
            draft
                .literals
                .push(spot.text().unwrap_or_default().to_owned());
            const MESSAGE: &str =
                "put the service account's JSON key into the file that is named here";
            draft.note(&spot, Grade::Manual, MESSAGE);
            draft.set(
                "service_account",
                New::map([("file", New::text(format!("{SECRET_FILE}.json")))]),
            );
        }
        None => {
            const MESSAGE: &str = "no credentials are written, and Portcullis does not use those of the machine: put a service account's \
                                JSON key into the file that is named here";
            draft.note(entry, Grade::Manual, MESSAGE);
            draft.set(
                "service_account",
                New::map([("file", New::text(format!("{SECRET_FILE}.json")))]),
            );
        }
    }
    Some(())
}
