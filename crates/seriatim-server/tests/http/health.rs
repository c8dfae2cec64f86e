//! Readiness, what prevents it, and metrics.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use seriatim_env::Env;
use seriatim_server::ServerOptions;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Storage, Store};
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation};

use crate::server::{Server, Setup};

/// Polls until `/readyz` has the status.
async fn wait_for(server: &Server, status: u16) -> serde_json::Value {
    loop {
        let ready = server.get("/readyz").await;
        if ready.status == status {
            return ready.body;
        }
        server.env.sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_partition_whose_storage_hangs_is_stuck_and_an_idle_one_is_not() {
    let env = Env::real();
    let faults = Faults::new(&env);
    let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
    let options = ServerOptions { stuck_after: Duration::from_millis(200), ..ServerOptions::default() };
    let mut setup = Setup { log, storage: None, options, ..Setup::new() };
    setup.engine.flush_interval = Duration::from_millis(10);
    let server = setup.start().await;
    server.post("/v1/series/a/next", &json!({})).await;
    wait_for(&server, 200).await;
    // Idle for longer than the limit.
    server.env.sleep(Duration::from_millis(500)).await;
    assert_eq!(server.get("/readyz").await.status, 200, "an idle partition is ready");

    let hold = faults.hold(Operation::Append);
    let waiting = server.post_later("/v1/series/a/next", &json!({}));
    hold.reached(1).await;
    let more = server.post_later("/v1/series/a/next", &json!({}));
    let body = wait_for(&server, 503).await;
    assert_eq!(
        (&body["troubles"], &body["partitions"][0]["app"]),
        (&json!(["stuck"]), &json!("series")),
        "{body}"
    );
    hold.release();
    assert_eq!(waiting.await.unwrap().status, 201);
    assert_eq!(more.await.unwrap().status, 201);
    wait_for(&server, 200).await;
    server.stop().await;
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let full = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let own = full.clone();
    let probe = Box::new(move |_: &std::path::Path| {
        Ok(if own.load(std::sync::atomic::Ordering::Relaxed) { 1 } else { u64::MAX })
    });
    let storage =
        FileStorage::open_with_probe(&Env::real(), folder.path(), FileOptions::default(), probe).await;
    let server = Setup::on(Storage::new(storage.unwrap())).start().await;
    assert_eq!(server.get("/readyz").await.body, json!({"status": "ready"}));
    full.store(true, std::sync::atomic::Ordering::Relaxed);
    let ready = server.get("/readyz").await;
    assert_eq!(
        (ready.status, ready.body),
        (503, json!({"status": "not ready", "troubles": ["disk_nearly_full"]}))
    );
    full.store(false, std::sync::atomic::Ordering::Relaxed);
    server.stop().await;
}

#[tokio::test]
async fn a_store_that_refuses_writes_is_reported_until_it_accepts_them() {
    let env = Env::real();
    let faults = Faults::new(&env);
    let store = Store::new(FaultyStore::new(Arc::new(MemoryStore::new()), &faults));
    let mut setup = Setup { store, storage: None, ..Setup::new() };
    setup.engine.flush_interval = Duration::from_millis(10);
    let server = setup.start().await;
    server.post("/v1/series/a/next", &json!({})).await;
    wait_for(&server, 200).await;
    faults.fail(Operation::Write, Fault::Refuse);
    let taken = server.post("/v1/series/a/next", &json!({})).await;
    assert_eq!((taken.status, &taken.body["number"]), (201, &json!(2)), "the log accepts it");
    // The registry's partition may have something to flush too.
    let partition = loop {
        let body = wait_for(&server, 503).await;
        assert_eq!(body["troubles"], json!(["store_failed"]), "{body}");
        let partitions = body["partitions"].as_array().unwrap();
        if let Some(found) = partitions.iter().find(|partition| partition["app"] == "series") {
            break found.clone();
        }
    };
    assert_eq!(partition["trouble"], "store_failed");
    let reason = partition["reason"].as_str().unwrap();
    assert!(reason.starts_with("the store refuses writes: "), "{reason}");
    faults.heal();
    wait_for(&server, 200).await;
    assert_eq!(server.post("/v1/series/a/next", &json!({})).await.body["number"], 3);
    server.stop().await;
}

#[tokio::test]
async fn metrics_count_what_the_server_does() {
    let metrics = PrometheusBuilder::new().install_recorder().unwrap();
    let server = Setup { metrics: Some(metrics), ..Setup::new() }.start().await;
    server.post("/v1/series/a/next", &json!({})).await;
    server.get("/nothing").await;
    let text = server.get("/metrics").await.text;
    for name in [
        "seriatim_http_requests_total{status=\"2xx\"}",
        "seriatim_http_requests_total{status=\"4xx\"}",
        "seriatim_http_request_seconds",
        "seriatim_http_connections",
        "seriatim_engine_commands_total",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    server.stop().await;
}
