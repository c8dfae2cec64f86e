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

use crate::accept::{Gate, HEADER_BYTES_MIN, check_reach};
use crate::front::Front;
use crate::local::LocalApi;
use crate::metrics::{HttpMetrics, keep_up};
use crate::options::ServerOptions;
use crate::problem::Problem;
use crate::stuck::StuckWatch;
use crate::{routes, tls};

/// What the routes share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Api(Arc<Parts>);

/// What the routes share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) env: Env,
    pub(crate) engine: Engine,
    /// What is backed up; none if the caller keeps it to itself.
    pub(crate) storage: Option<Arc<Storage>>,
    pub(crate) metrics: Option<PrometheusHandle>,
    pub(crate) http: HttpMetrics,
    /// What describes the API.
    pub(crate) document: Bytes,
    pub(crate) stuck: StuckWatch,
    /// What runs workflows; none if nothing does.
    pub(crate) workflows: Option<WorkflowHost>,
    /// The doctor looks at one thing at a time.
    pub(crate) doctor: tokio::sync::Mutex<()>,
    /// Ends what would go on for ever.
    pub(crate) stop: Shutdown,
}

impl Deref for Api {
    type Target = Parts;

    fn deref(&self) -> &Parts {
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
    /// A server with the usual options.
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

    /// Shows what is measured.
    #[must_use]
    pub fn metrics(mut self, metrics: Option<PrometheusHandle>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Backs up the storage that the engine runs on, and looks at its room.
    #[must_use]
    pub fn storage(mut self, storage: Arc<Storage>) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Whether it could serve there: what [`Server::serve`] would refuse, told before anybody is told that it is ready.
    ///
    /// # Errors
    ///
    /// As [`Server::serve`].
    pub fn check(&self, listener: &TcpListener) -> std::io::Result<()> {
        check_reach(listener, !self.engine.tokens().is_empty())?;
        self.options.tls.as_ref().map(tls::acceptor).transpose().map(drop)
    }

    /// The same routes inside this process, without a socket, tokens or limits: for whoever holds the storage.
    #[must_use]
    pub fn local(self) -> LocalApi {
        let (router, api) =
            assemble(self.engine, self.storage, self.metrics, self.workflows, Shutdown::new());
        LocalApi::new(router.with_state(api))
    }

    /// Starts and shows workflows of this host.
    #[must_use]
    pub fn workflows(mut self, workflows: WorkflowHost) -> Self {
        self.workflows = Some(workflows);
        self
    }

    /// With routes of one's own beside the API's. Below `/v1` they need a token, as the others do.
    #[must_use]
    pub fn routes(mut self, routes: Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Answers requests until it is told to stop; what is in flight then is finished, and streams are ended.
    ///
    /// # Errors
    ///
    /// If the listener can be reached from other machines and there are no tokens; if the files of TLS are not what they
    /// should be.
    pub async fn serve(self, listener: TcpListener, stop: Shutdown) -> std::io::Result<()> {
        let Self { engine, storage, metrics, options, workflows, routes: own } = self;
        let loopback = check_reach(&listener, !engine.tokens().is_empty())?;
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        if tls.is_none() && !loopback {
            tracing::warn!(
                "tokens are sent in the clear: use TLS, or something in front of the server that does"
            );
        }
        let env = engine.env().clone();
        let (router, api) = assemble(engine, storage, metrics, workflows, stop.clone());
        if let Some(handle) = api.metrics.clone() {
            drop(env.spawn(keep_up(env.clone(), handle, stop.clone())));
        }
        let watch = env.spawn(crate::stuck::watch(api.clone(), options.stuck_after));
        let front = Front {
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
        let gate = Gate { env, front: Arc::new(front), tls, options: Arc::new(options), stop };
        gate.run(listener).await;
        // It ends when it is told to stop.
        let _ = watch.await;
        Ok(())
    }
}

/// The routes, and what they share.
fn assemble(
    engine: Engine,
    storage: Option<Arc<Storage>>,
    metrics: Option<PrometheusHandle>,
    workflows: Option<WorkflowHost>,
    stop: Shutdown,
) -> (Router<Api>, Api) {
    let (router, document) = routes::router();
    let api = Api(Arc::new(Parts {
        env: engine.env().clone(),
        engine,
        storage,
        metrics,
        http: HttpMetrics::new(),
        document,
        stuck: StuckWatch::default(),
        workflows,
        doctor: tokio::sync::Mutex::default(),
        stop,
    }));
    (router, api)
}

/// Answers requests until it is told to stop: [`Server`] in one call.
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
