//! What the engine's errors mean to a caller of the port.

use std::io::ErrorKind;
use std::path::Path;

use lsm_tree::Error;
use seriatim_storage::StoreError;

/// Of a panic inside the engine.
pub(super) const PANICKED: &str = "the engine panicked, as it does on damage; what a server keeps in this folder \
     follows from its log: stop the server, remove the folder, and start it again";

/// Of an attempt to open the engine.
pub(super) fn of_open(directory: &Path, error: &Error) -> StoreError {
    let directory = directory.display();
    if is_damage(error) {
        StoreError::Corrupt(format!("{directory}: {}", text(error)))
    } else {
        StoreError::Unavailable(format!("{directory}: {}", text(error)))
    }
}

/// Of a read, and of anything else that changes nothing.
pub(super) fn of_read(error: &Error) -> StoreError {
    if is_damage(error) { StoreError::Corrupt(text(error)) } else { StoreError::Unavailable(text(error)) }
}

/// Of an ingestion or a compaction. What was to be written is still in memory, and it is tried again.
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

/// For messages.
fn text(error: &Error) -> String {
    match error {
        Error::Io(error) => error.to_string(),
        other => format!(
            "the tree underneath reports {other:?}; what a server keeps in this folder follows from its log: stop the \
             server, remove the folder, and start it again"
        ),
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
