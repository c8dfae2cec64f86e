//! Durable appends of many waiting writers, compared with a bare preallocated file with the same grouping.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use seriatim_storage::{Entries, Log, Owner};
use seriatim_types::sync::Mutex;
use seriatim_types::{Partition, PartitionOffset};

use super::{events, storage};
use crate::measure::{Goal, Measure};
use crate::peer::BareFile;
use crate::sample::{median, rounds};
use crate::suite::Run;
use crate::writers::{Driven, Durable, drive};

const APPLICATION: u32 = 1;

/// Measures each combination of writers and partitions.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for partitions in [1, 16] {
        for writers in [1, 8, 64, 1_024] {
            measures.extend(compare(run, writers, partitions)?);
        }
    }
    Ok(measures)
}

fn compare(run: &Run, writers: usize, partitions: u16) -> anyhow::Result<Vec<Measure>> {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (s, ps) = (plural(writers), plural(partitions.into()));
    let what = format!("{writers} writer{s} on {partitions} partition{ps}");
    run.progress(&format!("appends, {what}"));
    let duration = Duration::from_millis(run.pick(100, 500));
    let runtime = run.runtime()?;
    let directory = run.directory("appends-")?;
    let storage = runtime.block_on(storage::open(&directory.path().join("ours")))?;
    let ours = Arc::new(runtime.block_on(Appends::take(storage.log(), partitions))?);
    let file = Arc::new(BareFileWriters {
        file: BareFile::create(&directory.path().join("bare"))?,
        bytes: ours.owned[0].entries.as_bytes().to_vec(),
    });

    let [our_rounds, peer_rounds] = rounds(
        run.pick(5, 15),
        [&mut || drive(&runtime, &ours, writers, duration), &mut || {
            drive(&runtime, &file, writers, duration)
        }],
    )?;
    runtime.block_on(storage.close())?;

    let measure = |name: &str, unit, value: fn(&Driven) -> f64| {
        let [ours, peer] =
            [&our_rounds, &peer_rounds].map(|rounds| median(&rounds.iter().map(value).collect::<Vec<_>>()));
        Measure::new(format!("{name}, {what}"), ours, unit).compared_with("bare file", peer)
    };
    let rate = measure("durable appends", "1/s", |driven| driven.per_second);
    if writers < 64 {
        return Ok(vec![rate]);
    }
    Ok(vec![
        rate.goal(Goal::RatioAtLeast(0.85)),
        measure("p99 of an append", "ms", |driven| driven.latencies.quantile_ms(0.99)),
        measure("processor time of an append", "µs", |driven| driven.cpu_us),
    ])
}

/// Ours: every writer has a partition, and all writers of a partition share its owner.
struct Appends {
    log: Log,
    owned: Vec<OwnedPartition>,
}

/// One partition and the entries that are appended to it repeatedly.
struct OwnedPartition {
    owner: Owner,
    entries: Entries,
    next: Mutex<PartitionOffset>,
}

impl Appends {
    async fn take(log: &Log, partitions: u16) -> anyhow::Result<Self> {
        let partitions: Vec<_> = (0..partitions).map(|id| Partition::new(APPLICATION, id)).collect();
        let owners = log.take_all(&partitions).await?;
        let own = |owner: Owner| {
            Ok(OwnedPartition {
                entries: events::entries(owner.next_append_id(), 1)?,
                next: Mutex::new(owner.tail()),
                owner,
            })
        };
        Ok(Self { log: log.clone(), owned: owners.into_iter().map(own).collect::<anyhow::Result<_>>()? })
    }

    /// Submits an append at the next offset of a partition; other writers may submit before it is answered.
    fn submit(
        &self,
        partition: &OwnedPartition,
    ) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + Send + use<>> {
        let mut next = partition.next.lock();
        let answer = self.log.append(&partition.owner, *next, &partition.entries);
        *next = next.next().context("the offsets end")?;
        Ok(async move {
            answer.await?;
            Ok(())
        })
    }
}

impl Durable for Appends {
    async fn write(&self, writer: usize) -> anyhow::Result<()> {
        self.submit(&self.owned[writer % self.owned.len()])?.await
    }
}

/// The peer: the same bytes to the end of one file.
struct BareFileWriters {
    file: BareFile,
    bytes: Vec<u8>,
}

impl Durable for BareFileWriters {
    async fn write(&self, _writer: usize) -> anyhow::Result<()> {
        self.file.append(&self.bytes).await
    }
}
