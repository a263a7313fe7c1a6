//! `portcullis check` reads the configuration as `serve` does, without serving. `--diff` says what
//! it would change.

mod diff;
mod expired;
mod token_files;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::SystemTime;

use super::{CheckArgs, print_error, print_result};
use portcullis::base::units::format_count;
use portcullis::catalog::load::{Loaded, Secrets, display_folder, load_folder};
use portcullis::catalog::published_key_problem;

/// Prints what is wrong, or, if nothing is, the numbers of what was read.
pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, String> {
    let conf = args.conf.folder();
    let secrets = if args.no_secrets {
        Secrets::StandIns
    } else {
        Secrets::Read
    };
    let loaded = load_folder(&conf, secrets).map_err(|problems| {
        let (errors, warnings) = (format_count(problems.0.len(), "error"), problems.1.len());
        let warned = if warnings == 0 {
            String::new()
        } else {
            format!(", {}", format_count(warnings, "warning"))
        };
        format!(
            "{}\n{}: {errors}{warned}",
            problems.with_warnings(),
            display_folder(&conf)
        )
    })?;
    let Loaded {
        server,
        catalog,
        count: files,
        ..
    } = &loaded;
    for warning in &catalog.warnings {
        print_error(&format!("warning: {warning}"));
    }
    let expired = expired::expiry_warnings(&loaded.catalog, &conf, SystemTime::now());
    for warning in &expired {
        print_error(&format!("warning: {warning}"));
    }
    let missing = match secrets {
        Secrets::Read => token_files::missing_files(&loaded.catalog, &conf),
        Secrets::StandIns | Secrets::ReadIfPossible => Vec::new(),
    };
    for warning in &missing {
        print_error(&format!("warning: {warning}"));
    }
    let listeners: Vec<SocketAddr> = server.listen.iter().map(|listen| listen.address).collect();
    if let Some(problem) = published_key_problem(catalog, &listeners) {
        return Err(format!("{}: {problem}", display_folder(&conf)));
    }
    let against = args
        .diff
        .as_deref()
        .map(|against| diff::compare_with(&loaded, &conf, against, secrets))
        .transpose()?;
    if let Some(comparison) = against.as_ref().filter(|_| args.json) {
        return Ok(print_result(&comparison.json()));
    }
    let fine = format!(
        "{}: fine. {}, {}, {}\n",
        display_folder(&conf),
        format_count(*files, "file"),
        catalog.size(),
        format_count(
            catalog.warnings.len() + expired.len() + missing.len(),
            "warning"
        ),
    );
    let compared = against
        .map(|comparison| comparison.text())
        .unwrap_or_default();
    Ok(print_result(&format!("{fine}{compared}")))
}
