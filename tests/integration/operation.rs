//! The operator's view: listeners, logs, `/metrics`, `/status`, SIGHUP, limits, the command line,
//! and the library in another server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::problems::{comes, goes, subject_and_text};
use crate::support::canary::{self, KEY};
use crate::support::client::{self, Connection};
use crate::support::folder::{self, Folder};
use crate::support::gateway::{BINARY, free_port, portcullis, ready};
use crate::support::process::Process;
use crate::support::script::{self, finish};
use crate::support::tls::{self, Ca, Leaf};
use crate::support::wire::Io;
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat, chat_stream, eventually,
    eventually_blocking, root, run, run_within,
};

// Listeners.

/// A gateway with TLS on its first listener, and who signed its certificate.
async fn with_tls(mock: &Mock, leaf: &Leaf) -> Gateway {
    Gateway::with(Catalog::over(mock))
        .listen("tls: { cert: tls/cert.pem, key: tls/key.pem }")
        .also_listen("h2c: true")
        .file("tls/cert.pem", &leaf.cert)
        .file("tls/key.pem", &leaf.key)
        .start()
        .await
}

#[test]
fn tls_speaks_http2_by_alpn_else_http1() {
    run(async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let gateway = with_tls(&mock, &ca.leaf()).await;
        let h2 = gateway.h2(0, &ca).await;
        assert_eq!(h2.post(&chat("m")).await.content(), "Hello from the mock.");
        assert_eq!(h2.post(&chat_stream("m")).await.content(), "w0 w1 w2 ");
        for alpn in [&["http/1.1"][..], &[]] {
            let mut connection = gateway.connect_tls(0, &ca, alpn).await;
            for (body, text) in [
                (chat("m"), "Hello from the mock."),
                (chat_stream("m"), "w0 w1 w2 "),
            ] {
                connection.send(client::post(&body)).await;
                let answer = connection.response().await;
                assert_eq!(
                    (answer.status, answer.content().as_str()),
                    (200, text),
                    "{alpn:?}"
                );
            }
        }
        // Plain text on a TLS port gets no answer, and hurts nobody.
        let mut plain = gateway.connect().await;
        plain.send(client::post(&chat("m"))).await;
        assert!(plain.try_response("POST").await.is_none());
        assert_eq!(h2.post(&chat("m")).await.status, 200);
        let lines = gateway.access_lines(7).await;
        assert!(
            lines
                .iter()
                .all(|line| line["outcome"] == "ok" && line["address"] == "127.0.0.1"),
            "{lines:#?}"
        );
    });
}

#[test]
fn h2c_is_spoken_only_where_switched_on() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .also_listen("h2c: true")
            .start()
            .await;
        let h2 = gateway.h2c(1).await;
        assert_eq!(h2.post(&chat_stream("m")).await.content(), "w0 w1 w2 ");
        let mut connection = Connection::plain(gateway.listeners[1], None).await;
        connection.send(client::post(&chat("m"))).await;
        assert_eq!(connection.response().await.status, 200);
        let mut preface = Connection::plain(gateway.listeners[0], None).await;
        preface.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let refused = preface.try_response("GET").await;
        assert!(refused.is_none_or(|answer| answer.status >= 400));
    });
}

#[test]
fn ipv6_is_listened_on() {
    run(async {
        let mock = Mock::start().await;
        let (port, admin) = (free_port().port(), free_port());
        let address = std::net::SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port));
        let server = format!(
            "listen: [{{ address: \"127.0.0.1:1\" }}]\nadmin: {{ address: \"{admin}\" }}\n"
        );
        let folder = Folder::new(&[
            ("server.yaml", &server),
            ("catalog.yaml", &Catalog::over(&mock).to_string()),
        ]);
        // The command line's word is the last.
        let mut process = folder.start(&["serve", "--listen", &address.to_string()]);
        ready(&mut process, admin).unwrap();
        let mut connection = Connection::plain(address, None).await;
        connection.send(client::post(&chat("m"))).await;
        assert_eq!(connection.response().await.status, 200);
        let line = eventually("its access line", || {
            process.stdout().contains(&b'\n').then(|| process.stdout())
        })
        .await;
        assert_eq!(
            serde_json::from_slice::<Value>(&line).unwrap()["address"],
            "::1"
        );
        process.signal("TERM");
        assert_eq!(
            process.wait(PATIENCE).and_then(|status| status.code()),
            Some(0)
        );
        canary::check("its log", process.stderr().as_bytes()).unwrap();
    });
}

#[test]
fn connections_over_the_cap_are_closed_at_once() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.always(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .event(finish("stop"))
                .done(),
        );
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("limits: { connections: 3 }")
            .also_listen("h2c: true")
            .start()
            .await;
        let refused = || {
            gateway
                .metrics()
                .sum("portcullis_connections_refused_total", &[])
        };
        let mut streams = Vec::new();
        for _ in 0..3 {
            streams.push(gateway.open(&chat_stream("m")).await);
        }
        // On every listener, since the cap is the process's.
        for (number, listener) in gateway.listeners.iter().enumerate() {
            let mut one_more = Connection::plain(*listener, None).await;
            one_more.send(client::post(&chat("m"))).await;
            assert!(one_more.try_response("POST").await.is_none());
            assert_eq!(refused(), number as f64 + 1.0);
        }
        // The admin listener has a cap of its own.
        assert_eq!(gateway.status()["exchanges"], 3);
        gate.open();
        for (connection, head) in &mut streams {
            connection.rest(head).await;
            assert_eq!(
                (
                    head.content().as_str(),
                    head.events().last().unwrap().as_str()
                ),
                ("w0 ", "[DONE]")
            );
        }
        streams.clear();
        let start = Instant::now();
        loop {
            let mut connection = gateway.connect().await;
            connection.send(client::post(&chat_stream("m"))).await;
            match connection.try_response("POST").await {
                Some(answer) => {
                    break assert_eq!((answer.status, answer.content().as_str()), (200, "w0 "));
                }
                None => assert!(start.elapsed() < PATIENCE, "places do not come back"),
            }
        }
    });
}

// Logs and signals.

fn read_lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .map(ToOwned::to_owned)
        .collect()
}

#[test]
fn sighup_reopens_the_access_log() {
    run(async {
        let mock = Mock::start().await;
        let mut gateway = Gateway::with(Catalog::over(&mock))
            .server("log: { format: json, level: trace, access: ./access.log }")
            .start()
            .await;
        let log = gateway.conf.parent().unwrap().join("access.log");
        let (rotated, read) = (log.with_extension("log.1"), |path: &Path| read_lines(path));
        gateway.post(&chat("m")).await;
        eventually("the first line", || (read(&log).len() == 1).then_some(())).await;
        // As logrotate does.
        std::fs::rename(&log, &rotated).unwrap();
        gateway.post(&chat("m")).await;
        eventually("the second line, in the old file", || {
            (read(&rotated).len() == 2).then_some(())
        })
        .await;
        gateway.signal("HUP");
        gateway.logged("SIGHUP").await;
        gateway.post(&chat("m")).await;
        eventually("the third line, in the new file", || {
            (read(&log).len() == 1).then_some(())
        })
        .await;
        assert_eq!(read(&rotated).len(), 2);
        gateway.post(&chat_stream("m")).await;
        gateway.signal("TERM");
        assert_eq!(gateway.exit(PATIENCE).code(), Some(0));
        // The last line is written before the process ends.
        let lines = read(&log);
        assert_eq!(lines.len(), 2, "{lines:#?}");
        for line in &lines {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (line["outcome"].as_str(), line["key"].as_str()),
                (Some("ok"), Some("acme/prod"))
            );
        }
        canary::check("the access log", lines.concat().as_bytes()).unwrap();
        assert_eq!(gateway.process.stdout(), b"");
    });
}

#[test]
fn sighup_reads_the_certificate_again_or_keeps_it() {
    async fn shown(gateway: &Gateway, ca: &Ca) -> Vec<u8> {
        let connection = gateway.connect_tls(0, ca, &["http/1.1"]).await;
        let Io::Tls(tls) = &connection.wire.io else {
            panic!("TLS was asked for")
        };
        tls.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }
    run(async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let gateway = with_tls(&mock, &ca.leaf()).await;
        let before = shown(&gateway, &ca).await;
        let mut old = gateway.connect_tls(0, &ca, &["http/1.1"]).await;
        let fresh = ca.leaf();
        std::fs::write(gateway.conf.join("tls/cert.pem"), &fresh.cert).unwrap();
        std::fs::write(gateway.conf.join("tls/key.pem"), &fresh.key).unwrap();
        gateway.signal("HUP");
        let start = Instant::now();
        while shown(&gateway, &ca).await == before {
            assert!(
                start.elapsed() < PATIENCE,
                "the old certificate is still shown"
            );
        }
        let after = shown(&gateway, &ca).await;
        // Open connections go on.
        old.send(client::post(&chat("m"))).await;
        assert_eq!(old.response().await.status, 200);
        // A certificate and a key that do not go together.
        std::fs::write(gateway.conf.join("tls/key.pem"), &ca.leaf().key).unwrap();
        gateway.signal("HUP");
        gateway.logged("do not belong together").await;
        assert_eq!(shown(&gateway, &ca).await, after);
    });
}

/// Puts a pipe that nobody writes to in the place of a file: to open it would wait for ever.
pub fn put_pipe(path: &Path) {
    let aside = path.with_extension("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&aside)
            .status()
            .unwrap()
            .success()
    );
    std::fs::rename(aside, path).unwrap();
}

#[test]
fn sighup_goes_on_after_a_certificate_whose_path_blocks() {
    run(async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let gateway = with_tls(&mock, &ca.leaf()).await;
        for file in ["tls/cert.pem", "tls/key.pem"] {
            let path = gateway.conf.join(file);
            let before = std::fs::read(&path).unwrap();
            put_pipe(&path);
            gateway.signal("HUP");
            gateway
                .logged(&format!(
                    "{} cannot be read: it is not a regular file",
                    path.display()
                ))
                .await;
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, before).unwrap();
        }
        // The next one is heard, and the catalog is read, too.
        std::fs::write(gateway.conf.join("tls/key.pem"), ca.leaf().key).unwrap();
        gateway.signal("HUP");
        gateway.logged("do not belong together").await;
        gateway.swap(Catalog::over(&mock).model("n", &["a"])).await;
    });
}

/// The other listeners serve meanwhile, and nobody has to start the gateway again.
#[test]
fn a_certificate_whose_path_blocks_at_start_is_awaited() {
    run(async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let (leaf, folder) = (ca.leaf(), Folder::new(&[]));
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        put_pipe(&cert);
        std::fs::write(&key, &leaf.key).unwrap();
        let listen = format!("tls: {{ cert: {cert:?}, key: {key:?} }}");
        let gateway = Gateway::with(Catalog::over(&mock))
            .also_listen(&listen)
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let why = format!(
            "{} cannot be read: it is not a regular file",
            cert.display()
        );
        gateway
            .logged(&format!(
                "the listener {} waits for its certificate: {why}",
                gateway.listeners[1]
            ))
            .await;
        let problem = comes(&gateway, "no_certificate").await;
        let (subject, what) = subject_and_text(&problem);
        assert_eq!(
            (&problem["severity"], subject),
            (
                &"critical".into(),
                format!("listener {}", gateway.listeners[1])
            )
        );
        assert!(what.contains(&why), "{what}");
        let tcp = tokio::net::TcpStream::connect(gateway.listeners[1])
            .await
            .unwrap();
        assert!(tls::connect(tcp, &ca, &["http/1.1"]).await.is_err());
        std::fs::remove_file(&cert).unwrap();
        std::fs::write(&cert, &leaf.cert).unwrap();
        gateway
            .logged(&format!(
                "the listener {} has its certificate now",
                gateway.listeners[1]
            ))
            .await;
        goes(&gateway, "no_certificate").await;
        let mut connection = gateway.connect_tls(1, &ca, &["http/1.1"]).await;
        connection.send(client::post(&chat("m"))).await;
        assert_eq!(connection.response().await.status, 200);
    });
}

#[test]
fn without_its_only_listeners_certificate_it_is_unready() {
    let (ca, folder, [address, admin]) = (Ca::new(), Folder::new(&[]), [free_port(), free_port()]);
    let leaf = ca.leaf();
    let listen =
        format!("listen: [{{ address: '{address}', tls: {{ cert: cert.pem, key: key.pem }} }}]");
    folder.write(
        "server.yaml",
        format!("{listen}\nadmin: {{ address: '{admin}' }}\nledger: {{ enabled: false }}\n"),
    );
    folder.write("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n");
    folder.write("cert.pem", &leaf.cert);
    let key = folder.path().join("key.pem");
    put_pipe(&key);
    let mut process = folder.start(&["serve"]);
    folder::logged(
        &process,
        &format!("the listener {address} waits for its certificate"),
    );
    let url = format!("http://{admin}/readyz");
    let is_not_ready = || {
        let said = portcullis(&["ready", "--url", &url]).stderr;
        let said = String::from_utf8_lossy(&said).into_owned();
        if said.contains("answers with HTTP 503") {
            Ok(())
        } else {
            Err(said)
        }
    };
    eventually_blocking("it is not ready", is_not_ready).unwrap();
    std::fs::remove_file(&key).unwrap();
    std::fs::write(&key, &leaf.key).unwrap();
    ready(&mut process, admin).unwrap();
    process.signal("TERM");
    assert_eq!(
        process.wait(PATIENCE).and_then(|status| status.code()),
        Some(0)
    );
}

#[test]
fn a_pipe_without_reader_as_access_log_blocks_nothing() {
    run(async {
        let mock = Mock::start().await;
        let folder = Folder::new(&[]);
        let pipe = folder.path().join("access.log");
        put_pipe(&pipe);
        let server = format!("log: {{ access: {pipe:?}, format: json, level: trace }}");
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(&server)
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        gateway.signal("HUP");
        gateway.logged("SIGHUP").await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
    });
}

#[test]
fn sighup_reads_the_catalog_where_no_watch_sees_it() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let elsewhere = gateway.conf.parent().unwrap().join("elsewhere.yaml");
        std::fs::copy(gateway.conf.join("catalog.yaml"), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, gateway.conf.join("link")).unwrap();
        std::fs::rename(gateway.conf.join("link"), gateway.conf.join("catalog.yaml")).unwrap();
        // By itself the gateway looks every three seconds, and finds one change so long after the
        // one before.
        let mut times = Vec::new();
        for n in 0..5 {
            let catalog = Catalog::over(&mock)
                .model("n", &["a"])
                .model(&format!("n{n}"), &["a"]);
            std::fs::write(&elsewhere, catalog.to_string()).unwrap();
            let start = Instant::now();
            gateway.signal("HUP");
            eventually("it is live", || {
                (gateway.generation() == 2 + n).then_some(())
            })
            .await;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        assert!(times[2] < Duration::from_millis(2_500), "{times:?}");
        assert_eq!(gateway.post(&chat("n")).await.status, 200);
        gateway.logged("SIGHUP").await;
    });
}

#[test]
fn the_access_log_can_be_off_or_text() {
    run(async {
        let mock = Mock::start().await;
        let off = Gateway::with(Catalog::over(&mock))
            .server("log: { access: off, level: trace }")
            .start()
            .await;
        off.post(&chat("m")).await;
        eventually("it is counted", || {
            (off.metrics().sum("portcullis_requests_total", &[]) == 1.0).then_some(())
        })
        .await;

        let mut text = Gateway::with(Catalog::over(&mock))
            .server("log: { format: text, level: trace }")
            .start()
            .await;
        text.post(&chat("m")).await;
        text.raw(client::post_as("sk-wrong", &chat("m")))
            .await
            .is_error(401, "invalid_api_key");
        text.post(&chat("gpt-5-mini"))
            .await
            .is_error(404, "model_not_found");
        mock.push(Script::error(400, "no such field"));
        text.post(&chat("m")).await;
        text.signal("TERM");
        text.exit(PATIENCE);
        let lines = String::from_utf8(text.process.stdout()).unwrap();
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(lines.len(), 4, "{lines:#?}");
        // Exchanges may end in another order than they began.
        let line_of = |status: &str| {
            let found = lines
                .iter()
                .find(|line| line.contains(&format!("/v1/chat/completions {status} ")));
            *found.unwrap_or_else(|| panic!("no {status} in {lines:#?}"))
        };
        // What was asked for, and why there is no answer.
        assert!(
            line_of("404").contains("model=- asked=\"gpt-5-mini\""),
            "{}",
            line_of("404")
        );
        for status in ["400", "401", "404"] {
            assert!(
                line_of(status).contains(" error=\""),
                "no reason in {}",
                line_of(status)
            );
        }
        for word in [
            " POST /v1/chat/completions 200 ok ",
            "model=m",
            "key=acme/prod",
            "account=a",
            "tokens=9+3(reported)",
            "127.0.0.1",
        ] {
            assert!(
                line_of("200").contains(word),
                "no {word:?} in {}",
                line_of("200")
            );
        }
        let refused = [
            " POST /v1/chat/completions 401 unauthorized ",
            "model=- key=-",
            "error=\"",
        ];
        for word in refused {
            assert!(
                line_of("401").contains(word),
                "no {word:?} in {}",
                line_of("401")
            );
        }
        let log = text.log();
        assert!(
            log.lines()
                .any(|line| line.contains(" info serving on http://")),
            "{log}"
        );
        assert!(log.lines().all(|line| !line.starts_with('{')), "{log}");
        drop(off);

        let (status, output) = Gateway::with(Catalog::over(&mock))
            .server("log: { access: ./nowhere/access.log }")
            .refuse();
        assert!(
            !status.success()
                && output.contains("the access log that `log.access` in server.yaml names"),
            "{output}"
        );
    });
}

#[test]
fn on_a_terminal_lines_are_text_and_elsewhere_json() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        gateway.post(&chat("unknown")).await;
        // A pipe is no terminal.
        let line = gateway.line().await;
        assert_eq!(
            (&line["model"], &line["asked_model"]),
            (&serde_json::Value::Null, &"unknown".into())
        );
        // The program `script` gives it a terminal, and tells the number of the process first.
        let (address, admin) = (free_port(), free_port());
        let server = format!("ledger: {{ enabled: false }}\nadmin: {{ address: \"{admin}\" }}\n");
        let folder = Folder::new(&[
            ("catalog.yaml", &Catalog::over(&mock).to_string()),
            ("server.yaml", &server),
        ]);
        let conf = folder.path().display();
        let serve = format!("echo $$; exec {BINARY} serve --conf {conf} --listen {address}");
        let mut script = Command::new("script")
            .args(["-q", "-c", &serve, "/dev/null"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(script.stdout.take().unwrap())
            .lines()
            .map(|line| line.unwrap());
        let number: String = lines.next().unwrap().trim().to_owned();
        let ready = lines.find(|line| line.contains("serving on")).unwrap();
        assert!(ready.contains(" info serving on http://"), "{ready}");
        let mut connection = Connection::plain(address, None).await;
        connection.send(client::post(&chat("unknown"))).await;
        connection.response().await.is_error(404, "model_not_found");
        drop(connection);
        let shown = lines
            .find(|line| line.contains("/v1/chat/completions"))
            .unwrap();
        assert!(
            shown.contains(" POST /v1/chat/completions 404 ")
                && shown.contains(" asked=\"unknown\""),
            "{shown}"
        );
        assert!(
            Command::new("kill")
                .args(["-TERM", &number])
                .status()
                .unwrap()
                .success()
        );
        assert!(script.wait().unwrap().success());
    });
}

#[test]
fn log_level_is_kept() {
    run(async {
        let mock = Mock::start().await;
        let mut gateways = Vec::new();
        for level in ["off", "error", "warn", "info", "debug"] {
            let gateway = Gateway::with(Catalog::over(&mock))
                .server(&format!("log: {{ level: {level} }}"))
                .start()
                .await;
            std::fs::write(gateway.conf.join("catalog.yaml"), "accounts: {}\n").unwrap();
            gateways.push(gateway);
        }
        for (gateway, wanted) in gateways.iter().zip([
            &[][..],
            &["error"],
            &["error", "warn"],
            &["error", "info", "warn"],
            &["error", "info", "warn"],
        ]) {
            eventually("the refusal", || {
                (gateway
                    .metrics()
                    .sum("portcullis_catalog_refusals_total", &[])
                    == 1.0)
                    .then_some(())
            })
            .await;
            if wanted.contains(&"error") {
                gateway.logged("is refused").await;
            }
            let log = gateway.log();
            let line = |line: &str| {
                serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e} in {line}"))
            };
            let levels: BTreeSet<_> = log
                .lines()
                .map(|text| line(text)["level"].as_str().unwrap().to_owned())
                .collect();
            let levels: Vec<_> = levels
                .iter()
                .map(String::as_str)
                .filter(|level| *level != "debug")
                .collect();
            assert_eq!(levels, wanted, "{log}");
        }
    });
}

// The admin listener.

/// Metric → labels, of every sample in the text.
fn samples(text: &str) -> BTreeMap<String, BTreeSet<Vec<String>>> {
    let mut found: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels
            .trim_end_matches('}')
            .split(',')
            .filter_map(|label| label.split_once('='))
            .map(|(name, _)| name.to_owned());
        found
            .entry(name.to_owned())
            .or_default()
            .insert(labels.filter(|name| name != "le").collect());
    }
    found
}

#[test]
fn metrics_have_their_names_and_labels() {
    const DOOR: &str = "door model";
    let table = [
        (
            "portcullis_requests_total",
            "door model account caller outcome",
        ),
        ("portcullis_request_seconds_bucket", DOOR),
        ("portcullis_request_seconds_sum", DOOR),
        ("portcullis_request_seconds_count", DOOR),
        ("portcullis_first_byte_seconds_bucket", DOOR),
        ("portcullis_first_byte_seconds_sum", DOOR),
        ("portcullis_first_byte_seconds_count", DOOR),
        ("portcullis_own_seconds_bucket", DOOR),
        ("portcullis_own_seconds_sum", DOOR),
        ("portcullis_own_seconds_count", DOOR),
        ("portcullis_tokens_total", "model account caller kind"),
        ("portcullis_attempts_total", "model account outcome"),
        ("portcullis_given_up_total", "model account"),
        ("portcullis_first_token_seconds_bucket", "model account"),
        ("portcullis_first_token_seconds_sum", "model account"),
        ("portcullis_first_token_seconds_count", "model account"),
        ("portcullis_in_flight", "account"),
        ("portcullis_account_state", "account state"),
        ("portcullis_account_reason", "account reason"),
        ("portcullis_target_state", "account model endpoint state"),
        ("portcullis_waiting", "model"),
        ("portcullis_catalog_generation", ""),
        ("portcullis_catalog_last_success_seconds", ""),
        ("portcullis_catalog_refusals_total", ""),
        ("portcullis_usage_estimated_total", DOOR),
        ("portcullis_reload_failed", ""),
        ("portcullis_catalog_shrunk_total", ""),
        ("portcullis_catalog_waiting_seconds", ""),
        ("portcullis_access_lines_dropped", ""),
        ("portcullis_descriptors_lacking_total", ""),
        ("portcullis_connections_refused_total", ""),
        ("portcullis_panics_total", ""),
        ("portcullis_cost_unknown_total", "model account"),
        ("portcullis_ledger_rows_total", ""),
        ("portcullis_ledger_dropped_total", ""),
        ("portcullis_ledger_up", ""),
        ("portcullis_build_info", "version"),
        ("portcullis_problems", "rule severity"),
        ("portcullis_label_sets", ""),
        ("process_cpu_seconds_total", ""),
        ("process_resident_memory_bytes", ""),
        ("process_open_fds", ""),
        ("process_max_fds", ""),
        ("process_threads", ""),
        ("process_start_time_seconds", ""),
    ];
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        gateway.post(&chat("m")).await;
        // Nobody counts this one.
        mock.push(Script::sse().words(0..2).event(finish("stop")).done());
        assert_eq!(gateway.post(&chat_stream("m")).await.content(), "w0 w1 ");
        gateway.access_lines(2).await;
        let metrics = gateway.metrics();
        assert!(metrics.0.ends_with("# EOF\n"), "{}", metrics.0);
        let labels = |text: &str| {
            BTreeSet::from([text
                .split_whitespace()
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()])
        };
        let wanted: BTreeMap<_, _> = table
            .iter()
            .map(|(name, text)| ((*name).to_owned(), labels(text)))
            .collect();
        assert_eq!(samples(&metrics.0), wanted);
        let all = [
            ("door", "chat"),
            ("model", "m"),
            ("account", "a"),
            ("caller", "acme"),
            ("outcome", "ok"),
        ];
        assert_eq!(metrics.sum("portcullis_requests_total", &all), 2.0);
        assert_eq!(
            metrics.sum(
                "portcullis_attempts_total",
                &[("model", "m"), ("account", "a"), ("outcome", "ok")]
            ),
            2.0
        );
        // Only a stream has a first token.
        assert_eq!(
            metrics.sum(
                "portcullis_first_token_seconds_count",
                &[("model", "m"), ("account", "a")]
            ),
            1.0
        );
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        let started = metrics.sum("process_start_time_seconds", &[]);
        assert!((now - 60.0..=now).contains(&started), "{started}");
        let open = metrics.sum("process_open_fds", &[]);
        assert!(
            open > 5.0 && open < metrics.sum("process_max_fds", &[]),
            "{open}"
        );
        assert!(metrics.sum("process_resident_memory_bytes", &[]) > 1e6);
        assert!(metrics.sum("process_threads", &[]) >= 2.0);
        assert_eq!(metrics.sum("portcullis_usage_estimated_total", &[]), 1.0);
        let tokens = |kind| {
            metrics.sum(
                "portcullis_tokens_total",
                &[
                    ("model", "m"),
                    ("account", "a"),
                    ("caller", "acme"),
                    ("kind", kind),
                ],
            )
        };
        let counted = gateway.lines();
        let sum = |field: &str| {
            counted
                .iter()
                .map(|line| line[field].as_f64().unwrap())
                .sum::<f64>()
        };
        assert_eq!(
            (tokens("prompt"), tokens("completion")),
            (sum("prompt_tokens"), sum("completion_tokens"))
        );
        assert!(metrics.sum("portcullis_catalog_last_success_seconds", &[]) > 1.7e9);
        assert_eq!(
            metrics.sum(
                "portcullis_account_state",
                &[("account", "a"), ("state", "ok")]
            ),
            1.0
        );
        // The key is no label.
        assert!(!metrics.0.contains("prod"), "{}", metrics.0);
    });
}

#[test]
fn labels_are_bounded_and_counters_go_on_over_reloads() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(Catalog::over(&mock).model("gone", &["a"])).await;
        let bearer = format!("Bearer {KEY}");
        let odd = async |n: usize| {
            let fields = [
                ("authorization", bearer.as_str()),
                ("x-request-id", &format!("id-{n}")),
            ];
            gateway.post(&chat(&format!("unknown-{n}"))).await;
            gateway
                .raw(client::post_as(&format!("sk-unknown-{n}"), &chat("m")))
                .await;
            gateway
                .raw(client::request(
                    "GET",
                    &format!("/v1/{n}?q={n}"),
                    &fields,
                    b"",
                ))
                .await;
            gateway
                .raw(client::request(
                    &format!("ODD{n}"),
                    "/v1/models",
                    &fields,
                    b"",
                ))
                .await;
            gateway.get(&format!("/v1/models/unknown-{n}")).await;
            gateway.post(&chat("m")).await;
        };
        let series = || gateway.metrics().0.lines().count();
        odd(0).await;
        gateway.access_lines(6).await;
        let before = series();
        for n in 1..20 {
            odd(n).await;
        }
        gateway.access_lines(120).await;
        assert_eq!(series(), before, "{}", gateway.metrics().0);
        for word in ["unknown-", "ODD", "id-"] {
            assert!(
                !gateway.metrics().0.contains(word),
                "{}",
                gateway.metrics().0
            );
        }
        gateway.post(&chat("gone")).await;
        gateway.access_lines(121).await;
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_requests_total", &[("model", "gone")]),
            1.0
        );
        let counted = || {
            ["gone", "m"].map(|model| {
                gateway
                    .metrics()
                    .sum("portcullis_requests_total", &[("model", model)])
            })
        };
        let before = counted();
        gateway.swap(Catalog::over(&mock)).await;
        assert!(
            !gateway
                .metrics()
                .0
                .contains("portcullis_waiting{model=\"gone\"}"),
            "{}",
            gateway.metrics().0
        );
        assert_eq!(counted(), before, "a counter fell");
        gateway
            .swap(Catalog::over(&mock).model("gone", &["a"]))
            .await;
        gateway.post(&chat("gone")).await;
        gateway.access_lines(122).await;
        assert_eq!(counted(), [before[0] + 1.0, before[1]]);
    });
}

#[test]
fn the_used_share_is_the_fullest_keys() {
    run(async {
        const TWO: &str = "sk-CaNaRy-caller-two-0123456789abcdefghijklmnopqrs";
        const THREE: &str = "sk-CaNaRy-caller-three-0123456789abcdefghijklmno";
        let mock = Mock::start().await;
        let keys = [
            ("two", TWO, "limits: { requests_per_day: 2 }"),
            ("three", THREE, "limits: { requests_per_day: 100 }"),
        ];
        let catalog =
            Catalog::over(&mock).model_with("free", &["a"], "price: { input: 0, output: 0 }");
        let few = catalog
            .clone()
            .caller_with("small", "limits: { requests_per_day: 4 }", &keys);
        let gateway = Gateway::start(few.clone()).await;
        gateway
            .line_of(&gateway.raw(client::post_as(TWO, &chat("free"))).await)
            .await;
        let shares = || {
            let text = gateway.metrics().0;
            let series = text
                .lines()
                .filter_map(|line| line.strip_prefix("portcullis_limit_used_ratio{"));
            series.map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let wanted = [
            "caller=\"small\",level=\"caller\",limit=\"requests_per_day\"} 0.25",
            "caller=\"small\",level=\"key\",limit=\"requests_per_day\"} 0.5",
        ];
        assert_eq!(shares(), wanted.map(str::to_owned).into());
        // Of very many the fullest are shown.
        let many = (0..1_200).fold(few, |catalog, n| {
            catalog.caller(
                &format!("c{n}"),
                &format!("sk-CaNaRy-caller-{n:04}-0123456789abcdefghijklm"),
                "limits: { requests_per_day: 9 }",
            )
        });
        gateway.swap(many).await;
        let shares = shares();
        assert_eq!(shares.len(), 1_000);
        assert!(wanted.iter().all(|series| shares.contains(*series)));
    });
}

#[test]
fn status_tells_how_things_are() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let catalog = Catalog::new()
            .account_with("a", &mock, "concurrency: 7")
            .account_with("b", &mock, "enabled: false")
            .account("limited", &mock)
            .model("m", &["a"])
            .model("l", &["limited"]);
        let gateway = Gateway::start(catalog).await;
        mock.push(Script::error(429, "slow down").with("retry-after", "30"));
        gateway
            .post(&chat("l"))
            .await
            .is_error(429, "upstream_rate_limited");
        mock.push(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .event(finish("stop"))
                .done(),
        );
        let (mut connection, mut head) = gateway.open(&chat_stream("m")).await;
        let status = gateway.status();
        let keys = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<BTreeSet<_>>()
        };
        let set = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(
            keys(&status),
            set(&[
                "verdict",
                "version",
                "phase",
                "ready",
                "uptime_seconds",
                "exchanges",
                "catalog",
                "descriptors",
                "ledger",
                "store",
                "unpriced",
                "problems",
                "more_problems",
                "keys",
                "accounts",
                "models"
            ])
        );
        let catalog = &status["catalog"];
        let named = [
            "generation",
            "hash",
            "loaded",
            "accounts",
            "models",
            "callers",
            "keys",
            "warnings",
            "last_refusal",
            "held",
            "folder",
            "waiting",
            "files",
        ];
        assert_eq!(keys(catalog), set(&named));
        assert_eq!(
            (&status["version"], &status["phase"], &status["ready"]),
            (
                &env!("CARGO_PKG_VERSION").into(),
                &"serving".into(),
                &true.into()
            )
        );
        assert_eq!(status["exchanges"], 1);
        let counts = ["generation", "accounts", "models", "callers", "keys"]
            .map(|field| catalog[field].as_u64().unwrap());
        assert_eq!(counts, [1, 3, 2, 1, 1]);
        assert_eq!(
            (&catalog["last_refusal"], &catalog["held"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(catalog["hash"].as_str().map(str::len), Some(32));
        assert!(
            catalog["loaded"]
                .as_str()
                .is_some_and(|time| time.ends_with('Z')),
            "{catalog}"
        );
        let account = |id: &str| {
            status["accounts"]
                .as_array()
                .unwrap()
                .iter()
                .find(|account| account["id"] == id)
                .unwrap()
                .clone()
        };
        let fields = |id: &str| {
            Value::from(
                ["state", "in_flight", "concurrency", "dialect"]
                    .map(|field| account(id)[field].clone())
                    .to_vec(),
            )
        };
        assert_eq!(fields("a"), json!(["ok", 1, 7, "openai"]));
        assert_eq!(fields("b"), json!(["off", 0, null, "openai"]));
        assert_eq!(fields("limited"), json!(["out", 0, null, "openai"]));
        gate.open();
        connection.rest(&mut head).await;
        eventually("its connection is idle", || {
            (gateway.status()["accounts"][0]["idle_connections"] == 1).then_some(())
        })
        .await;
    });
}

#[test]
fn the_admin_listener_has_only_its_own_doors() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let ask = async |address, method: &str, target: &str| {
            let mut connection = Connection::plain(address, None).await;
            connection
                .send(client::request(
                    method,
                    target,
                    &[("host", "localhost")],
                    b"",
                ))
                .await;
            connection.try_response(method).await.unwrap()
        };
        for (method, target, status, kind) in [
            ("GET", "/livez", 200, "text/plain"),
            ("GET", "/readyz", 200, "text/plain"),
            ("GET", "/status", 200, "application/json"),
            (
                "GET",
                "/metrics",
                200,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
            (
                "HEAD",
                "/metrics",
                200,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
            ("GET", "/v1/models", 404, "text/plain"),
            ("POST", "/status", 405, "text/plain"),
        ] {
            let answer = ask(gateway.admin, method, target).await;
            assert_eq!(
                (answer.status, answer.field("content-type")),
                (status, Some(kind)),
                "{method} {target}"
            );
            assert_eq!(answer.field("allow").is_some(), status == 405);
        }
        // And what is on it is nowhere else.
        for target in ["/metrics", "/status"] {
            gateway.get(target).await.is_error(404, "unknown_url");
        }
        let probe = ask(gateway.address, "HEAD", "/readyz").await;
        assert_eq!((probe.status, probe.body.len()), (200, 0));
        gateway.access_lines(2).await;
    });
}

// The command line.

const SERVER: &str = "listen: [{ address: \"127.0.0.1:1\" }]\n";

#[test]
fn check_says_what_serve_would_with_its_exit_code() {
    let catalog = |key: &str| {
        format!(
            "accounts: {{ a: {{ dialect: openai{key} }} }}\nmodels: {{ m: {{ targets: [{{ account: a }}], price: {{ input: 1, output: 2 }} }} }}\ncallers: {{ someone: {{}} }}\n"
        )
    };
    let cases: &[(&str, &[&str], i32, &str, &str)] = &[
        (
            ", key: { env: PATH }",
            &["check"],
            0,
            "fine. 2 files, 1 account, 1 model, 1 caller, 0 keys, 0 warnings",
            "",
        ),
        (
            ", key: { env: PORTCULLIS_TEST_UNSET }",
            &["check"],
            1,
            "",
            "catalog.yaml:1 accounts.a.key",
        ),
        (
            ", key: { env: PORTCULLIS_TEST_UNSET }",
            &["check", "--no-secrets"],
            0,
            "fine.",
            "",
        ),
        (
            ", key: { file: nowhere }",
            &["check"],
            1,
            "",
            "catalog.yaml:1 accounts.a.key",
        ),
        (
            ", key: { file: nowhere }",
            &["check", "--no-secrets"],
            0,
            "fine.",
            "",
        ),
        (
            ", key: sk-CaNaRy-written-out",
            &["check"],
            0,
            "1 warning",
            "warning: catalog.yaml:1 accounts.a.key",
        ),
        (
            ", kye: x",
            &["check", "--no-secrets"],
            1,
            "",
            "accounts.a.kye: unknown field; did you mean `key`?",
        ),
    ];
    for (key, arguments, code, stdout, stderr) in cases {
        let folder = Folder::new(&[("server.yaml", SERVER), ("catalog.yaml", &catalog(key))]);
        let ran = folder.run(arguments);
        assert_eq!(
            ran.status.code(),
            Some(*code),
            "{key} {arguments:?}: {}",
            ran.stderr
        );
        assert!(
            ran.stdout.contains(stdout) && ran.stderr.contains(stderr),
            "{key} {arguments:?}: {}{}",
            ran.stdout,
            ran.stderr
        );
        assert_eq!(
            ran.stdout.is_empty(),
            *code != 0,
            "results go to stdout, complaints to stderr"
        );
    }
    // What ships is fine, and found without being told.
    let shipped = Command::new(BINARY)
        .arg("check")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        shipped.status.success(),
        "{}",
        String::from_utf8_lossy(&shipped.stderr)
    );
}

/// `portcullis key hash` on this standard input.
fn key_hash(input: &str) -> (Option<i32>, String) {
    let mut command = Command::new(BINARY);
    let mut child = command
        .args(["key", "hash"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[test]
fn a_new_key_is_pasted_and_works() {
    run(async {
        let output = portcullis(&[
            "key", "new", "--print", "--caller", "acme", "--name", "prod",
        ]);
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let key = text.lines().find(|line| line.starts_with("sk-")).unwrap();
        assert!(
            key.len() >= 3 + 1 + 43 && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
            "{key}"
        );
        assert_eq!(text.matches(key).count(), 1, "the secret is printed once");
        assert_eq!(key_hash(key), (Some(0), format!("{}\n", canary::hash(key))));
        assert_eq!(key_hash(&format!("{key}\r\n")).1, key_hash(key).1);
        let yaml = &text[text.find("callers:").unwrap()..];
        let mock = Mock::start().await;
        let catalog = Catalog::over(&mock).without_acme();
        let gateway = Gateway::with(catalog)
            .file("catalog.d/acme.yaml", yaml)
            .start()
            .await;
        assert_eq!(
            gateway.raw(client::post_as(key, &chat("m"))).await.status,
            200
        );
        assert_eq!(gateway.line().await["key"], "acme/prod");
        let again = portcullis(&[
            "key", "new", "--print", "--caller", "acme", "--name", "prod",
        ]);
        assert!(
            !String::from_utf8(again.stdout).unwrap().contains(key),
            "no two keys are equal"
        );
    });
}

#[test]
fn command_lines_end_with_their_exit_codes() {
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["--version"],
            0,
            concat!("portcullis ", env!("CARGO_PKG_VERSION")),
        ),
        (&["--help"], 0, "serve"),
        (&["key", "new", "--help"], 0, "--caller"),
        (
            &["schema", "server"],
            0,
            include_str!("../../conf/schema/server.schema.json"),
        ),
        (
            &["schema", "catalog"],
            0,
            include_str!("../../conf/schema/catalog.schema.json"),
        ),
        (
            &["schema", "nonsense"],
            2,
            "possible values: server, catalog",
        ),
        (&[], 2, "Usage"),
        (&["sevre"], 2, "serve"),
        (&["key", "new"], 2, "--caller"),
        (
            &["key", "new", "--caller", "a b", "--name", "prod"],
            1,
            "--caller",
        ),
        (
            &["key", "new", "--caller", "acme", "--name", "a/b"],
            1,
            "--name",
        ),
        (
            &[
                "key",
                "new",
                "--caller",
                "a",
                "--name",
                "b",
                "--expires",
                "2001-01-01",
            ],
            1,
            "would already be expired",
        ),
        (
            &[
                "key",
                "new",
                "--caller",
                "a",
                "--name",
                "b",
                "--expires-in",
                "9",
            ],
            2,
            "must be a length of time",
        ),
        (
            &["key", "show", "sk-a-secret"],
            1,
            "this is not the id of a key",
        ),
        (
            &["key", "list", "--conf", "/nowhere"],
            1,
            "/nowhere: this folder does not exist",
        ),
        (
            &["key", "disable", "acme/prod", "--conf", "/nowhere"],
            1,
            "/nowhere: this folder does not exist",
        ),
        (&["key", "expire", "acme/prod"], 2, "--never"),
        (
            &["key", "expire", "acme/prod", "--never", "--in", "1d"],
            2,
            "--never",
        ),
        (
            &["serve", "--conf", "/nowhere"],
            1,
            "/nowhere: this folder does not exist",
        ),
        (
            &["check", "--conf", "/nowhere"],
            1,
            "/nowhere: this folder does not exist",
        ),
        (
            &["serve", "--listen", "localhost"],
            2,
            "for '--listen <ADDRESS>...'",
        ),
    ];
    for (arguments, code, says) in cases {
        let output = portcullis(arguments);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert_eq!(
            output.status.code(),
            Some(*code),
            "{arguments:?}: {out}{err}"
        );
        let said = if *code == 0 { &out } else { &err };
        assert!(
            said.contains(says),
            "{arguments:?} does not say {says:?}: {out}{err}"
        );
    }
    assert_eq!(key_hash(""), (Some(1), String::new()));
    assert_eq!(key_hash("two words\n"), (Some(1), String::new()));
}

#[test]
fn the_published_key_is_not_served_to_the_public() {
    run(async {
        let published = portcullis::catalog::PUBLISHED_KEY;
        let catalog = |models: &str| {
            format!(
                "accounts: {{ demo: {{ dialect: demo }} }}\n\
                 models: {{ demo: {{ targets: [{{ account: demo }}] }}, other: {{ targets: [{{ account: demo }}] }} }}\n\
                 callers: {{ demo: {{ {models}keys: {{ published: {{ hash: \"{}\" }} }} }} }}\n",
                canary::hash(published)
            )
        };
        let (port, admin) = (free_port().port(), free_port());
        let public = format!("0.0.0.0:{port}");
        let server = |address: &str| {
            format!("listen: [{{ address: \"{address}\" }}]\nadmin: {{ address: \"{admin}\" }}\n")
        };
        let refused = |ran: crate::support::folder::Ran| {
            assert_eq!(ran.status.code(), Some(1), "{}", ran.stdout);
            for word in ["demo/published", "\"other\"", "0.0.0.0", "127.0.0.1"] {
                assert!(ran.stderr.contains(word), "no {word:?} in {}", ran.stderr);
            }
        };
        let wide = Folder::new(&[
            ("server.yaml", &server(&public)),
            ("catalog.yaml", &catalog("")),
        ]);
        refused(wide.run(&["serve"]));
        refused(wide.run(&["check"]));
        // The command line makes a loopback listener public, too.
        wide.write("server.yaml", server("127.0.0.1:1"));
        assert_eq!(wide.run(&["check"]).status.code(), Some(0));
        refused(wide.run(&["serve", "--listen", &public]));

        let narrow = Folder::new(&[
            ("server.yaml", &server(&public)),
            ("catalog.yaml", &catalog("models: [demo], ")),
        ]);
        let mut process = narrow.start(&["serve"]);
        ready(&mut process, admin).unwrap();
        // Nor does it become public by a reload.
        narrow.write("catalog.yaml", catalog(""));
        crate::support::folder::logged(&process, "is the published demo key");
        let mut connection = Connection::plain(([127, 0, 0, 1], port).into(), None).await;
        connection
            .send(client::post_as(published, &chat("other")))
            .await;
        connection.response().await.is_error(404, "model_not_found");
        connection
            .send(client::post_as(published, &chat("demo")))
            .await;
        assert_eq!(connection.response().await.status, 200);
        process.signal("TERM");
        assert!(process.wait(PATIENCE).is_some());
    });
}

// The library.

#[test]
fn the_example_with_the_gateway_in_it_answers() {
    run_within(Duration::from_secs(300), async {
        let bin = Path::new(BINARY).parent().unwrap();
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--offline", "--example", "embed", "--target-dir"])
            .arg(bin.parent().unwrap());
        if cfg!(feature = "test-clock") {
            build.args(["--features", "test-clock"]);
        } else if cfg!(feature = "test-panics") {
            build.args(["--features", "test-panics"]);
        }
        build.args(bin.ends_with("release").then_some("--release"));
        // What cargo tells a test of the test's package is not for the build scripts of others:
        // they would run again, here and in the next build.
        let told = std::env::vars_os().map(|(name, _)| name).filter(|name| {
            name.to_str().is_some_and(|name| {
                name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
            })
        });
        told.for_each(|name| _ = build.env_remove(name));
        // It is for the harness that runs this test, and would have all build scripts run again.
        build.env_remove("RUSTC_BOOTSTRAP");
        let built = build.current_dir(root()).output().unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );

        let mock = Mock::start().await;
        let (address, admin) = (free_port(), free_port());
        let folder = Folder::new(&[
            (
                "conf/server.yaml",
                &format!("admin: {{ address: \"{admin}\" }}\n"),
            ),
            ("conf/catalog.yaml", &Catalog::over(&mock).to_string()),
        ]);
        let mut process = Process::spawn(
            Command::new(bin.join("examples/embed"))
                .arg(address.to_string())
                .current_dir(folder.path()),
        );
        ready(&mut process, admin).unwrap();
        let mut connection = Connection::plain(address, None).await;
        connection.send(client::post(&chat_stream("m"))).await;
        assert_eq!(connection.response().await.content(), "w0 w1 w2 ");
        connection.send(client::post(&chat("n"))).await;
        connection.response().await.is_error(404, "model_not_found");
        // Its catalog lives, too.
        folder.write(
            "conf/catalog.yaml",
            Catalog::over(&mock).model("n", &["a"]).to_string(),
        );
        let start = Instant::now();
        loop {
            connection.send(client::post(&chat("n"))).await;
            if connection.response().await.status == 200 {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "the new catalog never served");
        }
        let lines = process.stdout();
        let first: Value =
            serde_json::from_slice(lines.split(|b| *b == b'\n').next().unwrap()).unwrap();
        assert_eq!(
            (&first["model"], &first["outcome"]),
            (&"m".into(), &"ok".into())
        );
        canary::check(
            "its output",
            &[lines, process.stderr().into_bytes()].concat(),
        )
        .unwrap();
        assert_eq!(mock.requests()[0].json()["messages"], chat("m")["messages"]);
        assert_eq!(
            script::PROMPT_TOKENS,
            first["prompt_tokens"].as_u64().unwrap()
        );
    });
}

#[test]
fn on_a_full_disk_lines_are_whole_or_counted() {
    run(async {
        let mock = Mock::start().await;
        let folder = Folder::new(&[]);
        let file = folder.path().join("access.log");
        let server = format!(
            "log: {{ format: json, level: info, access: {file:?} }}\nledger: {{ enabled: false }}"
        );
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(&server)
            .full_disk(8)
            .start()
            .await;
        let ask = async || {
            // Not in the ledger: some have no line.
            let mut connection = Connection::plain(gateway.address, None).await;
            connection.send(client::post(&chat("m"))).await;
            assert_eq!(connection.response().await.status, 200);
        };
        let dropped = || {
            gateway
                .metrics()
                .sum("portcullis_access_lines_dropped", &[])
        };
        let mut asked = 0_u32;
        while dropped() < 5.0 {
            ask().await;
            asked += 1;
            assert!(asked < 200, "the disk is not full");
        }
        let lifted = Command::new("prlimit")
            .args([
                "--pid",
                &gateway.process.pid().to_string(),
                "--fsize=unlimited:",
            ])
            .status();
        if !lifted.is_ok_and(|status| status.success()) {
            eprintln!(
                "SKIPPED: `prlimit` lifts nothing here: the lines after a full disk are not tested"
            );
            return;
        }
        let lines = || std::fs::read_to_string(&file).unwrap_or_default();
        let before = lines().len();
        while lines().len() == before {
            ask().await;
            asked += 1;
        }
        ask().await;
        asked += 1;
        let all = || f64::from(asked) == dropped() + lines().lines().count() as f64;
        eventually("each line is there or counted", || all().then_some(())).await;
        for line in lines().lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        }
    });
}

#[test]
fn lines_that_the_sink_refuses_are_counted() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("log: { format: json, level: info, access: /dev/full }")
            .start()
            .await;
        for n in 1..=3 {
            // Not in the ledger: there is no line.
            let mut connection = Connection::plain(gateway.address, None).await;
            connection.send(client::post(&chat("m"))).await;
            assert_eq!(connection.response().await.status, 200);
            let counted = || {
                (gateway
                    .metrics()
                    .sum("portcullis_access_lines_dropped", &[])
                    == f64::from(n))
                .then_some(())
            };
            eventually("it is counted", counted).await;
        }
        assert_eq!(
            gateway
                .log()
                .matches("access log cannot be written")
                .count(),
            1,
            "{}",
            gateway.log()
        );
    });
}
