//! What is wrong with a run and does not stop it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Something that the people who run a workflow should hear of, and that does not stop it.
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
}

/// How many warnings of a run are kept, the newest.
pub(crate) const WARNINGS_KEPT: usize = 16;
