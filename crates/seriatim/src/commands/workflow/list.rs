//! `seriatim workflow list`.

use clap::Args;
use seriatim_api::WorkflowSummary;

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Listing, or_dash};
use crate::target::ServerTarget;

/// Workflows per request.
const PAGE: u32 = 1_000;

/// Lists workflows, each with its newest run.
///
/// The status `stuck` lists running workflows whose code could not continue when this server tried it. A server that has just
/// started finds them one after the other.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow list
  seriatim workflow list --status running --json
  seriatim workflow list --status stuck")]
pub(super) struct List {
    /// Only this status: running, completed, failed, cancelled, terminated, timed_out, continued_as_new or stuck.
    #[arg(long)]
    status: Option<String>,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerTarget,
}

impl List {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let workflows = self.server.client(context)?.workflows();
        let mut listing = Listing::new(self.json, &["workflow", "type", "status", "run", "started", "ended"]);
        let row = |one: &WorkflowSummary| {
            let (id, of, status) = (one.id.clone(), one.workflow_type.clone(), one.status.clone());
            vec![id, of, status, one.run.to_string(), one.started.clone(), or_dash(one.ended.as_ref())]
        };
        let mut after = None;
        loop {
            let page = workflows.list(self.status.as_deref(), after, PAGE).await?;
            listing.page(&page.workflows, row)?;
            match page.next {
                Some(next) => after = Some(next),
                None => return listing.end(),
            }
        }
    }
}
