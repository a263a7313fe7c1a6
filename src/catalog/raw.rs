//! The catalog as written: what a file may say, field by field, and what the schema tells editors
//! about it.
//!
//! Nothing is filled in and nothing is looked up: a field that is not written is `None`, and a
//! reference is a name. [`resolve`](super::resolve) makes a [`Catalog`](super::Catalog) of it. The
//! doc comments of fields are shown by editors.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use dialects::Protocol;
use dialects::upstream::{self, BaseUrl};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, EnumAccess, Error as _, VariantAccess as _, Visitor};
use serde_json::{Value, json};

use crate::base::address::Cidr;
use crate::base::secret::Secret;
use crate::base::units::{Decimal, Span, Text, Time, Written};
use crate::conf::secret_ref::{SecretRef, Tls};
use crate::conf::yaml::read::{Entries, List};
use crate::limits::Reserve;

mod account_identity;
mod habits;
mod identity;
mod model;

pub use account_identity::{AccountIdentity, AzureCloud, IdentityFields, IdentityFrom};
pub use habits::{CREDENTIAL_HEADERS, KIND, OWN_HEADERS};
pub use identity::{ClaimCallers, ClaimRef, ClaimValue, Identity, JwksRef, Several, Split};
pub use model::{Defaults, FallbacksOn, Hedge, LongPrice, Model, Price, Queue, Target, Traits};

/// The accounts, the models and the callers. A change is usually live within a second.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// Upstream accounts by name: each is an address and a credential.
    pub accounts: Option<Entries<Account>>,
    /// Public model ids, as callers write them, and how each is served. An id may hold slashes. An
    /// id with one `*`, such as `openai/*`, serves all models that its accounts' providers list.
    pub models: Option<Entries<Model>>,
    /// Who may call, with their keys.
    pub callers: Option<Entries<Caller>>,
    /// Issuers whose tokens (JWT) callers may send in place of a key, by name. Default: none.
    pub identities: Option<Entries<Identity>>,
}

/// An upstream account.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The wire format that the account speaks. Default: the dialect of its `preset`; without a
    /// preset it must be written.
    pub dialect: Option<Dialect>,
    /// A known server that speaks `openai`. It fills in `dialect`, `base_url` and `quirks`;
    /// `portcullis presets` lists all of them. Default: none.
    pub preset: Option<String>,
    /// Only `openai`: the name of a known server, such as mistral, groq or vllm, whose deviations
    /// from the standard this account has too. Default: the quirks of its `preset`, else none.
    pub quirks: Option<String>,
    /// The address, with its version. `http:` is allowed to this machine and to private addresses;
    /// for any other host write `insecure: true` too. Default: the address of the dialect's own
    /// provider; `azure` has none and must write it.
    pub base_url: Option<String>,
    /// The credential: `{ env: NAME }`, `{ file: /path }`, or (with a warning) the secret itself.
    /// Leave it out if the server needs no credential. Default: none.
    pub key: Option<SecretRef>,
    /// Only `azure`: a dated version, such as 2024-10-21, which selects the paths with deployments.
    /// Default: none, which selects the v1 path.
    pub api_version: Option<String>,
    /// Only `azure`: how `key` is sent. Default: api_key.
    pub auth: Option<Auth>,
    /// Only `vertex`, which must have it: the project. Default: none.
    pub project: Option<String>,
    /// Only `vertex`: the location, such as europe-west4 or global. Default: global.
    pub location: Option<String>,
    /// Only `vertex`: a service account's JSON key, from which short-lived tokens are made. It
    /// replaces `key`. Default: none.
    pub service_account: Option<SecretRef>,
    /// Only `azure` and `vertex`: who gives the account tokens, in place of `key`: one word, such
    /// as `workload`, `managed` or `metadata`, or a map. Default: none.
    pub identity: Option<AccountIdentity>,
    /// Only `bedrock`, which must have it: the region, such as us-east-1. Default: none.
    pub region: Option<String>,
    /// Only `bedrock`: keys that sign each request, or who gives them. They replace `key`.
    pub aws: Option<Aws>,
    /// Whether the account takes requests. If not, its secrets are not read. Default: true.
    pub enabled: Option<bool>,
    /// The most requests in flight at the account at once. Default: no cap.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u32>,
    /// Whether Portcullis itself tests the account after failures, with a request for one token.
    /// The account gets no requests of callers until a test succeeds. With `false` a caller's
    /// request is sent now and then as the test. Default: false.
    pub probe: Option<bool>,
    /// Whether the account gets `traceparent`, and `tracestate` if the caller sends it. A server
    /// that traces its own work, such as vLLM, then adds it to the request's trace. This needs
    /// `traces` in server.yaml. Default: false.
    pub trace: Option<bool>,
    /// How long to wait for the account. Each key that a model sets overrides the account's.
    pub timeouts: Option<Timeouts>,
    /// Only for dialects that have several kinds of endpoint: all kinds that the server has, such
    /// as `chat`, `responses`, `completions` or `rerank`. Default: the usual kinds of the dialect's
    /// servers; for conversations, chat and responses at OpenAI's own address and at Azure's v1
    /// path, else chat.
    pub serves: Option<List<String>>,
    /// Headers that are sent with every request, by name.
    #[schemars(with = "Option<Entries<String>>")]
    pub headers: Option<Entries<Secret>>,
    /// Whether the account is asked for the usage of a stream. Write `false` for an old server that
    /// refuses `stream_options`. Default: true.
    pub stream_usage: Option<bool>,
    /// Which newer fields the server reads, if it only imitates the provider of its dialect.
    pub traits: Option<ServerTraits>,
    /// Which references callers' requests may hold that the provider reads with the rights of this
    /// account. A request with another such reference is not sent to the account. Default: nothing.
    pub caller_references: Option<List<CallerReference>>,
    /// Which URLs of pictures, sounds and files in a request are passed on, for the account's
    /// server to fetch. A request with another URL is not sent to the account. Default: public.
    pub media_urls: Option<MediaUrls>,
    /// How the account's certificate is checked. Certificates are always checked.
    pub tls: Option<Tls>,
    /// Whether the key and prompts may go over plain `http:` to a public address, to a name that
    /// may be one, or through a proxy. Default: false.
    pub insecure: Option<bool>,
    /// The HTTP proxy through which the account is reached, also for its tokens and its list of
    /// models: `http://proxy.example.com:3128`, or `https://…` for TLS to the proxy. If the URL has
    /// a password in it, `{ env: NAME }` or `{ file: /path }` is safer. `none` means no proxy.
    /// Default: the proxy of `upstream_proxy` in server.yaml.
    pub proxy: Option<SecretRef>,
}

/// What an account's server reads of its dialect's newer fields.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Server")]
pub struct ServerTraits {
    /// Only `anthropic` and `bedrock`: whether the server reads `output_config` (`outputConfig`).
    /// If not, Portcullis sends a schema as a tool that the model must call, and sends no effort.
    /// Default: true.
    pub output_config: Option<bool>,
    /// Only `gemini` and `vertex`: whether the server reads `responseJsonSchema`. If not, the older
    /// `responseSchema` is sent. Default: true.
    pub response_json_schema: Option<bool>,
    /// Only `gemini` and `vertex`: whether the server reads `parametersJsonSchema` of tools. If
    /// not, the older `parameters` is sent. Default: true.
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
        Protocol::find(&name)
            .map(Dialect)
            .ok_or_else(|| A::Error::unknown_variant(&name, &upstream::NAMES))
    }
}

impl JsonSchema for Dialect {
    fn schema_name() -> Cow<'static, str> {
        "Dialect".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let all: Vec<Value> = upstream::ALL
            .iter()
            .map(|protocol| {
                let about = match protocol.base_url {
                    BaseUrl::Fixed(url) => format!("{} Base URL: `{url}`.", protocol.about),
                    BaseUrl::Nowhere | BaseUrl::Own | BaseUrl::PerRegion { .. } => {
                        protocol.about.to_owned()
                    }
                };
                json!({ "type": "string", "const": protocol.name, "description": about })
            })
            .collect();
        json_schema!({ "description": "A wire format.", "oneOf": all })
    }
}

/// A kind of reference in a request that the provider reads with the account's own rights.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum CallerReference {
    /// `gs://` URLs, which Google reads with the service account.
    Gs,
    /// `s3://` URLs, which a server with keys for Amazon's storage reads.
    S3,
    /// Files that were uploaded to the account: a `file_id`, an address at the Gemini API's host,
    /// `cached_content`.
    Files,
    /// Azure's `data_sources`, which Azure reads with the resource's identity.
    DataSources,
}

/// Which URLs in a request are passed on.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum MediaUrls {
    /// Those with `https:` and a host of the public internet. An account whose own address is
    /// private or `http:` gets none, since its server would fetch them from within your network.
    Public,
    /// All of them, unchanged: also private hosts, `http:`, other schemes and paths.
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

/// The keys of AWS that sign each request: either they are written, or `from` says who gives them.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aws {
    /// The id of the access key. Default: none.
    pub access_key_id: Option<SecretRef>,
    /// The secret of the access key. Default: none.
    pub secret_access_key: Option<SecretRef>,
    /// The token of a temporary key. Default: none.
    pub session_token: Option<SecretRef>,
    /// Who gives temporary keys, in place of `access_key_id`. No other source is tried if this one
    /// fails. Default: none.
    pub from: Option<AwsFrom>,
    /// Only `web_identity`: the ARN of the role. Default: the environment variable AWS_ROLE_ARN.
    pub role: Option<String>,
    /// Only `web_identity`: the full path of the file with the token. Default: the environment
    /// variable AWS_WEB_IDENTITY_TOKEN_FILE.
    pub token_file: Option<String>,
    /// Only `web_identity`: the name of the session, which AWS's logs show. Default: the
    /// environment variable AWS_ROLE_SESSION_NAME, else portcullis.
    pub session_name: Option<String>,
    /// The address of AWS's token service, for `web_identity` and `assume`. Default: that of the
    /// region, `https://sts.REGION.amazonaws.com`.
    pub sts_url: Option<String>,
    /// Only `instance`: the address of the metadata service. Default: `http://169.254.169.254`.
    pub metadata_url: Option<String>,
    /// A role that is taken on with these keys, whatever gives them. Default: none.
    pub assume: Option<AwsAssume>,
}

/// Who gives temporary keys of AWS.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum AwsFrom {
    /// AWS's token service, for the token in `token_file`: IAM roles for service accounts (IRSA).
    WebIdentity,
    /// The service of the container, as ECS and EKS Pod Identity set it up with environment
    /// variables that begin with AWS_CONTAINER_.
    Container,
    /// The metadata service of the machine, by version 2 of its protocol.
    Instance,
}

/// A role of AWS that is taken on.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwsAssume {
    /// The ARN of the role.
    #[schemars(required)]
    pub role: Option<String>,
    /// The external id that the role's owner wants. Default: none.
    pub external_id: Option<String>,
    /// The name of the session, which AWS's logs show. Default: portcullis.
    pub session_name: Option<String>,
    /// The region whose token service is asked. Default: the account's `region`.
    pub region: Option<String>,
}

/// How long to wait. Each key that a model sets overrides the key of its accounts. The defaults
/// apply to accounts.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// From the start to an open connection, TLS included, over all addresses of the host. Default:
    /// 5s.
    pub connect: Option<Text<Span>>,
    /// Only streams: from the request's last byte to the head of the answer. Default: 120s.
    pub first_byte: Option<Text<Span>>,
    /// Only streams: from the request's last byte to the first event with something of the answer.
    /// Default: none.
    pub first_token: Option<Text<Span>>,
    /// Only streams: from one read to the next. Also the longest pause of an upload. Default: 60s.
    pub idle: Option<Text<Span>>,
    /// The whole request, all attempts together. A caller can shorten it with the header
    /// `x-portcullis-timeout`. If it is written, it holds for streams too, unless `total_stream` is
    /// written. Default: 600s, and 3600s for streams.
    pub total: Option<Text<Span>>,
    /// Only streams: the whole request, in place of `total`. Default: `total`, or 3600s.
    pub total_stream: Option<Text<Span>>,
}

/// Who may call: a team or an app.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// Whether its keys work. Default: true.
    pub enabled: Option<bool>,
    /// The time at which all keys of the caller expire. Default: never.
    pub expires: Option<Text<Time>>,
    /// Globs over the ids of models that the caller may use: `*` matches any characters, `?`
    /// matches one. `[]` means no model. Default: every model.
    pub models: Option<List<String>>,
    /// What all its keys together may use.
    pub limits: Option<Limits>,
    /// Whether the caller's answers have their cost in US dollars as `usage.cost`, if it is known.
    /// Default: false.
    pub expose_cost: Option<bool>,
    /// Its keys by name. They may be spread over several files.
    pub keys: Option<Entries<Key>>,
}

/// How much may be used. A minute is the last sixty seconds; days and months are in UTC.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The most chat completions that begin within a minute. Default: no limit.
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u64>,
    /// The most chat completions that begin on one day. Default: no limit.
    #[schemars(range(min = 1))]
    pub requests_per_day: Option<u64>,
    /// The most tokens, read and written, of chat completions that begin within a minute. Default:
    /// no limit.
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<u64>,
    /// The most tokens, read and written, of chat completions that begin on one day. Default: no
    /// limit.
    #[schemars(range(min = 1))]
    pub tokens_per_day: Option<u64>,
    /// The most chat completions at once. Default: no limit.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u64>,
    /// The most US dollars that the chat completions which begin on one day may cost. Every model
    /// that may be used must have a price. Default: no limit.
    pub usd_per_day: Option<Decimal>,
    /// The same for one month. Default: no limit.
    pub usd_per_month: Option<Decimal>,
    /// How many tokens a request reserves for its answer. Default: usual.
    pub reserve: Option<Reserve>,
}

/// A key. The catalog has only its hash. It can do at most what its caller can.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// `sha256:` and 64 hex digits, as `portcullis key new` writes it and `portcullis key hash`
    /// prints it. Each key has `hash` or `hashes`. Default: none.
    pub hash: Option<Text<Digest>>,
    /// Several hashes, while the key is being rotated. They stand in place of `hash`. Default:
    /// none.
    #[schemars(length(min = 1))]
    pub hashes: Option<List<HashUntil>>,
    /// Globs over the ids of models that the key may use, out of those that its caller may use.
    /// `[]` means no model. Default: all that the caller may use.
    pub models: Option<List<String>>,
    /// How much the key may use, within the limits of its caller.
    pub limits: Option<Limits>,
    /// How much the key may use of single models, by their ids, within the key's own limits.
    pub model_limits: Option<Entries<Limits>>,
    /// The time at which the key expires. Default: never.
    pub expires: Option<Text<Time>>,
    /// The addresses and ranges from which it may be used, such as 10.0.0.0/8. Default: all.
    #[schemars(length(min = 1))]
    pub allow_ips: Option<List<Text<Cidr>>>,
    /// Whether it works. Default: true.
    pub enabled: Option<bool>,
    /// Whether answers to this key list the attempts, with the names of accounts, and how long each
    /// step took. Default: false.
    pub debug: Option<bool>,
}

/// One of several hashes of a key.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HashUntil {
    /// `sha256:` and 64 hex digits.
    #[schemars(required)]
    pub hash: Option<Text<Digest>>,
    /// The time at which this hash expires. Default: never.
    pub until: Option<Text<Time>>,
}

/// A SHA-256, written `sha256:` and 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl FromStr for Digest {
    type Err = String;

    /// Reads a digest. The message never repeats the text: a key in clear text is the likeliest
    /// mistake here.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("sha256:") {
            Some(rest) => {
                read_hex(rest).map(Self).ok_or_else(|| "must have exactly 64 hex digits after `sha256:`".to_owned())
            }
            None if read_hex(text).is_some() => Err("must begin with `sha256:`".to_owned()),
            None => Err("must be `sha256:` and 64 hex digits. Never write a key in clear text here: give the \
                         key to `portcullis key hash`, and write the hash that it prints"
                .to_owned()),
        }
    }
}

fn read_hex(text: &str) -> Option<[u8; 32]> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let digit = |b: u8| u8::try_from(char::from(b).to_digit(16)?).ok();
    let bytes = pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect::<Option<Vec<u8>>>()?;
    bytes.try_into().ok()
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
