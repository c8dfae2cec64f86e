//! What can go wrong with a command.

use seriatim_blocks::AllocateError;
use seriatim_sequencer::{Busy, DrawError, LoadError, StageError, StopReason};
use seriatim_storage::{AppendError, Holder, LogError, StoreError};
use seriatim_types::{ErrorKind, Partition, RecordId, WorkspaceId};

use crate::command::apply::ApplyError;
use crate::command::view::BadRow;
use crate::derive::keys::StoreKey;

/// What is wrong with a request. Nothing was done. Correct the request and send it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No such command.
    #[error("command {0} is not defined")]
    UnknownCommand(String),
    /// The command does not belong to the workspace's kind.
    #[error("workspaces of kind {kind} do not have command {command}")]
    CommandNotHere {
        /// The command.
        command: String,
        /// The kind.
        kind: String,
    },
    /// No such document.
    #[error("document {0} is not defined")]
    UnknownDocument(String),
    /// The document does not belong to the workspace's kind.
    #[error("workspaces of kind {kind} do not have document {document}")]
    DocumentNotHere {
        /// The document.
        document: String,
        /// The kind.
        kind: String,
    },
    /// No such field.
    #[error("document {document} has no field {field}")]
    UnknownField {
        /// The document.
        document: String,
        /// The field.
        field: String,
    },
    /// A value of another type.
    #[error("field {field} of document {document} takes {expected}, not {found}")]
    WrongType {
        /// The document.
        document: String,
        /// The field.
        field: String,
        /// What it takes.
        expected: &'static str,
        /// What was sent.
        found: String,
    },
    /// A field that has to be there.
    #[error("field {field} of document {document} is required")]
    MissingField {
        /// The document.
        document: String,
        /// The field.
        field: String,
    },
    /// A number that the sequence gives, not the client.
    #[error("field {field} of document {document} is drawn from a sequence: leave it out")]
    DrawnField {
        /// The document.
        document: String,
        /// The field.
        field: String,
    },
    /// A create with an id that is not raw.
    #[error("a create takes a raw id from 1 to 65535, not {0}: the real one is in the answer")]
    NotRaw(u64),
    /// Two creates with the same raw id.
    #[error("raw id {0} is used twice")]
    RawTwice(u64),
    /// A raw id that nothing in the command creates.
    #[error("raw id {0} is not created by this command")]
    DanglingRaw(u64),
    /// An id of no record.
    #[error("record {0} does not exist in this workspace")]
    UnknownRecord(RecordId),
    /// A reference to something else than the field takes.
    #[error("field {field} of document {document} refers to {expected}, and record {id} is a {found}")]
    WrongReference {
        /// The document.
        document: String,
        /// The field.
        field: String,
        /// What it refers to.
        expected: String,
        /// The id.
        id: RecordId,
        /// What the id leads to.
        found: String,
    },
    /// A child record without a parent, or with one that is not its.
    #[error("document {document} is a child of {expected}: its parent has to be one")]
    WrongParent {
        /// The document.
        document: String,
        /// What its parent has to be.
        expected: String,
    },
    /// A parent for a document that has none.
    #[error("document {0} is not a child record: leave its parent out")]
    NoParent(String),
    /// A document that is stored in its event.
    #[error("record {id} is a {document}, an O document: it is part of its event and cannot be updated")]
    NotUpdatable {
        /// The id.
        id: RecordId,
        /// The document.
        document: String,
    },
    /// A document of a kind that is not created by itself.
    #[error("document {0} is an O document: it is created as a command's argument")]
    OnlyAsArgument(String),
    /// The argument is missing, or there should be none, or it is not what it should be.
    #[error("command {command}: {problem}")]
    Argument {
        /// The command.
        command: String,
        /// What is wrong.
        problem: String,
    },
    /// A change that is neither a create nor an update, or both.
    #[error(
        "change {0} has to have either \"create\" with a document's name or \"update\" with a record's id"
    )]
    NoChange(usize),
    /// More than a command may do.
    #[error("a command may have {max} {what}, this one has {found}: send less at once")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        max: usize,
        /// How many there are.
        found: usize,
    },
    /// A command that does nothing.
    #[error("the command changes nothing: send at least one change")]
    Nothing,
    /// An idempotency key that is empty or too long.
    #[error("an idempotency key has 1 to {max} bytes, this one has {found}")]
    BadKey {
        /// How long it may be.
        max: usize,
        /// How long it is.
        found: usize,
    },
    /// A name with other characters than it may have, or too many, or none.
    #[error("a {what} has a name of 1 to {max} of A-Z a-z 0-9 . _ -, not {name:?}")]
    BadName {
        /// What is named.
        what: &'static str,
        /// How many characters it may have.
        max: usize,
        /// The name, or the beginning of it.
        name: String,
    },
    /// The application's own code refuses it.
    #[error("{0}")]
    Refused(String),
}

/// Why a command was not done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// No such application.
    #[error("application {0} does not exist")]
    UnknownApplication(String),
    /// No such workspace.
    #[error("workspace {0} does not exist in this application")]
    UnknownWorkspace(WorkspaceId),
    /// The request is wrong.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Something that the command needs is not there.
    #[error("{0}")]
    NotFound(String),
    /// The workspace has another last event than the command expected.
    #[error(
        "workspace {workspace} is at offset {found}, not {expected}: read it again and repeat the command"
    )]
    Moved {
        /// The workspace.
        workspace: WorkspaceId,
        /// The offset that the command expected to follow.
        expected: u64,
        /// The offset that it would have followed; 0 if there is no event yet.
        found: u64,
    },
    /// A singleton exists already.
    #[error("{document} is a singleton and exists already: update record {id}")]
    SingletonExists {
        /// The document.
        document: String,
        /// Its id.
        id: RecordId,
    },
    /// The idempotency key was used for another request.
    #[error("idempotency key {0} was used for another request here before: use a new one")]
    KeyReused(String),
    /// The application's own code reports a conflict.
    #[error("{0}")]
    Conflict(String),
    /// The store already has a value at the key of the next number.
    #[error(
        "the store has a value at {key} that no event explains, where the next {what} goes: run `seriatim doctor --repair`"
    )]
    Taken {
        /// What was to be written there.
        what: &'static str,
        /// The key.
        key: StoreKey,
    },
    /// The partition did not finish its commands in time.
    #[error("partition {partition} did not finish its commands within {within:?}: try again after a moment")]
    NotIdle {
        /// The partition.
        partition: String,
        /// How long the caller waited.
        within: std::time::Duration,
    },
    /// No number was drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// The event is too large, or offsets are used up.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// A value that is derived from the command would be too large to be stored. Nothing was written.
    #[error("{what} would have {found} bytes, and {max} are allowed: store less in it, or divide it")]
    TooLarge {
        /// What would be too large.
        what: String,
        /// How many bytes it may have.
        max: usize,
        /// How many it would have.
        found: usize,
    },
    /// The workspace could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No group can be opened at the moment: the partition is recovering, or too much is unflushed.
    #[error("server is busy: {0}")]
    Busy(#[from] Busy),
    /// The queue of the partition is full.
    #[error("server is busy: {0} commands wait in this partition; try again after a moment")]
    QueueFull(usize),
    /// The commands in the queue have too many bytes.
    #[error("server is busy: commands of {0} bytes wait in this partition; try again after a moment")]
    QueueBytesFull(usize),
    /// The partition has stopped and accepts no more commands.
    #[error("partition {partition} has stopped: {reason}")]
    Stopped {
        /// The partition.
        partition: String,
        /// Why.
        reason: String,
    },
    /// Another engine owns the partition, or none does. Nothing was written. Send the command to the holder.
    #[error("partition {partition} is not owned by this engine{}", held_by(holder.as_ref()))]
    NotHere {
        /// The partition.
        partition: String,
        /// The name of the holder, if it is known.
        holder: Option<Holder>,
    },
    /// The log has refused the command.
    #[error(transparent)]
    Append(AppendError),
    /// The log did not write the command.
    #[error("the log did not take the command, and nothing was written: try again; {0}")]
    NotWritten(String),
    /// The command may or may not have been executed.
    #[error("it is not known whether the command happened: repeat it with the same idempotency key; {0}")]
    InDoubt(String),
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored value cannot be read, or a projector refuses the event.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A stored row does not have a field that it must have.
    #[error(transparent)]
    BadRow(#[from] BadRow),
    /// The storage is fenced: it is a restored copy, or its log has lost events.
    #[error(
        "this is a restored copy, or its log has lost events, and {0} may have been given out before: `seriatim unfence` says how far"
    )]
    Fenced(String),
    /// No numbers were allocated from a block sequence.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// A command's code has panicked.
    #[error("defect in command {command}: {reason}")]
    Panicked {
        /// The command.
        command: String,
        /// What the panic said.
        reason: String,
    },
    /// The engine is closed.
    #[error("the engine is closed")]
    Closed,
}

impl SubmitError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownApplication(_) | Self::UnknownWorkspace(_) | Self::NotFound(_) => {
                ErrorKind::NotFound
            }
            Self::Request(_) => ErrorKind::Invalid,
            Self::Moved { .. }
            | Self::SingletonExists { .. }
            | Self::KeyReused(_)
            | Self::Conflict(_)
            | Self::Taken { .. } => ErrorKind::Conflict,
            Self::Draw(error) => error.kind(),
            Self::Stage(error) => error.kind(),
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Load(error) => error.kind(),
            Self::Busy(busy) => busy.kind(),
            Self::QueueFull(_) | Self::QueueBytesFull(_) | Self::NotIdle { .. } => ErrorKind::Busy,
            Self::Stopped { .. } | Self::NotWritten(_) | Self::NotHere { .. } => ErrorKind::Unavailable,
            Self::Append(error) => error.kind(),
            Self::InDoubt(_) => ErrorKind::InDoubt,
            Self::Log(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Apply(ApplyError::Projector { .. }) => ErrorKind::Invalid,
            Self::Apply(_) | Self::BadRow(_) => ErrorKind::Corrupt,
            Self::Fenced(_) => ErrorKind::Fenced,
            Self::Allocate(error) => error.kind(),
            Self::Panicked { .. } => ErrorKind::Internal,
            Self::Closed => ErrorKind::Closed,
        }
    }
}

/// The error of a partition that its sequencer has stopped, with the sequencer's reason.
pub(crate) fn stopped(partition: Partition, reason: &StopReason) -> SubmitError {
    SubmitError::Stopped { partition: partition.to_string(), reason: reason.to_string() }
}

/// The error of a partition that another engine owns.
pub(crate) fn not_here(partition: Partition, holder: Option<Holder>) -> SubmitError {
    let holder = holder.filter(|holder| *holder != Holder::unnamed());
    SubmitError::NotHere { partition: partition.to_string(), holder }
}

fn held_by(holder: Option<&Holder>) -> String {
    holder.map(|holder| format!("; another owner has taken over: {holder}")).unwrap_or_default()
}
