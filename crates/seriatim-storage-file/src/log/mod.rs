//! The log in segment files.
//!
//! ```text
//!   log/0000000001.segment   header │ frame │ frame │ … │ frame │ zeros
//!       0000000001.index     where each partition's entries are; derived
//!       0000000002.segment   header │ frame │ frame │ zeros that are reserved
//! ```
//!
//! One committer writes for all partitions: everything that waits becomes one frame, with one write and one sync; meanwhile
//! the next frame is collected ([`queue`], [`committer`]). Opening reads the last segment and one index ([`open`]), however
//! many segments there are.

mod committer;
mod contents;
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
mod write;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use seriatim_env::Env;
use seriatim_storage::{
    Append, AppendError, AppendFuture, BulletinBackend, Held, LogBackend, LogError, LogIdentity, ReadEntries,
    ReadLimit, Take, TakeOver,
};
use seriatim_types::sync::Mutex;
use seriatim_types::{Epoch, Partition, PartitionOffset};
use tokio::sync::oneshot;

use self::committer::{Committer, LogFolder, LogState, Phase};
pub(crate) use self::contents::{Content, Contents};
pub(crate) use self::copy::{CopiedLog, CopyError, LogEnd, LogPrefix, Purpose};
pub(crate) use self::open::OpenMode;
pub use self::options::LogOptions;
use self::queue::{Answer, CommitFailure, Queue};
use self::reader::Reader;
pub(crate) use self::write::LogWriter;
use crate::bulletin::FileBulletin;
use crate::directory::DirectoryLock;
use crate::disk::Disk;
use crate::identity::FileIdentity;
use crate::space::{FreeSpace, NearlyFull};

/// The log in segment files. No other process may use its folder; [`FileStorage`](crate::FileStorage) locks it.
#[derive(Debug)]
pub struct FileLog {
    env: Env,
    folder: LogFolder,
    state: Arc<LogState>,
    reader: Arc<Reader>,
    space: Arc<FreeSpace>,
    thread: Mutex<Option<JoinHandle<()>>>,
    lock: Mutex<Option<Arc<DirectoryLock>>>,
    bulletin: FileBulletin,
    identity: FileIdentity,
}

impl FileLog {
    /// Opens the log in `directory` and starts its committer. Creates a log only if `mode` allows it.
    pub(crate) fn open(
        env: &Env,
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: LogOptions,
        space: Arc<FreeSpace>,
        mode: OpenMode,
        lock: Option<Arc<DirectoryLock>>,
    ) -> Result<Self, LogError> {
        let directory = directory.to_owned();
        let folder = LogFolder { env: env.clone(), disk, directory, options, space: space.clone() };
        let opened = open::open(&folder, mode)?;
        if opened.cut_bytes > 0 {
            tracing::warn!(bytes = opened.cut_bytes, "removed a torn frame from the end of the log");
        }
        let bulletin = FileBulletin::open(env, folder.disk.clone(), &folder.directory, lock.clone());
        let bulletin =
            bulletin.map_err(|error| LogError::Unavailable(format!("cannot read the bulletin: {error}")))?;
        let identity = FileIdentity::open(env, folder.disk.clone(), &folder.directory, lock.clone());
        let identity =
            identity.map_err(|error| LogError::Unavailable(format!("cannot read the identity: {error}")))?;
        let queue = Queue::new(&opened.index, options.queue_bytes);
        let state = Arc::new(LogState::new(queue, opened.index));
        let committer = Committer::new(folder.clone(), state.clone(), opened.segment.clone());
        let thread = env.thread("seriatim-log", move || committer.run());
        let thread = thread.map_err(|error| {
            LogError::Unavailable(format!("the log's committer thread could not be started: {error}"))
        })?;
        let reader = Arc::new(Reader::new(folder.clone(), state.clone(), opened.segment));
        let (thread, lock) = (Mutex::new(Some(thread)), Mutex::new(lock));
        Ok(Self { env: env.clone(), folder, state, reader, space, thread, lock, bulletin, identity })
    }

    /// The current values of the bulletin, for a backup of frames that are committed later.
    pub(crate) fn bulletin_copy(&self) -> Option<Vec<u8>> {
        self.bulletin.copy()
    }

    /// The bytes of the identity, for a backup.
    pub(crate) fn identity_copy(&self) -> Option<Vec<u8>> {
        self.identity.copy()
    }

    /// All frames that are committed so far.
    pub(crate) fn committed_prefix(&self) -> Result<LogPrefix, LogError> {
        if self.state.lock().phase == Phase::Closing {
            return Err(LogError::Closed);
        }
        let index = self.state.lock_index();
        let end = LogEnd { segment: index.number.0, byte: index.end, checksum: index.last_checksum };
        Ok(LogPrefix::new(self.folder.clone(), end))
    }

    fn submit(&self, append: &Append<'_>) -> Result<oneshot::Receiver<Answer>, AppendError> {
        self.space.check().map_err(|NearlyFull { free_bytes, needed_bytes }| {
            AppendError::DiskNearlyFull { free_bytes, needed_bytes }
        })?;
        let receiver = {
            let mut state = self.state.lock();
            state.phase.check()?;
            state.queue.append(append)?
        };
        self.state.wake();
        Ok(receiver)
    }
}

#[async_trait]
impl LogBackend for FileLog {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        let (taken, receiver) = {
            let mut state = self.state.lock();
            state.phase.check().map_err(|error| match error {
                AppendError::Closed => LogError::Closed,
                error => LogError::Unavailable(error.to_string()),
            })?;
            state.queue.take_over(partitions, take)?
        };
        self.state.wake();
        match receiver.await {
            Ok(Ok(())) => Ok(taken),
            Ok(Err(
                CommitFailure::InDoubt(reason)
                | CommitFailure::Stopped(reason)
                | CommitFailure::NoSegment(reason),
            )) => Err(LogError::Unavailable(reason)),
            Ok(Err(CommitFailure::NoRoom { free_bytes, .. })) => Err(LogError::Unavailable(format!(
                "there is no space for another segment: {free_bytes} bytes are free; free some disk space"
            ))),
            Err(_) => Err(LogError::Unavailable("the log's committer ended".to_owned())),
        }
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        let state = self.state.lock();
        if state.phase == Phase::Closing { Err(LogError::Closed) } else { Ok(state.queue.holder(partition)) }
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        self.identity.get(create).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        let (partition, at) = (append.partition, append.at);
        let receiver = self.submit(&append);
        Box::pin(async move {
            let in_doubt = |reason| AppendError::InDoubt { partition, at, reason };
            match receiver?.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(CommitFailure::Stopped(reason))) => Err(AppendError::Stopped(reason)),
                Ok(Err(CommitFailure::NoSegment(reason))) => Err(AppendError::Unavailable(reason)),
                Ok(Err(CommitFailure::InDoubt(reason))) => Err(in_doubt(reason)),
                Ok(Err(CommitFailure::NoRoom { free_bytes, needed_bytes })) => {
                    Err(AppendError::DiskNearlyFull { free_bytes, needed_bytes })
                }
                Err(_) => Err(in_doubt("the log's committer ended".to_owned())),
            }
        })
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        let tail = self.state.tails.get(partition)?;
        if from >= tail || limit.entries == 0 {
            return Ok(ReadEntries::new(from));
        }
        let reader = self.reader.clone();
        self.env.blocking(move || reader.read(partition, from, tail, limit)).await
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.state.tails.get(partition)
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        let mut tail = self.state.tails.subscribe(partition)?;
        let there = tail.wait_for(|tail| *tail > offset).await;
        there.map(|_| ()).map_err(|_| LogError::Closed)
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        let state = self.state.lock();
        if state.phase == Phase::Closing { Err(LogError::Closed) } else { Ok(state.queue.taken()) }
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        Arc::new(self.bulletin.clone())
    }

    async fn close(&self) -> Result<(), LogError> {
        self.state.begin_closing();
        self.bulletin.close().await;
        self.identity.close().await;
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let ended = self.env.blocking(move || thread.join()).await;
            ended.map_err(|_| LogError::Internal("the log's committer panicked".to_owned()))?;
        }
        self.state.tails.close();
        self.lock.lock().take();
        Ok(())
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        self.state.begin_closing();
        self.bulletin.begin_closing();
        self.identity.begin_closing();
        let thread = self.thread.lock().take();
        // The committer ends after its current frame. If it panicked, waiting callers have got an error.
        let _ = thread.map(JoinHandle::join);
    }
}
