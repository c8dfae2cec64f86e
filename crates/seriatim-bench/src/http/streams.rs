//! Ten thousand open event streams of workspaces with almost no events.

use anyhow::ensure;

use super::connection::{Connection, follow, post};
use super::load::workspace;
use super::server::Server;
use crate::measure::Measure;
use crate::shop::invoice_json;
use crate::suite::Run;

const WORKSPACES: usize = 1_000;

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let count: usize = run.pick(2_000, 10_000);
    run.progress(&format!("{count} event streams"));
    let runtime = run.runtime()?;
    let directory = run.directory("streams-")?;
    let server = Server::start(run, "ours", directory.path())?;
    runtime.block_on(async {
        let mut own = Connection::open(server.address).await?;
        let mut workspaces = Vec::with_capacity(WORKSPACES);
        for _ in 0..WORKSPACES.min(count) {
            workspaces.push(workspace(&mut own).await?);
        }
        let before = server.resident()?;
        let mut streams = Vec::with_capacity(count);
        for i in 0..count {
            let mut stream = Connection::open(server.address).await?;
            let path = format!("/v1/apps/shop/workspaces/{}/events", workspaces[i % workspaces.len()]);
            let status = stream.begin(&follow(&path)).await?;
            ensure!(status == 200, "stream {i} was answered with {status}");
            streams.push(stream);
        }
        let open = server.resident()?;
        // Each stream must still work: it receives the one event of its workspace.
        for workspace in &workspaces {
            let path = format!("/v1/apps/shop/workspaces/{workspace}/commands");
            let answer = own.send(&post(&path, &invoice_json())).await?;
            ensure!(answer.status == 201, "{answer:?}");
        }
        for stream in &mut streams {
            stream.until("\"workspace_offset\":1").await?;
        }
        let sent = server.resident()?;
        #[expect(clippy::cast_precision_loss, reason = "kilobytes")]
        let each = |bytes: u64| bytes.saturating_sub(before) as f64 / count as f64 / 1e3;
        Ok(vec![
            Measure::new(format!("server's memory for each of {count} open event streams"), each(open), "kB"),
            Measure::new("the same, when each has sent an event", each(sent), "kB"),
        ])
    })
}
