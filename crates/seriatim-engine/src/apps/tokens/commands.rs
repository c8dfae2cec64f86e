//! The commands of `sys` that make and revoke tokens, and the views that remember them.

use serde_json::{Value as Json, json};

use super::scope::Scope;
use crate::command::context::{CommandError, Context};
use crate::command::projector::{Projected, Rows, projector};
use crate::command::value::moment;
use crate::command::view::KeyPart;
use crate::engine::app::App;
use crate::limits::TOKENS_MAX;

pub(crate) const CREATE: &str = "CreateToken";
pub(crate) const REVOKE: &str = "RevokeToken";
pub(super) const TOKENS_VIEW: &str = "tokens";
const COUNTS_VIEW: &str = "token_counts";

/// Adds the code to the registry's.
pub(crate) fn add_to(app: App) -> App {
    app.command(CREATE, create)
        .command(REVOKE, revoke)
        .projector(projector(TOKENS_VIEW, project_tokens))
        .projector(projector(COUNTS_VIEW, project_counts))
}

fn counts_key() -> [KeyPart; 1] {
    ["counts".into()]
}

pub(super) fn scopes(row: &Json) -> Option<Vec<Scope>> {
    row["scopes"].as_array()?.iter().map(|scope| scope.as_str()?.parse().ok()).collect()
}

fn administers(row: &Json) -> bool {
    scopes(row).is_some_and(|scopes| scopes.iter().any(Scope::administers))
}

fn counts(context: &mut Context<'_, '_>) -> Result<(u64, u64), CommandError> {
    let row = context.row(COUNTS_VIEW, &counts_key())?.unwrap_or_default();
    Ok((row["tokens"].as_u64().unwrap_or(0), row["administering"].as_u64().unwrap_or(0)))
}

fn create(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let (tokens, administering) = counts(context)?;
    if tokens >= TOKENS_MAX {
        return Err(CommandError::Conflict(format!(
            "there are {tokens} tokens: revoke those that nobody uses"
        )));
    }
    if administering == 0 && !administers(context.args()) {
        let text =
            "the first token needs the scope *:admin: without one, nobody could make or revoke another";
        return Err(CommandError::Invalid(text.to_owned()));
    }
    Ok(Json::Null)
}

fn revoke(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let id = context.args()["id"].as_str().unwrap_or_default().to_owned();
    let row = context.row(TOKENS_VIEW, &[id.as_str().into()])?;
    let row = row.ok_or_else(|| CommandError::NotFound(format!("token {id} does not exist")))?;
    let (tokens, administering) = counts(context)?;
    let administers = administers(&row);
    if administers && administering == 1 && tokens > 1 {
        let text = "this is the last token with the scope *:admin: revoke the others first, or make another";
        return Err(CommandError::Conflict(text.to_owned()));
    }
    Ok(json!({"administers": administers}))
}

fn project_tokens(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let command = &*event.event.command;
    if !matches!(command, CREATE | REVOKE) {
        return Ok(());
    }
    let args = event.event.json_argument().unwrap_or_default();
    let id = args["id"].as_str().ok_or("a token without an id")?;
    let row = (command == CREATE).then(|| {
        json!({
            "digest": args["digest"], "scopes": args["scopes"], "note": args["note"], "at": moment(event.place.time),
        })
    });
    rows.fold(&[id.into()], |_| row);
    Ok(())
}

fn project_counts(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let (change, administers) = match &*event.event.command {
        CREATE => (1, administers(&event.event.json_argument().unwrap_or_default())),
        REVOKE => (-1, event.event.json_result().unwrap_or_default()["administers"] == Json::Bool(true)),
        _ => return Ok(()),
    };
    rows.fold(&counts_key(), |row| {
        let row = row.unwrap_or_default();
        let count = |name: &str| row[name].as_i64().unwrap_or(0);
        let administering = count("administering") + if administers { change } else { 0 };
        Some(json!({"tokens": count("tokens") + change, "administering": administering}))
    });
    Ok(())
}
