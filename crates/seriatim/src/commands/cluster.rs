//! A Temporal cluster, as commands are told of it.

use std::path::PathBuf;

use clap::Args;

use crate::error::CliError;

/// What a cluster wants to see of a caller. The address itself is each command's own flag, called `url` among ours.
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    /// The namespace [default: default].
    #[arg(long, value_name = "NAME", requires = "url")]
    namespace: Option<String>,
    /// The namespace's API key; better given in the environment, where other processes do not see it.
    #[arg(long, value_name = "KEY", env = "TEMPORAL_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Encrypts the connection, trusting whom the system trusts. So does https://, an API key or any flag below.
    #[arg(long, requires = "url")]
    tls: bool,
    /// Who has to have signed the cluster's certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "url")]
    tls_ca: Option<PathBuf>,
    /// The certificate to show to the cluster, PEM.
    #[arg(long, value_name = "FILE", requires = "url", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// That certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "url", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The name in the cluster's certificate, where it is not the one in its address.
    #[arg(long, value_name = "NAME", requires = "url")]
    tls_server_name: Option<String>,
}

/// What a program says that cannot do this.
#[cfg(not(feature = "temporal"))]
pub(crate) fn absent(what: &str) -> CliError {
    CliError::usage(format!(
        "{what} is not in this program: build it from its source with `cargo build --release -p seriatim --features temporal`"
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
                // As good as not set, as everywhere in the environment.
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
