//! Comparing what is stored with what the log says, and mending it.

use std::cmp::Ordering;

use bytes::Bytes;
use seriatim_sequencer::{BadValue, Numbers, NumbersKey};
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Pair};
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::derive::Examination;
use super::marks::Marks;
use super::{DoctorError, Finding, Progress, Report, Telling, Treatment, Trouble};
use crate::apply::{KeyUse, decode_offset};
use crate::derive::{Checkpoint, split};
use crate::keys::{self, StoreKey};
use crate::partition::Position;
use crate::record;
use crate::view;

/// Writes and removals of one batch of a repair.
const BATCH_WRITES: usize = 1_000;
/// A value of so many bytes ends a batch. Bounds memory.
const LARGE_BYTES: usize = 1 << 20;

/// What a comparison is about.
struct Comparison {
    /// The store is compared with what the log says up to here.
    to: PartitionOffset,
    tail: PartitionOffset,
    /// Idempotency keys of events before this one may have been swept.
    swept: PartitionOffset,
    treatment: Treatment,
    /// The generation of the store that is compared. A repair of another one would be a guess.
    generation: u64,
    /// Whether a value may be ahead of the checkpoint, because batches of this store can be there in part.
    may_be_ahead: bool,
    /// Values that the store has.
    present: u64,
    /// What a repair has not written yet.
    batch: Batch,
}

impl Comparison {
    fn mends(&self) -> bool {
        self.treatment != Treatment::Check
    }
}

impl Examination<'_> {
    /// Looks at the partition of a store that nobody writes to.
    pub(super) async fn run(
        &mut self,
        treatment: Treatment,
        report: &mut Report,
        tell: Telling<'_>,
    ) -> Result<(), DoctorError> {
        let tail = self.tail().await?;
        let checkpoint = self.checkpoint().await?;
        let to = match (treatment, checkpoint) {
            (_, Checkpoint::At(checkpoint)) if checkpoint > tail && !self.fenced => {
                return Err(DoctorError::CheckpointBeyondTail { checkpoint, tail });
            }
            (Treatment::Rebuild, _) | (_, Checkpoint::Absent | Checkpoint::Bad(_)) => tail,
            (_, Checkpoint::At(checkpoint)) => checkpoint,
        };
        // A running partition was derived from already, up to where it stood a moment ago.
        let to = to.max(self.at);
        self.derive(to, report, tell).await?;
        self.compare(to, tail, checkpoint, treatment, report, tell).await?;
        // What is not applied yet is looked at all the same: whether it can be.
        report.unapplied += tail.since(to).unwrap_or(0);
        self.derive(tail, report, tell).await?;
        report.checked.partitions += 1;
        Ok(())
    }

    pub(super) async fn checkpoint(&self) -> Result<Checkpoint, DoctorError> {
        match Checkpoint::read(self.store, self.partition).await? {
            Checkpoint::Bad(newer @ BadValue::Newer { .. }) => Err(DoctorError::NewerCheckpoint(newer)),
            checkpoint => Ok(checkpoint),
        }
    }

    /// How far idempotency keys are swept; `None` if that is damaged, or beyond the end of the log.
    async fn position(&self, tail: PartitionOffset) -> Result<Option<Position>, DoctorError> {
        let stored = self.store.get(keys::sweep(self.partition).as_key()).await?;
        let position = stored.map_or(Some(Position::START), |bytes| Position::decode(&bytes));
        Ok(position.filter(|position| position.reach <= tail))
    }

    async fn compare(
        &self,
        to: PartitionOffset,
        tail: PartitionOffset,
        checkpoint: Checkpoint,
        treatment: Treatment,
        report: &mut Report,
        tell: Telling<'_>,
    ) -> Result<(), DoctorError> {
        let may_be_ahead = !self.store.batches_are_atomic() && to < tail;
        let generation = self.store.generation();
        let position = self.position(tail).await?;
        let swept = position.unwrap_or(Position::START).reach;
        let (batch, present) = (Batch::new(), 0);
        let mut comparison =
            Comparison { to, tail, swept, treatment, generation, may_be_ahead, present, batch };
        let (found, kept) = (report.found, report.findings.len());
        self.mark_nexts().await?;
        // Numbers first: where they are ahead of the log, there may be more to look at.
        let (numbers, others) = (ClusteringRange::prefix(b"sn"), ClusteringRange::new(b"e", b"ez"));
        // Parts last: which values are kept in parts shows when these are compared.
        for range in [numbers, others, ClusteringRange::prefix(b"ez")] {
            let mut marks = self.scratch.scan(&self.marks_key(), range);
            while let Some((storage, _)) = marks.next().await? {
                self.compare_storage(&storage, &mut comparison, report).await?;
                if !self.store.batches_are_atomic()
                    && (storage.starts_with(b"er") || storage.starts_with(b"ev"))
                {
                    // A crash may have left parts that no value leads to.
                    self.mark_parts(&storage).await?;
                }
                let done = self.at.get() - PartitionOffset::FIRST.get();
                let compared = report.checked.values();
                tell(Progress { partition: self.partition, done, total: done, compared });
            }
        }
        let is_empty = checkpoint == Checkpoint::Absent && comparison.present == 0;
        if is_empty && treatment == Treatment::Check {
            // Nothing was ever flushed, or the store was emptied: the next start derives it all.
            report.forget(found, kept);
            report.unapplied += tail.get() - PartitionOffset::FIRST.get();
            return Ok(());
        }
        if position.is_none() {
            let (key, what) = (keys::sweep(self.partition), "how far idempotency keys are swept".to_owned());
            let (partition, trouble) = (self.partition, Trouble::Different);
            report.note(|| Finding { partition, trouble, what, key: key.clone() });
            if comparison.mends() {
                // What it had removed is restored, and swept again.
                comparison.batch.remove(key.as_key());
                report.removed += 1;
            }
        }
        self.compare_checkpoint(checkpoint, is_empty, &mut comparison, report);
        self.write(&mut comparison, Durability::Synced).await
    }

    /// Writes what a repair has to write.
    async fn write(&self, comparison: &mut Comparison, durability: Durability) -> Result<(), DoctorError> {
        if comparison.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut comparison.batch).only_in(comparison.generation);
        Ok(self.store.write(batch, durability).await?)
    }

    /// The checkpoint is written behind everything else.
    fn compare_checkpoint(
        &self,
        checkpoint: Checkpoint,
        is_empty: bool,
        comparison: &mut Comparison,
        report: &mut Report,
    ) {
        let to = comparison.to;
        let trouble = match checkpoint {
            Checkpoint::Absent if to == PartitionOffset::FIRST || is_empty => None,
            Checkpoint::Absent => Some(Trouble::Missing),
            Checkpoint::Bad(_) => Some(Trouble::Different),
            Checkpoint::At(checkpoint) => (checkpoint > to).then_some(Trouble::Different),
        };
        let key = keys::checkpoint(self.partition);
        if let Some(trouble) = trouble {
            let (partition, what) = (self.partition, "the checkpoint".to_owned());
            report.note(|| Finding { partition, trouble, what, key: key.clone() });
        }
        if !comparison.mends() || checkpoint == Checkpoint::At(to) {
            return;
        }
        if to > PartitionOffset::FIRST {
            Checkpoint::put(&mut comparison.batch, self.partition, to);
            report.written += u64::from(trouble.is_some());
        } else if trouble.is_some() {
            // The log has no events, so there is nothing to have a checkpoint of.
            comparison.batch.remove(key.as_key());
            report.removed += 1;
        }
    }

    async fn compare_storage(
        &self,
        storage: &[u8],
        comparison: &mut Comparison,
        report: &mut Report,
    ) -> Result<(), DoctorError> {
        let mut expected = self.scratch.scan(storage, ClusteringRange::all());
        let mut actual = self.store.scan(storage, ClusteringRange::all());
        let (mut left, mut right) = (expected.next().await?, actual.next().await?);
        loop {
            let order = match (&left, &right) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((left, _)), Some((right, _))) => left.cmp(right),
            };
            let (mut wanted, mut there): (Option<Pair>, Option<Pair>) = (None, None);
            if order.is_le() {
                wanted = std::mem::replace(&mut left, expected.next().await?);
            }
            if order.is_ge() {
                there = std::mem::replace(&mut right, actual.next().await?);
            }
            let Some(clustering) = wanted.as_ref().or(there.as_ref()).map(|(key, _)| key.clone()) else {
                break;
            };
            let values = (wanted.map(|(_, value)| value), there.map(|(_, value)| value));
            self.judge(StoreKey::new(storage, &clustering), values, comparison, report).await?;
        }
        Ok(())
    }

    /// Compares one value with what it should be.
    async fn judge(
        &self,
        key: StoreKey,
        (wanted, there): (Option<Bytes>, Option<Bytes>),
        comparison: &mut Comparison,
        report: &mut Report,
    ) -> Result<(), DoctorError> {
        let workspace = NumbersKey::decode(key.as_key()).map(|(_, workspace)| workspace);
        if workspace.is_some_and(|workspace| !self.owns(workspace)) {
            return Ok(());
        }
        report.checked.count(key.family());
        comparison.present += u64::from(there.is_some());
        if let (Some(workspace), Some(there)) = (workspace, &there) {
            self.check_folded(workspace, there, comparison)?;
        }
        if there.as_deref().and_then(split::Header::decode).is_some() {
            self.mark_parts(key.partition()).await?;
        }
        let trouble = match (&wanted, &there) {
            (Some(wanted), Some(there)) if self.is_same(key.family(), wanted, there) => return Ok(()),
            (Some(_), Some(_)) => Trouble::Different,
            (Some(wanted), None) if is_swept(&key, wanted, comparison.swept) => return Ok(()),
            (Some(_), None) => Trouble::Missing,
            (None, _) => Trouble::Unexplained,
        };
        if there.as_ref().is_some_and(|there| self.is_ahead(&key, there, comparison)) {
            return Ok(());
        }
        if let (Some(workspace), Some(there)) = (workspace, &there) {
            self.mark_ahead(workspace, wanted.as_ref(), there).await?;
        }
        let what = || self.describe(&key);
        report.note(|| Finding { partition: self.partition, trouble, what: what(), key: key.clone() });
        if comparison.mends() {
            let large = wanted.as_ref().is_some_and(|wanted| wanted.len() >= LARGE_BYTES);
            match wanted {
                Some(wanted) => comparison.batch.put(key.as_key(), &wanted),
                None => comparison.batch.remove(key.as_key()),
            }
            let count =
                if trouble == Trouble::Unexplained { &mut report.removed } else { &mut report.written };
            *count += 1;
            if large || comparison.batch.len() >= BATCH_WRITES {
                self.write(comparison, Durability::Buffered).await?;
            }
        }
        Ok(())
    }

    pub(super) fn numbers(&self, bytes: &[u8]) -> Option<Numbers> {
        Numbers::decode(self.derivation.schema.sequences(), bytes).ok()
    }

    /// Numbers have a checksum: if they have seen an event that the log does not have, it was there. That is evidence, which only
    /// a rebuild of a storage that was fenced for it may remove.
    fn check_folded(
        &self,
        workspace: WorkspaceId,
        there: &[u8],
        comparison: &Comparison,
    ) -> Result<(), DoctorError> {
        let tail = comparison.tail;
        let folded =
            self.numbers(there).and_then(|numbers| numbers.folded()).filter(|folded| *folded >= tail);
        match folded.filter(|_| !self.fenced) {
            Some(folded) => Err(DoctorError::FoldedBeyondTail { workspace, folded, tail }),
            None => Ok(()),
        }
    }

    /// Whether two stored values say the same. Numbers and rows may be written in more than one way: a definition that
    /// has got a new sequence reads older numbers as if they had it, and a row is JSON.
    fn is_same(&self, family: &[u8], wanted: &[u8], there: &[u8]) -> bool {
        wanted == there
            || match family {
                b"sn" => self.numbers(there).is_some_and(|there| Some(there) == self.numbers(wanted)),
                b"ev" => view::decode_row(there).is_ok_and(|there| Ok(there) == view::decode_row(wanted)),
                _ => false,
            }
    }

    /// Whether a value comes from an event behind the checkpoint: a flush was under way.
    fn is_ahead(&self, key: &StoreKey, there: &[u8], comparison: &Comparison) -> bool {
        if !comparison.may_be_ahead {
            return false;
        }
        let in_parts = split::Header::decode(there).and_then(|header| PartitionOffset::new(header.folded));
        let event = match key.family() {
            b"er" | b"ev" if in_parts.is_some() => in_parts,
            b"sn" => self.numbers(there).and_then(|numbers| numbers.folded()),
            b"el" => decode_offset(there).ok(),
            b"er" => record::folded(there).ok(),
            b"ex" => KeyUse::decode(there).ok().map(|used| used.offset),
            b"ev" => view::decode_row(there).ok().map(|(folded, _)| folded),
            // These do not say which event they come from.
            _ => Some(comparison.to),
        };
        event.is_some_and(|event| comparison.to <= event && event < comparison.tail)
    }

    /// Stored numbers that are ahead of the log may have had events and records that the log has lost.
    async fn mark_ahead(
        &self,
        workspace: WorkspaceId,
        wanted: Option<&Bytes>,
        there: &[u8],
    ) -> Result<(), DoctorError> {
        let Some(there) = self.numbers(there) else { return Ok(()) };
        let fresh = || Numbers::fresh(there.kind(), self.derivation.schema.sequences().kind(there.kind()));
        let wanted = wanted.and_then(|wanted| self.numbers(wanted)).unwrap_or_else(fresh);
        let mut marks = Marks::new();
        self.mark_between(workspace, &wanted, &there, &mut marks);
        self.write_marks(&mut marks, true).await
    }

    /// Marks where the parts of values of a storage partition lie.
    async fn mark_parts(&self, storage: &[u8]) -> Result<(), DoctorError> {
        self.write_marks(&mut Marks::from([[b"ez", storage].concat()]), true).await
    }

    /// What a key leads to, in words.
    fn describe(&self, key: &StoreKey) -> String {
        super::describe::describe(&self.derivation.schema, Key::new(key.partition(), key.clustering()))
    }
}

/// Whether a value that is not there is an idempotency key that was swept, because its window was over.
fn is_swept(key: &StoreKey, wanted: &[u8], swept: PartitionOffset) -> bool {
    key.family() == b"ex" && KeyUse::decode(wanted).is_ok_and(|used| used.offset < swept)
}
