//! Appends and takes that wait for the committer, and the state of each partition.
//!
//! ```text
//!              [ 1 … tail )   committed: durable and readable
//!   a partition     [ tail … reserved )   submitted: in the frame that is being synced, or in the next one
//! ```

use std::collections::HashMap;

use seriatim_storage::{Append, AppendError, Held, LogError, Take, TakeOver, TakenPartition};
use seriatim_types::{Epoch, Partition, PartitionOffset};
use tokio::sync::oneshot;

use super::frame::FRAME_HEADER_BYTES;
use super::index::SegmentIndex;
use super::record::{APPEND_HEADER_BYTES, encode_append, encode_take, take_bytes};

/// Why a frame was not committed.
#[derive(Debug, Clone)]
pub(super) enum CommitFailure {
    /// Nothing was written: there is no space for another segment. The log continues when there is.
    NoRoom { free_bytes: u64, needed_bytes: u64 },
    /// Nothing was written: a new segment could not be created, for this reason. The log continues when that succeeds.
    NoSegment(String),
    /// The frame may have been written. The log stops.
    InDoubt(String),
    /// Nothing was written: the log stopped before.
    Stopped(String),
}

pub(super) type Answer = Result<(), CommitFailure>;

/// The next frame while it is collected: space for its header, then records.
#[derive(Debug)]
pub(super) struct PendingFrame {
    pub(super) buffer: Vec<u8>,
    pub(super) takes: Vec<(Partition, Epoch, Take)>,
    pub(super) appends: Vec<(Partition, PartitionOffset, PartitionOffset)>,
    pub(super) answers: Vec<oneshot::Sender<Answer>>,
}

impl PendingFrame {
    pub(super) fn new() -> Self {
        let buffer = vec![0; FRAME_HEADER_BYTES];
        Self { buffer, takes: Vec::new(), appends: Vec::new(), answers: Vec::new() }
    }

    /// Removes the content and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.buffer.truncate(FRAME_HEADER_BYTES);
        self.takes.clear();
        self.appends.clear();
        self.answers.clear();
    }

    /// Whether no one waits for this frame. A frame may be waited for and have no records, if all that it answers was refused.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    pub(super) fn record_bytes(&self) -> usize {
        self.buffer.len() - FRAME_HEADER_BYTES
    }
}

#[derive(Debug)]
struct PartitionState {
    /// The last take including what is submitted; `None` before the first one.
    taken: Option<(Epoch, Take)>,
    /// The last take that is durable.
    durably_taken: Option<(Epoch, Take)>,
    /// The tail including what is submitted.
    reserved: PartitionOffset,
    /// The tail including only what is durable.
    tail: PartitionOffset,
    /// The index of this partition in the pending frame's `appends`, if it has one.
    pending_index: Option<usize>,
}

impl PartitionState {
    fn untaken() -> Self {
        let tail = PartitionOffset::FIRST;
        Self { taken: None, durably_taken: None, reserved: tail, tail, pending_index: None }
    }

    fn stored(Held { epoch, take, tail }: Held) -> Self {
        let taken = Some((epoch, take));
        Self { durably_taken: taken.clone(), taken, reserved: tail, tail, pending_index: None }
    }

    fn epoch(&self) -> Option<Epoch> {
        self.taken.as_ref().map(|(epoch, _)| *epoch)
    }

    /// How the partition is held when everything that is submitted is durable.
    fn held(&self) -> Option<Held> {
        self.taken.clone().map(|(epoch, take)| Held { epoch, take, tail: self.reserved })
    }

    fn durably_held(&self) -> Option<Held> {
        self.durably_taken.clone().map(|(epoch, take)| Held { epoch, take, tail: self.tail })
    }
}

/// The queue of the committer. It does no I/O and never waits; [`super::committer`] does both.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) pending: PendingFrame,
    partitions: HashMap<Partition, PartitionState>,
    queue_bytes: usize,
}

impl Queue {
    pub(super) fn new(index: &SegmentIndex, queue_bytes: usize) -> Self {
        let known = index.partitions();
        let state = |(partition, held)| (partition, PartitionState::stored(held));
        Self { pending: PendingFrame::new(), partitions: known.map(state).collect(), queue_bytes }
    }

    fn state(&mut self, partition: Partition) -> &mut PartitionState {
        self.partitions.entry(partition).or_insert_with(PartitionState::untaken)
    }

    /// Adds takes to the pending frame, of all partitions that have the expected epoch. From now on appends of their earlier
    /// owners are refused. The receiver answers when the frame is durable, and with it everything that the answers count, also
    /// what the refusals do: everything that was submitted before is in this frame or in an earlier one.
    pub(super) fn take_over(
        &mut self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<(Vec<TakeOver>, oneshot::Receiver<Answer>), LogError> {
        let queued = self.pending.record_bytes();
        if queued > self.queue_bytes.saturating_sub(partitions.len() * take_bytes(take)) {
            return Err(LogError::Unavailable(format!(
                "the log's queue is full: {queued} bytes wait to be written; try again after a short time"
            )));
        }
        // The last epoch is never given away, so that every epoch has a following one.
        let is_last = |epoch: Option<Epoch>| epoch.is_some_and(|epoch| epoch.next().is_none());
        if partitions.iter().any(|(_, expected)| is_last(*expected)) {
            return Err(LogError::Internal("no epoch is left for this partition".to_owned()));
        }
        let mut answers = Vec::with_capacity(partitions.len());
        for &(partition, expected) in partitions {
            let state = self.state(partition);
            let following = expected.map_or(Some(Epoch::FIRST), Epoch::next);
            let (true, Some(epoch)) = (state.epoch() == expected, following) else {
                answers.push(TakeOver::Refused(state.held()));
                continue;
            };
            state.taken = Some((epoch, take.clone()));
            answers.push(TakeOver::Taken(TakenPartition { epoch, tail: state.reserved }));
            encode_take(&mut self.pending.buffer, partition, epoch, take);
            self.pending.takes.push((partition, epoch, take.clone()));
        }
        let (answer, receiver) = oneshot::channel();
        self.pending.answers.push(answer);
        Ok((answers, receiver))
    }

    /// Who holds a partition durably.
    pub(super) fn holder(&self, partition: Partition) -> Option<Held> {
        self.partitions.get(&partition).and_then(PartitionState::durably_held)
    }

    /// Adds an append to the pending frame if its epoch and offset match.
    pub(super) fn append(&mut self, append: &Append<'_>) -> Result<oneshot::Receiver<Answer>, AppendError> {
        let (partition, at) = (append.partition, append.at);
        let size = APPEND_HEADER_BYTES + append.entries.as_bytes().len();
        let next = at.advance(append.entries.len() as u64);
        let next = next.ok_or(AppendError::Invalid("no offset is left after this append"))?;
        let (queued, limit, frame) =
            (self.pending.record_bytes(), self.queue_bytes, self.pending.appends.len());
        let state = self.state(partition);
        let current = state.epoch().ok_or(AppendError::Invalid("the partition was never taken"))?;
        if current != append.epoch {
            return Err(AppendError::StaleEpoch { partition, held: append.epoch, current });
        }
        if state.reserved != at {
            return Err(AppendError::Conflict { partition, at, tail: state.reserved, found: None });
        }
        // One append is always accepted, however small the queue is.
        if queued > 0 && queued + size > limit {
            return Err(AppendError::QueueFull { queued_bytes: queued });
        }
        state.reserved = next;
        let index = *state.pending_index.get_or_insert(frame);
        match self.pending.appends.get_mut(index) {
            Some((_, _, end)) => *end = next,
            None => self.pending.appends.push((partition, at, next)),
        }
        encode_append(&mut self.pending.buffer, partition, at, append.entries);
        let (answer, receiver) = oneshot::channel();
        self.pending.answers.push(answer);
        Ok(receiver)
    }

    /// Returns the pending frame and continues with `other`, which is empty.
    pub(super) fn swap_pending(&mut self, other: PendingFrame) -> PendingFrame {
        let frame = std::mem::replace(&mut self.pending, other);
        for (partition, _, _) in &frame.appends {
            self.state(*partition).pending_index = None;
        }
        frame
    }

    /// Advances epochs and tails: this frame is durable.
    pub(super) fn committed(&mut self, frame: &PendingFrame) {
        for (partition, epoch, take) in &frame.takes {
            self.state(*partition).durably_taken = Some((*epoch, take.clone()));
        }
        for (partition, _, next) in &frame.appends {
            self.state(*partition).tail = *next;
        }
    }

    /// Resets all partitions to what is durable, because the last frame was not written and so the pending one cannot be
    /// written either. Returns the pending frame. A take that was not written must not be recognized when it is repeated: its
    /// epoch would be given away again after a restart.
    pub(super) fn withdraw(&mut self) -> PendingFrame {
        let waiting = self.swap_pending(PendingFrame::new());
        for state in self.partitions.values_mut() {
            state.reserved = state.tail;
            state.taken.clone_from(&state.durably_taken);
        }
        waiting
    }

    pub(super) fn taken(&self) -> Vec<Partition> {
        let taken = self.partitions.iter().filter(|(_, state)| state.durably_taken.is_some());
        let mut taken: Vec<_> = taken.map(|(partition, _)| *partition).collect();
        taken.sort();
        taken
    }
}

#[cfg(test)]
mod tests {
    use seriatim_storage::{Digest, Entries, Header, Holder};
    use seriatim_types::{AppendId, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

    use super::*;

    const PARTITION: Partition = Partition::new(1, 0);

    fn entries(size: usize) -> Entries {
        let body = vec![0; size];
        let header = Header {
            workspace: WorkspaceId::FIRST,
            kind: WorkspaceKind::new(1),
            workspace_offset: WorkspaceOffset::FIRST,
            time: Timestamp::from_millis(0),
            body_digest: Digest::ZERO,
            draws: &[],
            raises: &[],
        };
        let mut entries = Entries::new(AppendId { epoch: Epoch::FIRST, counter: 0 });
        entries.push(&header, Digest::ZERO, &body).unwrap();
        entries
    }

    fn submit(queue: &mut Queue, at: PartitionOffset, size: usize) -> Result<(), AppendError> {
        let entries = entries(size);
        let append =
            Append { partition: PARTITION, epoch: Epoch::FIRST, at, entries: &entries, verified: true };
        queue.append(&append).map(drop)
    }

    fn take_over(queue: &mut Queue, expected: u64, holder: &str) -> TakeOver {
        let take = Take::new(Holder::new(holder), 7);
        let (mut answers, _) = queue.take_over(&[(PARTITION, Epoch::new(expected))], &take).unwrap();
        answers.pop().unwrap()
    }

    fn take(queue: &mut Queue) -> TakenPartition {
        let epoch = queue.partitions.get(&PARTITION).and_then(PartitionState::epoch);
        match take_over(queue, epoch.map_or(0, Epoch::get), "taker") {
            TakeOver::Taken(taken) => taken,
            other => panic!("{other:?}"),
        }
    }

    fn epoch_and_holder(held: Option<&Held>) -> Option<(u64, &str)> {
        held.map(|held| (held.epoch.get(), held.take.holder.as_str()))
    }

    #[test]
    fn a_take_that_was_not_written_is_withdrawn_and_is_not_recognized_when_it_is_repeated() {
        let mut queue = Queue::new(&SegmentIndex::first(), 1_000);
        take_over(&mut queue, 0, "first");
        let frame = queue.swap_pending(PendingFrame::new());
        queue.committed(&frame);
        take_over(&mut queue, 1, "second");
        assert_eq!(epoch_and_holder(queue.holder(PARTITION).as_ref()), Some((1, "first")), "not durable yet");
        queue.withdraw();
        let again = take_over(&mut queue, 1, "second");
        assert!(matches!(again, TakeOver::Taken(taken) if taken.epoch.get() == 2), "{again:?}");
        assert_eq!(queue.pending.takes.len(), 1, "it is written");
    }

    #[test]
    fn a_take_over_that_is_refused_is_answered_without_a_record() {
        let mut queue = Queue::new(&SegmentIndex::first(), 1_000);
        take(&mut queue);
        let frame = queue.swap_pending(PendingFrame::new());
        let refused = take_over(&mut queue, 0, "late");
        // The answer counts the take in the frame that is being written, so it has to wait for it.
        assert!(
            matches!(&refused, TakeOver::Refused(held) if epoch_and_holder(held.as_ref()) == Some((1, "taker")))
        );
        assert_eq!(epoch_and_holder(queue.holder(PARTITION).as_ref()), None);
        assert!(!queue.pending.is_empty() && queue.pending.record_bytes() == 0);
        queue.committed(&frame);
        assert_eq!(epoch_and_holder(queue.holder(PARTITION).as_ref()), Some((1, "taker")));
    }

    #[test]
    fn the_last_epoch_is_not_given_away_and_nothing_else_is_taken_with_it() {
        let mut queue = Queue::new(&SegmentIndex::first(), 1_000);
        let partitions = [(Partition::new(1, 1), None), (PARTITION, Epoch::new(u64::MAX))];
        let error = queue.take_over(&partitions, &Take::new(Holder::unnamed(), 0)).unwrap_err();
        assert!(error.to_string().contains("no epoch is left"), "{error}");
        assert!(queue.pending.takes.is_empty() && queue.pending.record_bytes() == 0);
    }

    #[test]
    fn a_full_queue_refuses_an_append_and_changes_nothing() {
        let mut queue = Queue::new(&SegmentIndex::first(), 1_000);
        take(&mut queue);
        let mut at = PartitionOffset::FIRST;
        let error = loop {
            match submit(&mut queue, at, 100) {
                Ok(()) => at = at.next().unwrap(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, AppendError::QueueFull { queued_bytes } if queued_bytes <= 1_000), "{error}");
        assert!(at.get() > 3);
        // When there is room again, the same append is accepted at the same offset.
        let frame = queue.swap_pending(PendingFrame::new());
        submit(&mut queue, at, 100).unwrap();
        // A frame that was not committed is dropped together with the pending one.
        queue.committed(&frame);
        assert_eq!(queue.withdraw().answers.len(), 1);
        submit(&mut queue, at, 100).unwrap();
    }

    #[test]
    fn an_append_larger_than_the_queue_is_accepted_alone() {
        let mut queue = Queue::new(&SegmentIndex::first(), 1_000);
        take(&mut queue);
        queue.swap_pending(PendingFrame::new());
        submit(&mut queue, PartitionOffset::FIRST, 5_000).unwrap();
        let error = submit(&mut queue, PartitionOffset::new(2).unwrap(), 1).unwrap_err();
        assert!(matches!(error, AppendError::QueueFull { .. }), "{error}");
    }

    #[test]
    fn a_take_ends_the_earlier_ownership_at_once() {
        let mut queue = Queue::new(&SegmentIndex::first(), 1_000);
        take(&mut queue);
        submit(&mut queue, PartitionOffset::FIRST, 1).unwrap();
        let taken = take(&mut queue);
        // An append that was submitted before the take is before it in the log, and is counted in its tail.
        assert_eq!(
            taken,
            TakenPartition { epoch: Epoch::new(2).unwrap(), tail: PartitionOffset::new(2).unwrap() }
        );
        let error = submit(&mut queue, PartitionOffset::new(2).unwrap(), 1).unwrap_err();
        assert!(matches!(error, AppendError::StaleEpoch { .. }), "{error}");
    }
}
