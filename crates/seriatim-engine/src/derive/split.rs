//! Values that are larger than a store accepts. They are stored in parts.
//!
//! ```text
//! under the value's key:  header: 255, offset folded last 8, version 1, length 8, number of parts 4, CRC-32 of the value 4
//! under keys of its own:  the parts, 4 MiB each, the last one shorter
//! a part's key:           partition   that of the value's key
//!                         clustering  "z", clustering of the value's key, offset folded last 8, number of the part from 0: 4
//! ```
//!
//! A part's key names the event that was folded last, so that parts of a newer value do not overwrite those of the older
//! one: where a batch may be there in part, the older value is readable until the header is replaced. No other value
//! begins with 255: a record begins with its version, a row with its offset, the others have another length.
//!
//! Growth beyond [`DERIVED_VALUE_BYTES_MAX`](crate::limits::DERIVED_VALUE_BYTES_MAX) is refused, so this is for logs that
//! were written without that limit.

use std::collections::HashMap;

use bytes::{Buf, BufMut, Bytes};
use seriatim_storage::{Key, Pair, Store, StoreError};
use seriatim_types::limits::VALUE_BYTES_MAX;
use seriatim_types::sync::{Mutex, MutexGuard};

use super::collected::Collected;
use super::draft::REMOVED;
use super::keys::{self, Family, StoreKey};

/// Bytes of one part: as many as a page of a scan or of the log.
pub(super) const PART_BYTES: usize = 4 << 20;

/// Keys of the first page of a bounded read, when the size of the values is not known.
const FIRST_PAGE_KEYS: usize = 16;

const MARK: u8 = 255;
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 26;

/// What is stored under the key of a value that is kept in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The last event that was folded into the value.
    pub(crate) folded: u64,
    length: u64,
    pub(super) parts: u32,
    checksum: u32,
}

impl Header {
    /// The header of a value; `None` if it is small enough to be stored whole.
    pub(super) fn of(key: &StoreKey, value: &[u8]) -> Option<Self> {
        if value.len() <= VALUE_BYTES_MAX {
            return None;
        }
        // A record begins with a version, a row does not.
        let is_record = matches!(Family::of(key.clustering()), Some(Family::Record(..)));
        let mut offset = &value[usize::from(is_record)..];
        Some(Self {
            folded: offset.get_u64(),
            length: value.len() as u64,
            parts: u32::try_from(value.len().div_ceil(PART_BYTES)).expect("memory holds no such value"),
            checksum: crc32fast::hash(value),
        })
    }

    pub(super) fn encode(self) -> Bytes {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.put_u8(MARK);
        bytes.put_u64(self.folded);
        bytes.put_u8(VERSION);
        bytes.put_u64(self.length);
        bytes.put_u32(self.parts);
        bytes.put_u32(self.checksum);
        bytes.into()
    }

    /// Reads a header; `None` if a value is whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let [MARK, rest @ ..] = bytes else { return None };
        let mut rest: &[u8] = rest;
        if bytes.len() != HEADER_BYTES {
            return None;
        }
        let folded = rest.get_u64();
        if rest.get_u8() != VERSION {
            return None;
        }
        let (length, parts, checksum) = (rest.get_u64(), rest.get_u32(), rest.get_u32());
        let fits = length.div_ceil(PART_BYTES as u64) == u64::from(parts);
        fits.then_some(Self { folded, length, parts, checksum })
    }

    pub(super) fn part_keys(self, key: Key<'_>) -> impl Iterator<Item = StoreKey> + use<'_> {
        (0..self.parts).map(move |number| keys::part_of_value(key, self.folded, number))
    }

    /// Reads the parts and joins them; `None` if they are not there, or are not those of this header.
    async fn read(self, store: &Store, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        let mut value = Vec::new();
        for part in self.part_keys(key) {
            let Some(bytes) = store.get(part.as_key()).await? else { return Ok(None) };
            value.extend_from_slice(&bytes);
        }
        let is_whole = value.len() as u64 == self.length && crc32fast::hash(&value) == self.checksum;
        Ok(is_whole.then(|| value.into()))
    }
}

pub(super) type HeadersByKey = HashMap<StoreKey, Vec<Header>>;

/// The values that a store has in parts, or may have: those that were read and those that were written. A value is read before it
/// is replaced, because the new one is folded from it. So the parts of a replaced value are known and can be removed. There are few
/// such values, because each of them needs as many bytes in the log.
#[derive(Debug, Default)]
pub(crate) struct Splits {
    known: Mutex<HeadersByKey>,
}

impl Splits {
    fn known(&self) -> MutexGuard<'_, HeadersByKey> {
        self.known.lock()
    }

    fn learn(&self, key: StoreKey, header: Header) {
        let mut known = self.known();
        let headers = known.entry(key).or_default();
        if !headers.contains(&header) {
            headers.push(header);
        }
    }

    /// Reads values, whole.
    pub(crate) async fn get_many(
        &self,
        store: &Store,
        keys: &[Key<'_>],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let mut values = store.get_many(keys).await?;
        for (key, value) in keys.iter().zip(&mut values) {
            if let Some(header) = value.as_deref().and_then(Header::decode) {
                *value = self.join(store, *key, header).await?;
            }
        }
        Ok(values)
    }

    /// Reads whole values, in the order of the keys, until about `bytes_max` bytes are read. May return fewer values than keys.
    pub(crate) async fn get_within(
        &self,
        store: &Store,
        keys: &[StoreKey],
        bytes_max: usize,
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let mut found: Vec<Option<Bytes>> = Vec::with_capacity(keys.len());
        // The size of a value is known only after it was read. So the first page is small, and each later page has as many keys as
        // fit if all values are as large as the largest one so far.
        let (mut bytes, mut largest, mut page) = (0, 1, FIRST_PAGE_KEYS);
        while found.len() < keys.len() && bytes < bytes_max {
            let end = keys.len().min(found.len().saturating_add(page));
            let asked: Vec<Key<'_>> = keys[found.len()..end].iter().map(StoreKey::as_key).collect();
            for value in self.get_many(store, &asked).await? {
                let size = value.as_ref().map_or(0, Bytes::len);
                (bytes, largest) = (bytes + size, size.max(largest));
                found.push(value);
            }
            page = (bytes_max.saturating_sub(bytes) / largest).max(1);
        }
        Ok(found)
    }

    /// Replaces the headers in a page by the whole values.
    pub(crate) async fn join_page(
        &self,
        store: &Store,
        partition: &[u8],
        page: &mut [Pair],
    ) -> Result<(), StoreError> {
        for (clustering, value) in page {
            if let Some(header) = Header::decode(value) {
                let key = Key::new(partition, clustering);
                *value = self.join(store, key, header).await?.unwrap_or(REMOVED);
            }
        }
        Ok(())
    }

    async fn join(
        &self,
        store: &Store,
        key: Key<'_>,
        mut header: Header,
    ) -> Result<Option<Bytes>, StoreError> {
        loop {
            self.learn(StoreKey::new(key.partition, key.clustering), header);
            if let Some(value) = header.read(store, key).await? {
                return Ok(Some(value));
            }
            // A flush may have replaced the value since its header was read.
            let Some(bytes) = store.get(key).await? else { return Ok(None) };
            match Header::decode(&bytes) {
                None => return Ok(Some(bytes)),
                Some(again) if again == header => {
                    let key = StoreKey::new(key.partition, key.clustering);
                    let reason = format!(
                        "parts of the value at {key} are missing or damaged: run `seriatim doctor --repair`"
                    );
                    return Err(StoreError::Corrupt(reason));
                }
                Some(again) => header = again,
            }
        }
    }

    /// Begins to collect what is to be written.
    pub(crate) fn collect(&self) -> Collected {
        Collected::new(self.known().clone())
    }

    /// To be called before a write: from now on the store may have these parts, whether the write succeeds or not.
    pub(crate) fn expect(&self, collected: &Collected) {
        for (key, header) in &collected.changed {
            if let Some(header) = header {
                self.learn(key.clone(), *header);
            }
        }
    }

    /// To be called after a write that succeeded: the old parts were removed.
    pub(crate) fn settle(&self, changed: Vec<(StoreKey, Option<Header>)>) {
        if changed.is_empty() {
            return;
        }
        let mut known = self.known();
        for (key, header) in changed {
            match header {
                Some(header) => drop(known.insert(key, vec![header])),
                None => drop(known.remove(&key)),
            }
        }
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
