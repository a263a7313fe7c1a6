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
            [("host", host)].into_iter(),
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
