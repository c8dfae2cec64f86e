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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// There is one recorder in a process: its servers share it.
static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();

/// A server on a port of its own, in memory, with the demo application and the demo workflows.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    engine: Engine,
    host: Option<WorkflowHost>,
    /// Whether runs of `vase` can continue.
    pub(crate) is_whole: Arc<AtomicBool>,
    stop: Shutdown,
    served: Task<std::io::Result<()>>,
}

/// What came back, as text.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Server {
    pub(crate) async fn start(env: &Env) -> Self {
        Self::start_with(env, true).await
    }

    /// One that runs no workflows.
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

    /// Stops answering, and begins again at the same address with the same data.
    pub(crate) async fn interrupt(&mut self, env: &Env) {
        self.halt().await;
        self.resume(env).await;
    }

    /// Stops answering. Connections to its address are refused.
    pub(crate) async fn halt(&mut self) {
        self.stop.cancel();
        (&mut self.served).await.unwrap().unwrap();
    }

    /// Begins again at the same address with the same data.
    pub(crate) async fn resume(&mut self, env: &Env) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.stop = Shutdown::new();
        self.served = serve(env, listener, &self.engine, self.host.as_ref(), &self.stop);
    }

    /// One request on a connection of its own.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let body = body.map(Value::to_string);
        if let Some(body) = &body {
            request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        request += "\r\n";
        request += body.as_deref().unwrap_or_default();
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.send("POST", path, &[], Some(body)).await;
        assert!((200..300).contains(&reply.status), "{path}: {}", reply.body);
        serde_json::from_str(&reply.body).unwrap()
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
