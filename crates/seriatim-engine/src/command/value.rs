//! Values of fields.

use bytes::BufMut;
use jiff::Timestamp as Moment;
use rust_decimal::Decimal;
use serde_json::Value as Json;
use seriatim_types::{RecordId, Timestamp};

use crate::command::codec::{BadBytes, Reader, Write};
use crate::definition::FieldKind;

/// The value of a field, of the type that the definition gives the field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value: an update removes the value of the field.
    Null,
    /// Text.
    Text(Box<str>),
    /// A whole number.
    Integer(i64),
    /// A decimal number, with the digits that the client sent.
    Decimal(Decimal),
    /// True or false.
    Bool(bool),
    /// A point in time.
    Timestamp(Timestamp),
    /// Another record. A raw id until its command is staged.
    Reference(RecordId),
    /// JSON, as text.
    Json(Box<str>),
}

const NULL: u8 = 0;
const TEXT: u8 = 1;
const INTEGER: u8 = 2;
const DECIMAL: u8 = 3;
const NO: u8 = 4;
const YES: u8 = 5;
const TIMESTAMP: u8 = 6;
const REFERENCE: u8 = 7;
const JSON: u8 = 8;

impl Value {
    pub(crate) fn encode(&self, buffer: &mut Vec<u8>) {
        match self {
            Self::Null => buffer.put_u8(NULL),
            Self::Text(text) => {
                buffer.put_u8(TEXT);
                buffer.put_text(text);
            }
            Self::Integer(value) => {
                buffer.put_u8(INTEGER);
                buffer.put_signed(*value);
            }
            Self::Decimal(value) => {
                buffer.put_u8(DECIMAL);
                buffer.put_slice(&value.serialize());
            }
            Self::Bool(value) => buffer.put_u8(if *value { YES } else { NO }),
            Self::Timestamp(value) => {
                buffer.put_u8(TIMESTAMP);
                buffer.put_varint(value.as_millis());
            }
            Self::Reference(id) => {
                buffer.put_u8(REFERENCE);
                buffer.put_varint(id.get());
            }
            Self::Json(text) => {
                buffer.put_u8(JSON);
                buffer.put_text(text);
            }
        }
    }

    /// The largest number of bytes that are written for it and the number of its field.
    pub(crate) fn size_max(&self) -> usize {
        const NUMBERS: usize = 32;
        match self {
            Self::Text(text) | Self::Json(text) => NUMBERS + text.len(),
            _ => NUMBERS,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, BadBytes> {
        Ok(match reader.u8("field type")? {
            NULL => Self::Null,
            TEXT => Self::Text(reader.text("text")?.into()),
            INTEGER => Self::Integer(reader.signed("integer")?),
            DECIMAL => {
                let bytes = reader.bytes(16, "decimal")?.try_into().map_err(|_| BadBytes("decimal"))?;
                Self::Decimal(Decimal::deserialize(bytes))
            }
            NO => Self::Bool(false),
            YES => Self::Bool(true),
            TIMESTAMP => Self::Timestamp(Timestamp::from_millis(reader.varint("timestamp")?)),
            REFERENCE => Self::Reference(RecordId::new(reader.varint("reference")?)),
            JSON => Self::Json(reader.text("json")?.into()),
            _ => return Err(BadBytes("field type")),
        })
    }

    /// Reads the value that a client sent for a field. The error says what was expected.
    pub(crate) fn from_json(kind: &FieldKind, json: &Json) -> Result<Self, &'static str> {
        match (kind, json) {
            (FieldKind::Text, Json::String(text)) => Ok(Self::Text(text.as_str().into())),
            (FieldKind::Text, _) => Err("a string"),
            (FieldKind::Integer, json) => json.as_i64().map(Self::Integer).ok_or("a whole number"),
            (FieldKind::Decimal, Json::String(text)) => {
                Decimal::from_str_exact(text).map(Self::Decimal).map_err(|_| DECIMAL_EXPECTED)
            }
            (FieldKind::Decimal, Json::Number(number)) => {
                Decimal::from_str_exact(&number.to_string()).map(Self::Decimal).map_err(|_| DECIMAL_EXPECTED)
            }
            (FieldKind::Decimal, _) => Err(DECIMAL_EXPECTED),
            (FieldKind::Bool, json) => json.as_bool().map(Self::Bool).ok_or("true or false"),
            (FieldKind::Timestamp, json) => json
                .as_str()
                .and_then(|text| text.parse::<Moment>().ok())
                .and_then(|moment| u64::try_from(moment.as_millisecond()).ok())
                .map(|millis| Self::Timestamp(Timestamp::from_millis(millis)))
                .ok_or("a moment such as \"2026-11-15T18:00:00Z\", not before 1970"),
            (FieldKind::Reference(_), json) => match json.as_u64() {
                Some(id) if id > 0 => Ok(Self::Reference(RecordId::new(id))),
                _ => Err("the id of a record"),
            },
            (FieldKind::Json, json) => Ok(Self::Json(json.to_string().into())),
        }
    }

    /// The value as JSON, for clients.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Text(text) => Json::from(&**text),
            Self::Integer(value) => Json::from(*value),
            Self::Decimal(value) => Json::from(value.to_string()),
            Self::Bool(value) => Json::from(*value),
            Self::Timestamp(value) => Json::from(moment(*value)),
            Self::Reference(id) => Json::from(id.get()),
            // Written by this program, so it parses.
            Self::Json(text) => serde_json::from_str(text).unwrap_or(Json::Null),
        }
    }
}

const DECIMAL_EXPECTED: &str = "a decimal number, best as a string such as \"99.50\", of at most 28 digits";

/// A point in time as text, with milliseconds, in UTC.
#[must_use]
pub fn moment(time: Timestamp) -> String {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    match Moment::from_millisecond(millis) {
        Ok(moment) => format!("{moment:.3}"),
        // Later than the calendar ends: the number is shown instead.
        Err(_) => format!("{millis} ms after 1970"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<String>().prop_map(|text| Value::Text(text.into())),
            any::<i64>().prop_map(Value::Integer),
            (any::<i64>(), 0u32..=20).prop_map(|(digits, scale)| Value::Decimal(Decimal::new(digits, scale))),
            any::<bool>().prop_map(Value::Bool),
            any::<u64>().prop_map(|millis| Value::Timestamp(Timestamp::from_millis(millis))),
            any::<u64>().prop_map(|id| Value::Reference(RecordId::new(id))),
            any::<i32>().prop_map(|n| Value::Json(json!({ "n": n }).to_string().into())),
        ]
    }

    proptest! {
        #[test]
        fn values_round_trip(value in any_value()) {
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            let mut reader = Reader(&bytes);
            prop_assert_eq!(Value::decode(&mut reader), Ok(value));
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = Value::decode(&mut Reader(&bytes));
        }
    }

    #[test]
    fn what_a_client_sends_has_to_fit_the_field() {
        for (kind, json, fits) in [
            (FieldKind::Text, json!("tea"), true),
            (FieldKind::Text, json!(1), false),
            (FieldKind::Integer, json!(-7), true),
            (FieldKind::Integer, json!(1.5), false),
            (FieldKind::Integer, json!(u64::MAX), false),
            (FieldKind::Decimal, json!("99.50"), true),
            (FieldKind::Decimal, json!(99.5), true),
            (FieldKind::Decimal, json!("1e5"), false),
            (FieldKind::Decimal, json!("tea"), false),
            (FieldKind::Bool, json!(true), true),
            (FieldKind::Bool, json!("true"), false),
            (FieldKind::Timestamp, json!("2026-11-15T18:00:00Z"), true),
            (FieldKind::Timestamp, json!("1969-11-15T18:00:00Z"), false),
            (FieldKind::Timestamp, json!("yesterday"), false),
            (FieldKind::Reference(None), json!(322_680_000_131_072_u64), true),
            (FieldKind::Reference(None), json!(0), false),
            (FieldKind::Json, json!({"any": ["thing"]}), true),
        ] {
            assert_eq!(Value::from_json(&kind, &json).is_ok(), fits, "{kind:?} {json}");
        }
    }

    #[test]
    fn a_decimal_keeps_its_digits() {
        let value = Value::from_json(&FieldKind::Decimal, &json!("99.50")).expect("a decimal");
        assert_eq!(value.to_json(), json!("99.50"));
    }

    #[test]
    fn a_moment_has_milliseconds() {
        assert_eq!(moment(Timestamp::from_millis(1_763_229_600_000)), "2025-11-15T18:00:00.000Z");
    }
}
