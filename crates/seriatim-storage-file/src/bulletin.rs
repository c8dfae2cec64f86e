//! The bulletin in a file next to the segments.
//!
//! ```text
//!   log/bulletin       all values: 8 mark │ 4 checksum │ 4 version │ 4 number of values │ values, ascending by key
//!       bulletin.new   the next file, until it is durable and is renamed
//! ```
//!
//! The file is small and is written as a whole: into a new file, which is synced and renamed over the old one; then the
//! folder is synced. So there is always one complete file, and a file that is not complete is damaged. Puts at the same
//! time share one write.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Buf as _, BufMut as _, Bytes};
use seriatim_env::Env;
use seriatim_storage::{BulletinBackend, BulletinError};
use seriatim_types::sync::Mutex;

use crate::directory::DirectoryLock;
use crate::disk::{Disk, read_whole, replace_whole};

/// The file's name, in the folder of the segments.
pub(crate) const BULLETIN: &str = "bulletin";

const MARK: &[u8; 8] = b"SERIABUL";
const VERSION: u32 = 1;
/// Mark, checksum, version, number of values.
const HEADER_BYTES: usize = 20;
/// The checksum covers everything from here on.
const CHECKED_FROM: usize = 12;

/// All values together: enough for tens of thousands of offsets. A write of the whole file stays short.
const FILE_BYTES_MAX: usize = 4 << 20;

pub(crate) type Values = BTreeMap<Box<str>, Bytes>;

/// The bulletin of a log on files.
#[derive(Debug, Clone)]
pub(crate) struct FileBulletin {
    env: Env,
    folder: BulletinFolder,
    state: Arc<Mutex<State>>,
    /// Held by the task that writes the file.
    writer: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Clone)]
struct BulletinFolder {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

#[derive(Debug)]
struct State {
    /// The values, also those that are not in the file yet; or the reason why the file cannot be read.
    values: Result<Values, BulletinError>,
    /// How many puts there were, and how many of them are in the file.
    puts: u64,
    written: u64,
    closed: bool,
    /// The lock of the folder. A write in progress has a clone. `None` when the bulletin is closed.
    lock: Option<Arc<DirectoryLock>>,
}

impl FileBulletin {
    /// Reads the bulletin in the folder of a log. A damaged bulletin does not prevent the log from being opened: its own
    /// calls give the error.
    pub(crate) fn open(
        env: &Env,
        disk: Arc<dyn Disk>,
        directory: &Path,
        lock: Option<Arc<DirectoryLock>>,
    ) -> io::Result<Self> {
        let folder = BulletinFolder { disk, directory: directory.to_owned() };
        let values = match read_whole(&*folder.disk, &directory.join(BULLETIN))? {
            None => Ok(Values::new()),
            Some(bytes) => decode(&bytes).map_err(|problem| {
                let path = directory.join(BULLETIN);
                let text = format!(
                    "{}: {problem}; if you remove this file, every asynchronous projector begins at the first event",
                    path.display()
                );
                tracing::error!(problem = text, "the offsets of asynchronous projectors are not available");
                BulletinError::Corrupt(text)
            }),
        };
        let state = State { values, puts: 0, written: 0, closed: false, lock };
        let (state, writer) = (Arc::new(Mutex::new(state)), Arc::default());
        Ok(Self { env: env.clone(), folder, state, writer })
    }

    /// The current bytes of the file, for a backup; `None` if there are no values.
    ///
    /// A projector receives an event after it is committed. So a log that is cut later has every event before the offsets in
    /// this copy.
    pub(crate) fn copy(&self) -> Option<Vec<u8>> {
        match &self.state.lock().values {
            Ok(values) => (!values.is_empty()).then(|| encode(values)),
            Err(error) => {
                tracing::warn!(%error, "a backup is made without offsets of asynchronous projectors");
                None
            }
        }
    }

    /// Refuses further puts. A write in progress is finished first.
    pub(crate) async fn close(&self) {
        self.begin_closing();
        drop(self.writer.lock().await);
    }

    /// As [`FileBulletin::close`], without waiting: a write in progress holds the folder's lock until it is done.
    pub(crate) fn begin_closing(&self) {
        let mut state = self.state.lock();
        (state.closed, state.lock) = (true, None);
    }
}

impl State {
    fn open(&mut self) -> Result<&mut Values, BulletinError> {
        if self.closed {
            return Err(BulletinError::Closed);
        }
        self.values.as_mut().map_err(|error| error.clone())
    }

    /// Stores a value in memory. Returns the number of this put.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<u64, BulletinError> {
        let values = self.open()?;
        let sizes = values.iter().filter(|(present, _)| &***present != key);
        let sizes = sizes.map(|(key, value)| size(key, value));
        let found = HEADER_BYTES + sizes.sum::<usize>() + size(key, value);
        if found > FILE_BYTES_MAX {
            return Err(BulletinError::TooLarge { what: "whole bulletin", max: FILE_BYTES_MAX, found });
        }
        values.insert(key.into(), Bytes::copy_from_slice(value));
        self.puts += 1;
        Ok(self.puts)
    }

    /// Removes a value in memory. Returns the number of this change.
    fn remove(&mut self, key: &str) -> Result<u64, BulletinError> {
        self.open()?.remove(key);
        self.puts += 1;
        Ok(self.puts)
    }
}

#[async_trait]
impl BulletinBackend for FileBulletin {
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BulletinError> {
        Ok(self.state.lock().open()?.get(key).cloned())
    }

    async fn put(&self, key: &str, value: &[u8]) -> Result<(), BulletinError> {
        let post = self.state.lock().put(key, value)?;
        self.written(post).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, BulletinError> {
        let mut state = self.state.lock();
        let values = state.open()?.iter().filter(|(key, _)| key.starts_with(prefix));
        Ok(values.map(|(key, value)| (key.to_string(), value.clone())).collect())
    }

    async fn remove(&self, key: &str) -> Result<(), BulletinError> {
        let post = self.state.lock().remove(key)?;
        self.written(post).await
    }
}

impl FileBulletin {
    /// Waits until a change is in the file.
    async fn written(&self, post: u64) -> Result<(), BulletinError> {
        let writer = self.writer.clone().lock_owned().await;
        let (state, folder) = (self.state.clone(), self.folder.clone());
        let work = move || {
            // Released when the write is done, also if the caller no longer waits.
            let _writer = writer;
            let (bytes, covered, _lock) = {
                let mut state = state.lock();
                if state.written >= post {
                    return Ok(());
                }
                let bytes = encode(state.open()?);
                (bytes, state.puts, state.lock.clone())
            };
            let written = replace_whole(&*folder.disk, &folder.directory, BULLETIN, &bytes);
            written.map_err(|error| {
                let path = folder.directory.join(BULLETIN);
                BulletinError::Unavailable(format!("{} cannot be written: {error}", path.display()))
            })?;
            state.lock().written = covered;
            Ok(())
        };
        self.env.blocking(work).await
    }
}

/// The size of a value in the file.
fn size(key: &str, value: &[u8]) -> usize {
    2 + key.len() + 4 + value.len()
}

pub(crate) fn encode(values: &Values) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.put_slice(MARK);
    bytes.put_u32(0);
    bytes.put_u32(VERSION);
    bytes.put_u32(u32::try_from(values.len()).expect("the file is small"));
    for (key, value) in values {
        bytes.put_u16(u16::try_from(key.len()).expect("keys are short"));
        bytes.put_slice(key.as_bytes());
        bytes.put_u32(u32::try_from(value.len()).expect("values are short"));
        bytes.put_slice(value);
    }
    let checksum = crc32fast::hash(&bytes[CHECKED_FROM..]);
    bytes[MARK.len()..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// The values in these bytes, or an error text if they are not a bulletin that this program reads.
pub(crate) fn decode(bytes: &[u8]) -> Result<Values, String> {
    let (mut header, mut rest) =
        bytes.split_at_checked(HEADER_BYTES).ok_or_else(|| "the file ends too early".to_owned())?;
    if !header.starts_with(MARK) {
        return Err("the file is not a bulletin".to_owned());
    }
    header.advance(MARK.len());
    let (checksum, version, count) = (header.get_u32(), header.get_u32(), header.get_u32());
    if crc32fast::hash(&bytes[CHECKED_FROM..]) != checksum {
        return Err("its checksum does not match: the file is damaged".to_owned());
    }
    if version > VERSION {
        return Err(format!(
            "it has version {version}, and this program reads versions up to {VERSION}: use a newer program"
        ));
    }
    let early = || "a value ends too early".to_owned();
    let mut values = Values::new();
    for _ in 0..count {
        let key_length = usize::from(rest.try_get_u16().map_err(|_| early())?);
        let (key, after) = rest.split_at_checked(key_length).ok_or_else(early)?;
        rest = after;
        let value_length = usize::try_from(rest.try_get_u32().map_err(|_| early())?).map_err(|_| early())?;
        let (value, after) = rest.split_at_checked(value_length).ok_or_else(early)?;
        rest = after;
        let key = std::str::from_utf8(key).map_err(|_| "a key is not text".to_owned())?;
        values.insert(key.into(), Bytes::copy_from_slice(value));
    }
    if rest.is_empty() { Ok(values) } else { Err("there are bytes after the last value".to_owned()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seriatim_env::simulate;
    use seriatim_types::ErrorKind;

    use super::*;
    use crate::disk::{Crash, SimulatedDisk};

    const FOLDER: &str = "/log";

    fn open(env: &Env, disk: &SimulatedDisk) -> FileBulletin {
        // The log creates its folder before it opens the bulletin.
        crate::disk::create_directories(disk, Path::new(FOLDER)).unwrap();
        FileBulletin::open(env, Arc::new(disk.clone()), Path::new(FOLDER), None).unwrap()
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let values = [("projector/16/3/mail", &[0, 0, 0, 0, 0, 0, 0, 9][..]), ("a", b"")];
        let values = values.into_iter().map(|(key, value)| (key.into(), Bytes::from_static(value)));
        let golden = "534552494142554cea6356d4000000010000000200016100000000001370726f6a6563746f722f31362f332f6d61696c\
                      000000080000000000000009";
        let bytes = encode(&values.collect());
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, golden);
    }

    #[test]
    fn a_written_value_survives_a_power_cut_and_one_in_progress_is_old_or_new() {
        for cut in 0..30 {
            for seed in 0..20 {
                simulate(1, |env| async move {
                    let disk = SimulatedDisk::new();
                    let bulletin = open(&env, &disk);
                    disk.cut_power_at(cut);
                    let mut durable = 0_u8;
                    while durable < 5 && bulletin.put("a", &[durable + 1]).await.is_ok() {
                        durable += 1;
                    }
                    assert!(durable > 0 || cut < 10, "puts succeed until the power is cut");
                    let found = open(&env, &disk.after(Crash::Power { seed })).get("a").await.unwrap();
                    let found = found.map_or(0, |found| found[0]);
                    assert!(found == durable || found == durable + 1, "{cut} {seed}: {found}, not {durable}");
                });
            }
        }
    }

    #[test]
    fn a_damaged_bulletin_is_refused_and_not_changed() {
        simulate(1, |env| async move {
            let disk = SimulatedDisk::new();
            open(&env, &disk).put("a", b"1").await.unwrap();
            let path = Path::new(FOLDER).join(BULLETIN);
            disk.damage(&path, HEADER_BYTES + 3, |bytes| bytes[0] ^= 1);
            let bulletin = open(&env, &disk);
            let error = bulletin.get("a").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("its checksum does not match"), "{error}");
            assert_eq!(bulletin.put("a", b"2").await, Err(error));
            assert_eq!(bulletin.copy(), None);
        });
    }

    #[test]
    fn a_bulletin_does_not_grow_without_bound() {
        simulate(1, |env| async move {
            let bulletin = open(&env, &SimulatedDisk::new());
            let value = vec![0; FILE_BYTES_MAX / 4];
            for key in ["a", "b", "c", "c"] {
                bulletin.put(key, &value).await.unwrap();
            }
            assert_eq!(bulletin.put("d", &value).await.unwrap_err().kind(), ErrorKind::TooLarge);
            assert_eq!(bulletin.get("d").await, Ok(None));
        });
    }

    proptest! {
        #[test]
        fn a_bulletin_is_read_as_it_was_written_and_a_changed_one_is_not(
            values: BTreeMap<String, Vec<u8>>, at: prop::sample::Index, change in 1_u8..,
        ) {
            let values: Values =
                values.into_iter().map(|(key, value)| (key.into_boxed_str(), value.into())).collect();
            let mut bytes = encode(&values);
            prop_assert_eq!(decode(&bytes), Ok(values));
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            prop_assert!(decode(&bytes).is_err());
            bytes[at] ^= change;
            bytes.truncate(at);
            prop_assert!(decode(&bytes).is_err());
        }
    }
}
