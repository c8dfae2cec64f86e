//! The frames of a stream, byte by byte.
//!
//! ```text
//! offset  size  field
//!      0     4  length of everything after this field
//!      4     4  CRC-32 of everything after this field
//!      8     1  kind
//!      9        content
//!
//! "H" header, the first frame
//!      9     8  "srtlocal"
//!     17     1  version, 1
//!     18     6  partition: application 4, partition 2
//!     24    16  identity of the log
//!     40    32  SHA-256 of the application's accepted definition
//!     72     8  checkpoint when the stream began; that of the stream is in the trailer
//!
//! "P" pairs, in ascending order over all such frames
//!               each: length of the key 2, key (clustering part), length of the value 4, value
//! "C" changes: what was flushed during the export, in ascending order within the frame; the last change of a key counts
//!               each: as a pair; a length of 2³²-1, and no value: the pair is removed
//!
//! "T" trailer, the last frame
//!      9     8  number of pairs
//!     17     8  number of changes
//!     25    32  digest: for each frame before, SHA-256 of the last digest and the frame; it begins with 32 zeros
//!     57        checkpoint as it is stored, to the end; nothing if the partition has none
//! ```
//!
//! All integers are big-endian. The frame layout, the kind `H`, the eight letters and the version have their places in every
//! version.

use bytes::{Buf, BufMut, Bytes};
use seriatim_storage::{Digest, LogIdentity};
use seriatim_types::{Partition, PartitionOffset, limits};

pub(super) const VERSION: u8 = 1;

/// A frame is closed when it has so many bytes. Bounds memory of both sides, and is large enough that its overhead is small.
pub(super) const FRAME_BYTES: usize = 256 << 10;
/// The largest frame: one pair may exceed [`FRAME_BYTES`].
pub(super) const FRAME_BYTES_MAX: usize =
    FRAME_BYTES + limits::VALUE_BYTES_MAX + limits::CLUSTERING_KEY_BYTES_MAX + 64;

const MAGIC: &[u8; 8] = b"srtlocal";
const LENGTH_BYTES: usize = 4;
const PREFIX_BYTES: usize = 8;
const REMOVED: u32 = u32::MAX;

/// What a stream is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) partition: Partition,
    pub(super) log: LogIdentity,
    pub(super) definition: Digest,
    pub(super) began_at: PartitionOffset,
}

/// What a stream has, at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) pairs: u64,
    pub(super) changes: u64,
    pub(super) digest: Digest,
    pub(super) checkpoint: Vec<u8>,
}

/// A pair, or the removal of one.
pub(super) type Item = (Bytes, Option<Bytes>);

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    Header(Header),
    Pairs(Vec<Item>),
    Changes(Vec<Item>),
    Trailer(Trailer),
}

/// What is wrong with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadFrame {
    /// Not a stream of local state.
    NotOne,
    Newer(u8),
    Damaged(&'static str),
}

/// A frame under construction.
#[derive(Debug)]
pub(super) struct FrameBuilder(Vec<u8>);

impl FrameBuilder {
    fn new(kind: u8) -> Self {
        let mut bytes = vec![0; PREFIX_BYTES];
        bytes.push(kind);
        Self(bytes)
    }

    pub(super) fn pairs() -> Self {
        Self::new(b'P')
    }

    pub(super) fn changes() -> Self {
        Self::new(b'C')
    }

    /// Adds a pair or a removal.
    pub(super) fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        // A store accepts no longer keys and values.
        self.0.put_u16(u16::try_from(key.len()).expect("a key has at most 32,768 bytes"));
        self.0.put_slice(key);
        match value {
            None => self.0.put_u32(REMOVED),
            Some(value) => {
                self.0.put_u32(u32::try_from(value.len()).expect("a value has at most 16 MiB"));
                self.0.put_slice(value);
            }
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= FRAME_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.len() <= PREFIX_BYTES + 1
    }

    pub(super) fn finish(mut self) -> Bytes {
        let length = u32::try_from(self.0.len() - LENGTH_BYTES).expect("a frame is much shorter");
        self.0[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        let checksum = crc32fast::hash(&self.0[PREFIX_BYTES..]);
        self.0[LENGTH_BYTES..PREFIX_BYTES].copy_from_slice(&checksum.to_be_bytes());
        self.0.into()
    }
}

impl Header {
    pub(super) fn encode(&self) -> Bytes {
        let mut frame = FrameBuilder::new(b'H');
        frame.0.put_slice(MAGIC);
        frame.0.put_u8(VERSION);
        frame.0.put_u32(self.partition.application.get());
        frame.0.put_u16(self.partition.id.get());
        frame.0.put_slice(self.log.as_bytes());
        frame.0.put_slice(self.definition.as_bytes());
        frame.0.put_u64(self.began_at.get());
        frame.finish()
    }

    fn decode(content: &[u8]) -> Result<Self, BadFrame> {
        let mut rest = content.strip_prefix(MAGIC).ok_or(BadFrame::NotOne)?;
        let damaged = |_| BadFrame::Damaged("a header that is too short");
        let version = rest.try_get_u8().map_err(damaged)?;
        if version != VERSION {
            return Err(BadFrame::Newer(version));
        }
        let (application, id) = (rest.try_get_u32().map_err(damaged)?, rest.try_get_u16().map_err(damaged)?);
        let (mut log, mut definition) = ([0; 16], [0; 32]);
        rest.try_copy_to_slice(&mut log).map_err(damaged)?;
        rest.try_copy_to_slice(&mut definition).map_err(damaged)?;
        let began_at = PartitionOffset::new(rest.try_get_u64().map_err(damaged)?);
        if !rest.is_empty() {
            return Err(BadFrame::Damaged("a header that is too long"));
        }
        Ok(Self {
            partition: Partition::new(application, id),
            log: LogIdentity::from_bytes(log),
            definition: Digest::new(definition),
            began_at: began_at.ok_or(BadFrame::Damaged("a header without an offset"))?,
        })
    }
}

impl Trailer {
    pub(super) fn encode(&self) -> Bytes {
        let mut frame = FrameBuilder::new(b'T');
        frame.0.put_u64(self.pairs);
        frame.0.put_u64(self.changes);
        frame.0.put_slice(self.digest.as_bytes());
        frame.0.put_slice(&self.checkpoint);
        frame.finish()
    }

    fn decode(mut content: &[u8]) -> Result<Self, BadFrame> {
        let damaged = |_| BadFrame::Damaged("a trailer that is too short");
        let pairs = content.try_get_u64().map_err(damaged)?;
        let changes = content.try_get_u64().map_err(damaged)?;
        let mut digest = [0; 32];
        content.try_copy_to_slice(&mut digest).map_err(damaged)?;
        Ok(Self { pairs, changes, digest: Digest::new(digest), checkpoint: content.to_vec() })
    }
}

/// How long the frame at the start of `bytes` is; `None` if its length is not there yet.
pub(super) fn frame_bytes(bytes: &[u8]) -> Result<Option<usize>, BadFrame> {
    let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let size = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if !(PREFIX_BYTES + 1 - LENGTH_BYTES..=FRAME_BYTES_MAX).contains(&size) {
        return Err(BadFrame::Damaged("a frame with an impossible length"));
    }
    Ok(Some(size + LENGTH_BYTES))
}

impl Frame {
    /// Reads a whole frame.
    pub(super) fn decode(frame: &Bytes) -> Result<Self, BadFrame> {
        let (prefix, checked) = frame.split_at_checked(PREFIX_BYTES).ok_or(BadFrame::Damaged("no frame"))?;
        if crc32fast::hash(checked).to_be_bytes() != prefix[LENGTH_BYTES..] {
            return Err(BadFrame::Damaged("a frame whose checksum does not match"));
        }
        let (kind, content) = checked.split_first().ok_or(BadFrame::Damaged("no frame"))?;
        match kind {
            b'H' => Header::decode(content).map(Self::Header),
            b'P' => read_items(frame.slice(PREFIX_BYTES + 1..)).map(Self::Pairs),
            b'C' => read_items(frame.slice(PREFIX_BYTES + 1..)).map(Self::Changes),
            b'T' => Trailer::decode(content).map(Self::Trailer),
            _ => Err(BadFrame::Damaged("a frame of an unknown kind")),
        }
    }
}

/// Reads pairs. They share the memory of the frame.
fn read_items(mut content: Bytes) -> Result<Vec<Item>, BadFrame> {
    let mut items = Vec::new();
    let damaged = BadFrame::Damaged("a pair that is too short");
    let take = |content: &mut Bytes, length: usize| {
        if content.len() < length { Err(damaged) } else { Ok(content.split_to(length)) }
    };
    while !content.is_empty() {
        let length = content.try_get_u16().map_err(|_| damaged)?;
        let key = take(&mut content, length.into())?;
        let value = match content.try_get_u32().map_err(|_| damaged)? {
            REMOVED => None,
            length => Some(take(&mut content, usize::try_from(length).unwrap_or(usize::MAX))?),
        };
        items.push((key, value));
    }
    Ok(items)
}
