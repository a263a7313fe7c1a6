//! The models of the new catalog: a few are offered of each account, and all that are named are
//! taken.

use super::accounts::FoundAccount;
use super::dialogue::Dialogue;
use super::print_text;
use crate::doctor::accounts::made_for;
use dialects::neutral::ModelKind;
use portcullis::base::problem::no_such_or_advice;
use portcullis::catalog::name;

/// The models that are shown of a list.
const MAX_SHOWN: usize = 9;
/// The models that are taken of a list of unknown ones, if nobody says which.
const TAKEN: usize = 3;

/// Well-known models of providers, the cheapest first. All are in the list of prices.
const WELL_KNOWN: [(&str, &[&str]); 6] = [
    ("openai", &["gpt-6-luna", "gpt-6.1-terra", "gpt-6.1-sol"]),
    (
        "anthropic",
        &["claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5"],
    ),
    (
        "gemini",
        &[
            "gemini-3.5-flash-lite",
            "gemini-3.5-flash",
            "gemini-2.5-pro",
        ],
    ),
    ("cohere", &["command-r7b-12-2024", "command-a-03-2025"]),
    ("groq", &["openai/gpt-oss-20b", "openai/gpt-oss-120b"]),
    ("mistral", &["mistral-small-2603", "mistral-large-2512"]),
];

/// A model of the new catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenModel {
    /// Its id, which is also the account's name for it, unless this is a pattern.
    pub(super) id: String,
    pub(super) account: String,
}

impl ChosenModel {
    /// Stands for all models that an account's provider lists.
    pub(super) fn pattern(account: &FoundAccount) -> ChosenModel {
        ChosenModel {
            id: format!("{}/*", account.name),
            account: account.name.clone(),
        }
    }

    pub(super) fn is_pattern(&self) -> bool {
        name::is_glob(&self.id)
    }
}

/// Writes how programs name the models of a pattern.
pub(super) fn pattern_note(account: &FoundAccount) -> String {
    let name = &account.name;
    let example = match offered_models(account).0.first() {
        Some(model) => format!(", such as {name}/{model}"),
        None => String::new(),
    };
    format!("Your programs ask for {name}/MODEL{example}.")
}

/// Takes the models that are named, or asks which of each account.
pub(super) fn choose_models(
    named: &[String],
    accounts: &[FoundAccount],
    dialogue: &Dialogue,
) -> Result<Vec<ChosenModel>, String> {
    let mut chosen = Vec::new();
    for name in named {
        let model = named_model(name, accounts).map_err(|why| format!("--model: {why}"))?;
        if !chosen.contains(&model) {
            chosen.push(model);
        }
    }
    if named.is_empty() {
        for account in accounts {
            chosen.extend(ask_models(account, dialogue)?);
        }
    }
    if chosen.is_empty() {
        let noun = accounts.first().map_or("models", FoundAccount::models_noun);
        let names = account_names(accounts);
        return Err(format!(
            "Nothing was written: the {noun} of {names} cannot be known. Name one with --model"
        ));
    }
    Ok(chosen)
}

fn account_names(accounts: &[FoundAccount]) -> String {
    let names: Vec<&str> = accounts.iter().map(|account| &*account.name).collect();
    names.join(", ")
}

/// Finds the account of a model: the one before the slash, or the only one.
fn named_model(text: &str, accounts: &[FoundAccount]) -> Result<ChosenModel, String> {
    let owner = text.split_once('/').and_then(|(owner, model)| {
        let account = accounts.iter().find(|account| account.name == owner)?;
        Some((account, model))
    });
    let (account, model) = match (owner, accounts) {
        (Some(owner), _) => owner,
        (None, [account]) => (account, text),
        (None, _) => {
            return Err(format!(
                "write ACCOUNT/MODEL. The accounts are {}",
                account_names(accounts)
            ));
        }
    };
    if model == "*" && account.has_list() {
        return Ok(ChosenModel::pattern(account));
    }
    Ok(ChosenModel {
        id: checked_name(model, account)?,
        account: account.name.clone(),
    })
}

/// Returns a name of a model, if the account's list has it or is not known.
fn checked_name(name: &str, account: &FoundAccount) -> Result<String, String> {
    name::of_model(name)?;
    match &account.listed {
        Some(listed) if !listed.lists_model(name) => {
            let known = listed.names.iter().map(|name| &**name);
            let message = no_such_or_advice("model", name, known, " in its list");
            Err(format!("{}: {message}", account.name))
        }
        _ => Ok(name.to_owned()),
    }
}

/// Shows some models of an account, and asks which to take.
fn ask_models(account: &FoundAccount, dialogue: &Dialogue) -> Result<Vec<ChosenModel>, String> {
    let (offered, taken) = offered_models(account);
    let (name, has_list) = (&account.name, account.has_list());
    if dialogue.is_open && !offered.is_empty() {
        print_text(&offer_text(account, &offered))?;
    }
    let all = match has_list {
        true => format!(", or all (as {name}/MODEL)"),
        false => String::new(),
    };
    let question = if offered.is_empty() {
        format!("Which {} of {name}? Names{all}", account.models_noun())
    } else {
        format!("Which ones? Numbers, names{all}")
    };
    let numbers: Vec<String> = (1..=taken).map(|number| number.to_string()).collect();
    let default = match taken {
        0 if has_list => "all".to_owned(),
        _ => numbers.join(","),
    };
    dialogue.ask(&question, &default, |text| {
        if text == "all" && has_list {
            return Ok(vec![ChosenModel::pattern(account)]);
        }
        let names = read_picks(text, &offered, |name| checked_name(name, account))?;
        let models = names.into_iter().map(|id| ChosenModel {
            id,
            account: name.clone(),
        });
        Ok(models.collect())
    })
}

/// Writes a part of the models that are offered.
fn offer_text(account: &FoundAccount, offered: &[String]) -> String {
    let known = account
        .listed
        .as_ref()
        .map_or("Well-known models", |_| "Models");
    let mut text = format!("{known} of {}:\n", account.name);
    for (model, number) in offered.iter().take(MAX_SHOWN).zip(1_u32..) {
        text.push_str(&format!("  {number}  {model}\n"));
    }
    if offered.len() > MAX_SHOWN {
        let more = offered.len() - MAX_SHOWN;
        text.push_str(&format!("  -  and {more} more\n"));
    }
    text
}

/// Returns the models of an account to choose from: the well-known ones that it has, then those of
/// its list that are for conversations. And how many are taken if nobody says which: none of those
/// that have no known price.
fn offered_models(account: &FoundAccount) -> (Vec<String>, usize) {
    let known = WELL_KNOWN
        .iter()
        .find(|(provider, _)| Some(*provider) == account.provider());
    let mut offered: Vec<String> = known.map_or_else(Vec::new, |(_, models)| {
        models.iter().map(ToString::to_string).collect()
    });
    let Some(listed) = &account.listed else {
        let taken = offered.len();
        return (offered, taken);
    };
    offered.retain(|model| listed.names.iter().any(|name| **name == **model));
    let well_known = offered.len();
    let others = listed.names.iter().map(ToString::to_string);
    let (chat, rest): (Vec<String>, Vec<String>) = others
        .filter(|name| !offered.contains(name))
        .partition(|name| made_for(None, name) == ModelKind::Chat);
    offered.extend(chat);
    if offered.is_empty() {
        offered = rest;
    }
    let taken = match account.is_own() {
        true => TAKEN.min(offered.len()),
        false => well_known,
    };
    (offered, taken)
}

/// Reads numbers of offered names, and names. `read_name` checks a name that was not offered.
pub(super) fn read_picks(
    text: &str,
    offered: &[String],
    read_name: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<String>, String> {
    let mut picked = Vec::new();
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    for word in words {
        let number = word.parse::<usize>().ok();
        let by_number = number.and_then(|number| offered.get(number.checked_sub(1)?));
        let name = match by_number.or_else(|| offered.iter().find(|name| *name == word)) {
            Some(name) => name.clone(),
            None => read_name(word)?,
        };
        if !picked.contains(&name) {
            picked.push(name);
        }
    }
    Ok(picked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis::catalog::listing::ListedNames;
    use portcullis::conf::price::list::find_price;
    use portcullis::conf::yaml::edit::NewValue;

    fn account(name: &str, fields: &[(&'static str, &str)], listed: &[&str]) -> FoundAccount {
        let fields = fields
            .iter()
            .map(|(field, value)| (*field, NewValue::text(*value)));
        let names = listed.iter().map(|name| (*name).to_owned());
        let found = FoundAccount::new(name.to_owned(), fields.collect(), String::new());
        FoundAccount {
            listed: (!listed.is_empty()).then(|| ListedNames::new(names)),
            ..found.unwrap_or_else(|why| panic!("{name}: {why}"))
        }
    }

    const OPENAI: &[(&str, &str)] = &[("preset", "openai"), ("key", "sk-0123456789")];

    #[test]
    fn well_known_models_have_a_price() {
        for (provider, models) in WELL_KNOWN {
            for model in models {
                assert!(find_price(provider, model).is_some(), "{provider} {model}");
            }
        }
    }

    #[test]
    fn well_known_models_are_offered_before_others() {
        let offered = |listed: &[&str]| {
            let (models, taken) = offered_models(&account("openai", OPENAI, listed));
            (models.join(" "), taken)
        };
        assert_eq!(
            offered(&[]),
            ("gpt-6-luna gpt-6.1-terra gpt-6.1-sol".to_owned(), 3)
        );
        let listed = [
            "a-chat",
            "gpt-6.1-sol",
            "text-embedding-3-small",
            "whisper-1",
        ];
        assert_eq!(offered(&listed), ("gpt-6.1-sol a-chat".to_owned(), 1));
        assert_eq!(offered(&["d", "b", "c", "a"]), ("a b c d".to_owned(), 0));
        assert_eq!(offered(&["whisper-1"]), ("whisper-1".to_owned(), 0));
        let own = [("dialect", "ollama"), ("base_url", "http://127.0.0.1:1")];
        let taken = offered_models(&account("ollama", &own, &["a", "b", "c", "d"])).1;
        assert_eq!(taken, 3);
        // Whose address is another may serve other models.
        let moved = [OPENAI, &[("base_url", "https://a.example/v1")]].concat();
        assert_eq!(offered_models(&account("openai", &moved, &[])).1, 0);
    }

    #[test]
    fn a_named_model_finds_its_account() {
        let azure = [
            ("dialect", "azure"),
            ("base_url", "https://a.openai.azure.com"),
            ("key", "0123456789"),
        ];
        let accounts = [
            account("openai", OPENAI, &["gpt-x", "o/y"]),
            account("azure", &azure, &[]),
        ];
        let found = |text: &str| {
            named_model(text, &accounts).map(|model| format!("{} at {}", model.id, model.account))
        };
        assert_eq!(found("openai/gpt-x"), Ok("gpt-x at openai".to_owned()));
        assert_eq!(found("openai/o/y"), Ok("o/y at openai".to_owned()));
        assert_eq!(found("openai/*"), Ok("openai/* at openai".to_owned()));
        assert_eq!(found("azure/prod"), Ok("prod at azure".to_owned()));
        let which = "write ACCOUNT/MODEL. The accounts are openai, azure";
        assert_eq!(found("prod"), Err(which.to_owned()));
        let wrong = found("openai/gpt-y").unwrap_err();
        assert!(
            wrong.contains("there is no model gpt-y") && wrong.contains("gpt-x"),
            "{wrong}"
        );
        assert!(found("azure/*").is_err() && found("azure/a b").is_err());
        let alone = named_model("prod", &accounts[1..]);
        assert_eq!(alone.map(|model| model.account), Ok("azure".to_owned()));
    }

    #[test]
    fn picks_are_numbers_and_names_each_once() {
        let offered = ["a", "b", "7"].map(str::to_owned);
        let read = |text: &str| {
            read_picks(text, &offered, |name| match name {
                "c" => Ok("c".to_owned()),
                _ => Err(format!("no {name}")),
            })
            .map(|picked| picked.join(" "))
        };
        assert_eq!(read("2, a,2 c"), Ok("b a c".to_owned()));
        assert_eq!(read("7"), Ok("7".to_owned()));
        assert_eq!(read(""), Ok(String::new()));
        assert_eq!(read("0"), Err("no 0".to_owned()));
        assert_eq!(read("4"), Err("no 4".to_owned()));
    }
}
