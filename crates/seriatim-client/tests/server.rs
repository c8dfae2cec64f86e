//! The client and a real server on a real socket.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use seriatim_blocks::{BlockOptions, BlockSize};
use seriatim_client::api::{Change, CommandRequest, NextRequest, PutBlocks, PutSeries};
use seriatim_client::{ClientError, ClientOptions};
use seriatim_types::ErrorKind;
use support::World;

fn invoice(total: &str) -> CommandRequest {
    let mut change = Change { create: Some("Invoice".to_owned()), id: Some(1), ..Change::default() };
    change.fields.insert("total".to_owned(), json!(total));
    CommandRequest { changes: vec![change], ..CommandRequest::default() }
}

#[tokio::test]
async fn series_give_numbers_once_per_key() {
    let world = World::new();
    let server = world.start(None).await;
    let client = server.client(&world.env);
    let series = client.series("acme.invoices");
    let settings = PutSeries { first: 1, format: "INV-{number:06}".to_owned() };
    assert_eq!(series.put(&settings).await.unwrap().next, Some(1));
    assert_eq!(series.next().await.unwrap().text, "INV-000001");
    let keyed = client.series("acme.invoices").with_key("order-7");
    let taken = keyed.take(&NextRequest { count: 2, note: Some("for Ada".to_owned()) }).await.unwrap();
    assert_eq!((taken.number, taken.count, taken.repeated), (2, 2, false));
    let again = keyed.take(&NextRequest { count: 2, note: Some("for Ada".to_owned()) }).await.unwrap();
    assert_eq!((again.number, again.repeated), (2, true));
    let other = keyed.next().await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict, "the same key with another body");
    series.void(2, "misprint").await.unwrap();
    assert_eq!(series.raise(10, "moved in").await.unwrap().next, Some(10));
    let issued = series.who_got(3).await.unwrap();
    assert_eq!((issued.first, issued.note.as_deref()), (2, Some("for Ada")));
    assert_eq!(issued.idempotency_key.as_deref(), Some("order-7"));
    let audit = series.audit().await.unwrap();
    assert!(audit.audit.complete);
    assert_eq!((audit.audit.last, audit.voids.len(), audit.audit.raises.len()), (Some(3), 1, 1));
    assert_eq!(client.series_list(None).await.unwrap().series.len(), 1);
    assert_eq!(client.series("none").state().await.unwrap_err().kind(), ErrorKind::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn commands_answer_and_their_log_can_be_read() {
    let world = World::new();
    let server = world.start(None).await;
    let client = server.client(&world.env);
    let shop = client.application("shop");
    assert_eq!(client.applications().await.unwrap()[0], shop.definition().await.unwrap());
    let (store, new) = shop.create_workspace("store", Some("corner")).await.unwrap();
    assert!(new);
    assert_eq!(shop.create_workspace("store", Some("corner")).await.unwrap(), (store.clone(), false));
    assert_eq!(shop.workspaces(None, 10).await.unwrap().workspaces, std::slice::from_ref(&store));
    let corner = shop.workspace(store.id);
    assert_eq!(corner.descriptor().await.unwrap(), store);
    let answer = corner.command(&invoice("99.50")).await.unwrap();
    assert_eq!(answer.numbers[&1]["number"], 1);
    let moved = corner.clone().expecting(7).command(&invoice("1")).await.unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::Conflict);
    assert_eq!(
        (moved.problem().unwrap().expected.clone(), moved.problem().unwrap().found.clone()),
        (Some(json!(7)), Some(json!(1)))
    );
    let record = corner.record(answer.ids[&1]).await.unwrap();
    assert_eq!(record.fields["total"], "99.50");
    assert_eq!(corner.records("Invoice", None, 10).await.unwrap().records, [record]);
    assert_eq!(corner.c_records(None, 10).await.unwrap().records, []);
    let customer = json!({"changes": [{"create": "Customer", "id": 1, "fields": {"name": "Ada"}}]});
    let other = shop.create_workspace("store", None).await.unwrap().0;
    let other = shop.workspace(other.id);
    let created = other.command(&serde_json::from_value(customer).unwrap()).await.unwrap();
    let found = other.c_records(None, 10).await.unwrap();
    assert_eq!(found.records, [other.record(created.ids[&1]).await.unwrap()]);
    assert_eq!(other.c_records(Some(created.ids[&1]), 10).await.unwrap().records, []);
    let sequences = corner.sequences().await.unwrap();
    assert!(sequences.iter().any(|sequence| sequence.name == "InvoiceNumber" && sequence.next == Some(2)));
    assert_eq!(corner.who_got("InvoiceNumber", 1).await.unwrap().workspace_offset, 1);
    assert!(corner.audit("InvoiceNumber").await.unwrap().complete);
    let events = corner.events(1, 10).await.unwrap();
    assert_eq!((events.events.len(), events.next), (1, 2));
    assert_eq!(shop.events(answer.partition, 1, 10).await.unwrap().events, events.events);
    assert_eq!(shop.partitions().await.unwrap().len(), 4);
    let wrong = corner.command(&CommandRequest { command: "Nothing".to_owned(), ..invoice("1") }).await;
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Invalid);
    server.stop().await;
}

#[tokio::test]
async fn restarts_of_the_server_lose_and_repeat_nothing() {
    let world = World::new();
    let mut server = world.start(None).await;
    let client = server.client(&world.env);
    let workspace = client.application("shop").create_workspace("store", None).await.unwrap().0.id;
    let mut log = client.application("shop").workspace(workspace).follow(1);
    let (done, stop) = (Arc::new(std::sync::atomic::AtomicU64::new(0)), seriatim_env::Shutdown::new());
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (client, done, stop) = (client.clone(), done.clone(), stop.clone());
            world.env.spawn(async move {
                let mut taken = Vec::new();
                while !stop.is_cancelled() {
                    let store = client.application("shop").workspace(workspace);
                    taken.push(store.command(&invoice("1")).await.unwrap().numbers[&1]["number"]);
                    done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
                taken
            })
        })
        .collect();
    for _ in 0..3 {
        let before = done.load(std::sync::atomic::Ordering::Relaxed);
        while done.load(std::sync::atomic::Ordering::Relaxed) < before + 20 {
            world.env.sleep(Duration::from_millis(5)).await;
        }
        let address = server.stop().await;
        server = world.start(Some(address)).await;
    }
    stop.cancel();
    let mut taken = Vec::new();
    for writer in writers {
        taken.extend(writer.await.unwrap());
    }
    let count = i64::try_from(taken.len()).unwrap();
    let distinct: BTreeSet<i64> = taken.into_iter().collect();
    assert_eq!(distinct, (1..=count).collect(), "every command was done once, and every number given once");
    for offset in 1..=u64::try_from(count).unwrap() {
        assert_eq!(
            log.next().await.unwrap().workspace_offset,
            offset,
            "the log is followed over the restarts"
        );
    }
    assert_eq!(log.offset(), u64::try_from(count).unwrap() + 1);
    server.stop().await;
}

#[tokio::test]
async fn blocks_are_leased_and_allocated_locally() {
    let world = World::new();
    let server = world.start(None).await;
    let client = server.client(&world.env);
    let orders = client.blocks("orders");
    let unknown = orders.lease(BlockOptions::default()).await.unwrap_err();
    assert!(unknown.to_string().contains("does not exist"), "{unknown}");
    orders.put(&PutBlocks { first: 1_000, block_size: 64 }).await.unwrap();
    let options = BlockOptions { size: BlockSize::Fixed(50), ..BlockOptions::default() };
    let allocators = [orders.lease(options.clone()).await.unwrap(), orders.lease(options).await.unwrap()];
    let mut ids = BTreeSet::new();
    for _ in 0..500 {
        for allocator in &allocators {
            assert!(ids.insert(allocator.allocate_one().await.unwrap().get()), "an id was allocated twice");
        }
    }
    assert_eq!(ids.first(), Some(&1_000));
    let several = allocators[0].allocate(200).await.unwrap();
    assert!(several.numbers().all(|number| ids.insert(number.get())));
    for allocator in allocators {
        let counts = allocator.close().await.unwrap();
        assert!(counts.blocks >= 10 && counts.given_back == 0, "{counts:?}");
    }
    let state = orders.state().await.unwrap();
    assert!(state.next > *ids.last().unwrap());
    assert_eq!(client.blocks_list(None).await.unwrap().blocks.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn a_call_to_an_unreachable_server_fails_at_once_or_waits() {
    let world = World::new();
    let server = world.start(None).await;
    let (without_retries, with_retries) = (
        server.client_with(
            &world.env,
            ClientOptions { unreachable_timeout: Duration::ZERO, ..ClientOptions::default() },
        ),
        server.client(&world.env),
    );
    let address = server.stop().await;
    let error = without_retries.series("s").next().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let waiting = world.env.spawn(async move { with_retries.series("s").next().await });
    world.env.sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    let server = world.start(Some(address)).await;
    assert_eq!(waiting.await.unwrap().unwrap().number, 1);
    server.stop().await;
}
