//! Small files that are read and replaced as a whole.

use std::io;
use std::path::Path;

use super::Disk;

/// The bytes of a file, or `None` if there is no file.
pub(crate) fn read_whole(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open_to_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Replaces the content of the file `name` in a folder, durably: a file `name.new` is written and synced, and then renamed.
/// After an error there is either the old file or the new one, complete.
pub(crate) fn replace_whole(disk: &dyn Disk, directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = directory.join(format!("{name}.new"));
    let file = disk.create(&new, 0)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    disk.rename(&new, &directory.join(name))?;
    disk.sync_directory(directory)
}
