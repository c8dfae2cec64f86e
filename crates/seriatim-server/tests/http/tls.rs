//! TLS with a certificate file and a key file.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use seriatim_server::{ServerOptions, TlsFiles};
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::server::{Server, Setup, exchange, request};

/// A server with a self-signed certificate, and a connector that trusts it.
async fn start(tls_timeout: Duration) -> (tempfile::TempDir, Server, TlsConnector) {
    let folder = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&files.certificate, cert.pem()).unwrap();
    std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();
    let options = ServerOptions { tls: Some(files), tls_timeout, ..ServerOptions::default() };
    let server = Setup { options, ..Setup::new() }.start().await;
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (folder, server, TlsConnector::from(Arc::new(config)))
}

#[tokio::test]
async fn requests_are_encrypted() {
    let (_folder, server, connector) = start(Duration::from_secs(10)).await;
    let name = ServerName::try_from("localhost").unwrap();
    let stream = connector.connect(name, server.connect().await).await.unwrap();
    let reply = exchange(stream, &request("POST", "/v1/series/a/next", &[], None)).await;
    assert_eq!((reply.status, &reply.body["number"]), (201, &serde_json::json!(1)));
    server.stop().await;
}

#[tokio::test]
async fn a_client_without_a_handshake_delays_no_other_and_is_disconnected() {
    let (_folder, server, connector) = start(Duration::from_millis(300)).await;
    let mut silent = server.connect().await;
    let name = ServerName::try_from("localhost").unwrap();
    let stream = connector.connect(name, server.connect().await).await.unwrap();
    assert_eq!(exchange(stream, &request("GET", "/livez", &[], None)).await.status, 200);
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn an_error_names_the_tls_file_that_is_not_valid() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pem");
    let tls = Some(TlsFiles { certificate: missing.clone(), key: missing.clone() });
    let server = Server::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let runner = seriatim_server::Server::new(server.engine.clone())
        .options(ServerOptions { tls, ..ServerOptions::default() });
    let error = runner.serve(listener, server.stop.clone()).await.unwrap_err();
    assert!(error.to_string().starts_with(&missing.display().to_string()), "{error}");
    server.stop().await;
}
