//! A cut of a log: how much of each partition a copy has, so that it has the cause of everything in it.
//!
//! Events of one partition follow from events of others: a workspace is registered in one partition before its first event in
//! another one, and workflows send messages to each other. Tails that are read one after the other do not make a cut: an event
//! that was appended between two reads can be in the copy without its cause.
//!
//! ```text
//!   tails before │ moment │ tails after
//! ```
//!
//! A partition to which this process appends is cut at what had been submitted at the moment, as far as it is committed: the cause
//! of an event is committed before the event is submitted, so it is in the cut too. All other partitions must have the same tail
//! before and after the moment; then everything in them was appended before it. Nothing waits, and no append is delayed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::future::try_join_all;
use seriatim_types::sync::Mutex;
use seriatim_types::{Epoch, Partition, PartitionOffset};

use super::{Held, Log, LogError};

/// How often the tails are read before a cut is given up, because other processes append.
const ATTEMPTS: usize = 10;

/// How far the appends of this process have reached in a partition.
#[derive(Debug, Clone, Copy)]
struct Reached {
    /// The epoch of the owner that appended.
    epoch: Epoch,
    /// The offset after the append that was submitted last.
    submitted: PartitionOffset,
    /// The offset after the highest append that was answered as durable.
    committed: PartitionOffset,
}

/// What was appended through a log, by partition. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Submissions(Arc<Mutex<HashMap<Partition, Reached>>>);

impl Submissions {
    /// Records an append up to `next`. It must be recorded before it is submitted.
    pub(super) fn submitted(&self, partition: Partition, epoch: Epoch, next: PartitionOffset) {
        let mut all = self.0.lock();
        let new = Reached { epoch, submitted: next, committed: PartitionOffset::FIRST };
        let reached = all.entry(partition).or_insert(new);
        if reached.epoch < epoch {
            *reached = new;
        }
        if reached.epoch == epoch {
            // An append that was refused is followed by another one at the same offset. So the last one counts.
            reached.submitted = next;
        }
    }

    /// Records that an append up to `next` is durable.
    pub(super) fn committed(&self, partition: Partition, epoch: Epoch, next: PartitionOffset) {
        if let Some(reached) = self.0.lock().get_mut(&partition)
            && reached.epoch == epoch
        {
            reached.committed = reached.committed.max(next);
        }
    }

    /// Everything that has been submitted, at one moment.
    fn at_this_moment(&self) -> HashMap<Partition, Reached> {
        self.0.lock().clone()
    }
}

impl Log {
    /// Every partition that was ever taken, with the offset before which a copy has its entries. If the copy has an entry, it
    /// has everything that was acknowledged, in any partition, before that entry was appended through this log. It has everything
    /// that was acknowledged before the call. Appends continue meanwhile.
    ///
    /// # Errors
    ///
    /// [`LogError`]. [`LogError::Unavailable`] also if other processes append to the log all the time.
    pub async fn cut(&self) -> Result<BTreeMap<Partition, Held>, LogError> {
        let mut moving = None;
        let mut before = self.all_held().await?;
        for _ in 0..ATTEMPTS {
            let reached = self.submissions.at_this_moment();
            let after = self.all_held().await?;
            match cut(&before, &reached, &after) {
                Ok(cut) => return Ok(cut),
                Err(partition) => moving = Some(partition),
            }
            before = after;
        }
        let partition = moving.map(|partition| format!(" {partition}")).unwrap_or_default();
        Err(LogError::Unavailable(format!(
            "another process appends to partition{partition} at the same time: a copy needs that process to stop, or has to be made by it"
        )))
    }

    /// How each partition is held.
    async fn all_held(&self) -> Result<BTreeMap<Partition, Held>, LogError> {
        let held = async |partition: Partition| {
            let held = self.holder(partition).await?;
            Ok::<_, LogError>(held.map(|held| (partition, held)))
        };
        let all = try_join_all(self.partitions().await?.into_iter().map(held)).await?;
        Ok(all.into_iter().flatten().collect())
    }
}

/// The cut, or a partition that another process has appended to.
fn cut(
    before: &BTreeMap<Partition, Held>,
    reached: &HashMap<Partition, Reached>,
    after: &BTreeMap<Partition, Held>,
) -> Result<BTreeMap<Partition, Held>, Partition> {
    let mut cut = BTreeMap::new();
    for (partition, held) in after {
        let same = |held: &&Held| held.epoch == after[partition].epoch;
        let earlier = before.get(partition);
        let own = reached.get(partition).filter(|reached| reached.epoch == held.epoch);
        let tail = match own.filter(|_| earlier.filter(same).is_some()) {
            Some(reached) => held.tail.min(reached.submitted.max(reached.committed)),
            None if earlier.map_or(PartitionOffset::FIRST, |earlier| earlier.tail) == held.tail => held.tail,
            None => return Err(*partition),
        };
        cut.insert(*partition, Held { tail, ..held.clone() });
    }
    Ok(cut)
}
