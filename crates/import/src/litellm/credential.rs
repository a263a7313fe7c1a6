//! The credential of an account, and the other fields that identify it: region, project, version.

use super::account::{Drafting, env_reference, secret_file};
use super::merged_config::{Check, is_region, is_word, variable_name};
use super::node::{Lost, Spot};
use crate::notes::Grade;
use crate::write::Fields;

/// A word of an account, and where LiteLLM finds it.
struct Word {
    /// Its noun in messages.
    noun: &'static str,
    /// The parameters that may have it.
    params: &'static [&'static str],
    /// The environment variables that may have it, if no parameter has.
    variables: &'static [&'static str],
    /// The word that LiteLLM takes if it is nowhere.
    default: Option<&'static str>,
    is_right: Check,
}

const VERSION: Word = Word {
    noun: "version",
    params: &["api_version"],
    variables: &["AZURE_API_VERSION"],
    default: Some("2025-02-01-preview"),
    is_right: is_word,
};

const REGION: Word = Word {
    noun: "region",
    params: &["aws_region_name", "region_name"],
    variables: &["AWS_REGION_NAME", "AWS_REGION", "AWS_DEFAULT_REGION"],
    default: Some("us-west-2"),
    is_right: is_region,
};

const PROJECT: Word = Word {
    noun: "project",
    params: &["vertex_project", "vertex_ai_project"],
    variables: &["VERTEXAI_PROJECT", "GOOGLE_CLOUD_PROJECT"],
    default: None,
    is_right: is_word,
};

const LOCATION: Word = Word {
    noun: "location",
    params: &["vertex_location", "vertex_ai_location"],
    variables: &["VERTEXAI_LOCATION", "VERTEX_LOCATION"],
    default: Some("us-central1"),
    is_right: is_region,
};

/// The keys of AWS, each with the end of a file's name. LiteLLM's parameter is `aws_` and the
/// field, and the variable is the parameter in capitals.
const AWS_KEYS: [(&str, &str); 3] = [
    ("access_key_id", "-id"),
    ("secret_access_key", "-secret"),
    ("session_token", "-token"),
];

impl Drafting<'_, '_> {
    fn read_word(&mut self, word: &Word) -> Result<String, Lost> {
        if let Some(spot) = self.take_first(word.params) {
            let found = self.config.word(&spot, word.is_right)?;
            spot.report_exact();
            return Ok(found);
        }
        let mut variables = word.variables.iter();
        let found = variables.find_map(|name| self.config.variable(name));
        let found = found.filter(|found| (word.is_right)(found));
        let (noun, entry) = (word.noun, &self.entry.name);
        let Some(found) = found.or_else(|| word.default.map(str::to_owned)) else {
            let why = format!("names no {noun}, nor does the environment");
            return Err(entry.lost(Grade::Manual, why));
        };
        entry.report_approximate(format!(
            "no {noun} is written: {found}, as LiteLLM takes now"
        ));
        Ok(found)
    }

    /// Writes Azure's `api_version`.
    pub(super) fn write_version(&mut self) {
        let written = self.entry.params.get("api_version").cloned();
        match (self.read_word(&VERSION), written) {
            // These words stand for the path without a version.
            (Ok(version), Some(_)) if ["v1", "latest", "preview"].contains(&&*version) => {}
            (Ok(version), _) => self.set("api_version", version),
            (Err(_), Some(spot)) => {
                spot.report_manual("cannot be read: write `api_version` by hand")
            }
            (Err(_), None) => {}
        }
    }

    /// Writes the credential of accounts that have one key.
    pub(super) fn write_key(&mut self) {
        if self.write_own_key() {
            return;
        }
        let keys = self.row.litellm.keys;
        let set = keys.iter().find(|name| self.config.is_set(name));
        if let Some(name) = set.or(keys.first()) {
            self.set("key", env_reference(name));
            let message =
                format!("no `api_key` is written: {name} of the environment, as LiteLLM does");
            self.entry.name.report_approximate(message);
        }
    }

    /// Writes the key that the entry has. Returns whether it has one.
    fn write_own_key(&mut self) -> bool {
        let spot = self.take_filled("api_key");
        let key = spot.map(|spot| self.secret(&spot, ""));
        let is_written = key.is_some();
        self.draft.fields.set_some("key", key);
        is_written
    }

    /// Writes Bedrock's region and keys.
    pub(super) fn write_bedrock(&mut self) -> Result<(), Lost> {
        const BEARER: &str = "AWS_BEARER_TOKEN_BEDROCK";
        const NO_KEYS: &str = "no keys of AWS are written: those of the environment, never profiles and roles of the machine";
        let region = self.read_word(&REGION)?;
        if self.draft.wanted_name == "bedrock" {
            self.draft.wanted_name = format!("bedrock-{region}");
        }
        self.set("region", region);
        if self.write_own_key() {
            return Ok(());
        }
        let written = AWS_KEYS.map(|(field, _)| self.take(&format!("aws_{field}")));
        let is_whole = matches!(written, [Some(_), Some(_), _]);
        if !is_whole && self.config.is_set(BEARER) {
            self.set("key", env_reference(BEARER));
            let message = format!("no keys are written: {BEARER} of the environment");
            self.entry.name.report_approximate(message);
            for spot in written.iter().flatten() {
                spot.report_approximate(format!(
                    "is not used, as {BEARER} of the environment goes before a part of the keys"
                ));
            }
            return Ok(());
        }
        let mut fields = Fields::default();
        for ((field, end), spot) in AWS_KEYS.into_iter().zip(written) {
            let variable = format!("aws_{field}").to_ascii_uppercase();
            let is_token = field == "session_token";
            match spot {
                Some(spot) if is_whole || is_token => fields.set(field, self.secret(&spot, end)),
                None if is_token && (is_whole || !self.config.is_set(&variable)) => {}
                lone => {
                    if let Some(spot) = lone {
                        spot.report_manual("one of the two keys is missing: write both by hand");
                    }
                    fields.set(field, env_reference(&variable));
                }
            }
        }
        if !is_whole {
            self.entry.name.report_approximate(NO_KEYS);
        }
        self.draft.fields.set_some("aws", fields.map());
        Ok(())
    }

    /// Writes Vertex AI's project, location and service account.
    pub(super) fn write_vertex(&mut self) -> Result<(), Lost> {
        let project = self.read_word(&PROJECT)?;
        self.set("project", project);
        let location = self.read_word(&LOCATION)?;
        if self.draft.wanted_name == "vertex" {
            self.draft.wanted_name = format!("vertex-{location}");
        }
        self.set("location", location);
        let written = self.take_first(&["vertex_credentials", "vertex_ai_credentials"]);
        let text = written.as_ref().and_then(Spot::text).unwrap_or_default();
        let account = match (&written, variable_name(text)) {
            (Some(spot), Some(name)) => {
                spot.report_approximate(
                    "the variable must hold the JSON key itself, not the name of a file",
                );
                env_reference(name)
            }
            (Some(spot), None) => {
                spot.report_manual(
                    "put the service account's JSON key into the file that is named here",
                );
                self.draft.literals.push(text.to_owned());
                secret_file(".json")
            }
            (None, _) => {
                const MESSAGE: &str = "no credentials are written, and those of the machine are not used: put a service account's JSON key into the file that is named here";
                self.entry.name.report_manual(MESSAGE);
                secret_file(".json")
            }
        };
        self.set("service_account", account);
        Ok(())
    }
}
