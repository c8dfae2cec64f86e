//! Signals that are handled as they come.
//!
//! A signal whose handler is registered takes its turn in the queue of ready tasks, at the place of its job, as an update
//! does. Any other waits until it is taken, or until a handler is registered, which takes all that wait.

use std::sync::Arc;

use super::instance::{Instance, caught};
use super::state::SharedRun;
use crate::{ActivationFailure, Warning};

impl Instance {
    /// A signal has its turn. It may have been taken before, by a handler that was registered since.
    pub(super) fn take_signal(&mut self, name: &str) -> Result<(), ActivationFailure> {
        caught(|| self.shared.handle_signal(name)).map(drop).map_err(|message| ActivationFailure::Panicked {
            branch: format!("of the handler of signal {name:?}"),
            message,
        })
    }
}

impl SharedRun {
    /// Gives the first waiting signal of this name to its handler. Says whether there was one.
    pub(crate) fn handle_signal(&self, name: &str) -> bool {
        let (handler, signal) = {
            let mut state = self.lock();
            let Some(handler) = state.signal_handlers.get(name).map(Arc::clone) else { return false };
            let signal = state.signals.get_mut(name).and_then(|queue| queue.waiting.pop_front());
            let Some(signal) = signal else { return false };
            (handler, signal)
        };
        if let Err(error) = handler(&signal.input) {
            let warning = Warning::SignalSkipped { name: name.to_owned(), reason: error.to_string() };
            self.lock().warn(warning);
        }
        true
    }
}
