use super::*;
use crate::signers::courier::tests::{NOW, Script, finish};
use proptest::prelude::*;

const RESOURCE: &str = "https://cognitiveservices.azure.com";
const ANSWER: &str =
    r#"{"token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"access_token":"tok"}"#;

fn application(proof: Proof) -> AzureSource {
    AzureSource::Application(Application {
        authority: "https://login.microsoftonline.com".to_owned(),
        tenant: "acme".to_owned(),
        client_id: "c-1".to_owned(),
        proof,
        resource: RESOURCE,
    })
}

fn obtained(identity: &str, life: u64) -> Result<Obtained, Fault> {
    Ok(Obtained {
        credential: Credential::Token(Secret::new("tok")),
        identity: identity.to_owned(),
        life: Duration::from_secs(life),
    })
}

const BEGINNING: &str = "POST Outside https://login.microsoftonline.com/acme/oauth2/v2.0/token\n\n\
    grant_type=client_credentials&client_id=c-1&scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default&";

#[test]
fn a_workload_shows_the_token_of_its_file() {
    let source = application(Proof::File("/token".to_owned()));
    let mut script = Script::new(&[(200, ANSWER)]).with_file("/token", "a.b.c\n");
    assert_eq!(finish(source.obtain(&mut script)), obtained("c-1", 3599));
    let rest = "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=a.b.c";
    assert_eq!(script.sent, [format!("{BEGINNING}{rest}")]);
}

#[test]
fn an_application_shows_its_secret() {
    let source = application(Proof::Secret(Secret::new("s~1+")));
    let mut script = Script::new(&[(200, ANSWER)]);
    assert_eq!(finish(source.obtain(&mut script)), obtained("c-1", 3599));
    assert_eq!(script.sent, [format!("{BEGINNING}client_secret=s~1%2B")]);
    let denied = r#"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided."}"#;
    let mut script = Script::new(&[(401, denied)]);
    let Err(Fault::Refused(error)) = finish(source.obtain(&mut script)) else {
        panic!("no refusal")
    };
    assert_eq!(error.status, Some(401));
    assert_eq!(
        error.message,
        "AADSTS7000215: Invalid client secret provided."
    );
}

#[test]
fn a_certificate_signs_an_assertion() {
    let account: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/support/service_account.json")).unwrap();
    let key_pem = account["private_key"].as_str().unwrap();
    let key =
        rcgen::KeyPair::from_pkcs8_pem_and_sign_algo(key_pem, &rcgen::PKCS_RSA_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["app".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let read = Certificate::parse(&format!("{key_pem}\n{}", certificate.pem())).unwrap();
    let source = application(Proof::Certificate(read));
    let mut script = Script::new(&[(200, ANSWER)]);
    assert_eq!(finish(source.obtain(&mut script)), obtained("c-1", 3599));
    let assertion = script.sent[0].rsplit_once("client_assertion=").unwrap().1;
    let parts: Vec<Vec<u8>> = assertion
        .split('.')
        .map(|part| URL_SAFE_NO_PAD.decode(part).unwrap())
        .collect();
    let json =
        |index: usize| -> serde_json::Value { serde_json::from_slice(&parts[index]).unwrap() };
    let thumbprint = URL_SAFE_NO_PAD.encode(Sha256::digest(certificate.der()));
    assert_eq!(
        json(0),
        serde_json::json!({"alg": "PS256", "typ": "JWT", "x5t#S256": thumbprint})
    );
    let claims = json(1);
    assert_eq!(
        claims["aud"],
        "https://login.microsoftonline.com/acme/oauth2/v2.0/token"
    );
    assert_eq!(
        (&claims["iss"], &claims["sub"]),
        (&"c-1".into(), &"c-1".into())
    );
    assert_eq!(
        (&claims["nbf"], &claims["exp"]),
        (&NOW.into(), &(NOW + 600).into())
    );
    let signed = assertion.rsplit_once('.').unwrap().0;
    let public = ring::signature::UnparsedPublicKey::new(
        &ring::signature::RSA_PSS_2048_8192_SHA256,
        key.public_key_raw().to_vec(),
    );
    assert!(public.verify(signed.as_bytes(), &parts[2]).is_ok());
}

#[test]
fn certificates_that_cannot_be_used() {
    for (pem, words) in [
        ("", "openssl pkcs12"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "no private key",
        ),
    ] {
        let wrong = Certificate::parse(pem).map(drop).unwrap_err();
        assert!(wrong.contains(words), "{wrong}");
    }
}

#[test]
fn a_managed_identity_asks_its_machine() {
    let source = AzureSource::Managed {
        metadata: METADATA.to_owned(),
        client_id: Some("c-2".to_owned()),
        resource: RESOURCE,
    };
    let answer = r#"{"access_token":"tok","client_id":"c-2","expires_in":"86399","expires_on":"1796165999","token_type":"Bearer"}"#;
    let mut script = Script::new(&[(200, answer)]);
    assert_eq!(finish(source.obtain(&mut script)), obtained("c-2", 86399));
    let sent = "GET Nearby http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01\
                &resource=https%3A%2F%2Fcognitiveservices.azure.com&client_id=c-2\nmetadata: true\n\n";
    assert_eq!(script.sent, [sent]);
}

#[test]
fn an_app_service_tells_an_absolute_end() {
    let source = AzureSource::AppService {
        endpoint: "http://127.0.0.1:41/msi/token".to_owned(),
        header: Secret::new("h"),
        client_id: None,
        resource: RESOURCE,
    };
    let answer = format!(
        r#"{{"access_token":"tok","expires_on":"{}","resource":"r"}}"#,
        NOW + 600
    );
    let mut script = Script::new(&[(200, &answer)]);
    let expected = obtained("the system-assigned identity", 600);
    assert_eq!(finish(source.obtain(&mut script)), expected);
    let sent = "GET Nearby http://127.0.0.1:41/msi/token?api-version=2019-08-01\
                &resource=https%3A%2F%2Fcognitiveservices.azure.com\nx-identity-header: h\n\n";
    assert_eq!(script.sent, [sent]);
}

proptest! {
    #[test]
    fn nothing_panics(at in 0..200_usize, byte in any::<u8>(), status in 100..600_u16) {
        let text = r#"{"access_token":"tok","client_id":"c-2","expires_in":"86399","expires_on":"1796165999"}"#;
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
        drop(read_managed(&answer, None, SystemTime::UNIX_EPOCH));
        drop(Certificate::parse(answer.body.expose()));
    }
}
