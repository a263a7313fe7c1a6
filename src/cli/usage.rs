//! `portcullis usage`: who used how much, out of the ledger's file. The gateway may run beside it, or not.

use std::process::ExitCode;

use super::{UsageArgs, fail, print, tell};
use crate::catalog::load::{Secrets, folder, server};
use crate::ledger::days::now;
use crate::ledger::report::{Asked, Query, answer};

/// Prints it.
pub(super) fn run(args: &UsageArgs) -> ExitCode {
    let asked = Asked {
        by: Some(&args.by),
        since: Some(&args.since),
        until: args.until.as_deref(),
        caller: args.caller.as_deref(),
        key: args.key.as_deref(),
        model: args.model.as_deref(),
    };
    let query = match Query::new(&asked, now()) {
        Ok(query) => query,
        Err(why) => return fail(&format!("--{why}")),
    };
    let conf = folder(args.conf.conf.as_deref());
    let ledger = match server(&conf, Secrets::Assume) {
        Ok(server) => server.ledger,
        Err(problems) => return fail(&problems.to_string()),
    };
    let answer = match answer(&ledger.path, &query, None) {
        Ok(Some(answer)) => answer,
        Ok(None) => {
            let here = match std::env::current_dir() {
                Ok(here) if ledger.path.is_relative() => {
                    format!("; a relative path starts at the working directory, which is {}", here.display())
                }
                Ok(_) | Err(_) => String::new(),
            };
            let why = if ledger.enabled { "`serve` begins one" } else { "it is switched off: `ledger.enabled` in server.yaml" };
            return fail(&format!("there is no ledger at {}: {why}{here}", ledger.path.display()));
        }
        Err(why) => return fail(&why.to_string()),
    };
    if args.csv {
        for note in answer.notes() {
            tell(&format!("note: {note}"));
        }
    }
    print(&match (args.csv, args.json) {
        (true, _) => answer.csv(),
        (false, true) => answer.json(),
        (false, false) => answer.table(),
    })
}
