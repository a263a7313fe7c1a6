//! Where an account gets tokens of Google's from: a service account's key, the metadata service, or
//! an identity of another cloud; and whom it impersonates with them.
//!
//! Exactly one source is asked. The requests are those of Google's own libraries.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::aws::{self, AwsSource};
use super::courier::{
    Answer, Courier, Credential, Fault, Method, Obtained, Place, Request, encode_value,
    is_sendable, shorten_text, time_left, write_form,
};
use super::google::{SCOPE, ServiceAccount, read_token, refusal};
use super::sigv4::{Keys, Signer};
use crate::base::calendar::parse_unix_seconds;
use crate::base::secret::Secret;
use dialects::wire::json::Writer;

/// The address of the metadata service.
pub const METADATA: &str = "http://metadata.google.internal";
/// The address that tokens of other clouds are traded at, unless the file names another.
pub const TOKEN_URL: &str = "https://sts.googleapis.com/v1/token";
/// The address at which service accounts are impersonated.
pub const IMPERSONATION: &str = "https://iamcredentials.googleapis.com";
/// The type of content of requests in JSON.
const JSON: &str = "application/json";

/// How tokens of Google's are obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoogleSource {
    /// Where the first token comes from.
    pub from: From,
    /// The service account that is impersonated with it.
    pub impersonate: Option<Impersonate>,
}

/// Where the first token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// A service account's key.
    Key(ServiceAccount),
    /// The metadata service.
    Metadata {
        /// The address of the service.
        metadata: String,
    },
    /// An identity of another cloud.
    External(Box<ExternalAccount>),
}

/// A service account that is impersonated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonate {
    /// The service account's email.
    pub email: String,
    /// The whole URL of the request.
    pub url: String,
}

impl Impersonate {
    /// Makes the one for a service account, by its email.
    pub fn of_email(email: &str, service: &str) -> Impersonate {
        let path = "v1/projects/-/serviceAccounts";
        Impersonate {
            email: email.to_owned(),
            url: format!("{service}/{path}/{email}:generateAccessToken"),
        }
    }

    /// Makes the one that a file's URL names.
    fn of_url(url: String) -> Impersonate {
        let name = url.rsplit('/').next().unwrap_or_default();
        let email = name.split(':').next().unwrap_or_default();
        Impersonate {
            email: shorten_text(email, 256),
            url,
        }
    }
}

/// An identity of another cloud, as a file of the type `external_account` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Who trades the token.
    pub audience: String,
    /// The type of the other cloud's token.
    pub token_type: String,
    /// The address at which it is traded.
    pub token_url: String,
    /// Where the other cloud's token comes from.
    pub subject: Subject,
    /// The service account that the file says to impersonate.
    pub impersonate: Option<Impersonate>,
}

/// Where the other cloud's token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A file.
    File {
        /// Its full path.
        path: String,
        /// The field with the token, if the file is JSON.
        field: Option<String>,
    },
    /// An URL.
    Url {
        /// The URL.
        url: String,
        /// Headers for it. They may hold secrets.
        headers: Vec<(String, Secret)>,
        /// The field with the token, if the answer is JSON.
        field: Option<String>,
    },
    /// A signed request of AWS's.
    Aws {
        /// Where the keys come from.
        keys: Box<AwsSource>,
        /// The region, if the environment names one; else the metadata service tells it.
        region: Option<String>,
        /// The address of the metadata service.
        metadata: String,
        /// The URL of the request that is signed, with `{region}`.
        verification_url: String,
    },
}

#[derive(Deserialize)]
struct ExternalFile {
    #[serde(rename = "type")]
    kind: Option<String>,
    audience: Option<String>,
    subject_token_type: Option<String>,
    token_url: Option<String>,
    service_account_impersonation_url: Option<String>,
    credential_source: Option<SourceFile>,
}

#[derive(Deserialize)]
struct SourceFile {
    file: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Secret>,
    format: Option<Format>,
    environment_id: Option<String>,
    regional_cred_verification_url: Option<String>,
    executable: Option<serde::de::IgnoredAny>,
    certificate: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: Option<String>,
    subject_token_field_name: Option<String>,
}

/// What the environment says of AWS.
#[derive(Debug, Clone, Default)]
pub struct AwsEnvironment {
    /// The keys.
    pub keys: Option<Keys>,
    /// The region.
    pub region: Option<String>,
}

impl ExternalAccount {
    /// Reads a file. An error is the rest of a sentence about the file.
    pub fn parse(json: &str, environment: AwsEnvironment) -> Result<Self, &'static str> {
        let file: ExternalFile =
            serde_json::from_str(json).map_err(|_| "is not the JSON of an external account")?;
        if file.kind.as_deref() != Some("external_account") {
            return Err("is of another type: its `type` must be `external_account`");
        }
        let source = file.credential_source.ok_or("has no `credential_source`")?;
        Ok(Self {
            audience: file.audience.ok_or("has no `audience`")?,
            token_type: file
                .subject_token_type
                .ok_or("has no `subject_token_type`")?,
            token_url: file.token_url.unwrap_or_else(|| TOKEN_URL.to_owned()),
            subject: source.subject(environment)?,
            impersonate: file
                .service_account_impersonation_url
                .map(Impersonate::of_url),
        })
    }

    /// Returns the URLs that the file names, with whether they may be nearby.
    pub fn urls(&self) -> Vec<(&str, bool)> {
        let mut urls = vec![(&*self.token_url, false)];
        urls.extend(self.impersonate.iter().map(|one| (&*one.url, false)));
        if let Subject::Url { url, .. } = &self.subject {
            urls.push((url, true));
        }
        urls
    }

    async fn obtain(&self, courier: &mut impl Courier) -> Result<Obtained, Fault> {
        let subject = self.subject.token(&self.audience, courier).await?;
        let body = write_form(&[
            (
                "grant_type",
                "urn:ietf:params:oauth:grant-type:token-exchange",
            ),
            ("audience", &self.audience),
            ("scope", SCOPE),
            (
                "requested_token_type",
                "urn:ietf:params:oauth:token-type:access_token",
            ),
            ("subject_token", subject.expose()),
            ("subject_token_type", &self.token_type),
        ]);
        let answer = courier.send(Request::form(&*self.token_url, body)).await?;
        let token = read_token(&answer)?;
        Ok(Obtained {
            credential: Credential::Token(token.access_token),
            identity: self.audience.trim_start_matches('/').to_owned(),
            life: token.expires_in,
        })
    }
}

impl SourceFile {
    fn subject(self, environment: AwsEnvironment) -> Result<Subject, &'static str> {
        if self.executable.is_some() {
            return Err(
                "runs a program (`credential_source.executable`), which Portcullis never does: use a file or a URL",
            );
        }
        if self.certificate.is_some() {
            return Err(
                "proves itself by a certificate (`credential_source.certificate`), which is not supported: use a file or a URL",
            );
        }
        let field = match self.format {
            Some(format) if format.kind.as_deref() == Some("json") => Some(
                format
                    .subject_token_field_name
                    .ok_or("has a `format` of JSON without `subject_token_field_name`")?,
            ),
            Some(_) | None => None,
        };
        match (self.environment_id.as_deref(), self.file, self.url) {
            (Some("aws1"), ..) => Ok(Subject::Aws {
                keys: Box::new(AwsSource {
                    from: match environment.keys {
                        Some(keys) => aws::From::Static(keys),
                        None => aws::From::Instance {
                            metadata: aws::METADATA.to_owned(),
                        },
                    },
                    assume: None,
                }),
                region: environment.region,
                metadata: aws::METADATA.to_owned(),
                verification_url: self
                    .regional_cred_verification_url
                    .ok_or("has no `regional_cred_verification_url`")?,
            }),
            (Some(_), ..) => Err("has an `environment_id` that is not known: only `aws1` is"),
            (None, Some(path), None) if path.starts_with('/') => Ok(Subject::File { path, field }),
            (None, Some(_), None) => {
                Err("names a file without its full path: begin `credential_source.file` with /")
            }
            (None, None, Some(url)) => Ok(Subject::Url {
                url,
                headers: read_headers(self.headers)?,
                field,
            }),
            (None, ..) => {
                Err("has no `credential_source` with one of `file`, `url` and `environment_id`")
            }
        }
    }
}

/// Checks the headers of a file, and returns them with names in lower case.
fn read_headers(headers: BTreeMap<String, Secret>) -> Result<Vec<(String, Secret)>, &'static str> {
    let headers = headers.into_iter().map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let is_good = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
            && http::HeaderValue::from_str(value.expose()).is_ok();
        is_good.then_some((name, value))
    });
    let read: Option<_> = headers.collect();
    read.ok_or("has `headers` that cannot be sent")
}

impl Subject {
    /// Returns the token of the other cloud.
    async fn token(&self, audience: &str, courier: &mut impl Courier) -> Result<Secret, Fault> {
        let (text, field) = match self {
            Subject::File { path, field } => (courier.read_file(path).await?, field),
            Subject::Url {
                url,
                headers,
                field,
            } => {
                let mut request = Request::nearby(Method::Get, &**url);
                if url.starts_with("https:") {
                    request.place = Place::Outside;
                }
                let headers = headers.iter().cloned();
                let headers = headers.map(|(name, value)| (Cow::Owned(name), value));
                request.headers.extend(headers);
                let answer = courier.send(request).await?;
                let text = answer.good().ok_or_else(|| refusal(&answer))?;
                (Secret::new(text.trim()), field)
            }
            Subject::Aws {
                keys,
                region,
                metadata,
                verification_url,
            } => {
                let region = match region {
                    Some(region) => region.clone(),
                    None => aws::ask_region(metadata, courier).await?,
                };
                let obtained = Box::pin(keys.obtain(courier)).await?;
                let Credential::Aws(keys) = &obtained.credential else {
                    return Err(Fault::Local("there are no keys of AWS".to_owned()));
                };
                let url = verification_url.replace("{region}", &region);
                return sign_subject(&url, &region, keys, audience, courier.now());
            }
        };
        let Some(field) = field else {
            return Ok(text);
        };
        let json: serde_json::Value = serde_json::from_str(text.expose()).unwrap_or_default();
        let found = json.get(field).and_then(serde_json::Value::as_str);
        let missing = || Fault::Nonsense(format!("the other cloud's answer has no field {field}"));
        found.map(Secret::new).ok_or_else(missing)
    }
}

/// Writes a signed request of AWS's, which Google sends itself to see who we are.
fn sign_subject(
    url: &str,
    region: &str,
    keys: &Keys,
    audience: &str,
    now: SystemTime,
) -> Result<Secret, Fault> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/{path}"),
    };
    let target = ("x-goog-cloud-target-resource", audience);
    let signed = Signer::for_keys(region, keys)
        .token_service_headers(host, &path, &[target], b"", now)
        .map_err(|_| Fault::Local("the keys of AWS cannot sign".to_owned()))?;
    let mut request = Writer::default();
    request.object(|w| {
        w.key("url").text(url);
        w.key("method").text("POST");
        w.key("headers").array(|w| {
            let own = [("host", host), target].into_iter();
            let signed = signed.iter().map(|(name, value)| (*name, value.expose()));
            for (name, value) in own.chain(signed) {
                w.object(|w| {
                    w.key("key").text(name);
                    w.key("value").text(value);
                });
            }
        });
    });
    let text = String::from_utf8(request.into_bytes()).unwrap_or_default();
    Ok(Secret::new(encode_value(&text)))
}

impl GoogleSource {
    /// Obtains a token.
    pub async fn obtain(&self, courier: &mut impl Courier) -> Result<Obtained, Fault> {
        let mut obtained = match &self.from {
            From::Key(account) => account.obtain(courier).await?,
            From::Metadata { metadata } => ask_metadata(metadata, courier).await?,
            From::External(external) => external.obtain(courier).await?,
        };
        let of_file = match &self.from {
            From::External(external) => external.impersonate.as_ref(),
            From::Key(_) | From::Metadata { .. } => None,
        };
        for one in of_file.into_iter().chain(&self.impersonate) {
            obtained = impersonate(one, &obtained.credential, courier).await?;
        }
        Ok(obtained)
    }

    /// Returns the file that the source reads each time.
    pub fn file(&self) -> Option<&str> {
        match &self.from {
            From::External(external) => match &external.subject {
                Subject::File { path, .. } => Some(path),
                Subject::Url { .. } | Subject::Aws { .. } => None,
            },
            From::Key(_) | From::Metadata { .. } => None,
        }
    }

    /// Returns all settings as texts, so that two sources can be compared by a hash.
    pub fn parts(&self) -> Vec<&str> {
        let mut parts = match &self.from {
            From::Key(account) => vec![account.key.expose(), &*account.token_uri],
            From::Metadata { metadata } => vec!["metadata", metadata],
            From::External(external) => external.parts(),
        };
        parts.extend(self.impersonate.iter().map(|one| &*one.url));
        parts
    }

    /// Returns what no text may show. A private key is not listed: it is lines of PEM, and whatever
    /// looks like one is taken out anyway.
    pub fn secrets(&self) -> Vec<&str> {
        match &self.from {
            From::External(external) => match &external.subject {
                Subject::Url { headers, .. } => {
                    headers.iter().map(|(_, value)| value.expose()).collect()
                }
                Subject::Aws { keys, .. } => keys.secrets(),
                Subject::File { .. } => Vec::new(),
            },
            From::Key(_) | From::Metadata { .. } => Vec::new(),
        }
    }
}

impl ExternalAccount {
    fn parts(&self) -> Vec<&str> {
        let mut parts = vec![
            "external",
            &*self.audience,
            &self.token_type,
            &self.token_url,
        ];
        parts.extend(self.impersonate.iter().map(|one| &*one.url));
        match &self.subject {
            Subject::File { path, field } => {
                parts.extend(["file", path, field.as_deref().unwrap_or_default()]);
            }
            Subject::Url {
                url,
                headers,
                field,
            } => {
                parts.extend(["url", url, field.as_deref().unwrap_or_default()]);
                let headers = headers.iter();
                parts.extend(headers.flat_map(|(name, value)| [&**name, value.expose()]));
            }
            Subject::Aws {
                keys,
                region,
                metadata,
                verification_url,
            } => {
                parts.extend(keys.parts());
                parts.extend([
                    region.as_deref().unwrap_or_default(),
                    metadata,
                    verification_url,
                ]);
            }
        }
        parts
    }
}

/// Asks the metadata service for the token of the default service account.
async fn ask_metadata(metadata: &str, courier: &mut impl Courier) -> Result<Obtained, Fault> {
    let account = format!("{metadata}/computeMetadata/v1/instance/service-accounts/default");
    let ask = |path: &str| flavored(format!("{account}/{path}"));
    let answer = courier.send(ask("email")).await?;
    if answer.status == 404 {
        let message = "the metadata service knows no service account: attach one to the machine, or bind one to the pod";
        return Err(Fault::Local(message.to_owned()));
    }
    let email = answer.good().ok_or_else(|| refusal(&answer))?.trim();
    let email = shorten_text(email, 256);
    let answer = courier.send(ask("token")).await?;
    let token = read_token(&answer)?;
    Ok(Obtained {
        credential: Credential::Token(token.access_token),
        identity: email,
        life: token.expires_in,
    })
}

/// Returns a request that the metadata service knows as one of ours.
fn flavored(url: String) -> Request {
    Request::nearby(Method::Get, url).with("metadata-flavor", "Google")
}

/// Trades a token for one of another service account.
async fn impersonate(
    one: &Impersonate,
    credential: &Credential,
    courier: &mut impl Courier,
) -> Result<Obtained, Fault> {
    let mut body = Writer::default();
    body.object(|w| {
        w.key("delegates").array(|_| ());
        w.key("scope").array(|w| {
            w.text(SCOPE);
        });
        w.key("lifetime").text("3600s");
    });
    let body = String::from_utf8(body.into_bytes()).unwrap_or_default();
    let mut request = Request::form(&*one.url, Secret::new(body));
    request.content_type = JSON;
    if let Credential::Token(token) = credential {
        request = request.with("authorization", format!("Bearer {}", token.expose()));
    }
    let answer = courier.send(request).await?;
    read_impersonated(&answer, &one.email, courier.now())
}

fn read_impersonated(answer: &Answer, email: &str, now: SystemTime) -> Result<Obtained, Fault> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Granted {
        access_token: Option<String>,
        expire_time: Option<String>,
    }
    let body = answer.good().ok_or_else(|| refusal(answer))?;
    let granted: Granted = serde_json::from_str(body).unwrap_or_default();
    let missing = || Fault::Nonsense("the answer to the impersonation holds no token".to_owned());
    let token = granted
        .access_token
        .filter(|token| is_sendable(token))
        .ok_or_else(missing)?;
    let end = granted.expire_time.as_deref().and_then(parse_unix_seconds);
    let life = end.map_or(Duration::from_secs(600), |seconds| {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        time_left(end, answer.date, now)
    });
    Ok(Obtained {
        credential: Credential::Token(Secret::new(token)),
        identity: email.to_owned(),
        life,
    })
}

#[cfg(test)]
mod tests;
