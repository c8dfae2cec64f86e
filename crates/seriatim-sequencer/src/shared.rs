//! What a sequencer shares with its recovery and with those who read its status.

use std::sync::atomic::{AtomicU8, Ordering};

use seriatim_types::PartitionOffset;
use seriatim_types::sync::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::core::Generation;
use crate::{Status, StopReason};

const NONE: u8 = 0;
const RECOVERING: u8 = 1;
const READY: u8 = 2;
const IN_TRANSACTION: u8 = 3;
const STOPPED: u8 = 4;
const FINISHED: u8 = 5;

/// The status, and what recovery hands over. The phase is an atomic of its own, because it changes with every group.
#[derive(Debug)]
pub(crate) struct Shared {
    phase: AtomicU8,
    inner: Mutex<Inner>,
    /// Told when a recovery has ended, and when the sequencer has.
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct Inner {
    generation: Generation,
    /// Of the recovery under way.
    from: PartitionOffset,
    at: PartitionOffset,
    tail: PartitionOffset,
    /// Where the log ends, as an ended recovery has found, until the owner takes it.
    recovered: Option<PartitionOffset>,
    stopped: Option<StopReason>,
    /// Whether a sealed group of this generation was dropped without an outcome.
    abandoned: bool,
}

impl Shared {
    pub(crate) fn new(generation: Generation) -> Self {
        Self {
            phase: AtomicU8::new(NONE),
            inner: Mutex::new(Inner {
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

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Changes the phase unless the sequencer has finished, which is for good.
    fn set_phase(&self, phase: u8) {
        let unless_finished = |now| (now != FINISHED).then_some(phase);
        // An error says that it has finished.
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

    /// Wakes whoever waits.
    pub(crate) fn notify(&self) {
        self.changes.send_replace(());
    }

    /// A new recovery begins; whatever an earlier one still does is ignored from here on.
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

    /// What the recovery of this generation has found, once.
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

    // Only the owner enters and leaves, and only between recoveries: a plain store cannot overwrite anything else.
    #[inline]
    pub(crate) fn enter_transaction(&self) {
        self.phase.store(IN_TRANSACTION, Ordering::Release);
    }

    #[inline]
    pub(crate) fn leave_transaction(&self) {
        self.phase.store(READY, Ordering::Release);
    }

    /// A sealed group went away without an outcome.
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
