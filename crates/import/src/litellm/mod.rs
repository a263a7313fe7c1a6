//! LiteLLM: its `config.yaml` becomes `catalog.yaml`, and its virtual keys
//! `catalog.d/litellm-keys.yaml`.

use std::collections::{BTreeMap, HashSet};

use super::notes::{Finding, Grade};
use super::write::{Section, write_file, write_rest};
use super::{Checked, Given, ImportFrom, Imported, Inputs};
use bound::Bound;
use models::Made;
use node::Spot;
use params::World;
use portcullis::base::problem::{Problem, Problems};
use portcullis::catalog::Catalog;
use portcullis::catalog::resolve::resolve_catalog;
use portcullis::conf::config;
use portcullis::conf::secret_ref::{ASSUMED, Reference};
use portcullis::conf::yaml::{self, Node};
use rules::Whose;
use settings::Common;

mod access;
mod account;
mod address;
mod bound;
mod credential;
mod draft;
mod keys;
mod limits;
mod listed;
mod missing;
mod model_info;
mod models;
mod names;
mod node;
mod number;
mod params;
mod price;
mod provider;
mod routing;
mod rows;
mod rules;
mod settings;
mod terms;
mod walk;

pub use rules::LOOSEN_WORDS;

/// The most files that may include each other.
const MOST_FILES: usize = 100;
/// The file of the keys.
const KEYS: &str = "catalog.d/litellm-keys.yaml";

/// LiteLLM's proxy.
pub struct LiteLlm;

impl ImportFrom for LiteLlm {
    fn import(&self, inputs: &Inputs<'_>) -> Result<Imported, Problem> {
        let files = read_included(inputs)?;
        let trees = files
            .iter()
            .map(parse_tree)
            .collect::<Result<Vec<_>, _>>()?;
        let rows = rows::read_rows(&inputs.keys)?;
        let mut findings = Vec::new();
        let roots: Vec<Spot<'_>> = files
            .iter()
            .zip(&trees)
            .map(|(file, tree)| Spot::root(&file.name, tree))
            .collect();
        let (lists, sections) = join_sections(&roots, &mut findings);
        let world = gather_world(&lists, &sections, inputs, &mut findings);
        let mut made = Made::default();
        for entry in lists.get("model_list").into_iter().flatten() {
            made.take_entry(entry, &world, &mut findings);
        }
        let mut common = settings::read_settings(&sections, &world, &mut made, &mut findings);
        take_guardrails(&lists, &mut common, &mut findings);
        let has = |section: &str| roots.iter().any(|root| root.get(section).is_some());
        if has("policies") || has("policy_attachments") {
            let bound = Bound::new("policies", "guardrails");
            common.bounds.push((Whose::All, bound));
        }
        made.settle(&mut findings);
        let models = common.rules.finish(&made, &mut findings);
        let catalog = |findings: &[Finding]| {
            let sections = [
                Section {
                    name: "accounts",
                    entries: &made.accounts,
                },
                Section {
                    name: "models",
                    entries: &models,
                },
                Section {
                    name: "callers",
                    entries: &[],
                },
            ];
            write_file(&head_comment(&inputs.config.name), &sections, findings)
        };
        let mut imported = Imported {
            files: vec![("catalog.yaml".to_owned(), catalog(&findings))],
            findings,
            stopped: Vec::new(),
            keys: (0, 0),
            spent: Vec::new(),
            check: Checked::default(),
            secrets: Vec::new(),
        };
        // What the keys may use is known from the catalog itself.
        let alone = resolve_catalog(&imported.files, &mut assume_secret).ok();
        if !inputs.keys.is_empty() {
            let text =
                keys::import_keys(&rows, &made, alone.as_ref(), &common, inputs, &mut imported);
            imported.files.push((KEYS.to_owned(), text));
        }
        let mut seen = HashSet::new();
        imported
            .findings
            .retain(|finding| seen.insert(finding.clone()));
        // Where no lines are known, the findings keep the order of the file.
        imported
            .findings
            .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        let mut text = catalog(&imported.findings);
        let of_config = |finding: &&Finding| {
            finding.became.is_empty() && files.iter().any(|file| file.name == finding.file)
        };
        write_rest(
            &mut text,
            imported
                .findings
                .iter()
                .filter(of_config)
                .filter(|finding| finding.grade != Grade::Exact),
        );
        if let Some((_, catalog)) = imported.files.first_mut() {
            *catalog = text;
        }
        if let Some(redis) = &common.redis {
            let text = format!(
                "# Several gateways share limits through this store.\nstore:\n  redis: {}\n",
                redis.flow()
            );
            imported.files.push(("server.yaml".to_owned(), text));
        }
        imported.secrets = made.secrets;
        imported.secrets.sort();
        imported.secrets.dedup();
        imported.check = check_files(&imported.files);
        Ok(imported)
    }
}

fn head_comment(name: &str) -> String {
    format!(
        "Made from {} by `portcullis import litellm`. Each entry names the place that it was made from.\n\
         Where something is not exactly the same, a comment says so.",
        name.lines().next().unwrap_or_default()
    )
}

/// Reads the file and all that it includes. What is included counts after the file itself.
fn read_included(inputs: &Inputs<'_>) -> Result<Vec<Given>, Problem> {
    let mut files = vec![inputs.config.clone()];
    let mut spot = 0;
    while let Some(file) = files.get(spot).cloned() {
        spot += 1;
        let tree = parse_tree(&file)?;
        let root = Spot::root(&file.name, &tree);
        for (index, item) in root.get("include").iter().flat_map(Spot::items).enumerate() {
            let name = item
                .text()
                .ok_or_else(|| item.problem("must be the name of a file"))?;
            let given = (inputs.include)(name, &file.name).map_err(|why| {
                root.problem(format!(
                    "the file of include[{index}] cannot be read: {why}"
                ))
            })?;
            // A file counts once, also if two include each other.
            if files.iter().any(|known| known.name == given.name) {
                continue;
            }
            if files.len() >= MOST_FILES {
                return Err(item.problem(format!("more than {MOST_FILES} files are included")));
            }
            files.push(given);
        }
    }
    Ok(files)
}

/// Reads the YAML of a file. No error shows a value.
fn parse_tree(file: &Given) -> Result<Node<'_>, Problem> {
    let in_file = |problem: Problem| Problem {
        file: file.name.clone(),
        ..problem
    };
    let (tree, faults) =
        yaml::parse_as(&file.text, |_, key| is_word_of_theirs(key)).map_err(in_file)?;
    match faults.into_iter().next() {
        Some(fault) => Err(in_file(fault)),
        None if Spot::root("", &tree).is_map() => Ok(tree),
        None => Err(in_file(Problem::in_text(
            1,
            String::new(),
            "must be a map, as LiteLLM's config.yaml is".to_owned(),
        ))),
    }
}

/// Returns whether an error may show this key. A key that looks otherwise may be a secret.
fn is_word_of_theirs(key: &str) -> bool {
    key.len() <= 40
        && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        && portcullis::base::problem::unless_secret(key) == key
}

type Lists<'a> = BTreeMap<&'a str, Vec<Spot<'a>>>;

/// Puts the files together as LiteLLM does: lists are joined, and of anything else the last one
/// counts.
fn join_sections<'a>(
    roots: &[Spot<'a>],
    findings: &mut Vec<Finding>,
) -> (Lists<'a>, settings::Sections<'a>) {
    let (mut lists, mut sections): (Lists<'_>, settings::Sections<'_>) = Default::default();
    for (key, spot) in roots.iter().flat_map(Spot::entries) {
        match key {
            "include" => findings.push(spot.finding(Grade::Exact, "", "")),
            "model_list" | "credential_list" | "guardrails" if spot.is_list() => {
                lists.entry(key).or_default().extend(spot.items())
            }
            "litellm_settings"
            | "router_settings"
            | "general_settings"
            | "environment_variables" => {
                if let Some(before) = sections.insert(key, spot) {
                    findings.push(before.finding(
                        Grade::Unsupported,
                        "",
                        "an included file has this section too, which counts",
                    ));
                }
            }
            _ => {
                findings.push(spot.finding(Grade::Unsupported, "", settings::describe_section(key)))
            }
        }
    }
    (lists, sections)
}

/// Gathers what entries refer to.
fn gather_world<'a>(
    lists: &Lists<'a>,
    sections: &settings::Sections<'a>,
    inputs: &'a Inputs<'_>,
    findings: &mut Vec<Finding>,
) -> World<'a> {
    let variables: BTreeMap<&str, Spot<'_>> = sections
        .get("environment_variables")
        .into_iter()
        .flat_map(Spot::entries)
        .collect();
    for spot in variables.values() {
        const MESSAGE: &str =
            "set this variable in the environment of the gateway if a secret is read from it";
        findings.push(spot.finding(Grade::Manual, "", MESSAGE));
    }
    let mut credentials = BTreeMap::new();
    for spot in lists.get("credential_list").into_iter().flatten() {
        match (
            spot.get("credential_name").as_ref().and_then(Spot::text),
            spot.get("credential_values"),
        ) {
            (Some(name), Some(values)) => {
                findings.push(spot.finding(
                    Grade::Exact,
                    "",
                    "is written out at each entry that names it",
                ));
                credentials.insert(name, values);
            }
            (_, _) => findings.push(spot.finding(
                Grade::Manual,
                "",
                "has no `credential_name` or no `credential_values`",
            )),
        }
    }
    let setting = |section: &str, key: &str| sections.get(section).and_then(|spot| spot.get(key));
    let aliases = setting("router_settings", "model_group_alias");
    let aliases = aliases.iter().flat_map(Spot::entries);
    // A name that stands for itself hides nothing.
    let hides = |(alias, spot): &(&str, Spot<'_>)| {
        spot.get("model").as_ref().unwrap_or(spot).text() != Some(alias)
    };
    World {
        environment: inputs.variable,
        has_keys: !inputs.keys.is_empty(),
        variables,
        credentials,
        aliases: aliases.filter(hides).map(|(alias, _)| alias).collect(),
        timeout: setting("litellm_settings", "request_timeout")
            .or_else(|| setting("router_settings", "timeout")),
        stream_timeout: setting("router_settings", "stream_timeout"),
    }
}

/// Takes the guardrails, of which those that are always on bound every key.
fn take_guardrails(lists: &Lists<'_>, common: &mut Common, findings: &mut Vec<Finding>) {
    let mut are_on = false;
    for spot in lists.get("guardrails").into_iter().flatten() {
        findings.push(spot.finding(
            Grade::Unsupported,
            "",
            settings::describe_section("guardrails"),
        ));
        let always = spot
            .get("litellm_params")
            .and_then(|params| params.get("default_on"));
        are_on |= always.is_some_and(|always| always.flag() != Some(false));
    }
    if are_on {
        let bound = Bound::new("guardrails", "guardrails");
        common.bounds.push((Whose::All, bound));
    }
}

/// Stands for every secret.
fn assume_secret(reference: Reference<'_>) -> Result<String, String> {
    match reference {
        Reference::Env(_) | Reference::Optional(_) | Reference::File(_) => Ok(ASSUMED.to_owned()),
        Reference::Ca(_) => Ok("-----BEGIN CERTIFICATE-----".to_owned()),
    }
}

/// Reads the new files as `check --no-secrets` does.
fn check_files(files: &[(String, String)]) -> Checked {
    let mut checked = Checked::default();
    let mut take = |problems: Problems| {
        checked.errors.extend(problems.0);
        checked.warnings.extend(problems.1);
    };
    let (server, catalog): (Vec<_>, Vec<_>) = files
        .iter()
        .cloned()
        .partition(|(name, _)| name == "server.yaml");
    for (name, text) in &server {
        match config::parse_server(name, text, &mut assume_secret) {
            Ok(server) => take(Problems(Vec::new(), server.warnings)),
            Err(problems) => take(problems),
        }
    }
    match resolve_catalog(&catalog, &mut assume_secret) {
        Ok(Catalog { warnings, .. }) => take(Problems(Vec::new(), warnings)),
        Err(problems) => take(problems),
    }
    checked
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
