//! A backup of any log, through its port.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::{
    BackupError, BackupReport, BulletinError, Held, Log, LogError, LogIdentity, ReadEntries, ReadLimit,
};
use seriatim_types::{Partition, PartitionOffset, limits};

use super::destination::UnfinishedFolder;
use super::into_log::UNFINISHED;
use super::manifest::Manifest;
use super::{LOG, write_files};
use crate::bulletin::{self, BULLETIN};
use crate::identity::{self, IDENTITY};
use crate::log::LogWriter;
use crate::space::FreeSpace;

/// The entries of one frame have about so many bytes. A reader of a log on files reads whole frames.
const FRAME_BYTES: usize = 64 << 10;

/// Copies a log of any kind, with its identity and its bulletin, into a folder that is empty or does not exist yet. Appends
/// continue meanwhile. The backup has the format of a backup of a storage on files, and is restored in the same ways.
///
/// The backup is a cut of the log: it has everything that was acknowledged before the call, and if it has an entry, it has
/// everything that was acknowledged, in any partition, before that entry was appended ([`Log::cut`]).
///
/// # Errors
///
/// [`BackupError`]: there is no backup at the destination, and nothing that could be mistaken for one.
pub async fn backup_log(env: &Env, log: &Log, destination: &Path) -> Result<BackupReport, BackupError> {
    let space = Arc::new(FreeSpace::new(destination, 0, FreeSpace::system()));
    backup_beside(env, log, destination, None, space).await
}

/// As [`backup_log`], next to a local directory, which cannot contain the backup, and whose disk must not get full.
pub(crate) async fn backup_beside(
    env: &Env,
    log: &Log,
    destination: &Path,
    local: Option<&Path>,
    space: Arc<FreeSpace>,
) -> Result<BackupReport, BackupError> {
    // The bulletin is copied before the log is cut. So every event that was handed to a projector is in the backup.
    let values = log.bulletin().list("").await.map_err(of_bulletin)?;
    let values = values.into_iter().filter(|(key, _)| key != UNFINISHED).collect::<Vec<_>>();
    let identity = log.identity().await?;
    let cut = log.cut().await?;
    let (own, destination) = (env.clone(), destination.to_owned());
    let outside = local.map(Path::to_owned);
    let begun = env.blocking(move || Unfinished::begin(&own, &destination, outside.as_deref(), space));
    let mut copy = begun.await?;
    let held = cut.clone();
    copy = copy.with(env, move |copy| Ok(copy.writer.takes(held.iter())?)).await?;
    for (partition, held) in &cut {
        let mut next = PartitionOffset::FIRST;
        while next < held.tail {
            let read = read(log, *partition, next, held).await?;
            next = read.next();
            let partition = *partition;
            copy = copy.with(env, move |copy| copy.append(partition, &read)).await?;
        }
    }
    env.blocking(move || copy.finish(&values, identity)).await
}

/// The next entries of a partition before its cut. Each decodes, and its body is what its header says.
async fn read(
    log: &Log,
    partition: Partition,
    from: PartitionOffset,
    held: &Held,
) -> Result<ReadEntries, LogError> {
    let entries = usize::try_from(held.tail.get() - from.get()).unwrap_or(usize::MAX);
    let limit = ReadLimit { entries, bytes: limits::READ_BYTES_MAX };
    let read = log.read(partition, from, limit).await?;
    let corrupt = |offset: PartitionOffset, what: &str| {
        LogError::Corrupt(format!(
            "partition {partition} ends at {}, and the entry at {offset} {what}",
            held.tail
        ))
    };
    if read.is_empty() {
        return Err(corrupt(from, "is missing"));
    }
    for (offset, entry) in read.iter() {
        if entry.append_id().epoch > held.epoch {
            return Err(corrupt(offset, "has a later epoch than the partition"));
        }
        if !entry.body_is_intact() {
            return Err(corrupt(offset, "has another body than its header says"));
        }
    }
    Ok(read)
}

/// A backup that is being written.
struct Unfinished {
    folder: UnfinishedFolder,
    writer: LogWriter,
    space: Arc<FreeSpace>,
}

impl Unfinished {
    fn begin(
        env: &Env,
        destination: &Path,
        outside: Option<&Path>,
        space: Arc<FreeSpace>,
    ) -> Result<Self, BackupError> {
        let folder = UnfinishedFolder::create(env, destination, outside)?;
        let writer = LogWriter::create(env, &folder.path().join(LOG))?;
        Ok(Self { folder, writer, space })
    }

    /// Does a step on a thread that may wait for the disk.
    async fn with(
        mut self,
        env: &Env,
        step: impl FnOnce(&mut Self) -> Result<(), BackupError> + Send + 'static,
    ) -> Result<Self, BackupError> {
        env.blocking(move || step(&mut self).map(|()| self)).await
    }

    fn append(&mut self, partition: Partition, read: &ReadEntries) -> Result<(), BackupError> {
        self.folder.check_room(&self.space, read.as_bytes().len() as u64)?;
        let (mut first, mut count, mut from, mut to) = (read.first(), 0, 0, 0);
        for (offset, entry) in read.iter() {
            if to - from >= FRAME_BYTES {
                self.writer.append(partition, first, count, &read.as_bytes()[from..to])?;
                (first, count, from) = (offset, 0, to);
            }
            (count, to) = (count + 1, to + entry.size());
        }
        Ok(self.writer.append(partition, first, count, &read.as_bytes()[from..to])?)
    }

    fn finish(
        self,
        values: &[(String, bytes::Bytes)],
        identity: Option<LogIdentity>,
    ) -> Result<BackupReport, BackupError> {
        let Self { folder, writer, .. } = self;
        let (end, copied) = writer.finish()?;
        let values: BTreeMap<Box<str>, _> =
            values.iter().map(|(key, value)| (key.as_str().into(), value.clone())).collect();
        let values = (!values.is_empty()).then(|| bulletin::encode(&values));
        write_files(&folder, &[(BULLETIN, values), (IDENTITY, identity.map(identity::encode))])?;
        let manifest = Manifest { end, frames: copied.frames, entries: copied.entries };
        manifest.write(folder.path()).map_err(|error| folder.refused(&error))?;
        folder.finish()?;
        Ok(copied.into())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn of_bulletin(error: BulletinError) -> LogError {
    let text = error.to_string();
    match error {
        BulletinError::Corrupt(_) => LogError::Corrupt(text),
        BulletinError::Closed => LogError::Closed,
        BulletinError::Unavailable(_) | BulletinError::TooLarge { .. } => LogError::Unavailable(text),
    }
}
