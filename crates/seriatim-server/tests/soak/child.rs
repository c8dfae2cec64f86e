//! The server process that the soak kills: a real port, real files, and the workflow code.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use seriatim_engine::{Engine, Options};
use seriatim_env::{Env, Shutdown};
use seriatim_server::Server;
use seriatim_storage_file::{FileOptions, FileStorage, LogOptions};
use seriatim_workflow_host::{HostOptions, WorkflowHost};
use tokio::net::TcpListener;

use crate::code;

pub(crate) fn file_options() -> FileOptions {
    // Small segments, so that kills also happen during the change from one segment to the next.
    let log = LogOptions { segment_bytes: 8 << 20, ..LogOptions::default() };
    FileOptions { log, free_bytes_min: 0, ..FileOptions::default() }
}

/// Small limits, so that most runs are rebuilt by replay and memory stays bounded by them.
fn host_options(limit: Duration) -> HostOptions {
    HostOptions {
        cached_instances: 20,
        cached_bytes: 8 << 20,
        workflow_threads: 2,
        activation_timeout: limit,
        abandoned_threads_max: 32,
        close_grace: Duration::from_millis(100),
        ..HostOptions::default()
    }
}

/// Serves until a line arrives on the standard input, or the input ends.
pub(crate) async fn serve(directory: &Path, limit: Duration) {
    let env = Env::real();
    let storage = FileStorage::open(&env, &directory.join("data"), file_options()).await.unwrap();
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let apps = [seriatim_workflow_host::app().unwrap()];
    let engine = Engine::open(env.clone(), log, store, apps, Options::default()).await.unwrap();
    let effects = OpenOptions::new().create(true).append(true).open(directory.join("effects")).unwrap();
    let (workflows, activities) = (code::workflows(limit), code::activities(effects));
    let host = WorkflowHost::open(env.clone(), engine.clone(), workflows, activities, host_options(limit));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), Shutdown::new());
    let server = Server::new(engine.clone()).workflows(host.clone());
    let served = env.spawn(server.serve(listener, stop.clone()));
    std::io::stdout().lock().write_all(format!("listens on {address}\n").as_bytes()).unwrap();
    env.blocking(|| std::io::stdin().read_line(&mut String::new()).unwrap()).await;
    stop.cancel();
    served.await.unwrap().unwrap();
    host.close().await;
    engine.close().await;
    storage.close().await.unwrap();
}
