//! The events that are written.

use seriatim_storage::{Digest, Draw, Entries, Header};
use seriatim_types::{AppendId, Number, SequenceId, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

/// Of the body. With a header of 155 bytes (two draws) an entry has 450.
const BODY_BYTES: usize = 295;

/// Entries for one append, encoded and ready.
pub(super) fn entries(append: AppendId, count: usize) -> anyhow::Result<Entries> {
    let body: Vec<u8> = (0..=u8::MAX).cycle().take(BODY_BYTES).collect();
    let draw = |sequence, first| Draw {
        sequence: SequenceId::new(sequence),
        first: Number::new(first),
        count: 1,
    };
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

#[cfg(test)]
mod tests {
    use seriatim_types::Epoch;

    use super::*;

    #[test]
    fn an_entry_has_450_bytes() {
        let append = AppendId {
            epoch: Epoch::FIRST,
            counter: 0,
        };
        assert_eq!(entries(append, 1).unwrap().as_bytes().len(), 450);
        assert_eq!(entries(append, 3).unwrap().as_bytes().len(), 1_350);
    }
}
