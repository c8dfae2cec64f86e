//! Series.

use seriatim_api::{
    Issued, NextRequest, PutSeries, RaiseRequest, Series as State, SeriesAudit, TakenNumbers, VoidAnswer,
    VoidRequest,
};

use crate::call::{AUDIT_FILE, Call};
use crate::client::Client;
use crate::error::ClientError;
use crate::transport::Body;
use crate::url::escape;

/// A series: gap-free numbers by name. Its first use creates it.
#[derive(Debug, Clone)]
pub struct Series {
    client: Client,
    path: String,
    key: Option<String>,
}

impl Series {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, path: format!("/v1/series/{}", escape(name)), key: None }
    }

    /// With the caller's idempotency key, for one number: the same key gives the same number again, to any caller, for as long as
    /// the server keeps the key.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Takes the next number: gap-free, and durable when this returns.
    ///
    /// # Errors
    ///
    /// [`ClientError`]. Unless its kind is `InDoubt`, no number was taken.
    pub async fn next(&self) -> Result<TakenNumbers, ClientError> {
        self.take(&NextRequest::default()).await
    }

    /// Takes consecutive numbers, with a note.
    ///
    /// # Errors
    ///
    /// As [`Series::next`].
    pub async fn take(&self, request: &NextRequest) -> Result<TakenNumbers, ClientError> {
        let call = Call::post(format!("{}/next", self.path)).body(request);
        call.key(&self.client, self.key.as_deref()).send(&self.client).await
    }

    /// Creates the series with settings. Repeating the call with the same settings changes nothing; other settings are a conflict.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn put(&self, settings: &PutSeries) -> Result<State, ClientError> {
        Call::put(&self.path).body(settings).send(&self.client).await
    }

    /// Marks a number as void: an explained gap.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn void(&self, number: u64, reason: &str) -> Result<VoidAnswer, ClientError> {
        let call = Call::post(format!("{}/numbers/{number}/void", self.path));
        let call = call.body(&VoidRequest { reason: reason.to_owned() });
        call.key(&self.client, self.key.as_deref()).send(&self.client).await
    }

    /// Makes the series continue from a later number.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn raise(&self, next: u64, reason: &str) -> Result<State, ClientError> {
        let call = Call::post(format!("{}/raise", self.path));
        let call = call.body(&RaiseRequest { next, reason: reason.to_owned() });
        call.key(&self.client, self.key.as_deref()).send(&self.client).await
    }

    /// Its state.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn state(&self) -> Result<State, ClientError> {
        Call::get(&self.path).send(&self.client).await
    }

    /// Whether it is complete.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn audit(&self) -> Result<SeriesAudit, ClientError> {
        Call::get(format!("{}/audit", self.path)).without_timeout().send(&self.client).await
    }

    /// The audit as a file that a third party can verify offline: a stream of pieces.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn audit_file(&self) -> Result<Body, ClientError> {
        Call::get(format!("{}/audit", self.path)).accept(AUDIT_FILE).open(&self.client).await
    }

    /// How a number was taken: when, with which key and which note.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn who_got(&self, number: u64) -> Result<Issued, ClientError> {
        Call::get(format!("{}/numbers/{number}", self.path)).send(&self.client).await
    }
}
