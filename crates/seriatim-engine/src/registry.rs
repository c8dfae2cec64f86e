//! `sys`, the application that the engine itself needs: applications, names, workspaces and blocks, as events like all
//! others. It has one partition, and its one workspace has the id 1.
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

mod asking;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use seriatim_types::{ApplicationId, Number, Partition, PartitionId, WorkspaceId};

use crate::app::App;
use crate::command::{Command, CommandError, Context};
use crate::definition::{
    Accepted, Application, CommandDefinition, DefinitionError, KindDefinition, Schema, SequenceDefinition,
};
use crate::event::Event;
use crate::fence::{FenceState, Opened};
use crate::projector::{Projected, Rows, projector};
use crate::tokens;
use crate::view::KeyPart;

pub use asking::Workspace;
pub(crate) use asking::{Registration, Registry, read_workspace};

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
/// Applications of users are numbered from here; those below are the engine's own.
pub(crate) const FIRST_APPLICATION_ID: ApplicationId = ApplicationId::new(16);

const ACCEPT: &str = "Accept";
const REGISTER: &str = "Register";
const DEFINE_BLOCKS: &str = "DefineBlocks";
const RESERVE: &str = "ReserveBlock";
const RELEASE: &str = "ReleaseBlock";
const RAISE_BLOCKS: &str = "RaiseBlocks";
const FENCE: &str = "Fenced";
const UNFENCE: &str = "Unfenced";

/// The sequence that numbers of applications come from.
pub(crate) const APPLICATION_NUMBER: &str = "ApplicationNumber";
/// The block sequence that workspace ids come from. Names of the engine's own begin like this.
pub(crate) const WORKSPACE_IDS: &str = "sys.WorkspaceIds";
pub(crate) const OWN_NAMES: &str = "sys.";
const FENCE_VIEW: &str = "fence";

/// The definition: its numeric ids follow from the order, so new things go to the end.
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
        .command(DEFINE_BLOCKS, Fenceable(define_blocks))
        .command(RESERVE, Fenceable(reserve))
        .command(RELEASE, release)
        .command(RAISE_BLOCKS, Fenceable(raise_blocks))
        .command(FENCE, fence)
        .command(UNFENCE, Fenceable(unfence))
        .projector(projector("applications", |event, rows| {
            fold(event, rows, ACCEPT, |args, result| Some((text(args, "name")?, json!({"accepted": result}))))
        }))
        .projector(projector("names", project_names))
        .projector(projector("workspaces", project_workspaces))
        .projector(projector("blocks", project_blocks))
        .projector(projector(FENCE_VIEW, project_fence));
    Ok((tokens::add_to(app), accepted))
}

/// A command that looks at the fence each time.
struct Fenceable(fn(&mut Context<'_, '_>) -> Result<Json, CommandError>);

impl Command for Fenceable {
    fn run(&self, context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
        (self.0)(context)
    }

    fn reads(&self, _: &Json) -> Vec<(&'static str, Vec<KeyPart>)> {
        vec![(FENCE_VIEW, fence_key().to_vec())]
    }
}

/// Registers a workspace. Every new workflow waits for it, so it knows what it will read.
struct Register;

impl Command for Register {
    fn run(&self, context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
        register(context)
    }

    fn reads(&self, args: &Json) -> Vec<(&'static str, Vec<KeyPart>)> {
        let mut reads = vec![(FENCE_VIEW, fence_key().to_vec())];
        if let (Some(scope), Some(name)) = (args["scope"].as_str(), args["name"].as_str()) {
            reads.push(("names", vec![scope.into(), name.into()]));
        }
        let workspace = args["application"].as_u64().zip(args["candidate"].as_u64());
        let workspace = workspace.and_then(|(application, id)| workspace_key(application, id));
        reads.extend(workspace.map(|key| ("workspaces", key.to_vec())));
        reads
    }
}

fn fence_key() -> [KeyPart; 1] {
    [FENCE_VIEW.into()]
}

fn fence_state(context: &mut Context<'_, '_>) -> Result<FenceState, CommandError> {
    FenceState::of(context.row(FENCE_VIEW, &fence_key())?).map_err(CommandError::Conflict)
}

fn text(json: &Json, name: &str) -> Option<Vec<KeyPart>> {
    Some(vec![json.get(name)?.as_str()?.into()])
}

/// Takes in one command's events: a row's key and the row, made of argument and result.
fn fold(
    event: &Projected<'_>,
    rows: &mut Rows<'_>,
    command: &str,
    row: impl FnOnce(&Json, Json) -> Option<(Vec<KeyPart>, Json)>,
) -> Result<(), String> {
    if &*event.event.command != command {
        return Ok(());
    }
    let (args, result) = both(event.event);
    let (key, row) = row(&args, result).ok_or_else(|| format!("{command} without what it needs"))?;
    rows.fold(&key, |_| Some(row));
    Ok(())
}

fn both(event: &Event) -> (Json, Json) {
    (event.json_argument().unwrap_or_default(), event.json_result().unwrap_or_default())
}

fn field<'a>(args: &'a Json, name: &str) -> Result<&'a str, CommandError> {
    let field = args.get(name).and_then(Json::as_str);
    field.ok_or_else(|| CommandError::Invalid(format!("\"{name}\" has to be a string")))
}

fn number(args: &Json, name: &str) -> Result<u64, CommandError> {
    let field = args.get(name).and_then(Json::as_u64);
    field.ok_or_else(|| CommandError::Invalid(format!("\"{name}\" has to be a whole number")))
}

/// Accepts a definition, new or changed.
fn accept(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args = context.args().clone();
    let name = field(&args, "name")?;
    let definition = args.get("definition").cloned().unwrap_or_default();
    let parsed: Result<Application, _> = serde_json::from_value(definition);
    let definition = parsed.map_err(|error| CommandError::Invalid(error.to_string()))?;
    let row = context.row("applications", &[name.into()])?;
    let previous: Option<Accepted> = row
        .and_then(|row| row.get("accepted").cloned())
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| CommandError::Conflict(format!("the accepted definition of {name}: {error}")))?;
    let id = match (&previous, args.get("id").and_then(Json::as_u64)) {
        (Some(previous), _) => previous.id(),
        // The engine's own applications bring theirs.
        (None, Some(id)) => application_id(id)?,
        (None, None) => application_id(context.draw(APPLICATION_NUMBER)?.get())?,
    };
    let accepted = Accepted::accept(previous.as_ref(), id, &definition);
    // What cannot be run must not be accepted: it could not be taken back.
    let accepted = accepted.and_then(|accepted| Schema::new(&accepted).map(|_| accepted));
    let accepted = accepted.map_err(|error| CommandError::Conflict(error.to_string()))?;
    serde_json::to_value(accepted).map_err(|error| CommandError::Invalid(error.to_string()))
}

fn application_id(id: u64) -> Result<ApplicationId, CommandError> {
    let id = u32::try_from(id)
        .map_err(|_| CommandError::Invalid(format!("{id} is not an application's number")))?;
    Ok(ApplicationId::new(id))
}

/// Gives a workspace its kind, and its id the name that leads to it. A name that is taken keeps its id.
fn register(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args = context.args().clone();
    let candidate = number(&args, "candidate")?;
    if let Some(name) = args.get("name").and_then(Json::as_str) {
        let scope = field(&args, "scope")?;
        let row = context.row("names", &[scope.into(), name.into()])?;
        if let Some(id) = row.and_then(|row| row.get("id").and_then(Json::as_u64)) {
            return Ok(json!({"id": id, "created": false}));
        }
    }
    if fence_state(context)?.fenced && args.get("unfencing") != Some(&Json::Bool(true)) {
        return Err(CommandError::Fenced("ids of workspaces".to_owned()));
    }
    Ok(json!({"id": candidate, "created": true}))
}

fn is_created(event: &Projected<'_>) -> Option<(Json, Json)> {
    let (args, result) = both(event.event);
    let created = &*event.event.command == REGISTER && result.get("created") == Some(&Json::Bool(true));
    created.then_some((args, result))
}

fn project_names(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let Some((args, result)) = is_created(event) else { return Ok(()) };
    let (Some(scope), Some(name)) = (args["scope"].as_str(), args["name"].as_str()) else { return Ok(()) };
    rows.fold(&[scope.into(), name.into()], |_| Some(json!({"id": result["id"]})));
    Ok(())
}

fn workspace_key(application: u64, workspace: u64) -> Option<[KeyPart; 2]> {
    Some([i64::try_from(application).ok()?.into(), i64::try_from(workspace).ok()?.into()])
}

fn project_workspaces(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let Some((args, result)) = is_created(event) else { return Ok(()) };
    let key = args["application"].as_u64().zip(result["id"].as_u64());
    let key = key.and_then(|(application, id)| workspace_key(application, id));
    let key = key.ok_or("Register without an application or id")?;
    rows.fold(&key, |_| Some(json!({"kind": args["kind"], "name": args["name"]})));
    Ok(())
}

/// Creates a block sequence with settings; the same again is fine.
fn define_blocks(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args = context.args().clone();
    let name = field(&args, "name")?;
    let (first, size) = (number(&args, "first")?, number(&args, "block_size")?);
    if size == 0 {
        return Err(CommandError::Invalid("\"block_size\" has to be at least 1".to_owned()));
    }
    let fence = fence_state(context)?;
    match context.row("blocks", &[name.into()])? {
        None if fence.fenced && !name.starts_with(OWN_NAMES) => {
            Err(CommandError::Fenced(format!("numbers of blocks/{name}")))
        }
        None => Ok(json!({"created": true, "restores": fence.restores.len()})),
        Some(row) if row["first"] == json!(first) && row["block_size"] == json!(size) => {
            Ok(json!({"created": false}))
        }
        Some(row) => Err(CommandError::Conflict(format!(
            "block sequence {name} begins at {} with blocks of {}, not at {first} with blocks of {size}",
            row["first"], row["block_size"]
        ))),
    }
}

/// Reserves a block behind the last one.
fn reserve(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args = context.args().clone();
    let name = field(&args, "name")?;
    let (min, want) = (number(&args, "min")?, number(&args, "want")?);
    let row = context.row("blocks", &[name.into()])?;
    let row = row.ok_or_else(|| CommandError::NotFound(format!("block sequence {name} does not exist")))?;
    let fence = fence_state(context)?;
    if !fence.admits_blocks(name) {
        return Err(CommandError::Fenced(format!("numbers of blocks/{name}")));
    }
    let skipped = fence.blocks_skip(row["restores"].as_u64().unwrap_or(0));
    let base = number(&row, "next")?.saturating_add(skipped);
    let left = Number::LAST_IN_JSON.get().saturating_sub(base);
    let size = want.max(min).max(1).min(left);
    if size < min.max(1) {
        return Err(CommandError::Invalid(format!(
            "block sequence {name} has {left} numbers left, not {min}"
        )));
    }
    // Whoever reserved before has not given anything back: it may never have handed out so many.
    let opening = args.get("opening") == Some(&Json::Bool(true));
    let wasted = if opening { row["unused"].as_u64().unwrap_or(0) } else { 0 };
    Ok(
        json!({"base": base, "size": size, "skipped": skipped, "wasted": wasted, "restores": fence.restores.len()}),
    )
}

/// Takes back the end of what was reserved last, which may be more than the last block.
fn release(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args = context.args().clone();
    let name = field(&args, "name")?;
    let (base, size) = (number(&args, "base")?, number(&args, "size")?);
    let row = context.row("blocks", &[name.into()])?.unwrap_or_default();
    let is_last = row["next"].as_u64() == base.checked_add(size) && row["first"].as_u64() <= Some(base);
    Ok(json!({"released": is_last}))
}

/// Makes a block sequence go on from a later number: one that may have been given out elsewhere comes before.
fn raise_blocks(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args = context.args().clone();
    let name = field(&args, "name")?;
    let asked = number(&args, "next")?;
    if asked > Number::LAST_IN_JSON.get() {
        return Err(CommandError::Invalid(format!(
            "{asked} is behind the last number of block sequence {name}"
        )));
    }
    let row = context.row("blocks", &[name.into()])?;
    let row = row.ok_or_else(|| CommandError::NotFound(format!("block sequence {name} does not exist")))?;
    let from = number(&row, "next")?;
    let restores = fence_state(context)?.restores.len();
    Ok(json!({"from": from, "next": asked.max(from), "restores": restores}))
}

/// This is a restored copy, or the log has lost events: nothing is given out until it is unfenced.
fn fence(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let tails: Result<Vec<(u32, u16, u64)>, _> = serde_json::from_value(context.args()["tails"].clone());
    tails.map_err(|error| CommandError::Invalid(format!("\"tails\": {error}")))?;
    Ok(Json::Null)
}

/// Says what may be given out again.
fn unfence(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let opened =
        Opened::deserialize(context.args()).map_err(|error| CommandError::Invalid(error.to_string()))?;
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
    let command = &*event.event.command;
    let (args, result) = match command {
        FENCE | UNFENCE | RAISE_BLOCKS => both(event.event),
        _ => return Ok(()),
    };
    if command == RAISE_BLOCKS && args["name"] != WORKSPACE_IDS {
        return Ok(());
    }
    let mut problem = None;
    rows.fold(&fence_key(), |row| {
        let changed =
            FenceState::of(row.clone()).and_then(|state| change_fence(state, command, &args, &result));
        changed.map_err(|text| problem = Some(text)).ok().or(row)
    });
    problem.map_or(Ok(()), Err)
}

fn change_fence(mut state: FenceState, command: &str, args: &Json, result: &Json) -> Result<Json, String> {
    match command {
        FENCE => {
            state.fence(serde_json::from_value(args["tails"].clone()).map_err(|error| error.to_string())?);
        }
        UNFENCE => state.unfence(Opened::deserialize(args).map_err(|error| error.to_string())?),
        _ if state.fenced => state.ids = result["next"].as_u64(),
        _ => {}
    }
    serde_json::to_value(state).map_err(|error| error.to_string())
}

fn project_blocks(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let (args, result) = match &*event.event.command {
        DEFINE_BLOCKS | RESERVE | RELEASE | RAISE_BLOCKS => both(event.event),
        _ => return Ok(()),
    };
    let key = text(&args, "name").ok_or("blocks without a name")?;
    rows.fold(&key, |row| match (&*event.event.command, row) {
        (DEFINE_BLOCKS, None) => {
            let first = &args["first"];
            Some(json!({
                "first": first, "block_size": args["block_size"], "next": first, "base": first, "size": 0, "unused": 0,
                "wasted": 0, "restores": result["restores"],
            }))
        }
        (RESERVE, Some(row)) => Some(reserved(row, &args, &result)),
        (RELEASE, Some(row)) if result["released"] == Json::Bool(true) => Some(released(row, &args)),
        (RAISE_BLOCKS, Some(mut row)) => {
            for field in ["next", "base"] {
                row[field] = result["next"].clone();
            }
            (row["size"], row["unused"], row["restores"]) = (json!(0), json!(0), result["restores"].clone());
            Some(row)
        }
        (_, row) => row,
    });
    Ok(())
}

/// A row after a reservation.
fn reserved(mut row: Json, args: &Json, result: &Json) -> Json {
    let value = |json: &Json, name: &str| json[name].as_u64().unwrap_or(0);
    let (base, size) = (value(result, "base"), value(result, "size"));
    row["next"] = json!(base.saturating_add(size));
    row["base"] = json!(base);
    row["size"] = json!(size);
    // What the caller held before, and all of the block: nobody has got any of it yet. What is taken at once leaves
    // things as they were for whoever holds the block before.
    if args.get("taken") != Some(&Json::Bool(true)) {
        row["unused"] = json!(value(args, "unused").saturating_add(size));
    }
    row["wasted"] = json!(value(&row, "wasted").saturating_add(value(result, "wasted")));
    row["restores"] = result["restores"].clone();
    row
}

/// A row after a tail was given back.
fn released(mut row: Json, args: &Json) -> Json {
    let tail = args["base"].as_u64().unwrap_or(0);
    let base = row["base"].as_u64().unwrap_or(0).min(tail);
    row["next"] = json!(tail);
    row["base"] = json!(base);
    row["size"] = json!(tail - base);
    row["unused"] = json!(0);
    row
}
