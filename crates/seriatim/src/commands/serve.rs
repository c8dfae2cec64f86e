//! `seriatim serve`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use metrics_exporter_prometheus::PrometheusHandle;
use seriatim_engine::definition::{Application, shop};
use seriatim_engine::{App, Engine};
use seriatim_env::Shutdown;
use seriatim_server::Server;
use seriatim_storage_file::{Storage, StorageUrl};
use seriatim_workflow_host::{HostOptions, WorkflowHost, demo};
use tokio::net::TcpListener;

use crate::context::Context;
use crate::error::CliError;
use crate::running::{start_logging, stop_on_signals};
use crate::settings::{Flags, Settings};

/// Runs the server.
///
/// Series, block sequences and the demo workflows `greet` and `order` are always there; applications are given with --app. SIGTERM and SIGINT finish what is in
/// flight, flush, and exit with 0. Every flag is a setting too: `seriatim config` shows what they are and where they come
/// from.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim serve
  seriatim serve --storage file:/var/lib/seriatim --app shop.toml --log-format json --log-level info
  seriatim serve --listen 0.0.0.0:7400 --tls-cert cert.pem --tls-key key.pem    after `seriatim token create`")]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: Flags,
}

impl Serve {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let settings = context.settings_with(self.flags)?;
        start_logging(&settings)?;
        let apps = applications(&settings)?;
        let env = &context.env;
        let stop = stop_on_signals(env)?;
        let metrics = metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder();
        let metrics = metrics.map_err(CliError::unavailable)?;
        let url: StorageUrl = settings.get("storage")?;
        let storage = Storage::open(env, &url, settings.file_options()?).await?;
        let (log, store) = (storage.log().clone(), storage.store().clone());
        let engine = Engine::open(env.clone(), log, store, apps, settings.engine_options()?).await?;
        let storage = Arc::new(storage);
        let (workflows, activities) = (demo::workflows(), demo::activities());
        let host =
            WorkflowHost::open(env.clone(), engine.clone(), workflows, activities, HostOptions::default());
        let served = listen(&settings, &engine, &storage, &host, metrics, stop).await;
        host.close().await;
        engine.close().await;
        if let Some(storage) = Arc::into_inner(storage) {
            storage.close().await?;
        }
        served
    }
}

/// Answers requests until it is told to stop.
async fn listen(
    settings: &Settings,
    engine: &Engine,
    storage: &Arc<Storage>,
    workflows: &WorkflowHost,
    metrics: PrometheusHandle,
    stop: Shutdown,
) -> Result<(), CliError> {
    let (listen, options): (SocketAddr, _) = (settings.get("listen")?, settings.server_options()?);
    if !listen.ip().is_loopback() && engine.tokens().is_empty() {
        let url: StorageUrl = settings.get("storage")?;
        return Err(CliError::usage(format!(
            "{listen} can be reached from other machines, and there are no tokens, so everybody could use it: listen on \
             127.0.0.1, or make a token first with `seriatim token create --scope '*:admin' --storage {url}`"
        )));
    }
    let listener = TcpListener::bind(listen).await;
    let listener = listener.map_err(|error| CliError::unavailable(format!("{listen}: {error}")))?;
    let address = listener.local_addr().map_err(CliError::unavailable)?;
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let (at, url) = (format!("{scheme}://{address}"), settings.get::<StorageUrl>("storage")?);
    let ready = format!("seriatim listens on {at}, console {at}/, storage {url}, stop it with Ctrl-C");
    let server = Server::new(engine.clone()).storage(storage.clone()).metrics(Some(metrics)).options(options);
    let server = server.workflows(workflows.clone());
    server.check(&listener).map_err(refused)?;
    eprintln!("{ready}");
    server.serve(listener, stop).await.map_err(refused)
}

/// Files that are not what they should be are the caller's to mend.
fn refused(error: std::io::Error) -> CliError {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => CliError::usage(error.to_string()),
        _ => CliError::unavailable(error),
    }
}

fn applications(settings: &Settings) -> Result<Vec<App>, CliError> {
    let paths = settings.apps();
    if paths.is_empty() {
        return Ok(vec![App::new(shop())]);
    }
    paths.iter().map(|path| read_application(path).map(App::new)).collect()
}

fn read_application(path: &Path) -> Result<Application, CliError> {
    let wrong = |error: String| CliError::usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Application::from_toml(&text).map_err(|error| wrong(error.to_string()))
}
