//! Requests to a server that is restarted repeatedly.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use seriatim_env::Env;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A request without an answer after this time has failed.
const REQUEST_WAIT_MAX: Duration = Duration::from_secs(40);

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) env: Env,
    address: Arc<Mutex<SocketAddr>>,
}

impl Client {
    pub(crate) fn new(env: &Env, address: SocketAddr) -> Self {
        Self { env: env.clone(), address: Arc::new(Mutex::new(address)) }
    }

    /// Sets the address of the restarted server.
    pub(crate) fn set_address(&self, address: SocketAddr) {
        *self.address.lock().unwrap() = address;
    }

    /// Status and body; `None` if no complete answer arrived.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        if let Some(key) = key {
            write!(request, "Idempotency-Key: {key}\r\n").unwrap();
        }
        if let Some(body) = body.map(Value::to_string) {
            let length = body.len();
            let head = "Content-Type: application/json\r\nContent-Length";
            write!(request, "{head}: {length}\r\n\r\n{body}").unwrap();
        } else {
            request += "\r\n";
        }
        let address = *self.address.lock().unwrap();
        let answer = self.env.timeout(REQUEST_WAIT_MAX, exchange(address, request)).await.ok()?.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        // An incomplete answer does not count.
        let whole = head.lines().any(|line| {
            let length = line.to_ascii_lowercase();
            length.strip_prefix("content-length: ").is_some_and(|length| length == body.len().to_string())
        });
        whole.then(|| (status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }

    /// Repeats the request until the answer is final.
    pub(crate) async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
        loop {
            match self.send("POST", path, key, Some(body)).await {
                Some((503, answer)) if is_stuck(&answer) => return (503, answer),
                None | Some((503 | 504, _)) => self.pause().await,
                Some(answer) => return answer,
            }
        }
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        loop {
            match self.send("GET", path, None, None).await {
                None | Some((503 | 504, _)) => self.pause().await,
                Some(answer) => return answer,
            }
        }
    }

    async fn pause(&self) {
        self.env.sleep(Duration::from_millis(50)).await;
    }
}

/// Whether the answer says that the run is stuck.
pub(crate) fn is_stuck(answer: &Value) -> bool {
    answer["detail"].as_str().is_some_and(|detail| detail.contains(" is stuck: "))
}

async fn exchange(address: SocketAddr, request: String) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
