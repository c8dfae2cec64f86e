//! Keys of what is derived.
//!
//! ```text
//! what                partition part                                          clustering part
//! checkpoint          "ek" application 4, partition 2                         (empty)
//! workspace log       "el" application 4, workspace 8, offset >> 12: 8        offset & 4095: 2
//! registry of ids     "ei" application 4, workspace 8, id >> 12: 8            id & 4095: 2
//! records of a type   "er" application 4, workspace 8, type 2, id >> 12: 8    id & 4095: 2
//! parts of a type     "ep" application 4, workspace 8, type 2, id >> 24: 8    (id >> 12) & 4095: 2
//! idempotency keys    "ex" application 4, workspace 8                         the key's bytes
//! views               "ev" application 4, workspace 8, name                   parts of the row's key
//! offset of a         "eo" application 4, partition 2                         its name
//!   projector         (of earlier programs: it is on the log's bulletin)
//! sweep of            "es" application 4, partition 2                         (empty)
//!   idempotency keys
//! parts of a value    "ez" partition part of the value's key                  clustering part of the value's key,
//!   (see `split`)                                                               offset 8, number of the part 4
//! ```
//!
//! All integers are big-endian. The numbers of a workspace are the sequencer's (`NumbersKey`). The split by 12 bits keeps
//! a storage partition at 4,096 values at most.

use bytes::BufMut;
use seriatim_storage::Key;
pub use seriatim_storage::StoreKey;
use seriatim_types::{ApplicationId, Partition, PartitionId, RecordId, WorkspaceId, WorkspaceOffset};

use crate::definition::TypeId;

/// Bits of an offset or id that are in the clustering part.
pub(crate) const LOW_BITS: u32 = 12;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;

const SCOPE_BYTES: usize = 14;

fn scope(family: [u8; 2], application: ApplicationId, workspace: WorkspaceId) -> [u8; SCOPE_BYTES] {
    let mut bytes = [0; SCOPE_BYTES];
    bytes[..2].copy_from_slice(&family);
    bytes[2..6].copy_from_slice(&application.get().to_be_bytes());
    bytes[6..].copy_from_slice(&workspace.get().to_be_bytes());
    bytes
}

/// A key whose last number is split, in one allocation.
fn split_key(scope: &[u8; SCOPE_BYTES], kind: Option<TypeId>, number: u64) -> StoreKey {
    let partition = scope.len() + if kind.is_some() { 2 } else { 0 } + 8;
    let mut bytes = [0; 2 + SCOPE_BYTES + 2 + 8 + 2];
    let mut rest = &mut bytes[..];
    rest.put_u16(u16::try_from(partition).expect("a few bytes"));
    rest.put_slice(scope);
    if let Some(kind) = kind {
        rest.put_u16(kind.get());
    }
    rest.put_u64(number >> LOW_BITS);
    rest.put_u16(low(number));
    StoreKey::from_bytes(&bytes[..2 + partition + 2]).expect("a length and both parts")
}

fn low(number: u64) -> u16 {
    u16::try_from(number & LOW_MASK).expect("12 bits")
}

/// Keys of one workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkspaceKeys {
    pub(crate) application: ApplicationId,
    pub(crate) workspace: WorkspaceId,
}

impl WorkspaceKeys {
    pub(crate) fn new(application: ApplicationId, workspace: WorkspaceId) -> Self {
        Self { application, workspace }
    }

    /// Keys of what all workspaces of a partition have in common: no workspace has so small an id.
    pub(crate) fn of_partition(application: ApplicationId, partition: PartitionId) -> Self {
        Self::new(application, WorkspaceId::new(u64::from(partition.get())))
    }

    fn scope(self, family: [u8; 2]) -> [u8; SCOPE_BYTES] {
        scope(family, self.application, self.workspace)
    }

    /// An event in the workspace's log.
    pub(crate) fn event(self, offset: WorkspaceOffset) -> StoreKey {
        split_key(&self.scope(*b"el"), None, offset.get())
    }

    /// What an id leads to.
    pub(crate) fn id(self, id: RecordId) -> StoreKey {
        split_key(&self.scope(*b"ei"), None, id.get())
    }

    /// A record.
    pub(crate) fn record(self, kind: TypeId, id: RecordId) -> StoreKey {
        split_key(&self.scope(*b"er"), Some(kind), id.get())
    }

    /// Says that a part of a type's records has something in it.
    pub(crate) fn part(self, kind: TypeId, id: RecordId) -> StoreKey {
        split_key(&self.scope(*b"ep"), Some(kind), id.get() >> LOW_BITS)
    }

    /// The event that was sent with an idempotency key.
    pub(crate) fn idempotency(self, key: &str) -> StoreKey {
        StoreKey::new(&self.scope(*b"ex"), key.as_bytes())
    }

    /// The storage partition of a view's rows.
    pub(crate) fn view(self, name: &str) -> Vec<u8> {
        let mut partition = self.scope(*b"ev").to_vec();
        partition.put_slice(name.as_bytes());
        partition
    }
}

fn partition_key(family: [u8; 2], partition: Partition, clustering: &[u8]) -> StoreKey {
    let mut bytes = [0; 8];
    bytes[..2].copy_from_slice(&family);
    bytes[2..6].copy_from_slice(&partition.application.get().to_be_bytes());
    bytes[6..].copy_from_slice(&partition.id.get().to_be_bytes());
    StoreKey::new(&bytes, clustering)
}

/// The checkpoint of a partition.
pub(crate) fn checkpoint(partition: Partition) -> StoreKey {
    partition_key(*b"ek", partition, &[])
}

/// How far a partition's idempotency keys are swept.
pub(crate) fn sweep(partition: Partition) -> StoreKey {
    partition_key(*b"es", partition, &[])
}

/// A part of a value that a store does not take whole, as of the event folded last. Its last twelve bytes have a fixed
/// size, so no two values share a part.
pub(crate) fn part_of_value(key: Key<'_>, folded: u64, number: u32) -> StoreKey {
    let partition = [b"ez", key.partition].concat();
    let clustering = [key.clustering, &folded.to_be_bytes(), &number.to_be_bytes()].concat();
    StoreKey::new(&partition, &clustering)
}

/// The key of the value that a part belongs to, and the number of the part.
pub(crate) fn value_of_part(part: Key<'_>) -> Option<(Key<'_>, u32)> {
    let partition = part.partition.strip_prefix(b"ez")?;
    let (clustering, number) = part.clustering.split_last_chunk()?;
    let (clustering, _folded) = clustering.split_last_chunk::<8>()?;
    Some((Key::new(partition, clustering), u32::from_be_bytes(*number)))
}

/// How far an asynchronous projector had come, where earlier programs kept it.
pub(crate) fn projector(partition: Partition, name: &str) -> StoreKey {
    partition_key(*b"eo", partition, name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: WorkspaceKeys =
        WorkspaceKeys { application: ApplicationId::new(0x0102_0304), workspace: WorkspaceId::new(0x1122) };

    #[test]
    fn the_bytes_of_each_family() {
        let at = |number: u64| RecordId::new(number);
        let kind = TypeId::new(0x0708);
        for (key, text) in [
            (
                KEYS.event(WorkspaceOffset::new(0x5678).expect("not zero")),
                "el:0102030400000000000011220000000000000005/0678",
            ),
            (KEYS.id(at(0x5678)), "ei:0102030400000000000011220000000000000005/0678"),
            (KEYS.record(kind, at(0x5678)), "er:01020304000000000000112207080000000000000005/0678"),
            (KEYS.part(kind, at(0x0123_4567)), "ep:01020304000000000000112207080000000000000001/0234"),
            (KEYS.idempotency("ab"), "ex:010203040000000000001122/6162"),
            (checkpoint(Partition::new(1, 2)), "ek:000000010002/"),
            (projector(Partition::new(1, 2), "mail"), "eo:000000010002/6d61696c"),
            (sweep(Partition::new(1, 2)), "es:000000010002/"),
            (
                part_of_value(KEYS.idempotency("ab").as_key(), 0x10, 3),
                "ez:6578010203040000000000001122/6162000000000000001000000003",
            ),
        ] {
            assert_eq!(key.to_string(), text);
            assert_eq!(StoreKey::new(key.partition(), key.clustering()), key);
        }
    }

    #[test]
    fn a_part_leads_to_its_value() {
        let key = KEYS.record(TypeId::new(7), RecordId::new(70_000));
        let part = part_of_value(key.as_key(), 5, 9);
        assert_eq!(value_of_part(part.as_key()), Some((key.as_key(), 9)));
        assert_eq!(value_of_part(key.as_key()), None);
        assert_eq!(value_of_part(Key::new(b"ezer", b"short")), None);
    }
}
