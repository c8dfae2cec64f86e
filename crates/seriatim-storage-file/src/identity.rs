//! The identity of a log, in a file next to its segments.
//!
//! ```text
//!   log/identity   8 mark │ 4 checksum │ 4 version │ 16 identity
//! ```
//!
//! The file is written once, when the identity is asked for with the wish to create it. It is written under another name, synced
//! and renamed, so there is a complete file or none, and a file that is not complete is damaged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _};
use seriatim_env::Env;
use seriatim_storage::{LogError, LogIdentity};
use seriatim_types::sync::Mutex;

use crate::directory::DirectoryLock;
use crate::disk::{Disk, read_whole, replace_whole};

/// The file's name, in the folder of the segments.
pub(crate) const IDENTITY: &str = "identity";

const MARK: &[u8; 8] = b"SERIAIDY";
const VERSION: u32 = 1;
/// Mark, checksum, version, identity.
const FILE_BYTES: usize = 32;
/// The checksum covers everything from here on.
const CHECKED_FROM: usize = 12;

/// The identity of a log on files.
#[derive(Debug, Clone)]
pub(crate) struct FileIdentity {
    env: Env,
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    state: Arc<Mutex<State>>,
    /// Held by the task that writes the file.
    writer: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct State {
    /// The identity in the file; `None` if there is no file; or the reason why it cannot be read.
    stored: Result<Option<LogIdentity>, LogError>,
    closed: bool,
    /// The lock of the folder. A write in progress has a clone. `None` when the log is closed.
    lock: Option<Arc<DirectoryLock>>,
}

impl State {
    fn get(&self) -> Result<Option<LogIdentity>, LogError> {
        if self.closed { Err(LogError::Closed) } else { self.stored.clone() }
    }
}

impl FileIdentity {
    /// Reads the identity in the folder of a log. A damaged one does not prevent the log from being opened: asking for it
    /// gives the error.
    pub(crate) fn open(
        env: &Env,
        disk: Arc<dyn Disk>,
        directory: &Path,
        lock: Option<Arc<DirectoryLock>>,
    ) -> io::Result<Self> {
        let path = directory.join(IDENTITY);
        let stored = match read_whole(&*disk, &path)? {
            None => Ok(None),
            Some(bytes) => decode(&bytes).map(Some).map_err(|problem| {
                let text = format!(
                    "{}: {problem}; restore a backup, or remove this file: then the log gets another identity, and everything \
                     that was derived from it is built again",
                    path.display()
                );
                tracing::error!(problem = text, "the identity of the log is not available");
                LogError::Corrupt(text)
            }),
        };
        let (state, writer) = (Mutex::new(State { stored, closed: false, lock }), Arc::default());
        Ok(Self { env: env.clone(), disk, directory: directory.to_owned(), state: Arc::new(state), writer })
    }

    /// The identity. If there is none and `create` is given, that becomes the identity, durably. Of several calls at the same
    /// time the first one decides.
    pub(crate) async fn get(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        let (None, Some(new)) = (self.state.lock().get()?, create) else {
            return self.state.lock().get();
        };
        let writer = self.writer.clone().lock_owned().await;
        let (state, disk, directory) = (self.state.clone(), self.disk.clone(), self.directory.clone());
        let work = move || {
            // Released when the write is done, also if the caller no longer waits.
            let _writer = writer;
            let _lock = {
                let state = state.lock();
                if let Some(first) = state.get()? {
                    return Ok(Some(first));
                }
                state.lock.clone()
            };
            replace_whole(&*disk, &directory, IDENTITY, &encode(new)).map_err(|error| {
                let path = directory.join(IDENTITY);
                LogError::Unavailable(format!("{} cannot be written: {error}", path.display()))
            })?;
            state.lock().stored = Ok(Some(new));
            Ok(Some(new))
        };
        self.env.blocking(work).await
    }

    /// The bytes of the file, for a backup; `None` if there is no identity.
    pub(crate) fn copy(&self) -> Option<Vec<u8>> {
        match &self.state.lock().stored {
            Ok(identity) => identity.map(encode),
            Err(error) => {
                tracing::warn!(%error, "a backup is made without the identity of the log");
                None
            }
        }
    }

    /// Refuses further calls. A write in progress is finished first.
    pub(crate) async fn close(&self) {
        self.begin_closing();
        drop(self.writer.lock().await);
    }

    /// As [`FileIdentity::close`], without waiting: a write in progress holds the folder's lock until it is done.
    pub(crate) fn begin_closing(&self) {
        let mut state = self.state.lock();
        (state.closed, state.lock) = (true, None);
    }
}

pub(crate) fn encode(identity: LogIdentity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FILE_BYTES);
    bytes.put_slice(MARK);
    bytes.put_u32(0);
    bytes.put_u32(VERSION);
    bytes.put_slice(identity.as_bytes());
    let checksum = crc32fast::hash(&bytes[CHECKED_FROM..]);
    bytes[MARK.len()..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// The identity in these bytes, or an error text if they are not one that this program reads.
pub(crate) fn decode(bytes: &[u8]) -> Result<LogIdentity, String> {
    if !bytes.starts_with(MARK) || bytes.len() < CHECKED_FROM + 4 {
        return Err("the file is not the identity of a log".to_owned());
    }
    let mut fields = &bytes[MARK.len()..];
    let (checksum, version) = (fields.get_u32(), fields.get_u32());
    if crc32fast::hash(&bytes[CHECKED_FROM..]) != checksum {
        return Err("its checksum does not match: the file is damaged".to_owned());
    }
    if version > VERSION {
        return Err(format!(
            "it has version {version}, and this program reads versions up to {VERSION}: use a newer program"
        ));
    }
    let identity = <[u8; 16]>::try_from(fields);
    identity.map(LogIdentity::from_bytes).map_err(|_| "the file does not have its length".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seriatim_env::simulate;
    use seriatim_types::ErrorKind;

    use super::*;
    use crate::disk::{Crash, SimulatedDisk, create_directories};

    const FOLDER: &str = "/log";

    fn identity(value: u8) -> LogIdentity {
        LogIdentity::from_bytes([value; 16])
    }

    fn open(env: &Env, disk: &SimulatedDisk) -> FileIdentity {
        // The log creates its folder before it opens the identity.
        create_directories(disk, Path::new(FOLDER)).unwrap();
        FileIdentity::open(env, Arc::new(disk.clone()), Path::new(FOLDER), None).unwrap()
    }

    #[test]
    fn the_bytes_of_an_identity_do_not_change() {
        let text: String = encode(identity(0xab)).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "53455249414944591d48389900000001abababababababababababababababab");
    }

    #[test]
    fn an_identity_that_was_returned_survives_a_power_cut_and_is_not_replaced() {
        let mut returned = 0;
        for cut in 0..12 {
            for seed in 0..20 {
                returned += simulate(1, |env| async move {
                    let disk = SimulatedDisk::new();
                    let log = open(&env, &disk);
                    disk.cut_power_at(cut);
                    let created = log.get(Some(identity(1))).await;
                    let log = open(&env, &disk.after(Crash::Power { seed }));
                    let found = log.get(None).await.unwrap();
                    assert!(found.is_none() || found == Some(identity(1)), "{cut} {seed}: {found:?}");
                    if created.is_ok() {
                        assert_eq!(found, Some(identity(1)), "{cut} {seed}");
                        assert_eq!(log.get(Some(identity(2))).await, Ok(Some(identity(1))));
                    }
                    u32::from(created.is_ok())
                });
            }
        }
        assert!((1..240).contains(&returned), "{returned} of 240: some are cut off, and some are not");
    }

    #[test]
    fn a_damaged_identity_is_refused_and_not_replaced() {
        simulate(1, |env| async move {
            let disk = SimulatedDisk::new();
            open(&env, &disk).get(Some(identity(1))).await.unwrap();
            let path = Path::new(FOLDER).join(IDENTITY);
            disk.damage(&path, 20, |bytes| bytes[0] ^= 1);
            for create in [None, Some(identity(2)), None] {
                let log = open(&env, &disk);
                let error = log.get(create).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.to_string().contains("its checksum does not match"), "{error}");
                assert_eq!(log.copy(), None);
            }
        });
    }

    proptest! {
        #[test]
        fn an_identity_is_read_as_it_was_written_and_a_changed_one_is_not(
            bytes: [u8; 16], at in 0..FILE_BYTES, change in 1_u8..,
        ) {
            let identity = LogIdentity::from_bytes(bytes);
            let mut bytes = encode(identity);
            prop_assert_eq!(bytes.len(), FILE_BYTES);
            prop_assert_eq!(decode(&bytes), Ok(identity));
            bytes[at] ^= change;
            prop_assert!(decode(&bytes).is_err());
            bytes[at] ^= change;
            bytes.truncate(at);
            prop_assert!(decode(&bytes).is_err());
        }
    }
}
