//! What a driver knows of its workflow.
//!
//! ```text
//!            read: no run is open            a run starts
//! Unread ───────────────────────────► Closed ────────────► Open ──┐ it ends, and another one continues
//!   │ ▲  read: a run is open                                ▲ │ ▲ │
//!   │ │  ───────────────────────────────────────────────────┘ │ └─┘
//!   │ └── not written, or its code cannot continue (stuck) ◄──┘
//!   │ ▲
//!   ▼ │ it is retried
//!  Stuck     read, after its code could not continue: a run is open that waits for a retry, or for its end
//! ```
//!
//! Only the driver of a workflow changes it.

use std::sync::Arc;

use seriatim_workflow::{Failure, Start, Time};

use super::pending::Pending;
use crate::application::{RunRow, RunStatus, Wait};
use crate::entry::{Begins, Ended, Turn};
use crate::options::HostOptions;
use crate::size;

/// Where a workflow's log ends.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// The offset of the last event; 0 if there is none.
    pub(crate) offset: u64,
    /// The newest run that is written.
    pub(crate) newest: Option<RunRow>,
}

/// A run that has not ended.
#[derive(Debug)]
pub(crate) struct OpenRun {
    /// Of a run that is not written yet, it begins at event 0.
    pub(crate) row: RunRow,
    /// Without its input, if that is large.
    pub(crate) start: Arc<Start>,
    /// Bytes of its input.
    pub(crate) input_bytes: usize,
    pub(crate) begins: Begins,
    pub(crate) pending: Pending,
    /// Bytes of its history, by estimate.
    pub(crate) bytes: usize,
    /// Activations so far.
    pub(crate) turns: u32,
    /// What its clock showed last.
    pub(crate) time: Time,
    /// When its first activation is due, if it has had none.
    pub(crate) due: Option<Time>,
    /// What the index says about its wait; none: it is not known.
    pub(crate) wait: Option<Wait>,
}

impl OpenRun {
    /// A run before its first activation.
    pub(crate) fn new(row: RunRow, start: Start, begins: Begins, time: Time) -> Self {
        let (start, input_bytes) = size::without_large_input(start);
        let pending = Pending::default();
        Self { row, start, input_bytes, begins, pending, bytes: 0, turns: 0, time, due: None, wait: None }
    }

    /// Takes a turn in, as if it were written.
    pub(crate) fn take(&mut self, turn: &Turn) {
        self.pending.apply(turn);
        self.bytes += size::turn_bytes(turn);
        (self.turns, self.time, self.due) = (self.turns + 1, turn.time, None);
    }

    /// Whether it should continue as new.
    pub(crate) const fn is_long(&self, options: &HostOptions) -> bool {
        self.turns >= options.suggest_activations || self.bytes >= options.suggest_bytes
    }

    /// How the host ends it, if it is too long to continue.
    pub(crate) fn too_long(&self, options: &HostOptions, time: Time) -> Option<Ended> {
        if self.turns < options.activations_max && self.bytes < options.history_bytes_max {
            return None;
        }
        let message = format!(
            "the run's history has {} activations and about {} bytes, and {} and {} are allowed: continue as new earlier",
            self.turns, self.bytes, options.activations_max, options.history_bytes_max
        );
        let failure = Failure::non_retryable("HistoryTooLong", message);
        Some(Ended { status: RunStatus::Terminated, failure, time })
    }

    /// Whether its first event is in the log.
    pub(crate) const fn is_written(&self) -> bool {
        self.row.from > 0
    }
}

/// What the log says of a workflow.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) tail: Tail,
    pub(crate) open: Option<Box<OpenRun>>,
}

/// What a driver knows of its workflow.
#[derive(Debug)]
pub(crate) enum Lifecycle {
    /// Its log has to be read.
    Unread {
        /// Why the code of the open run could not continue, if it could not.
        stuck: Option<String>,
        /// The engine did not know whether the last event is written: what is read before it knows may be out of date.
        is_in_doubt: bool,
    },
    /// No run is open.
    Closed(Tail),
    /// A run is open.
    Open(Tail, Box<OpenRun>),
    /// A run is open whose code cannot continue, and why.
    Stuck(Tail, Box<OpenRun>, String),
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::Unread { stuck: None, is_in_doubt: false }
    }
}

impl Lifecycle {
    pub(crate) const fn is_unread(&self) -> bool {
        matches!(self, Self::Unread { .. })
    }

    pub(crate) const fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Unread { is_in_doubt: true, .. })
    }

    pub(crate) const fn tail(&self) -> Option<&Tail> {
        match self {
            Self::Unread { .. } => None,
            Self::Closed(tail) | Self::Open(tail, _) | Self::Stuck(tail, _, _) => Some(tail),
        }
    }

    pub(crate) const fn tail_mut(&mut self) -> Option<&mut Tail> {
        match self {
            Self::Unread { .. } => None,
            Self::Closed(tail) | Self::Open(tail, _) | Self::Stuck(tail, _, _) => Some(tail),
        }
    }

    /// The newest run that is written.
    pub(crate) fn newest(&self) -> Option<&RunRow> {
        self.tail()?.newest.as_ref()
    }

    /// The run that has not ended, stuck or not.
    pub(crate) fn run(&self) -> Option<&OpenRun> {
        match self {
            Self::Open(_, run) | Self::Stuck(_, run, _) => Some(run),
            Self::Unread { .. } | Self::Closed(_) => None,
        }
    }

    pub(crate) fn run_mut(&mut self) -> Option<&mut OpenRun> {
        match self {
            Self::Open(_, run) | Self::Stuck(_, run, _) => Some(run),
            Self::Unread { .. } | Self::Closed(_) => None,
        }
    }

    /// Why the open run's code cannot continue, if it cannot.
    pub(crate) fn stuck(&self) -> Option<&str> {
        match self {
            Self::Unread { stuck, .. } => stuck.as_deref(),
            Self::Stuck(_, _, reason) => Some(reason),
            Self::Closed(_) | Self::Open(..) => None,
        }
    }

    /// The log was read. A run that was stuck stays stuck until it is retried, or has ended.
    pub(crate) fn read(&mut self, Loaded { tail, open }: Loaded) {
        let stuck = self.take_stuck();
        *self = match (open, stuck) {
            (None, _) => Self::Closed(tail),
            (Some(run), None) => Self::Open(tail, run),
            (Some(run), Some(reason)) => Self::Stuck(tail, run, reason),
        };
    }

    fn take_stuck(&mut self) -> Option<String> {
        match std::mem::take(self) {
            Self::Unread { stuck, .. } => stuck,
            Self::Stuck(_, _, reason) => Some(reason),
            Self::Closed(_) | Self::Open(..) => None,
        }
    }

    /// What is in memory may differ from the log, which has to be read again.
    pub(crate) fn forget(&mut self) {
        let is_in_doubt = self.is_in_doubt();
        *self = Self::Unread { stuck: self.take_stuck(), is_in_doubt };
    }

    /// It is not known whether the last event is written: that has to be found out before the log is read.
    pub(crate) fn mark_in_doubt(&mut self) {
        *self = Self::Unread { stuck: self.take_stuck(), is_in_doubt: true };
    }

    /// It is known which events are written.
    pub(crate) const fn doubt_resolved(&mut self) {
        if let Self::Unread { is_in_doubt, .. } = self {
            *is_in_doubt = false;
        }
    }

    /// The open run's code cannot continue. What it has changed in memory is forgotten.
    pub(crate) fn mark_stuck(&mut self, reason: String) {
        let is_in_doubt = self.is_in_doubt();
        *self = Self::Unread { stuck: Some(reason), is_in_doubt };
    }

    /// A stuck run is retried. Says whether it was stuck.
    pub(crate) fn clear_stuck(&mut self) -> bool {
        if self.stuck().is_none() {
            return false;
        }
        let is_in_doubt = self.is_in_doubt();
        *self = Self::Unread { stuck: None, is_in_doubt };
        true
    }

    /// A run begins.
    pub(crate) fn open(&mut self, run: OpenRun) {
        if let Self::Closed(tail) = self {
            *self = Self::Open(std::mem::take(tail), Box::new(run));
        }
    }

    /// The open run has ended.
    pub(crate) fn close(&mut self) -> Option<OpenRun> {
        match std::mem::take(self) {
            Self::Open(tail, run) | Self::Stuck(tail, run, _) => {
                *self = Self::Closed(tail);
                Some(*run)
            }
            other => {
                *self = other;
                None
            }
        }
    }
}
