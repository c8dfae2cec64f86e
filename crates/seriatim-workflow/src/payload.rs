//! Values between a run and its host.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::base64;
use crate::metadata::{ENCODING, Metadata};

/// A value with a note on how it is encoded: what Temporal calls a payload, bytes included.
///
/// As JSON it is `{"encoding": …, "text": …}` where that says everything, and else what protobuf makes of it:
/// `{"metadata": {name: base64}, "data": base64}`. Both are read.
///
/// ```
/// use seriatim_workflow::Payload;
///
/// let payload = Payload::json(&("tea", 3))?;
/// assert_eq!(payload.encoding(), Some("json/plain"));
/// assert_eq!(payload.decode::<(String, u8)>()?, ("tea".to_owned(), 3));
/// assert_eq!(Payload::json(&())?.encoding(), Some("binary/null"));
/// # Ok::<(), seriatim_workflow::PayloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// Notes; `encoding` is the one that everybody reads.
    pub metadata: Metadata,
    /// The encoded value.
    pub data: Bytes,
}

/// Named payloads that travel with a call: context that is not an argument.
pub type Headers = BTreeMap<String, Payload>;

const JSON: &str = "json/plain";
const NULL: &str = "binary/null";

impl Payload {
    /// A value as JSON, as Temporal's default converter writes it: `null` becomes an empty `binary/null`.
    ///
    /// # Errors
    ///
    /// [`PayloadError::Encode`] if the value cannot be written as JSON (a map whose keys are not text).
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, PayloadError> {
        let data = serde_json::to_vec(value).map_err(|e| PayloadError::Encode { reason: e.to_string() })?;
        Ok(if data == b"null" { Self::null() } else { Self::encoded(JSON, data) })
    }

    /// The value `null`.
    #[must_use]
    pub fn null() -> Self {
        Self::encoded(NULL, Bytes::new())
    }

    /// Whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        match self.encoding() {
            Some(NULL) => true,
            Some(JSON) => &self.data[..] == b"null",
            _ => false,
        }
    }

    /// Bytes in the encoding of this name.
    #[must_use]
    pub fn encoded(encoding: &'static str, data: impl Into<Bytes>) -> Self {
        let encoding = Bytes::from_static(encoding.as_bytes());
        Self { metadata: Metadata::encoding(encoding), data: data.into() }
    }

    /// The name of the encoding, if there is one.
    #[must_use]
    pub fn encoding(&self) -> Option<&str> {
        self.metadata.get(ENCODING).and_then(|name| str::from_utf8(name).ok())
    }

    /// The value, read from JSON.
    ///
    /// # Errors
    ///
    /// [`PayloadError::Decode`] if the bytes are not JSON of that type; [`PayloadError::Encoding`] if they are in an
    /// encoding that is not known here.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        let encoding = self.metadata.get(ENCODING).map_or(&b""[..], |encoding| encoding);
        let json = match encoding {
            encoding if encoding == NULL.as_bytes() => b"null",
            encoding if encoding.starts_with(b"json/") => &self.data[..],
            _ => {
                let encoding = self.encoding().unwrap_or("none").to_owned();
                return Err(PayloadError::Encoding { encoding });
            }
        };
        serde_json::from_slice(json)
            .map_err(|e| PayloadError::Decode { into: short_name::<T>(), reason: e.to_string() })
    }

    /// Arguments as one value: none is `null`, one is itself, several are a tuple.
    ///
    /// # Errors
    ///
    /// As [`Payload::decode`].
    pub fn decode_all<T: DeserializeOwned>(arguments: &[Self]) -> Result<T, PayloadError> {
        match arguments {
            [] => Self::null().decode(),
            [one] => one.decode(),
            several => {
                let values: Vec<serde_json::Value> =
                    several.iter().map(Self::decode).collect::<Result<_, _>>()?;
                serde_json::from_value(serde_json::Value::Array(values))
                    .map_err(|e| PayloadError::Decode { into: short_name::<T>(), reason: e.to_string() })
            }
        }
    }
}

/// The name of a type as an author writes it: `Vec<Order>`, without the paths of modules.
fn short_name<T>() -> String {
    let full = std::any::type_name::<T>();
    let parts =
        full.split_inclusive(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':'));
    parts.map(|part| part.rsplit("::").next().unwrap_or(part)).collect()
}

/// A value could not be encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PayloadError {
    /// The value has no form in JSON.
    #[error("the value cannot be written as JSON: {reason}")]
    Encode {
        /// What is wrong with it.
        reason: String,
    },
    /// The bytes are not a value of the wanted type.
    #[error("the payload is not a {into}: {reason}")]
    Decode {
        /// The type that was wanted.
        into: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The bytes are in an encoding that is not JSON.
    #[error("the payload's encoding is {encoding}, and only json/* and binary/null can be decoded here")]
    Encoding {
        /// The name of the encoding, or `none`.
        encoding: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text {
        encoding: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    Wire {
        #[serde(default)]
        metadata: Option<BTreeMap<String, String>>,
        /// Some programs write an empty value as `null`.
        #[serde(default)]
        data: Option<String>,
    },
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = (self.metadata.len() == 1)
            .then(|| self.encoding())
            .flatten()
            .zip(str::from_utf8(&self.data).ok());
        match text {
            Some((encoding, text)) => Form::Text { encoding: encoding.to_owned(), text: text.to_owned() },
            None => Form::Wire {
                metadata: Some(
                    self.metadata.iter().map(|(k, v)| (k.to_owned(), base64::encode(v))).collect(),
                ),
                data: Some(base64::encode(&self.data)),
            },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = |text: &str| {
            base64::decode(text)
                .map(Bytes::from)
                .ok_or_else(|| D::Error::custom("a payload's bytes are not base64"))
        };
        Ok(match Form::deserialize(deserializer)? {
            Form::Text { encoding, text } => {
                Self { metadata: Metadata::encoding(encoding), data: text.into() }
            }
            Form::Wire { metadata, data } => Self {
                metadata: metadata
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(name, value)| Ok((name, bytes(&value)?)))
                    .collect::<Result<_, D::Error>>()?,
                data: bytes(&data.unwrap_or_default())?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payload_comes_back_from_json() {
        let mut odd = Payload::encoded(JSON, &b"{}"[..]);
        odd.metadata.insert("type".to_owned(), Bytes::from_static(b"\xff"));
        let binary = Payload::encoded("binary/plain", &b"\xfe\xff"[..]);
        for payload in [Payload::null(), Payload::json("x").unwrap(), Payload::default(), odd, binary] {
            let json = serde_json::to_string(&payload).unwrap();
            assert_eq!(serde_json::from_str::<Payload>(&json).unwrap(), payload, "{json}");
        }
    }

    #[test]
    fn protobuf_json_is_read() {
        let json = r#"{"metadata":{"encoding":"anNvbi9wbGFpbg=="},"data":"IlRlbXBvcmFsIg=="}"#;
        let payload: Payload = serde_json::from_str(json).unwrap();
        assert_eq!(payload.decode::<String>().unwrap(), "Temporal");
    }

    #[test]
    fn arguments_are_one_value() {
        let two = [Payload::json(&1).unwrap(), Payload::json("b").unwrap()];
        assert_eq!(Payload::decode_all::<(u8, String)>(&two).unwrap(), (1, "b".to_owned()));
        assert_eq!(Payload::decode_all::<u8>(&two[..1]).unwrap(), 1);
        Payload::decode_all::<()>(&[]).unwrap();
    }

    #[test]
    fn another_encoding_and_another_type_are_told_apart() {
        assert!(matches!(Payload::default().decode::<u8>(), Err(PayloadError::Encoding { .. })));
        assert!(matches!(Payload::json("x").unwrap().decode::<u8>(), Err(PayloadError::Decode { .. })));
    }
}
