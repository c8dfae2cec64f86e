//! Unfencing a restored copy.
//!
//! ```text
//! look up and check everything ─► move workspace ids ─► raise what is named, and what has moved ─► Unfenced
//! ```
//!
//! Nothing is written before the whole request has been checked. A sequence that was raised remains fenced until `Unfenced`. So a
//! crash between two of these events causes only larger gaps: the next attempt finds in the log what has moved after the fence,
//! and raises it again.

mod target;
mod touched;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use seriatim_types::{ApplicationId, Number, SequenceId, WorkspaceId, WorkspaceKind};

use crate::apps::registry::{self, APPLICATION_NUMBER, BLOCKS_VIEW, WORKSPACE_IDS};
use crate::apps::series;
use crate::command::context::{Command, CommandError, Context};
use crate::command::event::{Argument, Event};
use crate::command::prepared::Prepared;
use crate::command::view::BadRow;
use crate::engine::Engine;
use crate::engine::others::{Call, Raising, Reply};
use crate::engine::running::Running;
use crate::error::{RequestError, SubmitError};
use crate::operate::fence::{FenceState, Opened, sequence_key};
use target::{Named, Target, of_series};

/// The command that raises sequences while a copy is being unfenced.
pub(crate) const RAISE: &str = "sys.Raise";
/// How far workspace ids move on when a copy is unfenced and its log is not complete. Each new workflow takes one: at a million a
/// second 2^40 last for 12 days, more than lies between a backup and its restore. 8,063 such moves fit below 2^53.
const WORKSPACE_IDS_SKIPPED: u64 = 1 << 40;
const REASON: &str = "a restored copy, or a log that has lost events: these may have been given out before";

/// Which numbers may have been given out after the backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfence {
    /// None: the log is complete. Everything continues.
    Complete,
    /// The last numbers that these names gave out: `series/S`, `blocks/B` or `APP/WORKSPACE/SEQUENCE`, the workspace by its name or
    /// its id. Everything that is not named remains fenced.
    Highest(Vec<(String, u64)>),
    /// At most so many numbers of each sequence. Each workspace and each block sequence skips them with its next event. Those that
    /// have had an event after the fence skip them at once, except for what was unfenced by name.
    ///
    /// A series, a block sequence or a name that did not exist at the time of the backup is not known here, and would begin
    /// again at its first number: give its name.
    Skip(u64),
    /// The last numbers that these names gave out, and at most so many numbers of everything else.
    HighestAndSkip(Vec<(String, u64)>, u64),
}

/// What is fenced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fenced {
    /// What was unfenced by name.
    pub free: Vec<String>,
}

/// What one workspace raises.
#[derive(Debug)]
struct Raises {
    kind: WorkspaceKind,
    /// Sequences, and what they give next at least.
    next: BTreeMap<SequenceId, Number>,
    /// Sequences that were unfenced by name before.
    settled: Vec<SequenceId>,
}

impl Raises {
    fn of(kind: WorkspaceKind) -> Self {
        Self { kind, next: BTreeMap::new(), settled: Vec::new() }
    }
}

/// What has moved after the fence.
#[derive(Debug, Default)]
struct Moved {
    /// By application and workspace.
    workspaces: BTreeMap<(u32, u64), Raises>,
    /// Block sequences, each with its next number.
    blocks: Vec<(String, u64)>,
}

/// Raises sequences, and skips numbers of the others.
#[derive(Debug)]
struct RaiseCommand {
    raises: Raises,
    skip: u64,
}

impl Command for RaiseCommand {
    fn run(&self, context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
        let mut raised = Vec::new();
        for (sequence, next) in &self.raises.next {
            let from = context.transaction.next(*sequence)?;
            let next = from.max(*next);
            context.transaction.raise(*sequence, next)?;
            let name = context.schema().sequence(*sequence).map(|sequence| sequence.name.to_string());
            raised.push(json!({"sequence": name, "from": from.get(), "next": next.get()}));
        }
        if self.skip > 0 {
            let named = self.raises.next.keys().chain(&self.raises.settled).copied();
            context.transaction.skip(self.skip, &named.collect::<Vec<_>>())?;
        }
        Ok(json!({"raised": raised, "skipped": self.skip}))
    }
}

impl Engine {
    /// What is fenced; `None` if nothing is.
    #[must_use]
    pub fn fenced(&self) -> Option<Fenced> {
        let state = self.fence_state();
        state.fenced.then(|| Fenced { free: state.names.iter().cloned().collect() })
    }

    /// Lets a restored copy give out numbers again, and says what is still fenced. What may have been given out after the
    /// backup becomes an explained gap: a raise in an event's header.
    ///
    /// Offsets are positions and are used again. Idempotency keys that were used after the backup are not known.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]: nothing more is unfenced than before. If its kind is `Invalid` or `NotFound`, nothing was written either.
    /// Call it again, with the same or with another argument. Numbers that are skipped twice make a larger gap.
    pub async fn unfence(&self, how: &Unfence) -> Result<Option<Fenced>, SubmitError> {
        let _turn = self.shared_fence().turn().await;
        // The last event of an earlier attempt may be in the log although that attempt returned an error.
        let state = self.fence_state();
        if !state.fenced {
            return Err(SubmitError::Conflict("nothing is fenced".to_owned()));
        }
        let (highest, skip) = match how {
            Unfence::Complete => (&[][..], None),
            Unfence::Highest(highest) => (&highest[..], None),
            Unfence::Skip(skip) => (&[][..], Some(*skip)),
            Unfence::HighestAndSkip(highest, skip) => (&highest[..], Some(*skip)),
        };
        if skip.is_some_and(|skip| skip == 0 || skip > Number::LAST_IN_JSON.get()) {
            let text = format!("skip 1 to {} numbers, or say that the log is complete", Number::LAST_IN_JSON);
            return Err(RequestError::Refused(text).into());
        }
        let opened = match how {
            Unfence::Complete => Opened { skip: Some(0), ..Opened::default() },
            _ => {
                let targets = self.targets(highest).await?;
                let touched = self.touched(&state, skip).await?;
                self.move_workspace_ids().await?;
                self.raise(targets, touched, skip).await?
            }
        };
        self.registry().unfence(&opened).await?;
        Ok(self.fenced())
    }

    /// What has moved after the fence and has to skip now, because it does not by itself.
    async fn touched(&self, state: &FenceState, skip: Option<u64>) -> Result<Moved, SubmitError> {
        if skip.is_none() {
            return Ok(Moved::default());
        }
        let mut moved = Moved { blocks: self.touched_blocks(state).await?, ..Moved::default() };
        for ((application, workspace), kind) in self.touched_workspaces(state).await? {
            // Checked here, so that an application that is not open is found before anything is written.
            self.running_by_id(ApplicationId::new(application))?;
            moved.workspaces.insert((application, workspace), Raises::of(kind));
        }
        Ok(moved)
    }

    /// Moves the next workspace id after all ids that may have been given out: once, before any workspace is created.
    async fn move_workspace_ids(&self) -> Result<(), SubmitError> {
        if self.fence_state().ids.is_some() {
            return Ok(());
        }
        let row = self.registry().blocks(WORKSPACE_IDS).await?;
        // It was defined when the engine was opened.
        let row = row.ok_or_else(|| BadRow::new(BLOCKS_VIEW, &[WORKSPACE_IDS.into()], "it is missing"))?;
        let next = row.next.max(WorkspaceId::FIRST.get());
        let left = Number::LAST_IN_JSON.get().saturating_sub(next);
        if left < WORKSPACE_IDS_SKIPPED {
            let text = format!(
                "unfencing skips {WORKSPACE_IDS_SKIPPED} ids of workspaces, and {left} are left: say that the log is complete, \
                 or continue in a new storage"
            );
            return Err(RequestError::Refused(text).into());
        }
        self.registry().raise_blocks(WORKSPACE_IDS, next + WORKSPACE_IDS_SKIPPED, REASON).await?;
        Ok(())
    }

    /// Raises what was named and what has moved, each workspace with one event, and says what is free then.
    async fn raise(
        &self,
        targets: Vec<Named<'_>>,
        moved: Moved,
        skip: Option<u64>,
    ) -> Result<Opened, SubmitError> {
        let mut opened = Opened { skip, ..Opened::default() };
        let Moved { mut workspaces, blocks: moved_blocks } = moved;
        let state = self.fence_state();
        for Named { name, next, target } in targets {
            let (application, workspace, kind, sequence) = match target {
                Target::Blocks(blocks) => {
                    self.raise_blocks(&blocks, next.get()).await?;
                    opened.blocks.push(blocks);
                    opened.names.push(name.to_owned());
                    continue;
                }
                Target::NewSeries(name) => self.new_series(&name).await?,
                Target::Sequence { application, workspace, kind, sequence } => {
                    (application, workspace, kind, sequence)
                }
            };
            let raises = workspaces.entry((application.get(), workspace.get()));
            let raises = raises.or_insert_with(|| Raises::of(kind));
            let place = raises.next.entry(sequence).or_insert(next);
            *place = next.max(*place);
            opened.sequences.push(sequence_key(application, workspace, sequence));
            opened.names.push(name.to_owned());
        }
        for (blocks, next) in moved_blocks.into_iter().filter(|(blocks, _)| !opened.blocks.contains(blocks)) {
            let next = next.saturating_add(skip.unwrap_or(0)).min(Number::LAST_IN_JSON.get());
            self.raise_blocks(&blocks, next).await?;
        }
        for ((application, workspace), Raises { kind, next, .. }) in workspaces {
            let settled = state.named_in(application, workspace);
            let (application, workspace) = (ApplicationId::new(application), WorkspaceId::new(workspace));
            self.raise_workspace(Raising { application, workspace, kind, next, settled, skip }).await?;
        }
        Ok(opened)
    }

    /// Raises a block sequence. If it is in use, because it was unfenced before, the rest of its present block is not given out.
    async fn raise_blocks(&self, name: &str, next: u64) -> Result<(), SubmitError> {
        self.registry().raise_blocks(name, next, REASON).await?;
        self.open_allocators().forget(name).await;
        Ok(())
    }

    /// Creates a series that was first used after the backup.
    async fn new_series(
        &self,
        name: &str,
    ) -> Result<(ApplicationId, WorkspaceId, WorkspaceKind, SequenceId), SubmitError> {
        let running = self.running(series::NAME)?;
        let (kind, sequence) = of_series(running)?;
        let (workspace, _) = self.register_workspace(running, kind, Some(name), true, None).await?;
        Ok((running.schema.id(), workspace.id, kind, sequence))
    }

    /// Raises sequences of a workspace: here if this engine owns it, else at its owner.
    async fn raise_workspace(&self, raising: Raising) -> Result<(), SubmitError> {
        let running = self.running_by_id(raising.application)?;
        let partition = running.schema.partition_of(raising.workspace);
        match self.raise_here(raising.clone()).await {
            Err(SubmitError::NotHere { .. }) => {
                match self.others().call(partition, Call::Raise(raising)).await? {
                    Reply::Raised => Ok(()),
                    _ => Err(Reply::unexpected(partition)),
                }
            }
            raised => raised,
        }
    }

    /// Raises sequences of a workspace that this engine owns.
    pub(crate) async fn raise_here(&self, raising: Raising) -> Result<(), SubmitError> {
        let Raising { application, workspace, kind, next, settled, skip } = raising;
        let running = self.running_by_id(application)?;
        let named = next.iter().map(|(sequence, next)| {
            let name = running.schema.sequence(*sequence).map(|sequence| sequence.name.to_string());
            json!({"sequence": name, "next": next.get()})
        });
        let args = json!({"raises": named.collect::<Vec<_>>(), "skip": skip, "reason": REASON});
        let raises = Raises { kind, next, settled };
        let prepared = raising_of(workspace, kind, &args, RaiseCommand { raises, skip: skip.unwrap_or(0) });
        running.partition_of(workspace).submit(prepared).await.map(drop)
    }
}

/// Makes the registry number applications after one that the log has events of, if it does not do so already.
pub(crate) async fn pass_applications(sys: &Running, last: ApplicationId) -> Result<(), SubmitError> {
    let sequence = sys.schema.sequence_by_name(APPLICATION_NUMBER).map(|sequence| sequence.id);
    let kind = sys.schema.kind_by_name(registry::KIND).map(|kind| kind.id);
    let Some((sequence, kind)) = sequence.zip(kind) else { return Ok(()) };
    let last = Number::new(last.get().into());
    let reached = target::reached(sys, registry::WORKSPACE, sequence).await?;
    let reached = reached.unwrap_or(Number::new(registry::FIRST_APPLICATION_ID.get().into()));
    let Some(next) = last.next().filter(|next| *next > reached) else { return Ok(()) };
    let args = json!({"raises": [{"sequence": APPLICATION_NUMBER, "next": next.get()}], "reason": REASON});
    let raises = Raises { next: BTreeMap::from([(sequence, next)]), ..Raises::of(kind) };
    let prepared = raising_of(registry::WORKSPACE, kind, &args, RaiseCommand { raises, skip: 0 });
    sys.partition_of(registry::WORKSPACE).submit(prepared).await.map(drop)
}

fn raising_of(workspace: WorkspaceId, kind: WorkspaceKind, args: &Json, command: RaiseCommand) -> Prepared {
    Prepared {
        workspace,
        kind,
        event: Event {
            command: RAISE.into(),
            argument: Argument::Json(args.to_string().into()),
            ..Event::default()
        },
        requested: 0,
        references: Vec::new(),
        handler: Some(Arc::new(command)),
        args: Json::Null,
        unlogged: None,
        key: None,
        expected: None,
        reads: Vec::new(),
        unfencing: true,
    }
}
