//! A protocol is all that a gateway asks of a dialect, in one static: how a request is written for
//! it, where and with which headers it goes, how its answers and errors are read.
//!
//! What differs from account to account (a version, a project, a region) is in [`Settings`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::quirks::Quirks;
use crate::neutral::traits::Traits;
use crate::neutral::{
    AnswerFault, Emit, ErrorHead, Family, FieldRefused, Reader, Request, Target, UpstreamError, Written,
};

/// What is the same for all accounts that speak a dialect.
pub struct Protocol {
    /// The word for it in the catalog.
    pub name: &'static str,
    /// A sentence about it, for the catalog's schema.
    pub about: &'static str,
    /// Where its servers are.
    pub base_url: BaseUrl,
    /// Writes what follows the base URL, the query included, for a model and a stream or none.
    pub path: fn(&Settings, &str, bool) -> Cow<'static, str>,
    /// Returns whether the model stands in the path.
    pub model_in_path: fn(&Settings) -> bool,
    /// The header that carries the key; a bearer token where there is none.
    pub key_header: Option<&'static str>,
    /// The environment variable that usually holds the key.
    pub key_variable: Option<&'static str>,
    /// What an account may sign with, instead of sending a key.
    pub signs_with: SignsWith,
    /// Headers that each request has.
    pub headers: &'static [(&'static str, &'static str)],
    /// The header of an error that names it.
    pub error_type: Option<&'static str>,
    /// How a stream is cut into events.
    pub framing: Framing,
    /// Whose signed thoughts it takes and gives.
    pub family: Option<Family>,
    /// Returns what is known of a model by its name.
    pub traits: fn(&str) -> Traits,
    /// Returns where the price of a model is to be found.
    pub prices: fn(&Settings) -> Prices,
    /// How requests are written and answers are read; where there is none, both pass through.
    pub translation: Option<Translation>,
    /// Reads an answer whose status says that it is an error.
    pub error: fn(&Settings, &ErrorHead<'_>, &[u8]) -> UpstreamError,
    /// Servers of others imitate it: what an error's body says of its status is not always true.
    pub is_imitated: bool,
    /// Returns what a version does not know, where requests pass through.
    pub quirks_of_version: Option<fn(Option<&str>) -> &'static Quirks>,
}

/// How a request of the neutral form is written, and an answer is read into it.
pub struct Translation {
    /// Writes a request.
    pub request: fn(&Request<'_>, &Target<'_>) -> Result<Written, FieldRefused>,
    /// Reads a buffered answer of this model.
    pub answer: fn(&str, &[u8], Emit<'_>) -> Result<(), AnswerFault>,
    /// Begins to read a stream of this model.
    pub reader: fn(&str) -> Box<dyn Reader>,
    /// Where a request says how long its answer may be: a JSON pointer.
    pub max_tokens: &'static str,
}

/// What an account says of its dialect.
#[derive(Debug, Clone)]
pub struct Settings {
    /// In what its server differs from the dialect's inventor's.
    pub quirks: &'static Quirks,
    /// The version of the API.
    pub version: Option<Arc<str>>,
    /// The project that it belongs to.
    pub project: Option<Arc<str>>,
    /// The region or location where it runs.
    pub place: Option<Arc<str>>,
}

/// Where servers are.
#[derive(Debug, Clone, Copy)]
pub enum BaseUrl {
    /// At one address.
    At(&'static str),
    /// At an address for each region or location.
    OfPlace {
        /// The place, where an account names none.
        usual: &'static str,
        /// Returns the address in a place.
        at: fn(&str) -> String,
    },
    /// Each account has an address of its own.
    Own,
    /// Nowhere: the gateway answers by itself.
    Nowhere,
}

/// What an account may sign with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignsWith {
    /// Nothing.
    Nothing,
    /// A service account of Google's, for tokens.
    ServiceAccount,
    /// An access key of AWS's, each request.
    AccessKey,
}

/// How a stream is cut into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// A line each.
    Lines,
    /// Amazon's binary frames.
    Frames,
}

/// Where the price of a model is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prices {
    /// Nothing costs anything.
    Free,
    /// In the list of its provider.
    Listed,
    /// Nowhere: the models have names of their own, or cost what each server costs.
    Unlisted,
}

impl Protocol {
    /// What most dialects have in common: a dialect's own static fills in the rest.
    pub(crate) const COMMON: Protocol = Protocol {
        name: "",
        about: "",
        base_url: BaseUrl::Own,
        path: |_, _, _| Cow::Borrowed("/chat/completions"),
        model_in_path: |_| false,
        key_header: None,
        key_variable: None,
        signs_with: SignsWith::Nothing,
        headers: &[],
        error_type: None,
        framing: Framing::Events,
        family: None,
        traits: |_| Traits::UNKNOWN,
        prices: |_| Prices::Listed,
        translation: None,
        error: |_, _, _| UpstreamError::default(),
        is_imitated: false,
        quirks_of_version: None,
    };

    /// Returns whether requests and answers are OpenAI's own, and pass but for what must change.
    pub fn passes(&self) -> bool {
        self.translation.is_none()
    }

    /// Returns whether nobody is called.
    pub fn is_demo(&self) -> bool {
        matches!(self.base_url, BaseUrl::Nowhere)
    }

    /// Returns what the header `accept` says.
    pub fn accept(&self) -> &'static str {
        match self.framing {
            Framing::Events => "application/json, text/event-stream",
            Framing::Lines => "application/json, application/x-ndjson",
            Framing::Frames => "application/json, application/vnd.amazon.eventstream",
        }
    }
}

/// Each has a name of its own.
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
    /// An account that says nothing.
    pub const NONE: Settings = Settings { quirks: &Quirks::NONE, version: None, project: None, place: None };
}
