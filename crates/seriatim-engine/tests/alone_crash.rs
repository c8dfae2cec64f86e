//! A crash before, between and behind every write leaves nothing repeated and nothing skipped.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone_support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use alone_support::{Desk, INVOICE, KIND, StoreOver, TICKET, event, workspace};
use async_trait::async_trait;
use bytes::Bytes;
use seriatim_engine::alone::{Options, Sequencer};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Log, Pair, Store, StoreBackend, StoreError};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, Operation};
use seriatim_types::WorkspaceId;

/// A store that dies in front of the write that `left` counts down to.
#[derive(Debug)]
struct Dying {
    store: StoreOver,
    left: AtomicUsize,
    dead: AtomicBool,
}

impl Dying {
    fn has_died(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn alive(&self) -> Result<(), StoreError> {
        if self.has_died() { Err(StoreError::Unavailable("it has died".to_owned())) } else { Ok(()) }
    }

    fn count_write(&self) -> Result<(), StoreError> {
        let one_less = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            self.dead.store(true, Ordering::SeqCst);
        }
        self.alive()
    }
}

#[async_trait]
impl StoreBackend for Dying {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.alive()?;
        self.store.get(key).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.alive()?;
        self.store.get_many(keys).await
    }

    async fn scan_page(&self, _: &[u8], _: &ClusteringRange, _: usize) -> Result<Vec<Pair>, StoreError> {
        unreachable!("the sequencer scans nothing")
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.count_write()?;
        self.store.write(batch, durability).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.alive()
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// What survives a crash.
struct Disk {
    env: Env,
    log: Arc<MemoryLog>,
    store: Store,
}

impl Disk {
    fn new(env: &Env) -> Self {
        let store = Store::new(MemoryStore::new());
        Self { env: env.clone(), log: Arc::new(MemoryLog::new()), store }
    }

    /// A life that ends in front of the store's write number `writes`, or by a fault of the log.
    fn life(&self, writes: usize) -> (Desk, Arc<Dying>) {
        let store = StoreOver(self.store.clone());
        let (left, dead) = (AtomicUsize::new(writes), AtomicBool::new(false));
        let dying = Arc::new(Dying { store, left, dead });
        let faults = Faults::new(&self.env);
        let log = Log::new(FaultyLog::new(self.log.clone(), &faults));
        let mut desk = Desk::new(&self.env, log, Store::from_arc(dying.clone()), faults);
        desk.options =
            Options { flush_at: 2, unflushed_max: 3, retry: Duration::from_millis(20), ..desk.options };
        (desk, dying)
    }
}

/// How many events the group of a round has.
fn group_size(round: u64) -> usize {
    if round % 3 == 1 { 2 } else { 1 }
}

/// How many events so many rounds have.
fn events_of(rounds: u64) -> u64 {
    (0..rounds).map(|round| group_size(round) as u64).sum()
}

/// Numbers events of three workspaces until storage dies. Every third group has two: of two workspaces, or of the same one.
async fn work(desk: &Desk, sequencer: &mut Sequencer, rounds: u64) {
    for round in 0..rounds {
        if sequencer.wait(Duration::from_millis(200)).await.is_err() {
            return;
        }
        let workspaces = [round % 3, (round + round % 2) % 3].map(workspace);
        let mut pins = Vec::new();
        for id in workspaces.into_iter().take(group_size(round)) {
            let Ok(pin) = sequencer.load(KIND, id).await else { return };
            pins.push(pin);
        }
        let mut group = sequencer.group().unwrap();
        for pin in &pins {
            let mut transaction = group.begin(pin).unwrap();
            transaction.draw(INVOICE).unwrap();
            match round % 4 {
                // There are five of them.
                0 => drop(transaction.draw(TICKET)),
                _ => drop(transaction.draw(INVOICE).unwrap()),
            }
            transaction.stage(&event()).unwrap();
        }
        let sealed = group.seal();
        match desk.log.append(sealed.owner(), sealed.at(), sealed.entries()).await {
            Ok(receipt) => sequencer.commit(sealed, receipt).unwrap(),
            // A crash: no process settles it.
            Err(_) => return,
        }
        // The flusher's turn.
        desk.env.sleep(Duration::from_millis(1)).await;
    }
}

/// Every number of every workspace from the first on, once, in the order of the log. Says how many events there are.
async fn check(desk: &Desk) -> u64 {
    let tickets = [10, 11, 12, 20, 21];
    let mut next: BTreeMap<WorkspaceId, (u64, u64, usize)> = BTreeMap::new();
    let events = desk.events().await;
    for event in &events {
        let (offset, invoice, ticket) = next.entry(event.workspace).or_insert((1, 1, 0));
        assert_eq!(event.workspace_offset, *offset, "{event:?}");
        *offset += 1;
        for &(sequence, first, count) in &event.draws {
            if sequence == INVOICE {
                assert_eq!(first, *invoice, "{event:?}");
                *invoice += count;
            } else {
                assert_eq!((sequence, first, count), (TICKET, tickets[*ticket], 1), "{event:?}");
                *ticket += 1;
            }
        }
    }
    events.len() as u64
}

/// Crashes at write `point`, works again, and looks at what the log has. Says whether the crash came.
fn crash_at_write(point: usize, clean_stop: bool) -> bool {
    simulate(point as u64, |env| async move {
        let disk = Disk::new(&env);
        let (desk, dying) = disk.life(point);
        let mut sequencer = desk.open().await;
        work(&desk, &mut sequencer, 14).await;
        let stopped =
            if clean_stop { sequencer.finish(Duration::from_secs(1)).await.is_err() } else { false };
        assert!(!stopped || dying.has_died());
        let before = check(&desk).await;
        // Two lives after it, of which one dies early too.
        for (life, writes) in [(0, point / 2 + 1), (1, usize::MAX)] {
            let (desk, _) = disk.life(writes);
            let mut sequencer = desk.open().await;
            work(&desk, &mut sequencer, 8).await;
            let after = check(&desk).await;
            assert!(after >= before, "life {life}");
        }
        let (desk, _) = disk.life(usize::MAX);
        assert!(check(&desk).await >= before + events_of(8), "the last life does all of its work");
        dying.has_died()
    })
}

#[test]
fn a_crash_at_every_write_of_the_store() {
    for clean_stop in [false, true] {
        let mut points = 0;
        for point in 0.. {
            let crashed = crash_at_write(point, clean_stop);
            points += usize::from(crashed);
            if !crashed {
                break;
            }
        }
        println!("clean stop: {clean_stop}: {points} crash points");
        assert!(points >= 4, "{points}");
    }
}

#[test]
fn a_crash_before_and_behind_every_append() {
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        for nth in 1..=14 {
            simulate(nth, |env| async move {
                let disk = Disk::new(&env);
                let (desk, _) = disk.life(usize::MAX);
                desk.faults.crash_at(Operation::Append, nth, fault);
                let mut sequencer = desk.open().await;
                work(&desk, &mut sequencer, 14).await;
                assert!(desk.faults.has_crashed());
                drop(sequencer);
                let (desk, _) = disk.life(usize::MAX);
                let logged = check(&desk).await;
                assert_eq!(logged, events_of(nth - u64::from(fault == Fault::LoseRequest)));
                let mut sequencer = desk.open().await;
                work(&desk, &mut sequencer, 8).await;
                assert_eq!(check(&desk).await, logged + events_of(8));
            });
        }
    }
}

#[test]
fn a_crash_in_the_middle_of_recovery() {
    let mut points = 0;
    for point in 0.. {
        let crashed = simulate(point as u64, |env| async move {
            let disk = Disk::new(&env);
            let (mut desk, _) = disk.life(usize::MAX);
            // A first life that flushes nothing.
            desk.options = Options { unflushed_max: 100, flush_at: 100, ..desk.options };
            let mut sequencer = desk.open().await;
            for number in 0..12 {
                desk.invoice_when_ready(&mut sequencer, workspace(number)).await;
            }
            drop(sequencer);
            let (mut desk, dying) = disk.life(point);
            desk.options.unflushed_max = 2;
            let mut sequencer = desk.open().await;
            let ended = sequencer.wait(Duration::from_secs(2)).await;
            // The last flush is not waited for.
            assert!(ended.is_ok() || dying.has_died());
            drop(sequencer);
            let (desk, _) = disk.life(usize::MAX);
            let mut sequencer = desk.open().await;
            for number in 0..12 {
                assert_eq!(desk.invoice_when_ready(&mut sequencer, workspace(number)).await, 2);
            }
            dying.has_died()
        });
        points += usize::from(crashed);
        if !crashed {
            break;
        }
    }
    println!("{points} crash points in recovery");
    assert!(points >= 2, "{points}");
}
