//! A reference names what a file of the configuration does not hold: a secret in an environment
//! variable or in a file, or a file of certificates.
//!
//! This module does not look anything up. The reader of the configuration passes a function for
//! that, [`LookUp`].

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::base::secret::Secret;

pub mod placeholder;

/// Something that the files name but do not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reference<'a> {
    /// A secret in an environment variable.
    Env(&'a str),
    /// An environment variable that may hold a secret, and is empty if it is not set.
    Optional(&'a str),
    /// A secret in a file.
    File(&'a str),
    /// A file of certificates.
    Ca(&'a str),
    /// A file with the public keys of an issuer of tokens.
    Keys(&'a str),
}

/// Stands in for a secret that is not read.
pub const STAND_IN: &str = "assumed";

impl Reference<'_> {
    /// Returns what stands in for what is named, where nothing is read.
    pub fn stand_in(self) -> &'static str {
        match self {
            Self::Env(_) | Self::Optional(_) | Self::File(_) | Self::Keys(_) => STAND_IN,
            Self::Ca(_) => "-----BEGIN CERTIFICATE-----",
        }
    }
}

/// Finds what a reference names, or says why not. The error is shown, so it never holds what was
/// found.
pub type LookUp<'l> = dyn FnMut(Reference<'_>) -> Result<String, String> + 'l;

/// A secret, or where it is.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// Written out.
    Literal(Secret),
    /// In an environment variable.
    Env(String),
    /// In a file.
    File(String),
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum From {
            Env,
            File,
        }

        struct Reference;
        impl<'de> Visitor<'de> for Reference {
            type Value = SecretRef;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{ env: NAME } or { file: /path }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SecretRef, E> {
                Ok(SecretRef::Literal(Secret::new(text)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SecretRef, A::Error> {
                const ONE: &str = "must have one field: { env: NAME } or { file: /path }";
                let first = map.next_key()?;
                let reference = match first.ok_or_else(|| de::Error::custom(ONE))? {
                    From::Env => SecretRef::Env(map.next_value()?),
                    From::File => SecretRef::File(map.next_value()?),
                };
                if map.next_key::<From>()?.is_some() {
                    Err(de::Error::custom(ONE))
                } else {
                    Ok(reference)
                }
            }
        }
        deserializer.deserialize_any(Reference)
    }
}

impl JsonSchema for SecretRef {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Secret")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                schema_with("env", "The environment variable that holds the secret."),
                schema_with("file", "The file that holds the secret. A line end at the end of the file is not part of \
                               the secret. Relative paths start at the configuration folder."),
                { "type": "string", "minLength": 1, "description": "The secret itself, in clear text. `check` warns about it." }
            ]
        })
    }
}

/// Returns the schema of a map with this field only.
fn schema_with(field: &str, meaning: &str) -> Schema {
    json_schema!({
        "type": "object",
        "properties": { field: { "type": "string", "minLength": 1, "description": meaning } },
        "required": [field],
        "additionalProperties": false
    })
}

/// How the certificate of a server is checked.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// A file of certificates (PEM) to trust besides the system's. A certificate that is no
    /// authority's, or that names a host, is a pin: only this certificate is trusted, and the
    /// system's authorities are not. A relative path starts at the configuration folder.
    #[schemars(required)]
    pub ca: Option<String>,
}
