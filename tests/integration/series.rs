//! How many series `/metrics` has: `metrics:` of server.yaml.

use crate::support::client::post_as;
use crate::support::{Catalog, Gateway, Mock, chat, run};

/// Secrets of further callers.
const OTHERS: [&str; 3] = [
    "sk-CaNaRy-caller-one-0123456789abcdefghijklmnopq",
    "sk-CaNaRy-caller-two-0123456789abcdefghijklmnopq",
    "sk-CaNaRy-caller-three-0123456789abcdefghijklmno",
];

fn catalog(mock: &Mock) -> Catalog {
    let catalog =
        Catalog::over(mock).caller("one", OTHERS[0], "limits: { requests_per_minute: 100 }");
    let catalog = catalog.caller("two", OTHERS[1], "limits: { requests_per_minute: 10 }");
    catalog.caller("three", OTHERS[2], "")
}

#[test]
fn sets_beyond_the_bound_count_for_other() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(catalog(&mock))
            .server("metrics: { series: 2 }")
            .start()
            .await;
        for secret in [OTHERS[0], OTHERS[1], OTHERS[2], OTHERS[0], OTHERS[2]] {
            assert_eq!(gateway.raw(post_as(secret, &chat("m"))).await.status, 200);
        }
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        gateway.access_lines(6).await;
        let metrics = gateway.metrics();
        let counted = |caller: &str| {
            metrics.sum(
                "portcullis_requests_total",
                &[("caller", caller), ("model", "m")],
            )
        };
        assert_eq!(
            ["one", "two", "three", "acme", "other"].map(counted),
            [2.0, 1.0, 0.0, 0.0, 3.0]
        );
        assert_eq!(
            metrics.sum("portcullis_requests_total", &[("account", "a")]),
            6.0
        );
        // Two of their own, and one of the caller `other`.
        assert_eq!(metrics.sum("portcullis_label_sets", &[]), 3.0);
    });
}

#[test]
fn a_label_left_out_is_in_no_series() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(catalog(&mock))
            .server("metrics: { labels: [account] }")
            .start()
            .await;
        for secret in OTHERS {
            assert_eq!(gateway.raw(post_as(secret, &chat("m"))).await.status, 200);
        }
        gateway.access_lines(3).await;
        let metrics = gateway.metrics();
        assert_eq!(
            metrics.sum(
                "portcullis_requests_total",
                &[("account", "a"), ("outcome", "ok")]
            ),
            3.0
        );
        // It is the highest share of all callers.
        let share = metrics.sum(
            "portcullis_limit_used_ratio",
            &[("level", "caller"), ("limit", "requests_per_minute")],
        );
        assert_eq!(share, 0.1);
        for caller in ["one", "two", "three"] {
            assert!(
                !metrics.0.contains(&format!("\"{caller}\"")),
                "{caller}: {}",
                metrics.0
            );
        }
        let gateway = Gateway::with(catalog(&mock))
            .server("metrics: { labels: [caller] }")
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        gateway.access_lines(1).await;
        let metrics = gateway.metrics();
        assert_eq!(
            metrics.sum(
                "portcullis_requests_total",
                &[("caller", "acme"), ("account", "")]
            ),
            1.0
        );
        assert_eq!(
            metrics.sum("portcullis_attempts_total", &[("account", "a")]),
            1.0
        );
    });
}
