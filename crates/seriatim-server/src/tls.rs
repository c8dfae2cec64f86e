//! TLS with a certificate file and a key file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::options::TlsFiles;

fn wrong(path: &Path, problem: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {problem}", path.display()))
}

/// Reads certificate and key.
///
/// # Errors
///
/// If a file cannot be read, is not PEM, or the two do not belong together.
pub(crate) fn acceptor(TlsFiles { certificate, key }: &TlsFiles) -> io::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain: Vec<CertificateDer<'static>> = chain.map_err(|error| wrong(certificate, error))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "it contains no certificate"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, private);
    let mut config = config.map_err(|error| wrong(key, error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
