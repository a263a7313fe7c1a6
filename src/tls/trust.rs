//! A [`Trust`] decides which certificates are believed when the gateway calls a server, and says
//! why one is not.
//!
//! The system's authorities are believed, and those that `tls.ca` names. If a named certificate is
//! not an authority's, it is a *pin*: exactly this certificate is believed, and with a pin the
//! system's authorities are not. A certificate that names a host and also says that it is an
//! authority's, as `openssl req -x509` makes them for servers, is a pin too; in addition, the
//! certificates that it has signed are believed. **Invariant:** name and dates are checked for
//! every certificate, a pinned one too, before the first byte of a request; nothing switches that
//! off.

use crate::base::calendar::format_system_time;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_parser::extensions::GeneralName;
use x509_parser::x509::X509Version;

/// A TLS client that speaks only with servers whose certificate is believed.
#[derive(Clone)]
pub struct Trust(TlsConnector);

/// The failure of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distrust {
    /// The reason, in words.
    pub why: String,
    /// True if nothing changes by itself: the reason is a certificate, or what the server speaks.
    pub lasts: bool,
}

impl Trust {
    /// Returns the trust in the system's authorities and in the certificates of `pem`. `alpn` lists
    /// the protocols to offer, the best first.
    pub fn new(pem: Option<&[u8]>, alpn: &[&[u8]]) -> Trust {
        let named: Vec<CertificateDer<'static>> = pem.map(parse_certificates).unwrap_or_default();
        let unknown_signer = named.iter().any(is_pin).then_some(NOT_PINNED);
        Trust::with_certificates(named, unknown_signer, alpn)
    }

    /// Returns the trust in the system's authorities where no setting can name another one.
    pub fn system_only(alpn: &[&[u8]]) -> Trust {
        Trust::with_certificates(Vec::new(), Some(UNKNOWN_TO_THE_SYSTEM), alpn)
    }

    fn with_certificates(
        named: Vec<CertificateDer<'static>>,
        unknown_signer: Option<UnknownSigner>,
        alpn: &[&[u8]],
    ) -> Trust {
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Verifier::new(named, unknown_signer, &provider));
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config
            .expect("ring speaks TLS 1.2 and 1.3")
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Trust(TlsConnector::from(Arc::new(config)))
    }

    /// Makes the TLS handshake with a server that should be `host`.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<TlsStream<S>, Distrust> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Distrust {
            why: "its name cannot stand in a certificate".to_owned(),
            lasts: true,
        })?;
        self.0
            .connect(name, stream)
            .await
            .map_err(|error| Distrust::from_io(&error))
    }
}

/// The cause of a failed handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The certificate is not valid at this time.
    Dates,
    /// The certificate has another fault.
    Certificate,
    /// The handshake failed before: the server does not speak TLS, or not to us.
    Handshake,
}

impl Doubt {
    /// Finds the cause from its reason in words.
    pub fn from_reason(why: &str) -> Doubt {
        match why.strip_prefix(OF_CERTIFICATE) {
            Some(rest) if rest.starts_with(EXPIRED) || rest.starts_with(TO_COME) => Doubt::Dates,
            Some(_) => Doubt::Certificate,
            None => Doubt::Handshake,
        }
    }
}

/// The beginnings of reasons, by which [`Doubt::from_reason`] knows them.
const OF_CERTIFICATE: &str = "the certificate ";
const EXPIRED: &str = "expired at ";
const TO_COME: &str = "is not valid before ";

/// Returns the certificates of a PEM file that can be read.
pub fn parse_certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    let readable = |der: &CertificateDer<'_>| x509_parser::parse_x509_certificate(der).is_ok();
    CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .filter(readable)
        .collect()
}

/// Returns whether a PEM file has a pin.
pub fn has_pin(pem: &[u8]) -> bool {
    parse_certificates(pem).iter().any(is_pin)
}

/// Returns the system's authorities. They are read once, since that takes some milliseconds, and
/// every account needs them.
fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // A root that cannot be read, or is missing, shows when a server has a certificate of it.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}

#[derive(Debug)]
struct Verifier {
    named: Vec<CertificateDer<'static>>,
    /// The message about a certificate of an unknown authority, if the usual words would not help.
    unknown_signer: Option<UnknownSigner>,
    /// `None` if no authority is believed.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(
        named: Vec<CertificateDer<'static>>,
        unknown_signer: Option<UnknownSigner>,
        provider: &Arc<CryptoProvider>,
    ) -> Verifier {
        let authorities: Vec<_> = named
            .iter()
            .filter(|der| is_authority(der))
            .cloned()
            .collect();
        let pins = named.iter().any(is_pin);
        let mut roots = if pins {
            RootCertStore::empty()
        } else {
            system_roots().clone()
        };
        roots.add_parsable_certificates(authorities);
        let authorities =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .ok();
        Verifier {
            named,
            unknown_signer,
            authorities,
            provider: provider.clone(),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.named.iter().any(|named| named == shown) {
            is_in_time(shown, now)?;
            verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let verified = match &self.authorities {
            Some(authorities) => authorities.verify_server_cert(shown, others, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        verified.map_err(|error| {
            let unknown = matches!(
                error,
                Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::Other(_)
                )
            );
            let signer = self.unknown_signer.filter(|_| unknown);
            signer.map_or(error, |signer| {
                CertificateError::Other(OtherError(Arc::new(signer))).into()
            })
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            cert,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            cert,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The error for a certificate of an unknown authority, in words.
#[derive(Debug, Clone, Copy)]
struct UnknownSigner(&'static str);

/// An operator who has pinned a certificate does not ask which authority is missing.
const NOT_PINNED: UnknownSigner =
    UnknownSigner("is not the one in `tls.ca`, and no authority in `tls.ca` has signed it");
const UNKNOWN_TO_THE_SYSTEM: UnknownSigner = UnknownSigner(
    "has an unknown issuer: no authority of the system has signed it. Add its authority to the system's, and start the \
     gateway again (UnknownIssuer)",
);

impl fmt::Display for UnknownSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for UnknownSigner {}

/// Returns whether a certificate may sign others: it says so, or it is a root of version 1, which
/// has no field for that.
fn is_authority(der: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(der) else {
        return false;
    };
    let is_old_root = certificate.version() == X509Version::V1
        && certificate.issuer().as_raw() == certificate.subject().as_raw();
    is_old_root
        || certificate
            .basic_constraints()
            .ok()
            .flatten()
            .is_some_and(|constraints| constraints.value.ca)
}

/// Returns whether a server can show the certificate as its own: it is not an authority's, or it
/// names a host. Only such a certificate can be a pin.
fn is_pin(der: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(der) else {
        return false;
    };
    let names = certificate.subject_alternative_name().ok().flatten();
    let names_host = names.is_some_and(|names| {
        let mut names = names.value.general_names.iter();
        names.any(|name| matches!(name, GeneralName::DNSName(_) | GeneralName::IPAddress(_)))
    });
    names_host || !is_authority(der)
}

fn is_in_time(der: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, certificate) =
        x509_parser::parse_x509_certificate(der).map_err(|_| CertificateError::BadEncoding)?;
    // No certificate was valid before 1970.
    let validity = certificate.validity();
    let (not_before, not_after) = (
        unix_time(validity.not_before),
        unix_time(validity.not_after),
    );
    if now < not_before {
        return Err(CertificateError::NotValidYetContext {
            time: now,
            not_before,
        }
        .into());
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext {
            time: now,
            not_after,
        }
        .into());
    }
    Ok(())
}

fn unix_time(time: x509_parser::time::ASN1Time) -> UnixTime {
    let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

impl Distrust {
    fn from_io(error: &io::Error) -> Distrust {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(error) => Distrust::from_tls(error),
            None if error.kind() == io::ErrorKind::UnexpectedEof => Distrust {
                why: "the server closed the connection during the TLS handshake: does it speak TLS, or plain http:?"
                    .to_owned(),
                lasts: false,
            },
            None => Distrust { why: error.to_string(), lasts: false },
        }
    }

    /// Returns the reason that rustls gives, with its own word for it.
    fn from_tls(error: &Error) -> Distrust {
        if let Error::InvalidCertificate(wrong) = error {
            return Distrust {
                why: certificate_fault(wrong),
                lasts: true,
            };
        }
        if matches!(error, Error::InvalidMessage(_)) {
            return Distrust {
                why: format!("the server does not speak TLS: is its address http:? ({error})"),
                lasts: true,
            };
        }
        if let Error::AlertReceived(alert) = error {
            return Distrust {
                why: format!("the server ended the TLS handshake: {alert:?}"),
                lasts: false,
            };
        }
        let lasts = matches!(
            error,
            Error::PeerIncompatible(_) | Error::NoCertificatesPresented
        );
        Distrust {
            why: error.to_string(),
            lasts,
        }
    }
}

/// Returns the words for what is wrong with a certificate.
fn certificate_fault(wrong: &CertificateError) -> String {
    if let CertificateError::ExpiredContext { not_after, .. } = wrong {
        return format!("{OF_CERTIFICATE}{EXPIRED}{}", date(not_after));
    }
    if let CertificateError::NotValidYetContext { not_before, .. } = wrong {
        return format!("{OF_CERTIFICATE}{TO_COME}{}", date(not_before));
    }
    if let CertificateError::NotValidForNameContext {
        expected,
        presented,
    } = wrong
    {
        let names = presented
            .iter()
            .map(|name| plain_name(name))
            .collect::<Vec<_>>()
            .join(", ");
        let names = if names.is_empty() {
            "names no host (in subjectAltName)".to_owned()
        } else {
            format!("is for {names}")
        };
        return format!(
            "the certificate is not valid for name {}: it {names}",
            expected.to_str()
        );
    }
    if *wrong == CertificateError::UnknownIssuer {
        return "the certificate has an unknown issuer: no authority of the system and none in `tls.ca` has signed it (UnknownIssuer)"
            .to_owned();
    }
    if *wrong == CertificateError::BadSignature {
        return "the certificate names a trusted authority, but was not signed with that authority's key (BadSignature)"
            .to_owned();
    }
    if let CertificateError::Other(OtherError(inner)) = wrong
        && inner.is::<UnknownSigner>()
    {
        return format!("the certificate {inner}");
    }
    let text = wrong.to_string();
    if text.contains("CaUsedAsEndEntity") {
        return "the certificate signs itself, and is not in `tls.ca`: if you trust it, write \
                exactly this certificate into `tls.ca` (CaUsedAsEndEntity)"
            .to_owned();
    }
    if text.contains("EndEntityUsedAsCa") {
        return "the certificate is signed by a certificate that is not a CA (EndEntityUsedAsCa)"
            .to_owned();
    }
    format!("the certificate is not valid: {text}")
}

fn date(time: &UnixTime) -> String {
    format_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs()))
}

/// Returns the name in a text that webpki writes, such as `DnsName("a.test")`.
fn plain_name(text: &str) -> &str {
    let inner = text
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .unwrap_or(text);
    inner.trim_matches('"')
}

#[cfg(test)]
mod tests;
