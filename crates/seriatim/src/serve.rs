//! `seriatim serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use seriatim_engine::definition::{Application, shop};
use seriatim_engine::{App, Engine, Options};
use seriatim_env::{Env, Shutdown};
use seriatim_server::{ServerOptions, serve};
use seriatim_storage_file::{FileOptions, Storage, StorageUrl};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::CliError;

/// Runs the server.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen.
    #[arg(long, env = "SERIATIM_LISTEN", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// Where the data lives: file:DIRECTORY or memory:.
    #[arg(long, env = "SERIATIM_STORAGE", default_value = "file:./seriatim-data")]
    storage: StorageUrl,
    /// An application's definition; may be given more than once. Without it the demo application `shop` is served.
    #[arg(long = "app", value_name = "FILE")]
    apps: Vec<PathBuf>,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<(), CliError> {
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter()).init();
        if !self.listen.ip().is_loopback() {
            let listen = self.listen;
            return Err(CliError::Usage(format!(
                "there are no tokens, so it listens on loopback only, not on {listen}: use 127.0.0.1"
            )));
        }
        let apps = self.applications()?;
        let env = Env::real();
        let stop = stop_on_signals(&env)?;
        let metrics = metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder();
        let metrics = metrics.map_err(unavailable)?;
        let storage =
            Storage::open(&env, &self.storage, FileOptions::default()).await.map_err(unavailable)?;
        let (log, store) = (storage.log().clone(), storage.store().clone());
        let engine =
            Engine::open(env.clone(), log, store, apps, Options::default()).await.map_err(unavailable)?;
        let listener = TcpListener::bind(self.listen).await.map_err(unavailable)?;
        let address = listener.local_addr().map_err(unavailable)?;
        eprintln!("seriatim listens on http://{address}, storage {}, stop it with Ctrl-C", self.storage);
        let served = serve(listener, engine.clone(), Some(metrics), ServerOptions::default(), stop).await;
        engine.close().await;
        storage.close().await.map_err(unavailable)?;
        served.map_err(unavailable)
    }

    fn applications(&self) -> Result<Vec<App>, CliError> {
        if self.apps.is_empty() {
            return Ok(vec![App::new(shop())]);
        }
        self.apps.iter().map(|path| read_application(path).map(App::new)).collect()
    }
}

fn read_application(path: &Path) -> Result<Application, CliError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))?;
    Application::from_toml(&text).map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))
}

fn filter() -> tracing_subscriber::EnvFilter {
    tracing_subscriber::EnvFilter::try_from_env("SERIATIM_LOG").unwrap_or_else(|_| "warn".into())
}

fn unavailable(error: impl std::fmt::Display) -> CliError {
    CliError::Unavailable(error.to_string())
}

/// Told by SIGTERM and SIGINT.
fn stop_on_signals(env: &Env) -> Result<Shutdown, CliError> {
    let stop = Shutdown::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signal = signal(kind).map_err(unavailable)?;
        let told = stop.clone();
        drop(env.spawn(async move {
            signal.recv().await;
            told.cancel();
        }));
    }
    Ok(stop)
}
