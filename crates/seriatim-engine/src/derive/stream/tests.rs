use bytes::Bytes;
use seriatim_env::simulate;
use seriatim_storage::memory::MemoryStore;
use seriatim_storage::{Batch, ClusteringRange, Digest, EntryMark, Key, LogIdentity, Store};
use seriatim_types::{AppendId, Epoch, Partition, PartitionOffset};

use super::format::{FRAME_BYTES, Frame, FrameBuilder, Header, Trailer};
use super::tap::{Tap, TapFailure};
use super::{Expected, LoadError, Loader};
use crate::derive::checkpoint::{self, Checkpoint, Mark, Origin};
use crate::derive::{keys, local};

const PARTITION: Partition = Partition::new(16, 3);
const LOG: LogIdentity = LogIdentity::from_bytes(*b"identity of logs");
const DEFINITION: Digest = Digest::new([0xdd; 32]);

fn expected() -> Expected {
    Expected { partition: PARTITION, log: LOG, definition: Some(DEFINITION) }
}

fn mark(next: u64) -> Mark {
    let append = AppendId { epoch: Epoch::FIRST, counter: 5 };
    let last = Some(EntryMark { append, chain: Digest::new([0xcc; 32]) });
    Mark { next: PartitionOffset::new(next).unwrap(), origin: Some(Origin { log: LOG, last }) }
}

fn header() -> Header {
    let began_at = PartitionOffset::new(0x0102).unwrap();
    Header { partition: PARTITION, log: LOG, definition: DEFINITION, began_at }
}

fn pairs(items: &[(&[u8], &[u8])]) -> Bytes {
    let mut frame = FrameBuilder::pairs();
    items.iter().for_each(|(key, value)| frame.put(key, Some(value)));
    frame.finish()
}

fn changes(items: &[(&[u8], Option<&[u8]>)]) -> Bytes {
    let mut frame = FrameBuilder::changes();
    items.iter().for_each(|(key, value)| frame.put(key, *value));
    frame.finish()
}

/// Frames, and a trailer for them.
fn stream(frames: Vec<Bytes>, (pairs, changes): (u64, u64), checkpoint: Vec<u8>) -> Vec<Bytes> {
    let digest = frames.iter().fold(Digest::ZERO, |digest, frame| digest.link(frame));
    let trailer = Trailer { pairs, changes, digest, checkpoint };
    frames.into_iter().chain([trailer.encode()]).collect()
}

/// Three pairs, of which one is changed and one removed.
fn whole() -> Vec<Bytes> {
    let frames = vec![
        header().encode(),
        pairs(&[(b"a", b"1"), (b"b", b"")]),
        changes(&[(b"a", Some(b"2")), (b"b", None)]),
        pairs(&[(b"c", b"3")]),
    ];
    stream(frames, (3, 2), checkpoint::encode(mark(9)))
}

fn with_another_header(header: Header) -> Vec<Bytes> {
    let frames = vec![header.encode(), pairs(&[(b"a", b"1")])];
    stream(frames, (1, 0), checkpoint::encode(mark(9)))
}

async fn load(store: &Store, bytes: &[u8], part: usize) -> Result<PartitionOffset, LoadError> {
    let mut loader = Loader::new(store.clone(), expected());
    for part in bytes.chunks(part) {
        loader.feed(part).await?;
    }
    loader.finish().await
}

fn memory() -> Store {
    Store::new(MemoryStore::new())
}

/// Everything except the checkpoint.
async fn values(store: &Store) -> Vec<(Bytes, Bytes)> {
    let mut values = store.scan(&keys::storage(PARTITION), ClusteringRange::all()).all().await.unwrap();
    values.retain(|(key, _)| key != keys::checkpoint(PARTITION).clustering());
    values
}

#[test]
fn the_bytes_of_a_stream() {
    let header = header().encode();
    let content =
        [b"Hsrtlocal\x01\0\0\0\x10\0\x03identity of logs".as_slice(), &[0xdd; 32], b"\0\0\0\0\0\0\x01\x02"]
            .concat();
    assert_eq!(header[..4], 76_u32.to_be_bytes());
    assert_eq!(header[4..8], *b"\x37\x11\xb9\xdb");
    assert_eq!(header[8..], content);
    assert_eq!(pairs(&[(b"ab", b"c")])[8..], *b"P\0\x02ab\0\0\0\x01c");
    let changed = changes(&[(b"ab", Some(b"")), (b"c", None)]);
    assert_eq!(changed[8..], *b"C\0\x02ab\0\0\0\0\0\x01c\xff\xff\xff\xff");
    let trailer = Trailer { pairs: 1, changes: 2, digest: Digest::new([0xee; 32]), checkpoint: vec![7, 8] };
    let content = [b"T\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02".as_slice(), &[0xee; 32], &[7, 8]].concat();
    assert_eq!(trailer.encode()[8..], content);
    for frame in whole() {
        assert!(Frame::decode(&frame).is_ok());
    }
}

#[test]
fn a_stream_is_loaded_from_parts_of_any_size() {
    simulate(1, |_| async {
        let bytes = whole().concat();
        for part in [1, 2, 7, 100, bytes.len()] {
            let store = memory();
            assert_eq!(load(&store, &bytes, part).await.unwrap(), mark(9).next);
            assert_eq!(values(&store).await, [("a".into(), "2".into()), ("c".into(), "3".into())]);
            assert_eq!(Checkpoint::read(&store, PARTITION).await.unwrap(), Checkpoint::At(mark(9)));
        }
    });
}

async fn refused(bytes: &[u8]) -> LoadError {
    let store = memory();
    store.put(Key::new(b"other", b""), b"1").await.unwrap();
    let error = load(&store, bytes, 64).await.unwrap_err();
    assert_eq!(local::measure(&store, PARTITION).await.unwrap().keys, 0, "{error}: something is left");
    error
}

#[test]
fn a_stream_with_any_bit_changed_is_refused_and_leaves_nothing() {
    simulate(1, |_| async {
        let bytes = whole().concat();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = refused(&damaged).await;
            assert!(matches!(error, LoadError::Damaged(_) | LoadError::Cut), "bit {bit}: {error}");
        }
    });
}

#[test]
fn a_stream_that_ends_early_is_refused_and_leaves_nothing() {
    simulate(1, |_| async {
        let bytes = whole().concat();
        for length in 0..bytes.len() {
            assert_eq!(refused(&bytes[..length]).await, LoadError::Cut, "{length} bytes");
        }
    });
}

#[test]
fn frames_that_are_missing_repeated_or_in_another_order_are_noticed() {
    simulate(1, |_| async {
        let frames = whole();
        let last = frames.len() - 1;
        for place in 1..last {
            let mut missing = frames.clone();
            missing.remove(place);
            let mut repeated = frames.clone();
            repeated.insert(place, frames[place].clone());
            for wrong in [missing, repeated] {
                assert!(matches!(refused(&wrong.concat()).await, LoadError::Damaged(_)), "frame {place}");
            }
            let mut swapped = frames.clone();
            swapped.swap(place, place + 1);
            assert!(matches!(refused(&swapped.concat()).await, LoadError::Damaged(_)), "frame {place}");
        }
        let after = [frames.concat(), pairs(&[(b"d", b"4")]).to_vec()].concat();
        assert_eq!(refused(&after).await, LoadError::Damaged("bytes after its trailer"));
        let twice = [frames.concat(), frames.concat()].concat();
        assert_eq!(refused(&twice).await, LoadError::Damaged("bytes after its trailer"));
        assert_eq!(refused(&frames[1..].concat()).await, LoadError::NotOne);
    });
}

#[test]
fn a_stream_of_something_else_is_refused() {
    simulate(1, |_| async {
        let others = [
            ("partition", Header { partition: Partition::new(16, 4), ..header() }),
            ("log", Header { log: LogIdentity::from_bytes([1; 16]), ..header() }),
            ("definition", Header { definition: Digest::ZERO, ..header() }),
        ];
        for (expected, header) in others {
            let error = refused(&with_another_header(header).concat()).await;
            assert!(matches!(error, LoadError::Foreign { what, .. } if what == expected), "{error}");
        }
        let any = Expected { definition: None, ..expected() };
        let mut loader = Loader::new(memory(), any);
        let other = with_another_header(Header { definition: Digest::ZERO, ..header() }).concat();
        loader.feed(&other).await.unwrap();
        loader.finish().await.unwrap();
        let mut newer = header().encode().to_vec();
        newer[17] = 2;
        let checksum = crc32fast::hash(&newer[8..]);
        newer[4..8].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(refused(&newer).await, LoadError::Newer { found: 2, known: 1 });
    });
}

#[test]
fn a_checkpoint_that_does_not_fit_the_stream_is_refused() {
    simulate(1, |_| async {
        let other = Origin { log: LogIdentity::from_bytes([1; 16]), last: mark(9).origin.unwrap().last };
        let other = Mark { origin: Some(other), ..mark(9) };
        let without = Mark::without_log(mark(9).next);
        for checkpoint in [vec![], vec![1, 2, 3], checkpoint::encode(other), checkpoint::encode(without)] {
            let frames = vec![header().encode(), pairs(&[(b"a", b"1")])];
            let error = refused(&stream(frames, (1, 0), checkpoint).concat()).await;
            assert!(matches!(error, LoadError::Damaged(_)), "{error}");
        }
        for key in [&b"k"[..], b""] {
            let frames = vec![header().encode(), changes(&[(key, Some(b"1"))])];
            let error = refused(&stream(frames, (0, 1), checkpoint::encode(mark(9))).concat()).await;
            assert_eq!(error, LoadError::Damaged("a key that no partition has"));
        }
    });
}

#[test]
fn an_interrupted_load_is_removed_by_the_next_one() {
    simulate(1, |_| async {
        let store = memory();
        let mut loader = Loader::new(store.clone(), expected());
        let older = with_another_header(header());
        loader.feed(&older[..2].concat()).await.unwrap();
        drop(loader);
        assert_eq!(Checkpoint::read(&store, PARTITION).await.unwrap(), Checkpoint::Incomplete);
        assert_eq!(values(&store).await.len(), 1);
        let frames = vec![header().encode(), pairs(&[(b"b", b"2")])];
        let bytes = stream(frames, (1, 0), checkpoint::encode(mark(9))).concat();
        load(&store, &bytes, 64).await.unwrap();
        assert_eq!(values(&store).await, [("b".into(), "2".into())]);
    });
}

#[test]
fn a_frame_has_a_bounded_size() {
    let mut frame = FrameBuilder::pairs();
    let mut count = 0;
    while !frame.is_full() {
        frame.put(b"key", Some(&[0; 1_000]));
        count += 1;
    }
    let size = frame.finish().len();
    assert!((FRAME_BYTES..FRAME_BYTES + 2_000).contains(&size) && count > 200, "{size}");
}

fn batch(bytes: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(Key::new(&keys::storage(PARTITION), b"a"), &vec![0; bytes]);
    batch
}

#[test]
fn an_export_learns_of_every_write_that_begins_after_it_in_their_order() {
    let tap = Tap::default();
    tap.begin_write(&batch(1), mark(2)).end(true);
    let under_way = tap.begin_write(&batch(1), mark(3));
    assert_eq!(tap.watch(), Some(Ok(2)));
    assert_eq!(tap.watch(), None, "one export at a time");
    under_way.end(true);
    assert!(tap.take(u64::MAX).unwrap().is_none(), "it began before the export");
    tap.begin_write(&batch(1), mark(4)).end(true);
    tap.begin_write(&batch(1), mark(5)).end(true);
    let number = |last| tap.take(last).unwrap().map(|flushed| (flushed.number, flushed.mark));
    assert_eq!(number(3), Some((3, mark(4))));
    assert_eq!(number(3), None, "the next one is after it");
    assert_eq!(number(4), Some((4, mark(5))));
    tap.unwatch();
    tap.begin_write(&batch(1), mark(6)).end(true);
    assert_eq!(tap.watch(), Some(Ok(5)));
    assert!(tap.take(u64::MAX).unwrap().is_none());
}

#[test]
fn a_write_that_fails_or_is_abandoned_ends_an_export_and_prevents_the_next() {
    for is_abandoned in [false, true] {
        let tap = Tap::default();
        assert_eq!(tap.watch(), Some(Ok(0)));
        let write = tap.begin_write(&batch(1), mark(2));
        if is_abandoned {
            drop(write);
        } else {
            write.end(false);
        }
        assert_eq!(tap.take(u64::MAX).unwrap_err(), TapFailure::InDoubt);
        tap.unwatch();
        assert_eq!(tap.watch(), Some(Err(TapFailure::InDoubt)));
        tap.begin_write(&batch(1), mark(2)).end(true);
        assert_eq!(tap.watch(), Some(Ok(2)));
    }
}

#[test]
fn flushes_that_no_receiver_takes_end_the_export_and_not_the_memory() {
    let tap = Tap::default();
    assert_eq!(tap.watch(), Some(Ok(0)));
    // One write is accepted at any size. The next one is too much.
    tap.begin_write(&batch(65 << 20), mark(2)).end(true);
    assert_eq!(tap.take(u64::MAX).unwrap().unwrap().number, 1);
    for next in 3..6 {
        tap.begin_write(&batch(30 << 20), mark(next)).end(true);
    }
    assert_eq!(tap.take(u64::MAX).unwrap_err(), TapFailure::TooSlow);
}
