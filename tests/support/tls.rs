//! A certificate authority that belongs to the test, its good and bad certificates, and the two
//! ends of TLS.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::ring};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::wire::Io;

/// The authority, which signs certificates.
pub struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, both as PEM.
#[derive(Clone)]
pub struct Leaf {
    pub cert: String,
    pub key: String,
}

impl Ca {
    pub fn new() -> Self {
        Self::of(CertificateParams::default())
    }

    /// Makes an authority with a name of its own.
    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        Self::of(params)
    }

    fn of(mut params: CertificateParams) -> Self {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key pair");
        Ca {
            issuer: CertifiedIssuer::self_signed(params, key).expect("a CA"),
        }
    }

    /// Returns the certificate, for `tls: { ca: … }` of an account or for a client of the test.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a good certificate for `localhost` and `127.0.0.1`.
    pub fn leaf(&self) -> Leaf {
        self.sign(&["localhost", "127.0.0.1"], 2099)
    }

    pub fn leaf_for(&self, name: &str) -> Leaf {
        self.sign(&[name], 2099)
    }

    pub fn expired(&self) -> Leaf {
        self.sign(&["localhost", "127.0.0.1"], 2001)
    }

    /// Signs a good certificate that ends in this many days.
    pub fn ends_in(&self, days: u64) -> Leaf {
        self.ends_in_for(days, &["localhost", "127.0.0.1"])
    }

    /// Signs one for these names that ends in this many days.
    pub fn ends_in_for(&self, days: u64, names: &[&str]) -> Leaf {
        let day =
            portcullis::base::calendar::day_of(portcullis::base::calendar::now_millis()) + days;
        let date = portcullis::base::calendar::format_date(day);
        let mut parts = date
            .split('-')
            .map(|part| part.parse::<i32>().expect("a number"));
        let mut next = || parts.next().expect("a part of the date");
        let (year, month, day) = (next(), next(), next());
        let part = |number: i32| u8::try_from(number).expect("a month or a day");
        self.sign_until(names, (year, part(month), part(day)))
    }

    /// Makes a certificate that only it itself has signed. With `authority`, it says that it may
    /// sign others, as those that `openssl req -x509` makes do.
    pub fn own(names: &[&str], until: i32, authority: bool) -> Leaf {
        let mut params = CertificateParams::new(
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
        .expect("names");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        params.is_ca = if authority {
            IsCa::Ca(BasicConstraints::Unconstrained)
        } else {
            IsCa::NoCa
        };
        let key = KeyPair::generate().expect("a key pair");
        let cert = params.self_signed(&key).expect("a signature");
        Leaf {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }

    fn sign(&self, names: &[&str], until: i32) -> Leaf {
        self.sign_until(names, (until, 1, 1))
    }

    fn sign_until(&self, names: &[&str], (year, month, day): (i32, u8, u8)) -> Leaf {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, month, day);
        let key = KeyPair::generate().expect("a key pair");
        let cert = params.signed_by(&key, &self.issuer).expect("a signature");
        Leaf {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// Makes the server's end, which offers `alpn`.
pub fn acceptor(leaf: &Leaf, alpn: &[&str]) -> TlsAcceptor {
    let certs = CertificateDer::pem_slice_iter(leaf.cert.as_bytes())
        .map(|c| c.expect("a certificate"))
        .collect();
    let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .expect("a certificate with its key");
    config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// Makes the client's end: it connects to `localhost`, and trusts `ca` alone.
pub async fn connect(tcp: TcpStream, ca: &Ca, alpn: &[&str]) -> std::io::Result<Io> {
    let mut roots = RootCertStore::empty();
    let pem = ca.pem();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate"))
        .expect("a root");
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    let tls = TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await?;
    Ok(Io::Tls(Box::new(tls.into())))
}
