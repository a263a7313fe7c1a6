//! `identity` of an account, as written: the source of its tokens.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, MapAccess, Visitor};

use crate::conf::secret_ref::SecretRef;

/// Who gives an account tokens. It may be written as one word, which is `from`.
#[derive(Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IdentityMap")]
pub struct IdentityFields {
    /// Who gives the tokens. No other source is tried if this one fails. Default: the
    /// `service_account` of an account of `vertex`; else it must be written.
    pub from: Option<IdentityFrom>,
    /// Only `azure`: the id of the tenant. Default: the environment variable AZURE_TENANT_ID.
    pub tenant: Option<String>,
    /// Only `azure`: the client id of the application, or of a user-assigned managed identity.
    /// Default: the environment variable AZURE_CLIENT_ID; for `managed` the system-assigned one.
    pub client_id: Option<String>,
    /// Only `client_secret`: the secret. Default: the environment variable AZURE_CLIENT_SECRET.
    pub client_secret: Option<SecretRef>,
    /// Only `client_certificate`: the certificate and its private key, both in PEM. Default: the
    /// file that the environment variable AZURE_CLIENT_CERTIFICATE_PATH names.
    pub certificate: Option<SecretRef>,
    /// Only `workload`: the full path of the file with the token. Default: the environment variable
    /// AZURE_FEDERATED_TOKEN_FILE.
    pub token_file: Option<String>,
    /// Only `azure`: the cloud. Default: public.
    pub cloud: Option<AzureCloud>,
    /// Only `azure`, but not `managed`: the address of Microsoft Entra. Default: the environment
    /// variable AZURE_AUTHORITY_HOST, else that of the cloud.
    pub authority_url: Option<String>,
    /// Only `managed` and `metadata`: the address of the metadata service. Default: that of the
    /// cloud.
    pub metadata_url: Option<String>,
    /// Only `external_account`: the file that `gcloud iam workload-identity-pools
    /// create-cred-config` writes. Default: the environment variable
    /// GOOGLE_APPLICATION_CREDENTIALS.
    pub file: Option<String>,
    /// Only `vertex`: the email of the service account that is impersonated. Default: none.
    pub impersonate: Option<String>,
    /// Only with `impersonate`: the address of Google's service for it. Default:
    /// `https://iamcredentials.googleapis.com`.
    pub impersonate_url: Option<String>,
}

/// Who gives an account tokens.
pub struct AccountIdentity(pub IdentityFields);

/// A source of tokens.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum IdentityFrom {
    /// Only `azure`: Microsoft Entra, for the token of a workload in Kubernetes (AKS).
    Workload,
    /// Only `azure`: the managed identity of the machine, or of an App Service.
    Managed,
    /// Only `azure`: Microsoft Entra, for an application's secret.
    ClientSecret,
    /// Only `azure`: Microsoft Entra, for an application's certificate.
    ClientCertificate,
    /// Only `vertex`: the metadata service of the machine or the pod (GKE, Cloud Run).
    Metadata,
    /// Only `vertex`: Google, for the identity of another cloud (workload identity federation).
    ExternalAccount,
}

/// A cloud of Microsoft's.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum AzureCloud {
    /// The public one.
    Public,
    /// The one of the government of the United States.
    UsGovernment,
    /// The one in China.
    China,
}

impl<'de> Deserialize<'de> for AccountIdentity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdentityVisitor)
    }
}

struct IdentityVisitor;

impl<'de> Visitor<'de> for IdentityVisitor {
    type Value = AccountIdentity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a source, or a map with `from`")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<AccountIdentity, E> {
        let from = IdentityFrom::deserialize(word.into_deserializer())?;
        Ok(AccountIdentity(IdentityFields {
            from: Some(from),
            ..IdentityFields::default()
        }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AccountIdentity, A::Error> {
        IdentityFields::deserialize(MapAccessDeserializer::new(map)).map(AccountIdentity)
    }
}

impl JsonSchema for AccountIdentity {
    fn schema_name() -> Cow<'static, str> {
        "AccountIdentity".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let word = generator.subschema_for::<IdentityFrom>();
        let fields = generator.subschema_for::<IdentityFields>();
        json_schema!({ "anyOf": [word, fields] })
    }
}
