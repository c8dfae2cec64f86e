//! duroxide, an embedded durable runtime, with its SQLite provider and its default settings except for its log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{anyhow, bail};
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{ObservabilityConfig, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use crate::writers::Durable;

const RUN_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Duroxide {
    runtime: Arc<Runtime>,
    client: Client,
    started: AtomicU64,
}

impl Duroxide {
    pub(super) async fn open(directory: &Path) -> anyhow::Result<Arc<Self>> {
        let url = format!("sqlite:{}?mode=rwc", directory.join("duroxide.db").display());
        let store = SqliteProvider::new(&url, None).await.map_err(|error| anyhow!("{error}"))?;
        let store = Arc::new(store);
        let activities = ActivityRegistry::builder()
            .register(
                "hello",
                |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) },
            )
            .build();
        let workflows = OrchestrationRegistry::builder()
            .register("hello", |ctx: OrchestrationContext, name: String| async move {
                ctx.schedule_activity("hello", name).await
            })
            .build();
        // Its log would go to the standard output of this program, and take time.
        let observability =
            ObservabilityConfig { log_level: "off".to_owned(), ..ObservabilityConfig::default() };
        let options = RuntimeOptions { observability, ..RuntimeOptions::default() };
        let runtime = Runtime::start_with_options(store.clone(), activities, workflows, options).await;
        let client = Client::new(store);
        Ok(Arc::new(Self { runtime, client, started: AtomicU64::new(0) }))
    }

    pub(super) async fn close(&self) {
        self.runtime.clone().shutdown(None).await;
    }
}

impl Durable for Duroxide {
    async fn write(&self, _: usize) -> anyhow::Result<()> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let id = format!("hello-{number}");
        let failed = |error| anyhow!("duroxide: {error:?}");
        self.client.start_orchestration(id.as_str(), "hello", "Ada").await.map_err(failed)?;
        match self.client.wait_for_orchestration(&id, RUN_TIMEOUT).await.map_err(failed)? {
            OrchestrationStatus::Completed { output, .. } if output == "Hello, Ada!" => Ok(()),
            other => bail!("the run did not complete as expected: {other:?}"),
        }
    }
}
