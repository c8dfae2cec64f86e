//! Timers.

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use super::Context;
use crate::kind::{self, TimerSeq};
use crate::runtime::{Cell, Operation, SharedRun, Wait, WaitingFor};
use crate::{Cancelled, Command, InputDigest, Kind, Lineage};

impl Context {
    /// Starts a timer, at once. A duration of zero is over at once and issues no command.
    #[track_caller]
    pub fn timer(&self, duration: Duration) -> TimerFuture {
        let site = Location::caller();
        let path = self.next_path();
        let slot = Cell::new();
        let mut state = self.shared.lock();
        let mut seq = None;
        if let Some(reason) = self.scope.reason() {
            slot.set(Err(reason));
        } else if self.may_issue(&mut state, "start a timer") {
            if duration.is_zero() && state.is_by_lineage {
                slot.set(Ok(()));
            } else if let Some(number) = state.number::<kind::Timer>(&path) {
                if duration.is_zero() {
                    slot.set(Ok(()));
                } else if state.file(number, &path, &self.scope, slot.clone()) {
                    let lineage = Lineage { path, digest: InputDigest::NONE };
                    state.push(Command::StartTimer { seq: number, lineage, duration }, Some(site));
                }
                seq = Some(number);
            }
        }
        drop(state);
        let waits = WaitingFor::Response { kind: Kind::Timer, seq: seq.map_or(0, TimerSeq::get) };
        TimerFuture { wait: slot.wait(&self.shared.sched, waits), seq, shared: Arc::clone(&self.shared) }
    }
}

/// A timer that has been started. Dropping it leaves it running.
#[must_use = "a timer has to be awaited"]
pub struct TimerFuture {
    wait: Wait<Result<(), Arc<str>>>,
    seq: Option<TimerSeq>,
    shared: Arc<SharedRun>,
}

impl TimerFuture {
    /// Cancels the timer. One that has fired stays as it is.
    #[track_caller]
    pub fn cancel(&self) {
        let site = Location::caller();
        if let Some(seq) = self.seq {
            let operation = Operation { kind: Kind::Timer, seq: seq.get() };
            self.shared.lock().cancel(operation, &Arc::from("cancelled by the workflow"), Some(site));
        }
    }
}

impl Future for TimerFuture {
    type Output = Result<(), Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.wait.poll_take(cx).map(|fired| fired.map_err(|reason| Cancelled { reason: reason.to_string() }))
    }
}
