//! What the measuring wrapper records.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use seriatim_env::{Env, simulate};
use seriatim_storage::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation, Operations};
use seriatim_storage::instrumented::{InstrumentedLog, InstrumentedStore};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{
    Batch, ClusteringRange, Digest, Durability, Entries, Header, Key, Log, ReadLimit, Store,
};
use seriatim_types::{Partition, PartitionOffset, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

/// Runs a scenario and returns what was recorded: by name and labels, the count, or the samples.
fn recorded<F: Future<Output = ()>>(scenario: impl FnOnce(Env) -> F) -> BTreeMap<String, Vec<f64>> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // A simulation has one thread, so a recorder of this thread sees all of it.
    metrics::with_local_recorder(&recorder, || simulate(1, scenario));
    let mut all = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: Vec<_> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.key().name(), labels.join(" "));
        let values = match value {
            #[expect(clippy::cast_precision_loss, reason = "small counts")]
            DebugValue::Counter(count) => vec![count as f64],
            DebugValue::Histogram(samples) => samples.into_iter().map(|sample| sample.0).collect(),
            DebugValue::Gauge(_) => panic!("there are no gauges"),
        };
        all.insert(name.trim_end().to_owned(), values);
    }
    all
}

fn check(recorded: &BTreeMap<String, Vec<f64>>, expected: &[(&str, &[f64])]) {
    for (name, values) in expected {
        assert_eq!(recorded.get(*name).map(|found| &found[..]), Some(*values), "{name} in {recorded:#?}");
    }
}

#[test]
fn the_log_counts_and_times_what_it_answers() {
    let partition = Partition::new(1, 0);
    let recorded = recorded(|env| async move {
        let faults = Faults::new(&env);
        let faulty = FaultyLog::new(Arc::new(MemoryLog::new()), &faults);
        let log = Log::new(InstrumentedLog::new(Arc::new(faulty), &env));
        let owner = log.take(partition).await.unwrap();
        let mut entries = Entries::new(owner.next_append_id());
        let header = Header {
            workspace: WorkspaceId::FIRST,
            kind: WorkspaceKind::new(1),
            workspace_offset: WorkspaceOffset::FIRST,
            time: Timestamp::from_millis(0),
            body_digest: Digest::of(b""),
            draws: &[],
            raises: &[],
        };
        // Two entries of 119 bytes each: a bare header.
        entries.push(&header, Digest::ZERO, b"").unwrap();
        entries.push(&header, Digest::ZERO, b"").unwrap();
        let hold = faults.hold_answers(Operation::Append);
        let append = env.spawn(log.append(&owner, PartitionOffset::FIRST, &entries));
        hold.reached(1).await;
        env.sleep(Duration::from_secs(3)).await;
        hold.release();
        append.await.unwrap().unwrap();
        faults.fail_nth(Operation::Append, 1, Fault::LoseReply);
        entries.reset(owner.next_append_id());
        entries.push(&header, Digest::ZERO, b"").unwrap();
        log.append(&owner, PartitionOffset::new(3).unwrap(), &entries).await.unwrap_err();
        log.read(partition, PartitionOffset::FIRST, ReadLimit::entries(1)).await.unwrap();
        log.follow(partition, PartitionOffset::FIRST).next(ReadLimit::entries(1)).await.unwrap();
        faults.fail(Operations::READS, Fault::Refuse);
        log.tail(partition).await.unwrap_err();
        log.close().await.unwrap();
    });
    check(
        &recorded,
        &[
            ("seriatim_log_operations_total operation=take outcome=ok", &[1.0]),
            ("seriatim_log_operations_total operation=append outcome=ok", &[1.0]),
            ("seriatim_log_operations_total operation=append outcome=in_doubt", &[1.0]),
            ("seriatim_log_operations_total operation=read outcome=ok", &[2.0]),
            ("seriatim_log_operations_total operation=tail outcome=unavailable", &[1.0]),
            ("seriatim_log_operations_total operation=close outcome=ok", &[1.0]),
            ("seriatim_log_operation_seconds operation=append", &[3.0, 0.0]),
            ("seriatim_log_appended_entries_total", &[2.0]),
            ("seriatim_log_appended_bytes_total", &[238.0]),
            ("seriatim_log_read_entries_total", &[2.0]),
            ("seriatim_log_read_bytes_total", &[238.0]),
        ],
    );
    assert!(!recorded.keys().any(|name| name.contains("committed")), "waiting is not measured");
}

#[test]
fn the_store_counts_and_times_what_it_answers() {
    let recorded = recorded(|env| async move {
        let faults = Faults::new(&env);
        let faulty = FaultyStore::new(Arc::new(MemoryStore::new()), &faults);
        let store = Store::new(InstrumentedStore::new(Arc::new(faulty), &env));
        let key = Key::new(b"pp", b"ccc");
        store.put(key, b"value").await.unwrap();
        store.get(key).await.unwrap();
        store.get_many(&[key, Key::new(b"", b""), key]).await.unwrap();
        store.scan(b"pp", ClusteringRange::all()).take(1).await.unwrap();
        let mut removal = Batch::new();
        removal.remove(key);
        store.write(removal, Durability::Buffered).await.unwrap();
        faults.fail_nth(Operation::Write, 1, Fault::Refuse);
        store.put(key, b"value").await.unwrap_err();
        let hold = faults.hold(Operation::Sync);
        let sync = env.spawn({
            let store = store.clone();
            async move { store.sync().await }
        });
        hold.reached(1).await;
        env.sleep(Duration::from_millis(1_500)).await;
        hold.release();
        sync.await.unwrap().unwrap();
        store.close().await.unwrap();
    });
    check(
        &recorded,
        &[
            ("seriatim_store_operations_total operation=write outcome=ok", &[2.0]),
            ("seriatim_store_operations_total operation=write outcome=unavailable", &[1.0]),
            ("seriatim_store_operations_total operation=get outcome=ok", &[1.0]),
            ("seriatim_store_operations_total operation=get_many outcome=ok", &[1.0]),
            ("seriatim_store_operations_total operation=scan_page outcome=ok", &[1.0]),
            ("seriatim_store_operations_total operation=sync outcome=ok", &[1.0]),
            ("seriatim_store_operations_total operation=close outcome=ok", &[1.0]),
            ("seriatim_store_operation_seconds operation=sync", &[1.5]),
            // A put of 10 bytes and a removal of a key of 5.
            ("seriatim_store_written_keys_total", &[2.0]),
            ("seriatim_store_written_bytes_total", &[15.0]),
            // Three values of 5 bytes, and a pair of 8.
            ("seriatim_store_read_bytes_total", &[23.0]),
        ],
    );
}
