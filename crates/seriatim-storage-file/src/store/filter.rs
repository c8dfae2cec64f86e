//! Tells quickly that a run does not have a key.

use lsm_tree::table::filter::standard_bloom::Builder;

/// Bits per key, before the size is rounded up to a power of two: less than one look-up in a hundred is let through
/// for nothing.
const BITS_PER_KEY: usize = 10;
/// Bits that are looked at for a key.
const PROBES: u64 = 5;

/// The hash of a physical key. The tables' own filters take the same one, so that a look-up computes it once.
pub(super) fn hash(key: &[u8]) -> u64 {
    Builder::get_hash(key)
}

/// A Bloom filter.
#[derive(Debug)]
pub(super) struct Filter {
    /// A power of two of them.
    words: Box<[u64]>,
}

impl Filter {
    pub(super) fn new(hashes: impl Iterator<Item = u64>, count: usize) -> Self {
        let words = (count * BITS_PER_KEY).div_ceil(64).next_power_of_two();
        let mut words = vec![0_u64; words].into_boxed_slice();
        for hash in hashes {
            for bit in bits(hash) {
                let at = word(bit, words.len());
                words[at] |= 1 << (bit % 64);
            }
        }
        Self { words }
    }

    pub(super) fn may_contain(&self, hash: u64) -> bool {
        bits(hash).all(|bit| self.words[word(bit, self.words.len())] & (1 << (bit % 64)) != 0)
    }
}

/// Which bits belong to a hash, before they are brought into the filter: steps of a second hash, as usual.
fn bits(hash: u64) -> impl Iterator<Item = u64> {
    let step = hash.rotate_left(32) | 1;
    (0..PROBES).map(move |probe| hash.wrapping_add(probe.wrapping_mul(step)))
}

fn word(bit: u64, words: usize) -> usize {
    // The remainder by a power of two fits.
    (bit / 64) as usize & (words - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_it_is_found_and_hardly_anything_else() {
        for count in [0_u64, 1, 7, 1_000, 10_000] {
            let hashes = |from: u64| (from..from + count).map(|number| hash(&number.to_be_bytes()));
            let filter = Filter::new(hashes(0), usize::try_from(count).unwrap());
            assert!(hashes(0).all(|hash| filter.may_contain(hash)), "{count}");
            let wrong = hashes(1_000_000).filter(|hash| filter.may_contain(*hash)).count();
            assert!(wrong as u64 <= count / 50, "{wrong} of {count}");
        }
    }
}
