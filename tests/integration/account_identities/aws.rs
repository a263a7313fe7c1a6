//! Keys of AWS.

use super::*;
use crate::support::folder::Folder;

const ROLE: &str = "arn:aws:iam::123456789012:role/app";
const TOKEN: &str = "CaNaRy-web-token";
const ANSWER: &str = "Ciao";

/// An upstream that speaks Bedrock's format.
async fn bedrock() -> Mock {
    let mock = Mock::start().await;
    let message = json!({"role": "assistant", "content": [{"text": ANSWER}]});
    mock.always(Script::json(
        200,
        &json!({"output": {"message": message}, "stopReason": "end_turn",
            "usage": {"inputTokens": 3, "outputTokens": 1, "totalTokens": 4}}),
    ));
    mock
}

/// Returns a time as AWS writes it, so many seconds from now.
fn time_in(seconds: i64) -> String {
    let now = std::time::SystemTime::now();
    let shift = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 {
        now - shift
    } else {
        now + shift
    };
    portcullis::base::calendar::format_system_time(time)
}

/// The answer of the token service, with keys that end in so many seconds.
fn sts(id: &str, seconds: i64) -> Script {
    let body = format!(
        "<AssumeRoleResponse><AssumeRoleResult><AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/app/portcullis</Arn>\
         </AssumedRoleUser><Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>CaNaRy-secret</SecretAccessKey>\
         <SessionToken>CaNaRy-session</SessionToken><Expiration>{}</Expiration></Credentials></AssumeRoleResult>\
         </AssumeRoleResponse>",
        time_in(seconds)
    );
    Script::text(200, "text/xml", body)
}

fn refusal(code: &str, message: &str) -> Script {
    let body = format!(
        "<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    );
    Script::text(400, "text/xml", body)
}

fn catalog(upstream: &Mock, aws: impl Display) -> Catalog {
    let more = format!("dialect: bedrock, region: us-east-1, aws: {{ {aws} }}");
    let base = format!("http://{}", upstream.address());
    let model = "a=anthropic.claude-sonnet-4-5-v1:0";
    Catalog::new()
        .account_at("a", &base, &more)
        .model("m", &[model])
}

/// A gateway whose account trades the token of a file.
async fn web_identity(upstream: &Mock, service: &Service, folder: &Folder) -> Gateway {
    folder.write("token", format!("{TOKEN}\n"));
    let file = folder.path().join("token");
    let (file, url) = (file.display(), service.url());
    let aws =
        format!("from: web_identity, role: \"{ROLE}\", token_file: \"{file}\", sts_url: \"{url}\"");
    Gateway::start(catalog(upstream, aws)).await
}

#[test]
fn a_web_identity_signs_with_keys_of_its_role() {
    run(async {
        let (upstream, service) = (bedrock().await, Service::start(sts("ASIAONE", 3600)).await);
        let folder = Folder::new(&[]);
        let gateway = web_identity(&upstream, &service, &folder).await;
        let answer = gateway.post(&chat("m")).await;
        assert_eq!((answer.status, answer.content().as_str()), (200, ANSWER));
        let asked = service.mock.request(0).await;
        assert_eq!(
            (asked.method.as_str(), asked.target.as_str()),
            ("POST", "/")
        );
        assert_eq!(
            asked.text(),
            format!(
                "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fapp\
                     &RoleSessionName=portcullis&WebIdentityToken={TOKEN}"
            )
        );
        let seen = upstream.request(0).await;
        assert!(carries(&seen, "Credential=ASIAONE/"));
        assert_eq!(seen.field("x-amz-security-token"), Some("CaNaRy-session"));
        for _ in 0..3 {
            gateway.post(&chat("m")).await;
        }
        assert_eq!(service.mock.count(), 1);
    });
}

#[test]
fn a_role_is_assumed_with_static_keys() {
    run(async {
        let (upstream, service) = (bedrock().await, Service::start(sts("ASIAONE", 3600)).await);
        let aws = format!(
            "access_key_id: AKIDCaNaRyEXAMPLE, secret_access_key: CaNaRy-secret-access-key, sts_url: \"{}\", \
             assume: {{ role: \"{ROLE}\", external_id: ours, region: eu-west-1 }}",
            service.url()
        );
        let gateway = Gateway::start(catalog(&upstream, aws)).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let asked = service.mock.request(0).await;
        assert!(carries(&asked, "Credential=AKIDCaNaRyEXAMPLE/"));
        assert!(carries(&asked, "/eu-west-1/sts/aws4_request"));
        assert!(
            asked.text().ends_with("&ExternalId=ours"),
            "{}",
            asked.text()
        );
        assert!(carries(&upstream.request(0).await, "Credential=ASIAONE/"));
    });
}

/// A metadata service that gives these keys.
fn instance_answer(request: &Request, keys: &Value) -> Script {
    match (request.method.as_str(), request.target.as_str()) {
        ("PUT", "/latest/api/token") => Script::text(200, "text/plain", "CaNaRy-imds"),
        ("GET", "/latest/meta-data/iam/security-credentials/") => {
            Script::text(200, "text/plain", "app-role")
        }
        ("GET", "/latest/meta-data/iam/security-credentials/app-role") => Script::json(200, keys),
        _ => Script::text(404, "text/plain", "no"),
    }
}

fn json_keys(id: &str, seconds: i64) -> Value {
    json!({"Code": "Success", "AccessKeyId": id, "SecretAccessKey": "CaNaRy-secret", "Token": "CaNaRy-session",
        "Expiration": time_in(seconds)})
}

#[test]
fn a_machine_gives_keys_by_version_two() {
    run(async {
        let (upstream, metadata) = (bedrock().await, Mock::start().await);
        let keys = json_keys("ASIAIMDS", 3600);
        metadata.by(move |request| instance_answer(request, &keys));
        let aws = format!(
            "from: instance, metadata_url: \"http://{}\"",
            metadata.address()
        );
        let gateway = Gateway::start(catalog(&upstream, aws)).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert!(carries(&upstream.request(0).await, "Credential=ASIAIMDS/"));
        let token = metadata.request(2).await;
        assert_eq!(token.field("x-aws-ec2-metadata-token"), Some("CaNaRy-imds"));
    });
}

#[test]
fn a_container_gives_keys_for_its_token() {
    run(async {
        let (upstream, service) = (bedrock().await, Service::start(Script::new()).await);
        service.now_answers(Script::json(200, &json_keys("ASIATASK", 3600)));
        let uri = format!("{}/v2/credentials/1", service.url());
        let gateway = Gateway::with(catalog(&upstream, "from: container"))
            .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", &uri)
            .env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "CaNaRy-task")
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert!(carries(&upstream.request(0).await, "Credential=ASIATASK/"));
        let asked = service.mock.request(0).await;
        assert_eq!(asked.target, "/v2/credentials/1");
        assert_eq!(asked.field("authorization"), Some("CaNaRy-task"));
    });
}

/// An expired token in the file is named in the log; a new file heals the account at once.
#[test]
fn an_expired_token_file_heals() {
    run(async {
        let words = "Token expired: current date/time 1796079600 must be before 1796079000";
        let expired = refusal("ExpiredTokenException", words);
        let (upstream, service) = (bedrock().await, Service::start(expired).await);
        let folder = Folder::new(&[]);
        let gateway = web_identity(&upstream, &service, &folder).await;
        gateway
            .logged("ExpiredTokenException: Token expired: current date/time")
            .await;
        let answer = gateway.post(&chat("m")).await;
        answer.is_error(503, "upstream_unavailable");
        assert_eq!(upstream.count(), 0);
        folder.write("token", "CaNaRy-new-token");
        service.now_answers(sts("ASIANEW", 3600));
        gateway.advance(Duration::from_secs(2)).await;
        gateway.logged("obtained a credential again").await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let last = service.mock.requests().pop().unwrap();
        assert!(last.text().ends_with("WebIdentityToken=CaNaRy-new-token"));
    });
}

/// While the token service is out, the old keys serve until they end.
#[test]
fn an_outage_of_the_token_service_is_not_noticed() {
    run_within(Duration::from_secs(60), async {
        let (upstream, service) = (bedrock().await, Service::start(sts("ASIAONE", 3600)).await);
        let folder = Folder::new(&[]);
        let gateway = web_identity(&upstream, &service, &folder).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        service.now_answers(Script::text(503, "text/plain", "out"));
        // At four fifths of the life.
        gateway.advance(Duration::from_secs(2885)).await;
        for _ in 0..20 {
            gateway.advance(Duration::from_secs(30)).await;
            gateway.round(IDENTITIES).await;
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
        }
        let tries = service.mock.count() - 1;
        assert!((10..=25).contains(&tries), "{tries} tries in ten minutes");
        service.now_answers(sts("ASIATWO", 7200));
        gateway.advance(Duration::from_secs(30)).await;
        served_with(&gateway, &upstream, "Credential=ASIATWO/").await;
        assert!(
            upstream
                .requests()
                .iter()
                .all(|request| carries(request, "Credential=ASIA"))
        );
    });
}

/// At the end of the keys the account fails as one with a refused key, and the next one answers.
#[test]
fn at_their_end_keys_are_refused_ones() {
    run(async {
        let (upstream, service, spare) = (
            bedrock().await,
            Service::start(sts("ASIAONE", 600)).await,
            Mock::start().await,
        );
        let aws = format!(
            "access_key_id: AKIDCaNaRyEXAMPLE, secret_access_key: CaNaRy-secret-access-key, sts_url: \"{}\", \
             assume: {{ role: \"{ROLE}\" }}",
            service.url()
        );
        let catalog = catalog(&upstream, aws)
            .account("b", &spare)
            .model("n", &["a=anthropic.claude-sonnet-4-5-v1:0", "b"]);
        let gateway = Gateway::start(catalog).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        service.now_answers(refusal(
            "AccessDenied",
            "not authorized to perform: sts:AssumeRole",
        ));
        gateway.advance(Duration::from_secs(601)).await;
        gateway
            .logged("AccessDenied: not authorized to perform")
            .await;
        let answer = gateway.post(&chat("n")).await;
        assert_eq!((answer.status, spare.count()), (200, 1));
        gateway.post(&chat("m")).await.is_error(503, "no_capacity");
        assert_eq!(upstream.count(), 1);
    });
}

/// Keys of sixty seconds, over twenty ends of theirs, with requests all the time.
#[test]
fn short_keys_never_fail_a_request() {
    run_within(Duration::from_secs(120), async {
        let (upstream, mock) = (bedrock().await, Mock::start().await);
        let number = Mutex::new(0);
        mock.by(move |_| {
            let mut number = number.lock().unwrap();
            *number += 1;
            sts(&format!("ASIA{number}"), 61)
        });
        let aws = format!(
            "access_key_id: AKIDCaNaRyEXAMPLE, secret_access_key: CaNaRy-secret-access-key, sts_url: \"http://{}\", \
             assume: {{ role: \"{ROLE}\" }}",
            mock.address()
        );
        let gateway = Gateway::start(catalog(&upstream, aws)).await;
        for step in 0..240 {
            for _ in 0..4 {
                assert_eq!(gateway.post(&chat("m")).await.status, 200, "step {step}");
            }
            gateway.advance(Duration::from_secs(5)).await;
            gateway.round(IDENTITIES).await;
            gateway.round(IDENTITIES).await;
        }
        let fetches = mock.count();
        assert!(
            (20..=40).contains(&fetches),
            "{fetches} fetches in twenty minutes"
        );
    });
}

/// A metadata service keeps its answer until five minutes before the end.
#[test]
fn a_service_that_repeats_its_answer_is_asked_seldom() {
    run_within(Duration::from_secs(60), async {
        let (upstream, metadata) = (bedrock().await, Mock::start().await);
        let keys = Arc::new(Mutex::new(json_keys("ASIAONE", 3600)));
        let present = keys.clone();
        metadata.by(move |request| instance_answer(request, &present.lock().unwrap()));
        let aws = format!(
            "from: instance, metadata_url: \"http://{}\"",
            metadata.address()
        );
        let gateway = Gateway::start(catalog(&upstream, aws)).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        for minute in 1..60 {
            if minute == 56 {
                *keys.lock().unwrap() = json_keys("ASIATWO", 3600);
            } else if minute < 56 {
                // The end stands still, while the clock of the gateway's own periods moves.
                *keys.lock().unwrap() = json_keys("ASIAONE", 3600 - minute * 60);
            }
            gateway.advance(Duration::from_secs(60)).await;
            gateway.round(IDENTITIES).await;
            gateway.round(IDENTITIES).await;
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
            let (_, problems) = gateway.admin("/status");
            assert!(!problems.contains("identity_refresh"), "{problems}");
        }
        assert!(carries(
            &upstream.requests().pop().unwrap(),
            "Credential=ASIATWO/"
        ));
        let fetches = metadata.count() / 3;
        assert!((3..=6).contains(&fetches), "{fetches} fetches in an hour");
    });
}

/// A clock that is wrong by five minutes changes nothing: the server's own clock counts.
#[test]
fn the_clock_of_the_service_counts() {
    run(async {
        for shift in [-300, 300] {
            let (upstream, mock) = (bedrock().await, Mock::start().await);
            mock.by(move |_| {
                let now = std::time::SystemTime::now();
                let by = Duration::from_secs(300);
                let date = if shift < 0 { now - by } else { now + by };
                sts("ASIAONE", 120 + shift).with("date", &httpdate::fmt_http_date(date))
            });
            let aws = format!(
                "access_key_id: AKIDCaNaRyEXAMPLE, secret_access_key: CaNaRy-secret-access-key, sts_url: \"http://{}\", \
                 assume: {{ role: \"{ROLE}\" }}",
                mock.address()
            );
            let gateway = Gateway::start(catalog(&upstream, aws)).await;
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
            gateway.advance(Duration::from_secs(80)).await;
            gateway.round(IDENTITIES).await;
            assert_eq!(
                (gateway.post(&chat("m")).await.status, mock.count()),
                (200, 1)
            );
            gateway.advance(Duration::from_secs(20)).await;
            eventually("a second fetch", || (mock.count() == 2).then_some(())).await;
        }
    });
}

/// A service that answers too much, elsewhere, or never, gives no keys; nothing of it is followed.
#[test]
fn a_hostile_service_gives_nothing() {
    run(async {
        let elsewhere = Mock::start().await;
        let location = format!("http://{}/", elsewhere.address());
        for (answer, words) in [
            (
                Script::text(302, "text/plain", "").with("location", &location),
                "answered with the status 302",
            ),
            (
                Script::text(200, "text/xml", "x".repeat(100_000)),
                "too long",
            ),
            (Script::text(200, "text/xml", "<a/>"), "holds no keys"),
        ] {
            let (upstream, service) = (bedrock().await, Service::start(answer).await);
            let folder = Folder::new(&[]);
            let gateway = web_identity(&upstream, &service, &folder).await;
            gateway.logged(words).await;
            assert_eq!(gateway.post(&chat("m")).await.status / 100, 5);
            assert_eq!((upstream.count(), elsewhere.count()), (0, 0));
        }
    });
}

/// A source that does not answer holds up no request that another account can answer.
#[test]
fn a_silent_source_leaves_requests_to_the_next_account() {
    run(async {
        let (upstream, service, spare) = (
            bedrock().await,
            Service::start(Script::silent()).await,
            Mock::start().await,
        );
        let aws = format!(
            "access_key_id: AKIDCaNaRyEXAMPLE, secret_access_key: CaNaRy-secret-access-key, sts_url: \"{}\", \
             assume: {{ role: \"{ROLE}\" }}",
            service.url()
        );
        let catalog = catalog(&upstream, aws)
            .account("b", &spare)
            .model("n", &["a=anthropic.claude-sonnet-4-5-v1:0", "b"]);
        let gateway = Gateway::start(catalog).await;
        let answer = gateway.post(&chat("n")).await;
        assert_eq!(
            (answer.status, spare.count(), upstream.count()),
            (200, 1, 0)
        );
        let trail = crate::failover::trail(&gateway.line().await);
        assert_eq!(trail, "a:connect_timeout b:ok");
    });
}
