//! A hash map keyed by workspace, with a hash that costs one multiplication.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use seriatim_types::WorkspaceId;

/// A hash map keyed by workspace. Seriatim gives out their ids, in ascending order, so the hash must only distribute them
/// and need not resist an attacker. Its order is the same in every run, which simulation needs.
pub type WorkspaceMap<V> = HashMap<WorkspaceId, V, BuildHasherDefault<WorkspaceHasher>>;

/// The hash of a workspace's id.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkspaceHasher(u64);

impl Hasher for WorkspaceHasher {
    fn write_u64(&mut self, value: u64) {
        // The multiplier is 2^64 divided by the golden ratio. The map uses both halves of the product.
        let product = u128::from(value ^ self.0) * 0x9e37_79b9_7f4a_7c15_u128;
        #[expect(clippy::cast_possible_truncation, reason = "the halves are folded together")]
        let folded = (product >> 64) as u64 ^ product as u64;
        self.0 = folded;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
