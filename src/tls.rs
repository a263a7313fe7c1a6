//! A [`Certificate`] is what a TLS listener shows to callers. [`trust`] decides which certificates
//! of other servers are believed.
//!
//! On SIGHUP the certificate and its key are read again. If the new ones cannot be used, the old
//! ones stay.

pub mod trust;

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The certificate of a listener: the paths of its two files, and what was read from them last.
#[derive(Debug)]
pub struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    present: ArcSwap<CertifiedKey>,
}

impl Certificate {
    /// Reads the certificate and its key.
    pub fn read(cert: &Path, key: &Path) -> Result<Certificate, String> {
        pingora::tls::install_default_crypto_provider();
        let present = ArcSwap::from_pointee(read(cert, key)?);
        Ok(Certificate { cert: cert.to_owned(), key: key.to_owned(), present })
    }

    /// Reads the certificate and its key again.
    pub fn reload(&self) -> Result<(), String> {
        self.present.store(Arc::new(read(&self.cert, &self.key)?));
        Ok(())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.present.load_full())
    }
}

fn read(cert: &Path, key: &Path) -> Result<CertifiedKey, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|e| format!("the certificate {} cannot be read: {e}", cert.display()))?;
    if chain.is_empty() {
        return Err(format!("{} holds no certificate", cert.display()));
    }
    // The error of the key's reader might quote what it read, so it is left out; the path is
    // enough.
    let key_der = PrivateKeyDer::from_pem_file(key)
        .map_err(|_| format!("{} holds no private key that can be read", key.display()))?;
    let provider = CryptoProvider::get_default().ok_or("no TLS provider is installed")?;
    CertifiedKey::from_der(chain, key_der, provider).map_err(|e| {
        format!("the certificate {} and the key {} do not belong together: {e}", cert.display(), key.display())
    })
}
