use proptest::prelude::*;

use super::*;

fn header<'a>(draws: &'a [Draw], raises: &'a [Raise], body: &[u8]) -> Header<'a> {
    Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(7),
        workspace_offset: WorkspaceOffset::new(5).unwrap(),
        time: Timestamp::from_millis(1_767_225_600_000),
        body_digest: Digest::of(body),
        draws,
        raises,
    }
}

fn append_id() -> AppendId {
    AppendId { epoch: Epoch::new(3).unwrap(), counter: 9 }
}

fn draw(sequence: u16, first: u64, count: u64) -> Draw {
    Draw { sequence: SequenceId::new(sequence), first: Number::new(first), count }
}

/// The bytes of format version 1 never change. Tests may be added here; this one keeps its value.
#[test]
fn the_bytes_of_version_1_do_not_change() {
    let mut bytes = Vec::new();
    let raise = Raise { sequence: SequenceId::new(2), next: Number::new(5_001) };
    encode(&mut bytes, append_id(), &header(&[draw(1, 17, 2)], &[raise], b"tea"), Digest::ZERO, b"tea")
        .unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let golden = [
        "00000092",                                                         // length
        "4d085d44",                                                         // checksum
        "01",                                                               // version
        "0000800000020000",                                                 // workspace
        "0007",                                                             // kind
        "0000000000000005",                                                 // workspace offset
        "0000019b76daa800",                                                 // time
        "00000000000000030000000000000009",                                 // append id
        "a9f74d1ec36ebdeb2da3f6e5868090cd2a2d20b3dcca7b62f60304b1d3d9ef42", // digest of the body
        "0001",                                                             // draws
        "0001",                                                             // raises
        "000100000000000000110000000000000002",                             // draw: 17 and 18 of sequence 1
        "00020000000000001389",                                             // raise: sequence 2 to 5001
        "603f25b9c630e8029383bc6d811160875a6fcaed792f0078574092136fb984e3", // chain
        "746561",                                                           // body
    ];
    assert_eq!(hex, golden.concat());
}

#[test]
fn every_changed_bit_is_detected() {
    let mut bytes = Vec::new();
    encode(&mut bytes, append_id(), &header(&[draw(1, 17, 2)], &[], b"tea"), Digest::ZERO, b"tea").unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Entry::decode(&damaged).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(Entry::decode(&bytes[..length]).is_err(), "length {length}");
    }
}

#[test]
fn a_newer_version_is_refused_with_its_own_error() {
    let mut bytes = Vec::new();
    encode(&mut bytes, append_id(), &header(&[], &[], b""), Digest::ZERO, b"").unwrap();
    bytes[8] = 2;
    let checksum = crc32fast::hash(&bytes[CHECKED_FROM..]);
    bytes[4..8].copy_from_slice(&checksum.to_be_bytes());
    let error = Entry::decode(&bytes).unwrap_err();
    assert_eq!(error, BadEntry::Newer { found: 2 });
    assert_eq!(
        error.to_string(),
        "an entry has version 2, and this program reads versions up to 1: use a newer program"
    );
}

#[test]
fn an_entry_that_exceeds_a_limit_is_refused_and_writes_nothing() {
    let draws = vec![draw(1, 1, 1); limits::DRAWS_MAX + 1];
    let mut bytes = vec![42];
    let error = encode(&mut bytes, append_id(), &header(&draws, &[], b""), Digest::ZERO, b"").unwrap_err();
    assert_eq!(
        error.to_string(),
        "an entry may have 4096 draws, and this one has 4097: write less with one event"
    );
    let body = vec![0; limits::ENTRY_BYTES_MAX];
    let error = encode(&mut bytes, append_id(), &header(&[], &[], b""), Digest::ZERO, &body).unwrap_err();
    assert_eq!(error.what, "bytes");
    assert_eq!(bytes, [42]);
}

fn any_draw() -> impl Strategy<Value = Draw> {
    (any::<u16>(), any::<u64>(), 1..u64::MAX)
        .prop_map(|(sequence, first, count)| draw(sequence, first, count))
}

fn any_raise() -> impl Strategy<Value = Raise> {
    (any::<u16>(), any::<u64>())
        .prop_map(|(sequence, next)| Raise { sequence: SequenceId::new(sequence), next: Number::new(next) })
}

proptest! {
    #[test]
    fn an_entry_reads_back_as_it_was_written(
        ids in (any::<u64>(), any::<u16>(), 1..u64::MAX, any::<u64>(), 1..u64::MAX, any::<u64>()),
        draws in prop::collection::vec(any_draw(), 0..8),
        raises in prop::collection::vec(any_raise(), 0..4),
        body in prop::collection::vec(any::<u8>(), 0..300),
        previous in any::<[u8; 32]>(),
        following in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let (workspace, kind, offset, time, epoch, counter) = ids;
        let header = Header {
            workspace: WorkspaceId::new(workspace),
            kind: WorkspaceKind::new(kind),
            workspace_offset: WorkspaceOffset::new(offset).unwrap(),
            time: Timestamp::from_millis(time),
            body_digest: Digest::of(&body),
            draws: &draws,
            raises: &raises,
        };
        let append = AppendId { epoch: Epoch::new(epoch).unwrap(), counter };
        let previous = Digest::new(previous);
        let mut bytes = Vec::new();
        let chain = encode(&mut bytes, append, &header, previous, &body).unwrap();
        let size = bytes.len();
        bytes.extend(following);

        let entry = Entry::decode(&bytes).unwrap();
        prop_assert_eq!(entry.size(), size);
        prop_assert_eq!(entry.workspace(), header.workspace);
        prop_assert_eq!(entry.kind(), header.kind);
        prop_assert_eq!(entry.workspace_offset(), header.workspace_offset);
        prop_assert_eq!(entry.time(), header.time);
        prop_assert_eq!(entry.append_id(), append);
        prop_assert_eq!(entry.body_digest(), header.body_digest);
        prop_assert_eq!(entry.draws().collect::<Vec<_>>(), draws);
        prop_assert_eq!(entry.raises().collect::<Vec<_>>(), raises);
        prop_assert_eq!(entry.chain(), chain);
        prop_assert!(entry.continues(previous));
        prop_assert!(!entry.continues(chain));
        prop_assert_eq!(entry.body(), &body[..]);
        prop_assert!(entry.body_is_intact());
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Entry::decode(&bytes).is_err());
    }
}
