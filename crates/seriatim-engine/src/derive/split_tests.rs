use seriatim_env::simulate;
use seriatim_storage::memory::MemoryStore;
use seriatim_storage::{Batch, Durability};

use super::*;

const STORAGE: &[u8] = b"\0\0\0\x10\0\x01";

/// The key of a row.
fn key_of(row: &[u8]) -> StoreKey {
    StoreKey::new(STORAGE, &[b"v\0\0\0\0\0\0\0\x07\0\x01v", row].concat())
}

fn row(folded: u64, length: usize) -> Bytes {
    let mut bytes = vec![b'x'; length];
    bytes[..8].copy_from_slice(&folded.to_be_bytes());
    bytes.into()
}

#[test]
fn a_header_round_trips_and_no_other_value_is_taken_for_one() {
    let key = key_of(b"row");
    assert_eq!(Header::of(&key, &row(7, VALUE_BYTES_MAX)), None);
    let value = row(7, VALUE_BYTES_MAX + 1);
    let header = Header::of(&key, &value).unwrap();
    let bytes = header.encode();
    assert_eq!(bytes.len(), HEADER_BYTES);
    assert_eq!(
        bytes[..22],
        *b"\xff\0\0\0\0\0\0\0\x07\x01\0\0\0\0\x01\0\0\x01\0\0\0\x05",
        "mark, offset, version, length, parts"
    );
    assert_eq!(Header::decode(&bytes), Some(header));
    for end in 0..bytes.len() {
        assert_eq!(Header::decode(&bytes[..end]), None);
    }
    assert_eq!(Header::decode(&row(7, HEADER_BYTES)), None);
}

async fn write(store: &Store, splits: &Splits, key: &StoreKey, value: &Bytes) {
    let mut collected = splits.collect();
    collected.put(key, value);
    splits.expect(&collected);
    store.write(collected.take_all(), Durability::Buffered).await.unwrap();
    splits.settle(collected.changed);
}

#[test]
fn a_large_value_is_read_as_it_was_written_and_leaves_no_part_of_an_older_one() {
    simulate(1, |_| async move {
        let store = Store::new(MemoryStore::new());
        let key = key_of(b"row");
        let parts = async || {
            let range = seriatim_storage::ClusteringRange::prefix(b"z");
            store.scan(STORAGE, range).take(100).await.unwrap().len()
        };
        // The parts of a value that another process has written are known after the value was read.
        write(&store, &Splits::default(), &key, &row(1, 21 << 20)).await;
        let splits = Splits::default();
        for (folded, length, expected) in
            [(1, 21 << 20, 6), (2, 17 << 20, 5), (2, 17 << 20, 5), (3, 30 << 20, 8), (4, 100, 0)]
        {
            let value = row(folded, length);
            splits.get_many(&store, &[key.as_key()]).await.unwrap();
            write(&store, &splits, &key, &value).await;
            assert_eq!(parts().await, expected);
            let found = splits.get_many(&store, &[key.as_key()]).await.unwrap();
            assert!(found[0].as_ref() == Some(&value));
        }
        assert!(splits.known().is_empty());
    });
}

#[test]
fn a_bounded_read_of_many_missing_values_reads_all_of_them() {
    simulate(1, |_| async move {
        let keys: Vec<StoreKey> = (0..40).map(|number| key_of(&[number])).collect();
        let store = Store::new(MemoryStore::new());
        let found = Splits::default().get_within(&store, &keys, usize::MAX).await.unwrap();
        assert_eq!(found, vec![None; 40]);
    });
}

#[test]
fn a_value_whose_parts_are_gone_is_damaged() {
    simulate(1, |_| async move {
        let store = Store::new(MemoryStore::new());
        let (key, splits) = (key_of(b"row"), Splits::default());
        write(&store, &splits, &key, &row(1, 17 << 20)).await;
        let mut batch = Batch::new();
        batch.remove(keys::part_of_value(key.as_key(), 1, 2).as_key());
        store.write(batch, Durability::Buffered).await.unwrap();
        let error = splits.get_many(&store, &[key.as_key()]).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    });
}
