//! `portcullis key new`: a secret, and its entry in the catalog.

use std::process::ExitCode;
use std::time::SystemTime;

use super::secret::{Made, made};
use super::{Id, ahead, place, stamp};
use crate::catalog::amend::{Files, Place};
use crate::catalog::load::folder;
use crate::catalog::name;
use crate::cli::{NewKeyArgs, print, tell};
use crate::problem::nearest;
use crate::yaml::edit::{Change, New, document};

pub(super) fn run(args: &NewKeyArgs, now: SystemTime) -> Result<ExitCode, String> {
    for (option, given) in [("--caller", &args.caller), ("--name", &args.name)] {
        name::of_entry(given).map_err(|wrong| format!("{option}: {wrong}"))?;
    }
    let expires = args.expires.or_else(|| args.expires_in.map(|span| ahead(now, span)));
    if expires.is_some_and(|expires| expires <= now) {
        return Err("the key would have expired before it is made: give it a time to come".to_owned());
    }
    if let Some(wrong) = args.models.iter().find(|glob| glob.is_empty() || !glob.bytes().all(|b| b.is_ascii_graphic())) {
        return Err(format!("--model: {wrong:?} is no glob over model ids, such as \"gpt-*\""));
    }
    if args.print {
        return printed(args, &made()?, expires);
    }

    let whole = format!("{}/{}", args.caller, args.name);
    let id = Id::of(&whole)?;
    let mut files = Files::lock(&folder(args.conf.conf.as_deref()))?;
    is_free(&files, id)?;
    let Made { secret, hash, note } = made()?;
    let entry = entry(&hash, &note, args, expires);
    let name = format!("keys-{}.yaml", args.caller);
    let at = match files.position(&format!("catalog.d/{name}")) {
        Some(file) => files
            .change(file, &[Change::Set(id.path(), entry)])
            .map_err(|why| format!("{why}\nNo key is made. `portcullis key new --print` prints what to write there by hand"))?,
        None => {
            let text = format!(
                "# Keys of {}, as `portcullis key` writes them. What else is written here stays as it is.\n{}",
                args.caller,
                document(&caller(id, entry))
            );
            // Each level has a line of its own, below the comment.
            let line = 1 + id.path().len();
            Place { file: files.add(&name, text)?, line }
        }
    };
    let at = place(&files, at);
    let about = format!("callers.{}.keys.{}", id.caller, id.name);
    for warning in files.catalog().warnings.iter().filter(|warning| warning.path.starts_with(&about)) {
        tell(&format!("warning: {warning}"));
    }
    let known = id.find(&files)?;
    if let Some(hinders) = super::standing::Standing::of(&known, now).hinders() {
        tell(&format!("warning: {whole} does not work yet: {hinders}"));
    }
    tell(&format!("{whole} is in {at}; a running gateway has it within a second. Its secret, shown this once and stored nowhere:"));
    Ok(once(&secret, &whole))
}

/// Prints a secret. If nobody takes it, nobody ever has it.
pub(super) fn once(secret: &str, id: &str) -> ExitCode {
    let printed = print(&format!("{secret}\n"));
    if printed != ExitCode::SUCCESS {
        tell(&format!("the secret could not be printed, and is lost: `portcullis key rotate {id} --overlap 0s` makes another"));
    }
    printed
}

fn is_free(files: &Files, id: Id<'_>) -> Result<(), String> {
    let callers = files.catalog().callers();
    if !callers.iter().any(|caller| *caller.id == *id.caller) {
        let meant = nearest(id.caller, callers.iter().map(|caller| &*caller.id)).map(|meant| format!("; did you mean {meant}?"));
        let meant = meant.unwrap_or_default();
        return Err(format!(
            "there is no caller {0}{meant}\nWho it is and what it may use is yours to write, in catalog.yaml or a file of catalog.d: \
             `callers: {{ {0}: {{ models: [\"…\"] }} }}`",
            id.caller
        ));
    }
    if !files.catalog().keys().any(|key| *key.id == *id.whole) {
        return Ok(());
    }
    let at = files.written(id.caller, id.name, |_| ()).map(|(at, ())| place(files, at)).unwrap_or_default();
    Err(format!("{0} exists, in {at}: choose another name, or give it another secret with `portcullis key rotate {0}`", id.whole))
}

fn entry(hash: &str, note: &str, args: &NewKeyArgs, expires: Option<SystemTime>) -> New {
    let mut fields = vec![("hash".to_owned(), New::text(hash).noted(note))];
    if !args.models.is_empty() {
        fields.push(("models".to_owned(), New::List(args.models.iter().map(New::text).collect())));
    }
    fields.extend(expires.map(|expires| ("expires".to_owned(), New::text(stamp(expires)))));
    New::Map(fields)
}

fn caller(id: Id<'_>, entry: New) -> New {
    New::map([("callers", New::map([(id.caller, New::map([("keys", New::map([(id.name, entry)]))]))]))])
}

/// What to paste, for whoever writes the catalog otherwise.
fn printed(args: &NewKeyArgs, made: &Made, expires: Option<SystemTime>) -> Result<ExitCode, String> {
    let whole = format!("{}/{}", args.caller, args.name);
    let yaml = document(&caller(Id::of(&whole)?, entry(&made.hash, &made.note, args, expires)));
    Ok(print(&format!(
        "The key, shown this once and stored nowhere:\n\n{}\n\nFor conf/catalog.yaml or a file of conf/catalog.d:\n\n{yaml}",
        made.secret
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::resolve;

    #[test]
    fn what_is_to_paste_is_read_back() {
        for whole in ["acme/prod", "true/123", "no/a.b-c", "1e5/0x1f"] {
            let entry = New::map([("hash", New::text(format!("sha256:{}", "07".repeat(32))).noted("sk-a-…"))]);
            let yaml = document(&caller(Id::of(whole).unwrap(), entry));
            let files = [("catalog.yaml".to_owned(), format!("accounts: {{}}\nmodels: {{}}\n{yaml}"))];
            let catalog = resolve::resolve(&files, &mut |_| unreachable!("it names nothing")).unwrap();
            let key = catalog.key(&[7; 32], SystemTime::now()).unwrap();
            assert_eq!(&*key.id, whole);
        }
    }
}
