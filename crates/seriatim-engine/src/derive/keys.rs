//! Keys of what is derived.
//!
//! The partition part of every key is `application 4, partition 2`. So everything that is derived from one log is one range of
//! the store, and can be scanned, streamed, measured and dropped together. The clustering part begins with the family's letter:
//!
//! ```text
//! what                            clustering part
//! C records                       "c" workspace 8, id 8, type 2
//! registry of ids                 "i" workspace 8, id 8
//! checkpoint                      "k"
//! workspace log                   "l" workspace 8, offset 8
//! numbers of a workspace          "n" workspace 8                        (the sequencer's `NumbersKey`)
//! sweep of idempotency keys       "s"
//! rows of a view                  "v" workspace 8, length of the view's name 2, name, parts of the row's key
//! W records                       "w" workspace 8, type 2, id 8
//! idempotency keys                "x" workspace 8, the key's bytes
//! parts of a value (see `split`)  "z" clustering part of the value's key, offset 8, number of the part 4
//! ```
//!
//! All integers are big-endian. C records are in the order of their ids, so that one scan reads all C records of a workspace.
//! W records are grouped by type, so that one scan reads all W records of a type.
//!
//! Earlier versions stored the offset of a projector here: `"eo" application 4, partition 2` and its name. The offset is on the
//! log's bulletin instead.

use bytes::Buf;
pub use seriatim_storage::StoreKey;
use seriatim_storage::{ClusteringRange, Key};
use seriatim_types::{Partition, RecordId, WorkspaceId, WorkspaceOffset};

use crate::definition::{DocumentKind, TypeId};

const C_RECORD: u8 = b'c';
const ID: u8 = b'i';
const CHECKPOINT: u8 = b'k';
const EVENT: u8 = b'l';
const NUMBERS: u8 = b'n';
const SWEEP: u8 = b's';
const ROW: u8 = b'v';
const W_RECORD: u8 = b'w';
const IDEMPOTENCY: u8 = b'x';
const PART: u8 = b'z';

/// The storage partition of everything that is derived from a partition's log.
pub(crate) fn storage(partition: Partition) -> [u8; 6] {
    let mut bytes = [0; 6];
    bytes[..4].copy_from_slice(&partition.application.get().to_be_bytes());
    bytes[4..].copy_from_slice(&partition.id.get().to_be_bytes());
    bytes
}

/// The range of the numbers of a partition's workspaces.
pub(crate) fn numbers() -> ClusteringRange {
    ClusteringRange::prefix(&[NUMBERS])
}

/// Everything of a partition, numbers first.
pub(crate) fn numbers_first() -> [ClusteringRange; 3] {
    [numbers(), ClusteringRange::until(&[NUMBERS]), ClusteringRange::from(&[NUMBERS + 1])]
}

/// Keys of one workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkspaceKeys {
    /// The one whose log has the workspace's events.
    partition: Partition,
    workspace: WorkspaceId,
}

/// The length of the longest clustering part of fixed length.
const FIXED_BYTES: usize = SCOPE_BYTES + 10;
/// A family's letter and a workspace.
const SCOPE_BYTES: usize = 9;

impl WorkspaceKeys {
    pub(crate) fn new(partition: Partition, workspace: WorkspaceId) -> Self {
        Self { partition, workspace }
    }

    /// Keys of what all workspaces of a partition have in common. They use an id that is smaller than every workspace's.
    pub(crate) fn of_partition(partition: Partition) -> Self {
        Self::new(partition, WorkspaceId::new(partition.id.get().into()))
    }

    /// The same for the partition of these.
    pub(crate) fn in_common(self) -> Self {
        Self::of_partition(self.partition)
    }

    /// The storage partition that they all are in.
    pub(crate) fn storage(self) -> [u8; 6] {
        storage(self.partition)
    }

    fn scope(self, family: u8) -> [u8; SCOPE_BYTES] {
        let mut bytes = [family; SCOPE_BYTES];
        bytes[1..].copy_from_slice(&self.workspace.get().to_be_bytes());
        bytes
    }

    fn fixed(self, family: u8, rest: &[u8]) -> StoreKey {
        let mut bytes = [0; FIXED_BYTES];
        let end = SCOPE_BYTES + rest.len();
        bytes[..SCOPE_BYTES].copy_from_slice(&self.scope(family));
        bytes[SCOPE_BYTES..end].copy_from_slice(rest);
        StoreKey::new(&self.storage(), &bytes[..end])
    }

    /// The keys of a scope from one of them on.
    fn range(scope: &[u8], first: &StoreKey) -> ClusteringRange {
        ClusteringRange { start: first.clustering().to_vec().into(), ..ClusteringRange::prefix(scope) }
    }

    /// An event in the workspace's log.
    pub(crate) fn event(self, offset: WorkspaceOffset) -> StoreKey {
        self.fixed(EVENT, &offset.get().to_be_bytes())
    }

    /// Events from an offset on.
    pub(crate) fn events(self, from: WorkspaceOffset) -> ClusteringRange {
        Self::range(&self.scope(EVENT), &self.event(from))
    }

    /// The entry of an id in the registry of ids.
    pub(crate) fn id(self, id: RecordId) -> StoreKey {
        self.fixed(ID, &id.get().to_be_bytes())
    }

    /// A record. An O document is stored in its event, so there is never a value at its key.
    pub(crate) fn record(self, kind: DocumentKind, document: TypeId, id: RecordId) -> StoreKey {
        match kind {
            DocumentKind::C => self.c_record(document, id),
            DocumentKind::W | DocumentKind::O => self.w_record(document, id),
        }
    }

    fn c_record(self, document: TypeId, id: RecordId) -> StoreKey {
        let mut rest = [0; 10];
        rest[..8].copy_from_slice(&id.get().to_be_bytes());
        rest[8..].copy_from_slice(&document.get().to_be_bytes());
        self.fixed(C_RECORD, &rest)
    }

    fn w_record(self, document: TypeId, id: RecordId) -> StoreKey {
        let mut rest = [0; 10];
        rest[..2].copy_from_slice(&document.get().to_be_bytes());
        rest[2..].copy_from_slice(&id.get().to_be_bytes());
        self.fixed(W_RECORD, &rest)
    }

    /// C records of all types from an id on.
    pub(crate) fn c_records(self, from: RecordId) -> ClusteringRange {
        Self::range(&self.scope(C_RECORD), &self.c_record(TypeId::new(0), from))
    }

    /// W records of a type from an id on.
    pub(crate) fn w_records(self, document: TypeId, from: RecordId) -> ClusteringRange {
        let first = self.w_record(document, from);
        Self::range(&first.clustering()[..SCOPE_BYTES + 2], &first)
    }

    /// The event that was sent with an idempotency key.
    pub(crate) fn idempotency(self, key: &str) -> StoreKey {
        StoreKey::new(&self.storage(), &[&self.scope(IDEMPOTENCY), key.as_bytes()].concat())
    }

    /// What the clustering parts of a view's rows begin with.
    ///
    /// # Panics
    ///
    /// If the name has more than 65,535 bytes: a view's has 100.
    pub(crate) fn view(self, name: &str) -> Vec<u8> {
        let length = u16::try_from(name.len()).expect("a name of a view has 100 bytes at most");
        [&self.scope(ROW)[..], &length.to_be_bytes(), name.as_bytes()].concat()
    }
}

/// The checkpoint of a partition.
pub(crate) fn checkpoint(partition: Partition) -> StoreKey {
    StoreKey::new(&storage(partition), &[CHECKPOINT])
}

/// The checkpoint of a partition in a store of format 1. A store that was migrated still has it.
pub(crate) fn checkpoint_of_format_1(partition: Partition) -> StoreKey {
    StoreKey::new(&[&b"ek"[..], &storage(partition)].concat(), &[])
}

/// How far a partition's idempotency keys are swept.
pub(crate) fn sweep(partition: Partition) -> StoreKey {
    StoreKey::new(&storage(partition), &[SWEEP])
}

/// A part of a value that is too large for the store, as of the event folded last. The last twelve bytes of the key have a fixed
/// meaning, so the parts of two values never have the same key.
pub(crate) fn part_of_value(key: Key<'_>, folded: u64, number: u32) -> StoreKey {
    let clustering = [&[PART][..], key.clustering, &folded.to_be_bytes(), &number.to_be_bytes()].concat();
    StoreKey::new(key.partition, &clustering)
}

/// The offset of an asynchronous projector, where earlier versions stored it.
pub(crate) fn projector(partition: Partition, name: &str) -> StoreKey {
    StoreKey::new(&[&b"eo"[..], &storage(partition)].concat(), name.as_bytes())
}

/// What is stored at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family<'a> {
    Checkpoint,
    Sweep,
    Numbers(WorkspaceId),
    Event(WorkspaceId, u64),
    Id(WorkspaceId, RecordId),
    /// A C or W document, or a child record of one.
    Record(WorkspaceId, TypeId, RecordId),
    Idempotency(WorkspaceId, &'a [u8]),
    Row {
        workspace: WorkspaceId,
        view: &'a [u8],
        /// Its parts, encoded.
        key: &'a [u8],
    },
    Part {
        /// The clustering part of the value's key.
        value: &'a [u8],
        number: u32,
    },
}

impl<'a> Family<'a> {
    /// Reads the clustering part of a key; `None` if the engine writes no such key.
    pub(crate) fn of(clustering: &'a [u8]) -> Option<Self> {
        let (family, mut rest) = clustering.split_first()?;
        match *family {
            CHECKPOINT => return rest.is_empty().then_some(Self::Checkpoint),
            SWEEP => return rest.is_empty().then_some(Self::Sweep),
            PART => {
                let (value, number) = rest.split_last_chunk()?;
                let (value, _folded) = value.split_last_chunk::<8>()?;
                return Some(Self::Part { value, number: u32::from_be_bytes(*number) });
            }
            _ => {}
        }
        let workspace = WorkspaceId::new(rest.try_get_u64().ok()?);
        let found = match *family {
            NUMBERS => Self::Numbers(workspace),
            EVENT => Self::Event(workspace, rest.try_get_u64().ok()?),
            ID => Self::Id(workspace, RecordId::new(rest.try_get_u64().ok()?)),
            C_RECORD => {
                let id = RecordId::new(rest.try_get_u64().ok()?);
                Self::Record(workspace, TypeId::new(rest.try_get_u16().ok()?), id)
            }
            W_RECORD => {
                let document = TypeId::new(rest.try_get_u16().ok()?);
                Self::Record(workspace, document, RecordId::new(rest.try_get_u64().ok()?))
            }
            IDEMPOTENCY => return Some(Self::Idempotency(workspace, rest)),
            ROW => {
                let length = rest.try_get_u16().ok()?;
                let (view, key) = rest.split_at_checked(length.into())?;
                return Some(Self::Row { workspace, view, key });
            }
            _ => return None,
        };
        rest.is_empty().then_some(found)
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
