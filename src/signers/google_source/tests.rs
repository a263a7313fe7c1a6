use super::*;
use crate::signers::courier::tests::{Script, finish};
use proptest::prelude::*;

const ANSWER: &str = r#"{"access_token":"tok","expires_in":3599,"token_type":"Bearer"}"#;
const AUDIENCE: &str =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q";
const BODY: &str = r#"{"delegates":[],"scope":["https://www.googleapis.com/auth/cloud-platform"],"lifetime":"3600s"}"#;

fn obtained(identity: &str, life: u64) -> Result<Obtained, Fault> {
    Ok(Obtained {
        credential: Credential::Token(Secret::new("tok")),
        identity: identity.to_owned(),
        life: Duration::from_secs(life),
    })
}

fn external(source: &str, more: &str) -> Result<ExternalAccount, &'static str> {
    let file = format!(
        r#"{{"type":"external_account","audience":"{AUDIENCE}","subject_token_type":"urn:ietf:params:oauth:token-type:jwt",
        "token_url":"https://sts.googleapis.com/v1/token","credential_source":{source}{more}}}"#
    );
    let keys = Keys {
        access_key_id: Secret::new("AKIA0"),
        secret_access_key: Secret::new("secret"),
        session_token: None,
    };
    let environment = AwsEnvironment {
        keys: Some(keys),
        region: Some("eu-west-1".to_owned()),
    };
    ExternalAccount::parse(&file, environment)
}

fn source(external: ExternalAccount) -> GoogleSource {
    GoogleSource {
        from: From::External(Box::new(external)),
        impersonate: None,
    }
}

#[test]
fn a_machine_tells_its_service_account() {
    let source = GoogleSource {
        from: From::Metadata {
            metadata: METADATA.to_owned(),
        },
        impersonate: None,
    };
    let mut script = Script::new(&[(200, "app@p.iam.gserviceaccount.com"), (200, ANSWER)]);
    let got = finish(source.obtain(&mut script));
    assert_eq!(got, obtained("app@p.iam.gserviceaccount.com", 3599));
    let account = "GET Nearby http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default";
    let sent =
        ["email", "token"].map(|path| format!("{account}/{path}\nmetadata-flavor: Google\n\n"));
    assert_eq!(script.sent, sent);
    let none = finish(source.obtain(&mut Script::new(&[(404, "")])));
    assert!(matches!(none, Err(Fault::Local(_))));
}

#[test]
fn a_token_of_another_cloud_is_traded() {
    let file = external(r#"{"file":"/token"}"#, "").unwrap();
    let mut script = Script::new(&[(200, ANSWER)]).with_file("/token", "a.b.c\n");
    let got = finish(source(file).obtain(&mut script));
    assert_eq!(got, obtained(AUDIENCE.trim_start_matches('/'), 3599));
    let sent = "POST Outside https://sts.googleapis.com/v1/token\n\n\
        grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange\
        &audience=%2F%2Fiam.googleapis.com%2Fprojects%2F1%2Flocations%2Fglobal%2FworkloadIdentityPools%2Fp%2Fproviders%2Fq\
        &scope=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform\
        &requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token\
        &subject_token=a.b.c&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt";
    assert_eq!(script.sent, [sent]);
}

#[test]
fn a_url_gives_the_token_of_another_cloud() {
    let source_text = r#"{"url":"http://169.254.169.254/t","headers":{"Metadata":"True"},
        "format":{"type":"json","subject_token_field_name":"access_token"}}"#;
    let url = external(source_text, "").unwrap();
    let subject = r#"{"access_token":"sub"}"#;
    let mut script = Script::new(&[(200, subject), (200, ANSWER)]);
    assert!(finish(source(url.clone()).obtain(&mut script)).is_ok());
    assert_eq!(
        script.sent[0],
        "GET Nearby http://169.254.169.254/t\nmetadata: True\n\n"
    );
    assert!(
        script.sent[1].contains("&subject_token=sub&"),
        "{}",
        script.sent[1]
    );
    let mut script = Script::new(&[(200, "{}")]);
    let missing = "the other cloud's answer has no field access_token";
    let got = finish(source(url).obtain(&mut script));
    assert_eq!(got, Err(Fault::Nonsense(missing.to_owned())));
}

/// Returns the values of a header in a signed request.
fn header_values(json: &serde_json::Value, name: &str) -> Vec<serde_json::Value> {
    let headers = json["headers"].as_array().unwrap().iter();
    let named = headers.filter(|header| header["key"] == name);
    named.map(|header| header["value"].clone()).collect()
}

#[test]
fn a_signed_request_shows_an_identity_of_aws() {
    let aws = r#"{"environment_id":"aws1","regional_cred_verification_url":
        "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"}"#;
    let mut script = Script::new(&[(200, ANSWER)]);
    assert!(finish(source(external(aws, "").unwrap()).obtain(&mut script)).is_ok());
    let token = script.sent[0].split_once("subject_token=").unwrap().1;
    let token = token.split('&').next().unwrap();
    // It is encoded once for itself, and once more for the form.
    let text = dialects::wire::percent::decode_text(token).unwrap();
    let text = dialects::wire::percent::decode_text(std::str::from_utf8(&text).unwrap()).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        json["url"],
        "https://sts.eu-west-1.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
    );
    assert_eq!(json["method"], "POST");
    let header = |name: &str| header_values(&json, name);
    assert_eq!(header("host"), ["sts.eu-west-1.amazonaws.com"]);
    assert_eq!(header("x-goog-cloud-target-resource"), [AUDIENCE]);
    let signature = header("authorization")[0].as_str().unwrap().to_owned();
    assert!(
        signature.contains("SignedHeaders=host;x-amz-date;x-goog-cloud-target-resource, "),
        "{signature}"
    );
}

#[test]
fn a_service_account_is_impersonated() {
    let url = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/app@p.iam.gserviceaccount.com:generateAccessToken";
    let granted = r#"{"accessToken":"tok","expireTime":"2026-12-01T00:00:00Z"}"#;
    let mut from_file = source(
        external(
            r#"{"file":"/token"}"#,
            &format!(r#","service_account_impersonation_url":"{url}""#),
        )
        .unwrap(),
    );
    let expected = format!("POST Outside {url}\nauthorization: Bearer tok\n\n{BODY}");
    let mut script = Script::new(&[(200, ANSWER), (200, granted)]).with_file("/token", "t");
    let got = finish(from_file.obtain(&mut script));
    assert_eq!(got, obtained("app@p.iam.gserviceaccount.com", 3600));
    assert_eq!(script.sent[1], expected);
    from_file.impersonate = Some(Impersonate::of_email(
        "b@p.iam.gserviceaccount.com",
        IMPERSONATION,
    ));
    let mut script =
        Script::new(&[(200, ANSWER), (200, granted), (200, granted)]).with_file("/token", "t");
    let got = finish(from_file.obtain(&mut script));
    assert_eq!(got, obtained("b@p.iam.gserviceaccount.com", 3600));
    let denied = r#"{"error":{"code":403,"message":"Permission 'iam.serviceAccounts.getAccessToken' denied","status":"PERMISSION_DENIED"}}"#;
    let mut script = Script::new(&[(200, ANSWER), (403, denied)]).with_file("/token", "t");
    let Err(Fault::Refused(error)) = finish(from_file.obtain(&mut script)) else {
        panic!("no refusal")
    };
    assert_eq!(error.status, Some(401));
    assert!(
        error.message.contains("getAccessToken"),
        "{}",
        error.message
    );
}

#[test]
fn files_that_cannot_be_used() {
    for (source, words) in [
        (
            r#"{"executable":{"command":"/bin/x"}}"#,
            "which Portcullis never does",
        ),
        (r#"{"certificate":{}}"#, "not supported"),
        (r#"{"environment_id":"aws9"}"#, "not known"),
        (r#"{"file":"token"}"#, "full path"),
        ("{}", "one of `file`"),
    ] {
        let wrong = external(source, "").map(drop).unwrap_err();
        assert!(wrong.contains(words), "{wrong}");
    }
    let other = ExternalAccount::parse(r#"{"type":"authorized_user"}"#, AwsEnvironment::default());
    assert!(other.map(drop).unwrap_err().contains("external_account"));
}

proptest! {
    #[test]
    fn nothing_panics(at in 0..200_usize, byte in any::<u8>(), status in 100..600_u16) {
        for text in [
            r#"{"accessToken":"tok","expireTime":"2026-12-01T00:00:00Z"}"#,
            r#"{"type":"external_account","audience":"a","subject_token_type":"t","credential_source":{"file":"/t"}}"#,
        ] {
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
            drop(read_impersonated(&answer, "e", SystemTime::UNIX_EPOCH));
            drop(ExternalAccount::parse(answer.body.expose(), AwsEnvironment::default()));
        }
    }
}
