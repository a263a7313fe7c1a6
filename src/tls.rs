//! A [`Certificate`] is what a TLS listener shows to callers. [`trust`] decides which certificates
//! of other servers are believed.
//!
//! On SIGHUP the certificate and its key are read again. If the new ones cannot be used, the old
//! ones stay.
//!
//! A pipe in the place of either is not read, since that may wait for ever. At the start such a
//! certificate is awaited: until it is a file, its listener shows none.

pub mod trust;

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use x509_parser::extensions::GeneralName;
use zeroize::Zeroizing;

/// The certificate of a listener: the paths of its two files, and what was read from them last.
#[derive(Debug)]
pub struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    /// The error says why there is none yet.
    present: ArcSwap<Result<Arc<CertifiedKey>, String>>,
}

impl Certificate {
    /// Reads the certificate and its key.
    pub fn read(cert: &Path, key: &Path) -> Result<Certificate, String> {
        pingora::tls::install_default_crypto_provider();
        Ok(Certificate::new(
            cert,
            key,
            Ok(read_certified_key(cert, key)?),
        ))
    }

    /// Reads the certificate and its key. If either is a pipe, the certificate is awaited.
    pub fn read_or_await(cert: &Path, key: &Path) -> Result<Certificate, String> {
        Certificate::read(cert, key).or_else(|why| {
            if is_pipe(cert) || is_pipe(key) {
                Ok(Certificate::new(cert, key, Err(why)))
            } else {
                Err(why)
            }
        })
    }

    fn new(cert: &Path, key: &Path, present: Result<Arc<CertifiedKey>, String>) -> Certificate {
        Certificate {
            cert: cert.to_owned(),
            key: key.to_owned(),
            present: ArcSwap::from_pointee(present),
        }
    }

    /// Returns why there is no certificate yet, if there is none.
    pub fn awaited(&self) -> Option<String> {
        self.present.load().as_ref().as_ref().err().cloned()
    }

    /// Reads an awaited certificate again. Returns what is new: it is there, or cannot be used for
    /// another reason than before.
    pub fn catch_up(&self) -> Option<Result<(), String>> {
        let before = self.awaited()?;
        let now = read_certified_key(&self.cert, &self.key);
        let news = now.as_ref().map(|_| ()).map_err(Clone::clone);
        self.present.store(Arc::new(now));
        Some(news).filter(|news| news.as_ref().err() != Some(&before))
    }

    /// Returns the time at which the certificate ends, in seconds of Unix time.
    pub fn ends(&self) -> Option<i64> {
        let present = self.present.load();
        let present = present.as_ref().as_ref().ok()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(present.cert.first()?).ok()?;
        Some(certificate.validity().not_after.timestamp())
    }

    /// Returns when each certificate of the chain is valid, the listener's own first. Those that
    /// cannot be read are left out.
    pub fn terms(&self) -> Vec<CertificateTerm> {
        let present = self.present.load();
        present
            .as_ref()
            .iter()
            .flat_map(|present| &present.cert)
            .filter_map(|der| CertificateTerm::parse(der))
            .collect()
    }

    /// Reads the certificate and its key again.
    pub fn reload(&self) -> Result<(), String> {
        self.present
            .store(Arc::new(Ok(read_certified_key(&self.cert, &self.key)?)));
        Ok(())
    }
}

/// When a certificate is valid, and for which names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateTerm {
    /// The time from which it is valid.
    pub begins: SystemTime,
    /// The time at which it ends.
    pub ends: SystemTime,
    /// The names and addresses of the hosts that it is for.
    pub names: Vec<String>,
}

impl CertificateTerm {
    /// Reads a certificate. Returns `None` if it cannot be read.
    pub fn parse(der: &[u8]) -> Option<CertificateTerm> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map(|names| {
            let names = names.value.general_names.iter();
            names.filter_map(name_of).collect()
        });
        let validity = certificate.validity();
        Some(CertificateTerm {
            begins: system_time(validity.not_before),
            ends: system_time(validity.not_after),
            names: names.unwrap_or_default(),
        })
    }
}

fn system_time(time: x509_parser::time::ASN1Time) -> SystemTime {
    let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Returns the name or the address of a host, if this is one.
fn name_of(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::DNSName(name) = name {
        return Some((*name).to_owned());
    }
    let GeneralName::IPAddress(bytes) = name else {
        return None;
    };
    let v4 = <[u8; 4]>::try_from(*bytes).ok().map(IpAddr::from);
    let address = v4.or_else(|| <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from));
    Some(address?.to_string())
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.present.load().as_ref().as_ref().ok().cloned()
    }
}

fn read_certified_key(cert: &Path, key: &Path) -> Result<Arc<CertifiedKey>, String> {
    let pem = read_regular_file(cert).map_err(|why| unreadable(cert, &why))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| {
            let why = if matches!(e, pem::Error::MissingSectionEnd { .. }) {
                "it is cut off in the middle of a certificate".to_owned()
            } else {
                e.to_string()
            };
            format!("the certificate {} cannot be read: {why}", cert.display())
        })?;
    if chain.is_empty() {
        return Err(format!("{} holds no certificate", cert.display()));
    }
    // The error of the key's reader might quote what it read, so it is left out; the path is
    // enough.
    let pem = Zeroizing::new(read_regular_file(key).map_err(|why| unreadable(key, &why))?);
    let key_der = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| format!("{} holds no private key that can be read", key.display()))?;
    let provider = CryptoProvider::get_default().ok_or("no TLS provider is installed")?;
    CertifiedKey::from_der(chain, key_der, provider)
        .map(Arc::new)
        .map_err(|e| {
            format!(
                "the certificate {} and the key {} do not belong together: {e}",
                cert.display(),
                key.display()
            )
        })
}

fn unreadable(path: &Path, why: &io::Error) -> String {
    format!("{} cannot be read: {why}", path.display())
}

/// Returns whether a path leads to a pipe.
pub fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo())
}

/// Reads a regular file. A pipe would wait for a writer for ever.
fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    match std::fs::metadata(path)?.is_file() {
        true => std::fs::read(path),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_the_files_certificates() {
        let folder = std::env::temp_dir().join(format!("portcullis-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let paths = ["cert.pem", "key.pem"].map(|name| folder.join(name));
        let write = |year| {
            let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let key = rcgen::KeyPair::generate().unwrap();
            std::fs::write(&paths[0], params.self_signed(&key).unwrap().pem()).unwrap();
            std::fs::write(&paths[1], key.serialize_pem()).unwrap();
        };
        write(2030);
        let certificate = Certificate::read(&paths[0], &paths[1]).unwrap();
        assert_eq!(certificate.ends(), Some(1_893_456_000));
        // The certificate of another year is shown only after the reload.
        write(2031);
        assert_eq!(certificate.ends(), Some(1_893_456_000));
        certificate.reload().unwrap();
        assert_eq!(certificate.ends(), Some(1_924_992_000));
        std::fs::remove_dir_all(&folder).ok();
    }
}
