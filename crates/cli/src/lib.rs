//! The command line: reads the arguments and runs one subcommand. Each subcommand has a file.
//!
//! | Module | What is there |
//! |---|---|
//! | `check` | the errors of a configuration, and what an edit of it changes |
//! | `doctor` | everything that a gateway needs, looked up |
//! | `explain` | what would become of a request |
//! | `http` | requests to a running gateway |
//! | `import` | a configuration folder made of the files of another gateway |
//! | `init` | a first configuration folder, with a first key |
//! | `key` | the keys in the files of the catalog |
//! | `manual` | manual pages, and scripts for shells |
//! | `new_files` | files that are written whole or not at all |
//! | `presets` | well-known servers |
//! | `prices` | what models cost |
//! | `ready` | whether a gateway is ready |
//! | `schema` | JSON Schemas of the configuration |
//! | `serve` | the gateway |
//! | `try_gateway` | what a client gets from a server |
//! | `usage` | what was used, and what it cost |
//! | `version` | which build this is |

use std::env;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Parser, Subcommand};

use portcullis::base::problem::{quote_near_miss, unless_secret};
use portcullis::catalog::load;
use portcullis::conf::proxy::Proxies;
use portcullis::ledger::report;

mod check;
mod doctor;
mod explain;
mod http;
mod import;
mod init;
mod key;
mod manual;
mod new_files;
mod presets;
mod prices;
mod ready;
mod schema;
mod serve;
mod try_gateway;
mod usage;
mod version;

pub use doctor::DoctorArgs;
pub use init::InitArgs;
pub use manual::{CompletionArgs, KnownShell, ManArgs};
pub use try_gateway::TryArgs;
pub use version::VersionArgs;

/// Returns the proxies that the environment names.
fn environment_proxies() -> Result<Proxies, String> {
    Proxies::from_environment(|name| Ok(env::var(name).unwrap_or_default()))
        .map(|(proxies, _)| proxies)
}

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
    /// Make a first configuration: find providers and servers, ask, and write a folder and a key.
    ///
    /// It overwrites nothing, and writes all files after the last question or none. Keys of
    /// providers are written by the names of their variables. Nothing leaves this machine without a
    /// yes or --online.
    Init(InitArgs),
    /// Serve callers.
    Serve(ServeArgs),
    /// Check the configuration: read it as `serve` does, and print its errors.
    Check(CheckArgs),
    /// Check everything that a gateway with this configuration needs, and say what to do.
    ///
    /// It looks at the configuration, the limits of the process, the listeners and their
    /// certificates, the ledger and its disk, the store, and each account: its name, its server,
    /// its certificate, its credential and its models. Without --ask it sends nothing that a
    /// provider charges for. It changes nothing.
    Doctor(DoctorArgs),
    /// Ask a running gateway whether it is ready. For health checks
    Ready(ReadyArgs),
    /// Ask a running gateway, or any server of its format, as a client does, and check the answers.
    ///
    /// It lists the models, takes one, and sends it two small requests: one is answered whole, one
    /// as a stream. It checks the format of the answers, and prints the status, the id, the model,
    /// the times, the tokens and the cost of each, and what deviates. Providers charge for the two
    /// requests.
    Try(TryArgs),
    /// Explain what the gateway would do with a request, and why. No upstream is called.
    Explain(ExplainArgs),
    /// Show how much callers, keys and models used, and what it cost.
    Usage(UsageArgs),
    /// Make, list and change keys in the files of the catalog.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Make a configuration folder of the files of another gateway.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Print the JSON Schema of a configuration file.
    Schema(SchemaArgs),
    /// List the servers that an account can name as its `preset`.
    Presets,
    /// List the prices of well-known models, or of the models of a catalog.
    Prices(PricesArgs),
    /// Print which build this is.
    Version(VersionArgs),
    /// Print the script with which a shell completes these commands.
    Completion(CompletionArgs),
    /// Write a manual page for each command.
    Man(ManArgs),
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
        load::choose_folder(self.conf.as_deref())
    }
}

/// `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Listen at this address, such as 127.0.0.1:8080, instead of the ones in server.yaml. It
    /// serves plain HTTP/1, without the `tls` and `h2c` of server.yaml
    #[arg(long, value_name = "ADDRESS", num_args = 1.., value_parser = listen_address)]
    pub listen: Vec<SocketAddr>,
}

/// `check`.
#[derive(Debug, Args)]
#[command(
    after_help = "With --diff, the changes come in this order: what breaks requests, what is tighter, what else changes, what is wider, and \
                  what needs a restart. Keys, models and callers are named, and no secret is. `--json` writes `changes`, each with its \
                  `effect` (breaks, tightens, changes, widens, restart), and how many there are of each effect in `counts`.\n\nExit code: 0 if \
                  the configuration has no error, and the comparison was made, whatever it found; 1 if not."
)]
pub struct CheckArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Do not read secrets, CA files and certificates. Use this in CI, where they are missing
    #[arg(long)]
    pub no_secrets: bool,
    /// Show also what the files would change, and for whom, compared with a running gateway: the
    /// one at the `admin` address of server.yaml, or the one at a URL such as
    /// http://10.0.0.7:9090. With a folder: compared with the files in it
    #[arg(long, value_name = "URL|DIR", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub diff: Option<String>,
    /// Write the comparison as JSON
    #[arg(long, requires = "diff")]
    pub json: bool,
}

/// `ready`.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 if the gateway is ready, 1 if it is not or does not answer.")]
pub struct ReadyArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// The page that answers 200 when the gateway is ready [default: /readyz at the `admin` address
    /// of server.yaml]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

/// `explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 if the request would be sent to an upstream, 1 if not, 2 if the command failed, 3 if the request would probably \
                  be sent, but the gateway of --status does not show its state, or how much of the limits is used."
)]
pub struct ExplainArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// The id of the key that sends the request, such as acme/prod. Never write the secret here
    #[arg(long, value_name = "CALLER/NAME", required_unless_present = "doors")]
    pub key: Option<String>,
    /// The front door that the request comes in by: chat, messages, responses, gemini or
    /// gemini_array
    #[arg(long, value_name = "DOOR", default_value = "chat")]
    pub door: String,
    /// The model, where the path of the door names it (gemini, gemini_array)
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The request asks for a stream (gemini, gemini_array: their path decides it)
    #[arg(long)]
    pub stream: bool,
    /// Show what each front door loses at each target of this model. There is no request then
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["key", "status", "headers", "model", "stream", "request"])]
    pub doors: Option<String>,
    /// The status of a running instance: the URL of its /status page, such as
    /// http://127.0.0.1:9090/status, or a file with that page
    #[arg(long, value_name = "URL|FILE")]
    pub status: Option<String>,
    /// The file with the key of the admin listener, which shows how much of the limits is used
    /// [default: PORTCULLIS_ADMIN_KEY in the environment, or `admin.key` of server.yaml]
    #[arg(long, value_name = "FILE", requires = "status")]
    pub admin_key: Option<PathBuf>,
    /// A header of the request: `x-portcullis-session: …`, `x-portcullis-timeout: …`, or one in
    /// which clients of the door name their session
    #[arg(long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
    /// The file with the request's body, as the caller sends it; - is standard input
    #[arg(value_name = "REQUEST.json", required_unless_present = "doors")]
    pub request: Option<PathBuf>,
}

/// `usage`.
#[derive(Debug, Args)]
#[command(
    after_help = "Columns: requests; failed requests (their outcome is not ok); tokens; requests whose tokens are an estimate; cost in USD, \
                  as far as prices are known; requests without a known price; tokens that a provider may charge for attempts whose answer \
                  no caller got.\n\nCosts are exact. `unknown` (empty in CSV, null in JSON) means that the cost is unknown. `>=0.25` means \
                  that a part of the cost is unknown, and that the known part is 0.25. In CSV and JSON `cost_known` says how much is known: \
                  all, part or none; `unused_cost_known` is about `unused_cost_usd`.\nExit code: 0 on success, even if there \
                  were no requests in that time; 1 if there is no ledger, if it cannot be read, if the value of an option is wrong, or if \
                  neither the catalog nor the ledger has the caller, the key or the model; 2 if an option does not exist."
)]
pub struct UsageArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Group by these: caller, key, model, account, upstream_model, day, outcome, door
    #[arg(long, value_name = "NAMES", default_value = report::DEFAULT_GROUPS)]
    pub by: String,
    /// The start of the time: 30m, 24h or 7d ago, a date (2026-11-01, in UTC) or a time
    /// (2026-11-01T08:00:00Z)
    #[arg(long, value_name = "TIME", default_value = report::DEFAULT_SINCE)]
    pub since: String,
    /// The end of the time, written as for --since [default: now]
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Only this caller
    #[arg(long)]
    pub caller: Option<String>,
    /// Only this key, such as acme/prod
    #[arg(long, value_name = "CALLER/NAME")]
    pub key: Option<String>,
    /// Only this model, by its id in the catalog
    #[arg(long)]
    pub model: Option<String>,
    /// Write CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// `key …`.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key: print its secret once, and write its hash into catalog.d/keys-CALLER.yaml.
    ///
    /// The first 15 characters of the secret are written after the hash (`# sk-1a2B3c4D5e6-…`).
    /// With them you can find the owner of a key, or of a part of a key, that is found somewhere.
    /// These characters are made separately from the rest of the secret. The rest is 256 random
    /// bits, and no part of it is stored.
    New(NewKeyArgs),
    /// List keys: their state, when they expire, their models, their file, and when they were last
    /// used.
    List(ListKeysArgs),
    /// Show everything about one key, except its secret, which is not stored.
    Show(ShowKeyArgs),
    /// Disable a key, and wait until the gateway that runs on this folder refuses it.
    Disable(KeyArgs),
    /// Enable a key again.
    Enable(KeyArgs),
    /// Set the time at which a key expires.
    Expire(ExpireKeyArgs),
    /// Give a key a new secret, and print it once. The old secret works for a while.
    Rotate(RotateKeyArgs),
    /// Delete a key from its file. This cannot be undone; `disable` can.
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
    /// The caller that owns the key
    #[arg(long)]
    pub caller: String,
    /// What the key is for, such as prod
    #[arg(long)]
    pub name: String,
    /// Make the caller, too. The caller and the key may then use the models of --model, or all
    /// models
    #[arg(long)]
    pub create: bool,
    /// The models that the key may use, out of those of its caller: a glob over model ids. For
    /// several globs use commas, or repeat the option [default: all models of the caller]
    #[arg(
        long = "model",
        visible_alias = "models",
        value_name = "GLOB",
        value_delimiter = ','
    )]
    pub models: Vec<String>,
    /// The time at which the key expires, such as 2027-01-01 or 2027-01-01T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = key::parse_time)]
    pub expires: Option<SystemTime>,
    /// The time from now until the key expires, such as 90d
    #[arg(long, value_name = "SPAN", value_parser = key::parse_span, conflicts_with = "expires")]
    pub expires_in: Option<Duration>,
    /// Change no file: print the secret, and what to write into the catalog
    #[arg(long)]
    pub print: bool,
}

/// `key list`.
#[derive(Debug, Args)]
pub struct ListKeysArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// Only the keys of this caller
    #[arg(long)]
    pub caller: Option<String>,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// One key.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// Where the configuration is.
    #[command(flatten)]
    pub conf: ConfArgs,
    /// The id of the key, such as acme/prod. Never write the secret here
    #[arg(value_name = "CALLER/NAME")]
    pub key: String,
}

/// `key show`.
#[derive(Debug, Args)]
pub struct ShowKeyArgs {
    /// Which key.
    #[command(flatten)]
    pub key: KeyArgs,
    /// Write JSON
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
    /// The key expires at this time, such as 2027-01-01 or 2027-01-01T12:00:00Z
    #[arg(long = "at", value_name = "TIME", value_parser = key::parse_time)]
    pub time: Option<SystemTime>,
    /// The key expires after this time from now, such as 30d; 0s is now
    #[arg(long = "in", value_name = "SPAN", value_parser = key::parse_span)]
    pub span: Option<Duration>,
    /// The key never expires; its caller still may
    #[arg(long)]
    pub never: bool,
}

/// `key rotate`.
#[derive(Debug, Args)]
pub struct RotateKeyArgs {
    /// Which key.
    #[command(flatten)]
    pub key: KeyArgs,
    /// How long the old secret still works. With 0s the old secret, and all others before it, stop
    /// at once
    #[arg(long, value_name = "SPAN", value_parser = key::parse_span, default_value = "24h")]
    pub overlap: Duration,
}

/// `import …`.
#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Read LiteLLM's config.yaml and its virtual keys, and write a catalog.
    ///
    /// Nothing is sent anywhere, and no file is changed or overwritten. The report has a grade for
    /// each line: `exact`, `approximate`, `manual` (somebody has to do something) or `unsupported`.
    /// Comments in the new files have these grades, too. Keys come with their hashes, so that no
    /// key changes. A key with a limit that cannot be carried over is disabled.
    Litellm(import::ImportArgs),
}

/// `prices`.
#[derive(Debug, Args)]
pub struct PricesArgs {
    /// List the prices of the targets in the catalog of this folder, and where each price is from
    #[arg(long, value_name = "DIR")]
    pub conf: Option<PathBuf>,
}

/// `schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which file
    #[arg(value_enum, value_name = "OF")]
    pub file: SchemaOf,
}

/// The files that have a schema.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum SchemaOf {
    /// server.yaml
    Server,
    /// catalog.yaml and the files of catalog.d
    Catalog,
}

/// Runs the subcommand that the process was started with.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(wrong) => {
            let error = hide_typed(wrong);
            // If this cannot be printed, nor can another error.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let done = match cli.command {
        Command::Init(args) => init::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Check(args) => check::run(&args),
        Command::Doctor(args) => Ok(doctor::run(&args)),
        Command::Try(args) => Ok(try_gateway::run(&args)),
        Command::Ready(args) => ready::run(&args),
        Command::Explain(args) => Ok(explain::run(&args)),
        Command::Usage(args) => usage::run(&args),
        Command::Key(command) => key::run(&command),
        Command::Import(ImportCommand::Litellm(args)) => Ok(import::run(&args)),
        Command::Schema(args) => Ok(schema::run(&args)),
        Command::Presets => Ok(presets::run()),
        Command::Prices(args) => prices::run(&args),
        Command::Version(args) => Ok(version::run(&args)),
        Command::Completion(args) => Ok(manual::print_completion(&args)),
        Command::Man(args) => manual::write_pages(&args),
    };
    done.unwrap_or_else(|why| fail_with(&why))
}

/// Takes out of an error what the person typed, unless it is nearly a word of ours: it may be a
/// secret.
fn hide_typed(mut wrong: clap::Error) -> clap::Error {
    use clap::error::{ContextKind as Kind, ContextValue as Value, ErrorKind};
    let unknown = wrong.kind() == ErrorKind::UnknownArgument;
    for (kind, meant, is_foreign) in [
        (Kind::InvalidArg, Kind::SuggestedArg, unknown),
        (Kind::InvalidSubcommand, Kind::SuggestedSubcommand, true),
        (Kind::InvalidValue, Kind::SuggestedValue, true),
    ] {
        let given = wrong.get(kind);
        if is_foreign && given.is_some() && !is_near(given, wrong.get(meant)) {
            let plain = wrong
                .get(kind)
                .and_then(plain_word)
                .unwrap_or("…")
                .to_owned();
            wrong.insert(kind, Value::String(plain));
            // The advice repeats it.
            wrong.remove(Kind::Suggested);
        }
    }
    wrong
}

/// Returns whether what was typed is nearly what is meant.
fn is_near(
    given: Option<&clap::error::ContextValue>,
    meant: Option<&clap::error::ContextValue>,
) -> bool {
    use clap::error::ContextValue as Value;
    match (given, meant) {
        (Some(Value::String(given)), Some(Value::String(meant))) => {
            quote_near_miss(given, [meant.as_str()]).is_some()
        }
        (Some(Value::String(given)), Some(Value::Strings(meant))) => {
            quote_near_miss(given, meant.iter().map(String::as_str)).is_some()
        }
        _ => false,
    }
}

/// Returns what the person typed if it is plainly a flag or a word, and so no secret: short parts
/// of lower-case letters, with hyphens between them. The value of a flag is cut off.
fn plain_word(typed: &clap::error::ContextValue) -> Option<&str> {
    const MAX_WORD: usize = 24;
    const MAX_PART: usize = 10;
    let clap::error::ContextValue::String(typed) = typed else {
        return None;
    };
    let word = typed.split('=').next().unwrap_or_default();
    let is_short = word.len() <= MAX_WORD && word.split('-').all(|part| part.len() <= MAX_PART);
    let is_plain = is_short
        && word
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    (is_plain && unless_secret(word) == word).then_some(word)
}

/// Reads an address to listen at.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) if text.parse::<u16>().is_ok() => Err(format!(
            "this is a port only: write an IP address, too, such as 127.0.0.1:{text}"
        )),
        Err(_) => {
            Err("write an IP address and a port, such as 127.0.0.1:8080 or 0.0.0.0:8080".to_owned())
        }
    }
}

/// Prints a result. If the reader is gone, `println!` would panic; this fails.
fn print_result(text: &str) -> ExitCode {
    if write_stdout(text.as_bytes()).is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints a line to standard error.
fn print_error(text: &str) {
    // If this cannot be printed, nor can another error.
    drop(writeln!(io::stderr().lock(), "{text}"));
}

fn fail_with(why: &str) -> ExitCode {
    print_error(why);
    ExitCode::FAILURE
}
