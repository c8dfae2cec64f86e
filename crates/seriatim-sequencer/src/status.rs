//! What a sequencer is doing, for anyone at any time.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_types::PartitionOffset;

use crate::StopReason;
use crate::shared::Shared;

/// What a sequencer is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Nothing has been started.
    None,
    /// The numbers are being made to agree with the log.
    Recovering {
        /// Where the scan began: the checkpoint.
        from: PartitionOffset,
        /// The event that comes next.
        at: PartitionOffset,
        /// Where it will end.
        tail: PartitionOffset,
    },
    /// A group can be opened.
    Ready,
    /// A group is open, or sealed and without an outcome.
    InTransaction,
    /// Recovery has found something that it cannot go on from.
    Stopped(StopReason),
    /// It has been cleaned up.
    Finished,
}

/// A view of a sequencer's status. Clones are cheap, and it outlives the sequencer.
#[derive(Debug, Clone)]
pub struct StatusHandle {
    env: Env,
    shared: Arc<Shared>,
}

impl StatusHandle {
    pub(crate) fn new(env: Env, shared: Arc<Shared>) -> Self {
        Self { env, shared }
    }

    /// What the sequencer is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Waits until the sequencer has left recovery, but no longer than `within`; returns what it is doing then.
    /// Cancel-safe.
    pub async fn wait(&self, within: Duration) -> Status {
        let mut changes = self.shared.subscribe();
        let left = async {
            while matches!(self.status(), Status::None | Status::Recovering { .. }) {
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        // Either way the status says how it ended.
        let _ = self.env.timeout(within, left).await;
        self.status()
    }
}
