//! Tasks that run, counted, so that closing can wait for them.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use seriatim_types::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The values of running tasks, by a number.
#[derive(Debug)]
pub(crate) struct Running<T> {
    entries: Mutex<Entries<T>>,
    /// Notified when one ends.
    ended: Notify,
}

#[derive(Debug)]
struct Entries<T> {
    next: u64,
    running: HashMap<u64, T>,
}

impl<T: Clone> Running<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Mutex::new(Entries { next: 0, running: HashMap::new() }), ended: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock()
    }

    /// It runs until what is returned is dropped.
    pub(crate) fn begin(self: &Arc<Self>, value: T) -> Guard<T> {
        let mut entries = self.lock();
        entries.next += 1;
        let number = entries.next;
        entries.running.insert(number, value);
        Guard { of: self.clone(), number }
    }

    /// What runs.
    pub(crate) fn all(&self) -> Vec<T> {
        self.lock().running.values().cloned().collect()
    }

    /// How many run.
    pub(crate) fn count(&self) -> usize {
        self.lock().running.len()
    }

    /// Waits until fewer than this many run.
    pub(crate) async fn below(&self, limit: usize) {
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.lock().running.len() < limit {
                return;
            }
            ended.await;
        }
    }
}

/// Something that runs until this is dropped.
pub(crate) struct Guard<T: Clone> {
    of: Arc<Running<T>>,
    number: u64,
}

impl<T: Clone> Drop for Guard<T> {
    fn drop(&mut self) {
        let ended = self.of.lock().running.remove(&self.number);
        drop(ended);
        self.of.ended.notify_waiters();
    }
}
