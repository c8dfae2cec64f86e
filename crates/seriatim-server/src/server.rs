//! Running the API.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use metrics_exporter_prometheus::PrometheusHandle;
use seriatim_engine::Engine;
use seriatim_engine::definition::Schema;
use seriatim_env::{Env, Shutdown};
use seriatim_storage::Storage;
use seriatim_workflow_host::WorkflowHost;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::accept::{Connections, HEADER_BYTES_MIN, check_listen_address};
use crate::local::LocalApi;
use crate::metrics::{HttpMetrics, run_upkeep};
use crate::middleware::Middleware;
use crate::options::ServerOptions;
use crate::problem::Problem;
use crate::stuck::StuckDetector;
use crate::{routes, tls};

/// A handle to the state that all routes share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Api(Arc<ApiState>);

/// The state that all routes share.
#[derive(Debug)]
pub(crate) struct ApiState {
    pub(crate) env: Env,
    pub(crate) engine: Engine,
    /// The storage that is backed up; none if the caller did not give it to the server.
    pub(crate) storage: Option<Arc<Storage>>,
    pub(crate) metrics: Option<PrometheusHandle>,
    pub(crate) http: HttpMetrics,
    /// The OpenAPI document.
    pub(crate) document: Bytes,
    pub(crate) stuck: StuckDetector,
    /// The host that runs workflows; none if this server runs no workflows.
    pub(crate) workflows: Option<WorkflowHost>,
    /// Held while the doctor runs: one run at a time.
    pub(crate) doctor: tokio::sync::Mutex<()>,
    /// Ends tasks and streams that have no end of their own.
    pub(crate) stop: Shutdown,
}

impl Deref for Api {
    type Target = ApiState;

    fn deref(&self) -> &ApiState {
        &self.0
    }
}

impl Api {
    pub(crate) fn schema(&self, application: &str) -> Result<&Schema, Problem> {
        let schema = self.engine.schema(application);
        schema.ok_or_else(|| Problem::not_found(format!("application {application} does not exist")))
    }
}

/// A server that is about to run.
///
/// ```no_run
/// # async fn example(engine: seriatim_engine::Engine) -> std::io::Result<()> {
/// use seriatim_env::Shutdown;
/// use seriatim_server::Server;
///
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:7400").await?;
/// Server::new(engine).serve(listener, Shutdown::new()).await
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    storage: Option<Arc<Storage>>,
    metrics: Option<PrometheusHandle>,
    options: ServerOptions,
    workflows: Option<WorkflowHost>,
    routes: Router,
}

impl Server {
    /// A server with the default options.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            storage: None,
            metrics: None,
            options: ServerOptions::default(),
            workflows: None,
            routes: Router::new(),
        }
    }

    /// With other options.
    #[must_use]
    pub fn options(mut self, options: ServerOptions) -> Self {
        self.options = options;
        self
    }

    /// Serves these metrics.
    #[must_use]
    pub fn metrics(mut self, metrics: Option<PrometheusHandle>) -> Self {
        self.metrics = metrics;
        self
    }

    /// The storage that the engine runs on: for backups, the doctor and the check of free space.
    #[must_use]
    pub fn storage(mut self, storage: Arc<Storage>) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Checks what [`Server::serve`] would refuse, so that an error is known before the server is announced as ready.
    ///
    /// # Errors
    ///
    /// As [`Server::serve`].
    pub fn check(&self, listener: &TcpListener) -> std::io::Result<()> {
        check_listen_address(listener, !self.engine.tokens().is_empty())?;
        self.options.tls.as_ref().map(tls::acceptor).transpose().map(drop)
    }

    /// The same routes inside this process, without a socket, tokens or limits: for the program that holds the storage.
    #[must_use]
    pub fn local(self) -> LocalApi {
        let (router, api) =
            assemble(self.engine, self.storage, self.metrics, self.workflows, Shutdown::new());
        LocalApi::new(router.with_state(api))
    }

    /// Serves the workflows of this host.
    #[must_use]
    pub fn workflows(mut self, workflows: WorkflowHost) -> Self {
        self.workflows = Some(workflows);
        self
    }

    /// Adds routes to those of the API. Routes below `/v1` need a token, as those of the API do.
    #[must_use]
    pub fn routes(mut self, routes: Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Answers requests until `stop` is cancelled. Then it finishes requests in progress and ends streams.
    ///
    /// # Errors
    ///
    /// If other machines can reach the listener and there are no tokens; if the TLS files are not valid.
    pub async fn serve(self, listener: TcpListener, stop: Shutdown) -> std::io::Result<()> {
        let Self { engine, storage, metrics, options, workflows, routes: own } = self;
        let loopback = check_listen_address(&listener, !engine.tokens().is_empty())?;
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        if tls.is_none() && !loopback {
            tracing::warn!(
                "tokens are sent without encryption: set up TLS, or use a proxy with TLS in front of the server"
            );
        }
        let env = engine.env().clone();
        let (router, api) = assemble(engine, storage, metrics, workflows, stop.clone());
        if let Some(handle) = api.metrics.clone() {
            drop(env.spawn(run_upkeep(env.clone(), handle, stop.clone())));
        }
        let checks = env.spawn(crate::stuck::check_periodically(api.clone(), options.stuck_after));
        let middleware = Middleware {
            router: router
                .with_state(api.clone())
                .merge(own)
                .layer(DefaultBodyLimit::max(options.body_bytes_max)),
            api,
            loopback,
            requests: Arc::new(Semaphore::new(options.requests_max.clamp(1, Semaphore::MAX_PERMITS))),
            request_timeout: options.request_timeout,
            header_bytes_max: options.header_bytes_max.max(HEADER_BYTES_MIN),
            next_id: AtomicU64::new(env.random()),
        };
        let connections =
            Connections { env, middleware: Arc::new(middleware), tls, options: Arc::new(options), stop };
        connections.run(listener).await;
        // The task ends when `stop` is cancelled.
        let _ = checks.await;
        Ok(())
    }
}

/// The routes and the state that they share.
fn assemble(
    engine: Engine,
    storage: Option<Arc<Storage>>,
    metrics: Option<PrometheusHandle>,
    workflows: Option<WorkflowHost>,
    stop: Shutdown,
) -> (Router<Api>, Api) {
    let (router, document) = routes::router();
    let api = Api(Arc::new(ApiState {
        env: engine.env().clone(),
        engine,
        storage,
        metrics,
        http: HttpMetrics::new(),
        document,
        stuck: StuckDetector::default(),
        workflows,
        doctor: tokio::sync::Mutex::default(),
        stop,
    }));
    (router, api)
}

/// Answers requests until `shutdown` is cancelled: [`Server`] in one call.
///
/// # Errors
///
/// As [`Server::serve`].
pub async fn serve(
    listener: TcpListener,
    engine: Engine,
    metrics: Option<PrometheusHandle>,
    options: ServerOptions,
    shutdown: Shutdown,
) -> std::io::Result<()> {
    Server::new(engine).metrics(metrics).options(options).serve(listener, shutdown).await
}
