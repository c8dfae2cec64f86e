//! The machine of a run. Absolute figures mean nothing without it.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::sample::median;

const SYNCS: u64 = 100;
const PAGE: usize = 4096;

/// The relevant properties of a machine.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) cpu: String,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    /// The filesystem of the directory that the run writes to.
    pub(crate) filesystem: String,
    /// The time to overwrite and sync one page in that directory.
    pub(crate) fdatasync_median_us: f64,
    /// Whether this program was built with optimisation. Without it the figures are meaningless.
    pub(crate) optimised: bool,
}

impl Machine {
    /// Reads the properties of the machine, and measures its disk in `directory`.
    pub(crate) fn inspect(directory: &Path) -> anyhow::Result<Self> {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            cpu: field(&text("/proc/cpuinfo"), "model name"),
            memory_bytes: kibibytes(&field(&text("/proc/meminfo"), "MemTotal")),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            filesystem: filesystem(&text("/proc/mounts"), &directory.canonicalize()?),
            fdatasync_median_us: fdatasync_us(directory)?,
            optimised: !cfg!(debug_assertions),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = u32::try_from(self.memory_bytes >> 20).unwrap_or(u32::MAX);
        write!(
            f,
            "{}, {} cores, {:.1} GiB, Linux {}, {}, fdatasync {:.1} µs{}",
            self.cpu,
            self.cores,
            f64::from(mebibytes) / 1024.0,
            self.kernel,
            self.filesystem,
            self.fdatasync_median_us,
            if self.optimised { "" } else { " — NOT OPTIMISED: use --release" },
        )
    }
}

/// The value of the first line `name: value`.
fn field(text: &str, name: &str) -> String {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let found = pairs.find(|(key, _)| key.trim() == name);
    found.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

fn kibibytes(text: &str) -> u64 {
    let number = text.strip_suffix(" kB").and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// The type of the mount that holds `directory`: the one with the longest path.
fn filesystem(mounts: &str, directory: &Path) -> String {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let holds = mounts.filter(|(path, _)| directory.starts_with(path));
    let nearest = holds.max_by_key(|(path, _)| path.len());
    nearest.map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

fn fdatasync_us(directory: &Path) -> anyhow::Result<f64> {
    let file = tempfile::tempfile_in(directory)?;
    let sync = |file: &File| {
        file.write_all_at(&[1; PAGE], 0)?;
        file.sync_data()
    };
    sync(&file)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        let start = Instant::now();
        sync(&file)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filesystem_is_that_of_the_nearest_mount() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n/dev/b /runner xfs rw 0 0\n";
        assert_eq!(filesystem(mounts, Path::new("/run/x")), "tmpfs");
        assert_eq!(filesystem(mounts, Path::new("/runner")), "xfs");
        assert_eq!(filesystem(mounts, Path::new("/home")), "ext4");
        assert_eq!(filesystem("", Path::new("/home")), "unknown");
    }

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: Some CPU\nMemTotal:        1024 kB\n";
        assert_eq!(field(text, "model name"), "Some CPU");
        assert_eq!(kibibytes(&field(text, "MemTotal")), 1 << 20);
        assert_eq!(field(text, "flags"), "unknown");
    }
}
