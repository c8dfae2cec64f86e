//! What the doctor has found.

use std::fmt;

use seriatim_types::Partition;

use super::{DoctorError, Lost};
use crate::derive::keys::{Family, StoreKey};

/// What to do about differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing: report them.
    Check,
    /// Write what is missing or different, remove what no event explains.
    Repair,
    /// The same, up to the end of the log, also where the log has lost events: afterwards everything derived follows
    /// from the log as it is, and if it has lost any, the storage is fenced. A running engine does not rebuild such a log.
    Rebuild,
}

/// The progress of the doctor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The partition that is being examined.
    pub partition: Partition,
    /// Events derived from.
    pub done: u64,
    /// Events that there are.
    pub total: u64,
    /// Values compared so far, over all partitions.
    pub compared: u64,
}

/// What is wrong with a stored value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It must exist according to the log.
    Missing,
    /// It is not what the log says.
    Different,
    /// No event explains it.
    Unexplained,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing",
            Self::Different => "different",
            Self::Unexplained => "unexplained",
        })
    }
}

/// A stored value that does not follow from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The partition whose log was asked.
    pub partition: Partition,
    /// What is wrong.
    pub trouble: Trouble,
    /// What it is, in words.
    pub what: String,
    /// Where it is.
    pub key: StoreKey,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (partition {}, key {})", self.trouble, self.what, self.partition, self.key)
    }
}

/// A partition that could not be examined, and the reason.
#[derive(Debug)]
pub struct Problem {
    /// The partition.
    pub partition: Partition,
    /// Why.
    pub error: DoctorError,
}

/// How much was examined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Partitions.
    pub partitions: u64,
    /// Events of the logs, each with its body's digest and its link of the chain.
    pub events: u64,
    /// Workspaces' numbers.
    pub numbers: u64,
    /// Entries of workspace logs.
    pub workspace_log: u64,
    /// Ids.
    pub ids: u64,
    /// Records.
    pub records: u64,
    /// Idempotency keys.
    pub idempotency_keys: u64,
    /// Rows of views.
    pub rows: u64,
}

impl Checked {
    /// Values compared.
    #[must_use]
    pub fn values(&self) -> u64 {
        self.numbers + self.workspace_log + self.ids + self.records + self.idempotency_keys + self.rows
    }

    pub(crate) fn count(&mut self, family: Family<'_>) {
        let counter = match family {
            Family::Numbers(_) => &mut self.numbers,
            Family::Event(..) => &mut self.workspace_log,
            Family::Id(..) => &mut self.ids,
            Family::Record(..) => &mut self.records,
            Family::Idempotency(..) => &mut self.idempotency_keys,
            Family::Row { .. } => &mut self.rows,
            // A part is counted with its value.
            Family::Part { .. } | Family::Checkpoint | Family::Sweep => return,
        };
        *counter += 1;
    }
}

/// What the doctor has found, and done.
#[derive(Debug, Default)]
pub struct Report {
    /// How much was looked at.
    pub checked: Checked,
    /// The first differences, at most [`Report::KEPT`].
    pub findings: Vec<Finding>,
    /// How many differences there are.
    pub found: u64,
    /// Values written by a repair.
    pub written: u64,
    /// Values removed by a repair.
    pub removed: u64,
    /// Events after a checkpoint. The next start applies them. This is not a problem.
    pub unapplied: u64,
    /// Partitions that could not be examined completely.
    pub problems: Vec<Problem>,
    /// Partitions in the log whose application was not given: nothing is known about them.
    pub unchecked: Vec<Partition>,
    /// What the store knew of events that the log has lost. The storage is fenced then.
    pub lost: Option<Lost>,
}

impl Report {
    /// How many differences are kept in full.
    pub const KEPT: usize = 100;

    /// Whether everything that was examined agrees with the log. After a repair: whether it did before the repair.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.found == 0 && self.problems.is_empty()
    }

    /// Whether all differences were repaired.
    #[must_use]
    pub fn is_repaired(&self) -> bool {
        self.problems.is_empty() && self.found == self.written + self.removed
    }

    /// The last problem, as an error. For the registry, on which all other applications depend.
    pub(super) fn fails_on_a_problem(&mut self) -> Result<(), DoctorError> {
        self.problems.pop().map_or(Ok(()), |problem| Err(problem.error))
    }

    pub(crate) fn note(&mut self, finding: impl FnOnce() -> Finding) {
        self.found += 1;
        if self.findings.len() < Self::KEPT {
            self.findings.push(finding());
        }
    }

    /// Removes the findings since then: they turned out not to be problems.
    pub(crate) fn forget(&mut self, found: u64, kept: usize) {
        self.found = found;
        self.findings.truncate(kept);
    }
}
