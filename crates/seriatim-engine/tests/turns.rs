//! A command that has to read something first has another turn, and nothing of the earlier one remains.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use serde_json::json;
use seriatim_engine::{Change, Event, EventChange, Request, Value};
use seriatim_env::simulate;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, ReadLimit, Store};
use seriatim_types::Partition;
use support::{customer, invoice, open_with, options, workspace};

#[test]
fn ids_numbers_and_references_of_an_earlier_turn_are_replaced() {
    simulate(1, |env| async move {
        let log = Log::new(MemoryLog::new());
        let engine = open_with(&env, log.clone(), Store::new(MemoryStore::new()), options()).await;
        let shop = workspace(&engine, "shop").await;
        let known = engine.submit("till", shop, &customer("A")).await.unwrap().id(1).unwrap();
        let other = engine.submit("till", shop, &customer("B")).await.unwrap().id(1).unwrap();
        // Everything is in the store alone, and the command finds out about it one by one: first the count, which the other
        // command reads too, then the customers. In its second turn it has drawn what the other one takes then.
        env.sleep(Duration::from_secs(1)).await;
        let mut slow = Request::new("Bill").args(json!({"customers": [known.get(), other.get()]}));
        slow.changes = vec![
            Change::create("Customer", 1).field("name", "C"),
            Change::create("Invoice", 2).field("customer", 1).field("corrects", 4).field("total", "1.00"),
            Change::create("InvoiceLine", 3).parent(2).field("text", "tea"),
            Change::create("Invoice", 4).field("customer", known.get()),
        ];
        let (slow_engine, quick_engine) = (engine.clone(), engine.clone());
        let slow = env.spawn(async move { slow_engine.submit("till", shop, &slow).await.unwrap() });
        let quick =
            env.spawn(async move { quick_engine.submit("till", shop, &invoice("2.00")).await.unwrap() });
        let (slow, quick) = (slow.await.unwrap(), quick.await.unwrap());
        assert!(slow.partition_offset > quick.partition_offset, "the slow one has had another turn");
        assert_eq!((quick.number(1, "number"), slow.number(2, "number")), (Some(1), Some(2)));
        assert_eq!(slow.number(4, "number"), Some(3));

        let application = engine.schema("till").unwrap().id();
        let partition = Partition { application, id: slow.partition };
        let read = log.read(partition, slow.partition_offset, ReadLimit::entries(1)).await.unwrap();
        let (_, entry) = read.iter().next().unwrap();
        let event = Event::decode(entry.body()).unwrap();
        let rows: Vec<_> = event.changes.iter().map(EventChange::row).collect();
        // Four of the request, and two for each customer, which the command adds anew in each turn.
        assert_eq!(rows.len(), 8);
        let id = |raw: u16| slow.id(raw).unwrap();
        assert_eq!([rows[0].id, rows[1].id, rows[2].id, rows[3].id], [1, 2, 3, 4].map(id));
        assert_eq!(rows[2].parent, Some(id(2)));
        let references = |row: usize| -> Vec<_> {
            let fields = rows[row].fields.iter().map(|(_, value)| value);
            fields
                .filter_map(|value| if let Value::Reference(id) = value { Some(*id) } else { None })
                .collect()
        };
        assert_eq!((references(1), references(3)), (vec![id(4), id(1)], vec![known]));
        let integers = rows[1].fields.iter().filter(|(_, value)| matches!(value, Value::Integer(_)));
        assert_eq!(integers.count(), 1, "one number for one field");
        engine.close().await;
    });
}
