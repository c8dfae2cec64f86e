//! A till whose storage can fail on request, for the tests of commands.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use seriatim_engine::{Answer, Engine, Found, Options, Request, SubmitError, Value};
use seriatim_env::{Env, Task, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Faults, FaultyLog, FaultyStore, Operation};
use seriatim_types::{RecordId, WorkspaceId, WorkspaceOffset};

use crate::support::{open_with, options, workspace};

/// A till in memory whose storage can fail on request.
pub(crate) struct Desk {
    pub(crate) env: Env,
    pub(crate) log: MemoryLog,
    pub(crate) store: MemoryStore,
    pub(crate) faults: Faults,
    pub(crate) engine: Engine,
    pub(crate) shop: WorkspaceId,
}

impl Desk {
    pub(crate) async fn open(env: Env, options: Options) -> Self {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        Self::open_on(env, log, store, options).await
    }

    pub(crate) async fn open_on(env: Env, log: MemoryLog, store: MemoryStore, options: Options) -> Self {
        let faults = Faults::new(&env);
        let faulty_log = Log::new(FaultyLog::new(Arc::new(log.reopen()), &faults));
        let faulty_store = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
        let engine = open_with(&env, faulty_log, faulty_store, options).await;
        let shop = workspace(&engine, "shop").await;
        Self { env, log, store, faults, engine, shop }
    }

    pub(crate) async fn reopen(self) -> Self {
        self.engine.close().await;
        Self::open_on(self.env, self.log, self.store, options()).await
    }

    pub(crate) async fn reopen_with(self, options: Options) -> Self {
        self.engine.close().await;
        Self::open_on(self.env, self.log, self.store, options).await
    }

    pub(crate) async fn submit(&self, request: &Request) -> Result<Answer, SubmitError> {
        self.engine.submit("till", self.shop, request).await
    }

    pub(crate) fn spawn(
        &self,
        workspace: WorkspaceId,
        request: Request,
    ) -> Task<Result<Answer, SubmitError>> {
        let engine = self.engine.clone();
        self.env.spawn(async move { engine.submit("till", workspace, &request).await })
    }

    /// Submits requests so that they are one group: the append of another workspace's command is held meanwhile.
    pub(crate) async fn together(&self, requests: Vec<Request>) -> Vec<Result<Answer, SubmitError>> {
        let other = workspace(&self.engine, "other").await;
        let third = workspace(&self.engine, "third").await;
        let partition = |workspace| self.engine.partition_of("till", workspace).unwrap();
        let other = if partition(other) == partition(self.shop) { other } else { third };
        assert_eq!(partition(other), partition(self.shop));
        // So that nothing has to be read for the group itself.
        self.engine.submit("till", other, &Request::new("Ping")).await.unwrap();
        let hold = self.faults.hold(Operation::Append);
        let blocker = self.spawn(other, Request::new("Ping"));
        hold.reached(1).await;
        self.faults.reset_counts();
        let mut tasks = Vec::new();
        for request in requests {
            tasks.push(self.spawn(self.shop, request));
            self.step_aside().await;
        }
        hold.release();
        blocker.await.unwrap().unwrap();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        answers
    }

    /// Lets the others run until they wait.
    pub(crate) async fn step_aside(&self) {
        self.env.sleep(Duration::from_micros(1)).await;
    }

    pub(crate) async fn events(&self) -> usize {
        self.engine.events("till", self.shop, WorkspaceOffset::FIRST, 10_000).await.unwrap().len()
    }

    pub(crate) async fn count(&self) -> Json {
        let rows = self.engine.view("till", self.shop, "count", &[], None, 10).await.unwrap();
        rows.into_iter().next().map_or(json!(0), |(_, row)| row)
    }

    pub(crate) async fn record(&self, id: RecordId) -> Vec<(String, Json)> {
        let found = self.engine.record("till", self.shop, id).await.unwrap();
        let Some(Found::Record(record)) = found else { panic!("{found:?}") };
        let schema = self.engine.schema("till").unwrap().document(record.document).unwrap();
        let named =
            |(id, value): &(_, Value)| (schema.field_by_id(*id).unwrap().name.to_string(), value.to_json());
        let mut fields: Vec<_> = record.fields.iter().map(named).collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields
    }
}

pub(crate) fn with_desk<F: Future<Output = ()>>(scenario: impl FnOnce(Desk) -> F) {
    simulate(1, |env| async move {
        let scenario = scenario(Desk::open(env.clone(), options()).await);
        env.timeout(Duration::from_secs(3_600), scenario).await.expect("nothing hangs");
    });
}

pub(crate) fn is_same(first: &Answer, again: &Answer) {
    assert_eq!(again, &Answer { repeated: true, ..first.clone() });
}
