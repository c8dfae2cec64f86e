//! A restored copy gives out nothing until it is unfenced.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use seriatim_engine::definition::shop;
use seriatim_engine::{App, Change, Engine, NextRequest, Options, Request, SubmitError, Unfence};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, ReadLimit, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, Operation};
use seriatim_types::{ApplicationId, ErrorKind, Partition, PartitionOffset, WorkspaceId, WorkspaceOffset};

const RECORD: u64 = 322_680_000_131_072;

/// A copy, and what is known of it.
struct World {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
}

impl World {
    /// A log as it comes out of a backup: two invoices, a series at 6, another that was never used, and blocks at 4.
    async fn new(env: Env) -> Self {
        let world = Self { log: MemoryLog::new(), store: MemoryStore::new(), env };
        let faults = Faults::new(&world.env);
        let engine = world.open_on(Log::new(FaultyLog::new(Arc::new(world.log.reopen()), &faults))).await;
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        for _ in 0..2 {
            invoice(&engine, corner.id).await.unwrap();
        }
        engine.series().next("s", &NextRequest { count: 5, ..NextRequest::default() }).await.unwrap();
        // It is registered, and its first event is not written.
        faults.fail_nth(Operation::Append, 2, Fault::Busy);
        next(&engine, "quiet").await.unwrap_err();
        assert_eq!(engine.series().state("quiet").await.unwrap().next, Some(1));
        engine.blocks().put("b", 1, 10).await.unwrap();
        assert_eq!(engine.blocks().allocate("b", 3).await.unwrap().first, 1);
        engine.close().await;
        world
    }

    async fn open(&self) -> Engine {
        self.open_on(Log::new(self.log.reopen())).await
    }

    async fn open_on(&self, log: Log) -> Engine {
        let store = Store::new(self.store.reopen());
        let options = Options::default();
        let engine = Engine::open(self.env.clone(), log, store, [App::new(shop())], options).await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        engine
    }

    async fn fence(&self) {
        let (log, store) = (Log::new(self.log.reopen()), Store::new(self.store.reopen()));
        Engine::fence(self.env.clone(), log, store).await.unwrap();
    }

    async fn fenced(env: Env) -> (Self, Engine) {
        let world = Self::new(env).await;
        world.fence().await;
        let engine = world.open().await;
        assert!(engine.fenced().is_some());
        (world, engine)
    }

    /// Opened again, with the store and then without.
    async fn restart(&mut self, engine: Engine, lose_store: bool) -> Engine {
        engine.close().await;
        if lose_store {
            self.store = MemoryStore::new();
        }
        self.open().await
    }
}

fn in_simulation<F: Future<Output = ()>>(scenario: impl FnOnce(Env) -> F) {
    simulate(1, |env| async move { scenario(env).await });
}

async fn corner(engine: &Engine) -> WorkspaceId {
    engine.workspace_named("shop", "corner").await.unwrap().unwrap()
}

/// The id and the number of a new invoice.
async fn invoice(engine: &Engine, shop: WorkspaceId) -> Result<(u64, i64), SubmitError> {
    let request = Request::changes([Change::create("Invoice", 1).field("total", "1")]);
    let answer = engine.submit("shop", shop, &request).await?;
    Ok((answer.id(1).unwrap().get() - RECORD, answer.number(1, "number").unwrap()))
}

async fn next(engine: &Engine, series: &str) -> Result<u64, SubmitError> {
    engine.series().next(series, &NextRequest::default()).await.map(|taken| taken.number)
}

async fn allocate(engine: &Engine) -> Result<u64, SubmitError> {
    engine.blocks().allocate("b", 1).await.map(|allocated| allocated.first)
}

fn assert_fenced<T: std::fmt::Debug>(result: Result<T, SubmitError>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Fenced);
}

/// Everything that gives something out is refused.
async fn assert_all_fenced(engine: &Engine) {
    let shop = corner(engine).await;
    assert_fenced(invoice(engine, shop).await);
    let update =
        Request::changes([Change::update(seriatim_types::RecordId::new(RECORD)).field("total", "2")]);
    assert_fenced(engine.submit("shop", shop, &update).await);
    assert_fenced(engine.create_workspace("shop", "store", None).await);
    assert_fenced(engine.create_workspace_once("shop", "store", None, "key").await);
    assert_fenced(engine.create_workspace("shop", "store", Some("new")).await);
    for series in ["s", "quiet", "new"] {
        assert_fenced(next(engine, series).await);
    }
    assert_fenced(engine.series().put("new", 1, "{number}").await);
    assert_fenced(engine.series().raise("s", 100, "why", None).await);
    assert_fenced(engine.series().void("s", 1, "why", None).await);
    assert_fenced(engine.blocks().put("new", 1, 1).await);
    assert_fenced(allocate(engine).await);
}

#[test]
fn a_fenced_copy_reads_and_gives_out_nothing() {
    in_simulation(|env| async move {
        let (mut world, mut engine) = World::fenced(env).await;
        for lose_store in [false, true] {
            assert_all_fenced(&engine).await;
            let shop = corner(&engine).await;
            let (found, created) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
            assert_eq!((found.id, created), (shop, false));
            assert_eq!(engine.events("shop", shop, WorkspaceOffset::FIRST, 10).await.unwrap().len(), 2);
            assert_eq!(engine.records("shop", shop, "Invoice", None, 10).await.unwrap().len(), 2);
            assert_eq!(engine.series().state("s").await.unwrap().next, Some(6));
            assert_eq!(engine.series().who("s", 3).await.unwrap().count, 5);
            assert_eq!(engine.blocks().state("b").await.unwrap().next, 4);
            engine = world.restart(engine, lose_store).await;
        }
        assert_all_fenced(&engine).await;
        engine.close().await;
    });
}

#[test]
fn a_complete_log_continues_without_a_gap() {
    in_simulation(|env| async move {
        let (mut world, mut engine) = World::fenced(env).await;
        assert_eq!(engine.unfence(&Unfence::Complete).await.unwrap(), None);
        assert_eq!(engine.unfence(&Unfence::Complete).await.unwrap_err().kind(), ErrorKind::Conflict);
        let shop = corner(&engine).await;
        for turn in 0..3 {
            assert_eq!(engine.fenced(), None);
            assert_eq!(next(&engine, "s").await.unwrap(), 6 + turn);
            assert_eq!(next(&engine, "quiet").await.unwrap(), 1 + turn);
            let numbers = invoice(&engine, shop).await.unwrap();
            assert_eq!((numbers.0, numbers.1), (2 + turn, 3 + i64::try_from(turn).unwrap()));
            assert_eq!(allocate(&engine).await.unwrap(), 4 + turn);
            engine.create_workspace("shop", "store", None).await.unwrap();
            engine = world.restart(engine, turn == 1).await;
        }
        engine.close().await;
    });
}

fn highest(names: &[(&str, u64)]) -> Vec<(String, u64)> {
    names.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

#[test]
fn named_sequences_continue_after_the_given_numbers_and_the_rest_remains_fenced() {
    in_simulation(|env| async move {
        let (mut world, mut engine) = World::fenced(env).await;
        let names =
            [("series/s", 50), ("blocks/b", 100), ("shop/corner/InvoiceNumber", 20), ("series/later", 7)];
        let left = engine.unfence(&Unfence::Highest(highest(&names))).await.unwrap().unwrap();
        assert_eq!(left.free.len(), 4);
        let shop = corner(&engine).await;
        for turn in 0..3 {
            assert_eq!(next(&engine, "s").await.unwrap(), 51 + turn);
            assert_eq!(next(&engine, "later").await.unwrap(), 8 + turn);
            assert_eq!(allocate(&engine).await.unwrap(), 101 + turn);
            assert_fenced(next(&engine, "quiet").await);
            assert_fenced(next(&engine, "new").await);
            // Its number is free, its id is not.
            let error = invoice(&engine, shop).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Fenced);
            assert!(error.to_string().contains("sys.RecordId"), "{error}");
            assert_fenced(engine.create_workspace("shop", "store", None).await);
            assert_fenced(engine.blocks().put("new", 1, 1).await);
            engine = world.restart(engine, turn == 1).await;
        }
        let skipped = engine.series().who("s", 30).await.unwrap_err();
        assert!(skipped.to_string().contains("restored copy"), "{skipped}");
        let ids = Unfence::Highest(highest(&[(&format!("shop/{shop}/sys.RecordId"), RECORD + 90)]));
        engine.unfence(&ids).await.unwrap();
        assert_eq!(invoice(&engine, shop).await.unwrap(), (91, 21));
        let customer = Request::changes([Change::create("Customer", 1).field("name", "Ada")]);
        assert_fenced(engine.submit("shop", shop, &customer).await);
        assert_eq!(engine.unfence(&Unfence::Complete).await.unwrap(), None);
        engine.submit("shop", shop, &customer).await.unwrap();
        assert_eq!((next(&engine, "quiet").await.unwrap(), next(&engine, "s").await.unwrap()), (1, 54));
        engine.close().await;
    });
}

#[test]
fn what_is_not_there_is_not_unfenced() {
    in_simulation(|env| async move {
        let (_, engine) = World::fenced(env).await;
        for (name, kind) in [
            ("nonsense", ErrorKind::Invalid),
            ("series/a b", ErrorKind::Invalid),
            ("blocks/none", ErrorKind::NotFound),
            ("none/corner/InvoiceNumber", ErrorKind::NotFound),
            ("shop/none/InvoiceNumber", ErrorKind::NotFound),
            ("shop/7/InvoiceNumber", ErrorKind::NotFound),
            ("shop/corner/None", ErrorKind::NotFound),
            ("blocks/sys.WorkspaceIds", ErrorKind::Invalid),
        ] {
            let names = highest(&[("series/s", 50), (name, 5)]);
            assert_eq!(engine.unfence(&Unfence::Highest(names)).await.unwrap_err().kind(), kind, "{name}");
        }
        for skip in [0, 1 << 53] {
            assert_eq!(engine.unfence(&Unfence::Skip(skip)).await.unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert_all_fenced(&engine).await;
        assert_eq!(engine.series().state("s").await.unwrap().next, Some(6), "nothing was raised");
        engine.close().await;
    });
}

/// Where the logs of all partitions end.
async fn tails(world: &World) -> Vec<(Partition, PartitionOffset)> {
    let log = Log::new(world.log.reopen());
    let mut tails = Vec::new();
    for partition in log.partitions().await.unwrap() {
        tails.push((partition, log.tail(partition).await.unwrap()));
    }
    tails
}

#[test]
fn a_number_that_cannot_be_is_refused_before_anything_is_written() {
    in_simulation(|env| async move {
        let (mut world, engine) = World::fenced(env).await;
        let before = tails(&world).await;
        for (name, number) in [
            ("shop/corner/InvoiceNumber", 1 << 53),
            ("shop/corner/InvoiceNumber", u64::MAX),
            ("shop/corner/sys.RecordId", 1 << 53),
            ("shop/corner/sys.CRecordId", u64::MAX - 1),
            ("blocks/b", 1 << 53),
            ("series/later", 1 << 53),
        ] {
            let names = highest(&[("series/s", 50), ("blocks/b", 100), (name, number), ("series/new", 3)]);
            for how in [Unfence::Highest(names.clone()), Unfence::HighestAndSkip(names, 10)] {
                let error = engine.unfence(&how).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
                assert!(error.to_string().contains(name), "{error}");
            }
        }
        assert_eq!(tails(&world).await, before, "nothing was written");
        engine.unfence(&Unfence::Skip(100)).await.unwrap();
        let engine = world.restart(engine, true).await;
        assert_eq!((next(&engine, "s").await.unwrap(), allocate(&engine).await.unwrap()), (106, 104));
        engine.close().await;
    });
}

#[test]
fn what_an_unfencing_that_failed_has_raised_skips_all_the_same() {
    for then in [Then::Heals, Then::Crashes] {
        let mut failed = 0;
        while simulate(1, |env| skip_after_failing(env, failed + 1, then)) {
            failed += 1;
        }
        assert!(failed >= 6, "ids, the block sequence, a new series, two raised, the shop, not {failed}");
    }
}

#[derive(Clone, Copy)]
enum Then {
    Heals,
    Crashes,
}

/// Unfences by name while one append fails, and then says how many are skipped. Says whether it had so many appends.
async fn skip_after_failing(env: Env, nth: u64, then: Then) -> bool {
    let mut world = World::new(env.clone()).await;
    world.fence().await;
    let faults = Faults::new(&env);
    let log = Log::new(FaultyLog::new(Arc::new(world.log.reopen()), &faults));
    let engine = world.open_on(log).await;
    faults.fail_nth(Operation::Append, nth, Fault::Busy);
    let names = [("series/s", 10), ("series/later", 7), ("blocks/b", 20), ("shop/corner/InvoiceNumber", 20)];
    let has_failed = engine.unfence(&Unfence::Highest(highest(&names))).await.is_err();
    if !has_failed {
        engine.close().await;
        return false;
    }
    let engine = match then {
        Then::Heals => {
            faults.heal();
            engine
        }
        Then::Crashes => {
            drop(engine);
            world.store = MemoryStore::new();
            world.open().await
        }
    };
    assert_all_fenced(&engine).await;
    assert_eq!(engine.unfence(&Unfence::Skip(1_000)).await.unwrap(), None);
    let engine = world.restart(engine, true).await;
    // What was said the first time was wrong: up to 1,000 numbers after the backup may be out there.
    let shop = corner(&engine).await;
    assert!(next(&engine, "s").await.unwrap() >= 1_006, "{nth}");
    assert!(next(&engine, "quiet").await.unwrap() >= 1_001, "{nth}");
    assert!(allocate(&engine).await.unwrap() >= 1_004, "{nth}");
    let (id, number) = invoice(&engine, shop).await.unwrap();
    assert!(id >= 1_002 && number >= 1_003, "{nth}: {id} and {number}");
    let later = engine.workspace_named("series", "later").await.unwrap();
    assert!(later.is_none() || next(&engine, "later").await.unwrap() >= 1_001, "{nth}");
    engine.close().await;
    true
}

#[test]
fn two_unfencings_at_once_take_turns() {
    for seed in 1..=20 {
        simulate(seed, |env| async move {
            let (_, engine) = World::fenced(env.clone()).await;
            let names = highest(&[("shop/corner/InvoiceNumber", 20), ("series/s", 50)]);
            let (first, second) = (engine.clone(), engine.clone());
            let named = env.spawn(async move { first.unfence(&Unfence::Highest(names)).await });
            let skipped = env.spawn(async move { second.unfence(&Unfence::Skip(1_000)).await });
            let (named, skipped) = (named.await.unwrap(), skipped.await.unwrap());
            assert_eq!(skipped.unwrap(), None);
            if let Err(error) = &named {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            }
            let shop = corner(&engine).await;
            let (id, number) = invoice(&engine, shop).await.unwrap();
            assert!(id >= 1_002, "{id}");
            assert_eq!(number, if named.is_ok() { 21 } else { 1_003 });
            engine.close().await;
        });
    }
}

#[test]
fn an_unfencing_whose_caller_has_gone_is_noticed_by_the_next_one() {
    in_simulation(|env| async move {
        let world = World::new(env.clone()).await;
        world.fence().await;
        let faults = Faults::new(&env);
        let log = Log::new(FaultyLog::new(Arc::new(world.log.reopen()), &faults));
        let engine = world.open_on(log).await;
        // Its one event is written, and the caller does not wait for the answer.
        let hold = faults.hold_answers(Operation::Append);
        env.timeout(Duration::from_secs(1), engine.unfence(&Unfence::Complete)).await.unwrap_err();
        hold.release();
        // The registry answers in order: it has committed the event when it answers this.
        engine.tokens().create(&["*:admin".parse().unwrap()], None).await.unwrap();
        let again = engine.unfence(&Unfence::Complete).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Conflict, "{again}");
        assert_eq!(engine.fenced(), None);
        assert_eq!(next(&engine, "s").await.unwrap(), 6);
        engine.close().await;
    });
}

#[test]
fn what_is_raised_again_gives_out_nothing_more_of_the_block_at_hand() {
    in_simulation(|env| async move {
        let (_, engine) = World::fenced(env).await;
        for highest_seen in [100, 200] {
            let names = highest(&[("blocks/b", highest_seen)]);
            engine.unfence(&Unfence::Highest(names)).await.unwrap();
            assert_eq!(allocate(&engine).await.unwrap(), highest_seen + 1);
            assert_eq!(allocate(&engine).await.unwrap(), highest_seen + 2);
        }
        engine.close().await;
    });
}

#[test]
fn everything_skips_once_with_its_next_event() {
    in_simulation(|env| async move {
        let (mut world, mut engine) = World::fenced(env).await;
        assert_eq!(engine.unfence(&Unfence::Skip(100)).await.unwrap(), None);
        let shop = corner(&engine).await;
        for turn in 0..3 {
            assert_eq!(next(&engine, "s").await.unwrap(), 106 + turn);
            assert_eq!(next(&engine, "new").await.unwrap(), 1 + turn, "what was not there skips nothing");
            let numbers = invoice(&engine, shop).await.unwrap();
            assert_eq!((numbers.0, numbers.1), (102 + turn, 103 + i64::try_from(turn).unwrap()));
            assert_eq!(allocate(&engine).await.unwrap(), 104 + turn);
            engine = world.restart(engine, turn == 1).await;
        }
        // A series that had no event yet, and gets its settings now.
        assert!(engine.series().put("quiet", 1_000, "{number}").await.unwrap());
        assert_eq!(next(&engine, "quiet").await.unwrap(), 1_100);
        let skipped = engine.series().who("s", 50).await.unwrap_err();
        assert!(skipped.to_string().contains("after the backup"), "{skipped}");
        assert_eq!(engine.series().who("s", 5).await.unwrap().first, 1);
        let (made, _) = engine.create_workspace("shop", "store", None).await.unwrap();
        assert!(made.id.get() > shop.get() + (1 << 40), "{} after {shop}", made.id);
        assert_eq!(invoice(&engine, made.id).await.unwrap(), (0, 1));
        engine.close().await;
    });
}

#[test]
fn each_restore_moves_workspace_ids_by_2_to_the_40_however_much_is_skipped() {
    in_simulation(|env| async move {
        let world = World::new(env).await;
        let mut last = WorkspaceId::FIRST;
        for skip in [1, 1 << 50, 3] {
            world.fence().await;
            let engine = world.open().await;
            engine.unfence(&Unfence::Skip(skip)).await.unwrap();
            let (made, _) = engine.create_workspace("shop", "store", None).await.unwrap();
            let moved = made.id.get() - last.get();
            assert!((1 << 40..(1 << 40) + 1_000).contains(&moved), "{moved}");
            last = made.id;
            engine.close().await;
        }
    });
}

#[test]
fn the_gap_is_explained_in_the_header_of_one_event() {
    in_simulation(|env| async move {
        let (world, engine) = World::fenced(env).await;
        engine.unfence(&Unfence::Skip(100)).await.unwrap();
        next(&engine, "s").await.unwrap();
        next(&engine, "s").await.unwrap();
        let id = engine.partition_of("series", engine.series().state("s").await.unwrap().workspace).unwrap();
        engine.close().await;
        let partition = Partition { application: ApplicationId::new(2), id };
        let log = Log::new(world.log.reopen());
        let read = log.read(partition, PartitionOffset::FIRST, ReadLimit::entries(100)).await.unwrap();
        let raises = read
            .iter()
            .flat_map(|(offset, entry)| entry.raises().map(move |raise| (offset.get(), raise.next.get())));
        assert_eq!(raises.filter(|(_, next)| *next == 106).count(), 1);
    });
}

#[test]
fn named_and_skipped_together() {
    in_simulation(|env| async move {
        let (mut world, engine) = World::fenced(env).await;
        let names = highest(&[("series/s", 10), ("blocks/b", 2), ("shop/corner/InvoiceNumber", 20)]);
        assert_eq!(engine.unfence(&Unfence::HighestAndSkip(names, 100)).await.unwrap(), None);
        let engine = world.restart(engine, true).await;
        let shop = corner(&engine).await;
        assert_eq!(next(&engine, "s").await.unwrap(), 11);
        assert_eq!(next(&engine, "quiet").await.unwrap(), 101);
        assert_eq!(allocate(&engine).await.unwrap(), 4, "the log knows of more than was seen");
        assert_eq!(invoice(&engine, shop).await.unwrap(), (102, 21));
        engine.close().await;
    });
}

#[test]
fn what_was_named_before_does_not_skip_and_its_neighbours_do() {
    in_simulation(|env| async move {
        let (_, engine) = World::fenced(env).await;
        let names = highest(&[("shop/corner/InvoiceNumber", 20), ("blocks/b", 30)]);
        engine.unfence(&Unfence::Highest(names)).await.unwrap();
        engine.unfence(&Unfence::Skip(5)).await.unwrap();
        let shop = corner(&engine).await;
        assert_eq!(invoice(&engine, shop).await.unwrap(), (7, 21));
        assert_eq!(allocate(&engine).await.unwrap(), 31);
        assert_eq!(next(&engine, "s").await.unwrap(), 11);
        engine.close().await;
    });
}

#[test]
fn two_restores_skip_twice_only_for_what_slept_through_both() {
    in_simulation(|env| async move {
        let (mut world, engine) = World::fenced(env).await;
        engine.unfence(&Unfence::Skip(10)).await.unwrap();
        assert_eq!(next(&engine, "s").await.unwrap(), 16);
        assert_eq!(allocate(&engine).await.unwrap(), 14);
        engine.close().await;
        world.fence().await;
        let engine = world.open().await;
        assert_all_fenced(&engine).await;
        engine.unfence(&Unfence::Skip(20)).await.unwrap();
        let engine = world.restart(engine, true).await;
        assert_eq!(next(&engine, "s").await.unwrap(), 37);
        assert_eq!(next(&engine, "quiet").await.unwrap(), 31);
        let shop = corner(&engine).await;
        assert_eq!(invoice(&engine, shop).await.unwrap(), (32, 33));
        assert_eq!(allocate(&engine).await.unwrap(), 35);
        engine.close().await;
    });
}

#[test]
fn an_unfencing_that_fails_half_way_leaves_the_fence_and_can_be_done_again() {
    let mut failed = 0;
    while simulate(1, |env| fail_unfencing(env, failed + 1)) {
        failed += 1;
    }
    assert!(failed >= 5, "ids, blocks, two series, the shop and the end of it, not {failed}");
}

/// Unfences while one append fails; says whether it had so many.
async fn fail_unfencing(env: Env, nth: u64) -> bool {
    let world = World::new(env.clone()).await;
    world.fence().await;
    let faults = Faults::new(&env);
    let log = Log::new(FaultyLog::new(Arc::new(world.log.reopen()), &faults));
    let engine = world.open_on(log).await;
    faults.fail_nth(Operation::Append, nth, Fault::Busy);
    let names = [("series/s", 10), ("series/later", 7), ("blocks/b", 20), ("shop/corner/InvoiceNumber", 20)];
    let how = Unfence::HighestAndSkip(highest(&names), 100);
    let unfenced = engine.unfence(&how).await;
    let has_failed = unfenced.is_err();
    if has_failed {
        assert_all_fenced(&engine).await;
    }
    faults.heal();
    engine.close().await;
    let engine = world.open().await;
    if has_failed {
        assert_all_fenced(&engine).await;
        engine.unfence(&how).await.unwrap();
    }
    assert_eq!(next(&engine, "s").await.unwrap(), 11);
    assert_eq!(next(&engine, "later").await.unwrap(), 8);
    assert_eq!(next(&engine, "quiet").await.unwrap(), 101);
    assert_eq!(allocate(&engine).await.unwrap(), 21);
    let shop = corner(&engine).await;
    let (id, number) = invoice(&engine, shop).await.unwrap();
    assert_eq!(number, 21);
    assert!(id == 102 || (has_failed && id == 202), "{id}");
    engine.close().await;
    has_failed
}
