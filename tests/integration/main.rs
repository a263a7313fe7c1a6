//! The one integration binary: the real gateway as a process, between scripted callers and scripted
//! upstreams.
//!
//! The tests whose names begin with a letter and two digits are rows of the fault table. Each has
//! its own ports and folder, and each ends with the checks of `support::gateway`: nothing in
//! flight, nothing leaked, one access line for each exchange.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    clippy::let_underscore_must_use,
    clippy::large_futures,
    clippy::type_complexity,
    clippy::too_many_arguments,
    clippy::disallowed_methods,
    reason = "a test may fail loudly; the lints guard what runs in production"
)]

#[path = "../support/mod.rs"]
mod support;

mod account_identities;
mod admin_explain;
mod admin_key;
mod admin_names;
mod admin_slow;
mod agents;
mod auth;
mod bodies;
mod book;
mod callers;
mod catalog_page;
mod catalog_size;
mod ci;
mod clients;
mod clients_failures;
mod command_words;
mod connections;
mod counts;
mod descriptors;
mod dialects;
mod docs;
mod doctor;
mod edge;
mod embedded;
mod endpoints;
mod every_door;
mod examples;
mod explain;
mod failover;
mod flaws;
mod framing;
mod hangs;
mod house;
mod http2_upstreams;
mod identities;
mod import;
mod import_real;
mod init;
mod input;
mod items;
mod keys;
mod keys_running;
mod killed;
mod kinds;
mod layering;
mod ledger;
mod limits;
mod live;
mod many_keys;
mod matrix;
mod messages;
mod mixed;
mod models;
mod newcomer;
mod operation;
mod other_doors;
mod other_endpoints;
mod page;
mod passes;
mod plain_heads;
mod prices;
mod problems;
mod process;
mod prometheus;
mod proxies;
mod real;
mod reconcile;
mod reference;
mod relative;
mod reload;
mod reload_in_process;
mod reported;
mod reserves;
mod routing;
mod sdk;
mod sdk_other_endpoints;
mod sdk_outages;
mod sdk_responses;
mod sdk_vectors;
mod sdk_waits;
mod sealed;
mod secrets;
mod self_service;
mod series;
mod sizes;
mod slices;
mod soak;
mod starved;
mod store;
mod streams;
mod supervisor;
mod tinyproxy;
mod tls_upstreams;
mod traces;
mod tries;
mod try_gateway;
mod uploads;
mod upstream;
mod upstream_faults;
mod vectors;
mod wildcards;
