//! Requests over HTTP.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::StreamExt as _;
use http::header::{AUTHORIZATION, HeaderValue};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{CertificateError, ClientConfig, RootCertStore};

use crate::error::ClientError;
use crate::options::ClientOptions;
use crate::transport::{Body, Transport, TransportError};
use crate::url::ServerUrl;

/// A pool of connections to one server.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    client: reqwest::Client,
    url: ServerUrl,
    /// Marked as a secret, so that it is in no output.
    authorization: Option<HeaderValue>,
}

impl HttpTransport {
    pub(crate) fn new(url: ServerUrl, options: &ClientOptions) -> Result<Self, ClientError> {
        let authorization = options.token.as_deref().map(bearer).transpose()?;
        let mut builder = reqwest::Client::builder()
            .http1_only()
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            // An answer that sends us elsewhere would take the token along.
            .redirect(reqwest::redirect::Policy::none());
        if url.is_secure() {
            builder = builder.tls_backend_preconfigured(tls(options)?);
        } else {
            // Without certificates to look for, nothing has to be read for TLS.
            builder = builder.tls_backend_preconfigured(tls_with(RootCertStore::empty())?);
        }
        let client = builder.build().map_err(|error| ClientError::Options(chain(&error)))?;
        Ok(Self { client, url, authorization })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, ClientError> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value =
        value.map_err(|_| ClientError::Options("a token is plain ASCII in one line".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn tls(options: &ClientOptions) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    match &options.ca_certificates {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let wrong = |error: String| ClientError::Options(format!("the CA certificates: {error}"));
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(ClientError::Options(
                    "the CA certificates: there is none in the file".to_owned(),
                ));
            }
        }
        // Some of a system's certificates are always odd: what can be used is used.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    tls_with(roots)
}

fn tls_with(roots: RootCertStore) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| ClientError::Options(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// An error with what caused it: the outermost one says least.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// What TLS says, if it is what failed. It may lie in an error of the connection, which does not name it as its source.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let found = error.downcast_ref::<rustls::Error>();
    let inside = || {
        let inside = error.downcast_ref::<std::io::Error>()?.get_ref()?;
        tls_error(inside)
    };
    found.or_else(inside).or_else(|| error.source().and_then(tls_error))
}

/// What is wrong with a handshake, and what to do.
fn advice(error: &rustls::Error) -> String {
    let wrong = match error {
        rustls::Error::InvalidCertificate(wrong) => wrong,
        rustls::Error::InvalidMessage(_) => {
            return format!("{error}: what listens there does not speak TLS; http:// may be right");
        }
        error => return error.to_string(),
    };
    match wrong {
        CertificateError::UnknownIssuer => "its certificate was made by an issuer that is not trusted here; name the \
                                            issuer's certificate, or a self-signed one itself, with tls_ca \
                                            (SERIATIM_TLS_CA)"
            .to_owned(),
        // What `openssl req -x509` makes unless told. It is named as a root, and roots sign others.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is one of an issuer (CA:TRUE), and a server's own has to have basicConstraints=CA:FALSE; make \
             it anew with openssl req -x509 -addext basicConstraints=critical,CA:FALSE, and name it with tls_ca \
             (SERIATIM_TLS_CA)"
                .to_owned()
        }
        wrong => format!("its certificate: {wrong}"),
    }
}

fn lost(error: &reqwest::Error) -> TransportError {
    if let Some(tls) = tls_error(error).filter(|_| error.is_connect()) {
        return TransportError { sent: false, insecure: true, reason: advice(tls) };
    }
    let sent = !error.is_connect() && !error.is_builder();
    TransportError { sent, insecure: false, reason: chain(error) }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Body>, TransportError> {
        let (parts, body) = request.into_parts();
        let url = format!("{}{}", self.url, parts.uri);
        let mut sent = self.client.request(parts.method, url).headers(parts.headers);
        if let Some(authorization) = &self.authorization {
            sent = sent.header(AUTHORIZATION, authorization.clone());
        }
        let answer = sent.body(body).send().await.map_err(|error| lost(&error.without_url()))?;
        let mut response = http::Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let pieces = answer.bytes_stream().map(|piece| piece.map_err(|error| lost(&error.without_url())));
        let response = response.body(pieces.boxed());
        response.map_err(|error| TransportError { sent: true, insecure: false, reason: error.to_string() })
    }

    fn place(&self) -> String {
        self.url.to_string()
    }
}
