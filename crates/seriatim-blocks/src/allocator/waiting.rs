//! A caller that waits for a block.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::{Answer, Shared};
use crate::AllocateError;

/// Waits for numbers. Dropped before it has them, it gives up its place, or what was set aside for it.
pub(super) struct Waiting<'a> {
    shared: &'a Shared,
    id: u64,
    answer: oneshot::Receiver<Answer>,
    answered: bool,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(shared: &'a Shared, id: u64, answer: oneshot::Receiver<Answer>) -> Self {
        Self { shared, id, answer, answered: false }
    }
}

impl Future for Waiting<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let answer = std::task::ready!(Pin::new(&mut self.answer).poll(context));
        self.answered = true;
        Poll::Ready(answer.unwrap_or(Err(AllocateError::Closed)))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        match self.shared.supply.leave(self.id) {
            Some(grants) => self.shared.deliver(grants),
            None => {
                // The answer is here already, or its sender will find nobody: close first, so that it is one of the two.
                self.answer.close();
                if let Ok(Ok(numbers)) = self.answer.try_recv() {
                    self.shared.supply.put_back(numbers);
                }
            }
        }
    }
}
