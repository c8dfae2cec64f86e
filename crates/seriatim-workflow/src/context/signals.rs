//! Signals: waited for, or handled as they come.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Poll;

use serde::de::DeserializeOwned;

use super::handlers::REGISTER;
use super::{Context, WorkflowState};
use crate::runtime::{Cell, SignalHandler, WaitingFor};
use crate::{Cancelled, Name, Payload, Signal, SignalError, Warning};

impl Context {
    /// The signals of one name, those included that came before the code asked for them. The name is a text or a
    /// [`Signal`], which fixes the type.
    pub fn signals<T: DeserializeOwned>(&self, signal: impl Into<Name<Signal<T>>>) -> Signals<T> {
        // Runs by older rules were recorded with the error.
        let is_strict = self.shared.lock().start.rules == 0;
        Signals { ctx: self.clone(), name: signal.into().into_string(), is_strict, types: PhantomData }
    }

    /// Changes the state with each signal of this name, in the order in which they came. Those that came before are
    /// handled at once; one that comes later is handled where its job is among those of the activation, as updates are.
    ///
    /// A signal whose arguments are not of the handler's type is skipped, with a [`Warning`]. The name is a text or a
    /// [`Signal`], which fixes the type.
    ///
    /// ```
    /// use seriatim_workflow::{Context, Exit, Signal};
    ///
    /// const APPROVE: Signal<String> = Signal::new("approve");
    ///
    /// async fn release(ctx: Context, needed: usize) -> Result<Vec<String>, Exit> {
    ///     let approvals = ctx.state(Vec::new());
    ///     ctx.on_signal(APPROVE, &approvals, |approvals, name| approvals.push(name));
    ///     approvals.wait_until(move |approvals| approvals.len() >= needed).await?;
    ///     Ok(approvals.get())
    /// }
    /// ```
    ///
    /// The handler takes all signals of its name: to wait for one with [`signals`](Self::signals) as well is a fault of the
    /// code. The branch that does so panics, so the activation fails and says why.
    pub fn on_signal<S, In>(
        &self,
        signal: impl Into<Name<Signal<In>>>,
        state: &WorkflowState<S>,
        handle: impl Fn(&mut S, In) + Send + Sync + 'static,
    ) where
        S: Send + Sync + 'static,
        In: DeserializeOwned,
    {
        let (name, state) = (signal.into().into_string(), state.clone());
        let handler: SignalHandler = Arc::new(move |input| {
            let input = Payload::decode_all(input)?;
            state.change(|state| handle(state, input));
            Ok(())
        });
        let mut run = self.shared.lock();
        if !self.may_issue(&mut run, REGISTER) {
            drop(run);
            return;
        }
        let before = run.signal_handlers.insert(name.clone(), handler);
        let arrival = run.signals.get_mut(&name).and_then(|queue| queue.arrival.take());
        // The destructor of a handler may use the context, so the lock is not held.
        drop(run);
        drop(before);
        // A branch that waits for the signal finds the handler, and fails.
        arrival.map(|arrival| arrival.set(()));
        while self.shared.handle_signal(&name) {}
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
    /// [`Warning`], unless the signals are [`strict`](Self::strict): anyone who can send a signal could end the run otherwise.
    ///
    /// # Errors
    ///
    /// [`SignalError`] if the scope of the context was cancelled.
    ///
    /// # Panics
    ///
    /// If the signal has a handler, which takes all of them: see [`Context::on_signal`].
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
    ///
    /// # Panics
    ///
    /// As [`next`](Self::next).
    pub fn try_next(&mut self) -> Option<Result<T, SignalError>> {
        loop {
            let signal = {
                let mut state = self.ctx.shared.lock();
                if state.refuse("take a signal") {
                    return None;
                }
                if state.signal_handlers.contains_key(&self.name) {
                    drop(state);
                    panic!("signal {:?} {HANDLED}", self.name);
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

const HANDLED: &str =
    "has a handler, which takes all signals of this name: use either `on_signal` or `signals` for it";
