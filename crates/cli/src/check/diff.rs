//! `--diff`: what the files would change, compared with a running gateway or with another folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::http;
use portcullis::base::address::reachable;
use portcullis::base::calendar::rfc3339;
use portcullis::base::units::count;
use portcullis::catalog::load::{Loaded, Secrets, load, shown};
use portcullis::inventory::{
    Besides, Change, Effect, Inventory, Marks, SecretChanges, Served, changes, plain, render,
    server,
};

/// The longest wait for the page of a gateway with very many keys.
const PATIENCE: Duration = Duration::from_secs(30);
const OTHERWISE: &str = ". Name a folder as --diff=./DIR";
const OTHER_SECRETS: &str = "The secrets differ (a credential, a header's value, a `ca`, or a key's hash), so requests may be refused, and it is \
     not known whose: the gateway's own folder cannot be read here, or holds something else. --diff=DIR with its folder tells it.";
const NOT_COMPARED: &str = "Secrets were not compared.";

/// What was compared, and what was found.
pub(super) struct Comparison {
    folder: String,
    against: String,
    changes: Vec<Change>,
    secrets: SecretsAre,
    notes: Vec<String>,
}

/// What is known of the difference between the secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretsAre {
    /// They are the same.
    Same,
    /// They differ, and the changes say whose.
    Told,
    /// They differ, and it is not known whose.
    Differ,
    /// They were not compared.
    NotCompared,
}

impl SecretsAre {
    /// Returns the word for programs.
    fn name(self) -> &'static str {
        match self {
            SecretsAre::Same => "same",
            SecretsAre::Told => "told",
            SecretsAre::Differ => "differ",
            SecretsAre::NotCompared => "not_compared",
        }
    }

    fn note(self) -> Option<String> {
        match self {
            SecretsAre::Same | SecretsAre::Told => None,
            SecretsAre::Differ => Some(OTHER_SECRETS.to_owned()),
            SecretsAre::NotCompared => Some(NOT_COMPARED.to_owned()),
        }
    }
}

/// What the files are compared with.
struct Before {
    name: String,
    inventory: Inventory,
    server: BTreeMap<String, String>,
    secrets: (SecretsAre, SecretChanges),
    notes: Vec<String>,
}

/// Compares what was loaded with a gateway (empty: that of server.yaml) or with a folder.
pub(super) fn compare(
    loaded: &Loaded,
    conf: &Path,
    against: &str,
    secrets: Secrets,
) -> Result<Comparison, String> {
    let inventory = Inventory::of(&loaded.catalog);
    let is_running = against.is_empty() || against.contains("://");
    let before = match is_running {
        true => running(loaded, conf, against, secrets, &inventory),
        false => folder(loaded, Path::new(against), secrets),
    };
    let Before {
        name,
        inventory: before,
        server: server_before,
        secrets: (are, secrets),
        mut notes,
    } = before?;
    if secrets.more > 0 {
        notes.push(format!(
            "{} more keys or accounts have other secrets: the gateway does not name all.",
            secrets.more
        ));
    }
    notes.extend(are.note());
    let server_now = server(&loaded.server);
    let is_known = matches!(are, SecretsAre::Same | SecretsAre::Told);
    let besides = Besides {
        secrets: is_known.then_some(secrets),
        server: Some([&server_before, &server_now]),
    };
    let changes = changes(&before, &inventory, &besides, &rfc3339(SystemTime::now()));
    Ok(Comparison {
        folder: shown(conf),
        against: name,
        changes,
        secrets: are,
        notes,
    })
}

/// Asks a gateway what it serves.
fn running(
    loaded: &Loaded,
    conf: &Path,
    url: &str,
    secrets: Secrets,
    inventory: &Inventory,
) -> Result<Before, String> {
    let usual = || format!("http://{}", reachable(loaded.server.admin.address));
    let url = if url.is_empty() {
        usual()
    } else {
        url.to_owned()
    };
    let page = http::of_admin(&url, "/catalog", OTHERWISE, conf, PATIENCE).map_err(|why| {
        format!("--diff: {why}. To compare with a gateway elsewhere write --diff=URL, and with a folder --diff=DIR")
    })?;
    let served: Served = serde_json::from_slice(&page).map_err(|_| {
        format!("--diff: {url} does not answer with a /catalog page of this version of Portcullis")
    })?;
    let Served {
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
        let what = "settings may differ only because their usual values do";
        notes.push(format!(
            "The gateway has version {version}, and this program {own}: {what}."
        ));
    }
    // Where everybody may look, the gateway tells nothing of its secrets.
    let changed = if secrets != Secrets::Resolve || live.secrets.is_empty() {
        (SecretsAre::NotCompared, SecretChanges::default())
    } else {
        let mine = Marks::of(&loaded.catalog, inventory, true);
        if mine.secrets == live.secrets {
            (SecretsAre::Same, SecretChanges::default())
        } else if disk.marks.as_ref() == Some(&mine) {
            // It has read the same files, and knows whose secrets differ.
            (SecretsAre::Told, disk.secrets_changed)
        } else {
            let told = folder.and_then(|folder| of_its_folder(loaded, Path::new(&folder), &live));
            told.map_or((SecretsAre::Differ, SecretChanges::default()), |changed| {
                (SecretsAre::Told, changed)
            })
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

/// Says whose secrets differ, if the gateway's own folder is on this machine, can be read, and
/// holds what is live.
fn of_its_folder(loaded: &Loaded, folder: &Path, live: &Marks) -> Option<SecretChanges> {
    let own = load(folder, Secrets::Resolve).ok()?.catalog;
    let is_live = Marks::of(&own, &Inventory::of(&own), true) == *live;
    is_live.then(|| SecretChanges::between(&own, &loaded.catalog, SystemTime::now()))
}

/// Reads another folder.
fn folder(loaded: &Loaded, other: &Path, secrets: Secrets) -> Result<Before, String> {
    if !other.exists() {
        let name = plain(&other.display().to_string());
        return Err(format!(
            "--diff: there is no folder {name}. Write --diff=DIR with a folder, or --diff=URL with a gateway"
        ));
    }
    let before = load(other, secrets).map_err(|problems| {
        format!("{problems}\n--diff: with these errors the folder cannot be compared")
    })?;
    let changed = match secrets {
        Secrets::Resolve => {
            let changed =
                SecretChanges::between(&before.catalog, &loaded.catalog, SystemTime::now());
            let are = if changed == SecretChanges::default() {
                SecretsAre::Same
            } else {
                SecretsAre::Told
            };
            (are, changed)
        }
        Secrets::Assume | Secrets::IfThere => (SecretsAre::NotCompared, SecretChanges::default()),
    };
    let notes = Vec::new();
    let inventory = Inventory::of(&before.catalog);
    Ok(Before {
        name: shown(other),
        inventory,
        server: server(&before.server),
        secrets: changed,
        notes,
    })
}

impl Comparison {
    /// Writes it for people.
    pub(super) fn text(&self) -> String {
        let number = match self.changes.len() {
            0 if self.secrets == SecretsAre::Differ => {
                "no setting changes, but secrets do".to_owned()
            }
            0 => "nothing changes".to_owned(),
            many => count(many, "change"),
        };
        let notes: String = self
            .notes
            .iter()
            .map(|note| format!("{}\n", plain(note)))
            .collect();
        format!(
            "Compared with {}: {number}.\n{}{notes}",
            plain(&self.against),
            render(&self.changes)
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
