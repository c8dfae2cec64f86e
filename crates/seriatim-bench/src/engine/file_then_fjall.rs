//! A bare file, and plain fjall written in the background: the cost of a log with derived data in its simplest form.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::peer::{BareFile, PlainFjall};
use crate::writers::Durable;

/// Keys of one batch, and how long they wait at most: the same as in the engine's flusher.
const FLUSH_AT: usize = 10_000;
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// Keys that may wait: the same as in the engine's overlay.
const WAITING_MAX: usize = 50_000;
/// Keys that are derived from one event: its place in the workspace's log, the id, the part, the record.
const KEYS: usize = 4;
/// Bytes of a key, including its length.
const KEY_BYTES: usize = 28;
/// Bytes of the four values.
const VALUE_BYTES: [usize; KEYS] = [8, 11, 1, 295];

/// A write is durable when it is in the file. The keys that the engine would derive are written to fjall later, in batches.
pub(super) struct FileThenFjall {
    file: BareFile,
    bytes: Vec<u8>,
    next: AtomicU64,
    /// `None` only while it is dropped.
    queue: Option<mpsc::Sender<u64>>,
    writer: Option<JoinHandle<()>>,
}

impl FileThenFjall {
    pub(super) fn create(directory: &Path, bytes: Vec<u8>) -> anyhow::Result<Self> {
        let file = BareFile::create(&directory.join("file"))?;
        let fjall = PlainFjall::open(&directory.join("fjall"))?;
        let (queue, events) = mpsc::channel(WAITING_MAX / KEYS);
        let writer = std::thread::Builder::new().name("fjall-writer".to_owned());
        let writer = writer.spawn(move || drop(write_batches(&fjall, events)))?;
        Ok(Self { file, bytes, next: AtomicU64::new(0), queue: Some(queue), writer: Some(writer) })
    }
}

impl Durable for Arc<FileThenFjall> {
    async fn write(&self, _writer: usize) -> anyhow::Result<()> {
        self.file.append(&self.bytes).await?;
        let event = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(queue) = &self.queue {
            queue.send(event).await?;
        }
        Ok(())
    }
}

impl Drop for FileThenFjall {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            // If it failed, the writers got an error from the closed queue.
            let _ = writer.join();
        }
    }
}

fn write_batches(fjall: &PlainFjall, mut events: mpsc::Receiver<u64>) -> anyhow::Result<()> {
    let mut waiting = Vec::new();
    let mut last = Instant::now();
    while let Some(event) = events.blocking_recv() {
        waiting.push(event);
        if waiting.len() * KEYS >= FLUSH_AT || last.elapsed() > FLUSH_INTERVAL {
            let mut batch = fjall.batch();
            for event in waiting.drain(..) {
                for (family, bytes) in VALUE_BYTES.iter().enumerate() {
                    let mut key = [0; KEY_BYTES];
                    key[0] = u8::try_from(family)?;
                    key[KEY_BYTES - 8..].copy_from_slice(&event.to_be_bytes());
                    batch.put(&key, &vec![b'x'; *bytes]);
                }
            }
            batch.commit()?;
            last = Instant::now();
        }
    }
    Ok(())
}
