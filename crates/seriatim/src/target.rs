//! The target of a command: a server, or a storage that no server holds.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use seriatim::{ParseStorageUrlError, StorageUrl};
use seriatim_client::{Client, ClientOptions, ServerUrl};
use seriatim_engine::{App, Engine, OpenError, PartitionStatus, SubmitError};
use seriatim_storage::Storage;

use crate::context::Context;
use crate::error::CliError;
use crate::local::LocalTransport;
use crate::settings::Settings;

/// The target of a command.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The server [default: http://127.0.0.1:7400].
    #[arg(long, value_name = "URL", conflicts_with = "storage")]
    server: Option<ServerUrl>,
    /// A storage that no server holds, instead of a server.
    #[arg(long, value_name = "URL")]
    storage: Option<GivenUrl>,
    /// The directory for what is derived from a storage whose log is elsewhere [default: the setting `local`].
    #[arg(long, value_name = "DIR", requires = "storage")]
    local: Option<PathBuf>,
}

/// A URL from the command line. What is wrong with it is said when it is used: the parser of the command line would print the whole
/// text, which may have a secret.
#[derive(Debug, Clone)]
pub(crate) struct GivenUrl(Result<StorageUrl, ParseStorageUrlError>);

impl FromStr for GivenUrl {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse()))
    }
}

impl GivenUrl {
    pub(crate) fn get(&self) -> Result<&StorageUrl, CliError> {
        self.0.as_ref().map_err(|error| CliError::usage(error.to_string()))
    }
}

/// The server that a command uses.
#[derive(Debug, Args)]
pub(crate) struct ServerTarget {
    /// The server [default: http://127.0.0.1:7400].
    #[arg(long, value_name = "URL")]
    server: Option<ServerUrl>,
}

impl ServerTarget {
    pub(crate) fn client(&self, context: &Context) -> Result<Client, CliError> {
        client_of(context, &context.settings()?, self.server.as_ref())
    }
}

fn client_of(context: &Context, settings: &Settings, server: Option<&ServerUrl>) -> Result<Client, CliError> {
    let url = match server {
        Some(url) => url.clone(),
        None => settings.get("server")?,
    };
    let ca_certificates = match settings.find::<String>("tls_ca")? {
        Some(path) => {
            let read = std::fs::read(&path);
            Some(read.map_err(|error| CliError::usage(format!("tls_ca {path}: {error}")))?)
        }
        None => None,
    };
    let options = ClientOptions {
        token: settings.find("token")?,
        ca_certificates,
        // On the command line, an unreachable server is an error immediately.
        unreachable_timeout: Duration::ZERO,
        ..ClientOptions::default()
    };
    Ok(Client::connect(context.env.clone(), url, options)?)
}

impl Target {
    /// The storage that was named, if one was.
    pub(crate) fn storage(&self) -> Result<Option<&StorageUrl>, CliError> {
        self.storage.as_ref().map(GivenUrl::get).transpose()
    }

    /// The local directory that was named, if one was.
    pub(crate) fn local(&self) -> Option<&Path> {
        self.local.as_deref()
    }

    /// As [`Target::with`], and creates the storage if it does not exist. The work is tried in memory first, so that work that fails
    /// creates no storage.
    pub(crate) async fn with_new<T>(
        &self,
        context: &Context,
        work: impl AsyncFn(&Client) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let Some(url) = self.storage()?.filter(|url| url.is_shared() || is_new(url)) else {
            return self.with(context, work).await;
        };
        let settings = context.settings()?;
        let options = settings.storage_options(url, self.local())?;
        let memory = StorageUrl::Memory.open(&context.env, settings.file_options()?).await?;
        use_storage(context, &settings, &StorageUrl::Memory, memory, Access::Write, &work).await?;
        let storage = url.open(&context.env, options).await?;
        match url {
            StorageUrl::File(directory) => eprintln!("seriatim: {} is a new storage", directory.display()),
            url if storage.log().partitions().await?.is_empty() => {
                eprintln!("seriatim: {url} is a new storage");
            }
            _ => {}
        }
        use_storage(context, &settings, url, storage, Access::Write, &work).await
    }

    /// Opens the target, calls `work` with a client, and closes the target, also if `work` fails.
    pub(crate) async fn with<T>(
        &self,
        context: &Context,
        work: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        self.with_access(context, Access::Write, work).await
    }

    /// As [`Target::with`], for work that only reads: a storage is followed, and none of its partitions is taken.
    pub(crate) async fn read<T>(
        &self,
        context: &Context,
        work: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        self.with_access(context, Access::Read, work).await
    }

    async fn with_access<T>(
        &self,
        context: &Context,
        access: Access,
        work: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let settings = context.settings()?;
        let Some(url) = self.storage()? else {
            return work(&client_of(context, &settings, self.server.as_ref())?).await;
        };
        let storage = open_storage(context, &settings, url, self.local()).await?;
        use_storage(context, &settings, url, storage, access, work).await
    }
}

/// What is done with a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// It is only read: no partition is taken.
    Read,
    /// The same, of a log that a server may use at the same time.
    ReadShared,
    Write,
}

/// Calls `work` with a client of an open storage, and closes the storage, also if `work` fails.
async fn use_storage<T>(
    context: &Context,
    settings: &Settings,
    url: &StorageUrl,
    storage: Storage,
    access: Access,
    work: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let access = if url.is_shared() && access == Access::Read { Access::ReadShared } else { access };
    let result = match open_engine(context, settings, &storage, access).await {
        Ok(engine) => {
            let transport = Arc::new(LocalTransport::new(engine.clone(), url));
            let client = Client::with_transport(context.env.clone(), transport, ClientOptions::default());
            let result = work(&client).await;
            engine.close().await;
            result
        }
        Err(error) => Err(error),
    };
    let closed = storage.close().await;
    let value = result?;
    closed?;
    Ok(value)
}

/// Opens a storage that exists. Only a server creates a new one; other commands do not.
pub(crate) async fn open_storage(
    context: &Context,
    settings: &Settings,
    url: &StorageUrl,
    local: Option<&Path>,
) -> Result<Storage, CliError> {
    let options = settings.storage_options(url, local)?;
    match url {
        StorageUrl::Shared(_) => {
            let storage = url.open(&context.env, options).await?;
            if storage.log().partitions().await?.is_empty() {
                storage.close().await?;
                return Err(CliError::usage(format!("{url} is empty: a server on it makes it a storage")));
            }
            return Ok(storage);
        }
        StorageUrl::Memory => {
            return Err(CliError::usage("memory: is always a new, empty storage: name a storage on files"));
        }
        StorageUrl::File(directory) if !is_storage(directory) => {
            let directory = directory.display();
            return Err(CliError::usage(format!(
                "{directory} is not a storage of seriatim: name the folder of one"
            )));
        }
        StorageUrl::File(_) => {}
    }
    Ok(url.open(&context.env, options).await?)
}

/// Whether opening this storage would create it: always in memory, and in a folder that is empty or does not exist. For a log
/// elsewhere that is known when it is open.
pub(crate) fn is_new(url: &StorageUrl) -> bool {
    match url {
        StorageUrl::Memory => true,
        StorageUrl::Shared(_) => false,
        StorageUrl::File(directory) => match std::fs::read_dir(directory) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        },
    }
}

/// Whether a folder is a storage, a backup or an unfinished restore. Opening the last two is refused with a reason.
fn is_storage(directory: &Path) -> bool {
    ["SERIATIM", "BACKUP", "RESTORE"].iter().any(|marker| directory.join(marker).exists())
}

/// The built-in application of workflows, which every storage of this program has.
pub(crate) fn workflows() -> Result<App, CliError> {
    Ok(seriatim_workflow_host::app().map_err(OpenError::from)?)
}

/// Opens an engine with the applications of the storage, and waits until it can be read.
async fn open_engine(
    context: &Context,
    settings: &Settings,
    storage: &Storage,
    access: Access,
) -> Result<Engine, CliError> {
    let (env, log, store) = (context.env.clone(), storage.log().clone(), storage.store().clone());
    let known = Engine::stored_applications(env.clone(), log.clone(), store.clone()).await?;
    let options = settings.engine_options()?;
    let apps = || -> Result<Vec<App>, CliError> {
        Ok([workflows()?].into_iter().chain(known.iter().cloned().map(App::new)).collect())
    };
    let open = async |apps| Engine::open(env.clone(), log.clone(), store.clone(), apps, options).await;
    let engine = match access {
        Access::Write => open(apps()?).await?,
        Access::Read | Access::ReadShared => {
            match Engine::look(env.clone(), log.clone(), store.clone(), apps()?, options).await {
                // An earlier version made the storage: the registry has to accept the built-in applications of this one first.
                Err(OpenError::Registry(SubmitError::NotHere { .. })) if access == Access::Read => {
                    open(apps()?).await?
                }
                Err(OpenError::Registry(SubmitError::NotHere { .. })) => {
                    return Err(CliError::unavailable(
                        "an earlier version of seriatim made this storage: start a server of this version on it once",
                    ));
                }
                looked => looked?,
            }
        }
    };
    // Without a time limit: only a partition that has stopped ends the wait.
    while !engine.wait_ready(Duration::from_secs(5)).await {
        for (_, state) in engine.all_partitions() {
            match state.status {
                PartitionStatus::Ready | PartitionStatus::Standby | PartitionStatus::Elsewhere { .. } => {}
                PartitionStatus::Recovering { at, tail, .. } => {
                    eprintln!("seriatim: partition {} recovers: {at} of {tail}", state.partition);
                }
                PartitionStatus::Stopped(reason) => {
                    engine.close().await;
                    let partition = state.partition;
                    return Err(CliError::unavailable(format!(
                        "partition {partition} has stopped: {reason}"
                    )));
                }
            }
        }
    }
    Ok(engine)
}
