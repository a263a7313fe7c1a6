//! A signer makes the credential of one request from an account's key, where the key itself is
//! never sent.

pub mod google;
pub mod sigv4;
