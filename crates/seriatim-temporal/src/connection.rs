//! A connection to a Temporal cluster.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_types::ErrorKind;
use temporalio_client::errors::ClientConnectError;
use temporalio_client::tonic::{Code, Status};
use temporalio_client::{ClientTlsOptions, ConnectionOptions, TlsOptions, Url};
use thiserror::Error;

/// The client name and version that are sent to the cluster. The cluster decides by these which clients it serves.
const CLIENT_NAME: &str = "temporal-core";
const CLIENT_VERSION: &str = "0.10.1";
/// The pause between two attempts to reach a server that does not answer yet.
const PAUSE: Duration = Duration::from_millis(100);
/// The port of a cluster by default.
const PORT: u16 = 7233;

/// Where a cluster is, and how a caller authenticates.
///
/// ```
/// use seriatim_temporal::{ConnectOptions, Tls};
///
/// let local = ConnectOptions::new("127.0.0.1:7233");
/// assert_eq!(local.target()?.as_str(), "http://127.0.0.1:7233/");
/// // A key or a certificate means TLS, so it need not be said twice.
/// let cloud = ConnectOptions { api_key: Some("…".to_owned()), ..ConnectOptions::new("eu-west-1.aws.api.temporal.io:7233") };
/// assert_eq!(cloud.target()?.scheme(), "https");
/// # Ok::<(), seriatim_temporal::ConnectError>(())
/// ```
#[derive(Clone)]
pub struct ConnectOptions {
    /// `http://HOST:PORT`, `https://HOST:PORT`, or `HOST:PORT`. Without a port it is 7233.
    pub url: String,
    /// The key of a namespace in Temporal's cloud, or of a proxy in front of the cluster. Sent over TLS only.
    pub api_key: Option<String>,
    /// How the connection is encrypted. `None` is as the URL says, with the system's certificates.
    pub tls: Option<Tls>,
    /// Who calls: shown in histories and in the list of workers. `PROCESS@MACHINE` by default.
    pub identity: String,
    /// How long a server that does not answer yet is waited for.
    pub timeout: Duration,
}

/// How a connection is encrypted. The default trusts what the system trusts, and shows no certificate.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The authority that has signed the server's certificate, in PEM; by default those that the system trusts.
    pub ca: Option<Vec<u8>>,
    /// The certificate of this side, if the server requires one.
    pub client: Option<ClientCertificate>,
    /// Name in the server's certificate, where it is not the one in the URL.
    pub server_name: Option<String>,
}

/// A certificate of this side, and its private key. Both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, with the intermediate certificates up to the authority.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

impl ConnectOptions {
    /// A cluster at an address, with neither key nor certificate, waited for ten seconds.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        let machine = rustix::system::uname();
        let identity = format!("{}@{}", std::process::id(), machine.nodename().to_string_lossy());
        Self { url: url.into(), api_key: None, tls: None, identity, timeout: Duration::from_secs(10) }
    }

    /// What is connected to: the URL, whole.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Options`] if it is no address, or a key or a certificate would be sent unencrypted.
    pub fn target(&self) -> Result<Url, ConnectError> {
        let wrong = |why: String| ConnectError::Options(format!("{}: {why}", self.url));
        let encrypted = self.api_key.is_some() || self.tls.is_some();
        let text = match self.url.contains("://") {
            true => self.url.clone(),
            false => format!("{}://{}", if encrypted { "https" } else { "http" }, self.url),
        };
        let mut url = Url::parse(&text).map_err(|error| wrong(format!("{error}; write HOST:PORT")))?;
        match url.scheme() {
            "https" => {}
            "http" if encrypted => {
                return Err(wrong(
                    "keys and certificates are not sent unencrypted: write https://".to_owned(),
                ));
            }
            "http" => {}
            other => return Err(wrong(format!("{other}:// is not spoken here: write http:// or https://"))),
        }
        if url.path() != "/"
            || url.query().is_some()
            || url.fragment().is_some()
            || !url.username().is_empty()
        {
            return Err(wrong("only a host and a port can be called: write HOST:PORT".to_owned()));
        }
        if !has_port(&text) {
            url.set_port(Some(PORT))
                .map_err(|()| wrong("there is no host in it: write HOST:PORT".to_owned()))?;
        }
        Ok(url)
    }
}

/// Whether a port is written down: what a scheme has by default is not kept by [`Url`].
fn has_port(text: &str) -> bool {
    let host = text.split_once("://").map_or(text, |(_, rest)| rest).trim_end_matches('/');
    host.rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("url", &self.url)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("tls", &self.tls)
            .field("identity", &self.identity)
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("ca", &self.ca.as_ref().map(|_| "…"))
            .field("client", &self.client)
            .field("server_name", &self.server_name)
            .finish()
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCertificate(…)")
    }
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The options do not describe a server that can be connected to.
    #[error("{0}")]
    Options(String),
    /// No server answers there, or its certificate is not trusted.
    #[error(
        "no Temporal server answers at {url}: {reason}; start one with `temporal server start-dev`, or name another"
    )]
    Unreachable {
        /// Where.
        url: Url,
        /// What went wrong.
        reason: String,
    },
    /// The server has refused the connection.
    #[error("{url} refuses this caller: {reason}; bring a valid API key or client certificate")]
    Refused {
        /// Where.
        url: Url,
        /// What it said.
        reason: String,
    },
    /// A server answers there that is not a Temporal server.
    #[error(
        "{url} does not answer as a Temporal server does: {reason}; is it the address of the gRPC frontend?"
    )]
    BadAnswer {
        /// Where.
        url: Url,
        /// What came.
        reason: String,
    },
}

impl ConnectError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Options(_) => ErrorKind::Invalid,
            Self::Unreachable { .. } | Self::BadAnswer { .. } => ErrorKind::Unavailable,
            Self::Refused { .. } => ErrorKind::Unauthorized,
        }
    }
}

/// A connection to a cluster. Clones share it; it is made again by itself when it breaks.
#[derive(Clone)]
pub struct Connection {
    inner: temporalio_client::Connection,
    url: Url,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects to a cluster; while one is starting, the connection is retried until the options' timeout.
    ///
    /// # Errors
    ///
    /// [`ConnectError`], at once where waiting cannot help.
    pub async fn connect(env: &Env, options: &ConnectOptions) -> Result<Self, ConnectError> {
        let url = options.target()?;
        let wanted = wanted(options, &url);
        let start = env.instant();
        loop {
            let left = options.timeout.saturating_sub(env.instant() - start);
            let error = match env
                .timeout(left.max(PAUSE), temporalio_client::Connection::connect(wanted.clone()))
                .await
            {
                Ok(Ok(inner)) => return Ok(Self { inner, url }),
                Ok(Err(error)) if is_early(&error) => explain(error, &url),
                Ok(Err(error)) => return Err(explain(error, &url)),
                Err(_) => ConnectError::Unreachable {
                    url: url.clone(),
                    reason: "no answer came in time".to_owned(),
                },
            };
            if env.instant() - start + PAUSE >= options.timeout {
                return Err(error);
            }
            env.sleep(PAUSE).await;
        }
    }

    /// Temporal's own client that this connection uses: for calls that have no method here.
    #[must_use]
    pub const fn client(&self) -> &temporalio_client::Connection {
        &self.inner
    }

    /// Where the cluster is.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }
}

fn wanted(options: &ConnectOptions, url: &Url) -> ConnectionOptions {
    let tls = (url.scheme() == "https").then(|| options.tls.clone().unwrap_or_default()).map(|tls| {
        let client = tls.client.map(|client| {
            ClientTlsOptions::builder().client_cert(client.certificate).client_private_key(client.key).build()
        });
        TlsOptions::builder()
            .maybe_server_root_ca_cert(tls.ca)
            .maybe_domain(tls.server_name)
            .maybe_client_tls_options(client)
            .build()
    });
    ConnectionOptions::new(url.clone())
        .identity(options.identity.clone())
        .maybe_api_key(options.api_key.clone())
        .maybe_tls_options(tls)
        .client_name(CLIENT_NAME)
        .client_version(CLIENT_VERSION)
        .build()
}

/// Whether a retry may succeed: no server listens yet, or one listens that has not finished starting.
fn is_early(error: &ClientConnectError) -> bool {
    match error {
        ClientConnectError::TonicTransportError(error) => is_refused(error),
        ClientConnectError::SystemInfoCallError(status) => match status.source() {
            Some(source) => is_refused(source),
            None => {
                matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted)
            }
        },
        _ => false,
    }
}

fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.any(|error| {
        let error = error.downcast_ref::<std::io::Error>();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    })
}

fn explain(error: ClientConnectError, url: &Url) -> ConnectError {
    let url = url.clone();
    match error {
        ClientConnectError::SystemInfoCallError(status) => explain_status(&status, url),
        ClientConnectError::TonicTransportError(error) => {
            ConnectError::Unreachable { url, reason: deepest(&error) }
        }
        ClientConnectError::DnsResolutionError { source, .. } => {
            ConnectError::Unreachable { url, reason: source.to_string() }
        }
        error => ConnectError::Options(format!("{url}: {error}")),
    }
}

fn explain_status(status: &Status, url: Url) -> ConnectError {
    let reason = status.source().map_or_else(|| status.message().to_owned(), deepest);
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => ConnectError::Refused { url, reason },
        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted => {
            ConnectError::Unreachable { url, reason }
        }
        _ => ConnectError::BadAnswer { url, reason },
    }
}

/// The innermost cause of an error: the errors around it only say "transport error".
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.last().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_made_whole_or_refused() {
        let key = || Some("key".to_owned());
        let tls = || Some(Tls::default());
        type Row<'a> = (&'a str, Option<String>, Option<Tls>, Result<&'a str, &'a str>);
        let table: [Row<'_>; 14] = [
            ("127.0.0.1:7233", None, None, Ok("http://127.0.0.1:7233/")),
            ("http://localhost", None, None, Ok("http://localhost:7233/")),
            ("https://here:443", None, None, Ok("https://here/")),
            ("http://here:80", None, None, Ok("http://here/")),
            ("[::1]:9", None, None, Ok("http://[::1]:9/")),
            ("[::1]", None, None, Ok("http://[::1]:7233/")),
            ("here", key(), None, Ok("https://here:7233/")),
            ("here:1", None, tls(), Ok("https://here:1/")),
            ("https://here:1/", key(), tls(), Ok("https://here:1/")),
            ("http://here:1", key(), None, Err("write https://")),
            ("http://here:1", None, tls(), Err("write https://")),
            ("ftp://here", None, None, Err("write http:// or https://")),
            ("http://here/ui", None, None, Err("write HOST:PORT")),
            ("http://", None, None, Err("write HOST:PORT")),
        ];
        for (url, api_key, tls, expected) in table {
            let target = ConnectOptions { api_key, tls, ..ConnectOptions::new(url) }.target();
            match (target, expected) {
                (Ok(target), Ok(expected)) => assert_eq!(target.as_str(), expected, "{url}"),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{url}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Invalid);
                }
                (target, expected) => panic!("{url}: {target:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let client = ClientCertificate { certificate: b"secret".to_vec(), key: b"secret".to_vec() };
        let tls = Tls { ca: Some(b"secret".to_vec()), client: Some(client), server_name: None };
        let options = ConnectOptions {
            api_key: Some("secret".to_owned()),
            tls: Some(tls),
            ..ConnectOptions::new("here")
        };
        let printed = format!("{options:?}");
        assert!(!printed.contains("secret") && printed.contains("here"), "{printed}");
        assert!(!printed.contains(&format!("{:?}", b"secret")), "{printed}");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_waited_for_and_then_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let options = ConnectOptions { timeout: Duration::from_millis(250), ..ConnectOptions::new(&address) };
        let env = Env::real();
        let start = env.instant();
        let error = Connection::connect(&env, &options).await.unwrap_err();
        assert!(env.instant() - start >= PAUSE, "it was asked again");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains(&address) && text.contains("refused") && text.contains("start-dev"), "{text}");
    }
}
