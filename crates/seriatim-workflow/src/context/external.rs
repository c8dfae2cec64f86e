//! Messages to other workflows.

use std::panic::Location;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use super::{Context, arguments};
use crate::kind;
use crate::runtime::{Cell, Wait, WaitingFor};
use crate::{
    Arguments, Command, Execution, ExternalError, Failure, Headers, InputDigest, Kind, Lineage, Name,
    Payload, PayloadError, Signal, SignalTarget,
};

impl Context {
    /// Sends a signal to another workflow, at once; awaiting it waits for the delivery.
    #[track_caller]
    pub fn signal_external<In: Arguments>(
        &self,
        workflow: Execution,
        signal: impl Into<Name<Signal<In>>>,
        input: In,
    ) -> ExternalFuture {
        self.signal_target(
            SignalTarget::Workflow(workflow),
            signal.into().into_string(),
            arguments(&input),
            Location::caller(),
        )
    }

    pub(super) fn signal_target(
        &self,
        target: SignalTarget,
        name: String,
        input: Result<Vec<Payload>, PayloadError>,
        site: &'static Location<'static>,
    ) -> ExternalFuture {
        let path = self.next_path();
        let slot = Cell::new();
        let mut number = 0;
        let mut error = None;
        match input {
            Err(wrong) => error = Some(wrong),
            Ok(input) => {
                let mut state = self.shared.lock();
                if let Some(reason) = self.scope.reason() {
                    slot.set(Some(Failure::cancelled(&*reason)));
                } else if self.may_issue(&mut state, "send a signal")
                    && let Some(seq) = state.number::<kind::ExternalSignal>(&path)
                    && state.file(seq, &path, &self.scope, slot.clone())
                {
                    number = seq.get();
                    let lineage = Lineage { path, digest: InputDigest::of(&input) };
                    let headers = Headers::new();
                    let command = Command::SignalExternal { seq, lineage, target, name, input, headers };
                    state.push(command, Some(site));
                }
            }
        }
        let waits = WaitingFor::Response { kind: Kind::ExternalSignal, seq: number };
        ExternalFuture { wait: slot.wait(&self.shared.sched, waits), error }
    }

    /// Asks another workflow to stop, at once; awaiting it waits for the delivery.
    #[track_caller]
    pub fn cancel_external(&self, workflow: Execution, reason: impl Into<String>) -> ExternalFuture {
        let site = Location::caller();
        let path = self.next_path();
        let slot = Cell::new();
        let mut number = 0;
        let mut state = self.shared.lock();
        if let Some(reason) = self.scope.reason() {
            slot.set(Some(Failure::cancelled(&*reason)));
        } else if self.may_issue(&mut state, "cancel a workflow")
            && let Some(seq) = state.number::<kind::ExternalCancel>(&path)
            && state.file(seq, &path, &self.scope, slot.clone())
        {
            number = seq.get();
            let lineage = Lineage { path, digest: InputDigest::NONE };
            let command = Command::CancelExternal { seq, lineage, target: workflow, reason: reason.into() };
            state.push(command, Some(site));
        }
        drop(state);
        let waits = WaitingFor::Response { kind: Kind::ExternalCancel, seq: number };
        ExternalFuture { wait: slot.wait(&self.shared.sched, waits), error: None }
    }
}

/// A message to another workflow that is under way. Dropping it leaves it so.
#[must_use = "whether the message was delivered shows when it is awaited"]
pub struct ExternalFuture {
    wait: Wait<Option<Failure>>,
    error: Option<PayloadError>,
}

impl Future for ExternalFuture {
    type Output = Result<(), ExternalError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Err(error.into()));
        }
        self.wait.poll_take(cx).map(|failure| match failure {
            None => Ok(()),
            Some(failure) if failure.is_cancelled() => Err(ExternalError::Cancelled(failure)),
            Some(failure) => Err(ExternalError::NotDelivered(failure)),
        })
    }
}
