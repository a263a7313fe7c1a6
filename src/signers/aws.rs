//! Where an account gets keys of AWS from: a web identity, a container's or a machine's service,
//! and a role that is taken on with them.
//!
//! Exactly one source is asked. If it fails, that is the answer: no other source is tried. The
//! requests are those of AWS's own libraries.

use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::courier::{
    Answer, Courier, Credential, FORM, Fault, MAX_LIFE, Method, Obtained, Request, encode_value,
    is_sendable, meant_status, shorten_text, time_left, write_form,
};
use super::sigv4::{Keys, Signer};
use crate::base::calendar::parse_unix_seconds;
use crate::base::secret::Secret;
use dialects::UpstreamError;

/// The address of a machine's metadata service.
pub const METADATA: &str = "http://169.254.169.254";
/// The address of a container's service, for relative URIs.
pub const CONTAINER: &str = "http://169.254.170.2";
/// The name of a session, unless the catalog or the environment names another.
pub const SESSION: &str = "portcullis";

/// What is probably wrong if the metadata service does not answer.
const HOP_HINT: &str = "in a container, the metadata service answers only if the machine's hop limit is 2 or more \
                        (`aws ec2 modify-instance-metadata-options --http-put-response-hop-limit 2`)";
/// The lifetime of a token of the metadata service, in seconds, as AWS's libraries ask for it.
const TOKEN_LIFE: &str = "21600";
/// The metadata service, in messages.
const SERVICE: &str = "the metadata service";
/// The header with the token of a session.
const METADATA_TOKEN: &str = "x-aws-ec2-metadata-token";
/// The lifetime of keys if the answer has no end that can be read.
const DEFAULT_LIFE: Duration = Duration::from_secs(900);

/// How keys of AWS are obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsSource {
    /// The first keys.
    pub from: From,
    /// The role that is taken on with the first keys.
    pub assume: Option<Assume>,
}

/// Where the first keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// They are written.
    Static(Keys),
    /// A token in a file is traded for keys of a role.
    WebIdentity(WebIdentity),
    /// The service of a container: ECS, or EKS Pod Identity.
    Container {
        /// The whole URL.
        url: String,
        /// The token that the service wants.
        token: Option<ContainerToken>,
    },
    /// The metadata service of a machine.
    Instance {
        /// The address of the service.
        metadata: String,
    },
}

/// The settings of a web identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebIdentity {
    /// The role's ARN.
    pub role: String,
    /// The path of the file with the token.
    pub token_file: String,
    /// The session's name.
    pub session: String,
    /// The address of the token service.
    pub sts: String,
}

/// The token for a container's service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerToken {
    /// The token itself.
    Text(Secret),
    /// The path of the file that holds it. It changes, so it is read each time.
    File(String),
}

/// A role that is taken on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assume {
    /// The role's ARN.
    pub role: String,
    /// What the role's owner agreed upon with us.
    pub external_id: Option<String>,
    /// The session's name.
    pub session: String,
    /// The region for which requests to the token service are signed.
    pub region: String,
    /// The address of the token service.
    pub sts: String,
}

impl AwsSource {
    /// Obtains keys.
    pub async fn obtain(&self, courier: &mut impl Courier) -> Result<Obtained, Fault> {
        let first = match &self.from {
            From::Static(keys) => Obtained {
                credential: Credential::Aws(keys.clone()),
                identity: String::new(),
                life: MAX_LIFE,
            },
            From::WebIdentity(web) => trade_token(web, courier).await?,
            From::Container { url, token } => ask_container(url, token.as_ref(), courier).await?,
            From::Instance { metadata } => ask_instance(metadata, courier).await?,
        };
        match (&self.assume, &first.credential) {
            (Some(assume), Credential::Aws(keys)) => assume_role(assume, keys, courier).await,
            (None, _) | (Some(_), Credential::Token(_)) => Ok(first),
        }
    }

    /// Returns the file that the source reads each time.
    pub fn file(&self) -> Option<&str> {
        match &self.from {
            From::WebIdentity(web) => Some(&web.token_file),
            From::Container {
                token: Some(ContainerToken::File(path)),
                ..
            } => Some(path),
            From::Static(_) | From::Container { .. } | From::Instance { .. } => None,
        }
    }

    /// Returns all settings as texts, so that two sources can be compared by a hash.
    pub fn parts(&self) -> Vec<&str> {
        let mut parts = match &self.from {
            From::Static(keys) => keys.secrets().chain(["static"]).collect(),
            From::WebIdentity(web) => {
                vec!["web", &web.role, &web.token_file, &web.session, &web.sts]
            }
            From::Container { url, token } => match token {
                None => vec!["container", url],
                Some(ContainerToken::Text(token)) => vec!["container", url, token.expose()],
                Some(ContainerToken::File(path)) => vec!["container", url, "file", path],
            },
            From::Instance { metadata } => vec!["instance", metadata],
        };
        if let Some(assume) = &self.assume {
            let external_id = assume.external_id.as_deref().unwrap_or_default();
            parts.extend(["assume", &assume.role, external_id, &assume.session]);
            parts.extend([&*assume.region, &assume.sts]);
        }
        parts
    }

    /// Returns what no text may show.
    pub fn secrets(&self) -> Vec<&str> {
        match &self.from {
            From::Static(keys) => keys.secrets().collect(),
            From::Container {
                token: Some(ContainerToken::Text(token)),
                ..
            } => vec![token.expose()],
            From::WebIdentity(_) | From::Container { .. } | From::Instance { .. } => Vec::new(),
        }
    }
}

/// Returns the address of a region's token service.
pub fn token_service(region: &str) -> String {
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://sts.{region}.amazonaws.com{suffix}")
}

/// Trades the token of a file for keys of a role.
async fn trade_token(web: &WebIdentity, courier: &mut impl Courier) -> Result<Obtained, Fault> {
    let token = courier.read_file(&web.token_file).await?;
    let body = write_form(&[
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", &web.role),
        ("RoleSessionName", &web.session),
        ("WebIdentityToken", token.expose()),
    ]);
    let request = Request::form(format!("{}/", web.sts), body);
    let answer = courier.send(request).await?;
    read_token_service(&answer, courier.now())
}

/// Takes a role on.
async fn assume_role(
    assume: &Assume,
    keys: &Keys,
    courier: &mut impl Courier,
) -> Result<Obtained, Fault> {
    let mut fields = vec![
        ("Action", "AssumeRole"),
        ("Version", "2011-06-15"),
        ("RoleArn", &*assume.role),
        ("RoleSessionName", &*assume.session),
    ];
    fields.extend(assume.external_id.as_deref().map(|id| ("ExternalId", id)));
    let body = write_form(&fields);
    let mut request = Request::form(format!("{}/", assume.sts), Secret::new(body.expose()));
    let signed = Signer::for_keys(&*assume.region, keys).token_service_headers(
        url_authority(&assume.sts),
        "/",
        &[("content-type", FORM)],
        body.expose().as_bytes(),
        courier.now(),
    );
    let unsignable = |_| Fault::Local("the session token cannot be signed".to_owned());
    let signed = signed.map_err(unsignable)?.into_iter();
    request.headers = signed.map(|(name, value)| (name.into(), value)).collect();
    let answer = courier.send(request).await?;
    read_token_service(&answer, courier.now())
}

/// Returns the host and the port of a URL.
fn url_authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// Asks the service of a container.
async fn ask_container(
    url: &str,
    token: Option<&ContainerToken>,
    courier: &mut impl Courier,
) -> Result<Obtained, Fault> {
    let mut request = Request::nearby(Method::Get, url);
    let token = match token {
        None => None,
        Some(ContainerToken::Text(token)) => Some(token.clone()),
        Some(ContainerToken::File(path)) => Some(courier.read_file(path).await?),
    };
    request
        .headers
        .extend(token.map(|token| ("authorization".into(), token)));
    let answer = courier.send(request).await?;
    read_json_keys(&answer, courier.now(), "the container's service", "")
}

/// Asks the metadata service of a machine, by version 2 of its protocol.
async fn ask_instance(metadata: &str, courier: &mut impl Courier) -> Result<Obtained, Fault> {
    let token = metadata_token(metadata, courier).await?;
    let folder = format!("{metadata}/latest/meta-data/iam/security-credentials/");
    let ask = Request::nearby(Method::Get, &*folder).with(METADATA_TOKEN, &*token);
    let answer = courier.send(ask).await?;
    if answer.status == 404 {
        let message = "the metadata service knows no role: the machine has no instance profile";
        return Err(Fault::Local(message.to_owned()));
    }
    let roles = answer.good().ok_or_else(|| refusal(&answer, SERVICE))?;
    let role = roles.lines().next().unwrap_or_default().trim().to_owned();
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"+=,.@_-".contains(&b);
    if role.is_empty() || !role.bytes().all(is_name) {
        let message = "the metadata service names no role that can be one";
        return Err(Fault::Nonsense(message.to_owned()));
    }
    let ask = Request::nearby(Method::Get, format!("{folder}{}", encode_value(&role)));
    let answer = courier.send(ask.with(METADATA_TOKEN, token)).await?;
    read_json_keys(&answer, courier.now(), SERVICE, &format!("role {role}"))
}

/// Asks the metadata service for the machine's region.
pub async fn ask_region(metadata: &str, courier: &mut impl Courier) -> Result<String, Fault> {
    let token = metadata_token(metadata, courier).await?;
    let url = format!("{metadata}/latest/meta-data/placement/availability-zone");
    let ask = Request::nearby(Method::Get, url).with(METADATA_TOKEN, token);
    let answer = courier.send(ask).await?;
    let zone = answer
        .good()
        .ok_or_else(|| refusal(&answer, SERVICE))?
        .trim();
    let region = zone.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let is_region = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    if region.is_empty() || !region.bytes().all(is_region) {
        let message = "the metadata service names no region that can be one";
        return Err(Fault::Nonsense(message.to_owned()));
    }
    Ok(region.to_owned())
}

/// Asks the metadata service for the token of a session.
async fn metadata_token(metadata: &str, courier: &mut impl Courier) -> Result<String, Fault> {
    let ask = Request::nearby(Method::Put, format!("{metadata}/latest/api/token"))
        .with("x-aws-ec2-metadata-token-ttl-seconds", TOKEN_LIFE);
    let answer = courier.send(ask).await.map_err(|fault| match fault {
        Fault::Unanswered(_) => Fault::Unanswered(Some(HOP_HINT)),
        other @ (Fault::Local(_) | Fault::Refused(_) | Fault::Nonsense(_)) => other,
    })?;
    let token = answer.good().ok_or_else(|| refusal(&answer, SERVICE))?;
    Ok(token.trim().to_owned())
}

/// The keys that services of containers and machines give.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct JsonKeys {
    code: Option<String>,
    message: Option<String>,
    role_arn: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    token: Option<String>,
    expiration: Option<String>,
}

/// Reads keys in JSON. `identity` is their owner, if the answer names none.
fn read_json_keys(
    answer: &Answer,
    now: SystemTime,
    service: &str,
    identity: &str,
) -> Result<Obtained, Fault> {
    let body = answer.good().ok_or_else(|| refusal(answer, service))?;
    let read: JsonKeys = serde_json::from_str(body).unwrap_or_default();
    // Both services may say in an answer of status 200 that there are no keys.
    if let Some(code) = read.code.as_deref().filter(|code| *code != "Success") {
        return Err(refused(401, code, read.message.as_deref().unwrap_or(code)));
    }
    let no_keys = || Fault::Nonsense(format!("the answer of {service} holds no keys"));
    let keys = make_keys(read.access_key_id, read.secret_access_key, read.token);
    Ok(Obtained {
        credential: Credential::Aws(keys.ok_or_else(no_keys)?),
        identity: shorten_text(&read.role_arn.unwrap_or_else(|| identity.to_owned()), 256),
        life: life_until(read.expiration.as_deref(), answer.date, now),
    })
}

/// Reads the answer of the token service, which is XML of a fixed form.
fn read_token_service(answer: &Answer, now: SystemTime) -> Result<Obtained, Fault> {
    let Some(body) = answer.good() else {
        return Err(refusal(answer, "the token service"));
    };
    let text = |name| xml_text(body, name);
    let keys = make_keys(
        text("AccessKeyId"),
        text("SecretAccessKey"),
        text("SessionToken"),
    );
    let no_keys = || Fault::Nonsense("the answer of the token service holds no keys".to_owned());
    Ok(Obtained {
        credential: Credential::Aws(keys.ok_or_else(no_keys)?),
        identity: shorten_text(&text("Arn").unwrap_or_default(), 256),
        life: life_until(text("Expiration").as_deref(), answer.date, now),
    })
}

/// Makes keys of texts that headers can carry.
fn make_keys(id: Option<String>, secret: Option<String>, token: Option<String>) -> Option<Keys> {
    let token = token.filter(|token| !token.is_empty());
    if token.as_ref().is_some_and(|token| !is_sendable(token)) {
        return None;
    }
    Some(Keys {
        access_key_id: Secret::new(id.filter(|id| is_sendable(id))?),
        secret_access_key: Secret::new(secret.filter(|secret| is_sendable(secret))?),
        session_token: token.map(Secret::new),
    })
}

fn life_until(end: Option<&str>, date: Option<SystemTime>, now: SystemTime) -> Duration {
    let end = end.and_then(parse_unix_seconds);
    end.map_or(DEFAULT_LIFE, |seconds| {
        time_left(
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            date,
            now,
        )
    })
}

/// Returns the text of the first element with a name. Elements with attributes are not found: the
/// token service writes none.
fn xml_text(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
    ];
    let mut text = text.trim().to_owned();
    for (entity, character) in plain {
        text = text.replace(entity, character);
    }
    Some(text.replace("&amp;", "&"))
}

/// Reads an error: XML of the token service, or JSON of the others.
fn refusal(answer: &Answer, service: &str) -> Fault {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Error {
        code: Option<String>,
        message: Option<String>,
    }
    let body = answer.body.expose();
    let json: Error = serde_json::from_str(body).unwrap_or_default();
    let code = xml_text(body, "Code").or(json.code).unwrap_or_default();
    let message = xml_text(body, "Message").or(json.message);
    let status = answer.status;
    let message = message.unwrap_or_else(|| format!("{service} answered with the status {status}"));
    let meant = match &*code {
        "Throttling" | "ThrottlingException" | "RequestLimitExceeded" => 429,
        "IDPCommunicationError" | "InternalFailure" | "ServiceUnavailable" => 503,
        _ => meant_status(status),
    };
    refused(meant, &code, &message)
}

fn refused(status: u16, code: &str, message: &str) -> Fault {
    Fault::Refused(Box::new(UpstreamError {
        status: Some(status),
        code: Some(shorten_text(code, 128)).filter(|code| !code.is_empty()),
        message: shorten_text(message, 1024),
        ..UpstreamError::default()
    }))
}

#[cfg(test)]
mod tests;
