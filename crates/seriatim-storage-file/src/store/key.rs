//! Physical keys of the tree: the bytes of a [`StoreKey`].

use std::ops::Range;

use seriatim_storage::{ClusteringRange, Key, StoreKey};

/// Replaces the content of `bytes` with the bytes of a key.
pub(super) fn encode_into(key: Key<'_>, bytes: &mut Vec<u8>) {
    let length = u16::try_from(key.partition.len());
    let length = length.expect("the port refuses partition keys of more than 4 KiB");
    bytes.clear();
    bytes.reserve(2 + key.partition.len() + key.clustering.len());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(key.partition);
    bytes.extend_from_slice(key.clustering);
}

/// The bytes of a key.
pub(super) fn encode(key: Key<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_into(key, &mut bytes);
    bytes
}

/// The key that has these bytes; `None` if they are not a key.
pub(super) fn decode(bytes: &[u8]) -> Option<Key<'_>> {
    StoreKey::parts(bytes)
}

/// The physical keys of a range of one partition. Empty if the range is.
pub(super) fn range(partition: &[u8], range: &ClusteringRange) -> Range<Vec<u8>> {
    let start = encode(Key::new(partition, &range.start));
    let finish = match &range.finish {
        Some(finish) => encode(Key::new(partition, finish)),
        None => after(encode(Key::new(partition, &[]))),
    };
    if finish <= start { start.clone()..start } else { start..finish }
}

/// The first key after all that begin with `prefix`. There is one, because a length of 0xffff is refused.
fn after(mut prefix: Vec<u8>) -> Vec<u8> {
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
        fn the_bytes_are_those_of_a_store_key(
            [partition, clustering] in [(); 2].map(|()| vec(any::<u8>(), 0..300)),
        ) {
            let key = Key::new(&partition, &clustering);
            prop_assert_eq!(encode(key), StoreKey::from(key).as_bytes().to_vec());
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
