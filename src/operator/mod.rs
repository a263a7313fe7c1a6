//! What operators see of a running gateway, and who may see it.

pub mod admin;
pub mod live;
pub mod notify;
pub mod page;
pub mod problems;
pub mod watch;
