//! Kinds of errors, by what the caller can do.

use std::fmt;

/// What a caller can do about an error. Every public error of Seriatim has a method `kind()`.
///
/// HTTP status, exit code and retry policy are functions of the kind, each in one exhaustive match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Too much is in progress. Nothing was done; try again after a short time.
    Busy,
    /// A part that is needed cannot be reached or does not work: storage unreachable or nearly full, a partition
    /// stopped. Nothing was done. An operator has to fix the cause before a retry can succeed.
    Unavailable,
    /// The stored state is not what the caller expected. Nothing was done; read again and decide.
    Conflict,
    /// The request itself is wrong. Nothing was done; correct the request.
    Invalid,
    /// What was asked for does not exist.
    NotFound,
    /// Stored data contradicts itself. Nothing was changed; run `seriatim doctor`.
    Corrupt,
    /// The sequence or range has no more numbers. Nothing was done; widen the range.
    Exhausted,
    /// Larger than a limit allows. Nothing was done; send less in one request.
    TooLarge,
    /// The storage is a restored copy that is still fenced. It can be read, and issues nothing until `seriatim unfence`.
    Fenced,
    /// It may have happened or not. Read the log, or repeat the request with the same idempotency key.
    InDoubt,
    /// The caller is not known. Send a valid token.
    Unauthorized,
    /// The caller is known and lacks the permission. Use a token with the right scope.
    Forbidden,
    /// A defect of Seriatim. Please report it.
    Internal,
    /// The component has been closed. Open it again.
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
