//! `seriatim token`.

use clap::{Args, Subcommand};
use seriatim_api::CreateToken;

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Output, Table, or_dash};
use crate::target::Target;

/// Makes, lists and revokes bearer tokens.
///
/// Without tokens a server listens on loopback only and accepts every request. A token is shown once; the server keeps its
/// digest. Clients send it as SERIATIM_TOKEN, or as `Authorization: Bearer …`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim token create --scope '*:admin' --note 'the operator' --storage file:./seriatim-data
  seriatim token list
  seriatim token revoke 9f86d081884c7d65")]
pub(crate) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// Makes a token and prints its secret, once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim token create --scope shop:write --scope series:read --note 'the till at the corner'
  seriatim token create --scope '*:admin' --storage file:./seriatim-data")]
struct Create {
    /// What it may do: APP:read, APP:write or APP:admin; * means every application.
    #[arg(long = "scope", value_name = "APP:RIGHT", required = true)]
    scopes: Vec<String>,
    /// Who it is for.
    #[arg(long)]
    note: Option<String>,
    /// The token and its secret as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Lists the tokens, without their secrets.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim token list
  seriatim token list --json")]
struct List {
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Revokes a token. It is invalid immediately.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim token revoke 9f86d081884c7d65")]
struct Revoke {
    /// The token's id, as `token list` prints it.
    id: String,
    #[command(flatten)]
    target: Target,
}

impl Token {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.action {
            Action::Create(create) => create.run(context).await,
            Action::List(list) => list.run(context).await,
            Action::Revoke(revoke) => revoke.run(context).await,
        }
    }
}

impl Create {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let request = CreateToken { scopes: self.scopes, note: self.note };
        let work = async |client: &seriatim_client::Client| Ok(client.admin().create_token(&request).await?);
        let created = self.target.with_new(context, work).await?;
        let mut output = Output::new();
        if self.json {
            output.json(&created)?;
        } else {
            output.line(&created.secret)?;
        }
        output.flush()?;
        eprintln!("seriatim: token {} is shown only this once; keep it", created.token.id);
        Ok(())
    }
}

impl List {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let tokens = self.target.read(context, async |client| Ok(client.admin().tokens().await?)).await?;
        let mut output = Output::new();
        let mut table = Table::new(&["id", "scopes", "made", "note"]);
        for token in &tokens {
            if self.json {
                output.json(token)?;
            } else {
                let (id, made) = (token.id.clone(), token.at.clone());
                table.row([id, token.scopes.join(" "), made, or_dash(token.note.as_ref())]);
            }
        }
        if !self.json {
            table.print(&mut output)?;
        }
        output.flush()
    }
}

impl Revoke {
    async fn run(self, context: &Context) -> Result<(), CliError> {
        let work = async |client: &seriatim_client::Client| Ok(client.admin().revoke_token(&self.id).await?);
        self.target.with(context, work).await?;
        eprintln!("seriatim: token {} is revoked", self.id);
        Ok(())
    }
}
