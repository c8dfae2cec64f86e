//! `seriatim doctor`.

use std::path::Path;

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

/// Compares all derived data with the logs, and repairs it.
///
/// Every number, record, view, workspace-log entry, chain and checkpoint is compared with the log. Exit code 1 if anything
/// differs and was not repaired. Through a running server, each partition pauses for a moment while its store is compared. A
/// storage that no server holds can be checked too; a partition that has stopped can be checked only there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim doctor
  seriatim doctor --repair
  seriatim doctor --rebuild --storage file:./seriatim-data
  seriatim doctor --json")]
pub(crate) struct Doctor {
    /// Repairs differences: writes what is missing, removes what no event explains.
    #[arg(long, conflicts_with = "rebuild")]
    repair: bool,
    /// Derives everything again from the logs alone, also if a log has lost events. In that case the storage is fenced until
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
        let report = match self.target.storage()? {
            Some(url) => examine(context, url, self.target.local(), treatment).await?,
            None => {
                eprintln!("seriatim: the server compares all derived data with its logs");
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
        let fine = if treatment == Treatment::Check { report.clean } else { report.repaired };
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
        output.line(format!("partition {partition}: not checked, because its application is not known"))?;
    }
    let DoctorReport { partitions, events, values, found, written, removed, .. } = report;
    output.line(format!("{partitions} partitions, {events} events, {values} values: {found} differ"))?;
    if treatment != Treatment::Check {
        output.line(format!("{written} written, {removed} removed"))?;
        if let Some(lost) = &report.lost {
            output.line(format!("fenced: {} partitions have lost events", lost.partitions.len()))?;
        }
    } else if *found > 0 {
        eprintln!("seriatim: `seriatim doctor --repair` repairs this");
    }
    Ok(())
}

/// Prints what the store contains of events that the log has lost. It goes to stderr immediately, because the doctor then
/// removes it from the store.
fn print_loss(lost: &Lost) {
    let partitions: Vec<String> = lost.partitions.iter().map(ToString::to_string).collect();
    eprintln!(
        "seriatim: the log has lost events that its store still contains, in partition {}; the storage is fenced",
        partitions.join(", ")
    );
    if !lost.bounds.is_empty() {
        eprintln!("seriatim: according to the store these numbers were given out; keep this list:");
    }
    for LowerBound { name, highest, known } in &lost.bounds {
        let remark = if *known {
            ""
        } else {
            " (no longer in the log: if it is created again, it starts from its first number)"
        };
        eprintln!("  {name}={highest}{remark}");
    }
    let more = lost.total - lost.bounds.len() as u64;
    if more > 0 {
        eprintln!("  and {more} more");
    }
    eprintln!(
        "seriatim: these are lower bounds: the store is written later than the log, so higher numbers may have been given out. Do not use them \
         alone. `seriatim unfence --highest NAME=N` takes the highest number that is in use outside, never less than listed here; \
         `seriatim unfence --skip N` skips N numbers of each name"
    );
}

/// Checks a storage that no server holds.
async fn examine(
    context: &Context,
    url: &StorageUrl,
    local: Option<&Path>,
    treatment: Treatment,
) -> Result<DoctorReport, CliError> {
    let storage = open_storage(context, &context.settings()?, url, local).await?;
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
    let mut show = |now: doctor::Progress| {
        progress.show(&format!("partition {}", now.partition), now.done, now.total);
    };
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let apps = [workflows()?];
    let doctor =
        doctor::Doctor::new(context.env.clone(), log, store, apps).with_accepted().on_loss(print_loss);
    let report = doctor.run(scratch.store(), treatment, &mut show).await;
    progress.end();
    // If it cannot be removed, the next start removes it.
    let _ = scratch.close().await;
    Ok(doctor_report(&report?))
}
