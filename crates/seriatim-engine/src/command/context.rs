//! The code of an application's commands, and the context that it runs in.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use seriatim_sequencer::{DrawError, Transaction};
use seriatim_types::{ErrorKind, Number, RecordId, WorkspaceId, WorkspaceOffset};

use crate::command::codec::BadBytes;
use crate::command::event::{Argument, Change, Place, Row};
use crate::command::prepare::read_fields;
use crate::command::record::{Record, Registered};
use crate::command::value::Value;
use crate::command::view::{self, BadRow, KeyPart, ViewKeys};
use crate::definition::{DocumentKind, DocumentSchema, Schema};
use crate::derive::keys::{StoreKey, WorkspaceKeys};
use crate::derive::{DerivedState, Unread};
use crate::error::RequestError;

/// The code of a command. It decides what the command does. While it runs, no other command of its workspace runs.
///
/// The code does not wait and does no I/O. If it reads something that is not in memory, it is stopped with an error and
/// called again from the beginning when the value has been read. So it must have no effects other than those of the context,
/// and must return every error of the context with `?`.
pub trait Command: Send + Sync + 'static {
    /// Runs the command. The returned value is [`Answer::result`](crate::Answer::result).
    ///
    /// # Errors
    ///
    /// [`CommandError`]: the command is refused. It uses no number and changes nothing.
    fn run(&self, context: &mut Context<'_, '_>) -> Result<Json, CommandError>;

    /// Rows of views, by view and key, that the command or its projectors always read with these arguments. The engine reads
    /// them before the command's turn. A row that is not listed here is read too, and then the command needs another turn.
    fn reads(&self, args: &Json) -> Vec<(&'static str, Vec<KeyPart>)> {
        let _ = args;
        Vec::new()
    }
}

impl<F> Command for F
where
    F: Fn(&mut Context<'_, '_>) -> Result<Json, CommandError> + Send + Sync + 'static,
{
    fn run(&self, context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
        self(context)
    }
}

impl fmt::Debug for dyn Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// The request is not valid.
    #[error("{0}")]
    Invalid(String),
    /// Something that the command needs does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The state is not as the command requires.
    #[error("{0}")]
    Conflict(String),
    /// This is a restored copy, and what is named may have been given out after its backup.
    #[error("{0} is fenced")]
    Fenced(String),
    /// No number was drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// A stored value is damaged.
    #[error("the value at {key} is damaged: {problem}")]
    Damaged {
        /// Its key.
        key: StoreKey,
        /// What is wrong.
        problem: BadBytes,
    },
    /// A stored row does not have the fields that it must have.
    #[error(transparent)]
    BadRow(#[from] BadRow),
    /// A value has to be read from the store first. Return this error: the engine reads the value and runs the command again.
    #[error("a value has to be read from the store first")]
    #[non_exhaustive]
    Unread,
}

impl CommandError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Conflict(_) => ErrorKind::Conflict,
            Self::Fenced(_) => ErrorKind::Fenced,
            Self::Draw(error) => error.kind(),
            Self::Damaged { .. } | Self::BadRow(_) => ErrorKind::Corrupt,
            Self::Unread => ErrorKind::Busy,
        }
    }
}

impl From<Unread> for CommandError {
    fn from(Unread: Unread) -> Self {
        Self::Unread
    }
}

impl From<RequestError> for CommandError {
    fn from(error: RequestError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// The state that a command reads, and the changes that it makes.
///
/// Nothing is written while the code runs. If the code succeeds, all changes and draws become one event; if it fails, none of
/// them happens.
#[derive(Debug)]
pub struct Context<'c, 'g> {
    pub(crate) schema: &'c Schema,
    pub(crate) place: Place,
    pub(crate) keys: WorkspaceKeys,
    pub(crate) transaction: &'c mut Transaction<'g>,
    pub(crate) state: DerivedState<'c>,
    pub(crate) args: &'c Json,
    pub(crate) unlogged: Option<&'c Json>,
    pub(crate) argument: &'c Argument,
    pub(crate) changes: &'c mut Vec<Change>,
}

impl<'c> Context<'c, '_> {
    /// The definition.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.schema
    }

    /// The place of its event, and the time that the event will have.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// The workspace.
    #[must_use]
    pub fn workspace(&self) -> WorkspaceId {
        self.place.workspace
    }

    /// The offset of its event in the workspace's log.
    #[must_use]
    pub fn offset(&self) -> WorkspaceOffset {
        self.place.workspace_offset
    }

    /// The argument as a typed value, for the commands of built-in applications.
    pub(crate) fn args_as<T: DeserializeOwned>(&self) -> Result<T, CommandError> {
        T::deserialize(self.args()).map_err(|error| CommandError::Invalid(error.to_string()))
    }

    /// The argument as it was sent.
    #[must_use]
    pub fn args(&self) -> &Json {
        self.args
    }

    /// The argument that the event does not keep.
    #[must_use]
    pub fn unlogged_args(&self) -> Option<&Json> {
        self.unlogged
    }

    /// The document of the argument and its child records, with real ids. Empty if the argument is not a document.
    #[must_use]
    pub fn document(&self) -> &[Row] {
        match self.argument {
            Argument::Document(rows) => rows,
            Argument::None | Argument::Json(_) => &[],
        }
    }

    /// The changes so far: those of the request, with real ids, then those of this code.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        self.changes
    }

    fn stored<T>(
        &mut self,
        key: &StoreKey,
        decode: impl FnOnce(&[u8]) -> Result<T, BadBytes>,
    ) -> Result<Option<T>, CommandError> {
        let bytes = self.state.find(key)?.into_value();
        let decoded = bytes.map(|bytes| decode(&bytes)).transpose();
        decoded.map_err(|problem| CommandError::Damaged { key: key.clone(), problem })
    }

    /// The type of a record, and the event that created it; `None` if no record has the id.
    ///
    /// # Errors
    ///
    /// [`CommandError`]: return it with `?`.
    pub fn registered(&mut self, id: RecordId) -> Result<Option<Registered>, CommandError> {
        let key = self.keys.id(id);
        self.stored(&key, Registered::decode)
    }

    /// A record as it was before this command.
    ///
    /// # Errors
    ///
    /// [`CommandError`]: return it with `?`.
    pub fn record(&mut self, id: RecordId) -> Result<Option<Record>, CommandError> {
        let Some(registered) = self.registered(id)? else { return Ok(None) };
        let Some(document) = self.schema.document(registered.document) else { return Ok(None) };
        let key = self.keys.record(document.kind, document.id, id);
        self.stored(&key, |bytes| Record::decode(registered.document, id, bytes))
    }

    /// A row of a view as it was before this command.
    ///
    /// # Errors
    ///
    /// [`CommandError`]: return it with `?`.
    pub fn row(&mut self, view: &str, key: &[KeyPart]) -> Result<Option<Json>, CommandError> {
        let key = ViewKeys::new(self.keys, view).row(key);
        let row = self.stored(&key, view::decode_row)?;
        Ok(row.and_then(|(_, row)| row))
    }

    /// A row of a view as it was before this command, as a typed value.
    pub(crate) fn read<T: DeserializeOwned>(
        &mut self,
        view: &str,
        key: &[KeyPart],
    ) -> Result<Option<T>, CommandError> {
        let row = self.row(view, key)?;
        Ok(row.map(|row| view::read_row(view, key, row)).transpose()?)
    }

    /// Draws the next number of a sequence. If the command fails, the number is not used.
    ///
    /// # Errors
    ///
    /// [`CommandError`]: return it with `?`.
    pub fn draw(&mut self, sequence: &str) -> Result<Number, CommandError> {
        let id = self.sequence(sequence)?;
        Ok(self.transaction.draw(id)?)
    }

    /// The number of a sequence that is drawn next.
    ///
    /// # Errors
    ///
    /// [`CommandError`]: return it with `?`.
    pub fn next(&self, sequence: &str) -> Result<Number, CommandError> {
        Ok(self.transaction.next(self.sequence(sequence)?)?)
    }

    /// Makes a sequence continue from `next`. The event contains the raise.
    ///
    /// # Errors
    ///
    /// [`CommandError`]: return it with `?`.
    pub fn raise(&mut self, sequence: &str, next: Number) -> Result<(), CommandError> {
        let id = self.sequence(sequence)?;
        Ok(self.transaction.raise(id, next)?)
    }

    fn sequence(&self, name: &str) -> Result<seriatim_types::SequenceId, CommandError> {
        let sequence = self.schema.sequence_by_name(name);
        let sequence =
            sequence.ok_or_else(|| CommandError::Invalid(format!("sequence {name} is not defined")))?;
        Ok(sequence.id)
    }

    /// Creates a record, or a child record of `parent`, and returns its id.
    ///
    /// # Errors
    ///
    /// [`CommandError`]: return it with `?`.
    pub fn create(
        &mut self,
        document: &str,
        parent: Option<RecordId>,
        fields: &Map<String, Json>,
    ) -> Result<RecordId, CommandError> {
        let document = self.find_document(document)?;
        if document.kind == DocumentKind::O {
            return Err(RequestError::OnlyAsArgument(document.name.to_string()).into());
        }
        let mut fields = read_fields(document, fields, true)?;
        let id = match document.singleton {
            Some(id) if self.creates(id) || self.registered(id)?.is_some() => {
                return Err(CommandError::Conflict(format!("{} exists already", document.name)));
            }
            Some(id) => id,
            None => RecordId::new(self.transaction.draw(document.record_sequence)?.get()),
        };
        draw_fields(document, self.transaction, &mut fields)?;
        let document = document.id;
        self.changes.push(Change::Create(Row { document, id, raw: None, parent, fields }));
        Ok(id)
    }

    /// Changes fields of a record.
    ///
    /// # Errors
    ///
    /// [`CommandError`]: return it with `?`.
    pub fn update(&mut self, id: RecordId, fields: &Map<String, Json>) -> Result<(), CommandError> {
        let registered = self.registered(id)?;
        let registered =
            registered.ok_or_else(|| CommandError::NotFound(format!("record {id} does not exist")))?;
        let document = self.schema.document(registered.document);
        let document = document.ok_or_else(|| {
            CommandError::NotFound(format!("the definition no longer has the type of record {id}"))
        })?;
        if document.kind == DocumentKind::O {
            return Err(RequestError::NotUpdatable { id, document: document.name.to_string() }.into());
        }
        let fields = read_fields(document, fields, false)?;
        self.changes.push(Change::Update(Row { document: document.id, id, raw: None, parent: None, fields }));
        Ok(())
    }

    /// Whether this command creates a record with this id.
    fn creates(&self, id: RecordId) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Create(row) if row.id == id))
    }

    fn find_document(&self, name: &str) -> Result<&'c DocumentSchema, CommandError> {
        let document = self.schema.document_by_name(name);
        document.ok_or_else(|| CommandError::Invalid(format!("document {name} is not defined")))
    }
}

/// The result of a command of a built-in application, from a typed value.
pub(crate) fn answer(result: &impl Serialize) -> Result<Json, CommandError> {
    serde_json::to_value(result).map_err(|error| CommandError::Invalid(error.to_string()))
}

/// Draws the numbers of a new record's fields.
pub(crate) fn draw_fields(
    document: &DocumentSchema,
    transaction: &mut Transaction<'_>,
    fields: &mut Vec<(crate::definition::FieldId, Value)>,
) -> Result<(), DrawError> {
    for field in document.fields.iter().filter(|field| !field.retired) {
        let Some(sequence) = field.draw else { continue };
        let number = transaction.draw(sequence)?;
        // A field holds a signed integer, so numbers above its range cannot be used.
        let value = i64::try_from(number.get()).map_err(|_| DrawError::Exhausted { sequence })?;
        // No request sets such a field, so a value that is present was set by an earlier turn.
        match fields.iter_mut().find(|(id, _)| *id == field.id) {
            Some((_, drawn)) => *drawn = Value::Integer(value),
            None => fields.push((field.id, Value::Integer(value))),
        }
    }
    Ok(())
}
