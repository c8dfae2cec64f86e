//! An engine with a small shop on file storage, for the suites that measure the engine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;
use seriatim_engine::definition::{
    Application, DocumentDefinition, DocumentKind, FieldDefinition, FieldType, KindDefinition,
    SequenceDefinition,
};
use seriatim_engine::{App, Change, Engine, Options, Request};
use seriatim_env::Env;
use seriatim_storage::ReadLimit;
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, WorkspaceId};
use tokio::task::JoinSet;

use crate::writers::Durable;

const NAME: &str = "shop";
/// The same as in the demo application.
const PARTITIONS: u16 = 4;
/// So that the body of an event has about 300 bytes.
const TEXT_BYTES: usize = 264;
/// Workspaces that are made concurrently.
const MADE_AT_ONCE: u64 = 512;

/// Storage and the engine on it.
pub(crate) struct Shop {
    pub(crate) storage: FileStorage,
    pub(crate) engine: Engine,
}

fn definition() -> anyhow::Result<Application> {
    let invoice = DocumentDefinition::new("Invoice", DocumentKind::W)
        .field("text", FieldType::Text)
        .field("total", FieldType::Decimal)
        .with(FieldDefinition::drawn("number", "InvoiceNumber"));
    let application = Application::builder(NAME)
        .partitions(PARTITIONS)
        .sequence(SequenceDefinition::new("InvoiceNumber", 1))
        .document(invoice)
        .kind(KindDefinition::new("store"));
    Ok(application.build()?)
}

/// The application.
pub(crate) fn app() -> anyhow::Result<App> {
    Ok(App::new(definition()?))
}

fn text() -> String {
    ('a'..='z').cycle().take(TEXT_BYTES).collect()
}

/// A command that makes one invoice with a number.
pub(crate) fn invoice() -> Request {
    Request::changes([Change::create("Invoice", 1).field("text", text()).field("total", "99.50")])
}

/// The same command as the body of an HTTP request.
pub(crate) fn invoice_json() -> String {
    let fields = json!({"text": text(), "total": "99.50"});
    json!({"changes": [{"create": "Invoice", "id": 1, "fields": fields}]}).to_string()
}

impl Shop {
    /// Opens a directory with the default settings, and creates it if it does not exist.
    pub(crate) async fn open(directory: &Path) -> anyhow::Result<Self> {
        let env = Env::real();
        let storage = FileStorage::open(&env, directory, FileOptions::default()).await?;
        let (log, store) = (storage.log().clone(), storage.store().clone());
        let engine = Engine::open(env, log, store, [app()?], Options::default()).await?;
        Ok(Self { storage, engine })
    }

    /// Waits until commands are accepted.
    pub(crate) async fn ready(&self) -> anyhow::Result<()> {
        ensure!(self.engine.wait_ready(Duration::from_secs(600)).await, "the engine does not become ready");
        Ok(())
    }

    /// Makes an invoice; retries while the engine is busy, as a client would.
    pub(crate) async fn invoice(&self, workspace: WorkspaceId, request: &Request) -> anyhow::Result<()> {
        let answer = loop {
            match self.engine.submit(NAME, workspace, request).await {
                Err(error) if error.kind() == ErrorKind::Busy => tokio::task::yield_now().await,
                answered => break answered?,
            }
        };
        ensure!(answer.number(1, "number").is_some(), "an invoice without a number");
        Ok(())
    }

    /// Makes this many workspaces.
    pub(crate) async fn workspaces(&self, count: u64) -> anyhow::Result<Vec<WorkspaceId>> {
        let mut made = Vec::with_capacity(usize::try_from(count)?);
        let mut tasks = JoinSet::new();
        for task in 0..count.min(MADE_AT_ONCE) {
            let share = (count - task).div_ceil(MADE_AT_ONCE);
            let engine = self.engine.clone();
            tasks.spawn(async move {
                let mut made = Vec::new();
                for _ in 0..share {
                    made.push(engine.create_workspace(NAME, "store", None).await?.0.id);
                }
                anyhow::Ok(made)
            });
        }
        while let Some(some) = tasks.join_next().await {
            made.extend(some??);
        }
        made.sort_unstable();
        Ok(made)
    }

    /// The bytes of the last event in the log of a workspace's partition.
    pub(crate) async fn event_bytes(&self, workspace: WorkspaceId) -> anyhow::Result<Vec<u8>> {
        let id = self.engine.partition_of(NAME, workspace)?;
        let state = self.engine.partitions(NAME)?.into_iter().find(|state| state.partition.id == id);
        let Partition { application, .. } = state.context("the workspace has no partition")?.partition;
        let partition = Partition { application, id };
        let tail = self.storage.log().tail(partition).await?;
        let last = PartitionOffset::new(tail.get() - 1).context("no event yet")?;
        Ok(self.storage.log().read(partition, last, ReadLimit::entries(1)).await?.as_bytes().to_vec())
    }

    /// Closes the engine, then the storage.
    pub(crate) async fn close(&self) -> anyhow::Result<()> {
        self.engine.close().await;
        self.storage.store().close().await?;
        Ok(self.storage.log().close().await?)
    }
}

/// Writers that make invoices in all of some workspaces.
pub(crate) struct Invoices {
    shop: Arc<Shop>,
    workspaces: Vec<WorkspaceId>,
    request: Request,
    next: AtomicU64,
}

impl Invoices {
    pub(crate) fn new(shop: &Arc<Shop>, workspaces: &[WorkspaceId]) -> Self {
        let (shop, workspaces) = (shop.clone(), workspaces.to_vec());
        Self { shop, workspaces, request: invoice(), next: AtomicU64::new(0) }
    }
}

impl Durable for Invoices {
    async fn write(&self, _writer: usize) -> anyhow::Result<()> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        // The factor is a prime: consecutive invoices are in distant workspaces, and all workspaces are used.
        let place = turn.wrapping_mul(7_919) % self.workspaces.len() as u64;
        let place = usize::try_from(place)?;
        self.shop.invoice(self.workspaces[place], &self.request).await
    }
}
