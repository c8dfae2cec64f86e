//! Last part of the step: what became of a group is found out and published, and its callers are answered.

use std::sync::Arc;

use seriatim_sequencer::Settled;
use seriatim_storage::{AppendError, ReadLimit, Receipt};
use seriatim_types::{ErrorKind, PartitionOffset};

use super::RunningPartition;
use super::group::{Answers, ClosedGroup, HeldRefusal, Pending};
use super::message::Submission;
use super::task::PartitionTask;
use crate::command::apply::KeyUse;
use crate::command::event::{Event, Place};
use crate::command::request::Answer;
use crate::derive::lock;
use crate::error::SubmitError;
use crate::metrics::PartitionMetrics;

impl PartitionTask {
    /// Publishes what a group changes and answers its callers, or forgets it.
    pub(super) async fn conclude(
        &mut self,
        group: ClosedGroup,
        appended: Result<Receipt, AppendError>,
    ) -> Result<(), SubmitError> {
        let error = match appended {
            Ok(receipt) => {
                let ClosedGroup { sealed, answers } = group;
                self.sequencer.commit(sealed, receipt).map_err(|error| self.defect(&error.to_string()))?;
                answers.give(&self.shared.metrics);
                return Ok(());
            }
            Err(error) if error.is_refused() => error,
            Err(error) => return self.settle(group, &error).await,
        };
        self.drop_group(group.sealed);
        let stops = matches!(error, AppendError::Conflict { .. } | AppendError::StaleEpoch { .. });
        if stops {
            // Before the answers: the state that callers see after theirs is the stopped one.
            self.shared.derived.halt(&error.to_string());
        }
        self.refuse(group.answers, &SubmitError::Append(error.clone()));
        // Another owner is at work on this partition.
        if stops { Err(self.defect(&error.to_string())) } else { Ok(()) }
    }

    /// Asks the log what became of a group, for as long as it takes. Callers are told when the first attempt fails.
    async fn settle(&mut self, group: ClosedGroup, error: &AppendError) -> Result<(), SubmitError> {
        tracing::warn!(partition = %self.shared.partition, %error, "an append is in doubt; asking the log");
        let ClosedGroup { mut sealed, mut answers } = group;
        loop {
            match self.sequencer.settle(sealed, &self.shared.log.clone()).await {
                Ok(Settled::Committed) => {
                    answers.give(&self.shared.metrics);
                    return Ok(());
                }
                Ok(Settled::Discarded) => {
                    lock(&self.shared.derived.overlay).drop_group();
                    self.refuse(answers, &SubmitError::NotWritten(error.to_string()));
                    return Ok(());
                }
                Err(unsettled) => {
                    let in_doubt = SubmitError::InDoubt(unsettled.to_string());
                    self.refuse(std::mem::take(&mut answers), &in_doubt);
                    if unsettled.kind() != ErrorKind::InDoubt {
                        return Err(self.defect(&unsettled.to_string()));
                    }
                    // Commands that wait for it are refused too, and not kept until the log answers.
                    let error = SubmitError::NotWritten(format!("the log does not answer: {unsettled}"));
                    sealed = unsettled.sealed;
                    self.drain();
                    self.give_up_loading().await;
                    self.refuse_all(&error);
                    self.shared.env.sleep(self.shared.env.jitter(self.shared.options.retry)).await;
                }
            }
        }
    }

    /// Refuses the commands of a group that is not known to be in the log. Those that were refused in their turn wait for
    /// another one: what refused them may not be in the log either.
    fn refuse(&mut self, answers: Answers, error: &SubmitError) {
        for Pending { submission, followers, .. } in answers.pending {
            for submission in followers.into_iter().chain([submission]) {
                submission.answer(Err(error.clone()));
            }
        }
        self.waiting.extend(answers.held.into_iter().map(|held| held.submission));
    }
}

impl Answers {
    /// Answers all: their group is in the log.
    pub(super) fn give(self, metrics: &PartitionMetrics) {
        metrics.commands.increment(self.pending.len() as u64);
        for Pending { submission, answer, followers } in self.pending {
            for follower in followers {
                metrics.repeated.increment(1);
                follower.answer(Ok(Answer { repeated: true, ..(*answer).clone() }));
            }
            submission.answer(Ok(*answer));
        }
        for HeldRefusal { submission, error } in self.held {
            metrics.refused.increment(1);
            submission.answer(Err(error));
        }
    }
}

/// Answers a repeated command from its event.
pub(super) async fn answer_again(shared: Arc<RunningPartition>, used: KeyUse, submission: Submission) {
    let result = read_answer(&shared, used.offset).await;
    submission.answer(result);
}

async fn read_answer(shared: &RunningPartition, offset: PartitionOffset) -> Result<Answer, SubmitError> {
    let damaged =
        |problem: String| SubmitError::Stopped { partition: shared.partition.to_string(), reason: problem };
    let read = shared.log.read(shared.partition, offset, ReadLimit::entries(1)).await?;
    let (_, entry) =
        read.iter().next().ok_or_else(|| damaged(format!("event {offset} is not in the log")))?;
    let event =
        Event::decode(entry.body()).map_err(|problem| damaged(format!("event {offset}: {problem}")))?;
    let place = Place::of(offset, &entry);
    let result = event.read_result().map_err(|problem| damaged(format!("event {offset}: {problem}")))?;
    let answer = Answer::of(&shared.derivation.schema, shared.partition.id, place, &event, result);
    Ok(Answer { repeated: true, ..answer })
}
