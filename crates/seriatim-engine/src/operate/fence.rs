//! The restore fence: what a restored copy may give out.
//!
//! Numbers that were given out after a backup are in use and not in its log. The event `Fenced` in `sys` records that, with the
//! tails of all partitions at that moment. The event `Unfenced` records what may be given out again, and how much is skipped:
//!
//! ```text
//! log of a partition: [ from the backup ........ tail ) [ after the fence
//!                       a workspace that was last here    ... skips with its next event
//!                                                          one that was here has skipped already
//! ```
//!
//! The state of the fence is one row of `sys`, and a copy of it is in memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use seriatim_env::watch;
use seriatim_types::sync::RwLock;
use seriatim_types::{ApplicationId, Partition, PartitionOffset, SequenceId, WorkspaceId};

use crate::apps::registry;

/// A sequence of a workspace of an application.
pub(crate) type SequenceKey = (u32, u64, u16);

pub(crate) fn sequence_key(
    application: ApplicationId,
    workspace: WorkspaceId,
    sequence: SequenceId,
) -> SequenceKey {
    (application.get(), workspace.get(), sequence.get())
}

/// One restore.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Restore {
    /// Application, partition, and the tail of its log.
    pub(crate) tails: Vec<(u32, u16, u64)>,
    /// How many numbers each sequence skips that was not unfenced by name.
    pub(crate) skip: u64,
    /// Workspaces below this id may have existed before the restore.
    pub(crate) ids: Option<u64>,
}

/// The state of the fence, as its row has it. Without a row nothing was ever fenced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FenceState {
    /// Whether anything is fenced.
    pub(crate) fenced: bool,
    /// The next workspace id, once it was determined.
    pub(crate) ids: Option<u64>,
    /// The names that are unfenced although the rest is fenced, as the operator gave them.
    pub(crate) names: BTreeSet<String>,
    /// The sequences among them.
    pub(crate) sequences: BTreeSet<SequenceKey>,
    /// The block sequences among them.
    pub(crate) blocks: BTreeSet<String>,
    /// Every restore so far. They are few.
    pub(crate) restores: Vec<Restore>,
}

impl FenceState {
    /// Whether a block sequence may be allocated from.
    pub(crate) fn admits_blocks(&self, name: &str) -> bool {
        let ids_moved = name == registry::WORKSPACE_IDS && self.ids.is_some();
        !self.fenced || ids_moved || self.blocks.contains(name)
    }

    /// Whether a workspace accepts commands: all of them, or those that draw only from unfenced sequences.
    pub(crate) fn admits_workspace(&self, application: ApplicationId, workspace: WorkspaceId) -> bool {
        let (application, workspace) = (application.get(), workspace.get());
        let of_workspace = (application, workspace, 0)..=(application, workspace, u16::MAX);
        !self.fenced || self.sequences.range(of_workspace).next().is_some()
    }

    /// Whether a sequence may be drawn from.
    pub(crate) fn admits_draw(&self, sequence: SequenceKey) -> bool {
        !self.fenced || self.sequences.contains(&sequence)
    }

    /// The sequences of a workspace that were unfenced by name.
    pub(crate) fn named_in(&self, application: u32, workspace: u64) -> Vec<SequenceId> {
        let of_workspace = (application, workspace, 0)..=(application, workspace, u16::MAX);
        self.sequences.range(of_workspace).map(|(_, _, sequence)| SequenceId::new(*sequence)).collect()
    }

    /// How many numbers the next event of a workspace has to skip, if its last one is `folded`.
    pub(crate) fn skip(
        &self,
        partition: Partition,
        workspace: WorkspaceId,
        folded: Option<PartitionOffset>,
    ) -> u64 {
        let applies = |restore: &&Restore| match folded {
            Some(folded) => folded < restore.tail(partition),
            None => restore.ids.is_some_and(|ids| workspace.get() < ids),
        };
        self.restores.iter().filter(applies).fold(0, |sum, restore| sum.saturating_add(restore.skip))
    }

    /// How many numbers a block sequence has to skip that has taken the first `seen` restores into account.
    pub(crate) fn blocks_skip(&self, seen: u64) -> u64 {
        let seen = usize::try_from(seen).unwrap_or(usize::MAX).min(self.restores.len());
        self.restores[seen..].iter().fold(0, |sum, restore| sum.saturating_add(restore.skip))
    }

    /// Fences everything.
    pub(crate) fn fence(&mut self, tails: Vec<(u32, u16, u64)>) {
        let restore = Restore { tails, ..Restore::default() };
        let mut restores = std::mem::take(&mut self.restores);
        restores.push(restore);
        *self = Self { fenced: true, restores, ..Self::default() };
    }

    /// Unfences the given names, or everything if `opened.skip` has a number.
    pub(crate) fn unfence(&mut self, opened: Opened) {
        match opened.skip {
            Some(skip) => {
                let ids = self.ids;
                if let Some(last) = self.restores.last_mut() {
                    (last.skip, last.ids) = (skip, ids);
                }
                let restores = std::mem::take(&mut self.restores);
                *self = Self { restores, ..Self::default() };
            }
            None => {
                self.names.extend(opened.names);
                self.sequences.extend(opened.sequences);
                self.blocks.extend(opened.blocks);
            }
        }
    }

    /// Whether commands of applications have to check the fence.
    fn matters(&self) -> bool {
        self.fenced || self.restores.iter().any(|restore| restore.skip > 0)
    }
}

impl Restore {
    /// The tail of a partition's log at the restore.
    pub(crate) fn tail(&self, partition: Partition) -> PartitionOffset {
        let (application, id) = (partition.application.get(), partition.id.get());
        let found = self.tails.iter().find(|(known, known_id, _)| (*known, *known_id) == (application, id));
        found.and_then(|(_, _, tail)| PartitionOffset::new(*tail)).unwrap_or(PartitionOffset::FIRST)
    }
}

/// What an `Unfenced` event unfences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// How many numbers everything that is not named skips. `None`: what is not named remains fenced.
    pub(crate) skip: Option<u64>,
    pub(crate) names: Vec<String>,
    pub(crate) sequences: Vec<SequenceKey>,
    pub(crate) blocks: Vec<String>,
}

/// The fence that all partitions of an engine share.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    /// Whether commands have to check the state. Almost always `false`, and then a command costs only this check.
    matters: AtomicBool,
    state: RwLock<Arc<FenceState>>,
    /// Whether anything is fenced, for tasks that wait until nothing is.
    fenced: watch::Sender<bool>,
    /// Held by an unfencing from its first read to its last event. Another one must not change anything meanwhile.
    turn: tokio::sync::Mutex<()>,
}

impl Fence {
    pub(crate) fn set(&self, state: FenceState) {
        let (matters, fenced) = (state.matters(), state.fenced);
        *self.state.write() = Arc::new(state);
        self.matters.store(matters, Ordering::Release);
        self.fenced.send_replace(fenced);
    }

    /// Returns when nothing is fenced. Cancel-safe.
    pub(crate) async fn until_open(&self) {
        // There is never an error, because `self` has the sender.
        let _ = self.fenced.subscribe().wait_for(|fenced| !fenced).await;
    }

    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub(crate) fn state(&self) -> Arc<FenceState> {
        self.state.read().clone()
    }

    /// The state that a command of an application has to check, if any. Commands of `sys` read its row instead.
    pub(crate) fn state_for(&self, application: ApplicationId) -> Option<Arc<FenceState>> {
        (self.matters.load(Ordering::Acquire) && application != registry::ID).then(|| self.state())
    }
}

#[cfg(test)]
mod tests {
    use seriatim_types::PartitionId;

    use super::*;

    const WORKSPACE: WorkspaceId = WorkspaceId::new(500);

    fn partition() -> Partition {
        Partition { application: ApplicationId::new(16), id: PartitionId::new(3) }
    }

    fn skipping(restores: &[(u64, u64, u64)]) -> FenceState {
        let restore = |(tail, skip, ids): &(u64, u64, u64)| Restore {
            tails: vec![(16, 2, 99), (16, 3, *tail)],
            skip: *skip,
            ids: Some(*ids),
        };
        FenceState { restores: restores.iter().map(restore).collect(), ..FenceState::default() }
    }

    #[test]
    fn a_workspace_skips_once_for_each_restore_after_its_creation() {
        let state = skipping(&[(10, 100, 400), (20, 7, 600)]);
        for (folded, skip) in
            [(Some(1), 107), (Some(9), 107), (Some(10), 7), (Some(19), 7), (Some(20), 0), (None, 7)]
        {
            let folded = folded.and_then(PartitionOffset::new);
            assert_eq!(state.skip(partition(), WORKSPACE, folded), skip, "{folded:?}");
        }
        assert_eq!(
            state.skip(partition(), WorkspaceId::new(600), None),
            0,
            "it was created after the restores"
        );
        assert_eq!(
            (state.blocks_skip(0), state.blocks_skip(1), state.blocks_skip(2), state.blocks_skip(9)),
            (107, 7, 0, 0)
        );
    }

    #[test]
    fn a_new_fence_includes_what_was_unfenced_before() {
        let mut state = FenceState::default();
        assert!(state.admits_blocks("b") && state.admits_draw((16, 500, 20)));
        state.fence(vec![(16, 3, 5)]);
        assert!(!state.admits_blocks("b") && !state.admits_draw((16, 500, 20)));
        let opened =
            Opened { sequences: vec![(16, 500, 20)], blocks: vec!["b".to_owned()], ..Opened::default() };
        state.unfence(opened);
        assert!(
            state.admits_blocks("b") && state.admits_draw((16, 500, 20)) && !state.admits_draw((16, 500, 21))
        );
        assert!(state.admits_workspace(ApplicationId::new(16), WORKSPACE));
        assert!(!state.admits_workspace(ApplicationId::new(16), WorkspaceId::new(501)));
        state.fence(vec![(16, 3, 9)]);
        assert!(!state.admits_blocks("b") && !state.admits_workspace(ApplicationId::new(16), WORKSPACE));
        state.unfence(Opened { skip: Some(4), ..Opened::default() });
        assert!(state.admits_blocks("b") && !state.fenced);
        assert_eq!(state.restores.iter().map(|restore| restore.skip).collect::<Vec<_>>(), [0, 4]);
        let row = serde_json::to_value(&state).unwrap();
        assert_eq!(serde_json::from_value::<FenceState>(row).unwrap(), state);
    }
}
