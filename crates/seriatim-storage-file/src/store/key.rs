//! Where a pair lies in the engine: its physical key.
//!
//! ```text
//! [ length of the partition key: u16 | partition key | clustering key ]
//! ```
//!
//! The length makes ("ab", "c") and ("a", "bc") different keys, and every partition one range.

use std::ops::Range;

use seriatim_storage::{ClusteringRange, Key};

/// The bytes of a key.
pub(super) fn encode(key: Key<'_>) -> Vec<u8> {
    let mut bytes = prefix(key.partition, key.clustering.len());
    bytes.extend_from_slice(key.clustering);
    bytes
}

/// The key that these bytes are; `None` if they are none.
pub(super) fn decode(bytes: &[u8]) -> Option<Key<'_>> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (partition, clustering) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some(Key::new(partition, clustering))
}

/// The physical keys of a range of one partition. Empty if the range is absurd.
pub(super) fn range(partition: &[u8], range: &ClusteringRange) -> Range<Vec<u8>> {
    let start = encode(Key::new(partition, &range.start));
    let finish = match &range.finish {
        Some(finish) => encode(Key::new(partition, finish)),
        None => behind(prefix(partition, 0)),
    };
    if finish <= start { start.clone()..start } else { start..finish }
}

/// The part that all keys of a partition begin with, with room for more.
fn prefix(partition: &[u8], more: usize) -> Vec<u8> {
    let length = u16::try_from(partition.len()).expect("the port refuses partition keys of more than 4 KiB");
    let mut bytes = Vec::with_capacity(2 + partition.len() + more);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(partition);
    bytes
}

/// The first key that does not begin with `prefix`. There is one: a length of 0xffff is refused.
fn behind(mut prefix: Vec<u8>) -> Vec<u8> {
    while prefix.last() == Some(&u8::MAX) {
        prefix.pop();
    }
    if let Some(last) = prefix.last_mut() {
        *last += 1;
    }
    prefix
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_of_a_key_stay_what_they_are() {
        assert_eq!(encode(Key::new(b"ab", b"c")), b"\x00\x02abc");
        assert_eq!(encode(Key::new(b"a", b"bc")), b"\x00\x01abc");
        assert_eq!(encode(Key::new(b"", b"")), b"\x00\x00");
        assert_eq!(encode(Key::new(&[7; 258], b""))[..3], [1, 2, 7]);
    }

    #[test]
    fn bytes_that_are_no_key_are_refused() {
        for bytes in [&b""[..], b"\x00", b"\x00\x01", b"\x00\x03ab"] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_partition_ends_before_the_next() {
        let all = ClusteringRange::all();
        assert_eq!(range(b"a", &all), b"\x00\x01a".to_vec()..b"\x00\x01b".to_vec());
        assert_eq!(range(b"a\xff", &all), b"\x00\x02a\xff".to_vec()..b"\x00\x02b".to_vec());
        assert_eq!(range(b"\xff", &all), b"\x00\x01\xff".to_vec()..b"\x00\x02".to_vec());
        assert_eq!(range(b"", &all), b"\x00\x00".to_vec()..b"\x00\x01".to_vec());
        assert!(range(b"a", &ClusteringRange::new(b"c", b"b")).is_empty());
    }

    proptest! {
        #[test]
        fn a_key_comes_back(partition in vec(any::<u8>(), 0..300), clustering in vec(any::<u8>(), 0..300)) {
            let key = Key::new(&partition, &clustering);
            let bytes = encode(key);
            prop_assert_eq!(decode(&bytes), Some(key));
        }

        #[test]
        fn a_range_holds_exactly_its_keys(
            [partition, other, start, finish, clustering] in [(); 5].map(|()| vec(prop::sample::select(&[0, 1, 2, 254, 255]), 0..4)),
            open in any::<bool>(),
        ) {
            let mut logical = ClusteringRange::new(&start, &finish);
            if open {
                logical.finish = None;
            }
            let physical = range(&partition, &logical);
            prop_assert_eq!(
                physical.contains(&encode(Key::new(&partition, &clustering))),
                logical.contains(&clustering)
            );
            if other != partition {
                prop_assert!(!physical.contains(&encode(Key::new(&other, &clustering))));
            }
        }
    }
}
