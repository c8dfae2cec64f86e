//! A host in a process of its own, killed again and again while a thousand orders are in flight: every order is shipped,
//! each activity's effect is there at least once, and its result is in the log exactly once.
//!
//! `cargo test -p seriatim-workflow-host --test kill` kills it a few times; with `SERIATIM_FULL=1` it is 50 times (add
//! `--release -- --nocapture` to see it work).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim_engine::doctor::Treatment;
use seriatim_engine::{Engine, Options};
use seriatim_env::Env;
use seriatim_storage::Store;
use seriatim_storage::memory::MemoryStore;
use seriatim_storage_file::{FileOptions, FileStorage, LogOptions};
use seriatim_workflow::{Job, Payload};
use seriatim_workflow_host::demo::{self, Order, Shipped};
use seriatim_workflow_host::{HostError, HostOptions, RunStatus, StartRequest, WorkflowHost};

const CHILD_DIRECTORY: &str = "SERIATIM_WORKFLOW_KILL_DIRECTORY";
const TEST: &str = "kill_9_while_a_thousand_orders_are_in_flight_loses_and_repeats_nothing";
const ORDERS: usize = 1_000;

fn kills() -> usize {
    if std::env::var_os("SERIATIM_FULL").is_some() { 50 } else { 3 }
}

/// Orders wait for their approval while processes come and go.
fn approval_timeout_ms() -> u64 {
    if std::env::var_os("SERIATIM_FULL").is_some() { 60_000 } else { 8_000 }
}

struct Running {
    storage: FileStorage,
    engine: Engine,
    host: WorkflowHost,
}

async fn open(env: &Env, directory: &Path) -> Running {
    // Small segments, so that kills hit the change from one to the next.
    let log = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let options = FileOptions { log, free_bytes_min: 0, ..FileOptions::default() };
    let storage = FileStorage::open(env, &directory.join("data"), options).await.unwrap();
    let often = Options { flush_interval: Duration::from_millis(20), ..Options::default() };
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let engine =
        Engine::open(env.clone(), log, store, [seriatim_workflow_host::app().unwrap()], often).await.unwrap();
    // Effects are lines of a file that outlives the process.
    let effects = OpenOptions::new().create(true).append(true).open(directory.join("effects")).unwrap();
    let effects = Arc::new(Mutex::new(effects));
    let activities = demo::activities_with(move |info| {
        let line = format!("{} {};\n", info.workflow_id, info.activity_type);
        effects.lock().unwrap().write_all(line.as_bytes()).unwrap();
    });
    // Fewer instances than runs, so that most are rebuilt by replay.
    let options = HostOptions { cached_instances: 100, ..HostOptions::default() };
    let host = WorkflowHost::open(env.clone(), engine.clone(), demo::workflows(), activities, options);
    Running { storage, engine, host }
}

#[test]
fn kill_9_while_a_thousand_orders_are_in_flight_loses_and_repeats_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Some(directory) = std::env::var_os(CHILD_DIRECTORY) {
        runtime.block_on(work_without_end(Path::new(&directory)));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for kill in 0..kills() {
        let events = work_until_killed(directory.path(), kill);
        println!("kill {kill}: after {events} signs of life");
    }
    println!("{} kills, {}", kills(), runtime.block_on(check(directory.path())));
}

/// Starts a process, and kills it when it has told of some events, or now and then while it opens.
fn work_until_killed(directory: &Path, kill: usize) -> usize {
    let mut child = spawn(directory);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The first one starts all orders before it is killed: they are in flight from then on.
    let enough = if kill == 0 { ORDERS } else { 20 + kill * 61 % 300 };
    let (mut seen, mut killed) = (0, false);
    for line in lines.map_while(Result::ok) {
        seen += usize::from(line.contains("sign;"));
        let is_opening = kill % 5 == 4 && line.ends_with("opening");
        if !killed && (seen >= enough || is_opening || line.ends_with("done;")) {
            child.kill().unwrap();
            killed = true;
        }
    }
    let status = child.wait().unwrap();
    assert!(killed, "it ended by itself: {status}");
    seen
}

fn spawn(directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(CHILD_DIRECTORY, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn say(line: &str) {
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

fn order(number: usize) -> Order {
    Order { item: format!("item {number}"), approval_timeout_ms: approval_timeout_ms(), ..Order::default() }
}

/// Starts every order, approves every other one, and waits for all.
async fn work_without_end(directory: &Path) {
    let env = Env::real();
    say("opening\n");
    let running = open(&env, directory).await;
    let mut clients = Vec::new();
    for first in 0..32 {
        let (host, env) = (running.host.clone(), env.clone());
        clients.push(env.clone().spawn(async move {
            for number in (first..ORDERS).step_by(32) {
                begin(&host, &env, number).await;
                say("sign;\n");
            }
            for number in (first..ORDERS).step_by(32) {
                let ended = host.result::<Shipped>(&format!("o{number}")).await;
                if ended.is_ok() {
                    say("sign;\n");
                }
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    say("done;\n");
    std::future::pending::<()>().await;
}

async fn begin(host: &WorkflowHost, env: &Env, number: usize) {
    let id = format!("o{number}");
    let request = StartRequest::new("order").id(&id).input(&order(number)).unwrap().idempotency_key("start");
    while let Err(error) = host.start(request.clone()).await {
        assert!(!matches!(error, HostError::KeyReused(_) | HostError::Stuck { .. }), "{id}: {error}");
        env.sleep(Duration::from_millis(20)).await;
    }
    if number.is_multiple_of(2) {
        let approval = vec![Payload::json(&number).unwrap()];
        while let Err(error) = host.signal(&id, "approve", approval.clone(), Some("approve")).await {
            if matches!(error, HostError::NotRunning { .. }) {
                return;
            }
            env.sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Lets everything end, and looks at what was left.
async fn check(directory: &Path) -> String {
    let env = Env::real();
    let Running { storage, engine, host } = open(&env, directory).await;
    for number in 0..ORDERS {
        begin(&host, &env, number).await;
    }
    let mut results = 0;
    for number in 0..ORDERS {
        let id = format!("o{number}");
        let shipped: Shipped = host.result(&id).await.unwrap();
        assert_eq!(shipped.parcel, format!("a parcel of item {number}"));
        assert_eq!(shipped.charge, format!("995 cents for item {number}"));
        for id in [id.clone(), format!("{id}.ship")] {
            let history = host.history(&id, None).await.unwrap();
            assert_eq!((history.row.run, history.row.status), (1, RunStatus::Completed), "{id}");
            let mut found: BTreeMap<u32, usize> = BTreeMap::new();
            for job in
                history.events.iter().flat_map(|(_, _, entry)| &entry.turns).flat_map(|turn| &turn.jobs)
            {
                if let Job::ResolveActivity { seq, .. } = job {
                    *found.entry(seq.get()).or_default() += 1;
                }
            }
            assert_eq!(found, BTreeMap::from([(1, 1)]), "{id}");
            results += 1;
        }
    }
    assert_eq!(host.list(Some(RunStatus::Running), None, 10).await.unwrap(), []);
    let effects = std::fs::read_to_string(directory.join("effects")).unwrap();
    let lines: Vec<&str> = effects.lines().filter_map(|line| line.strip_suffix(';')).collect();
    let distinct: BTreeSet<&str> = lines.iter().copied().collect();
    for number in 0..ORDERS {
        for effect in [format!("o{number} charge"), format!("o{number}.ship pack")] {
            assert!(distinct.contains(&*effect), "{effect}");
        }
    }
    host.close().await;
    let scratch = Store::new(MemoryStore::new());
    let report = engine.doctor(&scratch, Treatment::Check, &mut |_| {}).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    engine.close().await;
    storage.close().await.unwrap();
    let again = lines.len() - distinct.len();
    format!(
        "{ORDERS} orders: all shipped; {results} results, each in the log once; {} effects, {again} of them again",
        lines.len()
    )
}
