//! The admin listener under attack: by a web page whose public name means this machine, and by
//! connections that send nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Catalog, Gateway, Mock, PATIENCE, Script, chat, run};

/// A probe is answered at once; a machine that does other things takes a while.
const SOON: Duration = Duration::from_millis(4_500);

/// Any bytes: the status, and all of the answer.
fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the admin listener");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    (
        answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("{request:?}: {answer:?}")),
        answer,
    )
}

fn get(address: SocketAddr, path: &str, host: &str) -> (u16, String) {
    ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
    )
}

#[test]
fn a_page_renamed_to_this_machine_reads_nothing() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let port = gateway.admin.port();
        for path in ["/status", "/usage", "/limits", "/metrics", "/", "/nowhere"] {
            for host in [
                format!("rebound.example:{port}"),
                "rebound.example".to_owned(),
                "127.0.0.1.rebound.example".to_owned(),
            ] {
                let (status, answer) = get(gateway.admin, path, &host);
                assert_eq!(status, 421, "{path} of {host}: {answer}");
                let name = host.split(':').next().unwrap();
                assert!(
                    answer.contains(&format!("\"{name}\""))
                        && answer.contains(&format!("hosts: [{name}]")),
                    "{answer}"
                );
                assert!(
                    !answer.contains("acme") && !answer.contains("portcullis_"),
                    "{answer}"
                );
            }
        }
        let whole = format!("http://rebound.example:{port}/status");
        assert_eq!(
            ask(
                gateway.admin,
                &format!("GET {whole} HTTP/1.1\r\nhost: rebound.example:{port}\r\n\r\n")
            )
            .0,
            421
        );
        let (status, _) = ask(
            gateway.admin,
            "POST /accounts/a/reset HTTP/1.1\r\nhost: rebound.example\r\ncontent-length: 0\r\n\r\n",
        );
        assert_eq!(status, 421);
        // The operator learns what to write, and not once for each try.
        gateway.logged("hosts: [rebound.example]").await;
        assert_eq!(
            gateway
                .log()
                .matches("the admin listener refuses requests to")
                .count(),
            1,
            "{}",
            gateway.log()
        );
    });
}

#[test]
fn whoever_may_ask_is_answered() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("admin: { address: \"{admin}\", hosts: [gw.example.com] }")
            .start()
            .await;
        let admin = gateway.admin;
        // A scrape by address, by the name of a service, by the names of a cluster, by a name of
        // the operator's own.
        for host in [
            admin.to_string().as_str(),
            "[::1]:9090",
            "localhost:9090",
            "portcullis",
            "portcullis:9090",
            "portcullis.llm.svc:9090",
            "portcullis-0.portcullis.llm.svc.cluster.local:9090",
            "ip-10-0-0-1.ec2.internal:9090",
            "host.docker.internal:9090",
            "gateway.local",
            "nas.home.arpa",
            "GW.example.com:9090",
        ] {
            let (status, answer) = get(admin, "/metrics", host);
            assert!(
                status == 200 && answer.contains("# EOF"),
                "{host}: {answer}"
            );
        }
        // The machine's own name.
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(get(admin, "/status", own.trim()).0, 200);
        // Who sends no host at all.
        for request in [
            "GET /status HTTP/1.0\r\n\r\n",
            "GET /metrics HTTP/1.0\r\n\r\n",
            "GET /status HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n",
        ] {
            assert_eq!(ask(admin, request).0, 200, "{request:?}");
        }
        // HAProxy's checks: the bare one, and one with a path. A kubelet's and a load balancer's
        // probes, by whatever name.
        for request in [
            "OPTIONS / HTTP/1.0\r\n\r\n",
            "GET /readyz HTTP/1.0\r\n\r\n",
            "OPTIONS /livez HTTP/1.0\r\n\r\n",
            "HEAD /livez HTTP/1.1\r\nhost: any.public.example\r\nconnection: close\r\n\r\n",
            "GET /readyz HTTP/1.1\r\nhost: 10.1.2.3:9090\r\nuser-agent: kube-probe/1.31\r\naccept: */*\r\nconnection: close\r\n\r\n",
            "GET /livez HTTP/1.1\r\nhost: lb.public.example\r\nconnection: close\r\n\r\n",
        ] {
            let (status, answer) = ask(admin, request);
            assert_eq!(status, 200, "{request:?}: {answer}");
            assert!(answer.ends_with("\r\n\r\n"), "it tells nothing: {answer}");
        }
    });
}

#[test]
fn each_answer_forbids_a_browser_everything() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        for (path, host) in [
            ("/status", "localhost"),
            ("/livez", "localhost"),
            ("/nowhere", "localhost"),
            ("/status", "rebound.example"),
        ] {
            let (_, answer) = get(gateway.admin, path, host);
            let answer = answer.to_ascii_lowercase();
            for line in [
                "content-security-policy: default-src 'none'; ",
                "x-content-type-options: nosniff",
                "referrer-policy: no-referrer",
                "cross-origin-resource-policy: same-origin",
                "cache-control: no-store",
            ] {
                assert!(
                    answer.contains(&format!("\r\n{line}")),
                    "no {line} in {answer}"
                );
            }
            assert!(!answer.contains("access-control-allow"), "{answer}");
        }
    });
}

#[test]
fn only_our_own_page_may_reset_an_account() {
    run(async {
        let mock = Mock::start().await;
        mock.push(Script::error(401, "no"));
        let gateway = Gateway::over(&mock).await;
        gateway.post(&chat("m")).await;
        let state = || gateway.status()["accounts"][0]["state"].clone();
        assert_eq!(state(), json!("out"));
        let host = gateway.admin;
        let post = |more: &str| {
            ask(host, &format!("POST /accounts/a/reset HTTP/1.1\r\nhost: {host}\r\n{more}content-length: 0\r\nconnection: close\r\n\r\n")).0
        };
        assert_eq!(
            post("origin: https://evil.example\r\nx-portcullis-admin: 1\r\n"),
            403
        );
        assert_eq!(
            post(&format!("origin: http://{host}\r\n")),
            403,
            "a form could send that"
        );
        assert_eq!(post("origin: null\r\nx-portcullis-admin: 1\r\n"), 403);
        assert_eq!(state(), json!("out"));
        assert_eq!(
            post(&format!(
                "origin: http://{host}\r\nx-portcullis-admin: 1\r\n"
            )),
            204
        );
        assert_eq!(state(), json!("ok"));
    });
}

#[test]
fn connections_that_send_nothing_silence_nobody() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock)).start().await;
        for how_many in [64, 500, 600] {
            let idle: Vec<_> = (0..how_many)
                .map(|number| {
                    let mut stream =
                        TcpStream::connect_timeout(&gateway.admin, PATIENCE).expect("a connection");
                    // Some of them begin to say something.
                    if number % 3 == 0 {
                        stream
                            .write_all(b"GET /status HTTP/1.1\r\nhost: ")
                            .expect("sent");
                    }
                    stream
                })
                .collect();
            for path in ["/livez", "/readyz", "/status", "/metrics", "/livez"] {
                let start = Instant::now();
                assert_eq!(
                    get(gateway.admin, path, "localhost").0,
                    200,
                    "{path} beside {how_many}"
                );
                assert!(
                    start.elapsed() < SOON,
                    "{path} beside {how_many} took {:?}",
                    start.elapsed()
                );
            }
            drop(idle);
        }
        // They are let go, and long before a request may take.
        let mut idle = TcpStream::connect_timeout(&gateway.admin, PATIENCE).expect("a connection");
        idle.set_read_timeout(Some(PATIENCE)).expect("a time");
        let start = Instant::now();
        assert_eq!(idle.read(&mut [0; 1]).expect("it is closed"), 0);
        assert!(
            start.elapsed() < Duration::from_millis(9_500),
            "{:?}",
            start.elapsed()
        );
    });
}
