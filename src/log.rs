//! The operator's log is on stderr. It says only what somebody can act on; what happens to requests
//! is in the access log.
//!
//! Pingora's own messages are held to INFO and above: below that they print headers, with
//! credentials, and bodies.

use crate::base::calendar::rfc3339;
use crate::conf::config::Format;
use ::log::{LevelFilter, Log, Metadata, Record};
use serde::Serialize;
use std::io::Write;
use std::time::SystemTime;

struct Stderr {
    format: Format,
    level: LevelFilter,
}

#[derive(Serialize)]
struct Line {
    time: String,
    level: String,
    message: String,
}

/// Installs the log. If a program has a logger already, that one stays.
pub fn install(format: Format, level: LevelFilter) {
    ::log::set_max_level(level);
    if ::log::set_boxed_logger(Box::new(Stderr { format, level })).is_err() {
        ::log::debug!("a logger is installed already");
    }
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("portcullis");
        // Others' chatter: what they call information is of use only to those who debug them.
        let least = if ours {
            self.level
        } else if self.level >= LevelFilter::Debug {
            LevelFilter::Info
        } else {
            self.level.min(LevelFilter::Warn)
        };
        metadata.level() <= least
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let message = record.args().to_string();
        // A port scan, a probe without TLS, a head that never ends: nothing to act on.
        let chatter = message.starts_with("Downstream handshake")
            || (message.starts_with("Fail to proxy: ") && message.contains("while reading request headers"));
        if chatter && self.level < LevelFilter::Debug {
            return;
        }
        let time = rfc3339(SystemTime::now());
        let level = record.level().as_str().to_ascii_lowercase();
        let line = match self.format {
            // Strings always serialise.
            Format::Json => serde_json::to_string(&Line { time, level, message }).unwrap_or_default(),
            Format::Text => format!("{time} {level} {message}"),
        };
        // Nobody is left to tell if stderr is gone.
        drop(writeln!(std::io::stderr().lock(), "{line}"));
    }

    fn flush(&self) {}
}
