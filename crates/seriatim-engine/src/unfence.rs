//! Fencing a restored copy, and setting it free again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use seriatim_types::{ApplicationId, Number, SequenceId, WorkspaceId, WorkspaceKind};

use crate::command::{Command, CommandError, Context};
use crate::engine::Engine;
use crate::error::{RequestError, SubmitError};
use crate::event::Argument;
use crate::fence::{Opened, sequence_key};
use crate::prepare::Prepared;
use crate::registry::WORKSPACE_IDS;
use crate::series;

/// The command that raises sequences while a copy is being unfenced.
pub(crate) const RAISE: &str = "sys.Raise";
/// How far workspace ids move on when a copy is unfenced and its log is not complete: more than anybody makes between a
/// backup and its restore, and there are 2^53.
const WORKSPACE_IDS_SKIPPED: u64 = 1 << 20;
const REASON: &str = "a restored copy: these may have been given out after its backup";

/// What the outside may have seen after the backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfence {
    /// Nothing: the log is complete. Everything goes on.
    Complete,
    /// These names got as far as these numbers, which were the last to be given out: `series/S`, `blocks/B` or
    /// `APP/WORKSPACE/SEQUENCE`, the workspace by its name or its id. Whatever is not named stays fenced.
    Highest(Vec<(String, u64)>),
    /// At most so many numbers of each sequence. Each workspace and each block sequence skips them with its next event.
    ///
    /// A series, a block sequence or a name that did not exist at the time of the backup is not known here, and begins
    /// anew: name it.
    Skip(u64),
    /// These names got as far as these numbers, and everything else gave out at most so many.
    HighestAndSkip(Vec<(String, u64)>, u64),
}

/// What is fenced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fenced {
    /// What was set free by name.
    pub free: Vec<String>,
}

/// What a name leads to.
enum Target {
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

/// What one workspace is told.
#[derive(Debug, Default)]
struct Raises {
    kind: Option<WorkspaceKind>,
    /// Sequences, and what they give next at least.
    next: BTreeMap<SequenceId, Number>,
    /// Sequences that were dealt with by name before.
    settled: Vec<SequenceId>,
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

fn behind(name: &str, highest: u64) -> Result<Number, SubmitError> {
    let next = Number::new(highest).next();
    next.ok_or_else(|| RequestError::Refused(format!("{name}: {highest} is too large")).into())
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
    /// Offsets are positions and come again; idempotency keys that were used after the backup are forgotten.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]: nothing is free that was not before. Do it again; what was skipped twice is a larger gap.
    pub async fn unfence(&self, how: &Unfence) -> Result<Option<Fenced>, SubmitError> {
        if !self.fence_state().fenced {
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
        let mut targets = Vec::with_capacity(highest.len());
        for (name, highest) in highest {
            targets.push((name, behind(name, *highest)?, self.target(name).await?));
        }
        let opened = match how {
            Unfence::Complete => Opened { skip: Some(0), ..Opened::default() },
            _ => {
                self.move_workspace_ids(skip.unwrap_or(0)).await?;
                self.raise_targets(targets, skip).await?
            }
        };
        self.registry().unfence(&opened).await?;
        self.shared_fence().set(self.registry().fence_state().await?);
        Ok(self.fenced())
    }

    /// Moves workspace ids behind everything that may have been given out: once, before anything is made here.
    async fn move_workspace_ids(&self, skip: u64) -> Result<(), SubmitError> {
        if self.fence_state().ids.is_some() {
            return Ok(());
        }
        let row = self.registry().row("blocks", &[WORKSPACE_IDS.into()]).await?.unwrap_or_default();
        let next = row["next"].as_u64().unwrap_or(0).max(WorkspaceId::FIRST.get());
        let next = next.saturating_add(skip.max(WORKSPACE_IDS_SKIPPED));
        self.registry().raise_blocks(WORKSPACE_IDS, next, REASON).await?;
        self.shared_fence().set(self.registry().fence_state().await?);
        Ok(())
    }

    /// What a name leads to.
    async fn target(&self, name: &str) -> Result<Target, SubmitError> {
        let unknown = || {
            let text = format!("{name} is not series/S, blocks/B or APP/WORKSPACE/SEQUENCE");
            SubmitError::Request(RequestError::Refused(text))
        };
        let (application, rest) = name.split_once('/').ok_or_else(unknown)?;
        let (workspace, sequence) = match rest.rsplit_once('/') {
            Some((workspace, sequence)) => (workspace, sequence),
            None if application == "blocks" => {
                let row = self.registry().row("blocks", &[rest.into()]).await?;
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

    /// Raises what was named, each workspace with one event, and says what is free then.
    async fn raise_targets(
        &self,
        targets: Vec<(&String, Number, Target)>,
        skip: Option<u64>,
    ) -> Result<Opened, SubmitError> {
        let mut opened = Opened { skip, ..Opened::default() };
        let mut workspaces: BTreeMap<(u32, u64), Raises> = BTreeMap::new();
        let state = self.fence_state();
        if skip.is_some() {
            // Their event behind the fence is there already, so they do not skip by themselves.
            for (application, workspace, sequence) in &state.sequences {
                let raises = workspaces.entry((*application, *workspace)).or_default();
                raises.settled.push(SequenceId::new(*sequence));
            }
        }
        for (name, next, target) in targets {
            let (application, workspace, kind, sequence) = match target {
                Target::Blocks(blocks) => {
                    self.registry().raise_blocks(&blocks, next.get(), REASON).await?;
                    opened.blocks.push(blocks);
                    opened.names.push(name.clone());
                    continue;
                }
                Target::NewSeries(name) => self.new_series(&name).await?,
                Target::Sequence { application, workspace, kind, sequence } => {
                    (application, workspace, kind, sequence)
                }
            };
            let raises = workspaces.entry((application.get(), workspace.get())).or_default();
            raises.kind = Some(kind);
            raises.settled = state.named_in(application.get(), workspace.get());
            let place = raises.next.entry(sequence).or_insert(next);
            *place = next.max(*place);
            opened.sequences.push(sequence_key(application, workspace, sequence));
            opened.names.push(name.clone());
        }
        for ((application, workspace), raises) in workspaces {
            self.raise_workspace(ApplicationId::new(application), WorkspaceId::new(workspace), raises, skip)
                .await?;
        }
        Ok(opened)
    }

    /// Makes a series that was used after the backup for the first time.
    async fn new_series(
        &self,
        name: &str,
    ) -> Result<(ApplicationId, WorkspaceId, WorkspaceKind, SequenceId), SubmitError> {
        let running = self.running(series::NAME)?;
        let missing = || SubmitError::UnknownApplication(series::NAME.to_owned());
        let kind = running.schema.kind_by_name(series::KIND).ok_or_else(missing)?.id;
        let sequence = running.schema.sequence_by_name(series::SEQUENCE).ok_or_else(missing)?.id;
        let (workspace, _) = self.register_workspace(running, kind, Some(name), true, None).await?;
        Ok((running.schema.id(), workspace.id, kind, sequence))
    }

    async fn raise_workspace(
        &self,
        application: ApplicationId,
        workspace: WorkspaceId,
        raises: Raises,
        skip: Option<u64>,
    ) -> Result<(), SubmitError> {
        let running = self.running_by_id(application)?;
        let kind = match raises.kind {
            Some(kind) => kind,
            None => self.kind_of(running, workspace).await?,
        };
        let named = raises.next.iter().map(|(sequence, next)| {
            let name = running.schema.sequence(*sequence).map(|sequence| sequence.name.to_string());
            json!({"sequence": name, "next": next.get()})
        });
        let args = json!({"raises": named.collect::<Vec<_>>(), "skip": skip, "reason": REASON});
        let prepared = raising(workspace, kind, &args, RaiseCommand { raises, skip: skip.unwrap_or(0) });
        running.partition_of(workspace).submit(prepared).await.map(drop)
    }
}

fn raising(workspace: WorkspaceId, kind: WorkspaceKind, args: &Json, command: RaiseCommand) -> Prepared {
    Prepared {
        workspace,
        kind,
        command: RAISE.into(),
        handler: Some(Arc::new(command)),
        argument: Argument::Json(args.to_string().into()),
        args: Json::Null,
        unlogged: None,
        changes: Vec::new(),
        idempotency: None,
        expected: None,
        reads: Vec::new(),
        unfencing: true,
    }
}
