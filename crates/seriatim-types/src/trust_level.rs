//! Which writes are conditional.

use std::fmt;
use std::str::FromStr;

/// How far stored numbers are trusted: which writes check that nothing is there yet.
///
/// | level | events | new records |
/// |---|---|---|
/// | `VerifyAll` | conditional | conditional |
/// | `VerifyEvents` | conditional | plain |
/// | `TrustAll` | plain where the check costs | plain |
///
/// Updates of records are plain at every level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TrustLevel {
    /// Events and new records are written only where nothing is. The default.
    #[default]
    VerifyAll,
    /// Events are written only where nothing is; records are overwritten.
    VerifyEvents,
    /// Nothing is verified where verifying costs.
    TrustAll,
}

/// Why a text is not a trust level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown trust level {found:?}: use verify-all, verify-events or trust-all")]
pub struct ParseTrustLevelError {
    /// The text.
    pub found: String,
}

impl TrustLevel {
    /// Whether events are written conditionally.
    #[must_use]
    pub const fn verifies_events(self) -> bool {
        match self {
            Self::VerifyAll | Self::VerifyEvents => true,
            Self::TrustAll => false,
        }
    }

    /// Whether new records are written conditionally.
    #[must_use]
    pub const fn verifies_records(self) -> bool {
        match self {
            Self::VerifyAll => true,
            Self::VerifyEvents | Self::TrustAll => false,
        }
    }
}

impl fmt::Display for TrustLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VerifyAll => "verify-all",
            Self::VerifyEvents => "verify-events",
            Self::TrustAll => "trust-all",
        })
    }
}

impl FromStr for TrustLevel {
    type Err = ParseTrustLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::VerifyAll, Self::VerifyEvents, Self::TrustAll]
            .into_iter()
            .find(|level| level.to_string() == text)
            .ok_or_else(|| ParseTrustLevelError { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_verifies_what_its_table_says() {
        let table = [("verify-all", true, true), ("verify-events", true, false), ("trust-all", false, false)];
        for (name, events, records) in table {
            let level: TrustLevel = name.parse().unwrap();
            assert_eq!((level.verifies_events(), level.verifies_records()), (events, records), "{name}");
            assert_eq!(level.to_string(), name);
        }
        assert_eq!(TrustLevel::default(), TrustLevel::VerifyAll);
        let error = "VerifyAll".parse::<TrustLevel>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown trust level \"VerifyAll\": use verify-all, verify-events or trust-all"
        );
    }
}
