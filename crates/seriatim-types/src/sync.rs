//! The locks of Seriatim: those of the standard library, without poison.
//!
//! A lock of the standard library is poisoned when a thread panics while it holds it, and says so to everyone who locks it
//! later. No user of a lock here can do more about that than continue with what is there, because a panic is dealt with where
//! it is caught:
//!
//! - A panic in a partition's task, its flusher or its recovery stops that partition, and what was in memory is derived again
//!   from the log when it is opened.
//! - A panic in workflow code ends its activation; the run is replayed. Activities and projectors fail and are retried.
//! - A panic in the log's committer stops the log.
//! - A panic in a request is answered with an internal error.
//!
//! The sections under a lock are short, do no I/O except in the bulletin and the file backend, and run no code of users. So
//! the only effect that poison would have is a second panic in a thread that did nothing wrong.
//!
//! This is in the lowest crate because the workflow runtime has no environment (`seriatim-env`) below it. `clippy.toml` forbids
//! [`PoisonError::into_inner`] everywhere else. Tests may use the locks of the standard library: a test fails by panicking.
//!
//! ```
//! use seriatim_types::sync::Mutex;
//!
//! let counter = Mutex::new(1);
//! let panicked = std::panic::catch_unwind(|| {
//!     let _guard = counter.lock();
//!     panic!("while the lock is held");
//! });
//! assert!(panicked.is_err());
//! *counter.lock() += 1;
//! assert_eq!(counter.into_inner(), 2);
//! ```
#![allow(clippy::disallowed_methods, reason = "the one place that recovers from poison")]

use std::sync::{self, PoisonError, TryLockError};
pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// [`std::sync::Mutex`] without poison.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A mutex around a value.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits until no other thread holds it, and holds it until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, without locking: no one else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, without the mutex.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`std::sync::RwLock`] without poison.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock around a value.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// Waits until no thread writes. Others may read at the same time.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread reads or writes.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`RwLock::read`], and none instead of waiting.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        free(self.0.try_read())
    }

    /// As [`RwLock::write`], and none instead of waiting.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        free(self.0.try_write())
    }
}

fn free<G>(tried: sync::TryLockResult<G>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// [`std::sync::Condvar`] for a [`Mutex`] without poison.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition that no one waits for.
    #[must_use]
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Releases the lock until it is notified, or for no reason; then holds it again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Condvar::wait`], again and again while the condition holds.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.0.wait_while(guard, condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Panics while `held` holds a lock.
    fn panic_with<G>(held: impl FnOnce() -> G) {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _guard = held();
            panic!("while the lock is held");
        }));
        assert!(caught.is_err());
    }

    #[test]
    fn a_lock_works_after_a_panic() {
        let mut mutex = Mutex::new(1);
        panic_with(|| mutex.lock());
        *mutex.lock() += 1;
        *mutex.get_mut() += 1;
        assert_eq!(mutex.into_inner(), 3);

        let lock = RwLock::new(1);
        panic_with(|| lock.write());
        *lock.write() += 1;
        *lock.try_write().unwrap() += 1;
        assert_eq!((*lock.read(), lock.try_read().as_deref()), (3, Some(&3)));
    }

    #[test]
    fn what_is_held_is_not_waited_for() {
        let lock = RwLock::new(());
        let reading = lock.read();
        assert!(lock.try_read().is_some() && lock.try_write().is_none());
        drop(reading);
        let _writing = lock.write();
        assert!(lock.try_read().is_none());
    }

    #[test]
    fn a_condition_is_waited_for_after_a_panic() {
        let (mutex, condition) = (Mutex::new(0), Condvar::new());
        panic_with(|| mutex.lock());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *mutex.lock() = 1;
                condition.notify_all();
            });
            assert_eq!(*condition.wait_while(mutex.lock(), |value| *value == 0), 1);
        });
    }
}
