//! Third part of the step: execute the loaded commands, stage their events as one group, and close the group.

use seriatim_sequencer::Sealed;
use seriatim_storage::LogError;
use seriatim_types::{PartitionOffset, Timestamp, TrustLevel};

use super::conclude::answer_again;
use super::execute::{Execution, Outcome};
use super::load::Batch;
use super::message::Submission;
use super::new_keys::{self, NewKey};
use super::task::PartitionTask;
use crate::command::request::Answer;
use crate::derive::keys::StoreKey;
use crate::derive::{Base, Draft, Values, lock};
use crate::error::SubmitError;
use crate::limits::{GROUP_BYTES_MAX, READ_ROUNDS_MAX};

/// Keys that a typical command writes. Memory for them is allocated in advance.
const KEYS_OF_A_COMMAND: usize = 4;

/// A closed group, ready to be appended, with the values that it changes.
pub(super) struct ClosedGroup {
    pub(super) sealed: Sealed<Values>,
    pub(super) answers: Answers,
}

/// Commands that can be answered only when it is known whether their group is in the log.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) pending: Vec<Pending>,
    pub(super) held: Vec<HeldRefusal>,
}

/// A staged command.
pub(super) struct Pending {
    pub(super) submission: Submission,
    pub(super) answer: Box<Answer>,
    /// Commands with the same idempotency key, in the same group.
    pub(super) followers: Vec<Submission>,
}

/// A command that was refused when it was executed. The refusal may depend on an earlier event of the same group, and that event
/// may turn out not to be in the log. So the refusal is held until the group is concluded.
pub(super) struct HeldRefusal {
    pub(super) submission: Submission,
    pub(super) error: SubmitError,
}

/// A sealed group whose new keys have not been checked yet.
struct Attempt {
    sealed: Sealed<Values>,
    outcomes: Vec<Outcome>,
    /// Keys that must be new.
    new_keys: Vec<NewKey>,
}

impl PartitionTask {
    /// Executes the commands of the batch as one group and closes the group. `None` if no event was staged.
    ///
    /// The order matters:
    ///
    /// 1. The time is read first, because every event of the group has it.
    /// 2. [`Self::attempt`] executes the commands and seals the group. It is synchronous: nothing else changes the overlay or the
    ///    sequencer meanwhile.
    /// 3. The store is asked whether it already has a key that the group makes. That is the check of the trust levels. It is
    ///    after the execution, because only then the keys are known, and before the append, because nothing may be in the log
    ///    that contradicts the store.
    ///
    /// After each failure nothing is written and no number is used: if the time cannot be read from the log, or if the store
    /// cannot be read, the commands are refused. If one key exists, its command alone is refused, and the others are executed
    /// again in a new group, because their numbers may follow from the removed command.
    pub(super) async fn form_group(&mut self) -> Option<ClosedGroup> {
        let now = match self.event_time().await {
            Ok(now) => now,
            Err(error) => {
                self.refuse_all(&SubmitError::Log(error));
                return None;
            }
        };
        let mut batch = std::mem::take(&mut self.batch);
        loop {
            let Attempt { sealed, outcomes, mut new_keys } = self.attempt(&mut batch, now)?;
            match new_keys::find(&self.shared.derived.store, &new_keys).await {
                Ok(None) => {
                    let answers = self.sort_out(outcomes, &mut batch, Some(sealed.at()));
                    if !batch.commands.is_empty() {
                        // Commands that did not fit go into the next group.
                        self.batch = batch;
                    }
                    return Some(ClosedGroup { sealed, answers });
                }
                // The command that makes the existing key is refused. The others are executed again.
                Ok(Some(place)) => {
                    self.drop_group(sealed);
                    let (key, command, what) = new_keys.swap_remove(place);
                    let (submission, _) = batch.commands.remove(command);
                    submission.answer(Err(SubmitError::Taken { what, key }));
                }
                Err(error) => {
                    self.drop_group(sealed);
                    for (submission, _) in batch.commands {
                        submission.answer(Err(SubmitError::Store(error.clone())));
                    }
                    return None;
                }
            }
        }
    }

    /// Discards a group that is not in the log. None of its numbers was used, so there is no gap.
    pub(super) fn drop_group(&mut self, sealed: Sealed<Values>) {
        self.sequencer.discard(sealed);
        lock(&self.shared.derived.overlay).drop_group();
    }

    /// The time of the next events. It is never before the time of the log's last event, also after a restart: after each recovery
    /// that time is read from the log.
    async fn event_time(&mut self) -> Result<Timestamp, LogError> {
        let (round, next) = {
            let overlay = lock(&self.shared.derived.overlay);
            (overlay.caught_up(), overlay.next())
        };
        if round.is_none() || self.timed != round {
            self.last_time = self.shared.time_before(next).await?.max(self.last_time);
            self.timed = round;
        }
        self.last_time = self.shared.clock.now().max(self.last_time);
        Ok(self.last_time)
    }

    /// Executes commands of the batch, in order, until the group is full, and seals the group. `None` if nothing was staged: then
    /// the executed commands have been answered, or wait for their next turn.
    ///
    /// A later command of the group reads what the earlier ones have written, through `values`. The overlay counts the open
    /// group, so that the group is closed before the limit of unflushed values is exceeded by more than one command.
    fn attempt(&mut self, batch: &mut Batch, now: Timestamp) -> Option<Attempt> {
        let commands = batch.commands.len();
        let mut values = Values::with_capacity(commands * KEYS_OF_A_COMMAND);
        let mut outcomes = Vec::with_capacity(commands);
        let mut new_keys = Vec::with_capacity(commands * KEYS_OF_A_COMMAND);
        let mut group = match self.sequencer.group() {
            Ok(group) => group,
            Err(busy) => {
                for (submission, _) in batch.commands.drain(..) {
                    submission.answer(Err(SubmitError::Busy(busy.clone())));
                }
                return None;
            }
        };
        // Bytes of keys and values. A small change of a large record writes the whole record.
        let (mut bytes, mut full) = (0, false);
        for (place, (submission, pin)) in batch.commands.iter_mut().enumerate() {
            if full || group.bytes() >= GROUP_BYTES_MAX {
                break;
            }
            let base =
                Base { group: &values, overlay: &self.shared.derived.overlay, fetched: &batch.fetched };
            let mut execution = Execution { shared: &self.shared, base, now, body: &mut self.body };
            let outcome = execution.run(&mut submission.prepared, &mut group, pin, &mut self.draft);
            if matches!(outcome, Outcome::Staged(_)) {
                note_new_keys(self.shared.options.trust_level, &self.draft, place, &mut new_keys);
                for (key, value) in self.draft.writes.drain(..) {
                    let (key_bytes, value_bytes) = (key.size(), value.len());
                    match values.insert(key, value) {
                        None => bytes += key_bytes + value_bytes,
                        Some(old) => bytes = bytes + value_bytes - old.len(),
                    }
                }
                full = lock(&self.shared.derived.overlay).closes_group(values.len(), bytes);
            }
            outcomes.push(outcome);
        }
        if group.is_empty() {
            drop(group);
            // No event of this group exists, so each refusal depends only on events in the log and can be answered now.
            self.sort_out(outcomes, batch, None).give(&self.shared.metrics);
            return None;
        }
        Some(Attempt { sealed: group.seal_with(values), outcomes, new_keys })
    }

    /// Removes the executed commands from the batch, and returns those whose answers depend on the group. `at` is the group's
    /// first offset; `None` if there is no group. Each outcome has one way:
    ///
    /// - staged, refused: the answer is held until the group is concluded;
    /// - repeated: if the first use of the key is in this group, the command gets that answer with the group. Otherwise the
    ///   event is in the log, and a task answers from there;
    /// - unread, stale: the command is loaded again and waits for its next turn.
    fn sort_out(
        &mut self,
        outcomes: Vec<Outcome>,
        batch: &mut Batch,
        at: Option<PartitionOffset>,
    ) -> Answers {
        let mut answers = Answers::default();
        let had_turn = batch.commands.drain(..outcomes.len());
        for (outcome, (submission, _)) in outcomes.into_iter().zip(had_turn) {
            match outcome {
                Outcome::Staged(answer) => {
                    answers.pending.push(Pending { submission, answer, followers: Vec::new() });
                }
                Outcome::Refused(error) => answers.held.push(HeldRefusal { submission, error }),
                Outcome::Repeated(used) => match at.and_then(|at| used.offset.since(at)) {
                    Some(place) => {
                        let first = usize::try_from(place).ok().and_then(|at| answers.pending.get_mut(at));
                        match first {
                            Some(first) => first.followers.push(submission),
                            None => {
                                let problem = "an idempotency key leads to an event that is not in its group";
                                submission.answer(Err(self.defect(problem)));
                            }
                        }
                    }
                    None => {
                        self.shared.metrics.repeated.increment(1);
                        let again = answer_again(self.shared.clone(), used, submission);
                        drop(self.shared.env.spawn(again));
                    }
                },
                Outcome::Unread(keys) => self.read_more(submission, keys),
                Outcome::Stale => self.waiting.push(submission),
            }
        }
        answers
    }

    /// Adds keys to what a command reads, and lets the command wait for its next turn. A command that needs more rounds than
    /// [`READ_ROUNDS_MAX`] is refused.
    fn read_more(&mut self, mut submission: Submission, keys: Vec<StoreKey>) {
        let asked = &mut submission.prepared.reads;
        let before = asked.len();
        for key in keys {
            // A key that was requested before is not a new round. Either a flush has ended since it was fetched, or it was
            // not fetched because other values were large.
            if !asked.contains(&key) {
                asked.push(key);
            }
        }
        submission.rounds += usize::from(asked.len() > before);
        if submission.rounds > READ_ROUNDS_MAX {
            let error = self.defect(&format!("a command needs more than {READ_ROUNDS_MAX} rounds of reads"));
            return submission.answer(Err(error));
        }
        self.waiting.push(submission);
    }
}

/// Notes the keys that must be new and that the trust level verifies.
fn note_new_keys(level: TrustLevel, draft: &Draft, place: usize, new_keys: &mut Vec<NewKey>) {
    if level.verifies_events()
        && let Some(event) = draft.new_event
    {
        new_keys.push((draft.writes[event].0.clone(), place, "event of the workspace's log"));
    }
    if level.verifies_records() {
        let records = draft.new_records.iter();
        new_keys.extend(records.map(|write| (draft.writes[*write].0.clone(), place, "record")));
    }
}
