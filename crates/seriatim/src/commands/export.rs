//! `seriatim export`.

use std::str::FromStr;

use clap::Args;
use seriatim_api::Events;
use seriatim_client::Client;

use super::workspace::WorkspaceName;
use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::target::Target;

/// Events per request.
const PAGE: u32 = 500;

/// Prints events as JSON lines, in the order of their log.
///
/// Without --workspace the logs of all partitions are printed, one after the other. At the end, stderr has the next offset of
/// each log, in the form that --from takes, so that the next export can continue there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim export --app shop > shop.jsonl
  seriatim export --app shop --from 0:18,1:1,2:5,3:1 >> shop.jsonl
  seriatim export --app shop --workspace corner --from 100
  seriatim export --app series --storage file:./seriatim-data")]
pub(crate) struct Export {
    /// The application; `series` for series.
    #[arg(long)]
    app: String,
    /// Only this workspace: its id or its name.
    #[arg(long, conflicts_with = "partition")]
    workspace: Option<WorkspaceName>,
    /// Only this partition.
    #[arg(long)]
    partition: Option<u16>,
    /// The first offset: OFFSET, or PARTITION:OFFSET for each partition.
    #[arg(long, value_name = "OFFSET", value_delimiter = ',', default_value = "1")]
    from: Vec<From>,
    #[command(flatten)]
    target: Target,
}

/// The first offset of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct From {
    /// `None`: of every partition.
    partition: Option<u16>,
    offset: u64,
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is neither an offset nor PARTITION:OFFSET; offsets begin at 1");
        let (partition, offset) = match text.split_once(':') {
            Some((partition, offset)) => (Some(partition.parse().map_err(|_| wrong())?), offset),
            None => (None, text),
        };
        let offset = offset.parse().ok().filter(|offset| *offset > 0).ok_or_else(wrong)?;
        Ok(Self { partition, offset })
    }
}

/// How many events were printed, and the next offsets of the logs.
#[derive(Debug, Default)]
struct Exported {
    events: u64,
    next: Vec<String>,
}

impl Export {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let mut output = Output::new();
        let exported =
            self.target.read(context, async |client| self.export(client, &mut output).await).await?;
        output.flush()?;
        eprintln!("seriatim: {} events; continue with --from {}", exported.events, exported.next.join(","));
        Ok(())
    }

    async fn export(&self, client: &Client, output: &mut Output) -> Result<Exported, CliError> {
        let mut exported = Exported::default();
        if let Some(name) = &self.workspace {
            let workspace = name.find(client, &self.app).await?;
            let from = self.start(None)?;
            let read = async |from| Ok(workspace.events(from, PAGE).await?);
            let next = print(output, &mut exported, from, read).await?;
            exported.next.push(next.to_string());
            return Ok(exported);
        }
        let application = client.application(&self.app);
        let partitions = match self.partition {
            Some(partition) => vec![partition],
            None => application.partitions().await?.iter().map(|state| state.partition).collect(),
        };
        for partition in partitions {
            let from = self.start(Some(partition))?;
            let read = async |from| Ok(application.events(partition, from, PAGE).await?);
            let next = print(output, &mut exported, from, read).await?;
            exported.next.push(format!("{partition}:{next}"));
        }
        Ok(exported)
    }

    /// The first offset for a partition's log, or for a workspace's.
    fn start(&self, partition: Option<u16>) -> Result<u64, CliError> {
        let own = self.from.iter().find(|from| partition.is_some() && from.partition == partition);
        let any = self.from.iter().find(|from| from.partition.is_none());
        match (own.or(any), partition) {
            (Some(from), _) => Ok(from.offset),
            (None, Some(_)) => Ok(1),
            (None, None) => Err(CliError::usage("a workspace has one log: give --from a plain offset")),
        }
    }
}

/// Prints a log to its end, and returns the next offset.
async fn print(
    output: &mut Output,
    exported: &mut Exported,
    mut from: u64,
    read: impl AsyncFn(u64) -> Result<Events, CliError>,
) -> Result<u64, CliError> {
    loop {
        let page = read(from).await?;
        if page.events.is_empty() {
            return Ok(from);
        }
        for event in &page.events {
            output.json(event)?;
            exported.events += 1;
        }
        from = page.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_offset_may_name_its_partition() {
        let from = |partition, offset| Ok(From { partition, offset });
        assert_eq!("7".parse::<From>(), from(None, 7));
        assert_eq!("3:18".parse::<From>(), from(Some(3), 18));
        for wrong in ["", "0", "3:0", "x", "x:1", "1:x", "-1"] {
            assert!(wrong.parse::<From>().is_err(), "{wrong}");
        }
    }
}
