//! Configuration turns the operator's files into values. This module has the parts for all files,
//! and `server.yaml` itself. The other files are the [catalog](crate::catalog).

pub mod config;
pub mod price;
pub mod proxy;
pub(crate) mod scribe;
pub mod secret_ref;
pub mod yaml;
