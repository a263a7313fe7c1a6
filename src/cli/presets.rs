//! `portcullis presets`: the servers that are known by name.

use std::process::ExitCode;

use crate::dialect::presets;

/// Prints the table.
pub(super) fn run() -> ExitCode {
    super::print(&presets::table())
}
