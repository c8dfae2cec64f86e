//! The stored value of a block sequence.
//!
//! ```text
//! 0         8         16        17          25       33    37
//! | base    | size    | version | id        | unused | crc |      all big-endian
//! ```

use crate::{BadBlock, Block};

/// The version that this program writes.
const VERSION: u8 = 1;

/// The length of a stored value.
pub(crate) const STORED_BYTES: usize = Block::BYTES + 1 + 8 + 8 + CRC_BYTES;

const CRC_BYTES: usize = 4;

/// Identifies the reservation that wrote a value. It is random, so that a writer whose answer was lost can distinguish its
/// own value from the same block reserved by another writer. 0 for an adopted value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReservationId(pub(crate) u64);

/// The stored value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredBlock {
    /// The last block.
    pub(crate) block: Block,
    /// The reservation that wrote it.
    pub(crate) id: ReservationId,
    /// How many numbers, including this block's, the writer may never have given out: the most that its crash wastes.
    pub(crate) unused: u64,
}

/// Why bytes are not a stored value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadStoredBlock {
    #[error("{0} bytes are too few for a block, its version and a checksum")]
    Short(usize),
    #[error(
        "it is a bare block of 16 bytes, without version and checksum: adopt it if an earlier program wrote it"
    )]
    Bare,
    #[error("its checksum does not match")]
    Checksum,
    #[error(
        "it has format version {0}, and this program reads versions up to {VERSION}: use a newer program"
    )]
    Newer(u8),
    #[error("version 1 has {STORED_BYTES} bytes, not {0}")]
    Length(usize),
    #[error(transparent)]
    Block(#[from] BadBlock),
}

impl StoredBlock {
    pub(crate) fn encode(&self) -> [u8; STORED_BYTES] {
        let mut bytes = [0; STORED_BYTES];
        bytes[..16].copy_from_slice(&self.block.encode());
        bytes[16] = VERSION;
        bytes[17..25].copy_from_slice(&self.id.0.to_be_bytes());
        bytes[25..33].copy_from_slice(&self.unused.to_be_bytes());
        let crc = crc32fast::hash(&bytes[..STORED_BYTES - CRC_BYTES]);
        bytes[33..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The checksum is always the last four bytes and covers all bytes before it, so that a newer version can be
    /// distinguished from damage.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadStoredBlock> {
        if bytes.len() == Block::BYTES {
            return Err(BadStoredBlock::Bare);
        }
        let (covered, crc) = bytes
            .split_last_chunk::<CRC_BYTES>()
            .filter(|(covered, _)| covered.len() > Block::BYTES)
            .ok_or(BadStoredBlock::Short(bytes.len()))?;
        if crc32fast::hash(covered) != u32::from_be_bytes(*crc) {
            return Err(BadStoredBlock::Checksum);
        }
        let (block, rest) = covered.split_at(Block::BYTES);
        if rest[0] != VERSION {
            return Err(BadStoredBlock::Newer(rest[0]));
        }
        let length = BadStoredBlock::Length(bytes.len());
        let (id, unused) = rest[1..].split_first_chunk().ok_or(length)?;
        let unused = unused.try_into().map_err(|_| length)?;
        Ok(Self {
            block: Block::decode(block)?,
            id: ReservationId(u64::from_be_bytes(*id)),
            unused: u64::from_be_bytes(unused),
        })
    }

    /// A bare block, as RFC 0002 of OpenData writes it. It has no checksum: any 16 bytes that are a block are accepted.
    pub(crate) fn adopt(bytes: &[u8]) -> Result<Self, BadStoredBlock> {
        let block = Block::decode(bytes)?;
        let (id, unused) = (ReservationId(0), block.size());
        Ok(Self { block, id, unused })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seriatim_types::Number;

    use super::*;

    fn stored() -> StoredBlock {
        StoredBlock {
            block: Block::new(Number::new(4_096), 4_096).unwrap(),
            id: ReservationId(0x0102_0304_0506_0708),
            unused: 5_000,
        }
    }

    fn with_crc(covered: &[u8]) -> Vec<u8> {
        [covered, &crc32fast::hash(covered).to_be_bytes()].concat()
    }

    #[test]
    fn the_value_is_the_block_a_version_an_id_what_is_unused_and_a_checksum() {
        let bytes = stored().encode();
        assert_eq!(bytes.len(), 37);
        assert_eq!(&bytes[..16], b"\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x10\0");
        assert_eq!(&bytes[16..25], &[1, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(&bytes[25..33], &[0, 0, 0, 0, 0, 0, 0x13, 0x88]);
        assert_eq!(&bytes[33..], &crc32fast::hash(&bytes[..33]).to_be_bytes());
        assert_eq!(StoredBlock::decode(&bytes), Ok(stored()));
    }

    #[test]
    fn every_changed_bit_and_every_lost_byte_is_detected() {
        let bytes = stored().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(StoredBlock::decode(&damaged), Err(BadStoredBlock::Checksum), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(StoredBlock::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn sixteen_bytes_are_adopted_on_request_only() {
        let bare = stored().block.encode();
        assert_eq!(StoredBlock::decode(&bare), Err(BadStoredBlock::Bare));
        let adopted = StoredBlock::adopt(&bare).unwrap();
        assert_eq!((adopted.block, adopted.unused), (stored().block, 4_096));
        assert_eq!(StoredBlock::adopt(&[0; 16]), Err(BadStoredBlock::Block(BadBlock::Empty)));
        assert!(StoredBlock::adopt(&[0xff; 16]).is_err());
        assert!(StoredBlock::adopt(&stored().encode()).is_err());
    }

    #[test]
    fn a_newer_version_is_distinguished_from_damage() {
        let mut newer = stored().encode()[..33].to_vec();
        newer[16] = 2;
        newer.push(0);
        assert_eq!(StoredBlock::decode(&with_crc(&newer)), Err(BadStoredBlock::Newer(2)));
        assert_eq!(StoredBlock::decode(&newer), Err(BadStoredBlock::Checksum));
        newer[16] = 1;
        assert_eq!(StoredBlock::decode(&with_crc(&newer)), Err(BadStoredBlock::Length(38)));
    }

    proptest! {
        #[test]
        fn an_encoded_value_decodes_to_the_same(base: u64, size: u64, id: u64, unused: u64) {
            if let Ok(block) = Block::new(Number::new(base), size) {
                let stored = StoredBlock { block, id: ReservationId(id), unused };
                prop_assert_eq!(StoredBlock::decode(&stored.encode()), Ok(stored));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = StoredBlock::decode(&with_crc(&bytes));
            let _ = StoredBlock::decode(&bytes);
            let _ = StoredBlock::adopt(&bytes);
        }
    }
}
