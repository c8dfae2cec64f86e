//! Durations as text: a number and a unit, such as `200ms`, `30s`, `15m`, `12h` or `7d`.

use std::time::Duration;

/// Units, in milliseconds; the largest last.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a duration; the error says how a duration is written.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(seriatim_api::parse_duration("15m"), Ok(Duration::from_secs(900)));
/// assert!(seriatim_api::parse_duration("soon").is_err());
/// ```
///
/// # Errors
///
/// A sentence that quotes the text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration, such as 200ms, 30s, 15m, 12h or 7d");
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (count, unit) = text.split_at(digits);
    let count: u64 = count.parse().map_err(|_| wrong())?;
    let (_, millis) = UNITS.into_iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?;
    count.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)
}

/// Writes a duration in the largest unit that divides it. Parts of a millisecond are rounded up.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(seriatim_api::duration_text(Duration::from_secs(900)), "15m");
/// assert_eq!(seriatim_api::duration_text(Duration::from_micros(1)), "1ms");
/// ```
#[must_use]
pub fn duration_text(duration: Duration) -> String {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    let fits = |(_, unit): &&(&str, u64)| millis > 0 && millis.is_multiple_of(u128::from(*unit));
    let (name, unit) = UNITS.iter().rev().find(fits).unwrap_or(&("s", 1_000));
    format!("{}{name}", millis / u128::from(*unit))
}

/// For `#[serde(with = …)]`: a duration that is required.
pub(crate) mod required {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::duration_text(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_duration(&text).map_err(serde::de::Error::custom)
    }
}

/// For `#[serde(with = …)]`: a duration that may be absent.
pub(crate) mod optional {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde wants a reference")]
    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::required::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::parse_duration(&text)).transpose().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let table = [
            ("200ms", Some(Duration::from_millis(200))),
            ("30s", seconds(30)),
            ("15m", seconds(900)),
            ("12h", seconds(43_200)),
            ("7 d", seconds(604_800)),
            ("0s", seconds(0)),
            ("30", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("1.5s", None),
            ("3w", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_duration(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["0s", "1ms", "999ms", "1s", "90s", "2m", "25h", "3d"] {
            assert_eq!(duration_text(parse_duration(text).unwrap()), text);
        }
        assert!(parse_duration(&duration_text(Duration::MAX)).is_err(), "too long to be sent");
    }
}
