//! `seriatim inspect`.

mod blocks;
mod events;
mod partitions;
mod records;
mod sequences;
mod series;
mod workspaces;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::CliError;
use crate::output::Listing;

/// Shows partitions, workspaces, sequences, events, records, series and blocks.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim inspect partitions
  seriatim inspect workspaces --app shop
  seriatim inspect sequences --app shop --workspace corner
  seriatim inspect events --app shop --workspace corner --follow
  seriatim inspect records --app shop --workspace corner --type Invoice
  seriatim inspect series
  seriatim inspect blocks --storage file:./seriatim-data")]
pub(crate) struct Inspect {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Partitions(partitions::Partitions),
    Workspaces(workspaces::Workspaces),
    Sequences(sequences::Sequences),
    Events(events::Events),
    Records(records::Records),
    Series(series::Series),
    Blocks(blocks::Blocks),
}

impl Inspect {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.what {
            What::Partitions(partitions) => partitions.run(context).await,
            What::Workspaces(workspaces) => workspaces.run(context).await,
            What::Sequences(sequences) => sequences.run(context).await,
            What::Events(events) => events.run(context).await,
            What::Records(records) => records.run(context).await,
            What::Series(series) => series.run(context).await,
            What::Blocks(blocks) => blocks.run(context).await,
        }
    }
}
