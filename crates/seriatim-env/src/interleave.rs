//! Makes simulated tasks run in an order that depends on the seed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Env;

/// Delays each poll of a simulated task with a chance of 1 in 4, drawn from the seed, so that other tasks run first.
///
/// A single thread with a fixed queue would always run tasks in one order. With this, each seed gives its own order, and
/// the same seed always gives the same one.
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
