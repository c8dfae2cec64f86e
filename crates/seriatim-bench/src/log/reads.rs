//! The log read from its beginning to its end, compared with a bare read of the same files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use seriatim_storage::{Log, ReadLimit};
use seriatim_types::{Partition, PartitionOffset};

use super::{events, storage};
use crate::measure::{Goal, Measure};
use crate::sample::medians;
use crate::suite::Run;

const PARTITION: Partition = Partition::new(1, 0);
/// Entries of one append while the log is filled, and so of one frame: as many as many waiting writers would write together.
const APPEND_ENTRIES: usize = 500;
/// The size of one read. Larger answers are slower: their memory is returned to the system and allocated again.
const LIMIT: ReadLimit = ReadLimit { entries: usize::MAX, bytes: CHUNK_BYTES };
const CHUNK_BYTES: usize = 256 << 10;

/// Reads everything through the port, and everything as plain bytes.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let bytes = run.pick(100 << 20, 1600 << 20);
    run.progress("reads");
    let runtime = run.runtime()?;
    let directory = run.directory("reads-")?;
    let storage = runtime.block_on(storage::open(directory.path()))?;
    let events = runtime.block_on(async {
        let owner = storage.log().take(PARTITION).await?;
        events::fill(storage.log(), &owner, bytes, APPEND_ENTRIES).await
    })?;
    let files = segments(directory.path())?;

    // The round that warms up brings all pages into memory.
    let [ours, bare] = medians(
        run.pick(3, 5),
        [
            &mut || {
                let started = Instant::now();
                let read = runtime.block_on(read_all(storage.log()))?;
                ensure!(read == events, "{read} events were read of {events}");
                Ok(per_second(events, started))
            },
            &mut || {
                let started = Instant::now();
                read_files(&files, events * events::ENTRY_BYTES as u64)?;
                Ok(per_second(events, started))
            },
        ],
    )?;
    runtime.block_on(storage.close())?;
    let measure = Measure::new("sequential read, warm, 256 KiB at a time", ours, "events/s");
    let measure = measure.compared_with("bare read of the same files", bare);
    Ok(vec![measure.goal(Goal::AtLeast(1e6))])
}

#[expect(clippy::cast_precision_loss, reason = "no run reads 2^52 events")]
fn per_second(events: u64, started: Instant) -> f64 {
    events as f64 / started.elapsed().as_secs_f64()
}

/// Reads every entry and checks its header; returns how many there were.
async fn read_all(log: &Log) -> anyhow::Result<u64> {
    let (mut next, mut count) = (PartitionOffset::FIRST, 0);
    loop {
        let read = log.read(PARTITION, next, LIMIT).await?;
        if read.is_empty() {
            return Ok(count);
        }
        for (_, entry) in read.iter() {
            std::hint::black_box(entry.draws().last());
            count += 1;
        }
        next = read.next();
    }
}

/// The files of the log, in order.
fn segments(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(segments(&path)?);
        } else if path.extension().is_some_and(|extension| extension == storage::SEGMENT_EXTENSION) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Reads this many bytes of the files, one file after the other.
fn read_files(files: &[PathBuf], bytes: u64) -> anyhow::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = usize::try_from(bytes)?;
    for path in files {
        let mut file = File::open(path).with_context(|| path.display().to_string())?;
        while left > 0 {
            let length = chunk.len().min(left);
            let read = file.read(&mut chunk[..length])?;
            if read == 0 {
                break;
            }
            std::hint::black_box(&chunk);
            left -= read;
        }
    }
    ensure!(left == 0, "{left} bytes of the log are not in its files");
    Ok(())
}
