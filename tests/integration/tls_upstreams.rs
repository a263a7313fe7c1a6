//! Trust in the certificates of upstreams, and the reports to the operator about one that is not
//! trusted: in the access line, in the log, in `/status` and in `explain`. A certificate in
//! `tls.ca` that belongs to no authority is a pin.

use serde_json::{Value, json};

use crate::explain::explain;
use crate::support::tls::{Ca, Leaf};
use crate::support::{Catalog, Gateway, Mock, chat, chat_stream, run};

/// The upstream over HTTP/1 or HTTP/2.
async fn upstream(leaf: &Leaf, http2: bool) -> Mock {
    if http2 {
        Mock::h2(leaf).await
    } else {
        Mock::tls(leaf).await
    }
}

fn here() -> [&'static str; 2] {
    ["localhost", "127.0.0.1"]
}

#[test]
fn a_pinned_certificate_is_talked_to() {
    run(async {
        for http2 in [false, true] {
            for authority in [false, true] {
                let leaf = Ca::own(&here(), 2099, authority);
                let mock = upstream(&leaf, http2).await;
                let catalog = Catalog::new()
                    .account_with("a", &mock, "tls: { ca: pin.pem }")
                    .model("m", &["a"]);
                let gateway = Gateway::with(catalog)
                    .file("pin.pem", &leaf.cert)
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
                assert_eq!((mock.count(), mock.request(0).await.http2), (2, http2));
                gateway.access_lines(2).await;
            }
        }
    });
}

/// A server that must not be believed: what it shows, what `tls.ca` has, and what the operator is
/// told.
struct Bad {
    what: &'static str,
    shows: Leaf,
    named: String,
    told: &'static str,
}

fn bad() -> Vec<Bad> {
    let (ca, stranger, impostor) = (Ca::new(), Ca::named("a stranger"), Ca::new());
    let pinned = |leaf: &Leaf| leaf.cert.clone();
    let (old, elsewhere) = (
        Ca::own(&here(), 2001, false),
        Ca::own(&["other.test", "more.test"], 2099, true),
    );
    let of = |what, shows, named, told| Bad {
        what,
        shows,
        named,
        told,
    };
    vec![
        of(
            "another",
            Ca::own(&here(), 2099, false),
            pinned(&Ca::own(&here(), 2099, false)),
            "is not the one in `tls.ca`",
        ),
        of(
            "another-authority",
            Ca::own(&here(), 2099, true),
            pinned(&Ca::own(&here(), 2099, true)),
            "is not the one in `tls.ca`",
        ),
        of(
            "signed-by-others",
            ca.leaf(),
            pinned(&Ca::own(&here(), 2099, false)),
            "is not the one in `tls.ca`",
        ),
        of(
            "pinned-but-old",
            old.clone(),
            pinned(&old),
            "expired at 2001-01-01T00:00:00",
        ),
        of(
            "pinned-but-elsewhere",
            elsewhere.clone(),
            pinned(&elsewhere),
            "not valid for name localhost: it is for other.test, more.test",
        ),
        of("unknown", stranger.leaf(), ca.pem(), "UnknownIssuer"),
        of("impostor", impostor.leaf(), ca.pem(), "BadSignature"),
        of(
            "old",
            ca.expired(),
            ca.pem(),
            "expired at 2001-01-01T00:00:00",
        ),
        of(
            "elsewhere",
            ca.leaf_for("other.test"),
            ca.pem(),
            "not valid for name localhost: it is for other.test",
        ),
    ]
}

#[test]
fn untrusted_servers_get_no_byte_and_operators_the_reason() {
    run(async {
        for http2 in [false, true] {
            let rows = bad();
            let mut mocks = Vec::new();
            let mut catalog = Catalog::new();
            for Bad { what, shows, .. } in &rows {
                let mock = upstream(shows, http2).await;
                catalog = catalog
                    .account_with(what, &mock, &format!("tls: {{ ca: {what}.pem }}"))
                    .model(what, &[what]);
                mocks.push(mock);
            }
            let setup = rows.iter().fold(Gateway::with(catalog), |setup, bad| {
                setup.file(&format!("{}.pem", bad.what), &bad.named)
            });
            let gateway = setup.start().await;
            let url = format!("http://{}/status", gateway.admin);
            for (Bad { what, told, .. }, mock) in rows.iter().zip(&mocks) {
                let answer = gateway.post(&chat(what)).await;
                answer.is_error(502, "bad_upstream_response");
                // A certificate does not change while a client waits.
                assert_eq!(
                    (answer.field("x-should-retry"), answer.field("retry-after")),
                    (Some("false"), None),
                    "{what}"
                );
                assert!(
                    !answer.text().contains("certificate"),
                    "the caller is not told: {}",
                    answer.text()
                );
                assert_eq!(mock.count(), 0, "{what}: a request has reached it");
                let line = gateway.line_of(&answer).await;
                let attempt = &line["attempts"][0];
                assert_eq!(
                    (
                        &attempt["outcome"],
                        line["attempts"].as_array().map(Vec::len)
                    ),
                    (&json!("tls"), Some(1))
                );
                holds(what, "the access line", &attempt["detail"], told);
                let logged = gateway.logged(&format!("account {what}: TLS failed")).await;
                assert!(logged.contains(told), "no {told:?} in {logged}");
                let status = gateway.status();
                let account = status["accounts"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|account| account["id"] == *what)
                    .expect("it");
                holds(
                    what,
                    "/status",
                    &account["targets"][0]["last_failure"]["detail"],
                    told,
                );
                let (_, said) = explain(&gateway, &chat(what), &["--status", &url]);
                assert!(
                    said.replace('\n', " ").contains(told),
                    "no {told:?} in {said}"
                );
            }
            gateway.access_lines(rows.len()).await;
        }
    });
}

#[track_caller]
fn holds(what: &str, place: &str, text: &Value, part: &str) {
    assert!(
        text.as_str().is_some_and(|text| text.contains(part)),
        "{what}: no {part:?} in {place}: {text}"
    );
}

/// Whoever has pinned a certificate has said whom to believe.
#[test]
fn beside_a_pin_the_systems_authorities_do_not_count() {
    run(async {
        let (ca, pin) = (Ca::new(), Ca::own(&here(), 2099, false));
        let (signed, own) = (Mock::tls(&ca.leaf()).await, Mock::tls(&pin).await);
        let store = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("system-{}.pem", std::process::id()));
        std::fs::write(&store, ca.pem()).expect("a store of certificates");
        let catalog = Catalog::new()
            .account("system", &signed)
            .account_with("beside", &own, "tls: { ca: pin.pem }")
            .account_with("pinned", &signed, "tls: { ca: pin.pem }")
            .account_with("both", &signed, "tls: { ca: both.pem }")
            .model("system", &["system"])
            .model("beside", &["beside"])
            .model("pinned", &["pinned"])
            .model("both", &["both"]);
        let setup = Gateway::with(catalog)
            .file("pin.pem", &pin.cert)
            .file("both.pem", format!("{}{}", pin.cert, ca.pem()));
        let gateway = setup
            .env("SSL_CERT_FILE", store.to_str().expect("a path"))
            .start()
            .await;
        for (model, status) in [
            ("system", 200),
            ("beside", 200),
            ("pinned", 502),
            ("both", 200),
        ] {
            let answer = gateway.post(&chat(model)).await;
            assert_eq!(answer.status, status, "{model}: {}", answer.text());
        }
        gateway.access_lines(4).await;
        std::fs::remove_file(store).expect("removed");
    });
}

/// What speaks no TLS is told as that; a port that closes may be back.
#[test]
fn what_is_no_tls_is_told_as_that() {
    run(async {
        let mock = Mock::start().await;
        mock.greet(
            crate::support::Script::new()
                .raw("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
                .close(),
        );
        let base = mock.base_url().replace("http:", "https:");
        let gateway =
            Gateway::start(Catalog::new().account_at("a", &base, "").model("m", &["a"])).await;
        let answer = gateway.post(&chat("m")).await;
        answer.is_error(502, "bad_upstream_response");
        assert_eq!(answer.field("x-should-retry"), Some("false"));
        holds(
            "no TLS",
            "the access line",
            &gateway.line().await["attempts"][0]["detail"],
            "does not speak TLS",
        );
    });
}
