//! Several engines of one process on one log, each with a store of its own.
#![allow(dead_code, reason = "each suite uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim_engine::{Among, App, Call, Engine, Options, Others, Reply, SubmitError};
use seriatim_env::Env;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Holder, Log, Store};
use seriatim_types::sync::Mutex;
use seriatim_types::{ApplicationId, Partition, PartitionId, PartitionOffset};

/// The registry.
pub(crate) const SYS: Partition = Partition { application: ApplicationId::new(1), id: PartitionId::new(0) };

/// Engines that call each other directly.
#[derive(Debug, Clone, Default)]
pub(crate) struct Neighbours(Arc<Mutex<Vec<Engine>>>);

impl Neighbours {
    pub(crate) fn all(&self) -> Vec<Engine> {
        self.0.lock().clone()
    }

    pub(crate) fn add(&self, engine: &Engine) {
        self.0.lock().push(engine.clone());
    }

    pub(crate) fn remove(&self, holder: &Holder) {
        self.0.lock().retain(|engine| engine.holder() != holder);
    }
}

#[async_trait]
impl Others for Neighbours {
    async fn call(&self, partition: Partition, call: Call) -> Result<Reply, SubmitError> {
        let mut answer = Err(SubmitError::NotHere { partition: partition.to_string(), holder: None });
        for engine in self.all() {
            if !engine.owns(partition) {
                continue;
            }
            answer = engine.serve(call.clone()).await;
            if !matches!(answer, Err(SubmitError::NotHere { .. })) {
                break;
            }
        }
        answer
    }

    async fn applied(&self, partition: Partition, offset: PartitionOffset) -> Result<(), SubmitError> {
        for engine in self.all() {
            engine.wait_applied(partition, offset).await?;
        }
        Ok(())
    }
}

/// What several engines share: the log, and how they reach each other.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) log: MemoryLog,
    pub(crate) neighbours: Neighbours,
    pub(crate) options: Options,
    starts: Arc<Mutex<u64>>,
}

impl World {
    pub(crate) fn new(env: &Env, options: Options) -> Self {
        let (log, neighbours) = (MemoryLog::new(), Neighbours::default());
        Self { env: env.clone(), log, neighbours, options, starts: Arc::default() }
    }

    pub(crate) fn among(&self, name: &str, owns_registry: bool) -> Among {
        let mut starts = self.starts.lock();
        *starts += 1;
        let holder = Holder::new(&format!("{name}-{starts}"));
        Among { holder, others: Arc::new(self.neighbours.clone()), owns_registry }
    }

    /// Opens another engine. The first one owns the registry.
    pub(crate) async fn join(&self, name: &str, store: Store, apps: Vec<App>) -> Engine {
        self.join_on(name, Log::new(self.log.reopen()), store, apps).await.unwrap()
    }

    pub(crate) async fn join_on(
        &self,
        name: &str,
        log: Log,
        store: Store,
        apps: Vec<App>,
    ) -> Result<Engine, seriatim_engine::OpenError> {
        let owns_registry = !self.neighbours.all().iter().any(|engine| engine.owns(SYS));
        let among = self.among(name, owns_registry);
        let engine = Engine::join(self.env.clone(), log, store, apps, self.options, among).await?;
        self.neighbours.add(&engine);
        Ok(engine)
    }

    pub(crate) async fn close(&self) {
        // The owner of the registry is last: the others write to it when they close.
        let mut engines = self.neighbours.all();
        engines.sort_by_key(|engine| engine.owns(SYS));
        for engine in engines {
            engine.close().await;
        }
    }
}

pub(crate) fn memory() -> Store {
    Store::new(MemoryStore::new())
}

/// The partitions of an application.
pub(crate) fn partitions(engine: &Engine, application: &str) -> Vec<Partition> {
    let states = engine.partitions(application).unwrap();
    states.into_iter().map(|state| state.partition).collect()
}

/// Follows every partition, so that this engine can own any of them quickly.
pub(crate) async fn stand_by_everything(engine: &Engine) {
    for partition in engine.every_partition() {
        if !engine.owns(partition) {
            engine.stand_by(partition).await.unwrap();
        }
    }
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
}

pub(crate) async fn own_everything(engine: &Engine) {
    for partition in engine.every_partition() {
        engine.own(partition).await.unwrap();
    }
}
