//! What callers do with tokens.

use std::fmt;

use serde_json::json;
use seriatim_storage::Digest;

use super::commands::{CREATE, CreateArgs, REVOKE, RevokeArgs, TOKENS_VIEW, TokenRow, parse_scopes};
use super::scope::{Grants, Scope};
use super::table::TokenEntry;
use crate::command::request::Request;
use crate::command::view::{BadRow, KeyPart};
use crate::engine::Engine;
use crate::error::{RequestError, SubmitError};
use crate::limits::{TOKEN_NOTE_BYTES_MAX, TOKEN_SCOPES_MAX};

/// Every secret begins so: whoever finds one in a file knows what it is for.
const PREFIX: &str = "seriatim_";
/// Random bytes of an id: enough that no two meet.
const ID_BYTES: usize = 8;
/// Random bytes of a secret: nobody guesses it.
const SECRET_BYTES: usize = 32;
/// Rows that are read at once when an engine opens.
const PAGE: usize = 1_000;

/// Bearer tokens.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a> {
    engine: &'a Engine,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is known by.
    pub id: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Who it is for.
    pub note: Option<String>,
    /// When it was made, in UTC.
    pub at: String,
}

/// A text that is not shown by accident: its debug output is three dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for whoever it was made for.
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

/// A token that was just made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedToken {
    /// The token.
    pub token: Token,
    /// What its bearer shows. It is not kept anywhere, so this is the only time to see it.
    pub secret: Secret,
}

impl Engine {
    /// Bearer tokens.
    #[must_use]
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens { engine: self }
    }
}

fn cut_short(error: &seriatim_env::TaskError) -> SubmitError {
    SubmitError::InDoubt(error.to_string())
}

/// What a row says. One that cannot be read is an error: a token must not vanish, because without any no one needs one.
fn read(id: String, row: TokenRow) -> Result<(Token, TokenEntry), BadRow> {
    let bad = |problem: &str| BadRow::new(TOKENS_VIEW, &[id.as_str().into()], problem);
    let TokenRow { digest, scopes, note, at } = row;
    let scopes = parse_scopes(&scopes).ok_or_else(|| bad("one of its scopes is not a scope"))?;
    let digest = digest.parse().map_err(|_| bad("its digest is not a digest"))?;
    let grants = Grants { id: id.as_str().into(), scopes: scopes.clone().into() };
    let known = TokenEntry { digest, grants };
    Ok((Token { id, scopes, note, at }, known))
}

impl Tokens<'_> {
    /// Whether there is no token at all. Then nobody needs one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.engine.token_table().is_empty()
    }

    /// What the bearer of a secret may do; `None`: nobody made it, or it was revoked.
    #[must_use]
    pub fn verify(&self, secret: &str) -> Option<Grants> {
        let (id, secret) = secret.strip_prefix(PREFIX)?.split_once('_')?;
        self.engine.token_table().find(id, secret)
    }

    /// Whether a token that was verified before still is.
    #[must_use]
    pub fn is_valid(&self, grants: &Grants) -> bool {
        self.engine.token_table().contains(&grants.id)
    }

    /// Makes a token. The first one has to have the scope `*:admin`.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]: unless its kind is `InDoubt`, there is no new token. One in doubt has a secret that nobody knows.
    pub async fn create(&self, scopes: &[Scope], note: Option<&str>) -> Result<CreatedToken, SubmitError> {
        self.create_under(scopes, note, None).await
    }

    /// As [`Tokens::create`], under an idempotency key: the same key again makes no second token.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Conflict`] if there is a token under this key: its secret was shown once, and nobody knows it.
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
        let engine = self.engine.clone();
        let created = self.engine.env().spawn(async move { engine.tokens().finish_create(args, key).await });
        let token = created.await.map_err(|error| cut_short(&error))??;
        let secret = Secret(format!("{PREFIX}{}_{secret}", token.id));
        Ok(CreatedToken { token, secret })
    }

    /// Runs to its end whoever waits: what is in memory must not fall behind the log.
    async fn finish_create(&self, args: CreateArgs, key: Option<String>) -> Result<Token, SubmitError> {
        let table = self.engine.token_table();
        let _turn = table.turn.lock().await;
        let identity = json!([args.scopes, args.note]);
        let request = Request::typed(CREATE, &args);
        let id = args.id;
        let answer = match key {
            None => self.engine.registry().submit(&request).await?,
            Some(key) => self.engine.registry().submit_once(request, &key, "tokens", &identity).await?,
        };
        if answer.repeated {
            let text = "a token was made under this key, and its secret is shown once: if it is lost, revoke the token and make \
                        another under another key";
            return Err(SubmitError::Conflict(text.to_owned()));
        }
        let row: Option<TokenRow> = self.engine.registry().row(TOKENS_VIEW, &[id.as_str().into()]).await?;
        let row = row.ok_or_else(|| SubmitError::NotFound(format!("token {id} does not exist")))?;
        let (token, known) = read(id.clone(), row)?;
        table.insert(id, known);
        Ok(token)
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

    /// Revokes a token: its bearer is refused from the moment that this returns.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if there is none; a conflict if it is the last with the scope `*:admin` and others are
    /// left.
    pub async fn revoke(&self, id: &str) -> Result<(), SubmitError> {
        let (engine, id) = (self.engine.clone(), id.to_owned());
        let revoked = self.engine.env().spawn(async move { engine.tokens().finish_revoke(&id).await });
        revoked.await.map_err(|error| cut_short(&error))?
    }

    async fn finish_revoke(&self, id: &str) -> Result<(), SubmitError> {
        let table = self.engine.token_table();
        let _turn = table.turn.lock().await;
        let revoked =
            self.engine.registry().submit(&Request::typed(REVOKE, &RevokeArgs { id: id.to_owned() })).await;
        // It may have been revoked by an attempt that was in doubt.
        if matches!(revoked, Ok(_) | Err(SubmitError::NotFound(_))) {
            table.remove(id);
        }
        revoked.map(drop)
    }

    /// Up to `limit` tokens behind an id, ascending by id.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<Token>, SubmitError> {
        Ok(self.rows(after, limit).await?.into_iter().map(|(token, _)| token).collect())
    }

    async fn rows(&self, after: Option<&str>, limit: usize) -> Result<Vec<(Token, TokenEntry)>, SubmitError> {
        let key = after.map(|after| [KeyPart::from(after)]);
        let key = key.as_ref().map(|key| &key[..]);
        let rows = self.engine.registry().rows(TOKENS_VIEW, &[], key, limit).await?;
        let read = |(part, row): (KeyPart, TokenRow)| match part {
            KeyPart::Text(id) => Ok(read(id, row)?),
            KeyPart::Integer(_) => Err(BadRow::new(TOKENS_VIEW, &[part], "an id is a text").into()),
        };
        rows.into_iter().map(read).collect()
    }

    /// Reads all tokens into memory, when an engine opens.
    pub(crate) async fn load(&self) -> Result<(), SubmitError> {
        let mut after: Option<String> = None;
        loop {
            let rows = self.rows(after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            after = Some(last.id.clone());
            for (token, known) in rows {
                self.engine.token_table().insert(token.id, known);
            }
        }
    }
}
