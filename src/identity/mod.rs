//! Callers who sign in elsewhere: a token of an issuer (a JWT, RFC 7519) stands where a key may.
//!
//! [`token`] reads a token and verifies it with the issuer's keys of [`jwk`]. [`rules`] says who
//! sent it: which caller, and which subject of it. [`remembered`] keeps what was verified.
//!
//! All of it is pure: it takes bytes and times, and reads no clock, no file and no socket.
//!
//! **Invariant:** nothing of a token is believed before its signature is verified; only its issuer
//! is read, to choose whose keys verify it. No key and no address in a token is ever used.

pub mod algorithm;
pub mod json;
pub mod jwk;
pub mod remembered;
pub mod rules;
pub mod subject;
pub mod token;

#[cfg(test)]
pub(crate) mod tests;
