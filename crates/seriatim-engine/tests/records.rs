//! Records of a workspace: all C records in one list, ids across the ranges of a sequence, one sequence for all.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use seriatim_engine::definition::{Application, shop};
use seriatim_engine::doctor::Treatment;
use seriatim_engine::{App, Change, Engine, Found, Options, Request, Unfence};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Faults, FaultyStore, Operations};
use seriatim_types::{RecordId, WorkspaceId};

/// Two C documents, a child record of one, a singleton, an O document and a W document.
fn books(records: &str) -> App {
    let text = format!(
        r#"
        name = "books"
        partitions = 1
        records = "{records}"
        [documents.Author]
        kind = "C"
        fields.name = {{ type = "text" }}
        [documents.Alias]
        parent = "Author"
        fields.name = {{ type = "text" }}
        [documents.Shelf]
        kind = "C"
        [documents.House]
        kind = "C"
        singleton = true
        [documents.Order]
        kind = "O"
        [documents.Loan]
        kind = "W"
        [commands.PlaceOrder]
        argument = "Order"
        [workspaces.library]
        "#
    );
    App::new(Application::from_toml(&text).unwrap())
}

async fn open(env: &Env, log: &MemoryLog, store: Store, app: App) -> Engine {
    let log = Log::new(log.reopen());
    let engine = Engine::open(env.clone(), log, store, [app], Options::default()).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    engine
}

fn scratch() -> Store {
    Store::new(MemoryStore::new())
}

async fn create(engine: &Engine, workspace: WorkspaceId, document: &str) -> RecordId {
    let request = Request::changes([Change::create(document, 1)]);
    engine.submit("books", workspace, &request).await.unwrap().id(1).unwrap()
}

/// Ids and types of all C records, read in pages of this size.
async fn c_records(engine: &Engine, workspace: WorkspaceId, page: usize) -> Vec<(u64, Box<str>)> {
    let mut found: Vec<(u64, Box<str>)> = Vec::new();
    loop {
        let after = found.last().map(|(id, _)| RecordId::new(*id));
        let records = engine.c_records("books", workspace, after, page).await.unwrap();
        assert!(records.len() <= page);
        if records.is_empty() {
            return found;
        }
        let schema = engine.schema("books").unwrap();
        let name = |document| schema.document(document).unwrap().name.clone();
        found.extend(records.iter().map(|record| (record.id.get(), name(record.document))));
    }
}

#[test]
fn all_c_records_are_one_list_in_the_order_of_their_ids() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let mut engine = open(&env, &log, Store::new(store.reopen()), books("split")).await;
        let library = engine.create_workspace("books", "library", None).await.unwrap().0.id;
        let other = engine.create_workspace("books", "library", None).await.unwrap().0.id;
        assert_eq!(c_records(&engine, library, 10).await, []);
        let mut expected: Vec<(u64, Box<str>)> = Vec::new();
        for round in 0..40 {
            let request = Request::changes([
                Change::create("Author", 1).field("name", "Ada"),
                Change::create("Alias", 2).parent(1).field("name", "A."),
            ]);
            let author = engine.submit("books", library, &request).await.unwrap();
            expected.push((author.id(1).unwrap().get(), "Author".into()));
            expected.push((author.id(2).unwrap().get(), "Alias".into()));
            if round % 3 == 0 {
                expected.push((create(&engine, library, "Shelf").await.get(), "Shelf".into()));
            }
            create(&engine, library, "Loan").await;
            create(&engine, other, "Author").await;
        }
        expected.insert(0, (create(&engine, library, "House").await.get(), "House".into()));
        assert_eq!((expected[0].0, expected[1].0), (65_536, 322_685_000_131_072));
        for life in 0..2 {
            for page in [1, 7, 94, 1_000] {
                assert_eq!(c_records(&engine, library, page).await, expected, "life {life}, pages of {page}");
                for document in ["Author", "Alias", "Shelf", "House"] {
                    let of_type = expected.iter().filter(|(_, name)| &**name == document);
                    let of_type: Vec<u64> = of_type.map(|(id, _)| *id).collect();
                    assert_eq!(
                        listed(&engine, "books", library, document, page).await,
                        of_type,
                        "{document}"
                    );
                }
                assert_eq!(listed(&engine, "books", library, "Loan", page).await.len(), 40);
                assert_eq!(listed(&engine, "books", library, "Order", page).await, [0; 0]);
            }
            engine.close().await;
            let fresh = Store::new(MemoryStore::new());
            engine = open(&env, &log, fresh, books("split")).await;
        }
        let unknown = engine.c_records("books", WorkspaceId::new(7), None, 10).await;
        assert_eq!(unknown.unwrap_err().kind(), seriatim_types::ErrorKind::NotFound);
        engine.close().await;
    });
}

#[test]
fn who_reads_c_records_page_by_page_misses_none_that_is_created_meanwhile() {
    for seed in 0..20 {
        simulate(seed, |env| async move {
            let faults = Faults::new(&env);
            let store = FaultyStore::new(Arc::new(MemoryStore::new()), &faults);
            let engine = open(&env, &MemoryLog::new(), Store::new(store), books("split")).await;
            let library = engine.create_workspace("books", "library", None).await.unwrap().0.id;
            faults.delay(Operations::ALL, Duration::from_millis(3));
            let done = Arc::new(AtomicBool::new(false));
            let writer = env.spawn({
                let (engine, done) = (engine.clone(), done.clone());
                async move {
                    let mut made = Vec::new();
                    for round in 0..60 {
                        let document = if round % 2 == 0 { "Author" } else { "Shelf" };
                        made.push(create(&engine, library, document).await);
                    }
                    done.store(true, Ordering::SeqCst);
                    made
                }
            });
            let page = if seed % 2 == 0 { 1_000 } else { 7 };
            let mut seen: Vec<RecordId> = Vec::new();
            loop {
                let last = done.load(Ordering::SeqCst);
                let found = engine.c_records("books", library, seen.last().copied(), page).await.unwrap();
                if last && found.is_empty() {
                    break;
                }
                seen.extend(found.iter().map(|record| record.id));
            }
            assert_eq!(seen, writer.await.unwrap());
            faults.heal();
            engine.close().await;
        });
    }
}

/// Invoices of the demo, made one by one.
async fn invoices(engine: &Engine, workspace: WorkspaceId, count: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let request = Request::changes([Change::create("Invoice", 1).field("total", "1")]);
        ids.push(engine.submit("shop", workspace, &request).await.unwrap().id(1).unwrap().get());
    }
    ids
}

async fn listed(engine: &Engine, app: &str, workspace: WorkspaceId, document: &str, page: usize) -> Vec<u64> {
    let mut ids: Vec<u64> = Vec::new();
    loop {
        let after = ids.last().map(|id| RecordId::new(*id));
        let found = engine.records(app, workspace, document, after, page).await.unwrap();
        if found.is_empty() {
            return ids;
        }
        ids.extend(found.iter().map(|record| record.id.get()));
    }
}

#[test]
fn w_documents_are_listed_and_found_across_the_step_of_their_range() {
    const LAST_OF_FIRST: u64 = 322_685_000_131_071;
    const FIRST_OF_SECOND: u64 = 322_690_000_131_072;
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let reopened = || Store::new(store.reopen());
        let engine = open(&env, &log, reopened(), App::new(shop())).await;
        let corner = engine.create_workspace("shop", "store", Some("corner")).await.unwrap().0.id;
        let mut expected = invoices(&engine, corner, 2).await;
        let customer = Request::changes([Change::create("Customer", 1).field("name", "Ada")]);
        let mut customers = Vec::new();
        customers.push(engine.submit("shop", corner, &customer).await.unwrap().id(1).unwrap().get());
        engine.close().await;
        // A restored copy continues after the highest id that was seen: three are left before the step.
        Engine::fence(env.clone(), Log::new(log.reopen()), reopened()).await.unwrap();
        let mut engine = open(&env, &log, reopened(), App::new(shop())).await;
        let highest = vec![(format!("shop/{corner}/sys.RecordId"), LAST_OF_FIRST - 3)];
        engine.unfence(&Unfence::Highest(highest)).await.unwrap();
        engine.unfence(&Unfence::Complete).await.unwrap();
        let step = invoices(&engine, corner, 6).await;
        let numbers = |first: u64| first..first + 3;
        let both: Vec<u64> = numbers(LAST_OF_FIRST - 2).chain(numbers(FIRST_OF_SECOND)).collect();
        assert_eq!(step, both);
        expected.extend(step);
        customers.push(engine.submit("shop", corner, &customer).await.unwrap().id(1).unwrap().get());
        assert_eq!(customers, [LAST_OF_FIRST + 1, LAST_OF_FIRST + 2], "C ids lie between");
        for life in 0..2 {
            for page in [1, 4, 100] {
                assert_eq!(listed(&engine, "shop", corner, "Invoice", page).await, expected, "life {life}");
                assert_eq!(listed(&engine, "shop", corner, "Customer", page).await, customers, "life {life}");
            }
            for (id, document) in
                expected.iter().map(|id| (*id, "Invoice")).chain(customers.iter().map(|id| (*id, "Customer")))
            {
                let found = engine.record("shop", corner, RecordId::new(id)).await.unwrap().unwrap();
                let Found::Record(record) = found else { panic!("{id} is a record") };
                let schema = engine.schema("shop").unwrap();
                assert_eq!(schema.document(record.document).unwrap().name.as_ref(), document);
            }
            for absent in [LAST_OF_FIRST - 3, LAST_OF_FIRST + 3, FIRST_OF_SECOND - 1, FIRST_OF_SECOND + 3] {
                assert_eq!(engine.record("shop", corner, RecordId::new(absent)).await.unwrap(), None);
            }
            let report = engine.doctor(&scratch(), Treatment::Check, &mut |_| {}).await.unwrap();
            assert!(report.is_clean(), "{report:?}");
            engine.close().await;
            let fresh = Store::new(MemoryStore::new());
            engine = open(&env, &log, fresh, App::new(shop())).await;
        }
        assert_eq!(invoices(&engine, corner, 1).await, [FIRST_OF_SECOND + 3]);
        engine.close().await;
    });
}

#[test]
fn one_sequence_numbers_the_records_of_all_kinds_where_the_definition_says_single() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let mut engine = open(&env, &log, Store::new(store.reopen()), books("single")).await;
        let library = engine.create_workspace("books", "library", None).await.unwrap().0.id;
        let request = Request::changes([
            Change::create("Author", 1).field("name", "Ada"),
            Change::create("Loan", 2),
            Change::create("Alias", 3).parent(1),
            Change::create("House", 4),
        ]);
        let answer = engine.submit("books", library, &request).await.unwrap();
        let ids = |answer: &seriatim_engine::Answer, raw: std::ops::RangeInclusive<u16>| {
            raw.map(|raw| answer.id(raw).unwrap().get()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&answer, 1..=4), [200_001, 200_002, 200_003, 65_536]);
        let order = Request::new("PlaceOrder").args(json!({"id": 1, "fields": {}, "children": []}));
        let order = engine.submit("books", library, &order).await.unwrap().id(1).unwrap();
        assert_eq!(order.get(), 200_004, "an O document draws from the same sequence");
        assert_eq!(create(&engine, library, "Shelf").await.get(), 200_005);
        for life in 0..2_u64 {
            let c: Vec<u64> = c_records(&engine, library, 2).await.into_iter().map(|(id, _)| id).collect();
            let shelves = [200_005, 200_006].into_iter().take(1 + usize::from(life > 0));
            assert_eq!(c, [65_536, 200_001, 200_003].into_iter().chain(shelves).collect::<Vec<_>>());
            let loans = engine.records("books", library, "Loan", None, 10).await.unwrap();
            assert_eq!(loans.iter().map(|record| record.id.get()).collect::<Vec<_>>(), [200_002]);
            let found = engine.record("books", library, order).await.unwrap().unwrap();
            assert!(matches!(found, Found::InEvent { .. }), "{found:?}");
            let sequences = engine.sequences("books", library).await.unwrap();
            let names: Vec<(&str, Option<u64>)> =
                sequences.iter().map(|one| (&*one.name, one.next.map(|next| next.get()))).collect();
            assert_eq!(names, [("sys.RecordId", Some(200_006 + life))]);
            if life == 0 {
                assert_eq!(create(&engine, library, "Shelf").await.get(), 200_006);
            }
            let report = engine.doctor(&scratch(), Treatment::Check, &mut |_| {}).await.unwrap();
            assert!(report.is_clean(), "{report:?}");
            engine.close().await;
            engine = open(&env, &log, Store::new(MemoryStore::new()), books("single")).await;
        }
        engine.close().await;
    });
}
