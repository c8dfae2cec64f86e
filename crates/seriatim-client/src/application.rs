//! Applications.

use http::StatusCode;
use seriatim_api::{
    Application as Definition, CreateWorkspace, Events, PartitionState, Workspace as Descriptor, Workspaces,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::ClientError;
use crate::follow::Follower;
use crate::url::escape;
use crate::workspace::Workspace;

/// An application that the server runs.
#[derive(Debug, Clone)]
pub struct Application {
    client: Client,
    path: String,
}

impl Application {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, path: format!("/v1/apps/{}", escape(name)) }
    }

    /// What it defines.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn definition(&self) -> Result<Definition, ClientError> {
        Call::get(&self.path).send(&self.client).await
    }

    /// The state of its partitions.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn partitions(&self) -> Result<Vec<PartitionState>, ClientError> {
        Call::get(format!("{}/partitions", self.path)).send(&self.client).await
    }

    /// Creates a workspace, and returns whether it is new: the same name again gives the same workspace.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn create_workspace(
        &self,
        kind: &str,
        name: Option<&str>,
    ) -> Result<(Descriptor, bool), ClientError> {
        let request = CreateWorkspace { kind: kind.to_owned(), name: name.map(str::to_owned) };
        let call = Call::post(format!("{}/workspaces", self.path)).body(&request).key(&self.client, None);
        let (status, descriptor) = call.send_with_status(&self.client).await?;
        Ok((descriptor, status == StatusCode::CREATED))
    }

    /// A page of its workspaces: those after an id.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn workspaces(&self, after: Option<u64>, limit: u32) -> Result<Workspaces, ClientError> {
        let call = Call::get(format!("{}/workspaces", self.path)).query("after", after);
        call.query("limit", Some(limit)).send(&self.client).await
    }

    /// The workspace with a name, if there is one.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn workspace_named(&self, name: &str) -> Result<Option<Descriptor>, ClientError> {
        let call = Call::get(format!("{}/workspaces", self.path)).query("name", Some(name));
        let found: Workspaces = call.send(&self.client).await?;
        Ok(found.workspaces.into_iter().next())
    }

    /// A workspace, by its id.
    #[must_use]
    pub fn workspace(&self, id: u64) -> Workspace {
        Workspace::new(self.client.clone(), format!("{}/workspaces/{id}", self.path))
    }

    fn events_path(&self, partition: u16) -> String {
        format!("{}/partitions/{partition}/events", self.path)
    }

    /// A page of a partition's log.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn events(&self, partition: u16, from: u64, limit: u32) -> Result<Events, ClientError> {
        let call = Call::get(self.events_path(partition)).query("from", Some(from));
        call.query("limit", Some(limit)).send(&self.client).await
    }

    /// Follows a partition's log from an offset.
    #[must_use]
    pub fn follow(&self, partition: u16, from: u64) -> Follower {
        Follower::new(self.client.clone(), self.events_path(partition), from)
    }
}
