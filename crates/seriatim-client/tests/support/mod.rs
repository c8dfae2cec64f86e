//! Servers for tests, each on its own port.
#![allow(dead_code, reason = "each test uses some of it")]

use std::net::SocketAddr;
use std::time::Duration;

use seriatim_client::{Client, ClientOptions};
use seriatim_engine::definition::shop;
use seriatim_engine::{App, Engine, Options};
use seriatim_env::{Env, Shutdown, Task};
use seriatim_server::{ServerOptions, serve};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_workflow::Registry;
use seriatim_workflow_host::{HostOptions, WorkflowHost, demo};
use tokio::net::TcpListener;

/// A storage in memory that outlives the servers on it.
pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) store: Store,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    host: Option<WorkflowHost>,
    stop: Shutdown,
    served: Task<std::io::Result<()>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let env = Env::real();
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        Self { env, log, store }
    }

    /// Starts a server, at a given address or on any free port.
    pub(crate) async fn start(&self, at: Option<SocketAddr>) -> Server {
        self.start_with(at, Options::default()).await
    }

    /// Starts a server that runs these workflows, with the activities of the demo.
    pub(crate) async fn start_with_workflows(&self, workflows: Registry) -> Server {
        let engine = self.open(Options::default()).await;
        let (env, options) = (self.env.clone(), HostOptions::default());
        let host = WorkflowHost::open(env, engine.clone(), workflows, demo::activities(), options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Shutdown::new());
        let serving = seriatim_server::Server::new(engine.clone()).workflows(host.clone());
        let served = self.env.spawn(serving.serve(listener, stop.clone()));
        Server { address, engine, host: Some(host), stop, served }
    }

    async fn open(&self, options: Options) -> Engine {
        let (env, log, store) = (self.env.clone(), self.log.clone(), self.store.clone());
        let apps = [seriatim_workflow_host::app().unwrap(), App::new(shop())];
        let engine = Engine::open(env, log, store, apps, options).await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        engine
    }

    pub(crate) async fn start_with(&self, at: Option<SocketAddr>, options: Options) -> Server {
        let engine = self.open(options).await;
        let listener = loop {
            let bound = TcpListener::bind(at.unwrap_or(([127, 0, 0, 1], 0).into())).await;
            match bound {
                Ok(listener) => break listener,
                // The system has not freed the port yet.
                Err(_) => self.env.sleep(Duration::from_millis(20)).await,
            }
        };
        let (address, stop) = (listener.local_addr().unwrap(), Shutdown::new());
        let served =
            self.env.spawn(serve(listener, engine.clone(), None, ServerOptions::default(), stop.clone()));
        Server { address, engine, host: None, stop, served }
    }
}

impl Server {
    pub(crate) fn client(&self, env: &Env) -> Client {
        self.client_with(env, ClientOptions::default())
    }

    pub(crate) fn client_with(&self, env: &Env, options: ClientOptions) -> Client {
        let url = format!("http://{}", self.address).parse().unwrap();
        Client::connect(env.clone(), url, options).unwrap()
    }

    /// Stops it as SIGTERM would.
    pub(crate) async fn stop(self) -> SocketAddr {
        self.stop.cancel();
        self.served.await.unwrap().unwrap();
        if let Some(host) = self.host {
            host.close().await;
        }
        self.engine.close().await;
        self.address
    }
}
