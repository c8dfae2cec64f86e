//! The sequences that every application has, with the numbers that they start from.

use seriatim_types::{Number, SequenceId};

use crate::{IdSpace, Sequence};

/// `sys.PartitionOffset`: the offset in the partition log. Given by `begin`, from 1; never drawn.
pub const PARTITION_OFFSET: SequenceId = SequenceId::new(1);
/// `sys.WorkspaceOffset`: the offset in the workspace log. Given by `begin`, from 1; never drawn.
pub const WORKSPACE_OFFSET: SequenceId = SequenceId::new(2);
/// `sys.RecordId`: ids of O and W records, or of all records if there is only one sequence for them.
pub const RECORD_ID: SequenceId = SequenceId::new(3);
/// `sys.CRecordId`: ids of C records.
pub const C_RECORD_ID: SequenceId = SequenceId::new(4);
/// The first id for an application's own sequences. Smaller ids are for built-in sequences.
pub const FIRST_CUSTOM: SequenceId = SequenceId::new(16);

/// The first record id if one sequence is used for all records.
const FIRST_SINGLE: u64 = 200_001;

/// Ids of O and W records: 322680000131072 to 322685000131071, then from 322690000131072 on.
#[must_use]
pub fn record_ids() -> Sequence {
    let last = Number::LAST_IN_JSON.get();
    let ranges = [322_680_000_131_072..=322_685_000_131_071, 322_690_000_131_072..=last];
    Sequence::with_ranges(RECORD_ID, &ranges).in_space(IdSpace::RECORDS)
}

/// Ids of C records: 322685000131072 to 322690000131071, in one range, so that they are stored together.
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
