//! A copy of the log is durable, complete, and has nothing after its end.

use super::*;
use crate::disk::Crash;

const COPY: &str = "copy";

/// A log with several segments, of which one append is larger than a segment. Returns its prefix in the middle and at its
/// end.
async fn filled(disk: &SimulatedDisk) -> (LogPrefix, LogPrefix) {
    let backend = Arc::new(open_backend(disk).unwrap());
    let log = Log::from_arc(backend.clone());
    let owner = log.take(partition(0)).await.unwrap();
    let (mut at, mut middle) = (owner.tail(), None);
    for round in 0..20 {
        let count = if round == 7 { 500 } else { 20 };
        at = append(&log, &owner, at, &format!("{round}"), count).await.unwrap().next();
        if round == 9 {
            middle = Some(backend.committed_prefix().unwrap());
        }
    }
    let end = backend.committed_prefix().unwrap();
    log.close().await.unwrap();
    (middle.unwrap(), end)
}

fn open_copy(disk: &SimulatedDisk) -> Log {
    let space = FreeSpace::new(Path::new(COPY), 0, Box::new(|_| Ok(u64::MAX)));
    let (disk, space) = (Arc::new(disk.clone()), Arc::new(space));
    let log = FileLog::open(&Env::real(), disk, Path::new(COPY), OPTIONS, space, OpenMode::MustExist, None);
    Log::new(log.unwrap())
}

#[tokio::test]
async fn a_copy_survives_a_power_cut_as_soon_as_it_has_returned() {
    for purpose in [Purpose::Keep, Purpose::Use] {
        let disk = SimulatedDisk::new();
        let (middle, end) = filled(&disk).await;
        for (prefix, entries) in [(middle, 9 * 20 + 500), (end, 19 * 20 + 500)] {
            let copied = prefix.copy(Path::new(COPY), purpose).unwrap();
            assert_eq!(copied.entries, entries);
            assert!(copied.bytes <= prefix.bytes_max().unwrap());
            let log = open_copy(&disk.after(Crash::PowerLosesAll));
            assert_eq!(bodies(&log, partition(0)).await.unwrap().len() as u64, entries);
        }
    }
}

#[tokio::test]
async fn the_copy_of_a_copy_is_the_same() {
    let disk = SimulatedDisk::new();
    let (_, end) = filled(&disk).await;
    let copied = end.copy(Path::new(COPY), Purpose::Keep).unwrap();
    let folder = LogFolder { directory: Path::new(COPY).to_owned(), ..end.folder().clone() };
    let again = LogPrefix::new(folder, end.end()).copy(Path::new("again"), Purpose::Keep).unwrap();
    assert_eq!(copied, again);
    let names = disk.list(Path::new(COPY)).unwrap();
    assert_eq!(names, disk.list(Path::new("again")).unwrap());
    for name in names {
        let bytes = |directory: &str| {
            let file = disk.open(&Path::new(directory).join(&name)).unwrap();
            let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
            file.read_at(&mut bytes, 0).unwrap();
            bytes
        };
        assert!(bytes(COPY) == bytes("again"), "{name}");
    }
}

#[tokio::test]
async fn wherever_the_disk_fails_there_is_an_error_and_the_log_is_complete() {
    let disk = SimulatedDisk::new();
    let (_, end) = filled(&disk).await;
    let before = disk.operations();
    end.copy(Path::new(COPY), Purpose::Use).unwrap();
    let operations = disk.operations() - before;
    assert!(operations > 10, "{operations}");
    for operation in 0..operations {
        let disk = SimulatedDisk::new();
        let (_, end) = filled(&disk).await;
        disk.cut_power_at(disk.operations() + operation);
        let copied = end.copy(Path::new(COPY), Purpose::Use);
        assert!(matches!(copied, Err(CopyError::To(..))), "operation {operation} of {operations}");
        let log = open_log(&disk.after(Crash::PowerLosesAll)).unwrap();
        assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 19 * 20 + 500);
    }
}
