//! What a partition's task is asked to do.

use tokio::sync::oneshot;

use super::queue_budget::Permit;
use crate::command::prepared::Prepared;
use crate::command::request::Answer;
use crate::error::SubmitError;

/// A message to the task.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every message is a command")]
pub(crate) enum Message {
    /// Do a command.
    Command(Submission),
    /// Flush everything, say so, and do nothing until released.
    Hold(HoldRequest),
    /// Do what was queued before, then end.
    Stop,
}

/// A command and where its answer goes.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(super) prepared: Prepared,
    answer: oneshot::Sender<Result<Answer, SubmitError>>,
    /// How often something had to be read that was not foreseen.
    pub(super) rounds: usize,
    /// Its room in the queue, until it is answered.
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

    /// Its room is free before its caller sends the next command. The caller may have gone; the command is done all the same.
    pub(super) fn answer(self, result: Result<Answer, SubmitError>) {
        drop(self.permit);
        let _ = self.answer.send(result);
    }
}

/// A request that the partition does nothing for a while.
#[derive(Debug)]
pub(crate) struct HoldRequest {
    /// Told when everything is flushed.
    pub(crate) ready: oneshot::Sender<Result<(), SubmitError>>,
    /// Ends it by being dropped; by a message it asks for a recovery, whose beginning is told.
    pub(crate) release: oneshot::Receiver<oneshot::Sender<()>>,
}
