//! What kind of trouble an error is.

use std::fmt;

/// What a caller can do about an error. Every public error of Seriatim answers `kind()`.
///
/// HTTP status, exit code and retry policy are functions of the kind, each in one exhaustive match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Too much is under way. Nothing was done; try again after a moment.
    Busy,
    /// A part that is needed cannot be reached or refuses to work: storage unreachable or nearly full, a partition
    /// stopped. Nothing was done; somebody has to look before it helps to try again.
    Unavailable,
    /// What the caller expected is not what is there. Nothing was done; read again and decide.
    Conflict,
    /// The request itself is wrong. Nothing was done; mend the request.
    Invalid,
    /// What was asked for does not exist.
    NotFound,
    /// Stored data contradicts itself. Nothing was changed; run `seriatim doctor`.
    Corrupt,
    /// There are no more numbers. Nothing was done; widen the range.
    Exhausted,
    /// Larger than a limit allows. Nothing was done; send less at once.
    TooLarge,
    /// A restored copy that nobody has unfenced. It reads, and issues nothing until `seriatim unfence`.
    Fenced,
    /// It may have happened and it may not. Ask the log, or repeat with the same idempotency key.
    InDoubt,
    /// The caller is not known. Bring a valid token.
    Unauthorized,
    /// The caller is known and may not. Ask for a token with the right scope.
    Forbidden,
    /// A defect of Seriatim. Please report it.
    Internal,
    /// The thing has been closed. Open it again.
    Closed,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::Corrupt => "corrupt",
            Self::Exhausted => "exhausted",
            Self::TooLarge => "too_large",
            Self::Fenced => "fenced",
            Self::InDoubt => "in_doubt",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Internal => "internal",
            Self::Closed => "closed",
        })
    }
}
