//! The clauses of a log that several processes share, by theme. Each clause has several handles open at the same time, as several
//! processes have.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "clauses are tests: their names say what must hold, and they fail by panicking"
)]

pub mod beside;
pub mod close;
pub mod follow;
pub mod ownership;
pub mod read;

use super::Subject;
use super::log::{PARTITION, Writer, take_of};
use seriatim_storage::Log;
use seriatim_types::Epoch;

/// Opens several handles.
async fn handles<const COUNT: usize>(subject: &Subject<Log>) -> [Log; COUNT] {
    let mut handles = Vec::new();
    for _ in 0..COUNT {
        handles.push(subject.open().await);
    }
    <[Log; COUNT]>::try_from(handles).unwrap()
}

/// Takes the partition over through a handle, with the epoch that it has.
async fn take_over(log: &Log, expected: Option<Epoch>, holder: &str) -> Writer {
    Writer::new(log.take_over(PARTITION, expected, &take_of(holder)).await.unwrap())
}
