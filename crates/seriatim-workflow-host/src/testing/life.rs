//! One life of a host: from its start to its stop or crash, on storage that outlives it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use seriatim_activity::Activities;
use seriatim_engine::{Engine, Options};
use seriatim_env::{Env, Shutdown};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation, Operations};
use seriatim_workflow::Registry;

use super::attempts::guarded;
use crate::{HostOptions, WorkflowHost};

/// How long an engine in memory may take to be ready: storage answers at once.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// The engine's flush interval. In production it is short. Here days of simulated time pass at once, and the engine would
/// wake for each interval of them.
const FLUSH_INTERVAL: Duration = Duration::from_secs(86_400);

/// What goes wrong by chance, each of a million.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chances {
    /// That the log loses an append, or the answer to one.
    pub(super) lost: u64,
    /// That an attempt of an activity fails.
    pub(super) failing: u64,
}

/// What outlives a host.
#[derive(Debug)]
pub(super) struct Disk {
    log: Arc<MemoryLog>,
    store: Arc<MemoryStore>,
}

impl Disk {
    pub(super) fn new() -> Self {
        Self { log: Arc::new(MemoryLog::new()), store: Arc::new(MemoryStore::new()) }
    }
}

/// A host and its engine. Each life has faults of its own: after a crash, what is left of it cannot reach the disk.
pub(super) struct Life {
    env: Env,
    pub(super) host: WorkflowHost,
    engine: Engine,
    pub(super) faults: Faults,
    /// Requested when it has crashed or was stopped.
    pub(super) over: Shutdown,
    /// Whether its end has begun.
    pub(super) is_ended: AtomicBool,
}

impl Life {
    /// # Panics
    ///
    /// If the engine does not open: memory does not fail before faults are set.
    pub(super) async fn begin(
        env: &Env,
        disk: &Disk,
        (workflows, activities): (Registry, Activities),
        options: HostOptions,
        chances: Chances,
    ) -> Self {
        let (faults, over) = (Faults::new(env), Shutdown::new());
        let log = Log::new(FaultyLog::new(disk.log.clone(), &faults));
        let store = Store::new(FaultyStore::new(disk.store.clone(), &faults));
        let engine_options = Options { flush_interval: FLUSH_INTERVAL, ..Options::default() };
        let app = crate::app().expect("the definition of workflows is compiled in");
        let engine = Engine::open(env.clone(), log, store, [app], engine_options).await;
        let engine = engine.expect("an engine opens on a log and a store in memory");
        assert!(engine.wait_ready(READY_WITHIN).await, "the engine is not ready after {READY_WITHIN:?}");
        let activities = guarded(&activities, &over, chances.failing);
        let host = WorkflowHost::open(env.clone(), engine.clone(), workflows, activities, options);
        faults.reset_counts();
        for fault in [Fault::LoseRequest, Fault::LoseReply] {
            faults.chance(Operation::Append, fault, chances.lost as f64 / 2e6);
        }
        Self { env: env.clone(), host, engine, faults, over, is_ended: AtomicBool::new(false) }
    }

    /// Crashes it: from here on it writes nothing and carries out nothing.
    pub(super) fn crash(&self) {
        self.faults.fail(Operations::ALL, Fault::Refuse);
        self.over.cancel();
        let (host, engine) = (self.host.clone(), self.engine.clone());
        drop(self.env.spawn(async move {
            host.close().await;
            engine.close().await;
        }));
    }

    /// Stops it cleanly.
    pub(super) async fn stop(&self) {
        self.host.close().await;
        self.over.cancel();
        self.engine.close().await;
    }
}
