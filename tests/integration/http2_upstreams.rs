//! Connections to upstreams that speak HTTP/2: how many there are, who shares them, and when they go.

use std::time::Duration;

use crate::support::script;
use crate::support::tls::Ca;
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, join_all, run};

const TRUST: &str = "tls: { ca: ca.pem }";

/// A stream that is held in its middle.
fn held(gate: &Gate) -> Script {
    Script::sse().words(0..1).wait(gate).words(1..2).event(script::finish("stop")).done()
}

#[test]
fn an_http2_connection_whose_key_is_no_longer_in_any_catalog_goes_with_its_last_request() {
    run(async {
        let ca = Ca::new();
        let (mock, other) = (Mock::h2(&ca.leaf()).await, Mock::h2(&ca.leaf()).await);
        let with_key = |key: &str| {
            let catalog = Catalog::new().account_with("a", &mock, &format!("key: \"sk-CaNaRy-account-{key}\", {TRUST}")).model("m", &["a"]);
            if key == "one" { catalog.account_with("b", &other, TRUST).model("n", &["b"]) } else { catalog }
        };
        let gateway = Gateway::with(with_key("one")).file("ca.pem", ca.pem()).start().await;
        gateway.post(&chat("n")).await;
        let gate = Gate::new();
        mock.push(held(&gate));
        let (mut connection, mut head) = gateway.open(&chat_stream("m")).await;
        connection.piece(&mut head).await;

        gateway.swap(with_key("two")).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!((mock.connections(), mock.requests()[1].connection), (2, 1), "a new key is never sent on an old connection");
        eventually("the connection of the account that is gone is closed", || (other.open() == 0).then_some(())).await;
        // By now the idle ones have been looked at: the one that is in use is still there.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(mock.open(), 2);
        gate.open();
        while connection.piece(&mut head).await.is_some() {}
        assert_eq!(head.content(), "w0 w1 ");
        eventually("the connection of the old key is closed", || (mock.open() == 1).then_some(())).await;

        // An idle one goes as well, and the other stays.
        gateway.swap(with_key("three")).await;
        eventually("the idle connection of the old key is closed", || (mock.open() == 0).then_some(())).await;
        gateway.access_lines(3).await;
    });
}

#[test]
fn requests_at_once_share_one_http2_connection() {
    run(async {
        const AT_ONCE: usize = 40;
        let ca = Ca::new();
        let mock = Mock::h2(&ca.leaf()).await;
        let catalog = Catalog::new().account_with("a", &mock, TRUST).model("m", &["a"]);
        let gateway = Gateway::with(catalog).file("ca.pem", ca.pem()).start().await;
        let burst = async || {
            let gate = Gate::new();
            mock.always(held(&gate));
            let before = mock.count();
            let body = chat_stream("m");
            let all = join_all((0..AT_ONCE).map(|_| gateway.post(&body)));
            let open = async {
                mock.request(before + AT_ONCE - 1).await;
                gate.open();
            };
            let (answers, ()) = tokio::join!(all, open);
            for answer in answers {
                assert_eq!(answer.content(), "w0 w1 ", "{}", answer.text());
            }
        };
        // While there is none yet, each has to open one; what is not needed is not kept.
        burst().await;
        eventually("one is left", || (mock.open() == 1).then_some(())).await;
        let before = mock.connections();
        for _ in 0..5 {
            burst().await;
        }
        assert_eq!(mock.connections(), before, "all found room on the one that was there");
        gateway.access_lines(6 * AT_ONCE).await;
    });
}
