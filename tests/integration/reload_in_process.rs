//! Reloads and starts in the test's own process, and starts that must fail: what needs no gateway
//! that serves beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use pingora::apps::ServerApp;
use pingora::protocols::l4::stream::Stream;
use pingora::server::configuration::ServerConf;
use pingora_proxy::HttpProxy;
use portcullis::catalog::load::{Secrets, load_folder};
use portcullis::catalog::resolve::resolve_catalog;
use portcullis::desk::connection::Connections;
use portcullis::operator::admin::metrics_text;
use portcullis::process::Process;
use portcullis::server;

use super::reload::{Load, ask, pair};
use crate::support::canary;
use crate::support::client::{self, Connection};
use crate::support::folder::Folder;
use crate::support::process;
use crate::support::{Catalog, Mock, Script, chat, eventually, run, run_within, spawn};

/// The whole gateway, in this process.
struct Inside {
    process: Process,
    address: std::net::SocketAddr,
    acceptor: tokio::task::JoinHandle<()>,
    _folder: Folder,
}

impl Inside {
    async fn start(catalog: &str) -> Self {
        let folder = Folder::new(&[("catalog.yaml", catalog)]);
        let ledger = folder.path().join("ledger.sqlite");
        let server = format!("log: {{ access: off }}\nledger: {{ path: {ledger:?} }}\n");
        folder.write("server.yaml", &server);
        let mut loaded = load_folder(folder.path(), Secrets::Read).unwrap();
        let process = Process::new(&mut loaded).unwrap();
        let mut proxy = HttpProxy::new(process.gateway(), Arc::new(ServerConf::default()));
        proxy.handle_init_modules();
        let (settings, books) = (process.settings.clone(), process.books.clone());
        let app = Arc::new(Connections::new(
            proxy,
            Arc::new(tokio::sync::Semaphore::new(1000)),
            settings,
            books,
        ));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = spawn(async move {
            let (_sender, shutdown) = tokio::sync::watch::channel(false);
            while let Ok((tcp, _)) = listener.accept().await {
                let (app, shutdown) = (app.clone(), shutdown.clone());
                spawn(async move {
                    drop(
                        app.process_new(Box::new(Stream::from(tcp)), &shutdown)
                            .await,
                    )
                });
            }
        });
        Inside {
            process,
            address,
            acceptor,
            _folder: folder,
        }
    }

    fn publish(&self, text: &str) {
        let catalog = resolve_catalog(&[("catalog.yaml".to_owned(), text.to_owned())], &mut |_| {
            Err("nothing to look up".to_owned())
        })
        .unwrap();
        self.process.publisher().publish(catalog);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

#[test]
fn f07_reloads_in_process_under_load_leave_nothing() {
    // In a process where no other test runs, since memory and descriptors are looked at.
    const ALONE: &str = "PORTCULLIS_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let test = std::thread::current().name().unwrap().to_owned();
        let ran = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &test, "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        return;
    }
    let held = || {
        (
            process::rss(std::process::id()),
            std::fs::read_dir("/proc/self/fd").unwrap().count(),
        )
    };
    run(async {
        let (failing, good) = (Mock::start().await, Mock::start().await);
        failing.always(Script::error(500, "out of order"));
        let inside = Inside::start(&pair(&failing, &good, 0).to_string()).await;
        let address = inside.address;
        let load = Load::start(4, move |caller| ask(address, caller));
        let first = Arc::downgrade(&inside.process.books.live.load_full());
        let last = ArcSwapOption::const_empty();
        let mut warm = (0, 0);
        tokio::task::block_in_place(|| {
            for version in 1..=10_000 {
                inside.publish(&pair(&failing, &good, version).to_string());
                if version == 1_000 {
                    warm = held();
                }
                if version == 9_999 {
                    last.store(Some(Arc::new(Arc::downgrade(
                        &inside.process.books.live.load_full(),
                    ))));
                }
            }
        });
        let cold = held();
        let (answers, _) = load.end().await;
        assert!(answers > 100, "{answers} answers are no load");
        // The mocks keep what they were asked, which is most of it.
        assert!(
            cold.0 < warm.0 + (64 << 20),
            "{} MiB became {}",
            warm.0 >> 20,
            cold.0 >> 20
        );
        assert!(
            cold.1 < warm.1 + 30,
            "{} descriptors became {}",
            warm.1,
            cold.1
        );
        assert_eq!(inside.process.books.live.load().generation, 10_001);
        // Those that began with it have ended, and so it is gone.
        let gone = || {
            (first.upgrade().is_none() && last.load_full().unwrap().upgrade().is_none())
                .then_some(())
        };
        eventually("old catalogs go", gone).await;
        assert_eq!(inside.process.books.live.accounts.held_accounts(), 2);
        eventually("all exchanges end", || {
            (inside.process.books.drain.exchanges() == 0).then_some(())
        })
        .await;
        // Each exchange saw one version only: what the first upstream was asked for and did not
        // give, the second was. It is asked alone once the first one's breaker is open.
        let models = |mock: &Mock| {
            let mut models: BTreeMap<_, usize> = BTreeMap::new();
            mock.requests()
                .iter()
                .for_each(|request| *models.entry(request.model()).or_default() += 1);
            models
        };
        let (failed, given) = (models(&failing), models(&good));
        assert!(failed.len() > 100, "{} versions are no load", failed.len());
        assert!(
            failed
                .iter()
                .all(|(model, asked)| given.get(model) >= Some(asked))
        );
    });
}

#[test]
fn f13_accounts_that_come_and_go_leave_nothing() {
    run_within(Duration::from_secs(150), async {
        let mock = Mock::start().await;
        let inside = Inside::start(&Catalog::over(&mock).to_string()).await;
        let catalog = |n: usize| match n % 2 {
            0 => Catalog::over(&mock).to_string(),
            _ => Catalog::over(&mock)
                .account(&format!("a{n}"), &mock)
                .model_with("n", &[&format!("a{n}")], "")
                .to_string(),
        };
        let ask = async |model: &str| {
            let mut connection = Connection::plain(inside.address, None).await;
            connection.send(client::post(&chat(model))).await;
            assert_eq!(connection.response().await.status, 200);
        };
        let settled = || {
            eventually("all is settled", || {
                (inside.process.books.drain.exchanges() == 0).then_some(())
            })
        };
        ask("m").await;
        settled().await;
        let series = |name: &str| {
            let text = metrics_text(&inside.process.books, None);
            text.lines()
                .filter(|line| line.contains(&format!("\"{name}\"")))
                .count()
        };
        for n in 1..=10_000 {
            inside.publish(&catalog(n));
            // Now and then it is used, so that there is something to forget.
            if n % 500 == 1 {
                ask("n").await;
            }
        }
        settled().await;
        inside.publish(&catalog(1));
        inside.publish(&catalog(2));
        ask("m").await;
        settled().await;
        assert_eq!(inside.process.books.live.accounts.held_accounts(), 1);
        // The counters of the thousand names that left last stay, and no others.
        let used: Vec<usize> = (1..=10_000)
            .step_by(500)
            .filter(|n| series(&format!("a{n}")) > 0)
            .collect();
        assert_eq!(
            used,
            [8_501, 9_001, 9_501],
            "{}",
            metrics_text(&inside.process.books, None)
        );
    });
}

#[test]
fn f15_a_start_without_a_good_catalog_says_why() {
    const SERVER: &str = "listen: [{ address: \"127.0.0.1:1\" }]\n";
    const GOOD: &str = "accounts: {}\nmodels: {}\ncallers: {}\n";
    type Files = &'static [(&'static str, &'static str)];
    let cases: &[(Files, &[&str])] = &[
        (
            &[("server.yaml", SERVER)],
            &["catalog.yaml", "does not exist", "--conf"],
        ),
        (
            &[("server.yaml", "listen: []\n"), ("catalog.yaml", GOOD)],
            &["server.yaml:1", "listen"],
        ),
        (
            &[("server.yaml", SERVER), ("catalog.yaml", "")],
            &["catalog.yaml"],
        ),
        (
            &[
                ("server.yaml", SERVER),
                (
                    "catalog.yaml",
                    "accounts: { claude: { dialect: demo } }\nmodels:\n  m: { targets: [{ account: claud }] }\ncallers: {}\n",
                ),
            ],
            &[
                "catalog.yaml:3",
                "models.m.targets[0].account",
                "did you mean \"claude\"?",
            ],
        ),
        (
            &[
                ("server.yaml", "listne: []\n"),
                ("catalog.yaml", "accounts: {}\n"),
            ],
            &[
                "server.yaml:1",
                "listne",
                "did you mean `listen`?",
                "catalog.yaml",
                "models",
                "callers",
            ],
        ),
        (
            &[
                ("server.yaml", SERVER),
                (
                    "catalog.yaml",
                    "accounts: { a: { dialect: openai, key: { env: PORTCULLIS_TEST_UNSET } } }\nmodels: {}\ncallers: {}\n",
                ),
            ],
            &[
                "catalog.yaml:1",
                "accounts.a.key",
                "the environment variable PORTCULLIS_TEST_UNSET is not set",
            ],
        ),
        (
            &[
                ("server.yaml", SERVER),
                (
                    "catalog.yaml",
                    "accounts: { a: { dialect: openai, key: { file: nowhere } } }\nmodels: {}\ncallers: {}\n",
                ),
            ],
            &[
                "catalog.yaml:1",
                "accounts.a.key",
                "the file does not exist",
            ],
        ),
    ];
    for (files, says) in cases {
        let folder = Folder::new(files);
        let (served, checked) = (folder.run(&["serve"]), folder.run(&["check"]));
        for ran in [&served, &checked] {
            assert_eq!(ran.status.code(), Some(1), "{}", ran.stderr);
            for word in *says {
                assert!(ran.stderr.contains(word), "no {word:?} in {}", ran.stderr);
            }
        }
        let problems = |text: &str| {
            text.lines()
                .filter(|line| line.contains(".yaml"))
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()
        };
        let served = problems(&served.stderr);
        assert!(
            served
                .iter()
                .all(|line| checked.stderr.contains(line.as_str())),
            "{served:#?}\n{}",
            checked.stderr
        );
    }
}

#[test]
fn a_catalog_of_a_hundred_thousand_keys_loads_right() {
    use std::fmt::Write;
    let mut text = String::from("accounts:\n");
    for n in 0..1_000 {
        writeln!(
            text,
            "  a{n}: {{ dialect: openai, base_url: \"http://10.0.{}.{}/v1\", key: \"secret-{n}\" }}",
            n / 250,
            n % 250 + 1
        )
        .unwrap();
    }
    text.push_str("models:\n");
    for n in 0..10_000 {
        writeln!(
            text,
            "  m{n}: {{ targets: [{{ account: a{} }}, {{ account: a{} }}] }}",
            n % 1_000,
            (n + 1) % 1_000
        )
        .unwrap();
    }
    text.push_str("callers:\n");
    for caller in 0..1_000 {
        writeln!(
            text,
            "  c{caller}:\n    models: [\"m{caller}*\"]\n    keys:"
        )
        .unwrap();
        for key in 0..100 {
            writeln!(
                text,
                "      k{key}: {{ hash: \"{}\" }}",
                canary::hash(&format!("sk-{caller}-{key}"))
            )
            .unwrap();
        }
    }
    let folder = Folder::new(&[("server.yaml", ""), ("catalog.yaml", &text)]);
    folder.write("server.yaml", "workers: 1\n");
    let worked = process::worked();
    let loaded = load_folder(folder.path(), Secrets::Read).unwrap();
    let worked = process::worked() - worked;
    // How fast it is when optimised is a benchmark; this is against what grows with the square.
    println!("{worked:?}");
    assert!(worked < Duration::from_secs(60), "{worked:?}");
    let catalog = loaded.catalog;
    assert_eq!(
        (
            catalog.accounts().len(),
            catalog.models().len(),
            catalog.callers().len(),
            catalog.secret_count()
        ),
        (1_000, 10_000, 1_000, 100_000)
    );
    let now = std::time::SystemTime::now();
    let key = |secret: &str| {
        catalog
            .opened(&portcullis::catalog::resolve::sha256_of(secret), now)
            .map(|(key, _)| key)
            .cloned()
    };
    assert_eq!(&*key("sk-999-99").unwrap().id, "c999/k99");
    assert!(key("sk-999-100").is_err());
    let sees = |model: &str| key("sk-77-0").unwrap().permissions.allow(model);
    assert!(sees("m77") && sees("m770") && !sees("m7") && !sees("m87"));
    let model = catalog.model("m9999").unwrap();
    assert_eq!(
        model
            .targets
            .iter()
            .map(|target| &*target.account.id)
            .collect::<Vec<_>>(),
        ["a999", "a0"]
    );
    assert_eq!(
        catalog
            .keys()
            .map(|key| key.permissions.index)
            .collect::<BTreeSet<_>>()
            .len(),
        1_000
    );
}

#[test]
fn in_another_server_the_shutdown_is_noticed() {
    use pingora::services::background::BackgroundService;
    run(async {
        let folder = Folder::new(&[
            (
                "server.yaml",
                &format!(
                    "listen: [{{ address: \"{}\" }}]\nlog: {{ access: off }}\nledger: {{ enabled: false }}\n",
                    crate::support::gateway::free_port()
                ),
            ),
            ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n"),
        ]);
        let mut loaded = load_folder(folder.path(), Secrets::Read).unwrap();
        let process = Process::new(&mut loaded).unwrap();
        let background = server::make_background(&process, folder.path(), &loaded)
            .unwrap()
            .task();
        let (sender, shutdown) = tokio::sync::watch::channel(false);
        let running = spawn(async move { background.start(shutdown).await });
        assert_eq!(
            process.books.drain.phase(),
            portcullis::drain::Phase::Starting
        );
        sender.send(true).unwrap();
        eventually("it is noticed", || {
            (process.books.drain.phase() == portcullis::drain::Phase::Delaying).then_some(())
        })
        .await;
        running.abort();
    });
}

#[test]
fn nobody_serves_the_published_key_to_everybody() {
    let folder = Folder::new(&[
        (
            "server.yaml",
            "listen: [{ address: \"0.0.0.0:1\" }]\nlog: { access: off }\nledger: { enabled: false }\n",
        ),
        (
            "catalog.yaml",
            &include_str!("../../conf/catalog.yaml")
                .replace("  demo:\n    aliases", "  other:\n    aliases")
                .replace("fallbacks: [demo]", "fallbacks: [other]")
                .replace("models: [demo, ", "models: [other, "),
        ),
    ]);
    let mut loaded = load_folder(folder.path(), Secrets::StandIns).unwrap();
    let problem = portcullis::catalog::published_key_problem(
        &loaded.catalog,
        &["0.0.0.0:1".parse().unwrap()],
    );
    assert!(problem.is_some());
    assert_eq!(Process::new(&mut loaded).err(), problem);
}
