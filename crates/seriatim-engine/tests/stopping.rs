//! How a partition ends: closed while storage is silent, stopped by a panic or by another owner, and back after its store
//! failed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use seriatim_engine::doctor::Treatment;
use seriatim_engine::{Answer, Engine, Options, PartitionState, PartitionStatus, Request, SubmitError};
use seriatim_env::{Env, Task, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation};
use seriatim_types::{ErrorKind, WorkspaceId};
use support::{customer, invoice, open_with, options, workspace};

/// An engine whose storage can be told to fail.
struct Desk {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
    faults: Faults,
    engine: Engine,
    shop: WorkspaceId,
}

impl Desk {
    async fn open(env: Env, options: Options) -> Self {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        Self::open_on(env, log, store, options).await
    }

    async fn open_on(env: Env, log: MemoryLog, store: MemoryStore, options: Options) -> Self {
        let faults = Faults::new(&env);
        let faulty_log = Log::new(FaultyLog::new(Arc::new(log.reopen()), &faults));
        let faulty_store = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
        let engine = open_with(&env, faulty_log, faulty_store, options).await;
        let shop = workspace(&engine, "shop").await;
        Self { env, log, store, faults, engine, shop }
    }

    async fn submit(&self, request: &Request) -> Result<Answer, SubmitError> {
        self.engine.submit("till", self.shop, request).await
    }

    fn spawn(&self, request: Request) -> Task<Result<Answer, SubmitError>> {
        let (engine, shop) = (self.engine.clone(), self.shop);
        self.env.spawn(async move { engine.submit("till", shop, &request).await })
    }

    fn status(&self) -> PartitionStatus {
        let partition = self.engine.partition_of("till", self.shop).unwrap();
        self.engine.partitions("till").unwrap()[usize::from(partition.get())].status.clone()
    }

    async fn stopped(&self) -> String {
        loop {
            if let PartitionStatus::Stopped(reason) = self.status() {
                return reason;
            }
            self.env.sleep(Duration::from_millis(1)).await;
        }
    }

    async fn flushed(&self) {
        for application in ["till", "series", "sys"] {
            let unflushed =
                || self.engine.partitions(application).unwrap().iter().any(|state| state.unflushed > 0);
            while unflushed() {
                self.env.sleep(Duration::from_millis(1)).await;
            }
        }
    }

    async fn count(&self) -> serde_json::Value {
        let rows = self.engine.view("till", self.shop, "count", &[], None, 10).await.unwrap();
        rows.into_iter().next().map_or(json!(0), |(_, row)| row)
    }

    async fn assert_clean(&self) {
        let scratch = Store::new(MemoryStore::new());
        let report = self.engine.doctor(&scratch, Treatment::Check, &mut |_| {}).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

/// Nothing of a scenario may take an hour of its own time.
fn with_desk<F: Future<Output = ()>>(options: Options, scenario: impl Fn(Desk) -> F) {
    let scenario = &scenario;
    for seed in 1..=5 {
        simulate(seed, |env| async move {
            let desk = Desk::open(env.clone(), options).await;
            env.timeout(Duration::from_secs(3_600), scenario(desk)).await.expect("nothing hangs");
        });
    }
}

fn quick() -> Options {
    Options { close_timeout: Duration::from_secs(5), queue_max: 4, ..options() }
}

#[test]
fn closing_ends_in_time_with_a_full_queue_and_a_silent_log() {
    with_desk(quick(), |desk| async move {
        let _hold = desk.faults.hold(Operation::Append);
        let sent: Vec<_> = (0..20).map(|_| desk.spawn(invoice("1"))).collect();
        desk.env.sleep(Duration::from_secs(1)).await;
        let begun = desk.env.instant();
        desk.engine.close().await;
        // The applications, the blocks and the registry, one after another.
        assert!(desk.env.instant() - begun <= 3 * quick().close_timeout + Duration::from_secs(1));
        for sent in sent {
            let error = sent.await.unwrap().unwrap_err();
            let kinds = [ErrorKind::InDoubt, ErrorKind::Closed, ErrorKind::Busy];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
    });
}

#[test]
fn the_doctor_does_not_wait_without_end_for_a_partition_that_is_busy() {
    with_desk(quick(), |desk| async move {
        desk.submit(&invoice("1")).await.unwrap();
        let hold = desk.faults.hold(Operation::Append);
        let sent: Vec<_> = (0..20).map(|_| desk.spawn(invoice("1"))).collect();
        desk.env.sleep(Duration::from_secs(1)).await;
        let scratch = Store::new(MemoryStore::new());
        let report = desk.engine.doctor(&scratch, Treatment::Check, &mut |_| {}).await.unwrap();
        let problems: Vec<String> = report.problems.iter().map(|problem| problem.error.to_string()).collect();
        assert!(problems.iter().any(|problem| problem.contains("did not finish")), "{problems:?}");
        hold.release();
        for sent in sent {
            // Too many for the queue are refused, the others are done.
            let _ = sent.await.unwrap();
        }
        desk.submit(&invoice("1")).await.unwrap();
        desk.assert_clean().await;
    });
}

#[test]
fn a_panic_in_a_flush_stops_the_partition_and_names_the_reason() {
    with_desk(options(), |desk| async move {
        desk.flushed().await;
        desk.faults.fail_nth(Operation::Write, 1, Fault::Panic);
        desk.submit(&invoice("1")).await.unwrap();
        assert!(desk.stopped().await.contains("a flush panicked: injected fault"), "{:?}", desk.status());
        let refused = desk.submit(&invoice("1")).await.unwrap_err();
        assert!(refused.to_string().contains("a flush panicked"), "{refused}");
        // What was acknowledged can still be read, and it closes.
        assert_eq!(desk.count().await, json!(1));
        desk.engine.close().await;
        let again = Desk::open_on(desk.env, desk.log, desk.store, options()).await;
        assert_eq!(again.count().await, json!(1));
        again.assert_clean().await;
    });
}

#[test]
fn a_panic_in_a_recovery_stops_the_partition_and_names_the_reason() {
    for seed in 1..=5 {
        simulate(seed, |env| async {
            let Desk { env, log, store, engine, .. } = Desk::open(env, options()).await;
            engine.close().await;
            let faults = Faults::new(&env);
            let faulty_log = Log::new(FaultyLog::new(Arc::new(log.reopen()), &faults));
            let faulty_store = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
            // The registry reads its checkpoint first of all.
            faults.fail_nth(Operation::Get, 1, Fault::Panic);
            let opening = Engine::open(env.clone(), faulty_log, faulty_store, [support::till()], options());
            let opened = env.timeout(Duration::from_secs(3_600), opening).await.expect("it does not hang");
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("recovery panicked: injected fault"), "{error}");
        });
    }
}

#[test]
fn a_panic_in_the_partitions_task_stops_it_and_leaves_its_group_in_doubt() {
    with_desk(options(), |desk| async move {
        desk.faults.fail_nth(Operation::Append, 1, Fault::Panic);
        let error = desk.submit(&invoice("1")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InDoubt, "{error}");
        let reason = desk.stopped().await;
        assert!(reason.contains("the partition's task panicked: injected fault"), "{reason}");
        let refused = desk.submit(&invoice("1")).await.unwrap_err();
        assert!(refused.to_string().contains("task panicked"), "{refused}");
        desk.engine.close().await;
    });
}

#[test]
fn a_partition_that_was_taken_over_flushes_what_it_has_into_its_own_store() {
    // So long that nothing is flushed before the ownership is lost.
    let rarely = Options { flush_interval: Duration::from_secs(3_600), ..options() };
    with_desk(rarely, |desk| async move {
        desk.submit(&invoice("1")).await.unwrap();
        let second_log = Log::new(desk.log.reopen());
        let second = open_with(&desk.env, second_log, Store::new(MemoryStore::new()), options()).await;
        second.submit("till", desk.shop, &invoice("2")).await.unwrap();
        let error = desk.submit(&invoice("3")).await.unwrap_err();
        assert!(matches!(error, SubmitError::NotHere { holder: Some(_), .. }), "{error}");
        assert!(matches!(desk.status(), PartitionStatus::Elsewhere { holder: Some(_) }));
        let partition = desk.engine.partition_of("till", desk.shop).unwrap();
        let state =
            |engine: &Engine| engine.partitions("till").unwrap()[usize::from(partition.get())].clone();
        assert!(state(&desk.engine).unflushed > 0, "the test needs something that could be flushed");
        let committed = state(&desk.engine).next_offset;
        desk.engine.close().await;
        // It holds committed events only, so it is a correct, older standby.
        assert_eq!((state(&desk.engine).unflushed, state(&desk.engine).checkpoint), (0, committed));
        assert!(committed < state(&second).next_offset);
        second.close().await;
    });
}

#[test]
fn a_refusal_that_rests_on_its_own_group_is_not_answered_before_the_group_is_decided() {
    let requests = || {
        let settings =
            || Request::changes([seriatim_engine::Change::create("Settings", 1).field("currency", "EUR")]);
        [
            ("a singleton that exists", settings(), settings()),
            ("a key that was used", customer("A").idempotency_key("k"), customer("B").idempotency_key("k")),
            ("another offset", customer("A").expected_offset(1), customer("B").expected_offset(1)),
        ]
    };
    for place in 0..requests().len() {
        with_desk(options(), move |desk| async move {
            let (what, first, second) = requests().into_iter().nth(place).unwrap();
            desk.submit(&invoice("1")).await.unwrap();
            // Held, so that the two commands after it are one group.
            let hold = desk.faults.hold(Operation::Append);
            let blocker = desk.spawn(Request::new("Ping").idempotency_key("blocker"));
            hold.reached(1).await;
            let base = u64::from(what == "another offset");
            let (first, second) = match base {
                0 => (first, second),
                _ => (first.expected_offset(2), second.expected_offset(2)),
            };
            let first = desk.spawn(first);
            desk.env.sleep(Duration::from_micros(10)).await;
            let second = desk.spawn(second);
            desk.env.sleep(Duration::from_millis(10)).await;
            // The group of both is refused by the log: nothing of it was written.
            desk.faults.fail_nth(Operation::Append, 1, Fault::Busy);
            hold.release();
            blocker.await.unwrap().unwrap();
            let refused = first.await.unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Busy, "{what}: {refused}");
            let answer = second.await.unwrap();
            assert!(answer.is_ok(), "{what}: refused by a command that never happened: {answer:?}");
        });
    }
}

#[test]
fn a_store_that_refuses_writes_is_named_until_one_succeeds() {
    with_desk(options(), |desk| async move {
        let failing = || {
            let failing = |(_, state): (String, PartitionState)| state.store_failure;
            desk.engine.all_partitions().into_iter().filter_map(failing).collect::<Vec<String>>()
        };
        desk.submit(&invoice("1")).await.unwrap();
        desk.flushed().await;
        assert_eq!(failing(), Vec::<String>::new());
        desk.faults.fail(Operation::Write, Fault::Refuse);
        desk.submit(&invoice("2")).await.unwrap();
        while failing().is_empty() {
            desk.env.sleep(Duration::from_millis(1)).await;
        }
        for _ in 0..1_000 {
            desk.env.sleep(Duration::from_millis(7)).await;
            assert_eq!(failing().len(), 1, "it is not over between two attempts");
        }
        desk.faults.heal();
        desk.flushed().await;
        assert_eq!(failing(), Vec::<String>::new());
        desk.engine.close().await;
    });
}

#[test]
fn a_group_that_was_not_written_does_not_count_as_waiting() {
    let small = Options { unflushed_bytes_max: 1 << 20, ..options() };
    with_desk(small, |desk| async move {
        let partition = |workspace| desk.engine.partition_of("till", workspace).unwrap();
        let mut other = desk.shop;
        for number in 0.. {
            if partition(other) != partition(desk.shop) {
                break;
            }
            other = workspace(&desk.engine, &format!("other {number}")).await;
        }
        desk.flushed().await;
        desk.faults.fail_nth(Operation::Append, 1, Fault::Busy);
        let refused = desk.submit(&customer(&"x".repeat(900_000))).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
        // From here on nothing is flushed: what waits is what these commands made.
        let _hold = desk.faults.hold(Operation::Write);
        for _ in 0..2 {
            let made = desk.engine.submit("till", other, &customer(&"y".repeat(300_000))).await;
            assert!(made.is_ok(), "{made:?}");
        }
    });
}

/// On real threads: in a simulation the caller does not run before the partition's task has ended its turn.
#[test]
fn a_caller_that_was_answered_finds_the_room_of_its_last_command_free() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let env = Env::real();
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let engine = open_with(&env, log, store, Options { queue_bytes_max: 25_000, ..options() }).await;
        let shop = workspace(&engine, "shop").await;
        for _ in 0..3_000 {
            engine.submit("till", shop, &customer(&"x".repeat(20_000))).await.unwrap();
        }
        engine.close().await;
    });
}
