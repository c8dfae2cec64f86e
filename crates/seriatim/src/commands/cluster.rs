//! Flags of commands that connect to a Temporal cluster.

use std::path::PathBuf;

use clap::Args;

use crate::error::CliError;

/// How to connect to a cluster. The address is a flag of each command; its id is `url`.
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    /// The namespace [default: default].
    #[arg(long, value_name = "NAME", requires = "url")]
    namespace: Option<String>,
    /// The namespace's API key. Prefer the environment variable: other processes can read flags.
    #[arg(long, value_name = "KEY", env = "TEMPORAL_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Encrypts the connection, and trusts the issuers that the system trusts. https://, an API key or any flag below does the same.
    #[arg(long, requires = "url")]
    tls: bool,
    /// The certificate of the issuer of the cluster's certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "url")]
    tls_ca: Option<PathBuf>,
    /// The client certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "url", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The client certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "url", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The name in the cluster's certificate, if it is not the one in the address.
    #[arg(long, value_name = "NAME", requires = "url")]
    tls_server_name: Option<String>,
}

/// The error of a program that was built without the feature.
#[cfg(not(feature = "temporal"))]
pub(crate) fn absent(what: &str) -> CliError {
    CliError::usage(format!(
        "this program was built without {what}: build it from source with `cargo build --release -p seriatim --features temporal`"
    ))
}

#[cfg(feature = "temporal")]
mod connected {
    use std::path::Path;

    use seriatim_env::Env;
    use seriatim_temporal::{ClientCertificate, ConnectOptions, Connection, Tls};

    use super::{CliError, Cluster};

    impl Cluster {
        pub(crate) fn namespace(&self) -> &str {
            self.namespace.as_deref().unwrap_or("default")
        }

        /// Connects to the cluster at an address.
        pub(crate) async fn connect(&self, env: &Env, url: &str) -> Result<Connection, CliError> {
            let options = ConnectOptions {
                // An empty variable counts as not set, as for all settings.
                api_key: self.api_key.clone().filter(|key| !key.is_empty()),
                tls: self.tls()?,
                ..ConnectOptions::new(url)
            };
            Ok(Connection::connect(env, &options).await?)
        }

        fn tls(&self) -> Result<Option<Tls>, CliError> {
            let client = match (&self.tls_cert, &self.tls_key) {
                (Some(certificate), Some(key)) => {
                    Some(ClientCertificate { certificate: read(certificate)?, key: read(key)? })
                }
                _ => None,
            };
            let ca = self.tls_ca.as_deref().map(read).transpose()?;
            let tls = Tls { ca, client, server_name: self.tls_server_name.clone() };
            Ok((self.tls || tls != Tls::default()).then_some(tls))
        }
    }

    fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, CliError> {
        let path = path.as_ref();
        std::fs::read(path).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
    }
}
