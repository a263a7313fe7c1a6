//! The catalog as written: what a file may say, field by field, and what the schema tells editors
//! about it.
//!
//! Nothing is filled in and nothing is looked up: a field that is not written is `None`, and a
//! reference is a name. [`resolve`](super::resolve) makes a [`Catalog`](super::Catalog) of it. The
//! doc comments of fields are shown by editors.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use dialects::{Protocol, upstream};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, EnumAccess, Error as _, VariantAccess as _, Visitor};
use serde_json::{Value, json};

use crate::address::Cidr;
use crate::secret::Secret;
use crate::secret_ref::{SecretRef, Tls};
use crate::units::{Decimal, Span, Text, Time, Written};
use crate::yaml::read::{Entries, List};

mod habits;
mod model;

pub use habits::{KIND, shows};
pub use model::{
    Defaults, Effort, FallbacksOn, Hedge, LongPrice, Model, OnBrokenCall, OnLoss, Price, Queue, Reasoning, Sampling,
    Target, Thinking, Traits,
};

/// What is served, to whom, and from where.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// Upstream accounts by name: an address and a credential each.
    pub accounts: Option<Entries<Account>>,
    /// Public model ids and how each is served.
    pub models: Option<Entries<Model>>,
    /// Who may call, with their keys.
    pub callers: Option<Entries<Caller>>,
}

/// An upstream account.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The wire format that it speaks. Default: that of its `preset`.
    pub dialect: Option<Dialect>,
    /// A known server that speaks `openai`: fills in `dialect`, `base_url` and `quirks`.
    /// `portcullis presets` lists them.
    pub preset: Option<String>,
    /// Of `openai`: what a server does differently, by its name: mistral, groq, vllm, …
    pub quirks: Option<String>,
    /// Where it is; by default where the dialect's inventor serves it. http: to what is neither
    /// this machine nor a private address needs `insecure: true`.
    pub base_url: Option<String>,
    /// Its credential: `{ env: NAME }`, `{ file: /path }`, or (with a warning) the secret itself.
    pub key: Option<SecretRef>,
    /// Of `azure`: a dated version, such as 2024-10-21, for the paths with deployments. Default:
    /// the v1 path, which needs none.
    pub api_version: Option<String>,
    /// Of `azure`: how `key` is sent. Default: api_key.
    pub auth: Option<Auth>,
    /// Of `vertex`: the project.
    pub project: Option<String>,
    /// Of `vertex`: the location, such as europe-west4 or global. Default: global.
    pub location: Option<String>,
    /// Of `vertex`: a service account's JSON key, of which short-lived tokens are made; instead of
    /// `key`.
    pub service_account: Option<SecretRef>,
    /// Of `bedrock`: the region, such as us-east-1.
    pub region: Option<String>,
    /// Of `bedrock`: keys that sign each request; instead of `key`.
    pub aws: Option<Aws>,
    /// Whether it takes requests. Default: true.
    pub enabled: Option<bool>,
    /// How many requests it may have in flight at once. Default: no cap.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u32>,
    /// Whether, when it is out after failures, Portcullis itself asks for one token to see if it is
    /// back; callers' requests are kept away until it is. Default: false, one caller's request
    /// finds out.
    pub probe: Option<bool>,
    /// How long to wait for it.
    pub timeouts: Option<Timeouts>,
    /// Headers that are sent with every request.
    pub headers: Option<Entries<HeaderText>>,
    /// Whether it may be asked for the usage of a stream: false for old servers that refuse
    /// `stream_options`. Default: true.
    pub stream_usage: Option<bool>,
    /// What a server reads that only imitates its dialect's inventor. Default: all of it.
    pub traits: Option<Server>,
    /// What callers may name that is then read with the account's own rights: `gs` and `s3` (files
    /// in storage, by URL), `files` (files that were uploaded to the account, by id),
    /// `data_sources` (Azure's). Default: nothing, and such a request is refused.
    pub caller_references: Option<List<CallerReference>>,
    /// Which URLs in requests go up, for the account's server to fetch. Default: public.
    pub media_urls: Option<MediaUrls>,
    /// How its certificate is checked.
    pub tls: Option<Tls>,
    /// Lets a key and prompts go over plain http: to a public address. Default: false.
    pub insecure: Option<bool>,
}

/// What an account's server reads of its dialect's newer fields.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Of `anthropic` and `bedrock`: whether it reads `output_config` (`outputConfig`). If not, a
    /// schema is had by a tool that must be called, and no effort is told in it. Default: true.
    pub output_config: Option<bool>,
    /// Of `gemini` and `vertex`: whether it reads `responseJsonSchema`. If not, the older
    /// `responseSchema` is sent. Default: true.
    pub response_json_schema: Option<bool>,
    /// Of `gemini` and `vertex`: whether it reads `parametersJsonSchema` of tools. If not, the
    /// older `parameters` is sent. Default: true.
    pub parameters_json_schema: Option<bool>,
}

/// A wire format, by its name.
#[derive(Clone, Copy)]
pub struct Dialect(pub &'static Protocol);

impl<'de> Deserialize<'de> for Dialect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("Dialect", &upstream::NAMES, DialectVisitor)
    }
}

struct DialectVisitor;

impl<'de> Visitor<'de> for DialectVisitor {
    type Value = Dialect;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a dialect")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Dialect, A::Error> {
        let (name, rest) = data.variant::<String>()?;
        rest.unit_variant()?;
        Protocol::find(&name).map(Dialect).ok_or_else(|| A::Error::unknown_variant(&name, &upstream::NAMES))
    }
}

impl JsonSchema for Dialect {
    fn schema_name() -> Cow<'static, str> {
        "Dialect".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one =
            |protocol: &&Protocol| json!({ "type": "string", "const": protocol.name, "description": protocol.about });
        let all: Vec<Value> = upstream::ALL.iter().map(one).collect();
        json_schema!({ "description": "A wire format.", "oneOf": all })
    }
}

/// What is read with an account's own rights.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum CallerReference {
    /// `gs://` URLs.
    Gs,
    /// `s3://` URLs.
    S3,
    /// Ids of uploaded files, and their addresses at the Gemini API.
    Files,
    /// Azure's `data_sources`.
    DataSources,
}

/// Which URLs in requests go up.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum MediaUrls {
    /// Those with `https:` and a host of the public internet; none where the account's own address
    /// is private or http:, since its server would fetch them from within your network.
    Public,
    /// All of them, as they are.
    Pass,
    /// None.
    Refuse,
}

/// How a key is sent to Azure.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// `api-key: …`
    ApiKey,
    /// `authorization: Bearer …`, for Entra's tokens.
    Bearer,
}

/// Keys of AWS.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aws {
    /// The access key's id.
    #[schemars(required)]
    pub access_key_id: Option<SecretRef>,
    /// The access key.
    #[schemars(required)]
    pub secret_access_key: Option<SecretRef>,
    /// The token of a temporary key.
    pub session_token: Option<SecretRef>,
}

/// How long to wait for an account. What a model says goes before what its accounts say, one by
/// one; the defaults are the accounts'.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// To an open connection, TLS included. Default: 5s.
    pub connect: Option<Text<Span>>,
    /// Streams: from the request's last byte to the answer's head. Default: 120s.
    pub first_byte: Option<Text<Span>>,
    /// Streams: from the request's last byte to the first event with something of the answer.
    /// Default: none.
    pub first_token: Option<Text<Span>>,
    /// Streams: between two bytes. Default: 60s.
    pub idle: Option<Text<Span>>,
    /// The whole exchange. Default: 600s, for streams 3600s; if written it holds for both.
    pub total: Option<Text<Span>>,
}

/// A header's value: as likely a secret as not.
pub struct HeaderText(pub Secret);

impl<'de> Deserialize<'de> for HeaderText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Secret::new(text)))
    }
}

impl JsonSchema for HeaderText {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
    fn inline_schema() -> bool {
        true
    }
}

/// Who may call.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// Whether its keys work. Default: true.
    pub enabled: Option<bool>,
    /// From when on its keys no longer work. Default: never.
    pub expires: Option<Text<Time>>,
    /// Globs over model ids: `*` any run of characters, `?` any one. Default: every model. `[]`:
    /// none.
    pub models: Option<List<String>>,
    /// What all its keys together may use. Default: no limit.
    pub limits: Option<Limits>,
    /// Whether its answers say what they cost, in US dollars, as `usage.cost`, where that is known.
    /// Default: false.
    pub expose_cost: Option<bool>,
    /// Its keys by name; may be spread over several files.
    pub keys: Option<Entries<Key>>,
}

/// How much may be used. A minute is the last sixty seconds; days and months are UTC's.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Chat completions that begin within a minute.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u64>,
    /// Chat completions that begin on a day.
    #[schemars(range(min = 1))]
    pub requests_per_day: Option<u64>,
    /// Tokens, read and written, of those that begin within a minute.
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<u64>,
    /// Tokens, read and written, of those that begin on a day.
    #[schemars(range(min = 1))]
    pub tokens_per_day: Option<u64>,
    /// Chat completions at once.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u64>,
    /// What those that begin on a day may cost, in US dollars. Every model that is used must have a
    /// price.
    pub usd_per_day: Option<Decimal>,
    /// The same on a month.
    pub usd_per_month: Option<Decimal>,
}

/// A key, known by its hash only.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// `sha256:` and 64 hex digits, as `portcullis key new` writes it and `portcullis key hash`
    /// prints it.
    pub hash: Option<Text<Digest>>,
    /// Several, while the key is being rotated; instead of `hash`.
    #[schemars(length(min = 1))]
    pub hashes: Option<List<HashUntil>>,
    /// Globs over model ids, within those of the caller. Default: all that the caller may use.
    /// `[]`: none.
    pub models: Option<List<String>>,
    /// What it may use, within what its caller may. Default: no limit of its own.
    pub limits: Option<Limits>,
    /// What it may use of single models, by their ids, besides.
    pub model_limits: Option<Entries<Limits>>,
    /// From when on it no longer works. Default: never.
    pub expires: Option<Text<Time>>,
    /// From where it may be used. Default: from everywhere.
    #[schemars(length(min = 1))]
    pub allow_ips: Option<List<Text<Cidr>>>,
    /// Whether it works. Default: true.
    pub enabled: Option<bool>,
    /// Whether it may ask for the trail of attempts, account names included. Default: false.
    pub debug: Option<bool>,
}

/// One of several hashes of a key.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HashUntil {
    /// `sha256:` and 64 hex digits.
    #[schemars(required)]
    pub hash: Option<Text<Digest>>,
    /// From when on this one no longer works. Default: never.
    pub until: Option<Text<Time>>,
}

/// A SHA-256, written `sha256:` and 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl FromStr for Digest {
    type Err = String;

    /// The message never repeats the text: a key in clear text is the likeliest mistake here.
    fn from_str(text: &str) -> Result<Self, String> {
        let hex = |text: &str| -> Option<[u8; 32]> {
            let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
            let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
            let bytes =
                pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect::<Option<Vec<u8>>>()?;
            bytes.try_into().ok()
        };
        match text.strip_prefix("sha256:") {
            Some(rest) => {
                hex(rest).map(Self).ok_or_else(|| "must have exactly 64 hex digits after `sha256:`".to_owned())
            }
            None if hex(text).is_some() => Err("must begin with `sha256:`".to_owned()),
            None => Err(
                "must be `sha256:` and 64 hex digits. If it is the key itself: a key never stands here in clear text; \
                         give it to `portcullis key hash` and write what that prints"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Written for Digest {
    const NAME: &str = "Hash";
    const PATTERN: &str = "^sha256:[0-9a-fA-F]{64}$";
    const MEANING: &str = "The SHA-256 of a key: `sha256:` and 64 hex digits.";
}
