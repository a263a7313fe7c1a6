//! Portcullis: an LLM gateway on Pingora. One address, one key, standard chat completions; behind
//! it many accounts at many providers.
//!
//! # Words
//!
//! | Word | Meaning |
//! |---|---|
//! | caller | who calls us: a team or an app, with its own configuration; owns keys |
//! | key | a secret that a caller sends; can do at most what its caller can |
//! | account | an upstream account: a provider's address and a credential |
//! | model | a public model id, as callers see it |
//! | target | one way to serve a model: an account, and the name it knows the model by |
//! | dialect | a wire format |
//! | catalog | the immutable snapshot of callers, keys, accounts and models |
//! | exchange | one request's life, from accepted to settled |
//! | attempt | one try at one target |
//! | commit | the moment the answer's first data leaves for the caller; after it nothing can be tried again |
//! | breaker | what keeps requests away from a target that fails, and lets one find out when it is back |
//! | hedge | a second attempt beside a slow first one; the first to commit answers |
//! | limit | how much a caller, a key, or a key of one model, may use in a while |
//! | scope | one of those three that has limits, with what is counted against them |
//! | reservation | what an exchange may come to use, taken when it is admitted; settling replaces it by what it did |
//! | price | what a target's tokens cost, each kind; unknown is not zero |
//!
//! # The way of a request
//!
//! [`connection`] counts it in → [`gateway`], one short method for each of Pingora's phases →
//! [`desk`] decides what becomes of it: [`desk::door`]: what is asked for → [`desk::auth`]: by whom
//! → [`models`] answers lists → [`desk::intake`] reads the body → [`plan`]: what may be tried →
//! [`exchange`]: attempts until one commits, each the next one picked by what [`account`] remembers
//! of targets, each in the words of its account's dialect ([`dialects`]), and the relay of its
//! answer, in the caller's format → [`desk::reply`] writes it → [`desk::record`] settles it, once:
//! what is known at its end is a [`settled::Settled`], which [`access_log`], [`metrics`] and
//! [`ledger`] read. What a model wants back with the next turn waits in the [`vault`]. Where
//! several instances share limits, hints and thoughts, [`store`] asks and tells them. [`process`]
//! puts all of it together.
//!
//! `portcullis explain`, of [`cli`], goes the same way up to where somebody would be called, and
//! tells what it met: without a process, and with no secret read. What it shows is what the
//! gateway's own code made.
//!
//! `portcullis key …` changes the catalog's files ([`catalog::amend`]), each by the bytes that must
//! change ([`yaml::edit`]); the gateway finds it as it finds any change of theirs.
//!
//! # What always holds
//!
//! * A stream that ends is complete, or says that it is not.
//! * An exchange keeps the catalog that it began with, and is settled exactly once, however it
//!   ends.
//! * Nothing that a caller sends decides where a request goes, but for the model's id. No URL in a
//!   request is ever fetched here; and none goes to who would fetch it with the operator's rights,
//!   or in the operator's network, unless the account says so.
//! * What a dialect cannot say is named to the caller, or the request is refused; nothing is left
//!   out in silence.
//! * Of each file of the catalog only a whole text is taken, and nobody's writing holds up another
//!   file.
//! * A secret is a [`secret::Secret`]: it cannot be printed.
//! * What is asked for is taken from all limits that bound it or from none, and counts for when it
//!   was admitted. A refusal takes nothing.
//! * Each instance counts its own part exactly; what is shared is the sum of parts, and no request
//!   waits long for it.
//! * Before the commit two attempts may race, and any failure may be mended; what was asked in vain
//!   is counted as such, and an outage is not multiplied.
//! * [`wire`], [`dialect`], [`usage`], [`price`], [`account::strategy`] and what it goes by
//!   ([`account::breaker`], [`account::latency`], [`account::quota`]), [`account::failure`],
//!   [`account::budget`], [`limits::tally`] and the catalog's `mod`, `raw`, `resolve`, `settle`
//!   and `texts` are pure: no Pingora, no clock, no file, no socket.

pub mod access_log;
pub mod account;
pub mod address;
pub mod admin;
pub mod alarm;
pub mod calendar;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod connection;
pub mod desk;
pub mod drain;
pub mod error;
pub mod exchange;
pub mod gateway;
pub mod ledger;
pub mod limits;
pub mod live;
pub mod lock;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod models;
pub mod plan;
pub mod price;
pub mod problem;
pub mod process;
pub(crate) mod scribe;
pub mod secret;
pub mod secret_ref;
pub mod server;
pub mod settled;
pub mod signers;
pub mod status;
pub mod store;
pub mod table;
pub mod tls;
pub mod units;
pub mod vault;
pub mod yaml;
