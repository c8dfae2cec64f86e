//! A server in this process, and requests to it.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::Value;
use seriatim_engine::definition::shop;
use seriatim_engine::{App, Engine, Options};
use seriatim_env::{Env, Shutdown, Task};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_workflow::Context;
use seriatim_workflow_host::{HostOptions, WorkflowHost, demo};
use tokio::net::{TcpListener, TcpStream};

use crate::http_server::{Reply, exchange, request};

/// A process has one recorder of metrics: all servers in it share it.
static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();

/// A server on its own port, in memory, with the demo application and the demo workflows.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    engine: Engine,
    host: Option<WorkflowHost>,
    /// Whether runs of `vase` can continue.
    pub(crate) is_whole: Arc<AtomicBool>,
    stop: Shutdown,
    served: Task<std::io::Result<()>>,
}

impl Server {
    pub(crate) async fn start(env: &Env) -> Self {
        Self::start_with(env, true).await
    }

    /// A server that runs no workflows.
    pub(crate) async fn start_without_workflows(env: &Env) -> Self {
        Self::start_with(env, false).await
    }

    async fn start_with(env: &Env, runs_workflows: bool) -> Self {
        METRICS.get_or_init(|| PrometheusBuilder::new().install_recorder().unwrap());
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let apps = [seriatim_workflow_host::app().unwrap(), App::new(shop())];
        let engine = Engine::open(env.clone(), log, store, apps, Options::default());
        let engine = engine.await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        let is_whole = Arc::new(AtomicBool::new(false));
        let host = runs_workflows.then(|| {
            let whole = is_whole.clone();
            let vase = move |_: Context, (): ()| crate::basket::vase(whole.clone());
            let workflows =
                demo::workflows().workflow("basket", crate::basket::basket).workflow("vase", vase);
            let activities = demo::activities();
            WorkflowHost::open(env.clone(), engine.clone(), workflows, activities, HostOptions::default())
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Shutdown::new());
        let served = serve(env, listener, &engine, host.as_ref(), &stop);
        Self { address, engine, host, is_whole, stop, served }
    }

    /// Stops the server, and starts it again at the same address with the same data.
    pub(crate) async fn interrupt(&mut self, env: &Env) {
        self.halt().await;
        self.resume(env).await;
    }

    /// Stops the server. Connections to its address are refused.
    pub(crate) async fn halt(&mut self) {
        self.stop.cancel();
        (&mut self.served).await.unwrap().unwrap();
    }

    /// Starts the server again at the same address with the same data.
    pub(crate) async fn resume(&mut self, env: &Env) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.stop = Shutdown::new();
        self.served = serve(env, listener, &self.engine, self.host.as_ref(), &self.stop);
    }

    /// One request on its own connection.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let request = request(method, path, headers, body.map(Value::to_string).as_deref());
        exchange(TcpStream::connect(self.address).await.unwrap(), &request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.send("POST", path, &[], Some(body)).await;
        assert!((200..300).contains(&reply.status), "{path}: {}", reply.text);
        reply.body
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.served.await.unwrap().unwrap();
        if let Some(host) = self.host {
            host.close().await;
        }
        self.engine.close().await;
    }
}

fn serve(
    env: &Env,
    listener: TcpListener,
    engine: &Engine,
    host: Option<&WorkflowHost>,
    stop: &Shutdown,
) -> Task<std::io::Result<()>> {
    let mut server = seriatim_server::Server::new(engine.clone()).metrics(METRICS.get().cloned());
    if let Some(host) = host {
        server = server.workflows(host.clone());
    }
    env.spawn(server.serve(listener, stop.clone()))
}
