//! A caller that waits for a block.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::{AllocatorState, Answer};
use crate::AllocateError;

/// Waits for numbers. If it is dropped before it has them, it leaves the queue, or returns the numbers that were granted to
/// it.
pub(super) struct Waiting<'a> {
    state: &'a AllocatorState,
    id: u64,
    answer: oneshot::Receiver<Answer>,
    answered: bool,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(state: &'a AllocatorState, id: u64, answer: oneshot::Receiver<Answer>) -> Self {
        Self { state, id, answer, answered: false }
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
        match self.state.supply.stop_waiting(self.id) {
            Some(grants) => self.state.deliver(grants),
            None => {
                // Either the answer is already here, or sending it will fail. Close the channel first, so that it is one of
                // the two.
                self.answer.close();
                if let Ok(Ok(numbers)) = self.answer.try_recv() {
                    self.state.supply.put_back(numbers);
                }
            }
        }
    }
}
