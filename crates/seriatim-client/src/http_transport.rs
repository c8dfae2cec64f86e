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
    /// Marked as sensitive, so that it does not appear in any output.
    authorization: Option<HeaderValue>,
}

impl HttpTransport {
    pub(crate) fn new(url: ServerUrl, options: &ClientOptions) -> Result<Self, ClientError> {
        let authorization = options.token.as_deref().map(bearer).transpose()?;
        let mut builder = reqwest::Client::builder()
            .http1_only()
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            // A redirect would send the token to another server.
            .redirect(reqwest::redirect::Policy::none());
        if url.is_secure() {
            builder = builder.tls_backend_preconfigured(tls(options)?);
        } else {
            // Without TLS no certificates have to be read.
            builder = builder.tls_backend_preconfigured(tls_with(RootCertStore::empty())?);
        }
        let client = builder.build().map_err(|error| ClientError::Options(chain(&error)))?;
        Ok(Self { client, url, authorization })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, ClientError> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value
        .map_err(|_| ClientError::Options("the token has to be one line of ASCII characters".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn tls(options: &ClientOptions) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    match &options.ca_certificates {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let wrong = |error: String| {
                    ClientError::Options(format!("the CA certificates cannot be read: {error}"))
                };
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(ClientError::Options(
                    "the file of CA certificates contains no certificate".to_owned(),
                ));
            }
        }
        // Some certificates of a system may be invalid: the valid ones are used.
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

/// An error with its causes: the outermost error says least.
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

/// The error of TLS, if TLS failed. It may be inside an error of the connection that does not name it as its source.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let found = error.downcast_ref::<rustls::Error>();
    let inside = || {
        let inside = error.downcast_ref::<std::io::Error>()?.get_ref()?;
        tls_error(inside)
    };
    found.or_else(inside).or_else(|| error.source().and_then(tls_error))
}

/// What is wrong with a TLS handshake, and what to do.
fn advice(error: &rustls::Error) -> String {
    let wrong = match error {
        rustls::Error::InvalidCertificate(wrong) => wrong,
        rustls::Error::InvalidMessage(_) => {
            return format!("{error}: the server at this address does not speak TLS; try http://");
        }
        error => return error.to_string(),
    };
    match wrong {
        CertificateError::UnknownIssuer => "its certificate was made by an issuer that is not trusted; name the \
                                            issuer's certificate, or a self-signed one itself, with tls_ca \
                                            (SERIATIM_TLS_CA)"
            .to_owned(),
        // `openssl req -x509` makes such a certificate by default: it is one of an issuer, and a server may not use it.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is one of an issuer (CA:TRUE), but a server needs one with basicConstraints=CA:FALSE; make \
             a new one with openssl req -x509 -addext basicConstraints=critical,CA:FALSE, and name it with tls_ca \
             (SERIATIM_TLS_CA)"
                .to_owned()
        }
        wrong => format!("its certificate is not valid: {wrong}"),
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
