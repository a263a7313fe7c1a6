//! A protocol is everything that the gateway needs to know about a dialect, in one static: how to
//! write a request, where to send it and with which headers, and how to read answers and errors.
//!
//! Facts that differ from account to account (a version, a project, a region) are in [`Settings`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::cloud::Cloud;
use super::listing::ModelListing;
use super::quirks::Quirks;
use super::servers::KnownServer;
use crate::neutral::Endpoint;
use crate::neutral::embedding::Embedding;
use crate::neutral::traits::Traits;
use crate::neutral::vectors::VectorPlace;
use crate::neutral::{
    AnswerFault, Emit, ErrorHead, Family, FieldRefused, Reader, Request, Target, UpstreamError,
    Written,
};

/// The facts that are equal for all accounts of a dialect.
#[derive(Clone, Copy)]
pub struct Protocol {
    /// The dialect's name in the catalog.
    pub name: &'static str,
    /// A sentence about it, for the catalog's schema.
    pub about: &'static str,
    /// The name of its provider in OpenTelemetry's conventions.
    pub provider: &'static str,
    /// Its servers that are known by their hosts.
    pub servers: &'static [KnownServer],
    /// The fields of an account that it has, and not every dialect.
    pub own_fields: &'static [AccountField],
    /// How LiteLLM has its provider.
    pub litellm: Litellm,
    /// The address of its servers.
    pub base_url: BaseUrl,
    /// The kind of endpoint that is asked.
    pub endpoint: Endpoint,
    /// Writes the path after the base URL, including the query. The arguments are the kind of
    /// endpoint, the settings, the model, and true for a stream.
    pub path: fn(Endpoint, &Settings, &str, bool) -> Cow<'static, str>,
    /// Returns whether the path has the model.
    pub model_in_path: fn(&Settings) -> bool,
    /// The kinds of endpoint that its servers may have.
    pub endpoints: Endpoints,
    /// The header that carries the key. If it is `None`, the key is sent as a bearer token.
    pub key_header: Option<&'static str>,
    /// The environment variable that usually holds the key.
    pub key_variable: Option<&'static str>,
    /// The credential with which an account may sign, instead of sending a key.
    pub signs_with: SignsWith,
    /// The headers of every request.
    pub headers: &'static [(&'static str, &'static str)],
    /// The headers that may have the server's own id of a request. The first one found counts.
    pub request_ids: &'static [&'static str],
    /// The header that names an error.
    pub error_type: Option<&'static str>,
    /// The framing of a stream's events.
    pub framing: Framing,
    /// The family whose signed thoughts the dialect takes and gives.
    pub family: Option<Family>,
    /// Returns the abilities of a model by its name.
    pub traits: fn(&str) -> Traits,
    /// Returns where to find the price of a model.
    pub prices: fn(&Settings) -> Prices,
    /// The functions that write requests and read answers. If it is `None`, both are in OpenAI's
    /// own format: requests in that format pass through, and all others are translated into it.
    pub translation: Option<Translation>,
    /// Reads an answer with the status of an error.
    pub error: fn(&Settings, &ErrorHead<'_>, &[u8]) -> UpstreamError,
    /// True if servers of others imitate the dialect. Then the status in an error's body is not
    /// always right.
    pub is_imitated: bool,
    /// Returns the quirks of an API's version, for a dialect whose requests pass through.
    pub quirks_of_version: Option<fn(Option<&str>) -> &'static Quirks>,
}

/// The facts that each dialect must write: none of them has a value that is right for most.
pub(crate) struct DialectFacts {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) servers: &'static [KnownServer],
    pub(crate) own_fields: &'static [AccountField],
    pub(crate) litellm: Litellm,
    pub(crate) base_url: BaseUrl,
    pub(crate) key_header: Option<&'static str>,
    pub(crate) prices: fn(&Settings) -> Prices,
    pub(crate) translation: Option<Translation>,
    pub(crate) error: fn(&Settings, &ErrorHead<'_>, &[u8]) -> UpstreamError,
}

/// How LiteLLM has the provider of a dialect.
#[derive(Debug, Clone, Copy)]
pub struct Litellm {
    /// The names: the texts before the slash in `litellm_params.model`.
    pub names: &'static [&'static str],
    /// The environment variables in which LiteLLM looks for the key if none is written.
    pub keys: &'static [&'static str],
    /// The environment variables in which LiteLLM looks for the address if none is written.
    pub bases: &'static [&'static str],
}

impl Litellm {
    /// LiteLLM has no such provider, or it is known by the presets.
    pub(crate) const NONE: Litellm = Litellm {
        names: &[],
        keys: &[],
        bases: &[],
    };
}

/// A field of an account that not every dialect has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountField {
    /// `preset`.
    Preset,
    /// `quirks`.
    Quirks,
    /// `api_version`.
    ApiVersion,
    /// `auth`.
    Auth,
    /// `project`.
    Project,
    /// `location`.
    Location,
    /// `service_account`.
    ServiceAccount,
    /// `identity`.
    Identity,
    /// `region`.
    Region,
    /// `aws`.
    Aws,
    /// `traits.output_config`.
    OutputConfig,
    /// `traits.response_json_schema`.
    ResponseJsonSchema,
    /// `traits.parameters_json_schema`.
    ParametersJsonSchema,
}

/// The functions that write a request of the neutral form, and read an answer into it.
#[derive(Clone, Copy)]
pub struct Translation {
    /// Writes a request.
    pub request: fn(&Request<'_>, &Target<'_>) -> Result<Written, FieldRefused>,
    /// Reads a buffered answer of this model.
    pub answer: fn(&str, &[u8], Emit<'_>) -> Result<(), AnswerFault>,
    /// Emits the counts in a whole answer of this model, even if it is an error, is cut, or cannot
    /// be read.
    pub count: fn(&str, &[u8], Emit<'_>),
    /// Returns a reader for a stream of this model.
    pub reader: fn(&str) -> Box<dyn Reader>,
    /// The place of the maximum of tokens in a request, as a JSON pointer.
    pub max_tokens: &'static str,
    /// How the servers count the tokens of a request, if they do.
    pub counting: Option<Counting>,
    /// The name of the format, if a front door has the format, too. Then bodies pass.
    pub format: &'static str,
    /// Returns the event of the format that is inside an event of the stream, if one is.
    pub inner: fn(&[u8]) -> Option<Vec<u8>>,
    /// The form of requests for vectors, if the servers have them.
    pub(crate) vectors: Option<&'static VectorForm>,
    /// The cloud's rules for a body of Anthropic's format, if the servers are not Anthropic's own.
    pub(crate) cloud: Option<&'static Cloud>,
}

/// The form of requests for vectors at the servers of a dialect.
pub(crate) struct VectorForm {
    /// Writes a request for this model.
    pub(crate) write: fn(&Embedding<'_>, &str) -> Result<Written, FieldRefused>,
    /// Returns the most inputs that a request for this model may have.
    pub(crate) max_inputs: fn(&str) -> usize,
    /// The places of the parts of an answer.
    pub(crate) places: &'static [VectorPlace],
}

/// No bound for the inputs of a request.
pub(crate) const ANY_NUMBER: usize = usize::MAX;

/// The way in which servers count the tokens of a request. The count covers exactly the content
/// that the model would read.
#[derive(Clone, Copy)]
pub struct Counting {
    /// Returns the path of a count, by the path of the request itself. Returns `None` if there is
    /// nothing that counts.
    pub(crate) path: fn(&str) -> Option<String>,
    /// Makes the body of a count of a model's request. Returns `None` if the count would cover
    /// other content.
    pub(crate) body: fn(&str, &[u8]) -> Option<Vec<u8>>,
    /// The field of the answer that has the number.
    pub(crate) field: &'static str,
}

/// The kinds of endpoint that the servers of a dialect may have.
#[derive(Clone, Copy)]
pub struct Endpoints {
    /// The protocols of the kinds that the servers of its inventor have.
    pub protocols: &'static [Protocol],
    /// Returns the kinds that a server has if its account does not name them. The arguments are the
    /// settings and the server's host.
    pub default_endpoints: fn(&Settings, &str) -> &'static [Endpoint],
    /// Returns the protocol for models of this name, if the servers have another protocol for them.
    pub protocol_for_model: fn(&str) -> Option<&'static Protocol>,
    /// Returns another protocol of these servers, which serves only callers of its own format.
    pub other_protocol: fn(&Settings, &str) -> Option<&'static Protocol>,
    /// The servers' lists of models. `None` if they do not list the names that an account may ask
    /// for.
    pub listing: Option<ModelListing>,
}

/// An account's settings for its dialect.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The differences between its server and the server of the dialect's inventor.
    pub quirks: &'static Quirks,
    /// The version of the API.
    pub version: Option<Arc<str>>,
    /// The project that the account belongs to.
    pub project: Option<Arc<str>>,
    /// The region or location in which it runs.
    pub region: Option<Arc<str>>,
}

/// The address of a dialect's servers.
#[derive(Debug, Clone, Copy)]
pub enum BaseUrl {
    /// One address.
    Fixed(&'static str),
    /// An address for each region or location.
    PerRegion {
        /// The region if an account names none.
        default_region: &'static str,
        /// Returns the address in a region.
        address_in: fn(&str) -> String,
    },
    /// Each account has its own address.
    Own,
    /// No address: the gateway answers by itself.
    Nowhere,
}

/// The credential with which an account may sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignsWith {
    /// Nothing.
    Nothing,
    /// A service account of Google's, to get tokens.
    ServiceAccount,
    /// An access key of AWS's, to sign each request.
    AccessKey,
    /// An identity in Microsoft Entra, to get tokens.
    Entra,
}

/// The framing of a stream's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// One line for each event.
    Lines,
    /// Amazon's binary frames.
    Frames,
}

/// The place to find the price of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prices {
    /// Every model is free.
    Free,
    /// The provider's list has the price.
    Listed,
    /// No list has the price: the models have names of their own, or their cost depends on the
    /// server.
    Unlisted,
}

/// The endpoints of most dialects.
pub(crate) const ENDPOINTS: Endpoints = Endpoints {
    protocols: &[],
    default_endpoints: |_, _| &[Endpoint::Chat],
    protocol_for_model: |_| None,
    other_protocol: |_, _| None,
    listing: None,
};

impl Framing {
    /// Returns the framing that a content type names, if it is one of a stream. The type is in
    /// lower case and has no parameters.
    pub fn from_content_type(content_type: &[u8]) -> Option<Framing> {
        match content_type {
            b"text/event-stream" => Some(Framing::Events),
            b"application/x-ndjson" | b"application/ndjson" => Some(Framing::Lines),
            b"application/vnd.amazon.eventstream" => Some(Framing::Frames),
            _ => None,
        }
    }
}

impl Protocol {
    /// Returns a protocol with these facts, and with the values that most dialects share. The
    /// static of each dialect replaces the others.
    pub(crate) const fn common(facts: DialectFacts) -> Protocol {
        Protocol {
            name: facts.name,
            about: facts.about,
            provider: facts.provider,
            servers: facts.servers,
            own_fields: facts.own_fields,
            litellm: facts.litellm,
            base_url: facts.base_url,
            endpoint: Endpoint::Chat,
            path: |endpoint, _, _, _| Cow::Borrowed(endpoint.path()),
            model_in_path: |_| false,
            endpoints: ENDPOINTS,
            key_header: facts.key_header,
            key_variable: None,
            signs_with: SignsWith::Nothing,
            headers: &[],
            // Servers stand behind other servers, so an answer may have any of these headers.
            request_ids: &[
                "x-request-id",
                "request-id",
                "x-amzn-requestid",
                "apim-request-id",
            ],
            error_type: None,
            framing: Framing::Events,
            family: None,
            traits: |_| Traits::UNKNOWN,
            prices: facts.prices,
            translation: facts.translation,
            error: facts.error,
            is_imitated: false,
            quirks_of_version: None,
        }
    }

    /// Returns whether its accounts have a field that not every dialect has.
    pub fn has(&self, field: AccountField) -> bool {
        self.own_fields.contains(&field)
    }

    /// Writes the path after the base URL, including the query.
    pub fn path(&self, settings: &Settings, model: &str, stream: bool) -> Cow<'static, str> {
        (self.path)(self.endpoint, settings, model, stream)
    }

    /// Returns whether requests and answers are in OpenAI's own format. They then pass through,
    /// except for the parts that must change.
    pub fn passes(&self) -> bool {
        self.translation.is_none()
    }

    /// Returns whether the gateway answers by itself and makes no calls.
    pub fn calls_nobody(&self) -> bool {
        matches!(self.base_url, BaseUrl::Nowhere)
    }

    /// Returns the name of the format. A front door of this format has the name, too.
    pub(crate) fn format(&self) -> &'static str {
        self.translation
            .map_or("", |translation| translation.format)
    }

    /// Returns whether bodies of a front door pass to some of its models.
    pub fn may_pass(&self) -> bool {
        self.passes() || !self.format().is_empty()
    }

    /// Returns the protocol in which a model of this name is asked.
    pub(crate) fn for_model(&'static self, model: &str) -> &'static Protocol {
        (self.endpoints.protocol_for_model)(model).unwrap_or(self)
    }

    /// Returns the value of the header `accept`.
    pub fn accept(&self) -> &'static str {
        match self.framing {
            Framing::Events => "application/json, text/event-stream",
            Framing::Lines => "application/json, application/x-ndjson",
            // Amazon takes the header for the type of the model's output, even inside frames.
            Framing::Frames => "application/json",
        }
    }
}

/// Protocols are equal if their names are, because each has its own name.
impl PartialEq for Protocol {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Settings {
    /// The settings of an account that sets nothing.
    pub const NONE: Settings = Settings {
        quirks: &Quirks::NONE,
        version: None,
        project: None,
        region: None,
    };
}
