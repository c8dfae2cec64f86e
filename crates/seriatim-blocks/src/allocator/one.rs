//! The future of `allocate_one`, which has to be fast.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use seriatim_types::Number;

use super::{AllocatorState, Answer};
use crate::AllocateError;
use crate::fast_path::Ticket;

/// Takes one number when it is first polled. Written by hand, because the body of an `async fn` is not inlined into another
/// crate, and the call would take longer than the addition.
#[must_use = "a future takes its number when it is awaited"]
pub(super) struct AllocateOne<'a> {
    state: &'a AllocatorState,
    waiting: Option<Pin<Box<dyn Future<Output = Answer> + Send + 'a>>>,
}

impl<'a> AllocateOne<'a> {
    #[inline]
    pub(super) fn new(state: &'a AllocatorState) -> Self {
        Self { state, waiting: None }
    }

    #[cold]
    fn allocate_slow(
        &mut self,
        ticket: Ticket,
        context: &mut Context<'_>,
    ) -> Poll<Result<Number, AllocateError>> {
        self.waiting = Some(Box::pin(self.state.allocate_slow(Some(ticket), 1)));
        self.wait(context)
    }

    #[cold]
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Result<Number, AllocateError>> {
        let Some(waiting) = &mut self.waiting else { return Poll::Pending };
        waiting.as_mut().poll(context).map(|answer| answer.map(|numbers| numbers.base()))
    }
}

impl Future for AllocateOne<'_> {
    type Output = Result<Number, AllocateError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.waiting.is_some() {
            return self.wait(context);
        }
        match self.state.supply.fast_path.take_one() {
            Ok(number) => Poll::Ready(Ok(Number::new(number))),
            Err(ticket) => self.allocate_slow(ticket, context),
        }
    }
}
