//! The cost of durable writes alone: the same kind of write as the log's, one after the other.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;

use crate::peer::BareFile;
use crate::writers::Durable;

/// About the size of an event of a run, including frame and header.
const EVENT_BYTES: usize = 512;
const FILE_BYTES: u64 = 64 << 20;
/// Three events per run: the new id is registered, the run starts, the run ends. Each is written after the previous one is durable.
pub(super) const PER_RUN: u32 = 3;

/// A preallocated file, written from its beginning to its end repeatedly.
#[derive(Debug)]
pub(super) struct Syncs {
    file: File,
    end: u64,
}

impl Syncs {
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let file = tempfile::tempfile_in(directory)?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES)?;
        file.sync_all()?;
        Ok(Self { file, end: 0 })
    }

    /// Writes and syncs for this long, and returns writes per second.
    pub(super) fn rate(&mut self, duration: Duration) -> anyhow::Result<f64> {
        let event = [1; EVENT_BYTES];
        let (started, mut count) = (Instant::now(), 0.0);
        while started.elapsed() < duration {
            self.file.write_all_at(&event, self.end)?;
            self.file.sync_data()?;
            self.end = (self.end + EVENT_BYTES as u64) % FILE_BYTES;
            count += 1.0;
        }
        Ok(count / started.elapsed().as_secs_f64())
    }
}

/// As many appends as a run needs, each awaited as in our host.
#[derive(Debug)]
pub(super) struct AwaitedAppends(pub(super) BareFile);

impl Durable for AwaitedAppends {
    async fn write(&self, _: usize) -> anyhow::Result<()> {
        for _ in 0..PER_RUN {
            self.0.append(&[1; EVENT_BYTES]).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_written_after_the_previous_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut syncs = Syncs::open(directory.path()).unwrap();
        assert!(syncs.rate(Duration::from_millis(5)).unwrap() > 0.0);
        let mut written = vec![0; usize::try_from(syncs.end).unwrap() + 1];
        syncs.file.read_exact_at(&mut written, 0).unwrap();
        let (last, before) = written.split_last().unwrap();
        assert!(*last == 0 && !before.is_empty() && before.iter().all(|byte| *byte == 1));
    }
}
