//! Accounts behind a proxy that others wrote: tinyproxy. `make test` installs it.

use std::process::Command;

use serde_json::json;

use crate::support::canary::MARK;
use crate::support::folder::Folder;
use crate::support::gateway::free_port;
use crate::support::process::Process;
use crate::support::tls::Ca;
use crate::support::{Catalog, Gateway, Mock, chat, chat_stream, eventually_blocking, run};

#[test]
fn requests_through_tinyproxy_and_what_it_refuses() {
    run(async {
        let ca = Ca::new();
        let (mock, forbidden) = (Mock::h2(&ca.leaf()).await, Mock::h2(&ca.leaf()).await);
        let (_folder, _tinyproxy, port) = tinyproxy(mock.address().port());
        let with =
            |user: &str| format!("proxy: \"http://{user}127.0.0.1:{port}\", tls: {{ ca: ca.pem }}");
        let user = format!("ann:{MARK}@");
        let catalog = Catalog::new()
            .account_with("good", &mock, &with(&user))
            .account_with("wrong", &mock, &with("ann:other@"))
            .account_with("without", &mock, &with(""))
            .account_with("port", &forbidden, &with(&user));
        let catalog = ["good", "wrong", "without", "port"]
            .into_iter()
            .fold(catalog, |all, id| all.model(id, &[id]));
        let gateway = Gateway::with(catalog)
            .file("ca.pem", ca.pem())
            .upstream(port)
            .start()
            .await;
        for body in [chat("good"), chat_stream("good")] {
            let answer = gateway.post(&body).await;
            assert_eq!(
                answer.status,
                200,
                "{}\n{:?}",
                answer.text(),
                gateway.lines()
            );
        }
        assert_eq!((mock.count(), mock.connections()), (2, 1));
        let port_of_it = forbidden.address().port();
        for (model, told) in [
            (
                "wrong",
                "refuses the user and the password in its URL".to_owned(),
            ),
            (
                "without",
                "asks for a user and a password, and its URL has none".to_owned(),
            ),
            (
                "port",
                format!(
                    "refuses to connect to localhost:{port_of_it}, as many proxies do for other ports than 443"
                ),
            ),
        ] {
            let answer = gateway.post(&chat(model)).await;
            answer.is_error(503, "upstream_unavailable");
            let attempt = gateway.line_of(&answer).await["attempts"][0].clone();
            let detail = attempt["detail"].as_str().unwrap_or_default();
            assert_eq!(attempt["outcome"], json!("proxy"), "{model}: {attempt}");
            assert!(
                detail.starts_with(&format!("the proxy http://127.0.0.1:{port} {told}")),
                "{model}: {detail}"
            );
        }
        assert_eq!((mock.count(), forbidden.count()), (2, 0));
        gateway.access_lines(5).await;
    });
}

/// Starts a tinyproxy that wants a password, and makes tunnels to this port only. Returns also its
/// own port.
fn tinyproxy(allowed: u16) -> (Folder, Process, u16) {
    let (folder, port) = (Folder::new(&[]), free_port().port());
    let settings = format!(
        "Port {port}\nListen 127.0.0.1\nAllow 127.0.0.1\nBasicAuth ann {MARK}\nConnectPort {allowed}\nLogLevel Info\n"
    );
    folder.write("tinyproxy.conf", settings);
    let mut command = Command::new("tinyproxy");
    let mut process = Process::spawn(
        command
            .args(["-d", "-c"])
            .arg(folder.path().join("tinyproxy.conf")),
    );
    let ready = |process: &mut Process| {
        let said = String::from_utf8_lossy(&process.stdout()).into_owned();
        assert!(
            process.exited().is_none(),
            "tinyproxy (apt-get install tinyproxy-bin) does not run: {said}{}",
            process.stderr()
        );
        if said.contains("Accepting connections") {
            Ok(())
        } else {
            Err(said)
        }
    };
    eventually_blocking("tinyproxy is ready", || ready(&mut process)).expect("it is");
    (folder, process, port)
}
