//! A value whose changes can be waited for.
//!
//! It has the part of `tokio::sync::watch` that Seriatim uses. The difference: those who wait are woken in the order in which they
//! began to wait. Tokio draws that order at random, and not from the seed, so that one seed could have two orders of events.
//!
//! ```
//! use seriatim_env::{simulate, watch};
//!
//! simulate(7, |env| async move {
//!     let sender = watch::Sender::new(0);
//!     let mut receiver = sender.subscribe();
//!     let waiting = env.spawn(async move { receiver.wait_for(|number| *number > 1).await.map(|number| *number) });
//!     sender.send_replace(1);
//!     sender.send_replace(2);
//!     assert_eq!(waiting.await.unwrap(), Ok(2));
//! });
//! ```

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seriatim_types::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The sender is gone, so the value does not change any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value does not change any more: its sender is gone")
    }
}

impl std::error::Error for Closed {}

#[derive(Debug)]
struct Shared<T> {
    value: Mutex<T>,
    /// How often the value was changed. Raised while the value is locked.
    version: AtomicU64,
    is_closed: AtomicBool,
    changed: Notify,
}

/// The value, which does not change while this is held.
#[derive(Debug)]
pub struct Ref<'a, T>(MutexGuard<'a, T>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Changes the value.
#[derive(Debug)]
pub struct Sender<T>(Arc<Owning<T>>);

/// Closes the channel when the last sender is dropped.
#[derive(Debug)]
struct Owning<T>(Arc<Shared<T>>);

impl<T> Drop for Owning<T> {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// Reads the value and waits for its changes.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that was received last.
    version: u64,
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), version: self.version }
    }
}

/// A sender with its first receiver.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// A sender without receivers.
    pub fn new(value: T) -> Self {
        let shared = Shared {
            value: Mutex::new(value),
            version: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            changed: Notify::new(),
        };
        Self(Arc::new(Owning(Arc::new(shared))))
    }

    fn shared(&self) -> &Arc<Shared<T>> {
        &self.0.0
    }

    /// A receiver for which the present value counts as received.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        let shared = self.shared().clone();
        let version = shared.version.load(Ordering::Acquire);
        Receiver { shared, version }
    }

    /// The present value. It does not change while the guard is held.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared().value.lock())
    }

    /// Replaces the value, and returns the one before.
    pub fn send_replace(&self, value: T) -> T {
        let mut before = value;
        self.send_modify(|present| std::mem::swap(present, &mut before));
        before
    }

    /// Changes the value.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Changes the value, and notifies receivers if `change` returns true.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let shared = self.shared();
        let mut value = shared.value.lock();
        let is_modified = change(&mut value);
        if is_modified {
            shared.version.fetch_add(1, Ordering::Release);
        }
        drop(value);
        if is_modified {
            shared.changed.notify_waiters();
        }
        is_modified
    }

    /// How many receivers there are.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        // One reference is that of the senders.
        Arc::strong_count(self.shared()) - 1
    }
}

impl<T> Receiver<T> {
    /// The present value. It does not change while the guard is held.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.value.lock())
    }

    /// The present value, which counts as received from now on.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.value.lock();
        self.version = self.shared.version.load(Ordering::Acquire);
        Ref(value)
    }

    /// Makes the present value count as received.
    pub fn mark_unchanged(&mut self) {
        self.version = self.shared.version.load(Ordering::Acquire);
    }

    /// Waits for a value that was not received yet, which then counts as received. A cancelled wait has received nothing.
    ///
    /// # Errors
    ///
    /// [`Closed`] if there is none and the sender is gone.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        self.shared.changed_since(&mut self.version).await
    }

    /// Waits for a value that satisfies the condition, beginning with the present one. It counts as received.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the present value does not satisfy it and the sender is gone.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        let Self { shared, version } = self;
        loop {
            {
                let value = shared.value.lock();
                *version = shared.version.load(Ordering::Acquire);
                if condition(&value) {
                    return Ok(Ref(value));
                }
            }
            shared.changed_since(version).await?;
        }
    }
}

impl<T> Shared<T> {
    async fn changed_since(&self, received: &mut u64) -> Result<(), Closed> {
        loop {
            // Before the check: a change that follows the check wakes this future also if it was not polled yet.
            let changed = self.changed.notified();
            // Read before the version: the last change of a sender that is dropped is received before the channel counts as closed.
            let is_closed = self.is_closed.load(Ordering::Acquire);
            let version = self.version.load(Ordering::Acquire);
            if version != *received {
                *received = version;
                return Ok(());
            }
            if is_closed {
                return Err(Closed);
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Wake, Waker};

    use seriatim_types::sync::Mutex;

    use super::*;
    use crate::simulate;

    /// Records in which order tasks are woken.
    struct Recorder {
        number: u32,
        woken: Arc<Mutex<Vec<u32>>>,
    }

    impl Wake for Recorder {
        fn wake(self: Arc<Self>) {
            self.woken.lock().push(self.number);
        }
    }

    #[test]
    fn those_who_wait_are_woken_in_the_order_in_which_they_began() {
        let (sender, woken) = (Sender::new(()), Arc::new(Mutex::new(Vec::new())));
        let mut receivers: Vec<_> = (0..50).map(|_| sender.subscribe()).collect();
        let mut waiting: Vec<_> = receivers.iter_mut().map(|receiver| Box::pin(receiver.changed())).collect();
        for (number, changed) in (0..).zip(&mut waiting) {
            let waker = Waker::from(Arc::new(Recorder { number, woken: woken.clone() }));
            assert!(changed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        sender.send_replace(());
        assert_eq!(*woken.lock(), (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn a_change_before_the_wait_is_received_once() {
        simulate(1, |_| async move {
            let (sender, mut receiver) = channel(0);
            sender.send_replace(1);
            assert_eq!(receiver.changed().await, Ok(()));
            assert!(!sender.send_if_modified(|_| false));
            drop(sender);
            assert_eq!(receiver.changed().await, Err(Closed));
            assert_eq!(*receiver.borrow(), 1);
        });
    }

    #[test]
    fn receivers_are_counted_and_the_last_sender_closes() {
        let (sender, receiver) = channel(7);
        let second = receiver.clone();
        assert_eq!(sender.receiver_count(), 2);
        drop((receiver, sender.clone()));
        assert_eq!(sender.receiver_count(), 1);
        drop(second);
        assert_eq!((sender.receiver_count(), *sender.borrow()), (0, 7));
    }
}
