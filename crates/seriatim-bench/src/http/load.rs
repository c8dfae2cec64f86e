//! Clients that make invoices, each on its own connection.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use super::connection::{Connection, post};
use crate::shop::invoice_json;
use crate::writers::Durable;

/// How long a client waits before it retries when the server is busy.
const BUSY_WAIT: Duration = Duration::from_millis(5);

/// One connection for each writer; all make invoices in the same workspace.
#[derive(Debug)]
pub(super) struct Clients {
    connections: Vec<Mutex<Connection>>,
    request: Vec<u8>,
    audit: String,
    address: SocketAddr,
}

/// Makes a workspace, and returns its id.
pub(super) async fn workspace(connection: &mut Connection) -> anyhow::Result<u64> {
    let answer = connection.send(&post("/v1/apps/shop/workspaces", r#"{"kind":"store"}"#)).await?;
    ensure!(answer.status == 201, "no workspace: {answer:?}");
    let answer: Value = serde_json::from_str(&answer.body)?;
    answer["id"].as_u64().context("a workspace without an id")
}

impl Clients {
    pub(super) fn open(runtime: &Runtime, address: SocketAddr, count: usize) -> anyhow::Result<Self> {
        runtime.block_on(async {
            let mut connections = Vec::with_capacity(count);
            for _ in 0..count {
                connections.push(Mutex::new(Connection::open(address).await?));
            }
            let workspace = workspace(&mut *connections[0].lock().await).await?;
            let path = format!("/v1/apps/shop/workspaces/{workspace}");
            let request = post(&format!("{path}/commands"), &invoice_json());
            let audit = format!("{path}/sequences/InvoiceNumber/audit");
            Ok(Self { connections, request, audit, address })
        })
    }

    /// Checks that the numbers are complete, and returns how many there are.
    pub(super) async fn check(&self) -> anyhow::Result<u64> {
        let request = format!("GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n", self.audit);
        let answer = Connection::open(self.address).await?.send(request.as_bytes()).await?;
        let audit: Value = serde_json::from_str(&answer.body)?;
        let (last, count) = (audit["last"].as_u64(), audit["count"].as_u64());
        ensure!(last == count && audit["gaps"] == serde_json::json!([]), "not gap-free: {}", answer.body);
        count.context("an audit without a count")
    }
}

impl Durable for Clients {
    async fn write(&self, writer: usize) -> anyhow::Result<()> {
        // Each writer has its own connection, so this lock never waits.
        let mut connection = self.connections[writer].lock().await;
        loop {
            let answer = connection.send(&self.request).await?;
            match answer.status {
                201 => return Ok(()),
                503 if answer.body.contains("\"busy\"") => tokio::time::sleep(BUSY_WAIT).await,
                _ => anyhow::bail!("the server answered {answer:?}"),
            }
        }
    }
}
