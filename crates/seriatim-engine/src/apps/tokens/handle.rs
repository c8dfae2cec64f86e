//! The handle through which callers use tokens.

use std::fmt;

use serde_json::json;
use seriatim_sequencer::Busy;
use seriatim_storage::Digest;
use seriatim_types::PartitionOffset;

use super::commands::{CREATE, CreateArgs, REVOKE, RevokeArgs, TOKENS_VIEW, TokenRow, parse_scopes};
use super::scope::{Grants, Scope};
use super::table::TokenEntry;
use crate::apps::registry;
use crate::command::request::Request;
use crate::command::view::{BadRow, KeyPart};
use crate::engine::Engine;
use crate::error::{RequestError, SubmitError};
use crate::limits::{TOKEN_NOTE_BYTES_MAX, TOKEN_SCOPES_MAX};

/// The prefix of every secret. It shows what the secret is for, if one is found in a file.
const PREFIX: &str = "seriatim_";
/// Random bytes of an id: enough that no two are equal.
const ID_BYTES: usize = 8;
/// Random bytes of a secret: enough that it cannot be guessed.
const SECRET_BYTES: usize = 32;
/// Rows that are read together when an engine opens.
const PAGE: usize = 1_000;

/// Bearer tokens: which callers of the HTTP API may do what.
///
/// While there is no token, every caller may do everything. The first token must have the scope `*:admin`.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a> {
    engine: &'a Engine,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id, which is not secret.
    pub id: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// A note: for example, who uses it.
    pub note: Option<String>,
    /// When it was created, in UTC.
    pub at: String,
}

/// A secret text. Its debug output is three dots, so that it is not logged by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the bearer of the token.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A token that was just created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedToken {
    /// The token.
    pub token: Token,
    /// The secret that its bearer sends. It is not stored, so it cannot be shown again.
    pub secret: Secret,
}

impl Engine {
    /// Bearer tokens.
    #[must_use]
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens { engine: self }
    }
}

/// A row as a token. A row that cannot be read is an error and is not left out: without any token, every caller may do
/// everything.
pub(super) fn read(id: String, row: TokenRow) -> Result<(Token, TokenEntry), BadRow> {
    let bad = |problem: &str| BadRow::new(TOKENS_VIEW, &[id.as_str().into()], problem);
    let TokenRow { digest, scopes, note, at } = row;
    let scopes = parse_scopes(&scopes).ok_or_else(|| bad("one of its scopes is not a scope"))?;
    let digest = digest.parse().map_err(|_| bad("its digest is not a digest"))?;
    let grants = Grants { id: id.as_str().into(), scopes: scopes.clone().into() };
    let known = TokenEntry { digest, grants };
    Ok((Token { id, scopes, note, at }, known))
}

impl Tokens<'_> {
    /// Whether there is no token. Then callers need none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.engine.token_table().is_empty()
    }

    /// What the bearer of a secret may do; `None` if no token has this secret, or if the token was revoked.
    #[must_use]
    pub fn verify(&self, secret: &str) -> Option<Grants> {
        let (id, secret) = secret.strip_prefix(PREFIX)?.split_once('_')?;
        self.engine.token_table().find(id, secret)
    }

    /// As [`Tokens::verify`]. If this engine follows the registry and does not know the secret, the token may have been created
    /// at another engine a moment ago: everything that is in the registry's log is applied first. Unknown secrets share a limit of
    /// such reads, so that guessing costs the log nothing.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Busy`] if the limit is reached or the log does not answer in time: it is not known whether the token exists.
    pub async fn verify_current(&self, secret: &str) -> Result<Option<Grants>, SubmitError> {
        let known = self.verify(secret);
        if known.is_some() || self.engine.owns_registry() {
            return Ok(known);
        }
        if !self.engine.token_table().may_look_up(self.engine.env().instant()) {
            return Err(SubmitError::Busy(Busy::Recovering));
        }
        self.engine.sys().partition_of(registry::WORKSPACE).catch_up().await?;
        Ok(self.verify(secret))
    }

    /// Whether a token that was verified earlier is still valid.
    #[must_use]
    pub fn is_valid(&self, grants: &Grants) -> bool {
        self.engine.token_table().contains(&grants.id)
    }

    /// Creates a token. The first token must have the scope `*:admin`. When it returns, the token is durable and valid.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]. Unless its kind is `InDoubt`, no token was created. If it is, there may be a token whose secret is not
    /// known: list the tokens and revoke it.
    pub async fn create(&self, scopes: &[Scope], note: Option<&str>) -> Result<CreatedToken, SubmitError> {
        self.create_under(scopes, note, None).await
    }

    /// As [`Tokens::create`], with an idempotency key: the same key again creates no second token.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Conflict`] if a token was created with this key. Its secret cannot be shown again.
    pub async fn create_once(
        &self,
        scopes: &[Scope],
        note: Option<&str>,
        key: &str,
    ) -> Result<CreatedToken, SubmitError> {
        self.create_under(scopes, note, Some(key.to_owned())).await
    }

    async fn create_under(
        &self,
        scopes: &[Scope],
        note: Option<&str>,
        key: Option<String>,
    ) -> Result<CreatedToken, SubmitError> {
        if !(1..=TOKEN_SCOPES_MAX).contains(&scopes.len()) {
            let text = format!("a token has 1 to {TOKEN_SCOPES_MAX} scopes, not {}", scopes.len());
            return Err(RequestError::Refused(text).into());
        }
        if note.is_some_and(|note| note.len() > TOKEN_NOTE_BYTES_MAX) {
            let text = format!("a token's note has at most {TOKEN_NOTE_BYTES_MAX} bytes");
            return Err(RequestError::Refused(text).into());
        }
        let (id, secret) = (self.random::<ID_BYTES>(), self.random::<SECRET_BYTES>());
        let names: Vec<String> = scopes.iter().map(Scope::to_string).collect();
        let digest = Digest::of(secret.as_bytes()).to_string();
        let args = CreateArgs { id, digest, scopes: names, note: note.map(str::to_owned) };
        let token = self.finish_create(args, key).await?;
        let secret = Secret(format!("{PREFIX}{}_{secret}", token.id));
        Ok(CreatedToken { token, secret })
    }

    async fn finish_create(&self, args: CreateArgs, key: Option<String>) -> Result<Token, SubmitError> {
        let identity = json!([args.scopes, args.note]);
        let request = Request::typed(CREATE, &args);
        let id = args.id;
        let answer = match key {
            None => self.engine.registry().submit(&request).await?,
            Some(key) => self.engine.registry().submit_once(request, &key, "tokens", &identity).await?,
        };
        if answer.repeated {
            let text = "a token was created with this key, and its secret cannot be shown again: if the secret is lost, revoke \
                        the token and create another one with another key";
            return Err(SubmitError::Conflict(text.to_owned()));
        }
        // Without a token every caller may do everything, so the first one has to be known everywhere.
        self.engine.wait_everywhere(registry::PARTITION, answer.partition_offset).await?;
        let row: Option<TokenRow> = self.engine.registry().row(TOKENS_VIEW, &[id.as_str().into()]).await?;
        let row = row.ok_or_else(|| SubmitError::NotFound(format!("token {id} does not exist")))?;
        Ok(read(id, row)?.0)
    }

    fn random<const N: usize>(&self) -> String {
        let mut bytes = [0; N];
        self.engine.env().random_bytes(&mut bytes);
        bytes.iter().fold(String::new(), |mut text, byte| {
            use fmt::Write as _;
            // Writing into a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Revokes a token. When it returns, every engine that still acts refuses requests of its bearer.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if there is no such token. [`SubmitError::Conflict`] if it is the last one with the scope
    /// `*:admin` and there are others.
    pub async fn revoke(&self, id: &str) -> Result<(), SubmitError> {
        let request = Request::typed(REVOKE, &RevokeArgs { id: id.to_owned() });
        let revoked = self.engine.registry().submit(&request).await?;
        self.engine.wait_everywhere(registry::PARTITION, revoked.partition_offset).await
    }

    /// Up to `limit` tokens after an id, ascending by id.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if they cannot be read.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<Token>, SubmitError> {
        Ok(self.rows(after, limit).await?.into_iter().map(|(token, _)| token).collect())
    }

    async fn rows(&self, after: Option<&str>, limit: usize) -> Result<Vec<(Token, TokenEntry)>, SubmitError> {
        let key = after.map(|after| [KeyPart::from(after)]);
        let key = key.as_ref().map(|key| &key[..]);
        let rows = self.engine.registry().rows(TOKENS_VIEW, &[], key, limit).await?;
        let read = |(part, row): (KeyPart, TokenRow)| match part {
            KeyPart::Text(id) => Ok(read(id, row)?),
            KeyPart::Integer(_) => {
                Err(BadRow::new(TOKENS_VIEW, &[part], "the id in its key is not a text").into())
            }
        };
        rows.into_iter().map(read).collect()
    }

    /// Reads all tokens into memory, when an engine opens.
    pub(crate) async fn load(&self) -> Result<(), SubmitError> {
        let table = self.engine.token_table();
        let applied = self.engine.sys().partition_of(registry::WORKSPACE).state().next_offset;
        table.begin_reading();
        let mut after: Option<String> = None;
        loop {
            let rows = self.rows(after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(last.id.clone());
            for (token, known) in rows {
                table.found(token.id, known);
            }
        }
        table.end_reading(PartitionOffset::new(applied).unwrap_or(PartitionOffset::FIRST));
        Ok(())
    }
}
