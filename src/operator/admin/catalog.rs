//! `GET /catalog` shows the catalog that is served, without secrets, and whether the files hold the
//! same. It is for comparing instances with each other and with their files.
//!
//! **Invariant:** two answers at most are made or sent at once, on another thread than the
//! listener's. The files are read again only when one of them changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;

use super::{ANSWER_TIMEOUT, FullPage, PLAIN, Pages};
use crate::base::calendar::format_system_time;
use crate::base::lock::Lock;
use crate::catalog::files::{list_catalog_files, stat_file};
use crate::catalog::load::{self, ReadCatalog, Secrets};
use crate::catalog::texts::{Stat, is_source};
use crate::catalog::{Catalog, published_key_problem};
use crate::conf::config::Server;
use crate::inventory::{
    CatalogOnDisk, Inventory, Marks, SecretChanges, ServedCatalog, section_marks,
};
use crate::live::Live;

/// The most answers that are made or sent at once: each may have several megabytes.
const MAX_ANSWERS: usize = 2;
/// The most reasons that are shown.
const MAX_REASONS: usize = 100;
/// The age below which a file may have been changed again within one tick of its clock.
const RECENT_AGE: Duration = Duration::from_secs(2);

/// The cache between two answers about the files: texts of some bytes, and no catalog.
pub(super) struct KeptMarks {
    permits: Arc<Semaphore>,
    known: Arc<Lock<KnownDisk>>,
}

/// The content of the files, compared with the catalog of this generation.
type KnownDisk = Option<(u64, BTreeMap<PathBuf, Option<Stat>>, CatalogOnDisk)>;

impl Default for KeptMarks {
    fn default() -> Self {
        KeptMarks {
            permits: Arc::new(Semaphore::new(MAX_ANSWERS)),
            known: Arc::default(),
        }
    }
}

impl Pages {
    /// Answers with the catalog.
    pub(super) async fn catalog(&self) -> FullPage {
        let deadline = tokio::time::Instant::now() + ANSWER_TIMEOUT.mul_f64(0.8);
        let taken =
            tokio::time::timeout_at(deadline, self.catalog_marks.permits.clone().acquire_owned())
                .await;
        let Ok(Ok(permit)) = taken else { return busy() };
        let (books, backends, kept) = (
            self.books.clone(),
            self.backends.clone(),
            self.catalog_marks.known.clone(),
        );
        // The slot is held until the answer is sent, or until it is made if its reader has left.
        let made = tokio::task::spawn_blocking(move || {
            let instance = books.ledger.instance().to_string();
            (
                catalog_json(&books.live, &backends.server, instance, &kept),
                permit,
            )
        });
        match tokio::time::timeout_at(deadline, made).await {
            Ok(Ok((text, permit))) => FullPage {
                page: (200, "application/json", text),
                headers: Vec::new(),
                permit: Some(permit),
            },
            Ok(Err(_)) => (500, PLAIN, "the catalog could not be shown\n".to_owned()).into(),
            Err(_) => busy(),
        }
    }
}

fn busy() -> FullPage {
    let text = "the catalog is large, or others ask for it: ask again in some seconds\n";
    (503, PLAIN, text.to_owned()).into()
}

fn catalog_json(
    live: &Live,
    settings: &Server,
    instance: String,
    kept: &Lock<KnownDisk>,
) -> String {
    let snapshot = live.load_full();
    let inventory = Inventory::from_catalog(&snapshot.catalog);
    let marks = snapshot.marks(settings.admin.is_guarded());
    let folder = live.reloads.folder();
    let disk = folder.map(|folder| {
        let known = kept.lock().clone();
        let known = known.filter(|(generation, files, _)| {
            *generation == snapshot.generation && is_as_before(folder, files)
        });
        let found = known.unwrap_or_else(|| {
            let (disk, files) = compare_files(folder, settings, &snapshot.catalog, marks);
            (snapshot.generation, files, disk)
        });
        *kept.lock() = Some(found.clone());
        found.2
    });
    let served = ServedCatalog {
        catalog: inventory,
        disk: disk.unwrap_or_default(),
        folder: folder.map(|folder| folder.display().to_string()),
        generation: snapshot.generation,
        instance,
        live: marks.clone(),
        loaded: format_system_time(snapshot.loaded),
        server: section_marks(settings),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    // Maps with names always serialise.
    serde_json::to_string(&served).unwrap_or_default() + "\n"
}

/// Reads the files, and compares what they hold with what is served.
fn compare_files(
    folder: &Path,
    settings: &Server,
    served: &Catalog,
    marks: &Marks,
) -> (CatalogOnDisk, BTreeMap<PathBuf, Option<Stat>>) {
    let ReadCatalog { catalog, texts, .. } =
        load::catalog_within(folder, Secrets::Read, settings.limits.catalog_size);
    let files = texts
        .into_iter()
        .map(|(path, version)| (path, version.stat))
        .collect();
    let addresses: Vec<_> = settings
        .listen
        .iter()
        .map(|listen| listen.address)
        .collect();
    let problems: Vec<String> = match &catalog {
        Ok(catalog) => published_key_problem(catalog, &addresses)
            .into_iter()
            .collect(),
        Err(problems) => problems
            .0
            .iter()
            .take(MAX_REASONS)
            .map(ToString::to_string)
            .collect(),
    };
    let found = catalog
        .ok()
        .map(|catalog| match catalog.digest == served.digest {
            true => (marks.clone(), SecretChanges::default()),
            false => {
                let marks = Marks::from_catalog(
                    &catalog,
                    &Inventory::from_catalog(&catalog),
                    settings.admin.is_guarded(),
                );
                (
                    marks,
                    SecretChanges::between(served, &catalog, SystemTime::now()).with_short_lists(),
                )
            }
        });
    let (found, secrets_changed) = found.unzip();
    let same = secrets_changed
        .as_ref()
        .is_none_or(|changed| *changed == SecretChanges::default());
    let is_live = problems.is_empty() && same && found.as_ref() == Some(marks);
    (
        CatalogOnDisk {
            is_live,
            marks: found,
            problems,
            secrets_changed: secrets_changed.unwrap_or_default(),
        },
        files,
    )
}

/// Returns whether these are the files still, and none was changed since.
fn is_as_before(folder: &Path, files: &BTreeMap<PathBuf, Option<Stat>>) -> bool {
    let there: BTreeSet<PathBuf> = list_catalog_files(folder)
        .map(|listed| listed.paths.into_iter().collect())
        .unwrap_or_default();
    let known: BTreeSet<PathBuf> = files
        .keys()
        .filter(|path| is_source(folder, path))
        .cloned()
        .collect();
    let are_unchanged = files.iter().all(|(path, known)| {
        let is_old = known.as_ref().is_none_or(is_old);
        is_old && stat_file(path) == *known
    });
    there == known && are_unchanged
}

/// Returns whether a file was changed so long ago that another change would be seen.
fn is_old(stat: &Stat) -> bool {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let young = i128::try_from(RECENT_AGE.as_nanos()).unwrap_or(i128::MAX);
    i128::try_from(now).is_ok_and(|now| now - stat.changed >= young)
}
