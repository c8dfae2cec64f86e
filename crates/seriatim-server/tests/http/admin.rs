//! Backup, doctor and unfence through a running server.

use std::path::Path;

use serde_json::json;
use seriatim_engine::Engine;
use seriatim_env::Env;
use seriatim_storage::Storage;
use seriatim_storage_file::{FileOptions, FileStorage, stage_restore};

use crate::server::{Server, Setup};

async fn open(directory: &Path) -> Server {
    let storage = FileStorage::open(&Env::real(), directory, FileOptions::default()).await.unwrap();
    Setup::on(Storage::new(storage)).start().await
}

#[tokio::test]
async fn a_restored_backup_is_fenced_and_continues_after_the_named_number() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup, copy) =
        (folder.path().join("data"), folder.path().join("backup"), folder.path().join("copy"));
    let server = open(&data).await;
    for _ in 0..3 {
        server.post("/v1/series/s/next", &json!({})).await;
    }
    let made = server.post("/v1/backup", &json!({"destination": backup})).await;
    assert_eq!(made.status, 200, "{made:?}");
    assert!(
        made.body["entries"].as_u64().unwrap() >= 3 && made.body["bytes"].as_u64().unwrap() > 0,
        "{made:?}"
    );
    let again = server.post("/v1/backup", &json!({"destination": backup})).await;
    let text =
        format!("{} is not empty: choose an empty folder or one that does not exist", backup.display());
    again.is_problem(400, "invalid", &text);
    server.post("/v1/series/s/next", &json!({})).await;
    server.stop().await;

    let env = Env::real();
    let staged = stage_restore(&env, &backup, &copy).await.unwrap();
    let storage = staged.open(FileOptions::default()).await.unwrap();
    Engine::fence(env.clone(), storage.log().clone(), storage.store().clone()).await.unwrap();
    storage.close().await.unwrap();
    staged.finish().await.unwrap();

    let server = open(&copy).await;
    let refused = server.post("/v1/series/s/next", &json!({})).await;
    let detail = refused.body["detail"].as_str().unwrap().to_owned();
    refused.is_problem(503, "fenced", &detail);
    let ready = server.get("/readyz").await;
    assert_eq!((ready.status, &ready.body["troubles"]), (503, &json!(["fenced"])), "{ready:?}");
    let mut apps: Vec<&str> = ready.body["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|partition| partition["app"].as_str().unwrap())
        .collect();
    apps.dedup();
    assert_eq!(apps, ["series", "workflows", "shop"], "all but the registry");
    assert_eq!(server.get("/v1/apps/shop/partitions").await.body[0]["status"], "fenced");
    let named = server.post("/v1/unfence", &json!({"highest": {"series/s": 4}})).await;
    assert_eq!(named.body, json!({"fenced": true, "free": ["series/s"]}), "{named:?}");
    assert_eq!(server.post("/v1/series/s/next", &json!({})).await.body["number"], 5);
    assert_eq!(server.post("/v1/series/t/next", &json!({})).await.status, 503);
    let all = server.post("/v1/unfence", &json!({"skip": 100})).await;
    assert_eq!(all.body, json!({"fenced": false, "free": []}), "{all:?}");
    assert_eq!(server.get("/readyz").await.status, 200);
    assert_eq!(server.post("/v1/series/t/next", &json!({})).await.body["number"], 1);
    server.stop().await;
}

#[tokio::test]
async fn the_doctor_runs_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path()).await;
    server.post("/v1/series/s/next", &json!({"count": 3})).await;
    for treatment in ["check", "repair", "rebuild"] {
        let report = server.post("/v1/doctor", &json!({"treatment": treatment})).await;
        assert_eq!((report.status, &report.body["clean"]), (200, &json!(true)), "{report:?}");
        assert!(report.body["events"].as_u64().unwrap() > 1 && report.body["values"].as_u64().unwrap() > 1);
        assert!(!folder.path().join("scratch").exists());
    }
    assert_eq!(
        server.post("/v1/doctor", &json!({})).await.body["mended"],
        true,
        "the default treatment is check"
    );
    assert_eq!(server.post("/v1/series/s/next", &json!({})).await.body["number"], 4);
    server.stop().await;
}
