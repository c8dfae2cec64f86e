//! Backup, doctor, unfence.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Makes a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// The absolute path of a folder on the server's machine. The folder is empty or does not exist.
    #[schema(pattern = "^/[^\\x00]+$", example = "/var/backups/seriatim/2026-11-16")]
    pub destination: String,
}

/// What a backup contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupReport {
    /// The folder that the backup is in.
    pub destination: String,
    /// The size of all its segments together.
    pub bytes: u64,
    /// Frames in the log: one per sync.
    pub frames: u64,
    /// Entries of all partitions.
    pub entries: u64,
    /// For each partition, where its log ends in the backup.
    pub tails: Vec<PartitionTail>,
}

/// Where a partition's log ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionTail {
    /// The number of the application.
    pub application: u32,
    /// The partition.
    pub partition: u16,
    /// The offset after its last entry.
    pub tail: u64,
}

/// What to do about differences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// Report them and change nothing.
    #[default]
    Check,
    /// Write what is missing or different; remove what no event explains.
    Repair,
    /// Repair, also where the log has lost events; in that case the storage is fenced. Not possible through a running server.
    Rebuild,
}

/// Compares all derived data with the logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DoctorRequest {
    /// What to do about differences.
    #[serde(default)]
    pub treatment: Treatment,
}

/// What the doctor found, and what it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorReport {
    /// Whether all derived data agreed with the logs, before any repair.
    pub clean: bool,
    /// Whether all derived data agrees with the logs, after any repair.
    #[serde(rename = "mended")]
    pub repaired: bool,
    /// Partitions that were checked.
    pub partitions: u64,
    /// Events of their logs.
    pub events: u64,
    /// Values that were compared.
    pub values: u64,
    /// The number of differences.
    pub found: u64,
    /// Values that were written.
    pub written: u64,
    /// Values that were removed.
    pub removed: u64,
    /// Events after a checkpoint. The next start applies them; they are not a problem.
    pub unapplied: u64,
    /// The first differences; not all of them may be listed.
    pub findings: Vec<Finding>,
    /// Partitions that could not be checked completely.
    pub problems: Vec<PartitionProblem>,
    /// Partitions in the log that were not checked, because their application is not served.
    pub unchecked: Vec<String>,
    /// What the store contains of events that the log has lost. If there are any, the storage is fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostEvents>,
}

/// What a store contains of events that its log has lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostEvents {
    /// The partitions whose logs have lost events.
    pub partitions: Vec<String>,
    /// Numbers that were certainly given out. Higher ones may have been given out too, because the store is written later
    /// than the log.
    pub bounds: Vec<LowerBound>,
    /// How many `bounds` there are; not all of them may be listed.
    pub total: u64,
}

/// A number that was given out, according to the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LowerBound {
    /// A name as `highest` of the unfence request takes it: `series/S`, `blocks/B`, `APP/WORKSPACE/SEQUENCE`.
    pub name: String,
    /// The highest number that the store contains.
    pub highest: u64,
    /// Whether the unfence request can name it. It cannot if the log has also lost the event that created the workspace or
    /// the block sequence.
    pub known: bool,
}

/// A stored value that does not follow from the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// The partition whose log was compared.
    pub partition: String,
    /// `missing`, `different` or `unexplained`.
    pub trouble: String,
    /// What the value is, in words.
    pub what: String,
    /// Its key in the store.
    pub key: String,
}

/// A partition that could not be checked completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionProblem {
    /// The partition.
    pub partition: String,
    /// Why.
    pub problem: String,
}

/// Says which numbers may have been given out after the backup that this copy was restored from. Either `complete` alone, or
/// `highest`, or `skip`, or both `highest` and `skip`.
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
    /// How many numbers each sequence that is not named skips. Without it, sequences that are not named stay fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<u64>,
}

/// What is still fenced after the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnfenceReport {
    /// Whether anything is still fenced.
    pub fenced: bool,
    /// Names that are unfenced while the rest is fenced.
    pub free: Vec<String>,
}
