//! `portcullis presets`: the servers that are known by name.

use std::process::ExitCode;

use dialects::presets;

/// Prints the table.
pub(super) fn run() -> ExitCode {
    super::print(&presets::table())
}
