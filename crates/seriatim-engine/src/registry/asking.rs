//! Asking the registry, and telling it.

use serde_json::{Value as Json, json};
use seriatim_blocks::Demand;
use seriatim_storage::Digest;
use seriatim_types::{ApplicationId, WorkspaceId, WorkspaceKind};

use super::{
    ACCEPT, DEFINE_BLOCKS, FENCE, FENCE_VIEW, ID, RAISE_BLOCKS, REGISTER, RELEASE, RESERVE, UNFENCE,
    WORKSPACE, fence_key, workspace_key,
};
use crate::app::Running;
use crate::definition::{Accepted, Application};
use crate::error::SubmitError;
use crate::fence::{FenceState, Opened};
use crate::keys::WorkspaceKeys;
use crate::limits::APPLICATIONS_MAX;
use crate::prepare::check_key;
use crate::request::{Answer, Request};
use crate::view::{self, KeyPart};

/// What the registry knows of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its id.
    pub id: WorkspaceId,
    /// Its kind.
    pub kind: WorkspaceKind,
    /// Its name, if it was given one.
    pub name: Option<String>,
}

/// A workspace to be registered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registration<'a> {
    pub(crate) application: ApplicationId,
    pub(crate) kind: WorkspaceKind,
    /// Where the name is looked for: the application's own.
    pub(crate) scope: &'a str,
    pub(crate) name: Option<&'a str>,
    /// The id that it gets if it is new.
    pub(crate) candidate: WorkspaceId,
    /// Whether a fence is just being opened.
    pub(crate) unfencing: bool,
    /// A user's idempotency key.
    pub(crate) key: Option<&'a str>,
}

/// Asks the registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registry<'a> {
    pub(crate) sys: &'a Running,
}

impl Registry<'_> {
    pub(crate) async fn submit(&self, request: &Request) -> Result<Answer, SubmitError> {
        self.sys.submit(WORKSPACE, self.kind()?, request).await
    }

    /// Submits under a user's idempotency key. All of them end up in one workspace, so `what` tells the same key for one thing
    /// from that for another; `identity` is what the user has asked for.
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
        let answer = self.sys.submit_as(WORKSPACE, self.kind()?, &request, &identity.to_string()).await;
        answer.map_err(|error| match error {
            SubmitError::KeyReused(_) => SubmitError::KeyReused(key.to_owned()),
            other => other,
        })
    }

    fn kind(&self) -> Result<WorkspaceKind, SubmitError> {
        let kind = self.sys.schema.kind_by_name(super::KIND);
        Ok(kind.ok_or(SubmitError::UnknownWorkspace(WORKSPACE))?.id)
    }

    pub(crate) fn view(view: &str) -> Vec<u8> {
        WorkspaceKeys::new(ID, WORKSPACE).view(view)
    }

    pub(crate) async fn row(&self, view: &str, key: &[KeyPart]) -> Result<Option<Json>, SubmitError> {
        self.sys.view_row(WORKSPACE, view, key).await
    }

    /// Up to `limit` rows of a view whose keys begin with `prefix`, behind a key, ascending: the last part of the key, and
    /// the row.
    pub(crate) async fn rows(
        &self,
        view: &str,
        prefix: &[KeyPart],
        after: Option<&[KeyPart]>,
        limit: usize,
    ) -> Result<Vec<(KeyPart, Json)>, SubmitError> {
        let mut range = seriatim_storage::ClusteringRange::prefix(&view::encode_key(prefix));
        if let Some(after) = after {
            // Behind it: every longer key would begin with it, and there is none.
            let mut start = view::encode_key(after);
            start.push(0);
            range.start = range.start.max(start.into());
        }
        let pairs = self.sys.partition_of(WORKSPACE).scan(&Self::view(view), range, limit).await?;
        let read = |(key, value): (bytes::Bytes, bytes::Bytes)| {
            let part = view::decode_key(&key).ok()?.pop()?;
            let (_, row) = view::decode_row(&value).ok()?;
            Some((part, row?))
        };
        Ok(pairs.into_iter().filter_map(read).collect())
    }

    /// Up to `limit` names of a scope behind a name, ascending, with the workspaces that they lead to.
    pub(crate) async fn names(
        &self,
        scope: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, WorkspaceId)>, SubmitError> {
        let after = after.map(|after| [scope.into(), after.into()]);
        let rows = self.rows("names", &[scope.into()], after.as_ref().map(|key| &key[..]), limit).await?;
        let read = |(part, row): (KeyPart, Json)| match part {
            KeyPart::Text(name) => Some((name, WorkspaceId::new(row["id"].as_u64()?))),
            KeyPart::Integer(_) => None,
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }

    /// The accepted definition of an application.
    pub(crate) async fn accepted(&self, name: &str) -> Result<Option<Accepted>, SubmitError> {
        let Some(row) = self.row("applications", &[name.into()]).await? else { return Ok(None) };
        read_accepted(&row["accepted"]).map(Some)
    }

    /// The accepted definitions of all applications, by name.
    pub(crate) async fn all_accepted(&self) -> Result<Vec<Accepted>, SubmitError> {
        let rows = self.rows("applications", &[], None, APPLICATIONS_MAX).await?;
        rows.iter().map(|(_, row)| read_accepted(&row["accepted"])).collect()
    }

    /// Has a definition accepted: nothing happens if it was before.
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
        let json = serde_json::to_value(definition).unwrap_or_default();
        let mut args = json!({"name": definition.name, "definition": json});
        if let Some(id) = id {
            args["id"] = json!(id.get());
        }
        let answer = self.submit(&Request::new(ACCEPT).args(args)).await?;
        read_accepted(&answer.result.unwrap_or_default())
    }

    /// The workspace that a name leads to.
    pub(crate) async fn named(&self, scope: &str, name: &str) -> Result<Option<WorkspaceId>, SubmitError> {
        let row = self.row("names", &[scope.into(), name.into()]).await?;
        Ok(row.and_then(|row| row["id"].as_u64()).map(WorkspaceId::new))
    }

    /// Registers a workspace; the id that the name or the key has, if somebody was faster.
    pub(crate) async fn register(
        &self,
        registration: Registration<'_>,
    ) -> Result<(WorkspaceId, bool), SubmitError> {
        let Registration { application, kind, scope, name, candidate, unfencing, key } = registration;
        let mut args = json!({
            "application": application.get(), "kind": kind.get(), "scope": scope, "name": name,
            "candidate": candidate.get(),
        });
        if unfencing {
            args["unfencing"] = json!(true);
        }
        let request = Request::new(REGISTER).args(args);
        let answer = match key {
            None => self.submit(&request).await?,
            // The candidate is another one each time.
            Some(key) => {
                let identity = json!([kind.get(), name]);
                self.submit_once(request, key, &format!("workspaces of {scope}"), &identity).await?
            }
        };
        let result = answer.result.unwrap_or_default();
        let id = result["id"].as_u64().map_or(candidate, WorkspaceId::new);
        Ok((id, !answer.repeated && result["created"] == Json::Bool(true)))
    }

    pub(crate) async fn workspace(
        &self,
        application: ApplicationId,
        id: WorkspaceId,
    ) -> Result<Option<Workspace>, SubmitError> {
        let Some(key) = workspace_key(u64::from(application.get()), id.get()) else { return Ok(None) };
        let row = self.row("workspaces", &key).await?;
        Ok(row.and_then(|row| read_workspace(id, &row)))
    }

    /// Up to `limit` workspaces of an application behind an id, ascending.
    pub(crate) async fn workspaces(
        &self,
        application: ApplicationId,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<Workspace>, SubmitError> {
        let after = after.and_then(|after| workspace_key(u64::from(application.get()), after.get()));
        let prefix = [i64::from(application.get()).into()];
        let rows = self.rows("workspaces", &prefix, after.as_ref().map(|key| &key[..]), limit).await?;
        let read = |(part, row): (KeyPart, Json)| match part {
            KeyPart::Integer(id) => read_workspace(WorkspaceId::new(u64::try_from(id).ok()?), &row),
            KeyPart::Text(_) => None,
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }

    /// Creates a block sequence; the same again is fine.
    pub(crate) async fn define_blocks(
        &self,
        name: &str,
        first: u64,
        block_size: u64,
    ) -> Result<bool, SubmitError> {
        let args = json!({"name": name, "first": first, "block_size": block_size});
        if let Some(row) = self.row("blocks", &[name.into()]).await?
            && row["first"] == args["first"]
            && row["block_size"] == args["block_size"]
        {
            return Ok(false);
        }
        let answer = self.submit(&Request::new(DEFINE_BLOCKS).args(args)).await?;
        Ok(answer.result.unwrap_or_default()["created"] == Json::Bool(true))
    }

    /// The request that reserves a block; `opening` if it is the first of whoever asks.
    pub(crate) fn reserving(name: &str, demand: Demand, opening: bool, key: String) -> Request {
        let Demand { min, want, unused } = demand;
        let args = json!({"name": name, "min": min, "want": want, "unused": unused, "opening": opening});
        Request::new(RESERVE).args(args).idempotency_key(key)
    }

    /// Takes numbers of a block sequence from behind everything that is reserved, under a user's key: the first of them.
    pub(crate) async fn take(&self, name: &str, count: u64, key: &str) -> Result<u64, SubmitError> {
        let args =
            json!({"name": name, "min": count, "want": count, "unused": 0, "opening": false, "taken": true});
        let request = Request::new(RESERVE).args(args);
        let answer = self.submit_once(request, key, &format!("blocks/{name}"), &json!(count)).await?;
        let base = answer.result.unwrap_or_default()["base"].as_u64();
        base.ok_or_else(|| SubmitError::NotFound(format!("the reservation of {name} has no numbers")))
    }

    /// Makes a block sequence go on from a later number.
    pub(crate) async fn raise_blocks(&self, name: &str, next: u64, reason: &str) -> Result<(), SubmitError> {
        let args = json!({"name": name, "next": next, "reason": reason});
        self.submit(&Request::new(RAISE_BLOCKS).args(args)).await.map(drop)
    }

    /// The state of the fence.
    pub(crate) async fn fence_state(&self) -> Result<FenceState, SubmitError> {
        FenceState::of(self.row(FENCE_VIEW, &fence_key()).await?).map_err(SubmitError::Conflict)
    }

    /// Fences everything.
    pub(crate) async fn fence(&self, tails: &[(u32, u16, u64)]) -> Result<(), SubmitError> {
        self.submit(&Request::new(FENCE).args(json!({"tails": tails}))).await.map(drop)
    }

    /// Says what may be given out again.
    pub(crate) async fn unfence(&self, opened: &Opened) -> Result<(), SubmitError> {
        let args = serde_json::to_value(opened).unwrap_or_default();
        self.submit(&Request::new(UNFENCE).args(args)).await.map(drop)
    }

    /// The request that gives the end of a block back.
    pub(crate) fn releasing(name: &str, base: u64, size: u64) -> Request {
        Request::new(RELEASE).args(json!({"name": name, "base": base, "size": size}))
    }
}

fn read_accepted(json: &Json) -> Result<Accepted, SubmitError> {
    serde_json::from_value(json.clone())
        .map_err(|error| SubmitError::NotFound(format!("the accepted definition cannot be read: {error}")))
}

pub(crate) fn read_workspace(id: WorkspaceId, row: &Json) -> Option<Workspace> {
    let kind = WorkspaceKind::new(u16::try_from(row["kind"].as_u64()?).ok()?);
    Some(Workspace { id, kind, name: row["name"].as_str().map(str::to_owned) })
}
