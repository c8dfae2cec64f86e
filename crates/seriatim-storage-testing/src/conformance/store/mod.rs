//! The clauses of the Store port, by theme.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "clauses are tests: their names say what must hold, and they fail by panicking"
)]

pub mod batch;
pub mod close;
pub mod get;
pub mod limits;
pub mod put;
pub mod reopen;
pub mod scan;
pub mod scan_during_writes;

use bytes::Bytes;

use super::Subject;
use seriatim_storage::{ClusteringRange, Key, Store};

/// The key ("p", clustering), where most clauses write.
fn key(clustering: &[u8]) -> Key<'_> {
    Key::new(b"p", clustering)
}

/// The value of a key.
async fn get(store: &Store, key: Key<'_>) -> Option<Bytes> {
    store.get(key).await.unwrap()
}

/// The clustering keys of a partition that are in a range.
async fn keys(store: &Store, partition: &[u8], range: ClusteringRange) -> Vec<Vec<u8>> {
    let pairs = store.scan(partition, range).all().await.unwrap();
    pairs.into_iter().map(|(clustering, _)| clustering.to_vec()).collect()
}

/// A clustering key for a number that sorts like the number.
fn nth(number: usize) -> [u8; 8] {
    (number as u64).to_be_bytes()
}

/// Closes a store and opens it again.
async fn reopen(subject: &Subject<Store>, store: Store) -> Store {
    store.close().await.unwrap();
    drop(store);
    subject.open().await
}
