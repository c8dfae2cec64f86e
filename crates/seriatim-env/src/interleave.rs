//! Other orders for the same tasks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Env;

/// Lets a simulated task step back now and then, by the seed, so that others run first.
///
/// A single thread with a fixed queue would show one order of events for ever; this is how another seed shows another
/// order, and the same seed the same one.
pub(crate) struct Interleave<F> {
    env: Env,
    future: Pin<Box<F>>,
}

impl<F: Future> Interleave<F> {
    pub(crate) fn new(env: Env, future: F) -> Self {
        Self { env, future: Box::pin(future) }
    }
}

impl<F: Future> Future for Interleave<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.env.random_below(4) == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.future.as_mut().poll(context)
    }
}
