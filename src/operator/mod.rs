//! The views that operators have of a running gateway, and who may see them.

pub mod admin;
pub mod live;
pub mod notify;
pub mod page;
pub mod problems;
pub mod watch;
