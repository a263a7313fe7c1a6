//! `portcullis ready` asks a running gateway whether it is ready. It is for health checks where
//! there is no shell and no curl, as in the container image.

use std::process::ExitCode;
use std::time::Duration;

use super::http::{AdminRequest, PageUrl, send_to_url};
use super::{ReadyArgs, print_result};
use portcullis::base::address::reachable_address;
use portcullis::catalog::load::admin_address;

/// The longest wait for the answer, which is given at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Asks, and fails if the answer is not 200.
pub(super) fn run(args: &ReadyArgs) -> Result<ExitCode, String> {
    let url = match &args.url {
        Some(url) => url.clone(),
        None => {
            let address =
                admin_address(&args.conf.folder()).map_err(|problems| problems.to_string())?;
            format!("http://{}/readyz", reachable_address(address))
        }
    };
    // Probes are answered without a key.
    let page = PageUrl {
        url: &url,
        usual_path: "/readyz",
        hint: ". The admin listener takes such a URL",
    };
    send_to_url(page, AdminRequest::Get, &|_| None, ANSWER_TIMEOUT).map_err(|error| error.why)?;
    Ok(print_result("ready\n"))
}
