//! Durable gap-free commands compared with a bare file, with a file and fjall, and with PostgreSQL.

mod compare_file;
mod compare_postgres;
mod file_then_fjall;
mod profile;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use seriatim_types::WorkspaceId;
use tokio::runtime::Runtime;

use crate::measure::Measure;
use crate::shop::{Invoices, Shop, invoice};
use crate::suite::{Run, Suite};

pub(crate) const SUITE: Suite = Suite {
    name: "engine",
    about: "durable gap-free commands compared with a bare file and with PostgreSQL",
    run,
    child: Some(profile::child),
};

/// The contestants: all of them make invoices in one shop.
struct Contestants {
    shop: Arc<Shop>,
    hot: Arc<Invoices>,
    thousand: Arc<Invoices>,
    many: Arc<Invoices>,
    many_count: u64,
    /// The bytes of an event in the log.
    event: Vec<u8>,
}

impl Contestants {
    fn open(run: &Run, runtime: &Runtime, directory: &Path) -> anyhow::Result<Self> {
        let many_count = run.pick(20_000, 100_000);
        run.progress(&format!("{many_count} workspaces are made"));
        runtime.block_on(async {
            let shop = Arc::new(Shop::open(directory).await?);
            shop.ready().await?;
            let workspaces = shop.workspaces(many_count + 1).await?;
            let (hot, many) = workspaces.split_first().context("no workspace")?;
            shop.invoice(*hot, &invoice()).await?;
            let event = shop.event_bytes(*hot).await?;
            let invoices = |workspaces: &[WorkspaceId]| Arc::new(Invoices::new(&shop, workspaces));
            Ok(Self {
                hot: invoices(&[*hot]),
                thousand: invoices(&many[..1_000]),
                many: invoices(many),
                many_count,
                event,
                shop,
            })
        })
    }
}

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let runtime = run.runtime()?;
    let directory = run.directory("engine-")?;
    let contestants = Contestants::open(run, &runtime, &directory.path().join("ours"))?;
    let mut measures = compare_file::measure(run, &runtime, &contestants, directory.path())?;
    measures.extend(compare_postgres::measure(run, &runtime, &contestants)?);
    runtime.block_on(contestants.shop.close())?;
    Ok(measures)
}
