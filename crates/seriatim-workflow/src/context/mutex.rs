//! A value that one branch has at a time.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use seriatim_types::sync::Mutex as Lock;

use super::Context;
use crate::Cancelled;
use crate::runtime::{Permits, WaitingFor};

impl Context {
    /// A value that one branch of this run has at a time, while it waits for things as well. What is only read and changed
    /// needs none of this: see [`Context::state`].
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # async fn workflow(ctx: Context, orders: Vec<u64>) -> Result<u64, Exit> {
    /// let credit = ctx.mutex(1_000_u64);
    /// let shared = credit.clone();
    /// let booked = ctx.join_all(orders, move |ctx, cents| {
    ///     let credit = shared.clone();
    ///     async move {
    ///         let mut credit = credit.lock(&ctx).await?;
    ///         // No other branch changes the credit meanwhile.
    ///         ctx.activity::<_, ()>("book", cents).await?;
    ///         *credit = credit.saturating_sub(cents);
    ///         Ok::<_, Exit>(())
    ///     }
    /// });
    /// booked.await.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// Ok(*credit.lock(&ctx).await?)
    /// # }
    /// ```
    pub fn mutex<T: Send + 'static>(&self, value: T) -> Mutex<T> {
        Mutex { value: Arc::new(Lock::new(Some(value))), permits: Permits::new(self, 1) }
    }
}

/// A value that one branch of a run has at a time: first come, first served. Made by [`Context::mutex`]; a clone is the
/// same mutex.
pub struct Mutex<T> {
    /// None while a branch has it.
    value: Arc<Lock<Option<T>>>,
    permits: Permits,
}

impl<T> Clone for Mutex<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), permits: self.permits.clone() }
    }
}

impl<T: Send + 'static> Mutex<T> {
    /// Waits until no other branch has the value, and takes it until the guard is dropped. Dropping the future gives the
    /// place in the queue up.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if the scope of the context is cancelled while it waits.
    pub fn lock(
        &self,
        ctx: &Context,
    ) -> impl Future<Output = Result<MutexGuard<T>, Cancelled>> + Send + use<T> {
        let (mutex, turn) = (self.clone(), self.permits.acquire(ctx, WaitingFor::Mutex));
        async move {
            turn.await?;
            let value = mutex.value.lock().take();
            Ok(MutexGuard { value, mutex })
        }
    }
}

/// The value of a [`Mutex`], until it is dropped. It may be held while the branch waits for something.
#[must_use = "the value is given back when the guard is dropped"]
pub struct MutexGuard<T> {
    /// None only while it is dropped.
    value: Option<T>,
    mutex: Mutex<T>,
}

const HELD: &str = "a guard has its value until it is dropped";

impl<T> Deref for MutexGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect(HELD)
    }
}

impl<T> Drop for MutexGuard<T> {
    fn drop(&mut self) {
        *self.mutex.value.lock() = self.value.take();
        self.mutex.permits.add();
    }
}
