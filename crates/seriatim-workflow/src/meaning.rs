//! Inputs compared by what they mean, not by their bytes.
//!
//! Two JSON values are the same if they hold the same values: the order of keys, white space, the way a character is
//! escaped and the way a number is written (`1`, `1.0`, `10e-1`) do not count. Numbers are compared digit by digit, so that
//! two that only a large integer can tell apart are two. A key with `null` is not the same as no key. No argument is the
//! same as one argument that is `null`, as [`Payload::decode_all`] has it. Other encodings are compared by their bytes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{InputDigest, Payload};

/// Values nested deeper are compared by their bytes: what others have written must not use up the stack.
const DEPTH_MAX: usize = 128;

/// How many letters of a value are shown where two differ.
const VALUE_SHOWN: usize = 60;

/// How many letters of an input are shown.
const INPUT_SHOWN: usize = 120;

/// Shown in place of a value that is absent.
const NOTHING: &str = "nothing";

/// The first place at which two inputs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueDifference {
    /// Where, as `.items[2].price`; empty for the value as a whole. Of several arguments each has a place: `[1].price`.
    pub path: String,
    /// What the history has there, shortened.
    pub expected: String,
    /// What the code gives there, shortened.
    pub actual: String,
}

impl ValueDifference {
    fn new(path: &str, expected: &str, actual: &str) -> Self {
        let longest = expected.chars().count().max(actual.chars().count());
        let same = expected.chars().zip(actual.chars()).take_while(|(a, b)| a == b).count();
        // Of long texts the part that differs is shown, with a little of what comes before it.
        let skip = if longest > VALUE_SHOWN { same.saturating_sub(VALUE_SHOWN / 3) } else { 0 };
        let [expected, actual] = [expected, actual].map(|text| excerpt(text, skip, VALUE_SHOWN));
        Self { path: path.to_owned(), expected, actual }
    }
}

impl fmt::Display for ValueDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} ≠ {}", self.expected, self.actual)
    }
}

/// The first place at which two inputs differ; none if they mean the same.
pub(crate) fn first_difference(expected: &[Payload], actual: &[Payload]) -> Option<ValueDifference> {
    let mut path = String::new();
    if expected.len() <= 1 && actual.len() <= 1 {
        let null = Payload::null();
        let one = |input: &[Payload]| input.first().unwrap_or(&null).clone();
        return payloads(&mut path, &one(expected), &one(actual));
    }
    for at in 0..expected.len().max(actual.len()) {
        path = format!("[{at}]");
        let found = match (expected.get(at), actual.get(at)) {
            (Some(expected), Some(actual)) => payloads(&mut path, expected, actual),
            (Some(expected), None) => Some(ValueDifference::new(&path, &shown(expected), NOTHING)),
            (None, actual) => {
                Some(ValueDifference::new(&path, NOTHING, &actual.map_or_else(String::new, shown)))
            }
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn payloads(path: &mut String, expected: &Payload, actual: &Payload) -> Option<ValueDifference> {
    let is_same_encoding = expected.encoding() == actual.encoding();
    if is_same_encoding && expected.data == actual.data || expected.is_null() && actual.is_null() {
        return None;
    }
    match (json(expected), json(actual)) {
        (Some(expected), Some(actual)) if is_same_encoding => values(path, expected, actual, 0),
        _ => Some(ValueDifference::new(path, &shown(expected), &shown(actual))),
    }
}

/// The payload's value, if it is JSON.
fn json(payload: &Payload) -> Option<&RawValue> {
    payload.encoding()?.starts_with("json/").then_some(())?;
    serde_json::from_slice(&payload.data).ok()
}

/// Compares two values. `path` is as it was when this returns none.
fn values(
    path: &mut String,
    expected: &RawValue,
    actual: &RawValue,
    depth: usize,
) -> Option<ValueDifference> {
    let (a, b) = (expected.get(), actual.get());
    if a == b {
        return None;
    }
    let kind = |text: &str| text.bytes().next().unwrap_or_default();
    match (kind(a), kind(b)) {
        (b'{', b'{') if depth < DEPTH_MAX => {
            if let (Some(a), Some(b)) = (parse(a), parse(b)) {
                return objects(path, &a, &b, depth);
            }
        }
        (b'[', b'[') if depth < DEPTH_MAX => {
            if let (Some(a), Some(b)) = (parse(a), parse(b)) {
                return lists(path, &a, &b, depth);
            }
        }
        (b'"', b'"') => {
            if parse::<String>(a).is_some_and(|a| Some(a) == parse(b)) {
                return None;
            }
        }
        _ => {
            if number(a).is_some_and(|a| Some(a) == number(b)) {
                return None;
            }
        }
    }
    Some(ValueDifference::new(path, a, b))
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

type Object<'a> = BTreeMap<String, &'a RawValue>;

fn objects(
    path: &mut String,
    expected: &Object<'_>,
    actual: &Object<'_>,
    depth: usize,
) -> Option<ValueDifference> {
    let added = actual.keys().filter(|key| !expected.contains_key(*key));
    for key in expected.keys().chain(added) {
        let (a, b) = (expected.get(key).copied(), actual.get(key).copied());
        let found = step(path, &key_step(key), a, b, depth);
        if found.is_some() {
            return found;
        }
    }
    None
}

fn lists(
    path: &mut String,
    expected: &Vec<&RawValue>,
    actual: &Vec<&RawValue>,
    depth: usize,
) -> Option<ValueDifference> {
    (0..expected.len().max(actual.len())).find_map(|at| {
        step(path, &format!("[{at}]"), expected.get(at).copied(), actual.get(at).copied(), depth)
    })
}

/// Compares what is below two values at one place.
fn step(
    path: &mut String,
    step: &str,
    expected: Option<&RawValue>,
    actual: Option<&RawValue>,
    depth: usize,
) -> Option<ValueDifference> {
    let len = path.len();
    path.push_str(step);
    let found = match (expected, actual) {
        (Some(expected), Some(actual)) => values(path, expected, actual, depth + 1),
        (expected, actual) => {
            let text = |value: Option<&RawValue>| value.map_or(NOTHING, RawValue::get).to_owned();
            Some(ValueDifference::new(path, &text(expected), &text(actual)))
        }
    };
    path.truncate(len);
    found
}

/// `.price`, or `["unit price"]` where the key is no plain name.
fn key_step(key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    if is_plain { format!(".{key}") } else { format!("[{:?}]", excerpt(key, 0, VALUE_SHOWN)) }
}

/// A number as its sign, its digits without zeros at either end, and the power of ten of the last digit.
fn number(text: &str) -> Option<(bool, String, i64)> {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    if !text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    let last = exponent.parse::<i64>().ok()?.checked_sub_unsigned(fraction.len() as u64)?;
    let last = last.checked_add_unsigned((digits.len() - significant.len()) as u64)?;
    Some((is_negative, significant.to_owned(), last))
}

/// An input for people, shortened; of several arguments, a tuple.
pub(crate) fn shown_input(input: &[Payload]) -> String {
    let text = match input {
        [one] => shown(one),
        several => format!("({})", several.iter().map(shown).collect::<Vec<_>>().join(", ")),
    };
    let bytes: usize = input.iter().map(|payload| payload.data.len()).sum();
    let is_cut = text.chars().nth(INPUT_SHOWN).is_some();
    let size = if is_cut { format!(" ({bytes} bytes)") } else { String::new() };
    excerpt(&text, 0, INPUT_SHOWN) + &size
}

/// A payload for people: its JSON, or what its bytes are.
fn shown(payload: &Payload) -> String {
    if payload.is_null() {
        return "null".to_owned();
    }
    if let Some(json) = json(payload) {
        return json.get().to_owned();
    }
    let (encoding, bytes) = (payload.encoding().unwrap_or("no encoding"), payload.data.len());
    format!("{encoding}, {bytes} bytes, SHA-256 {}", InputDigest::of(std::slice::from_ref(payload)).short())
}

/// A part of a text on one line, with dots where something is left out.
fn excerpt(text: &str, skip: usize, max: usize) -> String {
    let letters = text.chars().skip(skip).take(max);
    let letters = letters.map(|letter| if letter.is_control() { ' ' } else { letter });
    let before = if skip > 0 { "…" } else { "" };
    let after = if text.chars().nth(skip + max).is_some() { "…" } else { "" };
    format!("{before}{}{after}", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> Payload {
        Payload::encoded("json/plain", json.to_owned())
    }

    fn difference(expected: &str, actual: &str) -> String {
        let found = first_difference(&[text(expected)], &[text(actual)]);
        found.map(|found| found.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_same_values_in_other_bytes_are_the_same() {
        for (one, other) in [
            (r#"{"a": 1, "b": [2, {"c": 3, "d": 4}]}"#, r#"{"b":[2,{"d":4,"c":3}],"a":1}"#),
            (r#""é/\n""#, r#""\u00e9\/\u000a""#),
            (r#"{"é": 1}"#, r#"{"\u00e9": 1}"#),
            ("1", "1.0"),
            ("100", "1e2"),
            ("-0.5", "-5.0E-1"),
            ("0", "-0.0"),
            ("340282366920938463463374607431768211455", "340282366920938463463374607431768211455.0"),
            ("null", " null "),
            (" [ ] ", "[]"),
        ] {
            assert_eq!(difference(one, other), "", "{one} {other}");
            assert_eq!(difference(other, one), "", "{other} {one}");
        }
    }

    #[test]
    fn the_first_place_that_differs_is_difference() {
        for (expected, actual, place) in [
            (
                r#"{"items":[{"price":1},{"price":2},{"price":10}],"z":1}"#,
                r#"{"z":2,"items":[{"price":1},{"price":2},{"price":12}]}"#,
                ".items[2].price: 10 ≠ 12",
            ),
            ("10", "12", "10 ≠ 12"),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#, ".b: nothing ≠ null"),
            (r#"{"a":1,"b":null}"#, r#"{"a":1}"#, ".b: null ≠ nothing"),
            ("[1,2]", "[1,2,3]", "[2]: nothing ≠ 3"),
            (r#"{"unit price":1}"#, r#"{"unit price":"1"}"#, r#"["unit price"]: 1 ≠ "1""#),
            // No float can tell these apart.
            ("18446744073709551617", "18446744073709551618", "18446744073709551617 ≠ 18446744073709551618"),
            ("9007199254740993", "9007199254740992.0", "9007199254740993 ≠ 9007199254740992.0"),
            ("0.1", "0.10000000000000000000001", "0.1 ≠ 0.10000000000000000000001"),
            (
                "1e99999999999999999999",
                "1e99999999999999999998",
                "1e99999999999999999999 ≠ 1e99999999999999999998",
            ),
            ("true", "false", "true ≠ false"),
            ("{\n\"a\": 1}", "[1]", "{ \"a\": 1} ≠ [1]"),
            // Not JSON, whatever the encoding says.
            ("{", "[", "json/plain, 1 bytes"),
        ] {
            assert!(
                difference(expected, actual).starts_with(place),
                "{} {place}",
                difference(expected, actual)
            );
        }
    }

    #[test]
    fn the_part_of_a_long_text_that_differs_is_shown() {
        let long = |end: &str| format!("\"{}{end}\"", "a".repeat(500));
        let found = difference(&long("x"), &long("y"));
        assert_eq!(found, "…aaaaaaaaaaaaaaaaaaaax\" ≠ …aaaaaaaaaaaaaaaaaaaay\"");
        assert_eq!(shown_input(&[text(&long("x"))]), format!("\"{}… (503 bytes)", "a".repeat(119)));
    }

    #[test]
    fn no_argument_is_null_and_several_are_compared_each() {
        let (one, two) = (text("1"), text("2"));
        assert_eq!(first_difference(&[], &[Payload::null()]), None);
        assert_eq!(first_difference(&[text("null")], &[]), None);
        let difference = |a: &[Payload], b: &[Payload]| first_difference(a, b).unwrap().to_string();
        assert_eq!(difference(&[one.clone(), one.clone()], &[one.clone(), two.clone()]), "[1]: 1 ≠ 2");
        assert_eq!(difference(std::slice::from_ref(&one), &[one.clone(), two]), "[1]: nothing ≠ 2");
        assert_eq!(difference(std::slice::from_ref(&one), &[]), "1 ≠ null");
        assert_eq!(difference(&[one.clone(), one.clone()], &[]), "[0]: 1 ≠ nothing");
    }

    #[test]
    fn other_encodings_are_compared_by_their_bytes() {
        let bytes = |data: &'static [u8]| [Payload::encoded("binary/plain", data)];
        assert_eq!(first_difference(&bytes(b"1"), &bytes(b"1")), None);
        let found = first_difference(&bytes(b"1"), &bytes(b"1.0")).unwrap().to_string();
        assert!(found.starts_with("binary/plain, 1 bytes, SHA-256 "), "{found}");
        // The same bytes in another encoding are another input.
        assert!(first_difference(&bytes(b"1"), &[text("1")]).is_some());
    }

    #[test]
    fn values_that_are_nested_too_deep_are_compared_by_their_bytes() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(20_000), "]".repeat(20_000));
        assert!(first_difference(&[text(&deep("1"))], &[text(&deep(" 1"))]).is_some());
        assert_eq!(first_difference(&[text(&deep("1"))], &[text(&deep("1"))]), None);
    }
}
