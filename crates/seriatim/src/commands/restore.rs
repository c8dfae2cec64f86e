//! `seriatim restore`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use seriatim::{OpenStorageError, SharedUrl, StorageOptions, StorageUrl};
use seriatim_engine::Engine;
use seriatim_storage::{BackupReport, Holder, Log, Storage};
use seriatim_storage_file::{FileOptions, SharedStorage, restore_log, stage_restore};

use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::target::GivenUrl;

/// Makes a storage from a backup, and fences it.
///
/// Numbers that were given out after the backup are in use but not in the backup. So the restored storage can be read, and gives
/// out nothing until `seriatim unfence` says which numbers may be in use. The restore verifies every frame of the backup.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim restore /var/backups/seriatim/monday
  seriatim restore ./monday --storage file:./restored
  seriatim unfence --skip 1000 --storage file:./restored")]
pub(crate) struct Restore {
    /// The backup.
    backup: PathBuf,
    /// The new storage: a folder that is empty or does not exist, or a log elsewhere that is empty [default: the setting `storage`].
    #[arg(long, value_name = "URL")]
    storage: Option<GivenUrl>,
    /// The directory for what is derived from a storage whose log is elsewhere [default: the setting `local`].
    #[arg(long, value_name = "DIR")]
    local: Option<PathBuf>,
    /// The report as JSON.
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let settings = context.settings()?;
        let url = match &self.storage {
            Some(url) => url.get()?.clone(),
            None => settings.get("storage")?,
        };
        let report = match &url {
            StorageUrl::File(directory) if self.local.is_none() => {
                restore(context, &self.backup, directory).await?
            }
            StorageUrl::File(_) => return Err(OpenStorageError::NeedlessLocal(url.to_string()).into()),
            StorageUrl::Shared(shared) => {
                let options = settings.storage_options(&url, self.local.as_deref())?;
                restore_shared(context, &self.backup, shared, options).await?
            }
            StorageUrl::Memory => {
                return Err(CliError::usage(
                    "a storage in memory is lost at the end: name another one with --storage file:DIRECTORY",
                ));
            }
        };
        let mut output = Output::new();
        if self.json {
            let BackupReport { bytes, frames, entries, .. } = report;
            let url = url.to_string();
            output.json(&json!({"storage": url, "bytes": bytes, "frames": frames, "entries": entries, "fenced": true}))?;
        } else {
            output.line(format!("{url}: {} events, fenced", report.entries))?;
        }
        output.flush()?;
        eprintln!(
            "seriatim: it can be read, and gives out nothing until you say what was given out after the backup:\n  \
             seriatim unfence --complete --storage {url}          nothing was\n  \
             seriatim unfence --skip 1000 --storage {url}         at most so many of each name\n  \
             seriatim unfence --highest series/NAME=N --storage {url}"
        );
        Ok(())
    }
}

async fn restore(context: &Context, backup: &Path, directory: &Path) -> Result<BackupReport, CliError> {
    let env = &context.env;
    let staged = stage_restore(env, backup, directory).await?;
    let storage = staged.open(FileOptions::default()).await?;
    let fenced = Engine::fence(env.clone(), storage.log().clone(), storage.store().clone()).await;
    storage.close().await?;
    fenced?;
    Ok(staged.finish().await?)
}

/// Restores into an empty log elsewhere. It cannot be opened before it is fenced.
async fn restore_shared(
    context: &Context,
    backup: &Path,
    url: &SharedUrl,
    options: StorageOptions,
) -> Result<BackupReport, CliError> {
    let StorageOptions { files, local } = options;
    let local = local.ok_or_else(|| OpenStorageError::NoLocal(url.to_string()))?;
    let log = url.open(&context.env).await?;
    let restored = restore_into(context, backup, &log, &local, files).await;
    let closed = log.close().await;
    let report = restored?;
    closed?;
    Ok(report)
}

async fn restore_into(
    context: &Context,
    backup: &Path,
    log: &Log,
    local: &Path,
    files: FileOptions,
) -> Result<BackupReport, CliError> {
    let env = &context.env;
    let holder = Holder::new(&format!("restore-{:016x}", env.random()));
    let restored = restore_log(env, backup, log, &holder).await?;
    let storage = Storage::new(SharedStorage::open_restored(env, log.clone(), local, files.local()).await?);
    let fenced = Engine::fence(env.clone(), log.clone(), storage.store().clone()).await;
    let finished = match fenced {
        Ok(()) => restored.finish().await.map_err(CliError::from),
        Err(error) => Err(error.into()),
    };
    storage.close().await?;
    finished?;
    Ok(restored.report().clone())
}
