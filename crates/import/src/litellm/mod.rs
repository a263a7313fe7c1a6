//! LiteLLM: its `config.yaml` becomes `catalog.yaml`, and its virtual keys
//! `catalog.d/litellm-keys.yaml`.

use super::notes::{Finding, Findings, Grade};
use super::write::{self, EntryOut, write_file, write_rest};
use super::{Checked, Given, ImportFrom, Imported, Inputs};
use access::Known;
use merged_config::MergedConfig;
use models::CatalogDraft;
use node::Spot;
use portcullis::base::problem::{Problem, looks_secret};
use portcullis::catalog::resolve::resolve_catalog;
use portcullis::conf::config;
use portcullis::conf::secret_ref::Reference;
use portcullis::conf::yaml::edit::NewValue;
use portcullis::conf::yaml::{self, Node, Value};
use rows::{Rows, read_values};
use settings::{Common, read_settings};

mod access;
mod account;
mod address;
mod bound;
mod counts;
mod credential;
mod entry;
mod keys;
mod limits;
mod merged_config;
mod models;
mod names;
mod node;
mod price;
mod provider;
mod routing;
mod rows;
mod rules;
mod settings;

pub use rules::LOOSEN_WORDS;

/// The most files that may include each other.
const MAX_FILES: usize = 100;
/// The file of the accounts and models.
const CATALOG: &str = "catalog.yaml";
/// The file of the keys.
const KEYS: &str = "catalog.d/litellm-keys.yaml";
/// The file of the gateway's own settings.
const SERVER: &str = "server.yaml";

/// LiteLLM's proxy.
pub struct LiteLlm;

impl ImportFrom for LiteLlm {
    fn import(&self, inputs: &Inputs<'_>) -> Result<Imported, Problem> {
        let findings = Findings::default();
        let files = read_included(inputs)?;
        let trees = files
            .iter()
            .map(parse_tree)
            .collect::<Result<Vec<_>, _>>()?;
        let values: Vec<_> = inputs
            .keys
            .iter()
            .map(read_values)
            .collect::<Result<_, _>>()?;
        let rows = Rows::read(inputs.keys.iter().zip(&values), &findings)?;
        let roots: Vec<Spot<'_>> = files
            .iter()
            .zip(&trees)
            .map(|(file, tree)| Spot::root(&file.name, tree, &findings))
            .collect();
        let merged = MergedConfig::new(&roots, inputs);
        let catalog_file = CatalogFile::new(&merged, &inputs.config.name);
        let mut imported = Imported::default();
        let keys = catalog_file.import_keys(&rows, inputs, &mut imported);
        imported.findings = findings.sorted();
        let catalog = catalog_file.write_with_findings(&imported.findings, &files);
        imported.files.push((CATALOG.to_owned(), catalog));
        imported
            .files
            .extend(keys.map(|text| (KEYS.to_owned(), text)));
        let server = catalog_file.common.redis.as_ref().map(write_server);
        imported.check = check_files(&imported.files, server.as_deref());
        imported
            .files
            .extend(server.map(|text| (SERVER.to_owned(), text)));
        imported.secrets = catalog_file.draft.secrets;
        imported.secrets.sort();
        imported.secrets.dedup();
        Ok(imported)
    }
}

/// Reads the file and all files that it includes, those included last.
fn read_included(inputs: &Inputs<'_>) -> Result<Vec<Given>, Problem> {
    // What is read here is read again by `import`: only faults count now.
    let findings = Findings::default();
    let mut files = vec![inputs.config.clone()];
    let mut file_index = 0;
    while let Some(file) = files.get(file_index).cloned() {
        file_index += 1;
        let tree = parse_tree(&file)?;
        let root = Spot::root(&file.name, &tree, &findings);
        let include = root.get("include");
        for (item_index, item) in include.iter().flat_map(Spot::items).enumerate() {
            let name = item
                .text()
                .ok_or_else(|| item.problem("must be the name of a file"))?;
            let given = (inputs.include)(name, &file.name).map_err(|why| {
                root.problem(format!(
                    "the file of include[{item_index}] cannot be read: {why}"
                ))
            })?;
            // A file counts once, also if two include each other.
            if files.iter().any(|known| known.name == given.name) {
                continue;
            }
            if files.len() >= MAX_FILES {
                return Err(item.problem(format!("more than {MAX_FILES} files are included")));
            }
            files.push(given);
        }
    }
    Ok(files)
}

/// Reads the YAML of a file. No error shows a value.
fn parse_tree(file: &Given) -> Result<Node<'_>, Problem> {
    const NO_MAP: &str = "must be a map, as LiteLLM's config.yaml is";
    let read = yaml::parse_as(&file.text, |_, key| may_be_shown(key));
    let (tree, mut faults) = read.map_err(|problem| in_file(&file.name, problem))?;
    if !matches!(tree.value, Value::Map(_)) {
        faults.push(Problem::in_text(1, String::new(), NO_MAP.to_owned()));
    }
    match faults.into_iter().next() {
        Some(fault) => Err(in_file(&file.name, fault)),
        None => Ok(tree),
    }
}

fn in_file(name: &str, problem: Problem) -> Problem {
    Problem {
        file: name.to_owned(),
        ..problem
    }
}

/// Returns whether an error may show this key: LiteLLM's own keys are short words of small letters.
/// Any other text may be a secret.
fn may_be_shown(key: &str) -> bool {
    key.len() <= 40
        && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        && !looks_secret(key)
}

/// The accounts and models of `catalog.yaml`, before they are written.
struct CatalogFile<'a> {
    /// The comment at the head of the file.
    head: String,
    draft: CatalogDraft<'a>,
    models: Vec<EntryOut>,
    common: Common,
}

impl<'a> CatalogFile<'a> {
    /// Makes the accounts and models of the settings in a file with this name.
    fn new(merged: &MergedConfig<'a>, file_name: &str) -> Self {
        let mut draft = CatalogDraft::default();
        for entry in merged.list("model_list") {
            draft.take_entry(entry, merged);
        }
        let common = read_settings(merged, &mut draft);
        draft.add_key_limits();
        Self {
            head: head_comment(file_name),
            models: common.rules.finish(&draft),
            draft,
            common,
        }
    }

    /// Writes the file of the keys, if there are any.
    fn import_keys(
        &self,
        rows: &Rows<'_>,
        inputs: &Inputs<'_>,
        imported: &mut Imported,
    ) -> Option<String> {
        if inputs.keys.is_empty() {
            return None;
        }
        // The catalog without comments: its resolved form says what the keys may use. It is written
        // again when all findings are known.
        let catalog = [(CATALOG.to_owned(), self.write(&[]))];
        let resolved_catalog = resolve_catalog(&catalog, &mut assume_secret).ok();
        let known = Known::new(&self.draft, resolved_catalog.as_ref());
        Some(keys::import_keys(
            rows,
            known,
            &self.common,
            inputs,
            imported,
        ))
    }

    /// Writes `catalog.yaml` with all findings about LiteLLM's own files as comments.
    fn write_with_findings(&self, findings: &[Finding], config_files: &[Given]) -> String {
        let mut text = self.write(findings);
        // Findings that became no entry stand at the end of the file. Those about keys are not the
        // catalog's.
        let unplaced = findings.iter().filter(|finding| {
            finding.became.is_empty()
                && finding.grade != Grade::Exact
                && config_files.iter().any(|file| file.name == finding.file)
        });
        write_rest(&mut text, unplaced);
        text
    }

    /// Writes `catalog.yaml`. Each finding is a comment at the entry that it became part of.
    fn write(&self, findings: &[Finding]) -> String {
        let sections: [write::Section<&[EntryOut]>; 3] = [
            ("accounts", &self.draft.accounts),
            ("models", &self.models),
            ("callers", &[]),
        ];
        write_file(&self.head, &sections, findings)
    }
}

fn head_comment(name: &str) -> String {
    format!(
        "Made from {} by `portcullis import litellm`. Each entry names the place that it was made from.\n\
         Where something is not exactly the same, a comment says so.",
        name.lines().next().unwrap_or_default()
    )
}

/// Writes `server.yaml` for gateways that share limits.
fn write_server(redis: &NewValue) -> String {
    format!(
        "# Several gateways share limits through this store.\nstore:\n  redis: {}\n",
        redis.flow()
    )
}

/// Checks the new files as `check --no-secrets` does: those of the catalog, and `server.yaml`.
fn check_files(catalog_files: &[(String, String)], server: Option<&str>) -> Checked {
    let mut check = Checked::default();
    if let Some(text) = server {
        let server = config::parse_server(SERVER, text, &mut assume_secret);
        check.add(server.map(|server| server.warnings));
    }
    let catalog = resolve_catalog(catalog_files, &mut assume_secret);
    check.add(catalog.map(|catalog| catalog.warnings));
    check
}

/// Resolves each secret to a stand-in, as `check --no-secrets` does.
fn assume_secret(reference: Reference<'_>) -> Result<String, String> {
    Ok(reference.stand_in().to_owned())
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::let_underscore_must_use,
    reason = "a test may fail loudly"
)]
mod tests;
