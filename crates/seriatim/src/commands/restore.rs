//! `seriatim restore`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use seriatim::StorageUrl;
use seriatim_engine::Engine;
use seriatim_storage::BackupReport;
use seriatim_storage_file::{FileOptions, stage_restore};

use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;

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
    /// The new storage: a folder that is empty or does not exist [default: the setting `storage`].
    #[arg(long, value_name = "URL")]
    storage: Option<StorageUrl>,
    /// The report as JSON.
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let url = match self.storage {
            Some(url) => url,
            None => context.settings()?.get("storage")?,
        };
        let StorageUrl::File(directory) = &url else {
            return Err(CliError::usage(
                "a backup is restored into a folder: name one with --storage file:DIRECTORY",
            ));
        };
        let report = restore(context, &self.backup, directory).await?;
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
