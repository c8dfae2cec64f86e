//! Compares the stored values with the log, and repairs them.

use std::cmp::Ordering;

use bytes::Bytes;
use seriatim_sequencer::{BadValue, Numbers};
use seriatim_storage::{Batch, ClusteringRange, Durability, Pair};
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::derive::Examination;
use super::{DoctorError, Finding, Progress, Report, Telling, Treatment, Trouble, describe};
use crate::command::apply::KeyUse;
use crate::command::view;
use crate::derive::keys::{self, Family, StoreKey};
use crate::derive::{Checkpoint, Mark, Standing, identity, local};
use crate::partition::Position;

/// Writes and removals of one batch of a repair.
const BATCH_WRITES: usize = 1_000;
/// Values between two progress reports.
const TELL_VALUES: u64 = 1_000;
/// Bytes of values that end a batch. Bounds memory.
const LARGE_BYTES: usize = 1 << 20;

/// What a comparison is about.
struct Comparison {
    /// The store is compared with what the log says up to here.
    to: PartitionOffset,
    tail: PartitionOffset,
    /// Idempotency keys of events before this one may have been swept.
    swept: PartitionOffset,
    treatment: Treatment,
    /// Values that the store has.
    present: u64,
    /// What a repair has not written yet.
    batch: Batch,
}

impl Comparison {
    fn repairs(&self) -> bool {
        self.treatment != Treatment::Check
    }
}

impl Examination<'_> {
    /// Examines the partition of a store. Nothing else writes to the store meanwhile.
    pub(super) async fn run(
        &mut self,
        treatment: Treatment,
        report: &mut Report,
        tell: Telling<'_>,
    ) -> Result<(), DoctorError> {
        let tail = self.tail().await?;
        let mut checkpoint = self.checkpoint().await?;
        let standing = self.standing(checkpoint, tail).await?;
        self.useless = matches!(standing, Standing::Useless(_));
        let to = match standing {
            Standing::Beyond(checkpoint) if !self.fenced => {
                return Err(DoctorError::CheckpointBeyondTail { checkpoint, tail });
            }
            Standing::Rewound { checkpoint, expected, found } if !self.fenced => {
                return Err(DoctorError::LogRewound { checkpoint, expected, found });
            }
            Standing::Derived(next, _)
                if treatment != Treatment::Rebuild && checkpoint != Checkpoint::Absent =>
            {
                next
            }
            _ => tail,
        };
        if self.useless && treatment != Treatment::Check {
            local::remove(self.store, self.partition).await?;
            (checkpoint, self.useless) = (Checkpoint::Absent, false);
        }
        // The log of a running partition was already derived, up to its tail before the hold.
        let to = to.max(self.at);
        self.derive(to, report, tell).await?;
        self.compare(to, tail, checkpoint, treatment, report, tell).await?;
        // Events after the checkpoint are derived too, to find out whether they can be applied.
        report.unapplied += tail.since(to).unwrap_or(0);
        self.derive(tail, report, tell).await?;
        report.checked.partitions += 1;
        Ok(())
    }

    pub(super) async fn checkpoint(&self) -> Result<Checkpoint, DoctorError> {
        match Checkpoint::read_beside(self.store, self.partition, self.tail().await?).await? {
            Checkpoint::Bad(newer @ BadValue::Newer { .. }) => Err(DoctorError::NewerCheckpoint(newer)),
            checkpoint => Ok(checkpoint),
        }
    }

    /// What the checkpoint says about the log. Creates no identity.
    pub(super) async fn standing(
        &self,
        checkpoint: Checkpoint,
        tail: PartitionOffset,
    ) -> Result<Standing, DoctorError> {
        let identity = self.log.identity().await?;
        Ok(checkpoint.stand(self.log, identity, self.partition, tail).await?)
    }

    /// How far idempotency keys are swept. `None` if the position is damaged or beyond the end of the log.
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
        let position = self.position(tail).await?;
        let swept = position.unwrap_or(Position::START).reach;
        let (batch, present) = (Batch::new(), 0);
        let mut comparison = Comparison { to, tail, swept, treatment, present, batch };
        let (found, kept) = (report.found, report.findings.len());
        // Numbers first: if they include an event that the log does not have, nothing is repaired.
        for range in keys::numbers_first() {
            self.compare_range(range, &mut comparison, report, tell).await?;
        }
        let is_empty = checkpoint == Checkpoint::Absent && comparison.present == 0;
        if (is_empty || self.useless) && treatment == Treatment::Check {
            // Nothing was ever flushed, or the store was emptied, or its values cannot be used: the next start derives it all.
            report.forget(found, kept);
            report.unapplied += tail.get() - PartitionOffset::FIRST.get();
            if matches!(checkpoint, Checkpoint::At(_)) {
                // It is of another log.
                report.note(|| self.finding(Trouble::Different, &keys::checkpoint(self.partition)));
            }
            return Ok(());
        }
        if position.is_none() {
            let key = keys::sweep(self.partition);
            report.note(|| self.finding(Trouble::Different, &key));
            if comparison.repairs() {
                // Removed keys are restored, and a later sweep removes them again.
                comparison.batch.remove(key.as_key());
                report.removed += 1;
            }
        }
        self.compare_checkpoint(checkpoint, is_empty, &mut comparison, report).await?;
        self.write(&mut comparison).await?;
        // Earlier batches may still be buffered.
        if comparison.repairs() { Ok(self.store.sync().await?) } else { Ok(()) }
    }

    /// Writes what a repair has to write.
    async fn write(&self, comparison: &mut Comparison) -> Result<(), DoctorError> {
        if comparison.batch.is_empty() {
            return Ok(());
        }
        Ok(self.store.write(std::mem::take(&mut comparison.batch), Durability::Buffered).await?)
    }

    /// The checkpoint is written after everything else.
    async fn compare_checkpoint(
        &self,
        checkpoint: Checkpoint,
        is_empty: bool,
        comparison: &mut Comparison,
        report: &mut Report,
    ) -> Result<(), DoctorError> {
        let to = comparison.to;
        let trouble = match checkpoint {
            Checkpoint::Absent if to == PartitionOffset::FIRST || is_empty => None,
            Checkpoint::Absent | Checkpoint::Incomplete => Some(Trouble::Missing),
            Checkpoint::Bad(_) => Some(Trouble::Different),
            Checkpoint::At(mark) => (mark.next > to).then_some(Trouble::Different),
        };
        let key = keys::checkpoint(self.partition);
        if let Some(trouble) = trouble {
            report.note(|| self.finding(trouble, &key));
        }
        if !comparison.repairs() {
            return Ok(());
        }
        let log = identity::identify(self.env, self.log).await?;
        let mark = Mark::of_log(self.log, log, self.partition, to).await?;
        if checkpoint == Checkpoint::At(mark) {
            return Ok(());
        }
        // The storage was fenced before this rebuild, so the evidence is no longer needed.
        comparison.batch.remove(keys::checkpoint_of_format_1(self.partition).as_key());
        if to > PartitionOffset::FIRST {
            Checkpoint::put(&mut comparison.batch, self.partition, mark);
            report.written += u64::from(trouble.is_some());
        } else if trouble.is_some() {
            // The log has no events, so there is no checkpoint.
            comparison.batch.remove(key.as_key());
            report.removed += 1;
        }
        Ok(())
    }

    /// Goes through a range of the partition's keys in both stores at the same time.
    async fn compare_range(
        &self,
        range: ClusteringRange,
        comparison: &mut Comparison,
        report: &mut Report,
        tell: Telling<'_>,
    ) -> Result<(), DoctorError> {
        let storage = keys::storage(self.partition);
        let mut expected = self.scratch.scan(&storage, range.clone());
        let mut actual = self.store.scan(&storage, range);
        let (mut left, mut right) = (expected.next().await?, actual.next().await?);
        for judged in 1_u64.. {
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
            self.judge(StoreKey::new(&storage, &clustering), values, comparison, report).await?;
            if judged % TELL_VALUES == 0 {
                self.tell(report, tell);
            }
        }
        self.tell(report, tell);
        Ok(())
    }

    fn tell(&self, report: &Report, tell: Telling<'_>) {
        let done = self.at.get() - PartitionOffset::FIRST.get();
        let compared = report.checked.values();
        tell(Progress { partition: self.partition, done, total: done, compared });
    }

    /// Whether a value is not compared here. The checkpoint and the position of the sweep are compared at the end. A row of a view
    /// that the given code does not have may belong to other code.
    fn is_left_out(&self, family: Family<'_>) -> bool {
        match family {
            Family::Row { view, .. } => {
                !self.derivation.projectors.iter().any(|projector| projector.view().as_bytes() == view)
            }
            Family::Part { value, .. } => {
                matches!(Family::of(value), Some(row @ Family::Row { .. }) if self.is_left_out(row))
            }
            Family::Checkpoint | Family::Sweep => true,
            _ => false,
        }
    }

    /// Compares one value with what it should be.
    async fn judge(
        &self,
        key: StoreKey,
        (wanted, there): (Option<Bytes>, Option<Bytes>),
        comparison: &mut Comparison,
        report: &mut Report,
    ) -> Result<(), DoctorError> {
        let family = Family::of(key.clustering());
        if family.is_some_and(|family| self.is_left_out(family)) {
            return Ok(());
        }
        family.into_iter().for_each(|family| report.checked.count(family));
        comparison.present += u64::from(there.is_some());
        if let (Some(Family::Numbers(workspace)), Some(there)) = (family, &there) {
            self.check_folded(workspace, there, comparison)?;
        }
        let trouble = match (&wanted, &there) {
            (Some(wanted), Some(there)) if self.is_same(family, wanted, there) => return Ok(()),
            (Some(_), Some(_)) => Trouble::Different,
            (Some(wanted), None) if is_swept(family, wanted, comparison.swept) => return Ok(()),
            (Some(_), None) => Trouble::Missing,
            (None, _) => Trouble::Unexplained,
        };
        report.note(|| self.finding(trouble, &key));
        if comparison.repairs() {
            let large = wanted.as_ref().is_some_and(|wanted| wanted.len() >= LARGE_BYTES);
            match wanted {
                Some(wanted) => comparison.batch.put(key.as_key(), &wanted),
                None => comparison.batch.remove(key.as_key()),
            }
            let count =
                if trouble == Trouble::Unexplained { &mut report.removed } else { &mut report.written };
            *count += 1;
            if large || comparison.batch.len() >= BATCH_WRITES {
                self.write(comparison).await?;
            }
        }
        Ok(())
    }

    pub(super) fn numbers(&self, bytes: &[u8]) -> Option<Numbers> {
        Numbers::decode(self.derivation.schema.sequences(), bytes).ok()
    }

    /// Numbers have a checksum. If they include an event that the log does not have, that event existed: the log has lost it. Only
    /// a rebuild of a fenced storage may remove this evidence.
    fn check_folded(
        &self,
        workspace: WorkspaceId,
        there: &[u8],
        comparison: &Comparison,
    ) -> Result<(), DoctorError> {
        let tail = comparison.tail;
        let folded =
            self.numbers(there).and_then(|numbers| numbers.folded()).filter(|folded| *folded >= tail);
        match folded.filter(|_| !self.fenced && !self.useless) {
            Some(folded) => Err(DoctorError::FoldedBeyondTail { workspace, folded, tail }),
            None => Ok(()),
        }
    }

    /// Whether two stored values have the same meaning. Numbers and rows have more than one valid form: a definition with a new
    /// sequence reads older numbers as if they had it, and a row is JSON.
    fn is_same(&self, family: Option<Family<'_>>, wanted: &[u8], there: &[u8]) -> bool {
        wanted == there
            || match family {
                Some(Family::Numbers(_)) => {
                    self.numbers(there).is_some_and(|there| Some(there) == self.numbers(wanted))
                }
                Some(Family::Row { .. }) => {
                    view::decode_row(there).is_ok_and(|there| Ok(there) == view::decode_row(wanted))
                }
                _ => false,
            }
    }

    fn finding(&self, trouble: Trouble, key: &StoreKey) -> Finding {
        let what = describe(&self.derivation.schema, key.clustering());
        Finding { partition: self.partition, trouble, what, key: key.clone() }
    }
}

/// Whether a missing value is an idempotency key that was swept after its window.
fn is_swept(family: Option<Family<'_>>, wanted: &[u8], swept: PartitionOffset) -> bool {
    matches!(family, Some(Family::Idempotency(..)))
        && KeyUse::decode(wanted).is_ok_and(|used| used.offset < swept)
}
