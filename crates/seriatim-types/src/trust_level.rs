//! Which writes are conditional.

use std::fmt;
use std::str::FromStr;

/// How far stored numbers are trusted: which writes check first that their place is empty.
///
/// | level | digit | events | new records |
/// |---|---|---|---|
/// | `VerifyAll` | 0 | conditional | conditional |
/// | `VerifyEvents` | 1 | conditional | plain |
/// | `TrustAll` | 2 | plain where the check has a cost | plain |
///
/// Updates of records are plain at every level. "Plain" means without the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TrustLevel {
    /// Events and new records are written only to an empty place. The default.
    #[default]
    VerifyAll,
    /// Events are written only to an empty place; records are overwritten.
    VerifyEvents,
    /// Nothing is checked where the check has a cost.
    TrustAll,
}

/// Why a text is not a trust level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown trust level {found:?}: use verify-all, verify-events or trust-all, or 0, 1 or 2")]
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
        match text {
            "verify-all" | "0" => Ok(Self::VerifyAll),
            "verify-events" | "1" => Ok(Self::VerifyEvents),
            "trust-all" | "2" => Ok(Self::TrustAll),
            _ => Err(ParseTrustLevelError { found: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_verifies_what_its_table_says() {
        let table = [
            ("verify-all", "0", true, true),
            ("verify-events", "1", true, false),
            ("trust-all", "2", false, false),
        ];
        for (name, digit, events, records) in table {
            let level: TrustLevel = name.parse().unwrap();
            assert_eq!(digit.parse(), Ok(level));
            assert_eq!((level.verifies_events(), level.verifies_records()), (events, records), "{name}");
            assert_eq!(level.to_string(), name);
        }
        assert_eq!(TrustLevel::default(), TrustLevel::VerifyAll);
        for wrong in ["VerifyAll", "3", "-1", "00", ""] {
            let error = wrong.parse::<TrustLevel>().unwrap_err();
            let advice = "use verify-all, verify-events or trust-all, or 0, 1 or 2";
            assert_eq!(error.to_string(), format!("unknown trust level {wrong:?}: {advice}"));
        }
    }
}
