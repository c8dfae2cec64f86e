//! What happens to a closed group: it is appended, its outcome found out, and its callers are answered.

use std::sync::{Arc, PoisonError};

use seriatim_sequencer::{Sealed, Settled};
use seriatim_storage::{AppendError, ReadLimit, Receipt};
use seriatim_types::{ErrorKind, PartitionOffset};

use super::Shared;
use super::worker::{Held, Pending, Staged, Submission, Worker};
use crate::apply::KeyUse;
use crate::derive::lock;
use crate::error::SubmitError;
use crate::event::{Event, Place};
use crate::request::Answer;

impl Worker {
    /// Appends a group; meanwhile the next commands are loaded.
    pub(super) async fn append(&mut self, staged: Staged) -> Result<(), SubmitError> {
        let Staged { sealed, pending, held } = staged;
        let (log, owner, at, entries) = (&self.shared.log, sealed.owner(), sealed.at(), sealed.entries());
        self.shared
            .metrics
            .group_commands
            .record(f64::from(u32::try_from(pending.len()).unwrap_or(u32::MAX)));
        let started = self.shared.env.instant();
        // Submitted when it is called; the future only waits.
        let result = if self.shared.options.trust_level.verifies_events() {
            let appending = log.append(owner, at, entries);
            self.drain();
            self.start_loading();
            appending.await
        } else {
            let appending = log.append_unverified(owner, at, entries);
            self.drain();
            self.start_loading();
            appending.await
        };
        self.shared.metrics.append_seconds.record((self.shared.env.instant() - started).as_secs_f64());
        self.conclude(sealed, pending, held, result).await
    }

    async fn conclude(
        &mut self,
        sealed: Sealed,
        pending: Vec<Pending>,
        held: Vec<Held>,
        result: Result<Receipt, AppendError>,
    ) -> Result<(), SubmitError> {
        match result {
            Ok(receipt) => {
                self.sequencer.commit(sealed, receipt).map_err(|error| self.defect(&error.to_string()))?;
                self.answer_all(pending, held);
                Ok(())
            }
            Err(error) if error.is_refused() => {
                self.sequencer.discard(sealed);
                self.forget_values();
                let stops = matches!(error, AppendError::Conflict { .. } | AppendError::StaleEpoch { .. });
                if stops {
                    // Before the answers: the state that callers see after theirs is the stopped one.
                    self.shared.halt(&error.to_string());
                }
                self.stage_again(held);
                refuse(pending, &SubmitError::Append(error.clone()));
                // Another owner is at work on this partition.
                if stops { Err(self.defect(&error.to_string())) } else { Ok(()) }
            }
            Err(error) => self.settle(sealed, pending, held, &error).await,
        }
    }

    /// Takes back commands whose refusal rested on a group that is not in the log.
    fn stage_again(&mut self, held: Vec<Held>) {
        self.waiting.extend(held.into_iter().map(|held| held.submission));
    }

    /// Forgets what a group that is not in the log would have changed.
    fn forget_values(&self) {
        lock(&self.shared.overlay).drop_group();
        self.shared.sealed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Asks the log what became of a group, for as long as it takes. Callers are told when the first attempt fails.
    async fn settle(
        &mut self,
        mut sealed: Sealed,
        mut pending: Vec<Pending>,
        mut held: Vec<Held>,
        error: &AppendError,
    ) -> Result<(), SubmitError> {
        tracing::warn!(partition = %self.shared.partition, %error, "an append is in doubt; asking the log");
        loop {
            match self.sequencer.settle(sealed, &self.shared.log.clone()).await {
                Ok(Settled::Committed) => {
                    self.answer_all(pending, held);
                    return Ok(());
                }
                Ok(Settled::Discarded) => {
                    self.forget_values();
                    self.stage_again(held);
                    refuse(pending, &SubmitError::NotWritten(error.to_string()));
                    return Ok(());
                }
                Err(unsettled) => {
                    refuse(std::mem::take(&mut pending), &SubmitError::InDoubt(unsettled.to_string()));
                    self.stage_again(std::mem::take(&mut held));
                    if unsettled.kind() != ErrorKind::InDoubt {
                        return Err(self.defect(&unsettled.to_string()));
                    }
                    // Whoever waits behind it is told too, and not kept until the log answers.
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

    fn answer_all(&self, pending: Vec<Pending>, held: Vec<Held>) {
        self.shared.metrics.commands.increment(pending.len() as u64);
        for Pending { submission, answer: result, followers } in pending {
            for follower in followers {
                self.shared.metrics.repeated.increment(1);
                answer(follower, Ok(Answer { repeated: true, ..(*result).clone() }));
            }
            answer(submission, Ok(*result));
        }
        for Held { submission, error } in held {
            self.shared.metrics.refused.increment(1);
            answer(submission, Err(error));
        }
    }
}

pub(super) fn answer(submission: Submission, result: Result<Answer, SubmitError>) {
    // Its room is free before its caller sends the next command. The caller may have gone; the command is done all the same.
    let _ = submission.into_answer().send(result);
}

fn refuse(pending: Vec<Pending>, error: &SubmitError) {
    for Pending { submission, followers, .. } in pending {
        for submission in followers.into_iter().chain([submission]) {
            answer(submission, Err(error.clone()));
        }
    }
}

/// Answers a repeated command from its event.
pub(super) async fn answer_again(shared: Arc<Shared>, used: KeyUse, submission: Submission) {
    let result = read_answer(&shared, used.offset).await;
    answer(submission, result);
}

async fn read_answer(shared: &Shared, offset: PartitionOffset) -> Result<Answer, SubmitError> {
    let damaged =
        |problem: String| SubmitError::Stopped { partition: shared.partition.to_string(), reason: problem };
    let read = shared.log.read(shared.partition, offset, ReadLimit::entries(1)).await?;
    let (_, entry) =
        read.iter().next().ok_or_else(|| damaged(format!("event {offset} is not in the log")))?;
    let event =
        Event::decode(entry.body()).map_err(|problem| damaged(format!("event {offset}: {problem}")))?;
    let place = Place::of(offset, &entry);
    let answer = Answer::of(&shared.derivation.schema, shared.partition.id, place, &event, true);
    answer.map_err(|problem| damaged(format!("event {offset}: {problem}")))
}
