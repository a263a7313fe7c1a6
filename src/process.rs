//! A [`Process`] is all that serves callers. Its parts are made once, from what was read at the
//! start, and each user gets those parts that it needs.

use crate::access_log::AccessLog;
use crate::account::Registry;
use crate::base::calendar;
use crate::base::descriptors::Descriptors;
use crate::base::memory::Budget;
use crate::base::spool::Spool;
use crate::catalog::load::Loaded;
use crate::catalog::published_key_problem;
use crate::conf::config::{ListenTls, Server};
use crate::desk::Desk;
use crate::desk::record::Books;
use crate::desk::unpriced::Unpriced;
use crate::exchange::backends::Backends;
use crate::exchange::lists;
use crate::exchange::upstream::Upstream;
use crate::figures::Figures;
use crate::item_cache::ItemCache;
use crate::ledger::{self, Ledger};
use crate::limits;
use crate::live::{Live, Publisher, Snapshot};
use crate::metrics::Metrics;
use crate::operator::admin::Admin;
use crate::operator::watch::Watch;
use crate::seal::Seals;
use crate::store::Store;
use crate::tls::Certificate;
use crate::traces::Traces;
use crate::vault::Vault;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The parts of a process that serves.
#[derive(Clone)]
pub struct Process {
    /// The settings of `conf/server.yaml`.
    pub settings: Arc<Server>,
    /// The parts in which exchanges are settled.
    pub books: Arc<Books>,
    /// The parts through which exchanges ask providers.
    pub backends: Arc<Backends>,
    /// The budget of memory for requests and buffered answers.
    pub memory: Arc<Budget>,
    /// The place of uploads.
    pub spool: Arc<Spool>,
    /// The certificates of the listeners, in the order of the settings. A listener without TLS has
    /// none.
    pub certificates: Arc<[Option<Arc<Certificate>>]>,
    /// The watch, which knows what is wrong.
    pub watch: Arc<Watch>,
    /// The time at which the process began to serve.
    pub started: Instant,
}

impl Process {
    /// Makes the parts from what was read. Opens nothing but the access log, the ledger and the
    /// files of certificates.
    ///
    /// Refuses a catalog in which everybody may use more than the demo: see
    /// [`published_key_problem`].
    pub fn new(loaded: &mut Loaded) -> Result<Process, String> {
        let server = Arc::new(loaded.server.clone());
        let addresses: Vec<SocketAddr> = server.listen.iter().map(|l| l.address).collect();
        if let Some(problem) = published_key_problem(&loaded.catalog, &addresses) {
            return Err(problem);
        }
        let read = |tls: &ListenTls| Certificate::read_or_await(&tls.cert, &tls.key).map(Arc::new);
        let certificates = server
            .listen
            .iter()
            .map(|listen| listen.tls.as_ref().map(read).transpose());
        let certificates: Vec<_> = certificates.collect::<Result<_, String>>()?;
        let accounts = Registry::behind(server.proxies.clone());
        let ledger = Ledger::open(&server.ledger);
        let changes = server
            .store
            .as_ref()
            .map(|_| Arc::new(limits::Changes::default()));
        let limits = Arc::new(
            changes
                .clone()
                .map(limits::Registry::shared)
                .unwrap_or_default(),
        );
        let catalog = std::mem::take(&mut loaded.catalog);
        let snapshot = Snapshot::new(
            catalog,
            &accounts,
            &limits,
            &mut || ledger.past_use(calendar::now_millis(), Some(&limits)),
            1,
        );
        remember_uses(&snapshot, &limits, &ledger);
        let figures = Figures::default();
        ledger.begin_callers(&figures.callers);
        lists::load_kept_lists(&server, &snapshot);
        let mut metrics = Metrics::new(server.series);
        let shown = addresses.iter().zip(&certificates);
        let shown = shown
            .filter_map(|(address, certificate)| Some((address.to_string(), certificate.clone()?)));
        metrics.show_certificates(shown.collect());
        metrics.catalog.note_taken(1);
        let store = server.store.clone().zip(changes);
        let store = store.map(|(settings, changes)| {
            Store::new(
                settings,
                &ledger.instance(),
                limits.clone(),
                changes,
                metrics.store(),
            )
        });
        let largest = server.limits.request_body.max(server.limits.response_body);
        let traces = server.traces.clone();
        let traces =
            traces.map(|settings| Arc::new(Traces::new(settings, &server.listen, metrics.spans())));
        let descriptors: Arc<Descriptors> = Arc::default();
        let books = Arc::new(Books {
            access_log: AccessLog::open(&server.log.access, server.log.format)?,
            ledger: Arc::new(ledger),
            metrics: Arc::new(metrics),
            live: Arc::new(Live::new(snapshot, accounts, limits)),
            figures,
            drain: Arc::default(),
            unpriced: Unpriced::default(),
            descriptors: descriptors.clone(),
            traces,
        });
        let backends = Arc::new(Backends {
            server: server.clone(),
            upstream: Upstream::new(descriptors),
            vault: Vault::default(),
            items: ItemCache::new(server.item_cache),
            seals: Arc::new(Seals::new(&server.seal)?),
            store,
        });
        let certificates: Arc<[_]> = certificates.into();
        Ok(Process {
            watch: Arc::new(Watch::new(
                books.clone(),
                backends.clone(),
                server.clone(),
                certificates.clone(),
            )),
            books,
            backends,
            memory: Arc::new(Budget::new(server.limits.buffered_total, largest)),
            spool: Arc::new(Spool::new(
                &spool_folder(&server),
                server.limits.spool_total,
                server.limits.upload,
            )),
            settings: server,
            certificates,
            started: Instant::now(),
        })
    }

    /// Returns the proxy, for any Pingora server.
    pub fn gateway(&self) -> Desk {
        let Process {
            settings,
            books,
            backends,
            memory,
            spool,
            ..
        } = self.clone();
        Desk {
            settings,
            books,
            backends,
            memory,
            spool,
        }
    }

    /// Returns the admin service.
    pub fn admin(&self) -> Admin {
        Admin::new(
            self.books.clone(),
            self.backends.clone(),
            self.watch.clone(),
            self.started,
        )
    }

    /// Returns the most connections of callers at once: as many as the settings allow, and as the
    /// process may have open.
    pub fn max_connections(&self) -> usize {
        self.settings
            .limits
            .connections_within(self.books.descriptors.limit())
    }

    /// Returns the part that makes catalogs live.
    pub fn publisher(&self) -> Publisher {
        let Books {
            ledger,
            metrics,
            live,
            ..
        } = &*self.books;
        Publisher {
            live: live.clone(),
            ledger: ledger.clone(),
            metrics: metrics.clone(),
        }
    }
}

/// Returns the folder for uploads: the ledger's, which is on a disk, or the system's.
fn spool_folder(server: &Server) -> PathBuf {
    let of_ledger = server
        .ledger
        .path
        .parent()
        .filter(|_| server.ledger.enabled);
    match of_ledger {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => std::env::temp_dir(),
    }
}

/// Notes when each key was last used before the start.
fn remember_uses(snapshot: &Snapshot, limits: &limits::Registry, ledger: &Ledger) {
    if !ledger.is_on() {
        return;
    }
    match ledger::read::last_used(ledger.path()) {
        Ok(uses) => {
            let now = calendar::now_millis();
            for key in snapshot.catalog.keys() {
                if let Some(used_at) = uses.get(&*key.id)
                    && let Some(scopes) = snapshot.scopes.get(key.index)
                {
                    let last_used = &scopes.last_used;
                    limits.note_use(&key.id, last_used, now.min(*used_at));
                }
            }
        }
        Err(why) => log::warn!("the times when keys were last used are unknown: {why}"),
    }
}
