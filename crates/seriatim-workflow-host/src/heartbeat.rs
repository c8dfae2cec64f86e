//! The heartbeats of attempts that run.

use std::sync::Arc;

use seriatim_env::Instant;
use seriatim_types::WorkspaceId;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_workflow::Payload;

use crate::entry::Attempted;
use crate::homes::Home;
use crate::inner::Inner;
use crate::size;
use crate::workflow::Item;

/// The details of so many heartbeats fit into one event.
const ATTEMPTS_SHARE: usize = 64;

/// The last heartbeat of an attempt.
struct Beat {
    at: Instant,
    details: Vec<Payload>,
    /// What was written last.
    kept: Vec<Payload>,
}

/// An attempt that runs, as the host sees it: its last heartbeat can be written at any time.
pub(crate) struct RunningAttempt {
    pub(crate) home: Arc<Home>,
    pub(crate) workspace: WorkspaceId,
    pub(crate) run: u64,
    pub(crate) activity: u32,
    pub(crate) attempt: u32,
    pub(crate) is_local: bool,
    pub(crate) beat: LastBeat,
}

/// The details of an attempt's last heartbeat, and when it was.
pub(crate) struct LastBeat(Mutex<Beat>);

impl LastBeat {
    /// An attempt begins, with the details of the one before it.
    pub(crate) fn new(at: Instant, details: &[Payload]) -> Self {
        Self(Mutex::new(Beat { at, details: details.to_vec(), kept: details.to_vec() }))
    }

    fn lock(&self) -> MutexGuard<'_, Beat> {
        self.0.lock()
    }

    pub(crate) fn beat(&self, at: Instant, details: Vec<Payload>) {
        let mut beat = self.lock();
        (beat.at, beat.details) = (at, details);
    }

    pub(crate) fn at(&self) -> Instant {
        self.lock().at
    }

    pub(crate) fn details(&self) -> Vec<Payload> {
        self.lock().details.clone()
    }

    /// What is to be written, if it is not what was written last.
    fn take_new(&self) -> Option<Vec<Payload>> {
        let mut beat = self.lock();
        if beat.details == beat.kept {
            return None;
        }
        beat.kept = beat.details.clone();
        Some(beat.kept.clone())
    }
}

impl RunningAttempt {
    /// Writes the details of the last heartbeat, if they differ from what was written last.
    pub(crate) fn keep(&self, inner: &Arc<Inner>) {
        if self.is_local {
            return;
        }
        let Some(details) = self.beat.take_new() else { return };
        if size::size_of(&details) <= inner.options.answer_bytes_max / ATTEMPTS_SHARE {
            let (activity, attempt) = (self.activity, self.attempt);
            let attempted = Attempted { activity, attempt, details: Some(details) };
            let item = Item::Attempted { run: self.run, attempted, reply: None };
            inner.push_at(&self.home, self.workspace, item);
        }
    }
}
