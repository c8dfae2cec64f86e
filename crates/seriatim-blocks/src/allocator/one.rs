//! The call that has to be quick.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use seriatim_types::Number;

use super::{Answer, Shared};
use crate::AllocateError;
use crate::line::Ticket;

/// Takes one number when it is first polled. Written by hand, because the body of an `async fn` is not inlined into
/// another crate, and the call would cost more than the addition.
#[must_use = "a future takes its number when it is awaited"]
pub(super) struct AllocateOne<'a> {
    shared: &'a Shared,
    waiting: Option<Pin<Box<dyn Future<Output = Answer> + Send + 'a>>>,
}

impl<'a> AllocateOne<'a> {
    #[inline]
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, waiting: None }
    }

    #[cold]
    fn attend(&mut self, ticket: Ticket, context: &mut Context<'_>) -> Poll<Result<Number, AllocateError>> {
        self.waiting = Some(Box::pin(self.shared.attend(Some(ticket), 1)));
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
        match self.shared.supply.line.take_one() {
            Ok(number) => Poll::Ready(Ok(Number::new(number))),
            Err(ticket) => self.attend(ticket, context),
        }
    }
}
