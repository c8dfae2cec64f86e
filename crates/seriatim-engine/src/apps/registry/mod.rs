//! `sys`, the application that the engine itself needs. It stores applications, names, workspaces and blocks, as events like
//! those of other applications. It has one partition, and one workspace with the id 1.
//!
//! ```text
//! view          row's key                    row
//! applications  name                         { "accepted": … }
//! names         scope, name                  { "id": workspace }
//! workspaces    application, workspace       { "kind": …, "name": … }
//! blocks        name                         { "first", "block_size", "next", "base", "size", "unused", "wasted", "restores" }
//! fence         "fence"                      the state of the restore fence
//! tokens, token_counts                       see `tokens`
//! ```

mod accepted;
mod handle;
mod memory;
#[cfg(test)]
mod row_tests;
mod rows;

use serde::Deserialize as _;
use serde_json::Value as Json;
use seriatim_types::{ApplicationId, Number, Partition, PartitionId, WorkspaceId};

use crate::apps::tokens;
use crate::command::context::{Command, CommandError, Context, answer};
use crate::command::projector::{Projected, Rows, projector};
use crate::command::request::Request;
use crate::command::view::KeyPart;
use crate::definition::{
    Accepted, Application, CommandDefinition, DefinitionError, KindDefinition, Schema, SequenceDefinition,
};
use crate::engine::app::App;
use crate::operate::fence::{FenceState, Opened};

pub(crate) use accepted::AcceptedIn;
pub use handle::Workspace;
pub(crate) use handle::{Registration, Registry, read_workspace};
pub(crate) use memory::RegistryMemory;
use rows::{
    AcceptArgs, AcceptedName, ApplicationRow, DefineArgs, Defined, FenceArgs, NameRow, RaiseArgs, Raised,
    RegisterArgs, Registered, ReleaseArgs, ReserveArgs, StoredApplication, WorkspaceRow,
};
pub(crate) use rows::{BlocksRow, Released, Reserved};

/// The application's number, compiled in.
pub(crate) const ID: ApplicationId = ApplicationId::new(1);
/// Its one partition.
pub(crate) const PARTITION: Partition = Partition { application: ID, id: PartitionId::new(0) };
/// The kind of its one workspace.
pub(crate) const KIND: &str = "registry";
/// Its one workspace.
pub(crate) const WORKSPACE: WorkspaceId = WorkspaceId::new(1);
/// Its name.
pub(crate) const NAME: &str = "sys";
/// The first number of an application of a user. Lower numbers are for built-in applications.
pub(crate) const FIRST_APPLICATION_ID: ApplicationId = ApplicationId::new(16);

const ACCEPT: &str = "Accept";
const REGISTER: &str = "Register";
const DEFINE_BLOCKS: &str = "DefineBlocks";
const RESERVE: &str = "ReserveBlock";
const RELEASE: &str = "ReleaseBlock";
const RAISE_BLOCKS: &str = "RaiseBlocks";
const FENCE: &str = "Fenced";
const UNFENCE: &str = "Unfenced";

/// The sequence that numbers of applications are drawn from.
pub(crate) const APPLICATION_NUMBER: &str = "ApplicationNumber";
/// The block sequence that workspace ids are allocated from.
pub(crate) const WORKSPACE_IDS: &str = "sys.WorkspaceIds";
/// The prefix of names that the engine reserves for itself.
pub(crate) const OWN_NAMES: &str = "sys.";
const FENCE_VIEW: &str = "fence";
pub(crate) const BLOCKS_VIEW: &str = "blocks";

/// The definition. Its numbers follow from the order, so new items are added at the end.
fn definition() -> Result<Application, DefinitionError> {
    Application::builder(NAME)
        .partitions(1)
        .sequence(SequenceDefinition::new(APPLICATION_NUMBER, u64::from(FIRST_APPLICATION_ID.get())))
        .command(CommandDefinition::with_json(ACCEPT).sequences([APPLICATION_NUMBER]))
        .command(CommandDefinition::with_json(REGISTER))
        .command(CommandDefinition::with_json(DEFINE_BLOCKS))
        .command(CommandDefinition::with_json(RESERVE))
        .command(CommandDefinition::with_json(RELEASE))
        .command(CommandDefinition::with_json(RAISE_BLOCKS))
        .command(CommandDefinition::with_json(FENCE))
        .command(CommandDefinition::with_json(UNFENCE))
        .command(CommandDefinition::with_json(tokens::CREATE))
        .command(CommandDefinition::with_json(tokens::REVOKE))
        .kind(KindDefinition::new(KIND))
        .build()
}

/// The application with its code, and its accepted definition.
pub(crate) fn app() -> Result<(App, Accepted), DefinitionError> {
    let definition = definition()?;
    let accepted = Accepted::accept(None, ID, &definition)?;
    let app = App::new(definition)
        .command(ACCEPT, accept)
        .command(REGISTER, Register)
        .command(DEFINE_BLOCKS, ReadsFence(define_blocks))
        .command(RESERVE, ReadsFence(reserve))
        .command(RELEASE, release)
        .command(RAISE_BLOCKS, ReadsFence(raise_blocks))
        .command(FENCE, fence)
        .command(UNFENCE, ReadsFence(unfence))
        .projector(projector("applications", project_applications))
        .projector(projector("names", project_names))
        .projector(projector("workspaces", project_workspaces))
        .projector(projector(BLOCKS_VIEW, project_blocks))
        .projector(projector(FENCE_VIEW, project_fence));
    Ok((tokens::add_to(app), accepted))
}

/// A command that always reads the fence.
struct ReadsFence(fn(&mut Context<'_, '_>) -> Result<Json, CommandError>);

impl Command for ReadsFence {
    fn run(&self, context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
        (self.0)(context)
    }

    fn reads(&self, _: &Json) -> Vec<(&'static str, Vec<KeyPart>)> {
        vec![(FENCE_VIEW, fence_key().to_vec())]
    }
}

/// Registers a workspace. Every new workflow waits for this command, so it lists all rows that it reads.
struct Register;

impl Command for Register {
    fn run(&self, context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
        register(context)
    }

    fn reads(&self, args: &Json) -> Vec<(&'static str, Vec<KeyPart>)> {
        let mut reads = vec![(FENCE_VIEW, fence_key().to_vec())];
        // An argument that cannot be read is refused when the command runs.
        let Ok(args) = RegisterArgs::deserialize(args) else { return reads };
        if let Some(name) = &args.name {
            reads.push(("names", vec![args.scope.as_str().into(), name.as_str().into()]));
        }
        let workspace = workspace_key(u64::from(args.application), args.candidate);
        reads.extend(workspace.map(|key| ("workspaces", key.to_vec())));
        reads
    }
}

fn fence_key() -> [KeyPart; 1] {
    [FENCE_VIEW.into()]
}

fn fence_state(context: &mut Context<'_, '_>) -> Result<FenceState, CommandError> {
    Ok(context.read(FENCE_VIEW, &fence_key())?.unwrap_or_default())
}

/// The row contains the definition exactly as the event does.
fn project_applications(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    if &*event.event.command != ACCEPT {
        return Ok(());
    }
    let AcceptedName { name } = event.event.argument_as()?;
    let row = StoredApplication { accepted: event.event.result_as()? };
    let row = serde_json::to_value(row).map_err(|error| error.to_string())?;
    rows.fold(&[name.as_str().into()], |_| Some(row));
    Ok(())
}

fn blocks(context: &mut Context<'_, '_>, name: &str) -> Result<BlocksRow, CommandError> {
    let row = context.read(BLOCKS_VIEW, &[name.into()])?;
    row.ok_or_else(|| CommandError::NotFound(format!("block sequence {name} does not exist")))
}

/// Accepts a definition, new or changed.
fn accept(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let AcceptArgs { name, definition, id } = context.args_as()?;
    let row: Option<ApplicationRow> = context.read("applications", &[name.as_str().into()])?;
    let previous = row.map(|row| row.accepted);
    let id = match (&previous, id) {
        (Some(previous), _) => previous.id(),
        // A built-in application has its own number.
        (None, Some(id)) => ApplicationId::new(id),
        (None, None) => application_id(context.draw(APPLICATION_NUMBER)?.get())?,
    };
    let accepted = Accepted::accept(previous.as_ref(), id, &definition);
    // A definition that cannot run must not be accepted, because accepting it cannot be undone.
    let accepted = accepted.and_then(|accepted| Schema::new(&accepted).map(|_| accepted));
    let accepted = accepted.map_err(|error| CommandError::Conflict(error.to_string()))?;
    answer(&accepted)
}

fn application_id(id: u64) -> Result<ApplicationId, CommandError> {
    let id = u32::try_from(id)
        .map_err(|_| CommandError::Invalid(format!("{id} is not an application's number")))?;
    Ok(ApplicationId::new(id))
}

/// Registers a workspace with its kind and its name. If the name is in use, the result is the id that it has.
fn register(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args: RegisterArgs = context.args_as()?;
    if let Some(name) = &args.name {
        let row = context.read("names", &[args.scope.as_str().into(), name.as_str().into()])?;
        if let Some(NameRow { id }) = row {
            return answer(&Registered { id, created: false });
        }
    }
    if fence_state(context)?.fenced && !args.unfencing {
        return Err(CommandError::Fenced("ids of workspaces".to_owned()));
    }
    answer(&Registered { id: args.candidate, created: true })
}

/// The workspace that an event creates; `None` if it creates none.
fn created(event: &Projected<'_>) -> Result<Option<(RegisterArgs, WorkspaceId)>, String> {
    if &*event.event.command != REGISTER {
        return Ok(None);
    }
    let Registered { id, created } = event.event.result_as()?;
    created.then(|| Ok((event.event.argument_as()?, WorkspaceId::new(id)))).transpose()
}

fn project_names(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let Some((RegisterArgs { scope, name: Some(name), .. }, id)) = created(event)? else { return Ok(()) };
    rows.fold_as(&[scope.as_str().into(), name.as_str().into()], |_| Ok(Some(NameRow { id: id.get() })))
}

fn workspace_key(application: u64, workspace: u64) -> Option<[KeyPart; 2]> {
    Some([i64::try_from(application).ok()?.into(), i64::try_from(workspace).ok()?.into()])
}

fn project_workspaces(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let Some((RegisterArgs { application, kind, name, .. }, id)) = created(event)? else { return Ok(()) };
    let key =
        workspace_key(u64::from(application), id.get()).ok_or("Register with an id that is too large")?;
    rows.fold_as(&key, |_| Ok(Some(WorkspaceRow { kind, name })))
}

/// Creates a block sequence with settings. Does nothing if it exists with the same settings.
fn define_blocks(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let DefineArgs { name, first, block_size: size } = context.args_as()?;
    if size == 0 {
        return Err(CommandError::Invalid("\"block_size\" must be at least 1".to_owned()));
    }
    let fence = fence_state(context)?;
    match context.read::<BlocksRow>(BLOCKS_VIEW, &[name.as_str().into()])? {
        None if fence.fenced && !name.starts_with(OWN_NAMES) => {
            Err(CommandError::Fenced(format!("numbers of blocks/{name}")))
        }
        None => answer(&Defined { created: true, restores: Some(fence.restores.len() as u64) }),
        Some(row) if (row.first, row.block_size) == (first, size) => {
            answer(&Defined { created: false, restores: None })
        }
        Some(row) => Err(CommandError::Conflict(format!(
            "block sequence {name} begins at {} with blocks of {}, not at {first} with blocks of {size}",
            row.first, row.block_size
        ))),
    }
}

/// Reserves a block after the last one.
fn reserve(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let ReserveArgs { name, min, want, opening, .. } = context.args_as()?;
    let row = blocks(context, &name)?;
    let fence = fence_state(context)?;
    if !fence.admits_blocks(&name) {
        return Err(CommandError::Fenced(format!("numbers of blocks/{name}")));
    }
    let skipped = fence.blocks_skip(row.restores);
    let base = row.next.saturating_add(skipped);
    let left = Number::LAST_IN_JSON.get().saturating_sub(base);
    let size = want.max(min).max(1).min(left);
    if size < min.max(1) {
        return Err(CommandError::Invalid(format!(
            "block sequence {name} has {left} numbers left, not {min}"
        )));
    }
    // The caller that reserved before has not given anything back, so its unused numbers are wasted.
    let wasted = if opening { row.unused } else { 0 };
    answer(&Reserved { base, size, skipped, wasted, restores: fence.restores.len() as u64 })
}

/// Frees the end of what was reserved last. That may be more than the last block.
fn release(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let ReleaseArgs { name, base, size } = context.args_as()?;
    let row: Option<BlocksRow> = context.read(BLOCKS_VIEW, &[name.as_str().into()])?;
    let is_last = |row: BlocksRow| Some(row.next) == base.checked_add(size) && row.first <= base;
    answer(&Released { released: row.is_some_and(is_last) })
}

/// The block sequence that a request raises.
pub(crate) fn raised_blocks(request: &Request) -> Option<String> {
    let args = request.args.as_ref().filter(|_| request.command == RAISE_BLOCKS)?;
    RaiseArgs::deserialize(args).ok().map(|args| args.name)
}

/// Makes a block sequence continue from a number that is later than all that may have been given out elsewhere.
fn raise_blocks(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let RaiseArgs { name, next: asked, .. } = context.args_as()?;
    if asked > Number::LAST_IN_JSON.get() {
        return Err(CommandError::Invalid(format!(
            "{asked} is higher than the last number of block sequence {name}: choose a lower one"
        )));
    }
    let from = blocks(context, &name)?.next;
    let restores = fence_state(context)?.restores.len() as u64;
    answer(&Raised { from, next: asked.max(from), restores })
}

/// Fences the storage, which is a restored copy or has lost events: no number is given out until it is unfenced.
fn fence(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    context.args_as::<FenceArgs>()?;
    Ok(Json::Null)
}

/// Stores what may be given out again.
fn unfence(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let opened: Opened = context.args_as()?;
    let state = fence_state(context)?;
    if !state.fenced {
        return Err(CommandError::Conflict("nothing is fenced".to_owned()));
    }
    if opened.skip.is_some_and(|skip| skip > 0) && state.ids.is_none() {
        return Err(CommandError::Conflict("workspace ids have not been moved yet".to_owned()));
    }
    Ok(Json::Null)
}

fn project_fence(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let event = event.event;
    match &*event.command {
        FENCE | UNFENCE => {}
        RAISE_BLOCKS if event.argument_as::<RaiseArgs>()?.name == WORKSPACE_IDS => {}
        _ => return Ok(()),
    }
    rows.fold_as(&fence_key(), |state: Option<FenceState>| {
        let mut state = state.unwrap_or_default();
        match &*event.command {
            FENCE => state.fence(event.argument_as::<FenceArgs>()?.tails),
            UNFENCE => state.unfence(event.argument_as::<Opened>()?),
            _ if state.fenced => state.ids = Some(event.result_as::<Raised>()?.next),
            _ => {}
        }
        Ok(Some(state))
    })
}

fn project_blocks(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let event = event.event;
    match &*event.command {
        DEFINE_BLOCKS => {
            let (args, result): (DefineArgs, Defined) = (event.argument_as()?, event.result_as()?);
            let key = [args.name.as_str().into()];
            rows.fold_as(&key, |row| {
                let restores = result.restores.unwrap_or(0);
                Ok(row.or_else(|| Some(BlocksRow::defined(&args, restores))))
            })
        }
        RESERVE => {
            let (args, result): (ReserveArgs, Reserved) = (event.argument_as()?, event.result_as()?);
            change_blocks(rows, &args.name, |row| row.reserved(&args, &result))
        }
        RELEASE => {
            let (args, result): (ReleaseArgs, Released) = (event.argument_as()?, event.result_as()?);
            if !result.released {
                return Ok(());
            }
            change_blocks(rows, &args.name, |row| row.released(&args))
        }
        RAISE_BLOCKS => {
            let (args, result): (RaiseArgs, Raised) = (event.argument_as()?, event.result_as()?);
            change_blocks(rows, &args.name, |row| row.raised(&result))
        }
        _ => Ok(()),
    }
}

fn change_blocks(
    rows: &mut Rows<'_>,
    name: &str,
    change: impl FnOnce(BlocksRow) -> BlocksRow,
) -> Result<(), String> {
    rows.fold_as(&[name.into()], |row: Option<BlocksRow>| {
        let row = row.ok_or_else(|| format!("block sequence {name} was not defined before"))?;
        Ok(Some(change(row)))
    })
}
