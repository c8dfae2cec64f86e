//! Migrates a store from format 1, a fjall database, to format 2.
//!
//! Derived values are left out: their keys have changed. The engine (`seriatim-engine`) finds no checkpoint and builds them
//! again from the log. Checkpoints are kept under their old keys: a checkpoint after the end of the log is evidence that
//! the log has lost events. Values that cannot be derived from the log are kept too: offsets of asynchronous projectors,
//! and everything else that a program keeps in the store, especially block reservations. Format 1 does not mark conditional
//! values, so all of these are then in the tree and in [cells](crate::FileCells) as well.
//!
//! ```text
//! 1. store/tree, cells     what is kept, durably; started again if it was interrupted
//! 2. store/format          from now on the store has format 2
//! 3. remove the database   continued if it was interrupted
//! ```

use std::fs;
use std::io::{self, ErrorKind};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use fjall::{KeyspaceCreateOptions, Readable as _};
use lsm_tree::Cache;
use seriatim_storage::{Batch, Key, StoreError, StoreKey};

use super::fault;
use super::run::{Run, merge_runs};
use super::tree::SortedTree;
use crate::cells;

const META: &str = "meta";
const PAIRS: &str = "pairs";
const FORMAT_KEY: &[u8] = b"format";
const FORMAT_1: [u8; 4] = 1_u32.to_be_bytes();

/// How many pairs are written at once.
const PAIRS_AT_ONCE: usize = 1_000;

/// All files of a store of format 1, except its journals. Fjall reads the marker first.
const FILES: [&str; 3] = ["version", "lock", "keyspaces"];

/// Whether a store of format 1 is in this directory.
pub(super) fn is_format_1(directory: &Path) -> Result<bool, StoreError> {
    cells::is_database(directory)
}

/// Copies what is kept of a store of format 1 into a tree, and into cells in their directory. The store itself is not
/// changed.
pub(super) fn copy(store: &Path, tree: &Path, cells: &Path) -> Result<(), StoreError> {
    // Damage makes some parts of fjall panic. That is reported as damage.
    let copied = panic::catch_unwind(AssertUnwindSafe(|| copy_checked(store, tree, cells)));
    copied.unwrap_or_else(|_| Err(damaged(store, "fjall panicked when it read it")))
}

fn damaged(store: &Path, reason: &str) -> StoreError {
    StoreError::Corrupt(format!(
        "{}, in format 1: {reason}; if no program of yours keeps block reservations in this folder, remove it: everything else \
         can be derived from the log",
        store.display()
    ))
}

fn copy_checked(store: &Path, tree: &Path, cells: &Path) -> Result<(), StoreError> {
    tracing::info!(store = %store.display(), "migrating the store from format 1: derived values are left out and built again from the log");
    let failed = |error: fjall::Error| match &error {
        fjall::Error::Io(error) => StoreError::Unavailable(format!("{}: {error}", store.display())),
        _ => damaged(store, &cells::text(&error)),
    };
    let old = fjall::Database::builder(store).worker_threads(1).open().map_err(|error| match error {
        fjall::Error::Locked => StoreError::Unavailable(format!(
            "{} is open in another process: stop that process first, or choose another directory",
            store.display()
        )),
        error => failed(error),
    })?;
    let names = old.list_keyspace_names();
    // There may be more keyspaces of earlier Seriatim programs. They have nothing that is needed.
    if !old.keyspace_exists(META) && !names.is_empty() {
        return Err(super::format::foreign(store, "another program's database is in it"));
    }
    if names.is_empty() {
        // The database was created, and then the process ended.
        return copy_kept(tree, cells, std::iter::empty());
    }
    let meta = old.keyspace(META, KeyspaceCreateOptions::default).map_err(failed)?;
    match meta.get(FORMAT_KEY).map_err(failed)?.as_deref() {
        None if !old.keyspace_exists(PAIRS) => return copy_kept(tree, cells, std::iter::empty()),
        Some(bytes) if *bytes == FORMAT_1 => {}
        found => {
            let found = found.map(<[u8]>::to_vec);
            return Err(StoreError::Corrupt(format!(
                "{}: {found:02x?} is not a format version",
                store.display()
            )));
        }
    }
    let pairs = old.keyspace(PAIRS, KeyspaceCreateOptions::default).map_err(failed)?;
    let snapshot = old.snapshot();
    let entries = snapshot.iter(&pairs).map(|entry| {
        let (physical, stored) = entry.into_inner().map_err(failed)?;
        let key = StoreKey::from_bytes(&physical)
            .ok_or_else(|| StoreError::Corrupt(format!("{physical:02x?} is not a physical key")))?;
        Ok((key, stored))
    });
    let kept = entries.filter(|entry| entry.as_ref().map_or(true, |(key, _)| !is_derived(key.as_key())));
    copy_kept(
        tree,
        cells,
        kept.map(|entry| entry.and_then(|(key, stored)| Ok((key, decode(&stored)?.to_vec())))),
    )
}

fn copy_kept(
    tree: &Path,
    directory: &Path,
    kept: impl Iterator<Item = Result<(StoreKey, Vec<u8>), StoreError>>,
) -> Result<(), StoreError> {
    let into = SortedTree::open(tree, &Arc::new(Cache::with_capacity_bytes(0)))?;
    let (mut database, mut pending, mut count) = (None, Vec::new(), 0_usize);
    let mut write = |pending: &mut Vec<(StoreKey, Vec<u8>)>| {
        if pending.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        pending.iter().for_each(|(key, value)| batch.put(key.as_key(), value));
        let mut foreign = pending.iter().filter(|(key, _)| !is_ours(key.as_key())).peekable();
        if foreign.peek().is_some() {
            let cells = match &mut database {
                Some(cells) => cells,
                none => none.insert(cells::Database::open(directory)?),
            };
            cells.write(foreign.map(|(key, value)| (key.as_bytes(), Some(&value[..]))))?;
            cells.sync().and_then(|()| cells.tidy())?;
        }
        fault::reach(tree, "between cells and tree")?;
        pending.clear();
        into.ingest(merge_runs(&[Arc::new(Run::new(batch))]))
    };
    for entry in kept {
        pending.push(entry?);
        count += 1;
        if pending.len() == PAIRS_AT_ONCE {
            write(&mut pending)?;
        }
    }
    write(&mut pending)?;
    tracing::info!(pairs = count, "values that cannot be derived from the log were kept");
    Ok(())
}

/// Removes a store of format 1, after format 2 is durable.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    let unless_missing = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    // The marker is removed last, so that removing starts again if it is interrupted.
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            unless_missing(fs::remove_file(path))?;
        }
    }
    for name in FILES.iter().rev() {
        let path = directory.join(name);
        unless_missing(if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) })?;
    }
    Ok(())
}

/// The stored value: after a byte 0, or after a byte 1 and eight bytes that are no longer used.
fn decode(stored: &[u8]) -> Result<&[u8], StoreError> {
    let value = match stored.split_first() {
        Some((0, value)) => Some(value),
        Some((1, rest)) => rest.split_first_chunk::<8>().map(|(_, value)| value),
        _ => None,
    };
    value.ok_or_else(|| {
        let start = stored.get(..9).unwrap_or(stored);
        StoreError::Corrupt(format!(
            "a stored value begins with {start:02x?}, which is not valid in format 1"
        ))
    })
}

/// Whether a kept key is one of the engine's (`seriatim-engine`). "eo": the offset of an asynchronous projector:
/// application 4, partition 2; its name. "ek": a checkpoint: application 4, partition 2.
fn is_ours(key: Key<'_>) -> bool {
    let starts =
        key.partition.starts_with(b"eo") || key.partition.starts_with(b"ek") && key.clustering.is_empty();
    starts && key.partition.len() == 8 && has_application(&key.partition[2..])
}

/// Whether a key begins with the number of an application. They are counted from 1, so the first of the four bytes is zero.
/// No name begins with a zero byte.
fn has_application(rest: &[u8]) -> bool {
    rest.len() >= 4 && rest[0] == 0
}

/// Whether a key of format 1 belongs to the engine or the sequencer, by its letters and its exact size. All other keys
/// belong to programs that embed the storage.
fn is_derived(key: Key<'_>) -> bool {
    let Some((family, rest)) = key.partition.split_first_chunk::<2>() else { return false };
    let (partition, clustering) = (rest.len(), key.clustering.len());
    if family != b"ez" && !has_application(rest) {
        return false;
    }
    match family {
        // Sweep: application 4, partition 2.
        b"es" => partition == 6 && clustering == 0,
        // Workspace log, registry of ids: application 4, workspace 8, number 8 and 2.
        b"el" | b"ei" => partition == 20 && clustering == 2,
        // Records and parts of a type: application 4, workspace 8, type 2, number 8 and 2.
        b"er" | b"ep" => partition == 22 && clustering == 2,
        // Idempotency keys: application 4, workspace 8; the key.
        b"ex" => partition == 12 && clustering > 0,
        // Views: application 4, workspace 8, name; the row's key.
        b"ev" => partition > 12,
        // Parts of a value: its partition key; its clustering key, offset 8, number 4.
        b"ez" => key.clustering.split_last_chunk::<12>().is_some_and(|(clustering, _)| {
            !rest.starts_with(b"ez") && is_derived(Key::new(rest, clustering))
        }),
        // Numbers of a workspace: application 4, workspace 8 and 2. The sequencer's checkpoint: application 4, partition 2.
        b"sn" => partition == 12 && clustering == 2,
        b"sc" => partition == 4 && clustering == 2,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_an_exact_size_are_derived() {
        let bytes = |family: &[u8], more: usize| {
            [family, &[0][..more.min(1)], &vec![7; more.saturating_sub(1)]].concat()
        };
        for (family, partition, clustering) in [
            (b"es", 6, 0),
            (b"el", 20, 2),
            (b"ei", 20, 2),
            (b"er", 22, 2),
            (b"ep", 22, 2),
            (b"ex", 12, 5),
            (b"ev", 15, 9),
            (b"sn", 12, 2),
            (b"sc", 4, 2),
        ] {
            let is = |partition: usize, clustering: usize| {
                is_derived(Key::new(&bytes(family, partition), &vec![1; clustering]))
            };
            assert!(is(partition, clustering), "{family:?}");
            assert!(!is(partition - 4, clustering), "{family:?}");
            let part = bytes(b"ez", 0);
            let part = [&part[..], &bytes(family, partition)].concat();
            assert!(is_derived(Key::new(&part, &vec![1; clustering + 12])), "part of {family:?}");
        }
        for (partition, clustering) in [
            (&b"ids"[..], &b"orders"[..]),
            (b"", b""),
            (b"e", b"x"),
            (b"ek", b""),
            (b"ez", b"twelve bytes"),
            (b"ezids", b"orders and twelve"),
            (b"event-numbering", b"orders"),
            (b"example-blocks", b"x"),
            (b"estimate", b""),
            (b"school", b"eu"),
            (b"snapshot-order", b"eu"),
        ] {
            assert!(!is_derived(Key::new(partition, clustering)), "{partition:?}");
        }
        let offset = Key::new(b"eo\0\0\0\x01\0\x02", b"mail");
        let checkpoint = Key::new(b"ek\0\0\0\x01\0\x02", b"");
        for ours in [offset, checkpoint] {
            assert!(is_ours(ours) && !is_derived(ours));
        }
        for (partition, clustering) in [(&b"eo"[..], &b"mail"[..]), (b"eonumber", b"x"), (b"eknumber", b"")] {
            assert!(!is_ours(Key::new(partition, clustering)));
        }
    }

    #[test]
    fn values_of_format_1_are_read() {
        assert_eq!(decode(b"\x00tea"), Ok(&b"tea"[..]));
        assert_eq!(decode(b"\x00"), Ok(&b""[..]));
        assert_eq!(decode(b"\x01\x00\x00\x00\x00\x01\x02\x03\x04tea"), Ok(&b"tea"[..]));
        for bytes in [&b""[..], b"\x02tea", b"\x01\x00\x00\x00\x00\x01\x02\x03"] {
            assert!(matches!(decode(bytes), Err(StoreError::Corrupt(_))), "{bytes:?}");
        }
    }
}
