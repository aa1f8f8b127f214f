//! TLS to the database, if its URL asks for it.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::store::StoreError;

/// What is spoken inside, as PostgreSQL calls it.
const ALPN: &[u8] = b"postgresql";

/// Who vouches for the database's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Authorities<'a> {
    /// Nobody: nothing is encrypted.
    None,
    /// Those that this machine trusts.
    System,
    /// Those in this file and nobody else.
    File(&'a Path),
}

/// Shakes hands with the database's server, if that is asked for.
#[derive(Clone)]
pub(super) struct DatabaseTls(TlsConnector);

impl DatabaseTls {
    /// Reads whom to trust.
    pub(super) fn of(authorities: Authorities<'_>) -> Result<Self, StoreError> {
        let mut roots = RootCertStore::empty();
        match authorities {
            Authorities::None => {}
            Authorities::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Authorities::File(file) => add_all(&mut roots, file)?,
        }
        if roots.is_empty() && authorities != Authorities::None {
            let why = "this machine trusts no authority; sslrootcert names one";
            return Err(StoreError::Database(why.to_owned()));
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has ciphers of both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self(Arc::new(config).into()))
    }
}

fn add_all(roots: &mut RootCertStore, file: &Path) -> Result<(), StoreError> {
    let bad = |why: &str| StoreError::Database(format!("sslrootcert {}: {why}", file.display()));
    let pem = std::fs::read(file).map_err(|error| bad(&error.to_string()))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| bad("is not valid PEM"))?;
        roots.add(certificate).map_err(|_| bad("a certificate in it cannot be read"))?;
    }
    if roots.is_empty() { Err(bad("holds no certificate in PEM")) } else { Ok(()) }
}

impl MakeTlsConnect<Socket> for DatabaseTls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        // A Unix socket has no name, and comes here without being asked to shake hands.
        let name = ServerName::try_from(host.to_owned()).ok();
        Ok(Handshake { connector: self.0.clone(), name })
    }
}

/// One handshake.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let name = self.name.ok_or_else(|| {
                io::Error::other("no certificate can be for the name of the database's host")
            })?;
            self.connector.connect(name, stream).await.map(Encrypted)
        })
    }
}

/// A connection inside TLS.
pub(super) struct Encrypted(RustlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        // The certificate is verified, so that nobody can be in between.
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
