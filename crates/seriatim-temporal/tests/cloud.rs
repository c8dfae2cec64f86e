//! What a cluster sees that wants keys and certificates, and what is said when it gets none.
//!
//! The cluster here only listens, over TLS, and refuses every client that connects: that is enough to test both.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use seriatim_env::Env;
use seriatim_temporal::{ClientCertificate, ConnectError, ConnectOptions, Connection, Tls};
use seriatim_types::ErrorKind;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Signs certificates. Only a client that is given its certificate trusts it.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }
}

struct Cluster {
    address: String,
    authority: Authority,
    /// What each call that got through has shown as its authorization.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    /// Listens under the name `cluster.internal`, to all or only to those with a certificate.
    async fn start(env: &Env, wants_certificates: bool) -> Self {
        let authority = Authority::new();
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = if wants_certificates {
            let mut roots = RootCertStore::empty();
            roots.add(authority.0.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            config.with_client_cert_verifier(verifier)
        } else {
            config.with_no_client_auth()
        };
        let (certificate, key) = authority.sign("cluster.internal");
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        drop(env.spawn(listen(
            env.clone(),
            listener,
            TlsAcceptor::from(Arc::new(config)),
            Arc::clone(&seen),
        )));
        Self { address, authority, seen }
    }

    fn options(&self) -> ConnectOptions {
        let server_name = Some("cluster.internal".to_owned());
        let tls = Tls { ca: Some(self.authority.pem()), client: None, server_name };
        // A client that is refused permanently gets the error at once, and does not wait for so long.
        ConnectOptions {
            tls: Some(tls),
            timeout: Duration::from_secs(600),
            ..ConnectOptions::new(&self.address)
        }
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

async fn listen(env: Env, listener: TcpListener, tls: TlsAcceptor, seen: Arc<Mutex<Vec<String>>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, seen) = (tls.clone(), Arc::clone(&seen));
        drop(env.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(move |request: Request<Incoming>| {
                let authorization = request.headers().get("authorization");
                let authorization = authorization.map_or("nothing", |value| value.to_str().unwrap());
                seen.lock().unwrap().push(authorization.to_owned());
                std::future::ready(Ok::<_, Infallible>(refusal()))
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(connection.serve_connection(TokioIo::new(stream), service).await);
        }));
    }
}

/// As gRPC says "unauthenticated".
fn refusal() -> Response<String> {
    let answer = Response::builder().header("content-type", "application/grpc");
    answer.header("grpc-status", "16").header("grpc-message", "who are you").body(String::new()).unwrap()
}

async fn refused(env: &Env, options: &ConnectOptions) -> ConnectError {
    Connection::connect(env, options).await.expect_err("no client gets in here")
}

#[tokio::test]
async fn an_api_key_reaches_the_cluster_over_tls_and_its_refusal_is_told() {
    let env = Env::real();
    let cluster = Cluster::start(&env, false).await;
    let error = refused(&env, &ConnectOptions { api_key: Some("k-1".to_owned()), ..cluster.options() }).await;
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(error.to_string().contains("who are you") && error.to_string().contains("API key"), "{error}");
    assert_eq!(cluster.seen(), ["Bearer k-1"]);
    refused(&env, &cluster.options()).await;
    assert_eq!(cluster.seen(), ["nothing"]);
}

#[tokio::test]
async fn a_cluster_that_cannot_prove_who_it_is_gets_no_key() {
    let env = Env::real();
    let cluster = Cluster::start(&env, false).await;
    let key = || Some("k-1".to_owned());
    let other_authority = Tls { ca: Some(Authority::new().pem()), ..cluster.options().tls.unwrap() };
    let named = Tls { server_name: Some("elsewhere.internal".to_owned()), ..cluster.options().tls.unwrap() };
    for tls in [other_authority, named] {
        let error =
            refused(&env, &ConnectOptions { api_key: key(), tls: Some(tls), ..cluster.options() }).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
    let garbled = Tls { ca: Some(b"no certificate".to_vec()), ..Tls::default() };
    refused(&env, &ConnectOptions { api_key: key(), tls: Some(garbled), ..cluster.options() }).await;
    assert_eq!(cluster.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn a_client_certificate_opens_the_door() {
    let env = Env::real();
    let cluster = Cluster::start(&env, true).await;
    let (certificate, key) = cluster.authority.sign("me");
    let client = ClientCertificate {
        certificate: certificate.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
    };
    let mut options = cluster.options();
    options.tls.as_mut().unwrap().client = Some(client);
    let error = refused(&env, &options).await;
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    assert_eq!(cluster.seen(), ["nothing"]);
    let error = refused(&env, &cluster.options()).await;
    assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
    assert_eq!(cluster.seen(), Vec::<String>::new());
}
