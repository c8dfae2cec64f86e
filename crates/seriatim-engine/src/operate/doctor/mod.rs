//! The doctor compares everything derived with the log from which it is derived.
//!
//! ```text
//! log ──► derived again, into a scratch store ─┐
//!                                              ├── compared: two scans of the partition's keys, side by side
//! store, as it is ─────────────────────────────┘
//! ```
//!
//! Everything that is derived from a partition's log is one range of keys, so the comparison is complete. It reads page by page, so
//! memory is bounded. Rows of views that the given code does not have are not changed.
//!
//! A rebuild of a log that has lost events fences the storage, because the next numbers have been given out before:
//!
//! ```text
//! derive and survey everything ─► report the evidence ─► fence, durably ─► compare and treat
//!                       nothing is changed before this line ─┘
//! ```

mod compare;
mod derive;
mod describe;
mod loss;
mod report;
mod running;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_sequencer::BadValue;
use seriatim_storage::{Batch, Durability, EntryMark, Key, Log, LogError, Store, StoreError};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, WorkspaceId};

pub(crate) use describe::describe;
pub use loss::{Lost, LowerBound};
pub use report::{Checked, Finding, Problem, Progress, Report, Treatment, Trouble};

use crate::apps::registry;
use crate::command::apply::Derivation;
use crate::command::view;
use crate::definition::{Accepted, DefinitionError, Schema};
use crate::derive::{Checkpoint, Mark};
use crate::engine::app::App;
use crate::engine::{Engine, OpenError, with_built_in};
use crate::error::SubmitError;
use crate::limits::APPLICATIONS_MAX;
use derive::Examination;

/// Receives the evidence of lost events.
type OnLoss = Box<dyn FnMut(&Lost) + Send>;

/// Receives the progress.
pub(crate) type Telling<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// Why there is no report, or why a partition could not be examined.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// The scratch store was used before. Its contents would be taken for derived values.
    #[error("the scratch store is not empty, so the doctor cannot use it: give an empty one")]
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
    /// The log contradicts itself. Only a backup can repair it.
    #[error("the log is damaged at event {offset}: {reason}; restore a backup")]
    Damaged {
        /// The event.
        offset: PartitionOffset,
        /// What is wrong.
        reason: String,
    },
    /// A newer Seriatim wrote the checkpoint, and may have written other values that this one cannot read. Nothing was changed.
    #[error("the stored checkpoint cannot be read: {0}")]
    NewerCheckpoint(BadValue),
    /// The checkpoint is beyond the end of the log.
    #[error(
        "the checkpoint is {checkpoint}, and the log ends at {tail}: the log has lost events; \
         restore a backup, or stop the server and continue without them by `seriatim doctor --rebuild --storage URL`"
    )]
    CheckpointBeyondTail {
        /// The checkpoint.
        checkpoint: PartitionOffset,
        /// The end of the log.
        tail: PartitionOffset,
    },
    /// The log has another entry before the checkpoint than the one from which the store was derived.
    #[error(
        "the checkpoint is {checkpoint} and follows the entry of {expected}, and the log has there {}: the log was cut back \
         and has lost events; restore a backup, or stop the server and continue without them by \
         `seriatim doctor --rebuild --storage URL`",
        found.map_or_else(|| "no entry".to_owned(), |found| format!("the entry of {found}"))
    )]
    LogRewound {
        /// The checkpoint.
        checkpoint: PartitionOffset,
        /// The entry before the checkpoint, when the store was derived.
        expected: EntryMark,
        /// The entry before the checkpoint, as the log has it.
        found: Option<EntryMark>,
    },
    /// The numbers of a workspace include an event that the log does not have.
    #[error(
        "workspace {workspace} has seen event {folded}, and the log ends at {tail}: the log has lost events; \
         restore a backup, or stop the server and continue without them by `seriatim doctor --rebuild --storage URL`"
    )]
    FoldedBeyondTail {
        /// The workspace.
        workspace: WorkspaceId,
        /// The event.
        folded: PartitionOffset,
        /// The end of the log.
        tail: PartitionOffset,
    },
    /// The log has lost events, and the storage could not be fenced. Nothing was removed from the store.
    #[error(
        "the log has lost events, and the storage could not be fenced: {0}; nothing was rebuilt, run the rebuild again"
    )]
    NotFenced(Box<OpenError>),
    /// A running partition could not be held.
    #[error("{0}; stop the server, then run `seriatim doctor --storage URL`")]
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
            Self::Damaged { .. }
            | Self::NewerCheckpoint(_)
            | Self::CheckpointBeyondTail { .. }
            | Self::LogRewound { .. }
            | Self::FoldedBeyondTail { .. } => ErrorKind::Corrupt,
            Self::NotFenced(error) => error.kind(),
            Self::NotHeld(error) => error.kind(),
        }
    }
}

/// Examines a storage that no engine uses.
///
/// For a running engine use [`Engine::doctor`](crate::Engine::doctor).
pub struct Doctor {
    env: Env,
    log: Log,
    store: Store,
    applications: Vec<App>,
    /// Whether applications that were not given are examined too.
    with_accepted: bool,
    on_loss: Option<OnLoss>,
}

impl fmt::Debug for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doctor").field("log", &self.log).field("store", &self.store).finish_non_exhaustive()
    }
}

/// The examination of some partitions of one storage.
struct Looking<'a> {
    scratch: &'a Store,
    treatment: Treatment,
    report: Report,
    tell: Telling<'a>,
    /// How far the survey before a rebuild has derived each partition. Partitions that it could not examine are missing.
    derived: HashMap<Partition, PartitionOffset>,
    /// What the survey has found.
    lost: Lost,
    /// Partitions that were not examined yet.
    unknown: Vec<Partition>,
}

impl Doctor {
    /// A doctor for this log and store, with the code of the applications: views are derived by it.
    #[must_use]
    pub fn new(env: Env, log: Log, store: Store, applications: impl IntoIterator<Item = App>) -> Self {
        let applications = applications.into_iter().collect();
        Self { env, log, store, applications, with_accepted: false, on_loss: None }
    }

    /// Also examines applications that were not given, by their definitions in the registry's log. That is correct for
    /// applications without code: rows that a projector made are not examined.
    #[must_use]
    pub fn with_accepted(mut self) -> Self {
        self.with_accepted = true;
        self
    }

    /// Reports the evidence of lost events before a rebuild removes it. Keep it: after a crash during the rebuild some of it may no
    /// longer exist.
    #[must_use]
    pub fn on_loss(mut self, tell: impl FnMut(&Lost) + Send + 'static) -> Self {
        self.on_loss = Some(Box::new(tell));
        self
    }

    /// Compares everything with the log, and treats what differs.
    ///
    /// A rebuild of a log that has lost events fences the storage before it changes anything, because the next numbers have been given
    /// out before. [`Report::lost`] has what is known of them. After an error or a crash, run the rebuild again: until it has
    /// succeeded, the storage is fenced, or its partitions do not open.
    ///
    /// `scratch` must be empty and is not used afterwards. It needs as much room as the store. Problems of one partition are in
    /// the report, and the other partitions are examined nevertheless.
    ///
    /// # Errors
    ///
    /// [`DoctorError`] if the doctor cannot begin, or if the registry cannot be read: all other applications depend on it.
    pub async fn run(
        mut self,
        scratch: &Store,
        treatment: Treatment,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Report, DoctorError> {
        begin(scratch).await?;
        let mut looking = Looking {
            scratch,
            treatment,
            report: Report::default(),
            tell,
            derived: HashMap::new(),
            lost: Lost::default(),
            unknown: self.log.partitions().await?,
        };
        let (app, accepted) = registry::app()?;
        let sys = derivation(app, &accepted)?;
        let rebuilds = treatment == Treatment::Rebuild;
        if rebuilds {
            self.survey(&sys, &mut looking).await;
        } else {
            self.look(&sys, &mut looking).await;
        }
        looking.report.fails_on_a_problem()?;
        let others = self.others(scratch).await?;
        if rebuilds {
            for derivation in &others {
                self.survey(derivation, &mut looking).await;
            }
            self.fence(&mut looking).await?;
            let problems = looking.report.problems.len();
            self.look(&sys, &mut looking).await;
            if looking.report.problems.len() > problems {
                looking.report.fails_on_a_problem()?;
            }
        }
        for derivation in &others {
            self.look(derivation, &mut looking).await;
        }
        let Looking { mut report, unknown, .. } = looking;
        report.unchecked = unknown;
        self.store.sync().await?;
        Ok(report)
    }

    /// What the applications other than the registry are derived by. The registry is in the scratch store already.
    async fn others(&mut self, scratch: &Store) -> Result<Vec<Derivation>, DoctorError> {
        let mut apps = with_built_in(std::mem::take(&mut self.applications))?;
        if self.with_accepted {
            let names: Vec<String> = apps.iter().map(|app| app.definition.name.clone()).collect();
            // A built-in application has code: without it, its partitions are reported as not checked.
            let of_users = all_accepted(scratch).await?.into_iter();
            let of_users = of_users.filter(|accepted| accepted.id() >= registry::FIRST_APPLICATION_ID);
            let others = of_users.map(|accepted| accepted.application().clone());
            apps.extend(others.filter(|definition| !names.contains(&definition.name)).map(App::new));
        }
        let mut derivations = Vec::with_capacity(apps.len());
        for app in apps {
            // Never opened with it: there is no event of it either.
            let Some(accepted) = accepted_of(scratch, &app.definition.name).await? else { continue };
            derivations.push(derivation(app, &accepted)?);
        }
        Ok(derivations)
    }

    fn examination<'a>(
        &'a self,
        scratch: &'a Store,
        partition: Partition,
        derivation: &'a Derivation,
    ) -> Examination<'a> {
        Examination::new(&self.env, (&self.log, &self.store), scratch, partition, derivation)
    }

    /// Derives the partitions of an application, and finds out which of their logs have lost events.
    async fn survey(&self, derivation: &Derivation, looking: &mut Looking<'_>) {
        for partition in partitions_of(derivation) {
            let mut examination = self.examination(looking.scratch, partition, derivation);
            let Looking { lost, report, tell, .. } = looking;
            match examination.survey(lost, report, *tell).await {
                Ok(()) => drop(looking.derived.insert(partition, examination.at)),
                Err(error) => looking.report.problems.push(Problem { partition, error }),
            }
        }
    }

    /// Fences the storage if a log has lost events. Nothing was removed from the store before; afterwards the fence is durable.
    async fn fence(&mut self, looking: &mut Looking<'_>) -> Result<(), DoctorError> {
        let lost = std::mem::take(&mut looking.lost);
        if lost.partitions.is_empty() {
            return Ok(());
        }
        if let Some(tell) = &mut self.on_loss {
            tell(&lost);
        }
        if lost.has_lost(registry::PARTITION) {
            loss::close_registry(&self.store).await?;
        }
        // The registry may not open on its own store. The scratch store has everything that its log says.
        let scratch = looking.scratch;
        if let Some(at) = looking.derived.get(&registry::PARTITION) {
            put_checkpoint(scratch, registry::PARTITION, *at).await?;
        }
        let fenced = Engine::fence(self.env.clone(), self.log.clone(), scratch.clone()).await;
        fenced.map_err(|error| DoctorError::NotFenced(Box::new(error)))?;
        looking.report.lost = Some(lost);
        Ok(())
    }

    async fn look(&self, derivation: &Derivation, looking: &mut Looking<'_>) {
        for partition in partitions_of(derivation) {
            looking.unknown.retain(|unknown| *unknown != partition);
            let mut examination = self.examination(looking.scratch, partition, derivation);
            if looking.treatment == Treatment::Rebuild {
                let Some(at) = looking.derived.get(&partition) else { continue };
                examination.continues_after_a_survey(*at, looking.report.lost.is_some());
            }
            let Looking { report, tell, treatment, .. } = looking;
            if let Err(error) = examination.run(*treatment, report, *tell).await {
                report.problems.push(Problem { partition, error });
            }
        }
    }
}

fn partitions_of(derivation: &Derivation) -> impl Iterator<Item = Partition> {
    let application = derivation.schema.id();
    derivation.schema.partitions().partitions().map(move |id| Partition { application, id })
}

async fn put_checkpoint(store: &Store, partition: Partition, at: PartitionOffset) -> Result<(), DoctorError> {
    let mut batch = Batch::new();
    // The log is not recorded: this checkpoint is replaced soon, or is beyond the end of every log.
    Checkpoint::put(&mut batch, partition, Mark::without_log(at));
    Ok(store.write(batch, Durability::Synced).await?)
}

fn derivation(app: App, accepted: &Accepted) -> Result<Derivation, DefinitionError> {
    Ok(Derivation { schema: Arc::new(Schema::new(accepted)?), projectors: app.projectors, accepted: None })
}

/// Claims the scratch store.
async fn begin(scratch: &Store) -> Result<(), DoctorError> {
    let mark = Key::new(b"dm", b"");
    if scratch.get(mark).await?.is_some() {
        return Err(DoctorError::ScratchUsed);
    }
    Ok(scratch.put(mark, &[1]).await?)
}

/// What the registry's log says of an application.
async fn accepted_of(scratch: &Store, name: &str) -> Result<Option<Accepted>, DoctorError> {
    let key = registry::Registry::view("applications").row(&[name.into()]);
    let Some(bytes) = scratch.get(key.as_key()).await? else { return Ok(None) };
    read_accepted(name, &bytes).map(Some)
}

/// What the registry's log says of all applications.
async fn all_accepted(scratch: &Store) -> Result<Vec<Accepted>, DoctorError> {
    let view = registry::Registry::view("applications");
    let rows = scratch.scan(&view.storage, view.range(&[], None)).take(APPLICATIONS_MAX).await?;
    let name = |key: &[u8]| -> String {
        let parts = view.read(key).unwrap_or_default();
        parts.iter().map(|part| part.to_json().to_string()).collect()
    };
    rows.iter().map(|(key, bytes)| read_accepted(&name(key), bytes)).collect()
}

fn read_accepted(name: &str, bytes: &[u8]) -> Result<Accepted, DoctorError> {
    let row = view::decode_row(bytes).ok().and_then(|(_, row)| row).unwrap_or_default();
    let accepted = serde_json::from_value(row["accepted"].clone());
    accepted.map_err(|error| {
        LogError::Corrupt(format!("the accepted definition of {name} cannot be read: {error}")).into()
    })
}
