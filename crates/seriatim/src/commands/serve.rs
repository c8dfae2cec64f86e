//! `seriatim serve`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use seriatim::StorageUrl;
use seriatim_engine::definition::{Application, shop};
use seriatim_engine::{App, Engine, Options, PartitionStatus};
use seriatim_env::{Env, Shutdown};
use seriatim_server::{Server, TlsFiles};
use seriatim_storage::memory::MemoryStorage;
use seriatim_storage::{Log, Storage};
use seriatim_workflow_host::{WorkflowHost, demo};
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tracing::Level;

use crate::context::Context;
use crate::error::CliError;
use crate::running::{announce, report, start_logging, stop_on_signals};
use crate::settings::{Flags, ListenAddress, Settings};
use crate::target::{is_new, workflows};

/// Connections that the system keeps waiting until the server accepts them.
const BACKLOG: u32 = 1_024;

/// Runs the server.
///
/// Series, block sequences and the demo workflows `greet` and `order` are always available; applications are given with --app.
/// On SIGTERM or SIGINT the server finishes the requests in progress, flushes, and exits with 0. Every flag is a setting too:
/// `seriatim config` shows each value and where it comes from.
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
        let served = serve(context, &settings).await;
        served.map_err(|error| report(&context.env, &settings, error))
    }
}

/// Runs the server. Everything that does not need the storage is checked before the storage is opened, so that a refused start
/// does not create one.
async fn serve(context: &Context, settings: &Settings) -> Result<(), CliError> {
    let (env, url) = (&context.env, settings.get::<StorageUrl>("storage")?);
    let (engine_options, options) = (settings.engine_options()?, settings.server_options()?);
    let host_options = settings.host_options()?;
    options.tls.as_ref().map(TlsFiles::check).transpose().map_err(refused)?;
    let socket = Socket::bind(settings.get("listen")?).await?;
    // A setting without an effect is an error: the operator expects one.
    let local = settings.find::<String>("local")?;
    let storage_options = settings.storage_options(&url, local.as_deref().map(Path::new))?;
    if url.is_shared() {
        try_in_memory(env, applications(settings)?, engine_options).await?;
    }
    if is_new(&url) {
        if !socket.is_loopback()? {
            return Err(without_tokens(&socket, &url));
        }
        try_in_memory(env, applications(settings)?, engine_options).await?;
    }
    let apps = applications(settings)?;
    let stop = stop_on_signals(env)?;
    let metrics = metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder();
    let metrics = metrics.map_err(CliError::unavailable)?;
    let storage = url.open(env, storage_options).await?;
    let (log, store) = (storage.log().clone(), storage.store().clone());
    if !socket.is_loopback()? && !has_tokens(env, &url, &storage, engine_options).await? {
        storage.close().await?;
        return Err(without_tokens(&socket, &url));
    }
    let engine = Engine::open(env.clone(), log, store, apps, engine_options).await?;
    let storage = Arc::new(storage);
    let (code, activities) = (demo::workflows(), demo::activities());
    let host = WorkflowHost::open(env.clone(), engine.clone(), code, activities, host_options);
    let server = Server::new(engine.clone()).storage(storage.clone()).metrics(Some(metrics)).options(options);
    let deposed = Arc::new(OnceLock::new());
    if url.is_shared() {
        let watching = watch_holder(engine.clone(), storage.log().clone(), deposed.clone(), stop.clone());
        drop(env.spawn(watching));
    }
    let served = listen(env, settings, socket, server.workflows(host.clone()), stop).await;
    let served = match deposed.get() {
        Some(holder) => Err(CliError::unavailable(format!(
            "another server has taken over this storage: {holder}; this one has ended. Everything that it acknowledged is in the log"
        ))),
        None => served,
    };
    host.close().await;
    engine.close().await;
    if let Some(storage) = Arc::into_inner(storage) {
        storage.close().await?;
    }
    served
}

/// Opens an engine in memory and closes it: invalid definitions and options fail here, before the storage is opened.
async fn try_in_memory(env: &Env, apps: Vec<App>, options: Options) -> Result<(), CliError> {
    let storage = Storage::new(MemoryStorage::new());
    let (log, store) = (storage.log().clone(), storage.store().clone());
    Engine::open(env.clone(), log, store, apps, options).await?.close().await;
    Ok(storage.close().await?)
}

/// How often a server on a shared log checks whether another one has taken it over. A server that appends notices it at once; this is
/// for one that only reads.
const HOLDER_INTERVAL: Duration = Duration::from_secs(10);

/// Stops the server when another one has taken over any of its partitions. A server owns all of them or ends: otherwise it would
/// answer with what it knew before.
async fn watch_holder(engine: Engine, log: Log, deposed: Arc<OnceLock<String>>, stop: Shutdown) {
    let env = engine.env().clone();
    let mut looked = env.instant();
    while !stop.is_cancelled() {
        env.sleep(Duration::from_millis(500)).await;
        let elsewhere = engine.all_partitions().into_iter().find_map(|(_, state)| match state.status {
            PartitionStatus::Elsewhere { holder } => {
                Some(holder.map_or_else(String::new, |holder| holder.to_string()))
            }
            _ => None,
        });
        let now = env.instant();
        let held = if elsewhere.is_none() && now.saturating_duration_since(looked) >= HOLDER_INTERVAL {
            looked = now;
            // If the log does not answer, the commands say so.
            log.holder(engine.registry_partition()).await.ok().flatten()
        } else {
            None
        };
        let other = held.map(|held| held.take.holder).filter(|holder| holder != engine.holder());
        if let Some(holder) = elsewhere.or_else(|| other.map(|holder| holder.to_string())) {
            let _ = deposed.set(holder);
            stop.cancel();
        }
    }
}

/// Whether a storage has tokens. No application is opened, so that a refused start registers none. A log elsewhere is only read.
async fn has_tokens(
    env: &Env,
    url: &StorageUrl,
    storage: &Storage,
    options: Options,
) -> Result<bool, CliError> {
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let engine = if url.is_shared() {
        if log.partitions().await?.is_empty() {
            return Ok(false);
        }
        Engine::look(env.clone(), log, store, [], options).await?
    } else {
        Engine::open(env.clone(), log, store, [], options).await?
    };
    let found = !engine.tokens().is_empty();
    engine.close().await;
    Ok(found)
}

fn without_tokens(socket: &Socket, url: &StorageUrl) -> CliError {
    let advice = match url {
        StorageUrl::Memory => {
            "listen on 127.0.0.1; a storage in memory has no tokens when it starts".to_owned()
        }
        url => format!(
            "listen on 127.0.0.1, or make a token first with `seriatim token create --scope '*:admin' --storage {url}`"
        ),
    };
    CliError::usage(format!(
        "{} can be reached from other machines, and there are no tokens, so any machine could use it: {advice}",
        socket.address
    ))
}

/// A port that is bound and does not accept connections yet. Until the server is ready, clients are refused immediately.
struct Socket {
    socket: TcpSocket,
    /// The address of the setting `listen`.
    address: ListenAddress,
}

impl Socket {
    async fn bind(address: ListenAddress) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| CliError::unavailable(format!("{address}: {error}"));
        let mut found: Vec<SocketAddr> = lookup_host(address.as_str()).await.map_err(failed)?.collect();
        // `localhost` has addresses of IPv4 and IPv6. IPv4 is tried first, because clients use 127.0.0.1 by default.
        found.sort_by_key(SocketAddr::is_ipv6);
        let mut problem = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        for candidate in found {
            match bind(candidate) {
                Ok(socket) => return Ok(Self { socket, address }),
                Err(error) => problem = error,
            }
        }
        Err(failed(problem))
    }

    fn is_loopback(&self) -> Result<bool, CliError> {
        Ok(self.socket.local_addr().map_err(CliError::unavailable)?.ip().is_loopback())
    }

    fn listen(self) -> Result<TcpListener, CliError> {
        let Self { socket, address } = self;
        socket.listen(BACKLOG).map_err(|error| CliError::unavailable(format!("{address}: {error}")))
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The port can be used again while the system still closes its last connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Answers requests until `stop` is cancelled.
async fn listen(
    env: &Env,
    settings: &Settings,
    socket: Socket,
    server: Server,
    stop: Shutdown,
) -> Result<(), CliError> {
    let listener = socket.listen()?;
    let address = listener.local_addr().map_err(CliError::unavailable)?;
    let scheme = if settings.server_options()?.tls.is_some() { "https" } else { "http" };
    let (at, url) = (format!("{scheme}://{address}"), settings.get::<StorageUrl>("storage")?);
    server.check(&listener).map_err(refused)?;
    let ready = format!("seriatim listens on {at}, console {at}/, storage {url}, stop it with Ctrl-C");
    announce(env, settings, Level::INFO, &ready)?;
    server.serve(listener, stop).await.map_err(refused)
}

/// Invalid files are an error of usage: the caller can correct them.
fn refused(error: std::io::Error) -> CliError {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => CliError::usage(error.to_string()),
        _ => CliError::unavailable(error),
    }
}

fn applications(settings: &Settings) -> Result<Vec<App>, CliError> {
    let paths = settings.apps();
    let mut apps = vec![workflows()?];
    if paths.is_empty() {
        apps.push(App::new(shop()));
    }
    for path in &paths {
        apps.push(App::new(read_application(path)?));
    }
    Ok(apps)
}

fn read_application(path: &Path) -> Result<Application, CliError> {
    let wrong = |error: String| CliError::usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Application::from_toml(&text).map_err(|error| wrong(error.to_string()))
}
