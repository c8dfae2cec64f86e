//! What a sequencer is doing, for other tasks.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_types::PartitionOffset;

use crate::StopReason;
use crate::shared_status::SharedStatus;

/// What a sequencer is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Nothing has been started.
    None,
    /// The numbers are being derived from the log again.
    Recovering {
        /// The first event that is applied: the checkpoint.
        from: PartitionOffset,
        /// The next event.
        at: PartitionOffset,
        /// The end of the log.
        tail: PartitionOffset,
    },
    /// A group can be opened.
    Ready,
    /// A group is open, or sealed and without an outcome.
    InTransaction,
    /// Recovery was not possible.
    Stopped(StopReason),
    /// The sequencer was dropped.
    Finished,
}

/// A handle to read a sequencer's status. Clones are cheap, and it can be used after the sequencer is dropped.
#[derive(Debug, Clone)]
pub struct StatusHandle {
    env: Env,
    shared: Arc<SharedStatus>,
}

impl StatusHandle {
    pub(crate) fn new(env: Env, shared: Arc<SharedStatus>) -> Self {
        Self { env, shared }
    }

    /// What the sequencer is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Waits until recovery has ended, but no longer than `within`. Returns the status then. Cancel-safe.
    pub async fn wait(&self, within: Duration) -> Status {
        let mut changes = self.shared.subscribe();
        let left = async {
            while matches!(self.status(), Status::None | Status::Recovering { .. }) {
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        // The status says how it ended, also if the time was over.
        let _ = self.env.timeout(within, left).await;
        self.status()
    }
}
