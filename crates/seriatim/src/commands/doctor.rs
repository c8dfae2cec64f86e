//! `seriatim doctor`.

use clap::Args;
use seriatim::StorageUrl;
use seriatim_api::{DoctorReport, Finding, PartitionProblem, Treatment};
use seriatim_engine::doctor::{self, Lost, LowerBound};
use seriatim_server::doctor_report;
use seriatim_storage::Storage;

use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::progress::Progress;
use crate::target::{Target, open_storage, workflows};

/// Checks everything that is derived against the logs, and mends it.
///
/// Every number, record, view, workspace-log entry, chain and checkpoint is compared with what the log says. Exit code 1 if
/// anything differs and was not mended. Through a running server each partition stands still for a moment while its store
/// is compared; a storage that no server holds can be looked at too, and a partition that has stopped only there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim doctor
  seriatim doctor --repair
  seriatim doctor --rebuild --storage file:./seriatim-data
  seriatim doctor --json")]
pub(crate) struct Doctor {
    /// Mends what differs: writes what is missing, removes what no event explains.
    #[arg(long, conflicts_with = "rebuild")]
    repair: bool,
    /// Makes everything anew from the logs alone, also where a log has lost events: the storage is fenced then, until
    /// `seriatim unfence`.
    #[arg(long)]
    rebuild: bool,
    /// The report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Doctor {
    fn treatment(&self) -> Treatment {
        match (self.repair, self.rebuild) {
            (false, false) => Treatment::Check,
            (true, _) => Treatment::Repair,
            (false, true) => Treatment::Rebuild,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let treatment = self.treatment();
        let report = match self.target.storage() {
            Some(url) => examine(context, url, treatment).await?,
            None => {
                eprintln!("seriatim: the server compares everything with its logs");
                self.target.with(context, async |client| Ok(client.admin().doctor(treatment).await?)).await?
            }
        };
        let mut output = Output::new();
        if self.json {
            output.json(&report)?;
        } else {
            print(&mut output, &report, treatment)?;
        }
        output.flush()?;
        let fine = if treatment == Treatment::Check { report.clean } else { report.mended };
        if fine { Ok(()) } else { Err(CliError::Found) }
    }
}

fn print(output: &mut Output, report: &DoctorReport, treatment: Treatment) -> Result<(), CliError> {
    for Finding { partition, trouble, what, key } in &report.findings {
        output.line(format!("{trouble}: {what} (partition {partition}, key {key})"))?;
    }
    let more = report.found.saturating_sub(report.findings.len() as u64);
    if more > 0 {
        output.line(format!("and {more} more"))?;
    }
    for PartitionProblem { partition, problem } in &report.problems {
        output.line(format!("partition {partition}: {problem}"))?;
    }
    for partition in &report.unchecked {
        output.line(format!("partition {partition}: not looked at, its application is not known"))?;
    }
    let DoctorReport { partitions, events, values, found, written, removed, .. } = report;
    output.line(format!("{partitions} partitions, {events} events, {values} values: {found} differ"))?;
    if treatment != Treatment::Check {
        output.line(format!("{written} written, {removed} removed"))?;
        if let Some(lost) = &report.lost {
            output.line(format!("fenced: {} partitions have lost events", lost.partitions.len()))?;
        }
    } else if *found > 0 {
        eprintln!("seriatim: `seriatim doctor --repair` mends this");
    }
    Ok(())
}

/// Tells what the store knows of events that the log has lost. On stderr and at once: it is removed from the store next.
fn tell_loss(lost: &Lost) {
    let partitions: Vec<String> = lost.partitions.iter().map(ToString::to_string).collect();
    eprintln!(
        "seriatim: the log has lost events that its store has seen, in partition {}; the storage is fenced",
        partitions.join(", ")
    );
    if !lost.bounds.is_empty() {
        eprintln!("seriatim: the store knows that these were given out, keep this list:");
    }
    for LowerBound { name, highest, known } in &lost.bounds {
        let gone = if *known {
            ""
        } else {
            " (not in the log any more: if it is made again, it starts from its first number)"
        };
        eprintln!("  {name}={highest}{gone}");
    }
    let more = lost.total - lost.bounds.len() as u64;
    if more > 0 {
        eprintln!("  and {more} more");
    }
    eprintln!(
        "seriatim: these are lower bounds: the store is written later than the log, so higher numbers may have been given out. Do not use them \
         alone. `seriatim unfence --highest NAME=N` takes the highest number that the outside has seen, never less than listed here; \
         `seriatim unfence --skip N` skips N numbers of each name"
    );
}

/// Looks at a storage that no server holds.
async fn examine(
    context: &Context,
    url: &StorageUrl,
    treatment: Treatment,
) -> Result<DoctorReport, CliError> {
    let storage = open_storage(context, &context.settings()?, url).await?;
    let examined = examine_open(context, &storage, treatment).await;
    let closed = storage.close().await;
    let report = examined?;
    closed?;
    Ok(report)
}

async fn examine_open(
    context: &Context,
    storage: &Storage,
    treatment: Treatment,
) -> Result<DoctorReport, CliError> {
    let scratch = storage.scratch().await.map_err(|error| CliError::of(error.kind(), error))?;
    let treatment = match treatment {
        Treatment::Check => doctor::Treatment::Check,
        Treatment::Repair => doctor::Treatment::Repair,
        Treatment::Rebuild => doctor::Treatment::Rebuild,
    };
    let mut progress = Progress::new();
    let mut tell = |told: doctor::Progress| {
        progress.tell(&format!("partition {}", told.partition), told.done, told.total);
    };
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let apps = [workflows()?];
    let doctor =
        doctor::Doctor::new(context.env.clone(), log, store, apps).with_accepted().on_loss(tell_loss);
    let report = doctor.run(scratch.store(), treatment, &mut tell).await;
    progress.end();
    // What is left of it goes when the storage is opened next.
    let _ = scratch.close().await;
    Ok(doctor_report(&report?))
}
