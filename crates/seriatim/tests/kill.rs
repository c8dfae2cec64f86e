//! The server is killed repeatedly under HTTP load: nothing acknowledged is lost, nothing is done twice, no number is missing.
//!
//! Five kills; with `SERIATIM_FULL=1` fifty.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use seriatim_client::api::{Change, CommandRequest, NextRequest};
use seriatim_client::{Client, ClientOptions};
use seriatim_env::{Env, Shutdown};
use support::Folder;

const CONNECTIONS: u64 = 64;
/// Answers between a start and the next kill.
const ANSWERS: u64 = 300;

fn kills() -> usize {
    if std::env::var_os("SERIATIM_FULL").is_some() { 50 } else { 5 }
}

/// The numbers that one connection received, each with its key.
type Received = BTreeMap<u64, String>;

/// Takes numbers until `stop` is cancelled. A number counts as received when its answer has arrived.
async fn take(
    client: Client,
    connection: u64,
    workspace: u64,
    stop: Shutdown,
    answers: Arc<AtomicU64>,
) -> Received {
    let mut received = Received::new();
    for count in 0.. {
        if stop.is_cancelled() {
            break;
        }
        let key = format!("{connection}-{count}");
        // Half of the connections take numbers of a series, half send commands; both repeat requests with the same key.
        let number = if connection.is_multiple_of(2) {
            let series = client.series("hot").with_key(&key);
            series.take(&NextRequest::default()).await.unwrap().number
        } else {
            let mut change = Change { create: Some("Invoice".to_owned()), id: Some(1), ..Change::default() };
            change.fields.insert("total".to_owned(), json!("1"));
            let command = CommandRequest { changes: vec![change], ..CommandRequest::default() };
            let store = client.application("shop").workspace(workspace).with_key(&key);
            u64::try_from(store.command(&command).await.unwrap().numbers[&1]["number"]).unwrap()
        };
        assert_eq!(received.insert(number, key), None, "a number was given out twice");
        answers.fetch_add(1, Ordering::Relaxed);
    }
    received
}

#[test]
fn kill_9_under_http_load_loses_nothing_repeats_nothing_and_leaves_no_gap() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run());
}

async fn run() {
    let (folder, env) = (Folder::new(), Env::real());
    let mut server = folder.serve(&["--free-bytes-min", "0"]);
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let timeout = Duration::from_secs(120);
    let options =
        ClientOptions { retry_timeout: timeout, unreachable_timeout: timeout, ..ClientOptions::default() };
    let client = Client::connect(env.clone(), server.url.parse().unwrap(), options).unwrap();
    let workspace = client.application("shop").create_workspace("store", Some("hot")).await.unwrap().0.id;
    let (stop, answers) = (Shutdown::new(), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            env.spawn(take(client.clone(), connection, workspace, stop.clone(), answers.clone()))
        })
        .collect();
    for _ in 0..kills() {
        let enough = answers.load(Ordering::Relaxed) + ANSWERS;
        while answers.load(Ordering::Relaxed) < enough {
            env.sleep(Duration::from_millis(2)).await;
        }
        server.kill();
        let arguments = ["serve", "--listen", &address, "--free-bytes-min", "0"];
        server = support::Server::start(folder.command(&arguments));
    }
    stop.cancel();
    let (mut of_series, mut of_shop) = (Received::new(), Received::new());
    for (connection, task) in (0_u64..).zip(tasks) {
        let received = if connection.is_multiple_of(2) { &mut of_series } else { &mut of_shop };
        for (number, key) in task.await.unwrap() {
            assert_eq!(received.insert(number, key), None, "number {number} was given twice");
        }
    }

    let audit = client.series("hot").audit().await.unwrap().audit;
    assert!(audit.complete, "{audit:?}");
    // Every request was repeated until it was answered, so every number that exists was received.
    let count = u64::try_from(of_series.len()).unwrap();
    assert_eq!((audit.count, audit.last), (count, Some(count)));
    assert!(of_series.keys().copied().eq(1..=count));
    let audit = client.application("shop").workspace(workspace).audit("InvoiceNumber").await.unwrap();
    assert!(audit.complete, "{audit:?}");
    let count = u64::try_from(of_shop.len()).unwrap();
    assert_eq!((audit.count, audit.last), (count, Some(count)));
    for (number, key) in of_series.iter().step_by(50) {
        let issued = client.series("hot").who_got(*number).await.unwrap();
        assert_eq!(issued.idempotency_key.as_ref(), Some(key), "the number still has its key");
    }
    for (number, key) in of_shop.iter().step_by(50) {
        let event =
            client.application("shop").workspace(workspace).who_got("InvoiceNumber", *number).await.unwrap();
        assert_eq!(event.idempotency_key.as_ref(), Some(key));
    }
    eprintln!("{} kills, {} numbers received and kept", kills(), of_series.len() + of_shop.len());
    let doctor = {
        assert_eq!(server.terminate().0, 0);
        folder.run(&["doctor", "--storage", "file:./seriatim-data"])
    };
    assert!(doctor.fine().ends_with(": 0 differ\n"));
}
