//! The doctor: everything derived, compared with the log that it is derived from.
//!
//! ```text
//! log ──► derived anew, into a scratch store ──┐
//!                                              ├── compared, storage partition by storage partition
//! store, as it is ─────────────────────────────┘
//! ```
//!
//! The scratch store also remembers which storage partitions there are to compare, so that memory is bounded by pages,
//! whatever the log has. Where the next numbers lead is looked at too: what lies there no event explains.

mod compare;
mod derive;
mod describe;
mod report;
mod running;

use std::sync::Arc;

use seriatim_storage::{ClusteringRange, Key, Log, LogError, Store, StoreError};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, WorkspaceId};

pub(crate) use describe::describe;
pub use report::{Checked, Finding, Problem, Progress, Report, Treatment, Trouble};

use crate::app::App;
use crate::apply::Derivation;
use crate::definition::{Accepted, DefinitionError, Schema};
use crate::engine::built_in;
use crate::error::SubmitError;
use crate::keys::StoreKey;
use crate::limits::APPLICATIONS_MAX;
use crate::registry;
use crate::view;
use derive::Examination;

/// Says how far it is.
pub(crate) type Telling<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// Why there is no report, or nothing to say about a partition.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// The scratch store was used before: what it holds would be taken for what the log says.
    #[error("the scratch store was used before: bring an empty one")]
    ScratchUsed,
    /// A definition is wrong.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log contradicts itself. There is nothing that it could be mended from but a backup.
    #[error("the log is damaged at event {offset}: {reason}; restore a backup")]
    Damaged {
        /// The event.
        offset: PartitionOffset,
        /// What is wrong.
        reason: String,
    },
    /// The checkpoint is beyond the end of the log.
    #[error(
        "the checkpoint is {checkpoint}, and the log ends at {tail}: the log has lost events; \
         restore a backup, or go on without them by `seriatim doctor --rebuild`"
    )]
    CheckpointBeyondTail {
        /// The checkpoint.
        checkpoint: PartitionOffset,
        /// The end of the log.
        tail: PartitionOffset,
    },
    /// The numbers of a workspace have seen an event that the log does not have.
    #[error(
        "workspace {workspace} has seen event {folded}, and the log ends at {tail}: the log has lost events; \
         restore a backup, or go on without them by `seriatim doctor --rebuild`"
    )]
    FoldedBeyondTail {
        /// The workspace.
        workspace: WorkspaceId,
        /// The event.
        folded: PartitionOffset,
        /// The end of the log.
        tail: PartitionOffset,
    },
    /// A running partition could not be held still.
    #[error("{0}; stop the engine, and let the doctor look at its storage")]
    NotHeld(SubmitError),
}

impl DoctorError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::ScratchUsed => ErrorKind::Invalid,
            Self::Definition(error) => error.kind(),
            Self::Log(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Damaged { .. } | Self::CheckpointBeyondTail { .. } | Self::FoldedBeyondTail { .. } => {
                ErrorKind::Corrupt
            }
            Self::NotHeld(error) => error.kind(),
        }
    }
}

/// Looks at storage that no engine holds.
///
/// For one that runs there is [`Engine::doctor`](crate::Engine::doctor).
#[derive(Debug)]
pub struct Doctor {
    log: Log,
    store: Store,
    applications: Vec<App>,
    /// Whether applications that were not given are looked at too.
    with_accepted: bool,
}

impl Doctor {
    /// A doctor for this log and store, with the code of the applications: views are derived by it.
    #[must_use]
    pub fn new(log: Log, store: Store, applications: impl IntoIterator<Item = App>) -> Self {
        Self { log, store, applications: applications.into_iter().collect(), with_accepted: false }
    }

    /// Looks also at applications that were not given, by the definition that the registry's log has of them. Right for
    /// those without code: rows that a projector made would be taken for unexplained.
    #[must_use]
    pub fn with_accepted(mut self) -> Self {
        self.with_accepted = true;
        self
    }

    /// Compares everything with the log, and treats what differs.
    ///
    /// `scratch` has to be empty and is of no use afterwards; it takes as much room as the store. Troubles of one
    /// partition are in the report, and do not keep the others from being looked at.
    ///
    /// # Errors
    ///
    /// [`DoctorError`] if it cannot be begun, or the registry cannot be read, without which nothing else makes sense.
    pub async fn run(
        mut self,
        scratch: &Store,
        treatment: Treatment,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Report, DoctorError> {
        begin(scratch).await?;
        let mut report = Report::default();
        let mut unknown = self.log.partitions().await?;
        let (app, accepted) = registry::app()?;
        let sys = derivation(app, &accepted)?;
        self.look(&sys, scratch, treatment, &mut report, tell, &mut unknown).await;
        if let Some(problem) = report.problems.pop() {
            return Err(problem.error);
        }
        let mut apps: Vec<App> = built_in()?.into_iter().collect();
        apps.append(&mut self.applications);
        if self.with_accepted {
            let names: Vec<String> = apps.iter().map(|app| app.definition.name.clone()).collect();
            let others =
                all_accepted(scratch).await?.into_iter().map(|accepted| accepted.application().clone());
            apps.extend(others.filter(|definition| !names.contains(&definition.name)).map(App::new));
        }
        for app in apps {
            // Never opened with it: there is no event of it either.
            let Some(accepted) = accepted_of(scratch, &app.definition.name).await? else { continue };
            let derivation = derivation(app, &accepted)?;
            self.look(&derivation, scratch, treatment, &mut report, tell, &mut unknown).await;
        }
        report.unchecked = unknown;
        self.store.sync().await?;
        Ok(report)
    }

    async fn look(
        &self,
        derivation: &Derivation,
        scratch: &Store,
        treatment: Treatment,
        report: &mut Report,
        tell: Telling<'_>,
        unknown: &mut Vec<Partition>,
    ) {
        let application = derivation.schema.id();
        for id in derivation.schema.partitions().partitions() {
            let partition = Partition { application, id };
            unknown.retain(|unknown| *unknown != partition);
            let mut examination = Examination::new(&self.log, &self.store, scratch, partition, derivation);
            if let Err(error) = examination.run(treatment, report, tell).await {
                report.problems.push(Problem { partition, error });
            }
        }
    }
}

fn derivation(app: App, accepted: &Accepted) -> Result<Derivation, DefinitionError> {
    Ok(Derivation { schema: Arc::new(Schema::new(accepted)?), projectors: app.projectors })
}

/// Claims the scratch store.
async fn begin(scratch: &Store) -> Result<(), DoctorError> {
    let claimed = scratch.insert_if_absent(Key::new(b"dm", b""), &[1], None).await?;
    if claimed { Ok(()) } else { Err(DoctorError::ScratchUsed) }
}

/// What the registry's log says of an application.
async fn accepted_of(scratch: &Store, name: &str) -> Result<Option<Accepted>, DoctorError> {
    let key = StoreKey::new(&registry::Registry::view("applications"), &view::encode_key(&[name.into()]));
    let Some(bytes) = scratch.get(key.as_key()).await? else { return Ok(None) };
    read_accepted(name, &bytes).map(Some)
}

/// What the registry's log says of all applications.
async fn all_accepted(scratch: &Store) -> Result<Vec<Accepted>, DoctorError> {
    let view = registry::Registry::view("applications");
    let rows = scratch.scan(&view, ClusteringRange::all()).take(APPLICATIONS_MAX).await?;
    rows.iter().map(|(key, bytes)| read_accepted(&key.escape_ascii().to_string(), bytes)).collect()
}

fn read_accepted(name: &str, bytes: &[u8]) -> Result<Accepted, DoctorError> {
    let row = view::decode_row(bytes).ok().and_then(|(_, row)| row).unwrap_or_default();
    let accepted = serde_json::from_value(row["accepted"].clone());
    accepted.map_err(|error| {
        LogError::Corrupt(format!("the accepted definition of {name} cannot be read: {error}")).into()
    })
}
