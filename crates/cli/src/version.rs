//! `portcullis version` prints which build this is.

use std::env::consts::{ARCH, OS};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::print_result;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit, where the build was given it in this variable. Cargo builds this file anew when it
/// changes.
const COMMIT: Option<&str> = option_env!("PORTCULLIS_COMMIT");
/// The C library that the program is made for.
const C_LIBRARY: &str = if cfg!(target_env = "musl") {
    "musl"
} else {
    "gnu"
};
/// The features that change what the program does, and whether this program has them.
const FEATURES: [(&str, bool); 2] = [
    ("test-clock", cfg!(feature = "test-clock")),
    ("test-panics", cfg!(feature = "test-panics")),
];

/// `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Write JSON: also the commit, if it was known when the program was built, the system that the
    /// program is made for, and its features
    #[arg(long)]
    pub json: bool,
}

/// Prints the version.
pub(super) fn run(args: &VersionArgs) -> ExitCode {
    if args.json {
        print_result(&format!("{:#}\n", describe_build()))
    } else {
        print_result(&format!("portcullis {VERSION}\n"))
    }
}

fn describe_build() -> Value {
    let features = FEATURES.iter().filter(|(_, is_there)| *is_there);
    json!({
        "version": VERSION,
        // A build system without a commit may give an empty text.
        "commit": COMMIT.filter(|commit| !commit.is_empty()),
        "target": format!("{ARCH}-{OS}-{C_LIBRARY}"),
        "features": features.map(|(name, _)| name).collect::<Vec<_>>(),
    })
}
