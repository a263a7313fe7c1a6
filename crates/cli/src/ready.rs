//! `portcullis ready` asks a running gateway whether it is ready. It is for health checks where
//! there is no shell and no curl, as in the container image.

use std::process::ExitCode;
use std::time::Duration;

use super::http::fetch;
use super::{ReadyArgs, print};
use portcullis::base::address::reachable;
use portcullis::catalog::load::admin_address;

/// The longest wait for the answer, which is given at once.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks, and fails if the answer is not 200.
pub(super) fn run(args: &ReadyArgs) -> Result<ExitCode, String> {
    let url = match &args.url {
        Some(url) => url.clone(),
        None => {
            let address =
                admin_address(&args.conf.folder()).map_err(|problems| problems.to_string())?;
            format!("http://{}/readyz", reachable(address))
        }
    };
    // Probes are answered without a key.
    fetch(
        &url,
        "/readyz",
        ". The admin listener takes such a URL",
        &|_| None,
        PATIENCE,
    )?;
    Ok(print("ready\n"))
}
