//! Messages from branch to branch.

use std::collections::VecDeque;
use std::sync::Arc;

use seriatim_types::sync::Mutex as Lock;

use super::Context;
use crate::Cancelled;
use crate::runtime::{Permits, WaitingFor};

impl Context {
    /// A channel between branches of this run. It has no limit: a sender that could be far ahead of its receivers takes a
    /// permit of a [semaphore](Self::semaphore) for each message.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # async fn workflow(ctx: Context, orders: Vec<String>) -> Result<(), Exit> {
    /// let (sender, receiver) = ctx.channel();
    /// let packs = ctx.spawn(|ctx| async move {
    ///     while let Some(order) = receiver.receive(&ctx).await? {
    ///         ctx.activity::<String, ()>("pack", order).await?;
    ///     }
    ///     Ok::<_, Exit>(())
    /// });
    /// for order in orders {
    ///     ctx.activity::<_, ()>("charge", &order).await?;
    ///     sender.send(order);
    /// }
    /// drop(sender); // the receiver's loop ends
    /// packs.await?;
    /// # Ok(()) }
    /// ```
    pub fn channel<T: Send + 'static>(&self) -> (Sender<T>, Receiver<T>) {
        let (waiting, permits) = (Messages::default(), Permits::new(self, 0));
        let sender = Sender {
            waiting: Arc::clone(&waiting),
            open: Arc::new(Open(permits.clone())),
            ctx: self.clone(),
        };
        (sender, Receiver { waiting, permits })
    }
}

/// The messages that have been sent and not received; each has its permit.
type Messages<T> = Arc<Lock<VecDeque<T>>>;

/// The channel is open as long as there is a sender.
struct Open(Permits);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// The end of a channel into which messages go. Made by [`Context::channel`]; a clone is of the same channel. When the last
/// one is dropped, receivers get what is left, and then nothing.
pub struct Sender<T> {
    waiting: Messages<T>,
    open: Arc<Open>,
    ctx: Context,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { waiting: Arc::clone(&self.waiting), open: Arc::clone(&self.open), ctx: self.ctx.clone() }
    }
}

impl<T: Send + 'static> Sender<T> {
    /// Sends a message, at once. It goes to the receiver that has waited longest.
    pub fn send(&self, message: T) {
        let may_send = {
            let mut state = self.ctx.shared.lock();
            self.ctx.may_issue(&mut state, "send to a channel")
        };
        if may_send {
            self.waiting.lock().push_back(message);
            self.open.0.add();
        }
    }
}

/// The end of a channel out of which messages come. Made by [`Context::channel`]; a clone is of the same channel, and each
/// message goes to one receiver.
pub struct Receiver<T> {
    waiting: Messages<T>,
    permits: Permits,
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { waiting: Arc::clone(&self.waiting), permits: self.permits.clone() }
    }
}

impl<T: Send + 'static> Receiver<T> {
    /// Waits for the next message. None: there is none, and no sender any more. Dropping the future gives the place in the
    /// queue up, and loses no message.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if the scope of the context is cancelled while it waits.
    pub fn receive(
        &self,
        ctx: &Context,
    ) -> impl Future<Output = Result<Option<T>, Cancelled>> + Send + use<T> {
        let (waiting, turn) = (Arc::clone(&self.waiting), self.permits.acquire(ctx, WaitingFor::Channel));
        async move {
            turn.await?;
            Ok(waiting.lock().pop_front())
        }
    }
}
