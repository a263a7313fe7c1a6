//! Tokens of Google's.

use super::*;
use crate::support::folder::Folder;

const EMAIL: &str = "app@p.iam.gserviceaccount.com";

async fn vertex() -> Mock {
    let mock = Mock::start().await;
    let answer = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Ciao"}]}, "finishReason": "STOP"}]});
    mock.always(Script::json(200, &answer));
    mock
}

fn catalog(upstream: &Mock, more: impl Display) -> Catalog {
    let more = format!("dialect: vertex, project: p, {more}");
    let base = format!("http://{}", upstream.address());
    Catalog::new()
        .account_at("a", &base, &more)
        .model("m", &["a=gemini-2.5-flash"])
}

fn token(text: &str) -> Script {
    let token = json!({"access_token": text, "expires_in": 3599, "token_type": "Bearer"});
    Script::json(200, &token)
}

/// All servers of Google's in one.
fn google(request: &Request) -> Script {
    let account = "/computeMetadata/v1/instance/service-accounts/default";
    let target = request.target.as_str();
    if target == format!("{account}/email") {
        return Script::text(200, "text/plain", EMAIL);
    }
    if target == format!("{account}/token") || target == "/v1/token" {
        return token("CaNaRy-token-one");
    }
    if target == "/v1/projects/-/serviceAccounts/b@p.iam.gserviceaccount.com:generateAccessToken" {
        let end = std::time::SystemTime::now() + Duration::from_secs(3600);
        let end = portcullis::base::calendar::format_system_time(end);
        return Script::json(
            200,
            &json!({"accessToken": "CaNaRy-token-two", "expireTime": end}),
        );
    }
    Script::text(404, "text/plain", "no")
}

#[test]
fn a_machine_gives_the_token_of_its_service_account() {
    run(async {
        let (upstream, server) = (vertex().await, Mock::start().await);
        server.by(google);
        let host = server.address().to_string();
        let gateway = Gateway::with(catalog(&upstream, "identity: metadata"))
            .env("GCE_METADATA_HOST", &host)
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let seen = upstream.request(0).await;
        assert_eq!(seen.field("authorization"), Some("Bearer CaNaRy-token-one"));
        let asked = server.request(0).await;
        assert_eq!(asked.field("metadata-flavor"), Some("Google"));
        assert_eq!(gateway.status()["accounts"][0]["identity"]["name"], EMAIL);
    });
}

#[test]
fn a_service_account_is_impersonated_by_a_machine() {
    run(async {
        let (upstream, server) = (vertex().await, Mock::start().await);
        server.by(google);
        let url = format!("http://{}", server.address());
        let identity = format!(
            "identity: {{ from: metadata, metadata_url: \"{url}\", impersonate: b@p.iam.gserviceaccount.com, impersonate_url: \"{url}\" }}"
        );
        let gateway = Gateway::start(catalog(&upstream, identity)).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let seen = upstream.request(0).await;
        assert_eq!(seen.field("authorization"), Some("Bearer CaNaRy-token-two"));
        let asked = server.request(2).await;
        assert_eq!(
            asked.field("authorization"),
            Some("Bearer CaNaRy-token-one")
        );
        assert_eq!(asked.json()["lifetime"], "3600s");
    });
}

#[test]
fn an_identity_of_another_cloud_is_traded() {
    run(async {
        let (upstream, server) = (vertex().await, Mock::start().await);
        server.by(google);
        let folder = Folder::new(&[("token", "CaNaRy-federated\n")]);
        let file = json!({
            "type": "external_account", "audience": "//iam.googleapis.com/x",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": format!("http://{}/v1/token", server.address()),
            "credential_source": {"file": folder.path().join("token")},
        });
        folder.write("external.json", file.to_string());
        let path = folder.path().join("external.json").display().to_string();
        let identity = format!("identity: {{ from: external_account, file: \"{path}\" }}");
        let gateway = Gateway::start(catalog(&upstream, identity)).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let asked = server.request(0).await;
        assert!(asked.text().contains("&subject_token=CaNaRy-federated&"));
        assert_eq!(
            gateway.status()["accounts"][0]["identity"]["name"],
            "iam.googleapis.com/x"
        );
    });
}
