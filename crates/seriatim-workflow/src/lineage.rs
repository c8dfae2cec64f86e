//! Where in a workflow's code a command comes from: branch and ordinal.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::Payload;

/// A line of execution within a run: the main one, or one that `spawn`, `race`, `join` or `map_concurrently` has opened.
///
/// It is named by the indices that lead to it, each counted from 1 in its parent: `/` is the main branch, `/2/1` the
/// first branch that the second branch of the main one has opened. Index 0 is kept for what the runtime opens itself:
/// `/0/0/n` is the handler of the `n`th accepted update, `/2/0/n` the later attempts of the local activity `/2#n`.
///
/// ```text
/// /            main        #1 activity   #2 timer
/// ├── /1       spawned     #1 timer
/// └── /2       spawned     #1 activity
///     └── /2/1 raced       #1 child workflow
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Branch(Arc<[u32]>);

impl Branch {
    /// The main branch.
    #[must_use]
    pub fn main() -> Self {
        Self(Arc::from([]))
    }

    /// The branch with this index below this one. Zero is kept for what the runtime opens itself.
    #[must_use]
    pub fn child(&self, index: u32) -> Self {
        Self(self.0.iter().copied().chain([index]).collect())
    }

    /// The branch of the `n`th accepted update's handler.
    #[must_use]
    pub fn update(n: u32) -> Self {
        Self(Arc::from([0, 0, n]))
    }

    /// The branch of the later attempts of the local activity at this path.
    pub(crate) fn retries(path: &Path) -> Self {
        path.branch.child(0).child(path.ordinal)
    }

    /// The indices that lead here.
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        &self.0
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|index| write!(f, "/{index}"))
    }
}

impl fmt::Debug for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The place of an operation: its branch, and its ordinal among the operations of that branch, from 1.
///
/// It does not depend on what other branches do. Written `/2/1#3`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The branch.
    pub branch: Branch,
    /// The place in the branch, from 1.
    pub ordinal: u32,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.branch, self.ordinal)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Text that is not a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a path: expected a branch and an ordinal, like /2/1#3")]
pub struct PathError {
    text: String,
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let parse = || {
            let (branch, ordinal) = text.split_once('#')?;
            let indices = match branch.strip_prefix('/')? {
                "" => Vec::new(),
                rest => rest.split('/').map(str::parse).collect::<Result<_, _>>().ok()?,
            };
            Some(Self { branch: Branch(indices.into()), ordinal: ordinal.parse().ok()? })
        };
        parse().ok_or_else(|| PathError { text: text.to_owned() })
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// SHA-256 of an operation's input: the number of payloads, then for each the length and bytes of its encoding and of
/// its data.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InputDigest([u8; 32]);

impl InputDigest {
    /// The digest of no input, so that operations without one cost nothing.
    pub const NONE: Self = Self([0; 32]);

    /// The digest of these payloads.
    #[must_use]
    pub fn of(input: &[Payload]) -> Self {
        if input.is_empty() {
            return Self::NONE;
        }
        let mut hash = Sha256::new();
        hash.update((input.len() as u64).to_be_bytes());
        for payload in input {
            for part in
                [payload.metadata.get("encoding").map_or(&[][..], |encoding| encoding), &payload.data[..]]
            {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
        Self(hash.finalize().into())
    }

    /// Its first twelve digits, for people.
    pub(crate) fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }

    /// The bytes of the digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for InputDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return Ok(());
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for InputDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputDigest({self})")
    }
}

impl Serialize for InputDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InputDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self::NONE);
        }
        let digit = |i: usize| text.get(2 * i..2 * i + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = (0..32).map(digit).collect();
        bytes.filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or_else(
            || D::Error::custom(format!("{text:?} is not a digest: expected 64 hexadecimal digits")),
        )
    }
}

/// Where a command comes from and what it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The place in the workflow's code.
    pub path: Path,
    /// The digest of the input.
    #[serde(default = "no_input", skip_serializing_if = "is_no_input")]
    pub digest: InputDigest,
}

fn no_input() -> InputDigest {
    InputDigest::NONE
}

fn is_no_input(digest: &InputDigest) -> bool {
    *digest == InputDigest::NONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back_from_text() {
        for branch in [Branch::main(), Branch::main().child(2).child(1), Branch::update(7)] {
            let path = Path { branch, ordinal: 3 };
            assert_eq!(path.to_string().parse::<Path>().unwrap(), path);
        }
        assert_eq!(Path { branch: Branch::main().child(2).child(1), ordinal: 3 }.to_string(), "/2/1#3");
        for wrong in ["", "/", "#1", "2#1", "/a#1", "/1#", "/1#-1", "//1#1"] {
            assert!(wrong.parse::<Path>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_digest_depends_on_number_encoding_and_data() {
        let a = Payload::json("a").unwrap();
        let inputs = [
            vec![],
            vec![a.clone()],
            vec![a.clone(), a.clone()],
            vec![Payload::null()],
            vec![Payload::default()],
        ];
        for (i, one) in inputs.iter().enumerate() {
            for other in &inputs[i + 1..] {
                assert_ne!(InputDigest::of(one), InputDigest::of(other));
            }
            let digest = InputDigest::of(one);
            let json = serde_json::to_string(&digest).unwrap();
            assert_eq!(serde_json::from_str::<InputDigest>(&json).unwrap(), digest);
        }
    }
}
