//! The stored checkpoint of a partition, byte by byte.
//!
//! ```text
//! key        partition part: "sc", application 4; clustering part: partition 2
//! offset  size  field
//!      0     1  version, 1
//!      1     8  the first offset whose event may be missing from the store
//!      9     4  CRC-32 of everything before
//! ```

use bytes::{Buf, BufMut};
use seriatim_storage::Key;
use seriatim_types::{Partition, PartitionOffset};

use crate::BadValue;

const VERSION: u8 = 1;
const BYTES: usize = 13;

/// The key of a partition's checkpoint. Two applications with the same partition number never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointKey {
    partition: [u8; 6],
    clustering: [u8; 2],
}

impl CheckpointKey {
    pub(crate) fn new(partition: Partition) -> Self {
        let mut key = [0; 6];
        let mut rest = &mut key[..];
        rest.put_slice(b"sc");
        rest.put_u32(partition.application.get());
        Self { partition: key, clustering: partition.id.get().to_be_bytes() }
    }

    pub(crate) fn as_key(&self) -> Key<'_> {
        Key::new(&self.partition, &self.clustering)
    }
}

/// The stored form of a checkpoint: everything derived from events before `next` is durable.
pub(crate) fn encode(next: PartitionOffset) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let mut rest = &mut bytes[..];
    rest.put_u8(VERSION);
    rest.put_u64(next.get());
    let checksum = crc32fast::hash(&bytes[..BYTES - 4]);
    bytes[BYTES - 4..].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<PartitionOffset, BadValue> {
    let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| BadValue::Short { found: bytes.len() })?;
    let mut fields = &bytes[..];
    let (version, next, checksum) = (fields.get_u8(), fields.get_u64(), fields.get_u32());
    if checksum != crc32fast::hash(&bytes[..BYTES - 4]) {
        return Err(BadValue::Checksum);
    }
    if version != VERSION {
        return Err(BadValue::Newer { found: version, known: VERSION });
    }
    PartitionOffset::new(next).ok_or(BadValue::Field("offset"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_reads_back_and_damage_is_noticed() {
        for offset in [1, 2, 4_096, u64::MAX] {
            let offset = PartitionOffset::new(offset).unwrap();
            assert_eq!(decode(&encode(offset)), Ok(offset));
        }
        let bytes = encode(PartitionOffset::FIRST);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), Err(BadValue::Checksum), "bit {bit}");
        }
        assert_eq!(decode(&bytes[1..]), Err(BadValue::Short { found: 12 }));
    }

    #[test]
    fn two_applications_with_the_same_partition_number_have_two_checkpoints() {
        let (one, other) =
            (CheckpointKey::new(Partition::new(1, 0)), CheckpointKey::new(Partition::new(2, 0)));
        assert_ne!(one.as_key(), other.as_key());
    }
}
