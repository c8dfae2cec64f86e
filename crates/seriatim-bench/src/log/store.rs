//! The store: buffered batched writes and gets, compared with plain fjall.

use std::cell::Cell;
use std::time::Instant;

use anyhow::ensure;
use tokio::runtime::Runtime;

use super::pairs::{self, Pairs};
use super::storage;
use crate::measure::Measure;
use crate::peer::PlainFjall;
use crate::sample::medians;
use crate::suite::Run;

const PEER: &str = "plain fjall";
const VALUE_BYTES: usize = 200;
/// Keys of one `get_many`: the loads of 64 waiting commands.
const TOGETHER: u32 = 64;

/// Writes, then reads what was written.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("store");
    let (rounds, writes, gets) = run.pick((3, 50_000, 10_000), (7, 200_000, 50_000));
    let runtime = run.runtime()?;
    let directory = run.directory("store-")?;
    let storage = runtime.block_on(storage::open(&directory.path().join("ours")))?;
    let (ours, fjall) = (storage.store(), PlainFjall::open(&directory.path().join("fjall"))?);

    let (our_next, peer_next) = (Cell::new(0), Cell::new(0));
    let written = medians(
        rounds,
        [&mut || write(&runtime, ours, &our_next, writes), &mut || {
            write(&runtime, &fjall, &peer_next, writes)
        }],
    )?;
    let stored = our_next.get();
    let got = medians(
        rounds,
        [&mut || get(&runtime, ours, stored, gets), &mut || get(&runtime, &fjall, stored, gets)],
    )?;
    let together = medians(
        rounds,
        [&mut || get_together(&runtime, ours, stored, gets), &mut || {
            get_together(&runtime, &fjall, stored, gets)
        }],
    )?;
    runtime.block_on(storage.close())?;

    let measure =
        |name: String, [ours, peer]: [f64; 2]| Measure::new(name, ours, "1/s").compared_with(PEER, peer);
    Ok(vec![
        measure(format!("buffered writes in batches of {}", pairs::BATCH_PAIRS), written),
        measure("gets, one by one".to_owned(), got),
        measure(format!("gets, {TOGETHER} together"), together),
    ])
}

fn write(runtime: &Runtime, target: &impl Pairs, next: &Cell<u64>, count: u32) -> anyhow::Result<f64> {
    let first = next.get();
    next.set(first + u64::from(count));
    let started = Instant::now();
    runtime.block_on(pairs::fill(target, first..next.get(), VALUE_BYTES))?;
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

/// Existing pairs, spread over the whole store.
fn spread(stored: u64, count: u32) -> impl Iterator<Item = u64> {
    (0..u64::from(count)).map(move |i| i.wrapping_mul(7_919) % stored)
}

fn get(runtime: &Runtime, target: &impl Pairs, stored: u64, count: u32) -> anyhow::Result<f64> {
    let started = Instant::now();
    runtime.block_on(async {
        for pair in spread(stored, count) {
            ensure!(target.has(pair).await?, "pair {pair} is lost");
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    })
}

fn get_together(runtime: &Runtime, target: &impl Pairs, stored: u64, count: u32) -> anyhow::Result<f64> {
    let (calls, together) = (count / TOGETHER, u64::from(TOGETHER));
    let started = Instant::now();
    runtime.block_on(async {
        for pair in spread(stored - together, calls) {
            ensure!(target.has_all(pair..pair + together).await?, "a pair from {pair} on is lost");
        }
        Ok(f64::from(calls * TOGETHER) / started.elapsed().as_secs_f64())
    })
}
