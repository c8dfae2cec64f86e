use proptest::prelude::*;

use super::*;
use crate::{Sequence, builtin};

const KIND: WorkspaceKind = WorkspaceKind::new(1);

fn definition(ids: &[u16]) -> Definition {
    let mut sequences = builtin::record_sequences();
    sequences.extend(ids.iter().map(|&id| Sequence::new(SequenceId::new(id), 1)));
    Definition::new([(KIND, sequences)]).unwrap()
}

fn encoded(definition: &Definition, numbers: &Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.encode(definition, &mut bytes);
    bytes
}

/// The bytes of format version 1 never change. Tests may be added here; this one keeps its value.
#[test]
fn the_bytes_of_version_1_do_not_change() {
    let definition = definition(&[20]);
    let mut numbers = Numbers::fresh(KIND, definition.kind(KIND));
    numbers.next_offset = WorkspaceOffset::new(5).unwrap();
    numbers.folded = PartitionOffset::new(17);
    numbers.chain = Digest::of(b"abc");
    let hex: String = encoded(&definition, &numbers).iter().map(|byte| format!("{byte:02x}")).collect();
    let golden = [
        "01",                                                               // version
        "0001",                                                             // kind
        "0000000000000005",                                                 // next workspace offset
        "0000000000000011",                                                 // folded
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", // chain
        "0003",                                                             // sequences
        "000300012579cac8b000",                                             // sys.RecordId: 322680000131072
        "00040001257af4cea200",                                             // sys.CRecordId: 322685000131072
        "00140000000000000001",                                             // custom
        "2d0c087d",                                                         // checksum
    ];
    assert_eq!(hex, golden.concat());
}

#[test]
fn a_key_has_these_bytes_and_partitions_have_different_keys() {
    let workspace = WorkspaceId::FIRST;
    let key = NumbersKey::new(Partition::new(7, 3), workspace);
    assert_eq!(key.as_key(), Key::new(b"\0\0\0\x07\0\x03", b"n\0\0\x80\0\0\x02\0\0"));
    for other in [Partition::new(8, 3), Partition::new(7, 4)] {
        assert_ne!(key, NumbersKey::new(other, workspace));
    }
    assert_ne!(key, NumbersKey::new(Partition::new(7, 3), WorkspaceId::new(workspace.get() + 1)));
}

#[test]
fn every_changed_bit_is_detected_and_a_newer_version_has_its_own_error() {
    let definition = definition(&[]);
    let bytes = encoded(&definition, &Numbers::fresh(KIND, definition.kind(KIND)));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Numbers::decode(&definition, &damaged), Err(BadValue::Checksum), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(Numbers::decode(&definition, &bytes[..length]).is_err(), "length {length}");
    }
    let mut newer = bytes[..bytes.len() - 4].to_vec();
    newer[0] = 2;
    newer.put_u32(crc32fast::hash(&newer));
    let expected = BadValue::Newer { found: 2, known: 1 };
    assert_eq!(Numbers::decode(&definition, &newer), Err(expected));
}

#[test]
fn a_sequence_that_is_removed_and_added_again_continues_where_it_was() {
    let (with, without) = (definition(&[20]), definition(&[]));
    let mut numbers = Numbers::fresh(KIND, with.kind(KIND));
    let slot = with.kind(KIND).unwrap().slot(SequenceId::new(20)).unwrap();
    numbers.nexts[slot] = Number::new(42);
    let kept = Numbers::decode(&without, &encoded(&with, &numbers)).unwrap();
    assert_eq!(kept.others, [(SequenceId::new(20), Number::new(42))]);
    let back = Numbers::decode(&with, &encoded(&without, &kept)).unwrap();
    assert_eq!(back, numbers);
}

proptest! {
    #[test]
    fn numbers_read_back_as_they_were_written(
        kind in 1..3_u16,
        places in (1..u64::MAX, any::<u64>()),
        chain in any::<[u8; 32]>(),
        nexts in prop::collection::vec(any::<u64>(), 4),
        others in prop::collection::btree_map(100..200_u16, any::<u64>(), 0..5),
    ) {
        let definition = definition(&[20, 300]);
        let kind = WorkspaceKind::new(kind);
        let mut numbers = Numbers::fresh(kind, definition.kind(kind));
        numbers.next_offset = WorkspaceOffset::new(places.0).unwrap();
        numbers.folded = PartitionOffset::new(places.1);
        numbers.chain = Digest::new(chain);
        for (next, value) in numbers.nexts.iter_mut().zip(nexts) {
            *next = Number::new(value);
        }
        numbers.others = others.into_iter().map(|(id, next)| (SequenceId::new(id), Number::new(next))).collect();
        let bytes = encoded(&definition, &numbers);
        prop_assert_eq!(Numbers::decode(&definition, &bytes), Ok(numbers));
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Numbers::decode(&definition(&[]), &bytes).is_err());
    }
}
