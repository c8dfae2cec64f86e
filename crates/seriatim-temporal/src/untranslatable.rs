//! Values that one side has and the other cannot represent.

use thiserror::Error;

/// Something that cannot be carried between a run and the core. It fails the workflow task in which it came up, and
/// nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Untranslatable {
    /// The core left out what it promises.
    #[error("the message {message} of Temporal's SDK core has no {field}")]
    Missing {
        /// Which message.
        message: &'static str,
        /// What it lacks.
        field: &'static str,
    },
    /// The core uses a number that is not in its own list.
    #[error(
        "{field} of a message of Temporal's SDK core is {value}, which is not known here: this worker is older than the server"
    )]
    UnknownNumber {
        /// Which list.
        field: &'static str,
        /// The number.
        value: i32,
    },
    /// A value that the receiving side cannot hold.
    #[error("{what} is out of range: {value}")]
    OutOfRange {
        /// What.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// Something that only one side has.
    #[error("{what} is not supported on Temporal by this worker: {instead}")]
    Refused {
        /// What.
        what: String,
        /// What to do.
        instead: &'static str,
    },
}
