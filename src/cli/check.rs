//! `portcullis check`: `serve` without serving.

use std::net::SocketAddr;
use std::process::ExitCode;

use super::{CheckArgs, fail, print, tell};
use crate::catalog::load::{Loaded, Secrets, folder, load};
use crate::catalog::published_key_problem;

/// Says what is wrong, or what was read.
pub(super) fn run(args: &CheckArgs) -> ExitCode {
    let conf = folder(args.conf.conf.as_deref());
    let secrets = if args.no_secrets { Secrets::Assume } else { Secrets::Resolve };
    let Loaded { server, catalog, count: files, .. } = match load(&conf, secrets) {
        Ok(loaded) => loaded,
        Err(problems) => {
            let count = problems.0.len();
            return fail(&format!("{problems}\n{}: {count} {}", conf.display(), if count == 1 { "error" } else { "errors" }));
        }
    };
    let listeners: Vec<SocketAddr> = server.listen.iter().map(|listen| listen.address).collect();
    if let Some(problem) = published_key_problem(&catalog, &listeners) {
        return fail(&format!("{}: {problem}", conf.display()));
    }
    for warning in &catalog.warnings {
        tell(&format!("warning: {warning}"));
    }
    print(&format!(
        "{}: fine. {}, {}, {}, {}, {}, {}\n",
        conf.display(),
        count(files, "file"),
        count(catalog.accounts().len(), "account"),
        count(catalog.models().len(), "model"),
        count(catalog.callers().len(), "caller"),
        count(catalog.key_count(), "key"),
        count(catalog.warnings.len(), "warning"),
    ))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
