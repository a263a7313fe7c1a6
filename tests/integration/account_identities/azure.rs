//! Tokens of Microsoft's.

use super::*;
use crate::problems::{comes, goes};
use crate::support::folder::Folder;

const SECRET: &str = "CaNaRy-client-secret";

fn token(text: &str, seconds: u64) -> Script {
    Script::json(
        200,
        &json!({"token_type": "Bearer", "expires_in": seconds, "access_token": text}),
    )
}

fn catalog(upstream: &Mock, identity: impl Display) -> Catalog {
    let more = format!("dialect: azure, identity: {identity}");
    let base = format!("http://{}", upstream.address());
    Catalog::new()
        .account_at("a", &base, &more)
        .model("m", &["a"])
}

fn application(service: &Service, proof: &str) -> String {
    let url = service.url();
    format!("{{ tenant: acme, client_id: c-1, authority_url: \"{url}\", {proof} }}")
}

#[test]
fn an_application_gets_tokens_for_its_secret() {
    run(async {
        let (upstream, service) = (
            Mock::start().await,
            Service::start(token("CaNaRy-token-one", 3599)).await,
        );
        let proof = format!("from: client_secret, client_secret: {SECRET}");
        let catalog = catalog(&upstream, application(&service, &proof));
        let gateway = Gateway::start(catalog).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let asked = service.mock.request(0).await;
        assert_eq!(asked.target, "/acme/oauth2/v2.0/token");
        let expected = format!(
            "grant_type=client_credentials&client_id=c-1&scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default\
             &client_secret={SECRET}"
        );
        assert_eq!(asked.text(), expected);
        let seen = upstream.request(0).await;
        assert_eq!(seen.field("authorization"), Some("Bearer CaNaRy-token-one"));
        assert_eq!(seen.field("api-key"), None);
        let status = gateway.status();
        assert_eq!(status["accounts"][0]["identity"]["name"], "c-1");
        assert!(status["accounts"][0]["identity"]["until"].is_string());
    });
}

/// Everything of a workload comes from the environment, as AKS sets it up.
#[test]
fn a_workload_takes_all_from_its_environment() {
    run(async {
        let (upstream, service) = (
            Mock::start().await,
            Service::start(token("CaNaRy-token-one", 3599)).await,
        );
        let folder = Folder::new(&[("token", "CaNaRy-federated\n")]);
        let file = folder.path().join("token").display().to_string();
        let gateway = Gateway::with(catalog(&upstream, "workload"))
            .env("AZURE_TENANT_ID", "acme")
            .env("AZURE_CLIENT_ID", "c-1")
            .env("AZURE_FEDERATED_TOKEN_FILE", &file)
            .env("AZURE_AUTHORITY_HOST", &format!("{}/", service.url()))
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let asked = service.mock.request(0).await;
        assert_eq!(asked.target, "/acme/oauth2/v2.0/token");
        assert!(asked.text().ends_with("&client_assertion=CaNaRy-federated"));
    });
}

#[test]
fn a_managed_identity_comes_from_its_machine() {
    run(async {
        let (upstream, service) = (
            Mock::start().await,
            Service::start(token("CaNaRy-token-one", 3599)).await,
        );
        let url = service.url();
        let identity = format!("{{ from: managed, client_id: c-2, metadata_url: \"{url}\" }}");
        let gateway = Gateway::start(catalog(&upstream, identity)).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let asked = service.mock.request(0).await;
        assert_eq!(asked.field("metadata"), Some("true"));
        assert_eq!(
            asked.target,
            "/metadata/identity/oauth2/token?api-version=2018-02-01\
             &resource=https%3A%2F%2Fcognitiveservices.azure.com&client_id=c-2"
        );
    });
}

#[test]
fn an_app_service_has_an_endpoint_of_its_own() {
    run(async {
        let (upstream, service) = (
            Mock::start().await,
            Service::start(token("CaNaRy-token-one", 3599)).await,
        );
        let gateway = Gateway::with(catalog(&upstream, "managed"))
            .env("IDENTITY_ENDPOINT", &format!("{}/msi/token", service.url()))
            .env("IDENTITY_HEADER", "CaNaRy-identity-header")
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let asked = service.mock.request(0).await;
        assert_eq!(
            asked.field("x-identity-header"),
            Some("CaNaRy-identity-header")
        );
        assert!(
            asked
                .target
                .starts_with("/msi/token?api-version=2019-08-01&resource=")
        );
    });
}

/// A token that the upstream refuses is fetched anew, but not again and again.
#[test]
fn a_refused_token_is_fetched_anew_once() {
    run(async {
        let (upstream, service) = (
            Mock::start().await,
            Service::start(token("CaNaRy-token-one", 3599)).await,
        );
        let proof = format!("from: client_secret, client_secret: {SECRET}");
        let catalog = catalog(&upstream, application(&service, &proof));
        let gateway = Gateway::start(catalog).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        service.now_answers(token("CaNaRy-token-two", 3599));
        upstream.always(Script::error(
            401,
            "the token is of no use: CaNaRy-token-one",
        ));
        for _ in 0..3 {
            gateway.post(&chat("m")).await;
            gateway.reset("a");
            gateway.round(IDENTITIES).await;
            gateway.round(IDENTITIES).await;
        }
        assert_eq!(service.mock.count(), 2);
        let last = upstream.requests().pop().unwrap();
        assert_eq!(last.field("authorization"), Some("Bearer CaNaRy-token-two"));
    });
}

/// The problem has the provider's words, and goes away with a new token.
#[test]
fn a_refresh_that_fails_is_a_problem() {
    run(async {
        let (upstream, service) = (
            Mock::start().await,
            Service::start(token("CaNaRy-token-one", 3600)).await,
        );
        let proof = format!("from: client_secret, client_secret: {SECRET}");
        let catalog = catalog(&upstream, application(&service, &proof));
        let gateway = Gateway::start(catalog).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let words = format!("AADSTS7000222: The provided client secret {SECRET} is expired.");
        let denied = json!({"error": "invalid_client", "error_description": words});
        service.now_answers(Script::json(401, &denied));
        gateway.advance(Duration::from_secs(2881)).await;
        let log = gateway.logged("could not obtain a credential").await;
        assert!(log.contains("AADSTS7000222"), "{log}");
        let problem = comes(&gateway, "identity_refresh").await;
        let text = problem.to_string();
        assert!(
            text.contains("AADSTS7000222") && text.contains("serves until"),
            "{text}"
        );
        assert!(!text.contains(SECRET), "{text}");
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        service.now_answers(token("CaNaRy-token-two", 3600));
        gateway.advance(Duration::from_secs(60)).await;
        served_with(&gateway, &upstream, "CaNaRy-token-two").await;
        goes(&gateway, "identity_refresh").await;
    });
}
