//! The process: ports, listeners, background work, signals, and the way down.
//!
//! Pingora's own shutdown sleeps the whole grace even when idle, and ignores a second signal; so
//! signals are ours, and a thread of ours ends the process as soon as nothing is left to do.

use crate::access_log::AccessLog;
use crate::account::Registry;
use crate::admin::Admin;
use crate::catalog::load::Loaded;
use crate::catalog::reload::{self, Nudge, Reloads, Snapshot};
use crate::catalog::{Key, published_key_problem};
use crate::config::{self, Listen};
use crate::connection::Connections;
use crate::drain::{Drain, Phase};
use crate::exchange::producer::probe::probe;
use crate::exchange::upstream::Upstream;
use crate::gateway::Gateway;
use crate::intake::budget::Budget;
use crate::ledger::{self, Ledger, days};
use crate::limits;
use crate::metrics::Metrics;
use crate::shared::Shared;
use crate::store::Store;
use crate::tls::Certificate;
use crate::vault::Vault;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use pingora::apps::HttpServerOptions;
use pingora::listeners::tls::TlsSettings;
use pingora::listeners::{L4BufferSettings, ListenerConfig};
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownSignal, ShutdownSignalWatch, ShutdownWatch};
use pingora::services::background::{BackgroundService, GenBackgroundService, background_service};
use pingora::services::listening::Service;
use pingora_proxy::HttpProxy;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

/// A caller's connection reads into so much: heads and most bodies fit.
const READ_BUFFER: usize = 8 * 1024;
/// And gathers so much before it writes: a head and a small answer leave together.
const WRITE_BUFFER: usize = 16 * 1024;
/// How often idle upstream connections are looked at.
const SWEEP: Duration = Duration::from_secs(2);
/// What is cut off at the end of the grace has so long to say so.
const CUT: Duration = Duration::from_secs(2);
/// And so long after a second signal.
const LAST_LINES: Duration = Duration::from_millis(250);

/// What all exchanges share, from what was read; nothing is opened but the access log and the
/// ledger.
///
/// Refuses a catalog in which everybody may use more than the demo: see [`published_key_problem`].
pub fn shared(loaded: &mut Loaded) -> Result<Arc<Shared>, String> {
    let server = loaded.server.clone();
    let addresses: Vec<SocketAddr> = server.listen.iter().map(|l| l.address).collect();
    if let Some(problem) = published_key_problem(&loaded.catalog, &addresses) {
        return Err(problem);
    }
    let accounts = Registry::default();
    let ledger = Ledger::open(&server.ledger);
    let changes = server.store.as_ref().map(|_| Arc::new(limits::Changes::default()));
    let limits = Arc::new(changes.clone().map(limits::Registry::shared).unwrap_or_default());
    let catalog = std::mem::take(&mut loaded.catalog);
    let snapshot = Snapshot::new(catalog, &accounts, &limits, &mut || ledger.past_of(&limits, days::now()), 1);
    remember_uses(&snapshot, &ledger);
    let metrics = Metrics::default();
    metrics.reloaded(1, false);
    let store = server.store.clone().zip(changes);
    let store = store
        .map(|(settings, changes)| Store::new(settings, &ledger.instance(), limits.clone(), changes, metrics.store()));
    Ok(Arc::new(Shared {
        live: ArcSwap::from_pointee(snapshot),
        accounts,
        limits,
        reloads: Reloads::default(),
        upstream: Arc::new(Upstream::default()),
        budget: Arc::new(Budget::new(
            server.limits.buffered_total,
            server.limits.request_body.max(server.limits.response_body),
        )),
        access_log: AccessLog::open(&server.log.access, server.log.format)?,
        ledger,
        vault: Vault::default(),
        metrics,
        store,
        drain: Arc::new(Drain::default()),
        started: Instant::now(),
        server,
    }))
}

/// When each key was last used before the start.
fn remember_uses(snapshot: &Snapshot, ledger: &Ledger) {
    if !ledger.is_on() {
        return;
    }
    match ledger::read::last_used(ledger.path()) {
        Ok(uses) => {
            let now = days::now();
            let at = |key: &Key| uses.get(&*key.id).zip(snapshot.scopes.get(key.index));
            for (at, scopes) in snapshot.catalog.keys().filter_map(|key| at(key)) {
                scopes.used.touch(now.min(*at));
            }
        }
        Err(why) => log::warn!("when keys were last used is not known: {why}"),
    }
}

/// Serves until told to stop. Returns only if it cannot begin.
pub fn run(dir: &Path, mut loaded: Loaded) -> Result<(), String> {
    ports(&loaded.server)?;
    let shared = shared(&mut loaded)?;
    for warning in &shared.live.load().catalog.warnings {
        log::warn!("{warning}");
    }
    let workers = match shared.server.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let conf = ServerConf {
        threads: workers,
        // Ours ends the process well before.
        grace_period_seconds: Some((shared.server.drain.grace + CUT).as_secs() + 60),
        graceful_shutdown_timeout_seconds: Some(0),
        upgrade_sock: String::new(),
        pid_file: String::new(),
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut certificates = Vec::new();
    for service in services(&shared, &server.configuration, &mut certificates)? {
        server.add_service(service);
    }
    server.add_service(Admin::new(shared.clone()));
    server.add_service(background(&shared, dir, &loaded, certificates)?);
    // The texts that it was read from are the watch's now, and go as they are replaced.
    drop(loaded);
    server.run(RunArgs { shutdown_signal: Box::new(Signals { shared }) });
    Ok(())
}

/// Tells before anything begins that an address cannot be had: Pingora would stay alive without its
/// listener, or abort.
fn ports(server: &config::Server) -> Result<(), String> {
    let mut held: Vec<(SocketAddr, TcpListener)> = Vec::new();
    for address in server.listen.iter().map(|l| l.address).chain([server.admin]) {
        // All are held until each is bound, since they may be in each other's way.
        let listener = TcpListener::bind(address).map_err(|e| match held.iter().find(|(other, _)| other.port() == address.port()) {
            Some((other, _)) => format!(
                "cannot listen on {address}: {e}, by {other}; `listen` and `admin` in server.yaml, or --listen, name the same port twice"
            ),
            None => {
                format!(
                    "cannot listen on {address}: {e}; is another process listening there? `listen` and `admin` in server.yaml say where"
                )
            }
        })?;
        held.push((address, listener));
    }
    Ok(())
}

/// One service for plain listeners, one for those with h2c: it is an option of a service, not of a
/// listener.
fn services(
    shared: &Arc<Shared>,
    conf: &Arc<ServerConf>,
    certificates: &mut Vec<Arc<Certificate>>,
) -> Result<Vec<Service<Connections>>, String> {
    let places = Arc::new(Semaphore::new(shared.server.limits.connections));
    let mut services = Vec::new();
    for h2c in [false, true] {
        let listeners: Vec<&Listen> = shared.server.listen.iter().filter(|l| l.h2c == h2c).collect();
        if listeners.is_empty() {
            continue;
        }
        let mut service = Service::new(
            "callers".to_owned(),
            Connections::new(proxy(shared, conf, h2c), places.clone(), shared.clone()),
        );
        for listen in listeners {
            let buffers = L4BufferSettings::new(READ_BUFFER, WRITE_BUFFER);
            let mut endpoint = ListenerConfig::tcp(listen.address.to_string()).l4_buffer(buffers);
            if let Some(tls) = &listen.tls {
                let certificate = Arc::new(Certificate::read(&tls.cert, &tls.key)?);
                let text = |path: &Path| path.to_string_lossy().into_owned();
                let mut settings =
                    TlsSettings::intermediate(&text(&tls.cert), &text(&tls.key)).map_err(|e| e.to_string())?;
                settings.set_cert_resolver(certificate.clone());
                settings.enable_h2();
                certificates.push(certificate);
                endpoint = endpoint.tls(settings);
            }
            service.add_listener(endpoint);
        }
        services.push(service);
    }
    Ok(services)
}

fn proxy(shared: &Arc<Shared>, conf: &Arc<ServerConf>, h2c: bool) -> HttpProxy<Gateway> {
    let mut proxy = HttpProxy::new(Gateway::new(shared.clone()), conf.clone());
    proxy.handle_init_modules();
    let mut options = HttpServerOptions::default();
    options.h2c = h2c;
    // It reaches our door, and is refused there in our words.
    options.allow_connect_method_proxying = true;
    options.h2_idle_timeout = Some(shared.server.timeouts.keepalive);
    proxy.server_options = Some(options);
    proxy
}

/// Everything that goes on beside the exchanges: watching the catalog, resolving names, closing
/// idle connections, SIGHUP, becoming ready.
pub fn background(
    shared: &Arc<Shared>,
    dir: &Path,
    loaded: &Loaded,
    certificates: Vec<Arc<Certificate>>,
) -> Result<GenBackgroundService<Background>, String> {
    shared.store.as_ref().map_or(Ok(()), Store::start)?;
    let nudge = reload::watch(shared.clone(), dir.to_owned(), loaded)?;
    Ok(background_service("background", Background { shared: shared.clone(), certificates, nudge }))
}

/// The service that [`background`] makes.
pub struct Background {
    shared: Arc<Shared>,
    certificates: Vec<Arc<Certificate>>,
    nudge: Nudge,
}

#[async_trait]
impl BackgroundService for Background {
    async fn start(&self, shutdown: ShutdownWatch) {
        // It goes on during a drain: what still runs needs it as much as before.
        tokio::join!(
            self.become_ready(),
            self.resolve(),
            self.sweep(),
            self.hints(),
            probe(self.shared.clone()),
            self.hang_ups(),
            self.shut_down(shutdown)
        );
    }
}

impl Background {
    /// Ready is who accepts connections, not who means to.
    async fn become_ready(&self) {
        for listen in &self.shared.server.listen {
            let mut address = listen.address;
            if address.ip().is_unspecified() {
                address.set_ip(if address.is_ipv4() {
                    std::net::Ipv4Addr::LOCALHOST.into()
                } else {
                    std::net::Ipv6Addr::LOCALHOST.into()
                });
            }
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        self.shared.drain.enter(Phase::Serving);
        let live = self.shared.live.load();
        let at: Vec<String> = self
            .shared
            .server
            .listen
            .iter()
            .map(|l| format!("{}://{}", if l.tls.is_some() { "https" } else { "http" }, l.address))
            .collect();
        log::info!(
            "serving on {} (admin on http://{}): {} accounts, {} models, {} callers, {} keys",
            at.join(", "),
            self.shared.server.admin,
            live.catalog.accounts().len(),
            live.catalog.models().len(),
            live.catalog.callers().len(),
            live.catalog.key_count()
        );
    }

    async fn resolve(&self) {
        loop {
            let snapshot = self.shared.live.load_full();
            let next = Mutex::new(snapshot.places.iter().filter(|p| p.account.enabled));
            // A few at once: slow names must not hold up the others.
            let some = || async {
                loop {
                    let place = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(place) = place else { return };
                    place.state.addresses.refresh(&place.account).await;
                }
            };
            tokio::join!(some(), some(), some(), some(), some(), some(), some(), some());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP).await;
            let snapshot = self.shared.live.load_full();
            let now = Instant::now();
            self.shared.vault.sweep(now);
            self.shared.accounts.sweep(&snapshot.catalog, now);
            for issuer in snapshot.places.iter().filter_map(|place| place.issuer.as_ref()) {
                issuer.state.sweep(Some(issuer.account.fingerprint), now);
            }
        }
    }

    /// What other instances found broken is asked last here, too.
    async fn hints(&self) {
        let Some(store) = &self.shared.store else { return };
        loop {
            let hints = store.hints().await;
            let snapshot = self.shared.live.load_full();
            let now = Instant::now();
            for (account, tracks) in snapshot.catalog.accounts().iter().zip(&snapshot.tracks) {
                for (model, track) in tracks {
                    track.hint(hints.get(&(account.id.clone(), model.clone())).copied(), now);
                }
            }
        }
    }

    /// In a server that is not ours, the way down begins without us. Ours has begun it already when
    /// this is told.
    async fn shut_down(&self, mut shutdown: ShutdownWatch) {
        while !*shutdown.borrow_and_update() {
            if shutdown.changed().await.is_err() {
                return;
            }
        }
        self.shared.drain.enter(Phase::Delaying);
        // Pingora ends the process when it likes: no line may wait for then.
        loop {
            self.shared.drain.idle().await;
            self.shared.access_log.flush();
            self.shared.ledger.flush();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn hang_ups(&self) {
        let Ok(mut hang_ups) = signal(SignalKind::hangup()) else { return };
        while hang_ups.recv().await.is_some() {
            log::info!("SIGHUP: reading the catalog and certificates again, opening the access log anew");
            self.shared.access_log.reopen();
            self.nudge.now();
            for certificate in &self.certificates {
                if let Err(why) = certificate.reload() {
                    log::error!("{why}; the old certificate stays in use");
                }
            }
        }
    }
}

/// SIGTERM and SIGINT: the first drains, the second ends.
struct Signals {
    shared: Arc<Shared>,
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    async fn recv(&self) -> ShutdownSignal {
        let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
            log::error!("cannot listen for signals");
            return ShutdownSignal::FastShutdown;
        };
        either(&mut term, &mut int).await;
        let drain = self.shared.server.drain;
        self.shared.drain.enter(Phase::Delaying);
        say(
            log::Level::Info,
            format!(
                "asked to stop: {} exchanges run, they have {:?}; a second signal ends at once",
                self.shared.drain.exchanges(),
                drain.delay + drain.grace
            ),
        );
        tokio::select! {
            () = tokio::time::sleep(drain.delay) => {}
            () = either(&mut term, &mut int) => {
                cut(&self.shared, LAST_LINES).await;
                end(&self.shared, 130)
            }
        }
        self.shared.drain.enter(Phase::Draining);
        let shared = self.shared.clone();
        // The same receivers, so that a signal that comes just now is not lost.
        let closer = std::thread::Builder::new().name("drain".to_owned()).spawn(move || close(&shared, term, int));
        if let Err(why) = closer {
            log::error!("cannot start the drain's thread: {why}");
            end(&self.shared, 1);
        }
        ShutdownSignal::GracefulTerminate
    }
}

async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

/// Waits for the exchanges, for the end of the grace, or for a second signal; then ends the
/// process.
fn close(shared: &Shared, mut term: Signal, mut int: Signal) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            log::error!("cannot drain: {why}");
            end(shared, 1);
        }
    };
    let code = runtime.block_on(async {
        let drained = async {
            // The listeners close at the same moment; what they accepted just before counts too.
            tokio::time::sleep(Duration::from_millis(20)).await;
            if tokio::time::timeout(shared.server.drain.grace, shared.drain.idle()).await.is_err() {
                say(
                    log::Level::Warn,
                    format!("{} exchanges did not end in time: they are cut, and told so", shared.drain.exchanges()),
                );
                cut(shared, CUT).await;
            }
            0
        };
        tokio::select! {
            code = drained => code,
            () = either(&mut term, &mut int) => {
                cut(shared, LAST_LINES).await;
                130
            }
        }
    });
    end(shared, code);
}

/// What still runs is told so, and settled.
async fn cut(shared: &Shared, patience: Duration) {
    shared.drain.enter(Phase::Cutting);
    drop(tokio::time::timeout(patience, shared.drain.idle()).await);
}

/// Logs, but does not wait for ever: whoever reads the log may have stopped for good, and the
/// process must end all the same.
fn say(level: log::Level, what: String) {
    let (said, heard) = channel();
    let thread = std::thread::Builder::new().name("last-words".to_owned()).spawn(move || {
        log::log!(level, "{what}");
        // If nobody waits any more, nobody needs to know.
        said.send(()).ok();
    });
    if thread.is_ok() {
        heard.recv_timeout(LAST_LINES).ok();
    }
}

fn end(shared: &Shared, code: i32) -> ! {
    shared.access_log.flush();
    shared.ledger.finish();
    if let Some(store) = &shared.store {
        store.leave();
    }
    let lost = shared.ledger.told().waiting;
    if lost > 0 {
        say(
            log::Level::Error,
            format!("{lost} rows of the ledger are lost, since it could not be written up to the end"),
        );
    }
    say(log::Level::Info, "stopped".to_owned());
    #[expect(
        clippy::exit,
        clippy::disallowed_methods,
        reason = "the one place where a serving process ends: nothing that must be dropped is left"
    )]
    std::process::exit(code)
}
