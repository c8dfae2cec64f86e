//! The locks of Seriatim: those of the standard library, without poisoning.
//!
//! A lock of the standard library is poisoned when a thread panics while it holds the lock. Every later `lock` then gives an
//! error. No user of a lock here can do more about that than continue with the current value, because each panic is handled
//! where it is caught:
//!
//! - A panic in a partition's task, its flusher or its recovery stops that partition, and what was in memory is derived again
//!   from the log when it is opened.
//! - A panic in workflow code ends its activation; the run is replayed. Activities and projectors fail and are retried.
//! - A panic in the log's committer stops the log.
//! - A panic in a request is answered with an internal error.
//!
//! The code under a lock is short, does no I/O except in the bulletin and the file backend, and calls no code of users. So
//! poisoning would only cause a second panic, in a thread that did nothing wrong.
//!
//! This is in the lowest crate because the workflow runtime has no environment (`seriatim-env`) below it. `clippy.toml`
//! forbids [`PoisonError::into_inner`] everywhere else. Tests may use the locks of the standard library: a test fails by
//! panicking.
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
#![allow(clippy::disallowed_methods, reason = "the one place that ignores poisoning")]

use std::sync::{self, PoisonError, TryLockError};
pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// [`std::sync::Mutex`] without poisoning.
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

    /// The value, without locking: `&mut self` proves that no one else holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, without the mutex.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`std::sync::RwLock`] without poisoning.
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

    /// As [`RwLock::read`], but returns `None` instead of waiting.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        unless_held(self.0.try_read())
    }

    /// As [`RwLock::write`], but returns `None` instead of waiting.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        unless_held(self.0.try_write())
    }
}

fn unless_held<G>(tried: sync::TryLockResult<G>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// [`std::sync::Condvar`] for a [`Mutex`] without poisoning.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition variable.
    #[must_use]
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Releases the lock and waits for a notification, then locks again. It may also return without a notification.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, as [`Condvar::wait`], until the condition is false.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.0.wait_while(guard, condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Panics while the guard that `held` returns holds a lock.
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
    fn try_read_and_try_write_do_not_wait() {
        let lock = RwLock::new(());
        let reading = lock.read();
        assert!(lock.try_read().is_some() && lock.try_write().is_none());
        drop(reading);
        let _writing = lock.write();
        assert!(lock.try_read().is_none());
    }

    #[test]
    fn a_condition_variable_works_after_a_panic() {
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
