//! Cells accept every key and value up to a size.

use seriatim_types::ErrorKind;
use seriatim_types::limits::{CLUSTERING_KEY_BYTES_MAX, PARTITION_KEY_BYTES_MAX, VALUE_BYTES_MAX};

use super::{get, key};
use crate::conformance::Subject;
use seriatim_storage::{Cells, Key};

pub async fn an_empty_value_in_a_cell_is_a_value(subject: Subject<Cells>) {
    let cells = subject.open().await;
    assert!(cells.insert_if_absent(key(b"empty"), b"").await.unwrap());
    assert_eq!(get(&cells, key(b"empty")).await.unwrap(), "");
    assert!(!cells.insert_if_absent(key(b"empty"), b"x").await.unwrap());
    assert!(cells.compare_and_swap(key(b"empty"), b"", b"full").await.unwrap());
    assert!(!cells.compare_and_swap(key(b"absent"), b"", b"full").await.unwrap());
    assert!(!cells.compare_and_delete(key(b"absent"), b"").await.unwrap());
}

pub async fn keys_with_empty_parts_are_different_keys(subject: Subject<Cells>) {
    let cells = subject.open().await;
    let keys = [Key::new(b"", b""), Key::new(b"ab", b"c"), Key::new(b"a", b"bc"), Key::new(b"abc", b"")];
    for (number, key) in keys.iter().enumerate() {
        assert!(cells.insert_if_absent(*key, &super::nth(number)).await.unwrap(), "{key:?}");
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(get(&cells, *key).await.unwrap(), super::nth(number)[..]);
        assert!(cells.compare_and_delete(*key, &super::nth(number)).await.unwrap());
        assert_eq!(get(&cells, *key).await, None);
    }
}

pub async fn the_largest_cells_are_accepted(subject: Subject<Cells>) {
    let cells = subject.open().await;
    let (partition, clustering) = (vec![0xff; PARTITION_KEY_BYTES_MAX], vec![0xff; CLUSTERING_KEY_BYTES_MAX]);
    let (key, value) = (Key::new(&partition, &clustering), vec![0x5a; VALUE_BYTES_MAX]);
    assert!(cells.insert_if_absent(key, &value).await.unwrap());
    assert!(get(&cells, key).await.unwrap() == value);
    assert!(cells.compare_and_delete(key, &value).await.unwrap());
}

pub async fn a_cell_that_is_too_large_is_refused(subject: Subject<Cells>) {
    let cells = subject.open().await;
    let partition = vec![1; PARTITION_KEY_BYTES_MAX + 1];
    let clustering = vec![1; CLUSTERING_KEY_BYTES_MAX + 1];
    let value = vec![1; VALUE_BYTES_MAX + 1];
    let large =
        [(Key::new(&partition, b"k"), &b"v"[..]), (Key::new(b"p", &clustering), b"v"), (key(b"k"), &value)];
    for (key, value) in large {
        let refused = cells.insert_if_absent(key, value).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
        let refused = cells.compare_and_swap(key, b"v", value).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    }
    for (key, _) in &large[..2] {
        assert_eq!(cells.get(*key).await.unwrap_err().kind(), ErrorKind::TooLarge);
        assert_eq!(cells.compare_and_delete(*key, b"v").await.unwrap_err().kind(), ErrorKind::TooLarge);
    }
    assert_eq!(get(&cells, key(b"k")).await, None);
}
