//! The variables from which providers' own programs read what the catalog has in fields. The
//! gateway does not read them: `init` writes their values down, and the doctor warns of them.

use super::report::{Checked, Findings, Subject};
use dialects::upstream::BaseUrl;
use portcullis::catalog::{Account, Catalog};
use portcullis::conf::config::Listen;

/// The fields besides the key whose values providers' own programs read from variables: the
/// account, the field, the variables, and the path that the programs add.
pub(crate) const OTHER_FIELDS: [(&str, &str, &[&str], &str); 6] = [
    (
        "openai",
        "base_url",
        &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        "",
    ),
    ("anthropic", "base_url", &["ANTHROPIC_BASE_URL"], "/v1"),
    ("gemini", "base_url", &["GOOGLE_GEMINI_BASE_URL"], "/v1beta"),
    (
        "azure",
        "base_url",
        &["AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE"],
        "",
    ),
    (
        "bedrock",
        "region",
        &["AWS_REGION", "AWS_DEFAULT_REGION"],
        "",
    ),
    ("vertex", "project", &["GOOGLE_CLOUD_PROJECT"], ""),
];

/// Warns of variables with another address than the one that an account asks by default:
/// providers' own programs read them, and the gateway does not.
///
/// The gateway's own address is no such address: its clients have it in the same variables.
pub(super) fn check_ignored_addresses(
    catalog: &Catalog,
    listeners: &[Listen],
    report: &mut Findings,
    read_variable: impl Fn(&str) -> Option<String>,
) {
    let ports: Vec<u16> = listeners.iter().map(|one| one.address.port()).collect();
    let read_variable = |name: &str| read_variable(name).filter(|url| !is_own_address(url, &ports));
    for account in catalog.accounts() {
        if let Some(seen) = ignored_address(account, read_variable) {
            let remedy = format!(
                "write `base_url` with the address that is meant; {} is the present one",
                account.base.url()
            );
            report.add(Subject::single("configuration").warn("environment", seen, remedy));
        }
    }
}

/// Returns whether a URL leads to one of these ports of this machine.
fn is_own_address(url: &str, ports: &[u16]) -> bool {
    let rest = url.trim().split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|name| ports.iter().any(|port| host == format!("{name}:{port}")))
}

/// Writes which variable has another address than the one that an account asks by default. An
/// account with a preset has the preset's address, which no variable changes.
fn ignored_address(
    account: &Account,
    read_variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let protocol = account.dialect.protocol;
    let asked = account.base.url();
    let has_default = matches!(protocol.base_url, BaseUrl::Fixed(default) if default == asked);
    if !account.enabled || account.has_written_base || !has_default {
        return None;
    }
    let (variables, path) = address_variables(protocol.name)?;
    let mut set = variables
        .iter()
        .filter_map(|name| Some((name, read_variable(name)?)));
    let (name, _) = set.find(|(_, value)| {
        let value = value.trim().trim_end_matches('/');
        !value.is_empty() && value != asked && format!("{value}{path}") != asked
    })?;
    Some(format!(
        "{name} is set in this environment, and the gateway does not read it: account `{}` asks {asked}",
        account.id
    ))
}

/// Returns the variables from which a dialect's own programs read the address of the server, and
/// the path that they add.
fn address_variables(dialect: &str) -> Option<(&'static [&'static str], &'static str)> {
    let mut rows = OTHER_FIELDS.iter();
    rows.find(|(name, field, ..)| *name == dialect && *field == "base_url")
        .map(|(_, _, variables, path)| (*variables, *path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis::catalog::resolve::resolve_catalog;

    /// Returns what is written of an account of this text while the variables have this value.
    fn ignored(account: &str, value: &str) -> Option<String> {
        let text = format!(
            "accounts:\n  a: {{ {account}, key: k-0123456789 }}\nmodels: {{}}\ncallers: {{}}\n"
        );
        let files = [("catalog.yaml".to_owned(), text)];
        let catalog = resolve_catalog(&files, &mut |_| Ok(String::new())).expect("a catalog");
        let is_address = |name: &str| name.ends_with("_BASE_URL");
        ignored_address(&catalog.accounts()[0], |name| {
            is_address(name).then(|| value.to_owned())
        })
    }

    #[test]
    fn a_listeners_address_is_the_gateways_own() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://localhost:8080", true),
            ("http://[::1]:8080", true),
            ("http://127.0.0.1:11434/v1", false),
            ("http://localhost:80801", false),
            ("https://10.0.0.1:8080/v1", false),
        ] {
            assert_eq!(is_own_address(url, &[8080]), expected, "{url}");
        }
    }

    #[test]
    fn a_variable_with_another_address_is_named() {
        let other = "http://10.0.0.1/v1";
        for (dialect, variable, asked) in [
            ("openai", "OPENAI_BASE_URL", "https://api.openai.com/v1"),
            (
                "anthropic",
                "ANTHROPIC_BASE_URL",
                "https://api.anthropic.com/v1",
            ),
        ] {
            let expected = format!(
                "{variable} is set in this environment, and the gateway does not read it: account `a` asks {asked}"
            );
            let account = format!("dialect: {dialect}");
            assert_eq!(ignored(&account, other), Some(expected));
            for same in ["", asked, asked.trim_end_matches("/v1")] {
                // OpenAI's programs add no path.
                if dialect == "anthropic" || same != "https://api.openai.com" {
                    assert_eq!(ignored(&account, same), None, "{same}");
                }
            }
        }
        for account in [
            "dialect: openai, base_url: \"https://api.openai.com/v1\"",
            "dialect: openai, enabled: false",
            "dialect: openai, preset: groq",
        ] {
            assert_eq!(ignored(account, other), None, "{account}");
        }
    }
}
