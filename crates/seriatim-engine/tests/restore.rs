//! Backup, restore and loss of the store, on real files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use seriatim_engine::definition::shop;
use seriatim_engine::{
    App, AsyncProjector, Change, Engine, NextRequest, Options, Projected, Request, SubmitError, Unfence,
};
use seriatim_env::Env;
use seriatim_storage_file::{FileOptions, FileStorage, stage_restore};
use seriatim_types::{ErrorKind, WorkspaceId};

async fn open(env: &Env, directory: &Path) -> (FileStorage, Engine) {
    open_app(env, directory, App::new(shop())).await
}

async fn open_app(env: &Env, directory: &Path, app: App) -> (FileStorage, Engine) {
    let storage = FileStorage::open(env, directory, FileOptions::default()).await.unwrap();
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let engine = Engine::open(env.clone(), log, store, [app], Options::default()).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    (storage, engine)
}

async fn invoice(engine: &Engine, workspace: WorkspaceId) -> Result<i64, SubmitError> {
    let request = Request::changes([Change::create("Invoice", 1).field("total", "1")]);
    let answer = engine.submit("shop", workspace, &request).await?;
    Ok(answer.number(1, "number").unwrap())
}

async fn next(engine: &Engine, series: &str) -> Result<u64, SubmitError> {
    Ok(engine.series().next(series, &NextRequest::default()).await?.number)
}

#[tokio::test]
async fn a_restored_copy_issues_nothing_until_somebody_says_how_far_it_got() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup, copy) =
        (folder.path().join("data"), folder.path().join("backup"), folder.path().join("copy"));
    let env = Env::real();
    let (storage, engine) = open(&env, &data).await;
    let corner = engine.create_workspace("shop", "store", Some("corner")).await.unwrap().0.id;
    engine.blocks().put("orders", 1, 100).await.unwrap();
    let taken = engine.blocks().allocate("orders", 10).await.unwrap();
    for number in 1..=5 {
        assert_eq!(invoice(&engine, corner).await.unwrap(), number);
        assert_eq!(next(&engine, "receipts").await.unwrap(), number.cast_unsigned());
    }
    storage.backup(&backup).await.unwrap();
    // Given out after the backup: the copy does not know of these.
    for number in 6..=8 {
        assert_eq!(invoice(&engine, corner).await.unwrap(), number);
    }
    engine.close().await;
    storage.close().await.unwrap();

    let staged = stage_restore(&env, &backup, &copy).await.unwrap();
    let storage = staged.open(FileOptions::default()).await.unwrap();
    Engine::fence(env.clone(), storage.log().clone(), storage.store().clone()).await.unwrap();
    storage.close().await.unwrap();
    staged.finish().await.unwrap();

    let (storage, engine) = open(&env, &copy).await;
    assert_eq!(invoice(&engine, corner).await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(next(&engine, "receipts").await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(engine.blocks().allocate("orders", 1).await.unwrap_err().kind(), ErrorKind::Fenced);
    let created = engine.create_workspace("shop", "store", None).await;
    assert_eq!(created.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(engine.audit("shop", corner, "InvoiceNumber").await.unwrap().numbers.count, 5, "it reads");

    engine.unfence(&Unfence::Skip(10)).await.unwrap();
    assert_eq!(invoice(&engine, corner).await.unwrap(), 16, "five were known, ten are skipped");
    let audit = engine.audit("shop", corner, "InvoiceNumber").await.unwrap();
    assert!(audit.is_complete(), "{audit:?}");
    let raise = &audit.numbers.raises.list[0];
    assert_eq!((raise.from.get(), raise.to.get()), (6, 16), "the gap is explained");
    assert_eq!(next(&engine, "receipts").await.unwrap(), 16);
    let more = engine.blocks().allocate("orders", 1).await.unwrap();
    assert!(more.first >= taken.first + taken.count + 10, "{more:?}");
    engine.close().await;
    storage.close().await.unwrap();
}

#[tokio::test]
async fn without_its_store_the_engine_comes_back_from_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::real();
    let (storage, engine) = open(&env, folder.path()).await;
    let corner = engine.create_workspace("shop", "store", Some("corner")).await.unwrap().0.id;
    for number in 1..=20 {
        assert_eq!(invoice(&engine, corner).await.unwrap(), number);
    }
    engine.blocks().put("orders", 1, 100).await.unwrap();
    let taken = engine.blocks().allocate("orders", 10).await.unwrap();
    let keyed =
        Request::changes([Change::create("Customer", 1).field("name", "Ada")]).idempotency_key("once");
    let first = engine.submit("shop", corner, &keyed).await.unwrap();
    let records = engine.records("shop", corner, "Invoice", None, 100).await.unwrap();
    engine.close().await;
    storage.close().await.unwrap();

    FileStorage::discard_store(&env, folder.path()).await.unwrap();
    let (storage, engine) = open(&env, folder.path()).await;
    assert_eq!(engine.records("shop", corner, "Invoice", None, 100).await.unwrap(), records);
    let again = engine.submit("shop", corner, &keyed).await.unwrap();
    assert!(again.repeated);
    assert_eq!(again.ids, first.ids);
    assert_eq!(invoice(&engine, corner).await.unwrap(), 21);
    assert_eq!(engine.create_workspace("shop", "store", Some("corner")).await.unwrap().0.id, corner);
    let more = engine.blocks().allocate("orders", 1).await.unwrap();
    assert!(more.first >= taken.first + taken.count, "{more:?}");
    engine.close().await;
    storage.close().await.unwrap();
}

/// Remembers which events it was given, by their place in the workspace.
#[derive(Debug, Clone, Default)]
struct Mail(Arc<Mutex<Vec<u64>>>);

#[async_trait]
impl AsyncProjector for Mail {
    fn name(&self) -> &str {
        "mail"
    }

    async fn take(&self, event: Projected<'_>) -> Result<(), String> {
        self.0.lock().unwrap().push(event.place.workspace_offset.get());
        Ok(())
    }
}

impl Mail {
    async fn sent(&self, env: &Env, count: usize) {
        while self.0.lock().unwrap().len() < count {
            env.sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn what_was_handed_over_before_a_backup_is_not_handed_over_by_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let [data, backup, copy] = ["data", "backup", "copy"].map(|name| folder.path().join(name));
    let (env, mail) = (Env::real(), Mail::default());
    let app = || App::new(shop()).async_projector(mail.clone());
    let (storage, engine) = open_app(&env, &data, app()).await;
    let corner = engine.create_workspace("shop", "store", Some("corner")).await.unwrap().0.id;
    for _ in 0..5 {
        invoice(&engine, corner).await.unwrap();
    }
    mail.sent(&env, 5).await;
    engine.close().await;
    storage.backup(&backup).await.unwrap();
    storage.close().await.unwrap();

    let staged = stage_restore(&env, &backup, &copy).await.unwrap();
    let storage = staged.open(FileOptions::default()).await.unwrap();
    Engine::fence(env.clone(), storage.log().clone(), storage.store().clone()).await.unwrap();
    storage.close().await.unwrap();
    staged.finish().await.unwrap();
    let (storage, engine) = open_app(&env, &copy, app()).await;
    engine.unfence(&Unfence::Complete).await.unwrap();
    invoice(&engine, corner).await.unwrap();
    mail.sent(&env, 6).await;
    engine.close().await;
    storage.close().await.unwrap();
    assert_eq!(*mail.0.lock().unwrap(), [1, 2, 3, 4, 5, 6]);
}
