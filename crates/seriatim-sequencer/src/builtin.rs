//! The sequences that every application has, with the numbers that they start from.

use seriatim_types::{Number, SequenceId};

use crate::{IdSpace, Sequence};

/// `sys.PartitionOffset`: the place in the partition log. Given by `begin`, from 1; never drawn.
pub const PARTITION_OFFSET: SequenceId = SequenceId::new(1);
/// `sys.WorkspaceOffset`: the place in the workspace log. Given by `begin`, from 1; never drawn.
pub const WORKSPACE_OFFSET: SequenceId = SequenceId::new(2);
/// `sys.RecordId`: ids of O and W records, or of all records where there is one sequence for them.
pub const RECORD_ID: SequenceId = SequenceId::new(3);
/// `sys.CRecordId`: ids of C records.
pub const C_RECORD_ID: SequenceId = SequenceId::new(4);
/// The first id that an application may use for a sequence of its own; those below are kept for built-in ones.
pub const FIRST_CUSTOM: SequenceId = SequenceId::new(16);

/// The first id of a record where one sequence serves all of them.
const FIRST_SINGLE: u64 = 200_001;

/// Ids of O and W records: 322680000131072 to 322685000131071, and on from 322690000131072.
#[must_use]
pub fn record_ids() -> Sequence {
    let last = Number::LAST_IN_JSON.get();
    let ranges = [322_680_000_131_072..=322_685_000_131_071, 322_690_000_131_072..=last];
    Sequence::with_ranges(RECORD_ID, &ranges).in_space(IdSpace::RECORDS)
}

/// Ids of C records: 322685000131072 to 322690000131071, so that they lie together.
#[must_use]
pub fn c_record_ids() -> Sequence {
    Sequence::with_ranges(C_RECORD_ID, &[322_685_000_131_072..=322_690_000_131_071])
        .in_space(IdSpace::RECORDS)
}

/// The scheme with two sequences of record ids.
#[must_use]
pub fn record_sequences() -> Vec<Sequence> {
    vec![record_ids(), c_record_ids()]
}

/// The scheme with one sequence for all records, from 200001.
#[must_use]
pub fn single_record_sequence() -> Vec<Sequence> {
    vec![Sequence::new(RECORD_ID, FIRST_SINGLE).in_space(IdSpace::RECORDS)]
}

/// The name of a built-in sequence.
#[must_use]
pub fn name_of(sequence: SequenceId) -> Option<&'static str> {
    let names = [
        (PARTITION_OFFSET, "sys.PartitionOffset"),
        (WORKSPACE_OFFSET, "sys.WorkspaceOffset"),
        (RECORD_ID, "sys.RecordId"),
        (C_RECORD_ID, "sys.CRecordId"),
    ];
    names.iter().find(|(id, _)| *id == sequence).map(|(_, name)| *name)
}
