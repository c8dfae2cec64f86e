//! Backup, doctor, unfence.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Makes a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// A folder on the server's machine, empty or missing. It is an absolute path.
    #[schema(pattern = "^/[^\\x00]+$", example = "/var/backups/seriatim/2026-11-16")]
    pub destination: String,
}

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupReport {
    /// Where it is.
    pub destination: String,
    /// How long its segments are together.
    pub bytes: u64,
    /// What one sync covered each.
    pub frames: u64,
    /// Entries of all partitions.
    pub entries: u64,
    /// Where each partition's log ends in it.
    pub tails: Vec<PartitionTail>,
}

/// Where a partition's log ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionTail {
    /// The number of the application.
    pub application: u32,
    /// The partition.
    pub partition: u16,
    /// The offset behind its last entry.
    pub tail: u64,
}

/// What to do about differences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// Nothing: report them.
    #[default]
    Check,
    /// Write what is missing or different, remove what no event explains.
    Repair,
    /// The same, also where the log has lost events: the storage is fenced then. Not through a running server.
    Rebuild,
}

/// Compares everything derived with the logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DoctorRequest {
    /// What to do about differences.
    #[serde(default)]
    pub treatment: Treatment,
}

/// What the doctor has found, and done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorReport {
    /// Whether everything follows from the logs. After a repair: whether it did before.
    pub clean: bool,
    /// Whether nothing wrong is left.
    pub mended: bool,
    /// Partitions that were looked at.
    pub partitions: u64,
    /// Events of their logs.
    pub events: u64,
    /// Values that were compared.
    pub values: u64,
    /// Differences that there are.
    pub found: u64,
    /// Values written.
    pub written: u64,
    /// Values removed.
    pub removed: u64,
    /// Events behind a checkpoint, which the next start will apply: nothing is wrong with that.
    pub unapplied: u64,
    /// The first differences.
    pub findings: Vec<Finding>,
    /// Partitions that could not be looked at to the end.
    pub problems: Vec<PartitionProblem>,
    /// Partitions in the log whose application is not served: nothing is known about them.
    pub unchecked: Vec<String>,
    /// What the store knew of events that the log has lost. The storage is fenced then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostEvents>,
}

/// What a store knew of events that its log has lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostEvents {
    /// The partitions whose logs have lost events.
    pub partitions: Vec<String>,
    /// Numbers that were given out at least. There may have been higher ones: the store is written later than the log.
    pub bounds: Vec<LowerBound>,
    /// How many of these there are; not all of them may be listed.
    pub total: u64,
}

/// A number that was given out, by what a store knew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LowerBound {
    /// As `highest` of unfencing takes it: `series/S`, `blocks/B`, `APP/WORKSPACE/SEQUENCE`.
    pub name: String,
    /// The highest number that the store knew of.
    pub highest: u64,
    /// Whether it can be named when unfencing. Not so if the log has also lost where its workspace or block sequence was made.
    pub known: bool,
}

/// A stored value that does not follow from the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// The partition whose log was asked.
    pub partition: String,
    /// `missing`, `different` or `unexplained`.
    pub trouble: String,
    /// What it is, in words.
    pub what: String,
    /// Where it is.
    pub key: String,
}

/// A partition that could not be looked at to the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionProblem {
    /// The partition.
    pub partition: String,
    /// Why.
    pub problem: String,
}

/// Says what the outside may have seen after the backup that this copy was restored from. Either `complete` alone, or
/// `highest`, or `skip`, or the last two together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"highest": {"series/acme.invoices": 17}, "skip": 1000}))]
pub struct UnfenceRequest {
    /// Nothing was given out after the backup.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub complete: bool,
    /// The highest number that each name may have given out: `series/S`, `blocks/B`, `APP/WORKSPACE/SEQUENCE`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub highest: BTreeMap<String, u64>,
    /// How many numbers everything that is not named skips. Without it, what is not named stays fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<u64>,
}

/// What is fenced after that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnfenceReport {
    /// Whether anything still is.
    pub fenced: bool,
    /// Names that are free although the rest is fenced.
    pub free: Vec<String>,
}
