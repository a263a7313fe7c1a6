//! `portcullis check` reads the configuration as `serve` does, without serving. `--diff` says what
//! it would change.

mod diff;
mod expired;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::SystemTime;

use super::{CheckArgs, print, tell};
use portcullis::base::units::count;
use portcullis::catalog::load::{Loaded, Secrets, load, shown};
use portcullis::catalog::published_key_problem;

/// Prints what is wrong, or, if nothing is, the numbers of what was read.
pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, String> {
    let conf = args.conf.folder();
    let secrets = if args.no_secrets {
        Secrets::Assume
    } else {
        Secrets::Resolve
    };
    let loaded = load(&conf, secrets).map_err(|problems| {
        let (errors, warnings) = (count(problems.0.len(), "error"), problems.1.len());
        let warned = if warnings == 0 {
            String::new()
        } else {
            format!(", {}", count(warnings, "warning"))
        };
        format!(
            "{}\n{}: {errors}{warned}",
            problems.with_warnings(),
            shown(&conf)
        )
    })?;
    let Loaded {
        server,
        catalog,
        count: files,
        ..
    } = &loaded;
    for warning in &catalog.warnings {
        tell(&format!("warning: {warning}"));
    }
    let expired = expired::warnings(&loaded.catalog, &conf, SystemTime::now());
    for warning in &expired {
        tell(&format!("warning: {warning}"));
    }
    let listeners: Vec<SocketAddr> = server.listen.iter().map(|listen| listen.address).collect();
    if let Some(problem) = published_key_problem(catalog, &listeners) {
        return Err(format!("{}: {problem}", shown(&conf)));
    }
    let against = args
        .diff
        .as_deref()
        .map(|against| diff::compare(&loaded, &conf, against, secrets))
        .transpose()?;
    if let Some(comparison) = against.as_ref().filter(|_| args.json) {
        return Ok(print(&comparison.json()));
    }
    let fine = format!(
        "{}: fine. {}, {}, {}\n",
        shown(&conf),
        count(*files, "file"),
        catalog.size(),
        count(catalog.warnings.len() + expired.len(), "warning"),
    );
    let compared = against
        .map(|comparison| comparison.text())
        .unwrap_or_default();
    Ok(print(&format!("{fine}{compared}")))
}
