//! A server runs a process: ports, listeners, background work, signals and the shutdown.
//!
//! Pingora's own shutdown always sleeps for the whole grace, and ignores a second signal. So the
//! module `shutdown` handles the signals itself.

mod ports;
mod shutdown;
mod terminal;

use crate::base::address::reachable_address;
use crate::base::calendar::{now_millis, unix_time};
use crate::base::clock::{Clock, Round};
use crate::base::descriptors;
use crate::base::lock::Lock;
use crate::catalog::load::Loaded;
use crate::desk::Desk;
use crate::desk::connection::{CallersRuntime, Connections, InternalConnector};
use crate::desk::record::Books;
use crate::drain::Phase;
use crate::exchange::producer::probe::run_probes;
use crate::exchange::{identity, issuer_keys, lists};
use crate::live::ready_account::ReadyAccount;
use crate::live::{self, Nudge};
use crate::operator::notify;
use crate::process::Process;
use crate::store::Store;
use crate::supervisor::Supervisor;
use crate::tls::Certificate;
use crate::traces;
use async_trait::async_trait;
use pingora::apps::HttpServerOptions;
use pingora::listeners::tls::TlsSettings;
use pingora::listeners::{L4BufferSettings, ListenerConfig};
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownWatch};
use pingora::services::background::{BackgroundService, GenBackgroundService, background_service};
use pingora::services::listening::Service;
use pingora_proxy::HttpProxy;
use shutdown::{CUT_TIMEOUT, Signals};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use terminal::Terminal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// The time between two searches for host names that must be looked up again.
const NAMES: Duration = Duration::from_secs(1);
/// The time between two searches for idle upstream connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);
/// The time between two readings of a certificate that is awaited.
const CATCH_UP_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two searches while no file descriptor is free.
const SWEEP_SOON: Duration = Duration::from_millis(200);

/// Serves until a signal stops it. Returns only if it cannot begin.
pub fn run(dir: &Path, mut loaded: Loaded) -> Result<(), String> {
    descriptors::raise_limit();
    ports::check_ports(&loaded.server)?;
    let terminal = Terminal::at_start();
    let process = Process::new(&mut loaded)?;
    log_connection_cap(&process);
    for warning in &process.books.live.load().catalog.warnings {
        log::warn!("{warning}");
    }
    let workers = match process.settings.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let conf = ServerConf {
        threads: workers,
        // Our own grace ends the process well before this one.
        grace_period_seconds: Some((process.settings.drain.grace + CUT_TIMEOUT).as_secs() + 60),
        graceful_shutdown_timeout_seconds: Some(0),
        upgrade_sock: String::new(),
        pid_file: String::new(),
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let (services, inside) = make_services(&process, &server.configuration)?;
    for service in services {
        server.add_service(service);
    }
    server.add_service(process.admin().with_door(inside));
    server.add_service(make_background(&process, dir, &loaded)?);
    // The watch of the catalog has its own copy of the texts, and drops each when it is replaced.
    drop(loaded);
    let supervisor = Arc::new(Supervisor::from_environment());
    let supervisor_task = SupervisorTask {
        process: process.clone(),
        supervisor: supervisor.clone(),
    };
    server.add_service(background_service("supervisor", supervisor_task));
    server.run(RunArgs {
        shutdown_signal: Box::new(Signals {
            process,
            supervisor,
            terminal,
        }),
    });
    Ok(())
}

/// Warns the operator if the process cannot have as many connections as the settings allow.
fn log_connection_cap(process: &Process) {
    let (possible, limits) = (process.max_connections(), &process.settings.limits);
    if limits.are_few_connections(possible) {
        log::warn!(
            "callers can have {possible} connections at once, and not the {} of `limits.connections`: the system lets this process have \
             {} files open. {}, or write a smaller `limits.connections`",
            limits.connections,
            process.books.descriptors.limit(),
            descriptors::REMEDY
        );
    }
}

/// The service for callers.
type Callers = Connections<HttpProxy<Desk>>;

/// Returns a service for plain listeners and one for those with h2c, since h2c is an option of a
/// service, not of a listener; and the door for requests from within the process.
fn make_services(
    process: &Process,
    conf: &Arc<ServerConf>,
) -> Result<(Vec<Service<Callers>>, InternalConnector), String> {
    let permits = Arc::new(Semaphore::new(process.max_connections()));
    let home = CallersRuntime::default();
    let connections = |h2c| new_connections(process, conf, h2c, &permits, &home);
    let mut services = Vec::new();
    for h2c in [false, true] {
        let listeners = process.settings.listen.iter().zip(&*process.certificates);
        let listeners: Vec<_> = listeners.filter(|(listen, _)| listen.h2c == h2c).collect();
        if listeners.is_empty() {
            continue;
        }
        let mut service = Service::new("callers".to_owned(), connections(h2c));
        for (listen, certificate) in listeners {
            // What is read goes into our buffer, or into Pingora's of a head or a body. What is
            // written waits in ours. A connection would hold buffers of its own until it ends.
            let address = listen.address.to_string();
            let mut endpoint =
                ListenerConfig::tcp(address).l4_buffer(L4BufferSettings::unbuffered());
            if let Some((tls, certificate)) = listen.tls.as_ref().zip(certificate.as_ref()) {
                let text = |path: &Path| path.to_string_lossy().into_owned();
                let mut settings = TlsSettings::intermediate(&text(&tls.cert), &text(&tls.key))
                    .map_err(|e| e.to_string())?;
                settings.set_cert_resolver(certificate.clone());
                settings.enable_h2();
                endpoint = endpoint.tls(settings);
            }
            service.add_listener(endpoint);
        }
        services.push(service);
    }
    Ok((services, InternalConnector::new(connections(false))))
}

fn new_connections(
    process: &Process,
    conf: &Arc<ServerConf>,
    h2c: bool,
    places: &Arc<Semaphore>,
    home: &CallersRuntime,
) -> Callers {
    let Process {
        settings, books, ..
    } = process.clone();
    let proxy = make_proxy(process, conf, h2c);
    Connections::new(proxy, places.clone(), settings, books).with_runtime(home.clone())
}

fn make_proxy(process: &Process, conf: &Arc<ServerConf>, h2c: bool) -> HttpProxy<Desk> {
    let mut proxy = HttpProxy::new(process.gateway(), conf.clone());
    proxy.handle_init_modules();
    let mut options = HttpServerOptions::default();
    options.h2c = h2c;
    // A CONNECT request then reaches our door, and is refused there in our words.
    options.allow_connect_method_proxying = true;
    options.h2_idle_timeout = Some(process.settings.timeouts.keepalive);
    proxy.server_options = Some(options);
    proxy
}

/// Makes the service for everything that runs in the background of the exchanges: it watches the
/// catalog, resolves names, closes idle connections, handles SIGHUP, and becomes ready.
pub fn make_background(
    process: &Process,
    dir: &Path,
    loaded: &Loaded,
) -> Result<GenBackgroundService<Background>, String> {
    process
        .backends
        .store
        .as_ref()
        .map_or(Ok(()), Store::start)?;
    let nudge = live::start_watching(process.publisher(), dir, loaded)?;
    Ok(background_service(
        "background",
        Background {
            process: process.clone(),
            nudge,
        },
    ))
}

/// The service that [`make_background`] makes.
pub struct Background {
    process: Process,
    nudge: Nudge,
}

#[async_trait]
impl BackgroundService for Background {
    async fn start(&self, shutdown: ShutdownWatch) {
        // This goes on during a drain: running exchanges need it as much as before.
        tokio::join!(
            self.become_ready(),
            self.await_certificates(),
            self.resolve(),
            self.sweep(),
            self.hints(),
            run_probes(
                &self.process.books.live,
                &self.process.backends,
                &self.process.memory,
                &self.process.books.metrics
            ),
            identity::keep_fresh(
                &self.process.books.live,
                &self.process.backends,
                &self.process.books.metrics
            ),
            lists::keep_refreshed(
                &self.process.books.live,
                &self.process.backends,
                &self.process.books.metrics
            ),
            issuer_keys::keep_refreshed(
                &self.process.books.live,
                &self.process.backends,
                &self.process.books.metrics
            ),
            self.process.watch.keep_observing(),
            self.notify(),
            self.traces(),
            self.hang_ups(),
            self.shut_down(shutdown)
        );
    }
}

impl Background {
    /// Waits until each address accepts connections, and one of them can be used, and then becomes
    /// ready.
    async fn become_ready(&self) {
        let Process {
            settings,
            books,
            certificates,
            ..
        } = &self.process;
        let is_awaited = |one: &Certificate| one.awaited().is_some();
        while certificates
            .iter()
            .all(|one| one.as_deref().is_some_and(is_awaited))
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for listen in &settings.listen {
            while tokio::net::TcpStream::connect(reachable_address(listen.address))
                .await
                .is_err()
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        books.drain.enter(Phase::Serving);
        let catalog = &books.live.load().catalog;
        let addresses = settings.listen.iter().map(|listen| {
            let scheme = if listen.tls.is_some() {
                "https"
            } else {
                "http"
            };
            format!("{scheme}://{}", listen.address)
        });
        log::info!(
            "serving on {} (page for operators on http://{}): {}",
            addresses.collect::<Vec<_>>().join(", "),
            settings.admin.address,
            catalog.size()
        );
    }

    async fn resolve(&self) {
        loop {
            let snapshot = self.process.books.live.load_full();
            let next = Lock::new(snapshot.called_accounts());
            // Several names are resolved at once: slow names must not hold up the others.
            let some = || refresh_addresses(&next);
            tokio::join!(
                some(),
                some(),
                some(),
                some(),
                some(),
                some(),
                some(),
                some()
            );
            Clock::pause(Round::Names, NAMES).await;
        }
    }

    async fn sweep(&self) {
        let Books {
            descriptors, live, ..
        } = &*self.process.books;
        loop {
            let is_lacking = tokio::select! {
                () = descriptors.wait_for_lack() => true,
                () = Clock::pause(Round::Connections, SWEEP_INTERVAL) => false,
            };
            if is_lacking {
                // Many lacks are answered together.
                live.accounts.close_idle();
                tokio::time::sleep(SWEEP_SOON).await;
            }
            descriptors.refresh();
            let snapshot = self.process.books.live.load_full();
            let now = Clock::now();
            self.process.backends.vault.sweep(now);
            self.process.backends.items.sweep(now);
            live.subjects.forget_idle(&live.limits, now_millis());
            live.tokens.sweep(unix_time(SystemTime::now()).as_secs());
            self.process
                .books
                .live
                .accounts
                .sweep(&snapshot.catalog, now);
        }
    }

    /// Takes over which targets other instances found broken: this instance also tries them last.
    async fn hints(&self) {
        let Some(store) = &self.process.backends.store else {
            return;
        };
        loop {
            let hints = store.hints().await;
            let snapshot = self.process.books.live.load_full();
            let now = Clock::now();
            for (account, healths) in snapshot.catalog.accounts().iter().zip(snapshot.targets()) {
                for (model, health) in healths {
                    health.record_hint(
                        hints
                            .get(&(account.id.clone(), health.name(&model)))
                            .copied(),
                        now,
                    );
                }
            }
        }
    }

    /// Sends notices of problems that come and go, if the settings have a receiver.
    async fn notify(&self) {
        let Process {
            settings,
            books,
            backends,
            watch,
            ..
        } = &self.process;
        if let Some(settings) = &settings.notify {
            notify::send_notices(settings, watch, backends, &books.ledger.instance()).await;
        }
    }

    /// Sends traces, if the settings have a receiver.
    async fn traces(&self) {
        let Process {
            books, backends, ..
        } = &self.process;
        if let Some(traces) = &books.traces {
            traces::send_spans(traces, backends, &books.ledger.instance()).await;
        }
    }

    /// Waits for Pingora's shutdown. In another program's server, the shutdown begins without our
    /// signals. In our own server, the drain has begun before.
    async fn shut_down(&self, mut shutdown: ShutdownWatch) {
        while !*shutdown.borrow_and_update() {
            if shutdown.changed().await.is_err() {
                return;
            }
        }
        self.process.books.drain.enter(Phase::Delaying);
        // Pingora may end the process at any moment: so no line may wait to be written.
        loop {
            self.process.books.drain.wait_until_idle().await;
            self.process.books.access_log.flush();
            self.process.books.ledger.flush();
            self.process
                .books
                .traces
                .iter()
                .for_each(|traces| traces.hurry());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Reads the certificates that were pipes at the start, until each listener has its own.
    async fn await_certificates(&self) {
        let Process {
            settings,
            certificates,
            ..
        } = &self.process;
        let awaited =
            settings
                .listen
                .iter()
                .zip(&**certificates)
                .filter_map(|(listen, certificate)| {
                    let certificate = certificate.clone()?;
                    let why = certificate.awaited()?;
                    log::error!(
                        "the listener {} waits for its certificate: {why}",
                        listen.address
                    );
                    Some((listen.address, certificate))
                });
        let awaited: Arc<[_]> = awaited.collect();
        while awaited
            .iter()
            .any(|(_, certificate)| certificate.awaited().is_some())
        {
            tokio::time::sleep(CATCH_UP_INTERVAL).await;
            let awaited = awaited.clone();
            // A disk that is away may let a read wait for ever, and nothing else waits for that.
            let read = tokio::task::spawn_blocking(move || {
                for (address, certificate) in &*awaited {
                    catch_up(*address, certificate);
                }
            });
            if read.await.is_err() {
                return;
            }
        }
    }

    async fn hang_ups(&self) {
        let Ok(mut hang_ups) = signal(SignalKind::hangup()) else {
            return;
        };
        let reader = CertificateReader::default();
        while hang_ups.recv().await.is_some() {
            log::info!(
                "SIGHUP: reading the catalog and certificates again, reopening the access log"
            );
            self.process.books.access_log.reopen();
            self.nudge.now();
            reader.read_again(&self.process.certificates);
        }
    }
}

/// Resolves the names of places, one after another, as long as others leave some.
async fn refresh_addresses<'p>(places: &Lock<impl Iterator<Item = &'p Arc<ReadyAccount>>>) {
    loop {
        let place = places.lock().next();
        let Some(place) = place else { return };
        let addresses = &place.state.addresses;
        addresses.refresh(&place.account, place.hop()).await;
    }
}

/// Reads the certificate of the listener at this address, if it is awaited, and logs what is new.
fn catch_up(address: SocketAddr, certificate: &Certificate) {
    match certificate.catch_up() {
        Some(Ok(())) => log::info!("the listener {address} has its certificate now"),
        Some(Err(why)) => log::error!("the listener {address} waits for its certificate: {why}"),
        None => {}
    }
}

/// Reads certificates in a thread of its own: a disk that is away may let a read wait for ever, and
/// nothing else waits for that.
#[derive(Default)]
struct CertificateReader {
    is_reading: Arc<AtomicBool>,
}

impl CertificateReader {
    /// Begins to read the certificates again.
    fn read_again(&self, certificates: &Arc<[Option<Arc<Certificate>>]>) {
        if certificates.iter().all(Option::is_none) {
            return;
        }
        if self.is_reading.swap(true, Ordering::AcqRel) {
            log::error!(
                "the certificates are not read again: the last reading of them still waits for the disk"
            );
            return;
        }
        let (certificates, is_reading) = (certificates.clone(), self.is_reading.clone());
        let thread = std::thread::Builder::new().name("certificates".to_owned());
        let spawned = thread.spawn(move || {
            // What is awaited is read every second anyway.
            let certificates = certificates.iter().flatten();
            for certificate in certificates.filter(|one| one.awaited().is_none()) {
                if let Err(why) = certificate.reload() {
                    log::error!("{why}; the gateway still uses the old certificate");
                }
            }
            is_reading.store(false, Ordering::Release);
        });
        if let Err(why) = spawned {
            self.is_reading.store(false, Ordering::Release);
            log::error!("the certificates are not read again: {why}");
        }
    }
}

/// Reports the state of the process to the service manager. In another program's server that is not
/// ours to tell.
struct SupervisorTask {
    process: Process,
    supervisor: Arc<Supervisor>,
}

#[async_trait]
impl BackgroundService for SupervisorTask {
    async fn start(&self, _: ShutdownWatch) {
        // This goes on during a drain.
        self.supervisor
            .keep_informed(&self.process.books.live, &self.process.books.drain)
            .await;
    }
}
