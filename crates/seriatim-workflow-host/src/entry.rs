//! What one event of a workflow says.
//!
//! ```text
//! begins?   the run that begins with this event, and how
//! start?    its start, where its first activation is still to come
//! turns     activations with their jobs and the commands that answered them; several where local activities were quick
//! retries   activities that have failed and will be tried again
//! attempts  attempts of activities that have begun, and what their last heartbeats said
//! arrived   what the run's code could not react to yet: activities that have ended, signals before its first activation
//! ended?    how the host has ended the run
//! next?     the run that continues this one
//! v         the format, 1; events of older versions have none
//! delivered all messages of the run, which had ended before, are delivered
//! ```

use serde::{Deserialize, Serialize};
use serde_json::Value;
use seriatim_workflow::{Command, Failure, Job, ParentClosePolicy, Payload, Start, Time};

use crate::application::RunStatus;

/// One event of a workflow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Entry {
    /// The run that it is about.
    pub run: u64,
    /// What the run brings with it, if it begins with this event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins: Option<Begins>,
    /// How it begins, if its first activation is still to come: its code could not be run, or its start has a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Box<Start>>,
    /// Activations, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// Attempts that have failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<Retry>,
    /// Attempts that have begun, or given a sign of life.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempted>,
    /// What the run's code could not react to yet: it is durable, and part of a turn later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrived: Vec<Job>,
    /// How the host has ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The run that continues it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    /// The run had ended with messages to others that were not delivered: all of them are delivered now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delivered: bool,
}

/// What a run brings with it besides its start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Begins {
    /// The operation that it is the child of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentLink>,
    /// When the run, and those that continue it, have to be over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
}

/// The operation of another run that a run is the child of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentLink {
    /// The parent's workspace.
    pub workspace: u64,
    /// The parent's run.
    pub run: u64,
    /// The number of the child in it.
    pub seq: u32,
    /// What happens to the child when the parent ends.
    pub policy: ParentClosePolicy,
}

/// One activation and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// What the run's clock showed.
    pub time: Time,
    /// The activation suggested to continue as new.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suggested: bool,
    /// What had happened.
    pub jobs: Vec<Job>,
    /// What the run asked for.
    pub commands: Vec<Command>,
}

/// An activity that has failed and will be tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// The activity's number.
    pub activity: u32,
    /// The attempt that comes next.
    pub attempt: u32,
    /// When.
    pub at: Time,
    /// Why the last one failed.
    pub failure: Failure,
    /// What its last heartbeat said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Payload>,
}

/// An attempt of an activity that has begun, or given a sign of life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempted {
    /// The activity's number.
    pub activity: u32,
    /// The attempt.
    pub attempt: u32,
    /// What its last heartbeat said; none: it begins. A host that finds an attempt begun and not ended counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Vec<Payload>>,
}

/// How a host ends a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// What it counts as.
    pub status: RunStatus,
    /// Why.
    pub failure: Failure,
    /// When.
    pub time: Time,
}

/// A run that continues another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Next {
    /// Its number.
    pub run: u64,
    /// When its first activation is due.
    pub at: Time,
    /// How it begins.
    pub start: Box<Start>,
    /// What it brings with it.
    pub begins: Begins,
}

/// Why an event of a workflow cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// A newer version has written it.
    #[error(
        "it is in format {found}, and this version reads formats up to {known}: use the version that wrote it, or a newer one"
    )]
    Newer {
        /// Its format.
        found: u64,
        /// The newest that is known here.
        known: u64,
    },
    /// It is not what an event of a workflow says.
    #[error("{0}")]
    Unreadable(String),
}

impl Entry {
    /// The format in which events are written. 0 is what has no number.
    pub const FORMAT: u64 = 1;

    /// As it is stored.
    ///
    /// # Errors
    ///
    /// If it has no form in JSON.
    pub fn to_body(&self) -> Result<Value, serde_json::Error> {
        let mut body = serde_json::to_value(self)?;
        if let Value::Object(fields) = &mut body {
            fields.insert("v".to_owned(), Self::FORMAT.into());
        }
        Ok(body)
    }

    /// From what is stored, in this format or an older one.
    ///
    /// # Errors
    ///
    /// [`BadEntry`].
    pub fn from_body(body: Value) -> Result<Self, BadEntry> {
        let found = body.get("v").map_or(Some(0), Value::as_u64);
        match found {
            Some(0..=Self::FORMAT) => {}
            Some(found) => return Err(BadEntry::Newer { found, known: Self::FORMAT }),
            None => return Err(BadEntry::Unreadable("its format is no number".to_owned())),
        }
        serde_json::from_value(body).map_err(|error| BadEntry::Unreadable(error.to_string()))
    }
}

impl Turn {
    /// The command that ends the run.
    #[must_use]
    pub fn end(&self) -> Option<&Command> {
        self.commands.last().filter(|command| command.kind().ends_the_run())
    }
}
