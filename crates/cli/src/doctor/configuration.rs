//! The configuration is read as `serve` reads it. If that fails, its errors are told, and what can
//! still be read is used for the other checks.

use std::net::SocketAddr;
use std::path::Path;

use super::report::{CheckState, Finding, Findings, Subject};
use portcullis::base::problem::{Problem, Problems};
use portcullis::base::units::count;
use portcullis::catalog::load::{self, Loaded, Secrets, shown};
use portcullis::catalog::{Catalog, published_key_problem};
use portcullis::conf::config::Server;

/// What could be read.
pub(super) struct Read {
    pub(super) server: Option<Server>,
    pub(super) catalog: Option<Catalog>,
}

/// Reads the configuration, and tells its errors and warnings.
pub(super) fn read(conf: &Path, report: &mut Findings) -> Read {
    match load::load(conf, Secrets::Resolve) {
        Ok(Loaded {
            server,
            catalog,
            count: files,
            ..
        }) => {
            let seen = format!(
                "{}: {}, {}",
                shown(conf),
                count(files, "file"),
                catalog.size()
            );
            report.ok(subject(), "files", seen);
            warn(&catalog.warnings, report);
            demo_key(&server, &catalog, report);
            Read {
                server: Some(server),
                catalog: Some(catalog),
            }
        }
        Err(Problems(errors, warnings)) => {
            for error in &errors {
                let finding = Finding::new(CheckState::Fail, subject(), "files", error.to_string());
                report.add(finding.with("correct it: the gateway does not start with this error"));
            }
            warn(&warnings, report);
            rest(conf, report)
        }
    }
}

fn subject() -> Subject {
    Subject::of("configuration")
}

/// Tells warnings, except the one about the admin listener: the exposure of the listeners is a
/// check of its own.
fn warn(warnings: &[Problem], report: &mut Findings) {
    for warning in warnings
        .iter()
        .filter(|warning| warning.path != "admin.address")
    {
        report.add(Finding::new(
            CheckState::Warn,
            subject(),
            "files",
            warning.to_string(),
        ));
    }
}

fn demo_key(server: &Server, catalog: &Catalog, report: &mut Findings) {
    let listeners: Vec<SocketAddr> = server.listen.iter().map(|listen| listen.address).collect();
    match published_key_problem(catalog, &listeners) {
        Some(problem) => report.add(Finding::new(
            CheckState::Fail,
            subject(),
            "demo key",
            problem,
        )),
        None => report.ok(
            subject(),
            "demo key",
            "the published demo key opens nothing to strangers",
        ),
    }
}

/// Reads each part that can be read, with stand-ins for secrets that are missing.
fn rest(conf: &Path, report: &mut Findings) -> Read {
    let server = load::server(conf, Secrets::IfThere).ok();
    let catalog = load::catalog(conf, Secrets::IfThere).catalog.ok();
    if server.is_none() {
        let why = "server.yaml cannot be read: process, listeners, access log, ledger and store are not checked";
        report.skip(subject(), "server.yaml", why);
    }
    if catalog.is_none() {
        report.skip(
            subject(),
            "catalog",
            "the catalog cannot be read: no account is checked",
        );
    }
    Read { server, catalog }
}
