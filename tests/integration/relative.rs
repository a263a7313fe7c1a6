//! The tests of reloads once more, in gateways whose folder is given by a relative path, as the
//! shipped commands give it. `support::gateway` knows these tests by their module's name.
//!
//! A test that edits files belongs in one of these modules. Then it holds for both kinds of paths.

#![allow(
    clippy::duplicate_mod,
    reason = "the same tests run with two kinds of folders"
)]

#[path = "keys_running.rs"]
mod keys_running;
#[path = "reload.rs"]
mod reload;
#[path = "starved.rs"]
mod starved;
