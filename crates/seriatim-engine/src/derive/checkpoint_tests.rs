use seriatim_env::simulate;
use seriatim_storage::memory::{MemoryLog, MemoryStore};

use super::*;

const OFFSET: [u8; 8] = 0x0102_0304_0506_0708_u64.to_be_bytes();

fn offset() -> PartitionOffset {
    PartitionOffset::new(u64::from_be_bytes(OFFSET)).unwrap()
}

fn checked(bytes: &[u8]) -> Vec<u8> {
    with_checksum(bytes.to_vec())
}

fn entry() -> EntryMark {
    let append = AppendId { epoch: Epoch::new(0x11).unwrap(), counter: 0x22 };
    EntryMark { append, chain: Digest::new([0xcc; 32]) }
}

fn identity() -> LogIdentity {
    LogIdentity::from_bytes(*b"identity of logs")
}

fn mark() -> Mark {
    Mark { next: offset(), origin: Some(Origin { log: identity(), last: Some(entry()) }) }
}

fn first() -> Mark {
    Mark { next: PartitionOffset::FIRST, origin: Some(Origin { log: identity(), last: None }) }
}

fn incomplete() -> Vec<u8> {
    let mut batch = Batch::new();
    Checkpoint::put_incomplete(&mut batch, Partition::new(1, 0));
    batch.into_iter().next().unwrap().value.unwrap().to_vec()
}

#[test]
fn the_bytes_of_a_checkpoint() {
    let body = [
        b"\x02\x01\x02\x03\x04\x05\x06\x07\x08".as_slice(),
        b"identity of logs",
        b"\0\0\0\0\0\0\0\x11\0\0\0\0\0\0\0\x22",
        &[0xcc; 32],
    ]
    .concat();
    let golden = [&body[..], b"\xc0\x79\xb6\xbd"].concat();
    assert_eq!((encode(mark()), golden.len()), (golden.clone(), 77));
    assert_eq!(decode(&golden), Ok(Checkpoint::At(mark())));
    let golden = b"\x02\0\0\0\0\0\0\0\x01identity of logs\xcb\x44\xb1\xe1";
    assert_eq!(encode(first()), *golden);
    assert_eq!(decode(golden), Ok(Checkpoint::At(first())));
    let golden = b"\x02\0\0\0\0\0\0\0\0\xc8\xff\x3c\x28";
    assert_eq!(incomplete(), golden);
    assert_eq!(decode(golden), Ok(Checkpoint::Incomplete));
}

#[test]
fn checkpoints_of_earlier_versions_are_read_and_name_no_log() {
    let unknown = Ok(Checkpoint::At(Mark::without_log(offset())));
    let version_1 = b"\x01\x01\x02\x03\x04\x05\x06\x07\x08\xab\x9a\x57\x41";
    assert_eq!(decode(version_1), unknown);
    assert_eq!(encode(Mark::without_log(offset())), version_1);
    assert_eq!(decode(b"\x01\x02\x03\x04\x05\x06\x07\x08\x3f\xca\x88\xc5"), unknown);
}

#[test]
fn a_newer_checkpoint_of_any_length_is_reported_as_newer_and_not_as_damaged() {
    let newer = BadValue::Newer { found: 3, known: 2 };
    for rest in [&[][..], &OFFSET, &[0; 100]] {
        assert_eq!(decode(&checked(&[&[3], rest].concat())), Err(newer));
    }
}

#[test]
fn damage_is_noticed() {
    let whole = [encode(mark()), encode(first()), incomplete(), encode(Mark::without_log(offset()))];
    for bytes in whole.into_iter().chain([checked(&OFFSET)]) {
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), Err(BadValue::Checksum), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
    for length in 0..4 {
        assert_eq!(decode(&[1; 4][..length]), Err(BadValue::Short { found: length }));
    }
    assert_eq!(decode(&checked(&[])), Err(BadValue::Short { found: 4 }));
    assert_eq!(decode(&checked(&[1; 10])), Err(BadValue::Short { found: 14 }));
    assert_eq!(decode(&checked(&[0; 8])), Err(BadValue::Field("offset")));
    let body = |mark| encode(mark).split_last_chunk::<4>().unwrap().0.to_vec();
    for (length, problem) in [
        (9, BadValue::Field("identity of its log")),
        (24, BadValue::Field("identity of its log")),
        (25, BadValue::Field("entry before it")),
        (72, BadValue::Field("entry before it")),
    ] {
        assert_eq!(decode(&checked(&body(mark())[..length])), Err(problem), "{length} bytes");
    }
    let longer = [body(mark()), vec![0]].concat();
    assert_eq!(decode(&checked(&longer)), Err(BadValue::Short { found: 78 }));
}

#[test]
fn a_checkpoint_is_written_and_read_and_an_old_one_beyond_the_tail_is_evidence() {
    simulate(1, |_| async {
        let (store, partition) = (Store::new(MemoryStore::new()), Partition::new(7, 3));
        let tail = PartitionOffset::FIRST;
        assert_eq!(Checkpoint::read_beside(&store, partition, tail).await, Ok(Checkpoint::Absent));
        let old = keys::checkpoint_of_format_1(partition);
        store.put(old.as_key(), &checked(&OFFSET)).await.unwrap();
        let evidence = Checkpoint::At(Mark::without_log(offset()));
        assert_eq!(Checkpoint::read_beside(&store, partition, tail).await, Ok(evidence));
        assert_eq!(Checkpoint::read_beside(&store, partition, offset()).await, Ok(Checkpoint::Absent));
        let mut batch = Batch::new();
        Checkpoint::put(&mut batch, partition, mark());
        store.write(batch, seriatim_storage::Durability::Buffered).await.unwrap();
        assert_eq!(Checkpoint::read_beside(&store, partition, tail).await, Ok(Checkpoint::At(mark())));
    });
}

#[test]
fn what_a_checkpoint_says_about_a_log() {
    simulate(1, |_| async {
        let (log, partition) = (Log::new(MemoryLog::new()), Partition::new(7, 3));
        let (next, other) = (PartitionOffset::new(2).unwrap(), LogIdentity::from_bytes([9; 16]));
        let at = |log, last| Checkpoint::At(Mark { next, origin: Some(Origin { log, last }) });
        let (expected, beyond) = (entry(), Standing::Beyond(next));
        let rewound = Standing::Rewound { checkpoint: next, expected, found: None };
        let nothing = Standing::Derived(PartitionOffset::FIRST, None);
        for (checkpoint, tail, standing) in [
            (Checkpoint::Absent, 1, nothing),
            (Checkpoint::Incomplete, 1, Standing::Useless(None)),
            (Checkpoint::Bad(BadValue::Checksum), 1, Standing::Bad(BadValue::Checksum)),
            (at(other, Some(entry())), 2, Standing::Useless(Some(other))),
            (at(other, Some(entry())), 1, Standing::Useless(Some(other))),
            (at(identity(), Some(entry())), 1, beyond),
            (at(identity(), Some(entry())), 2, rewound),
            (Checkpoint::At(Mark::without_log(next)), 1, beyond),
            (Checkpoint::At(Mark::without_log(next)), 2, Standing::Derived(next, None)),
        ] {
            let tail = PartitionOffset::new(tail).unwrap();
            let found = checkpoint.stand(&log, Some(identity()), partition, tail).await;
            assert_eq!(found, Ok(standing), "{checkpoint:?}, tail {tail}");
        }
        let named = at(identity(), Some(entry()));
        let unnamed = named.stand(&log, None, partition, next).await;
        assert_eq!(
            unnamed,
            Ok(Standing::Useless(Some(identity()))),
            "a log without an identity is another one"
        );
    });
}
