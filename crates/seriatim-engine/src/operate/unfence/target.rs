//! What a name refers to, and whether it can be raised to the given number.

use seriatim_sequencer::Sequence;
use seriatim_types::{ApplicationId, Number, SequenceId, WorkspaceId, WorkspaceKind};

use crate::apps::registry::OWN_NAMES;
use crate::apps::series;
use crate::engine::Engine;
use crate::engine::running::Running;
use crate::error::{RequestError, SubmitError};

/// What a name refers to.
pub(super) enum Target {
    Blocks(String),
    Sequence {
        application: ApplicationId,
        workspace: WorkspaceId,
        kind: WorkspaceKind,
        sequence: SequenceId,
    },
    /// A series that was not in the backup.
    NewSeries(String),
}

/// A name, and what it gives next at least.
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) next: Number,
    pub(super) target: Target,
}

fn refused(text: String) -> SubmitError {
    RequestError::Refused(text).into()
}

/// The kind and the sequence of a series.
pub(super) fn of_series(running: &Running) -> Result<(WorkspaceKind, SequenceId), SubmitError> {
    let missing = || SubmitError::UnknownApplication(series::NAME.to_owned());
    let kind = running.schema.kind_by_name(series::KIND).ok_or_else(missing)?.id;
    let sequence = running.schema.sequence_by_name(series::SEQUENCE).ok_or_else(missing)?.id;
    Ok((kind, sequence))
}

impl Engine {
    /// What these names refer to. Every wrong name or number is found here, before anything is written.
    pub(super) async fn targets<'a>(
        &self,
        highest: &'a [(String, u64)],
    ) -> Result<Vec<Named<'a>>, SubmitError> {
        let mut targets = Vec::with_capacity(highest.len());
        for (name, highest) in highest {
            let next = Number::new(*highest).next();
            let next = next.ok_or_else(|| refused(format!("{name}: {highest} is too large")))?;
            let named = Named { name, next, target: self.target(name).await? };
            self.check_raise(&named).await?;
            targets.push(named);
        }
        Ok(targets)
    }

    /// What a name refers to.
    async fn target(&self, name: &str) -> Result<Target, SubmitError> {
        let unknown = || refused(format!("{name} is not series/S, blocks/B or APP/WORKSPACE/SEQUENCE"));
        let (application, rest) = name.split_once('/').ok_or_else(unknown)?;
        let (workspace, sequence) = match rest.rsplit_once('/') {
            Some((workspace, sequence)) => (workspace, sequence),
            None if application == "blocks" => {
                if rest.starts_with(OWN_NAMES) {
                    return Err(refused(format!("{name} is the engine's own: unfencing moves it by itself")));
                }
                let row = self.registry().blocks(rest).await?;
                row.ok_or_else(|| SubmitError::NotFound(format!("block sequence {rest} does not exist")))?;
                return Ok(Target::Blocks(rest.to_owned()));
            }
            None if application == series::NAME => (rest, series::SEQUENCE),
            None => return Err(unknown()),
        };
        let running = self.running(application)?;
        let sequence_id = running.schema.sequence_by_name(sequence).map(|sequence| sequence.id);
        let missing =
            || SubmitError::NotFound(format!("application {application} has no sequence {sequence}"));
        let sequence_id = sequence_id.ok_or_else(missing)?;
        let found = self.registry().named(application, workspace).await?;
        let id = match found {
            Some(id) => id,
            None if application == series::NAME => {
                series::check_name("series", workspace)?;
                return Ok(Target::NewSeries(workspace.to_owned()));
            }
            None => {
                let missing = || {
                    SubmitError::NotFound(format!("application {application} has no workspace {workspace}"))
                };
                WorkspaceId::new(workspace.parse().map_err(|_| missing())?)
            }
        };
        let kind = self.kind_of(running, id).await?;
        let application = running.schema.id();
        Ok(Target::Sequence { application, workspace: id, kind, sequence: sequence_id })
    }

    /// Checks that the named sequence can continue from the given number.
    async fn check_raise(&self, named: &Named<'_>) -> Result<(), SubmitError> {
        let Named { name, next, target } = named;
        let too_large = || refused(format!("{name}: {} is outside of its numbers", next.get() - 1));
        let (running, kind, sequence, reached) = match target {
            Target::Blocks(_) => {
                return if *next > Number::LAST_IN_JSON { Err(too_large()) } else { Ok(()) };
            }
            Target::NewSeries(_) => {
                let running = self.running(series::NAME)?;
                let (kind, sequence) = of_series(running)?;
                (running, kind, sequence, None)
            }
            Target::Sequence { application, workspace, kind, sequence } => {
                let running = self.running_by_id(*application)?;
                let reached = match reached(running, *workspace, *sequence).await {
                    // Its owner compares it with the number when it raises it.
                    Err(SubmitError::NotHere { .. }) => None,
                    reached => reached?,
                };
                (running, *kind, *sequence, reached)
            }
        };
        let sequences =
            running.schema.sequences().kind(kind).map(|kind| kind.sequences()).unwrap_or_default();
        let found = sequences.iter().find(|known| known.id() == sequence);
        let missing = || SubmitError::NotFound(format!("{name}: its workspace has no such sequence"));
        let found = found.ok_or_else(missing)?;
        // A sequence that is already further is not changed.
        let is_passed = reached.is_some_and(|reached| reached >= *next);
        if is_passed || can_stand_at(found, *next) { Ok(()) } else { Err(too_large()) }
    }
}

/// The position of a sequence of a workspace; `None` if the workspace has no events.
pub(super) async fn reached(
    running: &Running,
    workspace: WorkspaceId,
    sequence: SequenceId,
) -> Result<Option<Number>, SubmitError> {
    let numbers = running.partition_of(workspace).numbers(workspace).await?;
    Ok(numbers.and_then(|numbers| numbers.next(running.schema.sequences().kind(numbers.kind()), sequence)))
}

/// Whether a sequence can continue from a number: it is in one of the ranges, or directly after one.
fn can_stand_at(sequence: &Sequence, next: Number) -> bool {
    let before = next.get().checked_sub(1).map(Number::new);
    sequence.contains(next) || before.is_some_and(|before| sequence.contains(before))
}
