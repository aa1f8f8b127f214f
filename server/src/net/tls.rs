//! TLS at the doors: which certificate this server shows, and the handshake.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{Error as RustlsError, InconsistentKeys, ServerConfig};
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

/// A peer that connects must have shaken hands in this time.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// The one protocol that is spoken inside.
const ALPN: &[u8] = b"http/1.1";

/// Where the certificate and its key are, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and behind it those that lead to its authority.
    pub cert: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
}

/// Why there is no certificate to show.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{0}: {1}")]
    Read(PathBuf, #[source] std::io::Error),
    /// It is cut off or garbled. What it holds is not repeated: it may be a key.
    #[error("{0}: is not valid PEM")]
    Malformed(PathBuf),
    /// It holds something else.
    #[error("{0}: holds no certificate in PEM")]
    NoCertificate(PathBuf),
    /// What is between the markers is no certificate.
    #[error("{0}: the first certificate in it cannot be read")]
    BadCertificate(PathBuf),
    /// It holds something else.
    #[error("{0}: holds no private key in PEM, or an encrypted one")]
    NoKey(PathBuf),
    /// What is between the markers is no key, or not one that can be used.
    #[error(
        "{0}: the key cannot be used; these can: RSA of 2048 to 4096 bits, ECDSA over P-256 or \
         P-384, Ed25519"
    )]
    BadKey(PathBuf),
    /// They do not belong together.
    #[error("{key}: is not the key of the first certificate in {cert}")]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's.
        cert: PathBuf,
    },
}

/// The certificate in use. It can be replaced while the server runs.
pub struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads certificate and key.
    ///
    /// # Errors
    /// Which file is wrong, and what is wrong with it.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let mode = std::fs::metadata(&files.key).map(|key| key.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o007 != 0) {
            warn!("everybody on this machine has access to the private key");
        }
        let config = RwLock::new(Arc::new(read(&files)?));
        Ok(Self { files, config })
    }

    /// Reads both files again, for the handshakes to come. If something is wrong with them, what was
    /// in use stays in use.
    pub fn reload(&self) {
        match read(&self.files) {
            Ok(config) => {
                *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                info!("certificate and key were read again");
            }
            Err(error) => warn!(%error, "the certificate in use stays"),
        }
    }

    /// Shakes hands; None if the peer does not, or not in time.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        match timeout(HANDSHAKE_WITHIN, TlsAcceptor::from(config).accept(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                debug!(%error, "no handshake");
                None
            }
            Err(_) => {
                debug!("no handshake in time");
                None
            }
        }
    }
}

fn read(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let key = certified_key(files, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has ciphers of both versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Links are long: what a resumption saves is not worth what must be kept for it.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certified_key(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_slice_iter(&content(&files.cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| TlsError::Malformed(files.cert.clone()))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(files.cert.clone()));
    }
    let key =
        PrivateKeyDer::from_pem_slice(&content(&files.key)?).map_err(|error| match error {
            PemError::NoItemsFound => TlsError::NoKey(files.key.clone()),
            _ => TlsError::Malformed(files.key.clone()),
        })?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|_| TlsError::BadKey(files.key.clone()))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(RustlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(RustlsError::InconsistentKeys(_)) => {
            return Err(TlsError::Mismatch { key: files.key.clone(), cert: files.cert.clone() });
        }
        Err(_) => return Err(TlsError::BadCertificate(files.cert.clone())),
    }
    Ok(certified)
}

fn content(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error))
}
