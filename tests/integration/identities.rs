//! Callers who sign in elsewhere: a token of an issuer stands where a key may, and its subject is a
//! key of its caller.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::issuer::{Answers, Issuer};
use crate::support::{Catalog, Gateway, Mock, chat, eventually, run};

/// A catalog with the callers `research` and `everyone`, to whom tokens of the issuer belong by
/// their groups. `more` is YAML of the identity.
fn catalog(mock: &Mock, issuer: &Issuer, more: &str) -> Catalog {
    let identity = format!(
        "issuer: \"{}\", audience: portcullis, \
         callers: {{ claim: groups, map: {{ ml-team: research, \"*\": everyone }} }}{more}",
        issuer.name()
    );
    Catalog::over(mock)
        .model("n", &["a"])
        .caller_with("research", "", &[])
        .caller_with("everyone", "models: [m]", &[])
        .identity("okta", &identity)
}

async fn ask(gateway: &Gateway, token: &str) -> Response {
    gateway.raw(client::post_as(token, &chat("m"))).await
}

#[track_caller]
fn is_served(answer: &Response) {
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Waits until requests with this token are answered so.
async fn becomes(gateway: &Gateway, token: &str, status: u16) {
    loop {
        let seen = ask(gateway, token).await.status;
        if seen == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn models(answer: &Response) -> Vec<String> {
    let list = answer.json()["data"].clone();
    let ids = list.as_array().expect("a list").iter();
    ids.map(|model| model["id"].as_str().expect("an id").to_owned())
        .collect()
}

#[test]
fn a_token_is_a_key_of_its_caller() {
    run(async {
        let (mock, issuer) = (Mock::start().await, Issuer::start().await);
        let gateway = Gateway::start(catalog(&mock, &issuer, ", subject: email")).await;
        let alice = issuer.token_with(json!({"email": "alice@acme.com", "groups": ["ml-team"]}));
        let answer = ask(&gateway, &alice).await;
        is_served(&answer);
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["caller"], "research");
        assert_eq!(line["key"], "research/okta:alice@acme.com");
        let bob = issuer.token_with(json!({"email": "bob /ö@acme.com", "groups": ["sales"]}));
        let answer = ask(&gateway, &bob).await;
        is_served(&answer);
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["key"], "everyone/okta:bob%20%2F%C3%B6@acme.com");
        for (token, expected) in [(&alice, vec!["m", "n"]), (&bob, vec!["m"])] {
            let bearer = format!("Bearer {token}");
            let fields = [("authorization", bearer.as_str())];
            let list = gateway
                .raw(client::request("GET", "/v1/models", &fields, b""))
                .await;
            assert_eq!(models(&list), expected);
        }
        // Both were verified by one fetch, and the keys of the catalog work as before.
        assert_eq!(issuer.key_fetches(), 1);
        is_served(&ask(&gateway, KEY).await);
        let log = gateway.log();
        for token in [&alice, &bob] {
            let parts = token.split('.').filter(|part| log.contains(*part));
            assert_eq!(parts.count(), 0, "nothing of a token is in the log");
        }
    });
}

#[test]
fn a_token_may_stand_wherever_a_key_may() {
    run(async {
        let (mock, issuer) = (Mock::start().await, Issuer::start().await);
        let gateway = Gateway::start(catalog(&mock, &issuer, "")).await;
        let token = issuer.token("alice", &["ml-team"]);
        let body = chat("m").to_string();
        let target = "/v1/chat/completions";
        for name in ["x-api-key", "api-key", "x-goog-api-key"] {
            let fields = [(name, token.as_str()), ("content-type", "application/json")];
            let request = client::request("POST", target, &fields, body.as_bytes());
            is_served(&gateway.raw(request).await);
        }
        let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]});
        let target = format!("/v1beta/models/m:generateContent?key={token}");
        let fields = [("content-type", "application/json")];
        let request = client::request("POST", &target, &fields, gemini.to_string().as_bytes());
        is_served(&gateway.raw(request).await);
        // A key and a token are two credentials.
        let bearer = format!("Bearer {token}");
        let fields = [("authorization", bearer.as_str()), ("x-api-key", KEY)];
        let request = client::request("GET", "/v1/models", &fields, b"");
        gateway.raw(request).await.is_error(401, "invalid_api_key");
    });
}

#[test]
fn tokens_that_are_not_for_us_are_refused() {
    run(async {
        let (mock, issuer) = (Mock::start().await, Issuer::start().await);
        let other = Issuer::start().await;
        let more = ", require: { email_verified: true }, deny: [mallory]";
        let gateway = Gateway::start(catalog(&mock, &issuer, more)).await;
        let verified = |more: Value| {
            let mut claims = json!({"email_verified": true, "groups": ["ml-team"]});
            let members = claims.as_object_mut().expect("claims");
            members.extend(more.as_object().expect("claims").clone());
            issuer.token_with(claims)
        };
        let good = verified(json!({}));
        is_served(&ask(&gateway, &good).await);
        let forged = format!("{}A{}", &good[..good.len() - 20], &good[good.len() - 19..]);
        let not_valid = "The token is not valid here.";
        for (token, message) in [
            (other.token("alice", &["ml-team"]), not_valid),
            (forged, not_valid),
            (format!("{good}x"), not_valid),
            (verified(json!({"aud": "other"})), "`aud`"),
            (verified(json!({"exp": 1_000_000})), "`exp`"),
            (verified(json!({"exp": null})), "`exp`"),
            (
                verified(json!({"email_verified": false})),
                "`email_verified`",
            ),
            (verified(json!({"sub": "mallory"})), "`sub`"),
            (verified(json!({"hasgroups": true})), "`groups`"),
        ] {
            let answer = ask(&gateway, &token).await;
            answer.is_error(401, "invalid_token");
            let text = answer.json()["error"]["message"].to_string();
            assert!(text.contains(message), "{message}: {text}");
            let challenge = answer.field("www-authenticate");
            assert_eq!(challenge, Some("Bearer error=\"invalid_token\""));
            assert_eq!(answer.field("x-should-retry"), Some("false"));
        }
        // What is no token at all is refused like a key.
        ask(&gateway, "nonsense")
            .await
            .is_error(401, "invalid_api_key");
        assert_eq!(mock.requests().len(), 1);
        let metrics = gateway.metrics();
        let refused = metrics.sum("portcullis_tokens_refused_total", &[("identity", "okta")]);
        assert!(refused >= 7.0, "{refused}");
    });
}

#[test]
fn a_new_key_of_the_issuer_is_fetched() {
    run(async {
        let (mock, issuer) = (Mock::start().await, Issuer::start().await);
        let gateway = Gateway::start(catalog(&mock, &issuer, "")).await;
        let old = issuer.token("alice", &["ml-team"]);
        is_served(&ask(&gateway, &old).await);
        issuer.rotate("k2");
        let new = issuer.token("alice", &["ml-team"]);
        is_served(&ask(&gateway, &new).await);
        assert_eq!(issuer.key_fetches(), 2);
        // The tokens of the key that is gone are forgotten, although they were verified.
        ask(&gateway, &old).await.is_error(401, "invalid_token");
        // However many unknown keys come, the issuer is asked no more for a while.
        gateway.hold_clock();
        issuer.rotate("k3");
        let unknown = issuer.token("alice", &["ml-team"]);
        for _ in 0..5 {
            ask(&gateway, &unknown).await.is_error(401, "invalid_token");
        }
        assert_eq!(issuer.key_fetches(), 2);
        is_served(&ask(&gateway, &new).await);
        gateway.advance(Duration::from_secs(31)).await;
        is_served(&ask(&gateway, &unknown).await);
        assert_eq!(issuer.key_fetches(), 3);
        // While the issuer cannot be asked, an unknown key may be a new one: that is no refusal for
        // good.
        issuer.answers(Answers::WithStatus(503));
        issuer.rotate("k4");
        gateway.advance(Duration::from_secs(31)).await;
        let newest = issuer.token("alice", &["ml-team"]);
        let answer = ask(&gateway, &newest).await;
        answer.is_error(503, "identity_unavailable");
        is_served(&ask(&gateway, &unknown).await);
    });
}

#[test]
fn the_last_keys_outlive_issuer_and_restart() {
    run(async {
        let (mock, issuer) = (Mock::start().await, Issuer::start().await);
        issuer.answers(Answers::WithStatus(503));
        let mut gateway = Gateway::start(catalog(&mock, &issuer, "")).await;
        let token = issuer.token("alice", &["ml-team"]);
        let answer = ask(&gateway, &token).await;
        answer.is_error(503, "identity_unavailable");
        assert!(answer.field("retry-after").is_some());
        is_served(&ask(&gateway, KEY).await);
        gateway.logged("the issuer's keys cannot be fetched").await;
        issuer.answers(Answers::Well);
        gateway.advance(Duration::from_secs(31)).await;
        becomes(&gateway, &token, 200).await;
        // The keys are in the file before the process ends.
        let folder = gateway.conf.parent().expect("a folder").join("issuer-keys");
        let kept = folder.join("okta.jwks");
        eventually("the keys are kept", || kept.exists().then_some(())).await;
        issuer.answers(Answers::Never);
        gateway.signal("TERM");
        gateway.exit(Duration::from_secs(20));
        gateway.restart();
        becomes(&gateway, &token, 200).await;
    });
}

#[test]
fn each_subject_has_its_own_limit() {
    run(async {
        let (mock, issuer) = (Mock::start().await, Issuer::start().await);
        let limited = |deny: &str| {
            let more = format!(", limits: {{ requests_per_day: 2 }}, deny: [{deny}]");
            catalog(&mock, &issuer, &more)
        };
        let mut gateway = Gateway::start(limited("")).await;
        let alice = issuer.token("alice", &["ml-team"]);
        let bob = issuer.token("bob", &["ml-team"]);
        is_served(&ask(&gateway, &alice).await);
        // Another token of the same subject counts for the same limit.
        is_served(&ask(&gateway, &issuer.token("alice", &["ml-team", "more"])).await);
        let over = ask(&gateway, &alice).await;
        over.is_error(429, "rate_limit_exceeded");
        is_served(&ask(&gateway, &bob).await);
        // A reload keeps what was counted.
        gateway.swap(limited("mallory")).await;
        ask(&gateway, &alice)
            .await
            .is_error(429, "rate_limit_exceeded");
        is_served(&ask(&gateway, &bob).await);
        ask(&gateway, &bob)
            .await
            .is_error(429, "rate_limit_exceeded");
        // So does a restart.
        gateway.signal("TERM");
        gateway.exit(Duration::from_secs(20));
        gateway.restart();
        becomes(&gateway, &alice, 429).await;
        let carol = issuer.token("carol", &["ml-team"]);
        is_served(&ask(&gateway, &carol).await);
        // Who is denied is refused at once, whatever was remembered.
        gateway.swap(limited("carol")).await;
        ask(&gateway, &carol).await.is_error(401, "invalid_token");
        ask(&gateway, &alice)
            .await
            .is_error(429, "rate_limit_exceeded");
    });
}
