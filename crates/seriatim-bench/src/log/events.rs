//! The events that are written to the log.

use seriatim_storage::{Digest, Draw, Entries, Header, Log, Owner};
use seriatim_types::{AppendId, Number, SequenceId, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

/// The size of an encoded entry: 155 bytes for a header with two draws, the rest for the body.
pub(super) const ENTRY_BYTES: usize = 450;
const BODY_BYTES: usize = ENTRY_BYTES - 155;

/// Entries for one append, encoded and ready.
pub(super) fn entries(append: AppendId, count: usize) -> anyhow::Result<Entries> {
    let body: Vec<u8> = (0..=u8::MAX).cycle().take(BODY_BYTES).collect();
    let draw =
        |sequence, first| Draw { sequence: SequenceId::new(sequence), first: Number::new(first), count: 1 };
    let header = Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(1),
        workspace_offset: WorkspaceOffset::FIRST,
        time: Timestamp::from_millis(1_700_000_000_000),
        body_digest: Digest::of(&body),
        draws: &[draw(1, 1), draw(2, 1)],
        raises: &[],
    };
    let mut entries = Entries::new(append);
    let mut chain = Digest::ZERO;
    for _ in 0..count {
        chain = entries.push(&header, chain, &body)?;
    }
    Ok(entries)
}

/// Appends at least `bytes` bytes to a partition, `at_once` entries per append, and returns the number of events. Nothing was
/// appended to the partition since it was taken. The same entries are repeated: their content is not relevant here.
pub(super) async fn fill(log: &Log, owner: &Owner, bytes: u64, at_once: usize) -> anyhow::Result<u64> {
    let entries = entries(owner.next_append_id(), at_once)?;
    let appends = bytes.div_ceil(entries.as_bytes().len() as u64);
    let mut next = owner.tail();
    for _ in 0..appends {
        next = log.append(owner, next, &entries).await?.next();
    }
    Ok(appends * at_once as u64)
}

#[cfg(test)]
mod tests {
    use seriatim_types::Epoch;

    use super::*;

    #[test]
    fn every_entry_has_the_stated_size() {
        let append = AppendId { epoch: Epoch::FIRST, counter: 0 };
        assert_eq!(entries(append, 1).unwrap().as_bytes().len(), ENTRY_BYTES);
        assert_eq!(entries(append, 3).unwrap().as_bytes().len(), 3 * ENTRY_BYTES);
    }
}
