//! Restoring a backup into a log of any kind, through its port.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::try_join_all;
use seriatim_env::Env;
use seriatim_storage::{
    AppendError, BackupReport, Entries, Held, Holder, Log, LogError, LogIdentity, Owner, Take, TakeOverError,
};
use seriatim_types::{ErrorKind, Partition, PartitionOffset};

use super::LOG;
use super::error::RestoreError;
use super::manifest::Manifest;
use super::of_log::of_bulletin;
use super::restore::{check_counts, read_file, read_manifest};
use crate::bulletin::{self, BULLETIN};
use crate::identity::{self, IDENTITY};
use crate::log::{Content, Contents, LogPrefix};

/// The key on the bulletin of a log whose restore was not finished.
pub(super) const UNFINISHED: &str = "restore/unfinished";

/// One append has about so many bytes: as much as a row of a remote store can have without special treatment.
const APPEND_BYTES: usize = 256 << 10;

/// How much of the backup is read before it is appended, to all partitions at the same time. Bounds memory.
const READ_BYTES: usize = 8 << 20;

/// How often an append is repeated that the log did not answer.
const ATTEMPTS: u32 = 20;

/// A log that was filled from a backup and is not released for use yet. Until [`RestoredLog::finish`], opening a storage with it is refused,
/// also after a crash.
#[derive(Debug)]
pub struct RestoredLog {
    log: Log,
    report: BackupReport,
}

impl RestoredLog {
    /// What the backup contains.
    #[must_use]
    pub fn report(&self) -> &BackupReport {
        &self.report
    }

    /// Releases the log for use. Fence it first: it may give out numbers again that were given out after the backup was made.
    ///
    /// # Errors
    ///
    /// [`LogError`]. Call it again.
    pub async fn finish(&self) -> Result<(), LogError> {
        self.log.bulletin().remove(UNFINISHED).await.map_err(of_bulletin)
    }
}

/// Whether a log was being filled from a backup, and that was interrupted. Then it may not be fenced.
pub(crate) async fn is_unfinished(log: &Log) -> Result<bool, LogError> {
    Ok(log.bulletin().get(UNFINISHED).await.map_err(of_bulletin)?.is_some())
}

/// Copies a backup into an empty log of any kind. Every frame is verified before anything is written. Entries keep their bytes,
/// and each partition its epoch, so that no append id is given again.
///
/// # Errors
///
/// [`RestoreError`]. If the error is of the log, a part of the backup may be in it, and it cannot be used: remove it.
pub async fn restore_log(
    env: &Env,
    backup: &Path,
    log: &Log,
    holder: &Holder,
) -> Result<RestoredLog, RestoreError> {
    let (own, path) = (env.clone(), backup.to_owned());
    let verified = env.blocking(move || Verified::read(&own, path)).await?;
    let foreign = log.identity().await?.is_some_and(|identity| Some(identity) != verified.identity);
    if foreign || !log.partitions().await?.is_empty() || is_unfinished(log).await? {
        return Err(RestoreError::LogNotEmpty);
    }
    let bulletin = log.bulletin();
    bulletin.put(UNFINISHED, b"1").await.map_err(of_bulletin)?;
    if let Some(identity) = verified.identity
        && log.identify(identity).await? != identity
    {
        return Err(RestoreError::LogNotEmpty);
    }
    let restoring = Restoring { env, log, holder };
    let mut owners = BTreeMap::new();
    for (partition, held) in &verified.held {
        owners.insert(*partition, restoring.take(*partition, held).await?);
    }
    let mut contents = verified.contents(env);
    loop {
        let (read, rest) = env.blocking(move || (contents.next(READ_BYTES), contents)).await;
        contents = rest;
        let read = read.map_err(|error| RestoreError::of_log(verified.backup.clone(), error))?;
        if read.is_empty() {
            break;
        }
        restoring.append_all(&mut owners, read, &verified.backup).await?;
    }
    for (key, value) in &verified.values {
        bulletin.put(key, value).await.map_err(of_bulletin)?;
    }
    Ok(RestoredLog { log: log.clone(), report: verified.report() })
}

/// A backup that was read to its end: everything in it is complete.
struct Verified {
    backup: PathBuf,
    manifest: Manifest,
    held: BTreeMap<Partition, Held>,
    values: bulletin::Values,
    identity: Option<LogIdentity>,
    bytes: u64,
}

impl Verified {
    fn read(env: &Env, backup: PathBuf) -> Result<Self, RestoreError> {
        let manifest = read_manifest(&backup)?;
        let of_log = |error| RestoreError::of_log(backup.clone(), error);
        let prefix = LogPrefix::stored(env, &backup.join(LOG), manifest.end);
        let bytes = prefix.bytes_max().map_err(of_log)?;
        let mut contents = Contents::new(prefix);
        loop {
            let read = contents.next(READ_BYTES).map_err(of_log)?;
            if read.is_empty() {
                break;
            }
            for content in &read {
                if let Content::Append { partition, first, entries } = content {
                    Entries::copied(entries).map_err(|error| {
                        of_log(LogError::Corrupt(format!(
                            "entries of partition {partition} from {first} on: {error}"
                        )))
                    })?;
                }
            }
        }
        check_counts(&backup, &manifest, contents.frames, contents.entries)?;
        let values = read_file(&backup, BULLETIN, bulletin::decode)?.unwrap_or_default();
        let identity = read_file(&backup, IDENTITY, identity::decode)?;
        let held = contents.partitions().collect();
        Ok(Self { manifest, held, values, identity, bytes, backup })
    }

    fn contents(&self, env: &Env) -> Contents {
        Contents::new(LogPrefix::stored(env, &self.backup.join(LOG), self.manifest.end))
    }

    fn report(&self) -> BackupReport {
        BackupReport {
            bytes: self.bytes,
            frames: self.manifest.frames,
            entries: self.manifest.entries,
            tails: self.held.iter().map(|(partition, held)| (*partition, held.tail)).collect(),
        }
    }
}

/// Appends the entries of a backup.
struct Restoring<'a> {
    env: &'a Env,
    log: &'a Log,
    holder: &'a Holder,
}

impl Restoring<'_> {
    async fn take(&self, partition: Partition, held: &Held) -> Result<Owner, RestoreError> {
        let take = Take::new(self.holder.clone(), self.env.random());
        match self.log.take_first(partition, held.epoch, &take).await {
            Ok(owner) => Ok(owner),
            Err(TakeOverError::Log(error)) => Err(error.into()),
            // Another restore was first.
            Err(TakeOverError::Deposed { .. } | TakeOverError::Rewound { .. }) => {
                Err(RestoreError::LogNotEmpty)
            }
        }
    }

    /// Appends what was read, to all its partitions at the same time.
    async fn append_all(
        &self,
        owners: &mut BTreeMap<Partition, Owner>,
        read: Vec<Content>,
        backup: &Path,
    ) -> Result<(), RestoreError> {
        let mut appends: BTreeMap<Partition, Vec<(PartitionOffset, Vec<u8>)>> = BTreeMap::new();
        for content in read {
            let Content::Append { partition, first, entries } = content else { continue };
            let chunks = appends.entry(partition).or_default();
            match chunks.last_mut().filter(|(_, chunk)| chunk.len() + entries.len() <= APPEND_BYTES) {
                Some((_, chunk)) => chunk.extend_from_slice(&entries),
                None => chunks.push((first, entries)),
            }
        }
        let each = appends.into_iter().filter_map(|(partition, chunks)| {
            let owner = owners.remove(&partition)?;
            Some(async move { Ok::<_, RestoreError>((partition, self.append(owner, chunks, backup).await?)) })
        });
        let each: Vec<_> = each.collect();
        owners.extend(try_join_all(each).await?);
        Ok(())
    }

    /// Appends to one partition, in order. Returns the owner at the end: an append in doubt is settled by a take-over.
    async fn append(
        &self,
        mut owner: Owner,
        chunks: Vec<(PartitionOffset, Vec<u8>)>,
        backup: &Path,
    ) -> Result<Owner, RestoreError> {
        for (at, bytes) in chunks {
            let damaged = |reason| RestoreError::Damaged { backup: backup.to_owned(), reason };
            let entries = Entries::copied(&bytes).map_err(|error| damaged(error.to_string()))?;
            let mut attempts = 0;
            while let Err(error) = self.log.append_copied(&owner, at, &entries).await {
                attempts += 1;
                let waits =
                    matches!(error.kind(), ErrorKind::InDoubt | ErrorKind::Busy | ErrorKind::Unavailable);
                if !waits || attempts == ATTEMPTS {
                    return Err(of_append(&error).into());
                }
                self.env.sleep(Duration::from_millis(100)).await;
                if error.kind() == ErrorKind::InDoubt {
                    owner = self.settle(&owner).await?;
                    if owner.tail() > at {
                        break;
                    }
                }
            }
        }
        Ok(owner)
    }

    async fn settle(&self, owner: &Owner) -> Result<Owner, RestoreError> {
        let take = Take::new(self.holder.clone(), self.env.random());
        let taken = self.log.take_over(owner.partition(), Some(owner.epoch()), &take).await;
        taken.map_err(|error| match error {
            TakeOverError::Log(error) => error.into(),
            TakeOverError::Deposed { .. } | TakeOverError::Rewound { .. } => RestoreError::LogNotEmpty,
        })
    }
}

fn of_append(error: &AppendError) -> LogError {
    LogError::Unavailable(error.to_string())
}
