//! Providers that hang. Their callers leave before any timeout of the gateway, so that nothing
//! fails: it must be told all the same, and the next requests must go elsewhere. And callers who
//! are only impatient: they move nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::failover::trail;
use crate::problems::{comes, goes, problems, subject_and_text};
use crate::support::canary::KEY;
use crate::support::client::{Connection, post_as, request};
use crate::support::{
    Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, join_all, run,
};

const OTHER: &str = "sk-CaNaRy-caller-other-0123456789abcdefghijklmnop";

/// The time after which most callers here leave.
const PATIENT_FOR: Duration = Duration::from_secs(2);
/// A time after which a leave may count.
const A_MOMENT: Duration = Duration::from_millis(1_200);

/// Two accounts, of which `a` is asked first, and two callers.
fn two(a: &Mock, b: &Mock) -> Catalog {
    Catalog::new().account("a", a).account("b", b).model_of(
        "m",
        &["{ account: a, tier: 0 }", "{ account: b, tier: 1 }"],
        "strategy: priority",
    )
}

fn live(gateway: &Gateway) -> Value {
    let (status, body) = gateway.admin("/live");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

pub fn verdict(gateway: &Gateway) -> (String, String) {
    let verdict = &live(gateway)["verdict"];
    let text = |value: &Value| {
        value
            .as_str()
            .unwrap_or_else(|| panic!("{verdict}"))
            .to_owned()
    };
    (text(&verdict["word"]), text(&verdict["says"]))
}

fn given_up(gateway: &Gateway, account: &str) -> f64 {
    gateway
        .metrics()
        .sum("portcullis_given_up_total", &[("account", account)])
}

/// Sends a request, and returns its connection once `a` has it.
async fn begin(gateway: &Gateway, key: &str, body: &Value, a: &Mock) -> Connection {
    let before = a.count();
    let mut connection = gateway.connect().await;
    connection.send(post_as(key, body)).await;
    a.request(before).await;
    connection
}

/// Nothing was found, and the next request goes to `a` as before.
async fn nothing_moved(gateway: &Gateway, a: &Mock, b: &Mock) {
    a.always(Script::answer("here"));
    let answer = gateway.post(&chat("m")).await;
    assert_eq!(
        (answer.status, b.count()),
        (200, 0),
        "the order is as before"
    );
    for rule in ["given_up", "failures", "breaker_open"] {
        assert_eq!(problems(gateway, rule), [] as [Value; 0]);
    }
    let target = &gateway.status()["accounts"][0]["targets"][0];
    assert_eq!(
        (&target["breaker"], &target["behind_for_ms"]),
        (&json!("closed"), &Value::Null),
        "{target}"
    );
    assert_eq!(verdict(gateway).0, "ok");
}

#[test]
fn a_hang_is_degraded_and_the_second_answers_soon() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.always(
            Script::new()
                .delay(Duration::from_secs(8))
                .then_answer("too late"),
        );
        let gateway = Gateway::start(two(&a, &b).caller("other", OTHER, "")).await;
        let began = Instant::now();
        let callers = (0..30).map(|n| {
            let (gateway, body) = (
                &gateway,
                if n % 3 == 0 {
                    chat_stream("m")
                } else {
                    chat("m")
                },
            );
            async move {
                let mut connection = gateway.connect().await;
                connection
                    .send(post_as(if n % 2 == 0 { KEY } else { OTHER }, &body))
                    .await;
                tokio::time::sleep(PATIENT_FOR).await;
            }
        });
        join_all(callers).await;
        eventually("the leaves are counted", || {
            (given_up(&gateway, "a") == 30.0).then_some(())
        })
        .await;
        assert_eq!(
            (a.count(), b.count()),
            (30, 0),
            "they were all sent to the first account"
        );
        let answer = gateway.post(&chat("m")).await;
        assert_eq!(
            (answer.status, b.count(), a.count()),
            (200, 1, 30),
            "the second account answers"
        );
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(5),
            "the second account was asked after {took:?}"
        );
        // It is told, and not as the callers' fault.
        let all_of_them = || {
            problems(&gateway, "given_up")
                .pop()
                .filter(|problem| problem["requests"] == 30)
        };
        eventually("all are told", all_of_them).await;
        let problem = comes(&gateway, "given_up").await;
        let (subject, what) = subject_and_text(&problem);
        assert_eq!(
            (&*subject, &problem["severity"], &problem["requests"]),
            ("target a/m", &json!("warning"), &json!(30))
        );
        assert!(
            what.starts_with("Callers give up waiting for a (30 in 1 min, after ")
                && what.ends_with(" s)."),
            "{what}"
        );
        let status = gateway.status();
        assert_eq!(status["verdict"], live(&gateway)["verdict"]);
        assert_eq!(verdict(&gateway), ("degraded".to_owned(), what));
        // A leave counts for its target, and a moment later for the model. The patient one may have
        // ended by then.
        let of_all = |problem: &Value| {
            let what = subject_and_text(problem).1;
            what.starts_with("30 of 30 requests") || what.starts_with("30 of 31 requests")
        };
        let failures = || problems(&gateway, "failures").pop().filter(of_all);
        let failures = eventually("the part of the failures", failures).await;
        assert_eq!(
            (&failures["part"], &failures["severity"]),
            (&json!("given_up"), &json!("warning")),
            "{failures}"
        );
        let what = subject_and_text(&failures).1;
        assert!(
            what.contains("for `m` were given up by callers"),
            "{failures}"
        );
        let all = gateway.status()["problems"].to_string();
        assert!(
            !all.contains("callers' fault") && !all.contains("providers are well"),
            "{all}"
        );
        // The target, its breaker, the lines.
        let target = &gateway.status()["accounts"][0]["targets"][0];
        assert_eq!(
            (&target["given_up"], &target["last_failure"]["outcome"]),
            (&json!(30), &json!("given_up")),
            "{target}"
        );
        assert_ne!(
            target["breaker"], "closed",
            "nobody got an answer: {target}"
        );
        let lines = gateway.access_lines(31).await;
        let left: Vec<_> = lines
            .iter()
            .filter(|line| line["outcome"] == "client_left")
            .map(trail)
            .collect();
        assert_eq!(left, vec!["a:given_up"; 30]);
        let now = live(&gateway);
        let (figures, model) = (&now["figures"]["now"], &now["models"]["rows"][0]);
        assert_eq!(
            (
                &figures["given_up"],
                &figures["failed_caller"],
                &model["given_up"]
            ),
            (&json!(30), &json!(0), &json!(30))
        );
        assert_eq!(
            model["targets"]
                .as_array()
                .unwrap()
                .iter()
                .find(|one| one["account"] == "a")
                .unwrap()["failed"],
            30
        );
        gateway.reset("a");
        assert_eq!(
            gateway.status()["accounts"][0]["targets"][0]["behind_for_ms"],
            Value::Null,
            "a reset ends it"
        );
    });
}

#[test]
fn a_hang_after_good_times_moves_every_strategy() {
    run(async {
        for strategy in ["priority", "weighted", "least_busy", "fastest"] {
            let (a, b, gate) = (Mock::start().await, Mock::start().await, Gate::new());
            let targets = [
                "{ account: a, weight: 1000, tier: 0 }",
                "{ account: b, weight: 1, tier: 1 }",
            ];
            let catalog = Catalog::new().account("a", &a).account("b", &b);
            let gateway = Gateway::start(
                catalog
                    .model_of(
                        "m",
                        &targets,
                        &format!("strategy: {strategy}, sticky: true"),
                    )
                    .model("only", &["a=m"]),
            )
            .await;
            for _ in 0..20 {
                assert_eq!(gateway.post(&chat("only")).await.status, 200);
            }
            a.always(Script::new().wait(&gate).then_answer("late"));
            let mut callers = Vec::new();
            for _ in 0..3 {
                callers.push(begin(&gateway, KEY, &chat("only"), &a).await);
            }
            tokio::time::sleep(A_MOMENT).await;
            drop(callers);
            eventually("they are counted", || {
                (given_up(&gateway, "a") == 3.0).then_some(())
            })
            .await;
            for _ in 0..5 {
                assert_eq!(gateway.post(&chat("m")).await.status, 200, "{strategy}");
            }
            assert_eq!((b.count(), a.count()), (5, 23), "{strategy}");
            let (_, what) = subject_and_text(&comes(&gateway, "given_up").await);
            assert!(
                what.contains("(3 in 1 min, after 1.") && what.contains("; it usually takes "),
                "{what}"
            );
            let target = gateway.status()["accounts"][0]["targets"][0].clone();
            assert_eq!(
                target["breaker"], "closed",
                "somebody got an answer lately: {target}"
            );
            assert!(
                target["behind_for_ms"]
                    .as_u64()
                    .is_some_and(|ms| ms <= 10_000),
                "{target}"
            );
            gateway
                .logged("account a is asked last for m for 10 s")
                .await;
            gate.open();
        }
    });
}

#[test]
fn one_impatient_caller_beside_patient_ones_moves_nothing() {
    run(async {
        let (a, b, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        // It thinks for as long as the test lasts.
        a.always(Script::new().wait(&gate).then_answer("well thought"));
        let gateway = Gateway::start(two(&a, &b).caller("other", OTHER, "")).await;
        let mut patient = Vec::new();
        for _ in 0..3 {
            patient.push(begin(&gateway, OTHER, &chat("m"), &a).await);
        }
        for nth in 0..7 {
            let impatient = begin(&gateway, KEY, &chat("m"), &a).await;
            tokio::time::sleep(A_MOMENT).await;
            drop(impatient);
            gateway.access_lines(nth + 1).await;
        }
        assert_eq!(b.count(), 0);
        gate.open();
        for connection in &mut patient {
            assert_eq!(connection.response().await.status, 200);
        }
        nothing_moved(&gateway, &a, &b).await;
    });
}

#[test]
fn escape_five_times_moves_nothing() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(two(&a, &b)).await;
        // Before the first byte, soon and later; and in the middle of an answer.
        let mut lines = 0;
        for wait in [Duration::ZERO, A_MOMENT] {
            a.always(Script::silent());
            for _ in 0..5 {
                let connection = begin(&gateway, KEY, &chat_stream("m"), &a).await;
                tokio::time::sleep(wait).await;
                drop(connection);
                lines += 1;
                gateway.access_lines(lines).await;
            }
        }
        a.always(Script::sse().words(0..3).stall());
        for _ in 0..5 {
            let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
            while !answer.content().ends_with("w2 ") {
                connection.event(&mut answer).await.expect("an event");
            }
            tokio::time::sleep(A_MOMENT / 4).await;
            drop(connection);
            lines += 1;
            gateway.access_lines(lines).await;
        }
        nothing_moved(&gateway, &a, &b).await;
        let figures = &live(&gateway)["figures"]["now"];
        assert_eq!(figures["failed_caller"], 0, "nobody is to blame: {figures}");
    });
}

#[test]
fn a_slow_but_usual_model_is_not_given_up() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(two(&a, &b)).await;
        a.always(
            Script::new()
                .delay(Duration::from_secs(1))
                .then_answer("as ever"),
        );
        let body = chat("m");
        join_all((0..20).map(|_| gateway.post(&body))).await;
        // Three times a second has not passed.
        a.always(Script::silent());
        let mut callers = Vec::new();
        for _ in 0..5 {
            callers.push(begin(&gateway, KEY, &chat("m"), &a).await);
        }
        tokio::time::sleep(A_MOMENT).await;
        drop(callers);
        gateway.access_lines(25).await;
        assert_eq!(given_up(&gateway, "a"), 0.0);
        nothing_moved(&gateway, &a, &b).await;
    });
}

#[test]
fn a_probe_whose_caller_leaves_decides_nothing() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(two(&a, &b)).await;
        gateway.hold_clock();
        a.always(Script::new().close());
        for _ in 0..5 {
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
        }
        let breaker = || gateway.status()["accounts"][0]["targets"][0]["breaker"].clone();
        assert_eq!(breaker(), "open");
        gateway.advance(Duration::from_secs(6)).await;
        eventually("a probe is due", || {
            (breaker() == "half_open").then_some(())
        })
        .await;
        a.always(Script::silent());
        for _ in 0..2 {
            let probe = begin(&gateway, KEY, &chat("m"), &a).await;
            tokio::time::sleep(A_MOMENT).await;
            drop(probe);
            gateway.idle().await;
            assert_eq!(breaker(), "half_open", "the next request is a probe again");
        }
        assert_eq!(given_up(&gateway, "a"), 0.0);
        a.always(Script::answer("back"));
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!(breaker(), "closed");
    });
}

#[test]
fn a_caller_who_leaves_many_slices_has_left_once() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::silent());
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: cohere")
            .model("m", &["a=embed-v4.0"]);
        let gateway = Gateway::start(catalog).await;
        let texts: Vec<String> = (0..300).map(|number| format!("text {number}")).collect();
        let body = json!({"model": "m", "input": texts}).to_string();
        let authorization = format!("Bearer {KEY}");
        let fields = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        let mut connection = gateway.connect().await;
        connection
            .send(request("POST", "/v1/embeddings", &fields, body.as_bytes()))
            .await;
        mock.request(3).await;
        tokio::time::sleep(A_MOMENT).await;
        drop(connection);
        let line = gateway.line().await;
        let attempts = line["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["outcome"].clone(), one["times"].clone()));
        assert_eq!(
            attempts.collect::<Vec<_>>(),
            [
                (json!("given_up"), Value::Null),
                (json!("client_left"), json!(3))
            ],
            "{line}"
        );
        assert_eq!(given_up(&gateway, "a"), 1.0);
    });
}

#[test]
fn callers_faults_leave_gateway_and_providers_well() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        for _ in 0..20 {
            let wrong = gateway.post(&json!({"model": "m", "messages": 7})).await;
            assert_eq!(wrong.status, 400);
        }
        let failures = comes(&gateway, "failures").await;
        let well = |problem: &Value| {
            problem["do"]
                .as_str()
                .unwrap()
                .ends_with("The gateway and its providers are well.")
        };
        assert!(well(&failures), "{failures}");
        // Another problem stands.
        gateway.write_catalog(format!("{}nonsense: 1\n", Catalog::over(&mock)));
        comes(&gateway, "reload_refused").await;
        let failures = comes(&gateway, "failures").await;
        assert!(!well(&failures), "{failures}");
        gateway.write_catalog(Catalog::over(&mock));
        goes(&gateway, "reload_refused").await;
        assert!(well(&comes(&gateway, "failures").await));
    });
}
