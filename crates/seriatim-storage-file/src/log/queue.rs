//! Appends and takes that wait for the committer, and the state of each partition.
//!
//! ```text
//!              [ 1 … tail )   committed: durable and readable
//!   a partition     [ tail … reserved )   submitted: in the frame that is being synced, or in the next one
//! ```

use std::collections::HashMap;

use seriatim_storage::{Append, AppendError, Held, Holder, LogError, Take, TakeOver, TakenPartition};
use seriatim_types::{Epoch, Partition, PartitionOffset};
use tokio::sync::oneshot;

use super::frame::FRAME_HEADER_BYTES;
use super::index::SegmentIndex;
use super::record::{APPEND_HEADER_BYTES, TAKE_BYTES, encode_append, encode_take};

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
    pub(super) takes: Vec<(Partition, Epoch)>,
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

    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    fn record_bytes(&self) -> usize {
        self.buffer.len() - FRAME_HEADER_BYTES
    }
}

#[derive(Debug)]
struct PartitionState {
    /// `None` until the partition is taken for the first time.
    epoch: Option<Epoch>,
    /// Who raised the epoch last.
    take: Take,
    /// The tail including what is submitted.
    reserved: PartitionOffset,
    /// The tail including only what is durable.
    tail: PartitionOffset,
    /// The index of this partition in the pending frame's `appends`, if it has one.
    pending_index: Option<usize>,
}

impl PartitionState {
    fn new(epoch: Option<Epoch>, tail: PartitionOffset) -> Self {
        let take = Take::new(Holder::unnamed(), 0);
        Self { epoch, take, reserved: tail, tail, pending_index: None }
    }

    fn held(&self) -> Option<Held> {
        self.epoch.map(|epoch| Held { epoch, take: self.take.clone(), tail: self.reserved })
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
        let state = |(partition, epoch, tail)| (partition, PartitionState::new(Some(epoch), tail));
        Self { pending: PendingFrame::new(), partitions: known.map(state).collect(), queue_bytes }
    }

    fn state(&mut self, partition: Partition) -> &mut PartitionState {
        self.partitions.entry(partition).or_insert_with(|| PartitionState::new(None, PartitionOffset::FIRST))
    }

    /// Adds takes to the pending frame, of all partitions that have the expected epoch. From now on appends of their earlier
    /// owners are refused. The receiver answers when the frame is durable, and with it everything that the answers count.
    pub(super) fn take_over(
        &mut self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<(Vec<TakeOver>, oneshot::Receiver<Answer>), LogError> {
        let queued = self.pending.record_bytes();
        if queued > self.queue_bytes.saturating_sub(partitions.len() * TAKE_BYTES) {
            return Err(LogError::Unavailable(format!(
                "the log's queue is full: {queued} bytes wait to be written; try again after a short time"
            )));
        }
        let mut answers = Vec::with_capacity(partitions.len());
        for &(partition, expected) in partitions {
            let state = self.state(partition);
            if state.epoch != expected {
                answers.push(TakeOver::Refused(state.held()));
                continue;
            }
            let epoch = expected.map_or(Some(Epoch::FIRST), Epoch::next);
            let epoch =
                epoch.ok_or_else(|| LogError::Internal("no epoch is left for this partition".to_owned()))?;
            (state.epoch, state.take) = (Some(epoch), take.clone());
            answers.push(TakeOver::Taken(TakenPartition { epoch, tail: state.reserved }));
            encode_take(&mut self.pending.buffer, partition, epoch);
            self.pending.takes.push((partition, epoch));
        }
        let (answer, receiver) = oneshot::channel();
        self.pending.answers.push(answer);
        Ok((answers, receiver))
    }

    pub(super) fn holder(&self, partition: Partition) -> Option<Held> {
        self.partitions.get(&partition).and_then(PartitionState::held)
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
        let current = state.epoch.ok_or(AppendError::Invalid("the partition was never taken"))?;
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

    /// Advances the tails: this frame is durable.
    pub(super) fn committed(&mut self, frame: &PendingFrame) {
        for (partition, _, next) in &frame.appends {
            self.state(*partition).tail = *next;
        }
    }

    /// Resets all partitions to their tails, because the last frame was not written and so the pending one cannot be written
    /// either. Returns the pending frame. Epochs stay raised; that affects only owners whose take has failed too.
    pub(super) fn withdraw(&mut self) -> PendingFrame {
        let waiting = self.swap_pending(PendingFrame::new());
        for state in self.partitions.values_mut() {
            state.reserved = state.tail;
        }
        waiting
    }

    pub(super) fn taken(&self) -> Vec<Partition> {
        let taken = self.partitions.iter().filter(|(_, state)| state.epoch.is_some());
        let mut taken: Vec<_> = taken.map(|(partition, _)| *partition).collect();
        taken.sort();
        taken
    }
}

#[cfg(test)]
mod tests {
    use seriatim_storage::{Digest, Entries, Header};
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

    fn take(queue: &mut Queue) -> TakenPartition {
        let epoch = queue.holder(PARTITION).map(|held| held.epoch);
        let (mut answers, _) =
            queue.take_over(&[(PARTITION, epoch)], &Take::new(Holder::unnamed(), 0)).unwrap();
        match answers.pop() {
            Some(TakeOver::Taken(taken)) => taken,
            other => panic!("{other:?}"),
        }
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
