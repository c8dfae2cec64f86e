//! The messages that a partition's task receives.

use tokio::sync::oneshot;

use super::queue_budget::Permit;
use crate::command::prepared::Prepared;
use crate::command::request::Answer;
use crate::error::SubmitError;

/// A message to the task.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every message is a command")]
pub(crate) enum Message {
    /// Execute a command.
    Command(Submission),
    /// Flush everything, report that, and execute nothing until the hold is released.
    Hold(HoldRequest),
    /// Execute what was queued before this message, then end.
    Stop,
    /// The same, and leave the flusher running: the partition becomes a standby.
    Release,
}

/// A command and where its answer goes.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(super) prepared: Prepared,
    answer: oneshot::Sender<Result<Answer, SubmitError>>,
    /// How many times an execution needed a value that had not been read.
    pub(super) rounds: usize,
    /// The command's bytes in the queue budget, until the command is answered.
    permit: Permit,
}

impl Submission {
    pub(crate) fn new(
        prepared: Prepared,
        answer: oneshot::Sender<Result<Answer, SubmitError>>,
        permit: Permit,
    ) -> Self {
        Self { prepared, answer, rounds: 0, permit }
    }

    /// Answers the caller. The permit is released first, so that the caller's next command finds the room. If the caller no longer
    /// waits, the answer is dropped: that does not undo the command.
    pub(super) fn answer(self, result: Result<Answer, SubmitError>) {
        drop(self.permit);
        let _ = self.answer.send(result);
    }
}

/// A request that the partition executes nothing until it is released.
#[derive(Debug)]
pub(crate) struct HoldRequest {
    /// Receives `Ok` when everything is flushed.
    pub(crate) ready: oneshot::Sender<Result<(), SubmitError>>,
    /// Dropping the sender ends the hold. A message ends it with a recovery, and the message's sender is notified when the
    /// recovery has begun.
    pub(crate) release: oneshot::Receiver<oneshot::Sender<()>>,
}
