//! Who may ask the admin listener: with a key, and without one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::json;

use crate::support::canary::ADMIN_KEY;
use crate::support::gateway::BINARY;
use crate::support::{Catalog, Gateway, Mock, PATIENCE, Script, chat, run};

/// An answer comes at once, and a wrong key's after a second.
const SOON: Duration = Duration::from_millis(800);

/// Sends one request. Returns the status, and the whole answer.
fn send(address: SocketAddr, method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the admin listener");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let host = if headers.to_lowercase().contains("host:") {
        String::new()
    } else {
        format!("host: {address}\r\n")
    };
    let request = format!("{method} {path} HTTP/1.1\r\n{host}{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (
        status.unwrap_or_else(|| panic!("{request:?}: {answer:?}")),
        answer,
    )
}

fn bearer(key: &str) -> String {
    format!("authorization: Bearer {key}\r\n")
}

fn basic(user: &str, key: &str) -> String {
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{key}"));
    format!("Authorization: Basic {pair}\r\n")
}

async fn locked(mock: &Mock) -> Gateway {
    Gateway::with(Catalog::over(mock))
        .server("admin: { address: \"{admin}\", key: { env: ADMIN_KEY } }")
        .env("ADMIN_KEY", ADMIN_KEY)
        .start()
        .await
}

/// Runs the program, which must end by itself.
fn portcullis(args: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(BINARY)
        .args(args)
        .env_remove("ADMIN_KEY")
        .envs(environment.iter().copied())
        .output()
        .expect("it runs")
}

#[test]
fn with_a_key_nobody_else_sees_anything() {
    run(async {
        let mock = Mock::start().await;
        let gateway = locked(&mock).await;
        for path in [
            "/",
            "/status",
            "/metrics",
            "/usage",
            "/limits",
            "/catalog",
            "/nowhere",
            "/accounts/a/reset",
        ] {
            for headers in [
                String::new(),
                bearer("x"),
                basic("admin", "x"),
                bearer(&ADMIN_KEY[1..]),
            ] {
                for method in ["GET", "POST", "HEAD", "DELETE"] {
                    // A few of the wrong ones are slow, and this test has many.
                    if !headers.is_empty() && (method != "GET" || path != "/status") {
                        continue;
                    }
                    let (status, answer) = send(gateway.admin, method, path, &headers);
                    let answer = answer.to_lowercase();
                    assert_eq!(status, 401, "{method} {path} {headers}: {answer}");
                    assert!(
                        answer.contains("www-authenticate: basic realm=\"portcullis\""),
                        "{answer}"
                    );
                    assert!(
                        answer.contains("cache-control: no-store") && !answer.contains("acme"),
                        "{answer}"
                    );
                }
            }
        }
        for headers in [
            bearer(ADMIN_KEY),
            basic("", ADMIN_KEY),
            basic("admin", ADMIN_KEY),
        ] {
            for path in ["/", "/status", "/metrics", "/usage", "/limits", "/catalog"] {
                assert_eq!(
                    send(gateway.admin, "GET", path, &headers).0,
                    200,
                    "{path} {headers}"
                );
            }
            assert_eq!(send(gateway.admin, "GET", "/nowhere", &headers).0, 404);
            assert_eq!(
                send(gateway.admin, "POST", "/accounts/a/reset", &headers).0,
                204
            );
        }
        // Probes never carry a key.
        for (method, path) in [("GET", "/livez"), ("HEAD", "/readyz"), ("OPTIONS", "/")] {
            assert_eq!(
                send(gateway.admin, method, path, "").0,
                200,
                "{method} {path}"
            );
            assert_eq!(
                send(gateway.admin, method, path, &bearer("x")).0,
                200,
                "{method} {path}"
            );
        }
        // The name is looked at before the key.
        assert_eq!(
            send(gateway.admin, "GET", "/status", "host: rebound.example\r\n").0,
            421
        );
        let named = format!("host: rebound.example\r\n{}", bearer(ADMIN_KEY));
        let (status, says) = send(gateway.admin, "GET", "/status", &named);
        assert!(status == 421 && says.contains("leave its `key`"), "{says}");
        gateway.logged("had a wrong key").await;
        assert_eq!(gateway.log().matches("had a wrong key").count(), 1);
    });
}

#[test]
fn wrong_keys_are_slow_and_lock_nobody_out() {
    run(async {
        let mock = Mock::start().await;
        let gateway = locked(&mock).await;
        let start = Instant::now();
        assert_eq!(
            send(gateway.admin, "GET", "/status", &bearer("wrong")).0,
            401
        );
        assert!(
            start.elapsed() >= Duration::from_secs(1),
            "{:?}",
            start.elapsed()
        );
        // The machine may stand still beside some of them.
        let mut times = Vec::new();
        for _ in 0..5 {
            let strangers: Vec<_> = (0..200)
                .map(|_| {
                    let mut stream =
                        TcpStream::connect_timeout(&gateway.admin, PATIENCE).expect("a connection");
                    let request = format!(
                        "GET /status HTTP/1.1\r\nhost: {}\r\n{}\r\n",
                        gateway.admin,
                        bearer("wrong")
                    );
                    stream.write_all(request.as_bytes()).expect("sent");
                    stream
                })
                .collect();
            let start = Instant::now();
            assert_eq!(
                send(gateway.admin, "GET", "/status", &bearer(ADMIN_KEY)).0,
                200
            );
            assert_eq!(send(gateway.admin, "GET", "/livez", "").0, 200);
            times.push(start.elapsed());
            for mut stream in strangers {
                stream.set_read_timeout(Some(PATIENCE)).expect("a time");
                let mut answer = String::new();
                stream.read_to_string(&mut answer).expect("answered");
                assert!(answer.starts_with("HTTP/1.1 401 "), "{answer:?}");
            }
        }
        assert!(times.iter().any(|took| *took < SOON), "{times:?}");
    });
}

#[test]
fn commands_send_the_key() {
    run(async {
        let mock = Mock::start().await;
        let gateway = locked(&mock).await;
        let conf = gateway.conf.to_str().unwrap();
        let status = format!("http://{}/status", gateway.admin);
        std::fs::write(gateway.conf.join("request.json"), chat("m").to_string()).unwrap();
        let request = gateway.conf.join("request.json");
        let explain = [
            "explain",
            "--conf",
            conf,
            "--key",
            "acme/prod",
            "--status",
            &status,
            request.to_str().unwrap(),
        ];
        let new = |name: &str, environment: &[(&str, &str)]| {
            let made = portcullis(
                &[
                    "key", "new", "--conf", conf, "--caller", "acme", "--name", name,
                ],
                environment,
            );
            String::from_utf8_lossy(&made.stderr).into_owned()
        };
        for known in [
            ("ADMIN_KEY", ADMIN_KEY),
            ("PORTCULLIS_ADMIN_KEY", ADMIN_KEY),
        ] {
            let explained = portcullis(&explain, &[known]);
            assert_eq!(
                explained.status.code(),
                Some(0),
                "{}",
                String::from_utf8_lossy(&explained.stderr)
            );
            let told = new(&known.0.to_lowercase().replace('_', "-"), &[known]);
            assert!(
                told.contains("the running gateway uses the change"),
                "{told}"
            );
        }
        let explained = portcullis(&explain, &[]);
        let told = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(
            explained.status.code() == Some(3) && told.contains("set PORTCULLIS_ADMIN_KEY"),
            "{told}"
        );
        let told = new("third", &[]);
        assert!(
            told.contains("unknown whether a gateway runs") && told.contains("wants its key"),
            "{told}"
        );
        let told = new("fourth", &[("PORTCULLIS_ADMIN_KEY", "wrong\r\nx: y")]);
        assert!(told.contains("wants its key"), "{told}");
        std::fs::remove_file(request).unwrap();
    });
}

#[test]
fn a_key_that_can_be_guessed_is_refused() {
    let setup = |key: &str| {
        Gateway::with("accounts: {}\nmodels: {}\ncallers: {}\n")
            .server("admin: { address: \"{admin}\", key: { env: ADMIN_KEY } }")
            .env("ADMIN_KEY", key)
    };
    for key in ["short", &"x".repeat(31), &"x y".repeat(20), &"ü".repeat(40)] {
        let (status, output) = setup(key).refuse();
        assert!(
            !status.success() && output.contains("openssl rand -base64 32"),
            "{output}"
        );
        assert!(!output.contains(key), "{output}");
    }
}

#[test]
fn an_open_listener_on_the_network_changes_nothing() {
    run(async {
        let mock = Mock::start().await;
        mock.push(Script::error(401, "no"));
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("admin: { address: \"0.0.0.0:{admin_port}\", hosts: [a.example] }")
            .start()
            .await;
        gateway
            .logged("is not a loopback address, and there is no `admin.key`")
            .await;
        gateway.post(&chat("m")).await;
        let (status, says) = send(gateway.admin, "POST", "/accounts/a/reset", "");
        let port = gateway.admin.port();
        let line = format!(
            "`admin: {{ address: \"0.0.0.0:{port}\", hosts: [a.example], key: {{ file: /path/to/the/key }} }}`"
        );
        assert!(status == 403 && says.contains(&line), "{says}");
        assert_eq!(gateway.status()["accounts"][0]["state"], json!("out"));
        assert_eq!(send(gateway.admin, "GET", "/", "").0, 200);
        let checked = portcullis(&["check", "--conf", gateway.conf.to_str().unwrap()], &[]);
        let told = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(
            checked.status.success() && told.contains("admin.address: is not a loopback address"),
            "{told}"
        );
    });
}

#[test]
fn browsers_keep_the_page_and_it_can_be_off() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let (status, answer) = send(gateway.admin, "GET", "/", "");
        let head = answer.to_lowercase();
        assert!(
            status == 200 && head.contains("content-type: text/html"),
            "{answer}"
        );
        assert!(
            head.contains("cache-control: no-cache") && !head.contains("no-store"),
            "{answer}"
        );
        assert!(
            head.contains("content-security-policy: default-src 'none'"),
            "{answer}"
        );
        let tag = head
            .lines()
            .find_map(|line| line.strip_prefix("etag: "))
            .expect("an etag")
            .to_owned();
        let (status, answer) = send(
            gateway.admin,
            "GET",
            "/",
            &format!("if-none-match: {tag}\r\n"),
        );
        assert!(status == 304 && answer.ends_with("\r\n\r\n"), "{answer}");
        assert_eq!(
            send(gateway.admin, "GET", "/", "if-none-match: \"0\"\r\n").0,
            200
        );
        let (status, answer) = send(gateway.admin, "HEAD", "/", "");
        assert!(status == 200 && answer.ends_with("\r\n\r\n"), "{answer}");
        for (method, path) in [
            ("POST", "/"),
            ("DELETE", "/status"),
            ("GET", "/accounts/a/reset"),
            ("OPTIONS", "/usage"),
        ] {
            let (status, answer) = send(gateway.admin, method, path, "");
            let allow = if path.ends_with("reset") {
                "allow: POST"
            } else {
                "allow: GET, HEAD"
            };
            let answer = answer.to_lowercase();
            assert!(
                status == 405 && answer.contains(&allow.to_lowercase()),
                "{method} {path}: {answer}"
            );
        }
        for path in ["/page/", "/page/../status", "/page/x.js", "/favicon.ico"] {
            assert_eq!(send(gateway.admin, "GET", path, "").0, 404, "{path}");
        }
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("admin: { address: \"{admin}\", page: false }")
            .start()
            .await;
        assert_eq!(send(gateway.admin, "GET", "/", "").0, 404);
        assert_eq!(send(gateway.admin, "OPTIONS", "/", "").0, 200);
        assert_eq!(send(gateway.admin, "POST", "/accounts/a/reset", "").0, 204);
    });
}
