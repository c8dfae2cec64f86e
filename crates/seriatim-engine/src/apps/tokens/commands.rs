//! The commands of `sys` that create and revoke tokens, and their views.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::scope::Scope;
use crate::command::context::{CommandError, Context, answer};
use crate::command::projector::{Projected, Rows, projector};
use crate::command::value::moment;
use crate::command::view::KeyPart;
use crate::engine::app::App;
use crate::limits::TOKENS_MAX;

pub(crate) const CREATE: &str = "CreateToken";
pub(crate) const REVOKE: &str = "RevokeToken";
pub(crate) const TOKENS_VIEW: &str = "tokens";
const COUNTS_VIEW: &str = "token_counts";

/// Adds the commands and views to the registry.
pub(crate) fn add_to(app: App) -> App {
    app.command(CREATE, create)
        .command(REVOKE, revoke)
        .projector(projector(TOKENS_VIEW, project_tokens))
        .projector(projector(COUNTS_VIEW, project_counts))
}

fn counts_key() -> [KeyPart; 1] {
    ["counts".into()]
}

/// The argument of `CreateToken`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CreateArgs {
    pub(super) id: String,
    pub(super) digest: String,
    pub(super) scopes: Vec<String>,
    pub(super) note: Option<String>,
}

/// The argument of `RevokeToken`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RevokeArgs {
    pub(super) id: String,
}

/// The result of `RevokeToken`.
#[derive(Debug, Serialize, Deserialize)]
struct Revoked {
    administers: bool,
}

/// A row of the view `tokens`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TokenRow {
    pub(super) digest: String,
    pub(super) scopes: Vec<String>,
    pub(super) note: Option<String>,
    pub(super) at: String,
}

/// A row of the view `token_counts`. Without a row there is no token.
#[derive(Debug, Default, Serialize, Deserialize)]
struct CountsRow {
    tokens: u64,
    administering: u64,
}

/// Scopes by their texts; `None` if one of them is not a scope.
pub(super) fn parse_scopes(texts: &[String]) -> Option<Vec<Scope>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}

fn administers(scopes: &[String]) -> bool {
    parse_scopes(scopes).is_some_and(|scopes| scopes.iter().any(Scope::administers))
}

fn counts(context: &mut Context<'_, '_>) -> Result<CountsRow, CommandError> {
    Ok(context.read(COUNTS_VIEW, &counts_key())?.unwrap_or_default())
}

fn create(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let CreateArgs { scopes, .. } = context.args_as()?;
    let CountsRow { tokens, administering } = counts(context)?;
    if tokens >= TOKENS_MAX {
        return Err(CommandError::Conflict(format!(
            "there are {tokens} tokens, and no more are possible: revoke those that are not used"
        )));
    }
    if administering == 0 && !administers(&scopes) {
        let text = "the first token needs the scope *:admin: without it no token could be created or revoked";
        return Err(CommandError::Invalid(text.to_owned()));
    }
    Ok(Json::Null)
}

fn revoke(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let RevokeArgs { id } = context.args_as()?;
    let row: Option<TokenRow> = context.read(TOKENS_VIEW, &[id.as_str().into()])?;
    let row = row.ok_or_else(|| CommandError::NotFound(format!("token {id} does not exist")))?;
    let CountsRow { tokens, administering } = counts(context)?;
    let administers = administers(&row.scopes);
    if administers && administering == 1 && tokens > 1 {
        let text = "this is the last token with the scope *:admin: revoke the others first, or create another such token";
        return Err(CommandError::Conflict(text.to_owned()));
    }
    answer(&Revoked { administers })
}

fn project_tokens(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let (id, row) = match &*event.event.command {
        CREATE => {
            let CreateArgs { id, digest, scopes, note } = event.event.argument_as()?;
            (id, Some(TokenRow { digest, scopes, note, at: moment(event.place.time) }))
        }
        REVOKE => (event.event.argument_as::<RevokeArgs>()?.id, None),
        _ => return Ok(()),
    };
    // The row does not depend on its previous value, which is therefore not read.
    let row = row.map(serde_json::to_value).transpose().map_err(|error| error.to_string())?;
    rows.fold(&[id.as_str().into()], |_| row);
    Ok(())
}

fn project_counts(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let (change, administers) = match &*event.event.command {
        CREATE => (1, administers(&event.event.argument_as::<CreateArgs>()?.scopes)),
        REVOKE => (-1, event.event.result_as::<Revoked>()?.administers),
        _ => return Ok(()),
    };
    rows.fold_as(&counts_key(), |row: Option<CountsRow>| {
        let CountsRow { tokens, administering } = row.unwrap_or_default();
        let administering = administering.saturating_add_signed(if administers { change } else { 0 });
        Ok(Some(CountsRow { tokens: tokens.saturating_add_signed(change), administering }))
    })
}
