//! `portcullis presets` lists the servers that an account can name as its `preset`.

use std::process::ExitCode;

use dialects::presets;

/// Prints the table.
pub(super) fn run() -> ExitCode {
    super::print(&presets::table())
}
