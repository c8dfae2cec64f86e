//! After a crash every acknowledged append is there, and no batch is there in part.

use super::*;
use crate::disk::Crash;

/// The answers that a writer got.
#[derive(Debug, Default)]
struct WriterAnswers {
    /// Bodies of committed batches, in order.
    committed: Vec<String>,
    /// The batch that was not answered, or was in doubt.
    doubtful: Option<Vec<String>>,
}

/// Appends batches to a partition until the disk fails.
async fn write_until_it_fails(log: Log, id: u16, rounds: usize) -> WriterAnswers {
    let mut answers = WriterAnswers::default();
    let Ok(owner) = log.take(partition(id)).await else {
        return answers;
    };
    let mut at = owner.tail();
    for round in 0..rounds {
        let entries = batch(&owner, &format!("p{id} r{round}"), 1 + (round * 7 + usize::from(id)) % 9);
        let names = entries.iter().map(|entry| String::from_utf8(entry.body().to_vec()).unwrap()).collect();
        match log.append(&owner, at, &entries).await {
            Ok(receipt) => {
                at = receipt.next();
                answers.committed.extend::<Vec<String>>(names);
            }
            Err(error) => {
                answers.doubtful = (!error.is_refused()).then_some(names);
                break;
            }
        }
    }
    answers
}

async fn run(disk: &SimulatedDisk, writers: u16, rounds: usize) -> Vec<WriterAnswers> {
    let Ok(log) = open_log(disk) else {
        return Vec::new();
    };
    let env = Env::real();
    let tasks: Vec<_> =
        (0..writers).map(|id| env.spawn(write_until_it_fails(log.clone(), id, rounds))).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    let _ = log.close().await;
    answers
}

async fn check(disk: &SimulatedDisk, answers: &[WriterAnswers], context: &str) {
    let log = open_log(disk).unwrap_or_else(|error| panic!("{context}: {error}"));
    for (id, answers) in answers.iter().enumerate() {
        let found = bodies(&log, partition(u16::try_from(id).unwrap())).await.unwrap();
        let (kept, rest) = found.split_at_checked(answers.committed.len()).unwrap_or((&found, &[]));
        assert_eq!(kept, answers.committed, "{context}: an acknowledged append is missing");
        let doubtful = answers.doubtful.as_deref().unwrap_or(&[]);
        assert!(
            rest.is_empty() || rest == doubtful,
            "{context}: a part of a batch, or an unknown one: {rest:?}"
        );
    }
    // What survived one crash survives the next one, and the log accepts appends.
    let owner = log.take(partition(0)).await.unwrap();
    append(&log, &owner, owner.tail(), "after", 2).await.unwrap();
    let before = bodies(&log, partition(0)).await.unwrap();
    let again = open_log(&disk.after(Crash::PowerLosesAll)).unwrap();
    assert_eq!(bodies(&again, partition(0)).await.unwrap(), before, "{context}: lost by a second crash");
}

fn images() -> u64 {
    if std::env::var_os("SERIATIM_FULL").is_some() { 1_000 } else { 150 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_at_any_operation_keeps_acknowledged_appends_and_splits_no_batch() {
    // Count the operations of a run without faults: the power can be cut at each of them.
    let whole = SimulatedDisk::new();
    run(&whole, 4, 30).await;
    let operations = whole.operations();
    for seed in 0..images() {
        let disk = SimulatedDisk::new();
        let cut = seed * 7_919 % operations;
        disk.cut_power_at(cut);
        let answers = run(&disk, 4, 30).await;
        let context = format!("image {seed}, power off at operation {cut} of {operations}");
        check(&disk.after(Crash::Power { seed }), &answers, &context).await;
        check(&disk.after(Crash::PowerLosesAll), &answers, &context).await;
        check(&disk.after(Crash::Process), &answers, &context).await;
    }
    println!("{} images of power cuts, {operations} operations to cut at", 3 * images());
}

#[tokio::test]
async fn a_failed_sync_stops_the_log_and_its_frame_is_not_trusted() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    let owner = log.take(partition(0)).await.unwrap();
    let at = append(&log, &owner, owner.tail(), "first", 2).await.unwrap().next();
    disk.fail_syncs(1);
    let error = append(&log, &owner, at, "second", 2).await.unwrap_err();
    assert!(!error.is_refused(), "{error}");
    assert!(error.to_string().contains("a sync of log/0000000001.segment failed"), "{error}");

    // The next sync would succeed although the data is not durable. So the log must not sync again.
    let error = append(&log, &owner, at, "third", 1).await.unwrap_err();
    assert!(matches!(&error, AppendError::Stopped(_)), "{error}");
    assert!(log.take(partition(1)).await.is_err());
    // The log can still be read up to what is durable.
    assert_eq!(bodies(&log, partition(0)).await.unwrap(), ["first 0/2", "first 1/2"]);
    drop(log);

    // The page cache still has the second append. Opening makes it durable before it can be read.
    let log = open_log(&disk).unwrap();
    let seen = bodies(&log, partition(0)).await.unwrap();
    assert_eq!(seen.len(), 4);
    let after = open_log(&disk.after(Crash::PowerLosesAll)).unwrap();
    assert_eq!(bodies(&after, partition(0)).await.unwrap(), seen);
}

#[tokio::test]
async fn an_append_that_waits_for_a_failed_sync_is_not_written_and_is_refused() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    let owners = log.take_all(&[partition(0), partition(1)]).await.unwrap();
    disk.fail_syncs(1);
    let first = append(&log, &owners[0], owners[0].tail(), "first", 1);
    let second = append(&log, &owners[1], owners[1].tail(), "second", 1);
    let answers = [first.await, second.await];
    let refused = answers.iter().filter(|answer| answer.as_ref().unwrap_err().is_refused()).count();
    assert!(refused <= 1, "one was in the frame that failed: {answers:?}");
    drop(log);
    let log = open_log(&disk.after(Crash::PowerLosesAll)).unwrap();
    assert!(bodies(&log, partition(1)).await.unwrap().is_empty());
}

/// A log whose next append needs a new segment, and the offset where it goes.
async fn nearly_full(disk: &SimulatedDisk) -> (Log, Owner, PartitionOffset) {
    let log = open_log(disk).unwrap();
    let owner = log.take(partition(0)).await.unwrap();
    let at = append(&log, &owner, owner.tail(), "first", 60).await.unwrap().next();
    assert_eq!(disk.list(Path::new(DIRECTORY)).unwrap(), ["0000000001.segment"]);
    (log, owner, at)
}

#[tokio::test]
async fn a_segment_whose_name_may_not_be_durable_stops_the_log_and_it_can_be_opened_again() {
    let disk = SimulatedDisk::new();
    let (log, owner, at) = nearly_full(&disk).await;
    disk.fail_directory_syncs(1);
    let error = append(&log, &owner, at, "large", 100).await.unwrap_err();
    // This append would fit into the old segment. It must not be written there.
    let small = append(&log, &owner, at, "small", 1).await.unwrap_err();
    for error in [&error, &small] {
        assert!(matches!(error, AppendError::Stopped(_)), "{error}");
        let text = "log/0000000002.segment could not be created: the disk failed to sync";
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 60);
    drop(log);
    for crash in [Crash::Process, Crash::PowerLosesAll] {
        let log = open_log(&disk.after(crash)).unwrap();
        assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 60, "{crash:?}");
        let owner = log.take(partition(0)).await.unwrap();
        append(&log, &owner, owner.tail(), "large", 100).await.unwrap();
    }
}

#[tokio::test]
async fn if_a_segment_cannot_be_created_appends_are_refused_and_the_log_continues() {
    let disk = SimulatedDisk::new();
    let (log, owner, at) = nearly_full(&disk).await;
    disk.fail_creates(1);
    let error = append(&log, &owner, at, "large", 100).await.unwrap_err();
    let reason = "log/0000000002.segment could not be created: the disk failed to create a file";
    assert_eq!(error, AppendError::Unavailable(reason.to_owned()));
    assert!(error.is_refused());
    let at = append(&log, &owner, at, "small", 1).await.unwrap().next();
    append(&log, &owner, at, "large", 100).await.unwrap();
    log.close().await.unwrap();
    let log = open_log(&disk.after(Crash::PowerLosesAll)).unwrap();
    assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 161);
}

#[tokio::test]
async fn a_log_in_new_folders_survives_a_power_cut() {
    let open = |disk: &SimulatedDisk, directory: &Path, before| {
        let space = Arc::new(FreeSpace::new(directory, 0, Box::new(|_| Ok(u64::MAX))));
        FileLog::open(&Env::real(), Arc::new(disk.clone()), directory, OPTIONS, space, before, None)
            .map(Log::new)
    };
    for directory in ["log", "deep/below/log", "/deep/below/log"].map(Path::new) {
        let disk = SimulatedDisk::new();
        // A process that was killed while it created the folders has left one that is not durable.
        if let Some(below) =
            directory.parent().and_then(Path::parent).filter(|path| path.file_name().is_some())
        {
            disk.create_directory(below).unwrap();
        }
        let log = open(&disk, directory, OpenMode::CreateIfMissing).unwrap();
        let owner = log.take(partition(0)).await.unwrap();
        append(&log, &owner, owner.tail(), "event", 3).await.unwrap();
        let log = open(&disk.after(Crash::PowerLosesAll), directory, OpenMode::MustExist).unwrap();
        assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 3, "{}", directory.display());
    }
}
