//! `portcullis serve` reads the configuration and serves until it is told to stop.

use std::process::ExitCode;

use super::{ServeArgs, fail};
use crate::catalog::load::{Secrets, folder, load, shown};
use crate::conf::config::Listen;

/// Serves. Returns only if serving cannot begin.
pub(super) fn run(args: ServeArgs) -> ExitCode {
    let conf = folder(args.conf.conf.as_deref());
    let mut loaded = match load(&conf, Secrets::Resolve) {
        Ok(loaded) => loaded,
        Err(problems) => {
            return fail(&format!(
                "{}\n{}: not served. `portcullis check` says the same without serving",
                problems.with_warnings(),
                shown(&conf)
            ));
        }
    };
    crate::log::install(loaded.server.log.format, loaded.server.log.level);
    if !args.listen.is_empty() {
        if loaded.server.listen.iter().any(|listen| listen.tls.is_some()) {
            log::warn!(
                "--listen replaces the listeners of server.yaml, TLS included: keys and prompts come in the clear"
            );
        }
        loaded.server.listen =
            args.listen.into_iter().map(|address| Listen { address, h2c: false, tls: None }).collect();
    }
    match crate::server::run(&conf, loaded) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&why),
    }
}
