//! The application `workflows`: definition, commands and the view.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use seriatim_engine::definition::{
    Application, CommandDefinition, DefinitionError, KindDefinition, SequenceDefinition,
};
use seriatim_engine::{App, Argument, CommandError, Context, KeyPart, Projected, Rows, projector};
use seriatim_types::WorkspaceId;

use super::{BUILT_IN, KIND, NAME, RunRow, RunStatus, SEQUENCE, Wait};

pub(super) const ADVANCE: &str = "Advance";
/// An event without content.
pub(super) const EMPTY: &str = "Settle";
pub(super) const RUNS_VIEW: &str = "runs";

/// The application with its code. An engine has to be opened with it before a [`WorkflowHost`](crate::WorkflowHost) can use
/// the engine.
///
/// # Errors
///
/// None: the definition is compiled in, and a test builds it.
pub fn app() -> Result<App, DefinitionError> {
    let definition = Application::builder(NAME)
        // The option `built_in_partitions` replaces it.
        .partitions(8)
        .sequence(SequenceDefinition::new(SEQUENCE, 1))
        .command(CommandDefinition::with_json(ADVANCE).sequences([SEQUENCE]))
        .command(CommandDefinition::new(EMPTY))
        .kind(KindDefinition::new(KIND))
        .build()?;
    Ok(App::new(definition)
        .built_in(BUILT_IN)
        .command(ADVANCE, advance)
        .command(EMPTY, |_: &mut Context<'_, '_>| Ok(Json::Null))
        .projector(projector(RUNS_VIEW, project_runs)))
}

pub(super) fn run_key(run: u64) -> [KeyPart; 1] {
    [KeyPart::Integer(-run.cast_signed())]
}

pub(super) fn status_key(status: RunStatus, workspace: WorkspaceId) -> [KeyPart; 2] {
    [status.name().into(), KeyPart::Integer(workspace.get().cast_signed())]
}

/// The first part of the keys of runs that ended with messages that are not delivered.
pub(super) const UNDELIVERED: &str = "owing";

pub(super) fn undelivered_key(workspace: WorkspaceId, run: u64) -> [KeyPart; 3] {
    let integer = |number: u64| KeyPart::Integer(number.cast_signed());
    [UNDELIVERED.into(), integer(workspace.get()), integer(run)]
}

/// The first part of the keys of open runs that only wait.
const WAITING: &str = "waiting";

pub(super) fn waiting_key(workspace: WorkspaceId) -> [KeyPart; 2] {
    [WAITING.into(), KeyPart::Integer(workspace.get().cast_signed())]
}

/// What the argument of an `Advance` says about runs: all of it but the `body`, which the index does not need.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AdvanceHead {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rows: Vec<RunRow>,
    /// Written, as `null` if there is none, by every event that changes rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) was: Option<Option<RunStatus>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) forgets: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wait: Option<Wait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) draw: Option<Vec<u64>>,
    #[serde(rename = "settles", skip_serializing_if = "Option::is_none")]
    pub(super) delivered: Option<u64>,
}

/// The runs that begin with an `Advance`: all that its command has to know.
#[derive(Deserialize)]
struct Begins {
    #[serde(default)]
    draw: Option<Vec<u64>>,
}

/// Appends what the host says about a workflow. Runs that begin must have the next numbers.
fn advance(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let begins = Begins::deserialize(context.args());
    let begins = begins.map_err(|error| CommandError::Invalid(error.to_string()))?;
    let Some(runs) = begins.draw else { return Ok(Json::Null) };
    for run in &runs {
        let number = context.draw(SEQUENCE)?.get();
        if number != *run {
            return Err(CommandError::Conflict(format!("the next run has number {number}, not {run}")));
        }
    }
    Ok(serde_json::json!({"runs": runs}))
}

fn project_runs(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let Argument::Json(text) = &event.event.argument else { return Ok(()) };
    if &*event.event.command != ADVANCE {
        return Ok(());
    }
    let mut head: AdvanceHead = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let place = event.place;
    let here = place.workspace_offset.get();
    for row in &mut head.rows {
        row.from = if row.from == 0 { here } else { row.from };
        row.to = row.to.map(|to| if to == 0 { here } else { to });
        rows.put(&run_key(row.run), &to_json(row)?);
    }
    head.forgets.iter().for_each(|run| rows.remove(&run_key(*run)));
    let mut index = rows.in_common();
    for row in head.rows.iter().filter(|row| row.has_undelivered) {
        index.put(&undelivered_key(place.workspace, row.run), &to_json(row)?);
    }
    if let Some(run) = head.delivered {
        index.remove(&undelivered_key(place.workspace, run));
    }
    match head.wait {
        Some(Wait::Begins(waiting)) => {
            let row = serde_json::to_value(waiting).map_err(|error| error.to_string())?;
            index.put(&waiting_key(place.workspace), &row);
        }
        Some(Wait::Over) => index.remove(&waiting_key(place.workspace)),
        None => {}
    }
    let was = head.was.flatten();
    if let Some(was) = was.filter(|_| !head.forgets.is_empty()) {
        index.remove(&status_key(was, place.workspace));
    }
    let Some(last) = head.rows.last() else { return Ok(()) };
    if let Some(was) = was.filter(|was| *was != last.status) {
        index.remove(&status_key(was, place.workspace));
    }
    index.put(&status_key(last.status, place.workspace), &to_json(last)?);
    Ok(())
}

fn to_json(row: &RunRow) -> Result<Json, String> {
    serde_json::to_value(row).map_err(|error| error.to_string())
}
