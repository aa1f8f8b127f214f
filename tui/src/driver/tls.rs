//! The client's side of TLS: whom it trusts, and the handshake.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::trouble::{TroubleKind, of_handshake};

/// The one protocol that is spoken inside.
const ALPN: &[u8] = b"http/1.1";

/// Whose signature makes a server's certificate count.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// That of any authority that this machine trusts.
    #[default]
    System,
    /// That of these authorities and of nobody else.
    Only(Arc<RootCertStore>),
}

/// Why a file names no authorities.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It cannot be read.
    #[error("{0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// It is no PEM, or holds no certificate.
    #[error("{0}: no certificate in PEM")]
    NoCertificate(PathBuf),
}

impl Trust {
    /// Trusts the certificates of a file (PEM) and no others.
    ///
    /// # Errors
    /// If the file cannot be read, or one certificate in it, or if there is none.
    pub fn only(file: &Path) -> Result<Self, TrustError> {
        let no_certificate = || TrustError::NoCertificate(file.to_owned());
        let pem = std::fs::read(file).map_err(|error| TrustError::Read(file.to_owned(), error))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|_| no_certificate())?;
            roots.add(certificate).map_err(|_| no_certificate())?;
        }
        if roots.is_empty() {
            return Err(no_certificate());
        }
        Ok(Self::Only(Arc::new(roots)))
    }
}

/// Shakes hands with servers. What that takes is read at the first time only.
pub(super) struct Handshakes {
    trust: Trust,
    connector: Option<TlsConnector>,
}

impl Handshakes {
    pub(super) const fn new(trust: Trust) -> Self {
        Self { trust, connector: None }
    }

    /// Shakes hands with the server of this name.
    ///
    /// # Errors
    /// What is wrong, if its person can do something about it.
    pub(super) async fn shake(
        &mut self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Option<TroubleKind>> {
        let connector = self.connector().await?;
        let name = ServerName::try_from(host.to_owned()).map_err(|_| None)?;
        let shaken = connector.connect(name, stream).await;
        shaken.map_err(|error| of_handshake(&error, &self.trust))
    }

    async fn connector(&mut self) -> Result<TlsConnector, Option<TroubleKind>> {
        if let Some(connector) = &self.connector {
            return Ok(connector.clone());
        }
        let roots = match &self.trust {
            Trust::Only(roots) => Arc::clone(roots),
            Trust::System => Arc::new(spawn_blocking(system_roots).await.map_err(|_| None)?),
        };
        if roots.is_empty() {
            return Err(Some(TroubleKind::NoAuthorities));
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has ciphers of both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Every connection is to see the certificate that its server shows now.
        config.resumption = Resumption::disabled();
        Ok(self.connector.insert(Arc::new(config).into()).clone())
    }
}

/// Reads what this machine trusts. What cannot be read in there is passed over, as everywhere.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
