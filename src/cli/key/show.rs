//! `portcullis key show`: everything about one key, and never its secret.

use std::process::ExitCode;
use std::time::SystemTime;

use super::list::last_used;
use super::standing::{Standing, expires};
use super::{Id, Known, place, stamp};
use crate::catalog::amend::Files;
use crate::catalog::load::folder;
use crate::catalog::raw::Digest;
use crate::cli::{KeyArgs, print};
use crate::limits::{Kind, Limits};
use crate::price::Usd;

/// So much of a hash says which it is.
const SHORT: usize = "sha256:".len() + 8;

pub(super) fn run(args: &KeyArgs, now: SystemTime) -> Result<ExitCode, String> {
    let id = Id::of(&args.key)?;
    let conf = folder(args.conf.conf.as_deref());
    let files = Files::read(&conf)?;
    let known = id.find(&files)?;
    let at = files.written(id.caller, id.name, |_| ()).map(|(at, ())| place(&files, at)).unwrap_or_default();
    let used = last_used(&conf).get(id.whole).map(|at| stamp(*at));
    let lines = lines(&files, &known, now);
    let first = [("key", id.whole.to_owned()), ("file", at), ("last used", used.unwrap_or_else(|| "-".to_owned()))];
    let text: String = first.into_iter().chain(lines).map(|(what, says)| format!("{:<12}{says}\n", format!("{what}:"))).collect();
    Ok(print(&text))
}

fn lines(files: &Files, known: &Known<'_>, now: SystemTime) -> Vec<(&'static str, String)> {
    let (key, catalog) = (known.key, files.catalog());
    let mut lines = vec![("state", Standing::of(known, now).says())];
    lines.push(("expires", expires(known).map_or_else(|| "never".to_owned(), stamp)));
    let mut secrets = known.secrets.clone();
    secrets.sort_by_key(|(_, until)| (until.is_none(), *until));
    for (digest, until) in secrets {
        let hash: String = Digest(*digest).to_string().chars().take(SHORT).collect();
        let until = match until {
            Some(until) if until <= now => format!(", over since {}", stamp(until)),
            Some(until) => format!(", until {}", stamp(until)),
            None => String::new(),
        };
        lines.push(("hash", format!("{hash}…{until}")));
    }
    let sees = catalog.models().iter().filter(|model| key.permissions.allow(&model.id) && model.served()).count();
    lines.push((
        "models",
        format!("{}, of its caller's {}: sees {sees} of {}", key.permissions.of_key(), key.permissions.of_caller(), catalog.models().len()),
    ));
    let limits = [("limits", "of its own".to_owned(), &key.limits), ("limits", format!("of {}", key.caller.id), &key.caller.limits)];
    lines.extend(
        limits
            .into_iter()
            .filter(|(_, _, limits)| !limits.is_none())
            .map(|(what, whose, limits)| (what, format!("{whose}: {}", shown(limits)))),
    );
    for (index, limits) in &key.model_limits {
        let model = catalog.models().get(*index).map(|model| &*model.id).unwrap_or_default();
        lines.push(("limits", format!("of its own, on {model}: {}", shown(limits))));
    }
    if !key.allow_ips.is_empty() {
        lines.push(("allow_ips", key.allow_ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")));
    }
    if key.debug {
        lines.push(("debug", "may ask for the trail of attempts".to_owned()));
    }
    lines
}

/// `requests_per_minute 60, usd_per_day 12.5`
fn shown(limits: &Limits) -> String {
    let each = Kind::ALL.into_iter().filter_map(|kind| {
        let limit = kind.limit(limits, 1)?;
        Some(if kind.is_money() { format!("{} {}", kind.name(), Usd(limit)) } else { format!("{} {limit}", kind.name()) })
    });
    each.collect::<Vec<_>>().join(", ")
}
