//! The task of a connection, in the test's own process: what the cap on connections sees of it.

use std::sync::Arc;

use async_trait::async_trait;
use pingora::apps::{HttpServerApp, ReusedHttpStream, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use portcullis::catalog::load::{Secrets, load_folder};
use portcullis::desk::connection::Connections;
use portcullis::desk::record::{Books, Record};
use portcullis::operator::admin::metrics_text;
use portcullis::process::Process;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::{Notify, Semaphore};

use crate::support::folder::Folder;
use crate::support::{Catalog, Mock, eventually, run};

const REQUEST: &str = "GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n";

/// An app that has a request, and waits. Then it panics, or not.
struct App(Arc<Wanted>);

struct Wanted {
    books: Arc<Books>,
    goes_on: Notify,
    panics: bool,
}

#[async_trait]
impl HttpServerApp for App {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        _: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        assert!(session.read_request().await.expect("a request"));
        let Wanted {
            books,
            goes_on,
            panics,
        } = &*self.0;
        let _record = Record::new(books.clone());
        goes_on.notified().await;
        assert!(!panics, "as the test wants it");
        None
    }
}

/// The places for connections, and one connection on which a request is served.
struct Served {
    process: Process,
    places: Arc<Semaphore>,
    app: Arc<Connections<App>>,
    wanted: Arc<Wanted>,
    caller: DuplexStream,
    shutdown: tokio::sync::watch::Sender<bool>,
    _folder: Folder,
}

impl Served {
    async fn begin(panics: bool) -> Served {
        let mock = Mock::start().await;
        let folder = Folder::new(&[("catalog.yaml", &Catalog::over(&mock).to_string())]);
        let ledger = folder.path().join("ledger.sqlite");
        let server = format!("log: {{ access: off }}\nledger: {{ path: {ledger:?} }}\n");
        folder.write("server.yaml", &server);
        let mut loaded = load_folder(folder.path(), Secrets::Read).expect("a folder");
        let process = Process::new(&mut loaded).expect("a process");
        let (settings, books) = (process.settings.clone(), process.books.clone());
        let wanted = Arc::new(Wanted {
            books: books.clone(),
            goes_on: Notify::new(),
            panics,
        });
        let places = Arc::new(Semaphore::new(1));
        let app = Connections::new(App(wanted.clone()), places.clone(), settings, books);
        let (caller, _) = tokio::io::duplex(1);
        let (shutdown, _) = tokio::sync::watch::channel(false);
        let mut served = Served {
            process,
            places,
            app: Arc::new(app),
            wanted,
            caller,
            shutdown,
            _folder: folder,
        };
        served.caller = served.connect().await;
        let caller = &mut served.caller;
        caller.write_all(REQUEST.as_bytes()).await.expect("a write");
        let drain = served.process.books.drain.clone();
        eventually("it is served", || (drain.exchanges() == 1).then_some(())).await;
        served
    }

    /// Gives the app another connection. It has been taken or refused when this returns.
    async fn connect(&self) -> DuplexStream {
        let (caller, near) = tokio::io::duplex(1 << 16);
        let watch = self.shutdown.subscribe();
        let left = self.app.process_new(Box::new(near), &watch).await;
        assert!(left.is_none());
        caller
    }

    fn counted(&self, line: &str) -> bool {
        metrics_text(&self.process.books, None)
            .lines()
            .any(|other| other == line)
    }

    async fn place_is_free(&self) {
        let free = || (self.places.available_permits() == 1).then_some(());
        eventually("its place is free", free).await;
    }
}

#[test]
fn a_panic_frees_the_place_of_its_connection() {
    run(async {
        let served = Served::begin(true).await;
        assert_eq!(served.places.available_permits(), 0);
        drop(served.connect().await);
        let refused = "portcullis_connections_refused_total 1";
        assert!(served.counted(refused), "the only place is taken");
        served.wanted.goes_on.notify_one();
        served.place_is_free().await;
        assert!(served.counted("portcullis_panics_total 1"));
        assert_eq!(served.process.books.drain.exchanges(), 0);
        drop(served.connect().await);
        assert!(served.counted(refused), "another one has the place");
    });
}

#[test]
fn the_end_of_a_connection_frees_its_place() {
    run(async {
        let served = Served::begin(false).await;
        assert_eq!(served.places.available_permits(), 0);
        served.wanted.goes_on.notify_one();
        served.place_is_free().await;
        assert_eq!(served.process.books.drain.exchanges(), 0);
    });
}
