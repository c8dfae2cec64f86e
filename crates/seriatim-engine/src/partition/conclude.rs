//! Last part of the step: determine whether a group is in the log, publish it, and answer its callers.

use std::sync::Arc;

use seriatim_sequencer::Settled;
use seriatim_storage::{AppendError, Held, Holder, ReadLimit, Receipt, Take};
use seriatim_types::{Epoch, ErrorKind, PartitionOffset};

use super::RunningPartition;
use super::group::{Answers, ClosedGroup, HeldRefusal, Pending};
use super::message::Submission;
use super::task::PartitionTask;
use crate::command::apply::KeyUse;
use crate::command::event::{Event, Place};
use crate::command::request::Answer;
use crate::derive::lock;
use crate::error::{SubmitError, not_here};
use crate::metrics::PartitionMetrics;

impl PartitionTask {
    /// Concludes a group after its append. There are three cases:
    ///
    /// - **Committed.** The group is published first, and its callers are answered then: a caller that has its answer can read
    ///   what its command has changed.
    /// - **Refused.** It is certain that nothing was written. The group is discarded, its numbers are drawn again, and its
    ///   callers receive the error. If the log refused because of its epoch, another owner has the partition, and the callers are
    ///   told which. If it refused because of its tail, the partition stops.
    /// - **In doubt.** The log may have the group or not: [`Self::settle`].
    ///
    /// An error means that the partition stops.
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
        if matches!(error, AppendError::StaleEpoch { .. }) {
            let deposed = self.find_deposed(&error).await;
            self.refuse(group.answers, &deposed);
            return Err(deposed);
        }
        let stops = matches!(error, AppendError::Conflict { .. });
        if stops {
            // Before the answers: a caller that asks for the state after its answer must find the partition stopped.
            self.shared.derived.halt(&error.to_string());
        }
        self.refuse(group.answers, &SubmitError::Append(error.clone()));
        if stops { Err(self.defect(&error.to_string())) } else { Ok(()) }
    }

    /// Ends the ownership, because another owner has taken the partition over.
    pub(super) fn deposed_by(&mut self, held: Held) -> SubmitError {
        let holder = held.take.holder.clone();
        self.sequencer.depose(held.clone());
        // Before the answers: a caller that asks for the state after its answer must find the new owner.
        self.shared.depose(held);
        not_here(self.shared.partition, Some(holder))
    }

    /// The same, when the log has refused an append. The append was not written: the log has compared the entry at its offset. Who
    /// the new owner is, is read from the log; if that fails, its name is not known.
    async fn find_deposed(&mut self, error: &AppendError) -> SubmitError {
        let held = self.shared.log.holder(self.shared.partition).await;
        let unknown = || Held {
            epoch: Epoch::FIRST,
            take: Take::new(Holder::unnamed(), 0),
            tail: PartitionOffset::FIRST,
        };
        tracing::info!(partition = %self.shared.partition, %error, "an append was refused");
        self.deposed_by(held.ok().flatten().unwrap_or_else(unknown))
    }

    /// Settles an append in doubt: reads the log until it is known whether the group is in it. No further group is opened
    /// before that, because its numbers depend on the answer.
    ///
    /// - The log has the group: it is published, and its callers get their answers.
    /// - The log does not have it. Settling takes the partition over first, with the epoch that this owner holds, so a late append
    ///   is refused and the group can never reach the log. The group is discarded and its callers receive `NotWritten`.
    /// - Another owner has taken the partition over. That has settled the append too: it is answered as above, and this owner ends.
    /// - The log cannot be read: the callers receive `InDoubt` after the first attempt, so that they do not wait without limit.
    ///   Commands that arrive meanwhile receive `NotWritten`, because they are not in the group. Then it is tried again, until the
    ///   log answers or the partition is closed.
    /// - Any other error: the partition stops.
    async fn settle(&mut self, group: ClosedGroup, error: &AppendError) -> Result<(), SubmitError> {
        tracing::warn!(partition = %self.shared.partition, %error, "an append is in doubt: reading the log to settle it");
        let ClosedGroup { mut sealed, mut answers } = group;
        loop {
            match self.sequencer.settle(sealed, &self.shared.log.clone()).await {
                Ok(settled) => {
                    let deposed = self.sequencer.deposed().cloned().map(|held| self.deposed_by(held));
                    match settled {
                        Settled::Committed => answers.give(&self.shared.metrics),
                        Settled::Discarded => {
                            lock(&self.shared.derived.overlay).drop_group();
                            self.refuse(answers, &SubmitError::NotWritten(error.to_string()));
                        }
                    }
                    return deposed.map_or(Ok(()), Err);
                }
                Err(unsettled) => {
                    let in_doubt = SubmitError::InDoubt(unsettled.to_string());
                    self.refuse(std::mem::take(&mut answers), &in_doubt);
                    if unsettled.kind() != ErrorKind::InDoubt {
                        return Err(self.defect(&unsettled.to_string()));
                    }
                    // Commands that wait for this group are refused too. They do not wait until the log answers.
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

    /// Refuses the staged commands of a group that is not known to be in the log. Commands that were refused when they were
    /// executed are executed again, because the event that caused the refusal may not be in the log.
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
    /// Answers all commands. Called only when their group is in the log.
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

/// Answers a repeated command with the answer of its first execution, which is read from the event in the log.
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
