//! The clauses of the Cells port, by theme.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "clauses are tests: their names say what must hold, and they fail by panicking"
)]

pub mod close;
pub mod keys;
pub mod write;

use bytes::Bytes;

use super::Subject;
use seriatim_storage::{Cells, Key};

/// The key ("p", clustering), where most clauses write.
fn key(clustering: &[u8]) -> Key<'_> {
    Key::new(b"p", clustering)
}

/// The value of a key.
async fn get(cells: &Cells, key: Key<'_>) -> Option<Bytes> {
    cells.get(key).await.unwrap()
}

/// A clustering key for a number.
fn nth(number: usize) -> [u8; 8] {
    (number as u64).to_be_bytes()
}

/// Closes the cells and opens them again.
async fn reopen(subject: &Subject<Cells>, cells: Cells) -> Cells {
    cells.close().await.unwrap();
    drop(cells);
    subject.open().await
}
