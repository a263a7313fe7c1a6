//! `portcullis serve` reads the configuration and serves until a signal stops it.

use std::process::ExitCode;

use super::ServeArgs;
use portcullis::catalog::load::{Secrets, display_folder, load_folder};
use portcullis::conf::config::Listen;

/// Serves. It returns only if serving cannot begin.
pub(super) fn run(args: ServeArgs) -> Result<ExitCode, String> {
    let conf = args.conf.folder();
    let mut loaded = load_folder(&conf, Secrets::Read).map_err(|problems| {
        let problems = problems.with_warnings();
        format!(
            "{problems}\n{}: the gateway does not start with these errors. `portcullis check` prints them without a start",
            display_folder(&conf)
        )
    })?;
    portcullis::log::install_logger(loaded.server.log.format, loaded.server.log.level);
    if !args.listen.is_empty() {
        if loaded
            .server
            .listen
            .iter()
            .any(|listen| listen.tls.is_some())
        {
            log::warn!(
                "--listen replaces the listeners of server.yaml, and their TLS: callers send keys and prompts unencrypted"
            );
        }
        loaded.server.listen = args
            .listen
            .into_iter()
            .map(|address| Listen {
                address,
                h2c: false,
                tls: None,
            })
            .collect();
    }
    portcullis::server::run(&conf, loaded).map(|()| ExitCode::SUCCESS)
}
