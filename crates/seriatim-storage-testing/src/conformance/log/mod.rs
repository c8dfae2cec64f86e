//! The clauses of the Log port, by theme.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "clauses are tests: their names say what must hold, and they fail by panicking"
)]

pub mod append;
pub mod bulletin;
pub mod close;
pub mod contention;
pub mod follow;
pub mod identity;
pub mod pipeline;
pub mod read;
pub mod refuse;
pub mod reopen;
pub mod restore;
pub mod take;
pub mod take_over;
pub mod unverified;
mod writer;

use seriatim_types::{Partition, PartitionOffset, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

use super::{Subject, yield_once};
use seriatim_storage::{Digest, Entries, Header, Log, Owner, ReadLimit};

pub(super) use writer::{Writer, append, append_all, take, take_all, take_of, until_decided};

/// Where most clauses write.
pub(super) const PARTITION: Partition = Partition::new(7, 3);

pub(super) fn offset(value: u64) -> PartitionOffset {
    PartitionOffset::new(value).expect("offsets start at 1")
}

/// A header for a body; its other fields do not matter.
fn header(body: &[u8]) -> Header<'static> {
    Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(1),
        workspace_offset: WorkspaceOffset::FIRST,
        time: Timestamp::from_millis(0),
        body_digest: Digest::of(body),
        draws: &[],
        raises: &[],
    }
}

/// One append with these bodies, under a new id.
pub(super) fn entries<B: AsRef<[u8]>>(owner: &Owner, bodies: &[B]) -> Entries {
    let mut entries = Entries::new(owner.next_append_id());
    for body in bodies.iter().map(AsRef::as_ref) {
        entries.push(&header(body), Digest::ZERO, body).expect("small enough");
    }
    entries
}

/// All bodies of a partition, read to its end; checks that their offsets are dense from 1 and end at the tail.
pub(super) async fn bodies(log: &Log, partition: Partition) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    let mut next = PartitionOffset::FIRST;
    loop {
        yield_once().await;
        let read = log.read(partition, next, ReadLimit::default()).await.unwrap();
        assert_eq!(read.first(), next);
        for (at, entry) in read.iter() {
            assert_eq!(at, next, "offsets are dense");
            assert!(entry.body_is_intact(), "the body at {at} is the one that was appended");
            bodies.push(entry.body().to_vec());
            next = next.next().unwrap();
        }
        assert_eq!(read.next(), next);
        if read.is_empty() {
            assert_eq!(log.tail(partition).await, Ok(next), "the tail is after the last entry");
            return bodies;
        }
    }
}

/// Closes a log and opens it again.
async fn reopen(subject: &Subject<Log>, log: Log) -> Log {
    log.close().await.unwrap();
    drop(log);
    subject.open().await
}
