//! The demo application, end to end, in memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde_json::json;
use seriatim_engine::definition::shop;
use seriatim_engine::{App, Change, Engine, Found, Options, Request, Value};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::{ErrorKind, PartitionOffset, RecordId, WorkspaceId, WorkspaceOffset};

async fn open(env: &Env, log: &MemoryLog, store: &MemoryStore) -> Engine {
    let (log, store) = (Log::new(log.reopen()), Store::new(store.reopen()));
    let engine = Engine::open(env.clone(), log, store, [App::new(shop())], Options::default()).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    engine
}

fn with_shop<F: Future<Output = ()>>(scenario: impl FnOnce(Env, Engine, WorkspaceId) -> F) {
    simulate(1, |env| async move {
        let engine = open(&env, &MemoryLog::new(), &MemoryStore::new()).await;
        let (store, created) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        assert!(created);
        scenario(env, engine.clone(), store.id).await;
        engine.close().await;
    });
}

#[test]
fn an_invoice_gets_its_ids_and_its_number() {
    with_shop(|_, engine, store| async move {
        assert_eq!(store, WorkspaceId::FIRST);
        let customer = Request::changes([Change::create("Customer", 1).field("name", "Ada")]);
        let customer = engine.submit("shop", store, &customer).await.unwrap();
        assert_eq!(customer.id(1).unwrap().get(), 322_685_000_131_072);
        let invoice = Request::changes([
            Change::create("Invoice", 1)
                .field("customer", customer.id(1).unwrap().get())
                .field("total", "99.50"),
            Change::create("InvoiceLine", 2).parent(1).field("text", "tea").field("amount", "99.50"),
        ]);
        let answer = engine.submit("shop", store, &invoice).await.unwrap();
        assert_eq!(answer.id(1).unwrap().get(), 322_680_000_131_072);
        assert_eq!(answer.id(2).unwrap().get(), 322_680_000_131_073);
        assert_eq!(answer.number(1, "number"), Some(1));
        assert_eq!((answer.partition_offset.get(), answer.workspace_offset.get()), (2, 2));
        let update = Request::changes([Change::update(answer.id(1).unwrap()).field("total", "100.00")]);
        engine.submit("shop", store, &update).await.unwrap();
        let Found::Record(record) =
            engine.record("shop", store, answer.id(1).unwrap()).await.unwrap().unwrap()
        else {
            panic!("a W document is a record");
        };
        let total =
            engine.schema("shop").unwrap().document_by_name("Invoice").unwrap().field("total").unwrap().id;
        assert_eq!(record.field(total).map(Value::to_json), Some(json!("100.00")));
        let events = engine.events("shop", store, WorkspaceOffset::FIRST, 10).await.unwrap();
        assert_eq!(events.len(), 3);
        let lines = engine.records("shop", store, "InvoiceLine", None, 10).await.unwrap();
        assert_eq!(lines[0].parent, answer.id(1));
    });
}

#[test]
fn a_refused_command_takes_no_number_and_no_offset() {
    with_shop(|_, engine, store| async move {
        let bad = Request::changes([Change::create("Invoice", 1).field("total", "tea")]);
        let error = engine.submit("shop", store, &bad).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let good = Request::changes([Change::create("Invoice", 1)]);
        let answer = engine.submit("shop", store, &good).await.unwrap();
        assert_eq!((answer.number(1, "number"), answer.workspace_offset.get()), (Some(1), 1));
    });
}

#[test]
fn everything_comes_back_from_the_log_alone() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let engine = open(&env, &log, &store).await;
        let (shop, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        let invoice =
            Request::changes([Change::create("Invoice", 1).field("total", "1")]).idempotency_key("a");
        let first = engine.submit("shop", shop.id, &invoice).await.unwrap();
        engine.close().await;
        let engine = open(&env, &log, &MemoryStore::new()).await;
        let (again, created) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        assert_eq!((again.id, created), (shop.id, false));
        let repeated = engine.submit("shop", shop.id, &invoice).await.unwrap();
        assert!(repeated.repeated);
        assert_eq!((repeated.ids, repeated.numbers), (first.ids, first.numbers));
        let next = Request::changes([Change::create("Invoice", 1)]);
        let next = engine.submit("shop", shop.id, &next).await.unwrap();
        assert_eq!(
            (next.number(1, "number"), next.partition_offset),
            (Some(2), PartitionOffset::new(2).unwrap())
        );
        assert_eq!(next.id(1), Some(RecordId::new(322_680_000_131_073)));
        let other = engine.create_workspace("shop", "store", None).await.unwrap().0;
        assert!(other.id > shop.id);
        engine.close().await;
    });
}
