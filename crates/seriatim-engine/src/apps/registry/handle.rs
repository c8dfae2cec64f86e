//! Reads the registry, and submits its commands.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use seriatim_blocks::Demand;
use seriatim_storage::Digest;
use seriatim_types::{ApplicationId, PartitionOffset, WorkspaceId, WorkspaceKind};

use super::{
    ACCEPT, AcceptArgs, ApplicationRow, BLOCKS_VIEW, BlocksRow, DEFINE_BLOCKS, DefineArgs, Defined, FENCE,
    FENCE_VIEW, FenceArgs, NameRow, PARTITION, RAISE_BLOCKS, REGISTER, RELEASE, RESERVE, RaiseArgs,
    RegisterArgs, Registered, ReleaseArgs, ReserveArgs, Reserved, UNFENCE, WORKSPACE, WorkspaceRow,
    fence_key, workspace_key,
};
use crate::command::apply::ApplyError;
use crate::command::codec::BadBytes;
use crate::command::prepare::check_key;
use crate::command::request::{Answer, Request};
use crate::command::view::{self, BadRow, KeyPart, ViewKeys};
use crate::definition::{Accepted, Application};
use crate::derive::keys::{StoreKey, WorkspaceKeys};
use crate::engine::others::{Call, Reply};
use crate::engine::running::Running;
use crate::error::SubmitError;
use crate::limits::APPLICATIONS_MAX;
use crate::operate::fence::{FenceState, Opened};
use crate::partition::Currency;

/// A workspace, as the registry describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its id.
    pub id: WorkspaceId,
    /// Its kind.
    pub kind: WorkspaceKind,
    /// Its name, if it was given one.
    pub name: Option<String>,
}

/// A workspace to register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registration<'a> {
    pub(crate) application: ApplicationId,
    pub(crate) kind: WorkspaceKind,
    /// The scope of the name: the name of its application.
    pub(crate) scope: &'a str,
    pub(crate) name: Option<&'a str>,
    /// The id that it gets if it is new.
    pub(crate) candidate: WorkspaceId,
    /// Whether it is part of unfencing, and allowed while everything is fenced.
    pub(crate) unfencing: bool,
    /// A user's idempotency key.
    pub(crate) key: Option<&'a str>,
}

/// A handle of the registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registry<'a> {
    pub(crate) sys: &'a Running,
}

impl Registry<'_> {
    /// Runs a command: here if this engine owns the registry, else at its owner. When it returns, this engine has applied the
    /// event.
    pub(crate) async fn submit(&self, request: &Request) -> Result<Answer, SubmitError> {
        match self.sys.submit(WORKSPACE, self.kind()?, Cow::Borrowed(request)).await {
            Err(SubmitError::NotHere { .. }) => self.forward(request.clone(), None).await,
            answer => answer,
        }
    }

    /// As [`Self::submit`], with what identifies the request if it has an idempotency key.
    async fn submit_as(&self, request: Request, identity: String) -> Result<Answer, SubmitError> {
        match self.sys.submit_as(WORKSPACE, self.kind()?, request.clone(), &identity).await {
            Err(SubmitError::NotHere { .. }) => self.forward(request, Some(identity)).await,
            answer => answer,
        }
    }

    async fn forward(&self, request: Request, identity: Option<String>) -> Result<Answer, SubmitError> {
        match self.sys.others.call(PARTITION, Call::Registry { request, identity }).await? {
            Reply::Answer(answer) => {
                self.wait_applied(answer.partition_offset).await?;
                Ok(*answer)
            }
            _ => Err(Reply::unexpected(PARTITION)),
        }
    }

    /// Waits until this engine has applied an event that another engine has written.
    pub(crate) async fn wait_applied(&self, event: PartitionOffset) -> Result<(), SubmitError> {
        let handle = self.sys.partition_of(WORKSPACE);
        handle.applied_within(event.next().unwrap_or(event)).await
    }

    /// Runs a command that another engine has sent. Only the owner does.
    pub(crate) async fn serve(
        &self,
        request: Request,
        identity: Option<String>,
    ) -> Result<Answer, SubmitError> {
        match identity {
            None => self.sys.submit(WORKSPACE, self.kind()?, Cow::Owned(request)).await,
            Some(identity) => self.sys.submit_as(WORKSPACE, self.kind()?, request, &identity).await,
        }
    }

    /// Submits with a user's idempotency key. All these keys are used in the one workspace of the registry, so `what` separates
    /// the keys of different kinds of request. `identity` identifies the contents of the user's request.
    pub(crate) async fn submit_once(
        &self,
        request: Request,
        key: &str,
        what: &str,
        identity: &Json,
    ) -> Result<Answer, SubmitError> {
        check_key(key)?;
        let own = Digest::of(json!([what, key]).to_string().as_bytes()).to_string();
        let request = request.idempotency_key(own);
        let answer = self.submit_as(request, identity.to_string()).await;
        answer.map_err(|error| match error {
            SubmitError::KeyReused(_) => SubmitError::KeyReused(key.to_owned()),
            other => other,
        })
    }

    fn kind(&self) -> Result<WorkspaceKind, SubmitError> {
        let kind = self.sys.schema.kind_by_name(super::KIND);
        Ok(kind.ok_or(SubmitError::UnknownWorkspace(WORKSPACE))?.id)
    }

    /// The keys of a view's rows.
    pub(crate) fn view(view: &str) -> ViewKeys {
        ViewKeys::new(WorkspaceKeys::new(PARTITION, WORKSPACE), view)
    }

    pub(crate) async fn row<T: DeserializeOwned>(
        &self,
        view: &str,
        key: &[KeyPart],
    ) -> Result<Option<T>, SubmitError> {
        self.sys.read_row(WORKSPACE, view, key).await
    }

    /// A row that never changes once it is there. So what a standby has applied is enough; only that there is none has to be read
    /// from the end of the log.
    async fn fixed_row<T: DeserializeOwned>(
        &self,
        view: &str,
        key: &[KeyPart],
    ) -> Result<Option<T>, SubmitError> {
        match self.sys.read_row_as(WORKSPACE, view, key, Currency::Applied).await? {
            Some(row) => Ok(Some(row)),
            None => self.row(view, key).await,
        }
    }

    /// The row of a block sequence.
    pub(crate) async fn blocks(&self, name: &str) -> Result<Option<BlocksRow>, SubmitError> {
        self.row(BLOCKS_VIEW, &[name.into()]).await
    }

    /// Up to `limit` rows of a view whose keys begin with `prefix`, after a key, ascending: the last part of the key, and
    /// the row.
    pub(crate) async fn rows<T: DeserializeOwned>(
        &self,
        view: &str,
        prefix: &[KeyPart],
        after: Option<&[KeyPart]>,
        limit: usize,
    ) -> Result<Vec<(KeyPart, T)>, SubmitError> {
        let keys = Self::view(view);
        let pairs = self.sys.partition_of(WORKSPACE).scan(keys.range(prefix, after), limit).await?;
        let mut rows = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let bad = |problem| {
                SubmitError::Apply(ApplyError::Bad { key: StoreKey::new(&keys.storage, &key), problem })
            };
            let parts = keys.read(&key).map_err(bad)?;
            let (_, row) = view::decode_row(&value).map_err(bad)?;
            let Some(row) = row else { continue };
            let row = view::read_row(view, &parts, row)?;
            let last = parts.into_iter().next_back();
            rows.push((last.ok_or_else(|| bad(BadBytes("part of a key")))?, row));
        }
        Ok(rows)
    }

    /// Up to `limit` names of a scope, after a name, ascending, with their workspaces.
    pub(crate) async fn names(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, WorkspaceId)>, SubmitError> {
        let after = after.map(|after| [scope.into(), after.into()]);
        let rows = self.rows("names", &[scope.into()], after.as_ref().map(|key| &key[..]), limit).await?;
        let read = |(part, row): (KeyPart, NameRow)| match part {
            KeyPart::Text(name) => Ok((name, WorkspaceId::new(row.id))),
            KeyPart::Integer(_) => {
                Err(BadRow::new("names", &[scope.into(), part], "the name in its key is not a text").into())
            }
        };
        rows.into_iter().map(read).collect()
    }

    /// The accepted definition of an application.
    pub(crate) async fn accepted(&self, name: &str) -> Result<Option<Accepted>, SubmitError> {
        let row: Option<ApplicationRow> = self.row("applications", &[name.into()]).await?;
        Ok(row.map(|row| row.accepted))
    }

    /// The accepted definitions of all applications, by name.
    pub(crate) async fn all_accepted(&self) -> Result<Vec<Accepted>, SubmitError> {
        let rows: Vec<(KeyPart, ApplicationRow)> =
            self.rows("applications", &[], None, APPLICATIONS_MAX).await?;
        Ok(rows.into_iter().map(|(_, row)| row.accepted).collect())
    }

    /// Accepts a definition. Does nothing if the same definition is accepted already.
    pub(crate) async fn accept(
        &self,
        definition: &Application,
        id: Option<ApplicationId>,
    ) -> Result<Accepted, SubmitError> {
        if let Some(accepted) = self.accepted(&definition.name).await?
            && accepted.is_same(definition)
        {
            return Ok(accepted);
        }
        let (name, id) = (definition.name.clone(), id.map(ApplicationId::get));
        let args = AcceptArgs { name, definition: definition.clone(), id };
        self.submit(&Request::typed(ACCEPT, &args)).await?.result_as()
    }

    /// The workspace with a name.
    pub(crate) async fn named(&self, scope: &str, name: &str) -> Result<Option<WorkspaceId>, SubmitError> {
        let row: Option<NameRow> = self.fixed_row("names", &[scope.into(), name.into()]).await?;
        Ok(row.map(|row| WorkspaceId::new(row.id)))
    }

    /// Registers a workspace, and returns its id and whether it is new. If another caller has used the name or the key, the id
    /// of that workspace.
    pub(crate) async fn register(
        &self,
        registration: Registration<'_>,
    ) -> Result<(WorkspaceId, bool), SubmitError> {
        let Registration { application, kind, scope, name, candidate, unfencing, key } = registration;
        let args = RegisterArgs {
            application: application.get(),
            kind: kind.get(),
            scope: scope.to_owned(),
            name: name.map(str::to_owned),
            candidate: candidate.get(),
            unfencing,
        };
        let request = Request::typed(REGISTER, &args);
        let answer = match key {
            None => self.submit(&request).await?,
            // The candidate differs with each attempt, so it is not part of the identity.
            Some(key) => {
                let identity = json!([kind.get(), name]);
                self.submit_once(request, key, &format!("workspaces of {scope}"), &identity).await?
            }
        };
        let repeated = answer.repeated;
        let Registered { id, created } = answer.result_as()?;
        Ok((WorkspaceId::new(id), !repeated && created))
    }

    pub(crate) async fn workspace(
        &self,
        application: ApplicationId,
        id: WorkspaceId,
    ) -> Result<Option<Workspace>, SubmitError> {
        let Some(key) = workspace_key(u64::from(application.get()), id.get()) else { return Ok(None) };
        let row = self.fixed_row("workspaces", &key).await?;
        Ok(row.map(|row| describe(id, row)))
    }

    /// Up to `limit` workspaces of an application, after an id, ascending.
    pub(crate) async fn workspaces(
        &self,
        application: ApplicationId,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<Workspace>, SubmitError> {
        let after = after.and_then(|after| workspace_key(u64::from(application.get()), after.get()));
        let prefix = [i64::from(application.get()).into()];
        let rows = self.rows("workspaces", &prefix, after.as_ref().map(|key| &key[..]), limit).await?;
        let read = |(part, row): (KeyPart, WorkspaceRow)| {
            let id = if let KeyPart::Integer(id) = part { u64::try_from(id).ok() } else { None };
            let bad = || BadRow::new("workspaces", &[part], "the id in its key is not a whole number");
            Ok(describe(WorkspaceId::new(id.ok_or_else(bad)?), row))
        };
        rows.into_iter().map(read).collect()
    }

    /// Creates a block sequence, and returns whether it is new. Does nothing if it exists with the same settings.
    pub(crate) async fn define_blocks(
        &self,
        name: &str,
        first: u64,
        block_size: u64,
    ) -> Result<bool, SubmitError> {
        if let Some(row) = self.blocks(name).await?
            && (row.first, row.block_size) == (first, block_size)
        {
            return Ok(false);
        }
        let args = DefineArgs { name: name.to_owned(), first, block_size };
        let answer = self.submit(&Request::typed(DEFINE_BLOCKS, &args)).await?;
        Ok(answer.result_as::<Defined>()?.created)
    }

    /// The request that reserves a block. `opening`: it is the first request of its allocator.
    pub(crate) fn reserving(name: &str, demand: Demand, opening: bool, key: String) -> Request {
        let Demand { min, want, unused } = demand;
        let args = ReserveArgs { name: name.to_owned(), min, want, unused, opening, taken: false };
        Request::typed(RESERVE, &args).idempotency_key(key)
    }

    /// Takes numbers of a block sequence, after everything that is reserved, with a user's idempotency key. Returns the first
    /// of them.
    pub(crate) async fn take(&self, name: &str, count: u64, key: &str) -> Result<u64, SubmitError> {
        let (min, want) = (count, count);
        let args = ReserveArgs { name: name.to_owned(), min, want, unused: 0, opening: false, taken: true };
        let request = Request::typed(RESERVE, &args);
        let answer = self.submit_once(request, key, &format!("blocks/{name}"), &json!(count)).await?;
        Ok(answer.result_as::<Reserved>()?.base)
    }

    /// Makes a block sequence continue from a later number.
    pub(crate) async fn raise_blocks(&self, name: &str, next: u64, reason: &str) -> Result<(), SubmitError> {
        let args = RaiseArgs { name: name.to_owned(), next, reason: reason.to_owned() };
        self.submit(&Request::typed(RAISE_BLOCKS, &args)).await.map(drop)
    }

    /// The state of the fence.
    pub(crate) async fn fence_state(&self) -> Result<FenceState, SubmitError> {
        Ok(self.row(FENCE_VIEW, &fence_key()).await?.unwrap_or_default())
    }

    /// Fences everything.
    pub(crate) async fn fence(&self, tails: &[(u32, u16, u64)]) -> Result<(), SubmitError> {
        self.submit(&Request::typed(FENCE, &FenceArgs { tails: tails.to_vec() })).await.map(drop)
    }

    /// Stores what may be given out again.
    pub(crate) async fn unfence(&self, opened: &Opened) -> Result<(), SubmitError> {
        self.submit(&Request::typed(UNFENCE, opened)).await.map(drop)
    }

    /// The request that gives back the end of a block.
    pub(crate) fn releasing(name: &str, base: u64, size: u64) -> Request {
        Request::typed(RELEASE, &ReleaseArgs { name: name.to_owned(), base, size })
    }
}

fn describe(id: WorkspaceId, WorkspaceRow { kind, name }: WorkspaceRow) -> Workspace {
    Workspace { id, kind: WorkspaceKind::new(kind), name }
}

/// A row as a workspace; `None` if the row is damaged. For callers that report damage themselves.
pub(crate) fn read_workspace(id: WorkspaceId, row: Json) -> Option<Workspace> {
    serde_json::from_value(row).ok().map(|row| describe(id, row))
}
