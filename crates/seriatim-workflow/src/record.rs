//! What a history keeps of a command.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::context::SIDE_EFFECT_ACTIVITY;
use crate::lineage::InputDigest;
use crate::meaning::{ValueDifference, first_difference, shown_input};
use crate::{Branch, Command, CommandKind, Kind, Path, Payload, SignalTarget, UpdateOutcome};

/// What is compared of a command on replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRecord {
    /// What it is.
    pub command: CommandKind,
    /// Kind and number of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<(Kind, u32)>,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
    /// Name of the activity, workflow, signal, patch or update; message of a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Digest of the input, or of the result.
    pub digest: InputDigest,
    /// The input, or the result, where it is compared and kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<Payload>,
    /// How long a timer runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Whom it goes to: task queue, child's id, signalled or cancelled workflow.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// The value of a side effect, so that replay finds the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
}

/// The target of a patch whose old code is gone.
const DEPRECATED: &str = "deprecated";

/// What names a command among those of its history, whatever is wrong with the rest of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Begins(Path),
    Ends(Path),
    Patch(String),
    UpdateAccepted(String),
    UpdateCompleted(String),
    RunEnds,
}

impl CommandRecord {
    /// What is compared of this command.
    #[must_use]
    pub fn of(command: &Command) -> Self {
        let mut record = Self {
            command: command.kind(),
            seq: command.seq(),
            path: command.path().cloned(),
            name: command.name().to_owned(),
            digest: command.lineage().map_or(InputDigest::NONE, |lineage| lineage.digest),
            input: input_of(command),
            duration: None,
            target: String::new(),
            value: None,
        };
        match command {
            Command::StartTimer { duration, .. } => record.duration = Some(*duration),
            Command::ScheduleActivity { options, .. } => record.target.clone_from(&options.task_queue),
            Command::StartChild { options, .. } => record.target.clone_from(&options.workflow_id),
            Command::SignalExternal { target, .. } => {
                record.target = match target {
                    SignalTarget::Workflow(execution) => {
                        format!("{}/{}", execution.workflow_id, execution.run_id)
                    }
                    SignalTarget::Child { workflow_id } => format!("child {workflow_id}"),
                }
            }
            Command::CancelExternal { target, .. } => {
                record.target = format!("{}/{}", target.workflow_id, target.run_id);
            }
            Command::SetPatch { deprecated: true, .. } => DEPRECATED.clone_into(&mut record.target),
            Command::RecordSideEffect { value, .. } => record.value = Some(value.clone()),
            Command::UpsertSearchAttributes { attributes: values, .. }
            | Command::ModifyMemo { memo: values, .. } => {
                record.target = values.keys().map(String::as_str).collect::<Vec<_>>().join(",");
            }
            Command::Fail { failure } => record.name.clone_from(&failure.message),
            Command::UpdateAccepted { protocol_id } | Command::UpdateRejected { protocol_id, .. } => {
                record.name.clone_from(protocol_id);
            }
            Command::UpdateCompleted { protocol_id, outcome } => {
                record.name.clone_from(protocol_id);
                if let UpdateOutcome::Failed { failure } = outcome {
                    record.target.clone_from(&failure.message);
                }
            }
            _ => {}
        }
        if command.lineage().is_none() {
            record.digest = InputDigest::of(&record.input);
        }
        record
    }

    /// The input, where it is known: it may have been left out.
    fn known_input(&self) -> Option<&[Payload]> {
        (!self.input.is_empty() || self.digest == InputDigest::NONE).then_some(&self.input)
    }

    /// Whether the inputs mean the same. Where one of them is not known, their digests say.
    fn is_same_input(&self, other: &Self) -> bool {
        match (self.known_input(), other.known_input()) {
            (Some(input), Some(other)) => first_difference(input, other).is_none(),
            _ => self.digest == other.digest,
        }
    }

    /// The first place at which the inputs differ, if both are known.
    #[must_use]
    pub fn first_difference(&self, actual: &Self) -> Option<ValueDifference> {
        first_difference(self.known_input()?, actual.known_input()?)
    }

    /// What its input is called: a command that ends something has a result.
    pub(crate) const fn input_name(&self) -> &'static str {
        match self.command {
            CommandKind::Complete | CommandKind::UpdateCompleted => "result",
            _ => "input",
        }
    }

    /// What names it in its history.
    pub(crate) fn key(&self) -> Key {
        let path = || self.path.clone().unwrap_or(Path { branch: Branch::main(), ordinal: 0 });
        match self.command {
            CommandKind::CancelTimer
            | CommandKind::CancelActivity
            | CommandKind::CancelLocalActivity
            | CommandKind::CancelChild
            | CommandKind::CancelSignal => Key::Ends(path()),
            CommandKind::SetPatch => Key::Patch(self.name.clone()),
            CommandKind::UpdateAccepted | CommandKind::UpdateRejected | CommandKind::QueryAnswer => {
                Key::UpdateAccepted(self.name.clone())
            }
            CommandKind::UpdateCompleted => Key::UpdateCompleted(self.name.clone()),
            CommandKind::Complete
            | CommandKind::Fail
            | CommandKind::Cancelled
            | CommandKind::ContinueAsNew => Key::RunEnds,
            CommandKind::StartTimer
            | CommandKind::ScheduleActivity
            | CommandKind::ScheduleLocalActivity
            | CommandKind::StartChild
            | CommandKind::SignalExternal
            | CommandKind::CancelExternal
            | CommandKind::RecordSideEffect
            | CommandKind::UpsertSearchAttributes
            | CommandKind::ModifyMemo => Key::Begins(path()),
        }
    }

    /// Whether code may leave it out: the mark of a patch whose old code is gone.
    pub(crate) fn is_optional(&self) -> bool {
        self.command == CommandKind::SetPatch && self.target == DEPRECATED
    }

    /// The branch whose order it belongs to.
    pub(crate) fn branch(&self) -> Branch {
        self.path.as_ref().map_or_else(Branch::main, |path| path.branch.clone())
    }

    /// The fields in which two records differ. If the kinds of command differ, only `Field::Command` is returned. Inputs are
    /// compared by meaning: the order of JSON keys does not matter. The value of a side effect is not compared, because it
    /// may differ.
    #[must_use]
    pub fn fields_that_differ(&self, other: &Self) -> Vec<Field> {
        if self.command != other.command {
            return vec![Field::Command];
        }
        let is_free = self.command == CommandKind::RecordSideEffect;
        let fields = [
            (Field::Name, self.name != other.name),
            (Field::Input, !is_free && !self.is_same_input(other)),
            (Field::Duration, self.duration != other.duration),
            // Whether a patch's old code is gone may change while runs are under way.
            (Field::Target, self.target != other.target && self.command != CommandKind::SetPatch),
        ];
        fields.into_iter().filter_map(|(field, differs)| differs.then_some(field)).collect()
    }
}

/// What is compared of a command's input, or of its result.
fn input_of(command: &Command) -> Vec<Payload> {
    match command {
        // A side effect's value may differ on replay; what counts is the recorded one.
        Command::ScheduleLocalActivity { activity_type, .. } if activity_type == SIDE_EFFECT_ACTIVITY => {
            Vec::new()
        }
        Command::ScheduleActivity { input, .. }
        | Command::ScheduleLocalActivity { input, .. }
        | Command::StartChild { input, .. }
        | Command::SignalExternal { input, .. } => input.clone(),
        Command::UpsertSearchAttributes { attributes: values, .. }
        | Command::ModifyMemo { memo: values, .. } => values.values().cloned().collect(),
        Command::Complete { result } => result.iter().cloned().collect(),
        Command::ContinueAsNew { options } => options.input.clone(),
        Command::UpdateCompleted { outcome: UpdateOutcome::Completed { result }, .. } => {
            vec![result.clone()]
        }
        _ => Vec::new(),
    }
}

impl fmt::Display for CommandRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.command)?;
        if let Some((_, seq)) = self.seq {
            write!(f, " {seq}")?;
        }
        if !self.name.is_empty() {
            write!(f, " {:?}", self.name)?;
        }
        if let Some(path) = &self.path {
            write!(f, " at {path}")?;
        }
        if let Some(duration) = self.duration {
            write!(f, " for {duration:?}")?;
        }
        if !self.target.is_empty() {
            write!(f, " to {}", self.target)?;
        }
        match self.known_input() {
            Some([]) => Ok(()),
            Some(input) => write!(f, " {} {}", self.input_name(), shown_input(input)),
            None => write!(f, " {} with SHA-256 {}", self.input_name(), self.digest.short()),
        }
    }
}

/// A part of a command that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// What it is.
    Command,
    /// Its name.
    Name,
    /// Its input or result.
    Input,
    /// How long a timer runs.
    Duration,
    /// Whom it goes to.
    Target,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command => "command",
            Self::Name => "name",
            Self::Input => "input",
            Self::Duration => "duration",
            Self::Target => "target",
        })
    }
}

/// The commands of a run's history, completion by completion.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recorded {
    pub(crate) completions: Vec<Vec<CommandRecord>>,
}

impl Recorded {
    /// Nothing has been recorded: the run is new.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds the next completion's commands. What does not belong into a history is left out.
    pub fn push(&mut self, commands: &[Command]) {
        let recorded = commands.iter().filter(|command| command.kind().is_recorded());
        self.completions.push(recorded.map(CommandRecord::of).collect());
    }

    /// How many completions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.completions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.completions.is_empty()
    }
}

impl<'a> FromIterator<&'a [Command]> for Recorded {
    fn from_iter<I: IntoIterator<Item = &'a [Command]>>(completions: I) -> Self {
        let mut recorded = Self::none();
        completions.into_iter().for_each(|commands| recorded.push(commands));
        recorded
    }
}
