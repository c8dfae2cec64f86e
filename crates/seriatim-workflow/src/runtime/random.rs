//! Numbers that look random and depend on nothing but a seed and a place.

/// A number from these words, each bit of which depends on all of them (the finaliser of SplitMix64, word by word).
pub(crate) fn mix(words: impl IntoIterator<Item = u64>) -> u64 {
    let mut state = 0_u64;
    for word in words {
        state = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    state
}
