//! Problems of the gateway itself: its store, its ledger, its log, its certificates and its bugs.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{Clock, comes, goes, problems, subject_and_text};
use crate::support::canary::{ADMIN_KEY, KEY};
use crate::support::client::{self, Connection};
use crate::support::folder::Folder;
use crate::support::gateway::free_port;
use crate::support::redis::Redis;
use crate::support::tls::Ca;
use crate::support::{
    Catalog, Gateway, Mock, PATIENCE, chat, eventually, eventually_blocking, run, run_within,
};

const TIGHT: &str = "sk-CaNaRy-caller-tight-0123456789abcdefghijklmnopq";

/// The longest pause between two tries to reach the store.
const LONGEST_PAUSE: Duration = Duration::from_secs(12);

#[test]
fn store_down() {
    run(async {
        let (mock, mut redis) = (Mock::start().await, Redis::start());
        let store = format!("store: {{ redis: '{}', timeout: 5s }}", redis.url());
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(&store)
            .upstream(redis.port)
            .start()
            .await;
        goes(&gateway, "store_down").await;
        redis.kill();
        eventually("the store is down", || {
            (gateway.status()["store"]["state"] == "down").then_some(())
        })
        .await;
        gateway.advance(Duration::from_secs(5)).await;
        let down = comes(&gateway, "store_down").await;
        assert_eq!(down["severity"], "critical");
        let (subject, what) = subject_and_text(&down);
        assert!(
            subject.starts_with("store redis://") && what.contains("is down"),
            "{subject}: {what}"
        );
        redis.again();
        gateway.advance(LONGEST_PAUSE).await;
        goes(&gateway, "store_down").await;
    });
}

#[test]
fn clock_off() {
    run(async {
        let (mock, redis, clock) = (Mock::start().await, Redis::start(), Clock::new());
        let store = format!("store: {{ redis: '{}', timeout: 5s }}", redis.url());
        let setup = Gateway::with(Catalog::over(&mock))
            .server(&store)
            .upstream(redis.port);
        let gateway = clock.give(setup).start().await;
        goes(&gateway, "clock_off").await;
        clock.set(60);
        let (subject, what) = subject_and_text(&comes(&gateway, "clock_off").await);
        assert!(
            subject == "process clock" && what.contains("ahead of the store's"),
            "{what}"
        );
        clock.set(0);
        goes(&gateway, "clock_off").await;
    });
}

#[test]
fn counts_unreadable() {
    run_within(4 * PATIENCE, async {
        let (mock, redis, clock) = (Mock::start().await, Redis::start(), Clock::new());
        let catalog = Catalog::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_day: 500 }",
            &[("k", TIGHT, "")],
        );
        let store = format!(
            "store: {{ redis: '{}', timeout: 5s, prefix: mine }}",
            redis.url()
        );
        let setup = Gateway::with(catalog).server(&store).upstream(redis.port);
        let gateway = clock.give(setup).start().await;
        goes(&gateway, "store_down").await;
        let post = async || {
            assert_eq!(
                gateway.raw(client::post_as(TIGHT, &chat("m"))).await.status,
                200
            )
        };
        let counted = async |sent: u64| {
            let all = || (redis.used("{mine:tight}:caller:tight").0[0] == sent).then_some(());
            eventually("all is counted", all).await;
        };
        post().await;
        counted(1).await;
        goes(&gateway, "counts_unreadable").await;
        redis::cmd("HSET")
            .arg("{mine:tight}:caller:tight")
            .arg(&["all", "garbage"])
            .exec(&mut redis.connection())
            .unwrap();
        post().await;
        counted(2).await;
        let problem = comes(&gateway, "counts_unreadable").await;
        assert_eq!(problem["severity"], "warning");
        let (subject, what) = subject_and_text(&problem);
        assert!(subject.starts_with("store redis://"), "{subject}");
        let wanted = "The store had counts of caller tight that could not be read: they were removed, and each gateway \
                      sends its own again.";
        assert_eq!(what, wanted);
        let says = gateway.admin("/live?show=figures").1;
        assert!(
            says.contains("There is a warning: The store had counts of caller tight"),
            "{says}"
        );
        // It stands for long enough to be seen, and ends: this gateway has sent its own counts
        // again.
        assert_eq!(
            gateway.status()["store"]["unreadable"],
            json!({"number": 1, "scope": "caller tight", "waiting": 0})
        );
        clock.set(60);
        goes(&gateway, "counts_unreadable").await;
    });
}

#[test]
fn ledger_failing() {
    run(async {
        let mock = Mock::start().await;
        let folder = Folder::new(&[("ledger.sqlite", "no database, but longer than nothing")]);
        let path = folder.path().join("ledger.sqlite");
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(&format!("ledger: {{ path: {path:?} }}"))
            .start()
            .await;
        let failing = comes(&gateway, "ledger_failing").await;
        assert_eq!(failing["severity"], "critical");
        assert!(
            subject_and_text(&failing).1.contains("not a database"),
            "{failing}"
        );
        std::fs::remove_file(&path).expect("it is there");
        goes(&gateway, "ledger_failing").await;
    });
}

#[test]
fn access_lines_dropped() {
    run(async {
        let (mock, clock) = (Mock::start().await, Clock::new());
        let log = "log: { format: json, level: info, access: /dev/full }";
        let gateway = clock
            .give(Gateway::with(Catalog::over(&mock)).server(log))
            .start()
            .await;
        // Not in the test's own ledger: there is no line.
        let mut connection = Connection::plain(gateway.address, None).await;
        connection.send(client::post(&chat("m"))).await;
        assert_eq!(connection.response().await.status, 200);
        let (_, what) = subject_and_text(&comes(&gateway, "access_lines_dropped").await);
        assert!(what.starts_with("1 access line was lost"), "{what}");
        clock.set(5 * 60);
        goes(&gateway, "access_lines_dropped").await;
    });
}

#[test]
#[cfg_attr(not(feature = "test-panics"), ignore = "needs --features test-panics")]
fn panics() {
    run(async {
        let (mock, clock) = (Mock::start().await, Clock::new());
        let gateway = clock
            .give(Gateway::with(Catalog::over(&mock)))
            .start()
            .await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("x-test-panic", "exchange"),
        ];
        let mut connection = gateway.connect().await;
        let body = chat("m").to_string();
        connection
            .send(client::request(
                "POST",
                "/v1/chat/completions",
                &fields,
                body.as_bytes(),
            ))
            .await;
        // What its caller gets is for other tests.
        drop(connection.try_response("POST").await);
        let panics = comes(&gateway, "panics").await;
        assert_eq!(panics["severity"], "critical");
        assert!(
            subject_and_text(&panics)
                .1
                .contains("1 exchange ended in it"),
            "{panics}"
        );
        clock.set(3_000);
        assert_eq!(problems(&gateway, "panics").len(), 1);
        clock.set(3_700);
        goes(&gateway, "panics").await;
    });
}

#[test]
fn certificate_ends() {
    run(async {
        let (mock, clock, ca) = (Mock::start().await, Clock::new(), Ca::new());
        let short = Ca::own(&["localhost"], 2098, false);
        let setup = Gateway::with(Catalog::over(&mock))
            .also_listen("tls: { cert: tls/cert.pem, key: tls/key.pem }");
        let setup = setup
            .file("tls/cert.pem", &short.cert)
            .file("tls/key.pem", &short.key);
        let gateway = clock.give(setup).start().await;
        assert!(problems(&gateway, "certificate_ends").is_empty());
        // 2098-01-01.
        let end = Duration::from_secs(4_039_372_800);
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("a clock");
        let before =
            |days: u64| i64::try_from((end - now).as_secs() - days * 86_400).expect("some seconds");
        clock.set(before(10));
        let ends = comes(&gateway, "certificate_ends").await;
        assert_eq!(ends["severity"], "warning");
        let (subject, what) = subject_and_text(&ends);
        assert_eq!(subject, format!("listener {}", gateway.listeners[1]));
        assert!(
            what.ends_with("ends in 9 days.") || what.ends_with("ends in 10 days."),
            "{what}"
        );
        clock.set(before(1));
        let is_critical = || {
            let problem = problems(&gateway, "certificate_ends").pop()?;
            (problem["severity"] == "critical").then_some(())
        };
        eventually("it is critical", is_critical).await;
        let long = ca.leaf();
        std::fs::write(gateway.conf.join("tls/cert.pem"), &long.cert).expect("written");
        std::fs::write(gateway.conf.join("tls/key.pem"), &long.key).expect("written");
        gateway.signal("HUP");
        goes(&gateway, "certificate_ends").await;
        clock.set(0);
    });
}

/// The listener is on all addresses, so that the test asks it on loopback.
#[test]
fn admin_open() {
    run_within(Duration::from_secs(90), async {
        let (callers, admin) = (free_port(), free_port());
        let server = |key: &str| {
            format!(
                "listen: [{{ address: \"{callers}\" }}]\nadmin: {{ address: \"0.0.0.0:{}\"{key} }}\nledger: {{ enabled: false }}\n",
                admin.port()
            )
        };
        let catalog = "accounts: {}\nmodels: {}\ncallers: {}\n";
        let status = |headers: &str| {
            use std::io::{Read, Write};
            let mut stream = std::net::TcpStream::connect(admin).map_err(|e| e.to_string())?;
            let request = format!(
                "GET /status HTTP/1.1\r\nhost: {admin}\r\n{headers}connection: close\r\n\r\n"
            );
            stream
                .write_all(request.as_bytes())
                .map_err(|e| e.to_string())?;
            let mut answer = String::new();
            stream
                .read_to_string(&mut answer)
                .map_err(|e| e.to_string())?;
            answer
                .starts_with("HTTP/1.1 200")
                .then_some(answer.clone())
                .ok_or(answer)
        };
        let folder = Folder::new(&[("server.yaml", &server("")), ("catalog.yaml", catalog)]);
        let open = folder.start(&["serve"]);
        let page = eventually_blocking("its status", || status("")).expect("it answers");
        assert!(
            page.contains("\"admin_open\"") && page.contains("it asks for no key"),
            "{page}"
        );
        open.signal("TERM");
        drop(open);
        folder.write("admin.key", ADMIN_KEY);
        folder.write("server.yaml", server(", key: { file: admin.key }"));
        let _guarded = folder.start(&["serve"]);
        let bearer = format!("authorization: Bearer {ADMIN_KEY}\r\n");
        let page = eventually_blocking("its status", || status(&bearer)).expect("it answers");
        assert!(!page.contains("admin_open"), "{page}");
    });
}
