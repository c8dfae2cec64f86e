//! What one flush writes.

use bytes::Bytes;
use seriatim_sequencer::{Definition, Numbers, NumbersKey};
use seriatim_storage::{Batch, Write};
use seriatim_types::{Partition, WorkspaceId};

use super::draft::REMOVED;
use super::keys::StoreKey;
use super::split::{Header, HeadersByKey, PART_BYTES};

/// What one flush writes, as one batch.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    known: HeadersByKey,
    batch: Batch,
    /// Values that are now stored in parts, with their headers, and values that no longer are, with `None`.
    pub(crate) changed: Vec<(StoreKey, Option<Header>)>,
}

impl Collected {
    pub(super) fn new(known: HeadersByKey) -> Self {
        Self { known, ..Self::default() }
    }

    /// Adds a value; [`REMOVED`] removes it.
    pub(crate) fn put(&mut self, key: &StoreKey, value: &Bytes) {
        let header = Header::of(key, value);
        let stored = match header {
            Some(header) => Some(header.encode()),
            None => (*value != REMOVED).then(|| value.clone()),
        };
        self.batch.push(Write { key: key.clone(), value: stored });
        if let Some(header) = header {
            self.put_parts(key, header, value);
        }
        let older = if self.known.is_empty() { None } else { self.known.get(key) };
        for old in older.into_iter().flatten() {
            // If the same value is written again, its parts have the same keys and must not be removed.
            let kept = header.filter(|header| header.folded == old.folded).map_or(0, |header| header.parts);
            for part in old.part_keys(key.as_key()).skip(kept as usize) {
                self.batch.remove(part.as_key());
            }
        }
        if header.is_some() || older.is_some() {
            self.changed.push((key.clone(), header));
        }
    }

    /// Adds numbers of workspaces.
    pub(crate) fn put_numbers<'a>(
        &mut self,
        partition: Partition,
        definition: &Definition,
        numbers: impl Iterator<Item = (&'a WorkspaceId, &'a Numbers)>,
    ) {
        let mut bytes = Vec::new();
        for (workspace, numbers) in numbers {
            bytes.clear();
            numbers.encode(definition, &mut bytes);
            self.batch.put(NumbersKey::new(partition, *workspace).as_key(), &bytes);
        }
    }

    fn put_parts(&mut self, key: &StoreKey, header: Header, value: &Bytes) {
        for (part, from) in header.part_keys(key.as_key()).zip((0..).step_by(PART_BYTES)) {
            let bytes = value.slice(from..value.len().min(from + PART_BYTES));
            self.batch.push(Write { key: part, value: Some(bytes) });
        }
    }

    /// Returns the batch and leaves an empty one.
    pub(crate) fn take_all(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }
}
