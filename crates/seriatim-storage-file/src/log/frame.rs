//! A frame: the data that one sync covers. After a crash it is there as a whole or not at all.
//!
//! ```text
//! offset  size  field
//!      0     8  the segment's mark
//!      8     4  checksum: CRC-32 of everything after this field
//!     12     4  length of the records
//!     16     4  format version, 1 or 2
//!     20     4  checksum of the previous frame, in this segment or the one before
//!     24     8  position: segment number 4, byte within the segment 4
//!     32        records; then zeros up to a multiple of 8
//! ```
//!
//! The mark is random and never shown to clients, so no bytes that a client sends can be mistaken for a frame. Position and
//! previous checksum bind a frame to its place: a frame that was written elsewhere, or before a cut, does not match.

use bytes::{Buf, BufMut};
use seriatim_storage::LogError;

use super::record::{BadRecord, Record};
use super::segment::{LOG_VERSION, Position};

pub(super) const FRAME_HEADER_BYTES: usize = 32;

/// Frames begin at multiples of this.
pub(super) const FRAME_ALIGNMENT: usize = 8;

/// Completes a buffer that has space for the header followed by the records. Returns the frame's checksum.
pub(super) fn finish(buffer: &mut Vec<u8>, mark: u64, previous_checksum: u32, position: Position) -> u32 {
    let length =
        u32::try_from(buffer.len() - FRAME_HEADER_BYTES).expect("the queue is bounded far below 4 GiB");
    buffer.resize(buffer.len().next_multiple_of(FRAME_ALIGNMENT), 0);
    let mut header = &mut buffer[..FRAME_HEADER_BYTES];
    header.put_u64(mark);
    header.put_u32(0);
    header.put_u32(length);
    header.put_u32(LOG_VERSION);
    header.put_u32(previous_checksum);
    header.put_u64(position.to_bits());
    let checksum = crc32fast::hash(&buffer[12..]);
    buffer[8..12].copy_from_slice(&checksum.to_be_bytes());
    checksum
}

/// The header of a frame whose mark and position match the place where it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    checksum: u32,
    records: usize,
    version: u32,
    previous_checksum: u32,
}

impl FrameHeader {
    /// The header at `position`, or `None` if there is none.
    pub(super) fn decode(bytes: &[u8], mark: u64, position: Position) -> Option<Self> {
        let mut fields = bytes.get(..FRAME_HEADER_BYTES)?;
        let found_mark = fields.get_u64();
        let header = Self {
            checksum: fields.get_u32(),
            records: usize::try_from(fields.get_u32()).ok()?,
            version: fields.get_u32(),
            previous_checksum: fields.get_u32(),
        };
        (found_mark == mark && fields.get_u64() == position.to_bits()).then_some(header)
    }

    /// The length of the frame, including padding.
    pub(super) fn size(&self) -> usize {
        (FRAME_HEADER_BYTES + self.records).next_multiple_of(FRAME_ALIGNMENT)
    }

    /// The frame, from bytes that begin with this header; `None` if it is not complete.
    pub(super) fn frame<'a>(&self, bytes: &'a [u8]) -> Option<Frame<'a>> {
        let bytes = bytes.get(..self.size())?;
        let whole = crc32fast::hash(&bytes[12..]) == self.checksum;
        let records = &bytes[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + self.records];
        whole.then_some(Frame { header: *self, bytes, records })
    }
}

/// A complete frame: its checksum matches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    header: FrameHeader,
    bytes: &'a [u8],
    records: &'a [u8],
}

impl<'a> Frame<'a> {
    pub(super) fn checksum(&self) -> u32 {
        self.header.checksum
    }

    pub(super) fn size(&self) -> usize {
        self.header.size()
    }

    /// The whole frame: header, records, padding.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it was written after the frame with this checksum.
    pub(super) fn follows(&self, previous_checksum: u32) -> bool {
        self.header.previous_checksum == previous_checksum
    }

    /// The records, in order. After an error there are no more.
    pub(super) fn records(
        &self,
        position: Position,
    ) -> Result<impl Iterator<Item = Result<Record<'a>, LogError>> + use<'a>, LogError> {
        let version = self.header.version;
        if version > LOG_VERSION {
            return Err(LogError::Newer { found: version, known: LOG_VERSION });
        }
        let mut rest = self.records;
        Ok(std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let record = Record::decode(&mut rest).map_err(|BadRecord| {
                rest = &[];
                LogError::Corrupt(format!(
                    "the frame at {position} is complete and has a record that is not valid"
                ))
            });
            Some(record)
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seriatim_storage::{Holder, Take};
    use seriatim_types::{Epoch, Partition};

    use super::super::record::encode_take;
    use super::super::segment::SegmentNumber;
    use super::*;

    fn position(at: u64) -> Position {
        Position { segment: SegmentNumber(1), at }
    }

    fn frame() -> Vec<u8> {
        let mut buffer = vec![0; FRAME_HEADER_BYTES];
        let take = Take::new(Holder::new("a1"), 6);
        encode_take(&mut buffer, Partition::new(3, 4), Epoch::new(5).unwrap(), &take);
        finish(&mut buffer, 0x1112_1314_1516_1718, 0x0102_0304, position(4_096));
        buffer
    }

    #[test]
    fn the_bytes_of_a_frame_do_not_change() {
        let hex: String = frame().iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = [
            "1112131415161718",               // mark
            "b7330093",                       // checksum
            "0000001a",                       // length of the records
            "00000002",                       // version
            "01020304",                       // checksum of the frame before
            "0000000100001000",               // position
            "030000000300040000000000000005", // a take: partition and epoch
            "0000000000000006026131",         // its id and its holder
            "000000000000",                   // padding
        ];
        assert_eq!(hex, golden.concat());
    }

    #[test]
    fn a_frame_of_version_1_is_read() {
        let golden = "1112131415161718051508470000000f000000010102030400000001000010000200000003000400000000000000\
                      0500";
        let byte = |at| u8::from_str_radix(&golden[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..golden.len()).step_by(2).map(byte).collect();
        let header = FrameHeader::decode(&bytes, 0x1112_1314_1516_1718, position(4_096)).unwrap();
        let records = header.frame(&bytes).unwrap().records(position(4_096)).unwrap();
        let (partition, epoch) = (Partition::new(3, 4), Epoch::new(5).unwrap());
        let take = Record::Take { partition, epoch, id: 0, holder: "" };
        assert_eq!(records.collect::<Vec<_>>(), [Ok(take)]);
    }

    #[test]
    fn a_frame_of_a_newer_format_is_refused_with_its_own_error() {
        let mut bytes = frame();
        bytes[19] = 3;
        let checksum = crc32fast::hash(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_be_bytes());
        let header = FrameHeader::decode(&bytes, 0x1112_1314_1516_1718, position(4_096)).unwrap();
        let error = header.frame(&bytes).unwrap().records(position(4_096)).err().unwrap();
        assert_eq!(error, LogError::Newer { found: 3, known: 2 });
    }

    proptest! {
        #[test]
        fn a_frame_is_complete_only_where_it_was_written(flip in 0..8 * 64_usize, at in 0..10_000_u64) {
            let bytes = frame();
            let decode = |bytes: &[u8], at| {
                FrameHeader::decode(bytes, 0x1112_1314_1516_1718, position(at))?.frame(bytes).map(|frame| frame.size())
            };
            prop_assert_eq!(decode(&bytes, 4_096), Some(64));
            prop_assert_eq!(decode(&bytes, at), (at == 4_096).then_some(64));
            let mut damaged = bytes.clone();
            damaged[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(decode(&damaged, 4_096), None);
            for length in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..length], 4_096), None);
            }
        }
    }
}
