//! The kinds of operation that are numbered, and their numbers.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What an operation is. A command is named by its kind and its number, never by a number alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A timer.
    Timer,
    /// An activity.
    Activity,
    /// An activity that runs in the worker itself.
    LocalActivity,
    /// A child workflow: one number for both of its phases, start and result.
    ChildWorkflow,
    /// A signal to another workflow.
    ExternalSignal,
    /// A request to cancel another workflow.
    ExternalCancel,
}

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 6] = [
        Self::Timer,
        Self::Activity,
        Self::LocalActivity,
        Self::ChildWorkflow,
        Self::ExternalSignal,
        Self::ExternalCancel,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timer => "timer",
            Self::Activity => "activity",
            Self::LocalActivity => "local activity",
            Self::ChildWorkflow => "child workflow",
            Self::ExternalSignal => "external signal",
            Self::ExternalCancel => "external cancel",
        })
    }
}

/// A kind as a type, so that a number of one kind cannot be used for another.
pub trait NumberedKind: Copy + Ord + Send + Sync + 'static {
    /// The kind as a value.
    const KIND: Kind;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident, $alias:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {}

        impl NumberedKind for $name {
            const KIND: Kind = Kind::$name;
        }

        #[doc = concat!("The number of one [`", stringify!($name), "`].")]
        pub type $alias = CommandSeq<$name>;
    )*};
}

kinds! {
    /// The kind of timers, as a type.
    Timer, TimerSeq;
    /// The kind of activities, as a type.
    Activity, ActivitySeq;
    /// The kind of local activities, as a type.
    LocalActivity, LocalActivitySeq;
    /// The kind of child workflows, as a type.
    ChildWorkflow, ChildWorkflowSeq;
    /// The kind of signals to other workflows, as a type.
    ExternalSignal, ExternalSignalSeq;
    /// The kind of requests to cancel other workflows, as a type.
    ExternalCancel, ExternalCancelSeq;
}

/// The number that matches a command of kind `K` with its response.
///
/// Numbers of a run start at 1 per kind. Zero and gaps are legal on input: old histories have them.
///
/// ```compile_fail
/// use seriatim_workflow::kind::{ActivitySeq, TimerSeq};
/// let timer: TimerSeq = ActivitySeq::new(1); // a number of one kind is not a number of another
/// ```
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandSeq<K>(u32, #[serde(skip)] PhantomData<fn() -> K>);

impl<K> Clone for CommandSeq<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for CommandSeq<K> {}

impl<K> CommandSeq<K> {
    /// The number that a run gives out first.
    pub const FIRST: Self = Self::new(1);

    /// The number with this value, as read from a history.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value, PhantomData)
    }

    /// The value.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<K: NumberedKind> CommandSeq<K> {
    /// The number after this one.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] before the number would be 2^32.
    pub fn next(self) -> Result<Self, Exhausted> {
        self.0.checked_add(1).map(Self::new).ok_or(Exhausted { kind: K::KIND })
    }
}

impl<K: NumberedKind> fmt::Debug for CommandSeq<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<K: NumberedKind> fmt::Display for CommandSeq<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", K::KIND, self.0)
    }
}

/// A run has used all numbers of a kind. It cannot continue; continue as new before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("the run has used all {kind} numbers below 2^32: continue as new before that")]
pub struct Exhausted {
    /// The kind whose numbers are used up.
    pub kind: Kind,
}
