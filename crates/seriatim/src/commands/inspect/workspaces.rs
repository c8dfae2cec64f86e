//! `seriatim inspect workspaces`.

use clap::Args;
use seriatim_api::Workspace;

use super::Listing;
use crate::context::Context;
use crate::error::CliError;
use crate::output::or_dash;
use crate::target::Target;

/// Workspaces per request.
const PAGE: u32 = 1_000;

/// The workspaces of an application.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim inspect workspaces --app shop
  seriatim inspect workspaces --app shop --after 140737488486400 --json")]
pub(super) struct Workspaces {
    /// The application.
    #[arg(long)]
    app: String,
    /// Only workspaces after this id.
    #[arg(long, value_name = "ID")]
    after: Option<u64>,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Workspaces {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let mut listing = Listing::new(self.json, &["id", "kind", "name"]);
        let work = async |client: &seriatim_client::Client| {
            let application = client.application(&self.app);
            let mut after = self.after;
            loop {
                let page = application.workspaces(after, PAGE).await?;
                listing.page(&page.workspaces, |workspace: &Workspace| {
                    let Workspace { id, kind, name } = workspace;
                    vec![id.to_string(), kind.clone(), or_dash(name.as_ref())]
                })?;
                match page.workspaces.last() {
                    Some(last) => after = Some(last.id),
                    None => return Ok(()),
                }
            }
        };
        self.target.read(context, work).await?;
        listing.end()
    }
}
