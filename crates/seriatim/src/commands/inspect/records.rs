//! `seriatim inspect records`.

use clap::{ArgGroup, Args};
use seriatim_api::Record;

use super::super::workspace::WorkspaceName;
use super::Listing;
use crate::context::Context;
use crate::error::CliError;
use crate::output::or_dash;
use crate::target::Target;

/// Records of a workspace: all of a type, or the one with an id.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("which").required(true).args(["document", "id"]),
    after_help = "\
Examples:
  seriatim inspect records --app shop --workspace corner --type Invoice
  seriatim inspect records --app shop --workspace corner --id 322680000131072 --json"
)]
pub(super) struct Records {
    /// The application.
    #[arg(long)]
    app: String,
    /// The workspace: its id or its name.
    #[arg(long)]
    workspace: WorkspaceName,
    /// The document.
    #[arg(long = "type", value_name = "DOCUMENT")]
    document: Option<String>,
    /// The record.
    #[arg(long)]
    id: Option<u64>,
    /// Only records after this id.
    #[arg(long, value_name = "ID", requires = "document")]
    after: Option<u64>,
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Records {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let work = async |client: &seriatim_client::Client| {
            let workspace = self.workspace.find(client, &self.app).await?;
            Ok(match (self.id, &self.document) {
                (Some(id), _) => vec![workspace.record(id).await?],
                (None, Some(document)) => workspace.records(document, self.after, self.limit).await?.records,
                (None, None) => Vec::new(),
            })
        };
        let records = self.target.read(context, work).await?;
        let mut listing = Listing::new(self.json, &["id", "type", "parent", "fields"]);
        listing.page(&records, |Record { id, document, fields, parent, .. }| {
            let fields = serde_json::Value::Object(fields.clone()).to_string();
            vec![id.to_string(), or_dash(document.as_ref()), or_dash(*parent), fields]
        })?;
        listing.end()
    }
}
