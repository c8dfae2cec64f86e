//! `seriatim inspect events`.

use clap::{ArgGroup, Args};
use seriatim_api::Event;
use seriatim_client::Client;

use super::super::workspace::WorkspaceName;
use crate::context::Context;
use crate::error::CliError;
use crate::output::{Output, Table};
use crate::target::Target;

/// Events of a workspace or a partition.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("log").required(true).args(["workspace", "partition"]),
    after_help = "\
Examples:
  seriatim inspect events --app shop --workspace corner
  seriatim inspect events --app shop --workspace corner --follow --json
  seriatim inspect events --app series --partition 0 --from 100 --limit 20"
)]
pub(super) struct Events {
    /// The application; `series` for series.
    #[arg(long)]
    app: String,
    /// The workspace: its id or its name.
    #[arg(long)]
    workspace: Option<WorkspaceName>,
    /// The partition.
    #[arg(long, value_name = "N")]
    partition: Option<u16>,
    /// The first offset.
    #[arg(long, value_name = "OFFSET", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    from: u64,
    /// How many events at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Follows the log: prints new events until the command is stopped, one line per event.
    #[arg(long, conflicts_with = "limit")]
    follow: bool,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

const COLUMNS: [&str; 6] =
    ["partition", "partition offset", "workspace", "workspace offset", "at", "command"];

fn cells(event: &Event) -> [String; 6] {
    let Event { partition, partition_offset, workspace, workspace_offset, at, command, .. } = event;
    [
        partition.to_string(),
        partition_offset.to_string(),
        workspace.to_string(),
        workspace_offset.to_string(),
        at.clone(),
        command.clone(),
    ]
}

impl Events {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let mut output = Output::new();
        self.target.read(context, async |client| self.print(client, &mut output).await).await?;
        output.flush()
    }

    async fn print(&self, client: &Client, output: &mut Output) -> Result<(), CliError> {
        let application = client.application(&self.app);
        let workspace = match &self.workspace {
            Some(name) => Some(name.find(client, &self.app).await?),
            None => None,
        };
        let partition = self.partition.unwrap_or_default();
        if self.follow {
            let mut follower = match &workspace {
                Some(workspace) => workspace.follow(self.from),
                None => application.follow(partition, self.from),
            };
            loop {
                let event = follower.next().await?;
                if self.json {
                    output.json(&event)?;
                } else {
                    output.line(cells(&event).join("  "))?;
                }
                output.flush()?;
            }
        }
        let page = match &workspace {
            Some(workspace) => workspace.events(self.from, self.limit).await?,
            None => application.events(partition, self.from, self.limit).await?,
        };
        if self.json {
            return page.events.iter().try_for_each(|event| output.json(event));
        }
        let mut table = Table::new(&COLUMNS);
        page.events.iter().for_each(|event| table.row(cells(event)));
        table.print(output)
    }
}
