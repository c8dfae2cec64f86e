//! What is wrong with a run and does not stop it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Something that the operators of a workflow should know, and that does not stop it.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(tag = "warning", rename_all = "snake_case")]
pub enum Warning {
    /// A signal's arguments are not of the type that the code takes: it was passed over.
    #[error("signal {name:?} was skipped: {reason}")]
    SignalSkipped {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The run should continue as new: each replay of it takes longer.
    #[error(
        "the history has {activations} activations and grows: end the run with `continue_as_new` when `continue_as_new_suggested`"
    )]
    LongHistory {
        /// How many there were when it was noted.
        activations: u32,
    },
    /// The run has ended while handlers of updates had not: who sent the updates gets no answer.
    #[error(
        "the run ended before the handlers of {updates} accepted updates: wait for `all_handlers_finished` before it ends"
    )]
    UnfinishedHandlers {
        /// How many.
        updates: u32,
    },
}

/// How many warnings of a run are kept, the newest.
pub(crate) const WARNINGS_KEPT: usize = 16;
