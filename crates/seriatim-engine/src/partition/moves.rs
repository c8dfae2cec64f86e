//! How a partition moves between engines.

use std::sync::Arc;

use seriatim_storage::{Holder, Owner, Take, TakeOverError};
use seriatim_types::{Epoch, ErrorKind, PartitionOffset};
use tokio::sync::MutexGuard;

use super::owned::Owned;
use super::standby::Standby;
use super::{PartitionHandle, Place};
use crate::derive::lock;
use crate::error::{SubmitError, not_here};

impl PartitionHandle {
    /// Makes this engine the owner: follows the log up to its end if it does not yet, takes the partition over, applies the rest,
    /// and returns when commands are accepted. Does nothing if the partition is owned already.
    ///
    /// With an epoch, the take-over succeeds only if the partition still has it (`None`: it was never taken). Otherwise the epoch is
    /// read from the log.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotHere`] if another engine has taken it over meanwhile; this one remains a standby then. Any other error:
    /// the partition may have been taken over, or not; call it again.
    pub(crate) async fn own(&self, expected: Option<Option<Epoch>>) -> Result<(), SubmitError> {
        let turn = self.turn().await?;
        if !self.unless_closing(self.is_owned_in_log()).await? {
            let standby = self.stand_by_now().await?;
            let taking = async {
                standby.catch_up(false).await?;
                self.take_over(expected).await
            };
            let owner = self.unless_closing(taking).await?;
            self.promote(&standby, owner).await;
        }
        drop(turn);
        self.unless_closing(self.wait_ready()).await?;
        // Another move may have followed.
        if self.is_owned() { Ok(()) } else { Err(self.not_here()) }
    }

    /// Waits for the move before.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Closed`]: nothing moves after a close.
    async fn turn(&self) -> Result<MutexGuard<'_, ()>, SubmitError> {
        let turn = self.moving.lock().await;
        if self.closing.is_cancelled() { Err(SubmitError::Closed) } else { Ok(turn) }
    }

    /// Waits for something that depends on the log. A close ends the wait.
    async fn unless_closing<T>(
        &self,
        waiting: impl Future<Output = Result<T, SubmitError>>,
    ) -> Result<T, SubmitError> {
        self.closing.run_until_cancelled(waiting).await.unwrap_or(Err(SubmitError::Closed))
    }

    /// Whether this engine owns the partition, and the log says the same. An owner that has nothing to append does not notice that
    /// another one has taken over.
    async fn is_owned_in_log(&self) -> Result<bool, SubmitError> {
        Ok(self.is_owned() && self.is_holder().await?)
    }

    /// Owns a standby that was taken over: its task applies the rest of the log, from where the standby is.
    async fn promote(&self, standby: &Standby, owner: Owner) {
        standby.end_for_promotion().await;
        standby.shared.forget_deposition();
        standby.shared.stay_warm();
        let owned = self.start_owned(standby.shared.clone(), owner);
        self.set_place(Place::Owned(owned));
    }

    /// Takes the partition over. Repeats the call while the log does not answer, for at most `close_timeout`.
    async fn take_over(&self, expected: Option<Option<Epoch>>) -> Result<Owner, SubmitError> {
        let (log, env, options) = (&self.parts.log, &self.parts.env, &self.parts.options);
        let expected = match expected {
            Some(expected) => expected,
            None => log.holder(self.partition).await?.map(|held| held.epoch),
        };
        let take = Take::new(self.parts.holder.clone(), env.random());
        let deadline = env.instant() + options.close_timeout;
        loop {
            // The same take again: if an earlier call succeeded and its answer was lost, this one succeeds.
            match log.take_over(self.partition, expected, &take).await {
                Ok(owner) => return Ok(owner),
                Err(TakeOverError::Deposed { held, .. }) => {
                    return Err(not_here(self.partition, Some(held.take.holder)));
                }
                Err(TakeOverError::Log(error))
                    if error.kind() == ErrorKind::Unavailable && env.instant() < deadline =>
                {
                    tracing::warn!(partition = %self.partition, %error, "the log does not answer: the take-over is repeated");
                    env.sleep(env.jitter(options.retry)).await;
                }
                Err(TakeOverError::Log(error)) => return Err(error.into()),
                Err(error @ TakeOverError::Rewound { .. }) => {
                    let partition = self.partition.to_string();
                    return Err(SubmitError::Stopped { partition, reason: error.to_string() });
                }
            }
        }
    }

    /// Gives the partition up: queued commands are executed, its asynchronous projectors end, and it becomes a standby. Does nothing
    /// if the partition is not owned.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotIdle`] if storage did not answer. The partition has stopped then, and [`Self::stand_by`] or [`Self::own`]
    /// begin again at its checkpoint. Commands that were queued are in doubt.
    pub(crate) async fn release(&self) -> Result<(), SubmitError> {
        let _turn = self.turn().await?;
        self.release_now().await
    }

    async fn release_now(&self) -> Result<(), SubmitError> {
        match self.place() {
            Place::Owned(owned) => self.demote(&owned).await.map(drop),
            Place::Standby(_) | Place::Elsewhere(_) => Ok(()),
        }
    }

    /// Makes a standby of an owned partition. One that has stopped begins again, at its checkpoint.
    async fn demote(&self, owned: &Owned) -> Result<Arc<Standby>, SubmitError> {
        if owned.shared.derived.halted().is_some() {
            owned.close().await;
            return self.follow_anew().await;
        }
        // First, so that new commands are refused at once. It begins to follow when the last group is concluded.
        let standby = Standby::new(owned.shared.clone());
        self.set_place(Place::Standby(standby.clone()));
        if !owned.release().await {
            // Nothing of it may be written to the store later, beside what a new standby writes.
            standby.abandon("storage did not answer when the partition was released");
            return Err(self.not_idle());
        }
        standby.shared.forget_deposition();
        standby.follow();
        Ok(standby)
    }

    fn not_idle(&self) -> SubmitError {
        let (partition, within) = (self.partition.to_string(), self.parts.options.close_timeout);
        SubmitError::NotIdle { partition, within }
    }

    /// A standby that begins at the checkpoint. What was derived before has ended, except for a write to the store: that would land
    /// on newer values, so it has to return first.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotIdle`] if it does not.
    async fn follow_anew(&self) -> Result<Arc<Standby>, SubmitError> {
        let before = self.derived.lock().upgrade();
        if let Some(before) = before {
            let within = self.parts.options.close_timeout;
            let written = self.parts.env.timeout(within, before.until_written()).await;
            written.map_err(|_| self.not_idle())?;
        }
        let standby = Standby::new(self.run());
        standby.follow();
        self.set_place(Place::Standby(standby.clone()));
        Ok(standby)
    }

    async fn stand_by_now(&self) -> Result<Arc<Standby>, SubmitError> {
        match self.place() {
            Place::Standby(standby) if standby.shared.derived.halted().is_none() => Ok(standby),
            Place::Standby(standby) => {
                standby.close(false).await;
                self.follow_anew().await
            }
            Place::Owned(owned) => self.demote(&owned).await,
            Place::Elsewhere(_) => self.follow_anew().await,
        }
    }

    /// Follows the partition's log, and returns at once. An owned partition is released first.
    ///
    /// # Errors
    ///
    /// As [`Self::release`].
    pub(crate) async fn stand_by(&self) -> Result<(), SubmitError> {
        let _turn = self.turn().await?;
        self.stand_by_now().await.map(drop)
    }

    /// Becomes a standby if this engine counts as the owner and the log says that another one is. An owner with nothing to append does
    /// not notice that by itself.
    ///
    /// # Errors
    ///
    /// The error of the log, and those of [`Self::release`].
    pub(crate) async fn follow_if_deposed(&self) -> Result<(), SubmitError> {
        let is_owned = matches!(self.place(), Place::Owned(_));
        if is_owned && !self.is_holder().await? { self.stand_by().await } else { Ok(()) }
    }

    /// Waits until everything is applied that is in the log now, for at most `begin_wait`.
    ///
    /// # Errors
    ///
    /// As for a read.
    pub(crate) async fn catch_up(&self) -> Result<(), SubmitError> {
        self.read(&[]).await.map(drop)
    }

    /// Waits until a standby, or the owner, has applied everything before an offset.
    pub(crate) async fn applied(&self, offset: PartitionOffset) -> Result<(), SubmitError> {
        match self.place() {
            Place::Standby(standby) => {
                self.parts.log.hint_tail(self.partition, offset);
                standby.reach(offset).await.map(drop)
            }
            Place::Owned(owned) => {
                self.wait_ready().await?;
                if lock(&owned.shared.derived.overlay).next() >= offset {
                    return Ok(());
                }
                // The owner has applied everything that it has written. So another one has taken over.
                let held = self.parts.log.holder(self.partition).await?;
                Err(not_here(self.partition, held.map(|held| held.take.holder)))
            }
            Place::Elsewhere(_) => Err(self.not_here()),
        }
    }

    /// As [`Self::applied`], for at most `close_timeout`. For an event that is in the log.
    ///
    /// # Errors
    ///
    /// [`SubmitError::InDoubt`] when that time is over, and after every other error: the event is in the log, and what follows from
    /// it is not here yet.
    pub(crate) async fn applied_within(&self, offset: PartitionOffset) -> Result<(), SubmitError> {
        let not_yet = |why: &str| {
            SubmitError::InDoubt(format!("it is in the log, and this engine has not applied it: {why}"))
        };
        let within = self.parts.options.close_timeout;
        match self.parts.env.timeout(within, self.applied(offset)).await {
            Ok(applied) => applied.map_err(|error| not_yet(&error.to_string())),
            Err(_) => Err(not_yet("its standby is late")),
        }
    }

    /// Ends everything of the partition here. `holder` is who owns it, if that is known. An owned partition is released first.
    /// What it has derived remains in the store.
    ///
    /// # Errors
    ///
    /// As [`Self::release`].
    pub(crate) async fn leave(&self, holder: Option<Holder>) -> Result<(), SubmitError> {
        let _turn = self.turn().await?;
        self.release_now().await?;
        if let Place::Standby(standby) = self.place() {
            self.set_place(Place::Elsewhere(holder));
            standby.close(true).await;
        } else {
            self.set_place(Place::Elsewhere(holder));
        }
        Ok(())
    }
}
