//! Workspaces.

use seriatim_api::{
    Answer, Audit, CommandRequest, Event, Events, Record, Records, Rows, Sequence, Workspace as Descriptor,
};

use crate::call::{AUDIT_FILE, Call};
use crate::client::Client;
use crate::error::ClientError;
use crate::follow::Follower;
use crate::transport::Body;
use crate::url::escape;

/// A workspace of an application.
#[derive(Debug, Clone)]
pub struct Workspace {
    client: Client,
    path: String,
    key: Option<String>,
    expected: Option<u64>,
}

impl Workspace {
    pub(crate) fn new(client: Client, path: String) -> Self {
        Self { client, path, key: None, expected: None }
    }

    /// With the caller's idempotency key, for one command: the same key gives the same answer again.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Commands are done only if the workspace's last event has this offset; otherwise they are a conflict.
    #[must_use]
    pub fn expecting(mut self, offset: u64) -> Self {
        self.expected = Some(offset);
        self
    }

    /// Does a command: durable when this returns.
    ///
    /// # Errors
    ///
    /// [`ClientError`]. Unless its kind is `InDoubt`, nothing was done.
    pub async fn command(&self, request: &CommandRequest) -> Result<Answer, ClientError> {
        let call = Call::post(format!("{}/commands", self.path)).body(request);
        call.key(&self.client, self.key.as_deref()).expecting(self.expected).send(&self.client).await
    }

    /// Its id, kind and name.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn descriptor(&self) -> Result<Descriptor, ClientError> {
        Call::get(&self.path).send(&self.client).await
    }

    fn events_path(&self) -> String {
        format!("{}/events", self.path)
    }

    /// A page of its log.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn events(&self, from: u64, limit: u32) -> Result<Events, ClientError> {
        let call = Call::get(self.events_path()).query("from", Some(from));
        call.query("limit", Some(limit)).send(&self.client).await
    }

    /// Follows its log from an offset.
    #[must_use]
    pub fn follow(&self, from: u64) -> Follower {
        Follower::new(self.client.clone(), self.events_path(), from)
    }

    /// The record with an id.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn record(&self, id: u64) -> Result<Record, ClientError> {
        Call::get(format!("{}/records/{id}", self.path)).send(&self.client).await
    }

    /// A page of the records of a type: those after an id.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn records(
        &self,
        document: &str,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Records, ClientError> {
        let call = Call::get(format!("{}/records", self.path)).query("type", Some(document));
        call.query("after", after).query("limit", Some(limit)).send(&self.client).await
    }

    /// A page of all C records, of any type: those after an id.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn c_records(&self, after: Option<u64>, limit: u32) -> Result<Records, ClientError> {
        let call = Call::get(format!("{}/records", self.path)).query("kind", Some("C"));
        call.query("after", after).query("limit", Some(limit)).send(&self.client).await
    }

    /// A page of the rows of a view whose keys begin with `prefix`: those after a key.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn view(
        &self,
        view: &str,
        prefix: &[serde_json::Value],
        after: Option<&[serde_json::Value]>,
    ) -> Result<Rows, ClientError> {
        let json = |parts: &[serde_json::Value]| serde_json::Value::from(parts.to_vec());
        let call = Call::get(format!("{}/views/{}", self.path, escape(view)));
        let prefix = (!prefix.is_empty()).then(|| json(prefix));
        call.query("prefix", prefix).query("after", after.map(json)).send(&self.client).await
    }

    /// Its sequences.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn sequences(&self) -> Result<Vec<Sequence>, ClientError> {
        Call::get(format!("{}/sequences", self.path)).send(&self.client).await
    }

    /// Whether a sequence is complete.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn audit(&self, sequence: &str) -> Result<Audit, ClientError> {
        let path = format!("{}/sequences/{}/audit", self.path, escape(sequence));
        Call::get(path).without_timeout().send(&self.client).await
    }

    /// The audit of the workspace as a file that a third party can verify offline: a stream of pieces.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn audit_file(&self, sequence: &str) -> Result<Body, ClientError> {
        let path = format!("{}/sequences/{}/audit", self.path, escape(sequence));
        Call::get(path).accept(AUDIT_FILE).open(&self.client).await
    }

    /// The event that drew a number of a sequence.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn who_got(&self, sequence: &str, number: u64) -> Result<Event, ClientError> {
        let path = format!("{}/sequences/{}/numbers/{number}", self.path, escape(sequence));
        Call::get(path).send(&self.client).await
    }
}
