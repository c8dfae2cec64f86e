//! Reads: the runs, newest first, and then the tables.

use std::iter::Peekable;
use std::ops::Range;

use bytes::Bytes;
use seriatim_storage::{Pair, StoreError};
use seriatim_types::limits;

use super::filter::hash;
use super::key;
use super::layers::Snapshot;
use super::run::merge;
use super::tree::caught;

/// The value of a physical key.
pub(super) fn get(snapshot: &Snapshot, physical: &[u8]) -> Result<Option<Bytes>, StoreError> {
    let hash = hash(physical);
    if let Some(entry) = snapshot.runs.iter().find_map(|run| run.get(physical, hash)) {
        return Ok(entry.value.clone());
    }
    let value = caught(|| snapshot.tables.get(physical, hash)).map_err(|failure| failure.of_read())?;
    // Copied, because the slices of lsm-tree keep a whole block in memory.
    Ok(value.map(|value| Bytes::copy_from_slice(&value)))
}

/// The first pairs of a range of physical keys.
pub(super) fn page(
    snapshot: &Snapshot,
    range: &Range<Vec<u8>>,
    limit: usize,
) -> Result<Vec<Pair>, StoreError> {
    let mut page = Page { pairs: Vec::new(), bytes: 0, limit: limit.min(limits::SCAN_PAGE_PAIRS_MAX) };
    if range.is_empty() || limit == 0 {
        return Ok(page.pairs);
    }
    let parts: Vec<_> =
        snapshot.runs.iter().map(|run| run.range(range)).filter(|part| !part.is_empty()).collect();
    let mut in_memory = merge(&parts).peekable();
    let filled = caught(|| {
        let mut in_tables = snapshot.tables.range(range).peekable();
        loop {
            // Entries in memory are newer, and replace what the tables have under the same key.
            let pair = match (in_memory.peek(), next_key(&mut in_tables)?) {
                (None, None) => break,
                (Some(entry), Some(stored)) if stored < entry.key.as_bytes() => None,
                (None, Some(_)) => None,
                (Some(entry), Some(stored)) if stored == entry.key.as_bytes() => {
                    in_tables.next();
                    in_memory.next()
                }
                (Some(_), _) => in_memory.next(),
            };
            let more = match pair {
                Some(entry) => match &entry.value {
                    Some(value) => page.add(entry.key.clustering(), value.len(), || value.clone()),
                    None => true,
                },
                None => {
                    let Some((physical, value)) = in_tables.next().transpose()? else { break };
                    match key::decode(&physical) {
                        Some(key) => page.add(key.clustering, value.len(), || Bytes::copy_from_slice(&value)),
                        None => {
                            return Ok(Err(StoreError::Corrupt(format!(
                                "the store has a key that is not valid: {physical:02x?}"
                            ))));
                        }
                    }
                }
            };
            if !more {
                break;
            }
        }
        Ok(Ok(()))
    });
    filled.map_err(|failure| failure.of_read())??;
    Ok(page.pairs)
}

type StoredPair = lsm_tree::Result<(lsm_tree::UserKey, lsm_tree::UserValue)>;

/// The next key of the tables.
fn next_key(in_tables: &mut Peekable<impl Iterator<Item = StoredPair>>) -> lsm_tree::Result<Option<&[u8]>> {
    if let Some(Err(error)) = in_tables.next_if(Result::is_err) {
        return Err(error);
    }
    Ok(in_tables.peek().and_then(|stored| stored.as_ref().ok()).map(|(key, _)| &key[..]))
}

/// A page of a scan.
struct Page {
    pairs: Vec<Pair>,
    bytes: usize,
    limit: usize,
}

impl Page {
    /// Adds a pair, unless it is too large for this page. Returns whether there is room for more.
    fn add(&mut self, clustering: &[u8], value_bytes: usize, value: impl FnOnce() -> Bytes) -> bool {
        self.bytes += clustering.len() + value_bytes;
        if self.bytes > limits::SCAN_PAGE_BYTES_MAX && !self.pairs.is_empty() {
            return false;
        }
        self.pairs.push((Bytes::copy_from_slice(clustering), value()));
        self.pairs.len() < self.limit
    }
}
