//! `portcullis doctor` looks at everything that a gateway with this configuration needs, one line a
//! check: what was seen, and what to do.
//!
//! **Invariant:** without `--ask` nothing is sent that a provider charges for. Accounts are reached
//! with the gateway's own code, so that what is seen is what the gateway would see. Nothing here
//! changes a file, and no check waits for ever.

pub(crate) mod accounts;
mod ask;
mod clock;
mod configuration;
mod identities;
mod instance;
mod ledger;
mod listeners;
mod logs;
mod process;
pub(crate) mod report;
mod side_by_side;
mod store;
pub(crate) mod variables;
pub(crate) mod words;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::{ConfArgs, print_error};
use configuration::ReadConfiguration;
use portcullis::explain::standalone_snapshot;
use report::Findings;

/// The signal SIGXFSZ: a file would be larger than a limit of the system allows. With a handler it
/// does not end the process, and the write fails.
const LARGE_FILE: i32 = 25;
/// The longest time for the store and all accounts together. What `--ask` sends, the page of
/// `--status` and the questions to a running gateway have times of their own.
const CHECKS_TIMEOUT: Duration = Duration::from_secs(120);

/// `doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each line says ok, warn, fail or skip, what was looked at, and what was seen; below it stands what to do.\nExit code: 0 if \
                  all is well, 1 if there are warnings, 2 if a check failed or the command did. `skip` changes nothing."
)]
pub struct DoctorArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Ask each target, too, and find out what it can do: streams with usage, tools, JSON schema,
    /// and a system message in the middle. Providers charge for it. A target gets two small
    /// requests; if it finds fault with the first one, up to six. Together they have a few hundred
    /// tokens. The last line says what all of them cost
    #[arg(long)]
    pub ask: bool,
    /// Tell also the problems of a running instance: the URL of its /status page, such as
    /// http://127.0.0.1:9090/status, or a file with that page
    #[arg(long, value_name = "URL|FILE")]
    pub status: Option<String>,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the checks. Exits with 0 if all is well, with 1 if there are warnings, and with 2 if a
/// check failed or could not be made.
pub(super) fn run(args: &DoctorArgs) -> ExitCode {
    let runtime = match checks_runtime() {
        Ok(runtime) => runtime,
        Err(why) => {
            print_error(&why);
            return ExitCode::from(2);
        }
    };
    let mut report = Findings::new(args.json);
    runtime.block_on(async {
        let _large_files = signal(SignalKind::from_raw(LARGE_FILE));
        run_checks(args, &mut report).await;
    });
    // A look-up of a name that hangs is left behind.
    runtime.shutdown_background();
    report.finish()
}

/// Makes the runtime of the checks.
pub(super) fn checks_runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|why| format!("the checks cannot run: {why}"))
}

async fn run_checks(args: &DoctorArgs, report: &mut Findings) {
    let conf = args.conf.folder();
    let due = tokio::time::Instant::now() + CHECKS_TIMEOUT;
    let ReadConfiguration { server, catalog } = configuration::read_configuration(&conf, report);
    if let Some(server) = &server {
        process::check_process(server, catalog.as_ref(), report);
        listeners::check_listeners(&conf, server, report);
        logs::check_access_log(&server.log.access, report);
        ledger::check_ledger(&server.ledger, report);
    }
    let mut clocks = clock::Clocks::default();
    if let Some(store) = server.as_ref().and_then(|server| server.store.as_ref()) {
        store::check_store(store, due, &mut clocks, report).await;
    }
    let proxies = server
        .as_ref()
        .map(|server| server.proxies.clone())
        .unwrap_or_default();
    if let Some(catalog) = &catalog {
        identities::check_identities(catalog, &proxies, report).await;
    }
    let snapshot = catalog.map(|catalog| Arc::new(standalone_snapshot(catalog, proxies)));
    let unreached = match &snapshot {
        Some(snapshot) => accounts::check_accounts(snapshot, due, &mut clocks, report).await,
        None => BTreeSet::new(),
    };
    clocks.judge(report);
    if let Some(snapshot) = snapshot.filter(|_| args.ask) {
        ask::ask_targets(snapshot, &unreached, report).await;
    }
    if let Some(from) = &args.status {
        instance::check_instance(from, &conf, report);
    }
}
