//! The client.

use std::sync::Arc;

use seriatim_api::{Application as Definition, NamedPartition, Readiness};
use seriatim_env::Env;

use crate::admin::Admin;
use crate::application::Application;
use crate::blocks::Blocks;
use crate::call::Call;
use crate::error::ClientError;
use crate::http_transport::HttpTransport;
use crate::options::ClientOptions;
use crate::series::Series;
use crate::transport::Transport;
use crate::url::ServerUrl;
use crate::workflows::{Workflow, Workflows};

/// A client of one server. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    env: Env,
    transport: Arc<dyn Transport>,
    options: ClientOptions,
}

impl Client {
    /// A client of the server at an address. It sends nothing before the first call.
    ///
    /// # Errors
    ///
    /// [`ClientError::Options`] if the token or the certificates cannot be used.
    pub fn connect(env: Env, url: ServerUrl, options: ClientOptions) -> Result<Self, ClientError> {
        let transport = HttpTransport::new(url, &options)?;
        Ok(Self::with_transport(env, Arc::new(transport), options))
    }

    /// A client that sends its requests through another transport. It ignores the options about connections and tokens.
    #[must_use]
    pub fn with_transport(env: Env, transport: Arc<dyn Transport>, options: ClientOptions) -> Self {
        Self { inner: Arc::new(Inner { env, transport, options }) }
    }

    /// A series: gap-free numbers by name.
    #[must_use]
    pub fn series(&self, name: &str) -> Series {
        Series::new(self.clone(), name)
    }

    /// A page of the series: those after a name.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn series_list(&self, after: Option<&str>) -> Result<seriatim_api::SeriesList, ClientError> {
        Call::get("/v1/series").query("after", after).send(self).await
    }

    /// A block sequence: ids that may have gaps.
    #[must_use]
    pub fn blocks(&self, name: &str) -> Blocks {
        Blocks::new(self.clone(), name)
    }

    /// A page of the block sequences: those after a name.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn blocks_list(
        &self,
        after: Option<&str>,
    ) -> Result<seriatim_api::BlockSequences, ClientError> {
        Call::get("/v1/blocks").query("after", after).send(self).await
    }

    /// The definitions of the applications.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn applications(&self) -> Result<Vec<Definition>, ClientError> {
        Call::get("/v1/apps").send(self).await
    }

    /// The state of all partitions that the token may read, including those of built-in applications.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn partitions(&self) -> Result<Vec<NamedPartition>, ClientError> {
        Call::get("/v1/partitions").send(self).await
    }

    /// An application.
    #[must_use]
    pub fn application(&self, name: &str) -> Application {
        Application::new(self.clone(), name)
    }

    /// The workflows: starting and listing them.
    #[must_use]
    pub fn workflows(&self) -> Workflows {
        Workflows::new(self.clone())
    }

    /// A workflow, by its id.
    #[must_use]
    pub fn workflow(&self, id: &str) -> Workflow {
        Workflow::new(self.clone(), id)
    }

    /// Operations that need the scope `admin`.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// Whether the server can give out numbers, and what prevents it. A server that cannot is a result here, not an error.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn readiness(&self) -> Result<Readiness, ClientError> {
        Call::get("/readyz").accept_unavailable().send(self).await
    }

    pub(crate) fn env(&self) -> &Env {
        &self.inner.env
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.inner.transport
    }

    pub(crate) fn place(&self) -> String {
        self.inner.transport.place()
    }

    /// A random key, unique in practice.
    pub(crate) fn new_key(&self) -> String {
        let mut bytes = [0; 16];
        self.inner.env.random_bytes(&mut bytes);
        format!("{:032x}", u128::from_be_bytes(bytes))
    }
}
