//! Certificates of authorities that only one test knows, and the files that hold them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use crate::home::Home;

/// Somebody whose signature counts for whoever has its certificate.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

/// When a certificate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Now.
    Now,
    /// Until some time ago.
    Past,
    /// From some later time on.
    Future,
}

impl Authority {
    /// Makes one that nobody knows yet.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("keys can be made");
        let mut params = params(&[], Validity::Now);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        let pem = params.self_signed(&key).expect("it can sign").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Returns its own certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the file that holds it in a home; written if it is not there.
    pub fn file(&self, home: &Home) -> PathBuf {
        let file = home.path("config/authority.pem");
        fs::write(&file, &self.pem).expect("the home is writable");
        file
    }

    /// Issues a certificate for names and addresses.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_valid(names, Validity::Now)
    }

    /// The same for another time.
    pub fn issue_valid(&self, names: &[&str], validity: Validity) -> Issued {
        let key = KeyPair::generate().expect("keys can be made");
        let issued = params(names, validity).signed_by(&key, &self.issuer);
        Issued { cert: issued.expect("it can sign").pem(), key: key.serialize_pem() }
    }

    /// Returns what a TLS client is made with that trusts this authority and speaks these versions.
    pub fn client_config(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(self.pem.as_bytes());
        roots.add(certificate.expect("it is PEM")).expect("it is a certificate");
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("the provider speaks them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes the certificate of an authority that signed it itself, for these names.
pub fn self_signed_authority(names: &[&str]) -> Issued {
    let key = KeyPair::generate().expect("keys can be made");
    let mut params = params(names, Validity::Now);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let cert = params.self_signed(&key).expect("it can sign").pem();
    Issued { cert, key: key.serialize_pem() }
}

/// Makes an ordinary certificate that signed itself, for these names.
pub fn self_signed(names: &[&str]) -> Issued {
    let key = KeyPair::generate().expect("keys can be made");
    let cert = params(names, Validity::Now).self_signed(&key).expect("it can sign").pem();
    Issued { cert, key: key.serialize_pem() }
}

fn params(names: &[&str], validity: Validity) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("tests use valid names");
    let (from, to) = match validity {
        Validity::Now => (2020, 2120),
        Validity::Past => (2020, 2021),
        Validity::Future => (2120, 2121),
    };
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(to, 1, 1);
    params
}
