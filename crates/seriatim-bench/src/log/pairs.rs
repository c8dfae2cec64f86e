//! The pairs that are written to a store: each pair has its own key and value, and consecutive pairs have scattered keys.

use std::ops::Range;

use seriatim_storage::{Batch, Durability, Key, Store};

use crate::peer::PlainFjall;

/// Pairs of one batch: as many as a partition lets wait before it flushes.
pub(super) const BATCH_PAIRS: usize = 500;

/// Something that stores pairs.
pub(super) trait Pairs {
    /// Writes a batch, buffered.
    async fn write(&self, pairs: Range<u64>, value_bytes: usize) -> anyhow::Result<()>;

    /// Whether a pair exists.
    async fn has(&self, pair: u64) -> anyhow::Result<bool>;

    /// Whether all these pairs exist, read together.
    async fn has_all(&self, pairs: Range<u64>) -> anyhow::Result<bool>;
}

/// Writes pairs, batch by batch.
pub(super) async fn fill(target: &impl Pairs, pairs: Range<u64>, value_bytes: usize) -> anyhow::Result<()> {
    for first in pairs.clone().step_by(BATCH_PAIRS) {
        let end = pairs.end.min(first + BATCH_PAIRS as u64);
        target.write(first..end, value_bytes).await?;
    }
    Ok(())
}

/// The key of a pair: a table's name and a workspace, then a place in it.
struct PairKey {
    partition: [u8; 16],
    clustering: [u8; 8],
}

impl PairKey {
    fn new(pair: u64) -> Self {
        // Multiplying by an odd number scatters the keys and keeps them distinct.
        let scattered = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut partition = *b"records:........";
        partition[8..].copy_from_slice(&(scattered >> 8).to_be_bytes());
        let clustering = (scattered & 0xff).to_be_bytes();
        Self { partition, clustering }
    }

    fn as_key(&self) -> Key<'_> {
        Key::new(&self.partition, &self.clustering)
    }

    fn joined(&self) -> [u8; 24] {
        let mut joined = [0; 24];
        joined[..16].copy_from_slice(&self.partition);
        joined[16..].copy_from_slice(&self.clustering);
        joined
    }
}

/// The value of a pair: bytes that do not compress, so that the store has the expected size.
fn value(pair: u64, bytes: usize, buffer: &mut Vec<u8>) {
    buffer.clear();
    let mut state = pair | 1;
    while buffer.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        buffer.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    buffer.truncate(bytes);
}

impl Pairs for Store {
    async fn write(&self, pairs: Range<u64>, value_bytes: usize) -> anyhow::Result<()> {
        let (mut batch, mut buffer) = (Batch::new(), Vec::new());
        for pair in pairs {
            value(pair, value_bytes, &mut buffer);
            batch.put(PairKey::new(pair).as_key(), &buffer);
        }
        Ok(Self::write(self, batch, Durability::Buffered).await?)
    }

    async fn has(&self, pair: u64) -> anyhow::Result<bool> {
        Ok(self.get(PairKey::new(pair).as_key()).await?.is_some())
    }

    async fn has_all(&self, pairs: Range<u64>) -> anyhow::Result<bool> {
        let keys: Vec<_> = pairs.map(PairKey::new).collect();
        let keys: Vec<_> = keys.iter().map(PairKey::as_key).collect();
        Ok(self.get_many(&keys).await?.iter().all(Option::is_some))
    }
}

impl Pairs for PlainFjall {
    async fn write(&self, pairs: Range<u64>, value_bytes: usize) -> anyhow::Result<()> {
        let (mut batch, mut buffer) = (self.batch(), Vec::new());
        for pair in pairs {
            value(pair, value_bytes, &mut buffer);
            batch.put(&PairKey::new(pair).joined(), &buffer);
        }
        batch.commit()
    }

    async fn has(&self, pair: u64) -> anyhow::Result<bool> {
        Ok(self.get(&PairKey::new(pair).joined())?.is_some())
    }

    async fn has_all(&self, pairs: Range<u64>) -> anyhow::Result<bool> {
        for pair in pairs {
            if !self.has(pair).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
