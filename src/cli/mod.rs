//! The command line: reads the arguments and runs one subcommand. Each subcommand has a file.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Parser, Subcommand};

use crate::base::problem::{nearest, quoted};
use crate::catalog::load;
use crate::ledger::report;

mod check;
mod explain;
mod http;
mod key;
mod limits;
mod presets;
mod prices;
mod schema;
mod serve;
mod usage;

/// An LLM gateway: one address, one key, standard answers.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve callers.
    Serve(ServeArgs),
    /// Read the configuration as `serve` would, and say what is wrong with it.
    Check(CheckArgs),
    /// Say what would become of a request, and why: nobody is called.
    Explain(ExplainArgs),
    /// Say who used how much, and what it cost.
    Usage(UsageArgs),
    /// Make keys, list them, and change them where they stand in the catalog's files.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Print the JSON Schema of a configuration file.
    Schema(SchemaArgs),
    /// List the servers that an account can name as its `preset`.
    Presets,
    /// List what well-known models cost, or what those of a catalog do.
    Prices(PricesArgs),
}

/// Where the configuration is.
#[derive(Debug, Args)]
pub struct ConfArgs {
    /// The configuration folder [default: ./conf, then /etc/portcullis]
    #[arg(long, value_name = "DIR")]
    pub conf: Option<PathBuf>,
}

impl ConfArgs {
    /// Returns the configuration folder.
    fn folder(&self) -> PathBuf {
        load::folder(self.conf.as_deref())
    }
}

/// `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Listen here instead of where server.yaml says, such as 127.0.0.1:8080: plain HTTP/1, without
    /// its `tls` and `h2c`
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    pub listen: Vec<SocketAddr>,
}

/// `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Read no secrets, CA files and certificates: for CI, where they are absent
    #[arg(long)]
    pub no_secrets: bool,
}

/// `explain`.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 if somebody would be asked, 1 if nobody would, 2 if that cannot be said.")]
pub struct ExplainArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// The id of the key that it comes with, such as acme/prod: never its secret
    #[arg(long, value_name = "CALLER/NAME")]
    pub key: String,
    /// What a running instance tells of itself: the URL of its /status, such as
    /// http://127.0.0.1:9090/status, or a file that holds it
    #[arg(long, value_name = "URL|FILE")]
    pub status: Option<String>,
    /// A header that it comes with: `x-portcullis-session: …` or `x-portcullis-timeout: …`
    #[arg(long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// Write JSON, for machines
    #[arg(long)]
    pub json: bool,
    /// The request's body as the caller sends it; - is standard input
    #[arg(value_name = "REQUEST.json")]
    pub request: PathBuf,
}

/// `usage`.
#[derive(Debug, Args)]
#[command(
    after_help = "Columns: requests; of these failed (an outcome other than ok); tokens; requests whose tokens are an estimate; cost in USD, as far \
    as prices are known; requests without a known price; tokens that may be charged for attempts whose answer nobody got.\n\n\
    Costs are exact. `unknown` (in CSV nothing, in JSON null) is a cost that is not known; `>=0.25` is the known part of a sum, of which a part \
    is not known. In CSV and JSON `cost_known` says which it is: all, part or none; `unused_cost_known` says the same of \
    `unused_cost_usd`.\n\
    Exit code: 0, also where nobody asked for anything in that time; 1 if there is no ledger, if it cannot be read, if an option's \
    value is wrong, or if neither the catalog nor the ledger has the caller, the key or the model; 2 if there is no such option."
)]
pub struct UsageArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Group by these: caller, key, model, account, upstream_model, day, outcome
    #[arg(long, value_name = "NAMES", default_value = report::BY)]
    pub by: String,
    /// From when on: 30m, 24h or 7d ago, a date (2026-11-01, in UTC) or a time
    /// (2026-11-01T08:00:00Z)
    #[arg(long, value_name = "TIME", default_value = report::SINCE)]
    pub since: String,
    /// Up to when, written as --since is; without it, to now
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Only this caller
    #[arg(long)]
    pub caller: Option<String>,
    /// Only this key, such as acme/prod
    #[arg(long, value_name = "CALLER/NAME")]
    pub key: Option<String>,
    /// Only this model, as it was asked for
    #[arg(long)]
    pub model: Option<String>,
    /// Write CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Write JSON, for machines
    #[arg(long)]
    pub json: bool,
}

/// `key …`.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key: prints its secret, once, and writes its hash into catalog.d/keys-CALLER.yaml.
    ///
    /// Beside the hash stands the secret's beginning, 15 characters (`# sk-1a2B3c4D5e6-…`), so that
    /// whoever finds a key, or a part of one, can tell whose it is. They are a name of the key,
    /// made apart from what follows them: that is 256 random bits, and nothing of it is stored.
    New(NewKeyArgs),
    /// List keys: how they stand, until when, for which models, in which file, and when they were
    /// last used.
    List(ListKeysArgs),
    /// Tell everything about one key, but for its secret, which nobody knows.
    Show(ShowKeyArgs),
    /// Switch a key off, and wait until the gateway that runs on this folder refuses it.
    Disable(KeyArgs),
    /// Switch a key on again.
    Enable(KeyArgs),
    /// Say from when on a key does not work any more.
    Expire(ExpireKeyArgs),
    /// Give a key another secret, printed once; the one before works for a while.
    Rotate(RotateKeyArgs),
    /// Take a key out of its file, for good. `disable` can be undone.
    Delete(KeyArgs),
    /// Read an existing key from standard input and print its hash.
    Hash,
}

/// `key new`.
#[derive(Debug, Args)]
pub struct NewKeyArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Whose key it is
    #[arg(long)]
    pub caller: String,
    /// What the key is for, such as prod
    #[arg(long)]
    pub name: String,
    /// Make the caller too. Its models are then those of --model [default: all], and the key may
    /// use what its caller may
    #[arg(long)]
    pub create: bool,
    /// A glob over the ids of models that it may use, within those of its caller; several with
    /// commas, or several times [default: all of its caller's]
    #[arg(long = "model", visible_alias = "models", value_name = "GLOB", value_delimiter = ',')]
    pub models: Vec<String>,
    /// From when on it does not work any more, such as 2027-01-01 or 2027-01-01T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = key::time)]
    pub expires: Option<SystemTime>,
    /// The same as a time from now, such as 90d
    #[arg(long, value_name = "SPAN", value_parser = key::span, conflicts_with = "expires")]
    pub expires_in: Option<Duration>,
    /// Write nothing: print the secret and what to paste into the catalog
    #[arg(long)]
    pub print: bool,
}

/// `key list`.
#[derive(Debug, Args)]
pub struct ListKeysArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Only those of this caller
    #[arg(long)]
    pub caller: Option<String>,
    /// Write JSON, for machines
    #[arg(long)]
    pub json: bool,
}

/// One key.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// The key's id, such as acme/prod: never its secret
    #[arg(value_name = "CALLER/NAME")]
    pub key: String,
}

/// `key show`.
#[derive(Debug, Args)]
pub struct ShowKeyArgs {
    /// Which key.
    #[command(flatten)]
    pub key: KeyArgs,
    /// Write JSON, for machines
    #[arg(long)]
    pub json: bool,
}

/// `key expire`.
#[derive(Debug, Args)]
pub struct ExpireKeyArgs {
    /// Which key.
    #[command(flatten)]
    pub key: KeyArgs,
    /// From when on.
    #[command(flatten)]
    pub when: ExpireWhen,
}

/// One of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ExpireWhen {
    /// At this time, such as 2027-01-01 or 2027-01-01T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = key::time)]
    pub at: Option<SystemTime>,
    /// So long from now, such as 30d; 0s is now
    #[arg(long = "in", value_name = "SPAN", value_parser = key::span)]
    pub span: Option<Duration>,
    /// Not at all; its caller may expire all the same
    #[arg(long)]
    pub never: bool,
}

/// `key rotate`.
#[derive(Debug, Args)]
pub struct RotateKeyArgs {
    /// Which key.
    #[command(flatten)]
    pub key: KeyArgs,
    /// So long the secret before works beside the new one; 0s ends it, and all others before it, at
    /// once
    #[arg(long, value_name = "SPAN", value_parser = key::span, default_value = "24h")]
    pub overlap: Duration,
}

/// `prices`.
#[derive(Debug, Args)]
pub struct PricesArgs {
    /// What the targets of this configuration folder's catalog cost, and where that is known from
    #[arg(long, value_name = "DIR")]
    pub conf: Option<PathBuf>,
}

/// `schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Of which file
    #[arg(value_enum)]
    pub of: SchemaOf,
}

/// The files that have a schema.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum SchemaOf {
    /// server.yaml
    Server,
    /// catalog.yaml and those of catalog.d
    Catalog,
}

/// Runs the subcommand that the process was started with.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(wrong) => {
            let error = discreet(wrong);
            // If this cannot be printed, nor can another error.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let done = match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => Ok(explain::run(&args)),
        Command::Usage(args) => usage::run(&args),
        Command::Key(command) => key::run(&command),
        Command::Schema(args) => Ok(schema::run(&args)),
        Command::Presets => Ok(presets::run()),
        Command::Prices(args) => prices::run(&args),
    };
    done.unwrap_or_else(|why| fail(&why))
}

/// Takes out of an error what the person typed, unless it is nearly a word of ours: it may be a
/// secret.
fn discreet(mut wrong: clap::Error) -> clap::Error {
    use clap::error::{ContextKind as Kind, ContextValue as Value, ErrorKind};
    let near = |given: Option<&Value>, meant: Option<&Value>| match (given, meant) {
        (Some(Value::String(given)), Some(Value::String(meant))) => quoted(given, [meant.as_str()]).is_some(),
        (Some(Value::String(given)), Some(Value::Strings(meant))) => {
            quoted(given, meant.iter().map(String::as_str)).is_some()
        }
        _ => false,
    };
    let unknown = wrong.kind() == ErrorKind::UnknownArgument;
    for (kind, meant, is_foreign) in [
        (Kind::InvalidArg, Kind::SuggestedArg, unknown),
        (Kind::InvalidSubcommand, Kind::SuggestedSubcommand, true),
        (Kind::InvalidValue, Kind::SuggestedValue, true),
    ] {
        if is_foreign && wrong.get(kind).is_some() && !near(wrong.get(kind), wrong.get(meant)) {
            wrong.insert(kind, Value::String("…".to_owned()));
            // The advice repeats it.
            wrong.remove(Kind::Suggested);
        }
    }
    wrong
}

/// Says that there is nothing of this name, and which name may be meant, or else `advice`. The name
/// is repeated only where it is nearly a known one: it may be a secret.
fn no_such<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>, advice: &str) -> String {
    let known: Vec<&str> = known.collect();
    let nothing = match quoted(name, known.iter().copied()) {
        Some(_) => format!("there is no {what} {name}"),
        None => format!("there is no such {what}"),
    };
    let hint = nearest(name, known).map_or_else(|| advice.to_owned(), |meant| format!("; did you mean {meant}?"));
    nothing + &hint
}

/// Prints a result. If the reader is gone, `println!` would panic; this fails.
fn print(text: &str) -> ExitCode {
    if write(text.as_bytes()).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints a line to standard error.
fn tell(text: &str) {
    // If this cannot be printed, nor can another error.
    drop(writeln!(io::stderr().lock(), "{text}"));
}

fn fail(why: &str) -> ExitCode {
    tell(why);
    ExitCode::FAILURE
}
