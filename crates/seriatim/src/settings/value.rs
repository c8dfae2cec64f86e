//! Kinds of settings, and how their values are read from text.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use seriatim::StorageUrl;
use seriatim_types::TrustLevel;

/// The kind of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Address,
    Storage,
    Directory,
    File,
    /// Any number of files; the only kind that can have more than one value.
    Files,
    Choice(&'static [&'static str]),
    Filter,
    TrustLevel,
    Count,
    /// A count between these two, both included.
    CountOf(u64, u64),
    Duration,
    /// A duration above 0.
    Timeout,
    DurationOrForever,
    Url,
    Secret,
}

impl Kind {
    /// Checks whether a text is a value of this kind; the error says what is wrong.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Address => ListenAddress::read(text).map(drop),
            Self::Storage => StorageUrl::read(text).map(drop),
            Self::Directory | Self::File | Self::Files | Self::Secret if text.is_empty() => {
                Err("it is empty".to_owned())
            }
            Self::Directory | Self::File | Self::Files | Self::Secret => Ok(()),
            Self::Choice(choices) if choices.contains(&text) => Ok(()),
            Self::Choice(choices) => Err(format!("{text:?} is not one of {}", choices.join(", "))),
            Self::Filter => check_filter(text),
            Self::TrustLevel => TrustLevel::read(text).map(drop),
            Self::Count => u64::read(text).map(drop),
            Self::CountOf(min, max) => match u64::read(text)? {
                count if (min..=max).contains(&count) => Ok(()),
                _ => Err(format!("{text} is not a number from {min} to {max}")),
            },
            Self::Timeout if Duration::read(text)?.is_zero() => {
                Err(format!("{text:?} leaves no time: use a duration above 0"))
            }
            Self::Timeout | Self::Duration => Duration::read(text).map(drop),
            Self::DurationOrForever
                if Option::<Duration>::read(text)?.is_some_and(|window| window.is_zero()) =>
            {
                Err(format!("{text:?} keeps nothing: use a duration above 0, or forever"))
            }
            Self::DurationOrForever => Ok(()),
            Self::Url => seriatim_client::ServerUrl::read(text).map(drop),
        }
    }

    /// The placeholder of a value in `--help`.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            Self::Address => "ADDRESS",
            Self::Storage | Self::Url => "URL",
            Self::Directory => "DIR",
            Self::File | Self::Files => "FILE",
            Self::Choice(_) => "FORMAT",
            Self::Filter | Self::TrustLevel => "LEVEL",
            Self::Count | Self::CountOf(..) => "N",
            Self::Timeout | Self::Duration | Self::DurationOrForever => "DURATION",
            Self::Secret => "TOKEN",
        }
    }
}

/// A type that settings are read as.
pub(crate) trait Read: Sized {
    /// Reads the value; the error says what is wrong with the text.
    fn read(text: &str) -> Result<Self, String>;
}

/// The address to listen on: an IP address or the name of a host, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenAddress(String);

impl ListenAddress {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Read for ListenAddress {
    fn read(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !name.is_empty()
                && name.bytes().all(letter)
                && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        };
        let named = |(host, port): (&str, &str)| is_name(host) && port.parse::<u16>().is_ok();
        if text.parse::<SocketAddr>().is_ok() || text.rsplit_once(':').is_some_and(named) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("{text:?} is not an address with a port, such as 127.0.0.1:7400 or localhost:7400"))
    }
}

/// The names of levels, as filters have them.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Refuses a word that is not a level: the filter would take it for the name of a part, and silence everything else.
fn check_filter(text: &str) -> Result<(), String> {
    let advice = "use error, warn, info, debug or trace, also by part (warn,seriatim_engine=debug)";
    let parsed = text.parse::<tracing_subscriber::EnvFilter>();
    parsed.map_err(|error| format!("{text:?} is not a filter ({error}): {advice}"))?;
    // A part with brackets names spans; the others are PART=LEVEL, or a level for everything.
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let wrong = |word: &&str| !word.contains(['=', '[']) && !is_level(word);
    match text.split(',').map(str::trim).find(wrong) {
        Some(word) if !text.contains('[') => Err(format!("{word:?} is not a level: {advice}")),
        _ => Ok(()),
    }
}

impl Read for StorageUrl {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: seriatim::ParseStorageUrlError| error.to_string())
    }
}

impl Read for TrustLevel {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: seriatim_types::ParseTrustLevelError| error.to_string())
    }
}

impl Read for seriatim_client::ServerUrl {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: seriatim_client::ParseServerUrlError| error.to_string())
    }
}

impl Read for u64 {
    fn read(text: &str) -> Result<Self, String> {
        // TOML allows underscores in numbers.
        let digits = text.replace('_', "");
        digits.parse().map_err(|_| format!("{text:?} is not a whole number"))
    }
}

impl Read for u16 {
    fn read(text: &str) -> Result<Self, String> {
        u64::read(text)?.try_into().map_err(|_| format!("{text} is too large"))
    }
}

impl Read for usize {
    fn read(text: &str) -> Result<Self, String> {
        u64::read(text)?.try_into().map_err(|_| format!("{text} is too large for this machine"))
    }
}

impl Read for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl Read for Duration {
    fn read(text: &str) -> Result<Self, String> {
        seriatim_api::parse_duration(text)
    }
}

impl Read for Option<Duration> {
    fn read(text: &str) -> Result<Self, String> {
        if text == "forever" { Ok(None) } else { Duration::read(text).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_may_be_forever_where_that_is_allowed() {
        assert_eq!(Option::<Duration>::read("forever"), Ok(None));
        assert_eq!(Option::<Duration>::read("7d"), Ok(Some(Duration::from_secs(604_800))));
        assert!(Duration::read("forever").is_err());
    }

    #[test]
    fn the_error_of_a_wrong_value_says_how_a_right_one_is_written() {
        let table = [
            (
                Kind::Address,
                "localhost",
                "\"localhost\" is not an address with a port, such as 127.0.0.1:7400 or localhost:7400",
            ),
            (Kind::Count, "many", "\"many\" is not a whole number"),
            (Kind::Choice(&["text", "json"]), "xml", "\"xml\" is not one of text, json"),
            (Kind::Duration, "5", "\"5\" is not a duration, such as 200ms, 30s, 15m, 12h or 7d"),
            (Kind::File, "", "it is empty"),
            (Kind::CountOf(1, 9), "0", "0 is not a number from 1 to 9"),
            (Kind::CountOf(1, 9), "10", "10 is not a number from 1 to 9"),
            (Kind::DurationOrForever, "0s", "\"0s\" keeps nothing: use a duration above 0, or forever"),
            (Kind::Timeout, "0ms", "\"0ms\" leaves no time: use a duration above 0"),
            (
                Kind::Filter,
                "loud",
                "\"loud\" is not a level: use error, warn, info, debug or trace, also by part (warn,seriatim_engine=debug)",
            ),
        ];
        for (kind, text, expected) in table {
            assert_eq!(kind.check(text), Err(expected.to_owned()));
        }
        assert_eq!(Kind::Count.check("1_000"), Ok(()));
        assert!(Kind::Filter.check("warn,seriatim=debug").is_ok());
        assert!(Kind::Filter.check("seriatim=loud").is_err());
        assert!(Kind::Filter.check("").is_err(), "an empty filter would silence everything");
        assert!(Kind::Filter.check("warn,seriatim_engine").is_err());
        assert!(Kind::Filter.check("INFO").is_ok() && Kind::Filter.check("off").is_ok());
        assert!(Kind::Filter.check("warn,[request{status=500}]=debug").is_ok());
        for fine in ["127.0.0.1:0", "[::1]:7400", "localhost:7602", "numbers.example.com:443"] {
            assert_eq!(Kind::Address.check(fine), Ok(()), "{fine}");
        }
        for wrong in
            ["", ":7400", "localhost:", "localhost:99999", "256.0.0.1:1", "::1:7400", "a b:1", "http://a:1"]
        {
            assert!(Kind::Address.check(wrong).is_err(), "{wrong}");
        }
    }
}
