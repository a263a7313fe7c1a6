use super::*;
use crate::signers::courier::tests::{NOW, Script, finish};
use proptest::prelude::*;

const ROLE: &str = "arn:aws:iam::123456789012:role/app";

fn keys(id: &str) -> Keys {
    Keys {
        access_key_id: Secret::new(id),
        secret_access_key: Secret::new("secret"),
        session_token: Some(Secret::new("session+/=")),
    }
}

fn web() -> AwsSource {
    AwsSource {
        from: From::WebIdentity(WebIdentity {
            role: ROLE.to_owned(),
            token_file: "/token".to_owned(),
            session: SESSION.to_owned(),
            sts: token_service("eu-west-1"),
        }),
        assume: None,
    }
}

fn assume() -> Assume {
    Assume {
        role: ROLE.to_owned(),
        external_id: Some("ours".to_owned()),
        session: SESSION.to_owned(),
        region: "eu-west-1".to_owned(),
        sts: token_service("eu-west-1"),
    }
}

fn instance() -> AwsSource {
    let metadata = METADATA.to_owned();
    AwsSource {
        from: From::Instance { metadata },
        assume: None,
    }
}

const STS: &str = "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
    <AssumeRoleWithWebIdentityResult><AssumedRoleUser><AssumedRoleId>AROA:portcullis</AssumedRoleId>\
    <Arn>arn:aws:sts::123456789012:assumed-role/app/portcullis</Arn></AssumedRoleUser><Credentials>\
    <AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
    <SessionToken>session+/=</SessionToken><Expiration>2026-12-01T00:00:00Z</Expiration></Credentials>\
    </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";

const JSON: &str = r#"{"Code":"Success","LastUpdated":"2026-11-30T23:00:00Z","Type":"AWS-HMAC","AccessKeyId":"ASIA1",
    "SecretAccessKey":"secret","Token":"session+/=","Expiration":"2026-12-01T05:00:00Z"}"#;

fn obtained(identity: &str, life: u64) -> Result<Obtained, Fault> {
    Ok(Obtained {
        credential: Credential::Aws(keys("ASIA1")),
        identity: identity.to_owned(),
        life: Duration::from_secs(life),
    })
}

#[test]
fn the_time_of_the_scripts() {
    assert_eq!(parse_unix_seconds("2026-11-30T23:00:00Z"), Some(NOW));
}

#[test]
fn a_web_identity_is_traded_for_keys() {
    let mut script = Script::new(&[(200, STS)]).with_file("/token", "ey.J.w\n");
    assert_eq!(
        finish(web().obtain(&mut script)),
        obtained(
            "arn:aws:sts::123456789012:assumed-role/app/portcullis",
            3600
        )
    );
    assert_eq!(
        script.sent,
        [
            "POST Outside https://sts.eu-west-1.amazonaws.com/\n\nAction=AssumeRoleWithWebIdentity&Version=2011-06-15\
          &RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fapp&RoleSessionName=portcullis&WebIdentityToken=ey.J.w"
        ]
    );
    let mut script = Script::new(&[]);
    assert!(matches!(
        finish(web().obtain(&mut script)),
        Err(Fault::Local(_))
    ));
    assert!(script.sent.is_empty(), "nothing else is tried");
}

#[test]
fn an_end_is_counted_by_the_servers_clock() {
    for hours in [0, 2] {
        let mut script = Script::new(&[(200, STS)]).with_file("/token", "t");
        script.date = Some(script.now);
        script.now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW - 3600 + hours * 3600);
        let life = finish(web().obtain(&mut script)).map(|obtained| obtained.life);
        assert_eq!(life, Ok(Duration::from_secs(3600)));
    }
}

#[test]
fn a_role_is_taken_on_with_the_first_keys() {
    let source = AwsSource {
        from: From::Static(keys("AKIA0")),
        assume: Some(assume()),
    };
    let mut script = Script::new(&[(200, STS)]);
    assert!(finish(source.obtain(&mut script)).is_ok());
    let sent = &script.sent[0];
    assert!(
        sent.starts_with("POST Outside https://sts.eu-west-1.amazonaws.com/\n"),
        "{sent}"
    );
    assert!(
        sent.contains("Credential=AKIA0/20261130/eu-west-1/sts/aws4_request"),
        "{sent}"
    );
    assert!(
        sent.contains("\nx-amz-security-token: session+/="),
        "{sent}"
    );
    let body = "\n\nAction=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fapp\
                &RoleSessionName=portcullis&ExternalId=ours";
    assert!(sent.ends_with(body), "{sent}");
}

#[test]
fn a_machine_is_asked_by_version_two() {
    let mut script = Script::new(&[(200, "t0ken"), (200, "app-role"), (200, JSON)]);
    let got = finish(instance().obtain(&mut script));
    assert_eq!(got, obtained("role app-role", 6 * 3600));
    assert_eq!(
        script.sent,
        [
            "PUT Nearby http://169.254.169.254/latest/api/token\nx-aws-ec2-metadata-token-ttl-seconds: 21600\n\n",
            "GET Nearby http://169.254.169.254/latest/meta-data/iam/security-credentials/\nx-aws-ec2-metadata-token: t0ken\n\n",
            "GET Nearby http://169.254.169.254/latest/meta-data/iam/security-credentials/app-role\nx-aws-ec2-metadata-token: t0ken\n\n",
        ]
    );
    for (answers, expected) in [
        (&[] as &[_], Fault::Unanswered(Some(HOP_HINT))),
        (
            &[(200, "t"), (404, "")],
            Fault::Local(
                "the metadata service knows no role: the machine has no instance profile"
                    .to_owned(),
            ),
        ),
        (
            &[(200, "t"), (200, "../../x")],
            Fault::Nonsense("the metadata service names no role that can be one".to_owned()),
        ),
        (
            &[(200, "t"), (200, "r"), (200, "{}")],
            Fault::Nonsense("the answer of the metadata service holds no keys".to_owned()),
        ),
    ] {
        let got = finish(instance().obtain(&mut Script::new(answers)));
        assert_eq!(got, Err(expected));
    }
}

#[test]
fn a_container_is_asked_with_its_token() {
    let answer = JSON.replace("\"Code\":\"Success\",", "\"RoleArn\":\"arn:role\",");
    let source = AwsSource {
        from: From::Container {
            url: "http://169.254.170.23/v1/credentials".to_owned(),
            token: Some(ContainerToken::File("/pod".to_owned())),
        },
        assume: None,
    };
    let mut script = Script::new(&[(200, &answer)]).with_file("/pod", "ey\n");
    let got = finish(source.obtain(&mut script));
    assert_eq!(got, obtained("arn:role", 6 * 3600));
    let sent = ["GET Nearby http://169.254.170.23/v1/credentials\nauthorization: ey\n\n"];
    assert_eq!(script.sent, sent);
}

#[test]
fn refusals_have_the_words_of_the_provider() {
    let xml = "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException</Code><Message>Token expired: \
               current &amp; date</Message></Error></ErrorResponse>";
    for (status, body, meant, code, message) in [
        (
            400,
            xml,
            401,
            Some("ExpiredTokenException"),
            "Token expired: current & date",
        ),
        (
            500,
            "",
            500,
            None,
            "the token service answered with the status 500",
        ),
        (
            302,
            "",
            502,
            None,
            "the token service answered with the status 302",
        ),
        (
            400,
            "<Code>Throttling</Code>",
            429,
            Some("Throttling"),
            "the token service answered with the status 400",
        ),
    ] {
        let mut script = Script::new(&[(status, body)]).with_file("/token", "t");
        let Err(Fault::Refused(error)) = finish(web().obtain(&mut script)) else {
            panic!("{status} {body}")
        };
        let found = (error.status, error.code.as_deref(), &*error.message);
        assert_eq!(found, (Some(meant), code, message));
    }
}

proptest! {
    #[test]
    fn nothing_panics(at in 0..600_usize, byte in any::<u8>(), status in 100..600_u16) {
        for text in [STS, JSON] {
            let mut body = text.as_bytes().to_vec();
            if let Some(place) = body.get_mut(at) {
                *place = byte;
            }
            let answer = Answer {
                status,
                content_type: None,
                body: Secret::new(String::from_utf8_lossy(&body)),
                date: None,
            };
            drop(read_token_service(&answer, SystemTime::UNIX_EPOCH));
            drop(read_json_keys(&answer, SystemTime::UNIX_EPOCH, SERVICE, ""));
        }
    }
}
