//! What the engine's errors mean to a caller of the port.

use std::io::ErrorKind;
use std::path::Path;

use fjall::{Error, LsmError};
use seriatim_storage::StoreError;

/// Of an attempt to open the engine.
pub(super) fn of_open(directory: &Path, error: &Error) -> StoreError {
    let directory = directory.display();
    match error {
        Error::Locked => StoreError::Unavailable(format!(
            "{directory} is open in another process: stop that one first, or name another directory"
        )),
        _ if is_damage(error) => StoreError::Corrupt(format!("{directory}: {}", text(error))),
        _ => StoreError::Unavailable(format!("{directory}: {}", text(error))),
    }
}

/// Of a read, and of anything else that changes nothing.
pub(super) fn of_read(error: &Error) -> StoreError {
    if is_damage(error) { StoreError::Corrupt(text(error)) } else { StoreError::Unavailable(text(error)) }
}

/// Of a write. The engine looks whether it is poisoned before it writes; all else may have reached the journal, and
/// shows only when it is opened again.
pub(super) fn of_write(error: &Error) -> StoreError {
    match error {
        Error::Poisoned => StoreError::Unavailable(text(error)),
        _ => StoreError::InDoubt(format!(
            "{}; the store takes no more writes until it is opened again",
            text(error)
        )),
    }
}

/// Of a sync: what was written is there, and nobody knows whether it is durable.
pub(super) fn of_sync(error: &Error) -> StoreError {
    StoreError::InDoubt(format!("written, but not known to be durable: {}", text(error)))
}

fn is_damage(error: &Error) -> bool {
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => {
            matches!(
                error.kind(),
                ErrorKind::UnexpectedEof
                    | ErrorKind::NotFound
                    | ErrorKind::InvalidData
                    | ErrorKind::InvalidInput
            )
        }
        Error::Locked | Error::Poisoned | Error::KeyspaceDeleted => false,
        _ => true,
    }
}

/// For messages.
pub(super) fn text(error: &Error) -> String {
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => error.to_string(),
        Error::Poisoned => {
            "an earlier write or sync failed, or a background worker did: open the store again".to_owned()
        }
        Error::JournalRecovery(error) => format!("the journal cannot be replayed ({error:?})"),
        // Not so for block reservations that a program keeps in a store of its own.
        other if is_damage(other) => format!(
            "the database underneath reports {other:?}; what a server keeps in this folder follows from its log: stop the \
             server, remove the folder, and start it again"
        ),
        other => format!("the database underneath reports {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use seriatim_types::ErrorKind as Kind;

    use super::*;

    #[test]
    fn each_failure_says_what_is_known() {
        let full = || Error::Io(io::Error::from(ErrorKind::StorageFull));
        let cut = || Error::Storage(LsmError::Io(io::Error::from(ErrorKind::UnexpectedEof)));
        let directory = Path::new("data/store");
        for (error, kind) in [
            (of_open(directory, &Error::Locked), Kind::Unavailable),
            (of_open(directory, &full()), Kind::Unavailable),
            (of_open(directory, &cut()), Kind::Corrupt),
            (of_open(directory, &Error::InvalidTrailer), Kind::Corrupt),
            (of_read(&full()), Kind::Unavailable),
            (of_read(&cut()), Kind::Corrupt),
            (of_write(&Error::Poisoned), Kind::Unavailable),
            (of_write(&full()), Kind::InDoubt),
            (of_sync(&full()), Kind::InDoubt),
            (of_sync(&Error::Poisoned), Kind::InDoubt),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
