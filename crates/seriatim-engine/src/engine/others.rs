//! Other engines on the same log: what this one asks of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value as Json;
use seriatim_storage::Holder;
use seriatim_types::{
    ApplicationId, Number, Partition, PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind,
};

use crate::apps::blocks::handle::Allocated;
use crate::apps::registry::Workspace;
use crate::command::request::{Answer, Request};
use crate::error::{SubmitError, not_here};

/// How an engine reaches the others on the same log. A cluster sends calls over the network; several engines of one process call
/// each other directly.
#[async_trait]
pub trait Others: fmt::Debug + Send + Sync + 'static {
    /// Carries a call to the engine that owns `partition`, which answers it with [`Engine::serve`](crate::Engine::serve).
    ///
    /// # Errors
    ///
    /// What the other engine answered. [`SubmitError::NotHere`] if no engine owns the partition or it could not be reached, and
    /// nothing was done. [`SubmitError::InDoubt`] if it is not known whether the call was carried out.
    async fn call(&self, partition: Partition, call: Call) -> Result<Reply, SubmitError>;

    /// Returns when every other engine that still acts has applied everything before `offset` of a partition's log
    /// ([`Engine::wait_applied`](crate::Engine::wait_applied)).
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if that is not known in time.
    async fn applied(&self, partition: Partition, offset: PartitionOffset) -> Result<(), SubmitError>;
}

/// What an engine asks of the one that owns a partition.
#[derive(Debug, Clone)]
pub enum Call {
    /// Run a command of the registry.
    Registry {
        /// The command.
        request: Request,
        /// What identifies the request if it has an idempotency key.
        identity: Option<String>,
    },
    /// Register a workspace.
    Register(Registering),
    /// Allocate numbers of a block sequence.
    Allocate {
        /// The block sequence.
        name: String,
        /// How many numbers.
        count: u64,
    },
    /// Raise sequences of a workspace, as part of unfencing.
    Raise(Raising),
    /// Deliver a message to the host of a built-in application.
    Hosted {
        /// The application.
        application: String,
        /// The message, in the host's own form.
        message: Json,
    },
}

/// A workspace to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registering {
    /// Its application.
    pub application: ApplicationId,
    /// Its kind.
    pub kind: WorkspaceKind,
    /// Its name.
    pub name: Option<String>,
    /// Whether it is part of unfencing.
    pub unfencing: bool,
    /// A user's idempotency key.
    pub key: Option<String>,
}

/// Sequences of one workspace that continue from later numbers, because a restored copy is unfenced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raising {
    /// The application of the workspace.
    pub application: ApplicationId,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Its kind.
    pub kind: WorkspaceKind,
    /// Sequences, and what they give next at least.
    pub next: BTreeMap<SequenceId, Number>,
    /// Sequences that were unfenced by name before: they skip nothing.
    pub settled: Vec<SequenceId>,
    /// How many numbers all other sequences of the workspace skip.
    pub skip: Option<u64>,
}

/// The answer to a [`Call`].
#[derive(Debug, Clone)]
pub enum Reply {
    /// To [`Call::Registry`].
    Answer(Box<Answer>),
    /// To [`Call::Register`]: the workspace, whether it is new, and the offset after its event.
    Workspace {
        /// The workspace.
        workspace: Workspace,
        /// Whether it is new.
        created: bool,
        /// The registry was read or written up to this offset.
        next: PartitionOffset,
    },
    /// To [`Call::Allocate`].
    Allocated(Allocated),
    /// To [`Call::Raise`].
    Raised,
    /// To [`Call::Hosted`].
    Hosted(Json),
}

impl Reply {
    /// The error of a reply that does not fit its call: the other engine is of another version.
    pub(crate) fn unexpected(partition: Partition) -> SubmitError {
        SubmitError::InDoubt(format!("the owner of partition {partition} answered something else"))
    }
}

/// Answers the messages of other engines to the host of a built-in application.
#[async_trait]
pub trait HostedCalls: Send + Sync + 'static {
    /// Answers a message.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    async fn serve(&self, message: Json) -> Result<Json, SubmitError>;
}

/// What an engine is among several on one log.
#[derive(Debug, Clone)]
pub struct Among {
    /// The name under which it takes partitions. No two engines have the same one, also not an engine and its restart.
    pub holder: Holder,
    /// How it reaches the others.
    pub others: Arc<dyn Others>,
    /// Whether it owns the registry `sys` at first. Otherwise it follows it.
    pub owns_registry: bool,
}

/// There are no other engines.
#[derive(Debug)]
pub(crate) struct Alone;

#[async_trait]
impl Others for Alone {
    async fn call(&self, partition: Partition, _: Call) -> Result<Reply, SubmitError> {
        Err(not_here(partition, None))
    }

    async fn applied(&self, _: Partition, _: PartitionOffset) -> Result<(), SubmitError> {
        Ok(())
    }
}
