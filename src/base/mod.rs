//! The base is a set of small parts that know nothing of the gateway. Each file is one of them.

pub mod address;
pub mod alarm;
pub mod calendar;
pub mod clock;
pub mod cut_keys;
pub mod descriptors;
pub(crate) mod forward;
#[cfg(test)]
pub(crate) mod future_sizes;
pub mod hash;
pub mod host;
pub mod lock;
pub mod memory;
pub mod pool;
pub mod port_holder;
pub mod problem;
pub(crate) mod read_buffer;
pub mod secret;
pub mod shelves;
pub mod spool;
pub mod table;
pub mod trace_context;
pub mod units;
