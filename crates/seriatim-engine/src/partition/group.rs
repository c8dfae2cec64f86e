//! Third part of the step: commands that are loaded are executed, their events are staged as one group, and the group is closed.

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

/// What a usual command writes: room for it is made at once.
const KEYS_OF_A_COMMAND: usize = 4;

/// A group, closed and on its way, with what it changes.
pub(super) struct ClosedGroup {
    pub(super) sealed: Sealed<Values>,
    pub(super) answers: Answers,
}

/// Commands whose answers depend on whether their group is in the log.
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

/// A command that was refused in its turn, by what it saw: perhaps by what its own group does, which may turn out not to be
/// in the log.
pub(super) struct HeldRefusal {
    pub(super) submission: Submission,
    pub(super) error: SubmitError,
}

/// A group as it was staged, before its new keys were looked at.
struct Attempt {
    sealed: Sealed<Values>,
    outcomes: Vec<Outcome>,
    /// Keys that must be new.
    new_keys: Vec<NewKey>,
}

impl PartitionTask {
    /// Executes the commands of the batch as one group and closes it. `None` if no event was staged.
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
                        // What did not fit goes into the next group.
                        self.batch = batch;
                    }
                    return Some(ClosedGroup { sealed, answers });
                }
                // The guilty command goes, the others are staged again.
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

    /// Gives a group up that is not in the log, which is free: none of its numbers was used.
    pub(super) fn drop_group(&mut self, sealed: Sealed<Values>) {
        self.sequencer.discard(sealed);
        lock(&self.shared.derived.overlay).drop_group();
    }

    /// The time of the next events: not before the last event of the log, also after a restart.
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

    /// Numbers the commands of the batch, as far as they fit one group. `None` if nothing was staged.
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
        // Bytes of keys and values: a small change of a large record writes all of it.
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
            // They rest on nothing that is not in the log.
            self.sort_out(outcomes, batch, None).give(&self.shared.metrics);
            return None;
        }
        Some(Attempt { sealed: group.seal_with(values), outcomes, new_keys })
    }

    /// Takes those commands out of the batch that had their turn. Those that have to wait for the group come back, if there
    /// is one; it begins `at` an offset. The others are answered or wait for their next turn.
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
                                let problem = "a key was used by an event that is not there";
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

    /// Has a command wait for its next turn, with what it reads.
    fn read_more(&mut self, mut submission: Submission, keys: Vec<StoreKey>) {
        let asked = &mut submission.prepared.reads;
        let before = asked.len();
        for key in keys {
            // What was asked for before was fetched, and a flush has ended since, or it was left for later because others
            // are large: that is no new round.
            if !asked.contains(&key) {
                asked.push(key);
            }
        }
        submission.rounds += usize::from(asked.len() > before);
        if submission.rounds > READ_ROUNDS_MAX {
            let error = self.defect("a command reads one thing after another without end");
            return submission.answer(Err(error));
        }
        self.waiting.push(submission);
    }
}

/// Remembers the keys that a trust level wants to be looked at.
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
