//! The partitions whose runs a host drives.
//!
//! ```text
//! engine   owned ──────────────► standby or elsewhere ──────────► owned again
//! host     home: its runs are     nothing: no run, no alarm,      another home: its runs are
//!          read and driven        no attempt, no message          read from the log
//! ```
//!
//! Whatever a host does for a run belongs to the home that the run's partition had when it began, and ends with it. So nothing that
//! was begun before a partition left counts after it has returned: another engine may have written to it meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_engine::SubmitError;
use seriatim_env::Shutdown;
use seriatim_storage::Holder;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_types::{Partition, PartitionId};

use crate::application::APPLICATION;
use crate::error::HostError;

/// A partition that the engine owns, from its arrival until it leaves.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) partition: PartitionId,
    /// Which of the engine's ownerships it is.
    tenure: u64,
    /// Ends everything that is done for runs of the partition: it has left, or the host stops.
    pub(crate) stop: Shutdown,
    has_left: AtomicBool,
    /// Who holds the partition, if it has left and that is known.
    holder: Mutex<Option<Holder>>,
}

impl Home {
    pub(crate) fn new(partition: PartitionId, tenure: u64, stop: Shutdown) -> Self {
        Self { partition, tenure, stop, has_left: AtomicBool::new(false), holder: Mutex::default() }
    }

    /// Whether nothing more is done for its runs.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Whether the partition has left.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    fn leave(&self, holder: Option<Holder>) {
        *self.holder.lock() = holder;
        self.has_left.store(true, Ordering::Release);
        self.stop.cancel();
    }

    /// Why nothing was done with a request.
    pub(crate) fn refusal(&self) -> HostError {
        if self.has_left() { not_here(self.partition, self.holder.lock().clone()) } else { HostError::Closed }
    }

    /// Why a request that was begun has no answer.
    pub(crate) fn no_answer(&self) -> HostError {
        if !self.has_left() {
            return HostError::Closed;
        }
        let refusal = self.refusal();
        SubmitError::InDoubt(format!("the partition left while the request was carried out: {refusal}"))
            .into()
    }
}

/// The error of a request to a workflow of a partition that is not here.
pub(crate) fn not_here(partition: PartitionId, holder: Option<Holder>) -> HostError {
    let partition = Partition { application: APPLICATION, id: partition }.to_string();
    HostError::NotHere { partition, holder }
}

#[derive(Debug, Default)]
struct Entries {
    present: BTreeMap<PartitionId, Arc<Home>>,
    /// The newest tenure of each partition that had a home. It has none again: the engine may learn later than the host that
    /// another one has taken over.
    newest: BTreeMap<PartitionId, u64>,
}

/// The homes of a host, one for each partition that its engine owns.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    entries: Mutex<Entries>,
}

impl Homes {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().present.len()
    }

    /// The home of a partition, if the engine's present ownership of it has one. `let_go` is called for one that has left, and then
    /// `arrive` for one that is new. Both are called under the lock, so that no one gets the new home before the old one is let go.
    pub(crate) fn of(
        &self,
        partition: PartitionId,
        tenure: Option<u64>,
        stop: &Shutdown,
        let_go: impl FnOnce(&Arc<Home>),
        arrive: impl FnOnce(&Arc<Home>),
    ) -> Option<Arc<Home>> {
        let mut entries = self.lock();
        if let Some(present) = entries.present.get(&partition) {
            if Some(present.tenure) == tenure {
                return Some(present.clone());
            }
            let left = present.clone();
            entries.present.remove(&partition);
            left.leave(None);
            let_go(&left);
        }
        let tenure = tenure?;
        if entries.newest.get(&partition).is_some_and(|newest| *newest >= tenure) {
            return None;
        }
        entries.newest.insert(partition, tenure);
        let home = Arc::new(Home::new(partition, tenure, stop.child_token()));
        entries.present.insert(partition, home.clone());
        arrive(&home);
        Some(home)
    }

    /// The engine has refused a write of this home: it is let go, unless it was before.
    pub(crate) fn lose(&self, home: &Arc<Home>, holder: Option<Holder>, let_go: impl FnOnce(&Arc<Home>)) {
        let mut entries = self.lock();
        let is_present =
            entries.present.get(&home.partition).is_some_and(|present| Arc::ptr_eq(present, home));
        if is_present {
            entries.present.remove(&home.partition);
            home.leave(holder);
            let_go(home);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const P: PartitionId = PartitionId::new(3);

    #[test]
    fn a_home_lasts_as_long_as_the_tenure_of_its_engine() {
        let (homes, stop) = (Homes::default(), Shutdown::new());
        let (left, arrived) = (Cell::new(0), Cell::new(0));
        let of = |tenure| {
            let count = |cell: &Cell<u32>| cell.set(cell.get() + 1);
            homes.of(P, tenure, &stop, |_| count(&left), |_| count(&arrived))
        };
        assert!(of(None).is_none());
        let first = of(Some(1)).unwrap();
        assert!(Arc::ptr_eq(&first, &of(Some(1)).unwrap()));
        assert_eq!((left.get(), arrived.get()), (0, 1));
        // It left and came back, and no one looked meanwhile.
        let second = of(Some(2)).unwrap();
        assert_eq!((left.get(), arrived.get(), first.has_left(), second.has_left()), (1, 2, true, false));
        assert!(of(None).is_none() && second.is_over());
        assert_eq!((left.get(), arrived.get(), homes.count()), (2, 2, 0));
        assert!(!stop.is_cancelled());
    }

    #[test]
    fn a_home_that_was_lost_does_not_come_back_before_the_next_tenure() {
        let (homes, stop) = (Homes::default(), Shutdown::new());
        let of = |tenure| homes.of(P, tenure, &stop, |_| {}, |_| {});
        let home = of(Some(1)).unwrap();
        let left = Cell::new(0);
        for _ in 0..2 {
            homes.lose(&home, Some(Holder::new("b")), |_| left.set(left.get() + 1));
        }
        assert_eq!(left.get(), 1);
        assert!(home.refusal().to_string().contains("held by b"), "{}", home.refusal());
        assert!(of(Some(1)).is_none(), "the engine does not know yet that it was deposed");
        assert!(of(Some(2)).is_some());
    }
}
