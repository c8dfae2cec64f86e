//! At most so many branches at a time.

use std::num::NonZeroUsize;

use super::Context;
use crate::Cancelled;
use crate::runtime::{Permits, WaitingFor};

impl Context {
    /// Permits of which each branch that wants to continue takes one, for example for things that only so many may use at
    /// a time. For the items of one list, [`map_concurrently`](Self::map_concurrently) is shorter.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # use std::num::NonZeroUsize;
    /// # async fn workflow(ctx: Context, _: ()) -> Result<(), Exit> {
    /// let printers = ctx.semaphore(NonZeroUsize::MIN);
    /// let permit = printers.acquire(&ctx).await?;
    /// ctx.activity::<_, ()>("print", "a letter").await?;
    /// drop(permit);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn semaphore(&self, permits: NonZeroUsize) -> Semaphore {
        Semaphore(Permits::new(self, permits.get()))
    }
}

/// So many permits for the branches of one run: first come, first served. Made by [`Context::semaphore`]; a clone is the
/// same semaphore.
#[derive(Clone)]
pub struct Semaphore(Permits);

impl Semaphore {
    /// Waits for a permit, and has it until it is dropped. Dropping the future gives the place in the queue up.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if the scope of the context is cancelled while it waits.
    pub fn acquire(&self, ctx: &Context) -> impl Future<Output = Result<Permit, Cancelled>> + Send + use<> {
        let (permits, turn) = (self.0.clone(), self.0.acquire(ctx, WaitingFor::Semaphore));
        async move {
            turn.await?;
            Ok(Permit(permits))
        }
    }
}

/// A permit of a [`Semaphore`], until it is dropped.
#[must_use = "the permit is given back when it is dropped"]
pub struct Permit(Permits);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.add();
    }
}
