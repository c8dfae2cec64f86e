//! Commands while the queue is full, storage fails, a flush or a recovery is in progress, or many clients are at work.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod desk;
mod support;

use std::sync::Arc;
use std::time::Duration;

use desk::{Desk, is_same, with_desk};
use serde_json::json;
use seriatim_engine::{Change, Engine, Options, Request, SubmitError, Value};
use seriatim_env::{Env, Task, simulate};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation};
use seriatim_types::{ErrorKind, Partition, WorkspaceId, WorkspaceOffset};
use support::{customer, invoice, open_with, options, till, workspace};

#[test]
fn a_full_queue_is_busy() {
    simulate(1, |env| async move {
        let desk = Desk::open(env, Options { queue_max: 3, ..options() }).await;
        let hold = desk.faults.hold(Operation::Append);
        let first = desk.spawn(desk.shop, Request::new("Ping"));
        hold.reached(1).await;
        // One group's worth is taken off the queue when the append begins; these stay in it.
        let waiting: Vec<_> = (0..3).map(|_| desk.spawn(desk.shop, Request::new("Ping"))).collect();
        desk.step_aside().await;
        let error = desk.submit(&Request::new("Ping")).await.unwrap_err();
        assert_eq!((error.kind(), error), (ErrorKind::Busy, SubmitError::QueueFull(3)));
        hold.release();
        for task in waiting.into_iter().chain([first]) {
            task.await.unwrap().unwrap();
        }
        desk.submit(&Request::new("Ping")).await.unwrap();
        assert_eq!(desk.events().await, 5);
        desk.engine.close().await;
    });
}

#[test]
fn commands_that_wait_are_bounded_in_bytes_until_they_are_answered() {
    simulate(1, |env| async move {
        let desk = Desk::open(env, Options { queue_bytes_max: 100_000, ..options() }).await;
        let note = || Request::new("Note").args(json!({"text": "x".repeat(60_000)}));
        let hold = desk.faults.hold(Operation::Append);
        let first = desk.spawn(desk.shop, note());
        hold.reached(1).await;
        // It is on its way, and not answered.
        let error = desk.submit(&note()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(matches!(error, SubmitError::QueueBytesFull(60_000..)), "{error}");
        let small = desk.spawn(desk.shop, Request::new("Ping"));
        desk.step_aside().await;
        assert!(!small.is_finished(), "there is room for it");
        hold.release();
        first.await.unwrap().unwrap();
        small.await.unwrap().unwrap();
        desk.submit(&note()).await.unwrap();
        assert_eq!(desk.events().await, 3);
        desk.engine.close().await;
    });
}

#[test]
fn a_backlog_is_busy_after_a_while_and_ends_when_the_store_works_again() {
    simulate(1, |env| async move {
        let begin_wait = Duration::from_millis(200);
        let desk =
            Desk::open(env, Options { unflushed_max: 40, flush_at: 10, begin_wait, ..options() }).await;
        desk.faults.fail(Operation::Write, Fault::Refuse);
        let mut done = 0;
        let (error, waited) = loop {
            let start = desk.env.instant();
            match desk.submit(&invoice("1")).await {
                Ok(_) => done += 1,
                Err(error) => break (error, desk.env.instant() - start),
            }
            assert!(done < 100, "memory is bounded");
        };
        assert!(done > 3);
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(error.to_string().starts_with("server is busy: "), "{error}");
        assert!((begin_wait..begin_wait * 2).contains(&waited), "{waited:?}");
        // What is committed can be read all the while.
        assert_eq!(desk.events().await, done);
        desk.faults.heal();
        desk.env.sleep(Duration::from_secs(1)).await;
        assert_eq!(
            desk.submit(&invoice("1")).await.unwrap().number(1, "number"),
            i64::try_from(done + 1).ok()
        );
        let desk = desk.reopen().await;
        assert_eq!(desk.count().await, json!(done + 1));
        desk.engine.close().await;
    });
}

#[test]
fn commands_that_were_being_loaded_do_not_wait_for_a_backlog_to_end() {
    for seed in 0..20 {
        simulate(seed, |env| async move {
            let begin_wait = Duration::from_millis(200);
            let desk =
                Desk::open(env, Options { unflushed_max: 40, flush_at: 10, begin_wait, ..options() }).await;
            let mut cold = Vec::new();
            for name in 0..16 {
                cold.push(workspace(&desk.engine, &format!("cold {name}")).await);
            }
            // In a new life nothing of them is in memory.
            let desk =
                desk.reopen_with(Options { unflushed_max: 40, flush_at: 10, begin_wait, ..options() }).await;
            desk.faults.fail(Operation::Write, Fault::Refuse);
            desk.faults.delay(Operation::GetMany | Operation::Append, Duration::from_millis(5));
            let tasks: Vec<_> = (0..200).map(|n| desk.spawn(cold[n % 16], invoice("1"))).collect();
            let (mut done, mut busy) = (0, 0);
            let all = async {
                for task in tasks {
                    match task.await.unwrap() {
                        Ok(_) => done += 1,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                            busy += 1;
                        }
                    }
                }
            };
            desk.env.timeout(Duration::from_secs(10), all).await.expect("everybody is answered");
            assert!(done > 0 && busy > 0, "{done} done, {busy} busy");
        });
    }
}

#[test]
fn a_log_in_doubt_is_settled_and_every_caller_is_answered() {
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        simulate(1, |env| async move {
            let desk = Desk::open(env, options()).await;
            desk.faults.fail_nth(Operation::Append, 1, fault);
            let first = desk.submit(&invoice("1")).await;
            match fault {
                Fault::LoseReply => assert_eq!(first.unwrap().number(1, "number"), Some(1)),
                _ => assert_eq!(first.unwrap_err().kind(), ErrorKind::Unavailable),
            }
            let next = desk.submit(&invoice("2")).await.unwrap();
            assert_eq!(next.number(1, "number"), Some(if fault == Fault::LoseReply { 2 } else { 1 }));
            // Nor can it be asked what became of it: those who wait behind are told, too.
            desk.faults.fail_nth(Operation::Append, 1, fault);
            desk.faults.fail(Operation::Take, Fault::Refuse);
            let doubtful = desk.spawn(desk.shop, invoice("3").idempotency_key("3"));
            desk.step_aside().await;
            let behind = desk.spawn(desk.shop, invoice("4"));
            let both = async { (doubtful.await.unwrap().unwrap_err(), behind.await.unwrap().unwrap_err()) };
            let both = desk.env.timeout(Duration::from_secs(10), both).await;
            let (doubtful, behind) = both.expect("everybody is answered");
            assert_eq!(doubtful.kind(), ErrorKind::InDoubt, "{doubtful}");
            assert_eq!(behind.kind(), ErrorKind::Unavailable, "{behind}");
            desk.faults.heal();
            desk.env.sleep(Duration::from_secs(1)).await;
            let again = desk.submit(&invoice("3").idempotency_key("3")).await.unwrap();
            assert_eq!(again.repeated, fault == Fault::LoseReply);
            let last = desk.submit(&invoice("5")).await.unwrap().number(1, "number").unwrap();
            assert_eq!(last, if fault == Fault::LoseReply { 4 } else { 3 });
            assert_eq!(desk.count().await, json!(last));
            desk.engine.close().await;
        });
    }
}

#[test]
fn a_command_is_executed_although_its_caller_no_longer_waits() {
    with_desk(|desk| async move {
        let hold = desk.faults.hold(Operation::Append);
        let tasks: Vec<_> = (0..3).map(|_| desk.spawn(desk.shop, invoice("1"))).collect();
        hold.reached(1).await;
        desk.step_aside().await;
        tasks.iter().for_each(Task::cancel);
        drop(tasks);
        hold.release();
        desk.env.sleep(Duration::from_millis(1)).await;
        assert_eq!(desk.events().await, 3);
        assert_eq!(desk.submit(&invoice("2")).await.unwrap().number(1, "number"), Some(4));
        desk.engine.close().await;
    });
}

#[test]
fn a_command_after_the_end_is_refused_as_closed() {
    with_desk(|desk| async move {
        let hold = desk.faults.hold(Operation::Append);
        let first = desk.spawn(desk.shop, invoice("1"));
        hold.reached(1).await;
        let engine = desk.engine.clone();
        let closing = desk.env.spawn(async move { engine.close().await });
        desk.step_aside().await;
        let late = desk.spawn(desk.shop, invoice("2"));
        desk.step_aside().await;
        hold.release();
        first.await.unwrap().unwrap();
        assert_eq!(late.await.unwrap(), Err(SubmitError::Closed));
        closing.await.unwrap();
        assert_eq!(desk.submit(&invoice("3")).await, Err(SubmitError::Closed));
    });
}

/// Puts a value where the next invoice goes.
async fn sabotage_next_invoice(desk: &Desk, next: u64) {
    let schema = desk.engine.schema("till").unwrap();
    let partition = desk.engine.partition_of("till", desk.shop).unwrap();
    let storage = [&schema.id().get().to_be_bytes()[..], &partition.get().to_be_bytes()].concat();
    let kind = schema.document_by_name("Invoice").unwrap().id.get().to_be_bytes();
    let clustering = [&b"w"[..], &desk.shop.get().to_be_bytes(), &kind, &next.to_be_bytes()].concat();
    let key = seriatim_storage::Key::new(&storage, &clustering);
    Store::new(desk.store.clone()).put(key, &[1]).await.unwrap();
}

#[test]
fn what_was_read_before_a_flush_is_read_again_when_a_group_is_staged_a_second_time() {
    with_desk(|desk| async move {
        let next = desk.submit(&invoice("1")).await.unwrap().id(1).unwrap().get() + 1;
        sabotage_next_invoice(&desk, next).await;
        let once = Request::new("Ping").idempotency_key("once");
        let load = desk.faults.hold(Operation::GetMany);
        let first = desk.spawn(desk.shop, once.clone());
        load.reached(1).await;
        // Both come too late for the first group, and are loaded while it is on its way: the store has no such key.
        let second = desk.spawn(desk.shop, once);
        let guilty = desk.spawn(desk.shop, invoice("1"));
        desk.step_aside().await;
        let append = desk.faults.hold_answers(Operation::Append);
        load.release();
        append.reached(1).await;
        desk.step_aside().await;
        // The first group leaves the overlay while the store is asked for the second one's new keys.
        let ask = desk.faults.hold(Operation::GetMany);
        desk.faults.reset_counts();
        append.release();
        let first = first.await.unwrap().unwrap();
        ask.reached(1).await;
        desk.env.sleep(Duration::from_secs(1)).await;
        assert!(desk.faults.count(Operation::Write) > 0);
        ask.release();
        assert!(matches!(guilty.await.unwrap(), Err(SubmitError::Taken { .. })));
        is_same(&first, &second.await.unwrap().unwrap());
        assert_eq!(desk.events().await, 2);
        desk.engine.close().await;
    });
}

#[test]
fn a_recovery_continues_when_a_flush_ends_before_it_has_read_a_value() {
    for seed in 0..3 {
        simulate(seed, |env| async move {
            let desk = Desk::open(env, options()).await;
            // A life that flushes nothing.
            desk.faults.fail(Operation::Write, Fault::Refuse);
            for _ in 0..11 {
                let changes = (1..=100).map(|raw| Change::create("Invoice", raw));
                desk.submit(&Request::changes(changes)).await.unwrap();
            }
            for _ in 0..1_100 {
                desk.submit(&invoice("1")).await.unwrap();
            }
            desk.engine.close().await;
            let (log, store) = (desk.log.reopen(), desk.store.reopen());
            let faults = Faults::new(&desk.env);
            faults.delay(Operation::GetMany, Duration::from_millis(30));
            let log = Log::new(FaultyLog::new(Arc::new(log), &faults));
            let store = Store::new(FaultyStore::new(Arc::new(store), &faults));
            let often = Options { flush_interval: Duration::from_millis(1), ..options() };
            let engine = open_with(&desk.env, log, store, often).await;
            assert!(faults.count(Operation::Write) > 2, "it was flushed on the way");
            assert_eq!(check_all(&engine, &[desk.shop]).await, 1_111);
            engine.close().await;
        });
    }
}

#[test]
fn a_record_does_not_go_back_while_a_recovery_applies_its_changes_again() {
    simulate(1, |env| async move {
        let desk = Desk::open(env, options()).await;
        let ada = desk.submit(&customer("0")).await.unwrap().id(1).unwrap();
        let partition = Partition {
            application: desk.engine.schema("till").unwrap().id(),
            id: desk.engine.partition_of("till", desk.shop).unwrap(),
        };
        let storage =
            [&partition.application.get().to_be_bytes()[..], &partition.id.get().to_be_bytes()].concat();
        for n in 1..5_000 {
            let rename = Request::changes([Change::update(ada).field("name", n.to_string())]);
            desk.submit(&rename).await.unwrap();
        }
        desk.engine.close().await;
        // The checkpoint is lost, the values are not: everything is applied again, one page of the log at a time.
        let mut batch = seriatim_storage::Batch::new();
        batch.remove(seriatim_storage::Key::new(&storage, b"k"));
        let store = Store::new(desk.store.reopen());
        store.write(batch, seriatim_storage::Durability::Synced).await.unwrap();
        let faults = Faults::new(&desk.env);
        let log = Log::new(FaultyLog::new(Arc::new(desk.log.reopen()), &faults));
        // The registry is not part of it.
        faults.delay(Operation::Read, Duration::from_millis(100));
        // Reads do not wait for the recovery, so that there are many of them.
        let hasty = Options { begin_wait: Duration::from_millis(1), ..options() };
        let engine = Engine::open(desk.env.clone(), log, store, [till()], hasty).await.unwrap();
        let Desk { env, log, store, faults: _, shop, .. } = desk;
        let desk = Desk { env, log, store, faults, engine, shop };
        let mut looks = 0;
        while !desk.engine.wait_ready(Duration::from_millis(5)).await {
            // Not while it is at work: an earlier name would be seen.
            match desk.engine.record("till", desk.shop, ada).await {
                Ok(_) => assert_eq!(desk.record(ada).await, [("name".to_owned(), json!("4999"))]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            }
            looks += 1;
        }
        assert!(looks > 1, "the recovery was seen at work");
        assert_eq!(desk.record(ada).await, [("name".to_owned(), json!("4999"))]);
        assert_eq!(desk.count().await, json!(5_000));
        desk.engine.close().await;
    });
}

#[test]
fn many_clients_in_any_order_leave_one_dense_log_that_counts_once() {
    let mut groups = 0;
    for seed in 0..60 {
        groups += simulate(seed, |env| async move {
            let small = Options {
                unflushed_max: 60,
                flush_at: 7,
                flush_interval: Duration::from_millis(5),
                ..options()
            };
            let desk = Desk::open(env, Options { begin_wait: Duration::from_secs(10), ..small }).await;
            let mut shops = vec![desk.shop];
            for name in ["b", "c", "d"] {
                shops.push(workspace(&desk.engine, name).await);
            }
            desk.faults
                .delay(Operation::Append | Operation::Write | Operation::GetMany, Duration::from_millis(3));
            desk.faults.chance(Operation::Write, Fault::LoseReply, 0.1);
            desk.faults.chance(Operation::Append, Fault::LoseReply, 0.05);
            desk.faults.chance(Operation::Append, Fault::LoseRequest, 0.05);
            desk.faults.reset_counts();
            let clients: Vec<_> = (0..8u64)
                .map(|client| {
                    desk.env.spawn(client_of(desk.engine.clone(), desk.env.clone(), shops.clone(), client))
                })
                .collect();
            let mut acknowledged = 0;
            for client in clients {
                acknowledged += client.await.unwrap();
            }
            desk.faults.heal();
            let groups = desk.faults.count(Operation::Append);
            let counted = check_all(&desk.engine, &shops).await;
            assert_eq!(counted, acknowledged, "every command is repeated until it is acknowledged");
            let desk = Desk { engine: desk.engine.clone(), ..desk };
            let desk = desk.reopen().await;
            assert_eq!(check_all(&desk.engine, &shops).await, acknowledged);
            desk.engine.close().await;
            groups
        });
    }
    println!("60 orders, {groups} groups");
}

/// Ten commands, each repeated until it is acknowledged.
async fn client_of(engine: Engine, env: Env, shops: Vec<WorkspaceId>, client: u64) -> u64 {
    for n in 0..10u64 {
        let shop = shops[usize::try_from(env.random_below(4)).unwrap()];
        let request = match env.random_below(3) {
            0 => Request::changes([Change::create("Invoice", 1), Change::create("Invoice", 2)]),
            1 => Request::new("Bill").args(json!({"customers": []})),
            _ => customer("somebody"),
        };
        let request = request.idempotency_key(format!("{client} {n}"));
        loop {
            match engine.submit("till", shop, &request).await {
                Ok(_) => break,
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::InDoubt | ErrorKind::Busy),
                    "{error}"
                ),
            }
        }
    }
    10
}

/// Workspace offsets and invoice numbers are dense, and the view has counted each event once; returns how many there are.
async fn check_all(engine: &Engine, shops: &[WorkspaceId]) -> u64 {
    let mut all = 0;
    for shop in shops {
        let events = engine.events("till", *shop, WorkspaceOffset::FIRST, 10_000).await.unwrap();
        let mut number = 0;
        let schema = engine.schema("till").unwrap().document_by_name("Invoice").unwrap();
        for (event, offset) in events.iter().zip(1..) {
            assert_eq!(event.place.workspace_offset.get(), offset);
            for row in event.event.created().filter(|row| row.document == schema.id) {
                number += 1;
                let field = schema.field("number").unwrap().id;
                assert!(
                    row.fields.contains(&(field, Value::Integer(number))),
                    "{row:?} has to have number {number}"
                );
            }
        }
        let records = engine.records("till", *shop, "Invoice", None, 10_000).await.unwrap();
        assert_eq!(records.len() as i64, number);
        let rows = engine.view("till", *shop, "count", &[], None, 10).await.unwrap();
        let counted = rows.first().map_or(0, |(_, row)| row.as_u64().unwrap());
        assert_eq!(counted, events.len() as u64);
        all += counted;
    }
    all
}
