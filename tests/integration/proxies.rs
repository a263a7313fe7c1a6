//! Accounts behind a proxy: what goes through it, what the operator is told when it fails, and that
//! nothing else is looked up, called or shared.

use std::time::Duration;

use serde_json::{Value, json};

use crate::explain::explain;
use crate::support::canary::MARK;
use crate::support::clock::NAMES;
use crate::support::documented::PROXY;
use crate::support::proxy::Does;
use crate::support::tls::Ca;
use crate::support::{Catalog, Gateway, Mock, Proxy, Script, chat, chat_stream, eventually, run};

/// The user and the password of the proxy, as its URL has them. At the end of each test all outputs
/// are searched for them.
fn user() -> String {
    format!("ann:{MARK}%3A%40%2F")
}

/// The same as the proxy wants them.
fn plain_user() -> String {
    format!("ann:{MARK}:@/")
}

/// A host that only the proxy knows. Nobody can look it up.
const HOST: &str = "provider.invalid";

#[test]
fn requests_use_the_proxy_which_alone_knows_the_name() {
    run(async {
        let ca = Ca::new();
        let leaf = ca.leaf_for(HOST);
        let (one, two, plain) = (
            Mock::tls(&leaf).await,
            Mock::h2(&leaf).await,
            Mock::start().await,
        );
        let proxy = Proxy::start().await;
        proxy.wants(&plain_user());
        proxy
            .knows("provider.invalid:443", &one)
            .knows("provider.invalid:8443", &two)
            .knows("provider.invalid:80", &plain);
        let more = "proxy: { env: PROXY_URL }";
        let tls = format!("{more}, tls: {{ ca: ca.pem }}");
        let catalog = Catalog::new()
            .account_at("one", &format!("https://{HOST}/v1"), &tls)
            .account_at("two", &format!("https://{HOST}:8443/v1"), &tls)
            .account_at(
                "plain",
                &format!("http://{HOST}/v1"),
                &format!("{more}, insecure: true"),
            )
            .model("one", &["one"])
            .model("two", &["two"])
            .model("plain", &["plain"]);
        let setup = Gateway::with(catalog)
            .file("ca.pem", ca.pem())
            .upstream(proxy.port());
        let gateway = setup.env("PROXY_URL", &proxy.url(&user())).start().await;
        for (model, mock, http2) in [
            ("one", &one, false),
            ("two", &two, true),
            ("plain", &plain, false),
        ] {
            for body in [chat(model), chat_stream(model), chat(model)] {
                let answer = gateway.post(&body).await;
                assert_eq!(
                    answer.status,
                    200,
                    "{model}: {}\n{:?}",
                    answer.text(),
                    gateway.lines()
                );
                gateway.line_of(&answer).await;
            }
            assert!(
                mock.count() == 3 && mock.connections() < 3,
                "{model}: the connection is used again"
            );
            for request in mock.requests() {
                assert_eq!(request.http2, http2);
                assert!(
                    request.field("proxy-authorization").is_none(),
                    "{model}: {:?}",
                    request.fields
                );
            }
        }
        let asked = ["443", "8443", "80"].map(|port| format!("CONNECT {HOST}:{port} HTTP/1.1"));
        let mut were_asked = proxy.asked();
        were_asked.dedup();
        assert_eq!(were_asked, asked);
        for head in proxy.heads() {
            let goal = head.start.split(' ').nth(1);
            assert_eq!(head.field("host"), goal, "{head:?}");
            let sent: Vec<&str> = head.fields.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(
                sent,
                PROXY[..3].iter().map(|(name, _)| *name).collect::<Vec<_>>(),
                "and nothing of the account's"
            );
        }
        // Names are looked up again and again in the background: not this one.
        gateway.advance(Duration::from_secs(15)).await;
        gateway.round(NAMES).await;
        assert!(!gateway.log().contains("resolve"), "{}", gateway.log());
        let (_, said) = explain(&gateway, &chat("one"), &[]);
        assert!(
            said.contains("proxy      (its URL is not read here)"),
            "{said}"
        );
        gateway.access_lines(9).await;
    });
}

/// Each way in which a proxy may fail, and what is told.
fn failures() -> Vec<(Does, &'static str, bool)> {
    let says = |text: &str| Does::Says(text.to_owned());
    let status = |line: &str| Does::Says(format!("HTTP/1.1 {line}\r\ncontent-length: 2\r\n\r\nno"));
    let nonsense = "gave an answer that no HTTP proxy gives";
    vec![
        (
            status("403 Forbidden"),
            "refuses to connect to 127.0.0.1:",
            true,
        ),
        (
            status("401 x"),
            "asks for a user and a password, and its URL has none (HTTP 401)",
            true,
        ),
        (
            status("407 x"),
            "asks for a user and a password, and its URL has none (HTTP 407)",
            true,
        ),
        (
            says("HTTP/1.1 407 x\r\nproxy-authenticate: NTLM\r\n\r\n"),
            "in another way than Basic (HTTP 407)",
            true,
        ),
        (
            status("502 Bad Gateway"),
            "could not connect to 127.0.0.1:",
            false,
        ),
        (status("503 x"), "could not connect to 127.0.0.1:", false),
        (status("504 x"), "could not connect to 127.0.0.1:", false),
        (
            status("301 x\r\nlocation: http://127.0.0.1/"),
            "does not understand CONNECT (HTTP 301)",
            true,
        ),
        (says("SSH-2.0-OpenSSH_9.2\r\n"), nonsense, false),
        (says("HTTP/1.1 200 OK\r\nno field\r\n\r\n"), nonsense, false),
        (says(""), "closed the connection without an answer", false),
        (
            says("HTTP/1.1 200 OK\r\n"),
            "closed the connection without an answer",
            false,
        ),
        (
            says("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"),
            "sent something after its answer to CONNECT",
            false,
        ),
        (
            Does::Repeats("x-more: and more\r\n".to_owned()),
            nonsense,
            false,
        ),
        (
            Does::Repeats("HTTP/1.1 100 Continue\r\n\r\n".to_owned()),
            nonsense,
            false,
        ),
        (
            Does::Repeats("HTTP/1.1 200 ".to_owned() + &"x".repeat(1024)),
            nonsense,
            false,
        ),
        (
            Does::Stops(String::new()),
            "gave no connection in time",
            false,
        ),
        (
            Does::Stops("HTTP/1.1 200 OK\r\n".to_owned()),
            "gave no connection in time",
            false,
        ),
    ]
}

#[test]
fn each_proxy_failure_is_named_and_the_next_asked() {
    run(async {
        let (mock, next, proxy) = (
            Mock::start().await,
            Mock::start().await,
            Proxy::start().await,
        );
        let more = format!(
            "proxy: \"{}\", insecure: true, timeouts: {{ connect: 4s }}",
            proxy.url("")
        );
        let catalog = Catalog::new()
            .account_with("a", &mock, &more)
            .account("b", &next)
            .model("alone", &["a"])
            .model("m", &["a", "b"]);
        let gateway = Gateway::with(catalog).upstream(proxy.port()).start().await;
        let url = proxy.url("");
        let rows = failures();
        for (does, told, lasts) in &rows {
            proxy.does(does.clone());
            gateway.reset("a");
            let answer = gateway.post(&chat("alone")).await;
            answer.is_error(503, "upstream_unavailable");
            let helps = if *lasts {
                (Some("false"), None)
            } else {
                (None, Some("5"))
            };
            assert_eq!(
                (answer.field("x-should-retry"), answer.field("retry-after")),
                helps,
                "{does:?}"
            );
            assert!(
                !answer.text().contains("proxy"),
                "the caller is not told: {}",
                answer.text()
            );
            let attempt = gateway.line_of(&answer).await["attempts"][0].clone();
            let detail = attempt["detail"].as_str().unwrap_or_default();
            assert_eq!(
                (&attempt["outcome"], attempt.get("status")),
                (&json!("proxy"), None),
                "{does:?}: {attempt}"
            );
            assert!(
                detail.starts_with(&format!("the proxy {url} ")) && detail.contains(told),
                "{does:?}: {detail}"
            );
            // The next target is asked.
            let answer = gateway.post(&chat("m")).await;
            assert_eq!(answer.status, 200, "{does:?}: {}", answer.text());
        }
        assert_eq!((mock.count(), next.count()), (0, rows.len()));
        let logged = gateway.logged("account a: no connection for alone").await;
        assert!(logged.contains(&url), "{logged}");
        // The account itself is fit: its credential was never refused.
        assert!(
            !gateway.log().contains("account a rests"),
            "{}",
            gateway.log()
        );
        proxy.does(Does::Tunnels);
        gateway.reset("a");
        assert_eq!(gateway.post(&chat("alone")).await.status, 200);
        gateway.access_lines(2 * rows.len() + 1).await;
    });
}

/// The tunnel is made, and then the connection in it fails.
#[test]
fn a_failure_inside_the_tunnel_names_the_proxy() {
    run(async {
        let proxy = Proxy::start().await;
        let url = proxy.url("");
        let more = format!("proxy: \"{url}\", timeouts: {{ connect: 4s }}");
        let catalog = Catalog::new()
            .account_at("a", &format!("https://{HOST}/v1"), &more)
            .model("m", &["a"]);
        let gateway = Gateway::with(catalog).upstream(proxy.port()).start().await;
        let made = "HTTP/1.1 200 OK\r\n\r\n".to_owned();
        let (closed, late) = (
            format!(" (through the proxy {url})"),
            format!("the proxy {url} made a tunnel to {HOST}:443"),
        );
        for (does, status, outcome, told) in [
            (
                Does::Says(made.clone()),
                (502, "bad_upstream_response"),
                "tls",
                closed,
            ),
            (
                Does::Stops(made),
                (503, "upstream_unavailable"),
                "proxy",
                late,
            ),
        ] {
            proxy.does(does.clone());
            gateway.reset("a");
            let answer = gateway.post(&chat("m")).await;
            answer.is_error(status.0, status.1);
            let attempt = gateway.line_of(&answer).await["attempts"][0].clone();
            let detail = attempt["detail"].as_str().unwrap_or_default();
            assert!(
                attempt["outcome"] == outcome && detail.contains(&told),
                "{does:?}: {attempt}"
            );
        }
        gateway.access_lines(2).await;
    });
}

/// The proxy's first address takes no connection, and the other one does.
#[test]
fn all_addresses_of_the_proxys_name_are_tried() {
    run(async {
        let (mock, proxy) = (Mock::start().await, Proxy::start().await);
        let url = format!("http://localhost:{}", proxy.port());
        let more = format!("proxy: \"{url}\", insecure: true");
        let catalog = Catalog::new()
            .account_with("a", &mock, &more)
            .model("m", &["a"]);
        let gateway = Gateway::with(catalog).upstream(proxy.port()).start().await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let (_, said) = explain(&gateway, &chat("m"), &[]);
        assert!(said.contains(&format!("proxy      {url}\n")), "{said}");
        proxy.stop().await;
        gateway.reset("a");
        eventually("the tunnel is closed", || {
            (proxy.tunnels() == 0).then_some(())
        })
        .await;
        let answer = gateway.post(&chat("m")).await;
        answer.is_error(503, "upstream_unavailable");
        let detail = gateway.line_of(&answer).await["attempts"][0]["detail"].clone();
        let told = format!("the proxy {url} cannot be reached: ConnectRefused");
        assert!(
            detail
                .as_str()
                .is_some_and(|detail| detail.starts_with(&told)),
            "{detail}"
        );
        gateway.access_lines(2).await;
    });
}

/// A change of the proxy, of its user, or of its password never uses a connection from before.
#[test]
fn a_change_of_the_proxy_takes_effect_at_once() {
    run(async {
        let ca = Ca::new();
        for http2 in [false, true] {
            let mock = if http2 {
                Mock::h2(&ca.leaf()).await
            } else {
                Mock::tls(&ca.leaf()).await
            };
            let (one, two) = (Proxy::start().await, Proxy::start().await);
            let goal = mock
                .base_url()
                .trim_start_matches("https://")
                .trim_end_matches("/v1")
                .to_owned();
            one.knows(&goal, &mock);
            two.knows(&goal, &mock).wants(&plain_user());
            let with = |proxy: &str| {
                let more = format!("tls: {{ ca: ca.pem }}{proxy}");
                Catalog::new()
                    .account_with("a", &mock, &more)
                    .model("m", &["a"])
            };
            let file = ", proxy: { file: proxy.url }";
            let setup = Gateway::with(with(&format!(", proxy: \"{}\"", one.url(""))))
                .file("ca.pem", ca.pem());
            let setup = setup
                .upstream(one.port())
                .upstream(two.port())
                .file("proxy.url", two.url(&user()));
            let gateway = setup.start().await;
            let ask = async |status: u16, connections: usize, asked: (usize, usize), what: &str| {
                let answer = gateway.post(&chat("m")).await;
                assert_eq!(
                    answer.status,
                    status,
                    "{what}: {}\n{:?}",
                    answer.text(),
                    gateway.lines()
                );
                assert_eq!(mock.connections(), connections, "{what}");
                assert_eq!((one.heads().len(), two.heads().len()), asked, "{what}");
            };
            ask(200, 1, (1, 0), "the first proxy").await;
            ask(200, 1, (1, 0), "the same connection").await;
            gateway.swap(with(file)).await;
            ask(200, 2, (1, 1), "another proxy, with a password").await;
            // The file alone changes: a wrong password, and the right one again.
            let write = async |user: &str| {
                let before = gateway.generation();
                let (new, path) = (
                    gateway.conf.join(".proxy.url.new"),
                    gateway.conf.join("proxy.url"),
                );
                std::fs::write(&new, format!("{}\n", two.url(user))).expect("written");
                std::fs::rename(&new, path).expect("renamed");
                eventually("the new password is live", || {
                    (gateway.generation() > before).then_some(())
                })
                .await;
            };
            write(&format!("ann:{MARK}")).await;
            ask(503, 2, (1, 2), "a wrong password").await;
            let line = gateway.access_lines(4).await.remove(3);
            let told = format!(
                "the proxy {} refuses the user and the password in its URL (HTTP 407)",
                two.url("")
            );
            assert_eq!(
                (
                    &line["attempts"][0]["outcome"],
                    &line["attempts"][0]["detail"]
                ),
                (&json!("proxy"), &json!(told))
            );
            two.wants("bob:other");
            write("bob:other").await;
            ask(200, 3, (1, 3), "the right password, with no rest").await;
            gateway.swap(with("")).await;
            ask(200, 4, (1, 3), "no proxy").await;
            gateway.swap(with(", proxy: none")).await;
            ask(200, 5, (1, 3), "no proxy, in words").await;
            let closed = || (one.tunnels() + two.tunnels() == 0).then_some(());
            eventually("the tunnels are closed", closed).await;
            let outputs = format!(
                "{}{:?}{}{}",
                gateway.log(),
                gateway.lines(),
                gateway.status(),
                gateway.admin("/live").1
            );
            assert!(
                !outputs.contains(&basic()),
                "the credential as it is sent is nowhere"
            );
            gateway.access_lines(7).await;
        }
    });
}

/// The credential as it is sent.
fn basic() -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(plain_user())
}

/// The certificate is that of the account's server, whatever the proxy is called.
#[test]
fn certificates_are_those_of_the_server_behind_the_proxy() {
    run(async {
        let ca = Ca::new();
        let (good, other) = (
            Mock::h2(&ca.leaf_for(HOST)).await,
            Mock::h2(&ca.leaf_for("127.0.0.1")).await,
        );
        let proxy = Proxy::start().await;
        proxy
            .knows("provider.invalid:443", &good)
            .knows("provider.invalid:444", &other);
        let more = format!("proxy: \"{}\", tls: {{ ca: ca.pem }}", proxy.url(""));
        let catalog = Catalog::new()
            .account_at("a", &format!("https://{HOST}/v1"), &more)
            .account_at("b", &format!("https://{HOST}:444/v1"), &more)
            .model("m", &["a"])
            .model("n", &["b"]);
        let gateway = Gateway::with(catalog)
            .file("ca.pem", ca.pem())
            .upstream(proxy.port())
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let answer = gateway.post(&chat("n")).await;
        answer.is_error(502, "bad_upstream_response");
        let attempt = gateway.line_of(&answer).await["attempts"][0].clone();
        assert_eq!(attempt["outcome"], "tls");
        let detail = attempt["detail"].as_str().unwrap_or_default();
        assert!(
            detail.contains("not valid for name provider.invalid: it is for 127.0.0.1"),
            "{detail}"
        );
        assert!(
            detail.ends_with(&format!("(through the proxy {})", proxy.url(""))),
            "{detail}"
        );
        assert_eq!(other.count(), 0);
        gateway.access_lines(2).await;
    });
}

#[test]
fn a_proxy_may_itself_be_spoken_to_over_tls() {
    run(async {
        let (ca, stranger) = (Ca::new(), Ca::named("a stranger"));
        let (mock, proxy) = (Mock::h2(&ca.leaf()).await, Proxy::tls(&ca.leaf()).await);
        let bad = Proxy::tls(&stranger.leaf()).await;
        let goal = mock
            .base_url()
            .trim_start_matches("https://")
            .trim_end_matches("/v1")
            .to_owned();
        proxy.knows(&goal, &mock).wants(&plain_user());
        let store = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("proxy-{}.pem", std::process::id()));
        std::fs::write(&store, ca.pem()).expect("a store of certificates");
        let url = |proxy: &Proxy| format!("https://{}@localhost:{}", user(), proxy.port());
        let catalog = Catalog::new()
            .account_with("a", &mock, "proxy: { file: a.url }")
            .account_with("b", &mock, "proxy: { file: b.url }")
            .model("m", &["a"])
            .model("n", &["b"]);
        let setup = Gateway::with(catalog)
            .file("a.url", url(&proxy))
            .file("b.url", url(&bad))
            .upstream(proxy.port());
        let gateway = setup
            .env("SSL_CERT_FILE", store.to_str().expect("a path"))
            .start()
            .await;
        for body in [chat("m"), chat_stream("m")] {
            let answer = gateway.post(&body).await;
            assert_eq!(
                answer.status,
                200,
                "{}\n{:?}",
                answer.text(),
                gateway.lines()
            );
        }
        assert!(mock.request(0).await.http2);
        assert_eq!(proxy.heads().len(), 1);
        let answer = gateway.post(&chat("n")).await;
        answer.is_error(503, "upstream_unavailable");
        let detail = gateway.line_of(&answer).await["attempts"][0]["detail"].clone();
        let told = format!(
            "the proxy https://localhost:{} makes no secure connection: the certificate",
            bad.port()
        );
        let helps = |detail: &str| {
            detail.contains("Add its authority to the system's") && !detail.contains("tls.ca")
        };
        assert!(
            detail
                .as_str()
                .is_some_and(|detail| detail.starts_with(&told) && helps(detail)),
            "{detail}"
        );
        assert_eq!(bad.heads().len(), 0, "the password was not sent");
        gateway.access_lines(3).await;
        std::fs::remove_file(store).expect("removed");
    });
}

/// The list of models, the token and the request: each goes through the account's proxy.
#[test]
fn lists_of_models_and_tokens_go_through_the_proxy() {
    run(async {
        let (mock, issuer, google) = (
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        );
        let proxy = Proxy::start().await;
        for (name, mock) in [
            ("provider.invalid:80", &mock),
            ("issuer.invalid:80", &issuer),
            ("google.invalid:80", &google),
        ] {
            proxy.knows(name, mock);
        }
        let list = json!({"object": "list", "data": [{"id": "tiny", "object": "model"}]});
        mock.by(move |request| match request.method.as_str() {
            "GET" => Script::json(200, &list),
            _ => Script::answer("hello"),
        });
        issuer.always(Script::json(
            200,
            &json!({"access_token": "CaNaRy-token", "expires_in": 3599, "token_type": "Bearer"}),
        ));
        let said = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Ciao"}]}, "finishReason": "STOP"}]});
        google.always(Script::json(200, &said));
        let mut account: Value =
            serde_json::from_str(include_str!("../support/service_account.json")).expect("JSON");
        account["token_uri"] = json!("http://issuer.invalid/token");
        let more = format!("proxy: \"{}\", insecure: true", proxy.url(""));
        let vertex =
            format!("{more}, dialect: vertex, project: p, service_account: {{ file: sa.json }}");
        let catalog = Catalog::new()
            .account_at("a", "http://provider.invalid/v1", &more)
            .account_at("v", "http://google.invalid", &vertex)
            .model("openai/*", &["a=*"])
            .model("gemini", &["v=gemini-2.5-flash"]);
        let gateway = Gateway::with(catalog)
            .file("sa.json", &account)
            .upstream(proxy.port())
            .start()
            .await;
        let listed = || (gateway.status()["accounts"][0]["list"]["names"] == 1).then_some(());
        eventually("the list", listed).await;
        assert_eq!(gateway.post(&chat("openai/tiny")).await.content(), "hello");
        assert_eq!(gateway.post(&chat("gemini")).await.content(), "Ciao");
        let mut asked = proxy.asked();
        asked.sort();
        asked.dedup();
        let goals = ["google", "issuer", "provider"]
            .map(|name| format!("CONNECT {name}.invalid:80 HTTP/1.1"));
        assert_eq!(asked, goals);
        gateway.access_lines(2).await;
    });
}

/// What one user of a proxy may fetch is not taken for what another one may.
#[test]
fn each_user_of_a_proxy_fetches_its_own_lists() {
    run(async {
        let (mock, proxy) = (Mock::start().await, Proxy::start().await);
        proxy
            .knows("provider.invalid:80", &mock)
            .wants(&plain_user());
        let list = json!({"object": "list", "data": [{"id": "tiny", "object": "model"}]});
        mock.by(move |request| match request.method.as_str() {
            "GET" => Script::json(200, &list),
            _ => Script::answer("hello"),
        });
        let with = |file: &str| format!("proxy: {{ file: {file} }}, insecure: true");
        let catalog = Catalog::new()
            .account_at("a", &format!("http://{HOST}/v1"), &with("wrong.url"))
            .account_at("b", &format!("http://{HOST}/v1"), &with("right.url"))
            .model("openai/*", &["a=*", "b=*"]);
        let setup = Gateway::with(catalog).file("wrong.url", proxy.url(&format!("bob:{MARK}")));
        let gateway = setup
            .file("right.url", proxy.url(&user()))
            .upstream(proxy.port())
            .start()
            .await;
        let list = |place: usize| gateway.status()["accounts"][place]["list"].clone();
        eventually("the list of the other user", || {
            (list(1)["names"] == 1).then_some(())
        })
        .await;
        let failed = eventually("the wrong user's failure", || {
            list(0)["failure"].as_str().map(str::to_owned)
        })
        .await;
        assert!(
            failed.contains("refuses the user and the password"),
            "{failed}"
        );
        assert_eq!(gateway.post(&chat("openai/tiny")).await.content(), "hello");
        gateway.access_lines(1).await;
    });
}

/// The environment's proxies hold for accounts that say nothing, if server.yaml says so.
#[test]
fn proxies_of_the_environment_need_server_yaml() {
    run(async {
        let (mock, one, two) = (
            Mock::start().await,
            Proxy::start().await,
            Proxy::start().await,
        );
        for proxy in [&one, &two] {
            proxy.knows("provider.invalid:80", &mock);
        }
        let at = |host: &str| format!("http://{host}/v1");
        let own = format!("insecure: true, proxy: \"{}\"", two.url(""));
        let catalog = Catalog::new()
            .account_at("usual", &at(HOST), "insecure: true")
            .account_at("never", &at(HOST), "insecure: true, proxy: none")
            .account_at("own", &at(HOST), &own)
            .account_at("exempt", &at("a.direct.invalid"), "insecure: true")
            .account("here", &mock);
        let ids = ["usual", "never", "own", "exempt", "here"];
        let catalog = ids
            .into_iter()
            .fold(catalog, |catalog, id| catalog.model(id, &[id]));
        one.wants(&plain_user());
        let start = async |server: &str| {
            let setup = Gateway::with(&catalog)
                .server(server)
                .upstream(one.port())
                .upstream(two.port());
            let setup = setup
                .env("http_proxy", &one.url(&user()))
                .env("no_proxy", "other.test,.direct.invalid");
            setup.env("https_proxy", "http://127.0.0.1:9").start().await
        };
        let gateway = start("upstream_proxy: environment").await;
        for (model, status, told) in [
            ("usual", 200, ""),
            ("own", 200, ""),
            ("here", 200, ""),
            ("never", 503, "cannot resolve provider.invalid"),
            ("exempt", 503, "cannot resolve a.direct.invalid"),
        ] {
            let answer = gateway.post(&chat(model)).await;
            assert_eq!(
                answer.status,
                status,
                "{model}: {}\n{:?}",
                answer.text(),
                gateway.lines()
            );
            let attempt = gateway.line_of(&answer).await["attempts"][0].clone();
            assert!(
                attempt["detail"]
                    .as_str()
                    .unwrap_or_default()
                    .starts_with(told),
                "{model}: {attempt}"
            );
        }
        assert_eq!(
            (one.heads().len(), two.heads().len(), mock.count()),
            (1, 1, 3)
        );
        // The page's explanation names the proxies; the command does not read them.
        for (model, proxy) in [
            ("usual", Some(one.url(""))),
            ("own", Some(two.url(""))),
            ("never", None),
            ("here", None),
        ] {
            let question = json!({"key": "acme/prod", "body": chat(model)});
            let told = explained(&gateway, &question).await;
            assert_eq!(
                told["candidates"][0]["request"]["proxy"].as_str(),
                proxy.as_deref(),
                "{model}: {told:#}"
            );
        }
        let outputs = format!(
            "{}{:?}{}{}",
            gateway.log(),
            gateway.lines(),
            gateway.status(),
            gateway.admin("/live").1
        );
        assert!(
            !outputs.contains(&basic()),
            "the credential as it is sent is nowhere"
        );
        gateway.access_lines(5).await;
        drop(gateway);

        let gateway = start("").await;
        gateway
            .post(&chat("usual"))
            .await
            .is_error(503, "upstream_unavailable");
        assert_eq!(
            one.heads().len(),
            1,
            "nothing is used that was not asked for"
        );
        gateway.access_lines(1).await;
    });
}

/// Asks the admin listener for an explanation.
async fn explained(gateway: &Gateway, question: &Value) -> Value {
    let mut connection = crate::support::client::Connection::plain(gateway.admin, None).await;
    let body = question.to_string();
    let host = gateway.admin.to_string();
    let fields = [
        ("host", host.as_str()),
        ("content-type", "application/json"),
    ];
    connection
        .send(crate::support::client::request(
            "POST",
            "/explain",
            &fields,
            body.as_bytes(),
        ))
        .await;
    let answer = connection.response().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}
