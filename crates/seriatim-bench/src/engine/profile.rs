//! One load without comparisons, for a profiler: `perf record seriatim-bench engine --child DIR WORKSPACES IN_FLIGHT SECONDS`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;

use crate::shop::{Invoices, Shop};
use crate::suite;
use crate::writers::drive;

/// Makes the workspaces in an empty directory and lets writers use them.
#[expect(clippy::print_stdout, reason = "the user of the profiler reads it")]
pub(super) fn child(words: &[String]) -> anyhow::Result<()> {
    let [directory, workspaces, in_flight, seconds] = words else {
        bail!("the process takes four arguments, not {}", words.len());
    };
    let (workspaces, in_flight, seconds) = (workspaces.parse()?, in_flight.parse()?, seconds.parse()?);
    let runtime = suite::runtime()?;
    let (shop, invoices) = runtime.block_on(async {
        let shop = Arc::new(Shop::open(Path::new(directory)).await?);
        shop.ready().await?;
        let made = shop.workspaces(workspaces).await?;
        let invoices = Arc::new(Invoices::new(&shop, &made));
        anyhow::Ok((shop, invoices))
    })?;
    let driven = drive(&runtime, &invoices, in_flight, Duration::from_secs(seconds))?;
    let (p50, p999) = (driven.latencies.quantile_ms(0.5), driven.latencies.quantile_ms(0.999));
    println!(
        "{:.0}/s, {:.1} µs of processor time each, p50 {p50:.2} ms, p99.9 {p999:.2} ms",
        driven.per_second, driven.cpu_us
    );
    runtime.block_on(shop.close())
}
