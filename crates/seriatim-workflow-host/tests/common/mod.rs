//! An engine with a host, and ways to open and close them.
#![allow(dead_code, reason = "each suite uses a part of it")]

pub(crate) mod gate;
pub(crate) mod several;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use seriatim_engine::{Engine, Options};
use seriatim_env::Env;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_workflow::{Payload, Registry};
use seriatim_workflow_host::{Activities, HostOptions, StartRequest, WorkflowHost};

pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) engine: Engine,
    pub(crate) host: WorkflowHost,
}

pub(crate) fn storage() -> (Log, Store) {
    (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()))
}

impl World {
    pub(crate) async fn new(env: &Env, workflows: Registry, activities: Activities) -> Self {
        Self::with(env, workflows, activities, HostOptions::default()).await
    }

    pub(crate) async fn with(
        env: &Env,
        workflows: Registry,
        activities: Activities,
        options: HostOptions,
    ) -> Self {
        let (log, store) = storage();
        Self::on(env, log, store, workflows, activities, options).await
    }

    pub(crate) async fn on(
        env: &Env,
        log: Log,
        store: Store,
        workflows: Registry,
        activities: Activities,
        options: HostOptions,
    ) -> Self {
        let engine = Engine::open(
            env.clone(),
            log.clone(),
            store.clone(),
            [seriatim_workflow_host::app().unwrap()],
            Options::default(),
        )
        .await
        .unwrap();
        let host = WorkflowHost::open(env.clone(), engine.clone(), workflows, activities, options);
        Self { env: env.clone(), log, store, engine, host }
    }

    /// Closes everything, and opens it again with other code.
    pub(crate) async fn again(self, workflows: Registry, activities: Activities) -> Self {
        self.again_with(workflows, activities, HostOptions::default()).await
    }

    pub(crate) async fn again_with(
        self,
        workflows: Registry,
        activities: Activities,
        options: HostOptions,
    ) -> Self {
        self.host.close().await;
        self.engine.close().await;
        Self::on(&self.env, self.log, self.store, workflows, activities, options).await
    }

    pub(crate) async fn close(self) {
        self.host.close().await;
        self.engine.close().await;
    }

    pub(crate) async fn start<T: Serialize>(&self, workflow_type: &str, id: &str, input: &T) -> String {
        let request = StartRequest::new(workflow_type).id(id).input(input).unwrap();
        self.host.start(request).await.unwrap().run_id
    }

    pub(crate) async fn result<T: DeserializeOwned>(&self, id: &str) -> T {
        self.host.result(id).await.unwrap()
    }

    pub(crate) async fn signal<T: Serialize>(&self, id: &str, name: &str, input: &T) {
        self.host.signal(id, name, payload(input), None).await.unwrap();
    }

    pub(crate) async fn sleep_ms(&self, millis: u64) {
        self.env.sleep(Duration::from_millis(millis)).await;
    }
}

pub(crate) fn payload<T: Serialize>(value: &T) -> Vec<Payload> {
    vec![Payload::json(value).unwrap()]
}
