//! Determining from the log whether a group in doubt is committed.

use std::sync::Arc;

use seriatim_storage::{Log, LogError, ReadLimit};

use crate::derived::Derived;
use crate::{Mismatch, Sealed, Sequencer, SettleError, SettleProblem};

/// The outcome of a group that was in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Its entries are in the log: it is committed.
    Committed,
    /// Its entries are not in the log and will never be: none of its numbers was used.
    Discarded,
}

impl<D: Derived> Sequencer<D> {
    /// Determines the outcome of a group: takes the partition again, so that a late append is refused, and reads the log at
    /// the group's offset. If another owner has appended meanwhile, recovery starts as well.
    ///
    /// # Errors
    ///
    /// [`SettleError`] returns the group, which is still in doubt: settle it again. If the future is dropped, the group is
    /// lost; then use [`Sequencer::recover`].
    pub async fn settle(
        &mut self,
        sealed: Sealed<D::Values>,
        log: &Log,
    ) -> Result<Settled, SettleError<D::Values>> {
        if let Err(problem) = self.check_settle(&sealed, log) {
            let error = SettleProblem::Mismatch(problem);
            return Err(SettleError { sealed, error });
        }
        match self.read_outcome(&sealed, log).await {
            Ok(settled) => {
                self.apply_outcome(sealed, settled);
                Ok(settled)
            }
            Err(error) => {
                let error = SettleProblem::Log(error);
                Err(SettleError { sealed, error })
            }
        }
    }

    fn check_settle(&self, sealed: &Sealed<D::Values>, log: &Log) -> Result<(), Mismatch> {
        self.check_group(sealed)?;
        if log.id() == sealed.owner().log() { Ok(()) } else { Err(Mismatch::Log) }
    }

    async fn read_outcome(&mut self, sealed: &Sealed<D::Values>, log: &Log) -> Result<Settled, LogError> {
        let owner = log.take(sealed.partition()).await?;
        self.owner = Arc::new(owner);
        let found = log.read(sealed.partition(), sealed.at(), ReadLimit::entries(1)).await?;
        let ours = |append| append == sealed.entries().append_id();
        let is_ours = found.iter().next().is_some_and(|(_, entry)| ours(entry.append_id()));
        Ok(if is_ours { Settled::Committed } else { Settled::Discarded })
    }

    fn apply_outcome(&mut self, sealed: Sealed<D::Values>, settled: Settled) {
        let expected = match settled {
            Settled::Committed => sealed.next(),
            Settled::Discarded => sealed.at(),
        };
        match settled {
            Settled::Committed => self.publish(sealed),
            Settled::Discarded => self.discard(sealed),
        }
        if self.owner.tail() != expected {
            self.restart_recovery();
        }
    }
}
