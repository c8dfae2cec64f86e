//! Several entries in one buffer.

use seriatim_types::{AppendId, PartitionOffset, limits};

use crate::entry::{self, Entry, EntryMark, EntryTooLarge, Header};
use crate::{BadEntry, Digest};

/// The entries of one append, encoded one after the other. The buffer is filled before the append and can be reused after
/// it: [`Entries::reset`] keeps the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    append: AppendId,
    bytes: Vec<u8>,
    count: usize,
    /// The chain head after the last entry.
    chain: Digest,
}

impl Entries {
    /// No entries yet, for an append with this id.
    #[must_use]
    pub fn new(append: AppendId) -> Self {
        Self { append, bytes: Vec::new(), count: 0, chain: Digest::ZERO }
    }

    /// Removes all entries and sets another id. Keeps the memory.
    pub fn reset(&mut self, append: AppendId) {
        self.append = append;
        self.bytes.clear();
        (self.count, self.chain) = (0, Digest::ZERO);
    }

    /// Adds an entry that follows `previous` in its workspace's chain; returns the new chain head.
    ///
    /// # Errors
    ///
    /// [`EntryTooLarge`] if the entry, or the whole append with it, would exceed a limit. Nothing is added then.
    pub fn push(
        &mut self,
        header: &Header<'_>,
        previous: Digest,
        body: &[u8],
    ) -> Result<Digest, EntryTooLarge> {
        if self.count == limits::APPEND_ENTRIES_MAX {
            let max = limits::APPEND_ENTRIES_MAX;
            return Err(EntryTooLarge { what: "entries in its append", max, found: max + 1 });
        }
        let before = self.bytes.len();
        let chain = entry::encode(&mut self.bytes, self.append, header, previous, body)?;
        if self.bytes.len() > limits::APPEND_BYTES_MAX {
            let found = self.bytes.len();
            self.bytes.truncate(before);
            return Err(EntryTooLarge { what: "bytes in its append", max: limits::APPEND_BYTES_MAX, found });
        }
        (self.count, self.chain) = (self.count + 1, chain);
        Ok(chain)
    }

    /// Entries of another log, encoded one after the other, as they are. Each keeps its own append id; the id of the whole is that
    /// of the first one. For a restore.
    ///
    /// # Errors
    ///
    /// [`BadEntry`] if there is none, or one does not decode.
    pub fn copied(bytes: &[u8]) -> Result<Self, BadEntry> {
        let first = Entry::decode(bytes)?;
        let mut copied = Self { bytes: bytes.to_vec(), ..Self::new(first.append_id()) };
        let mut rest = bytes;
        while !rest.is_empty() {
            let entry = Entry::decode(rest)?;
            (copied.count, copied.chain) = (copied.count + 1, entry.chain());
            rest = &rest[entry.size()..];
        }
        Ok(copied)
    }

    /// The append id that each of the entries has. Of copied entries: that the first one has.
    #[must_use]
    pub fn append_id(&self) -> AppendId {
        self.append
    }

    /// What identifies the last entry; `None` if there are no entries.
    #[must_use]
    pub fn last_mark(&self) -> Option<EntryMark> {
        (self.count > 0).then_some(EntryMark { append: self.append, chain: self.chain })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them as stored, one after the other.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Each of them, decoded, in order.
    ///
    /// # Panics
    ///
    /// Never: the bytes were encoded by [`Entries::push`].
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let entry = Entry::decode(rest).expect("what was encoded here decodes");
            rest = &rest[entry.size()..];
            Some(entry)
        })
    }
}

/// Consecutive entries of one partition, from an offset on. Each was checked when it was read, so each decodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadEntries {
    first: PartitionOffset,
    next: PartitionOffset,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ReadEntries {
    /// No entries yet. The first one will be at offset `from`.
    #[must_use]
    pub fn new(from: PartitionOffset) -> Self {
        Self { first: from, next: from, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Adds the encoded entry at the start of `bytes` and returns how many bytes it took. For backends.
    ///
    /// # Errors
    ///
    /// [`BadEntry`] if it does not decode; nothing is added then.
    ///
    /// # Panics
    ///
    /// At the end of the offsets, which no log reaches.
    pub fn push(&mut self, bytes: &[u8]) -> Result<usize, BadEntry> {
        let entry = Entry::decode(bytes)?;
        self.bytes.extend_from_slice(entry.as_bytes());
        self.ends.push(self.bytes.len());
        self.next = self.next.next().expect("a log ends before its offsets do");
        Ok(entry.size())
    }

    /// The offset of the first entry. If there is none: the offset that was read from.
    #[must_use]
    pub fn first(&self) -> PartitionOffset {
        self.first
    }

    /// The offset to read from next.
    #[must_use]
    pub fn next(&self) -> PartitionOffset {
        self.next
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none: the reader has reached the tail.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them as stored, one after the other.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Each of them with its offset, in order.
    ///
    /// # Panics
    ///
    /// Never: each was decoded when it was added.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionOffset, Entry<'_>)> {
        let mut start = 0;
        let mut offset = self.first;
        self.ends.iter().map(move |&end| {
            let entry = Entry::decode_checked(&self.bytes[start..end]);
            let at = offset;
            start = end;
            offset = offset.next().unwrap_or(offset);
            (at, entry.expect("checked when it was added"))
        })
    }
}
