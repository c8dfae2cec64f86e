//! The tests that the seeds name, on every kind of storage.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
mod alone_support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alone_support::{Desk, INVOICE, KIND, TIMEOUT, offset, seal_one, stored_checkpoint, workspace};
use seriatim_engine::alone::{Options, Sequencer};
use seriatim_sequencer::{Busy, Definition, LoadError, Numbers, Settled, Status, builtin};
use seriatim_storage::{Log, ReadLimit, Store};
use seriatim_storage_testing::faulty::{Fault, Operation};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId};

on_every_storage! {
    new_must_start_actualization,
    race,
    long_recovery,
    multiple_actualizes,
    flush_permanently_fails,
    flush_permanently_fails_for_one_hot_workspace,
    flush_by_timer,
    flush_by_size,
    built_in_sequences,
}

/// Long enough for a flush that should not happen.
async fn a_while(desk: &Desk) {
    desk.env.sleep(Duration::from_millis(200)).await;
}

/// Waits until the store has the numbers of these workspaces.
async fn stored(desk: &Desk, count: u64) {
    let stored = async {
        while stored_now(desk).await < count {
            desk.env.sleep(Duration::from_millis(5)).await;
        }
    };
    desk.env.timeout(TIMEOUT, stored).await.unwrap();
}

/// How many of the first hundred workspaces have numbers in the store.
async fn stored_now(desk: &Desk) -> u64 {
    let mut found = 0;
    for number in 0..100 {
        let key = seriatim_sequencer::NumbersKey::new(desk.partition, workspace(number));
        found += u64::from(desk.store.get(key.as_key()).await.unwrap().is_some());
    }
    found
}

async fn new_must_start_actualization(desk: Desk) {
    let hold = desk.faults.hold(Operation::Get);
    let mut sequencer = desk.open().await;
    assert_eq!(sequencer.group().unwrap_err(), Busy::Recovering);
    let refused = sequencer.load(KIND, workspace(1)).await.unwrap_err();
    assert_eq!(refused, LoadError::Busy(Busy::Recovering));
    assert!(matches!(sequencer.status(), Status::Recovering { .. }));
    assert_eq!(sequencer.wait(Duration::from_millis(10)).await, Err(Busy::Recovering));
    hold.release();
    assert_eq!(sequencer.status_handle().wait(TIMEOUT).await, Status::Ready);
    assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 1);
}

/// How many workspaces `race` has.
const RACING: u64 = 31;

/// Reads what the store has while others write to it. The checkpoint never goes back, and is never in front of the values
/// that it speaks for; no value goes back, and none is in front of the log.
struct Watcher {
    log: Log,
    store: Store,
    partition: Partition,
    definition: Arc<Definition>,
    checkpoint: u64,
    folded: BTreeMap<WorkspaceId, u64>,
}

impl Watcher {
    fn new(desk: &Desk) -> Self {
        let (log, store, definition) = (desk.log.clone(), desk.store.clone(), desk.definition.clone());
        let (partition, folded) = (desk.partition, BTreeMap::new());
        Self { log, store, partition, definition, checkpoint: 1, folded }
    }

    /// Where each workspace has its last event in front of an offset.
    async fn logged_before(&self, end: u64) -> BTreeMap<WorkspaceId, u64> {
        let mut last = BTreeMap::new();
        let mut at = PartitionOffset::FIRST;
        while at.get() < end {
            let page = self.log.read(self.partition, at, ReadLimit::default()).await.unwrap();
            let entries = page.iter().filter(|(offset, _)| offset.get() < end);
            last.extend(entries.map(|(offset, entry)| (entry.workspace(), offset.get())));
            at = page.next();
        }
        last
    }

    async fn look(&mut self) {
        // What is read later may be newer than the checkpoint, and never older.
        let checkpoint = stored_checkpoint(&self.store, self.partition).await;
        assert!(checkpoint >= self.checkpoint, "a checkpoint goes back");
        self.checkpoint = checkpoint;
        let logged = self.logged_before(checkpoint).await;
        for number in 0..RACING {
            let id = workspace(number);
            let key = seriatim_sequencer::NumbersKey::new(self.partition, id);
            let value = self.store.get(key.as_key()).await.unwrap();
            let numbers = value.map(|bytes| Numbers::decode(&self.definition, &bytes).unwrap());
            let folded = numbers.and_then(|numbers| numbers.folded()).map_or(0, PartitionOffset::get);
            assert!(folded >= logged.get(&id).copied().unwrap_or(0), "a checkpoint in front of a value");
            let before = self.folded.insert(id, folded).unwrap_or(0);
            assert!(folded >= before, "a value goes back");
        }
        let tail = self.log.tail(self.partition).await.unwrap().get();
        assert!(self.folded.values().all(|folded| *folded < tail), "a value in front of the log");
    }
}

async fn race(mut desk: Desk) {
    // So that the flusher is at work all the time.
    desk.options =
        Options { flush_at: 2, unflushed_max: 6, flush_interval: Duration::from_millis(5), ..desk.options };
    let mut sequencer = desk.open_ready().await;
    let watched = sequencer.status_handle();
    let mut watcher = Watcher::new(&desk);
    let looking = desk.env.spawn({
        let env = desk.env.clone();
        async move {
            let mut looks = 0_u64;
            while watched.status() != Status::Finished {
                watcher.look().await;
                looks += 1;
                env.sleep(Duration::from_micros(100)).await;
            }
            (looks, watcher)
        }
    });
    let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
    for round in 0..200_u64 {
        sequencer.wait(TIMEOUT).await.unwrap();
        // Recovery, the flusher and the one who reads, all at once.
        if round % 40 == 39 {
            sequencer.recover(desk.log.take(desk.partition).await.unwrap()).unwrap();
            sequencer.wait(TIMEOUT).await.unwrap();
        }
        let [number, other] = [round * 7 % RACING, round * 11 % RACING];
        let pin = sequencer.load(KIND, workspace(number)).await.unwrap();
        let (sealed, drawn) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        let next = expected.entry(number).or_insert(0);
        *next += 1;
        assert_eq!(drawn[0].get(), *next);
        // Another workspace is read while the group is on its way.
        let loading = sequencer.loading(&[(KIND, workspace(other))]).unwrap();
        let reading = desk.env.spawn(loading.read());
        desk.commit(&mut sequencer, sealed).await;
        let loaded = reading.await.unwrap();
        let pin = sequencer.admit(loaded).pop().unwrap().unwrap();
        sequencer.wait(TIMEOUT).await.unwrap();
        let mut group = sequencer.group().unwrap();
        let unused = group.begin(&pin).unwrap().draw(INVOICE).unwrap().get();
        assert_eq!(unused, expected.get(&other).copied().unwrap_or(0) + 1);
    }
    sequencer.finish(TIMEOUT).await.unwrap();
    let (looks, mut watcher) = desk.env.timeout(TIMEOUT, looking).await.unwrap().unwrap();
    assert!(looks > 0);
    watcher.look().await;
    assert_eq!(watcher.checkpoint, 201, "a clean stop leaves nothing to recover");
    let mut sequencer = desk.open_ready().await;
    for (number, next) in expected {
        sequencer.wait(TIMEOUT).await.unwrap();
        assert_eq!(desk.invoice(&mut sequencer, workspace(number)).await, next + 1);
    }
}

async fn long_recovery(mut desk: Desk) {
    desk.options = Options { unflushed_max: 5, ..desk.options };
    // A writer that flushes nothing leaves the whole log to recovery.
    let mut writer = desk.with_empty_store();
    writer.options = Options { unflushed_max: 1_000, flush_at: 1_000, ..desk.options };
    for events in 0..=50_u64 {
        let fresh = desk.with_empty_store();
        fresh.faults.reset_counts();
        let mut sequencer = fresh.open_ready().await;
        assert_eq!(sequencer.next_offset(), Some(offset(events + 1)));
        let flushes = fresh.faults.count(Operation::Write);
        assert!(flushes >= events.saturating_sub(1) / 6, "{events} events, {flushes} flushes");
        for number in 0..events {
            let pin = sequencer.load(KIND, workspace(number)).await.unwrap();
            let mut group = sequencer.group().unwrap();
            assert_eq!(group.begin(&pin).unwrap().draw(INVOICE).unwrap().get(), 2);
        }
        drop(sequencer);
        let mut sequencer = writer.open_ready().await;
        assert_eq!(writer.invoice(&mut sequencer, workspace(events)).await, 1);
    }
}

async fn multiple_actualizes(desk: Desk) {
    let mut sequencer = desk.open_ready().await;
    let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
    let mut ways = [0; 4];
    for _ in 0..100 {
        sequencer.wait(TIMEOUT).await.unwrap();
        let number = desk.env.random_below(5);
        let next = expected.entry(number).or_insert(1);
        let pin = sequencer.load(KIND, workspace(number)).await.unwrap();
        let (sealed, drawn) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        assert_eq!(drawn[0].get(), *next);
        let append = desk.log.append(sealed.owner(), sealed.at(), sealed.entries());
        let way = usize::try_from(desk.env.random_below(4)).unwrap();
        ways[way] += 1;
        match way {
            0 => sequencer.commit(sealed, append.await.unwrap()).unwrap(),
            1 => {
                // The reply is lost, and settling finds the event.
                append.await.unwrap();
                assert_eq!(desk.settle(&mut sequencer, sealed).await, Settled::Committed);
            }
            2 => {
                // Everything is lost but the log.
                append.await.unwrap();
                drop(sealed);
                assert_eq!(sequencer.group().unwrap_err(), Busy::InDoubt);
                sequencer.recover(desk.log.take(desk.partition).await.unwrap()).unwrap();
            }
            _ => {
                // The append never got there: a conflict at another offset tells.
                append.await.unwrap();
                assert_eq!(desk.settle(&mut sequencer, sealed).await, Settled::Committed);
                let pin = sequencer.load(KIND, workspace(number)).await.unwrap();
                let (sealed, _) = seal_one(&mut sequencer, &pin, &[INVOICE]);
                assert_eq!(desk.settle(&mut sequencer, sealed).await, Settled::Discarded);
            }
        }
        *next += 1;
    }
    assert!(ways.iter().all(|&count| count > 5), "{ways:?}");
    let events = desk.events().await;
    assert_eq!(events.len(), 100);
}

/// Starts with a partition that has recovered, and a store that takes no writes from then on.
async fn open_then_break(desk: &Desk) -> Sequencer {
    let sequencer = desk.open_ready().await;
    desk.faults.fail(Operation::Write, Fault::Refuse);
    sequencer
}

async fn flush_permanently_fails(mut desk: Desk) {
    desk.options = Options { unflushed_max: 5, flush_at: 5, ..desk.options };
    let mut sequencer = open_then_break(&desk).await;
    for number in 1..=6 {
        assert_eq!(desk.invoice(&mut sequencer, workspace(number)).await, 1, "{number}");
    }
    let refused = sequencer.group().unwrap_err();
    assert!(matches!(refused, Busy::Backlogged { unflushed: 6, events: 6, .. }), "{refused}");
    assert!(sequencer.wait(Duration::from_millis(1_200)).await.is_err());
    assert!(desk.faults.injected() > 0);
    desk.faults.heal();
    sequencer.wait(TIMEOUT).await.unwrap();
    for number in 1..=7 {
        sequencer.wait(TIMEOUT).await.unwrap();
        let expected = if number == 7 { 1 } else { 2 };
        assert_eq!(desk.invoice(&mut sequencer, workspace(number)).await, expected, "{number}");
    }
}

async fn flush_permanently_fails_for_one_hot_workspace(mut desk: Desk) {
    desk.options = Options { uncheckpointed_events_max: 40, ..desk.options };
    let mut sequencer = open_then_break(&desk).await;
    for expected in 1..=41 {
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, expected);
    }
    let refused = sequencer.group().unwrap_err();
    // The workspace counts twice while a write of it is under way that will fail.
    assert!(matches!(refused, Busy::Backlogged { unflushed: 1 | 2, events: 41, .. }), "{refused}");
    desk.faults.heal();
    sequencer.wait(TIMEOUT).await.unwrap();
    assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 42);
}

/// Waits until the store has the numbers of a workspace.
async fn stored_one(desk: &Desk, number: u64) {
    let key = seriatim_sequencer::NumbersKey::new(desk.partition, workspace(number));
    let stored = async {
        while desk.store.get(key.as_key()).await.unwrap().is_none() {
            desk.env.sleep(Duration::from_millis(1)).await;
        }
    };
    desk.env.timeout(TIMEOUT, stored).await.unwrap();
}

async fn flush_by_timer(desk: Desk) {
    let mut sequencer = desk.open_ready().await;
    // The timer begins anew with each turn of the flusher, so what comes later in a turn waits for less than an interval.
    for number in 1..=3 {
        let started = desk.env.instant();
        desk.invoice(&mut sequencer, workspace(number)).await;
        let committed = desk.env.instant();
        stored_one(&desk, number).await;
        let now = desk.env.instant();
        // Real disks and cores take what they take. Simulated ones take no time, or 20 ms an operation: one that is
        // under way when the timer runs out, two writes, and the look that finds them.
        if desk.env.is_simulated() {
            assert!(now - committed <= Duration::from_millis(500 + 4 * 20), "{:?}", now - committed);
            // Right after a flush, a whole interval has to pass.
            assert!(number == 1 || now - started >= Duration::from_millis(400), "{:?}", now - started);
        }
    }
}

async fn flush_by_size(mut desk: Desk) {
    desk.options = Options { flush_at: 10, flush_interval: Duration::from_secs(3_600), ..desk.options };
    let mut sequencer = desk.open_ready().await;
    for number in 0..9 {
        desk.invoice(&mut sequencer, workspace(number)).await;
    }
    a_while(&desk).await;
    assert_eq!(stored_now(&desk).await, 0);
    desk.invoice(&mut sequencer, workspace(9)).await;
    stored(&desk, 10).await;
}

async fn built_in_sequences(desk: Desk) {
    let mut sequencer = desk.open_ready().await;
    let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
    let mut group = sequencer.group().unwrap();
    let mut transaction = group.begin(&pin).unwrap();
    assert_eq!(transaction.partition_offset().get(), 1);
    assert_eq!(transaction.workspace_offset().get(), 1);
    assert_eq!(transaction.draw(builtin::RECORD_ID).unwrap().get(), 322_680_000_131_072);
    assert_eq!(transaction.draw(builtin::C_RECORD_ID).unwrap().get(), 322_685_000_131_072);
    drop(transaction);
    drop(group);
    // The scheme with one sequence for all records.
    let single = seriatim_types::WorkspaceKind::new(2);
    let pin = sequencer.load(single, workspace(2)).await.unwrap();
    let mut group = sequencer.group().unwrap();
    let mut transaction = group.begin(&pin).unwrap();
    assert_eq!(transaction.draw(builtin::RECORD_ID).unwrap().get(), 200_001);
    assert!(transaction.draw(builtin::C_RECORD_ID).is_err());
}
