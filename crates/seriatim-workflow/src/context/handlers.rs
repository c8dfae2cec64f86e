//! What comes in: signals, queries, updates.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Poll;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Context;
use crate::runtime::{Cell, QueryHandler, UpdateHandler, WaitingFor};
use crate::{Cancelled, Failure, Payload, SignalError, Warning};

impl Context {
    /// The signals of one name, those included that came before anybody asked for them.
    pub fn signals<T: DeserializeOwned>(&self, name: impl Into<String>) -> Signals<T> {
        // Runs by older rules were recorded with the error.
        let is_strict = self.shared.lock().start.rules == 0;
        Signals { ctx: self.clone(), name: name.into(), is_strict, types: PhantomData }
    }

    /// Answers queries of this name. The handler may only read: it cannot wait, and asking for anything fails the query.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::sync::Arc;
    ///
    /// # async fn workflow(ctx: Context, _: ()) -> Result<(), Exit> {
    /// let done = Arc::new(AtomicU32::new(0));
    /// let seen = Arc::clone(&done);
    /// ctx.on_query("done", move |(): ()| Ok(seen.load(Ordering::Relaxed)));
    /// # Ok(()) }
    /// ```
    pub fn on_query<In, Out>(
        &self,
        name: impl Into<String>,
        handler: impl Fn(In) -> Result<Out, Failure> + Send + Sync + 'static,
    ) where
        In: DeserializeOwned,
        Out: Serialize,
    {
        let handler: QueryHandler =
            Arc::new(move |input| Ok(Payload::json(&handler(Payload::decode_all(input)?)?)?));
        let before = self.shared.lock().queries.insert(name.into(), handler);
        // Its destructor may use the context, so the lock is not held.
        drop(before);
    }

    /// Takes updates of this name: each is validated, which may only read, then accepted, then handled in a branch of its
    /// own. What the handler returns is the update's outcome.
    pub fn on_update<In, Out, Fut>(
        &self,
        name: impl Into<String>,
        validate: impl Fn(&In) -> Result<(), Failure> + Send + Sync + 'static,
        handle: impl Fn(Context, In) -> Fut + Send + Sync + 'static,
    ) where
        In: DeserializeOwned,
        Out: Serialize,
        Fut: Future<Output = Result<Out, Failure>> + Send + 'static,
    {
        let validate: QueryHandler = Arc::new(move |input| {
            validate(&Payload::decode_all(input)?)?;
            Ok(Payload::null())
        });
        let handler = UpdateHandler {
            validate,
            handle: Arc::new(move |ctx, input| match Payload::decode_all(input) {
                Ok(input) => {
                    let future = handle(ctx, input);
                    Box::pin(async move { Ok(Payload::json(&future.await?)?) })
                }
                Err(error) => Box::pin(std::future::ready(Err(error.into()))),
            }),
        };
        let before = self.shared.lock().updates.insert(name.into(), handler);
        drop(before);
    }
}

impl Context {
    /// Whether the handlers of all accepted updates have returned. Wait for it before a run ends, so that those who sent the
    /// updates get their answers:
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # async fn workflow(ctx: Context, _: ()) -> Result<(), Exit> {
    /// let handlers = ctx.clone();
    /// ctx.wait_until(move || handlers.all_handlers_finished()).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn all_handlers_finished(&self) -> bool {
        self.shared.lock().open_updates == 0
    }
}

/// The signals of one name, in the order in which they came.
pub struct Signals<T> {
    ctx: Context,
    name: String,
    is_strict: bool,
    types: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Signals<T> {
    /// A signal whose arguments are not of this type is an error of `next` and `try_next`, which ends the run if the code
    /// passes it on. Without this it is skipped, and noted as a [`Warning`].
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// The next signal, once there is one. Signals whose arguments are not of this type are skipped, with a
    /// [`Warning`], unless the signals are [`strict`](Self::strict): whoever can send a signal could end the run.
    ///
    /// # Errors
    ///
    /// [`SignalError`] if the scope of the context was cancelled.
    pub async fn next(&mut self) -> Result<T, SignalError> {
        loop {
            if let Some(signal) = self.try_next() {
                return signal;
            }
            let arrival = {
                let mut state = self.ctx.shared.lock();
                let queue = state.signals.entry(self.name.clone()).or_default();
                queue.arrival.get_or_insert_with(Cell::new).clone()
            };
            let sched = &self.ctx.shared.sched;
            let mut arrived = arrival.wait(sched, WaitingFor::Signal { name: self.name.clone() });
            let mut cancelled = self.ctx.scope.cancelled.wait(sched, WaitingFor::Cancellation);
            let cancelled = poll_fn(|cx| match arrived.poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => cancelled.poll(cx).map(Some),
            });
            if let Some(reason) = cancelled.await {
                return Err(Cancelled { reason: reason.to_string() }.into());
            }
        }
    }

    /// The next signal, if there is one; of the wrong type as in [`next`](Self::next).
    pub fn try_next(&mut self) -> Option<Result<T, SignalError>> {
        loop {
            let signal = {
                let mut state = self.ctx.shared.lock();
                if state.refuse("take a signal") {
                    return None;
                }
                state.signals.get_mut(&self.name)?.waiting.pop_front()?
            };
            match Payload::decode_all(&signal.input) {
                Err(error) if !self.is_strict => {
                    let (name, reason) = (self.name.clone(), error.to_string());
                    self.ctx.shared.lock().warn(Warning::SignalSkipped { name, reason });
                }
                read => return Some(read.map_err(Into::into)),
            }
        }
    }
}
