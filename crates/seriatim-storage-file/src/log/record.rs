//! The records of a frame: appends and takes, one after the other.
//!
//! ```text
//! append:  1 (1 byte), application 4, partition 2, first offset 8, entries 4, bytes 4, the entries
//! take:    3 (1 byte), application 4, partition 2, epoch 8, id of the take 8, length of the holder's name 1, the name
//!          2 (1 byte), application 4, partition 2, epoch 8     version 1: without a name; read, and no longer written
//! ```

use bytes::{Buf, BufMut};
use seriatim_storage::{Entries, Holder, Take};
use seriatim_types::{ApplicationId, Epoch, Partition, PartitionId, PartitionOffset};

const APPEND: u8 = 1;
const UNNAMED_TAKE: u8 = 2;
const TAKE: u8 = 3;

/// One record of a frame. It borrows its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// Consecutive entries of a partition, from `first` on.
    Append { partition: Partition, first: PartitionOffset, count: u32, entries: &'a [u8] },
    /// The epoch of a partition was raised by this take.
    Take { partition: Partition, epoch: Epoch, id: u64, holder: &'a str },
}

/// The bytes are not a record. The frame's checksum matches, so this is a defect of the program and not damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadRecord;

/// The bytes of an append record before its entries.
pub(super) const APPEND_HEADER_BYTES: usize = 23;

/// The bytes of a take record before the name of the holder.
const TAKE_HEADER_BYTES: usize = 24;

/// The bytes of the record of a take.
pub(super) fn take_bytes(take: &Take) -> usize {
    TAKE_HEADER_BYTES + take.holder.as_str().len()
}

pub(super) fn encode_append(
    buffer: &mut Vec<u8>,
    partition: Partition,
    first: PartitionOffset,
    entries: &Entries,
) {
    let count = u32::try_from(entries.len()).expect("an append has far fewer entries: APPEND_ENTRIES_MAX");
    encode_append_bytes(buffer, partition, first, count, entries.as_bytes());
}

/// As [`encode_append`], of entries that are encoded one after the other.
pub(super) fn encode_append_bytes(
    buffer: &mut Vec<u8>,
    partition: Partition,
    first: PartitionOffset,
    count: u32,
    bytes: &[u8],
) {
    buffer.put_u8(APPEND);
    put_partition(buffer, partition);
    buffer.put_u64(first.get());
    buffer.put_u32(count);
    buffer.put_u32(u32::try_from(bytes.len()).expect("an append has far fewer bytes: APPEND_BYTES_MAX"));
    buffer.put_slice(bytes);
}

pub(super) fn encode_take(buffer: &mut Vec<u8>, partition: Partition, epoch: Epoch, take: &Take) {
    buffer.put_u8(TAKE);
    put_partition(buffer, partition);
    buffer.put_u64(epoch.get());
    put_take(buffer, take);
}

/// The id of a take and the name of its holder, as in a record.
pub(super) fn put_take(buffer: &mut Vec<u8>, take: &Take) {
    let name = take.holder.as_str();
    buffer.put_u64(take.id);
    buffer.put_u8(u8::try_from(name.len()).expect("a name is at most HOLDER_BYTES_MAX long"));
    buffer.put_slice(name.as_bytes());
}

/// Reads what [`put_take`] has written, and advances `bytes` to its end.
pub(super) fn get_take<'a>(bytes: &mut &'a [u8]) -> Result<(u64, &'a str), BadRecord> {
    let id = bytes.try_get_u64().map_err(|_| BadRecord)?;
    let length = usize::from(bytes.try_get_u8().map_err(|_| BadRecord)?);
    let (name, rest) = bytes.split_at_checked(length).ok_or(BadRecord)?;
    *bytes = rest;
    Ok((id, std::str::from_utf8(name).map_err(|_| BadRecord)?))
}

/// The take of partitions whose log does not say who took them: those of version 1.
pub(super) fn unnamed_take() -> Take {
    Take::new(Holder::unnamed(), 0)
}

fn put_partition(buffer: &mut Vec<u8>, partition: Partition) {
    buffer.put_u32(partition.application.get());
    buffer.put_u16(partition.id.get());
}

impl<'a> Record<'a> {
    /// Reads the record at the start of `bytes` and advances `bytes` to its end.
    pub(super) fn decode(bytes: &mut &'a [u8]) -> Result<Self, BadRecord> {
        let tag = bytes.try_get_u8().map_err(|_| BadRecord)?;
        let application = ApplicationId::new(bytes.try_get_u32().map_err(|_| BadRecord)?);
        let id = PartitionId::new(bytes.try_get_u16().map_err(|_| BadRecord)?);
        let partition = Partition { application, id };
        let number = bytes.try_get_u64().map_err(|_| BadRecord)?;
        match tag {
            UNNAMED_TAKE | TAKE => {
                let epoch = Epoch::new(number).ok_or(BadRecord)?;
                let (id, holder) = if tag == TAKE { get_take(bytes)? } else { (0, "") };
                Ok(Self::Take { partition, epoch, id, holder })
            }
            APPEND => {
                let count = bytes.try_get_u32().map_err(|_| BadRecord)?;
                let length = bytes.try_get_u32().map_err(|_| BadRecord)?;
                let length = usize::try_from(length).map_err(|_| BadRecord)?;
                let (entries, rest) = bytes.split_at_checked(length).ok_or(BadRecord)?;
                *bytes = rest;
                let first = PartitionOffset::new(number).ok_or(BadRecord)?;
                Ok(Self::Append { partition, first, count, entries })
            }
            _ => Err(BadRecord),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seriatim_storage::{Digest, Header};
    use seriatim_types::{AppendId, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

    use super::*;

    #[test]
    fn the_bytes_of_records_do_not_change() {
        let (mut bytes, take) = (Vec::new(), Take::new(Holder::new("a1"), 0x0102_0304_0506_0708));
        encode_take(&mut bytes, Partition::new(3, 4), Epoch::new(5).unwrap(), &take);
        let golden = [3, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8, 2, b'a', b'1'];
        assert_eq!(bytes, golden);
        assert_eq!(bytes.len(), take_bytes(&take));
        bytes.clear();
        let entries = Entries::new(AppendId { epoch: Epoch::FIRST, counter: 0 });
        encode_append(&mut bytes, Partition::new(3, 4), PartitionOffset::new(9).unwrap(), &entries);
        assert_eq!(bytes, [1, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes.len(), APPEND_HEADER_BYTES);
    }

    #[test]
    fn a_take_of_version_1_has_no_name() {
        let mut bytes = &[2, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5][..];
        let (partition, epoch) = (Partition::new(3, 4), Epoch::new(5).unwrap());
        assert_eq!(Record::decode(&mut bytes), Ok(Record::Take { partition, epoch, id: 0, holder: "" }));
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_name_that_is_not_text_is_not_a_record() {
        let mut bytes = Vec::new();
        encode_take(&mut bytes, Partition::new(3, 4), Epoch::FIRST, &Take::new(Holder::new("a"), 1));
        assert!(Record::decode(&mut &bytes[..]).is_ok());
        *bytes.last_mut().unwrap() = 0xff;
        assert_eq!(Record::decode(&mut &bytes[..]), Err(BadRecord));
    }

    proptest! {
        #[test]
        fn records_read_back_as_they_were_written(
            application: u32, id: u16, number in 1..u64::MAX, bodies in prop::collection::vec(0..50_usize, 1..5),
            take_id: u64, name: String,
        ) {
            let partition = Partition::new(application, id);
            let mut entries = Entries::new(AppendId { epoch: Epoch::FIRST, counter: 0 });
            for body in bodies {
                let body = vec![7; body];
                let header = Header {
                    workspace: WorkspaceId::FIRST,
                    kind: WorkspaceKind::new(1),
                    workspace_offset: WorkspaceOffset::FIRST,
                    time: Timestamp::from_millis(0),
                    body_digest: Digest::of(&body),
                    draws: &[],
                    raises: &[],
                };
                entries.push(&header, Digest::ZERO, &body).unwrap();
            }
            let (first, epoch) = (PartitionOffset::new(number).unwrap(), Epoch::new(number).unwrap());
            let mut bytes = Vec::new();
            encode_append(&mut bytes, partition, first, &entries);
            let take = Take::new(Holder::new(&name), take_id);
            encode_take(&mut bytes, partition, epoch, &take);
            let mut rest = &bytes[..];
            let count = u32::try_from(entries.len()).unwrap();
            let append = Record::Append { partition, first, count, entries: entries.as_bytes() };
            prop_assert_eq!(Record::decode(&mut rest), Ok(append));
            let holder = take.holder.as_str();
            prop_assert_eq!(Record::decode(&mut rest), Ok(Record::Take { partition, epoch, id: take_id, holder }));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn garbage_is_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut rest = &bytes[..];
            while !rest.is_empty() && Record::decode(&mut rest).is_ok() {}
        }
    }
}
