//! The status of a sequencer, shared with its recovery and with the tasks that read it.

use std::sync::atomic::{AtomicU8, Ordering};

use seriatim_env::watch;
use seriatim_types::PartitionOffset;
use seriatim_types::sync::{Mutex, MutexGuard};

use crate::core::Generation;
use crate::{Status, StopReason};

const NONE: u8 = 0;
const RECOVERING: u8 = 1;
const READY: u8 = 2;
const IN_TRANSACTION: u8 = 3;
const STOPPED: u8 = 4;
const FINISHED: u8 = 5;

/// The status, and the result of a recovery. The phase is a separate atomic, because it changes with every group.
#[derive(Debug)]
pub(crate) struct SharedStatus {
    phase: AtomicU8,
    inner: Mutex<RecoveryState>,
    /// Notified when a recovery has ended, and when the sequencer is dropped.
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct RecoveryState {
    generation: Generation,
    /// The progress of the recovery.
    from: PartitionOffset,
    at: PartitionOffset,
    tail: PartitionOffset,
    /// The end of the log, as a recovery has reported it, until the sequencer takes it.
    recovered: Option<PartitionOffset>,
    stopped: Option<StopReason>,
    /// Whether a sealed group of this generation was dropped without an outcome.
    abandoned: bool,
}

impl SharedStatus {
    pub(crate) fn new(generation: Generation) -> Self {
        Self {
            phase: AtomicU8::new(NONE),
            inner: Mutex::new(RecoveryState {
                generation,
                from: PartitionOffset::FIRST,
                at: PartitionOffset::FIRST,
                tail: PartitionOffset::FIRST,
                recovered: None,
                stopped: None,
                abandoned: false,
            }),
            changes: watch::Sender::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecoveryState> {
        self.inner.lock()
    }

    /// Sets the phase, unless the sequencer is finished, which is the last phase.
    fn set_phase(&self, phase: u8) {
        let unless_finished = |now| (now != FINISHED).then_some(phase);
        // An error means that the sequencer is finished.
        let _ = self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, unless_finished);
    }

    pub(crate) fn status(&self) -> Status {
        match self.phase.load(Ordering::Acquire) {
            FINISHED => Status::Finished,
            NONE => Status::None,
            RECOVERING => {
                let inner = self.lock();
                Status::Recovering { from: inner.from, at: inner.at, tail: inner.tail }
            }
            READY => Status::Ready,
            IN_TRANSACTION => Status::InTransaction,
            STOPPED => match &self.lock().stopped {
                Some(reason) => Status::Stopped(reason.clone()),
                None => Status::Finished,
            },
            _ => Status::Finished,
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Wakes the tasks that wait.
    pub(crate) fn notify(&self) {
        self.changes.send_replace(());
    }

    /// Begins a new recovery. Reports of an earlier one are ignored from now on.
    pub(crate) fn begin_recovery(&self, generation: Generation, tail: PartitionOffset) {
        let mut inner = self.lock();
        inner.generation = generation;
        (inner.from, inner.at, inner.tail) = (PartitionOffset::FIRST, PartitionOffset::FIRST, tail);
        inner.recovered = None;
        inner.stopped = None;
        inner.abandoned = false;
        self.set_phase(RECOVERING);
    }

    pub(crate) fn progress(&self, generation: Generation, from: PartitionOffset, at: PartitionOffset) {
        let mut inner = self.lock();
        if inner.generation == generation {
            (inner.from, inner.at) = (from, at);
        }
    }

    pub(crate) fn end_recovery(&self, generation: Generation, result: Result<PartitionOffset, StopReason>) {
        let mut inner = self.lock();
        if inner.generation != generation {
            return;
        }
        match result {
            Ok(next) => {
                inner.recovered = Some(next);
                self.set_phase(READY);
            }
            Err(reason) => {
                inner.stopped = Some(reason);
                self.set_phase(STOPPED);
            }
        }
        drop(inner);
        self.notify();
    }

    /// The result of the recovery of this generation. It is returned once.
    pub(crate) fn take_recovered(&self, generation: Generation) -> Option<PartitionOffset> {
        let mut inner = self.lock();
        if inner.generation != generation {
            return None;
        }
        inner.recovered.take()
    }

    pub(crate) fn stopped(&self) -> Option<StopReason> {
        self.lock().stopped.clone()
    }

    // Only the sequencer enters and leaves, and only between recoveries, so a plain store cannot overwrite another phase.
    #[inline]
    pub(crate) fn enter_transaction(&self) {
        self.phase.store(IN_TRANSACTION, Ordering::Release);
    }

    #[inline]
    pub(crate) fn leave_transaction(&self) {
        self.phase.store(READY, Ordering::Release);
    }

    /// Stops, for a reason that no recovery can remove.
    pub(crate) fn stop(&self, reason: StopReason) {
        let mut inner = self.lock();
        inner.stopped = Some(reason);
        self.set_phase(STOPPED);
        drop(inner);
        self.notify();
    }

    /// Records that a sealed group was dropped without an outcome.
    pub(crate) fn abandon(&self, generation: Generation) {
        let mut inner = self.lock();
        if inner.generation == generation {
            inner.abandoned = true;
        }
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    pub(crate) fn finish(&self) {
        self.phase.store(FINISHED, Ordering::Release);
        self.notify();
    }
}
