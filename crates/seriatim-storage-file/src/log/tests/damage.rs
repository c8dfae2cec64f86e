//! Damage is distinguished from a torn end.

use super::*;
use crate::disk::Crash;

/// A log with several frames in one segment. Returns where each frame begins, and where the last one ends.
async fn filled(disk: &SimulatedDisk) -> Vec<u64> {
    let backend = open_backend(disk).unwrap();
    let state = backend.state.clone();
    let log = Log::new(backend);
    let owner = log.take(partition(0)).await.unwrap();
    let (mut at, mut frames) = (owner.tail(), vec![4_096]);
    for round in 0..5 {
        frames.push(state.lock_index().end);
        at = append(&log, &owner, at, &format!("round {round}"), 2).await.unwrap().next();
    }
    frames.push(state.lock_index().end);
    log.close().await.unwrap();
    frames
}

fn segment() -> std::path::PathBuf {
    Path::new(DIRECTORY).join("0000000001.segment")
}

#[tokio::test]
async fn a_changed_byte_before_the_last_frame_is_damage_and_nothing_is_cut() {
    let whole = SimulatedDisk::new();
    let frames = filled(&whole).await;
    for frame in 0..frames.len() - 2 {
        for at in [frames[frame], frames[frame] + 9, frames[frame] + 13, frames[frame + 1] - 9] {
            let disk = whole.after(Crash::Process);
            disk.damage(&segment(), usize::try_from(at).unwrap(), |bytes| bytes[0] ^= 0x10);
            let operations = disk.operations();
            let error = open_log(&disk).unwrap_err();
            assert_eq!(error.kind(), seriatim_types::ErrorKind::Corrupt);
            let text = format!("there is no complete frame at byte {} of 0000000001.segment", frames[frame]);
            assert!(error.to_string().contains(&text), "{error}");
            // Only the name of the log's folder is synced; that changes nothing inside.
            assert_eq!(disk.operations(), operations + 1, "nothing was changed");
        }
    }
}

#[tokio::test]
async fn damage_to_the_last_frame_is_treated_as_a_torn_frame() {
    let disk = SimulatedDisk::new();
    let frames = filled(&disk).await;
    let last = frames[frames.len() - 2];
    disk.damage(&segment(), usize::try_from(last + 40).unwrap(), |bytes| {
        bytes[0] ^= 0x10;
    });
    let log = open_log(&disk).unwrap();
    assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 8);
}

#[tokio::test]
async fn a_torn_frame_is_removed_once_and_is_zeros_afterwards() {
    let disk = SimulatedDisk::new();
    let frames = filled(&disk).await;
    let (last, end) = (frames[frames.len() - 2], *frames.last().unwrap());
    disk.damage(&segment(), usize::try_from(last).unwrap(), |bytes| bytes[0] ^= 0x10);
    let cut = || {
        let space = FreeSpace::new(Path::new(DIRECTORY), 0, Box::new(|_| Ok(u64::MAX)));
        let directory = Path::new(DIRECTORY).to_owned();
        let (env, disk) = (Env::real(), Arc::new(disk.clone()));
        let folder = LogFolder { env, disk, directory, options: OPTIONS, space: Arc::new(space) };
        open::open(&folder, OpenMode::MustExist).unwrap().cut_bytes
    };
    // The frame's last bytes may be padding, which is zero.
    assert!((end - last - 8..=end - last).contains(&cut()));
    assert_eq!(cut(), 0);
}

#[tokio::test]
async fn an_event_with_the_bytes_of_a_frame_is_not_read_as_one() {
    // A client sends the bytes of a frame that would be complete at its place, except for the mark, which clients cannot
    // know. The frame with this event is torn. The log must open.
    let disk = SimulatedDisk::new();
    let frames = filled(&disk).await;
    let end = *frames.last().unwrap();
    disk.damage(&segment(), usize::try_from(end).unwrap(), |bytes| {
        bytes[..32].fill(0x55);
        let position = segment::Position { segment: segment::SegmentNumber::FIRST, at: end + 64 };
        let mut forged = vec![0; frame::FRAME_HEADER_BYTES];
        frame::finish(&mut forged, u64::from_be_bytes(*b"SERIATIM"), 0, position);
        bytes[64..64 + forged.len()].copy_from_slice(&forged);
    });
    let log = open_log(&disk).unwrap();
    assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 10);
}

#[tokio::test]
async fn damage_in_a_full_segment_is_found_when_it_is_read() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    let owner = log.take(partition(0)).await.unwrap();
    let mut at = owner.tail();
    for round in 0..60 {
        at = append(&log, &owner, at, &format!("{round}"), 10).await.unwrap().next();
    }
    log.close().await.unwrap();
    disk.damage(&segment(), 9_000, |bytes| bytes[0] ^= 1);
    let log = open_log(&disk).unwrap();
    let error = bodies(&log, partition(0)).await.unwrap_err();
    assert!(error.to_string().contains("of 0000000001.segment: the segment is damaged"), "{error}");
    // Entries after the damage can still be read.
    let read =
        log.read(partition(0), PartitionOffset::new(590).unwrap(), ReadLimit::default()).await.unwrap();
    assert_eq!(read.len(), 11);
}

#[tokio::test]
async fn a_missing_segment_is_named() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    let owner = log.take(partition(0)).await.unwrap();
    append(&log, &owner, owner.tail(), "large", 500).await.unwrap();
    append(&log, &owner, PartitionOffset::new(501).unwrap(), "small", 200).await.unwrap();
    log.close().await.unwrap();
    disk.remove(&Path::new(DIRECTORY).join("0000000002.segment")).unwrap();
    let error = open_log(&disk).unwrap_err();
    assert_eq!(error.to_string(), "the log is damaged: 0000000002.segment is missing from log");
}

#[tokio::test]
async fn a_frame_that_does_not_follow_the_one_before_it_is_damage() {
    // As if a part of the file had been restored from an older copy: complete, at its place, and of another history.
    let disk = SimulatedDisk::new();
    let frames = filled(&disk).await;
    let (start, end) = (usize::try_from(frames[2]).unwrap(), usize::try_from(frames[3]).unwrap());
    disk.damage(&segment(), start, |bytes| {
        bytes[20] ^= 1;
        let checksum = crc32fast::hash(&bytes[12..end - start]);
        bytes[8..12].copy_from_slice(&checksum.to_be_bytes());
    });
    let error = open_log(&disk).unwrap_err();
    let text = format!("the frame at byte {start} of 0000000001.segment does not follow the previous one");
    assert!(error.to_string().contains(&text), "{error}");
}

#[tokio::test]
async fn a_damaged_frame_with_a_torn_one_after_it_is_damage_and_nothing_is_cut() {
    let whole = SimulatedDisk::new();
    let frames = filled(&whole).await;
    let (damaged, torn) = (frames[frames.len() - 3], frames[frames.len() - 2]);
    // What is left of the last frame: its beginning up to a sector, or its first word.
    for kept in [48, 8] {
        let disk = whole.after(Crash::Process);
        let end = usize::try_from(*frames.last().unwrap() - torn).unwrap();
        disk.damage(&segment(), usize::try_from(torn).unwrap(), |bytes| bytes[kept..end].fill(0));
        // If only this frame is incomplete, it is torn, and is removed.
        let log = open_log(&disk.after(Crash::Process)).unwrap();
        assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 8);

        disk.damage(&segment(), usize::try_from(damaged).unwrap() + 40, |bytes| bytes[0] ^= 0x10);
        let error = open_log(&disk).unwrap_err();
        let text = format!(
            "there is no complete frame at byte {damaged} of 0000000001.segment, but another frame begins after it at byte {torn}"
        );
        assert_eq!(error.kind(), seriatim_types::ErrorKind::Corrupt);
        assert!(error.to_string().contains(&text), "{error}");
    }
}

#[tokio::test]
async fn a_log_without_segments_is_refused_and_not_created_again() {
    let disk = SimulatedDisk::new();
    let open = |before| {
        let space = Arc::new(FreeSpace::new(Path::new(DIRECTORY), 0, Box::new(|_| Ok(u64::MAX))));
        let disk = Arc::new(disk.clone());
        FileLog::open(&Env::real(), disk, Path::new(DIRECTORY), OPTIONS, space, before, None)
    };
    let refused = || {
        let error = open(OpenMode::MustExist).unwrap_err();
        assert_eq!(error.kind(), seriatim_types::ErrorKind::Corrupt);
        assert!(error.to_string().contains("there are no segments in log, and there was a log"), "{error}");
    };
    refused();
    drop(open(OpenMode::CreateIfMissing).unwrap());
    drop(open(OpenMode::MustExist).unwrap());
    disk.remove(&segment()).unwrap();
    refused();
    assert!(disk.list(Path::new(DIRECTORY)).unwrap().is_empty(), "nothing was created");
}
