use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

/// A certificate with its key.
struct Shown {
    pem: String,
    der: CertificateDer<'static>,
    key: KeyPair,
}

fn params(names: &[&str], (from, until): (i32, i32), is_ca: IsCa) -> CertificateParams {
    let mut params = CertificateParams::new(
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>(),
    )
    .expect("names");
    (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
    params.is_ca = is_ca;
    params
}

fn own(names: &[&str], years: (i32, i32), is_ca: IsCa) -> Shown {
    let key = KeyPair::generate().expect("a key");
    let cert = params(names, years, is_ca)
        .self_signed(&key)
        .expect("a signature");
    Shown {
        pem: cert.pem(),
        der: cert.der().clone(),
        key,
    }
}

/// As `openssl req -x509` makes it: a server's certificate that says it is an authority's.
fn openssl(names: &[&str]) -> Shown {
    own(names, GOOD, IsCa::Ca(BasicConstraints::Unconstrained))
}

fn leaf(names: &[&str]) -> Shown {
    own(names, GOOD, IsCa::ExplicitNoCa)
}

const GOOD: (i32, i32) = (2000, 2099);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = params(&[], GOOD, IsCa::Ca(BasicConstraints::Unconstrained));
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        Authority(
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
                .expect("a CA"),
        )
    }

    fn leaf(&self, names: &[&str], years: (i32, i32)) -> Shown {
        let key = KeyPair::generate().expect("a key");
        let cert = params(names, years, IsCa::ExplicitNoCa)
            .signed_by(&key, &self.0)
            .expect("a signature");
        Shown {
            pem: cert.pem(),
            der: cert.der().clone(),
            key,
        }
    }
}

/// Shakes hands with a server that shows this, as who believes that, and says one byte.
async fn shake(shown: &Shown, named: &str) -> Result<(), Distrust> {
    shake_as(shown, Trust::new(Some(named.as_bytes()), &[b"h2"])).await
}

async fn shake_as(shown: &Shown, trust: Trust) -> Result<(), Distrust> {
    let key = PrivateKeyDer::try_from(shown.key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions();
    let config = config
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![shown.der.clone()], key)
        .expect("a pair");
    let (client, server) = tokio::io::duplex(64 * 1024);
    let served = async {
        let Ok(mut tls) = TlsAcceptor::from(Arc::new(config)).accept(server).await else {
            return false;
        };
        let has_come = tls.read_u8().await.is_ok();
        if has_come {
            tls.write_u8(1).await.expect("written");
            tls.flush().await.expect("flushed");
        }
        has_come
    };
    let asked = async {
        let mut tls = trust.connect("localhost", client).await?;
        tls.write_u8(1).await.expect("written");
        tls.flush().await.expect("flushed");
        tls.read_u8().await.expect("an answer");
        Ok(())
    };
    let (has_come, told) = tokio::join!(served, asked);
    assert_eq!(has_come, told.is_ok(), "no byte for who is not believed");
    told
}

#[track_caller]
fn refused(told: Result<(), Distrust>, parts: &[&str]) {
    let distrust = told.expect_err("it is not believed");
    assert!(distrust.lasts, "{distrust:?}");
    for part in parts {
        assert!(
            distrust.why.contains(part),
            "no {part:?} in {}",
            distrust.why
        );
    }
}

#[tokio::test]
async fn a_pinned_certificate_is_believed_and_no_other() {
    for (mine, other) in [
        (leaf(&["localhost"]), leaf(&["localhost"])),
        (openssl(&["localhost"]), openssl(&["localhost"])),
    ] {
        assert_eq!(shake(&mine, &mine.pem).await, Ok(()));
        shake(&other, &mine.pem).await.expect_err("another one");
    }
    let (mine, other) = (leaf(&["localhost"]), leaf(&["localhost"]));
    refused(
        shake(&other, &mine.pem).await,
        &["is not the one in `tls.ca`"],
    );
    refused(
        shake(&openssl(&["localhost"]), &mine.pem).await,
        &["is not the one in `tls.ca`"],
    );
    refused(
        shake(&openssl(&["localhost"]), &openssl(&["localhost"]).pem).await,
        &["is not the one in `tls.ca`"],
    );
    let authority = Authority::new("ours").0.pem();
    refused(
        shake(&openssl(&["localhost"]), &authority).await,
        &["CaUsedAsEndEntity", "exactly this certificate"],
    );
    // Several may be pinned, as while they change.
    assert_eq!(
        shake(&other, &format!("{}{}", mine.pem, other.pem)).await,
        Ok(())
    );
}

#[tokio::test]
async fn a_pin_is_no_switch_off() {
    let wrong = leaf(&["other.test", "more.test"]);
    refused(
        shake(&wrong, &wrong.pem).await,
        &[
            "not valid for name localhost",
            "is for other.test, more.test",
        ],
    );
    let nameless = leaf(&[]);
    refused(shake(&nameless, &nameless.pem).await, &["names no host"]);
    let old = own(&["localhost"], (2000, 2001), IsCa::ExplicitNoCa);
    refused(
        shake(&old, &old.pem).await,
        &["expired at 2001-01-01T00:00:00"],
    );
    let early = own(&["localhost"], (2098, 2099), IsCa::ExplicitNoCa);
    refused(
        shake(&early, &early.pem).await,
        &["not valid before 2098-01-01T00:00:00"],
    );
}

#[tokio::test]
async fn what_a_pinned_one_has_signed_is_not_believed() {
    let mine = leaf(&["localhost"]);
    let key = KeyPair::generate().expect("a key");
    let signed = params(&["localhost"], GOOD, IsCa::ExplicitNoCa);
    let issuer_params = params(&["localhost"], GOOD, IsCa::ExplicitNoCa);
    let issuer = Issuer::from_params(&issuer_params, &mine.key);
    let cert = signed.signed_by(&key, &issuer).expect("a signature");
    let child = Shown {
        pem: cert.pem(),
        der: cert.der().clone(),
        key,
    };
    refused(
        shake(&child, &mine.pem).await,
        &["is not the one in `tls.ca`"],
    );
}

#[tokio::test]
async fn authorities_sign_for_others() {
    let (authority, stranger, pinned) = (
        Authority::new("ours"),
        Authority::new("theirs"),
        leaf(&["localhost"]),
    );
    let impostor = Authority::new("ours");
    let ca = authority.0.pem();
    assert_eq!(
        shake(&authority.leaf(&["localhost"], GOOD), &ca).await,
        Ok(())
    );
    refused(
        shake(&stranger.leaf(&["localhost"], GOOD), &ca).await,
        &["unknown issuer", "UnknownIssuer"],
    );
    refused(
        shake(&impostor.leaf(&["localhost"], GOOD), &ca).await,
        &["not signed with that authority's key", "BadSignature"],
    );
    refused(
        shake(&authority.leaf(&["other.test"], GOOD), &ca).await,
        &["not valid for name localhost", "is for other.test"],
    );
    refused(
        shake(&authority.leaf(&["localhost"], (2000, 2001)), &ca).await,
        &["expired at 2001-01-01T00:00:00"],
    );
    // Beside a pin only those count that stand with it.
    let both = format!("{ca}{}", pinned.pem);
    assert_eq!(
        shake(&authority.leaf(&["localhost"], GOOD), &both).await,
        Ok(())
    );
    assert_eq!(shake(&pinned, &both).await, Ok(()));
    refused(
        shake(&stranger.leaf(&["localhost"], GOOD), &both).await,
        &["not the one in `tls.ca`"],
    );
    refused(
        shake(&authority.leaf(&["localhost"], (2000, 2001)), &both).await,
        &["expired at"],
    );
}

#[test]
fn a_servers_own_mark_is_a_pin() {
    let (authority, made) = (Authority::new("ours"), openssl(&["localhost"]));
    for (named, pins, signs) in [
        (leaf(&["localhost"]).der, true, false),
        // It may sign, and is a server's all the same.
        (made.der, true, true),
        (openssl(&["127.0.0.1"]).der, true, true),
        (authority.leaf(&["localhost"], GOOD).der, true, false),
        (openssl(&[]).der, false, true),
        (authority.0.der().clone(), false, true),
        (OldRoot::new("an old root").der, false, true),
    ] {
        assert_eq!(
            (is_pin(&named), is_authority(&named)),
            (pins, signs),
            "{named:?}"
        );
    }
    assert!(has_pin(
        format!("{}{}", authority.0.pem(), made.pem).as_bytes()
    ));
    assert!(!has_pin(authority.0.pem().as_bytes()));
}

/// A root of version 1, as `openssl x509 -req -signkey` makes it: no extension says what it is.
struct OldRoot {
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl OldRoot {
    fn new(name: &str) -> OldRoot {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&[], GOOD, IsCa::NoCa);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let today = params.self_signed(&key).expect("a signature");
        let (_, parsed) = x509_parser::parse_x509_certificate(today.der()).expect("a certificate");
        let part = |tag: u8, content: &[u8]| {
            let [high, low] = u16::try_from(content.len()).expect("short").to_be_bytes();
            let length = match (high, low) {
                (0, 0..=0x7f) => vec![low],
                (0, _) => vec![0x81, low],
                _ => vec![0x82, high, low],
            };
            [&[tag][..], &length, content].concat()
        };
        // What version 3 has, without the version and the extensions.
        let algorithm = b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
        let validity = b"\x30\x20\x17\x0d000101000000Z\x18\x0f20990101000000Z";
        let (issuer, subject) = (parsed.issuer().as_raw(), parsed.subject().as_raw());
        let signed = part(
            0x30,
            &[
                b"\x02\x01\x07",
                &algorithm[..],
                issuer,
                validity,
                subject,
                parsed.public_key().raw,
            ]
            .concat(),
        );
        let signature = [
            &[0][..],
            &rcgen::SigningKey::sign(&key, &signed).expect("a signature"),
        ]
        .concat();
        let der = part(
            0x30,
            &[&signed[..], algorithm, &part(0x03, &signature)].concat(),
        );
        OldRoot {
            der: der.into(),
            issuer: Issuer::new(params, key),
        }
    }

    fn pem(&self) -> String {
        let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &self.der);
        format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n")
    }

    fn leaf(&self, names: &[&str]) -> Shown {
        let key = KeyPair::generate().expect("a key");
        let cert = params(names, GOOD, IsCa::ExplicitNoCa)
            .signed_by(&key, &self.issuer)
            .expect("a signature");
        Shown {
            pem: cert.pem(),
            der: cert.der().clone(),
            key,
        }
    }
}

#[tokio::test]
async fn a_root_of_version_1_signs_for_others() {
    let (ours, theirs) = (
        OldRoot::new("an old root"),
        OldRoot::new("another old root"),
    );
    assert_eq!(shake(&ours.leaf(&["localhost"]), &ours.pem()).await, Ok(()));
    refused(
        shake(&theirs.leaf(&["localhost"]), &ours.pem()).await,
        &["unknown issuer"],
    );
}

#[tokio::test]
async fn an_authority_that_cannot_be_named_is_no_field() {
    for shown in [
        Authority::new("a stranger").leaf(&["localhost"], GOOD),
        openssl(&["localhost"]),
    ] {
        let told = shake_as(&shown, Trust::system_only(&[b"http/1.1"])).await;
        assert!(!format!("{told:?}").contains("tls.ca"), "{told:?}");
        refused(
            told,
            &[
                "unknown issuer",
                "Add its authority to the system's",
                "UnknownIssuer",
            ],
        );
    }
}

#[tokio::test]
async fn who_speaks_no_tls_and_who_hangs_up() {
    let trust = Trust::new(None, &[]);
    let (client, mut server) = tokio::io::duplex(4096);
    let answer = async {
        server
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .expect("written");
        server.read_u8().await.ok();
    };
    let (told, ()) = tokio::join!(trust.connect("localhost", client), answer);
    let told = told.expect_err("no TLS");
    assert!(
        told.lasts && told.why.contains("does not speak TLS"),
        "{told:?}"
    );
    let (client, server) = tokio::io::duplex(4096);
    drop(server);
    let told = trust
        .connect("localhost", client)
        .await
        .expect_err("nobody");
    assert!(!told.lasts, "it may be back: {told:?}");
}

#[test]
fn what_a_failed_handshake_is_about() {
    let of = |error: CertificateError| Doubt::from_reason(&certificate_fault(&error));
    let (time, not_before, not_after) = (UnixTime::now(), UnixTime::now(), UnixTime::now());
    assert_eq!(
        of(CertificateError::ExpiredContext { time, not_after }),
        Doubt::Dates
    );
    assert_eq!(
        of(CertificateError::NotValidYetContext { time, not_before }),
        Doubt::Dates
    );
    for wrong in [
        CertificateError::UnknownIssuer,
        CertificateError::BadSignature,
        CertificateError::BadEncoding,
    ] {
        assert_eq!(of(wrong), Doubt::Certificate);
    }
    let plain = Distrust::from_tls(&Error::InvalidMessage(
        rustls::InvalidMessage::InvalidContentType,
    ));
    assert_eq!(Doubt::from_reason(&plain.why), Doubt::Handshake);
}
