//! Rows of views: their keys, and their stored form.
//!
//! ```text
//! row's key: its parts in order, so that rows sort by them
//!            integer: 1, then 8 bytes with the sign bit inverted
//!            text:    2, then its bytes (a zero byte is 0 255), then 0 0
//! row:       partition offset of the event folded last 8, then JSON; nothing after the offset: the row was removed
//! ```

use bytes::{BufMut, Bytes};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use seriatim_storage::ClusteringRange;
use seriatim_types::PartitionOffset;

use crate::command::codec::BadBytes;
use crate::derive::keys::{StoreKey, WorkspaceKeys};

/// One part of a row's key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPart {
    /// A whole number.
    Integer(i64),
    /// Text.
    Text(String),
}

impl From<i64> for KeyPart {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<&str> for KeyPart {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl KeyPart {
    /// The value as JSON, for clients.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::Integer(value) => Json::from(*value),
            Self::Text(text) => Json::from(text.as_str()),
        }
    }
}

/// A stored row of a view that does not have the fields that it must have. The doctor derives it from the log again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {key} of view {view} is damaged: {problem}: run `seriatim doctor --repair`")]
pub struct BadRow {
    /// The view.
    pub view: String,
    /// The row's key.
    pub key: String,
    /// What is wrong.
    pub problem: String,
}

impl BadRow {
    pub(crate) fn new(view: &str, key: &[KeyPart], problem: impl Into<String>) -> Self {
        let key = Json::Array(key.iter().map(KeyPart::to_json).collect()).to_string();
        Self { view: view.to_owned(), key, problem: problem.into() }
    }
}

/// A row as a typed value. A field that is missing or has another type is an error.
pub(crate) fn read_row<T: DeserializeOwned>(view: &str, key: &[KeyPart], row: Json) -> Result<T, BadRow> {
    serde_json::from_value(row).map_err(|error| BadRow::new(view, key, error.to_string()))
}

const INTEGER: u8 = 1;
const TEXT: u8 = 2;

/// Keys of a view's rows in one workspace, or of those that the workspaces of a partition have in common.
#[derive(Debug)]
pub(crate) struct ViewKeys {
    pub(crate) storage: [u8; 6],
    /// The prefix of their clustering parts.
    scope: Vec<u8>,
}

impl ViewKeys {
    pub(crate) fn new(keys: WorkspaceKeys, view: &str) -> Self {
        Self { storage: keys.storage(), scope: keys.view(view) }
    }

    fn clustering(&self, parts: &[KeyPart]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.scope.len() + 32);
        bytes.extend_from_slice(&self.scope);
        put_key(&mut bytes, parts);
        bytes
    }

    /// A row.
    pub(crate) fn row(&self, parts: &[KeyPart]) -> StoreKey {
        StoreKey::new(&self.storage, &self.clustering(parts))
    }

    /// Rows whose keys begin with `prefix`, after a key.
    pub(crate) fn range(&self, prefix: &[KeyPart], after: Option<&[KeyPart]>) -> ClusteringRange {
        let mut range = ClusteringRange::prefix(&self.clustering(prefix));
        if let Some(after) = after {
            range.start = range.start.max(self.first_after(after));
        }
        range
    }

    /// From one row to another, both included.
    pub(crate) fn between(&self, first: &[KeyPart], last: &[KeyPart]) -> ClusteringRange {
        ClusteringRange { start: self.clustering(first).into(), finish: Some(self.first_after(last)) }
    }

    /// The first possible key after a row. It is before all longer keys, because each part of a key begins with 1 or more.
    fn first_after(&self, parts: &[KeyPart]) -> Bytes {
        let mut bytes = self.clustering(parts);
        bytes.push(0);
        bytes.into()
    }

    /// The parts of a row's key, if the key is of this view.
    pub(crate) fn parts(&self, key: &StoreKey) -> Option<Vec<KeyPart>> {
        (key.partition() == self.storage).then(|| self.read(key.clustering()).ok()).flatten()
    }

    /// Reads a row's key from its clustering part.
    pub(crate) fn read(&self, clustering: &[u8]) -> Result<Vec<KeyPart>, BadBytes> {
        decode_key(clustering.strip_prefix(&self.scope[..]).ok_or(BadBytes("view of a key"))?)
    }
}

fn put_key(bytes: &mut Vec<u8>, parts: &[KeyPart]) {
    for part in parts {
        match part {
            KeyPart::Integer(value) => {
                bytes.put_u8(INTEGER);
                bytes.put_u64(value.cast_unsigned() ^ (1 << 63));
            }
            KeyPart::Text(text) => {
                bytes.put_u8(TEXT);
                for byte in text.bytes() {
                    bytes.put_u8(byte);
                    if byte == 0 {
                        bytes.put_u8(255);
                    }
                }
                bytes.put_slice(&[0, 0]);
            }
        }
    }
}

pub(crate) fn decode_key(mut bytes: &[u8]) -> Result<Vec<KeyPart>, BadBytes> {
    let mut parts = Vec::new();
    while let [tag, rest @ ..] = bytes {
        match *tag {
            INTEGER => {
                let (value, rest) = rest.split_first_chunk().ok_or(BadBytes("integer"))?;
                parts.push(KeyPart::Integer((u64::from_be_bytes(*value) ^ (1 << 63)).cast_signed()));
                bytes = rest;
            }
            TEXT => {
                let (text, rest) = read_text(rest)?;
                parts.push(KeyPart::Text(text));
                bytes = rest;
            }
            _ => return Err(BadBytes("part of a key")),
        }
    }
    Ok(parts)
}

fn read_text(mut bytes: &[u8]) -> Result<(String, &[u8]), BadBytes> {
    let mut text = Vec::new();
    loop {
        match bytes {
            [0, 0, rest @ ..] => {
                let text = String::from_utf8(text).map_err(|_| BadBytes("text"))?;
                return Ok((text, rest));
            }
            [0, 255, rest @ ..] => {
                text.push(0);
                bytes = rest;
            }
            [0, ..] | [] => return Err(BadBytes("end of a text")),
            [byte, rest @ ..] => {
                text.push(*byte);
                bytes = rest;
            }
        }
    }
}

/// The stored form of a row; `None` for one that was removed, whose offset must be kept.
pub(crate) fn encode_row(folded: PartitionOffset, row: Option<&Json>) -> Bytes {
    let mut bytes = Vec::with_capacity(64);
    bytes.put_u64(folded.get());
    if let Some(row) = row {
        // Writing a JSON value to memory cannot fail.
        let _ = serde_json::to_writer(&mut bytes, row);
    }
    bytes.into()
}

pub(crate) fn decode_row(bytes: &[u8]) -> Result<(PartitionOffset, Option<Json>), BadBytes> {
    let (offset, json) = bytes.split_first_chunk().ok_or(BadBytes("offset"))?;
    let folded = PartitionOffset::new(u64::from_be_bytes(*offset)).ok_or(BadBytes("offset"))?;
    if json.is_empty() {
        return Ok((folded, None));
    }
    let json = serde_json::from_slice(json).map_err(|_| BadBytes("row"))?;
    Ok((folded, Some(json)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_part() -> impl Strategy<Value = KeyPart> {
        prop_oneof![any::<i64>().prop_map(KeyPart::Integer), "[\0a-c]{0,4}".prop_map(KeyPart::Text)]
    }

    proptest! {
        #[test]
        fn keys_round_trip_and_sort_by_their_parts(
            a in proptest::collection::vec(any_part(), 0..4),
            b in proptest::collection::vec(any_part(), 0..4),
        ) {
            let encode = |parts: &[KeyPart]| {
                let mut bytes = Vec::new();
                put_key(&mut bytes, parts);
                bytes
            };
            let (bytes_a, bytes_b) = (encode(&a), encode(&b));
            prop_assert_eq!(decode_key(&bytes_a), Ok(a.clone()));
            prop_assert_eq!(bytes_a.cmp(&bytes_b), a.cmp(&b));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = decode_key(&bytes);
            let _ = decode_row(&bytes);
        }
    }

    #[test]
    fn rows_round_trip() {
        let row = serde_json::json!({"count": 3});
        for row in [Some(&row), None] {
            let bytes = encode_row(PartitionOffset::FIRST, row);
            assert_eq!(decode_row(&bytes), Ok((PartitionOffset::FIRST, row.cloned())));
        }
    }
}
