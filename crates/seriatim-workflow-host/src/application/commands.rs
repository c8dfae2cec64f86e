//! The application `workflows`: definition, commands and the view.

use serde::Deserialize;
use serde_json::Value as Json;
use seriatim_types::WorkspaceId;

use super::{KIND, NAME, RunRow, RunStatus, SEQUENCE, Wait};
use crate::app::App;
use crate::command::{CommandError, Context};
use crate::definition::{
    Application, CommandDefinition, DefinitionError, KindDefinition, SequenceDefinition,
};
use crate::event::Argument;
use crate::projector::{Projected, Rows, projector};
use crate::view::KeyPart;

pub(super) const ADVANCE: &str = "Advance";
pub(super) const SETTLE: &str = "Settle";
pub(super) const RUNS_VIEW: &str = "runs";

/// The application with its code.
pub(crate) fn app() -> Result<App, DefinitionError> {
    let definition = Application::builder(NAME)
        .partitions(8)
        .sequence(SequenceDefinition::new(SEQUENCE, 1))
        .command(CommandDefinition::with_json(ADVANCE).sequences([SEQUENCE]))
        .command(CommandDefinition::new(SETTLE))
        .kind(KindDefinition::new(KIND))
        .build()?;
    Ok(App::new(definition)
        .command(ADVANCE, advance)
        .command(SETTLE, |_: &mut Context<'_, '_>| Ok(Json::Null))
        .projector(projector(RUNS_VIEW, project_runs)))
}

pub(super) fn run_key(run: u64) -> [KeyPart; 1] {
    [KeyPart::Integer(-run.cast_signed())]
}

pub(super) fn status_key(status: RunStatus, workspace: WorkspaceId) -> [KeyPart; 2] {
    [status.name().into(), KeyPart::Integer(workspace.get().cast_signed())]
}

/// What the status of a run that still owes something to others is called in the index.
pub(super) const OWING: &str = "owing";

pub(super) fn owing_key(workspace: WorkspaceId, run: u64) -> [KeyPart; 3] {
    let integer = |number: u64| KeyPart::Integer(number.cast_signed());
    [OWING.into(), integer(workspace.get()), integer(run)]
}

/// What the rows of open runs that only wait are called in the index.
const WAITING: &str = "waiting";

pub(super) fn waiting_key(workspace: WorkspaceId) -> [KeyPart; 2] {
    [WAITING.into(), KeyPart::Integer(workspace.get().cast_signed())]
}

/// Takes in what a host has made of a run. Runs that it begins must have the next numbers.
fn advance(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let Some(asked) = context.args()["draw"].as_array() else { return Ok(Json::Null) };
    let asked: Vec<u64> = asked.iter().filter_map(Json::as_u64).collect();
    for asked in &asked {
        let number = context.draw(SEQUENCE)?.get();
        if number != *asked {
            return Err(CommandError::Conflict(format!("the next run has number {number}, not {asked}")));
        }
    }
    Ok(serde_json::json!({"runs": asked}))
}

/// What an `Advance` says about runs; the rest is skipped without being kept.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    rows: Vec<RunRow>,
    #[serde(default)]
    was: Option<RunStatus>,
    #[serde(default)]
    settles: Option<u64>,
    #[serde(default)]
    wait: Option<Wait>,
    #[serde(default)]
    forgets: Vec<u64>,
}

fn project_runs(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let Argument::Json(text) = &event.event.argument else { return Ok(()) };
    if &*event.event.command != ADVANCE {
        return Ok(());
    }
    let mut head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let place = event.place;
    let here = place.workspace_offset.get();
    for row in &mut head.rows {
        row.from = if row.from == 0 { here } else { row.from };
        row.to = row.to.map(|to| if to == 0 { here } else { to });
        rows.put(&run_key(row.run), &to_json(row)?);
    }
    head.forgets.iter().for_each(|run| rows.remove(&run_key(*run)));
    let mut index = rows.in_common();
    for row in head.rows.iter().filter(|row| row.owes) {
        index.put(&owing_key(place.workspace, row.run), &to_json(row)?);
    }
    if let Some(run) = head.settles {
        index.remove(&owing_key(place.workspace, run));
    }
    match head.wait {
        Some(Wait::Begins(waiting)) => {
            let row = serde_json::to_value(waiting).map_err(|error| error.to_string())?;
            index.put(&waiting_key(place.workspace), &row);
        }
        Some(Wait::Over) => index.remove(&waiting_key(place.workspace)),
        None => {}
    }
    if let Some(was) = head.was.filter(|_| !head.forgets.is_empty()) {
        index.remove(&status_key(was, place.workspace));
    }
    let Some(last) = head.rows.last() else { return Ok(()) };
    if let Some(was) = head.was.filter(|was| *was != last.status) {
        index.remove(&status_key(was, place.workspace));
    }
    index.put(&status_key(last.status, place.workspace), &to_json(last)?);
    Ok(())
}

fn to_json(row: &RunRow) -> Result<Json, String> {
    serde_json::to_value(row).map_err(|error| error.to_string())
}
