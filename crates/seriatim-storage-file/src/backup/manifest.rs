//! The file that marks a folder as a backup. It says where the backup's log ends.
//!
//! ```text
//! seriatim backup
//! format 1
//! segments 3
//! end 123456
//! last 89abcdef
//! frames 1000
//! entries 4000
//! checksum 01234567
//! ```
//!
//! `end` is the byte after the last frame in the last segment, `last` is that frame's checksum. The last line is the CRC-32
//! of the lines before it. Without this file, a backup that has lost its last frames would look like an earlier backup.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::directory::BACKUP_MARKER;
use crate::log::LogEnd;

/// The format of the whole folder. Segments have their own format version.
pub(super) const BACKUP_VERSION: u32 = 1;

const TITLE: &str = "seriatim backup";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) end: LogEnd,
    pub(super) frames: u64,
    pub(super) entries: u64,
}

/// Why a file is not a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadManifest {
    /// The file belongs to something else.
    Foreign,
    Newer(u32),
    /// What is wrong.
    Damaged(&'static str),
}

impl Manifest {
    /// Writes the manifest into a folder and makes its content durable. The folder is not synced.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let mut file = File::create(directory.join(BACKUP_MARKER))?;
        file.write_all(self.encode().as_bytes())?;
        file.sync_all()
    }

    /// Reads it from a folder.
    pub(super) fn read(directory: &Path) -> io::Result<Result<Self, BadManifest>> {
        let bytes = fs::read(directory.join(BACKUP_MARKER))?;
        Ok(std::str::from_utf8(&bytes).map_err(|_| BadManifest::Foreign).and_then(Self::decode))
    }

    fn encode(&self) -> String {
        let Self { end: LogEnd { segment, byte, checksum }, frames, entries } = self;
        let lines = format!(
            "{TITLE}\nformat {BACKUP_VERSION}\nsegments {segment}\nend {byte}\nlast {checksum:08x}\n\
             frames {frames}\nentries {entries}\n"
        );
        let checksum = crc32fast::hash(lines.as_bytes());
        format!("{lines}checksum {checksum:08x}\n")
    }

    fn decode(text: &str) -> Result<Self, BadManifest> {
        let fields = text.strip_prefix(TITLE).and_then(|rest| rest.strip_prefix('\n'));
        let mut fields = fields.ok_or(BadManifest::Foreign)?.lines().map(|line| line.split_once(' '));
        let mut field = |name| match fields.next() {
            Some(Some((found, value))) if found == name => Ok(value),
            _ => Err(BadManifest::Damaged("a line is missing")),
        };
        let number =
            |value: &str| value.parse::<u64>().map_err(|_| BadManifest::Damaged("a number is not valid"));
        let version = u32::try_from(number(field("format")?)?).unwrap_or(u32::MAX);
        if version > BACKUP_VERSION {
            return Err(BadManifest::Newer(version));
        }
        let (lines, checksum) =
            text.rsplit_once("checksum ").ok_or(BadManifest::Damaged("its checksum is missing"))?;
        if checksum.trim_end() != format!("{:08x}", crc32fast::hash(lines.as_bytes())) {
            return Err(BadManifest::Damaged("its checksum does not match"));
        }
        let end = LogEnd {
            segment: u32::try_from(number(field("segments")?)?)
                .ok()
                .filter(|segments| *segments > 0)
                .ok_or(BadManifest::Damaged("it has no segments"))?,
            byte: number(field("end")?)?,
            checksum: u32::from_str_radix(field("last")?, 16)
                .map_err(|_| BadManifest::Damaged("a number is not valid"))?,
        };
        Ok(Self { end, frames: number(field("frames")?)?, entries: number(field("entries")?)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MANIFEST: Manifest = Manifest {
        end: LogEnd { segment: 3, byte: 123_456, checksum: 0x89ab_cdef },
        frames: 1_000,
        entries: 4_000,
    };

    #[test]
    fn the_bytes_of_a_manifest_of_version_1_do_not_change() {
        let golden = "seriatim backup\nformat 1\nsegments 3\nend 123456\nlast 89abcdef\nframes 1000\nentries 4000\n\
                      checksum ac1ae9cb\n";
        assert_eq!(MANIFEST.encode(), golden);
    }

    #[test]
    fn a_newer_manifest_is_distinguished_from_a_damaged_and_a_foreign_one() {
        let text = MANIFEST.encode();
        assert_eq!(Manifest::decode(&text.replace("format 1", "format 2")), Err(BadManifest::Newer(2)));
        assert_eq!(Manifest::decode("seriatim storage\nformat 1\n"), Err(BadManifest::Foreign));
        for length in TITLE.len() + 1..text.len() - 1 {
            let decoded = Manifest::decode(&text[..length]);
            assert!(matches!(decoded, Err(BadManifest::Damaged(_))), "{length}: {decoded:?}");
        }
    }

    proptest! {
        #[test]
        fn a_manifest_is_read_as_it_was_written_and_a_changed_one_is_not(
            segment in 1_u32.., byte: u64, checksum: u32, frames: u64, entries: u64, at: prop::sample::Index, to in b'0'..=b'9',
        ) {
            let manifest = Manifest { end: LogEnd { segment, byte, checksum }, frames, entries };
            let text = manifest.encode();
            prop_assert_eq!(Manifest::decode(&text), Ok(manifest));
            let mut bytes = text.clone().into_bytes();
            let at = at.index(bytes.len() - 1);
            if bytes[at] != to {
                bytes[at] = to;
                prop_assert!(Manifest::decode(std::str::from_utf8(&bytes).unwrap()).is_err());
            }
        }
    }
}
