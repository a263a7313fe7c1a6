//! What the new files say, and what is printed at the end.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use super::accounts::FoundAccount;
use super::models::{ChosenModel, pattern_note};
use super::{InitArgs, USUAL_ADMIN_PORT, USUAL_FOLDER, USUAL_PORT, WIDTH};
use crate::doctor::report::wrap_text;
use crate::key::secret::NewSecret;
use portcullis::base::table::format_columns;
use portcullis::conf::config::DEFAULT_LEDGER;
use portcullis::conf::yaml::edit::{NewValue, write_document};

const SERVER: &str = include_str!("templates/server.yaml");
const CATALOG: &str = include_str!("templates/catalog.yaml");
const DEMO_ACCOUNTS: &str = include_str!("templates/demo_accounts.yaml");
/// What the caller of the demo may use. With a list, it gets the demo by the names that clients ask
/// for by themselves, such as `claude-…`; without one, these are names of real models.
const DEMO_GLOBS: [&str; 2] = ["demo", "demo-*"];
const DEMO_MODELS: &str = include_str!("templates/demo_models.yaml");

/// The first caller, and its key.
pub(super) struct NewCaller<'a> {
    pub(super) name: &'a str,
    pub(super) key: &'a str,
    pub(super) secret: &'a NewSecret,
}

/// Writes server.yaml, with the port for callers and that of the admin listener.
pub(super) fn server_text(accounts: &[FoundAccount], ports: [u16; 2]) -> String {
    let [port, admin_port] = ports;
    let proxy = match accounts.iter().any(FoundAccount::is_behind_proxy) {
        true => "",
        false => "# ",
    };
    SERVER
        .replace("{proxy}", proxy)
        .replace("{port}", &port.to_string())
        .replace("{admin_port}", &admin_port.to_string())
        .replace("{ledger}", DEFAULT_LEDGER)
}

/// Writes catalog.yaml. Without accounts it is the demo.
pub(super) fn catalog_text(
    accounts: &[FoundAccount],
    models: &[ChosenModel],
    caller: &NewCaller<'_>,
) -> String {
    let (account_lines, models) = if accounts.is_empty() {
        (DEMO_ACCOUNTS.to_owned(), DEMO_MODELS.to_owned())
    } else {
        let lines = accounts
            .iter()
            .map(|account| entry_line(&account.name, &account.entry));
        (lines.collect(), model_lines(accounts, models))
    };
    let key = NewValue::map([("hash", caller.secret.value())]);
    let keys = NewValue::map([(caller.key, key)]);
    let fields = if accounts.is_empty() {
        let globs = DEMO_GLOBS.map(NewValue::text);
        let models = NewValue::List(globs.to_vec())
            .noted("add the names of other models here; without this list: every model");
        NewValue::map([("models", models), ("keys", keys)])
    } else {
        NewValue::map([("keys", keys)])
    };
    let callers = NewValue::map([(caller.name, fields)]);
    let callers = NewValue::map([("callers", callers)]);
    CATALOG
        .replace("{accounts}\n", &account_lines)
        .replace("{models}\n", &models)
        .replace("{callers}\n", &write_document(&callers))
}

/// Writes the models. An id that several accounts have gets a target of each.
fn model_lines(accounts: &[FoundAccount], models: &[ChosenModel]) -> String {
    let mut by_id: BTreeMap<&str, Vec<NewValue>> = BTreeMap::new();
    for model in models {
        let account = accounts.iter().find(|one| one.name == model.account);
        let targets = by_id.entry(&model.id).or_default();
        targets.extend(account.map(|account| target_entry(model, account)));
    }
    let mut text = String::new();
    for (id, targets) in by_id {
        text.push_str(&entry_line(
            id,
            &NewValue::map([("targets", NewValue::List(targets))]),
        ));
    }
    text
}

fn target_entry(model: &ChosenModel, account: &FoundAccount) -> NewValue {
    let mut fields = vec![("account".to_owned(), NewValue::text(&account.name))];
    if model.is_pattern() {
        fields.push(("model".to_owned(), "*".into()));
    }
    if account.is_own() {
        let free = || NewValue::Number("0".to_owned());
        let price = NewValue::map([("input", free()), ("output", free())]);
        fields.push(("price".to_owned(), price));
    }
    NewValue::Map(fields)
}

/// Writes an entry on a line of its own, below the name of its section.
fn entry_line(name: &str, entry: &NewValue) -> String {
    let map = NewValue::map([(name, entry.clone())]).flow();
    let line = map
        .strip_prefix("{ ")
        .and_then(|map| map.strip_suffix(" }"));
    format!("  {}\n", line.unwrap_or_default())
}

/// Returns the command that runs this program again. A launcher names it that leaves no command on
/// the path, such as `npx`.
fn own_command() -> String {
    env::var("PORTCULLIS_COMMAND").unwrap_or_else(|_| "portcullis".to_owned())
}

/// Returns the command that serves a folder.
pub(super) fn serve_command(conf: &Path) -> String {
    let folder = match &*conf.display().to_string() {
        USUAL_FOLDER => String::new(),
        folder => format!(" --conf {}", shell_word(folder)),
    };
    format!("{} serve{folder}", own_command())
}

/// Writes at which port something listens, and why if it is another one than usual.
fn listen_text(usual_port: u16, port: u16, listener: &str) -> String {
    let listens = format!("{listener} is at 127.0.0.1:{port}");
    match port == usual_port {
        true => listens,
        false => format!("{usual_port} is taken, so {listens}"),
    }
}

/// Writes what was written, and what to do next.
pub(super) fn next_steps(
    args: &InitArgs,
    conf: &Path,
    ports: [u16; 2],
    accounts: &[FoundAccount],
    models: &[ChosenModel],
) -> String {
    let [port, admin_port] = ports;
    let key_file = args.key_file.display().to_string();
    let server = listen_text(USUAL_PORT, port, "the gateway");
    let admin = listen_text(USUAL_ADMIN_PORT, admin_port, "the page for operators");
    let rows = [
        (conf.join("server.yaml"), &*server),
        (PathBuf::new(), &*admin),
        (conf.join("catalog.yaml"), "accounts, models and callers"),
        (
            args.key_file.clone(),
            "the first key, which your programs send",
        ),
    ];
    let rows = rows.map(|(path, about)| [format!("  {}", path.display()), about.to_owned()]);
    let mut text = format!("Written:\n{}", format_columns(rows, 2));
    for account in accounts {
        if models.contains(&ChosenModel::pattern(account)) {
            text.push_str(&wrap_text("", 2, WIDTH, &pattern_note(account)));
        }
    }
    let start = match accounts.iter().any(|account| account.has_failed) {
        true => "First mend what failed above: until then, its answers will fail.\nThen",
        false => "Now",
    };
    let url = match port {
        USUAL_PORT => String::new(),
        port => format!(" http://127.0.0.1:{port}"),
    };
    let (model, demo) = match models.first() {
        None => (" demo".to_owned(), DEMO_NOTE),
        Some(model) if model.is_pattern() => (String::new(), ""),
        Some(model) => (format!(" {}", shell_word(&model.id)), ""),
    };
    format!(
        "{text}\n{start} start the gateway:\n  {}\nAnd ask it, in another terminal:\n  \
         {} try{url} --key {}{model}\n{demo}",
        serve_command(conf),
        own_command(),
        shell_word(&key_file)
    )
}

const DEMO_NOTE: &str = "
This is the demo: Portcullis itself answers. To use a provider, stop the
gateway, export the provider's key, write its account and a model into the
catalog (lines to copy stand there), add the model to the caller's list, and
start the gateway again. Or run `init` without --demo, with another --conf and
--key-file.
";

/// Writes a word so that a shell reads it as one.
fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:@+,".contains(&byte);
    if word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_named() {
        assert_eq!(listen_text(80, 80, "it"), "it is at 127.0.0.1:80");
        assert_eq!(
            listen_text(80, 81, "it"),
            "80 is taken, so it is at 127.0.0.1:81"
        );
    }

    #[test]
    fn a_shell_reads_a_servers_word_as_one() {
        for (word, expected) in [
            ("llama3.2:3b", "llama3.2:3b"),
            ("org/model", "org/model"),
            ("a b", "'a b'"),
            ("x;$(y)", "'x;$(y)'"),
            ("it's", "'it'\\''s'"),
        ] {
            assert_eq!(shell_word(word), expected);
        }
    }

    #[test]
    fn models_of_one_id_share_it() {
        let account = |name: &str, port: u16| {
            let fields = vec![
                ("dialect", "openai".into()),
                (
                    "base_url",
                    NewValue::text(format!("http://127.0.0.1:{port}/v1")),
                ),
            ];
            FoundAccount::new(name.to_owned(), fields, String::new()).expect("an account")
        };
        let accounts = [account("a", 1), account("b", 2)];
        let model = |id: &str, account: &str| ChosenModel {
            id: id.to_owned(),
            account: account.to_owned(),
        };
        let models = [model("true", "a"), model("m", "a"), model("m", "b")];
        let price = "price: { input: 0, output: 0 }";
        assert_eq!(
            model_lines(&accounts, &models),
            format!(
                "  m: {{ targets: [{{ account: a, {price} }}, {{ account: b, {price} }}] }}\n  \
                 \"true\": {{ targets: [{{ account: a, {price} }}] }}\n"
            )
        );
    }
}
