//! Protobuf's JSON form, as the UI, the CLI and the SDKs write it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use seriatim_workflow::{Payload, Time};

use crate::message::{Field, Message, Problem, spelled};

/// A message of which the fields are known by name, in snake or camel case.
pub(crate) struct Json<'a> {
    value: &'a Value,
    problem: Problem,
}

/// `start_to_close_timeout` as `startToCloseTimeout`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        camel.push_str(&first.to_ascii_uppercase());
        camel.push_str(rest);
    }
    camel
}

impl<'a> Json<'a> {
    pub(crate) fn new(value: &'a Value, problem: &Problem) -> Self {
        Self { value, problem: problem.clone() }
    }

    fn get(&self, (_, name): Field) -> Option<&'a Value> {
        let found = self.value.get(name).or_else(|| self.value.get(camel(name)));
        found.filter(|value| !value.is_null())
    }

    fn below(&self, value: &'a Value) -> Self {
        Self::new(value, &self.problem)
    }

    fn wrong<T: Default>(&self, field: Field, value: &Value, wanted: &str) -> T {
        self.problem.note(|| format!("{} is not {wanted}: {value}", field.1));
        T::default()
    }

    /// `{"seconds": …, "nanos": …}`, which some programs write where others write a text.
    fn seconds(&self, value: &'a Value) -> Option<(u64, u32)> {
        let message = value.is_object().then(|| self.below(value))?;
        let seconds = u64::try_from(message.int((1, "seconds"))).ok()?;
        Some((seconds, u32::try_from(message.int((2, "nanos"))).ok()?))
    }
}

impl Message for Json<'_> {
    fn text(&self, field: Field) -> String {
        match self.get(field) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => self.wrong(field, other, "a text"),
        }
    }

    fn int(&self, field: Field) -> i64 {
        let Some(value) = self.get(field) else { return 0 };
        let number = match value {
            Value::String(text) => text.parse().ok(),
            Value::Bool(flag) => Some(i64::from(*flag)),
            other => other.as_i64(),
        };
        number.unwrap_or_else(|| self.wrong(field, value, "a whole number"))
    }

    fn ints(&self, field: Field) -> Vec<i64> {
        let values = self.list(field);
        values
            .iter()
            .filter_map(|json| json.value.as_i64().or_else(|| json.value.as_str()?.parse().ok()))
            .collect()
    }

    fn float(&self, field: Field) -> f64 {
        let Some(value) = self.get(field) else { return 0.0 };
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
        number.unwrap_or_else(|| self.wrong(field, value, "a number"))
    }

    fn choice(&self, field: Field, prefix: &str, names: &[&str]) -> usize {
        match self.get(field) {
            None => 0,
            // A name that is newer than this list is treated as unspecified, as protobuf does.
            Some(Value::String(text)) => spelled(text, prefix, names).unwrap_or(0),
            Some(_) => usize::try_from(self.int(field)).unwrap_or(0),
        }
    }

    fn message(&self, field: Field) -> Option<Self> {
        match self.get(field) {
            Some(value) if value.is_object() => Some(self.below(value)),
            Some(other) => self.wrong(field, other, "an object"),
            None => None,
        }
    }

    fn list(&self, field: Field) -> Vec<Self> {
        match self.get(field) {
            Some(Value::Array(values)) => values.iter().map(|value| self.below(value)).collect(),
            Some(other) => self.wrong(field, other, "a list"),
            None => Vec::new(),
        }
    }

    fn texts(&self, field: Field) -> Vec<String> {
        let values = self.list(field);
        values.iter().filter_map(|json| json.value.as_str().map(str::to_owned)).collect()
    }

    fn entries(&self, field: Field) -> Vec<(String, Self)> {
        match self.get(field) {
            Some(Value::Object(map)) => {
                map.iter().map(|(name, value)| (name.clone(), self.below(value))).collect()
            }
            Some(other) => self.wrong(field, other, "an object"),
            None => Vec::new(),
        }
    }

    fn duration(&self, field: Field) -> Option<Duration> {
        let value = self.get(field)?;
        let (seconds, nanos) = match value {
            Value::String(text) => parse_duration(text),
            other => self.seconds(other),
        }
        .or_else(|| self.wrong(field, value, "a duration"))?;
        Some(Duration::new(seconds, nanos))
    }

    fn time(&self, field: Field) -> Option<Time> {
        let value = self.get(field)?;
        let micros = match value {
            Value::String(text) => parse_time(text),
            other => {
                self.seconds(other).map(|(seconds, nanos)| seconds * 1_000_000 + u64::from(nanos / 1000))
            }
        }
        .or_else(|| self.wrong(field, value, "a time"))?;
        Some(Time::from_micros(micros))
    }

    fn payload(&self) -> Payload {
        Payload::deserialize(self.value)
            .unwrap_or_else(|_| self.wrong((0, "payload"), self.value, "a payload"))
    }

    fn attributes(&self) -> Option<Self> {
        let object = self.value.as_object()?;
        // As protobuf has it: one field whose name says the type.
        let is_attributes =
            |name: &str| name.ends_with("EventAttributes") || name.ends_with("_event_attributes");
        if let Some((_, value)) = object.iter().find(|(name, value)| is_attributes(name) && !value.is_null())
        {
            return Some(self.below(value));
        }
        // As the Rust SDK has it: the same one level below.
        let value = object.get("attributes")?.as_object()?.values().next()?;
        Some(self.below(value))
    }
}

/// `10s`, `1.5s`: seconds and nanoseconds.
fn parse_duration(text: &str) -> Option<(u64, u32)> {
    let (seconds, fraction) =
        text.strip_suffix('s').map(|text| text.split_once('.').unwrap_or((text, "")))?;
    Some((seconds.parse().ok()?, nanos(fraction)?))
}

/// The digits after a decimal point, as nanoseconds.
fn nanos(fraction: &str) -> Option<u32> {
    let digits = fraction.get(..fraction.len().min(9))?;
    if digits.is_empty() {
        return Some(0);
    }
    let scale = 10_u32.pow(u32::try_from(9 - digits.len()).ok()?);
    digits.parse::<u32>().ok().map(|value| value * scale)
}

/// `2026-10-06T13:24:56.515407Z`, or with an offset: microseconds since the Unix epoch.
fn parse_time(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone);
    let numbers = |text: &str, by: char| text.split(by).map(str::parse).collect::<Result<Vec<i64>, _>>().ok();
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let [hour, minute, second] = numbers(clock, ':')?[..] else { return None };
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign, offset) => {
            let [hours, minutes] = numbers(offset, ':')?[..] else { return None };
            (hours * 60 + minutes) * if sign == "-" { -60 } else { 60 }
        }
    };
    // Days since the epoch, counted from March so that the leap day is the last of its year.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let days =
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month + 2) / 5 + day
            - 719_469;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000)?.checked_add(u64::from(nanos(fraction)? / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_durations_are_read() {
        for (text, micros) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00.5Z", 951_825_600_500_000),
            ("2026-10-06T13:24:56.515407Z", 1_791_293_096_515_407),
            ("2026-10-06T15:24:56.515407123+02:00", 1_791_293_096_515_407),
        ] {
            assert_eq!(parse_time(text), Some(micros), "{text}");
        }
        assert_eq!(parse_time("yesterday"), None);
        assert_eq!(parse_duration("10.000000000s"), Some((10, 0)));
        assert_eq!(parse_duration("1.5s"), Some((1, 500_000_000)));
        assert_eq!(parse_duration("1.5"), None);
    }

    #[test]
    fn names_are_read_in_both_cases() {
        assert_eq!(camel("start_to_close_timeout"), "startToCloseTimeout");
        let names = ["Unspecified", "StartToClose", "ScheduleToStart"];
        assert_eq!(spelled("TIMEOUT_TYPE_SCHEDULE_TO_START", "TIMEOUT_TYPE_", &names), Some(2));
        assert_eq!(spelled("ScheduleToStart", "TIMEOUT_TYPE_", &names), Some(2));
        assert_eq!(spelled("Never", "TIMEOUT_TYPE_", &names), None);
    }
}
