//! A handle to a started task.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use seriatim_types::panic_text;

/// A started task. Await it for its value. If the handle is dropped, the task continues.
#[derive(Debug)]
pub struct Task<T>(tokio::task::JoinHandle<T>);

impl<T> Task<T> {
    pub(crate) fn new(handle: tokio::task::JoinHandle<T>) -> Self {
        Self(handle)
    }

    /// Ends the task at its next await. Awaiting it then gives [`TaskError::Cancelled`].
    pub fn cancel(&self) {
        self.0.abort();
    }

    /// Whether the task has ended: by returning, by a panic or by [`Task::cancel`].
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// Why a task has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskError {
    /// It panicked, with this message.
    Panicked(String),
    /// It was cancelled, or its runtime ended.
    Cancelled,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(f, "a task panicked: {message}"),
            Self::Cancelled => f.write_str("a task was cancelled"),
        }
    }
}

impl std::error::Error for TaskError {}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|result| {
            result.map_err(|error| match error.try_into_panic() {
                Ok(panic) => TaskError::Panicked(panic_text(&*panic).to_owned()),
                Err(_) => TaskError::Cancelled,
            })
        })
    }
}
