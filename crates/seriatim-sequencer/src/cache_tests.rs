use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::Sequence;

const KIND: WorkspaceKind = WorkspaceKind::new(1);

/// One sequence and the workspace offset: a weight of 2.
fn definition() -> Definition {
    Definition::new([(KIND, vec![Sequence::new(seriatim_types::SequenceId::new(20), 1)])]).unwrap()
}

fn reserve(cache: &mut Cache, workspace: u64) -> SlotIndex {
    let index = cache.find_or_reserve(&definition(), KIND, WorkspaceId::new(workspace));
    cache.slot_mut(index).loaded = true;
    index
}

#[test]
fn held_and_staged_slots_stay_and_may_exceed_the_bound() {
    let mut cache = Cache::new(2);
    let held = reserve(&mut cache, 1);
    let hold = cache.hold(held);
    let staged = reserve(&mut cache, 2);
    cache.slot_mut(staged).staged = Some(0);
    reserve(&mut cache, 3);
    reserve(&mut cache, 4);
    assert_eq!(cache.weight(), 6);
    assert!(cache.find(WorkspaceId::new(3)).is_none());
    assert_eq!(cache.find(WorkspaceId::new(1)), Some(held));
    drop(hold);
    cache.slot_mut(staged).staged = None;
    cache.shrink();
    assert_eq!(cache.weight(), 2);
}

#[test]
fn a_cache_without_room_has_one_workspace_at_a_time() {
    let mut cache = Cache::new(0);
    for workspace in 0..100 {
        let index = reserve(&mut cache, workspace);
        assert_eq!(cache.slot(index).workspace.get(), workspace);
        assert!(cache.slots.len() <= 2);
    }
}

proptest! {
    #[test]
    fn the_least_recently_used_is_evicted_first(uses in prop::collection::vec(0..12_u64, 1..200)) {
        let mut cache = Cache::new(5 * 2);
        let mut model: VecDeque<u64> = VecDeque::new();
        for workspace in uses {
            let found = cache.find(WorkspaceId::new(workspace)).is_some();
            prop_assert_eq!(found, model.contains(&workspace));
            model.retain(|&other| other != workspace);
            model.push_front(workspace);
            model.truncate(5);
            reserve(&mut cache, workspace);
            prop_assert_eq!(cache.weight(), 2 * model.len());
        }
    }
}
