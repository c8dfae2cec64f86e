//! The stored numbers of a workspace, byte by byte.
//!
//! ```text
//! key        partition part: application 4, partition 2
//!            clustering part: "n", workspace 8
//! offset  size  field
//!      0     1  version, 1
//!      1     2  kind of the workspace
//!      3     8  next workspace offset
//!     11     8  partition offset folded last
//!     19    32  chain head
//!     51     2  number of sequences, n
//!     53  10×n  sequences, ascending: id 2, next 8
//!            4  CRC-32 of everything before
//! ```
//!
//! All integers are big-endian.

use bytes::{Buf, BufMut};
use seriatim_storage::{Digest, Key};
use seriatim_types::{
    Number, Partition, PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind, WorkspaceOffset,
};

use crate::definition::Definition;
use crate::{BadValue, Numbers};

const VERSION: u8 = 1;
const FIXED_BYTES: usize = 53;
const SEQUENCE_BYTES: usize = 10;
const CHECKSUM_BYTES: usize = 4;

/// What the clustering part of the key begins with.
const FAMILY: u8 = b'n';

/// The key of a workspace's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumbersKey {
    partition: [u8; 6],
    clustering: [u8; 9],
}

impl NumbersKey {
    /// The key of a workspace whose events are in the log of this partition. Workspaces of two applications have different
    /// keys.
    #[must_use]
    pub fn new(partition: Partition, workspace: WorkspaceId) -> Self {
        let mut key = Self { partition: [0; 6], clustering: [FAMILY; 9] };
        key.partition[..4].copy_from_slice(&partition.application.get().to_be_bytes());
        key.partition[4..].copy_from_slice(&partition.id.get().to_be_bytes());
        key.clustering[1..].copy_from_slice(&workspace.get().to_be_bytes());
        key
    }

    /// The key as the store uses it.
    #[must_use]
    pub fn as_key(&self) -> Key<'_> {
        Key::new(&self.partition, &self.clustering)
    }
}

impl Numbers {
    /// Appends the stored form to `buffer`.
    ///
    /// # Panics
    ///
    /// If a workspace has all 65,536 sequences, which no definition can have.
    pub fn encode(&self, definition: &Definition, buffer: &mut Vec<u8>) {
        let start = buffer.len();
        let sequences = definition.kind(self.kind).map_or(&[][..], |kind| kind.sequences());
        let count = self.nexts.len() + self.others.len();
        buffer.put_u8(VERSION);
        buffer.put_u16(self.kind.get());
        buffer.put_u64(self.next_offset.get());
        buffer.put_u64(self.folded.map_or(0, PartitionOffset::get));
        buffer.put_slice(self.chain.as_bytes());
        buffer.put_u16(u16::try_from(count).expect("a sequence id has two bytes and occurs once"));
        // Both lists are ascending and have no id in common, so they can be merged here.
        let mut others = self.others.iter().copied().peekable();
        let mut put = |(id, next): (SequenceId, Number)| {
            buffer.put_u16(id.get());
            buffer.put_u64(next.get());
        };
        for (sequence, next) in sequences.iter().zip(self.nexts.iter()) {
            while let Some(other) = others.next_if(|(id, _)| *id < sequence.id()) {
                put(other);
            }
            put((sequence.id(), *next));
        }
        others.for_each(put);
        let checksum = crc32fast::hash(&buffer[start..]);
        buffer.put_u32(checksum);
    }

    /// Reads the stored form. Numbers of sequences that the definition does not have are kept. A sequence of the definition
    /// without a stored number is at its first number.
    ///
    /// # Errors
    ///
    /// [`BadValue`] if the bytes are damaged, of another kind or of a newer format. They are never treated as a missing
    /// value.
    pub fn decode(definition: &Definition, bytes: &[u8]) -> Result<Self, BadValue> {
        let mut fields = checked(bytes)?;
        let version = fields.get_u8();
        if version != VERSION {
            return Err(BadValue::Newer { found: version, known: VERSION });
        }
        let kind = WorkspaceKind::new(fields.get_u16());
        let sequences = definition.kind(kind);
        let mut numbers = Self::fresh(kind, sequences);
        let offset = WorkspaceOffset::new(fields.get_u64());
        numbers.next_offset = offset.ok_or(BadValue::Field("workspace offset"))?;
        numbers.folded = PartitionOffset::new(fields.get_u64());
        let mut chain = [0; 32];
        fields.copy_to_slice(&mut chain);
        numbers.chain = Digest::new(chain);
        let count = usize::from(fields.get_u16());
        if fields.len() != count * SEQUENCE_BYTES {
            return Err(BadValue::Field("number of sequences"));
        }
        let mut last = None;
        for _ in 0..count {
            let (id, next) = (SequenceId::new(fields.get_u16()), Number::new(fields.get_u64()));
            if last >= Some(id) {
                return Err(BadValue::Field("order of sequences"));
            }
            last = Some(id);
            match sequences.and_then(|kind| kind.slot(id)) {
                Some(slot) => numbers.nexts[slot] = next,
                None => numbers.others.push((id, next)),
            }
        }
        Ok(numbers)
    }
}

/// The bytes before the checksum, if it matches.
fn checked(bytes: &[u8]) -> Result<&[u8], BadValue> {
    if bytes.len() < FIXED_BYTES + CHECKSUM_BYTES {
        return Err(BadValue::Short { found: bytes.len() });
    }
    let (fields, mut checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if crc32fast::hash(fields) == checksum.get_u32() { Ok(fields) } else { Err(BadValue::Checksum) }
}

#[cfg(test)]
#[path = "numbers_codec_tests.rs"]
mod tests;
