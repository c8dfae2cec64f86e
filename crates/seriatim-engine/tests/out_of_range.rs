//! Numbers in the log that no range of their sequence has.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use seriatim_engine::definition::shop;
use seriatim_engine::{App, Change, Engine, Options, Request};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Digest, Draw, Entries, Header, Log, ReadLimit, Store};
use seriatim_types::{Number, PartitionOffset, SequenceId, WorkspaceId};

/// Keeps one counter, over all partitions.
#[derive(Debug, Default, Clone)]
struct Ignored(Arc<AtomicU64>);

impl Recorder for Ignored {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != "seriatim_sequencer_ignored_numbers_total" {
            return Counter::noop();
        }
        let labels: Vec<&str> = key.labels().map(metrics::Label::key).collect();
        assert_eq!(labels, ["application", "partition"]);
        Counter::from_arc(self.0.clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

async fn open(env: &Env, log: Log) -> Engine {
    let store = Store::new(MemoryStore::new());
    let engine = Engine::open(env.clone(), log, store, [App::new(shop())], Options::default()).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    engine
}

async fn invoice(engine: &Engine, workspace: WorkspaceId) -> u64 {
    let request = Request::changes([Change::create("Invoice", 1)]);
    engine.submit("shop", workspace, &request).await.unwrap().id(1).unwrap().get()
}

/// The same log, but for one thing: the last event of a workspace has also drawn this record id.
async fn with_another_id(from: &Log, to: &Log, workspace: WorkspaceId, id: u64) {
    for partition in from.partitions().await.unwrap() {
        let owner = to.take(partition).await.unwrap();
        let read = from.read(partition, PartitionOffset::FIRST, ReadLimit::default()).await.unwrap();
        let last = read.iter().filter(|(_, entry)| entry.workspace() == workspace).map(|(at, _)| at).last();
        let mut chains: std::collections::BTreeMap<WorkspaceId, Digest> = std::collections::BTreeMap::new();
        for (at, entry) in read.iter() {
            let mut draws: Vec<Draw> = entry.draws().collect();
            if Some(at) == last {
                // `sys.RecordId`.
                let (sequence, first) = (SequenceId::new(3), Number::new(id));
                let place = draws.iter().position(|draw| draw.sequence > sequence).unwrap_or(draws.len());
                draws.insert(place, Draw { sequence, first, count: 1 });
            }
            let raises: Vec<_> = entry.raises().collect();
            let header = Header {
                workspace: entry.workspace(),
                kind: entry.kind(),
                workspace_offset: entry.workspace_offset(),
                time: entry.time(),
                body_digest: entry.body_digest(),
                draws: &draws,
                raises: &raises,
            };
            let chain = chains.entry(entry.workspace()).or_insert(Digest::ZERO);
            let mut entries = Entries::new(owner.next_append_id());
            *chain = entries.push(&header, *chain, entry.body()).unwrap();
            to.append(&owner, at, &entries).await.unwrap();
        }
    }
}

#[test]
fn a_record_id_out_of_range_moves_no_sequence_and_is_counted() {
    for (id, expected) in [(100_000, 1), (322_685_000_131_072, 1), (322_680_000_131_073, 0)] {
        let ignored = Ignored::default();
        metrics::with_local_recorder(&ignored, || {
            simulate(1, |env| async move {
                let log = MemoryLog::new();
                let engine = open(&env, Log::new(log.reopen())).await;
                let corner = engine.create_workspace("shop", "store", None).await.unwrap().0.id;
                assert_eq!(invoice(&engine, corner).await, 322_680_000_131_072);
                engine.close().await;
                let changed = MemoryLog::new();
                with_another_id(&Log::new(log.reopen()), &Log::new(changed.reopen()), corner, id).await;
                let engine = open(&env, Log::new(changed.reopen())).await;
                let moved = u64::from(expected == 0);
                assert_eq!(invoice(&engine, corner).await, 322_680_000_131_073 + moved);
                engine.close().await;
            });
        });
        assert_eq!(ignored.0.load(Ordering::Relaxed), expected, "{id}");
    }
}
