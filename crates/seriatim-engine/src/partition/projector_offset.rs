//! The stored offset of an asynchronous projector, on the log's bulletin.
//!
//! ```text
//! offset  size  field
//!      0     1  version, 1
//!      1     8  partition offset of the next event to deliver
//!      9    16  the identity of the log
//! ```
//!
//! A value of 8 bytes was written before there were versions: it is the offset alone, and counts as one of this log.

use bytes::{Buf, BufMut};
use seriatim_storage::LogIdentity;
use seriatim_types::PartitionOffset;

use crate::command::codec::BadBytes;

const VERSION: u8 = 1;
const BYTES_WITHOUT_VERSION: usize = 8;

/// How far a projector has come, and in which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProjectorOffset {
    pub(super) next: PartitionOffset,
    /// `None`: an earlier version wrote it.
    pub(super) log: Option<LogIdentity>,
}

impl ProjectorOffset {
    pub(super) fn encode(next: PartitionOffset, log: LogIdentity) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.put_u64(next.get());
        bytes.put_slice(log.as_bytes());
        bytes
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Result<Self, BadBytes> {
        let is_versioned = bytes.len() != BYTES_WITHOUT_VERSION;
        if is_versioned && bytes.try_get_u8().map_err(|_| BadBytes("length"))? != VERSION {
            return Err(BadBytes("version that this program reads"));
        }
        let next = bytes.try_get_u64().map_err(|_| BadBytes("length"))?;
        let next = PartitionOffset::new(next).ok_or(BadBytes("offset"))?;
        let log = if is_versioned {
            let identity = bytes.try_into().map_err(|_| BadBytes("length"))?;
            Some(LogIdentity::from_bytes(identity))
        } else {
            None
        };
        Ok(Self { next, log })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogIdentity = LogIdentity::from_bytes(*b"identity of logs");

    #[test]
    fn the_bytes_of_an_offset() {
        let next = PartitionOffset::new(0x0102).unwrap();
        let golden = b"\x01\0\0\0\0\0\0\x01\x02identity of logs";
        assert_eq!(ProjectorOffset::encode(next, LOG), golden);
        assert_eq!(ProjectorOffset::decode(golden), Ok(ProjectorOffset { next, log: Some(LOG) }));
        let old = ProjectorOffset::decode(&0x0102_u64.to_be_bytes());
        assert_eq!(old, Ok(ProjectorOffset { next, log: None }));
    }

    #[test]
    fn what_is_no_offset_is_refused() {
        let bytes = ProjectorOffset::encode(PartitionOffset::FIRST, LOG);
        for length in (0..bytes.len()).filter(|length| *length != BYTES_WITHOUT_VERSION) {
            assert_eq!(ProjectorOffset::decode(&bytes[..length]), Err(BadBytes("length")), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(ProjectorOffset::decode(&longer), Err(BadBytes("length")));
        let newer = [&[2], &bytes[1..]].concat();
        assert_eq!(ProjectorOffset::decode(&newer), Err(BadBytes("version that this program reads")));
        assert_eq!(ProjectorOffset::decode(&[0; 8]), Err(BadBytes("offset")));
    }
}
