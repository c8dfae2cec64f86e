//! `seriatim inspect partitions`.

use clap::Args;
use seriatim_api::{NamedPartition, PartitionState, PartitionStatus};

use super::Listing;
use crate::context::Context;
use crate::error::CliError;
use crate::target::Target;

/// The state of each partition.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim inspect partitions
  seriatim inspect partitions --app shop --json")]
pub(super) struct Partitions {
    /// Only this application.
    #[arg(long)]
    app: Option<String>,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

fn status(state: &PartitionState) -> String {
    let status = match state.status {
        PartitionStatus::Recovering => "recovering",
        PartitionStatus::Ready => "ready",
        PartitionStatus::Stopped => "stopped",
        PartitionStatus::Fenced => "fenced",
        PartitionStatus::Standby => "standby",
        PartitionStatus::Elsewhere => "elsewhere",
    };
    match (&state.recovery, &state.reason) {
        (Some(recovery), _) => format!("{status}, {} of {}", recovery.at, recovery.tail),
        (None, Some(reason)) => format!("{status}: {reason}"),
        (None, None) => status.to_owned(),
    }
}

impl Partitions {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let work = async |client: &seriatim_client::Client| {
            let Some(app) = &self.app else { return Ok(client.partitions().await?) };
            let states = client.application(app).partitions().await?;
            Ok(states.into_iter().map(|state| NamedPartition { app: app.clone(), state }).collect())
        };
        let partitions = self.target.read(context, work).await?;
        let columns = ["app", "partition", "next offset", "checkpoint", "unflushed", "status"];
        let mut listing = Listing::new(self.json, &columns);
        listing.page(&partitions, |NamedPartition { app, state }| {
            let numbers =
                [state.next_offset, state.checkpoint, state.unflushed].map(|number| number.to_string());
            let [next, checkpoint, unflushed] = numbers;
            vec![app.clone(), state.partition.to_string(), next, checkpoint, unflushed, status(state)]
        })?;
        listing.end()
    }
}
