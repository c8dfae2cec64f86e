//! A server in this process, and requests to it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::Value;
use seriatim_engine::definition::{Application, shop};
use seriatim_engine::{App, Engine, Options};
use seriatim_env::{Env, Shutdown, Task};
use seriatim_server::{Server as Runner, ServerOptions};
use seriatim_storage::memory::MemoryStorage;
use seriatim_storage::{Log, Storage, Store};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The parts of a server, for tests that replace some of them.
pub(crate) struct Setup {
    pub(crate) options: ServerOptions,
    pub(crate) engine: Options,
    pub(crate) application: Application,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) storage: Option<Storage>,
    pub(crate) metrics: Option<PrometheusHandle>,
    pub(crate) routes: Option<axum::Router>,
    /// Whether to wait until every partition can give out numbers.
    pub(crate) ready: bool,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let storage = Storage::new(MemoryStorage::new());
        let (log, store) = (storage.log().clone(), storage.store().clone());
        let storage = Some(storage);
        let (options, engine) = (ServerOptions::default(), Options::default());
        let application = shop();
        Self { options, engine, application, log, store, storage, metrics: None, routes: None, ready: true }
    }

    pub(crate) fn on(storage: Storage) -> Self {
        let (log, store) = (storage.log().clone(), storage.store().clone());
        Self { log, store, storage: Some(storage), ..Self::new() }
    }

    pub(crate) async fn start(self) -> Server {
        let env = Env::real();
        let apps = [seriatim_workflow_host::app().unwrap(), App::new(self.application)];
        let engine = Engine::open(env.clone(), self.log, self.store, apps, self.engine).await.unwrap();
        if self.ready {
            assert!(engine.wait_ready(Duration::from_secs(60)).await);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Shutdown::new());
        let mut server = Runner::new(engine.clone()).options(self.options).metrics(self.metrics);
        let storage = self.storage.map(Arc::new);
        if let Some(storage) = &storage {
            server = server.storage(storage.clone());
        }
        if let Some(routes) = self.routes {
            server = server.routes(routes);
        }
        let served = env.spawn(server.serve(listener, stop.clone()));
        Server { env, engine, address, stop, served, storage }
    }
}

/// A server on its own port, with the demo application.
pub(crate) struct Server {
    pub(crate) env: Env,
    pub(crate) engine: Engine,
    pub(crate) address: SocketAddr,
    pub(crate) stop: Shutdown,
    pub(crate) served: Task<std::io::Result<()>>,
    pub(crate) storage: Option<Arc<Storage>>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Asserts that this is the problem document with this code and detail.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str, detail: &str) {
        let found = (self.status, self.body["code"].as_str(), self.body["detail"].as_str());
        assert_eq!(found, (status, Some(code), Some(detail)), "{self:?}");
        assert_eq!(self.body["status"], status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let retryable = matches!(code, "busy" | "unavailable" | "in_doubt");
        assert_eq!(self.body["retryable"], retryable, "{self:?}");
        assert!(self.body["title"].is_string());
        assert_eq!(self.header("retry-after"), (code == "busy").then_some("1"), "{self:?}");
        assert!(self.header("x-request-id").is_some());
    }
}

/// The text of a request that uses its own connection.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> String {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    for (name, value) in headers {
        write!(request, "{name}: {value}\r\n").unwrap();
    }
    if let Some(body) = body {
        let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if !has_type {
            request += "Content-Type: application/json\r\n";
        }
        write!(request, "Content-Length: {}\r\n", body.len()).unwrap();
    }
    request + "\r\n" + body.unwrap_or_default()
}

/// Sends a request and reads the whole answer.
pub(crate) async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Reply {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, text) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = serde_json::from_str(text).unwrap_or(Value::Null);
    Reply { status, head: head.to_lowercase(), text: text.to_owned(), body }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Setup::new().start().await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Reply {
        exchange(self.connect().await, &request(method, path, headers, body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], Some(&body.to_string())).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, &[], Some(&body.to_string())).await
    }

    /// Sends a request in the background; the task returns the answer.
    pub(crate) fn post_later(&self, path: &str, body: &Value) -> Task<Reply> {
        let (address, request) = (self.address, request("POST", path, &[], Some(&body.to_string())));
        self.env.spawn(async move { exchange(TcpStream::connect(address).await.unwrap(), &request).await })
    }

    /// A workspace of the shop, by its path.
    pub(crate) async fn shop(&self) -> String {
        let create = serde_json::json!({"kind": "store", "name": "corner"});
        let created = self.post("/v1/apps/shop/workspaces", &create).await;
        format!("/v1/apps/shop/workspaces/{}", created.body["id"])
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.served.await.unwrap().unwrap();
        self.engine.close().await;
        // The caller that opened the storage can close it.
        let held = self.storage.map_or(1, |storage| Arc::strong_count(&storage));
        assert_eq!(held, 1, "the server has released the storage");
    }
}

/// Reads until a text has arrived; panics if the connection ends before that.
pub(crate) async fn read_until(stream: &mut (impl AsyncRead + Unpin), wanted: &str) -> String {
    let mut text = String::new();
    let mut bytes = [0; 65_536];
    loop {
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "{wanted} did not arrive: {text}");
        // Only the new part is searched: the text may be long.
        let from = text.len().saturating_sub(wanted.len());
        text += std::str::from_utf8(&bytes[..count]).unwrap();
        if text[from..].contains(wanted) {
            return text;
        }
    }
}
