//! `portcullis init` makes a first configuration: it looks for providers' keys in the environment
//! and for servers on this machine, asks what it needs, and writes a folder and a first key.
//!
//! | Module | What is there |
//! |---|---|
//! | `accounts` | the accounts that may be used, and what the environment has of them |
//! | `dialogue` | the questions |
//! | `local` | servers on this machine |
//! | `models` | the models that are offered and chosen |
//! | `texts` | what the new files say |
//!
//! **Invariant:** no secret is printed, and the only one that is written is the new key. Without a
//! yes nothing leaves this machine. Files are written after the last question, all or none.

mod accounts;
mod dialogue;
mod local;
mod models;
mod texts;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokio::runtime::Runtime;

use super::doctor::accounts::{CREDENTIAL, check_each};
use super::doctor::checks_runtime;
use super::doctor::report::{CheckState, Finding, wrap_text};
use super::key::secret::NewSecret;
use super::new_files::{NewFile, check_free, write_files};
use super::schema::schema_text;
use super::{SchemaOf, write_stdout};
use accounts::FoundAccount;
use dialogue::Dialogue;
use models::ChosenModel;
use portcullis::base::problem::{no_such_or_advice, unless_secret};
use portcullis::base::table::format_columns;
use portcullis::catalog::load::{Secrets, load_folder};
use portcullis::catalog::name;
use texts::NewCaller;

/// The folder that commands read if none is given.
const USUAL_FOLDER: &str = "conf";
/// The port for callers that `try` asks if no URL is given.
const USUAL_PORT: u16 = 8080;
/// The usual port of the admin listener.
const USUAL_ADMIN_PORT: u16 = 9090;
/// The width of lines that are made of foreign texts.
const WIDTH: usize = 78;

/// `init`.
#[derive(Debug, Args)]
#[command(
    after_help = "It looks for the variables that providers name in their documentation, such as OPENAI_API_KEY, and for Ollama, vLLM, \
                  llama.cpp, LM Studio and servers like them. Without a terminal it needs --yes, --account or --demo.\n\n\
                  Exit code: 0 if the files were written, 1 if nothing was."
)]
pub struct InitArgs {
    /// The folder to make, for server.yaml and catalog.yaml [default: conf]
    #[arg(long, value_name = "DIR")]
    pub conf: Option<PathBuf>,
    /// Use this account, of those that are found. For several use commas, or repeat the option
    /// [default: all]
    #[arg(long = "account", value_name = "NAME", value_delimiter = ',')]
    pub accounts: Vec<String>,
    /// Serve this model, by its provider's name for it. With several accounts write ACCOUNT/MODEL.
    /// For several models use commas, or repeat the option
    #[arg(long = "model", value_name = "MODEL", value_delimiter = ',')]
    pub models: Vec<String>,
    /// Ask the providers, over the internet, whether they take the keys, and which models they
    /// have. It is free. Servers on this machine are asked in any case
    #[arg(long)]
    pub online: bool,
    /// Look for a server at this address, such as 10.0.0.5:8000, and not at the usual ports of this
    /// machine. It has no key: a server with one is found by OPENAI_API_KEY and OPENAI_BASE_URL.
    /// May be repeated. `none` looks for no server
    #[arg(long = "server", value_name = "ADDRESS")]
    pub servers: Vec<String>,
    /// The owner of the first key: a person, a team or a program [default: me]
    #[arg(long, value_name = "NAME", value_parser = read_name)]
    pub caller: Option<String>,
    /// The name of the first key
    #[arg(long, value_name = "NAME", default_value = "first", value_parser = read_name)]
    pub key: String,
    /// The file to make for the first key. Only you can read it
    #[arg(long, value_name = "FILE", default_value = "portcullis.key")]
    pub key_file: PathBuf,
    /// Ask nothing: use all accounts that are found, and the defaults
    #[arg(long)]
    pub yes: bool,
    /// Write the demo, which needs no provider. Nothing is looked for
    #[arg(long, conflicts_with_all = ["accounts", "models", "online", "servers"])]
    pub demo: bool,
}

/// The accounts that the environment and this machine have.
#[derive(Default)]
struct Found {
    accounts: Vec<FoundAccount>,
    /// True if a provider's key is there, and cannot be used.
    has_unusable_key: bool,
}

/// Makes a configuration.
pub(super) fn run(args: &InitArgs) -> Result<ExitCode, String> {
    let dialogue = Dialogue::open(args.yes);
    check_files(args, &dialogue)?;
    let runtime = checks_runtime()?;
    let Found {
        accounts: found,
        has_unusable_key,
    } = if args.demo {
        Found::default()
    } else {
        find_accounts(&args.servers, &runtime)?
    };
    if !dialogue.is_open && !args.yes && !args.demo && args.accounts.is_empty() {
        return Err(NO_TERMINAL.to_owned());
    }
    if args.yes && found.is_empty() && has_unusable_key {
        return Err("Nothing was written: mend what is left out above, or write --demo".to_owned());
    }
    let mut accounts = choose_accounts(args, found, &dialogue)?;
    let models = if accounts.is_empty() {
        Vec::new()
    } else {
        check_accounts(args.online, &mut accounts, &dialogue, &runtime)?;
        models::choose_models(&args.models, &accounts, &dialogue)?
    };
    let question = "Who gets the first key: a person, a team or a program?";
    let caller = match &args.caller {
        Some(caller) => caller.clone(),
        None => dialogue.ask(question, "me", read_name)?,
    };
    let conf = match &args.conf {
        Some(conf) => conf.clone(),
        None => dialogue.ask("Folder for the configuration?", USUAL_FOLDER, |name| {
            check_free(&[Path::new(name)], "another folder")?;
            Ok(PathBuf::from(name))
        })?,
    };
    if dialogue.is_open {
        print_text("\n")?;
    }
    write_all(args, &conf, &caller, &accounts, &models)
}

const NO_TERMINAL: &str =
    "Nothing was written: there is no terminal to ask at. --yes takes all that is
found, or else the demo; --account NAME and --model MODEL choose; --demo writes
the demo, which needs no provider. `portcullis init --help` lists all options.";

/// Prints a text.
fn print_text(text: &str) -> Result<(), String> {
    write_stdout(text.as_bytes()).map_err(|why| format!("the output cannot be printed: {why}"))
}

/// Reads the name of a caller or a key.
fn read_name(name: &str) -> Result<String, String> {
    name::of_entry(name)?;
    Ok(name.to_owned())
}

/// Checks that nothing would be overwritten, as far as the files are known.
fn check_files(args: &InitArgs, dialogue: &Dialogue) -> Result<(), String> {
    let key_file = args.key_file.to_string_lossy();
    if unless_secret(&key_file) != key_file {
        return Err("--key-file: write the name of a new file, never a key".to_owned());
    }
    if args.key_file.is_dir() {
        return Err(format!("--key-file: {key_file} is a folder"));
    }
    let conf = args.conf.as_deref().unwrap_or(Path::new(USUAL_FOLDER));
    let is_asked = args.conf.is_none() && dialogue.is_open;
    if is_asked && check_free(&[&args.key_file], "").is_ok() {
        return Ok(());
    }
    let instead = "others with --key-file and --conf";
    check_free(&[&args.key_file, conf], instead).map_err(|why| {
        if conf.join("catalog.yaml").exists() {
            let serve = texts::serve_command(conf);
            format!("{why}\nTo serve what is there: {serve}")
        } else {
            why
        }
    })
}

/// Looks for accounts in the environment and on this machine, and prints what there is.
fn find_accounts(servers: &[String], runtime: &Runtime) -> Result<Found, String> {
    let (mut found, mut notes) = accounts::find_providers();
    let has_unusable_key = !notes.is_empty();
    notes.extend(accounts::profile_note(&found).map(str::to_owned));
    if servers != ["none"] {
        let (addresses, within) = local::addresses_to_ask(servers);
        for (url, result) in runtime.block_on(local::probe_servers(&addresses, within))? {
            match result {
                Ok(account) => found.push(account),
                Err(why) if !servers.is_empty() => {
                    return Err(format!("Nothing was written: {url} {why}"));
                }
                Err(why) if [local::NEEDS_KEY, local::LATE].contains(&why) => {
                    notes.push(format!("{url} {why}, so it is left out"));
                }
                Err(_) => {}
            }
        }
    }
    let mut text = if found.is_empty() {
        "Found no key of a provider in the environment, and no server of models.\n".to_owned()
    } else {
        let rows = found.iter().zip(1_u32..).map(|(account, number)| {
            let number = format!("  {number}");
            [number, account.name.clone(), account.seen.clone()]
        });
        format!("Found:\n{}", format_columns(rows, 3))
    };
    for note in notes {
        text.push_str(&wrap_text("  -  ", 5, WIDTH, &note));
    }
    print_text(&(text + "\n"))?;
    Ok(Found {
        accounts: found,
        has_unusable_key,
    })
}

/// Takes the accounts that are named, or asks which. None is the demo.
fn choose_accounts(
    args: &InitArgs,
    mut found: Vec<FoundAccount>,
    dialogue: &Dialogue,
) -> Result<Vec<FoundAccount>, String> {
    let names: Vec<String> = found.iter().map(|account| account.name.clone()).collect();
    let wanted = if !args.accounts.is_empty() {
        let wanted = args.accounts.iter().map(|name| find_name(name, &names));
        let wanted = wanted.collect::<Result<Vec<String>, String>>();
        wanted.map_err(|why| format!("--account: {why}"))?
    } else if found.is_empty() {
        if !args.demo && !args.models.is_empty() {
            return Err("--model: there is no account that could serve it".to_owned());
        }
        if !args.demo && !dialogue.confirms("Write the demo, which needs no provider?")? {
            return Err("Nothing was written.".to_owned());
        }
        Vec::new()
    } else {
        dialogue.ask("Which to use? Numbers or names", "all", |text| match text {
            "all" => Ok(names.clone()),
            text => models::read_picks(text, &names, |name| find_name(name, &names)),
        })?
    };
    found.retain(|account| wanted.contains(&account.name));
    Ok(found)
}

/// Finds the name of an account.
fn find_name(name: &str, names: &[String]) -> Result<String, String> {
    let known = names.iter().map(String::as_str);
    let advice = "; a provider is found by its key in the environment";
    match names.iter().find(|known| *known == name) {
        Some(name) => Ok(name.clone()),
        None => Err(no_such_or_advice("account", name, known, advice)),
    }
}

/// Checks accounts as `doctor` does, and takes their lists of models. Those outside of this machine
/// are asked only after a yes.
fn check_accounts(
    online: bool,
    accounts: &mut [FoundAccount],
    dialogue: &Dialogue,
    runtime: &Runtime,
) -> Result<(), String> {
    let outside = accounts.iter().filter(|account| !account.is_nearby());
    let outside: Vec<String> = outside.map(|account| account.name.clone()).collect();
    let outside_names = outside.join(", ");
    let question = format!(
        "Ask {outside_names} over the internet: is the key good, and which models are\nthere? It is free."
    );
    let is_asked =
        online || (!outside.is_empty() && dialogue.is_open && dialogue.confirms(&question)?);
    let (mut checked, mut ready_accounts) = (Vec::new(), Vec::new());
    for account in accounts {
        if is_asked || account.is_nearby() {
            ready_accounts.push(account.ready_account.clone());
            checked.push(account);
        }
    }
    let results = runtime.block_on(check_each(ready_accounts));
    for (account, result) in checked.into_iter().zip(results) {
        print_text(&account_text(account, &result.findings))?;
        account.has_failed = result.findings.iter().any(Finding::is_failure);
        account.listed = result.server_report.listed.or(account.listed.take());
    }
    let note = if is_asked || outside.is_empty() {
        String::new()
    } else {
        format!("  {outside_names}: not asked, since it is not on this machine; --online asks\n")
    };
    print_text(&(note + "\n"))
}

/// Writes what the check of an account has found of its key, and what is wrong.
fn account_text(account: &FoundAccount, findings: &[Finding]) -> String {
    let id = &account.name;
    let mut text = String::new();
    for finding in findings {
        let is_bad = matches!(finding.state, CheckState::Warn | CheckState::Fail);
        if is_bad || finding.check == CREDENTIAL {
            let head = format!("  {id}: {}: ", finding.state.name());
            text.push_str(&wrap_text(&head, 5, WIDTH, &finding.seen));
        }
        if let Some(remedy) = &finding.remedy {
            // There is no catalog yet that names the variable.
            let place = format!("write a valid key into the place that accounts.{id}.key names");
            let remedy =
                remedy.replace(&place, &format!("export a valid {}", account.key_variable));
            text.push_str(&wrap_text("     -> ", 8, WIDTH, &remedy));
        }
    }
    text
}

/// Writes all files, reads them as `serve` would, and prints what to do next.
fn write_all(
    args: &InitArgs,
    conf: &Path,
    caller: &str,
    accounts: &[FoundAccount],
    models: &[ChosenModel],
) -> Result<ExitCode, String> {
    let ports = [USUAL_PORT, USUAL_ADMIN_PORT].map(|port| free_port(port, accounts));
    let secret = NewSecret::make()?;
    let caller = NewCaller {
        name: caller,
        key: &args.key,
        secret: &secret,
    };
    let server = texts::server_text(accounts, ports);
    let catalog = texts::catalog_text(accounts, models, &caller);
    let of_conf = [
        ("server.yaml", server),
        ("catalog.yaml", catalog),
        ("schema/server.schema.json", schema_text(SchemaOf::Server)),
        ("schema/catalog.schema.json", schema_text(SchemaOf::Catalog)),
    ];
    let of_conf = of_conf.map(|(name, text)| NewFile {
        path: conf.join(name),
        text,
        mode: 0o666,
    });
    let key = NewFile {
        path: args.key_file.clone(),
        text: format!("{}\n", secret.text),
        mode: 0o600,
    };
    let files: Vec<NewFile> = of_conf.into_iter().chain([key]).collect();
    let written = write_files(&files).map_err(|why| format!("Nothing was written: {why}"))?;
    let loaded = load_folder(conf, Secrets::Read).map_err(|problems| {
        written.remove();
        format!("Nothing was written, because the new files would have errors:\n{problems}")
    })?;
    let notes = loaded.catalog.warnings.into_iter();
    let notes = notes.map(|warning| wrap_text("", 2, WIDTH, &format!("Note: {warning}")));
    let text = notes.collect::<String>() + &texts::next_steps(args, conf, ports, accounts, models);
    // The files are there, also if nobody reads this.
    drop(print_text(&text));
    Ok(ExitCode::SUCCESS)
}

/// Returns this port of this machine, or the first one after it that no program has. The port of an
/// account is not taken either, even if nothing listens there: the gateway would ask itself.
fn free_port(first_port: u16, accounts: &[FoundAccount]) -> u16 {
    (first_port..=first_port.saturating_add(20))
        .find(|port| {
            accounts
                .iter()
                .all(|other| other.account().base.port != *port)
                && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()
        })
        .unwrap_or(first_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_another_program_is_left_to_it() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = other.local_addr().expect("an address").port();
        assert!(free_port(port, &[]) > port);
        drop(other);
        let base_url = format!("http://127.0.0.1:{port}/v1");
        let fields = vec![
            ("dialect", "openai".into()),
            ("base_url", (&*base_url).into()),
        ];
        let account = FoundAccount::new("a".to_owned(), fields, String::new());
        assert!(free_port(port, &[account.expect("an account")]) > port);
    }
}
