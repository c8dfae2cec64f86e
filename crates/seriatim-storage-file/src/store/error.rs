//! How errors of lsm-tree become errors of the store.

use std::io::ErrorKind;
use std::path::Path;

use lsm_tree::Error;
use seriatim_storage::StoreError;

/// The text for a panic inside lsm-tree.
pub(super) const PANICKED: &str = "lsm-tree panicked, as it does on damage; everything that a server stores in this folder \
     can be derived from its log: stop the server, remove the folder, and start it again";

/// The error for a failure to open the tree.
pub(super) fn of_open(directory: &Path, error: &Error) -> StoreError {
    let directory = directory.display();
    if is_damage(error) {
        StoreError::Corrupt(format!("{directory}: {}", text(error)))
    } else {
        StoreError::Unavailable(format!("{directory}: {}", text(error)))
    }
}

/// The error for a failed read, or any other call that changes nothing.
pub(super) fn of_read(error: &Error) -> StoreError {
    if is_damage(error) { StoreError::Corrupt(text(error)) } else { StoreError::Unavailable(text(error)) }
}

/// The error for a failed ingestion or compaction. The data is still in memory, and the write is tried again.
pub(super) fn of_write(error: &Error) -> StoreError {
    StoreError::Unavailable(text(error))
}

fn is_damage(error: &Error) -> bool {
    match error {
        Error::Io(error) => matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::NotFound | ErrorKind::InvalidData | ErrorKind::InvalidInput
        ),
        _ => true,
    }
}

/// The text for error messages.
fn text(error: &Error) -> String {
    match error {
        Error::Io(error) => error.to_string(),
        other => format!(
            "lsm-tree reports {other:?}; everything that a server stores in this folder can be derived from its log: stop \
             the server, remove the folder, and start it again"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use seriatim_types::ErrorKind as Kind;

    use super::*;

    #[test]
    fn each_failure_has_the_right_kind() {
        let full = || Error::Io(io::Error::from(ErrorKind::StorageFull));
        let cut = || Error::Io(io::Error::from(ErrorKind::UnexpectedEof));
        let directory = Path::new("data/store");
        for (error, kind) in [
            (of_open(directory, &full()), Kind::Unavailable),
            (of_open(directory, &cut()), Kind::Corrupt),
            (of_open(directory, &Error::InvalidTrailer), Kind::Corrupt),
            (of_read(&full()), Kind::Unavailable),
            (of_read(&cut()), Kind::Corrupt),
            (of_write(&full()), Kind::Unavailable),
            (of_write(&Error::InvalidTrailer), Kind::Unavailable),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
