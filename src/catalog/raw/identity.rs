//! An identity as written: an issuer of tokens, and the callers to whom its tokens belong.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::json;

use super::Limits;
use crate::base::address::Cidr;
use crate::base::units::{Days, Span, Text};
use crate::conf::secret_ref::{SecretRef, Tls};
use crate::conf::yaml::read::{Entries, List, SCALAR};

/// An issuer whose tokens (JWT) callers may send in place of a key.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The issuer, exactly as its tokens have it in `iss`. Without `jwks` its keys are found by
    /// OpenID's discovery: at this URL with `/.well-known/openid-configuration` behind it.
    #[schemars(required)]
    pub issuer: Option<String>,
    /// The issuer's keys: a URL, or `{ file: /path }`. Default: those of discovery.
    pub jwks: Option<JwksRef>,
    /// How the certificates of the issuer's servers are checked.
    pub tls: Option<Tls>,
    /// A token that the gateway sends when it fetches the issuer's keys: `{ file: /path }` or
    /// `{ env: NAME }`. A Kubernetes API server asks for one. Default: none.
    pub bearer: Option<SecretRef>,
    /// The HTTP proxy through which the keys are fetched, or `none`. Default: the proxy of
    /// `upstream_proxy` in server.yaml.
    pub proxy: Option<SecretRef>,
    /// What tokens must have in `aud`: tokens for other services of the issuer are refused.
    #[schemars(required)]
    pub audience: Option<String>,
    /// What tokens must have in `typ`. Default: `typ` is not looked at.
    pub typ: Option<String>,
    /// The claim that names the person or the machine: a name, or a list of steps. It names the key
    /// in logs, in the ledger and in limits. Default: sub.
    pub subject: Option<ClaimRef>,
    /// The callers to whom tokens belong, by a claim.
    pub callers: Option<ClaimCallers>,
    /// The caller to whom all tokens belong. It stands in place of `callers`. Default: none.
    pub caller: Option<String>,
    /// Claims that tokens must have with exactly these values, such as `email_verified: true`.
    pub require: Option<Entries<ClaimValue>>,
    /// How much each subject may use, within the limits of its caller.
    pub limits: Option<Limits>,
    /// How much each subject may use of single models, by their ids, within `limits`.
    pub model_limits: Option<Entries<Limits>>,
    /// Subjects whose tokens are refused. Capitals do not count. Default: none.
    pub deny: Option<List<String>>,
    /// The addresses and ranges from which its tokens may be used, such as 10.0.0.0/8. Default:
    /// all.
    #[schemars(length(min = 1))]
    pub allow_ips: Option<List<Text<Cidr>>>,
    /// The longest life of a token. Default: 24h.
    pub max_age: Option<Text<Span>>,
    /// How long the last keys of an issuer are used while the issuer cannot be reached. Default:
    /// 7d.
    pub keys_stale: Option<Text<Days>>,
}

/// Where an issuer's keys are.
pub enum JwksRef {
    /// A URL from which they are fetched.
    Url(String),
    /// A file with the keys, a JSON Web Key Set.
    File(String),
}

impl<'de> Deserialize<'de> for JwksRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JwksVisitor)
    }
}

struct JwksVisitor;

impl<'de> Visitor<'de> for JwksVisitor {
    type Value = JwksRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a URL or { file: /path }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<JwksRef, E> {
        Ok(JwksRef::Url(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JwksRef, A::Error> {
        #[derive(serde::Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum From {
            File,
        }
        const ONE: &str = "must be a URL, or { file: /path }";
        let Some(From::File) = map.next_key()? else {
            return Err(de::Error::custom(ONE));
        };
        Ok(JwksRef::File(map.next_value()?))
    }
}

impl JsonSchema for JwksRef {
    fn schema_name() -> Cow<'static, str> {
        "Jwks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string", "minLength": 1, "description": "The URL from which the keys are fetched." },
                {
                    "type": "object",
                    "properties": { "file": {
                        "type": "string",
                        "minLength": 1,
                        "description": "A file with the keys, a JSON Web Key Set. A relative path starts at the configuration folder."
                    } },
                    "required": ["file"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// A claim: the steps to it from the outermost object, at least one.
pub struct ClaimRef(pub Vec<String>);

impl<'de> Deserialize<'de> for ClaimRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ClaimVisitor)
    }
}

struct ClaimVisitor;

impl<'de> Visitor<'de> for ClaimVisitor {
    type Value = ClaimRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a claim, or a list of steps to it")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ClaimRef, E> {
        Ok(ClaimRef(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ClaimRef, A::Error> {
        let mut steps = Vec::new();
        while let Some(step) = list.next_element()? {
            steps.push(step);
        }
        Ok(ClaimRef(steps))
    }
}

impl JsonSchema for ClaimRef {
    fn schema_name() -> Cow<'static, str> {
        "Claim".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let step = json!({ "type": "string", "minLength": 1 });
        json_schema!({
            "anyOf": [
                { "type": "string", "minLength": 1, "description": "The name of a claim." },
                {
                    "type": "array",
                    "items": step,
                    "minItems": 1,
                    "description": "The steps to a claim inside others, such as `[realm_access, roles]`."
                }
            ]
        })
    }
}

/// The value that a claim must have: a text, true or false, or a number.
pub struct ClaimValue(pub String);

impl<'de> Deserialize<'de> for ClaimValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(SCALAR, ValueVisitor)
    }
}

struct ValueVisitor;

impl Visitor<'_> for ValueVisitor {
    type Value = ClaimValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, true or false, or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ClaimValue, E> {
        Ok(ClaimValue(text.to_owned()))
    }
}

impl JsonSchema for ClaimValue {
    fn schema_name() -> Cow<'static, str> {
        "ClaimValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "boolean", "number"], "description": "The value of a claim." })
    }
}

/// The callers to whom tokens belong, by the values of a claim.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimCallers {
    /// The claim: its name, or a list of steps. Its value is a text or a list of texts.
    #[schemars(required)]
    pub claim: Option<ClaimRef>,
    /// How a text is taken apart: with `space` it is a list of words. Default: it is one value.
    pub split: Option<Split>,
    /// The caller for each value of the claim. `"*"` stands for every value, and for a token
    /// without the claim; it counts only if nothing else matches.
    #[schemars(required)]
    pub map: Option<Entries<String>>,
    /// What happens if values of a token match several callers. Default: first.
    pub several: Option<Several>,
}

/// How a text of a claim is taken apart.
#[derive(serde::Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// At each space.
    Space,
}

/// What happens if values of a token match several callers.
#[derive(serde::Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Several {
    /// The token belongs to the caller that stands first in `map`.
    First,
    /// The token is refused.
    Refuse,
}
