//! Warnings of files that sources of credentials read, and that are not there. The gateway would
//! start, and wait for them.

use std::fs::File;
use std::path::Path;

use super::expired::read_texts;
use portcullis::base::problem::Problem;
use portcullis::catalog::{Account, Catalog, Signer};
use portcullis::conf::yaml;

/// Warns of each token's file that cannot be opened, with the line of its account's source.
pub(super) fn missing_files(catalog: &Catalog, conf: &Path) -> Vec<Problem> {
    let accounts = catalog.accounts().iter();
    let missing: Vec<_> = accounts
        .filter_map(|account| missing_file(account))
        .collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let files = read_texts(conf);
    let warnings = missing.into_iter().map(|(account, field, message)| {
        let mut found = files.iter();
        let (file, line) = found
            .find_map(|(file, text)| Some((file.clone(), source_line(text, account, field)?)))
            .unzip();
        Problem {
            file: file.unwrap_or_default(),
            line,
            path: format!("accounts.{account}.{field}"),
            message,
        }
    });
    warnings.collect()
}

/// Returns the line in a file where the source of an account is written.
fn source_line(text: &str, account: &str, field: &str) -> Option<usize> {
    let (tree, _) = yaml::parse(text).ok()?;
    let root = yaml::Path::Root;
    let accounts = root.key("accounts");
    let path = accounts.entry(account, true);
    Some(tree.find(&path.key(field))?.line)
}

/// Returns the account's name, the field of its source, and what is wrong.
fn missing_file(account: &Account) -> Option<(&str, &'static str, String)> {
    let Some(Signer::Source(source)) = &account.signer else {
        return None;
    };
    let path = source.file()?;
    let error = File::open(path).err()?;
    let message = format!(
        "the file {path} cannot be read: {error}. The account has no credential until it can"
    );
    Some((&account.id, source.field(), message))
}
