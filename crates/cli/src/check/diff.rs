//! `--diff`: what the files would change, compared with a running gateway or with another folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::http;
use dialects::named_enum;
use portcullis::base::address::reachable_address;
use portcullis::base::calendar::format_system_time;
use portcullis::base::units::format_count;
use portcullis::catalog::load::{Loaded, Secrets, display_folder, load_folder};
use portcullis::inventory::{
    Change, Effect, ExtraFacts, Inventory, Marks, SecretChanges, ServedCatalog, find_changes,
    plain_text, render_changes, section_marks,
};

/// The longest wait for the page of a gateway with very many keys.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
const URL_HINT: &str = ". Name a folder as --diff=./DIR";
const OTHER_SECRETS: &str = "The secrets differ (a credential, a header's value, a `ca`, or a key's hash), so requests may be refused, and it is \
     not known whose: the gateway's own folder cannot be read here, or holds something else. --diff=DIR with its folder tells it.";
const NOT_COMPARED: &str = "Secrets were not compared.";

/// The two sides, and the differences.
pub(super) struct Comparison {
    folder: String,
    against: String,
    changes: Vec<Change>,
    secrets: SecretsState,
    notes: Vec<String>,
}

named_enum! {
    /// The difference between the secrets, as far as it is known.
    enum SecretsState {
        /// They are the same.
        Same = "same",
        /// They differ, and the changes say whose.
        Listed = "told",
        /// They differ, and it is not known whose.
        Differ = "differ",
        /// They were not compared.
        NotCompared = "not_compared",
    }
}

impl SecretsState {
    fn note(self) -> Option<String> {
        match self {
            SecretsState::Same | SecretsState::Listed => None,
            SecretsState::Differ => Some(OTHER_SECRETS.to_owned()),
            SecretsState::NotCompared => Some(NOT_COMPARED.to_owned()),
        }
    }
}

/// The other side of the comparison.
struct Before {
    name: String,
    inventory: Inventory,
    server: BTreeMap<String, String>,
    secrets: (SecretsState, SecretChanges),
    notes: Vec<String>,
}

/// Compares what was loaded with a gateway (empty: the one of server.yaml) or with a folder.
pub(super) fn compare_with(
    loaded: &Loaded,
    conf: &Path,
    against: &str,
    secrets: Secrets,
) -> Result<Comparison, String> {
    let inventory = Inventory::from_catalog(&loaded.catalog);
    let is_running = against.is_empty() || against.contains("://");
    let before = match is_running {
        true => ask_running(loaded, conf, against, secrets, &inventory),
        false => read_folder(loaded, Path::new(against), secrets),
    };
    let Before {
        name,
        inventory: before,
        server: server_before,
        secrets: (state, secrets),
        mut notes,
    } = before?;
    if secrets.more > 0 {
        notes.push(format!(
            "{} more keys or accounts have other secrets: the gateway does not name all.",
            secrets.more
        ));
    }
    notes.extend(state.note());
    let server_now = section_marks(&loaded.server);
    let is_known = matches!(state, SecretsState::Same | SecretsState::Listed);
    let besides = ExtraFacts {
        secrets: is_known.then_some(secrets),
        server: Some([&server_before, &server_now]),
    };
    let changes = find_changes(
        &before,
        &inventory,
        &besides,
        &format_system_time(SystemTime::now()),
    );
    Ok(Comparison {
        folder: display_folder(conf),
        against: name,
        changes,
        secrets: state,
        notes,
    })
}

/// Asks a gateway what it serves.
fn ask_running(
    loaded: &Loaded,
    conf: &Path,
    url: &str,
    secrets: Secrets,
    inventory: &Inventory,
) -> Result<Before, String> {
    let default_url = || format!("http://{}", reachable_address(loaded.server.admin.address));
    let url = if url.is_empty() {
        default_url()
    } else {
        url.to_owned()
    };
    let page = http::PageUrl {
        url: &url,
        usual_path: "/catalog",
        hint: URL_HINT,
    };
    let keys = http::key_lookup(conf, None);
    let page = http::send_to_url(page, http::AdminRequest::Get, &keys, PAGE_TIMEOUT).map_err(|http::FetchError { why, .. }| {
        format!("--diff: {why}. To compare with a gateway elsewhere write --diff=URL, and with a folder --diff=DIR")
    })?;
    let served: ServedCatalog = serde_json::from_slice(&page).map_err(|_| {
        format!("--diff: {url} does not answer with a /catalog page of this version of Portcullis")
    })?;
    let ServedCatalog {
        catalog,
        disk,
        folder,
        generation,
        live,
        loaded: since,
        server,
        version,
        ..
    } = served;
    let own = env!("CARGO_PKG_VERSION");
    let mut notes = Vec::new();
    if version != own {
        let warning = "settings may differ only because their usual values do";
        notes.push(format!(
            "The gateway has version {version}, and this program {own}: {warning}."
        ));
    }
    // Where everybody may look, the gateway tells nothing of its secrets.
    let changed = if secrets != Secrets::Read || live.secrets.is_empty() {
        (SecretsState::NotCompared, SecretChanges::default())
    } else {
        let mine = Marks::from_catalog(&loaded.catalog, inventory, true);
        if mine.secrets == live.secrets {
            (SecretsState::Same, SecretChanges::default())
        } else if disk.marks.as_ref() == Some(&mine) {
            // It has read the same files, and knows whose secrets differ.
            (SecretsState::Listed, disk.secrets_changed)
        } else {
            let own_changes =
                folder.and_then(|folder| compare_own_folder(loaded, Path::new(&folder), &live));
            own_changes.map_or(
                (SecretsState::Differ, SecretChanges::default()),
                |changed| (SecretsState::Listed, changed),
            )
        }
    };
    let name = format!("{url} (catalog {generation}, live since {since})");
    Ok(Before {
        name,
        inventory: catalog,
        server,
        secrets: changed,
        notes,
    })
}

/// Writes whose secrets differ, if the gateway's own folder is on this machine, can be read, and
/// holds what is live.
fn compare_own_folder(loaded: &Loaded, folder: &Path, live: &Marks) -> Option<SecretChanges> {
    let own = load_folder(folder, Secrets::Read).ok()?.catalog;
    let is_live = Marks::from_catalog(&own, &Inventory::from_catalog(&own), true) == *live;
    is_live.then(|| SecretChanges::between(&own, &loaded.catalog, SystemTime::now()))
}

/// Reads another folder.
fn read_folder(loaded: &Loaded, other: &Path, secrets: Secrets) -> Result<Before, String> {
    if !other.exists() {
        let name = plain_text(&other.display().to_string());
        return Err(format!(
            "--diff: there is no folder {name}. Write --diff=DIR with a folder, or --diff=URL with a gateway"
        ));
    }
    let before = load_folder(other, secrets).map_err(|problems| {
        format!("{problems}\n--diff: with these errors the folder cannot be compared")
    })?;
    let changed = match secrets {
        Secrets::Read => {
            let changed =
                SecretChanges::between(&before.catalog, &loaded.catalog, SystemTime::now());
            let state = if changed == SecretChanges::default() {
                SecretsState::Same
            } else {
                SecretsState::Listed
            };
            (state, changed)
        }
        Secrets::StandIns | Secrets::ReadIfPossible => {
            (SecretsState::NotCompared, SecretChanges::default())
        }
    };
    let notes = Vec::new();
    let inventory = Inventory::from_catalog(&before.catalog);
    Ok(Before {
        name: display_folder(other),
        inventory,
        server: section_marks(&before.server),
        secrets: changed,
        notes,
    })
}

impl Comparison {
    /// Writes it for people.
    pub(super) fn text(&self) -> String {
        let number = match self.changes.len() {
            0 if self.secrets == SecretsState::Differ => {
                "no setting changes, but secrets do".to_owned()
            }
            0 => "nothing changes".to_owned(),
            many => format_count(many, "change"),
        };
        let notes: String = self
            .notes
            .iter()
            .map(|note| format!("{}\n", plain_text(note)))
            .collect();
        format!(
            "Compared with {}: {number}.\n{}{notes}",
            plain_text(&self.against),
            render_changes(&self.changes)
        )
    }

    /// Writes it for programs.
    pub(super) fn json(&self) -> String {
        let mut counts = BTreeMap::from(Effect::ALL.map(|effect| (effect.name(), 0)));
        for change in &self.changes {
            *counts.entry(change.effect.name()).or_default() += 1;
        }
        let Comparison {
            folder,
            against,
            changes,
            secrets,
            notes,
        } = self;
        let all = json!({
            "folder": folder,
            "against": against,
            "counts": counts,
            "changes": changes,
            "secrets": secrets.name(),
            "notes": notes,
        });
        format!("{all:#}\n")
    }
}
