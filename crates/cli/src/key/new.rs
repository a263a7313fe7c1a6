//! `portcullis key new` makes a secret and writes its entry into the catalog.

use std::process::ExitCode;
use std::time::SystemTime;

use super::secret::{NewSecret, exposure_warning};
use super::{Id, catalog_time, running, show_location, time_after};
use crate::{NewKeyArgs, fail_with, print_error, print_result};
use portcullis::base::problem::no_such;
use portcullis::catalog::amend::Files;
use portcullis::catalog::name;
use portcullis::conf::yaml::edit::{Change, NewValue, write_document};
use portcullis::conf::yaml::{Path, Step};

pub(super) fn run(args: &NewKeyArgs, now: SystemTime) -> Result<ExitCode, String> {
    for (option, given) in [("--caller", &args.caller), ("--name", &args.name)] {
        name::of_entry(given).map_err(|wrong| format!("{option}: {wrong}"))?;
    }
    let expires = args
        .expires
        .or_else(|| args.expires_in.map(|span| time_after(now, span)));
    if expires.is_some_and(|expires| expires <= now) {
        return Err("the key would already be expired: write a time in the future".to_owned());
    }
    if args
        .models
        .iter()
        .any(|glob| glob.is_empty() || !glob.bytes().all(|b| b.is_ascii_graphic()))
    {
        return Err("--model: must be a glob over model ids, such as \"gpt-*\"".to_owned());
    }
    let whole = format!("{}/{}", args.caller, args.name);
    let id = Id::parse(&whole)?;
    if args.print {
        return Ok(print_entry(id, args, &NewSecret::make()?, expires));
    }
    let mut files = Files::lock(&args.conf.folder())?;
    is_free(&files, id, args.create)?;
    let secret = NewSecret::make()?;
    let (path, new) = key_entry(id, &secret, args, expires);
    let name = format!("keys-{}.yaml", args.caller);
    match files.position(&format!("catalog.d/{name}")) {
        Some(file) => {
            files.change(file, &[Change::Set(path, new)]).map_err(|why| {
                format!("{why}\nNo key was made. `portcullis key new --print` prints what to write there by hand")
            })?;
        }
        None => {
            let text = format!(
                "# Keys of {}. `portcullis key` changes the keys and leaves everything else in this file as it is.\n{}",
                args.caller,
                write_document(&wrap_in_maps(&path, new))
            );
            files.add(&name, text)?;
        }
    }
    let written = id.location(&files).ok();
    let location_text = written
        .map(|location| show_location(&files, location))
        .unwrap_or_default();
    let callers = Path::Root.key("callers");
    let caller = callers.key(id.caller);
    let keys = caller.key("keys");
    let about = if args.create {
        caller.to_string()
    } else {
        keys.key(id.name).to_string()
    };
    for warning in files
        .catalog()
        .warnings
        .iter()
        .filter(|warning| warning.is_within(&about))
    {
        print_error(&format!("warning: {warning}"));
    }
    let known = id.find(&files)?;
    if let Some(hinders) = super::state::KeyState::at_time(&known, now).why_not() {
        print_error(&format!("warning: {whole} does not work yet: {hinders}"));
    }
    if args.create {
        let all = if args.models.is_empty() {
            ", and may use every model; with `--model` it may use fewer"
        } else {
            ""
        };
        print_error(&format!("the caller {} is new{all}", id.caller));
    }
    print_error(&format!(
        "{whole} is in {location_text}. Here is its secret. It is shown only now, and stored nowhere:"
    ));
    Ok(show_once(
        &secret.text,
        &mut files,
        written.map(|location| location.file),
        "no key was made",
    ))
}

/// Prints a secret, and waits until the gateway has it from this file. If the secret cannot be
/// printed, it is lost, and the files are put back as they were.
pub(super) fn show_once(
    secret: &str,
    files: &mut Files,
    file: Option<usize>,
    undone: &str,
) -> ExitCode {
    if print_result(&format!("{secret}\n")) == ExitCode::SUCCESS {
        exposure_warning().into_iter().for_each(print_error);
        return file.map_or(ExitCode::SUCCESS, |file| running::report_live(files, file));
    }
    fail_with(&match files.undo() {
        Ok(()) => format!("the secret could not be printed: {undone}"),
        Err(why) => {
            format!(
                "{why}\nThe secret could not be printed, and is lost: `portcullis key rotate` makes another one"
            )
        }
    })
}

fn is_free(files: &Files, id: Id<'_>, create: bool) -> Result<(), String> {
    let known = files.catalog().callers().iter().map(|caller| &*caller.id);
    let exists = known.clone().any(|caller| *caller == *id.caller);
    if exists && create {
        return Err(format!(
            "the caller {} already exists: run the command without --create. The catalog says which models the caller may use",
            id.caller
        ));
    }
    if !exists && !create {
        let message = no_such("caller", id.caller, known);
        return Err(format!(
            "{message}\nAdd --create to make the caller, and --model 'gpt-*' if it may use only some models. Or write the caller into \
             catalog.yaml or a file of catalog.d: `callers: {{ NAME: {{ models: [\"gpt-*\"] }} }}`"
        ));
    }
    if files.catalog().key(id.whole).is_none() {
        return Ok(());
    }
    let location_text = id
        .location(files)
        .map(|location| show_location(files, location))
        .unwrap_or_default();
    Err(format!(
        "{0} already exists, in {location_text}: choose another name, or give the key a new secret with `portcullis key rotate {0}`",
        id.whole
    ))
}

/// Returns the path and the value to write: the key, or its new caller with the key.
fn key_entry<'a>(
    id: Id<'a>,
    secret: &NewSecret,
    args: &NewKeyArgs,
    expires: Option<SystemTime>,
) -> (Vec<Step<'a>>, NewValue) {
    let models = (!args.models.is_empty()).then(|| {
        (
            "models".to_owned(),
            NewValue::List(args.models.iter().map(NewValue::text).collect()),
        )
    });
    let (of_caller, of_key) = if args.create {
        (models, None)
    } else {
        (None, models)
    };
    let fields = std::iter::once(("hash".to_owned(), secret.value()));
    let fields = fields.chain(of_key).chain(
        expires.map(|expires| ("expires".to_owned(), NewValue::text(catalog_time(expires)))),
    );
    let key = NewValue::Map(fields.collect());
    let path = id.path();
    if !args.create {
        return (path, key);
    }
    let keys = ("keys".to_owned(), NewValue::map([(id.name, key)]));
    (
        path.into_iter().take(2).collect(),
        NewValue::Map(of_caller.into_iter().chain([keys]).collect()),
    )
}

/// Puts a value into the maps around it.
fn wrap_in_maps(path: &[Step<'_>], new: NewValue) -> NewValue {
    path.iter().rev().fold(new, |new, step| match step {
        Step::Key(key) | Step::Hidden(key) => NewValue::map([(key, new)]),
        Step::Index(_) => new,
    })
}

/// Prints the entry to paste, for catalogs that are written in another way.
fn print_entry(
    id: Id<'_>,
    args: &NewKeyArgs,
    secret: &NewSecret,
    expires: Option<SystemTime>,
) -> ExitCode {
    let (path, new) = key_entry(id, secret, args, expires);
    let yaml = write_document(&wrap_in_maps(&path, new));
    let printed = print_result(&format!(
        "Here is the secret of the key. It is shown only now, and stored nowhere:\n\n{}\n\nWrite this into conf/catalog.yaml or a file of \
         conf/catalog.d:\n\n{yaml}",
        secret.text
    ));
    exposure_warning().into_iter().for_each(print_error);
    printed
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis::catalog::resolve;

    #[test]
    fn what_is_to_paste_is_read_back() {
        for whole in ["acme/prod", "true/123", "no/a.b-c", "1e5/0x1f"] {
            let entry = NewValue::map([(
                "hash",
                NewValue::text(format!("sha256:{}", "07".repeat(32))).noted("sk-a-…"),
            )]);
            let yaml = write_document(&wrap_in_maps(&Id::parse(whole).unwrap().path(), entry));
            let files = [(
                "catalog.yaml".to_owned(),
                format!("accounts: {{}}\nmodels: {{}}\n{yaml}"),
            )];
            let catalog =
                resolve::resolve_catalog(&files, &mut |_| unreachable!("it names nothing"))
                    .unwrap();
            let key = catalog.opened(&[7; 32], SystemTime::now()).unwrap().0;
            assert_eq!(&*key.id, whole);
        }
    }
}
