//! The log in segment files.
//!
//! ```text
//!   log/0000000001.segment   header │ frame │ frame │ … │ frame │ zeros
//!       0000000001.index     where each partition's entries are: derived
//!       0000000002.segment   header │ frame │ frame │ zeros that wait to be written
//! ```
//!
//! One committer writes for all partitions: what waits becomes one frame, one write and one sync, while the next frame
//! gathers ([`queue`], [`committer`]). Opening reads the last segment and one index ([`open`]), whatever lies before.

mod committer;
mod copy;
mod frame;
mod frames;
mod index;
mod open;
mod options;
mod queue;
mod reader;
mod record;
mod segment;
mod tails;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use seriatim_env::Env;
use seriatim_storage::{
    Append, AppendError, AppendFuture, BulletinBackend, LogBackend, LogError, ReadEntries, ReadLimit, TakenPartition,
};
use seriatim_types::sync::Mutex;
use seriatim_types::{Partition, PartitionOffset};
use tokio::sync::oneshot;

use self::committer::{Committer, Phase, Place, Shared};
pub(crate) use self::copy::{CopiedLog, CopyError, LogEnd, LogPrefix, Purpose};
pub(crate) use self::open::Before;
pub use self::options::LogOptions;
use self::queue::{Answer, Failure, Queue};
use self::reader::Reader;
use crate::bulletin::FileBulletin;
use crate::directory::DirectoryLock;
use crate::disk::Disk;
use crate::space::{FreeSpace, NearlyFull};

/// The log in segment files. Its folder must not be used by anybody else: [`FileStorage`](crate::FileStorage) sees to
/// that.
#[derive(Debug)]
pub struct FileLog {
    env: Env,
    place: Place,
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    space: Arc<FreeSpace>,
    thread: Mutex<Option<JoinHandle<()>>>,
    lock: Mutex<Option<Arc<DirectoryLock>>>,
    bulletin: FileBulletin,
}

impl FileLog {
    /// Opens the log in `directory` and starts its committer. Makes one there only if none was there before.
    pub(crate) fn open(
        env: &Env,
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: LogOptions,
        space: Arc<FreeSpace>,
        before: Before,
        lock: Option<Arc<DirectoryLock>>,
    ) -> Result<Self, LogError> {
        let directory = directory.to_owned();
        let place = Place { env: env.clone(), disk, directory, options, space: space.clone() };
        let opened = open::open(&place, before)?;
        if opened.cut_bytes > 0 {
            tracing::warn!(bytes = opened.cut_bytes, "cut a torn frame off the end of the log");
        }
        let bulletin = FileBulletin::open(env, place.disk.clone(), &place.directory, lock.clone());
        let bulletin =
            bulletin.map_err(|error| LogError::Unavailable(format!("cannot read the bulletin: {error}")))?;
        let queue = Queue::new(&opened.index, options.queue_bytes);
        let shared = Arc::new(Shared::new(queue, opened.index));
        let committer = Committer::new(place.clone(), shared.clone(), opened.segment.clone());
        let thread = env.thread("seriatim-log", move || committer.run());
        let thread =
            thread.map_err(|error| LogError::Unavailable(format!("no thread to commit: {error}")))?;
        let reader = Arc::new(Reader::new(place.clone(), shared.clone(), opened.segment));
        let (thread, lock) = (Mutex::new(Some(thread)), Mutex::new(lock));
        Ok(Self { env: env.clone(), place, shared, reader, space, thread, lock, bulletin })
    }

    /// What is posted by now, for a backup of frames that are committed later.
    pub(crate) fn bulletin_copy(&self) -> Option<Vec<u8>> {
        self.bulletin.copy()
    }

    /// All frames that are committed by now.
    pub(crate) fn committed_prefix(&self) -> Result<LogPrefix, LogError> {
        if self.shared.lock().phase == Phase::Closing {
            return Err(LogError::Closed);
        }
        let index = self.shared.lock_index();
        let end = LogEnd { segment: index.number.0, byte: index.end, checksum: index.last_checksum };
        Ok(LogPrefix::new(self.place.clone(), end))
    }

    fn submit(&self, append: &Append<'_>) -> Result<oneshot::Receiver<Answer>, AppendError> {
        self.space.check().map_err(|NearlyFull { free_bytes, needed_bytes }| {
            AppendError::DiskNearlyFull { free_bytes, needed_bytes }
        })?;
        let receiver = {
            let mut state = self.shared.lock();
            state.phase.check()?;
            state.queue.append(append)?
        };
        self.shared.wake();
        Ok(receiver)
    }
}

#[async_trait]
impl LogBackend for FileLog {
    async fn take(&self, partitions: &[Partition]) -> Result<Vec<TakenPartition>, LogError> {
        let (taken, receiver) = {
            let mut state = self.shared.lock();
            state.phase.check().map_err(|error| match error {
                AppendError::Closed => LogError::Closed,
                error => LogError::Unavailable(error.to_string()),
            })?;
            state.queue.take(partitions)?
        };
        self.shared.wake();
        match receiver.await {
            Ok(Ok(())) => Ok(taken),
            Ok(Err(Failure::InDoubt(reason) | Failure::Stopped(reason) | Failure::NoSegment(reason))) => {
                Err(LogError::Unavailable(reason))
            }
            Ok(Err(Failure::NoRoom { free_bytes, .. })) => Err(LogError::Unavailable(format!(
                "no room for another segment: {free_bytes} bytes are free"
            ))),
            Err(_) => Err(LogError::Unavailable("its committer ended".to_owned())),
        }
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        let (partition, at) = (append.partition, append.at);
        let receiver = self.submit(&append);
        Box::pin(async move {
            let in_doubt = |reason| AppendError::InDoubt { partition, at, reason };
            match receiver?.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(Failure::Stopped(reason))) => Err(AppendError::Stopped(reason)),
                Ok(Err(Failure::NoSegment(reason))) => Err(AppendError::Unavailable(reason)),
                Ok(Err(Failure::InDoubt(reason))) => Err(in_doubt(reason)),
                Ok(Err(Failure::NoRoom { free_bytes, needed_bytes })) => {
                    Err(AppendError::DiskNearlyFull { free_bytes, needed_bytes })
                }
                Err(_) => Err(in_doubt("the committer ended".to_owned())),
            }
        })
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        let tail = self.shared.tails.get(partition)?;
        if from >= tail || limit.entries == 0 {
            return Ok(ReadEntries::new(from));
        }
        let reader = self.reader.clone();
        self.env.blocking(move || reader.read(partition, from, tail, limit)).await
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.shared.tails.get(partition)
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        let mut tail = self.shared.tails.subscribe(partition)?;
        let there = tail.wait_for(|tail| *tail > offset).await;
        there.map(|_| ()).map_err(|_| LogError::Closed)
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        let state = self.shared.lock();
        if state.phase == Phase::Closing { Err(LogError::Closed) } else { Ok(state.queue.taken()) }
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        Arc::new(self.bulletin.clone())
    }

    async fn close(&self) -> Result<(), LogError> {
        self.shared.begin_closing();
        self.bulletin.close().await;
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let ended = self.env.blocking(move || thread.join()).await;
            ended.map_err(|_| LogError::Internal("its committer panicked".to_owned()))?;
        }
        self.shared.tails.close();
        self.lock.lock().take();
        Ok(())
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        self.shared.begin_closing();
        self.bulletin.begin_closing();
        let thread = self.thread.lock().take();
        // The committer ends after the frame that it is at; a panic of it was told to whoever waited.
        let _ = thread.map(JoinHandle::join);
    }
}
