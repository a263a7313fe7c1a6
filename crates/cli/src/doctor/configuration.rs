//! The configuration is read as `serve` reads it. If that fails, its errors are reported, and what
//! can still be read is used for the other checks.

use std::net::SocketAddr;
use std::path::Path;

use super::report::{CheckState, Checked, Findings, Subject};
use super::variables::check_ignored_addresses;
use portcullis::base::problem::{Problem, Problems};
use portcullis::base::units::format_count;
use portcullis::catalog::load::{self, Loaded, Secrets, display_folder};
use portcullis::catalog::{Catalog, published_key_problem};
use portcullis::conf::config::Server;

/// The parts that could be read.
pub(super) struct ReadConfiguration {
    pub(super) server: Option<Server>,
    pub(super) catalog: Option<Catalog>,
}

/// Reads the configuration, and reports its errors and warnings.
pub(super) fn read_configuration(conf: &Path, report: &mut Findings) -> ReadConfiguration {
    match load::load_folder(conf, Secrets::Read) {
        Ok(Loaded {
            server,
            catalog,
            count: files,
            variables,
            ..
        }) => {
            let seen = format!(
                "{}: {}, {}",
                display_folder(conf),
                format_count(files, "file"),
                catalog.size()
            );
            report.add(configuration_subject().ok("files", seen));
            if !variables.is_empty() {
                let names: Vec<&str> = variables.iter().map(String::as_str).collect();
                let seen = format!(
                    "read from this shell: {}. A gateway that runs keeps the values of its own start",
                    names.join(", ")
                );
                report.add(configuration_subject().ok("environment", seen));
            }
            add_warnings(&catalog.warnings, report);
            check_ignored_addresses(&catalog, &server.listen, report, |name| {
                std::env::var(name).ok()
            });
            check_demo_key(&server, &catalog, report);
            ReadConfiguration {
                server: Some(server),
                catalog: Some(catalog),
            }
        }
        Err(Problems(errors, warnings)) => {
            for error in &errors {
                let is_unset = ["is not set", "is empty"]
                    .iter()
                    .any(|end| error.message.contains(end));
                let remedy = if is_unset && error.message.contains("environment variable") {
                    "export it in this shell, too: this command and `serve` read the environment that they are started with"
                } else {
                    "correct it: the gateway does not start with this error"
                };
                report.add(configuration_subject().fail("files", error.to_string(), remedy));
            }
            add_warnings(&warnings, report);
            read_rest(conf, report)
        }
    }
}

fn configuration_subject() -> Subject {
    Subject::single("configuration")
}

/// Reports warnings, except the one about the admin listener: the exposure of the listeners is a
/// check of its own.
fn add_warnings(warnings: &[Problem], report: &mut Findings) {
    for warning in warnings
        .iter()
        .filter(|warning| warning.path != "admin.address")
    {
        report.add(configuration_subject().finding(CheckState::Warn, "files", warning.to_string()));
    }
}

fn check_demo_key(server: &Server, catalog: &Catalog, report: &mut Findings) {
    let listeners: Vec<SocketAddr> = server.listen.iter().map(|listen| listen.address).collect();
    match published_key_problem(catalog, &listeners) {
        Some(problem) => {
            report.add(configuration_subject().finding(CheckState::Fail, "demo key", problem))
        }
        None => report.add(configuration_subject().ok(
            "demo key",
            "the published demo key opens nothing to strangers",
        )),
    }
}

/// Reads each part that can be read, with stand-ins for secrets that are missing.
fn read_rest(conf: &Path, report: &mut Findings) -> ReadConfiguration {
    let server = load::read_server(conf, Secrets::ReadIfPossible).ok();
    let catalog = load::read_catalog(conf, Secrets::ReadIfPossible)
        .catalog
        .ok();
    if server.is_none() {
        let why = "server.yaml cannot be read: process, listeners, access log, ledger and store are not checked";
        report.add(configuration_subject().skip("server.yaml", why));
    }
    if catalog.is_none() {
        report.add(configuration_subject().skip(
            "catalog",
            "the catalog cannot be read: no account is checked",
        ));
    }
    ReadConfiguration { server, catalog }
}
