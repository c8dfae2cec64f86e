//! `seriatim audit`.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;
use seriatim_api::{Audit as Report, Run, Voided};
use seriatim_client::Client;
use seriatim_engine::audit::{Completeness, Raised, Verified, verify};
use seriatim_engine::moment;
use seriatim_storage::Digest;
use seriatim_types::Number;

use super::workspace::WorkspaceName;
use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::target::Target;

/// The largest number of void numbers that a server lists.
const VOIDS_MAX: usize = 1_000;

/// Checks whether a sequence is complete: every number was given out once, or an event explains why not.
///
/// Exit code 1 if it is not. The digest is the head of the chain over all events: publish it, or give it to a third party, and
/// `audit verify` shows later that nothing before it was changed. The digest is not a signature.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    group = ArgGroup::new("what").required(true).args(["series", "app"]),
    after_help = "\
Examples:
  seriatim audit --series acme.invoices
  seriatim audit --app shop --workspace corner --sequence InvoiceNumber --json
  seriatim audit --series acme.invoices --file invoices.audit
  seriatim audit verify invoices.audit"
)]
pub(crate) struct Audit {
    #[command(subcommand)]
    action: Option<Action>,
    /// A series.
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// An application, with --workspace and --sequence.
    #[arg(long, requires_all = ["workspace", "sequence"])]
    app: Option<String>,
    /// A workspace: its id or its name.
    #[arg(long, requires = "app")]
    workspace: Option<WorkspaceName>,
    /// A sequence of the workspace.
    #[arg(long, requires = "app")]
    sequence: Option<String>,
    /// Also writes a file that `audit verify` can check without a server.
    #[arg(long)]
    file: Option<PathBuf>,
    /// The report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Action {
    Verify(Verify),
}

/// Checks an audit file, offline.
///
/// Computes the chain again from the file alone, and searches it for a head that was published earlier. Without --head it
/// shows only that the file does not contradict itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim audit verify invoices.audit
  seriatim audit verify invoices.audit --head 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae")]
struct Verify {
    /// The file.
    file: PathBuf,
    /// A head that was published earlier: the digest of an audit.
    #[arg(long, value_name = "HASH")]
    head: Option<Digest>,
    /// The result as JSON.
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        if let Some(Action::Verify(verify)) = self.action {
            return verify.run();
        }
        let mut output = Output::new();
        let complete =
            self.target.read(context, async |client| self.audit(client, &mut output).await).await?;
        output.flush()?;
        if complete { Ok(()) } else { Err(CliError::Found) }
    }

    /// Prints the report, and returns whether the sequence is complete.
    async fn audit(&self, client: &Client, output: &mut Output) -> Result<bool, CliError> {
        if let Some(name) = &self.series {
            let series = client.series(name);
            let report = series.audit().await?;
            if self.json {
                output.json(&report)?;
            } else {
                print(output, &format!("series {name}"), &report.audit)?;
                print_voids(output, &report.voids)?;
            }
            if let Some(path) = &self.file {
                write(path, series.audit_file().await?).await?;
            }
            return Ok(report.audit.complete);
        }
        let (Some(app), Some(workspace), Some(sequence)) = (&self.app, &self.workspace, &self.sequence)
        else {
            return Err(CliError::usage("name a series, or an application with a workspace and a sequence"));
        };
        let workspace = workspace.find(client, app).await?;
        let report = workspace.audit(sequence).await?;
        if self.json {
            output.json(&report)?;
        } else {
            print(output, &format!("sequence {sequence}"), &report)?;
        }
        if let Some(path) = &self.file {
            write(path, workspace.audit_file(sequence).await?).await?;
        }
        Ok(report.complete)
    }
}

fn runs(runs: &[Run]) -> String {
    let run = |run: &Run| stretch(run.first, run.last);
    if runs.is_empty() { "none".to_owned() } else { runs.iter().map(run).collect::<Vec<_>>().join(", ") }
}

fn print(output: &mut Output, what: &str, report: &Report) -> Result<(), CliError> {
    let verdict = if report.complete { "complete" } else { "NOT complete" };
    output.line(format!("{what}: {verdict}"))?;
    match (report.first, report.last) {
        (Some(first), Some(last)) => {
            output.line(format!("  numbers  {first} to {last}, {} given", report.count))?;
        }
        _ => output.line("  numbers  none given")?,
    }
    output.line(format!("  gaps     {}", runs(&report.gaps)))?;
    output.line(format!("  twice    {}", runs(&report.duplicates)))?;
    let raises = report.raises.iter().map(|raise| stretch(raise.from, raise.to.saturating_sub(1)));
    let raises: Vec<String> = raises.collect();
    output.line(format!(
        "  skipped  {}",
        if raises.is_empty() { "none".to_owned() } else { raises.join(", ") }
    ))?;
    for broken in &report.broken {
        output.line(format!("  broken   event {}: {}", broken.workspace_offset, broken.problem))?;
    }
    output.line(format!("  events   {}", report.events))?;
    output.line(format!("  digest   {}", report.digest))
}

/// Consecutive numbers, as reports write them.
fn stretch(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// Numbers that are void, each with the reason. The server lists at most a thousand.
fn print_voids(output: &mut Output, voids: &[Voided]) -> Result<(), CliError> {
    let more = if voids.len() < VOIDS_MAX { "" } else { " or more; the first of them:" };
    output.line(format!("  voids    {}{more}", voids.len()))?;
    let width = voids.last().map_or(0, |void| void.number.to_string().len());
    for Voided { number, reason, at } in voids {
        output.line(format!("    {number:>width$}  {at}  {reason}"))?;
    }
    Ok(())
}

/// Writes an audit file piece by piece.
async fn write(path: &std::path::Path, mut file: seriatim_client::Body) -> Result<(), CliError> {
    use futures_util::stream::StreamExt as _;
    use std::io::Write as _;
    let failed = |error: std::io::Error| CliError::unavailable(format!("{}: {error}", path.display()));
    let mut to = std::io::BufWriter::new(File::create(path).map_err(failed)?);
    while let Some(piece) = file.next().await {
        to.write_all(&piece.map_err(CliError::unavailable)?).map_err(failed)?;
    }
    to.flush().map_err(failed)?;
    eprintln!("seriatim: {} can be checked with `seriatim audit verify`", path.display());
    Ok(())
}

impl Verify {
    fn run(self) -> Result<(), CliError> {
        let file = File::open(&self.file);
        let file = file.map_err(|error| CliError::usage(format!("{}: {error}", self.file.display())))?;
        let verified = verify(BufReader::new(file), self.head);
        let verified = verified.map_err(|error| CliError::of(error.kind(), error))?;
        let is_complete = |numbers: &Completeness| numbers.gaps.is_empty() && numbers.duplicates.is_empty();
        let complete = verified.sequences.iter().all(|(_, numbers)| is_complete(numbers));
        let mut output = Output::new();
        if self.json {
            output.json(&json_of(&verified, complete))?;
        } else {
            print_verified(&mut output, &verified, self.head.is_some())?;
        }
        output.flush()?;
        if complete { Ok(()) } else { Err(CliError::Found) }
    }
}

/// The first and the last of the numbers that an event skipped.
fn skipped(raised: &Raised) -> (u64, u64) {
    (raised.from.get(), raised.to.get().saturating_sub(1))
}

fn json_of(verified: &Verified, complete: bool) -> serde_json::Value {
    let skipped = |raised: &Raised| {
        let (first, last) = skipped(raised);
        json!({"first": first, "last": last, "event": raised.offset.get(), "at": moment(raised.time)})
    };
    let sequence = |(name, numbers): &(String, Completeness)| {
        json!({
            "name": name,
            "first": numbers.first.map(Number::get),
            "last": numbers.last.map(Number::get),
            "count": numbers.count,
            "gaps": numbers.gaps.total,
            "duplicates": numbers.duplicates.total,
            "raises": numbers.raises.total,
            "skipped": numbers.raises.list.iter().map(skipped).collect::<Vec<_>>(),
        })
    };
    json!({
        "application": verified.application,
        "workspace": verified.workspace.get(),
        "name": verified.name,
        "events": verified.events,
        "head": verified.head.to_string(),
        "published_at": verified.published_at.map(seriatim_types::WorkspaceOffset::get),
        "complete": complete,
        "sequences": verified.sequences.iter().map(sequence).collect::<Vec<_>>(),
    })
}

fn print_verified(output: &mut Output, verified: &Verified, with_head: bool) -> Result<(), CliError> {
    let Verified { application, workspace, name, events, head, published_at, sequences } = verified;
    let name = name.as_ref().map_or_else(String::new, |name| format!("{name}, "));
    output.line(format!("{name}workspace {workspace} of {application}: {events} events, head {head}"))?;
    let is_used = |numbers: &Completeness| numbers.count > 0 || !numbers.raises.is_empty();
    for (name, numbers) in sequences.iter().filter(|(_, numbers)| is_used(numbers)) {
        let (gaps, twice) = (numbers.gaps.total, numbers.duplicates.total);
        let (first, last) = (numbers.first.map_or(0, Number::get), numbers.last.map_or(0, Number::get));
        let count = numbers.count;
        output.line(format!("  {name}: {first} to {last}, {count} given, {gaps} gaps, {twice} twice"))?;
        for raised in &numbers.raises.list {
            let (first, last) = skipped(raised);
            let (numbers, event, at) = (stretch(first, last), raised.offset, moment(raised.time));
            output.line(format!("    skipped {numbers} by event {event}, {at}"))?;
        }
        let unlisted = numbers.raises.total.saturating_sub(numbers.raises.list.len() as u64);
        if unlisted > 0 {
            output.line(format!("    skipped by {unlisted} more events"))?;
        }
    }
    match published_at {
        Some(offset) => {
            output.line(format!("nothing up to event {offset} was changed since the head was published"))
        }
        None if with_head => output.line("the head is the one of a workspace without events"),
        None => output
            .line("the file does not contradict itself; only a head published earlier shows more (--head)"),
    }
}
