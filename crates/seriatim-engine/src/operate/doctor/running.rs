//! The doctor of a running engine.

use seriatim_storage::Store;

use super::derive::Examination;
use super::{DoctorError, Problem, Progress, Report, Telling, Treatment, begin};
use crate::engine::Engine;
use crate::engine::running::Running;
use crate::partition::PartitionHandle;

impl Engine {
    /// Compares everything with the log, and treats what differs, partition by partition.
    ///
    /// A partition accepts commands while its log is read. While its store is compared, the partition is held between two groups,
    /// with everything flushed: commands wait, or are refused as busy. If something was repaired, the partition recovers from its
    /// checkpoint, so that its memory agrees with the store.
    ///
    /// Standbys are compared too. What is elsewhere has nothing here that could be compared.
    ///
    /// `scratch` must be empty and is not used afterwards. It needs as much room as the store. A partition that has stopped is
    /// in the report: stop the engine, and examine its storage with a [`Doctor`](super::Doctor).
    ///
    /// # Errors
    ///
    /// [`DoctorError`] if the doctor cannot begin. Problems of a partition are in the report.
    pub async fn doctor(
        &self,
        scratch: &Store,
        treatment: Treatment,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Report, DoctorError> {
        begin(scratch).await?;
        let mut report = Report::default();
        let mut unknown = self.log().partitions().await?;
        for running in self.all_running() {
            for handle in &running.partitions {
                let partition = handle.partition;
                unknown.retain(|unknown| *unknown != partition);
                if let Err(error) = look(running, handle, scratch, treatment, &mut report, tell).await {
                    report.problems.push(Problem { partition, error });
                }
            }
        }
        report.unchecked = unknown;
        Ok(report)
    }
}

async fn look(
    running: &Running,
    handle: &PartitionHandle,
    scratch: &Store,
    treatment: Treatment,
    report: &mut Report,
    tell: Telling<'_>,
) -> Result<(), DoctorError> {
    // What is elsewhere has nothing here that could be compared.
    let Some(shared) = handle.running() else { return Ok(()) };
    let storage = (&shared.log, &shared.derived.store);
    let mut examination =
        Examination::new(&shared.env, storage, scratch, shared.partition, &running.derivation);
    handle.wait_ready().await.map_err(DoctorError::NotHeld)?;
    let tail = examination.tail().await?;
    examination.derive(tail, report, tell).await?;
    // A standby is compared at the offset that it has reached, which must not be before what is derived here.
    handle.applied_within(tail).await.map_err(DoctorError::NotHeld)?;
    let held = handle.hold().await.map_err(DoctorError::NotHeld)?;
    let before = report.written + report.removed;
    let result = examination.run(treatment, report, tell).await;
    if report.written + report.removed > before {
        held.recover().await;
        handle.wait_ready().await.map_err(DoctorError::NotHeld)?;
    }
    result
}
