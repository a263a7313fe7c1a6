//! The operator's log goes to stderr. It has only messages that somebody can act on; what happens
//! to requests is in the access log.
//!
//! Of Pingora's own messages, only INFO and above are written: below that, Pingora prints headers
//! with credentials, and bodies.

use crate::base::calendar::format_system_time;
use crate::conf::config::Format;
use ::log::{LevelFilter, Log, Metadata, Record};
use serde::Serialize;
use std::io::Write;
use std::time::SystemTime;

struct Stderr {
    is_text: bool,
    level: LevelFilter,
}

#[derive(Serialize)]
struct Line {
    time: String,
    level: String,
    message: String,
}

/// Installs the log. If the program has a logger already, that one stays.
pub fn install_logger(format: Format, level: LevelFilter) {
    ::log::set_max_level(level);
    if ::log::set_boxed_logger(Box::new(Stderr {
        is_text: format.is_text(&std::io::stderr()),
        level,
    }))
    .is_err()
    {
        ::log::debug!("a logger is installed already");
    }
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("portcullis");
        // Messages of libraries: their INFO is of use only to those who debug them.
        let max_level = if ours {
            self.level
        } else if self.level >= LevelFilter::Debug {
            LevelFilter::Info
        } else {
            self.level.min(LevelFilter::Warn)
        };
        metadata.level() <= max_level
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let message = record.args().to_string();
        // These messages come from port scans, probes without TLS, and heads that never end. No
        // operator can act on them. A lack of descriptors is logged once, and not each second.
        let chatter = message.starts_with("Downstream handshake")
            || (message.starts_with("Accept() failed") && message.contains("Too many open files"))
            || (message.starts_with("Fail to proxy: ")
                && message.contains("while reading request headers"));
        if chatter && self.level < LevelFilter::Debug {
            return;
        }
        let time = format_system_time(SystemTime::now());
        let level = record.level().as_str().to_ascii_lowercase();
        let line = if self.is_text {
            format!("{time} {level} {message}")
        } else {
            // Strings always serialise.
            serde_json::to_string(&Line {
                time,
                level,
                message,
            })
            .unwrap_or_default()
        };
        // If stderr is gone, there is no place for the message.
        drop(writeln!(std::io::stderr().lock(), "{line}"));
    }

    fn flush(&self) {}
}
