//! The stored checkpoint of a partition: which part of the log the store contains.
//!
//! ```text
//! key        partition part: "ek", application 4, partition 2; clustering part: empty
//! offset  size  field
//!      0     1  version, 1
//!      1     8  everything derived from events before this offset is in the store
//!      9     4  CRC-32 of everything before
//! ```
//!
//! In every version the first byte is the version, the last four bytes are the CRC-32 of everything before, and the length is not
//! 12 bytes. A value of 12 bytes was written before there were versions: it is the same without the first byte.

use bytes::BufMut;
use seriatim_sequencer::BadValue;
use seriatim_storage::{Batch, Store, StoreError};
use seriatim_types::{Partition, PartitionOffset};

use super::keys;

const VERSION: u8 = 1;
const BYTES: usize = 13;
const BYTES_WITHOUT_VERSION: usize = 12;

/// The checkpoint of a partition, as the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// There is no checkpoint: nothing was flushed yet.
    Absent,
    /// Everything before this offset is in the store.
    At(PartitionOffset),
    /// The stored checkpoint cannot be read.
    Bad(BadValue),
}

impl Checkpoint {
    pub(crate) async fn read(store: &Store, partition: Partition) -> Result<Self, StoreError> {
        let stored = store.get(keys::checkpoint(partition).as_key()).await?;
        Ok(stored.map_or(Self::Absent, |bytes| decode(&bytes).map_or_else(Self::Bad, Self::At)))
    }

    /// The checkpoint of a partition whose log ends at `tail`.
    ///
    /// A store that was migrated from format 1 still has the old checkpoint, but not the values that it describes. So the old
    /// checkpoint is ignored and the partition is derived again. If it is beyond the tail, however, the log has lost events, and it
    /// is returned as evidence.
    pub(crate) async fn read_beside(
        store: &Store,
        partition: Partition,
        tail: PartitionOffset,
    ) -> Result<Self, StoreError> {
        let found = Self::read(store, partition).await?;
        if found != Self::Absent {
            return Ok(found);
        }
        let before = store.get(keys::checkpoint_of_format_1(partition).as_key()).await?;
        let before = before.and_then(|bytes| decode(&bytes).ok()).filter(|before| *before > tail);
        Ok(before.map_or(Self::Absent, Self::At))
    }

    /// Adds the checkpoint at an offset to a batch.
    pub(crate) fn put(batch: &mut Batch, partition: Partition, next: PartitionOffset) {
        batch.put(keys::checkpoint(partition).as_key(), &encode(next));
    }
}

fn encode(next: PartitionOffset) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let mut rest = &mut bytes[..];
    rest.put_u8(VERSION);
    rest.put_u64(next.get());
    let checksum = crc32fast::hash(&bytes[..BYTES - 4]);
    bytes[BYTES - 4..].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<PartitionOffset, BadValue> {
    let found = bytes.len();
    let (mut rest, checksum) = bytes.split_last_chunk().ok_or(BadValue::Short { found })?;
    if crc32fast::hash(rest) != u32::from_be_bytes(*checksum) {
        return Err(BadValue::Checksum);
    }
    if found != BYTES_WITHOUT_VERSION {
        let (version, after) = rest.split_first().ok_or(BadValue::Short { found })?;
        if *version > VERSION {
            return Err(BadValue::Newer { found: *version, known: VERSION });
        }
        rest = after;
    }
    let next = <[u8; 8]>::try_from(rest).map_err(|_| BadValue::Short { found })?;
    PartitionOffset::new(u64::from_be_bytes(next)).ok_or(BadValue::Field("offset"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: [u8; 8] = 0x0102_0304_0506_0708_u64.to_be_bytes();

    fn with_checksum(bytes: &[u8]) -> Vec<u8> {
        [bytes, &crc32fast::hash(bytes).to_be_bytes()].concat()
    }

    fn offset() -> PartitionOffset {
        PartitionOffset::new(u64::from_be_bytes(OFFSET)).unwrap()
    }

    #[test]
    fn the_bytes_of_a_checkpoint() {
        let golden = b"\x01\x01\x02\x03\x04\x05\x06\x07\x08\xab\x9a\x57\x41";
        assert_eq!(encode(offset()), *golden);
        assert_eq!(decode(golden), Ok(offset()));
    }

    #[test]
    fn a_checkpoint_without_a_version_is_read() {
        let golden = b"\x01\x02\x03\x04\x05\x06\x07\x08\x3f\xca\x88\xc5";
        assert_eq!(decode(golden), Ok(offset()));
    }

    #[test]
    fn a_newer_checkpoint_of_any_length_is_reported_as_newer_and_not_as_damaged() {
        let newer = BadValue::Newer { found: 2, known: 1 };
        for rest in [&[][..], &OFFSET, &[0; 100]] {
            assert_eq!(decode(&with_checksum(&[&[2], rest].concat())), Err(newer));
        }
    }

    #[test]
    fn damage_is_noticed() {
        for bytes in [encode(offset()).to_vec(), with_checksum(&OFFSET)] {
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode(&damaged), Err(BadValue::Checksum), "bit {bit}");
            }
        }
        for length in 0..4 {
            assert_eq!(decode(&[1; 4][..length]), Err(BadValue::Short { found: length }));
        }
        assert_eq!(decode(&with_checksum(&[])), Err(BadValue::Short { found: 4 }));
        assert_eq!(decode(&with_checksum(&[1; 10])), Err(BadValue::Short { found: 14 }));
        assert_eq!(decode(&with_checksum(&[0; 8])), Err(BadValue::Field("offset")));
    }
}
