//! Amazon's Signature Version 4, for accounts whose credential is an access key.
//!
//! The signature covers the method, the path exactly as it is sent, the `host` header, the time and
//! the body's hash: none of these may change after signing. For the signature the path is encoded
//! once more (`%3A` is signed as `%253A`), as everywhere at Amazon except S3.

use std::fmt;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;

use crate::base::secret::Secret;

/// A key of AWS, static or temporary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The access key's id.
    pub access_key_id: Secret,
    /// The access key.
    pub secret_access_key: Secret,
    /// The token of a temporary key.
    pub session_token: Option<Secret>,
}

impl Keys {
    /// Returns what no text may show.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let fixed = [&self.access_key_id, &self.secret_access_key];
        fixed
            .into_iter()
            .chain(&self.session_token)
            .map(Secret::expose)
    }
}

/// An access key that signs requests for one region.
pub struct Signer {
    credentials: Credentials,
    region: String,
}

/// The error for a request that cannot be signed: its URI or the session token has characters that
/// are not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsignable;

/// The service's name in signatures.
const SERVICE: &str = "bedrock";

/// A request before it is signed. Amazon's test suite signs for another service, and by other
/// methods, so both are fields here.
struct Unsigned<'r> {
    service: &'r str,
    method: &'r str,
    host: &'r str,
    path: &'r str,
    /// Headers besides `host` that are signed, too.
    headers: &'r [(&'r str, &'r str)],
    body: &'r [u8],
}

impl Signer {
    /// Makes a signer from a static key, or from a temporary key with its session token.
    pub fn new(
        region: impl Into<String>,
        access_key_id: &str,
        secret: &Secret,
        session_token: Option<&Secret>,
    ) -> Self {
        let token = session_token.map(|token| token.expose().to_owned());
        Self {
            credentials: Credentials::new(access_key_id, secret.expose(), token, None, "catalog"),
            region: region.into(),
        }
    }

    /// Makes the signer of a key for a region.
    pub fn for_keys(region: impl Into<String>, keys: &Keys) -> Self {
        let Keys {
            access_key_id,
            secret_access_key,
            session_token,
        } = keys;
        let (id, token) = (access_key_id.expose(), session_token.as_ref());
        Self::new(region, id, secret_access_key, token)
    }

    /// Returns the region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the headers to add to a POST. `host` is the header as it will be sent; `path` begins
    /// with the first slash.
    pub fn headers(
        &self,
        host: &str,
        path: &str,
        body: &[u8],
        now: SystemTime,
    ) -> Result<Headers, Unsignable> {
        self.sign(
            &Unsigned {
                service: SERVICE,
                method: "POST",
                host,
                path,
                headers: &[],
                body,
            },
            now,
        )
    }

    /// Returns the headers to add to a POST to the token service (`sts`). `headers` are signed,
    /// too.
    pub fn token_service_headers(
        &self,
        host: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        now: SystemTime,
    ) -> Result<Headers, Unsignable> {
        self.sign(
            &Unsigned {
                service: "sts",
                method: "POST",
                host,
                path,
                headers,
                body,
            },
            now,
        )
    }

    fn sign(&self, request: &Unsigned<'_>, now: SystemTime) -> Result<Headers, Unsignable> {
        let Unsigned {
            service,
            method,
            host,
            path,
            headers: signed_headers,
            body,
        } = *request;
        let identity = self.credentials.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|_| Unsignable)?
            .into();
        let uri = format!("https://{host}{path}");
        let request = SignableRequest::new(
            method,
            uri,
            std::iter::once(("host", host)).chain(signed_headers.iter().copied()),
            SignableBody::Bytes(body),
        )
        .map_err(|_| Unsignable)?;
        let (instructions, _signature) =
            sign(request, &params).map_err(|_| Unsignable)?.into_parts();
        let (headers, _query) = instructions.into_parts();
        Ok(headers
            .iter()
            .map(|header| (header.name(), Secret::new(header.value())))
            .collect())
    }
}

/// The names of headers, in lower case, and their values.
pub type Headers = Vec<(&'static str, Secret)>;

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
