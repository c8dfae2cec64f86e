//! A filter that shows quickly that a run does not have a key.

use lsm_tree::table::filter::standard_bloom::Builder;

/// Bits per key, before the size is rounded up to a power of two. Less than one in a hundred look-ups of a missing key
/// passes the filter.
const BITS_PER_KEY: usize = 10;
/// How many bits are tested per key.
const PROBES: u64 = 5;

/// The hash of a physical key. The filters of the tables use the same one, so that a look-up computes it once.
pub(super) fn hash(key: &[u8]) -> u64 {
    Builder::get_hash(key)
}

/// A Bloom filter.
#[derive(Debug)]
pub(super) struct Filter {
    /// The number of words is a power of two.
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

/// The bits of a hash, before they are reduced to the size of the filter. They are multiples of a second hash, as usual.
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
    fn a_filter_finds_its_keys_and_few_others() {
        for count in [0_u64, 1, 7, 1_000, 10_000] {
            let hashes = |from: u64| (from..from + count).map(|number| hash(&number.to_be_bytes()));
            let filter = Filter::new(hashes(0), usize::try_from(count).unwrap());
            assert!(hashes(0).all(|hash| filter.may_contain(hash)), "{count}");
            let wrong = hashes(1_000_000).filter(|hash| filter.may_contain(*hash)).count();
            assert!(wrong as u64 <= count / 50, "{wrong} of {count}");
        }
    }
}
