//! How many durable runs of one activity a second this machine does, on files: `cargo run --release --example runs`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seriatim_engine::{Engine, Options};
use seriatim_env::Env;
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_workflow_host::{HostOptions, StartRequest, WorkflowHost, demo};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let in_flight = arguments.next().transpose()?.unwrap_or(64);
    let runs = arguments.next().transpose()?.unwrap_or(20_000);
    let (env, directory) = (Env::real(), tempfile::tempdir()?);
    let storage = FileStorage::open(&env, directory.path(), FileOptions::default()).await?;
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let engine = Engine::open(env.clone(), log, store, [], Options::default()).await?;
    let options = HostOptions::default();
    let host =
        WorkflowHost::open(env.clone(), engine.clone(), demo::workflows(), demo::activities(), options);
    let (started, next) = (env.instant(), Arc::new(AtomicUsize::new(0)));
    let clients = (0..in_flight).map(|_| {
        let (host, next) = (host.clone(), next.clone());
        env.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= runs {
                    return Ok(());
                }
                let request = StartRequest::new("greet").id(format!("g{number}"));
                let request = request.input("Ada").map_err(|error| error.to_string())?;
                host.start(request).await.map_err(|error| error.to_string())?;
                host.result::<String>(&format!("g{number}")).await.map_err(|error| error.to_string())?;
            }
        })
    });
    for client in clients.collect::<Vec<seriatim_env::Task<Result<(), String>>>>() {
        client.await??;
    }
    let seconds = (env.instant() - started).as_secs_f64();
    println!("{runs} runs, {in_flight} in flight: {:.0} runs/s", runs as f64 / seconds);
    host.close().await;
    engine.close().await;
    Ok(storage.close().await?)
}
