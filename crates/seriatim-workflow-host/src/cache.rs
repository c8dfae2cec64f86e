//! Runs that are kept in memory between their activations.

use std::collections::{BTreeMap, HashMap};

use seriatim_types::WorkspaceId;

/// What is kept of a run whose code is in memory, besides its payloads.
const INSTANCE_BYTES: usize = 4 << 10;
/// The largest share of the bytes that one run may be counted with: a long run is kept as well.
const SHARE: usize = 16;

/// The instances that were used last, up to a number of them and up to a number of bytes.
pub(crate) struct Instances<I> {
    limit: usize,
    bytes_max: usize,
    bytes: usize,
    next: u64,
    by_workspace: HashMap<WorkspaceId, Kept<I>>,
    by_use: BTreeMap<u64, WorkspaceId>,
}

struct Kept<I> {
    used: u64,
    run: u64,
    bytes: usize,
    instance: I,
}

impl<I> Instances<I> {
    pub(crate) fn new(limit: usize, bytes_max: usize) -> Self {
        let (by_workspace, by_use) = (HashMap::new(), BTreeMap::new());
        Self { limit, bytes_max, bytes: 0, next: 0, by_workspace, by_use }
    }

    /// Takes a run out.
    pub(crate) fn take(&mut self, workspace: WorkspaceId, run: u64) -> Option<I> {
        let kept = self.remove(workspace)?;
        (kept.run == run).then_some(kept.instance)
    }

    /// Takes out the runs of a partition.
    #[must_use]
    pub(crate) fn take_partition(&mut self, is_of: impl Fn(WorkspaceId) -> bool) -> Vec<I> {
        let of_partition: Vec<WorkspaceId> =
            self.by_workspace.keys().copied().filter(|of| is_of(*of)).collect();
        of_partition.into_iter().filter_map(|workspace| Some(self.remove(workspace)?.instance)).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_workspace.len()
    }

    fn remove(&mut self, workspace: WorkspaceId) -> Option<Kept<I>> {
        let kept = self.by_workspace.remove(&workspace)?;
        self.by_use.remove(&kept.used);
        self.bytes -= kept.bytes;
        Some(kept)
    }

    /// Puts a run in, whose payloads have so many bytes. Those that were used longest ago are returned to be dropped, if
    /// there are too many.
    #[must_use]
    pub(crate) fn put(&mut self, workspace: WorkspaceId, run: u64, instance: I, payloads: usize) -> Vec<I> {
        let mut dropped: Vec<I> = self.remove(workspace).map(|kept| kept.instance).into_iter().collect();
        let bytes = INSTANCE_BYTES + payloads.min(self.bytes_max / SHARE);
        self.next += 1;
        self.by_workspace.insert(workspace, Kept { used: self.next, run, bytes, instance });
        self.by_use.insert(self.next, workspace);
        self.bytes += bytes;
        while (self.by_workspace.len() > self.limit || self.bytes > self.bytes_max)
            && let Some((_, oldest)) = self.by_use.first_key_value()
        {
            let oldest = *oldest;
            dropped.extend(self.remove(oldest).map(|kept| kept.instance));
        }
        dropped
    }

    /// The bytes that it is counted with.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_by_number_and_by_bytes() {
        let workspace = |number: u64| WorkspaceId::new(140_737_488_486_400 + number);
        let mut instances = Instances::new(3, 1 << 20);
        for number in 0..3 {
            assert!(instances.put(workspace(number), 1, number, 0).is_empty());
        }
        assert_eq!(instances.put(workspace(3), 1, 3, 0), [0], "the one that was used longest ago");
        assert_eq!(instances.take(workspace(0), 1), None);
        assert_eq!(instances.take(workspace(1), 2), None, "of another run");

        let mut instances = Instances::new(1_000, 1 << 20);
        let mut dropped = 0;
        for number in 0..100 {
            dropped += instances.put(workspace(number), 1, number, 10 << 20).len();
            assert!(instances.bytes() <= 1 << 20);
        }
        assert!(dropped > 80, "{dropped}");
        assert_eq!(instances.take(workspace(99), 1), Some(99), "one that is larger than its share is kept");
    }
}
