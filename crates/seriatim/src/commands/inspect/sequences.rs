//! `seriatim inspect sequences`.

use clap::Args;

use super::super::workspace::WorkspaceName;
use super::Listing;
use crate::context::Context;
use crate::error::CliError;
use crate::output::or_dash;
use crate::target::Target;

/// The sequences of a workspace: the next number, and how many are left.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim inspect sequences --app shop --workspace corner
  seriatim inspect sequences --app shop --workspace 140737488486400 --json")]
pub(super) struct Sequences {
    /// The application.
    #[arg(long)]
    app: String,
    /// The workspace: its id or its name.
    #[arg(long)]
    workspace: WorkspaceName,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Sequences {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let work = async |client: &seriatim_client::Client| {
            Ok(self.workspace.find(client, &self.app).await?.sequences().await?)
        };
        let sequences = self.target.read(context, work).await?;
        let mut listing = Listing::new(self.json, &["name", "next", "first", "last", "remaining"]);
        listing.page(&sequences, |sequence| {
            let [first, last, remaining] =
                [sequence.first, sequence.last, sequence.remaining].map(|number| number.to_string());
            vec![sequence.name.clone(), or_dash(sequence.next), first, last, remaining]
        })?;
        listing.end()
    }
}
