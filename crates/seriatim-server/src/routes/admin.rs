//! Backup, doctor, unfence. Each runs to its end, even if the caller disconnects.

use std::future::Future;
use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use seriatim_api::{
    BackupReport, BackupRequest, Code, DoctorReport, DoctorRequest, Finding, LostEvents, LowerBound,
    PartitionProblem, PartitionTail, Treatment, UnfenceReport, UnfenceRequest,
};
use seriatim_engine::Unfence;
use seriatim_engine::doctor::{self, Lost, Report};
use seriatim_types::ErrorKind;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::Body;
use crate::problem::Problem;
use crate::server::Api;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(backup)).routes(routes!(examine)).routes(routes!(unfence))
}

fn problem(kind: ErrorKind, error: &impl ToString) -> Problem {
    Problem::new(kind.into(), error.to_string())
}

/// Runs work that continues even if its caller no longer waits for it.
async fn run_to_completion<T: Send + 'static>(
    api: &Api,
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    let done = api.env.spawn(work).await;
    done.unwrap_or_else(|error| Err(Problem::new(Code::Internal, error.to_string())))
}

/// Copies the log into a folder on the server's machine. The server continues to work meanwhile.
#[utoipa::path(
    post, path = "/v1/backup", tag = "administration", request_body = BackupRequest,
    responses((status = 200, body = BackupReport))
)]
async fn backup(
    State(api): State<Api>,
    Body(BackupRequest { destination }): Body<BackupRequest>,
) -> Result<Json<BackupReport>, Problem> {
    let path = PathBuf::from(&destination);
    if !path.is_absolute() {
        return Err(Problem::invalid(format!("destination has to be an absolute path, not {destination:?}")));
    }
    let storage = api.storage.clone().filter(|storage| storage.as_backup().is_some());
    let storage = storage.ok_or_else(|| {
        Problem::invalid("this server keeps its data in memory, so there is nothing to back up")
    })?;
    let work = async move {
        let storage =
            storage.as_backup().ok_or_else(|| Problem::not_found("this storage has no files to back up"))?;
        storage.backup(&path).await.map_err(|error| problem(error.kind(), &error))
    };
    let made = run_to_completion(&api, work).await?;
    let tails = made.tails.iter().map(|(partition, tail)| PartitionTail {
        application: partition.application.get(),
        partition: partition.id.get(),
        tail: tail.get(),
    });
    let (bytes, frames, entries) = (made.bytes, made.frames, made.entries);
    Ok(Json(BackupReport { destination, bytes, frames, entries, tails: tails.collect() }))
}

/// What the doctor found, as a type of the API.
#[must_use]
pub fn doctor_report(report: &Report) -> DoctorReport {
    let findings = report.findings.iter().map(|finding| Finding {
        partition: finding.partition.to_string(),
        trouble: finding.trouble.to_string(),
        what: finding.what.clone(),
        key: finding.key.to_string(),
    });
    let problems = report.problems.iter().map(|problem| PartitionProblem {
        partition: problem.partition.to_string(),
        problem: problem.error.to_string(),
    });
    DoctorReport {
        clean: report.is_clean(),
        repaired: report.is_repaired(),
        partitions: report.checked.partitions,
        events: report.checked.events,
        values: report.checked.values(),
        found: report.found,
        written: report.written,
        removed: report.removed,
        unapplied: report.unapplied,
        findings: findings.collect(),
        problems: problems.collect(),
        unchecked: report.unchecked.iter().map(ToString::to_string).collect(),
        lost: report.lost.as_ref().map(lost_events),
    }
}

fn lost_events(lost: &Lost) -> LostEvents {
    let bound = |bound: &doctor::LowerBound| LowerBound {
        name: bound.name.clone(),
        highest: bound.highest,
        known: bound.known,
    };
    LostEvents {
        partitions: lost.partitions.iter().map(ToString::to_string).collect(),
        bounds: lost.bounds.iter().map(bound).collect(),
        total: lost.total,
    }
}

/// Compares all derived data with the logs, and repairs it on request.
#[utoipa::path(
    post, path = "/v1/doctor", tag = "administration", operation_id = "doctor", request_body = DoctorRequest,
    responses((status = 200, body = DoctorReport))
)]
async fn examine(
    State(api): State<Api>,
    Body(DoctorRequest { treatment }): Body<DoctorRequest>,
) -> Result<Json<DoctorReport>, Problem> {
    let treatment = match treatment {
        Treatment::Check => doctor::Treatment::Check,
        Treatment::Repair => doctor::Treatment::Repair,
        Treatment::Rebuild => doctor::Treatment::Rebuild,
    };
    let storage = api.storage.clone();
    let storage = storage.ok_or_else(|| {
        Problem::new(Code::Unavailable, "this server has no access to its storage, so the doctor cannot run")
    })?;
    let own = api.clone();
    let work = async move {
        let Ok(_guard) = own.doctor.try_lock() else {
            return Err(Problem::busy("the doctor is already running; try again when it has ended"));
        };
        let scratch = storage.scratch().await.map_err(|error| problem(error.kind(), &error))?;
        let report = own.engine.doctor(scratch.store(), treatment, &mut |_| {}).await;
        if let Err(error) = scratch.close().await {
            tracing::warn!(%error, "the doctor's scratch store could not be removed; the next start removes it");
        }
        report.map_err(|error| problem(error.kind(), &error))
    };
    Ok(Json(doctor_report(&run_to_completion(&api, work).await?)))
}

fn unfence_mode(request: UnfenceRequest) -> Result<Unfence, Problem> {
    let UnfenceRequest { complete, highest, skip } = request;
    let highest: Vec<(String, u64)> = highest.into_iter().collect();
    match (complete, highest.is_empty(), skip) {
        (true, true, None) => Ok(Unfence::Complete),
        (false, false, None) => Ok(Unfence::Highest(highest)),
        (false, true, Some(skip)) => Ok(Unfence::Skip(skip)),
        (false, false, Some(skip)) => Ok(Unfence::HighestAndSkip(highest, skip)),
        _ => Err(Problem::invalid(
            "send either \"complete\": true, or \"highest\", or \"skip\", or both \"highest\" and \"skip\"",
        )),
    }
}

/// Allows a restored copy to give out numbers again.
#[utoipa::path(
    post, path = "/v1/unfence", tag = "administration", request_body = UnfenceRequest,
    responses((status = 200, body = UnfenceReport))
)]
async fn unfence(
    State(api): State<Api>,
    Body(request): Body<UnfenceRequest>,
) -> Result<Json<UnfenceReport>, Problem> {
    let mode = unfence_mode(request)?;
    let engine = api.engine.clone();
    let left = run_to_completion(&api, async move { Ok(engine.unfence(&mode).await?) }).await?;
    let fenced = left.is_some();
    Ok(Json(UnfenceReport { fenced, free: left.map(|left| left.free).unwrap_or_default() }))
}
