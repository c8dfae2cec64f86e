//! An entry of the log, byte by byte.
//!
//! ```text
//! offset  size  field
//!      0     4  length of everything after this field
//!      4     4  checksum: CRC-32 of everything after this field
//!      8     1  version, 1
//!      9     8  workspace
//!     17     2  kind of the workspace
//!     19     8  workspace offset
//!     27     8  time, milliseconds since the Unix epoch
//!     35     8  epoch   ┐ append id
//!     43     8  counter ┘
//!     51    32  SHA-256 of the body
//!     83     2  number of draws, d
//!     85     2  number of raises, r
//!     87  18×d  draws: sequence 2, first 8, count 8
//!         10×r  raises: sequence 2, next 8
//!           32  chain: SHA-256 of the previous chain head and bytes 8 up to here
//!               body, to the end
//! ```
//!
//! All integers are big-endian. The chain covers the header without length, checksum and chain; the body is covered
//! through its digest.

use std::fmt;

use bytes::{Buf, BufMut};
use seriatim_types::{
    AppendId, Epoch, Number, SequenceId, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset, limits,
};

use crate::Digest;

/// The version of the entry layout that this code writes, and the newest that it reads.
pub const ENTRY_VERSION: u8 = 1;

/// Bytes of an entry before its draws.
const FIXED_BYTES: usize = 87;
const LENGTH_BYTES: usize = 4;
const CHECKED_FROM: usize = 8;
const DRAW_BYTES: usize = 18;
const RAISE_BYTES: usize = 10;
const CHAIN_BYTES: usize = 32;

/// Consecutive numbers drawn from one sequence: `count` numbers from `first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// The sequence.
    pub sequence: SequenceId,
    /// The first number of the run.
    pub first: Number,
    /// How many numbers, at least 1.
    pub count: u64,
}

/// A sequence that continues from a later number: an import, or an explained gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raise {
    /// The sequence.
    pub sequence: SequenceId,
    /// The number that is drawn next.
    pub next: Number,
}

/// The part of an event that the log and the sequencer read. The body is opaque to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The workspace whose event it is.
    pub workspace: WorkspaceId,
    /// The kind of that workspace.
    pub kind: WorkspaceKind,
    /// The event's place in the workspace's own log.
    pub workspace_offset: WorkspaceOffset,
    /// When it was made.
    pub time: Timestamp,
    /// SHA-256 of the body.
    pub body_digest: Digest,
    /// The numbers that were drawn for it.
    pub draws: &'a [Draw],
    /// The sequences that it raised.
    pub raises: &'a [Raise],
}

/// Why an entry cannot be written: it exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an entry may have {max} {what}, and this one has {found}: write less with one event")]
pub struct EntryTooLarge {
    /// What there is too much of.
    pub what: &'static str,
    /// How much is allowed.
    pub max: usize,
    /// How much there is.
    pub found: usize,
}

/// Appends an entry to `buffer` and returns the workspace's new chain head. On an error nothing is written.
pub(crate) fn encode(
    buffer: &mut Vec<u8>,
    append: AppendId,
    header: &Header<'_>,
    previous: Digest,
    body: &[u8],
) -> Result<Digest, EntryTooLarge> {
    let (draws, raises) = (header.draws.len(), header.raises.len());
    let size = FIXED_BYTES + draws * DRAW_BYTES + raises * RAISE_BYTES + CHAIN_BYTES + body.len();
    let checks = [
        ("draws", limits::DRAWS_MAX, draws),
        ("raises", limits::RAISES_MAX, raises),
        ("bytes", limits::ENTRY_BYTES_MAX, size),
    ];
    if let Some(&(what, max, found)) = checks.iter().find(|(_, max, found)| found > max) {
        return Err(EntryTooLarge { what, max, found });
    }
    let start = buffer.len();
    buffer.reserve(size);
    // The fixed part is built on the stack and added at once: every command runs this, and a capacity check per field is
    // slow.
    let mut fixed = [0; FIXED_BYTES];
    fixed[..4].copy_from_slice(&small_u32(size - LENGTH_BYTES).to_be_bytes());
    fixed[8] = ENTRY_VERSION;
    fixed[9..17].copy_from_slice(&header.workspace.get().to_be_bytes());
    fixed[17..19].copy_from_slice(&header.kind.get().to_be_bytes());
    fixed[19..27].copy_from_slice(&header.workspace_offset.get().to_be_bytes());
    fixed[27..35].copy_from_slice(&header.time.as_millis().to_be_bytes());
    fixed[35..43].copy_from_slice(&append.epoch.get().to_be_bytes());
    fixed[43..51].copy_from_slice(&append.counter.to_be_bytes());
    fixed[51..83].copy_from_slice(header.body_digest.as_bytes());
    fixed[83..85].copy_from_slice(&small_u16(draws).to_be_bytes());
    fixed[85..87].copy_from_slice(&small_u16(raises).to_be_bytes());
    buffer.extend_from_slice(&fixed);
    for draw in header.draws {
        let mut bytes = [0; DRAW_BYTES];
        bytes[..2].copy_from_slice(&draw.sequence.get().to_be_bytes());
        bytes[2..10].copy_from_slice(&draw.first.get().to_be_bytes());
        bytes[10..].copy_from_slice(&draw.count.to_be_bytes());
        buffer.extend_from_slice(&bytes);
    }
    for raise in header.raises {
        buffer.put_u16(raise.sequence.get());
        buffer.put_u64(raise.next.get());
    }
    let chain = previous.link(&buffer[start + CHECKED_FROM..]);
    buffer.extend_from_slice(chain.as_bytes());
    buffer.extend_from_slice(body);
    let checksum = crc32fast::hash(&buffer[start + CHECKED_FROM..]);
    buffer[start + LENGTH_BYTES..start + CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
    Ok(chain)
}

/// The chain head after an entry with this header, computed as an append does: the SHA-256 of the previous head and the
/// header. For callers that have the header and not the log. The body is covered by its digest.
///
/// # Errors
///
/// [`EntryTooLarge`] if no entry can have such a header.
pub fn chain_head(append: AppendId, header: &Header<'_>, previous: Digest) -> Result<Digest, EntryTooLarge> {
    encode(&mut Vec::new(), append, header, previous, &[])
}

fn small_u32(value: usize) -> u32 {
    u32::try_from(value).expect("checked against a limit below 4 GiB")
}

fn small_u16(value: usize) -> u16 {
    u16::try_from(value).expect("checked against a limit below 65,536")
}

/// What is wrong with the bytes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// There are fewer bytes than the entry says.
    #[error("an entry ends early: {needed} bytes needed, {found} found")]
    Short {
        /// Bytes that the entry needs.
        needed: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// The checksum does not match the bytes.
    #[error("an entry is damaged: its checksum is {expected:08x}, and its bytes have {found:08x}")]
    Checksum {
        /// The checksum that is stored.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// A newer Seriatim wrote it.
    #[error(
        "an entry has version {found}, and this program reads versions up to {ENTRY_VERSION}: use a newer program"
    )]
    Newer {
        /// The version that it has.
        found: u8,
    },
    /// A field has a value that it cannot have.
    #[error("an entry has no valid {field}")]
    Field {
        /// Which field.
        field: &'static str,
    },
}

/// An entry that borrows its bytes: decoding checks all of them once and copies nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    bytes: &'a [u8],
    append: AppendId,
    workspace_offset: WorkspaceOffset,
    draws: usize,
    raises: usize,
}

impl<'a> Entry<'a> {
    /// Reads the entry at the start of `bytes`. Bytes after it are not read; [`Entry::size`] gives its length.
    ///
    /// # Errors
    ///
    /// [`BadEntry`] if the bytes are not an entry, a damaged one, or one of a newer format.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BadEntry> {
        let size = Self::size_at(bytes)?;
        let bytes = bytes.get(..size).ok_or(BadEntry::Short { needed: size, found: bytes.len() })?;
        let mut fields = &bytes[LENGTH_BYTES..];
        let (expected, found) = (fields.get_u32(), crc32fast::hash(&bytes[CHECKED_FROM..]));
        if expected != found {
            return Err(BadEntry::Checksum { expected, found });
        }
        Self::parse(bytes)
    }

    /// Reads one whole entry that [`Entry::decode`] has accepted before. Does not compute its checksum again.
    pub(crate) fn decode_checked(bytes: &'a [u8]) -> Result<Self, BadEntry> {
        Self::parse(bytes)
    }

    /// The length of the entry at the start of `bytes`, from its length field. For skipping an entry without reading it.
    ///
    /// # Errors
    ///
    /// [`BadEntry`] if no entry can begin like this.
    pub fn size_at(bytes: &[u8]) -> Result<usize, BadEntry> {
        let mut fields = bytes;
        let short = |needed| BadEntry::Short { needed, found: bytes.len() };
        let length = fields.try_get_u32().map_err(|_| short(FIXED_BYTES))?;
        let size = usize::try_from(length).map_err(|_| BadEntry::Field { field: "length" })? + LENGTH_BYTES;
        if !(FIXED_BYTES + CHAIN_BYTES..=limits::ENTRY_BYTES_MAX).contains(&size) {
            return Err(BadEntry::Field { field: "length" });
        }
        Ok(size)
    }

    /// Reads bytes whose length and checksum have been checked.
    fn parse(bytes: &'a [u8]) -> Result<Self, BadEntry> {
        let mut fields = &bytes[CHECKED_FROM..FIXED_BYTES];
        let version = fields.get_u8();
        if version != ENTRY_VERSION {
            return Err(BadEntry::Newer { found: version });
        }
        fields.advance(8 + 2);
        let workspace_offset = WorkspaceOffset::new(fields.get_u64());
        fields.advance(8);
        let epoch = Epoch::new(fields.get_u64());
        let counter = fields.get_u64();
        fields.advance(32);
        let (draws, raises) = (usize::from(fields.get_u16()), usize::from(fields.get_u16()));
        let field = |field| BadEntry::Field { field };
        let entry = Self {
            bytes,
            append: AppendId { epoch: epoch.ok_or(field("epoch"))?, counter },
            workspace_offset: workspace_offset.ok_or(field("workspace offset"))?,
            draws,
            raises,
        };
        if entry.body_at() > bytes.len() {
            return Err(BadEntry::Short { needed: entry.body_at(), found: bytes.len() });
        }
        Ok(entry)
    }

    fn draws_end(&self) -> usize {
        FIXED_BYTES + self.draws * DRAW_BYTES
    }

    fn chain_at(&self) -> usize {
        self.draws_end() + self.raises * RAISE_BYTES
    }

    fn body_at(&self) -> usize {
        self.chain_at() + CHAIN_BYTES
    }

    fn u64_at(&self, at: usize) -> u64 {
        (&self.bytes[at..]).get_u64()
    }

    fn digest_at(&self, at: usize) -> Digest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(&self.bytes[at..at + 32]);
        Digest::new(bytes)
    }

    /// How many bytes it has, in all.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The workspace whose event it is.
    #[must_use]
    pub fn workspace(&self) -> WorkspaceId {
        WorkspaceId::new(self.u64_at(9))
    }

    /// The kind of that workspace.
    #[must_use]
    pub fn kind(&self) -> WorkspaceKind {
        WorkspaceKind::new((&self.bytes[17..]).get_u16())
    }

    /// The event's place in the workspace's own log.
    #[must_use]
    pub fn workspace_offset(&self) -> WorkspaceOffset {
        self.workspace_offset
    }

    /// When it was made.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.u64_at(27))
    }

    /// The id of the append that wrote it.
    #[must_use]
    pub fn append_id(&self) -> AppendId {
        self.append
    }

    /// What identifies it.
    #[must_use]
    pub fn mark(&self) -> EntryMark {
        EntryMark { append: self.append, chain: self.chain() }
    }

    /// SHA-256 of the body, as stored in the header. [`Entry::body_is_intact`] compares.
    #[must_use]
    pub fn body_digest(&self) -> Digest {
        self.digest_at(51)
    }

    /// The numbers that were drawn for it.
    pub fn draws(&self) -> impl ExactSizeIterator<Item = Draw> + use<'a> {
        self.bytes[FIXED_BYTES..self.draws_end()].chunks_exact(DRAW_BYTES).map(|mut draw| Draw {
            sequence: SequenceId::new(draw.get_u16()),
            first: Number::new(draw.get_u64()),
            count: draw.get_u64(),
        })
    }

    /// The sequences that it raised.
    pub fn raises(&self) -> impl ExactSizeIterator<Item = Raise> + use<'a> {
        self.bytes[self.draws_end()..self.chain_at()].chunks_exact(RAISE_BYTES).map(|mut raise| Raise {
            sequence: SequenceId::new(raise.get_u16()),
            next: Number::new(raise.get_u64()),
        })
    }

    /// The workspace's chain head after this entry.
    #[must_use]
    pub fn chain(&self) -> Digest {
        self.digest_at(self.chain_at())
    }

    /// Whether this entry continues a chain whose head was `previous`.
    #[must_use]
    pub fn continues(&self, previous: Digest) -> bool {
        previous.link(&self.bytes[CHECKED_FROM..self.chain_at()]) == self.chain()
    }

    /// The event itself.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.body_at()..]
    }

    /// Whether the body has the digest that the header has.
    #[must_use]
    pub fn body_is_intact(&self) -> bool {
        Digest::of(self.body()) == self.body_digest()
    }

    /// The entry's bytes, as stored.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// What identifies an entry at its offset. The append id alone does not: after a log was cut back, epochs and counters can be used
/// again. The chain value covers the header, the body, and all earlier entries of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryMark {
    /// The id of the append that wrote it.
    pub append: AppendId,
    /// The workspace's chain head after it.
    pub chain: Digest,
}

impl fmt::Display for EntryMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "append {} with chain {}", self.append, self.chain)
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
