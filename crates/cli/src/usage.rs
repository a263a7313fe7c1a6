//! `portcullis usage` prints who used how much. It reads the ledger's file, whether the gateway
//! runs or not.

use std::path::Path;
use std::process::ExitCode;

use super::{UsageArgs, print_error, print_result};
use portcullis::base::calendar::now_millis;
use portcullis::base::problem::{nearest_name, quote_near_miss, quote_safely};
use portcullis::catalog::load::{Secrets, read_catalog, read_server};
use portcullis::conf::config::Ledger;
use portcullis::ledger::read;
use portcullis::ledger::report::{Query, RawQuery, answer_query};

/// Prints the use that was asked for.
pub(super) fn run(args: &UsageArgs) -> Result<ExitCode, String> {
    let asked = RawQuery {
        by: Some(&args.by),
        since: Some(&args.since),
        until: args.until.as_deref(),
        caller: args.caller.as_deref(),
        key: args.key.as_deref(),
        model: args.model.as_deref(),
    };
    let query = Query::new(&asked, now_millis()).map_err(|why| format!("--{why}"))?;
    let conf = args.conf.folder();
    let ledger = read_server(&conf, Secrets::StandIns)
        .map_err(|problems| problems.to_string())?
        .ledger;
    let answer = answer_query(&ledger.path, &query, None).map_err(|why| why.to_string())?;
    let answer = answer.ok_or_else(|| no_ledger(&ledger))?;
    if answer.is_empty()
        && let Some(why) = unknown_name(args, &conf, &ledger.path)
    {
        return Err(why);
    }
    if args.csv {
        for note in answer.notes() {
            print_error(&format!("note: {note}"));
        }
    }
    Ok(print_result(&match (args.csv, args.json) {
        (true, _) => answer.csv(),
        (false, true) => answer.json(),
        (false, false) => answer.table(),
    }))
}

/// Writes where the ledger was looked for, and why there is none.
fn no_ledger(ledger: &Ledger) -> String {
    let here = std::env::current_dir()
        .ok()
        .filter(|_| ledger.path.is_relative());
    let here = here.map(|here| {
        format!(
            "; relative paths start at the working directory, which is {}",
            here.display()
        )
    });
    let why = if ledger.enabled {
        "`serve` makes the ledger"
    } else {
        "it is switched off, because `ledger.enabled` is false in server.yaml"
    };
    format!(
        "there is no ledger at {}: {why}{}",
        ledger.path.display(),
        here.unwrap_or_default()
    )
}

/// Returns the reason why nothing is found: a name in the question is neither in the catalog nor in
/// the ledger. Returns `None` if the names exist, or the catalog cannot be read.
fn unknown_name(args: &UsageArgs, conf: &Path, ledger: &Path) -> Option<String> {
    let catalog = read_catalog(conf, Secrets::StandIns).catalog.ok()?;
    let used = read::read_names(ledger).ok()?;
    let callers: Vec<&str> = catalog.callers().iter().map(|caller| &*caller.id).collect();
    let keys: Vec<&str> = catalog.keys().map(|key| &*key.id).collect();
    let models: Vec<&str> = catalog.models().iter().map(|model| &*model.id).collect();
    if let Some(alias) = args
        .model
        .as_deref()
        .filter(|model| !models.contains(model))
        && let Some(model) = catalog.model(alias).filter(|model| model.pattern.is_none())
    {
        return Some(format!(
            "{} is an alias of the model {}: the ledger has only the model's id, so ask for that",
            quote_safely(alias),
            model.id
        ));
    }
    let asked = [
        ("caller", args.caller.as_deref(), callers, &used.callers),
        ("key", args.key.as_deref(), keys, &used.keys),
        ("model", args.model.as_deref(), models, &used.models),
    ];
    let (kind, name, there, were) = asked.into_iter().find_map(|(kind, name, there, were)| {
        let name = name.filter(|name| !there.contains(name) && !were.contains(*name))?;
        Some((kind, name, there, were))
    })?;
    let known = || there.iter().copied().chain(were.iter().map(String::as_str));
    let hint = match nearest_name(name, known()) {
        Some(meant) => format!("; did you mean {meant}?"),
        None if kind == "key" && !name.contains('/') => {
            "; the id of a key begins with its caller, such as acme/prod".to_owned()
        }
        None => String::new(),
    };
    let missing = quote_near_miss(name, known()).map_or_else(
        || format!("no {kind} with this name"),
        |name| format!("no {kind} {name}"),
    );
    Some(format!(
        "there is {missing} in the catalog or the ledger{hint}"
    ))
}
