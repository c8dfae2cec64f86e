//! Creates, finds and lists workspaces.

use seriatim_types::{WorkspaceId, WorkspaceKind};

use crate::apps::registry::{self, Registration, WORKSPACE_IDS, Workspace};
use crate::command::prepare::check_key;
use crate::engine::others::{Call, Registering, Reply};
use crate::engine::running::Running;
use crate::error::{RequestError, SubmitError};

use super::Engine;

impl Engine {
    /// Creates a workspace, and returns whether it is new. A name belongs to one workspace of its application, permanently:
    /// the same name again returns the same workspace. When it returns, the workspace is durable.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]. Unless its kind is `InDoubt`, no workspace was created.
    pub async fn create_workspace(
        &self,
        application: &str,
        kind: &str,
        name: Option<&str>,
    ) -> Result<(Workspace, bool), SubmitError> {
        let (running, kind) = self.kind_for_users(application, kind)?;
        self.workspace_for(running, kind, name, None).await
    }

    /// As [`Engine::create_workspace`], with an idempotency key. The same key again returns the same workspace, also one
    /// without a name.
    ///
    /// # Errors
    ///
    /// [`SubmitError::KeyReused`] if the key was used for another kind or name.
    pub async fn create_workspace_once(
        &self,
        application: &str,
        kind: &str,
        name: Option<&str>,
        key: &str,
    ) -> Result<(Workspace, bool), SubmitError> {
        check_key(key)?;
        let (running, kind) = self.kind_for_users(application, kind)?;
        self.workspace_for(running, kind, name, Some(key)).await
    }

    /// A kind of workspace that users may create.
    fn kind_for_users(
        &self,
        application: &str,
        kind: &str,
    ) -> Result<(&Running, WorkspaceKind), SubmitError> {
        let running = self.running(application)?;
        if let Some(built_in) = &running.built_in {
            return Err(RequestError::Refused(built_in.terms.refuses_workspaces.to_owned()).into());
        }
        let kind = running.schema.kind_by_name(kind);
        let kind = kind
            .ok_or_else(|| SubmitError::NotFound("the application has no such kind of workspace".into()))?
            .id;
        Ok((running, kind))
    }

    /// The workspace with a name, created if there is none; or a new workspace without a name.
    pub(crate) async fn workspace_for(
        &self,
        running: &Running,
        kind: WorkspaceKind,
        name: Option<&str>,
        key: Option<&str>,
    ) -> Result<(Workspace, bool), SubmitError> {
        let scope = running.schema.name();
        if let Some(name) = name
            && let Some(id) = self.registry().named(scope, name).await?
        {
            return Ok((self.described(running, id).await?, false));
        }
        self.new_workspace(running, kind, name, key).await
    }

    /// A new workspace, for a name that was looked up and not found. If another caller has used the name or the key
    /// meanwhile, the workspace of that caller.
    pub(crate) async fn new_workspace(
        &self,
        running: &Running,
        kind: WorkspaceKind,
        name: Option<&str>,
        key: Option<&str>,
    ) -> Result<(Workspace, bool), SubmitError> {
        if self.fence_state().fenced {
            return Err(SubmitError::Fenced("ids of workspaces".to_owned()));
        }
        self.register_workspace(running, kind, name, false, key).await
    }

    /// Registers a workspace with a new id. If another caller has used the name or the key meanwhile, the workspace of that
    /// caller.
    pub(crate) async fn register_workspace(
        &self,
        running: &Running,
        kind: WorkspaceKind,
        name: Option<&str>,
        unfencing: bool,
        key: Option<&str>,
    ) -> Result<(Workspace, bool), SubmitError> {
        let application = running.schema.id();
        if !self.owns_registry() {
            let (name, key) = (name.map(str::to_owned), key.map(str::to_owned));
            return self.register_elsewhere(Registering { application, kind, name, unfencing, key }).await;
        }
        let scope = running.schema.name();
        let candidate = self.blocks().allocate_here(WORKSPACE_IDS, 1).await;
        let candidate = WorkspaceId::new(candidate.map_err(allocate_error)?.first);
        let registration = Registration { application, kind, scope, name, candidate, unfencing, key };
        let (id, created) = self.registry().register(registration).await?;
        if !created {
            return Ok((self.described(running, id).await?, false));
        }
        self.inner.kinds.insert((application, id), kind);
        Ok((Workspace { id, kind, name: name.map(str::to_owned) }, true))
    }

    /// Has the owner of the registry register a workspace. When it returns, this engine has applied the event.
    async fn register_elsewhere(&self, registering: Registering) -> Result<(Workspace, bool), SubmitError> {
        let application = registering.application;
        match self.others().call(registry::PARTITION, Call::Register(registering)).await? {
            Reply::Workspace { workspace, created, next } => {
                self.sys().partition_of(registry::WORKSPACE).applied_within(next).await?;
                self.inner.kinds.insert((application, workspace.id), workspace.kind);
                Ok((workspace, created))
            }
            _ => Err(Reply::unexpected(registry::PARTITION)),
        }
    }

    async fn described(&self, running: &Running, id: WorkspaceId) -> Result<Workspace, SubmitError> {
        let found = self.registry().workspace(running.schema.id(), id).await?;
        found.ok_or(SubmitError::UnknownWorkspace(id))
    }

    /// The entry of a workspace in the registry.
    ///
    /// # Errors
    ///
    /// [`SubmitError::UnknownWorkspace`] if there is none.
    pub async fn workspace(&self, application: &str, id: WorkspaceId) -> Result<Workspace, SubmitError> {
        let running = self.running(application)?;
        self.described(running, id).await
    }

    /// The workspace with a name; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if the application is unknown or the registry cannot be read.
    pub async fn workspace_named(
        &self,
        application: &str,
        name: &str,
    ) -> Result<Option<WorkspaceId>, SubmitError> {
        self.running(application)?;
        self.registry().named(application, name).await
    }

    /// Up to `limit` workspaces after an id, ascending by id.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if the application is unknown or the registry cannot be read.
    pub async fn workspaces(
        &self,
        application: &str,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<Workspace>, SubmitError> {
        let running = self.running(application)?;
        self.registry().workspaces(running.schema.id(), after, limit).await
    }

    /// The kind of a workspace: from memory, else from the registry.
    pub(crate) async fn kind_of(
        &self,
        running: &Running,
        id: WorkspaceId,
    ) -> Result<WorkspaceKind, SubmitError> {
        let key = (running.schema.id(), id);
        if let Some(kind) = self.inner.kinds.get(&key) {
            return Ok(kind);
        }
        let kind = self.described(running, id).await?.kind;
        self.inner.kinds.insert(key, kind);
        Ok(kind)
    }
}

fn allocate_error(error: SubmitError) -> SubmitError {
    match error {
        SubmitError::Allocate(_) => {
            SubmitError::NotWritten(format!("no workspace id could be allocated: {error}"))
        }
        other => other,
    }
}
