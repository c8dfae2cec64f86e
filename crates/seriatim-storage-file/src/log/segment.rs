//! A segment file: a header, then frames, then zeros up to the reserved length.
//!
//! ```text
//! offset  size  field
//!      0     8  "SERIALOG"
//!      8     4  checksum: CRC-32 of bytes 12 to 40
//!     12     4  format version, 1 or 2
//!     16     4  number of the segment, from 1
//!     20     4  checksum of the last frame of the previous segment, 0 in the first
//!     24     8  mark: a random number that every frame of this segment begins with
//!     32     8  length that was reserved for the file
//!     40        zeros up to 4096, where the first frame begins
//! ```
//!
//! The header is durable before the file has its name, so a segment without a valid header is damaged.

use bytes::{Buf, BufMut};
use seriatim_storage::LogError;

/// The newest format of segments, frames, records and indexes that this code reads, and the one that it writes. Version 2 has
/// the holders' names. Frames of version 2 may follow frames of version 1 in one segment.
pub(super) const LOG_VERSION: u32 = 2;

/// Where the first frame begins: after the page of the header.
pub(super) const FIRST_FRAME_AT: u64 = 4_096;

const MAGIC: &[u8; 8] = b"SERIALOG";
const HEADER_BYTES: usize = 40;

/// The number of a segment, from 1 without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SegmentNumber(pub(super) u32);

impl SegmentNumber {
    pub(super) const FIRST: Self = Self(1);

    pub(super) fn next(self) -> Result<Self, LogError> {
        let next = self.0.checked_add(1).map(Self);
        next.ok_or_else(|| LogError::Unavailable("no segment number is left".to_owned()))
    }

    /// The previous number; `None` for the first.
    pub(super) fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).filter(|number| *number > 0).map(Self)
    }

    pub(super) fn segment_name(self) -> String {
        format!("{:010}.segment", self.0)
    }

    pub(super) fn index_name(self) -> String {
        format!("{:010}.index", self.0)
    }

    /// The number in a segment's name; `None` for any other name.
    pub(super) fn of_segment(name: &str) -> Option<Self> {
        let number = Self(name.strip_suffix(".segment")?.parse().ok()?);
        (number.segment_name() == name && number >= Self::FIRST).then_some(number)
    }
}

/// Where a frame begins: segment and byte. Rises with every frame of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) segment: SegmentNumber,
    pub(super) at: u64,
}

impl Position {
    /// As stored in a frame: the segment in the high half, the byte in the low half.
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.segment.0) << 32 | self.at
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {} of {}", self.at, self.segment.segment_name())
    }
}

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: SegmentNumber,
    pub(super) previous_checksum: u32,
    pub(super) mark: u64,
    pub(super) reserved: u64,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.put_slice(MAGIC);
        bytes.put_u32(0);
        bytes.put_u32(LOG_VERSION);
        bytes.put_u32(self.number.0);
        bytes.put_u32(self.previous_checksum);
        bytes.put_u64(self.mark);
        bytes.put_u64(self.reserved);
        let checksum = crc32fast::hash(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Reads the header at the start of a segment file with this number.
    pub(super) fn decode(number: SegmentNumber, bytes: &[u8]) -> Result<Self, LogError> {
        let name = number.segment_name();
        let damaged = |what: &str| LogError::Corrupt(format!("{name} {what}"));
        let bytes = bytes.get(..HEADER_BYTES).ok_or_else(|| damaged("ends inside its header"))?;
        if &bytes[..8] != MAGIC {
            return Err(damaged("is not a segment of a log: its first bytes are not SERIALOG"));
        }
        let mut fields = &bytes[8..];
        let (checksum, version) = (fields.get_u32(), fields.get_u32());
        if version > LOG_VERSION {
            return Err(LogError::Newer { found: version, known: LOG_VERSION });
        }
        if checksum != crc32fast::hash(&bytes[12..]) {
            return Err(damaged("has a header whose checksum does not match"));
        }
        let header = Self {
            number: SegmentNumber(fields.get_u32()),
            previous_checksum: fields.get_u32(),
            mark: fields.get_u64(),
            reserved: fields.get_u64(),
        };
        if header.number != number {
            return Err(damaged(&format!("says that it is {}", header.number.segment_name())));
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_of_a_header_do_not_change() {
        let header = SegmentHeader {
            number: SegmentNumber(2),
            previous_checksum: 0x0102_0304,
            mark: 0x1112_1314_1516_1718,
            reserved: 67_108_864,
        };
        let hex: String = header.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = [
            "53455249414c4f47", // magic
            "39b9ba32",         // checksum
            "00000002",         // version
            "00000002",         // number
            "01020304",         // checksum of the last frame before
            "1112131415161718", // mark
            "0000000004000000", // reserved
        ];
        assert_eq!(hex, golden.concat());
    }

    #[test]
    fn only_exact_names_are_segments() {
        assert_eq!(SegmentNumber::of_segment("0000000017.segment"), Some(SegmentNumber(17)));
        for name in ["17.segment", "0000000000.segment", "0000000017.segment.new", "0000000017.index", "x"] {
            assert_eq!(SegmentNumber::of_segment(name), None, "{name}");
        }
    }

    #[test]
    fn a_newer_a_foreign_and_a_misplaced_header_have_different_errors() {
        let header = SegmentHeader { number: SegmentNumber(1), previous_checksum: 0, mark: 5, reserved: 100 };
        let mut newer = header.encode();
        newer[15] = 9;
        let decode = |bytes: &[u8]| SegmentHeader::decode(SegmentNumber(1), bytes).unwrap_err().to_string();
        assert_eq!(
            decode(&newer),
            "the log has format version 9, and this program reads versions up to 2: use a newer program"
        );
        assert!(decode(&[0; 40]).contains("is not a segment of a log"));
        assert!(decode(b"SERIALOG").contains("ends inside its header"));
        let error = SegmentHeader::decode(SegmentNumber(2), &header.encode()).unwrap_err();
        assert!(error.to_string().contains("0000000002.segment says that it is 0000000001.segment"));
    }

    proptest! {
        #[test]
        fn a_header_reads_back_as_it_was_written(
            number in 1..u32::MAX, previous_checksum: u32, mark: u64, reserved: u64, flip in 96..320_usize,
        ) {
            let number = SegmentNumber(number);
            let header = SegmentHeader { number, previous_checksum, mark, reserved };
            let mut bytes = header.encode();
            prop_assert_eq!(SegmentHeader::decode(number, &bytes), Ok(header));
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert!(SegmentHeader::decode(number, &bytes).is_err());
        }
    }
}
