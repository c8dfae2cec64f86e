//! A bare preallocated file with one committer: the highest rate that a durable log on this disk could reach.
//!
//! Writers wait as they do with our log: the same number of tasks on the same runtime, each awaiting its own answer. In each round
//! the committer writes everything that waits with one `pwrite` and makes it durable with one `fdatasync`. There is nothing
//! else: no checksum, no frame, no condition, no way to read it back.

use std::fs::File;
use std::mem;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::fs::FallocateFlags;
use seriatim_types::sync::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// The size of one preallocation: so large that rounds rarely wait for the next one.
const STEP_BYTES: u64 = 1 << 30;

/// The file. Dropping it ends its committer.
#[derive(Debug)]
pub(crate) struct BareFile {
    queue: Arc<Queue>,
    committer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

/// What the next write and sync cover.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    answers: Vec<oneshot::Sender<()>>,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

impl BareFile {
    /// Makes the file and starts its committer.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create_new(path)?;
        preallocate(&file, 0)?;
        file.sync_all()?;
        let queue = Arc::new(Queue::default());
        let committer = std::thread::Builder::new().name("bare-file".to_owned());
        let committer = committer.spawn({
            let queue = queue.clone();
            // If the committer fails, the answers are dropped, and the writers get an error.
            move || drop(commit(&queue, &file))
        })?;
        Ok(Self { queue, committer: Some(committer) })
    }

    /// Adds bytes to the end of the file; durable when it returns.
    pub(crate) async fn append(&self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.submit(bytes).await?)
    }

    fn submit(&self, bytes: &[u8]) -> oneshot::Receiver<()> {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.queue.lock();
        let first = waiting.answers.is_empty();
        waiting.bytes.extend_from_slice(bytes);
        waiting.answers.push(answer);
        drop(waiting);
        if first {
            self.queue.wake.notify_one();
        }
        answered
    }
}

impl Drop for BareFile {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.wake.notify_one();
        if let Some(committer) = self.committer.take() {
            // If it failed, the writers got an error.
            let _ = committer.join();
        }
    }
}

fn commit(queue: &Queue, file: &File) -> anyhow::Result<()> {
    let (mut end, mut preallocated) = (0, STEP_BYTES);
    let (mut bytes, mut answers) = (Vec::new(), Vec::new());
    loop {
        let waiting = queue.lock();
        let idle = |waiting: &mut Waiting| waiting.answers.is_empty() && !waiting.closed;
        let mut waiting = queue.wake.wait_while(waiting, idle);
        if waiting.answers.is_empty() {
            return Ok(());
        }
        mem::swap(&mut bytes, &mut waiting.bytes);
        mem::swap(&mut answers, &mut waiting.answers);
        drop(waiting);

        let next = end + bytes.len() as u64;
        while next > preallocated {
            preallocate(file, preallocated)?;
            preallocated += STEP_BYTES;
        }
        file.write_all_at(&bytes, end)?;
        file.sync_data()?;
        end = next;
        bytes.clear();
        for answer in answers.drain(..) {
            // The writer may have stopped waiting for its answer.
            let _ = answer.send(());
        }
    }
}

fn preallocate(file: &File, from: u64) -> anyhow::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), from, STEP_BYTES)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_bytes_are_in_the_file_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = BareFile::create(&path).unwrap();
        let runtime = crate::suite::runtime().unwrap();
        runtime.block_on(async {
            file.append(b"one ").await.unwrap();
            file.append(b"two").await.unwrap();
        });
        drop(file);
        assert!(std::fs::read(&path).unwrap().starts_with(b"one two\0"));
    }
}
