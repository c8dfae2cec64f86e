//! Fills a log with events as a sequencer would number them.

use seriatim_sequencer::builtin;
use seriatim_storage::{Digest, Draw, Entries, Header, Log};
use seriatim_types::{Number, Partition, Timestamp, WorkspaceId, WorkspaceOffset};

use crate::sequencer::KIND;

const BODY: [u8; 300] = [7; 300];
const GROUP: u64 = 512;

/// The state of a workspace.
#[derive(Debug, Clone, Copy)]
struct Place {
    next: WorkspaceOffset,
    chain: Digest,
}

/// Appends events with two draws each, spread over workspaces.
pub(super) async fn fill(
    log: &Log,
    partition: Partition,
    events: u64,
    workspaces: u64,
) -> anyhow::Result<()> {
    let owner = log.take(partition).await?;
    let mut places =
        vec![Place { next: WorkspaceOffset::FIRST, chain: Digest::ZERO }; usize::try_from(workspaces)?];
    let body_digest = Digest::of(&BODY);
    let mut at = owner.tail();
    let mut entries = Entries::new(owner.next_append_id());
    for event in 0..events {
        // All workspaces in turn; consecutive events are of distant workspaces.
        let number = event.wrapping_mul(7_919) % workspaces;
        let place = &mut places[usize::try_from(number)?];
        let nth = place.next.get() - 1;
        let draw = |sequence, first: u64, count| Draw { sequence, first: Number::new(first), count };
        let draws = [
            draw(builtin::RECORD_ID, 322_680_000_131_072 + 2 * nth, 2),
            draw(builtin::C_RECORD_ID, 322_685_000_131_072 + nth, 1),
        ];
        let header = Header {
            workspace: WorkspaceId::new(WorkspaceId::FIRST.get() + number),
            kind: KIND,
            workspace_offset: place.next,
            time: Timestamp::from_millis(1_767_225_600_000),
            body_digest,
            draws: &draws,
            raises: &[],
        };
        place.chain = entries.push(&header, place.chain, &BODY)?;
        place.next = place.next.next().unwrap_or(place.next);
        if entries.len() as u64 == GROUP || event + 1 == events {
            at = log.append(&owner, at, &entries).await?.next();
            entries.reset(owner.next_append_id());
        }
    }
    Ok(())
}
