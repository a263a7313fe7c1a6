//! `portcullis import` makes a configuration folder of the files of another gateway.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command};
use serde_json::{Value, json};

use super::new_files::{NewFile, write_files};
use super::{print_error, write_stdout};
use portcullis::base::calendar;
use portcullis::catalog::files::read_regular_file;
use portcullis::conf::config::DEFAULT_LEDGER;
use portcullis::conf::price::Usd;
use portcullis::conf::yaml;
use portcullis::error::Outcome;
use portcullis::ledger::{Row, carry};
use portcullis_import::litellm::{LOOSEN_WORDS, LiteLlm};
use portcullis_import::{Given, ImportFrom, Imported, Inputs, Spent};

/// The largest file of keys. 100,000 keys have some 200 MiB.
const LARGEST_KEYS: usize = 512 << 20;

/// `import litellm`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 if everything was carried and `check` finds no error in the new files, 1 if something is left to do or \
                  left out, 2 if nothing was written."
)]
pub struct ImportArgs {
    /// LiteLLM's config.yaml. Files that it includes are read too
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// Saved answers of /key/list?return_full_object=true, /team/list and /user/list, or rows of
    /// the database as JSON
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub keys: Vec<PathBuf>,
    /// The folder to make. It must not exist
    #[arg(long, value_name = "DIR", default_value = "portcullis-import")]
    pub out: PathBuf,
    /// Drop a bound that cannot be carried, by the field that the report names, instead of
    /// switching off the keys that have it. May be repeated. These words stand for many fields
    #[arg(long, value_name = "FIELD", value_parser = LoosenParser)]
    pub loosen: Vec<String>,
    /// Carry what was spent from budgets so far: make a ledger with it, where a gateway that is
    /// started in this folder has its ledger, or at FILE. It must not exist
    #[arg(
        long, value_name = "FILE", num_args = 0..=1, default_missing_value = DEFAULT_LEDGER, require_equals = true,
        requires = "keys"
    )]
    pub spend: Option<PathBuf>,
    /// Write no file: print the new files, and the report after them
    #[arg(long)]
    pub dry_run: bool,
    /// Write the report as JSON. With --dry-run it holds the new files, too
    #[arg(long)]
    pub json: bool,
}

/// Reads a name of `--loosen`: a field, or one of the words that are listed.
#[derive(Clone)]
struct LoosenParser;

impl TypedValueParser for LoosenParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = LOOSEN_WORDS.iter();
        Some(Box::new(
            words.map(|(word, what)| PossibleValue::new(*word).help(*what)),
        ))
    }
}

/// Runs the command.
pub(super) fn run(args: &ImportArgs) -> ExitCode {
    match import_files(args) {
        Ok(is_whole) => ExitCode::from(u8::from(!is_whole)),
        Err(why) => {
            print_error(&why);
            ExitCode::from(2)
        }
    }
}

/// Imports, writes the files and prints the report. Returns whether nothing is left to do.
fn import_files(args: &ImportArgs) -> Result<bool, String> {
    if !args.dry_run && fs::symlink_metadata(&args.out).is_ok() {
        return Err(
            "--out: this folder exists already, and nothing is overwritten: name a new one"
                .to_owned(),
        );
    }
    if args
        .spend
        .as_ref()
        .is_some_and(|ledger| absolute_path(ledger).starts_with(absolute_path(&args.out)))
    {
        return Err(
            "--spend: a ledger must not be in a configuration folder, which the gateway watches"
                .to_owned(),
        );
    }
    if let Some(ledger) = args.spend.as_ref().filter(|_| !args.dry_run)
        && fs::symlink_metadata(ledger).is_ok()
    {
        let name = ledger.display();
        return Err(format!(
            "--spend: {name} exists already, and nothing is overwritten: name a new file with --spend=FILE"
        ));
    }
    let config = read_given(&args.config, yaml::LARGEST)?;
    let keys = args.keys.iter().map(|path| read_given(path, LARGEST_KEYS));
    let keys = keys.collect::<Result<_, String>>()?;
    let folder = args.config.parent().unwrap_or(Path::new("")).to_owned();
    let inputs = Inputs {
        config,
        keys,
        spent_at: args.spend.is_some().then(calendar::now_millis),
        loosened: args.loosen.clone(),
        include: &|name, from| include_file(&folder, name, from),
        variable: &|name| std::env::var(name).ok(),
    };
    let imported = LiteLlm
        .import(&inputs)
        .map_err(|problem| problem.to_string())?;
    if !args.dry_run {
        let files = imported.files.iter().map(|(name, text)| NewFile {
            path: args.out.join(name),
            text: text.clone(),
            mode: 0o600,
        });
        let written = write_files(&files.collect::<Vec<_>>());
        let written = written.map_err(|why| format!("--out: {why}"))?;
        if let Some(path) = &args.spend
            && let Err(why) = carry::create_ledger(
                path,
                &imported.spent.iter().map(ledger_row).collect::<Vec<_>>(),
            )
        {
            written.remove();
            return Err(format!("--spend: {why}"));
        }
    }
    let text = if args.json {
        in_json(&imported, args)
    } else {
        in_text(&imported, args)
    };
    write_stdout(text.as_bytes())
        .map_err(|why| format!("the report could not be printed: {why}"))?;
    Ok(imported.is_whole())
}

/// Writes a path from the root on, so that `./a` and `a` are the same.
fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the row of the ledger for what was spent. It counts as a request, of no model that a
/// catalog can have.
fn ledger_row(spent: &Spent) -> Row {
    Row {
        admitted_at: spent.counted_at,
        request_id: "import".to_owned(),
        caller: spent.caller.as_str().into(),
        key: if spent.key.is_empty() {
            "".into()
        } else {
            format!("{}/{}", spent.caller, spent.key).into()
        },
        model: "(carried over)".into(),
        account: Some("litellm".into()),
        cost: Some(spent.usd),
        outcome: Outcome::Ok.name(),
        ..Row::default()
    }
}

/// Returns the name of a file in the report: without its folder.
fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(
        || "config.yaml".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Reads a file that was given, with its name.
fn read_given(path: &Path, limit: usize) -> Result<Given, String> {
    Ok(Given {
        name: file_name(path),
        text: read_file(path, limit)?,
    })
}

/// Reads a file that the command line names.
fn read_file(path: &Path, limit: usize) -> Result<String, String> {
    let name = path.display();
    let bytes =
        read_regular_file(path, limit).map_err(|why| format!("{name}: cannot be read: {why}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error
            .as_bytes()
            .get(..error.utf8_error().valid_up_to())
            .unwrap_or_default();
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        format!("{name}:{line}: is not UTF-8")
    })
}

/// Reads a file that another one includes. Its name starts at the folder of that file, or at that
/// of the first file. Names in the report start at the folder of the first file.
fn include_file(folder: &Path, name: &str, from: &str) -> Result<Given, String> {
    let neighbour = Path::new(from).parent().unwrap_or(Path::new("")).join(name);
    let shown = if folder.join(&neighbour).exists() {
        neighbour
    } else {
        PathBuf::from(name)
    };
    // What is named is not repeated, since it may be anything.
    let text = read_file(&folder.join(&shown), yaml::LARGEST)
        .map_err(|_| "it does not exist, or it is no text".to_owned())?;
    Ok(Given {
        name: shown.display().to_string(),
        text,
    })
}

fn in_text(imported: &Imported, args: &ImportArgs) -> String {
    let mut text = String::new();
    if args.dry_run {
        for (name, file) in &imported.files {
            text.push_str(&format!("# ---- {name}\n{file}\n"));
        }
        for spent in &imported.spent {
            let key = if spent.key.is_empty() {
                String::new()
            } else {
                format!("/{}", spent.key)
            };
            text.push_str(&format!(
                "# spent: {}{key} ${}, counted at {}\n",
                spent.caller,
                spent.usd,
                calendar::format_time(spent.counted_at)
            ));
        }
        text.push_str("# ---- report\n");
    }
    text += &imported.text();
    if !args.dry_run {
        text.push_str(&format!("The new files are in {}.\n", args.out.display()));
        if let Some(path) = &args.spend {
            text.push_str(&format!(
                "What was spent is in the new ledger {}: {}.\n",
                path.display(),
                spent_text(&imported.spent)
            ));
        }
    }
    text
}

/// Writes how much was carried.
fn spent_text(spent: &[Spent]) -> String {
    let usd = spent
        .iter()
        .fold(0_u64, |sum, spent| sum.saturating_add(spent.usd.0));
    let keys = spent.iter().filter(|spent| !spent.key.is_empty()).count();
    let callers = spent.len() - keys;
    let of_callers = if callers == 0 {
        String::new()
    } else {
        format!(", and for {callers} callers what their keys do not have")
    };
    format!("${} for {keys} keys{of_callers}", Usd(usd))
}

fn in_json(imported: &Imported, args: &ImportArgs) -> String {
    let mut report = imported.json();
    if let Value::Object(report) = &mut report {
        report.insert(
            "out".to_owned(),
            if args.dry_run {
                Value::Null
            } else {
                json!(args.out.display().to_string())
            },
        );
        if args.spend.is_some() {
            let one = |spent: &Spent| json!({"caller": spent.caller, "key": spent.key, "at": calendar::format_time(spent.counted_at), "usd": spent.usd.to_string()});
            report.insert("spent".to_owned(), imported.spent.iter().map(one).collect());
        }
        if args.dry_run {
            let files = imported
                .files
                .iter()
                .map(|(name, text)| (name.clone(), json!(text)))
                .collect();
            report.insert("texts".to_owned(), Value::Object(files));
        }
    }
    format!("{report:#}\n")
}
