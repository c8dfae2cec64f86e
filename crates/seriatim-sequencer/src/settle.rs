//! Determining from the log whether a group in doubt is committed.

use std::sync::Arc;

use seriatim_storage::{Log, LogError, Owner, ReadLimit, Take, TakeOverError};

use crate::derived::Derived;
use crate::{Mismatch, Sealed, Sequencer, SettleError, SettleProblem, StopReason};

/// The outcome of a group that was in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Its entries are in the log: it is committed.
    Committed,
    /// Its entries are not in the log and will never be: none of its numbers was used.
    Discarded,
}

impl<D: Derived> Sequencer<D> {
    /// Determines the outcome of a group: takes the partition over with the epoch that it holds, so that a late append is
    /// refused, and reads the log at the group's offset.
    ///
    /// If another owner has taken the partition over, that has settled the append, and the log is only read. The outcome is
    /// determined as before; the sequencer has stopped then with [`StopReason::Deposed`](crate::StopReason::Deposed).
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
        match self.take_over(log).await {
            Ok(owner) => self.owner = Arc::new(owner),
            Err(TakeOverError::Deposed { held, .. }) => self.depose(held),
            Err(TakeOverError::Log(error)) => return Err(error),
            Err(error @ TakeOverError::Rewound { .. }) => return Err(LogError::Corrupt(error.to_string())),
        }
        let found = log.read(sealed.partition(), sealed.at(), ReadLimit::entries(1)).await?;
        let ours = |append| append == sealed.entries().append_id();
        let is_ours = found.iter().next().is_some_and(|(_, entry)| ours(entry.append_id()));
        Ok(if is_ours { Settled::Committed } else { Settled::Discarded })
    }

    /// Takes the partition over with the epoch that this sequencer holds. After an error of the log the take-over may have
    /// succeeded: the next call repeats it with the same take, and recognizes that.
    ///
    /// # Errors
    ///
    /// [`TakeOverError`].
    pub async fn take_over(&mut self, log: &Log) -> Result<Owner, TakeOverError> {
        let new = || Take::new(self.owner.holder().clone(), self.env.random());
        let take = self.taking.get_or_insert_with(new).clone();
        let taken = log.take_over(self.owner.partition(), Some(self.owner.epoch()), &take).await;
        if !matches!(taken, Err(TakeOverError::Log(_))) {
            self.taking = None;
        }
        taken
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
        if let Some(held) = self.deposed.clone() {
            self.shared.stop(StopReason::Deposed(held));
        } else if self.owner.tail() != expected {
            self.restart_recovery();
        }
    }
}
