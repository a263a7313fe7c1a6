//! Where an account gets tokens of Microsoft Entra from: the token of a workload in Kubernetes, a
//! managed identity, or an application's secret or certificate.
//!
//! Exactly one source is asked. The requests are those of Microsoft's own libraries.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{RSA_PSS_SHA256, RsaKeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::courier::{
    Answer, Courier, Credential, Fault, Method, Obtained, Request, encode_value, shorten_text,
    time_left, write_form,
};
use super::google::read_token;
use crate::base::calendar::unix_time;
use crate::base::secret::Secret;
use dialects::upstream::shared::lenient::Count;
use dialects::wire::json::Writer;

/// The address of a machine's metadata service.
pub const METADATA: &str = "http://169.254.169.254";
/// The time for which an assertion is valid, in seconds.
const ASSERTION_LIFE: u64 = 600;

/// How tokens of Entra are obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AzureSource {
    /// At Entra, by an application that proves itself.
    Application(Application),
    /// At the metadata service of a machine.
    Managed {
        /// The address of the service.
        metadata: String,
        /// The identity's client id, if it is user-assigned.
        client_id: Option<String>,
        /// What the tokens are for.
        resource: &'static str,
    },
    /// At the service of an App Service or of a Container App.
    AppService {
        /// The whole URL without a query.
        endpoint: String,
        /// What the service wants to see.
        header: Secret,
        /// The identity's client id, if it is user-assigned.
        client_id: Option<String>,
        /// What the tokens are for.
        resource: &'static str,
    },
}

/// An application in Entra.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// The address of Entra.
    pub authority: String,
    /// The tenant's id or name.
    pub tenant: String,
    /// The application's client id.
    pub client_id: String,
    /// How the application proves itself.
    pub proof: Proof,
    /// What the tokens are for.
    pub resource: &'static str,
}

/// How an application proves itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// By the token in a file, which is read each time.
    File(String),
    /// By a secret.
    Secret(Secret),
    /// By a certificate and its key.
    Certificate(Certificate),
}

/// A certificate with its key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    key: Secret,
    /// The SHA-256 of the certificate, as assertions name it.
    thumbprint: String,
}

impl Certificate {
    /// Reads the certificate and the key of a file, and checks that the key can sign.
    pub fn parse(pem: &str) -> Result<Self, &'static str> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(
            |_| "has no certificate in PEM (`-----BEGIN CERTIFICATE-----`); of a PFX file, `openssl pkcs12 -in FILE.pfx -nodes -out FILE.pem` makes one",
        )?;
        let certificate = Certificate {
            key: Secret::new(pem),
            thumbprint: URL_SAFE_NO_PAD.encode(Sha256::digest(&certificate)),
        };
        certificate.key_pair()?;
        Ok(certificate)
    }

    fn key_pair(&self) -> Result<RsaKeyPair, &'static str> {
        let missing =
            "has no private key in PEM that is not encrypted (`-----BEGIN PRIVATE KEY-----`)";
        let wrong = "has no RSA key of 2048 to 4096 bits";
        let key =
            PrivateKeyDer::from_pem_slice(self.key.expose().as_bytes()).map_err(|_| missing)?;
        let read = if let PrivateKeyDer::Pkcs8(key) = &key {
            RsaKeyPair::from_pkcs8(key.secret_pkcs8_der())
        } else if let PrivateKeyDer::Pkcs1(key) = &key {
            RsaKeyPair::from_der(key.secret_pkcs1_der())
        } else {
            return Err(wrong);
        };
        read.map_err(|_| wrong)
    }

    /// Returns the signed text by which an application proves itself.
    fn assertion(&self, client_id: &str, audience: &str, now: u64) -> Result<Secret, &'static str> {
        const WRONG: &str = "the certificate's key cannot sign";
        let mut id = [0; 16];
        let random = SystemRandom::new();
        random.fill(&mut id).map_err(|_| WRONG)?;
        let mut header = Writer::default();
        header.object(|w| {
            w.key("alg").text("PS256");
            w.key("typ").text("JWT");
            w.key("x5t#S256").text(&self.thumbprint);
        });
        let mut claims = Writer::default();
        claims.object(|w| {
            w.key("aud").text(audience);
            w.key("iss").text(client_id);
            w.key("sub").text(client_id);
            w.key("jti").text(&URL_SAFE_NO_PAD.encode(id));
            w.key("iat").number(now);
            w.key("nbf").number(now);
            w.key("exp").number(now.saturating_add(ASSERTION_LIFE));
        });
        let (header, claims) = (header.into_bytes(), claims.into_bytes());
        let mut text = [
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims),
        ]
        .join(".");
        let key = self.key_pair()?;
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PSS_SHA256, &random, text.as_bytes(), &mut signature)
            .map_err(|_| WRONG)?;
        text.push('.');
        URL_SAFE_NO_PAD.encode_string(&signature, &mut text);
        Ok(Secret::new(text))
    }
}

impl AzureSource {
    /// Obtains a token.
    pub async fn obtain(&self, courier: &mut impl Courier) -> Result<Obtained, Fault> {
        match self {
            AzureSource::Application(application) => application.obtain(courier).await,
            AzureSource::Managed {
                metadata,
                client_id,
                resource,
            } => {
                let path = "metadata/identity/oauth2/token?api-version=2018-02-01";
                let url = managed_url(
                    &format!("{metadata}/{path}"),
                    resource,
                    client_id.as_deref(),
                );
                let request = Request::nearby(Method::Get, url).with("metadata", "true");
                let answer = courier.send(request).await?;
                read_managed(&answer, client_id.as_deref(), courier.now())
            }
            AzureSource::AppService {
                endpoint,
                header,
                client_id,
                resource,
            } => {
                let url = format!("{endpoint}?api-version=2019-08-01");
                let url = managed_url(&url, resource, client_id.as_deref());
                let mut request = Request::nearby(Method::Get, url);
                let header = ("x-identity-header".into(), header.clone());
                request.headers.push(header);
                let answer = courier.send(request).await?;
                read_managed(&answer, client_id.as_deref(), courier.now())
            }
        }
    }

    /// Returns the file that the source reads each time.
    pub fn file(&self) -> Option<&str> {
        match self {
            AzureSource::Application(Application {
                proof: Proof::File(path),
                ..
            }) => Some(path),
            AzureSource::Application(_)
            | AzureSource::Managed { .. }
            | AzureSource::AppService { .. } => None,
        }
    }

    /// Returns all settings as texts, so that two sources can be compared by a hash.
    pub fn parts(&self) -> Vec<&str> {
        match self {
            AzureSource::Application(application) => {
                let (kind, proof) = match &application.proof {
                    Proof::File(path) => ("file", &**path),
                    Proof::Secret(secret) => ("secret", secret.expose()),
                    Proof::Certificate(certificate) => ("certificate", certificate.key.expose()),
                };
                let Application {
                    authority,
                    tenant,
                    client_id,
                    resource,
                    ..
                } = application;
                vec![kind, proof, authority, tenant, client_id, resource]
            }
            AzureSource::Managed {
                metadata,
                client_id,
                resource,
            } => vec![
                "managed",
                metadata,
                client_id.as_deref().unwrap_or_default(),
                resource,
            ],
            AzureSource::AppService {
                endpoint,
                header,
                client_id,
                resource,
            } => {
                let client_id = client_id.as_deref().unwrap_or_default();
                vec![
                    "app_service",
                    endpoint,
                    header.expose(),
                    client_id,
                    resource,
                ]
            }
        }
    }

    /// Returns what no text may show. A certificate's key is not listed: it is lines of PEM.
    pub fn secrets(&self) -> Vec<&str> {
        match self {
            AzureSource::Application(Application {
                proof: Proof::Secret(secret),
                ..
            }) => vec![secret.expose()],
            AzureSource::AppService { header, .. } => vec![header.expose()],
            AzureSource::Application(_) | AzureSource::Managed { .. } => Vec::new(),
        }
    }
}

impl Application {
    /// Returns the address that gives tokens.
    pub fn token_url(&self) -> String {
        format!("{}/{}/oauth2/v2.0/token", self.authority, self.tenant)
    }

    async fn obtain(&self, courier: &mut impl Courier) -> Result<Obtained, Fault> {
        const JWT: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        let (url, scope) = (self.token_url(), format!("{}/.default", self.resource));
        let mut fields = vec![
            ("grant_type", "client_credentials"),
            ("client_id", &*self.client_id),
            ("scope", &*scope),
        ];
        let assertion = match &self.proof {
            Proof::File(path) => courier.read_file(path).await?,
            Proof::Secret(secret) => secret.clone(),
            Proof::Certificate(certificate) => {
                let now = unix_time(courier.now()).as_secs();
                let signed = certificate.assertion(&self.client_id, &url, now);
                signed.map_err(|why| Fault::Local(why.to_owned()))?
            }
        };
        if let Proof::Secret(_) = &self.proof {
            fields.push(("client_secret", assertion.expose()));
        } else {
            fields.push(("client_assertion_type", JWT));
            fields.push(("client_assertion", assertion.expose()));
        }
        let answer = courier
            .send(Request::form(&*url, write_form(&fields)))
            .await?;
        let token = read_token(&answer)?;
        Ok(Obtained {
            credential: Credential::Token(token.access_token),
            identity: self.client_id.clone(),
            life: token.expires_in,
        })
    }
}

/// Returns the URL of a managed identity's service.
fn managed_url(url: &str, resource: &str, client_id: Option<&str>) -> String {
    let mut url = format!("{url}&resource={}", encode_value(resource));
    if let Some(client_id) = client_id {
        url.push_str("&client_id=");
        url.push_str(&encode_value(client_id));
    }
    url
}

/// Reads the token of a managed identity. Its end is absolute at some services.
fn read_managed(
    answer: &Answer,
    client_id: Option<&str>,
    now: SystemTime,
) -> Result<Obtained, Fault> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct More {
        client_id: Option<String>,
        expires_in: Count,
        expires_on: Count,
    }
    let token = read_token(answer)?;
    let more: More = serde_json::from_str(answer.body.expose()).unwrap_or_default();
    let end = more.expires_on.0.filter(|end| *end < 1 << 40);
    let life = match (more.expires_in.0, end) {
        (None, Some(end)) => {
            let end = SystemTime::UNIX_EPOCH + Duration::from_secs(end);
            time_left(end, answer.date, now)
        }
        (Some(_), _) | (None, None) => token.expires_in,
    };
    let name = client_id.map(str::to_owned).or(more.client_id);
    Ok(Obtained {
        credential: Credential::Token(token.access_token),
        identity: shorten_text(
            &name.unwrap_or_else(|| "the system-assigned identity".to_owned()),
            128,
        ),
        life,
    })
}

#[cfg(test)]
mod tests;
