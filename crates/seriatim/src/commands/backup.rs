//! `seriatim backup`.

use std::path::PathBuf;

use clap::Args;
use seriatim_api::{BackupReport, PartitionTail};

use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::target::{Target, open_storage};

/// Makes a backup: a copy of the log, from which everything else is derived.
///
/// Through a running server, which continues to work meanwhile and writes to a folder on its own machine; or of a storage that
/// no server holds. The backup contains everything that was acknowledged before it began.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim backup /var/backups/seriatim/monday
  seriatim backup ./monday --storage file:./seriatim-data --json")]
pub(crate) struct Backup {
    /// A folder that is empty or does not exist.
    destination: PathBuf,
    /// The report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Backup {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        // The server has another working directory.
        let destination = std::path::absolute(&self.destination).map_err(CliError::unavailable)?;
        let report = match self.target.storage()? {
            Some(url) => {
                let storage = open_storage(context, &context.settings()?, url, self.target.local()).await?;
                let made = match storage.as_backup() {
                    Some(storage) => storage.backup(&destination).await.map_err(CliError::from),
                    None => Err(CliError::usage("a storage in memory has no backup")),
                };
                storage.close().await?;
                report_of(&destination.to_string_lossy(), &made?)
            }
            None => {
                let text = destination.to_str();
                let text =
                    text.ok_or_else(|| CliError::usage("the destination's path is not valid Unicode"))?;
                self.target.with(context, async |client| Ok(client.admin().backup(text).await?)).await?
            }
        };
        let mut output = Output::new();
        if self.json {
            output.json(&report)?;
        } else {
            let BackupReport { destination, bytes, entries, .. } = &report;
            output.line(format!("{destination}: {entries} events, {bytes} bytes"))?;
        }
        output.flush()
    }
}

fn report_of(destination: &str, report: &seriatim_storage::BackupReport) -> BackupReport {
    let tail =
        |(partition, tail): (&seriatim_types::Partition, &seriatim_types::PartitionOffset)| PartitionTail {
            application: partition.application.get(),
            partition: partition.id.get(),
            tail: tail.get(),
        };
    BackupReport {
        destination: destination.to_owned(),
        bytes: report.bytes,
        frames: report.frames,
        entries: report.entries,
        tails: report.tails.iter().map(tail).collect(),
    }
}
