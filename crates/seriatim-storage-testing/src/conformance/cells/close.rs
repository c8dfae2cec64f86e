//! Closing cells.

use super::{get, key};
use crate::conformance::Subject;
use seriatim_storage::{Cells, StoreError};

pub async fn closed_cells_refuse_every_call(subject: Subject<Cells>) {
    let cells = subject.open().await;
    assert!(cells.insert_if_absent(key(b"k"), b"value").await.unwrap());
    cells.close().await.unwrap();
    let closed = StoreError::Closed;
    assert_eq!(cells.get(key(b"k")).await, Err(closed.clone()));
    assert_eq!(cells.insert_if_absent(key(b"other"), b"new").await, Err(closed.clone()));
    assert_eq!(cells.compare_and_swap(key(b"k"), b"value", b"new").await, Err(closed.clone()));
    assert_eq!(cells.compare_and_delete(key(b"k"), b"value").await, Err(closed));
    drop(cells);
    let cells = subject.open().await;
    assert_eq!(get(&cells, key(b"k")).await.unwrap(), "value");
    assert_eq!(get(&cells, key(b"other")).await, None);
}

pub async fn cells_may_be_closed_twice(subject: Subject<Cells>) {
    let cells = subject.open().await;
    assert!(cells.insert_if_absent(key(b"k"), b"value").await.unwrap());
    let clone = cells.clone();
    assert_eq!(cells.close().await, Ok(()));
    assert_eq!(clone.close().await, Ok(()));
    drop((cells, clone));
    assert_eq!(get(&subject.open().await, key(b"k")).await.unwrap(), "value");
}
